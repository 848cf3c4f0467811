//! Conformance: tables R3, R5, R6, R7 of the reference, and what a lossless fabric must do.

use super::time::{LineRate, Transmitter};
use super::*;
use std::ops::ControlFlow;
use weir_dataplane::mmu::{Admission, AdmitVerdict, Limit, Mmu, MmuParams, PgIx, QueueIx};
use weir_dataplane::rng::Rng;
use weir_dataplane::types::PRIORITIES;

fn play(text: &str) -> Report {
    let spec = load("test.toml", text).unwrap_or_else(|e| panic!("{e}"));
    let report = run(&spec).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report.conservation_error, 0);
    assert!(report.hosts.iter().all(|h| h.unexpected == 0), "{:?}", report.hosts);
    report
}

fn refused(text: &str) -> String {
    match load("test.toml", text).and_then(|spec| run(&spec)) {
        Err(e) => e.to_string(),
        Ok(_) => panic!("accepted: {text}"),
    }
}

/// Jain's index: 1 when all are equal.
fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
    sum * sum / (rates.len() as f64 * squares)
}

#[test]
fn r3_a_line_under_poisson_arrivals_is_m_d_1() {
    // 1406 B at 200G: service 56.24 ns; with preamble and gap 57.04.
    for (rho, want) in [(0.5, 28.1), (0.7, 65.6), (0.8, 112.48), (0.9, 253.1)] {
        let mut rng = Rng::new(4);
        let mut line = Transmitter::new(200_000_000_000);
        let mean = 56.24 / rho;
        let (mut now, mut waited) = (0.0, 0.0);
        let frames = if rho > 0.85 { 2_000_000 } else { 500_000 };
        for _ in 0..frames {
            let uniform = (f64::from(rng.next_u32()) + 1.0) / 4_294_967_297.0;
            now -= uniform.ln() * mean * 1000.0;
            let at = now as u64;
            waited += line.free().saturating_sub(at) as f64;
            line.occupy(line.free().max(at), 1406);
        }
        let mean_wait = waited / f64::from(frames) / 1000.0;
        assert!((mean_wait / want - 1.0).abs() < 0.03, "rho {rho}: {mean_wait}, expected {want}");
    }
}

#[test]
fn r5_saturated_queues_share_as_dynamic_thresholds_say() {
    let total = 1_000_000u64;
    for (exponent, alpha) in [(-3, 0.125), (-1, 0.5), (0, 1.0), (1, 2.0), (2, 4.0), (3, 8.0)] {
        for n in [1usize, 2, 4, 7, 8, 16] {
            let mut params = MmuParams::lossy(n, total);
            params.queues.iter_mut().for_each(|q| q.limit = Limit::dynamic(exponent).unwrap());
            let mut mmu = Mmu::new(params).unwrap();
            let frame = 100;
            let mut held = vec![0u64; n];
            let mut moved = true;
            while moved {
                moved = false;
                for (i, held) in held.iter_mut().enumerate() {
                    let at = (i * PRIORITIES) as u32;
                    if mmu.admit(PgIx(at), QueueIx(at), frame) == AdmitVerdict::Admitted {
                        *held += u64::from(frame);
                        moved = true;
                    }
                }
            }
            let share = alpha * total as f64 / (1.0 + alpha * n as f64);
            for held in held {
                let off = (held as f64 - share).abs();
                assert!(off <= f64::from(frame) * (1.0 + alpha), "alpha {alpha}, N {n}: {held}, not {share}");
            }
        }
    }
}

/// Completion time in ps of one packet through one switch.
fn one_packet(forwarding: &str, payload: u64, in_rate: u64, out_rate: u64) -> u64 {
    let text = format!(
        r#"
        name = "one"
        stop_time = "1ms"
        [topology]
        kind = "custom"
        hosts = ["a", "b"]
        switches = ["s"]
        links = [{{ a = "a", b = "s", rate = "{in_rate}G" }}, {{ a = "s", b = "b", rate = "{out_rate}G" }}]
        [link]
        delay = "100ns"
        [switch]
        forwarding = "{forwarding}"
        ingress = "200ns"
        crossbar = "30ns"
        egress = "20ns"
        [host]
        payload = 4096
        [[workload]]
        kind = "flow"
        from = "a"
        to = "b"
        bytes = {payload}
        "#
    );
    let flow = &play(&text).flows[0];
    let (fct, alone) = (flow.fct_ns.unwrap(), flow.ideal_ns.unwrap());
    if in_rate == out_rate {
        assert!(fct.abs_diff(alone) <= 1, "{forwarding} {payload}: {fct}, alone {alone}");
    }
    fct * 1000
}

