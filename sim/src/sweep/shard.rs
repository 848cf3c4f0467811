//! The points of a shard are played, by as many threads as there are to be.

use super::store::{Described, Outcome, PLAN, json, place, put, read};
use super::{Plan, Point, SweepError};
use crate::fabric::{self, FabricError, FabricSpec, FlowsFormat, Progress, Report};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What of a point is kept beside its figures, in the folder `ADDRESS`: files as `weir sim --out` writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Figures,
    /// The tables: flows with their completion times, ports, collectives, latency.
    #[default]
    Tables,
    /// All of it: the page and the whole report, too.
    Report,
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Orders<'a> {
    /// `i/n`: the points whose number in the plan, from 0, has the remainder i - 1 when divided by n.
    pub shard: &'a str,
    /// Folder of the results.
    pub dir: &'a Path,
    /// What is kept of each point.
    pub keep: Keep,
    /// How the table of flows is kept.
    pub flows: FlowsFormat,
    /// Points that are played at once.
    pub jobs: NonZeroUsize,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Points whose result was there.
    pub before: usize,
    /// Points played.
    pub now: usize,
    /// Points refused, now or before, in order, and why.
    pub broken: Vec<(usize, String)>,
    /// Points left because it was told to stop.
    pub left: usize,
}

/// Which of how many shards, from `i/n`.
fn shard_of(text: &str) -> Result<(usize, usize), SweepError> {
    let parsed = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    let good = parsed.filter(|(i, n): &(usize, usize)| (1..=*n).contains(i));
    good.ok_or_else(|| SweepError::Shard(text.into()))
}

/// Plays the points of a shard that have no result in the folder yet. `seen` hears how it goes on, from several threads; when
/// it says break, points that are not over are left, without a result.
///
/// # Errors
/// What is wrong with the shard, the folder, or a file in it. A point that is refused is no error.
pub fn run_shard(
    plan: &Plan,
    orders: &Orders<'_>,
    seen: &(dyn Fn(&Seen<'_>) -> ControlFlow<()> + Sync),
) -> Result<Tally, SweepError> {
    let (i, n) = shard_of(orders.shard)?;
    prepare(plan, orders.dir)?;
    let mine: Vec<usize> = (0..plan.len()).filter(|index| index % n == i - 1).collect();
    let (next, over, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let result = Mutex::new(Ok(Tally { left: mine.len(), ..Tally::default() }));
    let work = || {
        while !stop.load(Ordering::Relaxed)
            && let Some(index) = mine.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let point = &plan.point(*index);
            let of = mine.len();
            let told = |step: Step, over: usize| {
                let told = seen(&Seen { point, over, of, step });
                if told.is_break() {
                    stop.store(true, Ordering::Relaxed);
                }
            };
            let mut at = |progress: Progress| {
                told(Step::At(progress), over.load(Ordering::Relaxed));
                match stop.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            };
            let became = finish(point, orders, &mut at);
            let done = {
                let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
                match (became, &mut *result) {
                    (Ok(Some((done, broken))), Ok(tally)) => {
                        tally.left -= 1;
                        tally.before += usize::from(done == Done::Before);
                        tally.now += usize::from(done != Done::Before);
                        tally.broken.extend(broken.map(|why| (*index, why)));
                        Some(done)
                    }
                    (Err(error), Ok(_)) => {
                        *result = Err(error);
                        stop.store(true, Ordering::Relaxed);
                        None
                    }
                    _ => None,
                }
            };
            if let Some(done) = done {
                told(Step::Over(done), over.fetch_add(1, Ordering::Relaxed) + 1);
            }
        }
    };
    std::thread::scope(|scope| (0..orders.jobs.get().min(mine.len())).for_each(|_| drop(scope.spawn(work))));
    let mut tally = result.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    tally.broken.sort_unstable();
    Ok(tally)
}

/// Makes the folder, with the plan and the files that points name.
fn prepare(plan: &Plan, dir: &Path) -> Result<(), SweepError> {
    std::fs::create_dir_all(dir).map_err(|error| SweepError::File { path: dir.into(), error })?;
    let described = Described::of(plan);
    if !described.is_of(dir)? {
        put(&dir.join(PLAN), &json(&described))?;
    }
    plan.files.iter().try_for_each(|(name, content)| put(&dir.join(name), content))
}

/// The result of a point that is whole in `dir`, with everything that is to be kept beside it: good, or why the point was refused.
pub(super) fn result_of(
    address: &str,
    dir: &Path,
    keep: Keep,
    flows: FlowsFormat,
) -> Option<Result<(), String>> {
    // A damaged result is played again.
    let (_, value) = read(&place(dir, address), address).ok()??;
    if let Some(why) = value["error"].as_str() {
        return Some(Err(why.to_owned()));
    }
    let beside = |name: &str| dir.join(address).join(name).exists();
    let kept = match keep {
        Keep::Figures => true,
        Keep::Tables => beside(flows.file()),
        Keep::Report => beside(flows.file()) && beside(REPORT),
    };
    kept.then_some(Ok(()))
}

/// What is kept with the whole report alone.
pub(super) const REPORT: &str = "report.json";

/// Sees to it that a point has its result: what became of it, and why it was refused if it was. `None`: it was stopped.
fn finish(
    point: &Point,
    orders: &Orders<'_>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Option<(Done, Option<String>)>, SweepError> {
    let Orders { dir, keep, flows, .. } = *orders;
    if let Some(before) = result_of(&point.address, dir, keep, flows) {
        return Ok(Some((Done::Before, before.err())));
    }
    let (spec, played) = play(point, dir, progress);
    if played.as_ref().is_ok_and(|report| report.stopped) {
        return Ok(None);
    }
    // The result last: where it is, the rest is.
    if let Ok(report) = &played
        && keep != Keep::Figures
    {
        let beside = dir.join(&point.address);
        let file = |error| SweepError::File { path: beside.clone(), error };
        std::fs::create_dir_all(&beside).map_err(file)?;
        let tables = report.tables(flows).map_err(file)?;
        let pages = (keep == Keep::Report).then(|| report.pages()).into_iter().flatten();
        for (name, content) in tables.into_iter().chain(pages.map(|(name, text)| (name, text.into_bytes()))) {
            put(&beside.join(name), &content)?;
        }
    }
    let result = played.map(|report| report.summary()).map_err(|error| error.to_string());
    let outcome = Outcome::new(point, spec.as_ref(), result);
    put(&place(dir, &point.address), &json(&outcome))?;
    let done = if outcome.error.is_some() { Done::Broken } else { Done::Now };
    Ok(Some((done, outcome.error)))
}

/// Plays a point, whose files are in `dir`.
fn play(
    point: &Point,
    dir: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> (Option<FabricSpec>, Result<Report, FabricError>) {
    match fabric::load_in(&format!("spec of point {}", point.index), &point.spec, dir) {
        Ok(spec) => {
            let played = fabric::run_with(&spec, 1, progress);
            (Some(spec), played)
        }
        Err(error) => (None, Err(error)),
    }
}
