//! A token bucket in exact integers: a rate is kept to the bit over any length of time.

use crate::types::Nanos;

/// Tokens are billionths of a bit, so that `rate [bit/s] * time [ns]` needs no division.
const BIT: i64 = 1_000_000_000;

/// Limits a port or a queue to a rate.
///
/// A frame may start while the bucket is not in debt; it then pays for itself. At most `burst` ns
/// worth of unused time is kept, which is what makes up for a polling loop that comes late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaper {
    rate: u64,
    burst: Nanos,
    tokens: i64,
    last: Nanos,
    /// Time that repays any debt and fills the bucket, ns: more is not counted.
    most: Nanos,
}

impl Shaper {
    /// A limit of `rate` bit/s (not zero) that makes up for at most `burst` ns of lateness.
    ///
    /// The product must fit 63 bits: 1 Tb/s allows bursts of 2.3 ms, more is cut.
    pub fn new(rate: u64, burst: Nanos) -> Self {
        let (rate, most) = (rate.max(1), Self::longest_burst(rate));
        // Below one nanosecond of credit, callers that come at whole nanoseconds would lose the fraction.
        Self { rate, burst: burst.clamp(1, most), tokens: 0, last: 0, most }
    }

    /// Longer bursts than this, ns, are cut at a rate in bit/s.
    pub fn longest_burst(rate: u64) -> Nanos {
        ((i64::MAX as u64 / 4) / rate.max(1)).max(1)
    }

    /// The rate in bit/s.
    #[cfg(test)]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Accounts for the time that has passed. Once per burst.
    #[inline(always)]
    pub fn refill(&mut self, now: Nanos) {
        self.refill_up_to(now, 0);
    }

    /// The same for who had frames all that time: what it could have sent while the line had another frame, of `waited` bytes on
    /// the wire at most, is kept as well.
    #[inline(always)]
    pub fn refill_up_to(&mut self, now: Nanos, waited: u64) {
        let elapsed = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        let full = (self.burst * self.rate) as i64 + waited as i64 * 8 * BIT;
        self.tokens = (self.tokens + (elapsed.min(self.most) * self.rate) as i64).min(full);
    }

    /// Frames of `wire_bytes` bytes that were paid for still wait because the wire was full. They have used their part of the
    /// credit: time in which the wire sends them lets no others go.
    #[cold]
    pub fn share_with(&mut self, wire_bytes: u64) {
        let full = (self.burst * self.rate) as i64;
        self.tokens = self.tokens.min(full - wire_bytes as i64 * 8 * BIT);
    }

    /// May a frame start?
    #[inline(always)]
    pub fn open(&self) -> bool {
        self.tokens >= 0
    }

    /// Pays for `wire_bytes` bytes.
    #[inline(always)]
    pub fn pay(&mut self, wire_bytes: u64) {
        self.tokens -= wire_bytes as i64 * 8 * BIT;
    }

    /// Bytes on the wire after which no other frame may start: 0 if none may now.
    #[inline(always)]
    pub fn wire_left(&self) -> u64 {
        u64::try_from(self.tokens).map_or(0, |tokens| tokens / (8 * BIT as u64) + 1)
    }

    /// [`Shaper::pay`]; may another frame start?
    #[inline(always)]
    pub fn pay_and_open(&mut self, wire_bytes: u64) -> bool {
        self.pay(wire_bytes);
        self.open()
    }

    /// First instant, in whole ns, at which a frame may start.
    pub fn open_at(&self) -> Nanos {
        self.last + self.tokens.min(0).unsigned_abs().div_ceil(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::wire_bytes;

    /// Sends frames of `len` as soon as allowed; returns the time after `n` of them.
    fn run(rate: u64, len: u64, n: u64) -> Nanos {
        let mut shaper = Shaper::new(rate, 0);
        let mut now = 0;
        for _ in 0..n {
            now = shaper.open_at().max(now);
            shaper.refill(now);
            assert!(shaper.open());
            shaper.pay(wire_bytes(len));
        }
        shaper.open_at()
    }

    #[test]
    fn e7_no_drift_at_rates_whose_frame_time_is_no_whole_number() {
        // 1406 B with FCS at 400G: 28.52 ns each; a million of them take 28.52 ms, to the ns per frame start.
        for (rate, bytes_per_ns_num) in [(400_000_000_000u64, 1426 * 8), (800_000_000_000, 1426 * 8)] {
            let exact = 1_000_000u128 * bytes_per_ns_num as u128 * 1_000_000_000 / u128::from(rate);
            let took = u128::from(run(rate, 1402, 1_000_000));
            assert!(took.abs_diff(exact) <= 1, "{took} {exact}");
        }
        let odd = run(3_000_000_000, 60, 3_000_000);
        assert_eq!(odd, 3_000_000 * 84 * 8 / 3);
    }

    #[test]
    fn lateness_is_made_up_only_within_the_burst() {
        let mut shaper = Shaper::new(1_000_000_000, 10_000);
        shaper.refill(1_000_000);
        let mut sent = 0;
        while shaper.open() {
            shaper.pay(125);
            sent += 1;
        }
        assert_eq!(sent, 11, "10 us of credit at 1 us a frame, and one that starts at zero");
    }

    #[test]
    fn frames_go_on_while_they_could_one_by_one() {
        for tokens in [-1, 0, 1, 8 * BIT - 1, 8 * BIT, 8 * BIT + 1, 84 * 8 * BIT - 1, 84 * 8 * BIT] {
            for wire in [0, 1, 2, 83, 84, 85] {
                let shaper = Shaper { tokens, ..Shaper::new(1_000_000_000, 0) };
                let mut after = shaper;
                after.pay(wire);
                assert_eq!(wire < shaper.wire_left(), after.open(), "{tokens} {wire}");
            }
        }
    }

    #[test]
    fn long_silence_does_not_overflow() {
        let mut shaper = Shaper::new(1_600_000_000_000, u64::MAX);
        shaper.refill(u64::MAX / 2);
        shaper.pay(9216);
        shaper.refill(u64::MAX);
        assert!(shaper.open());
    }
}
