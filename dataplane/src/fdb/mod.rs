//! Filtering database: key to port or group. Learning, ageing, static stations, multicast groups.
//!
//! One value per lcore, never shared. What one shard learns reaches the others as an [`FdbEvent`]
//! that they [`Fdb::apply`]. The sweep of [`Fdb::age`] says again what the shard still sees, and what
//! is not said again ages out: a lost or crossed event heals by itself. A key comes from [`crate::parse`]: key space, VLAN and masked address,
//! so learning is independent per VLAN and per format (DEV-01).
//!
//! Time comes as a tick (u32, any period, may wrap): an entry is written once per tick at most.

mod page;
mod table;
#[cfg(test)]
mod tests;

use crate::frame::Frame;
use crate::portset::PortSet;
use crate::types::{MAX_PORTS, PortId};
pub use page::{FdbFilter, FdbPage, FdbRow};
pub use table::Home;
use table::{Slot, Table, Value, WAYS};

/// A multicast group: a configured one, or one that hosts have joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub u16);

/// Answer to a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The station is behind this port.
    Port(PortId),
    /// A group, see [`Fdb::group`].
    Group(GroupId),
    /// Nobody knows.
    Miss,
}

/// What learning a source address did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Nothing new: seen before on this port, or a static entry.
    Known,
    /// First sighting; tell the other shards.
    New(FdbEvent),
    /// Seen before on another port; tell the other shards.
    Moved(FdbEvent),
    /// Not learned.
    Refused(Refusal),
}

/// Why an address was not learned. The frame is forwarded all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Learning is off on the port.
    Off,
    /// The port has as many learned addresses as it may.
    Limit,
    /// The table is full.
    Full,
    /// It is a static entry that points elsewhere.
    Static,
}

/// News for the tables of the other shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdbEvent {
    /// The station.
    pub key: u64,
    /// Its port.
    pub port: PortId,
    /// What happened.
    pub kind: FdbEventKind,
}

/// Kinds of [`FdbEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdbEventKind {
    /// The station is on the port: new, moved, or still there.
    Seen,
    /// The entry aged out or was flushed.
    Gone,
}

/// What the table did. Counters only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FdbCounters {
    /// Addresses learned for the first time.
    pub learned: u64,
    /// Addresses that appeared on another port than before, learned or not.
    pub moved: u64,
    /// Entries that aged out or were flushed with their port, remote ones included.
    pub aged: u64,
    /// Addresses not learned because the port was at its limit.
    pub refused_limit: u64,
    /// Addresses not learned, and groups that hosts have joined not taken in, because the table was full.
    pub refused_full: u64,
    /// Sightings of a static station on another port: the entry was kept.
    pub static_kept: u64,
}

/// A station that appeared on another port than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdbMove {
    /// The station.
    pub key: u64,
    /// Where it was.
    pub from: PortId,
    /// Where it is.
    pub to: PortId,
}

/// No room for a static entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for a static entry: raise the capacity of the forwarding table")]
pub struct FdbFull;

/// One entry, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdbEntry {
    /// Its key, see [`crate::parse::KeyParts`].
    pub key: u64,
    /// Where it points: never [`Lookup::Miss`].
    pub target: Lookup,
    /// Configured, or joined by hosts, not learned.
    pub is_static: bool,
    /// Learned by another shard.
    pub remote: bool,
    /// Tick of the last sighting (of the arrival of the news, if remote); 0 for static entries.
    pub tick: u32,
}

/// Keys whose entries have changed: as many as a few buckets hold.
pub type Changed = arrayvec::ArrayVec<u64, 32>;

/// Stations without a place in the table whose ports are kept, a power of two.
const REFUSED: usize = 256;

/// Learning state of one port.
#[derive(Clone, Copy, Debug)]
struct PortState {
    learning: bool,
    limit: u32,
    learned: u32,
}

