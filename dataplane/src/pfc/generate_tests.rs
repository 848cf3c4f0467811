//! C2, C3, C6, C11, C13 to C15 and the regressions of DEV-24 to DEV-26 and DEV-84 on the generator alone.

use super::super::react::{ReactConfig, Reaction, RxMode};
use super::*;
use proptest::prelude::*;

const G: u64 = 1_000_000_000;
/// At 100G 1000 quanta last 5120 ns; refresh is due after 1920 ns.
const CONFIG: GenerateConfig =
    GenerateConfig { rate: 100 * G, enabled: 0b0001_1000, quanta: 1_000, refresh: REFRESH };

fn new() -> Generator {
    Generator::new(CONFIG)
}

fn peer() -> Reaction {
    let map = std::array::from_fn(|i| i as u8);
    Reaction::new(ReactConfig { rate: CONFIG.rate, enabled: 0xff, mode: RxMode::All, pfc_to_queue: map })
}

#[test]
fn c2_refresh_within_half_the_pause_time_for_ten_seconds() {
    for (rate, quanta) in [(10 * G, 0xffff), (100 * G, 0xffff), (400 * G, 0xffff)] {
        let mut g = Generator::new(GenerateConfig { rate, quanta, ..CONFIG });
        let mut p = Reaction::new(ReactConfig {
            rate,
            enabled: 0xff,
            mode: RxMode::All,
            pfc_to_queue: [0, 1, 2, 3, 4, 5, 6, 7],
        });
        let pause = quanta_to_ns_floor(quanta, rate);
        g.xoff(3, Source::Buffer, None);
        let (mut now, mut last) = (0, None);
        while now < 10 * G {
            let frame = g.poll(now).unwrap();
            assert_eq!(frame, PfcFrame::uniform(8, quanta));
            if let Some(last) = last {
                assert!(now - last <= pause / 2, "{} > {pause} / 2", now - last);
                assert_eq!(p.paused_mask(now), 8, "no gap in which the peer could resume");
            }
            p.on_pfc(&frame, now);
            last = Some(now);
            assert!(g.poll(now).is_none(), "once per deadline");
            now = g.next_deadline();
        }
        assert_eq!(p.transitions(3), 1);
        assert_eq!(g.counters().xoff[3], g.counters().pfc_frames);
    }
}

#[test]
fn c3_xon_is_explicit_and_sent_once() {
    let mut g = new();
    g.xoff(3, Source::Buffer, None);
    assert!(g.due(10));
    g.poll(10).unwrap();
    g.xon(3, Source::Buffer);
    assert_eq!(g.next_deadline(), 0, "at the next opportunity, not at the next refresh");
    assert_eq!(g.poll(20), Some(PfcFrame { enable: 8, time: [0; 8] }));
    for now in [20, 1_930, 5_130, 1_000_000] {
        assert_eq!(g.poll(now), None);
    }
    assert_eq!((g.counters().xoff[3], g.counters().xon[3], g.counters().pfc_frames), (1, 1, 2));
}

#[test]
fn c4_asking_again_changes_nothing() {
    let mut g = new();
    for _ in 0..3 {
        g.xoff(3, Source::Buffer, None);
    }
    g.poll(0).unwrap();
    g.xoff(3, Source::Buffer, None);
    assert_eq!(g.poll(1), None);
    g.xon(3, Source::Buffer);
    g.xon(3, Source::Buffer);
    g.poll(2).unwrap();
    assert_eq!((g.poll(3), g.transitions(3)), (None, 1));
}

#[test]
fn c5_one_frame_carries_everything_that_changed() {
    let mut g = new();
    g.xoff(3, Source::Buffer, None);
    g.xoff(4, Source::Buffer, None);
    assert_eq!(g.poll(0), Some(PfcFrame::uniform(0x18, 1_000)));
    g.xon(3, Source::Buffer);
    let frame = g.poll(1_920).unwrap();
    assert_eq!((frame.enable, frame.time[3], frame.time[4]), (0x18, 0, 1_000), "Xon of 3, refresh of 4");
    assert_eq!(g.paused_mask(), 0x10);
}

