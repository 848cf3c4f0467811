//! The window of a requester that sends again from what is missing on, and gives up in the end (IBTA 9.7).

use super::answer::{Nak, Syndrome, rnr_wait};
use super::flight::Flight;
use super::psn::Psn;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::Nanos;

/// A responder that is asked for nothing stays silent, so a long message asks on its way, like
/// Linux rxe, at least this often.
const PACKETS_PER_ACK: u32 = 64;
/// `rnr_retry` that never gives up (IBTA 9.7.5.2.8).
pub const RNR_RETRY_FOREVER: u8 = 7;

/// Largest of [`Limits::doublings`].
const MOST_DOUBLINGS: u8 = 16;

/// How much is sent ahead and how often it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Packets sent and not acknowledged; 1 to 2^22, and half the numbers there are.
    pub window: u32,
    /// An answer is asked for at least every so many packets; at least 1.
    pub ack_every: u32,
    /// Times a packet is sent again without progress; `None`: without end.
    pub retry_cnt: Option<u8>,
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

impl Limits {
    /// What a message of many packets asks at least, for a window: often enough that it never stands still.
    pub fn ack_every_of(window: u32) -> u32 {
        (window / 2).clamp(1, PACKETS_PER_ACK)
    }
}

/// Why nothing more is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No progress after all retries.
    RetryExceeded,
    /// The receiver was not ready after all retries.
    RnrRetryExceeded,
    /// It refused the oldest packet.
    Refused(Nak),
}

/// The sending half of a connection that goes back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GoBackN<const BITS: u32 = 24> {
    limits: Limits,
    flight: Flight<BITS>,
    retries_left: Option<u8>,
    rnr_retries_left: u8,
    /// Timeouts in a row, up to [`Limits::doublings`].
    doubled: u8,
    /// Times in a row that the receiver was not ready, up to [`MOST_DOUBLINGS`]; 0 without [`Limits::doublings`].
    not_ready: u8,
    /// Packets outstanding at most; the window, but after silence.
    allowed: u64,
    rnr_until: Nanos,
}

impl<const BITS: u32> GoBackN<BITS> {
    /// A connection that has sent nothing; its first packet has PSN `start`.
    pub fn new(limits: Limits, start: Psn<BITS>) -> Self {
        let window = limits.window.clamp(1, (1 << 22).min(Psn::<BITS>::SPACE / 2));
        let ack_every = limits.ack_every.max(1);
        let doublings = limits.doublings.min(MOST_DOUBLINGS);
        Self {
            limits: Limits { window, ack_every, doublings, ..limits },
            flight: Flight::new(start),
            retries_left: limits.retry_cnt,
            rnr_retries_left: limits.rnr_retry,
            doubled: 0,
            not_ready: 0,
            allowed: u64::from(window),
            rnr_until: 0,
        }
    }

    /// The PSN of the first packet, for a connection that is only now set up.
    pub fn start_at(&mut self, psn: Psn<BITS>) {
        self.flight.start_at(psn);
    }

    /// Number of the oldest packet that is not acknowledged.
    pub fn una(&self) -> u64 {
        self.flight.una()
    }

    /// Number of the packet that is sent next.
    pub fn next(&self) -> u64 {
        self.flight.next()
    }

    /// Of the next packet.
    pub fn psn(&self) -> Psn<BITS> {
        self.flight.psn(self.flight.next())
    }

    /// Number after the last packet that may be outstanding.
    fn window_end(&self) -> u64 {
        self.flight.una() + self.allowed
    }

    /// Whether the next packet may be sent, of `tail` there are so far, once [`Self::rnr_until`] has passed.
    pub fn is_open(&self, tail: u64) -> bool {
        self.flight.next() < tail.min(self.window_end())
    }

    /// Whether all that may be outstanding of `tail` packets was sent, however long ago: answers alone make room for more.
    pub fn awaits_answers(&self, tail: u64) -> bool {
        let end = tail.min(self.window_end());
        end > self.una() && self.has_sent(self.flight.psn(end - 1))
    }

    /// Whether the packet with this PSN was sent, however long ago: else no answer can be about it.
    pub fn has_sent(&self, psn: Psn<BITS>) -> bool {
        self.flight.has_sent(psn)
    }

