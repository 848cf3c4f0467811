//! Jobs: what their messages are, what waits for what, and what is said of them.

use super::collective::lay_out_with_engines;
use super::graph::Work;
use super::import_tests::{folder, play_in};
use super::routes::Routes;
use super::workload::{self, Planned, Traffic};
use super::{CollectiveFigures, CollectiveResult, Report, load, run};
use crate::digest::Digest;
use std::collections::BTreeMap;

/// Of the traffic of each generator, with seed 3.
const DIGESTS: [&str; 7] = [
    "96fb8b3f956bcb7e7616a001b29ab39b",
    "cf8c5c50a797989c893d2652130dbe48",
    "f85835179d5271ee4d14bae3ae515f7f",
    "9ca0a9f136fd54fa8409ea3bbf956429",
    "dd5ecb0e90544d3d983d75b0009fc36d",
    "dc3e1194b1c49bf4e272c1cab14cb980",
    "dadb3b4a4e68f2f0b2edfe938139d68f",
];

/// A star of 100G lines and a cable of 1 us.
fn play(hosts: usize, more: &str) -> Result<Report, String> {
    let text =
        format!("name = \"j\"\nstop_time = \"50ms\"\n[topology]\nkind = \"star\"\nhosts = {hosts}\n{more}");
    load("test.toml", &text).and_then(|spec| run(&spec)).map_err(|e| e.to_string())
}

fn job(hosts: usize, kind: &str, more: &str) -> Report {
    let report = play(hosts, &format!("[[workload]]\nkind = \"{kind}\"\n{more}"));
    let report = report.unwrap_or_else(|e| panic!("{kind}: {e}"));
    assert_eq!((report.verdict, report.flows_done), ("PASS", report.flows.len()), "{kind}");
    report
}

fn only(report: &Report) -> &CollectiveResult {
    assert_eq!(report.collectives.len(), 1);
    &report.collectives[0]
}

/// Bytes each host has received.
fn received(report: &Report) -> BTreeMap<&str, u64> {
    let mut all = BTreeMap::new();
    report.flows.iter().for_each(|f| *all.entry(f.to.as_str()).or_default() += f.delivered);
    all
}

/// Every message but those that begin at 0 waits for one that came to its sender at that moment.
fn follow_one_another(report: &Report) {
    let arrivals = report.flows.iter().map(|f| (f.to.as_str(), f.start_ns.unwrap() + f.fct_ns.unwrap()));
    let arrivals: Vec<_> = arrivals.collect();
    for flow in report.flows.iter().filter(|f| f.start_ns != Some(0)) {
        assert!(arrivals.contains(&(flow.from.as_str(), flow.start_ns.unwrap())), "{flow:?}");
    }
}

/// Kind, keys, messages, steps, bytes that come to each rank, bus bandwidth in that of the algorithm.
#[test]
fn every_collective_moves_what_it_must_and_is_measured_as_by_nccl_tests() {
    let eighth = 800_000 / 8;
    for (kind, more, messages, steps, each, bus) in [
        ("all_reduce", "", 112, 14, 14 * eighth, (14, 8)),
        ("reduce_scatter", "", 56, 7, 7 * eighth, (7, 8)),
        ("all_gather", "", 56, 7, 7 * eighth, (7, 8)),
        ("halving_doubling_all_reduce", "", 48, 6, 14 * eighth, (14, 8)),
        ("rail_all_reduce", "group = 4\n", 4 * 6 + 8 * 2 + 4 * 6, 8, 14 * eighth, (14, 8)),
        ("rail_all_reduce", "group = 8\n", 112, 14, 14 * eighth, (14, 8)),
        ("rail_all_reduce", "group = 1\n", 112, 14, 14 * eighth, (14, 8)),
    ] {
        let report = job(8, kind, &format!("bytes = 800000\n{more}"));
        let collective = only(&report);
        assert_eq!((report.flows.len(), collective.steps.len()), (messages, steps), "{kind} {more}");
        assert!(
            received(&report).values().all(|bytes| *bytes == each),
            "{kind} {more}: {:?}",
            received(&report)
        );
        follow_one_another(&report);
        let last = report.flows.iter().map(|f| f.start_ns.unwrap() + f.fct_ns.unwrap()).max();
        assert_eq!(
            (collective.identity.kind, collective.identity.ranks, collective.identity.bytes),
            (kind, 8, Some(800_000))
        );
        assert_eq!(
            (collective.start_ns, collective.figures.time_ns, collective.steps[steps - 1].end_ns),
            (Some(0), last, last)
        );
        let time = last.unwrap();
        assert_eq!(collective.figures.algbw_bytes_per_s, Some(800_000_000_000_000 / time));
        assert_eq!(collective.figures.busbw_bytes_per_s, Some(800_000_000_000_000 * bus.0 / (time * bus.1)));
        // Lines of 12.5 GB/s carry the bus bandwidth, less headers and what each step waits for cables.
        let bus = collective.figures.busbw_bytes_per_s.unwrap();
        assert!((4_500_000_000..12_500_000_000).contains(&bus), "{kind} {more}: {bus}");
    }
    // Leaders get three vectors, then sums of the other leader, and send the result to three.
    let report = job(8, "hierarchical_all_reduce", "bytes = 800000\ngroup = 4\n");
    assert_eq!((report.flows.len(), only(&report).steps.len()), (6 + 2 * 2 + 6, 4));
    assert_eq!((received(&report)["h0"], received(&report)["h1"]), (3 * 800_000 + 800_000, 800_000));
    // It has all three before it goes on.
    let sums = only(&report).steps[0].end_ns;
    assert!(
        report.flows.iter().any(|f| f.from == "h0" || f.from == "h4")
            && only(&report).steps[1].start_ns <= sums
    );
    let tree = job(8, "tree_all_reduce", "bytes = 800000\n");
    assert_eq!((only(&tree).identity.bytes, tree.collectives[0].steps.len()), (Some(800_000), 13));
    let tree = job(8, "tree_all_reduce", "bytes = 800000\nchunk = \"100KB\"\n");
    assert_eq!((tree.collectives[0].steps.len(), tree.flows.len()), (4, 4 * 4 * 7));
    let all = job(8, "all_to_all", "bytes = 100000\n");
    assert_eq!((only(&all).identity.bytes, only(&all).steps.len()), (Some(800_000), 7));
    let sized = job(3, "all_to_allv", "matrix = [[7, 100, 0], [\"1KB\", 0, 300], [0, 0, 0]]\n");
    let flows: Vec<_> = sized.flows.iter().map(|f| (f.from.as_str(), f.to.as_str(), f.delivered)).collect();
    assert_eq!(flows, [("h0", "h1", 100), ("h1", "h2", 300), ("h1", "h0", 1000)]);
    // The fullest rank sends 1300 bytes to two others: of a size of 1950 one third stays.
    assert_eq!(only(&sized).identity.bytes, Some(1950));
}

