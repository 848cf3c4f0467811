//! Why a command did nothing, as the document that `--json` promises: the same for every command, on one line as those that
//! stream want it.

use crate::check::Refused;
use anyhow::Error;
use serde_json::{Value, json};
use weir_mgmt::admin::Fault;
use weir_mgmt::client::ClientError;

/// `error`: what is wrong, on one line; `faults`: one by one where they have places, as the management API tells them.
pub fn document(error: &Error) -> Value {
    let faults = error.chain().find_map(faults).unwrap_or_default();
    let text = format!("{error:#}");
    // Faults stand on lines of their own behind what the switch answers.
    let lines = text.lines().map(str::trim).take(if faults.is_empty() { usize::MAX } else { 1 });
    json!({ "error": lines.collect::<Vec<_>>().join(" "), "faults": faults })
}

/// The same for what is wrong with the command line.
pub fn usage(error: &clap::Error) -> Value {
    let text = error.to_string();
    let what = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let what = what.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    json!({ "error": what.trim_start_matches("error: "), "faults": [] })
}

fn faults(cause: &(dyn std::error::Error + 'static)) -> Option<Vec<Fault>> {
    if let Some(refused) = cause.downcast_ref::<Refused>() {
        return Some(refused.found.iter().filter(|found| found.is_error()).map(Fault::from).collect());
    }
    match cause.downcast_ref::<ClientError>()? {
        ClientError::Refused { problem, .. } => Some(problem.faults.clone()),
        _ => None,
    }
}
