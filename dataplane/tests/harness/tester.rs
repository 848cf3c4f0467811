//! What stands at the far end of a link: sends flows, obeys PFC after a delay, storms, and counts what arrives.

use super::build::dscp;
use super::frames::{host, ipv4, stamp, stamp_of};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::types::{Mac, Nanos, PRIORITIES};

/// A stream of frames.
#[derive(Clone, Debug)]
pub struct Flow {
    pub id: u32,
    pub to: Mac,
    pub priority: u8,
    pub ecn: u8,
    /// DSCP of its frames, if not that of the priority.
    pub dscp: Option<u8>,
    /// Frame lengths without FCS, used in turn.
    pub lens: Vec<usize>,
    /// Wire rate in bit/s; `None` sends whenever the link is free.
    pub rate: Option<u64>,
    pub start: Nanos,
    pub stop: Nanos,
    /// Most frames.
    pub count: u64,
    pub sent: u64,
    pub next_at: Nanos,
    /// Wire bits since the rate was set, and when that was: pacing without drift.
    paced: (u64, Nanos),
}

impl Flow {
    /// Greedy, without end, from the beginning.
    pub fn new(to: u16, priority: u8, len: usize) -> Self {
        Self {
            id: 0,
            to: host(to),
            priority,
            ecn: 2,
            dscp: None,
            lens: vec![len],
            rate: None,
            start: 0,
            stop: Nanos::MAX,
            count: u64::MAX,
            sent: 0,
            next_at: 0,
            paced: (0, 0),
        }
    }

    pub fn rate(mut self, rate: u64) -> Self {
        self.rate = Some(rate);
        self
    }

    pub fn dscp(mut self, dscp: u8) -> Self {
        self.dscp = Some(dscp);
        self
    }

    pub fn count(mut self, count: u64) -> Self {
        self.count = count;
        self
    }

    pub fn between(mut self, start: Nanos, stop: Nanos) -> Self {
        (self.start, self.stop, self.next_at, self.paced) = (start, stop, start, (0, start));
        self
    }

    pub fn lens(mut self, lens: &[usize]) -> Self {
        self.lens = lens.to_vec();
        self
    }

    /// Another rate from `now` on.
    pub fn set_rate(&mut self, rate: u64, now: Nanos) {
        self.rate = Some(rate);
        self.paced = (0, now);
        self.next_at = self.next_at.max(now);
    }

    fn ready_at(&self) -> Option<Nanos> {
        (self.sent < self.count && self.next_at < self.stop).then_some(self.next_at)
    }

    fn make(&mut self, from: Mac, now: Nanos) -> Vec<u8> {
        let len = self.lens[(self.sent % self.lens.len() as u64) as usize];
        let mut frame = ipv4(from, self.to, self.dscp.unwrap_or(dscp(self.priority)), self.ecn, len);
        stamp(&mut frame, self.id, self.sent);
        self.sent += 1;
        if let Some(rate) = self.rate {
            self.paced.0 += (len.max(60) as u64 + 24) * 8;
            let due = u128::from(self.paced.0) * 1_000_000_000 / u128::from(rate);
            self.next_at = self.paced.1 + due as u64;
        } else {
            self.next_at = now;
        }
        frame
    }
}

/// What arrived of a flow.
#[derive(Clone, Debug, Default)]
pub struct Rx {
    pub frames: u64,
    pub bytes: u64,
    /// Frames that carried CE.
    pub ce: u64,
    /// Sequence numbers that were skipped, and frames older than their predecessor.
    pub gaps: u64,
    pub reordered: u64,
    pub first_at: Nanos,
    pub last_at: Nanos,
    next: u64,
}

/// Pause frames by schedule: `pause` quanta every `period` from `start` to `stop`, and a resume `xon_after`
/// each of them.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    pub mask: u8,
    pub quanta: u16,
    pub start: Nanos,
    pub stop: Nanos,
    pub period: Nanos,
    pub xon_after: Option<Nanos>,
}

/// A station that answers for one link.
#[derive(Debug)]
pub struct Tester {
    pub mac: Mac,
    pub flows: Vec<Flow>,
    /// Obeys PFC at all, and after how long.
    pub obeys: bool,
    pub response: Nanos,
    pub paused_until: [Nanos; PRIORITIES],
    /// Keeps a record of every data frame that arrives: time and length.
    pub records: Option<Vec<(Nanos, u32, usize)>>,
    pub rx: BTreeMap<u32, Rx>,
    pub pfc_log: Vec<(Nanos, PfcFrame)>,
    /// Who sent them.
    pub pfc_from: BTreeSet<[u8; 6]>,
    pub storms: Vec<Storm>,
    pub control: VecDeque<Vec<u8>>,
    turn: usize,
}

impl Tester {
    pub fn new(mac: Mac) -> Self {
        Self {
            mac,
            flows: Vec::new(),
            obeys: true,
            response: 0,
            paused_until: [0; PRIORITIES],
            records: None,
            rx: BTreeMap::new(),
            pfc_log: Vec::new(),
            pfc_from: BTreeSet::new(),
            storms: Vec::new(),
            control: VecDeque::new(),
            turn: 0,
        }
    }

    /// The next frame to send at `now`; else when there may be one.
    pub fn next_frame(&mut self, now: Nanos) -> Result<Vec<u8>, Nanos> {
        if let Some(frame) = self.control.pop_front() {
            return Ok(frame);
        }
        let mut later = Nanos::MAX;
        let n = self.flows.len();
        for i in 0..n {
            let at = (self.turn + i) % n;
            let paused = self.paused_until[usize::from(self.flows[at].priority)];
            match self.flows[at].ready_at() {
                Some(ready) if ready.max(paused) <= now => {
                    self.turn = at + 1;
                    let mac = self.mac;
                    return Ok(self.flows[at].make(mac, now));
                }
                Some(ready) => later = later.min(ready.max(paused)),
                None => {}
            }
        }
        Err(later)
    }

    pub fn receive_data(&mut self, frame: &[u8], now: Nanos) {
        let (flow, seq) = stamp_of(frame);
        if let Some(records) = &mut self.records {
            records.push((now, flow, frame.len()));
        }
        let rx = self.rx.entry(flow).or_default();
        if rx.frames == 0 {
            rx.first_at = now;
        }
        rx.last_at = now;
        rx.frames += 1;
        rx.bytes += frame.len() as u64;
        rx.ce += u64::from(frame[15] & 3 == 3 && frame[12..14] == [8, 0]);
        rx.reordered += u64::from(seq < rx.next);
        rx.gaps += u64::from(seq > rx.next);
        rx.next = rx.next.max(seq + 1);
    }

    /// A PFC frame that arrived at `received` is obeyed from now on.
    pub fn obey(&mut self, frame: &PfcFrame, received: Nanos, now: Nanos, rate: u64) {
        for p in (0..PRIORITIES).filter(|p| frame.enable >> p & 1 == 1) {
            let ns = (u64::from(frame.time[p]) * 512 * 1_000_000_000).div_ceil(rate);
            self.paused_until[p] = if ns == 0 { now } else { received + ns };
        }
    }

    /// Frames of all flows that arrived here.
    pub fn received(&self) -> u64 {
        self.rx.values().map(|rx| rx.frames).sum()
    }

    /// Frames of all flows that were sent from here.
    pub fn sent(&self) -> u64 {
        self.flows.iter().map(|flow| flow.sent).sum()
    }
}
