//! The largest of many counts in little memory: Space-Saving (Metwally, Agrawal, El Abbadi: "Efficient Computation of
//! Frequent and Top-k Elements in Data Streams", ICDT 2005), with weights.
//!
//! Of what was added, `n` in all, each flow of more than `n / ENTRIES` is there, and none is shown with less than it has.
//! What a flow may be shown with too much is known for each ([`Counted::over`]), and at most `n / ENTRIES`.

use super::id::{FlowId, ID_WORDS};
use crate::stats::Words;

/// Flows that a summary holds.
pub const ENTRIES: usize = 32;

/// Tags in a word.
const TAGS: usize = size_of::<u64>();

const _: () = assert!(ENTRIES.is_multiple_of(TAGS));

/// The flows with the largest counts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Summary {
    used: u64,
    counts: [u64; ENTRIES],
    over: [u64; ENTRIES],
    ids: [[u64; ID_WORDS]; ENTRIES],
    /// An octet of the hash of each flow, the first one lowest; not published.
    tags: [u64; ENTRIES / TAGS],
}

/// A flow, and what was counted of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The flow.
    pub id: FlowId,
    /// At most.
    pub count: u64,
    /// By how much that may be too much: at least `count - over` is the flow's own.
    pub over: u64,
}

impl Summary {
    /// Adds to the count of a flow. One that is new in a full summary takes the place, and the count, of the smallest.
    pub fn add(&mut self, id: &FlowId, weight: u64) {
        let (tag, used) = (id.hash(), self.used as usize);
        let at = match self.find(id, tag) {
            Some(at) => at,
            None if used < ENTRIES => {
                self.used += 1;
                self.take(used, id, tag, 0);
                used
            }
            None => {
                let smallest = self.smallest();
                self.take(smallest, id, tag, self.counts[smallest]);
                smallest
            }
        };
        self.counts[at] += weight;
    }

    /// The place of a flow. Eight tags are compared at once: of the octets of a word some are found that are the same, and no
    /// other ones than such in front of which there is one.
    #[inline]
    fn find(&self, id: &FlowId, tag: u8) -> Option<usize> {
        const LOW: u64 = u64::from_ne_bytes([1; TAGS]);
        let wanted = LOW * u64::from(tag);
        for (word, tags) in self.tags.iter().enumerate() {
            let differs = tags ^ wanted;
            let mut same = differs.wrapping_sub(LOW) & !differs & LOW << 7;
            while same != 0 {
                let at = (word * TAGS + same.trailing_zeros() as usize / 8) % ENTRIES;
                if self.ids[at] == id.0 && at < self.used as usize {
                    return Some(at);
                }
                same &= same - 1;
            }
        }
        None
    }

    /// The place of the smallest count, the first of them.
    #[inline]
    fn smallest(&self) -> usize {
        let less = |(least, at), (other, count): (usize, &u64)| {
            if *count < least { (*count, other) } else { (least, at) }
        };
        self.counts.iter().enumerate().fold((u64::MAX, 0), less).1
    }

    fn take(&mut self, at: usize, id: &FlowId, tag: u8, over: u64) {
        (self.ids[at], self.over[at]) = (id.0, over);
        let (word, shift) = (&mut self.tags[at / TAGS], at % TAGS * 8);
        *word = *word & !(0xff << shift) | u64::from(tag) << shift;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        // What is behind `used` is read by nobody, but counts are.
        self.used = 0;
        self.counts = [0; ENTRIES];
    }

    /// The flows, in no order.
    pub fn flows(&self) -> impl Iterator<Item = Counted> {
        let used = (self.used as usize).min(ENTRIES);
        (0..used).map(|at| Counted { id: FlowId(self.ids[at]), count: self.counts[at], over: self.over[at] })
    }

    /// Most that a flow may have of which nothing is shown.
    pub fn unseen(&self) -> u64 {
        let full = self.used as usize >= ENTRIES;
        self.counts.iter().min().copied().filter(|_| full).unwrap_or(0)
    }
}

impl Words for Summary {
    fn words(&mut self, f: &mut dyn FnMut(&mut [u64])) {
        f(std::slice::from_mut(&mut self.used));
        f(&mut self.counts);
        f(&mut self.over);
        f(self.ids.as_flattened_mut());
    }
}
