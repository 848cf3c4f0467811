//! Pauses: headroom holds what comes after them, they are lost and made up for, and a watchdog acts on those that last.

use super::tests::play;
use super::*;

fn small_incast(senders: usize, rate: &str, delay: &str) -> Report {
    play(&format!(
        r#"
        name = "incast"
        stop_time = "40ms"
        [topology]
        kind = "star"
        hosts = {}
        [link]
        rate = "{rate}"
        delay = "{delay}"
        [host]
        payload = 1000
        [switch.config.buffer]
        size = "1MiB"
        control_bytes = "16KiB"
        [switch.config.port_defaults]
        mtu = 1100
        [[workload]]
        kind = "incast"
        to = "h{senders}"
        bytes = 1000000
        "#,
        senders + 1
    ))
}

#[test]
fn short_links_and_slow_links_lose_nothing() {
    // The published model loses 10115, 23390 and 2057 frames in these: its headroom forgets the
    // frame in flight on each side.
    for (senders, rate, delay) in [(8, "100G", "10ns"), (16, "100G", "10ns"), (16, "10G", "1us")] {
        let report = small_incast(senders, rate, delay);
        assert_eq!((report.frames_dropped, report.frames_lost), (0, 0), "{senders} x {rate}");
        assert_eq!(report.flows_done, senders, "{senders} x {rate}");
        assert!(report.pauses() > 0);
        assert!(report.flows.iter().all(|f| f.resent == 0 && f.delivered == 1_000_000));
    }
}

#[test]
fn headroom_in_use_is_what_is_in_flight() {
    let report = small_incast(8, "100G", "1us");
    let peak = report.ports().map(|(_, p)| p.headroom_peak).max().unwrap();
    let granted = report.ports().map(|(_, p)| p.headroom).min().unwrap();
    // Two cable lengths at 12.5 B/ns, less preamble, FCS and gap which no buffer holds; a frame the
    // switch may be sending before the pause, the pause, a frame the host may be sending, the frame
    // that crossed the line. An eighth of it leaves again meanwhile: the port's share of the egress.
    let round_trip = 2 * 1000 * 125 / 10;
    let most = round_trip + 4 * 1082 + 84;
    let least = (round_trip - round_trip / 8) * 1058 / 1082 - 1058;
    assert!((least..=most).contains(&peak), "{least} <= {peak} <= {most}");
    assert!(peak <= granted, "{peak} {granted}");
}

/// What is on its way to the line when a pause takes effect comes all the same.
#[test]
fn headroom_holds_what_hosts_hand_to_the_line_before_they_obey() {
    let run = |host: &str| {
        play(&format!(
            "name = \"slow\"\nstop_time = \"20ms\"\n[topology]\nkind = \"star\"\nhosts = 6\n[link]\nrate = \"400G\"\ndelay = \"100ns\"\n\
             [host]\npayload = 1000\n{host}\n[switch.config.buffer]\nsize = \"16MiB\"\n[[switch.config.buffer.profile]]\n\
             name = \"lossless\"\nstatic_th = \"30KB\"\n[switch.config.port_defaults]\nmtu = 1600\n[[workload]]\n\
             kind = \"incast\"\nto = \"h0\"\nbytes = \"3MB\"\n"
        ))
    };
    let headroom = |report: &Report| report.ports().map(|(_, p)| p.headroom).max().unwrap();
    let plain = run("");
    for (host, more) in [
        ("tx_delay = \"2us\"", 100_000),
        ("tx_delay = \"10us\"", 500_000),
        ("tx_delay = \"1us\"\npfc_response_delay = \"1us\"", 100_000),
        ("protocol = \"rclink\"\ntx_delay = \"2us\"", 100_000),
    ] {
        let report = run(host);
        assert!(report.pauses() > 0, "{host}");
        assert_eq!((report.frames_dropped, report.verdict), (0, "PASS"), "{host}: {:?}", report.why);
        let grown = headroom(&report) - headroom(&plain);
        // `poll_gap` counts on both ways.
        assert!((more * 9 / 10..=more * 22 / 10).contains(&grown), "{host}: {grown}");
    }
}

