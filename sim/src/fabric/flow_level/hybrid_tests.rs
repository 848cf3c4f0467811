//! Hybrid level beside the same file frame by frame.

use super::tests::{at_level, cases, fct, file, play};
use crate::fabric::import_tests::folder;
use crate::fabric::{Level, LinkResult, Progress, Report, load, load_in, run, run_with};
use std::ops::ControlFlow;

fn flow(from: &str, to: &str, more: &str) -> String {
    format!("[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"{to}\"\n{more}\n")
}

fn levels(report: &Report) -> Vec<Level> {
    report.flows.iter().map(|f| f.level.expect("a level")).collect()
}

fn says(report: &Report, what: &str) -> bool {
    report.why.iter().any(|sentence| sentence.contains(what))
}

#[test]
fn where_all_is_congested_it_is_the_packet_run() {
    let incast = file(
        "kind = \"fat_tree\"\nk = 4",
        "[[workload]]\nkind = \"incast\"\nto = \"h15\"\nbytes = \"300KB\"\ncc = \"dcqcn\"\n",
    );
    let (packets, hybrid) = (play(&incast), at_level("hybrid", &incast));
    assert_eq!(fct(&packets), fct(&hybrid));
    assert!(levels(&hybrid).iter().all(|level| *level == Level::Packet));
    let same =
        |r: &Report| (r.end_ns, r.pauses(), r.marks(), r.queue_max(), r.frames_dropped, r.conservation_error);
    assert_eq!(same(&packets), same(&hybrid));
    assert!(hybrid.marks() > 0);
    // Links carry what they carry frame by frame, once.
    let carried = |r: &Report| r.links.iter().map(|l| (l.frames, l.bytes)).collect::<Vec<_>>();
    assert_eq!(carried(&packets), carried(&hybrid));
    // Switches that nothing passes are not there.
    assert!(hybrid.switches.len() <= packets.switches.len());
}

/// What docs/simulation.md says of links that flows reach later than they are sent over them.
#[test]
fn ways_of_different_delay_are_told_to_be_left_out() {
    let text = |start: &str| {
        let link = |a: &str, delay: &str| format!("{{ a = \"{a}\", b = \"s\", delay = \"{delay}\" }}");
        let links = [link("far", "100us"), link("near", "1us"), link("dst", "1us")].join(", ");
        let topology = format!(
            "kind = \"custom\"\nhosts = [\"far\", \"near\", \"dst\"]\nswitches = [\"s\"]\nlinks = [{links}]\n[host]\npayload = 1000"
        );
        let near = format!("bytes = \"1MB\"\nstart = \"{start}\"");
        file(&topology, &(flow("far", "dst", "bytes = \"1MB\"") + &flow("near", "dst", &near)))
    };
    let percent = |report: &Report, packets: &Report| {
        let of = |(a, b): (u64, u64)| ((a as f64 / b as f64 - 1.0) * 100.0).round() as i64;
        fct(report).into_iter().zip(fct(packets)).map(of).collect::<Vec<_>>()
    };
    for (start, at_hybrid, at_flow) in [("0us", [0, 0], [46, 98]), ("100us", [-31, -49], [-31, -49])] {
        let text = text(start);
        let packets = play(&text);
        let [hybrid, flows] = ["hybrid", "flow"].map(|level| at_level(level, &text));
        assert_eq!(percent(&hybrid, &packets), at_hybrid, "{start}");
        assert_eq!(percent(&flows, &packets), at_flow, "{start}");
        let none =
            "No link was the bottleneck of flows that are sent over it at the same time. Delays of links";
        assert_eq!((says(&hybrid, none), says(&flows, none)), (start == "100us", start == "100us"));
    }
}

