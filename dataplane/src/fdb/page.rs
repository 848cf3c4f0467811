//! The table read aloud, a few buckets at a time: the worker that owns it never stops for the whole of it.

use super::table::WAYS;
use super::{Fdb, Lookup};
use crate::parse::KeyParts;
use crate::portset::PortSet;
use crate::types::{Nanos, PortId};

/// Which entries are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FdbFilter {
    /// Those that point to this port, alone or among others.
    pub port: Option<PortId>,
    /// Those of this address, in any VLAN and format.
    pub address: Option<u64>,
    /// Those of this VLAN; 0: untagged.
    pub vid: Option<u16>,
    /// Neither configured nor joined ones: every shard has those, one is enough to name them.
    pub learned_only: bool,
}

/// An entry that belongs to the shard that was asked: learned by it, or of all, configured or joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdbRow {
    /// Its key, see [`KeyParts`].
    pub key: u64,
    /// Where it points: one port, or the ports of a group.
    pub ports: PortSet,
    /// Configured, not learned.
    pub is_static: bool,
    /// A group that hosts have joined.
    pub is_joined: bool,
    /// Ticks since the one in which it was last seen.
    pub age_ticks: u32,
}

/// Part of a table: made by who asks, filled by who owns the table, so that neither allocates for the other.
#[derive(Debug, Default)]
pub struct FdbPage {
    /// Whose answer it is, for who asks more than once.
    pub id: u64,
    /// What is wanted.
    pub filter: FdbFilter,
    /// Where to go on; [`FdbPage::DONE`] at the end of the table.
    pub next: u64,
    /// Length of a tick, ns; [`Nanos::MAX`]: entries do not age.
    pub tick_ns: Nanos,
    rows: Vec<FdbRow>,
    most: usize,
}

impl FdbPage {
    /// No place of any table.
    pub const DONE: u64 = u64::MAX;

    /// An empty one for at most `most` entries, from `next` on: 0, or where another page ended.
    pub fn new(id: u64, filter: FdbFilter, next: u64, most: usize) -> Self {
        Self { id, filter, next, tick_ns: Nanos::MAX, rows: Vec::with_capacity(most), most }
    }

    /// Its entries, in the order of the table.
    pub fn rows(&self) -> &[FdbRow] {
        &self.rows
    }

    /// Nothing more fits, or nothing more is there.
    pub fn is_full(&self) -> bool {
        self.next == Self::DONE || self.rows.len() >= self.most
    }
}

impl Fdb {
    /// Goes on filling a page, for at most `buckets` buckets. An entry that stays where it is is told exactly once over
    /// all pages of a table; one that comes, goes or is pushed to its other bucket meanwhile may be missed or told twice.
    pub fn read(&self, page: &mut FdbPage, buckets: usize, now_tick: u32) {
        let mut left = buckets;
        while left > 0 && !page.is_full() {
            let (bucket, from) = (page.next / WAYS as u64, page.next % WAYS as u64);
            let Some(bucket) = usize::try_from(bucket).ok().filter(|b| *b < self.table.buckets()) else {
                page.next = FdbPage::DONE;
                return;
            };
            page.next = (bucket as u64 + 1) * WAYS as u64;
            for (slot, key, value) in self.table.bucket(bucket).filter(|(slot, ..)| slot.way() as u64 >= from)
            {
                let ports = match value.target() {
                    Lookup::Group(group) => self.group(group),
                    _ => [value.port()].into_iter().collect(),
                };
                let row = FdbRow {
                    key,
                    ports,
                    is_static: value.is_static() && !value.is_joined(),
                    is_joined: value.is_joined(),
                    age_ticks: match now_tick.wrapping_sub(value.tick()) {
                        // A static entry, or a sighting from the future (the caller's ticks went back).
                        age if value.is_static() || age > i32::MAX as u32 => 0,
                        age => age,
                    },
                };
                if value.is_remote() || !page.filter.admits(&row) {
                    continue;
                }
                if page.rows.len() >= page.most {
                    // Its turn comes on the next page.
                    page.next = bucket as u64 * WAYS as u64 + slot.way() as u64;
                    return;
                }
                page.rows.push(row);
            }
            left -= 1;
        }
    }
}

