//! Table E: scheduling.

use crate::harness::{Bench, Flow, G, Lab, Plan, Storm};
use weir_dataplane::egress::{Discipline, QueueSchedule};
use weir_dataplane::mmu::{Limit, MmuParams};
use weir_dataplane::switch::SwitchParams;
use weir_dataplane::types::{PRIORITIES, PortId};

const MS: u64 = 1_000_000;

fn queue(discipline: Discipline) -> QueueSchedule {
    QueueSchedule { discipline, ..QueueSchedule::STRICT }
}

/// Two ports at 10G, a buffer without limits, these queues.
fn params(queues: &[QueueSchedule; PRIORITIES]) -> SwitchParams {
    let mut params = Plan { rate: 10 * G, lossless: 0, ..Plan::new(2) }.params();
    params.mmu = MmuParams::lossy(2, 1 << 32);
    params.mmu.queues.iter_mut().for_each(|q| q.limit = Limit::UNLIMITED);
    params.ports.iter_mut().for_each(|p| p.queues = *queues);
    params
}

/// A switch whose port 1 has `frames` frames in every queue of `mask`, of `sizes[queue]` bytes.
fn backlog(
    queues: &[QueueSchedule; PRIORITIES],
    mask: u8,
    sizes: [usize; PRIORITIES],
    frames: usize,
) -> Bench {
    let mut b = Bench::new(params(queues));
    b.s.hold_back(PortId(1), 0xff);
    for (q, size) in sizes.into_iter().enumerate().filter(|(q, _)| mask >> q & 1 == 1) {
        (0..frames).for_each(|_| assert_eq!(b.send(0, 1, q as u8, size), None));
    }
    b.s.hold_back(PortId(1), 0);
    b
}

/// Sends `n` frames: wire bytes and frames by queue.
fn serve(b: &mut Bench, n: usize) -> ([u64; 8], [u64; 8]) {
    let before = (b.stats(1).queue_bytes, b.stats(1).queue_packets);
    assert_eq!(b.pull(1, n).len(), n);
    let frames: [u64; 8] = std::array::from_fn(|q| b.stats(1).queue_packets[q] - before.1[q]);
    let bytes = std::array::from_fn(|q| b.stats(1).queue_bytes[q] - before.0[q] + 24 * frames[q]);
    (bytes, frames)
}

/// Shares as weights, to 1 % or to one unit where that is more.
fn assert_shares(got: [u64; 8], weights: [u64; 8], unit: [u64; 8]) {
    let (total, sum): (u64, u64) = (got.iter().sum(), weights.iter().sum());
    for q in 0..8 {
        let want = total * weights[q] / sum;
        assert!(got[q].abs_diff(want) <= unit[q].max(want / 100), "queue {q}: {} for {want}", got[q]);
    }
}

/// Serves queues that never run empty, `rounds` times 32 frames: wire bytes and frames by queue.
fn serve_backlogged(b: &mut Bench, sizes: [usize; 8], rounds: usize) -> ([u64; 8], [u64; 8]) {
    let (mut bytes, mut frames) = ([0; 8], [0; 8]);
    for _ in 0..rounds {
        for (q, size) in sizes.into_iter().enumerate() {
            while b.s.queue_frames(PortId(1), q) < 40 {
                assert_eq!(b.send(0, 1, q as u8, size), None);
            }
        }
        let (more_bytes, more_frames) = serve(b, 32);
        (0..8).for_each(|q| (bytes[q], frames[q]) = (bytes[q] + more_bytes[q], frames[q] + more_frames[q]));
    }
    (bytes, frames)
}

