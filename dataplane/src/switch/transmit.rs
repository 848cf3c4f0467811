//! From the queues to the wire: control first, then what the scheduler picks, marked on the way.

use super::handoff::{Homeward, MOST_AWAY};
use super::peers::Note;
use super::tap::Taken;
use super::tick::xon;
use super::{Key, Port, Switch, Wire};
use crate::ecn;
use crate::egress::{Lot, Meta, Pack, Pick, Queues, Standing, Sums};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx, QueueIx};
use crate::parse::EcnPlace;
use crate::pfc::watchdog::Seen;
use crate::rng::Rng;
use crate::types::{Nanos, PRIORITIES, PortId, wire_bytes};

/// Frames of one lot that stand in the stage together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    pub(super) lot: Lot,
    pub(super) sums: Sums,
    /// The port they leave by.
    pub(super) out: PortId,
    /// ns of their wait in which received pauses held their queue.
    paused_ns: Nanos,
}

impl Staged {
    /// They are of one kind with those before them, and can be counted together.
    #[inline(always)]
    pub(super) fn continues(&self, before: &Staged) -> bool {
        before.lot == self.lot
            && before.out == self.out
            && before.paused_ns == self.paused_ns
            && self.lot.copies == Meta::SINGLE
    }
}

/// Where the frames of a stage come from, and where those go that another lcore is to send.
struct Supply<'a, F, C> {
    queues: &'a mut Queues<F>,
    rng: &'a mut Rng,
    homeward: Homeward<'a, F>,
    charge_of: C,
    out: PortId,
    /// The time, if frames are followed.
    watched_at: Option<Nanos>,
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

    /// Takes frames off the queues, in the order of the scheduler, until the stage holds `budget`, or as many have been
    /// ordered from other lcores.
    #[inline(always)]
    pub(super) fn stage(&mut self, out: PortId, budget: usize, now: Nanos) {
        let Self { ports, queues, rng, admission, peers, owner, tap, .. } = self;
        let port = &mut ports[out.index()];
        let budget = budget.min(port.stage.capacity());
        let mut ready = queues.occupied(out);
        if ready == 0 || port.stage.len() >= budget || !port.up {
            return;
        }
        ready &= !port.blocked(queues, out, now);
        if let Some(shaper) = &mut port.shaper {
            shaper.refill(now);
            if !port.stage.is_empty() {
                shaper.share_with(port.staged.iter().map(|staged| staged.sums.wire()).sum());
            }
        }
        port.scheduler.refill(now);
        let charge_of = |len| admission.charge(len);
        let watched_at = tap.as_ref().map(|_| now);
        let mut supply =
            Supply { queues, rng, homeward: Homeward { peers, owner }, charge_of, out, watched_at };
        let mut left = budget - port.stage.len();
        while left > 0 && port.away < MOST_AWAY && port.away_wire < port.most_away_wire {
            let Some(pick) = port.scheduler.pick(ready) else { return };
            let (taken, open) = port.take(&mut supply, pick, left.min(MOST_AWAY - port.away));
            // A pack that another lcore sends is ordered whole, even if it is more than was asked for.
            left = left.saturating_sub(taken);
            if let Some(bursts) = &mut port.bursts {
                bursts.shrunk(pick.queue, supply.queues.bytes(out, pick.queue), now);
            }
            if !open {
                return;
            }
            ready &= supply.queues.occupied(out);
        }
    }

    /// Gives the stage to the wire and releases what the wire took.
    #[inline(always)]
    pub(super) fn hand_over(&mut self, out: PortId, now: Nanos, wire: &mut impl Wire<F>) -> usize {
        self.hand_over_with(out, wire, |switch, sent| {
            switch.ports[out.index()].note_sent(sent, now);
            switch.release_staged(sent);
        })
    }

    /// Gives the stage to the wire; what it took of an entry is `sent`.
    #[inline(always)]
    pub(super) fn hand_over_with(
        &mut self,
        out: PortId,
        wire: &mut impl Wire<F>,
        sent: impl Fn(&mut Self, &Staged),
    ) -> usize {
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
            let taken = match rest >= staged.sums.frames as usize {
                true => staged,
                false => self.split_first(out, settled, rest),
            };
            rest -= taken.sums.frames as usize;
            settled += usize::from(taken.sums.frames == staged.sums.frames);
            sent(self, &taken);
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
    pub(super) fn release_staged(&mut self, Staged { lot, sums, out, .. }: &Staged) {
        let queue = QueueIx((out.index() * PRIORITIES + usize::from(lot.queue)) as u32);
        self.admission.release_egress(queue, sums.charge);
        self.release_copy(lot, sums.charge);
    }

    /// Frames, or one copy of one, are charged to their group no longer.
    #[inline(always)]
    pub(super) fn release_copy(&mut self, lot: &Lot, charge: u32) {
        if lot.copies == Meta::SINGLE {
            self.release_group_charge(lot, charge);
        } else {
            self.release_one_copy(lot, charge);
        }
    }

    /// One copy of a frame is gone; the last one releases the group (B16).
    #[cold]
    fn release_one_copy(&mut self, lot: &Lot, charge: u32) {
        if let Some(copies) = self.copies.end_one(lot.copies) {
            self.release_group_charge(lot, self.admission.charge_for_copies(charge, copies));
        }
    }

    /// A frame (or one copy of it) that was charged to its group will not be queued.
    #[cold]
    pub(super) fn release_group(&mut self, meta: &Meta) {
        let charge = self.admission.charge(u32::from(meta.len));
        self.release_copy(&meta.lot(), charge);
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
        self.release_staged(&Staged { lot: meta.lot(), sums, out, paused_ns: 0 });
    }
}

