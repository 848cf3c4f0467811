//! What a lab came to: flow by flow, and whether everything adds up.

use super::hosts::{FlowResult, HostResults};
use crate::output::{OUT, say};
use crate::run::Totals;
use serde_json::{Value, json};
use weir_config::{Config, PfcConfig};
use weir_dataplane::pfc::frame::quanta_to_ns;
use weir_layout::{Grid, Unit, counted};

/// Payload per second of a flow, bits/s.
fn goodput(flow: &FlowResult) -> u64 {
    let p = &flow.received.progress;
    let (first, last) = p.receive_span.unwrap_or_default();
    let ns = u128::from(last - first).max(1);
    u64::try_from(u128::from(p.received_bytes) * 8_000_000_000 / ns).unwrap_or(u64::MAX)
}

fn wrong(flow: &FlowResult) -> u64 {
    let p = &flow.received.progress;
    p.out_of_order + p.corrupted
}

/// Prints flows and hosts.
pub fn print(config: &Config, results: &HostResults) {
    let name = |port: usize| &config.ports[port].name;
    let heads =
        ["<flow", ">class", ">messages", ">acked", ">received", ">Mb/s", ">wrong", ">cnps", ">lowest Mb/s"];
    let mbps = |bps: u64| Unit::MBPS.number(bps as f64);
    let mut grid = Grid::new(&heads);
    for f in &results.flows {
        let p = &f.sent.progress;
        grid.push([
            format!("{} -> {}", name(f.from), name(f.to)),
            f.class.to_string(),
            p.posted.to_string(),
            p.acknowledged.to_string(),
            f.received.progress.received.to_string(),
            mbps(goodput(f)),
            wrong(f).to_string(),
            p.cnps.to_string(),
            if p.lowest_rate == u64::MAX { "-".to_owned() } else { mbps(p.lowest_rate) },
        ]);
    }
    OUT.text(&grid.text());
    for (port, host) in results.hosts.iter().enumerate() {
        let paused: u64 = host.paused_ns.iter().sum();
        let mut said = Vec::new();
        if paused > 0 {
            said.push(format!("was held back by PFC for {}", Unit::MS.text(paused as f64)));
        }
        if host.adapter.rx_ce() > 0 {
            said.push(format!(
                "saw {} marked, sent {}",
                counted(host.adapter.rx_ce(), "frame"),
                counted(host.adapter.tx_cnp(), "CNP")
            ));
        }
        if host.adapter.retransmitted() > 0 {
            said.push(format!("sent {} again", counted(host.adapter.retransmitted(), "frame")));
        }
        if !said.is_empty() {
            say!("host on {} {}", name(port), said.join(", "));
        }
    }
}

/// What is said of lossless classes when none of their frames was lost: nothing is shown by that if no flow has one.
pub fn lossless(config: &Config, results: &HostResults) -> &'static str {
    let is_lossless = |flow: &FlowResult| {
        let port = &config.ports[flow.from];
        port.pgs[usize::from(port.maps.tc_to_pg[usize::from(flow.class)])].lossless
    };
    match results.flows.iter().any(is_lossless) {
        true => "no lossless frame lost",
        false => "no flow of a lossless class",
    }
}

/// Pauses that may have ended although nobody was to go on: at ports whose headroom did not do, and a turn of so many ns is longer than what a
/// pause lasts from when it is told anew.
fn lapsed(config: &Config, exhausted: &[bool], turn: u64) -> Option<String> {
    let PfcConfig { quanta, refresh, .. } = config.pfc;
    let lost = config.ports.iter().zip(exhausted).filter(|(_, exhausted)| **exhausted).map(|(port, _)| port);
    let pausing = lost.filter(|port| port.pfc.tx && port.pfc.enable != 0);
    let pause = pausing.filter_map(|port| Some(quanta_to_ns(quanta, port.rate.bps()?))).min()?;
    let left = pause - (u128::from(pause) * u128::from(refresh) / 1_000_000) as u64;
    let ms = |ns: u64| Unit::MS.text(ns as f64);
    (turn > left).then(|| {
        format!(
            "pauses may have ended for want of a refresh: one lasts {}, is told anew after {}, and a worker took {} for a turn",
            ms(pause),
            ms(pause - left),
            ms(turn)
        )
    })
}

