//! Frames whose egress port is another lcore's, on both sides of the rings ([`super::peers`]).

use super::lost::count_lost;
use super::peers::{Fate, Note, Order, Peer, Report};
use super::stage::Staged;
use super::{Key, Port, PortParams, Switch, Wire};
use crate::drops::DropReason;
use crate::egress::{Chain, Lot, Meta, PACK, Pack, Parcel, Sums, Ticket};
use crate::frame::Frame;
use crate::mmu::headroom::bytes_in;
use crate::mmu::{Admission, PgIx, QueueIx, Verdict};
use crate::types::{BURST, Nanos, PRIORITIES, PortId};
use arrayvec::ArrayVec;

/// Tickets, orders, reports, notes, news, and frames of tickets, taken in one tick from all other lcores together at most:
/// bounded work, but as much as two turns of another one can bring. Each lcore gives [`LEAST_PER_TICK`] in any case.
pub const TAKEN_PER_TICK: usize = 2 * BURST;

/// See [`TAKEN_PER_TICK`]; a ticket and an order may have as many frames.
pub const LEAST_PER_TICK: usize = PACK;

/// Tickets, orders and reports asked for at once.
const AHEAD: usize = 32;

/// Frames of a port that may be with other lcores when more are sent there: what two turns of both can bring. Like
/// those in a transmit ring they cannot be recalled. The last ones may be a whole pack.
pub(super) const MOST_AWAY: usize = 4 * BURST;

/// Frames of a port that are with other lcores at most: the last ones may be a whole pack.
pub const FRAMES_AWAY: usize = MOST_AWAY + PACK;

/// The same in bytes on the wire, for a port whose rate is kept: what it sends until the report of an order comes. The
/// order waits for a turn of the other lcore and is carried out within it, the report waits for a turn of this one and is
/// followed by an order within it. `None`: it is not looked at in turns of `burst` ns.
pub fn bytes_away(rate: u64, burst: Nanos) -> Option<u64> {
    (burst > 0).then(|| bytes_in(rate, TURNS_AWAY * burst))
}

/// [`bytes_away`] of a port.
pub(super) fn most_away_wire(params: &PortParams) -> u64 {
    params.rate.and_then(|rate| bytes_away(rate, params.burst)).unwrap_or(u64::MAX)
}

/// Turns from an order to the next one that its report lets go.
const TURNS_AWAY: u64 = 4;

/// Boxes of a shard that can hold `frames` frames: enough for all of them in packs that are half full. Where none is
/// left frames go one by one.
pub(super) fn stock<F>(frames: usize) -> Vec<Parcel<F>> {
    (0..(2 * frames).div_ceil(PACK)).map(|_| Parcel::default()).collect()
}

/// How frames go back to the lcore they came from.
pub(super) struct Homeward<'a, F> {
    pub peers: &'a mut [Option<Peer<F>>],
    pub owner: &'a [u8],
}

impl<F: Frame> Homeward<'_, F> {
    #[inline(always)]
    fn peer(&mut self, PortId(in_port): PortId) -> Option<&mut Peer<F>> {
        let from = self.owner.get(usize::from(in_port)).copied().unwrap_or(Lot::HERE);
        self.peers.get_mut(usize::from(from)).and_then(Option::as_mut)
    }

    /// Lets the lcore that frames came from send them, in their box.
    #[inline(always)]
    pub fn order(&mut self, staged: Staged, parcel: Parcel<F>) {
        if let Some(peer) = self.peer(PortId(staged.lot.in_port)) {
            peer.orders.put(Order { staged, parcel: Some(parcel) });
        }
    }

    /// Lets the lcore that frames came from send some that are in no box any more.
    #[inline(always)]
    pub fn order_loose(&mut self, staged: Staged, frames: impl Iterator<Item = F>) {
        if let Some(peer) = self.peer(PortId(staged.lot.in_port)) {
            peer.order_loose(staged, frames);
        }
    }

    /// Says something else to the owner of the port that frames came from.
    pub fn note(&mut self, in_port: PortId, note: Note<F>) {
        if let Some(peer) = self.peer(in_port) {
            peer.notes.put(note);
        }
    }

    /// Opens a pack; its box goes back.
    #[inline(always)]
    pub fn open(&mut self, pack: &mut Pack<F>) {
        if let Some(parcel) = pack.open() {
            self.note(PortId(pack.lot().in_port), Note::Empty(parcel));
        }
    }
}

