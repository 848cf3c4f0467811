//! How much one core sums: contributions from memory through an engine, results into memory.
//!
//! `bench/inc` runs it. Every frame's ICRC is checked, every frame sent has one; results are acknowledged. In the same run
//! the same frames are copied, for comparison; then two threads sum beside each other, each with an engine of its own, and
//! then contributions come at half the rate of one core, for the latency of results. `--once K BYTES` runs one case a few
//! times, for callgrind, and prints how many contributions there were.

mod case;
mod latency;

use case::{Case, STRIDE};
use std::sync::Barrier;
use std::time::Duration;
use weir_inc::engine::{Engine, EngineParams};
use weir_inc::kernels::DataType;

/// Times a case is run; the best counts, since all else on the machine only adds.
const RUNS: usize = 30;

fn out() -> Vec<u8> {
    vec![0; 66 * STRIDE]
}

fn best(mut run: impl FnMut() -> Duration) -> Duration {
    (0..RUNS).map(|_| run()).min().unwrap_or_default()
}

/// Contributions a second of `threads` threads, each with its engine: all of them over the time of the last.
fn beside(case: &Case, threads: usize) -> f64 {
    let barrier = Barrier::new(threads);
    let time = std::thread::scope(|scope| {
        let run = || {
            let (mut engine, mut out) = (case.engine(), out());
            barrier.wait();
            case.run(&mut engine, &mut out)
        };
        let each: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        each.into_iter().map(|thread| thread.join().expect("a thread that ends")).max().unwrap_or_default()
    });
    (threads * case.contributions) as f64 / time.as_secs_f64()
}

fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().map_or("unknown".into(), str::to_owned)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, once, k, bytes] = &args[..]
        && once == "--once"
    {
        let case = Case::new(k.parse().expect("children"), bytes.parse().expect("bytes"), 1, DataType::F32);
        for _ in 0..3 {
            case.run(&mut case.engine(), &mut out());
        }
        println!("{}", 3 * case.contributions);
        return;
    }
    let (kernels, cores) =
        (Engine::new(EngineParams::default()).kernels().name(), std::thread::available_parallelism());
    println!("kernels: {kernels}; {} cores, load {}", cores.map_or(1, usize::from), load());
    println!("| children | bytes | jobs | type | Gb/s in | ns each | copy of the same Gb/s | ratio |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let (f32, i32, bf16) = (DataType::F32, DataType::I32, DataType::Bf16);
    let cases = [
        (8, 1024, 1, f32),
        (8, 1024, 1, i32),
        (8, 1024, 1, bf16),
        (2, 1024, 1, f32),
        (16, 1024, 1, f32),
        (64, 1024, 1, f32),
        (8, 256, 1, f32),
        (8, 4096, 1, f32),
        (8, 1024, 16, f32),
        (8, 1024, 64, f32),
    ];
    let (mut out_a, mut out_b) = (out(), out());
    for (k, bytes, jobs, data_type) in cases {
        let case = Case::new(k, bytes, jobs, data_type);
        let sum = best(|| case.run(&mut case.engine(), &mut out_a));
        let copy = best(|| case.copy(&mut out_b));
        let ((rate, ns), (copied, _)) = (case.rate(sum), case.rate(copy));
        let ratio = copied / rate;
        println!(
            "| {k} | {bytes} | {jobs} | {data_type:?} | {rate:.1} | {ns:.0} | {copied:.0} | {ratio:.1} |"
        );
    }
    let case = Case::new(8, 1024, 1, f32);
    // In turn, so that whatever else runs disturbs both.
    let (mut one, mut two) = (0.0f64, 0.0f64);
    for _ in 0..RUNS {
        (one, two) = (one.max(beside(&case, 1)), two.max(beside(&case, 2)));
    }
    let (gbps, ratio) = (two * 1024.0 * 8e-9, two / one);
    println!("two engines on two threads: {gbps:.1} Gb/s in, {ratio:.2} times one (load {})", load());
    let every = Duration::from_secs_f64(2.0 / one);
    let latencies = (0..RUNS).map(|_| latency::measure(&case, every)).min_by_key(|l| l.p99);
    if let Some(latency::Latency { p50, p99, most }) = latencies {
        println!(
            "from the last contribution to the first result at half load: p50 {p50:.1?}, p99 {p99:.1?}, most {most:.1?} \
             (best of {RUNS} runs, load {})",
            load()
        );
    }
}
