//! Real frames through a crossbar: nothing lost, PFC and marks where they belong, and the throughput theory gives.

use super::{Report, load, run};
use std::ops::Range;

fn play(text: &str) -> Report {
    run(&load("core.toml", text).unwrap()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn star(hosts: usize, switch: &str, buffer: &str, more: &str) -> String {
    format!(
        "name = \"core\"\nstop_time = \"20ms\"\nlatency = true\n[topology]\nkind = \"star\"\nhosts = {hosts}\n[link]\nrate = \"100G\"\n\
         delay = \"1us\"\n[host]\npayload = 1000\n[switch]\n{switch}\n[switch.config.buffer]\nsize = \"{buffer}\"\n\
         [switch.config.port_defaults]\nmtu = 1600\n{more}"
    )
}

const CORES: [&str; 6] = [
    "core = \"islip\"",
    "core = \"islip\"\niterations = 4\nspeedup = 2.0",
    "core = \"islip\"\ncrossbar_mode = \"cell\"",
    "core = \"pim\"\niterations = 2",
    "core = \"fifo\"",
    "core = \"fifo\"\ncrossbar_mode = \"cell\"\nspeedup = 1.5\ncell = 200\noutput_buffer = \"4KiB\"",
];

/// Seven to one and one to three: everything arrives, in order, whatever the core, with and without pauses.
#[test]
fn sw_crossbars_lose_nothing_and_reorder_nothing() {
    let traffic = "[[workload]]\nkind = \"incast\"\nto = \"h7\"\nbytes = \"600KB\"\n[[workload]]\nkind = \"all_to_all\"\nbytes = \"40KB\"\n";
    for core in CORES {
        for (buffer, pauses) in [("16MiB", false), ("1MiB", true)] {
            let r = play(&star(8, core, buffer, traffic));
            assert_eq!((r.flows_done, r.frames_dropped, r.conservation_error), (63, 0, 0), "{core} {buffer}");
            assert_eq!(r.pauses() > 0, pauses, "{core} {buffer}: {} pauses", r.pauses());
            let odd: u64 = r.flows.iter().map(|f| f.resent + f.useless.unwrap()).sum();
            assert_eq!(odd, 0, "{core} {buffer}");
            let latency = r.latency.as_ref().unwrap();
            for of in latency.end_to_end.iter().chain(&latency.legs) {
                let parts: u64 = of.parts.values().map(|d| d.sum_ps).sum();
                assert_eq!(parts, of.total.sum_ps, "{core} {}", of.name);
            }
            assert!(latency.end_to_end[0].parts["crossbar"].min_ps > 0, "{core}");
        }
    }
}

/// Xoff of an input, and what its memory shares, are those of its own port: other ports change nothing, and make no memory too small.
#[test]
fn sw_the_memory_of_an_input_is_for_its_port_alone() {
    let to_h0 = |from: &str| {
        format!("[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"h0\"\nbytes = \"4MB\"\n")
    };
    let traffic = to_h0("h1") + &to_h0("h2");
    for core in ["core = \"islip\"", "core = \"pim\"", "core = \"fifo\""] {
        let [few, many] = [3, 33].map(|hosts| {
            let r = play(&star(hosts, core, "2MiB", &traffic));
            assert_eq!((r.flows_done, r.frames_dropped), (2, 0), "{core} {hosts}");
            let [switch] = &r.switches[..] else { panic!() };
            let port = &switch.ports[1];
            let reserved = 4096 + port.headroom + (256 << 10);
            assert_eq!(
                (switch.shared, port.memory.map(|m| m.shared)),
                (switch.buffer - reserved, Some(switch.shared))
            );
            assert!(port.pfc_tx_xoff > 0, "{core} {hosts}: no pause");
            [switch.shared, port.pg_peak]
        });
        assert_eq!(few, many, "{core}");
    }
    let one = load("core.toml", &star(33, "core = \"output_queued\"", "2MiB", &traffic))
        .and_then(|spec| run(&spec));
    assert!(one.unwrap_err().to_string().contains("more than size 2097152"));
}

/// Ports that are not alike have memories that are not, each told with its port; the switch tells the least.
#[test]
fn sw_memories_of_unlike_inputs_are_told_apart() {
    let played = |switch: &str| {
        play(&format!(
            "name = \"unlike\"\nstop_time = \"2ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"c\"]\n\
             switches = [\"s\"]\nlinks = [{{ a = \"a\", b = \"s\" }}, {{ a = \"b\", b = \"s\", rate = \"400G\", delay = \"3us\" }}, \
             {{ a = \"c\", b = \"s\" }}]\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n[switch]\n{switch}\n\
             [switch.config.buffer]\nsize = \"8MiB\"\nover_subscribe_ratio = 1\n[[workload]]\nkind = \"flow\"\nfrom = \"b\"\n\
             to = \"c\"\nbytes = \"6MB\"\n"
        ))
    };
    let r = played("core = \"islip\"");
    let [switch] = &r.switches[..] else { panic!() };
    for port in &switch.ports {
        let memory = port.memory.unwrap();
        let pool = memory.headroom_pool.unwrap();
        assert_eq!(pool.size, port.headroom);
        assert_eq!(memory.shared, switch.buffer - 4096 - pool.size - (256 << 10));
    }
    let of = |port: usize| switch.ports[port].memory.unwrap();
    assert!(of(0) != of(1) && of(1).shared == switch.shared, "{switch:?}");
    let fullest = of(1).headroom_pool.unwrap();
    assert!(fullest.peak > 0 && switch.headroom_pool == Some(fullest), "{switch:?}");
    let table = r.ports_csv();
    assert!(table.contains(&format!(",{},{},", fullest.size, fullest.peak)), "{table}");
    assert!(!played("core = \"output_queued\"").to_json().contains("\"memory\""));
}

/// DEV-28: the depth that marks is that of the output, as in one memory, not what one input holds for it.
#[test]
fn sw_marks_go_by_what_all_inputs_hold() {
    for mark in ["dequeue", "enqueue"] {
        let marks = |switch: &str| {
            let more = format!(
                "[[switch.config.wred]]\nname = \"roce\"\nkmin = \"700KB\"\nkmax = \"1400KB\"\npmax = \"10%\"\nmark = \"{mark}\"\n\
                 [[workload]]\nkind = \"incast\"\nto = \"h4\"\nbytes = \"500KB\"\n"
            );
            let r = play(&star(5, switch, "16MiB", &more));
            // No input ever holds as much as is marked at.
            assert!(r.flows_done == 4 && r.pauses() == 0, "{switch}");
            r.marks()
        };
        let plain = marks("core = \"output_queued\"");
        assert!(plain > 50, "{plain}");
        for core in CORES {
            let marks = marks(core);
            assert!(marks.abs_diff(plain) <= plain / 10, "{core} {mark}: {marks}, output-queued {plain}");
        }
    }
}

/// Where one input has frames for an output, the same frames are marked as without a crossbar, by chance, too: the line sends them
/// as it would, a slot later.
#[test]
fn sw_one_input_for_an_output_is_marked_as_without_a_crossbar() {
    let flow = |(from, to): (&str, &str)| {
        format!(
            "[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"{to}\"\nbytes = \"700KB\"\nreliable = false\n"
        )
    };
    let flows: String = [("a", "c"), ("b", "d")].map(flow).concat();
    let marked = |switch: &str, law: &str| {
        let r = play(&format!(
            "name = \"one\"\nstop_time = \"2ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"c\", \"d\"]\n\
             switches = [\"s\"]\nlinks = [{{ a = \"a\", b = \"s\" }}, {{ a = \"b\", b = \"s\", rate = \"90G\" }}, \
             {{ a = \"c\", b = \"s\", rate = \"40G\" }}, {{ a = \"d\", b = \"s\", rate = \"25G\" }}]\n[link]\nrate = \"100G\"\n\
             delay = \"1us\"\n[host]\npayload = 1000\n[switch]\n{switch}\n[switch.config.buffer]\nsize = \"16MiB\"\n\
             [[switch.config.wred]]\nname = \"roce\"\n{law}\n{flows}"
        ));
        assert_eq!((r.flows_done, r.frames_dropped, r.pauses()), (2, 0, 0), "{switch}");
        let of_flows: Vec<u64> = r.flows.iter().filter_map(|f| f.marked).collect();
        assert_eq!(of_flows.iter().sum::<u64>(), r.marks(), "{switch}");
        of_flows
    };
    for law in [
        "kmin = \"50KB\"\nkmax = \"600KB\"\npmax = \"20%\"",
        "kmin = \"50KB\"\nkmax = \"400KB\"\npmax = \"100%\"",
        "kmin = \"200KB\"\nkmax = \"200KB\"\npmax = \"100%\"\nmark = \"enqueue\"",
    ] {
        let plain = marked("core = \"output_queued\"", law);
        assert!(plain.iter().all(|marks| *marks > 20), "{plain:?}");
        for core in CORES {
            // In cell mode all cells of a frame cross before its line begins, and another frame may come meanwhile.
            let apart = if core.contains("cell") { 2 } else { 0 };
            let marked = marked(core, law);
            let close = |(a, b): (&u64, &u64)| a.abs_diff(*b) <= apart;
            assert!(
                marked.iter().zip(&plain).all(close),
                "{core} {law}: {marked:?}, output-queued {plain:?}"
            );
        }
    }
}

/// What is left to chance on arrival is drawn for each input by itself: two that fare alike do not have the same luck.
#[test]
fn sw_inputs_draw_for_themselves() {
    for core in &CORES[..2] {
        let r = play(&format!(
            "name = \"luck\"\nstop_time = \"2ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"c\", \"d\"]\n\
             switches = [\"s\"]\nlinks = [{{ a = \"a\", b = \"s\" }}, {{ a = \"b\", b = \"s\" }}, \
             {{ a = \"c\", b = \"s\", rate = \"40G\" }}, {{ a = \"d\", b = \"s\", rate = \"40G\" }}]\n[link]\nrate = \"100G\"\n\
             delay = \"1us\"\n[switch]\n{core}\n[switch.config.buffer]\nsize = \"16MiB\"\n[[switch.config.wred]]\nname = \"roce\"\n\
             kmin = \"50KB\"\nkmax = \"600KB\"\npmax = \"60%\"\nmark = \"enqueue\"\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\n\
             to = \"c\"\nbytes = \"700KB\"\n[[workload]]\nkind = \"flow\"\nfrom = \"b\"\nto = \"d\"\nbytes = \"700KB\"\n"
        ));
        let [a, b] = &r.flows[..] else { panic!() };
        assert_eq!(a.fct_ns, b.fct_ns, "{core}");
        assert!(a.marked > Some(50) && a.marked != b.marked, "{core}: {:?} {:?}", a.marked, b.marked);
    }
}

/// So a transport that goes by marks keeps queues as short as without a crossbar.
#[test]
fn sw_marks_keep_queues_short_whatever_the_core() {
    let path = format!("{}/../configs/sim/dctcp.toml", env!("CARGO_MANIFEST_DIR"));
    let incast = std::fs::read_to_string(path).unwrap();
    let of = |core: &str| {
        let r = play(&incast.replace("[host]", &format!("[switch]\ncore = \"{core}\"\n[host]")));
        let queue = r.ports().filter_map(|(_, port)| port.queue_mean).max().unwrap();
        println!("{core}: {} marks, {queue} bytes", r.marks());
        (r.marks(), queue)
    };
    let (marks, queue) = of("output_queued");
    for core in ["islip", "pim", "fifo"] {
        let (more, longer) = of(core);
        assert!(more.abs_diff(marks) < marks / 5, "{core}: {more} marks, output-queued {marks}");
        assert!(longer < queue + queue / 5, "{core}: {longer} bytes, output-queued {queue}");
    }
}

/// Frames that wait at an input are marked, and their senders hear of it.
#[test]
fn sw_frames_that_wait_at_an_input_are_marked() {
    let more = "[[switch.config.wred]]\nname = \"roce\"\nkmin = \"5KB\"\nkmax = \"50KB\"\npmax = \"50%\"\n\
                [[workload]]\nkind = \"incast\"\nto = \"h4\"\nbytes = \"2MB\"\ncc = \"dcqcn\"\n";
    let r = play(&star(5, "core = \"islip\"", "8MiB", more));
    assert!(r.marks() > 100 && r.flows_done == 4 && r.frames_dropped == 0, "{}", r.marks());
    assert!(r.flows.iter().all(|f| f.cnps.unwrap() > 0));
}

/// A FIFO has one order, whatever class and output its frames are of: an urgent one waits for all in front of it, also where it goes to the same
/// output, and passes it with VOQs.
#[test]
fn sw_nothing_overtakes_in_a_fifo() {
    let takes = |core: &str, mode: &str, to: &str| {
        let r = play(&star(
            3,
            &format!("core = \"{core}\"\ncrossbar_mode = \"{mode}\""),
            "64MiB",
            &format!(
                "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h2\"\nbytes = \"200KB\"\npriority = 0\ndscp = 0\nreliable = false\n\
                 [[workload]]\nkind = \"flow\"\nfrom = \"h1\"\nto = \"h2\"\nbytes = \"200KB\"\npriority = 0\ndscp = 0\nreliable = false\n\
                 [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"{to}\"\nbytes = 1000\npriority = 6\ndscp = 48\nreliable = false\nstart = \"16us\"\n"
            ),
        ));
        r.flows[2].fct_ns.unwrap()
    };
    for mode in ["packet", "cell"] {
        for to in ["h1", "h2"] {
            let [fifo, voq] = ["fifo", "islip"].map(|core| takes(core, mode, to));
            assert!(fifo > 12_000 && voq < 4_000, "{mode} to {to}: {fifo} {voq}");
        }
    }
}

/// A frame that the watchdog drops leaves its place in the FIFO, which no later one of its queue takes: that one waits for all that is
/// in front of it, whenever it comes.
#[test]
fn sw_what_is_dropped_leaves_its_place_in_a_fifo() {
    let takes = |start: u64| {
        let flow = |to: &str, bytes: u64, start: u64, more: &str| {
            format!(
                "[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"{to}\"\nbytes = {bytes}\nstart = \"{start}us\"\n\
                 reliable = false\n{more}\n"
            )
        };
        let slow = "priority = 0\ndscp = 0\nrate = \"10G\"";
        let r = play(&format!(
            "name = \"f\"\nstop_time = \"20ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"c\", \"e\"]\n\
             switches = [\"s\", \"t\"]\nlinks = [{{ a = \"a\", b = \"s\" }}, {{ a = \"c\", b = \"s\", rate = \"100M\" }}, \
             {{ a = \"s\", b = \"t\" }}, {{ a = \"b\", b = \"t\", rate = \"1G\" }}, {{ a = \"e\", b = \"t\" }}]\n\
             [link]\nrate = \"100G\"\ndelay = \"100ns\"\n[host]\npayload = 1000\n[switch]\ncore = \"fifo\"\noutput_buffer = 1\n\
             [switch.config.buffer]\nsize = \"1MiB\"\n[[switch.config.buffer.profile]]\nname = \"lossless\"\ndynamic_th = -5\n\
             [switch.config.port_defaults]\nmtu = 1600\n[switch.config.watchdog]\nallow_short = true\npoll_interval = \"10us\"\n\
             detection_time = \"20us\"\nrestoration_time = \"20us\"\n{}{}{}{}",
            flow("b", 45_000, 0, ""),
            flow("b", 20_000, 20, "rate = \"10G\""),
            flow("c", 20_000, 20, slow),
            flow("e", 1000, start, ""),
        ));
        assert!(r.frames_dropped > 0, "{:?}", r.findings);
        r.flows[3].start_ns.unwrap() + r.flows[3].fct_ns.unwrap()
    };
    // Twenty frames of 86.5 us are in front, whose last one begins to cross once the line has the one before.
    let ends = [500, 600, 700, 800, 1200].map(takes);
    assert!(ends.iter().all(|end| end.abs_diff(ends[0]) < 1_000 && *end > 1_580_000), "{ends:?}");
}

/// What is behind the stuck head of a FIFO does not leave, so pauses that wait for it are a deadlock.
#[test]
fn sw_a_deadlock_behind_heads_of_fifos_is_named() {
    let path = format!("{}/../configs/sim/ring-deadlock.toml", env!("CARGO_MANIFEST_DIR"));
    let ring = std::fs::read_to_string(path).unwrap();
    for mode in ["packet", "cell"] {
        let switch = format!("[switch]\ncore = \"fifo\"\ncrossbar_mode = \"{mode}\"\n[topology]");
        let r = play(&ring.replace("[topology]", &switch));
        assert_eq!(r.deadlock, ["s0", "s1", "s2", "s3"], "{mode}: {:?}", r.why);
    }
}

/// Bytes delivered of what the lines carry, in thousandths, when frames for random outputs come faster than they go.
fn saturated(core: &str) -> u64 {
    let traffic = "[[workload]]\nkind = \"poisson\"\nbytes = 1000\nload = 1.0\nduration = \"300us\"\nreliable = false\n";
    let r = play(&star(9, core, "16MiB", traffic).replace("20ms", "300us"));
    assert_eq!(r.frames_dropped, 0);
    let delivered: u64 = r.flows.iter().map(|f| f.delivered).sum();
    // 1000 bytes of payload are 1086 on the wire: nine lines of 12.5 bytes per ns.
    delivered * 1086 / (9 * 12_500 * 300)
}

/// What is in front of a FIFO holds back what is behind (Karol, Hluchyj, Morgan 1987: 0.618 for eight ports, 0.586 for
/// very many); with virtual output queues and iSLIP nothing is held back.
#[test]
fn sw_a_fifo_is_blocked_by_its_head_and_islip_is_not() {
    let of: Vec<u64> = ["core = \"output_queued\"", "core = \"islip\"", "core = \"pim\"", "core = \"fifo\""]
        .map(saturated)
        .into();
    println!("{of:?}");
    assert!(of[0] > 900 && of[1] > 850, "{of:?}");
    assert!(of[2] > 850, "{of:?}");
    assert!((590..640).contains(&of[3]), "{of:?}");
    // One iteration of PIM leaves 1 - (1 - 1/9)^9 of the outputs matched (Anderson et al. 1993).
    let pim = saturated("core = \"pim\"\ncrossbar_mode = \"cell\"");
    assert!((630..670).contains(&pim), "{pim}");
}

/// In packet mode, too, every input that asks has its turn, though it has frames for another output all the time: what waits at it for a
/// line that three others fill is a twentieth of that at least.
#[test]
fn sw_no_input_is_passed_over_for_good() {
    let endless = |(from, to, start): (&str, &str, &str)| {
        format!(
            "[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"{to}\"\nreliable = false\nstart = \"{start}\"\n"
        )
    };
    let flows = [("h1", "h4", "0us"), ("h2", "h4", "0us"), ("h3", "h4", "0us"), ("h0", "h5", "150us")];
    let first =
        "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h4\"\nreliable = false\nbytes = \"1MB\"\n";
    let traffic = flows.map(endless).concat() + first;
    // Of some lengths frames cross faster than the line sends them, so that their output is full, and has room once in as long as they take.
    let lengths = [256, 1000, 1020, 1024, 2048, 4096].map(|payload| ("packet", payload));
    for core in ["islip", "pim"] {
        for (mode, payload) in lengths.into_iter().chain([("cell", 1000)]) {
            let switch = format!("core = \"{core}\"\ncrossbar_mode = \"{mode}\"");
            let text = star(6, &switch, "64MiB", &traffic).replace("mtu = 1600", "mtu = 9000");
            let text = text.replace("payload = 1000", &format!("payload = {payload}"));
            let [before, after] = ["160us", "340us"].map(|stop| play(&text.replace("20ms", stop)));
            assert_eq!((after.pauses(), after.frames_dropped), (0, 0), "{switch}");
            let delivered = after.flows.iter().zip(&before.flows).map(|(a, b)| a.delivered - b.delivered);
            let gbps: Vec<f64> = delivered.map(|bytes| bytes as f64 * 8.0 / 180_000.0).collect();
            println!("{core} {mode} {payload}: {gbps:.1?}");
            let line: f64 = gbps[..3].iter().sum::<f64>() + gbps[4];
            assert!(gbps[4] > line / 20.0, "{switch}, {payload}: {gbps:?}");
        }
    }
}

/// The same where an output serves two weighted classes in turn, in step with the frames of an input.
#[test]
fn sw_no_class_of_an_input_is_passed_over_for_good() {
    let flow = |(from, to, of_class): &(&str, &str, &str)| {
        format!(
            "[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"{to}\"\nreliable = false\n{of_class}"
        )
    };
    let other = "priority = 4\ndscp = 34\n";
    let flows = [
        ("h0", "h3", other),
        ("h1", "h3", ""),
        ("h2", "h3", ""),
        ("h0", "h4", ""),
        ("h1", "h4", ""),
        ("h2", "h4", ""),
    ];
    let traffic: String = flows.iter().map(flow).collect();
    for core in ["islip", "pim"] {
        for speedup in ["1.0", "1.5", "2.0", "3.0"] {
            let switch = format!("core = \"{core}\"\nspeedup = {speedup}");
            let [before, after] = ["100us", "300us"]
                .map(|stop| play(&star(5, &switch, "64MiB", &traffic).replace("20ms", stop)));
            let delivered = after.flows.iter().zip(&before.flows).map(|(a, b)| a.delivered - b.delivered);
            let gbps: Vec<f64> = delivered.map(|bytes| bytes as f64 * 8.0 / 200_000.0).collect();
            println!("{switch}: {gbps:.1?}");
            assert!(gbps.iter().all(|gbps| *gbps > 2.5), "{switch}: {gbps:?}");
            assert!(gbps.iter().sum::<f64>() > 165.0, "{switch}: {gbps:?}");
        }
    }
}

/// Where an output offers itself in vain for a strict class, since the input serves a higher one elsewhere, classes below have
/// what is left of its line, and inputs equal parts of it.
#[test]
fn sw_a_class_that_is_not_taken_starves_nobody_below() {
    let flow = |(from, to, of_class): &(&str, &str, &str)| {
        format!(
            "[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"{to}\"\nreliable = false\n{of_class}"
        )
    };
    let (higher, high) = ("dscp = 40\npriority = 5\n", "dscp = 32\npriority = 4\n");
    let flows = [("h1", "h4", higher), ("h1", "h0", high), ("h2", "h0", ""), ("h3", "h0", "")];
    let elsewhere = ("h2", "h5", "");
    let classes = "[switch.config.qos]\npreset = \"roce-lossless\"\ntrust = [\"dscp\"]\ndscp_to_tc = { \"32\" = 4, \"40\" = 5 }\n\
                   tc_to_pg = { \"4\" = 4, \"5\" = 5 }\n[[switch.config.buffer.pg]]\npgs = \"3-5\"\nprofile = \"lossless\"\n\
                   [[switch.config.buffer.queue]]\nqueues = \"3-5\"\nprofile = \"egress_lossless\"\n\
                   [[switch.config.scheduler]]\nname = \"strict\"\ntype = \"STRICT\"\n\
                   [[switch.config.queue]]\nqueues = \"4-5\"\nscheduler = \"strict\"\n";
    let gbps = |switch: &str, flows: &[(&str, &str, &str)]| -> Vec<f64> {
        let traffic: String = flows.iter().map(flow).collect();
        let text = star(6, switch, "16MiB", &format!("{classes}{traffic}"))
            .replace("mtu = 1600\n", "mtu = 1600\npfc = { enable = [3, 4, 5] }\n");
        let report = play(&text.replace("20ms", "1ms"));
        report.flows.iter().map(|flow| flow.delivered as f64 * 8.0 / 1e6).collect()
    };
    for core in ["islip", "pim"] {
        for (mode, iterations) in [("packet", 1), ("packet", 2), ("packet", 4), ("cell", 2), ("cell", 4)] {
            let switch = format!("core = \"{core}\"\niterations = {iterations}\ncrossbar_mode = \"{mode}\"");
            let alone = gbps(&switch, &flows);
            println!("{core} {mode} {iterations}: {alone:.1?}");
            assert!(alone[2] > 20.0 && alone[3] > 20.0, "{switch}: {alone:?}");
            let both = gbps(&switch, &[&flows[..], &[elsewhere]].concat());
            println!("{core} {mode} {iterations}, h2 to h5: {both:.1?}");
            assert!(both[2] > 2.5, "{switch}: {both:?}");
        }
    }
}

/// SW-076: an output serves classes by its schedule, at whatever inputs they wait.
#[test]
fn sw_outputs_serve_classes_of_all_inputs_by_their_schedule() {
    let flow = |(from, class): &(&str, u8)| {
        let end = if *class == 0 { "reliable = false\n" } else { "" };
        let dscp = if *class == 0 { 0 } else { 26 };
        format!(
            "[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"h2\"\npriority = {class}\ndscp = {dscp}\n{end}"
        )
    };
    let share = |core: &str, mode: &str, speedup: f64, [three, zero]: [&str; 2], flows: &[(&str, u8)]| {
        let r = play(&format!(
            "name = \"classes\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n[host]\npayload = 1000\n[switch]\n\
             core = \"{core}\"\ncrossbar_mode = \"{mode}\"\nspeedup = {speedup:.1}\n[switch.config.buffer]\nsize = \"4MiB\"\n\
             [[switch.config.scheduler]]\nname = \"three\"\n{three}\n[[switch.config.scheduler]]\nname = \"zero\"\n{zero}\n\
             [[switch.config.queue]]\nqueues = \"3\"\nscheduler = \"three\"\n[[switch.config.queue]]\nqueues = \"0\"\n\
             scheduler = \"zero\"\n[switch.config.port_defaults]\nmtu = 1600\n{}",
            flows.iter().map(flow).collect::<String>()
        ));
        let of = |wanted: u8| -> u64 {
            flows
                .iter()
                .zip(&r.flows)
                .filter(|((_, class), _)| *class == wanted)
                .map(|(_, f)| f.delivered)
                .sum()
        };
        // In thousandths, and how busy the line was.
        (of(3) * 1000 / (of(3) + of(0)), (of(3) + of(0)) * 1086 / 12_500_000)
    };
    let weighted = ["type = \"DWRR\"\nweight = 3", "type = \"DWRR\"\nweight = 1"];
    let strict = [["type = \"STRICT\""; 2], ["type = \"STRICT\"", "type = \"DWRR\"\nweight = 1"]];
    let apart = [("h0", 3), ("h1", 0)];
    let together = [("h0", 3), ("h0", 0), ("h1", 3), ("h1", 0)];
    for (core, mode, flows) in [
        ("islip", "packet", &apart[..]),
        ("islip", "packet", &together),
        ("islip", "cell", &apart),
        ("pim", "packet", &apart),
        ("pim", "packet", &together),
        ("pim", "cell", &apart),
        ("fifo", "packet", &apart),
    ] {
        // A line that is slower than the crossbar keeps to its weights as well.
        for speedup in [1.0, 2.0] {
            let (three, busy) = share(core, mode, speedup, weighted, flows);
            assert!(
                (740..=760).contains(&three) && busy > 950,
                "{core} {mode} {speedup} {flows:?}: {three}, {busy}"
            );
        }
        for schedule in strict {
            let (three, busy) = share(core, mode, 1.0, schedule, flows);
            assert!(three > 980 && busy > 950, "{core} {mode} {flows:?} {schedule:?}: {three}, {busy}");
        }
    }
}

/// What a queue may send, and what it is guaranteed, is that of the line, whatever inputs its frames come by; others have the rest.
#[test]
fn sw_rates_of_queues_are_those_of_the_output() {
    let to_h4 = |(from, class): (usize, u8)| {
        let end = if class == 0 { "reliable = false\ndscp = 0\n" } else { "" };
        format!("[[workload]]\nkind = \"flow\"\nfrom = \"h{from}\"\nto = \"h4\"\npriority = {class}\n{end}")
    };
    let flows: String = [(0, 3), (1, 3), (2, 0), (3, 0)].map(to_h4).concat();
    // Payload of class 3 and of class 0, in hundreds of Mb/s.
    let shares = |switch: &str, three: &str, zero: &str| {
        let r = play(&format!(
            "name = \"rates\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 5\n[link]\nrate = \"100G\"\n[host]\n\
             payload = 1000\n[switch]\n{switch}\n[[switch.config.scheduler]]\nname = \"three\"\n{three}\n[[switch.config.scheduler]]\n\
             name = \"zero\"\n{zero}\n[[switch.config.queue]]\nqueues = \"3\"\nscheduler = \"three\"\n[[switch.config.queue]]\n\
             queues = \"0\"\nscheduler = \"zero\"\n[switch.config.buffer]\nsize = \"16MiB\"\n{flows}"
        ));
        let of = |flows: Range<usize>| r.flows[flows].iter().map(|f| f.delivered).sum::<u64>() * 8 / 100_000;
        [of(0..2), of(2..4)]
    };
    let dwrr = |weight: u8| format!("type = \"DWRR\"\nweight = {weight}");
    for core in ["islip", "pim"] {
        for mode in ["packet", "cell"] {
            let switch = format!("core = \"{core}\"\ncrossbar_mode = \"{mode}\"");
            // 1000 bytes of payload are 1086 of the 100G line: 9.2 of 10 Gb/s, and 82.9 of the rest.
            for schedule in ["type = \"STRICT\"", &dwrr(1)] {
                let got = shares(&switch, &format!("{schedule}\npir = \"10G\""), &dwrr(1));
                assert!(
                    (90..=94).contains(&got[0]) && (815..=832).contains(&got[1]),
                    "{switch} {schedule}: {got:?}"
                );
            }
            // Instead of a tenth of the line, one frame in four, the most that is no more than 30G, or cells up to that.
            let got = shares(&switch, &format!("{}\ncir = \"30G\"", dwrr(1)), &dwrr(9));
            assert!((225..=285).contains(&got[0]) && got[0] + got[1] > 900, "{switch} cir: {got:?}");
        }
    }
}

/// SW-101: what a paused class has at an output takes no room from others, and frames of a better class go past it.
#[test]
fn sw_a_paused_class_holds_up_no_other() {
    let single = |nth: u64| {
        format!(
            "[[workload]]\nkind = \"flow\"\nfrom = \"h2\"\nto = \"h4\"\nbytes = 1000\npriority = 6\ndscp = 48\nstart = {}\n",
            20_000 + nth * 3_777
        )
    };
    let to_one = |from: &str| {
        format!("[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"h3\"\nbytes = \"1MB\"\n")
    };
    let slowest = |switch: &str| {
        let r = play(&format!(
            "name = \"apart\"\nstop_time = \"5ms\"\n[topology]\nkind = \"chain\"\nswitches = 2\nhosts_per_switch = 3\n[link]\n\
             rate = \"100G\"\ndelay = \"500ns\"\n[trunk]\nrate = \"200G\"\n[host]\npayload = 1000\n[switch]\n{switch}\n\
             [switch.config.buffer]\nsize = \"2MiB\"\n{}{}{}",
            to_one("h0"),
            to_one("h1"),
            (0..30).map(single).collect::<String>()
        ));
        assert!(
            r.flows_done == 32 && r.pauses() > 0,
            "{switch}: {} done, {} pauses",
            r.flows_done,
            r.pauses()
        );
        r.flows[2..].iter().filter_map(|f| f.fct_ns).max().unwrap()
    };
    let plain = slowest("core = \"output_queued\"");
    for core in ["islip", "pim"] {
        for more in ["", "output_buffer = \"2KiB\"", "output_buffer = \"64KiB\"", "crossbar_mode = \"cell\""]
        {
            let slowest = slowest(&format!("core = \"{core}\"\nspeedup = 2.0\n{more}"));
            // A frame that is crossing or on the line, and what its own cells take.
            assert!(slowest < plain + 400, "{core} {more}: {slowest} ns, output-queued {plain} ns");
        }
    }
}

/// Requests and responses are in classes of their own: where one is held back the other goes on, however little room outputs have.
#[test]
fn sw_requests_do_not_shut_responses_in() {
    let workload =
        "[[workload]]\nkind = \"permutation\"\nshift = 1\nbytes = \"300KB\"\nresponse = 1344\n".repeat(12);
    let r = play(&format!(
        "name = \"shut\"\nstop_time = \"60ms\"\n[topology]\nkind = \"star\"\nhosts = 2\n[link]\nrate = \"25G\"\ndelay = \"1us\"\n\
         [switch]\ncore = \"islip\"\noutput_buffer = \"2KiB\"\n[host]\nprotocol = \"rclink\"\npayload = 1024\n\
         [host.rclink]\nwindow = 2\nread_rate = \"5G\"\n{workload}"
    ));
    assert_eq!(r.flows_done, r.flows_finite);
}

/// What says nothing, or cannot be, is refused with what to do.
#[test]
fn wrong_cores_are_refused() {
    let flow = "[[workload]]\nkind = \"incast\"\nto = \"h1\"\nbytes = 1000\n";
    let refused = |switch: &str| {
        let text = star(3, switch, "1MiB", flow);
        load("core.toml", &text).and_then(|spec| run(&spec)).unwrap_err().to_string()
    };
    for (switch, place, remedy) in [
        ("iterations = 2", "core.toml:13: switch.iterations is set", "set core = \"islip\""),
        ("core = \"fifo\"\niterations = 2", "switch.iterations is set", "heads of FIFOs"),
        ("core = \"islip\"\nspeedup = 0.5", "switch.speedup is 0.5", "1 to 8"),
        (
            "core = \"islip\"\nforwarding = \"cut_through\"",
            "switch.forwarding is cut_through",
            "store_and_forward",
        ),
        ("core = \"crossbar\"", "core.toml: ", "unknown variant"),
        (
            "core = \"islip\"\n[switch.config.qos]\nvoq = \"fifo\"",
            "core.toml:15: switch.config.qos.voq is fifo",
            "core = \"fifo\"",
        ),
    ] {
        let error = refused(switch);
        assert!(error.contains(place) && error.contains(remedy), "`{error}`");
    }
}

/// What 1, 2 and 4 iterations do to delay, to an incast and to pauses: the table of docs/simulation.md, and the plan that
/// makes it.
#[test]
fn sw_iterations_shorten_delay_incast_and_pauses() {
    let file =
        |name: &str| std::fs::read_to_string(format!("{}/../{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (base, docs) = (file("configs/sim/crossbar.toml"), file("docs/simulation.md"));
    assert!(file("configs/sim/sweep-crossbar.plan.toml").contains("values = [1, 2, 4]"));
    let (mut before, mut missing) = ([u64::MAX; 3], Vec::new());
    for iterations in [1, 2, 4] {
        let r = play(&base.replace("iterations = 1", &format!("iterations = {iterations}")));
        assert_eq!((r.flows_done, r.frames_dropped), (r.flows_finite, 0));
        let delay = r.summary().frame_delay_mean_ns.unwrap();
        let incast =
            r.flows.iter().filter(|f| f.bytes == Some(200_000)).filter_map(|f| f.fct_ns).max().unwrap();
        let now = [delay, incast, r.pauses()];
        assert!(
            now.iter().zip(before).all(|(now, before)| *now < before),
            "{iterations}: {now:?} after {before:?}"
        );
        before = now;
        let us = |ns: u64| ns as f64 / 1000.0;
        let row = format!("| {iterations} | {:.1} | {:.1} | {} |", us(delay), us(incast), r.pauses());
        missing.extend((!docs.contains(&row)).then_some(row));
    }
    assert!(missing.is_empty(), "docs/simulation.md has other figures than\n{}", missing.join("\n"));
}
