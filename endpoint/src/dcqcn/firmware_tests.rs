//! Firmware of an adapter: what it does under each scheme, and that rate, mask and timers agree after any order.

use super::super::registers::Register;
use super::super::scheme::UNLIMITED;
use super::super::trace::Cause;
use super::*;
use crate::dcqcn::reaction_point::Evaluation;
use proptest::prelude::*;

const LINE: u64 = 80_000_000_000;
const PERIOD: Nanos = 10_000;

fn adapter(scheme: Scheme) -> RateController {
    let (params, outstanding) = (Params::paper(LINE), Outstanding::adapter(30_000));
    let firmware_algorithm = FirmwareAlgorithm::Dcqcn;
    let dcqcn = Dcqcn { scheme, params, outstanding, firmware_algorithm, firmware_period: PERIOD };
    RateController::new(&dcqcn, 0).unwrap()
}

/// One whose firmware backs off, 1 Gbit/s more every 30 us.
fn backs_off(scheme: Scheme) -> RateController {
    let params = Params { additive: 1_000_000_000, increase_period: 30_000, ..Params::paper(LINE) };
    let held = *adapter(scheme).settings();
    RateController::new(&Dcqcn { params, firmware_algorithm: FirmwareAlgorithm::Backoff, ..held }, 0).unwrap()
}

/// Sends as much as it may until `until`; bytes per period.
fn play(adapter: &mut RateController, from: Nanos, until: Nanos) -> Vec<u64> {
    let mut per_period = vec![0; ((until - from) / PERIOD) as usize];
    let mut due = from;
    for now in from..until {
        adapter.handle_timeout(now);
        let allowed = adapter.allowance();
        if now >= due && allowed.outstanding > 0 {
            adapter.on_sent(1000, now);
            per_period[((now - from) / PERIOD) as usize] += 1000;
            due = now + 8_000_000_000_000 / allowed.rate;
        }
    }
    per_period
}

#[test]
fn cc018_to_cc020_one_cnp_under_each_scheme() {
    let mut hardware = adapter(Scheme::Hardware);
    let mut rate = adapter(Scheme::FirmwareRate);
    let mut stop = adapter(Scheme::Firmware);
    for adapter in [&mut hardware, &mut rate, &mut stop] {
        assert_eq!(adapter.next_timeout(), None, "at full rate nobody looks");
        adapter.start_trace();
        adapter.on_cnp(12_345);
    }
    // Scheme 1 cuts at once; scheme 2 limits the requests at once and the rate when firmware looks;
    // scheme 3 limits neither, and firmware can only stop the queue pair.
    assert_eq!(hardware.allowance(), Allowance { rate: hardware.rate(), outstanding: 8 });
    assert!(hardware.rate() < LINE * 6 / 10);
    assert_eq!(rate.allowance(), Allowance { rate: LINE, outstanding: 8 });
    assert_eq!(stop.allowance(), Allowance { rate: LINE, outstanding: UNLIMITED });
    assert_eq!((rate.next_timeout(), stop.next_timeout()), (Some(20_000), Some(20_000)));
    rate.handle_timeout(20_000);
    stop.handle_timeout(20_000);
    assert_eq!(rate.allowance(), Allowance { rate: hardware.rate(), outstanding: 8 });
    assert_eq!(stop.allowance().rate, LINE);
    assert_eq!(stop.rate(), hardware.rate());
    // The record is of the machine that decides; hardware's registers show a rate that nobody moved.
    for adapter in [&hardware, &rate, &stop] {
        assert_eq!(adapter.trace().unwrap().entries()[0].cause, Cause::Decrease);
    }
    let units = |adapter: &RateController, r| adapter.registers(20_001).read(r);
    assert_eq!(units(&rate, Register::Rate) & 0xffff, 10_240);
    assert!(units(&rate, Register::CcRate) < 6_200);
    assert_eq!(units(&stop, Register::CcRate), 10_240);
}