#[test]
fn e1_dwrr_shares_bytes() {
    // Long enough that 1 % of the smallest share is more than the largest frame.
    let equal = [1500; 8];
    let small_to_large = [64, 100, 300, 700, 1024, 1500, 4096, 9216];
    for (weights, sizes, rounds) in [
        ([1, 5, 10, 14, 15, 25, 50, 100], small_to_large, 400),
        ([100, 50, 25, 15, 14, 10, 5, 1], [1500, 1024, 700, 300, 100, 64, 4096, 9216], 12_000),
        ([1, 1, 1, 1, 100, 100, 100, 100], equal, 1400),
        ([7; 8], [9216, 64, 9216, 64, 9216, 64, 9216, 64], 1000),
    ] {
        let mut b = Bench::new(params(&weights.map(|w| queue(Discipline::Dwrr(w as u8)))));
        let (bytes, frames) = serve_backlogged(&mut b, sizes, rounds);
        assert!(frames.iter().sum::<u64>() >= 10_000);
        assert_shares(bytes, weights, [0; 8]);
    }
}

#[test]
fn e2_new_weights_within_one_round() {
    let mut b = backlog(&[queue(Discipline::Dwrr(15)); 8], 0xff, [1000; 8], 800);
    serve(&mut b, 803);
    let weights = [8, 8, 8, 30, 30, 8, 4, 4];
    b.s.set_queues(PortId(1), &weights.map(|w| queue(Discipline::Dwrr(w as u8))));
    let (bytes, _) = serve(&mut b, 100);
    assert_shares(bytes, weights, [1024; 8]);
    let (bytes, _) = serve(&mut b, 1900);
    assert_shares(bytes, weights, [1024; 8]);
    b.pull_all(1);
    assert_eq!((b.lost(), b.s.held()), (0, 0));
}

#[test]
fn e3_wrr_shares_frames() {
    let weights = [1, 2, 3, 4, 5, 6, 7, 8];
    let sizes = [9216, 64, 1500, 300, 4096, 100, 1024, 700];
    let mut b = Bench::new(params(&weights.map(|w| queue(Discipline::Wrr(w as u8)))));
    let (_, frames) = serve_backlogged(&mut b, sizes, 1125);
    assert_eq!(frames.iter().sum::<u64>(), 36_000);
    assert_shares(frames, weights, [0; 8]);
    // The same weights by bytes.
    let mut b = Bench::new(params(&weights.map(|w| queue(Discipline::Dwrr(w as u8)))));
    let (bytes, _) = serve_backlogged(&mut b, sizes, 5000);
    assert_shares(bytes, weights, [0; 8]);
}

#[test]
fn e4_strict_takes_its_part_and_weights_share_the_rest() {
    let mut queues = [queue(Discipline::Dwrr(10)); 8];
    (queues[0], queues[1], queues[6]) =
        (queue(Discipline::Dwrr(30)), queue(Discipline::Dwrr(70)), QueueSchedule::STRICT);
    let mut lab = Lab::star(&params3(&queues), 500);
    for percent in [20u64, 60] {
        let strict = lab.flow(0, Flow::new(2, 6, 500).rate(10 * G * percent / 100));
        let a = lab.flow(1, Flow::new(2, 0, 1500).rate(5 * G));
        let b = lab.flow(1, Flow::new(2, 1, 1500).rate(5 * G));
        lab.run_for(5 * MS);
        let at = |lab: &Lab| [strict, a, b].map(|f| lab.rx(f)).map(|rx| (rx.bytes + 24 * rx.frames) * 8);
        let before = at(&lab);
        lab.run_for(40 * MS);
        let after = at(&lab);
        let got: Vec<_> = (0..3).map(|i| (after[i] - before[i]) as f64 / (40.0 * 1e4)).collect();
        let rest = 1000.0 - percent as f64 * 10.0;
        let want = [percent as f64 * 10.0, rest.min(1000.0) * 0.3, rest * 0.7];
        let want = if want[2] > 500.0 { [want[0], rest - 500.0, 500.0] } else { want };
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).abs() <= want / 100.0 + 0.1, "{percent} %: {got} for {want}");
        }
        lab.testers.iter_mut().flat_map(|t| &mut t.flows).for_each(|f| f.stop = 0);
        lab.run_for(2000 * MS);
        assert_eq!(lab.switches[0].held(), 0);
    }
    lab.assert_lossless();
}

