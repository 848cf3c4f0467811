//! From the queues to the wire: control first, then what the scheduler picks, marked on the way.

use super::channels::Note;
use super::copies::Copies;
use super::handoff::{IN_FLIGHT_MAX, ReturnPath};
use super::observer::Taken;
use super::stage::Staged;
use super::tick::xon;
use super::{Key, Observer, OwnPort, Switch, Wire};
use crate::ecn;
use crate::egress::{
    BATCH_MAX, BatchHeader, BatchTotals, FrameBatch, Front, Limits, Meta, QueuePick, Queues, Shaper, Standing,
};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx, QueueIx};
use crate::pfc::watchdog::Seen;
use crate::rng::Rng;
use crate::types::{BURST, Nanos, PRIORITIES, PortId, wire_bytes};
use arrayvec::ArrayVec;

/// What it takes to let frames leave their queue.
pub(super) struct Departure<'a, F, C> {
    pub rng: &'a mut Rng,
    /// Where those go that another lcore is to send.
    pub return_path: ReturnPath<'a, F>,
    pub charge_of: C,
    pub out: PortId,
    pub queue: usize,
    /// Frames that others may be given to send, at most.
    pub granted: usize,
    /// The time and what frames are known by, if they are followed.
    pub watched: Option<(Nanos, &'a Copies)>,
}

/// How many frames of a port may still leave their queues in one call. Those that another lcore is to send cost that one their
/// time, so they have a count of their own.
#[derive(Clone, Copy, Debug)]
struct Room {
    here: usize,
    granted: usize,
}

/// What left a queue in one go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Departed {
    pub frames: usize,
    /// Their bytes on the wire, and those of the last one alone.
    pub wire: u64,
    pub last: u64,
}

impl Departed {
    /// With one more frame, so many bytes long on the wire.
    #[inline(always)]
    pub fn add(&mut self, wire: u64) {
        self.frames += 1;
        self.wire += wire;
        self.last = wire;
    }

    /// With frames that another lcore is to send.
    #[inline(always)]
    pub fn grant(&mut self, front: &Front) {
        self.frames += front.totals.frames as usize;
        self.wire += front.wire;
        self.last = front.last;
    }

    /// Another frame may follow. One goes in any case, if there is room for any.
    #[inline(always)]
    pub fn may_go_on(&self, limits: Limits) -> bool {
        self.frames < limits.frames && (self.frames == 0 || limits.goes_on(self.wire))
    }

    /// What is left of limits, if another frame may follow.
    #[inline(always)]
    pub fn left_of(&self, limits: Limits) -> Option<Limits> {
        let (frames, wire) = (limits.frames - self.frames, limits.wire.saturating_sub(self.wire));
        (frames > 0 && wire > 0).then_some(Limits { frames, wire })
    }
}

impl Room {
    /// There is some for the next frame, of which it is asked only if it matters whether another lcore sends it.
    #[inline(always)]
    fn is_for(&self, elsewhere: impl FnOnce() -> bool) -> bool {
        (self.here > 0 && self.granted > 0) || (if elsewhere() { self.granted } else { self.here }) > 0
    }

    /// So many frames have left, some of which were granted. A batch is granted whole, even if there was less room.
    #[inline(always)]
    fn take(&mut self, frames: usize, granted: usize) {
        self.here -= frames - granted;
        self.granted = self.granted.saturating_sub(granted);
    }
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// PFC leaves ahead of all data and is not subject to pause (C13).
    #[inline(always)]
    pub(super) fn transmit_control(&mut self, port: PortId, now: Nanos, wire: &mut impl Wire<F>) {
        let port = &mut self.ports[port.index()];
        if port.status.has_link() && port.generator.due(now) {
            port.send_pfc(now, wire);
        }
    }

