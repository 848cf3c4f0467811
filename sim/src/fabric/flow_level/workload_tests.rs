//! Every kind of workload at hybrid level: as frame by frame, or refused by name.

use super::tests::{file, play};
use crate::fabric::import_tests::folder;
use crate::fabric::{CollectiveResult, Level, Report, json_schema, load_in, run};
use std::path::Path;

/// Ends of a run, and of a collective, are no further from those of the packet run, percent.
const WITHIN: u64 = 2;

/// Nothing to itself, to all others something else.
const MATRIX: &str =
    "[[0, \"90KB\", 7, \"30KB\"], [\"20KB\", 0, \"50KB\", 0], [1, 2, 0, 3], [\"40KB\", 0, \"10KB\", 0]]";

/// What becomes of a workload at hybrid level that passes a congested link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// With all of its flows that wait for one another.
    Played,
    /// Neither level has it.
    Unknown,
}

/// Files that kinds are read from.
fn files() -> tempfile::TempDir {
    folder(&[
        (
            "free.cm",
            "Nodes 8\nConnections 3\n0->3 start 0 size 90000\n1->3 start 0 size 90000\n4->5 start 0 size 9000\n",
        ),
        (
            "triggered.cm",
            "Nodes 8\nConnections 2\nTriggers 1\n0->3 id 1 start 0 size 90000 send_done_trigger 1\n\
             3->0 id 2 trigger 1 size 90000\ntrigger id 1 oneshot\n",
        ),
        ("flows.txt", "2\n0 3 3 100 90000 0\n1 3 3 100 90000 0\n"),
        (
            "free.jsonl",
            "{\"rank\": 0, \"id\": 1, \"op\": \"send\", \"to\": 3, \"bytes\": 90000}\n\
             {\"rank\": 1, \"id\": 1, \"op\": \"send\", \"to\": 3, \"bytes\": 90000}\n\
             {\"rank\": 3, \"id\": 1, \"op\": \"recv\", \"from\": 0}\n\
             {\"rank\": 3, \"id\": 2, \"op\": \"recv\", \"from\": 1}\n",
        ),
        (
            "sum.jsonl",
            "{\"rank\": 0, \"id\": 1, \"op\": \"all_reduce\", \"bytes\": 90000}\n\
             {\"rank\": 3, \"id\": 1, \"op\": \"all_reduce\", \"bytes\": 90000}\n",
        ),
    ])
}

/// Keys of workloads of a kind that send something to h3, or from it over an uplink, and what becomes of them.
fn of_kind(kind: &str) -> Vec<(String, Fate)> {
    use Fate::{Played, Unknown};
    let ranks = |more: &str, fate| vec![(format!("ranks = 4\n{more}"), fate)];
    let read = |files: &[(&str, Fate)]| {
        files.iter().map(|(file, fate)| (format!("file = \"{file}\"\n"), *fate)).collect()
    };
    match kind {
        "flow" => vec![("from = \"h0\"\nto = \"h3\"\nbytes = \"90KB\"\n".into(), Played)],
        "incast" => vec![("to = \"h3\"\nsenders = 3\nbytes = \"90KB\"\n".into(), Played)],
        "permutation" => ranks("shift = 1\nbytes = \"90KB\"\n", Played),
        "all_to_all" => ["bytes = \"16KB\"\n", "bytes = \"16KB\"\nstagger = \"300ns\"\n"]
            .into_iter()
            .flat_map(|keys| ranks(keys, Played))
            .collect(),
        "all_to_allv" => ranks(&format!("matrix = {MATRIX}\n"), Played),
        "poisson" => {
            vec![("to = \"h3\"\nbytes = \"20KB\"\nload = 0.8\nduration = \"30us\"\n".into(), Played)]
        }
        "all_reduce"
        | "reduce_scatter"
        | "all_gather"
        | "tree_all_reduce"
        | "halving_doubling_all_reduce" => ranks("bytes = \"90KB\"\n", Played),
        "hierarchical_all_reduce" | "rail_all_reduce" => ranks("group = 2\nbytes = \"90KB\"\n", Played),
        "pipeline" => {
            ranks("microbatches = 2\nbytes = \"90KB\"\nforward = \"1us\"\nbackward = \"1us\"\n", Played)
        }
        "storage" => ranks("servers = 1\nios = 2\nbytes = \"90KB\"\n", Played),
        "htsim_matrix" => read(&[("free.cm", Played), ("triggered.cm", Played)]),
        "hpcc_flows" => read(&[("flows.txt", Played)]),
        "operations" => read(&[("free.jsonl", Played), ("sum.jsonl", Played)])
            .into_iter()
            .map(|(keys, fate): (String, Fate)| (keys + "ranks = 4\n", fate))
            .collect(),
        "chakra" => {
            let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/sim/chakra.{rank}.et");
            ranks(&format!("file = \"{}\"\n", shipped.display()), Played)
        }
        "inc_all_reduce" => vec![("bytes = \"16KB\"\n".into(), Unknown)],
        other => panic!("no workload of kind {other} is played at hybrid level: add one"),
    }
}

