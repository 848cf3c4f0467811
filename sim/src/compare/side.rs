//! What is compared, as it lies in files: reports of `weir sim`, folders of `weir sim sweep`.

use super::course::{Course, FlowTimes, QueuePeaks};
use super::figures::{CollectiveFigures, Figure, Figures};
use super::{CompareError, name_of};
use crate::fabric::{self, Level, SCHEMA, Spread, Timeline, completion};
use crate::sweep;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A setting and its runs.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// Where it lies and, of a sweep, the values of its axes.
    pub name: String,
    /// Runs by seed.
    pub runs: BTreeMap<u64, Run>,
    /// Both directions of all links, sender and receiver. In order, without those of engines.
    pub neighbours: Vec<(String, String)>,
    /// Points of the sweep without a result, in words.
    pub left_out: Option<String>,
}

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub figures: Figures,
    /// What should not have happened.
    pub findings: Vec<String>,
    /// Flows, ports and queues; `None`: figures alone were kept.
    pub course: Option<Course>,
}

/// What is read of a report: see [`fabric::Report`].
#[derive(Debug, Deserialize)]
struct Stored {
    findings: Vec<String>,
    #[serde(default)]
    level: Level,
    seed: u64,
    end_ns: u64,
    flows_done: u64,
    fct_ns: Option<Spread>,
    slowdown_milli: Option<Spread>,
    frames_sent: u64,
    frames_lost: u64,
    frames_dropped: u64,
    flows: Vec<StoredFlow>,
    switches: Vec<StoredSwitch>,
    hosts: Vec<StoredHost>,
    links: Vec<StoredLink>,
    timeline: Timeline,
    #[serde(default)]
    collectives: Vec<CollectiveFigures>,
}

#[derive(Debug, Deserialize)]
struct StoredFlow {
    bytes: Option<u64>,
    start_ns: Option<u64>,
    fct_ns: Option<u64>,
    ideal_ns: Option<u64>,
    resent: u64,
}

#[derive(Debug, Deserialize)]
struct StoredSwitch {
    name: String,
    ports: Vec<StoredPort>,
}

#[derive(Debug, Deserialize)]
struct StoredPort {
    peer: String,
    queue_max: u64,
    marked: u64,
    pfc_tx_xoff: u64,
    tx_paused_ns: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct StoredHost {
    paused_ns: [u64; 8],
    pfc_tx: u64,
}

#[derive(Debug, Deserialize)]
struct StoredLink {
    from: String,
    to: String,
}

/// The settings in a file or folder.
pub(super) fn read(path: &Path) -> Result<Vec<Side>, CompareError> {
    if !path.is_dir() {
        return Ok(vec![report(path, name_of(path))?]);
    }
    let inside = path.join("report.json");
    if inside.exists() {
        return Ok(vec![report(&inside, name_of(path))?]);
    }
    match sweep::merge(&[path.to_owned()]) {
        Ok(merged) => points(path, merged),
        Err(sweep::SweepError::Nothing(_)) => Err(CompareError::Nothing(path.to_owned())),
        Err(error) => Err(error.into()),
    }
}

/// The report in a file.
fn stored(path: &Path) -> Result<Stored, CompareError> {
    #[derive(Deserialize)]
    struct Layout {
        schema: u32,
    }
    let file = |error| CompareError::File { path: path.to_owned(), error };
    let text = std::fs::read(path).map_err(file)?;
    let no_report =
        |e: serde_json::Error| CompareError::NoReport { path: path.to_owned(), problem: e.to_string() };
    let Layout { schema } = serde_json::from_slice(&text).map_err(no_report)?;
    if schema != SCHEMA {
        return Err(CompareError::Layout { path: path.to_owned(), got: schema });
    }
    serde_json::from_slice(&text).map_err(no_report)
}

fn report(path: &Path, name: String) -> Result<Side, CompareError> {
    let stored = stored(path)?;
    let course = Some(stored.course());
    let run = Run { figures: stored.figures(), findings: stored.findings.clone(), course };
    let neighbours = stored.neighbours();
    let runs = BTreeMap::from([(stored.seed, run)]);
    Ok(Side { name, runs, neighbours, left_out: None })
}

impl Stored {
    fn ports(&self) -> impl Iterator<Item = &StoredPort> {
        self.switches.iter().flat_map(|s| &s.ports)
    }

