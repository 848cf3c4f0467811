//! Equal paths, links that fail.

use super::report::Report;
use super::routes::{Routes, five_tuple, flow_of};
use super::topology::lay_out;
use super::{load, run};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weir_dataplane::rng::Rng;

fn play(text: &str) -> Report {
    load("test", text).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}"))
}

fn carried(report: &Report, from: &str, to: &str) -> u64 {
    let way = report.links.iter().filter(|l| (&*l.from, &*l.to) == (from, to));
    way.map(|l| l.bytes).sum()
}

/// Two leaves, two spines (s2, s3), 100G; `hosts` a leaf.
fn leaf_spine(hosts: usize, more: &str) -> String {
    format!(
        "name = \"t\"\nstop_time = \"10ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 2\nspines = \
         2\nhosts_per_leaf = {hosts}\n{more}\n"
    )
}

#[test]
fn a_hash_of_one_switch_says_nothing_about_that_of_the_next() {
    let spec = load(
        "t",
        "name = \"t\"\nstop_time = \"1ms\"\n[topology]\nkind = \"fat_tree\"\nk = 8\n[[workload]]\nkind = \"all_to_all\"\n",
    );
    let plan = lay_out(&spec.unwrap()).unwrap();
    let routes = Routes::new(&plan, 1, |_| true);
    let mut rng = Rng::new(5);
    // From the first edge switch over its four aggregation switches to the last host: sixteen cores.
    let mut ways: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for _ in 0..16_000 {
        let flow =
            five_tuple(Ipv4Addr::from(rng.next_u32()), Ipv4Addr::from(7), 17, [rng.next_u32() as u16, 4791]);
        let up = routes.port(0, plan.hosts - 1, flow).unwrap();
        let aggregation = 32 + up - 4;
        let core = routes.port(aggregation, plan.hosts - 1, flow).unwrap();
        *ways.entry((up, core)).or_default() += 1;
    }
    assert_eq!(ways.len(), 16);
    // 1000 each, give or take five standard deviations.
    assert!(ways.values().all(|flows| flows.abs_diff(1000) < 155), "{ways:?}");
}

#[test]
fn the_hash_is_of_addresses_protocol_and_ports_alone() {
    let mut frame = vec![0u8; 60];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    frame[23] = 17;
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..38].copy_from_slice(&[0xc0, 1, 0x12, 0xb7]);
    let hash = |frame: &[u8]| flow_of(frame, u64::MAX);
    let flow = hash(&frame);
    assert_eq!(flow, five_tuple(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 17, [0xc001, 4791]));
    for (at, counts) in
        [(0, false), (15, false), (45, false), (23, true), (26, true), (33, true), (34, true), (37, true)]
    {
        let mut other = frame.clone();
        other[at] ^= 1;
        assert_eq!(hash(&other) != flow, counts, "byte {at}");
    }
    let mut tagged = frame.clone();
    tagged.splice(12..12, [0x81, 0, 0x60, 1]);
    assert_eq!(hash(&tagged), flow);
    // Not IPv4, or cut short: addresses.
    for len in 0..60 {
        hash(&frame[..len]);
    }
    frame[12] = 0x88;
    assert_ne!(hash(&frame), flow);
    // Of AFH with addresses of 16 bits those alone.
    let station = flow_of(&frame, 0xffff);
    for (at, counts) in [(0, false), (3, false), (4, true), (5, true), (6, false), (11, true), (20, false)] {
        let mut other = frame.clone();
        other[at] ^= 1;
        assert_eq!(flow_of(&other, 0xffff) != station, counts, "byte {at}");
    }
}

#[test]
fn flows_keep_their_path_and_frames_that_are_sprayed_do_not() {
    let flow = "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"1MB\"\n";
    let of = |mode: &str| play(&leaf_spine(1, &format!("[routing]\nmode = \"{mode}\"\n{flow}")));
    let (ecmp, spray) = (of("ecmp"), of("spray"));
    let spines = |report: &Report| ["s2", "s3"].map(|spine| carried(report, "s0", spine));
    assert!(spines(&ecmp).contains(&0), "{:?}", spines(&ecmp));
    let [a, b] = spines(&spray);
    assert!(a.abs_diff(b) * 10 < a + b && a + b >= 1_000_000, "{a} {b}");
    assert_eq!([&ecmp, &spray].map(|r| r.flows_done), [1, 1]);
}

