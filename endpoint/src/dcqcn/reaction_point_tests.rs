use super::*;
use crate::roce::cnp::NotificationPoint;
use crate::roce::pacer::Pacer;
use proptest::prelude::*;
use std::collections::VecDeque;

const G40: u64 = 40_000_000_000;

fn flow(change: impl Fn(&mut Params)) -> RateControl {
    let mut params = Params::paper(G40);
    change(&mut params);
    RateControl::new(params, 0).unwrap()
}

fn shown(flow: &RateControl) -> u16 {
    flow.registers(0).alpha()
}

/// The seed's formula in the seed's ten integer bits (DEV-47).
fn literal_register(alpha: u32, g: u32) -> u32 {
    ((1024 - g) * alpha + g) / 1024
}

/// The right formula, still in ten integer bits (DEV-43).
fn narrow_register(alpha: u32, g: u32) -> u32 {
    (((1024 - g) * alpha + 1024 * g) / 1024).min(1023)
}

#[test]
fn dev_47_the_literal_seed_formula_loses_alpha_under_continuous_cnps() {
    let after = |n: u32| (0..n).fold(1023, |alpha, _| literal_register(alpha, 4));
    assert_eq!([after(100), after(500), after(1000)], [659, 33, 1]);
    let mut right = flow(|p| p.cut_period = 0);
    let mut literal = right.clone();
    literal.literal_alpha = true;
    for n in 1..=3000 {
        right.on_cnp(n * 1000);
        literal.on_cnp(n * 1000);
        assert_eq!(shown(&right), 1023);
    }
    // With 30 bits the literal formula ends the same way, only later: its fixed point is 1/1024.
    assert_eq!(shown(&literal), 1);
}

#[test]
fn dev_43_ten_integer_bits_stall_at_three_quarters_and_thirty_do_not() {
    let stalled = (0..100_000).fold(0, |alpha, _| narrow_register(alpha, 4));
    assert_eq!(stalled, 769);
    let mut wide = flow(|p| {
        p.cut_period = 0;
        p.initial_alpha = 0;
    });
    for n in 0..4000 {
        wide.on_cnp(n);
    }
    assert_eq!(shown(&wide), 1023);
}

#[test]
fn dev_43_alpha_decays_like_the_exponential() {
    // Ten integer bits reach zero after 533 periods; (1 - g)^n falls below 1/1024 after 1771.
    let narrow = (1..).scan(1023, |a, _| Some(std::mem::replace(a, 1020 * *a / 1024)));
    assert_eq!(narrow.take_while(|&a| a > 0).count(), 533);
    let mut flow = flow(|_| {});
    flow.on_cnp(0);
    assert_eq!(shown(&flow), 1023);
    let mut periods = 0;
    while shown(&flow) > 0 {
        periods += 1;
        flow.handle_timeout(periods * 55_000);
    }
    assert!((1770..=1773).contains(&periods), "{periods}");
    // It ends: a quiet flow asks for no more wake-ups.
    flow.handle_timeout(u64::MAX / 2);
    assert_eq!(flow.next_timeout(), None);
}

#[test]
fn a_gain_of_zero_freezes_alpha() {
    let mut flow = flow(|p| {
        p.gain = 0;
        p.initial_alpha = 512;
    });
    flow.on_cnp(0);
    assert_eq!(shown(&flow), 512);
    assert_eq!(flow.rate(), 30_000_000_000); // a quarter less
    flow.handle_timeout(54_999);
    flow.handle_timeout(1_000_000);
    assert_eq!(shown(&flow), 512);
}

#[test]
fn a_cut_remembers_the_rate_before_it_and_is_bounded() {
    // DEV-46: target = rate before the cut. DEV-42: shift 1 halves at alpha 1.
    let mut paper = flow(|_| {});
    paper.on_cnp(0);
    assert_eq!(paper.target(), G40);
    assert_eq!(paper.rate(), G40 - G40 * 1023 / 2048);
    // With shift 0 one cut would leave 0.1 %; it leaves half.
    let mut steep = flow(|p| p.rate_shift = 0);
    steep.on_cnp(0);
    assert_eq!(steep.rate(), G40 / 2);
    // The lowest rate holds.
    for n in 1..200 {
        steep.on_cnp(n * 50_000);
    }
    assert_eq!(steep.rate(), 10_000_000);
}