fn params3(queues: &[QueueSchedule; PRIORITIES]) -> SwitchParams {
    let mut params = Plan { rate: 10 * G, lossless: 0, ..Plan::new(3) }.params();
    params.mmu = MmuParams::lossy(3, 1 << 32);
    params.mmu.queues.iter_mut().for_each(|q| q.limit = Limit::UNLIMITED);
    params.ports.iter_mut().for_each(|p| p.queues = *queues);
    params
}

#[test]
fn e5_the_higher_strict_queue_starves_the_lower() {
    let mut b = backlog(&[QueueSchedule::STRICT; 8], 0b0010_0100, [100; 8], 500);
    assert_eq!(serve(&mut b, 500).1, [0, 0, 0, 0, 0, 500, 0, 0]);
    assert_eq!(serve(&mut b, 500).1, [0, 0, 500, 0, 0, 0, 0, 0]);
}

#[test]
fn e6_no_share_is_lost_and_none_is_hoarded() {
    // Queues 0 and 1 alike; queue 1 is paused for a while.
    let mut queues = [queue(Discipline::Dwrr(10)); 8];
    queues[2] = queue(Discipline::Dwrr(80));
    let mut p = params3(&queues);
    p.ports.iter_mut().for_each(|port| (port.react.enabled, port.generate.enabled) = (0b10, 0));
    let mut lab = Lab::star(&p, 500);
    let storm =
        Storm { mask: 0b10, quanta: 0xffff, start: 10 * MS, stop: 20 * MS, period: MS, xon_after: None };
    lab.storm(2, storm);
    let a = lab.flow(0, Flow::new(2, 0, 1500).rate(9 * G));
    let b = lab.flow(1, Flow::new(2, 1, 1500).rate(9 * G));
    let share = |lab: &mut Lab, from: u64, to: u64| {
        lab.run_until(from);
        let before = [a, b].map(|f| lab.rx(f).frames);
        lab.run_until(to);
        [a, b].map(|f| lab.rx(f).frames).iter().zip(before).map(|(x, y)| x - y).collect::<Vec<_>>()
    };
    let line = 8 * MS * 10 / (1524 * 8);
    let near = |got: u64, want: u64| assert!(got.abs_diff(want) * 100 <= want.max(100), "{got} for {want}");
    let both = share(&mut lab, 2 * MS, 10 * MS);
    both.iter().for_each(|n| near(*n, line / 2));
    let alone = share(&mut lab, 12 * MS, 20 * MS);
    assert_eq!(alone[1], 0);
    near(alone[0], line);
    // The pause runs out 3.4 ms after the last frame; then half each at once, no credit from the time of rest.
    let resumed = 19 * MS + 1 + 67 + 500 + 65_535 * 512 / 10;
    // The first hundred frames tell of credit for a hundredth of a frame time of rest and more.
    let frame = 1524 * 8 / 10 + 1;
    let first = share(&mut lab, resumed + 2000, resumed + 2000 + 100 * frame);
    assert!(first.iter().all(|n| (49..=51).contains(n)), "{first:?}");
    let after = share(&mut lab, resumed + MS, resumed + 9 * MS);
    after.iter().for_each(|n| near(*n, line / 2));
}