#[test]
fn weights_are_shares() {
    let of = |weight: u32| {
        play(&format!(
            "name = \"t\"\nstop_time = \"10ms\"\n[routing]\nmode = \"spray\"\n[topology]\nkind = \"custom\"\nhosts = \
             [\"a\", \"b\"]\nswitches = [\"s\", \"t\", \"u\", \"v\"]\nlinks = [{{ a = \"a\", b = \"s\" }}, {{ a = \"b\", b \
             = \"t\" }}, {{ a = \"s\", b = \"u\", weight = {weight} }}, {{ a = \"u\", b = \"t\" }}, {{ a = \"s\", b = \"v\" \
             }}, {{ a = \"v\", b = \"t\" }}]\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"b\"\nbytes = \
             \"3MB\"\nreliable = false\n"
        ))
    };
    for weight in [1, 3, 9] {
        let report = of(weight);
        let (heavy, light) = (carried(&report, "s", "u") as f64, carried(&report, "s", "v") as f64);
        let want = f64::from(weight);
        assert!((heavy / light / want - 1.0).abs() < 0.1, "{weight}: {heavy} {light}");
        assert_eq!(report.flows_done, 1);
    }
}

#[test]
fn what_a_failed_link_loses_is_named_and_flows_go_on_by_the_other() {
    let flow = "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"2MB\"\n[host]\ntimeout = \"100us\"\n";
    let quiet = play(&leaf_spine(1, flow));
    let used = if carried(&quiet, "s0", "s2") > 0 { ("s2", "s3") } else { ("s3", "s2") };
    let failing = |more: &str| {
        let text = format!(
            "[routing]\nconvergence = \"50us\"\n[[failure]]\na = \"{}\"\nb = \"s0\"\nat = \"40us\"\n{more}{flow}",
            used.0
        );
        play(&leaf_spine(1, &text))
    };
    let down = failing("");
    assert_eq!((down.flows_done, down.verdict), (1, "PASS"), "{:?}", down.findings);
    let lost: u64 = down.links.iter().map(|l| l.lost_down).sum();
    // 100G for 50 us is 574 frames of a KB; what is on the cable (1 us) is lost, too.
    assert!((500..600).contains(&lost), "{lost}");
    assert_eq!(down.frames_lost, lost);
    assert!(down.why.iter().any(|w| w.contains(" while it was down")), "{:?}", down.why);
    assert!(carried(&down, "s0", used.1) > 1_000_000);
    // The second half of what is sent again goes by the first link once more.
    let repaired = failing("repair = \"150us\"\n");
    assert_eq!(repaired.flows_done, 1);
    assert!(carried(&repaired, "s0", used.0) > carried(&down, "s0", used.0));
    assert!(carried(&repaired, "s0", used.1) > 0);
}

/// In both orders of the entries, both orders of their ends, and with two links between the nodes.
#[test]
fn a_link_is_down_until_every_failure_of_it_is_repaired() {
    let failure = |ends: [&str; 2], at: u32, repair: Option<u32>| {
        let repair = repair.map_or(String::new(), |us| format!("repair = \"{us}us\"\n"));
        format!("[[failure]]\na = \"{}\"\nb = \"{}\"\nat = \"{at}us\"\n{repair}", ends[0], ends[1])
    };
    let ends = [["s0", "s1"], ["s1", "s0"]];
    let ended = |links: u32, failures: &str| {
        let link = "{ a = \"s0\", b = \"s1\" }, ".repeat(links as usize);
        let report = play(&format!(
            "name = \"t\"\nstop_time = \"5ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"h0\", \"h1\"]\nswitches = [\"s0\", \
             \"s1\"]\nlinks = [{link}{{ a = \"h0\", b = \"s0\" }}, {{ a = \"h1\", b = \"s1\" }}]\n[routing]\nconvergence = \"1us\"\n\
             {failures}[host]\ntimeout = \"20us\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"300KB\"\n"
        ));
        report.flows[0].fct_ns
    };
    for (links, second) in [(1, 0), (1, 1), (2, 1)] {
        let short = failure(ends[0], 10, Some(20));
        for long in [failure(ends[second], 15, Some(400)), failure(ends[second], 20, Some(400))] {
            for failures in [format!("{short}{long}"), format!("{long}{short}")] {
                let fct = ended(links, &failures).unwrap();
                assert!((400_000..500_000).contains(&fct), "{fct} ns, {links} links: {failures}");
            }
        }
        let forever = failure(ends[second], 15, None);
        assert_eq!(ended(links, &format!("{short}{forever}")), None, "{links} links");
        assert!(ended(links, &short).unwrap() < 100_000);
    }
}

