//! Following single frames through a running switch, for whoever arms it; without that nothing of it runs.
//!
//! While a tap follows frames of a port, no decision is kept about those kinds of frames of this port that it may want
//! ([`Interest`]): they take the long way of [`super::receive`], where this code stands. A frame that is followed is decided upon by itself and gets a
//! copy count of its own, as a flooded frame has, so that it is known again when it leaves; what it is charged and when does
//! not change. A tap on drops looks at frames where they are lost and hinders nobody.
//!
//! Records go through bounded rings; what does not fit is counted and not waited for.

use super::copies::Copies;
use super::lost::control_group;
use super::receive::ParsedFrame;
use super::stage::Staged;
use super::{Switch, Wire};
use crate::classify::Class;
use crate::drops::DropReason;
use crate::ecn;
use crate::egress::BatchHeader;
use crate::fdb::Lookup;
use crate::flows::{Addresses, FlowId};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx, PgView, QueueIx, QueueView};
use crate::parse::{Kind, Parsed, Profile};
use crate::portset::PortSet;
use crate::types::{BURST, Mac, Nanos, PRIORITIES, PortId};
use crate::vlan::FrameVlan;
use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// Records a tap holds until they are read.
const RECORDS: usize = 4096;

/// Bytes of frames a tap holds until they are read.
const BYTES: usize = 1 << 20;

/// Frames that are followed at the same time, unless another number is asked for.
const FOLLOWED: usize = 256;

/// Which frames: all conditions that are set must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Destination address.
    pub dst: Option<Mac>,
    /// Source address.
    pub src: Option<Mac>,
    /// EtherType, behind VLAN tags.
    pub ethertype: Option<u16>,
    /// DSCP of the IP header.
    pub dscp: Option<u8>,
    /// Source or destination port of UDP over IP.
    pub udp_port: Option<u16>,
    /// Source or destination address of the IP header.
    pub ip: Option<IpAddr>,
    /// Destination queue pair of RoCE or RC Link.
    pub qp: Option<u32>,
}

impl Filter {
    /// A frame of `len` bytes of which these can be read, in the format of `profile`, and of which this was read, is meant.
    pub fn admits(&self, profile: &Profile, bytes: &[u8], len: usize, parsed: &Parsed) -> bool {
        self.admits_addresses(bytes, parsed)
            && self.admits_ethertype(profile, bytes)
            && self
                .udp_port
                .is_none_or(|port| profile.udp_ports(bytes).is_some_and(|ends| ends.contains(&port)))
            && (self.ip.is_none() && self.qp.is_none() || self.is_flow(profile.flow_id(bytes, len)))
    }

    fn admits_ethertype(&self, profile: &Profile, bytes: &[u8]) -> bool {
        self.ethertype.is_none_or(|wanted| profile.ethertype_of(bytes) == Some(wanted))
    }

    fn admits_addresses(&self, bytes: &[u8], parsed: &Parsed) -> bool {
        let is =
            |at: usize, mac: Option<Mac>| mac.is_none_or(|mac| bytes.get(at..at + 6) == Some(&mac.0[..]));
        is(0, self.dst) && is(6, self.src) && self.dscp.is_none_or(|dscp| parsed.dscp == Some(dscp))
    }

    /// Frames with the same [`crate::parse::FlowKey`] as this one may be meant.
    fn admits_kind(&self, profile: &Profile, bytes: &[u8], parsed: &Parsed) -> bool {
        self.admits_addresses(bytes, parsed) && self.admits_ethertype(profile, bytes)
    }

    fn is_flow(&self, flow: Option<FlowId>) -> bool {
        let ends = match flow.and_then(|flow| flow.addresses()) {
            Some(Addresses::Ip(src, dst)) => [Some(src), Some(dst)],
            _ => [None; 2],
        };
        self.ip.is_none_or(|ip| ends.contains(&Some(ip)))
            && self.qp.is_none_or(|qp| flow.and_then(|flow| flow.qp()) == Some(qp))
    }
}

