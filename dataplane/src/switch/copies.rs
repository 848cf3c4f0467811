//! How many copies of a frame still wait, on whatever lcore.
//!
//! A frame that goes to several ports takes a free count of its shard, and whoever sends or drops its last copy gives
//! the count back. Both are a step or two however many are in use: free counts are a queue with many producers and one
//! consumer, their shard. It takes some out at a time and in ascending order: where frames of several inputs leave in turns
//! their counts come back in turns, too, and the next ones have numbers that follow each other all the same. Such frames
//! share batches.
//!
//! A port may take some frames of a burst, and another port others. What it takes shares a batch, too: their counts stand in a
//! list, and the places in lists have numbers behind those of the counts themselves. A list is free again when all copies that it
//! was made for are gone.

use crate::egress::BATCH_MAX;
use crate::sync::{Arc, AtomicU32, Ordering::*};
use arrayvec::ArrayVec;

/// No count is behind this one.
const NONE: u32 = u32::MAX;

/// Free counts taken out of the queue at a time: about what a burst needs.
const STOCK: usize = 256;

/// The count of one frame.
#[derive(Debug)]
struct Count {
    /// Copies that wait; 0 while it is free.
    copies: AtomicU32,
    /// While it is free: the one behind it. While it is in use: what the frame is charged in its group.
    next_or_charge: AtomicU32,
}

/// The counts of frames whose copies share a batch and do not follow each other.
#[derive(Debug)]
struct List {
    /// Copies that wait; 0 while it is free.
    copies: AtomicU32,
    /// While it is free: the one behind it.
    next: AtomicU32,
    counts: [AtomicU32; BATCH_MAX],
}

#[derive(Debug)]
struct Shared {
    counts: Box<[Count]>,
    /// The last free count of each shard.
    last_free: Box<[AtomicU32]>,
    lists: Box<[List]>,
    last_free_list: Box<[AtomicU32]>,
}

/// Takes so many off a number, and says what it was. Who takes the last of a list lets it be written anew: whatever others have read
/// of it before they took theirs must be over then, so that each step is ordered with the ones before it.
#[inline(always)]
fn less(number: &AtomicU32, by: u32, alone: bool) -> u32 {
    if alone {
        let before = number.load(Relaxed);
        number.store(before.wrapping_sub(by), Relaxed);
        before
    } else {
        number.fetch_sub(by, AcqRel)
    }
}

/// One of `total` in the queue of free ones of its shard, behind the last. It is found as soon as the one before it says so.
fn give_back<'a>(slot: u32, total: usize, last_free: &[AtomicU32], next: impl Fn(u32) -> &'a AtomicU32) {
    next(slot).store(NONE, Relaxed);
    let before = last_free[slot as usize / (total / last_free.len())].swap(slot, AcqRel);
    next(before).store(slot, Release);
}

/// The last number of each shard, where each shard has `each` of them.
fn last_of_each(each: usize, shards: usize) -> Box<[AtomicU32]> {
    (1..=shards).map(|shard| AtomicU32::new((shard * each - 1) as u32)).collect()
}

/// The counts of all shards, as one of them uses them.
#[derive(Debug)]
pub(super) struct Copies {
    shared: Arc<Shared>,
    /// Nobody else counts: a locked read-modify-write costs 20 cycles a copy.
    alone: bool,
    /// First of our free ones. It is not taken before another one is behind it: there is one more than is asked for.
    first_free: u32,
    /// Those that were taken out, the next one at the end.
    stock: ArrayVec<u32, STOCK>,
    /// How many of these frames wait for that are admitted and have no count yet.
    reserved: usize,
    /// The one begun last.
    last: u32,
    /// First of our free lists, as of the counts.
    first_free_list: u32,
}

