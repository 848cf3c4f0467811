//! What was decided about frames like this one before: a table of decisions by the frame's [`FlowKey`].
//!
//! A decision holds as long as nothing it was made from has changed. Maps and links void all of them at once (an epoch
//! passes), a station that is learned, moves or goes away only those about its own frames.

mod index;

use super::Switch;
use super::batching::GROUPS;
use crate::drops::{DROP_REASONS, DropReason};
use crate::fdb::{Changed, GroupId, Refusal};
use crate::frame::Frame;
use crate::parse::{EcnCode, FlowKey, Profile};
use crate::storm_control::FloodKind;
use crate::types::{MAX_PORTS, PRIORITIES, PortId};
use crate::vlan::Retag;
use index::Index;

/// Where a frame goes and what it is charged to, in one word: nothing but admission is left to decide. Frames with the
/// same decision are admitted together.
///
/// From the low bits: traffic class 4, egress queue of the whole switch 16, priority group 16, [`EcnCode`] 9, number among
/// the groups of a burst 6, [`Retag`] 2, whether the queue is that of a LAG 1, what kind of [`Destination`] 2, the rest of
/// the number of a group 3, why its source is refused 2, and 1 in the top bit. A destination that is no port has its number where a
/// port has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForwardingDecision(u64);

const _: () = {
    // Behind the groups of the ports are those of control frames and mirrors, of each shard.
    assert!(MAX_PORTS * (PRIORITIES + 2) <= 1 << 16, "queues and groups have 16 bits");
    assert!(PRIORITIES <= 1 << 4 && GROUPS <= 1 << 6, "class and group have 4 and 6");
};

impl ForwardingDecision {
    /// Not decided.
    pub const NONE: Self = Self(0);

    /// `control`: `pg` is the control pool, so these are CNPs. They are the only frames that may overtake others of their
    /// queue, and only within a burst.
    ///
    /// `ecn` is that of the frames as they leave, once their tag is changed.
    #[inline(always)]
    pub fn new(
        out: PortId,
        queue: u8,
        (pg, control): (u16, bool),
        tc: u8,
        ecn: EcnCode,
        retag: Retag,
    ) -> Self {
        let queue = u64::from(out.0) * PRIORITIES as u64 + u64::from(queue);
        let group = Self::group_of(queue) ^ (u64::from(control) << 5);
        let charged = u64::from(ecn.bits()) << Self::ECN_AT | u64::from(pg) << 20;
        let group = group << Self::GROUP_AT;
        Self(1 << 63 | (retag as u64) << Self::RETAG_AT | group | charged | queue << 4 | u64::from(tc & 7))
    }

    /// Neither the queues of a port nor a queue of many ports share a group.
    #[inline(always)]
    fn group_of(queue: u64) -> u64 {
        (queue ^ (queue / PRIORITIES as u64)) % GROUPS as u64
    }

    const ECN: u64 = ((1 << EcnCode::BITS) - 1) << Self::ECN_AT;
    const ECN_AT: u32 = 36;
    const GROUP_AT: u32 = 45;
    const RETAG_AT: u32 = 51;

    /// The same of frames with other [`EcnCode`]s among them ([`EcnCode::EACH`]).
    #[inline(always)]
    pub fn of_each_ecn(self) -> Self {
        Self(self.0 & !Self::ECN | u64::from(EcnCode::EACH.bits()) << Self::ECN_AT)
    }

    /// Both are the same but for that.
    pub fn differs_in_ecn(self, other: Self) -> bool {
        self != other && self.of_each_ecn() == other.of_each_ecn()
    }

    /// The same queue of one member of each LAG: which one is chosen frame by frame.
    pub fn of_lag(self) -> Self {
        Self(self.0 | Self::OF_LAG)
    }

    const OF_LAG: u64 = 1 << 53;

    const DESTINATION_AT: u32 = 54;
    const DESTINATION: u64 = 3 << Self::DESTINATION_AT;
    const REST_AT: u32 = 56;
    /// Bits of the number of a port.
    const PORT_BITS: u32 = 16 - PRIORITIES.ilog2();

    fn to(self, kind: u64, number: u16) -> Self {
        let (low, rest) = (number & ((1 << Self::PORT_BITS) - 1), u64::from(number >> Self::PORT_BITS));
        Self(self.by(PortId(low)).0 | kind << Self::DESTINATION_AT | rest << Self::REST_AT)
    }

    /// The same of several ports.
    pub fn for_several(self, ports: Several) -> Self {
        match ports {
            Several::Flood(kind) => self.to(1, kind as u16),
            Several::All => self.to(1, FloodKind::ALL.len() as u16),
            Several::Group(GroupId(group)) => self.to(2, group),
        }
    }

    /// The same of frames that are lost.
    pub fn refused(self, reason: DropReason) -> Self {
        self.to(3, reason as u16)
    }

