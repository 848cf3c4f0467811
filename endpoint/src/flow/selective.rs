//! What a sender of selective repeat knows of packets that were not acknowledged in order, and which of them it sends again.
//!
//! An answer says how far everything has arrived, how many packets beyond that have, and which of the first ones. A
//! packet is taken for lost when one sent [`SelectiveRepeat::reorder_threshold`] packets after it has arrived and it has
//! not; or when a timeout has struck since it was sent, the packet that was sent again then has arrived, and it has not.

use super::frame::Sack;
use super::sender::SelectiveRepeat;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub(super) struct Repair {
    config: SelectiveRepeat,
    /// Packets that have arrived, by the answer that knew of most: answers overtake one another.
    pub delivered: u64,
    /// Packets to be sent again.
    lost: BTreeSet<u64>,
    /// Of packets that were sent again: the newest packet that had been sent then.
    resent: BTreeMap<u64, u64>,
    /// Packets before this one were sent before the last timeout,
    stale: u64,
    /// after which this one was sent again: when it has arrived, so has what was on the way before it.
    probe: u64,
}

impl Repair {
    pub fn new(config: SelectiveRepeat) -> Self {
        Self { config, delivered: 0, lost: BTreeSet::new(), resent: BTreeMap::new(), stale: 0, probe: 0 }
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
        (self.stale, self.probe) = (highest, oldest);
    }

    /// An answer says that all packets before `acked` have arrived, and `sack`, whose newest packet is the one before
    /// `reach`. Returns how many packets it reveals to be lost.
    pub fn answer(&mut self, acked: u64, reach: u64, sack: &Sack) -> u64 {
        let delivered = acked + u64::from(sack.beyond);
        if delivered < self.delivered {
            return 0;
        }
        self.delivered = delivered;
        let arrived = |packet: &u64| {
            *packet < acked || sack.bits.checked_shr((*packet - acked) as u32).unwrap_or(0) & 1 == 1
        };
        self.lost.retain(|packet| !arrived(packet));
        self.resent.retain(|packet, _| !arrived(packet));
        let stale = if acked > self.probe { self.stale } else { 0 };
        // Nothing sent later than this has arrived long enough after it.
        let judged = reach.saturating_sub(self.config.reorder_threshold.into()).max(stale);
        let mut found = 0;
        for packet in acked..judged.min(acked + u64::from(u128::BITS)) {
            let again = self.resent.get(&packet);
            let after = again.unwrap_or(&packet) + u64::from(self.config.reorder_threshold);
            let overdue = after < reach || (again.is_none() && packet < stale);
            if overdue && !arrived(&packet) && self.lost.insert(packet) {
                found += 1;
            }
        }
        found
    }
}
