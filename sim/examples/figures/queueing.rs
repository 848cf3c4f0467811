//! R3 to R5 and R8: lines, buffers, constants.

use crate::plot::{Axis, Line, plot};
use crate::table::{Table, Within};
use weir_dataplane::mmu::{Admission, AdmitVerdict, Limit, Mmu, MmuParams, PgIx, QueueIx};
use weir_dataplane::pfc::frame::{CONTROL_BYTES, MAX_QUANTA, PfcFrame, quanta_to_ns};
use weir_dataplane::rng::Rng;
use weir_dataplane::types::{Mac, PRIORITIES, wire_bytes};
use weir_sim::fabric::time::Transmitter as Wire;

const G: u64 = 1_000_000_000;

/// Mean wait in ns of frames of `bytes` with Poisson arrivals of load `rho`.
fn mean_wait(rho: f64, bytes: u64, frames: u32) -> f64 {
    let mut rng = Rng::new(4);
    let mut line = Wire::new(200 * G);
    let mean = line.rate().takes(bytes) as f64 / rho;
    let (mut now, mut waited) = (0.0, 0.0);
    for _ in 0..frames {
        let uniform = (f64::from(rng.next_u32()) + 1.0) / 4_294_967_297.0;
        now -= uniform.ln() * mean;
        let at = now as u64;
        waited += line.free().saturating_sub(at) as f64;
        line.occupy(line.free().max(at), bytes);
    }
    waited / f64::from(frames) / 1000.0
}

/// M/D/1.
pub fn r3() -> Table {
    let mut table = Table::new("R3: waiting time behind one line, 1406 B at 200G (M/D/1)", "ns");
    let rows =
        [(0.5, 28.1), (0.6, 42.2), (0.7, 65.6), (0.8, 112.5), (0.9, 253.1), (0.95, 534.3), (0.99, 2784.0)];
    let mut got_all = Vec::new();
    for (rho, want) in rows {
        let (frames, share) = match rho {
            r if r > 0.98 => (40_000_000, 0.1),
            r if r > 0.92 => (20_000_000, 0.03),
            _ => (4_000_000, 0.02),
        };
        let got = mean_wait(rho, 1406, frames);
        table.row(format!("rho {rho}"), want, got, Within::Share(share));
        got_all.push((rho, got));
    }
    table.row("rho 0.8 with preamble and gap", 114.1, mean_wait(0.8, 1426, 4_000_000), Within::Share(0.02));
    let formula = (10..=99).map(|p| f64::from(p) / 100.0).map(|r| (r, 56.24 * r / (2.0 * (1.0 - r))));
    let lines = [
        Line { name: "rho S / 2(1 - rho)".into(), points: formula.collect(), dots: false, colour: 0 },
        Line { name: "played".into(), points: got_all, dots: true, colour: 3 },
    ];
    let (x, y) = (
        Axis { label: "load", log: false, range: (0.1, 1.0) },
        Axis { label: "mean wait, ns", log: true, range: (2.0, 5000.0) },
    );
    table.drawings.push(plot("waiting time", &x, &y, &lines));
    table
}

/// Of a frame: alone, and with preamble and gap.
type Times = (f64, f64);

/// Serialization.
pub fn r4() -> Table {
    let mut table = Table::new("R4: time of a frame on the wire, alone and with preamble and gap", "ns");
    let rows: [(u64, &str, [Times; 3]); 5] = [
        (1406, "Standard + VLAN", [(112.48, 114.08), (56.24, 57.04), (28.12, 28.52)]),
        (1378, "GEN1/2 + VLAN", [(110.24, 111.84), (55.12, 55.92), (27.56, 27.96)]),
        (1360, "Lite", [(108.80, 110.40), (54.40, 55.20), (27.20, 27.60)]),
        (64, "ACK, CNP", [(5.12, 6.72), (2.56, 3.36), (1.28, 1.68)]),
        (4158, "RoCEv2, MTU 4096", [(332.64, 334.24), (166.32, 167.12), (83.16, 83.56)]),
    ];
    for (bytes, name, times) in rows {
        for (rate, (alone, slot)) in [100, 200, 400].into_iter().zip(times) {
            let mut line = Wire::new(rate * G);
            let exact = Within::Off(1e-9);
            table.row(
                format!("{bytes} B ({name}) at {rate}G, alone"),
                alone,
                line.rate().takes(bytes) as f64 / 1000.0,
                exact,
            );
            line.occupy(0, wire_bytes(bytes - 4));
            table.row(
                format!("{bytes} B ({name}) at {rate}G, slot"),
                slot,
                line.free() as f64 / 1000.0,
                exact,
            );
        }
    }
    for rate in [400u64, 800] {
        let mut line = Wire::new(rate * G);
        (0..10_000_000).for_each(|_| line.occupy(line.free(), 1426));
        let exact = 1e7 * 1426.0 * 8.0 / rate as f64;
        table.row(
            format!("ten million slots of 1426 B at {rate}G"),
            exact,
            line.free() as f64 / 1000.0,
            Within::Off(0.0),
        );
    }
    table
}

