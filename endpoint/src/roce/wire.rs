//! InfiniBand transport headers as they stand on the wire (IBTA chapter 9): BTH and its extensions.

pub use crate::rc::answer::{Nak, Syndrome, rnr_code, rnr_wait};
use crate::rc::psn::Psn;

/// UDP destination port of RoCEv2.
pub const UDP_PORT: u16 = 4791;
/// Bytes of a base transport header.
pub const BTH_BYTES: usize = 12;
/// Bytes of the invariant CRC.
pub const ICRC_BYTES: usize = 4;
/// Partition key every port belongs to.
pub const DEFAULT_PKEY: u16 = 0xffff;
/// Largest path MTU, so the most payload one packet carries.
pub const MAX_MTU: usize = 4096;

/// Takes fixed-size fields off the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `N` bytes, or `None` if there are fewer.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// The next big-endian 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    /// The next big-endian 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }
}

/// Number of a queue pair, 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qpn(pub u32);

/// BTH opcode: transport in bits 7:5, operation in bits 4:0 (IBTA table 38).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

#[allow(missing_docs)] // The names are those of the standard.
impl Opcode {
    pub const RC_SEND_FIRST: Self = Self(0x00);
    pub const RC_SEND_MIDDLE: Self = Self(0x01);
    pub const RC_SEND_LAST: Self = Self(0x02);
    pub const RC_SEND_LAST_IMM: Self = Self(0x03);
    pub const RC_SEND_ONLY: Self = Self(0x04);
    pub const RC_SEND_ONLY_IMM: Self = Self(0x05);
    pub const RC_WRITE_FIRST: Self = Self(0x06);
    pub const RC_WRITE_MIDDLE: Self = Self(0x07);
    pub const RC_WRITE_LAST: Self = Self(0x08);
    pub const RC_WRITE_LAST_IMM: Self = Self(0x09);
    pub const RC_WRITE_ONLY: Self = Self(0x0a);
    pub const RC_WRITE_ONLY_IMM: Self = Self(0x0b);
    pub const RC_READ_REQUEST: Self = Self(0x0c);
    pub const RC_READ_RESPONSE_FIRST: Self = Self(0x0d);
    pub const RC_READ_RESPONSE_MIDDLE: Self = Self(0x0e);
    pub const RC_READ_RESPONSE_LAST: Self = Self(0x0f);
    pub const RC_READ_RESPONSE_ONLY: Self = Self(0x10);
    pub const RC_ACK: Self = Self(0x11);
    pub const RC_ATOMIC_ACK: Self = Self(0x12);
    pub const RC_COMPARE_SWAP: Self = Self(0x13);
    pub const RC_FETCH_ADD: Self = Self(0x14);
    pub const RC_SEND_ONLY_INVALIDATE: Self = Self(0x17);
    pub const UC_SEND_ONLY: Self = Self(0x24);
    pub const UD_SEND_ONLY: Self = Self(0x64);
    pub const UD_SEND_ONLY_IMM: Self = Self(0x65);
    pub const CNP: Self = Self(0x81);
}

/// Which extension headers follow a BTH, in wire order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Datagram header (UD).
    pub deth: bool,
    /// RDMA header: remote address, key and length.
    pub reth: bool,
    /// Acknowledge header.
    pub aeth: bool,
    /// Immediate data.
    pub imm: bool,
    /// Bytes of headers that are not read here: those of atomics and of sends that invalidate a key.
    pub other: u8,
}

impl Opcode {
    /// The extension headers of this opcode; `None` for transports not spoken here (RD, XRC, extended opcodes).
    /// Every operation of a reliable connection has some, reserved ones too: what is not spoken is answered with a
    /// NAK, so it has to be understood that far (IBTA 9.9.3).
    #[inline]
    pub fn layout(self) -> Option<Layout> {
        let none = Layout::default();
        let (transport, operation) = (self.0 >> 5, self.0 & 0x1f);
        Some(match (transport, operation) {
            (0 | 1, 0x00 | 0x01 | 0x02 | 0x04 | 0x07 | 0x08) => none,
            (0 | 1, 0x03 | 0x05 | 0x09) => Layout { imm: true, ..none },
            (0 | 1, 0x06 | 0x0a) | (0, 0x0c) => Layout { reth: true, ..none },
            (0 | 1, 0x0b) => Layout { reth: true, imm: true, ..none },
            (0, 0x0d | 0x0f | 0x10 | 0x11) => Layout { aeth: true, ..none },
            (0, 0x0e) => none,
            (0, 0x12) => Layout { aeth: true, other: 8, ..none },
            (0, 0x13 | 0x14) => Layout { other: 28, ..none },
            (0, 0x16 | 0x17) => Layout { other: 4, ..none },
            (0, _) => none,
            (3, 0x04) => Layout { deth: true, ..none },
            (3, 0x05) => Layout { deth: true, imm: true, ..none },
            (4, 0x01) => none,
            _ => return None,
        })
    }
}