    /// See [`Side::neighbours`].
    fn neighbours(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> =
            self.links.iter().map(|link| (link.from.clone(), link.to.clone())).collect();
        if all.is_empty() {
            // Profile "ns3-hpcc" has ports of switches alone.
            let switches: BTreeSet<&str> = self.switches.iter().map(|s| s.name.as_str()).collect();
            for (switch, port) in self.switches.iter().flat_map(|s| s.ports.iter().map(move |p| (s, p))) {
                all.push((switch.name.clone(), port.peer.clone()));
                if !switches.contains(port.peer.as_str()) {
                    all.push((port.peer.clone(), switch.name.clone()));
                }
            }
        }
        // An engine of a switch is called after it and is no neighbour.
        let is_engine = |engine: &str, of: &str| engine.strip_suffix(".inc") == Some(of);
        all.retain(|(from, to)| !is_engine(from, to) && !is_engine(to, from));
        all.sort_unstable();
        all
    }

    fn figures(&self) -> Figures {
        let of_frames = |count: u64| self.level.has_frames().then_some(count);
        // A file may say anything.
        let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0, u64::saturating_add);
        Figures {
            end_ns: self.end_ns,
            flows_done: self.flows_done,
            completion_ns: completion(self.flows.iter().map(|f| (f.bytes, f.start_ns, f.fct_ns))),
            fct_ns: self.fct_ns,
            slowdown_milli: self.slowdown_milli,
            level: self.level,
            frames_sent: of_frames(self.frames_sent),
            frames_dropped: of_frames(self.frames_dropped),
            frames_lost: of_frames(self.frames_lost),
            frames_resent: of_frames(sum(&mut self.flows.iter().map(|f| f.resent))),
            pfc_pauses: of_frames(sum(&mut self.ports().map(|p| p.pfc_tx_xoff))),
            host_pfc_frames: Some(sum(&mut self.hosts.iter().map(|h| h.pfc_tx))).filter(|frames| *frames > 0),
            host_paused_ns: of_frames(self.hosts.iter().flat_map(|h| h.paused_ns).max().unwrap_or(0)),
            ecn_marks: of_frames(sum(&mut self.ports().map(|p| p.marked))),
            queue_max_bytes: of_frames(self.ports().map(|p| p.queue_max).max().unwrap_or(0)),
            collectives: self.collectives.clone(),
        }
    }

    fn course(&self) -> Course {
        let flows = self.flows.iter().map(|f| FlowTimes { fct_ns: f.fct_ns, ideal_ns: f.ideal_ns });
        let paused = self.ports().filter_map(|p| p.tx_paused_ns);
        let queues = self.level.has_frames().then(|| QueuePeaks::new(&self.timeline, self.end_ns));
        Course::new(self.end_ns, flows, paused, queues)
    }
}

/// What is read of a point of a sweep.
#[derive(Debug, Deserialize)]
struct Point {
    spec: String,
    seed: u64,
    summary: PointSummary,
}

#[derive(Debug, Deserialize)]
struct PointSummary {
    findings: Vec<String>,
    #[serde(flatten)]
    figures: Figures,
}

/// What a sweep has kept in `folder` of a point that delivered so many flows.
fn course_of(folder: &Path, delivered: u64) -> Result<Option<Course>, CompareError> {
    let report = folder.join("report.json");
    if report.exists() {
        Ok(Some(stored(&report)?.course()))
    } else {
        Ok(Course::of_tables(folder, delivered)?)
    }
}