#[test]
fn r7_cut_through_and_store_and_forward_by_definition() {
    // Two cables and the pipeline: what neither mode can save.
    let fixed = (200 + 250) * 1000;
    for payload in [64u64, 512, 1024, 2048, 4096] {
        let line = LineRate::new(100_000_000_000);
        let frame = line.takes(payload + 58 + 12);
        // First bit in to first bit out: constant. Last bit in to first bit out: constant.
        let cut = one_packet("cut_through", payload, 100, 100) - frame;
        let stored = one_packet("store_and_forward", payload, 100, 100) - 2 * frame;
        assert!(cut.abs_diff(fixed + line.takes(72)) <= 1000, "{payload}: {cut}");
        assert!(stored.abs_diff(fixed) <= 1000, "{payload}: {stored}");
        // A faster egress would run dry; a slower one need not wait.
        let up = |mode| one_packet(mode, payload, 100, 400);
        let down = |mode| one_packet(mode, payload, 400, 100);
        assert_eq!(up("cut_through"), up("store_and_forward"));
        assert!(down("cut_through") < down("store_and_forward"));
    }
}

#[test]
fn dev33_n_switches_have_n_plus_one_links() {
    // A packet alone on a row of switches: every link has its delay, and with store-and-forward its serialization.
    let fct = |switches: usize, forwarding: &str| {
        let last = 2 * switches - 1;
        let text = format!(
            "name = \"row\"\nstop_time = \"1ms\"\n[topology]\nkind = \"chain\"\nswitches = {switches}\nhosts_per_switch = \
             2\n[link]\nrate = \"200G\"\ndelay = \"500ns\"\n[switch]\nforwarding = \"{forwarding}\"\ningress = \
             \"150ns\"\ncrossbar = \"50ns\"\negress = \"100ns\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \
             \"h{last}\"\nbytes = 1000\n"
        );
        let flow = &play(&text).flows[0];
        assert!(flow.fct_ns.unwrap().abs_diff(flow.ideal_ns.unwrap()) <= 1, "{flow:?}");
        flow.ideal_ns.unwrap() as f64
    };
    for n in 1..=5usize {
        let (links, pipelines) = (500.0 * (n + 1) as f64, 300.0 * n as f64);
        // 1000 + 58 bytes, FCS and preamble: 1070 at 25 bytes per ns.
        let stored = links + pipelines + 42.8 * (n + 1) as f64;
        let cut = links + pipelines + 42.8 + 2.88 * n as f64;
        assert!((fct(n, "store_and_forward") - stored).abs() <= 1.0 + n as f64, "{n}");
        assert!((fct(n, "cut_through") - cut).abs() <= 1.0 + n as f64, "{n}");
    }
}

#[test]
fn r7_a_busy_egress_stores_and_forwards() {
    let text = |forwarding: &str| {
        format!(
            "name = \"busy\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n[switch]\nforwarding = \
             \"{forwarding}\"\n[[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = 100000\n"
        )
    };
    let (cut, stored) = (play(&text("cut_through")), play(&text("store_and_forward")));
    let last = |r: &Report| r.fct_ns.unwrap().max;
    // Two flows on one egress: the queue decides, not the mode.
    assert!(last(&stored) - last(&cut) < 200, "{} {}", last(&stored), last(&cut));
    assert!(cut.queue_max() > 50_000);
}

/// DCQCN flows into one 40G port; each starts `gap` after the one before.
fn dcqcn(flows: usize, gap_ms: usize, until_ms: usize, from_ms: usize, more: &str) -> Report {
    play(&format!(
        r#"
        name = "r6"
        stop_time = "{until_ms}ms"
        measure_from = "{from_ms}ms"
        sample = "500us"
        [topology]
        kind = "star"
        hosts = {}
        [link]
        rate = "40G"
        delay = "1us"
        [host]
        payload = 940
        [host.dcqcn]
        {more}
        [[switch.config.wred]]
        name = "roce"
        kmin = "5KB"
        kmax = "200KB"
        pmax = "1%"
        [[workload]]
        kind = "incast"
        to = "h{flows}"
        stagger = "{gap_ms}ms"
        cc = "dcqcn"
        "#,
        flows + 1
    ))
}

