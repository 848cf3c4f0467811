//! `weir check`: what is wrong with a configuration, and what it comes to.

use crate::Outcome;
use crate::cli::CheckArgs;
use crate::output::{say, say_err};
use anyhow::{Context, Result, bail};
use std::path::Path;
use weir_dataplane::config::{self, Loaded};

/// Reads and checks a configuration file; prints warnings.
///
/// # Errors
/// The file cannot be read, or it has errors: all of them are printed first.
pub fn load(path: &Path) -> Result<Loaded> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    load_text(&path.display().to_string(), &text)
}

/// As [`load`], for a text that is not a file.
///
/// # Errors
/// The text has errors.
pub fn load_text(name: &str, text: &str) -> Result<Loaded> {
    match config::load(name, text) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                say_err!("{warning}\n");
            }
            Ok(loaded)
        }
        Err(found) => {
            for diagnostic in &found {
                say_err!("{diagnostic}\n");
            }
            let errors = found.iter().filter(|d| d.is_error()).count();
            bail!("{name}: {errors} error{}", if errors == 1 { "" } else { "s" })
        }
    }
}

pub fn check(args: &CheckArgs) -> Result<Outcome> {
    let Loaded { config, warnings } = load(&args.config)?;
    if args.explain {
        let rows = config.explain();
        let key = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
        let value = rows.iter().map(|row| row.value.len()).max().unwrap_or(0).min(32);
        for row in rows {
            let why = if row.why.is_empty() { String::new() } else { format!("  {}", row.why) };
            say!("{:key$}  {:value$}  {}{why}", row.key, row.value, row.origin);
        }
    }
    say!(
        "{}: {} ports, {} bytes of buffer ({} shared), {} warnings",
        args.config.display(),
        config.ports.len(),
        config.buffer.size,
        config.buffer.shared,
        warnings.len()
    );
    Ok(Outcome::Good)
}
