//! VLAN membership: hosts of the kernel behind access ports, frames with tags on a trunk.

use crate::support::frames::tagged;
use crate::support::namespace::Namespace;
use crate::support::program::{Switch, weir};
use crate::support::wire::{Capture, Socket};
use crate::support::{need, run, tools};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const SWITCH: &str = "[buffer]\nsize = \"8MiB\"\nframes = 8192\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n\
    [[port]]\nname = \"one\"\ndevice = \"net_af_packet0,iface=w0\"\nvlan = { access = 10 }\n\
    [[port]]\nname = \"other\"\ndevice = \"net_af_packet1,iface=w1\"\nvlan = { access = 10 }\n\
    [[port]]\nname = \"third\"\ndevice = \"net_af_packet2,iface=w2\"\nvlan = { access = 20 }\n\
    [[port]]\nname = \"trunk\"\ndevice = \"net_af_packet3,iface=w3\"\nvlan = { trunk = \"10,20\" }\n";

/// Behind the trunk.
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// Who has 10.0.0.`n`? asks 10.0.0.9.
fn who_has(n: u8) -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &STATION, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &STATION].concat();
    frame.extend([10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, n]);
    frame.resize(60, 0);
    frame
}

/// VLAN id and sender of an answer to that, with its tag.
fn answer(frame: &[u8]) -> Option<(u16, u8)> {
    let to_us = frame.get(..6)? == STATION && frame.get(12..14)? == [0x81, 0];
    (to_us && frame.get(16..18)? == [8, 6] && frame.get(24..26)? == [0, 2])
        .then(|| (u16::from(frame[14] & 15) << 8 | u16::from(frame[15]), frame[35]))
}

#[test]
fn hosts_of_a_vlan_hear_each_other_and_no_others() {
    need!(tools(&["tcpdump"]));
    let ns = need!(Namespace::new());
    let hosts: Vec<Namespace> = (0..3).map(|_| Namespace::new().expect("one was to be had")).collect();
    for (n, host) in hosts.iter().enumerate() {
        need!(ns.cable(&format!("w{n}"), host, "host0", &format!("10.0.0.{}/24", n + 1)));
        run(host.command("ethtool").args(["-K", "host0", "tx", "off"]));
    }
    need!(ns.veth("w3", "h3", 1600));
    let mut switch = Switch::start_in(&ns, SWITCH);
    let folder = tempfile::tempdir().unwrap();
    let (trunk, socket) = (Capture::start(&ns, "h3", folder.path(), ""), Socket::open(&ns, "h3"));
    let third = Capture::start(&hosts[2], "host0", folder.path(), "");

    // Two hosts of VLAN 10 over TCP.
    let sent: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    let listener = hosts[1].enter(|| TcpListener::bind("10.0.0.2:7000").unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = hosts[0].enter(|| TcpStream::connect("10.0.0.2:7000").unwrap());
            stream.write_all(&sent).unwrap();
        });
        let mut heard = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut heard).unwrap();
        assert!(heard == sent);
    });

    // Every host is asked in both VLANs, and each answers in its own.
    let ask = |vid: u16, n: u8| socket.send(&tagged(who_has(n), &[(0x8100, 5 << 13 | vid)]));
    for (vid, n) in [(20, 1), (10, 1), (20, 2), (10, 2), (10, 3), (20, 3)] {
        ask(vid, n);
    }
    socket.send(&who_has(1));
    ask(0, 1);
    ask(30, 1);
    ask(4095, 1);
    ask(20, 3);
    let answers = || trunk.seen().iter().filter_map(|frame| answer(frame)).collect::<Vec<_>>();
    crate::support::wait_for("the last answer", || (answers().len() >= 4).then_some(()));
    let mut seen = answers();
    seen.sort_unstable();
    assert_eq!(seen, [(10, 1), (10, 2), (20, 3), (20, 3)]);

    let path = switch.socket();
    let path = path.as_str();
    crate::support::wait_for("the memberships, and what they have kept away", || {
        let shown = weir(&["show", "vlans", "--socket", path]).stdout;
        let row = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        let rows: Vec<Vec<String>> = shown.lines().skip(2).map(row).collect();
        (rows[0] == ["one", "access", "10", "0"] && rows[3] == ["trunk", "trunk", "N/A", "10,20", "4"])
            .then_some(())
    });
    let explained = |more: &[&str]| {
        let asked = [&["explain", "--socket", path, "--port", "one", "--len", "1518"], more].concat();
        weir(&asked).stdout
    };
    assert!(explained(&["--to", "other"]).contains("10, tag unchanged"));
    assert!(explained(&["--to", "trunk"]).contains("DROPPED: vlan.too_long"));
    assert!(explained(&["--to", "third"]).contains("DROPPED: vlan.egress_filtered"));
    assert!(explained(&["--vid", "20"]).contains("DROPPED: vlan.ingress_filtered"));

    let summary = switch.stop();
    assert_eq!(summary.all_drops(), ["vlan.ingress_filtered=1", "vlan.reserved_vid=1", "vlan.untagged=2"]);
    for frame in third.stop() {
        assert_ne!(frame[12..14], [0x81, 0], "a tag at an access port");
        assert!(frame[6..12] == STATION || frame[6..12] == hosts[2].mac("host0"), "a stranger: {frame:x?}");
    }
    // All of VLAN 10 that was flooded has been here, with its tag.
    assert!(trunk.stop().iter().all(|frame| frame[12..14] == [0x81, 0] || frame[6..12] == STATION));
}
