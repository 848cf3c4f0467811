//! The ns-3 profile plays a spec as the reference does, or refuses it.

use super::import_tests::{folder_of, play_in};
use super::tests::{play, refused};

const NS3: &str = "name = \"ns3\"\nprofile = \"ns3-hpcc\"\nstop_time = \"10ms\"\n[topology]\nkind = \"star\"\nhosts = \
                   9\n[switch.config.buffer]\nsize = \"4MiB\"\n";

const NS3_INCAST: &str = "[[workload]]\nkind = \"incast\"\nto = \"h8\"\nbytes = \"1MB\"\n";

#[test]
fn the_ns3_profile_plays_a_spec_as_the_reference_does() {
    // Rows incast8_pfc_b4 and incast8_pfc_b1 of the published runs.
    let report = play(&format!("{NS3}{NS3_INCAST}"));
    assert_eq!((report.flows_done, report.pauses(), report.marks()), (8, 192, 0));
    assert_eq!((report.fct_ns.unwrap().max, report.queue_max()), (668_091, 2_130_584));
    assert_eq!(report.timeline.pauses.iter().map(|p| p.from_ns).min(), Some(22_995));
    assert_eq!(report.ports().map(|(_, p)| p.headroom_peak).max(), Some(27_248));
    let page = report.to_html();
    assert!(page.contains("ns3-hpcc") && page.contains("s0 port 8"));
    let small = play(&format!("{NS3}{NS3_INCAST}").replace("4MiB", "1MiB"));
    assert_eq!((small.pauses(), small.fct_ns.unwrap().max, small.queue_max()), (202, 668_091, 559_632));
    // A flow alone takes what it is compared with.
    let alone =
        play(&format!("{NS3}[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"1MB\"\n"));
    assert_eq!((alone.flows[0].fct_ns, alone.flows[0].ideal_ns), (Some(87_091), Some(87_091)));
    // Each packet over two links, and as many acknowledgements back.
    assert_eq!(alone.frames_sent, 4 * alone.flows[0].packets);
    assert!(alone.why.iter().any(|s| s.starts_with("No PFC")), "{:?}", alone.why);
    let all = play(&format!("{NS3}[[workload]]\nkind = \"all_to_all\"\nbytes = 1000\n"));
    assert!(all.why.iter().any(|s| s.contains("reported as flows alone")), "{:?}", all.why);
}

/// A last frame that is shorter waits behind the full one before it, and of unequal paths the ideal is that of the one taken, there and back.
#[test]
fn a_flow_that_is_alone_takes_its_ideal_time_whatever_its_length_and_path() {
    let head = "name = \"ns3\"\nprofile = \"ns3-hpcc\"\nstop_time = \"20ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\"]\n\
                switches = [\"s\", \"t\", \"u\", \"v\"]\nlinks = [{ a = \"a\", b = \"s\", rate = \"25G\" }, { a = \"s\", b = \"u\", rate = \"400G\", delay = \"2us\" },\
                { a = \"u\", b = \"t\" }, { a = \"s\", b = \"v\", rate = \"40G\" }, { a = \"v\", b = \"t\" }, { a = \"t\", b = \"b\" }]\n";
    let mut seen = std::collections::BTreeSet::new();
    for [from, to] in [["a", "b"], ["b", "a"]] {
        for bytes in [1, 999, 1000, 1001, 2000, 5001, 100_001] {
            // One after the other: each goes by a port of its own.
            let flow = |nth: u32| {
                format!(
                    "[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"{to}\"\nbytes = {bytes}\nstart = \"{nth}ms\"\n"
                )
            };
            let report = play(&format!("{head}{}", (0..16).map(flow).collect::<String>()));
            for (nth, flow) in report.flows.iter().enumerate() {
                assert_eq!(flow.fct_ns, flow.ideal_ns, "flow {nth}, {from} to {to}, {bytes} bytes");
                seen.extend((bytes == 1).then_some((from, flow.ideal_ns)));
            }
        }
    }
    assert_eq!(seen.len(), 8, "four ways there and back, from both ends: {seen:?}");
}

