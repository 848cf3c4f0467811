//! The DCQCN reaction point (Zhu et al., SIGCOMM 2015; CC-004 to CC-014 in the corrected forms of
//! DEV-40 to DEV-49).
//!
//! Rates are bits/s; alpha has 30 fractional bits, of which hardware shows the upper ten (DEV-43).
//! A flow at full rate is left alone: no timers, no counters, until a CNP comes.

use super::registers::{BYTE_UNIT, MICROSECOND, Register, RegisterView, units_to_rate};
use super::trace::{Cause, State, Trace};
use crate::congestion::{CongestionControl, Permit, UNLIMITED_WINDOW};
use thiserror::Error;
use weir_dataplane::types::Nanos;

/// Fractional bits of alpha.
const ALPHA_BITS: u32 = 30;
/// Largest alpha: shown as 1023/1024.
const ALPHA_MAX: u32 = (1 << ALPHA_BITS) - 1;
/// Bits of alpha below those a register shows.
const ALPHA_HIDDEN: u32 = ALPHA_BITS - 10;

/// When a cut lowers the target rate to the rate before the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClampTarget {
    /// At every cut, as in the paper.
    Always,
    /// At the first cut after a timer increase (ConnectX `clamp_tgt_rate_after_time_inc`): of cuts in
    /// a row only the first one forgets where the flow came from.
    AfterTimerIncrease,
}

/// When CNPs take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// At once, as in the paper: a CNP cuts the rate and raises alpha, unless a cut was less than `cut_period` ago.
    PerCnp,
    /// At the end of a period in which one came, as in ConnectX adapters (`mlx` of the HPCC simulator): alpha
    /// is looked at every alpha period, the rate every cut period, counted from the first CNP.
    PerPeriod,
}

/// Parameters of a reaction point. Names of registers and defaults of real adapters are in the
/// parameter table of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Gain g of alpha, in 1024ths; 0 freezes alpha.
    pub gain: u32,
    /// Alpha decays after each such time without a CNP, ns.
    pub alpha_period: Nanos,
    /// Alpha at the first CNP, in 1024ths, at most 1023.
    pub initial_alpha: u32,
    /// A cut takes alpha / 2^shift of the rate (DEV-42: 1 is the paper's half).
    pub rate_shift: u32,
    /// One cut per such time, ns (CC-004); 0: each CNP cuts, which [`Evaluation::PerCnp`] alone allows.
    pub cut_period: Nanos,
    /// When CNPs take effect.
    pub evaluation: Evaluation,
    /// Time between timer increases T, ns.
    pub increase_period: Nanos,
    /// Bytes on the wire between byte-counter increases B (DEV-44).
    pub byte_threshold: u64,
    /// Stage threshold F (DEV-46).
    pub stages: u32,
    /// Additive increase of the target, bits/s.
    pub additive: u64,
    /// Hyper increase of the target, bits/s.
    pub hyper: u64,
    /// A cut leaves at least this percentage of the rate (`rpg_min_dec_fac`).
    pub min_left_percent: u32,
    /// Lowest rate, bits/s.
    pub min_rate: u64,
    /// Highest rate and the rate of a full-speed flow, bits/s.
    pub max_rate: u64,
    /// Rate at the start, bits/s.
    pub initial_rate: u64,
    /// Rate set by the first CNP instead of a cut, if any.
    pub first_cnp_rate: Option<u64>,
    /// Target rule.
    pub clamp_target: ClampTarget,
}

/// Why parameters are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParamError {
    /// Gain above 1024.
    #[error("gain {0}/1024 is above one")]
    Gain(u32),
    /// Initial alpha above 1023.
    #[error("initial alpha {0} is above 1023")]
    Alpha(u32),
    /// A cut would be shifted away.
    #[error("rate shift {0} is above 10")]
    Shift(u32),
    /// A timer, byte threshold or increase of this name is zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// What is looked at once per `cut_period` has none.
    #[error("cut_period must not be zero in the form of ConnectX, which looks at CNPs once per such time")]
    CutPeriod,
    /// More than all is left by a cut.
    #[error("a cut can not leave {0} % of the rate")]
    Percent(u32),
    /// min_rate, initial or first CNP rate, and max_rate are not in this order, or min_rate is zero.
    #[error("rates must satisfy 0 < min {min} <= {rate} <= max {max} bits/s")]
    Rates {
        /// Lowest rate.
        min: u64,
        /// The rate that does not fit.
        rate: u64,
        /// Highest rate.
        max: u64,
    },
}

