//! The events of the published profile: integer nanoseconds, equal times in the order of scheduling, on the queue of all simulations.
//!
//! A rank can be reserved now and used later ([`Engine::reserve`]): an event which may turn out to
//! have nothing to do needs no place in the queue until somebody asks for it, and still runs where it
//! would have run.
use weir_dataplane::types::Nanos;

use super::cell::{Cell, Key, Slab};
use crate::event_queue::EventQueue;

/// Pending events and the time.
#[derive(Debug)]
pub struct Engine {
    /// Every record of the simulation.
    pub slab: Slab,
    queue: EventQueue<u32, 0>,
    current: Key,
    executed: u64,
}

impl Default for Engine {
    fn default() -> Self {
        // Rank 0 is before everything.
        Self { slab: Slab::default(), queue: EventQueue::new(0, 1), current: Key::default(), executed: 0 }
    }
}

impl Engine {
    /// Time of the running event.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.current.at
    }

    /// Rank of the running event.
    #[inline]
    pub fn rank(&self) -> u64 {
        self.current.rank
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
        Key { at, rank: self.queue.reserve() }
    }

    /// Runs record `index` at `at`, which is not in the past.
    #[inline]
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
    #[inline]
    pub fn schedule_reserved(&mut self, index: u32, key: Key) {
        debug_assert!(self.is_ahead(key), "{key:?} is not ahead of {:?}", self.current);
        self.queue.push_as(key.at, key.rank, index);
    }

    /// The next record that is due no later than `until`; time moves to it.
    #[inline]
    pub fn next(&mut self, until: Nanos) -> Option<u32> {
        let (at, rank, index) = self.queue.pop_before((until, u64::MAX))?;
        self.current = Key { at, rank };
        self.executed += 1;
        Some(index)
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
            let rank = engine.rank();
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
