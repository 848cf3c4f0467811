//! A small seeded generator: same seed, same numbers, on every machine.
//!
//! SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014). One
//! addition and two multiplications; any seed is as good as any other. Not for secrets.

/// By how much the state grows with each number: 2^64 by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// The next 32 uniform bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Leaves out as many numbers.
    #[inline]
    pub fn skip(&mut self, numbers: u64) {
        self.0 = self.0.wrapping_add(numbers.wrapping_mul(STEP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_numbers_of_the_published_sequence() {
        let mut rng = Rng::new(1_234_567);
        let got: [u64; 3] = std::array::from_fn(|_| rng.next_u64());
        assert_eq!(got, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn skipped_numbers_are_those_that_were_next() {
        let (mut a, mut b) = (Rng::new(u64::MAX - 3), Rng::new(u64::MAX - 3));
        for count in [0, 1, 2, 300] {
            (0..count).for_each(|_| _ = a.next_u32());
            b.skip(count);
            assert_eq!(a.next_u64(), b.next_u64());
        }
    }

    #[test]
    fn same_seed_same_stream() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.next_u32() == b.next_u32()));
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }
}