impl Params {
    /// The paper's parameters, increases scaled from its 40 Gb/s to the line rate.
    pub fn paper(line_rate: u64) -> Self {
        Self {
            gain: 4,
            alpha_period: 55_000,
            initial_alpha: 1023,
            rate_shift: 1,
            cut_period: 0, // whoever notifies keeps CNPs apart; each that comes cuts
            evaluation: Evaluation::PerCnp,
            increase_period: 55_000,
            byte_threshold: 10_000_000,
            stages: 5,
            additive: (line_rate / 1000).max(1), // 40 Mb/s at 40 Gb/s
            hyper: (line_rate / 200).max(1),     // 200 Mb/s at 40 Gb/s
            min_left_percent: 50,
            min_rate: 10_000_000.min(line_rate),
            max_rate: line_rate,
            initial_rate: line_rate,
            first_cnp_rate: None,
            clamp_target: ClampTarget::Always,
        }
    }

    /// Defaults of ConnectX adapters. `rpg_byte_reset` is taken in units of 64 bytes. They recover
    /// slowly: 5 Mb/s per 300 us.
    pub fn connectx(line_rate: u64) -> Self {
        Self {
            gain: 5,
            alpha_period: 1_000,
            cut_period: 4_000,
            evaluation: Evaluation::PerPeriod,
            increase_period: 300_000,
            byte_threshold: 32_767 * 64,
            stages: 1,
            additive: 5_000_000,
            hyper: 50_000_000,
            min_rate: 1_000_000.min(line_rate),
            clamp_target: ClampTarget::AfterTimerIncrease,
            ..Self::paper(line_rate)
        }
    }

    /// Checks everything.
    ///
    /// # Errors
    /// The first number that does not fit.
    pub fn check(&self) -> Result<(), ParamError> {
        let (min, max) = (self.min_rate, self.max_rate);
        let rates = [min, self.initial_rate, self.first_cnp_rate.unwrap_or(max)];
        let odd_rate = rates.into_iter().find(|rate| min == 0 || !(min..=max).contains(rate));
        let steps = [
            ("alpha_period", self.alpha_period),
            ("increase_period", self.increase_period),
            ("byte_threshold", self.byte_threshold),
            ("additive", self.additive),
            ("hyper", self.hyper),
        ];
        let zero = steps.into_iter().find(|(_, step)| *step == 0);
        match self {
            _ if self.gain > 1024 => Err(ParamError::Gain(self.gain)),
            _ if self.initial_alpha > 1023 => Err(ParamError::Alpha(self.initial_alpha)),
            _ if self.rate_shift > 10 => Err(ParamError::Shift(self.rate_shift)),
            _ if self.min_left_percent > 100 => Err(ParamError::Percent(self.min_left_percent)),
            _ if self.cut_period == 0 && self.evaluation == Evaluation::PerPeriod => {
                Err(ParamError::CutPeriod)
            }
            _ => {
                zero.map_or(Ok(()), |(name, _)| Err(ParamError::Zero(name)))?;
                odd_rate.map_or(Ok(()), |rate| Err(ParamError::Rates { min, rate, max }))
            }
        }
    }
}

/// Which way the rate is rising.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Halfway to the target at each step.
    FastRecovery,
    /// The target moves by R_AI.
    Additive,
    /// The target moves by R_HAI.
    Hyper,
}

/// The state of one flow.
#[derive(Clone, Debug)]
pub struct RateControl {
    params: Params,
    current: u64,
    target: u64,
    alpha: u32,
    /// Timer increases since the last cut.
    time_count: u32,
    /// Byte-counter increases since the last cut.
    byte_count: u32,
    /// Bytes sent since the last byte-counter increase or cut.
    bytes: u64,
    /// The first CNP has come.
    cut_before: bool,
    timer_increased: bool,
    cuts_again_at: Nanos,
    /// [`Evaluation::PerPeriod`]: the first CNP, from which periods are counted, and whether a CNP came in the
    /// present alpha period and in the present cut period.
    periods_from: Option<Nanos>,
    seen_by_alpha: bool,
    seen_by_cut: bool,
    cut_deadline: Option<Nanos>,
    alpha_deadline: Option<Nanos>,
    increase_deadline: Option<Nanos>,
    trace: Option<Box<Trace>>,
    /// Tests only: the increase of alpha as the seed prints it (DEV-47).
    #[cfg(test)]
    literal_alpha: bool,
}