/// All words of `kind` that the reader takes.
fn kinds() -> Vec<String> {
    let schema = json_schema();
    let words = schema["$defs"]["Pattern"]["oneOf"].as_array().expect("kinds").clone();
    let word = |one: &serde_json::Value| one["const"].as_str().expect("a word").to_owned();
    words.iter().map(word).collect()
}

/// All of it has ended when it ends frame by frame, or nearly so.
fn assert_as_packets(packets: &Report, hybrid: &Report, text: &str) {
    let near = |a: u64, b: u64| a.abs_diff(b) * 100 <= a * WITHIN;
    let ended = |r: &Report| (r.verdict, r.flows_done, r.flows.len(), r.collectives.len());
    assert_eq!(ended(packets), ended(hybrid), "{text}");
    assert!(near(packets.end_ns, hybrid.end_ns), "{} {}\n{text}", packets.end_ns, hybrid.end_ns);
    for (a, b) in packets.collectives.iter().zip(&hybrid.collectives) {
        assert_eq!(
            (a.identity.kind, a.identity.ranks, a.identity.bytes),
            (b.identity.kind, b.identity.ranks, b.identity.bytes),
            "{text}"
        );
        let messages = |c: &CollectiveResult| c.steps.iter().map(|s| s.messages).collect::<Vec<_>>();
        assert_eq!(messages(a), messages(b), "{text}");
        let times = |c: &CollectiveResult| [c.start_ns.expect("began"), c.figures.time_ns.expect("ended")];
        for (a, b) in times(a).into_iter().zip(times(b)) {
            assert!(near(a, b), "{a} {b}\n{text}");
        }
    }
    assert!(hybrid.links.iter().all(|l| l.busy_milli <= 1000 && l.bottleneck_milli <= Some(1000)), "{text}");
}

#[test]
fn every_kind_of_workload_is_played_as_packets_are_or_refused() {
    let dir = files();
    let at = |level: &str, text: &str| {
        let text = format!("level = \"{level}\"\n{text}");
        load_in("test.toml", &text, dir.path()).and_then(|spec| run(&spec)).map_err(|e| e.to_string())
    };
    let incast = "[[workload]]\nkind = \"incast\"\nto = \"h3\"\nsenders = 6\nbytes = \"100KB\"\n";
    let kinds = kinds();
    assert!(kinds.len() >= 20, "{kinds:?}");
    for topology in [
        "kind = \"star\"\nhosts = 8",
        "kind = \"fat_tree\"\nk = 4",
        "kind = \"leaf_spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 4\noversubscription = 2",
    ] {
        for (kind, (keys, fate)) in
            kinds.iter().flat_map(|kind| of_kind(kind).into_iter().map(move |w| (kind, w)))
        {
            let workload = format!("[[workload]]\nkind = \"{kind}\"\n{keys}");
            for beside in ["", incast] {
                let text = file(topology, &(beside.to_owned() + &workload));
                let packets = at("packet", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
                match (at("hybrid", &text), fate) {
                    (Ok(hybrid), Fate::Played) => assert_as_packets(&packets, &hybrid, &text),
                    (Err(e), Fate::Unknown) => assert!(e.contains("play level = \"packet\""), "{e}\n{text}"),
                    (hybrid, fate) => panic!("{fate:?}, and it is {:?}\n{text}", hybrid.map(|r| r.verdict)),
                }
            }
        }
    }
}

/// Of a collective some parts are frames, and others are not: what is said of it is of both.
#[test]
fn a_collective_is_reported_with_its_parts_of_both_levels() {
    let text = file(
        "kind = \"star\"\nhosts = 4",
        "[[workload]]\nkind = \"incast\"\nto = \"h2\"\nsenders = 2\nbytes = \"100KB\"\n\
         [[workload]]\nkind = \"all_to_all\"\nhosts = [\"h3\", \"h2\"]\nbytes = \"10KB\"\n",
    );
    let (packets, hybrid) = (play(&text), play(&format!("level = \"hybrid\"\n{text}")));
    let levels: Vec<_> = hybrid.flows.iter().filter_map(|f| f.level).collect();
    assert_eq!(levels, [Level::Packet, Level::Packet, Level::Packet, Level::Flow], "{:?}", hybrid.why);
    assert_as_packets(&packets, &hybrid, &text);
    let straggler = |report: &Report| report.collectives[0].figures.straggler.clone().expect("one was last");
    assert_eq!(straggler(&packets), straggler(&hybrid));
    assert_eq!((straggler(&hybrid).host.as_str(), straggler(&hybrid).cause), ("h3", "queue"));
}
