//! The register view of a flow: the narrow numbers hardware shows for the wide ones kept here.
//!
//! Addresses and the fields named in the requirements are published; where two numbers share a register
//! without a published place for each, the place is ours and stands in the docstring.

use super::reaction_point::{ParamError, Params};
use super::scheme::{Outstanding, Scheme};
use super::trace::State;
use weir_dataplane::types::Nanos;

/// Bits per second of one rate unit: a byte per window of 1024 cycles at 1 GHz (CC-001, DEV-40).
pub const RATE_UNIT: u64 = 7_812_500;
/// Nanoseconds of such a window.
pub const RATE_WINDOW: Nanos = 1024;
/// Distance between the registers of two queue pairs; queue pair i counts from 1 (CC-015).
pub const QP_STRIDE: u64 = 0x100;
/// Bytes of one unit of the byte counter and its threshold (DEV-44: 19 bits of bytes would end at 512 KiB).
pub const BYTE_UNIT: u64 = 64;
/// Nanoseconds of the microsecond fields.
pub(super) const MICROSECOND: Nanos = 1_000;

/// Per-QP registers of queue pair 1 (CC-015).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Register {
    /// `CNP_MERGE_MEM`: microseconds during which CNPs do not cut again, rounded up.
    CnpMerge = 0x60_0000,
    /// `RATE_MEM`: target rate in units in bits 31:16, current rate in bits 15:0.
    Rate = 0x60_0008,
    /// `ALPHA_MEM`: alpha in bits 9:0.
    Alpha = 0x60_0010,
    /// `BYTE_COUNTER_MEM`: bytes since the last byte-counter increase, in units of 64 bytes (DEV-44).
    ByteCounter = 0x60_0018,
    /// `T_BC_MEM`: timer increases in bits 31:16, byte-counter increases in bits 15:0.
    TimeAndByteCount = 0x60_0020,
    /// `CC_RATE_MEM`: the rate the limiter keeps, in units; firmware writes it in scheme 2 (CC-019).
    CcRate = 0x60_0028,
    /// `CC_BYTE_CNT_MEM`: bytes sent in the present window of 1024 cycles.
    CcByteCount = 0x60_0030,
}

impl Register {
    /// All of them, in the order of their addresses.
    pub const ALL: [Self; 7] = [
        Self::CnpMerge,
        Self::Rate,
        Self::Alpha,
        Self::ByteCounter,
        Self::TimeAndByteCount,
        Self::CcRate,
        Self::CcByteCount,
    ];

    /// Its name in the manual of the adapter.
    pub fn name(self) -> &'static str {
        match self {
            Self::CnpMerge => "CNP_MERGE_MEM",
            Self::Rate => "RATE_MEM",
            Self::Alpha => "ALPHA_MEM",
            Self::ByteCounter => "BYTE_COUNTER_MEM",
            Self::TimeAndByteCount => "T_BC_MEM",
            Self::CcRate => "CC_RATE_MEM",
            Self::CcByteCount => "CC_BYTE_CNT_MEM",
        }
    }

    /// Address of this register of queue pair `qp`, from 1; `None` for 0.
    pub fn address(self, qp: u64) -> Option<u64> {
        qp.checked_sub(1)?.checked_mul(QP_STRIDE)?.checked_add(self as u64)
    }
}

/// `sq_arb_mask` in bit 1, `nocnp_timer_start` in bit 5 of queue pair 1 (CC-017, CC-020).
pub const ARBITRATION: u64 = 0x40_0000;
/// `sq_arb_mask`: the queue pair sends nothing.
pub const MASK_BIT: u64 = 1 << 1;
/// `nocnp_timer_start`: written, never read as set.
pub const TIMER_START_BIT: u64 = 1 << 5;

/// What stands at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// A register that all queue pairs share.
    Global(GlobalRegister),
    /// A register of queue pair `.1`, from 1.
    Qp(Register, u64),
    /// [`ARBITRATION`] of queue pair `.0`, from 1.
    Arbitration(u64),
}

impl At {
    /// `None`: nothing is there.
    pub fn address(address: u64) -> Option<Self> {
        if let Some(global) = GlobalRegister::ALL.into_iter().find(|register| *register as u64 == address) {
            return Some(Self::Global(global));
        }
        let (base, of_qp): (u64, fn(u64) -> Option<Register>) = match address {
            0x40_0000..0x60_0000 => (ARBITRATION, |_| None),
            0x60_0000.. => {
                (Register::CnpMerge as u64, |at| Register::ALL.into_iter().find(|r| *r as u64 == at))
            }
            _ => return None,
        };
        let (qp, offset) = ((address - base) / QP_STRIDE + 1, (address - base) % QP_STRIDE);
        match of_qp(base + offset) {
            Some(register) => Some(Self::Qp(register, qp)),
            None => (base == ARBITRATION && offset == 0).then_some(Self::Arbitration(qp)),
        }
    }

