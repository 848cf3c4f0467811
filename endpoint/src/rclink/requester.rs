//! The sending half of a queue pair: messages, go-back-N over their numbers, and the rate (SW-130, SW-132; DEV-71, DEV-72).
//!
//! One message is one packet.

use super::cc_window::CcWindow;
use super::rh::Psn;
use crate::rc::answer::Syndrome;
use crate::rc::go_back_n::{Failure, GoBackN, Limits, RNR_RETRY_FOREVER};
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
    /// Times that may happen without progress before the queue pair fails; `None`: it never does.
    pub retries: Option<u8>,
}

impl Default for Reliability {
    fn default() -> Self {
        Self { window: 512, ack_every: 16, ack_timeout: 100_000, retries: Some(7) }
    }
}

impl From<Reliability> for Limits {
    fn from(reliability: Reliability) -> Self {
        Self {
            window: reliability.window.into(),
            ack_every: reliability.ack_every.into(),
            retry_cnt: reliability.retries,
            rnr_retry: RNR_RETRY_FOREVER,
            ack_timeout: reliability.ack_timeout,
            doublings: 0,
        }
    }
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Requester {
    depth: usize,
    /// Messages from the oldest one that is not acknowledged on.
    queue: VecDeque<Vec<u8>>,
    flight: GoBackN<12>,
    pub(super) cc: CcWindow,
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    /// From the first message of the queue pair.
    pub(super) number: u64,
    pub(super) psn: Psn,
    pub(super) force_ack: bool,
    pub(super) payload: &'a [u8],
}

impl Requester {
    pub(super) fn new(reliability: Reliability, depth: usize, cc: CcWindow) -> Self {
        let flight = GoBackN::new(reliability.into(), Psn::default());
        Self { depth, queue: VecDeque::with_capacity(depth), flight, cc }
    }

    /// One more message can be queued.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < self.depth
    }

    /// Queues a message, or hands it back when the queue is full.
    pub(super) fn post(&mut self, payload: Vec<u8>) -> Result<(), Vec<u8>> {
        if !self.has_room() {
            return Err(payload);
        }
        self.queue.push_back(payload);
        Ok(())
    }

    fn tail(&self) -> u64 {
        self.flight.una() + self.queue.len() as u64
    }

    /// Number of the oldest message that is not acknowledged.
    pub(super) fn oldest(&self) -> u64 {
        self.flight.una()
    }

    /// All that its window admits has left: acknowledgements alone make room for more.
    pub(super) fn awaits_answers(&self) -> bool {
        self.flight.awaits_answers(self.tail())
    }

    /// The next packet, if one waits and the window is open.
    pub(super) fn segment(&self) -> Option<Segment<'_>> {
        let (next, tail) = (self.flight.next(), self.tail());
        if !self.flight.is_open(tail) {
            return None;
        }
        let payload = self.queue.get((next - self.flight.una()) as usize)?;
        // The last one a window admits asks, too: nothing else would open it again.
        let force_ack = next + 1 == tail || self.flight.ends_window() || self.flight.asks();
        Some(Segment { number: next, psn: self.flight.psn(), force_ack, payload })
    }

    /// The packet left. `true`: it had been sent before.
    pub(super) fn sent(&mut self, force_ack: bool, now: Nanos) -> bool {
        self.flight.sent(force_ack, now)
    }

    /// The packet left and is forgotten: without a reliability header there is nothing to wait for.
    pub(super) fn sent_for_good(&mut self) {
        self.queue.pop_front();
        self.flight.sent_for_good();
    }

    /// An answer arrived. Returns how many messages it acknowledged.
    pub(super) fn answer(&mut self, psn: Psn, syndrome: Syndrome, now: Nanos) -> Result<u64, Failure> {
        let messages = self.flight.answer(psn, syndrome, now)?;
        self.queue.drain(..self.queue.len().min(messages as usize));
        Ok(messages)
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.flight.ack_deadline()
    }

    /// `Ok(true)`: an acknowledgement was overdue and sending starts again.
    pub(super) fn handle_timeout(&mut self, now: Nanos) -> Result<bool, Failure> {
        self.flight.handle_timeout(now)
    }

    /// Forgets everything.
    pub(super) fn abandon(&mut self) {
        self.queue.clear();
        self.flight.abandon(self.flight.una());
    }
}
