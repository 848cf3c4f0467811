//! What the hosts came to: for people, as JSON, and the verdict.

use super::remedy::Case;
use super::seats::Seat;
use crate::output::{OUT, say};
use serde_json::{Value, json};
use weir_config::host::{HostConfig, HostQp, HostRank, HostTraffic};
use weir_endpoint::dcqcn::trace::CSV_HEADER;
use weir_endpoint::rclink::endpoint;
use weir_endpoint::roce;
use weir_endpoint::station::roce::{Ended, Results as Form};
use weir_endpoint::station::{Address, ConnectionReport, EndpointCounters, Kind, StationReport};
use weir_inc::immediate::{ALL_RANKS, Immediate};
use weir_layout::{Grid, Unit, counted};

/// One connection of the file and what it came to.
#[derive(Debug)]
struct Line<'a> {
    port: &'a str,
    report: ConnectionReport,
    /// Which rank it is, if it is one.
    rank: Option<Rank<'a>>,
}

/// A connection that is a rank.
#[derive(Clone, Copy, Debug)]
struct Rank<'a> {
    qp: &'a HostQp,
    of: &'a HostRank,
    /// Of its port.
    first_qpn: u32,
}

impl Rank<'_> {
    /// Rounds it was to take part in.
    fn rounds(&self) -> Option<u64> {
        self.qp.stream.and_then(|stream| stream.messages)
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct End {
    /// Frames of each port that its device took, or was not given since the interface would have lost them, and did not send.
    pub lost: Vec<u64>,
    /// ns.
    pub now: u64,
    /// How long it was.
    pub seconds: f64,
    /// Ranks met at a controller.
    pub met: bool,
    /// Why the controller says that there are no more sums.
    pub failed: Option<String>,
}

/// Everything at the end of a run.
#[derive(Debug)]
pub struct Results<'a> {
    lines: Vec<Line<'a>>,
    ports: Vec<(&'a str, StationReport)>,
    trace: String,
    end: End,
}

/// The rank that queue pair `qpn` of a port is.
fn rank_of(config: &HostConfig, port: usize, qpn: u32) -> Option<Rank<'_>> {
    let HostTraffic::Roce { qps, .. } = &config.traffic else { return None };
    let qp = qps.iter().find(|qp| qp.port == port && qp.qpn == qpn)?;
    Some(Rank { qp, of: qp.rank.as_ref()?, first_qpn: config.ports[port].first_qpn })
}

