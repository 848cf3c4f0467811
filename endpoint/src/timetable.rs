//! When each of many senders behind one link has something to do: the first of those whose time has come is found without asking
//! the others.

use arrayvec::ArrayVec;
use std::ops::Range;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::{Nanos, PRIORITIES};

/// Times of places in a row, [`NEVER`] at first: the least of them, and the next place whose time has come, in steps that grow with the logarithm of
/// their number. A tree: a node is the least of the two below it, the leaves are the times.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// Leaves, a power of two, or none. The first one is behind as many nodes; the root is node 1.
    leaves: usize,
    nodes: Vec<Nanos>,
}

impl Times {
    /// For `places`, the first of which have these times.
    pub(crate) fn of(times: impl Iterator<Item = Nanos>, places: usize) -> Self {
        let leaves = places.next_power_of_two();
        let mut nodes = vec![NEVER; leaves];
        nodes.extend(times);
        nodes.resize(2 * leaves, NEVER);
        (1..leaves).rev().for_each(|node| nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]));
        Self { leaves, nodes }
    }

    /// There are so many places, at least.
    pub(crate) fn make_room(&mut self, places: usize) {
        if places > self.leaves {
            *self = Self::of(self.nodes.iter().skip(self.leaves).copied(), places);
        }
    }

    /// How many places there is room for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.leaves
    }

    /// Of each place.
    pub(crate) fn get(&self, place: usize) -> Nanos {
        self.nodes[self.leaves + place]
    }

    #[inline]
    pub(crate) fn set(&mut self, place: usize, time: Nanos) {
        let mut node = self.leaves + place;
        self.nodes[node] = time;
        while node > 1 {
            node /= 2;
            let least = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == least {
                return;
            }
            self.nodes[node] = least;
        }
    }

    #[inline]
    pub(crate) fn least(&self) -> Nanos {
        self.nodes.get(1).copied().unwrap_or(NEVER)
    }

    /// The least of those after `now`.
    pub(crate) fn after(&self, now: Nanos) -> Nanos {
        self.after_below(1, now)
    }

    fn after_below(&self, node: usize, now: Nanos) -> Nanos {
        match self.nodes.get(node) {
            Some(least) if *least > now => *least,
            Some(_) if node < self.leaves => {
                self.after_below(2 * node, now).min(self.after_below(2 * node + 1, now))
            }
            _ => NEVER,
        }
    }

    /// The first place from `from` on whose time is `now` or before.
    #[inline]
    pub(crate) fn first(&self, from: usize, now: Nanos) -> Option<usize> {
        if self.least() > now || from >= self.leaves {
            return None;
        }
        let mut node = self.leaves + from;
        while self.nodes[node] > now {
            if (node + 1).is_power_of_two() {
                return None;
            }
            // What begins behind it, as far as one node says.
            node += 1;
            node >>= node.trailing_zeros();
        }
        while node < self.leaves {
            node = 2 * node + usize::from(self.nodes[2 * node] > now);
        }
        Some(node - self.leaves)
    }
}

/// When the frame of each place is due, by its priority, and when its timers are.
#[derive(Debug, Default)]
pub(crate) struct Timetable {
    /// Of the priorities that there are.
    frames: ArrayVec<(u8, Times), PRIORITIES>,
    timers: Times,
}