/// Base transport header. Reserved bits are written as zero. The pad count is not here: it follows
/// from the payload length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// Solicited event.
    pub solicited: bool,
    /// Path migration state; RNICs set it, Linux rxe does not.
    pub mig_req: bool,
    /// Partition key.
    pub pkey: u16,
    /// Forward congestion mark. Not covered by the ICRC.
    pub fecn: bool,
    /// Backward congestion mark, set in a CNP. Not covered by the ICRC.
    pub becn: bool,
    /// Queue pair of the receiver.
    pub dest_qp: Qpn,
    /// The responder is asked to acknowledge.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// A header with the default partition and no flag set.
    pub fn new(opcode: Opcode, dest_qp: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            mig_req: false,
            pkey: DEFAULT_PKEY,
            fecn: false,
            becn: false,
            dest_qp,
            ack_req: false,
            psn,
        }
    }

    /// Reads 12 bytes. Also returns the pad count and the header version.
    #[inline(always)]
    pub(crate) fn read(r: &mut Reader<'_>) -> Option<(Self, usize, u8)> {
        let [opcode, flags, p0, p1, marks, q0, q1, q2, ack, s0, s1, s2] = r.take()?;
        let bth = Self {
            opcode: Opcode(opcode),
            solicited: flags & 0x80 != 0,
            mig_req: flags & 0x40 != 0,
            pkey: u16::from_be_bytes([p0, p1]),
            fecn: marks & 0x80 != 0,
            becn: marks & 0x40 != 0,
            dest_qp: Qpn(u32::from_be_bytes([0, q0, q1, q2])),
            ack_req: ack & 0x80 != 0,
            psn: Psn::new(u32::from_be_bytes([0, s0, s1, s2])),
        };
        Some((bth, usize::from(flags >> 4 & 3), flags & 0x0f))
    }

    /// Appends the 12 bytes, with `pad` (0 to 3) pad bytes announced.
    pub(crate) fn write(&self, pad: u8, out: &mut Vec<u8>) {
        let flag = |set: bool, bit: u8| u8::from(set) << bit;
        out.push(self.opcode.0);
        out.push(flag(self.solicited, 7) | flag(self.mig_req, 6) | pad << 4);
        out.extend(self.pkey.to_be_bytes());
        out.push(flag(self.fecn, 7) | flag(self.becn, 6));
        out.extend(&self.dest_qp.0.to_be_bytes()[1..]);
        out.push(flag(self.ack_req, 7));
        out.extend(&self.psn.get().to_be_bytes()[1..]);
    }
}

/// Datagram extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deth {
    /// Queue key, checked by the receiver.
    pub qkey: u32,
    /// Queue pair of the sender.
    pub src_qp: Qpn,
}

/// RDMA extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reth {
    /// Remote virtual address.
    pub va: u64,
    /// Key of the remote memory region.
    pub rkey: u32,
    /// Bytes of the whole message.
    pub len: u32,
}

/// Acknowledge extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// Kind of answer and its code; see [`Syndrome`].
    pub syndrome: u8,
    /// Messages completed by the responder, 24 bits (DEV-70).
    pub msn: u32,
}

impl Aeth {
    /// The header as a number.
    pub fn word(self) -> u32 {
        u32::from(self.syndrome) << 24 | self.msn & 0xff_ffff
    }
}