#[test]
fn too_little_headroom_drops_and_says_so() {
    let text = r#"
        name = "thin"
        stop_time = "5ms"
        [topology]
        kind = "star"
        hosts = 5
        [switch.config.buffer]
        size = "1MiB"
        [[switch.config.buffer.profile]]
        name = "lossless"
        xoff = "4KiB"
        [switch.config.port_defaults]
        mtu = 1600
        [[workload]]
        kind = "incast"
        to = "h4"
        bytes = 1000000
        reliable = false
    "#;
    let report = play(text);
    assert!(report.frames_dropped > 0);
    assert!(report.why.iter().any(|s| s.contains("ingress.headroom_exhausted")), "{:?}", report.why);
    assert_eq!(
        (report.lossless_drops, report.verdict),
        (report.frames_dropped, "FAIL"),
        "{:?}",
        report.findings
    );
    // Every frame is somewhere: delivered, dropped, or missing because it was dropped.
    let delivered: u64 = report.flows.iter().map(|f| f.delivered.div_ceil(1024)).sum();
    assert!(delivered + report.frames_dropped <= report.frames_sent);
}

#[test]
fn lost_pauses_are_made_up_for_by_refreshes_or_counted_as_drops() {
    let text = |loss: &str| {
        format!(
            "name = \"deaf\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 5\n[link]\npause_loss = {loss}\n\
             [switch.config.buffer]\nsize = \"1MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
             [[workload]]\nkind = \"incast\"\nto = \"h4\"\nbytes = 1000000\n"
        )
    };
    assert_eq!(play(&text("0.0")).frames_dropped, 0);
    let deaf = play(&text("1.0"));
    assert!(deaf.frames_dropped > 0 && deaf.links.iter().any(|l| l.lost_pauses > 0));
    let blamed =
        |sentence: &String| sentence.contains("headroom_exhausted") && sentence.contains("pause_loss");
    assert!(deaf.why.iter().any(blamed), "the links are to blame, not the headroom: {:?}", deaf.why);
}

#[test]
fn many_short_messages_have_their_slots_or_are_paused() {
    // Beside long packets, which `payload` allows: what a switch can hold is what its buffer has bytes for, however short.
    for (buffer, pauses) in [("16MiB", false), ("2MiB", true)] {
        let text = format!(
            "name = \"s\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 17\n[link]\nrate = \"100G\"\ndelay = \"100ns\"\n\
             [host]\npayload = 4096\n[switch.config.buffer]\nsize = \"{buffer}\"\n\
             [[workload]]\nkind = \"poisson\"\nbytes = 64\nload = 0.9\nduration = \"150us\"\nto = \"h0\"\n\
             [[workload]]\nkind = \"incast\"\nto = \"h0\"\nbytes = 64\n"
        );
        let report = run(&load("slots.toml", &text).unwrap()).unwrap();
        assert_eq!((report.frames_dropped, report.lossless_drops), (0, 0), "{buffer}: {:?}", report.why);
        assert_eq!((report.flows_done, report.verdict), (report.flows.len(), "PASS"), "{buffer}");
        assert_eq!(report.pauses() > 0, pauses, "{buffer}: {:?}", report.why);
    }
}

/// Pauses both ways over one link, when a run ends, are no deadlock: what each switch holds waits for a host.
#[test]
fn pauses_both_ways_over_a_link_are_no_deadlock() {
    let flow = |from: usize, to: usize, more: &str| {
        format!("[[workload]]\nkind = \"flow\"\nfrom = \"h{from}\"\nto = \"h{to}\"\n{more}")
    };
    for (profile, more) in [("weir", ""), ("ns3-hpcc", "bytes = \"100MB\"\n")] {
        let flows: String = [(0, 4), (1, 4), (5, 1), (6, 1)].map(|(from, to)| flow(from, to, more)).concat();
        let mut both = 0;
        for stop in (200..1000).step_by(100) {
            let text = format!(
                "name = \"both\"\nprofile = \"{profile}\"\nstop_time = \"{stop}us\"\n[topology]\nkind = \"dumbbell\"\npairs = 4\n\
                 [link]\nrate = \"100G\"\n[trunk]\nrate = \"400G\"\n[switch.config.buffer]\nsize = \"2MiB\"\n{flows}"
            );
            let report =
                load("both.toml", &text).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}"));
            assert!(report.deadlock.is_empty(), "{profile} {stop}: {:?}", report.why);
            let pauses = report.timeline.pauses.iter().filter(|p| p.to_ns == report.end_ns);
            let of = |name: &str| pauses.clone().any(|p| p.node == name && p.peer.starts_with('s'));
            both += usize::from(of("s0") && of("s1"));
        }
        assert!(both > 0, "{profile}: both trunk ports were paused at the end of some run");
    }
}

