//! Who decides the rate of a queue pair: the three schemes of the adapter, and what a CNP does besides
//! cutting the rate (CC-003, CC-018..020).

use super::reaction_point::{ParamError, Params, RateControl};
use super::registers::{Globals, RATE_WINDOW, RegisterView};
use weir_dataplane::types::Nanos;

/// No limit to the work requests in flight.
pub const UNLIMITED: u32 = u32::MAX;

const HW_EN: u32 = 24;
const RATE_THROTTLE_EN: u32 = 25;
const OST_LIMIT_EN: u32 = 26;
const SPEED_LIMITER_EN: u32 = 54;

/// The scheme of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Scheme 1: hardware computes the rate and keeps to it.
    Hardware,
    /// Scheme 2: firmware writes the rate, hardware keeps to it.
    FirmwareRate,
    /// Scheme 3: firmware stops and starts the queue pair, nothing else limits it.
    Firmware,
}

impl Scheme {
    /// The enable bits of [`GlobalRegister::Control`](super::registers::GlobalRegister::Control); its other
    /// bits are zero here.
    pub fn enable_bits(self) -> u64 {
        let limits = 1 << RATE_THROTTLE_EN | 1 << OST_LIMIT_EN | 1 << SPEED_LIMITER_EN;
        match self {
            Self::Hardware => 1 << HW_EN | limits,
            Self::FirmwareRate => limits,
            Self::Firmware => 0,
        }
    }

    /// The scheme of a register value; `None`: bits that belong to none of the three.
    pub fn of_register(value: u64) -> Option<Self> {
        let bits = value & Self::Hardware.enable_bits();
        [Self::Hardware, Self::FirmwareRate, Self::Firmware].into_iter().find(|s| s.enable_bits() == bits)
    }
}

/// Work requests in flight, fewer for a while after a CNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Without congestion; 16 in the adapter.
    pub normal: u32,
    /// After a CNP; 8 in the adapter.
    pub reduced: u32,
    /// From the last CNP to normal again (`CNP_TIMER_THRD`), ns.
    pub restore_after: Nanos,
}

impl Outstanding {
    /// No limit.
    pub const NONE: Self = Self { normal: UNLIMITED, reduced: UNLIMITED, restore_after: 0 };

    /// 16, after a CNP 8 for this long.
    pub fn adapter(restore_after: Nanos) -> Self {
        Self { normal: 16, reduced: 8, restore_after }
    }
}

/// What a queue pair may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Bits/s on the wire.
    pub rate: u64,
    /// Work requests in flight; 0: nothing is sent, [`UNLIMITED`]: as many as there are.
    pub outstanding: u32,
}

/// The reaction point of one queue pair under one of the schemes.
#[derive(Clone, Debug)]
pub struct SchemeLimiter {
    scheme: Scheme,
    control: RateControl,
    outstanding: Outstanding,
    restore_at: Option<Nanos>,
    firmware_rate: u64,
    masked: bool,
    /// The limiter's present window and the bytes sent in it, as registers show them.
    window: (u64, u64),
}

impl SchemeLimiter {
    /// A queue pair that starts at `now`. The rate firmware has not written yet is the initial rate.
    ///
    /// # Errors
    /// Parameters that do not fit.
    pub fn new(
        scheme: Scheme,
        params: Params,
        outstanding: Outstanding,
        now: Nanos,
    ) -> Result<Self, ParamError> {
        Ok(Self {
            scheme,
            control: RateControl::new(params, now)?,
            outstanding,
            restore_at: None,
            firmware_rate: params.initial_rate,
            masked: false,
            window: (0, 0),
        })
    }

    /// What the queue pair may do.
    pub fn allowance(&self) -> Allowance {
        let rate = match self.scheme {
            Scheme::Hardware => self.control.rate(),
            Scheme::FirmwareRate => self.firmware_rate,
            Scheme::Firmware => self.control.params().max_rate,
        };
        let outstanding = match (self.scheme, self.restore_at) {
            _ if self.masked => 0,
            (Scheme::Firmware, _) => UNLIMITED,
            (_, Some(_)) => self.outstanding.reduced,
            (_, None) => self.outstanding.normal,
        };
        Allowance { rate, outstanding }
    }

