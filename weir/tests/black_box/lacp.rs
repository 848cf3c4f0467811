//! LACP with Open vSwitch as the other side, in user space: a LAG of two cables, a third one that leads to another system, a cable that is
//! pulled, and a partner that falls silent.

use crate::support::namespace::Namespace;
use crate::support::program::{Running, Switch, weir};
use crate::support::wire::Capture;
use crate::support::{need, run, tools, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use weir_mgmt::client;

/// Open vSwitch in a namespace.
struct Ovs<'a> {
    ns: &'a Namespace,
    folder: TempDir,
    /// The daemon, then its database.
    daemons: Vec<Running>,
}

impl<'a> Ovs<'a> {
    fn start(ns: &'a Namespace) -> Self {
        let mut ovs = Self { ns, folder: tempfile::tempdir().unwrap(), daemons: Vec::new() };
        let database = ovs.path("conf.db");
        run(ovs
            .command("ovsdb-tool")
            .arg("create")
            .arg(&database)
            .arg("/usr/share/openvswitch/vswitch.ovsschema"));
        let remote = format!("--remote=punix:{}", ovs.path("db.sock").display());
        let server = Running::start(ovs.command("ovsdb-server").arg(database).arg(remote));
        wait_for("the database of Open vSwitch", || ovs.path("db.sock").exists().then_some(()));
        run(ovs.vsctl().args(["--no-wait", "init"]));
        let daemon = Running::start(ovs.command("ovs-vswitchd").arg(ovs.socket()).arg("--pidfile"));
        wait_for("the daemon of Open vSwitch", || ovs.path("ovs-vswitchd.pid").exists().then_some(()));
        ovs.daemons = vec![daemon, server];
        ovs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self) -> String {
        format!("unix:{}", self.path("db.sock").display())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.ns.command(program);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, self.folder.path());
        }
        command
    }

    fn vsctl(&self) -> Command {
        let mut command = self.command("ovs-vsctl");
        command.args(["--timeout=30", &format!("--db={}", self.socket())]);
        command
    }

    /// A bridge with a bond of two interfaces, whose hosts are behind `host`.
    fn bond(&self, bridge: &str, bond: &str, interfaces: [&str; 2], host: Option<&str>) {
        let datapath = ["--", "set", "bridge", bridge, "datapath_type=netdev"];
        run(self.vsctl().args(["add-br", bridge]).args(datapath));
        let [one, other] = interfaces;
        let fast = ["--", "set", "port", bond, "other_config:lacp-time=fast"];
        run(self
            .vsctl()
            .args(["add-bond", bridge, bond, one, other, "lacp=active", "bond_mode=balance-tcp"])
            .args(fast));
        if let Some(host) = host {
            run(self.vsctl().args(["add-port", bridge, host]));
        }
    }

    /// What it says of the LACP of a bond.
    fn lacp(&self, bond: &str) -> String {
        run(self.command("ovs-appctl").args(["-t", "ovs-vswitchd", "lacp/show", bond]))
    }

    /// How many members of a bond it may send by.
    fn enabled(&self, bond: &str) -> usize {
        self.lacp(bond).matches("may_enable: true").count()
    }
}

impl Drop for Ovs<'_> {
    fn drop(&mut self) {
        for daemon in self.daemons.drain(..) {
            let _ = daemon.stop(Signal::SIGTERM);
        }
    }
}

/// A port of the switch at `device`, and a LAG of those that begin with `w`.
fn config(lacp: &str) -> String {
    let port = |(n, name): (usize, &&str)| {
        format!("[[port]]\nname = {name:?}\ndevice = \"net_af_packet{n},iface={name}\"\n")
    };
    let ports: String = ["ha", "w0", "w1", "w2"].iter().enumerate().map(port).collect();
    format!(
        "[buffer]\nsize = \"8MiB\"\nframes = 8192\n[port_defaults]\nrate = \"10G\"\nmtu = 1518\n{ports}\
         [[lag]]\nname = \"po1\"\nmembers = [\"w0\", \"w1\", \"w2\"]\n{lacp}"
    )
}

/// The rows of `weir show lag`.
fn rows(socket: &str) -> Vec<Value> {
    let shown = weir(&["show", "lag", "--json", "--socket", socket]).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    shown["lag"].as_array().expect("rows").clone()
}

/// Waits until the members are in these states, for these reasons.
fn members_are(socket: &str, wanted: [(&str, &str); 3]) -> Vec<Value> {
    wait_for(&format!("{wanted:?}"), || {
        let rows = rows(socket);
        let is = |(row, (mux, why)): (&Value, &(&str, &str))| row["mux"] == *mux && row["why"] == *why;
        rows.iter().zip(&wanted).all(is).then_some(rows)
    })
}

fn sent(row: &Value) -> u64 {
    row["tx_packets"]
        .as_str()
        .map_or_else(|| row["tx_packets"].as_u64(), |text| text.parse().ok())
        .expect("a counter")
}

/// Waits until there is such an event at a port.
fn event(socket: &str, port: &str, kind: &str, phase: &str) -> Value {
    wait_for(&format!("{kind} {phase} at {port}"), || {
        let events = client::get(Path::new(socket), "/v1/events?follow=false&format=ndjson").ok()?;
        let mut all = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.find(|event| event["event"] == kind && event["phase"] == phase && event["port"] == port)
    })
}

