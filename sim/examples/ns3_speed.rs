//! Speed of the ns-3 profile: forwarded frames and events per second of one core, as JSON.
//!
//! The three runs are those the reference's speed was measured with. `cargo run --release -p weir-sim
//! --example ns3_speed [NAME ..]`
use std::time::Instant;

use serde_json::json;
use weir_endpoint::dcqcn::ns3::Params;
use weir_sim::ns3::config::{Config, Dcqcn, FlowSpec, Link, Marking, Topology};
use weir_sim::ns3::sim::Sim;

const G: u64 = 1_000_000_000;
const MB: u32 = 1_000_000;

/// `n` senders and one receiver on one switch.
fn incast(n: u32, bytes: u32) -> (Topology, Vec<FlowSpec>) {
    let links = (0..=n).map(|host| Link { a: host, b: n + 1, rate: 100 * G, delay: 1000 }).collect();
    let flows = (0..n).map(|src| FlowSpec { src, dst: n, prio: 3, bytes, start: 0 }).collect();
    (Topology { hosts: n + 1, switches: 1, links }, flows)
}

/// `n` senders and `n` receivers on two switches with one trunk.
fn dumbbell(n: u32, bytes: u32) -> (Topology, Vec<FlowSpec>) {
    let edge = |host| Link { a: host, b: 2 * n + u32::from(host >= n), rate: 100 * G, delay: 1000 };
    let trunk = Link { a: 2 * n, b: 2 * n + 1, rate: 100 * G, delay: 1000 };
    let links = (0..2 * n).map(edge).chain([trunk]).collect();
    let flows = (0..n).map(|src| FlowSpec { src, dst: n + src, prio: 3, bytes, start: 0 }).collect();
    (Topology { hosts: 2 * n, switches: 2, links }, flows)
}

fn config(buffer_mib: u32, dcqcn: bool) -> Config {
    let marking =
        |rate, scale: u32| Marking { rate, kmin: 400_000 * scale, kmax: 1_600_000 * scale, pmax: 0.2 };
    Config {
        buffer: buffer_mib << 20,
        reserve: 4096,
        resume_offset: 3072,
        marking: if dcqcn { vec![marking(100 * G, 1), marking(400 * G, 4)] } else { Vec::new() },
        dcqcn: dcqcn.then(|| Dcqcn { params: Params::default(), window: false }),
        ack_gate: 0,
        stop: 10 * G,
        seed: 1,
    }
}

fn measure(name: &str, (topology, flows): &(Topology, Vec<FlowSpec>), config: &Config) {
    let start = Instant::now();
    let mut sim = Sim::new(topology, flows, config, ()).expect("a network");
    sim.run();
    let seconds = start.elapsed().as_secs_f64();
    let frames: u64 = sim.switches().iter().map(|switch| switch.forwarded).sum();
    let fct = sim.flows().iter().filter_map(|flow| flow.finished).max();
    let line = json!({
        "run": name,
        "frames": frames,
        "events": sim.events(),
        "seconds": seconds,
        "frames_per_s": (frames as f64 / seconds) as u64,
        "events_per_s": (sim.events() as f64 / seconds) as u64,
        "completed": sim.flows().iter().filter(|flow| flow.finished.is_some()).count(),
        "flows": flows.len(),
        "last_fct_ns": fct,
        "peak_rss_kb": peak_rss_kb(),
    });
    println!("{line}");
}

/// High-water mark of the resident set, where the system tells.
fn peak_rss_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let runs = [
        ("incast16_dcqcn_50MB_b32", incast(16, 50 * MB), config(32, true)),
        ("incast16_pfc_50MB_b4", incast(16, 50 * MB), config(4, false)),
        ("dumbbell16_dcqcn_25MB_b32", dumbbell(16, 25 * MB), config(32, true)),
    ];
    for (name, network, config) in &runs {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            measure(name, network, config);
        }
    }
}
