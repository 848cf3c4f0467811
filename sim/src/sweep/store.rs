//! Results in a folder, by address.

use super::{Plan, Point, SweepError};
use crate::digest::Digest;
use crate::fabric::{self, Progress, Summary};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

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

/// A point of the sweep and where its result is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    pub address: String,
    /// Values of the axes, as in TOML.
    pub values: Vec<String>,
}

/// The result of a point: the same wherever and whenever it was played.
#[derive(Debug, Serialize)]
struct Outcome<'a> {
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
    error: Option<String>,
    summary: Option<Summary>,
}

/// What became of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Its result was there.
    Before,
    /// It was played.
    Now,
    /// It was refused; the reason is recorded.
    Broken,
}

/// A point of a shard while it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The point.
    pub point: &'a Point,
    /// Points of the shard that are over.
    pub over: usize,
    /// Points of the shard.
    pub of: usize,
    /// How it is.
    pub step: Step,
}

/// How a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Still at it.
    At(Progress),
    /// Over.
    Over(Done),
}

/// What became of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Points whose result was there.
    pub before: usize,
    /// Points played.
    pub now: usize,
    /// Points refused, now or before.
    pub broken: usize,
}

impl Described {
    pub fn of(plan: &Plan) -> Self {
        let place =
            |p: Point| Place { address: p.address, values: p.values.into_iter().map(|(_, v)| v).collect() };
        Self {
            schema: 1,
            weir: env!("CARGO_PKG_VERSION").into(),
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

    pub fn digest(&self) -> String {
        Digest::of(&json(self)).to_string()
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
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
fn put(path: &Path, bytes: &[u8]) -> Result<(), SweepError> {
    // Two shards may write the same file into one folder at the same time.
    let beside = path.with_extension(format!("part{}", std::process::id()));
    let written = std::fs::File::create(&beside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| SweepError::File { path: path.into(), error })
}

/// Which of `count` shards, from `i/n`.
fn shard_of(text: &str) -> Result<(usize, usize), SweepError> {
    let parsed = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    let good = parsed.filter(|(i, n): &(usize, usize)| (1..=*n).contains(i));
    good.ok_or_else(|| SweepError::Shard(text.into()))
}

/// Plays the points of shard `i/n` that have no result in `dir` yet. `seen` hears how it goes on.
///
/// # Errors
/// What is wrong with the shard, the folder, or a file in it. A point that is refused is no error.
pub fn run_shard(
    plan: &Plan,
    shard: &str,
    dir: &Path,
    seen: &mut dyn FnMut(&Seen<'_>),
) -> Result<Tally, SweepError> {
    let (i, n) = shard_of(shard)?;
    std::fs::create_dir_all(dir).map_err(|error| SweepError::File { path: dir.into(), error })?;
    let described = Described::of(plan);
    match Described::read(dir) {
        Ok(other) if other == described => {}
        Ok(other) => {
            let (theirs, ours) = (other.digest(), described.digest());
            return Err(SweepError::OtherPlan { path: dir.into(), theirs, ours });
        }
        // Half a plan is replaced: it says nothing the plan itself does not say.
        Err(SweepError::Nothing(_) | SweepError::Damaged { .. }) => put(&dir.join(PLAN), &json(&described))?,
        Err(error) => return Err(error),
    }
    for (name, content) in &plan.files {
        put(&dir.join(name), content)?;
    }
    let mine: Vec<usize> = (0..plan.len()).filter(|index| index % n == i - 1).collect();
    let of = mine.len();
    let mut tally = Tally::default();
    for (over, index) in mine.into_iter().enumerate() {
        let point = &plan.point(index);
        let path = place(dir, &point.address);
        // A damaged result is played again.
        let done = if let Ok(Some((_, value))) = read(&path, &point.address) {
            tally.before += 1;
            tally.broken += usize::from(!value["error"].is_null());
            Done::Before
        } else {
            let outcome = play(point, dir, &mut |at| seen(&Seen { point, over, of, step: Step::At(at) }));
            put(&path, &json(&outcome))?;
            tally.now += 1;
            tally.broken += usize::from(outcome.error.is_some());
            if outcome.error.is_some() { Done::Broken } else { Done::Now }
        };
        seen(&Seen { point, over: over + 1, of, step: Step::Over(done) });
    }
    Ok(tally)
}

/// Plays a point, whose files are in `dir`.
fn play<'a>(point: &'a Point, dir: &Path, progress: &mut dyn FnMut(Progress)) -> Outcome<'a> {
    let loaded = fabric::load_in(&format!("spec of point {}", point.index), &point.spec, dir);
    let (config_hash, seed) = loaded.as_ref().map_or((None, None), |s| (Some(s.hash()), Some(s.seed)));
    let played = loaded.and_then(|spec| fabric::run_with(&spec, progress));
    let (error, summary) = match played {
        Ok(report) => (None, Some(report.summary())),
        Err(error) => (Some(error.to_string()), None),
    };
    Outcome {
        schema: 1,
        weir: env!("CARGO_PKG_VERSION"),
        address: &point.address,
        units: "_ns: nanoseconds; _milli: thousandths; _bytes: bytes; frames, pauses, marks, flows: counts",
        values: &point.values,
        spec: &point.spec,
        config_hash,
        seed,
        error,
        summary,
    }
}
