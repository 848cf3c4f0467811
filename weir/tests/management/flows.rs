//! Flows of a running lab at a collector: the figures are those of `weir show flows`.

use crate::running::Lab;
use crate::support::{run, tool, wait_for};
use collector::Collector;
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

#[path = "../../../mgmt/tests/collector/mod.rs"]
mod collector;

const DOMAIN: u32 = 77;

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value} is no number"))
}

/// Frames that were marked, by source and queue pair, as the switch shows them; and all of them.
fn shown(lab: &Lab) -> (BTreeMap<String, u64>, u64) {
    let shown: Value =
        serde_json::from_str(&lab.good(&["show", "flows", "--cause", "mark", "--json"])).unwrap();
    let flows = shown["flows"].as_array().unwrap().iter();
    let flows = flows.map(|row| {
        let (src, qp) = (row["src"].as_str().unwrap(), number(&row["qp"]));
        (format!("{} {src} {qp}", row["port"].as_str().unwrap()), number(&row["count"]))
    });
    let all = shown["totals"].as_array().unwrap().iter().map(|row| number(&row["total"])).sum();
    (flows.collect(), all)
}

/// The same as the collector was told.
fn told(collector: &Collector) -> (BTreeMap<String, u64>, u64) {
    let mut flows: BTreeMap<String, u64> = BTreeMap::new();
    for record in collector.with("weirMarkedPacketDeltaCount") {
        let port = number(&record["EgressInterface"]) - 1;
        let src = record["SourceIpv4address"].as_str().unwrap();
        let key = format!("p{port} {src} {}", number(&record["weirDestinationQueuePair"]));
        *flows.entry(key).or_default() += number(&record["weirMarkedPacketDeltaCount"]);
    }
    let marks = collector.with("weirCauseTotal").filter(|record| record["weirCause"] == "mark");
    (flows, marks.map(|record| record["weirCauseTotal"].as_f64().unwrap() as u64).sum())
}

/// The same as Wireshark's dissector reads it, which was written by others: of a capture of these datagrams.
fn dissected(datagrams: &[Vec<u8>]) -> BTreeMap<String, u64> {
    const PORT: u16 = 4739;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ipfix.pcap");
    // IPv4 without anything before it (pcap-savefile(5)).
    let header = PcapHeader { datalink: DataLink::IPV4, ..PcapHeader::default() };
    let mut file = PcapWriter::with_header(File::create(&path).unwrap(), header).unwrap();
    for datagram in datagrams {
        let length = 28 + datagram.len() as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(length.to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        packet.extend([PORT, PORT, length - 20, 0].iter().flat_map(|word| word.to_be_bytes()));
        packet.extend(datagram);
        file.write_packet(&PcapPacket::new(Duration::ZERO, packet.len() as u32, &packet)).unwrap();
    }
    let mut tshark = Command::new("tshark");
    tshark.args(["-V", "-d", &format!("udp.port=={PORT},cflow"), "-r"]).arg(&path);
    let text = run(&mut tshark);
    assert!(!text.contains("Malformed") && text.contains("weirMarkedPacketDeltaCount"), "{text}");
    let (mut flows, mut port, mut src, mut qp) = (BTreeMap::<String, u64>::new(), 0, "", 0);
    for line in text.lines().map(str::trim) {
        let own = |number: u8| {
            let (_, hex) = line.split_once(&format!(" Type {number}: Value (hex bytes): "))?;
            u64::from_str_radix(&hex.replace(' ', ""), 16).ok()
        };
        if let Some(number) = line.strip_prefix("OutputInt: ") {
            port = number.parse::<u32>().unwrap();
        } else if let Some(address) = line.strip_prefix("SrcAddr: ") {
            src = address;
        } else if let Some(number) = own(2) {
            qp = number;
        } else if let Some(frames) = own(4) {
            *flows.entry(format!("p{} {src} {qp}", port - 1)).or_default() += frames;
        }
    }
    flows
}

/// The export and the marks both come and go by `weir apply`, so that what is shown stands still when it is compared.
#[test]
fn a_collector_is_told_the_flows_of_a_running_lab() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    const QUIET: &str = "[[queue]]\nqueues = 3\nwred = \"none\"\n";
    let lab = Lab::start_with(QUIET);
    let quiet = std::fs::read_to_string(lab.path("lab.toml")).unwrap();
    let whole = quiet.replace(QUIET, "");
    assert_ne!(quiet, whole);
    let export = format!(
        "[flows]\nexport = \"{}\"\nexport_interval = \"1s\"\nexport_domain = {DOMAIN}\n",
        socket.local_addr().unwrap()
    );
    let apply = |config: &str| {
        let path = lab.path("next.toml");
        std::fs::write(&path, config).unwrap();
        lab.good(&["apply", path.to_str().unwrap()]);
    };
    assert_eq!(shown(&lab).1, 0);
    apply(&format!("{quiet}{export}"));
    apply(&format!("{whole}{export}"));
    wait_for("marks", || Some(()).filter(|()| shown(&lab).1 > 1000));
    apply(&format!("{quiet}{export}"));
    let mut collector = Collector::default();
    let (mut datagram, mut datagrams) = (vec![0; 65_536], Vec::new());
    let equal = || {
        while let Ok(length) = socket.recv(&mut datagram) {
            collector.take(&datagram[..length], DOMAIN);
            datagrams.push(datagram[..length].to_vec());
        }
        let before = shown(&lab);
        let told = told(&collector);
        Some(told.clone()).filter(|told| *told == before && told.1 > 1000)
    };
    let (flows, _) = wait_for("what is shown to be what the collector was told", equal);
    assert!(!flows.is_empty() && collector.lost == 0, "{flows:?}");
    let told = &lab.json("/v1/flows")["export"];
    assert_eq!((&told["failed_messages"], &told["error"]), (&Value::from(0), &Value::Null), "{told}");
    let text = lab.good(&["show", "flows"]);
    assert!(text.contains(&format!("export to {}", socket.local_addr().unwrap())), "{text}");
    assert!(lab.get("/metrics").contains("weir_flow_export_records_total{"));

    // Nobody listens any more: the switch goes on.
    drop(socket);
    let failed = || Some(()).filter(|()| !lab.json("/v1/flows")["export"]["error"].is_null());
    wait_for("a message that nobody took", failed);
    std::thread::sleep(Duration::from_millis(100));
    lab.stop();

    if tool(&["tshark"]).is_none() {
        eprintln!("skipped: tshark is not installed, which would read the same (scripts/need test)");
        return;
    }
    assert_eq!(dissected(&datagrams), flows);
}