    /// Takes frames off the queues, in the order of the scheduler, until the next one finds no room: the stage holds `budget`,
    /// or [`BURST`] have been granted to other lcores.
    #[inline(always)]
    pub(super) fn stage(&mut self, out: PortId, budget: usize, now: Nanos) {
        let Self { ports, queues, rng, admission, peers, owner, observer, copies, .. } = self;
        let port = &mut ports[out.index()];
        let budget = budget.min(port.stage.capacity());
        let mut ready = queues.occupied(out);
        let several = peers.len() > 1;
        let here = budget.saturating_sub(port.stage.len());
        if ready == 0 || here == 0 && !several || !port.status.is_up() {
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
        let watched = observer.looks_on().then_some((now, &*copies));
        let return_path = ReturnPath { peers, owner };
        let mut departure = Departure { rng, return_path, charge_of, out, queue: 0, granted: 0, watched };
        let mut room = Room { here, granted: BURST.min(IN_FLIGHT_MAX.saturating_sub(port.in_flight)) };
        while (room.here > 0 || several && room.granted > 0) && port.in_flight_wire < port.most_in_flight_wire
        {
            let Some(pick) = port.scheduler.pick(ready) else { break };
            departure.queue = pick.queue;
            let open = port.take(queues, &mut departure, pick, &mut room);
            if let Some(bursts) = &mut port.bursts {
                bursts.shrunk(pick.queue, queues.bytes(out, pick.queue), now);
            }
            if !open {
                break;
            }
            ready &= queues.occupied(out);
        }
        port.close_lanes(queues, out, departure.charge_of);
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
        let (up, stage) = (self.ports.is_up(out), self.ports.stage_mut(out));
        let before = stage.len();
        if before == 0 || !up {
            return 0;
        }
        wire.send(stage.frames_mut());
        let left = stage.len();
        if left > 0 {
            self.unsent.insert(out);
            if left < before {
                self.hand_over_some(out, sent);
            }
            return before - left;
        }
        self.unsent.remove(out);
        for at in 0..stage.entries().len() {
            let Some(&entry) = self.ports.stage(out).entries().get(at) else { break };
            sent(self, &entry);
        }
        self.ports.stage_mut(out).clear();
        before
    }

    /// The wire took some of the frames of the stage, and left the others at its front.
    #[cold]
    fn hand_over_some(&mut self, out: PortId, sent: impl Fn(&mut Self, &Staged)) {
        let Self { ports, admission, .. } = self;
        let taken = ports.stage_mut(out).split(|len| admission.charge(len));
        taken.iter().for_each(|entry| sent(self, entry));
    }

    /// Gives back what frames of one header were charged.
    #[inline(always)]
    pub(super) fn release_staged(&mut self, Staged { header, totals, out, .. }: &Staged) {
        let queue = QueueIx::of(*out, usize::from(header.queue));
        self.admission.release_egress(queue, totals.charge);
        self.release_from_group(header, *totals);
    }

    /// Frames, or one copy of each, are charged to their group no longer.
    #[inline(always)]
    pub(super) fn release_from_group(&mut self, header: &BatchHeader, totals: BatchTotals) {
        if header.is_single() {
            self.release_group_charge(header, totals.charge);
        } else {
            self.release_copies(header, totals.frames);
        }
    }

    /// One copy of each frame is gone; the last one releases the group (B16).
    #[cold]
    #[inline(never)]
    fn release_copies(&mut self, header: &BatchHeader, frames: u32) {
        let charge = self.copies.end(header.copies, frames);
        if charge > 0 {
            self.release_group_charge(header, charge);
        }
    }

    /// A frame (or one copy of it) that was charged to its group will not be queued.
    #[cold]
    pub(super) fn release_group(&mut self, meta: &Meta) {
        self.release_from_group(&meta.header, self.totals_of_one(meta));
    }

    pub(super) fn totals_of_one(&self, meta: &Meta) -> BatchTotals {
        let bytes = u32::from(meta.len);
        BatchTotals { frames: 1, bytes, charge: self.admission.charge(bytes) }
    }

    #[inline(always)]
    fn release_group_charge(&mut self, header: &BatchHeader, charge: u32) {
        let pg = PgIx(u32::from(header.pg));
        if !self.ports.is_own(PortId(header.in_port)) {
            self.admission.release_for_owner(pg, charge);
        } else if self.admission.release_ingress(pg, charge) {
            xon(&mut self.ports, pg);
        }
    }

    /// Releases a frame that was charged to its queue and group but never sent.
    #[cold]
    pub(super) fn release(&mut self, out: PortId, meta: &Meta) {
        let totals = self.totals_of_one(meta);
        self.release_staged(&Staged { header: meta.header, totals, out, paused_ns: 0 });
    }
}

impl<F: Frame> OwnPort<F> {
    /// Moves frames of the picked queue to the stage, marking on the way, or grants them, while its turn lasts. `false`: the
    /// shaper is shut, or there is no room for the next frame.
    #[inline(always)]
    fn take<C: Fn(u32) -> u32>(
        &mut self,
        queues: &mut Queues<F>,
        departure: &mut Departure<'_, F, C>,
        QueuePick { queue, wire_bytes: turn }: QueuePick,
        room: &mut Room,
    ) -> bool {
        if self.shaper.as_ref().is_some_and(|shaper| !shaper.open()) {
            return false;
        }
        let (out, queue) = (departure.out, queue % PRIORITIES);
        debug_assert!(queues.held_ns(out.index() * PRIORITIES + queue).is_some(), "what sends is not held");
        let (mut wire, mut last, mut taken, mut go_on) = (0, 0, 0, true);
        while go_on && room.is_for(|| queues.is_sent_elsewhere(out, queue)) {
            let shaper = self.shaper.as_ref().map_or(u64::MAX, Shaper::wire_left);
            let limits = Limits { frames: room.here, wire: shaper.min(turn.saturating_sub(wire)) };
            departure.granted = room.granted;
            let in_flight = self.in_flight;
            let mut departed = Departed::default();
            if self.has_lanes(queue) {
                departed = self.take_from_lane(queues, (out, queue), limits);
                if departed.frames == 0 {
                    departed = self.take_in_turns(queues, departure, limits);
                }
            }
            if departed.frames == 0 {
                let first = self.take_from_queue(queues, departure, turn, limits);
                let Some(first) = first.filter(|first| first.frames > 0) else { break };
                departed = first;
            }
            room.take(departed.frames, self.in_flight - in_flight);
            last = departed.last;
            taken += departed.frames;
            wire += departed.wire;
            let open = self.shaper.as_mut().is_none_or(|shaper| shaper.pay_and_open(departed.wire));
            go_on = open && wire < turn && queues.occupied(out) >> queue & 1 == 1;
        }
        if taken > 0 {
            // While nobody else could be served the group's time follows each frame; a turn has one time.
            let behind = if turn == QueuePick::ALONE { last } else { wire };
            self.scheduler.sent(queue, taken as u64, wire, behind);
        }
        taken > 0
    }

