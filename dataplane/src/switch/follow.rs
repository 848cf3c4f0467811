//! A frame that is followed, from where it comes in to where it is gone: what the pipeline tells its [`Observer`].

use super::lost::control_group;
use super::observer::{Arrival, Beside, Key, Observer, Record, Taken, What};
use super::receive::ParsedFrame;
use super::stage::Staged;
use super::{Switch, Wire};
use crate::classify::Class;
use crate::drops::{DROP_REASONS, DropReason};
use crate::ecn;
use crate::egress::BatchHeader;
use crate::fdb::Lookup;
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx, PgView, QueueIx, QueueView};
use crate::parse::Parsed;
use crate::types::{BURST, Nanos, PRIORITIES, PortId};
use arrayvec::ArrayVec;

/// A frame that is followed, on its way in.
#[derive(Debug)]
struct Start {
    headers: ParsedFrame,
    parsed: Parsed,
    len: u32,
    kept: u32,
    /// Its copy count.
    slot: Option<u32>,
    lookup: Lookup,
    /// What it is charged to, before it is: the group that its headers say, or that of its class if it is the control pool and that is
    /// full, and the queue, where that is known.
    before: ([PgView; 2], Option<QueueView>),
    /// Copies made and frames lost so far.
    copies: u64,
    losses: [u64; DROP_REASONS],
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Does with a frame what is to be done, and follows it if there is room to.
    #[cold]
    #[inline(never)]
    pub(super) fn receive_watched(
        &mut self,
        port: PortId,
        frame: F,
        headers: &ParsedFrame,
        go_on: impl FnOnce(&mut Self, F, &ParsedFrame),
    ) {
        let Some(start) = self.begin_to_follow(port, &frame, headers) else {
            return go_on(self, frame, headers);
        };
        go_on(self, frame, &start.headers);
        self.note_arrival(port, &start);
    }

    /// Keeps the bytes of a frame, gives it a copy count of its own, and looks at what it will be charged to. `None`: there is no room
    /// for another one.
    fn begin_to_follow(&mut self, port: PortId, frame: &F, headers: &ParsedFrame) -> Option<Start> {
        let Self { observer, ports, copies, .. } = self;
        let (bytes, len) = (frame.bytes(), frame.len());
        let profile = &ports[port.index()].params.profile;
        let parsed = profile.parse(bytes, len).unwrap_or(Parsed::NOTHING);
        let waits = headers.forwards();
        let slot = match waits && observer.make_room(|key| copies.is_free(key.slot)) {
            true => copies.next_free(),
            false => None,
        };
        let Some(kept) = (slot.is_some() || !waits).then(|| observer.keep(bytes)).flatten() else {
            observer.missed();
            return None;
        };
        if let Some(beside) = observer.beside() {
            *beside = Beside { at_hand: true, ..Beside::default() };
        }
        let mut headers = *headers;
        if let Some(slot) = slot {
            copies.begin(slot, 1);
            headers.meta.header.copies = slot;
        }
        let lookup = match self.fdb.lookup(headers.dst_key) {
            Lookup::Port(out) => Lookup::Port(self.leaves_by(out, port, frame)),
            other => other,
        };
        let before = self.charged_to(&headers, lookup);
        let copies = self.ports[port.index()].stats.copies;
        Some(Start {
            headers,
            parsed,
            len: len as u32,
            kept,
            slot,
            lookup,
            before,
            copies,
            losses: self.losses(),
        })
    }

