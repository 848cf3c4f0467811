//! A checked format, and the one pass over a frame's headers.

use super::headers::{self, MAC_CONTROL, Opcodes, UDP, be16};
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

/// EtherType IPv4, then version 4 and five words of header, then any ToS.
const PLAIN_IPV4: u32 = 0x0800_4500;

const NO_ECN: EcnField = EcnField { place: EcnPlace::None, codepoint: 0 };

/// The bytes that the short way looks at, at most.
pub type Head = [u8; 47];

/// The first 16 bytes of a frame: both addresses, EtherType, IP version and ToS of an untagged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKey([u64; 2]);

impl FlowKey {
    /// Of no unicast frame.
    pub const NONE: Self = Self([u64::MAX; 2]);

    /// The key of a frame that starts like this.
    #[inline(always)]
    pub fn of(head: &Head) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        Self([word(0), word(8)])
    }

    /// Both MAC addresses, destination first.
    pub fn addresses(&self) -> [u64; 2] {
        let [first, second] = self.0.map(u64::swap_bytes);
        [first >> 16, (first & 0xffff) << 32 | second >> 32]
    }

    /// Its high bits depend on all bits of the key.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        (self.0[0] ^ self.0[1].rotate_left(28)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

#[inline(always)]
fn half(head: &Head, at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

#[inline(always)]
fn quad(head: &Head, at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

/// The 48 bits from byte `at`.
#[inline(always)]
fn address(head: &Head, at: usize) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|i| head[at + i])) >> 16
}

/// A field as one eight-byte load inside the header, a shift and a mask.
#[derive(Clone, Copy, Debug)]
struct Load {
    byte: usize,
    shift: u32,
    mask: u64,
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
    header_len: usize,
    max_frame: usize,
    space: u64,
    dst: Load,
    src: Load,
    /// One bit, or none (mask 0) where the format has no group addresses.
    dst_group: Load,
    src_group: Load,
    tc: Option<u8>,
    ethertype: Option<usize>,
    vlan: bool,
    ip: bool,
    ecn: EcnSource,
    opcodes: Opcodes,
    udp_port: u16,
    type1_ethertype: u16,
    /// Ethernet addresses, VLAN tags, IP and ECN in IP: the short way applies.
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
        let bit = |off: Option<u16>| off.map_or(Load::NOTHING, |off| load(Field::new(off, 1)));
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

