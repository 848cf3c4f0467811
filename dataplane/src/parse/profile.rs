//! A checked format, and the one pass over a frame's headers.

use super::headers::{self, IPV4, MAC_CONTROL, Opcodes, UDP, be16};
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
struct Load {
    byte: usize,
    shift: u32,
    mask: u64,
}

impl Load {
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
    header_len: usize,
    max_frame: usize,
    space: u64,
    dst: Load,
    src: Load,
    dst_group: Option<Load>,
    src_group: Option<Load>,
    tc: Option<u8>,
    ethertype: Option<usize>,
    vlan: bool,
    ip: bool,
    ecn: EcnSource,
    opcodes: Opcodes,
    udp_port: u16,
    type1_ethertype: u16,
    /// Ethernet addresses, IP and ECN in IP: the short way applies.
    plain: bool,
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
        let bit = |off: Option<u16>| off.map(|off| load(Field::new(off, 1)));
        let standard = FormatSpec::standard();
        Ok(Self {
            header_len,
            max_frame: DEFAULT_MAX_FRAME,
            space: u64::from(spec.key_space) << SPACE_SHIFT,
            dst: load(spec.dst),
            src: load(spec.src),
            dst_group: bit(spec.dst_group),
            src_group: bit(spec.src_group),
            tc: spec.tc.map(|tc| (tc.off / 8) as u8),
            ethertype: spec.ethertype_off.map(|off| usize::from(off / 8)),
            vlan: spec.vlan,
            ip: spec.ip,
            ecn: spec.ecn,
            opcodes: Opcodes::of(spec.transport),
            udp_port: spec.udp_port,
            type1_ethertype: spec.type1_ethertype,
            plain: FormatSpec {
                key_space: standard.key_space,
                transport: standard.transport,
                udp_port: standard.udp_port,
                type1_ethertype: standard.type1_ethertype,
                learning: standard.learning,
                vlan: standard.vlan,
                trust: standard.trust.clone(),
                ..spec.clone()
            } == standard,
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

    /// FDB key of a configured address. Of `address` the format's address bits count, and bit 40 as
    /// the group bit: a MAC address as a number (GEN1: its top byte only for the group bit), or a
    /// 16-bit station number, plus [`super::GROUP_BIT`] for a group.
    pub fn key(&self, address: u64, vid: u16) -> u64 {
        self.space | u64::from(vid & 0xfff) << VID_SHIFT | address & (self.dst.mask | GROUP_BIT)
    }

    /// Reads the headers of a frame of `len` bytes of which `bytes` can be read.
    ///
    /// # Errors
    /// The reason to drop the frame; a frame that only has a bad IP header is not dropped.
    #[inline]
    pub fn parse(&self, bytes: &[u8], len: usize) -> ParseResult {
        if self.plain
            && let Some(head) = bytes.first_chunk()
            && let Some(parsed) = self.plain_ipv4(head, len)
        {
            return Ok(parsed);
        }
        self.parse_any(bytes, len)
    }

    /// The common frame: untagged, IPv4 without options, nothing odd. `None` sends it the long way.
    #[inline(always)]
    fn plain_ipv4(&self, head: &[u8; 43], len: usize) -> Option<Parsed> {
        let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| head[at + i]));
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let (dst, src) = (word(0) >> 16, word(6) >> 16);
        let total = usize::from(half(16));
        let udp = head[23] == UDP;
        let shortest = if udp { 28 } else { 20 };
        // One branch for everything unusual: the operators do not short-circuit.
        let odd = (dst >> 4 == RESERVED_PREFIX)
            | (src & GROUP_BIT != 0)
            | (half(12) != IPV4)
            | (head[14] != 0x45)
            | (half(20) & 0x1fff != 0)
            | (total < shortest)
            | (total + 14 > len)
            | (len > self.max_frame);
        if odd {
            return None;
        }
        let mut kind = Kind::Data;
        if udp & (half(36) == self.udp_port) {
            if total < 28 + self.opcodes.header_len {
                return None;
            }
            kind = self.opcodes.kind(head[42]);
        }
        Some(Parsed {
            dst_key: dst | self.space,
            src_key: src | self.space,
            group: dst & GROUP_BIT != 0,
            pcp: None,
            dscp: Some(head[15] >> 2),
            tc: None,
            ecn: EcnField { place: EcnPlace::Ipv4(14), codepoint: head[15] & 3 },
            kind,
            malformed_l3: false,
        })
    }