#[test]
fn c5_a_change_of_one_priority_does_not_repeat_the_other() {
    let mut g = new();
    g.xoff(3, Source::Buffer, None);
    g.poll(0).unwrap();
    g.xoff(4, Source::Buffer, None);
    assert_eq!(g.poll(1_000).unwrap().enable, 0x10);
    assert_eq!(g.next_deadline(), 1_920);
    assert_eq!(g.poll(1_920).unwrap().enable, 0x08);
    assert_eq!(g.next_deadline(), 2_920);
}

#[test]
fn c6_no_pfc_for_lossy_priorities() {
    let mut g = new();
    for priority in [0, 1, 2, 5, 6, 7] {
        g.xoff(priority, Source::Buffer, None);
        g.xoff(priority, Source::RxRing, None);
    }
    assert_eq!((g.poll(0), g.poll(G), g.counters().pfc_frames), (None, None, 0));
}

#[test]
fn c11_one_lost_refresh_leaves_no_gap() {
    let (mut g, mut p) = (new(), peer());
    g.xoff(3, Source::Buffer, None);
    for n in 0..1_000 {
        // The frame after a lost one may be late by almost a quarter of the pause.
        let late = if n % 2 == 0 { 1_279 } else { 0 };
        let now = if n == 0 { 0 } else { g.next_deadline() + late };
        let frame = g.poll(now).unwrap();
        if n > 0 {
            assert_eq!(p.paused_mask(now), 8, "frame {n}");
        }
        if n % 2 == 0 {
            p.on_pfc(&frame, now);
        }
    }
}

#[test]
fn c13_a_request_and_its_withdrawal_before_a_frame_cost_no_frame() {
    let mut g = new();
    g.xoff(3, Source::Buffer, None);
    g.xon(3, Source::Buffer);
    assert_eq!(g.poll(0), None);
    g.xoff(3, Source::Buffer, None);
    g.poll(100).unwrap();
    g.xon(3, Source::Buffer);
    g.xoff(3, Source::Buffer, None);
    assert_eq!(g.poll(200), None, "the peer is still paused");
    assert_eq!(g.next_deadline(), 2_020, "and refreshed when it was going to be");
}

#[test]
fn c14_link_flap_leaves_no_stale_pause() {
    let mut g = new();
    g.xoff(3, Source::Buffer, None);
    g.xoff(4, Source::Buffer, None);
    g.poll(0).unwrap();
    g.link_down(1_000);
    g.xon(3, Source::Buffer);
    for now in [1_000, 5_000, G] {
        assert_eq!(g.poll(now), None, "no frame is made for a dead link, so none is dropped");
    }
    assert_eq!((g.paused_mask(), g.next_deadline()), (0, NEVER));
    assert_eq!((g.paused_ns(3, G), g.paused_ns(4, G)), (1_000, 1_000));
    g.link_up();
    assert_eq!(g.poll(2 * G).unwrap().enable, 0x10, "what is still over its line is told again");
}

#[test]
fn c15_switching_pfc_off_resumes_the_peer() {
    let mut g = new();
    g.xoff(3, Source::Buffer, None);
    g.poll(0).unwrap();
    g.configure(GenerateConfig { enabled: 0x10, ..CONFIG }, 50);
    assert_eq!(g.poll(100), Some(PfcFrame { enable: 8, time: [0; 8] }));
    g.configure(CONFIG, 150);
    assert_eq!(g.poll(200), Some(PfcFrame::uniform(8, 1_000)), "the request still stands");
    g.configure(GenerateConfig { quanta: 10, ..CONFIG }, 300);
    assert_eq!(g.poll(300), Some(PfcFrame::uniform(8, 10)), "new quanta at once");
    assert_eq!(g.next_deadline(), 319);
}