/// bits/s over a span of ns; 0 where all came at once and there is no span.
fn rate(bytes: u64, from: u64, to: u64) -> u64 {
    let bits = u128::from(bytes) * 8_000_000_000;
    let rate = bits.checked_div(to.saturating_sub(from).into()).unwrap_or(0);
    u64::try_from(rate).unwrap_or(u64::MAX)
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

    fn name(&self) -> String {
        format!("{} {}", self.port, self.report.name())
    }

    fn wrong(&self) -> u64 {
        self.report.progress.out_of_order + self.report.progress.corrupted
    }

    /// Sums per second.
    fn sum_rate(&self) -> f64 {
        let p = &self.report.progress;
        p.receive_span
            .map_or(0.0, |(first, last)| p.received as f64 * 1e9 / last.saturating_sub(first).max(1) as f64)
    }

    /// A rank that was to take part so many times did, and has every sum.
    fn has_all_sums(&self) -> bool {
        let all = self.rank.as_ref().and_then(Rank::rounds);
        all.is_some_and(|all| self.report.progress.received == all && self.unanswered() == 0)
    }

    /// Contributions without a sum.
    fn unanswered(&self) -> u64 {
        let p = &self.report.progress;
        p.posted.saturating_sub(p.received + p.corrupted)
    }

    /// What ended a job before its time.
    fn job_end(&self) -> Option<String> {
        let word = match self.report.ended? {
            Ended::Told(word) => word,
            Ended::Came(Form::Sent) => return Some("a sum was sent that was to be written".to_owned()),
            Ended::Came(Form::Written) => return Some("a sum was written that was to be sent".to_owned()),
        };
        Some(match Immediate::decode(word) {
            Some(Immediate::Failed(failure, rank)) if rank != ALL_RANKS => {
                format!("the engine says {} because of rank {rank}", failure.name())
            }
            Some(Immediate::Failed(failure, _)) => format!("the engine says {}", failure.name()),
            _ => format!("the engine says {word:#010x}"),
        })
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
    /// Reads the stations of a configuration.
    pub fn of(config: &'a HostConfig, seats: &[Seat], end: End) -> Self {
        let mut lines = Vec::new();
        for (port, seat) in seats.iter().enumerate() {
            let name = config.ports[port].port.name.as_str();
            let line = |report: ConnectionReport| Line {
                port: name,
                rank: rank_of(config, port, report.number),
                report,
            };
            lines.extend(seat.station.pairs().map(line));
        }
        let names = config.ports.iter().map(|port| port.port.name.as_str());
        let ports = names.zip(seats.iter().map(|seat| seat.station.report(end.now))).collect();
        Self { lines, ports, trace: trace(seats), end }
    }

    /// What moved the rates, as CSV.
    pub fn trace(&self) -> &str {
        &self.trace
    }

    /// Prints the totals.
    pub fn print(&self) {
        let heads = [
            "<connection",
            ">peer",
            ">state",
            ">sent",
            ">acked",
            ">Mb/s",
            ">received",
            ">Mb/s",
            ">wrong",
            ">lost",
            ">cnps",
        ];
        let mut grid = Grid::new(&heads);
        for line in &self.lines {
            let p = &line.report.progress;
            let mbps = |bps: u64| Unit::MBPS.digits(0).number(bps as f64);
            grid.push([
                line.name(),
                line.report.peer_name(),
                line.state().to_owned(),
                p.posted.to_string(),
                p.acknowledged.to_string(),
                mbps(line.sent_rate()),
                p.received.to_string(),
                mbps(line.received_rate()),
                line.wrong().to_string(),
                p.lost.to_string(),
                p.cnps.to_string(),
            ]);
        }
        OUT.text(&format!("\n{}", grid.text()));
        for (line, Rank { of: rank, .. }) in self.ranks() {
            let p = &line.report.progress;
            say!(
                "rank {} ({}): {} sums of {} {}, {:.0} per second; {} wrong, {} contributions without a sum",
                rank.rank,
                line.name(),
                p.received,
                rank.fold.operator().name(),
                rank.fold.data_type().name(),
                line.sum_rate(),
                p.corrupted,
                line.unanswered()
            );
        }
        for ((name, r), lost) in self.ports.iter().zip(&self.end.lost) {
            say!(
                "port {name}: {} out, {} in; {}CE {}, CNPs out {}; PFC {} in, {} out, held back {}",
                counted(r.tx_frames, "frame"),
                r.rx_frames,
                again(&r.adapter),
                r.adapter.rx_ce(),
                r.adapter.tx_cnp(),
                counted(r.control.pfc_frames, "frame"),
                r.adapter.tx_pfc(),
                Unit::MS.text(r.paused_ns.iter().sum::<u64>() as f64)
            );
            if let Some(what) = thrown_away_text(&r.adapter) {
                say!("port {name}: frames thrown away: {what}");
            }
            if *lost > 0 {
                say!(
                    "port {name}: {} of those lost by its device or for its interface's MTU",
                    counted(*lost, "frame")
                );
            }
        }
    }

    fn ranks(&self) -> impl Iterator<Item = (&Line<'a>, Rank<'a>)> {
        self.lines.iter().filter_map(|line| Some((line, line.rank?)))
    }

    /// What to do about ranks that failed, each thing once.
    pub fn remedies(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (line, Rank { qp, of: rank, first_qpn }) in self.ranks().filter(|(line, _)| !line.has_all_sums())
        {
            let (report, unanswered) = (&line.report, line.unanswered());
            let case = Case { qp, rank, first_qpn, report, unanswered, met: self.end.met };
            all.extend(case.remedy().filter(|remedy| !all.contains(remedy)));
        }
        all
    }

    /// Everything that should not have happened. Empty: all is well.
    pub fn findings(&self) -> Vec<String> {
        let mut found: Vec<String> =
            self.end.failed.iter().map(|why| format!("the controller says: {why}")).collect();
        for line in &self.lines {
            let (p, name) = (&line.report.progress, line.name());
            if line.has_all_sums() {
                // What becomes of its job afterwards, when others leave, is no failure of this rank.
            } else if let Some(end) = line.job_end() {
                found.push(format!("connection {name}: the job has ended, {end}"));
            } else if let Some(failure) = line.report.failure {
                found.push(format!("connection {name} failed: {failure:?}"));
            } else if !line.report.connected {
                found.push(format!("connection {name}: {} never answered", line.report.peer.0));
            } else if p.acknowledged < p.posted {
                found.push(format!(
                    "connection {name}: {} not acknowledged",
                    counted(p.posted - p.acknowledged, "message")
                ));
            } else if line.report.sends && p.posted == 0 {
                found.push(format!("connection {name} sent nothing"));
            }
            if p.lost > 0 {
                found.push(format!("connection {name}: {} lost", counted(p.lost, "message")));
            }
            if line.wrong() > 0 {
                found.push(format!(
                    "connection {name}: {} out of order, {} corrupted",
                    counted(p.out_of_order, "message"),
                    p.corrupted
                ));
            }
            if let Some(expect) = line.report.expect.filter(|expect| p.received != *expect) {
                found.push(format!(
                    "connection {name}: {} of {expect} received",
                    counted(p.received, "message")
                ));
            }
        }
        for (line, rank) in self.ranks().filter(|(line, _)| line.report.failure.is_none()) {
            let (p, name) = (&line.report.progress, line.name());
            if line.unanswered() > 0 {
                found.push(format!(
                    "connection {name}: {} without a sum",
                    counted(line.unanswered(), "contribution")
                ));
            }
            if let Some(all) = rank.rounds().filter(|all| p.received + p.corrupted < *all) {
                found.push(format!("connection {name}: {} of {all}", counted(p.received, "sum")));
            }
        }
        for (name, r) in self.ports.iter().filter(|(_, r)| r.adapter.no_room() > 0) {
            found.push(format!(
                "port {name}: {} lost, its memory was full",
                counted(r.adapter.no_room(), "frame")
            ));
        }
        found
    }

    /// The same as JSON. The keys are an interface.
    pub fn json(&self) -> Value {
        let findings = self.findings();
        let ports = self.ports.iter().zip(&self.end.lost);
        json!({
            "connections": self.lines.iter().map(line_json).collect::<Vec<_>>(),
            "ports": ports.map(|((name, report), lost)| port_json(name, report, *lost)).collect::<Vec<_>>(),
            "remedies": self.remedies(),
            "seconds": self.end.seconds,
            "verdict": if findings.is_empty() { "PASS" } else { "FAIL" },
            "findings": findings,
        })
    }
}

/// The traces of all stations as CSV.
pub fn trace(seats: &[Seat]) -> String {
    let mut text = format!("host,{CSV_HEADER}");
    for seat in seats {
        let host = seat.station.address();
        for (qpn, trace) in seat.station.traces() {
            for row in trace.csv(qpn).lines() {
                text.push_str(&format!("{host},{row}\n"));
            }
        }
    }
    text
}

/// What was sent again, and why.
fn again(adapter: &EndpointCounters) -> String {
    match adapter {
        EndpointCounters::Roce(c) => format!(
            "sent again {} ({} NAKs, {} RNR, {} overdue); gaps seen {}, ",
            c.tx_retransmitted, c.rx_nak_sequence, c.rx_nak_rnr, c.timeouts, c.tx_nak_sequence
        ),
        EndpointCounters::RcLink(c) => format!(
            "sent again {} ({} overdue); gaps seen {}, ",
            c.tx_retransmitted, c.timeouts, c.rx_out_of_sequence
        ),
    }
}

fn line_json(line: &Line<'_>) -> Value {
    let p = &line.report.progress;
    let mut all = json!({
        "port": line.port,
        "state": line.state(),
        "posted": p.posted,
        "acknowledged": p.acknowledged,
        "acknowledged_bytes": p.acknowledged_bytes,
        "acknowledged_bps": line.sent_rate(),
        "received": p.received,
        "received_bytes": p.received_bytes,
        "received_bps": line.received_rate(),
        "lost": p.lost,
        "out_of_order": p.out_of_order,
        "corrupted": p.corrupted,
        "data_frames": p.data_frames,
        "cnps": p.cnps,
        "rate_bps": line.report.rate,
        "lowest_rate_bps": (p.lowest_rate != u64::MAX).then_some(p.lowest_rate),
    });
    if let Some(rank) = line.rank {
        all["rank"] = json!(rank.of.rank);
        all["sums_per_second"] = json!(line.sum_rate());
        all["unanswered"] = json!(line.unanswered());
        all["job_end"] = json!(line.job_end());
    }
    match line.report.peer.0 {
        Address::Ip(ip) => all["peer_ip"] = json!(ip.to_string()),
        Address::Mac(mac) => all["peer_mac"] = json!(mac.to_string()),
    }
    all[line.report.kind.key()] = json!(line.report.number);
    if line.report.kind == Kind::Qp {
        all["peer_qpn"] = json!(line.report.peer.1);
    }
    all
}

fn port_json(name: &str, r: &StationReport, lost: u64) -> Value {
    let mut all = match &r.adapter {
        EndpointCounters::Roce(counters) => roce_json(counters),
        EndpointCounters::RcLink(counters) => rclink_json(counters),
    };
    let common = json!({
        "name": name,
        "tx_frames": r.tx_frames,
        "tx_bytes": r.tx_bytes,
        "nic_tx_errors": lost,
        "rx_frames": r.rx_frames,
        "rx_bytes": r.rx_bytes,
        "rx_flooded": r.rx_flooded,
        "rx_other": r.rx_other,
        "rx_ce": r.adapter.rx_ce(),
        "tx_cnp": r.adapter.tx_cnp(),
        "tx_retransmitted": r.adapter.retransmitted(),
        "timeouts": r.adapter.timeouts(),
        "pfc_rx": r.control.pfc_frames,
        "pauses": r.pauses,
        "paused_ns": r.paused_ns,
    });
    if let (Value::Object(all), Value::Object(common)) = (&mut all, common) {
        all.extend(common);
    }
    all
}

/// Frames that RoCEv2 hosts threw away, each with its key, and what they were.
fn thrown_away(c: &roce::hca::Counters) -> [(&'static str, u64, &'static str); 6] {
    [
        ("rx_not_ready", c.rx_not_ready, "for a queue pair that has failed"),
        ("rx_no_matching_qp", c.rx_no_matching_qp, "for no queue pair here"),
        ("rx_unasked", c.rx_unasked, "responses nobody asked for"),
        ("rx_unsupported", c.rx_unsupported, "of another transport service"),
        ("rx_bad_icrc", c.rx_bad_icrc, "with a wrong ICRC"),
        ("rx_malformed", c.rx_malformed, "malformed"),
    ]
}

/// The same for people; `None`: there were none.
fn thrown_away_text(adapter: &EndpointCounters) -> Option<String> {
    let EndpointCounters::Roce(counters) = adapter else { return None };
    let some = thrown_away(counters).into_iter().filter(|(_, frames, _)| *frames > 0);
    let said: Vec<_> = some.map(|(_, frames, what)| format!("{frames} {what}")).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

fn roce_json(c: &roce::hca::Counters) -> Value {
    let mut all = json!({
        "rx_duplicates": c.rx_duplicates,
        "rx_out_of_sequence": c.rx_out_of_sequence,
        "rx_nak_sequence": c.rx_nak_sequence,
        "rx_nak_rnr": c.rx_nak_rnr,
        "rx_cnp": c.rx_cnp,
        "rx_rnr": c.rx_rnr,
        "tx_acks": c.tx_acks,
        "tx_nak_sequence": c.tx_nak_sequence,
    });
    thrown_away(c).into_iter().for_each(|(key, frames, _)| all[key] = json!(frames));
    all
}

fn rclink_json(c: &endpoint::Counters) -> Value {
    json!({
        "rx_malformed": c.rx_malformed,
        "rx_no_matching_qp": c.rx_unknown,
        "rx_duplicates": c.rx_duplicates,
        "rx_out_of_sequence": c.rx_out_of_sequence,
        "rx_no_room": c.rx_no_room,
        "rx_cnp": c.rx_cnp,
        "rx_credit_ignored": c.rx_credit_ignored,
        "tx_acks": c.tx_acks,
        "tx_credit": c.tx_credit,
        "pfc_tx": c.tx_pfc,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a host takes and does not use is told with its reason, in the summary and to people.
    #[test]
    fn frames_thrown_away_are_told() {
        let counters = roce::hca::Counters {
            rx_bad_icrc: 1,
            rx_malformed: 2,
            rx_no_matching_qp: 3,
            rx_not_ready: 160,
            rx_unsupported: 5,
            rx_unasked: 6,
            ..Default::default()
        };
        let told = roce_json(&counters);
        let keys = ["bad_icrc", "malformed", "no_matching_qp", "not_ready", "unsupported", "unasked"];
        let frames = keys.map(|key| told[format!("rx_{key}")].as_u64());
        assert_eq!(frames, [1, 2, 3, 160, 5, 6].map(Some), "{told:#}");
        let few = roce::hca::Counters { rx_not_ready: 160, rx_unasked: 6, ..Default::default() };
        assert_eq!(
            thrown_away_text(&EndpointCounters::Roce(few)).as_deref(),
            Some("160 for a queue pair that has failed, 6 responses nobody asked for")
        );
        assert_eq!(thrown_away_text(&EndpointCounters::Roce(Default::default())), None);
    }
}
