//! Every kind of workload, and every key of a file, says the same on any number of threads.

use crate::fabric::keys;
use crate::fabric::spec::Pattern;
use crate::fabric::{FabricSpec, FlowsFormat, Undivided, json_schema, load_in, run_with};
use std::ops::ControlFlow;
use std::path::Path;

/// All kinds the reader knows.
fn kinds() -> Vec<Pattern> {
    let schema = json_schema();
    let kinds = schema["$defs"]["Pattern"]["oneOf"].as_array().unwrap();
    kinds.iter().map(|kind| serde_json::from_value(kind["const"].clone()).unwrap()).collect()
}

/// What a workload of this kind needs, among sixteen hosts.
fn of_kind(kind: Pattern) -> &'static str {
    match kind {
        Pattern::Flow => "from = \"h0\"\nto = \"h9\"\nbytes = \"200KB\"",
        Pattern::Incast => "to = \"h2\"\nbytes = \"30KB\"\nstagger = \"100ns\"",
        Pattern::Permutation => "bytes = \"60KB\"",
        Pattern::AllToAll => "bytes = \"4KB\"",
        Pattern::AllReduce | Pattern::TreeAllReduce => "bytes = \"150KB\"\nstagger = \"70ns\"",
        Pattern::ReduceScatter | Pattern::AllGather => "bytes = \"200KB\"\nplacement = \"random\"",
        Pattern::HalvingDoublingAllReduce => "bytes = \"100KB\"\nplacement = \"spread\"\nranks = 8",
        Pattern::HierarchicalAllReduce | Pattern::RailAllReduce => "bytes = \"100KB\"\ngroup = 4",
        Pattern::IncAllReduce => "bytes = \"32KB\"",
        Pattern::AllToAllV => {
            "ranks = 3\nplacement = \"spread\"\nmatrix = [[0, \"40KB\", \"9KB\"], [\"1B\", 0, 0], [\"90KB\", \"3KB\", 0]]"
        }
        Pattern::Pipeline => {
            "ranks = 5\nmicrobatches = 4\nforward = \"3us\"\nbackward = \"5us\"\nbytes = \"50KB\""
        }
        Pattern::Storage => {
            "servers = 5\nios = 4\nbytes = \"20KB\"\ndepth = 2\nreads = 0.5\nreplicas = 3\nservice = \"900ns\""
        }
        Pattern::Poisson => "sizes = \"fb_hadoop\"\nload = 0.3\nduration = \"60us\"",
        Pattern::HtsimMatrix => "file = \"htsim.cm\"",
        Pattern::HpccFlows => "file = \"hpcc-flows.txt\"\norigin = \"2s\"",
        Pattern::Operations => "file = \"operations.jsonl\"\nplacement = \"spread\"\nranks = 3",
        Pattern::Chakra => "file = \"chakra.{rank}.et\"\nplacement = \"spread\"\nranks = 4",
    }
}

/// A workload of a kind, and beside it others on the same hosts: flows that begin at times of their own, and queue pairs that are
/// opened when something else has ended.
fn file(kind: Pattern, level: &str, host: &str) -> String {
    let (keys, word) = (of_kind(kind), kind.word());
    format!(
        "name = \"{word}\"\nstop_time = \"4ms\"\nlevel = \"{level}\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 4\nspines = 3\n\
         hosts_per_leaf = 4\n{host}[switch.config.buffer]\nsize = \"4MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
         [[workload]]\nkind = \"{word}\"\n{keys}\n\
         [[workload]]\nkind = \"poisson\"\nbytes = \"3KB\"\nload = 0.2\nduration = \"40us\"\n"
    )
}

fn read(text: &str) -> FabricSpec {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/sim");
    load_in("x.toml", text, &folder).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Its report on these threads is that on one. Why one played it all the same; `None` of the whole: it is refused.
fn divided(spec: &FabricSpec, threads: &[usize]) -> Option<Option<Undivided>> {
    let report = |threads| run_with(spec, threads, &mut |_| ControlFlow::Continue(()));
    let one = report(1).ok()?;
    let mut undivided = None;
    for threads in threads.iter().copied() {
        let other = report(threads).unwrap_or_else(|e| panic!("{}: {e}", spec.name));
        let (a, b) = (one.to_json(), other.to_json());
        let differ = a.lines().zip(b.lines()).find(|(a, b)| a != b);
        assert!(a == b, "{}, {threads} threads: {differ:?}", spec.name);
        assert_eq!(
            other.tables(FlowsFormat::Csv).unwrap(),
            one.tables(FlowsFormat::Csv).unwrap(),
            "{}, {threads} threads",
            spec.name
        );
        undivided = other.undivided;
    }
    Some(undivided)
}

#[test]
fn every_kind_of_workload_is_the_same_on_any_number_of_threads() {
    for kind in kinds() {
        let spec = read(&file(kind, "packet", ""));
        assert_eq!(divided(&spec, &[2, 3, 7]), Some(None), "{}", kind.word());
    }
}

#[test]
fn kinds_over_rc_link_are_the_same_on_any_number_of_threads() {
    let host = "[host]\nprotocol = \"rclink\"\n";
    for kind in kinds() {
        let spec = read(&file(kind, "packet", host));
        let refused = kind == Pattern::IncAllReduce;
        assert_eq!(divided(&spec, &[2, 3]), (!refused).then_some(None), "{}", kind.word());
    }
}

#[test]
fn examples_of_sums_and_of_rc_link_are_the_same_on_any_number_of_threads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/sim");
    let mut played = 0;
    for file in std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()) {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let name = file.file_name().unwrap().to_string_lossy();
        if !(name.ends_with(".toml") && (text.contains("inc_all_reduce") || text.contains("\"rclink\""))) {
            continue;
        }
        let spec = load_in(&name, &text, &folder).unwrap_or_else(|e| panic!("{e}"));
        let one_switch = ["inc-star.toml", "scenario-a.toml"].contains(&&*name);
        let why = one_switch.then_some(Undivided::Topology);
        assert_eq!(divided(&spec, &[2, 3]), Some(why), "{name}");
        played += 1;
    }
    assert_eq!(played, 7);
}

#[test]
fn kinds_at_hybrid_level_are_the_same_on_any_number_of_threads() {
    let mut played = 0;
    for kind in kinds() {
        // What depends on other flows is refused if it passes a congested link.
        let spec = read(&file(kind, "hybrid", ""));
        played += usize::from(divided(&spec, &[2, 3]).is_some());
    }
    assert!(played > 5, "{played}");
}

#[test]
fn every_key_is_the_same_on_any_number_of_threads() {
    let mut apart = 0;
    for (key, text) in keys::every_legal_file() {
        let spec = keys::read(&text).unwrap_or_else(|e| panic!("{key}: {e}"));
        apart += usize::from(divided(&FabricSpec { name: key.into(), ..spec }, &[3]) == Some(None));
    }
    assert!(apart > 100, "{apart}");
}
