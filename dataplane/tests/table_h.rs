//! Table H: PFC watchdog, on whole switches.

mod harness;

use harness::frames::host;
use harness::{End, Flow, G, Lab, Plan, Storm, Tester};
use weir_dataplane::drops::DropReason;
use weir_dataplane::mmu::Limit;
use weir_dataplane::pfc::watchdog::{Action, Recurrence, StormCounters, WatchdogConfig};
use weir_dataplane::switch::{Switch, SwitchParams};
use weir_dataplane::types::PortId;

const MS: u64 = 1_000_000;
const POLL: u64 = MS;
const DETECT: u64 = 4 * MS;
const RESTORE: u64 = 6 * MS;
/// From the tester's decision to the pause at the switch: 84 bytes at 1G and the cable.
const ON_WIRE: u64 = 672 + 500;

fn config(action: Action) -> WatchdogConfig {
    WatchdogConfig {
        queues: 0b0001_1000,
        poll: POLL,
        detection: DETECT,
        restoration: RESTORE,
        action,
        recurrence: None,
        big_red_switch: false,
    }
}

fn plan(ports: usize) -> Plan {
    Plan { rate: G, ..Plan::new(ports) }
}

fn lab(ports: usize, config: WatchdogConfig) -> Lab {
    let params = SwitchParams { watchdog: Some(config), ..plan(ports).params() };
    Lab::star(&params, 500)
}

/// Pauses of a millisecond, every half of one: the last is over long before the restoration time.
fn storm(mask: u8, start: u64, stop: u64) -> Storm {
    Storm { mask, quanta: 2000, start, stop, period: MS / 2, xon_after: None }
}

fn counters(lab: &Lab, port: u16, queue: usize) -> StormCounters {
    *lab.switches[0].watchdog(PortId(port)).unwrap().counters(queue)
}

/// Runs from poll to poll until `until` holds; when that was.
fn poll_until(lab: &mut Lab, until: impl Fn(&Lab) -> bool) -> u64 {
    loop {
        let next = (lab.now / POLL + 1) * POLL;
        assert!(next < 1000 * MS, "never");
        lab.run_until(next);
        if until(lab) {
            return next;
        }
    }
}

#[test]
fn h1_h2_detection_and_restoration_in_their_windows_every_run() {
    for run in 0..40u64 {
        let mut lab = lab(2, config(Action::Drop));
        let start = 2 * MS + run * 51_234;
        let stop = start + 12 * MS + run * 37_001;
        lab.flow(0, Flow::new(1, 3, 1500).rate(G / 2));
        lab.storm(1, storm(1 << 3, start, stop));
        let frame_gap = 2 * 1524 * 8 + 100;
        let paused = start + ON_WIRE;
        let detected = poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
        assert!(detected >= paused + DETECT && detected < paused + frame_gap + DETECT + POLL, "{detected}");
        let restored = poll_until(&mut lab, |l| counters(l, 1, 3).restored == 1);
        let last = start + (stop - 1 - start) / (MS / 2) * (MS / 2) + ON_WIRE;
        assert!(restored >= last + RESTORE && restored < last + RESTORE + POLL, "{restored} after {last}");
    }
}

