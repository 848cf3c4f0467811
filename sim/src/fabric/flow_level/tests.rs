//! Flow level beside the same file frame by frame.

use super::world::World;
use crate::fabric::import_tests::{folder, play_in};
use crate::fabric::{FabricError, FlowsFormat, Progress, Report, Spread, load, load_in, run, run_with};
use std::ops::ControlFlow;

#[path = "../../../examples/flow_level_error/cases.rs"]
pub(super) mod cases;

pub(super) fn play(text: &str) -> Report {
    load("test.toml", text).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

pub(super) fn at_level(level: &str, text: &str) -> Report {
    play(&format!("level = \"{level}\"\n{text}"))
}

fn at_flow_level(text: &str) -> Report {
    at_level("flow", text)
}

pub(super) fn file(topology: &str, rest: &str) -> String {
    format!("name = \"t\"\nstop_time = \"20ms\"\n[topology]\n{topology}\n{rest}")
}

pub(super) fn fct(report: &Report) -> Vec<u64> {
    report.flows.iter().map(|f| f.fct_ns.unwrap_or_else(|| panic!("{f:?}"))).collect()
}

/// What docs/simulation.md says of windows: answers take a part of the line, and wait behind data longer than the window lasts.
#[test]
fn traffic_both_ways_under_a_window_takes_longer_than_flow_level_says() {
    let slower = |cc: &str, delay: &str, both: bool| {
        let host = format!(
            "[link]\ndelay = \"{delay}\"\n[switch.config.port_defaults]\nmtu = 9000\n[host]\npayload = 4096\ncongestion_control = {cc}\n"
        );
        let flow = |from, to| {
            format!("[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"{to}\"\nbytes = \"250KB\"\n")
        };
        let back = if both { flow("h1", "h0") } else { String::new() };
        let text = file("kind = \"star\"\nhosts = 2", &(host + &flow("h0", "h1") + &back));
        let [packets, flows] = [play(&text), at_flow_level(&text)].map(|report| fct(&report)[0] as f64);
        (packets / flows - 1.0) * 100.0
    };
    let wide = "window_bytes = \"40KB\"";
    for (cc, delay, both, percent) in [
        ("\"none\"".to_owned(), "100ns", true, 0.1),
        ("\"dctcp\"".to_owned(), "100ns", false, 0.0),
        ("\"dctcp\"".to_owned(), "500ns", true, 1.8),
        ("\"dctcp\"".to_owned(), "100ns", true, 15.3),
        (format!("\"dctcp\"\n{wide}"), "100ns", true, 1.9),
        ("\"hpcc\"".to_owned(), "500ns", true, 9.5),
        ("\"hpcc\"".to_owned(), "100ns", true, 15.7),
        (format!("\"hpcc\"\n{wide}"), "100ns", true, 7.3),
    ] {
        let found = slower(&cc, delay, both);
        assert!((found - percent).abs() < 0.5, "{cc} {delay} {both}: {found}");
    }
}

#[test]
fn a_flow_alone_takes_what_it_takes_frame_by_frame() {
    let chain = "kind = \"chain\"\nswitches = 3\nhosts_per_switch = 1";
    let slow_trunk = "[trunk]\nrate = \"40G\"\ndelay = \"700ns\"\n";
    let fast_trunk = "[link]\nrate = \"25G\"\n[trunk]\nrate = \"400G\"\n";
    // Every order of a slow, a fast and a middling line, five hops long.
    let mixed = |rates: [&str; 5]| {
        let nodes = ["h0", "s0", "s1", "s2", "s3", "h2"];
        let link = |(ends, rate): (&[&str], &str)| {
            format!("{{ a = \"{}\", b = \"{}\", rate = \"{rate}\" }}", ends[0], ends[1])
        };
        let links: Vec<String> = nodes.windows(2).zip(rates).map(link).collect();
        format!(
            "kind = \"custom\"\nhosts = [\"h0\", \"h2\"]\nswitches = [\"s0\", \"s1\", \"s2\", \"s3\"]\nlinks = [{}]",
            links.join(", ")
        )
    };
    let mixed = [
        ["100G", "40G", "25G", "40G", "100G"],
        ["100G", "90G", "100G", "90G", "80G"],
        ["25G", "100G", "40G", "100G", "40G"],
        ["40G", "25G", "100G", "40G", "25G"],
        ["100G", "100G", "25G", "25G", "100G"],
        ["3000000007", "1G", "2500000001", "100G", "3000000007"],
    ]
    .map(mixed);
    let cuts = "[switch]\nforwarding = \"cut_through\"\n";
    let mixed = mixed.iter().flat_map(|topology| ["", cuts].map(|more| (&**topology, "h2", more)));
    for bytes in [1u64, 1000, 1024, 1025, 3000, 300_000, 1_234_567] {
        for (topology, to, more) in mixed.clone().chain([
            ("kind = \"direct\"", "h1", ""),
            (
                "kind = \"star\"\nhosts = 3",
                "h2",
                "[host]\npayload = 700\ntx_delay = \"120ns\"\nrx_delay = \"80ns\"\n",
            ),
            ("kind = \"fat_tree\"\nk = 4", "h15", ""),
            (chain, "h2", "[switch]\ningress = \"30ns\"\negress = \"50ns\"\n[link]\nrate = \"3000000007\"\n"),
            (chain, "h2", fast_trunk),
            (chain, "h2", slow_trunk),
            (chain, "h2", cuts),
            ("kind = \"direct\"", "h1", "[link]\nrate = \"25G\"\n"),
        ]) {
            for pace in ["", "rate = \"7G\"\n", "reliable = false\n"] {
                let flow = format!(
                    "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"{to}\"\nbytes = {bytes}\n{pace}"
                );
                let text = file(topology, &format!("{more}{flow}"));
                let packets = play(&text);
                let (packets, alone) = (fct(&packets)[0], packets.flows[0].ideal_ns.unwrap());
                let flows = fct(&at_flow_level(&text))[0];
                assert!(packets.abs_diff(flows) <= 1, "{packets} {flows}\n{text}");
                assert!(packets.abs_diff(alone) <= 1, "{packets} alone {alone}\n{text}");
            }
        }
    }
}

/// What flows over the same links cost does not grow with their number: they are one bundle, with a pace or without.
#[test]
fn flows_over_the_same_links_are_one_bundle() {
    for (pace, kinds) in [("", 1), ("rate = \"1G\"\n", 2)] {
        let text = file(
            "kind = \"star\"\nhosts = 3",
            &format!(
                "[link]\nrate = \"10G\"\n[[workload]]\nkind = \"poisson\"\nto = \"h2\"\nbytes = 64\nload = 0.9\n\
                 duration = \"100us\"\n{pace}"
            ),
        );
        let spec = load("t.toml", &format!("level = \"flow\"\n{text}")).unwrap();
        let mut world = World::new(&spec).unwrap();
        world.play(spec.stop_time.0, &mut |_| ControlFlow::Continue(()));
        assert!(world.most_bundles() <= 2 * kinds, "{}", world.most_bundles());
        let report = world.report(None);
        assert!(report.flows_done > 1500 && report.flows_done == report.flows.len(), "{}", report.flows_done);
        // The line carries them without a gap: they take its time.
        let into = report.links.iter().find(|link| link.to == "h2").unwrap();
        assert!(into.busy_milli > 970, "{into:?}");
        // What is drawn is what was sent.
        let (timeline, sent) = (&report.timeline, 64 * report.flows.len() as u64);
        let rates: u64 = timeline.rates.iter().flat_map(|series| &series.values).sum();
        let drawn = rates * timeline.rate_period_ns / 8_000_000_000;
        assert!(drawn.abs_diff(sent) * 50 < sent, "{drawn} {sent}");
    }
}

/// Of collectives whose messages end between two nanoseconds.
#[test]
fn no_collective_ends_after_the_run() {
    for kind in ["all_reduce", "all_gather", "halving_doubling_all_reduce"] {
        for bytes in (100_001..100_030).step_by(4) {
            let text = file(
                "kind = \"star\"\nhosts = 4",
                &format!("[link]\nrate = \"3000000007\"\n[[workload]]\nkind = \"{kind}\"\nbytes = {bytes}\n"),
            );
            let report = at_flow_level(&text);
            let time = report.collectives[0].figures.time_ns.unwrap();
            assert_eq!(time, report.end_ns, "{kind} {bytes}");
        }
    }
}

/// Sixteen single frames, each at half the rate of the link they all leave by: that carries one after the other.
#[test]
fn a_link_carries_no_more_than_it_can_whatever_pace_its_flows_have() {
    for (pace, bytes) in [("5G", 1000u64), ("1G", 1000), ("9G", 2048), ("5G", 100_000), ("5G", 1)] {
        let text = file(
            "kind = \"star\"\nhosts = 17",
            &format!(
                "[link]\nrate = \"10G\"\n[[workload]]\nkind = \"incast\"\nto = \"h16\"\nbytes = {bytes}\nrate = \"{pace}\"\n"
            ),
        );
        let report = at_flow_level(&text);
        let last = fct(&report).into_iter().max().unwrap();
        let into = report.links.iter().find(|link| link.to == "h16").unwrap();
        let least = into.bytes * 8 / 10;
        assert!(last >= least, "{pace} {bytes}: {last} ns for {} bytes", into.bytes);
        let packets = fct(&play(&text)).into_iter().max().unwrap();
        assert!(last.abs_diff(packets) * 20 <= packets, "{pace} {bytes}: {last} {packets}");
    }
}

#[test]
fn flows_share_as_max_min_fairness_says() {
    // Parking lot: h0 and h1 go to h2, which h1 shares with h3 alone: 1/3 each of the last link, but h0 has 20G of its own.
    let flow = |from: u32, to: u32, more: &str| {
        format!(
            "[[workload]]\nkind = \"flow\"\nfrom = \"h{from}\"\nto = \"h{to}\"\nbytes = \"1MB\"\n{more}\n"
        )
    };
    let text = file(
        "kind = \"star\"\nhosts = 5",
        &(flow(0, 4, "rate = \"20G\"") + &flow(1, 4, "") + &flow(2, 4, "")),
    );
    let report = at_flow_level(&text);
    // 1 MB is 977 frames of 1106 bytes at most: 20G for the first, 40G each for the others while all are there.
    let wire = 976.0 * 1106.0 + 576.0 + 82.0;
    let [slow, a, b] = fct(&report)[..] else { panic!("{:?}", report.flows) };
    assert_eq!(a, b);
    let at = |gbps: f64| wire * 8.0 / gbps;
    assert!((a as f64 - at(40.0)).abs() < 3000.0, "{a} {}", at(40.0));
    assert!((slow as f64 - at(20.0)).abs() < 3000.0, "{slow} {}", at(20.0));
    let into = report.links.iter().find(|l| l.to == "h4").unwrap();
    let share = into.bottleneck_milli.unwrap();
    assert!((490..=510).contains(&share), "until the fast ones have ended: {share}");
    assert!(report.links.iter().filter(|l| l.to != "h4").all(|l| l.bottleneck_milli == Some(0)));
    assert!(report.why[1].contains("s0 \u{2192} h4"), "{:?}", report.why);
    assert!((into.busy_milli as i64 - 1000 * 3 * 20 / 100).abs() < 20, "{into:?}");
}

#[test]
fn messages_of_a_queue_pair_follow_one_another_and_operations_wait() {
    for kind in [
        "all_reduce",
        "halving_doubling_all_reduce",
        "tree_all_reduce",
        "rail_all_reduce\"\ngroup = 2\nplacement = \"spread",
    ] {
        let text = file(
            "kind = \"star\"\nhosts = 8",
            &format!("[[workload]]\nkind = \"{kind}\"\nbytes = \"2MB\"\n"),
        );
        let (packets, flows) = (play(&text), at_flow_level(&text));
        let time = |r: &Report| r.collectives[0].figures.time_ns.unwrap() as f64;
        let error = time(&flows) / time(&packets) - 1.0;
        assert!(error.abs() < 0.04, "{kind}: {} {}", time(&packets), time(&flows));
        assert_eq!(packets.collectives[0].steps.len(), flows.collectives[0].steps.len());
        let cause = |r: &Report| r.collectives[0].figures.straggler.as_ref().unwrap().cause;
        let here = if kind.starts_with("tree") { "contention" } else { "none" };
        assert_eq!((cause(&packets), cause(&flows)), ("queue", here), "{kind}");
    }
    // Computations, acknowledgements and the queue at a server.
    let jobs =
        include_str!("../../../../configs/sim/jobs.toml").replace("congestion_control = \"dcqcn\"", "");
    for (text, bound) in [(include_str!("../../../../configs/sim/pipeline.toml"), 0.1), (&jobs, 0.15)] {
        let (packets, flows) = (play(text), at_flow_level(text));
        assert_eq!((flows.flows_done, flows.verdict), (packets.flows_done, "PASS"), "{:?}", flows.findings);
        let error = flows.end_ns as f64 / packets.end_ns as f64 - 1.0;
        assert!(error.abs() < bound, "{} {}", packets.end_ns, flows.end_ns);
    }
}

#[test]
fn the_error_is_within_what_the_docs_say() {
    // Bounds in percent of the packet run: mean, p99, last flow. The table for 1024 hosts is in docs/simulation.md.
    for (name, traffic) in cases::cases(16) {
        let text = cases::fabric(4, &traffic);
        let (packets, flows) = (play(&text), at_flow_level(&text));
        let e = cases::error(&packets, &flows);
        println!("{name}: {e:.1?}");
        let (mean, p99, all) = match name {
            // How long an incast takes that DCQCN makes room for is not known.
            _ if name.contains("of few") => (10.0, 30.0, 30.0),
            // To one of fifteen senders the receiver is near, and switches are fair to inputs.
            _ if name.contains("incast") => (40.0, 8.0, 8.0),
            // Rates that were cut rise slowly.
            _ if name.ends_with("dcqcn") => (50.0, 75.0, 75.0),
            _ if name.contains("permutation") => (12.0, 15.0, 15.0),
            _ if name.contains("ring") => (0.5, 0.5, 0.5),
            _ => (5.0, 20.0, 15.0),
        };
        assert!(e.mean.abs() < mean && e.p99.abs() < p99 && e.all.abs() < all, "{name}: {e:?}");
        assert!(e.p50.abs() < 60.0 && e.each >= e.mean.abs() / 10.0, "{name}: {e:?}");
    }
}

#[test]
fn a_run_ends_at_its_end_or_when_it_is_told_to() {
    let endless = file("kind = \"star\"\nhosts = 3", "[[workload]]\nkind = \"incast\"\nto = \"h2\"\n");
    let report = at_flow_level(&endless.replace("20ms", "1ms"));
    assert_eq!((report.verdict, report.end_ns, report.flows_finite), ("PASS", 1_000_000, 0));
    // Half of 100G each, in frames of 1024 bytes that take 1106. What was sent in the last two microseconds is on its way.
    for flow in &report.flows {
        let want = |us: f64| 50.0 * us * 1e3 / 8.0 * 1024.0 / 1106.0;
        assert!((flow.packets as f64 * 1024.0 - want(1000.0)).abs() < 2048.0, "{flow:?}");
        assert!((flow.delivered as f64 - want(998.0)).abs() < 2048.0, "{flow:?}");
    }
    assert_eq!(report.links.iter().find(|l| l.to == "h2").unwrap().busy_milli, 1000);
    let rates = &report.timeline.rates;
    let half: Vec<u64> = rates.iter().flat_map(|series| series.values.clone()).collect();
    assert!(half.iter().all(|r| (46_000_000_000..46_500_000_000).contains(r)), "{half:?}");
    let short = at_flow_level(&file(
        "kind = \"star\"\nhosts = 3",
        "[[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = \"1GB\"\n",
    ));
    assert_eq!((short.verdict, short.end_ns, short.flows_done), ("FAIL", 20_000_000, 0));
    assert!(short.flows[0].delivered > 100_000_000 && !short.stopped, "{:?}", short.findings);
    let traffic =
        "[[workload]]\nkind = \"poisson\"\nsizes = \"fb_hadoop\"\nload = 0.5\nduration = \"20ms\"\n";
    let text = format!("level = \"flow\"\n{}", file("kind = \"fat_tree\"\nk = 4", traffic));
    let mut seen = Vec::new();
    let stopped = run_with(&load("t", &text).unwrap(), 1, &mut |progress: Progress| {
        seen.push(progress);
        if seen.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let stopped = stopped.unwrap();
    assert!(
        stopped.stopped && stopped.verdict == "FAIL" && stopped.end_ns < 20_000_000,
        "{:?}",
        stopped.findings
    );
    assert!(
        seen.is_sorted_by_key(|p| (p.now_ns, p.done)) && seen[2].flows == stopped.flows.len(),
        "{seen:?}"
    );
}

/// At any end, of a flow that is alone, shares, is paced, has just been slowed down, or was sent and has not arrived.
#[test]
fn what_is_on_its_way_at_the_end_has_not_arrived() {
    let flow = |from: u32, to: u32, more: &str| {
        format!("[[workload]]\nkind = \"flow\"\nfrom = \"h{from}\"\nto = \"h{to}\"\n{more}\n")
    };
    let traffic = flow(0, 3, "bytes = 60000")
        + &flow(1, 4, "bytes = \"1MB\"\nrate = \"7G\"")
        + &flow(2, 5, "bytes = 100000")
        + &flow(6, 5, "bytes = 100000\nstart = \"6us\"")
        + &flow(7, 4, "bytes = 1500\nrate = \"1G\"");
    for until in (1..30u64).map(|us| us * 700) {
        let text = file("kind = \"star\"\nhosts = 8", &format!("[link]\ndelay = \"2us\"\n{traffic}"));
        let text = text.replace("20ms", &format!("{until}ns"));
        let (packets, flows) = (play(&text), at_flow_level(&text));
        for (p, f) in packets.flows.iter().zip(&flows.flows) {
            assert!(p.delivered.abs_diff(f.delivered) <= 3 * 1024, "{until}: {p:?} {f:?}");
            assert_eq!(p.fct_ns.is_some(), f.fct_ns.is_some(), "{until}: {p:?} {f:?}");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let traffic =
        "[[workload]]\nkind = \"poisson\"\nsizes = \"fb_hadoop\"\nload = 0.8\nduration = \"300us\"\n";
    let text = file("kind = \"fat_tree\"\nk = 4", traffic);
    let (a, b) = (at_flow_level(&text), at_flow_level(&text));
    assert_eq!((&a.flows, a.to_json()), (&b.flows, b.to_json()));
    // The traffic is that of the packet run: same flows, same starts, same sizes.
    let packets = play(&text);
    let planned = |r: &Report| {
        r.flows
            .iter()
            .map(|f| (f.id, f.from.clone(), f.to.clone(), f.bytes, f.start_ns, f.ideal_ns))
            .collect::<Vec<_>>()
    };
    assert_eq!(planned(&a), planned(&packets));
    assert_ne!(a.flows, at_flow_level(&format!("seed = 2\n{text}")).flows);
}

#[test]
fn what_frames_alone_could_say_is_refused_and_what_has_no_effect_is_named() {
    let refused = |more: &str, says: &str| {
        let text = format!("name = \"t\"\nstop_time = \"1ms\"\nlevel = \"flow\"\n{more}\n");
        let Err(error @ FabricError::At { .. }) = load("t.toml", &text).and_then(|spec| run(&spec)) else {
            panic!("accepted: {text}")
        };
        let error = error.to_string();
        assert!(error.starts_with("t.toml:") && error.contains(says), "{error}\n{text}");
    };
    const REST: &str = "[topology]\nkind = \"star\"\nhosts = 3\n[[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = 1000\n";
    for (more, key) in [
        ("latency = true", "latency"),
        ("sample = \"1us\"", "sample"),
        ("measure_from = \"1us\"", "measure_from"),
        ("profile = \"ns3-hpcc\"", "level"),
    ] {
        refused(&format!("{more}\n{REST}"), key);
    }
    for (more, key) in [
        ("[link]\nloss = 0.1", "link.loss"),
        ("[routing]\nconvergence = \"1us\"", "routing.convergence"),
        ("[[failure]]\na = \"h0\"\nb = \"s0\"\nat = \"1us\"", "failure"),
        ("[switch]\ncore = \"islip\"", "switch.core"),
        ("[switch]\nspeedup = 2.0", "switch.speedup"),
        ("[host]\nprotocol = \"rclink\"", "host.protocol"),
        ("[[order]]\nshow = true", "order"),
        ("[ns3]\nshift = 2", "ns3"),
        ("[inc]\nwindow = 8", "inc"),
        ("[switch.config.buffer]\nsise = 3", "sise"),
        ("[switch.config.buffer]\npolicy = \"none\"", "buffer.policy"),
        (
            "[host.dcqcn]\nrate_shift = 99\n[[workload]]\nkind = \"incast\"\nto = \"h2\"\ncc = \"dcqcn\"",
            "dcqcn",
        ),
    ] {
        refused(&format!("{REST}{more}"), key);
    }
    refused(&REST.replace("incast\"\nto = \"h2\"", "inc_all_reduce\""), "inc_all_reduce");
    let leaves =
        REST.replace("star\"\nhosts = 3", "leaf_spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2");
    refused(&format!("{leaves}[routing]\nmode = \"spray\""), "a flow has one path");
    let weighs = "[topology]\nkind = \"custom\"\nhosts = [\"h1\", \"h2\"]\nswitches = [\"s\", \"t\"]\nlinks = [\
        { a = \"h1\", b = \"s\" }, { a = \"s\", b = \"t\", weight = 2 }, { a = \"t\", b = \"h2\" }]\n\
        [[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = 1000\n";
    refused(weighs, "topology.links.1.weight is set");
    let report = at_flow_level(&file(
        "kind = \"star\"\nhosts = 3",
        "[host]\nack_every = 3\npayload = 500\n[switch.config.buffer]\nsize = \"1MiB\"\n\
         [[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = 1000\ncc = \"dcqcn\"\n",
    ));
    assert!(report.why[1].ends_with(": switch.config, host.ack_every."), "{:?}", report.why);
    // Where something waits for an acknowledgement it counts whether there is one.
    let once = "[[workload]]\nkind = \"all_to_all\"\nbytes = 1000\nreliable = false\n";
    let named = |traffic: &str| at_flow_level(&file("kind = \"star\"\nhosts = 3", traffic)).why[1].clone();
    assert!(named(once).ends_with(": workload.reliable."), "{}", named(once));
    let waits = include_str!("../../../../configs/sim/operations.toml")
        .replace("kind = \"operations\"", "kind = \"operations\"\nreliable = false");
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/sim"));
    let waits =
        load_in("t.toml", &format!("level = \"flow\"\n{waits}"), folder).and_then(|spec| run(&spec)).unwrap();
    assert!(!waits.why[1].contains("workload.reliable"), "{}", waits.why[1]);
    assert!(report.switches.is_empty() && report.hosts.is_empty());
    let summary = serde_json::to_value(report.summary()).unwrap();
    assert!(
        summary["level"] == "flow" && summary["ecn_marks"].is_null() && summary["queue_max_bytes"].is_null()
    );
    let links = report.links_csv().unwrap();
    assert_eq!(links.lines().filter(|line| !line.starts_with('#')).count(), 1 + 2 * 3);
    let tables = report.tables(FlowsFormat::Csv).unwrap();
    assert_eq!(tables.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["flows.csv", "links.csv"]);
    let page = report.to_html();
    assert!(page.contains("\"level\":\"flow\"") && page.contains("bottlenecks()"));
}

/// The pace of a workload is kept from message to message of a queue pair, and nothing overtakes what is before it there.
#[test]
fn messages_of_a_queue_pair_keep_their_pace_and_their_order() {
    let in_pieces = |sizes: &[u64]| -> String {
        let one = |(id, bytes): (usize, &u64)| {
            format!(
                "{{\"rank\":0,\"id\":{id},\"op\":\"send\",\"to\":1,\"bytes\":{bytes},\"tag\":{id}}}\n\
                 {{\"rank\":1,\"id\":{id},\"op\":\"recv\",\"from\":0,\"tag\":{id}}}\n"
            )
        };
        sizes.iter().enumerate().map(one).collect()
    };
    let of = |level: &str, topology: &str, keys: &str, sizes: &[u64]| -> Vec<u64> {
        let dir = folder(&[("o.jsonl", &*in_pieces(sizes))]);
        let text = format!(
            "name = \"t\"\nlevel = \"{level}\"\nstop_time = \"20ms\"\n{topology}[[workload]]\nkind = \"operations\"\nfile = \"o.jsonl\"\n{keys}"
        );
        let report = play_in(dir.path(), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        report.flows.iter().map(|f| f.start_ns.unwrap() + f.fct_ns.unwrap()).collect()
    };
    let star = "[topology]\nkind = \"star\"\nhosts = 3\n[host]\npayload = 1000\n";
    for pieces in [1, 10, 100, 500, 1000] {
        let sizes = vec![1_000_000 / pieces; pieces as usize];
        let [packets, flows, hybrid] = ["packet", "flow", "hybrid"]
            .map(|level| of(level, star, "hosts = [\"h0\", \"h1\"]\nrate = \"1G\"\n", &sizes));
        let near = packets.iter().zip(&flows).all(|(a, b)| a.abs_diff(*b) <= 2);
        assert!(near && flows == hybrid, "{pieces}: {:?} {:?}", packets.last(), flows.last());
    }
    let tree = "[topology]\nkind = \"fat_tree\"\nk = 4\n[link]\nrate = \"25G\"\n[host]\npayload = 4096\n";
    // What is behind has not come before what is in front.
    let dir = folder(&[("o.jsonl", &*in_pieces(&[4096, 1]))]);
    let text = format!(
        "name = \"t\"\nlevel = \"flow\"\nstop_time = \"10us\"\n{tree}[[workload]]\nkind = \"operations\"\nfile = \"o.jsonl\"\nhosts = [\"h0\", \"h15\"]\n"
    );
    let cut = play_in(dir.path(), &text).unwrap();
    assert_eq!(cut.flows.iter().map(|f| f.delivered).collect::<Vec<_>>(), [0, 0]);
    for sizes in [&[4096, 1][..], &[40960, 1, 1], &[4096, 64, 4096, 64, 1], &[1, 4096, 1]] {
        let [packets, flows] =
            ["packet", "flow"].map(|level| of(level, tree, "hosts = [\"h0\", \"h15\"]\n", sizes));
        let near = packets.iter().zip(&flows).all(|(a, b)| a.abs_diff(*b) <= 2);
        assert!(near, "{sizes:?}: {packets:?} {flows:?}");
    }
}

/// What has a pace shares a link without a bottleneck as long as the paces leave room.
#[test]
fn paced_flows_are_congested_where_their_paces_are_more_than_the_link() {
    let of = |level: &str, rates: [u32; 2]| {
        let flow = |from: &str, gbps: u32| {
            format!(
                "[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"h2\"\nbytes = \"1MB\"\nrate = \"{gbps}G\"\n"
            )
        };
        let topology = "kind = \"star\"\nhosts = 4\n[link]\nrate = \"100G\"";
        let flows = flow("h0", rates[0]) + &flow("h1", rates[1]);
        at_level(level, &file(topology, &flows))
    };
    for (rates, shared) in [([30, 50], false), ([20, 21], false), ([60, 50], true)] {
        let report = of("flow", rates);
        assert_eq!(report.links.iter().any(|link| link.bottleneck_milli > Some(0)), shared, "{rates:?}");
        if !shared {
            let (a, b) = (fct(&report), fct(&of("packet", rates)));
            assert!(a.iter().zip(&b).all(|(a, b)| a.abs_diff(*b) <= 200), "{rates:?}: {a:?} {b:?}");
        }
    }
}

/// What waits for the sending of a datagram goes on when its last frame has left, whatever its pace: as soon as frame by frame.
#[test]
fn who_waits_for_a_datagram_with_a_pace_goes_on() {
    let lines = "{\"rank\":0,\"id\":1,\"op\":\"send\",\"to\":1,\"bytes\":10000}\n{\"rank\":1,\"id\":1,\"op\":\"recv\",\"from\":0}\n\
                 {\"rank\":0,\"id\":2,\"op\":\"compute\",\"ns\":1000,\"after\":[1]}\n";
    let dir = folder(&[("o.jsonl", lines)]);
    let ends = ["packet", "flow"].map(|level| {
        let text = format!(
            "name = \"t\"\nlevel = \"{level}\"\nstop_time = \"20ms\"\n[topology]\nkind = \"star\"\nhosts = 2\n[host]\npayload = 1000\n\
             [[workload]]\nkind = \"operations\"\nfile = \"o.jsonl\"\nreliable = false\nrate = \"1G\"\n"
        );
        let report = play_in(dir.path(), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert!(report.verdict == "PASS" && report.unfinished.is_none(), "{level}: {:?}", report.unfinished);
        report.end_ns
    });
    assert!(ends[0].abs_diff(ends[1]) <= 100, "{ends:?}");
}
