//! The few sums that shards exchange: single writer each, read and written relaxed.

use super::Mmu;
use crate::mmu::PgIx;
use crate::sync::{AtomicU64, Ordering, Ordering::Relaxed, fence};
use crossbeam_utils::CachePadded;

/// What one shard tells the others: single writer each.
#[derive(Debug)]
pub(super) struct ShardSums {
    shared: AtomicU64,
    headroom: AtomicU64,
    egress: [AtomicU64; 2],
    held: AtomicU64,
    /// Bytes of each priority group this shard has released, ever. Read by the group's owner.
    released: Vec<AtomicU64>,
}

/// The sums shards exchange. One per switch, shared by its shards.
#[derive(Debug)]
pub struct Ledger {
    /// On cache lines of their own: each is written by another core.
    pub(super) shards: Vec<CachePadded<ShardSums>>,
}

impl Ledger {
    pub(super) fn new(shards: usize, pgs: usize) -> Self {
        let zeros = |n| (0..n).map(|_| AtomicU64::new(0)).collect();
        let one = |_| {
            CachePadded::new(ShardSums {
                shared: AtomicU64::new(0),
                headroom: AtomicU64::new(0),
                egress: [AtomicU64::new(0), AtomicU64::new(0)],
                held: AtomicU64::new(0),
                released: zeros(pgs),
            })
        };
        Self { shards: (0..shards).map(one).collect() }
    }
}

/// What one shard, or several, use of the buffer. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub shared: u64,
    pub headroom: u64,
    pub egress: [u64; 2],
    pub held: u64,
}

impl Ledger {
    /// Tells the others what a shard uses.
    pub(super) fn tell(&self, shard: usize, used: &Used) {
        let own = &self.shards[shard];
        own.shared.store(used.shared, Relaxed);
        own.headroom.store(used.headroom, Relaxed);
        own.egress[0].store(used.egress[0], Relaxed);
        own.egress[1].store(used.egress[1], Relaxed);
        own.held.store(used.held, Relaxed);
    }

    /// A shard has released bytes of a group of another's.
    fn release(&self, shard: usize, pg: usize, bytes: u32) {
        let counter = &self.shards[shard].released[pg];
        counter.store(counter.load(Relaxed) + u64::from(bytes), Relaxed);
    }

    /// Bytes of a group that a shard has released, ever.
    fn released(&self, shard: usize, pg: usize) -> u64 {
        self.shards[shard].released[pg].load(Relaxed)
    }

    /// [`Ledger::tell`], and what the others use. Of two shards that do this at the same time one sees what the other says.
    fn exchange(&self, shard: usize, used: &Used) -> Used {
        self.tell(shard, used);
        fence(Ordering::SeqCst);
        let mut others = Used::default();
        for (_, sums) in self.shards.iter().enumerate().filter(|(i, _)| *i != shard) {
            others.shared += sums.shared.load(Relaxed);
            others.headroom += sums.headroom.load(Relaxed);
            others.egress[0] += sums.egress[0].load(Relaxed);
            others.egress[1] += sums.egress[1].load(Relaxed);
            others.held += sums.held.load(Relaxed);
        }
        others
    }
}

impl Mmu {
    /// `bytes` are about to be admitted: if the others have not been told of too many before, they are told now, and
    /// asked what they hold. So whoever asked last knows what each of the others holds but for `most_unsaid`, and all
    /// together take no more than there is, `staleness` included.
    #[inline(always)]
    pub(super) fn count_unsaid(&mut self, bytes: u64) {
        self.unsaid += bytes;
        if self.unsaid > self.most_unsaid {
            self.exchange_sums();
            self.unsaid = bytes;
        }
    }

    fn used(&self) -> Used {
        let Self { shared_used, headroom_used, egress_used, held, .. } = *self;
        Used { shared: shared_used, headroom: headroom_used, egress: egress_used, held }
    }

    pub(super) fn publish(&self) {
        self.ledger.tell(self.shard, &self.used());
    }

    /// Tells the other shards what is used here, and reads what they use.
    pub(super) fn exchange_sums(&mut self) {
        if self.ledger.shards.len() == 1 {
            return;
        }
        self.unsaid = 0;
        self.shared_peak.note(self.shared_used + self.others_shared);
        let Used { shared, headroom, egress, held } = self.ledger.exchange(self.shard, &self.used());
        (self.others_shared, self.others_headroom, self.others_egress) = (shared, headroom, egress);
        self.others_held = held;
    }

    /// Releases bytes of a group of another shard's: its owner reads the sum.
    pub(super) fn tell_owner(&mut self, pg: PgIx, bytes: u32) {
        self.ledger.release(self.shard, pg.0 as usize, bytes);
    }

    /// Applies what the other shards have released of groups of this one; `resume` hears of those that may send again.
    pub(super) fn collect_released(&mut self, resume: &mut dyn FnMut(PgIx)) {
        let shards = self.ledger.shards.len();
        if shards == 1 {
            return;
        }
        for pg in 0..self.pgs.len() {
            if !self.pgs[pg].remote {
                continue;
            }
            for shard in 0..shards {
                let total = self.ledger.released(shard, pg);
                let delta = total - std::mem::replace(&mut self.applied[shard][pg], total);
                if delta > 0 && self.release_pg(pg, delta) {
                    resume(PgIx(pg as u32));
                }
            }
            let p = &mut self.pgs[pg];
            p.remote = p.account.used + p.headroom_used > 0;
        }
    }
}

#[cfg(all(test, weir_loom))]
mod model {
    use super::*;
    use crate::sync::Arc;
    use loom::thread;

    /// What the shards may take together, and what each may take before it tells the others, in frames of one byte.
    const SIZE: u64 = 2;
    const UNSAID: u64 = 1;

    /// A shard that admits as [`Mmu::count_unsaid`] and the shared pool do: how many of `frames` it took.
    fn admit(ledger: &Ledger, shard: usize, frames: u32) -> u64 {
        let (mut used, mut others, mut unsaid) = (Used::default(), Used::default(), 0);
        for _ in 0..frames {
            unsaid += 1;
            if unsaid > UNSAID {
                others = ledger.exchange(shard, &used);
                unsaid = 1;
            }
            used.shared += u64::from(used.shared + others.shared < SIZE);
        }
        used.shared
    }

    /// Two shards that take as much as they can never take more than there is with what was set aside for what one of them
    /// does not know yet (`staleness`).
    #[test]
    fn model_two_shards_take_no_more_than_there_is() {
        loom::model(|| {
            let ledger = Arc::new(Ledger::new(2, 1));
            let other = {
                let ledger = Arc::clone(&ledger);
                thread::spawn(move || admit(&ledger, 1, 2))
            };
            let own = admit(&ledger, 0, 2);
            assert!(own + other.join().unwrap() <= SIZE + UNSAID);
        });
    }

    /// What a shard releases for the owner of a group arrives there once, whenever the owner looks.
    #[test]
    fn model_what_is_released_elsewhere_is_applied_once() {
        loom::model(|| {
            let ledger = Arc::new(Ledger::new(2, 1));
            let other = {
                let ledger = Arc::clone(&ledger);
                thread::spawn(move || (0..2).for_each(|_| ledger.release(1, 0, 5)))
            };
            let mut seen = 0;
            for _ in 0..2 {
                let total = ledger.released(1, 0);
                assert!(total >= seen && total.is_multiple_of(5), "{total} after {seen}");
                seen = total;
            }
            other.join().unwrap();
            assert_eq!(ledger.released(1, 0), 10);
        });
    }
}