/// The lcore that received the frames, until they are handed over.
impl<F: Frame, A: Admission> Switch<F, A> {
    /// The egress port is another lcore's: charge the group here, let the owner charge the queue.
    #[cold]
    pub(super) fn forward_remote(&mut self, out: PortId, frame: F, meta: Meta) {
        if self.draining {
            return self.drop_at_group(frame, &meta.lot(), DropReason::RunDraining);
        }
        if let Some((frame, meta)) = self.charge_group(frame, meta) {
            self.hand_off_one(out, frame, &meta);
        }
    }

    /// Charges a frame to its group alone. `None`: it was dropped.
    fn charge_group(&mut self, frame: F, meta: Meta) -> Option<(F, Meta)> {
        let mut meta = meta;
        let charge = self.admission.charge(u32::from(meta.len));
        let mut verdict = self.admission.admit_ingress(PgIx(u32::from(meta.pg)), charge);
        if matches!(verdict, Verdict::Refused(_)) && self.leave_control_pool(&mut meta) {
            verdict = self.admission.admit_ingress(PgIx(u32::from(meta.pg)), charge);
        }
        if let Verdict::Refused(reason) = verdict {
            self.drop_at_group(frame, &meta.lot(), reason);
            return None;
        }
        self.count_charged(meta.pg, 1);
        if verdict == Verdict::AdmittedXoff {
            self.xoff(PgIx(u32::from(meta.pg)));
        }
        Some((frame, meta))
    }

    /// Charges the group of a chain whose egress port is another lcore's, and hands its packs over.
    pub(super) fn hand_off_group(&mut self, out: PortId, pg: PgIx, chain: Chain, sums: Sums) {
        let mut chain = chain;
        if self.admission.admit_ingress_together(pg, sums.charge) {
            self.count_charged(pg.0 as u16, sums.frames);
            let home = self.home_of(out);
            while !chain.is_empty()
                && let Some(parcel) = self.parcels.pop()
                && let Some(ticket) = self.queues.ship_first(&mut chain, |pack| pack.ship(out, home, parcel))
            {
                self.hand_off(ticket);
            }
            while let Some((frame, meta)) = self.unchain(&mut chain) {
                self.hand_off_one(out, frame, &meta);
            }
            return;
        }
        // Each frame is asked about; those that may go travel together all the same.
        let mut pack: Option<Pack<F>> = None;
        while let Some((frame, meta)) = self.unchain(&mut chain) {
            let Some((frame, meta)) = self.charge_group(frame, meta) else { continue };
            if !pack.as_ref().is_some_and(|pack| pack.has_room_for(&meta.lot(), 0))
                && let Some(full) = pack.replace(Pack::new(&meta.lot(), 0))
            {
                self.hand_off_pack(out, full);
            }
            let charge = self.admission.charge(u32::from(meta.len));
            let added = pack.as_mut().map(|pack| pack.add(frame, charge).is_ok());
            debug_assert_eq!(added, Some(true));
        }
        if let Some(last) = pack {
            self.hand_off_pack(out, last);
        }
    }

    fn hand_off_pack(&mut self, out: PortId, pack: Pack<F>) {
        let mut pack = pack;
        if let Some(parcel) = self.parcels.pop() {
            let ticket = pack.ship(out, self.home_of(out), parcel);
            return self.hand_off(ticket);
        }
        while let Some((frame, meta)) = pack.pop(|len| self.admission.charge(len)) {
            self.hand_off_one(out, frame, &meta);
        }
    }

