//! R6: DCQCN in weir's own profile, one bottleneck, 1000 B packets, 2 us one way.

use crate::plot::{Axis, Line, plot};
use crate::table::{Table, Within};
use weir_sim::fabric::{Report, load, run};

struct Case {
    name: &'static str,
    flows: usize,
    /// Rate of the links, Gbit/s.
    rate: usize,
    /// Factor of thresholds and additive increase; Pmax; more of `[host.dcqcn]`.
    scale: usize,
    pmax: &'static str,
    more: &'static str,
    /// Mean queue of the reference and of the formula, KB. Above four flows the reference oscillates below
    /// the fixed point; with 16 flows that would be above Kmax.
    mean: f64,
    formula: Option<f64>,
    /// Time to fair shares in the reference, ms; 0: not to be looked at.
    fair: f64,
}

const SEED: &str = "gain = 0\ninitial_alpha = 1\n";

const CASES: [Case; 11] = [
    Case {
        name: "2 flows, 40G",
        flows: 2,
        rate: 40,
        scale: 2,
        pmax: "1%",
        more: "",
        mean: 25.0,
        formula: Some(23.0),
        fair: 2.4,
    },
    Case {
        name: "4 flows, 40G",
        flows: 4,
        rate: 40,
        scale: 2,
        pmax: "1%",
        more: "",
        mean: 57.0,
        formula: Some(50.2),
        fair: 3.4,
    },
    Case {
        name: "8 flows, 40G",
        flows: 8,
        rate: 40,
        scale: 2,
        pmax: "1%",
        more: "",
        mean: 81.0,
        formula: Some(118.7),
        fair: 0.0,
    },
    Case {
        name: "10 flows, 40G",
        flows: 10,
        rate: 40,
        scale: 2,
        pmax: "1%",
        more: "",
        mean: 64.0,
        formula: Some(158.0),
        fair: 0.0,
    },
    Case {
        name: "16 flows, 40G",
        flows: 16,
        rate: 40,
        scale: 2,
        pmax: "1%",
        more: "",
        mean: 67.0,
        formula: Some(200.0),
        fair: 0.0,
    },
    Case {
        name: "2 flows, 100G",
        flows: 2,
        rate: 100,
        scale: 5,
        pmax: "1%",
        more: "",
        mean: 34.0,
        formula: Some(30.8),
        fair: 1.6,
    },
    Case {
        name: "2 flows, 200G",
        flows: 2,
        rate: 200,
        scale: 10,
        pmax: "1%",
        more: "",
        mean: 43.0,
        formula: Some(43.7),
        fair: 21.0,
    },
    Case {
        name: "2 flows, 40G, Pmax 0.2",
        flows: 2,
        rate: 40,
        scale: 2,
        pmax: "20%",
        more: "",
        mean: 5.1,
        formula: None,
        fair: 1.6,
    },
    Case {
        name: "2 flows, 40G, Pmax 1",
        flows: 2,
        rate: 40,
        scale: 2,
        pmax: "100%",
        more: "",
        mean: 3.3,
        formula: None,
        fair: 1.3,
    },
    Case {
        name: "2 flows, 40G, literal alpha",
        flows: 2,
        rate: 40,
        scale: 2,
        pmax: "1%",
        more: SEED,
        mean: 601.0,
        formula: None,
        fair: 0.0,
    },
    Case {
        name: "8 flows, 40G, literal alpha",
        flows: 8,
        rate: 40,
        scale: 2,
        pmax: "1%",
        more: SEED,
        mean: 2589.0,
        formula: None,
        fair: 0.0,
    },
];

/// Each flow starts 10 ms after the one before; statistics over the second half.
fn play(c: &Case, seed: u64, until: usize) -> Report {
    let Case { flows, rate, scale, pmax, more, .. } = c;
    let from = until - 200.min(until / 2);
    let text = format!(
        "name = \"r6\"\nseed = {seed}\nstop_time = \"{until}ms\"\nmeasure_from = \"{from}ms\"\nsample = \"200us\"\n[topology]\nkind = \"star\"\nhosts = {}\n\
         [link]\nrate = \"{rate}G\"\ndelay = \"1us\"\n[host]\npayload = 940\n[host.dcqcn]\nadditive = \"{}M\"\nhyper = \"{}M\"\n{more}\
         [[switch.config.wred]]\nname = \"roce\"\nkmin = {}\nkmax = {}\npmax = \"{pmax}\"\n\
         [[workload]]\nkind = \"incast\"\nto = \"h{flows}\"\nstagger = \"10ms\"\ncc = \"dcqcn\"\n",
        flows + 1,
        20 * scale,
        100 * scale,
        2_500 * scale,
        100_000 * scale,
    );
    let spec = load("r6", &text).unwrap_or_else(|e| panic!("{e}"));
    run(&spec).unwrap_or_else(|e| panic!("{e}"))
}

/// 1: all equal.
fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
    sum * sum / (rates.len() as f64 * squares)
}

/// The median of five seeds: when marks meet whom is a matter of chance.
fn usual_convergence(case: &Case) -> f64 {
    let last = 10 * (case.flows - 1);
    let mut times: Vec<f64> =
        (1..=5).map(|seed| convergence(&play(case, seed, last + 60), case.flows)).collect();
    times.sort_by(f64::total_cmp);
    times[2]
}