#[test]
fn cc020_stops_and_starts_come_to_the_rate() {
    let (mut even, mut bursts) = (adapter(Scheme::FirmwareRate), adapter(Scheme::Firmware));
    let sum = |sent: &[u64]| sent.iter().sum::<u64>();
    let mut sent = [&mut even, &mut bursts].map(|adapter| {
        adapter.on_cnp(0);
        play(adapter, 0, 50 * PERIOD)
    });
    // The same algorithm, hence the same bytes within a look or two.
    let [a, b] = [sum(&sent[0]), sum(&sent[1])];
    assert!(a.abs_diff(b) <= 2 * LINE * PERIOD / 8_000_000_000, "{a} {b}");
    // A rate is in every period, a mask all or nothing.
    let full = LINE * PERIOD / 8_000_000_000;
    let sent = sent.each_mut().map(|sent| sent.split_off(2));
    assert!(sent[0].iter().all(|bytes| (full / 3..=full).contains(bytes)), "{:?}", sent[0]);
    assert!(sent[1].iter().all(|bytes| *bytes == 0 || *bytes >= full - 2000), "{:?}", sent[1]);
    assert!(sent[1].contains(&0));
}

#[test]
fn cc019_another_algorithm_writes_the_rate() {
    let mut adapter = backs_off(Scheme::FirmwareRate);
    adapter.start_trace();
    adapter.on_cnp(12_345);
    assert_eq!(adapter.allowance(), Allowance { rate: LINE, outstanding: 8 }, "nobody has looked");
    adapter.handle_timeout(20_000);
    assert_eq!(adapter.allowance(), Allowance { rate: LINE / 2, outstanding: 8 });
    // Looks at 30 and 40 us find nothing to raise; the timer ends at 50 us.
    (3..=5).for_each(|look| adapter.handle_timeout(look * PERIOD));
    assert_eq!(adapter.allowance().rate, LINE / 2 + 1_000_000_000);
    // As often as it takes, then nobody looks.
    (6..=200).for_each(|look| adapter.handle_timeout(look * PERIOD));
    assert_eq!((adapter.rate(), adapter.next_timeout()), (LINE, None));
    let trace = adapter.trace().unwrap();
    assert_eq!(trace.initial().current, LINE);
    let first: Vec<_> = trace.entries()[..2].iter().map(|e| (e.cause, e.rate, e.at)).collect();
    let raised = LINE / 2 + 1_000_000_000;
    assert_eq!(first, [(Cause::Decrease, LINE / 2, 20_000), (Cause::TimerAdditive, raised, 50_000)]);
    assert_eq!((trace.counts().decrease, trace.counts().timer), (1, 40), "all 40 steps of a Gbit/s");
    adapter.stop_trace();
    assert!(!adapter.trace().unwrap().is_running());
}

#[test]
fn cc020_another_algorithm_stops_and_starts_the_queue_pair() {
    let (mut even, mut bursts) = (backs_off(Scheme::FirmwareRate), backs_off(Scheme::Firmware));
    let [a, b] = [&mut even, &mut bursts].map(|adapter| {
        adapter.on_cnp(0);
        play(adapter, 0, 50 * PERIOD).iter().sum::<u64>()
    });
    assert!(a.abs_diff(b) <= 2 * LINE * PERIOD / 8_000_000_000, "{a} {b}");
    assert_eq!((even.rate(), bursts.rate()), (56_000_000_000, 56_000_000_000), "16 raises since the cut");
    assert_eq!(bursts.allowance().rate, LINE);
}

#[test]
fn cc015_registers_of_another_algorithm() {
    let mut adapter = backs_off(Scheme::FirmwareRate);
    adapter.on_cnp(0);
    adapter.handle_timeout(PERIOD);
    let of = |adapter: &RateController, register| adapter.read(register, PERIOD);
    assert_eq!(of(&adapter, Register::Rate), 5_120 << 16 | 5_120);
    assert_eq!((of(&adapter, Register::CcRate), of(&adapter, Register::Alpha)), (5_120, 1023));
    adapter.write(Register::Rate, 2_560, PERIOD);
    adapter.handle_timeout(2 * PERIOD);
    assert_eq!((adapter.rate(), adapter.allowance().rate), (20_000_000_000, 20_000_000_000));
    adapter.write(Register::Rate, 10_240, 2 * PERIOD);
    adapter.handle_timeout(3 * PERIOD);
    assert_eq!(adapter.allowance(), Allowance { rate: LINE, outstanding: 16 });
    assert_eq!(adapter.next_timeout(), None, "full: nobody looks");
}