#[test]
fn flows_that_pass_no_congested_link_are_at_flow_level_and_others_are_not() {
    // Three senders to h15; h0 and h4 to hosts of their own, as an all-reduce of two others does.
    let traffic = ["h1", "h5", "h9"].map(|from| flow(from, "h15", "bytes = \"200KB\"")).concat()
        + &flow("h0", "h3", "bytes = \"400KB\"")
        + &flow("h4", "h6", "bytes = 777\nrate = \"1G\"")
        + "[[workload]]\nkind = \"all_reduce\"\nhosts = [\"h10\", \"h11\"]\nbytes = \"100KB\"\n";
    let text = file("kind = \"fat_tree\"\nk = 4", &traffic);
    let (packets, hybrid) = (play(&text), at_level("hybrid", &text));
    let frames = |n: usize| if n < 3 { Level::Packet } else { Level::Flow };
    assert_eq!(levels(&hybrid), (0..hybrid.flows.len()).map(frames).collect::<Vec<_>>());
    for (a, b) in packets.flows.iter().zip(&hybrid.flows) {
        let (a, b) = (a.fct_ns.unwrap(), b.fct_ns.unwrap());
        assert!(a.abs_diff(b) * 100 <= a, "{a} {b}");
    }
    assert!(says(&hybrid, "3 of 9 flows were played frame by frame, by "), "{:?}", hybrid.why);
    // By their numbers in the file, which are not those in the played part.
    let more = file("kind = \"fat_tree\"\nk = 4", &(flow("h12", "h13", "bytes = \"400KB\"") + &traffic));
    let names = |level: &str| -> Vec<String> {
        at_level(level, &more).timeline.rates.into_iter().map(|series| series.name).collect()
    };
    assert_eq!(names("hybrid"), names("packet")[1..4]);
    assert!(hybrid.switches.len() < packets.switches.len() && !hybrid.switches.is_empty());
    assert_eq!((hybrid.verdict, hybrid.collectives.len()), ("PASS", 1));
    assert_eq!(hybrid.collectives[0].steps.len(), packets.collectives[0].steps.len());
    let csv = hybrid.flows_csv();
    let lines: Vec<&str> = csv.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(
        lines[0].ends_with(",cnps,level") && lines[1].ends_with(",packet") && lines[4].ends_with(",flow")
    );
    assert!(!packets.flows_csv().contains("level"));
    let summary = serde_json::to_value(hybrid.summary()).unwrap();
    assert!(summary["level"] == "hybrid" && !summary["queue_max_bytes"].is_null(), "{summary}");
    assert!(hybrid.to_html().contains("\"level\":\"hybrid\""));
    // Nothing is congested: there are no frames.
    let quiet = at_level("hybrid", &file("kind = \"star\"\nhosts = 3", &flow("h0", "h1", "bytes = 5000")));
    assert!(quiet.switches.is_empty() && levels(&quiet) == [Level::Flow], "{:?}", quiet.why);
    assert_eq!(
        quiet,
        at_level("hybrid", &file("kind = \"star\"\nhosts = 3", &flow("h0", "h1", "bytes = 5000")))
    );
}

/// 4 us of 8 ms.
#[test]
fn a_bottleneck_of_less_than_a_thousandth_of_the_run_is_one() {
    let traffic = ["h0", "h1"].map(|from| flow(from, "h2", "bytes = \"20KB\"")).concat()
        + &flow("h4", "h5", "bytes = \"100MB\"");
    let text = file("kind = \"star\"\nhosts = 6", &traffic);
    for level in ["flow", "hybrid"] {
        let report = at_level(level, &text);
        assert!(says(&report, "1 of 12 directions of links was a bottleneck"), "{:?}", report.why);
        let share = |l: &LinkResult| (l.to == "h2").then_some(1).or(Some(0));
        assert!(report.links.iter().all(|l| l.bottleneck_milli == share(l)), "{:?}", report.links);
    }
}

/// Two senders to h4 over a trunk that is fast enough for all; PFC holds it back, and with it who goes elsewhere.
#[test]
fn flows_behind_links_that_pfc_holds_back_are_played_too() {
    let traffic = flow("h0", "h4", "bytes = \"3MB\"")
        + &flow("h1", "h4", "bytes = \"3MB\"")
        + &flow("h2", "h5", "bytes = \"1MB\"")
        + &flow("h3", "h2", "bytes = \"1MB\"");
    let small = "[switch.config.buffer]\nsize = \"1MiB\"\n[trunk]\nrate = \"400G\"\n";
    let text = file("kind = \"dumbbell\"\npairs = 4", &format!("{small}{traffic}"));
    let (packets, flows) = (play(&text), at_level("flow", &text));
    assert!(packets.pauses() > 0 && fct(&packets)[2] > fct(&flows)[2] * 11 / 10, "{:?}", fct(&packets));
    let hybrid = at_level("hybrid", &text);
    let [p, f] = [Level::Packet, Level::Flow];
    assert_eq!(levels(&hybrid), [p, p, p, f], "{:?}", hybrid.why);
    assert_eq!(fct(&hybrid)[..3], fct(&packets)[..3]);
    // Without pauses, which links carry, too. h2 is 2 links from h3, and answers are not of flow level.
    let pauses = |r: &Report| r.links.iter().map(|l| l.frames).sum::<u64>() - r.frames_sent;
    assert_eq!(pauses(&hybrid), pauses(&packets));
    assert!(
        says(&hybrid, "1 of them passes no congested link, but one that PFC held back"),
        "{:?}",
        hybrid.why
    );
}