const UP: (&str, &str) = ("distributing", "");

#[test]
fn a_lag_with_open_vswitch_uses_the_cables_that_lead_there_and_no_others() {
    need!(tools(&[
        "ovs-vswitchd",
        "ovsdb-server",
        "ovsdb-tool",
        "ovs-vsctl",
        "ovs-appctl",
        "iperf3",
        "tcpdump"
    ]));
    if !Path::new("/dev/net/tun").exists() {
        return eprintln!("skipped: no /dev/net/tun, which bridges of Open vSwitch need");
    }
    let (between, one, other) = (need!(Namespace::new()), need!(Namespace::new()), need!(Namespace::new()));
    need!(between.cable("ha", &one, "host0", "10.0.0.1/24"));
    need!(between.cable("hb", &other, "host0", "10.0.0.2/24"));
    for host in [&one, &other] {
        run(host.command("ethtool").args(["-K", "host0", "tx", "off"]));
    }
    for i in 0..3 {
        need!(between.veth(&format!("w{i}"), &format!("o{i}"), 1500));
    }
    need!(between.veth("x0", "o3", 1500));
    let ovs = Ovs::start(&between);
    // The third cable leads to a system of its own.
    ovs.bond("br0", "bond0", ["o0", "o1"], Some("hb"));
    ovs.bond("br1", "bond1", ["o2", "o3"], None);
    let mut switch = Switch::start_in(&between, &config("lacp = \"active\"\nlacp_rate = \"fast\"\n"));
    let socket = switch.socket();
    let folder = tempfile::tempdir().unwrap();
    let wrong = Capture::start(&between, "o2", folder.path(), "not ether proto 0x8809");

    let shown = members_are(&socket, [UP, UP, ("detached", "other_partner")]);
    wait_for("both members at Open vSwitch", || (ovs.enabled("bond0") == 2).then_some(()));
    assert_eq!(ovs.enabled("bond1"), 0, "{}", ovs.lacp("bond1"));
    let says = ovs.lacp("bond0");
    let named =
        |key: &str| says.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap().trim().to_owned();
    assert_eq!(shown[0]["partner_system"], format!("{},{}", named("sys_priority:"), named("sys_id:")));
    assert_eq!(shown[0]["partner_key"].to_string(), named("aggregation key:"));
    assert_eq!(
        (&shown[0]["actor_state"], &shown[0]["partner_state"]),
        (&"ATGSCD--".into(), &"ATGSCD--".into())
    );
    assert!(
        says.contains("partner state: activity timeout aggregation synchronized collecting distributing"),
        "{says}"
    );
    let alarm = event(&socket, "w2", "lacp_wrong_partner", "alarm");
    assert_eq!((&alarm["why"], &alarm["lag_system"]), (&"other_partner".into(), &shown[0]["partner_system"]));
    assert_eq!(event(&socket, "w0", "lacp", "up")["lag"], "po1");

    let transfer = |what: &[&str]| {
        let mut server = Running::start(other.command("iperf3").args(["-s", "-1", "--forceflush"]));
        server.says("Server listening");
        let client =
            Running::start(one.command("iperf3").args(["-c", "10.0.0.2", "--forceflush"]).args(what));
        (server, client)
    };
    let complete = |(server, client): (Running, Running)| {
        for end in [client.ended(), server.ended()] {
            assert_eq!(end.code(), Some(0), "{}{}", end.stdout, end.stderr);
        }
    };
    complete(transfer(&["-P", "16", "-n", "1M", "-l", "4K"]));
    wait_for("frames by both members", || {
        let rows = rows(&socket);
        (sent(&rows[0]) > 20 && sent(&rows[1]) > 20).then_some(())
    });

    // A cable is pulled while data flows: the other one takes all of it.
    let (server, mut client) = transfer(&["-P", "4", "-b", "4M", "-n", "2M"]);
    client.says("connected to");
    between.set("w0", "down");
    complete((server, client));
    let down = ("detached", "link_down");
    let before = sent(&members_are(&socket, [down, UP, ("detached", "other_partner")])[0]);
    complete(transfer(&["-n", "200K"]));
    assert_eq!(sent(&rows(&socket)[0]), before, "a member without a link sends nothing");
    between.set("w0", "up");
    members_are(&socket, [UP, UP, ("detached", "other_partner")]);

    assert!(wrong.stop().is_empty(), "frames went to the wrong system");

    // The partner speaks no more, though the links are up: nothing is sent there.
    run(ovs.vsctl().args(["set", "port", "bond0", "lacp=off"]));
    members_are(&socket, [("detached", "no_partner"), ("detached", "no_partner"), UP]);
    assert_eq!(event(&socket, "w1", "lacp", "down")["port"], "w1");
    drop(ovs);
    // Hosts that speak before the two ends have agreed, and a partner that sends although it speaks no LACP.
    let before = ["lookup.no_port=", "lookup.port_down=", "lookup.lag_inactive="];
    drop(switch.stop_with_lost(&[&before[..], &["egress.port_down=", "ingress.lag_inactive="]].concat()));
}
