//! Congestion marking: when a frame is marked, and how.
//!
//! The probability is linear in the depth from Kmin to Kmax up to Pmax, and 1 above Kmax; only ECT becomes CE
//! (RFC 3168), the IPv4 checksum follows by RFC 1624, the RoCE ICRC masks the field and stays valid. REQ A9;
//! DEV-27, DEV-28; scenarios F1 to F9. All integers: same seed, same marks.

use crate::parse::EcnPlace;

/// One in the fixed-point format of probabilities: 32 fractional bits.
pub const ONE_Q32: u64 = 1 << 32;

/// ECN code point "congestion experienced".
pub const CE: u8 = 0b11;

/// Which depth decides (DEV-28, F5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MarkAt {
    /// What the departing frame leaves behind: the signal is as fresh as it can be.
    #[default]
    Dequeue,
    /// What the arriving frame finds, itself not counted.
    Enqueue,
}

/// Marking profile of a queue. Depths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wred {
    /// Up to this depth nothing is marked.
    pub kmin: u64,
    /// Above this depth every ECT frame is marked. Not below `kmin`; equal to it gives a step.
    pub kmax: u64,
    /// Probability reached at `kmax`, [`ONE_Q32`] is 1.
    pub pmax: u64,
    /// Which depth decides.
    pub at: MarkAt,
}

impl Wred {
    /// No depth is deep enough.
    pub const OFF: Wred = Wred { kmin: u64::MAX, kmax: u64::MAX, pmax: 0, at: MarkAt::Dequeue };

    /// The AQM signals congestion at `depth` bytes. `random` is 32 uniform bits. Exact: between Kmin and Kmax
    /// the signal is given for the share of the 2^32 values that is pmax * (depth - kmin) / (kmax - kmin), rounded up.
    #[inline]
    pub fn decide(&self, depth: u64, random: u32) -> bool {
        if depth <= self.kmin {
            return false;
        }
        if depth > self.kmax {
            return true;
        }
        let scaled = u128::from(random) * u128::from(self.kmax - self.kmin);
        scaled < u128::from(self.pmax) * u128::from(depth - self.kmin)
    }

    /// Share of the 2^32 random values for which it signals at `depth`: it says yes to all values below one of them.
    pub fn share(&self, depth: u64) -> u64 {
        let (mut low, mut high) = (0, ONE_Q32);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.decide(depth, middle as u32) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// A probability in millionths as 32 fractional bits: 50_000 is 5 %. Above one million is one.
pub fn q32_from_millionths(millionths: u32) -> u64 {
    u64::from(millionths.min(1_000_000)) * ONE_Q32 / 1_000_000
}

/// The ECN bits of a frame, where it has any.
pub fn codepoint(frame: &[u8], place: EcnPlace) -> Option<u8> {
    let (at, shift) = match place {
        EcnPlace::None => return None,
        EcnPlace::Ipv4(at) => (usize::from(at) + 1, 0),
        EcnPlace::Ipv6(at) => (usize::from(at) + 1, 4),
        EcnPlace::Tc(at) => (usize::from(at), 0),
    };
    frame.get(at).map(|byte| byte >> shift & CE)
}

/// Turns ECT(0) or ECT(1) into CE. `true`: the frame was changed. Not-ECT, CE, no ECN field or a frame shorter than
/// its header: `false` and nothing is touched.
#[inline]
pub fn mark(frame: &mut [u8], place: EcnPlace) -> bool {
    match place {
        EcnPlace::None => false,
        EcnPlace::Ipv4(at) => mark_ipv4(frame, usize::from(at)),
        EcnPlace::Ipv6(at) => set_ce(frame.get_mut(usize::from(at) + 1), 4),
        EcnPlace::Tc(at) => set_ce(frame.get_mut(usize::from(at)), 0),
    }
}

/// Sets the two bits at `shift` if they say ECT.
#[inline]
fn set_ce(byte: Option<&mut u8>, shift: u8) -> bool {
    match byte {
        Some(byte) if matches!(*byte >> shift & CE, 1 | 2) => {
            *byte |= CE << shift;
            true
        }
        _ => false,
    }
}

#[inline]
fn mark_ipv4(frame: &mut [u8], at: usize) -> bool {
    let Some(header) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<20>) else {
        return false;
    };
    let old = u16::from_be_bytes([header[0], header[1]]);
    if !set_ce(header.get_mut(1), 0) {
        return false;
    }
    let new = u16::from_be_bytes([header[0], header[1]]);
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    let updated = update_checksum(checksum, old, new).to_be_bytes();
    header[10] = updated[0];
    header[11] = updated[1];
    true
}

/// Internet checksum after one 16-bit word changed from `old` to `new`: RFC 1624 equation 3,
/// HC' = ~(~HC + ~m + m'), which has no corner case at 0x0000 and 0xffff.
#[inline]
fn update_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
#[path = "ecn_tests.rs"]
mod tests;
