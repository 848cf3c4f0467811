//! The receiving half of a reliable connection: receive requests, placement, READs (IBTA 9.7.4, 9.9).
//!
//! READs are answered in order, too: no ACK or NAK of a later packet leaves before the last packet of a response. Atomics and sends that
//! invalidate a key are not spoken: they draw a NAK, invalid request, and end the connection (IBTA 9.9.3, class C).

use super::memory::Memory;
use super::qp::QpConfig;
use super::shape::Shape;
use super::verbs::{MAX_MESSAGE, RecvWr, Sge, Status, Verb};
use super::wire::{Aeth, Nak, Opcode, Packet, Reth, Syndrome};
use crate::rc::in_order::{InOrder, Turn};
use crate::rc::psn::Psn;
use std::collections::VecDeque;

/// The message that is being received.
#[derive(Clone, Copy, Debug)]
enum Message {
    None,
    Send { received: u32 },
    Write { va: u64, rkey: u32, len: u32, received: u32 },
}

/// What became of a request packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// In order and taken.
    Taken,
    /// In order, taken, and it ended this receive request.
    Received { wr: RecvWr, verb: Verb, len: u32, imm: Option<u32> },
    /// Seen before; acknowledged again.
    Duplicate,
    /// Ahead of the expected PSN, dropped. `true`: this one raised the NAK of the gap.
    OutOfSequence(bool),
    /// No receive buffer: dropped, the requester is told to wait.
    NotReady,
    /// Refused for good. If a receive request is to blame, its status.
    Fatal(Option<Status>),
}

/// READs that wait for their turn at most: what a peer may have outstanding (`max_dest_rd_atomic`; Linux rxe has 128).
const READS: usize = 128;

/// A READ that is answered. What has been sent of it is taken off its front.
#[derive(Clone, Copy, Debug)]
struct Read {
    psn: Psn,
    va: u64,
    rkey: u32,
    left: u32,
    first: bool,
    /// Count of messages with this one, as its AETH says.
    msn: u32,
}

/// A packet of a READ response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadPart {
    pub opcode: Opcode,
    pub psn: Psn,
    pub aeth: Option<Aeth>,
    pub rkey: u32,
    pub va: u64,
    pub len: u32,
}

enum Refusal {
    NotReady,
    Nak(Nak, Option<Status>),
}

const INVALID: Refusal = Refusal::Nak(Nak::InvalidRequest, None);

#[derive(Debug)]
pub(super) struct Responder {
    mtu: usize,
    depth: usize,
    rnr_timer: u8,
    order: InOrder,
    message: Message,
    queue: VecDeque<RecvWr>,
    reads: VecDeque<Read>,
}

impl Responder {
    pub fn new(config: &QpConfig) -> Self {
        Self {
            mtu: usize::from(config.mtu),
            depth: config.rq_depth,
            rnr_timer: config.min_rnr_timer,
            order: InOrder::default(),
            message: Message::None,
            queue: VecDeque::with_capacity(config.rq_depth),
            reads: VecDeque::new(),
        }
    }

    /// Queues a receive buffer; `false` if the queue is full.
    pub fn post(&mut self, wr: RecvWr) -> bool {
        let room = self.queue.len() < self.depth;
        if room {
            self.queue.push_back(wr);
        }
        room
    }

