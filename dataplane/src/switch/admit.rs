//! From a decision to a queue: admission, group by group where nothing is near a limit, else frame by frame;
//! multicast; frames for other lcores; and every reason a frame may be lost for on the way.

use super::batching::AdmissionGroup;
use super::lost::{control_group, count_lost};
use super::receive::ParsedFrame;
use super::{Port, Switch};
use crate::drops::DropReason;
use crate::egress::{BatchHeader, BatchList, Meta};
use crate::frame::Frame;
use crate::mmu::{Admission, AdmitVerdict, PgIx, QueueIx};
use crate::parse::EcnPlace;
use crate::pfc::generate::{Cause, Source};
use crate::pfc::watchdog::Seen;
use crate::portset::PortSet;
use crate::types::{Nanos, PRIORITIES, PortId};
use arrayvec::ArrayVec;

impl<F: Frame, A: Admission> Switch<F, A> {
    /// Admits the frames of a group together if nothing is near a limit, else one by one.
    #[inline(always)]
    pub(super) fn admit_group(&mut self, port: PortId, at: usize) {
        let AdmissionGroup { decision, list } = std::mem::replace(&mut self.groups[at], AdmissionGroup::NONE);
        let Self { queues, admission, .. } = self;
        let totals = queues.seal(&list, |len| admission.charge(len));
        self.count_received(port, decision.tc(), u64::from(totals.frames), u64::from(totals.bytes));
        let (out, queue, pg) = (decision.out(), QueueIx(decision.queue()), PgIx(u32::from(decision.pg())));
        if self.owner[out.index()] != self.shard {
            return self.hand_off_group(out, pg, list, totals);
        }
        if !self.admission.admit_together(pg, queue, totals.charge) {
            return self.admit_one_by_one(out, list);
        }
        self.count_charged(decision.pg(), totals.frames);
        let queue = queue.0 as usize % PRIORITIES;
        if self.queues.append(port, out, queue, &list, totals) {
            self.ports[out.index()].scheduler.wake(queue);
        }
    }

    #[cold]
    #[inline(never)]
    fn admit_one_by_one(&mut self, out: PortId, list: BatchList) {
        let mut list = list;
        while let Some((frame, meta)) = self.unlist(&mut list) {
            // A refusal changes nothing: the same frame behind it would be refused, too.
            if let Some((reason, header)) = self.admit(out, frame, meta)
                && self.tap.is_none()
            {
                let more = self.queues.discard_first(&list, meta.len);
                self.count_refused(out, &header, reason, more as u64);
            }
        }
    }

    pub(super) fn unlist(&mut self, list: &mut BatchList) -> Option<(F, Meta)> {
        let Self { queues, admission, .. } = self;
        queues.unlist(list, |len| admission.charge(len))
    }

    /// Charges a frame with one destination and queues it, whatever stands in its way.
    #[inline(never)]
    pub(super) fn forward(&mut self, out: PortId, frame: F, meta: Meta) {
        if self.owner[out.index()] != self.shard {
            return self.forward_remote(out, frame, meta);
        }
        let port = &self.ports[out.index()];
        let queue = usize::from(meta.queue);
        if let Some(reason) = port.shut(queue) {
            return self.drop_at_queue(out, frame, &meta.header(), reason);
        }
        if (port.drops_early >> queue & 1) == 1 && self.drops_early(out, &meta) {
            return self.drop_at_queue(out, frame, &meta.header(), DropReason::EgressWred);
        }
        if self.draining {
            return self.drop_at_group(frame, &meta.header(), DropReason::RunDraining);
        }
        let _ = self.admit(out, frame, meta);
    }

    /// Charges a frame and queues it, or drops it: then why, and as what.
    fn admit(&mut self, out: PortId, frame: F, meta: Meta) -> Option<(DropReason, BatchHeader)> {
        let charge = self.admission.charge(u32::from(meta.len));
        let ix = QueueIx((out.index() * PRIORITIES) as u32 + u32::from(meta.queue));
        match self.admission.admit(PgIx(u32::from(meta.pg)), ix, charge) {
            AdmitVerdict::Admitted => {
                self.count_charged(meta.pg, 1);
                self.enqueue(out, frame, meta, meta.rx_ns);
                None
            }
            verdict => self.admitted_otherwise(out, frame, meta, verdict),
        }
    }