    /// Does something with a second frame that is made of one that may be `followed`: nothing of it is part of that one's
    /// story.
    pub(super) fn aside(&mut self, port: PortId, followed: bool, act: impl FnOnce(&mut Self)) {
        if !(followed && self.observer.looks_on()) {
            return act(self);
        }
        let (last, copies, losses) =
            (self.copies.last_begun(), self.ports[port.index()].stats.copies, self.losses());
        let before = self.observer.beside().map(|beside| std::mem::replace(&mut beside.at_hand, false));
        let control_is_full = self.observer.beside().is_some_and(|beside| beside.control_is_full);
        act(self);
        self.copy_waiting();
        self.copies.set_last_begun(last);
        let (copies, now) = (self.ports[port.index()].stats.copies - copies, self.losses());
        if let Some(beside) = self.observer.beside() {
            beside.copies += copies;
            beside
                .losses
                .iter_mut()
                .zip(now.iter().zip(&losses))
                .for_each(|(sum, (now, then))| *sum += now - then);
            beside.control_is_full = control_is_full;
            beside.at_hand = before.unwrap_or_default();
        }
    }

    /// What has become of a frame that came in.
    fn note_arrival(&mut self, port: PortId, start: &Start) {
        let Start { headers, slot, .. } = start;
        let beside = self.observer.beside().copied().unwrap_or_default();
        let then = start.losses.iter().zip(&beside.losses).map(|(then, beside)| then + beside);
        let lost = self.losses().iter().zip(then).position(|(now, then)| *now > then);
        let more = self.ports[port.index()].stats.copies - start.copies - beside.copies;
        let mut key =
            Key { rx_ns: headers.meta.header.rx_ns, in_port: port.0, slot: slot.unwrap_or(u32::MAX) };
        if let Some(slot) = *slot {
            // Flooded frames have a count of their own.
            key.slot = self.copies.last_begun();
            if key.slot != slot || lost.is_some() {
                self.copies.cancel(slot);
            }
        }
        let queued = lost.is_none() || more > 0;
        let (before, after) = (start.before, self.charged_to(headers, start.lookup));
        let is_control = self.admission.control_pg() == Some(PgIx(u32::from(headers.meta.header.pg)));
        let charged = usize::from(beside.control_is_full);
        // A frame in the control pool has the group of its class, which it falls back to.
        let crate::classify::Class { tc, pg, .. } =
            self.ports[port.index()].params.classifier.class(&start.parsed);
        let class = Class { tc, queue: headers.meta.header.queue, pg };
        let copies = if queued && slot.is_some() { 1 + more as u32 } else { 0 };
        let each = self.admission.charge(start.len);
        let arrival = Arrival {
            parsed: start.parsed,
            class,
            lookup: start.lookup,
            charge: self.admission.charge_for_copies(each, copies.max(1)),
            pg: [before.0[charged], after.0[charged]],
            control_pool: is_control && !beside.control_is_full,
            queue: before.1.zip(after.1).map(<[_; 2]>::from),
            lost: lost.map(|reason| DropReason::ALL[reason]),
            copies,
            vlan: headers.vlan,
            aside: beside.copies as u32,
        };
        let (at, what) = (headers.meta.header.rx_ns, What::Arrived(arrival));
        let record = Record { key, at, len: start.len, kept: start.kept, what };
        // Every copy of it may have been refused by its queue.
        let waits = slot.is_some() && queued && !self.copies.is_free(key.slot);
        self.observer.arrived(&record, waits);
    }

    /// The group that a frame is charged to, the one that it falls back to, and the queue, if it is one, and of this shard.
    fn charged_to(&self, headers: &ParsedFrame, lookup: Lookup) -> ([PgView; 2], Option<QueueView>) {
        let pgs = [headers.meta.header.pg, control_group(&self.ports, headers.meta.header.in_port)];
        let pg = pgs.map(|pg| self.admission.pg_view(PgIx(u32::from(pg))));
        let queue = match lookup {
            Lookup::Port(out) if self.ports.is_own(out) => {
                let queue = QueueIx::of(out, usize::from(headers.meta.header.queue));
                Some(self.admission.queue_view(queue))
            }
            _ => None,
        };
        (pg, queue)
    }

    /// Frames lost so far, by reason, at all ports together.
    fn losses(&self) -> [u64; DROP_REASONS] {
        let mut sum = [0; DROP_REASONS];
        for port in self.ports.own() {
            sum.iter_mut().zip(&port.stats.drops.0).for_each(|(sum, n)| *sum += n);
        }
        sum
    }

