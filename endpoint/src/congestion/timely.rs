//! TIMELY (Mittal et al., SIGCOMM 2015) as the published simulator has it: `CC_MODE 7`.
//!
//! The gradient of the round trip, once per window of data.
use super::{Ack, CongestionControl, Moment, Permit, Window};
use weir_dataplane::types::Nanos;

/// What a sender is configured with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Line rate of the sender: its first rate and its highest, bit/s.
    pub line_bps: u64,
    /// Weight of the newest difference.
    pub alpha: f64,
    /// Factor of a decrease.
    pub beta: f64,
    /// Below this round trip the rate rises whatever the gradient, ns.
    pub t_low: Nanos,
    /// Above this round trip it falls whatever the gradient, ns.
    pub t_high: Nanos,
    /// Unit of the gradient, ns.
    pub min_rtt: Nanos,
    /// Added in the first five increases (`RATE_AI`), bit/s.
    pub ai_bps: u64,
    /// Added in those after them (`RATE_HAI`), bit/s.
    pub hai_bps: u64,
    /// Lowest rate (`MIN_RATE`), bit/s.
    pub min_rate_bps: u64,
}

impl Default for Params {
    /// The published preset for 100 Gb/s.
    fn default() -> Self {
        Self {
            line_bps: 100_000_000_000,
            alpha: 0.875,
            beta: 0.8,
            t_low: 50_000,
            t_high: 500_000,
            min_rtt: 20_000,
            ai_bps: 100_000_000,
            hai_bps: 500_000_000,
            min_rate_bps: 1_000_000_000,
        }
    }
}

/// Increases in a row before hyper-active ones.
const HYPER_AFTER: u32 = 5;

/// Which way the rate went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Nowhere: there was nothing to compare with.
    None,
    /// Up.
    Up,
    /// Down.
    Down,
}

/// What an acknowledgement did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// Which kind it was.
    pub moment: Moment,
    /// Round trip against the one before, ns.
    pub difference: i64,
    /// The same, smoothed, in minimal round trips.
    pub gradient: f64,
    /// Which way.
    pub direction: Direction,
    /// Factor of a decrease; 0 otherwise.
    pub c: f64,
}

/// One sender.
#[derive(Clone, Debug)]
pub struct Timely {
    params: Params,
    window: Window,
    rate: u64,
    stage: u32,
    smoothed: f64,
    last_rtt: Nanos,
    last_update: u64,
}

impl Timely {
    /// A sender at line rate.
    pub fn new(params: Params, window: Window) -> Self {
        Self { params, window, rate: params.line_bps, stage: 0, smoothed: 0.0, last_rtt: 0, last_update: 0 }
    }

    /// Rate, bit/s.
    #[inline]
    pub fn rate_bps(&self) -> u64 {
        self.rate
    }

    /// Increases in a row.
    pub fn stage(&self) -> u32 {
        self.stage
    }

    /// Smoothed difference of round trips, ns.
    pub fn smoothed(&self) -> f64 {
        self.smoothed
    }

    /// Round trip the next one is compared with, ns.
    pub fn last_rtt(&self) -> Nanos {
        self.last_rtt
    }

    /// An acknowledgement beyond this byte ends a window.
    pub fn last_update(&self) -> u64 {
        self.last_update
    }

    /// Takes an acknowledgement; `None`: it ended no window.
    pub fn update(&mut self, ack: &Ack<'_>) -> Option<Update> {
        if ack.acked <= self.last_update {
            return None;
        }
        let update = if self.last_update == 0 {
            Update { moment: Moment::First, difference: 0, gradient: 0.0, direction: Direction::None, c: 0.0 }
        } else {
            self.follow(ack.rtt)
        };
        // After a step back the last round trip stays.
        if ack.next > self.last_update {
            (self.last_update, self.last_rtt) = (ack.next, ack.rtt);
        }
        Some(update)
    }

    fn follow(&mut self, rtt: Nanos) -> Update {
        let p = self.params;
        let difference = rtt as i64 - self.last_rtt as i64;
        self.smoothed = (1.0 - p.alpha) * self.smoothed + p.alpha * difference as f64;
        let gradient = self.smoothed / p.min_rtt as f64;
        let down = if rtt < p.t_low {
            None
        } else if rtt > p.t_high {
            Some(1.0 - p.beta * (1.0 - p.t_high as f64 / rtt as f64))
        } else if gradient <= 0.0 {
            None
        } else {
            Some((1.0 - p.beta * gradient).max(0.0))
        };
        let (direction, c) = match down {
            None => {
                let step = if self.stage < HYPER_AFTER { p.ai_bps } else { p.hai_bps };
                self.rate = self.rate.saturating_add(step).min(p.line_bps);
                self.stage += 1;
                (Direction::Up, 0.0)
            }
            Some(c) => {
                self.rate = ((self.rate as f64 * c) as u64).max(p.min_rate_bps);
                self.stage = 0;
                (Direction::Down, c)
            }
        };
        Update { moment: Moment::Full, difference, gradient, direction, c }
    }
}

impl CongestionControl for Timely {
    fn permit(&self) -> Permit {
        Permit::windowed(self.rate, self.window.at(self.rate, self.params.line_bps))
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.update(ack);
    }
}