#[test]
fn cc024_the_algorithm_of_firmware_changes_at_run_time() {
    let mut adapter = adapter(Scheme::FirmwareRate);
    adapter.on_cnp(0);
    adapter.handle_timeout(PERIOD);
    let (cut, held) = (adapter.rate(), *adapter.settings());
    assert!(cut < LINE);
    let backoff = Dcqcn { firmware_algorithm: FirmwareAlgorithm::Backoff, ..held };
    adapter.configure(&backoff, PERIOD).unwrap();
    assert_eq!((adapter.rate(), adapter.allowance().rate), (cut, cut), "the rate goes on");
    adapter.on_cnp(PERIOD + 1);
    adapter.handle_timeout(2 * PERIOD);
    assert_eq!(adapter.rate(), cut / 2);
    let slow = Params { max_rate: LINE / 8, initial_rate: LINE / 8, ..Params::paper(LINE / 8) };
    adapter.configure(&Dcqcn { params: slow, ..backoff }, 2 * PERIOD).unwrap();
    adapter.handle_timeout(3 * PERIOD);
    assert_eq!((adapter.rate(), adapter.next_timeout()), (LINE / 8, Some(40_001)), "full: no look");
    adapter.configure(&held, 3 * PERIOD).unwrap();
    assert_eq!(adapter.rate(), LINE / 8);
}

#[test]
fn cc015_bytes_are_those_on_the_wire() {
    let mut adapter = adapter(Scheme::Hardware);
    adapter.on_sent(1_000, 100);
    adapter.on_sent(20, 100);
    // FCS, preamble and gap are 24 bytes, and no frame is shorter than 60.
    assert_eq!(adapter.registers(100).read(Register::CcByteCount), 1_024 + 84);
}

#[test]
fn all_cnps_between_two_looks_are_one() {
    let (mut one, mut many) = (adapter(Scheme::FirmwareRate), adapter(Scheme::FirmwareRate));
    one.on_cnp(500);
    (0..9).for_each(|i| many.on_cnp(500 + i * 1000));
    one.handle_timeout(PERIOD);
    many.handle_timeout(PERIOD);
    assert_eq!(one.rate(), many.rate());
}

#[test]
fn what_can_not_be_is_refused() {
    let good = Dcqcn { firmware_period: 1, ..Dcqcn::plain(Params::paper(LINE)) };
    assert!(RateController::new(&good, 0).is_ok());
    let none = Outstanding { normal: 4, reduced: 0, restore_after: 1 };
    assert_eq!(
        RateController::new(&Dcqcn { outstanding: none, ..good }, 0).unwrap_err(),
        DcqcnError::Outstanding { normal: 4, reduced: 0 }
    );
    let lazy = Dcqcn { firmware_period: 0, ..good };
    assert_eq!(RateController::new(&lazy, 0).unwrap_err(), DcqcnError::Period);
    let params = Params { additive: 0, ..good.params };
    assert!(matches!(RateController::new(&Dcqcn { params, ..good }, 0), Err(DcqcnError::Param(_))));
}

/// Cut once, after as many looks as it takes for firmware of scheme 3 to have stopped it.
fn cut_and_stopped(scheme: Scheme) -> RateController {
    let mut adapter = adapter(scheme);
    adapter.on_cnp(0);
    play(&mut adapter, 0, 2 * PERIOD);
    assert!(adapter.rate() < LINE);
    assert_eq!(adapter.arbitration() != 0, scheme == Scheme::Firmware);
    adapter
}

#[test]
fn cc016_full_rate_by_a_register_or_a_parameter_holds() {
    for scheme in [Scheme::FirmwareRate, Scheme::Firmware] {
        let mut written = cut_and_stopped(scheme);
        written.write(Register::Rate, 10_240 << 16 | 10_240, 2 * PERIOD - 1);
        let mut configured = cut_and_stopped(scheme);
        let held = *configured.settings();
        let params = Params { min_rate: LINE, ..held.params };
        configured.configure(&Dcqcn { params, ..held }, 2 * PERIOD - 1).unwrap();
        for adapter in [&mut written, &mut configured] {
            adapter.handle_timeout(2 * PERIOD);
            assert_eq!((adapter.allowance().rate, adapter.arbitration()), (LINE, 0), "{scheme:?}");
            adapter.handle_timeout(40 * PERIOD);
            assert_eq!((adapter.rate(), adapter.next_timeout()), (LINE, None), "{scheme:?}");
        }
    }
}

#[test]
fn cc024_a_cnp_that_firmware_has_not_looked_at_outlives_parameters() {
    let mut adapter = adapter(Scheme::FirmwareRate);
    adapter.on_cnp(0);
    let held = *adapter.settings();
    adapter.configure(&Dcqcn { params: Params { gain: 9, ..held.params }, ..held }, 10).unwrap();
    adapter.write(Register::Alpha, 1023, 20);
    adapter.handle_timeout(PERIOD);
    assert!(adapter.rate() < LINE, "cut");
}

