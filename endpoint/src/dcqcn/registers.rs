//! The register view of a flow: the narrow numbers hardware shows for the wide ones kept here.

use super::trace::State;

/// Bits per second of one rate unit: a byte per window of 1024 cycles at 1 GHz (CC-001, DEV-40).
pub const RATE_UNIT: u64 = 7_812_500;
/// Distance between the registers of two queue pairs; queue pair i counts from 1 (CC-015).
pub const QP_STRIDE: u64 = 0x100;

/// Per-QP registers of queue pair 1 (CC-015).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Register {
    /// Current rate in units.
    Rate = 0x60_0008,
    /// Alpha in bits 9:0.
    Alpha = 0x60_0010,
    /// Bytes since the last byte-counter increase, in units of 64 bytes (DEV-44).
    ByteCounter = 0x60_0018,
    /// Timer increases in bits 31:16, byte-counter increases in bits 15:0.
    TimeAndByteCount = 0x60_0020,
    /// Target rate in units.
    CcRate = 0x60_0028,
}

impl Register {
    /// Address of this register of queue pair `qp`, from 1; `None` for 0.
    pub fn address(self, qp: u64) -> Option<u64> {
        qp.checked_sub(1)?.checked_mul(QP_STRIDE)?.checked_add(self as u64)
    }
}

/// The registers of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterView {
    state: State,
    bytes: u64,
}

impl RegisterView {
    pub(super) fn new(state: &State, bytes: u64) -> Self {
        Self { state: *state, bytes }
    }

    /// Alpha in 1024ths, 10 bits.
    pub fn alpha(&self) -> u16 {
        self.state.alpha
    }

    /// What a read returns.
    pub fn read(&self, register: Register) -> u32 {
        let short = |n: u32| n.min(0xffff);
        match register {
            Register::Rate => u32::from(rate_to_units(self.state.current)),
            Register::CcRate => u32::from(rate_to_units(self.state.target)),
            Register::Alpha => u32::from(self.state.alpha),
            Register::ByteCounter => u32::try_from(self.bytes / 64).unwrap_or(u32::MAX),
            Register::TimeAndByteCount => short(self.state.time_count) << 16 | short(self.state.byte_count),
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
    fn addresses_count_queue_pairs_from_one() {
        assert_eq!(Register::Alpha.address(1), Some(0x60_0010));
        assert_eq!(Register::CcRate.address(3), Some(0x60_0228));
        assert_eq!(Register::Rate.address(0), None);
    }
}
