//! Storm control: broadcasts above the limit of a port are lost by name, and everything says so.

use crate::support::frames::plain;
use crate::support::namespace::Namespace;
use crate::support::program::{Switch, floating, weir};
use crate::support::wire::{Capture, Socket};
use crate::support::{need, tools, wait_for};
use std::path::Path;
use weir_dataplane::types::Mac;

const PORTS: &str = "[buffer]\nsize = \"8MiB\"\nframes = 8192\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n\
    [[port]]\nname = \"p1\"\ndevice = \"net_af_packet1,iface=w1\"\n\
    [[port]]\nname = \"p0\"\ndevice = \"net_af_packet0,iface=w0\"\n";

/// One frame in eleven minutes: however slow the machine is, there is one.
const LIMIT: &str = "storm_control = { broadcast = \"1bps\", burst = \"1ns\" }\n";

#[test]
fn broadcasts_above_the_limit_are_lost_by_name_and_everything_says_so() {
    need!(tools(&["tcpdump"]));
    let ns = need!(Namespace::new());
    for i in 0..2 {
        need!(ns.veth(&format!("w{i}"), &format!("h{i}"), 1500));
    }
    let mut switch = Switch::start_in(&ns, &format!("{PORTS}{LIMIT}"));
    let folder = tempfile::tempdir().unwrap();
    let capture = Capture::start(&ns, "h1", folder.path(), "ether proto 0x88b5");
    let socket = Socket::open(&ns, "h0");
    let station = Mac([2, 0, 0, 0, 0, 9]);
    let send = |to: Mac, frames: u32| {
        (0..frames).for_each(|seed| socket.send(&plain(to, station, 60, seed)));
    };
    let (everybody, nobody, group) = (Mac([0xff; 6]), Mac([2, 0, 0, 0, 0, 7]), Mac([1, 0, 0x5e, 0, 0, 9]));
    send(everybody, 30);
    send(nobody, 20);
    send(group, 20);
    let seen = |to: Mac| capture.seen().iter().filter(|frame| frame[..6] == to.0).count();
    wait_for("what has no limit", || ([nobody, group].map(seen) == [20, 20]).then_some(()));
    assert_eq!(seen(everybody), 1);

    let path = switch.socket();
    wait_for("the limit in `show`", || {
        let shown = weir(&["show", "storm_control", "--socket", &path]).stdout;
        let row: Vec<&str> = shown.lines().last().unwrap_or_default().split_whitespace().collect();
        (row == ["p0", "broadcast", "1bit/s", "1", "yes", "29"]).then_some(())
    });
    let events =
        || weir_mgmt::client::get(Path::new(&path), "/v1/events?follow=false&format=ndjson").unwrap();
    wait_for("the events", || {
        let told = |phase: &str| {
            let all = events();
            let of = |line: &&str| line.contains("\"rate_limit\"") && line.contains(phase);
            all.lines().find(of).is_some_and(|line| line.contains("\"frames\":29"))
        };
        (told("\"start\"") && told("\"end\"")).then_some(())
    });
    let explained = weir(&["explain", "--socket", &path, "--port", "p0", "--flood", "broadcast"]).stdout;
    assert!(explained.contains("at most 1bit/s, which is exceeded now"), "{explained}");
    assert!(explained.contains("DROPPED: ingress.broadcast_limit"), "{explained}");
    let metrics = weir_mgmt::client::get(Path::new(&path), "/metrics").unwrap();
    let counted = |line: &&str| line.contains("reason=\"broadcast_limit\"") && line.ends_with(" 29");
    assert!(metrics.lines().any(|line| counted(&line)), "{metrics}");

    // Without the limit they pass again, and nothing was stopped for that.
    let next = folder.path().join("next.toml");
    std::fs::write(&next, format!("[eal]\nargs = [{:?}]\n{PORTS}", floating())).unwrap();
    let applied = weir(&["apply", next.to_str().unwrap(), "--socket", &path]);
    assert_eq!(applied.code(), Some(0), "{}{}", applied.stdout, applied.stderr);
    send(everybody, 10);
    wait_for("broadcasts without a limit", || (seen(everybody) == 11).then_some(()));
    drop(capture);
    assert_eq!(switch.stop().all_drops(), ["ingress.broadcast_limit=29"]);
}
