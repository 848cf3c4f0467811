//! From a decision to a queue: a group of frames passes the gate ([`super::gate`]) together or frame by frame, and joins
//! its queue or goes to the lcore that has it.

use super::batching::AdmissionGroup;
use super::flow_cache::ForwardingDecision;
use super::gate::Charged;
use super::receive::header_of;
use super::{Observer, Switch};
use crate::drops::DropReason;
use crate::egress::{BatchHeader, BatchList, BatchTotals, Meta};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::types::{PRIORITIES, PortId};

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Admits the frames of a group together if nothing is near a limit, else one by one; or loses them.
    #[inline(always)]
    pub(super) fn admit_group(&mut self, port: PortId, at: usize) {
        let AdmissionGroup { decision, list } = std::mem::replace(&mut self.groups[at], AdmissionGroup::NONE);
        if decision.is_refused() {
            return self.lose_group(port, decision, list);
        }
        let Self { queues, admission, .. } = self;
        let totals = queues.seal(&list, |len| admission.charge(len));
        self.count_received(port, decision.tc(), u64::from(totals.frames), u64::from(totals.bytes));
        self.admit_list(port, decision, list, totals);
    }

    /// Admits frames of a decision, which add up to `totals`.
    #[inline(always)]
    pub(super) fn admit_list(
        &mut self,
        port: PortId,
        decision: ForwardingDecision,
        list: BatchList,
        totals: BatchTotals,
    ) {
        let (out, queue) = (decision.out(), decision.queue() as usize % PRIORITIES);
        if self.flood.waits_for(queue) {
            self.copy_first_to(out, queue);
        }
        let charged = self.charged_for(out);
        if !self.admit_all(charged, decision.pg(), queue, totals) {
            self.admit_closely(charged, &header_of(port, decision, 0), out, list, totals);
        } else if matches!(charged, Charged::Remote(_)) {
            self.hand_off_list(out, list);
        } else {
            self.append(port, out, queue, &list, totals);
        }
    }

    /// Frames of this header that are charged to their group, copy by copy or by another lcore, come to one of our queues.
    #[inline(always)]
    pub(super) fn accept_list(
        &mut self,
        out: PortId,
        header: &BatchHeader,
        list: BatchList,
        totals: BatchTotals,
    ) {
        let (charged, queue) = (Charged::Queue(out), usize::from(header.queue));
        if self.admit_all(charged, header.pg, queue, totals) {
            self.append(PortId(header.in_port), out, queue, &list, totals);
        } else {
            self.admit_closely(charged, header, out, list, totals);
        }
    }

    /// Frames that are charged join their queue.
    #[inline(always)]
    pub(super) fn append(
        &mut self,
        port: PortId,
        out: PortId,
        queue: usize,
        list: &BatchList,
        totals: BatchTotals,
    ) {
        if self.queues.append(port, out, queue, list, totals) {
            self.ports[out.index()].scheduler.wake(queue);
        }
    }

    /// Admits frames of this header that may not all pass.
    #[cold]
    #[inline(never)]
    fn admit_closely(
        &mut self,
        charged: Charged,
        header: &BatchHeader,
        out: PortId,
        list: BatchList,
        totals: BatchTotals,
    ) {
        let mut list = list;
        match self.admit_by_chance(charged, header, &mut list, totals) {
            None => {
                self.open_buffer(&list);
                self.admit_one_by_one(charged, out, list);
            }
            Some(left) if left.frames > 0 => {
                self.append(PortId(header.in_port), out, header.queue.into(), &list, left);
            }
            Some(_) => {}
        }
    }

    fn admit_one_by_one(&mut self, charged: Charged, out: PortId, list: BatchList) {
        let (mut list, mut leaving) = (list, None);
        while let Some((frame, mut meta)) = self.unlist(&mut list) {
            let charge = self.admission.charge(u32::from(meta.len));
            match self.admit(charged, &frame, &mut meta, charge) {
                Ok(()) if matches!(charged, Charged::Remote(_)) => {
                    self.hand_off_with(out, frame, &meta, &mut leaving)
                }
                Ok(()) => self.enqueue(charged, out, frame, meta),
                Err(reason) => {
                    let header = meta.header;
                    self.turn_away(charged, out, frame, &meta, reason);
                    // A refusal changes nothing: the same frame behind it would be refused, too, unless that is left to chance.
                    if !self.observer.looks_on() && reason != DropReason::EgressWred {
                        self.turn_away_alike(charged, out, (&list, meta.len), &header, reason);
                    }
                }
            }
        }
        if let Some(batch) = leaving {
            self.hand_off_batch(out, batch);
        }
    }

    pub(super) fn unlist(&mut self, list: &mut BatchList) -> Option<(F, Meta)> {
        let Self { queues, admission, .. } = self;
        queues.unlist(list, |len| admission.charge(len))
    }

    /// Charges a frame with one destination and queues it, or hands it over. None waits that it could overtake.
    #[inline(never)]
    pub(super) fn forward(&mut self, out: PortId, frame: F, meta: Meta) {
        let queue_ix = out.index() * PRIORITIES + usize::from(meta.header.queue);
        let meta = Meta { held_ns: self.held_ns(queue_ix, meta.header.rx_ns), ..meta };
        self.admit_one(self.charged_for(out), out, frame, meta);
    }

    /// A frame that is charged to its group, copy by copy or by another lcore, comes to one of our queues.
    pub(super) fn accept_one(&mut self, out: PortId, frame: F, meta: Meta) {
        self.admit_one(Charged::Queue(out), out, frame, meta);
    }

    #[inline(always)]
    pub(super) fn admit_one(&mut self, charged: Charged, out: PortId, frame: F, meta: Meta) {
        let mut meta = meta;
        let charge = self.admission.charge(u32::from(meta.len));
        match self.admit(charged, &frame, &mut meta, charge) {
            Ok(()) if matches!(charged, Charged::Remote(_)) => self.hand_off_one(out, frame, &meta),
            Ok(()) => self.enqueue(charged, out, frame, meta),
            Err(reason) => self.turn_away(charged, out, frame, &meta, reason),
        }
    }

    /// A frame that may not pass is lost, and what it was charged before is given back.
    #[inline(always)]
    fn turn_away(&mut self, charged: Charged, out: PortId, frame: F, meta: &Meta, reason: DropReason) {
        if !charged.group() {
            self.refused_watched(out, &meta.header, meta.len.into(), reason);
            self.release_group(meta);
        }
        self.refuse(out, frame, &meta.header, reason);
    }

    /// A frame that is charged joins its queue.
    #[inline(always)]
    fn enqueue(&mut self, charged: Charged, out: PortId, frame: F, meta: Meta) {
        let mut frame = frame;
        if self.ports[out.index()].mark_on_arrival >> meta.header.queue & 1 == 1 {
            self.mark_on_arrival(out, &mut frame, &meta);
        }
        let charge = self.admission.charge(u32::from(meta.len));
        let (port, queue) = (&mut self.ports[out.index()], usize::from(meta.header.queue));
        // Who follows a frame tells it from others by its copy count, so it has a batch of its own.
        let alone = self.observer.looks_on() && !meta.header.is_single();
        match self.queues.push(out, frame, &meta, charge, alone) {
            Ok(false) => {}
            Ok(true) => port.scheduler.wake(queue),
            Err(frame) => return self.no_slot(charged, out, frame, &meta),
        }
        if let Some(bursts) = &mut port.bursts {
            bursts.grown(queue, self.queues.bytes(out, queue), meta.header.rx_ns);
        }
    }

    #[cold]
    #[inline(never)]
    fn no_slot(&mut self, charged: Charged, out: PortId, frame: F, meta: &Meta) {
        if !charged.group() {
            self.refused_watched(out, &meta.header, meta.len.into(), DropReason::IngressNoSlot);
        }
        self.release(out, meta);
        self.refuse(out, frame, &meta.header, DropReason::IngressNoSlot);
    }
}
