//! The window of a requester: what is sent, asked for, acknowledged, and sent again (IBTA 9.7).
//!
//! Packets are counted from the first one of the connection in 64 bits and only the wire sees their
//! low 24 bits plus the start PSN, so nothing here can confuse a wrap with a step back. What the packets are is for
//! the owner to know.

use super::psn::Psn;
use super::verbs::Status;
use super::wire::{Nak, Syndrome, rnr_wait};
use weir_dataplane::types::Nanos;

/// A responder that is asked for nothing stays silent, so a long message asks on its way, like
/// Linux rxe, at least this often.
const PACKETS_PER_ACK: u64 = 64;
/// `rnr_retry` that never gives up (IBTA 9.7.5.2.8).
pub const RNR_RETRY_FOREVER: u8 = 7;

/// Largest of [`Limits::doublings`].
const MOST_DOUBLINGS: u8 = 16;

/// How much is sent ahead and how often it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Packets sent and not acknowledged; 1 to 2^22.
    pub window: u32,
    /// Times a packet is sent again without progress.
    pub retry_cnt: u8,
    /// The same for a receiver that is not ready; [`RNR_RETRY_FOREVER`]: without end.
    pub rnr_retry: u8,
    /// Silence after a packet that asked for an answer, or after the last progress, before sending
    /// starts again, in ns.
    pub ack_timeout: Nanos,
    /// Times that silence doubles while there is no progress. Above 0, one packet is outstanding after silence or where the
    /// receiver was not ready, and one more for each that is acknowledged; and a receiver that is not ready again is given twice
    /// as long each time, up to `ack_timeout`, whatever it asks for. An adapter does none of this (IBTA 9.7.6.1.3): 0.
    pub doublings: u8,
}

/// Where the sending half of a connection stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GoBackN {
    limits: Limits,
    ack_every: u64,
    start: Psn,
    /// Oldest packet not acknowledged.
    una: u64,
    /// Next packet to send; falls back to `una` on loss.
    next: u64,
    /// After the newest packet ever sent.
    sent_end: u64,
    /// After the newest packet, since the last step back, that asked for an answer.
    asked_end: u64,
    retries_left: u8,
    rnr_retries_left: u8,
    /// Timeouts in a row, up to [`Limits::doublings`].
    doubled: u8,
    /// Times in a row that the receiver was not ready, up to [`MOST_DOUBLINGS`]; 0 without [`Limits::doublings`].
    not_ready: u8,
    /// Packets outstanding at most; the window, but after silence.
    allowed: u64,
    ack_deadline: Option<Nanos>,
    rnr_until: Nanos,
}

impl GoBackN {
    /// A connection that has sent nothing; its first packet has PSN `start`.
    pub fn new(limits: Limits, start: Psn) -> Self {
        let window = limits.window.clamp(1, 1 << 22);
        let doublings = limits.doublings.min(MOST_DOUBLINGS);
        Self {
            limits: Limits { window, doublings, ..limits },
            ack_every: u64::from(window / 2).clamp(1, PACKETS_PER_ACK),
            start,
            una: 0,
            next: 0,
            sent_end: 0,
            asked_end: 0,
            retries_left: limits.retry_cnt,
            rnr_retries_left: limits.rnr_retry,
            doubled: 0,
            not_ready: 0,
            allowed: u64::from(window),
            ack_deadline: None,
            rnr_until: 0,
        }
    }

    /// The PSN of the first packet, for a connection that is only now set up.
    pub fn start_at(&mut self, psn: Psn) {
        self.start = psn;
    }

    /// Number of the oldest packet that is not acknowledged.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Number of the packet that is sent next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The next packet has been sent before.
    pub fn again(&self) -> bool {
        self.next < self.sent_end
    }

    /// Of the next packet.
    pub fn psn(&self) -> Psn {
        self.start.plus(self.next)
    }

    /// Whether the next packet may be sent, of `tail` there are so far, once [`Self::rnr_until`] has passed.
    pub fn is_open(&self, tail: u64) -> bool {
        self.next < tail.min(self.una + self.allowed)
    }

    /// Whether the packet with this PSN was sent, however long ago: else no answer can be about it.
    pub fn has_sent(&self, psn: Psn) -> bool {
        self.number(psn).is_none_or(|number| number < self.sent_end)
    }

    /// The packet with this PSN; `None`: it is acknowledged.
    fn number(&self, psn: Psn) -> Option<u64> {
        let distance = psn.since(self.start.plus(self.una));
        u64::try_from(distance).ok().map(|distance| self.una + distance)
    }

    /// End of the wait the peer asked for.
    pub fn rnr_until(&self) -> Nanos {
        self.rnr_until
    }

    /// Whether the next packet should ask for an answer even if more follow.
    pub fn asks(&self) -> bool {
        let next = self.next + 1;
        let is_short = self.allowed < u64::from(self.limits.window);
        next.is_multiple_of(self.ack_every) || (is_short && next == self.una + self.allowed)
    }

    /// When an acknowledgement is overdue.
    pub fn ack_deadline(&self) -> Option<Nanos> {
        self.ack_deadline
    }