    /// Puts a charged frame into the ring of the lcore that owns `out`.
    pub(super) fn hand_off_one(&mut self, out: PortId, frame: F, meta: &Meta) {
        let lot = Lot { home: self.home_of(out), ..meta.lot() };
        let charge = self.admission.charge(u32::from(meta.len));
        self.hand_off(Ticket::of_one(out, lot, charge, frame));
    }

    /// Who is to send what is received here for a port of another lcore: this one, if it has a transmit queue there.
    #[inline(always)]
    fn home_of(&self, out: PortId) -> u8 {
        if self.ports[out.index()].params.tx_per_lcore { self.shard } else { Lot::HERE }
    }

    /// Puts charged frames into the ring of the lcore that owns their egress port.
    #[inline(always)]
    fn hand_off(&mut self, ticket: Ticket<F>) {
        self.admission.mark_remote(PgIx(u32::from(ticket.lot.pg)));
        let (owner, frames) = (self.owner[ticket.out.index()], u64::from(ticket.sums.frames));
        let lost = match self.peers.get_mut(usize::from(owner)).and_then(Option::as_mut) {
            Some(peer) => peer.tickets.say(ticket).err(),
            None => Some(ticket),
        };
        match lost {
            None => self.handed_out += frames,
            Some(ticket) => self.lose_ticket(ticket),
        }
    }

    #[cold]
    fn lose_ticket(&mut self, ticket: Ticket<F>) {
        let Ticket { lot, sums, cargo, .. } = ticket;
        self.release_copy(&lot, sums.charge);
        let mut frames = ArrayVec::<F, PACK>::new();
        self.parcels.extend(cargo.unload(&mut frames));
        for frame in frames {
            self.drop_frame(PortId(lot.in_port), DropReason::HandoffFull, frame, &lot);
        }
    }
}

/// The lcore that owns the egress port.
impl<F: Frame, A: Admission> Switch<F, A> {
    /// Frames another lcore has charged to their group arrive for one of our queues.
    fn accept(&mut self, ticket: Ticket<F>, now: Nanos) {
        let mut ticket = ticket;
        let (out, lot, charge) = (ticket.out, ticket.lot, ticket.sums.charge);
        if lot.home == Lot::HERE {
            // What the other lcore's cache holds of them takes its time to arrive: it is sent in the next turn only.
            ticket.cargo.frames().iter().for_each(F::fetch);
        }
        let queue_ix = out.index() * PRIORITIES + usize::from(lot.queue);
        let (held_ns, ix) = (self.held_ns(queue_ix, now), QueueIx(queue_ix as u32));
        let clear = self.is_clear(out, lot.queue) && self.queues.has_room();
        if clear && self.admission.admit_egress(ix, charge).is_ok() {
            match self.queues.push_ticket(ticket, held_ns) {
                Ok(false) => return,
                Ok(true) => return self.ports[out.index()].scheduler.wake(usize::from(lot.queue)),
                Err(back) => {
                    self.admission.release_egress(ix, charge);
                    ticket = back;
                }
            }
        }
        let mut frames = ArrayVec::<F, PACK>::new();
        if let Some(parcel) = ticket.cargo.unload(&mut frames) {
            self.homeward().note(PortId(lot.in_port), Note::Empty(parcel));
        }
        for frame in frames {
            let meta = lot.meta(frame.len() as u16, held_ns);
            self.accept_one(out, frame, meta, now);
        }
    }

    fn homeward(&mut self) -> Homeward<'_, F> {
        Homeward { peers: &mut self.peers, owner: &self.owner }
    }
}

/// Frames that were ordered to be sent have left, or are lost.
#[inline(always)]
fn settle<F: Frame, A: Admission>(ports: &mut [Port<F>], admission: &mut A, report: &Report) {
    let Report { staged, fate } = report;
    let Staged { lot, sums, out, .. } = staged;
    let port = &mut ports[out.index()];
    port.away -= sums.frames as usize;
    port.away_wire -= sums.wire();
    admission
        .release_egress(QueueIx((out.index() * PRIORITIES + usize::from(lot.queue)) as u32), sums.charge);
    match fate {
        Fate::Sent(at) => port.note_sent(staged, *at),
        Fate::Lost(reason) => {
            port.stats.queue_drops[usize::from(lot.queue)] += u64::from(sums.frames);
            count_lost(ports, admission, *out, *reason, lot, u64::from(sums.frames));
        }
    }
}

