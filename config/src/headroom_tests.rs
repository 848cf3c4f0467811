//! `xoff = "auto"`, and what may leave after a pause, of whole configurations.

use super::checks_tests::{ROCE, TWO, load_roce, shown};
use super::*;
use weir_dataplane::mmu::headroom::{HeadroomInput, Model, headroom};

#[test]
fn automatic_headroom_is_the_calculator_s_with_its_terms_explained() {
    let simulated = |more: &str| {
        load_for(Platform::Simulated, "t.toml", &format!("{ROCE}{TWO}[pfc]\n{more}\n")).unwrap().config
    };
    let config = simulated("poll_gap = 0");
    let want = headroom(Model::Weir, &HeadroomInput::new(25_000_000_000, 5, 9216, 9216)).unwrap();
    assert_eq!(config.ports[0].pgs[3].xoff, want.xoff);
    assert_eq!(config.buffer.headroom, 2 * want.xoff);
    let row = config.explain().into_iter().find(|e| e.key == "port.p0.xoff").unwrap();
    assert!(row.why.contains("peer_response 5120 (80 quanta * 64)"), "{}", row.why);
    // 10 us in a pipeline, there and back, at 25G are 2 x 31250 bytes.
    let pipeline = simulated("poll_gap = \"10us\"");
    assert_eq!(pipeline.ports[0].pgs[3].xoff - want.xoff, 62_500);
    // A loop hands as much to the wire at once besides, and the pause stands behind it.
    let polled = load_roce("[pfc]\npoll_gap = \"10us\"\n").unwrap().config;
    assert_eq!(polled.ports[0].pgs[3].xoff - want.xoff, 93_750);
    let row = polled.explain().into_iter().find(|e| e.key == "port.p0.xoff").unwrap();
    assert!(row.why.contains("tx_ring 31250 (10000 ns * 25000000000 / 8e9)"), "{}", row.why);
}

/// `mtu` is asked of frames that come in, so by a port for short ones a long one may leave, and PFC waits behind it.
#[test]
fn headroom_allows_for_the_longest_frame_of_any_port_of_the_format() {
    let of = |third: &str| {
        let ports = format!("{}mtu = 1518\n[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n{third}", TWO);
        let text = format!("{ROCE}{ports}\n[pfc]\npoll_gap = 0\n");
        let config =
            load_for(Platform::Simulated, "t.toml", &text).unwrap_or_else(|f| panic!("{}", shown(&f)));
        let response =
            config.config.explain().into_iter().find(|e| e.key == "port.p1.pause_response").unwrap();
        (config.config.ports[1].pgs[3].xoff, response.why)
    };
    let longest =
        |mtu: u32| headroom(Model::Weir, &HeadroomInput::new(25_000_000_000, 5, mtu, 1518)).unwrap().xoff;
    let (xoff, response) = of("rate = \"25G\"\ncable = \"5m\"\nmtu = 9216\n");
    assert_eq!(xoff, longest(9216));
    assert!(response.contains("frame_leaving 9240"), "{response}");
    // Frames of another format leave by ports of theirs.
    let (xoff, _) = of("rate = \"25G\"\ncable = \"5m\"\nmtu = 16000\nformat = \"afh_gen1\"\n");
    assert_eq!(xoff, longest(9216));
}

#[test]
fn headroom_is_for_the_ports_that_share_an_lcore() {
    let xoff = |ports: usize, lcore: &dyn Fn(usize) -> String| {
        let port = |n| {
            format!("[[port]]\nname = \"p{n}\"\ndevice = \"net_null{n}\"\nrate = \"100G\"\n{}\n", lcore(n))
        };
        let list: String = (0..ports).map(port).collect();
        let config = load("t", &format!("{ROCE}{list}[buffer]\nsize = \"256MiB\"\n"));
        config.unwrap_or_else(|f| panic!("{}", shown(&f))).config.ports[0].pgs[3].xoff
    };
    let (same, two) = (|_: usize| String::new(), |n: usize| format!("lcore = {}", 1 + n % 2));
    assert_eq!(xoff(6, &same), xoff(1, &same), "40 frames of each of six ports fit into 10 us");
    // 32 ports: 1280 frames of 41 ns instead of 10 us, in the receive ring, on the way out and in the transmit ring.
    let (late, bytes) = (1280 * 41 - 10_000, |ns: u64| ns * 100 / 8);
    assert!((xoff(32, &same) - xoff(6, &same)).abs_diff(3 * bytes(late)) <= 3);
    assert_eq!(xoff(32, &two), xoff(16, &same), "an lcore looks at its own ports only");
    // Any of them could be on the lcore of those that name none.
    assert_eq!(xoff(16, &|n| if n == 15 { "lcore = 1".into() } else { String::new() }), xoff(16, &same));
}

#[test]
fn an_in_process_ring_counts_whole_and_in_cells() {
    let rings = TWO.replace("net_null0", "ring").replace("net_null1", "ring");
    let xoff = |cell: &str| {
        let text =
            format!("{ROCE}{rings}[buffer]\nsize = \"64MiB\"\ncell_bytes = {cell}\n[pfc]\npoll_gap = 0\n");
        load_for(Platform::Simulated, "t.toml", &text)
            .unwrap_or_else(|f| panic!("{}", shown(&f)))
            .config
            .ports[0]
            .pgs[3]
            .xoff
    };
    let wire = headroom(Model::Weir, &HeadroomInput::new(25_000_000_000, 5, 9216, 9216)).unwrap().xoff;
    // 127 frames in the ring and a burst of 32 in the sender's hand, the largest each.
    let frames = u64::from(RING_FRAMES + RING_HAND) * 9216;
    assert!(xoff("1") >= wire + frames && xoff("1") <= wire + frames + 159 * 24, "{} {wire}", xoff("1"));
    // A frame of 9216 bytes takes ten cells of 1000.
    assert_eq!(xoff("1000"), xoff("1") * 10_000 / 9216);
}

/// No frame is charged more for its time on the wire than an automatic headroom is reckoned with.
#[test]
fn headroom_on_a_wire_is_that_of_the_frames_that_waste_most() {
    for native in [false, true] {
        let tagged = if native { "[port_defaults]\nvlan = { trunk = \"10\", native = 1 }\n" } else { "" };
        let load = |cell: u64| {
            let text = format!("{ROCE}{TWO}{tagged}[buffer]\nsize = \"256MiB\"\ncell_bytes = {cell}\n");
            load_for(Platform::Simulated, "t.toml", &text).unwrap_or_else(|f| panic!("{}", shown(&f))).config
        };
        let bytes = load(1);
        let tag = if native { 4 } else { 0 };
        for cell in [1, 24, 25, 48, 59, 60, 61, 64, 80, 84, 96, 100, 142, 143, 144, 192, 208, 254, 1000, 4096]
        {
            let config = load(cell);
            let of = |port: &PortConfig| port.pgs[3].xoff;
            let (before, port) = (of(&bytes.ports[0]), &config.ports[0]);
            let most = (60..=u64::from(port.mtu))
                .map(|frame| {
                    u128::from(before) * u128::from(config.buffer.charge(frame + tag))
                        / u128::from(frame + 24)
                })
                .max()
                .unwrap();
            assert_eq!(u128::from(of(port)), most.max(before.into()), "cells of {cell}, native {native}");
        }
    }
}
