//! Sorting a burst: frames with the same decision join a group, in packs, and are admitted together.

use super::Switch;
use super::flow_cache::ForwardingDecision;
use super::receive::Arrival;
use crate::drops::DropReason;
use crate::egress::{Chain, Queues};
use crate::frame::Frame;
use crate::mmu::Admission;

/// Groups a burst is sorted into.
pub(super) const GROUPS: usize = 64;

/// Frames of a burst with the same decision, to be admitted together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub decision: ForwardingDecision,
    pub chain: Chain,
}

impl Group {
    pub const NONE: Self = Self { decision: ForwardingDecision::NONE, chain: Chain::NONE };
}

impl<F: Frame, A: Admission> Switch<F, A> {
    /// Puts frames to their groups, up to the first one about which nothing is decided, and returns that.
    #[inline(always)]
    pub(super) fn gather(
        &mut self,
        arrival: &mut Arrival,
        frames: &mut impl Iterator<Item = F>,
    ) -> Option<F> {
        let (port, tag) = (arrival.port, self.flow_cache.tag(arrival.port));
        loop {
            let Self { flow_cache, ports, groups, queues, .. } = self;
            let profile = &ports[port.index()].params.profile;
            let decide = |frame: &F| flow_cache.decision(profile, tag, frame);
            match join(groups, queues, frames, decide)? {
                (frame, decision) if decision.is_decided() => self.begin_pack(arrival, decision, frame),
                (frame, _) => return Some(frame),
            }
        }
    }

    /// Puts one frame to its group.
    pub(super) fn put(&mut self, arrival: &mut Arrival, decision: ForwardingDecision, frame: F) {
        let mut frame = Some(frame).into_iter();
        if let Some((frame, _)) = join(&self.groups, &mut self.queues, &mut frame, |_| decision) {
            self.begin_pack(arrival, decision, frame);
        }
    }

    /// Puts a frame to its group, which has no pack with room: adds one, and begins the group if there is none.
    #[inline(never)]
    fn begin_pack(&mut self, arrival: &mut Arrival, decision: ForwardingDecision, frame: F) {
        let at = decision.place();
        if self.groups[at].decision != decision {
            if arrival.waiting >> at & 1 == 1 {
                self.admit_group(arrival.port, at);
            }
            self.groups[at] = Group { decision, chain: Chain::NONE };
        }
        let held_ns = self.held_ns(decision.queue() as usize, arrival.now);
        let chain = &mut self.groups[at].chain;
        let full = self.queues.extend(chain, &arrival.lot(decision), held_ns, frame).err();
        if chain.is_empty() {
            self.groups[at] = Group::NONE;
            arrival.waiting &= !(1 << at);
        } else {
            arrival.waiting |= 1 << at;
        }
        if let Some(frame) = full {
            self.no_pack(arrival, decision, frame);
        }
    }

    #[cold]
    #[inline(never)]
    fn no_pack(&mut self, arrival: &Arrival, decision: ForwardingDecision, frame: F) {
        self.count_received(arrival.port, decision.tc(), 1, frame.len() as u64);
        self.drop_at_group(frame, &arrival.lot(decision), DropReason::IngressNoSlot);
    }
}

/// Puts frames into the last packs of their groups, up to the first one that finds none with room. Returns that, and
/// what was decided about it. Nothing here calls anything: it is done for every frame.
#[inline(always)]
fn join<F: Frame>(
    groups: &[Group; GROUPS],
    queues: &mut Queues<F>,
    frames: &mut impl Iterator<Item = F>,
    decide: impl Fn(&F) -> ForwardingDecision,
) -> Option<(F, ForwardingDecision)> {
    for frame in frames {
        let decision = decide(&frame);
        let group = &groups[decision.place()];
        match queues.open(&group.chain) {
            Some(pack) if group.decision == decision => pack.put(frame),
            _ => return Some((frame, decision)),
        }
    }
    None
}