/// A spine that has lost a leaf knows one way there: by another leaf, over another spine. What is on its way to it when routes
/// have changed goes by a leaf that it did not come from, if there is one.
#[test]
fn frames_that_are_under_way_when_routes_change_do_not_go_back() {
    let of = |mode: &str, leaves: usize, seed: u64| {
        play(&format!(
            "name = \"t\"\nstop_time = \"10ms\"\nseed = {seed}\n[routing]\nmode = \"{mode}\"\nconvergence = \"3us\"\n[topology]\nkind = \
             \"leaf_spine\"\nleaves = {leaves}\nspines = 2\nhosts_per_leaf = 4\n[[failure]]\na = \"s{}\"\nb = \"s1\"\nat = \"20us\"\n\
             [[workload]]\nkind = \"permutation\"\nshift = 4\nbytes = \"400KB\"\n[host]\ntimeout = \"100us\"\n{}",
            leaves,
            if mode == "spray" { "transport = \"selective_repeat\"\n" } else { "" }
        ))
    };
    let drops = |report: &Report| -> BTreeMap<&str, u64> {
        let mut all = BTreeMap::new();
        report.ports().flat_map(|(_, p)| &p.drops).for_each(|(name, n)| *all.entry(*name).or_default() += n);
        all
    };
    for mode in ["ecmp", "spray"] {
        for seed in 1..6 {
            let report = of(mode, 4, seed);
            assert_eq!((drops(&report), report.flows_done), (BTreeMap::new(), 16), "{mode} {seed}");
        }
    }
    // With two leaves the only way left is back: no switch uses it, and says so.
    let back = of("spray", 2, 1);
    assert!(
        drops(&back).keys().eq(["lookup.same_port"].iter()) && back.flows_done == 8,
        "{:?}",
        drops(&back)
    );
    assert!(back.why.iter().any(|w| w.contains("leads back by the port it came by")), "{:?}", back.why);
}

/// While a link is down there is one path, and no switch has a choice. What was sent then still goes by its flow's own path when the link is
/// back: by that of before, if the link that failed is not on it.
#[test]
fn a_link_that_a_flow_does_not_use_may_fail_and_be_repaired() {
    let of = |seed: u64, failure: &str| {
        play(&format!(
            "name = \"t\"\nstop_time = \"5ms\"\nseed = {seed}\n[topology]\nkind = \"custom\"\nhosts = [\"h0\", \"h1\"]\nswitches = [\"s0\", \
             \"s1\", \"s2\", \"s3\"]\nlinks = [{{ a = \"h0\", b = \"s0\", delay = \"20us\" }}, {{ a = \"h1\", b = \"s1\" }}, {{ a = \"s0\", b = \
             \"s2\", delay = \"5us\" }}, {{ a = \"s2\", b = \"s1\" }}, {{ a = \"s0\", b = \"s3\" }}, {{ a = \"s3\", b = \"s1\" }}]\n{failure}\
             [host]\ntimeout = \"500us\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"2MB\"\nstart = \"2us\"\n"
        ))
    };
    let failure =
        "[routing]\nconvergence = \"1us\"\n[[failure]]\na = \"s0\"\nb = \"s3\"\nat = 1\nrepair = \"100us\"\n";
    let by_the_other = (0..8).filter(|seed| {
        let whole = of(*seed, "");
        let unused = carried(&whole, "s0", "s3") == 0;
        if unused {
            let failed = of(*seed, failure);
            assert_eq!(failed.flows[0].fct_ns, whole.flows[0].fct_ns, "{seed}");
            assert_eq!((failed.flows[0].resent, carried(&failed, "s0", "s3")), (0, 0), "{seed}");
        }
        unused
    });
    assert!(by_the_other.count() > 1);
}

#[test]
fn without_any_path_frames_are_dropped_by_name() {
    let text = "[routing]\nconvergence = \"10us\"\n[[failure]]\na = \"s0\"\nb = \"s2\"\nat = \"20us\"\n[[failure]]\na = \
                \"s0\"\nb = \"s3\"\nat = \"20us\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"1MB\"\n";
    let report = play(&leaf_spine(1, text));
    assert_eq!((report.flows_done, report.verdict), (0, "FAIL"));
    // Of the fabric as it was.
    assert!(report.flows[0].ideal_ns.unwrap() < 100_000, "{:?}", report.flows);
    assert!(report.frames_dropped > 0 && report.frames_lost > 0);
    let says =
        |report: &Report, what: &str| report.why.iter().any(|w| w.starts_with("s0 port") && w.contains(what));
    let remedy = "Hosts send again what is lost. Remedy: another path, or `repair` of the [[failure]].";
    assert!(says(&report, remedy), "{:?}", report.why);
    // A remedy is nothing that the file has.
    let text = text.replace("at = \"20us\"\n", "at = \"20us\"\nrepair = \"100us\"\n");
    let repaired = play(&leaf_spine(1, &text));
    assert!(says(&repaired, "lost. Remedy: another path, or an earlier `repair`."), "{:?}", repaired.why);
    let unreliable = play(&leaf_spine(1, &format!("{text}reliable = false\n")));
    assert!(says(&unreliable, "Some of it nobody sends again. Remedy"), "{:?}", unreliable.why);
}

