//! The order of a responder: which packet comes next, what the peer is told, how a message is put together (IBTA 9.7.4, 9.9).
//!
//! Strictly in order: what is ahead of the expected PSN is dropped and named once (DEV-64). What is done with packets in
//! order is for the owner to know.

use super::psn::Psn;
use super::wire::{Aeth, Nak, Opcode, Syndrome};

/// Where a request packet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Seen before.
    Duplicate,
    /// Ahead of the expected PSN: to be dropped. `true`: this one raised the NAK of the gap.
    Ahead(bool),
    /// The expected one. The owner says what became of it: [`InOrder::taken`], [`InOrder::not_ready`] or
    /// [`InOrder::refuse`].
    Next,
}

/// Where the receiving half of a connection stands, and the answer it owes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct InOrder {
    expected: Psn,
    /// Messages completed, 24 bits (DEV-70).
    msn: u32,
    /// The gap before `expected` has been named; silence until it is filled.
    gap_named: bool,
    ack_due: bool,
    nak_due: Option<Syndrome>,
}

impl InOrder {
    /// A connection that expects this packet first.
    pub fn new(expected: Psn) -> Self {
        Self { expected, ..Self::default() }
    }

    /// The packet expected next.
    pub fn expected(&self) -> Psn {
        self.expected
    }

    /// Messages completed, 24 bits.
    pub fn msn(&self) -> u32 {
        self.msn
    }

    /// Judges a request packet by its number. A gap is named; a duplicate is not answered yet: that is
    /// [`Self::acknowledge`].
    pub fn turn(&mut self, psn: Psn) -> Turn {
        match psn.since(self.expected) {
            ..0 => Turn::Duplicate,
            0 => Turn::Next,
            _ => {
                let first = !std::mem::replace(&mut self.gap_named, true);
                if first {
                    self.nak_due = Some(Syndrome::Nak(Nak::Sequence));
                }
                Turn::Ahead(first)
            }
        }
    }

    /// The expected packet was taken; it used up `packets` numbers. `ack`: it is to be acknowledged.
    pub fn taken(&mut self, packets: u64, ack: bool) {
        self.expected = self.expected.plus(packets);
        self.gap_named = false;
        self.nak_due = None;
        self.ack_due |= ack;
    }

    /// A message is complete.
    pub fn message_done(&mut self) {
        self.msn = (self.msn + 1) & 0xff_ffff;
    }

    /// There is no room for the expected packet: the peer is to wait (code of the RNR timer).
    pub fn not_ready(&mut self, timer: u8) {
        // What follows is ahead of an expected packet the requester knows to be refused.
        self.gap_named = true;
        self.nak_due = Some(Syndrome::Rnr(timer));
    }

    /// The expected packet is refused for good.
    pub fn refuse(&mut self, nak: Nak) {
        // What follows is ahead of it, but nothing is missing: that NAK would be said in place of this one.
        self.gap_named = true;
        self.nak_due = Some(Syndrome::Nak(nak));
    }

    /// What was taken so far is to be acknowledged, once more perhaps.
    pub fn acknowledge(&mut self) {
        self.ack_due = true;
    }

    /// Something else acknowledges what was taken so far.
    pub fn acknowledged(&mut self) {
        self.ack_due = false;
    }

    /// Whether an answer is owed.
    pub fn owes(&self) -> bool {
        self.ack_due || self.nak_due.is_some()
    }

    /// The acknowledge packet to be sent: PSN and AETH. Answers that came due since the last call
    /// are one (coalesced ACKs); a NAK says what an ACK before it would have said.
    pub fn answer(&mut self) -> Option<(Psn, Aeth)> {
        let (psn, syndrome) = match self.nak_due.take() {
            Some(nak) => (self.expected, nak),
            None if self.ack_due => (self.expected.previous(), Syndrome::ACK_NO_CREDITS),
            None => return None,
        };
        self.ack_due = false;
        Some((psn, Aeth { syndrome: syndrome.encode(), msn: self.msn }))
    }
}

/// Place of a request packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// It opens a message.
    pub first: bool,
    /// It ends one.
    pub last: bool,
    /// An RDMA WRITE; else a SEND.
    pub write: bool,
}

impl Shape {
    /// `None` for anything but sends and writes of a reliable connection.
    pub fn of(opcode: Opcode) -> Option<Self> {
        let write = opcode.0 >= Opcode::RC_WRITE_FIRST.0;
        let (first, last) = match if write { opcode.0 - Opcode::RC_WRITE_FIRST.0 } else { opcode.0 } {
            0 => (true, false),
            1 => (false, false),
            2 | 3 => (false, true),
            4 | 5 => (true, true),
            _ => return None,
        };
        Some(Self { first, last, write })
    }

    /// The opcode, with or without immediate data, which only the last packet of a message has.
    pub fn opcode(self, imm: bool) -> Opcode {
        let send = match (self.first, self.last, imm) {
            (true, true, false) => Opcode::RC_SEND_ONLY,
            (true, true, true) => Opcode::RC_SEND_ONLY_IMM,
            (false, true, false) => Opcode::RC_SEND_LAST,
            (false, true, true) => Opcode::RC_SEND_LAST_IMM,
            (true, false, _) => Opcode::RC_SEND_FIRST,
            (false, false, _) => Opcode::RC_SEND_MIDDLE,
        };
        // The write opcodes follow the send opcodes in the same order.
        if self.write { Opcode(send.0 + Opcode::RC_WRITE_FIRST.0) } else { send }
    }

    /// Whether a packet in this place may carry `len` bytes: all but the last are full, only a message of one packet may
    /// be empty.
    pub fn fits(self, len: usize, mtu: usize) -> bool {
        match (self.first, self.last) {
            (true, true) => len <= mtu,
            (false, true) => (1..=mtu).contains(&len),
            (_, false) => len == mtu,
        }
    }
}
