//! Whose turn it is of many senders behind one link: those whose time has come, one after the other, found without asking the others.

use super::sender::Due;
use arrayvec::ArrayVec;
use std::ops::Range;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::{Nanos, PRIORITIES};

/// Times of places in a row: the least of them, and the next place whose time has come, in steps that grow with the logarithm of
/// their number. A tree: a node is the least of the two below it, the leaves are the times.
#[derive(Debug, Default)]
struct Times {
    /// Leaves, a power of two, or none. The first one is behind as many nodes; the root is node 1.
    leaves: usize,
    nodes: Vec<Nanos>,
}

impl Times {
    /// For `places` of these times.
    fn of(times: impl Iterator<Item = Nanos>, places: usize) -> Self {
        let leaves = places.next_power_of_two();
        let mut nodes = vec![NEVER; leaves];
        nodes.extend(times);
        nodes.resize(2 * leaves, NEVER);
        (1..leaves).rev().for_each(|node| nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]));
        Self { leaves, nodes }
    }

    #[inline]
    fn set(&mut self, place: usize, time: Nanos) {
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
    fn least(&self) -> Nanos {
        self.nodes.get(1).copied().unwrap_or(NEVER)
    }

    /// The first place from `from` on whose time is `now` or before.
    #[inline]
    fn first(&self, from: usize, now: Nanos) -> Option<usize> {
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

/// Senders that are not done, in the order of their turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The sender at each place; `None`: it is done.
    senders: Vec<Option<u32>>,
    /// The place of each sender, also of one that is done.
    places: Vec<u32>,
    /// Those of which something has changed since they said when they are due.
    changed: Vec<u32>,
    /// Place after the sender that sent last.
    next: usize,
    /// When the frame of each place is due, by its priority: of those there are. And when its timers are.
    frames: ArrayVec<(u8, Times), PRIORITIES>,
    timers: Times,
}

impl Turns {
    /// A sender that has something to do: its turn is after that of all others.
    pub fn join(&mut self, sender: u32) {
        if self.senders.len() == self.timers.leaves {
            self.make_room();
        }
        if self.places.len() <= sender as usize {
            self.places.resize(sender as usize + 1, 0);
        }
        self.places[sender as usize] = self.senders.len() as u32;
        self.senders.push(Some(sender));
        self.changed.push(sender);
    }

    /// Closes up, and makes room for as many again.
    fn make_room(&mut self) {
        let kept = |place: &usize| self.senders[*place].is_some();
        let kept: Vec<usize> = (0..self.senders.len()).filter(kept).collect();
        let room = (2 * kept.len()).max(1);
        let frames = self.frames.iter_mut().map(|(_, times)| times);
        for times in frames.chain([&mut self.timers]).filter(|times| times.leaves > 0) {
            *times = Times::of(kept.iter().map(|place| times.nodes[times.leaves + place]), room);
        }
        if self.timers.leaves == 0 {
            self.timers = Times::of(std::iter::empty(), room);
        }
        self.next = kept.partition_point(|place| *place < self.next);
        self.senders = kept.iter().map(|place| self.senders[*place]).collect();
        for (place, sender) in self.senders.iter().enumerate() {
            sender.iter().for_each(|sender| self.places[*sender as usize] = place as u32);
        }
    }

    /// A sender has nothing more to do, or never had.
    pub fn retire(&mut self, sender: u32, priority: u8) {
        if !self.has(sender) {
            return;
        }
        let place = self.places[sender as usize] as usize;
        self.senders[place] = None;
        self.set(place, priority, NEVER, NEVER);
    }

    /// It is not done.
    pub fn has(&self, sender: u32) -> bool {
        let place = self.places.get(sender as usize).map(|place| *place as usize);
        place.and_then(|place| self.senders.get(place)) == Some(&Some(sender))
    }

    /// Something has changed of a sender.
    #[inline]
    pub fn change(&mut self, sender: u32) {
        if self.changed.last() != Some(&sender) {
            self.changed.push(sender);
        }
    }

    /// One of which something has changed, if it is not done: [`Turns::expect`] is to be told.
    #[inline]
    pub fn take_changed(&mut self) -> Option<u32> {
        loop {
            let sender = self.changed.pop()?;
            if self.has(sender) {
                return Some(sender);
            }
        }
    }

    /// A sender of that priority is due then.
    #[inline]
    pub fn expect(&mut self, sender: u32, priority: u8, due: &Due) {
        self.set(self.places[sender as usize] as usize, priority, due.frame, due.timer);
    }

    #[inline(always)]
    fn set(&mut self, place: usize, priority: u8, frame: Nanos, timer: Nanos) {
        let priority = priority % PRIORITIES as u8;
        self.timers.set(place, timer);
        match self.frames.iter_mut().find(|(of, _)| *of == priority) {
            Some((_, times)) => times.set(place, frame),
            None => self.open(place, priority, frame),
        }
    }

    /// There is a first sender of this priority.
    #[cold]
    fn open(&mut self, place: usize, priority: u8, frame: Nanos) {
        let mut times = Times::of(std::iter::empty(), self.timers.leaves);
        times.set(place, frame);
        self.frames.push((priority, times));
    }

    /// Where the search for the next turn begins.
    pub fn begin(&self) -> usize {
        self.next
    }

    /// The first place of these whose frame is due, of a priority that is not in `held`, or whose timers are; and who is there.
    pub fn first(&self, places: Range<usize>, held: u8, now: Nanos) -> Option<(usize, u32)> {
        let open = self.frames.iter().filter(|(priority, _)| held >> priority & 1 == 0);
        let frames = open.filter_map(|(_, times)| times.first(places.start, now));
        let place = frames.chain(self.timers.first(places.start, now)).min()?;
        let sender = self.senders.get(place).copied().flatten()?;
        (place < places.end).then_some((place, sender))
    }

    /// All of them, in the order of their turns.
    pub fn in_order(&self) -> impl Iterator<Item = u32> {
        let (before, from) = self.senders.split_at(self.next.min(self.senders.len()));
        from.iter().chain(before).flatten().copied()
    }

    /// The one at this place has sent.
    pub fn sent(&mut self, place: usize) {
        self.next = place + 1;
    }

    /// When the first of them has something to do, if those of priorities in `held` may not send before `resume`.
    #[inline]
    pub fn due(&self, held: u8, resume: Nanos) -> Nanos {
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
            }
        }
        assert_eq!((Times::default().least(), Times::default().first(0, 5)), (NEVER, None));
    }
}
