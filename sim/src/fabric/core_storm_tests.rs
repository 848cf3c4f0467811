//! Watchdogs of switches with a crossbar: a storm is of an output, whatever inputs its frames wait at.

use super::*;
use std::ops::ControlFlow;

const CORES: [&str; 4] = ["output_queued", "islip", "pim", "fifo"];

/// 600 KB for a host behind a slow link of the second switch, which holds the first one back, and a flow for another host later.
fn stormed(core: &str, action: &str, switch: &str) -> Report {
    played(&storm(core, action, switch))
}

fn storm(core: &str, action: &str, switch: &str) -> String {
    format!(
        "name = \"storm\"\nstop_time = \"42ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"slow\", \"c\"]\n\
         switches = [\"s0\", \"s1\"]\nlinks = [{{ a = \"a\", b = \"s0\" }}, {{ a = \"c\", b = \"s0\" }}, \
         {{ a = \"s0\", b = \"s1\" }}, {{ a = \"slow\", b = \"s1\", rate = \"100M\" }}]\n[link]\nrate = \"100G\"\n[switch]\n\
         core = \"{core}\"\n{switch}\n[switch.config.buffer]\nsize = \"1MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
         [switch.config.watchdog]\nallow_short = true\ndetection_time = \"100us\"\nrestoration_time = \"100us\"\n\
         poll_interval = \"20us\"\naction = \"{action}\"\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"slow\"\nbytes = 600000\n\
         reliable = false\nrate = \"20G\"\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"c\"\nbytes = 300000\n\
         start = \"41ms\"\nreliable = false\n"
    )
}