/// A ring whose frames all go clockwise; `more` is the policy and what else its buffer has, workloads follow.
fn ring(stop_us: u64, switches: usize, hosts: usize, more: &str, workloads: &str) -> Report {
    play(&format!(
        "name = \"ring\"\nstop_time = \"{stop_us}us\"\n[topology]\nkind = \"ring\"\nswitches = {switches}\n\
         hosts_per_switch = {hosts}\n[switch.config.buffer]\n{more}\n[switch.config.port_defaults]\nmtu = 1600\n{workloads}"
    ))
}

fn clockwise(shift: usize, more: &str) -> String {
    format!("[[workload]]\nkind = \"permutation\"\nshift = {shift}\nreliable = false\n{more}\n")
}

/// A group does not resume before its headroom is empty: one whose headroom holds frames that wait in a circle is stuck although its
/// threshold is far above what it holds by now. So is one of a published model none of whose frames leaves, and one whose next Xoff has
/// no headroom.
#[test]
fn a_circle_stays_one_when_thresholds_have_risen() {
    let lossy = clockwise(3, "priority = 0\ndscp = 0\nbytes = \"300KB\"");
    let beside_lossy = clockwise(6, "") + &lossy;
    let staggered = clockwise(4, "stagger = \"300ns\"");
    let with_threshold = |n: i8, workload: String| {
        format!("[[switch.config.buffer.profile]]\nname = \"lossless\"\ndynamic_th = {n}\n{workload}")
    };
    let pooled = with_threshold(-2, clockwise(3, "stagger = \"1012ns\""));
    let short = with_threshold(0, clockwise(3, "bytes = 371000"));
    for (switches, hosts, buffer, workloads) in [
        (4, 2, "size = \"2MiB\"\ncontrol_bytes = \"32KiB\"", &beside_lossy),
        (4, 2, "size = \"2000KiB\"\ncontrol_bytes = \"16KiB\"", &staggered),
        (4, 2, "size = \"2000KiB\"\npolicy = \"dt\"", &staggered),
        (5, 1, "size = \"1000KiB\"\npolicy = \"abm\"", &short),
        // Groups that hold little wait for headroom that others of their switch have.
        (6, 1, "size = \"1000KiB\"\ncontrol_bytes = \"16KiB\"\nheadroom_pool = \"55KiB\"", &pooled),
    ] {
        let [early, late] = [800, 2000].map(|stop| ring(stop, switches, hosts, buffer, workloads));
        let delivered = |r: &Report| r.flows.iter().map(|f| f.delivered).collect::<Vec<_>>();
        assert_eq!(delivered(&early), delivered(&late), "{buffer}");
        for report in [early, late] {
            assert_eq!(
                (report.deadlock.len(), report.verdict),
                (switches, "FAIL"),
                "{buffer}: {:?}",
                report.why
            );
        }
    }
}

/// A circle that is named lasts, and where flows go on there is none.
#[test]
fn a_circle_is_named_where_nothing_goes_on_and_nowhere_else() {
    let (mut named, mut free) = (0, 0);
    for (nth, policy) in ["weir", "dt", "abm", "hpcc", "reverie"].into_iter().cycle().take(15).enumerate() {
        let buffer = format!("size = \"{}KiB\"\npolicy = \"{policy}\"", [500, 1000, 2000][nth / 5]);
        let shift = [2, 4, 3][nth / 5];
        let workloads = clockwise(shift, "stagger = \"700ns\"\nbytes = \"400KB\"");
        let late = ring(2000, 4, 2, &buffer, &workloads);
        let waits = late.flows_done < late.flows_finite && late.frames_dropped == 0;
        assert_eq!(late.deadlock.is_empty(), !waits, "{buffer}: {} of 8, {:?}", late.flows_done, late.why);
        for stop in [40, 60, 90, 140] {
            let early = ring(stop, 4, 2, &buffer, &workloads);
            assert!(
                early.deadlock.is_empty() || early.deadlock == late.deadlock,
                "{buffer} {stop}: {:?}",
                early.why
            );
        }
        (named, free) = (named + usize::from(waits), free + usize::from(!waits));
    }
    assert!(named > 3 && free > 3, "{named} {free}");
}

