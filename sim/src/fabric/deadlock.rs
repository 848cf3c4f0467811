//! PFC deadlocks: pauses in a circle, of which none ends before the next one does.
//!
//! A group that has paused its peer lets it go on when enough of what it holds has left. What waits at a port that its own peer
//! has paused leaves when that pause ends. So a pause is stuck if what its group holds behind stuck pauses is more than the group may hold
//! to resume, whatever else leaves. It is, too, if the headroom that groups share does not suffice for its next Xoff, as long as stuck
//! groups hold of it what they do. Pauses of which none is stuck end by themselves, however long they last.

use std::collections::{BTreeMap, BTreeSet};

/// A port of a switch that holds back a priority of its peer: node, port, priority.
pub(super) type Place = (usize, usize, u8);

/// What a group that has paused its peer holds, in bytes as its buffer counts them.
#[derive(Clone, Debug, Default)]
pub(super) struct Holding {
    /// It resumes with so many bytes or fewer, headroom included.
    pub resumes_at: u64,
    /// What it holds besides headroom, which empties first.
    pub outside_headroom: u64,
    /// Node and part of it whose groups share headroom.
    pub memory: (usize, usize),
    /// It resumes when all groups of that memory together hold so much headroom or less.
    pub headroom_at: u64,
    /// Bytes in queues that are held back, with the pauses that hold them back.
    pub behind: Vec<(u64, Vec<Place>)>,
}

impl Holding {
    /// Bytes behind pauses that are among `stuck`.
    fn waiting(&self, stuck: &BTreeSet<Place>) -> u64 {
        let waits = self.behind.iter().filter(|(_, by)| by.iter().any(|place| stuck.contains(place)));
        waits.map(|(bytes, _)| bytes).sum()
    }

    /// Those of them that are in headroom.
    fn headroom(&self, stuck: &BTreeSet<Place>) -> u64 {
        self.waiting(stuck).saturating_sub(self.outside_headroom)
    }

    fn holders(&self) -> impl Iterator<Item = Place> {
        self.behind.iter().flat_map(|(_, by)| by).copied()
    }
}

/// A circle of pauses, each of which waits for the next one, and the last for the first; the first switch first. Empty: each of
/// them ends.
pub(super) fn circle(mut pauses: BTreeMap<Place, Holding>) -> Vec<Place> {
    let waits: BTreeMap<Place, BTreeSet<Place>> = loop {
        let stuck: BTreeSet<Place> = pauses.keys().copied().collect();
        let mut headroom: BTreeMap<(usize, usize), (u64, BTreeSet<Place>)> = BTreeMap::new();
        for holding in pauses.values().filter(|holding| holding.headroom(&stuck) > 0) {
            let (bytes, by) = headroom.entry(holding.memory).or_default();
            *bytes += holding.headroom(&stuck);
            by.extend(holding.holders());
        }
        let waits_for = |holding: &Holding| {
            let own = (holding.waiting(&stuck) > holding.resumes_at).then(|| holding.holders());
            let shared = headroom.get(&holding.memory).filter(|(bytes, _)| *bytes > holding.headroom_at);
            own.into_iter().flatten().chain(shared.into_iter().flat_map(|(_, by)| by).copied()).collect()
        };
        let waits: BTreeMap<Place, BTreeSet<Place>> =
            pauses.iter().map(|(place, holding)| (*place, waits_for(holding))).collect();
        pauses.retain(|place, _| !waits[place].is_empty());
        if pauses.len() == waits.len() {
            break waits;
        }
    };
    let mut circle = first_circle(waits);
    let first = circle.iter().enumerate().min_by_key(|(_, place)| **place).map_or(0, |(at, _)| at);
    circle.rotate_left(first);
    circle
}

/// A circle of those that wait, each with whom it waits for. Empty: none.
pub(super) fn first_circle<T: Copy + Ord>(mut waits: BTreeMap<T, BTreeSet<T>>) -> Vec<T> {
    // Whoever waits for nobody that waits is in no circle; take him out until none is left.
    loop {
        let waiting: BTreeSet<T> = waits.keys().copied().collect();
        waits.values_mut().for_each(|others| others.retain(|other| waiting.contains(other)));
        let before = waits.len();
        waits.retain(|_, others| !others.is_empty());
        if waits.len() == before {
            break;
        }
    }
    // Everybody left waits for somebody left: following any of them closes a circle.
    let Some((first, _)) = waits.first_key_value() else { return Vec::new() };
    let mut way = vec![*first];
    loop {
        let Some(next) = waits.get(&way[way.len() - 1]).and_then(|others| others.first()) else {
            return Vec::new();
        };
        if let Some(begin) = way.iter().position(|one| one == next) {
            return way.split_off(begin);
        }
        way.push(*next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place, when it resumes, and what waits behind which.
    type Given<'a> = (Place, u64, &'a [(u64, Place)]);

    fn pauses(all: &[Given<'_>]) -> BTreeMap<Place, Holding> {
        let holding = |resumes_at: u64, behind: &[(u64, Place)]| Holding {
            resumes_at,
            outside_headroom: u64::MAX,
            behind: behind.iter().map(|(bytes, place)| (*bytes, vec![*place])).collect(),
            ..Holding::default()
        };
        all.iter().map(|(place, at, behind)| (*place, holding(*at, behind))).collect()
    }

    #[test]
    fn a_pause_is_stuck_if_it_cannot_end_before_the_next_one() {
        let [a, b, c] = [(1, 0, 3), (2, 0, 3), (3, 0, 3)];
        let ring =
            |held: u64| circle(pauses(&[(a, 10, &[(50, b)]), (b, 10, &[(50, c)]), (c, 10, &[(held, a)])]));
        assert_eq!(ring(11), [a, b, c]);
        // What waits for the first is no more than what the last may hold: it ends, and so do the others.
        assert!(ring(10).is_empty());
        // A pause that a stuck one holds up is in no circle, and neither is one that waits for nobody.
        let tail = pauses(&[(c, 0, &[(1, a)]), (a, 0, &[(1, b)]), (b, 0, &[(1, a)]), ((9, 0, 3), 0, &[])]);
        assert_eq!(circle(tail), [a, b]);
        // Of two that hold the same bytes back, one is enough.
        let mut two = pauses(&[(a, 0, &[(1, b)]), (b, 0, &[])]);
        two.get_mut(&b).unwrap().behind = vec![(5, vec![c, a])];
        assert_eq!(circle(two), [a, b]);
    }

    /// A group that could resume has no headroom for its next Xoff while another one of its switch, which is stuck, has most of it.
    #[test]
    fn a_pause_waits_for_headroom_that_another_group_has() {
        let [a, host, b] = [(1, 0, 3), (1, 1, 3), (2, 0, 3)];
        let ring = |headroom_at: u64, memory: (usize, usize)| {
            let mut all = pauses(&[(a, 10, &[]), (host, 10, &[(50, b)]), (b, 10, &[(50, a)])]);
            let own = |holding: &mut Holding| (holding.memory, holding.headroom_at) = ((1, 0), headroom_at);
            all.values_mut().take(2).for_each(own);
            let of_host = all.get_mut(&host).unwrap();
            (of_host.outside_headroom, of_host.memory) = (30, memory);
            circle(all)
        };
        assert_eq!(ring(19, (1, 0)), [a, b]);
        assert!(ring(20, (1, 0)).is_empty(), "20 of the 50 bytes behind the pause are in headroom");
        assert!(ring(19, (1, 1)).is_empty(), "of another memory");
    }
}
