//! Numbers with units: rates in bit/s, sizes in bytes, times in ns, lengths in mm, shares in parts per million.
//!
//! Integer arithmetic throughout: `2.5G` is exactly 2 500 000 000; a value that is no whole number of the
//! base unit (`0.3B`) is refused, never rounded.

use toml::de::DeValue;
use weir_dataplane::storm_control::FloodLimit;
use weir_layout::{show_frame_rate, show_length, show_share};
pub use weir_layout::{show_rate, show_size, show_time};

/// Why a value was refused, and what would be accepted.
#[derive(Debug)]
pub(super) struct Bad {
    pub message: String,
    pub remedy: String,
}

impl Bad {
    pub fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: remedy.into() }
    }
}

/// How values of one kind are read and shown.
pub(super) struct Kind<T> {
    pub parse: fn(&DeValue<'_>) -> Result<T, Bad>,
    pub show: fn(&T) -> String,
}

/// Names without regard to case, and what they are in the base unit.
type Units = &'static [(&'static str, u64)];

/// Rates: decimal multiples, bit/s.
const RATES: Units = &[
    ("", 1),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    // As a rate below 1K is shown.
    ("bit/s", 1),
    ("bps", 1),
    ("Kbps", 1_000),
    ("Mbps", 1_000_000),
    ("Gbps", 1_000_000_000),
    ("Tbps", 1_000_000_000_000),
];
/// Frames per second: decimal multiples.
const FRAME_RATES: Units = &[("pps", 1), ("Kpps", 1_000), ("Mpps", 1_000_000)];
/// Sizes: `KB` and `K` are 1000 bytes, `KiB` is 1024.
const SIZES: Units = &[
    ("", 1),
    ("B", 1),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const TIMES: Units =
    &[("", 1), ("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const LENGTHS: Units = &[("mm", 1), ("cm", 10), ("m", 1_000), ("km", 1_000_000)];
/// Parts per million.
const SHARES: Units = &[("%", 10_000)];

/// What quantities are called in the forms of keys, and how they are written.
const CALLED: [(&str, Units); 6] = [
    ("rate", RATES),
    ("frames per second", FRAME_RATES),
    ("size", SIZES),
    ("time", TIMES),
    ("length", LENGTHS),
    ("share", SHARES),
];

/// The quantities that a key of this form takes, as the pattern of a text; `None`: it takes none.
pub(super) fn pattern(form: &str) -> Option<String> {
    let is_time = |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with('s');
    let called = |name: &str| {
        form.starts_with(name)
            || form.contains(&format!(", {name}"))
            || form.contains(&format!(", or {name}"))
    };
    let mut ways: Vec<String> =
        CALLED.iter().filter(|(name, _)| called(name)).map(|(_, units)| of_units(units)).collect();
    if ways.is_empty() && form.split(' ').next().is_some_and(is_time) {
        ways.push(of_units(TIMES));
    }
    if ways.is_empty() {
        return None;
    }
    ways.extend(form.split('"').skip(1).step_by(2).map(str::to_owned));
    ways.extend(called("rate").then(|| "unlimited".to_owned()));
    Some(format!("^(?:{})$", ways.join("|")))
}

/// A number and one of these units, without regard to case.
fn of_units(units: Units) -> String {
    let any_case = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase()),
        false => c.to_string(),
    };
    let names: Vec<String> = units.iter().map(|(name, _)| name.chars().map(any_case).collect()).collect();
    format!("\\s*[0-9]+(?:\\.[0-9]+)?\\s*(?:{})\\s*", names.join("|"))
}

const RATE_HELP: &str = "write a rate as \"1G\", \"2.5G\", \"400G\" or an integer of bit/s";
const FLOOD_LIMIT_HELP: &str =
    "write a rate as \"100M\", frames per second as \"5000pps\" or \"5Kpps\", or an integer of bit/s";
const SIZE_HELP: &str =
    "write a size as \"64KiB\" (1024), \"64KB\" or \"64K\" (1000), \"12MiB\" or an integer of bytes";
const TIME_HELP: &str = "write a time as \"200ms\", \"50us\", \"10s\" or an integer of nanoseconds";
const LENGTH_HELP: &str = "write a cable length as \"5m\", \"40m\", \"0.5m\" or an integer of metres";
const SHARE_HELP: &str = "write a share as \"5%\", \"0.2%\" or an integer of percent";

/// Longest link without a switch or a router in between, mm: the reach of 400ZR optics.
pub const LONGEST_CABLE_MM: u64 = 120_000_000;

/// bit/s; `None` is `"unlimited"`.
pub(super) const RATE: Kind<Option<u64>> = Kind {
    parse: |v| match v.as_str() {
        Some("unlimited") => Ok(None),
        _ => match quantity(v, RATES, 1, RATE_HELP)? {
            0 => Err(Bad::new("a rate of 0 moves nothing", "use a positive rate, or \"unlimited\"")),
            n => Ok(Some(n)),
        },
    },
    show: |r| r.map_or("unlimited".into(), show_rate),
};
/// How much may be flooded: bit/s on the wire, or frames per second; `None` is `"unlimited"`.
pub(super) const FLOOD_LIMIT: Kind<Option<FloodLimit>> = Kind {
    parse: |v| {
        if v.as_str() == Some("unlimited") {
            return Ok(None);
        }
        let is_frames = v.as_str().is_some_and(|text| text.trim_end().to_ascii_lowercase().ends_with("pps"));
        let limit = match is_frames {
            true => FloodLimit::Frames(quantity(v, FRAME_RATES, 1, FLOOD_LIMIT_HELP)?),
            false => FloodLimit::Bits(quantity(v, RATES, 1, FLOOD_LIMIT_HELP)?),
        };
        if matches!(limit, FloodLimit::Bits(0) | FloodLimit::Frames(0)) {
            let remedy = "write the least that stations need to find each other, such as \"10pps\"";
            return Err(Bad::new("a limit of 0 would stop ARP and all that begins with it", remedy));
        }
        Ok(Some(limit))
    },
    show: |limit| limit.as_ref().map_or("unlimited".into(), show_flood_limit),
};
/// Bytes.
pub(super) const SIZE: Kind<u64> =
    Kind { parse: |v| quantity(v, SIZES, 1, SIZE_HELP), show: |n| show_size(*n) };
/// Bytes; `None` is `"auto"`.
pub(super) const SIZE_OR_AUTO: Kind<Option<u64>> = Kind {
    parse: |v| if v.as_str() == Some("auto") { Ok(None) } else { (SIZE.parse)(v).map(Some) },
    show: |n| n.map_or("auto".into(), show_size),
};
/// A marking threshold as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threshold {
    /// Follows the rate of the port.
    Auto,
    /// Bytes.
    Bytes(u64),
    /// Parts per million of the limit the queue runs into (DEV-29).
    Share(u32),
}