/// Bytes each of `n` queues holds when all have more than they may.
fn held(exponent: i8, n: usize, total: u64, frame: u32) -> Vec<u64> {
    let mut params = MmuParams::lossy(n, total);
    params.queues.iter_mut().for_each(|q| q.limit = Limit::dynamic(exponent).expect("an alpha"));
    let mut mmu = Mmu::new(params).expect("a buffer");
    let mut held = vec![0u64; n];
    let mut moved = true;
    while moved {
        moved = false;
        for (i, held) in held.iter_mut().enumerate() {
            let at = (i * PRIORITIES) as u32;
            if mmu.admit(PgIx(at), QueueIx(at), frame) == AdmitVerdict::Admitted {
                *held += u64::from(frame);
                moved = true;
            }
        }
    }
    held
}

/// Dynamic thresholds.
pub fn r5() -> Table {
    let mut table =
        Table::new("R5: share of the buffer of each of N saturated queues (Choudhury/Hahne)", "share");
    let (total, frame) = (1_000_000u64, 100u32);
    let mut lines = Vec::new();
    let alphas =
        [(-3i8, "1/8", 0.125), (-1, "1/2", 0.5), (0, "1", 1.0), (1, "2", 2.0), (2, "4", 4.0), (3, "8", 8.0)];
    for (colour, (exponent, name, alpha)) in alphas.into_iter().enumerate() {
        let mut points = Vec::new();
        for n in [1usize, 2, 4, 7, 8, 16] {
            let want = alpha / (1.0 + alpha * n as f64);
            // One frame, of which the threshold moves by alpha.
            let off = f64::from(frame) * (1.0 + alpha) / total as f64;
            let all = held(exponent, n, total, frame);
            let furthest = all.iter().map(|h| *h as f64 / total as f64);
            let got = furthest.max_by(|a, b| (a - want).abs().total_cmp(&(b - want).abs())).unwrap_or(0.0);
            table.row(format!("alpha {name}, N = {n}"), want, got, Within::Off(off));
            if n == 8 {
                let unused = 1.0 - all.iter().sum::<u64>() as f64 / total as f64;
                table.row(
                    format!("alpha {name}, N = 8, unused"),
                    1.0 / (1.0 + 8.0 * alpha),
                    unused,
                    Within::Off(8.0 * off),
                );
            }
            points.push((n as f64, got));
        }
        lines.push(Line { name: format!("alpha {name}"), points, dots: false, colour });
        let formula =
            (0..=30).map(|i| 16f64.powf(f64::from(i) / 30.0)).map(|n| (n, alpha / (1.0 + alpha * n)));
        let at: Vec<(f64, f64)> =
            formula.filter(|(n, _)| [1.0, 2.0, 4.0, 16.0].iter().any(|m| (n - m).abs() < 0.01)).collect();
        lines.push(Line { name: String::new(), points: at, dots: true, colour });
    }
    let (x, y) = (
        Axis { label: "saturated queues", log: true, range: (0.95, 17.0) },
        Axis { label: "share of the buffer", log: false, range: (0.0, 0.95) },
    );
    table.drawings.push(plot("shares", &x, &y, &lines));
    table
}

/// PFC constants.
pub fn r8() -> Table {
    let mut table = Table::new("R8: PFC frames and quanta", "as named");
    let exact = Within::Off(0.0);
    let bytes = PfcFrame::uniform(1 << 3, MAX_QUANTA).encode(Mac([2, 0, 0, 0, 0, 1]));
    let field = |at: usize| f64::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    table.row("bytes with FCS", 64.0, (CONTROL_BYTES + 4) as f64, exact);
    table.row("destination, first half: 01-80-C2", f64::from(0x0180), field(0), exact);
    table.row("destination, last half: 00-01", 1.0, field(4), exact);
    table.row("type", f64::from(0x8808), field(12), exact);
    table.row("opcode", f64::from(0x0101), field(14), exact);
    table.row("enable vector, priority 3", f64::from(1 << 3), field(16), exact);
    table.row("time, priority 3", f64::from(u16::MAX), field(18 + 6), exact);
    table.row("time, priority 2", 0.0, field(18 + 4), exact);
    for (rate, quantum, longest) in [(100, 5.12, 335.5), (200, 2.56, 167.8), (400, 1.28, 83.9)] {
        let ns = |quanta| quanta_to_ns(quanta, rate * G) as f64;
        table.row(format!("100 quanta at {rate}G, ns"), 100.0 * quantum, ns(100), Within::Off(0.5));
        table.row(
            format!("longest pause at {rate}G, us"),
            longest,
            ns(MAX_QUANTA) / 1000.0,
            Within::Off(0.1),
        );
    }
    table
}