/// A PFC frame that a failed link lost is no reason to look for a `pause_loss`.
#[test]
fn pauses_that_a_failed_link_lost_are_not_put_down_to_pause_loss() {
    let of = |link: &str, at: u64| {
        play(&format!(
            "name = \"t\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 5\n[link]\n{link}[host]\npfc_priorities = []\ntimeout = \
             \"200us\"\n[switch.config.buffer]\nsize = \"1MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n[[failure]]\na = \"h0\"\nb = \"s0\"\n\
             at = \"{at}ns\"\nrepair = \"600us\"\n[[workload]]\nkind = \"incast\"\nto = \"h4\"\nbytes = \"2MB\"\n"
        ))
    };
    let says = |report: &Report, what: &str| {
        report.why.iter().any(|w| w.starts_with("s0 port 0 dropped") && w.contains(what))
    };
    // With a pause on the cable.
    let sent = of("", 500_000).timeline.pauses.into_iter().find(|p| p.peer == "h0").unwrap().from_ns;
    let failed = of("", sent + 300);
    assert!(failed.links.iter().any(|l| l.lost_pauses > 0 && l.to == "h0"), "{:?}", failed.why);
    assert!(
        says(&failed, "h0 went on sending when it was paused") && !says(&failed, "pause_loss"),
        "{:?}",
        failed.why
    );
    // Who obeys none would not have obeyed those that a link loses.
    let lossy = of("pause_loss = 0.5\n", sent + 300);
    assert!(
        says(&lossy, "h0 went on sending when it was paused") && !says(&lossy, "pause_loss"),
        "{:?}",
        lossy.why
    );
}

/// The cable between two switches, or of a host, is cut for a microsecond: whatever pause or resume frame was on it, nobody is held back
/// by what is forgotten, and who must be is told again (C14).
#[test]
fn a_link_that_comes_back_has_no_pauses_of_before() {
    let flow = |from: &str| {
        format!("[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"c\"\nbytes = \"1MB\"\n")
    };
    let link = |a: &str, b: &str| format!("[[topology.links]]\na = \"{a}\"\nb = \"{b}\"\n");
    let links =
        [("a", "s0"), ("s0", "s1"), ("s1", "c"), ("b", "s1"), ("d", "s1")].map(|(a, b)| link(a, b)).concat();
    let fabric = |hosts: &str, more: &str| {
        play(&format!(
            "name = \"t\"\nstop_time = \"20ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\", \"c\", \"d\"]\nswitches = \
             [\"s0\", \"s1\"]\n{links}[link]\nrate = \"10G\"\n[host]\ntimeout = \"200us\"\n{hosts}[[switch.config.buffer.profile]]\nname = \"lossless\"\nstatic_th = 30000\n[switch.config.port_defaults]\nmtu = \
             1600\n{}{more}",
            ["a", "b", "d"].map(flow).concat()
        ))
    };
    for hosts in ["", "protocol = \"rclink\"\n", "protocol = \"rclink\"\n[host.rclink]\nread_rate = \"6G\"\n"]
    {
        let whole = fabric(hosts, "");
        let last = |report: &Report| report.fct_ns.unwrap().max;
        let pause = whole.timeline.pauses.iter().filter(|p| p.node == "s1" && p.peer == "s0").nth(3).unwrap();
        for (a, b) in [("s0", "s1"), ("a", "s0"), ("s1", "c")] {
            for at in [pause.from_ns, pause.to_ns]
                .into_iter()
                .flat_map(|at| (0..8).map(move |n| at + 400 * n - 800))
            {
                let failure = format!(
                    "[routing]\nconvergence = \"1s\"\n[[failure]]\na = \"{a}\"\nb = \"{b}\"\nat = \"{at}ns\"\nrepair = \"{}ns\"\n",
                    at + 1_000
                );
                let cut = fabric(hosts, &failure);
                let dropped: u64 = cut.ports().flat_map(|(_, port)| port.drops.values()).sum();
                // What was lost is sent again after a timeout at most.
                assert!(
                    dropped == 0 && last(&cut) < last(&whole) + 700_000,
                    "{hosts} {a} {b} {at}: {dropped} {} {}",
                    last(&cut),
                    last(&whole)
                );
            }
        }
    }
}

/// A permutation of small flows in this topology.
fn around(topology: &str) -> Report {
    play(&format!(
        "name = \"t\"\nstop_time = \"10ms\"\n[topology]\n{topology}\n[[workload]]\nkind = \"permutation\"\nbytes = \"20KB\"\n"
    ))
}

fn rate(report: &Report, from: &str, to: &str) -> u64 {
    let way = report.links.iter().filter(|l| (&*l.from, &*l.to) == (from, to));
    way.map(|l| l.rate_bps).sum()
}

