//! The packets of a requester: sent, asked about, acknowledged (IBTA 9.7).
//!
//! Packets are counted from the first one of the connection in 64 bits and only the wire sees their low bits plus the start
//! PSN, so nothing here can confuse a wrap with a step back.

use super::psn::Psn;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::Nanos;

/// Where the sending half of a connection stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flight<const BITS: u32 = 24> {
    start: Psn<BITS>,
    /// Oldest packet not acknowledged.
    una: u64,
    /// Next packet to send; falls back to `una` on loss.
    next: u64,
    /// After the newest packet ever sent.
    sent_end: u64,
    /// After the newest packet, since the last step back, that asked for an answer.
    asked_end: u64,
    deadline: Nanos,
}

impl<const BITS: u32> Flight<BITS> {
    /// A connection that has sent nothing; its first packet has PSN `start`.
    pub fn new(start: Psn<BITS>) -> Self {
        Self { start, una: 0, next: 0, sent_end: 0, asked_end: 0, deadline: NEVER }
    }

    /// The PSN of the first packet, for a connection that is only now set up.
    pub fn start_at(&mut self, psn: Psn<BITS>) {
        self.start = psn;
    }

    /// Number of the oldest packet that is not acknowledged.
    #[inline]
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Number of the packet that is sent next.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Number after the newest packet ever sent.
    #[inline]
    pub fn sent_end(&self) -> u64 {
        self.sent_end
    }

    /// When an answer is overdue; [`NEVER`]: none is asked for.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// An answer to a packet that is not acknowledged is on its way, or lost.
    #[inline]
    pub fn has_asked(&self) -> bool {
        self.asked_end > self.una
    }

    /// The PSN of packet `number`.
    #[inline]
    pub fn psn(&self, number: u64) -> Psn<BITS> {
        self.start.plus(number)
    }

    /// The packet with this PSN that is nearest to the oldest one not acknowledged; `None`: there was none yet.
    #[inline]
    pub fn number(&self, psn: Psn<BITS>) -> Option<u64> {
        self.una.checked_add_signed(psn.since(self.psn(self.una)).into())
    }

    /// Whether the packet with this PSN was sent, however long ago: else no answer can be about it.
    pub fn has_sent(&self, psn: Psn<BITS>) -> bool {
        self.number(psn).is_none_or(|number| number < self.sent_end)
    }

    /// The next packet has been sent before.
    #[inline]
    pub fn again(&self) -> bool {
        self.next < self.sent_end
    }

    /// The next packet left. `true`: it had been sent before.
    #[inline]
    pub fn sent(&mut self) -> bool {
        let again = self.again();
        self.next += 1;
        self.sent_end = self.sent_end.max(self.next);
        again
    }

    /// The packet `number` that left asks for an answer, which is overdue at that time.
    #[inline]
    pub fn asks(&mut self, number: u64, overdue: Nanos) {
        self.asked_end = self.asked_end.max(number + 1);
        // Only a packet that asks starts the clock, else a slow flow would time out before it has asked; and only the
        // oldest one, else a lost NAK would go unnoticed while packets flow.
        if self.deadline == NEVER {
            self.deadline = overdue;
        }
    }

    /// The next packet left, and nobody will say whether it has arrived.
    pub fn sent_for_good(&mut self) {
        self.sent();
        self.una = self.next;
    }

    /// All packets before `una` are acknowledged (cumulative, DEV-71). If more have asked, their answer is overdue at that
    /// time. Returns how many are acknowledged by it.
    #[inline]
    pub fn advance(&mut self, una: u64, overdue: Nanos) -> u64 {
        let count = una.saturating_sub(self.una);
        if count > 0 {
            self.una = una;
            self.next = self.next.max(una);
            self.deadline = if self.has_asked() { overdue } else { NEVER };
        }
        count
    }

    /// Sends again from the oldest packet not acknowledged.
    pub fn step_back(&mut self) {
        self.next = self.una;
        self.forget_asked();
        self.deadline = NEVER;
    }

    /// No answer comes to what was asked.
    pub fn forget_asked(&mut self) {
        self.asked_end = self.una;
    }

    /// No answer is waited for, until a packet asks again.
    pub fn stop_clock(&mut self) {
        self.deadline = NEVER;
    }

    /// Nothing more is sent of the `tail` packets there are.
    pub fn abandon(&mut self, tail: u64) {
        self.next = tail;
        self.stop_clock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_on_both_sides_of_the_oldest_and_across_the_wrap() {
        let mut flight = Flight::<12>::new(Psn::new(0xffe));
        assert_eq!(flight.number(Psn::new(0xffd)), None, "before the first");
        assert_eq!(flight.number(Psn::new(3)), Some(5));
        (0..5_000).for_each(|_| flight.sent_for_good());
        for ahead in -2048..2048i64 {
            let number = 5_000u64.saturating_add_signed(ahead);
            assert_eq!(flight.number(flight.psn(number)), Some(number));
            assert_eq!(flight.has_sent(flight.psn(number)), ahead < 0, "{ahead}");
        }
    }

    #[test]
    fn the_clock_runs_for_the_oldest_packet_that_asked() {
        let mut flight = Flight::<24>::new(Psn::new(7));
        (0..3).for_each(|_| assert!(!flight.sent()));
        assert_eq!(flight.deadline(), NEVER);
        flight.asks(1, 100);
        flight.asks(2, 200);
        assert_eq!((flight.deadline(), flight.has_asked()), (100, true));
        assert_eq!(flight.advance(2, 300), 2);
        assert_eq!((flight.deadline(), flight.has_asked()), (300, true));
        flight.step_back();
        assert_eq!((flight.next(), flight.deadline(), flight.has_asked()), (2, NEVER, false));
        assert!(flight.sent(), "sent again");
        flight.asks(2, 400);
        assert_eq!(flight.advance(3, 500), 1);
        assert_eq!((flight.deadline(), flight.advance(3, 600)), (NEVER, 0));
    }
}
