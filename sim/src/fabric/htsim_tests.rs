//! NSCC and Swift beside their published senders in htsim: the same topology, parameters, packets and starts.
//!
//! docs/simulation.md says with which program, options and files the figures were made. Times are microseconds; runs
//! with random marks are means over seeds.

use super::{Report, load, run};

/// Mean and last completion of a run of htsim, means over its seeds.
struct Published {
    mean: f64,
    last: f64,
}

/// NSCC over seeds 13, 1, 2, ... 7.
const NSCC_INCAST: Published = Published { mean: 1217.6, last: 1313.3 };
const NSCC_STAGGER: Published = Published { mean: 1075.3, last: 1288.5 };
const NSCC_PAIRS: Published = Published { mean: 340.7, last: 341.2 };
/// Over seeds 1 to 4.
const NSCC_FOURS: Published = Published { mean: 626.9, last: 675.6 };
/// Swift: nothing is random where all flows end at one port.
const SWIFT_INCAST: Published = Published { mean: 1318.0, last: 1326.6 };
const SWIFT_STAGGER: Published = Published { mean: 1203.9, last: 1250.5 };
const SWIFT_WIDE: Published = Published { mean: 10_437.5, last: 10_516.3 };
const SWIFT_ALONE: Published = Published { mean: 92.5, last: 92.5 };

/// The published constants of the runs of NSCC; thresholds of 30 and 120 packets.
const NSCC: &str = "congestion_control = \"nscc\"\nbase_rtt = \"9329ns\"\n[host.nscc]\ntarget_delay = \"6997ns\"\n\
                    [[switch.config.wred]]\nname = \"roce\"\nkmin = \"121980\"\nkmax = \"487920\"\npmax = \"100%\"";
/// Those of Swift: 20 us. Its program has a part for each link, too, but its senders go by copies of routes, whose count of links is 0.
const SWIFT: &str = "congestion_control = \"swift\"\n[host.swift]\nbase_target = \"20us\"\nhop_scale = \"0ns\"\n\
                     flow_range = \"100us\"\nmax_window = 1000.0\ninitial_window = 20.0";

/// Packets of 4090 bytes on the wire, links of 100G and 1 us, switches that pause nobody and do not give their inputs
/// equal shares, as those of htsim.
fn play(topology: &str, host: &str, workload: &str, seed: u64) -> Report {
    let text = format!(
        "name = \"htsim\"\nseed = {seed}\nstop_time = \"20ms\"\n[topology]\n{topology}\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n\
         [switch.config.qos]\nvoq = \"fifo\"\n[switch.config.buffer]\nsize = \"64MiB\"\n[switch.config.port_defaults]\nmtu = 4200\n\
         [host]\npayload = 4000\n{host}\n{workload}"
    );
    run(&load("htsim.toml", &text).unwrap()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Five percent of the mean and of the last completion, over `seeds`.
fn agrees(name: &str, published: &Published, seeds: u64, play: impl Fn(u64) -> Report) {
    let (mut mean, mut last) = (0.0, 0.0);
    for seed in 1..=seeds {
        let report = play(seed);
        let fct = report.fct_ns.unwrap();
        assert_eq!((report.verdict, report.pauses(), report.frames_dropped), ("PASS", 0, 0), "{name}");
        let end = report.flows.iter().filter_map(|f| Some(f.start_ns? + f.fct_ns?)).max().unwrap();
        // The last completion is that of a flow, from its own start.
        let longest = if name.ends_with("staggered") { fct.max } else { end };
        mean += fct.mean as f64 / 1e3 / seeds as f64;
        last += longest as f64 / 1e3 / seeds as f64;
    }
    println!("{name}: mean {mean:.1} for {:.1}, last {last:.1} for {:.1}", published.mean, published.last);
    for (ours, theirs) in [(mean, published.mean), (last, published.last)] {
        assert!((ours / theirs - 1.0).abs() < 0.05, "{name}: {ours:.1} us for {theirs:.1}");
    }
}

const STAR: &str = "kind = \"star\"\nhosts = 9";
/// Of 500 packets each.
const EIGHT: &str = "[[workload]]\nkind = \"incast\"\nto = \"h0\"\nbytes = \"2MB\"\n";

#[test]
fn nscc_is_near_the_published_sender() {
    agrees("incast", &NSCC_INCAST, 8, |seed| play(STAR, NSCC, EIGHT, seed));
    let staggered = format!("{EIGHT}stagger = \"20us\"\n");
    agrees("staggered", &NSCC_STAGGER, 8, |seed| play(STAR, NSCC, &staggered, seed));
    // Two hosts at each of sixteen leaves, one spine: two flows share every line between.
    let leaves = "kind = \"leaf_spine\"\nleaves = 16\nspines = 1\nhosts_per_leaf = 2";
    let pairs = "[[workload]]\nkind = \"permutation\"\nshift = 2\nbytes = \"2MB\"\n";
    agrees("permutation", &NSCC_PAIRS, 8, |seed| play(leaves, NSCC, pairs, seed));
    // Four to a line, in both directions: acknowledgements go before data.
    let leaves = "kind = \"leaf_spine\"\nleaves = 8\nspines = 1\nhosts_per_leaf = 4";
    let fours = pairs.replace("shift = 2", "shift = 4");
    agrees("permutation of fours", &NSCC_FOURS, 4, |seed| play(leaves, NSCC, &fours, seed));
    let with_data = play(leaves, &NSCC.replacen("\n", "\nack_class = \"data\"\n", 1), &fours, 1);
    assert!(with_data.fct_ns.unwrap().max > 740_000, "{:?}", with_data.fct_ns);
}

#[test]
fn swift_is_near_the_published_sender() {
    // Of 501 packets each, from other pods.
    let flows = |from: std::ops::Range<u64>, stagger: u64| -> String {
        let flow = |host: u64| {
            format!(
                "[[workload]]\nkind = \"flow\"\nfrom = \"h{host}\"\nto = \"h0\"\nbytes = 2004000\nstart = \"{}us\"\n",
                (host - from.start) * stagger
            )
        };
        from.clone().map(flow).collect()
    };
    let tree = "kind = \"fat_tree\"\nk = 8";
    agrees("incast", &SWIFT_INCAST, 1, |seed| play(tree, SWIFT, &flows(64..72, 0), seed));
    agrees("staggered", &SWIFT_STAGGER, 1, |seed| play(tree, SWIFT, &flows(64..72, 20), seed));
    agrees("wide incast", &SWIFT_WIDE, 1, |seed| play(tree, SWIFT, &flows(32..96, 0), seed));
    // Held by its window alone.
    let alone = SWIFT.replace("initial_window = 20.0", "initial_window = 1.0");
    let twenty = flows(64..65, 0).replace("2004000", "80000");
    agrees("alone", &SWIFT_ALONE, 1, |seed| play(tree, &alone, &twenty, seed));
}