#[test]
fn a_rank_of_an_all_to_all_begins_all_its_messages_at_once() {
    let report = job(4, "all_to_all", "bytes = 1000\nstart = \"1us\"\nstagger = \"10us\"\n");
    assert_eq!(report.flows.len(), 12);
    for flow in &report.flows {
        let rank: u64 = flow.from[1..].parse().unwrap();
        assert_eq!(flow.start_ns, Some(1_000 + rank * 10_000), "{} to {}", flow.from, flow.to);
    }
}

/// Messages of a queue pair with selective repeat overtake one that was lost.
#[test]
fn a_step_of_a_ring_waits_for_the_one_before_whatever_overtakes() {
    let ring = "name = \"r\"\nstop_time = \"20ms\"\n[topology]\nkind = \"ring\"\nswitches = 3\nhosts_per_switch = 1\n[link]\nloss = 0.01\n[host]\n\
                transport = \"selective_repeat\"\n[[workload]]\nkind = \"all_reduce\"\nbytes = 12897\n";
    let mut resent = 0;
    for seed in 1..40 {
        let report = run(&load("test.toml", &format!("seed = {seed}\n{ring}")).unwrap()).unwrap();
        for host in ["h0", "h1", "h2"] {
            let sent = report.flows.iter().filter(|flow| flow.from == host);
            let starts: Vec<u64> = sent.filter_map(|flow| flow.start_ns).collect();
            assert!(starts.len() == 4 && starts.is_sorted(), "seed {seed}, {host}: {starts:?}");
        }
        resent += report.flows.iter().map(|flow| flow.resent).sum::<u64>();
    }
    assert!(resent > 0);
}

#[test]
fn ranks_are_where_they_are_placed() {
    let hosts = |more: &str| -> Vec<String> {
        let report = job(8, "reduce_scatter", &format!("bytes = 3000\n{more}"));
        report.flows[..report.collectives[0].identity.ranks].iter().map(|f| f.from.clone()).collect()
    };
    assert_eq!(hosts("ranks = 3\n"), ["h0", "h1", "h2"]);
    assert_eq!(hosts("ranks = 3\nplacement = \"spread\"\n"), ["h0", "h2", "h5"]);
    assert_eq!(hosts("hosts = [\"h6\", \"h1\"]\n"), ["h6", "h1"]);
    let random = hosts("placement = \"random\"\n");
    assert_eq!(random, hosts("placement = \"random\"\n"), "by the seed");
    assert_ne!(random, hosts("placement = \"packed\"\n"));
    assert!((0..8).all(|host| random.contains(&format!("h{host}"))));
    let tree = job(8, "tree_all_reduce", "bytes = 3000\nhosts = [\"h7\", \"h5\", \"h3\"]\n");
    assert!(received(&tree).keys().eq(["h3", "h5", "h7"].iter()));
    // The line is that of the key that the words name, or of the workload.
    for (kind, more, line, what) in [
        ("all_reduce", "bytes = 1\nranks = 9\n", 9, "9 `ranks`, but only 8 hosts"),
        ("all_reduce", "bytes = 1\nranks = 1\n", 6, "1 rank; a job has two at least"),
        ("all_reduce", "bytes = 1\nhosts = [\"h1\", \"h1\"]\n", 9, "`hosts` names `h1` twice"),
        ("all_reduce", "bytes = 1\nhosts = [\"h1\", \"h8\"]\n", 9, "`h8`, which is not a host"),
        (
            "all_reduce",
            "bytes = 1\nhosts = [\"h1\", \"h2\"]\nranks = 2\n",
            9,
            "take `ranks` and `placement` out",
        ),
        ("all_reduce", "bytes = 1\ngroup = 2\n", 9, "`group` means nothing here"),
        ("incast", "to = \"h1\"\nranks = 2\n", 9, "`ranks` means nothing here"),
        ("rail_all_reduce", "bytes = 1\n", 6, "needs `group`"),
        ("rail_all_reduce", "bytes = 1\ngroup = 3\n", 9, "8 ranks are no whole number of groups of 3"),
        ("halving_doubling_all_reduce", "bytes = 1\nranks = 6\n", 9, "6 ranks are no power of two"),
        ("storage", "bytes = 1\nservers = 1\nios = 1000000\n", 6, "14000000 messages; at most 4194304"),
        ("tree_all_reduce", "bytes = 1\nchunk = 0\n", 9, "`chunk` is 0"),
        ("tree_all_reduce", "bytes = \"1GB\"\nchunk = 100\n", 6, "140000000 messages; at most 4194304"),
        ("all_to_allv", "", 6, "needs `matrix`"),
        (
            "all_to_allv",
            "matrix = [[0, 1], [1, 0]]\n",
            8,
            "2 rows, one of 2 sizes, for 8 ranks; it must be square",
        ),
        ("all_to_allv", "matrix = []\n", 8, "`matrix` has 0 rows for 8 ranks; it must be square"),
        ("all_to_allv", "ranks = 2\nmatrix = [[5, 0], [0, 5]]\n", 9, "nothing to send"),
    ] {
        let said = play(8, &format!("[[workload]]\nkind = \"{kind}\"\n{more}")).unwrap_err();
        assert!(said.contains(what), "{said}\n--- should say: {what}");
        assert!(said.starts_with(&format!("test.toml:{line}: ")), "{said}\n--- should name line {line}");
    }
}

