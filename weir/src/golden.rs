//! `weir golden`: replays published data sets, one line per file.

use crate::Outcome;
use crate::output::{OUT, say};
use crate::refusal::refuse;
use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use weir_sim::golden::{FileReport, replay_each};

/// `weir golden`
#[derive(Debug, Args)]
pub struct GoldenArgs {
    /// Folder with data sets, or one data set: logs of published simulators, which do not come with weir (docs/testing.md).
    pub dir: PathBuf,
    /// JSON, when all is replayed.
    #[arg(short, long)]
    pub json: bool,
}

pub fn golden(args: &GoldenArgs) -> Result<Outcome> {
    let (mut files, mut bad) = (Vec::new(), 0);
    replay_each(&args.dir, &mut |report| {
        bad += usize::from(!report.is_match());
        if !args.json {
            say!("{report}");
        }
        files.push(document(&report));
    })
    .with_context(|| format!("replay of {}", args.dir.display()))?;
    if files.is_empty() {
        let remedy = "docs/testing.md, \"Published data\", says how one looks";
        return Err(refuse(args.dir.display().to_string(), "it holds no data set weir knows", remedy));
    }
    if args.json {
        OUT.json(&json!({ "files": files, "differing": bad }));
    }
    Ok(if bad == 0 { Outcome::Good } else { Outcome::Bad })
}

fn document(report: &FileReport) -> Value {
    let first = report.first_mismatch.as_ref().map(|first| {
        json!({
            "row": first.row,
            "column": first.column,
            "expected": first.expected,
            "got": first.got,
            "expected_row": first.expected_row,
            "got_row": first.got_row,
        })
    });
    json!({ "name": report.name, "matched": report.matched, "total": report.total, "first_mismatch": first })
}