pub(super) const THRESHOLD: Kind<Threshold> = Kind {
    parse: |v| match v.as_str() {
        Some("auto") => Ok(Threshold::Auto),
        Some(text) if text.trim_end().ends_with('%') => (SHARE.parse)(v).map(Threshold::Share),
        _ => (SIZE.parse)(v).map(Threshold::Bytes),
    },
    show: |t| match *t {
        Threshold::Auto => "auto".into(),
        Threshold::Bytes(n) => show_size(n),
        Threshold::Share(ppm) => show_share(u64::from(ppm)),
    },
};
/// A limit on use: bytes, or a share of what is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// Bytes.
    Bytes(u64),
    /// Parts per million of the shared buffer.
    Share(u32),
}

pub(super) const BOUND: Kind<Bound> = Kind {
    parse: |v| match v.as_str() {
        Some(text) if text.trim_end().ends_with('%') => (SHARE.parse)(v).map(Bound::Share),
        _ => (SIZE.parse)(v).map(Bound::Bytes),
    },
    show: |b| match *b {
        Bound::Bytes(n) => show_size(n),
        Bound::Share(ppm) => show_share(u64::from(ppm)),
    },
};
/// Nanoseconds.
pub(super) const TIME: Kind<u64> =
    Kind { parse: |v| quantity(v, TIMES, 1, TIME_HELP), show: |n| show_time(*n) };
/// Millimetres; a bare integer is metres.
pub(super) const LENGTH: Kind<u64> =
    Kind { parse: |v| quantity(v, LENGTHS, 1_000, LENGTH_HELP), show: |mm| show_length(*mm) };
/// Parts per million, at most one million; a bare integer is percent.
pub(super) const SHARE: Kind<u32> = Kind {
    parse: |v| {
        let ppm = quantity(v, SHARES, 10_000, SHARE_HELP)?;
        let over = || Bad::new(format!("{} is more than 100%", show_share(ppm)), SHARE_HELP);
        if ppm > 1_000_000 { Err(over()) } else { Ok(ppm as u32) }
    },
    show: |ppm| show_share(u64::from(*ppm)),
};
/// `true` or `false`.
pub(super) const BOOL: Kind<bool> = Kind {
    parse: |v| v.as_bool().ok_or_else(|| wrong_type(v, "write true or false")),
    show: |b| b.to_string(),
};
/// Text.
pub(super) const TEXT: Kind<String> = Kind {
    parse: |v| Ok(v.as_str().ok_or_else(|| wrong_type(v, "write a text in double quotes"))?.to_owned()),
    show: |s| s.clone(),
};
/// A non-negative integer.
pub(super) const COUNT: Kind<u64> =
    Kind { parse: |v| integer(v, "write a non-negative integer"), show: |n| n.to_string() };
