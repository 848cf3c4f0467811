//! `weir report`: the page of a running switch as one file.

use crate::Outcome;
use crate::file::write_file;
use crate::output::{OUT, say};
use crate::which::Which;
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use weir_mgmt::page::{self, Saved};
use weir_mgmt::{api, client};

/// `weir report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Where to write it.
    #[arg(long, value_name = "FILE.html", default_value = "weir-report.html")]
    pub out: PathBuf,
    /// JSON: where it was written.
    #[arg(short, long)]
    pub json: bool,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

pub fn report(args: &ReportArgs) -> Result<Outcome> {
    let socket = args.which.socket()?;
    let ask = |path: &str| client::ask::<Value>(&socket, path);
    let events = client::open(&socket, &format!("{}?format=ndjson&follow=false", api::EVENTS))?;
    let saved = Saved {
        snapshot: ask(api::SNAPSHOT)?,
        history: ask(api::HISTORY)?,
        events: client::lines(events).collect::<Result<_, _>>()?,
        flows: ask(weir_mgmt::flows::PATH)?,
        lldp: ask(weir_mgmt::lldp::PATH)?,
    };
    write_file(&args.out, page::report(&saved))?;
    let out = args.out.display();
    match args.json {
        true => OUT.json(&json!({ "out": out.to_string() })),
        false => say!("{out}"),
    }
    Ok(Outcome::Good)
}
