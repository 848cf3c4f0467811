//! Frames that are headers and a length.

use crate::congestion::telemetry::INT_BYTES;
use crate::rc::psn::Psn;
use crate::roce::frame::{Addresses, ECN_CE, Frame as Roce, IpHeader, Outer};
use crate::roce::qp::TrafficClass;
use crate::roce::wire::{Aeth, Bth, Extensions, ICRC_BYTES, Opcode, Packet, Qpn, Syndrome, UDP_PORT};
use std::net::Ipv4Addr;
use weir_dataplane::frame::{Frame, SizedFrames};
use weir_dataplane::types::{Burst, MIN_FRAME_BYTES, Mac};
use weir_dataplane::vlan::TAG_BYTES;

/// Header bytes a frame can hold: the longest are those of a credit message of RC Link, tagged, with IP.
pub const HEADER_ROOM: usize = 93;

// Where the headers are: Ethernet 14, IPv4 20, UDP 8, BTH 12.
const ETHERTYPE: usize = 12;
const IP: usize = 14;
const UDP: usize = 34;
const BTH: usize = 42;
const END: usize = 54;
const AETH_END: usize = END + 4;
/// Bytes behind the AETH of an answer of selective repeat: [`Sack`].
pub(super) const SACK_BYTES: u16 = 24;
const SACK_END: usize = AETH_END + SACK_BYTES as usize;
/// Bytes of RoCEv2 frames that are represented: what a switch reads to know that one is like another (a shortest frame on the
/// wire). What is behind the headers of a packet is zeros.
const HAVE: usize = MIN_FRAME_BYTES as usize;
/// Bytes of IP, UDP and BTH headers and the ICRC: what the IP length says beyond the payload.
const IP_OVERHEAD: usize = END - IP + ICRC_BYTES;

/// A frame of which only the first bytes are represented. A plain value: a copy is a frame of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HeaderFrame {
    len: u16,
    have: u8,
    bytes: [u8; HEADER_ROOM],
}

impl HeaderFrame {
    /// The first bytes of `bytes`, of a frame of `len` bytes (without FCS).
    pub fn new(bytes: &[u8], len: usize) -> Self {
        let have = bytes.len().min(HEADER_ROOM).min(len);
        let mut room = [0; HEADER_ROOM];
        room[..have].copy_from_slice(&bytes[..have]);
        Self { len: len.min(usize::from(u16::MAX)) as u16, have: have as u8, bytes: room }
    }
}

impl HeaderFrame {
    /// The first bytes, of which [`Frame::bytes`] are represented: so many can be copied without asking how many those are.
    #[inline]
    pub fn head<const N: usize>(&self) -> Option<&[u8; N]> {
        self.bytes.first_chunk()
    }
}

impl std::fmt::Debug for HeaderFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HeaderFrame({} B, {:02x?})", self.len, self.bytes())
    }
}

impl Frame for HeaderFrame {
    type Row = SizedFrames<Self>;
    type Staged = Burst<Self>;

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.have)]
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.have)]
    }

    #[inline]
    fn len(&self) -> usize {
        self.len.into()
    }

    fn share(&self) -> Option<Self> {
        Some(*self)
    }

    fn make_unique(&mut self) -> bool {
        true
    }

    fn insert_tag(&mut self, at: usize, tag: [u8; TAG_BYTES]) -> bool {
        let (have, end) = (usize::from(self.have), usize::from(self.have) + TAG_BYTES);
        let Some(len) = self.len.checked_add(TAG_BYTES as u16).filter(|_| at <= have) else { return false };
        // What no longer fits is represented no longer, like the payload.
        let kept = end.min(HEADER_ROOM);
        let Some(moved) = kept.checked_sub(at + TAG_BYTES) else { return false };
        self.bytes.copy_within(at..at + moved, at + TAG_BYTES);
        self.bytes[at..at + TAG_BYTES].copy_from_slice(&tag);
        (self.len, self.have) = (len, kept as u8);
        true
    }

    fn remove_tag(&mut self, at: usize) -> bool {
        let have = usize::from(self.have);
        if at + TAG_BYTES > have {
            return false;
        }
        self.bytes.copy_within(at + TAG_BYTES..have, at);
        self.bytes[have - TAG_BYTES..have].fill(0);
        (self.len, self.have) = (self.len - TAG_BYTES as u16, (have - TAG_BYTES) as u8);
        true
    }
}