impl Syndrome {
    /// Reads the byte.
    pub fn decode(byte: u8) -> Self {
        match (byte >> 5, byte & 0x1f) {
            (0, credits) => Self::Ack(credits),
            (1, timer) => Self::Rnr(timer),
            (3, 0) => Self::Nak(Nak::Sequence),
            (3, 1) => Self::Nak(Nak::InvalidRequest),
            (3, 2) => Self::Nak(Nak::RemoteAccess),
            (3, 3) => Self::Nak(Nak::RemoteOperational),
            _ => Self::Reserved(byte),
        }
    }

    /// The byte; codes above 31 are cut to five bits.
    pub fn encode(self) -> u8 {
        match self {
            Self::Ack(credits) => credits & 0x1f,
            Self::Rnr(timer) => 0x20 | timer & 0x1f,
            Self::Nak(nak) => 0x60 | nak as u8,
            Self::Reserved(byte) => byte,
        }
    }
}

/// The extension headers a packet carries; which ones must be those of its opcode's [`Layout`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Datagram header.
    pub deth: Option<Deth>,
    /// RDMA header.
    pub reth: Option<Reth>,
    /// Acknowledge header.
    pub aeth: Option<Aeth>,
    /// Immediate data.
    pub imm: Option<u32>,
}

impl Reth {
    /// Bytes of it.
    pub const BYTES: usize = 16;

    /// As it is on the wire.
    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.va.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[12..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }
}

impl Extensions {
    /// Which headers are here.
    pub fn layout(&self) -> Layout {
        Layout {
            deth: self.deth.is_some(),
            reth: self.reth.is_some(),
            aeth: self.aeth.is_some(),
            imm: self.imm.is_some(),
            other: 0,
        }
    }

    /// Reads the headers of `layout`; `None` if the bytes end first.
    #[inline(always)]
    pub(crate) fn read(layout: Layout, r: &mut Reader<'_>) -> Option<Self> {
        let mut ext = Self::default();
        if layout.deth {
            ext.deth = Some(Deth { qkey: r.u32()?, src_qp: Qpn(r.u32()? & 0xff_ffff) });
        }
        if layout.reth {
            let va = u64::from_be_bytes(r.take()?);
            ext.reth = Some(Reth { va, rkey: r.u32()?, len: r.u32()? });
        }
        if layout.aeth {
            let word = r.u32()?;
            ext.aeth = Some(Aeth { syndrome: (word >> 24) as u8, msn: word & 0xff_ffff });
        }
        if layout.imm {
            ext.imm = Some(r.u32()?);
        }
        r.0 = r.0.get(usize::from(layout.other)..)?;
        Some(ext)
    }

    /// Appends the headers.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if let Some(deth) = self.deth {
            out.extend(deth.qkey.to_be_bytes());
            out.extend(deth.src_qp.0.to_be_bytes());
        }
        if let Some(reth) = self.reth {
            out.extend(reth.bytes());
        }
        if let Some(aeth) = self.aeth {
            out.extend(aeth.word().to_be_bytes());
        }
        if let Some(imm) = self.imm {
            out.extend(imm.to_be_bytes());
        }
    }
}

/// A transport packet: headers and payload, without pad and ICRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// Extension headers.
    pub ext: Extensions,
    /// Payload without pad bytes; the 16 reserved bytes of a CNP are here.
    pub payload: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_byte_survives() {
        for byte in 0..=255 {
            assert_eq!(Syndrome::decode(byte).encode(), byte);
        }
        assert_eq!(Syndrome::Nak(Nak::Sequence).encode(), 0x60);
        assert_eq!(Syndrome::Nak(Nak::RemoteOperational).encode(), 0x63);
        assert_eq!(Syndrome::ACK_NO_CREDITS.encode(), 0x1f);
        assert_eq!(Syndrome::decode(0x2c), Syndrome::Rnr(12));
    }

    #[test]
    fn rnr_codes_seen_on_the_wire() {
        assert_eq!(rnr_wait(12), 640_000);
        assert_eq!(rnr_wait(14), 1_280_000);
        assert_eq!(rnr_wait(0), 655_360_000);
        assert_eq!(rnr_wait(1), 10_000);
        assert_eq!(rnr_wait(31), 491_520_000);
        assert!((2..32).all(|code| rnr_wait(code) > rnr_wait(code - 1)));
        assert!((0..32).all(|code| rnr_code(rnr_wait(code)) == code));
        assert_eq!((rnr_code(0), rnr_code(10_001), rnr_code(u64::MAX)), (1, 2, 0));
    }
}