/// Milliseconds from the last start until shares over 2 ms are fair.
fn convergence(report: &Report, flows: usize) -> f64 {
    let last = (flows - 1) * 10_000_000;
    let samples = &report.samples;
    let fair = (10..samples.len()).find(|&i| {
        let begun = samples[i - 10].at_ns as usize >= last;
        let rates: Vec<f64> = samples[i]
            .delivered
            .iter()
            .zip(&samples[i - 10].delivered)
            .map(|(b, a)| (b - a) as f64)
            .collect();
        begun && jain(&rates) > 0.95
    });
    fair.map_or(f64::INFINITY, |i| (samples[i].at_ns as usize - last) as f64 / 1e6)
}

/// All cases.
pub fn r6() -> Table {
    let mut table = Table::new("R6: DCQCN, queue and convergence", "KB, ms, share");
    let kb = |bytes: u64| bytes as f64 / 1000.0;
    let (mut depths, mut rates, mut means) = (Vec::new(), Vec::new(), Vec::<(usize, f64)>::new());
    for case in &CASES {
        let report = play(case, 1, if case.flows > 8 { 600 } else { 400 });
        let port = &report.switches[0].ports[case.flows];
        let mean = kb(port.queue_mean.unwrap_or(0));
        let name = case.name;
        let kmax = 100.0 * case.scale as f64;
        let literal = !case.more.is_empty();
        match case.formula {
            Some(fixed) if case.flows <= 4 => {
                table.row(format!("{name}: mean queue, fixed point"), fixed, mean, Within::Share(0.3));
            }
            Some(fixed) => {
                let between = Within::Range(case.mean * 0.7, fixed * 1.3);
                table.row(
                    format!("{name}: mean queue, between oscillation and fixed point"),
                    case.mean,
                    mean,
                    between,
                );
            }
            None if literal => {
                let longest = kb(port.queue_max);
                table.row(
                    format!("{name}: longest queue must pass Kmax"),
                    case.mean,
                    longest,
                    Within::Range(kmax, f64::INFINITY),
                );
                let proper =
                    means.iter().find(|(flows, _)| *flows == case.flows).map_or(1.0, |(_, mean)| *mean);
                table.row(
                    format!("{name}: mean queue against the proper formula, times"),
                    10.0,
                    mean / proper,
                    Within::Range(5.0, f64::INFINITY),
                );
            }
            None => table.row(
                format!("{name}: mean queue"),
                case.mean,
                mean,
                Within::Range(case.mean / 2.0, case.mean * 2.0),
            ),
        }
        means.push((case.flows, mean));
        if case.fair > 0.0 {
            let most = if case.fair > 5.0 { case.fair * 1.5 } else { 10.0 };
            let within = Within::Range(0.0, most);
            table.row(
                format!("{name}: Jain above 0.95, ms after the last start, median of five seeds"),
                case.fair,
                usual_convergence(case),
                within,
            );
        }
        if !literal {
            table.row(format!("{name}: pauses"), 0.0, report.pauses() as f64, Within::Off(0.0));
        }
        table.row(format!("{name}: dropped"), 0.0, report.frames_dropped as f64, Within::Off(0.0));
        let (first, last) =
            (&report.samples[report.samples.len() / 2], &report.samples[report.samples.len() - 1]);
        let bytes: u64 = last.delivered.iter().sum::<u64>() - first.delivered.iter().sum::<u64>();
        // 940 of 1022 bytes on the wire are payload.
        let line = (last.at_ns - first.at_ns) as f64 * case.rate as f64 / 8.0 * 940.0 / 1022.0;
        table.row(
            format!("{name}: share of the line used"),
            1.0,
            bytes as f64 / line,
            Within::Range(if case.flows > 4 { 0.94 } else { 0.98 }, 1.001),
        );
        if name == "2 flows, 40G" || name == "2 flows, 40G, literal alpha" {
            let points = report.samples.iter().map(|s| (s.at_ns as f64 / 1e6, kb(s.queues[0]).max(0.1)));
            depths.push(Line {
                name: name.into(),
                points: points.step_by(4).collect(),
                dots: false,
                colour: depths.len() * 3,
            });
        }
        if name == "4 flows, 40G" {
            for flow in 0..4 {
                let share = |w: &[weir_sim::fabric::Sample]| {
                    let bits = (w[10].delivered[flow] - w[0].delivered[flow]) as f64 * 8.0;
                    (w[10].at_ns as f64 / 1e6, bits / (w[10].at_ns - w[0].at_ns) as f64)
                };
                let points = report.samples.windows(11).take(600).map(share).collect();
                rates.push(Line { name: format!("flow {flow}"), points, dots: false, colour: flow });
            }
        }
    }
    table.drawings.push(plot(
        "queue",
        &Axis { label: "ms", log: false, range: (0.0, 400.0) },
        &Axis { label: "queue, KB", log: true, range: (0.5, 20_000.0) },
        &depths,
    ));
    table.drawings.push(plot(
        "rates",
        &Axis { label: "ms", log: false, range: (0.0, 120.0) },
        &Axis { label: "delivered, Gbit/s", log: false, range: (0.0, 40.0) },
        &rates,
    ));
    table
}