impl FdbFilter {
    fn admits(&self, row: &FdbRow) -> bool {
        let parts = KeyParts::of(row.key);
        self.port.is_none_or(|port| row.ports.contains(port))
            && self.address.is_none_or(|address| address == parts.address)
            && self.vid.is_none_or(|vid| vid == parts.vid)
            && !(self.learned_only && (row.is_static || row.is_joined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fdb::{FdbEvent, FdbEventKind};
    use std::collections::HashMap;

    fn key(vid: u64, n: u64) -> u64 {
        1 << 60 | vid << 48 | n
    }

    /// 20 000 learned entries on four ports, those of other shards, a static one and a group.
    fn table() -> Fdb {
        let mut fdb = Fdb::new(1 << 15, 16, 7);
        (0..4).for_each(|port| fdb.set_learning(PortId(port), true, u32::MAX));
        for n in 1..=20_000u64 {
            fdb.learn(key(n % 3, n), PortId((n % 4) as u16), (n % 8) as u32);
        }
        for n in 30_000..31_000 {
            fdb.apply(FdbEvent { key: key(0, n), port: PortId(9), kind: FdbEventKind::Seen }, 0);
        }
        fdb.add_static(key(0, 40_000), PortId(1)).unwrap();
        fdb.add_group(key(0, 1 << 40 | 5), [PortId(0), PortId(2)].into_iter().collect()).unwrap();
        fdb
    }

    /// All pages of so many entries, so many buckets at a time, with something done in between.
    fn all(
        fdb: &mut Fdb,
        filter: FdbFilter,
        (most, buckets): (usize, usize),
        mut between: impl FnMut(&mut Fdb),
    ) -> (Vec<FdbRow>, usize) {
        let (mut rows, mut next, mut longest) = (Vec::new(), 0, 0);
        while next != FdbPage::DONE {
            let mut page = FdbPage::new(1, filter, next, most);
            while !page.is_full() {
                let before = page.rows().len();
                fdb.read(&mut page, buckets, 9);
                longest = longest.max(page.rows().len() - before);
                between(fdb);
            }
            assert!(page.rows().len() <= most && page.rows.capacity() == most, "nothing was allocated");
            rows.extend_from_slice(page.rows());
            next = page.next;
        }
        (rows, longest)
    }

    #[test]
    fn every_entry_is_told_once_whatever_the_size_of_pages() {
        let mut fdb = table();
        for (most, buckets) in [(1, 1), (7, 3), (1000, 32), (100_000, 1 << 20)] {
            let (rows, longest) = all(&mut fdb, FdbFilter::default(), (most, buckets), |_| ());
            let told: HashMap<u64, FdbRow> = rows.iter().map(|row| (row.key, *row)).collect();
            assert_eq!((rows.len(), told.len()), (20_002, 20_002), "{most} {buckets}");
            assert!(longest <= most.min(buckets * WAYS), "bounded work: {longest}");
            for n in 1..=20_000u64 {
                let row = told[&key(n % 3, n)];
                let port: PortSet = [PortId((n % 4) as u16)].into_iter().collect();
                assert_eq!((row.ports, row.is_static, row.age_ticks), (port, false, 9 - (n % 8) as u32));
            }
            assert!(told[&key(0, 40_000)].is_static);
            assert_eq!(told[&key(0, 1 << 40 | 5)].ports.iter().collect::<Vec<_>>(), [PortId(0), PortId(2)]);
        }
    }

    #[test]
    fn what_stays_is_told_once_while_other_entries_come_and_go() {
        let (mut fdb, mut n) = (table(), 0);
        let (rows, _) = all(&mut fdb, FdbFilter::default(), (100, 16), |fdb| {
            for _ in 0..20 {
                n += 1;
                fdb.learn(key(5, n), PortId(0), 9);
                if n > 100 {
                    fdb.remove(key(5, n - 100));
                }
            }
        });
        let stay = |row: &&FdbRow| KeyParts::of(row.key).vid != 5;
        let told: std::collections::HashSet<u64> = rows.iter().filter(stay).map(|row| row.key).collect();
        // A few may have been pushed to their other bucket.
        assert!(told.len() >= 19_950, "{}", told.len());
        assert!(rows.iter().filter(stay).count() - told.len() < 50);
    }

    #[test]
    fn filters_are_obeyed_and_can_be_combined() {
        let mut fdb = table();
        let mut count = |filter| all(&mut fdb, filter, (64, 8), |_| ()).0.len();
        let none = FdbFilter::default();
        assert_eq!(count(FdbFilter { port: Some(PortId(1)), ..none }), 5001);
        assert_eq!(count(FdbFilter { port: Some(PortId(2)), ..none }), 5001, "one by way of a group");
        assert_eq!(count(FdbFilter { port: Some(PortId(9)), ..none }), 0, "another shard tells them");
        assert_eq!(count(FdbFilter { vid: Some(1), ..none }), 6667);
        assert_eq!(count(FdbFilter { address: Some(77), ..none }), 1);
        assert_eq!(count(FdbFilter { address: Some(77), vid: Some(0), ..none }), 0);
        assert_eq!(count(FdbFilter { learned_only: true, ..none }), 20_000);
    }

    #[test]
    fn a_place_that_is_none_ends_the_reading() {
        let fdb = table();
        for next in [u64::MAX - 1, 1 << 40, FdbPage::DONE] {
            let mut page = FdbPage::new(1, FdbFilter::default(), next, 10);
            fdb.read(&mut page, 10, 0);
            assert!(page.is_full() && page.next == FdbPage::DONE && page.rows().is_empty());
        }
        let mut nothing = FdbPage::new(1, FdbFilter::default(), 0, 0);
        fdb.read(&mut nothing, 10, 0);
        assert!(nothing.is_full() && nothing.next == 0);
    }
}
