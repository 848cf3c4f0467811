//! `weir host`: two processes of traffic hosts with a switch process between them, over shared memory and over
//! the kernel.

use crate::support::namespace::Namespace;
use crate::support::program::{Ended, Running, Switch, WEIR, floating, turn, weir};
use crate::support::{need, run, wait_for};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rate of every link, bits/s: low, so that a machine busy with other things is not the bottleneck.
const RATE: u64 = 100_000_000;

/// A host process: its file, where its results go, and the command that runs it.
pub struct Host {
    summary: PathBuf,
    trace: PathBuf,
    pub program: Running,
}

impl Host {
    /// `rest`: everything of the file but `[eal]` and what of `[host]` all have.
    pub fn start(command: Command, folder: &Path, name: &str, rest: &str) -> Self {
        Self::start_with(command, &[], folder, name, rest)
    }

    /// With more options.
    pub fn start_with(mut command: Command, more: &[&str], folder: &Path, name: &str, rest: &str) -> Self {
        let path = |end: &str| folder.join(format!("{name}.{end}"));
        let eal = format!("--file-prefix=weir-{name}-{}", std::process::id());
        let text = format!(
            "[eal]\nargs = [\"--no-huge\", \"--no-pci\", {:?}, {eal:?}]\n[host]\nrest = \"50us\"\n{rest}",
            floating()
        );
        std::fs::write(path("toml"), text).unwrap();
        let (summary, trace) = (path("json"), path("csv"));
        command.arg("host").arg(path("toml")).args(["--for", "100s", "--summary"]).arg(&summary);
        let program = Running::start(command.arg("--trace").arg(&trace).args(more));
        Self { summary, trace, program }
    }

    /// Waits until it has done what it counts: what it said, and its results.
    pub fn ended(self) -> (Ended, Value, String) {
        let ended = self.program.ended();
        let text = std::fs::read_to_string(&self.summary).unwrap_or_else(|_| panic!("no summary: {ended:?}"));
        let trace = std::fs::read_to_string(&self.trace).unwrap();
        (ended, serde_json::from_str(&text).unwrap(), trace)
    }
}

pub fn port(n: u8, device: &str) -> String {
    format!(
        "[[port]]\nname = \"h{n}\"\ndevice = {device:?}\nrate = {RATE}\nmtu = 1500\n\
         mac = \"02:00:00:00:00:0{n}\"\nip = \"10.0.0.{n}\"\n"
    )
}

pub fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {value:#}"))
}

/// Both passed, and these are their connections in order.
pub fn passed((ended, results, _): &(Ended, Value, String)) -> &[Value] {
    assert_eq!(ended.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("verdict: PASS"), "{}", ended.stdout);
    assert_eq!(results["verdict"], "PASS");
    results["connections"].as_array().unwrap()
}

/// WRITEs one way, SENDs both ways, in two connections with numbers of their own.
const ONE: &str = "[qp_defaults]\npeer_ip = \"10.0.0.2\"\nretries = 50\n\
     [[qp]]\npeer_qpn = 17\nsend_psn = 0xfffff0\nsend = \"write\"\nmessage = \"64KiB\"\nmessages = 60\n\
     [[qp]]\npeer_qpn = 18\nsend = \"send\"\nmessage = 5000\nmessages = 203\nexpect = 40\n";
const OTHER: &str = "[qp_defaults]\npeer_ip = \"10.0.0.1\"\nretries = 50\n\
     [[qp]]\npeer_qpn = 17\nrecv_psn = 0xfffff0\nexpect = 60\n\
     [[qp]]\npeer_qpn = 18\nexpect = 203\nsend = \"send\"\nmessage = 16\nmessages = 40\n";

fn both_directions_arrive(one: Host, other: Host) {
    let (one, other) = (one.ended(), other.ended());
    let (sent, received) = (passed(&one), passed(&other));
    assert_eq!(number(&sent[0], "acknowledged_bytes"), 60 << 16);
    assert_eq!(number(&received[0], "received_bytes"), 60 << 16);
    assert_eq!((number(&sent[1], "acknowledged"), number(&sent[1], "received")), (203, 40));
    assert_eq!(
        (number(&received[1], "received_bytes"), number(&received[1], "acknowledged")),
        (203 * 5000, 40)
    );
}

