//! Table H: PFC watchdog, on whole switches.

use crate::harness::frames::host;
use crate::harness::{End, Flow, G, Lab, Plan, Storm, Tester, classifier_of};
use weir_dataplane::classify::Maps;
use weir_dataplane::drops::DropReason;
use weir_dataplane::mmu::Limit;
use weir_dataplane::pfc::watchdog::{
    Action, EventKind, Recurrence, StormCounters, StormFrames, WatchdogConfig,
};
use weir_dataplane::switch::{Switch, SwitchParams};
use weir_dataplane::types::{Nanos, PortId};

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

/// All senders stop and everything leaves: what was sent arrived, or was lost with a reason.
fn settle(lab: &mut Lab) {
    lab.testers.iter_mut().flat_map(|t| &mut t.flows).for_each(|f| f.stop = 0);
    lab.run_for(300 * MS);
    assert_eq!(lab.switches[0].held(), 0);
}

#[test]
fn h1_h2_detection_and_restoration_in_their_windows_every_run() {
    for run in 0..40u64 {
        let mut lab = lab(3, config(Action::Drop));
        let start = 2 * MS + run * 51_234;
        let stop = start + 12 * MS + run * 37_001;
        // Two senders to one port: there is always a backlog, and the pause is the only thing that stalls it.
        for from in [0, 2] {
            lab.flow(from, Flow::new(1, 3, 1500).rate(G * 6 / 10));
        }
        lab.storm(1, storm(1 << 3, start, stop));
        let paused = start + ON_WIRE;
        let detected = poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
        assert!(detected >= paused + DETECT && detected < paused + DETECT + POLL, "{detected}");
        let event = *lab.switches[0].watchdog(PortId(1)).unwrap().last_storm(3).unwrap();
        assert_eq!((event.at, event.stalled_since, event.queue), (detected, paused, 3));
        let restored = poll_until(&mut lab, |l| counters(l, 1, 3).restored == 1);
        let last = start + (stop - 1 - start) / (MS / 2) * (MS / 2) + ON_WIRE;
        assert!(restored >= last + RESTORE && restored < last + RESTORE + POLL, "{restored} after {last}");
    }
}

#[test]
fn h1_h2_where_a_priority_has_another_queue() {
    // Priority 3 waits in queue 1: that is what a pause of 3 stalls, and what frames about 3 keep in its storm.
    let config = WatchdogConfig { queues: 1 << 1, ..config(Action::Forward) };
    let mut params = SwitchParams { watchdog: Some(config), ..plan(2).params() };
    let mut maps = Maps::default();
    maps.tc_to_queue.swap(3, 1);
    for port in &mut params.ports {
        port.classifier = classifier_of(&maps);
        port.react.pfc_to_queue.swap(3, 1);
        (port.pg_queues[3], port.pg_queues[1]) = (1 << 1, 1 << 3);
    }
    for port in 0..2 {
        params.mmu.queues.swap(port * 8 + 3, port * 8 + 1);
    }
    let mut lab = Lab::star(&params, 500);
    let flow = lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    lab.storm(1, storm(1 << 3, 2 * MS, 20 * MS));
    let paused = 2 * MS + ON_WIRE;
    let detected = poll_until(&mut lab, |l| counters(l, 1, 1).detected == 1);
    assert!(detected >= paused + DETECT && detected < paused + 50_000 + DETECT + POLL, "{detected}");
    let before = lab.rx(flow).frames;
    lab.run_until(20 * MS);
    assert!(lab.rx(flow).frames > before + 100, "forward lets the other queue go");
    let restored = poll_until(&mut lab, |l| counters(l, 1, 1).restored == 1);
    let last = 20 * MS - MS / 2 + ON_WIRE;
    assert!(restored >= last + RESTORE && restored < last + RESTORE + POLL, "{restored}");
    lab.assert_lossless();
}

