//! Published buffer policies under a whole fabric: each is itself, each constant counts, what they cannot be is refused.

use super::keys::without_identity as said;
use super::{Report, load, run};

/// Four hosts at one switch of 2 MiB; `[switch.config.buffer]` is open for more keys.
const STAR: &str = r#"
name = "policy"
stop_time = "300us"
[topology]
kind = "star"
hosts = 4
[link]
rate = "100G"
delay = "500ns"
[host]
payload = 1000
[switch.config.port_defaults]
mtu = 1600
[switch.config.buffer]
size = "2MiB"
"#;

/// Three lossless flows to one host; in a class that may be lost all to all, and three more to another host.
const MIXED: &str = r#"
[[workload]]
kind = "incast"
to = "h3"
bytes = "1MB"
[[workload]]
kind = "all_to_all"
bytes = "300KB"
priority = 0
dscp = 0
reliable = false
[[workload]]
kind = "incast"
to = "h2"
bytes = "400KB"
priority = 0
dscp = 0
reliable = false
"#;

/// `with` are lines of `[switch.config.buffer]`.
fn text(with: &str, workload: &str) -> String {
    format!("{STAR}{with}\n{workload}")
}

fn play(with: &str, workload: &str) -> Report {
    let text = text(with, workload);
    run(&load("policy.toml", &text).unwrap()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

const ALL: [&str; 5] = ["weir", "hpcc", "dt", "abm", "reverie"];

#[test]
fn every_policy_has_results_of_its_own_and_keeps_the_books() {
    let mut seen: Vec<(&str, serde_json::Value)> = Vec::new();
    for policy in ALL {
        let report = play(&format!("policy = \"{policy}\""), MIXED);
        assert_eq!(report.conservation_error, 0, "{policy}");
        assert_eq!(report.lossless_drops, 0, "{policy}");
        assert!(report.pauses() > 0, "{policy}: three senders to one are paused");
        let now = said(&report);
        for (other, then) in &seen {
            assert_ne!(then, &now, "{policy} is no other than {other}");
        }
        seen.push((policy, now));
    }
    assert_eq!(seen[0].1, said(&play("", MIXED)), "\"weir\" is what there is without the key");
}

#[test]
fn a_policy_runs_the_same_twice() {
    for policy in ALL {
        let with = format!("policy = \"{policy}\"");
        assert_eq!(said(&play(&with, MIXED)), said(&play(&with, MIXED)), "{policy}");
    }
}

#[test]
fn every_constant_of_a_policy_has_an_effect() {
    let pairs = [
        ("\"hpcc\"", "{ kind = \"hpcc\", reserve = \"20KB\" }"),
        ("\"hpcc\"", "{ kind = \"hpcc\", resume_offset = \"60KB\" }"),
        ("\"abm\"", "{ kind = \"abm\", window = \"3us\" }"),
        ("\"reverie\"", "{ kind = \"reverie\", shared_pool = \"900KB\" }"),
    ];
    for (plain, with) in pairs {
        let of = |policy: &str| said(&play(&format!("policy = {policy}"), MIXED));
        assert_ne!(of(plain), of(with), "{with} changes nothing");
    }
    // The constants as published are the defaults.
    let spelt = [
        ("\"hpcc\"", "{ kind = \"hpcc\", reserve = 4096, resume_offset = 3072 }"),
        ("\"abm\"", "{ kind = \"abm\", window = \"25us\" }"),
        ("\"dt\"", "{ kind = \"dt\" }"),
    ];
    for (plain, with) in spelt {
        let of = |policy: &str| said(&play(&format!("policy = {policy}"), MIXED));
        assert_eq!(of(plain), of(with));
    }
}

/// What a policy takes from the profiles counts, too.
#[test]
fn profiles_count_under_every_policy() {
    let profile = |keys: &str| format!("[[switch.config.buffer.profile]]\nname = \"lossless\"\n{keys}");
    for policy in &ALL[1..] {
        let of = |keys: &str| said(&play(&format!("policy = \"{policy}\"\n{}", profile(keys)), MIXED));
        let plain = of("dynamic_th = -1");
        assert_ne!(plain, of("dynamic_th = -2"), "{policy}: alpha");
        assert_ne!(plain, of("dynamic_th = -1\nxoff = \"120KB\""), "{policy}: headroom");
        if *policy != "hpcc" {
            assert_ne!(plain, of("dynamic_th = -1\nxon_offset = \"40KB\""), "{policy}: xon_offset");
        }
    }
}

/// A profile of 60 KB of headroom and a reserve of 4 KiB, which hpcc has without being told.
fn lossless(policy: &str) -> String {
    let reserved = if policy.contains("hpcc") { "" } else { "\nreserved = \"4KiB\"" };
    format!("[[switch.config.buffer.profile]]\nname = \"lossless\"\nxoff = \"60KB\"{reserved}")
}

/// n groups that fill alike pause when each has u of the shared part: u = alpha (pool - n u), so u = alpha pool / (1 + n alpha).
/// Beside that a group holds its reserve and what comes after the pause.
#[test]
fn groups_pause_where_the_formula_of_their_policy_says() {
    let incast = "[[workload]]\nkind = \"incast\"\nto = \"h3\"\nbytes = \"4MB\"\n";
    let senders = 3.0;
    for (policy, th) in [("hpcc", -1), ("hpcc", -3), ("dt", 0), ("dt", -2)] {
        let profile = lossless(policy);
        let report = play(&format!("policy = \"{policy}\"\n{profile}\ndynamic_th = {th}"), incast);
        let (alpha, size, headroom, reserve) = (2f64.powi(th), 2_097_152.0, 60_000.0, 4096.0);
        // Both take a headroom and a reserve per port, of which there are four; dt one of each lossless group, which
        // is the same here, and compares the whole group, reserve included, with its limit.
        let pool = size - 4.0 * (headroom + reserve);
        let shared = alpha * pool / (1.0 + senders * alpha);
        let used = if policy == "hpcc" {
            shared + reserve
        } else {
            // u = alpha (pool - n (u - reserve))
            alpha * (pool + senders * reserve) / (1.0 + senders * alpha)
        };
        // A frame is in three places by half a microsecond of cable each way, and answers to a pause take their time.
        let in_flight = 12_500.0 * 1.6 + 3.0 * 1_600.0;
        let peak = report.switches[0].ports[3].queue_max as f64;
        let least = senders * used - senders * 1_100.0;
        assert!(
            (least..least + senders * (in_flight + 1_100.0)).contains(&peak),
            "{policy} {th}: the queue was {peak} bytes at most, {least} expected and {in_flight} for each of three more"
        );
        assert_eq!((report.lossless_drops, report.frames_dropped), (0, 0), "{policy} {th}");
    }
}

/// What a limit of a profile means in a model is not refused: the same alpha in all groups of hpcc, queues that may lose in reverie.
#[test]
fn limits_of_lossy_profiles_count_where_a_model_has_a_word_for_them() {
    let with = |policy: &str, name: &str, th: i8| {
        format!(
            "policy = \"{policy}\"\n[[switch.config.buffer.profile]]\nname = \"{name}\"\ndynamic_th = {th}"
        )
    };
    assert_eq!(said(&play(&with("hpcc", "lossy", 0), MIXED)), said(&play("policy = \"hpcc\"", MIXED)));
    for (policy, name) in [("dt", "lossy"), ("abm", "lossy"), ("reverie", "egress_lossy")] {
        assert_ne!(
            said(&play(&with(policy, name, -4), MIXED)),
            said(&play(&with(policy, name, -6), MIXED)),
            "{policy} {name}"
        );
    }
}

/// The shared bytes of a report are those of the model, and the sentence speaks of its limit.
#[test]
fn a_report_has_the_shared_bytes_of_the_policy() {
    let small = "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h3\"\nbytes = \"10KB\"\n";
    let of_model = 2_097_152 - 4 * (60_000 + 4096);
    for (policy, shared, limit) in [
        ("\"hpcc\"", of_model, "(alpha x free)"),
        ("\"dt\"", of_model, "(alpha x free)"),
        (
            "\"abm\"",
            of_model,
            "(alpha x free, over the congested groups of its priority and by the rate it is sent from at)",
        ),
        ("\"reverie\"", 2_097_152 - 4 * 60_000, "(alpha x free, over the congested groups of its priority)"),
        ("{ kind = \"reverie\", shared_pool = \"900KB\" }", 900_000, "its priority)"),
    ] {
        let report = play(&format!("policy = {policy}\n{}", lossless(policy)), small);
        assert_eq!(report.switches[0].shared, shared, "{policy}");
        let end = format!("{limit} of the {shared} shared bytes.");
        assert!(report.why.iter().any(|why| why.ends_with(&end)), "{policy}: {:?}", report.why);
    }
    // Weir's own has a part for control frames, too.
    let profile = lossless("weir");
    let own = play(&format!("policy = \"weir\"\n{profile}"), small);
    assert_eq!(own.switches, play(&profile, small).switches);
    assert_ne!(own.switches[0].shared, of_model);
}

#[test]
fn headroom_that_lossy_groups_use_is_not_told_as_that_of_lossless_ones() {
    let lossy = "[[workload]]\nkind = \"incast\"\nto = \"h0\"\nbytes = \"900KB\"\npriority = 0\ndscp = 0\nreliable = false\n";
    for policy in ALL {
        let report = play(&format!("policy = \"{policy}\""), lossy);
        assert!(report.frames_dropped > 0, "{policy}");
        for (switch, port) in report.ports() {
            assert_eq!(port.headroom_peak, 0, "{policy}: {} port {}", switch.name, port.port);
            assert!(port.headroom > 0, "{policy}: a lossless group has some");
        }
        assert!(
            report.why.iter().all(|why| !why.contains("although a lossless")),
            "{policy}: {:?}",
            report.why
        );
    }
}

/// A model looks at its threshold when a frame leaves: what it holds back then and holds nothing of waits for ever.
#[test]
fn a_switch_that_holds_hosts_back_for_nothing_is_named() {
    let incast = "[[workload]]\nkind = \"incast\"\nto = \"h4\"\nbytes = \"3MB\"\n";
    let five = |text: String| text.replace("hosts = 4", "hosts = 5").replace("500ns", "1us");
    for policy in ["\"abm\"", "{ kind = \"reverie\", shared_pool = \"100KB\" }"] {
        let with = |keys: &str| {
            let text = text(
                &format!(
                    "policy = {policy}\n[[switch.config.buffer.profile]]\nname = \"lossless\"\ndynamic_th = -8{keys}"
                ),
                incast,
            );
            run(&load("policy.toml", &five(text).replace("300us", "20ms")).unwrap()).unwrap()
        };
        let still = with("");
        let named = still
            .findings
            .iter()
            .find(|found| found.starts_with("s0 holds back h0, h1, h2, h3 on priority 3 for good"));
        assert!(named.is_some_and(|named| named.contains("`xon` above 0")), "{policy}: {:?}", still.findings);
        // The remedy.
        let moved = with("\nxon = 1");
        assert_eq!((moved.verdict, moved.flows_done), ("PASS", 4), "{policy}: {:?}", moved.findings);
        // Not of a run that is still on its way.
        let busy =
            run(&load("policy.toml", &five(text(&format!("policy = {policy}"), incast))).unwrap()).unwrap();
        assert!(
            busy.findings.iter().all(|found| !found.contains("holds back")),
            "{policy}: {:?}",
            busy.findings
        );
    }
}

/// The line of the policy, and what to change.
#[test]
fn what_a_policy_cannot_be_is_refused_with_its_line() {
    let cases = [
        (
            "policy = \"complete\"",
            "unknown variant `complete`, expected one of `weir`, `hpcc`, `dt`, `abm`, `reverie`",
        ),
        ("policy = 3", "write a name, as \"dt\""),
        (
            "policy = { kind = \"dt\", window = \"1us\" }",
            "unknown field `window`, there are no fields; `window` is a key of kind abm: choose that, or",
        ),
        (
            "policy = { kind = \"dt\", window = \"soon\" }",
            "unknown field `window`, there are no fields; `window` is a key of kind abm",
        ),
        ("policy = { kind = \"dt\", wind = \"1us\" }", "unknown field `wind`, there are no fields"),
        ("policy = { kind = \"weir\", reserve = 1 }", "unknown field `reserve`"),
        (
            "policy = { kind = \"hpcc\", shared_pool = \"1MB\" }",
            "`shared_pool` is a key of kind reverie: choose that",
        ),
        ("policy = { reserve = 1 }", "kind"),
        ("policy = { kind = \"abm\", window = 0 }", "must be 1ns or more"),
        ("policy = { kind = \"abm\", window = \"soon\" }", "a time as"),
        (
            "policy = { kind = \"reverie\", shared_pool = \"3MB\" }",
            "are left of the buffer beside the headroom",
        ),
        (
            "policy = { kind = \"hpcc\", reserve = \"600KB\" }",
            "make `buffer.size` larger or `reserve` smaller",
        ),
        ("policy = { kind = \"hpcc\", reserve = \"5GB\" }", "make `buffer.size` larger or `reserve` smaller"),
        ("policy = \"dt\"\nheadroom_pool = \"90KB\"", "take `buffer.headroom_pool` out"),
        ("policy = \"dt\"\ncell_bytes = 256", "take `buffer.cell_bytes` out"),
        (
            "policy = \"hpcc\"\n[[switch.config.buffer.profile]]\nname = \"lossless\"\ndynamic_th = 1",
            "gives 2: make it 0 or less",
        ),
        (
            "policy = \"dt\"\n[[switch.config.buffer.profile]]\nname = \"lossless\"\nstatic_th = \"100KB\"",
            "`dynamic_th` instead of `static_th`",
        ),
        (
            "policy = \"hpcc\"\n[[switch.config.buffer.profile]]\nname = \"lossless\"\nstatic_th = \"100KB\"",
            "`dynamic_th` instead of `static_th`",
        ),
        (
            "policy = \"hpcc\"\n[[switch.config.buffer.profile]]\nname = \"lossless\"\nxon_offset = \"40KB\"",
            "`xon_offset` of the profile \"lossless\" has no effect: groups of hpcc resume by its own `resume_offset`",
        ),
        (
            "policy = \"hpcc\"\negress_lossy_pool = \"500KB\"",
            "`buffer.egress_lossy_pool` has no effect: hpcc has one pool",
        ),
        (
            "policy = \"reverie\"\negress_lossy_pool = \"500KB\"",
            "reverie has one pool for lossless and lossy frames",
        ),
        ("policy = \"abm\"\ncontrol_bytes = \"64KB\"", "`buffer.control_bytes` has no effect"),
        ("policy = \"dt\"\nframes = 25000", "take `buffer.frames` out"),
        (
            "policy = \"hpcc\"\n[[switch.config.buffer.profile]]\nname = \"lossless\"\nreserved = \"9KB\"",
            "`reserved` of the profile \"lossless\" has no effect: each port of hpcc has its own `reserve`",
        ),
        (
            "policy = \"dt\"\n[[switch.config.buffer.profile]]\nname = \"egress_lossy\"\nreserved = \"9KB\"",
            "`reserved` of the profile \"egress_lossy\" has no effect: a published model has no reserve at egress",
        ),
        ("policy = \"dt\"\n[switch]\ncore = \"islip\"", "take `switch.core` out"),
        (
            "policy = \"hpcc\"\n[[switch.config.buffer.profile]]\nname = \"lossy\"\ndynamic_th = -3",
            "`dynamic_th` of the profile \"lossy\" has no effect: hpcc has one alpha per port",
        ),
        (
            "policy = \"hpcc\"\n[[switch.config.buffer.profile]]\nname = \"lossy\"\nstatic_th = \"90KB\"",
            "`static_th` of the profile \"lossy\" has no effect",
        ),
        (
            "policy = \"hpcc\"\n[[switch.config.buffer.profile]]\nname = \"egress_lossy\"\ndynamic_th = -3",
            "hpcc has no limit at egress; take it out",
        ),
        (
            "policy = \"reverie\"\n[[switch.config.buffer.profile]]\nname = \"lossy\"\ndynamic_th = 1",
            "reverie judges lossy frames at egress only; take it out, and set that of the profile of their queues",
        ),
        (
            "policy = \"reverie\"\n[[switch.config.buffer.profile]]\nname = \"egress_lossless\"\ndynamic_th = -3",
            "reverie judges lossless frames at ingress only",
        ),
    ];
    for (with, expected) in cases {
        let text = text(with, MIXED);
        let error = load("policy.toml", &text).and_then(|spec| run(&spec)).unwrap_err().to_string();
        let line = text.lines().position(|line| line.starts_with("policy")).unwrap() + 1;
        assert!(
            error.starts_with(&format!("policy.toml:{line}: [switch.config] buffer.policy: ")),
            "{with}: {error}"
        );
        assert!(error.contains(expected), "{with}: {error}");
    }
    let many =
        "[host.rclink]\n[[workload]]\nkind = \"flow\"\ntype = \"type2\"\nfrom = \"h0\"\nbytes = \"30KB\"\n";
    let many = text("policy = \"dt\"", many).replace("[host]", "[host]\nprotocol = \"rclink\"");
    let error = load("policy.toml", &many).and_then(|spec| run(&spec)).unwrap_err().to_string();
    assert!(error.contains("frames that go to several ports"), "{error}");
    let own = text("policy = \"hpcc\"", MIXED).replace("stop_time", "profile = \"ns3-hpcc\"\nstop_time");
    let error = load("policy.toml", &own).and_then(|spec| run(&spec)).unwrap_err().to_string();
    assert!(error.contains("profile"), "{error}");
}

/// The rows of docs/simulation.md, from the file beside them.
#[test]
fn the_table_of_policies_is_what_runs_give() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
    let (file, docs) = (read("configs/sim/buffer-policies.toml"), read("docs/simulation.md"));
    let mut missing = Vec::new();
    for policy in ALL {
        let text = file.replace("policy = \"dt\"", &format!("policy = \"{policy}\""));
        let report = run(&load("buffer-policies.toml", &text).unwrap()).unwrap();
        let paused: u64 = report.hosts.iter().flat_map(|host| host.paused_ns).sum();
        let ports = || report.switches[0].ports.iter();
        let last = report.flows.iter().filter_map(|f| Some(f.start_ns? + f.fct_ns?)).max().unwrap();
        assert_eq!((report.verdict, report.lossless_drops), ("PASS", 0), "{policy}");
        let row = format!(
            "| {policy} | {} | {:.1} | {} | {:.0} | {:.1} | {:.0} |",
            report.pauses(),
            paused as f64 / 1e3,
            report.frames_dropped,
            report.queue_max() as f64 / 1e3,
            ports().map(|port| port.headroom_peak).max().unwrap() as f64 / 1e3,
            last as f64 / 1e3,
        );
        missing.extend((!docs.contains(&row)).then_some(row));
    }
    assert!(missing.is_empty(), "docs/simulation.md has other figures than\n{}", missing.join("\n"));
}

/// Constants of the published simulator are refused where they would mean nothing, and out of range.
#[test]
fn constants_of_the_published_simulator_are_its_own() {
    let ns3 = |keys: &str, cc: &str| {
        format!(
            "name = \"ns3\"\nstop_time = \"1ms\"\nprofile = \"ns3-hpcc\"\n[topology]\nkind = \"star\"\nhosts = 3\n[ns3]\n{keys}\n\
             [[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = \"100KB\"\ncc = \"{cc}\"\n"
        )
    };
    let cases = [
        (ns3("rp_timer = \"5us\"", "none"), "ns3.toml:8: `ns3.rp_timer` contradicts profile"),
        (ns3("shift = 32", "none"), "ns3.toml:8: ns3.shift is 32; it must be 0 to 31"),
        (ns3("payload = 0", "none"), "ns3.toml:8: ns3.payload is 0"),
        (ns3("ack_gate = 8", "none"), "ns3.toml:8: ns3.ack_gate is 8"),
        (ns3("ewma_gain = 1.5", "dcqcn"), "ns3.toml:8: ns3.ewma_gain is 1.5"),
        (ns3("rp_timer = 0", "dcqcn"), "ns3.toml:8: ns3.rp_timer is 0; it must be 1ns or more"),
        (ns3("reserve = \"5GB\"", "none"), "ns3.toml:8: ns3.reserve is 5000000000"),
        (
            ns3("shift = 3", "none").replace("ns3-hpcc", "weir"),
            "ns3.toml:7: ns3 is given; it must be left out unless",
        ),
    ];
    for (text, expected) in cases {
        let error = load("ns3.toml", &text).and_then(|spec| run(&spec)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n{text}");
    }
}

/// Reverie asks for no Xoff before a frame of a group has left: behind a slow line the buffer is full by then, whatever the headroom.
#[test]
fn reverie_fills_the_buffer_before_it_asks_for_xoff() {
    let of = |policy: &str, size: &str| {
        let incast = "[[workload]]\nkind = \"incast\"\nto = \"h8\"\nbytes = \"1MB\"\n";
        let chain = "kind = \"chain\"\nswitches = 2\nhosts_per_switch = 8\n[trunk]\nrate = \"1G\"";
        let text = text(&format!("policy = \"{policy}\""), incast)
            .replace("2MiB", size)
            .replace("kind = \"star\"\nhosts = 4", chain);
        run(&load("policy.toml", &text).unwrap()).unwrap_or_else(|e| panic!("{e}\n{text}"))
    };
    let full = of("reverie", "1MiB");
    let said: Vec<_> = full.why.iter().filter(|why| why.contains("ingress.headroom_exhausted")).collect();
    assert!(full.lossless_drops > 1000 && said.len() > 4, "{said:?}");
    for why in said {
        assert!(why.contains("the buffer was full, and of the headroom "), "{why}");
        assert!(
            why.contains(" of 42648 bytes were in use at most. reverie asks for Xoff by a filtered size"),
            "{why}"
        );
        assert!(why.ends_with(
            "Remedy: another `policy`, as weir or dt, or a larger `size` in [switch.config.buffer]."
        ));
    }
    // The remedies are ones.
    for (policy, size) in [("reverie", "8MiB"), ("weir", "1MiB"), ("dt", "1MiB")] {
        assert_eq!(of(policy, size).lossless_drops, 0, "{policy} {size}");
    }
}
