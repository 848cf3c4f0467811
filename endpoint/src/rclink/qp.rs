//! The two halves of a queue pair: go-back-N out, in-order in (SW-130, SW-132; DEV-64, DEV-71, DEV-72).
//!
//! One message is one packet. Packets are counted in 64 bits from the first one; the wire sees the low
//! 12 bits.

use super::cc_window::CcWindow;
use super::rh::{Psn, Syndrome};
use std::collections::VecDeque;
use weir_dataplane::types::Nanos;

/// How a queue pair sends again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reliability {
    /// Packets in flight, 1 to 2048; 512 in the published hardware.
    pub window: u16,
    /// An acknowledgement is forced at least every so many packets; at least 1.
    pub ack_every: u16,
    /// From a packet that forces an acknowledgement to sending again, ns.
    pub ack_timeout: Nanos,
    /// Times that may happen without progress before the queue pair fails.
    pub retries: u8,
}

impl Default for Reliability {
    fn default() -> Self {
        Self { window: 512, ack_every: 16, ack_timeout: 100_000, retries: 7 }
    }
}

/// Nothing came through in spite of all retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GaveUp;

/// The sending half.
#[derive(Debug)]
pub(super) struct Sender {
    reliability: Reliability,
    depth: usize,
    /// Messages from `una` on.
    queue: VecDeque<Vec<u8>>,
    /// Oldest packet not acknowledged.
    una: u64,
    /// Next packet to send.
    next: u64,
    /// After the newest packet ever sent.
    sent_end: u64,
    /// After the newest packet that forced an acknowledgement since the last step back.
    asked_end: u64,
    deadline: Option<Nanos>,
    retries_left: u8,
    pub(super) cc: CcWindow,
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) psn: Psn,
    pub(super) force_ack: bool,
    pub(super) payload: &'a [u8],
}

impl Sender {
    pub(super) fn new(reliability: Reliability, depth: usize, cc: CcWindow) -> Self {
        Self {
            reliability,
            depth,
            queue: VecDeque::with_capacity(depth),
            una: 0,
            next: 0,
            sent_end: 0,
            asked_end: 0,
            deadline: None,
            retries_left: reliability.retries,
            cc,
        }
    }

    /// Queues a message, or hands it back when the queue is full.
    pub(super) fn post(&mut self, payload: Vec<u8>) -> Result<(), Vec<u8>> {
        if self.queue.len() >= self.depth {
            return Err(payload);
        }
        self.queue.push_back(payload);
        Ok(())
    }

    fn tail(&self) -> u64 {
        self.una + self.queue.len() as u64
    }

    fn window_end(&self) -> u64 {
        self.una + u64::from(self.reliability.window)
    }

    /// The next packet, if one waits and the window is open.
    pub(super) fn segment(&self) -> Option<Segment<'_>> {
        let next = self.next;
        if next >= self.window_end() {
            return None;
        }
        let payload = self.queue.get((next - self.una) as usize)?;
        let after = next + 1;
        let force_ack = after == self.tail()
            || after == self.window_end()
            || after.is_multiple_of(u64::from(self.reliability.ack_every.max(1)));
        Some(Segment { psn: Psn::new(next), force_ack, payload })
    }

    /// The packet left. `true`: it had been sent before.
    pub(super) fn sent(&mut self, force_ack: bool, now: Nanos) -> bool {
        let again = self.next < self.sent_end;
        self.next += 1;
        self.sent_end = self.sent_end.max(self.next);
        if force_ack {
            self.asked_end = self.next;
            self.deadline = self.deadline.or(Some(now.saturating_add(self.reliability.ack_timeout)));
        }
        again
    }

    /// The packet left and is forgotten: without a reliability header there is nothing to wait for.
    pub(super) fn sent_for_good(&mut self) {
        self.queue.pop_front();
        self.una += 1;
        self.next = self.una;
        self.sent_end = self.una;
    }

    /// An answer arrived. Returns how many messages it acknowledged.
    pub(super) fn answer(&mut self, psn: Psn, syndrome: Syndrome, now: Nanos) -> Result<u64, GaveUp> {
        let Ok(distance) = u64::try_from(psn.since(Psn::new(self.una))) else {
            return Ok(0); // An old answer: all it says is known.
        };
        let at = self.una + distance;
        if at >= self.sent_end {
            return Ok(0); // About a packet never sent.
        }
        match syndrome {
            Syndrome::Ack => Ok(self.advance(at + 1, now)),
            Syndrome::NakSequence => {
                let acknowledged = self.advance(at, now);
                self.go_back()?;
                Ok(acknowledged)
            }
        }
    }

    /// All before `una` is acknowledged.
    fn advance(&mut self, una: u64, now: Nanos) -> u64 {
        let count = una - self.una;
        if count > 0 {
            self.queue.drain(..(count as usize).min(self.queue.len()));
            self.una = una;
            self.next = self.next.max(una);
            self.retries_left = self.reliability.retries;
            let timeout = now.saturating_add(self.reliability.ack_timeout);
            self.deadline = (una < self.asked_end).then_some(timeout);
        }
        count
    }

    fn go_back(&mut self) -> Result<(), GaveUp> {
        if self.next == self.una {
            return Ok(()); // On its way back already.
        }
        self.retries_left = self.retries_left.checked_sub(1).ok_or(GaveUp)?;
        self.next = self.una;
        self.asked_end = self.una;
        self.deadline = None;
        Ok(())
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    /// `Ok(true)`: an acknowledgement was overdue and sending starts again.
    pub(super) fn handle_timeout(&mut self, now: Nanos) -> Result<bool, GaveUp> {
        if self.deadline.is_none_or(|at| at > now) {
            return Ok(false);
        }
        self.go_back().map(|()| true)
    }

    /// Forgets everything.
    pub(super) fn abandon(&mut self) {
        self.queue.clear();
        self.next = self.una;
        self.deadline = None;
    }
}