/// How frames of a flow are addressed, in the direction of this end's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Own address.
    pub src: Mac,
    /// The peer's address.
    pub dst: Mac,
    /// Own IP address.
    pub src_ip: Ipv4Addr,
    /// The peer's IP address.
    pub dst_ip: Ipv4Addr,
    /// Queue pair of the peer.
    pub qpn: u32,
    /// UDP source port: entropy.
    pub src_port: u16,
}

impl Route {
    fn emit(&self, class: TrafficClass, bth: Bth, ext: Extensions, payload: &[u8]) -> HeaderFrame {
        let addresses = Addresses::V4 { src: self.src_ip, dst: self.dst_ip, id: 0, dont_fragment: true };
        let outer = Outer {
            dst: self.dst,
            src: self.src,
            vlan: None,
            ip: IpHeader { addresses, dscp: class.dscp, ecn: class.ecn, ttl: 64 },
            src_port: self.src_port,
            udp_checksum: 0,
        };
        let mut bytes = Vec::with_capacity(HEADER_ROOM + payload.len());
        Roce { outer, packet: Packet { bth, ext, payload } }.emit(&mut bytes);
        let len = bytes.len();
        HeaderFrame::new(&bytes, len)
    }

    /// A data frame to be completed by [`HeaderFrame::set_data`]: headers only.
    pub(super) fn data(&self, class: TrafficClass) -> HeaderFrame {
        let bth = Bth::new(Opcode::RC_SEND_ONLY, Qpn(self.qpn), Psn::new(0));
        let frame = self.emit(class, bth, Extensions::default(), &[]);
        frame.cut(END)
    }

    /// An answer (ACK or NAK) to be completed by [`HeaderFrame::set_answer`]: headers, and so many bytes for the sender's
    /// algorithm.
    pub(super) fn answer(&self, class: TrafficClass, more: u16) -> HeaderFrame {
        let ext = Extensions { aeth: Some(Aeth { syndrome: 0, msn: 0 }), ..Extensions::default() };
        let rest = [0; (INT_BYTES + SACK_BYTES) as usize];
        let rest = &rest[..usize::from(more).min(rest.len())];
        let frame = self.emit(class, Bth::new(Opcode::RC_ACK, Qpn(self.qpn), Psn::new(0)), ext, rest);
        frame.cut(AETH_END)
    }

    /// A congestion notification.
    pub(super) fn cnp(&self, class: TrafficClass) -> HeaderFrame {
        let bth = Bth { becn: true, ..Bth::new(Opcode::CNP, Qpn(self.qpn), Psn::new(0)) };
        self.emit(class, bth, Extensions::default(), &[0; 16])
    }
}

/// What the headers of a frame say to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketHeaders {
    pub opcode: Opcode,
    pub qpn: u32,
    pub psn: Psn,
    pub ack_req: bool,
    pub ce: bool,
    pub payload: u16,
    /// Of an answer.
    pub syndrome: Option<Syndrome>,
}

/// What an answer of selective repeat says besides the PSN before the first packet that is missing: on the wire a
/// byte of flags and PSN, a reserved byte and 24 bits, 128 bits, most significant byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sack {
    /// PSN after the highest that has arrived.
    pub end: Psn,
    /// Packets that have arrived beyond the first missing one.
    pub beyond: u32,
    /// Which of the packets from the first missing one on have arrived: bit 0 is that one.
    pub bits: u128,
    /// A packet that asked has come again since the last answer (bit 0 of the flags): one more was on its way than was missing.
    pub repeated: bool,
}

impl Sack {
    /// What is in the answer `bytes`; `None`: it is not represented so far, so it is none of selective repeat.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let own: &[u8; SACK_BYTES as usize] = bytes.get(AETH_END..)?.first_chunk()?;
        let bits = own[8..].iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte));
        Some(Self { end: Psn::new(be24(own, 1)), beyond: be24(own, 5), bits, repeated: own[0] & 1 == 1 })
    }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be24(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([0, bytes[at], bytes[at + 1], bytes[at + 2]])
}