#[test]
fn h3_h10_drop_hits_the_stormed_queue_alone_and_every_frame_is_counted() {
    let mut lab = lab(4, config(Action::Drop));
    let victim = lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    let same_group = lab.flow(0, Flow::new(2, 3, 1000).rate(G / 5));
    let same_port = lab.flow(0, Flow::new(1, 4, 1000).rate(G / 5));
    let other_port = lab.flow(2, Flow::new(3, 3, 1000).rate(G / 5));
    let back = lab.flow(1, Flow::new(3, 3, 1000).rate(G / 5));
    lab.storm(1, storm(1 << 3, 2 * MS, 30 * MS));
    let detected = poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
    assert_eq!(lab.switches[0].queue_frames(PortId(1), 3), 0, "flushed");
    let told = lab.testers[0].pfc_log.len();
    let back_before = lab.switches[0].stats(PortId(1)).pg_packets[3];
    let restored = poll_until(&mut lab, |l| counters(l, 1, 3).restored == 1);
    let back_during = lab.switches[0].stats(PortId(1)).pg_packets[3] - back_before;
    let dropped = lab.drops(DropReason::WatchdogDrop);
    lab.run_for(50 * MS);
    let late: Vec<_> = lab.testers[0].pfc_log[told..].iter().filter(|(_, f)| f.time[3] > 0).collect();
    assert!(late.is_empty(), "no pause upstream from detection on: {late:?}");
    assert_eq!((counters(&lab, 1, 3).detected, counters(&lab, 1, 3).restored), (1, 1));
    // Everything else is whole.
    for flow in [same_group, same_port, other_port, back] {
        let (rx, sent) = (lab.rx(flow), lab.sent(flow));
        assert_eq!((rx.gaps, rx.reordered), (0, 0));
        assert!(rx.frames + 3 >= sent, "{rx:?} of {sent}");
    }
    // What was lost is what the counters say: frames of the victim, from the first in the storm to the restoration.
    let (rx, sent) = (lab.rx(victim), lab.sent(victim));
    assert!(rx.frames + lab.lost() <= sent && rx.frames + lab.lost() + 3 >= sent);
    assert_eq!(lab.lost(), dropped);
    assert_eq!(rx.gaps, 1, "one hole, and traffic flows again");
    let storm = counters(&lab, 1, 3);
    assert_eq!((storm.total.tx_drop, storm.last.tx_drop, storm.total.tx_ok), (dropped, dropped, 0));
    assert_eq!((storm.total.rx_ok, storm.total.rx_drop), (back_during, 0));
    let in_storm = (restored - detected) / 40_960;
    assert!(back_during.abs_diff(in_storm) <= 1, "{back_during} {in_storm}");
}

#[test]
fn h4_h10_forward_ignores_the_pause() {
    let mut lab = lab(2, config(Action::Forward));
    let flow = lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    lab.storm(1, storm(1 << 3, 2 * MS, 30 * MS));
    poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
    let before = lab.switches[0].stats(PortId(1)).queue_packets[3];
    poll_until(&mut lab, |l| counters(l, 1, 3).restored == 1);
    let during = lab.switches[0].stats(PortId(1)).queue_packets[3] - before;
    assert!(during > 500);
    let total = counters(&lab, 1, 3).total;
    assert!(total.tx_ok.abs_diff(during) <= 1 && total.tx_drop == 0, "{total:?} {during}");
    lab.run_for(5 * MS);
    assert!(lab.rx(flow).frames + 3 >= lab.sent(flow));
    lab.assert_lossless();
}

#[test]
fn h5_alert_changes_nothing() {
    let mut lab = lab(2, config(Action::Alert));
    let flow = lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    lab.storm(1, storm(1 << 3, 2 * MS, 30 * MS));
    poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
    let before = lab.rx(flow).frames;
    lab.run_until(30 * MS);
    assert_eq!(lab.rx(flow).frames, before, "the queue stays paused");
    lab.run_for(70 * MS);
    assert_eq!((counters(&lab, 1, 3).detected, counters(&lab, 1, 3).restored), (1, 1));
    lab.run_for(300 * MS);
    assert!(lab.rx(flow).frames + 3 >= lab.sent(flow));
    lab.assert_lossless();
}

#[test]
fn h6_h7_h8_h9_what_is_no_storm() {
    let period = POLL + DETECT + RESTORE;
    let short = |start, stop| Storm {
        quanta: 0xffff,
        xon_after: Some(DETECT / 2),
        period: 100 * MS,
        ..storm(1 << 3, start, stop)
    };
    let cases: [(&str, bool, Storm); 4] = [
        ("h6 idle", false, storm(1 << 3, MS, 60 * MS)),
        ("h7 short", true, short(MS, 2 * MS)),
        ("h8 bursty", true, Storm { xon_after: Some(POLL / 2), period, ..storm(1 << 3, MS, 200 * MS) }),
        ("h9 slow drain", true, Storm { xon_after: Some(900_000), period: MS, ..storm(1 << 3, MS, 60 * MS) }),
    ];
    for (name, traffic, storm) in cases {
        let mut lab = lab(2, config(Action::Drop));
        if traffic {
            lab.flow(0, Flow::new(1, 3, 1500));
        }
        lab.storm(1, storm);
        lab.run_until(220 * MS);
        assert_eq!((counters(&lab, 1, 3).detected, lab.lost()), (0, 0), "{name}");
        assert!(lab.switches[0].reaction(PortId(1)).transitions(3) > 0, "{name}: there was a pause");
    }
}