/// Who was late, and why.
#[test]
fn stragglers_are_named_with_the_cause() {
    let ring = "[[workload]]\nkind = \"all_reduce\"\nbytes = 400000\nranks = 4\n";
    let of = |more: &str| {
        let report = play(8, more).unwrap();
        let late = report.collectives[0].figures.straggler.clone().unwrap();
        (late.host, late.cause, late.late_ns)
    };
    // Alone nobody waits for more than the last of a step.
    let (_, _, alone) = of(ring);
    assert!(alone < 2_000, "{alone}");
    // Others send to h2, what h1 sends to it waits in the queue.
    let incast = "[[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = \"1MB\"\nsenders = 6\n";
    let (host, cause, late) = of(&format!("{ring}{incast}"));
    assert_eq!((host.as_str(), cause), ("h1", "queue"));
    assert!(late > 100_000, "{late}");
    // A small buffer: the host is paused instead.
    let small = "[switch.config.buffer]\nsize = \"1MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n";
    let (host, cause, late) = of(&format!("{ring}{incast}{small}"));
    assert_eq!((host.as_str(), cause), ("h1", "pause"));
    assert!(late > 50_000, "{late}");
    // Losses and a long timeout.
    let (_, cause, late) = of(&format!("{ring}[link]\nloss = 0.005\n[host]\ntimeout = \"500us\"\n"));
    assert_eq!(cause, "retransmission");
    assert!(late > 20_000, "{late}");
}

/// A rank that comes to a collective late because it waited for something else is the straggler by that, at both levels.
#[test]
fn a_rank_that_waited_for_another_message_is_the_straggler() {
    let dir = tempfile::tempdir().unwrap();
    let operations = r#"{"rank":0,"id":1,"op":"send","to":1,"bytes":5000000}
{"rank":1,"id":1,"op":"recv","from":0}
{"rank":0,"id":2,"op":"all_reduce","bytes":30000}
{"rank":1,"id":2,"op":"all_reduce","bytes":30000,"after":[1]}
{"rank":2,"id":2,"op":"all_reduce","bytes":30000}
"#;
    let file = dir.path().join("o.jsonl");
    std::fs::write(&file, operations).unwrap();
    for level in ["packet", "flow"] {
        let text = format!(
            "name = \"x\"\nlevel = \"{level}\"\nstop_time = \"10ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n[[workload]]\nkind = \"operations\"\n\
             file = {file:?}\n"
        );
        let report = run(&load("x.toml", &text).unwrap_or_else(|e| panic!("{e}"))).unwrap();
        let of = |bytes: u64| report.collectives.iter().find(|c| c.identity.bytes == Some(bytes)).unwrap();
        let all_reduce = of(30_000);
        let late = all_reduce.figures.straggler.clone().unwrap();
        assert_eq!((late.host.as_str(), late.cause), ("h1", "start"), "{level}: {late:?}");
        // It came when 5 MB had arrived, after some 434 us; the sum takes 12 us.
        let time = all_reduce.figures.time_ns.unwrap();
        assert!((5_000..15_000).contains(&(time - late.late_ns)), "{level}: {late:?} of {time}");
        let first = all_reduce.steps[0].straggler.clone().unwrap();
        assert_eq!(
            (first.host.as_str(), first.cause, first.late_ns),
            ("h1", "start", late.late_ns),
            "{level}"
        );
    }
}

/// Computations of a file begin with their rank, as its messages do: `start` shifts all of them, and `stagger` each rank by itself.
#[test]
fn computations_begin_no_earlier_than_their_rank() {
    let folder = tempfile::tempdir().unwrap();
    let line = |rank: usize| {
        format!(
            "{{\"rank\":{rank},\"id\":1,\"op\":\"compute\",\"ns\":30000}}\n\
             {{\"rank\":{rank},\"id\":2,\"op\":\"all_reduce\",\"bytes\":10000,\"after\":[1]}}\n"
        )
    };
    std::fs::write(folder.path().join("ops.jsonl"), line(0) + &line(1)).unwrap();
    for level in ["packet", "flow", "hybrid"] {
        let of = |keys: &str| {
            let text = format!(
                "name = \"x\"\nlevel = \"{level}\"\nstop_time = \"10ms\"\n[topology]\nkind = \"star\"\nhosts = 2\n[[workload]]\n\
                 kind = \"operations\"\nfile = \"ops.jsonl\"\n{keys}"
            );
            let spec = load(folder.path().join("x.toml").to_str().unwrap(), &text).unwrap();
            run(&spec).unwrap_or_else(|e| panic!("{e}"))
        };
        let starts = |report: &Report| report.flows.iter().map(|f| f.start_ns.unwrap()).min().unwrap();
        let [at_once, later, apart] = [of(""), of("start = \"100us\"\n"), of("stagger = \"50us\"\n")];
        assert_eq!((starts(&at_once), starts(&later)), (30_000, 130_000), "{level}");
        assert_eq!(later.end_ns, at_once.end_ns + 100_000, "{level}");
        let of_second = apart.flows.iter().filter(|f| f.from == "h1").map(|f| f.start_ns.unwrap());
        assert_eq!(of_second.min(), Some(80_000), "{level}");
        // Nor does their host wait for those of another job that begins later, wherever that stands.
        let job = |start: &str| {
            format!("[[workload]]\nkind = \"operations\"\nfile = \"ops.jsonl\"\nstart = \"{start}\"\n")
        };
        let ends = |report: &Report| -> Vec<u64> {
            report.collectives.iter().map(|c| c.start_ns.unwrap() + c.figures.time_ns.unwrap()).collect()
        };
        let beside = ends(&of(&job("2ms")));
        assert_eq!(beside, [at_once.end_ns, at_once.end_ns + 2_000_000], "{level}");
        let before = ends(&of(&format!("start = \"2ms\"\n{}", job("0us"))));
        assert_eq!(before, [beside[1], beside[0]], "{level}");
    }
}