    /// Every format, every frame.
    #[inline(never)]
    fn parse_any(&self, bytes: &[u8], len: usize) -> ParseResult {
        if bytes.len() < self.header_len {
            return Err(DropReason::ParseTooShort);
        }
        // Before any profile (DEV-02): link-local frames look the same on every port.
        let address = Load { byte: 0, shift: 16, mask: ADDRESS_MASK }.get(bytes);
        if address >> 4 == RESERVED_PREFIX {
            let ethertype = headers::tags(bytes, 12, true).map(|tags| tags.ethertype);
            let kind = if ethertype == Some(MAC_CONTROL) { Kind::MacControl } else { Kind::Reserved };
            return Ok(self.link_local(address, kind));
        }
        if len > self.max_frame {
            return Err(DropReason::ParseTooLong);
        }
        let tags = match self.ethertype {
            Some(at) => Some(headers::tags(bytes, at, self.vlan).ok_or(DropReason::ParseTruncatedVlan)?),
            None => None,
        };
        // 802.3 clause 31: nothing of this type passes the MAC control sublayer, whatever its address.
        if tags.is_some_and(|tags| tags.ethertype == MAC_CONTROL) {
            return Ok(self.link_local(address, Kind::MacControl));
        }
        if self.src_group.is_some_and(|bit| bit.get(bytes) != 0) {
            return Err(DropReason::ParseGroupSource);
        }
        let tc = self.tc.and_then(|at| bytes.get(usize::from(at)).copied());
        let ecn = match (self.ecn, self.tc, tc) {
            (EcnSource::Tc, Some(at), Some(tc)) => EcnField { place: EcnPlace::Tc(at), codepoint: tc & 3 },
            _ => NO_ECN,
        };
        let group = self.dst_group.is_some_and(|bit| bit.get(bytes) != 0);
        let space = self.space | u64::from(tags.map_or(0, |tags| tags.vid)) << VID_SHIFT;
        let mut parsed = Parsed {
            dst_key: space | self.dst.get(bytes) | if group { GROUP_BIT } else { 0 },
            src_key: space | self.src.get(bytes),
            group,
            pcp: tags.and_then(|tags| tags.pcp),
            dscp: None,
            tc,
            ecn,
            kind: Kind::Data,
            malformed_l3: false,
        };
        if let Some(tags) = tags {
            self.upper_layers(&mut parsed, bytes, len, tags);
        }
        Ok(parsed)
    }

    /// IP and transport, or the transport alone.
    fn upper_layers(&self, parsed: &mut Parsed, bytes: &[u8], len: usize, tags: headers::Tags) {
        let transport = if self.ip {
            match headers::ip(bytes, len, tags.ethertype, tags.payload) {
                Err(headers::Malformed) => {
                    parsed.malformed_l3 = true;
                    return;
                }
                Ok(None) => return,
                Ok(Some(ip)) => {
                    parsed.dscp = Some(ip.dscp);
                    if self.ecn == EcnSource::Ip {
                        parsed.ecn = ip.ecn;
                    }
                    let Some((at, left)) = ip.udp else { return };
                    let port = be16(bytes, at + 2).filter(|_| left >= 8);
                    parsed.malformed_l3 = port.is_none();
                    if port != Some(self.udp_port) {
                        return;
                    }
                    (at + 8, left - 8)
                }
            }
        } else if tags.ethertype == self.type1_ethertype {
            (tags.payload, len.saturating_sub(tags.payload))
        } else {
            return;
        };
        let (at, left) = transport;
        match bytes.get(at) {
            Some(&first) if left >= self.opcodes.header_len => parsed.kind = self.opcodes.kind(first),
            _ => parsed.malformed_l3 = self.opcodes.header_len > 0,
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