#[test]
fn xon_waits_for_every_source() {
    let mut g = new();
    let cause = Cause { out_port: 7, queue: 3 };
    g.xoff(3, Source::Buffer, Some(cause));
    g.xoff(3, Source::RxRing, None);
    g.poll(0).unwrap();
    g.xon(3, Source::Buffer);
    assert_eq!((g.poll(1), g.cause(3)), (None, Some(cause)));
    g.xon(3, Source::RxRing);
    assert_eq!(g.poll(2).unwrap().time[3], 0);
    assert_eq!(g.cause(3), None);
}

#[test]
fn paused_time_runs_from_frame_to_frame() {
    let mut g = new();
    g.xoff(3, Source::Buffer, None);
    g.poll(100).unwrap();
    assert_eq!(g.paused_ns(3, 150), 50);
    g.xon(3, Source::Buffer);
    g.poll(400).unwrap();
    assert_eq!((g.paused_ns(3, 9_999), g.last_pause(3), g.transitions(3)), (300, 300, 1));
}

/// Pause above the lower line and resume below the upper one, as the swapped names say it.
fn literal_dev24(depth: u64, xon: u64, xoff: u64, paused: bool) -> bool {
    if depth > xon {
        true
    } else if depth < xoff {
        false
    } else {
        paused
    }
}

/// Xoff is the upper line, Xon the lower one.
fn hysteresis(depth: u64, xon: u64, xoff: u64, paused: bool) -> bool {
    if paused { depth > xon } else { depth > xoff }
}

/// Frames made while the depth swings across one or two lines, one step per call.
fn frames(depths: impl Iterator<Item = u64>, rule: impl Fn(u64, bool) -> bool) -> u64 {
    let (mut g, mut paused) = (Generator::new(GenerateConfig { quanta: 0xffff, ..CONFIG }), false);
    for (now, depth) in depths.enumerate() {
        paused = rule(depth, paused);
        match paused {
            true => g.xoff(3, Source::Buffer, None),
            false => g.xon(3, Source::Buffer),
        }
        g.poll(now as Nanos);
    }
    g.counters().pfc_frames
}

#[test]
fn dev24_swapped_names() {
    let (xon, xoff) = (650, 850);
    let rising = |rule: fn(u64, u64, u64, bool) -> bool| {
        let mut paused = false;
        (0..1_000).find(|d| {
            paused = rule(*d, xon, xoff, paused);
            paused
        })
    };
    assert_eq!(rising(literal_dev24), Some(651), "the seed pauses at the line it calls go");
    assert_eq!(rising(hysteresis), Some(851), "Xoff is where sending stops");
    let swing = || (0..1_000u64).map(|n| if n % 2 == 0 { 649 } else { 651 });
    assert_eq!(frames(swing(), |d, p| literal_dev24(d, xon, xoff, p)), 999, "and flaps there");
    assert_eq!(frames(swing(), |d, p| hysteresis(d, xon, xoff, p)), 0);
}

#[test]
fn dev84_one_threshold_oscillates() {
    let swing = || (0..1_000u64).map(|n| if n % 2 == 0 { 849 } else { 851 });
    assert_eq!(frames(swing(), |d, _| d > 850), 999, "stop and go with every frame");
    assert_eq!(frames(swing(), |d, p| hysteresis(d, 650, 850, p)), 1, "one Xoff");
}

#[test]
fn dev25_only_the_port_that_asks_is_paused() {
    // Two input ports: the bytes over the line belong to port 0. The seed pauses both.
    let mut ports = [new(), new()];
    ports[0].xoff(3, Source::Buffer, Some(Cause { out_port: 2, queue: 3 }));
    assert!(ports[0].poll(0).is_some());
    assert_eq!((ports[1].poll(0), ports[1].paused_mask()), (None, 0), "the innocent input goes on");
}

