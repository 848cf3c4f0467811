//! The Internet checksum.

/// Ones' complement sum of 16-bit words (RFC 1071); 0xffff over a header with a right checksum.
pub(crate) fn ones_complement_sum(header: &[u8]) -> u16 {
    let words = header.as_chunks::<2>().0;
    let sum: u32 = words.iter().map(|&w| u32::from(u16::from_be_bytes(w))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}
