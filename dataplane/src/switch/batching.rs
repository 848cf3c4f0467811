//! Sorting a burst: frames with the same decision join a group, in batches, and are admitted together.

use super::flow_cache::{Destination, FlowCache, ForwardingDecision};
use super::receive::RxContext;
use super::{Observer, Switch};
use crate::drops::DropReason;
use crate::egress::{BatchList, Queues};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::parse::Profile;

/// Groups a burst is sorted into.
pub(super) const GROUPS: usize = 64;

const _: () = assert!(GROUPS == u64::BITS as usize, "those with frames are the bits of a word");

/// Frames of a burst with the same decision, to be admitted together.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmissionGroup {
    pub decision: ForwardingDecision,
    pub list: BatchList,
}

impl AdmissionGroup {
    pub const NONE: Self = Self { decision: ForwardingDecision::NONE, list: BatchList::NONE };
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Puts frames to their groups, up to the first one about which nothing is decided, and returns that.
    #[inline(always)]
    pub(super) fn batch_frames(
        &mut self,
        rx: &mut RxContext,
        frames: &mut impl Iterator<Item = F>,
        mut decide: impl FnMut(&FlowCache, &Profile, &F) -> ForwardingDecision,
    ) -> Option<F> {
        loop {
            let Self { flow_cache, ports, groups, queues, .. } = self;
            let profile = &ports[rx.port.index()].params.profile;
            match join(groups, queues, frames, |frame| decide(flow_cache, profile, frame))? {
                (frame, decision) if decision.is_decided() && decision.why_unlearned().is_none() => {
                    self.begin_batch(rx, decision, frame);
                }
                (frame, _) => return Some(frame),
            }
        }
    }

    /// Puts one frame to its group.
    pub(super) fn put(&mut self, rx: &mut RxContext, decision: ForwardingDecision, frame: F) {
        let mut frame = Some(frame).into_iter();
        if let Some((frame, _)) = join(&self.groups, &mut self.queues, &mut frame, |_| decision) {
            self.begin_batch(rx, decision, frame);
        }
    }

    /// Puts a frame to its group, which has no batch with room: adds one, and begins the group if there is none.
    #[inline(never)]
    fn begin_batch(&mut self, rx: &mut RxContext, decision: ForwardingDecision, frame: F) {
        if decision.is_open() {
            return self.put_open(rx, decision, frame);
        }
        let at = decision.group();
        let (mut decision, mut frame) = (decision, frame);
        if F::KEEPS_ECN && self.groups[at].decision.differs_in_ecn(decision) {
            let AdmissionGroup { decision: all, list } = &mut self.groups[at];
            let ecn = decision.ecn();
            decision = decision.of_each_ecn();
            *all = decision;
            match self.queues.open(list) {
                Some(batch) => return batch.put_among(frame, ecn),
                None => frame.set_ecn(ecn),
            }
        }
        if self.groups[at].decision != decision {
            if rx.waiting >> at & 1 == 1 {
                self.admit_group_of(rx, at);
            }
            self.groups[at] = AdmissionGroup { decision, list: BatchList::NONE };
        }
        let refused = decision.is_refused();
        let held_ns = if refused { 0 } else { self.held_ns(decision.queue() as usize, rx.now) };
        let list = &mut self.groups[at].list;
        let full = self.queues.extend(list, &rx.header(decision), held_ns, frame).err();
        if list.is_empty() {
            self.groups[at] = AdmissionGroup::NONE;
            rx.waiting &= !(1 << at);
        } else {
            rx.waiting |= 1 << at;
        }
        if let Some(frame) = full {
            self.no_batch(rx, decision, frame);
        }
    }

    /// Puts a frame of a decision that does not say which port, or which ports.
    #[inline(never)]
    fn put_open(&mut self, rx: &mut RxContext, decision: ForwardingDecision, frame: F) {
        match decision.destination() {
            Destination::Several(several) => self.put_to_several(rx, decision, several, frame),
            Destination::Port(_) | Destination::Nowhere(_) => self.put_to_member(rx, decision, frame),
        }
    }

    #[cold]
    #[inline(never)]
    fn no_batch(&mut self, rx: &RxContext, decision: ForwardingDecision, frame: F) {
        self.count_received(rx.port, decision.tc(), 1, frame.len() as u64);
        match decision.destination() {
            Destination::Nowhere(reason) => self.drop_frame(rx.port, reason, frame, &rx.header(decision)),
            _ => self.refuse(decision.out(), frame, &rx.header(decision), DropReason::IngressNoSlot),
        }
    }
}

/// Puts frames into the last batches of their groups, up to the first one that finds none with room. Returns that, and
/// what was decided about it. Nothing here calls anything: it is done for every frame.
#[inline(always)]
fn join<F: Frame>(
    groups: &[AdmissionGroup; GROUPS],
    queues: &mut Queues<F>,
    frames: &mut impl Iterator<Item = F>,
    mut decide: impl FnMut(&F) -> ForwardingDecision,
) -> Option<(F, ForwardingDecision)> {
    for frame in frames {
        let decision = decide(&frame);
        let group = &groups[decision.group()];
        match queues.open(&group.list) {
            Some(batch) if group.decision == decision => batch.put(frame),
            Some(batch) if F::KEEPS_ECN && group.decision == decision.of_each_ecn() => {
                batch.put_among(frame, decision.ecn());
            }
            _ => return Some((frame, decision)),
        }
    }
    None
}
