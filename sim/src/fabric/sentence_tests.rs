//! Sentences of reports and refusals: what they name, and how they count.

use super::{Report, load, run};

fn play(text: &str) -> Result<Report, String> {
    load("s.toml", text).and_then(|spec| run(&spec)).map_err(|e| e.to_string())
}

/// Words that are no plural though they end like one.
const SINGULAR: [&str; 6] = ["is", "was", "passes", "shares", "takes", "address"];

/// "1 frames", "1 of 1 flows", "1 data frames".
fn counts_one_as_many(sentence: &str) -> bool {
    let words: Vec<&str> = sentence.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    let ones = words.iter().enumerate().filter(|(_, word)| **word == "1").map(|(at, _)| at);
    let many = |word: &&&str| word.ends_with('s') && !SINGULAR.contains(word);
    ones.into_iter().any(|at| words[at + 1..].iter().take(2).take_while(|w| **w != "of").any(|w| many(&w)))
}

#[test]
fn one_is_no_plural() {
    for (sentence, wrong) in [
        ("s0 port 1 dropped 1 frames (x)", true),
        ("1 of 1 flows not delivered", true),
        ("Links lost 1 data frames: so", true),
        ("s0 port 1 dropped 1 frame (x)", false),
        ("1 of 8 flows not delivered", false),
        ("1 PFC frame", false),
    ] {
        assert_eq!(counts_one_as_many(sentence), wrong, "{sentence}");
    }
    let head = |level: &str| {
        format!(
            "name = \"s\"\nlevel = \"{level}\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n"
        )
    };
    let one = "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = 1\n";
    let unreliable = format!("{one}reliable = false\n");
    let failure = |more: &str| format!("[[failure]]\na = \"h1\"\nb = \"s0\"\nat = 0\n{more}");
    let packet = head("packet");
    let incast = "[[workload]]\nkind = \"incast\"\nto = \"h1\"\nbytes = 1000\n";
    let direct = packet.replace("star\"\nhosts = 3", "direct\"");
    for (text, says) in [
        (format!("{packet}[link]\nloss = 1.0\n{unreliable}"), "Links lost 1 frame (data, "),
        (format!("{direct}[link]\nloss = 1.0\n{unreliable}"), "Links lost 1 frame (data, "),
        (
            format!("{direct}{}{unreliable}", failure("").replace("s0", "h0")),
            "from h0 to h1 lost 1 frame (data, acknowledgements, CNPs, credits) while it was down",
        ),
        (format!("{packet}[link]\nloss = 1.0\n{unreliable}"), "1 of 1 flow not delivered by "),
        (format!("{packet}[link]\nloss = 1.0\n{unreliable}"), "0 of 1 byte arrived"),
        (
            format!("{packet}{}{unreliable}", failure("")),
            "lost 1 frame (data, acknowledgements, CNPs, credits) while it was down",
        ),
        (
            packet.replace("star\"\nhosts = 3", "leaf_spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 1")
                + "[routing]\nconvergence = \"1us\"\n[[failure]]\na = \"s0\"\nb = \"s2\"\nat = 0\n"
                + &format!("{unreliable}start = \"50us\"\n"),
            "dropped 1 frame (lookup.",
        ),
        (
            format!("{}{incast}", head("flow")),
            "1 of 6 directions of links was a bottleneck of flows that share it",
        ),
        (
            format!("{}{incast}", head("hybrid")),
            "2 of 2 flows were played frame by frame, by 1 of 1 switch: ",
        ),
    ] {
        let report = play(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let all: Vec<&String> = report.why.iter().chain(&report.findings).collect();
        assert!(all.iter().any(|sentence| sentence.contains(says)), "{says}: {all:#?}");
        let wrong: Vec<_> = all.iter().filter(|sentence| counts_one_as_many(sentence)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Why nobody was asked to stop: for want of a priority, of leave to ask, of bytes.
#[test]
fn why_there_is_no_pfc_is_said_as_it_is() {
    let of = |more: &str| {
        play(&format!(
            "name = \"s\"\nstop_time = \"50ms\"\n[topology]\nkind = \"star\"\nhosts = 5\n[switch.config.buffer]\nsize = \"4MiB\"\n\
             [switch.config.port_defaults]\nmtu = 1600\n{more}[[workload]]\nkind = \"incast\"\nto = \"h4\"\nbytes = \"600KB\"\n"
        ))
        .unwrap()
        .why
    };
    let says = |why: &[String], what: &str| assert!(why.iter().any(|w| w.contains(what)), "{what}: {why:#?}");
    says(&of("pfc = { enable = [] }\n"), "No PFC was sent: no port has a priority with PFC enabled.");
    let silent = of(
        "pfc = { enable = [3], tx = false }\n[[switch.config.buffer.profile]]\nname = \"lossless\"\ndynamic_th = -6\n",
    );
    says(&silent, "No PFC was sent: ports with priorities enabled obey it alone (`pfc` has `tx = false`).");
    let unasked = "nobody was asked to stop, since the port sends no PFC for that class. Remedy: its priority in `enable`, and `tx = true`";
    says(&silent, unasked);
    // A hundred lossless frames of hosts that nobody asks to stop.
    let none = of(
        "pfc = { enable = [] }\n[[switch.config.buffer.profile]]\nname = \"lossless\"\nstatic_th = \"60KB\"\n",
    );
    says(&none, unasked);
    let fixed = of("[[switch.config.buffer.profile]]\nname = \"lossless\"\nstatic_th = \"2MB\"\n");
    says(&fixed, "no group reached its limit (`static_th`) of");
    says(
        &of("[[switch.config.buffer.profile]]\nname = \"lossless\"\ndynamic_th = 7\n"),
        "its limit (alpha x free) of",
    );
}

/// Marks are of the field that the profile names, or there are none; and nobody is sent to look at depths for that.
#[test]
fn what_frames_have_no_field_for_is_not_marked() {
    for (ecn, marks) in [("ecn", true), ("tc", false), ("none", false)] {
        let report = play(&format!(
            "name = \"s\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n[[switch.config.wred]]\nname = \"roce\"\n\
             ecn = \"{ecn}\"\nkmin = 5000\nkmax = 6000\n[[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = \"300KB\"\n"
        ))
        .unwrap();
        let said = report
            .why
            .iter()
            .any(|why| why.contains("no queue has a marking profile whose `ecn` its frames have"));
        assert_eq!((report.marks() > 0, said), (marks, !marks), "{ecn}: {:#?}", report.why);
        assert_eq!(report.flows.iter().any(|f| f.marked > Some(0)), marks);
    }
}

/// A switch that does not obey is named, and no headroom is asked for.
#[test]
fn a_switch_that_goes_on_sending_when_it_is_paused_is_named() {
    for (rx, is_deaf) in [("enabled", false), ("all", false), ("link", true), ("none", true)] {
        let report = play(&format!(
            "name = \"s\"\nstop_time = \"30ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"z\"]\nswitches = [\"s0\", \"s1\"]\n\
             links = [{{ a = \"a\", b = \"s0\" }}, {{ a = \"b\", b = \"s0\" }}, {{ a = \"s0\", b = \"s1\" }}, {{ a = \"z\", b = \"s1\", rate = \"10G\" }}]\n\
             [switch.config.buffer]\nsize = \"4MiB\"\n[switch.config.port_defaults]\nmtu = 1600\npfc = {{ enable = [3], rx = \"{rx}\" }}\n\
             [[switch.config.buffer.profile]]\nname = \"lossless\"\nstatic_th = \"60KB\"\n\
             [[workload]]\nkind = \"incast\"\nto = \"z\"\nbytes = \"400KB\"\n"
        ))
        .unwrap();
        let named = "): s0 went on sending when it was paused, since it does not obey pauses of priority 3. Remedy: `rx = ";
        assert_eq!(report.why.iter().any(|why| why.contains(named)), is_deaf, "{rx}: {:#?}", report.why);
        assert_eq!(report.frames_dropped > 0, is_deaf, "{rx}");
        assert!(!report.why.iter().any(|why| why.contains("raise headroom")), "{rx}: {:#?}", report.why);
    }
}

/// A refusal names the key and its line, of the profile that knows few, too.
#[test]
fn keys_of_switches_that_the_published_profile_refuses_are_named() {
    let head = "name = \"s\"\nprofile = \"ns3-hpcc\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n\
                [[workload]]\nkind = \"incast\"\nto = \"h1\"\nbytes = 1000\n[switch.config.buffer]\n";
    let wred = "size = \"1MiB\"\n[[switch.config.wred]]\nkmin = \"1KB\"\nkmax = \"2KB\"\n";
    for (keys, line, says) in [
        ("size = \"much\"\n".into(), 12, "`switch.config.buffer.size`: "),
        ("size = -5\n".into(), 12, "`switch.config.buffer.size`: "),
        ("size = \"1MiB\"\npool = 3\n".into(), 13, "`switch.config.buffer.pool`: unknown field `pool`"),
        ("size = 8589934592\n".into(), 12, "switch.config.buffer.size is 8589934592"),
        (format!("{wred}pmax = 7\n"), 16, "`switch.config.wred.0.pmax`: "),
        (format!("{wred}pmax = \"much\"\n"), 16, "switch.config.wred.0.pmax is much; it must be a share"),
    ] {
        let said = play(&format!("{head}{keys}")).unwrap_err();
        assert!(
            said.starts_with(&format!("s.toml:{line}: ")) && said.contains(says),
            "{said}\n--- line {line}, {says}"
        );
    }
}

/// Where marking begins is a matter of each queue: none is told to have been deep enough by what all queues of its port held together, or
/// by the profile of another one.
#[test]
fn what_was_not_marked_is_judged_queue_by_queue() {
    let file = |kmin: [&str; 2], flows: &[(&str, u8)]| {
        let head = "name = \"s\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[switch.config.buffer]\nsize = \"4MiB\"\n";
        let profile = |name: &str, kmin: &str| {
            format!(
                "[[switch.config.wred]]\nname = \"{name}\"\nkmin = \"{kmin}\"\nkmax = \"4MB\"\npmax = \"1%\"\n"
            )
        };
        let bind = "[[switch.config.queue]]\nqueues = \"3\"\nwred = \"three\"\n[[switch.config.queue]]\nqueues = \"0\"\nwred = \"zero\"\n";
        let flows = flows.iter().map(|(from, priority)| {
            let dscp = if *priority == 3 { 26 } else { 0 };
            format!("[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"h3\"\nbytes = \"60KB\"\npriority = {priority}\ndscp = {dscp}\n")
        });
        format!(
            "{head}{}{}{bind}{}",
            profile("three", kmin[0]),
            profile("zero", kmin[1]),
            flows.collect::<String>()
        )
    };
    let said = |text: &str| {
        let report = play(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        report.why.iter().find(|why| why.starts_with("Nothing was marked")).unwrap().clone()
    };
    // Together they hold more than that, each less.
    let each = said(&file(["110KB", "110KB"], &[("h0", 3), ("h1", 0), ("h2", 0)]));
    assert!(each.starts_with("Nothing was marked: queue "), "{each}");
    assert!(
        each.contains(" held no more than ")
            && each.ends_with(" bytes; a frame is marked that leaves more than 110000 behind."),
        "{each}"
    );
    let zero = [("h0", 0), ("h1", 0)];
    let of_zero = said(&file(["1KB", "100KB"], &zero));
    assert!(of_zero.starts_with("Nothing was marked: queue 0 of s0 port 3 held "), "{of_zero}");
    let although = said(&file(["100KB", "1KB"], &zero));
    assert!(
        although.starts_with("Nothing was marked although queue 0 of s0 port 3 held up to "),
        "{although}"
    );
}

/// Marking counts frames: not the cells they take, nor the least that a short one is charged.
#[test]
fn what_was_not_marked_is_judged_by_bytes_of_frames() {
    let said = |keys: &str, marking: [u64; 2], flow: &str| {
        let [kmin, kmax] = marking;
        let text = format!(
            "name = \"s\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n{keys}[switch.config.port_defaults]\n\
             mtu = 4300\n[[switch.config.wred]]\nname = \"roce\"\nkmin = {kmin}\nkmax = {kmax}\npmax = \"100%\"\n\
             [[workload]]\nkind = \"incast\"\nto = \"h2\"\n{flow}"
        );
        let report = play(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let why = report.why.iter().find(|why| why.starts_with("Nothing was marked"));
        (report.marks(), report.queue_max(), why.cloned().unwrap_or_default())
    };
    let cells = "[host]\npayload = 1000\n[switch.config.buffer]\nsize = \"4MiB\"\ncell_bytes = 256\n";
    let short = "[host]\npayload = 1\n[switch.config.buffer]\nsize = \"4MiB\"\n";
    let (long, byte) = ("bytes = 200000\n", "bytes = 1000\nreliable = false\n");
    for (keys, kmin, flow) in [(cells, 240_000, long), (short, 62_000, byte)] {
        let (marks, longest, why) = said(keys, [kmin; 2], flow);
        assert!(marks == 0 && longest <= kmin, "{longest}");
        let held = format!(
            "Nothing was marked: queue 3 of s0 port 2 held {longest} bytes at most; a frame is marked that leaves more than {kmin} behind."
        );
        assert_eq!(why, held);
    }
    // The last frame makes the difference.
    let (marks, longest, why) = said(short, [61_999; 2], byte);
    assert_eq!((marks, longest), (0, 62_000));
    assert_eq!(
        why,
        "Nothing was marked although queue 3 of s0 port 2 held up to 62000 bytes (a frame is marked that leaves more than 61999 behind): \
         no frame left more."
    );
    assert_eq!(said(short, [61_000; 2], byte).0, 2 * 16);
    // Without chance marking begins at Kmax.
    let never = play(&format!(
        "name = \"s\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n{short}[[switch.config.wred]]\nname = \"roce\"\n\
         kmin = 1000\nkmax = 100000\npmax = \"0%\"\n[[workload]]\nkind = \"incast\"\nto = \"h2\"\n{byte}"
    ));
    let why = never.unwrap().why;
    let says = |why: &String| {
        why.ends_with("held 62000 bytes at most; a frame is marked that leaves more than 100000 behind.")
    };
    assert!(why.iter().any(says), "{why:?}");
    // Acknowledgements of RC Link have no place for a mark. Those that wait do so for a shaper.
    let slow = "name = \"s\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 2\n[host]\nprotocol = \"rclink\"\n\
                [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = 200000\n[switch.config.buffer]\nsize = \"4MiB\"\n\
                [[switch.config.wred]]\nname = \"first\"\nkmin = 0\nkmax = 0\n[[switch.config.scheduler]]\nname = \"slow\"\ntype = \"STRICT\"\n\
                pir = \"100M\"\n[[switch.config.queue]]\nqueues = \"6\"\nwred = \"first\"\nscheduler = \"slow\"\n";
    let why = play(slow).unwrap().why;
    let says = |why: &String| {
        why.starts_with("Nothing was marked although ")
            && why.ends_with(
                " frames of queue 6 of s0 port 0 should have been (a frame is marked that leaves more than 0 behind): they are not ECN \
                 capable.",
            )
    };
    assert!(why.iter().any(says), "{why:?}");
}

/// What waits beside a queue, and cells, bound what it held from above: that is not told as what it held.
#[test]
fn what_a_queue_held_is_not_made_up_of_what_waited_beside_it() {
    let flow = |from: usize, class: &str| {
        format!("[[workload]]\nkind = \"flow\"\nfrom = \"h{from}\"\nto = \"h4\"\nbytes = \"100KB\"\n{class}")
    };
    let other = "priority = 0\ndscp = 0\n";
    let text = format!(
        "name = \"s\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 5\n[switch.config.port_defaults]\nmtu = 1600\n\
         [switch.config.buffer]\nsize = \"8MiB\"\ncell_bytes = 1024\n[[switch.config.wred]]\nname = \"roce\"\nkmin = \"200KB\"\n\
         kmax = \"300KB\"\npmax = \"100%\"\n{}{}{}{}",
        flow(0, ""),
        flow(1, ""),
        flow(2, other),
        flow(3, other)
    );
    let report = play(&text).unwrap();
    let why = report.why.iter().find(|why| why.starts_with("Nothing was marked")).unwrap();
    assert_eq!(
        why,
        "Nothing was marked: no frame of queue 3 of s0 port 4 left more than 200000 bytes (a frame is marked that leaves more than \
         200000 behind), or chance spared those that did. With what waited beside it, it held up to 301056 bytes."
    );
}

/// A pause that is over before it could be sent is no frame, and the group was above its limit all the same.
#[test]
fn a_limit_that_was_reached_without_a_pause_is_told() {
    let text = "name = \"s\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n[host]\npayload = 4096\n\
                [switch.config.port_defaults]\nmtu = 4300\n[switch.config.buffer]\nsize = \"2MiB\"\n\
                [[switch.config.buffer.profile]]\nname = \"lossless\"\nstatic_th = 3000\nreserved = 0\nxon_offset = 0\n\
                [[workload]]\nkind = \"flow\"\nfrom = \"h1\"\nto = \"h0\"\nbytes = \"400KB\"\nreliable = false\npriority = 0\n\
                dscp = 0\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h2\"\nbytes = 4096\nstart = \"5us\"\nreliable = false\n";
    let report = play(text).unwrap();
    assert_eq!((report.pauses(), report.switches[0].ports[0].headroom_peak), (0, 4154));
    let says = "No PFC was sent, although a lossless priority group (s0 port 0) was above its limit (`static_th`) by up to 4154 bytes of \
                headroom: ";
    assert!(report.why.iter().any(|why| why.starts_with(says)), "{:?}", report.why);
}

/// A star of five hosts, four of which send so much to the fifth in class 3, whose headroom is too small. Class 4 has its own.
fn two_classes(host: &str, policy: &str, headroom: &str, bytes: &str) -> String {
    format!(
        "name = \"s\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 5\n[host]\n{host}[switch.config.qos]\n\
         dscp_to_tc = {{ \"*\" = 0, \"26\" = 3, \"34\" = 4, \"48\" = 6 }}\ntc_to_pg = {{ \"*\" = 0, \"3\" = 3, \"4\" = 4, \"6\" = 6 }}\n\
         [switch.config.port_defaults]\nmtu = 1600\npfc = {{ enable = [3, 4] }}\n[switch.config.buffer]\nsize = \"4MiB\"\n{policy}\
         [[switch.config.buffer.profile]]\nname = \"lossless\"\ndynamic_th = -6\nxoff = \"10KB\"\n[[switch.config.buffer.profile]]\n\
         name = \"big\"\nlossless = true\ndynamic_th = -6\nxoff = \"{headroom}\"\n[[switch.config.buffer.pg]]\npgs = \"4\"\n\
         profile = \"big\"\n[[switch.config.buffer.queue]]\nqueues = \"4\"\nprofile = \"egress_lossless\"\n[[workload]]\n\
         kind = \"incast\"\nto = \"h4\"\nbytes = \"{bytes}\"\n"
    )
}

/// What is lost of a class whose pauses a host obeys is not put down to one whose pauses it does not.
#[test]
fn a_host_is_blamed_for_the_classes_it_does_not_hold_back_alone() {
    let other = "[[workload]]\nkind = \"incast\"\nto = \"h4\"\npriority = 4\ndscp = 34\nbytes = ";
    let of = |headroom: &str, bytes: &str| {
        let text = two_classes("pfc_priorities = [3]\n", "", headroom, "300KB");
        let report = play(&format!("{text}{other}\"{bytes}\"\n")).unwrap();
        assert!(report.hosts[0].pauses[4] == 0 && report.switches[0].ports[0].pfc_rx == 0);
        let lost: u64 = report.switches[0].ports[0].drops.values().sum();
        let why =
            report.why.into_iter().filter(|why| why.starts_with("s0 port 0 dropped")).collect::<Vec<_>>();
        (lost, why)
    };
    let (lost, why) = of("150KB", "60KB");
    assert!(why.len() == 1 && why[0].starts_with(&format!("s0 port 0 dropped {lost} frames")), "{why:?}");
    assert!(why[0].contains("raise headroom"), "{why:?}");
    // Both lose: each is told of by itself, and both together are what was lost.
    let (lost, why) = of("10KB", "300KB");
    let count = |why: &String| why.split(' ').nth(4).unwrap().parse::<u64>().unwrap();
    assert!(
        why[0].contains("does not obey pauses of priority 4.") && why[1].contains("raise headroom"),
        "{why:?}"
    );
    assert_eq!(why.iter().map(count).sum::<u64>(), lost);
}

/// What is lost since a watchdog sends through pauses is put down to it; one that only looks says what it saw.
#[test]
fn storms_are_told_with_what_the_watchdog_does_about_them() {
    let of = |action: &str| {
        let text = format!(
            "name = \"s\"\nstop_time = \"20ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"slow\"]\nswitches = [\"s0\", \"s1\"]\n\
             links = [{{ a = \"a\", b = \"s0\" }}, {{ a = \"b\", b = \"s0\" }}, {{ a = \"s0\", b = \"s1\" }}, {{ a = \"slow\", b = \"s1\", \
             rate = \"1G\" }}]\n[host]\ntimeout = \"1ms\"\n[switch.config.port_defaults]\nmtu = 1600\n[switch.config.buffer]\nsize = \"4MiB\"\n\
             [[switch.config.buffer.profile]]\nname = \"lossless\"\nstatic_th = \"500KB\"\nxon_offset = \"400KB\"\n\
             [switch.config.watchdog]\nallow_short = true\ndetection_time = \"1ms\"\nrestoration_time = \"1ms\"\npoll_interval = \"1ms\"\n\
             action = \"{action}\"\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"slow\"\nbytes = \"2MB\"\n[[workload]]\n\
             kind = \"flow\"\nfrom = \"b\"\nto = \"slow\"\nbytes = \"2MB\"\n"
        );
        play(&text).unwrap().why
    };
    let says = |why: &[String], begins: &str, ends: &str| {
        why.iter().any(|why| why.starts_with(begins) && why.ends_with(ends))
    };
    let forward = of("forward");
    assert!(says(&forward, "s1 port 0 dropped ", "or find out why the pauses last."), "{forward:?}");
    assert!(
        forward.iter().any(|why| why.contains("the watchdog of s0 saw 1 storm at port 2")),
        "{forward:?}"
    );
    assert!(
        says(&forward, "The watchdog saw 1 storm, most at s0 port 2, ", "it sends on through the pauses."),
        "{forward:?}"
    );
    let alert = of("alert");
    assert!(says(&alert, "The watchdog saw ", "it says so and does nothing."), "{alert:?}");
    assert!(!of("drop").iter().any(|why| why.starts_with("The watchdog saw")));
    // Queues that are shut for good are told from those in a storm.
    let held = of("drop\"\nreoccurrence = { count = 2, window = \"20ms\" }\n#");
    assert!(says(&held, "s0 port 2 dropped ", "or leave `reoccurrence` out."), "{held:?}");
    let red = of("drop\"\nbig_red_switch = true\n#");
    assert!(says(&red, "s0 port 2 dropped ", "Remedy: false, which is the default."), "{red:?}");
}

/// What a group held of its headroom is told beside what that group has, whatever another one has.
#[test]
fn headroom_in_use_is_of_the_group_that_has_it() {
    let text = |policy: &str, idle: &str| two_classes("", policy, idle, "3MB");
    for policy in ["", "policy = \"reverie\"\n"] {
        for idle in ["150KB", "10KB"] {
            let report = play(&text(policy, idle)).unwrap();
            let port = &report.switches[0].ports[0];
            assert!(
                port.headroom == 10_000 && port.headroom_peak > 8900,
                "{} of {}",
                port.headroom_peak,
                port.headroom
            );
            let dropped = report.why.iter().find(|why| why.starts_with("s0 port 0 dropped")).unwrap();
            assert!(
                dropped.contains("Most headroom in use was 9738 of 10000 bytes."),
                "{policy} {idle}: {dropped}"
            );
        }
    }
}

/// Two priorities that fill one group are paused by it in one frame: it is one where it is sent and where it is heard, and neither priority
/// is told that it is not held back.
#[test]
fn several_priorities_of_one_group_are_paused_together() {
    let text = |priority: usize, dscp: usize| {
        format!(
            "name = \"s\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[switch.config.qos]\n\
             dscp_to_tc = {{ \"*\" = 0, \"26\" = 3, \"24\" = 2, \"48\" = 6 }}\ntc_to_pg = {{ \"*\" = 0, \"2\" = 3, \"3\" = 3, \"6\" = 6 }}\n\
             pfc_to_pg = {{ \"2\" = 3, \"3\" = 3 }}\n[switch.config.port_defaults]\nmtu = 1600\npfc = {{ enable = [2, 3] }}\n\
             [switch.config.buffer]\nsize = \"1MiB\"\n[[switch.config.buffer.profile]]\nname = \"lossless\"\ndynamic_th = -3\n\
             [[switch.config.buffer.queue]]\nqueues = \"2\"\nprofile = \"egress_lossless\"\n[[workload]]\nkind = \"incast\"\n\
             to = \"h3\"\nbytes = \"300KB\"\npriority = {priority}\ndscp = {dscp}\n"
        )
    };
    let report = play(&text(2, 24)).unwrap();
    assert!(!report.why.iter().any(|why| why.contains("priority group")), "{:?}", report.why);
    let port = &report.switches[0].ports[0];
    assert!(report.hosts[0].paused_ns[2] > 0 && report.pauses() > 0);
    assert_eq!(port.pfc_tx_xoff + port.pfc_tx_xon, report.hosts[0].pfc_rx);
    let apart = play(&text(5, 24)).unwrap().why;
    let says = "Frames of priority 5 with DSCP 24 are in priority group 3 of s0, whose pauses hold back priorities 2, 3 of a host: not them. \
                Remedy: `priority = 2` in their [[workload]].";
    assert!(apart.iter().any(|why| why == says), "{apart:?}");
}

/// What a switch with the same configuration would be warned of is told with its line, once, however many switches have it.
#[test]
fn warnings_of_switches_are_told_once_with_their_line() {
    let file = |topology: &str, keys: &str| {
        format!(
            "name = \"s\"\nstop_time = \"1ms\"\n[topology]\n{topology}\n[switch.config.port_defaults]\nmtu = 1600\n\
             [[workload]]\nkind = \"permutation\"\nbytes = 1000\n[switch.config.buffer]\nsize = \"4MiB\"\n{keys}"
        )
    };
    let wred = "[[switch.config.wred]]\nname = \"roce\"\nkmin = \"4MB\"\nkmax = \"5MB\"\n";
    let star = "kind = \"star\"\nhosts = 5";
    let several = "kind = \"leaf_spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 2";
    let short = "[[switch.config.buffer.profile]]\nname = \"lossless\"\nxoff = \"10KB\"\n";
    let strict = "[[switch.config.scheduler]]\nname = \"rest\"\ntype = \"STRICT\"\nweight = 5\n";
    for (topology, keys, rule, says) in [
        (
            star,
            wred,
            "wred.xoff",
            "s0: `roce` marks everything from kmax = 5000000, but group 3 of port 0 reaches Xoff at ",
        ),
        (
            several,
            wred,
            "wred.xoff",
            "s0: `roce` marks everything from kmax = 5000000, but group 3 of port 0 reaches Xoff at ",
        ),
        (star, short, "headroom.short", "s0: `lossless` has a headroom of 10000, but "),
        (several, strict, "scheduler.weight", "s0: a STRICT queue has no weight"),
        (
            star,
            "[[switch.config.wred]]\nname = \"Roce\"\nkmin = \"4KB\"\n",
            "name.unused",
            "s0: nothing uses the marking profile `Roce`",
        ),
    ] {
        let report = play(&file(topology, keys)).unwrap();
        let told: Vec<_> = report.warnings.iter().filter(|warning| warning.rule == rule).collect();
        let [warning] = told[..] else { panic!("{keys}: {:?}", report.warnings) };
        assert!(warning.message.starts_with(says) && report.verdict == "PASS", "{warning}");
        let line = file(topology, "").lines().count() + 1;
        assert!((line..line + 4).contains(&warning.line) && warning.file == "s.toml", "{warning}");
        let sentence = format!("{}. Remedy: {}.", warning.message, warning.remedy);
        assert!(report.why.contains(&sentence) && !report.causes().contains(&sentence));
    }
    // Another policy has other limits, and none of them is that of weir's MMU.
    let dt = format!("policy = \"dt\"\n{wred}");
    assert_eq!(play(&file(star, &dt)).unwrap().warnings, []);
    assert_eq!(play(&file(star, "")).unwrap().warnings, []);
}

/// Nothing is dropped and no link loses a frame, and two thirds of the data are lost.
#[test]
fn what_sprayed_frames_cost_who_takes_them_in_order_is_told() {
    let text = |more: &str| {
        format!(
            "name = \"s\"\nstop_time = \"2ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 4\nspines = 4\nhosts_per_leaf = 4\n[routing]\n\
             mode = \"spray\"\n{more}[[workload]]\nkind = \"permutation\"\nshift = 5\nbytes = \"100KB\"\n"
        )
    };
    let told =
        |report: &Report| report.why.iter().find(|why| why.contains("out of order, or again")).cloned();
    for more in ["", "[host]\nprotocol = \"rclink\"\n"] {
        let report = play(&text(more)).unwrap();
        let useless: u64 = report.flows.iter().filter_map(|flow| flow.useless).sum();
        let why = told(&report).unwrap_or_else(|| panic!("{more}: {:?}", report.why));
        assert!(useless > 100 && why.contains(&format!("threw away {useless} frames")), "{more}: {why}");
    }
    let lost = play(&text("[link]\nloss = 0.001\n")).unwrap();
    assert!(
        told(&lost).unwrap().contains("overtake one another, and what follows a lost one"),
        "{:?}",
        lost.why
    );
    let kept = play(&text("[host]\ntransport = \"selective_repeat\"\n")).unwrap();
    assert_eq!(told(&kept), None);
    let in_order = play(&text("").replace("mode = \"spray\"", "")).unwrap();
    assert_eq!(told(&in_order), None);
}
