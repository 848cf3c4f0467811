//! `weir lab`: a switch and hosts on every port in one process. What a newcomer runs first.

mod hosts;
mod rclink;
mod roce;
mod table;
mod verdict;

use crate::Outcome;
use crate::check;
use crate::file::{can_write, not_over, write_file};
use crate::log;
use crate::output::{self, say};
use crate::quantity::time;
use crate::run::privileges::give_up_rest;
use crate::run::{Origin, Running, Stop, hangup};
use anyhow::{Result, bail};
use clap::Args;
use hosts::{Hosts, Manners};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use table::Table;
use weir_config::{DeviceKind, HostProtocol, PortConfig};
use weir_dpdk::Clock;

/// `weir lab`
#[derive(Debug, Args)]
pub struct LabArgs {
    /// Configuration file whose ports are all `device = "ring"`; a built-in one unless given.
    pub config: Option<PathBuf>,
    /// Stop after this time, e.g. 10s.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// Preset of the built-in configuration.
    #[arg(long, conflicts_with = "config", value_name = "NAME")]
    pub preset: Option<String>,
    /// This many hosts send to one (built-in configuration). DPDK has 32 ports, and a ring takes two.
    #[arg(long, conflicts_with = "config", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    pub incast: Option<u8>,
    /// What the hosts speak: rclink with a paxi preset or AFH ports, else rocev2, unless `[lab] hosts` says.
    #[arg(long, value_name = "KIND")]
    pub hosts: Option<HostsArg>,
    /// Hosts ignore PFC and CNPs, to show what happens without them.
    #[arg(long)]
    pub deaf: bool,
    /// Hosts do not react to marked frames: only PFC slows them down.
    #[arg(long)]
    pub no_dcqcn: bool,
    /// Write totals, drops, latency and conservation to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Log events on standard error.
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub log: Option<String>,
    /// Write the events that changed the hosts' rates to this file as CSV.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// What the hosts of a lab speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HostsArg {
    /// RoCEv2.
    Rocev2,
    /// RC Link, the endpoint side of PAXI.
    Rclink,
}

/// The configuration of a lab that is given none, and the same for PAXI.
const BUILT_IN: &str = include_str!("../../../configs/lab.toml");
const BUILT_IN_PAXI: &str = include_str!("../../../configs/lab-paxi.toml");

/// Senders of an incast for whose four lossless groups its buffer has headroom; three times as much has it for all there can be.
const PAXI_SENDERS: u8 = 5;

/// Frames hosts and rings may hold, per port: a burst in hand and both rings.
const HELD_PER_HOST: u64 = 1024;

/// How often the table is shown.
const LOOK: Duration = Duration::from_secs(1);

