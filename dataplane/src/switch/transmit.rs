//! From the queues to the wire: control first, then what the scheduler picks, marked on the way.

use super::tick::xon;
use super::{Port, Switch, Wire};
use crate::drops::DropReason;
use crate::ecn;
use crate::egress::{Meta, Pick, Queues};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx, QueueIx};
use crate::parse::EcnPlace;
use crate::pfc::watchdog::Seen;
use crate::rng::Rng;
use crate::types::{Nanos, PRIORITIES, PortId, wire_bytes};
use std::sync::atomic::Ordering::Relaxed;

impl<F: Frame, A: Admission> Switch<F, A> {
    /// PFC leaves ahead of all data and is not subject to pause (C13).
    #[inline(always)]
    pub(super) fn transmit_control(&mut self, port: PortId, now: Nanos, wire: &mut impl Wire<F>) {
        let port = &mut self.ports[port.index()];
        if port.up && port.generator.due(now) {
            port.send_pfc(now, wire);
        }
    }

    /// Takes frames off the queues, in the order of the scheduler, until the stage holds `budget`.
    #[inline(always)]
    pub(super) fn stage(&mut self, out: PortId, budget: usize, now: Nanos) {
        let Self { ports, queues, rng, .. } = self;
        let port = &mut ports[out.index()];
        let budget = budget.min(port.stage.capacity());
        let mut ready = queues.occupied(out);
        if ready == 0 || port.stage.len() >= budget || !port.up {
            return;
        }
        ready &= !port.blocked(now);
        if let Some(shaper) = &mut port.shaper {
            shaper.refill(now);
        }
        port.scheduler.refill(now);
        while port.stage.len() < budget {
            let Some(pick) = port.scheduler.pick(ready) else { return };
            let most = budget - port.stage.len();
            let open = port.take(queues, rng, out, pick, most);
            if let Some(bursts) = &mut port.bursts {
                bursts.shrunk(pick.queue, queues.bytes(out, pick.queue), now);
            }
            if !open {
                return;
            }
            ready &= queues.occupied(out);
        }
    }

    /// Gives the stage to the wire and releases what the wire took.
    #[inline(always)]
    pub(super) fn hand_over(&mut self, out: PortId, now: Nanos, wire: &mut impl Wire<F>) -> usize {
        let port = &mut self.ports[out.index()];
        let before = port.stage.len();
        if before == 0 || !port.up {
            return 0;
        }
        wire.send(&mut port.stage);
        let sent = before - port.stage.len();
        // Frames of one queue, group and burst are released together: under load that is all of them.
        let mut rest = sent;
        while rest > 0 {
            let port = &mut self.ports[out.index()];
            let at = sent - rest;
            let first = port.staged[at];
            let together = |meta: &&Meta| first.same_account(meta);
            let run = 1 + port.staged[at + 1..sent].iter().take_while(together).count();
            let (mut bytes, mut charge) = (0, 0);
            for meta in &port.staged[at..at + run] {
                bytes += u32::from(meta.len);
                charge += self.admission.charge(u32::from(meta.len));
            }
            port.note_sent(&first, run as u32, bytes, now);
            self.release_charge(out, &first, charge);
            rest -= run;
        }
        let staged = &mut self.ports[out.index()].staged;
        if sent == staged.len() {
            staged.clear();
        } else {
            staged.drain(..sent);
        }
        sent
    }

    /// Gives back what `meta` (or a run of frames with the same accounts) was charged.
    #[inline(always)]
    fn release_charge(&mut self, out: PortId, meta: &Meta, charge: u32) {
        let queue = QueueIx((out.index() * PRIORITIES + usize::from(meta.queue)) as u32);
        self.admission.release_egress(queue, charge);
        if meta.copies == Meta::SINGLE {
            self.release_group_charge(meta, charge);
        } else {
            self.release_group(meta, 1);
        }
    }

    /// One copy of a frame is gone; the last one releases the group (B16).
    #[cold]
    pub(super) fn release_group(&mut self, meta: &Meta, copies: u32) {
        let last = meta.copies == Meta::SINGLE
            || self.copies[meta.copies as usize].fetch_sub(copies, Relaxed) == copies;
        if last {
            let charge = self.admission.charge(u32::from(meta.len));
            self.release_group_charge(meta, charge);
        }
    }

    #[inline(always)]
    fn release_group_charge(&mut self, meta: &Meta, charge: u32) {
        let pg = PgIx(u32::from(meta.pg));
        if self.owner[usize::from(meta.in_port)] != self.shard {
            self.admission.release_for_owner(pg, charge);
        } else if self.admission.release_ingress(pg, charge) {
            xon(&mut self.ports, pg);
        }
    }

    /// Releases a frame that was charged to its queue and group but never sent.
    #[cold]
    pub(super) fn release(&mut self, out: PortId, meta: &Meta) {
        let charge = self.admission.charge(u32::from(meta.len));
        self.release_charge(out, meta, charge);
    }

    /// Drops everything a queue holds, with one reason.
    #[cold]
    pub(super) fn flush(&mut self, out: PortId, queue: usize, reason: DropReason, now: Nanos) {
        if let Some(bursts) = &mut self.ports[out.index()].bursts {
            bursts.shrunk(queue, 0, now);
        }
        self.discard(out, queue, reason);
    }

