//! Ports that are switched off and on by `weir apply` while the switch forwards: `admin` of a port, SONiC's `admin_status`.

use crate::support::frames::plain;
use crate::support::namespace::Namespace;
use crate::support::need;
use crate::support::program::{Switch, floating, weir};
use crate::support::tools;
use crate::support::wait_for;
use crate::support::wire::{Capture, Socket};
use serde_json::Value;
use weir_dataplane::types::Mac;

fn config(admin: &str) -> String {
    let port = |n: u8, more: &str| {
        format!("[[port]]\nname = \"p{n}\"\ndevice = \"net_af_packet{n},iface=w{n}\"\n{more}")
    };
    format!(
        "[buffer]\nsize = \"8MiB\"\nframes = 8192\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n{}{}",
        port(0, ""),
        port(1, &format!("admin = {admin:?}\n"))
    )
}

fn mac(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, n])
}

#[test]
fn a_port_is_switched_off_and_on_while_the_switch_forwards() {
    need!(tools(&["tcpdump"]));
    let ns = need!(Namespace::new());
    for i in 0..2 {
        need!(ns.veth(&format!("w{i}"), &format!("h{i}"), 1500));
    }
    let mut switch = Switch::start_in(&ns, &config("up"));
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["h0", "h1"].map(|host| Socket::open(&ns, host));
    let probe = Capture::start(&ns, "h1", folder.path(), "ether proto 0x88b5");
    one.send(&plain(mac(2), mac(1), 100, 1));
    probe.wait(1);
    let socket = switch.socket();
    let ask = |words: &[&str]| -> Value {
        let ended = weir(&[words, &["--json", "--socket", &socket]].concat());
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    };
    let apply = |admin: &str| {
        let next = folder.path().join("next.toml");
        std::fs::write(&next, format!("[eal]\nargs = [{:?}]\n{}", floating(), config(admin))).unwrap();
        let answer = ask(&["apply", next.to_str().unwrap()]);
        assert!(
            answer["changed"].as_array().unwrap().iter().any(|row| row["key"] == "port.p1.admin"),
            "{answer:#}"
        );
    };
    let port = |n: usize| ask(&["show", "ports"])["ports"][n].clone();
    let is = |link: &str, admin: &str| {
        let row = port(1);
        (row["link"] == link && row["admin"] == admin).then_some(())
    };
    wait_for("a port that is up", || is("up", "up"));

    apply("down");
    switch.program().says("port p1: switched off");
    wait_for("a port that is off", || is("down", "down"));
    let status = &ask(&["show", "interfaces", "status", "--port", "p1"])[0]["rows"][0];
    assert_eq!((&status["Oper"], &status["Admin"]), (&"down".into(), &"down".into()), "{status:#}");
    let counters = &ask(&["show", "interfaces", "counters", "--port", "p1"])[0]["rows"][0];
    assert_eq!(counters["STATE"], "X", "{counters:#}");
    // Nothing passes, either way, and each frame is counted by name.
    one.send(&plain(mac(2), mac(1), 100, 2));
    (0..3).for_each(|seed| two.send(&plain(mac(1), mac(2), 100, seed)));
    let dropped = |port: &str, reason: &str| {
        let drops = ask(&["show", "drops"]);
        let rows = drops["drops"].as_array().unwrap().iter();
        rows.filter(|row| row["port"] == port && row["reason"] == reason)
            .find_map(|row| row["frames"].as_u64())
    };
    // The kernel of a host may say something of its own there.
    wait_for("what came all the same", || dropped("p1", "ingress.admin_down").filter(|frames| *frames >= 3));
    wait_for("what nobody can have", || dropped("p0", "lookup.admin_down").filter(|frames| *frames >= 1));
    let explained = ask(&["explain", "--port", "p1", "--to", "p0"]);
    assert_eq!(explained["reason"], "ingress.admin_down", "{explained:#}");
    let explained = ask(&["explain", "--port", "p0", "--to", "p1"]);
    assert_eq!(explained["reason"], "lookup.admin_down", "{explained:#}");
    assert_eq!(explained["down"]["to"], "p1", "{explained:#}");
    assert_eq!(explained["flood"]["kind"], "unknown_unicast", "{explained:#}");
    let long = ask(&["explain", "--port", "p0", "--to", "p1", "--len", "1519"]);
    assert_eq!(long["reason"], "parse.too_long", "{long:#}");

    apply("up");
    switch.program().says("port p1: switched on");
    wait_for("a port that is on again", || is("up", "up"));
    one.send(&plain(mac(2), mac(1), 100, 3));
    let seen = probe.wait(2);
    assert_eq!(seen[1], plain(mac(2), mac(1), 100, 3), "{seen:?}");
    let events = weir(&["show", "events", "--socket", &socket]).stdout;
    for phase in ["admin_down", "admin_up"] {
        let told =
            |line: &&str| line.contains("  link  ") && line.contains(phase) && line.contains("port=p1");
        assert_eq!(events.lines().filter(told).count(), 1, "{phase}: {events}");
    }
    switch.stop();
}

/// From the start, until somebody says otherwise.
#[test]
fn a_port_may_be_off_from_the_start() {
    let mut switch = Switch::start(
        &config("down").replace("net_af_packet0,iface=w0", "ring").replace("net_af_packet1,iface=w1", "ring"),
    );
    switch.program().says("port p1: switched off");
    let socket = switch.socket();
    wait_for("a port that is off", || {
        let shown = weir(&["show", "ports", "--socket", &socket]).stdout;
        let row = shown.lines().find(|line| line.starts_with("p1 "))?.to_owned();
        (row.matches(" down ").count() == 2).then_some(())
    });
    switch.stop();
}
