//! What frames carry for their senders besides bytes: time stamps, INT records, PINT's load code.
//!
//! A frame keeps its record of the slab from sender to receiver and back as an acknowledgement, so what it carries
//! lies beside the slab, by the same index.
use weir_dataplane::types::Nanos;
use weir_endpoint::congestion::pint::{Departure, LibcRand, PortLoad};
use weir_endpoint::congestion::telemetry::{IntHop, PUBLISHED_CODES, Stamp, rate_code};

use super::config::{BuildError, Control, Topology};

/// What a switch keeps of a port.
#[derive(Clone, Copy, Debug, Default)]
struct PortCount {
    code: u8,
    rate: u64,
    sent: u64,
    queued: u64,
    load: PortLoad,
}

/// What switches write.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Nothing: frames carry the time they were sent.
    Time,
    /// An INT record each; multiplier of its units.
    Int(u64),
    /// The largest load code of the path.
    Pint { base_rtt: Nanos, log_base: f64 },
}

/// Stamps of all frames, and counters of all ports.
#[derive(Debug)]
pub struct Telemetry {
    mode: Mode,
    epoch: Nanos,
    stamps: Vec<Stamp>,
    ports: Box<[PortCount]>,
    rand: LibcRand,
}

impl Telemetry {
    /// What `control` needs; `None`: nothing.
    ///
    /// # Errors
    /// A link whose rate has no code in an INT record.
    pub fn new(
        control: &Control,
        topology: &Topology,
        base_rtt: Nanos,
        epoch: Nanos,
    ) -> Result<Option<Box<Self>>, BuildError> {
        let mode = match *control {
            Control::None | Control::Dcqcn(_) | Control::Dctcp(_) => return Ok(None),
            Control::Timely(_) => Mode::Time,
            Control::Hpcc(p) => Mode::Int(p.int_multi.max(1)),
            Control::Pint(p) => Mode::Pint { base_rtt, log_base: p.log_base },
        };
        let mut ports = Vec::new();
        for (i, link) in topology.links.iter().enumerate() {
            let code = rate_code(link.rate).filter(|code| *code < PUBLISHED_CODES);
            if code.is_none() && matches!(mode, Mode::Int(_)) {
                return Err(BuildError::IntRate(i, link.rate));
            }
            let count = PortCount { code: code.unwrap_or(0), rate: link.rate, ..PortCount::default() };
            ports.extend([count; 2]);
        }
        let rand = LibcRand::default();
        Ok(Some(Box::new(Self { mode, epoch, stamps: Vec::new(), ports: ports.into(), rand })))
    }

    /// Record `index` is a new frame, sent now.
    pub fn begin(&mut self, index: u32, now: Nanos) {
        let index = index as usize;
        if index >= self.stamps.len() {
            self.stamps.resize(index + 1, Stamp::default());
        }
        self.stamps[index] = Stamp::new(now);
    }

    /// What record `index` carries.
    pub fn stamp(&self, index: u32) -> Stamp {
        self.stamps.get(index as usize).copied().unwrap_or_default()
    }

    /// A frame waits at a switch port from now on.
    #[inline]
    pub fn queued(&mut self, port: u32, bytes: u16) {
        self.ports[port as usize].queued += u64::from(bytes);
    }

    /// And no longer.
    #[inline]
    pub fn dequeued(&mut self, port: u32, bytes: u16) {
        let queued = &mut self.ports[port as usize].queued;
        *queued = queued.saturating_sub(bytes.into());
    }

    /// A port of a switch or host begins to send a frame of any kind.
    #[inline]
    pub fn sent(&mut self, port: u32, bytes: u16, now: Nanos) {
        let p = &mut self.ports[port as usize];
        p.sent += u64::from(bytes);
        p.load.sent(bytes.into(), self.epoch + now);
    }

    /// Data frame `index` is about to leave a switch by `port`.
    pub fn pass(&mut self, index: u32, port: u32, now: Nanos) {
        let (p, now) = (&mut self.ports[port as usize], self.epoch + now);
        let Some(stamp) = self.stamps.get_mut(index as usize) else { return };
        match self.mode {
            Mode::Time => {}
            Mode::Int(multiplier) => {
                stamp.push(IntHop::new(p.code, now, p.sent, p.queued, multiplier));
            }
            Mode::Pint { base_rtt, log_base } => {
                let d = Departure { now, rate_bps: p.rate, queued: p.queued, base_rtt, log_base };
                let rand = &mut self.rand;
                stamp.raise(p.load.stamp(&d, &mut || rand.draw()));
            }
        }
    }

    /// The draw that an acknowledgement takes: one each with PINT, else none.
    pub fn draw(&mut self) -> u32 {
        if matches!(self.mode, Mode::Pint { .. }) { self.rand.draw() } else { 0 }
    }
}
