//! `weir config import sonic` and `weir config export sonic`: files in, files out, a report of what became of every row.

use crate::Outcome;
use crate::check;
use crate::file::{not_over, write_file};
use crate::output::{ERR, OUT, say_err};
use crate::quantity::device;
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
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
    /// System the files come from.
    pub from: ForeignArg,
    /// config_db.json, or several files: buffers.json, qos.json, pg_profile_lookup.ini. Where two files set the same thing, the later one wins.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// `device` of every port: its name takes the place of `port` in braces, its number that of `n` in braces.
    #[arg(long, value_name = "DEVICE", default_value = "ring", value_parser = device)]
    pub device: String,
    /// Size of the buffer; the sum of the pools unless given.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub buffer: Option<u64>,
    /// Lossless groups get the headroom this switch needs, not the one written for a chip.
    #[arg(long)]
    pub auto_headroom: bool,
    /// Write the configuration here, and the report to standard output; else the configuration goes to standard output and
    /// the report to standard error.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// JSON: what became of every row, and the configuration as a text (`toml`) or the file it went to (`out`).
    #[arg(short, long)]
    pub json: bool,
}

/// `weir config export`
#[derive(Debug, Args)]
pub struct ConfigExportArgs {
    /// System to write for.
    pub to: ForeignArg,
    /// Configuration file.
    pub config: PathBuf,
    /// Write the tables here, and the report to standard output; else the tables go to standard output and the report to
    /// standard error.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// JSON: what became of every value, and the tables (`config_db`) or the file they went to (`out`).
    #[arg(short, long)]
    pub json: bool,
}

/// Makes a configuration from SONiC's tables.
///
/// # Errors
/// A file cannot be read or written, or is no configuration: every error is printed first.
pub fn import(args: &ConfigImportArgs) -> Result<Outcome> {
    let ForeignArg::Sonic = args.from;
    not_over(args.out.as_deref(), args.files.iter().map(std::path::PathBuf::as_path))?;
    let read = |path: &std::path::PathBuf| Ok((path.display().to_string(), check::read(path)?));
    let files: Vec<(String, String)> = args.files.iter().map(read).collect::<Result<_>>()?;
    let sources: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let options = Options { device: &args.device, buffer: args.buffer, auto_headroom: args.auto_headroom };
    let made = sonic::import(&sources, &options).map_err(|found| check::refused(&files[0].0, &found))?;
    for warning in &made.warnings {
        say_err!("{warning}\n");
    }
    let document = || Ok(("toml", Value::from(made.toml.as_str())));
    hand_over(&made.toml, document, &made.notes, args.out.as_deref(), args.json)
}

/// Writes a configuration as SONiC's tables.
///
/// # Errors
/// The configuration has errors, or a file cannot be written.
pub fn export(args: &ConfigExportArgs) -> Result<Outcome> {
    let ForeignArg::Sonic = args.to;
    not_over(args.out.as_deref(), [args.config.as_path()])?;
    let made = sonic::export(&check::load(&args.config)?.config);
    let document = || Ok(("config_db", serde_json::from_str(&made.json)?));
    hand_over(&made.json, document, &made.notes, args.out.as_deref(), args.json)
}

/// The text goes to the file and the report to standard output, or the text there and the report beside it; as JSON both are one
/// document.
fn hand_over(
    text: &str,
    document: impl FnOnce() -> Result<(&'static str, Value)>,
    notes: &[Note],
    out: Option<&Path>,
    as_json: bool,
) -> Result<Outcome> {
    if let Some(path) = out {
        write_file(path, text)?;
    }
    match (as_json, out) {
        (true, _) => {
            let (key, value) = match out {
                Some(path) => ("out", path.display().to_string().into()),
                None => document()?,
            };
            OUT.json(&json!({ key: value, "notes": notes.iter().map(in_json).collect::<Vec<_>>() }));
        }
        (false, Some(_)) => OUT.text(&sonic::report(notes)),
        (false, None) => {
            OUT.text(text);
            ERR.text(&sonic::report(notes));
        }
    }
    Ok(Outcome::Good)
}

fn in_json(n: &Note) -> Value {
    json!({ "outcome": n.outcome.word(), "table": n.table, "key": n.key, "fields": n.fields, "why": n.why })
}
