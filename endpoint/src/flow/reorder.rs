//! What a receiver keeps of packets that arrive in any order, and what its answers say about them.

use super::frame::Sack;
use crate::rc::psn::Psn;
use std::collections::{BTreeSet, VecDeque};

/// Numbers of a word.
const WORD: u64 = u64::BITS as u64;

/// Packets beyond the first one that is missing: which have arrived, and which of those asked for an answer.
#[derive(Clone, Debug)]
pub(super) struct Reorder {
    /// Packets from the first missing one on that may arrive.
    window: u64,
    /// First number of the front word.
    base: u64,
    /// A bit for each packet from `base` on.
    arrived: VecDeque<u64>,
    /// Bits set for packets beyond the first missing one.
    beyond: u64,
    /// After the highest packet that has arrived.
    reach: u64,
    /// Packets that asked while others before them were missing.
    asked: BTreeSet<u64>,
    /// A packet that asked has come again since the last answer.
    repeated: bool,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// It was there before, or there is no room for it.
    Useless,
    /// It is there now, and so are all before this one. `true`: a packet that asked is among those that are complete now.
    Upto(u64, bool),
}

impl Reorder {
    /// Room for `window` packets.
    pub fn new(window: u32) -> Self {
        Self {
            window: window.max(1).into(),
            base: 0,
            arrived: VecDeque::new(),
            beyond: 0,
            reach: 0,
            asked: BTreeSet::new(),
            repeated: false,
        }
    }

    fn word(&self, packet: u64) -> u64 {
        let nth = packet.checked_sub(self.base).map(|ahead| ahead / WORD);
        nth.and_then(|nth| self.arrived.get(nth as usize)).copied().unwrap_or(0)
    }

    fn contains(&self, packet: u64) -> bool {
        self.word(packet) >> (packet % WORD) & 1 == 1
    }

    /// Packet `packet` has come, while all before `expected` were there; `asks`: it wants an answer.
    pub fn place(&mut self, packet: u64, expected: u64, asks: bool) -> Placed {
        if packet < expected || packet >= expected + self.window || self.contains(packet) {
            return Placed::Useless;
        }
        self.reach = self.reach.max(packet + 1);
        if packet > expected {
            self.beyond += 1;
            let nth = ((packet - self.base) / WORD) as usize;
            self.arrived.resize(self.arrived.len().max(nth + 1), 0);
            self.arrived[nth] |= 1 << (packet % WORD);
            if asks {
                self.asked.insert(packet);
            }
            return Placed::Upto(expected, asks);
        }
        let mut upto = expected + 1;
        while self.beyond > 0 && self.contains(upto) {
            self.beyond -= 1;
            upto += 1;
        }
        // Words behind which nothing is missing.
        let past = ((upto - self.base) / WORD) as usize;
        self.arrived.drain(..past.min(self.arrived.len()));
        self.base += past as u64 * WORD;
        let mut owed = asks;
        while self.asked.first().is_some_and(|first| *first < upto) {
            self.asked.pop_first();
            owed = true;
        }
        Placed::Upto(upto, owed)
    }

    /// A packet that asks, and was there before, has come.
    pub fn came_again(&mut self) {
        self.repeated = true;
    }

    /// What an answer says while `expected` is the first packet that is missing.
    pub fn sack(&mut self, expected: u64) -> Sack {
        let bits = (0..3).fold(0u128, |bits, nth| {
            let first = (expected / WORD + nth) * WORD;
            let word = u128::from(self.word(first));
            match first.checked_sub(expected) {
                Some(up) if up < u128::BITS.into() => bits | word << up,
                Some(_) => bits,
                None => word >> (expected - first),
            }
        });
        let end = Psn::new(0).plus(self.reach.max(expected));
        Sack { end, beyond: self.beyond as u32, bits, repeated: std::mem::take(&mut self.repeated) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weir_dataplane::rng::Rng;

    /// Beside a set of numbers, in an order that never lets the window move far ahead.
    #[test]
    fn any_order_is_what_a_set_of_numbers_says() {
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let window = 2 + rng.next_u32() % 400;
            let (mut reorder, mut model, mut expected) = (Reorder::new(window), BTreeSet::new(), 0u64);
            for _ in 0..4000 {
                let before = expected;
                let packet = (expected + u64::from(rng.next_u32() % (window + 9))).saturating_sub(4);
                let fresh =
                    packet >= expected && packet < expected + u64::from(window) && model.insert(packet);
                match reorder.place(packet, expected, false) {
                    Placed::Useless => assert!(!fresh, "{packet} of {expected}"),
                    Placed::Upto(upto, asked) => {
                        assert!(fresh && !asked, "{packet} of {expected}");
                        expected = upto;
                    }
                }
                assert_eq!(expected, (before..).find(|n| !model.contains(n)).unwrap_or(0));
                let sack = reorder.sack(expected);
                let bits =
                    (0..128).fold(0u128, |bits, n| bits | u128::from(model.contains(&(expected + n))) << n);
                assert_eq!(sack.bits, bits, "seed {seed}, {expected}");
                let beyond = model.range(expected..).count();
                let end = model.last().map_or(0, |last| last + 1).max(expected);
                assert_eq!((sack.beyond, sack.end), (beyond as u32, Psn::new(0).plus(end)));
            }
            assert!(expected > 100, "{expected}");
            assert!(reorder.arrived.len() <= window as usize / 64 + 2, "memory is that of the window");
        }
    }

    /// A packet that asked before its turn is answered at once, and again when all before it are there.
    #[test]
    fn who_asked_ahead_hears_when_nothing_is_missing() {
        let mut reorder = Reorder::new(64);
        assert_eq!(reorder.place(2, 0, true), Placed::Upto(0, true));
        assert_eq!(reorder.place(3, 0, false), Placed::Upto(0, false));
        assert_eq!(reorder.place(1, 0, false), Placed::Upto(0, false));
        assert_eq!(reorder.place(0, 0, false), Placed::Upto(4, true));
        assert_eq!(reorder.place(4, 4, false), Placed::Upto(5, false));
        assert_eq!(reorder.place(3, 5, true), Placed::Useless);
        assert_eq!(reorder.place(69, 5, true), Placed::Useless, "beyond the window");
        assert_eq!(reorder.place(68, 5, false), Placed::Upto(5, false));
    }
}
