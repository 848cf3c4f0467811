//! Frame formats as data: where the addresses, the traffic class and the EtherType are.
//!
//! Offsets are bits from the first wire bit of the frame, most significant bit first. Built-ins are
//! the four formats of SW-003; AFH layouts are still moving in public, so every offset can be set.

use super::key_space;
use crate::classify::{Trust, TrustSource, default_trust};

/// A run of bits in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// First bit, counted from the first wire bit of the frame.
    pub off: u16,
    /// Number of bits.
    pub len: u16,
}

impl Field {
    /// `len` bits from bit `off`.
    pub const fn new(off: u16, len: u16) -> Self {
        Self { off, len }
    }

    /// First bit behind the field.
    fn end(self) -> u32 {
        u32::from(self.off) + u32::from(self.len)
    }

    fn overlaps(self, other: Self) -> bool {
        u32::from(self.off) < other.end() && u32::from(other.off) < self.end()
    }
}

/// Which header of the format can carry an ECN mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnSource {
    /// None: frames are never marked (SW-035, the default of the AFH formats).
    None,
    /// The IPv4 or IPv6 header.
    Ip,
    /// Bits 1:0 of the traffic-class byte (DEV-07).
    Tc,
}

/// Transport header looked at to tell CNP and ACK from data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// None: every frame is data.
    None,
    /// InfiniBand BTH, 12 bytes: opcode 0x81 CNP, 0x11 ACK.
    Bth,
    /// RC Link RH, 8 bytes, bit 63 first: bits 63:62 are 1 ACK/NAK, 2 CNP.
    RcLink,
}

impl Transport {
    /// Bytes of the header.
    pub(super) fn header_len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Bth => 12,
            Self::RcLink => 8,
        }
    }
}

/// Order of the flags and traffic-class octets in AFH_GEN2_16b and AFH_Lite (gap 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Variant {
    /// Flags in byte 0, traffic class in byte 6.
    #[default]
    Public,
    /// Traffic class in byte 0, flags in byte 6.
    RcLink,
}

/// A frame format, unchecked. [`super::Profile::new`] checks it and makes it fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatSpec {
    /// Key space 1..7 of its addresses in the FDB, see [`key_space`].
    pub key_space: u8,
    /// Bytes up to the payload of an untagged frame: 12 to 16.
    pub header_len: u16,
    /// Destination bits that make the FDB key, at most 48.
    pub dst: Field,
    /// Source bits that make the FDB key: as many as of the destination, or nothing would match.
    pub src: Field,
    /// The bit that says the destination is a group.
    pub dst_group: Option<u16>,
    /// The bit that says the source is a group, where the format has one: such frames are dropped.
    pub src_group: Option<u16>,
    /// AFH flags octet (W V - - Z Y X M): not interpreted beyond the group bit M.
    pub flags: Option<Field>,
    /// Traffic-class octet.
    pub tc: Option<Field>,
    /// First bit of the EtherType, the last two bytes of the header; `None` for AFH_Lite.
    pub ethertype_off: Option<u16>,
    /// VLAN tags are looked for.
    pub vlan: bool,
    /// IPv4 and IPv6 headers are looked at.
    pub ip: bool,
    /// Where an ECN mark goes.
    pub ecn: EcnSource,
    /// Transport header behind UDP (`ip`) or behind the EtherType (not `ip`).
    pub transport: Transport,
    /// UDP destination port in front of the transport header (DEV-05, DEV-06).
    pub udp_port: u16,
    /// EtherType in front of the transport header where there is no IP (TYPE1).
    pub type1_ethertype: u16,
    /// Source addresses are learned.
    pub learning: bool,
    /// Trust order where the port has none of its own.
    pub trust: Trust,
}

