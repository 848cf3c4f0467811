//! 128-bit FNV-1a: names for contents. Not meant to withstand an attacker.

/// A digest that grows with what it is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u128);

impl Default for Digest {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Digest {
    /// Of `bytes` alone.
    pub fn of(bytes: &[u8]) -> Self {
        Self::default().feed(bytes)
    }

    /// Of everything before and `bytes`.
    pub fn feed(self, bytes: &[u8]) -> Self {
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        Self(bytes.iter().fold(self.0, |h, b| (h ^ u128::from(*b)).wrapping_mul(PRIME)))
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn digests_of_the_definition() {
        assert_eq!(Digest::of(b"").to_string(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(Digest::of(b"a").to_string(), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(Digest::of(b"ab"), Digest::of(b"a").feed(b"b"));
    }
}
