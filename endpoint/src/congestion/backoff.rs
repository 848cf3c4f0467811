//! What software does about a CNP (SW-042): a lower rate, then a higher one again, step by step.
//!
//! The published description of RC Link ends where the CNP is reported upward. The rule here is ours, and the plainest that
//! shares a link: halve, at most once per period; then add the same amount per period until all is back. It counts in
//! any unit of rate: queue pairs of RC Link in bytes per window, firmware of an adapter ([`crate::dcqcn::firmware`]), as
//! [`CongestionControl`], in bit/s.

use super::{CongestionControl, Permit, UNLIMITED_WINDOW};
use thiserror::Error;
use weir_dataplane::types::Nanos;

/// How a queue pair backs off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffParams {
    /// A CNP leaves at least this rate.
    pub least: u64,
    /// One cut per such time, ns, however many CNPs.
    pub cut_period: Nanos,
    /// A raise after each such time without a cut, ns.
    pub raise_period: Nanos,
    /// Rate that a raise adds.
    pub raise: u64,
}

/// Parameters with which nothing would ever be sent, or never faster again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("back-off: {least} at least of {full}, raised by {raise} every {period} ns: none may be 0")]
pub struct BackoffError {
    least: u64,
    full: u64,
    raise: u64,
    period: Nanos,
}

/// The rate of one queue pair.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    params: BackoffParams,
    full: u64,
    rate: u64,
    /// No cut before this time.
    settled_at: Nanos,
    raise_at: Option<Nanos>,
}

impl BackoffParams {
    fn check(&self, full: u64) -> Result<(), BackoffError> {
        let Self { least, raise, raise_period: period, .. } = *self;
        match (1..=full).contains(&least) && raise > 0 && period > 0 {
            true => Ok(()),
            false => Err(BackoffError { least, full, raise, period }),
        }
    }
}

impl Backoff {
    /// `full` is its rate without congestion.
    ///
    /// # Errors
    /// A period, step or rate of zero, or a lowest rate above the full one.
    pub fn new(params: BackoffParams, full: u64) -> Result<Self, BackoffError> {
        params.check(full)?;
        Ok(Self { params, full, rate: full, settled_at: 0, raise_at: None })
    }

    /// Other parameters from now on. The rate goes on from where it is, within its new bounds.
    ///
    /// # Errors
    /// As for [`Self::new`]; nothing is changed.
    pub fn configure(&mut self, params: BackoffParams, full: u64, now: Nanos) -> Result<(), BackoffError> {
        params.check(full)?;
        (self.params, self.full) = (params, full);
        self.set_rate(self.rate, now);
        Ok(())
    }

    /// Its rate now.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Goes on from this rate, within its bounds.
    pub fn set_rate(&mut self, rate: u64, now: Nanos) {
        self.rate = rate.clamp(self.params.least, self.full);
        let next = || now.saturating_add(self.params.raise_period);
        self.raise_at = (self.rate < self.full).then(|| self.raise_at.unwrap_or_else(next));
    }

    /// A CNP was reported.
    pub fn on_cnp(&mut self, now: Nanos) {
        if now < self.settled_at {
            return;
        }
        self.rate = (self.rate / 2).max(self.params.least);
        self.settled_at = now.saturating_add(self.params.cut_period);
        self.raise_at = Some(now.saturating_add(self.params.raise_period));
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Option<Nanos> {
        self.raise_at
    }

    /// Raises what is due by `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        while let Some(at) = self.raise_at.filter(|at| *at <= now) {
            self.rate = self.rate.saturating_add(self.params.raise).min(self.full);
            self.raise_at = (self.rate < self.full).then(|| at.saturating_add(self.params.raise_period));
        }
    }
}

/// Rates are bit/s.
impl CongestionControl for Backoff {
    fn permit(&self) -> Permit {
        Permit::windowed(self.rate, UNLIMITED_WINDOW)
    }

    fn on_cnp(&mut self, now: Nanos) {
        Self::on_cnp(self, now);
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.next_timeout()
    }

    fn run_timers(&mut self, now: Nanos) {
        self.handle_timeout(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: BackoffParams = BackoffParams { least: 100, cut_period: 50, raise_period: 30, raise: 200 };

    #[test]
    fn sw042_a_cnp_halves_once_per_period_and_time_gives_back() {
        let mut backoff = Backoff::new(PARAMS, 1000).unwrap();
        backoff.on_cnp(10);
        backoff.on_cnp(59);
        assert_eq!(backoff.rate(), 500);
        backoff.handle_timeout(39);
        assert_eq!(backoff.rate(), 500);
        backoff.handle_timeout(40);
        assert_eq!(backoff.rate(), 700);
        backoff.on_cnp(60);
        assert_eq!((backoff.rate(), backoff.next_timeout()), (350, Some(90)));
        // Long asleep: as if it had looked in time.
        backoff.handle_timeout(1_000_000);
        assert_eq!((backoff.rate(), backoff.next_timeout()), (1000, None));
        (0..9).for_each(|i| backoff.on_cnp(2_000_000 + i * 50));
        assert_eq!(backoff.rate(), 100);
    }

    #[test]
    fn a_rate_that_is_set_stays_within_its_bounds_and_rises() {
        let mut backoff = Backoff::new(PARAMS, 1000).unwrap();
        backoff.set_rate(300, 0);
        assert_eq!((backoff.rate(), backoff.next_timeout()), (300, Some(30)));
        backoff.configure(BackoffParams { least: 400, ..PARAMS }, 800, 10).unwrap();
        assert_eq!(
            (backoff.rate(), backoff.next_timeout()),
            (400, Some(30)),
            "a timer that runs ends when it was to"
        );
        assert!(backoff.configure(BackoffParams { raise: 0, ..PARAMS }, 800, 10).is_err());
        backoff.set_rate(5000, 20);
        assert_eq!((backoff.rate(), backoff.next_timeout()), (800, None));
    }

    #[test]
    fn parameters_that_stop_a_flow_are_refused() {
        for params in [
            BackoffParams { least: 0, ..PARAMS },
            BackoffParams { least: 1001, ..PARAMS },
            BackoffParams { raise: 0, ..PARAMS },
            BackoffParams { raise_period: 0, ..PARAMS },
        ] {
            assert!(Backoff::new(params, 1000).is_err(), "{params:?}");
        }
    }
}
