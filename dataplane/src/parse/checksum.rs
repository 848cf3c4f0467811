//! Checksums of TCP and UDP that a host left to its NIC, where the NIC is a pair of virtual interfaces and nobody made
//! them up.
//!
//! Linux writes the sum of the pseudo header into the field and leaves the rest to hardware (`CHECKSUM_PARTIAL`). Such a
//! frame is known by its field alone; a whole checksum that happens to equal that sum comes out as it was. What is
//! wrong in any other way stays wrong.

use super::headers::{IPV4, IPV6, TCP, UDP, be16, tags};
use crate::frame::Frame;

/// Makes up the checksum of a frame with standard headers, if only its pseudo header has been summed. `false`: the frame
/// was left as it is.
pub fn complete<F: Frame>(frame: &mut F) -> bool {
    let Some(partial) = Partial::of(frame.bytes()) else { return false };
    if !frame.make_unique() {
        return false;
    }
    partial.complete(frame.bytes_mut())
}

/// Where a sum is to be completed.
struct Partial {
    /// Transport header and payload.
    from: usize,
    to: usize,
    /// The checksum in them.
    field: usize,
    udp: bool,
}

impl Partial {
    fn of(bytes: &[u8]) -> Option<Self> {
        let tags = tags(bytes, 12, true)?;
        let ip = tags.payload;
        let (addresses, protocol, from, to) = match tags.ethertype {
            IPV4 => {
                let head = bytes.get(ip..)?.first_chunk::<20>()?;
                let fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff;
                let header = usize::from(head[0] & 15) * 4;
                if head[0] >> 4 != 4 || header < 20 || fragment != 0 {
                    return None;
                }
                (ip + 12..ip + 20, head[9], ip + header, ip + usize::from(be16(head, 2)?))
            }
            IPV6 => {
                let head = bytes.get(ip..)?.first_chunk::<40>()?;
                let payload = usize::from(be16(head, 4)?);
                (ip + 8..ip + 40, head[6], ip + 40, ip + 40 + payload)
            }
            _ => return None,
        };
        let at = match protocol {
            TCP => 16,
            UDP => 6,
            _ => return None,
        };
        let segment = bytes.get(from..to)?;
        let length = segment.len() as u32;
        let pseudo = fold(sum(bytes.get(addresses)?) + u32::from(protocol) + length);
        (be16(segment, at)? == pseudo).then_some(Self { from, to, field: from + at, udp: protocol == UDP })
    }

    /// RFC 1071; RFC 768: a checksum of 0 would mean none.
    fn complete(&self, bytes: &mut [u8]) -> bool {
        // The field holds the sum of the pseudo header: it takes part as it is.
        let Some(segment) = bytes.get(self.from..self.to) else { return false };
        let whole = !fold(sum(segment));
        let whole = if self.udp && whole == 0 { 0xffff } else { whole };
        let Some(field) = bytes.get_mut(self.field..self.field + 2) else { return false };
        field.copy_from_slice(&whole.to_be_bytes());
        true
    }
}

/// The 16-bit words of up to 64 KiB added up.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2);
    let odd = words.remainder().first().map_or(0, |last| u32::from(*last) << 8);
    words.fold(odd, |sum, word| sum + u32::from(u16::from_be_bytes([word[0], word[1]])))
}

/// With end-around carry, into 16 bits.
pub(super) fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::OwnedFrame;
    use proptest::prelude::*;

    /// A frame with its checksum left out, and where the field is.
    fn frame(v6: bool, udp: bool, tagged: bool, payload: &[u8]) -> (Vec<u8>, usize) {
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        if tagged {
            bytes.extend([0x81, 0, 0, 5]);
        }
        let (header, at, protocol) = if udp { (8, 6, UDP) } else { (20, 16, TCP) };
        let length = (header + payload.len()) as u16;
        let addresses = if v6 {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            bytes.extend(length.to_be_bytes());
            bytes.extend([protocol, 64]);
            32
        } else {
            bytes.extend([8, 0, 0x45, 0]);
            bytes.extend((20 + length).to_be_bytes());
            bytes.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            8
        };
        bytes.extend((0..addresses).map(|i| 10 + i));
        let from = bytes.len();
        bytes.extend(vec![0x5a; header]);
        let pseudo =
            fold(sum(&bytes[from - usize::from(addresses)..from]) + u32::from(protocol) + u32::from(length));
        bytes.extend(payload);
        bytes[from + at..from + at + 2].copy_from_slice(&pseudo.to_be_bytes());
        (bytes, from + at)
    }

    /// What a receiver does: pseudo header and segment must add up to all ones.
    fn is_valid(bytes: &[u8], v6: bool, udp: bool, field: usize) -> bool {
        let (from, protocol) = if udp { (field - 6, UDP) } else { (field - 16, TCP) };
        let addresses = if v6 { 32 } else { 8 };
        let segment = &bytes[from..];
        let length = segment.len() as u32;
        fold(sum(&bytes[from - addresses..from]) + u32::from(protocol) + length + sum(segment)) == 0xffff
    }

    proptest! {
        #[test]
        fn what_was_left_to_a_nic_is_whole_afterwards(
            v6: bool, udp: bool, tagged: bool,
            payload in proptest::collection::vec(any::<u8>(), 0..200),
            trailer in proptest::collection::vec(any::<u8>(), 0..8),
        ) {
            let (bytes, field) = frame(v6, udp, tagged, &payload);
            let sent = bytes.len();
            let mut frame = OwnedFrame::new([&bytes[..], &trailer].concat());
            prop_assert!(complete(&mut frame));
            prop_assert!(is_valid(&frame.bytes()[..sent], v6, udp, field));
            // Nothing else was touched, and there is nothing left to do; padding is no part of it.
            let mut others = frame.bytes().to_vec();
            others[field..field + 2].copy_from_slice(&bytes[field..field + 2]);
            prop_assert_eq!(&others[..sent], &bytes[..]);
            prop_assert_eq!(&others[sent..], &trailer[..]);
            let before = frame.bytes().to_vec();
            complete(&mut frame);
            prop_assert_eq!(frame.bytes(), &before[..]);
        }

        #[test]
        fn a_checksum_that_is_wrong_stays_wrong(error in 1u16.., udp: bool) {
            let (mut bytes, field) = frame(false, udp, false, b"payload");
            let partial = u16::from_be_bytes([bytes[field], bytes[field + 1]]);
            bytes[field..field + 2].copy_from_slice(&partial.wrapping_add(error).to_be_bytes());
            let mut frame = OwnedFrame::new(bytes.clone());
            prop_assert!(!complete(&mut frame));
            prop_assert_eq!(frame.bytes(), &bytes[..]);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            complete(&mut OwnedFrame::new(bytes));
        }
    }

    #[test]
    fn fragments_and_cut_frames_are_left_alone() {
        for cut in [1, 7, 40] {
            let (bytes, _) = frame(false, false, false, b"some payload");
            assert!(!complete(&mut OwnedFrame::new(&bytes[..bytes.len() - cut])));
        }
        let (mut bytes, _) = frame(false, true, false, b"some payload");
        bytes[20] |= 0x20;
        assert!(!complete(&mut OwnedFrame::new(bytes)));
    }
}