/// A rank that begins late is the straggler, by as much as it is late: of every kind, at every level.
#[test]
fn a_rank_that_begins_late_is_the_straggler() {
    let kinds = [
        ("all_reduce", "bytes = 100000\n"),
        ("tree_all_reduce", "bytes = 100000\n"),
        ("halving_doubling_all_reduce", "bytes = 100000\n"),
        ("all_to_all", "bytes = 1000\n"),
        ("inc_all_reduce", "bytes = 100000\n"),
        // It begins to compute late, and the messages of others before it wait for what it sends.
        ("pipeline", "bytes = 1000\nmicrobatches = 2\nforward = \"2us\"\nbackward = \"4us\"\n"),
    ];
    let levels = ["packet", "flow", "hybrid"];
    let all = kinds.iter().flat_map(|kind| levels.map(|level| (kind, level)));
    for ((kind, keys), level) in
        all.filter(|((kind, _), level)| *kind != "inc_all_reduce" || *level == "packet")
    {
        let figures = |stagger: &str| {
            let text = format!(
                "name = \"j\"\nlevel = \"{level}\"\nstop_time = \"50ms\"\n[topology]\nkind = \"star\"\nhosts = 8\n\
                 [[workload]]\nkind = \"{kind}\"\n{keys}start = \"3us\"\n{stagger}"
            );
            let report = load("test.toml", &text).and_then(|spec| run(&spec));
            only(&report.unwrap_or_else(|e| panic!("{e}"))).clone()
        };
        let late = figures("stagger = \"50us\"\n");
        let straggler = late.figures.straggler.as_ref().unwrap();
        let is = (straggler.host.as_str(), straggler.cause, straggler.late_ns);
        assert_eq!(is, ("h7", "start", 7 * 50_000), "{kind} {level}");
        // Messages of the first step of these wait for no others of it.
        if ["all_reduce", "all_to_all", "inc_all_reduce"].contains(kind) {
            let first = late.steps[0].straggler.as_ref().map(|s| (s.host.as_str(), s.cause));
            assert_eq!(first, Some(("h7", "start")), "{kind} {level}");
        }
        let cause = figures("").figures.straggler.unwrap().cause;
        assert_ne!(cause, "start", "{kind} {level}: all begin together");
    }
}

/// Stages that compute 100 us there and 200 us back: without a bubble but that of filling and emptying.
#[test]
fn a_pipeline_takes_one_step_more_for_each_stage() {
    let keys = "bytes = 1000\nmicrobatches = 8\nforward = \"100us\"\nbackward = \"200us\"\n";
    let report = job(4, "pipeline", keys);
    assert_eq!((report.flows.len(), only(&report).steps.len()), (2 * 3 * 8, 8));
    let ideal = (8 + 3) * 300_000;
    // Cables, three there and three back for each that fills or empties.
    assert!((ideal..ideal + 60_000).contains(&report.end_ns), "{}", report.end_ns);
    let late = only(&report).figures.straggler.as_ref().unwrap();
    assert_eq!(late.cause, "compute");
    // Messages of 90 us: six to fill and empty it at least, and two for each micro-batch at most, as a stage has no more
    // micro-batches on their way than there are stages behind it.
    let wide = job(4, "pipeline", &keys.replace("1000", "\"1MB\""));
    assert!((ideal + 6 * 87_000..ideal + (6 + 16) * 93_000).contains(&wide.end_ns), "{}", wide.end_ns);
    for (keys, what) in [
        ("bytes = 1\n", "needs `microbatches`"),
        ("bytes = 1\nmicrobatches = 0\nforward = 1\nbackward = 1\n", "0 `microbatches`; it must be 1 to"),
        ("microbatches = 1\nforward = 1\nbackward = 1\n", "needs `bytes`"),
        ("bytes = 1\nmicrobatches = 1\nforward = 1\n", "needs `backward`"),
    ] {
        let said = play(4, &format!("[[workload]]\nkind = \"pipeline\"\n{keys}")).unwrap_err();
        assert!(said.contains(what), "{said}");
    }
}

/// Two stages that compute before any message is sent, and after the last one has come, beside a flow that is longer.
#[test]
fn the_time_of_a_job_is_that_of_its_computations_too() {
    let keys = "[[workload]]\nkind = \"pipeline\"\nranks = 2\nbytes = 1000\nmicrobatches = 1\nforward = \"10us\"\n\
                backward = \"1ms\"\nstart = \"5us\"\n";
    // Two that share the line of h1, so that at hybrid level the pipeline is played frame by frame.
    let others = "[[workload]]\nkind = \"incast\"\nto = \"h1\"\nbytes = \"50MB\"\npriority = 4\ndscp = 34\n";
    let at = |level: &str, stop: &str, more: &str| {
        let text = format!(
            "name = \"j\"\nlevel = \"{level}\"\nstop_time = \"{stop}\"\n[topology]\nkind = \"star\"\nhosts = 4\n{keys}{more}"
        );
        load("test.toml", &text).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}"))
    };
    for level in ["packet", "flow", "hybrid"] {
        let alone = at(level, "50ms", "");
        let job = only(&alone);
        assert_eq!((job.start_ns, job.figures.time_ns), (Some(5_000), Some(alone.end_ns - 5_000)), "{level}");
        assert!(alone.verdict == "PASS" && alone.end_ns > 2_020_000, "{level}: {}", alone.end_ns);
        let beside = at(level, "50ms", others);
        let time = only(&beside).figures.time_ns.unwrap();
        assert!((2_020_000..2_100_000).contains(&time) && beside.end_ns > 4_000_000, "{level}: {time} ns");
        // The stages compute 10 us each, then 1 ms each.
        for (stop, open, busy) in
            [("8us", 4, "h0 is at one of 10000 ns, to 15000 ns"), ("1ms", 2, "h1"), ("2ms", 1, "h0")]
        {
            let cut = at(level, stop, "");
            let said =
                cut.findings.iter().find(|said| said.contains("computations")).cloned().unwrap_or_default();
            assert!(
                said.contains(&format!("{open} of 4 computations not ended")),
                "{level}: {:?}",
                cut.findings
            );
            assert!(said.contains(busy), "{said}");
            let job = only(&cut);
            assert_eq!((cut.verdict, job.start_ns, job.figures.time_ns), ("FAIL", Some(5_000), None));
            // The last one is cut when all messages have come.
            assert_eq!(cut.flows_done == cut.flows_finite, open == 1, "{level}");
        }
    }
}

