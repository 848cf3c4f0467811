//! R1 and R2: input-queued switches.

use crate::plot::{Axis, Line, plot};
use crate::table::{Table, Within};
use weir_sim::crossbar::{Arbiter, Demand, Matching, Pim, Scheme, Traffic, all_ports, measure};

/// Karol, Hluchyj and Morgan 1987, N = 2 to 8, then the limit's neighbours.
const FIFO: [(usize, f64); 9] = [
    (2, 0.75),
    (3, 0.6825),
    (4, 0.6553),
    (5, 0.6399),
    (6, 0.6302),
    (7, 0.6234),
    (8, 0.6184),
    (16, 0.601),
    (32, 0.593),
];
const SLOTS: u64 = 400_000;

fn saturated(n: usize, scheme: Scheme, slots: u64) -> f64 {
    measure(n, scheme, Traffic::Saturated, slots, 7).throughput
}

/// Iterations PIM needs until nothing more matches, mean over slots in which everybody asks everybody.
fn pim_iterations(n: usize) -> f64 {
    const SLOTS: u32 = 5_000;
    let mut demand = Demand::new(n, 1);
    (0..n * n).for_each(|i| demand.set(i / n, i % n, 0, true));
    let mut pim = Pim::new(1, 3);
    let mut matching = Matching::new();
    let mut iterations = 0;
    for _ in 0..SLOTS {
        let (mut ins, mut outs) = (all_ports(n), all_ports(n));
        while ins != 0 {
            pim.arbitrate(&demand, ins, outs, &mut matching);
            for pair in &matching {
                ins &= !(1 << pair.input);
                outs &= !(1 << pair.output);
            }
            iterations += 1;
        }
    }
    f64::from(iterations) / f64::from(SLOTS)
}

/// Saturation throughput.
pub fn r1() -> Table {
    let mut table =
        Table::new("R1: saturation throughput of input-queued switches", "cells per output and slot");
    let fifo: Vec<(f64, f64)> = FIFO
        .iter()
        .map(|&(n, want)| {
            let got = saturated(n, Scheme::Fifo, SLOTS);
            table.row(format!("FIFO {n}x{n}"), want, got, Within::Share(0.01));
            (n as f64, got)
        })
        .collect();
    for (k, want) in [(1, 0.6437), (2, 0.8815), (3, 0.9727), (4, 0.9989)] {
        table.row(
            format!("PIM 16x16, {k} iterations"),
            want,
            saturated(16, Scheme::Pim(k), SLOTS / 4),
            Within::Share(0.005),
        );
    }
    table.row(
        "PIM 64x64, 1 iteration: 1 - 1/e",
        1.0 - (-1f64).exp(),
        saturated(64, Scheme::Pim(1), SLOTS / 8),
        Within::Share(0.01),
    );
    table.row("RRM 2x2", 0.5, saturated(2, Scheme::Rrm(1), SLOTS), Within::Off(0.002));
    let islip: Vec<(f64, f64)> = [2, 4, 8, 16, 32, 64]
        .into_iter()
        .map(|n| {
            let got = saturated(n, Scheme::Islip(1), SLOTS / 8);
            table.row(format!("iSLIP {n}x{n}, 1 iteration"), 1.0, got, Within::Off(0.002));
            (n as f64, got)
        })
        .collect();
    for n in [4usize, 8, 16, 32, 64] {
        let most = (n as f64).log2() + 4.0 / 3.0;
        table.row(
            format!("PIM {n}x{n}: mean iterations, at most log2 N + 4/3"),
            most,
            pim_iterations(n),
            Within::Range(1.0, most),
        );
    }
    let line = |name: &str, points, dots, colour| Line { name: name.into(), points, dots, colour };
    let limit = 2.0 - 2f64.sqrt();
    table.drawings.push(plot(
        "saturation throughput",
        &Axis { label: "ports", log: true, range: (1.8, 70.0) },
        &Axis { label: "throughput", log: false, range: (0.5, 1.02) },
        &[
            line("FIFO", fifo, false, 0),
            line("published", FIFO.iter().map(|&(n, v)| (n as f64, v)).collect(), true, 0),
            line("2 - \u{221a}2", vec![(2.0, limit), (64.0, limit)], false, 7),
            line("iSLIP, one iteration", islip, false, 2),
        ],
    ));
    table
}

