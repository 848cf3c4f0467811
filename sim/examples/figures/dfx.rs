//! The trace of one queue pair (CC-021 to CC-023): what moved its rate, event by event.

use crate::plot::{Axis, Line, plot};
use crate::table::{Table, Within};
use weir_endpoint::dcqcn::reaction_point::{Params, RateControl};
use weir_endpoint::dcqcn::trace::{Cause, TRACE_ENTRIES, Trace};

const LINE: u64 = 40_000_000_000;
/// When a CNP comes, ns.
const CNPS: [u64; 3] = [100_000, 900_000, 1_300_000];
/// Packets of a flow that always has some, bytes.
const PACKET: u64 = 1000;

/// A flow that sends at its rate until its trace is full. The byte counter is shorter than the paper's 10 MB,
/// so that it has a say in so short a time.
fn play() -> Trace {
    let params = Params { byte_threshold: 600_000, ..Params::paper(LINE) };
    let mut flow = RateControl::new(params, 0).expect("the parameters of the paper");
    flow.start_trace();
    let (mut now, mut cnps) = (0, CNPS.into_iter().peekable());
    while !flow.trace().is_some_and(Trace::is_full) {
        while let Some(at) = flow.next_timeout().filter(|at| *at <= now) {
            flow.handle_timeout(at);
        }
        if cnps.next_if(|at| *at <= now).is_some() {
            flow.on_cnp(now);
        }
        flow.on_sent(PACKET, now);
        now += PACKET * 8 * 1_000_000_000 / flow.rate();
    }
    flow.stop_trace().expect("it was started").clone()
}

/// Events of the trace against the formulas, and the rate they left.
pub fn dfx() -> Table {
    let mut table =
        Table::new("DFX: what moved the rate of one queue pair, 64 events", "events, Gbit/s, share");
    let trace = play();
    let (entries, counts) = (trace.entries(), trace.counts());
    let gbit = |rate: u64| rate as f64 / 1e9;
    table.row("events", TRACE_ENTRIES as f64, entries.len() as f64, Within::Off(0.0));
    table.row("cuts: one per CNP", CNPS.len() as f64, f64::from(counts.decrease), Within::Off(0.0));
    let others = f64::from(counts.byte_counter + counts.timer);
    table.row("increases: the others", (TRACE_ENTRIES - CNPS.len()) as f64, others, Within::Off(0.0));
    let first_cut = entries.iter().position(|e| e.cause == Cause::Decrease).unwrap_or_default();
    // Alpha starts at 1023/1024, and a cut takes half of it.
    let left = gbit(LINE) * (1.0 - 1023.0 / 2048.0);
    table.row("rate after the first cut", left, gbit(entries[first_cut].rate), Within::Share(1e-3));
    let recovery = |cause| matches!(cause, Cause::ByteFastRecovery | Cause::TimerFastRecovery);
    let gap = |rate: u64| gbit(LINE) - gbit(rate);
    let halved = entries[first_cut..].windows(2).take_while(|pair| recovery(pair[1].cause));
    let ratios: Vec<f64> = halved.map(|pair| gap(pair[1].rate) / gap(pair[0].rate)).collect();
    table.row("events of fast recovery behind it", 5.0, ratios.len() as f64, Within::Range(4.0, 9.0));
    for (n, ratio) in ratios.iter().enumerate() {
        table.row(format!("gap to the target after event {}, share", n + 1), 0.5, *ratio, Within::Off(1e-3));
    }
    let ms = |at: u64| at as f64 / 1e6;
    let mut steps = vec![(0.0, gbit(trace.initial().current))];
    for entry in entries {
        steps.push((ms(entry.at), steps.last().map_or(0.0, |(_, rate)| *rate)));
        steps.push((ms(entry.at), gbit(entry.rate)));
    }
    let end = steps.last().map_or(1.0, |(at, _)| *at);
    let mut lines = vec![Line { name: "rate".into(), points: steps, dots: false, colour: 7 }];
    let kind = |cause: Cause| match cause as u8 {
        0 => "000 decrease",
        1..=3 => "001, 010, 011 byte counter",
        _ => "101, 110, 111 timer",
    };
    for (shown, colour) in [(Cause::Decrease, 3), (Cause::ByteAdditive, 0), (Cause::TimerAdditive, 2)] {
        let name = kind(shown);
        let of_kind = entries.iter().filter(|entry| kind(entry.cause) == name);
        let points = of_kind.map(|entry| (ms(entry.at), gbit(entry.rate))).collect();
        lines.push(Line { name: name.into(), points, dots: true, colour });
    }
    table.drawings.push(plot(
        "trace of a queue pair",
        &Axis { label: "ms", log: false, range: (0.0, end) },
        &Axis { label: "rate, Gbit/s", log: false, range: (0.0, 42.0) },
        &lines,
    ));
    table
}
