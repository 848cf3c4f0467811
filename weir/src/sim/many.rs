//! `weir sim sweep` and `weir sim merge`.

use super::bar;
use crate::Outcome;
use crate::output::say;
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use weir_sim::sweep::{self, Done, Plan, Step, run_shard};

/// `weir sim sweep`
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// The plan: `name`, `base` (a fabric file beside it) and `[[axis]]` with `key` and `values`.
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,
    /// Only this part of the points, e.g. 2/3; any sharding gives the same results.
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    pub shard: String,
    /// Folder of the results.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
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
}

/// Missing or broken points that are named one by one.
const NAMED: usize = 10;

pub fn sweep(args: &SweepArgs) -> Result<Outcome> {
    let plan = Plan::read(&args.plan)?;
    let bar = bar::sweep(plan.len() as u64);
    let tally = run_shard(&plan, &args.shard, &args.out, &mut |seen| {
        bar.set_length(seen.of as u64);
        bar.set_position(seen.over as u64);
        let index = seen.point.index;
        match seen.step {
            Step::At(progress) => bar.set_message(format!("point {index}: {}", bar::message(progress))),
            Step::Over(Done::Broken) => bar.println(format!("  point {index} is refused; its file says why")),
            Step::Over(Done::Now | Done::Before) => {}
        }
    });
    bar.finish_and_clear();
    let tally = tally?;
    say!(
        "{}: shard {}, {} points played, {} were there, {} of all are broken; results in {}",
        plan.name,
        args.shard,
        tally.now,
        tally.before,
        tally.broken,
        args.out.display()
    );
    Ok(if tally.broken == 0 { Outcome::Good } else { Outcome::Bad })
}

pub fn merge(args: &MergeArgs) -> Result<Outcome> {
    let merged = sweep::merge(&args.dirs)?;
    if let Some(path) = &args.csv {
        std::fs::write(path, merged.csv()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let there = merged.points - merged.missing.len();
    say!("{}: {there} of {} points, {} broken", merged.name, merged.points, merged.broken.len());
    for index in merged.missing.iter().take(NAMED) {
        say!("  point {index} is missing");
    }
    for (index, why) in merged.broken.iter().take(NAMED) {
        say!("  point {index} is broken: {}", why.replace('\n', "\n    "));
    }
    say!("digest {}", merged.digest);
    let whole = merged.missing.is_empty() && merged.broken.is_empty();
    Ok(if whole { Outcome::Good } else { Outcome::Bad })
}
