//! What is to happen, by time: equal times in the order in which they were asked for. The one event queue of all simulations.
//!
//! A wheel of slots of about a nanosecond holds the next four microseconds, which is nearly all there ever is
//! in a fabric; a heap holds the rest, and hands it over as it comes near. A slot is put in order when its time has come, unless what
//! is in it is alone, as it nearly always is in a small fabric; what is asked for while it is played goes through a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Slots of the wheel, a power of two.
const SPAN: usize = 4096;
const WORDS: usize = SPAN / 64;
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node<T> {
    time: u64,
    order: u64,
    next: u32,
    what: T,
}

/// Numbers from this one on say in which order a group of nodes that plays a window by itself asked for events, until it is known
/// how many others were asked for in between. All that were asked for before the window have smaller ones.
pub(crate) const UNSETTLED: u64 = 1 << 63;

/// Pending events. A slot is 2^`SHIFT` units of time: 1024 of the picoseconds of a fabric, or one of the nanoseconds of the published profile.
#[derive(Debug)]
pub(crate) struct EventQueue<T, const SHIFT: u32> {
    nodes: Vec<Node<T>>,
    /// A node that is not in use, whose `next` is another one.
    spare: u32,
    /// Newest node of each slot, whose `next` is the one before it.
    newest: Box<[u32; SPAN]>,
    words: [u64; WORDS],
    summary: u64,
    /// What was in the slot of `now`, the last one first: time, number and node. New ones are in the slot again.
    due: Vec<(u64, u64, u32)>,
    /// What came into that slot since.
    late: BinaryHeap<Reverse<(u64, u64, u32)>>,
    far: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Time of the first of these, `u64::MAX` if there is none: looked at each time the wheel turns.
    far_from: u64,
    /// Number of the next event that is asked for.
    order: u64,
    now: u64,
    /// Places of those that were asked for in this window, in order; [`NIL`]: it is another group's.
    asked: Vec<u32>,
}

impl<T: Copy, const SHIFT: u32> EventQueue<T, SHIFT> {
    /// Empty at `now`; the first event that is asked for has number `order`.
    pub fn new(now: u64, order: u64) -> Self {
        Self {
            nodes: Vec::new(),
            spare: NIL,
            newest: Box::new([NIL; SPAN]),
            words: [0; WORDS],
            summary: 0,
            due: Vec::new(),
            late: BinaryHeap::new(),
            far: BinaryHeap::new(),
            far_from: u64::MAX,
            order,
            now,
            asked: Vec::new(),
        }
    }

    /// Number of an event that is asked for now, and pushed later ([`Self::push_as`]) or never.
    #[inline]
    pub fn reserve(&mut self) -> u64 {
        self.order += 1;
        self.order - 1
    }

    /// `what` happens at `time`, which is not before what was last taken.
    #[inline]
    pub fn push(&mut self, time: u64, what: T) {
        let order = self.reserve();
        let at = self.push_as(time, order, what);
        if order >= UNSETTLED {
            self.asked.push(at);
        }
    }

    /// The same of what was asked for before, or elsewhere, and has number `order`. Returns its place.
    #[inline]
    pub fn push_as(&mut self, time: u64, order: u64, what: T) -> u32 {
        debug_assert!(time >= self.now);
        if !self.is_near(time) {
            return self.push_far(time, order, what);
        }
        // Written once, with what comes behind it.
        let (slot, at) = (Self::slot_of(time), self.spare);
        let next = self.newest[slot];
        let at = match self.nodes.get_mut(at as usize) {
            Some(spare) => {
                self.spare = spare.next;
                *spare = Node { time, order, next, what };
                at
            }
            None => self.push_new(Node { time, order, next, what }),
        };
        self.newest[slot] = at;
        if next == NIL {
            self.mark(slot);
        }
        at
    }

    #[cold]
    fn push_far(&mut self, time: u64, order: u64, what: T) -> u32 {
        let node = Node { time, order, next: NIL, what };
        let at = match self.nodes.get_mut(self.spare as usize) {
            Some(spare) => std::mem::replace(&mut self.spare, std::mem::replace(spare, node).next),
            None => self.push_new(node),
        };
        self.far.push(Reverse((time, order, at)));
        self.far_from = self.far_from.min(time);
        at
    }