#[test]
fn cc_004_one_cut_per_period_however_many_cnps() {
    let mut merged = flow(|p| p.cut_period = 50_000);
    let mut single = merged.clone();
    single.on_cnp(0);
    for now in [0, 1, 49_999] {
        merged.on_cnp(now);
    }
    assert_eq!(merged.rate(), single.rate());
    merged.on_cnp(50_000);
    assert!(merged.rate() < single.rate());
}

#[test]
fn the_paper_cuts_and_raises_alpha_at_every_cnp_however_early() {
    // CNPs of a notification point with an interval of 50 us, as jitter lets them arrive.
    let mut flow = flow(|_| {});
    let mut alpha = 1.0 - 1.0 / 256.0 * 0.25; // 1023/1024
    let mut rate = G40 as f64;
    for (n, now) in [0, 49_990, 99_999, 99_999, 150_002].into_iter().enumerate() {
        flow.on_cnp(now);
        // Rt = Rc, Rc = Rc (1 - a/2), a = (1 - g) a + g.
        rate *= 1.0 - alpha / 2.0;
        alpha = alpha * 255.0 / 256.0 + 1.0 / 256.0;
        let off = (flow.rate() as f64 / rate - 1.0).abs();
        assert!(off < 0.001, "CNP {n}: {} {rate}", flow.rate());
    }
}

#[test]
fn dev_46_stages_follow_the_counters() {
    let mut flow = flow(|p| p.stages = 2);
    flow.on_cnp(0);
    flow.start_trace();
    let at = |n: u64| n * 55_000;
    flow.handle_timeout(at(1)); // T=1: max < 2
    flow.handle_timeout(at(2)); // T=2: additive
    flow.on_sent(9_999_999, at(2));
    flow.on_sent(1, at(2)); // B=1: max is 2, additive
    flow.on_sent(20_000_000, at(2)); // B=2, B=3: min is 2, additive
    flow.handle_timeout(at(3)); // T=3, B=3: hyper
    flow.on_sent(10_000_000, at(3)); // B=4: hyper
    let trace = flow.stop_trace().unwrap();
    use Cause::*;
    let causes: Vec<Cause> = trace.entries().iter().map(|e| e.cause).collect();
    let expected =
        [TimerFastRecovery, TimerAdditive, ByteAdditive, ByteAdditive, ByteAdditive, TimerHyper, ByteHyper];
    assert_eq!(causes, expected);
    assert_eq!(causes.iter().map(|&c| c as u8).collect::<Vec<_>>(), [5, 7, 3, 3, 3, 6, 2]);
    assert_eq!(trace.initial().target, G40);
    // A cut starts over.
    flow.on_cnp(at(4));
    flow.start_trace();
    flow.handle_timeout(at(5) - 1);
    assert!(flow.stop_trace().unwrap().entries().is_empty());
    flow.start_trace();
    flow.handle_timeout(at(5));
    assert_eq!(flow.stop_trace().unwrap().entries()[0].cause, TimerFastRecovery);
}

#[test]
fn dev_45_the_target_moves_first_and_dev_40_the_rate_reaches_it() {
    let mut flow = flow(|p| p.stages = 1);
    flow.on_cnp(0);
    flow.on_cnp(50_000);
    let (rate, target) = (flow.rate(), flow.target());
    flow.handle_timeout(105_000);
    assert_eq!(flow.target(), target + 40_000_000);
    assert_eq!(flow.rate(), rate + (target + 40_000_000 - rate).div_ceil(2));
    let end = 200_000_000;
    flow.handle_timeout(end);
    assert_eq!((flow.rate(), flow.target()), (G40, G40));
    // At full rate nothing counts and the increase timer rests.
    flow.on_sent(1 << 40, end);
    assert_eq!(flow.registers(0).read(crate::dcqcn::registers::Register::ByteCounter), 0);
}

#[test]
fn connectx_target_is_clamped_only_after_a_timer_increase() {
    let params = Params::connectx(G40);
    let mut flow = RateControl::new(params, 0).unwrap();
    flow.on_cnp(0);
    flow.handle_timeout(4_000);
    let once = flow.rate();
    flow.on_cnp(5_000);
    flow.handle_timeout(8_000);
    assert!(flow.rate() < once);
    assert_eq!(flow.target(), G40); // two cuts in a row: the second keeps the target
    flow.handle_timeout(308_000);
    let before = flow.rate();
    assert!(before > once, "an increase");
    flow.on_cnp(309_000);
    flow.handle_timeout(312_000);
    assert_eq!(flow.target(), before);
}