/// Adapters that cut at the end of a period do so for firmware, too, although the rate is full until then.
#[test]
fn cc019_firmware_looks_until_a_cut_that_waits_is_done() {
    let params = Params { evaluation: Evaluation::PerPeriod, cut_period: 25_000, ..Params::paper(LINE) };
    let held = *adapter(Scheme::FirmwareRate).settings();
    let mut adapter = RateController::new(&Dcqcn { params, ..held }, 0).unwrap();
    adapter.on_cnp(1_000);
    (1..=4).for_each(|look| adapter.handle_timeout(look * PERIOD));
    assert!(adapter.allowance().rate < LINE, "{:?}", adapter.allowance());
}

/// What one reaction point had before another decided is not made up for when it decides again.
#[test]
fn cc024_timers_of_an_earlier_scheme_are_over() {
    let params = Params { evaluation: Evaluation::PerPeriod, cut_period: 25_000, ..Params::paper(LINE) };
    let held = Dcqcn { params, ..*adapter(Scheme::Hardware).settings() };
    let mut adapter = RateController::new(&held, 0).unwrap();
    adapter.on_cnp(1_000);
    adapter.configure(&Dcqcn { scheme: Scheme::FirmwareRate, ..held }, 2_000).unwrap();
    adapter.write(Register::Rate, 2_560, 2_000);
    adapter.handle_timeout(PERIOD);
    assert_eq!(adapter.allowance().rate, LINE / 4);
    // Hardware's cut was due at 26 us; the timer of firmware would have raised the rate at 65 us.
    adapter.configure(&held, 50_000).unwrap();
    adapter.handle_timeout(50_001);
    assert_eq!(adapter.allowance().rate, LINE / 4, "the rate goes on");
}

#[test]
fn cc021_a_trace_goes_on_with_whoever_decides() {
    for (first, then) in [
        (Scheme::Hardware, (Scheme::Firmware, FirmwareAlgorithm::Dcqcn)),
        (Scheme::FirmwareRate, (Scheme::FirmwareRate, FirmwareAlgorithm::Backoff)),
        (Scheme::FirmwareRate, (Scheme::Hardware, FirmwareAlgorithm::Dcqcn)),
        (Scheme::Hardware, (Scheme::Firmware, FirmwareAlgorithm::Backoff)),
    ] {
        let (mut running, mut ended) = (adapter(first), adapter(first));
        for adapter in [&mut running, &mut ended] {
            adapter.start_trace();
            adapter.on_cnp(0);
            adapter.handle_timeout(PERIOD);
        }
        ended.stop_trace();
        for adapter in [&mut running, &mut ended] {
            let held = *adapter.settings();
            let (scheme, firmware_algorithm) = then;
            adapter.configure(&Dcqcn { scheme, firmware_algorithm, ..held }, PERIOD + 1).unwrap();
            adapter.on_cnp(PERIOD + 2);
            adapter.handle_timeout(2 * PERIOD);
        }
        let cuts = |adapter: &RateController| adapter.trace().unwrap().counts().decrease;
        assert_eq!((cuts(&running), cuts(&ended)), (2, 1), "{first:?} {then:?}");
        assert_eq!(running.trace().unwrap().initial().current, LINE);
        assert!(running.trace().unwrap().is_running() && !ended.trace().unwrap().is_running());
    }
}

/// What may happen to a queue pair.
#[derive(Clone, Debug)]
enum Step {
    Cnp,
    Write(Register, u32),
    StartTimer,
    Scheme(Scheme, FirmwareAlgorithm),
    Params { min: u64, max: u64, evaluation: Evaluation, cut_period: Nanos },
    Period(Nanos),
}

