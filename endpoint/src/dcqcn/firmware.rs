//! An adapter as a whole: the hardware of a scheme, and the firmware that schemes 2 and 3 need (CC-018..020).
//!
//! What firmware computes is not published: it is any [`RateAlgorithm`]. Unless told it is that of hardware, run in
//! software; the other one is [`Backoff`]. Firmware looks every so often, takes all CNPs since its last look for one, and
//! then does the only thing its scheme lets it do. In scheme 2 it writes the rate, which hardware keeps. In scheme 3 it
//! can only stop and start the queue pair: one that has sent more than its rate allows is stopped until it has paid, and
//! in between goes at full speed.

use super::reaction_point::{ParamError, Params, RateControl};
use super::registers::{
    Globals, MASK_BIT, Register, RegisterView, TIMER_START_BIT, rate_to_units, units_to_rate,
};
use super::scheme::{Allowance, Outstanding, Scheme, SchemeLimiter};
use super::trace::{Cause, State, Trace};
use crate::congestion::backoff::{Backoff, BackoffError, BackoffParams};
use crate::congestion::{CongestionControl, Permit, UNLIMITED_WINDOW};
use thiserror::Error;
use weir_dataplane::types::{Nanos, wire_bytes};

/// Rate control of a queue pair: everything about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dcqcn {
    /// Who decides.
    pub scheme: Scheme,
    /// The algorithm's parameters.
    pub params: Params,
    /// Work requests in flight; scheme 3 has no such limit.
    pub outstanding: Outstanding,
    /// What firmware computes the rate with; scheme 1 has none.
    pub firmware_algorithm: FirmwareAlgorithm,
    /// Firmware looks this often, ns; scheme 1 has none.
    pub firmware_period: Nanos,
}

/// What firmware computes the rate with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirmwareAlgorithm {
    /// DCQCN, as hardware does.
    #[default]
    Dcqcn,
    /// Half the rate at a CNP, at most once per `cut_period`; then `additive` more after each `increase_period`, between
    /// `min_rate` and `max_rate`. No other parameter of DCQCN says anything to it.
    Backoff,
}

impl FirmwareAlgorithm {
    /// One that begins at the initial rate.
    fn start(self, params: Params, now: Nanos) -> Result<Box<dyn RateAlgorithm>, DcqcnError> {
        let dcqcn = RateControl::new(params, now)?;
        Ok(match self {
            Self::Dcqcn => Box::new(dcqcn),
            Self::Backoff => {
                let mut backoff = Backoff::new(backoff_params(&params), params.max_rate)?;
                backoff.set_rate(params.initial_rate, now);
                Box::new(backoff)
            }
        })
    }
}

/// An algorithm that firmware can run: of [`CongestionControl`] one that keeps a rate, whatever the window, and is moved by
/// CNPs, bytes and timers. Firmware hears of no acknowledgements.
pub trait RateAlgorithm: CongestionControl {
    /// Other parameters from now on. The rate goes on from where it is, within its new bounds.
    ///
    /// # Errors
    /// Parameters that do not fit; nothing is changed.
    fn configure(&mut self, params: Params, now: Nanos) -> Result<(), DcqcnError>;

    /// Takes over the rate that another one has come to, bits/s.
    fn go_on_from(&mut self, rate: u64, now: Nanos);

    /// Its state as registers have it, and the record of what moved its rate; `None`: registers know nothing of it.
    fn dcqcn(&self) -> Option<&RateControl> {
        None
    }

    /// The same, to be changed.
    fn dcqcn_mut(&mut self) -> Option<&mut RateControl> {
        None
    }
}

impl RateAlgorithm for RateControl {
    fn configure(&mut self, params: Params, now: Nanos) -> Result<(), DcqcnError> {
        Ok(self.set_params(params, now)?)
    }

    fn go_on_from(&mut self, rate: u64, now: Nanos) {
        Self::go_on_from(self, rate, now);
    }

    fn dcqcn(&self) -> Option<&RateControl> {
        Some(self)
    }

    fn dcqcn_mut(&mut self) -> Option<&mut RateControl> {
        Some(self)
    }
}

impl RateAlgorithm for Backoff {
    fn configure(&mut self, params: Params, now: Nanos) -> Result<(), DcqcnError> {
        Ok(Self::configure(self, backoff_params(&params), params.max_rate, now)?)
    }

    fn go_on_from(&mut self, rate: u64, now: Nanos) {
        self.set_rate(rate, now);
    }
}

/// What a [`Backoff`] takes of the parameters, in bits/s.
fn backoff_params(params: &Params) -> BackoffParams {
    BackoffParams {
        least: params.min_rate,
        cut_period: params.cut_period,
        raise_period: params.increase_period,
        raise: params.additive,
    }
}