/// The lcore that received the frames, when the owner of their egress port has scheduled them.
impl<F: Frame, A: Admission> Switch<F, A> {
    /// Puts the orders of another lcore where they are carried out, `count` of them.
    fn obey(&mut self, peer: usize, count: usize) {
        for _ in 0..count {
            let Some(peer) = self.peers[peer].as_mut() else { return };
            let Some(Order { staged, parcel }) = peer.orders.peek() else { return };
            let (out, loose) = (staged.out, parcel.is_none());
            let port = &mut self.ports[out.index()];
            if loose && !peer.loose.take(staged.sums.frames as usize, &mut port.loose) {
                return;
            }
            self.ordered.insert(out);
            port.orders.extend(peer.orders.pop());
        }
    }

    fn hear(&mut self, peer: usize, note: Note<F>) {
        match note {
            Note::Empty(parcel) => self.parcels.push(parcel),
            Note::Link(out, up) => {
                // Whatever was ordered before is there by now, unless the ring was full: that leaves when the port is up
                // again, or is dropped at the end.
                let come = self.peers[peer].as_ref().map_or(0, |peer| peer.orders.come());
                self.obey(peer, come);
                self.ports[out.index()].up = up;
                if !up {
                    self.condemn_orders(out, DropReason::EgressPortDown);
                    self.fdb.flush_port(out);
                }
                self.note_hindered(out);
            }
            Note::Taken(taken) => self.taken_elsewhere(taken),
        }
    }

    /// Fills the stage of another lcore's port up to `budget` frames, or with one order. `true`: it holds frames.
    #[inline(always)]
    pub(super) fn stage_ordered(&mut self, out: PortId, budget: usize) -> bool {
        let Self { ports, parcels, ordered, .. } = self;
        let port = &mut ports[out.index()];
        let budget = budget.min(port.stage.capacity());
        while let Some(next) = port.orders.front()
            && (port.stage.is_empty() || next.staged.sums.frames as usize + port.stage.len() <= budget)
            && let Some(Order { staged, parcel }) = port.orders.pop_front()
        {
            match parcel {
                Some(mut parcel) => {
                    F::append(&mut parcel, port.stage.frames_mut());
                    parcels.push(parcel);
                }
                None => {
                    port.stage.frames_mut().extend(port.loose.drain(..staged.sums.frames as usize));
                }
            }
            port.stage.note(staged);
        }
        if port.orders.is_empty() {
            // It begins at its beginning again, which is in a near cache.
            port.orders.clear();
            port.loose.clear();
        }
        if port.stage.is_empty() {
            ordered.remove(out);
        }
        !port.stage.is_empty()
    }

    /// Gives the stage of another lcore's port to the wire, releases what the wire took and tells the owner.
    #[inline(always)]
    pub(super) fn hand_over_ordered(&mut self, out: PortId, now: Nanos, wire: &mut impl Wire<F>) -> usize {
        self.hand_over_with(out, wire, |switch, staged| switch.report(staged, Fate::Sent(now)))
    }

    fn report(&mut self, staged: &Staged, fate: Fate) {
        self.release_copy(&staged.lot, staged.sums.charge);
        let owner = usize::from(self.owner[staged.out.index()]);
        if let Some(peer) = self.peers.get_mut(owner).and_then(Option::as_mut) {
            peer.reports.put(Report { staged: *staged, fate });
        }
    }

    /// What has been ordered from us by now for another lcore's port is to be dropped.
    #[cold]
    pub(super) fn condemn_orders(&mut self, out: PortId, reason: DropReason) {
        let port = &mut self.ports[out.index()];
        let ordered: usize = port.orders.iter().map(|order| order.staged.sums.frames as usize).sum();
        (port.condemned, port.condemned_as) = (port.stage.len() + ordered, reason);
        if port.condemned > 0 {
            self.flushing.insert(out);
        }
    }

