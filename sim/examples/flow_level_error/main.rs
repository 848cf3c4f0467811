//! The error of flow level beside packets, as the rows of the table in docs/simulation.md: `cargo run --release -p weir-sim
//! --example flow_level_error [K] [CASE ..]`, a fat tree of K ports a switch, 16 unless given, and the cases whose names have one
//! of these words. CPU time is that of the thread.

mod cases;
#[path = "../process/mod.rs"]
mod process;

use process::{cpu_seconds, peak_rss_kb};
use weir_sim::fabric::{Report, Spread, load, run};

fn play(text: &str) -> (Report, f64) {
    let cpu = cpu_seconds();
    let report = load("case", text).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}"));
    (report, cpu_seconds() - cpu)
}

fn main() {
    let (numbers, words): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|word| word.parse::<usize>().is_ok());
    let k: usize = numbers.first().map_or(16, |k| k.parse().expect("a number"));
    println!(
        "| Traffic | Mean FCT, us | Error of the mean, % | p50 | p99 | Last flow | Each flow | CPU s, packets | CPU s, flows |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (name, traffic) in cases::cases(k * k * k / 4) {
        if !words.is_empty() && !words.iter().any(|word| name.contains(&**word)) {
            continue;
        }
        let text = cases::fabric(k, &traffic);
        let ((packets, long), (flows, short)) = (play(&text), play(&format!("level = \"flow\"\n{text}")));
        let e = cases::error(&packets, &flows);
        let mean = packets.fct_ns.map_or(0.0, |fct| fct.mean as f64 / 1e3);
        println!(
            "| {name} | {mean:.1} | {:+.1} | {:+.1} | {:+.1} | {:+.1} | {:.1} | {long:.1} | {short:.2} |",
            e.mean, e.p50, e.p99, e.all, e.each
        );
    }
    eprintln!("peak memory: {} MB", peak_rss_kb().unwrap_or(0) / 1024);
}
