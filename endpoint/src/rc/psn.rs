//! Packet sequence numbers, compared as serial numbers (IBTA 9.7.2, DEV-72).

/// A packet sequence number of `BITS` bits, 2 to 31: 24 in RoCE, 12 in RC Link. It has no order: only the distance between
/// two is meaningful, and only while they are less than half the space apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Psn<const BITS: u32 = 24>(u32);

impl<const BITS: u32> Psn<BITS> {
    /// Numbers there are.
    pub const SPACE: u32 = 1 << BITS;
    const MASK: u32 = Self::SPACE - 1;

    /// The number made of the low bits of `n`.
    pub const fn new(n: u32) -> Self {
        Self(n & Self::MASK)
    }

    /// The bits.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number `n` packets later.
    pub const fn plus(self, n: u64) -> Self {
        Self((self.0 as u64).wrapping_add(n) as u32 & Self::MASK)
    }

    /// The number before this one.
    pub const fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1) & Self::MASK)
    }

    /// How many packets this number is after `other`; negative if before. At least minus half the space, and less than half.
    pub const fn since(self, other: Self) -> i32 {
        // The difference moved to the top of a word, so that its highest bit is the sign.
        (self.0.wrapping_sub(other.0) << (32 - BITS)) as i32 >> (32 - BITS)
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
        let last = Psn::<24>::new(0xff_ffff);
        assert_eq!(last.plus(1), Psn::new(0));
        assert_eq!(Psn::<24>::new(0).previous(), last);
        assert_eq!(Psn::<24>::new(4).since(last), 5);
        assert_eq!(last.since(Psn::new(4)), -5);
        assert_eq!(Psn::<24>::new(0x80_0000).since(Psn::new(0)), -0x80_0000);
        assert_eq!(Psn::<24>::new(0x7f_ffff).since(Psn::new(0)), 0x7f_ffff);
    }

    /// The rule of DEV-72, for 24 bits: a is not before b exactly when ((a - b) & 0xFFFFFF) < 0x800000.
    fn agrees_with_serial_arithmetic<const BITS: u32>(a: u32, b: u32) {
        let (pa, pb) = (Psn::<BITS>::new(a), Psn::<BITS>::new(b));
        let ahead = a.wrapping_sub(b) & (Psn::<BITS>::SPACE - 1);
        assert_eq!(pa.since(pb) >= 0, ahead < Psn::<BITS>::SPACE / 2);
        assert_eq!(pb.plus(ahead.into()), pa);
        assert_eq!(pb.plus(1).previous(), pb);
    }

    proptest! {
        #[test]
        fn since_agrees_with_serial_arithmetic(a: u32, b: u32) {
            agrees_with_serial_arithmetic::<24>(a, b);
            agrees_with_serial_arithmetic::<12>(a, b);
        }
    }
}