    /// A CNP arrived. What firmware does about it is its own matter.
    pub fn on_cnp(&mut self, now: Nanos) {
        if self.scheme == Scheme::Hardware {
            self.control.on_cnp(now);
        }
        if self.scheme != Scheme::Firmware && self.outstanding.reduced < self.outstanding.normal {
            self.restore_at = Some(now.saturating_add(self.outstanding.restore_after));
        }
    }

    /// A frame was sent that takes `bytes` bytes of the wire.
    pub fn on_sent(&mut self, bytes: u64, now: Nanos) {
        if self.scheme == Scheme::Hardware {
            self.control.on_sent(bytes, now);
        }
        let window = now / RATE_WINDOW;
        let earlier = if window == self.window.0 { self.window.1 } else { 0 };
        self.window = (window, earlier + bytes);
    }

    /// Other settings from now on (CC-024).
    ///
    /// # Errors
    /// Parameters that do not fit; nothing is changed.
    pub fn configure(&mut self, globals: &Globals, now: Nanos) -> Result<(), ParamError> {
        self.control.set_params(globals.params, now)?;
        (self.scheme, self.outstanding) = (globals.scheme, globals.outstanding);
        self.firmware_rate = self.firmware_rate.min(globals.params.max_rate);
        Ok(())
    }

    /// The registers of the queue pair at `now`.
    pub fn registers(&self, now: Nanos) -> RegisterView {
        let bytes = if now / RATE_WINDOW == self.window.0 { self.window.1 } else { 0 };
        self.control.registers(now).limited(self.allowance().rate, bytes)
    }

    /// Firmware writes `CC_RATE_MEM`: the rate in scheme 2, without effect in the others.
    pub fn write_rate(&mut self, rate: u64) {
        self.firmware_rate = rate.clamp(1, self.control.params().max_rate);
    }

    /// Firmware writes `sq_arb_mask`: a masked queue pair sends nothing.
    pub fn mask(&mut self, masked: bool) {
        self.masked = masked;
    }

    /// It is masked.
    pub fn is_masked(&self) -> bool {
        self.masked
    }

    /// Writes the bytes of the limiter's present window.
    pub(super) fn write_window(&mut self, bytes: u64, now: Nanos) {
        self.window = (now / RATE_WINDOW, bytes);
    }

    /// The rate machine.
    pub fn control(&self) -> &RateControl {
        &self.control
    }

