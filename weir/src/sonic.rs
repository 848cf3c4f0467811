//! `weir config import sonic` and `weir config export sonic`: files in, files out, a report of what became of every row.

use crate::Outcome;
use crate::check;
use crate::cli::{ConfigExportArgs, ConfigImportArgs, ForeignArg};
use crate::output::{ERR, OUT, say_err};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::path::Path;
use weir_config::sonic::{self, Note, Options};

/// Makes a configuration from SONiC's tables.
///
/// # Errors
/// A file cannot be read or written, or is no configuration: every error is printed first.
pub fn import(args: &ConfigImportArgs) -> Result<Outcome> {
    let ForeignArg::Sonic = args.from;
    if args.device.contains(['"', '\\']) || args.device.contains(char::is_control) {
        bail!("--device: no quotes, backslashes or control characters");
    }
    let read = |path: &std::path::PathBuf| Ok((path.display().to_string(), check::read(path)?));
    let files: Vec<(String, String)> = args.files.iter().map(read).collect::<Result<_>>()?;
    let sources: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let options = Options { device: &args.device, buffer: args.buffer, auto_headroom: args.auto_headroom };
    let made = sonic::import(&sources, &options).map_err(|found| check::refused(&files[0].0, &found))?;
    for warning in &made.warnings {
        say_err!("{warning}\n");
    }
    hand_over(&made.toml, &made.notes, args.out.as_deref(), args.json)
}

/// Writes a configuration as SONiC's tables.
///
/// # Errors
/// The configuration has errors, or a file cannot be written.
pub fn export(args: &ConfigExportArgs) -> Result<Outcome> {
    let ForeignArg::Sonic = args.to;
    let made = sonic::export(&check::load(&args.config)?.config);
    hand_over(&made.json, &made.notes, args.out.as_deref(), args.json)
}

/// The text goes to the file and the report to standard output, or the text there and the report beside it.
fn hand_over(text: &str, notes: &[Note], out: Option<&Path>, as_json: bool) -> Result<Outcome> {
    let report = if as_json { format!("{:#}\n", in_json(notes)) } else { sonic::report(notes) };
    match out {
        Some(path) => {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
            OUT.text(&report);
        }
        None => {
            OUT.text(text);
            ERR.text(&report);
        }
    }
    Ok(Outcome::Good)
}

fn in_json(notes: &[Note]) -> serde_json::Value {
    let row = |n: &Note| json!({ "outcome": n.outcome.word(), "table": n.table, "key": n.key, "fields": n.fields, "why": n.why });
    notes.iter().map(row).collect()
}
