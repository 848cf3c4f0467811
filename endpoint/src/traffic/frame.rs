//! Bytes of the hosts' frames: Ethernet, one optional 802.1Q tag, IPv4, UDP, then
//! `check 16 | sequence 64 | time sent 64 | pattern`, all big-endian.
//!
//! The flow number is the UDP source port, so that even the shortest Ethernet frame holds everything.
//! Check and pattern follow from seed, flow, sender and stamp: a changed byte is seen. The UDP checksum
//! is zero (none).

use super::flow::{Flow, Peer};
use crate::checksum::ones_complement_sum;
use weir_dataplane::types::{Mac, Nanos};

/// UDP destination port of all flows; nothing is registered there.
pub const UDP_PORT: u16 = 22_341;

const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ARP: u16 = 0x0806;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// Check, sequence number and time.
const STAMP_BYTES: usize = 18;
const DONT_FRAGMENT: u16 = 0x4000;

/// What tells one frame from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) sequence: u64,
    pub(super) sent: Nanos,
}

/// The frames of one flow, written in place: headers once, then stamp and pattern for each frame.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Start of the UDP payload.
    payload: usize,
    /// What the check of every frame starts from.
    check_key: u64,
    content_key: u64,
}

impl Template {
    /// Headers of `flow` from `source`. The flow has been checked.
    pub(super) fn new(flow: &Flow, source: Peer, seed: u64) -> Self {
        let len = usize::from(flow.frame_bytes);
        let mut bytes = Vec::with_capacity(len);
        bytes.extend(flow.dst.mac.0);
        bytes.extend(source.mac.0);
        if let Some(tag) = flow.tag {
            bytes.extend(ETHERTYPE_VLAN.to_be_bytes());
            bytes.extend((u16::from(tag.pcp) << 13 | tag.vid).to_be_bytes());
        }
        bytes.extend(ETHERTYPE_IPV4.to_be_bytes());
        let ip = bytes.len();
        let total = (len - ip) as u16;
        bytes.extend([0x45, flow.dscp << 2 | flow.ecn]);
        bytes.extend(total.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(DONT_FRAGMENT.to_be_bytes());
        bytes.extend([64, 17, 0, 0]);
        bytes.extend(source.ip.octets());
        bytes.extend(flow.dst.ip.octets());
        let checksum = !ones_complement_sum(&bytes[ip..]);
        bytes[ip + 10..ip + 12].copy_from_slice(&checksum.to_be_bytes());
        bytes.extend(flow.id.to_be_bytes());
        bytes.extend(UDP_PORT.to_be_bytes());
        bytes.extend((total - IP_BYTES as u16).to_be_bytes());
        bytes.extend([0, 0]);
        let payload = bytes.len();
        bytes.resize(len, 0);
        let content_key = flow_key(seed, flow.id);
        Self { bytes, payload, check_key: check_key(content_key, source.mac), content_key }
    }

    /// The frame with this stamp.
    pub(super) fn stamped(&mut self, stamp: Stamp) -> &[u8] {
        let payload = &mut self.bytes[self.payload..];
        payload[..2].copy_from_slice(&check(self.check_key, stamp).to_be_bytes());
        payload[2..10].copy_from_slice(&stamp.sequence.to_be_bytes());
        payload[10..STAMP_BYTES].copy_from_slice(&stamp.sent.to_be_bytes());
        let mut word = pattern_start(self.content_key, stamp.sequence);
        let (words, rest) = payload[STAMP_BYTES..].as_chunks_mut::<8>();
        for out in words {
            *out = word.to_be_bytes();
            word = next_word(word);
        }
        rest.copy_from_slice(&word.to_be_bytes()[..rest.len()]);
        &self.bytes
    }

    /// Length of the frame.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// A frame that claims to be of a flow. Nothing beyond the position of its headers is checked yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'a> {
    pub(super) dst: Mac,
    pub(super) flow: u16,
    src: Mac,
    ip: &'a [u8; IP_BYTES],
    /// From the IP header on.
    packet: &'a [u8],
}

/// Why a frame is not what its flow sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupt;

/// Reads just enough to see whether this is a frame of a flow.
pub(super) fn claim(bytes: &[u8]) -> Option<Claim<'_>> {
    let (dst, rest) = bytes.split_first_chunk::<6>()?;
    let (src, _) = rest.split_first_chunk::<6>()?;
    let packet = behind(bytes, ETHERTYPE_IPV4)?;
    let (ip, udp) = packet.split_first_chunk::<IP_BYTES>()?;
    let (udp, _) = udp.split_first_chunk::<UDP_BYTES>()?;
    let ours = ip[0] == 0x45 && ip[9] == 17 && u16::from_be_bytes([udp[2], udp[3]]) == UDP_PORT;
    let flow = u16::from_be_bytes([udp[0], udp[1]]);
    ours.then_some(Claim { dst: Mac(*dst), flow, src: Mac(*src), ip, packet })
}

