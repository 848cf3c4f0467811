//! Quantities on the command line: each with its unit, read the same way by every command.

use std::time::Duration;
use weir_config::{LEAST_RATE, LONGEST_POLL_GAP, MTU, units};

/// How long something goes on: with a unit, in minutes (`5m`), or a bare number of seconds.
pub fn time(text: &str) -> Result<Duration, String> {
    let number = |text: &str| {
        text.parse::<f64>().ok().filter(|n| (0.0..1e9).contains(n) && !text.contains(['e', 'E']))
    };
    if let Some(seconds) = number(text) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    if let Some(minutes) = text.strip_suffix('m').and_then(number) {
        return Ok(Duration::from_secs_f64(60.0 * minutes));
    }
    units::time(text).map(Duration::from_nanos)
}

/// Between two polls, as long as a configuration may say it: nobody means seconds.
pub fn gap(text: &str) -> Result<Duration, String> {
    match units::time(text)? {
        ns if ns <= LONGEST_POLL_GAP => Ok(Duration::from_nanos(ns)),
        _ => Err(format!(
            "`{text}` is longer than {}, the longest poll_gap",
            units::show_time(LONGEST_POLL_GAP)
        )),
    }
}

/// A `device` that is written into a configuration.
pub fn device(text: &str) -> Result<String, String> {
    match text.contains(['"', '\\']) || text.contains(char::is_control) {
        true => Err(format!("`{text}` has quotes, backslashes or control characters: leave them out")),
        false => Ok(text.to_owned()),
    }
}

/// Bytes of the longest frame of a port, as many as a configuration may say.
pub fn frame(text: &str) -> Result<u32, String> {
    let bytes = units::size(text)?;
    let (least, most) = (MTU.start(), MTU.end());
    let known = u32::try_from(bytes).ok().filter(|_| MTU.contains(&bytes));
    known.ok_or_else(|| format!("`{text}` is no mtu of a port, which is {least} to {most}"))
}

/// Rate of a port, bit/s, as low as a configuration may say it.
pub fn port_rate(text: &str) -> Result<u64, String> {
    match units::rate(text)? {
        bps if bps >= LEAST_RATE => Ok(bps),
        _ => Err(format!("`{text}` is less than {}: nothing moves", units::show_rate(LEAST_RATE))),
    }
}

/// Decimal, or hexadecimal behind `0x`.
pub fn number(text: &str) -> Result<u16, String> {
    let number =
        text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u16::from_str_radix(digits, 16));
    number.map_err(|_| format!("`{text}` is not a number from 0 to 0xffff"))
}

/// The same of a queue pair.
pub fn queue_pair(text: &str) -> Result<u32, String> {
    let number =
        text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
    let number = number.ok().filter(|number| *number < 1 << 24);
    number.ok_or_else(|| format!("`{text}` is not a queue pair from 0 to 0xffffff"))
}

/// Length of a cable, mm.
pub fn cable(text: &str) -> Result<u64, String> {
    let mm = units::length(text)?;
    if mm > units::LONGEST_CABLE_MM {
        let km = units::LONGEST_CABLE_MM / 1_000_000;
        return Err(format!(
            "`{text}` is longer than any link without a switch in between ({km} km): each switch on the way needs headroom for \
             its own link alone"
        ));
    }
    Ok(mm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::units::rate;

    #[test]
    fn quantities_have_units() {
        assert_eq!(rate("2.5G"), Ok(2_500_000_000));
        assert_eq!((rate("100g"), rate("100Gbps")), (Ok(100_000_000_000), Ok(100_000_000_000)));
        assert_eq!(time("10s"), Ok(Duration::from_secs(10)));
        assert_eq!((time("10"), time("1.5m")), (Ok(Duration::from_secs(10)), Ok(Duration::from_secs(90))));
        assert_eq!(
            (cable("100.5m"), cable("40"), cable("120km")),
            (Ok(100_500), Ok(40_000), Ok(120_000_000))
        );
        assert!(cable("900km").unwrap_err().contains("120 km"));
        assert_eq!((frame("9K"), frame("9216")), (Ok(9000), Ok(9216)));
        for bad in ["", "ten", "-1s", "1e3s", "1e3", "inf", "nan"] {
            let text = time(bad).unwrap_err();
            assert!(text.contains("write a time as"), "{bad}: {text}");
        }
        assert!(gap("10").unwrap_err().contains("has no unit"));
        assert!(frame("nine").unwrap_err().contains("write a size as"));
    }
}
