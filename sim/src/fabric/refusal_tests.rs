//! What is wrong in a file is refused with its line, and what does not go together is told.

use super::tests::{play, refused};

/// Flows without an end, that never begin, and whose class nobody pauses: the report says so.
#[test]
fn flows_that_do_not_go_together_with_the_run_are_told() {
    let text_of = |flow: &str| {
        format!(
            "name = \"odd\"\nstop_time = \"100us\"\n[topology]\nkind = \"star\"\nhosts = 3\n[switch.config.buffer]\nsize = \"1MiB\"\n\
             [switch.config.port_defaults]\nmtu = 1600\n[[workload]]\nkind = \"incast\"\nto = \"h0\"\n{flow}\n"
        )
    };
    let run = |flow: &str| play(&text_of(flow));
    for (flow, words) in [
        (
            "",
            "2 flows without an end: the run goes on to `stop_time`, 100000 ns, unless it is stopped before.",
        ),
        (
            "bytes = 1000\nstart = \"2ms\"",
            "2 flows never began, the first at 2000000 ns: the run ends at 100000 ns.",
        ),
        (
            "bytes = 1000\nrate = \"200G\"",
            "`rate` is 200G for 2 flows, and the links of their senders carry 100G at most: they go at the rate of their link.",
        ),
        (
            "bytes = 1000\npriority = 0",
            "Frames of priority 0 with DSCP 26 are in priority group 3 of s0, whose pauses hold back priority 3 of a host: not \
             them. Remedy: `priority = 3` in their [[workload]], or `dscp = 0`.",
        ),
    ] {
        let report = run(flow);
        assert!(report.why.iter().any(|why| why.starts_with(words)), "{flow}: {:?}", report.why);
        let flow_level = play(&format!("level = \"flow\"\n{}", text_of(flow)));
        assert!(
            words.starts_with("Frames") || flow_level.why.iter().any(|why| why.starts_with(words)),
            "{flow}"
        );
    }
    let report = run("bytes = 1000\nrate = \"100G\"");
    let words = ["without an end", "never began", "Frames of", "`rate` is"];
    let told = |why: &String| words.iter().any(|words| why.contains(words));
    assert!(!report.why.iter().any(told), "{:?}", report.why);
}

const STAR: &str = "name = \"x\"\nstop_time = \"1ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = \
                    [\"s\"]\nlinks = [{ a = \"a\", b = \"s\" }, { a = \"b\", b = \"s\" }]\n";

