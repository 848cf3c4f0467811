//! `weir sim compare`.

use crate::Outcome;
use crate::file::{not_over_results, write_file};
use crate::output::{OUT, say};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use weir_sim::compare;

/// `weir sim compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Folders or report.json files of `weir sim`, folders of `weir sim sweep`; the others are compared to the first.
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Write the page to this file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
}

pub fn compare(args: &CompareArgs) -> Result<Outcome> {
    not_over_results(args.out.as_deref(), &args.results)?;
    let comparison = compare::compare(&args.results)?;
    if let Some(path) = &args.out {
        write_file(path, comparison.to_html())?;
    }
    if args.json {
        OUT.json(&comparison.json());
        return Ok(Outcome::Good);
    }
    comparison.text().lines().for_each(|line| say!("{line}"));
    if let Some(path) = &args.out {
        say!("written {}", path.display());
    }
    Ok(Outcome::Good)
}
