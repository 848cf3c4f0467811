//! R7 and headroom: one frame through a switch; what is in flight when a pause is sent.

use crate::plot::{Axis, Line, plot};
use crate::table::{Table, Within};
use weir_sim::fabric::time::Transmitter as Wire;
use weir_sim::fabric::{Report, load, run};

fn play(text: &str) -> Report {
    let spec = load("figure", text).unwrap_or_else(|e| panic!("{e}"));
    run(&spec).unwrap_or_else(|e| panic!("{e}"))
}

/// From the first bit at the sender to the last at the receiver of one packet, ns.
fn one_packet(forwarding: &str, payload: u64, rates: (u64, u64)) -> f64 {
    let (inward, outward) = rates;
    let text = format!(
        "name = \"one\"\nstop_time = \"1ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\"]\n\
         links = [{{ a = \"a\", b = \"s\", rate = \"{inward}G\" }}, {{ a = \"s\", b = \"b\", rate = \"{outward}G\" }}]\n\
         [link]\ndelay = \"100ns\"\n[switch]\nforwarding = \"{forwarding}\"\ningress = \"200ns\"\ncrossbar = \"30ns\"\n\
         egress = \"20ns\"\n[host]\npayload = 4096\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"b\"\nbytes = {payload}\n"
    );
    play(&text).flows[0].fct_ns.unwrap_or(0) as f64
}

/// Cut-through and store-and-forward, by definition.
pub fn r7() -> Table {
    let mut table =
        Table::new("R7: cut-through and store-and-forward, pipeline of 250 ns, cables of 100 ns", "ns");
    let line = Wire::new(100_000_000_000);
    let (mut cut, mut stored) = (Vec::new(), Vec::new());
    for payload in [64u64, 256, 512, 1024, 1500, 2048, 3072, 4096] {
        let frame = line.rate().takes(payload + 58 + 12) as f64 / 1000.0;
        // First bit in to first bit out: cables, pipeline and serialization taken off.
        let through = one_packet("cut_through", payload, (100, 100)) - 200.0 - frame;
        let whole = one_packet("store_and_forward", payload, (100, 100)) - 200.0 - frame;
        let head = line.rate().takes(72) as f64 / 1000.0;
        table.row(
            format!("{payload} B, cut-through: first bit in to first bit out"),
            250.0 + head,
            through,
            Within::Off(1.0),
        );
        table.row(
            format!("{payload} B, store-and-forward: last bit in to first bit out"),
            250.0,
            whole - frame,
            Within::Off(1.0),
        );
        let up = |mode| one_packet(mode, payload, (100, 400));
        table.row(
            format!("{payload} B, 100G to 400G: cut-through saves nothing"),
            0.0,
            up("store_and_forward") - up("cut_through"),
            Within::Off(0.0),
        );
        cut.push((payload as f64, through));
        stored.push((payload as f64, whole));
    }
    table.drawings.push(plot(
        "latency of a switch",
        &Axis { label: "payload, bytes", log: false, range: (0.0, 4200.0) },
        &Axis { label: "first bit in to first bit out, ns", log: false, range: (0.0, 650.0) },
        &[
            Line { name: "store-and-forward".into(), points: stored, dots: false, colour: 3 },
            Line { name: "cut-through".into(), points: cut, dots: false, colour: 0 },
        ],
    ));
    table
}

/// Headroom in use against what is granted and what must be in flight.
pub fn headroom() -> Table {
    let mut table = Table::new("Headroom: what an incast needs after Xoff", "bytes");
    let (mut used, mut granted) = (Vec::new(), Vec::new());
    for (rate, delay_ns) in [
        (10u64, 1000u64),
        (25, 1000),
        (100, 10),
        (100, 250),
        (100, 1000),
        (100, 4000),
        (200, 1000),
        (400, 1000),
    ] {
        let text = format!(
            "name = \"headroom\"\nstop_time = \"40ms\"\n[topology]\nkind = \"star\"\nhosts = 9\n[link]\nrate = \"{rate}G\"\ndelay = \"{delay_ns}ns\"\n\
             [host]\npayload = 1000\n[switch.config.buffer]\nsize = \"6MiB\"\ncontrol_bytes = \"16KiB\"\n[switch.config.port_defaults]\n\
             mtu = 1100\n[[workload]]\nkind = \"incast\"\nto = \"h8\"\nbytes = 2000000\n"
        );
        let report = play(&text);
        let peak = report.ports().map(|(_, p)| p.headroom_peak).max().unwrap_or(0) as f64;
        let most = report.ports().map(|(_, p)| p.headroom).min().unwrap_or(0) as f64;
        // Both ways on the cable; an eighth leaves by the egress meanwhile, a frame is not yet counted.
        let flight = (2 * rate * delay_ns / 8) as f64;
        let least = (flight * 7.0 / 8.0 * 1058.0 / 1082.0 - 1058.0).max(0.0);
        let name = format!("{rate}G, {delay_ns} ns");
        table.row(format!("{name}: in use, at most what is granted"), most, peak, Within::Range(least, most));
        table.row(format!("{name}: dropped"), 0.0, report.frames_dropped as f64, Within::Off(0.0));
        table.row(format!("{name}: flows delivered"), 8.0, report.flows_done as f64, Within::Off(0.0));
        used.push((flight, peak));
        granted.push((flight, most));
    }
    let by_flight = |points: &mut Vec<(f64, f64)>| points.sort_by(|a, b| a.0.total_cmp(&b.0));
    by_flight(&mut used);
    by_flight(&mut granted);
    table.drawings.push(plot(
        "headroom",
        &Axis { label: "bytes in flight on the cable, both ways", log: false, range: (0.0, 105_000.0) },
        &Axis { label: "bytes", log: false, range: (0.0, 125_000.0) },
        &[
            Line { name: "granted".into(), points: granted, dots: false, colour: 0 },
            Line { name: "in use".into(), points: used, dots: true, colour: 3 },
        ],
    ));
    table
}