impl FormatSpec {
    /// Ethernet with VLAN, IP, UDP and BTH or RC Link RH.
    pub fn standard() -> Self {
        Self {
            key_space: key_space::STANDARD,
            header_len: 14,
            dst: Field::new(0, 48),
            src: Field::new(48, 48),
            dst_group: Some(7),
            src_group: Some(55),
            flags: None,
            tc: None,
            ethertype_off: Some(96),
            vlan: true,
            ip: true,
            ecn: EcnSource::Ip,
            transport: Transport::Bth,
            udp_port: 4791,
            type1_ethertype: 0x88b5,
            learning: true,
            trust: default_trust(),
        }
    }

    /// AFH_GEN1: MAC shape with the traffic class in the top byte of the source (DEV-01).
    pub fn afh_gen1() -> Self {
        Self {
            key_space: key_space::AFH_GEN1,
            dst: Field::new(8, 40),
            src: Field::new(56, 40),
            src_group: None,
            tc: Some(Field::new(48, 8)),
            ip: false,
            ecn: EcnSource::None,
            transport: Transport::RcLink,
            learning: false,
            trust: vec![TrustSource::Pcp, TrustSource::Tc, TrustSource::Port],
            ..Self::standard()
        }
    }

    /// AFH_GEN2_16b: 16-bit stations, flags and traffic class in the two top bytes.
    pub fn afh_gen2_16b(variant: Variant) -> Self {
        let (flags, tc) = match variant {
            Variant::Public => (0, 48),
            Variant::RcLink => (48, 0),
        };
        Self {
            key_space: key_space::AFH_GEN2_16B,
            dst: Field::new(32, 16),
            src: Field::new(80, 16),
            dst_group: Some(flags + 7),
            flags: Some(Field::new(flags, 8)),
            tc: Some(Field::new(tc, 8)),
            ..Self::afh_gen1()
        }
    }

    /// AFH_Lite: GEN2 addresses, no EtherType, no VLAN, no reliability header (SW-014, DEV-02).
    pub fn afh_lite(variant: Variant) -> Self {
        Self {
            key_space: key_space::AFH_LITE,
            header_len: 12,
            ethertype_off: None,
            vlan: false,
            transport: Transport::None,
            trust: vec![TrustSource::Tc, TrustSource::Port],
            ..Self::afh_gen2_16b(variant)
        }
    }

    /// Checks that the parts fit the header and each other.
    ///
    /// # Errors
    /// The first rule broken, with the numbers that clash.
    pub fn check(&self) -> Result<(), FormatError> {
        use FormatError as E;
        if !(1..=7).contains(&self.key_space) {
            return Err(E::KeySpace(self.key_space));
        }
        if !(12..=16).contains(&self.header_len) {
            return Err(E::HeaderLen(self.header_len));
        }
        let bits = u32::from(self.header_len) * 8;
        let ethertype = self.ethertype_off.map(|off| Field::new(off, 16));
        let fields = [
            ("dst", Some(self.dst)),
            ("src", Some(self.src)),
            ("flags", self.flags),
            ("tc", self.tc),
            ("ethertype", ethertype),
            ("dst_group", self.dst_group.map(|off| Field::new(off, 1))),
            ("src_group", self.src_group.map(|off| Field::new(off, 1))),
        ];
        let fields = || fields.iter().filter_map(|&(name, f)| f.map(|f| (name, f)));
        for (name, f) in fields() {
            if f.len == 0 {
                return Err(E::Empty(name));
            }
            if f.end() > bits {
                return Err(E::OutsideHeader { name, end: f.end(), bits });
            }
        }
        for (name, f) in [("dst", self.dst), ("src", self.src)] {
            if f.len > 48 {
                return Err(E::KeyTooWide { name, len: f.len });
            }
        }
        if self.dst.len != self.src.len {
            return Err(E::KeyWidths { dst: self.dst.len, src: self.src.len });
        }
        // The key has the group bit at bit 40: an address that reaches there must have its own there.
        if let Some(off) = self.dst_group
            && self.dst.len > 40
            && u32::from(off) + 41 != self.dst.end()
        {
            return Err(E::GroupBit { off, len: self.dst.len });
        }
        // A group bit belongs to an address or to the flags; every other overlap is a mistake.
        let at_home = |group: &str, owner: &str| match group {
            "dst_group" => matches!(owner, "dst" | "flags"),
            "src_group" => matches!(owner, "src" | "flags"),
            _ => false,
        };
        for (i, (a, f)) in fields().enumerate() {
            for (b, g) in fields().skip(i + 1) {
                if f.overlaps(g) && !at_home(b, a) {
                    return Err(E::Overlap { a, b });
                }
            }
        }
        if let Some(off) = self.ethertype_off
            && u32::from(off) + 16 != bits
        {
            return Err(E::EtherTypeNotLast { off, bits });
        }
        if let Some(tc) = self.tc
            && (tc.len != 8 || tc.off % 8 != 0)
        {
            return Err(E::TcNotOctet { off: tc.off, len: tc.len });
        }
        if self.ethertype_off.is_none() {
            for (what, on) in
                [("vlan", self.vlan), ("ip", self.ip), ("transport", self.transport != Transport::None)]
            {
                if on {
                    return Err(E::NeedsEtherType(what));
                }
            }
        }
        match self.ecn {
            EcnSource::Ip if !self.ip => Err(E::EcnWithoutHeader("ipv4", "ip = true")),
            EcnSource::Tc if self.tc.is_none() => Err(E::EcnWithoutHeader("tc", "a tc field")),
            _ => Ok(()),
        }
    }
}

