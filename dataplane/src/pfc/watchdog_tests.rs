//! H1 to H17 as far as one port alone can show them, and DEV-81.

use super::super::frame::PfcFrame;
use super::super::react::{ReactConfig, Reaction, RxMode};
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const MS: Nanos = 1_000_000;
const Q: usize = 3;
const CONFIG: WatchdogConfig = WatchdogConfig {
    queues: 0b0001_1000,
    poll: 200 * MS,
    detection: 200 * MS,
    restoration: 200 * MS,
    action: Action::Drop,
    recurrence: None,
    big_red_switch: false,
};

/// A queue of one port at 1 Gbit/s, served every millisecond, with a real reaction and a watchdog.
struct Port {
    now: Nanos,
    reaction: Reaction,
    watchdog: Watchdog,
    queue: VecDeque<Nanos>,
    departures: u64,
    dropped: u64,
    arrived: u64,
    events: Vec<Event>,
}

impl Port {
    fn new(config: WatchdogConfig) -> Self {
        let pfc_to_queue = std::array::from_fn(|i| i as u8);
        let react = ReactConfig { rate: 1_000_000_000, enabled: 0x18, mode: RxMode::Enabled, pfc_to_queue };
        Self {
            now: 0,
            reaction: Reaction::new(react),
            watchdog: Watchdog::new(config, 0),
            queue: VecDeque::new(),
            departures: 0,
            dropped: 0,
            arrived: 0,
            events: Vec::new(),
        }
    }

    fn pause(&mut self, quanta: u16) {
        self.reaction.on_pfc(&PfcFrame::uniform(1 << Q, quanta), self.now);
    }

    fn arrive(&mut self) {
        self.arrived += 1;
        if self.watchdog.drop_queues() & 1 << Q != 0 {
            self.watchdog.count(Q, Seen::TxDrop, 1);
            self.dropped += 1;
        } else {
            self.queue.push_back(self.now);
        }
    }

    fn flush(&mut self, queues: u8) {
        if queues & 1 << Q != 0 {
            let frames = self.queue.len() as u64;
            self.watchdog.count(Q, Seen::TxDrop, frames);
            self.dropped += frames;
            self.queue.clear();
        }
    }

    fn serve(&mut self) {
        let paused = self.reaction.paused_queues(self.now) & !self.watchdog.forward_queues();
        if paused & 1 << Q == 0 {
            let frames = self.queue.len() as u64;
            if self.watchdog.forward_queues() & 1 << Q != 0 {
                self.watchdog.count(Q, Seen::TxOk, frames);
            }
            self.departures += frames;
            self.queue.clear();
        }
    }

    fn look(&mut self) {
        let (now, reaction) = (self.now, &self.reaction);
        let (waiting, departures, head) = (self.queue.len(), self.departures, self.queue.front().copied());
        let events = self.watchdog.poll(now, |queue| {
            let mine = queue == Q;
            Observation {
                backlog: if mine { waiting as u64 * 1_000 } else { 0 },
                departures: if mine { departures } else { 0 },
                head_since: head.filter(|_| mine).unwrap_or(0),
                paused_since: reaction.queue_paused_since(queue, now),
                last_pfc: reaction.queue_last_frame(queue),
            }
        });
        self.events.extend(events.iter().copied());
        if events.iter().any(|e| e.kind != EventKind::Restored) {
            self.flush(self.watchdog.drop_queues());
        }
        let c = self.watchdog.counters(Q);
        let stormed = u64::from(self.watchdog.stormed_queues() >> Q & 1);
        assert_eq!(c.detected, c.restored + stormed, "counters come in pairs");
    }

