//! Ordinary hosts of the kernel behind `configs/af-packet.toml`, with all the offloads a veth pair has by default.

use crate::support::frames::{plain, tagged};
use crate::support::namespace::Namespace;
use crate::support::program::{Running, Switch, WEIR, floating, turn, weir};
use crate::support::wire::Socket;
use crate::support::{need, run, tools, wait_for};
use nix::sys::signal::Signal;
use std::path::Path;
use std::process::Stdio;
use weir_dataplane::types::Mac;

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

/// Each would forward every frame. Another namespace has interfaces of its own, of the same names.
#[test]
fn a_second_switch_on_an_interface_is_refused() {
    let (hosts, others) = (need!(hosts()), need!(hosts()));
    let mut switch = Switch::shipped_in(&hosts.between, "af-packet.toml");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/af-packet.toml");
    let second = |namespace: &Namespace| {
        let mut command = namespace.command(WEIR);
        command.args([&floating(), &format!("--file-prefix=weir-second-{}", std::process::id()), "--"]);
        Running::start(command.arg("run").arg(&file).args(["--for", "100ms"])).ended()
    };
    let refused = second(&hosts.between);
    let said = format!("process {}, a weir too, takes the frames of interface veth0", switch.program().id());
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains(&said), "{said}: {}", refused.stderr);
    let elsewhere = second(&others.between);
    assert_eq!(elsewhere.code(), Some(0), "{elsewhere:?}");
    switch.stop_after_hosts_came_and_went();
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

/// The MTU of an interface shrinks while frames pass: what it does not take any more is said, and counted.
#[test]
fn an_interface_that_takes_less_than_before_loses_nothing_without_a_word() {
    let between = need!(Namespace::new());
    need!(between.veth("s0", "h0", 9000).and_then(|()| between.veth("s1", "h1", 9000)));
    let port = |n: u8| {
        format!(
            "[[port]]\nname = \"s{n}\"\ndevice = \"net_af_packet{n},iface=s{n}\"\nrate = \"1G\"\nmtu = 9018\n"
        )
    };
    let config = format!(
        "[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"32MiB\"\nframes = 8192\n{}{}",
        port(0),
        port(1)
    );
    let mut switch = Switch::start_in(&between, &config);
    let socket = switch.socket();
    let (one, other) = (Socket::open(&between, "h0"), Socket::open(&between, "h1"));
    let [src, dst] = [1, 2].map(|n| Mac([2, 0, 0, 0, 0, n]));
    let shown = || -> serde_json::Value {
        let shown = weir(&["show", "ports", "--json", "--socket", &socket]).stdout;
        serde_json::from_str::<serde_json::Value>(&shown).unwrap()["ports"][1].clone()
    };
    let send = |frames: &[Vec<u8>]| frames.iter().for_each(|frame| one.send(frame));
    let mut buffer = vec![0; 16 << 10];
    let mut comes = |bytes: usize| {
        wait_for("a frame", || {
            other.receive(&mut buffer).filter(|frame| frame.len() == bytes && frame[..6] == dst.0).map(|_| ())
        });
    };
    send(&[plain(dst, src, 8990, 0)]);
    comes(8990);
    run(between.command("ip").args(["link", "set", "s1", "mtu", "1500"]));
    switch.program().says("-> ip link set s1 mtu 9000, or mtu = 1518");
    let tag = |frame| tagged(frame, &[(0x8100, 3 << 13)]);
    // Those of 1515 bytes and more are lost, but for a tag.
    let frames: Vec<_> = [1400, 3000, 8990, 1515, 1514].map(|bytes| plain(dst, src, bytes, 0)).into();
    send(&frames);
    comes(1400);
    send(&[tag(plain(dst, src, 1514, 0)), tag(plain(dst, src, 1515, 0)), plain(dst, src, 200, 0)]);
    comes(200);
    let counts = |key: &str, frames: u64| {
        wait_for(key, || (shown()[key].as_u64() == Some(frames)).then_some(()));
    };
    counts("nic_tx_errors", 4);
    counts("lossless_drops_possible", 4);
    let events = || weir(&["show", "events", "--socket", &socket]).stdout;
    let alarms = || events().lines().filter(|line| line.contains("interface_mtu")).count();
    assert_eq!(alarms(), 1, "{}", events());
    assert!(events().lines().any(|line| line.contains("nic.tx")), "{}", events());
    run(between.command("ip").args(["link", "set", "s1", "mtu", "9000"]));
    switch.program().says("interface s1 takes all frames of the port again");
    send(&[plain(dst, src, 8990, 0)]);
    comes(8990);
    wait_for("the end of the alarm", || (alarms() == 2).then_some(()));
    counts("nic_tx_errors", 4);
    assert_eq!(switch.stop().port("s1", "lossless_drops_possible"), 4);
}

/// DPDK's driver makes the number of a group of sockets of those of its process and its interface, and another process may have that
/// group on another interface: as four switches do that are started together.
#[test]
fn an_interface_is_had_where_another_process_has_the_group_of_its_sockets() {
    need!(tools(&["python3"]));
    let between = need!(Namespace::new());
    need!(between.veth("s0", "h0", 1500));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("switch.toml");
    let port = "[[port]]\nname = \"s0\"\ndevice = \"net_af_packet0,iface=s0\"\nrate = \"1G\"\nmtu = 1518\n";
    let config =
        format!("[eal]\nargs = [{:?}]\n[mgmt]\nlisten = \"off\"\nsocket = \"off\"\n{port}", floating());
    std::fs::write(&file, config).unwrap();
    let _turn = turn();
    // It says which process it is before it becomes a switch.
    let mut command = between.command("sh");
    command.args(["-c", "echo process $$; read go; exec \"$0\" run \"$1\"", WEIR]).arg(&file);
    let mut switch = Running::start(command.stdin(Stdio::piped()));
    switch.says("process ");
    let process = switch.stdout().trim().trim_start_matches("process ").to_owned();
    // A group of its number, and those of the next processes, on the other end.
    const HOLD: &str = "import socket, struct, sys\n\
                        index, held = socket.if_nametoindex('s0'), []\n\
                        for process in range(int(sys.argv[1]), int(sys.argv[1]) + 6):\n\
                        \x20   one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))\n\
                        \x20   one.bind(('h0', 3))\n\
                        \x20   one.setsockopt(263, 18, struct.pack('I', (process ^ index) & 0xffff | 0x9000 << 16))\n\
                        \x20   held.append(one)\n\
                        print('held', flush=True)\n\
                        sys.stdin.read()\n";
    let mut holder =
        Running::start(between.command("python3").args(["-c", HOLD, &process]).stdin(Stdio::piped()));
    holder.says("held");
    switch.tell("go");
    switch.says("port s0: link up");
    let ended = switch.stop(Signal::SIGINT);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(!ended.stderr.contains("FANOUT"), "{}", ended.stderr);
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
