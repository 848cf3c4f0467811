//! Whole rounds of a queue's VOQs: of each one frame in turn, several times over.
//!
//! That is what [`Queues::serve`] does frame by frame. Who knows that a round fits can take it at once: nobody needs to be asked
//! whose turn it is, and after a round it is the first one's turn again.

use super::super::header::BatchHeader;
use super::super::totals::{BatchTotals, Limits};
use super::{Lane, NIL, Queues, VoqTurn};
use crate::frame::Frame;
use crate::types::{MAX_PORTS, PRIORITIES, PortId};
use arrayvec::ArrayVec;

/// A VOQ that takes part, and the batch at its front.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    voq: u32,
    batch: u32,
    /// See [`Lane::entry`].
    pub entry: u8,
    /// How many of the frames that it gave came in as CE.
    pub ce: u8,
    /// Another lcore is to send its frames: those of all rounds leave together.
    pub elsewhere: bool,
    /// Their bytes, then, which are accounted for.
    pub bytes: u32,
}

/// Those that take part, in the order of their turns.
pub type Members = ArrayVec<Member, MAX_PORTS>;

impl<F: Frame> Queues<F> {
    /// How many whole rounds may leave a queue in which several VOQs wait, and who takes part. `granted`: frames that others may be
    /// given to send, beside those of `limits` that are sent here. `None`: not one.
    pub fn rounds(
        &self,
        out: PortId,
        queue: usize,
        (limits, granted): (Limits, usize),
        members: &mut Members,
    ) -> Option<usize> {
        members.clear();
        let (mut most, mut wire, mut here) = (usize::MAX, 0, 0);
        let mut ix = self.active[out.index() * PRIORITIES + queue].first;
        while let Some(voq) = self.voqs.get(ix as usize) {
            let batch = self.batches.get(voq.head as usize)?;
            let elsewhere = batch.header().home != BatchHeader::HERE;
            here += usize::from(!elsewhere);
            most = most.min(batch.len());
            // To grant one frame together is no less than to grant it alone.
            if here > limits.frames || here <= members.len() && most == 1 {
                return None;
            }
            wire += batch.longest_wire();
            members.push(Member {
                voq: ix,
                batch: voq.head,
                entry: voq.lane.entry,
                ce: 0,
                elsewhere,
                bytes: 0,
            });
            ix = voq.next;
        }
        if members.len() < 2 || limits.wire < wire {
            return None;
        }
        let fit = |room: usize, each: usize| room.checked_div(each).unwrap_or(usize::MAX);
        let most = most.min(fit(limits.frames, here)).min(fit(granted, members.len() - here));
        let rounds = most.min((limits.wire / wire) as usize);
        (rounds > 0).then_some(rounds)
    }

    /// The batch and the lane of who takes part in rounds.
    #[inline(always)]
    pub fn member(&mut self, member: Member) -> Option<VoqTurn<'_, F>> {
        let lane = &mut self.voqs.get_mut(member.voq as usize)?.lane;
        let batch = self.batches.get_mut(member.batch as usize)?;
        Some(VoqTurn { batch, lane, alone: false })
    }

    /// The next frame of who takes part, its length, and whether it came in as CE.
    #[inline(always)]
    pub fn next_of(&mut self, member: Member) -> Option<(F, u16, bool)> {
        let batch = self.batches.get_mut(member.batch as usize)?;
        let (frame, len) = batch.pop_unaccounted()?;
        let ce = batch.came_as_ce(&frame);
        Some((frame, len, ce))
    }

    /// So many rounds have been taken. Batches that are empty are free, and `each` is told what has left by their lanes. Who has
    /// nothing left waits for no turn; of the others the first one is the next one.
    pub fn rounds_end(
        &mut self,
        out: PortId,
        queue: usize,
        (rounds, members): (usize, &Members),
        mut each: impl FnMut(Lane, BatchTotals),
    ) {
        let queue_ix = out.index() * PRIORITIES + queue;
        let (mut first, mut last) = (NIL, NIL);
        for member in members {
            let Some(voq) = self.voqs.get_mut(member.voq as usize) else { continue };
            let Some(batch) = self.batches.get_mut(member.batch as usize) else { continue };
            voq.next = NIL;
            let (mut bytes, own) =
                (member.bytes, queue_ix * self.ports + usize::from(batch.header().in_port));
            if !member.elsewhere {
                voq.lane.gone += rounds as u16;
                voq.lane.ce += member.ce;
            }
            if batch.is_empty() {
                if !member.elsewhere {
                    let lane = std::mem::take(&mut voq.lane);
                    let gone = batch.all_popped(lane.gone.into());
                    each(lane, gone);
                    bytes = gone.bytes;
                }
                voq.head = std::mem::replace(&mut batch.next, self.free);
                self.free = member.batch;
            }
            if voq.head != NIL {
                match self.voqs.get_mut(last as usize) {
                    Some(before) => before.next = member.voq,
                    None => first = member.voq,
                }
                last = member.voq;
            }
            self.voqs[own].bytes -= u64::from(bytes);
        }
        let active = &mut self.active[queue_ix];
        (active.first, active.last) = (first, last);
        if first == NIL {
            self.occupied[out.index()] &= !(1 << queue);
        }
    }
}
