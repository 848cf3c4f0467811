//! Speed of weir's own fabric: frames forwarded by switches and events per second of one core, as JSON.
//!
//! The runs are those the reference's speed was measured with, short ones for `bench/sim-instructions`, and fabrics from files: `cargo run --release -p weir-sim
//! --example fabric_speed [--threads N] [NAME | FILE.toml ..]`. CPU time is that of the
//! thread that starts them, with `--threads` without that of the others: a busy machine does not change it much.

mod process;

use process::{THIS, cpu_seconds, peak_rss_kb};
use std::time::Instant;

use serde_json::json;
use std::ops::ControlFlow;
use weir_sim::fabric::{FabricSpec, load, run_with};

/// Sixteen senders, one receiver, one switch.
fn incast(buffer: &str, bytes: &str, workload: &str) -> String {
    format!(
        "name = \"x\"\nstop_time = \"10s\"\n[topology]\nkind = \"star\"\nhosts = 17\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n\
         [host]\npayload = 1000\nack_every = 1\n[switch.config.buffer]\nsize = \"{buffer}\"\n[switch.config.port_defaults]\nmtu = 1600\n\
         [[switch.config.wred]]\nname = \"roce\"\nkmin = \"400KB\"\nkmax = \"1600KB\"\npmax = \"20%\"\n\
         [[workload]]\nkind = \"incast\"\nto = \"h16\"\nbytes = \"{bytes}\"\n{workload}"
    )
}

/// Sixteen hosts on either side of one trunk.
fn dumbbell() -> String {
    "name = \"x\"\nstop_time = \"10s\"\n[topology]\nkind = \"dumbbell\"\npairs = 16\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n\
     [host]\npayload = 1000\nack_every = 1\n[switch.config.buffer]\nsize = \"32MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
     [[switch.config.wred]]\nname = \"roce\"\nkmin = \"400KB\"\nkmax = \"1600KB\"\npmax = \"20%\"\n"
        .to_owned()
        + &(0..16)
            .map(|i| {
                let to = i + 16;
                format!("[[workload]]\nkind = \"flow\"\nfrom = \"h{i}\"\nto = \"h{to}\"\nbytes = \"25MB\"\ncc = \"dcqcn\"\n")
            })
            .collect::<String>()
}

/// 320 hosts in 5 pods of 4 ToR and 4 aggregation switches, 16 cores; 400G above the ToR.
fn fat_tree() -> String {
    let quoted = |names: Vec<String>| names.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", ");
    let hosts = quoted((0..320).map(|h| format!("h{h}")).collect());
    let tiers = (0..20).map(|i| format!("t{i}")).chain((0..20).map(|i| format!("a{i}")));
    let switches = quoted(tiers.chain((0..16).map(|i| format!("c{i}"))).collect());
    let mut links: Vec<String> =
        (0..320).map(|h| format!("{{ a = \"h{h}\", b = \"t{}\" }}", h / 16)).collect();
    let mut fabric =
        |a: String, b: String| links.push(format!("{{ a = \"{a}\", b = \"{b}\", rate = \"400G\" }}"));
    for pod in 0..5 {
        for i in 0..16 {
            fabric(format!("t{}", 4 * pod + i / 4), format!("a{}", 4 * pod + i % 4));
            fabric(format!("a{}", 4 * pod + i / 4), format!("c{}", 4 * (i / 4) + i % 4));
        }
    }
    let links = links.join(", ");
    format!(
        "name = \"x\"\nstop_time = \"1s\"\n[topology]\nkind = \"custom\"\nhosts = [{hosts}]\nswitches = [{switches}]\n\
         links = [{links}]\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n[host]\npayload = 1000\nack_every = 1\n[switch.config.buffer]\nsize = \"32MiB\"\n\
         [switch.config.port_defaults]\nmtu = 1600\n[[workload]]\nkind = \"poisson\"\nsizes = \"websearch\"\nload = 0.3\n\
         duration = \"500us\"\ncc = \"dcqcn\"\n"
    )
}

/// Sixteen hosts, each of which sends to another pod.
fn small_fat_tree() -> String {
    "name = \"x\"\nstop_time = \"1s\"\n[topology]\nkind = \"fat_tree\"\nk = 4\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n[host]\n\
     payload = 1000\nack_every = 1\n[switch.config.buffer]\nsize = \"32MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
     [[workload]]\nkind = \"permutation\"\nshift = 5\nbytes = \"100KB\"\ncc = \"dcqcn\"\n"
        .to_owned()
}

/// `configs/sim/spray.toml` with shorter flows, and the same in order over one path each.
fn leaf_spine(sprayed: bool) -> String {
    let file = include_str!("../../configs/sim/spray.toml").replace("4MB", "100KB");
    if sprayed {
        file
    } else {
        file.replace("\"spray\"\n\n[host]\ntransport = \"selective_repeat\"", "\"ecmp\"")
    }
}

fn measure(name: &str, spec: &FabricSpec, threads: usize) {
    let (start, cpu) = (Instant::now(), cpu_seconds(THIS));
    let report = run_with(spec, threads, &mut |_| ControlFlow::Continue(())).expect("a fabric");
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds(THIS) - cpu);
    let frames: u64 = report.ports().map(|(_, port)| port.tx_frames).sum();
    let line = json!({
        "run": name,
        "threads": threads,
        "frames": frames,
        "events": report.events,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "frames_per_cpu_s": (frames as f64 / cpu) as u64,
        "events_per_cpu_s": (report.events as f64 / cpu) as u64,
        "completed": report.flows_done,
        "flows": report.flows_finite,
        "dropped": report.frames_dropped,
        "last_fct_ns": report.fct_ns.map(|f| f.max),
        "peak_rss_kb": peak_rss_kb(THIS),
    });
    println!("{line}");
}

fn main() {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut threads = 1;
    if let Some(at) = wanted.iter().position(|w| w == "--threads") {
        threads =
            wanted.drain(at..at + 2).nth(1).and_then(|n| n.parse().ok()).expect("a number behind --threads");
    }
    let runs = [
        ("incast16_dcqcn_50MB_b32", incast("32MiB", "50MB", "cc = \"dcqcn\"\n")),
        ("incast16_pfc_50MB_b4", incast("4MiB", "50MB", "")),
        ("dumbbell16_dcqcn_25MB_b32", dumbbell()),
        ("fat320_websearch30_0.5ms_dcqcn", fat_tree()),
        // Short ones, for counting instructions.
        ("incast16_dcqcn_500KB_b32", incast("32MiB", "500KB", "cc = \"dcqcn\"\n")),
        ("incast16_pfc_500KB_b4", incast("4MiB", "500KB", "")),
        ("fat16_permutation_100KB_dcqcn", small_fat_tree()),
        ("leaf16_ecmp_100KB", leaf_spine(false)),
        ("leaf16_spray_100KB", leaf_spine(true)),
    ];
    for (name, text) in &runs {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            measure(name, &load(name, text).unwrap_or_else(|e| panic!("{e}")), threads);
        }
    }
    for file in wanted.iter().filter(|w| w.ends_with(".toml")) {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{file}: {e}"));
        let spec = load(file, &text).unwrap_or_else(|e| panic!("{e}"));
        measure(&spec.name, &spec, threads);
    }
}
