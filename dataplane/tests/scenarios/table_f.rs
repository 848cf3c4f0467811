//! Table F: ECN.

use crate::harness::frames::{host, ipv4, ipv4_with_options, ipv6, tagged};
use crate::harness::{Bench, Flow, G, Lab, Plan, dscp, oracle, seed};
use weir_dataplane::drops::DropReason;
use weir_dataplane::ecn::{MarkAt, ONE_Q32, Wred};
use weir_dataplane::mmu::{Limit, MmuParams};
use weir_dataplane::switch::SwitchParams;
use weir_dataplane::types::PortId;

const STEP: Wred = Wred { kmin: 20_000, kmax: 20_000, pmax: ONE_Q32, at: MarkAt::Dequeue };
const RAMP: Wred = Wred { kmin: 10_000, kmax: 110_000, pmax: ONE_Q32 / 2, ..STEP };

/// Two ports, no limits, queue 3 of port 1 marks by `wred`.
fn params(wred: Wred) -> SwitchParams {
    let mut params = Plan::new(2).params();
    params.mmu = MmuParams::lossy(2, 1 << 30);
    params.mmu.queues.iter_mut().for_each(|q| q.limit = Limit::UNLIMITED);
    params.ports[1].mark[3] = Some(wred);
    params
}

fn frame(ecn: u8, len: usize) -> Vec<u8> {
    ipv4(host(0), host(1), dscp(3), ecn, len)
}

fn ecn_of(frame: &[u8]) -> u8 {
    frame[15] & 3
}

/// `n` frames of 1000 bytes pass a queue that was blocked until the last had arrived: their code points.
fn burst(wred: Wred, ecn: u8, n: usize) -> (Vec<u8>, Bench) {
    let mut b = Bench::new(params(wred));
    b.s.hold_back(PortId(1), 0xff);
    (0..n).for_each(|_| b.put(0, frame(ecn, 1000)));
    b.s.hold_back(PortId(1), 0);
    let sent = b.pull_all(1).iter().map(|f| ecn_of(f)).collect();
    (sent, b)
}

#[test]
fn f1_below_kmin_nothing_is_marked() {
    let (sent, b) = burst(RAMP, 2, 11);
    assert_eq!(sent, [2; 11], "at most 10 000 bytes are left behind, which is Kmin and not above it");
    assert_eq!((b.stats(1).ecn_marked, b.stats(1).ecn_selected), ([0; 8], [0; 8]));
}

#[test]
fn f2_above_kmax_everything_is_marked() {
    for ecn in [1, 2] {
        let (sent, _) = burst(RAMP, ecn, 300);
        // The n-th frame leaves 299 - n behind.
        assert!(sent[..=188].iter().all(|e| *e == 3));
        assert!(sent[289..].iter().all(|e| *e == ecn));
    }
}

#[test]
fn f3_the_ramp() {
    let mut p = params(RAMP);
    p.seed = seed(3);
    let mut b = Bench::new(p);
    for point in 1..=10u64 {
        let depth = 10_000 * point + 5000;
        b.s.hold_back(PortId(1), 0xff);
        while b.s.queue_bytes(PortId(1), 3) < depth {
            b.put(0, frame(2, 1000));
        }
        b.s.hold_back(PortId(1), 0);
        let n = 10_000;
        let marked = (0..n)
            .filter(|_| {
                b.put(0, frame(2, 1000));
                ecn_of(&b.pull(1, 1)[0]) == 3
            })
            .count() as f64;
        let p = 0.5 * (depth - 10_000) as f64 / 100_000.0;
        let sigma = (n as f64 * p * (1.0 - p)).sqrt();
        assert!((marked - n as f64 * p).abs() <= 3.0 * sigma, "depth {depth}: {marked} for {}", n as f64 * p);
    }
}

#[test]
fn f4_a_step_marks_by_what_is_left_behind() {
    let (sent, _) = burst(STEP, 2, 50);
    let want: Vec<_> = (0..50).map(|n| if (49 - n) * 1000 > 20_000 { 3 } else { 2 }).collect();
    assert_eq!(sent, want);
    assert_eq!((sent[0], sent[49]), (3, 2));
}

#[test]
fn f5_the_other_mode_marks_by_what_is_found() {
    let (sent, _) = burst(Wred { at: MarkAt::Enqueue, ..STEP }, 2, 50);
    let want: Vec<_> = (0..50).map(|n| if n * 1000 > 20_000 { 3 } else { 2 }).collect();
    assert_eq!(sent, want);
}

