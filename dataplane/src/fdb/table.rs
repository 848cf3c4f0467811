//! The bucketed open table under the FDB: four entries per cache line, two candidate lines per key.

use crate::types::PortId;

use super::{GroupId, Lookup};

/// Entries per bucket: four keys and four values fill one cache line.
pub(super) const WAYS: usize = 4;

const TICK_SHIFT: u32 = 32;
/// Entry was configured: never learned over, never aged.
const STATIC: u64 = 1 << 16;
/// Target is a group id, not a port.
const GROUP: u64 = 1 << 17;
/// Learned by another shard.
const REMOTE: u64 = 1 << 18;
/// A group that hosts have joined: it stays while somebody says so, as a configured one.
const JOINED: u64 = 1 << 19;

/// What the table knows about a key, in one word: target port or group in bits 15..0, flags above,
/// tick of the last sighting (or news of one) in 63..32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Value(u64);

impl Value {
    /// No value of any entry.
    const NONE: Self = Self(u64::MAX);

    /// An entry learned on a port of this shard.
    #[inline]
    pub fn own(port: PortId, tick: u32) -> Self {
        Self(u64::from(port.0) | u64::from(tick) << TICK_SHIFT)
    }

    /// An entry learned by another shard.
    pub fn remote(port: PortId, tick: u32) -> Self {
        Self(Self::own(port, tick).0 | REMOTE)
    }

    /// A configured station.
    pub fn station(port: PortId) -> Self {
        Self(u64::from(port.0) | STATIC)
    }

    /// A configured group.
    pub fn group(group: GroupId) -> Self {
        Self(u64::from(group.0) | STATIC | GROUP)
    }

    /// A group that hosts have joined.
    pub fn joined(group: GroupId) -> Self {
        Self(Self::group(group).0 | JOINED)
    }

    /// Port or group, as looked up.
    #[inline]
    pub fn target(self) -> Lookup {
        if self.0 & GROUP == 0 { Lookup::Port(self.port()) } else { Lookup::Group(GroupId(self.0 as u16)) }
    }

    /// The target as a port; of no meaning for a group.
    #[inline]
    pub fn port(self) -> PortId {
        PortId(self.0 as u16)
    }

    #[inline]
    pub fn is_static(self) -> bool {
        self.0 & STATIC != 0
    }

    /// It is a group that hosts have joined.
    pub fn is_joined(self) -> bool {
        self.0 & JOINED != 0
    }

    #[inline]
    pub fn is_remote(self) -> bool {
        self.0 & REMOTE != 0
    }

    pub fn tick(self) -> u32 {
        (self.0 >> TICK_SHIFT) as u32
    }
}

/// One cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Bucket {
    /// 0 marks a free slot: no key is 0, its key space is at least 1.
    keys: [u64; WAYS],
    values: [Value; WAYS],
}

impl Bucket {
    /// Slot of `key`. Compares all four without a branch: which one hits can not be predicted.
    #[inline(always)]
    fn find(&self, key: u64) -> Option<usize> {
        let mut hits = 0u32;
        for (way, &k) in self.keys.iter().enumerate() {
            hits |= u32::from(k == key) << way;
        }
        (hits != 0).then(|| hits.trailing_zeros() as usize % WAYS)
    }

    /// Value of `key`, without a branch until it is known whether it is there.
    #[inline(always)]
    fn value_of(&self, key: u64) -> Option<Value> {
        let mut value = Value::NONE;
        for (k, v) in self.keys.iter().zip(&self.values) {
            value = if *k == key { *v } else { value };
        }
        (value != Value::NONE).then_some(value)
    }
}

/// First bucket of a key: found once, before the line is needed.
#[derive(Clone, Copy, Debug)]
pub struct Home(u32);

/// Place of an entry; valid until the next insertion or removal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    bucket: usize,
    way: usize,
}

impl Slot {
    /// Its place within its bucket.
    pub fn way(self) -> usize {
        self.way
    }
}

/// The table: a power of two of buckets, sized for twice its capacity.
#[derive(Clone, Debug)]
pub(super) struct Table {
    buckets: Box<[Bucket]>,
    seed: u64,
    /// An entry has changed its bucket since somebody asked.
    moved: bool,
}

