//! Endpoint PFC: a receive memory that pauses its senders above one mark and releases them below
//! another (SW-024, SW-025).

use weir_dataplane::types::Nanos;

/// A receive memory of the published sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseWatermarks {
    /// Above this many bytes its senders are paused.
    pub high: u64,
    /// Below this many they are released.
    pub low: u64,
    /// Bytes it holds; what comes beyond is lost.
    pub capacity: u64,
}

/// Longest frame with FCS (DEV-03).
const FRAME_BYTES: u64 = 1406;

impl PauseWatermarks {
    /// `frames` frames and one round trip high, one round trip low, one round trip above in reserve.
    fn new(frames: u64, rate: u64, round_trip: Nanos) -> Self {
        let flight = u128::from(rate) * u128::from(round_trip);
        // More than 2^64 bytes in flight is no link.
        let flight = u64::try_from(flight.div_ceil(8_000_000_000)).unwrap_or(u64::MAX / 4);
        let high = (frames * FRAME_BYTES).saturating_add(flight);
        Self { high, low: flight, capacity: high.saturating_add(flight) }
    }

    /// Those of the memory for requests, and the one for responses: 32 frames. `rate` in bits/s.
    pub fn unicast(rate: u64, round_trip: Nanos) -> Self {
        Self::new(32, rate, round_trip)
    }

    /// Those of the memory for multicast: 8 frames.
    pub fn multicast(rate: u64, round_trip: Nanos) -> Self {
        Self::new(8, rate, round_trip)
    }
}

/// One receive memory.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveBuffer {
    marks: PauseWatermarks,
    used: u64,
    paused: bool,
}

impl ReceiveBuffer {
    /// An empty one.
    pub fn new(marks: PauseWatermarks) -> Self {
        Self { marks, used: 0, paused: false }
    }

    /// Takes `bytes`; `false`: no room, nothing is taken.
    pub fn take(&mut self, bytes: u64) -> bool {
        let used = self.used.saturating_add(bytes);
        let room = used <= self.marks.capacity;
        if room {
            self.used = used;
            self.paused |= used > self.marks.high;
        }
        room
    }

    /// `bytes` were read and their place is free.
    pub fn free(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
        // A link without delay has its low mark at 0, which an empty memory still reaches.
        if self.used < self.marks.low || self.used == 0 {
            self.paused = false;
        }
    }

    /// Whether the senders are to be paused.
    pub fn paused(&self) -> bool {
        self.paused
    }

    /// Bytes held.
    pub fn used(&self) -> u64 {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sw025_published_marks() {
        // 200 Gb/s and 2 us: 50 000 bytes in flight.
        let marks = PauseWatermarks::unicast(200_000_000_000, 2_000);
        assert_eq!(
            marks,
            PauseWatermarks { high: 32 * 1406 + 50_000, low: 50_000, capacity: 32 * 1406 + 100_000 }
        );
        assert_eq!(PauseWatermarks::multicast(200_000_000_000, 2_000).high, 8 * 1406 + 50_000);
    }

    #[test]
    fn sw024_pause_above_high_release_below_low() {
        let mut memory = ReceiveBuffer::new(PauseWatermarks { high: 100, low: 40, capacity: 150 });
        assert!(memory.take(100) && !memory.paused());
        assert!(memory.take(1) && memory.paused());
        memory.free(61);
        assert!(memory.paused(), "at the low mark, not below it");
        memory.free(1);
        assert!(!memory.paused());
        assert!(memory.take(50) && !memory.paused());
        assert!(!memory.take(62), "beyond capacity");
        assert_eq!(memory.used(), 89);
    }

    #[test]
    fn sw025_the_reserve_takes_what_was_in_flight() {
        // Frames of a sender that stops one round trip after the pause.
        let (rate, round_trip) = (100_000_000_000, 3_000);
        let mut memory = ReceiveBuffer::new(PauseWatermarks::unicast(rate, round_trip));
        let gap = 1406 * 8 / 100;
        let mut stops_at = u64::MAX;
        let mut now = 0;
        while now < stops_at {
            assert!(memory.take(1406));
            if memory.paused() && stops_at == u64::MAX {
                stops_at = now + round_trip;
            }
            now += gap + 1;
        }
    }
}
