//! The invariant CRC of RoCEv2 (IBTA annex A17.3.3).
//!
//! CRC-32 as in Ethernet over eight bytes of ones (the stand-in for an InfiniBand LRH) and the
//! packet from its IP header to the last pad byte, with every field a router or switch may rewrite
//! replaced by ones: so it survives TTL, TOS/ECN and checksum updates, and FECN/BECN marks.

use crc32fast::Hasher;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod clmul;

/// Register of the CRC after the eight bytes of ones that stand in for the LRH.
const LRH_REGISTER: u32 = 0xdebb_20e3;
const UDP: usize = 8;
const BTH: usize = 12;
/// Longest header with bytes that are replaced: IPv6, UDP, and of the BTH what comes before its fifth byte.
const MASKED: usize = 40 + UDP + 5;

/// What of a packet is replaced before its CRC is taken.
#[derive(Debug)]
struct Masks {
    /// Bytes of IP header, UDP and BTH.
    least: usize,
    /// Bits that become ones.
    ones: [u8; MASKED],
}

static IPV4: Masks = masks(20, 0, &[1, 8, 10, 11, 20 + 6, 20 + 7, 20 + UDP + 4]);
static IPV6: Masks = masks(40, 0x0f, &[1, 2, 3, 7, 40 + 6, 40 + 7, 40 + UDP + 4]);

/// Of the first byte these bits, of others all: TOS or traffic class and flow label, TTL, checksums, and the BTH's marks.
const fn masks(ip: usize, first: u8, whole: &[usize]) -> Masks {
    let mut ones = [0; MASKED];
    ones[0] = first;
    let mut i = 0;
    while i < whole.len() {
        ones[whole[i]] = 0xff;
        i += 1;
    }
    Masks { least: ip + UDP + BTH, ones }
}

impl Masks {
    /// Of the packet that begins so.
    #[inline]
    fn of(first: u8) -> Option<&'static Self> {
        match first {
            0x45 => Some(&IPV4),
            b if b >> 4 == 6 => Some(&IPV6),
            _ => None,
        }
    }
}

/// The four bytes that follow `packet` on the wire. `packet` runs from the first byte of the IP
/// header to the last byte before the ICRC.
///
/// `None`: not IPv4 without options or IPv6 without extension headers, or shorter than IP, UDP and
/// BTH together.
pub fn icrc(packet: &[u8]) -> Option<[u8; 4]> {
    head(packet).map(u32::to_le_bytes)
}

/// CRC of a packet that starts with its IP header: the whole ICRC as a number, or the part of
/// it that [`Append`] joins with the CRC of a payload. `None` as for [`icrc`].
pub fn head(packet: &[u8]) -> Option<u32> {
    let masks = Masks::of(*packet.first()?).filter(|masks| packet.len() >= masks.least)?;
    let (head, rest) = packet.split_at(packet.len().min(MASKED));
    let mut masked = masks.ones;
    masked.iter_mut().zip(head).for_each(|(byte, head)| *byte |= head);
    let mut crc = Hasher::new_with_initial(!LRH_REGISTER);
    crc.update(&masked[..head.len()]);
    crc.update(rest);
    Some(crc.finalize())
}

/// The same of the packet in `frame[ip..end]`, faster where the machine multiplies without carry: what lies in front of the
/// packet makes its blocks whole.
#[inline]
pub fn of_frame(frame: &[u8], ip: usize, end: usize) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if let Some(crc) = clmul::Clmul::detect().and_then(|clmul| clmul.icrc(frame, ip, end)) {
        return Some(crc);
    }
    head(frame.get(ip..end)?)
}

