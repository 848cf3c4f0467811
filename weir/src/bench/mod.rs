//! `weir bench`: what parts of weir cost by themselves.

mod pipeline;
mod residence;
mod setup;

use crate::Outcome;
use crate::output::{say, say_err};
use crate::trace::FilterArgs;
use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;
use weir_dataplane::stats::Histogram;

/// `weir bench`
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// receive, transmit and tick over frames in memory: cycles per frame and stage, as JSON.
    Pipeline(PipelineArgs),
    /// The polling loop with frames from memory that arrive at the rate of a wire: their time in the switch, as JSON.
    Residence(ResidenceArgs),
}

/// `weir bench pipeline`
#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// Windows of some hundred microseconds, of which the best counts.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub windows: u32,
    /// Lcores that share the ports, each with every so many-th: one thread does what all of them would, in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub lcores: u8,
    /// Apply the configuration anew before each window, as `weir apply` does: everything that was decided about frames is void.
    #[arg(long)]
    pub apply: bool,
    /// Follow frames of the first port meanwhile, as `weir trace` does; these options say which.
    #[arg(long)]
    pub trace: bool,
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub traffic: TrafficArgs,
}

/// `weir bench residence`
#[derive(Debug, Args)]
pub struct ResidenceArgs {
    /// Rate of every port, in and out; with --config those of the configuration hold.
    #[arg(long, default_value = "10G", value_parser = weir_config::units::rate, conflicts_with = "config")]
    pub rate: u64,
    /// Share of the time for which each port receives, in per cent: 50 is half load.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub load: u8,
    /// Windows of 100 ms.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=36000))]
    pub windows: u32,
    #[command(flatten)]
    pub traffic: TrafficArgs,
}

/// The switch of a bench, and what comes to it.
#[derive(Clone, Debug, Args)]
pub struct TrafficArgs {
    /// Stations behind each port.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub macs: u32,
    /// Ports of the switch.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub ports: u16,
    /// Ports that carry traffic, in pairs; all of them unless given, or all but one of an odd number.
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub busy: Option<u16>,
    /// Length of the frames with FCS.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=9216))]
    pub frame_bytes: u16,
    /// Priorities in use, frame by frame in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub classes: u8,
    /// A switch of one's own in place of the one the options above describe; its devices are not opened.
    #[arg(long, requires = "capture", conflicts_with_all = ["macs", "ports", "busy", "frame_bytes", "classes"])]
    pub config: Option<PathBuf>,
    /// pcap file with the frames that come to the first, second, ... port of --config, over and over.
    #[arg(long, requires = "config")]
    pub capture: Vec<PathBuf>,
}

/// Loop turns per window: some hundred microseconds.
const TURNS: usize = 64;

pub fn bench(command: &BenchCommand) -> Result<Outcome> {
    match command {
        BenchCommand::Pipeline(args) => pipeline(args),
        BenchCommand::Residence(args) => residence(args),
    }
}

/// Prints one JSON object: cycles per frame and stage, of the least disturbed of many short windows.
fn pipeline(args: &PipelineArgs) -> Result<Outcome> {
    let load = setup::Load::new(&args.traffic, None)?;
    let (ports, busy) = (load.params.ports.len(), load.captures.len());
    let follow = args.trace.then(|| args.filter.filter());
    let report = pipeline::measure(load, args.lcores, args.windows as usize, (follow, args.apply))?;
    // The kernel's word for the rate of the time stamp counter; without it, the report is in nanoseconds.
    let ghz = ghz();
    let per_frame = |ns: f64| (ns * ghz.unwrap_or(1.0) * 10.0).round() / 10.0;
    let stages = report.stages;
    let said = json!({
        "ports": ports,
        "busy_ports": busy,
        "lcores": args.lcores,
        "unit": if ghz.is_some() { "TSC cycles" } else { "ns" },
        "ghz": ghz,
        "per_frame": {
            "total": per_frame(stages.receive + stages.schedule + stages.release + stages.tick),
            "receive": per_frame(stages.receive),
            "schedule": per_frame(stages.schedule),
            "release": per_frame(stages.release),
            "tick_and_idle_ports": per_frame(stages.tick),
        },
        "first_of_a_kind": {
            "parse_classify": per_frame(report.parse),
            "lookup_learn": per_frame(report.lookup),
        },
        "frames": report.frames,
        "conservation_error": report.conservation_error,
        "lost": report.lost,
    });
    say!("{said:#}");
    // A configuration of one's own may be one that drops.
    Ok(verdict(&args.traffic, report.conservation_error, (report.lost, report.frames)))
}

/// Prints one JSON object: percentiles of the time frames were in the switch.
fn residence(args: &ResidenceArgs) -> Result<Outcome> {
    let (traffic, rate) = (args.traffic.clone(), args.rate);
    let load = move || setup::Load::new(&traffic, Some(rate));
    let report = residence::measure(load, f64::from(args.load) / 100.0, args.windows as usize)?;
    let percentiles = |times: &Histogram| {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| times.quantile(q));
        json!({ "frames": times.count(), "p50": p50, "p99": p99, "p99_9": p999, "max": times.max() })
    };
    let books = report.books;
    let said = json!({
        "unit": "ns",
        "load_percent": args.load,
        "windows": report.windows,
        "quiet_windows": report.quiet_windows,
        "arrival_to_transmit_quiet": percentiles(&report.quiet),
        "arrival_to_transmit": percentiles(&report.all),
        "residence": percentiles(&report.residence),
        "frames": books.received,
        "missed": report.missed,
        "lost": books.dropped,
        "conservation_error": books.error(),
    });
    say!("{said:#}");
    // A machine that is too slow misses frames in the ring, where nothing of the switch is to blame.
    Ok(verdict(&args.traffic, books.error(), (books.dropped, books.received)))
}

/// Whether what was measured is what it is said to be, with the reason if it is not.
fn verdict(traffic: &TrafficArgs, conservation_error: i64, (lost, frames): (u64, u64)) -> Outcome {
    let loses = traffic.config.is_none() && lost > 0;
    if loses {
        say_err!(
            "weir: {lost} of {frames} frames were lost, which this switch is not to do: a frame that is lost costs another time"
        );
    }
    if conservation_error != 0 {
        say_err!("weir: frames do not add up, by {conservation_error}");
    }
    if loses || conservation_error != 0 { Outcome::Bad } else { Outcome::Good }
}

/// Cycles per nanosecond.
fn ghz() -> Option<f64> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("cpu MHz"))?;
    Some(line.split(':').nth(1)?.trim().parse::<f64>().ok()? / 1000.0)
}
