//! The observer of a running switch: follows single frames for whoever arms it; while nobody has, nothing of it runs.
//!
//! While a tap follows frames of a port, no decision is kept about those kinds of frames of this port that it may want
//! ([`Interest`]): they take the long way of [`super::receive`]. A tap on drops looks at frames where they are lost and hinders nobody.
//!
//! Records go through bounded rings; what does not fit is counted and not waited for.

use super::observer::{Beside, HandedOn, Interest, Key, Observer, Record, Taken, What};
use super::{Filter, Switch};
use crate::drops::DropReason;
use crate::frame::Frame;
use crate::mmu::{Admission, Mmu};
use crate::parse::{Parsed, Profile};
use crate::portset::PortSet;
use crate::types::{MAX_PORTS, Nanos, PortId};
use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// Records a tap holds until they are read.
const RECORDS: usize = 4096;

/// Bytes of frames a tap holds until they are read.
const BYTES: usize = 1 << 20;

/// Frames that are followed at the same time, unless another number is asked for.
const FOLLOWED: usize = 256;

/// What a tap is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapOrder {
    /// Frames received on this port are followed; or frames lost at it are looked at.
    pub port: PortId,
    /// Which of them.
    pub filter: Filter,
    /// How many.
    pub count: u64,
    /// Bytes of each that are kept, at most.
    pub bytes: u32,
    /// Frames that are lost, wherever they came from.
    pub drops: bool,
}

/// The worker's end, or that of another loop that owns a switch.
#[derive(Debug)]
pub struct Tap {
    order: TapOrder,
    /// Ports behind which somebody tells what becomes of frames.
    hands_on: PortSet,
    /// What has left by them since somebody asked.
    handed: ArrayVec<HandedOn, FOLLOWED>,
    left: u64,
    now: Nanos,
    armed: Armed,
    /// Frames of this shard on their way, and since when each copy is with the driver.
    followed: VecDeque<Key>,
    /// Most of them.
    room: usize,
    taken: ArrayVec<Taken, FOLLOWED>,
    records: Producer<Record>,
    bytes: Producer<u8>,
    lost: Arc<AtomicU64>,
    beside: Beside,
    /// Copies of the frame that comes in, which their queues refused: bytes and reason. Its arrival is told first.
    refused: ArrayVec<(PortId, u32, DropReason), MAX_PORTS>,
}

/// The reader's end.
#[derive(Debug)]
pub struct TapReader {
    records: Consumer<Record>,
    bytes: Consumer<u8>,
    lost: Arc<AtomicU64>,
    armed: Armed,
}

/// Workers that have their tap, of so many: before all have, what leaves by another one would not be told.
#[derive(Clone, Debug)]
struct Armed {
    have: Arc<AtomicUsize>,
    workers: usize,
}

impl Armed {
    fn by_all(&self) -> bool {
        self.have.load(Acquire) >= self.workers
    }
}

impl TapReader {
    /// All workers have their tap: the next frame that is asked for is followed.
    pub fn is_armed(&self) -> bool {
        self.armed.by_all()
    }

    /// Records that found no room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

/// Records there are, each with what was kept of its frame; more may come after the end.
impl Iterator for TapReader {
    type Item = (Record, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.records.pop().ok()?;
        // Bytes are written before their record.
        let bytes = self.bytes.read_chunk(record.kept as usize).map(|chunk| chunk.into_iter().collect());
        Some((record, bytes.unwrap_or_default()))
    }
}

impl Tap {
    /// What becomes of frames behind these ports is told there: [`Switch::handed_on`].
    #[must_use]
    pub fn hands_on(self, ports: PortSet) -> Self {
        Self { hands_on: ports, ..self }
    }

    /// The same with room to follow so many frames at once.
    #[must_use]
    pub fn following(self, frames: usize) -> Self {
        Self { followed: VecDeque::with_capacity(frames), room: frames, ..self }
    }

    /// A tap and its reader, for a switch of one worker. Takes a few MiB: not to be made by a worker.
    pub fn new(order: TapOrder) -> (Self, TapReader) {
        Self::of(order, Armed { have: Arc::default(), workers: 1 })
    }

    /// The same for each of so many workers. Frames are followed once all of them have their tap.
    pub fn for_workers(order: TapOrder, workers: usize) -> Vec<(Self, TapReader)> {
        let armed = Armed { have: Arc::default(), workers };
        (0..workers).map(|_| Self::of(order, armed.clone())).collect()
    }

