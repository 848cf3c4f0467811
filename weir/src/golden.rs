//! `weir golden`: replays published data sets, one line per file.

use crate::Outcome;
use crate::cli::GoldenArgs;
use crate::show::say;
use anyhow::{Context, Result, bail};
use weir_sim::golden::replay_each;

pub fn golden(args: &GoldenArgs) -> Result<Outcome> {
    let (mut files, mut bad, mut said) = (0, 0, Ok(()));
    replay_each(&args.dir, &mut |report| {
        files += 1;
        bad += usize::from(!report.is_match());
        if said.is_ok() {
            said = say(&format!("{report}\n"));
        }
    })
    .with_context(|| format!("replay of {}", args.dir.display()))?;
    said?;
    if files == 0 {
        bail!("{} holds no data set weir knows", args.dir.display());
    }
    Ok(if bad == 0 { Outcome::Good } else { Outcome::Bad })
}
