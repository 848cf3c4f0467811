//! Merging of CNPs: one per queue pair and time, remembered for eight queue pairs (SW-043, DEV-13).

use arrayvec::ArrayVec;
use weir_dataplane::types::Nanos;

/// Queue pairs that are remembered.
pub const DEPTH: usize = 8;

/// The QPID buffer and its timers.
#[derive(Clone, Debug)]
pub struct CnpMerge {
    threshold: Nanos,
    /// Queue pair and time of its last CNP, oldest first.
    entries: ArrayVec<(u16, Nanos), DEPTH>,
}

impl CnpMerge {
    /// CNPs of one queue pair at most `threshold` ns apart are one.
    pub fn new(threshold: Nanos) -> Self {
        Self { threshold, entries: ArrayVec::new() }
    }

    /// A CNP for `qp` at `now`: `true` if it is to be sent. Times must not go back.
    pub fn passes(&mut self, qp: u16, now: Nanos) -> bool {
        if let Some(at) = self.entries.iter().position(|(known, _)| *known == qp) {
            if now.saturating_sub(self.entries[at].1) <= self.threshold {
                return false;
            }
            self.entries.remove(at);
        } else if self.entries.is_full() {
            self.entries.remove(0);
        }
        self.entries.push((qp, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sw043_unseen_passes_seen_waits_for_the_threshold() {
        let mut merge = CnpMerge::new(50);
        assert!(merge.passes(7, 1000));
        assert!(!merge.passes(7, 1000));
        // DEV-13: equal to the threshold is still merged.
        assert!(!merge.passes(7, 1050));
        assert!(merge.passes(7, 1051));
        // The time counts from the one that passed.
        assert!(!merge.passes(7, 1101));
    }

    #[test]
    fn sw043_the_ninth_queue_pair_replaces_the_oldest() {
        let mut merge = CnpMerge::new(1_000);
        for qp in 0..8 {
            assert!(merge.passes(qp, u64::from(qp)));
        }
        assert!(merge.passes(8, 10));
        assert!(!merge.passes(1, 11));
        assert!(merge.passes(0, 12), "forgotten");
        // Qp 0 has taken the place of 1, the oldest then.
        assert!(merge.passes(1, 13));
        assert!(!merge.passes(8, 14));
    }
}