const FLOW: &str = "[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"b\"\nbytes = 1000\n";

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    assert_eq!(play(&format!("{STAR}{FLOW}")).flows_done, 1);
    let plain = format!("{STAR}{FLOW}");
    // What is wrong, the line it is in (0: the file has none for it), what is said.
    let cases = [
        (plain.replace("b = \"s\" }]", "b = \"t\" }]"), 7, "there is no node `t`"),
        (format!("{STAR}macs = {{ b = \"02:00:00:00:00:00\" }}\n{FLOW}"), 8, "both have address"),
        (format!("{STAR}macs = {{ b = \"01:00:00:00:00:00\" }}\n{FLOW}"), 8, "unicast"),
        (format!("{STAR}macs = {{ c = \"02:00:00:00:00:00\" }}\n{FLOW}"), 8, "no host is called so"),
        (plain.replace("b = \"s\" }]", "b = \"s\", rate = 0 }]"), 7, "rate 0"),
        (format!("{STAR}[link]\ndelay = 5\nrate = 0\n{FLOW}"), 10, "rate 0"),
        (format!("{STAR}[link]\nloss = 1.5\n{FLOW}"), 9, "loss"),
        (plain.replace("to = \"b\"", "to = \"c\""), 11, "`c`, which is not a host"),
        (plain.replace("to = \"b\"", "to = \"a\""), 8, "does not send to itself"),
        (format!("{plain}shift = 1\n"), 13, "`shift` means nothing here"),
        (format!("{plain}rate = 0\n"), 13, "`rate` is 0"),
        (format!("{plain}stagger = -1\n"), 13, "wanted a time as \"10us\""),
        (format!("{plain}cc = \"dcqcn\"\nrate = \"1G\"\n"), 14, "both set the pace"),
        (format!("{plain}cc = \"dcqcn\"\nreliable = false\n"), 13, "needs a receiver that answers"),
        (format!("{STAR}[host.dcqcn]\nscheme = 2\n{FLOW}"), 9, "wanted string"),
        (format!("{STAR}[host.dcqcn]\nscheme = \"fast\"\n{FLOW}"), 9, "unknown variant `fast`"),
        (
            format!(
                "{STAR}[host.dcqcn]\nscheme = \"hardware\"\nfirmware_period = \"1ms\"\n{FLOW}cc = \"dcqcn\"\n"
            ),
            10,
            "absent under `scheme = \"hardware\"`",
        ),
        (
            format!("{STAR}[host.dcqcn]\nscheme = \"firmware\"\noutstanding = 4\n{FLOW}cc = \"dcqcn\"\n"),
            10,
            "nothing but its mask",
        ),
        (
            format!("{STAR}[host.dcqcn]\nscheme = \"hardware\"\noutstanding = 4\n{FLOW}cc = \"dcqcn\"\n"),
            11,
            "4 work requests in flight, 8 after a CNP",
        ),
        (
            format!(
                "{STAR}[host.dcqcn]\nscheme = \"hardware\"\nfirmware_algorithm = \"backoff\"\n{FLOW}cc = \"dcqcn\"\n"
            ),
            10,
            "absent under `scheme = \"hardware\"`",
        ),
        (
            format!(
                "{STAR}[host.dcqcn]\nscheme = \"firmware\"\nfirmware_algorithm = \"backoff\"\ngain = 9\n{FLOW}cc = \"dcqcn\"\n"
            ),
            11,
            "absent under `firmware_algorithm = \"backoff\"`",
        ),
        (format!("{plain}{FLOW}priority = 8\n"), 18, "priority is 8"),
        (plain.replace("kind = \"flow\"", "kind = \"gossip\""), 9, "unknown variant `gossip`"),
        (format!("{STAR}[link]\nrate = \"fast\"\n{FLOW}"), 9, "`fast` is not a rate"),
        (format!("{STAR}[switch]\ningress = 9223372036854775807\n{FLOW}"), 9, "too large for a time"),
        (format!("{STAR}colour = 1\n{FLOW}"), 8, "colour"),
        (plain.replace("[\"a\", \"b\"]", "[\"a\", \"a\", \"b\"]"), 5, "two nodes"),
        (plain.replace("[\"a\", \"b\"]", "[\"a\", \"c\", \"b\"]"), 5, "`c` has 0 links"),
        (
            plain.replace("[\"a\", \"b\"]", "[\"a\", \"c\", \"d\", \"b\"]"),
            5,
            "`c`, as each of 1 more, has 0 links",
        ),
        (
            plain
                .replace("[\"s\"]", "[\"s\", \"t\"]")
                .replace("{ a = \"b\", b = \"s\" }", "{ a = \"b\", b = \"t\" }"),
            7,
            "no path from `a` to `b`",
        ),
        (format!("{STAR}[switch.config.buffer]\nsize = \"10KB\"\n{FLOW}"), 9, "[switch.config]"),
        (format!("{STAR}[host]\npayload = 0\n{FLOW}"), 9, "host.payload is 0"),
        (format!("{STAR}[host]\nprotocol = \"rclink\"\npayload = 1500\n{FLOW}"), 10, "1 to 1344"),
        (format!("{STAR}[host]\nprotocol = \"rclink\"\n{FLOW}cc = \"dcqcn\"\n"), 15, "hosts speak RC Link"),
        (format!("{plain}cc = \"backoff\"\n"), 13, "hosts speak RoCEv2"),
        (format!("{STAR}[host]\nprotocol = \"rclink\"\n{FLOW}priority = 0\n"), 15, "2 (responses)"),
        (format!("{STAR}[host]\nprotocol = \"rclink\"\n{FLOW}reliable = false\n"), 15, "retransmit = false"),
        (format!("{STAR}[host.rclink]\nformat = \"afh_gen3\"\n{FLOW}"), 9, "unknown variant `afh_gen3`"),
        (format!("{plain}[[failure]]\na = \"a\"\nb = \"t\"\nat = \"1us\"\n"), 13, "a - t"),
        (
            format!("{plain}[[failure]]\na = \"a\"\nb = \"s\"\nat = \"1us\"\nrepair = \"1us\"\n"),
            17,
            "failure.0.repair is 1000 ns",
        ),
        (format!("{plain}[routing]\nconvergence = \"1us\"\n"), 14, "no link fails"),
        (
            format!("{plain}[[switch.config.mirror]]\nname = \"m\"\nto = \"p0\"\n"),
            13,
            "no host looks at copies",
        ),
        (
            format!("{plain}[[switch.config.lag]]\nname = \"l\"\nmembers = [\"p0\"]\n"),
            13,
            "routing divides flows among links",
        ),
        (
            format!("{plain}[switch.config.port_defaults]\nvlan = {{ access = 3 }}\n"),
            14,
            "hosts send no tags",
        ),
        (plain.replace("stop_time = ", "# "), 1, "missing field `stop_time`"),
        (format!("{STAR}[switch]\ningress = \"9999999999s\"\n{FLOW}"), 9, "is too large: at most"),
        (STAR.replace("[topology]", "workload = []\n[topology]"), 3, "at least one workload"),
        (plain[..plain.len() - 6].to_owned(), 12, ""),
        ("\0\u{feff}".to_owned(), 1, ""),
    ];
    for (text, line, what) in cases {
        let message = refused(&text);
        assert!(message.contains(what), "{message}\n--- should say: {what}");
        assert!(message.starts_with("test.toml"), "{message}");
        let place =
            message.starts_with(&format!("test.toml:{line}: ")) || message.contains(&format!("line {line},"));
        assert!(place, "{message}\n--- should name line {line}");
    }
}