pub fn memif(folder: &Path, port: u8, role: &str) -> String {
    let socket = folder.join(format!("{port}.sock"));
    // The number is that of the device in its process.
    format!("net_memif{port},role={role},socket={},socket-abstract=no", socket.display())
}

pub fn switch_ports(devices: impl IntoIterator<Item = String>) -> String {
    switch_of("roce-lossless", devices)
}

fn switch_of(preset: &str, devices: impl IntoIterator<Item = String>) -> String {
    let mut config = format!(
        "[qos]\npreset = {preset:?}\n[watchdog]\nenable = false\n[mgmt]\nlisten = \"off\"\nsocket = \"off\"\n\
         [buffer]\nsize = \"32MiB\"\nframes = 16384\n[[buffer.profile]]\nname = \"lossless\"\n\
         xoff = \"6MiB\"\nstatic_th = \"128KiB\"\n[port_defaults]\nrate = {RATE}\nmtu = 1500\n"
    );
    for (i, device) in devices.into_iter().enumerate() {
        config += &format!("[[port]]\nname = \"p{i}\"\ndevice = {device:?}\n");
    }
    config
}

#[test]
fn writes_and_sends_cross_a_switch_over_shared_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let switch = Switch::start(&switch_ports((1..=2).map(|n| memif(path, n, "server"))));
    let host = |n: u8, name: &str, qps: &str| {
        let file = port(n, &memif(path, n, "client")) + qps;
        Host::start(Command::new(WEIR), path, name, &file)
    };
    both_directions_arrive(host(1, "one", ONE), host(2, "other", OTHER));
    switch.stop_after_links_came_up();
}

#[test]
fn two_hosts_into_one_back_off_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let switch = Switch::start(&switch_ports((1..=3).map(|n| memif(path, n, "server"))));
    let qp = |port: u8, to: u8, qpn: u8| {
        format!(
            "[[qp]]\nport = \"h{port}\"\npeer_ip = \"10.0.0.{to}\"\npeer_qpn = {qpn}\nack_timeout = \"1s\"\n\
             retries = 50\n"
        )
    };
    let stream = "send = \"send\"\nmessage = \"64KiB\"\nmessages = 150\n";
    let senders = port(1, &memif(path, 1, "client"))
        + &port(2, &memif(path, 2, "client"))
        + &qp(1, 3, 17)
        + stream
        + &qp(2, 3, 18)
        + stream;
    let receiver = port(3, &memif(path, 3, "client"))
        + &qp(3, 1, 17)
        + "expect = 150\n"
        + &qp(3, 2, 17)
        + "expect = 150\n"
        // Several marked frames come in that time on the slowest machine, too.
        + "[dcqcn]\ncnp_interval = \"5ms\"\n";
    let receiver = Host::start(Command::new(WEIR), path, "receiver", &receiver);
    let senders = Host::start(Command::new(WEIR), path, "senders", &senders).ended();
    let receiver = receiver.ended();
    for sender in passed(&senders) {
        assert!(number(sender, "cnps") > 0, "{sender:#}");
        assert!(number(sender, "lowest_rate_bps") < RATE);
    }
    for received in passed(&receiver) {
        assert_eq!(number(received, "received"), 150);
    }
    let port = &receiver.1["ports"][0];
    assert!(number(port, "rx_ce") > number(port, "tx_cnp"), "several marks are one CNP: {port:#}");
    let (header, rows) = senders.2.split_once('\n').unwrap();
    assert_eq!(header, "host,qpn,time_ns,code,event,rate_bps");
    for host in ["10.0.0.1", "10.0.0.2"] {
        assert!(rows.contains(&format!("{host},17,,,start,{RATE}\n")), "{rows}");
        assert!(rows.lines().any(|row| row.starts_with(host) && row.contains(",000,decrease,")), "{rows}");
    }
    switch.stop_after_links_came_up();
}