    /// Runs to `end`. Frames arrive every `gap` (0: none); PFC arrives at each time `storm` gives.
    fn run(&mut self, end: Nanos, gap: Nanos, storm: &mut impl Storm) {
        let mut next_frame = if gap == 0 { Nanos::MAX } else { self.now };
        let mut next_serve = self.now;
        loop {
            let next_pfc = storm.next(self.now);
            let at = next_frame.min(next_serve).min(next_pfc).min(self.watchdog.next_poll());
            if at >= end {
                self.now = end;
                return;
            }
            self.now = at;
            if at == next_pfc {
                let quanta = storm.fire();
                self.pause(quanta);
            }
            if at == next_frame {
                self.arrive();
                next_frame += gap;
            }
            if at == next_serve {
                self.serve();
                next_serve += MS;
            }
            self.look();
        }
    }

    fn kinds(&self) -> Vec<EventKind> {
        self.events.iter().map(|e| e.kind).collect()
    }
}

/// When the next PFC frame comes and what it asks for.
trait Storm {
    fn next(&mut self, now: Nanos) -> Nanos;
    fn fire(&mut self) -> u16;
}

/// Nothing, ever.
struct Calm;

impl Storm for Calm {
    fn next(&mut self, _: Nanos) -> Nanos {
        Nanos::MAX
    }
    fn fire(&mut self) -> u16 {
        unreachable!("no frame was announced")
    }
}

/// Full quanta (33.5 ms) every 10 ms from `at` until `end`, again every `period` (0: once), each burst
/// ended by a resume if `resume`.
struct Burst {
    at: Nanos,
    end: Nanos,
    period: Nanos,
    sent: Option<Nanos>,
    resume: bool,
}

impl Burst {
    fn once(at: Nanos, end: Nanos) -> Self {
        Self { at, end, period: 0, sent: None, resume: true }
    }

    fn every(period: Nanos, on: Nanos) -> Self {
        Self { at: 0, end: on, period, sent: None, resume: true }
    }
}

impl Storm for Burst {
    fn next(&mut self, _: Nanos) -> Nanos {
        self.sent.map_or(self.at, |sent| (sent + 10 * MS).min(self.end))
    }

    fn fire(&mut self) -> u16 {
        let at = self.next(0);
        if at < self.end {
            self.sent = Some(at);
            return u16::MAX;
        }
        let period = if self.period == 0 { Nanos::MAX / 2 - self.at } else { self.period };
        (self.at, self.end, self.sent) = (self.at + period, self.end + period, None);
        if self.resume { 0 } else { 1 }
    }
}

/// In virtual time looks at rest are left out, but for one before the next thing happens; what comes of it is the same.
#[test]
fn nothing_is_missed_where_looks_are_left_out_at_rest() {
    let rests = |port: &Port| {
        let mut departures = [0; PRIORITIES];
        departures[Q] = port.departures;
        port.watchdog.is_at_rest(&departures)
    };
    for (idle, recurrence) in [(777 * MS, None), (3_600_123 * MS, Some(Recurrence { storms: 1, window: MS }))]
    {
        let [mut all, mut few] = [(); 2].map(|()| Port::new(WatchdogConfig { recurrence, ..CONFIG }));
        for port in [&mut all, &mut few] {
            assert!(!rests(port), "it has not looked");
            port.run(1_010 * MS, 7 * MS, &mut Burst::once(0, 1_000 * MS));
            assert_eq!(rests(port), recurrence.is_some(), "a storm is to end, unless it is held");
            port.run(1_700 * MS, 0, &mut Calm);
            assert!(rests(port));
        }
        all.run(1_700 * MS + idle, 0, &mut Calm);
        few.now += idle - 1;
        few.look();
        few.now += 1;
        for port in [&mut all, &mut few] {
            let now = port.now;
            port.run(now + 1_000 * MS, 7 * MS, &mut Burst::once(now, now + 900 * MS));
            assert!(!rests(port) || recurrence.is_some());
        }
        assert_eq!(all.events, few.events);
        assert_eq!(all.events.len(), if recurrence.is_some() { 1 } else { 3 });
    }
}

