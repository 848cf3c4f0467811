//! RC Link without queue pairs: multicast (TYPE2) and raw frames (TYPE3) in a fabric.

use super::*;

fn play(text: &str) -> Report {
    load("many.toml", text).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(text: &str) -> String {
    load("many.toml", text).and_then(|spec| run(&spec)).unwrap_err().to_string()
}

const LEAVES: &str = "kind = \"leaf_spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 2";
const STAR: &str = "kind = \"star\"\nhosts = 5";

/// `link`: keys of `[host.rclink]`; `more`: keys of the switch, and the workload.
fn fabric(topology: &str, link: &str, more: &str) -> String {
    format!(
        "name = \"many\"\nstop_time = \"5ms\"\n[topology]\n{topology}\n[link]\nrate = \"100G\"\ndelay = \"200ns\"\n\
         [host]\nprotocol = \"rclink\"\n[host.rclink]\n{link}\n[switch.config.buffer]\nsize = \"4MiB\"\n\
         [switch.config.port_defaults]\nmtu = 1600\n{more}\n"
    )
}

const GROUP: &str = "[[workload]]\nkind = \"flow\"\ntype = \"type2\"\nfrom = \"h0\"\nbytes = 200100\n";

/// Frames that a link has carried to a node.
fn frames_to(report: &Report, node: &str) -> u64 {
    report.links.iter().filter(|link| link.to == node).map(|link| link.frames).sum()
}

#[test]
fn sw003_a_group_hears_each_message_once_in_all_four_formats() {
    for format in ["standard", "afh_gen1", "afh_gen2_16b", "afh_lite"] {
        for core in ["", "[switch]\ncore = \"islip\"\n"] {
            let members = "members = [\"h5\", \"h1\", \"h2\"]\n";
            let report =
                play(&fabric(LEAVES, &format!("format = \"{format}\""), &format!("{GROUP}{members}{core}")));
            assert_eq!((report.verdict, report.conservation_error), ("PASS", 0), "{:?}", report.findings);
            let heard: Vec<_> = report.flows.iter().map(|f| (&*f.to, f.delivered, f.packets)).collect();
            assert_eq!(heard, [("h5", 200_100, 196), ("h1", 200_100, 196), ("h2", 200_100, 196)], "{format}");
            // One frame for all on the way to the switch, and none to hosts that are no members.
            let sent = report.links.iter().find(|link| link.from == "h0").map(|link| link.frames);
            assert_eq!(sent, Some(196), "{format}");
            assert_eq!(["h3", "h4"].map(|host| frames_to(&report, host)), [0, 0], "{format}");
            assert!(report.hosts.iter().all(|h| h.unexpected == 0), "{format}");
        }
    }
}

#[test]
fn a_group_is_all_other_hosts_unless_members_are_named_and_has_a_flow_for_each() {
    let two = format!("{GROUP}{}", GROUP.replace("h0", "h4").replace("200100", "40"));
    let report = play(&fabric(STAR, "", &two));
    let to: Vec<&str> = report.flows.iter().map(|f| &*f.to).collect();
    assert_eq!(to, ["h1", "h2", "h3", "h4", "h0", "h1", "h2", "h3"]);
    assert_eq!((report.verdict, report.flows_done), ("PASS", 8));
    assert!(report.flows.iter().all(|f| f.fct_ns.unwrap() >= f.ideal_ns.unwrap()), "{:?}", report.flows);
    // Alone, a flow takes what it is said to take alone.
    let alone = play(&fabric(STAR, "", &format!("{GROUP}members = [\"h3\"]\n")));
    assert_eq!(alone.flows[0].fct_ns, alone.flows[0].ideal_ns);
}

#[test]
fn a_copy_alone_takes_what_it_is_said_to_take() {
    let rings = "kind = \"ring\"\nswitches = 4\nhosts_per_switch = 1";
    let custom = "kind = \"custom\"\nhosts = [\"h0\", \"h1\", \"h2\"]\nswitches = [\"x\", \"y\", \"m\", \"n\"]\nlinks = [\
                  { a = \"h0\", b = \"x\" }, { a = \"h1\", b = \"y\" }, { a = \"h2\", b = \"m\" }, { a = \"x\", b = \"m\", rate = \"25G\" }, \
                  { a = \"m\", b = \"y\" }, { a = \"x\", b = \"n\", delay = 5000 }, { a = \"n\", b = \"y\" }]";
    for topology in [STAR, LEAVES, rings, custom] {
        for forwarding in ["store_and_forward", "cut_through"] {
            for from in ["h0", "h1"] {
                let switch = format!("[switch]\nforwarding = \"{forwarding}\"\n");
                let text = fabric(topology, "", &format!("{}{switch}", GROUP.replace("h0", from)));
                let report = play(&text.replace("rate = \"100G\"\ndelay", "rate = \"10G\"\ndelay"));
                assert_eq!((report.verdict, report.conservation_error), ("PASS", 0), "{text}");
                for flow in &report.flows {
                    assert!(flow.fct_ns.unwrap().abs_diff(flow.ideal_ns.unwrap()) <= 1, "{flow:?} {text}");
                }
            }
        }
    }
}

/// In a ring the switch before is the last one that a frame comes to.
#[test]
fn copies_go_clockwise_in_a_ring() {
    let ring = "kind = \"ring\"\nswitches = 4\nhosts_per_switch = 1";
    let report = play(&fabric(ring, "", GROUP));
    let carried = |from: &str, to: &str| {
        let link = report.links.iter().find(|link| (&*link.from, &*link.to) == (from, to));
        link.map(|link| link.frames)
    };
    assert_eq!(
        [("s0", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "s0")].map(|(a, b)| carried(a, b)),
        [Some(196), Some(196), Some(196), Some(0)]
    );
    assert_eq!(
        [("s1", "s0"), ("s2", "s1"), ("s3", "s2"), ("s0", "s3")].map(|(a, b)| carried(a, b)),
        [Some(0); 4]
    );
}

#[test]
fn a_rate_is_kept_from_the_first_message_on() {
    for kind in ["type2", "type3"] {
        let fct = |start: &str| {
            let flow = GROUP.replace("type2", kind).replace("200100", "204800");
            let to = if kind == "type2" { "members = [\"h3\"]" } else { "to = \"h3\"" };
            let report =
                play(&fabric(STAR, "", &format!("{flow}rate = \"10G\"\nstart = \"{start}\"\n{to}\n")));
            assert_eq!(report.verdict, "PASS", "{:?}", report.findings);
            (report.flows[0].fct_ns.unwrap(), report.flows[0].packets)
        };
        // Whenever it starts: no message goes before its time.
        let (at_once, packets) = fct("0ns");
        assert_eq!(fct("1ms"), (at_once, packets), "{kind}");
        // 1024 bytes have 14 of Ethernet, and 24 on the wire.
        assert!(at_once > (packets - 1) * 1062 * 8 / 10, "{kind}: {at_once} {packets}");
    }
}

/// h3 gets requests from two hosts, faster than its line, beside what a group hears of which it is a member.
fn crowded(link: &str) -> Report {
    let incast = "[[workload]]\nkind = \"incast\"\nto = \"h3\"\nsenders = 3\nbytes = \"2MB\"\npriority = 1\n";
    let link = format!("{link}\npriorities = {{ request = [1, 3, 4, 5] }}");
    let group = GROUP.replace("h0", "h4").replace("200100", "1000100");
    play(
        &fabric(STAR, &link, &format!("{incast}{group}members = [\"h1\", \"h3\"]\n")).replace("4MiB", "2MiB"),
    )
}

#[test]
fn sw024_copies_meet_pauses_and_credits_hold_back_none() {
    let report = crowded("");
    assert_eq!((report.verdict, report.frames_dropped), ("PASS", 0), "{:?}", report.why);
    // The copy for a member whose line is full holds its sender back, and with it the other member.
    let sender = report.hosts.iter().find(|h| h.name == "h4").unwrap();
    assert!(sender.paused_ns[1] > 0, "{sender:?}");
    let group = &report.flows[3..];
    assert!(group.iter().all(|f| f.delivered == 1_000_100), "{group:?}");
    let other = group.iter().find(|f| f.to == "h1").unwrap();
    assert!(other.fct_ns.unwrap() > 2 * other.ideal_ns.unwrap(), "{other:?}");
    // SW-022: credits are of TYPE1, from end to end, and switches pause nobody: what is sent to many is in no account of theirs, and
    // what finds no room is lost, to both members alike.
    let credits = crowded("flow_control = \"cbfc\"\ncredits = 64");
    let sender = credits.hosts.iter().find(|h| h.name == "h4").unwrap();
    assert_eq!((sender.credit_wait_ns, sender.paused_ns), ([0; 8], [0; 8]));
    assert!(credits.hosts[..3].iter().any(|h| h.credit_wait_ns.iter().sum::<u64>() > 0));
    assert!(credits.flows[..3].iter().all(|f| f.delivered == 2_000_000 && f.resent == 0));
    let [a, b] = &credits.flows[3..] else { panic!() };
    assert!(a.lost > 0 && a.lost == b.lost && credits.frames_dropped > 0, "{a:?} {b:?}");
    assert!(credits.why.iter().any(|why| why.contains("dropped")), "{:?}", credits.why);
}

#[test]
fn sw024_a_member_that_reads_slowly_pauses_the_class_of_multicast() {
    let report = play(
        &fabric(STAR, "read_rate = \"20G\"", &GROUP.replace("200100", "2000000")).replace("4MiB", "1MiB"),
    );
    assert_eq!((report.verdict, report.frames_dropped), ("PASS", 0), "{:?}", report.findings);
    assert!(report.hosts[1..].iter().all(|h| h.pfc_tx > 0 && h.memory_peak > 8 * 1100 && h.unexpected == 0));
    assert!(report.hosts[0].paused_ns[1] > 0);
    // 1954 frames of 1106 bytes at 20 Gbit/s.
    assert!(report.fct_ns.unwrap().min > 850_000, "{:?}", report.fct_ns);
}

#[test]
fn what_links_lose_of_multicast_is_lost_to_those_behind_them() {
    let text =
        fabric(LEAVES, "", &GROUP.replace("200100", "2000000")).replace("200ns\"", "200ns\"\nloss = 0.01");
    let report = play(&text.replace("5ms", "300us"));
    assert!(report.frames_lost > 0 && report.conservation_error == 0);
    assert!(report.flows.iter().all(|f| f.resent == 0 && f.timeouts == 0));
    let missing = |f: &FlowResult| f.lost + f.delivered;
    // But for what was lost behind the last message that came.
    assert!(report.flows.iter().all(|f| f.lost > 0 && missing(f) > 1_900_000), "{:?}", report.flows);
    assert_eq!(report.verdict, "FAIL");
    assert!(
        report.findings.iter().any(|f| f.contains("lost that nobody sends again")),
        "{:?}",
        report.findings
    );
    // Different losses to different members.
    let mut lost: Vec<u64> = report.flows.iter().map(|f| f.lost).collect();
    lost.dedup();
    assert!(lost.len() > 1, "{lost:?}");
}

#[test]
fn sw003_raw_frames_are_lossy_and_nobody_answers_them() {
    let incast = "[[workload]]\nkind = \"incast\"\ntype = \"type3\"\nto = \"h3\"\nbytes = \"1MB\"\n";
    for format in ["standard", "afh_gen1", "afh_gen2_16b"] {
        let link = format!("format = \"{format}\"");
        let roomy = play(&fabric(STAR, &link, incast).replace("4MiB", "32MiB"));
        assert_eq!((roomy.verdict, roomy.flows_done), ("PASS", 4), "{format}: {:?}", roomy.findings);
        // Nothing comes back, not from the receiver and not from switches: class 0 is not paused.
        assert_eq!(frames_to(&roomy, "h0") + roomy.hosts[0].pfc_rx, 0, "{format}");
        assert!(roomy.flows.iter().all(|f| f.delivered == 1_000_000 && f.packets == 977));
        let tight = play(&fabric(STAR, &link, incast).replace("5ms", "2ms"));
        let dropped: u64 = tight.flows.iter().map(|f| f.packets * 1024 - f.delivered).sum();
        assert!(tight.frames_dropped > 0 && dropped > 0 && tight.lossless_drops == 0, "{format}");
        assert!(
            tight.flows.iter().any(|f| f.lost > 0) && tight.verdict == "FAIL",
            "{format}: {:?}",
            tight.flows
        );
        assert_eq!((tight.conservation_error, tight.pauses()), (0, 0), "{format}");
        assert!(tight.why.iter().any(|why| why.contains("dropped")), "{:?}", tight.why);
    }
    let paced = play(&fabric(STAR, "", &format!("{}rate = \"10G\"\n", incast.replace("1MB", "100KB"))));
    // 98 frames of 1068 bytes, 24 between them, at 10 Gbit/s.
    assert!((83_000..84_500).contains(&paced.fct_ns.unwrap().max), "{:?}", paced.fct_ns);
    let alone = play(&fabric(STAR, "", &incast.replace("\"h3\"", "\"h3\"\nsenders = 1")));
    assert_eq!(alone.flows[0].fct_ns, alone.flows[0].ideal_ns);
}

#[test]
fn what_has_no_queue_pair_has_no_keys_of_one() {
    let with = |keys: &str| fabric(STAR, "", &format!("{GROUP}{keys}\n"));
    let raw = GROUP.replace("type2\"", "type3\"\nto = \"h1\"");
    for (text, wanted) in [
        (with("to = \"h1\""), "`to` means nothing here: a group is heard by `members`"),
        (with("members = []"), "a group without `members`"),
        (with("members = [\"h1\", \"h0\"]"), "`members` names the sender"),
        (with("members = [\"h1\", \"h1\"]"), "`members` names `h1` twice"),
        (with("members = [\"s0\"]"), "`members` names `s0`, which is not a host"),
        (with("cc = \"backoff\""), "`cc` means nothing to frames of type2"),
        (with("response = 100"), "`response` means nothing to frames of type2"),
        (with("priority = 3"), "workload.0.priority is 3; it must be 1, which [host.rclink] priorities has"),
        (
            with("").replace("\"flow\"", "\"incast\"\nto = \"h1\"").replace("from = \"h0\"\n", ""),
            "frames of type2 are sent by flow",
        ),
        (with("").replace("[host]\nprotocol = \"rclink\"\n[host.rclink]\n", ""), "is of RC Link frames"),
        (with("").replace("type2", "type4"), "unknown variant `type4`, expected one of `type1`, `type2`"),
        (fabric(STAR, "", &format!("{raw}members = [\"h1\"]\n")), "`members` are those of a group"),
        (
            fabric(
                STAR,
                "",
                &raw.replace("\"flow\"", "\"all_reduce\"").replace("\nto = \"h1\"\nfrom = \"h0\"", ""),
            ),
            "frames of type3 are sent by flow, incast",
        ),
        (fabric(STAR, "format = \"afh_lite\"", &raw), "\"afh_lite\" has no raw frames (TYPE3)"),
        (fabric(STAR, "priorities = { multicast = 8 }", GROUP), "host.rclink.priorities is 8"),
    ] {
        let said = refused(&text);
        assert!(said.contains(wanted) && said.contains("many.toml:"), "{wanted}: {said}");
    }
}
