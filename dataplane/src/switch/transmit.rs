//! From the queues to the wire: control first, then what the scheduler picks, marked on the way.

use super::handoff::{Homeward, MOST_AWAY};
use super::peers::Note;
use super::stage::Staged;
use super::tap::Taken;
use super::tick::xon;
use super::{Key, Port, Switch, Wire};
use crate::ecn;
use crate::egress::{Front, Lot, Meta, PACK, Pack, Pick, Queues, Standing, Sums};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx, QueueIx};
use crate::parse::EcnPlace;
use crate::pfc::watchdog::Seen;
use crate::rng::Rng;
use crate::types::{Nanos, PRIORITIES, PortId, wire_bytes};
use arrayvec::ArrayVec;

/// What it takes to let frames leave their queue.
struct Departure<'a, F, C> {
    rng: &'a mut Rng,
    /// Where those go that another lcore is to send.
    homeward: Homeward<'a, F>,
    charge_of: C,
    out: PortId,
    queue: usize,
    /// The time, if frames are followed.
    watched_at: Option<Nanos>,
}

/// How much may leave a queue in one go: frames, and bytes on the wire after which no other frame begins.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub frames: usize,
    pub turn: u64,
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
                shaper.share_with(port.stage.wire());
            }
        }
        port.scheduler.refill(now);
        let charge_of = |len| admission.charge(len);
        let watched_at = tap.as_ref().map(|_| now);
        let homeward = Homeward { peers, owner };
        let mut departure = Departure { rng, homeward, charge_of, out, queue: 0, watched_at };
        let mut left = budget - port.stage.len();
        while left > 0 && port.away < MOST_AWAY && port.away_wire < port.most_away_wire {
            let Some(pick) = port.scheduler.pick(ready) else { break };
            departure.queue = pick.queue;
            let (taken, open) = port.take(queues, &mut departure, pick, left.min(MOST_AWAY - port.away));
            // A pack that another lcore sends is ordered whole, even if it is more than was asked for.
            left = left.saturating_sub(taken);
            if let Some(bursts) = &mut port.bursts {
                bursts.shrunk(pick.queue, queues.bytes(out, pick.queue), now);
            }
            if !open {
                break;
            }
            ready &= queues.occupied(out);
        }
        port.close_lanes(queues, out);
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
        wire.send(port.stage.frames_mut());
        let left = port.stage.len();
        if left > 0 {
            self.unsent.insert(out);
            if left < before {
                self.hand_over_some(out, sent);
            }
            return before - left;
        }
        self.unsent.remove(out);
        for at in 0..port.stage.entries().len() {
            let Some(&entry) = self.ports[out.index()].stage.entries().get(at) else { break };
            sent(self, &entry);
        }
        self.ports[out.index()].stage.clear();
        before
    }

    /// The wire took some of the frames of the stage, and left the others at its front.
    #[cold]
    fn hand_over_some(&mut self, out: PortId, sent: impl Fn(&mut Self, &Staged)) {
        let Self { ports, admission, .. } = self;
        let taken = ports[out.index()].stage.split(|len| admission.charge(len));
        taken.iter().for_each(|entry| sent(self, entry));
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
        queues: &mut Queues<F>,
        departure: &mut Departure<'_, F, C>,
        Pick { queue, wire_bytes: turn }: Pick,
        most: usize,
    ) -> (usize, bool) {
        if self.shaper.as_ref().is_some_and(|shaper| !shaper.open()) {
            return (0, false);
        }
        let out = departure.out;
        debug_assert!(queues.held_ns(out.index() * PRIORITIES + queue).is_some(), "what sends is not held");
        let (mut wire, mut last, mut taken, mut go_on) = (0, 0, 0, true);
        while taken < most && go_on {
            let limits = Limits { frames: most - taken, turn: turn.saturating_sub(wire) };
            let in_lane = self.lanes.is_open(queue)
                || (turn != Pick::ALONE && self.open_lane(queues, (out, queue), turn));
            let front = if in_lane {
                self.take_from_lane(queues, (out, queue), limits, &departure.charge_of)
            } else {
                let front = queues.offer(out, queue, |pack, standing| {
                    let front = match pack.is_foreign() {
                        false => self.take_front(pack, standing, limits, departure),
                        true => self.order_front(pack, standing, limits, departure),
                    };
                    (front.sums, front)
                });
                let Some(front) = front else { break };
                front
            };
            last = front.last;
            taken += front.sums.frames as usize;
            wire += front.wire;
            let open = self.shaper.as_mut().is_none_or(|shaper| shaper.pay_and_open(front.wire));
            go_on = open && wire < turn && queues.occupied(out) >> queue & 1 == 1;
        }
        // While nobody else could be served the group's time follows each frame; a turn has one time.
        let behind = if turn == Pick::ALONE { last } else { wire };
        self.scheduler.sent(queue, taken as u64, wire, behind);
        (taken, true)
    }

    /// Several frames may leave a queue at once: no other input waits for it, and none of them might be marked.
    #[inline(always)]
    pub(super) fn goes_together(&self, standing: &Standing, queue: usize) -> bool {
        standing.alone && standing.depth <= self.mark[queue].kmin
    }

    /// What may leave the front of a pack at once.
    #[inline(always)]
    fn front_of(&self, pack: &Pack<F>, limits: Limits, charge_of: impl Fn(u32) -> u32) -> Front {
        pack.front(limits.frames, |wire| self.goes_on(limits, wire), charge_of)
    }

    /// Another frame may follow in the same turn when so many bytes on the wire have gone.
    #[inline(always)]
    pub(super) fn goes_on(&self, limits: Limits, wire: u64) -> bool {
        wire < limits.turn && self.shaper.as_ref().is_none_or(|shaper| shaper.open_after(wire))
    }

    /// Moves to the stage what may leave the front of a pack at once.
    #[inline(always)]
    fn take_front<C: Fn(u32) -> u32>(
        &mut self,
        pack: &mut Pack<F>,
        standing: Standing,
        limits: Limits,
        departure: &mut Departure<'_, F, C>,
    ) -> Front {
        let (lot, queue) = (pack.lot(), departure.queue);
        let paused_ns = standing.held_ns.wrapping_sub(pack.held_ns());
        let front = if self.goes_together(&standing, queue) {
            let front = self.front_of(pack, limits, &departure.charge_of);
            pack.take(&front, self.stage.frames_mut());
            self.stats.ecn_seen_ce[queue] += u64::from(front.sums.frames) * u64::from(lot.is_ce());
            front
        } else {
            let Some((frame, front)) = self.take_one(pack, &standing, departure) else {
                return Front::default();
            };
            self.stage.frames_mut().push(frame);
            front
        };
        self.stage.note(Staged { lot, sums: front.sums, out: departure.out, paused_ns });
        front
    }

    /// The first frame of an open pack, marked if the depth it leaves behind says so.
    #[inline(always)]
    fn take_one<C: Fn(u32) -> u32>(
        &mut self,
        pack: &mut Pack<F>,
        standing: &Standing,
        departure: &mut Departure<'_, F, C>,
    ) -> Option<(F, Front)> {
        let queue = departure.queue;
        let (mut frame, meta) = pack.pop(&departure.charge_of)?;
        let len = u32::from(meta.len);
        let (depth, wred) = (standing.depth - u64::from(len), self.mark[queue]);
        if depth > wred.kmin && wred.decide(depth, departure.rng.next_u32()) {
            self.mark(&mut frame, &meta);
        } else if meta.ecn.codepoint == ecn::CE {
            self.stats.ecn_seen_ce[queue] += 1;
        }
        let wire = wire_bytes(u64::from(len));
        let sums = Sums { frames: 1, bytes: len, charge: (departure.charge_of)(len) };
        Some((frame, Front { sums, wire, last: wire }))
    }

    /// [`Port::take_front`] for frames that came from another lcore: if that is to send them, orders it to, a whole pack
    /// unopened if its turn allows that. Such a pack needs no room here, and is not divided because more frames than were
    /// asked for are in it.
    #[inline(never)]
    fn order_front<C: Fn(u32) -> u32>(
        &mut self,
        pack: &mut Pack<F>,
        standing: Standing,
        limits: Limits,
        departure: &mut Departure<'_, F, C>,
    ) -> Front {
        let (lot, out, queue) = (pack.lot(), departure.out, departure.queue);
        if lot.home == Lot::HERE {
            departure.homeward.open(pack);
            return self.take_front(pack, standing, limits, departure);
        }
        let paused_ns = standing.held_ns.wrapping_sub(pack.held_ns());
        let staged = |front: &Front| Staged { lot, sums: front.sums, out, paused_ns };
        let front = if lot.copies == Meta::SINGLE && self.goes_together(&standing, queue) {
            let front = self.front_of(pack, Limits { frames: usize::MAX, ..limits }, &departure.charge_of);
            let whole = front.sums.frames as usize == pack.len();
            if whole && let Some(parcel) = pack.take_parcel() {
                departure.homeward.order(staged(&front), parcel);
            } else {
                departure.homeward.open(pack);
                let mut frames = ArrayVec::<F, PACK>::new();
                pack.take(&front, &mut frames);
                departure.homeward.order_loose(staged(&front), frames.into_iter());
            }
            self.stats.ecn_seen_ce[queue] += u64::from(front.sums.frames) * u64::from(lot.is_ce());
            front
        } else {
            departure.homeward.open(pack);
            let Some((frame, front)) = self.take_one(pack, &standing, departure) else {
                return Front::default();
            };
            if let Some(at) = departure.watched_at {
                let depth = standing.depth - u64::from(front.sums.bytes);
                let taken = Taken { key: Key::of(&lot), out, at, depth: Some(depth) };
                departure.homeward.note(PortId(lot.in_port), Note::Taken(taken));
            }
            departure.homeward.order_loose(staged(&front), std::iter::once(frame));
            front
        };
        self.away += front.sums.frames as usize;
        self.away_wire += front.sums.wire();
        front
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
