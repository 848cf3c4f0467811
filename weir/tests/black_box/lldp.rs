//! LLDP with DCBX: a peer on a wire that plays a host with other settings, and the stock `lldpd` where it is installed.

use crate::support::namespace::Namespace;
use crate::support::program::{Running, Switch, floating, weir};
use crate::support::wire::Socket;
use crate::support::{need, run, tools, wait_for};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::path::Path;
use weir_dataplane::types::Mac;
use weir_mgmt::client;
use weir_mgmt::lldp::dcbx::Pfc;
use weir_mgmt::lldp::frame::{Decoded, Id, Lldpdu, decode};

const PORTS: &str = "[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"8MiB\"\nframes = 8192\n\
    [port_defaults]\nrate = \"1G\"\nmtu = 1514\npfc = { enable = [3] }\n\
    [[port]]\nname = \"p0\"\ndevice = \"net_af_packet0,iface=w0\"\n\
    [[port]]\nname = \"p1\"\ndevice = \"net_af_packet1,iface=w1\"\nlldp = \"receive\"\n";

const LLDP: &str = "[lldp]\nenable = true\ninterval = \"1s\"\nsystem_name = \"leaf7\"\n";

const HOST: Mac = Mac([2, 0, 0, 0, 0, 7]);

/// What a host says that has PFC for these priorities.
fn host(enable: u8) -> Lldpdu {
    let id = |value: &[u8]| Id { subtype: 7, value: value.to_vec() };
    Lldpdu {
        system_name: Some("gpu7".into()),
        pfc: Some(Pfc { willing: true, macsec_bypass: false, capability: 8, enable }),
        max_frame: Some(1518),
        ..Lldpdu::new(id(b"host7"), id(b"roce0"), 120)
    }
}

/// What the switch answers.
fn answer(socket: &str, target: &str) -> Value {
    serde_json::from_str(&client::get(Path::new(socket), target).unwrap()).unwrap()
}

/// Waits until a port of `/v1/lldp` is as it should be.
fn port(socket: &str, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let target = format!("/v1/lldp?port={name}");
    wait_for(what, || Some(answer(socket, &target)["ports"][0].take()).filter(&is))
}

/// Waits until there is an event of this kind and phase.
fn event(socket: &str, kind: &str, phase: &str) -> Value {
    wait_for(&format!("{kind} {phase}"), || {
        let events = client::get(Path::new(socket), "/v1/events?follow=false&format=ndjson").ok()?;
        let mut all = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.find(|event| event["event"] == kind && event["phase"] == phase)
    })
}

/// The next frame of LLDP that the switch sends here.
fn told(wire: &Socket) -> Decoded {
    let mut buffer = [0; 2048];
    wait_for("a frame of LLDP", || decode(wire.receive(&mut buffer)?).ok())
}

