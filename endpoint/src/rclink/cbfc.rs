//! Credit-based flow control (not class-based, DEV-83): counters, and the messages that carry them.
//!
//! The arithmetic is that of UEC 1.0 section 5.2: 20-bit cyclic counters of credits consumed and freed,
//! send while `consumed - freed + n <= limit`. The messages are our own and go end to end, so that a
//! switch forwards them like any frame (SW-022, DEV-09). Counters are cumulative: a lost message costs time,
//! not credits. Credits of data that was lost on the way come back with a [`Update::Consumed`], a count of one
//! queue pair's data that takes the path of this data, and is behind it.

use thiserror::Error;
use weir_dataplane::types::PRIORITIES;

/// Counters have 20 bits.
const MASK: u32 = (1 << 20) - 1;
/// Distances from here on count as backwards.
const HALF: u32 = 1 << 19;
/// Bytes of a message.
pub const UPDATE_BYTES: usize = 4 + 4 * PRIORITIES;

/// What a credit is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditConfig {
    /// Bytes of one credit: 32, 64, 128, 256, 1024 or 2048.
    pub size: u16,
    /// Bytes a packet costs beyond its length without FCS: 4 makes it the length with FCS.
    pub overhead: u16,
    /// Credits of each channel, for each peer: the receiver's memory.
    pub limit: u32,
    /// A receiver reports freed credits once they are worth so many longest frames, 1 to 7
    /// (`credit_uf_limit`; how it counts is not published).
    pub report_every: u8,
}

/// Why credits are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CreditError {
    /// Not one of the six sizes.
    #[error("credit size {0}: it is 32, 64, 128, 256, 1024 or 2048 bytes")]
    Size(u16),
    /// Outside 1 to 7.
    #[error("credit_uf_limit {0}: it is 1 to 7 packets")]
    ReportEvery(u8),
    /// Fewer credits than would let the flow go on before the first report, or beyond the counters.
    #[error("{limit} credits; {least} to {most} are possible")]
    Limit {
        /// What was asked for.
        limit: u32,
        /// What the longest frames up to a report and one more cost.
        least: u32,
        /// Half the range of the counters.
        most: u32,
    },
}

impl CreditConfig {
    /// Checks everything.
    ///
    /// # Errors
    /// The first number that does not fit.
    pub fn check(&self) -> Result<(), CreditError> {
        if !matches!(self.size, 32 | 64 | 128 | 256 | 1024 | 2048) {
            return Err(CreditError::Size(self.size));
        }
        if !(1..=7).contains(&self.report_every) {
            return Err(CreditError::ReportEvery(self.report_every));
        }
        let (least, most) = (self.report_at() + self.cost(LONGEST_FRAME), HALF - 1);
        if !(least..=most).contains(&self.limit) {
            return Err(CreditError::Limit { limit: self.limit, least, most });
        }
        Ok(())
    }

    /// Credits of a frame of `len` bytes without FCS.
    pub fn cost(&self, len: usize) -> u32 {
        let bytes = len.min(1 << 16) as u32 + u32::from(self.overhead);
        bytes.div_ceil(u32::from(self.size.max(1)))
    }

    /// Credits freed that are worth a report.
    fn report_at(&self) -> u32 {
        u32::from(self.report_every) * self.cost(LONGEST_FRAME)
    }
}

/// Longest frame without FCS (DEV-03).
const LONGEST_FRAME: usize = 1402;

/// The sender's counters of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditSender {
    consumed: u32,
    freed: u32,
}

impl CreditSender {
    /// Credits that are out.
    pub fn in_use(&self) -> u32 {
        self.consumed.wrapping_sub(self.freed) & MASK
    }

    /// Whether `cost` more fit the limit.
    pub fn allow(&self, cost: u32, limit: u32) -> bool {
        self.in_use().saturating_add(cost) <= limit
    }

    /// A frame was sent.
    pub fn consume(&mut self, cost: u32) {
        self.consumed = self.consumed.wrapping_add(cost) & MASK;
    }

    /// The receiver has freed so many in all. `false`: an old report, or one of credits never sent.
    pub fn freed(&mut self, total: u32) -> bool {
        let more = total.wrapping_sub(self.freed) & MASK;
        let sane = more <= self.in_use();
        if sane {
            self.freed = total & MASK;
        }
        sane
    }
}

