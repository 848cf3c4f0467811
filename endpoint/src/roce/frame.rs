//! Whole RoCEv2 frames: Ethernet, one optional 802.1Q tag, IPv4 or IPv6, UDP 4791, transport packet,
//! pad, ICRC. Without FCS.
//!
//! IPv4 options and IPv6 extension headers are refused: no RNIC sends them. The UDP checksum is
//! carried but not checked, because the ICRC covers more (RoCEv2 senders put zero there).

use super::icrc;
use super::wire::{BTH_BYTES, Bth, Extensions, ICRC_BYTES, Layout, MAX_MTU, Packet, Reader, UDP_PORT};
use crate::checksum::ones_complement_sum;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;
use weir_dataplane::types::Mac;

const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const PROTO_UDP: u8 = 17;
const UDP_BYTES: usize = 8;

/// Why bytes are not an acceptable RoCEv2 frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// Another protocol or UDP port: not for a RoCE endpoint.
    #[error("not a RoCEv2 frame")]
    NotRoce,
    /// The frame ends inside a header, or lengths of IP, UDP and headers contradict one another.
    #[error("frame cut short or lengths that contradict one another")]
    Length,
    /// IPv4 options or a fragment.
    #[error("IPv4 options or fragment")]
    IpForm,
    /// The IPv4 header checksum is wrong.
    #[error("wrong IPv4 header checksum")]
    IpChecksum,
    /// The invariant CRC is wrong.
    #[error("wrong invariant CRC")]
    Icrc,
    /// A BTH header version other than 0.
    #[error("unknown BTH version")]
    Version,
    /// An opcode that is not spoken here.
    #[error("unsupported BTH opcode {0:#04x}")]
    Opcode(u8),
    /// The pad count does not fill the payload to four bytes, or exceeds it.
    #[error("wrong pad count")]
    Pad,
}

/// IP header fields that are not derived from the rest of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Source and destination, of one family.
    pub addresses: Addresses,
    /// DSCP, 6 bits.
    pub dscp: u8,
    /// ECN code point: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// TTL or hop limit.
    pub ttl: u8,
}

/// Congestion experienced (RFC 3168).
pub const ECN_CE: u8 = 3;
/// ECN-capable transport, code point 0: what a RoCEv2 sender under DCQCN puts on data.
pub const ECN_ECT0: u8 = 2;

/// The part of an IP header that differs between the two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Source.
        src: Ipv4Addr,
        /// Destination.
        dst: Ipv4Addr,
        /// Identification; new for each transmission, so a retransmission has a new ICRC.
        id: u16,
        /// DF flag; RoCEv2 senders set it.
        dont_fragment: bool,
    },
    /// IPv6.
    V6 {
        /// Source.
        src: Ipv6Addr,
        /// Destination.
        dst: Ipv6Addr,
        /// Flow label, 20 bits.
        flow_label: u32,
    },
}

impl Addresses {
    /// Source address.
    pub fn src(&self) -> IpAddr {
        match *self {
            Self::V4 { src, .. } => src.into(),
            Self::V6 { src, .. } => src.into(),
        }
    }

    /// Destination address.
    pub fn dst(&self) -> IpAddr {
        match *self {
            Self::V4 { dst, .. } => dst.into(),
            Self::V6 { dst, .. } => dst.into(),
        }
    }
}

/// Everything in front of the transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// Destination address.
    pub dst: Mac,
    /// Source address.
    pub src: Mac,
    /// Tag control information of an 802.1Q tag: PCP in bits 15:13, DEI 12, VLAN id 11:0.
    pub vlan: Option<u16>,
    /// IP header.
    pub ip: IpHeader,
    /// UDP source port: entropy for ECMP.
    pub src_port: u16,
    /// UDP checksum as it stands, zero from RoCEv2 senders.
    pub udp_checksum: u16,
}

/// A RoCEv2 frame in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Headers up to UDP.
    pub outer: Outer,
    /// BTH and what follows.
    pub packet: Packet<'a>,
}

