//! Queues that send in turns: what a burst takes from the batch at the front of each is accounted for once.
//!
//! A turn of a weighted queue is a few frames. From its first turn of a burst a queue has a lane: it names the batch at its
//! front and the entry of the stage its frames are of, and adds up what has left. The queue learns of that when the batch is
//! empty or the burst ends. Nobody asks it in between: a queue has a lane only while no other input waits for it and its
//! depth, which only falls, marks nothing.

use super::OwnPort;
use super::stage::Staged;
use super::transmit::Limits;
use crate::egress::{BatchTotals, Front, Queues};
use crate::frame::Frame;
use crate::types::{PRIORITIES, PortId};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// In [`Queues`].
    batch: u32,
    /// In the stage.
    entry: u8,
    gone: Front,
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
    #[inline(always)]
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
        let entry = self.stage.account(staged);
        self.lanes.open |= 1 << queue;
        self.lanes.lanes[queue] = Lane { batch: ix, entry, gone: Front::default() };
        true
    }

    /// Moves to the stage what may leave a lane at once.
    #[inline(always)]
    pub(super) fn take_from_lane(
        &mut self,
        queues: &mut Queues<F>,
        (out, queue): (PortId, usize),
        limits: Limits,
        charge_of: impl Fn(u32) -> u32,
    ) -> Front {
        let mut front = Front::default();
        let Lane { batch, entry, .. } = self.lanes.lanes[queue];
        let Some(batch) = queues.batch_mut(batch) else { return front };
        let mut most = limits.frames;
        while most > 0
            && let Some(frame) = batch.pop_unaccounted()
        {
            let len = frame.len() as u32;
            self.stage.frames_mut().push(frame);
            front.add(len, charge_of(len));
            most -= 1;
            if !self.goes_on(limits, front.wire) {
                break;
            }
        }
        self.stage.note_run(entry, front.totals.frames);
        let lane = &mut self.lanes.lanes[queue];
        lane.gone.totals.add(front.totals);
        lane.gone.wire += front.wire;
        if batch.is_empty() {
            self.close_lane(queues, (out, queue));
        }
        front
    }

    /// The queue learns what has left its lane.
    fn close_lane(&mut self, queues: &mut Queues<F>, (out, queue): (PortId, usize)) {
        self.lanes.open &= !(1 << queue);
        let Lane { batch, entry, gone } = self.lanes.lanes[queue];
        let Some(batch) = queues.batch_mut(batch) else { return };
        batch.less(&gone);
        let ce = u64::from(batch.header().is_ce());
        self.stats.ecn_seen_ce[queue] += u64::from(gone.totals.frames) * ce;
        self.stage.add(entry, gone.totals);
        queues.left(out, queue, gone.totals);
    }

    /// No queue has a lane any longer.
    #[inline(always)]
    pub(super) fn close_lanes(&mut self, queues: &mut Queues<F>, out: PortId) {
        while self.lanes.open != 0 {
            self.close_lane(queues, (out, self.lanes.open.trailing_zeros() as usize));
        }
    }
}
