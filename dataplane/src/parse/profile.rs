//! A checked format, and the one pass over a frame's headers.

use super::flow_key::{NOT_PLAIN, PLAIN_IPV4, PLAIN_IPV6, PLAIN_TAG};
use super::headers::{self, MAC_CONTROL, Opcodes, be16};
use super::key::{ADDRESS_MASK, GROUP_BIT, SPACE_SHIFT, VID_SHIFT};
use super::{
    EcnField, EcnPlace, EcnSource, Field, FormatError, FormatSpec, Kind, ParseResult, Parsed, Transport,
    Variant,
};
use crate::classify::TrustSource;
use crate::drops::DropReason;

/// Reserved group addresses 01-80-C2-00-00-00 to -0F, without their last four bits (802.1Q table 8-1).
const RESERVED_PREFIX: u64 = 0x0180_c200_0000 >> 4;

/// Longest frame accepted where the port says nothing, without FCS (DEV-04).
pub const DEFAULT_MAX_FRAME: usize = 9216;

const NO_ECN: EcnField = EcnField { place: EcnPlace::None, codepoint: 0 };

/// A field as one eight-byte load inside the header, a shift and a mask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub byte: usize,
    pub shift: u32,
    pub mask: u64,
}

impl Load {
    /// Reads 0.
    const NOTHING: Self = Self { byte: 0, shift: 0, mask: 0 };

    /// `field` is inside a header of `header_len` bytes and has at most 48 bits.
    fn new(field: Field, header_len: usize) -> Self {
        let byte = usize::from(field.off / 8).min(header_len - 8);
        let shift = (byte * 8 + 64) as u32 - u32::from(field.off + field.len);
        Self { byte, shift, mask: (1 << field.len) - 1 }
    }

    #[inline]
    fn get(self, bytes: &[u8]) -> u64 {
        let word = bytes.get(self.byte..).and_then(|b| b.first_chunk());
        word.map_or(0, |&w| u64::from_be_bytes(w) >> self.shift & self.mask)
    }
}

/// The format of a port, ready to parse with. One per port: it also knows the port's longest frame.
#[derive(Clone, Debug)]
pub struct Profile {
    pub(super) header_len: usize,
    pub(super) max_frame: usize,
    space: u64,
    pub(super) dst: Load,
    pub(super) src: Load,
    /// One bit, or none (mask 0) where the format has no group addresses.
    pub(super) dst_group: Load,
    src_group: Load,
    /// That of the source, in the first 16 bytes of a frame as two little-endian words.
    pub(super) src_group_bits: [u64; 2],
    pub(super) tc: Option<u8>,
    pub(super) ethertype: Option<usize>,
    pub(super) vlan: bool,
    pub(super) ip: bool,
    pub(super) ecn: EcnSource,
    pub(super) opcodes: Opcodes,
    pub(super) transport: Transport,
    pub(super) udp_port: u16,
    pub(super) type1_ethertype: u16,
    /// What the usual frame of the standard format has behind its addresses; in other formats what none has.
    pub(super) plain_start: u32,
    /// The same of its 802.1Q tag.
    pub(super) plain_tag: u32,
    /// The same of IPv6.
    pub(super) plain_ipv6: u32,
    /// EtherType of TYPE1, as a frame has it, in a format without IP; else what none has.
    pub(super) plain_type1: u32,
    learning: bool,
    trust: Vec<TrustSource>,
}

impl Profile {
    /// Checks a format and prepares it.
    ///
    /// # Errors
    /// See [`FormatSpec::check`].
    pub fn new(spec: &FormatSpec) -> Result<Self, FormatError> {
        spec.check()?;
        let header_len = usize::from(spec.header_len);
        let load = |field| Load::new(field, header_len);
        let bit = |off: Option<u16>| off.map_or(Load::NOTHING, |off| load(Field::new(off, 1)));
        let mut src_group_bits = [0; 2];
        if let Some(off) = spec.src_group.map(usize::from) {
            src_group_bits[off / 64] |= 1 << (off % 64 / 8 * 8 + 7 - off % 8);
        }
        let standard = FormatSpec::standard();
        let is_standard = spec.ip
            && (spec.header_len, spec.ethertype_off) == (standard.header_len, standard.ethertype_off)
            && (spec.dst_group, spec.src_group) == (standard.dst_group, standard.src_group);
        let is_type1 = !spec.ip
            && (spec.header_len, spec.ethertype_off) == (standard.header_len, standard.ethertype_off)
            && spec.src_group.is_none()
            && spec.type1_ethertype != MAC_CONTROL
            && !headers::is_tag(spec.type1_ethertype);
        Ok(Self {
            header_len,
            max_frame: DEFAULT_MAX_FRAME,
            space: u64::from(spec.key_space) << SPACE_SHIFT,
            dst: load(spec.dst),
            src: load(spec.src),
            dst_group: bit(spec.dst_group),
            src_group: bit(spec.src_group),
            src_group_bits,
            tc: spec.tc.map(|tc| (tc.off / 8) as u8),
            ethertype: spec.ethertype_off.map(|off| usize::from(off / 8)),
            vlan: spec.vlan,
            ip: spec.ip,
            ecn: spec.ecn,
            opcodes: Opcodes::of(spec.transport),
            transport: spec.transport,
            udp_port: spec.udp_port,
            type1_ethertype: spec.type1_ethertype,
            plain_start: if is_standard { PLAIN_IPV4 } else { NOT_PLAIN },
            plain_tag: if is_standard && spec.vlan { PLAIN_TAG } else { NOT_PLAIN },
            plain_ipv6: if is_standard { PLAIN_IPV6 } else { NOT_PLAIN },
            plain_type1: if is_type1 { spec.type1_ethertype.swap_bytes().into() } else { NOT_PLAIN },
            learning: spec.learning,
            trust: spec.trust.clone(),
        })
    }

