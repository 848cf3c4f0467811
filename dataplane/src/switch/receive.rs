//! From a received frame to its queues: parse, consume control, classify, look up, learn, admit.

use super::{Handoff, Port, PortParams, Switch, UnknownUnicast};
use crate::classify::Class;
use crate::drops::DropReason;
use crate::egress::{Chain, Meta};
use crate::fdb::{Fdb, Home, Learned, Lookup};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx, QueueIx, Verdict};
use crate::parse::{EcnPlace, Kind, Parsed};
use crate::pfc::generate::{Cause, Source};
use crate::pfc::watchdog::Seen;
use crate::portset::PortSet;
use crate::stats::PortStats;
use crate::types::{BURST, Burst, Nanos, PRIORITIES, PortId};
use arrayvec::ArrayVec;
use std::sync::atomic::Ordering::Relaxed;

/// What the headers of one frame said, between the pass that reads them and the pass that acts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) dst_key: u64,
    src_key: u64,
    dst_home: Home,
    src_home: Home,
    pub(super) meta: Meta,
    action: Action,
}

impl Work {
    /// The frame goes further than its port.
    pub(super) fn forwards(&self) -> bool {
        matches!(self.action, Action::Forward | Action::ForwardGroup)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Forward,
    /// To a group address: static group or flood.
    ForwardGroup,
    Consume,
    Drop(DropReason),
}

/// Groups a burst is sorted into; a queue's place is its number modulo this.
pub(super) const GROUPS: usize = 32;

/// Frames of a burst with the same priority group and egress queue, to be admitted together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    queue: QueueIx,
    pg: u16,
    charge: u32,
    chain: Chain,
}

impl Group {
    pub(super) fn none() -> Self {
        Self { queue: QueueIx(0), pg: 0, charge: 0, chain: Chain::new(u32::MAX, 0) }
    }
}

/// A burst on its way into groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grouping {
    pub(super) port: PortId,
    pub(super) learning: bool,
    /// Groups with frames, a bit each.
    pub(super) waiting: u32,
}

/// What all frames of a burst have in common.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    port: PortId,
    now: Nanos,
    /// Group 0 of the port, and the group that stands for the control pool if the port uses it.
    first_pg: u16,
    control_pg: Option<u16>,
}

impl<F: Frame, A: Admission> Switch<F, A> {
    /// Reads all headers of the burst and starts fetching the table lines they will need.
    #[inline(always)]
    pub(super) fn parse_burst(
        &mut self,
        port: PortId,
        burst: &Burst<F>,
        now: Nanos,
    ) -> ArrayVec<Work, BURST> {
        let Self { ports, fdb, admission, .. } = self;
        let Port { params, stats, .. } = &mut ports[port.index()];
        let control_pg = if params.control_pool { admission.control_pg() } else { None };
        let arrival = Arrival {
            port,
            now,
            first_pg: (port.index() * PRIORITIES) as u16,
            control_pg: control_pg.map(|pg| pg.0 as u16),
        };
        let (mut packets, mut bytes) = (0, 0);
        let mut all = ArrayVec::new();
        for frame in burst {
            let len = frame.len();
            let priority = if let Some(parsed) = params.profile.glance(frame.bytes(), len) {
                let class = params.classifier.class_of_ip(parsed.dscp.unwrap_or(0), parsed.kind);
                all.push(arrival.work::<F>(&parsed, class, len, fdb));
                class.tc
            } else {
                let (work, class) = arrival.work_of_any(frame, params, fdb, stats);
                all.push(work);
                if work.action == Action::Consume {
                    continue;
                }
                class.tc
            };
            packets += 1;
            bytes += len as u64;
            let priority = usize::from(priority) % PRIORITIES;
            stats.rx_priority_packets[priority] += 1;
            stats.rx_priority_bytes[priority] += len as u64;
        }
        stats.rx_packets += packets;
        stats.rx_bytes += bytes;
        all
    }