#[test]
fn storage_reads_writes_and_copies() {
    let storage = |more: &str| job(6, "storage", &format!("bytes = 100000\nservers = 2\nios = 10\n{more}"));
    let servers = ["h4", "h5"];
    let reads = storage("");
    // A request and the data for each of four clients.
    assert_eq!((reads.flows.len(), only(&reads).identity.bytes), (80, Some(4_000_000)));
    assert!(reads.flows.iter().all(|f| servers.contains(&f.from.as_str()) == (f.delivered == 100_000)));
    assert!(
        only(&reads).figures.algbw_bytes_per_s.is_some() && only(&reads).figures.busbw_bytes_per_s.is_none()
    );
    follow_one_another(&reads);
    // More at once: sooner. A server that takes its time: later, by its time at least.
    assert!(storage("depth = 4\n").end_ns < reads.end_ns);
    assert!(storage("service = \"50us\"\n").end_ns > 20 * 50_000);
    let writes = storage("reads = 0.0\n");
    assert!(writes.flows.iter().all(|f| servers.contains(&f.to.as_str()) == (f.delivered == 100_000)));
    // Data to one server, to the other, and an answer.
    let copied = storage("reads = 0.0\nreplicas = 2\n");
    assert_eq!(copied.flows.len(), 120);
    assert_eq!(copied.flows.iter().filter(|f| f.delivered == 64).count(), 40);
    assert!(
        copied.flows.iter().any(|f| servers.contains(&f.from.as_str()) && servers.contains(&f.to.as_str()))
    );
    let mixed = storage("reads = 0.5\n");
    let share =
        mixed.flows.iter().filter(|f| f.delivered == 100_000 && servers.contains(&f.from.as_str())).count();
    assert!((10..30).contains(&share), "{share} of 40 are reads");
    for (keys, what) in [
        ("servers = 6\nios = 1\n", "6 `servers` of 6 ranks; there must be one, and a client"),
        ("ios = 1\n", "needs `servers`"),
        ("servers = 1\n", "needs `ios`"),
        ("servers = 1\nios = 1\ndepth = 0\n", "`depth` 0"),
        ("servers = 1\nios = 1\nreads = 1.5\n", "`reads` is 1.5"),
        ("servers = 1\nios = 1\nreplicas = 2\n", "2 `replicas` on 1 servers"),
        ("servers = 2\nios = 1\nreplicas = 2\n", "2 `replicas` are of writes, and all `ios` read"),
    ] {
        let said = play(6, &format!("[[workload]]\nkind = \"storage\"\nbytes = 1\n{keys}")).unwrap_err();
        assert!(said.contains(what), "{said}");
    }
}

/// Plays operations on four hosts.
fn operations(lines: &str, more: &str) -> Result<Report, String> {
    operations_of(4, lines, more)
}

fn operations_of(hosts: usize, lines: &str, more: &str) -> Result<Report, String> {
    let dir = folder(&[("o.jsonl", lines)]);
    let text = format!(
        "name = \"o\"\nstop_time = \"2ms\"\n[topology]\nkind = \"star\"\nhosts = {hosts}\n[[workload]]\nkind = \"operations\"\nfile = \
         \"o.jsonl\"\n{more}"
    );
    let cut = |e: super::FabricError| e.to_string().replace(&format!("{}/", dir.path().display()), "");
    play_in(dir.path(), &text).map_err(cut)
}

