//! The live table: what every port did since the last look.

use crate::output::OUT;
use weir_dataplane::stats::{Histogram, LatencyStats, PortGauges, PortStats, Published};
use weir_layout::{Grid, Unit, percent};

/// Redraws in place on a terminal, appends elsewhere.
#[derive(Debug)]
pub struct Table {
    names: Vec<String>,
    counters: Vec<Published>,
    gauges: Vec<Published>,
    last: Vec<(PortStats, LatencyStats, PortGauges)>,
    redraw: bool,
    drawn: bool,
}

impl Table {
    /// A table of these ports.
    pub fn new(names: Vec<String>, counters: Vec<Published>, gauges: Vec<Published>) -> Self {
        let last = names.iter().map(|_| Default::default()).collect();
        Self { names, counters, gauges, last, redraw: OUT.is_terminal(), drawn: false }
    }

    /// Prints one look.
    pub fn show(&mut self, seconds: f64) {
        let heads = [
            format!("{seconds:.0} s"),
            Unit::MBPS.heading("rx"),
            Unit::MBPS.heading("tx"),
            "queue B".to_owned(),
            "pg B".to_owned(),
            "headroom".to_owned(),
            "drops".to_owned(),
            "pfc tx".to_owned(),
            "paused".to_owned(),
            Unit::US.heading("p50"),
            Unit::US.heading("p99"),
            Unit::US.heading("p99.9"),
        ];
        let widths = heads.len();
        let mut grid = Grid::of(heads.map(|head| (head, false))).at_least(&vec![LEAST; widths]);
        for i in 0..self.names.len() {
            let (stats, latency) = self.counters[i].read();
            let now: (PortStats, LatencyStats, PortGauges) = (stats, latency, self.gauges[i].read());
            grid.push(row(&self.names[i], &now, &self.last[i]));
            self.last[i] = now;
        }
        if self.redraw && self.drawn {
            // Up to its first line, and whatever was there is gone: lines may be shorter now.
            OUT.raw(&format!("\x1b[{}A\x1b[J", self.names.len() + 1));
        }
        self.drawn = true;
        OUT.text(&grid.text());
    }
}

/// Characters a column has at least, so that one look stands below the other.
const LEAST: u16 = 7;

fn row(
    name: &str,
    (stats, latency, gauges): &(PortStats, LatencyStats, PortGauges),
    last: &(PortStats, LatencyStats, PortGauges),
) -> [String; 12] {
    // Both looks carry their own time, so a late look is not a wrong rate.
    let ns = gauges.at_ns.saturating_sub(last.2.at_ns).max(1) as f64;
    let mbps = |now: u64, then: u64| Unit::MBPS.number((now - then) as f64 * 8e9 / ns);
    // Of the priority that was held back longest: pauses of several overlap.
    let paused = gauges.rx_paused_ns.iter().zip(&last.2.rx_paused_ns).map(|(now, then)| now - then).max();
    let mut residence = Histogram::default();
    for (now, then) in latency.residence.iter().zip(&last.1.residence) {
        for ((sum, now), then) in residence.0.iter_mut().zip(&now.0).zip(&then.0) {
            *sum += now - then;
        }
    }
    let us = |q| residence.quantile(q).map_or("-".to_owned(), |ns| Unit::US.number(ns as f64));
    [
        name.to_owned(),
        mbps(stats.rx_bytes, last.0.rx_bytes),
        mbps(stats.tx_bytes, last.0.tx_bytes),
        gauges.queue_bytes.iter().sum::<u64>().to_string(),
        gauges.pg_shared.iter().sum::<u64>().to_string(),
        gauges.pg_headroom.iter().sum::<u64>().to_string(),
        stats.drops.total().to_string(),
        gauges.pfc_tx_frames.to_string(),
        percent(paused.unwrap_or(0) as f64 / ns, 1),
        us(0.5),
        us(0.99),
        us(0.999),
    ]
}
