//! Table D: PFC reaction.

use crate::harness::frames::{host, tagged};
use crate::harness::{Bench, Block, Flow, G, Lab, Plan, Storm, oracle};
use weir_dataplane::mmu::Admission;
use weir_dataplane::pfc::frame::{PauseFrame, PfcFrame};
use weir_dataplane::pfc::react::RxMode;
use weir_dataplane::pfc::watchdog::{Action, WatchdogConfig};
use weir_dataplane::switch::SwitchParams;
use weir_dataplane::types::PortId;

const MS: u64 = 1_000_000;
const RATE: u64 = 10 * G;

fn params(ports: usize) -> SwitchParams {
    Plan { rate: RATE, ..Plan::new(ports) }.params()
}

/// From the peer's decision to pause at 1 ms to the last frame that may still arrive there: the pause frame and the
/// cable, the frame being sent, the cable.
const RESPONSE: u64 = MS + 68 + 500 + 1220 + 500;

/// Eight flows from port 0, an eighth of the line each, to port 1, which storms `mask` from 1 ms on. Frames that
/// arrived by priority in the 4 ms from the last moment a compliant switch may still send.
fn stormed(params: &SwitchParams, mask: u8) -> ([u64; 8], Lab) {
    let mut lab = Lab::star(params, 500);
    lab.storm(1, Storm { mask, quanta: 0xffff, start: MS, stop: 20 * MS, period: MS, xon_after: None });
    let flows: Vec<_> = (0..8).map(|p| lab.flow(0, Flow::new(1, p, 1500).rate(RATE / 8))).collect();
    lab.run_until(RESPONSE);
    let before: Vec<_> = flows.iter().map(|f| lab.rx(*f).frames).collect();
    assert!(before.iter().all(|n| *n > 80), "all were under way: {before:?}");
    lab.run_until(RESPONSE + 4 * MS);
    let got = std::array::from_fn(|p| lab.rx(flows[p]).frames - before[p]);
    (got, lab)
}

fn assert_stopped(got: [u64; 8], mask: u8) {
    let full = 4 * MS * 10 / 8 / (1524 * 8);
    for (p, frames) in got.into_iter().enumerate() {
        match mask >> p & 1 {
            1 => assert_eq!(frames, 0, "priority {p}"),
            _ => assert!(frames.abs_diff(full) <= 1, "priority {p}: {frames} of {full}"),
        }
    }
}

#[test]
fn d1_d2_a_pause_stops_its_priorities_and_no_other() {
    for mask in [1 << 3, 1 << 4, 0b0001_1000] {
        let (got, lab) = stormed(&params(2), mask);
        assert_stopped(got, mask);
        lab.assert_lossless();
    }
}

#[test]
fn d3_lossy_priorities_obey_in_asymmetric_mode_only() {
    let (got, _) = stormed(&params(2), 0b1110_0111);
    assert_stopped(got, 0);
    let mut all = params(2);
    all.ports[1].react.mode = RxMode::All;
    let (got, _) = stormed(&all, 0b1110_0111);
    assert_stopped(got, 0b1110_0111);
    let mut none = params(2);
    none.ports[1].react.mode = RxMode::None;
    let (got, _) = stormed(&none, 0xff);
    assert_stopped(got, 0);
}

/// Ten frames of priority 3 wait at port 1.
fn waiting() -> Bench {
    let mut b = Bench::new(params(2));
    b.s.hold_back(PortId(1), 0xff);
    (0..10).for_each(|_| assert_eq!(b.send(0, 1, 3, 100), None));
    b.s.hold_back(PortId(1), 0);
    b
}

#[test]
fn d4_a_vector_of_zero_says_nothing() {
    let mut b = waiting();
    let mut bytes = PfcFrame::uniform(0xff, 0xffff).encode(host(1)).to_vec();
    bytes[17] = 0;
    b.put(1, bytes);
    assert_eq!(b.pull_all(1).len(), 10);
    let counters = b.s.reaction(PortId(1)).counters();
    assert_eq!((counters.pfc_frames, counters.xoff, counters.xon), (1, [0; 8], [0; 8]));
}

