//! Speed of the ns-3 profile: forwarded frames and events per second of one core, as JSON.
//!
//! The first three runs are those the reference's speed was measured with; the fourth has its topology,
//! load and flow sizes, but draws flows of its own. CPU time is that of the process: a busy machine does
//! not change it much. `cargo run --release -p weir-sim --example ns3_speed [--published PROGRAM] [NAME ..]`
//!
//! With `--published` the published simulator plays the same network, and its speed is printed. It has to complete the same
//! flows, the last of them at the same nanosecond where no frame is marked, and within 5 % else: marks are drawn at random.

mod process;
mod published;

use process::{THIS, cpu_seconds, peak_rss_kb};
use std::time::Instant;

use serde_json::json;
use weir_endpoint::dcqcn::ns3::Params;
use weir_sim::ns3::config::{Config, Control, FlowSpec, Link, Marking, Topology, WindowRule};
use weir_sim::ns3::rng::SplitMix;
use weir_sim::ns3::sim::Sim;

const G: u64 = 1_000_000_000;
const MB: u32 = 1_000_000;

/// `n` senders and one receiver on one switch.
fn incast(n: u32, bytes: u32) -> (Topology, Vec<FlowSpec>) {
    let links = (0..=n).map(|host| Link { a: host, b: n + 1, rate: 100 * G, delay: 1000 }).collect();
    let flows = (0..n).map(|src| FlowSpec { src, dst: n, dst_port: 100, prio: 3, bytes, start: 0 }).collect();
    (Topology { hosts: n + 1, switches: 1, links, numbers: Vec::new() }, flows)
}

/// `n` senders and `n` receivers on two switches with one trunk.
fn dumbbell(n: u32, bytes: u32) -> (Topology, Vec<FlowSpec>) {
    let edge = |host| Link { a: host, b: 2 * n + u32::from(host >= n), rate: 100 * G, delay: 1000 };
    let trunk = Link { a: 2 * n, b: 2 * n + 1, rate: 100 * G, delay: 1000 };
    let links = (0..2 * n).map(edge).chain([trunk]).collect();
    let flows =
        (0..n).map(|src| FlowSpec { src, dst: n + src, dst_port: 100, prio: 3, bytes, start: 0 }).collect();
    (Topology { hosts: 2 * n, switches: 2, links, numbers: Vec::new() }, flows)
}

/// 320 hosts in 5 pods of 4 ToR and 4 aggregation switches, 16 cores; 400G above the ToR, no oversubscription.
fn fat_tree() -> Topology {
    let (hosts, tor, agg, core) = (320, 320, 340, 360);
    let mut links: Vec<Link> =
        (0..hosts).map(|host| Link { a: host, b: tor + host / 16, rate: 100 * G, delay: 1000 }).collect();
    let mut fabric = |a, b| links.push(Link { a, b, rate: 400 * G, delay: 1000 });
    for pod in 0..5 {
        for (t, a) in (0..16).map(|i| (i / 4, i % 4)) {
            fabric(tor + 4 * pod + t, agg + 4 * pod + a);
        }
        for (a, c) in (0..16).map(|i| (i / 4, i % 4)) {
            fabric(agg + 4 * pod + a, core + 4 * a + c);
        }
    }
    Topology { hosts, switches: 56, links, numbers: Vec::new() }
}

/// Flow sizes of the web search trace: bytes, and the share of flows up to that size.
const WEB_SEARCH: [(f64, f64); 12] = [
    (1.0, 0.0),
    (1e4, 0.15),
    (2e4, 0.20),
    (3e4, 0.30),
    (5e4, 0.40),
    (8e4, 0.53),
    (2e5, 0.60),
    (1e6, 0.70),
    (2e6, 0.80),
    (5e6, 0.90),
    (1e7, 0.97),
    (3e7, 1.0),
];

fn web_search_bytes(share: f64) -> u32 {
    let steps = || WEB_SEARCH.windows(2).map(|w| (w[0], w[1]));
    let ((b0, s0), (b1, s1)) =
        steps().find(|(_, high)| share <= high.1).unwrap_or((WEB_SEARCH[10], WEB_SEARCH[11]));
    (b0 + (b1 - b0) * (share - s0) / (s1 - s0)).max(1.0) as u32
}

