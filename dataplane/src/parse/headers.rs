//! VLAN tags, IP and transport headers, one function each.

use super::{EcnField, EcnPlace, Kind, Transport};

pub(super) const MAC_CONTROL: u16 = 0x8808;
pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// Tags that may stand in front of the EtherType: 802.1Q, 802.1ad, and the older QinQ value.
#[inline(always)]
pub fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100)
}

/// Most tags looked through; what follows a further one is opaque payload.
const MAX_TAGS: usize = 2;

#[inline(always)]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|&b| u16::from_be_bytes(b))
}

/// What stands between the addresses and the payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tags {
    /// PCP of the outermost tag.
    pub pcp: Option<u8>,
    /// VLAN id of the outermost tag, 0 without one.
    pub vid: u16,
    /// The first EtherType that is no tag (or the third tag).
    pub ethertype: u16,
    /// Where the payload starts.
    pub payload: usize,
}

/// Reads the EtherType at `at` and the tags in front of it. `None`: the frame ends inside a tag.
#[inline(always)]
pub(super) fn tags(bytes: &[u8], at: usize, allowed: bool) -> Option<Tags> {
    let mut tags = Tags { pcp: None, vid: 0, ethertype: be16(bytes, at)?, payload: at + 2 };
    for _ in 0..MAX_TAGS {
        if !(allowed && is_tag(tags.ethertype)) {
            break;
        }
        let tci = be16(bytes, tags.payload)?;
        tags.ethertype = be16(bytes, tags.payload + 2)?;
        tags.payload += 4;
        if tags.pcp.is_none() {
            tags.pcp = Some((tci >> 13) as u8);
            tags.vid = tci & 0xfff;
        }
    }
    Some(tags)
}

/// What an IP header said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ip {
    pub dscp: u8,
    pub ecn: EcnField,
    /// The UDP header, if one follows: position and bytes left in the datagram from there.
    pub udp: Option<(usize, usize)>,
}

/// Reads an IP header at `at` of a frame of `len` bytes. `Ok(None)`: no IP. `Err`: malformed.
#[inline(always)]
pub(super) fn ip(bytes: &[u8], len: usize, ethertype: u16, at: usize) -> Result<Option<Ip>, Malformed> {
    match ethertype {
        IPV4 => ipv4(bytes, len, at).map(Some).ok_or(Malformed),
        IPV6 => ipv6(bytes, len, at).map(Some).ok_or(Malformed),
        _ => Ok(None),
    }
}

/// Who an IP packet is from and for, and where what it carries begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoints {
    /// Source and destination; those of IPv4 are the low 32 bits.
    pub ends: [u128; 2],
    pub protocol: u8,
    /// Where the header ends, and where the packet does, as it states.
    pub behind: usize,
    pub end: usize,
    /// IPv4: fragment offset, and in bit 13 whether more fragments follow.
    pub fragment: u16,
}

impl Endpoints {
    /// What stands behind the header is no transport header, but the rest of a fragmented packet.
    pub fn is_later_fragment(&self) -> bool {
        self.fragment & 0x1fff != 0
    }
}

/// Reads those of an IP header at `at`, whatever the lengths it states. `None`: it is none, or not all of it is there.
#[inline]
pub(super) fn endpoints(bytes: &[u8], ethertype: u16, at: usize) -> Option<Endpoints> {
    match ethertype {
        IPV4 => {
            let head = bytes.get(at..)?.first_chunk::<20>()?;
            let header = usize::from(head[0] & 15) * 4;
            if head[0] >> 4 != 4 || header < 20 {
                return None;
            }
            let address =
                |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            Some(Endpoints {
                ends: [12, 16].map(|at| address(at).into()),
                protocol: head[9],
                behind: at + header,
                end: at + usize::from(u16::from_be_bytes([head[2], head[3]])),
                fragment: u16::from_be_bytes([head[6], head[7]]) & 0x3fff,
            })
        }
        IPV6 => {
            let head = bytes.get(at..)?.first_chunk::<40>()?;
            let address = |at: usize| head.get(at..)?.first_chunk().map(|bytes| u128::from_be_bytes(*bytes));
            if head[0] >> 4 != 6 {
                return None;
            }
            Some(Endpoints {
                ends: [address(8)?, address(24)?],
                protocol: head[6],
                behind: at + 40,
                end: at + 40 + usize::from(u16::from_be_bytes([head[4], head[5]])),
                fragment: 0,
            })
        }
        _ => None,
    }
}

/// A header whose own fields, or the frame around it, contradict it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Malformed;

/// RFC 791: version 4, IHL at least 5, total length between header and frame.
#[inline(always)]
fn ipv4(bytes: &[u8], len: usize, at: usize) -> Option<Ip> {
    let head = bytes.get(at..)?.first_chunk::<20>()?;
    let header = usize::from(head[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let fits = head[0] >> 4 == 4 && header >= 20 && total >= header && total <= len.saturating_sub(at);
    if !fits || bytes.len() < at + header {
        return None;
    }
    let fragment_offset = u16::from_be_bytes([head[6], head[7]]) & 0x1fff;
    let udp = (head[9] == UDP && fragment_offset == 0).then_some((at + header, total - header));
    Some(Ip { dscp: head[1] >> 2, ecn: ecn_field(EcnPlace::Ipv4(at as u8), head[1]), udp })
}

/// RFC 8200: version 6, payload inside the frame. Only UDP directly behind the header is looked at.
#[inline(always)]
fn ipv6(bytes: &[u8], len: usize, at: usize) -> Option<Ip> {
    let head = bytes.get(at..)?.first_chunk::<40>()?;
    let payload = usize::from(u16::from_be_bytes([head[4], head[5]]));
    if head[0] >> 4 != 6 || 40 + payload > len.saturating_sub(at) {
        return None;
    }
    let class = head[0] << 4 | head[1] >> 4;
    let udp = (head[6] == UDP).then_some((at + 40, payload));
    Some(Ip { dscp: class >> 2, ecn: ecn_field(EcnPlace::Ipv6(at as u8), class), udp })
}

#[inline(always)]
fn ecn_field(place: EcnPlace, class: u8) -> EcnField {
    EcnField { place, codepoint: class & 3 }
}

/// How a transport header's first byte tells control from data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opcodes {
    mask: u8,
    pub cnp: u8,
    pub ack: u8,
    /// Bytes of the transport header.
    pub header_len: usize,
}

impl Opcodes {
    pub(super) fn of(transport: Transport) -> Self {
        let (mask, cnp, ack) = match transport {
            // No masked byte equals these: everything is data.
            Transport::None => (0, 1, 1),
            Transport::Bth => (0xff, 0x81, 0x11),
            Transport::RcLink => (0xc0, 0x80, 0x40),
        };
        Self { mask, cnp, ack, header_len: transport.header_len() }
    }

    #[inline(always)]
    pub(super) fn is_cnp(self, first_byte: u8) -> bool {
        first_byte & self.mask == self.cnp
    }

    #[inline]
    pub(super) fn kind(self, first_byte: u8) -> Kind {
        let opcode = first_byte & self.mask;
        // By index, not by branch: data and control frames come in any order.
        let code = usize::from(opcode == self.cnp) | usize::from(opcode == self.ack) << 1;
        [Kind::Data, Kind::Cnp, Kind::Ack, Kind::Ack][code & 3]
    }
}