/// Four flows between two leaves with two spines, by the port in their file: completion times of the published simulator, which tell how
/// many of them share a line.
#[test]
fn equal_paths_are_chosen_as_published() {
    let topology = "12 4 12\n8 9 10 11\n0 8 100Gbps 0.001ms 0\n1 8 100Gbps 0.001ms 0\n2 8 100Gbps 0.001ms 0\n3 8 100Gbps 0.001ms 0\n\
                    4 9 100Gbps 0.001ms 0\n5 9 100Gbps 0.001ms 0\n6 9 100Gbps 0.001ms 0\n7 9 100Gbps 0.001ms 0\n8 10 100Gbps 0.001ms 0\n\
                    8 11 100Gbps 0.001ms 0\n9 10 100Gbps 0.001ms 0\n9 11 100Gbps 0.001ms 0\n";
    for (port, times) in [
        (100, [16_569, 32_999, 33_082, 33_165]),
        (101, [24_782, 24_782, 24_869, 24_865]),
        (7000, [32_999, 33_082, 16_569, 33_165]),
    ] {
        let flows: String = (0..4).map(|at| format!("{at} {} 3 {port} 100000 2\n", at + 4)).collect();
        let files = [("topo.txt", topology.to_owned()), ("flow.txt", format!("4\n{flows}"))];
        let dir = folder_of(files.iter().map(|(name, text)| (*name, text.as_bytes())));
        let text = "name = \"e\"\nprofile = \"ns3-hpcc\"\nstop_time = \"20ms\"\n[topology]\nkind = \"hpcc_file\"\nfile = \"topo.txt\"\n[ns3]\nack_gate = 3\n\
                    [switch.config.buffer]\nsize = \"32MiB\"\n[[workload]]\nkind = \"hpcc_flows\"\nfile = \"flow.txt\"\norigin = \"2s\"\npriority = 3\n";
        let report = play_in(dir.path(), text).unwrap();
        let found: Vec<_> = report.flows.iter().map(|flow| flow.fct_ns).collect();
        assert_eq!(found, times.map(Some), "port {port}");
    }
}

/// What the switches of HPCC-PINT take for the round trip is the longest of any two hosts, also where each flow has its own
/// (completion times of the published simulator; nothing is sent to or from `d`).
#[test]
fn switches_of_pint_reckon_with_the_longest_round_trip_of_all_hosts() {
    let flow = |from: &str| {
        format!(
            "[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"c\"\nbytes = 200000\npriority = 3\n"
        )
    };
    let head = "name = \"ns3\"\nprofile = \"ns3-hpcc\"\nstop_time = \"20ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"c\", \"d\"]\n\
                switches = [\"s\"]\nlinks = [{ a = \"a\", b = \"s\" }, { a = \"b\", b = \"s\" }, { a = \"c\", b = \"s\" },\
                { a = \"d\", b = \"s\", delay = \"10us\" }]\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n[host]\ncongestion_control = \"hpcc-pint\"\n\
                window = \"variable\"\n[host.hpcc]\ntarget = 0.95\nadditive = \"40M\"\nmin_rate = \"1G\"\n[ns3]\nack_gate = 3\nglobal_t = false\n\
                [switch.config.buffer]\nsize = \"32MiB\"\n";
    let report = play(&format!("{head}{}{}", flow("a"), flow("b")));
    let times: Vec<_> = report.flows.iter().map(|flow| flow.fct_ns).collect();
    assert_eq!(times, [Some(37_208), Some(37_291)]);
}

/// A second NACK about one gap, and acknowledgements of what was sent after the first: what is in flight is less than nothing, and
/// the published sender, which has no sign for that, never goes on.
#[test]
fn a_window_that_acknowledgements_overtake_is_full_for_good() {
    let report = play(
        "name = \"ns3\"\nprofile = \"ns3-hpcc\"\nstop_time = \"60ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"c\", \"d\"]\n\
         switches = [\"s\", \"t\"]\nlinks = [{ a = \"a\", b = \"s\" }, { a = \"b\", b = \"s\" }, { a = \"c\", b = \"s\" },\
         { a = \"d\", b = \"t\", delay = \"299ns\" }, { a = \"s\", b = \"t\", rate = \"100G\", delay = \"9ns\" }]\n[link]\nrate = \"25G\"\n\
         delay = \"100us\"\n[host]\ncongestion_control = \"fixed_window\"\n[ns3]\nack_gate = 0\n[switch.config.buffer]\nsize = \"3MiB\"\n\
         [[workload]]\nkind = \"incast\"\nto = \"d\"\nbytes = \"2MB\"\n",
    );
    let times: Vec<_> = report.flows.iter().map(|flow| flow.fct_ns).collect();
    assert!(times[0].is_some() && times[1].is_some() && times[2].is_none(), "{times:?}");
    assert_eq!(report.frames_dropped, 1);
    assert_eq!(report.verdict, "FAIL");
}

