//! Values of a configuration with the unit that shows them exactly: what is shown can be written there again.

/// `n` in the first unit of the list it is at least one of, with up to three decimals if exact.
fn scaled(n: u64, units: &[(&str, u64)]) -> String {
    for &(unit, scale) in units {
        let thousandths = u128::from(n) * 1_000;
        if n >= scale && thousandths.is_multiple_of(u128::from(scale)) {
            let t = thousandths / u128::from(scale);
            let text = format!("{}.{:03}", t / 1_000, t % 1_000);
            return text.trim_end_matches('0').trim_end_matches('.').to_owned() + unit;
        }
    }
    format!("{n}{}", units.last().map_or("", |u| u.0))
}

/// A rate in bit/s: `100G`.
pub fn show_rate(bps: u64) -> String {
    scaled(
        bps,
        &[("T", 1_000_000_000_000), ("G", 1_000_000_000), ("M", 1_000_000), ("K", 1_000), ("bit/s", 1)],
    )
}

/// Frames per second: `5Kpps`.
pub fn show_frame_rate(pps: u64) -> String {
    scaled(pps, &[("Mpps", 1_000_000), ("Kpps", 1_000), ("pps", 1)])
}

/// A size in bytes: `12MiB`, `9216B`.
pub fn show_size(bytes: u64) -> String {
    let exact = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("MB", 1_000_000), ("KB", 1_000)];
    match exact.into_iter().find(|(_, s)| bytes >= *s && bytes.is_multiple_of(*s)) {
        Some((unit, scale)) => format!("{}{unit}", bytes / scale),
        None => format!("{bytes}B"),
    }
}

/// A time in ns: `200ms`.
pub fn show_time(ns: u64) -> String {
    scaled(ns, &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)])
}

/// A length in mm: `40m`.
pub fn show_length(mm: u64) -> String {
    match mm {
        0 => "0m".to_owned(),
        _ => scaled(mm, &[("m", 1_000), ("mm", 1)]),
    }
}

/// A share in parts per million: `37.5%`.
pub fn show_share(ppm: u64) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned() + "%"
}