fn played(text: &str) -> Report {
    let report = load("storm.toml", text).and_then(|spec| run(&spec));
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

/// A storm that an operator would have to end is over when the link fails (H14): what comes when it is back is sent.
#[test]
fn sw_storms_end_with_the_link() {
    let held = "drop\"\nreoccurrence = { count = 1, window = \"1ms\" }\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nbytes = 1000\n\
                start = \"40ms\"\nreliable = false\nto = \"slow";
    let failure = "[[failure]]\na = \"s0\"\nb = \"s1\"\nat = \"38ms\"\nrepair = \"38100us\"";
    for core in CORES {
        let r = stormed(core, held, "");
        assert!(at_first(&r)[0] == 1 && r.flows[0].fct_ns.is_none(), "{core}: {:?}", r.flows[0]);
        let r = stormed(core, held, failure);
        assert!(at_first(&r)[0] == 1 && r.flows[0].fct_ns.is_some(), "{core}: {:?}", r.flows[0]);
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

/// With `drop` what has crossed is dropped with what waits at inputs: when all frames have come, and the peer still lets none go, all
/// have been sent or dropped.
#[test]
fn sw_what_has_crossed_is_dropped_in_a_storm() {
    let slower = [("100M", "10M"), ("42ms", "2ms"), ("41ms", "1900us")];
    for core in CORES {
        let more = ["", "output_buffer = \"160KB\"", "crossbar_mode = \"cell\"\noutput_buffer = \"160KB\""];
        for more in &more[..if core == "output_queued" { 1 } else { 3 }] {
            let text =
                slower.iter().fold(storm(core, "drop", more), |text, (from, to)| text.replace(from, to));
            let r = played(&text);
            let ([storms, sent], dropped) = (at_first(&r), r.lossless_drops_watchdog);
            assert!(
                storms == 1 && dropped > 50 && dropped == r.frames_dropped,
                "{core} {more}: {dropped} dropped"
            );
            assert_eq!(sent + dropped, r.flows[0].packets, "{core} {more}");
        }
    }
}

/// Data frames that links carried are those that hosts and switches say they sent, whoever dropped some; and a report is the same on
/// any number of threads.
fn accounted(what: &str, text: &str) -> Report {
    let spec = load("storm.toml", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let on = |threads: usize| {
        run_with(&spec, threads, &mut |_| ControlFlow::Continue(())).unwrap_or_else(|e| panic!("{e}\n{text}"))
    };
    let r = on(1);
    let from_host = |name: &str| r.links.iter().filter(|l| l.from == name).map(|l| l.frames).sum::<u64>();
    let by_hosts: u64 = r.hosts.iter().map(|h| from_host(&h.name) - h.pfc_tx).sum();
    let by_switches: u64 = r.ports().map(|(_, port)| port.tx_frames).sum();
    assert_eq!(
        (r.conservation_error, r.frames_lost, r.frames_sent),
        (0, 0, by_hosts + by_switches),
        "{what}"
    );
    let named: u64 = r.ports().flat_map(|(_, port)| port.drops.values()).sum();
    assert_eq!(named, r.frames_dropped, "{what}");
    assert!(r.ports().map(|(_, port)| port.storms).sum::<u64>() > 0, "{what}: no storm");
    assert_eq!(on(3).to_json(), r.to_json(), "{what}");
    r
}

/// Copies for a group, and a watchdog that drops some of them or sends them on, at once.
#[test]
fn sw_copies_and_storms_are_accounted_for() {
    for core in ["islip", "pim", "fifo"] {
        for (action, mode) in [("drop", "packet"), ("forward", "cell")] {
            let r = accounted(
                &format!("{core} {action} {mode}"),
                &format!(
                    "name = \"copies\"\nstop_time = \"20ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 3\nspines = 2\n\
                     hosts_per_leaf = 2\n[link]\nrate = \"100G\"\ndelay = \"200ns\"\n[host]\nprotocol = \"rclink\"\n\
                     [host.rclink]\nread_rate = \"4G\"\n[switch]\ncore = \"{core}\"\ncrossbar_mode = \"{mode}\"\n\
                     [switch.config.buffer]\nsize = \"2MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
                     [switch.config.watchdog]\nallow_short = true\ndetection_time = \"20us\"\nrestoration_time = \"40us\"\n\
                     poll_interval = \"10us\"\naction = \"{action}\"\n\
                     [[workload]]\nkind = \"flow\"\ntype = \"type2\"\nfrom = \"h0\"\nbytes = \"2MB\"\n\
                     [[workload]]\nkind = \"flow\"\ntype = \"type2\"\nfrom = \"h4\"\nbytes = \"1MB\"\nmembers = [\"h1\", \"h3\"]\n\
                     [[workload]]\nkind = \"incast\"\nto = \"h3\"\nbytes = \"200KB\"\n"
                ),
            );
            assert!(r.lossless_drops_watchdog > 0 || action == "forward", "{core} {action} {mode}");
        }
    }
}

/// The same of sums that switches make, and send to all.
#[test]
fn sw_sums_and_storms_are_accounted_for() {
    for (core, action) in [("islip", "drop"), ("fifo", "forward")] {
        let r = accounted(
            &format!("{core} {action}"),
            &format!(
                "name = \"sums\"\nstop_time = \"30ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"c\", \"d\"]\n\
                 switches = [\"s0\", \"s1\"]\nlinks = [{{ a = \"a\", b = \"s0\" }}, {{ a = \"b\", b = \"s0\" }}, {{ a = \"c\", b = \"s1\" }}, \
                 {{ a = \"s0\", b = \"s1\" }}, {{ a = \"d\", b = \"s1\", rate = \"1G\" }}]\n[link]\nrate = \"100G\"\n[host]\ntimeout = \"200us\"\n\
                 [switch]\ncore = \"{core}\"\n[switch.config.buffer]\nsize = \"1MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
                 [switch.config.watchdog]\nallow_short = true\ndetection_time = \"40us\"\nrestoration_time = \"40us\"\n\
                 poll_interval = \"10us\"\naction = \"{action}\"\n[[workload]]\nkind = \"inc_all_reduce\"\nbytes = \"256KB\"\n\
                 [[workload]]\nkind = \"incast\"\nto = \"d\"\nsenders = 2\nbytes = \"600KB\"\n"
            ),
        );
        assert!(r.flows.iter().any(|f| f.delivered > 0), "{core}");
    }
}
