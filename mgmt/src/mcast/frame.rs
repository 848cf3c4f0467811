//! Frames of IGMP (RFC 1112, 2236, 3376), MLD (RFC 2710, 3810) and PIM (RFC 7761): bytes in, queries out. What comes in is hostile: lengths
//! before bytes, an error for everything that is not as it should be.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_dataplane::multicast::IpVersion;
use weir_dataplane::parse::is_tag;
use weir_dataplane::types::Mac;
use weir_dataplane::vlan::TPID;

/// EtherTypes.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Protocols of IP.
const HOP_BY_HOP: u8 = 0;
const IGMP: u8 = 2;
const ICMPV6: u8 = 58;
const PIM: u8 = 103;
/// Hello, of version 2.
const PIM_HELLO: u8 = 0x20;
/// Bytes of a query of IGMPv3 and of MLDv2 without sources.
const IGMP_QUERY: usize = 12;
const MLD_QUERY: usize = 28;
/// Robustness variable that is sent: reports may be lost once.
pub(super) const ROBUSTNESS: u8 = 2;
/// Hosts that speak IGMPv1 answer within 10 s, whatever the query says.
const IGMPV1_RESPONSE_MS: u64 = 10_000;

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A router asks who has joined.
    Query {
        /// Who asks.
        source: IpAddr,
        /// Members of which group; `None`: of any.
        group: Option<IpAddr>,
        /// Only those who want one of some sources answer.
        of_sources: bool,
        /// Hosts answer within this, ms.
        response_ms: u64,
    },
    /// A host joins and leaves groups.
    Report(Vec<Record>),
    /// A router of this version of IP says that it is there.
    Hello(IpVersion),
    /// Something else that these protocols say.
    Other,
}

/// What a host says of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The group.
    pub group: IpAddr,
    /// What it wants of it.
    pub wish: Wish,
}

/// What a host wants of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It joins, or stays, whatever the sources it wants.
    Join,
    /// It leaves.
    Leave,
    /// Less than before: of whom it included sources, perhaps nothing any more.
    Less,
}

/// Why a frame is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is no packet of IP of the length that it says.
    #[error("no IP packet")]
    Ip,
    /// It ends before what it says does, or has a length that none has.
    #[error("wrong length")]
    Length,
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// It came by a router, or says that it is from elsewhere: no hop limit of 1, no address of the link, no router alert.
    #[error("not of the link")]
    NotOfLink,
    /// What should be a group is none.
    #[error("not a group")]
    NotAGroup,
}

impl Malformed {
    /// Every reason.
    pub const ALL: [Self; 5] = [Self::Ip, Self::Length, Self::Checksum, Self::NotOfLink, Self::NotAGroup];

    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Length => "length",
            Self::Checksum => "checksum",
            Self::NotOfLink => "not_of_link",
            Self::NotAGroup => "not_a_group",
        }
    }
}

/// Reads a frame, from the destination address on.
///
/// # Errors
/// [`Malformed`].
pub fn decode(frame: &[u8]) -> Result<Message, Malformed> {
    let (mut ethertype, mut at) = (be16(frame, 12).ok_or(Malformed::Ip)?, 14);
    for _ in 0..2 {
        if is_tag(ethertype) {
            ethertype = be16(frame, at + 2).ok_or(Malformed::Ip)?;
            at += 4;
        }
    }
    let packet = frame.get(at..).ok_or(Malformed::Ip)?;
    match ethertype {
        IPV4 => of_ipv4(packet),
        IPV6 => of_ipv6(packet),
        _ => Err(Malformed::Ip),
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|two| u16::from_be_bytes(*two))
}

fn v4(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    bytes.get(at..)?.first_chunk::<4>().map(|four| Ipv4Addr::from(*four))
}

fn v6(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    bytes.get(at..)?.first_chunk::<16>().map(|all| Ipv6Addr::from(*all))
}

