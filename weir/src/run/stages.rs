//! Where the time of a turn goes: now and then one turn is timed stage by stage. The others pay nothing.

use super::io::Time;
use weir_dataplane::frame::Frame;
use weir_dataplane::stats::{MarkingCurve, Stage};
use weir_dataplane::switch::{Tapped, Wire};
use weir_dataplane::types::{PRIORITIES, PortId};

/// What a turn tells of its progress.
pub trait Watch {
    /// A piece of work for `stage` is done.
    fn lap<C: Time>(&mut self, clock: &C, stage: Stage);

    /// A port is about to send.
    fn before<C: Time, F: Frame>(&mut self, clock: &C, switch: &Tapped<F>, port: PortId);

    /// It has: what left its queues, at which depth, goes to its curve.
    fn after<C: Time, F: Frame>(
        &mut self,
        clock: &C,
        switch: &Tapped<F>,
        port: PortId,
        curve: &mut MarkingCurve,
    );
}

/// Nobody looks.
#[derive(Debug)]
pub struct Unwatched;

impl Watch for Unwatched {
    #[inline(always)]
    fn lap<C: Time>(&mut self, _: &C, _: Stage) {}

    #[inline(always)]
    fn before<C: Time, F: Frame>(&mut self, _: &C, _: &Tapped<F>, _: PortId) {}

    #[inline(always)]
    fn after<C: Time, F: Frame>(&mut self, _: &C, _: &Tapped<F>, _: PortId, _: &mut MarkingCurve) {}
}

/// A queue at one instant.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    bytes: u64,
    frames: u32,
    selected: u64,
}

fn queues<F: Frame>(switch: &Tapped<F>, port: PortId) -> [Queue; PRIORITIES] {
    std::array::from_fn(|q| Queue {
        bytes: switch.queue_bytes(port, q),
        frames: switch.queue_frames(port, q),
        selected: switch.stats(port).ecn_selected[q],
    })
}

/// Adds up the time of each stage.
#[derive(Debug)]
pub struct Stopwatch {
    last: u64,
    queues: [Queue; PRIORITIES],
    /// ns by stage.
    pub ns: [u64; PRIORITIES],
}

impl Stopwatch {
    /// Starts now.
    pub fn new<C: Time>(clock: &C) -> Self {
        Self { last: clock.now(), queues: Default::default(), ns: [0; PRIORITIES] }
    }
}

impl Watch for Stopwatch {
    #[inline(always)]
    fn lap<C: Time>(&mut self, clock: &C, stage: Stage) {
        let now = clock.now();
        self.ns[stage as usize] += now - self.last;
        self.last = now;
    }

    fn before<C: Time, F: Frame>(&mut self, clock: &C, switch: &Tapped<F>, port: PortId) {
        self.queues = queues(switch, port);
        // Looking is no work of the switch.
        self.last = clock.now();
    }

    fn after<C: Time, F: Frame>(
        &mut self,
        clock: &C,
        switch: &Tapped<F>,
        port: PortId,
        curve: &mut MarkingCurve,
    ) {
        for (q, (was, is)) in self.queues.iter().zip(queues(switch, port)).enumerate() {
            // Nothing arrives while a port sends, so the difference has left.
            let left = was.frames.saturating_sub(is.frames);
            curve.note(q, (was.bytes + is.bytes) / 2, u64::from(left), is.selected - was.selected);
        }
        self.last = clock.now();
    }
}

/// A wire whose driver's time is told apart from the switch's.
#[derive(Debug)]
pub struct Watched<'a, T, W, C> {
    /// The wire.
    pub wire: &'a mut T,
    /// Who looks.
    pub watch: &'a mut W,
    /// What time it is.
    pub clock: &'a C,
}

impl<F: Frame, T: Wire<F>, W: Watch, C: Time> Wire<F> for Watched<'_, T, W, C> {
    #[inline(always)]
    fn send(&mut self, frames: &mut F::Staged) -> usize {
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