/// Everything that does not add up or should not have happened. Empty: all is well.
pub fn findings(config: &Config, totals: &Totals, results: &HostResults, deaf: bool) -> Vec<String> {
    let mut found = Vec::new();
    let error = totals.conservation.error();
    if error != 0 {
        found.push(format!("the switch lost count of {}", counted(error.unsigned_abs(), "frame")));
    }
    found.extend(totals.lossless_losses());
    if !deaf {
        found.extend(lapsed(config, &totals.headroom_exhausted(), totals.longest_turn));
    }
    let sum =
        |of: fn(&weir_endpoint::station::StationReport) -> u64| results.hosts.iter().map(of).sum::<u64>();
    let (sent, received) = (sum(|host| host.tx_frames), sum(|host| host.rx_frames));
    if sent != totals.conservation.received {
        found.push(format!(
            "hosts sent {}, the switch received {}",
            counted(sent, "frame"),
            totals.conservation.received
        ));
    }
    let own = |port: usize| totals.ports[port].own_frames();
    let transmitted = totals.conservation.transmitted + (0..totals.ports.len()).map(own).sum::<u64>();
    if received != transmitted {
        found.push(format!("the switch sent {}, hosts received {received}", counted(transmitted, "frame")));
    }
    // What the switch says itself (LLDP, queries) means nothing to a host. One that did not arrive is missing above.
    let spoilt: u64 = (results.hosts.iter().enumerate())
        .map(|(port, host)| (host.rx_other + host.adapter.malformed()).saturating_sub(own(port)))
        .sum();
    if spoilt > 0 {
        found.push(format!("{} arrived changed, or that nobody sent", counted(spoilt, "frame")));
    }
    let full = sum(|host| host.adapter.no_room());
    if full > 0 {
        found.push(format!("{} lost at hosts whose memory was full", counted(full, "frame")));
    }
    let arrived = results.flows.iter().any(|f| f.received.progress.received > 0);
    for f in &results.flows {
        let name = format!("flow {} -> {}", config.ports[f.from].name, config.ports[f.to].name);
        let (sent, received) = (&f.sent.progress, &f.received.progress);
        if let Some(failure) = f.sent.failure.or(f.received.failure) {
            found.push(format!("{name}: the connection failed: {failure:?}"));
        } else if sent.acknowledged < sent.posted {
            found.push(format!(
                "{name}: {} not acknowledged",
                counted(sent.posted - sent.acknowledged, "message")
            ));
        } else if received.received != sent.posted {
            found.push(format!(
                "{name}: {} sent, {} received",
                counted(sent.posted, "message"),
                received.received
            ));
        } else if received.received == 0 && arrived {
            found.push(format!("{name}: no message arrived"));
        }
        if wrong(f) > 0 {
            let (order, content) = (received.out_of_order, received.corrupted);
            found.push(format!(
                "{name}: {} out of order or twice, {content} changed",
                counted(order, "message")
            ));
        }
    }
    if !arrived {
        found.push("no message arrived at all".to_owned());
    }
    found
}

/// The flows as JSON, beside the totals of the switch.
pub fn json(config: &Config, totals: &Totals, results: &HostResults, findings: &[String]) -> Value {
    let mut all = totals.json();
    let flow = |f: &FlowResult| {
        let p = &f.sent.progress;
        json!({
            "from": config.ports[f.from].name,
            "to": config.ports[f.to].name,
            "class": f.class,
            "posted": p.posted,
            "acknowledged": p.acknowledged,
            "received": f.received.progress.received,
            "received_bytes": f.received.progress.received_bytes,
            "received_bps": goodput(f),
            "reliable": f.sent.reliable,
            "lost": f.received.progress.lost,
            "out_of_order": f.received.progress.out_of_order,
            "corrupted": f.received.progress.corrupted,
            "data_frames": p.data_frames,
            "cnps": p.cnps,
            "rate_bps": f.sent.rate,
            "lowest_rate_bps": (p.lowest_rate != u64::MAX).then_some(p.lowest_rate),
        })
    };
    all["flows"] = results.flows.iter().map(flow).collect();
    let host = |(port, host): (usize, &weir_endpoint::station::StationReport)| {
        json!({
            "port": config.ports[port].name,
            "tx_frames": host.tx_frames,
            "rx_frames": host.rx_frames,
            "rx_ce": host.adapter.rx_ce(),
            "tx_cnp": host.adapter.tx_cnp(),
            "tx_retransmitted": host.adapter.retransmitted(),
            "pfc_tx": host.adapter.tx_pfc(),
            "timeouts": host.adapter.timeouts(),
            "paused_ns": host.paused_ns,
        })
    };
    all["hosts"] = results.hosts.iter().enumerate().map(host).collect();
    all["findings"] = json!(findings);
    all["verdict"] = json!(if findings.is_empty() { "PASS" } else { "FAIL" });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_ends_in_a_turn_is_told() {
        let text =
            "[qos]\npreset = \"roce-lossless\"\n[[port]]\nname = \"p0\"\ndevice = \"ring\"\nrate = \"1G\"\n";
        let config = weir_config::load("t.toml", text).unwrap_or_else(|found| panic!("{found:?}")).config;
        // 65535 quanta at 1G, told anew after three eighths.
        let left = 33_553_920 * 5 / 8;
        assert_eq!(lapsed(&config, &[true], left), None);
        assert_eq!(
            lapsed(&config, &[false], u64::MAX),
            None,
            "no frame was lost that a pause would have held back"
        );
        let said = lapsed(&config, &[true], left + 1).unwrap();
        assert!(said.contains("one lasts 33.6 ms, is told anew after 12.6 ms"), "{said}");
        let silent = text.to_owned() + "pfc = { enable = [] }\n";
        let silent = weir_config::load("t.toml", &silent).unwrap_or_else(|found| panic!("{found:?}")).config;
        assert_eq!(lapsed(&silent, &[true], u64::MAX), None);
    }
}
