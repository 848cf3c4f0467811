//! ICMP echo: a host answers who asks whether it is there (RFC 792).

use crate::checksum::ones_complement_sum;
use std::net::Ipv4Addr;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_VLAN: [u8; 2] = [0x81, 0x00];
const IP_HEADER: usize = 20;
const PROTO_ICMP: u8 = 1;
const TTL: u8 = 64;
const REQUEST: u8 = 8;
const REPLY: u8 = 0;

/// The answer to a frame that is an echo request to `own`; `None`: it is none, or a damaged one. Options, fragments and
/// requests to groups are not answered.
pub(super) fn reply(frame: &[u8], own: Ipv4Addr) -> Option<Vec<u8>> {
    let tagged = frame.get(12..14)? == ETHERTYPE_VLAN;
    let ip_at = if tagged { 18 } else { 14 };
    if *frame.get(ip_at - 2..ip_at)? != ETHERTYPE_IPV4 || frame[0] & 1 == 1 {
        return None;
    }
    let ip = frame.get(ip_at..)?;
    let header: &[u8; IP_HEADER] = ip.first_chunk()?;
    let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let whole = header[0] == 0x45 && header[6] & 0x3f == 0 && header[7] == 0 && header[9] == PROTO_ICMP;
    if !whole || header[16..] != own.octets() || ones_complement_sum(header) != 0xffff {
        return None;
    }
    let icmp = ip.get(IP_HEADER..len)?;
    let [REQUEST, 0, ..] = icmp else { return None };
    // An odd byte at the end counts as the upper half of a word.
    let mut padded = icmp.to_vec();
    padded.resize(icmp.len().next_multiple_of(2), 0);
    if icmp.len() < 8 || ones_complement_sum(&padded) != 0xffff {
        return None;
    }
    let mut out = frame.to_vec();
    let (dst, src) = (&frame[..6], &frame[6..12]);
    out[..6].copy_from_slice(src);
    out[6..12].copy_from_slice(dst);
    let ip = &mut out[ip_at..];
    ip[12..16].copy_from_slice(&header[16..]);
    ip[16..20].copy_from_slice(&header[12..16]);
    ip[8] = TTL;
    seal(&mut ip[..IP_HEADER], 10, &mut Vec::new());
    ip[IP_HEADER] = REPLY;
    seal(&mut ip[IP_HEADER..len], 2, &mut padded);
    Some(out)
}

/// Writes the checksum of `bytes` into them at `at`.
fn seal(bytes: &mut [u8], at: usize, scratch: &mut Vec<u8>) {
    bytes[at..at + 2].fill(0);
    scratch.clear();
    scratch.extend_from_slice(bytes);
    scratch.resize(bytes.len().next_multiple_of(2), 0);
    let checksum = !ones_complement_sum(scratch);
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn request(tagged: bool, data: usize) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        if tagged {
            frame.extend([0x81, 0, 0x60, 7]);
        }
        frame.extend([0x08, 0]);
        let at = frame.len();
        let len = (28 + data) as u16;
        frame.extend([
            0x45,
            0x68,
            (len >> 8) as u8,
            len as u8,
            1,
            2,
            0x40,
            0,
            9,
            1,
            0,
            0,
            10,
            0,
            0,
            1,
            10,
            0,
            0,
            2,
        ]);
        frame.extend([8, 0, 0, 0, 0x12, 0x34, 0, 1]);
        frame.extend((0..data).map(|n| n as u8));
        seal(&mut frame[at..at + 20], 10, &mut Vec::new());
        seal(&mut frame[at + 20..], 2, &mut Vec::new());
        frame.resize(frame.len().max(60), 0xaa);
        frame
    }

    #[test]
    fn an_echo_request_comes_back_with_its_data_and_right_checksums() {
        for (tagged, data) in [(false, 56), (true, 56), (false, 1), (false, 1400)] {
            let asked = request(tagged, data);
            let answer = reply(&asked, OWN).unwrap();
            let ip = if tagged { 18 } else { 14 };
            assert_eq!(answer.len(), asked.len());
            assert_eq!((&answer[..6], &answer[6..12]), (&asked[6..12], &asked[..6]));
            assert_eq!(answer[12..ip + 2], asked[12..ip + 2], "tag, priority and DSCP as they came");
            assert_eq!(answer[ip + 12..ip + 20], [10, 0, 0, 2, 10, 0, 0, 1]);
            assert_eq!(ones_complement_sum(&answer[ip..ip + 20]), 0xffff);
            assert_eq!(answer[ip + 20], REPLY);
            assert_eq!(answer[ip + 24..], asked[ip + 24..]);
            let mut icmp = answer[ip + 20..ip + 28 + data].to_vec();
            icmp.resize(icmp.len().next_multiple_of(2), 0);
            assert_eq!(ones_complement_sum(&icmp), 0xffff);
        }
        assert_eq!(reply(&request(false, 8), Ipv4Addr::new(10, 0, 0, 3)), None);
    }

    proptest! {
        #[test]
        fn a_damaged_request_is_not_answered(at in 14usize..60, bit in 0u8..8, cut in 0usize..60) {
            let mut frame = request(false, 18);
            prop_assert_eq!(reply(&frame[..cut], OWN), None);
            frame[at] ^= 1 << bit;
            prop_assert_eq!(reply(&frame, OWN), None);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), shape in any::<bool>()) {
            let mut bytes = bytes;
            if shape && bytes.len() > 34 {
                bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
                bytes[23] = PROTO_ICMP;
            }
            let _ = reply(&bytes, OWN);
        }
    }
}