    /// The bits that can be written there.
    pub fn bits(self) -> u64 {
        match self {
            Self::Global(GlobalRegister::CnpTimer) => u64::from(u32::MAX),
            Self::Global(GlobalRegister::Increase) => (1 << 51) - 1,
            Self::Global(GlobalRegister::Alpha) => 0xffff,
            Self::Global(GlobalRegister::Control) => 0xffff | Scheme::Hardware.enable_bits(),
            Self::Qp(Register::Alpha, _) => 0x3ff,
            Self::Qp(Register::CcRate, _) => 0xffff,
            Self::Qp(..) => u64::from(u32::MAX),
            Self::Arbitration(_) => MASK_BIT | TIMER_START_BIT,
        }
    }
}

/// The registers of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterView {
    state: State,
    bytes: u64,
    merging: Nanos,
    timer_runs: bool,
    limit: u64,
    window_bytes: u64,
}

impl RegisterView {
    pub(super) fn new(state: &State, bytes: u64, merging: Nanos, timer_runs: bool) -> Self {
        Self { state: *state, bytes, merging, timer_runs, limit: state.current, window_bytes: 0 }
    }

    /// The same with what the limiter knows: the rate it keeps, and the bytes of its window.
    pub(super) fn limited(self, limit: u64, window_bytes: u64) -> Self {
        Self { limit, window_bytes, ..self }
    }

    /// Alpha in 1024ths, 10 bits.
    pub fn alpha(&self) -> u16 {
        self.state.alpha
    }

    /// `nocnp_timer_busy`: the increase timer runs (CC-017).
    pub fn timer_busy(&self) -> bool {
        self.timer_runs
    }

    /// What a read returns.
    pub fn read(&self, register: Register) -> u32 {
        let short = |n: u32| n.min(0xffff);
        let wide = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let rate = |bps: u64| u32::from(rate_to_units(bps));
        match register {
            Register::CnpMerge => wide(self.merging.div_ceil(MICROSECOND)),
            Register::Rate => rate(self.state.target) << 16 | rate(self.state.current),
            Register::CcRate => rate(self.limit),
            Register::Alpha => u32::from(self.state.alpha),
            Register::ByteCounter => wide(self.bytes / BYTE_UNIT),
            Register::TimeAndByteCount => short(self.state.time_count) << 16 | short(self.state.byte_count),
            Register::CcByteCount => wide(self.window_bytes),
        }
    }
}

/// Nearest number of rate units, at most 65535 (511.99 Gb/s).
pub fn rate_to_units(bits_per_second: u64) -> u16 {
    let units = bits_per_second.saturating_add(RATE_UNIT / 2) / RATE_UNIT;
    u16::try_from(units).unwrap_or(u16::MAX)
}

/// Bits per second of this many rate units.
pub fn units_to_rate(units: u16) -> u64 {
    u64::from(units) * RATE_UNIT
}

/// The registers all queue pairs share (section 9.9 of the seed, CC-024).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum GlobalRegister {
    /// `dcqcn_nocnp_timer_th` us in bits 15:0, `dcqcn_max_rate` units in 31:16, `dcqcn_byte_cnt_th` in units
    /// of 64 bytes in 50:32 (DEV-44). Bit 51, `nocnp_timer_busy`, is [`RegisterView::timer_busy`].
    Increase = 0x20_0200,
    /// `dcqcn_alpha_timer_th` us in bits 15:0.
    Alpha = 0x20_0218,
    /// `dcqcn_rx_cnp_merge_period` us in bits 15:0, the enable bits of the [`Scheme`] above.
    Control = 0x20_0220,
    /// `CNP_TIMER_THRD` us in bits 31:0: from the last CNP to the full number of work requests.
    CnpTimer = 0x20_00a0,
}

/// What the global registers set. The parameters without an address (g, shift, R_AI, R_HAI, DEV-49) are set
/// in [`Params`] directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Globals {
    /// Who decides.
    pub scheme: Scheme,
    /// The algorithm's parameters.
    pub params: Params,
    /// Work requests in flight.
    pub outstanding: Outstanding,
}

/// Why a register write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Enable bits that belong to none of the three schemes.
    #[error("{0:#x}: the enable bits belong to none of the three schemes")]
    Scheme(u64),
    /// The parameters that would result do not fit.
    #[error(transparent)]
    Params(#[from] ParamError),
}

impl GlobalRegister {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::CnpTimer, Self::Increase, Self::Alpha, Self::Control];
}