    #[cold]
    fn push_new(&mut self, node: Node<T>) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Number of the next event that is asked for.
    pub fn next_order(&self) -> u64 {
        self.order
    }

    /// A window begins: what is asked for from now on has no place among all others yet.
    pub fn begin_window(&mut self) {
        self.order = UNSETTLED;
        self.asked.clear();
    }

    /// How many events were asked for in this window.
    #[inline]
    pub fn asked(&self) -> u32 {
        self.asked.len() as u32
    }

    /// Another group's event was asked for. Returns its number among all of this window.
    pub fn asked_elsewhere(&mut self) -> u32 {
        self.order += 1;
        self.asked.push(NIL);
        self.asked() - 1
    }

    /// The window is over, and what was asked for has these numbers, `base` more. The order of what is here stays the same.
    pub fn settle(&mut self, base: u64, numbers: &[u32]) {
        for ((nth, at), number) in (UNSETTLED..).zip(&self.asked).zip(numbers) {
            // It may have happened, and its place belong to another one.
            if let Some(node) = self.nodes.get_mut(*at as usize)
                && node.order == nth
            {
                node.order = base + u64::from(*number);
            }
        }
        if !self.asked.is_empty() {
            self.due.iter_mut().for_each(|(_, order, at)| *order = self.nodes[*at as usize].order);
            let mut late = std::mem::take(&mut self.late).into_vec();
            late.iter_mut().for_each(|Reverse((_, order, at))| *order = self.nodes[*at as usize].order);
            self.late = late.into();
        }
        self.asked.clear();
    }

