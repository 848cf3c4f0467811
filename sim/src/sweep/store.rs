//! Results in a folder, by address.

use super::shard::{Keep, REPORT, result_of};
use super::{Plan, Point, SweepError};
use crate::digest::Digest;
use crate::fabric::{FabricSpec, FlowsFormat, Summary};
use crate::file;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use weir_config::VERSION;

/// Name of the description of the sweep within its folder.
pub(super) const PLAN: &str = "plan.json";

/// What a folder says of its sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Described {
    pub schema: u32,
    pub weir: String,
    pub name: String,
    /// Keys of the axes.
    pub axes: Vec<String>,
    pub points: Vec<Place>,
}

/// What a plan comes to, for programs that share its points out by themselves.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    described: Described,
    /// Files the plan was read from: itself, its base, and those that points name.
    files: Vec<PathBuf>,
    /// Numbers of the points without a whole result in the folder, from 0.
    open: Vec<usize>,
}

/// Whether a folder has the description of a sweep in it.
pub fn holds_a_sweep(dir: &Path) -> bool {
    dir.join(PLAN).exists()
}

/// Points of a plan as JSON, and which of them have no result in a folder yet, with what is to be kept.
///
/// # Errors
/// The folder is that of another sweep, or cannot be read.
pub fn list(plan: &Plan, results: Option<(&Path, Keep, FlowsFormat)>) -> Result<String, SweepError> {
    let described = Described::of(plan);
    if let Some((dir, ..)) = results {
        described.is_of(dir)?;
    }
    let is_open = |place: &Place| {
        results.is_none_or(|(dir, keep, flows)| result_of(&place.address, dir, keep, flows).is_none())
    };
    let open =
        described.points.iter().enumerate().filter(|(_, place)| is_open(place)).map(|(index, _)| index);
    let open = open.collect();
    let listed = json(&Listed { described, files: plan.sources.clone(), open });
    Ok(String::from_utf8(listed).unwrap_or_default())
}

/// A point of the sweep and where its result is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    pub address: String,
    /// Values of the axes, as in TOML.
    pub values: Vec<String>,
}

/// The result of a point: the same wherever and whenever it was played.
#[derive(Debug, Serialize)]
pub(super) struct Outcome<'a> {
    schema: u32,
    weir: &'static str,
    address: &'a str,
    units: &'static str,
    values: &'a [(String, String)],
    /// The whole spec: what `weir sim` plays again.
    spec: &'a str,
    config_hash: Option<String>,
    seed: Option<u64>,
    /// Why it could not be played.
    pub error: Option<String>,
    summary: Option<Summary>,
}

impl<'a> Outcome<'a> {
    /// Of a point with this spec, if it could be read, and what it came to.
    pub fn new(point: &'a Point, spec: Option<&FabricSpec>, result: Result<Summary, String>) -> Self {
        let (summary, error) = match result {
            Ok(summary) => (Some(summary), None),
            Err(error) => (None, Some(error)),
        };
        Self {
            schema: 1,
            weir: VERSION,
            address: &point.address,
            units: "_ns: nanoseconds; _milli: thousandths; _bytes: bytes; frames, pauses, marks, flows: counts",
            values: &point.values,
            spec: &point.spec,
            config_hash: spec.map(FabricSpec::hash),
            seed: spec.map(|spec| spec.seed),
            error,
            summary,
        }
    }
}

impl Described {
    pub fn of(plan: &Plan) -> Self {
        let place =
            |p: Point| Place { address: p.address, values: p.values.into_iter().map(|(_, v)| v).collect() };
        Self {
            schema: 1,
            weir: VERSION.into(),
            name: plan.name.clone(),
            axes: plan.axes.iter().map(|a| a.key.clone()).collect(),
            points: plan.points().map(place).collect(),
        }
    }

    pub fn read(dir: &Path) -> Result<Self, SweepError> {
        let path = dir.join(PLAN);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(SweepError::Nothing(dir.into()));
            }
            Err(error) => return Err(SweepError::File { path, error }),
        };
        serde_json::from_str(&text).map_err(|e| SweepError::Damaged { path, problem: e.to_string() })
    }

    /// Whether `dir` is said to hold this sweep. Half a plan says nothing that the plan itself does not say.
    ///
    /// # Errors
    /// It holds another one, or cannot be read.
    pub fn is_of(&self, dir: &Path) -> Result<bool, SweepError> {
        if dir.join(REPORT).exists() {
            return Err(SweepError::HasReport(dir.into()));
        }
        match Self::read(dir) {
            Ok(other) if other == *self => Ok(true),
            Ok(other) => {
                let (theirs, ours) = (other.digest(), self.digest());
                Err(SweepError::OtherPlan { path: dir.into(), theirs, ours })
            }
            Err(SweepError::Nothing(_) | SweepError::Damaged { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn digest(&self) -> String {
        Digest::of(&json(self)).to_string()
    }
}

pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    // Strings and numbers only: this cannot fail.
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    text
}

pub(super) fn place(dir: &Path, address: &str) -> PathBuf {
    dir.join(format!("{address}.json"))
}

/// A stored result, if it is a whole one. `Err`: it is there, and something is wrong with it.
pub(super) fn read(path: &Path, address: &str) -> Result<Option<(Vec<u8>, Value)>, SweepError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SweepError::File { path: path.into(), error }),
    };
    let damaged = |problem: String| SweepError::Damaged { path: path.into(), problem };
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|e| damaged(format!("not a whole result: {e}")))?;
    if value["address"] != address || value["summary"].is_null() == value["error"].is_null() {
        return Err(damaged("not the result of this point".into()));
    }
    Ok(Some((bytes, value)))
}

/// Puts `bytes` at `path`, all or nothing.
pub(super) fn put(path: &Path, bytes: &[u8]) -> Result<(), SweepError> {
    file::put(path, bytes).map_err(|error| SweepError::File { path: path.into(), error })
}