/// A ConnectX flow and the sender of the HPCC simulator, whose variant it is, fed the same CNPs, and the latter
/// with its own timers.
fn beside_hpcc(cnps: &[Nanos], end: Nanos) -> [(u64, f64); 2] {
    use crate::dcqcn::ns3::{Params as Theirs, Sender, Timer, Timers};
    use std::num::NonZeroU64;

    #[derive(Default)]
    struct Due([Option<Nanos>; 3]);
    impl Timers for Due {
        fn arm(&mut self, timer: Timer, at: Nanos) {
            self.0[timer as usize] = Some(at);
        }
    }
    let mut ours = RateControl::new(Params { byte_threshold: u64::MAX, ..Params::connectx(G40) }, 0).unwrap();
    let period = |ns| NonZeroU64::new(ns).unwrap();
    let params = Theirs {
        line_bps: G40,
        g: 5.0 / 1024.0,
        alpha_period: period(1_000),
        decrease_period: period(4_000),
        increase_period: period(300_000),
        fast_recovery_steps: 1,
        ai_bps: 5_000_000,
        hai_bps: 5_000_000,
        min_rate_bps: 1_000_000,
        clamp_target: false,
        rate_on_first_cnp: 1.0,
    };
    let (mut theirs, mut due) = (Sender::new(&params), Due::default());
    let mut cnps = cnps.iter().copied().peekable();
    for now in 0..=end {
        while let Some(at) = due.0.iter().flatten().min().copied().filter(|at| *at <= now) {
            let timer = [Timer::Alpha, Timer::Decrease, Timer::Increase]
                .into_iter()
                .find(|timer| due.0[*timer as usize] == Some(at))
                .unwrap();
            due.0[timer as usize] = None;
            theirs.on_timer(&params, timer, at, &mut due);
        }
        ours.handle_timeout(now);
        if cnps.next_if_eq(&now).is_some() {
            theirs.on_cnp(&params, now, &mut due);
            ours.on_cnp(now);
        }
    }
    [(ours.rate(), f64::from(shown(&ours)) / 1024.0), (theirs.rate_bps(), theirs.alpha())]
}

#[test]
fn connectx_alpha_and_cuts_follow_the_periods_of_its_published_model() {
    // Times that fall on no boundary of a period: at one, the two differ by a nanosecond on purpose.
    let single = [100];
    let burst: Vec<Nanos> = (0..30).map(|n| 100 + n * 2_310).collect();
    let sparse: Vec<Nanos> = (0..40).map(|n| 100 + n * 23_450).collect();
    for cnps in [&single[..], &burst, &sparse] {
        let [ours, theirs] = beside_hpcc(cnps, 1_500_000);
        assert!((ours.1 - theirs.1).abs() < 0.002, "alpha {ours:?} {theirs:?}");
        assert!(ours.0.abs_diff(theirs.0) < theirs.0 / 100, "rate {ours:?} {theirs:?}");
    }
}

#[test]
fn connectx_cuts_at_the_end_of_a_period_with_a_cnp_and_the_paper_at_once() {
    let mut mlx = RateControl::new(Params::connectx(G40), 0).unwrap();
    mlx.on_cnp(1_000);
    assert_eq!((mlx.rate(), mlx.next_timeout()), (G40, Some(2_000)));
    mlx.handle_timeout(4_999);
    assert_eq!(mlx.rate(), G40);
    mlx.handle_timeout(5_000);
    let first = mlx.rate();
    assert!(first < G40 * 6 / 10, "{first}");
    // Two in one period are one cut; in a period without one there is none.
    mlx.on_cnp(5_500);
    mlx.on_cnp(6_000);
    mlx.handle_timeout(9_000);
    let second = mlx.rate();
    assert!(second < first);
    mlx.handle_timeout(30_000);
    assert_eq!(mlx.rate(), second);
    // Periods go on from the first CNP: 1 + 8 * 4 us.
    mlx.on_cnp(30_500);
    mlx.handle_timeout(32_999);
    assert_eq!(mlx.rate(), second);
    mlx.handle_timeout(33_000);
    assert!(mlx.rate() < second);
    let zero = Params { cut_period: 0, ..Params::connectx(G40) };
    assert_eq!(RateControl::new(zero, 0).err(), Some(ParamError::CutPeriod));
}