    /// The same when there is no time left to speak of: at the end of a run.
    #[cold]
    pub(super) fn discard(&mut self, out: PortId, queue: usize, reason: DropReason) {
        while let Some((frame, meta)) = self.queues.pop(out, queue) {
            self.flushed_watched(out, &meta, reason);
            self.release(out, &meta);
            self.drop_at_queue(out, frame, queue, reason);
        }
    }

    /// Drops what was handed to a wire that will not take it any more.
    #[cold]
    pub(super) fn flush_stage(&mut self, out: PortId, reason: DropReason) {
        let port = &mut self.ports[out.index()];
        let (frames, metas) = (std::mem::take(&mut port.stage), std::mem::take(&mut port.staged));
        for (frame, meta) in frames.into_iter().zip(metas) {
            self.flushed_watched(out, &meta, reason);
            self.release(out, &meta);
            self.drop_at_queue(out, frame, usize::from(meta.queue), reason);
        }
    }
}

impl<F: Frame> Port<F> {
    /// Moves up to `most` frames of the picked queue to the stage, marking on the way. `false`: the shaper is shut.
    #[inline(always)]
    fn take(
        &mut self,
        queues: &mut Queues<F>,
        rng: &mut Rng,
        out: PortId,
        Pick { queue, wire_bytes: turn }: Pick,
        most: usize,
    ) -> bool {
        if self.shaper.as_ref().is_some_and(|shaper| !shaper.open()) {
            return false;
        }
        let wred = self.mark[queue];
        let (mut wire, mut last) = (0, 0);
        let taken = queues.drain(out, queue, most, |mut frame, meta, depth| {
            last = wire_bytes(u64::from(meta.len));
            wire += last;
            if depth > wred.kmin && wred.decide(depth, rng.next_u32()) {
                self.mark(&mut frame, &meta);
            } else if meta.ecn.codepoint == ecn::CE {
                self.stats.ecn_seen_ce[queue] += 1;
            }
            self.stage.push(frame);
            self.staged.push(meta);
            self.shaper.as_mut().is_none_or(|shaper| shaper.pay_and_open(last)) && wire < turn
        });
        // While nobody else could be served the group's time follows each frame; a turn has one time.
        let behind = if turn == Pick::ALONE { last } else { wire };
        self.scheduler.sent(queue, taken as u64, wire, behind);
        true
    }

    /// Queues that may not send now: paused by the peer, held back by an operator.
    #[inline(always)]
    pub(super) fn blocked(&mut self, now: Nanos) -> u8 {
        (self.reaction.paused_queues(now) & !self.storm_forward) | self.held_back
    }

    #[cold]
    fn send_pfc(&mut self, now: Nanos, wire: &mut impl Wire<F>) {
        // Looked at before it is made: a frame the wire cannot take now must stay due.
        let mut next = self.generator.clone();
        let Some(frame) = next.poll(now) else { return };
        if wire.send_control(&frame.encode(self.params.mac)) {
            self.generator = next;
            self.stats.tx_control += 1;
        } else {
            self.stats.tx_control_no_memory += 1;
        }
    }

    /// The marking law chose this frame: an ECT frame becomes CE, others are left as they are (F6, F7).
    #[cold]
    pub(super) fn mark(&mut self, frame: &mut F, meta: &Meta) {
        let queue = usize::from(meta.queue);
        self.stats.ecn_selected[queue] += 1;
        match meta.ecn.codepoint {
            ecn::CE => self.stats.ecn_seen_ce[queue] += 1,
            0 => {}
            _ if meta.ecn.place == EcnPlace::None => {}
            _ if !frame.make_unique() => self.stats.ecn_no_memory += 1,
            _ => {
                if ecn::mark(frame.bytes_mut(), meta.ecn.place) {
                    self.stats.ecn_marked[queue] += 1;
                    self.stats.ecn_marked_bytes[queue] += u64::from(meta.len);
                }
            }
        }
    }

    #[inline(always)]
    fn note_sent(&mut self, first: &Meta, frames: u32, bytes: u32, now: Nanos) {
        let queue = usize::from(first.queue) % PRIORITIES;
        self.stats.tx_packets += u64::from(frames);
        self.stats.tx_bytes += u64::from(bytes);
        self.stats.queue_packets[queue] += u64::from(frames);
        self.stats.queue_bytes[queue] += u64::from(bytes);
        self.stats.residence[queue].note(now.saturating_sub(first.rx_ns), u64::from(frames));
        if (self.storm_forward | self.storm_drop) >> queue & 1 == 1
            && let Some(watchdog) = &mut self.watchdog
        {
            watchdog.count(queue, Seen::TxOk, u64::from(frames));
        }
    }
}

impl Meta {
    /// Charged to the same group and queue by the same burst: may be released together.
    #[inline(always)]
    fn same_account(&self, other: &Meta) -> bool {
        self.pg == other.pg
            && self.queue == other.queue
            && self.rx_ns == other.rx_ns
            && self.copies == Meta::SINGLE
            && other.copies == Meta::SINGLE
    }
}