proptest! {
    /// H1, H2, every run: whatever the timers and the phase of storm and backlog to the polls.
    #[test]
    fn h1_h2_detect_and_restore_within_one_poll(
        poll in 100u64..1_000, detection in 100u64..5_000, restoration in 100u64..5_000,
        start in 0..2_000 * MS, traffic in 0..2_000 * MS, on_poll: bool,
        action in prop_oneof![Just(Action::Drop), Just(Action::Forward)],
    ) {
        let (poll, detection, restoration) = (poll * MS, detection * MS, restoration * MS);
        let start = if on_poll { start / poll * poll } else { start };
        let mut port = Port::new(WatchdogConfig { poll, detection, restoration, action, ..CONFIG });
        let end = start.max(traffic) + detection + 3 * poll;
        let mut storm = Burst::once(start, end);
        port.run(traffic, 0, &mut storm);
        port.run(end + restoration + 3 * poll, 7 * MS, &mut storm);
        prop_assert_eq!(port.kinds(), [EventKind::Detected, EventKind::Restored]);
        // The storm counts from when the queue is paused and has a frame.
        let stalled = port.events[0].stalled_since;
        prop_assert!(stalled >= start.max(traffic) && stalled < start.max(traffic) + 7 * MS);
        let detected = port.events[0].at - stalled;
        prop_assert!(detection <= detected && detected < detection + poll, "{} ms", detected / MS);
        let restored = port.events[1].at - end;
        prop_assert!(restoration <= restored && restored < restoration + poll, "{} ms", restored / MS);
    }

    /// H8, H9: as long as frames leave between pauses nothing fires, at any phase and with any poll.
    #[test]
    fn h9_slow_drain_does_not_fire(poll in 1u64..1_000, duty in 1u64..10, cycle in 20u64..190, traffic in 1u64..9) {
        let mut port = Port::new(WatchdogConfig { poll: poll * MS, ..CONFIG });
        let on = cycle * duty / 10;
        port.run(5_000 * MS, traffic * MS, &mut Burst::every(cycle * MS, on * MS));
        prop_assert_eq!(port.kinds(), []);
        prop_assert!(port.departures > 0);
        prop_assert_eq!(port.arrived, port.departures + port.queue.len() as u64);
    }

    /// Jittery polls neither invent a storm nor miss one: late polls find it at once.
    #[test]
    fn h1_jittery_polls(times in prop::collection::vec(1u64..900, 1..40), storm_at in 0u64..2_000) {
        let mut w = Watchdog::new(CONFIG, 0);
        let (mut now, mut found) = (0, false);
        for gap in times {
            now += gap * MS;
            let due = now >= w.next_poll();
            let paused_since = (now >= storm_at * MS).then_some(storm_at * MS);
            let o = Observation {
                backlog: 1, departures: 0, head_since: 0, paused_since, last_pfc: paused_since.map(|_| now),
            };
            let events = w.poll(now, |_| o);
            let storm = now >= storm_at * MS + CONFIG.detection;
            prop_assert_eq!(!events.is_empty(), due && storm && !found);
            found |= !events.is_empty();
            prop_assert!(w.next_poll() > now && w.next_poll().is_multiple_of(CONFIG.poll), "boundaries do not drift");
        }
    }
}

#[test]
fn h3_drop_flushes_the_queue_and_refuses_more() {
    let mut port = Port::new(CONFIG);
    port.run(3_000 * MS, 5 * MS, &mut Burst::once(0, 2_000 * MS));
    assert_eq!(port.kinds(), [EventKind::Detected, EventKind::Restored]);
    let [detected, restored] = [port.events[0].at, port.events[1].at];
    assert_eq!((detected, restored), (200 * MS, 2_200 * MS));
    // PFC came before the first frame, so every frame up to the restoration is lost and none after it.
    assert_eq!(port.dropped, restored / (5 * MS) + 1);
    assert_eq!(port.arrived, port.dropped + port.departures + port.queue.len() as u64);
    assert_eq!(port.watchdog.drop_queues(), 0);
}