#[test]
fn f6_f10_code_points_and_counters() {
    for (ecn, out, changed) in [(0, 0, 0), (1, 3, 79), (2, 3, 79), (3, 3, 0)] {
        let (sent, b) = burst(STEP, ecn, 100);
        assert!(sent[..79].iter().all(|e| *e == out) && sent[79..].iter().all(|e| *e == ecn));
        let stats = b.stats(1);
        assert_eq!((stats.ecn_marked[3], stats.ecn_marked_bytes[3]), (changed, changed * 1000));
        assert_eq!(stats.ecn_selected[3], 79);
        assert_eq!(stats.ecn_seen_ce[3], if ecn == 3 { 100 } else { 0 });
        assert_eq!(stats.ecn_marked.iter().sum::<u64>(), changed);
    }
}

#[test]
fn f7_not_ect_is_dropped_on_lossy_queues_only() {
    let (sent, b) = burst(STEP, 0, 100);
    assert_eq!((sent.len(), b.lost()), (100, 0));
    let mut p = params(STEP);
    p.ports[1].early_drop[3] = Some(STEP);
    let mut b = Bench::new(p);
    b.s.hold_back(PortId(1), 0xff);
    (0..100).for_each(|_| b.put(0, frame(0, 1000)));
    // The 22nd frame finds 21 000 bytes and is the first to be dropped.
    assert_eq!((b.drops(DropReason::EgressWred), b.stats(1).queue_drops[3]), (79, 79));
    (0..100).for_each(|_| b.put(0, frame(2, 1000)));
    assert_eq!(b.lost(), 79, "what can be marked is not dropped");
}

#[test]
fn f7_not_ect_on_a_lossless_queue_waits_unmarked() {
    // A lossless group and queue, above Kmax nearly from the start: frames that cannot be marked stay, until PFC stops
    // them, and then to the last byte of headroom.
    let mut p = Plan::new(2).params();
    p.ports[1].mark[3] = Some(STEP);
    let mut b = Bench::new(p);
    b.s.hold_back(PortId(1), 0xff);
    let n = 501 + 99;
    (0..n).for_each(|_| b.put(0, frame(0, 1000)));
    assert_eq!((b.lost(), b.pfc(0).is_some()), (0, true));
    b.s.hold_back(PortId(1), 0);
    let sent = b.pull_all(1);
    assert!(sent.len() == n && sent.iter().all(|f| *f == frame(0, 1000)));
    assert_eq!((b.stats(1).ecn_marked[3], b.stats(1).ecn_selected[3]), (0, n as u64 - 21));
}

#[test]
fn f8_checksum_with_every_identification_and_with_options() {
    let mut b = Bench::new(params(Wred { kmin: 0, kmax: 0, ..STEP }));
    let mut zero = 0;
    for options in [0, 1, 10] {
        for id in (0..=0xffffu16).step_by(if options == 0 { 1 } else { 37 }) {
            let mut f = ipv4_with_options(host(0), host(1), dscp(3), 1 + (id % 2) as u8, 120, options);
            let header = 14..34 + 4 * options;
            f[18..20].copy_from_slice(&id.to_be_bytes());
            f[24..26].fill(0);
            let sum = oracle::internet_checksum(&f[header.clone()]);
            f[24..26].copy_from_slice(&sum.to_be_bytes());
            // A frame behind it, so that the queue is above Kmin when it leaves.
            b.put(0, f.clone());
            b.put(0, frame(0, 100));
            let got = b.pull_all(1).swap_remove(0);
            assert_eq!((ecn_of(&got), oracle::internet_checksum(&got[header])), (3, 0), "id {id}");
            assert!((0..f.len()).all(|i| got[i] == f[i] || matches!(i, 15 | 24 | 25)));
            zero += u32::from(got[24..26] == [0, 0]);
            assert_ne!(got[24..26], [0xff, 0xff], "the other zero, which no header that is not all zero has");
        }
    }
    assert!(zero > 0, "the corner case was met");
}

#[test]
fn f9_ipv6_and_tags_change_in_the_traffic_class_alone() {
    let plain = frame(2, 200);
    let six = ipv6(host(0), host(1), dscp(3), 1, 200);
    let frames: [(Vec<u8>, usize, u8, bool); 6] = [
        (plain.clone(), 15, 1, true),
        (tagged(&plain, 0x8100, 3), 19, 1, true),
        (tagged(&tagged(&plain, 0x8100, 1), 0x88a8, 3), 23, 1, true),
        (six.clone(), 15, 0x20, false),
        (tagged(&six, 0x8100, 3), 19, 0x20, false),
        (tagged(&tagged(&six, 0x8100, 1), 0x88a8, 3), 23, 0x20, false),
    ];
    for (f, at, bit, v4) in frames {
        // A second frame stays behind, so that the first leaves a queue above Kmin.
        let mut b = Bench::new(params(Wred { kmin: 0, kmax: 0, ..STEP }));
        b.s.hold_back(PortId(1), 0xff);
        b.put(0, f.clone());
        b.put(0, frame(2, 100));
        b.s.hold_back(PortId(1), 0);
        let got = b.pull(1, 1).pop().unwrap();
        let changed: Vec<_> = (0..f.len()).filter(|i| got[*i] != f[*i]).collect();
        assert_eq!(got[at] ^ f[at], bit);
        let in_header = |i: &usize| *i == at || v4 && (*i == at + 9 || *i == at + 10);
        assert!(changed.iter().all(in_header), "{changed:?}");
    }
}

