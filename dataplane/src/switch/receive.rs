//! From a received frame to its queues: parse, consume control, classify, look up, learn, admit.

use super::{Handoff, Port, Switch, UnknownUnicast};
use crate::classify::Class;
use crate::drops::DropReason;
use crate::egress::Meta;
use crate::fdb::{Learned, Lookup};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx, QueueIx, Verdict};
use crate::parse::{EcnField, EcnPlace, Kind};
use crate::pfc::generate::{Cause, Source};
use crate::pfc::watchdog::Seen;
use crate::portset::PortSet;
use crate::types::{BURST, Burst, Nanos, PRIORITIES, PortId};
use arrayvec::ArrayVec;
use std::sync::atomic::Ordering::Relaxed;

/// What the headers of one frame said, between the pass that reads them and the pass that acts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    dst_key: u64,
    src_key: u64,
    len: u16,
    class: Class,
    ecn: EcnField,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Forward,
    /// To a group address: static group or flood.
    ForwardGroup,
    /// CNP or ACK.
    ForwardControl,
    Consume,
    Drop(DropReason),
}

impl<F: Frame, A: Admission> Switch<F, A> {
    /// Reads all headers of the burst and starts fetching the table lines they will need.
    #[inline(always)]
    pub(super) fn parse_burst(&mut self, port: PortId, burst: &Burst<F>) -> ArrayVec<Work, BURST> {
        let Port { params, stats, .. } = &mut self.ports[port.index()];
        let (mut packets, mut bytes) = (0, 0);
        let mut all = ArrayVec::new();
        for frame in burst {
            let len = frame.len();
            let work = match params.profile.parse(frame.bytes(), len) {
                Ok(parsed) if len <= params.mtu => {
                    let action = match parsed.kind {
                        Kind::Data if parsed.group => Action::ForwardGroup,
                        Kind::Data => Action::Forward,
                        Kind::Cnp | Kind::Ack if parsed.group => Action::ForwardGroup,
                        Kind::Cnp | Kind::Ack => Action::ForwardControl,
                        Kind::MacControl => Action::Consume,
                        Kind::Reserved => Action::Drop(DropReason::ControlReserved),
                    };
                    stats.malformed_l3 += u64::from(parsed.malformed_l3);
                    self.fdb.prefetch_bucket::<F>(parsed.dst_key);
                    self.fdb.prefetch_bucket::<F>(parsed.src_key);
                    Work {
                        dst_key: parsed.dst_key,
                        src_key: parsed.src_key,
                        len: len as u16,
                        class: params.classifier.class(&parsed),
                        ecn: parsed.ecn,
                        action,
                    }
                }
                Ok(_) => Work::dropped(DropReason::ParseTooLong),
                Err(reason) => Work::dropped(reason),
            };
            if work.action != Action::Consume {
                packets += 1;
                bytes += len as u64;
                let priority = usize::from(work.class.tc) % PRIORITIES;
                stats.rx_priority_packets[priority] += 1;
                stats.rx_priority_bytes[priority] += len as u64;
            }
            all.push(work);
        }
        stats.rx_packets += packets;
        stats.rx_bytes += bytes;
        all
    }

    #[inline(always)]
    pub(super) fn receive_one(&mut self, port: PortId, frame: F, work: Work, now: Nanos) {
        match work.action {
            Action::Forward | Action::ForwardControl => {}
            Action::ForwardGroup => return self.receive_group(port, frame, work, now),
            Action::Consume => return self.consume(port, &frame, now),
            Action::Drop(reason) => return self.drop_frame(port, reason, frame),
        }
        self.learn(port, work.src_key);
        match self.fdb.lookup(work.dst_key) {
            Lookup::Port(out) if out != port && self.ports[out.index()].up => {
                let meta = self.meta(port, &work, now);
                self.forward(out, frame, meta, now);
            }
            Lookup::Port(out) if out == port => self.drop_frame(port, DropReason::LookupSamePort, frame),
            Lookup::Port(_) => self.drop_frame(port, DropReason::LookupPortDown, frame),
            Lookup::Group(group) => {
                let ports = self.fdb.group(group);
                self.multicast(port, ports, frame, work, now);
            }
            Lookup::Miss => self.unknown(port, frame, work, now),
        }
    }

    #[inline(always)]
    fn learn(&mut self, port: PortId, key: u64) {
        // Without a place to tell the other shards, learning waits for the next frame.
        if self.peers.len() > 1 && !self.news_have_room() {
            return;
        }
        match self.fdb.learn(key, port, self.ageing.now_tick()) {
            Learned::Known | Learned::Refused(_) => {}
            Learned::New(event) | Learned::Moved(event) => self.tell(event),
        }
    }

