//! What the management thread keeps of a large, busy switch fits into little memory.
//!
//! The only test of its program, so that nothing else grows meanwhile.

use weir_dataplane::flows::{ENTRIES, Epoch, FlowId, PortFlows};
use weir_dataplane::stats::{
    LatencyStats, LoopStats, MarkingCurve, PauseStats, PortGauges, PortStats, Words,
};
use weir_mgmt::events::{Log, Watcher};
use weir_mgmt::flows::FlowsReading;
use weir_mgmt::history::{Behind, History};
use weir_mgmt::latency::{Intervals, Selection};
use weir_mgmt::metrics::{OwnCounters, Scrape, open_metrics};
use weir_mgmt::sample::Sampler;
use weir_mgmt::snapshot::{PortInfo, PortReading, Reading, SwitchInfo};
use weir_mgmt::table;
use weir_mgmt::times::Times;

const PORTS: u64 = 64;
const LIMIT: u64 = 60 << 20;

/// Every priority of every port is busy, and residence is spread over many buckets.
fn reading(n: u64) -> Reading {
    let port = |i: u64| {
        let mut stats = PortStats { rx_packets: n * 1000, tx_packets: n * 1000, ..PortStats::default() };
        let (mut latency, mut pauses) = (LatencyStats::default(), PauseStats::default());
        for queue in 0..8 {
            stats.queue_packets[queue] = n * 100;
            for step in 0..40 {
                let (ns, frames) = (200 << (step / 4), n * (step + i + 1));
                latency.residence[queue].note(ns, frames);
                // Half of the queues are held by pauses again and again.
                if queue % 2 == 0 {
                    pauses.note(queue, ns, ns / (2 + step % 3), frames / 2);
                }
            }
        }
        let latency = std::array::from_fn(|queue| Times::of(&latency.residence[queue], &pauses, queue));
        let mut gauges = PortGauges::default();
        gauges.words(&mut |words| words.fill(n));
        (gauges.at_ns, gauges.queue_bytes) = (n * 100_000_000, [n * 64; 8]);
        let mut curve = MarkingCurve { kmax: [1600; 8], ..MarkingCurve::default() };
        (0..32).for_each(|bin| curve.note(3, bin * 100, n, n / 2));
        PortReading {
            stats,
            latency,
            gauges,
            carried: vec![n * 64; PORTS as usize],
            curve,
            flows: Some(std::sync::Arc::new(FlowsReading::of(&flows(n)))),
            ..PortReading::default()
        }
    };
    let worker = LoopStats { at_ns: n * 100_000_000, turns: n * 1000, ..LoopStats::default() };
    Reading { ports: (0..PORTS).map(port).collect(), loops: vec![worker; 8], ..Reading::default() }
}

/// All causes have as many flows as there is room for, others each second.
fn flows(n: u64) -> PortFlows {
    let second = |number: u64| {
        let mut epoch = Epoch { number, ..Epoch::default() };
        for flow in 0..ENTRIES as u64 {
            epoch.flows.iter_mut().for_each(|all| all.add(&FlowId([2, 0, flow, 0, number, 0]), 1));
        }
        epoch
    };
    PortFlows { current: second(n / 10 + 2), previous: second(n / 10 + 1) }
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux");
    line.trim().split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
}

#[test]
fn a_minute_of_64_busy_ports_fits() {
    let ports =
        (0..PORTS).map(|i| PortInfo { name: format!("Ethernet{i}"), ..PortInfo::default() }).collect();
    let info = SwitchInfo { ports, lcores: (0..8).collect(), ..SwitchInfo::default() };
    let before = resident();
    let (mut sampler, mut watcher, mut log) = (Sampler::new(info), Watcher::default(), Log::default());
    let (mut history, mut intervals) = (History::default(), Intervals::default());
    let mut snapshot = sampler.sample(reading(0), 0, 0);
    for n in 1..=310 {
        snapshot = sampler.sample(reading(n), n * 200, n * 200);
        watcher.observe(&snapshot, &mut log);
        history.observe(&snapshot);
        intervals.observe(&snapshot);
    }
    let kept = resident() - before;
    // And the four largest answers, all of them at once.
    let answers = [
        table::everything(&snapshot),
        history.json(&snapshot, Behind::default()),
        intervals.hlog(&snapshot, Selection::default(), false).unwrap(),
        open_metrics(Scrape { snapshot: snapshot.into(), own: OwnCounters::default() }),
    ];
    let whole = resident() - before;
    let sizes = answers.map(|answer| answer.len());
    println!("kept {} MiB, with answers of {sizes:?} bytes {} MiB", kept >> 20, whole >> 20);
    assert!(sizes.iter().sum::<usize>() > 10 << 20, "they are large: {sizes:?}");
    assert!(whole < LIMIT, "{} MiB at the peak", whole >> 20);
}