    /// Drops up to `most` of the frames that were to be sent by another lcore's port, or one order, or what is staged.
    /// Returns how many, `most` at most.
    #[cold]
    pub(super) fn flush_orders(&mut self, out: PortId, most: usize) -> usize {
        let mut dropped = 0;
        while dropped < most && self.ports[out.index()].condemned > 0 {
            if self.ports[out.index()].stage.is_empty() {
                // An order at a time: what was ordered later, when the link was back, is to be sent.
                self.stage_ordered(out, 0);
            }
            let port = &mut self.ports[out.index()];
            let (count, reason) = (port.stage.len(), port.condemned_as);
            port.condemned = if count == 0 { 0 } else { port.condemned.saturating_sub(count) };
            dropped += count;
            for staged in std::mem::take(&mut port.stage).entries() {
                self.flushed_watched(out, Key::of(&staged.lot), staged.sums.bytes, reason);
                self.report(staged, Fate::Lost(reason));
            }
        }
        if self.ports[out.index()].orders.is_empty() {
            self.ordered.remove(out);
        }
        dropped.min(most)
    }
}

/// Both.
impl<F: Frame, A: Admission> Switch<F, A> {
    /// Lets other lcores hear what was said to them.
    #[inline(always)]
    pub(super) fn tell_peers(&mut self) {
        if self.peers.len() > 1 {
            self.peers.iter_mut().flatten().for_each(Peer::flush);
        }
    }

    /// Frames, orders, reports and news other lcores have for us: some of each per tick.
    #[inline(always)]
    pub(super) fn take_from_peers(&mut self, now: Nanos) {
        if self.peers.len() > 1 {
            self.take_all(now);
        }
    }

    fn take_all(&mut self, now: Nanos) {
        self.admission.exchange();
        self.collect_remote();
        let most = (TAKEN_PER_TICK / (self.peers.len() - 1)).max(LEAST_PER_TICK);
        for i in 0..self.peers.len() {
            if i != usize::from(self.shard) {
                self.take_from(i, most, now);
            }
        }
    }

    /// Takes `most` things of each kind from another lcore.
    fn take_from(&mut self, i: usize, most: usize, now: Nanos) {
        let Self { peers, ports, admission, .. } = self;
        let Some(peer) = peers[i].as_mut() else { return };
        let come = [peer.reports.come(), peer.tickets.come(), peer.orders.come()];
        let [reports, tickets, orders] = come.map(|come| come.min(most));
        // They are in another core's cache: all are asked for before the first is needed.
        peer.reports.ask(reports.min(AHEAD), F::prefetch);
        peer.tickets.ask(tickets.min(AHEAD), F::prefetch);
        peer.orders.ask(orders.min(AHEAD), F::prefetch);
        peer.reports.drain(reports, |report| settle(ports, admission, report));
        let mut taken = 0;
        for _ in 0..tickets {
            if taken as usize >= most {
                break;
            }
            let Some(ticket) = self.peers[i].as_mut().and_then(|peer| peer.tickets.pop()) else { break };
            taken += ticket.sums.frames;
            self.accept(ticket, now);
        }
        self.handed_in += u64::from(taken);
        let mut notes = 0;
        while notes < most
            && let Some(note) = self.peers[i].as_mut().and_then(|peer| peer.notes.pop())
        {
            notes += 1;
            self.hear(i, note);
        }
        // What is said of a frame was said before its order, and is to be heard before.
        if notes < most {
            self.obey(i, orders);
        }
        let Some(peer) = self.peers[i].as_mut() else { return };
        peer.flush();
        for event in std::iter::from_fn(|| peer.news_from.pop().ok()).take(most) {
            self.fdb.apply(event, self.ageing.now_tick());
        }
    }

    fn collect_remote(&mut self) {
        let Self { admission, ports, .. } = self;
        admission.collect_remote(&mut |pg| super::tick::xon(ports, pg));
    }
}
