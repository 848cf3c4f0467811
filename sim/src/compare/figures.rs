//! What is compared of a run.

use super::side::{Side, mean};
use crate::fabric::{Level, Spread};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers of a run, called as in [`crate::fabric::Summary`], which says what they are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Figures {
    pub end_ns: u64,
    pub flows_done: u64,
    pub completion_ns: Option<u64>,
    pub fct_ns: Option<Spread>,
    pub slowdown_milli: Option<Spread>,
    #[serde(default)]
    pub level: Level,
    pub frames_sent: Option<u64>,
    pub frames_dropped: Option<u64>,
    pub frames_lost: Option<u64>,
    pub frames_resent: Option<u64>,
    pub pfc_pauses: Option<u64>,
    pub host_paused_ns: Option<u64>,
    pub ecn_marks: Option<u64>,
    pub queue_max_bytes: Option<u64>,
    #[serde(default)]
    pub collectives: Vec<CollectiveFigures>,
}

/// What is compared of a collective, called as in [`crate::fabric::CollectiveSummary`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct CollectiveFigures {
    pub workload: usize,
    pub kind: String,
    pub time_ns: Option<u64>,
    pub algbw_bytes_per_s: Option<u64>,
    pub busbw_bytes_per_s: Option<u64>,
    pub straggler: Option<Late>,
}

/// By how much the straggler of a collective was late.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct Late {
    pub late_ns: u64,
}

impl Figures {
    /// Kinds of the collectives of a workload, in the order in which they first come.
    fn kinds(&self, workload: usize) -> Vec<&str> {
        let mut kinds = Vec::new();
        for collective in self.collectives.iter().filter(|c| c.workload == workload) {
            if !kinds.contains(&collective.kind.as_str()) {
                kinds.push(&collective.kind);
            }
        }
        kinds
    }

    /// Mean of what `of` says of all collectives of the `nth` kind of a workload; `None`: of one it says nothing.
    fn of_collectives(
        &self,
        (workload, nth): (usize, usize),
        of: fn(&CollectiveFigures) -> Option<f64>,
    ) -> Option<f64> {
        let kinds = self.kinds(workload);
        let kind = kinds.get(nth)?;
        let all = self.collectives.iter().filter(|c| c.workload == workload && c.kind == *kind);
        mean(all.map(of).collect::<Option<Vec<f64>>>()?.into_iter())
    }
}

/// Where a figure is from.
#[derive(Clone, Copy, Debug)]
enum Of {
    Run(fn(&Figures) -> Option<f64>),
    /// A workload, and which of the kinds of its collectives.
    Collectives((usize, usize), fn(&CollectiveFigures) -> Option<f64>),
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// Name, with its unit.
    pub name: String,
    /// Its value, in the unit it is shown in.
    of: Of,
    /// Digits behind the point.
    digits: usize,
}

/// Nanoseconds as microseconds, thousandths as ones.
fn thousandth(value: u64) -> Option<f64> {
    Some(value as f64 / 1e3)
}

fn count(value: u64) -> Option<f64> {
    Some(value as f64)
}

/// Name, digits, value of a collective.
type OfCollective = (&'static str, usize, fn(&CollectiveFigures) -> Option<f64>);

/// Name, digits, value of a run.
type OfRun = (&'static str, usize, fn(&Figures) -> Option<f64>);

const OF_RUNS: [OfRun; 15] = [
    ("flows delivered", 0, |f| count(f.flows_done)),
    ("completion of all, us", 1, |f| thousandth(f.completion_ns?)),
    ("FCT p50, us", 1, |f| thousandth(f.fct_ns?.p50)),
    ("FCT p99, us", 1, |f| thousandth(f.fct_ns?.p99)),
    ("FCT max, us", 1, |f| thousandth(f.fct_ns?.max)),
    ("slowdown p50", 2, |f| thousandth(f.slowdown_milli?.p50)),
    ("slowdown p99", 2, |f| thousandth(f.slowdown_milli?.p99)),
    ("data frames sent", 0, |f| count(f.frames_sent?)),
    ("frames sent again", 0, |f| count(f.frames_resent?)),
    ("frames dropped by switches", 0, |f| count(f.frames_dropped?)),
    ("frames lost on links", 0, |f| count(f.frames_lost?)),
    ("pause frames of switches", 0, |f| count(f.pfc_pauses?)),
    ("longest pause share of a host, %", 1, |f| {
        Some(f.host_paused_ns? as f64 / f.end_ns.max(1) as f64 * 100.0)
    }),
    ("marks", 0, |f| count(f.ecn_marks?)),
    ("longest queue, bytes", 0, |f| count(f.queue_max_bytes?)),
];

/// The same of the collectives of a workload.
const OF_COLLECTIVES: [OfCollective; 4] = [
    ("time, us", 1, |c| thousandth(c.time_ns?)),
    ("algbw, GB/s", 2, |c| Some(c.algbw_bytes_per_s? as f64 / 1e9)),
    ("busbw, GB/s", 2, |c| Some(c.busbw_bytes_per_s? as f64 / 1e9)),
    ("straggler late by, us", 1, |c| {
        c.time_ns?;
        thousandth(c.straggler.map_or(0, |late| late.late_ns))
    }),
];

/// All that is compared of these settings: figures of runs, then those of collectives, which are the same where they are of one
/// workload, whatever algorithm it has.
pub(super) fn of(sides: &[Side]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = OF_RUNS
        .iter()
        .map(|(name, digits, of)| Figure { name: (*name).to_owned(), of: Of::Run(*of), digits: *digits })
        .collect();
    let mut named: BTreeMap<(usize, usize), Vec<&str>> = BTreeMap::new();
    for run in sides.iter().flat_map(|side| side.runs.values()) {
        let workloads: BTreeSet<usize> = run.figures.collectives.iter().map(|c| c.workload).collect();
        for workload in workloads {
            for (nth, kind) in run.figures.kinds(workload).into_iter().enumerate() {
                let kinds = named.entry((workload, nth)).or_default();
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
    }
    let several = named.keys().any(|(workload, _)| Some(*workload) != named.keys().next().map(|(w, _)| *w));
    for (at, kinds) in named {
        let place = if several { format!("workload {}, ", at.0) } else { String::new() };
        let kinds = kinds.join(" / ");
        let known = |of: fn(&CollectiveFigures) -> Option<f64>| {
            let mut runs = sides.iter().flat_map(|side| side.runs.values());
            runs.any(|run| run.figures.of_collectives(at, of).is_some())
        };
        // What has no bus bandwidth, or no size, has no row of it.
        let rows = OF_COLLECTIVES.iter().filter(|(_, _, of)| known(*of));
        figures.extend(rows.map(|(name, digits, of)| Figure {
            name: format!("{place}{kinds}: {name}"),
            of: Of::Collectives(at, *of),
            digits: *digits,
        }));
    }
    figures
}

impl Figure {
    /// Its value of a run; `None`: the run has none.
    pub fn of(&self, figures: &Figures) -> Option<f64> {
        match self.of {
            Of::Run(of) => of(figures),
            Of::Collectives(at, of) => figures.of_collectives(at, of),
        }
    }

    /// A value, or the mean of several, as text.
    pub fn text(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return "-".into() };
        // The mean of whole numbers need not be one.
        let digits = if value.fract() == 0.0 { self.digits } else { self.digits.max(1) };
        format!("{value:.digits$}")
    }
}
