//! What a sender of selective repeat knows of packets that were not acknowledged in order, and which of them it sends again.
//!
//! An answer says how far everything has arrived, how many packets beyond that have, and which of the first ones. A
//! packet is taken for lost when one sent [`SelectiveRepeat::reorder_threshold`] packets after it has arrived and it has
//! not; or when a timeout has struck since it was sent, the packet that was sent again then has arrived, and it has not.
//!
//! Behind the last packet nothing is sent that could tell. If nobody says for two round trips (more where they vary) that it has
//! arrived it goes again (the tail loss probe of RFC 8985); once it has, and the time that so many packets would take is over,
//! another one asks, and what is missing then is lost. Answers say whether a packet has come twice: if that one has
//! not, it was lost, and congestion control is told so once (RFC 8985, 7.4).

use super::frame::Sack;
use super::sender::SelectiveRepeat;
use std::collections::{BTreeMap, BTreeSet};
use weir_dataplane::types::Nanos;

/// A packet that is sent again to learn what has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// The oldest one that is not acknowledged, after a timeout.
    Oldest(u64),
    /// The newest of all, when the tail was silent for too long; there is no answer to it before this time, ns.
    Newest(u64, Nanos),
}

#[derive(Clone, Debug)]
pub(super) struct Repair {
    config: SelectiveRepeat,
    /// Packets that have arrived, by the answer that knew of most: answers overtake one another.
    pub delivered: u64,
    /// Packets to be sent again.
    lost: BTreeSet<u64>,
    /// Of packets that were sent again: the newest packet that had been sent then.
    resent: BTreeMap<u64, u64>,
    /// Packets before this one were sent before the last timeout or probe of the tail: when the packet that was sent again then has
    /// arrived, so has what was on the way before it.
    stale: u64,
    /// That packet, until it has arrived.
    probe: Option<Probe>,
    /// The last packet that probed the tail while nobody knew whether it had arrived, and whether it has by now; `None`: it is known
    /// whether it was lost.
    doubt: Option<(u64, bool)>,
    /// Smoothed round trip and its mean deviation (RFC 6298), ns.
    round_trip: Nanos,
    deviation: Nanos,
    /// After the newest packet, when that was known to have arrived, and since when it was.
    newest: Option<(u64, Nanos)>,
    /// A packet that has asked for an answer, and when; none that was sent again.
    timed: Option<(u64, Nanos)>,
}

impl Repair {
    pub fn new(config: SelectiveRepeat) -> Self {
        Self {
            config,
            delivered: 0,
            lost: BTreeSet::new(),
            resent: BTreeMap::new(),
            stale: 0,
            probe: None,
            doubt: None,
            round_trip: config.initial_round_trip,
            deviation: config.initial_round_trip / 2,
            newest: None,
            timed: None,
        }
    }

    /// Packets from the first one not acknowledged on that may be sent.
    pub fn window(&self) -> u64 {
        self.config.window.into()
    }

    /// The packet to be sent again before all others.
    pub fn first_lost(&self) -> Option<u64> {
        self.lost.first().copied()
    }

    /// Packets to be sent again.
    pub fn lost(&self) -> u64 {
        self.lost.len() as u64
    }

    /// It is sent again now, after `highest` packets.
    pub fn sent_again(&mut self, packet: u64, highest: u64) {
        self.lost.remove(&packet);
        self.resent.insert(packet, highest.saturating_sub(1));
    }

    /// Nobody has answered for too long: the oldest packet goes again and asks. What is missing once it has arrived is lost, of
    /// all that has been sent before.
    pub fn timeout(&mut self, oldest: u64, highest: u64) {
        self.resent.clear();
        self.lost.insert(oldest);
        (self.stale, self.probe) = (highest, Some(Probe::Oldest(oldest)));
        (self.timed, self.doubt) = (None, None);
    }

