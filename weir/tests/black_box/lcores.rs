//! Two workers with a port each: every frame comes in on one lcore and leaves by a port of the other.

use crate::support::frames::{plain, read_pcap, write_pcap};
use crate::support::program::{Running, Summary, WEIR, turn, two_cores};
use crate::support::wait_for;
use nix::sys::signal::Signal;
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
