//! LAGs: flows are divided, a cable that is pulled takes none with it, and a LAG is one port to all that looks at it.

use crate::support::frames::plain;
use crate::support::namespace::Namespace;
use crate::support::program::{Running, Switch, weir};
use crate::support::wire::{Capture, Socket};
use crate::support::{need, run, tools, wait_for};
use serde_json::Value;
use std::time::Duration;
use weir_dataplane::types::Mac;

/// A port of this name and interface, with more keys.
fn port((i, (name, keys)): (usize, (&str, &str))) -> String {
    format!("[[port]]\nname = \"{name}\"\ndevice = \"net_af_packet{i},iface={name}\"\n{keys}\n")
}

/// A switch with these ports and LAGs.
fn config(ports: &[(&str, &str)], lags: &[[&str; 2]]) -> String {
    let ports: String = ports.iter().copied().enumerate().map(port).collect();
    let lag = |(i, [one, other]): (usize, &[&str; 2])| {
        format!("[[lag]]\nname = \"po{}\"\nmembers = [{one:?}, {other:?}]\nhash = \"l4\"\n", i + 1)
    };
    let lags: String = lags.iter().enumerate().map(lag).collect();
    format!(
        "[buffer]\nsize = \"8MiB\"\nframes = 8192\n[port_defaults]\nrate = \"10G\"\nmtu = 1518\n{ports}{lags}"
    )
}

/// Frames each member has sent.
fn sent(socket: &str) -> Vec<u64> {
    let shown = weir(&["show", "lag", "--json", "--socket", socket]).stdout;
    let lag: Value = serde_json::from_str(&shown).expect("JSON");
    let count = |row: &Value| match &row["tx_packets"] {
        Value::String(text) => text.parse().expect("a counter"),
        number => number.as_u64().expect("a counter"),
    };
    let rows = lag["lag"].as_array().expect("rows").iter();
    rows.filter(|row| row["name"] == "po1").map(count).collect()
}

/// The same when nothing flows any more and the last of it has been published.
fn settled(socket: &str) -> Vec<u64> {
    let mut before = Vec::new();
    wait_for("counters that stand still", || {
        std::thread::sleep(Duration::from_millis(500));
        let now = sent(socket);
        let same = now == before;
        before = now;
        same.then(|| before.clone())
    })
}

/// Two switches in one: VLAN 10 and VLAN 20, with a LAG of two cables between them.
#[test]
fn hosts_behind_a_lag_of_two_switches_keep_their_connections_when_a_cable_is_pulled() {
    need!(tools(&["iperf3"]));
    let (between, one, other) = (need!(Namespace::new()), need!(Namespace::new()), need!(Namespace::new()));
    need!(between.cable("ha", &one, "host0", "10.0.0.1/24"));
    need!(between.cable("hb", &other, "host0", "10.0.0.2/24"));
    for host in [&one, &other] {
        run(host.command("ethtool").args(["-K", "host0", "tx", "off"]));
    }
    for i in 1..=2 {
        need!(between.veth(&format!("a{i}"), &format!("b{i}"), 1500));
    }
    let (ten, twenty) = ("vlan = { access = 10 }", "vlan = { access = 20 }");
    let ports = [("ha", ten), ("a1", ten), ("a2", ten), ("b1", twenty), ("b2", twenty), ("hb", twenty)];
    let mut switch = Switch::start_in(&between, &config(&ports, &[["a1", "a2"], ["b1", "b2"]]));
    let socket = switch.socket();

    let transfer = |what: &[&str]| {
        let mut server = Running::start(other.command("iperf3").args(["-s", "-1", "--forceflush"]));
        server.says("Server listening");
        let client =
            Running::start(one.command("iperf3").args(["-c", "10.0.0.2", "--forceflush"]).args(what));
        (server, client)
    };
    // Sixteen connections: that all of one client fall on one of two cables has a chance of one in 32 768. In blocks of 128 KiB, as
    // iperf3 sends by itself, half of them would not send at all.
    let (server, client) = transfer(&["-P", "16", "-n", "1M", "-l", "4K"]);
    for end in [client.ended(), server.ended()] {
        assert_eq!(end.code(), Some(0), "{}{}", end.stdout, end.stderr);
    }
    let divided = settled(&socket);
    // A connection is 45 of them, if its part is as large as that of others.
    assert!(divided.iter().all(|frames| *frames > 20), "{divided:?}");

    // A cable is pulled while data flows; the other one takes all of it.
    let (server, mut client) = transfer(&["-P", "4", "-b", "4M", "-n", "2M"]);
    client.says("connected to");
    between.set("a1", "down");
    wait_for("the link in `show`", || {
        let shown = weir(&["show", "lag", "--socket", &socket]).stdout;
        shown.lines().any(|line| line.starts_with("a1 ") && line.contains("down")).then_some(())
    });
    for end in [client.ended(), server.ended()] {
        assert_eq!(end.code(), Some(0), "{}{}", end.stdout, end.stderr);
    }
    let before = settled(&socket);
    let (server, client) = transfer(&["-P", "4", "-n", "1M"]);
    for end in [client.ended(), server.ended()] {
        assert_eq!(end.code(), Some(0), "{}{}", end.stdout, end.stderr);
    }
    let after = settled(&socket);
    assert_eq!(after[0], before[0], "a member without a link sends nothing");
    assert!(after[1] > before[1]);
    // What waits at the member whose cable is pulled is lost, too.
    switch.stop_after_hosts_came_and_went();
}