/// CRC-32 of a payload and its pad bytes by themselves.
pub fn payload(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// CRC of what `crc` is of, and of `rest` behind it.
pub fn extended(crc: u32, rest: &[u8]) -> u32 {
    let mut crc = Hasher::new_with_initial(crc);
    crc.update(rest);
    crc.finalize()
}

/// Joins CRCs where what comes second has a length known beforehand: CRC(A, B) = shift(CRC(A)) xor CRC(B), and shift is
/// linear. So a payload sent to many is read once.
#[derive(Clone)]
pub struct Append {
    len: usize,
    /// What each value of each byte of a CRC becomes.
    shifted: Box<[[u32; 256]; 4]>,
}

impl std::fmt::Debug for Append {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Append").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Append {
    /// For `len` bytes that come second.
    pub fn new(len: usize) -> Self {
        let zeros = Hasher::new_with_initial_len(0, len as u64);
        let bit: [u32; 32] = std::array::from_fn(|i| {
            let mut crc = Hasher::new_with_initial_len(1 << i, 0);
            crc.combine(&zeros);
            crc.finalize()
        });
        let value = |byte: usize, v: usize| {
            (0..8).filter(|b| v >> b & 1 == 1).fold(0, |crc, b| crc ^ bit[8 * byte + b])
        };
        let shifted = Box::new(std::array::from_fn(|byte| std::array::from_fn(|v| value(byte, v))));
        Self { len, shifted }
    }

    /// Bytes of what comes second.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nothing comes second.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// CRC of both parts, from those of each.
    #[inline]
    pub fn join(&self, first: u32, second: u32) -> u32 {
        let [a, b, c, d] = first.to_le_bytes().map(usize::from);
        self.shifted[0][a] ^ self.shifted[1][b] ^ self.shifted[2][c] ^ self.shifted[3][d] ^ second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example_of_an_ack() {
        let packet = [
            0x45, 0x00, 0x00, 0x30, 0xac, 0xd9, 0x40, 0x00, 0x40, 0x11, 0x78, 0xe5, 0x0a, 0, 0, 1, 0x0a, 0,
            0, 0xfe, 0xd1, 0x00, 0x12, 0xb7, 0x00, 0x1c, 0, 0, 0x11, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0, 0, 0,
            0x1f, 0, 0, 1,
        ];
        assert_eq!(icrc(&packet), Some([0xc1, 0xc5, 0xaa, 0x0d]));
    }

    #[test]
    fn the_stand_in_constant_is_the_crc_of_eight_ones() {
        assert_eq!(!LRH_REGISTER, crc32fast::hash(&[0xff; 8]));
    }

    /// The recipe by the letter, for every length around the limits of blocks.
    #[test]
    fn every_length_gives_the_crc_of_the_masked_packet() {
        // Miri takes a second for a few of them.
        let step = if cfg!(miri) { 41 } else { 1 };
        for first in [0x45, 0x60] {
            for len in (40..700).chain(1060..1080).chain(4130..4150).step_by(step) {
                let packet: Vec<u8> =
                    (0..len).map(|i| if i == 0 { first } else { ((i * 37) >> 3) as u8 }).collect();
                let ip = if first == 0x45 { 20 } else { 40 };
                let mut masked = [vec![0xff; 8], packet.clone()].concat();
                let ones: &[usize] =
                    if ip == 20 { &[1, 8, 10, 11, 26, 27, 32] } else { &[1, 2, 3, 7, 46, 47, 52] };
                let crc = (len >= ip + UDP + BTH).then(|| {
                    ones.iter().for_each(|at| masked[8 + at] = 0xff);
                    masked[8] |= if ip == 40 { 0x0f } else { 0 };
                    crc32fast::hash(&masked)
                });
                assert_eq!(head(&packet), crc, "{len} bytes");
                for before in [0, 14, 18] {
                    let frame = [&vec![0xa5; before][..], &packet].concat();
                    let (ip, end) = (before, frame.len());
                    assert_eq!(of_frame(&frame, ip, end), crc, "{len} bytes behind {before}");
                    #[cfg(target_arch = "x86_64")]
                    for clmul in clmul::Clmul::all() {
                        let fast = clmul.icrc(&frame, ip, end);
                        let can = before >= len.wrapping_neg() % 16;
                        assert_eq!(fast, crc.filter(|_| can), "{clmul:?}: {len} bytes behind {before}");
                    }
                }
            }
        }
    }

    #[test]
    fn parts_join_to_the_crc_of_the_whole() {
        let packet: Vec<u8> =
            (0..44 + 4096u32).map(|i| if i == 0 { 0x45 } else { ((i * 37) >> 3) as u8 }).collect();
        for len in [0, 4, 16, 256, 1024, 4096] {
            let (whole, first) = (icrc(&packet[..44 + len]).unwrap(), head(&packet[..44]).unwrap());
            let joined = Append::new(len).join(first, payload(&packet[44..44 + len]));
            assert_eq!(joined.to_le_bytes(), whole, "{len} bytes");
            assert_eq!(extended(first, &packet[44..44 + len]), joined);
        }
    }

    #[test]
    fn what_is_too_short_or_not_ip_has_no_icrc() {
        assert_eq!(icrc(&[]), None);
        assert_eq!(icrc(&[0x45; 39]), None);
        assert_eq!(icrc(&[0x46; 80]), None);
        assert_eq!(icrc(&[0x60; 59]), None);
        assert!(icrc(&[0x60; 60]).is_some());
    }
}