    /// The rest of admission: a control frame without room in its pool, Xoff, a refusal.
    #[cold]
    #[inline(never)]
    fn admitted_otherwise(
        &mut self,
        out: PortId,
        frame: F,
        meta: Meta,
        verdict: AdmitVerdict,
    ) -> Option<(DropReason, BatchHeader)> {
        let (mut meta, mut verdict) = (meta, verdict);
        let queue = usize::from(meta.queue);
        if matches!(verdict, AdmitVerdict::Refused(_)) && self.leave_control_pool(&mut meta) {
            let charge = self.admission.charge(u32::from(meta.len));
            let ix = QueueIx((out.index() * PRIORITIES + queue) as u32);
            verdict = self.admission.admit(PgIx(u32::from(meta.pg)), ix, charge);
        }
        if let AdmitVerdict::Refused(reason) = verdict {
            let header = meta.header();
            match reason.stage() {
                "egress" => self.drop_at_queue(out, frame, &header, reason),
                _ => self.drop_at_group(frame, &header, reason),
            }
            return Some((reason, header));
        }
        self.count_charged(meta.pg, 1);
        if verdict == AdmitVerdict::AdmittedXoff {
            self.xoff(PgIx(u32::from(meta.pg)));
        }
        self.enqueue(out, frame, meta, meta.rx_ns);
        None
    }

    /// Frames are charged to a group of their port; the control pool is no such group.
    #[inline(always)]
    pub(super) fn count_charged(&mut self, pg: u16, frames: u32) {
        let (port, pg) = (usize::from(pg) / PRIORITIES, usize::from(pg) % PRIORITIES);
        if let Some(port) = self.ports.get_mut(port) {
            port.stats.pg_packets[pg] += u64::from(frames);
            if port.storm_drop | port.storm_forward != 0 {
                port.count_in_storm(pg, Seen::RxOk, u64::from(frames));
            }
        }
    }

    /// A frame that is charged joins its queue at `now`.
    #[inline(always)]
    fn enqueue(&mut self, out: PortId, frame: F, meta: Meta, now: Nanos) {
        let queue_ix = out.index() * PRIORITIES + usize::from(meta.queue);
        let meta = Meta { held_ns: self.held_ns(queue_ix, now), ..meta };
        let mut frame = frame;
        if self.ports[out.index()].mark_on_arrival >> meta.queue & 1 == 1 {
            self.mark_on_arrival(out, &mut frame, &meta);
        }
        let charge = self.admission.charge(u32::from(meta.len));
        let (port, queue) = (&mut self.ports[out.index()], usize::from(meta.queue));
        match self.queues.push(out, frame, &meta, charge) {
            Ok(false) => {}
            Ok(true) => port.scheduler.wake(queue),
            Err(frame) => return self.no_slot(out, frame, &meta),
        }
        if let Some(bursts) = &mut port.bursts {
            bursts.grown(queue, self.queues.bytes(out, queue), meta.rx_ns);
        }
    }

    #[cold]
    #[inline(never)]
    fn no_slot(&mut self, out: PortId, frame: F, meta: &Meta) {
        self.release(out, meta);
        self.drop_at_group(frame, &meta.header(), DropReason::IngressNoSlot);
    }

    /// A frame that did not fit the control pool is charged to its priority group like any other.
    #[cold]
    pub(super) fn leave_control_pool(&mut self, meta: &mut Meta) -> bool {
        if self.admission.control_pg() != Some(PgIx(u32::from(meta.pg))) {
            return false;
        }
        meta.pg = control_group(&self.ports, meta.in_port);
        true
    }

    /// A frame that is charged to its group comes to one of our queues, whatever stands in its way.
    pub(super) fn accept_one(&mut self, out: PortId, frame: F, meta: Meta, now: Nanos) {
        let queue = usize::from(meta.queue);
        let ix = QueueIx((out.index() * PRIORITIES + queue) as u32);
        let charge = self.admission.charge(u32::from(meta.len));
        let port = &self.ports[out.index()];
        let refused = if let Some(reason) = port.shut(queue) {
            Some(reason)
        } else if (port.drops_early >> queue & 1) == 1 && self.drops_early(out, &meta) {
            Some(DropReason::EgressWred)
        } else if !self.queues.has_room() {
            Some(DropReason::IngressNoSlot)
        } else {
            self.admission.admit_egress(ix, charge).err()
        };
        match refused {
            None => self.enqueue(out, frame, meta, now),
            Some(reason) => {
                self.release_group(&meta);
                self.drop_at_queue(out, frame, &meta.header(), reason);
            }
        }
    }