    /// Unicast between two known stations by a queue that only waits for admission joins the frames of
    /// the burst with the same way. All others take the long way at once.
    #[inline(always)]
    pub(super) fn receive_one(&mut self, arrival: &mut Grouping, frame: F, work: &Work) {
        let port = arrival.port;
        if work.action != Action::Forward {
            return self.receive_other(port, frame, work);
        }
        let meta = &work.meta;
        if arrival.learning && !self.fdb.knows(work.src_home, work.src_key, port, self.ageing.now_tick()) {
            self.learn(port, work.src_key);
        }
        let out = match self.fdb.lookup_at(work.dst_home, work.dst_key) {
            Lookup::Port(out) if out != port && self.is_clear(out, meta.queue) => out,
            _ => return self.forward_any(port, frame, work),
        };
        let charge = self.admission.charge(u32::from(meta.len));
        let queue = QueueIx(u32::from(out.0) * PRIORITIES as u32 + u32::from(meta.queue));
        let at = queue.0 as usize % GROUPS;
        let waiting = arrival.waiting >> at & 1 == 1;
        let group = &self.groups[at];
        if waiting && (group.queue != queue || group.pg != meta.pg) {
            self.admit_group(port, at);
            arrival.waiting &= !(1 << at);
        }
        let slot = match self.queues.place(frame, meta) {
            Ok(slot) => slot,
            Err(frame) => return self.drop_at_group(frame, meta, DropReason::IngressNoSlot),
        };
        let group = &mut self.groups[at];
        if arrival.waiting >> at & 1 == 1 {
            self.queues.link(&mut group.chain, slot, meta.len);
            group.charge += charge;
        } else {
            arrival.waiting |= 1 << at;
            *group = Group { queue, pg: meta.pg, charge, chain: Chain::new(slot, meta.len) };
        }
    }

    /// Admits all groups of the burst.
    #[inline(always)]
    pub(super) fn admit_groups(&mut self, arrival: &Grouping) {
        let mut waiting = arrival.waiting;
        while waiting != 0 {
            self.admit_group(arrival.port, waiting.trailing_zeros() as usize);
            waiting &= waiting - 1;
        }
    }

    /// Admits the frames of a group together if nothing is near a limit, else one by one.
    #[inline(always)]
    fn admit_group(&mut self, port: PortId, at: usize) {
        let Group { queue, pg, charge, chain } = self.groups[at];
        if !self.admission.admit_together(PgIx(u32::from(pg)), queue, charge) {
            return self.admit_one_by_one(queue, chain);
        }
        let (out, queue) = (PortId((queue.0 as usize / PRIORITIES) as u16), queue.0 as usize % PRIORITIES);
        self.count_charged(pg, chain.frames);
        if self.queues.append(port, out, queue, &chain) {
            self.ports[out.index()].scheduler.wake(queue);
        }
    }

    #[cold]
    #[inline(never)]
    fn admit_one_by_one(&mut self, queue: QueueIx, chain: Chain) {
        let mut chain = chain;
        let out = PortId((queue.0 as usize / PRIORITIES) as u16);
        while let Some((frame, meta)) = self.queues.unplace(&mut chain) {
            self.admit(out, frame, meta);
        }
    }

    /// Nothing but admission stands between a frame and this queue.
    #[inline(always)]
    fn is_clear(&self, out: PortId, queue: u8) -> bool {
        self.hindered.get(out.index()).is_some_and(|queues| queues >> (queue & 7) & 1 == 0)
    }

    /// Notes anew which queues of a port have something to be looked at before admission: the port is
    /// down or another lcore's, the switch drains, the watchdog drops, the queue drops or marks on
    /// arrival, its depth is watched frame by frame.
    pub(super) fn note_hindered(&mut self, out: PortId) {
        let port = &self.ports[out.index()];
        let watched = self.tap.as_ref().is_some_and(|tap| tap.hinders());
        let all = !port.up
            || port.bursts.is_some()
            || self.draining
            || watched
            || self.owner[out.index()] != self.shard;
        self.hindered[out.index()] =
            if all { 0xff } else { port.storm_drop | port.drops_early | port.mark_on_arrival };
    }

