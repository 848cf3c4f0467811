//! `weir lab`: a switch and hosts on every port in one process. What a newcomer runs first.

mod hosts;
mod table;

use crate::Outcome;
use crate::check;
use crate::cli::LabArgs;
use crate::run::{Origin, Running, Stop, Totals};
use anyhow::{Result, bail};
use hosts::{FlowResult, HostResults, Hosts};
use std::fmt::Write;
use std::time::{Duration, Instant};
use table::Table;
use weir_dataplane::config::{Config, DeviceKind};
use weir_dpdk::Clock;

/// The configuration of a lab that is given none.
const BUILT_IN: &str = include_str!("../../../configs/lab.toml");

/// Frames hosts and rings may hold, per port: a burst in hand and both rings.
const HELD_PER_HOST: u64 = 1024;

/// How often the table is shown.
const LOOK: Duration = Duration::from_secs(1);

/// How long frames on their way may take to arrive after the hosts have stopped sending.
const SETTLE: Duration = Duration::from_millis(300);

pub fn lab(args: &LabArgs, eal: &[String]) -> Result<Outcome> {
    let origin = match &args.config {
        Some(path) => Origin::File(path.clone()),
        None => Origin::BuiltIn("lab.toml (built in)"),
    };
    let loaded = match &origin {
        Origin::File(path) => check::load(path)?,
        Origin::BuiltIn(name) => check::load_text(name, &built_in(args))?,
    };
    let config = loaded.config;
    if let Some(port) = config.ports.iter().find(|port| port.kind != DeviceKind::Ring) {
        bail!("port {} is {}: lab hosts stand on `device = \"ring\"` ports only", port.name, port.device);
    }
    if let Some(port) = config.ports.iter().find(|port| config.formats[port.format].name != "standard") {
        let format = &config.formats[port.format].name;
        bail!("port {} speaks {format}: lab hosts speak standard frames only", port.name);
    }
    let stop = Stop::on_signal()?;
    let mut running = Running::start(&config, eal, HELD_PER_HOST * config.ports.len() as u64, &origin)?;
    running.describe(&config);
    let far = std::mem::take(&mut running.far).into_iter().flatten().collect();
    let clock = Clock::new(&running.eal);
    let hosts = Hosts::start(&config, far, running.pool.clone(), clock.clone(), args.deaf)?;
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
    std::thread::sleep(SETTLE);
    let totals = running.stop()?;
    let results = hosts.finish(clock.now())?;
    totals.print();
    if let Some(path) = &args.summary {
        totals.write(path)?;
    }
    let findings = findings(&config, &totals, &results, args.deaf);
    print_flows(&config, &results);
    let lost: u64 = results.flows.iter().map(|f| f.lost).sum();
    if findings.is_empty() {
        let of_lossless = if args.deaf { "hosts deaf to PFC" } else { "no lossless frame lost" };
        println!(
            "verdict: PASS: every frame accounted for ({lost} lost by name), {of_lossless}, all content right"
        );
        return Ok(Outcome::Good);
    }
    println!("verdict: FAIL: {}", findings.join("; "));
    Ok(Outcome::Bad)
}

/// The built-in configuration, or one like it with another preset or another number of hosts.
fn built_in(args: &LabArgs) -> String {
    let mut text = BUILT_IN.to_owned();
    if let Some(preset) = &args.preset {
        text = text.replace("preset = \"roce-lossless\"", &format!("preset = {preset:?}"));
    }
    if let Some(senders) = args.incast {
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

fn print_flows(config: &Config, results: &HostResults) {
    let name = |port: usize| &config.ports[port].name;
    println!(
        "{:14} {:>5} {:>12} {:>12} {:>8} {:>8} {:>8}",
        "flow", "prio", "sent", "received", "lost", "wrong", "marked"
    );
    for f in &results.flows {
        println!(
            "{:14} {:>5} {:>12} {:>12} {:>8} {:>8} {:>8}",
            format!("{} -> {}", name(f.from), name(f.to)),
            f.flow.priority,
            f.sent,
            f.received,
            f.lost,
            f.wrong,
            f.marked
        );
    }
    for (port, ns) in results.paused_ns.iter().enumerate().filter(|(_, ns)| **ns > 0) {
        println!("host on {} was held back by PFC for {:.1} ms", name(port), *ns as f64 / 1e6);
    }
}

/// The flow's priority group holds its sender back instead of losing its frames.
fn lossless(config: &Config, flow: &FlowResult) -> bool {
    let port = &config.ports[flow.from];
    let class = flow.flow.priority;
    let pg = usize::from(port.maps.tc_to_pg[usize::from(class)]);
    port.pgs[pg].lossless && port.pfc.tx && port.pfc.enable >> class & 1 == 1
}

/// Everything that does not add up or should not have happened. Empty: all is well.
fn findings(config: &Config, totals: &Totals, results: &HostResults, deaf: bool) -> Vec<String> {
    let mut found = Vec::new();
    let error = totals.conservation.error();
    if error != 0 {
        found.push(format!("the switch lost count of {error} frames"));
    }
    let (mut lost, mut received) = (0, 0);
    for f in &results.flows {
        lost += f.lost;
        received += f.received;
        if lossless(config, f) && f.lost > 0 && !deaf {
            found.push(format!("flow {} lost {} frames of a lossless priority", f.flow.id, f.lost));
        }
        if f.wrong > 0 {
            found.push(format!(
                "flow {}: {} frames arrived changed, twice or out of order",
                f.flow.id, f.wrong
            ));
        }
        if f.sent != f.received + f.lost {
            found.push(format!(
                "flow {}: sent {} but received {} + lost {}",
                f.flow.id, f.sent, f.received, f.lost
            ));
        }
    }
    let dropped = totals.conservation.dropped;
    if lost != dropped {
        found.push(format!("hosts miss {lost} frames, the switch names {dropped}"));
    }
    if results.unexpected > 0 {
        found.push(format!("{} frames arrived that nobody sent", results.unexpected));
    }
    if received == 0 {
        found.push("no frame arrived at all".to_owned());
    }
    found
}
