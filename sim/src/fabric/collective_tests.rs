//! Sums by engines of switches: correct whatever happens on the links, and what they cost beside a ring.

use super::{Report, load, run};

fn play(text: &str) -> Report {
    let played = load("test.toml", text).and_then(|spec| run(&spec));
    played.unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn refused(text: &str) -> String {
    load("test.toml", text).and_then(|spec| run(&spec)).unwrap_err().to_string()
}

const STAR: &str = "name = \"t\"\nstop_time = \"20ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n";

fn sum(head: &str, bytes: &str, more: &str) -> String {
    format!("{head}[[workload]]\nkind = \"inc_all_reduce\"\nbytes = \"{bytes}\"\n{more}")
}

/// Time from the first start to the last result.
fn completion(report: &Report) -> u64 {
    let ends = report.flows.iter().map(|f| f.start_ns.unwrap() + f.fct_ns.unwrap());
    ends.max().unwrap() - report.flows.iter().map(|f| f.start_ns.unwrap()).min().unwrap()
}

#[test]
fn all_hosts_of_a_switch_get_every_sum() {
    let report = play(&sum(STAR, "100KB", ""));
    assert_eq!(
        (report.verdict, report.flows_done, report.flows.len()),
        ("PASS", 4, 4),
        "{:?}",
        report.findings
    );
    for flow in &report.flows {
        assert_eq!((flow.to.as_str(), flow.delivered, flow.resent), ("s0.inc", 100_000, 0));
        // 98 packets of 1106 bytes at 100G, four cables of 1 us, and what is stored and forwarded.
        let (fct, alone) = (flow.fct_ns.unwrap(), flow.ideal_ns.unwrap());
        assert!((alone..alone * 12 / 10).contains(&fct), "{fct} of {alone}");
    }
    // Each host's line carries the vector once each way.
    let up = report.links.iter().find(|l| l.from == "h0").unwrap();
    assert!((100_000..125_000).contains(&up.bytes), "{up:?}");
    assert_eq!(report.hosts.len(), 5, "the engine is a node");
}

/// Of results that its link loses the rank asks for nothing: that they were sent again is the engine's to tell, and so is what came
/// to it marked.
#[test]
fn what_an_engine_sends_again_is_told_of_its_rank() {
    let lossy = "name = \"t\"\nstop_time = \"50ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"c\", \"d\"]\nswitches = [\"s\"]\n\
                 links = [{ a = \"a\", b = \"s\" }, { a = \"b\", b = \"s\" }, { a = \"c\", b = \"s\", loss = 0.004 }, { a = \"d\", b = \"s\" }]\n\
                 [inc]\nrate = \"800G\"\n";
    let results_alone = (1..30).find_map(|seed| {
        let report = play(&sum(&format!("seed = {seed}\n{lossy}"), "256KB", ""));
        let lost = |from: &str, to: &str| {
            let way = report.links.iter().find(|l| (l.from.as_str(), l.to.as_str()) == (from, to));
            way.unwrap().lost
        };
        (lost("s", "c") > 0 && lost("c", "s") == 0).then_some(report)
    });
    let report = results_alone.unwrap();
    let straggler = report.collectives[0].figures.straggler.as_ref().unwrap();
    assert_eq!((straggler.host.as_str(), straggler.cause), ("c", "retransmission"), "{straggler:?}");
    let resent: Vec<bool> = report.flows.iter().map(|f| f.resent > 0).collect();
    assert_eq!(resent, [false, false, true, false]);

    let slow = play(&sum(&format!("{STAR}[inc]\nrate = \"10G\"\n"), "1MB", "cc = \"dcqcn\"\n"));
    let marks = slow.flows.iter().map(|f| f.marked.unwrap()).sum::<u64>();
    let sent: u64 = slow.switches.iter().flat_map(|s| &s.ports).map(|port| port.marked).sum();
    assert!(marks > 0 && marks == sent, "{marks} {sent}");
}

/// A switch may carry more than one of its ports can be configured for.
#[test]
fn the_port_of_an_engine_has_the_highest_rate_of_a_port_at_most() {
    let star = STAR.replace("hosts = 4\n", "hosts = 32\n[link]\nrate = \"400G\"\n");
    let of = |inc: &str| play(&sum(&format!("{star}{inc}"), "4KB", ""));
    let report = of("");
    assert_eq!((report.verdict, report.flows_done), ("PASS", 32), "{:?}", report.findings);
    assert_eq!(report.flows, of("[inc]\nrate = \"10T\"\n").flows);
}

/// The ideal of a rank is what one alone would take: as one level more costs.
#[test]
fn a_tree_of_three_levels_sums_bit_for_bit() {
    let fat = "name = \"t\"\nstop_time = \"20ms\"\n[topology]\nkind = \"fat_tree\"\nk = 4\n";
    let report = play(&sum(fat, "50KB", ""));
    assert_eq!((report.verdict, report.flows_done), ("PASS", 16), "{:?}", report.findings);
    let engines = report.hosts.iter().filter(|h| h.name.ends_with(".inc")).count();
    assert_eq!(engines, 1 + 4 + 8);
    for flow in &report.flows {
        let (fct, alone) = (flow.fct_ns.unwrap(), flow.ideal_ns.unwrap());
        assert!((alone..alone * 12 / 10).contains(&fct), "{fct} of {alone}");
    }
    assert_eq!(report, play(&sum(fat, "50KB", "")), "same file, same result");
}

#[test]
fn one_engine_far_away_sums_for_all() {
    let head = "name = \"t\"\nstop_time = \"20ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 2\nspines = 1\n\
                hosts_per_leaf = 2\n[inc]\nswitches = [\"s2\"]\n";
    let report = play(&sum(head, "50KB", ""));
    assert_eq!(report.verdict, "PASS");
    assert!(report.flows.iter().all(|f| f.to == "s2.inc"));
}

/// Loss of data, sums, results and acknowledgements; hosts that start late.
#[test]
fn loss_and_stragglers_change_no_sum() {
    for seed in 1..=4 {
        let head = format!(
            "seed = {seed}\nname = \"t\"\nstop_time = \"200ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 2\nspines = 2\n\
             hosts_per_leaf = 3\n[link]\nloss = 0.02\n[host]\ntimeout = \"100us\"\n[inc]\nwindow = 64\n"
        );
        let report = play(&sum(&head, "200KB", "stagger = \"20us\"\n"));
        assert_eq!((report.verdict, report.flows_done), ("PASS", 6), "{:?}", report.findings);
        let resent: u64 = report.flows.iter().map(|f| f.resent).sum();
        assert!(report.frames_lost > 0 && resent > 0);
        assert!(completion(&report) >= 5 * 20_000, "nobody is done before the last has begun");
    }
}

/// Two jobs at once, and flows of headers beside them.
#[test]
fn jobs_share_engines_and_links_with_others() {
    let text = sum(STAR, "100KB", "cc = \"dcqcn\"\n")
        + &sum("", "60KB", "dscp = 26\n")
        + "[[workload]]\nkind = \"permutation\"\nshift = 1\nbytes = \"100KB\"\ncc = \"dcqcn\"\n";
    let report = play(&text);
    assert_eq!((report.verdict, report.flows_done), ("PASS", 12), "{:?}", report.findings);
    assert_eq!(report.frames_dropped, 0);
    assert!(report.hosts.iter().all(|h| h.unexpected == 0), "{:?}", report.hosts);
}

/// Contributions are marked on their way to a slow engine, ranks slow down, PFC keeps every frame.
#[test]
fn ranks_slow_down_for_marks() {
    let head = format!(
        "{STAR}[inc]\nrate = \"100G\"\n[[switch.config.wred]]\nname = \"roce\"\nkmin = \"20KB\"\nkmax = \"100KB\"\npmax = \"10%\"\n"
    );
    let report = play(&sum(&head, "1MB", "cc = \"dcqcn\"\n"));
    assert_eq!((report.verdict, report.frames_dropped), ("PASS", 0), "{:?}", report.findings);
    let cnps: u64 = report.flows.iter().filter_map(|f| f.cnps).sum();
    assert!(report.marks() > 0 && cnps > 0, "{cnps} CNPs");
    assert!(report.flows.iter().all(|f| f.rate_bps.unwrap() < 100_000_000_000));
}

/// A host that is cut off: everybody else hears of it, and the run says so.
#[test]
fn a_job_that_fails_is_a_finding() {
    let head = STAR.replace("20ms", "2s") + "[link]\nloss = 0.9\n[host]\ntimeout = \"100us\"\n";
    let report = play(&sum(&head, "100KB", ""));
    assert_eq!(report.verdict, "FAIL");
    assert!(report.findings.iter().any(|f| f.contains("ranks without all sums")), "{:?}", report.findings);
    assert!(report.flows.iter().any(|f| f.error.is_some()));
}

#[test]
fn what_no_engine_can_do_is_refused() {
    for (text, says) in [
        (
            sum(&STAR.replace("hosts = 4", "hosts = 65"), "4KB", ""),
            "the engine of `s0` would have 65 children, it takes 64",
        ),
        (sum(&format!("{STAR}[inc]\nswitches = [\"s9\"]\n"), "4KB", ""), "inc.switches is `s9`"),
        (
            sum(&format!("{STAR}[inc]\nwindow = 100\n"), "4KB", ""),
            "inc.window is 100; it must be a power of two",
        ),
        (sum(&format!("{STAR}[inc]\nrate = \"0\"\n"), "4KB", ""), "inc.rate is 0"),
        (
            sum(&format!("{STAR}[inc]\nrate = \"11T\"\n"), "4KB", ""),
            "inc.rate is 11000000000000; it must be ",
        ),
        (sum(&format!("{STAR}[inc]\ndelay = \"20ms\"\n"), "4KB", ""), "inc.delay is 20000000; it must be "),
        (sum(&format!("{STAR}[host]\npayload = 1000\n"), "4KB", ""), "host.payload is 1000"),
        (sum(&format!("{STAR}[host]\ntimeout = \"0ns\"\n"), "4KB", ""), "host.timeout is 0"),
        (sum(STAR, "4KB", "reliable = false\n"), "take `reliable = false` out"),
        (sum(STAR, "4KB", "cc = \"hpcc\"\n"), "`cc = \"dcqcn\"` and \"none\" only"),
        (sum(STAR, "6", ""), "a multiple of 4"),
        (format!("{STAR}[[workload]]\nkind = \"inc_all_reduce\"\n"), "needs `bytes`"),
        // The second one is looked at, too.
        (sum(&sum(STAR, "4KB", ""), "6", ""), "workload 2 (inc_all_reduce): `bytes` is of 32-bit numbers"),
        (
            sum(STAR, "4KB", "[[workload]]\nkind = \"inc_all_reduce\"\n"),
            "workload 2 (inc_all_reduce): needs `bytes`",
        ),
        (sum(&sum(STAR, "4KB", ""), "4KB", "cc = \"swift\"\n"), "`cc = \"dcqcn\"` and \"none\" only"),
        (sum(&format!("{STAR}[host]\nprotocol = \"rclink\"\n"), "4KB", ""), "engines RoCEv2"),
        (
            format!("{STAR}[inc]\nwindow = 64\n[[workload]]\nkind = \"all_reduce\"\nbytes = \"4KB\"\n"),
            "absent without",
        ),
        (
            sum("name = \"t\"\nstop_time = \"20ms\"\n[topology]\nkind = \"direct\"\n", "4KB", ""),
            "no switch with an engine",
        ),
        (sum(&format!("profile = \"ns3-hpcc\"\n{STAR}"), "4KB", ""), "switches have no engines"),
    ] {
        let message = refused(&text);
        assert!(message.contains(says), "{message}\n--- should say: {says}");
    }
}

/// One way to sum, in a fat tree of `k`, under a circumstance of the table in docs/simulation.md.
fn way(k: usize, kind: &str, circumstance: &str) -> String {
    let hosts = k * k * k / 4;
    let late = 100_000 / (hosts - 1);
    let (link, workload) = match circumstance {
        "stragglers" => ("", format!("stagger = \"{late}ns\"\n")),
        "loss" => ("loss = 0.0001\n", String::new()),
        // Every host sends something to another meanwhile; marks, DCQCN for all.
        "DCQCN" => (
            "[[switch.config.wred]]\nname = \"roce\"\nkmin = \"100KB\"\nkmax = \"400KB\"\npmax = \"1%\"\n",
            "cc = \"dcqcn\"\n[[workload]]\nkind = \"permutation\"\nbytes = \"500KB\"\ncc = \"dcqcn\"\n"
                .into(),
        ),
        _ => ("", String::new()),
    };
    format!(
        "name = \"t\"\nstop_time = \"200ms\"\n[topology]\nkind = \"fat_tree\"\nk = {k}\n[host]\ntimeout = \
         \"200us\"\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n{link}[[workload]]\nkind = \"{kind}\"\nbytes = \"1MB\"\n{workload}"
    )
}

/// What the table says of it: completion in us, MB on the links of the fabric (internal ports left out).
fn measured(k: usize, kind: &str, circumstance: &str) -> [u64; 2] {
    let report = play(&way(k, kind, circumstance));
    assert_eq!(report.verdict, "PASS", "{k} {kind} {circumstance}: {:?}", report.findings);
    // Completion is that of the first workload alone.
    let others = if circumstance == "DCQCN" { k * k * k / 4 } else { 0 };
    let flows = &report.flows[..report.flows.len() - others];
    let start = flows.iter().filter_map(|f| f.start_ns).min().unwrap();
    let end = flows.iter().map(|f| f.start_ns.unwrap() + f.fct_ns.unwrap()).max().unwrap();
    let fabric = report.links.iter().filter(|l| !l.from.ends_with(".inc") && !l.to.ends_with(".inc"));
    [(end - start) / 1000, fabric.map(|l| l.bytes).sum::<u64>() / 1_000_000]
}

/// A row of the table: times of ring, trees and engines, then bytes.
fn row(k: usize, circumstance: &str) -> String {
    let ways = ["all_reduce", "tree_all_reduce", "inc_all_reduce"];
    let all = ways.map(|kind| measured(k, kind, circumstance));
    let [times, bytes] = [0, 1].map(|of| all.map(|one| one[of].to_string()).join(" | "));
    format!("| {} | {circumstance} | {times} | {bytes} |", k * k * k / 4)
}

const CIRCUMSTANCES: [&str; 4] = ["quiet", "stragglers", "loss", "DCQCN"];

#[test]
fn the_small_rows_of_the_table_are_what_runs_come_to() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/simulation.md");
    let docs = std::fs::read_to_string(path).unwrap();
    for circumstance in CIRCUMSTANCES {
        let row = row(4, circumstance);
        assert!(docs.lines().any(|line| line == row), "docs/simulation.md should have: {row}");
    }
}

/// All rows: `WEIR_SIM_K=8 cargo test -p weir-sim inc_table -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table; a fat tree of 16 takes minutes"]
fn inc_table() {
    let k = std::env::var("WEIR_SIM_K").ok().and_then(|k| k.parse().ok()).unwrap_or(4);
    CIRCUMSTANCES.iter().for_each(|circumstance| println!("{}", row(k, circumstance)));
}
