//! When the next frame of a steady stream is due, exact over any number of frames.

use weir_dataplane::types::{Nanos, wire_bytes};

/// Due times at a fixed rate. Fractions of a nanosecond are carried along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    rate: u64,
    at: Nanos,
    /// Nanoseconds past `at`, in units of 1 / rate; below `rate`.
    fraction: u64,
}

/// Time one frame takes at the rate of its clock. Computed once: no division per frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(super) ns: Nanos,
    fraction: u64,
}

impl Clock {
    /// First frame due at `at`; `rate` in bits/s on the wire, at least 1.
    pub(crate) fn new(rate: u64, at: Nanos) -> Self {
        Self { rate: rate.max(1), at, fraction: 0 }
    }

    /// Step of a frame of `len` bytes without FCS; preamble, FCS and gap count.
    pub(crate) fn step(&self, len: usize) -> Step {
        // Frames are below 2^16 bytes, so this is below 2^50.
        let bits = wire_bytes(len as u64) * 8 * 1_000_000_000;
        Step { ns: bits / self.rate, fraction: bits % self.rate }
    }

    /// First whole nanosecond at which the next frame may go: never early.
    pub(crate) fn ready(&self) -> Nanos {
        self.at.saturating_add(u64::from(self.fraction != 0))
    }

    /// A frame went at the due time.
    pub(crate) fn advance(&mut self, step: Step) {
        // Both fractions are below `rate`, and so is the new one.
        let left = self.rate - step.fraction;
        let carry = self.fraction >= left;
        self.fraction = if carry { self.fraction - left } else { self.fraction + step.fraction };
        self.at = self.at.saturating_add(step.ns).saturating_add(u64::from(carry));
    }

    /// The next frame is not due before `time`.
    pub(crate) fn not_before(&mut self, time: Nanos) {
        if self.ready() < time {
            (self.at, self.fraction) = (time, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_frames_take_exactly_their_bits() {
        // 1082 B are 1106 B on the wire: 88.48 ns at 100 Gb/s.
        let mut clock = Clock::new(100_000_000_000, 5);
        let step = clock.step(1082);
        for n in 0..1000u64 {
            assert_eq!(clock.ready(), 5 + (n * 8848).div_ceil(100));
            clock.advance(step);
        }
        assert_eq!(clock.ready(), 5 + 88_480);
    }

    #[test]
    fn waiting_saves_up_nothing() {
        let mut clock = Clock::new(3, 0);
        clock.advance(clock.step(60));
        let ready = clock.ready();
        clock.not_before(ready);
        assert_eq!(clock.ready(), ready);
        clock.not_before(ready + 7);
        assert_eq!(clock.ready(), ready + 7);
    }
}
