//! `weir report`: the page of a running switch as one file.

use crate::Outcome;
use crate::output::say;
use crate::which::Which;
use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;
use weir_mgmt::page::{self, Saved};
use weir_mgmt::{api, client};

/// `weir report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Where to write it.
    #[arg(long, value_name = "FILE.html", default_value = "weir-report.html")]
    pub out: PathBuf,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

pub fn report(args: &ReportArgs) -> Result<Outcome> {
    let socket = args.which.socket()?;
    let parse = |text: &str| serde_json::from_str::<Value>(text).context("the answer is no JSON");
    let ask = |path: &str| parse(&client::get(&socket, path)?);
    let events = client::get(&socket, &format!("{}?format=ndjson&follow=false", api::EVENTS))?;
    let saved = Saved {
        snapshot: ask(api::SNAPSHOT)?,
        history: ask(api::HISTORY)?,
        events: events.lines().filter(|line| !line.is_empty()).map(parse).collect::<Result<_>>()?,
        flows: ask(weir_mgmt::flows::PATH)?,
    };
    std::fs::write(&args.out, page::report(&saved))
        .with_context(|| format!("cannot write {}", args.out.display()))?;
    say!("{}", args.out.display());
    Ok(Outcome::Good)
}
