//! Headers of the many frames of one path: written once, and filled in where frames differ.

use super::frame::Frame;
use super::icrc;
use super::qp::{Path, TrafficClass};
use super::wire::{BTH_BYTES, Bth, Extensions, ICRC_BYTES, Opcode, Packet, Reth};
use crate::rc::psn::Psn;

const UDP_BYTES: usize = 8;

/// Room for the headers of a frame: Ethernet with a tag, IPv6, UDP, BTH, RETH and a word are 98 bytes.
const ROOM: usize = 112;

/// What comes before the payload of one frame.
#[derive(Clone, Debug)]
pub struct Headers {
    bytes: [u8; ROOM],
    len: usize,
    /// Where the IP header starts.
    ip: usize,
}

impl Default for Headers {
    fn default() -> Self {
        Self { bytes: [0; ROOM], len: 0, ip: 0 }
    }
}

impl Headers {
    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// CRC of them, the ICRC's first part ([`icrc::head`]).
    #[inline]
    pub fn icrc(&self) -> Option<u32> {
        icrc::of_frame(&self.bytes, self.ip, self.len)
    }
}

/// Headers of a path, but for opcode, PSN, lengths, identification and extension headers.
#[derive(Clone, Debug)]
pub struct Head {
    template: Headers,
    /// Where the UDP header starts.
    udp: usize,
    /// Sum of the IPv4 header's 16-bit words, without checksum, length and identification.
    sum: Option<u32>,
}

/// What differs from frame to frame.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// With the extension headers that `word` stands for.
    pub opcode: Opcode,
    /// Sequence number.
    pub psn: Psn,
    /// Asks for an acknowledgement.
    pub ack_req: bool,
    /// Where a WRITE goes.
    pub reth: Option<Reth>,
    /// AETH or immediate data.
    pub word: Option<u32>,
    /// Bytes of payload, without pad.
    pub len: usize,
    /// IP identification.
    pub id: u16,
}

impl Head {
    /// For frames on this path in this class; `None` if its addresses are of two families.
    pub fn new(path: &Path, class: TrafficClass, pkey: u16) -> Option<Self> {
        Self::with_becn(path, class, pkey, false)
    }

    /// For CNPs on this path.
    pub fn of_cnps(path: &Path, pkey: u16) -> Option<Self> {
        Self::with_becn(path, path.cnp, pkey, true)
    }

    fn with_becn(path: &Path, class: TrafficClass, pkey: u16, becn: bool) -> Option<Self> {
        let bth = Bth { pkey, becn, ..Bth::new(Opcode::RC_SEND_ONLY, path.dest_qp, Psn::default()) };
        let packet = Packet { bth, ext: Extensions::default(), payload: &[] };
        let mut bytes = Vec::new();
        let ip = Frame { outer: path.outer(class, 0)?, packet }.emit_head(&mut bytes);
        let udp = bytes.len() - BTH_BYTES - UDP_BYTES;
        let sum = path.src_ip.is_ipv4().then(|| {
            let words = bytes[ip..udp].as_chunks::<2>().0.iter().map(|w| u32::from(u16::from_be_bytes(*w)));
            // Length, identification, checksum.
            words.enumerate().filter(|(at, _)| ![1, 2, 5].contains(at)).map(|(_, word)| word).sum()
        });
        let mut template = Headers { len: bytes.len(), ip, ..Headers::default() };
        template.bytes.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        Some(Self { template, udp, sum })
    }

