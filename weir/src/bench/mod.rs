//! `weir bench`: what parts of weir cost by themselves.

mod pipeline;
mod setup;

use crate::Outcome;
use crate::cli::{BenchCommand, PipelineArgs};
use crate::output::say;
use anyhow::{Result, bail};
use serde_json::json;

/// Loop turns per window: some hundred microseconds.
const TURNS: usize = 64;

pub fn bench(command: &BenchCommand) -> Result<Outcome> {
    match command {
        BenchCommand::Pipeline(args) => pipeline(args),
    }
}

/// Prints one JSON object: cycles per frame and stage, of the least disturbed of many short windows.
fn pipeline(args: &PipelineArgs) -> Result<Outcome> {
    let busy = args.busy.unwrap_or(args.ports & !1);
    if busy % 2 == 1 || busy > args.ports {
        bail!("--busy {busy}: ports carry traffic in pairs, and at most --ports {} of them can", args.ports);
    }
    let load = setup::Load {
        ports: usize::from(args.ports),
        busy: usize::from(busy),
        macs: args.macs,
        frame_bytes: usize::from(args.frame_bytes),
        classes: args.classes,
    };
    let switch = setup::switch(&load)?;
    let report = pipeline::measure(switch, &load, args.windows as usize);
    // The kernel's word for the rate of the time stamp counter; without it, the report is in nanoseconds.
    let ghz = ghz();
    let per_frame = |ns: f64| (ns * ghz.unwrap_or(1.0) * 10.0).round() / 10.0;
    let stages = report.stages;
    let report = json!({
        "ports": load.ports,
        "busy_ports": load.busy,
        "macs_per_port": load.macs,
        "frame_bytes": load.frame_bytes,
        "classes": load.classes,
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
    say!("{report:#}");
    Ok(if report["conservation_error"] == 0 && report["lost"] == 0 { Outcome::Good } else { Outcome::Bad })
}

/// Cycles per nanosecond.
fn ghz() -> Option<f64> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("cpu MHz"))?;
    Some(line.split(':').nth(1)?.trim().parse::<f64>().ok()? / 1000.0)
}
