//! What a collector is told, read by a decoder that is not ours.

use super::*;
use crate::fake;
use crate::flows::{Query, document};
use crate::sample::Sampler;
use crate::snapshot::{Reading, SwitchInfo};
use collector::Collector;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weir_dataplane::drops::DropReason;
use weir_dataplane::flows::{Epoch, PortFlows, Where};
use weir_dataplane::parse::Profile;

#[path = "../../../tests/collector/mod.rs"]
mod collector;

const DOMAIN: u32 = 7;

fn settings(collector: std::net::SocketAddr) -> FlowExport {
    FlowExport { collector, interval: 1_000_000_000, domain: DOMAIN, enterprise: 32_473 }
}

fn info(export: Option<FlowExport>) -> SwitchInfo {
    SwitchInfo { export, ..fake::info() }
}

/// A place to listen, and all that comes there.
fn listener() -> (UdpSocket, std::net::SocketAddr) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn receive(socket: &UdpSocket, messages: u64, collector: &mut Collector) {
    let mut datagram = vec![0; 65_536];
    for _ in 0..messages {
        let length = socket.recv(&mut datagram).expect("a message that was sent");
        collector.take(&datagram[..length], DOMAIN);
    }
}

/// A sampler and the exporter behind it, ten looks a second.
struct Switch {
    sampler: Sampler,
    exporter: Exporter,
    looks: u64,
}

impl Switch {
    fn new(info: SwitchInfo) -> Self {
        Self { sampler: Sampler::new(info), exporter: Exporter::default(), looks: 0 }
    }

    fn look(&mut self, flows: &PortFlows) -> Snapshot {
        self.looks += 1;
        let ms = self.looks * 100;
        let mut reading: Reading = fake::reading(self.looks);
        for port in &mut reading.ports {
            port.flows = None;
        }
        reading.ports[1].flows = Some(Arc::new(super::super::FlowsReading::of(flows)));
        let mut snapshot = self.sampler.sample(reading, 1_700_000_000_000 + ms, ms);
        self.exporter.observe(&mut snapshot);
        snapshot
    }
}

/// From `host`, with and without IP, ports and queue pairs.
fn every_kind(host: u8) -> Vec<FlowId> {
    let eth = |kind: [u8; 2]| {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, host];
        frame.extend(kind);
        frame
    };
    let mut tcp = eth([8, 0]);
    tcp.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, host, 10, 0, 0, 9, 0x30, 0x39, 0, 80]);
    tcp.extend([0; 22]);
    let mut v6 = eth([0x86, 0xdd]);
    v6.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
    v6.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    v6.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    v6.extend([0x9c, 0x40, 0x14, 0xeb, 0, 8, 0, 0]);
    let mut other = eth([0x88, 0xb5]);
    other.extend([0; 46]);
    let ids =
        [tcp, v6, other].into_iter().map(|frame| Profile::standard().flow_id(&frame, frame.len()).unwrap());
    let mut ids: Vec<FlowId> = ids.collect();
    ids.extend([fake::flow(host), FlowId::default()]);
    ids
}

/// A second with so much of each flow.
fn second(number: u64, weights: &[(FlowId, u64)]) -> Epoch {
    let mut epoch = Epoch { number, looks: 100, ..Epoch::default() };
    for cause in Cause::ALL {
        let reason = (cause == Cause::Drop).then_some(DropReason::EgressQueueFull);
        for (id, weight) in weights {
            let place = Where { in_port: 0, priority: 3, reason };
            epoch.flows[cause as usize].add(&id.at(place), *weight);
            epoch.looked[cause as usize] += 1;
            epoch.covered[cause as usize] += weight;
            epoch.totals[cause as usize] += weight + 1;
        }
    }
    epoch
}

/// The seconds of a run, each seen by ten looks.
fn play(switch: &mut Switch, seconds: &[Epoch]) -> Snapshot {
    let mut last = Snapshot::default();
    for (i, current) in seconds.iter().enumerate() {
        let previous = i.checked_sub(1).map(|i| seconds[i].clone()).unwrap_or_default();
        let flows = PortFlows { current: current.clone(), previous };
        for _ in 0..10 {
            last = switch.look(&flows);
        }
    }
    last
}