/// The filtering database of one shard.
#[derive(Clone, Debug)]
pub struct Fdb {
    table: Table,
    ports: Box<[PortState; MAX_PORTS]>,
    groups: Vec<PortSet>,
    free_groups: Vec<GroupId>,
    capacity: usize,
    entries: usize,
    ageing_ticks: u32,
    cursor: usize,
    /// Ports whose learned entries are on their way out, and buckets the sweep has still to look at for them.
    flushed: PortSet,
    flush_left: usize,
    version: u64,
    changed: Changed,
    counters: FdbCounters,
    last_move: Option<FdbMove>,
    /// The last stations that found the table full, and where: those that are not learned may be in a loop, too.
    refused: Box<[Option<(u64, PortId)>; REFUSED]>,
}

impl Fdb {
    /// A table for `capacity` entries. A learned entry not seen for `ageing_ticks` ticks goes away (0:
    /// never). `seed` places the entries. Learning is off on every port, see [`Fdb::set_learning`].
    pub fn new(capacity: usize, ageing_ticks: u32, seed: u64) -> Self {
        let port = PortState { learning: false, limit: u32::MAX, learned: 0 };
        Self {
            table: Table::new(capacity, seed),
            ports: Box::new([port; MAX_PORTS]),
            groups: Vec::new(),
            free_groups: Vec::new(),
            capacity,
            entries: 0,
            ageing_ticks,
            cursor: 0,
            flushed: PortSet::EMPTY,
            flush_left: 0,
            version: 0,
            changed: Changed::new(),
            counters: FdbCounters::default(),
            last_move: None,
            refused: Box::new([None; REFUSED]),
        }
    }

    /// Switches learning on a port and sets how many addresses it may hold (`u32::MAX`: no limit).
    /// Entries already learned stay. A port `>= MAX_PORTS` is ignored.
    pub fn set_learning(&mut self, port: PortId, learning: bool, limit: u32) {
        if let Some(state) = self.ports.get_mut(port.index()) {
            (state.learning, state.limit) = (learning, limit);
            self.version += 1;
        }
    }

    /// Keys about which an answer that [`Fdb::lookup`] or [`Fdb::knows`] has given may no longer be right: their entries
    /// came, moved or went away. For whoever relies on answers to empty.
    #[inline(always)]
    pub fn changed(&mut self) -> &mut Changed {
        &mut self.changed
    }

