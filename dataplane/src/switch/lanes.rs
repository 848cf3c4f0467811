//! Queues that send in turns: what a burst takes from the batch at the front of each is accounted for once.
//!
//! A turn of a weighted queue is a few frames. From its first turn of a burst a queue has a lane: it names the batch at its
//! front and the entry of the stage its frames are of, and counts what has left. The queue learns of that when the batch is
//! empty or the burst ends: of an empty batch it is known what its frames were, of another one those that left are summed up
//! in the stage. Nobody asks it in between: a queue has a lane only while no other input waits for it and its depth, which
//! only falls, marks nothing.

use super::OwnPort;
use super::stage::Staged;
use super::transmit::Departed;
use crate::egress::{BatchTotals, Front, Limits, Queues};
use crate::frame::Frame;
use crate::types::{BURST, PRIORITIES, PortId, wire_bytes};

const _: () = assert!(BURST <= u16::MAX as usize, "frames of a stage are counted in two octets");

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// In [`Queues`].
    batch: u32,
    /// In the stage.
    entry: u8,
    /// Frames that were in the stage before, and that have left since.
    before: u16,
    gone: u16,
}

/// The lanes of a port.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Queues that have one, a bit each.
    open: u8,
    lanes: [Lane; PRIORITIES],
}

impl Lanes {
    #[inline(always)]
    pub fn is_open(&self, queue: usize) -> bool {
        self.open >> queue & 1 == 1
    }
}

impl<F: Frame> OwnPort<F> {
    /// Opens a lane for a queue, if its frames can have one.
    #[inline(never)]
    pub(super) fn open_lane(
        &mut self,
        queues: &mut Queues<F>,
        (out, queue): (PortId, usize),
        turn: u64,
    ) -> bool {
        let Some((ix, standing)) = queues.front(out, queue) else { return false };
        if self.bursts.is_some() || !self.goes_together(&standing, queue) {
            return false;
        }
        let Some(batch) = queues.batch_mut(ix) else { return false };
        if batch.is_foreign() || !batch.goes_by_few(turn) {
            return false;
        }
        batch.reverse();
        let paused_ns = standing.held_ns.wrapping_sub(batch.held_ns());
        let staged = Staged { header: batch.header(), totals: BatchTotals::default(), out, paused_ns };
        let before = self.stage.len() as u16;
        let entry = self.stage.account(staged);
        self.lanes.open |= 1 << queue;
        self.lanes.lanes[queue] = Lane { batch: ix, entry, before, gone: 0 };
        true
    }

    /// Moves to the stage what may leave a lane at once.
    #[inline(always)]
    pub(super) fn take_from_lane(
        &mut self,
        queues: &mut Queues<F>,
        (out, queue): (PortId, usize),
        limits: Limits,
    ) -> Departed {
        let mut departed = Departed::default();
        let lane = &mut self.lanes.lanes[queue];
        let Some(batch) = queues.batch_mut(lane.batch) else { return departed };
        while departed.frames < limits.frames
            && let Some((frame, len)) = batch.pop_unaccounted()
        {
            departed.last = wire_bytes(u64::from(len));
            departed.wire += departed.last;
            departed.frames += 1;
            self.stage.frames_mut().push(frame);
            if !limits.goes_on(departed.wire) {
                break;
            }
        }
        lane.gone += departed.frames as u16;
        self.stage.note_run(lane.entry, departed.frames as u32);
        if batch.is_empty() {
            let gone = batch.all_popped(lane.gone.into());
            self.close_lane(queues, (out, queue), gone);
        }
        departed
    }

    /// The queue learns what has left its lane, and how much of that came in as CE.
    fn close_lane(
        &mut self,
        queues: &mut Queues<F>,
        (out, queue): (PortId, usize),
        (gone, ce): (BatchTotals, u32),
    ) {
        self.lanes.open &= !(1 << queue);
        self.stats.ecn_seen_ce[queue] += u64::from(ce);
        self.stage.add(self.lanes.lanes[queue].entry, gone);
        queues.left(out, queue, gone);
    }

    /// No queue has a lane any longer.
    #[inline(always)]
    pub(super) fn close_lanes(
        &mut self,
        queues: &mut Queues<F>,
        out: PortId,
        charge_of: impl Fn(u32) -> u32,
    ) {
        if self.lanes.open != 0 {
            self.close_open_lanes(queues, out, charge_of);
        }
    }

    /// The batches of these are not empty.
    #[inline(never)]
    fn close_open_lanes(&mut self, queues: &mut Queues<F>, out: PortId, charge_of: impl Fn(u32) -> u32) {
        let mut gone = [Front::default(); PRIORITIES];
        for (entry, queue, frames) in self.stage.runs_backwards() {
            let lane = &self.lanes.lanes[queue];
            if self.lanes.is_open(queue) && lane.entry == entry {
                let others = usize::from(lane.before).saturating_sub(frames.start);
                let ecn = self.stage.entries()[usize::from(entry)].header.ecn;
                for frame in self.stage.frames()[frames].iter().skip(others) {
                    let len = frame.len() as u32;
                    gone[queue].add(len, charge_of(len));
                    gone[queue].ce += u32::from(ecn.of(frame).is_ce());
                }
            }
        }
        for queue in crate::pfc::bits(self.lanes.open) {
            if let Some(batch) = queues.batch_mut(self.lanes.lanes[queue].batch) {
                batch.less(&gone[queue]);
            }
            debug_assert_eq!(gone[queue].totals.frames, self.lanes.lanes[queue].gone.into());
            self.close_lane(queues, (out, queue), (gone[queue].totals, gone[queue].ce));
        }
    }
}