    #[inline(always)]
    fn meta(&self, port: PortId, work: &Work, now: Nanos) -> Meta {
        let control = work.action == Action::ForwardControl && self.ports[port.index()].params.control_pool;
        let own = (port.index() * PRIORITIES) as u16 + u16::from(work.class.pg);
        let pg = match self.admission.control_pg() {
            Some(pg) if control => pg.0 as u16,
            _ => own,
        };
        Meta {
            rx_ns: now,
            copies: Meta::SINGLE,
            len: work.len,
            pg,
            in_port: port.0,
            queue: work.class.queue,
            ecn: work.ecn,
        }
    }

    /// Charges a frame with one destination and queues it.
    #[inline(always)]
    fn forward(&mut self, out: PortId, frame: F, meta: Meta, now: Nanos) {
        let input = PortId(meta.in_port);
        if self.owner[out.index()] != self.shard {
            return self.forward_remote(out, frame, meta);
        }
        let port = &self.ports[out.index()];
        let queue = usize::from(meta.queue);
        if (port.storm_drop >> queue & 1) == 1 {
            return self.drop_in_storm(out, frame, queue);
        }
        if (port.drops_early >> queue & 1) == 1 && self.drops_early(out, &meta) {
            return self.drop_at_queue(out, frame, queue, DropReason::EgressWred);
        }
        if self.draining || !self.queues.has_room() {
            let reason = if self.draining { DropReason::RunDraining } else { DropReason::IngressNoSlot };
            return self.drop_at_group(input, frame, &meta, reason);
        }
        let charge = self.admission.charge(u32::from(meta.len));
        let ix = QueueIx((out.index() * PRIORITIES + queue) as u32);
        let mut meta = meta;
        let mut verdict = self.admission.admit(PgIx(u32::from(meta.pg)), ix, charge);
        if matches!(verdict, Verdict::Refused(_)) && self.leave_control_pool(&mut meta) {
            verdict = self.admission.admit(PgIx(u32::from(meta.pg)), ix, charge);
        }
        match verdict {
            Verdict::Admitted => {}
            Verdict::AdmittedXoff => {
                self.count_charged(&meta);
                self.enqueue(out, frame, meta, now);
                return self.xoff(PgIx(u32::from(meta.pg)));
            }
            Verdict::Refused(reason) if reason.stage() == "egress" => {
                return self.drop_at_queue(out, frame, queue, reason);
            }
            Verdict::Refused(reason) => return self.drop_at_group(input, frame, &meta, reason),
        }
        self.count_charged(&meta);
        self.enqueue(out, frame, meta, now);
    }

    /// A frame is charged to a group of its port; the control pool is no such group.
    #[inline(always)]
    fn count_charged(&mut self, meta: &Meta) {
        let pg = usize::from(meta.pg) % PRIORITIES;
        if let Some(port) = self.ports.get_mut(usize::from(meta.pg) / PRIORITIES) {
            port.stats.pg_packets[pg] += 1;
            if port.storm_drop | port.storm_forward != 0 {
                port.count_in_storm(pg, Seen::RxOk);
            }
        }
    }

    #[inline(always)]
    pub(super) fn enqueue(&mut self, out: PortId, frame: F, meta: Meta, now: Nanos) {
        let mut frame = frame;
        if self.ports[out.index()].mark_on_arrival >> meta.queue & 1 == 1 {
            self.mark_on_arrival(out, &mut frame, &meta);
        }
        let port = &mut self.ports[out.index()];
        match self.queues.push(out, frame, meta) {
            Ok(was_empty) => {
                let queue = usize::from(meta.queue);
                if was_empty {
                    port.scheduler.wake(queue);
                }
                if let Some(bursts) = &mut port.bursts {
                    bursts.grown(queue, self.queues.bytes(out, queue), now);
                }
            }
            Err(frame) => {
                self.release(out, &meta);
                self.drop_frame(PortId(meta.in_port), DropReason::IngressNoSlot, frame);
            }
        }
    }

    /// A frame that did not fit the control pool is charged to its priority group like any other.
    #[cold]
    fn leave_control_pool(&mut self, meta: &mut Meta) -> bool {
        if self.admission.control_pg() != Some(PgIx(u32::from(meta.pg))) {
            return false;
        }
        let pg = self.ports[usize::from(meta.in_port)].params.classifier.control_class().pg;
        meta.pg = meta.in_port * PRIORITIES as u16 + u16::from(pg);
        true
    }

