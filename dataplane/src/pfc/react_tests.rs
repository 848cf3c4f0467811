//! D3 to D9, D15, C14 and the regressions of DEV-23 and DEV-80 on the reaction alone.

use super::*;
use crate::types::Mac;
use proptest::prelude::*;

const G: u64 = 1_000_000_000;
/// One quantum at 100G is 5.12 ns, so 100 quanta are exactly 512 ns.
const CONFIG: ReactConfig = ReactConfig {
    rate: 100 * G,
    enabled: 0b0001_1000,
    mode: RxMode::Enabled,
    pfc_to_queue: [0, 1, 2, 3, 4, 5, 6, 7],
};

fn pfc(mask: u8, quanta: u16) -> PfcFrame {
    PfcFrame::uniform(mask, quanta)
}

#[test]
fn d2_vector_with_several_bits() {
    let mut r = Reaction::new(CONFIG);
    r.on_pfc(&pfc(0x18, 100), 1_000);
    assert_eq!((r.paused_mask(1_000), r.paused_queues(1_000)), (0x18, 0x18));
}

#[test]
fn d3_pause_of_a_lossy_priority() {
    for (mode, paused) in [(RxMode::Enabled, 0x18), (RxMode::All, 0xff), (RxMode::None, 0)] {
        let mut r = Reaction::new(ReactConfig { mode, ..CONFIG });
        r.on_pfc(&pfc(0xff, 100), 0);
        assert_eq!(r.paused_mask(1), paused, "{mode:?}");
        assert_eq!(r.counters().xoff, [1; 8], "counted all the same");
    }
}

#[test]
fn d4_vector_zero_is_ignored() {
    let mut r = Reaction::new(CONFIG);
    r.on_pfc(&PfcFrame { enable: 0, time: [0xffff; 8] }, 0);
    assert_eq!((r.paused_mask(1), r.next_expiry()), (0, NEVER));
    assert_eq!((r.counters().pfc_frames, r.counters().xoff, r.counters().xon), (1, [0; 8], [0; 8]));
}

#[test]
fn d5_time_zero_resumes_at_once() {
    let mut r = Reaction::new(CONFIG);
    r.on_pfc(&pfc(0x18, 0xffff), 1_000);
    r.on_pfc(&pfc(0x08, 0), 1_300);
    assert_eq!(r.paused_mask(1_300), 0x10, "only the priority that was named");
    assert_eq!(r.paused_ns(3, 5_000), 300);
}

#[test]
fn d6_expiry_is_exact() {
    for (rate, quanta, ns) in [(100 * G, 100, 512), (10 * G, 1, 52), (G, 0xffff, 33_553_920)] {
        let mut r = Reaction::new(ReactConfig { rate, ..CONFIG });
        r.on_pfc(&pfc(0x08, quanta), 7);
        assert_eq!(r.next_expiry(), 7 + ns);
        assert_eq!(r.paused_mask(7 + ns - 1), 0x08, "not earlier");
        assert_eq!(r.paused_mask(7 + ns), 0, "not later");
        assert_eq!((r.paused_queues(7 + ns), r.next_expiry()), (0, NEVER));
    }
}

#[test]
fn d7_the_last_frame_wins() {
    let mut r = Reaction::new(CONFIG);
    r.on_pfc(&pfc(0x08, 0xffff), 0);
    r.on_pfc(&pfc(0x08, 100), 1_000);
    assert_eq!(r.next_expiry(), 1_512, "long, then short");
    r.on_pfc(&pfc(0x08, 1_000), 1_100);
    assert_eq!(r.next_expiry(), 1_100 + 5_120, "short, then long");
    assert_eq!(r.transitions(3), 1, "one pause all along");
}