    fn built_in(spec: &FormatSpec) -> Self {
        Self::new(spec).expect("a built-in format passes its own checks")
    }

    /// Ethernet, IP, UDP 4791 and BTH.
    pub fn standard() -> Self {
        Self::built_in(&FormatSpec::standard())
    }

    /// Ethernet, IP, UDP 4791 and RC Link RH instead of a BTH (DEV-06).
    pub fn standard_rclink() -> Self {
        Self::built_in(&FormatSpec { transport: Transport::RcLink, ..FormatSpec::standard() })
    }

    /// AFH_GEN1.
    pub fn afh_gen1() -> Self {
        Self::built_in(&FormatSpec::afh_gen1())
    }

    /// AFH_GEN2_16b in one of its two octet orders.
    pub fn afh_gen2_16b(variant: Variant) -> Self {
        Self::built_in(&FormatSpec::afh_gen2_16b(variant))
    }

    /// AFH_Lite in one of its two octet orders.
    pub fn afh_lite(variant: Variant) -> Self {
        Self::built_in(&FormatSpec::afh_lite(variant))
    }

    /// Longest frame accepted, in bytes without FCS.
    pub fn max_frame(&self) -> usize {
        self.max_frame
    }

    /// That a frame of which `readable` bytes can be read has a whole header.
    ///
    /// # Errors
    /// The reason to drop it.
    #[inline(always)]
    pub fn long_enough(&self, readable: usize) -> Result<(), DropReason> {
        if readable < self.header_len { Err(DropReason::ParseTooShort) } else { Ok(()) }
    }

    /// That a frame of `len` bytes, which is not of MAC control, is no longer than the longest.
    ///
    /// # Errors
    /// The reason to drop it.
    #[inline(always)]
    pub fn short_enough(&self, len: usize) -> Result<(), DropReason> {
        if len > self.max_frame { Err(DropReason::ParseTooLong) } else { Ok(()) }
    }

    /// The same format with another longest frame, in bytes without FCS, tags included.
    #[must_use]
    pub fn with_max_frame(mut self, bytes: usize) -> Self {
        self.max_frame = bytes;
        self
    }

    /// Whether source addresses are learned by default in this format (DEV-01: not in AFH).
    pub fn learning(&self) -> bool {
        self.learning
    }

    /// Trust order where the port has none of its own.
    pub fn trust(&self) -> &[TrustSource] {
        &self.trust
    }

    /// Key space of the format: ports whose spaces differ can not exchange frames.
    pub fn key_space(&self) -> u8 {
        (self.space >> SPACE_SHIFT) as u8
    }

    /// Where a VLAN tag stands in frames of this format, if they can have one.
    pub fn tag_at(&self) -> Option<usize> {
        self.ethertype.filter(|_| self.vlan)
    }

    /// EtherType of a frame, behind two tags at most where the format has tags. `None`: it has none, or the frame ends before it.
    pub fn ethertype_of(&self, bytes: &[u8]) -> Option<u16> {
        let tags = headers::tags(bytes, self.ethertype?, self.vlan)?;
        Some(tags.ethertype)
    }

    /// FDB key of a configured address. Of `address` the format's address bits count, and bit 40 as
    /// the group bit: a MAC address as a number (GEN1: its top byte only for the group bit), or a
    /// 16-bit station number, plus [`super::GROUP_BIT`] for a group.
    pub fn key(&self, address: u64, vid: u16) -> u64 {
        self.space | u64::from(vid & 0xfff) << VID_SHIFT | address & (self.dst.mask | GROUP_BIT)
    }

    /// Destination and source, as they are in a key.
    pub(super) fn stations(&self, bytes: &[u8]) -> [u64; 2] {
        [self.dst.get(bytes), self.src.get(bytes)]
    }

