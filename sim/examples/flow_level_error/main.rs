//! The error of flow level and hybrid level beside packets, as the rows of the tables in docs/simulation.md: `cargo run --release -p
//! weir-sim --example flow_level_error [K] [flow | hybrid] [CASE ..]`, a fat tree of K ports a switch, 16 unless given, one of the levels or both, and
//! the cases whose names have one of these words. CPU time is that of the thread.

mod cases;
#[path = "../process/mod.rs"]
mod process;

use process::{THIS, cpu_seconds, peak_rss_kb};
use weir_sim::fabric::{Level, Report, Spread, load, run};

const LEVELS: [&str; 2] = ["flow", "hybrid"];

fn play(text: &str) -> (Report, f64) {
    let cpu = cpu_seconds(THIS);
    let report = load("case", text).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}"));
    (report, cpu_seconds(THIS) - cpu)
}

fn main() {
    let (numbers, words): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|word| word.parse::<usize>().is_ok());
    let k: usize = numbers.first().map_or(16, |k| k.parse().expect("a number"));
    let (named, words): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| LEVELS.contains(&&**word));
    println!(
        "| Traffic | Level | Mean FCT, us | Error of the mean, % | p50 | p99 | Last flow | Each flow | CPU s, packets | CPU s, level | Flows frame by frame |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (name, traffic) in cases::cases(k * k * k / 4) {
        if !words.is_empty() && !words.iter().any(|word| name.contains(&**word)) {
            continue;
        }
        let text = cases::fabric(k, &traffic);
        let (packets, long) = play(&text);
        let mean = packets.fct_ns.map_or(0.0, |fct| fct.mean as f64 / 1e3);
        for level in LEVELS.iter().filter(|level| named.is_empty() || named.iter().any(|n| n == *level)) {
            let (report, short) = play(&format!("level = \"{level}\"\n{text}"));
            let e = cases::error(&packets, &report);
            let played = report.flows.iter().filter(|f| f.level == Some(Level::Packet)).count();
            println!(
                "| {name} | {level} | {mean:.1} | {:+.1} | {:+.1} | {:+.1} | {:+.1} | {:.1} | {long:.1} | {short:.2} | {played} of {} |",
                e.mean,
                e.p50,
                e.p99,
                e.all,
                e.each,
                report.flows.len()
            );
        }
    }
    eprintln!("peak memory: {} MB", peak_rss_kb(THIS).unwrap_or(0) / 1024);
}
