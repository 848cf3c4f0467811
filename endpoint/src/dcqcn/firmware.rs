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

    /// At full rate, too, a CNP that has come is still to take effect.
    fn cut_is_pending(&self) -> bool {
        false
    }

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

    fn cut_is_pending(&self) -> bool {
        Self::cut_is_pending(self)
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
    /// Its next look, a multiple of its period; `None`: the last one found full speed, and nothing has happened since.
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

    /// At full speed there is no budget.
    fn is_full(&self) -> bool {
        self.rate() >= self.max_rate
    }

    /// Sees to it that firmware looks once more, whatever the rate is now: that look alone brings hardware to the rate.
    fn look_again(&mut self, now: Nanos) {
        self.due = self.due.or(Some(self.after(now)));
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
        let settled = full && !self.control.cut_is_pending();
        (self.looked, self.due) = (now, (!settled).then(|| self.after(now)));
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

    /// Whether [`Self::configure`] would take this.
    ///
    /// # Errors
    /// What does not fit.
    pub fn can_configure(&self, dcqcn: &Dcqcn, now: Nanos) -> Result<(), DcqcnError> {
        dcqcn.check()?;
        let Dcqcn { scheme, params, outstanding, .. } = *dcqcn;
        params.check()?;
        // Whoever decides would take what a new one takes.
        Firmware::of(dcqcn, now)?;
        self.point.clone().configure(&Globals { scheme, params, outstanding }, now)?;
        Ok(())
    }

    /// Does something else from now on (CC-024: all of it can be set at run time). The rate goes on from where it is, within
    /// its new bounds, also where another one decides than before; so does a trace.
    ///
    /// # Errors
    /// What does not fit; nothing is changed.
    pub fn configure(&mut self, dcqcn: &Dcqcn, now: Nanos) -> Result<(), DcqcnError> {
        dcqcn.check()?;
        let Dcqcn { scheme, params, outstanding, firmware_algorithm, firmware_period } = *dcqcn;
        params.check()?;
        let held = (self.settings.scheme, self.settings.firmware_algorithm);
        if (scheme, firmware_algorithm) != held {
            let firmware = Firmware::of(dcqcn, now)?;
            let (rate, trace) = (self.rate(), self.trace_slot().take());
            self.firmware = firmware;
            *self.trace_slot() = trace;
            self.point.control_mut().go_on_from(rate, now);
            self.firmware.iter_mut().for_each(|firmware| firmware.control.go_on_from(rate, now));
            self.point.mask(false);
        }
        self.point.configure(&Globals { scheme, params, outstanding }, now)?;
        if let Some(firmware) = &mut self.firmware {
            firmware.control.configure(params, now)?;
            (firmware.period, firmware.max_rate) = (firmware_period, params.max_rate);
            let looks = firmware.due.is_some() || !firmware.is_full();
            firmware.due = looks.then(|| firmware.after(now));
            self.point.write_rate(firmware.rate());
        }
        self.settings = *dcqcn;
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

    /// The rate it rises to, bits/s; where firmware runs another algorithm than DCQCN, the rate.
    pub fn target(&self) -> u64 {
        self.other().map_or_else(|| self.control().target(), Firmware::rate)
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
        if let (Register::Rate, Some(firmware)) = (register, &mut self.firmware) {
            firmware.look_again(now);
        }
    }

    /// Firmware that runs another algorithm than DCQCN.
    fn other(&self) -> Option<&Firmware> {
        self.firmware.as_deref().filter(|firmware| firmware.control.dcqcn().is_none())
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
            firmware.look_again(now);
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
        let state = self.other().map_or_else(|| self.control().state(), Firmware::state);
        *self.trace_slot() = Some(Box::new(Trace::new(state)));
    }

    /// Stops that; what was recorded can still be read.
    pub fn stop_trace(&mut self) {
        self.trace_slot().iter_mut().for_each(|trace| trace.stop());
    }

    /// Where whoever decides the rate records: hardware, firmware's DCQCN, or firmware for another algorithm.
    fn trace_slot(&mut self) -> &mut Option<Box<Trace>> {
        match self.firmware.as_deref_mut() {
            None => self.point.control_mut().trace_slot(),
            Some(Firmware { control, trace, .. }) => {
                control.dcqcn_mut().map_or(trace, |dcqcn| dcqcn.trace_slot())
            }
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
#[path = "firmware_tests.rs"]
mod tests;