#[test]
fn h3_drop_hits_the_stormed_queue_alone_and_tells_nobody_to_stop() {
    // Little to share: the storm stops the sender of the victim before it is detected.
    let params =
        SwitchParams { watchdog: Some(config(Action::Drop)), ..Plan { shared: 60_000, ..plan(4) }.params() };
    let mut lab = Lab::star(&params, 500);
    let victim = lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    let same_group = lab.flow(0, Flow::new(2, 3, 1000).rate(G / 5));
    let same_port = lab.flow(0, Flow::new(1, 4, 1000).rate(G / 5));
    let other_port = lab.flow(2, Flow::new(3, 3, 1000).rate(G / 5));
    let back = lab.flow(1, Flow::new(3, 3, 1000).rate(G / 5));
    lab.storm(1, storm(1 << 3, 2 * MS, 30 * MS));
    let detected = poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
    assert_eq!(lab.switches[0].queue_frames(PortId(1), 3), 0, "flushed");
    assert_eq!(
        lab.testers[0].pfc_log.iter().filter(|(_, f)| f.time[3] > 0).count(),
        1,
        "upstream was stopped"
    );
    let (before, dropped) = (lab.rx(same_group).frames, lab.lost());
    let restored = poll_until(&mut lab, |l| counters(l, 1, 3).restored == 1);
    // With the flush it was told to go on, and no pause follows; the other destination of the group has its traffic.
    let told: Vec<_> =
        lab.testers[0].pfc_log.iter().map(|(at, f)| (*at >= detected, f.time[3] > 0)).collect();
    assert_eq!(told, [(false, true), (true, false)]);
    assert!(lab.rx(same_group).frames - before + 2 >= (restored - detected) / 40_960);
    assert!(
        lab.lost() - dropped + 2 >= (restored - detected) / 40_960,
        "all of the victim is dropped meanwhile"
    );
    lab.run_for(50 * MS);
    settle(&mut lab);
    // Everything else is whole, and of the victim exactly what is counted is missing.
    for flow in [same_group, same_port, other_port, back] {
        assert_eq!((lab.rx(flow).frames, lab.rx(flow).gaps), (lab.sent(flow), 0));
    }
    let rx = lab.rx(victim);
    assert_eq!((rx.frames + lab.lost(), rx.gaps, rx.reordered), (lab.sent(victim), 1, 0));
    assert_eq!(lab.lost(), lab.drops(DropReason::WatchdogDrop));
    assert_eq!(lab.switches[0].stats(PortId(1)).queue_drops, [0, 0, 0, lab.lost(), 0, 0, 0, 0]);
}

/// Counts of every kind, two storms, by the frames the testers sent: first storm 100 + 7 to the stormed queue (the
/// 100 wait for its beginning) and 11 from the stormed port, second storm 50 + 3 and 5.
fn two_storms(action: Action) -> (Lab, [StormCounters; 2]) {
    let mut lab = lab(3, config(action));
    let mut seen = Vec::new();
    for (nth, (first, more, back)) in [(100, 7, 11), (50, 3, 5)].into_iter().enumerate() {
        let start = 2 * MS + nth as u64 * 40 * MS;
        lab.storm(1, storm(1 << 3, start, start + 12 * MS));
        lab.run_until(start + ON_WIRE);
        lab.flow(0, Flow::new(1, 3, 1000).count(first));
        poll_until(&mut lab, |l| counters(l, 1, 3).detected == nth as u64 + 1);
        lab.flow(0, Flow::new(1, 3, 1000).count(more));
        lab.flow(1, Flow::new(2, 3, 1000).count(back));
        // Another priority counts for nobody.
        lab.flow(0, Flow::new(1, 4, 1000).count(20));
        lab.flow(1, Flow::new(2, 4, 1000).count(20));
        poll_until(&mut lab, |l| counters(l, 1, 3).restored == nth as u64 + 1);
        lab.flow(0, Flow::new(1, 3, 1000).count(9));
        lab.run_for(MS);
        seen.push(counters(&lab, 1, 3));
    }
    assert_eq!(counters(&lab, 1, 4), StormCounters::default());
    settle(&mut lab);
    (lab, [seen[0], seen[1]])
}

#[test]
fn h10_every_frame_of_a_storm_is_counted() {
    let frames = |tx_ok, tx_drop, rx_ok, rx_drop| StormFrames { tx_ok, tx_drop, rx_ok, rx_drop };
    let (lab, [one, two]) = two_storms(Action::Drop);
    assert_eq!((one.total, one.last), (frames(0, 107, 11, 0), frames(0, 107, 11, 0)));
    assert_eq!((two.total, two.last), (frames(0, 160, 16, 0), frames(0, 53, 5, 0)));
    assert_eq!((lab.lost(), lab.drops(DropReason::WatchdogDrop)), (160, 160));
    let (lab, [one, two]) = two_storms(Action::Forward);
    assert_eq!((one.total, one.last), (frames(107, 0, 11, 0), frames(107, 0, 11, 0)));
    assert_eq!((two.total, two.last), (frames(160, 0, 16, 0), frames(53, 0, 5, 0)));
    lab.assert_lossless();
    let (lab, [_, two]) = two_storms(Action::Alert);
    assert_eq!((two.total, two.detected, two.restored), (frames(0, 0, 0, 0), 2, 2));
    lab.assert_lossless();
}

