//! The parts of the time a frame is here: what received pauses cost it, to the ns, and the rest.

use super::*;
use crate::pfc::frame::PfcFrame;
use crate::pfc::watchdog::{Action, WatchdogConfig};
use crate::stats::{Histogram, LatencyStats, PauseStats, bucket_of};

/// Host 2 stands behind port 1.
fn switch(params: SwitchParams) -> Switch<OwnedFrame> {
    let mut s = Switch::new(params).unwrap();
    receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
    transmit(&mut s, 0, 0);
    s
}

/// Queue 3 of port 1 is paused for so many quanta: 5.12 ns each, rounded up as a whole.
fn pause(s: &mut Switch<OwnedFrame>, quanta: u16, now: Nanos) {
    receive(s, 1, [OwnedFrame::new(PfcFrame::uniform(1 << 3, quanta).encode(host(2)))], now);
}

/// Frames from port 0 to host 2 in queue 3.
fn arrive(s: &mut Switch<OwnedFrame>, frames: usize, now: Nanos) {
    receive(s, 0, (0..frames).map(|_| frame(1, 2, 24, 100)), now);
}

/// As many as that leave port 1 now.
fn leave(s: &mut Switch<OwnedFrame>, frames: usize, now: Nanos) {
    leave_most(s, frames, frames, now);
}

/// `frames` of at most `most` leave.
fn leave_most(s: &mut Switch<OwnedFrame>, most: usize, frames: usize, now: Nanos) {
    let mut tap = Tap { room: most, ..Tap::default() };
    assert_eq!(s.transmit(PortId(1), most, now, &mut tap), frames, "at {now}");
}

/// Sum of the pause parts of queue 3; residence, queueing and pause by bucket.
fn parts(s: &Switch<OwnedFrame>) -> (u64, [Histogram; 3]) {
    let (residence, pauses) = (&s.latency(PortId(1)).residence[3], s.pauses(PortId(1)));
    (pauses.pause_ns[3], [*residence, pauses.queueing_of(3, residence), pauses.pause_of(3, residence)])
}

fn histogram(of: &[(Nanos, u64)]) -> Histogram {
    let mut histogram = Histogram::default();
    of.iter().for_each(|(ns, frames)| histogram.note(*ns, *frames));
    histogram
}

#[test]
fn a_pause_of_known_length_is_the_pause_part_to_the_ns() {
    let mut s = switch(params(2));
    pause(&mut s, 100, 1_000);
    arrive(&mut s, 5, 1_000);
    assert_eq!(transmit(&mut s, 1, 1_511).frames.len(), 0);
    leave(&mut s, 5, 1_512);
    assert_eq!(parts(&s), (5 * 512, [[(512, 5)], [(0, 5)], [(512, 5)]].map(|h| histogram(&h))));
}

#[test]
fn a_deadline_that_passed_long_before_anybody_looked_counts_to_the_deadline() {
    let mut s = switch(params(2));
    arrive(&mut s, 1, 900);
    pause(&mut s, 100, 1_000);
    // Comes while the pause runs, and after it ran out without anybody having looked.
    arrive(&mut s, 1, 1_500);
    arrive(&mut s, 1, 8_000);
    leave(&mut s, 3, 10_000);
    let (sum, [residence, queueing, pause]) = parts(&s);
    assert_eq!((sum, pause), (512 + 12, histogram(&[(512, 1), (12, 1), (0, 1)])));
    assert_eq!(residence, histogram(&[(9_100, 1), (8_500, 1), (2_000, 1)]));
    assert_eq!(queueing, histogram(&[(9_100 - 512, 1), (8_500 - 12, 1), (2_000, 1)]));
}

#[test]
fn a_frame_behind_others_waits_in_the_queue_alone() {
    let mut s = switch(params(2));
    // Another queue's pause is nothing to this one.
    receive(&mut s, 1, [OwnedFrame::new(PfcFrame::uniform(1 << 4, 0xffff).encode(host(2)))], 0);
    arrive(&mut s, 3, 1_000);
    (0..3).for_each(|n| leave(&mut s, 1, 1_100 + n * 100));
    let waits = histogram(&[(100, 1), (200, 1), (300, 1)]);
    assert_eq!(parts(&s), (0, [waits, waits, histogram(&[(0, 3)])]));
    assert_eq!(*s.pauses(PortId(1)), PauseStats::default());
}

