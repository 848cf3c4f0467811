//! RC Link hosts that fill a port: what is lost and what is not, and queue pairs that steps share.

use super::import_tests::{folder, play_in};
use super::tests::play;
use super::*;

/// Four RC Link hosts send 2 MB each to a fifth.
fn rclink(rclink: &str, link: &str, workload: &str) -> Report {
    play(&format!(
        r#"
        name = "rclink"
        stop_time = "100ms"
        [topology]
        kind = "star"
        hosts = 5
        [link]
        rate = "40G"
        delay = "1us"
        {link}
        [host]
        protocol = "rclink"
        [host.rclink]
        {rclink}
        [switch.config.buffer]
        size = "8MiB"
        [[switch.config.buffer.profile]]
        name = "lossless"
        static_th = "200KB"
        [switch.config.port_defaults]
        mtu = 1600
        [[switch.config.wred]]
        name = "request"
        kmin = "20KB"
        kmax = "200KB"
        pmax = "10%"
        [[workload]]
        kind = "incast"
        to = "h4"
        bytes = "2MB"
        {workload}
        "#
    ))
}

#[test]
fn sw130_sw132_rc_link_hosts_fill_a_port_and_lose_nothing() {
    for kind in ["", "format = \"afh_gen1\"", "retransmit = false"] {
        let report = rclink(kind, "", "");
        assert_eq!((report.flows_done, report.frames_dropped, report.verdict), (4, 0, "PASS"), "{kind}");
        assert!(report.pauses() > 0, "{kind}: four windows are more than a port takes");
        assert!(report.flows.iter().all(|f| f.resent == 0 && f.delivered == 2_000_000 && f.timeouts == 0));
        // 8 MB in frames of 1024 bytes of payload, at 40 Gb/s, with an eighth of headers and gaps.
        let last = report.fct_ns.unwrap().max;
        assert!((1_670_000..1_780_000).contains(&last), "{kind}: {last}");
    }
}

#[test]
fn sw131_losses_are_sent_again_or_missed() {
    let report = rclink("", "loss = 0.001", "");
    assert!(report.frames_lost > 0 && report.flows_done == 4, "{:?}", report.why);
    assert!(report.flows.iter().all(|f| f.delivered == 2_000_000));
    assert!(report.flows.iter().any(|f| f.resent > 0));
    let report = rclink("retransmit = false", "loss = 0.001", "");
    assert!(report.frames_lost > 0);
    let (sent, got) = report.flows.iter().fold((0, 0), |(s, g), f| (s + f.packets, g + f.delivered));
    assert_eq!(sent, 4 * 1954, "everything once");
    // Nothing but data is sent, so what was lost is data: whole packets but for the last of a flow.
    assert!(got < 8_000_000 && got + report.frames_lost * 1024 >= 8_000_000);
    // What a receiver knows to be missing is lost; a lost end of a flow nobody tells it about.
    assert_eq!(report.flows_done, report.flows.iter().filter(|f| f.delivered == 2_000_000).count());
    assert!(
        report.flows_done < 4 && report.flows.iter().all(|f| f.fct_ns.is_none() == (f.delivered < 2_000_000))
    );
    assert_eq!(report.bytes_lost, report.flows.iter().map(|f| f.lost).sum::<u64>());
    assert!(report.bytes_lost > 0 && report.bytes_lost <= 8_000_000 - got);
    assert_eq!((report.verdict, report.findings.len()), ("FAIL", 2), "{:?}", report.findings);
}

/// Scenario B with its requests in the class of responses, and hosts that obey what is said.
fn scenario_b(host: &str) -> Report {
    let text = include_str!("../../../configs/sim/scenario-b.toml");
    let text =
        format!("{text}priority = 2\n").replace("payload = 1302\n", &format!("payload = 1302\n{host}\n"));
    play(&text)
}

#[test]
fn hosts_obey_what_their_switch_keeps_lossless() {
    let report = scenario_b("");
    assert_eq!(
        (report.frames_dropped, report.flows_done, report.verdict),
        (0, 2, "PASS"),
        "{:?}",
        report.why
    );
    assert!(report.hosts.iter().any(|h| h.pauses[2] > 0), "{:?}", report.hosts);
    // Without a switch between them, what one would keep lossless.
    let pair = |protocol: &str| {
        format!(
            "name = \"pair\"\nstop_time = \"1ms\"\n[topology]\nkind = \"direct\"\n[host]\nprotocol = \"{protocol}\"\n\
             [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = 1000\n"
        )
    };
    assert_eq!(play(&pair("rclink")).verdict, "PASS");
    assert_eq!(play(&pair("rocev2")).verdict, "PASS");
}

