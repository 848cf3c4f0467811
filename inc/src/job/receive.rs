//! What comes in: contributions, results of the parent, answers.

use super::{Job, Pending};
use crate::collector::{Head, Part, Placed};
use crate::drops::Drop;
use crate::immediate::{Failure, Immediate, Primitive, Status, Who};
use crate::kernels::Flags;
use crate::outbox::Entry;
use crate::params::Straggler;
use crate::peer::Cursor;
use crate::remote::Writes;
use weir_dataplane::types::Nanos;
use weir_endpoint::rc::in_order::Turn;
use weir_endpoint::roce::frame::{ECN_CE, Frame};
use weir_endpoint::roce::shape::Shape;
use weir_endpoint::roce::wire::{Nak, Opcode, Packet, Reth, Syndrome, rnr_code};

/// Why a packet that was next in order is not taken.
enum Refused {
    /// Not now.
    Wait(Drop),
    /// Not ever.
    Invalid(Drop, Failure, Nak),
}

const INVALID: Refused = Refused::Invalid(Drop::InvalidRequest, Failure::Protocol, Nak::InvalidRequest);
const MISMATCH: Refused = Refused::Invalid(Drop::Mismatch, Failure::Mismatch, Nak::InvalidRequest);
const NO_ACCESS: Refused = Refused::Invalid(Drop::RemoteAccess, Failure::Protocol, Nak::RemoteAccess);

/// Shortest and longest wait asked of a peer, in ns. What was lost in the meantime costs no more than the longest.
const RNR_WAIT: std::ops::RangeInclusive<Nanos> = 20_000..=10_000_000;

impl Job {
    /// A frame for peer `at` of this job came.
    pub(crate) fn receive(&mut self, at: usize, frame: &Frame<'_>, now: Nanos) -> Result<(), Drop> {
        let packet = &frame.packet;
        let peer = &mut self.peers[at];
        if !peer.path.matches(&frame.outer) {
            return Err(Drop::WrongPeer);
        }
        // Only the low 15 bits are the key, bit 15 is full or limited membership.
        if (packet.bth.pkey ^ self.params.pkey) & 0x7fff != 0 {
            return Err(Drop::WrongPartition);
        }
        peer.heard(now);
        if frame.outer.ip.ecn == ECN_CE && packet.bth.opcode != Opcode::CNP {
            peer.counters.ce += 1;
            peer.cnp_due |= peer.notify.on_ce(now);
            self.answers |= u128::from(peer.cnp_due) << at;
        }
        match packet.bth.opcode {
            Opcode::CNP => {
                peer.slow_down(now);
                let at = peer.next_event(now);
                self.wake_by(at.unwrap_or(Nanos::MAX));
            }
            Opcode::RC_ACK => return self.answer(at, packet, now),
            Opcode(0x0d..=0x10 | 0x12) => return Err(Drop::Unasked),
            Opcode(0..0x20) => return self.request(at, packet, now),
            _ => return Err(Drop::Transport),
        }
        Ok(())
    }

    fn answer(&mut self, at: usize, packet: &Packet<'_>, now: Nanos) -> Result<(), Drop> {
        let aeth = packet.ext.aeth.ok_or(Drop::Malformed)?;
        let outbox = if at < self.params.children.len() { Some(&mut self.down) } else { self.up.as_mut() };
        let Some(outbox) = outbox.filter(|_| !self.peers[at].dead) else { return Ok(()) };
        let peer = &mut self.peers[at];
        let syndrome = Syndrome::decode(aeth.syndrome);
        if matches!(syndrome, Syndrome::Reserved(_)) || !peer.has_sent(packet.bth.psn) {
            return Err(Drop::StrayAck);
        }
        match syndrome {
            Syndrome::Nak(Nak::Sequence) => peer.counters.naks += 1,
            Syndrome::Rnr(_) => peer.counters.rnr_received += 1,
            _ => {}
        }
        let refused = peer.answer(packet.bth.psn, syndrome, outbox, now).is_err();
        // What waited for this is acknowledged.
        self.answers |= u128::from(peer.order.owes()) << at;
        if refused {
            let unreachable = matches!(syndrome, Syndrome::Nak(Nak::Sequence));
            self.lose(at, if unreachable { Failure::Unreachable } else { Failure::Refused }, now);
            return Ok(());
        }
        self.ready |= 1 << at;
        if let Some(event) = peer.next_event(now) {
            self.wake_by(event);
        }
        self.advance(now);
        Ok(())
    }

