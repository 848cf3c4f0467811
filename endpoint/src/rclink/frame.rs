//! RC Link frames in the four formats, without FCS (SW-003..SW-008, SW-014; DEV-01..DEV-05, DEV-22).
//!
//! Standard: Ethernet, tag, IPv4, UDP, RH. AFH_GEN1 and AFH_GEN2_16b: 12 bytes of addresses and traffic
//! class, tag, EtherType, RH. AFH_Lite: the 12 bytes alone. Then the payload, and a CRC where it is on:
//! CRC-32 of Ethernet over RH and padded payload, which no switch changes, low byte first. The spare
//! bytes of GEN2 and Lite are zero (gap 2).

use super::class::{TcType, TrafficClass};
use super::rh::{Opcode, RH_BYTES, Rh};
use crate::checksum::ones_complement_sum;
use std::net::Ipv4Addr;
use thiserror::Error;
use weir_dataplane::parse::Variant;
use weir_dataplane::types::{MIN_FRAME_BYTES, Mac};

/// Longest payload of TYPE1 and TYPE2 (SW-007).
pub const MAX_PAYLOAD: usize = 1344;
/// Shortest payload of AFH_Lite: nothing says where Ethernet padding begins (DEV-22).
pub const MIN_LITE_PAYLOAD: usize = 48;
/// EtherType of TYPE1 in AFH_GEN1 and AFH_GEN2_16b (gap 5).
pub const ETHERTYPE_TYPE1: u16 = 0x88b5;
/// EtherType of TYPE2.
pub const ETHERTYPE_TYPE2: u16 = 0x88b6;
/// UDP destination port of Standard (SW-008).
pub const UDP_PORT: u16 = 4791;

const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_IPV4: u16 = 0x0800;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const CRC_BYTES: usize = 4;
/// W = 1, X = 1: compressed form, local address; M = 1 for a group.
const FLAGS_TYPE1: u8 = 0x82;
const FLAGS_TYPE2: u8 = 0x83;

/// The shape of frames on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Ethernet, IPv4 and UDP.
    Standard,
    /// MAC shape, traffic class in the top byte of the source.
    AfhGen1,
    /// 16-bit stations.
    AfhGen2(Variant),
    /// As GEN2, no EtherType, no tag, no RH: nothing is ever sent again.
    AfhLite(Variant),
}

/// Format and options: what both ends must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    /// Format.
    pub format: Format,
    /// Frames with RH end in a CRC of their own.
    pub crc: bool,
    /// Constant in the UDP checksum field: 0 is none, the published 0xffff is refused by IP stacks (DEV-05).
    pub udp_checksum: u16,
}

/// A station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// MAC address; the AFH formats carry its low 40 or 16 bits.
    pub mac: Mac,
    /// IP address, used by Standard alone.
    pub ip: Ipv4Addr,
}

/// What stands in front of RH and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Destination.
    pub dst: Station,
    /// Source.
    pub src: Station,
    /// VLAN id and PCP of a tag, if any; Lite has none.
    pub tag: Option<(u16, u8)>,
    /// Traffic class.
    pub tc: TrafficClass,
    /// ECN code point, in Standard alone (SW-035).
    pub ecn: u8,
}

/// A frame taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Station bits of the destination, see [`Codec::station`].
    pub dst: u64,
    /// Station bits of the source.
    pub src: u64,
    /// Traffic class, zero where the frame has none that is known.
    pub tc: TrafficClass,
    /// The frame was marked CE on its way.
    pub ce: bool,
    /// The rest.
    pub body: Body<'a>,
}

