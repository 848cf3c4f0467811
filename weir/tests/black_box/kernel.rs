//! Ordinary hosts of the kernel behind `configs/af-packet.toml`, with all the offloads a veth pair has by default.

use crate::support::namespace::Namespace;
use crate::support::program::{Running, Switch, weir};
use crate::support::{need, run, tools, wait_for};
use std::path::Path;

/// Two hosts, 10.0.0.1 and 10.0.0.2, and between them the interfaces `veth0` and `veth1` of a third namespace.
struct Hosts {
    between: Namespace,
    one: Namespace,
    other: Namespace,
}

fn hosts() -> Result<Hosts, String> {
    let hosts = Hosts { between: Namespace::new()?, one: Namespace::new()?, other: Namespace::new()? };
    hosts.between.cable("veth0", &hosts.one, "host0", "10.0.0.1/24")?;
    hosts.between.cable("veth1", &hosts.other, "host0", "10.0.0.2/24")?;
    Ok(hosts)
}

impl Hosts {
    /// `bytes` over TCP from one to the other: who receives, who sends.
    fn transfer(&self, bytes: &str) -> (Running, Running) {
        let mut server = Running::start(self.other.command("iperf3").args(["-s", "-1", "--forceflush"]));
        server.says("Server listening");
        let client = ["-c", "10.0.0.2", "-n", bytes, "--forceflush"];
        (server, Running::start(self.one.command("iperf3").args(client)))
    }
}

/// Small segments get through at once, since the switch makes up checksums. Data that TCP leaves a NIC to cut does not, and
/// the switch says what to type: `run` by itself, `doctor`, and an event. What it says helps.
#[test]
fn hosts_with_all_offloads_are_told_what_to_type() {
    need!(tools(&["iperf3"]));
    let hosts = need!(hosts());
    let mut switch = Switch::shipped_in(&hosts.between, "af-packet.toml");
    let (server, mut client) = hosts.transfer("4M");
    client.says("connected to");
    const SAID: &str = "-> ethtool -K PEER tx off";
    switch.program().says(SAID);
    drop((server, client));
    let socket = switch.socket();
    let socket = socket.as_str();
    wait_for("the event", || {
        let events =
            weir_mgmt::client::get(Path::new(socket), "/v1/events?follow=false&format=ndjson").ok()?;
        let told = |line: &str| line.contains("\"offload\"") && line.contains("ethtool -K PEER tx off");
        events.lines().any(told).then_some(())
    });
    let doctor = weir(&["doctor", "--socket", socket]).stdout;
    assert!(doctor.contains("longer than its mtu") && doctor.contains(SAID), "{doctor}");
    for host in [&hosts.one, &hosts.other] {
        run(host.command("ethtool").args(["-K", "host0", "tx", "off"]));
    }
    let (server, client) = hosts.transfer("4M");
    for end in [client.ended(), server.ended()] {
        assert_eq!(end.code(), Some(0), "{}{}", end.stdout, end.stderr);
    }
    let summary = switch.stop();
    assert!(summary.port("veth0", "checksums_completed") > 0 && summary.drops("parse.too_long") > 0);
}

/// The interface goes with its container, and comes back with the next one: its port takes it up again, and nobody restarts
/// the switch.
#[test]
fn an_interface_that_is_made_anew_is_taken_up_again() {
    need!(tools(&["iperf3"]));
    let hosts = need!(hosts());
    let mut switch = Switch::shipped_in(&hosts.between, "af-packet.toml");
    let reaches = |hosts: &Hosts| {
        for host in [&hosts.one, &hosts.other] {
            run(host.command("ethtool").args(["-K", "host0", "tx", "off"]));
        }
        let (server, client) = hosts.transfer("1M");
        for end in [client.ended(), server.ended()] {
            assert_eq!(end.code(), Some(0), "{}{}", end.stdout, end.stderr);
        }
    };
    let said = |switch: &mut Switch, word: &str, times: usize| {
        let count = |switch: &mut Switch| switch.program().stdout().matches(word).count();
        wait_for(word, || (count(switch) == times).then_some(()));
    };
    reaches(&hosts);
    for time in 1..=2 {
        run(hosts.between.command("ip").args(["link", "del", "veth0"]));
        said(&mut switch, "port veth0: link down", time);
        need!(hosts.between.cable("veth0", &hosts.one, "host0", "10.0.0.1/24"));
        said(&mut switch, "port veth0: interface veth0 has been made anew", time);
        said(&mut switch, "port veth0: link up", 1 + time);
        reaches(&hosts);
    }
    // Away and back: to whoever had it open it is another one, whatever its number is.
    hosts.between.give("veth0", &hosts.other);
    hosts.other.give("veth0", &hosts.between);
    said(&mut switch, "port veth0: interface veth0 has been made anew", 3);
    said(&mut switch, "port veth0: link up", 4);
    reaches(&hosts);
    // What the new interface would lose is said, as it is at the start.
    run(hosts.between.command("ip").args(["link", "del", "veth0"]));
    said(&mut switch, "port veth0: link down", 4);
    let small = ["link", "add", "veth0", "mtu", "1000", "type", "veth", "peer", "name", "other0"];
    run(hosts.between.command("ip").args(small));
    switch.program().says("ip link set veth0 mtu 1500");
    let socket = switch.socket();
    let state = |state: &str| {
        let shown = weir(&["show", "ports", "--json", "--socket", &socket]).stdout;
        let shown: serde_json::Value = serde_json::from_str(&shown).ok()?;
        let row = &shown["ports"][0];
        let said = row["device_error"].as_str()?.contains("ip link set veth0 mtu 1500");
        (row["device_state"] == state && said == (state == "refused")).then_some(())
    };
    wait_for("a port whose interface is refused", || state("refused"));
    let events = weir(&["show", "events", "--socket", &socket]).stdout;
    assert_eq!(events.matches("attached").count(), 3, "{events}");
    let refused = |line: &&str| line.contains("refused") && line.contains("ip link set veth0 mtu 1500");
    assert_eq!(events.lines().filter(refused).count(), 1, "{events}");
    // What it says helps.
    run(hosts.between.command("ip").args(["link", "set", "veth0", "mtu", "1500"]));
    said(&mut switch, "port veth0: interface veth0 has been made anew", 4);
    wait_for("a port that has its interface", || state("present"));
    switch.stop();
}

/// Before anything runs `doctor` can say it, too.
#[test]
fn doctor_tells_of_offloads_from_the_configuration_alone() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/af-packet.toml");
    let doctor = weir(&["doctor".as_ref(), config.as_os_str()]).stdout;
    for said in ["veth0: hosts behind veth0", "veth1: hosts behind veth1", "ethtool -K PEER tx off"] {
        assert!(doctor.contains(said), "{said}: {doctor}");
    }
}