    /// Where its frames go.
    #[inline(always)]
    pub fn destination(self) -> Destination {
        let PortId(number) = self.out();
        match self.0 >> Self::DESTINATION_AT & 3 {
            0 => Destination::Port(PortId(number)),
            1 => Destination::Several(match FloodKind::ALL.get(usize::from(number)) {
                Some(kind) => Several::Flood(*kind),
                None => Several::All,
            }),
            2 => {
                let rest = (self.0 >> Self::REST_AT & 7) as u16;
                Destination::Several(Several::Group(GroupId(rest << Self::PORT_BITS | number)))
            }
            _ => Destination::Nowhere(DropReason::ALL[usize::from(number) % DROP_REASONS]),
        }
    }

    /// Its frames leave by one port.
    #[inline(always)]
    pub fn is_to_one(self) -> bool {
        self.0 & Self::DESTINATION == 0
    }

    /// Its frames are lost.
    #[inline(always)]
    pub fn is_refused(self) -> bool {
        self.0 & Self::DESTINATION == Self::DESTINATION
    }

    const UNLEARNED_AT: u32 = 59;
    const UNLEARNED: u64 = 3 << Self::UNLEARNED_AT;

    /// The same of frames whose source is refused by the forwarding table: each of them asks again, and is counted.
    pub fn unlearned(self, why: Option<Refusal>) -> Self {
        let why = match why {
            None | Some(Refusal::Off) => 0,
            Some(Refusal::Limit) => 1,
            Some(Refusal::Full) => 2,
            Some(Refusal::Static) => 3,
        };
        Self(self.0 & !Self::UNLEARNED | why << Self::UNLEARNED_AT)
    }

    /// Why the source of its frames is refused, if it is.
    #[inline(always)]
    pub fn why_unlearned(self) -> Option<Refusal> {
        match self.0 >> Self::UNLEARNED_AT & 3 {
            0 => None,
            1 => Some(Refusal::Limit),
            2 => Some(Refusal::Full),
            _ => Some(Refusal::Static),
        }
    }

    /// Something is to be done or said frame by frame, above all which ports they leave by: they begin no batch of this
    /// decision.
    #[inline(always)]
    pub fn is_open(self) -> bool {
        let several = !self.is_to_one() && !self.is_refused();
        several || self.0 & (Self::OF_LAG | Self::UNLEARNED) != 0
    }

    /// The same of this port, which is in the LAG, one of several or alone.
    #[inline(always)]
    pub fn by(self, out: PortId) -> Self {
        let (was, lane) = (u64::from(self.queue()), u64::from(self.queue()) % PRIORITIES as u64);
        let queue = u64::from(out.0) * PRIORITIES as u64 + lane;
        let group = self.group() as u64 ^ Self::group_of(was) ^ Self::group_of(queue);
        let destination = Self::OF_LAG | Self::DESTINATION | 7 << Self::REST_AT;
        let kept = self.0 & !(destination | 0x3f << Self::GROUP_AT | 0xffff << 4);
        Self(kept | group << Self::GROUP_AT | queue << 4)
    }

    /// The same of frames of which this is done to the tags, and was not before.
    pub fn with_retag(self, retag: Retag) -> Self {
        let ecn = u64::from(retag.moved(self.ecn()).bits()) << Self::ECN_AT;
        Self(self.0 & !(Self::ECN | 3 << Self::RETAG_AT) | ecn | (retag as u64) << Self::RETAG_AT)
    }

    /// Where its group is among those of a burst.
    #[inline(always)]
    pub fn group(self) -> usize {
        (self.0 >> Self::GROUP_AT) as usize % GROUPS
    }

    #[inline(always)]
    pub fn is_decided(self) -> bool {
        self != Self::NONE
    }

    /// What is done to the tags of its frames.
    #[inline(always)]
    pub fn retag(self) -> Retag {
        Retag::from_bits(self.0 >> Self::RETAG_AT)
    }

    /// Egress queue of the whole switch.
    #[inline(always)]
    pub fn queue(self) -> u32 {
        (self.0 >> 4 & 0xffff) as u32
    }

    #[inline(always)]
    pub fn out(self) -> PortId {
        PortId((self.queue() as usize / PRIORITIES) as u16)
    }

    #[inline(always)]
    pub fn pg(self) -> u16 {
        (self.0 >> 20) as u16
    }

    #[inline(always)]
    pub fn tc(self) -> usize {
        self.0 as usize % PRIORITIES
    }

    #[inline(always)]
    pub fn ecn(self) -> EcnCode {
        EcnCode::from_bits((self.0 >> Self::ECN_AT) as u16)
    }
}

/// Where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// To one port, or a member of its LAG.
    Port(PortId),
    /// To each of these.
    Several(Several),
    /// They are lost.
    Nowhere(DropReason),
}