/// What a tap makes of a frame that comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    /// It is nothing to it, nor are others of its kind.
    None,
    /// The next one of its kind may be.
    Kind,
    /// It is to be followed.
    Frame,
}

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

/// A frame that is followed: when and where it came, and the place of its copy count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// When it was received.
    pub rx_ns: Nanos,
    /// Port it came from.
    pub in_port: u16,
    /// Place of its copy count; `u32::MAX` if it was not queued.
    pub slot: u32,
}

impl Key {
    /// Of a frame of this header.
    pub(super) fn of(header: &BatchHeader, copies: &Copies) -> Self {
        let slot = if header.is_single() { u32::MAX } else { copies.count_at(header.copies) };
        Self { rx_ns: header.rx_ns, in_port: header.in_port, slot }
    }
}

/// Something that happened to a frame.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Which frame.
    pub key: Key,
    /// When.
    pub at: Nanos,
    /// Its length.
    pub len: u32,
    /// Bytes of it behind this record.
    pub kept: u32,
    /// What happened.
    pub what: What,
}

/// See [`Record`].
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "records live in a ring of their own, made once")]
pub enum What {
    /// It arrived, was classified and looked up, and admission has decided.
    Arrived(Arrival),
    /// It left by a port.
    Left {
        /// The port.
        out: PortId,
        /// Its queue.
        queue: u8,
        /// When the scheduler took it.
        taken_at: Nanos,
        /// Bytes of its queue it left behind.
        depth: u64,
        /// It became CE on the way.
        marked: bool,
    },
    /// It was lost after it had been queued.
    Flushed {
        /// The port it waited for.
        out: PortId,
        /// Why.
        reason: DropReason,
    },
    /// A frame was lost at a port (taps on drops).
    Lost {
        /// Why.
        reason: DropReason,
    },
}

/// A frame on its way in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// What its headers say.
    pub parsed: Parsed,
    /// Its class.
    pub class: Class,
    /// What the forwarding table says of its destination; of a LAG the member it leaves by.
    pub lookup: Lookup,
    /// Bytes its group is charged, for all its copies; each copy is charged to its queue by itself.
    pub charge: u32,
    /// The group it is charged to, before and after: the control pool, or the one of its class.
    pub pg: [PgView; 2],
    /// That is the control pool.
    pub control_pool: bool,
    /// Its queue before and after; nothing where it goes to several ports, or to another lcore's.
    pub queue: [QueueView; 2],
    /// Why it was lost, if it was.
    pub lost: Option<DropReason>,
    /// Queues it waits in.
    pub copies: u32,
    /// Its VLAN, if ports know of VLANs.
    pub vlan: Option<FrameVlan>,
    /// Further copies, with a tag or without one where the frame is followed as it came: these are not followed.
    pub aside: u32,
}

/// When the scheduler took a copy of a frame that is followed, and, if it was another lcore's, what it left behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub key: Key,
    pub out: PortId,
    pub at: Nanos,
    pub depth: Option<u64>,
}

/// A frame that is followed has left by a port behind which somebody tells what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOn {
    /// The port.
    pub out: PortId,
    /// Which frame.
    pub key: Key,
    /// Where its bytes are, by which it is known again while it exists.
    pub address: usize,
}

/// The worker's end.
#[derive(Debug)]
pub struct Tap {
    order: TapOrder,
    /// Ports behind which somebody tells what becomes of frames.
    hands_on: PortSet,
    /// What has left by them since somebody asked.
    handed: ArrayVec<HandedOn, FOLLOWED>,
    left: u64,
    now: Nanos,
    /// Workers that have their tap, of so many: before all have, what leaves by another one would not be told.
    armed: Arc<AtomicUsize>,
    workers: usize,
    /// Frames of this shard on their way, and since when each copy is with the driver.
    followed: VecDeque<Key>,
    /// Most of them.
    room: usize,
    taken: ArrayVec<Taken, FOLLOWED>,
    records: Producer<Record>,
    bytes: Producer<u8>,
    lost: Arc<AtomicU64>,
    /// Copies made and frames lost aside from the frame that is being followed.
    aside: (u64, [u64; crate::drops::DROP_REASONS]),
    /// The frame that is being followed found no room in the control pool.
    pub(super) control_is_full: bool,
}

