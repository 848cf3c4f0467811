//! Spaces packets so that a queue pair keeps to its rate, exactly over time.

use weir_dataplane::types::{Nanos, wire_bytes};

/// Next-send time of a flow. Fractions of a nanosecond are carried over, so n packets of b bits at
/// r bits/s take n * b / r seconds, not n rounded times b / r.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    rate: u64,
    /// When the last packet began.
    start: Nanos,
    /// Its bits, and the fraction its predecessor left, times 10^9.
    owed: u64,
    /// Time without a chance to send that is made good, ns.
    slack: Nanos,
}

impl Pacer {
    /// A flow of `rate` bits/s on the wire (preamble, gap and FCS count); at least 1.
    pub fn new(rate: u64) -> Self {
        Self { rate: rate.max(1), start: 0, owed: 0, slack: 0 }
    }

    /// The same for an owner who comes late: packets that should have gone in the last `slack` ns go at once.
    pub fn with_slack(self, slack: Nanos) -> Self {
        Self { slack, ..self }
    }

    /// Bits per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Changes the rate. The gap after the last packet is measured anew, so that a flow that was
    /// very slow need not wait out its old gap.
    pub fn set_rate(&mut self, rate: u64) {
        self.rate = rate.max(1);
    }

    /// Earliest time of the next packet.
    pub fn ready(&self) -> Nanos {
        self.start.saturating_add(self.owed / self.rate)
    }

    /// A frame of `len` bytes (without FCS) was sent at `now`.
    pub fn sent(&mut self, len: u64, now: Nanos) {
        let (ready, due) = (self.ready(), now.saturating_sub(self.slack));
        // A flow that was idle saves up no credit but its slack.
        let carry = if due > ready { 0 } else { self.owed % self.rate };
        self.start = due.max(ready);
        // A frame is below 2^13 bytes, so the first part is below 2^47.
        self.owed = (wire_bytes(len) * 8 * 1_000_000_000).saturating_add(carry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_exact_over_many_packets() {
        // 1082 B frames take 1106 B on the wire: 88.48 ns each at 100 Gb/s.
        let mut pacer = Pacer::new(100_000_000_000);
        for _ in 0..1000 {
            pacer.sent(1082, pacer.ready());
        }
        assert_eq!(pacer.ready(), 88_480);
    }

    #[test]
    fn a_late_owner_loses_no_rate() {
        // 8848 ns per packet, asked every 50 us: five or six packets at a time.
        let mut pacer = Pacer::new(1_000_000_000).with_slack(100_000);
        let mut sent = 0;
        for now in (1_000_000..=11_000_000).step_by(50_000) {
            while pacer.ready() <= now {
                pacer.sent(1082, now);
                sent += 1;
            }
        }
        assert_eq!(sent, 10_100_000 / 8848 + 1);
    }

    #[test]
    fn an_idle_flow_does_not_burst_and_a_slow_one_waits() {
        let mut pacer = Pacer::new(1_000_000_000);
        pacer.sent(1082, 1_000_000);
        assert_eq!(pacer.ready(), 1_000_000 + 8848);
        pacer.set_rate(10_000_000);
        assert_eq!(pacer.ready(), 1_000_000 + 884_800);
        pacer.set_rate(1_000_000_000);
        pacer.sent(1082, pacer.ready());
        assert_eq!(pacer.ready(), 1_000_000 + 2 * 8848);
    }
}