    /// Moves to the stage, or grants, what may leave the batch at the front of a queue at once; or what may leave the queue in
    /// turns, where a `turn` is a few frames, others wait for theirs, or each frame may be marked.
    #[inline(never)]
    fn take_from_queue<C: Fn(u32) -> u32>(
        &mut self,
        queues: &mut Queues<F>,
        departure: &mut Departure<'_, F, C>,
        turn: u64,
        limits: Limits,
    ) -> Option<Departed> {
        let (out, queue) = (departure.out, departure.queue);
        let (ix, standing) = queues.front(out, queue)?;
        let batch = queues.batch_mut(ix)?;
        let by_few = turn != QueuePick::ALONE && batch.goes_by_few(turn);
        if limits.frames > 1 && (by_few || !self.goes_together(&standing, queue)) {
            // What another lcore is to send has turns beside what is sent here; alone it goes in one.
            if batch.header().home == BatchHeader::HERE || !standing.alone {
                return Some(self.take_in_turns(queues, departure, limits));
            }
        }
        let Front { totals, wire, last, .. } = match batch.is_foreign() {
            false => self.take_front(batch, standing, limits, departure),
            true => self.grant_front(batch, standing, limits, departure),
        };
        queues.left(out, queue, totals);
        Some(Departed { frames: totals.frames as usize, wire, last })
    }

    /// Several frames may leave a queue at once: no other input waits for it, and none of them might be marked.
    #[inline(always)]
    pub(super) fn goes_together(&self, standing: &Standing, queue: usize) -> bool {
        standing.alone && standing.depth <= self.mark[queue].kmin
    }

    /// Moves to the stage what may leave the front of a batch at once.
    #[inline(always)]
    fn take_front<C: Fn(u32) -> u32>(
        &mut self,
        batch: &mut FrameBatch<F>,
        standing: Standing,
        limits: Limits,
        departure: &mut Departure<'_, F, C>,
    ) -> Front {
        let (header, queue) = (batch.header(), departure.queue);
        let paused_ns = standing.held_ns.wrapping_sub(batch.held_ns());
        let front = if self.goes_together(&standing, queue) {
            let front = batch.front(limits, &departure.charge_of);
            batch.take(&front, self.stage.frames_mut());
            self.stats.ecn_seen_ce[queue] += u64::from(front.ce);
            front
        } else {
            let Some((frame, front)) = self.take_one(batch, &standing, departure) else {
                return Front::default();
            };
            self.stage.push(frame);
            front
        };
        self.stage.note(Staged { header, totals: front.totals, out: departure.out, paused_ns });
        front
    }

