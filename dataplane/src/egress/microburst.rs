//! Bursts too short for any poll: when a queue went over a depth, how far, and until when (G8).
//!
//! Looked at on every enqueue and departure, so start, peak and end are exact. Frames for a watched port are admitted
//! one by one; a port nobody watches pays a pointer test per burst of departures.

use crate::types::{Nanos, PRIORITIES};
use std::collections::VecDeque;

/// What counts as a burst. Depths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroburstConfig {
    /// A burst begins when a queue holds more than this...
    pub start: u64,
    /// ...and ends when it holds at most this. Not above `start`.
    pub end: u64,
    /// Most finished bursts that are kept; older ones make room.
    pub keep: usize,
}

/// One burst of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Microburst {
    /// Queue of the port.
    pub queue: u8,
    /// When the depth went over the start line.
    pub since: Nanos,
    /// When it was back at the end line; `None` while it lasts.
    pub until: Option<Nanos>,
    /// Deepest, bytes, and when that was reached.
    pub peak: u64,
    /// When the peak was reached.
    pub peak_at: Nanos,
}

/// The bursts of one port.
#[derive(Clone, Debug)]
pub struct Microbursts {
    config: MicroburstConfig,
    running: [Option<Microburst>; PRIORITIES],
    finished: VecDeque<Microburst>,
    seen: u64,
}

impl Microbursts {
    /// No burst yet. All memory it will ever need is taken now.
    pub fn new(config: MicroburstConfig) -> Self {
        let finished = VecDeque::with_capacity(config.keep);
        Self { config, running: [None; PRIORITIES], finished, seen: 0 }
    }

    /// A frame has been queued and `queue` holds `depth` bytes.
    #[inline]
    pub fn grown(&mut self, queue: usize, depth: u64, now: Nanos) {
        if depth <= self.config.start && self.running[queue].is_none() {
            return;
        }
        let fresh = Microburst { queue: queue as u8, since: now, until: None, peak: 0, peak_at: now };
        let burst = self.running[queue].get_or_insert(fresh);
        if depth > burst.peak {
            (burst.peak, burst.peak_at) = (depth, now);
        }
    }

    /// Frames have left and `queue` holds `depth` bytes.
    #[inline]
    pub fn shrunk(&mut self, queue: usize, depth: u64, now: Nanos) {
        if depth > self.config.end {
            return;
        }
        let Some(burst) = self.running[queue].take() else { return };
        self.seen += 1;
        if self.config.keep == 0 {
            return;
        }
        if self.finished.len() == self.config.keep {
            self.finished.pop_front();
        }
        self.finished.push_back(Microburst { until: Some(now), ..burst });
    }

    /// Finished bursts still kept, oldest first, then running ones.
    pub fn iter(&self) -> impl Iterator<Item = &Microburst> {
        self.finished.iter().chain(self.running.iter().flatten())
    }

    /// Bursts that have ended, ever.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g8_start_peak_and_end_of_each_burst() {
        let mut m = Microbursts::new(MicroburstConfig { start: 100, end: 50, keep: 2 });
        for (at, depth) in [(1, 100), (2, 101), (3, 400)] {
            m.grown(3, depth, at);
        }
        m.shrunk(3, 51, 4);
        m.grown(3, 399, 5);
        let running = Microburst { queue: 3, since: 2, until: None, peak: 400, peak_at: 3 };
        assert_eq!(m.iter().collect::<Vec<_>>(), [&running]);
        m.shrunk(3, 50, 6);
        assert_eq!(m.iter().collect::<Vec<_>>(), [&Microburst { until: Some(6), ..running }]);
        for at in 7..10 {
            m.grown(0, 200, at * 10);
            m.shrunk(0, 0, at * 10 + 1);
        }
        assert_eq!((m.seen(), m.iter().count()), (4, 2));
        assert!(m.iter().all(|b| b.queue == 0));
    }
}
