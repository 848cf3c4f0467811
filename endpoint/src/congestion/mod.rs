//! Congestion control of a sender, behind one trait.
//!
//! [`CongestionControl`] is what a sender asks and tells: how fast, how much in flight; what was sent, acknowledged,
//! notified. [`hpcc`], [`pint`], [`timely`] and [`dctcp`] are the senders of the published HPCC simulator
//! (alibaba-edu/High-Precision-Congestion-Control, 9f4be2a), bit for bit: every operation is an IEEE double rounded
//! once, in the order written. [`swift`] and [`nscc`] are the published algorithms, [`fixed_window`] none at all. DCQCN
//! ([`crate::dcqcn`]) implements the trait, too, and so does [`backoff`], the rule of RC Link, which firmware of an adapter can run instead.
//!
//! What these senders read of a path is in [`telemetry`]: the INT record of a hop, and the eight bits of PINT.
use std::fmt::Debug;

use weir_dataplane::types::Nanos;

pub mod backoff;
pub mod dctcp;
pub mod fixed_window;
pub mod hpcc;
pub mod nscc;
pub mod pint;
pub mod swift;
pub mod telemetry;
pub mod timely;

use crate::dcqcn::firmware::RateController;
use crate::dcqcn::scheme::UNLIMITED;
use telemetry::{INT_BYTES, IntHop, PINT_BYTES, TIME_BYTES};

/// No limit to the bytes in flight.
pub const UNLIMITED_WINDOW: u64 = u64::MAX;

/// What an acknowledgement tells its sender. Positions are bytes from the first one of the flow.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// When it arrived.
    pub now: Nanos,
    /// Everything before this byte has arrived.
    pub acked: u64,
    /// Next byte the sender will send.
    pub next: u64,
    /// Time since the data frame that caused it was sent, ns.
    pub rtt: Nanos,
    /// Data frames that came with congestion marked since the acknowledgement before.
    pub marks: u64,
    /// What the switches on its path recorded (INT), in the order of the path.
    pub hops: &'a [IntHop],
    /// The largest load code of its path (PINT).
    pub power: u16,
    /// A random draw: whether PINT's sample is heeded.
    pub draw: u32,
}

/// What a sender may do at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Rate, bit/s.
    pub rate_bps: u64,
    /// Bytes in flight; [`UNLIMITED_WINDOW`]: any.
    pub window: u64,
    /// Work requests in flight; [`UNLIMITED`]: any.
    pub requests: u32,
}

impl Permit {
    /// Work requests are not counted.
    pub fn windowed(rate_bps: u64, window: u64) -> Self {
        Self { rate_bps, window, requests: UNLIMITED }
    }
}

/// Decides how fast one flow sends.
pub trait CongestionControl: Debug + Send {
    /// What it may do now.
    fn permit(&self) -> Permit;

    /// An acknowledgement came.
    fn on_ack(&mut self, _: &Ack<'_>) {}

    /// A CNP came.
    fn on_cnp(&mut self, _now: Nanos) {}

    /// A frame of `bytes` (without FCS) was sent.
    fn on_sent(&mut self, _bytes: u64, _now: Nanos) {}

    /// An answer says that something was lost.
    fn on_loss(&mut self, _now: Nanos) {}

    /// No answer came in time.
    fn on_timeout(&mut self, now: Nanos) {
        self.on_loss(now);
    }

    /// When [`run_timers`](Self::run_timers) has something to do.
    fn next_timer(&self) -> Option<Nanos> {
        None
    }

    /// Runs what is due by `now`.
    fn run_timers(&mut self, _now: Nanos) {}

    /// The adapter it is, for whoever reads and writes its registers; `None`: it is none.
    fn rate_controller(&self) -> Option<&RateController> {
        None
    }

    /// The same.
    fn rate_controller_mut(&mut self) -> Option<&mut RateController> {
        None
    }
}

/// An algorithm that is driven by acknowledgements, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Algorithm {
    /// HPCC with INT.
    Hpcc(hpcc::Params, Window),
    /// HPCC with PINT.
    Pint(pint::Params, Window),
    /// TIMELY.
    Timely(timely::Params, Window),
    /// DCTCP.
    Dctcp(dctcp::Params, Window),
    /// Swift.
    Swift(swift::Params),
    /// NSCC of Ultra Ethernet.
    Nscc(nscc::Params),
    /// So many bytes in flight at this line rate, bit/s.
    FixedWindow {
        /// Line rate, bit/s.
        line_bps: u64,
        /// Bytes in flight.
        window: u64,
    },
}

