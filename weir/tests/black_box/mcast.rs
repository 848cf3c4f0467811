//! IGMP and MLD snooping: hosts of the kernel that join groups by their sockets, and a Linux bridge that asks for members.

use crate::support::frames::plain;
use crate::support::namespace::Namespace;
use crate::support::program::{Switch, two_cores, weir};
use crate::support::wire::{Capture, Socket};
use crate::support::{need, run, tools, wait_for};
use serde_json::Value;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;
use weir_dataplane::types::Mac;
use weir_mgmt::client;

/// Where groups are sent to.
const PORT: u16 = 7000;
/// Interface of each host, which is the first one of its namespace but for the loopback.
const HOST: &str = "host0";

/// A host of the kernel behind an interface of the switch, with IPv4 and IPv6.
fn host(ns: &Namespace, end: &str, n: u8) -> Result<Namespace, String> {
    let host = Namespace::new()?;
    ns.cable(end, &host, HOST, &format!("10.0.0.{n}/24"))?;
    run(host.command("ethtool").args(["-K", HOST, "tx", "off"]));
    // Reports come soon after each other then, and from an address that nobody has to look for first.
    let addresses = format!(
        "cd /proc/sys/net/ipv6/conf/{HOST}; echo 0 > accept_dad; echo 0 > disable_ipv6; \
         ip address add fe80::{n}/64 dev {HOST} nodad; ip route add default dev {HOST}"
    );
    run(host.command("sh").args(["-c", &addresses]));
    Ok(host)
}

/// Number of an interface.
fn index(host: &Namespace) -> u32 {
    run(host.command("cat").arg(format!("/sys/class/net/{HOST}/ifindex"))).trim().parse().unwrap()
}

/// A socket of a host that has joined a group.
fn join(host: &Namespace, group: &str) -> UdpSocket {
    let (group, index): (IpAddr, _) = (group.parse().unwrap(), index(host));
    host.enter(|| {
        let socket = UdpSocket::bind(SocketAddr::new(group, PORT)).unwrap();
        match group {
            IpAddr::V4(group) => socket.join_multicast_v4(&group, &[0, 0, 0, 0].into()).unwrap(),
            IpAddr::V6(group) => socket.join_multicast_v6(&group, index).unwrap(),
        }
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        socket
    })
}

/// Sends a word to a group.
fn say(host: &Namespace, group: &str, word: &str) {
    let to = match group.parse().unwrap() {
        IpAddr::V4(group) => format!("{group}:{PORT}"),
        IpAddr::V6(group) => format!("[{group}%{}]:{PORT}", index(host)),
    };
    host.enter(|| {
        let any = if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
        UdpSocket::bind(any).unwrap().send_to(word.as_bytes(), to.parse::<SocketAddr>().unwrap()).unwrap();
    });
}

/// Waits until a socket has heard a word.
fn hears(socket: &UdpSocket, word: &str) {
    wait_for(word, || {
        let mut said = [0; 64];
        let len = socket.recv(&mut said).ok()?;
        (&said[..len] == word.as_bytes()).then_some(())
    });
}

/// A word was among the frames of a capture.
fn has(seen: &Capture, word: &str) -> bool {
    seen.seen().iter().any(|frame| frame.windows(word.len()).any(|part| part == word.as_bytes()))
}

fn rows(socket: &str, table: &str) -> Vec<Value> {
    let shown = weir(&["show", table, "--json", "--socket", socket]).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    shown[table].as_array().expect("rows").clone()
}

/// Waits until the VLAN of a protocol is as wanted.
fn vlan_is(socket: &str, protocol: &str, wanted: &[(&str, Value)]) {
    wait_for(&format!("{protocol}: {wanted:?}"), || {
        let rows = rows(socket, "mcast");
        let row = rows.iter().find(|row| row["protocol"] == protocol)?;
        wanted.iter().all(|(key, value)| row[key] == *value).then_some(())
    });
}

/// Waits until these ports have joined a group, and no others.
fn members_are(socket: &str, group: &str, wanted: &[&str]) {
    wait_for(&format!("{group}: {wanted:?}"), || {
        let rows = rows(socket, "mdb");
        let members =
            rows.iter().filter(|row| row["group"] == group).map(|row| row["port"].as_str().unwrap());
        members.eq(wanted.iter().copied()).then_some(())
    });
}

fn event(socket: &str, kind: &str, phase: &str) -> Value {
    wait_for(&format!("{kind} {phase}"), || {
        let events = client::get(Path::new(socket), "/v1/events?follow=false&format=ndjson").ok()?;
        let mut all = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.find(|event| event["event"] == kind && event["phase"] == phase)
    })
}