#[test]
fn d5_time_zero_resumes_at_once() {
    let mut b = waiting();
    b.control(1, &PfcFrame::uniform(1 << 3, 0xffff));
    b.now = 10;
    assert!(b.pull_all(1).is_empty());
    b.control(1, &PfcFrame::uniform(1 << 4, 0));
    assert!(b.pull_all(1).is_empty());
    b.control(1, &PfcFrame::uniform(1 << 3, 0));
    assert_eq!(b.pull_all(1).len(), 10);
}

#[test]
fn d6_a_pause_ends_with_its_time() {
    for quanta in [1u64, 7, 1000, 0xffff] {
        let mut b = waiting();
        b.now = 5;
        b.control(1, &PfcFrame::uniform(1 << 3, quanta as u16));
        // A quantum at 10G is 51.2 ns: not a moment earlier, and in the first whole nanosecond after.
        let end = 5 + (quanta * 512).div_ceil(10);
        assert_eq!(b.s.next_event(PortId(1), 6), Some(end));
        b.now = end - 1;
        assert!(b.pull_all(1).is_empty());
        b.now = end;
        assert_eq!(b.pull_all(1).len(), 10);
    }
}

#[test]
fn d7_the_last_frame_wins() {
    let mut b = waiting();
    b.control(1, &PfcFrame::uniform(1 << 3, 0xffff));
    b.now = 1000;
    b.control(1, &PfcFrame::uniform(1 << 3, 10));
    b.now = 1511;
    assert!(b.pull_all(1).is_empty());
    b.control(1, &PfcFrame::uniform(1 << 3, 100));
    b.now = 1511 + 5120 - 1;
    assert!(b.pull_all(1).is_empty());
    b.now += 1;
    assert_eq!(b.pull_all(1).len(), 10);
}

#[test]
fn d8_global_pause_stops_nothing_unless_enabled() {
    let mut b = waiting();
    b.put(1, PauseFrame { quanta: 0xffff }.encode(host(1)).to_vec());
    assert_eq!(b.pull_all(1).len(), 10);
    let counters = b.s.reaction(PortId(1)).counters();
    assert_eq!((counters.pause_frames, counters.pfc_frames, counters.xoff), (1, 0, [0; 8]));
    let mut link = params(2);
    link.ports[1].react.mode = RxMode::Link;
    let mut b = Bench::new(link);
    b.put(1, PauseFrame { quanta: 100 }.encode(host(1)).to_vec());
    (0..8).for_each(|p| assert_eq!(b.send(0, 1, p, 100), None));
    assert!(b.pull_all(1).is_empty());
    b.now = 5120;
    assert_eq!(b.pull_all(1).len(), 8);
}

#[test]
fn d9_counters_per_priority() {
    for quanta in [0xffff, 0] {
        for priority in 0..8 {
            let mut b = Bench::new(params(2));
            (0..10).for_each(|_| b.control(1, &PfcFrame::uniform(1 << priority, quanta)));
            let mut want = [0; 8];
            want[priority] = 10;
            let counters = b.s.reaction(PortId(1)).counters();
            let (xoff, xon) = if quanta > 0 { (want, [0; 8]) } else { ([0; 8], want) };
            assert_eq!((counters.pfc_frames, counters.xoff, counters.xon), (10, xoff, xon));
            assert_eq!(b.s.reaction(PortId(0)).counters().pfc_frames, 0);
        }
    }
}

#[test]
fn d10_pfc_is_not_data() {
    let mut b = Bench::new(params(3));
    let stations = b.s.fdb().len();
    for priority in 0..8 {
        let frame = PfcFrame::uniform(1 << priority, 0xffff).encode(host(99));
        (0..5000).for_each(|_| b.put(1, frame.to_vec()));
    }
    let stats = b.stats(1);
    assert_eq!((stats.rx_control, stats.rx_packets, stats.drops.total()), (40_000, 0, 0));
    assert_eq!((stats.rx_priority_packets, stats.pg_packets), ([0; 8], [0; 8]));
    assert_eq!((b.s.held(), b.s.admission().held_bytes(), b.s.fdb().len()), (0, 0, stations));
    assert!((0..3).all(|port| b.pull_all(port).is_empty()));
}

