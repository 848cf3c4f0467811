//! Fabrics as files ask for them: the shipped examples, what a run says while and after it is played, and its units.

use super::*;
use std::ops::ControlFlow;

pub(super) fn play(text: &str) -> Report {
    let spec = load("test.toml", text).unwrap_or_else(|e| panic!("{e}"));
    let report = run(&spec).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report.conservation_error, 0);
    assert!(report.hosts.iter().all(|h| h.unexpected == 0), "{:?}", report.hosts);
    report
}

pub(super) fn refused(text: &str) -> String {
    match load("test.toml", text).and_then(|spec| run(&spec)) {
        Err(e) => e.to_string(),
        Ok(_) => panic!("accepted: {text}"),
    }
}

/// `[trunk]` says what is different between switches; the rest is as `[link]` has it.
#[test]
fn a_trunk_is_like_a_link_but_for_what_it_says() {
    let text = |trunk: &str| {
        format!(
            "name = \"trunk\"\nstop_time = \"1ms\"\n[topology]\nkind = \"chain\"\nswitches = 2\nhosts_per_switch = 1\n\
             [link]\nrate = \"40G\"\ndelay = \"3us\"\n{trunk}\
             [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"20KB\"\n"
        )
    };
    let fct = |trunk: &str| play(&text(trunk)).flows[0].fct_ns.unwrap();
    let like = fct("");
    assert_eq!(like, fct("[trunk]\nrate = \"40G\"\ndelay = \"3us\"\n"));
    assert_eq!(fct("[trunk]\nrate = \"40G\"\n"), like, "the delay is that of [link]");
    assert_eq!(fct("[trunk]\ndelay = \"5us\"\n"), like + 2_000, "the rate is that of [link]");
}

#[test]
fn a_permutation_goes_round_whatever_its_shift() {
    let flows = |shift: u64| {
        let report = play(&format!(
            "name = \"round\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[[workload]]\nkind = \
             \"permutation\"\nshift = {shift}\nbytes = \"10KB\"\n"
        ));
        report.flows.iter().map(|f| (f.from.clone(), f.to.clone())).collect::<Vec<_>>()
    };
    assert_eq!(flows(u64::MAX), flows(3));
}

#[test]
fn same_spec_same_report_and_another_seed_another() {
    let text = |seed: u32| {
        format!(
            "name = \"twice\"\nseed = {seed}\nstop_time = \"3ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = \
             2\nspines = 2\nhosts_per_leaf = 4\n[[workload]]\nkind = \"poisson\"\nsizes = \"fb_hadoop\"\nload = \
             0.4\nduration = \"100us\"\ncc = \"dcqcn\"\n"
        )
    };
    let (a, b, c) = (play(&text(1)), play(&text(1)), play(&text(2)));
    assert_eq!(a.to_json(), b.to_json());
    assert_ne!(a.config_hash, c.config_hash);
    assert_ne!(a.flows, c.flows);
    for (csv, rows) in [(a.flows_csv(), a.flows.len()), (a.ports_csv(), a.ports().count())] {
        let (about, table): (Vec<&str>, Vec<&str>) = csv.lines().partition(|line| line.starts_with('#'));
        assert_eq!(table.len(), rows + 1);
        let columns = |line: &str| line.split(',').count();
        assert!(table.iter().all(|line| columns(line) == columns(table[0])), "{csv}");
        for part in [&a.config_hash, "seed 1", weir_config::VERSION, "nanoseconds", "`twice`"] {
            assert!(about.iter().any(|line| line.contains(part)), "{part}: {about:?}");
        }
    }
}

#[test]
fn the_shipped_examples_run() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/sim");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "toml"));
    files.sort();
    let (plans, files): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|path| path.to_str().unwrap().ends_with(".plan.toml"));
    assert!(files.len() >= 14 && !plans.is_empty());
    for path in plans {
        let plan = crate::sweep::Plan::read(&path).unwrap_or_else(|e| panic!("{e}"));
        let specs: Vec<_> = plan.points().map(|point| load("point", &point.spec).unwrap()).collect();
        // The axis it is called after moves what it is about.
        let (few, many) = (run(&specs[0]).unwrap(), run(&specs[specs.len() - 1]).unwrap());
        assert!(few.pauses() != many.pauses(), "{}", plan.name);
        // More buffer for a group, bursts that may pass: a longer queue. More iterations of a match,
        // and the last seed: a shorter one.
        assert_eq!(
            few.queue_max() < many.queue_max(),
            ["alpha", "buffer-policies"].contains(&&*plan.name),
            "{}",
            plan.name
        );
    }
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let played = load(path.to_str().unwrap(), &text).and_then(|spec| run(&spec));
        let report = played.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(report.conservation_error, 0);
        assert_eq!(report.name, name);
        // One is about frames that may be lost.
        assert_eq!(report.frames_dropped > 0, name == "buffer-policies", "{name}: {:?}", report.why);
        assert_eq!(report.lossless_drops, 0, "{name}: {:?}", report.why);
        if name == "ring-deadlock" {
            // Pauses wait for each other in a circle: after a while nothing moves at all.
            let total = |i: usize| report.samples[report.samples.len() - i].delivered.iter().sum::<u64>();
            assert!(total(1) > 0 && total(1) == total(2), "{:?}", report.samples);
            assert_eq!(report.deadlock.len(), 4, "{:?}", report.why);
            assert!(
                report
                    .why
                    .iter()
                    .any(|why| why.starts_with("PFC deadlock") && why.contains("s0 -> s1 -> s2 -> s3 -> s0"))
            );
        } else {
            assert_eq!(report.flows_done, report.flows_finite, "{name}: {:?}", report.why);
            assert!(report.deadlock.is_empty(), "{name}: {:?}", report.why);
        }
        if name == "pfc-chain" {
            let paused: Vec<u64> =
                report.switches.iter().map(|s| s.ports.iter().map(|p| p.pfc_tx_xoff).sum()).collect();
            assert!(paused.iter().all(|n| *n > 0), "back-pressure reaches every switch: {paused:?}");
        }
    }
}