#[test]
fn what_lite_loses_is_not_delivered_and_the_host_that_did_not_obey_is_named() {
    let report = scenario_b("pfc_priorities = [3]");
    let delivered: u64 = report.flows.iter().map(|f| f.delivered).sum();
    assert!(report.frames_dropped > 0 && delivered < 10_000_000, "{:?}", report.why);
    assert!(report.flows_done < 2 && report.verdict == "FAIL", "{:?}", report.findings);
    let findings = ["of a lossless class", "not delivered", "bytes lost"];
    assert!(report.findings.iter().zip(findings).all(|(f, part)| f.contains(part)), "{:?}", report.findings);
    let why = report.why.iter().find(|s| s.contains("headroom_exhausted")).unwrap();
    assert!(why.contains("does not obey pauses of priority 2") && why.contains("chip-"), "{why}");
    assert!(!why.contains("Most headroom"), "headroom is not to blame: {why}");
}

#[test]
fn datagrams_that_are_lost_are_not_delivered() {
    let report = play(
        "name = \"datagrams\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n[link]\nloss = 0.01\n\
         [[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = 1000000\nreliable = false\n",
    );
    assert!(report.frames_lost > 0 && report.flows_done == 0 && report.fct_ns.is_none());
    assert!(report.bytes_lost > 0 && report.verdict == "FAIL", "{:?}", report.findings);
    assert!(report.flows.iter().all(|f| f.delivered + f.lost == f.bytes.unwrap()));
}

/// The end of a flow is followed by nothing that would show its loss: it is lost nevertheless when nothing is on its way any more.
#[test]
fn lost_ends_of_flows_are_lost() {
    let of = |topology: &str, workload: &str| {
        let text = format!(
            "name = \"ends\"\nstop_time = \"2ms\"\n[topology]\n{topology}\n[link]\nloss = 0.05\n{workload}\nbytes = 1000\n"
        );
        let report = play(&text);
        assert!(report.frames_lost > 0 && report.bytes_lost > 0, "{text}");
        assert!(report.flows.iter().all(|f| f.delivered + f.lost == f.bytes.unwrap()), "{text}");
        report
    };
    let star = "kind = \"star\"\nhosts = 40";
    let datagrams = of(star, "[[workload]]\nkind = \"incast\"\nto = \"h2\"\nreliable = false");
    assert_eq!(datagrams.bytes_lost, 1000 * datagrams.frames_lost);
    let rclink = "[host]\nprotocol = \"rclink\"\n[host.rclink]\n";
    for link in ["retransmit = false", "format = \"afh_lite\"", "retransmit = false\nread_rate = \"5G\""] {
        of(star, &format!("{rclink}{link}\n[[workload]]\nkind = \"incast\"\nto = \"h2\""));
    }
    for kind in ["type2", "type3"] {
        let flow = if kind == "type2" { "" } else { "to = \"h3\"\n" };
        let flow = format!(
            "[[workload]]\nkind = \"flow\"\ntype = \"{kind}\"\nfrom = \"h0\"\n{flow}bytes = 1000\nstart = "
        );
        let flows: String = (0..40).map(|n| format!("{flow}\"{n}us\"\n")).collect();
        let text = format!("{rclink}{flows}");
        let text = text.strip_suffix("\n").unwrap();
        let at = text.rfind("bytes = 1000\n").unwrap();
        of("kind = \"star\"\nhosts = 5", &format!("{}{}", &text[..at], &text[at + 13..]));
    }
}

