//! The content of messages: known to both ends from who sends, to whom, and which message it is.

/// Step between words; odd, so that no two words of a message are equal.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection that spreads every bit (the finalizer of splitmix64).
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// What all messages of one direction of one connection have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern(u64);

impl Pattern {
    /// From one end to another: what tells them apart from all other ends.
    pub fn new(from: u64, to: u64) -> Self {
        Self(mix(from).wrapping_add(to))
    }

    /// Fills a message. Its first eight bytes give its number, the rest follows from it.
    pub fn fill(self, number: u64, out: &mut [u8]) {
        let mut word = mix(number).wrapping_add(self.0);
        let (head, body) = out.split_at_mut(out.len().min(8));
        head.copy_from_slice(&(number ^ self.0).to_be_bytes()[..head.len()]);
        for chunk in body.chunks_mut(8) {
            chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
            word = word.wrapping_add(STEP);
        }
    }

    /// The number a message gives itself, if its content is right throughout.
    pub fn check(self, bytes: &[u8]) -> Option<u64> {
        let (head, body) = bytes.split_first_chunk::<8>()?;
        let number = u64::from_be_bytes(*head) ^ self.0;
        let mut word = mix(number).wrapping_add(self.0);
        let right = body.chunks(8).all(|chunk| {
            let right = chunk == &word.to_be_bytes()[..chunk.len()];
            word = word.wrapping_add(STEP);
            right
        });
        right.then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends() -> [u64; 2] {
        [0x0a00_0001_0000_0011, 0x0a00_0002_0000_0012]
    }

    #[test]
    fn the_two_directions_differ() {
        let [a, b] = ends();
        let mut message = [0; 64];
        Pattern::new(a, b).fill(7, &mut message);
        assert_eq!(Pattern::new(a, b).check(&message), Some(7));
        assert_eq!(Pattern::new(b, a).check(&message), None);
        assert_eq!(Pattern::new(a, b).check(&message[..7]), None);
    }

    proptest! {
        #[test]
        fn a_changed_bit_is_seen(number: u64, len in 16usize..200, at: usize, bit in 0u8..8) {
            let [a, b] = ends();
            let pattern = Pattern::new(a, b);
            let mut message = vec![0; len];
            pattern.fill(number, &mut message);
            prop_assert_eq!(pattern.check(&message), Some(number));
            message[at % len] ^= 1 << bit;
            prop_assert_eq!(pattern.check(&message), None);
        }
    }
}