#[test]
fn times_in_which_nothing_is_seen_are_refused() {
    let base = "name = \"x\"\n[topology]\nkind = \"star\"\nhosts = 3\n[[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = 1000\n";
    let flow = "level = \"flow\"\n";
    for (times, said) in [
        ("stop_time = \"0ns\"\n", "stop_time"),
        ("stop_time = \"1ms\"\nmeasure_from = \"1ms\"\n", "measure_from"),
        ("stop_time = \"1ms\"\nsample = \"0ns\"\n", "sample"),
        ("stop_time = \"1ms\"\nsample = \"2ms\"\n", "sample is 2000000 ns; it must be at most `stop_time`"),
    ] {
        let error = refused(&format!("{times}{base}"));
        assert!(error.contains(said) && error.contains("0 ns"), "{error}");
    }
    let error = refused(&format!("stop_time = \"0ns\"\n{flow}{base}"));
    assert!(error.contains("stop_time"), "{error}");
}

/// Keys of single links, and of the published profile, that would be left out without a word; ways around a failure that INT has no room
/// for.
#[test]
fn what_would_be_left_out_is_refused() {
    let pair = |head: &str, link: &str, workload: &str| {
        format!(
            "name = \"o\"\nstop_time = \"1ms\"\n{head}[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\"]\n\
             links = [{{ a = \"a\", b = \"s\" }}, {{ a = \"b\", b = \"s\"{link} }}]\n{workload}"
        )
    };
    let flow = "[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"b\"\nbytes = 1000\n";
    let published = "profile = \"ns3-hpcc\"\n";
    for (text, says) in [
        (pair("level = \"flow\"\n", ", loss = 0.1", flow), "topology.links.1.loss is 0.1"),
        (pair(published, ", loss = 0.1", flow), "topology.links.1.loss"),
        (pair(published, ", pause_loss = 0.1", flow), "topology.links.1.pause_loss"),
        (pair(published, ", weight = 2", flow), "topology.links.1.weight"),
        (pair(published, "", &format!("{flow}dscp = 3\n")), "`dscp` cannot be set"),
        (pair(published, "", &format!("{flow}[inc]\nwindow = 64\n")), "switches have no engines"),
        (
            pair(
                published,
                "",
                &format!(
                    "{flow}[[switch.config.wred]]\nkmin = 1000\nkmax = 2000\npmax = \"1%\"\n[[switch.config.wred]]\nkmin = 1000\nkmax = 2000\npmax = \"1%\"\n"
                ),
            ),
            "switch.config.wred.1",
        ),
    ] {
        let said = refused(&text);
        assert!(said.contains(says), "{says}: {said}");
    }
    let all_to_allv = "[[workload]]\nkind = \"all_to_allv\"\nmatrix = [[0, 1000], [2000, 0]]\n";
    assert_eq!(play(&pair(published, "", all_to_allv)).flows_done, 2);
    // Seven switches in a ring: the long way has all of them.
    let link = |a: String, b: String| format!("{{ a = \"{a}\", b = \"{b}\" }}");
    let ring = (0..7).map(|s| link(format!("s{s}"), format!("s{}", (s + 1) % 7)));
    let links: Vec<String> = ring.chain((0..2).map(|h| link(format!("h{h}"), format!("s{h}")))).collect();
    let switches: Vec<String> = (0..7).map(|s| format!("\"s{s}\"")).collect();
    let around = |failure: &str, cc: &str| {
        format!(
            "name = \"r\"\nstop_time = \"1ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"h0\", \"h1\"]\nswitches = [{}]\nlinks = [{}]\n[host]\ntimeout = \"50us\"\n{failure}\
             [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = 100000\ncc = \"{cc}\"\n",
            switches.join(", "),
            links.join(", ")
        )
    };
    let failure = "[[failure]]\na = \"s0\"\nb = \"s1\"\nat = \"5us\"\n";
    assert!(
        refused(&around(failure, "hpcc")).contains("failure is 7 switches on a path"),
        "{}",
        refused(&around(failure, "hpcc"))
    );
    assert_eq!(play(&around(failure, "hpcc-pint")).flows_done + play(&around("", "hpcc")).flows_done, 2);
}