    /// Longest frame accepted, in bytes without FCS.
    pub fn max_frame(&self) -> usize {
        self.max_frame
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
    pub fn parse(&self, bytes: &[u8], len: usize) -> ParseResult {
        if let Some(parsed) = self.glance(bytes, len) {
            return Ok(parsed);
        }
        if let Some(head) = bytes.first_chunk() {
            let parsed = if !self.plain {
                self.plain_afh(head, len)
            } else if half(head, 12) == 0x8100 && quad(head, 16) & !0xff == PLAIN_IPV4 {
                self.plain_ipv4::<4>(head, len)
            } else {
                None
            };
            if let Some(parsed) = parsed {
                return Ok(parsed);
            }
        }
        self.parse_any(bytes, len)
    }

    /// [`Profile::parse`] for the most common frame of all, untagged IPv4 unicast in which nothing is odd.
    /// `None`: read it the long way. Inlined into its caller, it leaves no result in memory.
    #[inline(always)]
    pub fn glance(&self, bytes: &[u8], len: usize) -> Option<Parsed> {
        let head = bytes.first_chunk()?;
        let plain = self.plain & (quad(head, 12) & !0xff == PLAIN_IPV4);
        if plain { self.plain_ipv4::<0>(head, len) } else { None }
    }

    /// Beyond its [`FlowKey`] nothing about this frame matters: plain untagged IPv4 in which nothing is
    /// odd and that is no CNP, *if* the key is one of a frame [`Profile::glance`] has read.
    #[inline(always)]
    pub fn is_ordinary(&self, head: &Head, len: usize) -> bool {
        const IP: usize = 14;
        // Total length, identification, fragment offset, TTL, protocol.
        let word = u64::from_be_bytes(std::array::from_fn(|i| head[IP + 2 + i]));
        let (total, fields) = ((word >> 48) as usize, word as u32 & 0x1fff_00ff);
        if total + IP > len || len > self.max_frame {
            return false;
        }
        if fields != u32::from(UDP) {
            return total >= 20 && fields & !0xff == 0;
        }
        if half(head, IP + 22) != self.udp_port {
            return total >= 28;
        }
        total >= 28 + self.opcodes.header_len && !self.opcodes.is_cnp(head[IP + 28])
    }

    /// The common frame: IPv4 without options behind `TAG` bytes of 802.1Q tag (0 or 4), nothing odd.
    /// `None` sends it the long way. The caller has seen the EtherType, the version and the IHL.
    #[inline(always)]
    fn plain_ipv4<const TAG: usize>(&self, head: &Head, len: usize) -> Option<Parsed> {
        let ip = 14 + TAG;
        let total = usize::from(half(head, ip + 2));
        // Group addresses, the reserved ones among them, take the long way: they are copied anyway.
        let odd = (head[0] | head[6]) & 1 != 0
            || half(head, ip + 6) & 0x1fff != 0
            || total + ip > len
            || len > self.max_frame;
        if odd {
            return None;
        }
        let mut kind = Kind::Data;
        let shortest = if head[ip + 9] != UDP {
            20
        } else if half(head, ip + 22) != self.udp_port {
            28
        } else {
            kind = self.opcodes.kind(head[ip + 28]);
            28 + self.opcodes.header_len
        };
        if total < shortest {
            return None;
        }
        let tci = if TAG == 0 { 0 } else { half(head, 14) };
        let space = self.space | u64::from(tci & 0xfff) << VID_SHIFT;
        let (dst, src) = (address(head, 0), address(head, 6));
        let tos = head[ip + 1];
        Some(Parsed {
            dst_key: dst | space,
            src_key: src | space,
            group: false,
            pcp: (TAG != 0).then_some((tci >> 13) as u8),
            dscp: Some(tos >> 2),
            tc: None,
            ecn: EcnField { place: EcnPlace::Ipv4(ip as u8), codepoint: tos & 3 },
            kind,
            malformed_l3: false,
        })
    }

    /// An untagged frame of a format without IP, nothing odd. `None` sends it the long way.
    #[inline(always)]
    fn plain_afh(&self, head: &Head, len: usize) -> Option<Parsed> {
        let ethertype = self.ethertype.and_then(|at| be16(head, at));
        let odd = self.ip
            || ethertype.is_some_and(|ethertype| headers::is_tag(ethertype) || ethertype == MAC_CONTROL)
            || quad(head, 0) == (RESERVED_PREFIX >> 12) as u32
            || self.src_group.get(head) != 0
            || len > self.max_frame;
        if odd {
            return None;
        }
        let mut parsed = self.addresses(head, None, 0);
        if ethertype == Some(self.type1_ethertype) {
            parsed.kind = self.opcodes.kind(*head.get(self.header_len)?);
        }
        Some(parsed)
    }

    /// What the format's own fields say.
    #[inline(always)]
    fn addresses(&self, bytes: &[u8], pcp: Option<u8>, vid: u16) -> Parsed {
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

    /// Every format, every frame.
    #[inline(never)]
    pub(super) fn parse_any(&self, bytes: &[u8], len: usize) -> ParseResult {
        if bytes.len() < self.header_len {
            return Err(DropReason::ParseTooShort);
        }
        // Before any profile (DEV-02): link-local frames look the same on every port.
        let address = Load { byte: 0, shift: 16, mask: ADDRESS_MASK }.get(bytes);
        if address >> 4 == RESERVED_PREFIX {
            let ethertype = headers::tags(bytes, 12, true).map(|tags| tags.ethertype);
            let kind = if ethertype == Some(MAC_CONTROL) { Kind::MacControl } else { Kind::Reserved };
            // It may be passed on.
            if kind == Kind::Reserved && len > self.max_frame {
                return Err(DropReason::ParseTooLong);
            }
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
        if self.src_group.get(bytes) != 0 {
            return Err(DropReason::ParseGroupSource);
        }
        let (pcp, vid) = tags.map_or((None, 0), |tags| (tags.pcp, tags.vid));
        let mut parsed = self.addresses(bytes, pcp, vid);
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
