//! Many runs: a base spec, axes along which it varies, one result per point.
//!
//! A [`Plan`] names a fabric file and axes; its points are all combinations. [`run_shard`] plays those of
//! one shard and leaves `ADDRESS.json` for each in a folder (and its tables in the folder `ADDRESS`), where the
//! address is a digest of weir's version and the point's whole spec: what is there already is not played again, so a sweep that was
//! ended goes on where it was, and the same sweep twice does nothing. A file is written beside its place
//! and then moved there, so no half a result is ever taken for a whole one. A point that is refused is
//! recorded with its reason. [`merge`] puts folders together; its digest does not depend on how the
//! points were shared out.

mod merge;
mod plan;
mod shard;
mod store;

pub use merge::{Merged, merge};
pub use plan::{Axis, Plan, Point};
pub use shard::{Done, Keep, Orders, Seen, Step, Tally, run_shard};
pub use store::{holds_a_sweep, list};

use std::path::PathBuf;

/// Why a sweep cannot be planned, stored or merged.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A file that cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The plan, or the base it names, is not what it should be.
    #[error("{file}{}: {problem}", line.map_or(String::new(), |line| format!(":{line}")))]
    Plan {
        /// Name of the file.
        file: String,
        /// The line, from 1, where it is known.
        line: Option<usize>,
        /// The column, from 1, likewise.
        column: Option<usize>,
        /// What is wrong.
        problem: String,
    },
    /// Several of these.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<SweepError>),
    /// A shard that does not exist.
    #[error("there is no shard `{0}`: write i/n with 1 <= i <= n, e.g. 2/3")]
    Shard(String),
    /// The folder belongs to another sweep.
    #[error("{} holds the sweep {theirs}; this one is {ours}: use another folder", path.display())]
    OtherPlan {
        /// The folder.
        path: PathBuf,
        /// Digest of the plan in it.
        theirs: String,
        /// Digest of this plan.
        ours: String,
    },
    /// Folders that are to be put together are of two sweeps.
    #[error("{} holds the sweep {theirs}, and {} the sweep {ours}: merge folders of one plan", path.display(), first.display())]
    TwoPlans {
        /// A folder.
        path: PathBuf,
        /// Digest of the plan in it.
        theirs: String,
        /// The first folder.
        first: PathBuf,
        /// Digest of the plan there.
        ours: String,
    },
    /// A result that is not one.
    #[error("{}: {problem}; delete it and run its shard again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Two folders have different results of one point.
    #[error("{} and {} differ, and the same point cannot have two results", a.display(), b.display())]
    Contradiction {
        /// One file.
        a: PathBuf,
        /// The other.
        b: PathBuf,
    },
    /// A folder with the report of a run.
    #[error("{}: has the report of a run, and would hold two results; give the sweep a folder of its own", .0.display())]
    HasReport(PathBuf),
    /// Folders without a sweep.
    #[error("{}: no plan.json; this is no folder of a sweep", .0.display())]
    Nothing(PathBuf),
}

impl SweepError {
    /// All of these as one. `Ok`: there are none.
    fn of(mut all: Vec<Self>) -> Result<(), Self> {
        match all.len() {
            0 => Ok(()),
            1 => Err(all.remove(0)),
            _ => Err(Self::Several(all)),
        }
    }
}

#[cfg(test)]
mod tests;