#[test]
fn a_flow_that_never_begins_is_told_as_such() {
    let report = play(&format!(
        "{NS3}[[workload]]\nkind = \"flow\"\nfrom = \"h1\"\nto = \"h0\"\nbytes = 9\nstart = \"2s\"\n"
    ));
    let why = |word: &str| report.why.iter().any(|why| why.contains(word));
    assert!(
        why("1 flow never began, the first at 2000000000 ns") && !why("retransmission timer"),
        "{:?}",
        report.why
    );
    assert_eq!((report.flows[0].start_ns, report.flows_done, report.end_ns), (None, 0, 10_000_000));
    // Nor is the end of one that is cut short its last event.
    let cut = play(&format!("{NS3}{NS3_INCAST}").replace("10ms", "123457ns"));
    assert_eq!((cut.end_ns, cut.flows_done), (123_457, 0));
    assert!(
        cut.findings.iter().any(|found| found.contains("not delivered by 123457 ns")),
        "{:?}",
        cut.findings
    );
}

#[test]
fn the_ns3_profile_marks_with_dcqcn_and_says_why_it_drops() {
    let dcqcn = play(&format!("{NS3}{NS3_INCAST}cc = \"dcqcn\"\n").replace("4MiB", "32MiB"));
    // Ten published seeds: 1890 to 2170 marks, last flow after 1091 to 1133 us.
    assert!((1700..=2400).contains(&dcqcn.marks()), "{}", dcqcn.marks());
    assert!((1_050_000..1_180_000).contains(&dcqcn.fct_ns.unwrap().max), "{:?}", dcqcn.fct_ns);
    // Short links: headroom smaller than a frame, drops without a pause (shortlink_b1).
    let short = format!("{NS3}[link]\ndelay = \"9ns\"\n{NS3_INCAST}").replace("4MiB", "1MiB");
    let report = play(&short);
    assert_eq!((report.flows_done, report.pauses()), (0, 0));
    assert!(report.frames_dropped > 5000);
    assert!(report.why.iter().any(|s| s.contains("3 x rate x delay")), "{:?}", report.why);
    // The same in weir's own profile: nothing is lost.
    let own = play(&short.replace("profile = \"ns3-hpcc\"\n", ""));
    assert_eq!((own.frames_dropped, own.flows_done), (0, 8), "{:?}", own.why);
}