/// Sum of the 16-bit words, for checksums (RFC 1071).
fn sum(bytes: &[u8]) -> u64 {
    let word = |two: &[u8]| u64::from(two[0]) << 8 | u64::from(two.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(word).sum()
}

fn checksum(sum: u64) -> u16 {
    let folded = (0..4).fold(sum, |sum, _| (sum & 0xffff) + (sum >> 16));
    !(folded as u16)
}

/// What is summed of the header of IPv6 (RFC 8200 8.1).
fn pseudo_header(source: Ipv6Addr, to: Ipv6Addr, protocol: u8, len: usize) -> u64 {
    sum(&source.octets()) + sum(&to.octets()) + u64::from(protocol) + len as u64
}

/// A group that a host may join.
fn group(address: IpAddr) -> Result<IpAddr, Malformed> {
    if address.is_multicast() { Ok(address) } else { Err(Malformed::NotAGroup) }
}

/// The same in a query, where no group is any.
fn asked(address: IpAddr) -> Result<Option<IpAddr>, Malformed> {
    if address.is_unspecified() { Ok(None) } else { group(address).map(Some) }
}

fn of_ipv4(packet: &[u8]) -> Result<Message, Malformed> {
    let first = *packet.first().ok_or(Malformed::Ip)?;
    let (header, total) = (usize::from(first & 15) * 4, usize::from(be16(packet, 2).ok_or(Malformed::Ip)?));
    let head = packet.get(..header).filter(|_| first >> 4 == 4 && header >= 20).ok_or(Malformed::Ip)?;
    let payload = packet.get(header..total).ok_or(Malformed::Ip)?;
    let fragment = be16(head, 6).is_none_or(|fragment| fragment & 0x3fff != 0);
    if fragment || checksum(sum(head)) != 0 {
        return Err(Malformed::Ip);
    }
    let source = v4(head, 12).ok_or(Malformed::Ip)?.into();
    match head[9] {
        // Every version is sent with a TTL of 1 (RFC 1112 appendix I, RFC 2236 2, RFC 3376 4).
        IGMP if head[8] != 1 => Err(Malformed::NotOfLink),
        IGMP => igmp(payload, source),
        PIM => pim(payload, checksum(sum(payload)), IpVersion::V4),
        _ => Ok(Message::Other),
    }
}

fn of_ipv6(packet: &[u8]) -> Result<Message, Malformed> {
    let head = packet.first_chunk::<40>().filter(|head| head[0] >> 4 == 6).ok_or(Malformed::Ip)?;
    let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let payload = packet.get(40..40 + len).ok_or(Malformed::Ip)?;
    let address = |at| v6(head, at).ok_or(Malformed::Ip);
    let (source, to) = (address(8)?, address(24)?);
    let whole =
        |protocol, bytes: &[u8]| checksum(pseudo_header(source, to, protocol, bytes.len()) + sum(bytes));
    match head[6] {
        PIM => pim(payload, whole(PIM, payload), IpVersion::V6),
        HOP_BY_HOP => {
            let options = 8 * (1 + usize::from(*payload.get(1).ok_or(Malformed::Length)?));
            let body = payload.get(options..).ok_or(Malformed::Length)?;
            if payload[0] != ICMPV6 {
                return Ok(Message::Other);
            }
            // RFC 2710 3, RFC 3810 5, RFC 3590: reports may come before a host has an address.
            let of_link = source.is_unicast_link_local() || source.is_unspecified();
            if head[7] != 1 || !of_link || !has_router_alert(&payload[2..options]) {
                return Err(Malformed::NotOfLink);
            }
            if whole(ICMPV6, body) != 0 {
                return Err(Malformed::Checksum);
            }
            mld(body, source)
        }
        _ => Ok(Message::Other),
    }
}

/// RFC 2711: an option of two bytes that says MLD.
fn has_router_alert(options: &[u8]) -> bool {
    let mut left = options;
    while let Some((kind, rest)) = left.split_first() {
        if *kind == 0 {
            left = rest;
            continue;
        }
        let Some((len, rest)) = rest.split_first() else { return false };
        let Some(data) = rest.get(..usize::from(*len)) else { return false };
        if *kind == 5 && data == [0, 0] {
            return true;
        }
        left = &rest[data.len()..];
    }
    false
}

fn pim(payload: &[u8], checksum: u16, version: IpVersion) -> Result<Message, Malformed> {
    match payload.first() {
        None => Err(Malformed::Length),
        Some(_) if payload.len() < 4 => Err(Malformed::Length),
        Some(_) if checksum != 0 => Err(Malformed::Checksum),
        Some(&PIM_HELLO) => Ok(Message::Hello(version)),
        Some(_) => Ok(Message::Other),
    }
}

fn igmp(payload: &[u8], source: IpAddr) -> Result<Message, Malformed> {
    let address = |at| v4(payload, at).map(IpAddr::from).ok_or(Malformed::Length);
    let about = address(4)?;
    if checksum(sum(payload)) != 0 {
        return Err(Malformed::Checksum);
    }
    let one = |wish| Ok(Message::Report(vec![Record { group: group(about)?, wish }]));
    match payload[0] {
        0x11 => {
            let response_ms = match (payload.len(), payload[1]) {
                (8, 0) => IGMPV1_RESPONSE_MS,
                (8, tenths) => u64::from(tenths) * 100,
                (_, code) if holds_sources(payload, IGMP_QUERY, 4) => u64::from(from_code8(code)) * 100,
                _ => return Err(Malformed::Length),
            };
            let of_sources = names_sources(payload, IGMP_QUERY);
            Ok(Message::Query { source, group: asked(about)?, of_sources, response_ms })
        }
        0x12 | 0x16 => one(Wish::Join),
        0x17 => one(Wish::Leave),
        0x22 => records(payload, 4, address),
        _ => Ok(Message::Other),
    }
}

fn mld(body: &[u8], source: Ipv6Addr) -> Result<Message, Malformed> {
    let address = |at| v6(body, at).map(IpAddr::from).ok_or(Malformed::Length);
    let one = |wish| Ok(Message::Report(vec![Record { group: group(address(8)?)?, wish }]));
    match body.first().ok_or(Malformed::Length)? {
        // A router has an address.
        130 if source.is_unspecified() => Err(Malformed::NotOfLink),
        130 => {
            let about = address(8)?;
            let code = be16(body, 4).ok_or(Malformed::Length)?;
            let response_ms = match body.len() {
                24 => u64::from(code),
                _ if holds_sources(body, MLD_QUERY, 16) => u64::from(from_code16(code)),
                _ => return Err(Malformed::Length),
            };
            let of_sources = names_sources(body, MLD_QUERY);
            Ok(Message::Query { source: source.into(), group: asked(about)?, of_sources, response_ms })
        }
        131 => one(Wish::Join),
        132 => one(Wish::Leave),
        143 => records(body, 16, address),
        _ => Ok(Message::Other),
    }
}

/// A query with so many bytes before its sources is as long as their number at the end of these says, or longer: what follows
/// them is for versions to come (RFC 3376 4.1.10, RFC 3810 5.1.12).
fn holds_sources(query: &[u8], fixed: usize, width: usize) -> bool {
    be16(query, fixed - 2).is_some_and(|sources| query.len() >= fixed + width * usize::from(sources))
}

/// A query with so many bytes before its sources has some; a shorter one is of a version without.
fn names_sources(query: &[u8], fixed: usize) -> bool {
    query.len() >= fixed && be16(query, fixed - 2) != Some(0)
}

/// RFC 3376 4.1.1: above 127, an exponent and a mantissa.
fn from_code8(code: u8) -> u32 {
    let (exponent, mantissa) = (u32::from(code >> 4 & 7), u32::from(code & 15));
    if code < 128 { code.into() } else { (mantissa | 16) << (exponent + 3) }
}

/// RFC 3810 5.1.3: the same from 32768 on.
fn from_code16(code: u16) -> u32 {
    let (exponent, mantissa) = (u32::from(code >> 12 & 7), u32::from(code & 0xfff));
    if code < 32_768 { code.into() } else { (mantissa | 0x1000) << (exponent + 3) }
}

/// The largest value with a code that is not above this one.
fn to_code8(value: u64) -> u8 {
    (0..=u8::MAX).rev().find(|code| u64::from(from_code8(*code)) <= value).unwrap_or(0)
}

/// The records of a report of IGMPv3 or MLDv2 whose addresses have so many bytes (RFC 3376 4.2.4, RFC 3810 5.2.5).
fn records(
    body: &[u8],
    width: usize,
    address: impl Fn(usize) -> Result<IpAddr, Malformed>,
) -> Result<Message, Malformed> {
    let count = be16(body, 6).ok_or(Malformed::Length)?;
    let (mut at, mut all) = (8, Vec::new());
    for _ in 0..count {
        let sources = usize::from(be16(body, at + 2).ok_or(Malformed::Length)?);
        let (kind, auxiliary) = (body[at], usize::from(body[at + 1]));
        let about = group(address(at + 4)?)?;
        let end = at + 4 + width * (1 + sources) + 4 * auxiliary;
        if end > body.len() {
            return Err(Malformed::Length);
        }
        let wish = match (kind, sources) {
            // Nothing of what was excluded is wanted, or nothing but these sources: a member in any case.
            (1 | 3, 1..) | (2 | 4, _) | (5, 1..) => Some(Wish::Join),
            (1 | 3, 0) => Some(Wish::Leave),
            // A host that included nothing but these says no more when it leaves (RFC 3376 5.1).
            (6, 1..) => Some(Wish::Less),
            // No source at all, and kinds to come, say nothing.
            _ => None,
        };
        all.extend(wish.map(|wish| Record { group: about, wish }));
        at = end;
    }
    Ok(Message::Report(all))
}

/// What a query is sent from and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuerySource {
    /// Source of its frames.
    pub mac: Mac,
    /// Source of its packets.
    pub address: IpAddr,
    /// The VLAN whose tag it has, if it has one.
    pub tag: Option<u16>,
}