impl Globals {
    /// What a read returns; what does not fit its field shows the field's largest value.
    pub fn read(&self, register: GlobalRegister) -> u64 {
        let micros = |ns: Nanos, bits: u32| (ns / MICROSECOND).min((1 << bits) - 1);
        match register {
            GlobalRegister::Increase => {
                let bytes = (self.params.byte_threshold / BYTE_UNIT).min((1 << 19) - 1);
                let rate = u64::from(rate_to_units(self.params.max_rate));
                bytes << 32 | rate << 16 | micros(self.params.increase_period, 16)
            }
            GlobalRegister::Alpha => micros(self.params.alpha_period, 16),
            GlobalRegister::Control => self.scheme.enable_bits() | micros(self.params.cut_period, 16),
            GlobalRegister::CnpTimer => micros(self.outstanding.restore_after, 32),
        }
    }

    /// Writes a register.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn write(&mut self, register: GlobalRegister, value: u64) -> Result<(), WriteError> {
        let mut new = *self;
        let micros = (value & 0xffff) * MICROSECOND;
        match register {
            GlobalRegister::Increase => {
                new.params.increase_period = micros;
                new.params.max_rate = units_to_rate((value >> 16) as u16);
                new.params.byte_threshold = (value >> 32 & 0x7_ffff) * BYTE_UNIT;
                new.params.initial_rate = new.params.initial_rate.min(new.params.max_rate);
            }
            GlobalRegister::Alpha => new.params.alpha_period = micros,
            GlobalRegister::Control => {
                new.params.cut_period = micros;
                new.scheme = Scheme::of_register(value).ok_or(WriteError::Scheme(value))?;
            }
            GlobalRegister::CnpTimer => new.outstanding.restore_after = (value & 0xffff_ffff) * MICROSECOND,
        }
        new.params.check()?;
        *self = new;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_dev_40() {
        assert_eq!(rate_to_units(40_000_000), 5); // 5.12
        assert_eq!(rate_to_units(3_000_000), 0);
        assert_eq!(rate_to_units(u64::MAX), u16::MAX);
        assert_eq!(units_to_rate(u16::MAX), 511_992_187_500);
        assert!((0..=u16::MAX).all(|units| rate_to_units(units_to_rate(units)) == units));
    }

    #[test]
    fn cc015_addresses_count_queue_pairs_from_one() {
        assert_eq!(Register::Alpha.address(1), Some(0x60_0010));
        assert_eq!(Register::CcRate.address(3), Some(0x60_0228));
        assert_eq!(Register::CcByteCount.address(2), Some(0x60_0130));
        assert_eq!(Register::Rate.address(0), None);
    }

    #[test]
    fn every_address_is_of_one_register() {
        for register in Register::ALL {
            let address = register.address(7).unwrap();
            assert_eq!(At::address(address), Some(At::Qp(register, 7)));
            assert_eq!(At::address(address + 1), None);
        }
        assert_eq!(At::address(0x40_0100), Some(At::Arbitration(2)));
        assert_eq!(At::address(0x20_0220), Some(At::Global(GlobalRegister::Control)));
        assert!([0, 0x20_0208, 0x40_0008, 0x60_0038, u64::MAX].iter().all(|at| At::address(*at).is_none()));
    }

    #[test]
    fn cc024_globals_are_read_and_written() {
        let mut globals = Globals {
            scheme: Scheme::Hardware,
            params: Params { cut_period: 50_000, ..Params::paper(100_000_000_000) },
            outstanding: Outstanding::adapter(300_000),
        };
        assert_eq!(globals.read(GlobalRegister::Increase), 156_250 << 32 | 12_800 << 16 | 55);
        assert_eq!(globals.read(GlobalRegister::Alpha), 55);
        assert_eq!(globals.read(GlobalRegister::Control) & 0xffff, 50);
        assert_eq!(globals.read(GlobalRegister::CnpTimer), 300);
        globals.write(GlobalRegister::Increase, 1000 << 32 | 5120 << 16 | 300).unwrap();
        assert_eq!((globals.params.byte_threshold, globals.params.increase_period), (64_000, 300_000));
        assert_eq!((globals.params.max_rate, globals.params.initial_rate), (40_000_000_000, 40_000_000_000));
        globals.write(GlobalRegister::Control, Scheme::FirmwareRate.enable_bits() | 4).unwrap();
        assert_eq!((globals.scheme, globals.params.cut_period), (Scheme::FirmwareRate, 4_000));
        let before = globals;
        assert_eq!(globals.write(GlobalRegister::Control, 1 << 24), Err(WriteError::Scheme(1 << 24)));
        assert!(globals.write(GlobalRegister::Alpha, 0).is_err());
        assert_eq!(globals, before);
    }
}
