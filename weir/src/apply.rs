//! `weir apply`: hands a configuration to the running switch, confirms it, takes it back.

use crate::Outcome;
use crate::check;
use crate::kinds::{self, Kind};
use crate::output::{OUT, say};
use crate::quantity::time;
use crate::refusal::refuse;
use crate::which::Which;
use anyhow::Result;
use clap::Args;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;
use weir_layout::Grid;
use weir_mgmt::api::documents::{Applied, json};
use weir_mgmt::{api, client};

/// `weir apply`
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Configuration file. Without one: confirm or take back what was applied.
    #[arg(required_unless_present_any = ["confirm", "rollback"])]
    pub config: Option<PathBuf>,
    /// With a file: go back unless confirmed within this time, e.g. 30s. Without: confirm.
    #[arg(long, value_name = "TIME", num_args = 0..=1, value_parser = time)]
    pub confirm: Option<Option<Duration>>,
    /// Go back to what was before the configuration that waits to be confirmed.
    #[arg(long, conflicts_with_all = ["config", "confirm", "dry_run"])]
    pub rollback: bool,
    /// Only say what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// JSON, as the switch answers it.
    #[arg(short, long)]
    pub json: bool,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

pub fn apply(args: &ApplyArgs) -> Result<Outcome> {
    let Some(path) = &args.config else {
        if args.dry_run || args.confirm.flatten().is_some() {
            return Err(refuse("CONFIG", "no configuration is named", "name the file to apply"));
        }
        let path = if args.rollback { api::ROLLBACK } else { api::CONFIRM };
        let answer = client::order(&args.which.socket()?, path, "")?;
        match args.json {
            true => OUT.json(&client::read(&answer)?),
            false => say!("{}", if args.rollback { "back in force: what was before" } else { "confirmed" }),
        }
        return Ok(Outcome::Good);
    };
    if args.confirm == Some(None) {
        return Err(refuse(
            "--confirm",
            "it does not say how long to wait for the confirmation",
            "--confirm 30s",
        ));
    }
    // Errors are shown with their lines before anybody is asked.
    let name = path.display().to_string();
    let text = check::read(path)?;
    kinds::expect(Kind::Switch, path, &text)?;
    check::load_text(&name, &text)?;
    let mut target = format!("{}?name={}", api::CONFIG, client::encode(&name));
    if let Some(time) = args.confirm.flatten() {
        target.push_str(&format!("&confirm={}", time.as_millis()));
    }
    if args.dry_run {
        target.push_str("&dry_run=true");
    }
    let answer = client::order(&args.which.socket()?, &target, &text)?;
    let answer: Applied = client::read(&answer)?;
    match args.json {
        true => OUT.json(&json(&answer)),
        false => OUT.text(&told(&answer, args)),
    }
    Ok(Outcome::Good)
}

/// How many values of two configurations differ.
pub fn values_differ(values: usize) -> String {
    match values {
        1 => "1 value differs".to_owned(),
        n => format!("{n} values differ"),
    }
}

fn told(answer: &Applied, args: &ApplyArgs) -> String {
    let mut grid = Grid::new(&["<key", "<change"]);
    let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "(none)".to_owned());
    for row in &answer.changed {
        let origin = row.origin.as_ref().map(|origin| format!("  ({origin})")).unwrap_or_default();
        grid.push([row.key.clone(), format!("{} -> {}{origin}", word(&row.was), word(&row.is))]);
    }
    let mut text = grid.body();
    let values = values_differ(answer.changed.len());
    let _ = match (args.dry_run, args.confirm.flatten()) {
        (true, _) => writeln!(text, "{values}; nothing was applied"),
        (false, None) => writeln!(text, "applied: {values}"),
        (false, Some(time)) => {
            writeln!(text, "applied: {values}; `weir apply --confirm` within {time:?}, or it is taken back")
        }
    };
    text
}