impl RateControl {
    /// A flow that starts at `now`.
    pub fn new(params: Params, now: Nanos) -> Result<Self, ParamError> {
        params.check()?;
        let mut flow = Self {
            params,
            current: params.initial_rate,
            target: params.initial_rate,
            alpha: params.initial_alpha << ALPHA_HIDDEN,
            time_count: 0,
            byte_count: 0,
            bytes: 0,
            cut_before: false,
            timer_increased: false,
            cuts_again_at: 0,
            periods_from: None,
            seen_by_alpha: false,
            seen_by_cut: false,
            cut_deadline: None,
            alpha_deadline: None,
            increase_deadline: None,
            trace: None,
            #[cfg(test)]
            literal_alpha: false,
        };
        flow.arm_increase(now);
        Ok(flow)
    }

    /// Other parameters from now on (CC-024: all of them can be set at run time). The rates stay within the
    /// new bounds; timers that run end when they were to end.
    ///
    /// # Errors
    /// Parameters that do not fit; nothing is changed.
    pub fn set_params(&mut self, params: Params, now: Nanos) -> Result<(), ParamError> {
        params.check()?;
        self.params = params;
        self.current = self.current.clamp(params.min_rate, params.max_rate);
        self.target = self.target.clamp(self.current, params.max_rate);
        if self.at_full_rate() {
            self.increase_deadline = None;
        } else if self.increase_deadline.is_none() {
            self.arm_increase(now);
        }
        Ok(())
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Rate at which to send, bits/s.
    pub fn rate(&self) -> u64 {
        self.current
    }

    /// Rate the flow is rising to, bits/s.
    pub fn target(&self) -> u64 {
        self.target
    }

    /// The state as registers show it at `now`.
    pub fn registers(&self, now: Nanos) -> RegisterView {
        let again = self.cut_deadline.unwrap_or(if self.cut_before { self.cuts_again_at } else { 0 });
        let merging = again.saturating_sub(now);
        RegisterView::new(&self.state(), self.bytes, merging, self.increase_deadline.is_some())
    }

    pub(super) fn state(&self) -> State {
        State {
            current: self.current,
            target: self.target,
            alpha: (self.alpha >> ALPHA_HIDDEN) as u16,
            byte_count: self.byte_count,
            time_count: self.time_count,
        }
    }

    /// Starts to record events, from an empty trace.
    pub fn start_trace(&mut self) {
        self.trace = Some(Box::new(Trace::new(self.state())));
    }

    /// The trace so far, if one is recorded.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_deref()
    }

    /// Stops recording; the trace can still be read.
    pub fn stop_trace(&mut self) -> Option<&Trace> {
        self.trace.iter_mut().for_each(|trace| trace.stop());
        self.trace()
    }

    /// Writes a register of the algorithm, as firmware does before a flow starts (CC-016). Rates stay within their bounds.
    pub(super) fn write(&mut self, register: Register, value: u32, now: Nanos) {
        let (high, low) = ((value >> 16) as u16, value as u16);
        match register {
            Register::CnpMerge => {
                let until = now.saturating_add(u64::from(value) * MICROSECOND);
                self.cut_before |= value != 0;
                self.cuts_again_at = until;
                self.cut_deadline = self.cut_deadline.map(|_| until);
            }
            Register::Rate => {
                let bounds = |units| units_to_rate(units).clamp(self.params.min_rate, self.params.max_rate);
                self.current = bounds(low);
                // A rate only rises to its target.
                self.target = bounds(high).max(self.current);
                if self.at_full_rate() {
                    self.increase_deadline = None;
                }
            }
            Register::Alpha => self.alpha = (value & 0x3ff) << ALPHA_HIDDEN,
            Register::ByteCounter => self.bytes = u64::from(value) * BYTE_UNIT,
            Register::TimeAndByteCount => {
                (self.time_count, self.byte_count) = (u32::from(high), u32::from(low));
            }
            // The limiter's.
            Register::CcRate | Register::CcByteCount => {}
        }
    }