impl<'a> Frame<'a> {
    /// Takes a frame apart and checks lengths, IPv4 checksum and ICRC. Bytes after the IP packet
    /// (Ethernet padding, a captured FCS) are ignored.
    #[inline(always)]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut r = Reader(bytes);
        let (dst, src, vlan, ethertype) = ethernet(&mut r).ok_or(ParseError::Length)?;
        let behind_ethernet = r.0.len();
        let (ip, packet, udp) = match ethertype {
            ETHERTYPE_IPV4 => ipv4(r.0)?,
            ETHERTYPE_IPV6 => ipv6(r.0)?,
            _ => return Err(ParseError::NotRoce),
        };
        let mut r = Reader(udp);
        let (src_port, port, len, udp_checksum) =
            (|| Some((r.u16()?, r.u16()?, r.u16()?, r.u16()?)))().ok_or(ParseError::Length)?;
        if port != UDP_PORT {
            return Err(ParseError::NotRoce);
        }
        if usize::from(len) != udp.len() || udp.len() < UDP_BYTES + BTH_BYTES + ICRC_BYTES {
            return Err(ParseError::Length);
        }
        let (covered, sent) = packet.split_last_chunk::<ICRC_BYTES>().ok_or(ParseError::Length)?;
        let ip_at = bytes.len() - behind_ethernet;
        if icrc::of_frame(bytes, ip_at, ip_at + covered.len()) != Some(u32::from_le_bytes(*sent)) {
            return Err(ParseError::Icrc);
        }
        let packet = transport(&r.0[..r.0.len() - ICRC_BYTES])?;
        Ok(Self { outer: Outer { dst, src, vlan, ip, src_port, udp_checksum }, packet })
    }

    /// Writes the frame over `out`. Lengths, pad, IPv4 checksum and ICRC are computed. The payload is
    /// at most [`MAX_MTU`] bytes and the extension headers are those of the opcode; headers that are not spoken here are
    /// zeros.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let ip = self.emit_head(out);
        let payload = self.packet.payload;
        out.extend_from_slice(payload);
        out.resize(out.len() + (payload.len().wrapping_neg() & 3), 0);
        let crc = icrc::of_frame(out, ip, out.len()).unwrap_or_default();
        out.extend(crc.to_le_bytes());
    }

    /// Writes what comes before the payload over `out`, complete but for the payload's bytes. Returns where in it the IP
    /// header starts.
    pub fn emit_head(&self, out: &mut Vec<u8>) -> usize {
        let Self { outer, packet } = self;
        debug_assert!(packet.payload.len() <= MAX_MTU);
        let layout = packet.bth.opcode.layout().unwrap_or_default();
        debug_assert_eq!(Layout { other: layout.other, ..packet.ext.layout() }, layout);
        out.clear();
        out.extend(outer.dst.0);
        out.extend(outer.src.0);
        if let Some(tci) = outer.vlan {
            out.extend(ETHERTYPE_VLAN.to_be_bytes());
            out.extend(tci.to_be_bytes());
        }
        let is_v4 = matches!(outer.ip.addresses, Addresses::V4 { .. });
        out.extend(if is_v4 { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 }.to_be_bytes());

        let start = out.len();
        out.resize(start + if is_v4 { 20 } else { 40 }, 0);
        let udp = out.len();
        out.extend(outer.src_port.to_be_bytes());
        out.extend(UDP_PORT.to_be_bytes());
        out.extend([0, 0]); // length, below
        out.extend(outer.udp_checksum.to_be_bytes());
        let pad = packet.payload.len().wrapping_neg() & 3;
        packet.bth.write(pad as u8, out);
        packet.ext.write(out);
        out.resize(out.len() + usize::from(layout.other), 0);

        let end = out.len() + packet.payload.len() + pad + ICRC_BYTES;
        out[udp + 4..udp + 6].copy_from_slice(&((end - udp) as u16).to_be_bytes());
        outer.ip.write(end - start, &mut out[start..udp]);
        start
    }
}

/// Destination, source, tag and EtherType.
#[inline]
fn ethernet(r: &mut Reader<'_>) -> Option<(Mac, Mac, Option<u16>, u16)> {
    let (dst, src) = (Mac(r.take()?), Mac(r.take()?));
    match r.u16()? {
        ETHERTYPE_VLAN => Some((dst, src, Some(r.u16()?), r.u16()?)),
        ethertype => Some((dst, src, None, ethertype)),
    }
}

