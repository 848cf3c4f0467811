//! Files of other simulators: what they mean here, and what is refused with file, line and remedy.

use super::keys::without_identity;
use super::{FabricError, Report, load_in, run};
use std::path::Path;
use weir_dataplane::rng::Rng;

/// A folder with these files.
pub(super) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    folder_of(files.iter().map(|(name, text)| (*name, text.as_bytes())))
}

pub(super) fn folder_of<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

pub(super) fn play_in(dir: &Path, text: &str) -> Result<Report, FabricError> {
    load_in("test.toml", text, dir).and_then(|spec| run(&spec))
}

/// Four hosts at a switch, and a matrix.
fn matrix(matrix: &str, more: &str) -> Result<Report, String> {
    let dir = folder(&[("m.cm", matrix)]);
    let text = format!(
        "name = \"m\"\nstop_time = \"2ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[[workload]]\nkind = \"htsim_matrix\"\nfile = \
         \"m.cm\"\n{more}"
    );
    // Where the folder is does not matter.
    let cut = |e: FabricError| e.to_string().replace(&format!("{}/", dir.path().display()), "");
    play_in(dir.path(), &text).map_err(cut)
}

/// First and last moment of a flow, ns.
fn span(report: &Report, flow: usize) -> (u64, u64) {
    let flow = &report.flows[flow];
    let start = flow.start_ns.unwrap();
    (start, start + flow.fct_ns.unwrap())
}

#[test]
fn starts_are_picoseconds_and_origin_and_start_move_them() {
    let text = "Nodes 4\nConnections 3\n# three\n0->1 start 0 size 1000\n1->2 start 1500001 size 1000\n\
                2->3 start 2.5e6 size 1000\n";
    let starts = |more: &str| -> Vec<u64> {
        matrix(text, more).unwrap().flows.iter().map(|f| f.start_ns.unwrap()).collect()
    };
    assert_eq!(starts(""), [0, 1501, 2500]);
    assert_eq!(starts("start = \"1us\"\n"), [1000, 2501, 3500]);
    let report = |more: &str| {
        matrix("Nodes 4\nConnections 2\n0->1 start 2 size 9\n1->2 start 1.5 size 9\n", more).unwrap()
    };
    let starts = |report: &Report| report.flows.iter().map(|f| f.start_ns.unwrap()).collect::<Vec<_>>();
    let asks = |report: &Report| report.why.iter().any(|why| why.contains("set `start_unit = \"us\"`"));
    let [unsaid, ps, us] = ["", "start_unit = \"ps\"\n", "start_unit = \"us\"\n"].map(report);
    assert_eq!([starts(&unsaid), starts(&ps), starts(&us)], [vec![1, 1], vec![1, 1], vec![2000, 1500]]);
    assert_eq!([asks(&unsaid), asks(&ps), asks(&us)], [true, false, false]);
    let late = matrix(text, "origin = \"1us\"\n").unwrap_err();
    assert!(late.starts_with("test.toml:8: m.cm:4: begins 0 ns after 0, before `origin`, 1000 ns"), "{late}");
    let text = text.replace("start 0", "start 1000000");
    let moved = matrix(&text, "origin = \"1us\"\n").unwrap();
    assert_eq!(span(&moved, 1).0, 501);
}

/// What some editors put in front of UTF-8 is no part of the first word.
#[test]
fn files_may_begin_with_a_byte_order_mark() {
    let plain = "Nodes 4\nConnections 1\n0->1 start 0 size 1000\n";
    let marked = matrix(&format!("\u{feff}{plain}"), "").unwrap();
    assert_eq!(without_identity(&marked), without_identity(&matrix(plain, "").unwrap()));
    let (network, flows) = (format!("\u{feff}{NETWORK}"), format!("\u{feff}{FLOWS}"));
    let dir = folder(&[("t.txt", &network), ("f.txt", &flows)]);
    let head = "name = \"t\"\nprofile = \"weir\"\nstop_time = \"2ms\"\n";
    let report = play_in(dir.path(), &format!("{head}{IMPORTED}{IMPORTED_FLOWS}"));
    assert!(report.is_ok(), "{report:?}");
}