#[test]
fn h4_forward_ignores_the_pause() {
    let mut port = Port::new(WatchdogConfig { action: Action::Forward, ..CONFIG });
    port.run(1_000 * MS, 5 * MS, &mut Burst::once(0, 2_000 * MS));
    assert_eq!(port.kinds(), [EventKind::Detected]);
    assert_eq!((port.watchdog.forward_queues(), port.watchdog.drop_queues()), (8, 0));
    assert_eq!(port.dropped, 0);
    assert!(port.queue.len() <= 1 && port.departures >= 199, "frames flow: {}", port.departures);
}

#[test]
fn h5_alert_touches_nothing_and_ends_with_the_stall() {
    let mut port = Port::new(WatchdogConfig { action: Action::Alert, ..CONFIG });
    let mut storm = Burst::once(0, 1_010 * MS);
    port.run(1_000 * MS, 5 * MS, &mut storm);
    assert_eq!(port.kinds(), [EventKind::Detected]);
    assert_eq!((port.watchdog.forward_queues(), port.watchdog.drop_queues()), (0, 0));
    assert_eq!((port.departures, port.queue.len()), (0, 200), "the traffic stays paused");
    port.run(1_201 * MS, 0, &mut storm);
    assert_eq!(port.kinds(), [EventKind::Detected, EventKind::Restored]);
    assert_eq!((port.departures, port.dropped), (200, 0));
}

#[test]
fn h6_idle_queue_is_not_in_a_storm() {
    let mut port = Port::new(CONFIG);
    port.run(5_000 * MS, 0, &mut Burst::once(0, 5_000 * MS));
    assert_eq!(port.kinds(), []);
    assert!(port.reaction.paused_ns(Q, port.now) > 4_900 * MS, "it was paused all the time");
}

#[test]
fn h7_short_storm() {
    for start in [0, 50, 100, 199] {
        let mut port = Port::new(CONFIG);
        port.run(2_000 * MS, 5 * MS, &mut Burst::once(start * MS, (start + 100) * MS));
        assert_eq!((port.kinds(), port.dropped), (vec![], 0), "start {start} ms");
    }
}

#[test]
fn h8_bursty_storm_never_fires() {
    let mut port = Port::new(CONFIG);
    let period = CONFIG.poll + CONFIG.detection + CONFIG.restoration;
    port.run(20_000 * MS, 5 * MS, &mut Burst::every(period, CONFIG.poll / 2));
    assert_eq!((port.kinds(), port.dropped), (vec![], 0));
    assert!(port.reaction.transitions(Q) > 30);
}

#[test]
fn h10_counters_total_and_last() {
    let mut w = Watchdog::new(CONFIG, 0);
    let storm = |now| Observation {
        backlog: 1,
        departures: 0,
        head_since: 0,
        paused_since: Some(0),
        last_pfc: Some(now),
    };
    let calm =
        Observation { backlog: 0, departures: 0, head_since: 0, paused_since: None, last_pfc: Some(0) };
    w.poll(200 * MS, |_| storm(200 * MS));
    for (seen, frames) in [(Seen::TxOk, 1), (Seen::TxDrop, 20), (Seen::RxOk, 300), (Seen::RxDrop, 4_000)] {
        w.count(Q, seen, frames);
    }
    let first = StormFrames { tx_ok: 1, tx_drop: 20, rx_ok: 300, rx_drop: 4_000 };
    assert_eq!((w.counters(Q).total, w.counters(Q).last), (first, first));
    assert_eq!(w.poll(600 * MS, |_| calm).len(), 2, "both watched queues");
    assert_eq!(w.counters(Q).last, first, "kept after the storm");
    w.poll(800 * MS, |_| storm(800 * MS));
    assert_eq!(w.counters(Q).last, StormFrames::default(), "a new storm starts from zero");
    w.count(Q, Seen::TxDrop, 5);
    assert_eq!((w.counters(Q).last.tx_drop, w.counters(Q).total.tx_drop), (5, 25));
    assert_eq!((w.counters(Q).detected, w.counters(Q).restored), (2, 1));
    assert_eq!(w.counters(5), &StormCounters::default());
}