fn port(n: usize, name: &str, more: &str) -> String {
    format!(
        "[[port]]\nname = {name:?}\ndevice = \"net_af_packet{n},iface=w{n}\"\nvlan = {{ access = 10 }}\n{more}"
    )
}

const SWITCH: &str = "[buffer]\nsize = \"8MiB\"\nframes = 8192\n";
const DEFAULTS: &str = "[port_defaults]\nrate = \"1G\"\nmtu = 1518\n";

/// A Linux bridge asks: hosts of the switch and of the bridge hear what they have joined, and nobody else does. When it is gone all is
/// flooded.
#[test]
fn a_linux_bridge_asks_and_groups_go_where_they_are_joined() {
    need!(tools(&["tcpdump", "bridge"]));
    let ns = need!(Namespace::new());
    let [source, one, other] =
        [1, 2, 3].map(|n| host(&ns, &format!("w{}", n - 1), n).expect("one was to be had"));
    let beyond = need!(Namespace::new());
    need!(ns.veth("w3", "x0", 1500));
    let options =
        ["mcast_snooping", "1", "mcast_query_response_interval", "100", "mcast_query_interval", "1000"];
    let more = ["mcast_startup_query_interval", "300", "mcast_last_member_interval", "100"];
    let made = ns
        .command("ip")
        .args(["link", "add", "name", "br0", "type", "bridge"])
        .args(options)
        .args(more)
        .output();
    if !made.as_ref().is_ok_and(|made| made.status.success()) {
        return eprintln!("skipped: no bridge: {made:?}");
    }
    need!(ns.cable("y0", &beyond, HOST, "10.0.0.4/24"));
    run(beyond.command("ip").args(["route", "add", "default", "dev", HOST]));
    run(beyond.command("ethtool").args(["-K", HOST, "tx", "off"]));
    for end in ["x0", "y0"] {
        run(ns.command("ip").args(["link", "set", end, "master", "br0"]));
    }
    let snooping = "[mcast_snooping]\nvlans = 10\nquery_response_interval = \"1s\"\n";
    let ports =
        [port(0, "source", ""), port(1, "one", ""), port(2, "other", ""), port(3, "bridge", "")].concat();
    let mut switch = Switch::start_in(&ns, &format!("{SWITCH}{DEFAULTS}{snooping}{ports}"));
    let path = switch.socket();
    let folder = tempfile::tempdir().unwrap();
    let strangers = Capture::start(&other, HOST, folder.path(), "udp");

    // Nobody asks: what is joined goes to all.
    let joined = join(&one, "239.1.2.3");
    members_are(&path, "239.1.2.3", &["one"]);
    vlan_is(&path, "igmp", &[("querier", "".into()), ("narrowed", false.into())]);
    say(&source, "239.1.2.3", "to all of you");
    hears(&joined, "to all of you");
    wait_for("what is flooded", || has(&strangers, "to all of you").then_some(()));

    // The bridge asks: it hears who has joined, and so do we.
    run(ns.command("ip").args(["link", "set", "br0", "type", "bridge", "mcast_querier", "1"]));
    ns.set("br0", "up");
    vlan_is(
        &path,
        "igmp",
        &[("querier_port", "bridge".into()), ("routers", "bridge".into()), ("narrowed", true.into())],
    );
    assert_eq!(event(&path, "mcast_querier", "up")["port"], "bridge");
    members_are(&path, "239.1.2.3", &["one"]);
    let mdb = || run(ns.command("bridge").args(["mdb", "show", "dev", "br0"]));
    wait_for("what the bridge knows of our hosts", || mdb().contains("port x0 grp 239.1.2.3").then_some(()));
    let far = join(&beyond, "239.1.2.3");
    wait_for("what the bridge knows of its own", || mdb().contains("port y0 grp 239.1.2.3").then_some(()));
    say(&source, "239.1.2.3", "to those who ask");
    hears(&joined, "to those who ask");
    hears(&far, "to those who ask");
    say(&beyond, "239.1.2.3", "from beyond");
    hears(&joined, "from beyond");
    // What nobody has joined goes to the router, and no further.
    let routers = Capture::start(&ns, "x0", folder.path(), "udp");
    say(&source, "239.9.9.9", "to nobody");
    wait_for("what goes to routers", || has(&routers, "to nobody").then_some(()));
    let explained = |group: &str| {
        let asked = ["explain", "--socket", &path, "--port", "source", "--group", group];
        weir(&asked).stdout
    };
    assert!(
        explained("239.1.2.3").contains("joined at one; routers at bridge"),
        "{}",
        explained("239.1.2.3")
    );
    assert!(explained("239.9.9.9").contains("nobody has joined it; routers at bridge"));
    assert!(explained("224.0.0.251").contains("for all"));

    // It is left: the bridge asks once more, and nobody stays.
    drop(joined);
    members_are(&path, "239.1.2.3", &[]);
    say(&source, "239.1.2.3", "to the far one");
    hears(&far, "to the far one");

    // Who asks is gone.
    ns.set("w3", "down");
    vlan_is(&path, "igmp", &[("querier", "".into()), ("routers", "".into()), ("narrowed", false.into())]);
    assert!(event(&path, "mcast_querier", "down")["remedy"].is_string());
    say(&source, "239.9.9.9", "to all again");
    wait_for("what is flooded", || has(&strangers, "to all again").then_some(()));
    for word in ["to those who ask", "from beyond", "to nobody", "to the far one"] {
        assert!(!has(&strangers, word), "{word}");
    }
    drop(switch.stop_with_lost(&["lookup.no_port=", "lookup.port_down=", "egress.port_down="]));
}

