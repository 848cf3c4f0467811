//! The live table: what every port did since the last look.

use crate::output::OUT;
use weir_dataplane::stats::{Histogram, LatencyStats, PortGauges, PortStats, Published};

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
        let mut text = format!(
            "{:>6}  {:>8} {:>8} {:>9} {:>9} {:>9} {:>8} {:>7} {:>7} {:>8} {:>8} {:>8}\n",
            format!("{seconds:.0} s"),
            "rx Mb/s",
            "tx Mb/s",
            "queue B",
            "pg B",
            "headroom",
            "drops",
            "pfc tx",
            "paused",
            "p50 us",
            "p99 us",
            "p99.9"
        );
        for i in 0..self.names.len() {
            let (stats, latency) = self.counters[i].read();
            let now: (PortStats, LatencyStats, PortGauges) = (stats, latency, self.gauges[i].read());
            text.push_str(&row(&self.names[i], &now, &self.last[i]));
            self.last[i] = now;
        }
        if self.redraw && self.drawn {
            OUT.raw(&format!("\x1b[{}A", self.names.len() + 1));
        }
        self.drawn = true;
        OUT.text(&text);
    }
}

fn row(
    name: &str,
    (stats, latency, gauges): &(PortStats, LatencyStats, PortGauges),
    last: &(PortStats, LatencyStats, PortGauges),
) -> String {
    // Both looks carry their own time, so a late look is not a wrong rate.
    let ns = gauges.at_ns.saturating_sub(last.2.at_ns).max(1) as f64;
    let mbps = |now: u64, then: u64| (now - then) as f64 * 8e3 / ns;
    let paused: u64 =
        gauges.rx_paused_ns.iter().zip(&last.2.rx_paused_ns).map(|(now, then)| now - then).sum();
    let mut residence = Histogram::default();
    for (now, then) in latency.residence.iter().zip(&last.1.residence) {
        for ((sum, now), then) in residence.0.iter_mut().zip(&now.0).zip(&then.0) {
            *sum += now - then;
        }
    }
    let us = |q| residence.quantile(q).map_or("-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3));
    format!(
        "{name:>6}  {:>8.1} {:>8.1} {:>9} {:>9} {:>9} {:>8} {:>7} {:>6.1}% {:>8} {:>8} {:>8}\n",
        mbps(stats.rx_bytes, last.0.rx_bytes),
        mbps(stats.tx_bytes, last.0.tx_bytes),
        gauges.queue_bytes.iter().sum::<u64>(),
        gauges.pg_shared.iter().sum::<u64>(),
        gauges.pg_headroom.iter().sum::<u64>(),
        stats.drops.total(),
        gauges.pfc_tx_frames,
        paused as f64 * 100.0 / ns,
        us(0.5),
        us(0.99),
        us(0.999)
    )
}
