//! What the hosts came to: for people, as JSON, and the verdict.

use super::seats::Seat;
use serde_json::{Value, json};
use weir_dataplane::config::host::{HostConfig, HostQp};
use weir_endpoint::dcqcn::trace::CSV_HEADER;
use weir_endpoint::station::{PairReport, StationReport};

/// One connection of the file and what it came to.
#[derive(Debug)]
struct Line<'a> {
    port: &'a str,
    qp: &'a HostQp,
    report: PairReport,
}

/// Everything at the end of a run.
#[derive(Debug)]
pub struct Results<'a> {
    lines: Vec<Line<'a>>,
    ports: Vec<(&'a str, StationReport)>,
    trace: String,
    seconds: f64,
}

/// bits/s over a span of ns.
fn rate(bytes: u64, from: u64, to: u64) -> u64 {
    let ns = u128::from(to.saturating_sub(from)).max(1);
    u64::try_from(u128::from(bytes) * 8_000_000_000 / ns).unwrap_or(u64::MAX)
}

impl Line<'_> {
    /// Payload acknowledged per second.
    fn sent_rate(&self) -> u64 {
        let p = &self.report.progress;
        p.first_post.map_or(0, |first| rate(p.acknowledged_bytes, first, p.last_ack))
    }

    fn received_rate(&self) -> u64 {
        let p = &self.report.progress;
        p.receive_span.map_or(0, |(first, last)| rate(p.received_bytes, first, last))
    }

    fn wrong(&self) -> u64 {
        self.report.progress.out_of_order + self.report.progress.corrupted
    }

    fn state(&self) -> &'static str {
        match (self.report.failure, self.report.connected) {
            (Some(_), _) => "failed",
            (None, false) => "no peer",
            (None, true) => "up",
        }
    }
}

impl<'a> Results<'a> {
    /// Reads the stations of a configuration; `now` in ns.
    pub fn of(config: &'a HostConfig, seats: &[Seat], now: u64, seconds: f64) -> Self {
        let mut lines = Vec::new();
        for (port, seat) in seats.iter().enumerate() {
            let name = config.ports[port].port.name.as_str();
            // A station has its connections in the order of the file.
            let qps = config.qps.iter().filter(|qp| qp.port == port);
            lines.extend(qps.zip(seat.station.pairs()).map(|(qp, report)| Line { port: name, qp, report }));
        }
        let names = config.ports.iter().map(|port| port.port.name.as_str());
        let ports = names.zip(seats.iter().map(|seat| seat.station.report(now))).collect();
        Self { lines, ports, trace: trace(seats), seconds }
    }

    /// What moved the rates, as CSV.
    pub fn trace(&self) -> &str {
        &self.trace
    }

    /// Prints the totals.
    pub fn print(&self) {
        println!(
            "\n{:12} {:>22} {:>8} {:>10} {:>10} {:>9} {:>10} {:>9} {:>6} {:>8}",
            "connection", "peer", "state", "sent", "acked", "Mb/s", "received", "Mb/s", "wrong", "cnps"
        );
        for line in &self.lines {
            let p = &line.report.progress;
            println!(
                "{:12} {:>22} {:>8} {:>10} {:>10} {:>9} {:>10} {:>9} {:>6} {:>8}",
                format!("{} {}", line.port, line.report.qpn.0),
                format!("{} {}", line.qp.peer_ip, line.qp.peer_qpn),
                line.state(),
                p.posted,
                p.acknowledged,
                line.sent_rate() / 1_000_000,
                p.received,
                line.received_rate() / 1_000_000,
                line.wrong(),
                p.cnps
            );
        }
        for (name, r) in &self.ports {
            println!(
                "port {name}: {} frames out, {} in; sent again {} ({} NAKs, {} overdue); gaps seen {}, CE {}, CNPs out {}; \
                 PFC {} frames, held back {:.1} ms",
                r.tx_frames,
                r.rx_frames,
                r.hca.tx_retransmitted,
                r.hca.rx_nak_sequence,
                r.hca.timeouts,
                r.hca.tx_nak_sequence,
                r.hca.rx_ce,
                r.hca.tx_cnp,
                r.control.pfc_frames,
                r.paused_ns.iter().sum::<u64>() as f64 / 1e6
            );
        }
    }

