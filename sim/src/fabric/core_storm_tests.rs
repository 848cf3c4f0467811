//! Watchdogs of switches with a crossbar: a storm is of an output, whatever inputs its frames wait at.

use super::*;

const CORES: [&str; 4] = ["output_queued", "islip", "pim", "fifo"];

/// 600 KB for a host behind a slow link of the second switch, which holds the first one back, and a flow for another host later.
fn stormed(core: &str, action: &str, switch: &str) -> Report {
    let text = format!(
        "name = \"storm\"\nstop_time = \"42ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"slow\", \"c\"]\n\
         switches = [\"s0\", \"s1\"]\nlinks = [{{ a = \"a\", b = \"s0\" }}, {{ a = \"c\", b = \"s0\" }}, \
         {{ a = \"s0\", b = \"s1\" }}, {{ a = \"slow\", b = \"s1\", rate = \"100M\" }}]\n[link]\nrate = \"100G\"\n[switch]\n\
         core = \"{core}\"\n{switch}\n[switch.config.buffer]\nsize = \"1MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
         [switch.config.watchdog]\nallow_short = true\ndetection_time = \"100us\"\nrestoration_time = \"100us\"\n\
         poll_interval = \"20us\"\naction = \"{action}\"\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"slow\"\nbytes = 600000\n\
         reliable = false\nrate = \"20G\"\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"c\"\nbytes = 300000\n\
         start = \"41ms\"\nreliable = false\n"
    );
    let report = load("storm.toml", &text).and_then(|spec| run(&spec));
    let report = report.unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(report.conservation_error, 0, "{text}");
    report
}

/// Storms that the first switch saw, and frames it has sent to the second.
fn at_first(report: &Report) -> [u64; 2] {
    let ports = &report.switches[0].ports;
    let to_second = ports.iter().filter(|port| port.peer == "s1").map(|port| port.tx_frames).sum();
    [ports.iter().map(|port| port.storms).sum(), to_second]
}

/// Frames that the watchdog drops are in nobody's way: what comes for another output later leaves at once, whatever the core.
#[test]
fn sw_what_a_watchdog_drops_blocks_nothing() {
    for core in CORES {
        let r = stormed(core, "drop", "");
        let dropped = r.lossless_drops_watchdog;
        assert!(dropped > 0 && r.flows[1].fct_ns.is_some(), "{core}: {dropped} dropped, {:?}", r.flows[1]);
        assert!(at_first(&r)[0] > 0, "{core}");
    }
}

/// With `forward` a class in a storm is sent on through the pause, and what the peer has no room for is lost there.
#[test]
fn sw_a_storm_is_sent_on_through_the_pause() {
    for core in CORES {
        let r = stormed(core, "forward", "");
        let [storms, sent] = at_first(&r);
        assert!(storms > 0 && sent == r.flows[0].packets, "{core}: {storms} storms, {sent} sent");
        let lost = r.switches[1].ports.iter().map(|port| port.drops.values().sum::<u64>()).sum::<u64>();
        assert!(lost > 0 && lost == r.frames_dropped && r.lossless_drops_watchdog == 0, "{core}: {lost}");
        // Who does nothing but tell holds it back.
        let told = stormed(core, "alert", "");
        assert!(at_first(&told)[0] > 0 && told.frames_dropped == 0, "{core}: {:?}", told.why);
    }
}

/// A class whose frames have all crossed and may not be sent is in a storm, too.
#[test]
fn sw_what_has_crossed_is_watched() {
    for core in &CORES[1..] {
        let r = stormed(core, "forward", "output_buffer = \"160KB\"");
        assert!(at_first(&r)[0] > 0 && r.frames_dropped > 0, "{core}: {:?}", at_first(&r));
    }
}
