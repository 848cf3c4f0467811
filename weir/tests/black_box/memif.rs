//! Frames over `net_memif` between two processes: DPDK's testpmd plays a capture into weir and writes what
//! comes back. No root.

use crate::support::frames::{plain, read_pcap, write_pcap};
use crate::support::program::{Running, Switch, floating};
use crate::support::{need, tools, wait_for};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_dataplane::types::Mac;

const A: Mac = Mac([2, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac([2, 0, 0, 0, 0, 0xb]);
const STRANGER: Mac = Mac([2, 0, 0, 0, 0, 0x99]);
const EVERYBODY: Mac = Mac([0xff; 6]);

/// Buffers of the client, who sets them: larger than any frame. In smaller ones the driver of DPDK 22.11
/// chains buffers, and spoils frames when the ring is full.
const BUFFER: u32 = 10_240;

/// Where a host connects: the last one to a name that is no file.
fn socket(folder: &Path, host: &str) -> String {
    match host {
        "c" => format!("socket=weir-test-{},socket-abstract=yes", std::process::id()),
        _ => format!("socket={},socket-abstract=no", folder.join(format!("{host}.sock")).display()),
    }
}

/// testpmd with a file and a link for each host.
fn testpmd(folder: &Path) -> Running {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut command = Command::new("dpdk-testpmd");
    command.args(["--no-huge", "-m", "256", "--no-pci", "--no-telemetry", &floating()]);
    command.arg(format!("--file-prefix=weir-test-{}", std::process::id()));
    for (i, host) in ["a", "b", "c"].iter().enumerate() {
        let input = if i == 0 { format!("rx_pcap={},", path("a-in.pcap")) } else { String::new() };
        command.arg(format!("--vdev=net_pcap{i},{input}tx_pcap={}", path(&format!("{host}-out.pcap"))));
        command.arg(format!("--vdev=net_memif{i},role=client,{},bsize={BUFFER}", socket(folder, host)));
    }
    command.args(["--", "-i", "--total-num-mbufs=8192", "--no-flush-rx"]);
    command.arg(format!("--mbuf-size={BUFFER}"));
    Running::start(command.stdin(Stdio::piped()))
}

/// Waits until a capture has all of these frames, and compares.
fn has(file: &Path, frames: &[Vec<u8>]) {
    let bytes: usize = frames.iter().map(|frame| frame.len() + 16).sum();
    wait_for(&format!("{} frames in {}", frames.len(), file.display()), || {
        std::fs::metadata(file).is_ok_and(|meta| meta.len() >= 24 + bytes as u64).then_some(())
    });
    let seen = read_pcap(file);
    assert_eq!(seen.len(), frames.len());
    for (i, (seen, sent)) in seen.iter().zip(frames).enumerate() {
        assert!(seen == sent, "frame {i} of {} bytes came as another of {}", sent.len(), seen.len());
    }
}

/// Frames of 60 to 9216 bytes to a static entry, to a stranger, to everybody, and to an address learnt on
/// the sender's own port. Fewer in all than a ring holds: testpmd drops what a ring does not take.
#[test]
fn two_processes_exchange_frames_byte_for_byte() {
    need!(tools(&["dpdk-testpmd"]));
    let folder = tempfile::tempdir().unwrap();
    let frames = |dst, src, from: u32, count: u32| -> Vec<Vec<u8>> {
        (from..from + count).map(|n| plain(dst, src, 60 + (n * 61) as usize % 9157, n)).collect()
    };
    let to_b = frames(B, A, 0, 600);
    let to_a = frames(A, Mac([2, 0, 0, 0, 0, 0xd]), 600, 40);
    let to_stranger = frames(STRANGER, A, 640, 60);
    let to_all = frames(EVERYBODY, A, 700, 10);
    let longest = to_b.iter().map(Vec::len).max();
    assert!(longest > Some(9150), "{longest:?}");
    write_pcap(&folder.path().join("a-in.pcap"), &[&to_b[..], &to_a, &to_stranger, &to_all].concat(), 1);
    let mut config =
        "[buffer]\nsize = \"16MiB\"\nframes = 16384\n[port_defaults]\nrate = \"10G\"\nmtu = 9216\n"
            .to_owned();
    for (i, host) in ["a", "b", "c"].iter().enumerate() {
        config += &format!("[[port]]\nname = \"{host}\"\n");
        config += &format!("device = \"net_memif{i},role=server,{}\"\n", socket(folder.path(), host));
    }
    config += "[[fdb.static]]\nmac = \"02:00:00:00:00:0b\"\nport = \"b\"\n";
    let mut switch = Switch::start(&config);
    let mut testpmd = testpmd(folder.path());
    for host in ["a", "b", "c"] {
        switch.program().says(&format!("port {host}: link up"));
    }
    // The worker hears of a link a turn of its loop after we do.
    std::thread::sleep(Duration::from_secs(1));
    for line in ["set portlist 0,1,2,3,4,5", "set fwd io", "start"] {
        testpmd.tell(line);
    }
    has(&folder.path().join("b-out.pcap"), &[&to_b[..], &to_stranger, &to_all].concat());
    has(&folder.path().join("c-out.pcap"), &[&to_stranger[..], &to_all].concat());
    testpmd.tell("stop");
    testpmd.tell("quit");
    let ended = testpmd.ended();
    assert_eq!(ended.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    let summary = switch.stop();
    assert_eq!(summary.port("a", "rx_packets"), 710);
    assert_eq!(summary.port("a", "flooded"), 60);
    assert_eq!(summary.total("copies"), 70);
    assert_eq!(summary.all_drops(), ["lookup.same_port=40"]);
}