    /// Everything that should not have happened. Empty: all is well.
    pub fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        for line in &self.lines {
            let (p, name) = (&line.report.progress, format!("{} {}", line.port, line.report.qpn.0));
            if let Some(failure) = line.report.failure {
                found.push(format!("connection {name} failed: {failure:?}"));
            } else if !line.report.connected {
                found.push(format!("connection {name}: {} never answered", line.qp.peer_ip));
            } else if p.acknowledged < p.posted {
                found.push(format!(
                    "connection {name}: {} messages not acknowledged",
                    p.posted - p.acknowledged
                ));
            } else if line.qp.stream.is_some() && p.posted == 0 {
                found.push(format!("connection {name} sent nothing"));
            }
            if line.wrong() > 0 {
                found.push(format!(
                    "connection {name}: {} messages out of order, {} corrupted",
                    p.out_of_order, p.corrupted
                ));
            }
            if let Some(expect) = line.qp.expect.filter(|expect| p.received != *expect) {
                found.push(format!("connection {name}: {} messages of {expect} received", p.received));
            }
        }
        found
    }

    /// The same as JSON. The keys are an interface.
    pub fn json(&self) -> Value {
        let findings = self.findings();
        json!({
            "connections": self.lines.iter().map(line_json).collect::<Vec<_>>(),
            "ports": self.ports.iter().map(|(name, report)| port_json(name, report)).collect::<Vec<_>>(),
            "seconds": self.seconds,
            "verdict": if findings.is_empty() { "PASS" } else { "FAIL" },
            "findings": findings,
        })
    }
}

/// The traces of all stations as CSV.
pub fn trace(seats: &[Seat]) -> String {
    let mut text = format!("host,{CSV_HEADER}");
    for seat in seats {
        let host = seat.station.address().1;
        for (qpn, trace) in seat.station.traces() {
            for row in trace.csv(qpn.0).lines() {
                text.push_str(&format!("{host},{row}\n"));
            }
        }
    }
    text
}

fn line_json(line: &Line<'_>) -> Value {
    let p = &line.report.progress;
    json!({
        "port": line.port,
        "qpn": line.report.qpn.0,
        "peer_ip": line.qp.peer_ip.to_string(),
        "peer_qpn": line.qp.peer_qpn,
        "state": line.state(),
        "posted": p.posted,
        "acknowledged": p.acknowledged,
        "acknowledged_bytes": p.acknowledged_bytes,
        "acknowledged_bps": line.sent_rate(),
        "received": p.received,
        "received_bytes": p.received_bytes,
        "received_bps": line.received_rate(),
        "out_of_order": p.out_of_order,
        "corrupted": p.corrupted,
        "data_frames": p.data_frames,
        "cnps": p.cnps,
        "rate_bps": line.report.rate,
        "lowest_rate_bps": (p.lowest_rate != u64::MAX).then_some(p.lowest_rate),
    })
}

fn port_json(name: &str, r: &StationReport) -> Value {
    json!({
        "name": name,
        "tx_frames": r.tx_frames,
        "tx_bytes": r.tx_bytes,
        "rx_frames": r.rx_frames,
        "rx_bytes": r.rx_bytes,
        "rx_flooded": r.rx_flooded,
        "rx_other": r.rx_other,
        "rx_bad_icrc": r.hca.rx_bad_icrc,
        "rx_malformed": r.hca.rx_malformed,
        "rx_unknown_qp": r.hca.rx_unknown_qp,
        "rx_duplicates": r.hca.rx_duplicates,
        "rx_out_of_sequence": r.hca.rx_out_of_sequence,
        "rx_nak_sequence": r.hca.rx_nak_sequence,
        "rx_ce": r.hca.rx_ce,
        "rx_cnp": r.hca.rx_cnp,
        "rx_rnr": r.hca.rx_rnr,
        "tx_retransmitted": r.hca.tx_retransmitted,
        "tx_acks": r.hca.tx_acks,
        "tx_nak_sequence": r.hca.tx_nak_sequence,
        "tx_cnp": r.hca.tx_cnp,
        "timeouts": r.hca.timeouts,
        "pfc_rx": r.control.pfc_frames,
        "pauses": r.pauses,
        "paused_ns": r.paused_ns,
    })
}