    /// When an answer to what is sent at `now` is overdue.
    fn overdue(&self, now: Nanos) -> Nanos {
        now.saturating_add(self.limits.ack_timeout.saturating_mul(1 << self.doubled))
    }

    /// The next packet left. `true`: it had been sent before.
    pub fn sent(&mut self, ack_req: bool, now: Nanos) -> bool {
        let again = self.again();
        self.next += 1;
        self.sent_end = self.sent_end.max(self.next);
        // Only a packet that asks starts the clock, else a slow flow would time out before it has
        // asked; and only the oldest one, else a lost NAK would go unnoticed while packets flow.
        if ack_req {
            self.asked_end = self.next;
            self.ack_deadline = self.ack_deadline.or(Some(self.overdue(now)));
        }
        again
    }

    /// An acknowledge packet arrived. Error: the oldest packet failed with this status.
    pub fn answer(&mut self, psn: Psn, syndrome: Syndrome, now: Nanos) -> Result<(), Status> {
        let Some(at) = self.number(psn) else {
            return Ok(()); // An old answer: all it says is known.
        };
        if at >= self.sent_end {
            return Ok(()); // About a packet never sent.
        }
        match syndrome {
            Syndrome::Ack(_) => self.advance(at + 1, now),
            Syndrome::Nak(nak) => {
                self.advance(at, now);
                match nak {
                    Nak::Sequence => return self.go_back(),
                    Nak::InvalidRequest => return Err(Status::RemoteInvalidRequest),
                    Nak::RemoteAccess => return Err(Status::RemoteAccess),
                    Nak::RemoteOperational => return Err(Status::RemoteOperational),
                }
            }
            Syndrome::Rnr(timer) => {
                self.advance(at, now);
                return self.wait_for_receiver(timer, now);
            }
            Syndrome::Reserved(_) => {}
        }
        Ok(())
    }

    /// All packets before `una` are acknowledged (cumulative, DEV-71).
    fn advance(&mut self, una: u64, now: Nanos) {
        if una == self.una {
            return;
        }
        self.allowed = (self.allowed + una - self.una).min(u64::from(self.limits.window));
        self.una = una;
        self.next = self.next.max(una);
        self.begin_retries_anew();
        self.rnr_retries_left = self.limits.rnr_retry;
        self.doubled = 0;
        self.not_ready = 0;
        self.ack_deadline = (self.una < self.asked_end).then_some(self.overdue(now));
    }

    /// Sends again from the oldest packet not acknowledged, if retries are left.
    fn go_back(&mut self) -> Result<(), Status> {
        if self.next == self.una {
            return Ok(()); // On its way back already.
        }
        self.retries_left = self.retries_left.checked_sub(1).ok_or(Status::RetryExceeded)?;
        self.step_back();
        Ok(())
    }

    fn step_back(&mut self) {
        self.next = self.una;
        self.asked_end = self.una;
        self.ack_deadline = None;
    }

    fn wait_for_receiver(&mut self, timer: u8, now: Nanos) -> Result<(), Status> {
        if self.limits.rnr_retry != RNR_RETRY_FOREVER {
            self.rnr_retries_left = self.rnr_retries_left.checked_sub(1).ok_or(Status::RnrRetryExceeded)?;
        }
        self.step_back();
        let asked = rnr_wait(timer);
        let most = asked.max(self.limits.ack_timeout);
        self.rnr_until = now.saturating_add((asked << self.not_ready).min(most));
        if self.limits.doublings > 0 {
            self.not_ready = (self.not_ready + 1).min(MOST_DOUBLINGS);
        }
        self.allow(1);
        Ok(())
    }

    /// As many retries as there were in the beginning.
    pub fn begin_retries_anew(&mut self) {
        self.retries_left = self.limits.retry_cnt;
    }

    /// `Ok(true)`: an acknowledgement was overdue and sending starts again.
    pub fn handle_timeout(&mut self, now: Nanos) -> Result<bool, Status> {
        if self.ack_deadline.is_none_or(|at| at > now) {
            return Ok(false);
        }
        self.go_back()?;
        // Who could not keep up with all that was outstanding is not helped by the same again and again.
        self.doubled = (self.doubled + 1).min(self.limits.doublings);
        self.allow(1);
        Ok(true)
    }

    /// So much is outstanding at most, for a while.
    fn allow(&mut self, packets: u64) {
        if self.limits.doublings > 0 {
            self.allowed = packets.clamp(1, self.allowed);
        }
    }

    /// It does not fail if it has to go back so often without progress.
    pub fn survives(&self, times: u64) -> bool {
        let forever = self.limits.rnr_retry == RNR_RETRY_FOREVER;
        let left = if forever { self.retries_left } else { self.retries_left.min(self.rnr_retries_left) };
        u64::from(left) >= times
    }

    /// Nothing more is sent of the `tail` packets there are, after a failure.
    pub fn abandon(&mut self, tail: u64) {
        self.ack_deadline = None;
        self.next = tail;
    }
}
