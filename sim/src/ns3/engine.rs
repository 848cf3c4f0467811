//! The event queue: integer nanoseconds, equal times in the order of scheduling.
//!
//! A wheel with one slot per nanosecond holds what is due within four microseconds; nearly every event of a
//! data-centre link is. A bitmap finds the next occupied slot in two steps, so scheduling and running
//! an event cost the same whatever is pending. Later events wait in a heap and move over when their
//! time comes near.
//!
//! A rank can be reserved now and used later ([`Engine::reserve`]): an event which may turn out to
//! have nothing to do needs no place in the queue until somebody asks for it, and still runs where it
//! would have run.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_dataplane::types::Nanos;

use super::cell::{Cell, Key, List, Slab};

/// Nanoseconds ahead that the wheel covers.
const SPAN: usize = 4096;
const WORDS: usize = SPAN / 64;

/// Pending events and the time.
#[derive(Debug)]
pub struct Engine {
    /// Every record of the simulation.
    pub slab: Slab,
    current: Key,
    last_rank: u64,
    executed: u64,
    summary: u64,
    words: [u64; WORDS],
    slots: Box<[List; SPAN]>,
    far: BinaryHeap<Reverse<(Key, u32)>>,
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            slab: Slab::default(),
            current: Key::default(),
            last_rank: 0,
            executed: 0,
            summary: 0,
            words: [0; WORDS],
            slots: vec![List::default(); SPAN].try_into().expect("SPAN slots"),
            far: BinaryHeap::new(),
        }
    }
}

impl Engine {
    /// Time of the running event.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.current.at
    }

    /// Whether something that runs at `key` has its turn after the running event.
    #[inline]
    pub fn is_ahead(&self, key: Key) -> bool {
        key > self.current
    }

    /// Events run so far.
    pub fn executed(&self) -> u64 {
        self.executed
    }

    /// The key of an event at `at` that is scheduled now but handed in later, or never.
    #[inline]
    pub fn reserve(&mut self, at: Nanos) -> Key {
        self.last_rank += 1;
        Key { at, rank: self.last_rank }
    }

    /// Runs record `index` at `at`, which is not in the past.
    #[inline(always)]
    pub fn schedule(&mut self, index: u32, at: Nanos) {
        let key = self.reserve(at);
        self.schedule_reserved(index, key);
    }

    /// Stores `cell` and runs it at `at`.
    #[inline]
    pub fn post(&mut self, cell: Cell, at: Nanos) {
        let index = self.slab.alloc(cell);
        self.schedule(index, at);
    }

    /// Runs record `index` at a key reserved before, which is ahead.
    #[inline(always)]
    pub fn schedule_reserved(&mut self, index: u32, key: Key) {
        debug_assert!(self.is_ahead(key), "{key:?} is not ahead of {:?}", self.current);
        self.slab.get_mut(index).rank = key.rank;
        if key.at - self.current.at < SPAN as u64 {
            self.place(index, key.at);
        } else {
            self.far.push(Reverse((key, index)));
        }
    }

    #[inline(always)]
    fn place(&mut self, index: u32, at: Nanos) {
        let slot = at as usize % SPAN;
        self.slab.insert(&mut self.slots[slot], index);
        self.words[slot / 64] |= 1 << (slot % 64);
        self.summary |= 1 << (slot / 64);
    }

    /// The next record that is due no later than `until`; time moves to it.
    #[inline]
    pub fn next(&mut self, until: Nanos) -> Option<u32> {
        let mut slot = self.current.at as usize % SPAN;
        if self.slots[slot].is_empty() {
            let at = self.next_time()?;
            if at > until {
                return None;
            }
            self.current.at = at;
            self.fetch();
            slot = at as usize % SPAN;
        }
        let list = &mut self.slots[slot];
        let index = self.slab.pop(list);
        if list.is_empty() {
            let word = &mut self.words[slot / 64];
            *word &= !(1 << (slot % 64));
            if *word == 0 {
                self.summary &= !(1 << (slot / 64));
            }
        }
        self.current.rank = self.slab.get(index).rank;
        self.executed += 1;
        Some(index)
    }

    /// Time of the next pending event. Everything in the wheel is before everything in the heap.
    #[inline]
    fn next_time(&self) -> Option<Nanos> {
        if self.summary == 0 {
            return self.far.peek().map(|Reverse((key, _))| key.at);
        }
        let from = self.current.at as usize % SPAN;
        let here = self.words[from / 64] & (!0 << (from % 64));
        let slot = if here != 0 {
            from / 64 * 64 + here.trailing_zeros() as usize
        } else {
            // The words after this one, then round to the low part of this one.
            let turn = from as u32 / 64 + 1;
            let word = (self.summary.rotate_right(turn).trailing_zeros() + turn) as usize % WORDS;
            word * 64 + self.words[word].trailing_zeros() as usize
        };
        Some(self.current.at + (slot.wrapping_sub(from) % SPAN) as u64)
    }

    /// Moves from the heap to the wheel what has come near.
    #[inline]
    fn fetch(&mut self) {
        while let Some(&Reverse((key, index))) = self.far.peek() {
            if key.at - self.current.at >= SPAN as u64 {
                break;
            }
            self.far.pop();
            self.place(index, key.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell::Kind;
    use super::*;

    /// Any mix of near, far and reserved events runs by (time, rank), as a sorted list would.
    #[test]
    fn order_is_that_of_a_sorted_list() {
        let mut engine = Engine::default();
        let mut x = 7u64;
        let mut random = move |n: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % n
        };
        let mut reserved = Vec::new();
        let mut expected = Vec::new();
        let mut seen = Vec::new();
        for _ in 0..200 {
            let span = [1, 3, 90, 4096, 20_000][random(5) as usize];
            engine.post(Cell::event(Kind::Wake, 0), random(span));
        }
        expected.extend((1..=200).map(|rank| rank as u64));
        while let Some(index) = engine.next(Nanos::MAX) {
            let rank = engine.slab.get(index).rank;
            seen.push((engine.now(), rank));
            engine.slab.release(index);
            if seen.len() < 5000 {
                let span = [1, 3, 90, 4096, 20_000][random(5) as usize];
                let at = engine.now() + random(span);
                let key = engine.reserve(at);
                expected.push(key.rank);
                if random(3) == 0 {
                    reserved.push(key);
                } else {
                    let index = engine.slab.alloc(Cell::event(Kind::Wake, 0));
                    engine.schedule_reserved(index, key);
                }
            }
            while let Some(key) = reserved.pop_if(|key| !engine.is_ahead(*key) || random(2) == 0) {
                if engine.is_ahead(key) {
                    let index = engine.slab.alloc(Cell::event(Kind::Wake, 0));
                    engine.schedule_reserved(index, key);
                } else {
                    expected.retain(|&rank| rank != key.rank);
                }
            }
        }
        assert!(seen.is_sorted(), "events ran out of order");
        let mut ranks: Vec<u64> = seen.iter().map(|&(_, rank)| rank).collect();
        ranks.sort_unstable();
        expected.retain(|rank| reserved.iter().all(|key| key.rank != *rank));
        assert_eq!(ranks, expected, "every event runs once");
    }

    #[test]
    fn nothing_runs_after_the_end() {
        let mut engine = Engine::default();
        engine.post(Cell::event(Kind::Wake, 1), 10);
        engine.post(Cell::event(Kind::Wake, 2), 9000);
        assert!(engine.next(8999).is_some());
        assert!(engine.next(8999).is_none());
        assert_eq!(engine.now(), 10);
        assert!(engine.next(9000).is_some());
    }
}