#[test]
fn triggers_fire_as_htsim_says() {
    // A receiver knows at once, a sender a cable later: 1 us, and an acknowledgement.
    let text = "Nodes 4\nConnections 3\nTriggers 2\n0->1 id 1 start 0 size 100000 send_done_trigger 1 recv_done_trigger 2\n\
                2->3 id 2 trigger 1 size 1000\n3->2 id 3 trigger 2 size 1000\ntrigger id 1 oneshot\ntrigger id 2 oneshot\n";
    let report = matrix(text, "").unwrap();
    let end = span(&report, 0).1;
    assert_eq!(span(&report, 2).0, end);
    let acknowledged = span(&report, 1).0 - end;
    assert!((2_000..2_200).contains(&acknowledged), "two cables and 70 bytes: {acknowledged}");
    assert_eq!(report.flows_done, 3);

    // The nth activation starts the nth connection, whoever it is of.
    let text = "Nodes 4\nConnections 4\nTriggers 1\n0->1 id 1 start 0 size 900000 recv_done_trigger 7\n\
                2->3 id 2 start 0 size 1000 recv_done_trigger 7\n1->0 id 3 trigger 7 size 1000\n3->2 id 4 trigger 7 size \
                1000\ntrigger id 7 multishot\n";
    let report = matrix(text, "").unwrap();
    assert_eq!(span(&report, 2).0, span(&report, 1).1, "the short one comes first");
    assert_eq!(span(&report, 3).0, span(&report, 0).1);

    // A barrier waits for all and starts all.
    let text = text.replace("multishot", "barrier count 2");
    let report = matrix(&text, "").unwrap();
    assert_eq!([2, 3].map(|flow| span(&report, flow).0), [span(&report, 0).1; 2]);

    // Without an end.
    let report = matrix("Nodes 2\nConnections 1\n0->1 start 0 size 0\n", "").unwrap();
    assert_eq!((report.flows_finite, report.flows[0].bytes, report.verdict), (0, None, "PASS"));
    assert!(report.flows[0].delivered > 20_000_000, "2 ms of 100G");
}

/// RC Link acknowledges, too; in its LITE mode what is sent is done.
#[test]
fn rc_link_hosts_know_what_has_arrived_or_in_lite_mode_what_was_sent() {
    let text = "Nodes 4\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 100000 send_done_trigger 1\n2->3 id 2 trigger 1 \
                size 1000\ntrigger id 1 oneshot\n";
    let host = "[switch.config.buffer]\nsize = \"8MiB\"\n[host]\nprotocol = \"rclink\"\n";
    let report = matrix(text, host).unwrap();
    assert_eq!(report.flows_done, 2);
    assert!(span(&report, 1).0 > span(&report, 0).1 + 1000);
    for lite in ["retransmit = false", "format = \"afh_lite\""] {
        let report = matrix(text, &format!("{host}[host.rclink]\n{lite}\n")).unwrap();
        // It waits for the last frame to be sent, and no longer: that has the cable still before it.
        let (sent, next) = (span(&report, 0), span(&report, 1).0);
        assert!(report.flows_done == 2 && next > sent.0 + 7_000 && next < sent.1, "{lite}: {sent:?} {next}");
    }
}

