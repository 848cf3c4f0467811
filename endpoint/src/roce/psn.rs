//! Packet sequence numbers: 24 bits, compared as serial numbers (IBTA 9.7.2, DEV-72).

/// Numbers there are.
pub const PSN_SPACE: u32 = 1 << 24;
const MASK: u32 = PSN_SPACE - 1;

/// A 24-bit packet sequence number. It has no order: only the distance between two is meaningful,
/// and only while they are less than half the space apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// The number made of the low 24 bits of `n`.
    pub const fn new(n: u32) -> Self {
        Self(n & MASK)
    }

    /// The 24 bits.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number `n` packets later.
    pub const fn plus(self, n: u64) -> Self {
        Self((self.0 as u64).wrapping_add(n) as u32 & MASK)
    }

    /// The number before this one.
    pub const fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1) & MASK)
    }

    /// How many packets this number is after `other`; negative if before. In -2^23 ..= 2^23 - 1.
    pub const fn since(self, other: Self) -> i32 {
        // The 24-bit difference moved to the top of a word, so that the sign bit is bit 23.
        (self.0.wrapping_sub(other.0) << 8) as i32 >> 8
    }
}

impl std::fmt::Display for Psn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:06x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn distances_cross_the_wrap() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.plus(1), Psn::new(0));
        assert_eq!(Psn::new(0).previous(), last);
        assert_eq!(Psn::new(4).since(last), 5);
        assert_eq!(last.since(Psn::new(4)), -5);
        assert_eq!(Psn::new(0x80_0000).since(Psn::new(0)), -0x80_0000);
        assert_eq!(Psn::new(0x7f_ffff).since(Psn::new(0)), 0x7f_ffff);
    }

    proptest! {
        /// The rule of DEV-72: a is not before b exactly when ((a - b) & 0xFFFFFF) < 0x800000.
        #[test]
        fn since_agrees_with_serial_arithmetic(a in 0..PSN_SPACE, b in 0..PSN_SPACE) {
            let (pa, pb) = (Psn::new(a), Psn::new(b));
            prop_assert_eq!(pa.since(pb) >= 0, (a.wrapping_sub(b) & MASK) < 0x80_0000);
            let ahead = (a.wrapping_sub(b) & MASK) as u64;
            prop_assert_eq!(pb.plus(ahead), pa);
        }
    }
}
