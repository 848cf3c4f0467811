//! Emptying queues in steps: a link went down, or a queue is in a storm.
//!
//! A queue holds tens of thousands of frames, and the other ports cannot wait for as long as it takes to free them: their
//! rings would overflow. So a queue that is to be emptied is shut, neither sends nor takes frames, and every tick
//! drops some, until it is empty.

use super::channels::Note;
use super::handoff::ReturnPath;
use super::{Key, Observer, Switch};
use crate::drops::DropReason;
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::pfc::bits;
use crate::types::{BURST, Nanos, PRIORITIES, PortId};

/// Frames dropped in one call, of all queues together; and what a stage holds, of each port whose link goes down.
pub const FLUSHED_AT_ONCE: usize = BURST;

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Shuts a queue until all it holds has been dropped, with one reason.
    #[cold]
    pub(super) fn flush(&mut self, out: PortId, queue: usize, reason: DropReason) {
        if self.queues.occupied(out) >> queue & 1 == 0 {
            return;
        }
        let port = &mut self.ports[out.index()];
        port.flushing |= 1 << queue;
        port.flush_as[queue] = reason;
        self.flushing.insert(out);
        self.note_slow_path_queues(out);
    }

    /// Goes on with what is to be dropped.
    #[inline(always)]
    pub(super) fn go_on_flushing(&mut self, now: Nanos) {
        if !self.flushing.is_empty() {
            self.flush_some(now);
        }
    }

    #[cold]
    fn flush_some(&mut self, now: Nanos) {
        self.ports.flushed = true;
        let mut left = FLUSHED_AT_ONCE;
        for out in self.flushing.iter() {
            left -= match self.ports.is_own(out) {
                true => self.flush_queues(out, left, now),
                false => self.flush_grants(out, left),
            };
            let shut = self.ports.get_own(out.index()).is_some_and(|port| port.flushing != 0);
            let condemned = self.ports.remote(out).is_some_and(|port| port.condemned != 0);
            if !shut && !condemned {
                self.flushing.remove(out);
                self.note_slow_path_queues(out);
            }
            if left == 0 {
                break;
            }
        }
        self.tell_peers();
    }

    /// Drops up to `most` frames of the shut queues of a port. Returns how many.
    fn flush_queues(&mut self, out: PortId, most: usize, now: Nanos) -> usize {
        let mut dropped = 0;
        for queue in bits(self.ports[out.index()].flushing) {
            dropped += self.discard(out, queue, self.ports[out.index()].flush_as[queue], most - dropped);
            let bytes = self.queues.bytes(out, queue);
            let port = &mut self.ports[out.index()];
            if let Some(bursts) = &mut port.bursts {
                bursts.shrunk(queue, bytes, now);
            }
            if self.queues.occupied(out) >> queue & 1 == 1 {
                break;
            }
            port.flushing &= !(1 << queue);
        }
        dropped
    }

    /// Drops up to `most` of the frames a queue holds. Returns how many.
    fn discard(&mut self, out: PortId, queue: usize, reason: DropReason, most: usize) -> usize {
        for dropped in 0..most {
            let Self { queues, admission, peers, owner, .. } = self;
            let mut return_path = ReturnPath { peers, owner };
            let empty = |from, buffer| return_path.note(from, Note::Empty(buffer));
            let Some((frame, meta)) = queues.pop(out, queue, |len| admission.charge(len), empty) else {
                return dropped;
            };
            self.flushed_watched(out, Key::of(&meta.header, &self.copies), u32::from(meta.len), reason);
            self.release(out, &meta);
            self.refuse(out, frame, &meta.header, reason);
        }
        most
    }

    /// Drops what was handed to a wire that will not take it any more.
    #[cold]
    pub(super) fn flush_stage(&mut self, out: PortId, reason: DropReason) {
        self.unsent.remove(out);
        let port = &mut self.ports[out.index()];
        let stage = std::mem::take(&mut port.stage);
        for staged in stage.entries() {
            self.flushed_watched(out, Key::of(&staged.header, &self.copies), staged.totals.bytes, reason);
            self.release_staged(staged);
        }
        for (header, frame) in stage.into_frames() {
            self.refuse(out, frame, &header, reason);
        }
    }

    /// Drops what could not leave in time, with a reason, at the end of a run: all of it.
    pub fn abandon(&mut self) {
        const ALL: usize = usize::MAX;
        for out in self.ports.ids() {
            if !self.ports.is_own(out) {
                self.condemn_grants(out, DropReason::RunUndrained);
                self.flush_grants(out, ALL);
                continue;
            }
            for queue in 0..PRIORITIES {
                self.discard(out, queue, DropReason::RunUndrained, ALL);
            }
            self.flush_stage(out, DropReason::RunUndrained);
        }
    }
}