/// The reader's end.
#[derive(Debug)]
pub struct TapReader {
    records: Consumer<Record>,
    bytes: Consumer<u8>,
    lost: Arc<AtomicU64>,
}

impl TapReader {
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
        Self::of(order, Arc::default(), 1)
    }

    /// The same for each of so many workers. Frames are followed once all of them have their tap.
    pub fn for_workers(order: TapOrder, workers: usize) -> Vec<(Self, TapReader)> {
        let armed = Arc::<AtomicUsize>::default();
        (0..workers).map(|_| Self::of(order, Arc::clone(&armed), workers)).collect()
    }

    fn of(order: TapOrder, armed: Arc<AtomicUsize>, workers: usize) -> (Self, TapReader) {
        let (records, record_reader) = RingBuffer::new(RECORDS);
        let (bytes, byte_reader) = RingBuffer::new(BYTES);
        let lost = Arc::<AtomicU64>::default();
        let reader = TapReader { records: record_reader, bytes: byte_reader, lost: Arc::clone(&lost) };
        let left = order.count;
        let (followed, taken) = (VecDeque::with_capacity(FOLLOWED), ArrayVec::new());
        let aside = (0, [0; crate::drops::DROP_REASONS]);
        let (hands_on, handed) = (PortSet::EMPTY, ArrayVec::new());
        let tap = Self {
            order,
            hands_on,
            handed,
            left,
            now: 0,
            armed,
            workers,
            followed,
            room: FOLLOWED,
            taken,
            records,
            bytes,
            lost,
            aside,
            control_is_full: false,
        };
        (tap, reader)
    }

    /// It waits for frames to follow.
    pub(super) fn hinders(&self) -> bool {
        !self.order.drops && self.left > 0
    }

    /// What a frame of `len` bytes that comes in by `port` is to it.
    #[cold]
    pub(super) fn interest<F: Frame>(&self, port: PortId, profile: &Profile, frame: &F) -> Interest {
        if !self.hinders() || self.order.port != port {
            return Interest::None;
        }
        let (bytes, len, filter) = (frame.bytes(), frame.len(), &self.order.filter);
        let parsed = profile.parse(bytes, len).unwrap_or(Parsed::NOTHING);
        if self.is_armed() && filter.admits(profile, bytes, len, &parsed) {
            Interest::Frame
        } else if filter.admits_kind(profile, bytes, &parsed) {
            Interest::Kind
        } else {
            Interest::None
        }
    }

    /// What leaves by any worker is told.
    fn is_armed(&self) -> bool {
        self.armed.load(Acquire) >= self.workers
    }

    /// The copy count for another frame to follow; `None`: there is no room for one.
    fn place(&mut self, copies: &mut Copies) -> Option<u32> {
        if self.followed.len() >= self.room {
            // The last copy of some has left by another worker.
            self.followed.retain(|key| !copies.is_free(key.slot));
        }
        if self.followed.len() >= self.room { None } else { copies.next_free() }
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

    /// A frame is lost here and now.
    #[cold]
    pub(super) fn dropped(
        &mut self,
        at: PortId,
        reason: DropReason,
        profile: &Profile,
        bytes: &[u8],
        len: usize,
    ) {
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

    /// Whether a queued frame is one of ours. Those of other lcores are told by their readers.
    fn follows(&self, key: Key, of_this_shard: bool) -> bool {
        key.slot != u32::MAX && (!of_this_shard || self.followed.contains(&key))
    }

    /// A copy has left or is lost; with the last one there is nothing to follow any more.
    fn gone(&mut self, out: PortId, record: &Record, last: bool) {
        self.taken.retain(|taken| (taken.key, taken.out) != (record.key, out));
        if last {
            // The oldest are in front, and mostly leave first.
            let at = self.followed.iter().position(|key| *key == record.key);
            at.map(|at| self.followed.remove(at));
        }
        self.push(record);
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
}

/// A frame that is followed, on its way in.
#[derive(Debug)]
struct Start {
    headers: ParsedFrame,
    parsed: Parsed,
    len: u32,
    kept: u32,
    /// Its copy count.
    slot: Option<u32>,
    lookup: Lookup,
    /// What it is charged to, before it is: the group that its headers say, or that of its class if it is the control pool and that is
    /// full, and the queue.
    before: ([PgView; 2], QueueView),
    /// Copies made and frames lost so far.
    copies: u64,
    losses: [u64; crate::drops::DROP_REASONS],
}

impl<F: Frame, A: Admission> Switch<F, A> {
    /// Arms a tap, or none; gives back the one that was there.
    pub fn arm(&mut self, tap: Option<Box<Tap>>) -> Option<Box<Tap>> {
        if let Some(tap) = &tap {
            tap.armed.fetch_add(1, Release);
        }
        self.invalidate_decisions();
        std::mem::replace(&mut self.tap, tap)
    }

    /// What has left by this port since the last call and is followed further behind it, oldest first.
    pub fn handed_on(&mut self, out: PortId) -> impl Iterator<Item = HandedOn> {
        let handed = self.tap.as_mut().map(|tap| &mut tap.handed);
        let theirs = handed.as_ref().map_or_else(ArrayVec::<_, FOLLOWED>::new, |handed| {
            handed.iter().copied().filter(|handed| handed.out == out).collect()
        });
        if let Some(handed) = handed {
            handed.retain(|handed| handed.out != out);
        }
        theirs.into_iter()
    }

    /// What time it is, for records of frames that are lost on the way.
    #[inline(always)]
    pub(super) fn tell_tap(&mut self, now: Nanos) {
        if let Some(tap) = &mut self.tap {
            tap.now = now;
        }
    }

    /// Does with a frame what is to be done, and follows it if there is room to.
    #[cold]
    #[inline(never)]
    pub(super) fn receive_watched(
        &mut self,
        port: PortId,
        frame: F,
        headers: &ParsedFrame,
        go_on: impl FnOnce(&mut Self, F, &ParsedFrame),
    ) {
        let Some(start) = self.begin_to_follow(port, &frame, headers) else {
            return go_on(self, frame, headers);
        };
        go_on(self, frame, &start.headers);
        self.note_arrival(port, &start);
    }

    /// Keeps the bytes of a frame, gives it a copy count of its own, and looks at what it will be charged to. `None`: there is no room
    /// for another one.
    fn begin_to_follow(&mut self, port: PortId, frame: &F, headers: &ParsedFrame) -> Option<Start> {
        let Self { tap, ports, copies, .. } = self;
        let (tap, bytes, len) = (tap.as_mut()?, frame.bytes(), frame.len());
        let profile = &ports[port.index()].params.profile;
        let parsed = profile.parse(bytes, len).unwrap_or(Parsed::NOTHING);
        let slot = if headers.forwards() { tap.place(copies) } else { None };
        let can_follow = slot.is_some() || !headers.forwards();
        let Some(kept) = can_follow.then(|| tap.keep(bytes)).flatten() else {
            tap.count_lost();
            return None;
        };
        tap.aside = (0, [0; crate::drops::DROP_REASONS]);
        tap.control_is_full = false;
        let mut headers = *headers;
        if let Some(slot) = slot {
            copies.begin(slot, 1);
            headers.meta.header.copies = slot;
        }
        let lookup = match self.fdb.lookup(headers.dst_key) {
            Lookup::Port(out) => Lookup::Port(self.leaves_by(out, port, frame)),
            other => other,
        };
        let before = self.charged_to(&headers, lookup);
        let copies = self.ports[port.index()].stats.copies;
        Some(Start {
            headers,
            parsed,
            len: len as u32,
            kept,
            slot,
            lookup,
            before,
            copies,
            losses: self.losses(),
        })
    }

    /// Does something with a second frame that is made of one that may be `followed`: nothing of it is part of that one's
    /// story.
    pub(super) fn aside(&mut self, port: PortId, followed: bool, act: impl FnOnce(&mut Self)) {
        let Some(mut tap) = self.tap.take_if(|_| followed) else { return act(self) };
        let (last, copies, losses) =
            (self.copies.last_begun(), self.ports[port.index()].stats.copies, self.losses());
        act(self);
        self.copy_waiting();
        self.copies.set_last_begun(last);
        let now = self.losses();
        tap.aside.0 += self.ports[port.index()].stats.copies - copies;
        tap.aside
            .1
            .iter_mut()
            .zip(now.iter().zip(&losses))
            .for_each(|(aside, (now, then))| *aside += now - then);
        self.tap = Some(tap);
    }

    /// What has become of a frame that came in.
    fn note_arrival(&mut self, port: PortId, start: &Start) {
        let Start { headers, slot, .. } = start;
        let (aside, losses_aside) = self.tap.as_ref().map_or((0, [0; _]), |tap| tap.aside);
        let then = start.losses.iter().zip(&losses_aside).map(|(then, aside)| then + aside);
        let lost = self.losses().iter().zip(then).position(|(now, then)| *now > then);
        let more = self.ports[port.index()].stats.copies - start.copies - aside;
        let mut key =
            Key { rx_ns: headers.meta.header.rx_ns, in_port: port.0, slot: slot.unwrap_or(u32::MAX) };
        if let Some(slot) = *slot {
            // Flooded frames have a count of their own.
            key.slot = self.copies.last_begun();
            if key.slot != slot || lost.is_some() {
                self.copies.cancel(slot);
            }
        }
        let queued = lost.is_none() || more > 0;
        let (before, after) = (start.before, self.charged_to(headers, start.lookup));
        let is_control = self.admission.control_pg() == Some(PgIx(u32::from(headers.meta.header.pg)));
        let is_full = self.tap.as_ref().is_some_and(|tap| tap.control_is_full);
        let charged = usize::from(is_full);
        // A frame in the control pool has the group of its class, which it falls back to.
        let crate::classify::Class { tc, pg, .. } =
            self.ports[port.index()].params.classifier.class(&start.parsed);
        let class = Class { tc, queue: headers.meta.header.queue, pg };
        let copies = if queued && slot.is_some() { 1 + more as u32 } else { 0 };
        let each = self.admission.charge(start.len);
        let arrival = Arrival {
            parsed: start.parsed,
            class,
            lookup: start.lookup,
            charge: self.admission.charge_for_copies(each, copies.max(1)),
            pg: [before.0[charged], after.0[charged]],
            control_pool: is_control && !is_full,
            queue: [before.1, after.1],
            lost: lost.map(|reason| DropReason::ALL[reason]),
            copies,
            vlan: headers.vlan,
            aside: aside as u32,
        };
        let Some(tap) = &mut self.tap else { return };
        if slot.is_some() && queued {
            // `place` has seen that there is room.
            tap.followed.push_back(key);
        }
        tap.left -= 1;
        let (at, what) = (headers.meta.header.rx_ns, What::Arrived(arrival));
        tap.push(&Record { key, at, len: start.len, kept: start.kept, what });
    }

    /// The group that a frame is charged to, the one that it falls back to, and the queue.
    fn charged_to(&self, headers: &ParsedFrame, lookup: Lookup) -> ([PgView; 2], QueueView) {
        let pgs = [headers.meta.header.pg, control_group(&self.ports, headers.meta.header.in_port)];
        let pg = pgs.map(|pg| self.admission.pg_view(PgIx(u32::from(pg))));
        let queue = match lookup {
            Lookup::Port(out) => {
                self.admission.queue_view(QueueIx::of(out, usize::from(headers.meta.header.queue)))
            }
            _ => QueueView::default(),
        };
        (pg, queue)
    }

    /// Frames lost so far, by reason, at all ports together.
    fn losses(&self) -> [u64; crate::drops::DROP_REASONS] {
        let mut sum = [0; crate::drops::DROP_REASONS];
        for port in self.ports.own() {
            sum.iter_mut().zip(&port.stats.drops.0).for_each(|(sum, n)| *sum += n);
        }
        sum
    }

    /// [`Switch::hand_over`] with somebody watching: what is with the driver afterwards has left.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over_watched(&mut self, out: PortId, now: Nanos, wire: &mut impl Wire<F>) -> usize {
        let mut watched: ArrayVec<(usize, Record, usize), BURST> = ArrayVec::new();
        let Self { tap, ports, queues, copies, .. } = self;
        let mut behind: [u64; PRIORITIES] = std::array::from_fn(|queue| queues.bytes(out, queue));
        let own = ports.is_own(out);
        let counted = ports.stage(out).entries().iter().any(|staged| !staged.header.is_single());
        // What stands behind a frame is what it left behind. A frame with a count of its own is alone in its entry.
        let stage = (counted && tap.is_some()).then(|| ports.stage(out).backwards());
        for (at, Staged { header, totals, .. }, frame) in stage.into_iter().flatten() {
            let Some(tap) = tap else { break };
            let lane = usize::from(header.queue) % PRIORITIES;
            let depth = behind[lane];
            behind[lane] += frame.len() as u64;
            let key = Key::of(header, copies);
            if !tap.follows(key, ports.is_own(PortId(header.in_port))) {
                continue;
            }
            let Taken { at: taken_at, depth: told, .. } = tap.taken(Taken { key, out, at: now, depth: None });
            let depth = told.unwrap_or(depth);
            let came = header.ecn.of(frame);
            let marked = ecn::codepoint(frame.bytes(), came.place()) == Some(ecn::CE) && !came.is_ce();
            let what = What::Left { out, queue: header.queue, taken_at, depth, marked };
            let address = frame.bytes().as_ptr().addr();
            watched.push((at, Record { key, at: now, len: totals.bytes, kept: 0, what }, address));
        }
        let sent = if own { self.hand_over(out, now, wire) } else { self.hand_over_granted(out, now, wire) };
        let Self { tap: Some(tap), copies, .. } = self else { return sent };
        for (_, record, address) in watched.iter().rev().filter(|(at, ..)| *at < sent) {
            tap.gone(out, record, copies.is_free(record.key.slot));
            if tap.hands_on.contains(out) {
                // Without a place nothing more is told of it.
                let _ = tap.handed.try_push(HandedOn { out, key: record.key, address: *address });
            }
        }
        sent
    }

    /// Another lcore has taken a frame that may be one of ours.
    #[cold]
    pub(super) fn taken_elsewhere(&mut self, taken: Taken) {
        if let Some(tap) = &mut self.tap
            && tap.follows(taken.key, true)
        {
            tap.taken(taken);
        }
    }

    /// A queued frame is lost.
    #[cold]
    pub(super) fn flushed_watched(&mut self, out: PortId, key: Key, len: u32, reason: DropReason) {
        let Self { tap: Some(tap), ports, copies, .. } = self else { return };
        if tap.follows(key, ports.is_own(PortId(key.in_port))) {
            let record = Record { key, at: tap.now, len, kept: 0, what: What::Flushed { out, reason } };
            // It is released right after this.
            tap.gone(out, &record, copies.left(key.slot) == 1);
        }
    }
}

/// The word for a kind of frame.
pub fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Data => "data",
        Kind::Cnp => "cnp",
        Kind::Ack => "ack",
        Kind::MacControl => "mac control",
        Kind::Reserved => "reserved",
    }
}

#[cfg(test)]
#[path = "tap_tests.rs"]
mod tests;
