//! The link of a station: how fast it is, and what went over it.

use crate::traffic::Clock;
use weir_dataplane::types::Nanos;

/// Frames and their bytes without FCS; MAC control is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    pub tx_frames: u64,
    pub tx_bytes: u64,
    pub rx_frames: u64,
    pub rx_bytes: u64,
    pub rx_flooded: u64,
    pub rx_other: u64,
}

/// The station's end of its link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cable {
    clock: Clock,
    slack: Nanos,
    pub carried: Carried,
}

impl Cable {
    /// `rate` in bits/s on the wire; time lost between two calls is made good up to `slack` ns.
    pub fn new(rate: u64, slack: Nanos) -> Self {
        Self { clock: Clock::new(rate, 0), slack, carried: Carried::default() }
    }

    /// When the next frame may go.
    pub fn ready(&self) -> Nanos {
        self.clock.ready()
    }

    /// The link carries MAC control of `len` bytes, since when somebody should have asked for it at the earliest.
    pub fn control(&mut self, len: usize, now: Nanos) {
        self.clock.not_before(now.saturating_sub(self.slack));
        let step = self.clock.step(len);
        self.clock.advance(step);
    }

    /// The same for any other frame, which counts.
    pub fn sent(&mut self, len: usize, now: Nanos) {
        self.carried.tx_frames += 1;
        self.carried.tx_bytes += len as u64;
        self.control(len, now);
    }

    /// A frame that is no MAC control arrived.
    pub fn arrived(&mut self, len: usize) {
        self.carried.rx_frames += 1;
        self.carried.rx_bytes += len as u64;
    }
}