#[test]
fn r6_dcqcn_holds_the_queue_at_its_fixed_point_and_is_fair() {
    for (flows, gap, until, from, fixed_point) in [(2, 5, 60, 35, 23_000), (4, 3, 70, 40, 50_200)] {
        let report = dcqcn(flows, gap, until, from, "");
        let port = &report.switches[0].ports[flows];
        let mean = port.queue_mean.unwrap();
        assert!(
            mean.abs_diff(fixed_point) * 10 <= fixed_point * 3,
            "{flows} flows: mean queue {mean}, expected {fixed_point}"
        );
        assert_eq!((report.pauses(), report.frames_dropped), (0, 0));
        // Shares within 10 ms of the last start, over 2 ms.
        let at = |ms: usize| &report.samples[ms * 2 - 1].delivered;
        let last = gap * (flows - 1);
        let rates: Vec<f64> = at(last + 10).iter().zip(at(last + 8)).map(|(b, a)| (b - a) as f64).collect();
        assert!(jain(&rates) > 0.95, "{flows} flows: {rates:?}");
    }
}

#[test]
fn r6_alpha_frozen_where_the_seeds_formula_leaves_it_lets_the_queue_explode() {
    // Its increase adds g, not 1024 g (DEV-47), so that alpha falls to 1/1024 and stays. This is that limit from
    // the start; the formula itself is played in endpoint/src/dcqcn/reaction_point_tests.rs.
    let report = dcqcn(2, 5, 60, 35, "gain = 0\ninitial_alpha = 1");
    let mean = report.switches[0].ports[2].queue_mean.unwrap();
    assert!(mean > 200_000, "mean queue {mean} must exceed Kmax");
}

/// The three schemes of an adapter: greatest queue of four flows, and the rest.
fn under(scheme: &str) -> (u64, Report) {
    let report = dcqcn(4, 1, 20, 8, scheme);
    (report.queue_max(), report)
}

#[test]
fn cc018_to_cc020_schemes_of_the_adapter_behave_as_they_are_described() {
    let (plain_max, _) = under("");
    let (max, hardware) = under("scheme = \"hardware\"\nmessage = \"4KiB\"");
    // Sixteen requests of 4 KiB, eight after a CNP: less than a flow alone would have in flight.
    assert!(max < plain_max, "{max} {plain_max}");
    assert_eq!(hardware.frames_dropped, 0);
    // Firmware that writes the rate is late by its period at most, so the first burst is longer.
    let (max_2, rated) = under("scheme = \"firmware_rate\"\nmessage = \"1MB\"\nfirmware_period = \"20us\"");
    assert!(max_2 > max, "{max_2} {max}");
    // Firmware that only stops and starts, as often: bursts at line rate, which are longer and marked more.
    let (max_3, stopped) = under("scheme = \"firmware\"\nfirmware_period = \"20us\"");
    assert!(max_3 > max_2 && stopped.marks() > 2 * rated.marks(), "{max_2} {max_3} {}", stopped.marks());
    assert_eq!(stopped.frames_dropped, 0, "and PFC is there for what that does");
}

/// Firmware that halves the rate at a CNP instead of running DCQCN, under both of its schemes.
#[test]
fn cc019_cc020_firmware_runs_a_second_algorithm() {
    let second = "firmware_period = \"20us\"\nfirmware_algorithm = \"backoff\"\nadditive = \"400M\"";
    for scheme in ["firmware_rate", "firmware"] {
        let scheme = format!("scheme = \"{scheme}\"\n");
        let (_, dcqcn) = under(&format!("{scheme}firmware_period = \"20us\"\nadditive = \"400M\""));
        let (_, backoff) = under(&format!("{scheme}{second}"));
        assert_eq!(backoff.frames_dropped, 0);
        // After a CNP it forgets where it came from, so that there are fewer marks.
        assert!(backoff.marks() < dcqcn.marks(), "{} {}", backoff.marks(), dcqcn.marks());
        // Flows share the link nevertheless: what it gives away is given away by all.
        let delivered = &backoff.samples[backoff.samples.len() - 1].delivered;
        let shares: Vec<f64> = delivered.iter().map(|bytes| *bytes as f64).collect();
        assert!(jain(&shares) > 0.9, "{shares:?}");
    }
}

