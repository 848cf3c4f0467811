//! How many copies of a frame still wait, on whatever lcore.

use crate::types::MAX_PORTS;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bits of the number of copies that wait; the number there were is above them.
const BITS: u32 = 16;

const _: () = assert!(MAX_PORTS < 1 << BITS);

/// The count of one frame; free while it is zero.
#[derive(Debug, Default)]
pub(super) struct Copies(AtomicU32);

impl Copies {
    /// Nobody counts with it.
    pub fn is_free(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    /// There are so many copies from now on, at most [`MAX_PORTS`]. For none it is free.
    pub fn begin(&self, copies: usize) {
        self.0.store((copies as u32) << BITS | copies as u32, Relaxed);
    }

    /// Copies that wait.
    pub fn left(&self) -> u32 {
        self.0.load(Relaxed) & ((1 << BITS) - 1)
    }

    /// One is gone. Says how many there were if it was the last; the count is free then.
    pub fn end_one(&self) -> Option<u32> {
        let before = self.0.fetch_sub(1, Relaxed);
        let last = before & ((1 << BITS) - 1) == 1;
        last.then(|| {
            self.0.store(0, Relaxed);
            before >> BITS
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_copy_says_how_many_there_were() {
        let copies = Copies::default();
        assert!(copies.is_free());
        copies.begin(MAX_PORTS);
        for gone in 1..MAX_PORTS {
            assert_eq!((copies.end_one(), copies.left() as usize), (None, MAX_PORTS - gone));
        }
        assert!(!copies.is_free());
        assert_eq!((copies.end_one(), copies.is_free()), (Some(MAX_PORTS as u32), true));
    }
}
