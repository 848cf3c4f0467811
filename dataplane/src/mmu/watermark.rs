//! Peaks with several independent readers: nobody's clear destroys another's peak.

/// Readers with a baseline of their own: user, persistent, periodic (SONiC), and one for management.
pub const WATERMARK_READERS: usize = 4;

/// The reader whose peaks go back to the start: nobody clears it in passing.
pub const PERSISTENT: usize = 1;

/// A peak that costs one comparison per update, whatever the number of readers. It is enough to note
/// the occupancy each time it is about to fall.
///
/// The writer keeps one running peak since the last clear of anybody; a clear first folds it into
/// every reader's own peak. REQ G5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    running: u64,
    readers: [u64; WATERMARK_READERS],
}

impl Watermark {
    /// Notes an occupancy.
    #[inline(always)]
    pub fn note(&mut self, used: u64) {
        if used > self.running {
            self.running = used;
        }
    }

    /// The peak with the present occupancy taken into account.
    #[must_use]
    pub fn with(mut self, used: u64) -> Self {
        self.note(used);
        self
    }

    /// Highest occupancy since this reader last cleared. `reader < WATERMARK_READERS`.
    pub fn peak(&self, reader: usize) -> u64 {
        self.running.max(self.readers.get(reader).copied().unwrap_or(0))
    }

    /// Starts a new peak for one reader at the present occupancy `used`.
    pub fn clear(&mut self, reader: usize, used: u64) {
        self.note(used);
        for (i, peak) in self.readers.iter_mut().enumerate() {
            *peak = if i == reader { used } else { (*peak).max(self.running) };
        }
        self.running = used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g5_clearing_one_reader_leaves_the_others() {
        let mut w = Watermark::default();
        w.note(900);
        w.note(300);
        w.clear(0, 300);
        assert_eq!((w.peak(0), w.peak(1)), (300, 900));
        w.note(500);
        assert_eq!((w.peak(0), w.peak(1), w.peak(2)), (500, 900, 900));
        w.clear(1, 100);
        assert_eq!((w.peak(0), w.peak(1), w.peak(3)), (500, 100, 900));
    }
}