#[test]
fn f11_marks_come_before_pauses() {
    // Kmax well below Xoff; senders halve their rate for each 50 us with a mark and recover slowly.
    let mut params = Plan { rate: 10 * G, headroom: 60_000, shared: 2_000_000, ..Plan::new(9) }.params();
    params.ports[8].mark[3] = Some(Wred { kmin: 20_000, kmax: 100_000, pmax: ONE_Q32 / 5, ..STEP });
    let mut lab = Lab::star(&params, 500);
    let flows: Vec<_> = (0..8).map(|from| lab.flow(from, Flow::new(8, 3, 1500).rate(9 * G))).collect();
    let (mut first_mark, mut rates, mut seen) = (None, [9 * G; 8], [0; 8]);
    for _ in 0..400 {
        lab.run_for(50_000);
        for (i, flow) in flows.iter().enumerate() {
            let ce = lab.rx(*flow).ce;
            if ce > seen[i] {
                first_mark.get_or_insert(lab.now);
                rates[i] = (rates[i] / 2).max(G / 10);
            } else {
                rates[i] = (rates[i] + G / 20).min(9 * G);
            }
            seen[i] = ce;
            let now = lab.now;
            lab.testers[i].flows[0].set_rate(rates[i], now);
        }
        lab.touch();
    }
    let xoffs = |t: &crate::harness::Tester| t.pfc_log.iter().map(|(at, _)| *at).min();
    let first_xoff = lab.testers.iter().filter_map(xoffs).min().unwrap_or(u64::MAX);
    assert!(first_mark.unwrap() < first_xoff);
    lab.assert_lossless();
    // And without reaction the same load is paused: the marks are what kept it away.
    if first_xoff == u64::MAX {
        let mut params = Plan { rate: 10 * G, headroom: 60_000, shared: 2_000_000, ..Plan::new(9) }.params();
        params.ports[8].mark[3] = None;
        let mut lab = Lab::star(&params, 500);
        for from in 0..8 {
            lab.flow(from, Flow::new(8, 3, 1500).rate(9 * G));
        }
        lab.run_until(2_000_000);
        assert!(lab.xoffs() > 0);
    }
}

#[test]
fn f12_only_the_queue_over_its_share_is_marked() {
    let mut params = Plan { rate: 10 * G, ..Plan::new(3) }.params();
    params.mmu = MmuParams::lossy(3, 1 << 30);
    params.mmu.queues.iter_mut().for_each(|q| q.limit = Limit::UNLIMITED);
    let share = weir_dataplane::egress::Discipline::Dwrr(10);
    for q in [3, 4] {
        params.ports[2].mark[q] = Some(Wred { kmin: 20_000, kmax: 60_000, ..STEP });
        params.ports[2].queues[q].discipline = share;
    }
    let mut lab = Lab::star(&params, 500);
    let over = lab.flow(0, Flow::new(2, 3, 1500).rate(7 * G));
    let under = lab.flow(1, Flow::new(2, 4, 1500).rate(4 * G));
    lab.run_until(20_000_000);
    let (over, under) = (lab.rx(over), lab.rx(under));
    assert_eq!(under.ce, 0);
    assert!(over.ce * 100 >= over.frames * 95, "{over:?}");
}

#[test]
fn f12_equal_queues_are_marked_alike() {
    // Both over their share, on the ramp: marked shares differ by five points at most.
    let mut params = Plan { rate: 10 * G, ..Plan::new(3) }.params();
    params.mmu = MmuParams::lossy(3, 130_000);
    let share = weir_dataplane::egress::Discipline::Dwrr(10);
    for q in [3, 4] {
        params.ports[2].mark[q] = Some(Wred { kmin: 20_000, kmax: 60_000, pmax: ONE_Q32 / 2, ..STEP });
        params.ports[2].queues[q].discipline = share;
    }
    params.seed = seed(12);
    let mut lab = Lab::star(&params, 500);
    let flows =
        [lab.flow(0, Flow::new(2, 3, 1500).rate(6 * G)), lab.flow(1, Flow::new(2, 4, 1500).rate(6 * G))];
    lab.run_until(50_000_000);
    let percent = flows.map(|f| lab.rx(f)).map(|rx| rx.ce as f64 * 100.0 / rx.frames as f64);
    assert!(percent.iter().all(|p| (10.0..60.0).contains(p)), "{percent:?}");
    assert!((percent[0] - percent[1]).abs() <= 5.0, "{percent:?}");
}
