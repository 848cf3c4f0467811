//! Times as the reference computes them: seconds in double, cut to 64 fractional bits, then to ns.
use weir_dataplane::types::Nanos;

/// Nanoseconds in `value` units of `unit` ns each, truncated the way the reference truncates.
///
/// Negative or absurd values saturate.
pub fn truncated_ns(value: f64, unit: Nanos) -> Nanos {
    let whole = value.trunc();
    let fraction = ((value - whole) * 2f64.powi(64)) as u64;
    let part = (u128::from(fraction) * u128::from(unit)) >> 64;
    (whole as Nanos).saturating_mul(unit).saturating_add(part as Nanos)
}

/// Transmit time of `bytes` at `rate` bit/s. 1048 B take 83 ns at 100 Gb/s, not 83.84.
pub fn transmit_ns(bytes: u16, rate: u64) -> Nanos {
    truncated_ns(f64::from(bytes) * 8.0 / rate as f64, 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmit_times_of_the_reference() {
        let at = |gbps: u64, bytes| transmit_ns(bytes, gbps * 1_000_000_000);
        assert_eq!((at(100, 1048), at(25, 1048), at(400, 1048)), (83, 335, 20));
        assert_eq!((at(100, 60), at(100, 43)), (4, 3));
    }

    #[test]
    fn short_delays_lose_a_nanosecond() {
        assert_eq!(truncated_ns(0.00001, 1_000_000), 9);
        assert_eq!(truncated_ns(0.001, 1_000_000), 1000);
        assert_eq!(truncated_ns(2.0, 1_000_000_000), 2_000_000_000);
        assert_eq!(truncated_ns(2.00004, 1_000_000_000), 2_000_039_999);
    }
}