/// A query of IGMPv3 or MLDv2 about a group, or about all, with FCS and padding left out of the length of IP.
pub fn query(from: &QuerySource, group: Option<IpAddr>, response_ms: u64, interval_ms: u64) -> Vec<u8> {
    let interval = to_code8(interval_ms / 1000);
    let (ethertype, packet, to) = match from.address {
        IpAddr::V4(source) => {
            let about = match group {
                Some(IpAddr::V4(group)) => Some(group),
                _ => None,
            };
            let to = about.unwrap_or(Ipv4Addr::new(224, 0, 0, 1));
            (IPV4, igmp_query(source, to, about, response_ms, interval), mac_of(to.into()))
        }
        IpAddr::V6(source) => {
            let about = match group {
                Some(IpAddr::V6(group)) => Some(group),
                _ => None,
            };
            let to = about.unwrap_or(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
            (IPV6, mld_query(source, to, about, response_ms, interval), mac_of(to.into()))
        }
    };
    let mut frame = [to.0, from.mac.0].concat();
    if let Some(vid) = from.tag {
        // Network control (802.1Q table I-1 has its own class; this is what IGMP of Linux bridges has, too).
        frame.extend(TPID.to_be_bytes());
        frame.extend(vid.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(packet);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// The address that frames for a group have.
pub fn mac_of(group: IpAddr) -> Mac {
    match group {
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            Mac([0x33, 0x33, a, b, c, d])
        }
    }
}

/// The version of IP of an address.
pub fn version_of(address: IpAddr) -> IpVersion {
    if address.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }
}

fn igmp_query(
    source: Ipv4Addr,
    to: Ipv4Addr,
    group: Option<Ipv4Addr>,
    response_ms: u64,
    interval: u8,
) -> Vec<u8> {
    const HEADER: usize = 24;
    let total = (HEADER + IGMP_QUERY) as u8;
    // TTL 1, DSCP CS6, a router alert (RFC 2113).
    let mut packet = vec![0x46, 0xc0, 0, total, 0, 0, 0x40, 0, 1, IGMP, 0, 0];
    packet.extend(source.octets());
    packet.extend(to.octets());
    packet.extend([0x94, 4, 0, 0]);
    put_checksum(&mut packet, 10, 0);
    let mut body = vec![0x11, to_code8(response_ms / 100), 0, 0];
    body.extend(group.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
    body.extend([ROBUSTNESS, interval, 0, 0]);
    put_checksum(&mut body, 2, 0);
    packet.extend(body);
    packet
}

fn mld_query(
    source: Ipv6Addr,
    to: Ipv6Addr,
    group: Option<Ipv6Addr>,
    response_ms: u64,
    interval: u8,
) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, (8 + MLD_QUERY) as u8, HOP_BY_HOP, 1];
    packet.extend(source.octets());
    packet.extend(to.octets());
    packet.extend([ICMPV6, 0, 5, 2, 0, 0, 1, 0]);
    // Below 32768 a code is the time itself.
    let response = response_ms.min(32_767) as u16;
    let mut body = vec![130, 0, 0, 0];
    body.extend(response.to_be_bytes());
    body.extend([0, 0]);
    body.extend(group.unwrap_or(Ipv6Addr::UNSPECIFIED).octets());
    body.extend([ROBUSTNESS, interval, 0, 0]);
    let pseudo = pseudo_header(source, to, ICMPV6, body.len());
    put_checksum(&mut body, 2, pseudo);
    packet.extend(body);
    packet
}

fn put_checksum(bytes: &mut [u8], at: usize, pseudo: u64) {
    let sum = checksum(pseudo + sum(bytes));
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