    /// The first frame of an open batch, marked if the depth it leaves behind says so.
    #[inline(always)]
    pub(super) fn take_one<C: Fn(u32) -> u32>(
        &mut self,
        batch: &mut FrameBatch<F>,
        standing: &Standing,
        departure: &mut Departure<'_, F, C>,
    ) -> Option<(F, Front)> {
        let queue = departure.queue;
        let mut charge = 0;
        let (mut frame, meta) = batch.pop(|len| {
            charge = (departure.charge_of)(len);
            charge
        })?;
        let len = u32::from(meta.len);
        self.mark_departing(&mut frame, &meta, standing.depth - u64::from(len), departure.rng);
        self.stats.ecn_seen_ce[queue] += u64::from(meta.header.is_ce());
        let wire = wire_bytes(u64::from(len));
        let totals = BatchTotals { frames: 1, bytes: len, charge };
        Some((frame, Front { totals, wire, last: wire, ce: u32::from(meta.header.is_ce()) }))
    }

    /// [`OwnPort::take_front`] for frames that came from another lcore: if that is to send them, grants it to, a whole batch
    /// unopened if its turn allows that. Such a batch needs no room here, and is not divided because more frames than were
    /// asked for are in it.
    #[inline(never)]
    fn grant_front<C: Fn(u32) -> u32>(
        &mut self,
        batch: &mut FrameBatch<F>,
        standing: Standing,
        limits: Limits,
        departure: &mut Departure<'_, F, C>,
    ) -> Front {
        let queue = departure.queue;
        if batch.header().home == BatchHeader::HERE {
            departure.return_path.open(batch);
            return self.take_front(batch, standing, limits, departure);
        }
        if departure.watched.is_some() || !standing.alone {
            return self.grant_one(batch, &standing, departure);
        }
        if self.goes_together(&standing, queue) {
            let limits = Limits { frames: usize::MAX, ..limits };
            return self.grant_together(batch, standing.held_ns, limits, departure);
        }
        self.grant_marked(batch, standing, limits, departure)
    }

    /// Grants the first frame of a batch, which may be marked. Who follows frames is told.
    #[inline(always)]
    pub(super) fn grant_one<C: Fn(u32) -> u32>(
        &mut self,
        batch: &mut FrameBatch<F>,
        standing: &Standing,
        departure: &mut Departure<'_, F, C>,
    ) -> Front {
        departure.return_path.open(batch);
        let (header, paused_ns) = (batch.header(), standing.held_ns.wrapping_sub(batch.held_ns()));
        let Some((frame, front)) = self.take_one(batch, standing, departure) else {
            return Front::default();
        };
        if let Some((at, copies)) = departure.watched {
            let depth = Some(standing.depth - u64::from(front.totals.bytes));
            let taken = Taken { key: Key::of(&header, copies), out: departure.out, at, depth };
            departure.return_path.note(PortId(header.in_port), Note::Taken(taken));
        }
        let mut frames = ArrayVec::new();
        frames.push(frame);
        self.grant_loose(&mut frames, (header, &front), paused_ns, departure);
        front
    }

    /// Grants frames of the only input, each of which may be marked.
    #[inline(never)]
    fn grant_marked<C: Fn(u32) -> u32>(
        &mut self,
        batch: &mut FrameBatch<F>,
        standing: Standing,
        limits: Limits,
        departure: &mut Departure<'_, F, C>,
    ) -> Front {
        departure.return_path.open(batch);
        let (header, paused_ns) = (batch.header(), standing.held_ns.wrapping_sub(batch.held_ns()));
        let (mut standing, mut frames) = (standing, ArrayVec::<F, BATCH_MAX>::new());
        let mut front = Front::default();
        while (frames.is_empty() || limits.goes_on(front.wire))
            && let Some((frame, next)) = self.take_one(batch, &standing, departure)
        {
            standing.depth -= u64::from(next.totals.bytes);
            frames.push(frame);
            front.append(&next);
        }
        self.grant_loose(&mut frames, (header, &front), paused_ns, departure);
        front
    }