    #[cold]
    #[inline(never)]
    fn receive_other(&mut self, port: PortId, frame: F, work: &Work) {
        if self.tap.is_some() {
            return self.receive_watched(port, frame, work, Self::act);
        }
        self.act(port, frame, work);
    }

    /// What is to happen to a frame that does not just join its queue.
    fn act(&mut self, port: PortId, frame: F, work: &Work) {
        match work.action {
            Action::Forward => self.forward_looked_up(port, frame, work),
            Action::ForwardGroup => self.receive_group(port, frame, work),
            Action::Consume => self.consume(port, &frame, work.meta.rx_ns),
            Action::Drop(reason) => self.drop_frame(port, reason, frame),
        }
    }

    #[cold]
    #[inline(never)]
    fn forward_any(&mut self, port: PortId, frame: F, work: &Work) {
        if self.tap.is_some() {
            return self.receive_watched(port, frame, work, Self::act);
        }
        self.forward_looked_up(port, frame, work);
    }

    fn forward_looked_up(&mut self, port: PortId, frame: F, work: &Work) {
        match self.fdb.lookup(work.dst_key) {
            Lookup::Port(out) if out == port => self.drop_frame(port, DropReason::LookupSamePort, frame),
            Lookup::Port(out) if self.ports[out.index()].up => self.forward(out, frame, work.meta),
            Lookup::Port(_) => self.drop_frame(port, DropReason::LookupPortDown, frame),
            Lookup::Group(group) => {
                let ports = self.fdb.group(group);
                self.multicast(port, ports, frame, work);
            }
            Lookup::Miss => self.unknown(port, frame, work),
        }
    }

    #[cold]
    #[inline(never)]
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

    /// Charges a frame with one destination and queues it, whatever stands in its way.
    #[inline(never)]
    fn forward(&mut self, out: PortId, frame: F, meta: Meta) {
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
        if self.draining {
            return self.drop_at_group(frame, &meta, DropReason::RunDraining);
        }
        self.admit(out, frame, meta);
    }

    fn admit(&mut self, out: PortId, frame: F, meta: Meta) {
        let charge = self.admission.charge(u32::from(meta.len));
        let ix = QueueIx((out.index() * PRIORITIES) as u32 + u32::from(meta.queue));
        match self.admission.admit(PgIx(u32::from(meta.pg)), ix, charge) {
            Verdict::Admitted => {
                self.count_charged(meta.pg, 1);
                self.enqueue(out, frame, meta);
            }
            verdict => self.admitted_otherwise(out, frame, meta, verdict),
        }
    }

    /// The rest of admission: a control frame without room in its pool, Xoff, a refusal.
    #[cold]
    #[inline(never)]
    fn admitted_otherwise(&mut self, out: PortId, frame: F, meta: Meta, verdict: Verdict) {
        let (mut meta, mut verdict) = (meta, verdict);
        let queue = usize::from(meta.queue);
        if matches!(verdict, Verdict::Refused(_)) && self.leave_control_pool(&mut meta) {
            let charge = self.admission.charge(u32::from(meta.len));
            let ix = QueueIx((out.index() * PRIORITIES + queue) as u32);
            verdict = self.admission.admit(PgIx(u32::from(meta.pg)), ix, charge);
        }
        match verdict {
            Verdict::Admitted => {
                self.count_charged(meta.pg, 1);
                self.enqueue(out, frame, meta);
            }
            Verdict::AdmittedXoff => {
                self.count_charged(meta.pg, 1);
                self.enqueue(out, frame, meta);
                self.xoff(PgIx(u32::from(meta.pg)));
            }
            Verdict::Refused(reason) if reason.stage() == "egress" => {
                self.drop_at_queue(out, frame, queue, reason);
            }
            Verdict::Refused(reason) => self.drop_at_group(frame, &meta, reason),
        }
    }