    fn request(&mut self, at: usize, packet: &Packet<'_>, now: Nanos) -> Result<(), Drop> {
        let peer = &mut self.peers[at];
        let answer = 1 << at;
        match peer.order.turn(packet.bth.psn) {
            Turn::Duplicate => {
                peer.counters.duplicates += 1;
                peer.order.acknowledge();
                self.answers |= answer;
                return Err(Drop::Duplicate);
            }
            Turn::Ahead(first) => {
                peer.counters.gaps += u64::from(first);
                self.answers |= u128::from(first) << at;
                return Err(self.overtaken(at));
            }
            Turn::Next => {}
        }
        if self.failure.is_some() {
            peer.order.refuse(peer.refusal);
            self.answers |= answer;
            return Err(Drop::JobFailed);
        }
        let taken = if self.is_end(at, packet, now) {
            Ok(None)
        } else if at < self.params.children.len() {
            self.contribution(at, packet, now)
        } else {
            self.result(at, packet, now)
        };
        match taken {
            Ok(dropped) => {
                let peer = &mut self.peers[at];
                let last = Shape::of(packet.bth.opcode).is_some_and(|shape| shape.last);
                peer.cursor.open = !last;
                peer.refused = 0;
                peer.counters.taken += 1;
                if last {
                    peer.order.message_done();
                }
                let held = peer.mirror.as_ref().is_some_and(|mirror| mirror.held().is_some());
                peer.order.taken(1, packet.bth.ack_req && !held);
                self.answers |= u128::from(peer.order.owes()) << at;
                self.advance(now);
                dropped.map_or(Ok(()), Err)
            }
            Err(Refused::Wait(drop)) => {
                let timer = rnr_code(self.expected_wait(at));
                let peer = &mut self.peers[at];
                peer.refused = peer.refused.saturating_add(1);
                peer.counters.rnr_sent += 1;
                peer.order.not_ready(timer);
                self.answers |= answer;
                Err(drop)
            }
            Err(Refused::Invalid(drop, failure, nak)) => {
                self.fail(failure, self.rank_of(at), now);
                let peer = &mut self.peers[at];
                // The same is said again if it asks again: that it was told so may have been lost.
                peer.refusal = nak;
                peer.order.refuse(nak);
                self.answers |= answer;
                Err(drop)
            }
        }
    }

    /// What becomes of a packet that is ahead of the next one: that one is lost, or was not taken, and this neither.
    fn overtaken(&self, at: usize) -> Drop {
        let waits = self.peers[at].refused > 0;
        match (self.failure.is_some(), waits) {
            (true, _) => Drop::JobFailed,
            (false, true) if at < self.params.children.len() => Drop::WindowFull,
            (false, true) if self.pending.is_empty() => Drop::Early,
            (false, true) => Drop::ResultsFull,
            (false, false) => Drop::OutOfSequence,
        }
    }

    /// Whether it is the last word of a peer, which may come within a message. A host may only speak for itself.
    fn is_end(&mut self, at: usize, packet: &Packet<'_>, now: Nanos) -> bool {
        let only = packet.bth.opcode == Opcode::RC_SEND_ONLY_IMM && packet.payload.is_empty();
        let word = packet.ext.imm.filter(|_| only).and_then(Immediate::decode);
        let Some(Immediate::Failed(failure, rank)) = word else { return false };
        let host = self.params.children.get(at).filter(|child| !child.engine);
        let rank = host.map_or(rank, |child| child.first_rank);
        let may = host.is_none() || failure == Failure::Aborted;
        if may {
            self.fail(failure, rank, now);
        }
        may
    }