#[test]
fn d11_odd_control_frames() {
    let good = PfcFrame::uniform(1 << 3, 0xffff).encode(host(1)).to_vec();
    let change = |f: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        f(&mut bytes);
        bytes
    };
    let mut b = waiting();
    b.put(1, change(&|f| f[6..12].fill(0)));
    assert!(b.pull_all(1).is_empty(), "an all-zero source is honoured");
    let mut b = waiting();
    b.put(1, [&good[..], &[0xde, 0xad, 0xbe, 0xef]].concat());
    assert!(b.pull_all(1).is_empty(), "with and without FCS");
    let odd: [(&str, Vec<u8>); 6] = [
        ("unicast to our address", change(&|f| f[..6].copy_from_slice(&[2, 0, 0, 0, 0xff, 1]))),
        ("tagged", tagged(&good, 0x8100, 7)),
        ("opcode", change(&|f| f[15] = 2)),
        ("vector", change(&|f| f[16] = 1)),
        ("short", good[..59].to_vec()),
        ("opcode of nobody", change(&|f| f[14..16].copy_from_slice(&[0x99, 0x99]))),
    ];
    for (what, frame) in odd {
        let mut b = waiting();
        b.put(1, frame);
        assert_eq!(b.pull_all(1).len(), 10, "{what}: obeyed");
        let counters = b.s.reaction(PortId(1)).counters();
        assert_eq!((counters.pfc_frames, counters.invalid.iter().sum::<u64>()), (0, 1), "{what}");
        assert!(b.pull_all(0).is_empty(), "{what}: forwarded");
        assert_eq!((b.stats(1).rx_packets, b.stats(1).rx_control), (0, 1), "{what}");
    }
}

#[test]
fn d12_response_is_the_frame_on_the_wire_at_most() {
    // In virtual time the switch itself adds nothing: after the pause frame has arrived, the frame being sent ends.
    let mut worst = 0;
    for offset in 0..1300 {
        let mut lab = Lab::star(&params(2), 500);
        lab.testers[1].records = Some(Vec::new());
        lab.flow(0, Flow::new(1, 3, 1500));
        lab.run_until(20_000 + offset);
        lab.send_control(1, &PfcFrame::uniform(1 << 3, 0xffff));
        let arrives = lab.now + oracle::wire_ns(60, RATE) + 500;
        lab.run_for(100_000);
        let last = lab.testers[1].records.as_ref().unwrap().last().unwrap().0 - 500;
        worst = worst.max(last.saturating_sub(arrives));
        assert!(last <= arrives + oracle::wire_ns(1500, RATE));
    }
    assert!(worst + 2 >= oracle::wire_ns(1500, RATE), "the bound is met: {worst}");
}

#[test]
fn d13_the_rate_follows_the_duty_cycle() {
    let watchdog = WatchdogConfig {
        queues: 1 << 3,
        poll: MS,
        detection: 2 * MS,
        restoration: 2 * MS,
        action: Action::Drop,
        recurrence: None,
        big_red_switch: false,
    };
    for duty in (10..=90).step_by(10) {
        let params = SwitchParams { watchdog: Some(watchdog), ..params(2) };
        let mut lab = Lab::star(&params, 500);
        let period = MS;
        let storm = Storm {
            mask: 1 << 3,
            quanta: 0xffff,
            start: 0,
            stop: u64::MAX,
            period,
            xon_after: Some(period * duty / 100),
        };
        lab.storm(1, storm);
        let flow = lab.flow(0, Flow::new(1, 3, 1500));
        lab.run_until(2 * MS);
        let before = lab.rx(flow).frames;
        lab.run_for(50 * MS);
        let got = lab.rx(flow).frames - before;
        let want = 50 * MS * 10 / (1524 * 8) * (100 - duty) / 100;
        assert!(got.abs_diff(want) * 100 <= 2 * want, "{duty} %: {got} for {want}");
        assert_eq!(
            lab.switches[0].watchdog(PortId(1)).unwrap().counters(3).detected,
            0,
            "{duty} %: no storm"
        );
        lab.assert_lossless();
    }
}

