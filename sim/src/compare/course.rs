//! Flows, ports and queues of a run, as they lie in a report or in tables.

use crate::fabric::{FlowsFormat, Timeline, read_columns, slowdown_milli};
use crate::sweep::SweepError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// The flows, ports and course of a run, or of all runs of a setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Course {
    /// Of each flow that was delivered, ns.
    pub fct_ns: Vec<u64>,
    /// The same over what it takes alone on its path, in thousandths.
    pub slowdown_milli: Vec<u64>,
    /// Of each port of a switch: share of the run in which it held its peer back, in millionths.
    pub paused_ppm: Vec<u64>,
    /// Of each run with frames whose report was kept, by rising seed.
    pub queues: Vec<QueuePeaks>,
}

/// Longest queue of any port within each interval of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueuePeaks {
    /// Length of an interval, ns: a power of 2, by the length of the run.
    pub period_ns: u64,
    /// End of the run, ns.
    pub end_ns: u64,
    /// Of each interval the longest queue, bytes, and the length, ns: that of the last one ends with the run.
    pub peaks: Vec<(u64, u64)>,
}

impl QueuePeaks {
    pub fn new(timeline: &Timeline, end_ns: u64) -> Self {
        let period_ns = timeline.period_ns;
        let length = |k: usize| period_ns.min(end_ns.saturating_sub(period_ns.saturating_mul(k as u64)));
        let mut peaks: Vec<_> =
            timeline.depth_max.iter().enumerate().map(|(k, peak)| (*peak, length(k))).collect();
        if peaks.is_empty() {
            // Nothing ever waited.
            peaks.push((0, end_ns));
        }
        Self { period_ns, end_ns, peaks }
    }

    /// Of intervals of `period_ns`, which is no shorter than its own: longer ones have longer queues, so those of several runs
    /// are compared by intervals of one length.
    pub fn widened(&self, period_ns: u64) -> impl Iterator<Item = (u64, u64)> {
        let of_one = (period_ns / self.period_ns.max(1)).max(1);
        let chunks = self.peaks.chunks(usize::try_from(of_one).unwrap_or(usize::MAX));
        chunks.map(|chunk| chunk.iter().fold((0, 0), |(peak, length), one| (peak.max(one.0), length + one.1)))
    }
}

/// What is read of a flow.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct FlowTimes {
    pub fct_ns: Option<u64>,
    pub ideal_ns: Option<u64>,
}

/// What is read of a line of ports.csv.
#[derive(Debug, Deserialize)]
struct PortTimes {
    tx_paused_ns: Option<u64>,
    end_ns: u64,
}

/// `part` of `whole`, in so many.
fn share(part: u64, whole: u64, of: u128) -> u64 {
    u64::try_from(u128::from(part) * of / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

impl Course {
    /// Of flows, the times in which ports held their peers back, and the queues of a run that ended at `end_ns`.
    pub fn new(
        end_ns: u64,
        flows: impl Iterator<Item = FlowTimes>,
        paused_ns: impl Iterator<Item = u64>,
        queues: Option<QueuePeaks>,
    ) -> Self {
        let done = flows.filter_map(|f| Some((f.fct_ns?, slowdown_milli(f.fct_ns?, f.ideal_ns?))));
        let (fct_ns, slowdown_milli) = done.unzip();
        Self {
            fct_ns,
            slowdown_milli,
            paused_ppm: paused_ns.map(|paused| share(paused, end_ns, 1_000_000)).collect(),
            queues: queues.into_iter().collect(),
        }
    }

    /// Of the tables that a sweep keeps in `folder` of a run that delivered so many flows; `None`: there are none.
    ///
    /// # Errors
    /// A table that is cut short.
    pub fn of_tables(folder: &Path, delivered: u64) -> Result<Option<Self>, SweepError> {
        let tables = [FlowsFormat::Csv, FlowsFormat::Parquet].map(|format| folder.join(format.file()));
        let Some(table) = tables.into_iter().find(|table| table.exists()) else { return Ok(None) };
        let flows = flows_in(folder).unwrap_or_default();
        let ports = folder.join("ports.csv");
        // A run without ports, at flow level say, has no table of them.
        let lines = if ports.exists() { rows(&ports) } else { Some(Vec::new()) };
        let lines: Vec<PortTimes> = lines.ok_or_else(|| SweepError::Damaged {
            path: ports,
            problem: "a line of it cannot be read".into(),
        })?;
        let end_ns = lines.first().map_or(0, |port| port.end_ns);
        let course = Self::new(
            end_ns,
            flows.into_iter(),
            lines.into_iter().filter_map(|port| port.tx_paused_ns),
            None,
        );
        let listed = course.fct_ns.len() as u64;
        if listed != delivered {
            let problem = format!("cut short: {listed} of {delivered} delivered flows can be read");
            return Err(SweepError::Damaged { path: table, problem });
        }
        Ok(Some(course))
    }

    /// With those of a run with a higher seed.
    pub fn join(mut self, other: Self) -> Self {
        self.fct_ns.extend(other.fct_ns);
        self.slowdown_milli.extend(other.slowdown_milli);
        self.paused_ppm.extend(other.paused_ppm);
        self.queues.extend(other.queues);
        self
    }
}

/// Those of the table of flows in `folder`, in either format.
fn flows_in(folder: &Path) -> Option<Vec<FlowTimes>> {
    let columns = || {
        let path = folder.join(FlowsFormat::Parquet.file());
        let rows = read_columns(&path, ["fct_ns", "ideal_ns"])?;
        Some(rows.into_iter().map(|[fct_ns, ideal_ns]| FlowTimes { fct_ns, ideal_ns }).collect())
    };
    rows(&folder.join(FlowsFormat::Csv.file())).or_else(columns)
}

/// Lines of a table that weir wrote.
fn rows<T: DeserializeOwned>(path: &Path) -> Option<Vec<T>> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_path(path).ok()?;
    reader.deserialize().collect::<Result<_, _>>().ok()
}