#[test]
fn operations_wait_for_one_another_and_streams_do_one_thing_after_the_other() {
    let lines = r#"
        {"rank": 0, "id": 1, "op": "compute", "ns": 10000}
        {"rank": 0, "id": 2, "op": "compute", "ns": 5000}
        {"rank": 0, "id": 3, "op": "compute", "ns": 7000, "stream": 1}
        {"rank": 0, "id": 4, "op": "send", "to": 1, "bytes": 1000, "after": [2]}
        {"rank": 0, "id": 5, "op": "send", "to": 2, "bytes": 1000, "after": [3]}
        {"rank": 1, "id": 1, "op": "recv", "from": 0, "bytes": 1000}
        {"rank": 2, "id": 1, "op": "recv", "from": 0}
        {"rank": 1, "id": 2, "op": "send", "to": 0, "bytes": 50000, "after": [1]}
        {"rank": 0, "id": 6, "op": "recv", "from": 1}
        {"rank": 1, "id": 3, "op": "send", "to": 2, "bytes": 1000, "tag": 4, "after": [2]}
        {"rank": 2, "id": 2, "op": "recv", "from": 1, "tag": 4}
    "#;
    let report = operations(lines, "").unwrap();
    let start = |flow: usize| report.flows[flow].start_ns.unwrap();
    let end = |flow: usize| start(flow) + report.flows[flow].fct_ns.unwrap();
    // Stream 0 of rank 0 does both, stream 1 goes on beside it.
    assert_eq!((start(0), start(1)), (15_000, 7_000));
    assert_eq!(start(2), end(0));
    // Sending ends when the sender knows.
    assert!((end(2) + 2_000..end(2) + 2_300).contains(&start(3)), "{} {}", end(2), start(3));
    let messages = only(&report);
    assert_eq!(
        (
            messages.identity.kind,
            messages.identity.ranks,
            messages.identity.bytes,
            messages.figures.busbw_bytes_per_s
        ),
        ("messages", 3, None, None)
    );
    assert_eq!(messages.steps[0].messages, 4);
    // The ranks are where they are placed, and begin at `start`.
    let report = operations(lines, "hosts = [\"h3\", \"h0\", \"h2\"]\nstart = \"20us\"\n").unwrap();
    assert_eq!((report.flows[0].from.as_str(), report.flows[0].to.as_str()), ("h3", "h0"));
    assert_eq!((report.flows[0].start_ns, report.flows[1].start_ns), (Some(35_000), Some(27_000)));
    // A collective of one rank takes no time, and is waited for.
    let alone = r#"{"rank": 3, "id": 1, "op": "compute", "ns": 30000}
        {"rank": 3, "id": 2, "op": "all_to_all", "bytes": 1, "group": "alone", "after": [1]}
        {"rank": 3, "id": 3, "op": "send", "to": 0, "bytes": 1, "after": [2]}
        {"rank": 0, "id": 8, "op": "recv", "from": 3}"#;
    let report = operations(&format!("{lines}\n{alone}"), "").unwrap();
    assert_eq!(report.flows.iter().find(|f| f.from == "h3").unwrap().start_ns, Some(30_000));
    let of_one = report.collectives.iter().find(|c| c.identity.kind == "all_to_all").unwrap();
    let CollectiveFigures { time_ns, algbw_bytes_per_s, .. } = of_one.figures;
    assert_eq!((of_one.identity.ranks, time_ns, algbw_bytes_per_s), (1, Some(0), None));
    assert_eq!(of_one.line(), "all_to_all of 1 rank, 1 byte: 0.0 us in 0 steps");
    // Computing goes on after the last message has come.
    let tail = r#"{"rank": 1, "id": 9, "op": "compute", "ns": 500000, "after": [2]}"#;
    let report = operations(&format!("{lines}\n{tail}"), "").unwrap();
    assert!((500_000..600_000).contains(&report.end_ns), "{}", report.end_ns);
    // They are reported together: from the first computation, before any message, to the last.
    assert_eq!((only(&report).start_ns, only(&report).figures.time_ns), (Some(0), Some(report.end_ns)));
    let cut = operations(&format!("{lines}\n{}", tail.replace("500000", "5000000")), "").unwrap();
    assert_eq!((cut.verdict, cut.flows_done, only(&cut).figures.time_ns), ("FAIL", 4, None));
    assert!(
        cut.findings[0].starts_with("1 of 4 computations not ended by 2000000 ns: h1 is at"),
        "{:?}",
        cut.findings
    );
}

#[test]
fn collectives_of_files_begin_with_their_last_rank_and_hold_back_what_follows() {
    let mut lines = String::new();
    for rank in 0..4 {
        let compute = if rank == 2 { 40_000 } else { 1_000 };
        lines += &format!(
            "{{\"rank\": {rank}, \"id\": 1, \"op\": \"compute\", \"ns\": {compute}}}\n\
             {{\"rank\": {rank}, \"id\": 2, \"op\": \"all_reduce\", \"bytes\": 400000, \"after\": [1]}}\n\
             {{\"rank\": {rank}, \"id\": 3, \"op\": \"barrier\", \"after\": [2]}}\n\
             {{\"rank\": {rank}, \"id\": 4, \"op\": \"broadcast\", \"bytes\": 1000, \"group\": \"{}\", \"after\": [3]}}\n",
            rank % 2
        );
    }
    let report = operations(&lines, "").unwrap();
    let [sum, wait, one, other] = &report.collectives[..] else { panic!("{:?}", report.collectives) };
    // Groups are in the order of their names: "", "0", "1".
    assert_eq!(
        [sum, wait, one, other].map(|c| c.identity.kind),
        ["all_reduce", "barrier", "broadcast", "broadcast"]
    );
    assert_eq!([sum, wait, one, other].map(|c| c.identity.ranks), [4, 4, 2, 2]);
    assert_eq!(
        (sum.start_ns, wait.identity.bytes, wait.figures.algbw_bytes_per_s),
        (Some(1_000), None, None)
    );
    let late = sum.figures.straggler.as_ref().unwrap();
    assert_eq!((late.host.as_str(), late.cause, late.late_ns), ("h2", "compute", 39_000));
    let end = |c: &CollectiveResult| c.start_ns.unwrap() + c.figures.time_ns.unwrap();
    assert!(end(sum) > 40_000 && wait.start_ns >= sum.start_ns && one.start_ns.unwrap() > 40_000);
    // Nobody leaves a barrier before all have come to it.
    assert!(one.start_ns.unwrap() > end(sum) && other.start_ns.unwrap() > end(sum));
    assert_eq!(one.figures.busbw_bytes_per_s, one.figures.algbw_bytes_per_s);
}

/// Rank 0 sends to 1, then to 2, and so on, each as fast as its line: as many times a message as the tree has rounds, and an acknowledgement
/// between two. The root is done when its last message is acknowledged.
#[test]
fn a_broadcast_takes_its_rounds_one_after_the_other() {
    let times = [2, 3, 4, 5, 8, 16].map(|ranks: usize| {
        let lines: String = (0..ranks)
            .map(|rank| {
                format!(
                    "{{\"rank\": {rank}, \"id\": 1, \"op\": \"broadcast\", \"bytes\": 1000000}}\n\
                     {{\"rank\": {rank}, \"id\": 2, \"op\": \"compute\", \"ns\": 1, \"after\": [1]}}\n"
                )
            })
            .collect();
        let report = operations_of(ranks, &lines, "").unwrap();
        report.collectives[0].figures.time_ns.unwrap()
    });
    let [one, three, four, five, eight, sixteen] = times;
    let per_round = three - one;
    assert!((one..one + 3_000).contains(&per_round), "{times:?}");
    assert!(three.abs_diff(four) <= 1, "{times:?}");
    for (rounds, time) in [(3, five), (3, eight), (4, sixteen)] {
        assert!(time.abs_diff(one + (rounds - 1) * per_round) <= rounds, "{times:?}");
    }
}

