//! `weir config import sonic` and `weir config export sonic`: files in, files out, a report of what became of every row.

use crate::Outcome;
use crate::check;
use crate::output::{ERR, OUT, say_err};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use std::path::Path;
use std::path::PathBuf;
use weir_config::sonic::{self, Note, Options};
use weir_config::units::size;

/// Whose configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ForeignArg {
    /// SONiC: config_db.json, or the files it is made of.
    Sonic,
}

/// `weir config import`
#[derive(Debug, Args)]
pub struct ConfigImportArgs {
    /// What made the files.
    pub from: ForeignArg,
    /// config_db.json, or several files: buffers.json, qos.json, pg_profile_lookup.ini. Of what is said twice the later
    /// file counts.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// `device` of every port: {port} stands for its name, {n} for its number.
    #[arg(long, value_name = "DEVICE", default_value = "ring")]
    pub device: String,
    /// Size of the buffer; what the pools come to unless given.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub buffer: Option<u64>,
    /// Lossless groups get the headroom this switch needs, not the one written for a chip.
    #[arg(long)]
    pub auto_headroom: bool,
    /// Write the configuration here, and the report to standard output; else the configuration goes to standard output and
    /// the report to standard error.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The report as JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// `weir config export`
#[derive(Debug, Args)]
pub struct ConfigExportArgs {
    /// For whom.
    pub to: ForeignArg,
    /// Configuration file.
    pub config: PathBuf,
    /// Write the tables here, and the report to standard output; else the tables go to standard output and the report to
    /// standard error.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The report as JSON.
    #[arg(short, long)]
    pub json: bool,
}

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