impl Dcqcn {
    /// The algorithm alone: scheme 1 without a limit to the work requests in flight.
    pub fn plain(params: Params) -> Self {
        Self {
            scheme: Scheme::Hardware,
            params,
            outstanding: Outstanding::NONE,
            firmware_algorithm: FirmwareAlgorithm::Dcqcn,
            firmware_period: 1,
        }
    }

    fn check(&self) -> Result<(), DcqcnError> {
        let Outstanding { normal, reduced, .. } = self.outstanding;
        if reduced == 0 || reduced > normal {
            return Err(DcqcnError::Outstanding { normal, reduced });
        }
        if self.firmware_period == 0 {
            return Err(DcqcnError::Period);
        }
        Ok(())
    }
}

/// Why rate control is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DcqcnError {
    /// The parameters.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// Those of the back-off.
    #[error(transparent)]
    Backoff(#[from] BackoffError),
    /// Nothing could ever be sent, or more after a CNP than before.
    #[error("{normal} work requests in flight, {reduced} after a CNP: at least 1, and not more after a CNP")]
    Outstanding {
        /// Without congestion.
        normal: u32,
        /// After a CNP.
        reduced: u32,
    },
    /// Firmware that never sleeps.
    #[error("a firmware period of 0")]
    Period,
}

#[derive(Debug)]
struct Firmware {
    control: Box<dyn RateAlgorithm>,
    /// Its rate at its highest, bits/s.
    max_rate: u64,
    period: Nanos,
    /// Its next look, a multiple of its period; `None`: nothing to look at.
    due: Option<Nanos>,
    /// Its last one.
    looked: Nanos,
    /// A CNP came since.
    cnp: bool,
    /// Bytes sent since.
    sent: u64,
    /// Bytes the queue pair may send before it is stopped; negative: what it owes.
    budget: i64,
    /// What moved the rate, where the algorithm keeps no record of its own.
    trace: Option<Box<Trace>>,
}

impl Firmware {
    /// That of a scheme, if it has one.
    fn of(dcqcn: &Dcqcn, now: Nanos) -> Result<Option<Box<Self>>, DcqcnError> {
        if dcqcn.scheme == Scheme::Hardware {
            return Ok(None);
        }
        let control = dcqcn.firmware_algorithm.start(dcqcn.params, now)?;
        let max_rate = dcqcn.params.max_rate;
        Ok(Some(Box::new(Self {
            period: dcqcn.firmware_period,
            due: (control.permit().rate_bps < max_rate).then_some(now),
            control,
            max_rate,
            looked: now,
            cnp: false,
            sent: 0,
            budget: 0,
            trace: None,
        })))
    }

    /// The rate it wants, bits/s.
    fn rate(&self) -> u64 {
        self.control.permit().rate_bps
    }

    /// Full speed: there is nothing to look at.
    fn is_full(&self) -> bool {
        self.rate() >= self.max_rate
    }

    /// The state a record begins with: of what another algorithm has besides its rate nothing is known.
    fn state(&self) -> State {
        let rate = self.rate();
        State { current: rate, target: rate, alpha: 0, byte_count: 0, time_count: 0 }
    }

    /// Records where the algorithm has brought the rate from `before`.
    fn record(&mut self, before: u64, now: Nanos) {
        let rate = self.rate();
        let cause = if rate < before { Cause::Decrease } else { Cause::TimerAdditive };
        if let Some(trace) = self.trace.as_mut().filter(|_| rate != before) {
            trace.record(cause, rate, now);
        }
    }

    /// The rate it wants at `now`, and whether the queue pair is to be stopped.
    fn look(&mut self, now: Nanos) -> (u64, bool) {
        let last = self.rate();
        self.control.run_timers(now);
        self.control.on_sent(self.sent, now);
        let before = self.rate();
        self.record(last, now);
        if std::mem::take(&mut self.cnp) {
            self.control.on_cnp(now);
            self.record(before, now);
        }
        let (rate, full) = (self.rate(), self.is_full());
        let elapsed = now.saturating_sub(self.looked).max(self.period);
        let earned = i64::try_from(u128::from(before) * u128::from(elapsed) / 8_000_000_000);
        let earned = earned.unwrap_or(i64::MAX);
        let sent = i64::try_from(std::mem::take(&mut self.sent)).unwrap_or(i64::MAX);
        // An idle queue pair saves up one look at most.
        self.budget = self.budget.saturating_add(earned).saturating_sub(sent).min(earned);
        (self.looked, self.due) = (now, (!full).then(|| self.after(now)));
        if full {
            self.budget = 0;
        }
        (rate, !full && self.budget <= 0)
    }

    /// The first multiple of the period after `now`.
    fn after(&self, now: Nanos) -> Nanos {
        (now / self.period + 1).saturating_mul(self.period)
    }
}

