//! A peer pauses a queue of a running switch: how long its frames waited for that is told, part by part.

use crate::running::get;
use crate::support::frames::write_pcap;
use crate::support::program::{Running, WEIR, turn};
use crate::support::wait_for;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Command;
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::types::Mac;

/// 65535 quanta of 512 bit times at 1 Gb/s, ns.
const PAUSE: u64 = 33_553_920;

/// An IPv4 frame of 100 bytes to station 2 with DSCP 26, which is priority 3.
fn data() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 26 << 2, 0, 86];
    frame.resize(100, 0);
    frame
}

#[test]
fn frames_a_peer_has_paused_say_for_how_long() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    // The peer of `b` is read first in every turn and goes on pausing until all data has come.
    let pause = PfcFrame::uniform(1 << 3, 0xffff).encode(Mac([2, 0, 0, 0, 0, 2])).to_vec();
    write_pcap(&file("b.pcap"), &vec![pause; 1000], 0);
    write_pcap(&file("a.pcap"), &vec![data(); 100], 0);
    let port = |name: &str, n: usize| {
        let path = file(&format!("{name}.pcap"));
        format!("[[port]]\nname = \"{name}\"\ndevice = \"net_pcap{n},rx_pcap={}\"\n", path.display())
    };
    let config = format!(
        "[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"16MiB\"\nframes = 16384\n\
         [port_defaults]\nrate = \"1G\"\nmtu = 1518\n{}{}\
         [[fdb.static]]\nmac = \"02:00:00:00:00:02\"\nport = \"b\"\n\
         [mgmt]\nlisten = \"127.0.0.1:0\"\nsocket = \"{}\"\n",
        port("b", 0),
        port("a", 1),
        file("weir.sock").display(),
    );
    std::fs::write(file("switch.toml"), config).unwrap();
    let mut switch = Running::start(Command::new(WEIR).arg("run").arg(file("switch.toml")));
    let said = switch.line("management on ");
    let address = said.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let row = || -> Value {
        let answer = get(&address, "/v1/latency?port=b");
        let body = answer.split_once("\r\n\r\n").expect("a head").1;
        serde_json::from_str::<Value>(body).unwrap()["latency"][3].clone()
    };
    let row = wait_for("all frames", || Some(row()).filter(|row| row["frames"] == 100));
    let of = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"));
    assert_eq!(of("paused_frames"), 100, "{row}");
    // All of them waited for the peer.
    assert!(of("pause_p50_ns") > 0 && of("pause_max_ns") <= of("residence_max_ns"), "{row}");
    assert!(of("pause_ns") / 100 <= of("pause_max_ns") && of("pause_ns") >= PAUSE / 2, "{row}");
    let pfc = get(&address, "/metrics");
    assert!(pfc.contains("weir_pause_seconds_count{port=\"b\",priority=\"3\"} 100"), "{pfc}");
    assert!(get(&address, "/v1/latency.hgrm?part=pause&port=b").contains("Total count    =          100]"));
    let ended = switch.stop(Signal::SIGINT);
    assert!(ended.status.success(), "{ended:?}");
}
