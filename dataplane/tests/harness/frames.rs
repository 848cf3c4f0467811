//! Test frames. The last twelve bytes of each carry its flow and sequence number.

use super::oracle::internet_checksum;
use weir_dataplane::types::Mac;

/// Address of the station on port `n`.
pub fn host(n: u16) -> Mac {
    Mac::from_u64(0x0200_0000_0000 + u64::from(n))
}

fn ethernet(from: Mac, to: Mac, ethertype: u16, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[..6].copy_from_slice(&to.0);
    bytes[6..12].copy_from_slice(&from.0);
    bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
    bytes
}

/// IPv4 with `options` words of options, right checksum, a protocol no parser knows.
pub fn ipv4_with_options(from: Mac, to: Mac, dscp: u8, ecn: u8, len: usize, options: usize) -> Vec<u8> {
    let mut bytes = ethernet(from, to, 0x0800, len);
    let header = 20 + 4 * options;
    bytes[14] = 0x40 | (header / 4) as u8;
    bytes[15] = dscp << 2 | ecn;
    bytes[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    bytes[22] = 64;
    bytes[23] = 253;
    bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    bytes[34..14 + header].fill(1);
    let sum = internet_checksum(&bytes[14..14 + header]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// IPv4 without options.
pub fn ipv4(from: Mac, to: Mac, dscp: u8, ecn: u8, len: usize) -> Vec<u8> {
    ipv4_with_options(from, to, dscp, ecn, len, 0)
}

/// IPv6; `len` at least 66.
pub fn ipv6(from: Mac, to: Mac, dscp: u8, ecn: u8, len: usize) -> Vec<u8> {
    let mut bytes = ethernet(from, to, 0x86dd, len);
    let class = dscp << 2 | ecn;
    bytes[14] = 0x60 | class >> 4;
    bytes[15] = class << 4;
    bytes[18..20].copy_from_slice(&(len as u16 - 54).to_be_bytes());
    bytes[20..22].copy_from_slice(&[59, 64]);
    bytes
}

/// Neither IP nor tagged.
pub fn other(from: Mac, to: Mac, len: usize) -> Vec<u8> {
    ethernet(from, to, 0x88b7, len)
}

/// The same frame behind one more VLAN tag with VLAN id 0.
pub fn tagged(frame: &[u8], tpid: u16, pcp: u8) -> Vec<u8> {
    let mut bytes = frame[..12].to_vec();
    bytes.extend(tpid.to_be_bytes());
    bytes.extend([pcp << 5, 0]);
    bytes.extend(&frame[12..]);
    bytes
}

/// Writes flow and sequence number.
pub fn stamp(frame: &mut [u8], flow: u32, seq: u64) {
    let at = frame.len() - 12;
    frame[at..at + 4].copy_from_slice(&flow.to_be_bytes());
    frame[at + 4..].copy_from_slice(&seq.to_be_bytes());
}

/// Reads flow and sequence number.
pub fn stamp_of(frame: &[u8]) -> (u32, u64) {
    let (flow, seq) = frame[frame.len() - 12..].split_at(4);
    (u32::from_be_bytes(flow.try_into().unwrap()), u64::from_be_bytes(seq.try_into().unwrap()))
}
