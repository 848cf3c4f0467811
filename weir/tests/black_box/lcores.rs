//! Two workers with a port each: every frame comes in on one lcore and leaves by a port of the other.

use crate::support::frames::{plain, read_pcap, write_pcap};
use crate::support::namespace::Namespace;
use crate::support::program::{Running, Summary, Switch, WEIR, turn, two_cores, weir};
use crate::support::wire::{Capture, Socket};
use crate::support::{need, tools, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Command;
use weir_dataplane::types::Mac;

const FRAMES: usize = 3000;

/// Frames of all lengths from one station to the other: what each transmit queue of the two ports wrote down. `None`:
/// there is one core.
fn two_workers(tx_queues: usize) -> Option<[Vec<Vec<Vec<u8>>>; 2]> {
    let Some(cores) = two_cores() else {
        eprintln!("skipped: one core is not enough for two workers");
        return None;
    };
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let station = |n: usize| Mac([2, 0, 0, 0, 0, n as u8]);
    // All frames find room, even if one of the workers is kept from its core.
    let mut text = String::from(
        "[buffer]\nsize = \"32MiB\"\nframes = 16384\n[port_defaults]\nrate = \"unlimited\"\nmtu = 1518\n",
    );
    for (port, core) in cores.into_iter().enumerate() {
        let frames: Vec<_> =
            (0..FRAMES).map(|n| plain(station(1 - port), station(port), 60 + n % 1000, n as u32)).collect();
        write_pcap(&file(&format!("in{port}.pcap")), &frames, 0);
        let queues: String = (0..tx_queues)
            .map(|queue| format!(",tx_pcap={}", file(&format!("out{port}{queue}.pcap")).display()))
            .collect();
        text += &format!(
            "[[port]]\nname = \"p{port}\"\nlcore = {}\ndevice = \"net_pcap{port},rx_pcap={}{queues}\"\n\
             [[fdb.static]]\nmac = \"{}\"\nport = \"p{port}\"\n",
            core,
            file(&format!("in{port}.pcap")).display(),
            station(port),
        );
    }
    std::fs::write(file("switch.toml"), text).unwrap();
    // What the outputs of a port have when all frames have left by it: a header for the file and for each frame. A file that
    // nothing was written to may have none yet.
    let all = 24 + (0..FRAMES).map(|n| 16 + 60 + n % 1000).sum::<usize>();
    let written = |port: usize| -> u64 {
        let files = (0..tx_queues).map(|queue| file(&format!("out{port}{queue}.pcap")));
        files.filter_map(|path| std::fs::metadata(path).ok()).map(|meta| meta.len()).sum()
    };
    let lcores = format!("--lcores=0@{0},1@{0},2@{1}", cores[0], cores[1]);
    let mut command = Command::new(WEIR);
    command.args([&lcores, "--", "run"]).arg(file("switch.toml")).arg("--summary");
    let program = Running::start(command.arg(file("summary.json")));
    wait_for("all frames", || (written(0).min(written(1)) >= all as u64).then_some(()));
    let ended = program.stop(Signal::SIGINT);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let summary = Summary::read(&file("summary.json"));
    summary.is_conserved();
    assert_eq!((summary.total("transmitted"), summary.total("dropped")), (2 * FRAMES as u64, 0));
    let sent = |port: usize, queue: usize| read_pcap(&file(&format!("out{port}{queue}.pcap")));
    Some([0, 1].map(|port| (0..tx_queues).map(|queue| sent(port, queue)).collect()))
}

fn assert_all_in_order(frames: &[Vec<u8>], port: usize) {
    let station = |n: usize| Mac([2, 0, 0, 0, 0, n as u8]);
    let sent = |n: usize| plain(station(port), station(1 - port), 60 + n % 1000, n as u32);
    assert_eq!(frames.len(), FRAMES);
    assert!(frames.iter().enumerate().all(|(n, frame)| *frame == sent(n)), "order and content");
}

#[test]
fn who_received_a_frame_sends_it_where_each_lcore_has_a_transmit_queue() {
    for (port, queues) in two_workers(2).iter().flatten().enumerate() {
        assert!(queues[0].is_empty(), "the owner of the port sends nothing itself");
        assert_all_in_order(&queues[1], port);
    }
}

#[test]
fn the_owner_of_a_port_sends_where_there_is_one_transmit_queue() {
    for (port, queues) in two_workers(1).iter().flatten().enumerate() {
        assert_all_in_order(&queues[0], port);
    }
}

/// LAG, mirror and storm control with ports of two lcores each: members that two lcores serve are one port, what one lcore receives is
/// copied to a port of the other, and a limit is kept by the lcore that receives.
#[test]
fn lags_mirrors_and_limits_reach_across_lcores() {
    need!(tools(&["tcpdump"]));
    let Some([one, other]) = two_cores() else {
        eprintln!("skipped: one core is not enough for two workers");
        return;
    };
    let ns = need!(Namespace::new());
    for i in 0..4 {
        need!(ns.veth(&format!("w{i}"), &format!("h{i}"), 1500));
    }
    let port = |i: usize, name: &str, lcore: usize, more: &str| {
        format!(
            "[[port]]\nname = \"{name}\"\ndevice = \"net_af_packet{i},iface=w{i}\"\nlcore = {lcore}\n{more}\n"
        )
    };
    let limit = "storm_control = { broadcast = \"1bps\", burst = \"1ns\" }";
    let config = format!(
        // Copies of all that is sent at once find room.
        "[buffer]\nsize = \"8MiB\"\nframes = 8192\nmirror_bytes = \"1MiB\"\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n{}{}{}{}\
         [[lag]]\nname = \"po1\"\nmembers = [\"m1\", \"m2\"]\nhash = \"l2\"\n\
         [[mirror]]\nname = \"look\"\nports = \"host\"\nto = \"probe\"\nfilter = {{ ethertype = 0x88b5 }}\n\
         [[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"host\"\n",
        port(0, "host", one, limit),
        port(1, "m1", one, ""),
        port(2, "m2", other, ""),
        port(3, "probe", other, ""),
    );
    let lcores = format!("--lcores=0@{one},1@{one},2@{other}");
    let mut switch = Switch::start_with(&ns, &lcores, &config);
    let socket = switch.socket();
    let folder = tempfile::tempdir().unwrap();
    let captures = [1, 2, 3].map(|i| Capture::start(&ns, &format!("h{i}"), folder.path(), ""));
    let sockets = [0, 1, 2].map(|i| Socket::open(&ns, &format!("h{i}")));
    let (host, station) = (Mac([2, 0, 0, 0, 0, 1]), |n: u8| Mac([2, 0, 0, 0, 1, n]));
    const STATIONS: u8 = 16;
    // Each station behind the LAG is heard on a member, half of them on that of the other lcore.
    let hello = |n: u8| plain(host, station(n), 100, u32::from(n));
    (0..STATIONS).for_each(|n| sockets[1 + usize::from(n % 2)].send(&hello(n)));
    captures[2].wait(STATIONS.into());
    // Before each lcore knows all of them, frames for some are flooded.
    wait_for("all stations in both tables", || {
        let table: Value =
            serde_json::from_str(&weir(&["show", "fdb", "--json", "--socket", &socket]).stdout).ok()?;
        let all = |worker: &Value| worker["entries"].as_u64() >= Some(u64::from(STATIONS) + 1);
        table["workers"].as_array()?.iter().all(all).then_some(())
    });
    let answer = |n: u8, seed: u8| plain(station(n), host, 200, u32::from(n) << 8 | u32::from(seed));
    (0..STATIONS).for_each(|n| (0..10).for_each(|seed| sockets[0].send(&answer(n, seed))));
    let seen = |i: usize, kind: u8| {
        captures[i].seen().into_iter().filter(|frame| frame[12..14] == [0x88, kind]).collect::<Vec<_>>()
    };
    let members = || [0, 1].map(|i| seen(i, 0xb5));
    wait_for("what is for the stations", || (members().concat().len() == 160).then_some(()));
    for frames in members() {
        assert!(!frames.is_empty(), "both members carry some");
        let whole = (0..STATIONS).filter(|n| frames.iter().any(|frame| frame[..6] == station(*n).0));
        for n in whole {
            let got: Vec<_> = frames.iter().filter(|frame| frame[..6] == station(n).0).cloned().collect();
            let want: Vec<_> = (0..10).map(|seed| answer(n, seed)).collect();
            assert_eq!(got, want, "a flow keeps to a member, in order");
        }
    }
    let copies = wait_for("a copy of each", || Some(seen(2, 0xb5)).filter(|all| all.len() == 176));
    for frame in (0..STATIONS).map(hello).chain((0..STATIONS).map(|n| answer(n, 9))) {
        assert!(copies.contains(&frame), "{frame:02x?}");
    }
    // Thirty broadcasts, of which one may pass: to one member, and to the probe, which is a port like others.
    for seed in 0..30 {
        let mut frame = plain(Mac([0xff; 6]), host, 80, seed);
        frame[13] = 0xb6;
        sockets[0].send(&frame);
    }
    wait_for("the broadcast", || {
        let [one, two, probe] = [0, 1, 2].map(|i| seen(i, 0xb6).len());
        assert!(one + two <= 1 && probe <= 1, "{one} {two} {probe}");
        ((one + two, probe) == (1, 1)).then_some(())
    });
    captures.into_iter().for_each(|capture| drop(capture.stop()));
    let summary = switch.stop();
    assert_eq!(summary.all_drops(), ["ingress.broadcast_limit=29"]);
    assert_eq!((summary.total("copies"), summary.port("probe", "tx_packets")), (177, 177));
}
