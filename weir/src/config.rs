//! `weir config`: what holds, where it comes from, why; and configurations of others.

use crate::Outcome;
use crate::check;
use crate::output::OUT;
use crate::sonic;
use crate::which::Which;
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use weir_layout::Grid;
use weir_mgmt::api::documents::{ConfigInForce, EffectiveValue, json};
use weir_mgmt::{api, client, server};

/// `weir config`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print values of a file, or of the running switch.
    Show(ConfigShowArgs),
    /// Print the JSON Schema of configurations, for editors that complete and check.
    Schema,
    /// Make a configuration from that of another system, and say what became of every row.
    Import(sonic::ConfigImportArgs),
    /// Write a configuration as that of another system, and say what cannot be.
    Export(sonic::ConfigExportArgs),
}

/// `weir config show`
#[derive(Debug, Args)]
pub struct ConfigShowArgs {
    /// Configuration file; that of the running switch unless given.
    pub config: Option<PathBuf>,
    /// Every value that holds, not only those somebody set.
    #[arg(long)]
    pub effective: bool,
    /// Where each value comes from (line, preset, derived, default), and why it is so.
    #[arg(long)]
    pub origin: bool,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

pub fn config(command: &ConfigCommand) -> Result<Outcome> {
    match command {
        ConfigCommand::Show(args) => show(args),
        ConfigCommand::Schema => {
            OUT.text(&format!("{:#}\n", weir_config::json_schema()));
            Ok(Outcome::Good)
        }
        ConfigCommand::Import(args) => sonic::import(args),
        ConfigCommand::Export(args) => sonic::export(args),
    }
}

fn show(args: &ConfigShowArgs) -> Result<Outcome> {
    let document = match &args.config {
        Some(path) => {
            let loaded = check::load(path)?;
            ConfigInForce {
                source: path.display().to_string(),
                unconfirmed_ms: None,
                unsettled: None,
                values: server::values(&loaded.config),
            }
        }
        None => {
            let answer = client::get(&args.which.socket()?, api::CONFIG)?;
            client::read(&answer)?
        }
    };
    if args.json {
        OUT.text(&format!("{:#}\n", json(&document)));
    } else {
        OUT.text(&(lines(&document, args.effective, args.origin).join("\n") + "\n"));
    }
    Ok(Outcome::Good)
}

/// One line per value; without `effective` those nobody set are left out.
fn lines(document: &ConfigInForce, effective: bool, origin: bool) -> Vec<String> {
    let set = |row: &&EffectiveValue| effective || !matches!(row.origin.as_str(), "default" | "derived");
    let rows = document.values.iter().filter(set);
    let mut lines = vec![format!("# {}", document.source)];
    if let Some(ms) = document.unconfirmed_ms {
        lines.push(format!("# not confirmed: taken back in {} s", ms.div_ceil(1000)));
    }
    let heads: &[&str] = if origin { &["<key", "<value", "<origin", "<why"] } else { &["<key", "<value"] };
    let mut grid = Grid::new(heads);
    for EffectiveValue { key, value, origin: from, why, .. } in rows {
        let why = [from, why].into_iter().filter(|_| origin);
        grid.push([key, value].into_iter().chain(why).cloned());
    }
    lines.extend(grid.body_at_most(check::WIDEST).lines().map(str::to_owned));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_an_origin_and_only_what_was_set_is_shown_unless_asked() {
        let text = "[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"8MiB\"\n[port_defaults]\nrate = \"1G\"\n\
                    [[port]]\nname = \"p0\"\ndevice = \"ring\"\n";
        let config = weir_config::load("lab.toml", text).unwrap().config;
        let values = server::values(&config);
        let document =
            ConfigInForce { source: "lab.toml".into(), unconfirmed_ms: None, unsettled: None, values };
        let all = lines(&document, true, true);
        for wanted in [
            ("buffer.size", "8MiB", "lab.toml:4"),
            ("wred.roce.pmax", "20%", "preset roce-lossless"),
            // The far end of a virtual port polls: four times a burst of 64 frames of 1500 bytes.
            ("port.p0.queue.3.kmax", "375KiB", "derived"),
            ("fdb.ageing", "300s", "default"),
        ] {
            let line = all.iter().find(|line| line.starts_with(&format!("{} ", wanted.0))).unwrap();
            assert!(line.contains(wanted.1) && line.contains(wanted.2), "{line}");
        }
        let set = lines(&document, false, false);
        assert!(set.len() < all.len() && set.iter().any(|line| line.starts_with("buffer.size")));
        assert!(!set.iter().any(|line| line.starts_with("fdb.ageing") || line.contains("lab.toml:")));
    }
}
