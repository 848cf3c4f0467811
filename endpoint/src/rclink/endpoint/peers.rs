//! The endpoints at the other ends, and the credits between this one and each of them.

use crate::rclink::cbfc::{CreditConfig, CreditReceiver, CreditSender, Update};
use crate::rclink::frame::Station;
use crate::timetable::Times;
use std::collections::{BTreeSet, HashMap};
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::{Nanos, PRIORITIES};

/// Another endpoint.
#[derive(Debug)]
struct Peer {
    station: Station,
    /// Queue pairs to it.
    qps: Vec<u16>,
    credits: [CreditSender; PRIORITIES],
    grants: [CreditReceiver; PRIORITIES],
    /// Channels whose count of credits consumed is to be sent.
    repair_due: u8,
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
                grants: Default::default(),
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
    pub fn consume(&mut self, peer: usize, channel: u8, cost: u32, at: Nanos) {
        self.list[peer].credits[usize::from(channel)].consume(cost);
        self.arm(peer, at);
    }

    /// A message of so many credits has come.
    pub fn arrive(&mut self, peer: usize, channel: u8, cost: u32) {
        self.list[peer].grants[usize::from(channel)].arrive(cost);
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
        let credits = self.list[peer].credits.iter_mut().zip(counts);
        credits.fold(true, |sane, (credits, count)| credits.freed(count) & sane)
    }

    /// It says what it has consumed, because it waits: it is answered at once. `false`: something that cannot be.
    pub fn consumed(&mut self, peer: usize, channel: u8, count: u32, at: Nanos) -> bool {
        let sane = self.list[peer].grants[usize::from(channel & 7)].repair(count);
        if sane {
            self.reports.insert(peer);
            self.arm(peer, at);
        }
        sane
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

    /// The next credit message and whom it is for. Counts of what was freed may be told if `reports`; the timer of a count of what was
    /// consumed is set to `at`.
    pub fn next_update(&mut self, reports: bool, at: Nanos) -> Option<(Station, Update)> {
        let report = self.reports.first().copied().filter(|_| reports);
        let repair = self.repairs.first().copied();
        let number = report.into_iter().chain(repair).min()?;
        let peer = &mut self.list[number];
        let station = peer.station;
        if report == Some(number) {
            self.reports.remove(&number);
            return Some((
                station,
                Update::Freed(std::array::from_fn(|channel| peer.grants[channel].report())),
            ));
        }
        let channel = peer.repair_due.trailing_zeros() as u8 & 7;
        peer.repair_due &= peer.repair_due.wrapping_sub(1);
        if peer.repair_due == 0 {
            self.repairs.remove(&number);
        }
        let count = peer.credits[usize::from(channel)].consumed();
        self.arm(number, at);
        Some((station, Update::Consumed { channel, count }))
    }
}