#[test]
fn a_fat_tree_has_any_even_k() {
    for (k, hosts, switches) in [(2, 2, 5), (6, 54, 45), (18, 1458, 405)] {
        let text = format!(
            "name = \"t\"\nstop_time = \"1ms\"\n[topology]\nkind = \"fat_tree\"\nk = {k}\n[[workload]]\nkind = \"all_to_all\"\n"
        );
        let plan = lay_out(&load("t", &text).unwrap()).unwrap();
        assert_eq!(
            (plan.hosts, plan.names.len() - plan.hosts, plan.links.len()),
            (hosts, switches, 3 * hosts)
        );
        assert!(plan.ports[plan.hosts..].iter().all(|links| links.len() == k));
    }
    let report = around("kind = \"fat_tree\"\nk = 6");
    assert_eq!((report.flows_done, report.verdict), (54, "PASS"));
}

#[test]
fn oversubscription_is_the_rate_of_hosts_in_that_of_trunks() {
    let of = |more: &str| {
        around(&format!("kind = \"leaf_spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 6\n{more}"))
    };
    let (plain, three) = (of(""), of("oversubscription = 3.0"));
    let double = of("oversubscription = 3.0\nlinks_per_spine = 2");
    let up = |report: &Report| [rate(report, "s0", "s2"), rate(report, "s0", "s3")];
    assert_eq!(up(&plain), [100_000_000_000; 2]);
    // Six hosts of 100G to two trunks.
    assert_eq!((up(&three), up(&double)), ([100_000_000_000; 2], [100_000_000_000; 2]));
    assert_eq!(double.links.iter().filter(|l| (&*l.from, &*l.to) == ("s0", "s2")).count(), 2);
    assert_eq!(up(&of("oversubscription = 1.0")), [300_000_000_000; 2]);
    let text = "name = \"t\"\nstop_time = \"1ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 6\noversubscription = \
                2.0\n[trunk]\nrate = \"40G\"\n[[workload]]\nkind = \"all_to_all\"\n";
    let refused = load("t", text).and_then(|spec| run(&spec)).unwrap_err().to_string();
    assert!(refused.starts_with("t:8: ") && refused.contains("trunk.rate"), "{refused}");
}

#[test]
fn hosts_of_one_rail_share_a_leaf_and_others_meet_in_the_spines() {
    let of = |from: &str, to: &str| {
        play(&format!(
            "name = \"t\"\nstop_time = \"1ms\"\n[topology]\nkind = \"rail\"\nservers = 4\nrails = 4\nservers_per_unit = 2\nspines = \
             2\n[[workload]]\nkind = \"flow\"\nfrom = \"{from}\"\nto = \"{to}\"\nbytes = \"10KB\"\n"
        ))
    };
    let lines = |report: &Report| report.links.iter().filter(|l| l.bytes > 10_000).count();
    // Server 0 and server 1, host 2 of each; host 3 of server 1; host 2 of server 2, which is in the other unit.
    for (to, links) in [("h6", 2), ("h7", 4), ("h10", 4)] {
        let report = of("h2", to);
        assert_eq!((lines(&report), report.flows_done), (links, 1), "{to}");
    }
    assert!(carried(&of("h2", "h6"), "s2", "h6") > 10_000);
    assert!(carried(&of("h2", "h10"), "s6", "h10") > 10_000);
}

#[test]
fn groups_of_a_dragonfly_are_one_global_link_apart() {
    let shape = "kind = \"dragonfly_plus\"\ngroups = 5\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\nlinks_per_pair = 2";
    let report = around(shape);
    assert_eq!((report.flows_done, report.verdict), (20, "PASS"));
    let global = report.links.iter().filter(|l| {
        let spine = |name: &str| name[1..].parse::<usize>().unwrap() >= 10 && name.starts_with('s');
        spine(&l.from) && spine(&l.to)
    });
    let mut per_spine: BTreeMap<&str, usize> = BTreeMap::new();
    global.for_each(|l| *per_spine.entry(&l.from).or_default() += 1);
    // Eight global links of a group, two of them to each other group, by two spines.
    assert!(per_spine.len() == 10 && per_spine.values().all(|links| *links == 4), "{per_spine:?}");
}