/// Ports that get a copy each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Several {
    /// Those of a group, or those that get what nobody has joined.
    Group(GroupId),
    /// All others, within the limits of storm control.
    Flood(FloodKind),
    /// All others that are in a VLAN with the port, without limits: link-local frames that are passed on.
    All,
}

/// Decisions of one set: a cache line.
const WAYS: usize = 2;
/// Decisions that a core has at hand: half of its first cache.
const NEAR: usize = 256;
/// One in so many newcomers takes a place that is taken.
const PATIENCE: u64 = 16;

/// Where the port stands in the third word of a key, and above it the epoch.
const PORT_AT: u32 = FlowKey::FREE;
const EPOCH_AT: u32 = PORT_AT + MAX_PORTS.ilog2();
const EPOCHS: u64 = 1 << (u64::BITS - EPOCH_AT);

/// A decision about frames of one port.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// [`FlowKey`], port and epoch. In no valid entry the mark of the epoch is 0.
    key: [u64; 3],
    decision: ForwardingDecision,
}

impl Entry {
    const VOID: Self = Self { key: [0; 3], decision: ForwardingDecision::NONE };

    fn mark(&self) -> u64 {
        self.key[2] >> EPOCH_AT
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Set([Entry; WAYS]);

const _: () = assert!(size_of::<Set>() == 64, "a look-up touches one cache line");

/// Where the decision about a frame is, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    set: usize,
    /// What its entry has for a key: that of a void one, if the frame has none.
    key: [u64; 3],
}

impl Probe {
    pub const NOWHERE: Self = Self { set: 0, key: Entry::VOID.key };
}

/// Port and epoch, as they stand in the third word of an entry's key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp(u64);

/// The decisions of one shard.
#[derive(Debug)]
pub(super) struct FlowCache {
    sets: Box<[Set]>,
    /// Of a hash, down to the number of a set.
    hash_shift: u32,
    /// Times that all became void. Entries have [`FlowCache::mark`] of it.
    epoch: u64,
    /// The set that is emptied next.
    sweep: usize,
    /// Which decisions are about the frames of a station.
    index: Index,
    /// State of the forwarding table the decisions were made from.
    seen: (u64, u32),
    /// Times that some or all became void.
    voids: u64,
    /// One was displaced since somebody began to look: nobody is told when it becomes void.
    displaced: bool,
    /// Decisions that found their set taken.
    refused: u64,
    /// Decisions that were kept since all became void.
    kept: usize,
}

impl FlowCache {
    /// Room for so many decisions, rounded up to a power of two.
    pub fn new(decisions: usize) -> Self {
        let sets = decisions.div_ceil(WAYS).next_power_of_two().max(2);
        Self {
            sets: vec![Set([Entry::VOID; WAYS]); sets].into_boxed_slice(),
            hash_shift: u64::BITS - sets.ilog2(),
            epoch: 0,
            sweep: 0,
            index: Index::new(sets * WAYS),
            seen: (0, 0),
            voids: 0,
            displaced: false,
            refused: 0,
            kept: 0,
        }
    }

    /// All decisions are void.
    pub fn invalidate(&mut self) {
        self.voids += 1;
        self.epoch += 1;
        self.kept = 0;
        // Marks come round: by then every set has been emptied many times, one at a time, so that none takes long.
        self.sets[self.sweep] = Set([Entry::VOID; WAYS]);
        self.sweep = (self.sweep + 1) % self.sets.len();
    }

    /// What valid entries have for an epoch: never 0, which is that of void ones.
    #[inline(always)]
    fn mark(&self) -> u64 {
        1 + self.epoch % (EPOCHS - 1)
    }

    /// Decisions are void that rely on what is no longer so in the forwarding table: on stations that have changed, or
    /// all.
    #[inline(always)]
    pub fn sync_epoch(&mut self, version: u64, tick: u32, changed: &mut Changed) {
        if self.seen != (version, tick) {
            self.seen = (version, tick);
            self.invalidate();
            changed.clear();
        } else if !changed.is_empty() {
            changed.drain(..).for_each(|station| self.invalidate_station(station));
        }
    }

    /// Decisions about frames from and to a station are void; all, where these are more than can be gone through.
    #[cold]
    fn invalidate_station(&mut self, station: u64) {
        let Self { index, sets, epoch, kept, .. } = self;
        let before = *kept;
        let is_void = |at: usize| {
            sets[at / WAYS].0[at % WAYS] = Entry::VOID;
            *kept -= 1;
        };
        if !index.remove(station, *epoch, is_void) {
            self.invalidate();
        } else if self.kept != before || self.displaced {
            self.voids += 1;
        }
    }

    /// Changes when a decision may no longer hold that is found from now on.
    pub fn begin_look(&mut self) -> u64 {
        self.displaced = false;
        self.voids
    }

