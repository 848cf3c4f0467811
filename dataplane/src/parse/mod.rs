//! Reads headers: Ethernet, VLAN tags, IP, BTH, MAC control, and the AFH format profiles.
//!
//! Lengths are checked before bytes are read; a malformed frame ends in a counter, never in a panic.

mod format;
mod headers;
mod key;
mod profile;
#[cfg(test)]
mod tests;

pub use format::{EcnSource, Field, FormatError, FormatSpec, Transport, Variant};
pub use key::{GROUP_BIT, KeyParts, key_space};
pub use profile::{DEFAULT_MAX_FRAME, FlowKey, Head, Profile};

use crate::drops::DropReason;

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
    /// Another reserved group address 01-80-C2-00-00-0x: never forwarded.
    Reserved,
}

/// Result of parsing one frame.
pub type ParseResult = Result<Parsed, DropReason>;