    /// Takes over from another reaction point, whose rate this is, bits/s. CNPs that came before are that one's.
    pub(super) fn go_on_from(&mut self, rate: u64, now: Nanos) {
        self.current = rate.clamp(self.params.min_rate, self.params.max_rate);
        self.target = self.target.max(self.current);
        (self.periods_from, self.alpha_deadline, self.cut_deadline) = (None, None, None);
        (self.seen_by_alpha, self.seen_by_cut) = (false, false);
        self.arm_increase(now);
    }

    /// A CNP came whose cut is at the end of the period.
    pub(super) fn cut_is_pending(&self) -> bool {
        self.seen_by_cut
    }

    /// `nocnp_timer_start`: the increase timer runs, unless it does or there is nothing to rise to (CC-017).
    pub(super) fn start_timer(&mut self, now: Nanos) {
        if self.increase_deadline.is_none() {
            self.arm_increase(now);
        }
    }

    /// The trace, to be carried from one that decided to the next.
    pub(super) fn trace_slot(&mut self) -> &mut Option<Box<Trace>> {
        &mut self.trace
    }

    fn record(&mut self, cause: Cause, now: Nanos) {
        if let Some(trace) = &mut self.trace {
            trace.record(cause, self.current, now);
        }
    }

    fn at_full_rate(&self) -> bool {
        self.current == self.params.max_rate
    }

    fn arm_increase(&mut self, from: Nanos) {
        let due = from.saturating_add(self.params.increase_period);
        self.increase_deadline = (!self.at_full_rate()).then_some(due);
    }

    /// A CNP arrived.
    pub fn on_cnp(&mut self, now: Nanos) {
        match self.params.evaluation {
            Evaluation::PerCnp => {
                self.alpha_deadline = Some(now.saturating_add(self.params.alpha_period));
                if now >= self.cuts_again_at {
                    self.cut(now);
                    self.raise_alpha();
                }
            }
            Evaluation::PerPeriod => self.note_cnp(now),
        }
    }

    /// A CNP that takes effect at the end of the periods it came in.
    fn note_cnp(&mut self, now: Nanos) {
        let from = *self.periods_from.get_or_insert(now);
        let end = |period: Nanos| {
            let periods = (now - from) / period + 1;
            from.saturating_add(periods.saturating_mul(period))
        };
        let (alpha, cut) = (end(self.params.alpha_period), end(self.params.cut_period));
        // The first one starts alpha where it is.
        self.seen_by_alpha = now != from;
        self.seen_by_cut = true;
        self.alpha_deadline.get_or_insert(alpha);
        self.cut_deadline.get_or_insert(cut);
        if let Some(rate) = self.params.first_cnp_rate.filter(|_| !self.cut_before && now == from) {
            self.current = self.current.min(rate);
            self.target = self.current;
        }
    }

    fn cut(&mut self, now: Nanos) {
        let before = self.current;
        if self.params.clamp_target == ClampTarget::Always || self.timer_increased || !self.cut_before {
            self.target = before;
        }
        let first = !self.cut_before && self.params.evaluation == Evaluation::PerCnp;
        self.current = match self.params.first_cnp_rate.filter(|_| first) {
            Some(rate) => rate.min(before),
            None => {
                let shift = ALPHA_BITS + self.params.rate_shift;
                let cut = (u128::from(before) * u128::from(self.alpha)) >> shift;
                let least = u128::from(before) * u128::from(self.params.min_left_percent) / 100;
                // The cut is below `before` and the floor is at most `before`, so 64 bits hold both.
                (before - cut as u64).max(least as u64).max(self.params.min_rate)
            }
        };
        (self.time_count, self.byte_count, self.bytes) = (0, 0, 0);
        self.cut_before = true;
        self.timer_increased = false;
        self.cuts_again_at = now.saturating_add(self.params.cut_period);
        self.arm_increase(now);
        self.record(Cause::Decrease, now);
    }

    /// alpha := (1 - g) alpha + g, never above 1023/1024 and its fraction (DEV-47).
    fn raise_alpha(&mut self) {
        let gain = u64::from(self.params.gain);
        let kept = (1024 - gain) * u64::from(self.alpha);
        #[cfg(test)]
        let added = if self.literal_alpha { gain << ALPHA_HIDDEN } else { gain << ALPHA_BITS };
        #[cfg(not(test))]
        let added = gain << ALPHA_BITS;
        self.alpha = ((kept + added) / 1024).min(u64::from(ALPHA_MAX)) as u32;
    }