    /// End of the wait the peer asked for.
    pub fn rnr_until(&self) -> Nanos {
        self.rnr_until
    }

    /// Whether the next packet should ask for an answer even if more follow.
    pub fn asks(&self) -> bool {
        let is_short = self.allowed < u64::from(self.limits.window);
        let every = u64::from(self.limits.ack_every);
        (self.flight.next() + 1).is_multiple_of(every) || (is_short && self.ends_window())
    }

    /// The next packet is the last that may be outstanding.
    pub fn ends_window(&self) -> bool {
        self.flight.next() + 1 == self.window_end()
    }

    /// When an acknowledgement is overdue.
    pub fn ack_deadline(&self) -> Option<Nanos> {
        Some(self.flight.deadline()).filter(|at| *at != NEVER)
    }

    /// When an answer to what is sent at `now` is overdue.
    fn overdue(&self, now: Nanos) -> Nanos {
        now.saturating_add(self.limits.ack_timeout.saturating_mul(1 << self.doubled))
    }

    /// The next packet left. `true`: it had been sent before.
    pub fn sent(&mut self, ack_req: bool, now: Nanos) -> bool {
        let number = self.flight.next();
        if ack_req {
            self.flight.asks(number, self.overdue(now));
        }
        self.flight.sent()
    }

    /// The next packet left, and nobody will say whether it has arrived.
    pub fn sent_for_good(&mut self) {
        self.flight.sent_for_good();
    }

    /// An answer arrived. Returns how many packets it acknowledges that were not. Error: the oldest packet failed.
    pub fn answer(&mut self, psn: Psn<BITS>, syndrome: Syndrome, now: Nanos) -> Result<u64, Failure> {
        let in_flight = self.flight.una()..self.flight.sent_end();
        let Some(at) = self.flight.number(psn).filter(|number| in_flight.contains(number)) else {
            return Ok(0); // An old answer, all of which is known, or about a packet never sent.
        };
        match syndrome {
            Syndrome::Ack(_) => Ok(self.advance(at + 1, now)),
            Syndrome::Nak(nak) => {
                let count = self.advance(at, now);
                match nak {
                    Nak::Sequence => self.go_back().map(|()| count),
                    nak => Err(Failure::Refused(nak)),
                }
            }
            Syndrome::Rnr(timer) => {
                let count = self.advance(at, now);
                self.wait_for_receiver(timer, now).map(|()| count)
            }
            Syndrome::Reserved(_) => Ok(0),
        }
    }

    fn advance(&mut self, una: u64, now: Nanos) -> u64 {
        if una == self.flight.una() {
            return 0;
        }
        self.begin_retries_anew();
        self.rnr_retries_left = self.limits.rnr_retry;
        self.doubled = 0;
        self.not_ready = 0;
        let count = self.flight.advance(una, self.overdue(now));
        self.allowed = (self.allowed + count).min(u64::from(self.limits.window));
        count
    }

    /// Sends again from the oldest packet not acknowledged, if retries are left.
    fn go_back(&mut self) -> Result<(), Failure> {
        if self.flight.next() == self.flight.una() {
            return Ok(()); // On its way back already.
        }
        if let Some(left) = &mut self.retries_left {
            *left = left.checked_sub(1).ok_or(Failure::RetryExceeded)?;
        }
        self.flight.step_back();
        Ok(())
    }

    fn wait_for_receiver(&mut self, timer: u8, now: Nanos) -> Result<(), Failure> {
        if self.limits.rnr_retry != RNR_RETRY_FOREVER {
            self.rnr_retries_left = self.rnr_retries_left.checked_sub(1).ok_or(Failure::RnrRetryExceeded)?;
        }
        self.flight.step_back();
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
    pub fn handle_timeout(&mut self, now: Nanos) -> Result<bool, Failure> {
        if self.flight.deadline() == NEVER || self.flight.deadline() > now {
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
        let rnr = Some(self.rnr_retries_left).filter(|_| self.limits.rnr_retry != RNR_RETRY_FOREVER);
        [self.retries_left, rnr].into_iter().flatten().all(|left| u64::from(left) >= times)
    }

    /// Nothing more is sent of the `tail` packets there are, after a failure.
    pub fn abandon(&mut self, tail: u64) {
        self.flight.abandon(tail);
    }
}
