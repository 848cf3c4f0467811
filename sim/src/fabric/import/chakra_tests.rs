//! Traces written here are read as their schema says.

use super::{Attribute, Metadata, Node, NodeType, Value};
use crate::fabric::import_tests::{folder_of, play_in};
use crate::fabric::{FabricError, Report};
use prost::Message;

fn attribute(name: &str, value: Value) -> Attribute {
    Attribute { name: name.into(), value: Some(value) }
}

fn number(name: &str, value: u64) -> Attribute {
    attribute(name, Value::Uint64(value))
}

fn node(id: u64, kind: NodeType, after: &[u64], attr: Vec<Attribute>) -> Node {
    let name = format!("{kind:?}");
    Node {
        id,
        name,
        kind: kind.into(),
        ctrl_deps: Vec::new(),
        data_deps: after.to_vec(),
        duration_micros: 0,
        attr,
    }
}

fn compute(id: u64, micros: u64, after: &[u64]) -> Node {
    Node { duration_micros: micros, ..node(id, NodeType::Comp, after, Vec::new()) }
}

/// `comm_type` and `comm_size` are of other types in other writers.
fn all_reduce(id: u64, bytes: u64, after: &[u64]) -> Node {
    let attr =
        vec![attribute("comm_type", Value::Int64(0)), attribute("comm_size", Value::Int64(bytes as i64))];
    node(id, NodeType::CommColl, after, attr)
}

fn trace(nodes: &[Node]) -> Vec<u8> {
    let mut bytes = Metadata { version: "1.0.0".into() }.encode_length_delimited_to_vec();
    nodes.iter().for_each(|node| bytes.extend(node.encode_length_delimited_to_vec()));
    bytes
}