#[test]
fn cc_017_a_flow_that_starts_slow_rises_without_a_cut() {
    let mut flow = flow(|p| {
        p.initial_rate = 1_000_000_000;
        p.first_cnp_rate = Some(500_000_000);
    });
    assert_eq!(flow.next_timeout(), Some(55_000));
    flow.handle_timeout(55_000 * 10);
    assert!(flow.rate() > 1_000_000_000);
    flow.on_cnp(600_000);
    assert_eq!(flow.rate(), 500_000_000);
}

#[test]
fn time_may_pass_in_one_step_or_in_many() {
    let mut one = flow(|_| {});
    one.on_cnp(0);
    let mut many = one.clone();
    one.handle_timeout(10_000_000);
    (0..=10_000).for_each(|us| many.handle_timeout(us * 1000));
    assert_eq!((one.rate(), one.target(), one.alpha), (many.rate(), many.target(), many.alpha));
    assert_eq!(one.next_timeout(), many.next_timeout());
}

#[test]
fn contradictory_parameters_are_refused() {
    let refuse = |change: &dyn Fn(&mut Params)| {
        let mut params = Params::paper(G40);
        change(&mut params);
        RateControl::new(params, 0).map(|_| ()).unwrap_err()
    };
    assert_eq!(refuse(&|p| p.gain = 1025), ParamError::Gain(1025));
    assert_eq!(refuse(&|p| p.initial_alpha = 1024), ParamError::Alpha(1024));
    assert_eq!(refuse(&|p| p.rate_shift = 11), ParamError::Shift(11));
    assert_eq!(refuse(&|p| p.increase_period = 0), ParamError::Zero("increase_period"));
    assert_eq!(refuse(&|p| p.min_left_percent = 101), ParamError::Percent(101));
    assert!(matches!(refuse(&|p| p.min_rate = 0), ParamError::Rates { .. }));
    assert!(matches!(refuse(&|p| p.initial_rate = G40 + 1), ParamError::Rates { .. }));
    assert!(RateControl::new(Params::connectx(G40), 0).is_ok());
}

proptest! {
    /// Whatever happens in whatever order, rates stay in bounds and in order, and time is never owed.
    #[test]
    fn rates_stay_in_bounds(
        connectx: bool, initial in 1u64..100, first in prop::option::of(1u64..100),
        steps in prop::collection::vec((0u64..400_000, 0u8..3, 0u64..30_000_000), 1..200),
    ) {
        let params = if connectx { Params::connectx(G40) } else { Params::paper(G40) };
        let share = |percent| G40 / 100 * percent;
        let params = Params { initial_rate: share(initial), first_cnp_rate: first.map(share), ..params };
        let mut flow = RateControl::new(params, 0).unwrap();
        let mut now = 0;
        for (wait, what, bytes) in steps {
            now += wait;
            flow.handle_timeout(now);
            match what {
                0 => flow.on_cnp(now),
                1 => flow.on_sent(bytes, now),
                _ => {}
            }
            prop_assert!(params.min_rate <= flow.rate() && flow.rate() <= flow.target());
            prop_assert!(flow.target() <= G40 && shown(&flow) <= 1023);
            prop_assert!(flow.next_timeout().is_none_or(|at| at > now));
            // A first CNP whose cut is due at the end of its period lowers the rate at once; its timer starts with that cut.
            let first_cut_is_due = !flow.cut_before && flow.cut_deadline.is_some();
            let timer = flow.increase_deadline.is_some();
            prop_assert!(timer == (flow.rate() < G40) || first_cut_is_due && !timer);
        }
    }
}

/// One bottleneck of 40 Gb/s, packets of 1000 bytes on the wire, RED with the paper's thresholds, 2 us
/// each way; flows start at full rate, 10 ms apart (table R6 of the reference).
struct Bottleneck {
    flows: Vec<Flow>,
    /// When the last packet in the queue has left.
    empty_at: Nanos,
    random: u64,
}

struct Flow {
    control: RateControl,
    pacer: Pacer,
    np: NotificationPoint,
    cnps: VecDeque<Nanos>,
    start: Nanos,
    sent: u64,
}

const PACKET: u64 = 976; // 1000 bytes with FCS, preamble and gap
const PACKET_TIME: Nanos = 200;
const LEG: Nanos = 2_000;
const KMIN: u64 = 5_000;
const KMAX: u64 = 200_000;

/// What a run showed.
struct Seen {
    mean_queue: u64,
    max_queue: u64,
    /// From the start of the last flow until Jain's index over 1 ms is above 0.95, ms.
    fair_after_ms: u64,
}