#[test]
fn d8_global_pause_stops_nothing_unless_link_pause_is_on() {
    let frame = PauseFrame { quanta: 100 };
    for mode in [RxMode::None, RxMode::Enabled, RxMode::All] {
        let mut r = Reaction::new(ReactConfig { mode, ..CONFIG });
        r.receive(&frame.encode(Mac::default()), 0);
        assert_eq!(r.paused_mask(1), 0, "{mode:?}");
        assert_eq!((r.counters().pause_frames, r.counters().pfc_frames), (1, 0));
        assert_eq!(r.counters().xoff, [0; 8]);
    }
    let mut r = Reaction::new(ReactConfig { mode: RxMode::Link, pfc_to_queue: [0; 8], ..CONFIG });
    r.on_pfc(&pfc(0xff, 100), 0);
    assert_eq!(r.paused_mask(1), 0, "PFC does not stop a port with link pause");
    r.on_pause(frame, 0);
    assert_eq!((r.paused_mask(511), r.paused_queues(511)), (0xff, 0xff), "every queue");
    assert_eq!(r.queue_paused_since(7, 511), Some(0));
    assert_eq!(r.paused_mask(512), 0);
    r.on_pause(frame, 600);
    r.on_pause(PauseFrame { quanta: 0 }, 700);
    assert_eq!(r.paused_queues(700), 0);
}

#[test]
fn d9_ten_frames_per_priority() {
    for quanta in [0xffff, 0] {
        for priority in 0..8 {
            let mut r = Reaction::new(CONFIG);
            for n in 0..10 {
                r.receive(&pfc(1 << priority, quanta).encode(Mac::default()), n);
            }
            let c = r.counters();
            let only = std::array::from_fn(|p| if p == priority { 10 } else { 0 });
            let (counted, other) = if quanta == 0 { (c.xon, c.xoff) } else { (c.xoff, c.xon) };
            assert_eq!((counted, other), (only, [0; 8]));
        }
    }
}

#[test]
fn d11_invalid_frames_are_counted_and_pause_nothing() {
    let mut r = Reaction::new(ReactConfig { mode: RxMode::All, ..CONFIG });
    let mut bytes = pfc(0xff, 0xffff).encode(Mac::default());
    assert!(matches!(r.receive(&bytes[..59], 0), Control::Invalid(Invalid::TooShort)));
    bytes[16] = 1;
    r.receive(&bytes, 0);
    assert_eq!((r.paused_mask(1), r.counters().pfc_frames), (0, 0));
    assert_eq!(r.counters().invalid, [1, 0, 0, 0, 0, 1]);
}

#[test]
fn d15_pause_time_is_the_sum_of_effective_pause() {
    let mut r = Reaction::new(CONFIG);
    r.on_pfc(&pfc(0x08, 100), 0); // would end at 512
    assert_eq!(r.paused_ns(3, 200), 200, "running");
    r.on_pfc(&pfc(0x08, 100), 300); // goes on to 812
    assert_eq!(r.paused_ns(3, 9_000), 812, "nobody asked in between, and still exact");
    r.on_pfc(&pfc(0x08, 100), 10_000);
    r.on_pfc(&pfc(0x08, 0), 10_100);
    r.on_pfc(&pfc(0x08, 0), 10_200);
    assert_eq!((r.paused_ns(3, 20_000), r.transitions(3), r.last_pause(3)), (912, 2, 100));
    assert_eq!((r.paused_ns(4, 20_000), r.transitions(4)), (0, 0));
}

#[test]
fn a6_priority_to_queue_map() {
    let mut r = Reaction::new(ReactConfig { pfc_to_queue: [0, 0, 0, 6, 5, 0, 0, 0], ..CONFIG });
    r.on_pfc(&pfc(0x08, 100), 0);
    assert_eq!((r.paused_mask(1), r.paused_queues(1)), (0x08, 0x40));
    assert_eq!((r.queue_paused_since(6, 1), r.queue_paused_since(3, 1)), (Some(0), None));
    assert_eq!((r.queue_last_frame(6), r.queue_last_frame(5)), (Some(0), None));
    assert_eq!(r.queue_paused_since(6, 512), None, "expired although nobody asked");
}

#[test]
fn c14_link_down_forgets_the_peer() {
    let mut r = Reaction::new(CONFIG);
    r.on_pfc(&pfc(0x18, 0xffff), 100);
    r.link_down(150);
    assert_eq!((r.paused_queues(150), r.next_expiry()), (0, NEVER));
    assert_eq!((r.paused_ns(3, 1_000_000), r.queue_last_frame(3)), (50, None));
    assert_eq!(r.counters().xoff[3], 1, "counters only grow");
}