    pub(super) fn control_mut(&mut self) -> &mut RateControl {
        &mut self.control
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Option<Nanos> {
        let rate = self.control.next_timeout().filter(|_| self.scheme == Scheme::Hardware);
        rate.into_iter().chain(self.restore_at).min()
    }

    /// Runs the timers that have expired by `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        if self.scheme == Scheme::Hardware {
            self.control.handle_timeout(now);
        }
        self.restore_at = self.restore_at.filter(|at| *at > now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::registers::Register;
    use super::*;

    const LINE: u64 = 100_000_000_000;

    fn point(scheme: Scheme) -> SchemeLimiter {
        SchemeLimiter::new(scheme, Params::paper(LINE), Outstanding::adapter(30_000), 0).unwrap()
    }

    #[test]
    fn cc018_to_cc020_bits_of_the_schemes() {
        let bit = |scheme: Scheme, n: u32| scheme.enable_bits() >> n & 1;
        let bits = |scheme| [24, 25, 26, 54].map(|n| bit(scheme, n));
        assert_eq!(bits(Scheme::Hardware), [1, 1, 1, 1]);
        assert_eq!(bits(Scheme::FirmwareRate), [0, 1, 1, 1]);
        assert_eq!(bits(Scheme::Firmware), [0, 0, 0, 0]);
        for scheme in [Scheme::Hardware, Scheme::FirmwareRate, Scheme::Firmware] {
            // The merge period stands in bits 15:0 of the same register.
            assert_eq!(Scheme::of_register(scheme.enable_bits() | 50), Some(scheme));
        }
        assert_eq!(Scheme::of_register(1 << 24), None);
    }

    #[test]
    fn cc003_a_cnp_halves_the_requests_in_flight_for_a_while() {
        let mut rp = point(Scheme::Hardware);
        assert_eq!(rp.allowance(), Allowance { rate: LINE, outstanding: 16 });
        rp.on_cnp(1_000);
        assert_eq!(rp.allowance().outstanding, 8);
        assert!(rp.allowance().rate < LINE);
        // A further CNP starts the time anew.
        rp.on_cnp(20_000);
        rp.handle_timeout(31_000);
        assert_eq!(rp.allowance().outstanding, 8);
        rp.handle_timeout(50_000);
        assert_eq!(rp.allowance().outstanding, 16);
    }

    #[test]
    fn cc019_firmware_sets_the_rate() {
        let mut rp = point(Scheme::FirmwareRate);
        rp.on_cnp(0);
        assert_eq!(rp.allowance(), Allowance { rate: LINE, outstanding: 8 });
        assert_eq!(rp.next_timeout(), Some(30_000), "no rate timers");
        rp.write_rate(LINE / 4);
        rp.handle_timeout(30_000);
        assert_eq!(rp.allowance(), Allowance { rate: LINE / 4, outstanding: 16 });
        assert_eq!(rp.next_timeout(), None);
        rp.write_rate(2 * LINE);
        assert_eq!(rp.allowance().rate, LINE);
    }

    #[test]
    fn cc020_firmware_only_masks() {
        let mut rp = point(Scheme::Firmware);
        rp.on_cnp(0);
        rp.write_rate(5);
        assert_eq!(rp.allowance(), Allowance { rate: LINE, outstanding: UNLIMITED });
        rp.mask(true);
        assert_eq!(rp.allowance().outstanding, 0);
        assert_eq!(rp.next_timeout(), None);
    }

    #[test]
    fn cc015_registers_of_a_queue_pair() {
        let params = Params { cut_period: 50_000, ..Params::paper(LINE) };
        let mut rp = SchemeLimiter::new(Scheme::Hardware, params, Outstanding::adapter(30_000), 0).unwrap();
        rp.on_sent(1500, 2_000);
        rp.on_sent(1500, 2_047);
        assert_eq!(rp.registers(2_047).read(Register::CcByteCount), 3000);
        assert_eq!(rp.registers(2_048).read(Register::CcByteCount), 0);
        assert!(!rp.registers(2_048).timer_busy(), "cc017: at full rate no timer runs");
        rp.on_cnp(10_000);
        let view = rp.registers(12_500);
        assert_eq!(view.read(Register::CnpMerge), 48, "50 us less 2.5, rounded up");
        assert_eq!(view.read(Register::Rate), (12_800 << 16) + 6_406);
        assert_eq!(view.read(Register::CcRate), 6_406);
        assert_eq!(view.read(Register::TimeAndByteCount), 0);
        assert!(view.timer_busy());
    }

    #[test]
    fn cc024_settings_change_at_run_time() {
        let mut rp = point(Scheme::Hardware);
        let mut globals = Globals {
            scheme: Scheme::FirmwareRate,
            params: Params::connectx(LINE / 2),
            outstanding: Outstanding { normal: 4, reduced: 1, restore_after: 5_000 },
        };
        rp.configure(&globals, 100).unwrap();
        assert_eq!(rp.allowance(), Allowance { rate: LINE / 2, outstanding: 4 });
        globals.params.alpha_period = 0;
        assert!(rp.configure(&globals, 200).is_err());
        globals = Globals { scheme: Scheme::Hardware, params: Params::paper(LINE), ..globals };
        rp.configure(&globals, 300).unwrap();
        assert_eq!(rp.allowance().rate, LINE / 2, "the rate rises from where it was");
        assert_eq!(rp.next_timeout(), Some(300 + 55_000));
    }
}