impl Algorithm {
    /// A sender that has sent nothing.
    pub fn controller(&self) -> Box<dyn CongestionControl> {
        match *self {
            Self::Hpcc(params, window) => Box::new(hpcc::Hpcc::new(params, window)),
            Self::Pint(params, window) => Box::new(pint::Pint::new(params, window)),
            Self::Timely(params, window) => Box::new(timely::Timely::new(params, window)),
            Self::Dctcp(params, window) => Box::new(dctcp::Dctcp::new(params, window)),
            Self::Swift(params) => Box::new(swift::Swift::new(params)),
            Self::Nscc(params) => Box::new(nscc::Nscc::new(params)),
            Self::FixedWindow { line_bps, window } => {
                Box::new(fixed_window::FixedWindow::new(line_bps, window))
            }
        }
    }

    /// Bytes that a frame carries for it, behind its headers.
    pub fn header_bytes(&self) -> u16 {
        match self {
            Self::Hpcc(..) => INT_BYTES,
            Self::Pint(..) => PINT_BYTES,
            Self::Timely(..) | Self::Swift(_) | Self::Nscc(_) => TIME_BYTES,
            Self::Dctcp(..) | Self::FixedWindow { .. } => 0,
        }
    }
}

/// How the window of a rate-based sender follows its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// There is none.
    #[default]
    None,
    /// The bandwidth-delay product, whatever the rate.
    Fixed(u64),
    /// The same, scaled by the share the rate has of the line.
    Variable(u64),
}

impl Window {
    /// Bytes in flight at `rate` on a link of `line`, both bit/s.
    #[inline]
    pub fn at(self, rate: u64, line: u64) -> u64 {
        match self {
            Self::None => UNLIMITED_WINDOW,
            Self::Fixed(bytes) => bytes.max(1),
            Self::Variable(bytes) => {
                ((u128::from(bytes) * u128::from(rate) / u128::from(line.max(1))) as u64).max(1)
            }
        }
    }
}

/// `kind` of an update: the first acknowledgement of a flow, the one that ends a window, one between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nothing is known yet: state is saved, no rate is computed.
    First,
    /// A window of data has been acknowledged since the last one.
    Full,
    /// Between two of those.
    Between,
}

/// The rule that HPCC and HPCC-PINT share: towards the target utilisation by a factor, or one step up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Steer {
    /// Line rate, bit/s.
    pub line_bps: u64,
    /// Lowest rate, bit/s.
    pub min_rate_bps: u64,
    /// Added in every step, bit/s.
    pub ai_bps: u64,
    /// Additive steps in a row before one by a factor.
    pub mi_thresh: u32,
}

impl Steer {
    /// The rate and stage after `rate` with stage `stage` when the load is `c` times the target.
    #[inline]
    pub fn step(&self, rate: u64, stage: u32, c: f64) -> (u64, u32) {
        let (next, stage) = if c >= 1.0 || stage >= self.mi_thresh {
            (((rate as f64 / c) as u64).saturating_add(self.ai_bps), 0)
        } else {
            (rate.saturating_add(self.ai_bps), stage + 1)
        };
        (next.max(self.min_rate_bps).min(self.line_bps), stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_follows_the_rate_unless_it_is_fixed() {
        assert_eq!(Window::Variable(52_000).at(50_615_000_000, 100_000_000_000), 26_319);
        assert_eq!(Window::Fixed(52_000).at(1, 100), 52_000);
        assert_eq!(Window::Variable(52_000).at(1, 100_000_000_000), 1, "never nothing");
        assert_eq!(Window::None.at(1, 1), UNLIMITED_WINDOW);
    }
}