pub fn lab(args: &LabArgs, eal: &[String]) -> Result<Outcome> {
    let hangup = hangup()?;
    let stop = Stop::on_signal()?;
    output::detach()?;
    for written in [&args.summary, &args.trace] {
        not_over(written.as_deref(), args.config.as_deref())?;
    }
    can_write(args.summary.iter().chain(&args.trace))?;
    let origin = match &args.config {
        Some(path) => Origin::File(path.clone()),
        None => Origin::BuiltIn("lab.toml (built in)"),
    };
    let loaded = match &origin {
        Origin::File(path) => check::load(path)?,
        Origin::BuiltIn(name) => check::load_text(name, &built_in(args))?,
    };
    let mut config = loaded.config;
    if let Some(port) = config.ports.iter().find(|port| port.kind != DeviceKind::Ring) {
        bail!("port {} is {}: lab hosts stand on `device = \"ring\"` ports only", port.name, port.device);
    }
    if let Some(lag) = config.lags.first() {
        let name = &lag.name;
        bail!(
            "LAG {name}: a lab host stands on one port, and frames for it would leave by the other members: take `[[lag]]` out"
        );
    }
    let protocol = match args.hosts {
        Some(HostsArg::Rocev2) => HostProtocol::Roce,
        Some(HostsArg::Rclink) => HostProtocol::RcLink,
        None => config.lab.hosts,
    };
    let other = |port: &&PortConfig| config.formats[port.format].name != "standard";
    if protocol == HostProtocol::RcLink {
        rclink::place(&mut config)?;
    } else if let Some(port) = config.ports.iter().find(other) {
        let format = &config.formats[port.format].name;
        bail!("port {} speaks {format}, RoCEv2 hosts speak standard frames: use --hosts rclink", port.name);
    }
    log::start(args.log.as_deref());
    let extra = HELD_PER_HOST * config.ports.len() as u64;
    let mut running = Running::start(&config, eal, extra, &origin, hangup)?;
    give_up_rest(
        &config.ports,
        args.config.iter().chain(&args.summary).chain(&args.trace).map(PathBuf::as_path),
    );
    running.describe(&config);
    let far = std::mem::take(&mut running.far).into_iter().flatten().collect();
    let clock = Clock::new(&running.eal);
    let manners = Manners { deaf: args.deaf, no_dcqcn: args.no_dcqcn, trace: args.trace.is_some(), protocol };
    let hosts = Hosts::start(&config, far, running.pool.clone(), clock, manners)?;
    let names = config.ports.iter().map(|port| port.name.clone()).collect();
    let mut table = Table::new(names, running.counters.clone(), running.gauges.clone());
    let start = Instant::now();
    let mut next = LOOK;
    while !stop.asked() && args.duration.is_none_or(|time| start.elapsed() < time) {
        running.attend(Duration::from_millis(20));
        if start.elapsed() >= next {
            next += LOOK;
            table.show(start.elapsed().as_secs_f64());
        }
    }
    hosts.stop_sending();
    let totals = running.stop()?;
    let results = hosts.finish(clock.now())?;
    let findings = verdict::findings(&config, &totals, &results, args.deaf);
    // Files first: they wait for nobody.
    let summary = args.summary.as_ref().map_or(Ok(()), |path| {
        let json = verdict::json(&config, &totals, &results, &findings);
        write_file(path, format!("{json:#}\n"))
    });
    let trace = args.trace.as_ref().map_or(Ok(()), |path| write_file(path, &results.trace));
    totals.print();
    verdict::print(&config, &results);
    // No fault of the switch, but perhaps the reason for one.
    let absent: String = totals.absent_workers().iter().map(|words| format!("; {words}")).collect();
    let good = findings.is_empty();
    if good {
        let lost = totals.conservation.dropped;
        let lossless =
            totals.ordered_losses().unwrap_or_else(|| verdict::lossless(&config, &results).to_owned());
        say!(
            "verdict: PASS: every frame accounted for ({lost} lost by name), {lossless}, all content right{absent}"
        );
    } else {
        say!("verdict: FAIL: {}{absent}", findings.join("; "));
    }
    summary.and(trace)?;
    Ok(if good { Outcome::Good } else { Outcome::Bad })
}

/// The built-in configuration, or one like it with another preset or another number of hosts.
fn built_in(args: &LabArgs) -> String {
    let paxi = args.preset.as_ref().is_some_and(|preset| preset.starts_with("paxi"));
    let mut text = if paxi { BUILT_IN_PAXI } else { BUILT_IN }.to_owned();
    if let Some(preset) = &args.preset {
        for own in ["roce-lossless", "paxi-standard"] {
            text = text.replace(&format!("preset = {own:?}"), &format!("preset = {preset:?}"));
        }
    }
    if let Some(senders) = args.incast {
        if paxi && senders > PAXI_SENDERS {
            text = text.replace("size = \"8MiB\"", "size = \"24MiB\"");
        }
        let at = text.find("[[port]]").unwrap_or(text.len());
        let lab = text.find("[lab]").unwrap_or(text.len());
        let mut ports = String::new();
        for i in 0..=senders {
            let _ = writeln!(ports, "[[port]]\nname = \"p{i}\"\ndevice = \"ring\"\n");
        }
        text.replace_range(at..lab, &ports);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_lab_has_room_for_every_preset_and_number_of_senders() {
        for preset in ["roce-lossless", "roce-semi-lossless", "paxi-standard", "paxi-lite"] {
            for senders in 1..=15 {
                let args = LabArgs {
                    config: None,
                    duration: None,
                    preset: Some(preset.to_owned()),
                    incast: Some(senders),
                    hosts: None,
                    deaf: false,
                    no_dcqcn: false,
                    summary: None,
                    log: None,
                    trace: None,
                };
                let loaded = weir_config::load("lab", &built_in(&args));
                assert!(loaded.is_ok(), "{preset}, {senders}: {:?}", loaded.err());
            }
        }
    }
}