/// The reaction point of one queue pair with all that moves it.
#[derive(Debug)]
pub struct RateController {
    settings: Dcqcn,
    point: SchemeLimiter,
    firmware: Option<Box<Firmware>>,
}

impl RateController {
    /// A queue pair that starts at `now`.
    ///
    /// # Errors
    /// What does not fit.
    pub fn new(dcqcn: &Dcqcn, now: Nanos) -> Result<Self, DcqcnError> {
        dcqcn.check()?;
        let Dcqcn { scheme, params, outstanding, .. } = *dcqcn;
        let firmware = Firmware::of(dcqcn, now)?;
        Ok(Self { settings: *dcqcn, point: SchemeLimiter::new(scheme, params, outstanding, now)?, firmware })
    }

    /// What it was told to do.
    pub fn settings(&self) -> &Dcqcn {
        &self.settings
    }

    /// Does something else from now on (CC-024: all of it can be set at run time). The rate goes on from where it is, within
    /// its new bounds, also where another one decides than before.
    ///
    /// # Errors
    /// What does not fit; nothing is changed.
    pub fn configure(&mut self, dcqcn: &Dcqcn, now: Nanos) -> Result<(), DcqcnError> {
        dcqcn.check()?;
        let Dcqcn { scheme, params, outstanding, firmware_algorithm, firmware_period } = *dcqcn;
        params.check()?;
        let held = (self.settings.scheme, self.settings.firmware_algorithm);
        let mut firmware = match (scheme, firmware_algorithm) == held {
            true => self.firmware.take(),
            false => Firmware::of(dcqcn, now)?,
        };
        if (scheme, firmware_algorithm) != held {
            let rate = self.rate();
            self.point.control_mut().go_on_from(rate, now);
            firmware.iter_mut().for_each(|firmware| firmware.control.go_on_from(rate, now));
            self.point.mask(false);
        }
        self.point.configure(&Globals { scheme, params, outstanding }, now)?;
        if let Some(firmware) = &mut firmware {
            firmware.control.configure(params, now)?;
            (firmware.period, firmware.max_rate) = (firmware_period, params.max_rate);
            firmware.due = (!firmware.is_full()).then_some(firmware.after(now));
            self.point.write_rate(firmware.rate());
        }
        (self.settings, self.firmware) = (*dcqcn, firmware);
        Ok(())
    }

    /// What the queue pair may do.
    pub fn allowance(&self) -> Allowance {
        self.point.allowance()
    }

    /// The rate the algorithm wants, wherever it runs, bits/s.
    pub fn rate(&self) -> u64 {
        self.firmware.as_ref().map_or(self.point.control().rate(), |firmware| firmware.rate())
    }

    /// Reads a register at `now`. Where firmware runs another algorithm than DCQCN, `RATE_MEM` has its rate, and the others
    /// of DCQCN's state are those of hardware, which nothing moves.
    pub fn read(&self, register: Register, now: Nanos) -> u32 {
        match register {
            Register::CcRate | Register::CcByteCount => self.point.registers(now).read(register),
            Register::Rate if self.other().is_some() => {
                let units = u32::from(rate_to_units(self.rate()));
                units << 16 | units
            }
            of_algorithm => self.control().registers(now).read(of_algorithm),
        }
    }

    /// Writes a register at `now` (CC-015, CC-016); of another algorithm than DCQCN `RATE_MEM` (bits 15:0) sets the rate.
    pub fn write(&mut self, register: Register, value: u32, now: Nanos) {
        match register {
            Register::CcRate => self.point.write_rate(units_to_rate(value as u16)),
            Register::CcByteCount => self.point.write_window(u64::from(value), now),
            Register::Rate if self.other().is_some() => {
                let rate = units_to_rate(value as u16);
                self.firmware.iter_mut().for_each(|firmware| firmware.control.go_on_from(rate, now));
            }
            of_algorithm => self.control_mut().write(of_algorithm, value, now),
        }
        if let Some(firmware) = &mut self.firmware {
            let full = firmware.is_full();
            firmware.due = if full { None } else { firmware.due.or(Some(firmware.after(now))) };
        }
    }

    /// Firmware that runs another algorithm than DCQCN.
    fn other(&self) -> Option<&Firmware> {
        self.firmware.as_deref().filter(|firmware| firmware.control.dcqcn().is_none())
    }

    /// The same, to be changed.
    fn other_mut(&mut self) -> Option<&mut Firmware> {
        self.firmware.as_deref_mut().filter(|firmware| firmware.control.dcqcn().is_none())
    }

    /// `sq_arb_mask` and the rest of [`ARBITRATION`](super::registers::ARBITRATION).
    pub fn arbitration(&self) -> u64 {
        if self.point.is_masked() { MASK_BIT } else { 0 }
    }