    /// A frame was sent that takes `bytes` bytes of the wire.
    pub fn on_sent(&mut self, bytes: u64, now: Nanos) {
        if self.at_full_rate() {
            return;
        }
        self.bytes += bytes;
        while self.bytes >= self.params.byte_threshold && !self.at_full_rate() {
            self.bytes -= self.params.byte_threshold;
            self.byte_count = self.byte_count.saturating_add(1);
            let cause = match self.increase() {
                Stage::FastRecovery => Cause::ByteFastRecovery,
                Stage::Additive => Cause::ByteAdditive,
                Stage::Hyper => Cause::ByteHyper,
            };
            self.record(cause, now);
        }
        if self.at_full_rate() {
            self.increase_deadline = None;
        }
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Option<Nanos> {
        let deadlines = [self.alpha_deadline, self.cut_deadline, self.increase_deadline];
        // Asked before and after every packet: three comparisons, no iterator over what may be absent.
        let [alpha, cut, increase] = deadlines.map(|at| at.unwrap_or(Nanos::MAX));
        let first = alpha.min(cut).min(increase);
        (first != Nanos::MAX).then_some(first)
    }

    /// Runs the timers that have expired by `now`, each as if at its own time.
    pub fn handle_timeout(&mut self, now: Nanos) {
        while let Some(at) = self.next_timeout().filter(|at| *at <= now) {
            if self.alpha_deadline == Some(at) {
                self.alpha_period_ends(at);
            } else if self.cut_deadline == Some(at) {
                self.cut_period_ends(at);
            } else {
                self.increase_period_ends(at);
            }
        }
    }

    fn alpha_period_ends(&mut self, at: Nanos) {
        let next = Some(at.saturating_add(self.params.alpha_period));
        if std::mem::take(&mut self.seen_by_alpha) {
            self.raise_alpha();
            self.alpha_deadline = next;
            return;
        }
        let kept = u64::from(1024 - self.params.gain) * u64::from(self.alpha) / 1024;
        let unchanged = kept == u64::from(self.alpha);
        self.alpha = kept as u32; // Not above alpha.
        // Zero stays zero, and without a gain nothing moves: no reason to wake up again.
        self.alpha_deadline = next.filter(|_| !unchanged);
    }

    fn cut_period_ends(&mut self, at: Nanos) {
        let seen = std::mem::take(&mut self.seen_by_cut);
        if seen {
            self.cut(at);
        }
        self.cut_deadline = seen.then_some(at.saturating_add(self.params.cut_period));
    }

    fn increase_period_ends(&mut self, at: Nanos) {
        self.time_count = self.time_count.saturating_add(1);
        self.timer_increased = true;
        let cause = match self.increase() {
            Stage::FastRecovery => Cause::TimerFastRecovery,
            Stage::Additive => Cause::TimerAdditive,
            Stage::Hyper => Cause::TimerHyper,
        };
        self.arm_increase(at);
        self.record(cause, at);
    }

    /// The stage of the counters as they stand (DEV-46).
    fn stage(&self) -> Stage {
        let (t, b) = (self.time_count, self.byte_count);
        match self.params.stages {
            f if t.max(b) < f => Stage::FastRecovery,
            f if t.min(b) > f => Stage::Hyper,
            _ => Stage::Additive,
        }
    }

    /// One step up: the target first, then the rate halfway to it (DEV-45). Halves are rounded up, so
    /// that the rate reaches its target (DEV-40).
    fn increase(&mut self) -> Stage {
        let stage = self.stage();
        let step = match stage {
            Stage::FastRecovery => 0,
            Stage::Additive => self.params.additive,
            Stage::Hyper => self.params.hyper,
        };
        self.target = self.target.saturating_add(step).min(self.params.max_rate);
        self.current += (self.target - self.current).div_ceil(2);
        stage
    }
}

impl CongestionControl for RateControl {
    fn permit(&self) -> Permit {
        Permit::windowed(self.current, UNLIMITED_WINDOW)
    }

    fn on_cnp(&mut self, now: Nanos) {
        Self::on_cnp(self, now);
    }

    /// `bytes` are those on the wire.
    fn on_sent(&mut self, bytes: u64, now: Nanos) {
        Self::on_sent(self, bytes, now);
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.next_timeout()
    }

    fn run_timers(&mut self, now: Nanos) {
        self.handle_timeout(now);
    }
}

#[cfg(test)]
#[path = "reaction_point_tests.rs"]
mod tests;