/// RH, if the frame has one, and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// TYPE1: data, ACK, CNP, credit message.
    Type1(Rh, &'a [u8]),
    /// TYPE2: multicast data.
    Type2(Rh, &'a [u8]),
    /// AFH_Lite; the traffic class says of what type.
    Lite(&'a [u8]),
    /// TYPE3: any other Ethernet frame, whole.
    Raw(&'a [u8]),
}

/// Why a frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// It ends inside a header, or its lengths contradict one another.
    #[error("frame cut short or lengths that contradict one another")]
    Length,
    /// IPv4 options, a fragment or a wrong header checksum.
    #[error("malformed IPv4 header")]
    Ip,
    /// The CRC over RH and payload is wrong.
    #[error("wrong CRC")]
    Crc,
    /// A traffic class of an unknown type where nothing else says what the frame is.
    #[error("unknown type in the traffic class")]
    Type,
}

impl Codec {
    /// This format without CRC and with a zero UDP checksum.
    pub fn new(format: Format) -> Self {
        Self { format, crc: false, udp_checksum: 0 }
    }

    /// The bits of an address that tell stations apart.
    pub fn station(&self, mac: Mac) -> u64 {
        let bits = match self.format {
            Format::Standard => 48,
            Format::AfhGen1 => 40,
            Format::AfhGen2(_) | Format::AfhLite(_) => 16,
        };
        mac.to_u64() & ((1 << bits) - 1)
    }

    /// Whether a frame that starts like this is for a group.
    pub fn is_group(&self, head: &[u8; 12]) -> bool {
        let at = match self.format {
            Format::AfhGen2(Variant::RcLink) | Format::AfhLite(Variant::RcLink) => 6,
            _ => 0,
        };
        head[at] & 1 == 1
    }

    /// Writes a frame of TYPE3 over `out`: addresses as the format has them, a tag, another EtherType.
    /// Not in Lite, which has none.
    pub fn emit_raw(&self, head: &Head, ethertype: u16, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert!(!self.lite());
        out.clear();
        self.addresses(head, out);
        self.tag(head, out);
        out.extend(ethertype.to_be_bytes());
        out.extend_from_slice(payload);
        out.resize(out.len().max(least(head)), 0);
    }

    /// Bytes of the frame of TYPE3 that carries so many, padding included.
    pub(super) fn raw_len(payload: usize, tagged: bool) -> usize {
        let tag = if tagged { 4 } else { 0 };
        (14 + payload).max(MIN_FRAME_BYTES as usize) + tag
    }

    /// What a frame of TYPE3 with this EtherType carries, Ethernet padding included.
    pub fn raw_payload<'a>(&self, bytes: &'a [u8], ethertype: u16) -> Option<&'a [u8]> {
        behind_tag(bytes).filter(|(found, _)| *found == ethertype).map(|(_, payload)| payload)
    }

    /// Whether the format has no RH.
    pub fn lite(&self) -> bool {
        matches!(self.format, Format::AfhLite(_))
    }

    /// Payload lengths that can be sent.
    pub fn payload_range(&self) -> std::ops::RangeInclusive<usize> {
        if self.lite() { MIN_LITE_PAYLOAD..=MAX_PAYLOAD } else { 0..=MAX_PAYLOAD }
    }

    /// Writes a frame over `out`. Length, pad, checksums and CRC are computed; Lite has no RH. The payload
    /// is inside [`Self::payload_range`].
    pub fn emit(&self, head: &Head, rh: &Rh, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert!(self.payload_range().contains(&payload.len()));
        out.clear();
        self.addresses(head, out);
        if self.lite() {
            out.extend_from_slice(payload);
            return;
        }
        self.tag(head, out);
        let pad = payload.len().wrapping_neg() & 3;
        if self.format == Format::Standard {
            out.extend(ETHERTYPE_IPV4.to_be_bytes());
            let crc = if self.crc { CRC_BYTES } else { 0 };
            self.ip_udp(head, rh.dest_qp, RH_BYTES + payload.len() + pad + crc, out);
        } else {
            let type2 = head.tc.kind == TcType::Type2;
            out.extend(if type2 { ETHERTYPE_TYPE2 } else { ETHERTYPE_TYPE1 }.to_be_bytes());
        }
        let start = out.len();
        let length_or_syndrome = match rh.opcode {
            Opcode::Send | Opcode::Credit => Rh::length_field(payload.len()),
            Opcode::Ack | Opcode::Cnp => rh.length_or_syndrome,
        };
        out.extend(Rh { pad: pad as u8, length_or_syndrome, ..*rh }.encode());
        out.extend_from_slice(payload);
        out.resize(out.len() + pad, 0);
        if self.crc {
            let crc = crc32fast::hash(&out[start..]);
            out.extend(crc.to_le_bytes());
        }
        out.resize(out.len().max(least(head)), 0);
    }

    fn tag(&self, head: &Head, out: &mut Vec<u8>) {
        if let Some((vid, pcp)) = head.tag {
            out.extend(ETHERTYPE_VLAN.to_be_bytes());
            out.extend((u16::from(pcp & 7) << 13 | vid & 0xfff).to_be_bytes());
        }
    }

    /// Bytes of the frame that [`Self::emit`] writes for a payload of `payload` bytes.
    pub fn frame_len(&self, payload: usize, tagged: bool) -> usize {
        let tag = if tagged { 4 } else { 0 };
        let padded = payload.next_multiple_of(4) + if self.crc { CRC_BYTES } else { 0 };
        let len = match self.format {
            Format::AfhLite(_) => return 12 + payload,
            Format::Standard => 14 + IP_BYTES + UDP_BYTES + RH_BYTES + padded,
            Format::AfhGen1 | Format::AfhGen2(_) => 14 + RH_BYTES + padded,
        };
        len.max(MIN_FRAME_BYTES as usize) + tag
    }

    /// The first twelve bytes.
    fn addresses(&self, head: &Head, out: &mut Vec<u8>) {
        let (dst, src, tc) = (head.dst.mac.0, head.src.mac.0, head.tc.byte());
        match self.format {
            Format::Standard => {
                out.extend(dst);
                out.extend(src);
            }
            Format::AfhGen1 => {
                out.extend(dst);
                out.push(tc);
                out.extend(&src[1..]);
            }
            Format::AfhGen2(variant) | Format::AfhLite(variant) => {
                let flags = if head.tc.kind == TcType::Type2 { FLAGS_TYPE2 } else { FLAGS_TYPE1 };
                let (first, seventh) = match variant {
                    Variant::Public => (flags, tc),
                    Variant::RcLink => (tc, flags),
                };
                out.extend([first, 0, 0, 0, dst[4], dst[5]]);
                out.extend([seventh, 0, 0, 0, src[4], src[5]]);
            }
        }
    }

    fn ip_udp(&self, head: &Head, qp: u16, len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let udp = (UDP_BYTES + len) as u16;
        out.extend([0x45, head.tc.byte() | head.ecn & 3]);
        out.extend((udp + IP_BYTES as u16).to_be_bytes());
        out.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        out.extend(head.src.ip.octets());
        out.extend(head.dst.ip.octets());
        let checksum = !ones_complement_sum(&out[start..]);
        out[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
        out.extend((0xc000 | qp).to_be_bytes()); // entropy
        out.extend(UDP_PORT.to_be_bytes());
        out.extend(udp.to_be_bytes());
        out.extend(self.udp_checksum.to_be_bytes());
    }

    /// Takes a frame apart. The destination is not judged.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read<'a>(&self, bytes: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        let head = bytes.first_chunk::<12>().ok_or(FrameError::Length)?;
        let [dst, src] = [0, 6].map(|at| self.station(Mac(std::array::from_fn(|i| head[at + i]))));
        let tc = match self.format {
            Format::Standard => 0,
            Format::AfhGen1 | Format::AfhGen2(Variant::Public) | Format::AfhLite(Variant::Public) => head[6],
            Format::AfhGen2(Variant::RcLink) | Format::AfhLite(Variant::RcLink) => head[0],
        };
        let class = TrafficClass::read(tc);
        if self.lite() {
            let tc = class.ok_or(FrameError::Type)?;
            let payload = &bytes[12..];
            if !self.payload_range().contains(&payload.len()) {
                return Err(FrameError::Length);
            }
            return Ok(Frame { dst, src, tc, ce: false, body: Body::Lite(payload) });
        }
        let tc = class.unwrap_or(TrafficClass { kind: TcType::Type1, channel: 0 });
        let frame = Frame { dst, src, tc, ce: false, body: Body::Raw(bytes) };
        let (ethertype, rest) = behind_tag(bytes).ok_or(FrameError::Length)?;
        match ethertype {
            ETHERTYPE_IPV4 if self.format == Format::Standard => self.read_ip(frame, rest),
            _ if self.format == Format::Standard => Ok(frame),
            ETHERTYPE_TYPE1 => {
                self.read_rh(rest, false).map(|(rh, p)| Frame { body: Body::Type1(rh, p), ..frame })
            }
            ETHERTYPE_TYPE2 => {
                self.read_rh(rest, false).map(|(rh, p)| Frame { body: Body::Type2(rh, p), ..frame })
            }
            _ => Ok(frame),
        }
    }

    fn read_ip<'a>(&self, frame: Frame<'a>, bytes: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        let word = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        // Anything that is not plainly ours is TYPE3.
        let ours = bytes.first() == Some(&0x45)
            && bytes.get(9) == Some(&17)
            && word(6).is_some_and(|fragment| fragment & 0xbfff == 0)
            && word(IP_BYTES + 2) == Some(UDP_PORT);
        if !ours {
            return Ok(frame);
        }
        let (Some(total), Some(udp)) = (word(2), word(IP_BYTES + 4)) else { return Err(FrameError::Length) };
        let packet = bytes.get(..usize::from(total)).ok_or(FrameError::Length)?;
        let (ip, rest) = packet.split_at_checked(IP_BYTES).ok_or(FrameError::Length)?;
        if ones_complement_sum(ip) != 0xffff {
            return Err(FrameError::Ip);
        }
        let rest = rest.get(UDP_BYTES..).ok_or(FrameError::Length)?;
        if usize::from(udp) != UDP_BYTES + rest.len() {
            return Err(FrameError::Length);
        }
        let tc = TrafficClass::read(ip[1]).unwrap_or(frame.tc);
        let (rh, payload) = self.read_rh(rest, true)?;
        let body = if tc.kind == TcType::Type2 { Body::Type2(rh, payload) } else { Body::Type1(rh, payload) };
        Ok(Frame { tc, ce: ip[1] & 3 == 3, body, ..frame })
    }

    /// RH and payload; `exact`: `bytes` end where the packet ends, else Ethernet padding may follow.
    fn read_rh<'a>(&self, bytes: &'a [u8], exact: bool) -> Result<(Rh, &'a [u8]), FrameError> {
        let (rh_bytes, _) = bytes.split_first_chunk::<RH_BYTES>().ok_or(FrameError::Length)?;
        let rh = Rh::decode(*rh_bytes);
        let crc_bytes = if self.crc { CRC_BYTES } else { 0 };
        let pad = usize::from(rh.pad);
        let covered = match (rh.opcode, usize::from(rh.length_or_syndrome)) {
            (Opcode::Ack | Opcode::Cnp, _) => RH_BYTES,
            (_, 0) => bytes.len().checked_sub(crc_bytes).ok_or(FrameError::Length)?,
            (_, length) => length + pad,
        };
        let content = bytes.get(..covered).ok_or(FrameError::Length)?;
        let sent = bytes.get(covered..covered + crc_bytes).ok_or(FrameError::Length)?;
        if self.crc && sent != crc32fast::hash(content).to_le_bytes() {
            return Err(FrameError::Crc);
        }
        let end = covered.checked_sub(pad).filter(|_| covered % 4 == 0);
        let payload = end.and_then(|end| content.get(RH_BYTES..end)).ok_or(FrameError::Length)?;
        let whole = !exact || bytes.len() == covered + crc_bytes;
        if whole && payload.len() <= MAX_PAYLOAD { Ok((rh, payload)) } else { Err(FrameError::Length) }
    }
}

/// Shortest frame: a tag may be taken off on the way, so a tagged frame is padded to a whole untagged one.
fn least(head: &Head) -> usize {
    MIN_FRAME_BYTES as usize + if head.tag.is_some() { 4 } else { 0 }
}

/// EtherType behind one 802.1Q tag or none, and what follows it.
fn behind_tag(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let word = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let at = if word(12)? == ETHERTYPE_VLAN { 16 } else { 12 };
    Some((word(at)?, bytes.get(at + 2..)?))
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
