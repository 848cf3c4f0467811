//! `weir golden`: replays published data sets, one line per file.

use crate::Outcome;
use crate::cli::GoldenArgs;
use crate::output::say;
use anyhow::{Context, Result, bail};
use weir_sim::golden::replay_each;

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