fn play(traces: &[Vec<u8>], more: &str) -> Result<Report, String> {
    let names: Vec<String> = (0..traces.len()).map(|rank| format!("t.{rank}.et")).collect();
    // A rank without a byte has no file.
    let there = names.iter().zip(traces).filter(|(_, bytes)| !bytes.is_empty());
    let dir = folder_of(there.map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
    let text = format!(
        "name = \"c\"\nstop_time = \"2ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[[workload]]\nkind = \"chakra\"\nfile = \
         \"t.{{rank}}.et\"\n{more}"
    );
    let cut = |e: FabricError| e.to_string().replace(&format!("{}/", dir.path().display()), "");
    play_in(dir.path(), &text).map_err(cut)
}

/// Those of configs/sim/chakra.toml: ranks compute for 10 to 40 us, sum 1 MB, and hand 100 KB around.
fn shipped() -> Vec<Vec<u8>> {
    let rank = |rank: u64| {
        let to =
            vec![number("comm_dst", (rank + 1) % 4), number("comm_size", 100_000), number("comm_tag", 5)];
        let from =
            vec![number("comm_src", (rank + 3) % 4), number("comm_size", 100_000), number("comm_tag", 5)];
        trace(&[
            node(1, NodeType::Metadata, &[], vec![attribute("is_cpu_op", Value::Bool(true))]),
            compute(2, 10 * (rank + 1), &[1]),
            all_reduce(3, 1_000_000, &[2]),
            node(4, NodeType::CommSend, &[3], to),
            node(5, NodeType::CommRecv, &[3], from),
        ])
    };
    (0..4).map(rank).collect()
}

#[test]
fn the_shipped_traces_are_these_and_mean_what_the_schema_says() {
    for (rank, trace) in shipped().iter().enumerate() {
        let path = format!("{}/../configs/sim/chakra.{rank}.et", env!("CARGO_MANIFEST_DIR"));
        assert!(std::fs::read(&path).is_ok_and(|bytes| bytes == *trace), "{path} is another");
    }
    let report = play(&shipped(), "").unwrap();
    let [messages, sum] = &report.collectives[..] else { panic!("{:?}", report.collectives) };
    assert_eq!(
        (sum.identity.kind, sum.identity.ranks, sum.identity.bytes, sum.steps.len()),
        ("all_reduce", 4, Some(1_000_000), 6)
    );
    assert_eq!((sum.start_ns, messages.steps[0].messages), (Some(10_000), 4));
    let late = sum.figures.straggler.as_ref().unwrap();
    assert_eq!((late.host.as_str(), late.cause, late.late_ns), ("h3", "compute", 30_000));
    assert!(messages.start_ns > Some(40_000) && report.verdict == "PASS");
}

/// Some writers name groups by numbers.
#[test]
fn a_group_may_be_named_by_a_number() {
    let sum = |group: Value| {
        let attr = vec![number("comm_type", 0), number("comm_size", 1000), attribute("pg_name", group)];
        trace(&[node(1, NodeType::CommColl, &[], attr)])
    };
    let ranks = |groups: [Value; 4]| -> Vec<_> {
        let report = play(&groups.map(sum), "").unwrap();
        report.collectives.iter().map(|sum| (sum.identity.ranks, sum.figures.time_ns)).collect()
    };
    let texts = ranks(["0", "0", "1", "1"].map(|name| Value::Text(name.into())));
    assert_eq!(texts.len(), 2);
    assert_eq!(ranks([0, 0, 1, 1].map(Value::Int64)), texts);
    assert_eq!(ranks([-7, -7, 1, 1].map(Value::Int32)), texts);
}

/// What Chakra's converters write where nothing is communicated: others may wait for it.
#[test]
fn a_collective_of_nothing_is_done_at_once() {
    let sum = |id: u64, bytes: u64, after: &[u64]| {
        node(id, NodeType::CommColl, after, vec![number("comm_type", 0), number("comm_size", bytes)])
    };
    let of = |nodes: &[Node]| play(&[trace(nodes), trace(nodes)], "").unwrap();
    let report = of(&[compute(1, 10, &[]), sum(2, 0, &[1]), sum(3, 1000, &[2])]);
    let [one] = &report.collectives[..] else { panic!("{:?}", report.collectives) };
    assert_eq!((one.identity.bytes, one.start_ns), (Some(1000), Some(10_000)));
    assert_eq!(one.figures, of(&[compute(1, 10, &[]), sum(3, 1000, &[1])]).collectives[0].figures);
}

/// As PyTorch's own traces have it: the CPU computes beside the accelerator, and calls the collective that this one plays.
#[test]
fn what_the_cpu_does_is_a_stream_of_its_own() {
    let is_on_cpu = |is: Value| attribute("is_cpu_op", is);
    let on_cpu = |id: u64, micros: u64, kind: NodeType, after: &[u64]| {
        let attr = vec![is_on_cpu(Value::Bool(true))];
        Node { duration_micros: micros, ..node(id, kind, after, attr) }
    };
    let sum = |id: u64, after: &[u64]| {
        let mut sum = all_reduce(id, 1000, after);
        sum.attr.push(is_on_cpu(Value::Int32(0)));
        sum
    };
    let of = |nodes: &[Node]| {
        let report = play(&[trace(nodes), trace(nodes)], "").unwrap();
        report
            .collectives
            .iter()
            .filter(|c| c.identity.kind == "all_reduce")
            .map(|c| c.start_ns)
            .collect::<Vec<_>>()
    };
    let cpu = on_cpu(1, 30, NodeType::Comp, &[]);
    // Both begin at once; two of the CPU follow one another.
    assert_eq!(of(&[cpu.clone(), compute(2, 10, &[]), sum(3, &[2])]), [Some(10_000)]);
    assert_eq!(of(&[cpu.clone(), on_cpu(2, 10, NodeType::MemLoad, &[]), sum(3, &[2])]), [Some(40_000)]);
    for call in [NodeType::CommColl, NodeType::CommSend, NodeType::CommRecv] {
        assert_eq!(of(&[cpu.clone(), on_cpu(2, 5, call, &[1]), sum(3, &[2])]), [Some(35_000)], "{call:?}");
    }
    // What a thread has recorded names its caller, which is not in the trace, or waits for it.
    let mut called = Node { ctrl_deps: vec![77, 3], ..on_cpu(2, 10, NodeType::Comp, &[]) };
    called.attr.push(number("tid", 2));
    assert_eq!(of(&[called, sum(3, &[2])]), [Some(10_000)]);
    // It communicates what it says it does, whoever does it.
    let mut gloo = all_reduce(1, 1000, &[]);
    gloo.attr.push(is_on_cpu(Value::Bool(true)));
    assert_eq!(of(&[gloo]), [Some(0)]);
}

/// What a message may say, and what a computation may that takes no time.
#[test]
fn both_ends_of_a_message_may_be_named_and_no_operations_take_no_time() {
    let ends = |id, kind| {
        let attr = vec![number("comm_src", 0), number("comm_dst", 1), number("comm_size", 1000)];
        node(id, kind, &[], attr)
    };
    let idle = Node { attr: vec![number("num_ops", 0)], ..compute(1, 0, &[]) };
    let report =
        play(&[trace(&[idle, ends(2, NodeType::CommSend)]), trace(&[ends(1, NodeType::CommRecv)])], "");
    assert_eq!(report.unwrap().flows[0].delivered, 1000);
}

#[test]
fn groups_are_the_ranks_that_name_them_and_a_gather_counts_what_each_has() {
    let gather = |id: u64, group: &str| {
        let attr = vec![
            number("comm_type", 2),
            number("comm_size", 1000),
            attribute("pg_name", Value::Text(group.into())),
        ];
        node(id, NodeType::CommColl, &[], attr)
    };
    let report = play(
        &[
            trace(&[gather(1, "a")]),
            trace(&[gather(9, "b")]),
            trace(&[gather(3, "a")]),
            trace(&[gather(1, "b")]),
        ],
        "",
    );
    let report = report.unwrap();
    let pairs: Vec<_> = report.flows.iter().map(|f| (f.from.as_str(), f.to.as_str(), f.delivered)).collect();
    assert_eq!(pairs, [("h0", "h2", 1000), ("h2", "h0", 1000), ("h1", "h3", 1000), ("h3", "h1", 1000)]);
    assert_eq!(report.collectives[0].identity.bytes, Some(2000));
}

#[test]
fn traces_that_cannot_be_are_refused_with_file_node_and_remedy() {
    let good = trace(&[all_reduce(1, 1000, &[])]);
    let of = |kind: NodeType, attr: Vec<Attribute>| trace(&[node(4, kind, &[], attr)]);
    let with_ops = |value| trace(&[Node { attr: vec![value], ..compute(4, 0, &[]) }]);
    let of_another = |kind, ends: [u64; 2]| {
        let attr = vec![number("comm_src", ends[0]), number("comm_dst", ends[1]), number("comm_size", 5)];
        of(kind, attr)
    };
    for (first, what) in [
        (b"no trace".to_vec(), "t.0.et: its metadata cannot be read"),
        (good[..good.len() - 1].to_vec(), "t.0.et: behind 0 nodes the next cannot be read"),
        (
            of(NodeType::CommColl, vec![number("comm_type", 1)]),
            "t.0.et: node 4 (`CommColl`) is a REDUCE; write it",
        ),
        (of(NodeType::CommColl, vec![number("comm_type", 77)]), "which the schema does not know"),
        (of(NodeType::CommColl, vec![number("comm_type", 0)]), "has no attribute `comm_size`"),
        (of(NodeType::CommSend, vec![number("comm_size", 5)]), "has no attribute `comm_dst`"),
        (of(NodeType::CommSend, vec![number("comm_dst", 1), number("comm_size", 0)]), "has `comm_size` 0"),
        (
            of(
                NodeType::CommSend,
                vec![number("comm_dst", 1), number("comm_size", 5), attribute("comm_tag", Value::Int32(-1))],
            ),
            "has an attribute `comm_tag` that is no number from 0; correct it",
        ),
        (
            of(NodeType::CommRecv, vec![number("comm_src", 1), attribute("comm_size", Value::Int64(-5))]),
            "has an attribute `comm_size` that is no number from 0; correct it",
        ),
        (
            // As of a type that is not read.
            of(
                NodeType::CommRecv,
                vec![number("comm_src", 1), Attribute { name: "comm_tag".into(), value: None }],
            ),
            "has an attribute `comm_tag` that is no number from 0",
        ),
        (
            of(
                NodeType::CommColl,
                vec![number("comm_type", 0), number("comm_size", 5), attribute("pg_name", Value::Bool(true))],
            ),
            "has an attribute `pg_name` that is neither a text nor a number",
        ),
        (
            of(NodeType::CommRecv, vec![number("comm_src", 1), number("comm_tag", 1), number("comm_tag", 2)]),
            "has the attribute `comm_tag` twice",
        ),
        (
            trace(&[compute(1, 3_600_000_001, &[])]),
            "has `duration_micros` 3600000001; at most 3600000000, an hour",
        ),
        (
            of(NodeType::Comp, vec![attribute("is_cpu_op", Value::Text("yes".into()))]),
            "has an attribute `is_cpu_op` that is neither true nor false",
        ),
        (of(NodeType::Invalid, vec![]), "is of type 0, which is not one of the schema"),
        (with_ops(number("num_ops", 5)), "has `num_ops` and no `duration_micros`"),
        (with_ops(attribute("num_ops", Value::Int64(-5))), "has `num_ops` and no `duration_micros`"),
        (with_ops(attribute("num_ops", Value::Text("5".into()))), "has `num_ops` and no `duration_micros`"),
        // As of a floating-point type, which is not read.
        (
            with_ops(Attribute { name: "num_ops".into(), value: None }),
            "has `num_ops` and no `duration_micros`",
        ),
        (
            of_another(NodeType::CommSend, [1, 1]),
            "has `comm_src` 1, and this is the trace of rank 0; call its file",
        ),
        (
            of_another(NodeType::CommRecv, [1, 1]),
            "has `comm_dst` 1, and this is the trace of rank 0; call its file",
        ),
        (
            of(NodeType::CommSend, vec![number("comm_dst", 2), number("comm_size", 5)]),
            "t.0.et: operation 4 of rank 0 names rank 2, but there are 2, 0 to 1",
        ),
        (
            of(NodeType::CommSend, vec![number("comm_dst", 1), number("comm_size", 5)]),
            "t.0.et: operation 4 of rank 0 is sent and not received",
        ),
        (trace(&[compute(1, 1, &[2]), compute(2, 1, &[1]), all_reduce(3, 1000, &[])]), "in a circle"),
        (
            trace(&[compute(1, 5, &[])]),
            "operation 1 of rank 1 is number 1 of all ranks, and rank 0 has none; add it",
        ),
        (
            trace(&[compute(1, 1, &[3]), all_reduce(2, 1000, &[])]),
            "waits for operation 3, which rank 0 does not have",
        ),
        (
            trace(&[all_reduce(1, 1000, &[]), all_reduce(2, 1000, &[])]),
            "is number 2 of all ranks, and rank 1 has 1 only; add it there, or name the group of those that have it",
        ),
    ] {
        let said = play(&[first, good.clone()], "").unwrap_err();
        assert!(said.starts_with("test.toml:8: ") || said.starts_with("test.toml:6: "), "{said}");
        assert!(said.contains(what), "{said}\n--- should say: {what}");
    }
    let said = play(&[good.clone(), good.clone(), good], "ranks = 2\n").unwrap_err();
    assert!(said.contains("3 traces, but 2 ranks"), "{said}");
    let good = trace(&[all_reduce(1, 1000, &[])]);
    let said = play(&[good.clone(), good.clone(), good.clone()], "ranks = 4\n").unwrap_err();
    assert!(said.contains("3 traces, but 4 ranks"), "{said}");
    let said = play(&[good.clone(), good.clone(), Vec::new(), good], "").unwrap_err();
    assert!(said.contains("t.2.et: cannot be read"), "{said}");
}

/// What a trace lists first decides nothing: what can begin first does.
#[test]
fn nodes_are_taken_in_the_order_of_what_they_wait_for() {
    let sum = |id: u64, bytes: u64, after: &[u64]| all_reduce(id, bytes, after);
    let first = trace(&[sum(1, 1000, &[]), sum(2, 5000, &[1]), compute(3, 1, &[2])]);
    let as_listed = play(&[first.clone(), first.clone()], "").unwrap();
    // The same graph, with other numbers and listed from its end.
    let second = trace(&[compute(5, 1, &[7]), sum(7, 5000, &[9]), sum(9, 1000, &[])]);
    let report = play(&[first, second], "").unwrap();
    let figures = |report: &Report| -> Vec<_> {
        report.collectives.iter().map(|sum| (sum.identity.bytes, sum.start_ns, sum.figures.time_ns)).collect()
    };
    assert_eq!(figures(&report), figures(&as_listed));
    assert_eq!(report.collectives[0].identity.bytes, Some(1000));
}

/// A name without the number of the rank is that of one trace.
#[test]
fn the_trace_of_one_rank_is_told_as_such() {
    let bytes = trace(&[all_reduce(1, 1000, &[])]);
    let dir = folder_of([("z.0.et", bytes.as_slice())].into_iter());
    let text = "name = \"c\"\nstop_time = \"2ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[[workload]]\nkind = \"chakra\"\nfile = \
                \"z.0.et\"\n";
    let said = play_in(dir.path(), text).unwrap_err().to_string();
    assert!(said.starts_with("test.toml:8: ") && said.contains("write {rank} where"), "{said}");
}

/// There are as many ranks as traces, wherever they are placed; hosts without a trace are too many.
#[test]
fn ranks_are_as_many_as_traces() {
    let bytes = trace(&[all_reduce(1, 1000, &[])]);
    let names: Vec<String> = (0..4).map(|rank| format!("c.{rank}.et")).collect();
    let dir = folder_of(names.iter().map(|name| (name.as_str(), bytes.as_slice())));
    let of = |more: &str| {
        let text = format!(
            "name = \"c\"\nstop_time = \"2ms\"\n[topology]\nkind = \"star\"\nhosts = 16\n[[workload]]\nkind = \"chakra\"\nfile = \"c.{{rank}}.et\"\n{more}"
        );
        let played = play_in(dir.path(), &text).map_err(|e| e.to_string());
        played
            .map(|report| report.flows.into_iter().map(|f| f.from).collect::<std::collections::BTreeSet<_>>())
    };
    let hosts = |all: [u32; 4]| Ok(all.map(|host| format!("h{host}")).into());
    assert_eq!((of(""), of("placement = \"spread\"\n")), (hosts([0, 1, 2, 3]), hosts([0, 4, 8, 12])));
    assert_eq!(of("placement = \"spread\"\nranks = 4\n"), hosts([0, 4, 8, 12]));
    for more in ["ranks = 6\n", "hosts = [\"h0\", \"h1\", \"h2\", \"h3\", \"h4\", \"h5\"]\n"] {
        assert!(of(more).unwrap_err().contains("4 traces, but 6 ranks; change"), "{more}");
    }
}