    /// How long it may take until there is room for peer `at`: half of what the slowest of those that are waited for is
    /// usually behind, and each time twice as long for one that has tried before, so that it does not spend its retries.
    fn expected_wait(&self, at: usize) -> Nanos {
        let missing = self.collector.waiting().map_or(0, |(_, missing)| missing);
        let lags = self.peers.iter().filter(|p| p.bit & missing != 0).map(|p| p.lag.0);
        let first = (lags.max().unwrap_or(0) / 2).max(*RNR_WAIT.start());
        (first << self.peers[at].refused.min(16)).min(*RNR_WAIT.end())
    }

    /// Place in a message, if a request may come here in this form.
    fn shape(&self, at: usize, packet: &Packet<'_>) -> Result<Shape, Refused> {
        let cursor = &self.peers[at].cursor;
        let shape = Shape::of(packet.bth.opcode).filter(|shape| {
            let in_turn =
                shape.first != cursor.open && (shape.first || shape.write == cursor.write.is_some());
            in_turn && shape.fits(packet.payload.len(), usize::from(self.params.mtu))
        });
        shape.ok_or(INVALID)
    }

    /// Where a packet of a WRITE goes, if it may go there. Its bytes are those its first packet has told, and no key is looked at
    /// for none.
    fn destination(&self, at: usize, shape: Shape, packet: &Packet<'_>) -> Result<Reth, Refused> {
        let peer = &self.peers[at];
        let reth = packet.ext.reth.or(peer.cursor.write).ok_or(INVALID)?;
        match peer.remote.writes {
            Writes::Refused => return Err(INVALID),
            Writes::Into(memory) if shape.first && !memory.holds(&reth) => return Err(NO_ACCESS),
            Writes::Into(_) | Writes::Mirrored => {}
        }
        let rest = (reth.len as usize).checked_sub(packet.payload.len());
        let whole = rest.is_some_and(|rest| shape.last == (rest == 0));
        if whole { Ok(reth) } else { Err(INVALID) }
    }

