//! Lossless, on real devices: hosts that obey PFC send more than a port can take.

use crate::support::hosts::{Hosts, Results, Station, peer};
use crate::support::namespace::Namespace;
use crate::support::program::{Summary, Switch, WEIR, floating, turn};
use crate::support::wire::{Capture, Socket};
use crate::support::{need, tools};
use serde_json::Value;
use std::process::Command;
use weir_dataplane::pfc::frame::{Control, PfcFrame, decode};
use weir_endpoint::traffic::Flow;

/// Rate of every link, bits/s: low, so that a machine busy with other things is not the bottleneck.
const RATE: u64 = 50_000_000;

/// Hosts that send to the first one, on the lossless priority.
const SENDERS: u8 = 3;

/// Frames each of them sends.
const FRAMES: u64 = 2000;

/// The lossless priority of the RoCE preset.
const LOSSLESS: u8 = 3;

fn flow(id: u16, from: u8, to: u8, priority: u8, rate: u64, frames: u64) -> (u8, u8, Flow) {
    let dscp = if priority == LOSSLESS { 26 } else { 0 };
    // Not-ECT: what must not be lost is not marked either, so the content stays as it was sent.
    let flow = Flow {
        id,
        dst: peer(to),
        priority,
        dscp,
        tag: None,
        ecn: 0,
        frame_bytes: 1000,
        rate: Some(rate),
        // Every switch port has learnt every host by then.
        start: 500_000_000,
        frames: Some(frames),
    };
    (from, to, flow)
}

struct Seen {
    results: Results,
    summary: Summary,
    /// What hosts 0 to 3 saw of MAC control, by port, and the address of that port.
    control: Vec<Vec<Vec<u8>>>,
    macs: Vec<Vec<u8>>,
}

/// Three hosts send to the first at nearly link rate each; one of them also sends a victim flow of
/// another priority to the second, at a rate every link can carry.
fn incast(pfc: bool) -> Result<Seen, String> {
    tools(&["tcpdump"])?;
    let ns = Namespace::new()?;
    // Headroom for a second without the processor: what a host may send before it sees a pause.
    let how = if pfc {
        "[buffer]\nsize = \"32MiB\"\nframes = 16384\n\
         [[buffer.profile]]\nname = \"lossless\"\nxoff = \"6MiB\"\nstatic_th = \"128KiB\"\n[port_defaults]\n"
    } else {
        "[buffer]\nsize = \"1MiB\"\nframes = 16384\n\
         [[buffer.pg]]\npgs = 3\nprofile = \"lossy\"\n[port_defaults]\npfc = { enable = [] }\n"
    };
    let preset = "[qos]\npreset = \"roce-lossless\"\n[watchdog]\nenable = false\n";
    let mut config = format!("{preset}{how}rate = {RATE}\nmtu = 1518\n");
    for i in 0..=SENDERS {
        ns.veth(&format!("w{i}"), &format!("h{i}"), 1500)?;
        config += &format!("[[port]]\nname = \"p{i}\"\n");
        config +=
            &format!("device = \"net_af_packet{i},iface=w{i},blocksz=65536,framesz=2048,framecnt=8192\"\n");
    }
    let switch = Switch::start_in(&ns, &config);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let captures: Vec<_> = (0..=SENDERS)
        .map(|i| Capture::start(&ns, &format!("h{i}"), folder.path(), "ether proto 0x8808"))
        .collect();
    let macs = (0..=SENDERS).map(|i| ns.mac(&format!("w{i}"))).collect();
    let obey = if pfc { 1 << LOSSLESS } else { 0 };
    let mut stations: Vec<_> =
        (0..=SENDERS).map(|i| Station::new(i, RATE, obey, Socket::open(&ns, &format!("h{i}")))).collect();
    let mut flows: Vec<_> =
        (1..=SENDERS).map(|i| flow(u16::from(i), i, 0, LOSSLESS, RATE / 10 * 7, FRAMES)).collect();
    flows.push(flow(100, 2, 1, 0, RATE / 10, FRAMES / 4));
    for (from, to, flow) in &flows {
        stations[usize::from(*from)].host.send(*flow).expect("a flow");
        stations[usize::from(*to)].host.expect(*flow).expect("a flow");
    }
    let all: u64 = flows.iter().filter_map(|(_, _, flow)| flow.frames).sum();
    let hosts = Hosts::start(stations);
    hosts.wait_sent(all);
    if pfc {
        hosts.wait_received(all);
    }
    let summary = switch.stop();
    let results = hosts.finish();
    let control = captures.into_iter().map(Capture::stop).collect();
    Ok(Seen { results, summary, control, macs })
}

