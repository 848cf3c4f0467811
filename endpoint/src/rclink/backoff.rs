//! What software does about a CNP (SW-042): fewer bytes per window, then more again, step by step.
//!
//! The published description ends where the CNP is reported upward. The rule here is ours, and the plainest that
//! shares a link: halve, at most once per period; then add the same amount per period until all is back.

use thiserror::Error;
use weir_dataplane::types::Nanos;

/// How a queue pair backs off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffParams {
    /// A CNP leaves at least this many bytes per window.
    pub least: u32,
    /// One cut per such time, ns, however many CNPs.
    pub cut_period: Nanos,
    /// A raise after each such time without a cut, ns.
    pub raise_period: Nanos,
    /// Bytes per window of a raise.
    pub raise: u32,
}

/// Parameters with which nothing would ever be sent, or never faster again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("back-off: {least} bytes at least of {full}, raised by {raise} every {period} ns: none may be 0")]
pub struct BackoffError {
    least: u32,
    full: u32,
    raise: u32,
    period: Nanos,
}

/// The bytes per window of one queue pair.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    params: BackoffParams,
    full: u32,
    threshold: u32,
    /// No cut before this time.
    settled_at: Nanos,
    raise_at: Option<Nanos>,
}

impl Backoff {
    /// `full` bytes per window without congestion.
    ///
    /// # Errors
    /// A period, step or rate of zero, or a lowest rate above the full one.
    pub fn new(params: BackoffParams, full: u32) -> Result<Self, BackoffError> {
        let BackoffParams { least, raise, raise_period: period, .. } = params;
        if !(1..=full).contains(&least) || raise == 0 || period == 0 {
            return Err(BackoffError { least, full, raise, period });
        }
        Ok(Self { params, full, threshold: full, settled_at: 0, raise_at: None })
    }

    /// Bytes per window now.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// A CNP was reported.
    pub fn on_cnp(&mut self, now: Nanos) {
        if now < self.settled_at {
            return;
        }
        self.threshold = (self.threshold / 2).max(self.params.least);
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
            self.threshold = self.threshold.saturating_add(self.params.raise).min(self.full);
            self.raise_at = (self.threshold < self.full).then(|| at.saturating_add(self.params.raise_period));
        }
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
        assert_eq!(backoff.threshold(), 500);
        backoff.handle_timeout(39);
        assert_eq!(backoff.threshold(), 500);
        backoff.handle_timeout(40);
        assert_eq!(backoff.threshold(), 700);
        backoff.on_cnp(60);
        assert_eq!((backoff.threshold(), backoff.next_timeout()), (350, Some(90)));
        // Long asleep: as if it had looked in time.
        backoff.handle_timeout(1_000_000);
        assert_eq!((backoff.threshold(), backoff.next_timeout()), (1000, None));
        (0..9).for_each(|i| backoff.on_cnp(2_000_000 + i * 50));
        assert_eq!(backoff.threshold(), 100);
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