#[test]
fn writes_and_sends_cross_a_switch_over_the_kernel() {
    let ns = need!(Namespace::new());
    for n in 1..=2 {
        need!(ns.veth(&format!("w{n}"), &format!("h{n}"), 1500));
    }
    let device = |end: &str, n: u8| format!("net_af_packet{n},iface={end}{n}");
    let switch = Switch::start_in(&ns, &switch_ports((1..=2).map(|n| device("w", n))));
    let folder = tempfile::tempdir().unwrap();
    let host = |n: u8, name: &str, qps: &str| {
        Host::start(ns.command(WEIR), folder.path(), name, &(port(n, &device("h", n)) + qps))
    };
    both_directions_arrive(host(1, "one-k", ONE), host(2, "other-k", OTHER));
    switch.stop_after_links_came_up();
}

/// RC Link through a switch with one of its presets: requests to a reader slower than the link. Two bytes of
/// padding make the header look like that of a RoCE acknowledgement (DEV-06).
fn rc_link_through(preset: &str, format: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // Four lossless groups per port instead of one, each with its headroom.
    let mut config =
        switch_of(preset, (1..=2).map(|n| memif(path, n, "server"))).replace("\"32MiB\"", "\"64MiB\"");
    if format != "standard" {
        for n in 1..=2 {
            config += &format!("[[fdb.static]]\nport = \"p{}\"\nkey = {n}\n", n - 1);
        }
    }
    let switch = Switch::start(&config);
    let host = |n: u8, rclink: &str, qp: &str| {
        let mut file =
            format!("protocol = \"rclink\"\n{}pfc = [\"1-4\"]\n", port(n, &memif(path, n, "client")));
        file += &format!("[rclink]\nformat = {format:?}\nround_trip = \"50ms\"\n{rclink}");
        file += &format!("[rclink.qp_defaults]\npeer_mac = \"02:00:00:00:00:0{}\"\n", 3 - n);
        file +=
            &format!("peer_ip = \"10.0.0.{}\"\nack_timeout = \"2s\"\nretries = 50\nmessage = 1022\n", 3 - n);
        file += &format!("[[rclink.qp]]\npeer_qp = 0\n{qp}");
        Host::start(Command::new(WEIR), path, &format!("{preset}-{n}"), &file)
    };
    let mut slow = host(2, "read_rate = \"20M\"\n", "expect = 5000\n");
    // Lite is not acknowledged: who sends must know that somebody hears.
    slow.program.says("link up");
    // And the switch must have seen the sender's link before answers come back: it looks every 20 ms.
    let fast = host(1, "", "send = true\nstart = \"1s\"\nmessages = 5000\n").ended();
    let slow = slow.ended();
    let (sent, received) = (passed(&fast), passed(&slow));
    assert_eq!(number(&sent[0], "acknowledged"), 5000);
    assert_eq!(
        (number(&received[0], "received"), number(&received[0], "received_bytes")),
        (5000, 5000 * 1022)
    );
    for connection in sent.iter().chain(received) {
        let wrong = ["lost", "out_of_order", "corrupted"].map(|key| number(connection, key));
        assert_eq!(wrong, [0; 3], "{connection:#}");
    }
    let (sender, reader) = (&fast.1["ports"][0], &slow.1["ports"][0]);
    assert!(number(reader, "pfc_tx") > 0, "a full memory pauses the switch: {reader:#}");
    assert_eq!(number(reader, "rx_no_room"), 0);
    assert!(sender["paused_ns"][3].as_u64() > Some(0), "and the switch the sender: {sender:#}");
    assert_eq!(number(sender, "tx_retransmitted"), 0);
    let summary = switch.stop();
    assert_eq!(summary.all_drops(), [""; 0]);
    assert!(summary.port("p1", "pfc_rx") > 0 && summary.port("p0", "pfc_tx") > 0, "{:#}", summary.0);
}

#[test]
fn sw024_rc_link_crosses_a_switch_and_a_slow_reader_loses_nothing() {
    rc_link_through("paxi-standard", "standard");
}

