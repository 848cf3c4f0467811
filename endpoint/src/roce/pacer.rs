//! Spaces packets so that a queue pair keeps to its rate, exactly over time.

use weir_dataplane::types::{Nanos, wire_bytes};

/// Next-send time of a flow. Fractions of a nanosecond are carried over, so n packets of b bits at
/// r bits/s take n * b / r seconds, not n rounded times b / r.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    rate: u64,
    ready: Nanos,
    /// Bits times 10^9 that did not make a whole nanosecond; below `rate`.
    carry: u64,
}

impl Pacer {
    /// A flow of `rate` bits/s on the wire (preamble, gap and FCS count); at least 1.
    pub fn new(rate: u64) -> Self {
        Self { rate: rate.max(1), ready: 0, carry: 0 }
    }

    /// Bits per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Changes the rate for the packets to come; the gap after the last one stays.
    pub fn set_rate(&mut self, rate: u64) {
        self.rate = rate.max(1);
        self.carry = 0;
    }

    /// Earliest time of the next packet.
    pub fn ready(&self) -> Nanos {
        self.ready
    }

    /// A frame of `len` bytes (without FCS) was sent at `now`.
    pub fn sent(&mut self, len: u64, now: Nanos) {
        if now > self.ready {
            // The flow was idle: no credit is saved up.
            self.ready = now;
            self.carry = 0;
        }
        // A frame is below 2^13 bytes, so this is below 2^47.
        let owed = wire_bytes(len) * 8 * 1_000_000_000 + self.carry;
        self.ready = self.ready.saturating_add(owed / self.rate);
        self.carry = owed % self.rate;
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
    fn an_idle_flow_does_not_burst_and_a_slow_one_waits() {
        let mut pacer = Pacer::new(1_000_000_000);
        pacer.sent(1082, 1_000_000);
        assert_eq!(pacer.ready(), 1_000_000 + 8848);
        pacer.set_rate(10_000_000);
        pacer.sent(1082, pacer.ready());
        assert_eq!(pacer.ready(), 1_000_000 + 8848 + 884_800);
    }
}