/// The Internet checksum of an IPv4 header whose own field is zero.
fn ip_checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks_exact(2).map(|w| u32::from(be16(w, 0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

impl HeaderFrame {
    /// The same with zeros behind the first `headers` bytes, and so many of them that [`HAVE`] are there.
    fn cut(mut self, headers: usize) -> Self {
        self.bytes[headers..].fill(0);
        self.have = HAVE as u8;
        self
    }

    /// Completes an answer made by [`Route::answer`].
    pub(super) fn set_answer(&mut self, psn: Psn, syndrome: Syndrome) {
        self.bytes[BTH + 9..END].copy_from_slice(&psn.get().to_be_bytes()[1..]);
        self.bytes[END] = syndrome.encode();
    }

    /// The same, of selective repeat.
    pub(super) fn set_sack(&mut self, sack: &Sack) {
        let own = &mut self.bytes[AETH_END..SACK_END];
        own[0] = sack.repeated.into();
        own[1..4].copy_from_slice(&sack.end.get().to_be_bytes()[1..]);
        own[5..8].copy_from_slice(&sack.beyond.to_be_bytes()[1..]);
        own[8..].copy_from_slice(&sack.bits.to_be_bytes());
        self.have = self.have.max(SACK_END as u8);
    }

    /// Completes a data frame made by [`Route::data`], but for its [length](Self::set_payload).
    #[inline]
    pub(super) fn set_data(&mut self, opcode: Opcode, psn: Psn, ack_req: bool) {
        let b = &mut self.bytes;
        b[BTH] = opcode.0;
        b[BTH + 8] = u8::from(ack_req) << 7;
        b[BTH + 9..END].copy_from_slice(&psn.get().to_be_bytes()[1..]);
    }

    /// So much payload is in a data frame made by [`Route::data`].
    pub(super) fn set_payload(&mut self, payload: u16) {
        let pad = payload.wrapping_neg() & 3;
        let ip_len = usize::from(payload) + usize::from(pad) + IP_OVERHEAD;
        let b = &mut self.bytes;
        b[IP + 2..IP + 4].copy_from_slice(&(ip_len as u16).to_be_bytes());
        b[IP + 10..IP + 12].fill(0);
        let sum = ip_checksum(&b[IP..UDP]);
        b[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
        b[UDP + 4..UDP + 6].copy_from_slice(&((ip_len - (UDP - IP)) as u16).to_be_bytes());
        b[BTH + 1] = b[BTH + 1] & 0xcf | (pad as u8) << 4;
        self.len = (IP + ip_len) as u16;
    }
}

/// Reads a frame; `None`: not RoCEv2 over IPv4, or cut short.
pub(super) fn parse_headers(bytes: &[u8]) -> Option<PacketHeaders> {
    let head: &[u8; END] = bytes.first_chunk()?;
    let roce = be16(head, ETHERTYPE) == 0x0800
        && head[IP] == 0x45
        && head[IP + 9] == 17
        && be16(head, UDP + 2) == UDP_PORT;
    if !roce {
        return None;
    }
    let opcode = Opcode(head[BTH]);
    let pad = u16::from(head[BTH + 1] >> 4 & 3);
    let aeth = opcode.layout().is_some_and(|layout| layout.aeth);
    let payload = be16(head, UDP + 4).checked_sub((8 + END - BTH + ICRC_BYTES) as u16)?.checked_sub(pad)?;
    Some(PacketHeaders {
        opcode,
        qpn: be24(head, BTH + 5),
        psn: Psn::new(be24(head, BTH + 9)),
        ack_req: head[BTH + 8] >> 7 == 1,
        ce: head[IP + 1] & 3 == ECN_CE,
        payload,
        syndrome: if aeth { Some(Syndrome::decode(*bytes.get(END)?)) } else { None },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_comes_and_goes() {
        let bytes: Vec<u8> = (0..120).collect();
        for have in [54, 91, HEADER_ROOM] {
            let mut frame = HeaderFrame::new(&bytes[..have], 1000);
            assert!(frame.insert_tag(12, [0x81, 0, 1, 2]));
            assert_eq!((frame.len(), frame.bytes().len()), (1004, (have + 4).min(HEADER_ROOM)));
            assert_eq!(frame.bytes()[..18], [&bytes[..12], &[0x81, 0, 1, 2], &bytes[12..14]].concat());
            assert!(frame.remove_tag(12));
            assert_eq!((frame.len(), frame.bytes()), (1000, &bytes[..have.min(HEADER_ROOM - 4)]));
            assert!(!frame.insert_tag(200, [0; 4]) && !frame.remove_tag(200));
        }
    }
}