impl<F: Frame> Port<F> {
    /// Moves up to `most` frames of the picked queue to the stage, marking on the way, or orders them. How many, and
    /// `false`: the shaper is shut.
    #[inline(always)]
    fn take<C: Fn(u32) -> u32>(
        &mut self,
        supply: &mut Supply<'_, F, C>,
        Pick { queue, wire_bytes: turn }: Pick,
        most: usize,
    ) -> (usize, bool) {
        if self.shaper.as_ref().is_some_and(|shaper| !shaper.open()) {
            return (0, false);
        }
        let out = supply.out;
        debug_assert!(
            supply.queues.held_ns(out.index() * PRIORITIES + queue).is_some(),
            "what sends is not held"
        );
        let (mut wire, mut last, mut taken, mut go_on) = (0, 0, 0, true);
        while taken < most && go_on {
            let Supply { queues, homeward, .. } = supply;
            let whole = queues.offer(out, queue, |pack, standing| {
                let left = turn.saturating_sub(wire);
                if pack.is_foreign() {
                    return self.order_pack(pack, standing, (out, queue), (most - taken, left), homeward);
                }
                self.take_pack(pack, standing, (out, queue), (most - taken, left))
            });
            let (frames, bytes, last_bytes) = match whole {
                Some(taken) => taken,
                None => {
                    let Some(meta) = self.take_one(supply, queue) else { break };
                    let wire = wire_bytes(u64::from(meta.len));
                    (1, wire, wire)
                }
            };
            last = last_bytes;
            taken += frames;
            wire += bytes;
            let open = self.shaper.as_mut().is_none_or(|shaper| shaper.pay_and_open(bytes));
            go_on = open && wire < turn && supply.queues.occupied(out) >> queue & 1 == 1;
        }
        // While nobody else could be served the group's time follows each frame; a turn has one time.
        let behind = if turn == Pick::ALONE { last } else { wire };
        self.scheduler.sent(queue, taken as u64, wire, behind);
        (taken, true)
    }

    /// What may go at once from the front of a pack, at most `most` frames: frames, bytes on the wire, and those of the last
    /// one. `None`: not each of them would go if they went one by one, or some might be marked.
    #[inline(always)]
    fn front_of(
        &self,
        pack: &Pack<F>,
        standing: &Standing,
        queue: usize,
        (most, turn): (usize, u64),
    ) -> Option<(usize, u64, u64)> {
        if !standing.alone || standing.depth > self.mark[queue].kmin {
            return None;
        }
        let (all, last) = pack.wire();
        let whole = pack.len() <= most && all - last < turn.max(1);
        let count = if whole { pack.len() } else { pack.frames_of(turn)?.min(most) };
        let wire = if whole { all } else { count as u64 * last };
        let shut = self.shaper.as_ref().is_some_and(|shaper| !shaper.open_after(wire - last));
        (!shut).then_some((count, wire, last))
    }

    /// Takes a whole pack, or the front of one. Returns what that is, as [`Port::front_of`] says it.
    #[inline(always)]
    fn take_pack(
        &mut self,
        pack: &mut Pack<F>,
        standing: Standing,
        (out, queue): (PortId, usize),
        limits: (usize, u64),
    ) -> Option<(Sums, (usize, u64, u64))> {
        let front = self.front_of(pack, &standing, queue, limits)?;
        let ce = pack.ce_frames();
        let sums = pack.take(front.0, &mut self.stage);
        self.stats.ecn_seen_ce[queue] += u64::from(ce - pack.ce_frames());
        let paused_ns = standing.held_ns.wrapping_sub(pack.held_ns());
        self.note_staged(Staged { lot: pack.lot(), sums, out, paused_ns });
        Some((sums, front))
    }

