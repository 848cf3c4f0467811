//! The DCQCN sender of the published HPCC simulator ("Mellanox" variant), exact to the bit.
//!
//! A pure state machine: it owns no clock and no queue. Its three timers are armed through
//! [`Timers`], in the order in which the reference schedules them, because equal times run in the
//! order of scheduling.
//!
//! Known differences from the published algorithm: alpha moves before the cut (the check runs 1 ns
//! after the alpha grid); the cut waits for the next check instead of happening at the CNP; alpha
//! moves only on its own grid; there is no byte counter; there is one additive step only, hyper
//! increase after it.
use std::num::NonZeroU64;

use weir_dataplane::types::Nanos;

/// What one sender is configured with. Rates in bit/s, periods in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Line rate: the rate of an unharmed flow and the ceiling of the target.
    pub line_bps: u64,
    /// Gain of the alpha estimate, in `(0, 1]`.
    pub g: f64,
    /// Period of the alpha timer.
    pub alpha_period: NonZeroU64,
    /// Period of the rate-decrease check.
    pub decrease_period: NonZeroU64,
    /// Period of the rate-increase timer, counted from the last cut.
    pub increase_period: NonZeroU64,
    /// Increase steps in which the target stays as it is.
    pub fast_recovery_steps: u32,
    /// Additive increase of the target.
    pub ai_bps: u64,
    /// Hyper increase of the target.
    pub hai_bps: u64,
    /// Floor of the rate after a cut.
    pub min_rate_bps: u64,
    /// Every cut pulls the target down to the rate, even when no increase came since the last cut.
    pub clamp_target: bool,
    /// Fraction of the rate kept at the first CNP.
    pub rate_on_first_cnp: f64,
}

impl Default for Params {
    /// The reference's preset for 100 Gb/s.
    fn default() -> Self {
        let us = |n: u64| NonZeroU64::MIN.saturating_add(n * 1000 - 1);
        Self {
            line_bps: 100_000_000_000,
            g: 1.0 / 256.0,
            alpha_period: us(1),
            decrease_period: us(4),
            increase_period: us(300),
            fast_recovery_steps: 1,
            ai_bps: 20_000_000,
            hai_bps: 200_000_000,
            min_rate_bps: 1_000_000_000,
            clamp_target: false,
            rate_on_first_cnp: 1.0,
        }
    }
}

/// The three timers of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Moves alpha, every [`Params::alpha_period`] from the first CNP on.
    Alpha,
    /// Looks for CNPs and cuts, every [`Params::decrease_period`], 1 ns off the first CNP.
    Decrease,
    /// Raises the rate, every [`Params::increase_period`] after the last cut.
    Increase,
}

/// Where a sender arms its timers.
pub trait Timers {
    /// Runs `timer` at `at`, absolute. A pending run of the same timer is cancelled by this.
    fn arm(&mut self, timer: Timer, at: Nanos);
}

/// What a stimulus did to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first CNP of the flow: the timers start.
    First,
    /// A later CNP: remembered until the timers look.
    Cnp,
    /// Alpha moved.
    Alpha,
    /// The check found a CNP and cut the rate.
    Cut,
    /// The check found none.
    NoCut,
    /// The rate was raised.
    Raise,
}

/// State of one sender. All timers stop when their owner stops firing them (flow complete).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    rate_bps: u64,
    target_bps: u64,
    alpha: f64,
    stage: u32,
    seen_by_alpha: bool,
    seen_by_decrease: bool,
    started: bool,
}

impl Sender {
    /// A sender at line rate with no timer armed.
    pub fn new(params: &Params) -> Self {
        Self {
            rate_bps: params.line_bps,
            target_bps: params.line_bps,
            alpha: 1.0,
            stage: 0,
            seen_by_alpha: false,
            seen_by_decrease: false,
            started: false,
        }
    }

    /// Current sending rate, bit/s.
    #[inline]
    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// Rate the increase steps move towards, bit/s.
    pub fn target_bps(&self) -> u64 {
        self.target_bps
    }

    /// Congestion estimate, 0 to 1.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Increase steps since the last cut.
    pub fn stage(&self) -> u32 {
        self.stage
    }

    /// Whether a CNP has come since the last cut: the next decrease check will cut.
    #[inline]
    pub fn cut_due(&self) -> bool {
        self.seen_by_decrease
    }

    /// Whether the first CNP has come and the timers run.
    #[inline]
    pub fn started(&self) -> bool {
        self.started
    }

    /// A CNP at `now`. The first one starts the timers; no CNP cuts by itself.
    pub fn on_cnp(&mut self, params: &Params, now: Nanos, timers: &mut impl Timers) -> Step {
        self.seen_by_alpha = true;
        self.seen_by_decrease = true;
        if self.started {
            return Step::Cnp;
        }
        self.started = true;
        self.alpha = 1.0;
        self.seen_by_alpha = false;
        timers.arm(Timer::Alpha, now + params.alpha_period.get());
        timers.arm(Timer::Decrease, now + params.decrease_period.get() + 1);
        self.rate_bps = scaled(self.rate_bps, params.rate_on_first_cnp);
        self.target_bps = self.rate_bps;
        Step::First
    }

    /// `timer` ran at `now`. It re-arms itself before it does its work.
    pub fn on_timer(&mut self, params: &Params, timer: Timer, now: Nanos, timers: &mut impl Timers) -> Step {
        match timer {
            Timer::Alpha => {
                timers.arm(Timer::Alpha, now + params.alpha_period.get());
                self.move_alpha(params, 1);
                Step::Alpha
            }
            Timer::Decrease => {
                timers.arm(Timer::Decrease, now + params.decrease_period.get());
                if !self.seen_by_decrease {
                    return Step::NoCut;
                }
                self.cut(params);
                timers.arm(Timer::Increase, now + params.increase_period.get());
                Step::Cut
            }
            Timer::Increase => {
                timers.arm(Timer::Increase, now + params.increase_period.get());
                self.raise(params);
                Step::Raise
            }
        }
    }

    /// `ticks` runs of the alpha timer with no CNP between them. A caller that knows no CNP came may
    /// so skip the timer's events and catch up when alpha is read: each tick rounds as a run would.
    pub fn move_alpha(&mut self, params: &Params, ticks: u64) {
        let keep = 1.0 - params.g;
        let mut left = ticks;
        if left > 0 && std::mem::take(&mut self.seen_by_alpha) {
            self.alpha = keep * self.alpha + params.g;
            left -= 1;
        }
        while left > 0 {
            let next = keep * self.alpha;
            if next == self.alpha {
                return; // zero, or the smallest number the product rounds back to
            }
            self.alpha = next;
            left -= 1;
        }
    }

    fn cut(&mut self, params: &Params) {
        if params.clamp_target || self.stage != 0 {
            self.target_bps = self.rate_bps;
        }
        self.rate_bps = scaled(self.rate_bps, 1.0 - self.alpha / 2.0).max(params.min_rate_bps);
        self.stage = 0;
        self.seen_by_decrease = false;
    }

    fn raise(&mut self, params: &Params) {
        let step = match self.stage.cmp(&params.fast_recovery_steps) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => params.ai_bps,
            std::cmp::Ordering::Greater => params.hai_bps,
        };
        if step > 0 {
            self.target_bps = params.line_bps.min(self.target_bps + step);
        }
        self.rate_bps = self.rate_bps / 2 + self.target_bps / 2;
        self.stage += 1;
    }
}

/// `rate * factor` in double, truncated: how the reference computes every rate.
fn scaled(rate: u64, factor: f64) -> u64 {
    (rate as f64 * factor) as u64
}
