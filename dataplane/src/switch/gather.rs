//! Sorting a burst: frames with the same way join a group, in packs, and are admitted together.

use super::Switch;
use super::flows::{Step, Way};
use super::receive::Arrival;
use crate::drops::DropReason;
use crate::egress::{Chain, Queues};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::types::PRIORITIES;

/// Groups a burst is sorted into; a queue's place is its number modulo this.
pub(super) const GROUPS: usize = 32;

/// Frames of a burst with the same way, to be admitted together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub way: Way,
    pub chain: Chain,
}

impl Group {
    pub const NONE: Self = Self { way: Way::NONE, chain: Chain::NONE };
}

impl<F: Frame, A: Admission> Switch<F, A> {
    /// Puts frames to their groups, up to the first one about which nothing was decided. Returns what is
    /// left of `steps`; `frames` gives as many as there are.
    #[inline(always)]
    pub(super) fn gather<'a>(
        &mut self,
        arrival: &mut Arrival,
        steps: &'a [Step],
        frames: &mut impl Iterator<Item = F>,
    ) -> &'a [Step] {
        let mut rest = steps;
        loop {
            rest = join(&self.groups, &mut self.queues, rest, frames);
            let Some(step) = rest.first().filter(|step| step.is_decided()) else { return rest };
            if !self.make_room(arrival, step.way()) {
                frames.by_ref().take(1).for_each(|frame| self.no_pack(arrival, step.way(), frame));
                rest = &rest[1..];
            }
        }
    }

    /// Begins the group for this way if there is none, and gives it a pack with room. `false`: no pack is free.
    #[inline(never)]
    fn make_room(&mut self, arrival: &mut Arrival, way: Way) -> bool {
        let at = way.queue() as usize % GROUPS;
        if self.groups[at].way != way {
            if arrival.waiting >> at & 1 == 1 {
                self.admit_group(arrival.port, at);
            }
            self.groups[at] = Group { way, chain: Chain::NONE };
        }
        let held_ns = self.held_ns(way.queue() as usize, arrival.now);
        let chain = &mut self.groups[at].chain;
        let made = self.queues.extend(chain, &arrival.lot(way), held_ns);
        if chain.is_empty() {
            self.groups[at] = Group::NONE;
            arrival.waiting &= !(1 << at);
        } else {
            arrival.waiting |= 1 << at;
        }
        made
    }

    #[cold]
    #[inline(never)]
    fn no_pack(&mut self, arrival: &Arrival, way: Way, frame: F) {
        self.count_received(arrival.port, way.tc(), 1, frame.len() as u64);
        let stats = &mut self.ports[arrival.port.index()].stats;
        stats.pg_drops[usize::from(way.pg()) % PRIORITIES] += 1;
        self.drop_frame(arrival.port, DropReason::IngressNoSlot, frame);
    }
}

/// Puts frames into the last packs of their groups, up to the first one that finds none with room. Returns what is
/// left. Nothing here calls anything: it is done for every frame.
#[inline(always)]
fn join<'a, F>(
    groups: &[Group; GROUPS],
    queues: &mut Queues<F>,
    steps: &'a [Step],
    frames: &mut impl Iterator<Item = F>,
) -> &'a [Step] {
    let mut rest = steps;
    while let [step, others @ ..] = rest {
        let group = &groups[step.queue() as usize % GROUPS];
        if group.way != step.way() {
            break;
        }
        let Some(pack) = queues.open(&group.chain) else { break };
        if others.first() == Some(step) {
            let alike = rest.iter().take(pack.room()).take_while(|other| *other == step).count();
            pack.fill(frames, alike, step.len());
            rest = &rest[alike..];
        } else {
            pack.fill_one(frames, step.len());
            rest = others;
        }
    }
    rest
}