impl Claim<'_> {
    /// ECN code point.
    pub(super) fn ecn(&self) -> u8 {
        self.ip[1] & 3
    }

    /// Checks that this is, but for tag, DSCP and a CE mark, a frame `flow` sent. Padding is ignored.
    pub(super) fn verify(&self, flow: &Flow, seed: u64) -> Result<Stamp, Corrupt> {
        let word = |at: usize| u16::from_be_bytes([self.packet[at], self.packet[at + 1]]);
        let headers = 14 + if flow.tag.is_some() { 4 } else { 0 };
        let total = usize::from(flow.frame_bytes) - headers;
        let ecn_as_sent = self.ecn() == flow.ecn || (self.ecn() == 3 && flow.ecn != 0);
        if ones_complement_sum(self.ip) != 0xffff
            || usize::from(word(2)) != total
            || usize::from(word(IP_BYTES + 4)) != total - IP_BYTES
            || word(IP_BYTES + 6) != 0
            || self.ip[16..] != flow.dst.ip.octets()
            || !ecn_as_sent
        {
            return Err(Corrupt);
        }
        let payload = self.packet.get(IP_BYTES + UDP_BYTES..total).ok_or(Corrupt)?;
        let (head, content) = payload.split_first_chunk::<STAMP_BYTES>().ok_or(Corrupt)?;
        let long = |at: usize| head[at..at + 8].iter().fold(0, |n, &b| n << 8 | u64::from(b));
        let stamp = Stamp { sequence: long(2), sent: long(10) };
        let key = flow_key(seed, flow.id);
        if head[..2] != check(check_key(key, self.src), stamp).to_be_bytes() {
            return Err(Corrupt);
        }
        let mut expected = pattern_start(key, stamp.sequence);
        let (words, rest) = content.as_chunks::<8>();
        for word in words {
            if *word != expected.to_be_bytes() {
                return Err(Corrupt);
            }
            expected = next_word(expected);
        }
        if rest == &expected.to_be_bytes()[..rest.len()] { Ok(stamp) } else { Err(Corrupt) }
    }
}

/// A gratuitous ARP request (RFC 5227 announcement): a switch learns the sender from it.
pub(super) fn announcement(source: Peer, vlan: Option<u16>, out: &mut Vec<u8>) {
    out.clear();
    out.extend([0xff; 6]);
    out.extend(source.mac.0);
    if let Some(vid) = vlan {
        out.extend(ETHERTYPE_VLAN.to_be_bytes());
        out.extend(vid.to_be_bytes());
    }
    out.extend(ETHERTYPE_ARP.to_be_bytes());
    out.extend([0, 1, 8, 0, 6, 4, 0, 1]); // Ethernet, IPv4, address lengths, request
    out.extend(source.mac.0);
    out.extend(source.ip.octets());
    out.extend([0; 6]);
    out.extend(source.ip.octets());
    out.resize(if vlan.is_some() { 64 } else { 60 }, 0);
}

/// An ARP packet, tagged or not.
pub(super) fn is_arp(bytes: &[u8]) -> bool {
    behind(bytes, ETHERTYPE_ARP).is_some()
}

/// What follows this EtherType, behind one 802.1Q tag or none.
fn behind(bytes: &[u8], ethertype: u16) -> Option<&[u8]> {
    let word = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let at = if word(12)? == ETHERTYPE_VLAN { 16 } else { 12 };
    if word(at)? == ethertype { bytes.get(at + 2..) } else { None }
}

/// Finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): every input bit reaches every output bit.
fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

fn flow_key(seed: u64, flow: u16) -> u64 {
    mix(seed ^ u64::from(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn check_key(content_key: u64, source: Mac) -> u64 {
    mix(content_key ^ source.to_u64())
}

fn check(key: u64, stamp: Stamp) -> u16 {
    (mix(mix(key ^ stamp.sequence) ^ stamp.sent) >> 48) as u16
}

fn pattern_start(key: u64, sequence: u64) -> u64 {
    mix(key.wrapping_add(sequence))
}

fn next_word(word: u64) -> u64 {
    word.wrapping_add(0x9e37_79b9_7f4a_7c15)
}
