//! RC Link in a fabric: formats, credits, receive memories, and what goes wrong without them.

use super::*;

fn play(text: &str) -> Report {
    load("rclink.toml", text).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(text: &str) -> String {
    load("rclink.toml", text).and_then(|spec| run(&spec)).unwrap_err().to_string()
}

fn shipped(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../configs/sim/{name}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn sum(report: &Report, of: fn(&FlowResult) -> u64) -> u64 {
    report.flows.iter().map(of).sum()
}

/// Hosts of a star; `link`: keys of `[host.rclink]`.
fn star(hosts: usize, link: &str, workload: &str) -> String {
    format!(
        "name = \"star\"\nstop_time = \"20ms\"\n[topology]\nkind = \"star\"\nhosts = {hosts}\n[link]\nrate = \"100G\"\n\
         delay = \"100ns\"\n[host]\nprotocol = \"rclink\"\n[host.rclink]\n{link}\n[switch.config.buffer]\nsize = \"4MiB\"\n\
         [switch.config.port_defaults]\nmtu = 1600\n[[workload]]\n{workload}\n"
    )
}

#[test]
fn sw003_frames_of_all_four_formats_cross_a_fabric() {
    let incast = "kind = \"incast\"\nto = \"h3\"\nbytes = 1000001";
    let mut last = u64::MAX;
    for format in ["standard", "afh_gen1", "afh_gen2_16b", "afh_lite"] {
        for flow_control in ["pfc", "cbfc"] {
            let report =
                play(&star(4, &format!("format = \"{format}\"\nflow_control = \"{flow_control}\""), incast));
            let said = (report.verdict, report.frames_dropped, sum(&report, |f| f.delivered));
            assert_eq!(said, ("PASS", 0, 3_000_003), "{format} {flow_control}: {:?}", report.why);
            if flow_control == "pfc" {
                // Less around the payload, sooner through.
                let fct = report.fct_ns.unwrap().max;
                assert!(fct <= last, "{format}: {fct}");
                last = fct;
            } else {
                let pauses = report.pauses() + report.hosts.iter().map(|h| h.pfc_tx).sum::<u64>();
                assert_eq!(pauses, 0, "{format}: credits need no pauses");
                // Nor is anybody told to switch them on.
                assert!(report.warnings.is_empty(), "{format}: {:?}", report.warnings);
            }
        }
    }
}

/// What is told of losses under credits, and of marks in formats without them, is what can be done about it.
#[test]
fn what_is_told_of_credits_and_of_afh_is_of_them() {
    let incast = "kind = \"incast\"\nto = \"h4\"\nbytes = \"2MB\"";
    let many = star(5, "flow_control = \"cbfc\"\ncredits = 65535", incast).replace("\"4MiB\"", "\"2MiB\"");
    let report = play(&many);
    assert!(report.frames_dropped > 0, "{:?}", report.why);
    let of_headroom: Vec<_> = report.why.iter().filter(|why| why.contains("headroom_exhausted")).collect();
    assert!(
        !of_headroom.is_empty() && of_headroom.iter().all(|why| why.contains("Remedy: fewer `credits`")),
        "{of_headroom:?}"
    );
    for format in ["afh_gen1", "afh_gen2_16b", "afh_lite", "standard"] {
        let report = play(&star(
            3,
            &format!("format = {format:?}"),
            "kind = \"incast\"\nto = \"h2\"\nbytes = \"50KB\"",
        ));
        let told = report.why.iter().any(|why| why.ends_with("have no ECN field."));
        assert_eq!(told, format != "standard", "{format}: {:?}", report.why);
    }
}

#[test]
fn sw130_scenario_a_credits_hold_the_sender_back() {
    let lossy = play(&shipped("scenario-a"));
    assert_eq!((lossy.verdict, sum(&lossy, |f| f.delivered)), ("PASS", 20_000_000));
    assert!(lossy.frames_lost > 0 && sum(&lossy, |f| f.resent) > 0, "credits of what was lost come back");
    let clean = shipped("scenario-a").replace("loss = 0.0005\n", "");
    let a = play(&clean);
    let [sender, reader] = [&a.hosts[0], &a.hosts[1]];
    // Requests of bank 0 are channel 3: it waits for credits most of the time, as the reader reads half of what could come.
    let fct = a.fct_ns.unwrap().max;
    let share = sender.credit_wait_ns[3] as f64 / fct as f64;
    assert!((0.5..0.9).contains(&share), "{share}");
    assert_eq!(sender.credit_wait_ns.iter().filter(|ns| **ns > 0).count(), 1, "{:?}", sender.credit_wait_ns);
    // What the credits are worth is the memory of the reader, and it is used.
    let credits = 1024 * 256;
    assert!(reader.memory_peak <= credits && reader.memory_peak > credits / 2, "{}", reader.memory_peak);
    assert!(a.hosts.iter().all(|h| h.pfc_tx == 0 && h.pauses == [0; 8]));
    // 20 MB at the pace of the reader, 200 Gbit/s.
    assert!((800_000..1_000_000).contains(&fct), "{fct}");
    // Without the reader it goes at the pace of the cable.
    let fast = play(&clean.replace("read_rate = \"200G\"\n", ""));
    assert!(fast.fct_ns.unwrap().max < fct * 2 / 3 && fast.hosts[0].credit_wait_ns[3] < fct / 20);
    // SW-023: credits below what is on the way both ways are a rate: 16 KiB per loop.
    let tight = play(&clean.replace("credits = 1024", "credits = 32").replace("50ns", "1us"));
    assert!(tight.verdict == "PASS" && tight.fct_ns.unwrap().max > fct, "{:?}", tight.fct_ns);
}

#[test]
fn sw131_scenario_b_pfc_alone_keeps_what_lite_cannot_send_again() {
    let b = play(&shipped("scenario-b"));
    assert_eq!((b.verdict, b.frames_dropped, b.marks(), sum(&b, |f| f.resent)), ("PASS", 0, 0, 0));
    // The switch beside the receiver pauses the other one, and that one its chip (SW-104).
    assert!(b.switches.iter().all(|s| s.ports.iter().any(|p| p.pfc_tx_xoff > 0)), "{:?}", b.switches);
    // Without pauses frames are lost, nobody sends them again, and nobody is told.
    let text = shipped("scenario-b").replace("payload = 1302\n", "payload = 1302\npfc_priorities = []\n");
    let deaf = play(&text);
    assert!(deaf.frames_dropped > 0 && deaf.flows_done < deaf.flows_finite && deaf.verdict == "FAIL");
    assert_eq!(sum(&deaf, |f| f.resent), 0);
    assert!(sum(&deaf, |f| f.delivered) < 10_000_000);
}

/// The first message is read when it comes, each further one after the time that the one before takes at `read_rate`: to the
/// nanosecond, whenever a flow begins.
#[test]
fn a_reader_makes_up_for_no_time_in_which_there_was_nothing_to_read() {
    let fct = |messages: u64, start: &str, back: &str| {
        let text = format!(
            "name = \"reader\"\nstop_time = \"20ms\"\n[topology]\nkind = \"direct\"\n[host]\nprotocol = \"rclink\"\npayload = 1000\n\
             [host.rclink]\nread_rate = \"20G\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = {}\n\
             start = \"{start}\"\n{back}",
            1000 * messages
        );
        let report = play(&text);
        (report.flows[0].fct_ns.unwrap(), report.links.iter().find(|link| link.from == "h0").unwrap().bytes)
    };
    // A frame on the wire.
    let step = fct(1, "0ns", "").1 * 8;
    for start in ["0ns", "3us", "10us"] {
        let alone = fct(1, start, "").0;
        for messages in [2, 3, 7] {
            let read = (step * (messages - 1)).div_ceil(20);
            assert_eq!(fct(messages, start, "").0 - alone, read, "{messages} at {start}");
        }
        // Where the line is busy the last one is read a frame later at most, however many there are.
        let back = "[[workload]]\nkind = \"flow\"\nfrom = \"h1\"\nto = \"h0\"\nbytes = \"1MB\"\n";
        let (busy, read) = (fct(200, start, back).0, step * 199 / 20);
        assert!((read..=read + 2 * step / 100).contains(&(busy - alone)), "{} {read}", busy - alone);
    }
}

/// The rate of a workload is what is on the wire, FCS, preamble and gap included, however short the frames.
#[test]
fn a_rate_is_that_on_the_wire() {
    for format in ["standard", "afh_gen1"] {
        for (payload, bytes) in [(1344, 1_344_000), (64, 640_000)] {
            let report = play(&format!(
                "name = \"rate\"\nstop_time = \"5ms\"\n[topology]\nkind = \"direct\"\n[host]\nprotocol = \"rclink\"\n\
                 payload = {payload}\n[host.rclink]\nformat = \"{format}\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\n\
                 to = \"h1\"\nbytes = {bytes}\nrate = \"10G\"\n"
            ));
            let gbps = report.links[0].bytes as f64 * 8.0 / report.fct_ns.unwrap().max as f64;
            assert!((9.9..10.1).contains(&gbps), "{format}, {payload}: {gbps}");
        }
    }
}

/// A window counts whole bytes: what a rate loses by that is told, and one that windows do not have is refused.
#[test]
fn rates_are_whole_bytes_in_a_window() {
    let text = |rate: &str, window: &str| {
        format!(
            "name = \"rate\"\nstop_time = \"100ms\"\n[topology]\nkind = \"direct\"\n[link]\nrate = \"800G\"\n[host]\n\
             protocol = \"rclink\"\n[host.rclink]\ncc_window = \"{window}\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\n\
             to = \"h1\"\nbytes = 10000\n{rate}\n"
        )
    };
    let notes = |rate: &str, window: &str, bps: u64| {
        let report = play(&text(rate, window));
        assert_eq!((report.verdict, report.flows[0].rate_bps), ("PASS", Some(bps)), "{rate} {window}");
        report.why.into_iter().filter(|why| why.contains("whole bytes")).collect::<Vec<_>>()
    };
    let told = notes("rate = \"3M\"", "4us", 1_953_125);
    assert!(
        told.len() == 1 && told[0].starts_with("The rate of 1 queue pair is 1953125 bit/s, not 3M"),
        "{told:?}"
    );
    assert_eq!(notes("rate = \"3M\"", "65us", 2_929_687).len(), 1);
    assert!(notes("rate = 31250000", "4us", 31_250_000).is_empty());
    assert!(notes("rate = \"33.3G\"", "4us", 33_298_828_125).is_empty());
    for (rate, window, bytes) in [("rate = \"1M\"", "4us", 0), ("rate = \"800G\"", "65us", 6_553_600)] {
        let said = refused(&text(rate, window));
        let wanted = format!(
            "host.rclink.cc_window is {window}; it must be one in which a queue pair sends 1 to 4194303 bytes: at "
        );
        assert!(said.contains(&wanted) && said.contains(&format!("it is {bytes};")), "{said}");
    }
}

/// Hosts send PFC frames for their receive memories: where switches send none, nothing says that there were none.
#[test]
fn pauses_of_hosts_are_told_where_switches_send_none() {
    let incast = |read: &str| {
        let text = star(
            3,
            &format!("format = \"afh_gen1\"\n{read}"),
            "kind = \"incast\"\nto = \"h2\"\nbytes = \"64KB\"",
        );
        play(&text)
    };
    let said = |r: &Report, what: &str| r.why.iter().any(|why| why.contains(what));
    let (slow, fast) = (incast("read_rate = \"60G\""), incast(""));
    let frames: u64 = slow.hosts.iter().map(|h| h.pfc_tx).sum();
    assert!(frames > 0 && slow.pauses() == 0 && slow.hosts[2].pfc_tx == frames);
    assert!(said(&slow, "No switch sent PFC: the fullest") && !said(&slow, "No PFC"), "{:?}", slow.why);
    assert!(
        said(&slow, &format!("Hosts sent {frames} PFC frames")) && said(&slow, &format!("h2 most, {frames}"))
    );
    assert_eq!((slow.host_pfc(), slow.summary().host_pfc_frames), (frames, Some(frames)));
    let page = slow.to_html();
    let data = page.split("type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert!(data["summary"]["host_pfc_frames"] == frames && data["hosts"].to_string().contains("\"h2\""));
    // A bar for each time.
    let bars: Vec<_> = slow.timeline.pauses.iter().filter(|p| p.node == "h2" && p.peer == "s0").collect();
    assert!(!bars.is_empty() && bars.len() == slow.timeline.pauses.len(), "{:?}", slow.timeline.pauses);
    // Requests have two priorities, which a memory that fills pauses together.
    assert!(
        bars.iter().all(|p| [3, 4].contains(&p.priority) && p.from_ns < p.to_ns && p.to_ns <= slow.end_ns)
    );
    assert_eq!(data["timeline"]["pauses"].as_array().map(Vec::len), Some(bars.len()));
    assert!(fast.timeline.pauses.is_empty(), "{:?}", fast.timeline.pauses);
    assert!(said(&fast, "No PFC was sent: the fullest") && !said(&fast, "Hosts sent"), "{:?}", fast.why);
    assert_eq!(fast.summary().host_pfc_frames, None);
    // Without a switch, too.
    let direct = |read: &str| {
        play(&format!(
            "name = \"d\"\nstop_time = \"5ms\"\n[topology]\nkind = \"direct\"\n[host]\nprotocol = \"rclink\"\n[host.rclink]\n{read}\n\
             [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"2MB\"\n"
        ))
    };
    let (slow, fast) = (direct("read_rate = \"20G\""), direct(""));
    assert!(slow.why[0].starts_with("No mark and no drop") && said(&slow, "Hosts sent"), "{:?}", slow.why);
    assert!(fast.why == ["No PFC, no mark and no drop: there is no switch."], "{:?}", fast.why);
}

/// A memory that overflows is told of, with what to change, whether its frames are sent again or not.
#[test]
fn memories_that_overflow_are_told_of() {
    let incast = "kind = \"incast\"\nto = \"h3\"\nbytes = \"100KB\"";
    for retransmit in [true, false] {
        let of = |more: &str| {
            play(
                &star(4, &format!("read_rate = \"20G\"\nretransmit = {retransmit}\n{more}"), incast)
                    .replace("100ns", "3us"),
            )
        };
        let lost = |r: &Report| r.hosts.iter().map(|host| host.no_room).sum::<u64>();
        let told = |r: &Report| {
            r.why.iter().any(|why| {
                why.starts_with(&format!(
                    "Hosts threw away {} because",
                    weir_layout::counted(lost(r), "frame")
                )) && why.contains("`round_trip`")
            })
        };
        let (short, usual) = (of("round_trip = 100"), of(""));
        assert!(lost(&short) > 0 && told(&short), "{:?}", short.why);
        assert_eq!(short.hosts[3].no_room, lost(&short));
        assert!(lost(&usual) == 0 && !told(&usual), "{:?}", usual.why);
    }
}

/// Two hosts send to each other as fast as they can, and hardly read: of their memories there is enough with the usual `round_trip`,
/// at a switch and without one, and with a frame less somewhere not.
#[test]
fn the_usual_round_trip_is_enough_and_no_more() {
    let lost = |kind: &str, delay: u64, payload: u32, round_trip: &str| -> u64 {
        let switch = match kind {
            "direct" => "",
            _ => "[switch]\ningress = \"90ns\"\negress = \"60ns\"\n",
        };
        let kind = if kind == "direct" { "direct\"" } else { "star\"\nhosts = 2" };
        let report = play(&format!(
            "name = \"d\"\nstop_time = \"40us\"\n[topology]\nkind = \"{kind}\n[link]\nrate = \"100G\"\ndelay = \"{delay}ns\"\n\
             {switch}[host]\nprotocol = \"rclink\"\npayload = {payload}\n\
             tx_delay = \"700ns\"\nrx_delay = \"80ns\"\npfc_response_delay = \"130ns\"\n\
             [host.rclink]\nread_rate = \"1M\"\nretransmit = false\n{round_trip}\n[[workload]]\nkind = \"permutation\"\n"
        ));
        assert!(report.hosts.iter().all(|host| host.pfc_tx > 0), "{kind} {delay}: {:?}", report.why);
        report.hosts.iter().map(|host| host.no_room).sum()
    };
    for (kind, ways) in [("direct", 2 * 700 + 130 + 80), ("star", 700 + 90 + 60 + 80)] {
        let mut overflows = 0;
        for delay in (0..24).map(|n| 20 + n * 37) {
            for payload in [500, 1344] {
                assert_eq!(lost(kind, delay, payload, ""), 0, "{kind} {delay} {payload}");
            }
            // Three frames of 1426 bytes and a pause of 84 take 348.96 ns; one takes 114.08.
            let less = 2 * delay + ways + 349 - 115;
            overflows += u64::from(lost(kind, delay, 1344, &format!("round_trip = \"{less}ns\"")) > 0);
        }
        assert!(overflows > 0, "{kind}");
    }
}

#[test]
fn sw132_scenario_c_pfc_is_the_last_line() {
    let c = play(&shipped("scenario-c"));
    assert_eq!((c.verdict, c.frames_dropped, sum(&c, |f| f.resent)), ("PASS", 0, 0));
    assert!(c.marks() > 0 && sum(&c, |f| f.cnps.unwrap()) > 0, "{:?}", c.why);
    // The buffer of chip b fills, and it pauses its switch: the last host is chip-b.
    let chip_b = c.hosts.iter().find(|h| h.name == "chip-b").unwrap();
    assert!(chip_b.pfc_tx > 0 && chip_b.memory_peak > 32 * 1406, "{chip_b:?}");
    assert!(c.hosts.iter().all(|h| h.unexpected == 0), "and nothing is lost in it");
    // The switches pause less than where nobody slows down for a mark.
    let deaf_to_marks = play(&shipped("scenario-c").replace("cc = \"backoff\"\n", ""));
    let paused = |r: &Report| r.hosts.iter().flat_map(|h| h.paused_ns).sum::<u64>();
    assert!(paused(&c) < paused(&deaf_to_marks), "{} {}", paused(&c), paused(&deaf_to_marks));
    // Hosts that know neither lose frames: without marks and without the last line.
    let without = shipped("scenario-c")
        .replace("cc = \"backoff\"\n", "")
        .replace("payload = 1302\n", "payload = 1302\npfc_priorities = []\n")
        .replace("read_rate", "window = 2048\nread_rate");
    assert!(play(&without).frames_dropped > 0);
}

/// Frames of AFH_Lite have no numbers, and a short last one overtakes others where paths are several: a flow that is delivered has
/// all its bytes, one that is not those that came.
#[test]
fn a_flow_of_lite_has_the_bytes_of_its_frames_in_any_order() {
    let of = |bytes: u64, seed: u64, loss: &str| {
        play(&format!(
            "name = \"lite\"\nstop_time = \"1ms\"\nseed = {seed}\n[topology]\nkind = \"leaf_spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 2\n\
             [link]\n{loss}[routing]\nmode = \"spray\"\n[host]\nprotocol = \"rclink\"\n[host.rclink]\nformat = \"afh_lite\"\n\
             [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h2\"\nbytes = {bytes}\n\
             [[workload]]\nkind = \"flow\"\nfrom = \"h1\"\nto = \"h3\"\nbytes = 300000\n"
        ))
    };
    for (bytes, seed) in [(1100, 1), (1100, 2), (1030, 3), (3100, 4), (10_241, 5), (20_500, 6)] {
        let whole = of(bytes, seed, "");
        let got: Vec<u64> = whole.flows.iter().map(|f| f.delivered).collect();
        assert_eq!((whole.verdict, got), ("PASS", vec![bytes, 300_000]), "seed {seed}");
        let lossy = of(bytes, seed, "loss = 0.01\n");
        let long = &lossy.flows[1];
        // 292 full frames and one of 992 bytes: either all that are missing are full, or it is one of them.
        let missing = 300_000 - long.delivered;
        assert!(missing > 0 && [0, 992].contains(&(missing % 1024)), "seed {seed}: {missing} bytes");
        assert_eq!((lossy.verdict, long.fct_ns), ("FAIL", None));
    }
}

/// A count that gives back the credits of lost frames takes the path of the queue pair it counts: where several queue pairs to one
/// peer have paths of their own, none is stuck, and none of its frames is taken for lost, however the others wait.
#[test]
fn sw022_credits_come_back_on_all_paths() {
    let fabric = |format: &str, seed: u64, more: &str| {
        let permutations = "[[workload]]\nkind = \"permutation\"\nbytes = \"400KB\"\n".repeat(4);
        format!(
            "name = \"paths\"\nseed = {seed}\nstop_time = \"20ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 4\nspines = 2\n\
             hosts_per_leaf = 3\n[link]\ndelay = 100\n{more}[host]\nprotocol = \"rclink\"\n[host.rclink]\nformat = \"{format}\"\n\
             flow_control = \"cbfc\"\ncredits = 128\n{permutations}"
        )
    };
    for (format, seed) in
        [("standard", 1), ("standard", 2), ("standard", 3), ("afh_gen1", 1), ("afh_gen2_16b", 1)]
    {
        let report = play(&fabric(format, seed, ""));
        assert_eq!((report.verdict, report.frames_dropped), ("PASS", 0), "{format} {seed}: {:?}", report.why);
        assert!(
            report.hosts.iter().all(|host| host.unexpected == 0),
            "{format} {seed}: no memory is overrun"
        );
        let lossy = play(&fabric(format, seed, "loss = 0.002\n"));
        assert_eq!(lossy.verdict, "PASS", "{format} {seed}, with losses: {:?}", lossy.why);
    }
    let error = refused(&fabric("standard", 1, "[routing]\nmode = \"spray\"\n"));
    assert!(error.contains("routing.mode is \"spray\"; it must be \"ecmp\" with credits"), "{error}");
}

/// Two senders fill the link of h2, a third flow goes past them to h3; `priority` is its own.
fn victim(link: &str, priority: u8) -> u64 {
    let report = play(&format!(
        "name = \"victim\"\nstop_time = \"20ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"v\", \"x\", \"y\"]\n\
         switches = [\"s\", \"t\"]\nlinks = [{{ a = \"a\", b = \"s\" }}, {{ a = \"b\", b = \"s\" }}, {{ a = \"v\", b = \"s\" }}, \
         {{ a = \"s\", b = \"t\", rate = \"400G\" }}, {{ a = \"t\", b = \"x\" }}, {{ a = \"t\", b = \"y\" }}]\n\
         [link]\nrate = \"100G\"\ndelay = \"100ns\"\n[host]\nprotocol = \"rclink\"\n[host.rclink]\n{link}\n\
         [switch.config.buffer]\nsize = \"2MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
         [[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"x\"\nbytes = \"10MB\"\n\
         [[workload]]\nkind = \"flow\"\nfrom = \"b\"\nto = \"x\"\nbytes = \"10MB\"\n\
         [[workload]]\nkind = \"flow\"\nfrom = \"v\"\nto = \"y\"\nbytes = \"5MB\"\npriority = {priority}\n"
    ));
    assert_eq!((report.verdict, report.frames_dropped), ("PASS", 0), "{:?}", report.why);
    report.flows[2].fct_ns.unwrap() * 1000 / report.flows[2].ideal_ns.unwrap()
}

#[test]
fn sw106_a_victim_flow_is_held_back_in_the_class_of_others_and_by_pauses_alone() {
    let (same, other) = (victim("", 3), victim("", 4));
    let credits = victim("flow_control = \"cbfc\"\ncredits = 1024", 3);
    // In thousandths of what it takes alone.
    assert!(same > 1500 && other < 1150 && credits < 1150, "{same} {other} {credits}");
}

/// Two chips ask each other; every request is answered, and chips read less than comes.
fn ask(priorities: &str) -> Report {
    play(&format!(
        "name = \"ask\"\nstop_time = \"5ms\"\n[topology]\nkind = \"direct\"\n[link]\nrate = \"100G\"\ndelay = \"100ns\"\n\
         [host]\nprotocol = \"rclink\"\n[host.rclink]\nwindow = 8\nread_rate = \"30G\"\n{priorities}\n\
         [[workload]]\nkind = \"permutation\"\nshift = 1\nbytes = \"2MB\"\nresponse = 1024\n"
    ))
}

/// Requests wait in the memory until the queue of responses has room, and no longer: with room for one it is there when the one before it
/// is acknowledged or, in LITE mode, begins to be sent.
#[test]
fn a_request_is_read_when_its_response_can_be_queued() {
    // From the reading of the last request to the last bit of its response.
    let answered = |requests: u64, rclink: &str| {
        let report = play(&format!(
            "name = \"ask\"\nstop_time = \"5ms\"\n[topology]\nkind = \"direct\"\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n\
             [host]\nprotocol = \"rclink\"\npayload = 64\n[host.rclink]\nwindow = 1\n{rclink}\n[[workload]]\nkind = \"flow\"\n\
             from = \"h0\"\nto = \"h1\"\nbytes = {}\nresponse = 1344\n",
            64 * requests
        ));
        assert_eq!(report.verdict, "PASS", "{:?}", report.why);
        let [read, end] =
            [0, 1].map(|at| report.flows[at].start_ns.unwrap() + report.flows[at].fct_ns.unwrap());
        (read, end - read)
    };
    let near = |a: u64, b: u64| a.abs_diff(b) <= 2;
    let [of_20, of_21, of_22] = [20, 21, 22].map(|requests| answered(requests, ""));
    // It leaves at once, and takes its time on the line and on the cable.
    let line = of_20.1 - 1000;
    assert!(
        (108..125).contains(&line) && near(of_21.1, of_20.1) && near(of_22.1, of_20.1),
        "{of_21:?} {of_22:?}"
    );
    assert!(
        near(of_22.0 - of_21.0, of_21.0 - of_20.0) && of_21.0 > of_20.0 + 2000,
        "{of_20:?} {of_21:?} {of_22:?}"
    );
    // It waits for the line, which the one before it has begun to take.
    let [of_20, of_21] = [20, 21].map(|requests| answered(requests, "retransmit = false"));
    assert!(near(of_20.1, 1000 + 2 * line) && near(of_21.1, of_20.1), "{line}: {of_20:?} {of_21:?}");
    assert!(near(of_21.0 - of_20.0, line), "{line}: {of_20:?} {of_21:?}");
}

#[test]
fn sw106_requests_that_share_a_class_with_responses_deadlock() {
    let apart = ask("");
    assert_eq!((apart.verdict, apart.flows_done), ("PASS", 4), "{:?}", apart.findings);
    assert!(apart.hosts.iter().all(|h| h.pfc_tx > 0), "memories fill, and that is all");
    let shared = ask("priorities = { response = 3 }");
    // Each waits to send a response until the other reads, and reads once it could send one.
    assert_eq!((shared.verdict, shared.flows_done), ("FAIL", 0), "{:?}", shared.findings);
    let (half, end) = (sum(&shared, |f| f.delivered), sum(&apart, |f| f.delivered));
    assert!(half < end / 2, "{half} {end}");
    assert!(shared.hosts.iter().all(|h| h.paused_ns[3] > 4_000_000), "{:?}", shared.hosts);
}

/// The hosts of that circle are named, over a switch, too; those that only wait for a slow reader are not.
#[test]
fn sw106_the_circle_of_requests_and_responses_is_named() {
    let star = |hosts: usize, rclink: &str| {
        play(&format!(
            "name = \"ask\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = {hosts}\n[link]\nrate = \"100G\"\n\
             delay = \"100ns\"\n[host]\nprotocol = \"rclink\"\n[host.rclink]\nwindow = 8\nread_rate = \"30G\"\n{rclink}\n\
             [[workload]]\nkind = \"permutation\"\nshift = 1\nbytes = \"2MB\"\nresponse = 1024\n"
        ))
    };
    let shared = "priorities = { response = 3 }";
    for report in [ask(shared), star(2, shared)] {
        assert_eq!(report.deadlock, ["h0", "h1"], "{:?}", report.findings);
        assert_eq!(report.findings[0], "deadlock of requests and responses: h0 -> h1");
        let why = report
            .why
            .iter()
            .find(|why| why.starts_with("Deadlock of requests and responses: h0 -> h1 -> h0: "));
        assert!(
            why.is_some_and(|why| why.contains("`priorities.response` in [host.rclink]")),
            "{:?}",
            report.why
        );
    }
    for report in [ask(""), star(2, "")] {
        assert!(report.deadlock.is_empty() && report.verdict == "PASS", "{:?}", report.findings);
    }
    // With credits it is those of the channel that requests have taken, and each peer has its own: three hosts that ask in a circle
    // have room for all responses.
    let credits = |topology: &str, response: u8| {
        play(&format!(
            "name = \"ask\"\nstop_time = \"5ms\"\n[topology]\n{topology}\n[link]\nrate = \"100G\"\ndelay = \"100ns\"\n[host]\n\
             protocol = \"rclink\"\npayload = 64\n[host.rclink]\nwindow = 8\nread_rate = \"30G\"\nflow_control = \"cbfc\"\n\
             credits = 64\npriorities = {{ response = {response} }}\n\
             [[workload]]\nkind = \"permutation\"\nshift = 1\nbytes = \"100KB\"\nresponse = 1024\n"
        ))
    };
    for topology in ["kind = \"direct\"", "kind = \"star\"\nhosts = 2"] {
        let report = credits(topology, 3);
        assert_eq!(report.findings[0], "deadlock of requests and responses: h0 -> h1", "{:?}", report.why);
        assert_eq!((report.pauses(), report.host_pfc(), report.verdict), (0, 0, "FAIL"));
        let words =
            "Deadlock of requests and responses: h0 -> h1 -> h0: each has the memory that its credits";
        let why = report.why.iter().find(|why| why.starts_with(words));
        assert!(why.is_some_and(|why| why.contains("a channel for responses alone")), "{:?}", report.why);
        let apart = credits(topology, 2);
        assert!(apart.deadlock.is_empty() && apart.verdict == "PASS", "{:?}", apart.findings);
    }
    let three = credits("kind = \"star\"\nhosts = 3", 3);
    assert!(three.deadlock.is_empty() && three.verdict == "PASS", "{:?}", three.findings);
    // Cut short while memories are full and hosts paused.
    for stop in (20..200).step_by(7) {
        let text = format!(
            "name = \"slow\"\nstop_time = \"{stop}us\"\n[topology]\nkind = \"direct\"\n[link]\nrate = \"100G\"\ndelay = \"100ns\"\n\
             [host]\nprotocol = \"rclink\"\n[host.rclink]\nread_rate = \"30G\"\n\
             [[workload]]\nkind = \"permutation\"\nshift = 1\nbytes = \"2MB\"\nresponse = 1024\n"
        );
        let report = play(&text);
        assert!(report.deadlock.is_empty() && report.host_pfc() > 0, "{stop}: {:?}", report.why);
    }
}

/// Acknowledgements in a class that memories pause: a host holds back itself what its responses wait for.
#[test]
fn sw106_a_host_that_pauses_its_acknowledgements_is_named() {
    let of = |topology: &str, ack: u8, stop: &str| {
        play(&format!(
            "name = \"ack\"\nstop_time = \"{stop}\"\n[topology]\n{topology}\n[link]\nrate = \"100G\"\n[host]\nprotocol = \"rclink\"\n\
             payload = 64\n[host.rclink]\nread_rate = \"20G\"\npriorities = {{ ack = {ack} }}\n\
             [[workload]]\nkind = \"permutation\"\nbytes = \"1MB\"\nresponse = 1344\n"
        ))
    };
    for topology in
        ["kind = \"direct\"", "kind = \"star\"\nhosts = 4\n[switch.config.buffer]\nsize = \"8MiB\""]
    {
        let [early, late] = ["5ms", "20ms"].map(|stop| of(topology, 3, stop));
        assert_eq!(sum(&early, |f| f.delivered), sum(&late, |f| f.delivered), "{topology}");
        for report in [early, late] {
            assert_eq!(report.deadlock, ["h0"], "{topology}: {:?}", report.why);
            assert_eq!(report.findings[0], "deadlock of requests and acknowledgements: h0");
            let words = "Deadlock of requests and acknowledgements: h0 has its memory full of requests, ";
            let why = report.why.iter().find(|why| why.starts_with(words));
            assert!(
                why.is_some_and(|why| why.contains("`priorities.ack` in [host.rclink]")),
                "{:?}",
                report.why
            );
        }
        let apart = of(topology, 6, "20ms");
        assert!(apart.deadlock.is_empty() && apart.verdict == "PASS", "{topology}: {:?}", apart.findings);
    }
    // While it is not known yet whether acknowledgements still come.
    for stop in (20..120).step_by(9) {
        let report = of("kind = \"direct\"", 6, &format!("{stop}us"));
        assert!(report.deadlock.is_empty() && report.host_pfc() > 0, "{stop}: {:?}", report.why);
    }
}

#[test]
fn sw106_a_ring_deadlocks_and_a_watchdog_breaks_it() {
    let moved = |r: &Report| {
        let total = |i: usize| r.samples[r.samples.len() - i].delivered.iter().sum::<u64>();
        total(1) - total(2)
    };
    let stuck = play(&shipped("ring-deadlock"));
    assert!(moved(&stuck) == 0 && stuck.deadlock.len() == 4 && stuck.frames_dropped == 0, "{:?}", stuck.why);
    let watchdog = "[switch.config.watchdog]\naction = \"drop\"\npoll_interval = \"50us\"\ndetection_time = \"200us\"\n\
                    restoration_time = \"200us\"\nallow_short = true\n[switch.config.port_defaults]";
    let freed = play(&shipped("ring-deadlock").replace("[switch.config.port_defaults]", watchdog));
    let storms: u64 = freed.switches.iter().flat_map(|s| &s.ports).map(|p| p.storms).sum();
    assert!(storms > 0 && freed.lossless_drops_watchdog > 0 && moved(&freed) > 0, "{storms} {:?}", freed.why);
    assert!(
        freed.samples.last().unwrap().delivered.iter().sum::<u64>()
            > 2 * stuck.samples.last().unwrap().delivered.iter().sum::<u64>()
    );
}

/// The sentence about a circle says what the watchdog that the switches have did, or when it would have.
#[test]
fn the_sentence_of_a_deadlock_is_about_the_watchdog_there_is() {
    let said = |keys: &str, until: &str| {
        let watchdog = format!("[switch.config.watchdog]\n{keys}\n[switch.config.port_defaults]");
        let text = shipped("ring-deadlock").replace("[switch.config.port_defaults]", &watchdog);
        let report = play(&text.replace("stop_time = \"4ms\"", until));
        let why = report.why.iter().find(|why| why.starts_with("PFC deadlock")).cloned();
        (why.unwrap_or_default(), report)
    };
    let (late, report) = said("detection_time = \"200ms\"", "stop_time = \"4ms\"");
    assert!(
        late.contains("The watchdog acts 200000000 ns after") && late.contains("ended before, at 4000000 ns"),
        "{late}"
    );
    assert_eq!(report.lossless_drops_watchdog, 0);
    let often = "poll_interval = \"50us\"\ndetection_time = \"200us\"\nrestoration_time = \"200us\"\nallow_short = true\n";
    let (alert, _) = said(&format!("{often}action = \"alert\""), "stop_time = \"4ms\"");
    assert!(alert.contains(", and with action = \"alert\" it breaks no circle"), "{alert}");
    // Right after it has dropped frames the circle may be closed again: whatever the end, the words are about drops.
    let acted = (10..30)
        .map(|n| said(&format!("{often}action = \"drop\""), &format!("stop_time = \"{}us\"", n * 100)));
    let again = acted.filter(|(why, report)| !why.is_empty() && report.lossless_drops_watchdog > 0);
    let words: Vec<String> = again.map(|(why, _)| why).collect();
    assert!(!words.is_empty(), "the circle is closed again");
    assert!(words.iter().all(|why| why.contains(" and dropped ")), "{words:?}");
}

#[test]
fn options_that_contradict_are_refused_with_the_key() {
    let flow = "kind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = 1000";
    let lite = "format = \"afh_lite\"";
    for (link, workload, wanted) in [
        ("credits = 7", flow, "host.rclink.credits is set; it must be absent: flow_control = \"pfc\""),
        (
            "flow_control = \"cbfc\"\ncredit_bytes = 512",
            flow,
            "host.rclink.credit_bytes is 512; it must be 32, 64",
        ),
        (
            "flow_control = \"cbfc\"\ncredit_report = 8",
            flow,
            "host.rclink.credit_report is 8; it must be 1 to 7",
        ),
        ("flow_control = \"cbfc\"\ncredits = 1", flow, "host.rclink.credits is 1; it must be 18 to 524287"),
        ("read_rate = 0", flow, "host.rclink.read_rate is 0; it must be more than 0"),
        ("priorities = { request = [3, 3, 3, 3, 3] }", flow, "5 priorities; requests have 4"),
        ("flow_control = \"cbfc\"\nround_trip = \"1us\"", flow, "host.rclink.round_trip is set"),
        ("format = \"afh_lite\"\nretransmit = true", flow, "no numbers to ask for"),
        (
            "format = \"afh_gen1\"",
            &format!("{flow}\ncc = \"backoff\""),
            "workload.0.cc is backoff; it must be none: frames of that `format`",
        ),
        ("priorities = { ack = 9 }", flow, "host.rclink.priorities is 9"),
        ("credit_interval = 0", flow, "longer than 0"),
        ("", &format!("{flow}\npriority = 6"), "[3, 3, 4, 4] (requests) or 2 (responses)"),
        ("", &format!("{flow}\nresponse = 2000"), "`response` is 2000"),
        ("", "kind = \"all_reduce\"\nbytes = 1000\nresponse = 10", "`response` means nothing here"),
        (
            lite,
            &format!("{flow}\n[[workload]]\n{flow}"),
            "host.rclink.format is afh_lite; it must be another: its frames do not say",
        ),
    ] {
        let said = refused(&star(3, link, workload));
        assert!(said.contains(wanted) && said.contains("rclink.toml"), "{said}");
    }
    let many = star(3, "format = \"afh_gen2_16b\"", flow)
        .replace("hosts = 3", "hosts = 128")
        .replace("4MiB", "64MiB");
    assert_eq!(play(&many).verdict, "PASS");
}

/// One line of the table of docs/roce-paxi.md: the same incast under another protocol.
fn compared(name: &str, host: &str, wred: &str, workload: &str) -> String {
    let text = format!(
        "name = \"compare\"\nstop_time = \"20ms\"\n[topology]\nkind = \"star\"\nhosts = 5\n[link]\nrate = \"100G\"\ndelay = \"500ns\"\n\
         [host]\npayload = 1344\n{host}\n[switch.config.buffer]\nsize = \"2MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
         {wred}[[workload]]\nkind = \"incast\"\nto = \"h4\"\nbytes = \"5MB\"\n{workload}\n"
    );
    let report = play(&text);
    assert_eq!((report.verdict, report.frames_dropped), ("PASS", 0), "{name}: {:?}", report.why);
    let host = &load("compare.toml", &text).unwrap();
    let wire = hosts::packet_bytes(host, 1344);
    let wait: u64 = report.hosts.iter().map(|h| h.credit_wait_ns.iter().sum::<u64>()).sum();
    format!(
        "| {name} | {wire} | {:.2} % | {:.1} | {} | {} | {} | {:.1} |",
        134_400.0 / wire as f64,
        report.fct_ns.unwrap().max as f64 / 1e3,
        report.pauses(),
        report.marks(),
        report.queue_max() / 1000,
        wait as f64 / 1e3 / 4.0
    )
}

/// The comparison of docs/roce-paxi.md is what runs say.
#[test]
fn sw143_roce_and_paxi_side_by_side() {
    let wred = |name: &str| {
        format!(
            "[[switch.config.wred]]\nname = \"{name}\"\nkmin = \"20KB\"\nkmax = \"200KB\"\npmax = \"10%\"\n"
        )
    };
    let paxi = "protocol = \"rclink\"\n[host.rclink]\n";
    let (lite, cbfc) =
        ("format = \"afh_lite\"", "format = \"afh_gen1\"\nflow_control = \"cbfc\"\ncredits = 512");
    let lines = [
        compared("RoCEv2, PFC", "", &wred("roce"), ""),
        compared("RoCEv2, PFC and DCQCN", "", &wred("roce"), "cc = \"dcqcn\""),
        compared("PAXI Standard, PFC", paxi, &wred("request"), ""),
        compared("PAXI Standard, PFC and windows", paxi, &wred("request"), "cc = \"backoff\""),
        compared("PAXI AFH_Lite, PFC", &format!("{paxi}{lite}"), "", ""),
        compared("PAXI AFH_GEN1, credits", &format!("{paxi}{cbfc}"), "", ""),
    ];
    let page = include_str!("../../../docs/roce-paxi.md");
    println!("{}", lines.join("\n"));
    let missing: Vec<&String> = lines.iter().filter(|line| !page.contains(&***line)).collect();
    assert!(missing.is_empty(), "docs/roce-paxi.md says otherwise: {missing:#?}");
}

/// A host reads at its rate whatever its own line does meanwhile: what it receives takes as long beside what it sends as without.
#[test]
fn reading_does_not_wait_for_the_line() {
    let play = |rate: &str, reads: &str, back: Option<u64>| {
        let back = back.map_or(String::new(), |start| {
            format!("[[workload]]\nkind = \"flow\"\nfrom = \"h1\"\nto = \"h0\"\nbytes = \"400KB\"\nstart = {start}\npriority = 4\n")
        });
        let text = format!(
            "name = \"r\"\nstop_time = \"50ms\"\n[topology]\nkind = \"direct\"\n[link]\nrate = \"{rate}\"\ndelay = \"1us\"\n[host]\n\
             protocol = \"rclink\"\npayload = 1344\n[host.rclink]\nread_rate = \"{reads}\"\nretransmit = false\n[[workload]]\nkind = \"flow\"\n\
             from = \"h0\"\nto = \"h1\"\nbytes = 26880\nstart = \"20us\"\n{back}"
        );
        let report = run(&load("test.toml", &text).unwrap_or_else(|e| panic!("{e}"))).unwrap();
        (report.flows[0].fct_ns.unwrap(), report.hosts[1].memory_peak)
    };
    for (rate, reads) in [("10G", "9G"), ("10G", "8G"), ("1G", "900M"), ("100G", "50G")] {
        let alone = play(rate, reads, None);
        for start in [0, 13, 31, 57, 101, 503, 1777, 5003] {
            assert_eq!(play(rate, reads, Some(start)), alone, "{rate} {reads} {start}");
        }
    }
}