/// The points of a sweep, those that differ in `seed` alone together.
fn points(path: &Path, merged: sweep::Merged) -> Result<Vec<Side>, CompareError> {
    let mut sides: Vec<(Vec<String>, Side)> = Vec::new();
    for (values, result) in merged.rows {
        let Some(result) = result.filter(|result| !result["summary"].is_null()) else { continue };
        let settings: Vec<String> = merged
            .axes
            .iter()
            .zip(values)
            .filter(|(key, _)| *key != "seed")
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        let damaged = |problem: String| sweep::SweepError::Damaged {
            path: path.join(format!("{}.json", result["address"].as_str().unwrap_or_default())),
            problem,
        };
        let point: Point = Point::deserialize(&result).map_err(|e| damaged(e.to_string()))?;
        let folder = path.join(result["address"].as_str().unwrap_or_default());
        let course = course_of(&folder, point.summary.figures.flows_done)?;
        let run = Run { figures: point.summary.figures, findings: point.summary.findings, course };
        if let Some((_, side)) = sides.iter_mut().find(|(of, _)| *of == settings) {
            side.runs.insert(point.seed, run);
            continue;
        }
        let neighbours =
            fabric::load_in("spec", &point.spec, path).and_then(|spec| fabric::neighbours(&spec));
        let neighbours = neighbours.map_err(|e| damaged(e.to_string()))?;
        let mut name = name_of(path);
        if !settings.is_empty() {
            name = format!("{name}, {}", settings.join(", "));
        }
        let runs = BTreeMap::from([(point.seed, run)]);
        sides.push((settings, Side { name, runs, neighbours, left_out: None }));
    }
    let (all, missing, broken) = (merged.points, merged.missing.len(), merged.broken.len());
    let reason = merged.broken.first().map(|(point, reason)| format!("point {point}: {reason}"));
    let Some((_, first)) = sides.first_mut() else {
        let refused = reason.map(|reason| format!("{broken} of {all} were refused, {reason}"));
        return Err(CompareError::Empty { path: path.to_owned(), refused });
    };
    if missing + broken > 0 {
        let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
        first.left_out =
            Some(format!("of {all} points of the sweep {missing} are missing, {broken} broken{reason}"));
    }
    Ok(sides.into_iter().map(|(_, side)| side).collect())
}

/// `None` of no values.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0u64, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / count as f64)
}

impl Side {
    /// Mean of a figure over the runs that have it.
    pub fn mean(&self, figure: &Figure) -> Option<f64> {
        mean(self.runs.values().filter_map(|run| figure.of(&run.figures)))
    }

    /// Its seeds whose runs lack a figure that others of its runs have.
    pub fn lacks(&self, figure: &Figure) -> Vec<u64> {
        let lacking = self.runs.iter().filter(|(_, run)| figure.of(&run.figures).is_none());
        let seeds: Vec<u64> = lacking.map(|(seed, _)| *seed).collect();
        if seeds.len() < self.runs.len() { seeds } else { Vec::new() }
    }

    /// Flows, ports and queues of all its runs; `None`: there are none of any.
    pub fn course(&self) -> Option<Course> {
        self.runs.values().filter_map(|run| run.course.clone()).reduce(Course::join)
    }

    /// Runs with one seed each.
    pub fn pairs<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a Run, &'a Run)> {
        self.runs.iter().filter_map(|(seed, run)| Some((run, other.runs.get(seed)?)))
    }

    /// Its seeds in words.
    pub fn seeds(&self) -> String {
        let mut seeds = self.runs.keys();
        match (self.runs.len(), seeds.next(), seeds.next_back()) {
            (n, Some(first), Some(last)) => format!("{n} seeds, {first} to {last}"),
            (_, first, _) => format!("seed {}", first.unwrap_or(&0)),
        }
    }

    /// Its topology in words.
    pub fn size(&self) -> String {
        let mut nodes: Vec<&str> = self.neighbours.iter().map(|(from, _)| from.as_str()).collect();
        nodes.dedup();
        format!("nodes: {}, links: {}", nodes.len(), self.neighbours.len() / 2)
    }

    /// Whether one of its runs was at flow level.
    pub fn has_flow_level(&self) -> bool {
        self.runs.values().any(|run| !run.figures.level.has_frames())
    }
}
