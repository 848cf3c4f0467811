//! Reads headers: Ethernet, VLAN tags, IP, BTH, MAC control, and the AFH format profiles.
//!
//! Lengths are checked before bytes are read; a malformed frame ends in a counter, never in a panic.

pub mod checksum;
mod flow_hash;
mod flow_id;
mod flow_key;
mod format;
mod headers;
mod key;
mod membership;
mod profile;
mod sample;
#[cfg(test)]
mod tests;

pub use flow_hash::HashFields;
pub use flow_key::FlowKey;
pub use format::{EcnSource, Field, FormatError, FormatSpec, Transport, Variant};
pub(crate) use headers::be16;
pub use headers::is_tag;
pub(crate) use key::in_vlan;
pub use key::{GROUP_BIT, KeyParts, key_space};
pub use membership::MembershipFrame;
pub use profile::{DEFAULT_MAX_FRAME, Profile};
pub use sample::{NoField, Sample};

use crate::drops::DropReason;
use crate::ecn::CE;
use crate::frame::Frame;

/// What the pipeline needs to know about a frame, from one pass over its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// FDB key of the destination: masked by the port's format, tagged with VLAN id and key space.
    pub dst_key: u64,
    /// FDB key of the source, same form.
    pub src_key: u64,
    /// Destination is a group address (multicast or broadcast) in the port's format.
    pub group: bool,
    /// PCP of the outermost VLAN tag, if tagged.
    pub pcp: Option<u8>,
    /// DSCP of the IP header, if there is a well-formed one where the format has one.
    pub dscp: Option<u8>,
    /// Traffic-class byte of an AFH header, if the format has one.
    pub tc: Option<u8>,
    /// Where the ECN field is and what it says.
    pub ecn: EcnField,
    /// What kind of frame this is.
    pub kind: Kind,
    /// The IP or transport header was malformed; the frame is forwarded by its Ethernet header and counted.
    pub malformed_l3: bool,
}

impl Parsed {
    /// A frame that says nothing.
    pub(crate) const NOTHING: Parsed = Parsed {
        dst_key: 0,
        src_key: 0,
        group: false,
        pcp: None,
        dscp: None,
        tc: None,
        ecn: EcnField { place: EcnPlace::None, codepoint: 0 },
        kind: Kind::Data,
        malformed_l3: false,
    };
}

/// Position and code point of the ECN field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnField {
    /// Where the two bits are.
    pub place: EcnPlace,
    /// The two bits as they arrived: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE (RFC 3168 section 5).
    pub codepoint: u8,
}

/// Which header carries the ECN bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnPlace {
    /// Nowhere: the frame can not be marked.
    None,
    /// IPv4 header starting at this byte of the frame.
    Ipv4(u8),
    /// IPv6 header starting at this byte of the frame.
    Ipv6(u8),
    /// Bits 1:0 of the AFH traffic-class byte at this byte of the frame (only with `ecn = "tc"`).
    Tc(u8),
}

/// Where the ECN bits of a frame are, and whether it came in as CE; or that each frame of a batch has a code of its own
/// ([`EcnCode::EACH`]). Which of them are ECT says the frame, when it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnCode(u16);

impl EcnCode {
    /// No ECN field.
    pub const NONE: Self = Self(0);
    /// Said of frames together: each has a code of its own ([`crate::frame::Frame::ecn`]). Of no field: an offset of nothing.
    pub const EACH: Self = Self(1 << 3);
    /// Bits of a code.
    pub const BITS: u32 = 9;
    /// Offsets are below this: no header that is read starts further behind.
    const OFFSETS: u16 = 64;

    /// From [`EcnField::code`], its low [`EcnCode::BITS`] bits.
    #[inline(always)]
    pub fn from_bits(bits: u16) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// The code as a number.
    #[inline(always)]
    pub fn bits(self) -> u16 {
        self.0
    }

    /// That of one of the frames of which this was said.
    #[inline(always)]
    pub fn of<F: Frame>(self, frame: &F) -> Self {
        if self == Self::EACH { frame.ecn() } else { self }
    }

    /// They came in as CE. Not to be asked of [`EcnCode::EACH`].
    #[inline(always)]
    pub fn is_ce(self) -> bool {
        self.0 & 1 == 1
    }

    /// The same in a frame whose bytes from the EtherType on have moved by so many.
    pub(crate) fn moved(self, bytes: isize) -> Self {
        let field = |place| EcnField { place, codepoint: if self.is_ce() { CE } else { 0 } }.code();
        match self.place() {
            EcnPlace::Ipv4(at) => field(EcnPlace::Ipv4(at.saturating_add_signed(bytes as i8))),
            EcnPlace::Ipv6(at) => field(EcnPlace::Ipv6(at.saturating_add_signed(bytes as i8))),
            EcnPlace::None | EcnPlace::Tc(_) => self,
        }
    }

    /// Where the bits are.
    pub fn place(self) -> EcnPlace {
        let (kind, at) = (self.0 >> 1 & 3, (self.0 >> 3) as u8);
        match kind {
            0 => EcnPlace::None,
            1 => EcnPlace::Ipv4(at),
            2 => EcnPlace::Ipv6(at),
            _ => EcnPlace::Tc(at),
        }
    }
}

impl EcnField {
    /// In one word.
    #[inline(always)]
    pub fn code(self) -> EcnCode {
        let (kind, at) = match self.place {
            EcnPlace::None => (0, 0),
            EcnPlace::Ipv4(at) => (1, u16::from(at)),
            EcnPlace::Ipv6(at) => (2, u16::from(at)),
            EcnPlace::Tc(at) => (3, u16::from(at)),
        };
        debug_assert!(at < EcnCode::OFFSETS);
        let ce = u16::from(self.codepoint == CE);
        EcnCode(ce | kind << 1 | (at % EcnCode::OFFSETS) << 3)
    }
}

/// What a frame is to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ordinary data.
    Data,
    /// A CNP (BTH opcode 0x81, or RC Link RH opcode 2): goes to the control class.
    Cnp,
    /// A RoCE ACK/NAK (BTH opcode 0x11) or RC Link ACK: goes to the control class.
    Ack,
    /// MAC control (DA 01-80-C2-00-00-01, EtherType 0x8808): consumed by the port, never forwarded.
    MacControl,
    /// Another reserved group address 01-80-C2-00-00-0x: meant for the bridge itself.
    Reserved,
}

/// Result of parsing one frame.
pub type ParseResult = Result<Parsed, DropReason>;