#[test]
fn h11_action_change_takes_effect_at_once() {
    let mut port = Port::new(WatchdogConfig { action: Action::Forward, ..CONFIG });
    let mut storm = Burst::once(0, 60_000 * MS);
    port.run(1_000 * MS, 5 * MS, &mut storm);
    let sent = port.departures;
    let flush = port.watchdog.configure(CONFIG, port.now);
    assert_eq!((flush, port.watchdog.drop_queues(), port.watchdog.forward_queues()), (8, 8, 0));
    port.flush(flush);
    port.run(2_000 * MS, 5 * MS, &mut storm);
    assert_eq!(port.departures, sent, "not one frame more");
    assert_eq!(port.watchdog.configure(WatchdogConfig { action: Action::Forward, ..CONFIG }, port.now), 0);
    port.run(3_000 * MS, 5 * MS, &mut storm);
    assert!(port.departures > sent);
    assert_eq!(port.kinds(), [EventKind::Detected], "one storm all along");
}

#[test]
fn h14_port_toggle_leaves_a_clean_state() {
    let mut port = Port::new(CONFIG);
    port.run(1_000 * MS, 5 * MS, &mut Burst::once(0, 5_000 * MS));
    assert_eq!(port.watchdog.stormed_queues(), 8);
    port.watchdog.link_down(port.now);
    port.reaction.link_down(port.now);
    assert_eq!((port.watchdog.stormed_queues(), port.watchdog.drop_queues()), (0, 0));
    let c = *port.watchdog.counters(Q);
    assert_eq!((c.detected, c.restored), (1, 1));
    port.run(5_000 * MS, 5 * MS, &mut Calm);
    assert_eq!(port.events.len(), 1, "no storm is reported after the toggle");
}

#[test]
fn h15_big_red_switch() {
    let red = WatchdogConfig { big_red_switch: true, action: Action::Forward, ..CONFIG };
    let mut port = Port::new(WatchdogConfig { action: Action::Forward, ..CONFIG });
    let mut storm = Burst::once(0, 60_000 * MS);
    port.run(1_000 * MS, 5 * MS, &mut storm);
    assert_eq!(port.watchdog.forward_queues(), 8);
    assert_eq!(port.watchdog.configure(red, port.now), 0x18, "every watched queue, whatever the action");
    assert_eq!((port.watchdog.drop_queues(), port.watchdog.forward_queues()), (0x18, 0));
    assert_eq!(port.watchdog.stormed_queues(), 0);
    let events = port.events.len();
    port.run(3_000 * MS, 5 * MS, &mut storm);
    assert_eq!(port.events.len(), events, "detection is off");
    port.watchdog.configure(CONFIG, port.now);
    assert_eq!(port.watchdog.drop_queues(), 0);
    port.run(3_600 * MS, 5 * MS, &mut storm);
    assert_eq!(port.events.len(), events + 1, "detection starts afresh");
    let since = port.events[events].at - 3_000 * MS;
    assert!((CONFIG.detection..CONFIG.detection + CONFIG.poll + 5 * MS).contains(&since));
    assert_eq!(Watchdog::new(red, 0).drop_queues(), 0x18, "from the start");
}

#[test]
fn h17_recurrence_limit_holds_until_released() {
    let recurrence = Some(Recurrence { storms: 3, window: 10_000 * MS });
    let mut port = Port::new(WatchdogConfig { recurrence, ..CONFIG });
    let mut storm = Burst::every(1_000 * MS, 500 * MS);
    port.run(2_900 * MS, 5 * MS, &mut storm);
    use EventKind::{Detected, Held, Restored};
    assert_eq!(port.kinds(), [Detected, Restored, Detected, Restored, Held]);
    port.run(20_000 * MS, 5 * MS, &mut Calm);
    assert_eq!((port.events.len(), port.watchdog.held_queues(), port.watchdog.drop_queues()), (5, 8, 8));
    port.watchdog.release(Q);
    port.run(20_201 * MS, 5 * MS, &mut Calm);
    assert_eq!(port.kinds()[5..], [Restored]);
    assert_eq!((port.watchdog.held_queues(), port.watchdog.drop_queues()), (0, 0));
}