#[test]
fn new_settings_resume_what_is_no_longer_obeyed() {
    let mut r = Reaction::new(CONFIG);
    r.on_pfc(&pfc(0x18, 100), 0);
    r.configure(ReactConfig { enabled: 0x10, ..CONFIG }, 100);
    assert_eq!((r.paused_mask(100), r.next_expiry()), (0x10, 512));
    assert_eq!(r.paused_ns(3, 9_999), 100);
    r.configure(ReactConfig { mode: RxMode::Link, ..CONFIG }, 200);
    assert_eq!(r.paused_mask(200), 0, "a PFC pause means nothing to a link-pause port");
}

/// The formula as it was written: set on any frame, count down, resume at zero.
struct CountDown {
    paused: bool,
    timer: i64,
}

impl CountDown {
    fn frame(&mut self, quanta: u16) {
        self.paused = true;
        self.timer = i64::from(quanta);
    }

    fn quantum(&mut self) {
        if self.paused {
            self.timer -= 1;
            if self.timer == 0 {
                self.paused = false;
            }
        }
    }
}

#[test]
fn dev23_permanent_pause() {
    let mut literal = CountDown { paused: false, timer: 0 };
    let mut ours = Reaction::new(CONFIG);
    literal.frame(100);
    ours.on_pfc(&pfc(0x08, 100), 0);
    literal.frame(0);
    ours.on_pfc(&pfc(0x08, 0), 10);
    assert_eq!(ours.paused_mask(10), 0);
    for _ in 0..100_000 {
        literal.quantum();
    }
    assert!(literal.paused, "counting down from a resume never meets zero");
    assert_eq!(ours.paused_mask(10 + 512_000), 0);
}

#[test]
fn dev80_clear_bit_leaves_a_paused_priority_alone() {
    let mut r = Reaction::new(CONFIG);
    r.on_pfc(&pfc(0x08, 1_000), 0);
    r.on_pfc(&PfcFrame { enable: 0x10, time: [0; 8] }, 100);
    assert_eq!(r.paused_mask(100), 0x08, "E(3) = 0 does not release priority 3");
    assert_eq!(r.next_expiry(), 5_120);
}

/// The same rules, per priority, asked at every nanosecond.
#[derive(Default)]
struct Slow {
    until: [Nanos; 8],
    total: [Nanos; 8],
    on: [bool; 8],
    transitions: [u64; 8],
}

proptest! {
    /// Any frames at any times: mask, next expiry, pause time and transitions agree with a model that steps
    /// through every nanosecond.
    #[test]
    fn d6_d7_d15_against_a_stepping_model(
        script in prop::collection::vec((0u64..40, any::<u8>(), prop::array::uniform8(0u16..6)), 0..40),
        obeyed: u8, ask in 1u64..20,
    ) {
        let mut r = Reaction::new(ReactConfig { rate: 100 * G, enabled: obeyed, ..CONFIG });
        let mut slow = Slow::default();
        let (mut at, mut script) = (0, script.into_iter().peekable());
        if let Some((gap, ..)) = script.peek() {
            at = *gap;
        }
        for now in 0..1_800u64 {
            for p in 0..8 {
                slow.on[p] &= now < slow.until[p];
            }
            while let Some((_, enable, time)) = script.next_if(|_| at == now) {
                r.on_pfc(&PfcFrame { enable, time }, now);
                for p in bits(enable & obeyed) {
                    let on = time[p] != 0;
                    slow.transitions[p] += u64::from(on && !slow.on[p]);
                    slow.on[p] = on;
                    slow.until[p] = now + (u64::from(time[p]) * 512).div_ceil(100);
                }
                at += script.peek().map_or(0, |(gap, ..)| *gap);
            }
            let mask = (0..8).fold(0, |m, p| m | u8::from(slow.on[p]) << p);
            if now.is_multiple_of(ask) {
                prop_assert_eq!(r.queues_paused_at(now), mask, "a reader before anything expires, at {}", now);
                prop_assert_eq!(r.paused_mask(now), mask, "at {}", now);
                prop_assert_eq!(r.paused_queues(now), mask);
                let next = bits(mask).map(|p| slow.until[p]).min().unwrap_or(NEVER);
                prop_assert_eq!(r.next_expiry(), next);
            }
            for p in 0..8 {
                prop_assert_eq!(r.paused_ns(p, now), slow.total[p], "priority {} at {}", p, now);
                slow.total[p] += u64::from(slow.on[p]);
            }
        }
        for p in 0..8 {
            prop_assert_eq!(r.transitions(p), slow.transitions[p]);
        }
    }
}