/// `[trunk]` says what is different between switches; the rest is as `[link]` has it.
#[test]
fn a_trunk_is_like_a_link_but_for_what_it_says() {
    let text = |trunk: &str| {
        format!(
            "name = \"trunk\"\nstop_time = \"1ms\"\n[topology]\nkind = \"chain\"\nswitches = 2\nhosts_per_switch = 1\n\
             [link]\nrate = \"40G\"\ndelay = \"3us\"\n{trunk}\
             [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"20KB\"\n"
        )
    };
    let fct = |trunk: &str| play(&text(trunk)).flows[0].fct_ns.unwrap();
    let like = fct("");
    assert_eq!(like, fct("[trunk]\nrate = \"40G\"\ndelay = \"3us\"\n"));
    assert_eq!(fct("[trunk]\nrate = \"40G\"\n"), like, "the delay is that of [link]");
    assert_eq!(fct("[trunk]\ndelay = \"5us\"\n"), like + 2_000, "the rate is that of [link]");
}

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
    assert!(report.flows.iter().all(|f| f.delivered + f.lost >= f.bytes.unwrap() - 2 * 1024));
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
        ("", "2 flows without an end: `stop_time`, 100000 ns, ended the run."),
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
fn a_permutation_goes_round_whatever_its_shift() {
    let flows = |shift: u64| {
        let report = play(&format!(
            "name = \"round\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[[workload]]\nkind = \
             \"permutation\"\nshift = {shift}\nbytes = \"10KB\"\n"
        ));
        report.flows.iter().map(|f| (f.from.clone(), f.to.clone())).collect::<Vec<_>>()
    };
    assert_eq!(flows(u64::MAX), flows(3));
}

#[test]
fn same_spec_same_report_and_another_seed_another() {
    let text = |seed: u32| {
        format!(
            "name = \"twice\"\nseed = {seed}\nstop_time = \"3ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = \
             2\nspines = 2\nhosts_per_leaf = 4\n[[workload]]\nkind = \"poisson\"\nsizes = \"fb_hadoop\"\nload = \
             0.4\nduration = \"100us\"\ncc = \"dcqcn\"\n"
        )
    };
    let (a, b, c) = (play(&text(1)), play(&text(1)), play(&text(2)));
    assert_eq!(a.to_json(), b.to_json());
    assert_ne!(a.config_hash, c.config_hash);
    assert_ne!(a.flows, c.flows);
    for (csv, rows) in [(a.flows_csv(), a.flows.len()), (a.ports_csv(), a.ports().count())] {
        let (about, table): (Vec<&str>, Vec<&str>) = csv.lines().partition(|line| line.starts_with('#'));
        assert_eq!(table.len(), rows + 1);
        let columns = |line: &str| line.split(',').count();
        assert!(table.iter().all(|line| columns(line) == columns(table[0])), "{csv}");
        for part in [&a.config_hash, "seed 1", env!("CARGO_PKG_VERSION"), "nanoseconds", "`twice`"] {
            assert!(about.iter().any(|line| line.contains(part)), "{part}: {about:?}");
        }
    }
}

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
    assert!(alone.why.iter().any(|s| s.starts_with("No PFC")), "{:?}", alone.why);
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

#[test]
fn the_shipped_examples_run() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/sim");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "toml"));
    files.sort();
    let (plans, files): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|path| path.to_str().unwrap().ends_with(".plan.toml"));
    assert!(files.len() >= 14 && !plans.is_empty());
    for path in plans {
        let plan = crate::sweep::Plan::read(&path).unwrap_or_else(|e| panic!("{e}"));
        let specs: Vec<_> = plan.points().map(|point| load("point", &point.spec).unwrap()).collect();
        // The axis it is called after moves what it is about.
        let (few, many) = (run(&specs[0]).unwrap(), run(&specs[specs.len() - 1]).unwrap());
        assert!(few.pauses() != many.pauses(), "{}", plan.name);
        // More buffer for a group, bursts that may pass: a longer queue. More iterations of a match,
        // and the last seed: a shorter one.
        assert_eq!(
            few.queue_max() < many.queue_max(),
            ["alpha", "buffer-policies"].contains(&&*plan.name),
            "{}",
            plan.name
        );
    }
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let played = load(path.to_str().unwrap(), &text).and_then(|spec| run(&spec));
        let report = played.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(report.conservation_error, 0);
        assert_eq!(report.name, name);
        // One is about frames that may be lost.
        assert_eq!(report.frames_dropped > 0, name == "buffer-policies", "{name}: {:?}", report.why);
        assert_eq!(report.lossless_drops, 0, "{name}: {:?}", report.why);
        if name == "ring-deadlock" {
            // Pauses wait for each other in a circle: after a while nothing moves at all.
            let total = |i: usize| report.samples[report.samples.len() - i].delivered.iter().sum::<u64>();
            assert!(total(1) > 0 && total(1) == total(2), "{:?}", report.samples);
            assert_eq!(report.deadlock.len(), 4, "{:?}", report.why);
            assert!(
                report
                    .why
                    .iter()
                    .any(|why| why.starts_with("PFC deadlock") && why.contains("s0 -> s1 -> s2 -> s3 -> s0"))
            );
        } else {
            assert_eq!(report.flows_done, report.flows_finite, "{name}: {:?}", report.why);
            assert!(report.deadlock.is_empty(), "{name}: {:?}", report.why);
        }
        if name == "pfc-chain" {
            let paused: Vec<u64> =
                report.switches.iter().map(|s| s.ports.iter().map(|p| p.pfc_tx_xoff).sum()).collect();
            assert!(paused.iter().all(|n| *n > 0), "back-pressure reaches every switch: {paused:?}");
        }
    }
}