    /// A station that there is no room for has moved where it was refused on another port before. What is decided about its
    /// frames is decided anew, so that the next move is seen as well.
    fn note_refused(&mut self, key: u64, port: PortId) {
        let place = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - REFUSED.ilog2());
        let was = self.refused[place as usize % REFUSED].replace((key, port));
        if let Some((_, from)) = was.filter(|(known, from)| *known == key && *from != port) {
            self.counters.moved += 1;
            self.last_move = Some(FdbMove { key, from, to: port });
            self.note_changed(key);
        }
    }

    fn note_changed(&mut self, key: u64) {
        if self.changed.try_push(key).is_err() {
            self.changed.clear();
            self.version += 1;
        }
    }

    /// Grows whenever that may be so of any key: learning was set anew, or more have changed than are kept.
    #[inline(always)]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Finds the cache line of `key` and asks for it; do this for a whole burst before the first
    /// look-up.
    #[inline(always)]
    pub fn prefetch<F: Frame>(&self, key: u64) -> Home {
        let home = self.table.home(key);
        if let Some(line) = self.table.line(home) {
            F::prefetch(line);
        }
        home
    }

    /// Where frames for `key` go.
    pub fn lookup(&self, key: u64) -> Lookup {
        if key == 0 { Lookup::Miss } else { self.lookup_at(self.table.home(key), key) }
    }

    /// [`Fdb::lookup`] of a key, not 0, whose line is known.
    #[inline(always)]
    pub fn lookup_at(&self, home: Home, key: u64) -> Lookup {
        match self.table.get(home, key) {
            Some(value) => value.target(),
            None => Lookup::Miss,
        }
    }

    /// [`Fdb::learn`] of a key, not 0, would change and count nothing.
    #[inline(always)]
    pub fn knows(&self, home: Home, key: u64, port: PortId, now_tick: u32) -> bool {
        match self.table.get(home, key) {
            Some(value) => value == Value::own(port, now_tick) || value == Value::station(port),
            None => false,
        }
    }

    /// The ports of a group; empty for an id that is no group.
    #[inline]
    pub fn group(&self, group: GroupId) -> PortSet {
        self.groups.get(usize::from(group.0)).copied().unwrap_or_default()
    }

    /// Notes that `key` sent a frame on `port`. Writes nothing if that was known in this tick.
    #[inline]
    pub fn learn(&mut self, key: u64, port: PortId, now_tick: u32) -> Learned {
        if !self.ports.get(port.index()).is_some_and(|state| state.learning) {
            return Learned::Refused(Refusal::Off);
        }
        let seen = Value::own(port, now_tick);
        match self.table.find(key) {
            Some(slot) if self.table.value(slot) == seen => Learned::Known,
            found => self.learn_change(key, port, seen, found),
        }
    }

    /// The rest of [`Fdb::learn`]: a new tick, a new station, a move, a refusal.
    #[inline(never)]
    fn learn_change(&mut self, key: u64, port: PortId, seen: Value, found: Option<Slot>) -> Learned {
        let event = FdbEvent { key, port, kind: FdbEventKind::Seen };
        let Some(slot) = found else {
            if self.at_limit(port) {
                return Learned::Refused(Refusal::Limit);
            }
            if self.entries >= self.capacity || !self.table.insert(key, seen) {
                self.counters.refused_full += 1;
                self.note_refused(key, port);
                return Learned::Refused(Refusal::Full);
            }
            self.entries += 1;
            self.note_changed(key);
            self.ports[port.index()].learned += 1;
            self.counters.learned += 1;
            return Learned::New(event);
        };
        let old = self.table.value(slot);
        if old.is_static() {
            if old.target() == Lookup::Port(port) {
                return Learned::Known;
            }
            self.counters.static_kept += 1;
            return Learned::Refused(Refusal::Static);
        }
        if old.port() == port {
            // A LAG of ports of several shards is one port to each of them: what another one told is as good.
            self.ports[port.index()].learned += u32::from(old.is_remote());
            self.table.set(slot, seen);
            return Learned::Known;
        }
        if self.at_limit(port) {
            return Learned::Refused(Refusal::Limit);
        }
        self.release(old);
        self.note_changed(key);
        self.ports[port.index()].learned += 1;
        self.table.set(slot, seen);
        self.counters.moved += 1;
        self.last_move = Some(FdbMove { key, from: old.port(), to: port });
        Learned::Moved(event)
    }

    /// Counts what [`Fdb::learn`] would, if it refuses a new station on `port` for the same reason as before. `false`: it may not, and
    /// nothing is counted.
    pub fn refuses_again(&mut self, port: PortId, why: Refusal) -> bool {
        match why {
            Refusal::Off => false,
            Refusal::Limit => self.at_limit(port),
            Refusal::Static => {
                self.counters.static_kept += 1;
                true
            }
            Refusal::Full => {
                let state = &self.ports[port.index()];
                let again = state.learned < state.limit && self.entries >= self.capacity;
                self.counters.refused_full += u64::from(again);
                again
            }
        }
    }

    /// Counts the refusal if `port` may not hold another address.
    fn at_limit(&mut self, port: PortId) -> bool {
        let state = &self.ports[port.index()];
        let full = state.learned >= state.limit;
        self.counters.refused_limit += u64::from(full);
        full
    }

    /// Takes an entry off the count of its port.
    fn release(&mut self, value: Value) {
        if !value.is_static() && !value.is_remote() {
            self.ports[value.port().index()].learned -= 1;
        }
    }

    /// Takes over what another shard learned. `false`: it changed nothing, or there was no room
    /// (counted).
    pub fn apply(&mut self, event: FdbEvent, now_tick: u32) -> bool {
        let value = Value::remote(event.port, now_tick);
        let Some(slot) = self.table.find(event.key) else {
            if event.kind == FdbEventKind::Gone {
                return false;
            }
            let room = self.entries < self.capacity && self.table.insert(event.key, value);
            if room {
                self.entries += 1;
                self.note_changed(event.key);
            } else {
                self.counters.refused_full += 1;
            }
            return room;
        };
        let old = self.table.value(slot);
        if old.is_static() {
            return false;
        }
        if event.kind == FdbEventKind::Gone {
            let theirs = old.is_remote() && old.port() == event.port;
            if theirs {
                self.forget(slot, event.key, old);
            }
            return theirs;
        }
        if old.port() == event.port && !old.is_remote() && old.tick() == now_tick {
            return false;
        }
        self.release(old);
        if old.port() != event.port || !old.is_remote() {
            self.note_changed(event.key);
        }
        self.table.set(slot, value);
        true
    }

    fn forget(&mut self, slot: Slot, key: u64, value: Value) {
        self.note_changed(key);
        self.release(value);
        self.table.remove(slot);
        self.entries -= 1;
    }

    /// Looks at the next `buckets` buckets (of [`Fdb::buckets`]) and removes what is too old or
    /// flushed. Bounded work: call it often, with so many buckets that a round takes about a quarter
    /// of the ageing time, and at most all of it.
    ///
    /// `news` is for the other shards: what was removed, and what this shard still has of its own.
    pub fn age(&mut self, now_tick: u32, buckets: usize, mut news: impl FnMut(FdbEvent)) {
        if self.table.take_moved() && self.is_flushing() {
            self.flush_left = self.table.buckets();
        }
        for _ in 0..buckets.min(self.table.buckets()) {
            let bucket = self.table.bucket(self.cursor);
            for (slot, key, value) in bucket.collect::<arrayvec::ArrayVec<_, WAYS>>() {
                if value.is_static() {
                    continue;
                }
                let void = self.void(value, now_tick) || self.flushed.contains(value.port());
                if void {
                    self.forget(slot, key, value);
                    self.counters.aged += 1;
                }
                if !value.is_remote() {
                    let kind = if void { FdbEventKind::Gone } else { FdbEventKind::Seen };
                    news(FdbEvent { key, port: value.port(), kind });
                }
            }
            self.cursor = (self.cursor + 1) % self.table.buckets();
            self.flush_left = self.flush_left.saturating_sub(1);
            if self.flush_left == 0 {
                self.flushed = PortSet::EMPTY;
            }
        }
    }

    /// Too old. News of a remote station comes once per
    /// round of its owner's sweep, so it may be that much older.
    fn void(&self, value: Value, now_tick: u32) -> bool {
        let age = now_tick.wrapping_sub(value.tick());
        let limit = self.ageing_ticks.saturating_mul(if value.is_remote() { 2 } else { 1 });
        // A sighting from the future (the caller's ticks went back) is not old.
        limit != 0 && age >= limit && age <= i32::MAX as u32
    }

    /// Forgets what was learned on `port`, here or by another shard (its link went down): the next round of [`Fdb::age`]
    /// removes it, without a long scan now. A station seen on the port again before that is learned once more.
    pub fn flush_port(&mut self, port: PortId) {
        self.flushed.insert(port);
        self.flush_left = self.table.buckets();
    }

    /// A port is being flushed: [`Fdb::age`] has something to do whatever the time.
    #[inline(always)]
    pub fn is_flushing(&self) -> bool {
        self.flush_left > 0
    }

    /// `key` was configured, not learned.
    pub fn is_static(&self, key: u64) -> bool {
        self.table.find(key).is_some_and(|slot| self.table.value(slot).is_static())
    }

    /// Another ageing time, in ticks, for entries old and new.
    pub fn set_ageing(&mut self, ticks: u32) {
        self.ageing_ticks = ticks;
    }

    /// Adds a static entry of `key`; learned entries make room for it where there is none.
    ///
    /// # Errors
    /// Static entries alone fill its place.
    pub fn pin(&mut self, add: impl Fn(&mut Self) -> Result<(), FdbFull>, key: u64) -> Result<(), FdbFull> {
        while add(self).is_err() {
            let learned = |(_, _, value): &(Slot, u64, Value)| !value.is_static();
            let near = self.table.near(key).find(learned);
            let any = || (0..self.table.buckets()).flat_map(|b| self.table.bucket(b)).find(learned);
            let full = self.entries >= self.capacity;
            let (slot, key, value) = near.or_else(|| if full { any() } else { None }).ok_or(FdbFull)?;
            self.forget(slot, key, value);
        }
        Ok(())
    }

    /// Pins a station to a port; learned knowledge about it is replaced.
    ///
    /// # Errors
    /// The table has no room.
    pub fn add_static(&mut self, key: u64, port: PortId) -> Result<(), FdbFull> {
        self.remove(key);
        self.insert_static(key, Value::station(port))
    }

    /// Pins a group address (or any key) to a set of ports; a group that exists gets the new set.
    ///
    /// # Errors
    /// The table has no room.
    pub fn add_group(&mut self, key: u64, ports: PortSet) -> Result<GroupId, FdbFull> {
        self.insert_group(key, ports, Value::group)
    }

    fn insert_group(
        &mut self,
        key: u64,
        ports: PortSet,
        value: fn(GroupId) -> Value,
    ) -> Result<GroupId, FdbFull> {
        self.remove(key);
        let id = self.new_group(ports).ok_or(FdbFull)?;
        self.insert_static(key, value(id)).inspect_err(|_| self.free_group(id))?;
        Ok(id)
    }

    /// Says which ports have members of a group; `None`: none have. A configured entry of that key stays what it is.
    ///
    /// # Errors
    /// Static entries and other groups fill its place.
    pub fn set_members(&mut self, key: u64, ports: Option<PortSet>) -> Result<(), FdbFull> {
        let known = self.table.find(key).map(|slot| self.table.value(slot));
        if known.is_some_and(|value| value.is_static() && !value.is_joined()) {
            return Ok(());
        }
        match (known.map(Value::target), ports) {
            (Some(Lookup::Group(id)), Some(ports)) => self.set_group(id, ports),
            (_, None) => {
                self.remove(key);
            }
            (_, Some(ports)) => {
                let pinned = self.pin(|fdb| fdb.insert_group(key, ports, Value::joined).map(|_| ()), key);
                self.counters.refused_full += u64::from(pinned.is_err());
                return pinned;
            }
        }
        Ok(())
    }

    /// A group of these ports, without a key. `None`: there are as many as there can be.
    pub fn new_group(&mut self, ports: PortSet) -> Option<GroupId> {
        if let Some(id) = self.free_groups.pop() {
            self.set_group(id, ports);
            return Some(id);
        }
        let id = GroupId(u16::try_from(self.groups.len()).ok()?);
        self.groups.push(ports);
        Some(id)
    }

    /// Other ports for a group: answers that named it hold.
    pub fn set_group(&mut self, id: GroupId, ports: PortSet) {
        if let Some(set) = self.groups.get_mut(usize::from(id.0)) {
            *set = ports;
        }
    }

    /// Gives back a group. Answers that named it hold no longer.
    pub fn free_group(&mut self, id: GroupId) {
        self.set_group(id, PortSet::EMPTY);
        self.free_groups.push(id);
    }

    fn insert_static(&mut self, key: u64, value: Value) -> Result<(), FdbFull> {
        if self.entries >= self.capacity || !self.table.insert(key, value) {
            return Err(FdbFull);
        }
        self.entries += 1;
        self.note_changed(key);
        Ok(())
    }

    /// Removes an entry of any kind; `false` if there was none.
    pub fn remove(&mut self, key: u64) -> bool {
        let Some(slot) = self.table.find(key) else { return false };
        let value = self.table.value(slot);
        if let Lookup::Group(id) = value.target() {
            self.free_group(id);
        }
        self.forget(slot, key, value);
        true
    }

    /// Every entry, in no useful order.
    pub fn iter(&self) -> impl Iterator<Item = FdbEntry> {
        (0..self.table.buckets()).flat_map(|bucket| self.table.bucket(bucket)).map(|(_, key, value)| {
            FdbEntry {
                key,
                target: value.target(),
                is_static: value.is_static(),
                remote: value.is_remote(),
                tick: value.tick(),
            }
        })
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// No entry at all.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Buckets of the table: a full round of [`Fdb::age`].
    pub fn buckets(&self) -> usize {
        self.table.buckets()
    }

    /// Addresses learned on `port` by this shard.
    pub fn learned_on(&self, port: PortId) -> u32 {
        self.ports.get(port.index()).map_or(0, |state| state.learned)
    }

    /// What happened so far.
    pub fn counters(&self) -> &FdbCounters {
        &self.counters
    }

    /// The last of the moves that were counted.
    pub fn last_move(&self) -> Option<FdbMove> {
        self.last_move
    }
}
