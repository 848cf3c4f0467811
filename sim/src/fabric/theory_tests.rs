//! Queues, buffers and delays beside what theory says of them.

use super::tests::play;
use super::time::{LineRate, Transmitter};
use super::*;
use weir_dataplane::mmu::{Admission, AdmitVerdict, Limit, Mmu, MmuParams, PgIx, QueueIx};
use weir_dataplane::rng::Rng;
use weir_dataplane::types::PRIORITIES;

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