    /// The next packet of a child. `Ok`: taken, unless for this reason it is of no use any more.
    fn contribution(&mut self, at: usize, packet: &Packet<'_>, now: Nanos) -> Result<Option<Drop>, Refused> {
        let shape = self.shape(at, packet)?;
        let payload = packet.payload;
        let (only, empty) = (shape.first && shape.last, payload.is_empty());
        let child = &self.params.children[at];
        let mut cursor = self.peers[at].cursor;
        let write = shape.write.then(|| self.destination(at, shape, packet)).transpose()?;
        cursor.write = write.filter(|_| !shape.last).map(|reth| {
            let len = payload.len() as u32;
            Reth { va: reth.va.wrapping_add(len.into()), len: reth.len - len, ..reth }
        });
        let mut told = Status { count: child.ranks, flags: Flags::default() };
        let mut operation = cursor.operation;
        match packet.ext.imm.map(|word| Immediate::decode(word).ok_or(INVALID)).transpose()? {
            None => {}
            Some(Immediate::Status(status)) if child.engine && shape.last => told = status,
            Some(Immediate::Operation(Primitive::Barrier)) if only && empty => operation = Primitive::Barrier,
            Some(Immediate::Operation(named)) if only && named.names_ranks_below(self.params.ranks) => {
                if empty || named != cursor.operation {
                    cursor = Cursor { operation: named, index: 0, ..cursor };
                }
                if empty && child.remote.writes == Writes::Mirrored {
                    return Err(INVALID);
                }
                if empty {
                    self.peers[at].cursor = cursor;
                    return Ok(None);
                }
                operation = named;
            }
            Some(Immediate::Operation(named)) if !named.names_ranks_below(self.params.ranks) => {
                return Err(INVALID);
            }
            // On the last packet it comes too late to say anything new.
            Some(Immediate::Operation(named)) if named == cursor.operation => {}
            Some(Immediate::Operation(_)) => return Err(MISMATCH),
            Some(Immediate::Status(_) | Immediate::Failed(..)) => return Err(INVALID),
        }
        // Where the result goes is found by counting, so that all have one.
        if operation != self.params.operation && child.remote.writes == Writes::Mirrored {
            return Err(INVALID);
        }
        let barrier = operation == Primitive::Barrier;
        let index = if barrier { 0 } else { cursor.index };
        let source = !barrier
            && match operation.source(index, self.params.ranks) {
                Who::All => true,
                Who::Rank(rank) => child.holds(rank),
            };
        // Sizes of elements are powers of two.
        let whole = operation.fold().is_none_or(|fold| payload.len() & (fold.data_type().bytes() - 1) == 0);
        let single = only || (source && operation != Primitive::AllGather);
        if source == empty || !whole || !single {
            return Err(INVALID);
        }
        let head = Head { operation, index, first: shape.first, last: shape.last, len: payload.len() as u16 };
        let part = Part { head, source, payload, count: told.count, flags: told.flags };
        let dropped = match self.collector.place(at, cursor.number, &part, now) {
            Placed::Full => return Err(Refused::Wait(Drop::WindowFull)),
            Placed::Mismatch => return Err(MISMATCH),
            Placed::Late => {
                self.peers[at].counters.late += 1;
                Some(Drop::Late)
            }
            Placed::Stored(lag) => {
                self.peers[at].measure(lag);
                if lag == 0 {
                    self.counters.most_open = self.counters.most_open.max(self.collector.open() as u64);
                    self.wake_by(self.next_check(now, now));
                }
                None
            }
        };
        if let Some(mirror) = &mut self.peers[at].mirror {
            mirror.take(write, shape.last);
        }
        cursor.number += 1;
        cursor.index += u64::from(shape.last && !barrier);
        self.peers[at].cursor = cursor;
        Ok(dropped)
    }

    /// The next packet of the parent: a result, on its way to children.
    fn result(&mut self, at: usize, packet: &Packet<'_>, now: Nanos) -> Result<Option<Drop>, Refused> {
        let shape = self.shape(at, packet).and_then(|s| if s.write { Err(INVALID) } else { Ok(s) })?;
        let payload = packet.payload;
        let imm = match packet.ext.imm.map(|word| (word, Immediate::decode(word))) {
            Some((word, Some(Immediate::Status(_)))) => Some(word),
            None => None,
            Some(_) => return Err(INVALID),
        };
        // A result nobody here has contributed to: where a part may go out without the ranks below it is kept above until they have.
        let Some(&Pending { number, to, form, .. }) = self.pending.front() else {
            let partial = matches!(self.params.straggler, Straggler::Partial(_));
            return Err(if partial { Refused::Wait(Drop::Early) } else { INVALID });
        };
        // Or one of another form than the contributions.
        let came = (shape.first, shape.last, payload.len() as u16);
        if form.is_some_and(|form| form != came) || shape.last != imm.is_some() {
            return Err(MISMATCH);
        }
        if !self.down.has_room() {
            return Err(Refused::Wait(Drop::ResultsFull));
        }
        self.pending.pop_front();
        if let Some(room) = self.down.payload_mut().get_mut(..payload.len()) {
            room.copy_from_slice(payload);
        }
        let mut entry = Entry::new(to, shape.first, shape.last, payload.len() as u16);
        (entry.number, entry.imm) = (number, imm);
        self.down.push(entry);
        self.counters.from_parent += 1;
        self.announce_down(to, shape.last, now);
        Ok(None)
    }
}
