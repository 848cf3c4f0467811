//! How a message is put together: the place of a packet in it, and the opcode that says so (IBTA 9.7.2).

use super::wire::Opcode;

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