/// Detections come every 1000 ms, so three of them span exactly 2000 ms.
#[test]
fn h17_only_storms_within_the_window_add_up() {
    for (window, held) in [(1_999, false), (2_000, true)] {
        let recurrence = Some(Recurrence { storms: 3, window: window * MS });
        let mut port = Port::new(WatchdogConfig { recurrence, ..CONFIG });
        port.run(10_000 * MS, 5 * MS, &mut Burst::every(1_000 * MS, 500 * MS));
        assert_eq!(port.kinds().contains(&EventKind::Held), held, "{window} ms");
        assert!(held || port.kinds().len() == 20, "ten storms");
    }
}

#[test]
fn unwatched_queues_are_left_alone() {
    let mut port = Port::new(WatchdogConfig { queues: 0x10, ..CONFIG });
    let mut storm = Burst::once(0, 60_000 * MS);
    port.run(2_000 * MS, 5 * MS, &mut storm);
    assert_eq!(port.kinds(), []);
    port.watchdog.configure(CONFIG, port.now);
    port.run(2_600 * MS, 5 * MS, &mut storm);
    assert_eq!(port.kinds(), [EventKind::Detected]);
    assert!(port.events[0].at >= 2_200 * MS, "the past does not count");
    port.watchdog.configure(WatchdogConfig { queues: 0x10, ..CONFIG }, port.now);
    assert_eq!((port.watchdog.stormed_queues(), port.watchdog.drop_queues()), (0, 0));
}

/// A queue that is said to be paused and yet sends (two priorities on one queue, another consumer) is no storm.
#[test]
fn h9_departures_during_a_pause_are_progress() {
    let mut w = Watchdog::new(CONFIG, 0);
    let at = |now: Nanos, departures| Observation {
        backlog: 1,
        departures,
        head_since: 0,
        paused_since: Some(0),
        last_pfc: Some(now),
    };
    // The first look has nothing to compare with.
    let mut moving = Watchdog::new(WatchdogConfig { detection: 201 * MS, ..CONFIG }, 0);
    for n in 1..20 {
        let now = n * CONFIG.poll;
        assert!(moving.poll(now, |_| at(now, n)).is_empty(), "poll {n}");
    }
    assert!(moving.poll(4_000 * MS, |_| at(4_000 * MS, 19)).is_empty(), "stalled for 200 ms only");
    assert_eq!(moving.poll(4_200 * MS, |_| at(4_200 * MS, 19))[0].stalled_since, 3_800 * MS);
    assert_eq!(w.poll(200 * MS, |_| at(200 * MS, 7)).len(), 2, "and a still queue is one");
}

/// A pause longer than the restoration time: the storm is over by the rule, and must build up anew.
#[test]
fn h2_what_is_still_stalled_counts_from_the_restoration() {
    let mut w = Watchdog::new(CONFIG, 0);
    let o =
        Observation { backlog: 1, departures: 0, head_since: 0, paused_since: Some(0), last_pfc: Some(0) };
    let mut kinds = Vec::new();
    for n in 1..=4 {
        kinds.extend(w.poll(n * CONFIG.poll, |_| o).iter().filter(|e| e.queue == 3).map(|e| (n, e.kind)));
    }
    use EventKind::{Detected, Restored};
    assert_eq!(kinds, [(1, Detected), (2, Restored), (3, Detected), (4, Restored)]);
}

/// A peer that pauses for ever: without detection nothing ever leaves (DEV-81).
#[test]
fn dev81_endless_pause_does_not_stop_the_queue_for_ever() {
    for (queues, sent) in [(0, false), (0x18, true)] {
        let mut port = Port::new(WatchdogConfig { queues, action: Action::Forward, ..CONFIG });
        port.run(1_000 * MS, 5 * MS, &mut Burst::once(0, Nanos::MAX / 4));
        assert_eq!(port.departures > 0, sent, "watched queues {queues:#x}");
    }
}