#[test]
fn h11_a_new_action_takes_effect_at_once() {
    let mut lab = lab(2, config(Action::Forward));
    let flow = lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    lab.storm(1, storm(1 << 3, 2 * MS, 100 * MS));
    poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
    let arrived = |lab: &mut Lab| {
        lab.run_for(MS / 10);
        let before = lab.rx(flow).frames;
        lab.run_for(5 * MS);
        lab.rx(flow).frames - before
    };
    for (action, flows) in [(Action::Forward, true), (Action::Drop, false), (Action::Forward, true)] {
        let now = lab.now;
        lab.switches[0].set_watchdog(config(action), now);
        lab.touch();
        let lost = lab.lost();
        assert_eq!(arrived(&mut lab) > 100, flows, "{action:?}");
        assert_eq!(lab.lost() > lost, !flows, "{action:?}");
    }
    assert_eq!(counters(&lab, 1, 3).detected, 1, "one storm all along");
}

#[test]
fn h12_storms_everywhere() {
    let mut lab = lab(8, config(Action::Drop));
    for port in 0..8 {
        for priority in [3, 4] {
            lab.flow(port, Flow::new((port as u16 + 1) % 8, priority, 1500).rate(G / 4));
        }
        lab.storm(port, storm(0b0001_1000, 2 * MS + port as u64 * 10_000, 20 * MS));
    }
    lab.run_until(2 * MS + 100_000 + DETECT + POLL);
    let all = |lab: &Lab, f: fn(&StormCounters) -> u64| -> Vec<u64> {
        (0..8).flat_map(|p| [3, 4].map(|q| f(&counters(lab, p, q)))).collect()
    };
    assert_eq!(all(&lab, |c| c.detected), [1; 16]);
    lab.run_until(20 * MS + 2 * ON_WIRE + RESTORE + POLL);
    assert_eq!(all(&lab, |c| c.restored), [1; 16]);
    let lost = lab.lost();
    lab.run_for(20 * MS);
    assert_eq!(lab.lost(), lost, "and all is well again");
}

#[test]
fn h14_a_port_toggle_leaves_a_clean_state() {
    for during_storm in [true, false] {
        let mut lab = lab(2, config(Action::Drop));
        let flow = lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
        lab.storm(1, storm(1 << 3, 2 * MS, 12 * MS));
        poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
        lab.run_until(if during_storm { 11 * MS } else { 40 * MS });
        lab.set_link(0, 1, false);
        lab.run_for(MS);
        assert_eq!(lab.switches[0].watchdog(PortId(1)).unwrap().stormed_queues(), 0);
        lab.run_until(50 * MS);
        lab.set_link(0, 1, true);
        let (lost, before) = (lab.lost(), lab.rx(flow).frames);
        lab.run_for(20 * MS);
        assert_eq!((lab.lost(), counters(&lab, 1, 3).detected), (lost, 1));
        assert!(lab.rx(flow).frames > before + 400);
        assert_eq!(counters(&lab, 1, 3).restored, 1);
    }
}

#[test]
fn h15_big_red_switch() {
    let mut lab = lab(3, config(Action::Forward));
    let flows: Vec<_> = [3, 4, 0].iter().map(|p| lab.flow(0, Flow::new(1, *p, 1000).rate(G / 5))).collect();
    lab.run_until(5 * MS);
    assert_eq!(lab.lost(), 0);
    let now = lab.now;
    lab.switches[0].set_watchdog(WatchdogConfig { big_red_switch: true, ..config(Action::Forward) }, now);
    lab.touch();
    lab.run_for(MS / 10);
    let before: Vec<_> = flows.iter().map(|f| lab.rx(*f).frames).collect();
    lab.run_for(50 * MS);
    let got: Vec<_> = flows.iter().zip(&before).map(|(f, b)| lab.rx(*f).frames - b).collect();
    assert_eq!(got[..2], [0, 0]);
    assert!(got[2] > 1000, "a lossy queue is not configured and goes on");
    assert_eq!(lab.lost(), lab.drops(DropReason::WatchdogDrop));
    let now = lab.now;
    lab.switches[0].set_watchdog(config(Action::Forward), now);
    lab.touch();
    let lost = lab.lost();
    lab.run_for(5 * MS);
    assert_eq!(lab.lost(), lost);
    assert!(flows.iter().zip(&before).all(|(f, b)| lab.rx(*f).frames > b + 100));
}