#[test]
fn h10_frames_that_arrive_at_a_stormed_port_and_are_lost() {
    // The stormed port sends into a port that is held back, without end and deaf to pauses, from the detection on.
    let mut lab = lab(3, config(Action::Drop));
    lab.storm(1, storm(1 << 3, 2 * MS, 60 * MS));
    lab.flow(0, Flow::new(1, 3, 1000).between(2 * MS + ON_WIRE, 3 * MS));
    poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
    lab.switches[0].hold_back(PortId(2), 0xff);
    lab.testers[1].obeys = false;
    let back = lab.flow(1, Flow::new(2, 3, 1000).count(2000));
    lab.run_for(30 * MS);
    assert_eq!((lab.sent(back), counters(&lab, 1, 3).restored), (2000, 0));
    let lost = lab.drops(DropReason::IngressHeadroom);
    let total = counters(&lab, 1, 3).total;
    assert!(lost > 100);
    assert_eq!((total.rx_ok, total.rx_drop), (2000 - lost, lost));
}

#[test]
fn h4_forward_ignores_the_pause() {
    let mut lab = lab(2, config(Action::Forward));
    let flow = lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    lab.storm(1, storm(1 << 3, 2 * MS, 30 * MS));
    let detected = poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
    let before = lab.rx(flow).frames;
    // The backlog leaves at line rate, and traffic goes on as if there were no pause.
    let backlog = lab.switches[0].watchdog(PortId(1)).unwrap().last_storm(3).unwrap().observation.backlog;
    lab.run_until(30 * MS);
    let want = backlog / 1000 + (30 * MS - detected) / 40_960;
    assert!((lab.rx(flow).frames - before).abs_diff(want) <= 2, "{} {want}", lab.rx(flow).frames - before);
    poll_until(&mut lab, |l| counters(l, 1, 3).restored == 1);
    lab.run_for(5 * MS);
    settle(&mut lab);
    assert_eq!(lab.rx(flow).frames, lab.sent(flow));
    lab.assert_lossless();
}