#[test]
fn a_matrix_that_cannot_be_is_refused_with_line_and_remedy() {
    let cases = [
        ("Nodes 9\nConnections 0\n", 1, "`Nodes 9`, but the fabric has 4 hosts; correct"),
        ("Connections 0\n", 1, "begin with `Nodes`"),
        ("Nodes 4\nConnections 2\n0->1 start 0 size 1\n", 2, "`Connections 2`, but there are 1; correct"),
        ("Nodes 4\nConnections 1\n0->4 start 0 size 1\n", 3, "host 4, but `Nodes 4` has 0 to 3 only"),
        ("Nodes 4\nConnections 1\n2->2 start 0 size 1\n", 3, "does not send to itself"),
        ("Nodes 4\nConnections 1\n0-1 start 0 size 1\n", 3, "`0-1` begins no line"),
        ("Nodes 4\nConnections 1\n0->b start 0 size 1\n", 3, "`0->b` is no pair of hosts such as 0->13"),
        ("Nodes 4\nConnections 1\n0->1 size 1\n", 3, "add `start 0`"),
        ("Nodes 4\nConnections 1\n0->1 start 0\n", 3, "has no `size`; add one"),
        (
            "Nodes 4\nConnections 1\n0->1 start -3 size 1\n",
            3,
            "`-3` behind `start` is no time in picoseconds",
        ),
        ("Nodes 4\nConnections 1\n0->1 start 0 size many\n", 3, "`many` behind `size` is not a number"),
        ("Nodes 4\nConnections 1\n0->1 start 0 size 1 prio 3\n", 3, "`prio` is about transports of htsim"),
        ("Nodes 4\nConnections 1\n0->1 start 0 size 1 colour\n", 3, "`colour` is no word of a connection"),
        ("Nodes 4\nConnections 1\n0->1 id 1 start 0 trigger 1 size 1\n", 3, "begins twice"),
        ("Nodes 4\nConnections 1\n0->1 trigger 1 size 1\n", 3, "has no `id`; add one"),
        ("Nodes 4\nConnections 2\n0->1 id 1 start 0 size 1\n1->2 id 1 start 0 size 1\n", 4, "id 1 is taken"),
        ("Nodes 4\nConnections 1\n0->1 id 0 start 0 size 1\n", 3, "number from 1"),
        (
            "Nodes 4\nConnections 1\n0->1 start 0 size 0 send_done_trigger 1\n",
            3,
            "so its trigger never fires",
        ),
        ("Nodes 4\nConnections 1\n0->1 id 1 trigger 5 size 1\n", 3, "add e.g. `trigger id 5 oneshot`"),
        ("Nodes 4\nTriggers 1\ntrigger id 1\n", 3, "add oneshot, multishot or barrier"),
        ("Nodes 4\nTriggers 1\ntrigger id 1 barrier\n", 3, "a barrier without `count`; add one"),
        ("Nodes 4\nTriggers 1\ntrigger id 1 oneshot count 2\n", 3, "`count` is of barriers; delete it"),
        ("Nodes 4\nTriggers 2\ntrigger id 1 oneshot\ntrigger id 1 oneshot\n", 4, "is in line 3 already"),
        (
            "Nodes 4\nConnections 1\nTriggers 1\n0->1 id 1 trigger 1 size 1\ntrigger id 1 oneshot\n",
            5,
            "is activated by nobody; name it as",
        ),
        (
            "Nodes 4\nConnections 2\nTriggers 1\n0->1 start 0 size 1 send_done_trigger 1\n0->1 id 1 trigger 1 size 1\ntrigger \
             id 1 barrier count 2\n",
            6,
            "waits for 2 activations and gets 1; write count 1",
        ),
        (
            "Nodes 4\nConnections 3\nTriggers 1\n0->1 start 0 size 1 send_done_trigger 1\n0->1 id 1 trigger 1 size 1\n0->2 \
             id 2 trigger 1 size 1\ntrigger id 1 multishot\n",
            7,
            "1 would never begin",
        ),
        (
            "Nodes 4\nConnections 2\nTriggers 2\n0->1 id 1 trigger 2 size 1 send_done_trigger 1\n1->2 id 2 trigger 1 size 1 \
             recv_done_trigger 2\ntrigger id 1 oneshot\ntrigger id 2 oneshot\n",
            4,
            "in a circle, so none of them ever begins: lines 4, 5",
        ),
        ("Nodes 4\nFailures 1\nfailure switch_type TOR switch_id 0 link_id 1\n", 3, "write [[failure]]"),
        (
            "Nodes 4\nConnections 1\n0->1 start 0 size 18446744073709551615\n",
            3,
            "at most 1000000000000000 are possible",
        ),
        ("Nodes 4\nConnections 1\n\u{b5}\n", 3, "begins no line of a matrix"),
    ];
    for (text, line, what) in cases {
        let said = matrix(text, "").unwrap_err();
        assert!(
            said.starts_with(&format!("test.toml:8: m.cm:{line}: ")),
            "{said}\n--- should name line {line}"
        );
        assert!(said.contains(what), "{said}\n--- should say: {what}");
    }
    let said = matrix("Nodes 4\nConnections 0\n", "bytes = 5\n").unwrap_err();
    assert!(said.contains("`bytes` means nothing here"), "{said}");
}