    /// When the tail of `highest` packets is probed, the last one of which was sent at `sent`, ns; `None`: something is sent again
    /// anyway, or a probe is on its way.
    pub fn tail_probe(&self, highest: u64, sent: Nanos) -> Option<Nanos> {
        let quiet = self.lost.is_empty() && self.probe.is_none();
        let answered = sent + (2 * self.round_trip).max(self.round_trip + 4 * self.deviation);
        let all_arrived = |since: Nanos| since.saturating_add(self.config.reorder_time);
        quiet.then(|| match self.newest.filter(|(upto, _)| *upto == highest) {
            None => answered,
            Some((_, known)) if known >= sent => all_arrived(known),
            // Something was sent again since.
            Some(_) => all_arrived(answered),
        })
    }

    /// That time has come: the last of `highest` packets goes again and asks, at `now` at the earliest.
    pub fn probe_tail(&mut self, highest: u64, now: Nanos) {
        let newest = highest.saturating_sub(1);
        // A short packet is faster than the full one whose round trip is known.
        let answered = now.saturating_add(self.config.initial_round_trip / 2);
        self.lost.insert(newest);
        self.probe = Some(Probe::Newest(newest, answered));
        self.timed = None;
        self.stale = 0;
        if self.newest.is_some_and(|(upto, _)| upto == highest) {
            self.resent.clear();
            self.stale = highest;
        } else {
            self.doubt = Some((newest, false));
        }
    }

    /// A packet is sent for the first time at `now` and asks for an answer.
    pub fn asks(&mut self, packet: u64, now: Nanos) {
        self.timed.get_or_insert((packet, now));
    }

    /// An answer that comes at `now` says that all packets before `acked` have arrived, and `sack`, whose newest packet is the one
    /// before `reach`, of `highest` that were sent. Returns how many packets it reveals to be lost.
    pub fn answer(&mut self, acked: u64, (reach, highest): (u64, u64), sack: &Sack, now: Nanos) -> u64 {
        let delivered = acked + u64::from(sack.beyond);
        if delivered < self.delivered {
            return 0;
        }
        self.delivered = delivered;
        let arrived = |packet: &u64| {
            *packet < acked || sack.bits.checked_shr((*packet - acked) as u32).unwrap_or(0) & 1 == 1
        };
        if let Some((_, asked)) = self.timed.take_if(|(packet, _)| arrived(packet)) {
            let sample = now.saturating_sub(asked);
            self.deviation = (3 * self.deviation + self.round_trip.abs_diff(sample)) / 4;
            self.round_trip = (7 * self.round_trip + sample) / 8;
        }
        if reach == highest && self.newest.is_none_or(|(upto, _)| upto != highest) {
            self.newest = Some((highest, now));
        }
        self.lost.retain(|packet| !arrived(packet));
        self.resent.retain(|packet, _| !arrived(packet));
        self.probe = self.probe.filter(|probe| match probe {
            Probe::Oldest(packet) => acked <= *packet,
            Probe::Newest(packet, answered) => reach <= *packet || now < *answered,
        });
        let stale = if self.probe.is_none() { self.stale } else { 0 };
        // Nothing sent later than this has arrived long enough after it.
        let judged = reach.saturating_sub(self.config.reorder_threshold.into()).max(stale);
        let mut found = 0;
        for packet in acked..judged.min(acked + u64::from(u128::BITS)) {
            let again = self.resent.get(&packet);
            let after = again.unwrap_or(&packet) + u64::from(self.config.reorder_threshold);
            let overdue = after < reach || (again.is_none() && packet < stale);
            if overdue && !arrived(&packet) && self.lost.insert(packet) {
                // What arrives now may be the second one.
                self.timed = self.timed.filter(|(timed, _)| *timed != packet);
                found += 1;
            }
        }
        // What was found to be lost is told anyway.
        if let Some((packet, known)) = self.doubt.take().filter(|_| found == 0) {
            let is_there = known || arrived(&packet);
            match known && reach > packet + 1 {
                _ if is_there && sack.repeated => {}
                true => found = 1,
                false => self.doubt = Some((packet, is_there)),
            }
        }
        found
    }
}