impl Bottleneck {
    fn new(n: u64, literal_alpha: bool) -> Self {
        let flow = |i| {
            let mut control = flow(|_| {});
            control.literal_alpha = literal_alpha;
            let (pacer, np) = (Pacer::new(G40), NotificationPoint::new(50_000));
            Flow { control, pacer, np, cnps: VecDeque::new(), start: i * 10_000_000, sent: 0 }
        };
        Self { flows: (0..n).map(flow).collect(), empty_at: 0, random: 1 }
    }

    fn queue(&self, now: Nanos) -> u64 {
        self.empty_at.saturating_sub(now) * 5 // bytes per ns
    }

    fn marked(&mut self, queue: u64) -> bool {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let dice = self.random >> 33; // 31 bits
        queue >= KMAX || queue > KMIN && dice * 100 * (KMAX - KMIN) < (queue - KMIN) << 31
    }

    /// When flow `i` has something to do: a packet to send, a CNP to hear, a timer.
    fn next(&self, i: usize) -> Nanos {
        let f = &self.flows[i];
        let control = f.control.next_timeout().unwrap_or(Nanos::MAX);
        let cnp = f.cnps.front().copied().unwrap_or(Nanos::MAX);
        f.pacer.ready().max(f.start).min(control).min(cnp)
    }

    fn step(&mut self) -> Nanos {
        let i = (0..self.flows.len()).min_by_key(|&i| self.next(i)).unwrap();
        let now = self.next(i);
        let f = &mut self.flows[i];
        f.control.handle_timeout(now);
        if f.cnps.front().is_some_and(|&at| at <= now) {
            f.cnps.pop_front();
            f.control.on_cnp(now);
        }
        f.pacer.set_rate(f.control.rate());
        if f.pacer.ready().max(f.start) > now {
            return now;
        }
        f.pacer.sent(PACKET, now);
        f.sent += 1;
        f.control.on_sent(1000, now);
        let queue = self.queue(now);
        let marked = self.marked(queue);
        self.empty_at = self.empty_at.max(now) + PACKET_TIME;
        let arrival = self.empty_at + LEG;
        let f = &mut self.flows[i];
        if marked && f.np.on_ce(arrival) {
            f.cnps.push_back(arrival + LEG);
        }
        now
    }

    fn run(&mut self, end: Nanos) -> Seen {
        let (mut sample, mut window) = (0, 0);
        let (mut sum, mut samples, mut max_queue) = (0, 0, 0);
        let last_start = self.flows.last().unwrap().start;
        let mut fair_after_ms = 0;
        let mut before: Vec<u64> = vec![0; self.flows.len()];
        loop {
            let now = self.step();
            while sample <= now {
                let queue = self.queue(sample);
                if sample > end / 2 {
                    max_queue = max_queue.max(queue);
                    (sum, samples) = (sum + queue, samples + 1);
                }
                sample += 5_000;
            }
            while window <= now {
                let got: Vec<u64> = self.flows.iter().zip(&before).map(|(f, b)| f.sent - b).collect();
                before = self.flows.iter().map(|f| f.sent).collect();
                let (s, q) = (got.iter().sum::<u64>(), got.iter().map(|g| g * g).sum::<u64>());
                let fair = s * s * 100 > 95 * q * got.len() as u64;
                if fair && window > last_start && fair_after_ms == 0 {
                    fair_after_ms = (window - last_start) / 1_000_000;
                }
                window += 1_000_000;
            }
            if now >= end {
                return Seen { mean_queue: sum / samples, max_queue, fair_after_ms };
            }
        }
    }
}

#[test]
fn r6_two_and_four_flows_settle_at_the_fixed_point() {
    // q* of the fluid model: 23.0 KB and 50.2 KB.
    for (flows, fixed_point) in [(2, 23_000), (4, 50_200)] {
        let seen = Bottleneck::new(flows, false).run(200_000_000);
        let tolerance = fixed_point * 3 / 10;
        assert!(seen.mean_queue.abs_diff(fixed_point) < tolerance, "{flows}: {} B", seen.mean_queue);
        assert!((1..10).contains(&seen.fair_after_ms), "{flows}: {} ms", seen.fair_after_ms);
        assert!(seen.max_queue < 250_000, "{flows}: {} B", seen.max_queue);
    }
}

#[test]
fn r6_the_literal_seed_formula_lets_the_queue_pass_kmax() {
    let seen = Bottleneck::new(2, true).run(200_000_000);
    assert!(seen.mean_queue > KMAX, "{} B", seen.mean_queue);
}