#[test]
fn h5_alert_tells_and_changes_nothing() {
    let mut lab = lab(2, config(Action::Alert));
    let flow = lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    lab.storm(1, storm(1 << 3, 2 * MS, 30 * MS));
    let detected = poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
    // What the event log is made of: the storm, since when, and what waited.
    let event = *lab.switches[0].watchdog(PortId(1)).unwrap().last_storm(3).unwrap();
    let waiting = lab.switches[0].queue_bytes(PortId(1), 3);
    assert_eq!(
        (event.queue, event.kind, event.at, event.observation.backlog),
        (3, EventKind::Detected, detected, waiting)
    );
    let gauges = lab.switches[0].gauges(PortId(1), lab.now);
    assert_eq!((gauges.stormed_queues, gauges.storm_dropping, gauges.storm_forwarding), (1 << 3, 0, 0));
    assert_eq!(
        (gauges.storm_backlog[3], gauges.storm_stalled_ns[3]),
        (waiting, detected - event.stalled_since)
    );
    assert!(gauges.storm_stalled_ns[3] >= DETECT && waiting > 80_000);
    let before = lab.rx(flow).frames;
    lab.run_until(30 * MS);
    assert_eq!(lab.rx(flow).frames, before, "the queue stays paused");
    lab.run_for(70 * MS);
    assert_eq!((counters(&lab, 1, 3).detected, counters(&lab, 1, 3).restored), (1, 1));
    settle(&mut lab);
    assert_eq!(lab.rx(flow).frames, lab.sent(flow));
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
fn h6_a_frame_that_meets_an_old_storm_has_its_whole_time() {
    // The queue has been paused for ten detection times without a backlog when its first frame comes.
    let mut lab = lab(2, config(Action::Drop));
    lab.storm(1, storm(1 << 3, MS, 80 * MS));
    let start = 10 * DETECT + 123_456;
    lab.flow(0, Flow::new(1, 3, 1000).count(1).between(start, u64::MAX));
    // 1024 bytes at 1G, and the cable.
    let arrives = start + 8192 + 500;
    let detected = poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
    assert!(detected >= arrives + DETECT && detected < arrives + DETECT + POLL, "{detected}");
}

#[test]
fn h11_a_new_action_takes_effect_at_once() {
    let mut lab = lab(2, config(Action::Forward));
    let flow = lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    lab.storm(1, storm(1 << 3, 2 * MS, 100 * MS));
    poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
    // At once: but for the frame on the wire, 1000 bytes at 1G and the cable.
    let arrived = |lab: &mut Lab| {
        lab.run_for(8192 + 500);
        let before = lab.rx(flow).frames;
        lab.run_for(5 * MS);
        lab.rx(flow).frames - before
    };
    for (action, flows) in [(Action::Forward, true), (Action::Drop, false), (Action::Forward, true)] {
        let now = lab.now;
        lab.switches[0].set_watchdog(config(action), now);
        lab.touch();
        let (lost, sent) = (lab.lost(), lab.sent(flow));
        match (arrived(&mut lab), flows) {
            (got, true) => assert!(got > 100 && lab.lost() == lost, "{action:?}: {got}"),
            // A frame may be on its way to the switch at either end of the time.
            (got, false) => {
                assert_eq!(got, 0, "{action:?}");
                assert!((lab.lost() - lost).abs_diff(lab.sent(flow) - sent) <= 1, "{action:?}");
            }
        }
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
        let watchdog = lab.switches[0].watchdog(PortId(1)).unwrap();
        assert_eq!((watchdog.stormed_queues(), watchdog.drop_queues()), (0, 0), "at once");
        assert_eq!((counters(&lab, 1, 3).detected, counters(&lab, 1, 3).restored), (1, 1));
        lab.run_for(MS);
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
fn h14_a_restart_begins_anew() {
    for during_storm in [true, false] {
        let mut lab = lab(2, config(Action::Drop));
        let flow = lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
        lab.storm(1, storm(1 << 3, 2 * MS, 20 * MS));
        poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
        let at = if during_storm { 11 * MS } else { 40 * MS };
        lab.run_until(at);
        lab.switches[0] =
            Switch::new(SwitchParams { watchdog: Some(config(Action::Drop)), ..plan(2).params() }).unwrap();
        assert_eq!(counters(&lab, 1, 3), StormCounters::default());
        // A storm that goes on is seen anew, after its whole detection time; one that is over leaves no trace.
        lab.run_until(at + DETECT);
        assert_eq!((counters(&lab, 1, 3).detected, lab.lost()), (0, 0));
        lab.run_until(60 * MS);
        let storms = u64::from(during_storm);
        assert_eq!((counters(&lab, 1, 3).detected, counters(&lab, 1, 3).restored), (storms, storms));
        assert_eq!(lab.lost() > 0, during_storm);
        let (lost, before) = (lab.lost(), lab.rx(flow).frames);
        lab.run_for(20 * MS);
        assert_eq!(lab.lost(), lost);
        assert!(lab.rx(flow).frames > before + 400);
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
    for port in 0..3 {
        assert_eq!(
            lab.switches[0].watchdog(PortId(port)).unwrap().drop_queues(),
            0b0001_1000,
            "on every port"
        );
    }
    let now = lab.now;
    lab.switches[0].set_watchdog(config(Action::Forward), now);
    lab.touch();
    let lost = lab.lost();
    lab.run_for(5 * MS);
    assert_eq!(lab.lost(), lost);
    assert!(flows.iter().zip(&before).all(|(f, b)| lab.rx(*f).frames > b + 100));
}

#[test]
fn h15_big_red_switch_ends_the_storm_it_meets() {
    let mut lab = lab(2, config(Action::Forward));
    lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    lab.storm(1, storm(1 << 3, 2 * MS, 40 * MS));
    poll_until(&mut lab, |l| counters(l, 1, 3).detected == 1);
    let red = WatchdogConfig { big_red_switch: true, ..config(Action::Forward) };
    let now = lab.now;
    lab.switches[0].set_watchdog(red, now);
    let watchdog = lab.switches[0].watchdog(PortId(1)).unwrap();
    assert_eq!((watchdog.stormed_queues(), watchdog.drop_queues()), (0, 0b0001_1000));
    assert_eq!((counters(&lab, 1, 3).detected, counters(&lab, 1, 3).restored), (1, 1));
    lab.run_for(20 * MS);
    assert_eq!(counters(&lab, 1, 3).detected, 1, "detection is off");
}

/// After so many storms of queue 3 at port 1, 45 ms apart; three within `window` hold it.
fn after_storms(storms: u64, window: Nanos) -> Lab {
    let recurrence = Some(Recurrence { storms: 3, window });
    let mut lab = lab(2, WatchdogConfig { recurrence, ..config(Action::Drop) });
    lab.flow(0, Flow::new(1, 3, 1000).rate(G / 5));
    for n in 0..storms {
        lab.storm(1, storm(1 << 3, 2 * MS + n * 45 * MS, 12 * MS + n * 45 * MS));
    }
    lab.run_until(300 * MS);
    lab
}

#[test]
fn h17_too_many_storms_hold_the_queue_until_an_operator_acts() {
    let mut lab = after_storms(3, 200 * MS);
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

#[test]
fn h17_storms_further_apart_than_the_window_do_not_add_up() {
    let lab = after_storms(5, 80 * MS);
    let watchdog = lab.switches[0].watchdog(PortId(1)).unwrap();
    assert_eq!(
        (watchdog.held_queues(), watchdog.counters(3).detected, watchdog.counters(3).restored),
        (0, 5, 5)
    );
}

/// Four switches in a ring: port 0 a host, port 1 to the next, port 2 from the one before. Every host sends to the
/// host three switches on, so that each ring link carries three flows and waits for the next one.
fn ring(watchdog: impl Fn(usize) -> Option<WatchdogConfig>) -> Lab {
    // Slow enough for minutes of frames in a test; a pause lasts a third of a second.
    let (n, rate) = (4, G / 200);
    let mut lab = Lab::new(crate::harness::audit_mmu);
    for s in 0..n {
        let limit = Limit::fixed(6000);
        let plan = Plan { rate, limit, headroom: 6000, xon_offset: 4500, quanta: 3276, ..Plan::new(3) };
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
        lab.flow(s, Flow::new(((s + 3) % n) as u16, 3, 0).lens(&[1500, 64, 1100 + 10 * s, 700]));
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

/// Silences of all receivers together in 300 seconds, in whole ms, and frames that arrived.
fn silences(mut lab: Lab) -> (Vec<u64>, u64) {
    let (mut last, mut since, mut all) = (0, 0, Vec::new());
    while lab.now < 300_000 * MS {
        lab.run_for(MS);
        let now = delivered(&lab);
        if now > last {
            all.push((lab.now - since) / MS);
            (last, since) = (now, lab.now);
        }
    }
    all.push((lab.now - since) / MS);
    (all, last)
}

#[test]
fn h16_the_watchdog_breaks_the_cycle_within_detection_and_poll() {
    let (detection, poll, restoration) = (200, 100, 200);
    // The first frame after the break has three ring links and their queues before it.
    let travel = 100;
    for (action, in_step, more) in [
        (Action::Forward, true, 0),
        (Action::Forward, false, 0),
        // As real switches do, they do not poll in step: the first to detect breaks the cycle for all.
        (Action::Drop, false, 0),
        // All four see it at the same instant and drop on all four links: nothing passes before the restoration.
        (Action::Drop, true, restoration + poll),
    ] {
        let config = |s: usize| WatchdogConfig {
            poll: (poll - if in_step { 0 } else { 13 * s as u64 }) * MS,
            detection: detection * MS,
            restoration: restoration * MS,
            ..config(action)
        };
        let (silences, frames) = silences(ring(|s| Some(config(s))));
        let longest = *silences.iter().max().unwrap();
        let deadlocks = silences.iter().filter(|ms| **ms >= detection / 2).count();
        let bound = detection + poll + travel + more;
        println!(
            "{action:?} in step {in_step}: {deadlocks} deadlocks, longest {longest} ms, {frames} frames"
        );
        assert!(deadlocks >= 1, "{action:?}: {deadlocks} deadlocks in five minutes");
        assert!(longest <= bound, "{action:?}, in step {in_step}: throughput returned after {longest} ms");
        assert!(frames > 2000, "{frames}");
    }
}