    /// Writes it over `out`.
    #[inline]
    pub fn write(&self, fields: &Fields, out: &mut Headers) {
        out.clone_from(&self.template);
        let Headers { bytes, len, ip } = out;
        if let Some(reth) = fields.reth
            && let Some(room) = bytes[*len..].first_chunk_mut()
        {
            *room = reth.bytes();
            *len += room.len();
        }
        if let Some(word) = fields.word
            && let Some(room) = bytes[*len..].first_chunk_mut()
        {
            *room = word.to_be_bytes();
            *len += room.len();
        }
        let padded = fields.len.next_multiple_of(4);
        let len = (*len - self.udp + padded + ICRC_BYTES) as u16;
        let (network, rest) = bytes.split_at_mut(self.udp);
        if let Some(sum) = self.sum {
            let len = len + (self.udp - *ip) as u16;
            let sum = sum + u32::from(len) + u32::from(fields.id);
            let sum = (sum & 0xffff) + (sum >> 16);
            let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
            if let Some(header) = network[*ip..].first_chunk_mut::<20>() {
                header[2..4].copy_from_slice(&len.to_be_bytes());
                header[4..6].copy_from_slice(&fields.id.to_be_bytes());
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
        } else {
            network[*ip + 4..*ip + 6].copy_from_slice(&len.to_be_bytes());
        }
        if let Some(transport) = rest.first_chunk_mut::<{ UDP_BYTES + BTH_BYTES }>() {
            transport[4..6].copy_from_slice(&len.to_be_bytes());
            transport[8] = fields.opcode.0;
            transport[9] |= ((padded - fields.len) as u8) << 4;
            transport[16] = u8::from(fields.ack_req) << 7;
            transport[17..20].copy_from_slice(&fields.psn.get().to_be_bytes()[1..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Aeth, Qpn};
    use super::*;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use weir_dataplane::types::Mac;

    proptest! {
        /// The same bytes as a frame written field by field.
        #[test]
        fn a_head_is_what_a_frame_begins_with(
            numbers in any::<[u32; 4]>(), id in any::<u16>(), len in 0usize..4096,
            kind in 0usize..6, v6 in any::<bool>(), vlan in any::<bool>(), ack_req in any::<bool>(),
        ) {
            let ip = |n: u32| -> IpAddr {
                if v6 { Ipv6Addr::from(u128::from(n) << 64 | 7).into() } else { Ipv4Addr::from(n).into() }
            };
            let [a, b, psn, word] = numbers;
            let ends = ((Mac([2; 6]), ip(a)), (Mac([4; 6]), ip(b)));
            let path = Path { vlan: vlan.then_some(9), ..Path::new(ends.0, ends.1, Qpn(a & 0xff_ffff)) };
            let opcode = [
                Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_ONLY_IMM, Opcode::RC_ACK, Opcode::CNP, Opcode::RC_WRITE_ONLY,
                Opcode::RC_WRITE_ONLY_IMM,
            ][kind];
            let reth = (kind > 3).then_some(Reth { va: u64::from(a) << 32 | 5, rkey: b, len: len as u32 });
            let aeth = Aeth { syndrome: (word >> 24) as u8, msn: word & 0xff_ffff };
            let ext = Extensions {
                imm: matches!(kind, 1 | 5).then_some(word),
                reth,
                aeth: (kind == 2).then_some(aeth),
                ..Extensions::default()
            };
            let psn = Psn::new(psn);
            let bth = Bth { pkey: 0x8003, ack_req, becn: kind == 3, ..Bth::new(opcode, path.dest_qp, psn) };
            let payload = vec![0; len];
            let class = if kind == 3 { path.cnp } else { path.data };
            let outer = path.outer(class, if v6 { 0 } else { id }).unwrap();
            let (mut whole, mut written) = (Vec::new(), Headers::default());
            let start = Frame { outer, packet: Packet { bth, ext, payload: &payload } }.emit_head(&mut whole);
            let head =
                if kind == 3 { Head::of_cnps(&path, 0x8003) } else { Head::new(&path, class, 0x8003) }.unwrap();
            let word = matches!(kind, 1 | 2 | 5).then_some(word);
            let fields = Fields { opcode, psn, ack_req, reth, word, len, id };
            head.write(&fields, &mut written);
            prop_assert_eq!(written.as_slice(), &whole[..]);
            prop_assert_eq!(written.icrc(), icrc::head(&whole[start..]));
        }
    }
}
