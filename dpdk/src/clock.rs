//! Time for a polling loop.

use weir_dataplane::types::Nanos;
use weir_dpdk_sys as sys;

use crate::Eal;

/// Nanoseconds since its creation, from the time stamp counter: no system call, no division.
///
/// All copies of one clock agree to within the counters' own skew between cores. The rate is the EAL's
/// calibration, which on machines that do not state their frequency is rounded to 10 MHz.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
    /// Nanoseconds per tick, times 2^56.
    scale: u64,
}

/// Leaves room in 64 bits for counters down to 4 MHz; the error of the scale is below 1e-12 at 1 GHz.
const SHIFT: u32 = 56;

impl Clock {
    /// A clock that reads 0 now.
    pub fn new(_eal: &Eal) -> Self {
        // SAFETY: reads a number the EAL, which is up, calibrated.
        let hz = unsafe { sys::rte_get_tsc_hz() };
        Self { start: ticks(), scale: scale(hz) }
    }

    /// Ticks of the counter per second, to twelve digits.
    pub fn hz(&self) -> u64 {
        u64::try_from((1_000_000_000_u128 << SHIFT) / u128::from(self.scale.max(1))).unwrap_or(u64::MAX)
    }

    /// Nanoseconds since creation.
    #[inline]
    pub fn now(&self) -> Nanos {
        to_nanos(ticks().saturating_sub(self.start), self.scale)
    }
}

#[inline]
fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { sys::rte_rdtsc() }
}

fn scale(hz: u64) -> u64 {
    let scale = (1_000_000_000_u128 << SHIFT) / u128::from(hz.max(1));
    u64::try_from(scale).unwrap_or(u64::MAX)
}

#[inline]
fn to_nanos(ticks: u64, scale: u64) -> Nanos {
    ((u128::from(ticks) * u128::from(scale)) >> SHIFT) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_year_is_off_by_less_than_a_millisecond() {
        for hz in [25_000_000, 1_000_000_000, 2_600_000_000, 5_000_000_000] {
            let seconds = 365 * 86_400;
            let year = to_nanos(hz * seconds, scale(hz));
            assert!(year.abs_diff(seconds * 1_000_000_000) < 1_000_000, "{hz}: {year}");
        }
    }

    #[test]
    fn one_gigahertz_counts_nanoseconds() {
        assert_eq!(to_nanos(123_456, scale(1_000_000_000)), 123_456);
    }
}
