//! An engine behind an internal port of its switch.

use weir_dataplane::pfc::frame::is_mac_control;
use weir_dataplane::pfc::react::{ReactConfig, Reaction};
use weir_dataplane::types::Nanos;
use weir_endpoint::flow::NicReport;
use weir_inc::drops::Drop;
use weir_inc::engine::{Engine, EngineParams};
use weir_inc::params::JobParams;

/// Frames that belong to no job, or are broken. (What comes twice, early or late is the transport's matter.)
const STRANGE: [Drop; 7] = [
    Drop::NotRoce,
    Drop::Malformed,
    Drop::BadIcrc,
    Drop::UnknownQp,
    Drop::WrongPeer,
    Drop::WrongPartition,
    Drop::Transport,
];

/// The engine and what holds it back.
#[derive(Debug)]
pub(in crate::fabric) struct EnginePort {
    engine: Engine,
    reaction: Reaction,
    /// PFC priorities its frames have, one bit each.
    classes: u8,
}

impl EnginePort {
    /// An engine with these jobs, on a line of `rate` bit/s, that obeys pauses of the priorities in `obey`. `None`: a
    /// job that was not planned.
    pub fn new(jobs: &[JobParams], qpns: (u32, u32), rate: u64, obey: u8) -> Option<Self> {
        let memory = jobs.iter().map(JobParams::memory).sum();
        let (first_qpn, qpns) = (weir_endpoint::roce::wire::Qpn(qpns.0), qpns.1);
        let mut engine =
            Engine::new(EngineParams { jobs: jobs.len(), memory, quota: memory, first_qpn, qpns });
        let mut classes = 0;
        for job in jobs {
            classes = job.children.iter().fold(classes, |all, child| all | 1 << child.path.data.priority);
            engine.add(job.clone()).ok()?;
        }
        Some(Self { engine, reaction: Reaction::new(ReactConfig::host(rate, obey)), classes })
    }

    /// Takes a frame from its switch.
    pub fn handle_frame(&mut self, bytes: &[u8], now: Nanos) {
        if is_mac_control(bytes) {
            self.reaction.receive(bytes, now);
        } else {
            self.engine.receive(bytes, now);
        }
    }

    fn is_paused(&mut self, now: Nanos) -> bool {
        self.reaction.paused_mask(now) & self.classes != 0
    }

    /// The next frame for its switch.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Vec<u8>> {
        self.engine.tick(now);
        if self.is_paused(now) {
            return None;
        }
        let mut bytes = Vec::new();
        self.engine.transmit(now)?.write_to(&mut bytes);
        Some(bytes)
    }

    /// Earliest time after which [`Self::poll_transmit`] may have a frame if nothing arrives until then.
    pub fn next_transmit(&mut self, now: Nanos) -> Option<Nanos> {
        if !self.engine.has_work() {
            return self.engine.next_event();
        }
        let at = if self.is_paused(now) { self.reaction.next_expiry() } else { now };
        Some(at).filter(|at| *at != Nanos::MAX)
    }

    /// Its engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What it saw of PFC, and frames it could not use.
    pub fn report(&self, now: Nanos) -> NicReport {
        NicReport {
            paused_ns: std::array::from_fn(|p| self.reaction.paused_ns(p, now)),
            pauses: std::array::from_fn(|p| self.reaction.transitions(p)),
            pfc_frames: self.reaction.counters().pfc_frames,
            unexpected: STRANGE.iter().map(|reason| self.engine.counters().drops[*reason as usize]).sum(),
            ..NicReport::default()
        }
    }
}