    /// Frames are charged to a group of their port; the control pool is no such group.
    #[inline(always)]
    fn count_charged(&mut self, pg: u16, frames: u32) {
        let (port, pg) = (usize::from(pg) / PRIORITIES, usize::from(pg) % PRIORITIES);
        if let Some(port) = self.ports.get_mut(port) {
            port.stats.pg_packets[pg] += u64::from(frames);
            if port.storm_drop | port.storm_forward != 0 {
                (0..frames).for_each(|_| port.count_in_storm(pg, Seen::RxOk));
            }
        }
    }

    #[inline(always)]
    pub(super) fn enqueue(&mut self, out: PortId, frame: F, meta: Meta) {
        let mut frame = frame;
        if self.ports[out.index()].mark_on_arrival >> meta.queue & 1 == 1 {
            self.mark_on_arrival(out, &mut frame, &meta);
        }
        let (port, queue) = (&mut self.ports[out.index()], usize::from(meta.queue));
        match self.queues.push(out, frame, meta) {
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
        self.drop_at_group(frame, meta, DropReason::IngressNoSlot);
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
            return self.drop_at_group(frame, &meta, reason);
        }
        self.count_charged(meta.pg, 1);
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
        match lost {
            None => self.handed_out += 1,
            Some(Handoff { frame, meta, .. }) => {
                self.release_group(&meta, 1);
                self.drop_frame(PortId(meta.in_port), DropReason::HandoffFull, frame);
            }
        }
    }