/// Why a format was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Key space outside 1..7.
    #[error("key_space = {0}, but it must be 1 to 7")]
    KeySpace(u8),
    /// Header shorter than two addresses or longer than the parser reads.
    #[error("header_len = {0} bytes, but it must be 12 to 16")]
    HeaderLen(u16),
    /// A field without bits.
    #[error("{0} has no bits: its len must be at least 1")]
    Empty(&'static str),
    /// A field reaches beyond the header.
    #[error("{name} ends at bit {end}, but the header has only {bits} bits: move it or raise header_len")]
    OutsideHeader {
        /// The field.
        name: &'static str,
        /// First bit behind it.
        end: u32,
        /// Bits of the header.
        bits: u32,
    },
    /// An address of more bits than a key holds.
    #[error("{name} has {len} bits, but a key holds at most 48")]
    KeyTooWide {
        /// The field.
        name: &'static str,
        /// Its bits.
        len: u16,
    },
    /// Source and destination keys could never be equal.
    #[error("dst has {dst} bits and src {src}: a learned station would never be found again (DEV-01)")]
    KeyWidths {
        /// Bits of the destination.
        dst: u16,
        /// Bits of the source.
        src: u16,
    },
    /// A long address whose bit 40 is not the group bit: two stations could share a key.
    #[error("dst has {len} bits and its group bit at bit {off}, but above 40 bits bit 40 must be it")]
    GroupBit {
        /// The group bit.
        off: u16,
        /// Bits of the destination.
        len: u16,
    },
    /// Two fields claim the same bits.
    #[error("{a} and {b} share bits")]
    Overlap {
        /// One field.
        a: &'static str,
        /// The other.
        b: &'static str,
    },
    /// VLAN tags and payload start at the EtherType, so it must end the header.
    #[error("the EtherType at bit {off} does not end the header of {bits} bits")]
    EtherTypeNotLast {
        /// First bit of the EtherType.
        off: u16,
        /// Bits of the header.
        bits: u32,
    },
    /// The traffic class is written when a frame is marked, so it must be one whole byte.
    #[error("tc is {len} bits from bit {off}, but it must be one whole byte")]
    TcNotOctet {
        /// First bit.
        off: u16,
        /// Bits.
        len: u16,
    },
    /// Something that is found by EtherType in a format without one.
    #[error("{0} needs an EtherType, and this format has none (DEV-02)")]
    NeedsEtherType(&'static str),
    /// ECN in a header that the format does not have.
    #[error("ecn = \"{0}\" needs {1}")]
    EcnWithoutHeader(&'static str, &'static str),
}