/// A circle is there since the last of its own pauses began, whatever other priority its switches hold back.
#[test]
fn a_circle_is_as_old_as_its_last_pause() {
    let incast: String = ["h0", "h1", "h4"]
        .map(|from| {
            format!(
                "[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"h3\"\nreliable = false\npriority = 4\ndscp = 34\n\
                 start = \"60us\"\n"
            )
        })
        .concat();
    let buffer = "size = \"3MiB\"\ncontrol_bytes = \"32KiB\"\n[[switch.config.buffer.profile]]\nname = \"lossless\"\n\
                  dynamic_th = -3\n[[switch.config.buffer.pg]]\npgs = \"4\"\nprofile = \"lossless\"\n\
                  [[switch.config.buffer.queue]]\nqueues = \"4\"\nprofile = \"egress_lossless\"\n\
                  [switch.config.qos]\ndscp_to_tc = { \"*\" = 0, \"26\" = 3, \"34\" = 4, \"48\" = 6 }\n\
                  tc_to_pg = { \"*\" = 0, \"3\" = 3, \"4\" = 4, \"6\" = 6 }";
    let workloads = format!("pfc = {{ enable = [3, 4] }}\n{}{incast}", clockwise(6, ""));
    let mut beside = 0;
    for stop in (300..360).step_by(3) {
        let report = ring(stop, 4, 3, buffer, &workloads);
        assert_eq!(report.deadlock, ["s0", "s1", "s2", "s3"], "{:?}", report.why);
        let between = |p: &&Pause| p.to_ns == report.end_ns && p.peer.starts_with('s');
        let lasting = || report.timeline.pauses.iter().filter(between);
        beside += usize::from(lasting().any(|p| p.priority == 4));
        let since = lasting().filter(|p| p.priority == 3).map(|p| p.from_ns).max().unwrap();
        let words = format!("s0 -> s1 -> s2 -> s3 -> s0, since {since} ns.");
        assert!(report.why.iter().any(|why| why.contains(&words)), "{stop}: {words} {:?}", report.why);
    }
    assert!(beside > 0, "a pause of the other class lasts to the end of some run");
}

/// A watchdog that drops what waits in a queue changes its depth: nothing of it is left in samples, timeline and means.
#[test]
fn depths_follow_what_a_watchdog_drops() {
    let report = play(
        "name = \"x\"\nstop_time = \"20ms\"\nsample = \"1ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"slow\"]\n\
         switches = [\"s0\", \"s1\"]\nlinks = [{ a = \"a\", b = \"s0\" }, { a = \"s0\", b = \"s1\" }, \
         { a = \"slow\", b = \"s1\", rate = \"100M\" }]\n[link]\nrate = \"100G\"\n[switch.config.buffer]\nsize = \"1MiB\"\n\
         [switch.config.port_defaults]\nmtu = 1600\n[switch.config.watchdog]\nallow_short = true\ndetection_time = \"100us\"\n\
         restoration_time = \"100us\"\npoll_interval = \"20us\"\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"slow\"\n\
         bytes = 600000\nreliable = false\nrate = \"20G\"\n",
    );
    let s0 = &report.switches[0].ports[1];
    let dropped: u64 = s0.drops.values().sum();
    assert!(dropped > 100 && s0.queue_max > 100_000, "{dropped} {}", s0.queue_max);
    // The first switch is empty after a few hundred microseconds.
    assert!(s0.queue_mean.unwrap() < 10_000, "{:?}", s0.queue_mean);
    assert!(report.samples[1..].iter().all(|sample| sample.queues[0] == 0), "{:?}", report.samples);
}