#[test]
fn dev26_refresh_comes_before_expiry_whatever_the_poll() {
    // A pause left alone runs out after 5120 ns; the deadline says when to come back instead of a period.
    let (mut g, mut p) = (new(), peer());
    g.xoff(3, Source::Buffer, None);
    p.on_pfc(&g.poll(0).unwrap(), 0);
    assert!(g.next_deadline() < p.next_expiry());
    assert_eq!(p.clone().paused_mask(5_120), 0, "without refresh");
    let at = g.next_deadline();
    p.on_pfc(&g.poll(at).unwrap(), at);
    assert_eq!(p.paused_mask(5_120), 8, "with it");
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Xoff(usize, Source),
    Xon(usize, Source),
    Link(bool),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let source = prop_oneof![Just(Source::Buffer), Just(Source::RxRing)];
    prop_oneof![
        4 => (0usize..8, source.clone()).prop_map(|(p, s)| Op::Xoff(p, s)),
        4 => (0usize..8, source).prop_map(|(p, s)| Op::Xon(p, s)),
        1 => any::<bool>().prop_map(Op::Link),
        6 => (0u64..3_000).prop_map(Op::Wait),
    ]
}

proptest! {
    /// Any requests: a peer that hears every frame is paused exactly where somebody asks, at every event.
    #[test]
    fn c2_c3_the_peer_is_always_in_the_state_that_is_asked_for(ops in prop::collection::vec(op(), 0..200)) {
        let (mut g, mut p) = (new(), peer());
        let (mut asked, mut up) = ([[false; 2]; 8], true);
        let mut now = 1;
        for op in ops {
            match op {
                Op::Xoff(prio, source) => {
                    asked[prio][source as usize - 1] = true;
                    g.xoff(prio, source, None);
                }
                Op::Xon(prio, source) => {
                    asked[prio][source as usize - 1] = false;
                    g.xon(prio, source);
                }
                Op::Link(true) => {
                    up = true;
                    g.link_up();
                }
                Op::Link(false) => {
                    up = false;
                    g.link_down(now);
                    p.link_down(now);
                }
                Op::Wait(ns) => {
                    let end = now + ns;
                    // As a simulator would: come back at every deadline.
                    while g.next_deadline() <= end {
                        now = now.max(g.next_deadline());
                        p.on_pfc(&g.poll(now).unwrap(), now);
                    }
                    now = end;
                }
            }
            while let Some(frame) = g.poll(now) {
                prop_assert_ne!(frame.enable, 0, "no empty frames");
                p.on_pfc(&frame, now);
            }
            let asks = (0..8).fold(0, |m, i| m | u8::from(asked[i] != [false; 2]) << i);
            let want = if up { asks & CONFIG.enabled } else { 0 };
            prop_assert_eq!(p.paused_mask(now), want);
            prop_assert_eq!(g.paused_mask(), want);
        }
        for priority in 0..8 {
            prop_assert_eq!(g.paused_ns(priority, now), p.paused_ns(priority, now));
            prop_assert_eq!(g.transitions(priority), p.transitions(priority));
            prop_assert_eq!(g.counters().xoff[priority], p.counters().xoff[priority]);
            prop_assert_eq!(g.counters().xon[priority], p.counters().xon[priority]);
        }
    }
}

#[test]
fn the_last_cause_outlives_its_pause() {
    let mut g = new();
    let cause = Cause { out_port: 255, queue: 7 };
    g.xoff(3, Source::Buffer, Some(cause));
    g.xon(3, Source::Buffer);
    assert_eq!(g.last_cause(3), LastCause::Never, "the peer was not told");
    g.xoff(3, Source::Buffer, Some(cause));
    g.poll(0).unwrap();
    g.xon(3, Source::Buffer);
    g.poll(1).unwrap();
    assert_eq!((g.cause(3), g.last_cause(3)), (None, LastCause::Queue(cause)));
    // Without PFC there is nobody to tell, until there is.
    for priority in [2, 3] {
        g.xoff(priority, Source::RxRing, None);
    }
    g.poll(2).unwrap();
    assert_eq!([g.last_cause(2), g.last_cause(3)], [LastCause::Never, LastCause::NoQueue]);
    g.configure(GenerateConfig { enabled: 0xff, ..CONFIG }, 3);
    g.poll(4).unwrap();
    assert_eq!(g.last_cause(2), LastCause::NoQueue);
    for known in [LastCause::Never, LastCause::NoQueue, LastCause::Queue(cause)] {
        assert_eq!(LastCause::of_word(known.word()), known);
    }
}