    /// A frame another lcore has charged to its own group arrives for one of our queues.
    pub(super) fn accept(&mut self, Handoff { out, frame, meta }: Handoff<F>) {
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
            None => self.enqueue(out, frame, meta),
            Some(reason) => {
                self.release_group(&meta, 1);
                self.drop_at_queue(out, frame, queue, reason);
            }
        }
    }

    /// Broadcast, multicast, and unicast flooding start here.
    #[cold]
    fn receive_group(&mut self, port: PortId, frame: F, work: &Work) {
        self.learn(port, work.src_key);
        let ports = match self.fdb.lookup(work.dst_key) {
            Lookup::Group(group) => self.fdb.group(group),
            _ => self.ports[port.index()].flood,
        };
        self.multicast(port, ports, frame, work);
    }

    #[cold]
    fn unknown(&mut self, port: PortId, frame: F, work: &Work) {
        let input = &mut self.ports[port.index()];
        if input.params.unknown_unicast == UnknownUnicast::Drop {
            return self.drop_frame(port, DropReason::LookupUnknown, frame);
        }
        input.stats.flooded += 1;
        let ports = input.flood;
        self.multicast(port, ports, frame, work);
    }

    /// Charges a frame once to its group and once to every queue that takes a copy (B16).
    #[cold]
    fn multicast(&mut self, port: PortId, ports: PortSet, frame: F, work: &Work) {
        let may = |out: &PortId| *out != port && self.ports[out.index()].up;
        let outs: ArrayVec<PortId, { crate::types::MAX_PORTS }> =
            ports.intersection(&self.ports[port.index()].flood).iter().filter(may).collect();
        let Some((&last, others)) = outs.split_last() else {
            return self.drop_frame(port, DropReason::LookupNoPort, frame);
        };
        let mut meta = work.meta;
        if others.is_empty() {
            return self.forward(last, frame, meta);
        }
        if self.draining {
            return self.drop_at_group(frame, &meta, DropReason::RunDraining);
        }
        let Some(slot) = self.copies_slot() else {
            return self.drop_at_group(frame, &meta, DropReason::IngressNoCopy);
        };
        let charge = self.admission.charge(u32::from(meta.len));
        let verdict = self.admission.admit_ingress(PgIx(u32::from(meta.pg)), charge);
        if let Verdict::Refused(reason) = verdict {
            return self.drop_at_group(frame, &meta, reason);
        }
        self.count_charged(meta.pg, 1);
        meta.copies = slot;
        self.copies[slot as usize].store(outs.len() as u32, Relaxed);
        self.ports[port.index()].stats.copies += others.len() as u64;
        for &out in others {
            match frame.share() {
                Some(copy) => self.copy_to(out, copy, meta),
                None => {
                    self.release_group(&meta, 1);
                    self.count_drop(port, DropReason::IngressNoCopy);
                }
            }
        }
        self.copy_to(last, frame, meta);
        if verdict == Verdict::AdmittedXoff {
            self.xoff(PgIx(u32::from(meta.pg)));
        }
    }

    /// One copy of a charged multicast frame to one port, ours or another lcore's.
    fn copy_to(&mut self, out: PortId, frame: F, meta: Meta) {
        if self.owner[out.index()] == self.shard {
            self.accept(Handoff { out, frame, meta });
        } else {
            self.hand_off(out, frame, meta);
        }
    }

    /// A free copy count. There are as many as frames can be held, so a free one is near.
    pub(super) fn copies_slot(&mut self) -> Option<u32> {
        let (all, per_shard) = (self.copies.len(), self.copies.len() / self.peers.len().max(1));
        let first = self.first_copy_slot() as usize;
        for _ in 0..per_shard.min(all) {
            self.copies_cursor = (self.copies_cursor + 1) % per_shard;
            let slot = first + self.copies_cursor;
            if self.copies[slot].load(Relaxed) == 0 {
                return Some(slot as u32);
            }
        }
        None
    }

    /// First copy count of this shard.
    pub(super) fn first_copy_slot(&self) -> u32 {
        (usize::from(self.shard) * (self.copies.len() / self.peers.len().max(1))) as u32
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
    pub(super) fn drop_at_group(&mut self, frame: F, meta: &Meta, reason: DropReason) {
        let (input, pg) = (PortId(meta.in_port), usize::from(meta.pg) % PRIORITIES);
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

impl Arrival {
    #[inline(always)]
    fn meta(&self, len: usize, class: Class, parsed: &Parsed) -> Meta {
        let own = self.first_pg + u16::from(class.pg);
        let pg = match parsed.kind {
            Kind::Cnp | Kind::Ack if !parsed.group => self.control_pg.unwrap_or(own),
            _ => own,
        };
        Meta {
            rx_ns: self.now,
            copies: Meta::SINGLE,
            len: len as u16,
            pg,
            in_port: self.port.0,
            queue: class.queue,
            ecn: parsed.ecn,
        }
    }

    #[inline(always)]
    fn work<F: Frame>(&self, parsed: &Parsed, class: Class, len: usize, fdb: &Fdb) -> Work {
        Work {
            dst_key: parsed.dst_key,
            src_key: parsed.src_key,
            dst_home: fdb.prefetch::<F>(parsed.dst_key),
            src_home: fdb.prefetch::<F>(parsed.src_key),
            meta: self.meta(len, class, parsed),
            action: if parsed.group { Action::ForwardGroup } else { Action::Forward },
        }
    }

    /// Any frame, and its class.
    #[inline(never)]
    fn work_of_any<F: Frame>(
        &self,
        frame: &F,
        params: &PortParams,
        fdb: &Fdb,
        stats: &mut PortStats,
    ) -> (Work, Class) {
        let len = frame.len();
        let nothing = Parsed::NOTHING;
        let (parsed, refused) = match params.profile.parse(frame.bytes(), len) {
            Ok(parsed) => (parsed, None),
            Err(reason) => (nothing, Some(Action::Drop(reason))),
        };
        stats.malformed_l3 += u64::from(parsed.malformed_l3);
        let class = if refused.is_some() { Class::default() } else { params.classifier.class(&parsed) };
        let mut work = self.work::<F>(&parsed, class, len, fdb);
        work.action = match (refused, parsed.kind) {
            (Some(refused), _) => refused,
            (None, Kind::MacControl) => Action::Consume,
            (None, Kind::Reserved) => Action::Drop(DropReason::ControlReserved),
            (None, Kind::Data | Kind::Cnp | Kind::Ack) => work.action,
        };
        (work, class)
    }
}