/// Poisson arrivals between random pairs, `load` of every host's link for `span` ns.
fn web_search(load: f64, span: u64, seed: u64) -> (Topology, Vec<FlowSpec>) {
    let topology = fat_tree();
    let mut rng = SplitMix::new(seed);
    let mean: f64 = WEB_SEARCH.windows(2).map(|w| (w[1].1 - w[0].1) * (w[0].0 + w[1].0) / 2.0).sum();
    let per_ns = load * f64::from(topology.hosts) * 12.5 / mean;
    let mut flows = Vec::new();
    let mut at = 0.0;
    loop {
        at += -(1.0 - rng.unit()).ln() / per_ns;
        if at >= span as f64 {
            return (topology, flows);
        }
        let src = (rng.unit() * f64::from(topology.hosts)) as u32;
        let other = (rng.unit() * f64::from(topology.hosts - 1)) as u32;
        let dst = other + u32::from(other >= src);
        flows.push(FlowSpec {
            src,
            dst,
            dst_port: 100,
            prio: 3,
            bytes: web_search_bytes(rng.unit()),
            start: at as u64,
        });
    }
}

fn config(buffer_mib: u32, dcqcn: bool) -> Config {
    let marking =
        |rate, scale: u32| Marking { rate, kmin: 400_000 * scale, kmax: 1_600_000 * scale, pmax: 0.2 };
    Config {
        buffer: buffer_mib << 20,
        reserve: 4096,
        resume_offset: 3072,
        shift: 3,
        nack_interval: 500_000,
        marking: if dcqcn { vec![marking(100 * G, 1), marking(400 * G, 4)] } else { Vec::new() },
        control: if dcqcn { Control::Dcqcn(Params::default()) } else { Control::None },
        controls: Vec::new(),
        window: WindowRule::None,
        global_t: true,
        rate_bound: true,
        payload: 1000,
        epoch: 0,
        ack_gate: 0,
        stop: 10 * G,
        seed: 1,
    }
}

fn measure(name: &str, (topology, flows): &(Topology, Vec<FlowSpec>), config: &Config, other: Option<&str>) {
    let (start, cpu) = (Instant::now(), cpu_seconds(THIS));
    let mut sim = Sim::new(topology, flows, config, ()).expect("a network");
    sim.run();
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds(THIS) - cpu);
    let frames: u64 = sim.switches().iter().map(|switch| switch.forwarded).sum();
    let fct = sim.flows().iter().filter_map(|flow| flow.finished).max();
    let completed = sim.flows().iter().filter(|flow| flow.finished.is_some()).count();
    if let Some(program) = other {
        let played = published::play(program, topology, flows, config).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(played.completed, completed, "{name}: flows completed in {program} and here");
        // Which frames are marked is drawn at random, by other numbers there.
        let (there, here) = (played.last_fct_ns.unwrap_or(0), fct.unwrap_or(0));
        let apart = if config.marking.is_empty() { 0 } else { here / 20 };
        let all = format!("{name}: completion of the last flow, {there} ns in {program} and {here} ns here");
        assert!(there.abs_diff(here) <= apart, "{all}");
        let line = json!({
            "run": name,
            "frames": frames,
            "cpu_seconds": played.cpu_seconds,
            "frames_per_cpu_s": (frames as f64 / played.cpu_seconds) as u64,
            "last_fct_ns": fct,
            "peak_rss_kb": played.peak_rss_kb,
        });
        println!("{line}");
        return;
    }
    let line = json!({
        "run": name,
        "frames": frames,
        "events": sim.events(),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "frames_per_s": (frames as f64 / seconds) as u64,
        "events_per_s": (sim.events() as f64 / seconds) as u64,
        "frames_per_cpu_s": (frames as f64 / cpu) as u64,
        "events_per_cpu_s": (sim.events() as f64 / cpu) as u64,
        "completed": completed,
        "flows": flows.len(),
        "last_fct_ns": fct,
        "peak_rss_kb": peak_rss_kb(THIS),
    });
    println!("{line}");
}

fn main() {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let program = wanted.iter().position(|w| w == "--published").map(|at| {
        let program = wanted.drain(at..(at + 2).min(wanted.len())).nth(1);
        program.expect("the published simulator behind --published")
    });
    let runs = [
        ("incast16_dcqcn_50MB_b32", incast(16, 50 * MB), config(32, true)),
        ("incast16_pfc_50MB_b4", incast(16, 50 * MB), config(4, false)),
        ("dumbbell16_dcqcn_25MB_b32", dumbbell(16, 25 * MB), config(32, true)),
        ("fat320_websearch30_0.5ms_dcqcn", web_search(0.3, 500_000, 1), config(32, true)),
    ];
    for (name, network, config) in &runs {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            measure(name, network, config, program.as_deref());
        }
    }
}