#[test]
fn a_lag_gets_one_copy_and_nothing_of_its_own_and_everything_knows_it_by_name() {
    need!(tools(&["tcpdump"]));
    let ns = need!(Namespace::new());
    for i in 0..3 {
        need!(ns.veth(&format!("w{i}"), &format!("h{i}"), 1500));
    }
    let mut switch = Switch::start_in(&ns, &config(&[("w0", ""), ("w1", ""), ("w2", "")], &[["w1", "w2"]]));
    let folder = tempfile::tempdir().unwrap();
    let captures =
        [0, 1, 2].map(|i| Capture::start(&ns, &format!("h{i}"), folder.path(), "ether proto 0x88b5"));
    let hosts = [0, 1, 2].map(|i| Socket::open(&ns, &format!("h{i}")));
    let (host, partner, everybody) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]), Mac([0xff; 6]));
    let heard = |i: usize, to: Mac| captures[i].seen().iter().filter(|frame| frame[..6] == to.0).count();
    // From the host: one copy to the LAG. From a member: the host hears it, the other member does not.
    hosts[0].send(&plain(everybody, host, 100, 1));
    wait_for("the copy", || (heard(1, everybody) + heard(2, everybody) == 1).then_some(()));
    hosts[1].send(&plain(everybody, partner, 100, 2));
    hosts[2].send(&plain(everybody, partner, 100, 3));
    wait_for("both at the host", || (heard(0, everybody) == 2).then_some(()));
    // The partner was heard on both members and has not moved; frames for it leave by one.
    (0..20).for_each(|seed| hosts[0].send(&plain(partner, host, 100, seed)));
    wait_for("what is for the partner", || (heard(1, partner) + heard(2, partner) == 20).then_some(()));
    assert!([heard(1, partner), heard(2, partner)].contains(&0), "a flow keeps to a member");
    // And what a member hears for a station behind the LAG stays there.
    hosts[2].send(&plain(partner, Mac([2, 0, 0, 0, 0, 3]), 100, 4));
    let socket = switch.socket();
    let ask = |args: &[&str]| weir(&[args, &["--socket", &socket]].concat()).stdout;
    wait_for("the table", || {
        let table = ask(&["show", "fdb"]);
        let of = |mac: &str, port: &str| table.lines().any(|line| line.contains(mac) && line.contains(port));
        let known = of("02:00:00:00:00:02", "po1") && of("02:00:00:00:00:01", "w0") && of("00:00:03", "po1");
        (known && table.contains(" 0 moved")).then_some(())
    });
    for port in ["po1", "w1", "w2"] {
        assert!(ask(&["show", "fdb", "--port", port]).contains("Total number of entries 2"), "{port}");
    }
    let explained = ask(&["explain", "--port", "w0", "--to", "po1"]);
    assert!(explained.contains("is of po1: a hash of the flow"), "{explained}");
    let back = ask(&["explain", "--port", "w1", "--to", "w2"]);
    assert!(back.contains("DROPPED: lookup.same_port"), "{back}");
    // Only the last frame was lost.
    captures.into_iter().for_each(|capture| drop(capture.stop()));
    let summary = switch.stop();
    assert_eq!(summary.all_drops(), ["lookup.same_port=1"]);
}