    fn of(order: TapOrder, armed: Armed) -> (Self, TapReader) {
        let (records, record_reader) = RingBuffer::new(RECORDS);
        let (bytes, byte_reader) = RingBuffer::new(BYTES);
        let lost = Arc::<AtomicU64>::default();
        let reader = TapReader {
            records: record_reader,
            bytes: byte_reader,
            lost: Arc::clone(&lost),
            armed: armed.clone(),
        };
        let left = order.count;
        let (followed, taken) = (VecDeque::with_capacity(FOLLOWED), ArrayVec::new());
        let (hands_on, handed) = (PortSet::EMPTY, ArrayVec::new());
        let tap = Self {
            order,
            hands_on,
            handed,
            left,
            now: 0,
            armed,
            followed,
            room: FOLLOWED,
            taken,
            records,
            bytes,
            lost,
            beside: Beside::default(),
            refused: ArrayVec::new(),
        };
        (tap, reader)
    }

    /// It waits for frames to follow.
    fn hinders(&self) -> bool {
        !self.order.drops && self.left > 0
    }

    #[cold]
    fn interest(&self, port: PortId, profile: &Profile, bytes: &[u8], len: usize) -> Interest {
        if !self.hinders() || self.order.port != port {
            return Interest::None;
        }
        let filter = &self.order.filter;
        let parsed = profile.parse(bytes, len).unwrap_or(Parsed::NOTHING);
        if self.armed.by_all() && filter.admits(profile, bytes, len, &parsed) {
            Interest::Frame
        } else if filter.admits_kind(profile, bytes, &parsed) {
            Interest::Kind
        } else {
            Interest::None
        }
    }

    fn make_room(&mut self, is_gone: impl Fn(Key) -> bool) -> bool {
        if self.followed.len() >= self.room {
            // The last copy of some has left by another worker.
            self.followed.retain(|key| !is_gone(*key));
        }
        self.followed.len() < self.room
    }

    fn count_lost(&mut self) {
        self.lost.store(self.lost.load(Relaxed) + 1, Relaxed);
    }

    /// Keeps the first bytes of a frame; `None`: there is no room for them or for a record.
    fn keep(&mut self, bytes: &[u8]) -> Option<u32> {
        let n = bytes.len().min(self.order.bytes as usize);
        if self.records.slots() == 0 {
            return None;
        }
        let chunk = self.bytes.write_chunk_uninit(n).ok()?;
        Some(chunk.fill_from_iter(bytes[..n].iter().copied()) as u32)
    }

    fn push(&mut self, record: &Record) {
        if self.records.push(*record).is_err() {
            self.count_lost();
        }
    }

    fn arrived(&mut self, record: &Record, is_queued: bool) {
        if is_queued {
            // `make_room` has seen that there is some.
            self.followed.push_back(record.key);
        }
        self.left -= 1;
        self.beside = Beside::default();
        self.push(record);
        for (out, len, reason) in std::mem::take(&mut self.refused) {
            self.push(&Record { len, kept: 0, what: What::Flushed { out, reason }, ..*record });
        }
    }

    #[cold]
    fn lost(&mut self, at: PortId, reason: DropReason, profile: &Profile, bytes: &[u8], len: usize) {
        if !self.order.drops || self.left == 0 || at != self.order.port {
            return;
        }
        // Whatever the format: what the filter asks of a parsed frame is read from plain Ethernet here.
        let parsed = Profile::standard().parse(bytes, len).unwrap_or(Parsed::NOTHING);
        if !self.order.filter.admits(profile, bytes, len, &parsed) {
            return;
        }
        let Some(kept) = self.keep(bytes) else { return self.count_lost() };
        self.left -= 1;
        let key = Key { rx_ns: self.now, in_port: at.0, slot: u32::MAX };
        self.push(&Record { key, at: self.now, len: len as u32, kept, what: What::Lost { reason } });
    }

    fn follows(&self, key: Key, of_this_shard: bool) -> bool {
        key.slot != u32::MAX && (!of_this_shard || self.followed.contains(&key))
    }

    fn taken(&mut self, taken: Taken) -> Taken {
        let same = |before: &&Taken| (before.key, before.out) == (taken.key, taken.out);
        if let Some(before) = self.taken.iter().find(same) {
            return *before;
        }
        // Without a place the time is that of the last look.
        let _ = self.taken.try_push(taken);
        taken
    }