/// A slightly slower line at one end and a long cable at the other: each host is told for what its own costs.
#[test]
fn a_line_is_told_of_the_host_whose_it_is() {
    let text = "name = \"l\"\nstop_time = \"5ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"h0\", \"h1\", \"h2\"]\nswitches = [\"s\"]\n\
                links = [{ a = \"h0\", b = \"s\" }, { a = \"h1\", b = \"s\", rate = \"99G\" }, { a = \"h2\", b = \"s\", delay = \"200us\" }]\n\
                [link]\nrate = \"100G\"\ndelay = \"1us\"\n[[workload]]\nkind = \"pipeline\"\nmicrobatches = 1\nforward = \"10us\"\n\
                backward = \"20us\"\nbytes = 1000000\n";
    let report = run(&load("l", text).unwrap()).unwrap();
    let late = only(&report).figures.straggler.clone().unwrap();
    // There and back, 199 us more each time.
    assert_eq!((&*late.host, late.cause, late.late_ns), ("h2", "line", 398_000));
}

/// What waits for a message of its own host leads back to that one, and to what held it up.
#[test]
fn a_message_that_waited_for_another_to_be_sent_has_its_straggler() {
    let bytes = 100_000;
    let broadcast: String = (0..3)
        .map(|rank| format!("{{\"rank\": {rank}, \"id\": 1, \"op\": \"broadcast\", \"bytes\": {bytes}}}\n"))
        .collect();
    let sends = format!(
        "{{\"rank\": 0, \"id\": 1, \"op\": \"send\", \"to\": 1, \"bytes\": {bytes}}}\n\
         {{\"rank\": 0, \"id\": 2, \"op\": \"send\", \"to\": 2, \"bytes\": {bytes}, \"after\": [1]}}\n\
         {{\"rank\": 1, \"id\": 1, \"op\": \"recv\", \"from\": 0}}\n{{\"rank\": 2, \"id\": 1, \"op\": \"recv\", \"from\": 0}}\n"
    );
    for lines in [broadcast, sends] {
        for (level, cause) in [("packet", "queue"), ("flow", "contention")] {
            let dir = folder(&[("o.jsonl", &lines)]);
            let others: String = ["h4", "h5"]
                .map(|from| {
                    format!(
                        "[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"h1\"\nbytes = \"2MB\"\n"
                    )
                })
                .concat();
            let text = format!(
                "name = \"o\"\nlevel = {level:?}\nstop_time = \"2ms\"\n[topology]\nkind = \"star\"\nhosts = 8\n[link]\nrate = \"100G\"\n\
                 delay = \"1us\"\n[[workload]]\nkind = \"operations\"\nfile = \"o.jsonl\"\n{others}"
            );
            let report = play_in(dir.path(), &text).unwrap();
            let late = report.collectives[0].figures.straggler.clone().unwrap();
            let excess = report.flows[0].fct_ns.unwrap() - report.flows[0].ideal_ns.unwrap();
            assert_eq!((&*late.host, late.flow, late.cause), ("h0", 0, cause), "{level}: {lines}");
            assert!(excess > 10_000 && late.late_ns.abs_diff(excess) < 50, "{level}: {late:?} {excess}");
        }
    }
}