impl Copies {
    /// As many counts as frames can be held by each of the shards, and `lists`.
    pub fn sharded(frames: usize, lists: usize, shards: usize) -> Vec<Self> {
        let (each, each_list) = (frames + 1, lists + 1);
        let next = |slot: usize, each| {
            AtomicU32::new(if (slot + 1).is_multiple_of(each) { NONE } else { slot as u32 + 1 })
        };
        let count = |slot| Count { copies: AtomicU32::new(0), next_or_charge: next(slot, each) };
        let list = |slot| List {
            copies: AtomicU32::new(0),
            next: next(slot, each_list),
            counts: std::array::from_fn(|_| AtomicU32::new(NONE)),
        };
        let shared = Arc::new(Shared {
            counts: (0..each * shards).map(count).collect(),
            last_free: last_of_each(each, shards),
            lists: (0..each_list * shards).map(list).collect(),
            last_free_list: last_of_each(each_list, shards),
        });
        let one = |shard| Self {
            shared: Arc::clone(&shared),
            alone: shards == 1,
            first_free: (shard * each) as u32,
            stock: ArrayVec::new(),
            reserved: 0,
            last: NONE,
            first_free_list: (shard * each_list) as u32,
        };
        (0..shards).map(one).collect()
    }

    /// The next free count of this shard, for [`Copies::begin`].
    #[inline]
    pub fn next_free(&mut self) -> Option<u32> {
        self.has_free().then(|| self.stock.last().copied()).flatten()
    }

    /// There is one that nobody waits for, among those that were taken out.
    #[inline(always)]
    fn has_free(&mut self) -> bool {
        if self.stock.len() <= self.reserved {
            self.take_stock();
        }
        self.stock.len() > self.reserved
    }

    /// Sets one aside for [`Copies::begin_reserved`]. `false`: there is none, or so many are set aside that they are to be begun first.
    #[inline]
    pub fn reserve(&mut self) -> bool {
        let free = self.has_free();
        self.reserved += usize::from(free);
        free
    }

    /// One that was set aside is not needed.
    pub fn unreserve(&mut self) {
        self.reserved -= 1;
    }

    /// There are so many copies from now on of a frame for which a count was set aside, that is charged so much in its group.
    #[inline]
    pub fn begin_reserved(&mut self, copies: usize, charge: u32) -> u32 {
        self.reserved -= 1;
        let slot = self.stock.last().copied().unwrap_or(NONE);
        self.begin(slot, copies);
        self.set_charge(slot, charge);
        slot
    }

