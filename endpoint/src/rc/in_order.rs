//! The order of a responder: which packet comes next, what the peer is told (IBTA 9.7.4, 9.9).
//!
//! Strictly in order: what is ahead of the expected PSN is dropped and named once (DEV-64). What is done with packets in
//! order is for the owner to know.

use super::answer::{Nak, Syndrome};
use super::psn::Psn;

/// Where a request packet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Seen before.
    Duplicate,
    /// Ahead of the expected PSN: to be dropped. `true`: this one raised the NAK of the gap.
    Ahead(bool),
    /// The expected one. The owner says what became of it: [`InOrder::taken`], [`InOrder::not_ready`] or
    /// [`InOrder::refuse`].
    Next,
}

/// Where the receiving half of a connection stands, and the answer it owes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct InOrder<const BITS: u32 = 24> {
    expected: Psn<BITS>,
    /// Messages completed, 24 bits (DEV-70).
    msn: u32,
    /// The gap before `expected` has been named; silence until it is filled.
    gap_named: bool,
    ack_due: bool,
    nak_due: Option<Syndrome>,
}

impl<const BITS: u32> InOrder<BITS> {
    /// A connection that expects this packet first.
    pub fn new(expected: Psn<BITS>) -> Self {
        Self { expected, ..Self::default() }
    }

    /// The packet expected next.
    pub fn expected(&self) -> Psn<BITS> {
        self.expected
    }

    /// Messages completed, 24 bits.
    pub fn msn(&self) -> u32 {
        self.msn
    }

    /// Judges a request packet by its number. A gap is named; a duplicate is not answered yet: that is
    /// [`Self::acknowledge`].
    pub fn turn(&mut self, psn: Psn<BITS>) -> Turn {
        match psn.since(self.expected) {
            ..0 => Turn::Duplicate,
            0 => Turn::Next,
            _ => {
                let first = !std::mem::replace(&mut self.gap_named, true);
                if first {
                    self.nak_due = Some(Syndrome::Nak(Nak::Sequence));
                }
                Turn::Ahead(first)
            }
        }
    }

    /// The expected packet was taken; it used up `packets` numbers. `ack`: it is to be acknowledged.
    pub fn taken(&mut self, packets: u64, ack: bool) {
        self.expected = self.expected.plus(packets);
        self.gap_named = false;
        self.nak_due = None;
        self.ack_due |= ack;
    }

    /// This packet was taken, whatever is missing before it: nobody sends that again.
    pub fn follow(&mut self, psn: Psn<BITS>) {
        self.expected = psn.plus(1);
    }

    /// A message is complete.
    pub fn message_done(&mut self) {
        self.msn = (self.msn + 1) & 0xff_ffff;
    }

    /// There is no room for the expected packet: the peer is to wait (code of the RNR timer).
    pub fn not_ready(&mut self, timer: u8) {
        // What follows is ahead of an expected packet the requester knows to be refused.
        self.gap_named = true;
        self.nak_due = Some(Syndrome::Rnr(timer));
    }

    /// The expected packet is refused for good.
    pub fn refuse(&mut self, nak: Nak) {
        // What follows is ahead of it, but nothing is missing: that NAK would be said in place of this one.
        self.gap_named = true;
        self.nak_due = Some(Syndrome::Nak(nak));
    }

    /// What was taken so far is to be acknowledged, once more perhaps.
    pub fn acknowledge(&mut self) {
        self.ack_due = true;
    }

    /// Something else acknowledges what was taken so far.
    pub fn acknowledged(&mut self) {
        self.ack_due = false;
    }

    /// Whether an answer is owed.
    pub fn owes(&self) -> bool {
        self.ack_due || self.nak_due.is_some()
    }

    /// The answer to be sent: its PSN and what it says. Answers that came due since the last call are one (coalesced ACKs); a NAK
    /// says what an ACK before it would have said.
    pub fn answer(&mut self) -> Option<(Psn<BITS>, Syndrome)> {
        let answer = match self.nak_due.take() {
            Some(nak) => (self.expected, nak),
            None if self.ack_due => (self.expected.previous(), Syndrome::ACK_NO_CREDITS),
            None => return None,
        };
        self.ack_due = false;
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Syndrome = Syndrome::Nak(Nak::Sequence);

    #[test]
    fn a_nak_that_waits_becomes_an_ack_when_its_gap_is_filled() {
        let mut order = InOrder::<12>::default();
        order.taken(1, true);
        assert_eq!([2, 3].map(|psn| order.turn(Psn::new(psn))), [Turn::Ahead(true), Turn::Ahead(false)]);
        // The ACK the NAK took the place of was asked for: it still leaves, with the packet that filled the gap.
        order.taken(1, false);
        assert_eq!(order.answer(), Some((Psn::new(1), Syndrome::ACK_NO_CREDITS)));
        // The next gap is named anew.
        assert_eq!(order.turn(Psn::new(3)), Turn::Ahead(true));
        assert_eq!(order.answer(), Some((Psn::new(2), GAP)));
        order.taken(1, false);
        assert_eq!(order.answer(), None, "the NAK has left");
    }

    #[test]
    fn an_answer_says_how_things_stand_when_it_leaves() {
        let mut order = InOrder::<24>::new(Psn::new(0xff_ffff));
        order.taken(1, true);
        order.taken(1, false);
        assert_eq!(order.answer(), Some((Psn::new(0), Syndrome::ACK_NO_CREDITS)));
        assert_eq!(order.turn(Psn::new(0)), Turn::Duplicate);
    }
}