    /// The egress port is another lcore's: charge the group here, let the owner charge the queue.
    #[cold]
    fn forward_remote(&mut self, out: PortId, frame: F, meta: Meta) {
        let mut meta = meta;
        let charge = self.admission.charge(u32::from(meta.len));
        let mut verdict = self.admission.admit_ingress(PgIx(u32::from(meta.pg)), charge);
        if matches!(verdict, Verdict::Refused(_)) && self.leave_control_pool(&mut meta) {
            verdict = self.admission.admit_ingress(PgIx(u32::from(meta.pg)), charge);
        }
        if let Verdict::Refused(reason) = verdict {
            return self.drop_at_group(PortId(meta.in_port), frame, &meta, reason);
        }
        self.count_charged(&meta);
        self.hand_off(out, frame, meta);
        if verdict == Verdict::AdmittedXoff {
            self.xoff(PgIx(u32::from(meta.pg)));
        }
    }

    /// Puts a charged copy into the ring of the lcore that owns `out`.
    fn hand_off(&mut self, out: PortId, frame: F, meta: Meta) {
        self.admission.mark_remote(PgIx(u32::from(meta.pg)));
        let peer = self.peers.get_mut(usize::from(self.owner[out.index()])).and_then(Option::as_mut);
        let handoff = Handoff { out, frame, meta };
        let lost = match peer {
            Some(peer) => peer.frames_to.push(handoff).err().map(|rtrb::PushError::Full(h)| h),
            None => Some(handoff),
        };
        if let Some(Handoff { frame, meta, .. }) = lost {
            self.release_group(&meta, 1);
            self.drop_frame(PortId(meta.in_port), DropReason::HandoffFull, frame);
        }
    }

