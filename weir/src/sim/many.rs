//! `weir sim sweep` and `weir sim merge`.

use super::TableFormat;
use super::bar::SweepBar;
use crate::Outcome;
use crate::file::{not_over_results, write_file};
use crate::kinds::{self, Kind};
use crate::output::{OUT, say};
use crate::run::Stop;
use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use weir_layout::counted;
use weir_sim::sweep::{self, Keep, Orders, Plan, run_shard};

/// `weir sim sweep`
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// The plan: `name`, `base` (a fabric file beside it) and `[[axis]]` with `key` and `values`.
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,
    /// Only this part of the points, e.g. 2/3; any sharding gives the same results.
    #[arg(long, value_name = "I/N", default_value = "1/1", conflicts_with = "list")]
    pub shard: String,
    /// Folder of the results.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    pub out: Option<PathBuf>,
    /// What is kept of each point beside its figures, in a folder of its own.
    #[arg(long, value_name = "WHAT", default_value = "tables")]
    pub keep: Kept,
    /// How the table of flows is kept: as text, flows.csv, or as columns with types, flows.parquet.
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    pub flows: TableFormat,
    /// Points played at once; all cores unless given. Each needs the memory of a run.
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Play nothing: print the points as JSON, and which of them have no result in DIR yet.
    #[arg(long)]
    pub list: bool,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// What is kept of a point.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Kept {
    /// Nothing.
    Figures,
    /// Flows with their completion times, ports, collectives, latency.
    Tables,
    /// These, the page and report.json.
    Report,
}

impl From<Kept> for Keep {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::Figures => Self::Figures,
            Kept::Tables => Self::Tables,
            Kept::Report => Self::Report,
        }
    }
}

/// `weir sim merge`
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Folders of results of one plan.
    #[arg(required = true)]
    pub dirs: Vec<PathBuf>,
    /// Write the table to this file as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// Missing or broken points that are named one by one.
const NAMED: usize = 10;

pub fn sweep(args: &SweepArgs) -> Result<Outcome> {
    let plan = Plan::read(&args.plan).map_err(|error| {
        let text = std::fs::read_to_string(&args.plan).unwrap_or_default();
        kinds::expect(Kind::Plan, &args.plan, &text).err().unwrap_or_else(|| error.into())
    })?;
    let (keep, flows) = (args.keep.into(), args.flows.into());
    let dir = match &args.out {
        Some(dir) if !args.list => dir,
        results => {
            let results = results.as_ref().map(|dir| (dir.as_path(), keep, flows));
            say!("{}", sweep::list(&plan, results)?.trim_end());
            return Ok(Outcome::Good);
        }
    };
    let orders =
        Orders { shard: &args.shard, dir, keep, flows, jobs: args.jobs.unwrap_or_else(super::cores) };
    let (bar, stop) = (SweepBar::new(plan.len()), Stop::on_signal()?);
    let tally = run_shard(&plan, &orders, &|seen| {
        bar.show(seen);
        if stop.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.end();
    let tally = tally?;
    let whole = tally.broken.is_empty() && tally.left == 0;
    if args.json {
        OUT.json(&json!({
            "sweep": plan.name,
            "shard": args.shard,
            "points": plan.len(),
            "played": tally.now,
            "were_there": tally.before,
            "broken": broken_json(&tally.broken),
            "left": tally.left,
            "out": dir.display().to_string(),
        }));
        return Ok(if whole { Outcome::Good } else { Outcome::Bad });
    }
    say!(
        "{}: shard {}, {} played, {} there before, {} of all broken; results in {}",
        plan.name,
        args.shard,
        counted(tally.now, "point"),
        tally.before,
        tally.broken.len(),
        dir.display()
    );
    name_broken(&tally.broken);
    if tally.left > 0 {
        say!("stopped: {} left; the same command goes on with the rest", counted(tally.left, "point"));
    }
    Ok(if whole { Outcome::Good } else { Outcome::Bad })
}

pub fn merge(args: &MergeArgs) -> Result<Outcome> {
    not_over_results(args.csv.as_deref(), &args.dirs)?;
    let merged = sweep::merge(&args.dirs)?;
    if let Some(path) = &args.csv {
        write_file(path, merged.csv())?;
    }
    let whole = merged.missing.is_empty() && merged.broken.is_empty();
    if args.json {
        OUT.json(&json!({
            "sweep": merged.name,
            "points": merged.points,
            "missing": merged.missing,
            "broken": broken_json(&merged.broken),
            "digest": merged.digest,
        }));
        return Ok(if whole { Outcome::Good } else { Outcome::Bad });
    }
    let there = merged.points - merged.missing.len();
    say!("{}: {there} of {}, {} broken", merged.name, counted(merged.points, "point"), merged.broken.len());
    for index in merged.missing.iter().take(NAMED) {
        say!("  point {index} is missing");
    }
    name_broken(&merged.broken);
    say!("digest {}", merged.digest);
    Ok(if whole { Outcome::Good } else { Outcome::Bad })
}

/// Why points were refused, the first few of them.
fn name_broken(broken: &[(usize, String)]) {
    for (index, why) in broken.iter().take(NAMED) {
        say!("  point {index} is broken: {}", why.replace('\n', "\n    "));
    }
}

fn broken_json(broken: &[(usize, String)]) -> Value {
    broken.iter().map(|(index, why)| json!({ "point": index, "error": why })).collect()
}