impl Table {
    /// Room for `capacity` entries at half load, so that both lines of a key are hardly ever full.
    pub fn new(capacity: usize, seed: u64) -> Self {
        let buckets = capacity.div_ceil(WAYS / 2).next_power_of_two();
        Self { buckets: vec![Bucket::default(); buckets].into_boxed_slice(), seed, moved: false }
    }

    /// First and second bucket of `key`. The seed keeps a sender from aiming at one bucket.
    #[inline(always)]
    fn homes(&self, key: u64) -> [usize; 2] {
        let product = u128::from(key ^ self.seed) * 0x9e37_79b9_7f4a_7c15;
        let hash = product as u64 ^ (product >> 64) as u64;
        let mask = self.buckets.len() - 1;
        let first = hash as usize & mask;
        [first, first ^ ((hash >> 32) as usize | 1) & mask]
    }

    /// The cache line in which `key` most likely is.
    #[inline(always)]
    pub fn home(&self, key: u64) -> Home {
        Home(self.homes(key)[0] as u32)
    }

    /// That line, to be fetched ahead of its use.
    #[inline(always)]
    pub fn line(&self, home: Home) -> Option<&impl Sized> {
        self.buckets.get(home.0 as usize)
    }

    /// Value of `key`, which is not 0.
    #[inline(always)]
    pub fn get(&self, home: Home, key: u64) -> Option<Value> {
        match self.buckets.get(home.0 as usize)?.value_of(key) {
            Some(value) => Some(value),
            None => self.get_second(key),
        }
    }

    /// At half load hardly any key lives in its second bucket.
    #[cold]
    #[inline(never)]
    fn get_second(&self, key: u64) -> Option<Value> {
        self.buckets[self.homes(key)[1]].value_of(key)
    }

    /// Slot of `key`. Key 0 marks free slots and is never found.
    pub fn find(&self, key: u64) -> Option<Slot> {
        if key == 0 {
            return None;
        }
        let [first, second] = self.homes(key);
        if let Some(way) = self.buckets[first].find(key) {
            return Some(Slot { bucket: first, way });
        }
        self.buckets[second].find(key).map(|way| Slot { bucket: second, way })
    }

    #[inline]
    pub fn value(&self, slot: Slot) -> Value {
        self.buckets[slot.bucket].values[slot.way]
    }

    #[inline]
    pub fn set(&mut self, slot: Slot, value: Value) {
        self.buckets[slot.bucket].values[slot.way] = value;
    }

    /// Adds a key that is not in the table; `false` if there is no place for it or it is 0.
    ///
    /// The first bucket is preferred, so that one cache line answers most look-ups. If both are full,
    /// one of their entries moves to its other bucket: at half load that always finds a place.
    pub fn insert(&mut self, key: u64, value: Value) -> bool {
        if key == 0 {
            return false;
        }
        let homes = self.homes(key);
        if homes.iter().any(|&home| self.put(home, key, value)) {
            return true;
        }
        for home in homes {
            for way in 0..WAYS {
                let (guest, its_value) = (self.buckets[home].keys[way], self.buckets[home].values[way]);
                let [first, second] = self.homes(guest);
                if self.put(if first == home { second } else { first }, guest, its_value) {
                    self.remove(Slot { bucket: home, way });
                    self.moved = true;
                    return self.put(home, key, value);
                }
            }
        }
        false
    }

    /// Writes to a free slot of a bucket, if there is one.
    fn put(&mut self, bucket: usize, key: u64, value: Value) -> bool {
        let bucket = &mut self.buckets[bucket];
        let Some(way) = bucket.find(0) else { return false };
        bucket.keys[way] = key;
        bucket.values[way] = value;
        true
    }

    pub fn remove(&mut self, slot: Slot) {
        self.buckets[slot.bucket].keys[slot.way] = 0;
    }

    /// An entry has changed its bucket since this was asked last: whoever goes through the buckets may have missed it.
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// The entries of both buckets of `key`.
    pub fn near(&self, key: u64) -> impl Iterator<Item = (Slot, u64, Value)> {
        self.homes(key).into_iter().flat_map(|bucket| self.bucket(bucket))
    }

    /// The entries of one bucket, with the slot of each.
    pub fn bucket(&self, bucket: usize) -> impl Iterator<Item = (Slot, u64, Value)> {
        let line = self.buckets[bucket];
        (0..WAYS)
            .filter(move |&way| line.keys[way] != 0)
            .map(move |way| (Slot { bucket, way }, line.keys[way], line.values[way]))
    }
}