/// What to do with a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The one that was expected.
    Next,
    /// Seen before.
    Duplicate,
    /// Something before it is missing.
    Gap,
}

/// An answer to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) psn: Psn,
    pub(super) syndrome: Syndrome,
    pub(super) echo: Option<u16>,
}

/// The receiving half.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    expected: Psn,
    /// The gap in front of us has been named (one NAK per gap, DEV-64).
    named: bool,
    pub(super) answer: Option<Answer>,
}

impl Receiver {
    pub(super) fn judge(&self, psn: Psn) -> Verdict {
        match psn.since(self.expected) {
            0 => Verdict::Next,
            1.. => Verdict::Gap,
            _ => Verdict::Duplicate,
        }
    }

    /// The expected packet was taken.
    pub(super) fn taken(&mut self, force_ack: bool, echo: Option<u16>) {
        self.expected = self.expected.plus(1);
        self.named = false;
        // A NAK that still waits to leave is about a gap that is filled now; what it would have acknowledged, an ACK
        // acknowledges.
        if force_ack || self.answer.is_some_and(|answer| answer.syndrome == Syndrome::NakSequence) {
            self.acknowledge(echo);
        }
    }

    /// This one was taken, whatever is missing before it.
    pub(super) fn follow(&mut self, psn: Psn) {
        self.expected = psn.plus(1);
    }

    /// Says again how far it got.
    pub(super) fn acknowledge(&mut self, echo: Option<u16>) {
        // A NAK that still waits to leave is about the same gap and says more.
        if self.answer.is_none_or(|answer| answer.syndrome == Syndrome::Ack || !self.named) {
            let psn = self.expected.plus(0xfff);
            self.answer = Some(Answer { psn, syndrome: Syndrome::Ack, echo });
        }
    }

    /// Something is missing. `true`: a NAK will say so.
    pub(super) fn missing(&mut self) -> bool {
        if self.named {
            return false;
        }
        self.named = true;
        self.answer = Some(Answer { psn: self.expected, syndrome: Syndrome::NakSequence, echo: None });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nak_that_waits_becomes_an_ack_when_its_gap_is_filled() {
        let mut receiver = Receiver::default();
        receiver.taken(true, Some(7));
        assert_eq!(receiver.judge(Psn::new(2)), Verdict::Gap);
        assert!(receiver.missing() && !receiver.missing());
        assert_eq!(receiver.answer.unwrap().syndrome, Syndrome::NakSequence);
        // The ACK the NAK took the place of was asked for: it still leaves, with the packet that filled the gap.
        receiver.taken(false, None);
        let (psn, syndrome) = (Psn::new(1), Syndrome::Ack);
        assert_eq!(receiver.answer, Some(Answer { psn, syndrome, echo: None }));
        // The next gap is named anew.
        receiver.answer = None;
        assert!(receiver.missing());
        receiver.answer = None;
        receiver.taken(false, None);
        assert_eq!(receiver.answer, None, "the NAK has left");
    }
}
