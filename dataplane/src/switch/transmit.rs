//! From the queues to the wire: control first, then what the scheduler picks, marked on the way.

use super::tick::xon;
use super::{Key, Port, Switch, Wire};
use crate::drops::DropReason;
use crate::ecn;
use crate::egress::{Lot, Meta, Pack, Pick, Queues, Standing, Sums};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx, QueueIx};
use crate::parse::EcnPlace;
use crate::pfc::watchdog::Seen;
use crate::rng::Rng;
use crate::types::{Nanos, PRIORITIES, PortId, wire_bytes};
use std::sync::atomic::Ordering::Relaxed;

/// Frames of one lot that stand in the stage together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    pub(super) lot: Lot,
    pub(super) sums: Sums,
    /// ns of their wait in which received pauses held their queue.
    paused_ns: Nanos,
}

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
        let Self { ports, queues, rng, admission, .. } = self;
        let charge_of = |len| admission.charge(len);
        let port = &mut ports[out.index()];
        let budget = budget.min(port.stage.capacity());
        let mut ready = queues.occupied(out);
        if ready == 0 || port.stage.len() >= budget || !port.up {
            return;
        }
        ready &= !port.blocked(queues, out, now);
        if let Some(shaper) = &mut port.shaper {
            shaper.refill(now);
        }
        port.scheduler.refill(now);
        while port.stage.len() < budget {
            let Some(pick) = port.scheduler.pick(ready) else { return };
            let most = budget - port.stage.len();
            let open = port.take(queues, rng, out, pick, most, &charge_of);
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
        let left = port.stage.len();
        let mut settled = 0;
        let mut rest = before - left;
        while rest > 0 {
            let Some(&staged) = self.ports[out.index()].staged.get(settled) else { break };
            let sent = match rest >= staged.sums.frames as usize {
                true => staged,
                false => self.split_first(out, settled, rest),
            };
            rest -= sent.sums.frames as usize;
            settled += usize::from(sent.sums.frames == staged.sums.frames);
            self.ports[out.index()].note_sent(&sent, now);
            self.release_staged(out, &sent);
        }
        let staged = &mut self.ports[out.index()].staged;
        if left == 0 {
            staged.clear();
            self.unsent.remove(out);
        } else {
            staged.drain(..settled);
            self.unsent.insert(out);
        }
        before - left
    }

    /// The wire took only `taken` of the frames of entry `at` of the stage, and left the others at its front: splits
    /// the entry.
    #[cold]
    fn split_first(&mut self, out: PortId, at: usize, taken: usize) -> Staged {
        let port = &mut self.ports[out.index()];
        let whole = port.staged[at];
        let mut left = Sums { frames: whole.sums.frames - taken as u32, bytes: 0, charge: 0 };
        for frame in &port.stage[..left.frames as usize] {
            let len = frame.len() as u32;
            left.bytes += len;
            left.charge += self.admission.charge(len);
        }
        port.staged[at].sums = left;
        Staged { sums: whole.sums.without(left), ..whole }
    }

    /// Gives back what frames of one lot were charged.
    #[inline(always)]
    fn release_staged(&mut self, out: PortId, Staged { lot, sums, .. }: &Staged) {
        let queue = QueueIx((out.index() * PRIORITIES + usize::from(lot.queue)) as u32);
        self.admission.release_egress(queue, sums.charge);
        if lot.copies == Meta::SINGLE || self.was_last_copy(lot.copies) {
            self.release_group_charge(lot, sums.charge);
        }
    }

    /// One copy of a frame is gone; the last one releases the group (B16).
    #[cold]
    fn was_last_copy(&mut self, copies: u32) -> bool {
        self.copies[copies as usize].fetch_sub(1, Relaxed) == 1
    }

    /// A frame (or one copy of it) that was charged to its group will not be queued.
    #[cold]
    pub(super) fn release_group(&mut self, meta: &Meta) {
        if meta.copies == Meta::SINGLE || self.was_last_copy(meta.copies) {
            let charge = self.admission.charge(u32::from(meta.len));
            self.release_group_charge(&meta.lot(), charge);
        }
    }

    #[inline(always)]
    fn release_group_charge(&mut self, lot: &Lot, charge: u32) {
        let pg = PgIx(u32::from(lot.pg));
        if self.owner[usize::from(lot.in_port)] != self.shard {
            self.admission.release_for_owner(pg, charge);
        } else if self.admission.release_ingress(pg, charge) {
            xon(&mut self.ports, pg);
        }
    }

    /// Releases a frame that was charged to its queue and group but never sent.
    #[cold]
    pub(super) fn release(&mut self, out: PortId, meta: &Meta) {
        let charge = self.admission.charge(u32::from(meta.len));
        let sums = Sums { frames: 1, bytes: u32::from(meta.len), charge };
        self.release_staged(out, &Staged { lot: meta.lot(), sums, paused_ns: 0 });
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
        loop {
            let Self { queues, admission, .. } = self;
            let Some((frame, meta)) = queues.pop(out, queue, |len| admission.charge(len)) else { return };
            self.flushed_watched(out, Key::of(&meta.lot()), u32::from(meta.len), reason);
            self.release(out, &meta);
            self.drop_at_queue(out, frame, queue, reason);
        }
    }

    /// Drops what was handed to a wire that will not take it any more.
    #[cold]
    pub(super) fn flush_stage(&mut self, out: PortId, reason: DropReason) {
        self.unsent.remove(out);
        let port = &mut self.ports[out.index()];
        let (frames, entries) = (std::mem::take(&mut port.stage), std::mem::take(&mut port.staged));
        let mut frames = frames.into_iter();
        for staged in entries {
            self.flushed_watched(out, Key::of(&staged.lot), staged.sums.bytes, reason);
            self.release_staged(out, &staged);
            for frame in frames.by_ref().take(staged.sums.frames as usize) {
                self.drop_at_queue(out, frame, usize::from(staged.lot.queue), reason);
            }
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
        charge_of: &impl Fn(u32) -> u32,
    ) -> bool {
        if self.shaper.as_ref().is_some_and(|shaper| !shaper.open()) {
            return false;
        }
        debug_assert!(queues.held_ns(out.index() * PRIORITIES + queue).is_some(), "what sends is not held");
        let (mut wire, mut last, mut taken, mut go_on) = (0, 0, 0, true);
        while taken < most && go_on {
            let whole = queues.offer(out, queue, |pack, standing| {
                self.take_pack(pack, standing, queue, most - taken, turn.saturating_sub(wire))
            });
            let (frames, bytes, last_bytes) = match whole {
                Some(taken) => taken,
                None => {
                    let Some(meta) = self.take_one(queues, rng, out, queue, charge_of) else { break };
                    let wire = wire_bytes(u64::from(meta.len));
                    (1, wire, wire)
                }
            };
            last = last_bytes;
            taken += frames;
            wire += bytes;
            let open = self.shaper.as_mut().is_none_or(|shaper| shaper.pay_and_open(bytes));
            go_on = open && wire < turn && queues.occupied(out) >> queue & 1 == 1;
        }
        // While nobody else could be served the group's time follows each frame; a turn has one time.
        let behind = if turn == Pick::ALONE { last } else { wire };
        self.scheduler.sent(queue, taken as u64, wire, behind);
        true
    }

    /// Takes a whole pack, or the front of one, if each of these frames would go one by one, and none of them is marked.
    /// Returns frames, bytes on the wire, and those of the last one.
    #[inline(always)]
    fn take_pack(
        &mut self,
        pack: &mut Pack<F>,
        standing: Standing,
        queue: usize,
        most: usize,
        turn: u64,
    ) -> Option<(Sums, (usize, u64, u64))> {
        if !standing.alone || standing.depth > self.mark[queue].kmin {
            return None;
        }
        let (all, last) = pack.wire();
        let whole = pack.len() <= most && all - last < turn.max(1);
        let count = if whole { pack.len() } else { pack.frames_of(turn)?.min(most) };
        let wire = if whole { all } else { count as u64 * last };
        if self.shaper.as_ref().is_some_and(|shaper| !shaper.open_after(wire - last)) {
            return None;
        }
        let ce = pack.ce_frames();
        let sums = pack.take(count, &mut self.stage);
        self.stats.ecn_seen_ce[queue] += u64::from(ce - pack.ce_frames());
        self.note_staged(pack.lot(), sums, standing.held_ns.wrapping_sub(pack.held_ns()));
        Some((sums, (count, wire, last)))
    }

    /// One frame, which may have to be marked for the depth it leaves behind.
    #[inline(never)]
    fn take_one(
        &mut self,
        queues: &mut Queues<F>,
        rng: &mut Rng,
        out: PortId,
        queue: usize,
        charge_of: &impl Fn(u32) -> u32,
    ) -> Option<Meta> {
        let (mut frame, meta) = queues.pop(out, queue, charge_of)?;
        let (depth, wred) = (queues.bytes(out, queue), self.mark[queue]);
        let held_ns = queues.held_ns(out.index() * PRIORITIES + queue);
        if depth > wred.kmin && wred.decide(depth, rng.next_u32()) {
            self.mark(&mut frame, &meta);
        } else if meta.ecn.codepoint == ecn::CE {
            self.stats.ecn_seen_ce[queue] += 1;
        }
        self.stage.push(frame);
        let len = u32::from(meta.len);
        let sums = Sums { frames: 1, bytes: len, charge: charge_of(len) };
        self.note_staged(meta.lot(), sums, held_ns.map_or(0, |held| held - meta.held_ns));
        Some(meta)
    }

    /// Notes what was put into the stage, and for how long pauses held its queue meanwhile: with the entry before it,
    /// if that is of the same lot.
    #[inline(always)]
    fn note_staged(&mut self, lot: Lot, sums: Sums, paused_ns: Nanos) {
        match self.staged.last_mut() {
            Some(last) if last.lot == lot && last.paused_ns == paused_ns && lot.copies == Meta::SINGLE => {
                last.sums.add(sums);
            }
            _ => self.staged.push(Staged { lot, sums, paused_ns }),
        }
    }

    /// Queues that may not send now: paused by the peer, held back by an operator.
    #[inline(always)]
    pub(super) fn blocked(&mut self, queues: &mut Queues<F>, out: PortId, now: Nanos) -> u8 {
        if now >= self.reaction.next_expiry() {
            self.pauses_end(queues, out, now);
        }
        (self.reaction.queues_paused() & !self.storm_forward) | self.held_back
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
    fn note_sent(&mut self, Staged { lot, sums, paused_ns }: &Staged, now: Nanos) {
        let (queue, frames) = (usize::from(lot.queue) % PRIORITIES, u64::from(sums.frames));
        self.stats.tx_packets += frames;
        self.stats.tx_bytes += u64::from(sums.bytes);
        self.stats.queue_packets[queue] += frames;
        self.stats.queue_bytes[queue] += u64::from(sums.bytes);
        let residence = now.saturating_sub(lot.rx_ns);
        self.latency.residence[queue].note(residence, frames);
        if *paused_ns != 0 {
            self.note_paused(queue, residence, *paused_ns, frames);
        }
        if (self.storm_forward | self.storm_drop) >> queue & 1 == 1
            && let Some(watchdog) = &mut self.watchdog
        {
            watchdog.count(queue, Seen::TxOk, frames);
        }
    }
}