    #[cold]
    #[inline(never)]
    fn take_stock(&mut self) {
        while !self.stock.is_full()
            && let next = self.next(self.first_free)
            && next != NONE
        {
            self.stock.push(std::mem::replace(&mut self.first_free, next));
        }
        self.stock.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// The one behind a free one.
    fn next(&self, slot: u32) -> u32 {
        self.shared.counts[slot as usize].next_or_charge.load(Acquire)
    }

    /// There are so many copies from now on, at least one; `slot` is the next free count.
    pub fn begin(&mut self, slot: u32, copies: usize) {
        let next = self.stock.pop();
        debug_assert_eq!(next, Some(slot));
        self.last = slot;
        self.shared.counts[slot as usize].copies.store(copies as u32, Relaxed);
    }

    /// What the frame of a count that is in use, or is the next free one, is charged in its group.
    pub fn set_charge(&self, slot: u32, charge: u32) {
        self.shared.counts[slot as usize].next_or_charge.store(charge, Relaxed);
    }

    /// The count begun last.
    pub fn last_begun(&self) -> u32 {
        self.last
    }

    /// One that was begun before is taken for the last again.
    pub fn set_last_begun(&mut self, slot: u32) {
        self.last = slot;
    }

    /// Nobody counts with it.
    pub fn is_free(&self, slot: u32) -> bool {
        self.shared.counts[slot as usize].copies.load(Relaxed) == 0
    }

    /// Copies that wait.
    pub fn left(&self, slot: u32) -> u32 {
        self.shared.counts[slot as usize].copies.load(Relaxed)
    }

    /// Writes a list of counts that are in use, of one batch. The number of the first place, to be ended as if they followed each
    /// other; `None`: no list is free.
    pub fn list(&mut self, counts: impl Iterator<Item = u32>) -> Option<u32> {
        let Shared { counts: all, lists, .. } = &*self.shared;
        let ours = self.first_free_list;
        let list = &lists[ours as usize];
        let next = list.next.load(Acquire);
        if next == NONE {
            return None;
        }
        self.first_free_list = next;
        let listed = list.counts.iter().zip(counts).map(|(place, count)| place.store(count, Relaxed)).count();
        list.copies.store(listed as u32, Relaxed);
        Some((all.len() + ours as usize * BATCH_MAX) as u32)
    }

    /// The count at a place that may be in a list.
    pub fn count_at(&self, number: u32) -> u32 {
        let Shared { counts, lists, .. } = &*self.shared;
        let Some(place) = (number as usize).checked_sub(counts.len()) else { return number };
        lists[place / BATCH_MAX].counts[place % BATCH_MAX].load(Relaxed)
    }

    /// One copy of each of so many frames is gone, whose counts follow `first` or stand in a list. What the frames are charged in
    /// their group of which it was the last one; their counts are free then.
    #[inline]
    pub fn end(&self, first: u32, frames: u32) -> u32 {
        let Shared { counts, lists, last_free_list, .. } = &*self.shared;
        let Some(place) = (first as usize).checked_sub(counts.len()) else {
            return (first..first + frames).filter_map(|count| self.end_one(count)).sum();
        };
        let (slot, at) = (place / BATCH_MAX, place % BATCH_MAX);
        let list = &lists[slot];
        let listed = list.counts[at..at + frames as usize].iter().map(|count| count.load(Relaxed));
        let charge = listed.filter_map(|count| self.end_one(count)).sum();
        if less(&list.copies, frames, self.alone) == frames {
            give_back(slot as u32, lists.len(), last_free_list, |slot| &lists[slot as usize].next);
        }
        charge
    }

    /// One is gone. If it was the last one says what the frame was charged in its group; the count is free then.
    fn end_one(&self, slot: u32) -> Option<u32> {
        let count = &self.shared.counts[slot as usize];
        (less(&count.copies, 1, self.alone) == 1).then(|| {
            let charge = count.next_or_charge.load(Relaxed);
            self.give_back(slot);
            charge
        })
    }

    /// There are no copies, and if there were, they do not count any more.
    pub fn cancel(&self, slot: u32) {
        if !self.is_free(slot) {
            self.give_back(slot);
        }
    }

    /// Nobody counts with it any more: it is free for the shard whose it is.
    fn give_back(&self, slot: u32) {
        let Shared { counts, last_free, .. } = &*self.shared;
        counts[slot as usize].copies.store(0, Relaxed);
        give_back(slot, counts.len(), last_free, |slot| &counts[slot as usize].next_or_charge);
    }

    /// Nothing is counted, and every count and list can be taken.
    #[cfg(test)]
    pub fn are_free(&self) -> bool {
        let Shared { counts, last_free, lists, last_free_list } = &*self.shared;
        let behind = |next: u32| Some(next).filter(|next| *next != NONE);
        let free = std::iter::successors(Some(self.first_free), |slot| behind(self.next(*slot))).count();
        let next_list = |slot: &u32| behind(lists[*slot as usize].next.load(Acquire));
        let free_lists = std::iter::successors(Some(self.first_free_list), next_list).count();
        self.stock.len() + free == counts.len() / last_free.len()
            && counts.iter().all(|count| count.copies.load(Relaxed) == 0)
            && free_lists == lists.len() / last_free_list.len()
    }
}

#[cfg(all(test, not(weir_loom)))]
mod tests {
    use super::*;
    use crate::types::MAX_PORTS;
    use proptest::prelude::*;