    /// What the format's own fields say.
    #[inline(always)]
    pub(super) fn addresses(&self, bytes: &[u8], pcp: Option<u8>, vid: u16) -> Parsed {
        let group = self.dst_group.get(bytes);
        let space = self.space | u64::from(vid) << VID_SHIFT;
        let tc = self.tc.and_then(|at| bytes.get(usize::from(at)).copied());
        let ecn = match (self.ecn, self.tc, tc) {
            (EcnSource::Tc, Some(at), Some(tc)) => EcnField { place: EcnPlace::Tc(at), codepoint: tc & 3 },
            _ => NO_ECN,
        };
        Parsed {
            dst_key: space | self.dst.get(bytes) | group << GROUP_BIT.trailing_zeros(),
            src_key: space | self.src.get(bytes),
            group: group != 0,
            pcp,
            dscp: None,
            tc,
            ecn,
            kind: Kind::Data,
            malformed_l3: false,
        }
    }

    /// Reads the headers of a frame of `len` bytes of which `bytes` can be read.
    ///
    /// # Errors
    /// The reason to drop the frame; a frame that only has a bad IP header is not dropped.
    #[inline(never)]
    pub fn parse(&self, bytes: &[u8], len: usize) -> ParseResult {
        self.long_enough(bytes.len())?;
        // Before any profile (DEV-02): link-local frames look the same on every port.
        let address = Load { byte: 0, shift: 16, mask: ADDRESS_MASK }.get(bytes);
        if address >> 4 == RESERVED_PREFIX {
            let tags = headers::tags(bytes, 12, true);
            if tags.is_some_and(|tags| tags.ethertype == MAC_CONTROL) {
                return Ok(self.link_local(address, Kind::MacControl));
            }
            // It may be passed on.
            self.short_enough(len)?;
            if tags.is_none() {
                let cut_in_tag = bytes.len() >= 14;
                return Err(if cut_in_tag {
                    DropReason::ParseTruncatedVlan
                } else {
                    DropReason::ParseTooShort
                });
            }
            if bytes[6] & 1 != 0 {
                return Err(DropReason::ParseGroupSource);
            }
            return Ok(self.link_local(address, Kind::Reserved));
        }
        self.short_enough(len)?;
        let tags = match self.ethertype {
            Some(at) => Some(headers::tags(bytes, at, self.vlan).ok_or(DropReason::ParseTruncatedVlan)?),
            None => None,
        };
        // 802.3 clause 31: nothing of this type passes the MAC control sublayer, whatever its address.
        if tags.is_some_and(|tags| tags.ethertype == MAC_CONTROL) {
            return Ok(self.link_local(address, Kind::MacControl));
        }
        if self.src_group.get(bytes) != 0 {
            return Err(DropReason::ParseGroupSource);
        }
        let (pcp, vid) = tags.map_or((None, 0), |tags| (tags.pcp, tags.vid));
        let mut parsed = self.addresses(bytes, pcp, vid);
        if let Some(tags) = tags {
            let upper = self.upper_layers(bytes, len, &tags);
            parsed.dscp = upper.ip.map(|ip| ip.dscp);
            if self.ecn == EcnSource::Ip {
                parsed.ecn = upper.ip.map_or(NO_ECN, |ip| ip.ecn);
            }
            (parsed.kind, parsed.malformed_l3) = (upper.kind, upper.malformed);
        }
        Ok(parsed)
    }

    /// IP and transport, or the transport alone.
    #[inline(always)]
    pub(super) fn upper_layers(&self, bytes: &[u8], len: usize, tags: &headers::Tags) -> Upper {
        let nothing = Upper { ip: None, kind: Kind::Data, malformed: false };
        let (ip, at, left) = if self.ip {
            match headers::ip(bytes, len, tags.ethertype, tags.payload) {
                Err(headers::Malformed) => return Upper { malformed: true, ..nothing },
                Ok(None) => return nothing,
                Ok(Some(ip)) => {
                    let nothing = Upper { ip: Some(ip), ..nothing };
                    let Some((at, left)) = ip.udp else { return nothing };
                    let port = be16(bytes, at + 2).filter(|_| left >= 8);
                    if port != Some(self.udp_port) {
                        return Upper { malformed: port.is_none(), ..nothing };
                    }
                    (Some(ip), at + 8, left - 8)
                }
            }
        } else if tags.ethertype == self.type1_ethertype {
            (None, tags.payload, len.saturating_sub(tags.payload))
        } else {
            return nothing;
        };
        match bytes.get(at) {
            Some(&first) if left >= self.opcodes.header_len => {
                Upper { ip, kind: self.opcodes.kind(first), malformed: false }
            }
            _ => Upper { ip, kind: Kind::Data, malformed: self.opcodes.header_len > 0 },
        }
    }

    /// A frame that ends at this port: its keys are of no use, its addresses are plain Ethernet.
    #[cold]
    fn link_local(&self, address: u64, kind: Kind) -> Parsed {
        Parsed {
            dst_key: self.space | address,
            src_key: self.space,
            group: address & GROUP_BIT != 0,
            pcp: None,
            dscp: None,
            tc: None,
            ecn: NO_ECN,
            kind,
            malformed_l3: false,
        }
    }
}

/// What stands above the header of the format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upper {
    /// The IP header, if there is a well-formed one.
    pub ip: Option<headers::Ip>,
    /// What the transport header says.
    pub kind: Kind,
    /// The IP or transport header is malformed.
    pub malformed: bool,
}