    /// No decision that was found since [`Self::begin_look`] said this has become void.
    pub fn hold(&self, voids: u64) -> bool {
        self.voids == voids
    }

    /// What a valid entry has above the key of a frame of `port`.
    #[inline(always)]
    pub fn stamp(&self, port: PortId) -> Stamp {
        Stamp(u64::from(port.0) << PORT_AT | self.mark() << EPOCH_AT)
    }

    /// What was decided about frames like this one.
    #[inline(always)]
    pub fn decision<F: Frame>(&self, profile: &Profile, stamp: Stamp, frame: &F) -> ForwardingDecision {
        match profile.flow_key(frame.bytes(), frame.len()) {
            Some(key) => self.at(self.probe_key(key, stamp)),
            None => ForwardingDecision::NONE,
        }
    }

    /// What was decided about the frames of a probe.
    #[inline(always)]
    pub fn at(&self, Probe { set, key: [a, b, c] }: Probe) -> ForwardingDecision {
        let Some(Set(ways)) = self.sets.get(set) else { return ForwardingDecision::NONE };
        // Mostly the first: a table that is not nearly full has few sets with two.
        for entry in ways {
            if (entry.key[0] ^ a) | (entry.key[1] ^ b) | (entry.key[2] ^ c) == 0 {
                return entry.decision;
            }
        }
        self.find_beside(set, [a, b, c])
    }

    /// In the neighbouring set, where it is if this one was full.
    #[cold]
    #[inline(never)]
    fn find_beside(&self, set: usize, key: [u64; 3]) -> ForwardingDecision {
        let beside = self.sets[set ^ 1].0.iter().find(|entry| entry.key == key);
        beside.map_or(ForwardingDecision::NONE, |entry| entry.decision)
    }

    /// Decisions are so many that most are in a far cache, or in none.
    #[inline(always)]
    pub fn is_far(&self) -> bool {
        self.kept > NEAR
    }

    /// Where the decision about a frame is. It is on its way when this returns.
    #[inline(always)]
    pub fn probe<F: Frame>(&self, profile: &Profile, stamp: Stamp, frame: &F) -> Probe {
        let Some(key) = profile.flow_key(frame.bytes(), frame.len()) else { return Probe::NOWHERE };
        let probe = self.probe_key(key, stamp);
        if let Some(set) = self.sets.get(probe.set) {
            F::prefetch(set);
        }
        probe
    }

    /// Where the decision about frames of a key is.
    #[inline(always)]
    pub fn probe_key(&self, key: FlowKey, stamp: Stamp) -> Probe {
        let [a, b, c] = key.words();
        Probe { set: (key.hash() >> self.hash_shift) as usize, key: [a, b, c | stamp.0] }
    }

    /// Keeps a decision, in its set or the one beside it. Where both are full of valid ones a newcomer gets in only now and
    /// then: where there are more kinds of frames than places, most of those that have one should keep it long enough to
    /// be of use. Frames that are flooded or lost take places that nobody has, and leave them to those that go to one port:
    /// anybody can make up groups and stations.
    ///
    /// `stations`: the keys of source and destination in the forwarding table.
    #[inline(never)]
    pub fn keep(&mut self, key: FlowKey, port: PortId, decision: ForwardingDecision, stations: [u64; 2]) {
        let (mark, Probe { set, key }) = (self.mark(), self.probe_key(key, self.stamp(port)));
        let places = || [set, set ^ 1].into_iter().flat_map(|set| (0..WAYS).map(move |way| (set, way)));
        let entry = |(set, way): (usize, usize)| &self.sets[set].0[way];
        let same = places().find(|place| entry(*place).key == key);
        let unicast = decision.is_to_one();
        let is_free = |entry: &Entry| entry.mark() != mark || unicast && !entry.decision.is_to_one();
        let free = || places().find(|place| is_free(entry(*place)));
        let (set, way) = match same.or_else(free) {
            Some(place) => place,
            None if !unicast => return,
            None => {
                self.refused += 1;
                if !self.refused.is_multiple_of(PATIENCE) {
                    return;
                }
                (set, (self.refused / PATIENCE) as usize % WAYS)
            }
        };
        let entry = &mut self.sets[set].0[way];
        let taken = entry.mark() == mark;
        self.kept += usize::from(!taken);
        self.displaced |= taken && entry.key != key;
        self.index.replace(set * WAYS + way, taken, self.epoch, stations);
        *entry = Entry { key, decision };
    }
}

impl<F: Frame, A, O> Switch<F, A, O> {
    /// Maps or tables have changed: no decision about frames holds any longer.
    pub(super) fn invalidate_decisions(&mut self) {
        self.flow_cache.invalidate();
    }
}

#[cfg(test)]
#[path = "flow_cache/tests.rs"]
mod tests;