/// A job of which one message passes a congested link: none of it can be taken out of the whole, and none of another job has to be in it.
#[test]
fn a_job_that_passes_a_congested_link_is_played_as_a_whole() {
    let job =
        |hosts: &str| format!("[[workload]]\nkind = \"all_reduce\"\nhosts = [{hosts}]\nbytes = \"100KB\"\n");
    let computing = "[[workload]]\nkind = \"pipeline\"\nhosts = [\"h6\", \"h7\"]\nmicrobatches = 2\nbytes = \"20KB\"\n\
                     forward = \"90us\"\nbackward = \"150us\"\n";
    let text = |to: &str| {
        let incast = ["h0", "h2"].map(|from| flow(from, to, "bytes = \"100KB\"")).concat();
        let jobs = job("\"h1\", \"h3\", \"h5\"") + &job("\"h8\", \"h9\"") + computing;
        file("kind = \"star\"\nhosts = 10", &(incast + &jobs))
    };
    let [p, f] = [Level::Packet, Level::Flow];
    // Its own links are not congested.
    let beside = at_level("hybrid", &text("h4"));
    assert!(levels(&beside)[..2] == [p, p] && levels(&beside)[2..].iter().all(|level| *level == f));
    let (packets, hybrid) = (play(&text("h5")), at_level("hybrid", &text("h5")));
    // The first ring has twelve messages.
    assert!(
        levels(&hybrid)[..14].iter().all(|level| *level == p)
            && levels(&hybrid)[14..].iter().all(|level| *level == f)
    );
    assert_eq!(fct(&packets)[..14], fct(&hybrid)[..14]);
    assert_eq!(packets.collectives[0], hybrid.collectives[0], "to the nanosecond, with causes");
    assert!(
        says(&hybrid, "8 of them pass no congested link, but wait for flows that do"),
        "{:?}",
        hybrid.why
    );
    // Who is late in the pipeline is late for its computation, whatever is played frame by frame beside it.
    let cause = |r: &Report| r.collectives[2].figures.straggler.clone().map(|s| (s.host, s.cause));
    assert_eq!(
        (cause(&packets), cause(&hybrid)),
        (Some(("h7".into(), "compute")), Some(("h7".into(), "compute")))
    );
    // And the other way round.
    let (packets, hybrid) = (play(&text("h6")), at_level("hybrid", &text("h6")));
    assert_eq!(packets.collectives[2], hybrid.collectives[2]);
    assert_eq!((packets.end_ns, packets.verdict), (hybrid.end_ns, hybrid.verdict));
}

/// What computes is there although nothing of its is sent.
#[test]
fn computations_of_a_job_are_played_with_it() {
    let lines = "{\"rank\": 0, \"id\": 1, \"op\": \"send\", \"to\": 3, \"bytes\": 90000}\n\
                 {\"rank\": 1, \"id\": 1, \"op\": \"send\", \"to\": 3, \"bytes\": 90000}\n\
                 {\"rank\": 3, \"id\": 1, \"op\": \"recv\", \"from\": 0}\n\
                 {\"rank\": 3, \"id\": 2, \"op\": \"recv\", \"from\": 1}\n\
                 {\"rank\": 3, \"id\": 3, \"op\": \"compute\", \"ns\": 70000, \"after\": [1, 2]}\n\
                 {\"rank\": 2, \"id\": 1, \"op\": \"compute\", \"ns\": 40000}\n";
    let dir = folder(&[("lines.jsonl", lines)]);
    let traffic = "[[workload]]\nkind = \"operations\"\nfile = \"lines.jsonl\"\nranks = 4\n";
    let text = file("kind = \"fat_tree\"\nk = 4", traffic);
    let at = |level: &str| {
        let text = format!("level = \"{level}\"\n{text}");
        load_in("t.toml", &text, dir.path()).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}"))
    };
    let (packets, hybrid) = (at("packet"), at("hybrid"));
    assert!(levels(&hybrid).iter().all(|level| *level == Level::Packet));
    assert_eq!(
        (packets.end_ns, fct(&packets)),
        (hybrid.end_ns, fct(&hybrid)),
        "the run ends with what h3 computes"
    );
    assert!(packets.end_ns > packets.flows.iter().filter_map(|f| f.fct_ns).max().unwrap() + 69_000);
}