#[test]
fn parts_of_a_wait_with_both_add_up_to_the_whole() {
    let mut s = switch(params(2));
    arrive(&mut s, 2, 1_000);
    leave(&mut s, 1, 1_010);
    // Paused, refreshed while it runs, resumed early; and once more.
    pause(&mut s, 100, 1_100);
    pause(&mut s, 100, 1_400);
    pause(&mut s, 0, 1_700);
    pause(&mut s, 10, 2_000);
    arrive(&mut s, 1, 2_010);
    leave(&mut s, 2, 3_000);
    let (sum, [residence, queueing, pause]) = parts(&s);
    assert_eq!(sum, (600 + 52) + 42);
    assert_eq!(residence, histogram(&[(10, 1), (2_000, 1), (990, 1)]));
    assert_eq!(pause, histogram(&[(0, 1), (652, 1), (42, 1)]));
    assert_eq!(queueing, histogram(&[(10, 1), (2_000 - 652, 1), (990 - 42, 1)]));
    assert_eq!([residence, queueing, pause].map(|h| h.count()), [3; 3]);
}

#[test]
fn what_the_driver_has_not_taken_is_no_longer_held_by_a_pause() {
    let mut s = switch(params(2));
    arrive(&mut s, 4, 1_000);
    let mut slow = Tap { room: 1, ..Tap::default() };
    assert_eq!(s.transmit(PortId(1), 3, 1_100, &mut slow), 1);
    // Two are with the driver when the pause comes, the fourth is not.
    pause(&mut s, 100, 1_200);
    leave(&mut s, 2, 1_300);
    leave(&mut s, 1, 2_000);
    let (sum, [_, queueing, pause]) = parts(&s);
    assert_eq!((sum, pause), (512, histogram(&[(0, 3), (512, 1)])));
    assert_eq!(queueing, histogram(&[(100, 1), (300, 2), (488, 1)]));
}

#[test]
fn a_storm_that_is_forwarded_is_no_pause_any_more() {
    let watchdog = WatchdogConfig {
        queues: 1 << 3,
        poll: 100,
        detection: 1_000,
        restoration: 1_000_000,
        action: Action::Forward,
        recurrence: None,
        big_red_switch: false,
    };
    let mut s = switch(SwitchParams { watchdog: Some(watchdog), ..params(2) });
    pause(&mut s, 0xffff, 1_000);
    arrive(&mut s, 1, 1_000);
    for now in (1_000..=2_000).step_by(100) {
        assert_eq!(transmit(&mut s, 1, now).frames.len(), 0);
        s.tick(now);
    }
    // The storm was seen at 2000; from then on the peer is not obeyed.
    leave(&mut s, 1, 2_500);
    arrive(&mut s, 1, 2_600);
    leave(&mut s, 1, 2_700);
    let (sum, [_, queueing, pause]) = parts(&s);
    assert_eq!((sum, pause), (1_000, histogram(&[(1_000, 1), (0, 1)])));
    assert_eq!(queueing, histogram(&[(500, 1), (100, 1)]));
    // Obeyed again as soon as the watchdog lets go.
    s.set_watchdog(WatchdogConfig { queues: 0, ..watchdog }, 3_000);
    arrive(&mut s, 1, 3_100);
    assert_eq!(transmit(&mut s, 1, 3_200).frames.len(), 0);
    s.set_link(PortId(1), false, 3_300);
    assert_eq!((s.held(), parts(&s).0), (0, 1_000), "what is lost has no latency");
}

#[test]
fn a_queue_that_nothing_waits_in_is_seen_to_be_paused_until_the_deadline_and_no_longer() {
    let seen =
        |s: &Switch<OwnedFrame>| [1_511, 1_512, 9_999].map(|now| s.gauges(PortId(1), now).paused_queues);
    let mut s = switch(params(2));
    pause(&mut s, 100, 1_000);
    assert_eq!(seen(&s), [1 << 3, 0, 0]);
    // Looking at it changes nothing, and neither does whoever finds nothing to send.
    transmit(&mut s, 1, 9_999);
    s.tick(9_999);
    assert_eq!(seen(&s), [1 << 3, 0, 0]);
    // Frames that waited and were dropped leave it as idle.
    let mut s = switch(params(2));
    pause(&mut s, 100, 1_000);
    arrive(&mut s, 2, 1_000);
    s.flush(PortId(1), 3, DropReason::WatchdogDrop);
    s.go_on_flushing(1_100);
    assert_eq!((s.held(), seen(&s)), (0, [1 << 3, 0, 0]));
}

