//! Numbers with the unit that fits, rounded.

use crate::Unit;
use std::fmt::Display;

/// `1.25G`: a rate or a count with the letter of its power of 1000.
pub fn scaled(value: f64) -> String {
    let scale =
        [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")].into_iter().find(|(unit, _)| value >= *unit);
    match scale {
        Some((unit, letter)) => format!("{:.2}{letter}", value / unit),
        None => format!("{value:.0}"),
    }
}

/// `12.50%`: a part of one, with so many digits, in a cell; in a sentence it is [`Unit::PERCENT`].
pub fn percent(of_one: f64, digits: usize) -> String {
    Unit::PERCENT.digits(digits).number(of_one) + "%"
}

/// `1.25us`: a time in ns with the unit that fits, and so many digits.
pub fn time(ns: f64, digits: usize) -> String {
    match ns {
        _ if ns >= 1e9 => format!("{:.digits$}s", ns / 1e9),
        _ if ns >= 1e6 => format!("{:.digits$}ms", ns / 1e6),
        _ if ns >= 1e3 => format!("{:.digits$}us", ns / 1e3),
        _ => format!("{ns:.0}ns"),
    }
}

/// `1 frame`, `2 frames`: a count with its noun, which takes an s.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(n: N, noun: &str) -> String {
    format!("{n} {noun}{}", if n == N::from(1) { "" } else { "s" })
}

/// The word that goes with so many: `agree(n, "was", "were")`.
pub fn agree<N: Copy + PartialEq + From<u8>>(n: N, one: &'static str, other: &'static str) -> &'static str {
    if n == N::from(1) { one } else { other }
}

/// `3h07m`: a time in seconds that people wait for.
pub fn since(seconds: f64) -> String {
    let s = seconds as u64;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3600, s / 60 % 60),
    }
}

/// `1 234 567`: digits in threes.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_they_must_be() {
        assert_eq!([0.0, 999.0, 1500.0, 2.5e12].map(scaled), ["0", "999", "1.50K", "2.50T"]);
        assert_eq!([12.0, 1500.0, 2e6, 3e9].map(|ns| time(ns, 2)), ["12ns", "1.50us", "2.00ms", "3.00s"]);
        assert_eq!([59.0, 61.0, 11_220.0].map(since), ["59s", "1m01s", "3h07m"]);
        assert_eq!([0u64, 1, 2].map(|n| counted(n, "frame")), ["0 frames", "1 frame", "2 frames"]);
        assert_eq!((grouped(7), grouped(1_234_567)), ("7".into(), "1 234 567".into()));
        assert_eq!((percent(0.125, 1), percent(1.0, 2)), ("12.5%".into(), "100.00%".into()));
    }
}