/// Flows that all end late: how far they are is told by what they have delivered, whoever plays them.
#[test]
fn progress_is_what_is_delivered_where_flows_end_the_run() {
    let text = "name = \"late\"\nstop_time = \"10s\"\n[topology]\nkind = \"fat_tree\"\nk = 4\n[link]\nrate = \"100G\"\n\
                delay = \"1us\"\n[[workload]]\nkind = \"permutation\"\nshift = 4\nbytes = \"1MB\"\n";
    for (more, threads) in [("", 1), ("", 2), ("profile = \"ns3-hpcc\"\n", 1)] {
        let spec = load("late", &format!("{more}{text}")).unwrap();
        let mut all: Vec<Progress> = Vec::new();
        let report = run_with(&spec, threads, &mut |now| {
            all.push(now);
            ControlFlow::Continue(())
        });
        let (report, shares) = (report.unwrap(), all.iter().map(Progress::share).collect::<Vec<_>>());
        assert_eq!((report.verdict, report.flows_done), ("PASS", 16), "{more}");
        assert!(threads == 1 || report.undivided.is_none(), "{:?}", report.undivided);
        let (first, last) = (all[0], all[all.len() - 1]);
        assert!(first.done == 0 && first.bytes == 16_000_000 && shares.is_sorted(), "{more}{all:?}");
        // Of the events as much as of the bytes, and of the time next to nothing.
        let (part, of_events) = (last.share(), last.events as f64 / report.events as f64);
        assert!(shares[0] > 0.0 && (part / of_events - 1.0).abs() < 0.35, "{more}{part} {of_events}");
    }
    // Flows without an end do not end a run.
    let endless = load("late", &text.replace("10s", "1ms").replace("bytes = \"1MB\"\n", "")).unwrap();
    let mut last = Progress::default();
    let _ = run_with(&endless, 1, &mut |now| {
        last = now;
        ControlFlow::Continue(())
    });
    assert!(last.delivered > 0 && last.share() == last.now_ns as f64 / 1e6, "{last:?}");
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

/// What it takes alone is as unknown as its size and its completion.
#[test]
fn a_flow_without_an_end_takes_no_time_alone() {
    let flow = "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\n";
    let text = format!(
        "name = \"e\"\nstop_time = \"50us\"\n[topology]\nkind = \"star\"\nhosts = 3\n{flow}{flow}bytes = 1000\n"
    );
    for head in ["", "level = \"flow\"\n", "level = \"hybrid\"\n"] {
        let report = play(&format!("{head}{text}"));
        let known: Vec<_> = report.flows.iter().map(|f| (f.bytes.is_some(), f.ideal_ns.is_some())).collect();
        assert_eq!(known, [(false, false), (true, true)], "{head}");
        let lines = report.flows_csv();
        let endless = lines.lines().find(|line| line.starts_with("0,h0,h1")).unwrap();
        assert!(endless.starts_with("0,h0,h1,,0,,,"), "{endless}");
        assert!(report.to_json().contains("\"ideal_ns\": null"));
        assert_eq!(report.slowdown_milli.map(|s| s.count), report.fct_ns.map(|s| s.count));
    }
}

/// The line of units says what bytes of frames are with and without.
#[test]
fn bytes_of_links_are_those_on_the_wire_and_the_units_say_so() {
    let report = play(
        "name = \"u\"\nstop_time = \"1ms\"\n[topology]\nkind = \"direct\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = 100\n\
         reliable = false\n",
    );
    let frame = 100 + 58 + 4 + 20;
    assert_eq!((report.links[0].frames, report.links[0].bytes), (1, frame), "headers, FCS, preamble and gap");
    assert!(
        report.flows_csv().contains("frame bytes are without FCS, bytes of links with it, preamble and gap;")
    );
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
