//! Times as the reference computes them: seconds in double, cut to 64 fractional bits, then to ns. And the notation of its files.
use weir_dataplane::types::Nanos;

/// A second, ns.
pub const SECOND: Nanos = 1_000_000_000;

/// Longest time in a file, s.
const LONGEST_S: f64 = 1000.0;

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

/// bit/s of a rate in the reference's notation: `100Gbps`, `2.5Gb/s`, `100Mbps`, cut to whole ones.
///
/// # Errors
/// What it is not, in words.
pub fn bit_rate(text: &str) -> Result<u64, String> {
    let split = text.strip_suffix("bps").or_else(|| text.strip_suffix("b/s")).map(|number| {
        let prefixes = [("G", 1e9), ("M", 1e6), ("k", 1e3), ("K", 1e3)];
        let prefixed = prefixes.iter().find_map(|(prefix, unit)| Some((number.strip_suffix(prefix)?, *unit)));
        prefixed.unwrap_or((number, 1.0))
    });
    let is_plain = |number: &str| number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let rate = split.filter(|(number, _)| is_plain(number));
    let rate = rate.and_then(|(number, unit)| Some(number.parse::<f64>().ok()? * unit));
    let rate = rate.filter(|rate| (1.0..u64::MAX as f64).contains(rate));
    rate.map(|rate| rate as u64).ok_or_else(|| format!("`{text}` is not a rate such as 100Gbps"))
}

/// ns of a delay in the reference's notation: `0.001ms`, `1us`, `600ns`.
///
/// # Errors
/// What it is not, in words.
pub fn delay_ns(text: &str) -> Result<Nanos, String> {
    let units = [("ms", 1_000_000), ("us", 1000), ("ns", 1), ("s", SECOND)];
    let split = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let delay = split.and_then(|(number, unit)| Some((number.parse::<f64>().ok()?, unit)));
    let delay = delay.filter(|(n, unit)| (0.0..=LONGEST_S * 1e9).contains(&(n * *unit as f64)));
    delay
        .map(|(n, unit)| truncated_ns(n, unit))
        .ok_or_else(|| format!("`{text}` is not a delay such as 0.001ms"))
}

/// ns of a time in seconds.
///
/// # Errors
/// What it is not, in words.
pub fn seconds(text: &str) -> Result<Nanos, String> {
    let number = text.parse().ok().filter(|n| (0.0..=LONGEST_S).contains(n));
    number.map(|n| truncated_ns(n, SECOND)).ok_or_else(|| format!("`{text}` is not a time in seconds"))
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
    fn delays_have_the_units_of_the_reference() {
        for (text, ns) in [("0.001ms", 1000), ("0.00001ms", 9), ("1us", 1000), ("600ns", 600), ("0s", 0)] {
            assert_eq!(delay_ns(text), Ok(ns), "{text}");
        }
        for odd in ["1", "ms", "-1us", "1001s", "nans", "1 us"] {
            assert!(delay_ns(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn rates_have_the_units_of_the_reference() {
        for (text, rate) in [
            ("100Gbps", 100_000_000_000),
            ("2.5Gb/s", 2_500_000_000),
            ("0.1Mbps", 100_000),
            ("100Kbps", 100_000),
            ("64kb/s", 64_000),
            ("100000000000bps", 100_000_000_000),
        ] {
            assert_eq!(bit_rate(text), Ok(rate), "{text}");
        }
        for odd in
            ["100", "Gbps", "0Gbps", "-1Gbps", "1e3Gbps", "infbps", "1.2.3Gbps", "99999999999Gbps", "1 Gbps"]
        {
            assert!(bit_rate(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn short_delays_lose_a_nanosecond() {
        assert_eq!(truncated_ns(0.00001, 1_000_000), 9);
        assert_eq!(truncated_ns(0.001, 1_000_000), 1000);
        assert_eq!(truncated_ns(2.0, 1_000_000_000), 2_000_000_000);
        assert_eq!(truncated_ns(2.00004, 1_000_000_000), 2_000_039_999);
    }
}