#[test]
fn h17_too_many_storms_hold_the_queue_until_an_operator_acts() {
    let recurrence = Some(Recurrence { storms: 3, window: 200 * MS });
    let mut lab = lab(2, WatchdogConfig { recurrence, ..config(Action::Drop) });
    lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    for n in 0..3 {
        lab.storm(1, storm(1 << 3, 2 * MS + n * 45 * MS, 12 * MS + n * 45 * MS));
    }
    lab.run_until(300 * MS);
    let watchdog = lab.switches[0].watchdog(PortId(1)).unwrap();
    assert_eq!(
        (watchdog.held_queues(), counters(&lab, 1, 3).detected, counters(&lab, 1, 3).restored),
        (1 << 3, 3, 2)
    );
    let lost = lab.lost();
    lab.run_for(10 * MS);
    assert!(lab.lost() > lost);
    lab.switches[0].release_storm(PortId(1), 3);
    lab.run_for(2 * POLL);
    let lost = lab.lost();
    lab.run_for(10 * MS);
    assert_eq!((lab.lost(), counters(&lab, 1, 3).restored), (lost, 3));
}

/// Four switches in a ring: port 0 a host, port 1 to the next, port 2 from the one before. Every host sends to the
/// host three switches on, so that each ring link carries three flows and waits for the next one.
fn ring(watchdog: impl Fn(usize) -> Option<WatchdogConfig>) -> Lab {
    let n = 4;
    let rate = G / 10;
    let mut lab = Lab::new(harness::audit_mmu);
    for s in 0..n {
        let plan =
            Plan { rate, limit: Limit::fixed(30_000), headroom: 15_000, xon_offset: 28_000, ..Plan::new(3) };
        let mut params = SwitchParams { watchdog: watchdog(s), ..plan.params() };
        params.stations = (0..n as u16)
            .map(|h| {
                (params.ports[0].profile.key(host(h).to_u64(), 0), PortId(u16::from(usize::from(h) != s)))
            })
            .collect();
        lab.add_switch(Switch::new(params).unwrap());
        lab.add_tester(Tester::new(host(s as u16)));
    }
    for s in 0..n {
        lab.connect(End::Switch(s, 0), End::Tester(s), rate, 500);
        lab.connect(End::Switch(s, 1), End::Switch((s + 1) % n, 2), rate, 500);
    }
    for s in 0..n {
        lab.flow(s, Flow::new(((s + 3) % n) as u16, 3, 1500));
    }
    lab
}

fn delivered(lab: &Lab) -> u64 {
    lab.testers.iter().map(Tester::received).sum()
}

#[test]
fn h16_a_cyclic_dependency_without_watchdog_stays_dead() {
    let mut lab = ring(|_| None);
    lab.run_until(1000 * MS);
    let before = delivered(&lab);
    lab.run_until(300_000 * MS);
    assert_eq!((delivered(&lab), lab.lost()), (before, 0), "not one frame in five minutes");
    assert!(lab.switches.iter().all(|s| s.held() > 10));
}

/// Longest silence of all receivers together in five seconds, and frames that arrived.
fn longest_silence(mut lab: Lab) -> (u64, u64) {
    let (mut last, mut silent_since, mut longest) = (0, 0, 0);
    while lab.now < 5000 * MS {
        lab.run_for(MS);
        let now = delivered(&lab);
        if now > last {
            (last, silent_since) = (now, lab.now);
        }
        longest = longest.max(lab.now - silent_since);
    }
    (longest, last)
}

#[test]
fn h16_the_watchdog_breaks_the_cycle_within_detection_and_poll() {
    let (detection, poll) = (200 * MS, 100 * MS);
    // The first frame after the break has three ring links and their queues before it.
    let travel = 10 * MS;
    for action in [Action::Forward, Action::Drop] {
        // As real switches do, they do not poll in step: the first to detect breaks the cycle for all. (Were all to
        // drop at the same instant, nothing could pass before the restoration.)
        let config = |s: usize| WatchdogConfig {
            poll: poll - 13 * MS * s as u64,
            detection,
            restoration: 200 * MS,
            ..config(action)
        };
        let (longest, frames) = longest_silence(ring(|s| Some(config(s))));
        assert!(longest >= detection / 2, "{action:?}: there was a deadlock: {longest}");
        assert!(longest <= detection + poll + travel, "{action:?}: throughput returned after {longest}");
        assert!(frames > 1000);
    }
}