#[test]
fn what_contradicts_the_profile_is_refused_with_the_line() {
    let spec = format!("{NS3}{NS3_INCAST}");
    let with =
        |more: &str| spec.replace("[switch.config.buffer]", &format!("{more}\n[switch.config.buffer]"));
    let line = |text: &str, part: &str| 1 + text[..text.find(part).unwrap()].matches('\n').count();
    for (text, place, what) in [
        (with("[link]\nloss = 0.1"), "loss", "`link.loss` contradicts profile"),
        (with("[host]\npayload = 512"), "payload", "`ns3.payload`"),
        (with("[host]\npfc_priorities = [4]"), "[host]", "`host.pfc_priorities` contradicts"),
        (with("[switch]\nforwarding = \"cut_through\""), "forwarding", "store and forward"),
        (spec.replace("kind = \"star\"\nhosts = 9", "kind = \"direct\""), "kind = \"direct\"", "is a switch"),
        (format!("{spec}reliable = false\n"), "reliable = ", "`reliable`, `rate` cannot"),
        (format!("{spec}priority = 0\n"), "priority = ", "needs 1 to 7"),
        (format!("{spec}{NS3_INCAST}cc = \"dcqcn\"\n"), "cc = ", "the same `cc`"),
        (spec.replace("bytes = \"1MB\"\n", ""), "[[workload]]", "`bytes` is needed"),
        (
            with("[ns3]\nglobal_t = false") + "cc = \"dcqcn\"\n",
            "global_t",
            "ns3.global_t is set; it must be absent: congestion_control = dcqcn knows of no round trip",
        ),
        (
            with("[ns3]\nrate_bound = false") + "cc = \"none\"\n",
            "rate_bound",
            "ns3.rate_bound is set; it must be absent: congestion_control = none has the rate of the line",
        ),
        (
            spec.replace("[switch.config.buffer]\nsize = \"4MiB\"", "[switch.config]\nbuffer = [\"4MiB\"]"),
            "buffer = ",
            "expected a table with keys",
        ),
        (with("[switch.config.pfc]\npoll_gap = \"1us\""), "config", "buffer.size"),
        (spec.replace("4MiB", "5GB"), "config.buffer", "at most 4 GiB"),
        (
            with("[ns3]\nmin_rate = \"200G\"") + "cc = \"dcqcn\"\n",
            "min_rate",
            "ns3.min_rate is 200G; it must be at most the rate of a host's link, 100G",
        ),
        (
            with("[host.dctcp]\nmin_rate = \"200G\"") + "cc = \"dctcp\"\n",
            "min_rate",
            "host.dctcp.min_rate is 200G; it must be at most the rate of a host's link, 100G",
        ),
        (
            spec.replace("\"incast\"\nto = \"h8\"", "\"all_reduce\""),
            "[[workload]]",
            "some of this file begin when others have ended (steps of collectives, operations, triggers); take that workload out",
        ),
    ] {
        let message = refused(&text);
        assert!(message.contains(what), "{message}\n--- should say: {what}");
        let at = line(&text, place);
        // The header of a table counts for what is in it.
        let near = (at.saturating_sub(4)..=at + 1).any(|n| message.starts_with(&format!("test.toml:{n}: ")));
        assert!(near, "{message}\n--- should name line {at}");
    }
    assert!(refused(&spec.replace("ns3-hpcc", "ns4")).contains("unknown variant `ns4`"));
}

/// Switches write INT records with one multiplier, and all senders read them with that.
#[test]
fn hpcc_has_one_multiplier_whatever_the_lines_of_its_senders() {
    let of = |more: &str| {
        let link = |host: usize, rate: &str| format!("{{ a = \"h{host}\", b = \"s\", rate = \"{rate}\" }}");
        let links =
            [link(0, "100G"), link(1, "25G"), link(2, "25G"), link(3, "25G"), link(4, "100G")].join(", ");
        let flow = |from: &str, to: &str, bytes: &str| {
            format!("[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"{to}\"\nbytes = \"{bytes}\"\n")
        };
        let flows = flow("h1", "h3", "2MB") + &flow("h2", "h3", "2MB") + &flow("h0", "h4", "100KB");
        let report = play(&format!(
            "name = \"im\"\nprofile = \"ns3-hpcc\"\nstop_time = \"20ms\"\n[topology]\nkind = \"custom\"\n\
             hosts = [\"h0\", \"h1\", \"h2\", \"h3\", \"h4\"]\nswitches = [\"s\"]\nlinks = [{links}]\n[host]\ncongestion_control = \"hpcc\"\n{more}{flows}"
        ));
        report.flows.iter().map(|f| (f.fct_ns.unwrap(), f.rate_bps)).collect::<Vec<_>>()
    };
    let usual = of("");
    assert_eq!(usual, of("[host.hpcc]\nint_multi = 4\n"));
    // Two share the line of h3: neither keeps all of its own.
    assert!(usual[..2].iter().any(|(_, rate)| *rate < Some(20_000_000_000)), "{usual:?}");
}