    /// Writes them.
    pub fn write_arbitration(&mut self, value: u64, now: Nanos) {
        self.point.mask(value & MASK_BIT != 0);
        if value & TIMER_START_BIT != 0 {
            self.control_mut().start_timer(now);
        }
    }

    /// A CNP arrived.
    pub fn on_cnp(&mut self, now: Nanos) {
        self.point.on_cnp(now);
        if let Some(firmware) = &mut self.firmware {
            firmware.cnp = true;
            firmware.due = firmware.due.or(Some(firmware.after(now)));
        }
    }

    /// A frame of `len` bytes (without FCS) was sent. All that counts bytes here (the byte counter, the rate limiter,
    /// what firmware lets go) counts those on the wire, FCS, preamble and gap included, as rates do (DEV-30): the
    /// paper does not say what its B bytes are of, and at rate R they take B / R.
    pub fn on_sent(&mut self, len: u64, now: Nanos) {
        let bytes = wire_bytes(len);
        self.point.on_sent(bytes, now);
        // At full rate nobody counts, as in hardware.
        if let Some(firmware) = self.firmware.as_mut().filter(|firmware| firmware.due.is_some()) {
            firmware.sent += bytes;
        }
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Option<Nanos> {
        let firmware = self.firmware.as_ref().and_then(|firmware| firmware.due);
        self.point.next_timeout().into_iter().chain(firmware).min()
    }

    /// Runs the timers that have expired by `now`, and firmware if it is to look.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.point.handle_timeout(now);
        if let Some(firmware) = &mut self.firmware
            && firmware.due.is_some_and(|at| at <= now)
        {
            let (rate, stop) = firmware.look(now);
            match self.settings.scheme {
                Scheme::FirmwareRate => self.point.write_rate(rate),
                _ => self.point.mask(stop),
            }
        }
    }

    /// The registers of the queue pair at `now`.
    pub fn registers(&self, now: Nanos) -> RegisterView {
        self.point.registers(now)
    }

    /// DCQCN, wherever it runs.
    fn control(&self) -> &RateControl {
        let of_firmware = self.firmware.as_ref().and_then(|firmware| firmware.control.dcqcn());
        of_firmware.unwrap_or(self.point.control())
    }

    fn control_mut(&mut self) -> &mut RateControl {
        let of_firmware = self.firmware.as_mut().and_then(|firmware| firmware.control.dcqcn_mut());
        of_firmware.unwrap_or(self.point.control_mut())
    }

    /// Starts to record what moves the rate, from an empty trace (CC-021). Of another algorithm than DCQCN a look that
    /// raised the rate is recorded as an additive increase by the timer.
    pub fn start_trace(&mut self) {
        match self.other_mut() {
            Some(firmware) => firmware.trace = Some(Box::new(Trace::new(firmware.state()))),
            None => self.control_mut().start_trace(),
        }
    }

    /// Stops that; what was recorded can still be read.
    pub fn stop_trace(&mut self) {
        match self.other_mut() {
            Some(firmware) => firmware.trace.iter_mut().for_each(|trace| trace.stop()),
            None => drop(self.control_mut().stop_trace()),
        }
    }

    /// What was recorded.
    pub fn trace(&self) -> Option<&Trace> {
        self.other().map_or_else(|| self.control().trace(), |firmware| firmware.trace.as_deref())
    }
}

impl CongestionControl for RateController {
    fn permit(&self) -> Permit {
        let Allowance { rate, outstanding } = self.allowance();
        Permit { rate_bps: rate, window: UNLIMITED_WINDOW, requests: outstanding }
    }

    fn on_cnp(&mut self, now: Nanos) {
        self.handle_timeout(now);
        Self::on_cnp(self, now);
    }

    fn on_sent(&mut self, bytes: u64, now: Nanos) {
        Self::on_sent(self, bytes, now);
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.next_timeout()
    }

    fn run_timers(&mut self, now: Nanos) {
        self.handle_timeout(now);
    }

    fn rate_controller(&self) -> Option<&Self> {
        Some(self)
    }

    fn rate_controller_mut(&mut self) -> Option<&mut Self> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::registers::Register;
    use super::super::scheme::UNLIMITED;
    use super::super::trace::Cause;
    use super::*;

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
        RateController::new(&Dcqcn { params, firmware_algorithm: FirmwareAlgorithm::Backoff, ..held }, 0)
            .unwrap()
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
        adapter.write(Register::Rate, 10_240, PERIOD);
        assert_eq!(adapter.next_timeout(), Some(30_000), "full: only the limit of requests ends");
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
        assert_eq!((adapter.rate(), adapter.next_timeout()), (LINE / 8, Some(40_001)));
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
}
