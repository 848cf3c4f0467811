//! A Linux bridge on two cables: a loop through the switch, which has no spanning tree of its own.

use crate::support::namespace::Namespace;
use crate::support::program::Switch;
use crate::support::wire::Socket;
use crate::support::{frames::plain, need, run, wait_for};
use serde_json::Value;
use std::path::Path;
use weir_dataplane::types::Mac;

const SWITCH: &str = "[buffer]\nsize = \"8MiB\"\nframes = 8192\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n\
    [[port]]\nname = \"p0\"\ndevice = \"net_af_packet0,iface=w0\"\n\
    [[port]]\nname = \"p1\"\ndevice = \"net_af_packet1,iface=w1\"\n";

/// Cables from `w0`, `w1` to a bridge, with or without STP.
fn bridge(stp: &str) -> Result<Namespace, String> {
    let ns = Namespace::new()?;
    let options = ["stp_state", stp, "hello_time", "100", "forward_delay", "200"];
    let made =
        ns.command("ip").args(["link", "add", "name", "bridge0", "type", "bridge"]).args(options).output();
    if !made.as_ref().is_ok_and(|made| made.status.success()) {
        return Err(format!("no bridge: {made:?}"));
    }
    for i in 0..2 {
        ns.veth(&format!("w{i}"), &format!("h{i}"), 1500)?;
        run(ns.command("ip").args(["link", "set", &format!("h{i}"), "master", "bridge0"]));
    }
    Ok(ns)
}

/// What the bridge makes of one of its ports.
fn state(ns: &Namespace, port: &str) -> String {
    let text = run(ns.command("ip").args(["-d", "-j", "link", "show", "dev", port]));
    let links: Value = serde_json::from_str(&text).expect("ip prints JSON");
    links[0]["linkinfo"]["info_slave_data"]["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_bridge_with_stp_finds_its_loop_through_the_switch() {
    let ns = need!(bridge("1"));
    let switch = Switch::start_in(&ns, SWITCH);
    loop_is_found(&ns, switch);
}

/// From an access port to a trunk: a bridge takes no BPDU with a tag for one.
#[test]
fn a_bridge_with_stp_finds_its_loop_through_a_vlan() {
    let ns = need!(bridge("1"));
    let vlans =
        SWITCH.replace("iface=w0\"\n", "iface=w0\"\nvlan = { access = 10 }\n") + "vlan = { trunk = 10 }\n";
    let switch = Switch::start_in(&ns, &vlans);
    loop_is_found(&ns, switch);
}

fn loop_is_found(ns: &Namespace, switch: Switch) {
    ns.set("bridge0", "up");
    wait_for("one port that forwards and one that does not", || {
        let states = ["h0", "h1"].map(|port| state(ns, port));
        assert_ne!(states, ["forwarding", "forwarding"], "the bridge has not seen its own BPDUs");
        (states == ["forwarding", "blocking"]).then_some(())
    });
    let summary = switch.stop();
    assert_eq!(summary.drops("control.reserved_address"), 0);
}

/// Without a spanning tree anywhere one broadcast never ends; the switch says so.
#[test]
fn a_loop_is_an_alarm() {
    let ns = need!(bridge("0"));
    let mut switch = Switch::start_in(&ns, SWITCH);
    ns.set("bridge0", "up");
    wait_for("a bridge that forwards", || {
        ["h0", "h1"].iter().all(|port| state(&ns, port) == "forwarding").then_some(())
    });
    let socket = switch.socket();
    let socket = Path::new(&socket);
    Socket::open(&ns, "h0").send(&plain(Mac([0xff; 6]), Mac([2, 0, 0, 0, 0, 9]), 60, 0));
    wait_for("the alarm", || {
        let events = weir_mgmt::client::get(socket, "/v1/events?follow=false&format=ndjson").ok()?;
        events.lines().any(|line| line.contains("\"loop\"") && line.contains("run STP")).then_some(())
    });
    ns.set("h1", "down");
    switch.stop();
}