    /// Takes all receive requests, oldest first, after a failure.
    pub fn abandon(&mut self) -> impl Iterator<Item = RecvWr> + '_ {
        self.queue.drain(..)
    }

    /// The packet expected next, for a connection that is only now set up.
    pub fn expect(&mut self, psn: Psn) {
        self.order = InOrder::new(psn);
    }

    /// Handles a request packet.
    pub fn request(&mut self, packet: &Packet<'_>, memory: &mut Memory) -> Outcome {
        let is_read = packet.bth.opcode == Opcode::RC_READ_REQUEST;
        match self.order.turn(packet.bth.psn) {
            Turn::Duplicate => {
                match packet.ext.reth.filter(|_| is_read) {
                    Some(reth) => self.read_again(packet.bth.psn, reth, memory),
                    None => self.order.acknowledge(),
                }
                return Outcome::Duplicate;
            }
            Turn::Ahead(first) => return Outcome::OutOfSequence(first),
            Turn::Next => {}
        }
        match self.take(packet, memory) {
            Ok(received) => {
                self.order.taken(self.packets_of(packet), packet.bth.ack_req && !is_read);
                received.unwrap_or(Outcome::Taken)
            }
            Err(Refusal::NotReady) => {
                self.order.not_ready(self.rnr_timer);
                Outcome::NotReady
            }
            Err(Refusal::Nak(nak, status)) => {
                self.order.refuse(nak);
                Outcome::Fatal(status)
            }
        }
    }

    /// Sequence numbers a request takes: a READ those of its response.
    fn packets_of(&self, packet: &Packet<'_>) -> u64 {
        let read = packet.ext.reth.filter(|_| packet.bth.opcode == Opcode::RC_READ_REQUEST);
        read.map_or(1, |reth| u64::from(reth.len).div_ceil(self.mtu as u64).max(1))
    }

    /// Takes on a READ.
    fn read(&mut self, packet: &Packet<'_>, memory: &Memory) -> Result<Option<Outcome>, Refusal> {
        let reth = packet.ext.reth.ok_or(INVALID)?;
        let fits =
            matches!(self.message, Message::None) && packet.payload.is_empty() && reth.len <= MAX_MESSAGE;
        if !fits || self.reads.len() >= READS {
            return Err(INVALID);
        }
        memory.remote(reth.rkey, reth.va, reth.len).ok_or(Refusal::Nak(Nak::RemoteAccess, None))?;
        self.order.message_done();
        // Its response acknowledges all that was before it.
        self.order.acknowledged();
        self.push_read(packet.bth.psn, reth);
        Ok(None)
    }

    fn push_read(&mut self, psn: Psn, reth: Reth) {
        let Reth { va, rkey, len: left } = reth;
        self.reads.push_back(Read { psn, va, rkey, left, first: true, msn: self.order.msn() });
    }

    /// A READ seen before: its requester misses the response, or its end, and names in the request what it misses
    /// (IBTA 9.7.5.1). What was to be sent from there on is what it will ask for next.
    fn read_again(&mut self, psn: Psn, reth: Reth, memory: &Memory) {
        let packets = u64::from(reth.len).div_ceil(self.mtu as u64).max(1);
        let within = psn.plus(packets).since(self.order.expected()) <= 0;
        if within && memory.remote(reth.rkey, reth.va, reth.len).is_some() {
            self.reads.retain(|read| read.psn.since(psn) < 0);
            if self.reads.len() < READS {
                self.push_read(psn, reth);
            }
        }
    }

    /// The next packet of a READ response.
    pub fn read_part(&self) -> Option<ReadPart> {
        let Read { psn, va, rkey, left, first, msn } = *self.reads.front()?;
        let len = left.min(self.mtu as u32);
        let opcode = match (first, len == left) {
            (true, true) => Opcode::RC_READ_RESPONSE_ONLY,
            (true, false) => Opcode::RC_READ_RESPONSE_FIRST,
            (false, true) => Opcode::RC_READ_RESPONSE_LAST,
            (false, false) => Opcode::RC_READ_RESPONSE_MIDDLE,
        };
        let aeth = Aeth { syndrome: Syndrome::ACK_NO_CREDITS.encode(), msn };
        let aeth = (opcode != Opcode::RC_READ_RESPONSE_MIDDLE).then_some(aeth);
        Some(ReadPart { opcode, psn, aeth, rkey, va, len })
    }

    /// That packet left.
    pub fn part_sent(&mut self) {
        let Some(part) = self.read_part() else { return };
        let Some(read) = self.reads.front_mut() else { return };
        (read.psn, read.va, read.first) = (read.psn.plus(1), read.va + u64::from(part.len), false);
        read.left -= part.len;
        if read.left == 0 {
            self.reads.pop_front();
        }
    }

    /// The memory a READ names has gone since: the peer hears of it when it asks again.
    pub fn refuse_read(&mut self) {
        self.reads.pop_front();
    }

    /// Places the payload of the expected packet. On refusal nothing has changed.
    fn take(&mut self, packet: &Packet<'_>, memory: &mut Memory) -> Result<Option<Outcome>, Refusal> {
        if packet.bth.opcode == Opcode::RC_READ_REQUEST {
            return self.read(packet, memory);
        }
        let shape = Shape::of(packet.bth.opcode).ok_or(INVALID)?;
        if !shape.fits(packet.payload.len(), self.mtu) {
            return Err(INVALID);
        }
        // Only the first packet of a message may open one, and only the others continue it.
        let message = match (self.message, shape.first, shape.write) {
            (Message::None, true, false) => Message::Send { received: 0 },
            (Message::None, true, true) => {
                let reth = packet.ext.reth.ok_or(INVALID)?;
                Message::Write { va: reth.va, rkey: reth.rkey, len: reth.len, received: 0 }
            }
            (open @ Message::Send { .. }, false, false) | (open @ Message::Write { .. }, false, true) => open,
            _ => return Err(INVALID),
        };
        let consumes = !shape.write || packet.ext.imm.is_some();
        if consumes && self.queue.is_empty() {
            return Err(Refusal::NotReady);
        }
        let payload = packet.payload;
        let (message, total) = match message {
            Message::Send { received } => {
                let total = self.place_send(received, payload, memory)?;
                (Message::Send { received: total }, total)
            }
            Message::Write { va, rkey, len, received } => {
                let total = place_write(va, rkey, len, received, payload, shape.last, memory)?;
                (Message::Write { va, rkey, len, received: total }, total)
            }
            Message::None => return Err(INVALID),
        };
        if !shape.last {
            self.message = message;
            return Ok(None);
        }
        self.message = Message::None;
        self.order.message_done();
        let verb = if shape.write { Verb::RecvWriteImm } else { Verb::Recv };
        let wr = if consumes { self.queue.pop_front() } else { None };
        Ok(wr.map(|wr| Outcome::Received { wr, verb, len: total, imm: packet.ext.imm }))
    }

    /// Copies a packet of a send into the oldest receive buffer; returns the bytes received so far.
    fn place_send(&self, received: u32, payload: &[u8], memory: &mut Memory) -> Result<u32, Refusal> {
        let sge = self.queue.front().ok_or(Refusal::NotReady)?.sge;
        let len = payload.len() as u32; // At most the MTU.
        let total = received.checked_add(len).filter(|&total| total <= sge.len);
        let total = total.ok_or(Refusal::Nak(Nak::InvalidRequest, Some(Status::LocalLength)))?;
        let target = Sge { addr: sge.addr + u64::from(received), len, ..sge };
        let buffer = memory.receive_buffer(target);
        let buffer = buffer.ok_or(Refusal::Nak(Nak::RemoteOperational, Some(Status::LocalProtection)))?;
        buffer.copy_from_slice(payload);
        Ok(total)
    }

    /// There is an acknowledge packet to be sent.
    pub fn owes(&self) -> bool {
        self.reads.is_empty() && self.order.owes()
    }

    /// The acknowledge packet to be sent: PSN and AETH. `None`, too, while a READ is answered: its response
    /// acknowledges what was before it, and what came after it waits.
    pub fn answer(&mut self) -> Option<(Psn, Aeth)> {
        let (psn, syndrome) = if self.owes() { self.order.answer() } else { None }?;
        Some((psn, Aeth { syndrome: syndrome.encode(), msn: self.order.msn() }))
    }
}

/// Copies a packet of a write; returns the bytes received so far. The first packet checks the whole
/// range, so that a message is refused before its first byte is written.
fn place_write(
    va: u64,
    rkey: u32,
    len: u32,
    received: u32,
    payload: &[u8],
    last: bool,
    memory: &mut Memory,
) -> Result<u32, Refusal> {
    let total = received.checked_add(payload.len() as u32).filter(|&total| total <= len).ok_or(INVALID)?;
    if (total == len) != last {
        return Err(INVALID);
    }
    if len > 0 {
        let target = memory.remote_mut(rkey, va, len).ok_or(Refusal::Nak(Nak::RemoteAccess, None))?;
        target[received as usize..total as usize].copy_from_slice(payload);
    }
    Ok(total)
}