fn sum(records: &Collector, element: &str) -> f64 {
    records.with(element).map(|record| record[element].as_f64().unwrap()).sum()
}

#[test]
fn a_collector_is_told_what_show_flows_shows() {
    let (socket, address) = listener();
    let mut switch = Switch::new(info(Some(settings(address))));
    let mut weights = Vec::new();
    for host in 1..5 {
        weights.extend(
            every_kind(host).into_iter().enumerate().map(|(i, id)| (id, u64::from(host) * 10 + i as u64)),
        );
    }
    // The flow that nobody could tell is one.
    weights.dedup_by_key(|(id, _)| *id);
    let mut seconds: Vec<Epoch> = (1..5).map(|n| second(n, &weights)).collect();
    seconds.extend([Epoch { number: 5, ..Epoch::default() }, Epoch { number: 6, ..Epoch::default() }]);
    let shown = play(&mut switch, &seconds);
    let told = shown.export.clone().unwrap();
    assert_eq!((told.failed, told.missed_seconds, &told.error), (0, 0, &None));
    let mut collector = Collector::default();
    receive(&socket, told.messages, &mut collector);
    assert_eq!((collector.records.len() as u64, collector.lost), (told.records, 0));

    let query = Query { limit: 1000, ..Query::default() };
    let shown: Value = document(&shown, &query);
    let mut expected: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    let looks = 400.0;
    for row in shown["flows"].as_array().unwrap() {
        let number = |key: &str| row[key].as_f64().or_else(|| row[key].as_str()?.parse().ok()).unwrap();
        let scale = if row["cause"] == "depth" { looks } else { 1.0 };
        let text = |key: &str| row[key].as_str().map_or_else(|| row[key].to_string(), str::to_owned);
        let src = if text("src") == "unknown" { "00:00:00:00:00:00".to_owned() } else { text("src") };
        let key = ["src_port", "qp", "reason"].map(text).join(" ");
        let port = if text("src_port") == "null" { key.replacen("null", "0", 1) } else { key };
        let (rest, reason) = port.rsplit_once(' ').unwrap();
        let rest = rest.replace("null", "0");
        expected.insert(
            format!("{} {src} {rest} {reason}", text("cause")),
            [number("count") * scale, number("count_at_most") * scale],
        );
    }
    let mut told: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for (cause, [least, most]) in [
        ("mark", ["weirMarkedPacketDeltaCount", "weirMarkedPacketDeltaCountAtMost"]),
        ("drop", ["DroppedPacketDeltaCount", "weirDroppedPacketDeltaCountAtMost"]),
        ("pause", ["weirPauseDeltaCount", "weirPauseDeltaCountAtMost"]),
        ("depth", ["weirQueuedOctetDeltaSum", "weirQueuedOctetDeltaSumAtMost"]),
    ] {
        for record in collector.with(least) {
            let src = ["SourceIpv4address", "SourceIpv6address", "SourceMacaddress"];
            let src = src.iter().find_map(|name| record.get(*name)).unwrap().as_str().unwrap();
            let word = |key: &str| {
                record
                    .get(key)
                    .map_or("0".to_owned(), |v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            };
            let reason = if cause == "drop" { word("weirDropReason") } else { "null".to_owned() };
            let key = format!(
                "{cause} {src} {} {} {reason}",
                word("SourceTransportPort"),
                word("weirDestinationQueuePair")
            );
            let count = told.entry(key).or_default();
            count[0] += record[least].as_f64().unwrap();
            count[1] += record[most].as_f64().unwrap();
            assert_eq!((word("IngressInterface"), word("weirPriority")), ("1".into(), "3".into()));
            assert_eq!(word("EgressInterface"), if cause == "pause" { "0" } else { "2" });
        }
    }
    let close = |a: &[f64; 2], b: &[f64; 2]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 0.01 * looks);
    assert_eq!(told.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (key, count) in &told {
        let tight = if key.starts_with("mark") || key.starts_with("drop") {
            count == &expected[key]
        } else {
            close(count, &expected[key])
        };
        assert!(tight, "{key}: told {count:?}, shown {:?}", expected[key]);
    }
    // Four kinds of four hosts, and the one that nobody could tell.
    assert_eq!(told.len(), 4 * 17);
    for total in shown["totals"].as_array().unwrap() {
        let of = |record: &&serde_json::Map<String, Value>| record["weirCause"] == total["cause"];
        let told: f64 =
            collector.with("weirCauseTotal").filter(of).map(|r| r["weirCauseTotal"].as_f64().unwrap()).sum();
        let shown = total["total"].as_f64().or_else(|| total["total"].as_str()?.parse().ok()).unwrap();
        let scale = if total["cause"] == "depth" { looks } else { 1.0 };
        assert!((told - shown * scale).abs() <= 0.01 * scale, "{total}: {told}");
    }
    assert_eq!(sum(&collector, "weirQueueLooks"), 4.0 * looks);
    let names: Vec<_> = collector
        .with("InterfaceName")
        .take(2)
        .map(|r| (r["IngressInterface"].clone(), r["InterfaceName"].clone()))
        .collect();
    assert_eq!(names, [(json!(1), json!("p0")), (json!(2), json!("p\"1\\"))]);
}

/// Messages are cut where they are full, whatever is in them, and each data record is counted once.
#[test]
fn many_flows_are_cut_into_messages_that_fit() {
    let (socket, address) = listener();
    let mut switch = Switch::new(info(Some(settings(address))));
    let weights: Vec<_> =
        (1..200).flat_map(|host| every_kind(host).into_iter().map(move |id| (id, u64::from(host)))).collect();
    let seconds: Vec<Epoch> = (1..4).map(|n| second(n, &weights)).collect();
    let told = play(&mut switch, &seconds).export.unwrap();
    let mut collector = Collector::default();
    receive(&socket, told.messages, &mut collector);
    assert_eq!((collector.records.len() as u64, collector.lost, told.lost), (told.records, 0, 0));
    // 32 flows of each cause and second at least, in messages of a tenth of a page.
    assert!(told.messages >= 20 && told.records > 4 * 2 * 32, "{told:?}");
}

#[test]
fn times_are_those_of_the_seconds() {
    let (socket, address) = listener();
    let mut switch = Switch::new(info(Some(settings(address))));
    let seconds: Vec<Epoch> = (1..4).map(|n| second(n, &[(fake::flow(1), 5)])).collect();
    let told = play(&mut switch, &seconds).export.unwrap();
    let mut collector = Collector::default();
    receive(&socket, told.messages, &mut collector);
    // The clock of the fake's workers stands at 100 ms for its first look, which is at 1 700 000 000.1 s.
    let times: Vec<_> = collector
        .with("weirMarkedPacketDeltaCount")
        .map(|record| {
            [&record["FlowStartMilliseconds"], &record["FlowEndMilliseconds"]].map(ToString::to_string)
        })
        .collect();
    let at = |second: u64| format!("{}", 1_700_000_000_000 + second * 1000);
    assert!(times[0][0].contains(&at(0)) && times[0][1].contains(&at(1)), "{times:?}");
}

/// Nobody listens: that is counted, told as an event once, and over when somebody does.
#[test]
fn a_collector_that_is_away_is_counted_and_told() {
    let (socket, address) = listener();
    drop(socket);
    let mut switch = Switch::new(info(Some(settings(address))));
    let mut log = Log::default();
    let mut before = None;
    let mut play = |switch: &mut Switch, seconds: std::ops::Range<u64>, log: &mut Log| {
        for n in seconds {
            let flows = PortFlows { current: second(n + 1, &[]), previous: second(n, &[(fake::flow(1), 5)]) };
            for _ in 0..10 {
                let now = switch.look(&flows);
                report(before.as_ref(), &now, log);
                before = now.export;
            }
        }
    };
    play(&mut switch, 1..20, &mut log);
    let told = switch.exporter.told.clone().unwrap();
    assert!(told.failed > 0 && told.lost > 0 && told.error.is_some(), "{told:?}");
    let socket = UdpSocket::bind(address).unwrap();
    play(&mut switch, 20..30, &mut log);
    let told = switch.exporter.told.clone().unwrap();
    assert_eq!(told.error, None);
    let phases: Vec<_> = log.after(0).map(|event| event.body["phase"].as_str().unwrap().to_owned()).collect();
    assert_eq!(phases, ["start", "end"]);
    // The records that did not come are missing by their numbers.
    let mut collector = Collector::default();
    socket.set_nonblocking(true).unwrap();
    let mut datagram = vec![0; 65_536];
    while let Ok(length) = socket.recv(&mut datagram) {
        collector.take(&datagram[..length], DOMAIN);
    }
    assert!(collector.lost > 0, "{}", collector.lost);
    assert!(u64::from(collector.lost) + collector.records.len() as u64 <= told.records + told.lost);
}

#[test]
fn who_is_told_changes_while_the_switch_runs() {
    let ((one, a), (two, b)) = (listener(), listener());
    let mut switch = Switch::new(info(None));
    let seconds: Vec<Epoch> = (1..20).map(|n| second(n, &[(fake::flow(1), 5)])).collect();
    assert_eq!(play(&mut switch, &seconds[..3]).export, None);
    let mut from = 3;
    let mut go = |switch: &mut Switch, export| {
        switch.sampler.renew(info(export));
        let told = play(switch, &seconds[from..from + 3]).export;
        from += 3;
        told
    };
    let first = go(&mut switch, Some(settings(a))).unwrap();
    let second = go(&mut switch, Some(settings(b))).unwrap();
    let (mut at_one, mut at_two) = (Collector::default(), Collector::default());
    receive(&one, first.messages, &mut at_one);
    receive(&two, second.messages - first.messages, &mut at_two);
    assert_eq!((at_one.lost, at_two.lost), (0, 0), "a new collector begins with number 0");
    assert!(
        sum(&at_one, "weirMarkedPacketDeltaCount") > 0.0 && sum(&at_two, "weirMarkedPacketDeltaCount") > 0.0
    );
    assert_eq!(go(&mut switch, None), None);
}

#[test]
fn what_is_left_is_told_at_the_end() {
    let (socket, address) = listener();
    let long = FlowExport { interval: 3_600_000_000_000, ..settings(address) };
    let mut switch = Switch::new(info(Some(long)));
    let seconds: Vec<Epoch> = (1..4).map(|n| second(n, &[(fake::flow(1), 5)])).collect();
    let last = play(&mut switch, &seconds);
    assert_eq!(last.export.as_ref().map(|told| told.messages), Some(0));
    switch.exporter.end(&last);
    let mut collector = Collector::default();
    receive(&socket, switch.exporter.told.unwrap().messages, &mut collector);
    assert_eq!(sum(&collector, "weirMarkedPacketDeltaCount"), 15.0);
}

#[test]
fn seconds_that_nobody_saw_are_counted() {
    let (_socket, address) = listener();
    let mut switch = Switch::new(info(Some(settings(address))));
    let mut look = |number: u64| {
        let flows = PortFlows { current: second(number + 1, &[]), previous: second(number, &[]) };
        switch.look(&flows).export.unwrap().missed_seconds
    };
    assert_eq!([1, 2, 2, 5, 6].map(&mut look), [0, 0, 0, 2, 2]);
}

/// The numbers of our own elements are an interface: docs/management.md lists them as they are.
#[test]
fn the_docs_list_our_own_elements() {
    let docs = include_str!("../../../../docs/management.md");
    let rows: Vec<String> = OWN
        .iter()
        .map(|own| format!("| {} | `{}` | {} | {} |", own.number, own.name, own.kind.word(), own.what))
        .collect();
    let table = rows.join("\n");
    assert!(docs.contains(&table), "docs/management.md wants\n{table}");
}