#[test]
fn a_queue_is_held_once_however_many_priorities_share_it() {
    let mut r = Reaction::new(ReactConfig { pfc_to_queue: [0, 1, 2, 3, 3, 5, 6, 7], ..CONFIG });
    // 100 to 612 and 300 to 812, asked about long after both have run out.
    r.on_pfc(&pfc(0x08, 100), 100);
    r.on_pfc(&pfc(0x10, 100), 300);
    assert_eq!([99, 100, 250, 612, 811].map(|now| r.held_ns(3, now)), [0, 0, 150, 512, 711]);
    assert!(r.holds(3, 811) && !r.holds(3, 812));
    assert_eq!((r.held_ns(3, 5_000), r.held_ns(4, 5_000)), (712, 0));
    assert_eq!([811, 812, 5_000].map(|now| r.queues_paused_at(now)), [0x08, 0, 0], "before anything expires");
    assert_eq!(r.paused_queues(5_000), 0);
    assert_eq!((r.held_ns(3, 5_000), r.paused_ns(3, 5_000), r.paused_ns(4, 5_000)), (712, 512, 512));
}

#[test]
fn time_in_which_a_pause_is_ignored_is_not_held() {
    let mut r = Reaction::new(CONFIG);
    r.on_pfc(&pfc(0x08, 1000), 0);
    r.ignore(0x08, 100);
    assert_eq!((r.held_ns(3, 900), r.holds(3, 900), r.paused_queues(900)), (100, false, 0x08));
    r.ignore(0, 1_000);
    assert_eq!((r.held_ns(3, 1_500), r.holds(3, 1_500)), (600, true));
    r.link_down(1_600);
    assert_eq!((r.held_ns(3, 9_999), r.holds(3, 1_600)), (700, false));
}

proptest! {
    /// Whatever is said and whenever it is asked, `held_ns` is the number of ns in which a queue was paused and its
    /// pause obeyed, counted one by one.
    #[test]
    fn held_time_is_what_counting_gives(
        steps in proptest::collection::vec((1u64..400, 0u8..12, any::<u8>(), 0u16..60), 1..40),
    ) {
        let map = [0, 1, 2, 3, 3, 3, 6, 6];
        let mut r = Reaction::new(ReactConfig { mode: RxMode::All, pfc_to_queue: map, ..CONFIG });
        let (mut until, mut ignored, mut counted, mut now) = ([0u64; 8], 0u8, [0u64; 8], 0);
        for (pass, what, mask, quanta) in steps {
            for ns in now..now + pass {
                let paused = (0..8).filter(|p| until[*p] > ns).fold(0u8, |q, p| q | 1 << map[p]) & !ignored;
                bits(paused).for_each(|queue| counted[queue] += 1);
            }
            now += pass;
            prop_assert_eq!(std::array::from_fn::<_, 8, _>(|q| r.held_ns(q, now)), counted);
            match what {
                0..=6 => {
                    r.on_pfc(&pfc(mask, quanta), now);
                    bits(mask).for_each(|p| until[p] = now + quanta_to_ns(quanta, 100 * G));
                }
                7 | 8 => {
                    ignored = mask;
                    r.ignore(mask, now);
                }
                9 => {
                    until = [0; 8];
                    r.link_down(now);
                }
                _ => prop_assert_eq!(r.paused_mask(now), (0..8).fold(0, |m, p| m | u8::from(until[p] > now) << p)),
            }
            prop_assert_eq!(std::array::from_fn::<_, 8, _>(|q| r.held_ns(q, now)), counted);
        }
    }
}