/// Credits of the frames of one queue pair, at its sender or at its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed(u32);

impl Passed {
    /// A frame was sent, or arrived.
    pub fn pass(&mut self, cost: u32) {
        self.0 = self.0.wrapping_add(cost) & MASK;
    }

    /// All of them so far, for [`Update::Consumed`].
    pub fn total(self) -> u32 {
        self.0
    }

    /// At the receiver: the sender's count, which came behind the frames it counts. Returns what is missing, and so lost, to be
    /// freed. Where a route changes, a count can be ahead of frames: what was lost by it and has come nevertheless is less than
    /// nothing, modulo 2^20.
    pub fn settle(&mut self, total: u32) -> u32 {
        let missing = total.wrapping_sub(self.0) & MASK;
        self.0 = total & MASK;
        missing
    }
}

/// The receiver's counters of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditReceiver {
    freed: u32,
    reported: u32,
}

impl CreditReceiver {
    /// Memory is free again, or was never taken since a frame is lost.
    pub fn free(&mut self, cost: u32) {
        self.freed = self.freed.wrapping_add(cost) & MASK;
    }

    /// Whether enough was freed since the last report.
    pub fn report_due(&self, config: &CreditConfig) -> bool {
        self.freed.wrapping_sub(self.reported) & MASK >= config.report_at()
    }

    /// Whether anything was freed since the last report.
    pub fn unreported(&self) -> bool {
        self.freed != self.reported
    }

    /// The count to report; it counts as reported.
    pub fn report(&mut self) -> u32 {
        self.reported = self.freed;
        self.freed
    }
}

/// A credit message: `kind 8 | channels 8 | reserved 16 | 8 x count 32`, big-endian, 36 bytes. Bit n of
/// `channels` says that count n is meant; counts have 20 bits. The queue pair of a count of what was consumed is that of the
/// header (RH); AFH_Lite has none, and one queue pair a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Kind 1, receiver to sender: credits freed so far, of all channels.
    Freed([u32; PRIORITIES]),
    /// Kind 2, sender to receiver: credits consumed so far by one queue pair.
    Consumed {
        /// The channel of its frames.
        channel: u8,
        /// The count.
        count: u32,
    },
}

impl Update {
    /// The bytes.
    pub fn encode(&self) -> [u8; UPDATE_BYTES] {
        let mut out = [0; UPDATE_BYTES];
        let mut put = |channel: usize, count: u32| {
            let at = 4 + 4 * channel;
            out[at..at + 4].copy_from_slice(&(count & MASK).to_be_bytes());
        };
        let (kind, channels) = match *self {
            Self::Freed(counts) => {
                counts.iter().enumerate().for_each(|(channel, count)| put(channel, *count));
                (1, 0xff)
            }
            Self::Consumed { channel, count } => {
                put(usize::from(channel & 7), count);
                (2, 1 << (channel & 7))
            }
        };
        (out[0], out[1]) = (kind, channels);
        out
    }

