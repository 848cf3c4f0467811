//! Which kept decisions concern a station: two lists go through each decision, one for its source and one for its
//! destination. Finding a decision does not touch them.

/// No member.
const NONE: u16 = u16::MAX;
/// Lists; stations share them.
const LISTS: usize = 4096;
/// Most members of a list that are gone through: some microseconds.
const MOST: u32 = 512;

/// The beginning of a list.
#[derive(Clone, Copy, Debug)]
struct List {
    /// It is empty if decisions of this epoch are no longer kept.
    epoch: u64,
    members: u32,
    first: u16,
}

/// Source (even) or destination (odd) of a decision, in its list.
#[derive(Clone, Copy, Debug)]
struct Member {
    before: u16,
    behind: u16,
    list: u16,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Index {
    lists: Box<[List]>,
    members: Box<[Member]>,
}

impl Index {
    /// For `decisions` decisions, 32767 at most.
    pub fn new(decisions: usize) -> Self {
        let nobody = Member { before: NONE, behind: NONE, list: 0 };
        Self {
            lists: vec![List { epoch: 0, members: 0, first: NONE }; LISTS].into_boxed_slice(),
            members: vec![nobody; 2 * decisions].into_boxed_slice(),
        }
    }

    fn list_of(station: u64) -> usize {
        (station.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - LISTS.ilog2())) as usize % LISTS
    }

    /// Decision `at` is one about other `stations` from now on; `taken`: it was one of this epoch before.
    pub fn replace(&mut self, at: usize, taken: bool, epoch: u64, stations: [u64; 2]) {
        for (side, station) in stations.into_iter().enumerate() {
            let member = 2 * at + side;
            if taken {
                self.unlink(member);
            }
            self.link(member, Self::list_of(station), epoch);
        }
    }

    /// Takes decisions from the list of a station for which `is_gone` says that they are void. `false`: there are too
    /// many to ask.
    #[must_use]
    pub fn remove(&mut self, station: u64, epoch: u64, mut is_gone: impl FnMut(usize) -> bool) -> bool {
        let list = self.lists[Self::list_of(station)];
        if list.epoch != epoch {
            return true;
        }
        if list.members > MOST {
            return false;
        }
        let mut member = usize::from(list.first);
        while member != usize::from(NONE) {
            let gone = is_gone(member / 2);
            if gone {
                // It may be the next one of the same list.
                self.unlink(member ^ 1);
            }
            let behind = usize::from(self.members[member].behind);
            if gone {
                self.unlink(member);
            }
            member = behind;
        }
        true
    }

    fn link(&mut self, member: usize, list: usize, epoch: u64) {
        let head = &mut self.lists[list];
        if head.epoch != epoch {
            *head = List { epoch, members: 0, first: NONE };
        }
        let behind = std::mem::replace(&mut head.first, member as u16);
        head.members += 1;
        self.members[member] = Member { before: NONE, behind, list: list as u16 };
        if behind != NONE {
            self.members[usize::from(behind)].before = member as u16;
        }
    }

    fn unlink(&mut self, member: usize) {
        let Member { before, behind, list } = self.members[member];
        let head = &mut self.lists[usize::from(list)];
        head.members -= 1;
        match before {
            NONE => head.first = behind,
            before => self.members[usize::from(before)].behind = behind,
        }
        if behind != NONE {
            self.members[usize::from(behind)].before = before;
        }
    }
}