/// As with `policy = \"hpcc\"`: headroom that holds frames of a circle does not empty, whatever the threshold is by then.
#[test]
fn the_ns3_profile_names_a_circle_that_stays_when_thresholds_have_risen() {
    let names =
        |what: &str, n: usize| (0..n).map(|i| format!("\"{what}{i}\"")).collect::<Vec<_>>().join(", ");
    let host = |h: usize| format!("{{ a = \"h{h}\", b = \"s{}\" }}", h / 2);
    let trunk = |s: usize| format!("{{ a = \"s{s}\", b = \"s{}\", rate = \"50G\" }}", (s + 1) % 5);
    let links: Vec<String> = (0..10).map(host).chain((0..5).map(trunk)).collect();
    let topology = format!(
        "kind = \"custom\"\nhosts = [{}]\nswitches = [{}]\nlinks = [{}]",
        names("h", 10),
        names("s", 5),
        links.join(", ")
    );
    let flows = [(6, "2551ns", "77KB"), (2, "1621ns", "459KB"), (5, "29ns", "542KB")].map(|(shift, stagger, bytes)| {
        format!("[[workload]]\nkind = \"permutation\"\nshift = {shift}\nstagger = \"{stagger}\"\nbytes = \"{bytes}\"\n")
    });
    let text = format!(
        "name = \"ring\"\nprofile = \"ns3-hpcc\"\nstop_time = \"1500us\"\n[topology]\n{topology}\n[switch.config.buffer]\n\
         size = \"1000KiB\"\n{}",
        flows.concat()
    );
    let report = play(&text);
    assert_eq!((report.deadlock.len(), report.verdict), (5, "FAIL"), "{:?}", report.why);
}

/// What the order of hosts in a file is, and how fast the line of one that sends nothing, decides nothing: ports mark where the file says, and
/// constants are those of the sender's line.
#[test]
fn the_first_host_of_a_file_decides_neither_marks_nor_constants() {
    let of = |cc: &str, hosts: &str, more: &str| {
        play(&format!(
            "name = \"k\"\nprofile = \"ns3-hpcc\"\nstop_time = \"20ms\"\n[topology]\nkind = \"custom\"\nhosts = {hosts}\nswitches = [\"s0\", \"s1\"]\n\
             links = [{{ a = \"slow\", b = \"s0\", rate = \"25G\" }}, {{ a = \"a\", b = \"s0\", rate = \"100G\" }}, {{ a = \"b\", b = \"s1\", rate = \"100G\" }},\
             {{ a = \"s0\", b = \"s1\", rate = \"50G\" }}]\n[host]\ncongestion_control = \"{cc}\"\n[switch.config.buffer]\nsize = \"32MiB\"\n{more}\
             [[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"b\"\nbytes = \"2MB\"\n"
        ))
    };
    let marks = |kmin: u64| {
        format!("[[switch.config.wred]]\nname = \"roce\"\nkmin = {kmin}\nkmax = {kmin}\npmax = \"100%\"\n")
    };
    let step = marks(10_000);
    let timely = "[host.timely]\nt_low = \"3us\"\nt_high = \"8us\"\nmin_rtt = \"5us\"\n";
    for (cc, more) in
        [("dctcp", step.as_str()), ("timely", timely), ("hpcc", ""), ("hpcc-pint", ""), ("dctcp", "")]
    {
        let [first, last] =
            ["[\"slow\", \"a\", \"b\"]", "[\"a\", \"b\", \"slow\"]"].map(|hosts| of(cc, hosts, more));
        assert_eq!(first.flows[0].fct_ns, last.flows[0].fct_ns, "{cc}");
        assert_eq!((first.marks(), first.queue_max()), (last.marks(), last.queue_max()), "{cc}");
        assert!(more != step || (first.marks() > 0 && first.queue_max() < 40_000), "{}", first.queue_max());
        // A sender on the slow line has the constants of that: it is not held to be faster than it is.
        let other = of(
            cc,
            "[\"a\", \"slow\", \"b\"]",
            &format!("{more}[[workload]]\nkind = \"flow\"\nfrom = \"slow\"\nto = \"b\"\nbytes = \"500KB\"\n"),
        );
        assert_eq!(other.flows_done, 2, "{cc}");
    }
    // Each port is held against its own law.
    let none = of("dctcp", "[\"slow\", \"a\", \"b\"]", &marks(10_000_000));
    assert!(none.why.iter().any(|s| s.contains("marking begins above 10000000")), "{:?}", none.why);
    let own = of("dctcp", "[\"slow\", \"a\", \"b\"]", "");
    assert!(
        own.marks() > 0 || own.why.iter().any(|s| s.contains("marking begins above 150000")),
        "{:?}",
        own.why
    );
}