    /// Reads a message; bytes behind it are ignored. `None`: not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<UPDATE_BYTES>()?;
        let counts: [u32; PRIORITIES] = std::array::from_fn(|channel| {
            let at = 4 + 4 * channel;
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) & MASK
        });
        match (bytes[0], bytes[1]) {
            (1, 0xff) => Some(Self::Freed(counts)),
            (2, channels) if channels.is_power_of_two() => {
                let channel = channels.trailing_zeros() as u8;
                Some(Self::Consumed { channel, count: counts[usize::from(channel)] })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(size: u16) -> CreditConfig {
        CreditConfig { size, overhead: 4, limit: 1000, report_every: 1 }
    }

    #[test]
    fn sw021_published_costs_of_the_longest_frame() {
        let costs = [32, 64, 128, 256, 1024, 2048].map(|size| config(size).cost(1402));
        assert_eq!(costs, [44, 22, 11, 6, 2, 1]);
    }

    #[test]
    fn odd_credits_are_refused() {
        assert_eq!(config(256).check(), Ok(()));
        assert_eq!(config(512).check(), Err(CreditError::Size(512)));
        assert_eq!(CreditConfig { report_every: 0, ..config(64) }.check(), Err(CreditError::ReportEvery(0)));
        assert_eq!(CreditConfig { report_every: 8, ..config(64) }.check(), Err(CreditError::ReportEvery(8)));
        let tight = CreditConfig { limit: 43, ..config(64) };
        assert_eq!(tight.check(), Err(CreditError::Limit { limit: 43, least: 44, most: HALF - 1 }));
    }

    #[test]
    fn old_and_invented_reports_change_nothing() {
        let mut credits = CreditSender::default();
        credits.consume(100);
        assert!(credits.freed(60));
        assert_eq!(credits.in_use(), 40);
        assert!(!credits.freed(50), "older");
        assert!(!credits.freed(101), "more than was sent");
        assert_eq!(credits.in_use(), 40);
        assert!(credits.allow(10, 50) && !credits.allow(11, 50));
    }

    /// A count that is ahead of frames lets their credits go too early, and the next one takes that back: nothing is for good.
    #[test]
    fn a_count_that_overtook_frames_is_mended_by_the_next_one() {
        let (mut credits, mut grants) = (CreditSender::default(), CreditReceiver::default());
        let (mut sent, mut arrived) = (Passed::default(), Passed::default());
        for _ in 0..10 {
            credits.consume(10);
            sent.pass(10);
        }
        grants.free(arrived.settle(sent.total()));
        assert!(credits.freed(grants.report()));
        for _ in 0..10 {
            arrived.pass(10);
            grants.free(10);
        }
        assert!(!credits.freed(grants.report()), "more than was sent");
        credits.consume(10);
        sent.pass(10);
        arrived.pass(10);
        grants.free(10);
        grants.free(arrived.settle(sent.total()));
        assert!(credits.freed(grants.report()));
        assert_eq!(credits.in_use(), 0);
    }

    #[test]
    fn messages_round_trip() {
        let freed = Update::Freed([0, 1, 2, 3, 4, 5, 6, MASK]);
        let consumed = Update::Consumed { channel: 5, count: 77 };
        for update in [freed, consumed] {
            assert_eq!(Update::decode(&update.encode()), Some(update));
        }
        assert_eq!(freed.encode()[..8], [1, 0xff, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Update::decode(&[1; 35]), None);
        assert_eq!(Update::decode(&[2; 36]).map(|u| u.encode()[1]), Some(2));
        assert_eq!(Update::decode(&[3; 36]), None);
    }

    proptest! {
        #[test]
        fn sw021_credits_never_exceed_the_limit_and_never_leak(
            steps in proptest::collection::vec((0u8..6, 60usize..1402), 1..3000),
        ) {
            let config = config(64);
            let (mut credits, mut grants) = (CreditSender::default(), CreditReceiver::default());
            let (mut sent, mut arrived) = (Passed::default(), Passed::default());
            // Far on, so that the counters wrap.
            for _ in 0..MASK / 22 {
                credits.consume(22);
                sent.pass(22);
                arrived.pass(22);
                grants.free(22);
                credits.freed(grants.report());
            }
            let mut held = std::collections::VecDeque::new();
            for (step, len) in steps {
                let cost = config.cost(len);
                match step {
                    0..=2 if credits.allow(cost, config.limit) => {
                        credits.consume(cost);
                        sent.pass(cost);
                        // One in three is lost on the way.
                        if step < 2 {
                            arrived.pass(cost);
                            held.push_back(cost);
                        }
                    }
                    3 => held.pop_front().into_iter().for_each(|cost| grants.free(cost)),
                    4 if grants.report_due(&config) => prop_assert!(credits.freed(grants.report())),
                    5 => grants.free(arrived.settle(sent.total())),
                    _ => {}
                }
                prop_assert!(credits.in_use() <= config.limit);
                prop_assert!(held.iter().sum::<u32>() <= config.limit);
            }
            held.drain(..).for_each(|cost| grants.free(cost));
            grants.free(arrived.settle(sent.total()));
            credits.freed(grants.report());
            prop_assert_eq!(credits.in_use(), 0);
        }
    }
}