/// Load, then OQ, iSLIP-1, -2, -4, PIM-4, FIFO; 0: no value.
const DELAYS: [(f64, [f64; 6]); 13] = [
    (0.1, [0.052, 0.058, 0.057, 0.057, 0.057, 0.058]),
    (0.2, [0.117, 0.149, 0.140, 0.140, 0.139, 0.150]),
    (0.3, [0.202, 0.304, 0.262, 0.262, 0.259, 0.317]),
    (0.4, [0.313, 0.598, 0.442, 0.442, 0.436, 0.680]),
    (0.5, [0.469, 1.30, 0.718, 0.717, 0.710, 1.86]),
    (0.55, [0.573, 0.0, 0.0, 0.0, 0.0, 4.36]),
    (0.58, [0.647, 0.0, 0.0, 0.0, 0.0, 11.3]),
    (0.6, [0.703, 4.45, 1.18, 1.17, 1.15, 0.0]),
    (0.7, [1.10, 21.2, 2.06, 1.99, 1.96, 0.0]),
    (0.8, [1.88, 44.4, 4.59, 3.76, 3.71, 0.0]),
    (0.9, [4.23, 114.0, 24.4, 9.8, 9.65, 0.0]),
    (0.95, [8.92, 261.0, 54.0, 24.6, 23.6, 0.0]),
    (0.99, [46.7, 1500.0, 650.0, 620.0, 160.0, 0.0]),
];

/// Mean delay against load.
pub fn r2() -> Table {
    let mut table = Table::new("R2: mean delay of a 16x16 switch, uniform Bernoulli arrivals", "slots");
    let schemes = [
        ("output-queued", Scheme::OutputQueued),
        ("iSLIP-1", Scheme::Islip(1)),
        ("iSLIP-2", Scheme::Islip(2)),
        ("iSLIP-4", Scheme::Islip(4)),
        ("PIM-4", Scheme::Pim(4)),
        ("FIFO", Scheme::Fifo),
    ];
    let mut lines = Vec::new();
    for (i, (name, scheme)) in schemes.into_iter().enumerate() {
        let (mut got_all, mut want_all) = (Vec::new(), Vec::new());
        for (load, row) in DELAYS {
            if row[i] == 0.0 {
                continue;
            }
            // The slots of the reference; its own trust in its values. The formula of output queueing is exact.
            let slots = if load > 0.98 {
                3_000_000
            } else if load > 0.94 {
                1_500_000
            } else {
                600_000
            };
            let formula = 15.0 / 16.0 * load / (2.0 * (1.0 - load));
            let oq = scheme == Scheme::OutputQueued;
            let want = if oq { formula } else { row[i] };
            let near_limit = scheme == Scheme::Fifo && load > 0.56;
            let within = match load {
                _ if oq && load > 0.98 => Within::Share(0.1),
                l if l > 0.98 => Within::Range(want / 2.0, want * 2.0),
                l if l > 0.94 || near_limit => Within::Share(0.1),
                l if l < 0.15 => Within::Off(0.003),
                _ => Within::Share(0.03),
            };
            let got = measure(16, scheme, Traffic::Bernoulli(load), slots, 11).delay;
            table.row(format!("{name} at {load}"), want, got, within);
            got_all.push((load, got));
            want_all.push((load, want));
        }
        lines.push(Line { name: name.into(), points: got_all, dots: false, colour: i });
        lines.push(Line { name: String::new(), points: want_all, dots: true, colour: i });
    }
    table.drawings.push(plot(
        "delay against load",
        &Axis { label: "load", log: false, range: (0.05, 1.0) },
        &Axis { label: "mean delay, slots", log: true, range: (0.03, 3000.0) },
        &lines,
    ));
    table
}