const NETWORK: &str = "6 2 5\n4 2\n0 4 100Gbps 1us 0\n1 4 100Gbps 0.001ms 0\n3 2 40Gbps 600ns 0\n\
                       5 2 100Gbps 1us 0\n4 2 400Gbps 2us 0\n";
const FLOWS: &str = "3\n0 3 3 100 200000 2\n1 3 3 100 200000 2\n5 1 3 100 50000 2.000005\n";
const IMPORTED: &str = "[topology]\nkind = \"hpcc_file\"\nfile = \"t.txt\"\n";
const IMPORTED_FLOWS: &str = "[[workload]]\nkind = \"hpcc_flows\"\nfile = \"f.txt\"\norigin = \"2s\"\n";

/// The same network and the same flows, written out.
const BY_HAND: &str = "[topology]\nkind = \"custom\"\nhosts = [\"h0\", \"h1\", \"h3\", \"h5\"]\nswitches = [\"s2\", \"s4\"]\n\
    links = [{ a = \"h0\", b = \"s4\", rate = \"100G\", delay = \"1us\" }, { a = \"h1\", b = \"s4\", rate = \"100G\", delay = \
    \"1us\" }, { a = \"h3\", b = \"s2\", rate = \"40G\", delay = \"600ns\" }, { a = \"h5\", b = \"s2\", rate = \"100G\", delay = \
    \"1us\" }, { a = \"s4\", b = \"s2\", rate = \"400G\", delay = \"2us\" }]\n";
const BY_HAND_FLOWS: &str = "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h3\"\nbytes = 200000\n\
    [[workload]]\nkind = \"flow\"\nfrom = \"h1\"\nto = \"h3\"\nbytes = 200000\n\
    [[workload]]\nkind = \"flow\"\nfrom = \"h5\"\nto = \"h1\"\nbytes = 50000\nstart = \"4999ns\"\n";

#[test]
fn files_of_the_hpcc_simulator_are_what_they_are_by_hand_under_both_profiles() {
    let matrix = "Nodes 4\nConnections 3\n0->2 start 0 size 200000\n1->2 start 0 size 200000\n3->1 start 4998001 size 50000\n";
    // What is more than was counted is passed over, as in the examples that come with that simulator.
    let (network, flows) =
        (format!("{NETWORK}0 5 1Gbps 1us 0\n"), format!("{FLOWS}1 3 3 100 7 9\nand so on\n"));
    let dir = folder(&[("t.txt", &network), ("f.txt", &flows), ("m.cm", matrix)]);
    for profile in ["weir", "ns3-hpcc"] {
        let head = format!("name = \"t\"\nprofile = \"{profile}\"\nstop_time = \"2ms\"\n");
        let said = |topology: &str, flows: &str| {
            let report = play_in(dir.path(), &format!("{head}{topology}{flows}"));
            let report = report.unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(report.flows_done, 3, "{profile}");
            without_identity(&report)
        };
        // Seconds are cut as the reference cuts them: 2.000005 s is 4,999 ns after 2 s.
        let by_hand = said(BY_HAND, BY_HAND_FLOWS);
        assert_eq!(said(IMPORTED, IMPORTED_FLOWS), by_hand, "{profile}");
        assert_eq!(
            said(BY_HAND, "[[workload]]\nkind = \"htsim_matrix\"\nfile = \"m.cm\"\n"),
            by_hand,
            "{profile}"
        );
    }
}

