//! RC Link hosts that fill a port: what is lost and what is not, and queue pairs that steps share.

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