    /// Grants the frames that may leave the front of a batch together, a whole batch unopened. None of them is to be marked.
    #[inline(never)]
    pub(super) fn grant_together<C: Fn(u32) -> u32>(
        &mut self,
        batch: &mut FrameBatch<F>,
        held_ns: Nanos,
        limits: Limits,
        departure: &mut Departure<'_, F, C>,
    ) -> Front {
        let (header, paused_ns) = (batch.header(), held_ns.wrapping_sub(batch.held_ns()));
        let front = batch.front(limits, &departure.charge_of);
        self.stats.ecn_seen_ce[departure.queue] += u64::from(front.ce);
        let whole = front.totals.frames as usize == batch.len();
        if whole && let Some(buffer) = batch.take_buffer() {
            self.count_granted(&front);
            let staged = Staged { header, totals: front.totals, out: departure.out, paused_ns };
            departure.return_path.grant(staged, buffer);
        } else {
            departure.return_path.open(batch);
            let mut frames = ArrayVec::<F, BATCH_MAX>::new();
            batch.take(&front, &mut frames);
            self.grant_loose(&mut frames, (header, &front), paused_ns, departure);
        }
        front
    }

    /// Grants frames that were taken out of their buffer.
    #[inline(always)]
    fn grant_loose<C>(
        &mut self,
        frames: &mut ArrayVec<F, BATCH_MAX>,
        (header, front): (BatchHeader, &Front),
        paused_ns: Nanos,
        departure: &mut Departure<'_, F, C>,
    ) {
        self.count_granted(front);
        let staged = Staged { header, totals: front.totals, out: departure.out, paused_ns };
        departure.return_path.grant_loose(staged, frames);
    }

    #[inline(always)]
    fn count_granted(&mut self, front: &Front) {
        self.in_flight += front.totals.frames as usize;
        self.in_flight_wire += front.totals.wire();
    }

    /// Queues that may not send now: paused by the peer, held back by an operator, about to be emptied.
    #[inline(always)]
    pub(super) fn blocked(&mut self, queues: &mut Queues<F>, out: PortId, now: Nanos) -> u8 {
        if now >= self.reaction.next_expiry() {
            self.pauses_end(queues, out, now);
        }
        (self.reaction.queues_when_told() & !self.storm_forward) | self.held_back | self.flushing
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

    /// A frame departs and leaves this depth behind: it is marked if the law of its queue says so.
    #[inline(always)]
    pub(super) fn mark_departing(&mut self, frame: &mut F, meta: &Meta, depth: u64, rng: &mut Rng) {
        let wred = self.mark[usize::from(meta.header.queue) % PRIORITIES];
        if depth > wred.kmin && wred.decide(depth, rng.next_u32()) {
            self.mark(frame, meta);
        }
    }

    /// The marking law chose this frame: an ECT frame becomes CE, others are left as they are (F6, F7).
    #[cold]
    pub(super) fn mark(&mut self, frame: &mut F, meta: &Meta) {
        let queue = usize::from(meta.header.queue);
        self.stats.ecn_selected[queue] += 1;
        let place = meta.header.ecn.place();
        match ecn::codepoint(frame.bytes(), place) {
            Some(ecn::CE) | None | Some(0) => {}
            _ if !frame.make_unique() => self.stats.ecn_no_memory[queue] += 1,
            _ => {
                if ecn::mark(frame.bytes_mut(), place) {
                    self.stats.ecn_marked[queue] += 1;
                    self.stats.ecn_marked_bytes[queue] += u64::from(meta.len);
                    self.attribute_mark(frame, meta);
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn note_sent(&mut self, Staged { header, totals, paused_ns, .. }: &Staged, now: Nanos) {
        let (queue, frames) = (usize::from(header.queue) % PRIORITIES, u64::from(totals.frames));
        self.stats.tx_packets += frames;
        self.stats.tx_bytes += u64::from(totals.bytes);
        self.stats.queue_packets[queue] += frames;
        self.stats.queue_bytes[queue] += u64::from(totals.bytes);
        let residence = now.saturating_sub(header.rx_ns);
        if let Some(latency) = &mut self.latency {
            latency.residence[queue].note(residence, frames);
        }
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
