//! The endpoints at the other ends, and the credits between this one and each of them.

use crate::rclink::cbfc::{CreditConfig, CreditReceiver, CreditSender, Passed, Update};
use crate::rclink::frame::Station;
use crate::timetable::Times;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::{Nanos, PRIORITIES};

/// Frames that take one path: their channel, and the number of their queue pair where it ends; 0 where the format has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    pub channel: u8,
    pub qp: u16,
}

/// Credits that a lane has consumed.
#[derive(Clone, Copy, Debug, Default)]
struct Consumed {
    passed: Passed,
    /// [`Peer::settled`] of its channel when it consumed the last ones.
    since: u32,
}

/// Another endpoint.
#[derive(Debug)]
struct Peer {
    station: Station,
    /// Queue pairs to it.
    qps: Vec<u16>,
    credits: [CreditSender; PRIORITIES],
    /// How often all credits of a channel had come back.
    settled: [u32; PRIORITIES],
    consumed: BTreeMap<Lane, Consumed>,
    /// The queue pair of each channel that was told of last.
    told: [u16; PRIORITIES],
    grants: [CreditReceiver; PRIORITIES],
    arrived: BTreeMap<Lane, Passed>,
    /// Channels of which a count of credits consumed is to be sent.
    repair_due: u8,
}

impl Peer {
    /// The lane of a channel whose turn it is to be told of: one that has sent since all credits of the channel were back.
    fn next_lane(&self, channel: u8) -> Option<(Lane, Passed)> {
        let at = usize::from(channel);
        let lane = |qp| Lane { channel, qp };
        let behind =
            self.consumed.range((Bound::Excluded(lane(self.told[at])), Bound::Included(lane(u16::MAX))));
        let others = self.consumed.range(lane(0)..=lane(self.told[at]));
        let open = behind.chain(others).find(|(_, consumed)| consumed.since == self.settled[at]);
        open.map(|(lane, consumed)| (*lane, consumed.passed))
    }
}

/// All of them, numbered from 0.
#[derive(Debug, Default)]
pub(super) struct Peers {
    list: Vec<Peer>,
    by_station: HashMap<u64, usize>,
    /// When each is told again what may have been lost.
    timers: Times,
    /// Those that are to hear what was freed, and those that are to hear what was consumed.
    reports: BTreeSet<usize>,
    repairs: BTreeSet<usize>,
}

impl Peers {
    /// The one with these station bits.
    pub fn known(&self, bits: u64) -> Option<usize> {
        self.by_station.get(&bits).copied()
    }

    /// The same; it becomes one if it is not.
    pub fn join(&mut self, bits: u64, station: Station) -> usize {
        *self.by_station.entry(bits).or_insert_with(|| {
            self.list.push(Peer {
                station,
                qps: Vec::new(),
                credits: Default::default(),
                settled: Default::default(),
                consumed: BTreeMap::new(),
                told: Default::default(),
                grants: Default::default(),
                arrived: BTreeMap::new(),
                repair_due: 0,
            });
            self.timers.make_room(self.list.len());
            self.list.len() - 1
        })
    }

    /// A queue pair leads to it.
    pub fn add_qp(&mut self, peer: usize, qp: u16) {
        self.list[peer].qps.push(qp);
    }

    /// Queue pairs to it, in the order of their numbers.
    pub fn qps(&self, peer: usize) -> &[u16] {
        &self.list[peer].qps
    }

    /// Credits out on a channel.
    pub fn in_use(&self, peer: usize, channel: u8) -> u32 {
        self.list[peer].credits[usize::from(channel)].in_use()
    }

    /// A message of so many credits may be sent.
    pub fn allow(&self, peer: usize, channel: u8, cost: u32, limit: u32) -> bool {
        self.list[peer].credits[usize::from(channel)].allow(cost, limit)
    }

    /// It was sent; a count that mends losses goes out at `at`, if none does before.
    pub fn consume(&mut self, peer: usize, lane: Lane, cost: u32, at: Nanos) {
        let to = &mut self.list[peer];
        let channel = usize::from(lane.channel);
        to.credits[channel].consume(cost);
        let consumed = to.consumed.entry(lane).or_default();
        consumed.passed.pass(cost);
        consumed.since = to.settled[channel];
        self.arm(peer, at);
    }