/// A queue in a storm is emptied while another class keeps its line busy, long before its watchdog looks again.
#[test]
fn a_queue_is_flushed_beside_one_that_sends_all_the_time() {
    let hosts = |of: std::ops::Range<usize>, each: &dyn Fn(usize) -> String| of.map(each).collect::<String>();
    for core in ["", "[switch]\ncore = \"islip\"\nspeedup = 2\n"] {
        let report = play(&format!(
            "name = \"x\"\nstop_time = \"15ms\"\nsample = \"1ms\"\n[topology]\nkind = \"custom\"\nhosts = [{}\"slow\", \"b\", \"c\"]\n\
             switches = [\"s0\", \"s1\"]\nlinks = [{}{{ a = \"s0\", b = \"s1\" }}, \
             {{ a = \"slow\", b = \"s1\", rate = \"100M\" }}, {{ a = \"b\", b = \"s0\" }}, {{ a = \"c\", b = \"s1\" }}]\n\
             [host]\npayload = 256\n[link]\nrate = \"10G\"\n{core}[switch.config.buffer]\nsize = \"16MiB\"\n\
             [[switch.config.buffer.profile]]\nname = \"lossless\"\nstatic_th = \"300KB\"\nxon_offset = \"250KB\"\n\
             [[switch.config.buffer.profile]]\nname = \"lossy\"\nstatic_th = \"20KB\"\n\
             [switch.config.port_defaults]\nmtu = 1600\n[switch.config.watchdog]\nallow_short = true\ndetection_time = \"5ms\"\n\
             restoration_time = \"5ms\"\npoll_interval = \"5ms\"\n{}\
             [[workload]]\nkind = \"flow\"\nfrom = \"b\"\nto = \"c\"\npriority = 0\ndscp = 0\nreliable = false\n",
            hosts(0..8, &|a| format!("\"a{a}\", ")),
            hosts(0..8, &|a| format!("{{ a = \"a{a}\", b = \"s0\" }}, ")),
            hosts(0..8, &|a| format!(
                "[[workload]]\nkind = \"flow\"\nfrom = \"a{a}\"\nto = \"slow\"\nbytes = 200000\nreliable = false\n"
            )),
        ));
        let queue =
            |ms: usize| report.samples.iter().find(|s| s.at_ns == ms as u64 * 1_000_000).unwrap().queues[0];
        assert!(report.lossless_drops_watchdog > 4000, "{core}: {}", report.lossless_drops_watchdog);
        // The watchdog looks at 10 ms.
        assert!(queue(9) > 1_000_000 && queue(11) < 100_000, "{core}: {} {}", queue(9), queue(11));
    }
}

/// Groups that have headroom left of their own, in a pool that has none.
#[test]
fn a_headroom_pool_that_runs_dry_is_named() {
    let text = |ratio: &str| {
        format!(
            r#"
            name = "pool"
            stop_time = "5ms"
            [topology]
            kind = "star"
            hosts = 17
            [host]
            payload = 1000
            [switch.config.buffer]
            size = "4MiB"
            {ratio}
            [[switch.config.buffer.profile]]
            name = "lossless"
            static_th = 20000
            [switch.config.port_defaults]
            mtu = 1600
            [[workload]]
            kind = "incast"
            to = "h16"
            bytes = "200KB"
        "#
        )
    };
    let dry = play(&text("over_subscribe_ratio = 8"));
    let pool = dry.switches[0].headroom_pool.unwrap();
    assert!(dry.lossless_drops > 0 && pool.peak <= pool.size && pool.peak + 1600 > pool.size, "{pool:?}");
    let said: Vec<_> = dry.why.iter().filter(|why| why.contains("headroom_exhausted")).collect();
    assert!(!said.is_empty());
    for why in said {
        let HeadroomPool { size, peak } = pool;
        assert!(
            why.contains(&format!("pool of the switch was empty, with {peak} of its {size} bytes")),
            "{why}"
        );
        assert!(why.contains("`headroom_pool`") && why.contains("`over_subscribe_ratio`"), "{why}");
        assert!(!why.contains("the peer answers Xoff too late"), "{why}");
        assert!(why.contains(" frames (ingress.headroom_exhausted): "), "{why}");
        assert!(!why.contains("frames frames"), "{why}");
    }
    let csv = dry.ports_csv();
    let (head, row) = (csv.lines().find(|line| line.starts_with("switch,")), csv.lines().last());
    let cells = |line: Option<&str>| line.unwrap().split(',').map(str::to_owned).collect::<Vec<_>>();
    let at = cells(head).iter().position(|key| key == "headroom_pool_bytes").unwrap();
    assert_eq!(cells(row)[at..at + 2], [pool.size.to_string(), pool.peak.to_string()]);
    assert!(
        dry.to_html()
            .contains(&format!("\"headroom_pool\":{{\"peak\":{},\"size\":{}}}", pool.peak, pool.size))
    );
    let own = play(&text(""));
    assert_eq!((own.switches[0].headroom_pool, own.lossless_drops), (None, 0));
}