#[test]
fn sw024_rc_link_lite_crosses_a_switch_and_a_slow_reader_loses_nothing() {
    rc_link_through("paxi-lite", "afh_lite");
}

#[test]
fn sw022_all_types_of_rc_link_cross_a_switch_that_knows_nothing_of_credits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // No PFC at all: what keeps the receiver's memory from overflow are credits from end to end.
    let config = switch_of("paxi-standard", (1..=2).map(|n| memif(path, n, "server")))
        .replace("\"32MiB\"", "\"64MiB\"")
        .replace("mtu = 1500\n", "mtu = 1500\nformat = \"afh_gen1\"\npfc = { enable = [] }\n")
        .replace(
            "[[buffer.profile]]",
            "[[buffer.pg]]\npgs = \"1-4\"\nprofile = \"lossy\"\n[[buffer.profile]]",
        );
    let switch = Switch::start(&config);
    let host = |n: u8, rclink: &str, qps: String| {
        let mut file = format!("protocol = \"rclink\"\n{}", port(n, &memif(path, n, "client")));
        file +=
            "[rclink]\nformat = \"afh_gen1\"\nflow_control = \"cbfc\"\ncredits = 500\ncredit_report = 7\n";
        Host::start(Command::new(WEIR), path, &format!("types-{n}"), &(file + rclink + &qps))
    };
    let qp = |kind: &str, peer: &str, rest: &str| {
        format!(
            "[[rclink.qp]]\ntype = \"{kind}\"\npeer_mac = \"{peer}\"\nack_timeout = \"2s\"\nretries = 50\n{rest}"
        )
    };
    let (one, other, group) = ("02:00:00:00:00:01", "02:00:00:00:00:02", "03:00:00:00:00:77");
    let expect = |n: u32| format!("expect = {n}\n");
    let mut reader = host(
        2,
        "read_rate = \"40M\"\n",
        [
            qp("type1", one, &format!("peer_qp = 0\n{}", expect(2000))),
            qp("type2", one, &expect(100)),
            qp("type3", one, &expect(100)),
        ]
        .concat(),
    );
    reader.program.says("link up");
    let send = |n: u32| format!("send = true\nstart = \"1s\"\nmessages = {n}\nrate = \"20M\"\n");
    let sender = host(
        1,
        "",
        [
            qp("type1", other, &format!("peer_qp = 0\n{}", send(2000).replace("20M", "100M"))),
            qp("type2", group, &send(100)),
            qp("type3", other, &send(100)),
        ]
        .concat(),
    )
    .ended();
    let reader = reader.ended();
    let (sent, received) = (passed(&sender), passed(&reader));
    assert_eq!(sent.len(), 3);
    for (at, messages) in [2000, 100, 100].into_iter().enumerate() {
        assert_eq!(number(&sent[at], "acknowledged"), messages);
        assert_eq!((number(&received[at], "received"), number(&received[at], "lost")), (messages, 0));
    }
    assert_eq!((number(&received[1], "multicast"), number(&received[2], "raw")), (0, 0));
    let port = &reader.1["ports"][0];
    assert!(number(port, "tx_credit") > 0 && number(port, "pfc_tx") == 0, "{port:#}");
    assert_eq!((number(port, "rx_no_room"), number(port, "rx_other")), (0, 0));
    assert_eq!(switch.stop().all_drops(), [""; 0]);
}

