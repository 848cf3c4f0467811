//! Blocks of counters that one thread writes and others read: a sequence lock.

use crate::stats::Words;
use crate::sync::{Arc, AtomicU64, Backoff, Ordering, fence};

/// A block of counters that one thread writes and any thread may copy.
#[derive(Debug, Clone)]
pub struct Published(Arc<Block>);

#[derive(Debug)]
struct Block {
    /// Odd while a write is under way.
    sequence: AtomicU64,
    words: Vec<AtomicU64>,
}

impl Published {
    /// A cell for blocks of type `T`, all zero.
    pub fn new<T: Words>() -> Self {
        Self::of_words(T::len_words())
    }

    /// A cell for this many numbers, all zero.
    pub fn of_words(count: usize) -> Self {
        let words = (0..count).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Block { sequence: AtomicU64::new(0), words }))
    }

    /// Copies numbers out. Only the thread that owns them may call this.
    pub fn publish_words(&self, numbers: &[u64]) {
        self.write(|cells| {
            for (cell, number) in cells.iter().zip(numbers) {
                cell.store(*number, Ordering::Relaxed);
            }
        });
    }

    /// A copy in which all numbers belong to the same instant.
    pub fn read_words(&self) -> Vec<u64> {
        self.consistent(|cells| cells.iter().map(|cell| cell.load(Ordering::Relaxed)).collect())
    }

    /// Copies a block out. Only the thread that owns the counters may call this.
    pub fn publish<T: Words>(&self, block: &mut T) {
        self.publish_all(|f| block.words(f));
    }

    /// Copies blocks out, one behind the other, in the order in which `walk` visits them. Those at the end that have
    /// not changed may be left out.
    pub fn publish_all(&self, walk: impl FnOnce(&mut dyn FnMut(&mut [u64]))) {
        self.write(|cells| {
            let mut cells = cells.iter();
            walk(&mut |words| {
                for (word, cell) in words.iter().zip(cells.by_ref()) {
                    cell.store(*word, Ordering::Relaxed);
                }
            });
        });
    }

    /// A copy in which all counters belong to the same instant.
    pub fn read<T: Words>(&self) -> T {
        self.consistent(|cells| {
            let mut copy = T::default();
            let mut cells = cells.iter();
            copy.words(&mut |words| {
                for (word, cell) in words.iter_mut().zip(cells.by_ref()) {
                    *word = cell.load(Ordering::Relaxed);
                }
            });
            copy
        })
    }

    fn write(&self, store: impl FnOnce(&[AtomicU64])) {
        let seq = self.0.sequence.load(Ordering::Relaxed);
        self.0.sequence.store(seq + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        store(&self.0.words);
        self.0.sequence.store(seq + 2, Ordering::Release);
    }

    fn consistent<T>(&self, copy: impl Fn(&[AtomicU64]) -> T) -> T {
        let backoff = Backoff::new();
        loop {
            let before = self.0.sequence.load(Ordering::Acquire);
            let copy = copy(&self.0.words);
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.0.sequence.load(Ordering::Relaxed) == before {
                return copy;
            }
            backoff.spin();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::PortStats;

    #[test]
    fn g7_a_reader_never_sees_a_torn_block() {
        let (written, read) = if cfg!(miri) { (20, 5) } else { (2000, 200) };
        let cell = Published::new::<PortStats>();
        let writer = {
            let cell = cell.clone();
            std::thread::spawn(move || {
                let mut stats = PortStats::default();
                for n in 1..=written {
                    stats.words(&mut |words| words.fill(n));
                    cell.publish(&mut stats);
                }
            })
        };
        for _ in 0..read {
            let mut copy: PortStats = cell.read();
            let first = copy.rx_packets;
            copy.words(&mut |words| assert!(words.iter().all(|word| *word == first)));
        }
        writer.join().unwrap();
        assert_eq!(cell.read::<PortStats>().queue_bytes[7], written);
    }

    #[test]
    fn plain_numbers_are_published_too() {
        let cell = Published::of_words(3);
        assert_eq!(cell.read_words(), [0, 0, 0]);
        // More than there is room for is cut off, less leaves the rest.
        cell.publish_words(&[1, 2, 3, 4]);
        cell.publish_words(&[7]);
        assert_eq!(cell.read_words(), [7, 2, 3]);
    }
}

#[cfg(all(test, weir_loom))]
mod model {
    use super::*;
    use loom::thread;

    /// A block is published while a reader copies twice: it sees the old one or the new one, whole, and never the old one
    /// after the new one.
    #[test]
    fn model_a_reader_sees_whole_blocks_in_order() {
        // Waiting is endless where nobody interrupts: as often as this a thread is interrupted at most.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let cell = Published::of_words(2);
            let writer = {
                let cell = cell.clone();
                thread::spawn(move || cell.publish_words(&[1, 1]))
            };
            let mut last = 0;
            for _ in 0..2 {
                let copy = cell.read_words();
                assert!(copy[0] == copy[1] && copy[0] >= last, "{copy:?} after {last}");
                last = copy[0];
            }
            writer.join().unwrap();
            assert_eq!(cell.read_words(), [1, 1]);
        });
    }
}