/// What the IP parsers return: the header, the packet cut to its IP length, and its UDP part.
type IpParts<'a> = (IpHeader, &'a [u8], &'a [u8]);

#[inline]
fn ipv4(bytes: &[u8]) -> Result<IpParts<'_>, ParseError> {
    let header = bytes.first_chunk::<20>().ok_or(ParseError::Length)?;
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if header[0] != 0x45 || fragment & 0xbfff != 0 {
        return Err(ParseError::IpForm);
    }
    if header[9] != PROTO_UDP {
        return Err(ParseError::NotRoce);
    }
    if ones_complement_sum(header) != 0xffff {
        return Err(ParseError::IpChecksum);
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let packet = bytes.get(..total).ok_or(ParseError::Length)?;
    let udp = packet.get(20..).ok_or(ParseError::Length)?;
    let ip = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let addresses = Addresses::V4 {
        src: ip(12),
        dst: ip(16),
        id: u16::from_be_bytes([header[4], header[5]]),
        dont_fragment: fragment != 0,
    };
    Ok((IpHeader { addresses, dscp: header[1] >> 2, ecn: header[1] & 3, ttl: header[8] }, packet, udp))
}

fn ipv6(bytes: &[u8]) -> Result<IpParts<'_>, ParseError> {
    let mut r = Reader(bytes);
    let mut fields = || Some((r.u32()?, r.u16()?, r.take::<2>()?, r.take::<16>()?, r.take::<16>()?));
    let (word, len, [next, ttl], src, dst) = fields().ok_or(ParseError::Length)?;
    if word >> 28 != 6 {
        return Err(ParseError::IpForm);
    }
    if next != PROTO_UDP {
        return Err(ParseError::NotRoce);
    }
    let packet = bytes.get(..40 + usize::from(len)).ok_or(ParseError::Length)?;
    let tc = (word >> 20) as u8;
    let addresses = Addresses::V6 { src: src.into(), dst: dst.into(), flow_label: word & 0xf_ffff };
    Ok((IpHeader { addresses, dscp: tc >> 2, ecn: tc & 3, ttl }, packet, &packet[40..]))
}

/// BTH to pad, without ICRC.
#[inline(always)]
fn transport(bytes: &[u8]) -> Result<Packet<'_>, ParseError> {
    let mut r = Reader(bytes);
    let (bth, pad, version) = Bth::read(&mut r).ok_or(ParseError::Length)?;
    if version != 0 {
        return Err(ParseError::Version);
    }
    let layout = bth.opcode.layout().ok_or(ParseError::Opcode(bth.opcode.0))?;
    let ext = Extensions::read(layout, &mut r).ok_or(ParseError::Length)?;
    if r.0.len() % 4 != 0 {
        return Err(ParseError::Pad);
    }
    let len = r.0.len().checked_sub(pad).ok_or(ParseError::Pad)?;
    if len > MAX_MTU {
        return Err(ParseError::Length);
    }
    Ok(Packet { bth, ext, payload: &r.0[..len] })
}

impl IpHeader {
    /// Fills `header` (20 or 40 bytes, zero) for a packet of `len` bytes including this header.
    fn write(&self, len: usize, header: &mut [u8]) {
        let tos = self.dscp << 2 | self.ecn & 3;
        match self.addresses {
            Addresses::V4 { src, dst, id, dont_fragment } => {
                header[0] = 0x45;
                header[1] = tos;
                header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
                header[4..6].copy_from_slice(&id.to_be_bytes());
                header[6] = u8::from(dont_fragment) << 6;
                header[8] = self.ttl;
                header[9] = PROTO_UDP;
                header[12..16].copy_from_slice(&src.octets());
                header[16..20].copy_from_slice(&dst.octets());
                let checksum = !ones_complement_sum(header);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            Addresses::V6 { src, dst, flow_label } => {
                let word = 6 << 28 | u32::from(tos) << 20 | flow_label & 0xf_ffff;
                header[0..4].copy_from_slice(&word.to_be_bytes());
                header[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
                header[6] = PROTO_UDP;
                header[7] = self.ttl;
                header[8..24].copy_from_slice(&src.octets());
                header[24..40].copy_from_slice(&dst.octets());
            }
        }
    }
}