#[test]
fn a_neighbour_is_known_told_and_compared() {
    let ns = need!(Namespace::new());
    need!(ns.veth("w0", "h0", 1500));
    need!(ns.veth("w1", "h1", 1500));
    let mut switch = Switch::start_in(&ns, &format!("{PORTS}{LLDP}"));
    let path = switch.socket();
    let wire = Socket::open(&ns, "h0");
    let say = |says: &Lldpdu| wire.send(&says.encode(HOST));

    // What it says of itself follows from its configuration.
    let told_of = told(&wire);
    let (says, mac) = (&told_of.pdu, told_of.source);
    assert_eq!((says.system_name.as_deref(), says.ttl, says.max_frame), (Some("leaf7"), 5, Some(1518)));
    assert_eq!((&says.port.value[..], told_of.discarded), (&b"p0"[..], 0));
    assert_eq!(says.pfc, Some(Pfc { willing: false, macsec_bypass: false, capability: 8, enable: 1 << 3 }));
    assert_eq!(&mac.0[..], ns.mac("w0"));

    // One priority too many: shown, and an alarm.
    say(&host(1 << 3 | 1 << 4));
    let known = port(&path, "p0", "the neighbour", |port| !port["neighbours"].as_array().unwrap().is_empty());
    let peer = &known["neighbours"][0];
    assert_eq!((&peer["chassis"], &peer["port_id"]), (&json!("host7"), &json!("roce0")));
    assert_eq!(
        (&peer["differences"]["pfc"], &peer["differences"]["frame_size"]),
        (&json!([4]), &json!(false))
    );
    let shown = weir(&["show", "lldp", "--socket", &path]).stdout;
    let row = |who: &str| {
        let mut rows = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.find(|row| row[..2] == ["p0", who]).unwrap_or_else(|| panic!("{shown}")).join(" ")
    };
    assert!(
        row("peer").starts_with("p0 peer host7 roce0 gpu7 1")
            && row("peer").ends_with("3,4 - 1518 pfc pfc 4"),
        "{shown}"
    );
    assert!(row("we").contains(" p0 leaf7 5 3 "), "{shown}");
    let alarm = event(&path, "lldp_pfc", "alarm");
    assert_eq!(
        (&alarm["ours"], &alarm["theirs"], &alarm["port"]),
        (&json!([3]), &json!([3, 4]), &json!("p0"))
    );
    assert_eq!(event(&path, "lldp", "start")["system_name"], "gpu7");
    let metrics = client::get(Path::new(&path), "/metrics").unwrap();
    let line = "weir_port_lldp_mismatches{port=\"p0\",what=\"pfc\"} 1";
    assert!(metrics.lines().any(|found| found.starts_with(line)), "{metrics}");
    let explained = || weir(&["explain", "--socket", &path, "--port", "p0", "--kind", "lldp"]).stdout;
    assert!(explained().contains("consumed: read by LLDP"), "{}", explained());

    // It agrees.
    say(&host(1 << 3));
    event(&path, "lldp_pfc", "end");

    // Whatever is sent is counted, and stops nobody.
    const FLOOD: u64 = 500;
    let mut broken = host(0).encode(HOST);
    broken[14] = 0xff;
    (0..FLOOD).for_each(|_| wire.send(&broken));
    let port_0 = port(&path, "p0", "the flood", |port| {
        let count = |key: &str| port[key].as_u64().unwrap();
        count("rx_frames") + count("rx_no_room_frames") == FLOOD + 2
            && count("rx_malformed_frames") + 2 == count("rx_frames")
    });
    say(&host(1 << 3));
    port(&path, "p0", "the neighbour afterwards", |port| {
        port["neighbours"][0]["frames"].as_u64().is_some_and(|frames| frames >= 3)
    });
    // The other port hears, and says nothing.
    Socket::open(&ns, "h1").send(&host(1 << 3).encode(HOST));
    let quiet = port(&path, "p1", "its neighbour", |port| !port["neighbours"].as_array().unwrap().is_empty());
    assert_eq!(
        (&quiet["mode"], &quiet["tx_frames"], &quiet["sent"]),
        (&json!("receive"), &json!(0), &Value::Null)
    );

    // Off, while it runs: the neighbour is told that nothing more comes, and such frames end at the port again.
    let folder = tempfile::tempdir().unwrap();
    let next = folder.path().join("next.toml");
    std::fs::write(&next, format!("[eal]\nargs = [{:?}]\n{PORTS}", floating())).unwrap();
    let applied = weir(&["apply", next.to_str().unwrap(), "--socket", &path]);
    assert_eq!(applied.code(), Some(0), "{}{}", applied.stdout, applied.stderr);
    wait_for("a farewell", || (told(&wire).pdu.ttl == 0).then_some(()));
    assert_eq!(event(&path, "lldp", "end")["why"], "lldp_off");
    assert!(explained().contains("DROPPED: control.reserved_address"), "{}", explained());
    say(&host(1 << 3));
    wait_for("a frame that nobody reads", || {
        let drops = answer(&path, "/v1/drops");
        drops["drops"]
            .as_array()?
            .iter()
            .find(|drop| drop["reason"] == "control.reserved_address")
            .map(|_| ())
    });
    let no_room = port_0["rx_no_room_frames"].as_u64().unwrap();
    let summary = switch.stop();
    assert_eq!(summary.port("p0", "rx_lldp") + no_room, FLOOD + 3);
    assert_eq!(summary.drops("control.lldp_no_room"), no_room);
    assert_eq!(summary.drops("control.reserved_address"), 1);
}

/// The daemon that Linux hosts run, as the other side.
#[test]
fn the_stock_lldpd_and_the_switch_know_each_other() {
    need!(tools(&["lldpd", "lldpcli"]));
    let ns = need!(Namespace::new());
    need!(ns.veth("w0", "h0", 1500));
    need!(ns.veth("w1", "h1", 1500));
    let mut switch = Switch::start_in(&ns, &format!("{PORTS}{LLDP}"));
    let path = switch.socket();
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("lldpd.socket");
    let control = control.to_str().unwrap();
    let daemon = Running::start(ns.command("lldpd").args(["-d", "-u", control, "-I", "h0", "-S", "stock"]));
    let known = port(&path, "p0", "lldpd", |port| port["neighbours"][0]["system_description"] == "stock");
    let peer = &known["neighbours"][0];
    assert_eq!((&peer["port_id_kind"], &peer["port_description"]), (&json!("mac address"), &json!("h0")));
    assert_eq!(known["rx_malformed_frames"], 0);
    assert_eq!(known["rx_discarded_tlvs"], 0);
    assert_eq!(peer["differences"]["frame_size"], false, "{peer}");
    wait_for("the switch in lldpd", || {
        let shown =
            run(ns.command("lldpcli").args(["-u", control, "-f", "json", "show", "neighbors", "details"]));
        (shown.contains("leaf7") && shown.contains("\"p0\"")).then_some(())
    });
    drop(daemon.stop(Signal::SIGTERM));
    assert_eq!(event(&path, "lldp", "end")["why"], "shutdown");
    drop(switch.stop());
}
