//! Which groups have stopped their senders.

/// Priority groups in Xoff, a bit each: what looks at all of them does not look at the others.
#[derive(Debug)]
pub(super) struct XoffGroups {
    words: Box<[u64]>,
    count: u32,
    /// None of those without headroom can resume while less of the shared pool is free, bytes.
    floor: u64,
}

impl XoffGroups {
    /// None of `groups` groups.
    pub fn new(groups: usize) -> Self {
        Self { words: vec![0; groups.div_ceil(64)].into_boxed_slice(), count: 0, floor: 0 }
    }

    pub fn insert(&mut self, group: usize) {
        let bit = 1 << (group % 64);
        let word = &mut self.words[group / 64];
        self.count += u32::from(*word & bit == 0);
        *word |= bit;
        self.floor = 0;
    }

    pub fn remove(&mut self, group: usize) {
        let bit = 1 << (group % 64);
        let word = &mut self.words[group / 64];
        self.count -= u32::from(*word & bit != 0);
        *word &= !bit;
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
        (self.count, self.floor) = (0, 0);
    }

    /// One of them may be able to resume now that so many bytes are free.
    #[inline(always)]
    pub fn may_resume(&self, free: u64) -> bool {
        self.count > 0 && free >= self.floor
    }

    /// None of them can resume before so many bytes are free.
    pub fn set_floor(&mut self, free: u64) {
        self.floor = free;
    }

    /// One of them can resume when so many bytes are free.
    pub fn lower_floor(&mut self, free: u64) {
        self.floor = self.floor.min(free);
    }

    /// The first group of the set from `from` on.
    #[inline]
    pub fn next(&self, from: usize) -> Option<usize> {
        let (mut at, mut mask) = (from / 64, u64::MAX << (from % 64));
        loop {
            let word = self.words.get(at)? & mask;
            if word != 0 {
                return Some(at * 64 + word.trailing_zeros() as usize);
            }
            (at, mask) = (at + 1, u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn groups_are_those_of_an_ordered_set() {
        let (mut rng, mut want) = (Rng::new(3), BTreeSet::new());
        let mut groups = XoffGroups::new(201);
        for step in 0..5000 {
            let group = rng.next_u32() as usize % 201;
            if rng.next_u32().is_multiple_of(2) {
                groups.insert(group);
                want.insert(group);
            } else {
                groups.remove(group);
                want.remove(&group);
            }
            if step % 1000 == 999 {
                groups.clear();
                want.clear();
            }
            assert_eq!(groups.may_resume(0), !want.is_empty());
            let from = rng.next_u32() as usize % 260;
            assert_eq!(groups.next(from), want.range(from..).next().copied());
        }
    }
}