    fn left(&mut self, out: PortId, record: &Record, address: usize, is_last: bool) {
        self.forget(out, record.key, is_last);
        self.push(record);
        if self.hands_on.contains(out) {
            // Without a place nothing more is told of it.
            let _ = self.handed.try_push(HandedOn { out, key: record.key, address });
        }
    }

    fn flushed(&mut self, out: PortId, key: Key, (len, reason): (u32, DropReason), is_last: bool) {
        if self.beside.at_hand {
            // One for each port at most.
            let _ = self.refused.try_push((out, len, reason));
            return;
        }
        self.forget(out, key, is_last);
        self.push(&Record { key, at: self.now, len, kept: 0, what: What::Flushed { out, reason } });
    }

    /// A copy is not on its way any more; with the last one there is nothing to follow.
    fn forget(&mut self, out: PortId, key: Key, is_last: bool) {
        self.taken.retain(|taken| (taken.key, taken.out) != (key, out));
        if is_last {
            // The oldest are in front, and mostly leave first.
            let at = self.followed.iter().position(|followed| *followed == key);
            at.map(|at| self.followed.remove(at));
        }
    }
}

/// The tap of a switch on which one can be armed while it runs.
pub type TapSlot = Option<Box<Tap>>;

/// Such a switch, or one shard of it.
pub type Tapped<F, A = Mmu> = Switch<F, A, TapSlot>;

impl Observer for TapSlot {
    #[inline(always)]
    fn time(&mut self, now: Nanos) {
        if let Some(tap) = self {
            tap.now = now;
        }
    }

    #[inline(always)]
    fn looks_on(&self) -> bool {
        self.is_some()
    }

    #[inline(always)]
    fn interest(&self, port: PortId, profile: &Profile, bytes: &[u8], len: usize) -> Interest {
        self.as_ref().map_or(Interest::None, |tap| tap.interest(port, profile, bytes, len))
    }

    fn make_room(&mut self, is_gone: impl Fn(Key) -> bool) -> bool {
        self.as_mut().is_some_and(|tap| tap.make_room(is_gone))
    }

    fn keep(&mut self, bytes: &[u8]) -> Option<u32> {
        self.as_mut()?.keep(bytes)
    }

    fn missed(&mut self) {
        if let Some(tap) = self {
            tap.count_lost();
        }
    }

    fn beside(&mut self) -> Option<&mut Beside> {
        self.as_mut().map(|tap| &mut tap.beside)
    }

    fn arrived(&mut self, record: &Record, is_queued: bool) {
        if let Some(tap) = self {
            tap.arrived(record, is_queued);
        }
    }

    fn follows(&self, key: Key, of_this_shard: bool) -> bool {
        self.as_ref().is_some_and(|tap| tap.follows(key, of_this_shard))
    }

    fn taken(&mut self, taken: Taken) -> Taken {
        self.as_mut().map_or(taken, |tap| tap.taken(taken))
    }

    fn left(&mut self, out: PortId, record: &Record, address: usize, is_last: bool) {
        if let Some(tap) = self {
            tap.left(out, record, address, is_last);
        }
    }

    fn flushed(&mut self, out: PortId, key: Key, what: (u32, DropReason), is_last: bool) {
        if let Some(tap) = self {
            tap.flushed(out, key, what, is_last);
        }
    }

    #[inline(always)]
    fn lost(&mut self, at: PortId, reason: DropReason, profile: &Profile, bytes: &[u8], len: usize) {
        if let Some(tap) = self {
            tap.lost(at, reason, profile, bytes, len);
        }
    }
}

impl<F: Frame, A: Admission> Tapped<F, A> {
    /// Arms a tap, or none; gives back the one that was there.
    pub fn arm(&mut self, tap: TapSlot) -> TapSlot {
        if let Some(tap) = &tap {
            tap.armed.have.fetch_add(1, Release);
        }
        self.invalidate_decisions();
        std::mem::replace(&mut self.observer, tap)
    }

    /// What has left by this port since the last call and is followed further behind it, oldest first.
    pub fn handed_on(&mut self, out: PortId) -> impl Iterator<Item = HandedOn> {
        let handed = self.observer.as_mut().map(|tap| &mut tap.handed);
        let theirs = handed.as_ref().map_or_else(ArrayVec::<_, FOLLOWED>::new, |handed| {
            handed.iter().copied().filter(|handed| handed.out == out).collect()
        });
        if let Some(handed) = handed {
            handed.retain(|handed| handed.out != out);
        }
        theirs.into_iter()
    }
}

#[cfg(test)]
#[path = "tap_tests.rs"]
mod tests;