#[test]
fn e7_shaper() {
    for offered in [1, 2, 3, 5, 9] {
        // A buffer like any other: what does not fit is lost.
        let mut p = Plan { rate: 10 * G, lossless: 0, ..Plan::new(2) }.params();
        p.ports[1].queues[0].pir = Some(3 * G);
        let mut lab = Lab::star(&p, 500);
        let flow = lab.flow(0, Flow::new(1, 0, 1000).rate(offered * G));
        lab.run_until(2 * MS);
        let before = lab.rx(flow).frames;
        lab.run_for(20 * MS);
        let got = lab.rx(flow).frames - before;
        let want = 20 * MS * offered.min(3) / (1024 * 8);
        assert!(got.abs_diff(want) * 100 <= want, "{offered}: {got} for {want}");
        assert_eq!(lab.lost() > 0, offered > 3, "{offered}: {} lost", lab.lost());
    }
    // A port rate below that of its link.
    let mut p = params(&[QueueSchedule::STRICT; 8]);
    p.ports[1].rate = Some(4 * G);
    let mut lab = Lab::star(&p, 500);
    let flow = lab.flow(0, Flow::new(1, 0, 64));
    lab.run_until(20 * MS);
    let want = 20 * MS * 4 / (88 * 8);
    assert!(lab.rx(flow).frames.abs_diff(want) * 100 <= want);
    // And no burst: from any frame to the one ten frames later ten frame times pass, to the nanosecond.
    lab.testers[1].records = Some(Vec::new());
    lab.run_for(MS);
    let times: Vec<_> = lab.testers[1].records.as_ref().unwrap().iter().map(|(at, ..)| *at).collect();
    assert!(times.len() > 5000 && times.windows(11).all(|w| (w[10] - w[0]).abs_diff(1760) <= 1));
}

#[test]
fn e7_rest_earns_no_burst() {
    // A port and a queue at 4 Gb/s of 10: after a rest of a millisecond frames leave no faster than before it.
    let mut at_port = params(&[QueueSchedule::STRICT; 8]);
    at_port.ports[1].rate = Some(4 * G);
    let mut at_queue = params(&[QueueSchedule::STRICT; 8]);
    at_queue.ports[1].queues[0].pir = Some(4 * G);
    for p in [at_port, at_queue] {
        let mut lab = Lab::star(&p, 500);
        lab.testers[1].records = Some(Vec::new());
        for n in 0..3 {
            lab.flow(0, Flow::new(1, 0, 1000).count(50).between(MS + n * MS, u64::MAX));
        }
        lab.run_until(6 * MS);
        let times: Vec<_> = lab.testers[1].records.as_ref().unwrap().iter().map(|(at, ..)| *at).collect();
        assert_eq!(times.len(), 150);
        // 1024 bytes at 4 Gb/s.
        for train in times.chunks(50) {
            assert!(train.windows(2).all(|w| (w[1] - w[0]).abs_diff(2048) <= 1), "{train:?}");
        }
    }
}

#[test]
fn e7_cir_is_served_before_all() {
    let mut queues = [QueueSchedule::STRICT; 8];
    queues[0].cir = Some(2 * G);
    let mut lab = Lab::star(&params3(&queues), 500);
    let low = lab.flow(0, Flow::new(2, 0, 1000));
    let high = lab.flow(1, Flow::new(2, 7, 1000));
    lab.run_until(20 * MS);
    let line = 20 * MS * 10 / (1024 * 8);
    assert!(lab.rx(low).frames.abs_diff(line / 5) * 100 <= line / 5);
    assert!((lab.rx(low).frames + lab.rx(high).frames) * 100 >= line * 99);
}

#[test]
fn e8_no_reordering_inside_port_queue_and_flow() {
    for queues in
        [[QueueSchedule::STRICT; 8], [queue(Discipline::Dwrr(7)); 8], [queue(Discipline::Wrr(3)); 8]]
    {
        let mut lab = Lab::star(&params3(&queues), 500);
        for from in 0..2 {
            for priority in 0..8 {
                lab.flow(from, Flow::new(2, priority, 0).lens(&[64, 1500, 9000, 200]));
            }
        }
        lab.storm(
            2,
            Storm { mask: 0xff, quanta: 500, start: 0, stop: 9 * MS, period: MS / 7, xon_after: None },
        );
        lab.run_until(10 * MS);
        assert!(lab.testers[2].received() > 1000);
        lab.assert_lossless();
    }
}