/// The PFC frames among MAC control frames.
fn pfc_frames(frames: &[Vec<u8>]) -> Vec<PfcFrame> {
    let pfc = |frame: &Vec<u8>| match decode(frame) {
        Control::Pfc(pfc) => pfc,
        other => panic!("{other:?} on the wire"),
    };
    frames.iter().map(pfc).collect()
}

#[test]
fn incast_over_af_packet_loses_nothing() {
    let Seen { results, summary, control, macs } = need!(incast(true));
    println!("drops {:?}, lost {}", summary.all_drops(), results.lost());
    results.content_is_right();
    assert_eq!(summary.all_drops(), [""; 0]);
    assert_eq!(results.lost(), 0);
    for id in (1..=u16::from(SENDERS)).chain([100]) {
        let sent = results.sent.iter().find(|(flow, _)| flow.id == id).expect("sent").1;
        assert_eq!(results.flow(id).received, sent);
    }
    for host in 1..=usize::from(SENDERS) {
        let name = format!("p{host}");
        // On the wire: from the port's address to the PFC group, 60 bytes, about one priority.
        for frame in &control[host] {
            assert_eq!(frame[..6], [0x01, 0x80, 0xc2, 0, 0, 1]);
            assert_eq!(frame[6..12], macs[host][..], "the source is the port's own address");
            assert_eq!(frame[12..16], [0x88, 0x08, 0x01, 0x01]);
            assert_eq!(frame[16..18], [0, 1 << LOSSLESS], "no other priority is named");
            assert_eq!(frame.len(), 60);
        }
        let frames = pfc_frames(&control[host]);
        println!(
            "{name}: {} PFC frames, held back {} ms",
            frames.len(),
            results.hosts[host].paused_ns[3] / 1_000_000
        );
        let times =
            |zero: bool| frames.iter().filter(|f| (f.time[usize::from(LOSSLESS)] == 0) == zero).count();
        assert!(times(false) > 0, "no pause seen at host {host}");
        assert!(times(true) > 0, "no resume seen at host {host}");
        assert_eq!(frames.len() as u64, summary.port(&name, "pfc_tx"), "all that was counted was seen");
        assert!(results.hosts[host].paused_ns[usize::from(LOSSLESS)] > 0);
        let others: u64 = results.hosts[host].paused_ns.iter().sum();
        assert_eq!(others, results.hosts[host].paused_ns[usize::from(LOSSLESS)], "victims are not held back");
    }
    assert!(control[0].is_empty(), "the receiver sends nothing that could be paused");
}

#[test]
fn incast_over_af_packet_without_pfc_drops() {
    let Seen { results, summary, control, .. } = need!(incast(false));
    println!("drops {:?}, lost {}", summary.all_drops(), results.lost());
    results.content_is_right();
    assert!(control.iter().all(Vec::is_empty), "PFC is off");
    assert!(results.lost() > 0, "three into one does not fit");
    let missed: u64 = (0..=SENDERS).map(|i| summary.port(&format!("p{i}"), "nic_missed")).sum();
    assert_eq!(results.lost(), summary.total("dropped") + missed, "each lost frame has a reason");
    // But for what a worker that was off its core for long finds in a ring that is full, or has no room for at once.
    let (lost, sent) = (results.flow(100).lost, FRAMES / 4);
    assert!(lost * 20 < sent, "another priority to another port is hardly touched: {lost} of {sent}");
}

/// `weir lab` is much the same over `net_ring`, in one process; its hosts are RoCEv2 endpoints.
fn lab(more: &[&str], config: &str) -> (Option<i32>, String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let (file, summary) = (folder.path().join("lab.toml"), folder.path().join("summary.json"));
    std::fs::write(&file, config).unwrap();
    let _turn = turn();
    let mut command = Command::new(WEIR);
    command.arg("lab").arg(&file).args(["--for", "3s", "--summary"]).arg(&summary).args(more);
    let ended = crate::support::program::Running::start(&mut command).ended();
    let text = std::fs::read_to_string(&summary).unwrap_or_else(|_| panic!("no summary: {ended:?}"));
    (ended.code(), ended.stdout, serde_json::from_str(&text).unwrap())
}

