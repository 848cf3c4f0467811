//! Which kept decisions are about a station: two lists go through each decision, one for its source and one for its
//! destination. Finding a decision does not touch them.

/// No member.
const NONE: u32 = u32::MAX;
/// Most lists; stations share them.
const LISTS: usize = 4096;
/// Most members of a list that are gone through: some microseconds.
const MOST: u32 = 512;

/// The beginning of a list.
#[derive(Clone, Copy, Debug)]
struct List {
    /// It is empty if decisions of this epoch are no longer kept.
    epoch: u64,
    members: u32,
    first: u32,
}

/// Source (even) or destination (odd) of a decision, in its list.
#[derive(Clone, Copy, Debug)]
struct Member {
    before: u32,
    behind: u32,
    station: StationHash,
}

/// List of a station, and by what it is told from others of the list. Decisions about two stations of which both are the
/// same (one pair in 2^28) become void together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StationHash {
    list: u16,
    rest: u16,
}

impl StationHash {
    fn of(station: u64) -> Self {
        let hash = station.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { list: (hash >> (64 - LISTS.ilog2())) as u16, rest: (hash >> 32) as u16 }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Index {
    lists: Box<[List]>,
    members: Box<[Member]>,
}

impl Index {
    /// For `decisions` decisions.
    pub fn new(decisions: usize) -> Self {
        let lists = (decisions / 2).next_power_of_two().min(LISTS);
        let nobody = Member { before: NONE, behind: NONE, station: StationHash { list: 0, rest: 0 } };
        Self {
            lists: vec![List { epoch: 0, members: 0, first: NONE }; lists].into_boxed_slice(),
            members: vec![nobody; 2 * decisions].into_boxed_slice(),
        }
    }

    /// Decision `at` is one about other `stations` from now on; `taken`: it was one of this epoch before.
    pub fn replace(&mut self, at: usize, taken: bool, epoch: u64, stations: [u64; 2]) {
        for (side, station) in stations.into_iter().enumerate() {
            let member = 2 * at + side;
            if taken {
                self.unlink(member);
            }
            self.link(member, StationHash::of(station), epoch);
        }
    }

    /// Takes the decisions about a station out of all lists, and says which they are. `false`: there are too many to look
    /// through.
    #[must_use]
    pub fn remove(&mut self, station: u64, epoch: u64, mut is_void: impl FnMut(usize)) -> bool {
        let station = StationHash::of(station);
        let list = self.lists[self.place(station)];
        if list.epoch != epoch {
            return true;
        }
        if list.members > MOST {
            return false;
        }
        let mut next = list.first;
        while next != NONE {
            let member = next as usize;
            if self.members[member].station == station {
                is_void(member / 2);
                // Source and destination may be in the same list.
                self.unlink(member ^ 1);
                next = self.members[member].behind;
                self.unlink(member);
            } else {
                next = self.members[member].behind;
            }
        }
        true
    }

    /// Which list a station is in.
    fn place(&self, station: StationHash) -> usize {
        usize::from(station.list) % self.lists.len()
    }

    fn link(&mut self, member: usize, station: StationHash, epoch: u64) {
        let at = self.place(station);
        let head = &mut self.lists[at];
        if head.epoch != epoch {
            *head = List { epoch, members: 0, first: NONE };
        }
        let behind = std::mem::replace(&mut head.first, member as u32);
        head.members += 1;
        self.members[member] = Member { before: NONE, behind, station };
        if behind != NONE {
            self.members[behind as usize].before = member as u32;
        }
    }

    fn unlink(&mut self, member: usize) {
        let Member { before, behind, station } = self.members[member];
        let at = self.place(station);
        let head = &mut self.lists[at];
        head.members -= 1;
        match before {
            NONE => head.first = behind,
            before => self.members[before as usize].behind = behind,
        }
        if behind != NONE {
            self.members[behind as usize].before = before;
        }
    }
}