#[test]
fn the_error_is_below_that_of_flow_level() {
    // Nothing of a ring alone is congested.
    for (name, traffic) in cases::cases(16).into_iter().filter(|(name, _)| !name.starts_with("ring")) {
        let text = cases::fabric(4, &traffic);
        let packets = play(&text);
        let error = |level: &str| cases::error(&packets, &at_level(level, &text));
        let (flows, hybrid) = (error("flow"), error("hybrid"));
        println!("{name}: {flows:.1?} {hybrid:.1?}");
        assert!(hybrid.mean.abs() <= 2.0 && hybrid.p99.abs() <= 2.0, "{name}: {hybrid:?}");
        assert!(hybrid.each <= flows.each && hybrid.each < 5.0, "{name}: {hybrid:?}");
    }
}

/// Frames take much longer to play than rates do: told to end, the run is what it was when the frames had come so far.
#[test]
fn a_run_that_is_told_to_stop_is_of_the_time_to_which_frames_were_played() {
    let traffic = flow("h0", "h4", "bytes = \"40MB\"")
        + &flow("h1", "h4", "bytes = \"40MB\"")
        + &flow("h2", "h5", "bytes = \"60MB\"")
        + &flow("h3", "h1", "bytes = \"10KB\"")
        + &flow("h3", "h0", "bytes = \"10KB\"\nstart = \"4ms\"");
    let text = format!("level = \"hybrid\"\n{}", file("kind = \"star\"\nhosts = 6", &traffic));
    let mut seen: Vec<Progress> = Vec::new();
    let stopped = run_with(&load("t", &text).unwrap(), 1, &mut |progress| {
        seen.push(progress);
        if seen.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let (stopped, end) = (stopped.unwrap(), seen[2].now_ns);
    let mut all: Vec<Progress> = Vec::new();
    let whole = run_with(&load("t", &text).unwrap(), 1, &mut |progress| {
        all.push(progress);
        ControlFlow::Continue(())
    });
    let shares = all.iter().map(|p| p.share());
    assert!(shares.is_sorted() && all.is_sorted_by_key(|p| p.events) && all.len() > 3, "{all:?}");
    assert!(all.last().unwrap().events <= whole.unwrap().events);
    assert!((100_000..4_000_000).contains(&end), "{seen:?}");
    assert_eq!((stopped.stopped, stopped.end_ns, stopped.verdict), (true, end, "FAIL"));
    // As one that ends there, but for what frames do at that very moment.
    let short = play(&text.replace("\"20ms\"", &format!("\"{end}ns\"")));
    assert_eq!((short.stopped, short.end_ns), (false, end));
    assert_eq!(levels(&stopped), levels(&short));
    assert_eq!(stopped.flows[2..], short.flows[2..]);
    let ends: Vec<bool> = stopped.flows.iter().map(|f| f.fct_ns.is_some()).collect();
    assert_eq!(ends, [false, false, false, true, false], "{:?}", stopped.flows);
    for (a, b) in stopped.links.iter().zip(&short.links) {
        let shares = |l: &LinkResult| [l.busy_milli, l.bottleneck_milli.unwrap()];
        let near = shares(a).into_iter().zip(shares(b)).all(|(a, b)| a.abs_diff(b) <= 5 && a <= 1000);
        assert!(near, "{a:?} {b:?}");
    }
    let into = |to: &str| stopped.links.iter().find(|l| l.to == to).unwrap().busy_milli;
    assert!(into("h4") > 950 && into("h5") > 950, "{} {}", into("h4"), into("h5"));
}

/// Where all is played links carry what they do frame by frame, also of flows with a pace.
#[test]
fn links_carry_what_was_played() {
    let topology = "kind = \"star\"\nhosts = 6\n[link]\ndelay = \"100ns\"\n[host]\npayload = 1000";
    let paced = ["h0", "h1", "h2"].map(|from| flow(from, "h5", "bytes = \"40KB\"\nrate = \"1G\"")).concat();
    let fast = ["h3", "h4"].map(|from| flow(from, "h5", "bytes = \"1MB\"")).concat();
    let text = file(topology, &(paced + &fast));
    let links = |report: &Report| -> Vec<(u64, u64)> {
        let to_h5 = report.links.iter().filter(|l| l.to == "h5" || l.from.starts_with('h'));
        to_h5.map(|l| (l.frames, l.bytes)).collect()
    };
    let (packets, hybrid) = (play(&text), at_level("hybrid", &text));
    assert!(levels(&hybrid).iter().all(|level| *level == Level::Packet));
    assert_eq!(links(&packets), links(&hybrid));
}