    /// A message of so many credits has come.
    pub fn arrive(&mut self, peer: usize, lane: Lane, cost: u32) {
        self.list[peer].arrived.entry(lane).or_default().pass(cost);
    }

    /// Its place is free again, which is reported by `at`.
    pub fn free(&mut self, peer: usize, channel: u8, cost: u32, credits: &CreditConfig, at: Nanos) {
        let grants = &mut self.list[peer].grants[usize::from(channel)];
        grants.free(cost);
        if grants.report_due(credits) {
            self.reports.insert(peer);
        }
        self.arm(peer, at);
    }

    /// It says what it has freed. `false`: something that cannot be.
    pub fn freed(&mut self, peer: usize, counts: [u32; PRIORITIES]) -> bool {
        let from = &mut self.list[peer];
        let mut sane = true;
        for (channel, count) in counts.into_iter().enumerate() {
            let before = from.credits[channel].in_use();
            sane &= from.credits[channel].freed(count);
            if before > 0 && from.credits[channel].in_use() == 0 {
                from.settled[channel] = from.settled[channel].wrapping_add(1);
                from.repair_due &= !(1 << channel);
            }
        }
        if from.repair_due == 0 {
            self.repairs.remove(&peer);
        }
        sane
    }

    /// It says what a lane has consumed, because it waits: it is answered at once.
    pub fn consumed(&mut self, peer: usize, lane: Lane, count: u32, at: Nanos) {
        let from = &mut self.list[peer];
        let missing = from.arrived.entry(lane).or_default().settle(count);
        from.grants[usize::from(lane.channel)].free(missing);
        self.reports.insert(peer);
        self.arm(peer, at);
    }

    fn arm(&mut self, peer: usize, at: Nanos) {
        if self.timers.get(peer) == NEVER {
            self.timers.set(peer, at);
        }
    }

    /// When the first of them is to be told again.
    pub fn next_timeout(&self) -> Nanos {
        self.timers.least()
    }

    /// Runs the timers that have expired by `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let mut from = 0;
        while let Some(at) = self.timers.first(from, now) {
            self.timers.set(at, NEVER);
            let peer = &mut self.list[at];
            if peer.grants.iter().any(CreditReceiver::unreported) {
                self.reports.insert(at);
            }
            for (channel, credits) in peer.credits.iter().enumerate() {
                peer.repair_due |= u8::from(credits.in_use() > 0) << channel;
            }
            if peer.repair_due != 0 {
                self.repairs.insert(at);
            }
            from = at + 1;
        }
    }

    /// Some are to hear what was freed.
    pub fn owes_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// Some are to hear what was consumed.
    pub fn owes_repairs(&self) -> bool {
        !self.repairs.is_empty()
    }

    /// The next credit message, whom it is for, and of which lane, if it is of one. Counts of what was freed may be told if `reports`;
    /// the timer of a count of what was consumed is set to `at`.
    pub fn next_update(&mut self, reports: bool, at: Nanos) -> Option<(Station, Option<Lane>, Update)> {
        let report = self.reports.first().copied().filter(|_| reports);
        let repair = self.repairs.first().copied();
        let number = report.into_iter().chain(repair).min()?;
        if report == Some(number) {
            self.reports.remove(&number);
            let Peer { station, grants, .. } = &mut self.list[number];
            let freed = Update::Freed(std::array::from_fn(|channel| grants[channel].report()));
            return Some((*station, None, freed));
        }
        self.arm(number, at);
        let peer = &mut self.list[number];
        let channel = peer.repair_due.trailing_zeros() as u8 & 7;
        peer.repair_due &= peer.repair_due.wrapping_sub(1);
        if peer.repair_due == 0 {
            self.repairs.remove(&number);
        }
        let (lane, passed) = peer.next_lane(channel)?;
        peer.told[usize::from(channel)] = lane.qp;
        Some((peer.station, Some(lane), Update::Consumed { channel, count: passed.total() }))
    }
}