#[test]
fn hpcc_files_that_cannot_be_are_refused_with_line_and_remedy() {
    let refused = |network: &str, flows: &str, more: &str| {
        let dir = folder(&[("t.txt", network), ("f.txt", flows)]);
        let text = format!("name = \"t\"\nstop_time = \"2ms\"\n{IMPORTED}{IMPORTED_FLOWS}{more}");
        let said = play_in(dir.path(), &text).unwrap_err().to_string();
        said.replace(&format!("{}/", dir.path().display()), "")
    };
    for (from, to, line, what) in [
        ("6 2 5", "6 2", 2, "`0`"),
        ("4 2\n", "4 4\n", 2, "switch 4 is named twice"),
        ("4 2\n", "4 6\n", 2, "there is no node 6: the first line says 6, so 0 to 5"),
        ("100Gbps 1us", "fast 1us", 3, "`fast` is not a rate such as 100Gbps, and the rate of a link"),
        ("100Gbps 1us", "100Gbps long", 3, "`long` is not a delay such as 0.001ms"),
        ("1us 0\n1", "1us 2\n1", 3, "`2` is not a share of 0 to 1"),
        ("0 4 100Gbps", "4 4 100Gbps", 3, "a link from node 4 to itself"),
        ("6 2 5", "6 2 6", 7, "the file ends here"),
        ("6 2 5", "99999999999 2 5", 1, "at most 1048576 are possible"),
    ] {
        let said = refused(&NETWORK.replacen(from, to, 1), FLOWS, "");
        let cut = from == "6 2 5" && to == "6 2";
        assert!(cut || said.starts_with(&format!("test.toml:5: t.txt:{line}: ")), "{said}\n--- line {line}");
        assert!(cut || said.contains(what), "{said}\n--- should say: {what}");
    }
    for (from, to, line, what) in [
        ("3\n", "4\n", 4, "the file ends here, before the sending node of a flow; is it whole?"),
        ("0 3 3", "2 3 3", 2, "there is no host 2: [topology] has 4, 0 to 5"),
        ("0 3 3", "3 3 3", 2, "does not send to itself"),
        ("0 3 3", "0 3 1", 2, "one workload for each group"),
        ("200000", "0", 2, "a flow of 0 bytes"),
        ("200000", "18446744073709551615", 2, "at most 1000000000000000 are possible"),
        ("200000 2", "200000 soon", 2, "`soon` is not a time in seconds"),
        ("200000 2", "200000 1", 2, "before `origin`, 2000000000 ns"),
    ] {
        let said = refused(NETWORK, &FLOWS.replacen(from, to, 1), "");
        assert!(said.starts_with(&format!("test.toml:8: f.txt:{line}: ")), "{said}\n--- line {line}");
        assert!(said.contains(what), "{said}\n--- should say: {what}");
    }
    let said = refused(NETWORK, FLOWS, "[link]\nrate = \"10G\"\n");
    assert!(
        said.contains("link.rate is set; it must be absent: every link is as `topology.file` says"),
        "{said}"
    );
    let lossy = NETWORK.replacen("1us 0\n1", "1us 0.1\n1", 1);
    let dir = folder(&[("t.txt", &lossy), ("f.txt", FLOWS)]);
    let text = format!(
        "name = \"t\"\nstop_time = \"20ms\"\n{IMPORTED}{IMPORTED_FLOWS}[host]\ntimeout = \"100us\"\n"
    );
    assert!(play_in(dir.path(), &text).unwrap().links[0].lost > 0);
    let text =
        format!("profile = \"ns3-hpcc\"\nname = \"t\"\nstop_time = \"2ms\"\n{IMPORTED}{IMPORTED_FLOWS}");
    let said = play_in(dir.path(), &text).unwrap_err().to_string();
    assert!(said.contains("one in this file has an error rate"), "{said}");
    let endless = text.replace("f.txt", "/dev/zero");
    let said = play_in(dir.path(), &endless).unwrap_err().to_string();
    assert!(endless != text && said.contains("/dev/zero: cannot be read (a pipe or a device"), "{said}");
    std::fs::remove_file(dir.path().join("f.txt")).unwrap();
    let said = play_in(dir.path(), &text).unwrap_err().to_string();
    assert!(said.starts_with("test.toml:9: ") && said.contains("f.txt: cannot be read"), "{said}");
}

