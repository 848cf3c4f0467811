//! Where the time of a turn goes: now and then one turn is timed stage by stage. The others pay nothing.

use weir_dataplane::stats::Stage;
use weir_dataplane::switch::Wire;
use weir_dataplane::types::PRIORITIES;
use weir_dpdk::{Burst, Clock, Mbuf};

/// What a turn tells of its progress.
pub trait Watch {
    /// A piece of work for `stage` is done.
    fn lap(&mut self, clock: &Clock, stage: Stage);
}

/// Nobody looks.
#[derive(Debug)]
pub struct Unwatched;

impl Watch for Unwatched {
    #[inline(always)]
    fn lap(&mut self, _: &Clock, _: Stage) {}
}

/// Adds up the time of each stage.
#[derive(Debug)]
pub struct Stopwatch {
    last: u64,
    /// ns by stage.
    pub ns: [u64; PRIORITIES],
}

impl Stopwatch {
    /// Starts now.
    pub fn new(clock: &Clock) -> Self {
        Self { last: clock.now(), ns: [0; PRIORITIES] }
    }
}

impl Watch for Stopwatch {
    #[inline(always)]
    fn lap(&mut self, clock: &Clock, stage: Stage) {
        let now = clock.now();
        self.ns[stage as usize] += now - self.last;
        self.last = now;
    }
}

/// A wire whose driver's time is told apart from the switch's.
#[derive(Debug)]
pub struct Watched<'a, T, W> {
    /// The wire.
    pub wire: &'a mut T,
    /// Who looks.
    pub watch: &'a mut W,
    /// What time it is.
    pub clock: &'a Clock,
}

impl<T: Wire<Mbuf>, W: Watch> Wire<Mbuf> for Watched<'_, T, W> {
    #[inline(always)]
    fn send(&mut self, frames: &mut Burst) -> usize {
        self.watch.lap(self.clock, Stage::Transmit);
        let sent = self.wire.send(frames);
        self.watch.lap(self.clock, Stage::TxDriver);
        sent
    }

    #[inline(always)]
    fn send_control(&mut self, frame: &[u8]) -> bool {
        self.wire.send_control(frame)
    }
}