#[test]
fn steps_of_an_all_reduce_share_a_queue_pair_and_its_rate() {
    let text = |cc: &str| {
        format!(
            "name = \"ring\"\nstop_time = \"50ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[link]\nrate = \"40G\"\n\
             {cc}\nkind = \"all_reduce\"\nbytes = \"2MB\"\n"
        )
    };
    let plain = play(&text("[[workload]]"));
    assert_eq!((plain.flows_done, plain.verdict), (24, "PASS"));
    // A burst of somebody else meets the first step of h0. The rate that CNPs leave is that of the steps after it,
    // which meet nobody: a new queue pair would begin at line rate.
    let burst = "[[workload]]\nkind = \"flow\"\nfrom = \"h2\"\nto = \"h1\"\nbytes = \"500KB\"\n";
    let wred = "[[switch.config.wred]]\nname = \"roce\"\nkmin = \"5KB\"\nkmax = \"20KB\"\npmax = \"100%\"\n";
    let marked = play(&(text(&format!("{wred}[[workload]]\ncc = \"dcqcn\"")) + burst));
    let of_h0 = |r: &Report| (0..6).map(|step| r.flows[step * 4].fct_ns.unwrap()).collect::<Vec<_>>();
    let (plain, slowed) = (of_h0(&plain), of_h0(&marked));
    assert!(marked.flows[0].cnps > Some(0) && marked.flows[4].cnps == Some(0), "{:?}", marked.flows);
    assert!(slowed[1] > plain[1] * 13 / 10, "{slowed:?} {plain:?}");
    // RC Link numbers queue pairs in 13 bits: a ring needs two of each host, however many steps it has.
    let rclink = play(&text("[host]\nprotocol = \"rclink\"\n[[workload]]"));
    assert_eq!((rclink.flows_done, rclink.verdict), (24, "PASS"));
    assert!(rclink.flows.iter().all(|f| f.delivered == 500_000 && f.packets == 489), "{:?}", rclink.flows[5]);
}

#[test]
fn sw042_rc_link_backs_off_where_frames_are_marked() {
    let queue = |report: &Report| report.switches[0].ports[4].queue_mean.unwrap();
    let plain = rclink("", "", "");
    let backs = rclink("", "", "cc = \"backoff\"");
    assert_eq!((backs.flows_done, backs.frames_dropped), (4, 0));
    assert!(backs.flows.iter().all(|f| f.cnps.unwrap() > 0), "{:?}", backs.flows);
    assert!(queue(&backs) * 2 < queue(&plain), "{} {}", queue(&backs), queue(&plain));
}

/// Messages of so many bytes from rank 0 to rank 1, one after the other on one queue pair, as operations in a file.
fn sends(bytes: impl IntoIterator<Item = u64>) -> String {
    let send = |(id, bytes): (usize, u64)| {
        format!(
            "{{\"rank\": 0, \"id\": {id}, \"op\": \"send\", \"to\": 1, \"bytes\": {bytes}}}\n\
             {{\"rank\": 1, \"id\": {id}, \"op\": \"recv\", \"from\": 0}}\n"
        )
    };
    bytes.into_iter().enumerate().map(send).collect()
}

/// The same between two hosts on a cable of 100G and 1 us, `more` before the workload.
fn messages(more: &str, bytes: impl IntoIterator<Item = u64>) -> Report {
    let dir = folder(&[("o.jsonl", &sends(bytes))]);
    let text = format!(
        "name = \"m\"\nstop_time = \"20ms\"\n[topology]\nkind = \"direct\"\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n{more}\n\
         [[workload]]\nkind = \"operations\"\nfile = \"o.jsonl\"\n"
    );
    play_in(dir.path(), &text).unwrap_or_else(|e| panic!("{e}"))
}

const CUT: &str = "[[failure]]\na = \"h0\"\nb = \"h1\"\nat = \"20us\"\nrepair =";

/// Numbers of frames begin anew after 4096, and what is missing is counted right, however much it is.
#[test]
fn any_number_of_frames_in_a_row_may_be_lost_in_lite_mode() {
    for repair in ["180us", "200us", "300us", "400us"] {
        let host = "[host]\nprotocol = \"rclink\"\npayload = 1000\nrclink.retransmit = false\n";
        let report =
            messages(&format!("{CUT} {repair:?}\n{host}"), [3000, 3000, 4000].map(|packets| packets * 1000));
        let of = |f: &FlowResult| (f.packets, f.delivered + f.lost, f.lost > 0, f.fct_ns.is_none());
        // As many as the cable lost; those behind the 220 that arrived before are of the first message.
        let lost = report.frames_lost * 1000;
        assert_eq!(report.bytes_lost, lost, "{repair}");
        let of_first = lost.min(2_780_000);
        assert_eq!(report.flows.iter().map(|f| f.lost).collect::<Vec<_>>(), [of_first, lost - of_first, 0]);
        for (flow, packets) in report.flows.iter().zip([3000, 3000, 4000]) {
            assert_eq!(of(flow), (packets, packets * 1000, flow.lost > 0, flow.lost > 0), "{repair}");
        }
        // The run ends with the last frame.
        assert!(report.end_ns < 870_000, "{repair}: {}", report.end_ns);
    }
}