/// What a flow takes alone is the least it can take: on paths of all rates, sprayed, and as a rate that begins between two
/// nanoseconds.
#[test]
fn no_flow_is_faster_than_alone() {
    let mut rng = Rng::new(9);
    let mut pick = |of: &[&'static str]| of[rng.next_u32() as usize % of.len()];
    let mut exact = 0;
    for seed in 0..150 {
        let rate = pick(&["10G", "33G", "100G", "400G"]);
        let trunk = pick(&["10G", "25G", "100G"]);
        let (topology, to) = match pick(&["leaf_spine", "fat_tree"]) {
            "fat_tree" => ("kind = \"fat_tree\"\nk = 4", "h15"),
            _ => ("kind = \"leaf_spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 2", "h3"),
        };
        let bytes = pick(&["1", "1025", "2049", "3073", "4097", "5000", "8192", "10241", "100001"]);
        let forwarding = pick(&["store_and_forward", "cut_through"]);
        let text = format!(
            "name = \"t\"\nstop_time = \"20ms\"\nseed = {seed}\n[topology]\n{topology}\n[link]\nrate = \"{rate}\"\ndelay = 131\n[trunk]\n\
             rate = \"{trunk}\"\n[routing]\nmode = \"spray\"\n[host]\ntransport = \"selective_repeat\"\n[switch]\nforwarding = \
             \"{forwarding}\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"{to}\"\nbytes = {bytes}\n"
        );
        let flow = &play(&text).flows[0];
        let (fct, alone) = (flow.fct_ns.unwrap(), flow.ideal_ns.unwrap());
        assert!(fct >= alone, "{fct} ns, alone {alone}: {text}");
        exact += u32::from(fct <= alone + 1);
    }
    // It is no bound that is never met.
    assert!(exact > 50, "{exact}");
    for kind in ["all_reduce", "tree_all_reduce"] {
        let report = play(&format!(
            "name = \"t\"\nstop_time = \"20ms\"\nlevel = \"flow\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
             [link]\nrate = \"33G\"\n[[workload]]\nkind = \"{kind}\"\nbytes = \"100KB\"\n"
        ));
        let early = report.flows.iter().filter(|f| f.fct_ns.unwrap() < f.ideal_ns.unwrap());
        assert_eq!(early.count(), 0, "{kind}");
    }
}

/// A line is busy to the picosecond: frames that take less than a nanosecond follow one another, at hosts, at switches, and through a trunk
/// that several hosts fill.
#[test]
fn frames_of_less_than_a_nanosecond_leave_back_to_back() {
    let flow = |from: usize, to: usize, bytes: u64| {
        format!(
            "[[workload]]\nkind = \"flow\"\nfrom = \"h{from}\"\nto = \"h{to}\"\nbytes = {bytes}\nreliable = false\n"
        )
    };
    for (rate, payload) in [("800G", 4), ("1600G", 64), ("3200G", 64), ("3200G", 256)] {
        for rest in
            ["", "[switch]\nforwarding = \"cut_through\"\n", "[switch]\ncore = \"islip\"\nspeedup = 2\n"]
        {
            let report = play(&format!(
                "name = \"t\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n[link]\nrate = \"{rate}\"\n[host]\n\
                 payload = {payload}\n[switch.config.port_defaults]\nmtu = 1600\n{rest}{}",
                flow(0, 1, 2000 * payload)
            ));
            let (flow, sent) = (&report.flows[0], report.links.iter().find(|l| l.from == "h0").unwrap());
            let (taken, alone) = (flow.fct_ns.unwrap(), flow.ideal_ns.unwrap());
            assert!(
                taken <= alone + 8,
                "{rate} {payload} {rest}: {taken} ns, alone {alone}; busy {}",
                sent.busy_milli
            );
        }
    }
    let names = |of: std::ops::Range<usize>| of.map(|h| format!("\"h{h}\"")).collect::<Vec<_>>().join(", ");
    let links = |of: std::ops::Range<usize>, s: usize| {
        of.map(|h| format!("{{ a = \"h{h}\", b = \"s{s}\", rate = \"200G\" }}, ")).collect::<String>()
    };
    let text = format!(
        "name = \"t\"\nstop_time = \"1ms\"\n[topology]\nkind = \"custom\"\nhosts = [{}]\nswitches = [\"s0\", \"s1\"]\nlinks = [{}{}{{ a = \
         \"s0\", b = \"s1\", rate = \"1600G\" }}]\n[host]\npayload = 64\n[switch.config.port_defaults]\nmtu = 1600\n{}",
        names(0..16),
        links(0..8, 0),
        links(8..16, 1),
        (0..8).map(|h| flow(h, h + 8, 64_000)).collect::<String>()
    );
    let report = play(&text);
    let late = report.flows.iter().map(|f| f.fct_ns.unwrap() - f.ideal_ns.unwrap()).max().unwrap();
    assert!(late <= 8 && report.queue_max() < 16 * 130, "{late} ns, {} bytes", report.queue_max());
}

/// Two failures within one convergence: routes of the first know nothing of the second until its own time has passed, so what goes
/// that way is lost on the link.
#[test]
fn routes_know_of_no_failure_before_its_own_convergence() {
    let failure = |b: &str, at: u32| format!("[[failure]]\na = \"a\"\nb = \"{b}\"\nat = \"{at}us\"\n");
    let play = |failures: &str| {
        play(&format!(
            "name = \"r\"\nstop_time = \"2ms\"\n[routing]\nconvergence = \"50us\"\n{failures}[topology]\nkind = \"custom\"\n\
             hosts = [\"h0\", \"h1\"]\nswitches = [\"a\", \"b\", \"c\"]\nlinks = [{{ a = \"h0\", b = \"a\" }}, {{ a = \"h1\", b = \"b\" }}, \
             {{ a = \"a\", b = \"b\" }}, {{ a = \"a\", b = \"c\" }}, {{ a = \"c\", b = \"b\" }}]\n\
             [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"10MB\"\nreliable = false\n"
        ))
    };
    let lost = |report: &Report, to: &str| {
        let link = report.links.iter().find(|link| link.from == "a" && link.to == to);
        link.unwrap().lost_down
    };
    let both = play(&[failure("b", 100), failure("c", 120)].concat());
    // A frame of 1000 bytes of payload takes 86 ns: 50 us of them on one link, 20 us on the other.
    let frames = |us: u64| us * 1000 / 86;
    let [to_b, to_c] = ["b", "c"].map(|to| lost(&both, to));
    assert!(to_b.abs_diff(frames(50)) < 40 && to_c.abs_diff(frames(20)) < 40, "{to_b} {to_c}");
    // A link that is repaired before anybody knows is not used until its repair is known.
    let repaired = failure("b", 100).replace("\n[", "[") + "repair = \"110us\"\n";
    let other = play(&repaired).links.iter().find(|link| link.from == "a" && link.to == "c").unwrap().frames;
    assert!(other.abs_diff(frames(10)) < 40, "{other}");
}

/// More frames than there is memory for are refused, and so are places of a storage workload that it never uses.
#[test]
fn what_no_memory_holds_is_refused_or_not_asked_for() {
    let file = include_str!("../../../configs/sim/incast.toml");
    let size = file.lines().find(|line| line.starts_with("size = ")).unwrap();
    let error = load("t", &file.replace(size, "size = \"1000GiB\"")).and_then(|spec| run(&spec));
    assert!(
        error.as_ref().is_err_and(|error| error.to_string().contains("reduce `buffer.size`")),
        "{error:?}"
    );
    let file = include_str!("../../../configs/sim/pipeline.toml");
    let depth = file.lines().find(|line| line.starts_with("depth = ")).unwrap();
    let of = |depth_is: &str| run(&load("t", &file.replace(depth, depth_is)).unwrap()).unwrap().flows;
    assert_eq!(of("depth = 1000000000000"), of("depth = 1000000"));
}

/// The figures of docs/simulation.md for configs/sim/link-failure.toml, in its words.
#[test]
fn the_sentence_about_the_link_that_fails_is_what_runs_give() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
    let file = read("configs/sim/link-failure.toml");
    let (head, rest) = file.split_once("[routing]").unwrap();
    let (_, tail) = rest.split_once("[host]").unwrap();
    let (down, up) = (play(&file), play(&format!("{head}[host]{tail}")));
    assert_eq!((down.verdict, up.verdict), ("PASS", "PASS"));
    let lost: Vec<u64> = down.links.iter().map(|l| l.lost_down).filter(|lost| *lost > 0).collect();
    let [there, back] = lost[..] else { panic!("{lost:?}") };
    let mut hit: Vec<_> = down.flows.iter().zip(&up.flows).filter(|(flow, _)| flow.resent > 0).collect();
    hit.sort_by_key(|(flow, _)| flow.fct_ns);
    let resent: u64 = hit.iter().map(|(flow, _)| flow.resent).sum();
    let us: Vec<[u64; 2]> =
        hit.iter().map(|(a, b)| [a, b].map(|flow| (flow.fct_ns.unwrap() + 500) / 1000)).collect();
    let [[a, x], [b, y], [c, z]] = us[..] else { panic!("{us:?}") };
    let sentence = format!(
        "In `configs/sim/link-failure.toml` {there} frames are lost one way and {back} the other in the 50 us its routes need. Three \
         flows lose some, send {resent} frames again, and end after {a}, {b} and {c} us instead of {x}, {y} and {z} us."
    );
    let docs = read("docs/simulation.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(docs.contains(&sentence), "docs/simulation.md has another sentence than\n{sentence}");
}

/// A failure is one of all links between two nodes, and so is the sentence about it; ports tell them apart.
#[test]
fn parallel_links_that_fail_are_told_together_and_told_apart_by_their_ports() {
    let report = play(
        r#"
name = "two"
stop_time = "2ms"
[topology]
kind = "custom"
hosts = ["h0", "h1", "h2", "h3"]
switches = ["a", "b"]
links = [{ a = "h0", b = "a" }, { a = "h1", b = "a" }, { a = "h2", b = "b" }, { a = "h3", b = "b" }, { a = "a", b = "b" }, { a = "a", b = "b" }]
[link]
rate = "100G"
delay = "1us"
[routing]
mode = "spray"
[host]
transport = "selective_repeat"
[switch.config.port_defaults]
mtu = 1600
[[failure]]
a = "a"
b = "b"
at = "20us"
repair = "200us"
[[workload]]
kind = "permutation"
shift = 2
bytes = "1MB"
"#,
    );
    let ways = |from: &str| {
        let links = report.links.iter().filter(|l| l.from == from && ["a", "b"].contains(&l.to.as_str()));
        links.map(|l| (l.from_port, l.to_port, l.lost_down)).collect::<Vec<_>>()
    };
    let there = ways("a");
    assert!(matches!(there[..], [(2, 2, x), (3, 3, y)] if x > 0 && y > 0), "{there:?}");
    let lost: u64 = there.iter().map(|(.., lost)| lost).sum();
    let sentence = format!("The 2 links from a to b lost {lost} frames (");
    let told = report.why.iter().filter(|why| why.contains("from a to b lost")).collect::<Vec<_>>();
    assert!(matches!(&told[..], [one] if one.starts_with(&sentence)), "{told:?}");
}

/// What hosts throw away has a reason where routes change, and is no data of the latency report.
#[test]
fn frames_that_a_repair_lets_overtake_are_told_and_are_no_data() {
    let text = |host: &str, flow: &str| {
        format!(
            r#"
name = "overtaken"
stop_time = "2ms"
latency = true
[topology]
kind = "custom"
hosts = ["h0", "h1", "h2"]
switches = ["a", "b", "c"]
links = [{{ a = "h0", b = "a" }}, {{ a = "h1", b = "b" }}, {{ a = "h2", b = "c" }}, {{ a = "a", b = "b" }}, {{ a = "b", b = "c", rate = "25G" }}, {{ a = "a", b = "c" }}]
[routing]
convergence = "10us"
[[failure]]
a = "a"
b = "b"
at = "20us"
repair = "100us"
[host]
{host}
[[workload]]
kind = "flow"
from = "h0"
to = "h1"
bytes = "2MB"
{flow}
"#
        )
    };
    for (host, flow) in [
        ("protocol = \"rocev2\"", "reliable = false"),
        ("protocol = \"rclink\"\n[host.rclink]\nretransmit = false", ""),
    ] {
        let report = play(&text(host, flow));
        let useless = report.flows[0].useless.unwrap();
        let latency = report.latency.as_ref().unwrap();
        assert!(useless > 100, "{host}: {useless}");
        let taken = report.flows[0].delivered.div_ceil(1024);
        let frames = |kind: &str| {
            latency.end_to_end.iter().filter(|of| of.name == kind).map(|of| of.frames).sum::<u64>()
        };
        assert_eq!(frames("data"), taken, "{host}");
        // A few CNPs besides.
        assert!(
            (useless..useless + 10).contains(&frames("other")),
            "{host}: {useless} and {}",
            frames("other")
        );
        let told = format!(
            "Hosts threw away {useless} frames that came out of order, or again: frames overtake one another where"
        );
        assert!(report.why.iter().any(|why| why.starts_with(&told)), "{host}: {:?}", report.why);
    }
}

/// A pause may be lost where no data is: a host that has sent all, and whose link fails, is still refreshed.
#[test]
fn pauses_that_a_failed_link_loses_are_put_down_to_that() {
    let text = |loss: &str| {
        format!(
            r#"
name = "lost pause"
stop_time = "1ms"
[topology]
kind = "star"
hosts = 6
[link]
{loss}
[switch.config.buffer]
size = "4MiB"
[[switch.config.buffer.profile]]
name = "lossless"
static_th = "40KiB"
[switch.config.pfc]
pause_quanta = 400
refresh = "37.5%"
[[failure]]
a = "h1"
b = "s0"
at = "6300ns"
repair = "16us"
[[workload]]
kind = "incast"
to = "h0"
bytes = 60000
reliable = false
"#
        )
    };
    for (loss, cause) in
        [("", "while they were down"), ("pause_loss = 0.5", "by their `pause_loss`, or while they were down")]
    {
        let report = play(&text(loss));
        let lost: u64 = report.links.iter().map(|l| l.lost_pauses).sum();
        assert!(lost > 0, "{loss}");
        let told =
            report.why.iter().filter(|why| why.starts_with("Links lost ") && why.contains("PFC frame"));
        assert!(
            told.clone().count() == 1 && told.clone().all(|why| why.ends_with(&format!(": {cause}."))),
            "{:?}",
            report.why
        );
    }
    assert_eq!(play(&text("")).links.iter().map(|l| l.lost_down).sum::<u64>(), 0);
}