fn lab_config(dcqcn: &str) -> String {
    lab_config_of("roce-lossless", "dscp = 0", dcqcn)
}

/// `victim`: what puts a flow on another priority.
fn lab_config_of(preset: &str, victim: &str, dcqcn: &str) -> String {
    let mut config = format!(
        "[eal]\nargs = [{:?}]\n[qos]\npreset = {preset:?}\n[watchdog]\nenable = false\n\
         [buffer]\nsize = \"32MiB\"\nframes = 16384\n[[buffer.profile]]\nname = \"lossless\"\n\
         xoff = \"6MiB\"\nstatic_th = \"128KiB\"\n[port_defaults]\nrate = {RATE}\nmtu = 1518\n",
        floating()
    );
    for i in 0..=SENDERS {
        config += &format!("[[port]]\nname = \"p{i}\"\ndevice = \"ring\"\n");
    }
    config += &format!("[lab]\ndcqcn = {dcqcn:?}\n");
    for i in 1..=SENDERS {
        config += &format!(
            "[[lab.flow]]\nfrom = \"p{i}\"\nto = \"p0\"\nrate = {}\nframe_bytes = 1000\ndscp = 26\n",
            RATE / 10 * 7
        );
    }
    config
        + &format!(
            "[[lab.flow]]\nfrom = \"p2\"\nto = \"p1\"\nrate = {}\nframe_bytes = 1000\n{victim}\n",
            RATE / 10
        )
}

/// The results of the flows towards the first port.
fn incast_flows(summary: &Summary) -> Vec<&Value> {
    let flows = summary.0["flows"].as_array().expect("flows");
    flows.iter().filter(|flow| flow["to"] == "p0").collect()
}

/// Two of three hosts are in another VLAN than the one they send to: nothing is lost unnamed, and yet all is not well.
#[test]
fn a_flow_that_is_not_heard_is_no_pass() {
    let mut config = format!("[eal]\nargs = [{:?}]\n[buffer]\nsize = \"8MiB\"\n", floating());
    for (i, vlan) in [10, 10, 20, 20].into_iter().enumerate() {
        config += &format!("[[port]]\nname = \"p{i}\"\ndevice = \"ring\"\nvlan = {{ access = {vlan} }}\n");
    }
    for i in 1..4 {
        config +=
            &format!("[[lab.flow]]\nfrom = \"p{i}\"\nto = \"p0\"\nrate = \"10M\"\nframe_bytes = 1000\n");
    }
    let (code, stdout, _) = lab(&[], &config);
    assert_eq!(code, Some(1), "{stdout}");
    let said = "verdict: FAIL: flow p2 -> p0: no message arrived; flow p3 -> p0: no message arrived";
    assert!(stdout.contains(said), "{stdout}");
}

/// Frames that the switch sends for itself are nobody's, and expected.
#[test]
fn what_the_switch_says_itself_is_no_fault() {
    let says = "[lldp]\nenable = true\ninterval = \"1s\"\n\
                [mcast_snooping]\nvlans = \"*\"\nquerier = true\nquery_interval = \"1s\"\nquery_response_interval = \"500ms\"\n";
    let (code, stdout, summary) = lab(&[], &format!("{}{says}", lab_config("off")));
    assert_eq!(code, Some(0), "{stdout}");
    let summary = Summary(summary);
    summary.is_conserved();
    for said in ["tx_lldp", "tx_igmp"] {
        assert!(summary.port("p0", said) > 0, "{said}: {:#}", summary.0);
    }
}

#[test]
fn incast_over_rings_loses_nothing() {
    let (code, stdout, summary) = lab(&[], &lab_config("off"));
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("verdict: PASS"), "{stdout}");
    let summary = Summary(summary);
    summary.is_conserved();
    for i in 1..=SENDERS {
        assert!(summary.port(&format!("p{i}"), "pfc_tx") > 0, "{:#}", summary.0);
    }
    assert_eq!(summary.drops("ingress.headroom_exhausted"), 0);
    for flow in incast_flows(&summary) {
        assert_eq!(flow["lowest_rate_bps"], Value::Null, "nobody backs off: {flow:#}");
    }
}