#[test]
fn ipv6_hosts_and_firmware_that_writes_the_rate() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let switch = Switch::start(&switch_ports((1..=2).map(|n| memif(path, n, "server"))));
    let host = |n: u8, name: &str, rest: &str| {
        let file = port(n, &memif(path, n, "client")).replace("10.0.0.", "fd00::")
            + "[dcqcn]\nscheme = \"firmware_rate\"\n[[qp]]\npeer_qpn = 17\nretries = 50\n"
            + &format!("peer_ip = \"fd00::{0}\"\npeer_mac = \"02:00:00:00:00:0{0}\"\n{rest}", 3 - n);
        Host::start(Command::new(WEIR), path, name, &file)
    };
    let other = host(2, "six-b", "expect = 50\n");
    let one = host(1, "six-a", "send = \"write\"\nmessages = 50\n").ended();
    let other = other.ended();
    assert_eq!(number(&passed(&one)[0], "acknowledged"), 50);
    assert_eq!(number(&passed(&other)[0], "received_bytes"), 50 << 16);
    assert_eq!(passed(&one)[0]["peer_ip"], "fd00::2");
    assert!(one.2.contains("fd00::1,17,,,start,100000000\n"), "{}", one.2);
    switch.stop_after_links_came_up();
}

/// An interface that takes less than before loses frames without a word: the host says what to type, counts them, and sends them again.
#[test]
fn what_the_mtu_of_an_interface_loses_is_counted_by_a_host() {
    let ns = need!(Namespace::new());
    need!(ns.veth("h1", "h2", 1500));
    let turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let host = |n: u8, name: &str, qps: &str| {
        let device = format!("net_af_packet{n},iface=h{n}");
        Host::start(ns.command(WEIR), folder.path(), name, &(port(n, &device) + qps))
    };
    let sends =
        "[[qp]]\npeer_ip = \"10.0.0.2\"\npeer_qpn = 17\nretries = 200\nsend = \"send\"\nmessage = 5000\n";
    let takes = "[[qp]]\npeer_ip = \"10.0.0.1\"\npeer_qpn = 17\n";
    let (mut one, mut other) = (host(1, "one-m", sends), host(2, "other-m", takes));
    for host in [&mut one, &mut other] {
        host.program.says("port h");
    }
    let mtu = |mtu: &str| run(ns.command("ip").args(["link", "set", "h1", "mtu", mtu]));
    wait_for("frames", || (ns.counts("h2").rx_packets > 1000).then_some(()));
    mtu("600");
    one.program.says("-> ip link set h1 mtu 1482, or mtu = 618");
    // What is lost meanwhile is looked for again and again.
    let tried = ns.counts("h2").rx_packets;
    std::thread::sleep(std::time::Duration::from_millis(200));
    mtu("1500");
    one.program.says("port h1: interface h1 takes all frames of the port again");
    wait_for("frames again", || (ns.counts("h2").rx_packets > tried + 1000).then_some(()));
    let mut ends = Vec::new();
    for host in [one, other] {
        host.program.signal(nix::sys::signal::Signal::SIGINT);
        ends.push(host.ended());
    }
    let lost = |end: &(Ended, Value, String)| number(&end.1["ports"][0], "nic_tx_errors");
    assert_eq!(passed(&ends[0]).len(), 1);
    assert!(lost(&ends[0]) > 0 && ends[0].0.stdout.contains("lost by its device or for its interface's MTU"));
    assert_eq!(lost(&ends[1]), 0);
    drop(turn);
}

#[test]
fn a_host_without_a_peer_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = port(1, &memif(folder.path(), 1, "server")) + ONE;
    let mut host = Host::start(Command::new(WEIR), folder.path(), "alone", &file);
    host.program.says("connection 18 to 10.0.0.2 18");
    host.program.signal(nix::sys::signal::Signal::SIGINT);
    let (ended, results, _) = host.ended();
    assert_eq!(ended.code(), Some(1), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("10.0.0.2 never answered"), "{}", ended.stdout);
    assert_eq!(results["verdict"], "FAIL");
}

#[test]
fn a_file_with_errors_shows_all_of_them_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    let text = port(1, "ring") + "[[qp]]\npeer_ip = \"10.0.0.1\"\nsned = \"write\"\n";
    std::fs::write(&file, text).unwrap();
    let ended = weir(&["host".as_ref(), file.as_os_str()]);
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    for word in [
        "error[port.device]",
        "error[qp.peer]",
        "error[unknown_key]",
        "did you mean `send`?",
        "error[required]",
    ] {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
    assert!(ended.stderr.contains("^^^^"), "{}", ended.stderr);
}