    /// A frame another lcore has charged to its own group arrives for one of our queues.
    pub(super) fn accept(&mut self, Handoff { out, frame, meta }: Handoff<F>, now: Nanos) {
        let queue = usize::from(meta.queue);
        let ix = QueueIx((out.index() * PRIORITIES + queue) as u32);
        let charge = self.admission.charge(u32::from(meta.len));
        let port = &self.ports[out.index()];
        let refused = if !port.up {
            Some(DropReason::EgressPortDown)
        } else if (port.storm_drop >> queue & 1) == 1 {
            Some(DropReason::WatchdogDrop)
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
                self.release_group(&meta, 1);
                self.drop_at_queue(out, frame, queue, reason);
            }
        }
    }

    /// Broadcast, multicast, and unicast flooding start here.
    #[cold]
    fn receive_group(&mut self, port: PortId, frame: F, work: Work, now: Nanos) {
        self.learn(port, work.src_key);
        let ports = match self.fdb.lookup(work.dst_key) {
            Lookup::Group(group) => self.fdb.group(group),
            _ => self.ports[port.index()].flood,
        };
        self.multicast(port, ports, frame, work, now);
    }

    #[cold]
    fn unknown(&mut self, port: PortId, frame: F, work: Work, now: Nanos) {
        let input = &mut self.ports[port.index()];
        if input.params.unknown_unicast == UnknownUnicast::Drop {
            return self.drop_frame(port, DropReason::LookupUnknown, frame);
        }
        input.stats.flooded += 1;
        let ports = input.flood;
        self.multicast(port, ports, frame, work, now);
    }

    /// Charges a frame once to its group and once to every queue that takes a copy (B16).
    #[cold]
    fn multicast(&mut self, port: PortId, ports: PortSet, frame: F, work: Work, now: Nanos) {
        let may = |out: &PortId| *out != port && self.ports[out.index()].up;
        let outs: ArrayVec<PortId, { crate::types::MAX_PORTS }> =
            ports.intersection(&self.ports[port.index()].flood).iter().filter(may).collect();
        let Some((&last, others)) = outs.split_last() else {
            return self.drop_frame(port, DropReason::LookupNoPort, frame);
        };
        let mut meta = self.meta(port, &work, now);
        if others.is_empty() {
            return self.forward(last, frame, meta, now);
        }
        if self.draining {
            return self.drop_at_group(port, frame, &meta, DropReason::RunDraining);
        }
        let Some(slot) = self.copies_slot() else {
            return self.drop_at_group(port, frame, &meta, DropReason::IngressNoCopy);
        };
        let charge = self.admission.charge(u32::from(meta.len));
        let verdict = self.admission.admit_ingress(PgIx(u32::from(meta.pg)), charge);
        if let Verdict::Refused(reason) = verdict {
            return self.drop_at_group(port, frame, &meta, reason);
        }
        self.count_charged(&meta);
        meta.copies = slot;
        self.copies[slot as usize].store(outs.len() as u32, Relaxed);
        self.ports[port.index()].stats.copies += others.len() as u64;
        for &out in others {
            match frame.share() {
                Some(copy) => self.copy_to(out, copy, meta, now),
                None => {
                    self.release_group(&meta, 1);
                    self.count_drop(port, DropReason::IngressNoCopy);
                }
            }
        }
        self.copy_to(last, frame, meta, now);
        if verdict == Verdict::AdmittedXoff {
            self.xoff(PgIx(u32::from(meta.pg)));
        }
    }

    /// One copy of a charged multicast frame to one port, ours or another lcore's.
    fn copy_to(&mut self, out: PortId, frame: F, meta: Meta, now: Nanos) {
        if self.owner[out.index()] == self.shard {
            self.accept(Handoff { out, frame, meta }, now);
        } else {
            self.hand_off(out, frame, meta);
        }
    }

    /// A free copy count. There are as many as frames can be held, so a free one is near.
    fn copies_slot(&mut self) -> Option<u32> {
        let (all, per_shard) = (self.copies.len(), self.copies.len() / self.peers.len().max(1));
        let first = usize::from(self.shard) * per_shard;
        for _ in 0..per_shard.min(all) {
            self.copies_cursor = (self.copies_cursor + 1) % per_shard;
            let slot = first + self.copies_cursor;
            if self.copies[slot].load(Relaxed) == 0 {
                return Some(slot as u32);
            }
        }
        None
    }

    /// PAUSE, PFC and what pretends to be: never forwarded, never data (D4..D11).
    #[cold]
    fn consume(&mut self, port: PortId, frame: &F, now: Nanos) {
        let port = &mut self.ports[port.index()];
        port.stats.rx_control += 1;
        port.reaction.receive(frame.bytes(), now);
    }

    /// A group crossed its line: pause every priority that fills it, and note which queue is to blame.
    #[cold]
    fn xoff(&mut self, pg: PgIx) {
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
        let markable = meta.ecn.codepoint != 0 && meta.ecn.place != EcnPlace::None;
        let random = self.rng.next_u32();
        let wred = self.ports[out.index()].params.early_drop[queue];
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

    /// Ingress reasons count at the port of arrival and at the priority group.
    #[cold]
    pub(super) fn drop_at_group(&mut self, input: PortId, frame: F, meta: &Meta, reason: DropReason) {
        let pg = usize::from(meta.pg) % PRIORITIES;
        let port = &mut self.ports[input.index()];
        port.stats.pg_drops[pg] += 1;
        port.count_in_storm(pg, Seen::RxDrop);
        self.drop_frame(input, reason, frame);
    }

    /// Egress reasons count at the port of departure and at the queue.
    #[cold]
    pub(super) fn drop_at_queue(&mut self, out: PortId, frame: F, queue: usize, reason: DropReason) {
        let port = &mut self.ports[out.index()];
        port.stats.queue_drops[queue] += 1;
        if reason == DropReason::WatchdogDrop
            && let Some(watchdog) = &mut port.watchdog
        {
            watchdog.count(queue, Seen::TxDrop, 1);
        }
        self.drop_frame(out, reason, frame);
    }

    #[cold]
    fn drop_in_storm(&mut self, out: PortId, frame: F, queue: usize) {
        self.drop_at_queue(out, frame, queue, DropReason::WatchdogDrop);
    }

    fn count_drop(&mut self, at: PortId, reason: DropReason) {
        self.ports[at.index()].stats.drops.0[reason as usize] += 1;
    }
}

impl<F> Port<F> {
    /// A frame received here met group `pg` while a queue of that group is in a storm on this port (H10).
    #[cold]
    fn count_in_storm(&mut self, pg: usize, seen: Seen) {
        let stormed = (self.storm_drop | self.storm_forward) & self.params.pg_queues[pg];
        if let Some(watchdog) = &mut self.watchdog {
            crate::pfc::bits(stormed).for_each(|queue| watchdog.count(queue, seen, 1));
        }
    }
}

impl Work {
    fn dropped(reason: DropReason) -> Self {
        let ecn = EcnField { place: EcnPlace::None, codepoint: 0 };
        Self { dst_key: 0, src_key: 0, len: 0, class: Class::default(), ecn, action: Action::Drop(reason) }
    }
}