    /// The same for a pack of another lcore: orders it to be sent there, whole and unopened if its turn allows that. It
    /// needs no room here, and is not divided because more frames than were asked for are in it.
    #[inline(never)]
    fn order_pack(
        &mut self,
        pack: &mut Pack<F>,
        standing: Standing,
        (out, queue): (PortId, usize),
        (most, turn): (usize, u64),
        homeward: &mut Homeward<'_, F>,
    ) -> Option<(Sums, (usize, u64, u64))> {
        let lot = pack.lot();
        if lot.home == Lot::HERE {
            homeward.open(pack);
            return self.take_pack(pack, standing, (out, queue), (most, turn));
        }
        if lot.copies != Meta::SINGLE {
            return None;
        }
        let front = self.front_of(pack, &standing, queue, (usize::MAX, turn))?;
        let paused_ns = standing.held_ns.wrapping_sub(pack.held_ns());
        let ce = pack.ce_frames();
        let parcel = if front.0 == pack.len() { pack.take_parcel() } else { None };
        let sums = if let Some((parcel, sums)) = parcel {
            homeward.order(Staged { lot, sums, out, paused_ns }, parcel);
            sums
        } else {
            homeward.open(pack);
            let (sums, frames) = pack.drain(front.0);
            homeward.order_loose(Staged { lot, sums, out, paused_ns }, frames);
            sums
        };
        self.stats.ecn_seen_ce[queue] += u64::from(ce - pack.ce_frames());
        self.away += front.0;
        self.away_wire += sums.wire();
        Some((sums, front))
    }

    /// One frame, which may have to be marked for the depth it leaves behind.
    #[inline(never)]
    fn take_one<C: Fn(u32) -> u32>(&mut self, supply: &mut Supply<'_, F, C>, queue: usize) -> Option<Meta> {
        let Supply { queues, rng, homeward, charge_of, out, watched_at } = supply;
        let empty = |from: PortId, parcel| homeward.note(from, Note::Empty(parcel));
        let (mut frame, meta) = queues.pop(*out, queue, &*charge_of, empty)?;
        let (depth, wred) = (queues.bytes(*out, queue), self.mark[queue]);
        let held_ns = queues.held_ns(out.index() * PRIORITIES + queue);
        if depth > wred.kmin && wred.decide(depth, rng.next_u32()) {
            self.mark(&mut frame, &meta);
        } else if meta.ecn.codepoint == ecn::CE {
            self.stats.ecn_seen_ce[queue] += 1;
        }
        let (lot, len) = (meta.lot(), u32::from(meta.len));
        let sums = Sums { frames: 1, bytes: len, charge: charge_of(len) };
        let paused_ns = held_ns.map_or(0, |held| held - meta.held_ns);
        let staged = Staged { lot, sums, out: *out, paused_ns };
        if lot.home == Lot::HERE {
            self.stage.push(frame);
            self.note_staged(staged);
        } else {
            if let Some(at) = *watched_at {
                let taken = Taken { key: Key::of(&lot), out: *out, at, depth: Some(depth) };
                homeward.note(PortId(lot.in_port), Note::Taken(taken));
            }
            homeward.order_loose(staged, std::iter::once(frame));
            self.away += 1;
            self.away_wire += sums.wire();
        }
        Some(meta)
    }

    /// Notes what was put into the stage, and for how long pauses held its queue meanwhile: with the entry before it,
    /// if that is of the same lot.
    #[inline(always)]
    pub(super) fn note_staged(&mut self, staged: Staged) {
        match self.staged.last_mut() {
            Some(last) if staged.continues(last) => last.sums.add(staged.sums),
            _ => self.staged.push(staged),
        }
    }

    /// Queues that may not send now: paused by the peer, held back by an operator, about to be emptied.
    #[inline(always)]
    pub(super) fn blocked(&mut self, queues: &mut Queues<F>, out: PortId, now: Nanos) -> u8 {
        if now >= self.reaction.next_expiry() {
            self.pauses_end(queues, out, now);
        }
        (self.reaction.queues_paused() & !self.storm_forward) | self.held_back | self.flushing
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
            _ if !frame.make_unique() => self.stats.ecn_no_memory[queue] += 1,
            _ => {
                if ecn::mark(frame.bytes_mut(), meta.ecn.place) {
                    self.stats.ecn_marked[queue] += 1;
                    self.stats.ecn_marked_bytes[queue] += u64::from(meta.len);
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn note_sent(&mut self, Staged { lot, sums, paused_ns, .. }: &Staged, now: Nanos) {
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
