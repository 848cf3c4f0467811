//! What is compared of a run.

use crate::fabric::Spread;
use serde::Deserialize;

/// Numbers of a run, called as in [`crate::fabric::Summary`], which says what they are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Figures {
    pub end_ns: u64,
    pub flows_done: u64,
    pub completion_ns: Option<u64>,
    pub fct_ns: Option<Spread>,
    pub slowdown_milli: Option<Spread>,
    pub frames_sent: u64,
    pub frames_dropped: u64,
    pub frames_lost: u64,
    pub frames_resent: u64,
    pub pfc_pauses: u64,
    pub host_paused_ns: u64,
    pub ecn_marks: u64,
    pub queue_max_bytes: u64,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    /// Name, with its unit.
    pub name: &'static str,
    /// Its value of a run, in the unit it is shown in; `None`: the run has none.
    pub of: fn(&Figures) -> Option<f64>,
    /// Digits behind the point.
    digits: usize,
}

const fn figure(name: &'static str, digits: usize, of: fn(&Figures) -> Option<f64>) -> Figure {
    Figure { name, of, digits }
}

/// Nanoseconds as microseconds, thousandths as ones.
fn thousandth(value: u64) -> Option<f64> {
    Some(value as f64 / 1e3)
}

fn count(value: u64) -> Option<f64> {
    Some(value as f64)
}

pub(super) const FIGURES: [Figure; 15] = [
    figure("flows delivered", 0, |f| count(f.flows_done)),
    figure("completion of all, us", 1, |f| thousandth(f.completion_ns?)),
    figure("FCT p50, us", 1, |f| thousandth(f.fct_ns?.p50)),
    figure("FCT p99, us", 1, |f| thousandth(f.fct_ns?.p99)),
    figure("FCT max, us", 1, |f| thousandth(f.fct_ns?.max)),
    figure("slowdown p50", 2, |f| thousandth(f.slowdown_milli?.p50)),
    figure("slowdown p99", 2, |f| thousandth(f.slowdown_milli?.p99)),
    figure("data frames sent", 0, |f| count(f.frames_sent)),
    figure("frames sent again", 0, |f| count(f.frames_resent)),
    figure("frames dropped by switches", 0, |f| count(f.frames_dropped)),
    figure("frames lost on links", 0, |f| count(f.frames_lost)),
    figure("pause frames of switches", 0, |f| count(f.pfc_pauses)),
    figure("longest pause share of a host, %", 1, |f| {
        Some(f.host_paused_ns as f64 / f.end_ns.max(1) as f64 * 100.0)
    }),
    figure("marks", 0, |f| count(f.ecn_marks)),
    figure("longest queue, bytes", 0, |f| count(f.queue_max_bytes)),
];

impl Figure {
    /// A value, or the mean of several, as text.
    pub fn text(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return "-".into() };
        // The mean of whole numbers need not be one.
        let digits = if value.fract() == 0.0 { self.digits } else { self.digits.max(1) };
        format!("{value:.digits$}")
    }
}