impl Timetable {
    /// How many places there is room for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.timers.room()
    }

    /// There are so many places, at least.
    pub(crate) fn make_room(&mut self, places: usize) {
        self.timers.make_room(places);
        self.frames.iter_mut().for_each(|(_, times)| times.make_room(places));
    }

    /// These places are all that is kept, in their order, with room for so many.
    pub(crate) fn keep(&mut self, kept: &[usize], room: usize) {
        for times in self.frames.iter_mut().map(|(_, times)| times).chain([&mut self.timers]) {
            *times = Times::of(kept.iter().map(|place| times.get(*place)), room);
        }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, place: usize, priority: u8, frame: Nanos, timer: Nanos) {
        let priority = priority % PRIORITIES as u8;
        self.timers.set(place, timer);
        match self.frames.iter_mut().find(|(of, _)| *of == priority) {
            Some((_, times)) => times.set(place, frame),
            None => self.open(place, priority, frame),
        }
    }

    /// There is a first place of this priority.
    #[cold]
    fn open(&mut self, place: usize, priority: u8, frame: Nanos) {
        let mut times = Times::of(std::iter::empty(), self.timers.room());
        times.set(place, frame);
        self.frames.push((priority, times));
    }

    /// The first of these places whose frame is due, of a priority that is not in `held`.
    #[inline]
    pub(crate) fn first_frame(&self, places: Range<usize>, held: u8, now: Nanos) -> Option<usize> {
        self.frames_from(places.start, held, now).min().filter(|place| *place < places.end)
    }

    /// The first of these places whose timers are due.
    #[inline]
    pub(crate) fn first_timer(&self, places: Range<usize>, now: Nanos) -> Option<usize> {
        self.timers.first(places.start, now).filter(|place| *place < places.end)
    }

    /// The first of these places of which either is due.
    #[inline]
    pub(crate) fn first(&self, places: Range<usize>, held: u8, now: Nanos) -> Option<usize> {
        let frames = self.frames_from(places.start, held, now);
        let first = frames.chain(self.timers.first(places.start, now)).min();
        first.filter(|place| *place < places.end)
    }

    /// The first place from `from` on of each priority that is not in `held` whose frame is due.
    #[inline]
    fn frames_from(&self, from: usize, held: u8, now: Nanos) -> impl Iterator<Item = usize> {
        let open = self.frames.iter().filter(move |(priority, _)| held >> priority & 1 == 0);
        open.filter_map(move |(_, times)| times.first(from, now))
    }

    /// When the first of them after `now` has something to do.
    pub(crate) fn after(&self, now: Nanos) -> Nanos {
        let frames = self.frames.iter().map(|(_, times)| times.after(now));
        frames.fold(self.timers.after(now), Nanos::min)
    }

    /// When the first of them has something to do, if those of priorities in `held` may not send before `resume`.
    #[inline]
    pub(crate) fn due(&self, held: u8, resume: Nanos) -> Nanos {
        let mut due = self.timers.least();
        for (priority, times) in &self.frames {
            let first = times.least();
            let waits = first != NEVER && held >> priority & 1 == 1;
            due = due.min(if waits { first.max(resume) } else { first });
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_dataplane::rng::Rng;

    #[test]
    fn times_are_those_of_a_list() {
        let mut rng = Rng::new(11);
        for places in [1, 2, 3, 7, 8, 100] {
            let mut list: Vec<Nanos> = (0..places).map(|_| u64::from(rng.next_u32() % 50)).collect();
            let mut times = Times::of(list.iter().copied(), places);
            for _ in 0..500 {
                let (place, time) = (rng.next_u32() as usize % places, u64::from(rng.next_u32() % 50));
                let time = if rng.next_u32().is_multiple_of(4) { NEVER } else { time };
                list[place] = time;
                times.set(place, time);
                assert_eq!(times.least(), *list.iter().min().unwrap());
                let (from, now) = (rng.next_u32() as usize % (places + 2), u64::from(rng.next_u32() % 50));
                let want = (from..places).find(|place| list[*place] <= now);
                assert_eq!(times.first(from, now), want, "{list:?} from {from} at {now}");
                let later = list.iter().copied().filter(|time| *time > now).min();
                assert_eq!(times.after(now), later.unwrap_or(NEVER), "{list:?} after {now}");
            }
        }
        assert_eq!((Times::default().least(), Times::default().first(0, 5)), (NEVER, None));
    }

    #[test]
    fn room_is_made_without_a_change() {
        let mut times = Times::default();
        for places in 1..20 {
            times.make_room(places);
            times.set(places - 1, 100 - places as Nanos);
            assert_eq!((times.least(), times.first(0, 99)), (100 - places as Nanos, Some(0)));
        }
    }
}