#[test]
fn between_shards_a_pause_counts_from_the_moment_the_queue_has_the_frame() {
    let [a, b] = &mut two_shards(params(2));
    pause(b, 100, 1_000);
    receive(a, 0, (0..3).map(|_| frame(1, 2, 24, 100)), 1_000);
    b.tick(1_300);
    leave(b, 3, 1_600);
    let (sum, [residence, queueing, pause]) = parts(b);
    assert_eq!((sum, pause), (3 * 212, histogram(&[(212, 3)])));
    assert_eq!((residence, queueing), (histogram(&[(600, 3)]), histogram(&[(388, 3)])));
}

#[test]
fn readers_see_both_parts_of_the_same_instant() {
    let mut s = switch(params(2));
    let cell = s.published(PortId(1));
    let mut frames = 0;
    for n in 1..=6u64 {
        let at = n * 20_000_000;
        if n % 3 == 0 {
            pause(&mut s, 100, at);
        }
        arrive(&mut s, 2, at);
        leave(&mut s, 2, at + 1_000);
        frames += 2;
        s.publish_all(at + 1_000);
        let ((stats, latency), pauses): ((crate::stats::PortStats, LatencyStats), PauseStats) = cell.read();
        assert_eq!((&stats, &latency), (s.stats(PortId(1)), s.latency(PortId(1))));
        assert_eq!(pauses, *s.pauses(PortId(1)));
        let (residence, paused) = (&latency.residence[3], n / 3 * 2);
        assert_eq!(pauses.pause_of(3, residence), histogram(&[(512, paused), (0, frames - paused)]));
        assert_eq!(pauses.queueing_of(3, residence).0[bucket_of(488)], paused);
    }
    let alone: crate::stats::PortStats = cell.read();
    assert_eq!(alone, *s.stats(PortId(1)), "who asks for less gets less");
}

#[test]
fn a_switch_that_nobody_observes_does_the_same_and_keeps_less() {
    let [seen, unseen] = [true, false].map(|observed| {
        let mut s = switch(SwitchParams { observed, ..params(2) });
        for at in [20_000_000, 40_000_000] {
            pause(&mut s, 100, at);
            arrive(&mut s, 2, at);
            leave(&mut s, 2, at + 1_000);
            s.tick(at + 1_000);
            s.publish_all(at + 1_000);
        }
        s
    });
    let port = PortId(1);
    assert_eq!(seen.stats(port), unseen.stats(port));
    assert!(*seen.latency(port) != LatencyStats::default() && *seen.pauses(port) != PauseStats::default());
    assert!(
        *unseen.latency(port) == LatencyStats::default() && *unseen.pauses(port) == PauseStats::default()
    );
    let cells = [unseen.published(port), unseen.published_gauges(port), unseen.published_carried(port)];
    assert!(cells.iter().all(|cell| cell.read_words().is_empty()));
}

#[test]
fn whatever_happens_the_pause_parts_are_what_counting_gives() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut s = switch(params(2));
        // ns held until now, one by one; end of the pause; frames that wait, by what was held when they came.
        let (mut now, mut held, mut until) = (1_000u64, 0u64, 0u64);
        let mut waiting = std::collections::VecDeque::new();
        let (mut sum, mut left, mut paused) = (0, 0, 0);
        for _ in 0..400 {
            let pass = u64::from(rng.next_u32() % 300);
            held += until.saturating_sub(now).min(pass);
            now += pass;
            match rng.next_u32() % 6 {
                0 => {
                    let quanta = (rng.next_u32() % 100) as u16;
                    pause(&mut s, quanta, now);
                    until = now + crate::pfc::frame::quanta_to_ns(quanta, 100_000_000_000);
                }
                1 | 2 => {
                    let frames = (rng.next_u32() % 20) as usize;
                    arrive(&mut s, frames, now);
                    (0..frames).for_each(|_| waiting.push_back((now, held)));
                }
                3 => s.tick(now),
                _ => {
                    let most = (rng.next_u32() % 33) as usize;
                    let gone = if until > now { 0 } else { waiting.len().min(most) };
                    leave_most(&mut s, most, gone, now);
                    for (_, then) in waiting.drain(..gone) {
                        (sum, left) = (sum + held - then, left + 1);
                        paused += u64::from(held > then);
                    }
                }
            }
            let (total, parts) = parts(&s);
            assert_eq!((total, parts.map(|h| h.count())), (sum, [left; 3]), "seed {seed}");
            assert_eq!(s.pauses(PortId(1)).pause[3].count(), paused, "seed {seed}");
        }
        assert!(paused > 0 && paused < left, "both kinds: {paused} of {left}");
    }
}