#[test]
fn incast_over_rings_backs_off() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    let args = ["--trace", trace.to_str().expect("a plain path")];
    let (code, stdout, summary) = lab(&args, &lab_config("paper"));
    assert_eq!(code, Some(0), "{stdout}");
    let summary = Summary(summary);
    summary.is_conserved();
    assert_eq!(summary.drops("ingress.headroom_exhausted"), 0);
    assert_eq!(summary.0["verdict"], "PASS");
    let flows = incast_flows(&summary);
    assert_eq!(flows.len(), usize::from(SENDERS));
    for flow in flows {
        assert!(flow["cnps"].as_u64() > Some(0), "{flow:#}");
        assert!(flow["lowest_rate_bps"].as_u64() < Some(RATE / 10 * 7), "{flow:#}");
        assert_eq!(flow["received"], flow["posted"], "{flow:#}");
    }
    assert!(summary.port("p0", "ecn_marked") > 0, "{:#}", summary.0);
    let rows = std::fs::read_to_string(trace).unwrap();
    assert!(rows.starts_with("host,qpn,time_ns,code,event,rate_bps\n"), "{rows}");
    assert!(rows.contains(",000,decrease,"), "{rows}");
}

/// The link of the first port at a tenth of the others' rate: a machine too busy for its hosts to send as fast as
/// they should still brings more than leaves.
fn narrow(config: &str) -> String {
    config.replace("name = \"p0\"\n", &format!("name = \"p0\"\nrate = {}\n", RATE / 10))
}

/// Frames of a lossless class were lost for this reason: that is no PASS, and is named.
fn loses_by_name(code: Option<i32>, stdout: &str, summary: &Summary, reason: &str) {
    let (lossless, reasons) = (summary.total("lossless_drops"), &summary.0["lossless_drops_by_reason"]);
    assert_eq!((code, summary.0["verdict"].as_str()), (Some(1), Some("FAIL")), "{stdout}");
    assert!(lossless > 0 && lossless <= summary.total("dropped"), "{:#}", summary.0);
    let named = format!("{lossless} frames of lossless classes lost (");
    assert!(stdout.contains(&format!("verdict: FAIL: {named}")), "{named}\n{stdout}");
    assert!(stdout.contains(&format!("{reason} {}", reasons[reason])), "{reasons}\n{stdout}");
}

/// PFC that the ports cannot do, or leave to a NIC, makes no class less lossless.
#[test]
fn incast_over_rings_without_pfc_drops() {
    for pfc in ["visible = false", "mode = \"hardware\""] {
        let config = narrow(&lab_config("off"))
            .replace("size = \"32MiB\"", "size = \"4MiB\"")
            .replace("xoff = \"6MiB\"", "xoff = \"16KiB\"")
            .replace("mtu = 1518\n", &format!("mtu = 1518\npfc = {{ {pfc} }}\n"));
        let (code, stdout, summary) = lab(&[], &config);
        let summary = Summary(summary);
        summary.is_conserved();
        loses_by_name(code, &stdout, &summary, "ingress.headroom_exhausted");
    }
}

#[test]
fn incast_over_rings_with_deaf_hosts_drops() {
    let deaf = narrow(&lab_config("paper"))
        .replace("size = \"32MiB\"", "size = \"4MiB\"")
        .replace("xoff = \"6MiB\"", "xoff = \"16KiB\"");
    let (code, stdout, summary) = lab(&["--deaf"], &deaf);
    let summary = Summary(summary);
    summary.is_conserved();
    assert!(summary.drops("ingress.headroom_exhausted") > 0, "{:#}", summary.0);
    loses_by_name(code, &stdout, &summary, "ingress.headroom_exhausted");
    let again: u64 = summary.0["hosts"]
        .as_array()
        .expect("hosts")
        .iter()
        .filter_map(|h| h["tx_retransmitted"].as_u64())
        .sum();
    assert!(again > 0, "what was lost was sent again");
}