/// An integer with sign.
pub(super) const SIGNED: Kind<i64> = Kind {
    parse: |v| {
        let i = v.as_integer().ok_or_else(|| wrong_type(v, "write an integer"))?;
        i64::from_str_radix(i.as_str(), i.radix())
            .map_err(|_| Bad::new(format!("{i} is out of range"), "use a smaller number"))
    },
    show: |n| n.to_string(),
};

pub(super) fn wrong_type(v: &DeValue<'_>, help: &str) -> Bad {
    Bad::new(format!("a value of type {} does not fit here", v.type_str()), help)
}

/// A non-negative integer of any radix.
pub(super) fn integer(v: &DeValue<'_>, help: &str) -> Result<u64, Bad> {
    let i = v.as_integer().ok_or_else(|| wrong_type(v, help))?;
    u64::from_str_radix(i.as_str(), i.radix()).map_err(|_| Bad::new(format!("{i} is out of range"), help))
}

/// A rate as on a command line, bit/s: `100G`, `100Gbps`, `2.5g`.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn rate(text: &str) -> Result<u64, String> {
    match parse_quantity(text, RATES) {
        Ok(0) => Err(format!("a rate of 0 moves nothing; {RATE_HELP}")),
        found => found.map_err(|wrong| format!("{wrong}; {RATE_HELP}")),
    }
}

/// A size as on a command line, bytes: `9216`, `9K`, `64KiB`.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn size(text: &str) -> Result<u64, String> {
    parse_quantity(text, SIZES).map_err(|wrong| format!("{wrong}; {SIZE_HELP}"))
}

/// A time as on a command line, ns: with its unit, since people mean seconds where the program counts nanoseconds.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn time(text: &str) -> Result<u64, String> {
    let bare = text.trim().bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let found = if bare { Err(format!("`{text}` has no unit")) } else { parse_quantity(text, TIMES) };
    found.map_err(|wrong| format!("{wrong}; write a time as \"200ms\", \"50us\" or \"10s\""))
}

/// A length as on a command line, mm; a bare number is metres.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn length(text: &str) -> Result<u64, String> {
    let bare = text.trim().bytes().all(|b| b.is_ascii_digit());
    let text = if bare { format!("{}m", text.trim()) } else { text.to_owned() };
    parse_quantity(&text, LENGTHS).map_err(|wrong| format!("{wrong}; {LENGTH_HELP}"))
}

/// A quantity in base units; a bare integer counts in units of `bare`.
fn quantity(v: &DeValue<'_>, units: Units, bare: u64, help: &str) -> Result<u64, Bad> {
    match v {
        DeValue::Integer(_) => {
            integer(v, help)?.checked_mul(bare).ok_or_else(|| Bad::new("the number is too large", help))
        }
        DeValue::String(s) => parse_quantity(s, units).map_err(|message| Bad::new(message, help)),
        _ => Err(wrong_type(v, help)),
    }
}

fn parse_quantity(text: &str, units: Units) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.len() + fraction.len();
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return Err(format!("`{text}` does not start with a number"));
    }
    let scale = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, scale)| *scale);
    let scale = scale.ok_or_else(|| match unit {
        "" => format!("`{text}` has no unit"),
        _ => format!("`{unit}` is not a unit known here"),
    })?;
    let too_large = || format!("`{text}` is too large");
    if digits > 20 {
        return Err(too_large());
    }
    let mantissa: u128 = format!("{whole}{fraction}").parse().map_err(|_| too_large())?;
    let (scaled, divisor) = (mantissa * u128::from(scale), 10u128.pow(fraction.len() as u32));
    if scaled % divisor != 0 {
        return Err(format!("`{text}` is not a whole number of the smallest unit"));
    }
    u64::try_from(scaled / divisor).map_err(|_| too_large())
}