#[test]
fn operations_that_cannot_be_are_refused_with_line_id_and_remedy() {
    let send = r#"{"rank": 0, "id": 1, "op": "send", "to": 1, "bytes": 10}"#;
    let recv = r#"{"rank": 1, "id": 7, "op": "recv", "from": 0}"#;
    for (lines, line, what) in [
        (send.to_owned(), 1, "operation 1 of rank 0 is sent and not received: rank 1 receives 0 messages"),
        (recv.to_owned(), 1, "operation 7 of rank 1 is received and not sent"),
        (format!("{send}\n{recv}\n{recv}"), 3, "add a send there"),
        (
            format!("{send}\n{recv}\n{}", r#"{"rank": 0, "id": 1, "op": "compute", "ns": 1}"#),
            3,
            "is there twice",
        ),
        (
            format!("{send}\n{}", recv.replace("\"from\": 0", "\"from\": 0, \"bytes\": 11")),
            2,
            "expects 11 bytes, and operation 1 of rank 0 sends 10",
        ),
        (
            format!("{send}\n{}", recv.replace("\"from\": 0", "\"from\": 0, \"tag\": 1")),
            1,
            "with tag 0; add a recv",
        ),
        (
            send.replace("\"to\": 1", "\"to\": 4"),
            1,
            "names rank 4, but there are 4, 0 to 3; correct it or `ranks`",
        ),
        (send.replace("\"rank\": 0", "\"rank\": 9"), 1, "names rank 9"),
        (send.replace("\"to\": 1", "\"to\": 0"), 1, "is between a rank and itself"),
        (send.replace("10}", "10, \"after\": [8]}"), 1, "a recv there"),
        (
            format!("{}\n{recv}", send.replace("10}", "10, \"after\": [8]}")),
            1,
            "waits for operation 8, which rank 0 does not have",
        ),
        (send.replace("10}", "0}"), 1, "a message of 0 bytes"),
        (
            format!("{}\n{recv}", send.replace("10}", "18000000000000000000}")),
            1,
            "18000000000000000000 bytes; at most",
        ),
        (send.replace("10}", "10, \"colour\": 1}"), 1, "unknown field `colour`"),
        (send.replace("\"bytes\": 10", "\"ns\": 10"), 1, "unknown field `ns`"),
        (send.replace("\"send\"", "0"), 1, "invalid type: integer `0`, expected a string"),
        (send.replace("\"send\"", "\"shout\""), 1, "unknown variant `shout`"),
        (send.replace("\"rank\": 0, ", ""), 1, "missing field `rank`"),
        (format!("\n{}", &send[..20]), 2, "a line is e.g."),
        (
            r#"{"rank": 0, "id": 1, "op": "compute", "ns": 99999999999999}"#.to_owned(),
            1,
            "an hour, are possible",
        ),
        (
            r#"{"rank": 0, "id": 1, "op": "compute", "ns": 1, "after": [2]}
               {"rank": 0, "id": 2, "op": "compute", "ns": 1, "after": [1]}"#
                .to_owned(),
            1,
            "in a circle, so none of them ever begins: operation 1 of rank 0, operation 2 of rank 0",
        ),
        (
            r#"{"rank": 0, "id": 1, "op": "barrier"}
               {"rank": 0, "id": 2, "op": "barrier"}
               {"rank": 1, "id": 1, "op": "barrier"}"#
                .to_owned(),
            2,
            "is number 2 of all ranks, and rank 1 has 1 only; add it there",
        ),
        (
            r#"{"rank": 0, "id": 1, "op": "all_gather", "bytes": 100}
               {"rank": 1, "id": 1, "op": "all_gather", "bytes": 200}"#
                .to_owned(),
            2,
            "differ; make them the same",
        ),
        // A rank waits for what another sends after the same collective.
        (
            r#"{"rank": 0, "id": 1, "op": "barrier"}
               {"rank": 1, "id": 1, "op": "recv", "from": 0}
               {"rank": 1, "id": 2, "op": "barrier", "after": [1]}
               {"rank": 0, "id": 2, "op": "send", "to": 1, "bytes": 1, "after": [1]}"#
                .to_owned(),
            4,
            "in a circle",
        ),
    ] {
        let said = operations(&lines, "").unwrap_err();
        // What is in no line of its own is said of the workload.
        let place = if line == 0 { "test.toml:6: ".into() } else { format!("test.toml:8: o.jsonl:{line}: ") };
        assert!(said.starts_with(&place), "{said}\n--- line {line} of\n{lines}");
        assert!(said.contains(what), "{said}\n--- should say: {what}");
    }
}

/// Who sends what to whom, over which queue pair, after what: of the generators, as it has always been.
#[test]
fn the_traffic_of_a_seed_stays_what_it_is() {
    let head = "name = \"d\"\nseed = 3\nstop_time = \"1ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 2\nspines = 2\n\
                hosts_per_leaf = 4\n";
    let digest = |workload: &str| {
        let spec = load("d.toml", &format!("{head}[[workload]]\n{workload}")).unwrap();
        let (plan, engines) = lay_out_with_engines(&spec).unwrap();
        let routes = Routes::new(&plan, spec.seed, |_| true);
        let Traffic { flows, ops, .. } = workload::flows(&spec, &plan, &routes, &engines).unwrap();
        let flow = |op: &u32| match ops[*op as usize].work {
            Work::Receive(flow) => flow,
            other => panic!("{other:?} is waited for"),
        };
        let mut text = String::new();
        for op in &ops {
            if let Work::Send(sent) = op.work {
                let Planned { from, to, src_port, path, pair, flow: f, .. } = &flows[sent as usize];
                let after: Vec<u32> = op.after.iter().map(flow).collect();
                text += &format!("{from} {to} {src_port} {path} {pair} {} {} {after:?}\n", f.bytes, f.start);
            }
        }
        Digest::of(text.as_bytes()).to_string()
    };
    let all = [
        "kind = \"incast\"\nto = \"h3\"\nbytes = 1000\nstagger = 5\n",
        "kind = \"permutation\"\nbytes = 1000\n",
        "kind = \"all_to_all\"\nbytes = 1000\nstagger = 5\n",
        "kind = \"all_reduce\"\nbytes = 100000\nstagger = 5\n",
        "kind = \"tree_all_reduce\"\nbytes = 200000\nstagger = 5\n",
        "kind = \"inc_all_reduce\"\nbytes = 100000\n",
        "kind = \"poisson\"\nload = 0.4\nsizes = \"fb_hadoop\"\nduration = \"20us\"\n",
    ];
    assert_eq!(all.map(digest), DIGESTS);
}

/// One host has a slower line, or a longer one: it is the straggler by that, whoever sends over it, and whatever waits in front of it.
#[test]
fn a_host_with_a_slow_line_is_the_straggler() {
    let kinds = [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "tree_all_reduce",
        "halving_doubling_all_reduce",
        "all_to_all",
        "rail_all_reduce\"\ngroup = 4\nplacement = \"spread",
    ];
    let names: Vec<String> = (0..8).map(|host| format!("h{host}")).collect();
    let late = |kind: &str, level: &str, bytes: &str, worse: &str| {
        let link = |host: &String| {
            let worse = if host == "h3" { worse } else { "" };
            format!("{{ a = \"{host}\", b = \"s0\"{worse} }}")
        };
        let links: Vec<String> = names.iter().map(link).collect();
        let text = format!(
            "name = \"j\"\nlevel = \"{level}\"\nstop_time = \"50ms\"\n[topology]\nkind = \"custom\"\nhosts = {names:?}\nswitches = [\"s0\"]\n\
             links = [{}]\n[link]\nrate = \"100G\"\n[[workload]]\nkind = \"{kind}\"\nbytes = \"{bytes}\"\n",
            links.join(", ")
        );
        let report = load("test.toml", &text).and_then(|spec| run(&spec));
        let report = report.unwrap_or_else(|e| panic!("{e}"));
        let late = only(&report).figures.straggler.as_ref().unwrap();
        (late.host.clone(), late.cause)
    };
    let h3 = ("h3".to_owned(), "line");
    for (kind, level) in kinds.iter().flat_map(|kind| ["packet", "flow"].map(|level| (kind, level))) {
        assert_eq!(late(kind, level, "1MB", ", rate = \"25G\""), h3, "{kind} {level}");
        assert_eq!(late(kind, level, "8KB", ", delay = \"100us\""), h3, "{kind} {level}");
        let alike = late(kind, level, "1MB", ", rate = \"100G\"");
        assert_ne!(alike.1, "line", "{kind} {level}");
    }
}