/// The switch asks itself, in both versions of IP, and two lcores know the same.
#[test]
fn the_switch_asks_and_hosts_of_two_lcores_hear_each_other() {
    need!(tools(&["tcpdump"]));
    let Some([first, second]) = two_cores() else { return eprintln!("skipped: one core") };
    let ns = need!(Namespace::new());
    let [source, one, other] =
        [1, 2, 3].map(|n| host(&ns, &format!("w{}", n - 1), n).expect("one was to be had"));
    let snooping = "[mcast_snooping]\nvlans = \"*\"\nquerier = true\nquery_interval = \"5s\"\nquery_response_interval = \"1s\"\n\
        port_max_groups = 6\n";
    let lcore = |core: usize| format!("lcore = {core}\n");
    let ports =
        [port(0, "source", &lcore(first)), port(1, "one", &lcore(second)), port(2, "other", &lcore(second))]
            .concat();
    let mut switch = Switch::start_with(
        &ns,
        &format!("--lcores=0@{first},1@{first},2@{second}"),
        &format!("{SWITCH}{DEFAULTS}{snooping}{ports}"),
    );
    let path = switch.socket();
    let folder = tempfile::tempdir().unwrap();
    let strangers = Capture::start(&other, HOST, folder.path(), "udp");
    for protocol in ["igmp", "mld"] {
        vlan_is(
            &path,
            protocol,
            &[("querier", "switch".into()), ("narrowed", true.into()), ("routers", "".into())],
        );
    }
    for group in ["239.1.2.3", "ff15::1:2:3"] {
        let joined = join(&one, group);
        members_are(&path, group, &["one"]);
        let word = format!("to {group}");
        say(&source, group, &word);
        hears(&joined, &word);
        // More than membership lasts, so that it is what is asked for that keeps it.
        let (far, answer) = (join(&source, group), format!("from {group}"));
        members_are(&path, group, &["source", "one"]);
        say(&one, group, &answer);
        hears(&far, &answer);
        drop((joined, far));
        members_are(&path, group, &[]);
        say(&source, group, "to nobody");
        assert!(!has(&strangers, &word) && !has(&strangers, &answer));
    }
    // More groups than a port may have.
    let many: Vec<UdpSocket> = (0..12).map(|n| join(&one, &format!("239.7.7.{n}"))).collect();
    assert_eq!(event(&path, "mcast_limit", "alarm")["port"], "one");
    let of_one = rows(&path, "mdb").iter().filter(|row| row["port"] == "one").count();
    assert!(of_one <= 12, "six of each version: {of_one}");
    drop(many);
    // Frames that nobody should send.
    let raw = Socket::open(&source, HOST);
    let mut bad = plain(Mac([1, 0, 0x5e, 1, 2, 3]), Mac([2, 0, 0, 0, 0, 9]), 60, 1);
    bad[12..38].copy_from_slice(&[
        8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 1, 2, 0xaf, 0xdc, 0, 0, 0, 0, 239, 1, 2, 3, 0x16, 0, 1, 1,
    ]);
    raw.send(&bad);
    wait_for("a frame that is thrown away", || {
        let rows = rows(&path, "mcast_ports");
        let row = rows.iter().find(|row| row["port"] == "source")?;
        (row["malformed"] == 1).then_some(())
    });
    wait_for("frames that nobody receives", || {
        rows(&path, "drops").iter().any(|row| row["reason"] == "lookup.no_receiver").then_some(())
    });
    assert!(!has(&strangers, "to nobody"));
    let summary = switch.stop_with_lost(&["lookup.no_receiver=", "lookup.no_port=", "lookup.port_down="]);
    assert!(summary.port("one", "tx_igmp") > 2);
}