/// A limit on what is flooded, for people: `100M` or `5Kpps`.
pub fn show_flood_limit(limit: &FloodLimit) -> String {
    match *limit {
        FloodLimit::Bits(rate) => show_rate(rate),
        FloodLimit::Frames(rate) => show_frame_rate(rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value<T>(kind: &Kind<T>, text: &str) -> Result<T, String> {
        let doc = toml::de::DeTable::parse(text).unwrap();
        (kind.parse)(doc.get_ref().get("x").unwrap().get_ref()).map_err(|b| b.message)
    }

    #[test]
    fn exact_values() {
        assert_eq!(value(&RATE, "x = '2.5G'"), Ok(Some(2_500_000_000)));
        assert_eq!(value(&RATE, "x = '400G'"), Ok(Some(400_000_000_000)));
        assert_eq!(value(&RATE, "x = 'unlimited'"), Ok(None));
        assert_eq!(value(&RATE, "x = 1_000"), Ok(Some(1000)));
        assert_eq!(value(&SIZE, "x = '64KB'"), Ok(64_000));
        assert_eq!(value(&SIZE, "x = '64KiB'"), Ok(65_536));
        assert_eq!(value(&SIZE, "x = '1.5 MiB'"), Ok(1_572_864));
        assert_eq!(value(&SIZE, "x = 0x10"), Ok(16));
        assert_eq!(value(&TIME, "x = '200ms'"), Ok(200_000_000));
        assert_eq!(value(&TIME, "x = '50us'"), Ok(50_000));
        assert_eq!(value(&LENGTH, "x = '0.5m'"), Ok(500));
        assert_eq!(value(&LENGTH, "x = 40"), Ok(40_000));
        assert_eq!(value(&SHARE, "x = '0.2%'"), Ok(2_000));
        assert_eq!(value(&SHARE, "x = 100"), Ok(1_000_000));
        assert_eq!(value(&SIZE_OR_AUTO, "x = 'auto'"), Ok(None));
    }

    #[test]
    fn refused_values() {
        for text in [
            "'100Q'",
            "'G'",
            "'1.G'",
            "'-1G'",
            "'1.2.3G'",
            "0",
            "'0G'",
            "-5",
            "true",
            "1.5",
            "'99999999999T'",
        ] {
            assert!(value(&RATE, &format!("x = {text}")).is_err(), "{text}");
        }
        assert_eq!(value(&RATE, "x = '100g'"), Ok(Some(100_000_000_000)));
        assert_eq!(value(&RATE, "x = '100Gbps'"), Ok(Some(100_000_000_000)));
        assert_eq!((value(&SIZE, "x = '9K'"), value(&SIZE, "x = '64kb'")), (Ok(9_000), Ok(64_000)));
        assert_eq!(
            (rate("2.5g"), size("9k"), time("10S")),
            (Ok(2_500_000_000), Ok(9_000), Ok(10_000_000_000))
        );
        assert_eq!((length("40"), length("0.5m")), (Ok(40_000), Ok(500)));
        for wrong in [rate("100Q"), rate("0"), size("nine"), time("10"), length("5 feet")] {
            let text = wrong.unwrap_err();
            assert!(text.contains("; write") && text.contains('"'), "{text}");
        }
        for text in ["'64q'", "'0.3B'", "'18446744073709551616'", "'1 1B'"] {
            assert!(value(&SIZE, &format!("x = {text}")).is_err(), "{text}");
        }
        assert!(value(&SHARE, "x = '101%'").is_err());
        assert!(value(&SHARE, "x = '5'").is_err(), "a share as text needs its unit");
        assert!(value(&LENGTH, "x = '5'").is_err());
    }

    #[test]
    fn shown_for_people() {
        assert_eq!(show_rate(2_500_000_000), "2.5G");
        assert_eq!(show_rate(1), "1bit/s");
        assert_eq!(show_size(9216), "9KiB");
        assert_eq!(show_size(1518), "1518B");
        assert_eq!(show_size(0), "0B");
        assert_eq!(show_time(1_500), "1.5us");
        assert_eq!(show_share(2_000), "0.2%");
        assert_eq!((LENGTH.show)(&500), "500mm");
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(n in 1u64..u64::MAX / 2, s in 0u32..=1_000_000) {
            prop_assert_eq!(parse_quantity(&show_size(n), SIZES), Ok(n));
            prop_assert_eq!(parse_quantity(&show_time(n), TIMES), Ok(n));
            prop_assert_eq!(parse_quantity(&show_rate(n), RATES), Ok(n));
            prop_assert_eq!(parse_quantity(&(SHARE.show)(&s), SHARES), Ok(u64::from(s)));
        }

        #[test]
        fn any_text_is_a_value_or_an_error(text in ".{0,40}") {
            let _ = parse_quantity(&text, SIZES);
        }
    }
}