    /// Takes out everything, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = (u64, u64, T)> + '_ {
        std::iter::from_fn(|| self.pop_before((u64::MAX, u64::MAX)))
    }

    #[inline]
    fn slot_of(time: u64) -> usize {
        (time >> SHIFT) as usize % SPAN
    }

    #[inline]
    fn place(&mut self, at: u32, slot: usize) {
        let before = std::mem::replace(&mut self.newest[slot % SPAN], at);
        self.nodes[at as usize].next = before;
        if before == NIL {
            self.mark(slot);
        }
    }

    /// There is something in a slot.
    #[inline]
    fn mark(&mut self, slot: usize) {
        self.words[slot / 64 % WORDS] |= 1 << (slot % 64);
        self.summary |= 1 << (slot / 64);
    }

    /// Takes all nodes of a slot, the newest first.
    #[inline]
    fn clear(&mut self, slot: usize) -> u32 {
        let word = &mut self.words[slot / 64 % WORDS];
        *word &= !(1 << (slot % 64));
        if *word == 0 {
            self.summary &= !(1 << (slot / 64));
        }
        std::mem::replace(&mut self.newest[slot % SPAN], NIL)
    }

    /// Time, number and node of each in the list that begins with `first`.
    fn listed(&self, first: u32) -> impl Iterator<Item = (u64, u64, u32)> {
        let some = |at: u32| (at != NIL).then_some(at);
        let all = std::iter::successors(some(first), move |at| some(self.nodes[*at as usize].next));
        all.map(|at| (self.nodes[at as usize].time, self.nodes[at as usize].order, at))
    }

    /// When something comes next.
    pub fn next_time(&self) -> Option<u64> {
        let slot = Self::slot_of(self.now);
        if self.newest[slot] == NIL && !self.waits() && self.summary == 0 {
            return self.far.peek().map(|Reverse((time, ..))| *time);
        }
        self.next().map(|(time, _)| time)
    }

    /// When something comes next, and its number.
    pub fn next(&self) -> Option<(u64, u64)> {
        let mut slot = Self::slot_of(self.now);
        let due = self.first_due();
        if due.is_none() && self.newest[slot] == NIL {
            if self.summary == 0 {
                // Equal times may not be in order there.
                let &Reverse((first, ..)) = self.far.peek()?;
                let orders = self.far.iter().filter(|Reverse((time, ..))| *time == first);
                let orders = orders.map(|Reverse((.., at))| self.nodes[*at as usize].order);
                return orders.min().map(|order| (first, order));
            }
            slot = self.next_slot(slot);
        }
        self.listed(self.newest[slot]).chain(due).min().map(|(time, order, _)| (time, order))
    }

    /// Something that was in the slot of `now` is still to come.
    #[inline]
    fn waits(&self) -> bool {
        !self.due.is_empty() || !self.late.is_empty()
    }

    /// What comes first of what was in the slot of `now`.
    #[inline]
    fn first_due(&self) -> Option<(u64, u64, u32)> {
        match (self.due.last(), self.late.peek()) {
            (due, None) => due.copied(),
            (None, Some(Reverse(late))) => Some(*late),
            (Some(due), Some(Reverse(late))) => Some(*due.min(late)),
        }
    }

    /// Takes what comes next, if it comes before this time and number. Of the loop that plays it, so that nothing goes through memory.
    #[inline(always)]
    pub fn pop_before(&mut self, limit: (u64, u64)) -> Option<(u64, u64, T)> {
        let mut slot = Self::slot_of(self.now);
        if self.waits() {
            return self.pop_among(slot, limit);
        }
        if self.newest[slot] == NIL {
            slot = self.advance(slot, limit.0)?;
        }
        let newest = self.newest[slot];
        let node = self.nodes.get_mut(newest as usize)?;
        let (time, order, next, what) = (node.time, node.order, node.next, node.what);
        if next != NIL {
            return self.pop_of_two(slot, limit);
        }
        if (time, order) >= limit {
            return None;
        }
        node.next = std::mem::replace(&mut self.spare, newest);
        self.now = time;
        self.clear(slot);
        Some((time, order, what))
    }

    /// The same if several are of one nanosecond, of which nothing has been put in order. Two are not: the other one stays where it is.
    #[inline(never)]
    fn pop_of_two(&mut self, slot: usize, limit: (u64, u64)) -> Option<(u64, u64, T)> {
        let newest = self.newest[slot];
        let node = |at: u32| self.nodes.get(at as usize);
        let (one, other) = (node(newest)?, node(node(newest)?.next)?);
        if other.next != NIL {
            return self.pop_among(slot, limit);
        }
        let older_first = (other.time, other.order) < (one.time, one.order);
        let (at, first) = if older_first { (one.next, other) } else { (newest, one) };
        let (time, order, what) = (first.time, first.order, first.what);
        if (time, order) >= limit {
            return None;
        }
        if older_first {
            self.nodes[newest as usize].next = NIL;
        } else {
            self.newest[slot] = one.next;
        }
        self.take(at, time);
        Some((time, order, what))
    }

    /// The same if there are more, or some are in order.
    #[inline(never)]
    fn pop_among(&mut self, slot: usize, limit: (u64, u64)) -> Option<(u64, u64, T)> {
        if self.newest[slot] != NIL {
            self.gather(slot);
        }
        let (time, order, first) = if self.late.is_empty() { *self.due.last()? } else { self.first_due()? };
        if (time, order) >= limit {
            return None;
        }
        if self.due.last().is_some_and(|(.., at)| *at == first) {
            self.due.pop();
        } else {
            self.late.pop();
        }
        let what = self.nodes[first as usize].what;
        self.take(first, time);
        Some((time, order, what))
    }

    /// What is in a slot is put in order, or joins what has come late.
    fn gather(&mut self, slot: usize) {
        let newest = self.clear(slot);
        if self.waits() {
            let mut late = std::mem::take(&mut self.late);
            late.extend(self.listed(newest).map(Reverse));
            self.late = late;
            return;
        }
        let mut due = std::mem::take(&mut self.due);
        due.extend(self.listed(newest));
        // Most are asked for in the order in which they happen.
        if !due.is_sorted_by(|a, b| a > b) {
            due.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.due = due;
    }

    /// Node `at` happens now.
    #[inline]
    fn take(&mut self, at: u32, time: u64) {
        self.nodes[at as usize].next = std::mem::replace(&mut self.spare, at);
        self.now = time;
    }

    /// Time goes on to the next slot in use, if that begins by `limit`. There is nothing in `slot`, that of `now`.
    #[inline(always)]
    fn advance(&mut self, slot: usize, limit: u64) -> Option<usize> {
        let now = if self.summary == 0 {
            self.far.peek()?.0.0
        } else {
            let next = self.next_slot(slot);
            ((self.now >> SHIFT) + (next.wrapping_sub(slot) % SPAN) as u64) << SHIFT
        };
        if now > limit {
            return None;
        }
        self.now = now;
        self.fetch();
        Some(Self::slot_of(now))
    }

    /// The first slot in use after `from`, cyclically; there is one.
    #[inline]
    fn next_slot(&self, from: usize) -> usize {
        let here = self.words[from / 64 % WORDS] & (u64::MAX << (from % 64));
        if here != 0 {
            return from / 64 * 64 + here.trailing_zeros() as usize;
        }
        let turn = from as u32 / 64 + 1;
        let word = (self.summary.rotate_right(turn).trailing_zeros() + turn) as usize % WORDS;
        word * 64 + self.words[word].trailing_zeros() as usize
    }

    /// What has come near moves to the wheel. Everything there was before all of it.
    #[inline(always)]
    fn fetch(&mut self) {
        if self.is_near(self.far_from) {
            self.fetch_far();
        }
    }

    #[inline(always)]
    fn is_near(&self, time: u64) -> bool {
        (time >> SHIFT) - (self.now >> SHIFT) < SPAN as u64
    }

    #[cold]
    fn fetch_far(&mut self) {
        while let Some(&Reverse((time, _, at))) = self.far.peek()
            && self.is_near(time)
        {
            self.far.pop();
            self.place(at, Self::slot_of(time));
        }
        self.far_from = self.far.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_dataplane::rng::Rng;

    fn pop<const SHIFT: u32>(queue: &mut EventQueue<u32, SHIFT>) -> Option<(u64, u32)> {
        let next = queue.next();
        assert_eq!(queue.next_time(), next.map(|(time, _)| time));
        let popped = queue.pop_before((u64::MAX, u64::MAX));
        assert_eq!(next, popped.map(|(time, order, _)| (time, order)));
        popped.map(|(time, _, what)| (time, what))
    }

    #[test]
    fn order_is_that_of_a_sorted_list() {
        plays_in_order::<10>();
        plays_in_order::<0>();
    }

    fn plays_in_order<const SHIFT: u32>() {
        let mut rng = Rng::new(5);
        let mut queue = EventQueue::<_, SHIFT>::new(0, 0);
        let mut waiting: Vec<(u64, u32)> = Vec::new();
        let (mut now, mut number) = (0, 0);
        for _ in 0..20_000 {
            if waiting.is_empty() || rng.next_u32() % 5 < 2 {
                let spans = [1, 900, 50_000, 4_000_000, 4_194_304, 90_000_000];
                let span = spans[rng.next_u32() as usize % spans.len()];
                let time = now + ((rng.next_u64() % span) >> (10 - SHIFT));
                for _ in 0..1 + rng.next_u32() % 3 {
                    queue.push(time, number);
                    waiting.push((time, number));
                    number += 1;
                }
            } else {
                // Equal times: the smaller number was asked for first.
                let first = waiting.iter().enumerate().min_by_key(|(_, w)| **w).unwrap().0;
                let want = waiting.swap_remove(first);
                assert_eq!(pop(&mut queue), Some(want));
                now = want.0;
            }
        }
        waiting.sort_unstable();
        for want in waiting {
            assert_eq!(pop(&mut queue), Some(want));
        }
        assert_eq!(pop(&mut queue), None);
        queue.push(now + 1_000_000_000_000, 7);
        assert_eq!(pop(&mut queue), Some((now + 1_000_000_000_000, 7)));
    }
}