    /// [`Switch::hand_over`] with somebody watching: what is with the driver afterwards has left.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over_watched(&mut self, out: PortId, now: Nanos, wire: &mut impl Wire<F>) -> usize {
        let mut watched: ArrayVec<(usize, Record, usize), BURST> = ArrayVec::new();
        let Self { observer, ports, queues, copies, .. } = self;
        let mut behind: [u64; PRIORITIES] = std::array::from_fn(|queue| queues.bytes(out, queue));
        let own = ports.is_own(out);
        let counted = ports.stage(out).entries().iter().any(|staged| !staged.header.is_single());
        // What stands behind a frame is what it left behind. A frame with a count of its own is alone in its entry.
        let stage = (counted && observer.looks_on()).then(|| ports.stage(out).backwards());
        for (at, Staged { header, totals, .. }, frame) in stage.into_iter().flatten() {
            let lane = usize::from(header.queue) % PRIORITIES;
            let depth = behind[lane];
            behind[lane] += frame.len() as u64;
            let key = Key::of(header, copies);
            if !observer.follows(key, ports.is_own(PortId(header.in_port))) {
                continue;
            }
            let Taken { at: taken_at, depth: told, .. } =
                observer.taken(Taken { key, out, at: now, depth: None });
            let depth = told.unwrap_or(depth);
            let came = header.ecn.of(frame);
            let marked = ecn::codepoint(frame.bytes(), came.place()) == Some(ecn::CE) && !came.is_ce();
            let what = What::Left { out, queue: header.queue, taken_at, depth, marked };
            let address = frame.bytes().as_ptr().addr();
            watched.push((at, Record { key, at: now, len: totals.bytes, kept: 0, what }, address));
        }
        let sent = if own { self.hand_over(out, now, wire) } else { self.hand_over_granted(out, now, wire) };
        let Self { observer, copies, .. } = self;
        for (_, record, address) in watched.iter().rev().filter(|(at, ..)| *at < sent) {
            observer.left(out, record, *address, copies.is_free(record.key.slot));
        }
        sent
    }

    /// Another lcore has taken a frame that may be one of ours.
    #[cold]
    pub(super) fn taken_elsewhere(&mut self, taken: Taken) {
        if self.observer.follows(taken.key, true) {
            self.observer.taken(taken);
        }
    }

    /// A copy of a frame, or a frame that another lcore has charged or is to be handed, may not join its queue at `out`. To be called before
    /// its copy is counted as gone.
    #[inline(always)]
    pub(super) fn refused_watched(
        &mut self,
        out: PortId,
        header: &BatchHeader,
        len: u32,
        reason: DropReason,
    ) {
        if self.observer.looks_on() && !header.is_single() {
            self.note_refused_copy(out, header, len, reason);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_refused_copy(&mut self, out: PortId, header: &BatchHeader, len: u32, reason: DropReason) {
        let (key, reason) = (Key::of(header, &self.copies), self.reason_for(header, reason));
        let Self { observer, ports, copies, .. } = self;
        if !ports.is_own(PortId(key.in_port)) {
            return self.flushed_watched(out, key, len, reason);
        }
        // Copies are made while the frame comes in, after those of frames that came before it: what is lost of them is no loss on
        // arrival.
        let Some(beside) = observer.beside().filter(|beside| beside.at_hand) else { return };
        beside.losses[reason as usize] += 1;
        if key.slot == copies.last_begun() {
            observer.flushed(out, key, (len, reason), copies.left(key.slot) == 1);
        }
    }

    /// A queued frame is lost.
    #[cold]
    pub(super) fn flushed_watched(&mut self, out: PortId, key: Key, len: u32, reason: DropReason) {
        let Self { observer, ports, copies, .. } = self;
        if observer.follows(key, ports.is_own(PortId(key.in_port))) {
            // It is released right after this.
            observer.flushed(out, key, (len, reason), copies.left(key.slot) == 1);
        }
    }
}