    #[test]
    fn the_last_copy_says_what_the_frame_was_charged() {
        let mut copies = Copies::sharded(1, 0, 1).swap_remove(0);
        let slot = copies.next_free().unwrap();
        assert!(copies.is_free(slot));
        copies.set_charge(slot, 768);
        copies.begin(slot, MAX_PORTS);
        for gone in 1..MAX_PORTS {
            assert_eq!((copies.end_one(slot), copies.left(slot) as usize), (None, MAX_PORTS - gone));
        }
        assert!(!copies.is_free(slot));
        assert_eq!(copies.next_free(), None);
        assert_eq!((copies.end_one(slot), copies.is_free(slot)), (Some(768), true));
        assert!(copies.are_free());
    }

    /// Copies of three frames for three ports, two of which take some of them: each frame is released with its own last copy, and a
    /// list with the last copy of its batch, in however many parts that leaves.
    #[test]
    fn copies_that_a_list_counts_are_those_of_its_frames() {
        let mut copies = Copies::sharded(8, 1, 1).swap_remove(0);
        let [a, b, c] = [(2, 100), (3, 20), (3, 3)].map(|(ports, charge)| {
            assert!(copies.reserve());
            copies.begin_reserved(ports, charge)
        });
        assert_eq!([b, c], [a + 1, a + 2], "all three for the first port need no list");
        let of_second = copies.list([a, c].into_iter()).unwrap();
        assert_eq!(copies.list([b, c].into_iter()), None, "there is one");
        assert_eq!((copies.end(a, 3), copies.end(of_second, 1)), (0, 100));
        assert_eq!(copies.list([b].into_iter()), None, "a copy that it counts waits");
        assert_eq!(copies.end(of_second + 1, 1), 0);
        assert!(!copies.are_free());
        let of_third = copies.list([b, c].into_iter()).unwrap();
        assert_eq!((copies.end(of_third, 2), copies.end(b, 1)), (3, 20));
        assert!(copies.are_free());
    }

    /// As those of frames of two inputs that a third port sends in turns.
    #[test]
    fn counts_that_come_back_in_turns_are_in_order_again() {
        let mut copies = Copies::sharded(2 * STOCK, 0, 1).swap_remove(0);
        let take = |copies: &mut Copies| {
            let slot = copies.next_free().unwrap();
            copies.set_charge(slot, 1);
            copies.begin(slot, 1);
            slot
        };
        for _ in 0..10 {
            let [one, two]: [Vec<u32>; 2] = [(); 2].map(|()| (0..STOCK).map(|_| take(&mut copies)).collect());
            for slots in [&one, &two] {
                let runs = 1 + slots.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
                assert!(runs <= 4, "{runs}");
            }
            for (a, b) in one.into_iter().zip(two) {
                assert_eq!((copies.end_one(a), copies.end_one(b)), (Some(1), Some(1)));
            }
        }
        assert!(copies.are_free());
    }

    proptest! {
        /// Whatever is begun and ended by whom, in whatever order: a shard finds a count of its own as long as one of
        /// them is free, and none that is in use.
        #[test]
        fn a_free_count_is_found_whoever_gave_it_back(
            steps in proptest::collection::vec((0usize..3, 0usize..3, any::<prop::sample::Index>()), 1..200),
        ) {
            const FRAMES: usize = 7;
            let mut shards = Copies::sharded(FRAMES, 0, 3);
            let mut used: [Vec<u32>; 3] = Default::default();
            for (owner, ender, which) in steps {
                // Three of four begin, so that all are in use at times.
                if which.index(4) > 0 || used[owner].is_empty() {
                    let free = shards[owner].next_free();
                    prop_assert_eq!(free.is_some(), used[owner].len() < FRAMES);
                    let Some(slot) = free else { continue };
                    prop_assert_eq!(slot as usize / (FRAMES + 1), owner);
                    prop_assert!(!used[owner].contains(&slot) && shards[owner].is_free(slot));
                    shards[owner].set_charge(slot, 64 + slot);
                    shards[owner].begin(slot, 1);
                    used[owner].push(slot);
                } else {
                    let at = which.index(used[owner].len());
                    let slot = used[owner].swap_remove(at);
                    prop_assert_eq!(shards[ender].end_one(slot), Some(64 + slot));
                }
            }
            for slot in used.iter().flatten() {
                prop_assert_eq!(shards[0].end_one(*slot), Some(64 + slot));
            }
            prop_assert!(shards.iter().all(Copies::are_free));
        }
    }