/// Flows that all end late: how far they are is told by what they have delivered, whoever plays them.
#[test]
fn progress_is_what_is_delivered_where_flows_end_the_run() {
    let text = "name = \"late\"\nstop_time = \"10s\"\n[topology]\nkind = \"fat_tree\"\nk = 4\n[link]\nrate = \"100G\"\n\
                delay = \"1us\"\n[[workload]]\nkind = \"permutation\"\nshift = 4\nbytes = \"1MB\"\n";
    for (more, threads) in [("", 1), ("", 2), ("profile = \"ns3-hpcc\"\n", 1)] {
        let spec = load("late", &format!("{more}{text}")).unwrap();
        let mut all: Vec<Progress> = Vec::new();
        let report = run_with(&spec, threads, &mut |now| {
            all.push(now);
            ControlFlow::Continue(())
        });
        let (report, shares) = (report.unwrap(), all.iter().map(Progress::share).collect::<Vec<_>>());
        assert_eq!((report.verdict, report.flows_done), ("PASS", 16), "{more}");
        assert!(threads == 1 || report.undivided.is_none(), "{:?}", report.undivided);
        let (first, last) = (all[0], all[all.len() - 1]);
        assert!(first.done == 0 && first.bytes == 16_000_000 && shares.is_sorted(), "{more}{all:?}");
        // Of the events as much as of the bytes, and of the time next to nothing.
        let (part, of_events) = (last.share(), last.events as f64 / report.events as f64);
        assert!(shares[0] > 0.0 && (part / of_events - 1.0).abs() < 0.35, "{more}{part} {of_events}");
    }
    // Flows without an end do not end a run.
    let endless = load("late", &text.replace("10s", "1ms").replace("bytes = \"1MB\"\n", "")).unwrap();
    let mut last = Progress::default();
    let _ = run_with(&endless, 1, &mut |now| {
        last = now;
        ControlFlow::Continue(())
    });
    assert!(last.delivered > 0 && last.share() == last.now_ns as f64 / 1e6, "{last:?}");
}

/// What it takes alone is as unknown as its size and its completion.
#[test]
fn a_flow_without_an_end_takes_no_time_alone() {
    let flow = "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\n";
    let text = format!(
        "name = \"e\"\nstop_time = \"50us\"\n[topology]\nkind = \"star\"\nhosts = 3\n{flow}{flow}bytes = 1000\n"
    );
    for head in ["", "level = \"flow\"\n", "level = \"hybrid\"\n"] {
        let report = play(&format!("{head}{text}"));
        let known: Vec<_> = report.flows.iter().map(|f| (f.bytes.is_some(), f.ideal_ns.is_some())).collect();
        assert_eq!(known, [(false, false), (true, true)], "{head}");
        let lines = report.flows_csv();
        let endless = lines.lines().find(|line| line.starts_with("0,h0,h1")).unwrap();
        assert!(endless.starts_with("0,h0,h1,,0,,,"), "{endless}");
        assert!(report.to_json().contains("\"ideal_ns\": null"));
        assert_eq!(report.slowdown_milli.map(|s| s.count), report.fct_ns.map(|s| s.count));
    }
}

/// The line of units says what bytes of frames are with and without.
#[test]
fn bytes_of_links_are_those_on_the_wire_and_the_units_say_so() {
    let report = play(
        "name = \"u\"\nstop_time = \"1ms\"\n[topology]\nkind = \"direct\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = 100\n\
         reliable = false\n",
    );
    let frame = 100 + 58 + 4 + 20;
    assert_eq!((report.links[0].frames, report.links[0].bytes), (1, frame), "headers, FCS, preamble and gap");
    assert!(
        report.flows_csv().contains("frame bytes are without FCS, bytes of links with it, preamble and gap;")
    );
}