/// As many may be lost where messages have no room for a number of 64 bits.
#[test]
fn any_number_of_short_frames_may_be_lost_in_lite_mode() {
    for payload in [1, 2, 7, 8] {
        let failure = "[[failure]]\na = \"h0\"\nb = \"h1\"\nat = \"5us\"\nrepair = \"25us\"\n";
        let host = format!("[host]\nprotocol = \"rclink\"\npayload = {payload}\nrclink.retransmit = false\n");
        let report = messages(&(failure.to_owned() + &host), [4500 * payload; 2]);
        let lost = report.frames_lost * payload;
        assert!(report.frames_lost > 2048, "{payload}: {}", report.frames_lost);
        let of: Vec<_> = report.flows.iter().map(|f| (f.lost, f.delivered, f.useless)).collect();
        assert_eq!(of, [(lost, 4500 * payload - lost, Some(0)), (0, 4500 * payload, Some(0))], "{payload}");
        assert!(report.end_ns < 100_000, "{payload}: {}", report.end_ns);
    }
}

/// Marks are of the message of the frame that bears them, also where it waits to be read.
#[test]
fn marks_are_of_their_own_messages() {
    let of = |host: &str| {
        let dir = folder(&[("o.jsonl", &sends([5000; 20]))]);
        let text = format!(
            "name = \"m\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n[link]\nrate = \"100G\"\n[host]\n\
             protocol = \"rclink\"\npayload = 1000\n{host}\n[switch.config.buffer]\nsize = \"4MiB\"\n\
             [[switch.config.wred]]\nname = \"request\"\nkmin = \"2KB\"\nkmax = \"2KB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
             [[workload]]\nkind = \"operations\"\nfile = \"o.jsonl\"\nhosts = [\"h0\", \"h2\"]\n\
             [[workload]]\nkind = \"flow\"\nfrom = \"h1\"\nto = \"h2\"\nbytes = \"100KB\"\n"
        );
        let report = play_in(dir.path(), &text).unwrap_or_else(|e| panic!("{e}"));
        report.flows[..20].iter().map(|f| f.marked.unwrap()).collect::<Vec<_>>()
    };
    let read_at_once = of("");
    assert!(
        read_at_once.iter().sum::<u64>() > 80 && read_at_once.iter().all(|marked| *marked <= 5),
        "{read_at_once:?}"
    );
    assert_eq!(of("rclink.read_rate = \"20G\""), read_at_once);
}

/// What overtakes is counted as with all other datagrams.
#[test]
fn what_was_overtaken_in_lite_mode_counts_as_lost() {
    let sprayed = |host: &str, kind: &str| {
        play(&format!(
            "name = \"s\"\nstop_time = \"2ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\", \"t\"]\n\
             links = [{{ a = \"a\", b = \"s\" }}, {{ a = \"b\", b = \"t\" }}, {{ a = \"s\", b = \"t\", delay = \"1us\" }}, \
             {{ a = \"s\", b = \"t\", delay = \"3us\" }}]\n[routing]\nmode = \"spray\"\n[host]\npayload = 1000\n{host}\n[[workload]]\n\
             kind = \"flow\"\nfrom = \"a\"\nto = \"b\"\nbytes = \"100KB\"\n{kind}\n"
        ))
    };
    let of = |report: &Report| {
        let flow = &report.flows[0];
        (flow.delivered, flow.lost, flow.useless, report.frames_lost + report.frames_dropped)
    };
    let rclink = "protocol = \"rclink\"\nrclink.retransmit = false";
    let roce = sprayed("", "reliable = false");
    let [pair, raw] = ["", "type = \"type3\""].map(|kind| sprayed(rclink, kind));
    let (delivered, lost, useless, gone) = of(&roce);
    assert!(
        delivered > 0 && delivered + lost == 100_000 && useless == Some(lost / 1000) && gone == 0,
        "{:?}",
        of(&roce)
    );
    assert_eq!([of(&pair), of(&raw)], [of(&roce); 2]);
    // It ends with the last of them, as long after its first as frames of so many bytes take.
    assert!(pair.end_ns.abs_diff(roce.end_ns) < 500, "{} {}", pair.end_ns, roce.end_ns);
}

