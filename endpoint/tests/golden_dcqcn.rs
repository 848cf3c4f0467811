//! Replays the published sender traces: CNP times in, every other row out, alpha as a double.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use weir_dataplane::types::Nanos;
use weir_endpoint::dcqcn::ns3::{Params, Sender, Step, Timer, Timers};

#[derive(Clone, Debug, PartialEq)]
struct Row {
    time: Nanos,
    event: String,
    rate: u64,
    target: u64,
    alpha: f64,
    stage: u32,
}

/// The published folder, or `None` with the reason printed.
fn folder() -> Option<PathBuf> {
    let root = std::env::var_os("WEIR_GOLDEN")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden").into(), PathBuf::from);
    let folder = root.join("ns3-dcqcn");
    if !folder.is_dir() {
        eprintln!("skipped: no folder {} (set WEIR_GOLDEN)", folder.display());
        return None;
    }
    Some(folder)
}

fn params(folder: &Path, name: &str) -> (Params, Nanos) {
    let file = File::open(folder.join("params.json")).expect("params.json");
    let all: serde_json::Value = serde_json::from_reader(file).unwrap();
    let p = &all[name];
    let int = |key: &str| p[key].as_u64().unwrap_or_else(|| panic!("{name}: {key}"));
    let us = |key: &str| NonZeroU64::new(int(key) * 1000).unwrap();
    let params = Params {
        line_bps: int("line_bps"),
        g: p["g"].as_f64().unwrap(),
        alpha_period: us("alpha_period_us"),
        decrease_period: us("decrease_period_us"),
        increase_period: us("increase_period_us"),
        fast_recovery_steps: int("fast_recovery_steps") as u32,
        ai_bps: int("ai_bps"),
        hai_bps: int("hai_bps"),
        min_rate_bps: int("min_rate_bps"),
        clamp_target: p["clamp_target"].as_bool().unwrap(),
        rate_on_first_cnp: p["rate_on_first_cnp"].as_f64().unwrap(),
    };
    (params, us("end_us").get())
}

fn rows(folder: &Path, name: &str) -> Vec<Row> {
    let file = File::open(folder.join(format!("{name}.csv.gz"))).expect("trace");
    let mut reader = csv::Reader::from_reader(GzDecoder::new(file));
    let parse = |r: csv::StringRecord| Row {
        time: r[0].parse().unwrap(),
        event: r[1].to_owned(),
        rate: r[2].parse().unwrap(),
        target: r[3].parse().unwrap(),
        alpha: r[4].parse().unwrap(),
        stage: r[5].parse().unwrap(),
    };
    reader.records().map(|r| parse(r.unwrap())).collect()
}

/// Pending stimuli; equal times in the order of scheduling. `None` is a CNP of the script.
#[derive(Default)]
struct Queue {
    pending: BinaryHeap<Reverse<(Nanos, u64, Option<u8>)>>,
    live: [u64; 3],
    seq: u64,
}

impl Timers for Queue {
    fn arm(&mut self, timer: Timer, at: Nanos) {
        self.seq += 1;
        self.live[timer as usize] = self.seq;
        self.pending.push(Reverse((at, self.seq, Some(timer as u8))));
    }
}

fn simulate(params: &Params, cnps: impl Iterator<Item = Nanos>, end: Nanos) -> Vec<Row> {
    let mut queue = Queue::default();
    for at in cnps {
        queue.seq += 1;
        queue.pending.push(Reverse((at, queue.seq, None)));
    }
    let mut sender = Sender::new(params);
    let mut log = Vec::new();
    while let Some(Reverse((now, seq, what))) = queue.pending.pop() {
        if now >= end {
            break;
        }
        let step = match what {
            None => sender.on_cnp(params, now, &mut queue),
            Some(t) if queue.live[usize::from(t)] != seq => continue,
            Some(t) => {
                let timer = [Timer::Alpha, Timer::Decrease, Timer::Increase][usize::from(t)];
                sender.on_timer(params, timer, now, &mut queue)
            }
        };
        let event = match step {
            Step::First => "first",
            Step::Cnp => "cnp",
            Step::Alpha => "alpha",
            Step::Cut => "dec",
            Step::NoCut => "nodec",
            Step::Raise => "inc",
        };
        log.push(Row {
            time: now,
            event: event.to_owned(),
            rate: sender.rate_bps(),
            target: sender.target_bps(),
            alpha: sender.alpha(),
            stage: sender.stage(),
        });
    }
    log
}

fn first_difference(name: &str, change: impl Fn(&mut Params)) -> Option<(usize, String)> {
    let folder = folder()?;
    let (mut params, end) = params(&folder, name);
    change(&mut params);
    let golden = rows(&folder, name);
    let script = golden.iter().filter(|r| r.event == "first" || r.event == "cnp").map(|r| r.time);
    let ours = simulate(&params, script, end);
    let at = (0..golden.len().max(ours.len())).find(|&i| golden.get(i) != ours.get(i))?;
    Some((at, format!("{name} row {at}: golden {:?}, ours {:?}", golden.get(at), ours.get(at))))
}

fn replay(name: &str) {
    assert_eq!(first_difference(name, |_| ()), None);
}

#[test]
fn ns3_dcqcn_r1_mlx_single_cnp() {
    replay("r1_mlx_single_cnp");
}

#[test]
fn ns3_dcqcn_r2_mlx_burst_then_idle() {
    replay("r2_mlx_burst_then_idle");
}

#[test]
fn ns3_dcqcn_r3_mlx_poisson20us() {
    replay("r3_mlx_poisson20us");
}

#[test]
fn ns3_dcqcn_r4_paper_poisson80us() {
    replay("r4_paper_poisson80us");
}

#[test]
fn ns3_dcqcn_r6_clamp() {
    replay("r6_clamp");
}

#[test]
fn ns3_dcqcn_r8_400g_f5_mixed() {
    replay("r8_400G_F5_mixed");
}

#[test]
fn a_wrong_parameter_is_noticed() {
    if folder().is_none() {
        return;
    }
    let (row, _) = first_difference("r1_mlx_single_cnp", |p| p.g = 1.0 / 128.0).unwrap();
    assert_eq!(row, 1, "the first alpha tick already differs");
    assert!(first_difference("r6_clamp", |p| p.clamp_target = false).is_some());
    assert!(first_difference("r8_400G_F5_mixed", |p| p.fast_recovery_steps = 4).is_some());
}
