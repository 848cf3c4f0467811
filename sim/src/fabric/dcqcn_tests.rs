//! DCQCN: its fixed point, and the schemes of an adapter.

use super::tests::play;
use super::*;

/// Jain's index: 1 when all are equal.
fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
    sum * sum / (rates.len() as f64 * squares)
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