/// Messages of a queue pair have their own packets, whenever the next one was queued.
#[test]
fn what_is_sent_again_is_of_the_message_that_was_lost() {
    let of = |host: &str| {
        let report = messages(
            &format!("loss = 0.005\n[host]\npayload = 1000\ntimeout = \"50us\"\n{host}"),
            [1_000_000, 1000],
        );
        let straggler = report.collectives[0].figures.straggler.clone().unwrap();
        let flows: Vec<_> = report.flows.iter().map(|f| (f.packets - f.resent, f.resent > 0)).collect();
        (flows, straggler.cause)
    };
    let expected = (vec![(1000, true), (1, false)], "retransmission");
    assert_eq!(of("protocol = \"rclink\"\n"), expected);
    assert_eq!(of(""), expected);
}

/// Hosts send again until somebody answers, as those of RoCEv2 do.
#[test]
fn rc_link_hosts_outlive_a_link_that_is_down_for_long() {
    for protocol in ["rclink", "rocev2"] {
        let host = format!("[host]\nprotocol = {protocol:?}\npayload = 1000\ntimeout = \"10us\"\n");
        let report = messages(&format!("{CUT} \"6ms\"\n{host}"), [1_000_000]);
        let flow = &report.flows[0];
        assert!(flow.delivered == 1_000_000 && flow.timeouts > 256, "{protocol}: {flow:?}");
        assert!(report.end_ns < 6_200_000 && report.verdict == "PASS", "{protocol}: {:?}", report.findings);
    }
}

/// `ideal_ns` is of the path that frames take, whichever of unequal ones that is.
#[test]
fn what_a_flow_takes_alone_is_of_its_own_path() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 1..=8 {
        for (format, kind) in [
            ("standard", ""),
            ("afh_gen1", ""),
            ("afh_gen2_16b", ""),
            ("afh_lite", ""),
            ("standard", "type = \"type3\""),
        ] {
            let report = play(&format!(
                "name = \"i\"\nstop_time = \"5ms\"\nseed = {seed}\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\"]\n\
                 switches = [\"s\", \"t\"]\nlinks = [{{ a = \"a\", b = \"s\" }}, {{ a = \"b\", b = \"t\" }}, {{ a = \"s\", b = \"t\" }}, \
                 {{ a = \"s\", b = \"t\", rate = \"25G\", delay = \"3us\" }}]\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n[host]\n\
                 protocol = \"rclink\"\n[host.rclink]\nformat = {format:?}\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"b\"\n\
                 bytes = \"300KB\"\n{kind}\n"
            ));
            let flow = &report.flows[0];
            assert_eq!(flow.fct_ns, flow.ideal_ns, "{seed} {format} {kind}");
            seen.insert((format, kind, flow.fct_ns));
        }
    }
    // Both paths of each.
    assert!(seen.len() >= 9, "{seen:?}");
}

/// What is missing for good is told at whatever instant the run is stopped: hosts that ask about credits which never come back are
/// not data on its way.
#[test]
fn what_is_lost_does_not_hang_on_the_instant() {
    let lost = |stop: u64, format: &str| {
        let report = play(&format!(
            "name = \"l\"\nstop_time = \"{stop}ns\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\", \"t\"]\n\
             links = [{{ a = \"a\", b = \"s\" }}, {{ a = \"b\", b = \"t\" }}, {{ a = \"s\", b = \"t\" }}]\n[[failure]]\na = \"s\"\n\
             b = \"t\"\nat = \"10us\"\n[host]\nprotocol = \"rclink\"\npayload = 1000\n[host.rclink]\nflow_control = \"cbfc\"\n\
             format = {format:?}\n{}\n[[workload]]\nkind = \"flow\"\nfrom = \"a\"\nto = \"b\"\nbytes = \"300KB\"\n",
            if format == "afh_lite" { "" } else { "retransmit = false" }
        ));
        let told =
            report.findings.iter().any(|finding| finding.contains("bytes lost that nobody sends again"));
        (report.bytes_lost, 300_000 - report.flows[0].delivered, told)
    };
    for format in ["standard", "afh_gen1", "afh_lite"] {
        let all: Vec<_> =
            (990..1000).flat_map(|us| [us * 1000, us * 1000 + 500]).map(|stop| lost(stop, format)).collect();
        let (bytes, missing, told) = all[0];
        assert!(bytes > 200_000 && bytes == missing && told, "{format}: {:?}", all[0]);
        assert!(all.iter().all(|one| *one == all[0]), "{format}: {all:?}");
    }
}