    /// Two lcores give back what a third one takes, all at once.
    #[test]
    fn counts_are_given_back_by_several_at_once() {
        const ROUNDS: u32 = 20_000;
        let mut shards = Copies::sharded(5, 0, 3);
        let (taker, others) = shards.split_first_mut().unwrap();
        let (give, gets): (Vec<_>, Vec<_>) = (0..2).map(|_| std::sync::mpsc::sync_channel::<u32>(8)).unzip();
        std::thread::scope(|scope| {
            for (other, get) in others.iter_mut().zip(gets) {
                scope.spawn(move || get.into_iter().for_each(|slot| assert!(other.end_one(slot).is_some())));
            }
            for round in 0..ROUNDS {
                let slot = loop {
                    match taker.next_free() {
                        Some(slot) => break slot,
                        None => std::thread::yield_now(),
                    }
                };
                taker.begin(slot, 1);
                give[round as usize % 2].send(slot).unwrap();
            }
            drop(give);
        });
        assert!(taker.are_free());
    }
}

#[cfg(all(test, weir_loom))]
mod model {
    use super::*;
    use loom::thread;

    /// Two lcores send a copy each of a frame while a third one takes counts: one of them says that it was the last, and the
    /// count is found again, once.
    #[test]
    fn model_the_last_copy_gives_the_count_back_once() {
        loom::model(|| {
            let mut shards = Copies::sharded(2, 0, 3);
            let enders = shards.split_off(1);
            let taker = &mut shards[0];
            let slot = taker.next_free().unwrap();
            taker.set_charge(slot, 700);
            taker.begin(slot, 2);
            let threads: Vec<_> =
                enders.into_iter().map(|ender| thread::spawn(move || ender.end_one(slot))).collect();
            // It may be back by now, or not.
            let other = taker.next_free().unwrap();
            taker.set_charge(other, 600);
            taker.begin(other, 1);
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert!(matches!(ended[..], [None, Some(700)] | [Some(700), None]), "{ended:?}");
            assert_eq!(taker.end_one(other), Some(600));
            assert!(taker.are_free());
        });
    }

    /// Two lcores give counts back at once: both are found.
    #[test]
    fn model_counts_given_back_at_once_are_both_found() {
        loom::model(|| {
            let mut shards = Copies::sharded(2, 0, 3);
            let enders = shards.split_off(1);
            let taker = &mut shards[0];
            let slots = [(); 2].map(|()| {
                let slot = taker.next_free().unwrap();
                taker.set_charge(slot, 500);
                taker.begin(slot, 1);
                slot
            });
            assert_eq!(taker.next_free(), None);
            let threads: Vec<_> = enders
                .into_iter()
                .zip(slots)
                .map(|(ender, slot)| thread::spawn(move || ender.end_one(slot)))
                .collect();
            // What is found meanwhile is in use no longer.
            assert!(taker.next_free().is_none_or(|slot| taker.is_free(slot)));
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Some(500)));
            assert!(taker.are_free());
        });
    }

    /// Two lcores send a copy each of the frames of a list while a third one wants a list: it is written anew only when nobody reads it.
    #[test]
    fn model_a_list_is_free_when_its_last_copy_is_gone() {
        loom::model(|| {
            let mut shards = Copies::sharded(2, 1, 2);
            let ender = shards.swap_remove(1);
            let taker = &mut shards[0];
            let slots = [500, 70].map(|charge| {
                assert!(taker.reserve());
                taker.begin_reserved(1, charge)
            });
            let first = taker.list(slots.into_iter()).unwrap();
            let thread = thread::spawn(move || ender.end(first + 1, 1));
            assert_eq!(taker.end(first, 1), 500);
            assert!(taker.list(slots[1..].iter().copied()).is_none_or(|_| taker.is_free(slots[1])));
            assert_eq!(thread.join().unwrap(), 70);
        });
    }
}