#[test]
fn d14_a_storm_reaches_the_ingress_and_nothing_is_lost() {
    for how in [Block::Storm, Block::Hold] {
        let plan = Plan { rate: RATE, headroom: 10_000, ..Plan::new(4) };
        let mut lab = Lab::star(&plan.params(), 500);
        match how {
            Block::Hold => lab.switches[0].hold_back(PortId(3), 0xff),
            Block::Storm => {
                let storm = Storm {
                    mask: 1 << 3,
                    quanta: 0xffff,
                    start: 0,
                    stop: 20 * MS,
                    period: MS,
                    xon_after: None,
                };
                lab.storm(3, storm);
            }
        }
        let flows: Vec<_> =
            (0..3).map(|from| lab.flow(from, Flow::new(3, 3, 1500).between(5000, u64::MAX))).collect();
        lab.run_until(20 * MS);
        let total = plan.mmu().total;
        let held = lab.switches[0].admission().held_bytes();
        assert!(held < total && held > total / 10, "{held} of {total}");
        assert!((0..3).all(|p| lab.switches[0].generator(PortId(p)).paused_mask() == 1 << 3));
        assert_eq!(flows.iter().map(|f| lab.rx(*f).frames).sum::<u64>(), 0);
        lab.switches[0].hold_back(PortId(3), 0);
        lab.run_for(50 * MS);
        assert!(flows.iter().all(|f| lab.rx(*f).frames > 1000));
        lab.assert_lossless();
    }
}

#[test]
fn d15_pauses_we_send_are_timed_from_frame_to_frame() {
    let mut b = Bench::new(Plan { rate: RATE, xon_offset: 0, ..Plan::new(2) }.params());
    let mut paused = 0;
    for n in 1..=5u64 {
        b.block(1, Block::Hold);
        b.now = n * MS;
        b.fill_to_xoff(0, 1, 3, 1500);
        b.now += 1000 * n;
        b.unblock(1);
        b.pull_all(1);
        b.now += 7;
        let generator = b.s.generator(PortId(0));
        assert_eq!(generator.paused_ns(3, b.now), paused + 1000 * n + 7);
        assert_eq!(b.pfc(0), Some(PfcFrame::uniform(1 << 3, 0)));
        paused += 1000 * n + 7;
        let generator = b.s.generator(PortId(0));
        assert_eq!((generator.paused_ns(3, b.now + 99), generator.transitions(3)), (paused, n));
        assert_eq!(generator.last_pause(3), 1000 * n + 7);
    }
    assert_eq!(b.s.generator(PortId(0)).paused_ns(4, 10 * MS), 0);
}

#[test]
fn d15_pause_time_is_exact() {
    let mut b = Bench::new(params(2));
    let mut paused = 0;
    for n in 1..=20u64 {
        b.now = n * 100_000;
        b.control(1, &PfcFrame::uniform(1 << 3, 1000));
        // Every third is cut short, every fifth prolonged; all others last 1000 quanta.
        if n % 3 == 0 {
            b.now += 20_000;
            b.control(1, &PfcFrame::uniform(1 << 3, 0));
            paused += 20_000;
        } else if n % 5 == 0 {
            b.now += 30_000;
            b.control(1, &PfcFrame::uniform(1 << 3, 1000));
            paused += 30_000 + 51_200;
        } else {
            paused += 51_200;
        }
    }
    let reaction = b.s.reaction(PortId(1));
    assert_eq!((reaction.paused_ns(3, 10 * MS), reaction.transitions(3)), (paused, 20));
    assert_eq!((reaction.paused_ns(4, 10 * MS), reaction.transitions(4)), (0, 0));
}