fn step() -> impl Strategy<Value = Step> {
    let schemes = prop::sample::select(vec![Scheme::Hardware, Scheme::FirmwareRate, Scheme::Firmware]);
    let algorithms = prop::sample::select(vec![FirmwareAlgorithm::Dcqcn, FirmwareAlgorithm::Backoff]);
    let evaluations = prop::sample::select(vec![Evaluation::PerCnp, Evaluation::PerPeriod]);
    // CC_RATE_MEM and the mask are orders to send at another rate than that of the algorithm: not here.
    let registers = prop::sample::select(vec![
        Register::CnpMerge,
        Register::Alpha,
        Register::ByteCounter,
        Register::TimeAndByteCount,
    ]);
    let units = prop::sample::select(vec![0u32, 640, 5_120, 10_239, 10_240, 20_000]);
    prop_oneof![
        3 => Just(Step::Cnp),
        4 => (units.clone(), units).prop_map(|(target, rate)| Step::Write(Register::Rate, target << 16 | rate)),
        1 => (registers, 0u32..0x400).prop_map(|(register, value)| Step::Write(register, value)),
        1 => Just(Step::StartTimer),
        2 => (schemes, algorithms).prop_map(|(scheme, algorithm)| Step::Scheme(scheme, algorithm)),
        2 => (1u64..=16, 1u64..=16, evaluations, 1u64..60_000).prop_map(|(a, b, evaluation, cut_period)| {
            let (min, max) = (a.min(b) * LINE / 16, a.max(b) * LINE / 16);
            Step::Params { min, max, evaluation, cut_period }
        }),
        1 => (1_000u64..30_000).prop_map(Step::Period),
    ]
}

fn take(adapter: &mut RateController, step: &Step, now: Nanos) {
    let held = *adapter.settings();
    let new = match *step {
        Step::Cnp => return adapter.on_cnp(now),
        Step::Write(register, value) => return adapter.write(register, value, now),
        Step::StartTimer => return adapter.write_arbitration(adapter.arbitration() | TIMER_START_BIT, now),
        Step::Scheme(scheme, firmware_algorithm) => Dcqcn { scheme, firmware_algorithm, ..held },
        Step::Params { min, max, evaluation, cut_period } => {
            let rates = Params { min_rate: min, max_rate: max, initial_rate: max, ..held.params };
            Dcqcn { params: Params { evaluation, cut_period, ..rates }, ..held }
        }
        Step::Period(firmware_period) => Dcqcn { firmware_period, ..held },
    };
    adapter.configure(&new, now).unwrap();
}

/// Sends as much as it may from `from` until `until` in steps of the time of a frame at line rate: bytes on the wire, and those
/// that the algorithm's rate came to.
fn sent_and_wanted(adapter: &mut RateController, from: Nanos, until: Nanos) -> (u64, u64) {
    const FRAME: u64 = 1_000;
    let frame_bits = 8_000_000_000 * wire_bytes(FRAME);
    let tick = frame_bits / LINE;
    let (mut sent, mut bits, mut free_at) = (0, 0, from);
    for now in (from..until).step_by(tick as usize) {
        adapter.handle_timeout(now);
        let allowed = adapter.allowance();
        if now >= free_at && allowed.outstanding > 0 {
            adapter.on_sent(FRAME, now);
            sent += wire_bytes(FRAME);
            free_at = free_at.max(now.saturating_sub(tick)) + frame_bits / allowed.rate;
        }
        bits += u128::from(adapter.rate()) * u128::from(tick);
    }
    (sent, (bits / 8_000_000_000) as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever was written, set and reported: a queue pair goes on at the rate that its registers say.
    #[test]
    fn a_queue_pair_sends_at_the_rate_of_its_registers(
        scheme in prop::sample::select(vec![Scheme::Hardware, Scheme::FirmwareRate, Scheme::Firmware]),
        steps in prop::collection::vec((step(), 0u64..40_000), 1..12),
    ) {
        let mut adapter = adapter(scheme);
        let mut now = 0;
        for (step, pause) in &steps {
            adapter.handle_timeout(now);
            take(&mut adapter, step, now);
            sent_and_wanted(&mut adapter, now, now + pause);
            now += pause;
        }
        // A queue pair owes what it sends within a look at most, and pays at a sixteenth of the line rate or more.
        let period = adapter.settings().firmware_period;
        let settled = now + 20 * period.max(30_000);
        sent_and_wanted(&mut adapter, now, settled);
        let (sent, wanted) = sent_and_wanted(&mut adapter, settled, settled + 40 * period);
        let slack = 2 * LINE / 8_000_000_000 * period + wanted / 50;
        prop_assert!(sent.abs_diff(wanted) <= slack, "{} sent, {} wanted, {}", sent, wanted, slack);
        let now = settled + 40 * period;
        adapter.handle_timeout(now);
        let shown = adapter.read(Register::Rate, now) & 0xffff;
        prop_assert_eq!(shown, u32::from(rate_to_units(adapter.rate())));
    }
}
