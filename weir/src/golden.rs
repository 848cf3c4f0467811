//! `weir golden`: replays published data sets, one line per file.

use crate::Outcome;
use crate::output::say;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;
use weir_sim::golden::replay_each;

/// `weir golden`
#[derive(Debug, Args)]
pub struct GoldenArgs {
    /// Folder with data sets, or one data set: logs of published simulators, which do not come with weir (docs/testing.md).
    pub dir: PathBuf,
}

pub fn golden(args: &GoldenArgs) -> Result<Outcome> {
    let (mut files, mut bad) = (0, 0);
    replay_each(&args.dir, &mut |report| {
        files += 1;
        bad += usize::from(!report.is_match());
        say!("{report}");
    })
    .with_context(|| format!("replay of {}", args.dir.display()))?;
    if files == 0 {
        bail!("{} holds no data set weir knows", args.dir.display());
    }
    Ok(if bad == 0 { Outcome::Good } else { Outcome::Bad })
}
