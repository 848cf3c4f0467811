//! What is compared of a run.

use super::side::{Side, mean};
use crate::fabric::{Level, Spread};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use weir_layout::Unit;

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
    pub host_pfc_frames: Option<u64>,
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
    /// Its value, in the base unit.
    of: Of,
    /// What it is shown in.
    unit: Unit,
}

fn some(value: u64) -> Option<f64> {
    Some(value as f64)
}

/// Name, unit, value of a collective.
type OfCollective = (&'static str, Unit, fn(&CollectiveFigures) -> Option<f64>);

/// Name, unit, value of a run.
type OfRun = (&'static str, Unit, fn(&Figures) -> Option<f64>);

const OF_RUNS: [OfRun; 16] = [
    ("flows delivered", Unit::NONE, |f| some(f.flows_done)),
    ("completion of all", Unit::US, |f| some(f.completion_ns?)),
    ("FCT p50", Unit::US, |f| some(f.fct_ns?.p50)),
    ("FCT p99", Unit::US, |f| some(f.fct_ns?.p99)),
    ("FCT max", Unit::US, |f| some(f.fct_ns?.max)),
    ("slowdown p50", Unit::MILLI, |f| some(f.slowdown_milli?.p50)),
    ("slowdown p99", Unit::MILLI, |f| some(f.slowdown_milli?.p99)),
    ("frames sent, each hop", Unit::NONE, |f| some(f.frames_sent?)),
    ("frames sent again", Unit::NONE, |f| some(f.frames_resent?)),
    ("frames dropped by switches", Unit::NONE, |f| some(f.frames_dropped?)),
    ("frames lost on links", Unit::NONE, |f| some(f.frames_lost?)),
    ("pause frames of switches", Unit::NONE, |f| some(f.pfc_pauses?)),
    ("PFC frames of hosts", Unit::NONE, |f| f.pfc_pauses.and(some(f.host_pfc_frames.unwrap_or(0)))),
    ("longest pause share of a host", Unit::PERCENT, |f| {
        Some(f.host_paused_ns? as f64 / f.end_ns.max(1) as f64)
    }),
    ("marks", Unit::NONE, |f| some(f.ecn_marks?)),
    ("longest queue", Unit::BYTES, |f| some(f.queue_max_bytes?)),
];

/// The same of the collectives of a workload.
const OF_COLLECTIVES: [OfCollective; 4] = [
    ("time", Unit::US, |c| some(c.time_ns?)),
    ("algbw", Unit::GBYTES, |c| some(c.algbw_bytes_per_s?)),
    ("busbw", Unit::GBYTES, |c| some(c.busbw_bytes_per_s?)),
    ("straggler late by", Unit::US, |c| {
        c.time_ns?;
        some(c.straggler.map_or(0, |late| late.late_ns))
    }),
];

/// `FCT p50, us`
fn called(name: &str, unit: Unit) -> String {
    if unit.name().is_empty() { name.to_owned() } else { format!("{name}, {}", unit.name()) }
}

/// All that is compared of these settings: figures of runs, then those of collectives, which are the same where they are of one
/// workload, whatever algorithm it has.
pub(super) fn of(sides: &[Side]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = OF_RUNS
        .iter()
        .map(|(name, unit, of)| Figure { name: called(name, *unit), of: Of::Run(*of), unit: *unit })
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
        figures.extend(rows.map(|(name, unit, of)| Figure {
            name: format!("{place}{kinds}: {}", called(name, *unit)),
            of: Of::Collectives(at, *of),
            unit: *unit,
        }));
    }
    figures
}

impl Figure {
    /// Its value of a run, in its unit; `None`: the run has none.
    pub fn of(&self, figures: &Figures) -> Option<f64> {
        let base = match self.of {
            Of::Run(of) => of(figures),
            Of::Collectives(at, of) => figures.of_collectives(at, of),
        };
        base.map(|base| self.unit.of(base))
    }

    /// A value in its unit, or the mean of several, as text.
    pub fn text(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return "-".into() };
        // The mean of whole numbers need not be one.
        self.unit.written(value, usize::from(value.fract() != 0.0))
    }
}