/// PAXI switches with RC Link hosts, whose preset says so. Responses, of another priority, go elsewhere.
fn paxi_config(preset: &str, dcqcn: &str) -> String {
    // Four lossless groups per port instead of one, each with its headroom; limits well below what one flow has
    // under way.
    lab_config_of(preset, "pcp = 2", dcqcn)
        .replace("size = \"32MiB\"", "size = \"128MiB\"")
        .replace("static_th = \"128KiB\"", "static_th = \"64KiB\"")
}

#[test]
fn sw131_sw132_incast_of_rc_link_hosts_over_rings_loses_nothing() {
    for (preset, reliable) in [("paxi-standard", true), ("paxi-lite", false)] {
        let (code, stdout, summary) = lab(&[], &paxi_config(preset, "off"));
        assert_eq!(code, Some(0), "{preset}: {stdout}");
        assert!(stdout.contains("verdict: PASS"), "{stdout}");
        let summary = Summary(summary);
        summary.is_conserved();
        assert_eq!(summary.all_drops(), [""; 0], "{preset}");
        for i in 1..=SENDERS {
            assert!(summary.port(&format!("p{i}"), "pfc_tx") > 0, "{:#}", summary.0);
        }
        for host in &summary.0["hosts"].as_array().expect("hosts")[1..] {
            // Responses wait for nothing but the receive ring, which all share: where the worker is kept from its core.
            let [responses, requests] = [2, 3].map(|priority| host["paused_ns"][priority].as_u64());
            assert!(requests > responses, "{host:#}");
        }
        for flow in summary.0["flows"].as_array().expect("flows") {
            assert!(flow["received"].as_u64() > Some(100), "{flow:#}");
            assert_eq!(flow["received"], flow["posted"], "{flow:#}");
            let wrong = ["lost", "out_of_order", "corrupted"].map(|key| flow[key].as_u64());
            assert_eq!((wrong, &flow["reliable"]), ([Some(0); 3], &Value::Bool(reliable)), "{flow:#}");
        }
    }
}

#[test]
fn sw042_rc_link_hosts_over_rings_back_off_when_frames_are_marked() {
    let (code, stdout, summary) = lab(&[], &paxi_config("paxi-standard", "paper"));
    assert_eq!(code, Some(0), "{stdout}");
    let summary = Summary(summary);
    assert_eq!(summary.drops("ingress.headroom_exhausted"), 0);
    assert!(summary.port("p0", "ecn_marked") > 0, "{:#}", summary.0);
    for flow in incast_flows(&summary) {
        assert!(flow["cnps"].as_u64() > Some(0), "{flow:#}");
        assert!(flow["lowest_rate_bps"].as_u64() <= Some(RATE / 10 * 7 / 2), "{flow:#}");
    }
}

#[test]
fn sw131_deaf_lite_hosts_lose_and_count() {
    let deaf = narrow(&paxi_config("paxi-lite", "off"))
        .replace("size = \"128MiB\"", "size = \"4MiB\"")
        .replace("xoff = \"6MiB\"", "xoff = \"16KiB\"");
    let (code, stdout, summary) = lab(&["--deaf"], &deaf);
    let summary = Summary(summary);
    summary.is_conserved();
    let dropped = summary.drops("ingress.headroom_exhausted");
    assert!(dropped > 0, "{:#}", summary.0);
    loses_by_name(code, &stdout, &summary, "ingress.headroom_exhausted");
    let sum = |key: &str| -> u64 {
        summary.0["flows"].as_array().expect("flows").iter().filter_map(|flow| flow[key].as_u64()).sum()
    };
    // A worker that was off its core for long may lose some by another name.
    let all = summary.total("dropped");
    assert_eq!(sum("posted") - sum("received"), all, "sent once, so lost once: {:#}", summary.0);
    assert!(sum("lost") > 0 && sum("lost") <= all, "a receiver does not miss the last ones");
    assert_eq!(sum("out_of_order") + sum("corrupted"), 0);
}

#[test]
fn hosts_and_ports_must_speak_the_same() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.toml");
    std::fs::write(&file, paxi_config("paxi-lite", "off")).unwrap();
    let mut command = Command::new(WEIR);
    command.arg("lab").arg(&file).args(["--for", "1s", "--hosts", "rocev2"]);
    let ended = crate::support::program::Running::start(&mut command).ended();
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("use --hosts rclink"), "{}", ended.stderr);
}