    /// Charges a frame once to its group, as much as its copies take of the memory for frames, and once to every queue
    /// that takes one (B16).
    #[cold]
    pub(super) fn multicast(&mut self, port: PortId, ports: PortSet, frame: F, headers: &ParsedFrame) {
        let may = |out: &PortId| *out != port && self.ports[out.index()].up;
        let outs: ArrayVec<PortId, { crate::types::MAX_PORTS }> =
            ports.intersection(&self.ports[port.index()].flood).iter().filter(may).collect();
        let Some((&last, others)) = outs.split_last() else {
            return self.drop_frame(port, DropReason::LookupNoPort, frame, &headers.meta.header());
        };
        let mut meta = headers.meta;
        if others.is_empty() {
            return self.forward(last, frame, meta);
        }
        if self.draining {
            return self.drop_at_group(frame, &meta.header(), DropReason::RunDraining);
        }
        let Some(slot) = self.copies.next_free() else {
            return self.drop_at_group(frame, &meta.header(), DropReason::IngressNoCopy);
        };
        let each = self.admission.charge(u32::from(meta.len));
        let charge = self.admission.charge_for_copies(each, outs.len() as u32);
        let verdict = self.admission.admit_ingress(PgIx(u32::from(meta.pg)), charge);
        if let AdmitVerdict::Refused(reason) = verdict {
            return self.drop_at_group(frame, &meta.header(), reason);
        }
        self.count_charged(meta.pg, 1);
        if verdict == AdmitVerdict::AdmittedXoff {
            self.xoff(PgIx(u32::from(meta.pg)));
        }
        meta.copies = slot;
        self.copies.begin(slot, outs.len());
        self.ports[port.index()].stats.copies += others.len() as u64;
        for &out in others {
            match frame.share() {
                Some(copy) => self.copy_to(out, copy, meta),
                None => {
                    self.release_group(&meta);
                    let Self { ports, admission, .. } = self;
                    count_lost(ports, admission, port, DropReason::IngressNoCopy, &meta.header(), 1);
                }
            }
        }
        self.copy_to(last, frame, meta);
    }

    /// One copy of a charged multicast frame to one port, ours or another lcore's.
    fn copy_to(&mut self, out: PortId, frame: F, meta: Meta) {
        if self.owner[out.index()] == self.shard {
            self.accept_one(out, frame, meta, meta.rx_ns);
        } else {
            self.hand_off_one(out, frame, &meta);
        }
    }

    /// A group crossed its line: pause every priority that fills it, and note which queue is to blame. To be called as
    /// soon as the frame is charged: if it finds no place after all, its release says Xon, and must be the last word.
    #[cold]
    pub(super) fn xoff(&mut self, pg: PgIx) {
        let (port, pg) = (PortId((pg.0 as usize / PRIORITIES) as u16), pg.0 as usize % PRIORITIES);
        let params = &self.ports[port.index()].params;
        let (priorities, queues) = (params.pg_priorities[pg], params.pg_queues[pg]);
        let cause = self.queues.fullest(port, queues).map(|(out, queue)| Cause { out_port: out.0, queue });
        for priority in crate::pfc::bits(priorities) {
            self.ports[port.index()].generator.xoff(priority, Source::Buffer, cause);
        }
    }

    /// WRED of a lossy queue: a frame that cannot be marked is dropped where others are marked.
    #[cold]
    fn drops_early(&mut self, out: PortId, meta: &Meta) -> bool {
        let queue = usize::from(meta.queue);
        let depth = self.queues.bytes(out, queue);
        let params = &self.ports[out.index()].params;
        let marks = params.mark[queue].is_some();
        let markable = marks && meta.ecn.codepoint != 0 && meta.ecn.place != EcnPlace::None;
        let wred = params.early_drop[queue];
        let random = self.rng.next_u32();
        !markable && wred.is_some_and(|wred| wred.decide(depth, random))
    }

    /// Marking on arrival (DEV-28's other option), on the depth the frame finds.
    #[cold]
    fn mark_on_arrival(&mut self, out: PortId, frame: &mut F, meta: &Meta) {
        let depth = self.queues.bytes(out, usize::from(meta.queue));
        let random = self.rng.next_u32();
        let port = &mut self.ports[out.index()];
        if port.params.mark[usize::from(meta.queue)].is_some_and(|wred| wred.decide(depth, random)) {
            port.mark(frame, meta);
        }
    }
}

impl<F> Port<F> {
    /// Why a queue takes no frames at all, if it takes none.
    fn shut(&self, queue: usize) -> Option<DropReason> {
        if !self.up {
            Some(DropReason::EgressPortDown)
        } else if self.flushing >> queue & 1 == 1 {
            Some(self.flush_as[queue])
        } else {
            (self.storm_drop >> queue & 1 == 1).then_some(DropReason::WatchdogDrop)
        }
    }

    /// A frame received here met group `pg` while a queue of that group is in a storm on this port (H10).
    #[cold]
    pub(super) fn count_in_storm(&mut self, pg: usize, seen: Seen, frames: u64) {
        let stormed = (self.storm_drop | self.storm_forward) & self.params.pg_queues[pg];
        if let Some(watchdog) = &mut self.watchdog {
            crate::pfc::bits(stormed).for_each(|queue| watchdog.count(queue, seen, frames));
        }
    }
}