/// The published simulator takes less: what it does not is refused where it stands, in its words.
#[test]
fn what_the_published_simulator_does_not_take_of_a_file_is_refused_where_it_stands() {
    let refused = |network: &str, flows: &str, workload: &str| {
        let dir = folder(&[("t.txt", network), ("f.txt", flows)]);
        let text = format!("profile = \"ns3-hpcc\"\nname = \"t\"\nstop_time = \"2ms\"\n{IMPORTED}{workload}");
        let said = play_in(dir.path(), &text).unwrap_err().to_string();
        said.replace(&format!("{}/", dir.path().display()), "")
    };
    let long = "a message of 5000000000 bytes; at most 4294967295 are possible in profile = \"ns3-hpcc\"";
    let said = refused(NETWORK, &FLOWS.replacen("200000", "5000000000", 1), IMPORTED_FLOWS);
    assert_eq!(said, format!("test.toml:9: f.txt:2: {long}"));
    let said = refused(NETWORK, FLOWS, "[[workload]]\nkind = \"permutation\"\nbytes = 5000000000\n");
    assert_eq!(said, format!("test.toml:7: workload 1 (permutation): {long}"));
    let endless = "Nodes 4\nConnections 1\n0->1 start 0 size 0\n";
    let said = refused(NETWORK, endless, "[[workload]]\nkind = \"htsim_matrix\"\nfile = \"f.txt\"\n");
    assert!(said.starts_with("test.toml:") && said.contains("of this file some have none"), "{said}");
    let said = refused("2 0 1\n0 1 100Gbps 1us 0\n", "1\n0 1 3 100 9 2\n", IMPORTED_FLOWS);
    let joined = "a host's neighbour is a switch, and `h0` and `h1` are joined; put a switch between them";
    assert!(said.starts_with("test.toml:6: ") && said.contains(joined), "{said}");
}

/// Whatever is in a file: an answer, and no panic.
#[test]
fn damaged_files_are_refused_or_mean_something() {
    let shipped =
        |name: &str| std::fs::read(format!("{}/../configs/sim/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let star = "kind = \"star\"\nhosts = 8\n";
    let mut rng = Rng::new(5);
    let mut refused = 0;
    for (file, topology, workload) in [
        ("htsim.cm", star, "kind = \"htsim_matrix\"\nfile = \"htsim.cm\"\n"),
        ("hpcc-flows.txt", star, "kind = \"hpcc_flows\"\nfile = \"hpcc-flows.txt\"\n"),
        (
            "hpcc-topology.txt",
            "kind = \"hpcc_file\"\nfile = \"hpcc-topology.txt\"\n",
            "kind = \"all_to_all\"\nbytes = 1\n",
        ),
        ("operations.jsonl", star, "kind = \"operations\"\nfile = \"operations.jsonl\"\n"),
        ("chakra.0.et", star, "kind = \"chakra\"\nfile = \"chakra.0.et\"\n"),
    ] {
        let good = shipped(file);
        let dir = folder_of([(file, good.as_slice())].into_iter());
        let text = format!("name = \"d\"\nstop_time = 1\n[topology]\n{topology}[[workload]]\n{workload}");
        for _ in 0..200 {
            let mut bytes = good.clone();
            for _ in 0..=rng.next_u32() % 3 {
                let at = rng.next_u32() as usize % bytes.len();
                match rng.next_u32() % 4 {
                    0 => bytes.truncate(at + 1),
                    1 => bytes[at] = rng.next_u32() as u8,
                    2 => bytes[at] = b'0' + (rng.next_u32() % 10) as u8,
                    _ => bytes.insert(at, b'9'),
                }
            }
            std::fs::write(dir.path().join(file), &bytes).unwrap();
            if let Err(error) = play_in(dir.path(), &text) {
                assert!(error.to_string().starts_with("test.toml"), "{error}");
                refused += 1;
            }
        }
    }
    assert!((200..1000).contains(&refused), "{refused}");
}
