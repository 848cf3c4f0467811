//! Quantities with units in a spec: `"100G"`, `"1us"`, `"64KiB"`, or a bare number of the base unit.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};
use std::fmt;
use toml::Value;

/// A kind of quantity: names of its units, in base units, and what to say about a wrong one.
pub trait Unit {
    /// Unit names and their size in base units, which are bit/s, ns or bytes.
    const UNITS: &'static [(&'static str, f64)];
    /// Its name in a schema.
    const NAME: &'static str;
    /// How to write it.
    const HELP: &'static str;
}

/// Most base units of a quantity: sums of several times and their picoseconds stay within 64 bits.
const MOST: u64 = 1_000_000_000_000_000;

/// A rate of lines for which defaults that follow it are told.
pub(super) const LINE: u64 = 100_000_000_000;

/// What a rate that follows the line's, which is given to `of`, is at 100 Gb/s.
pub(super) fn at_100g(of: impl Fn(u64) -> u64) -> String {
    format!("{} at 100G", Rate::of(of(LINE)))
}

/// A number of base units.
pub struct Quantity<U: Unit>(pub u64, std::marker::PhantomData<U>);

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Text {
    Number(u64),
    Words(String),
}

macro_rules! units {
    ($($(#[$doc:meta])+ $alias:ident = $unit:ident { $help:literal, $($name:literal: $size:literal),+ })+) => { $(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug)]
        pub struct $unit;
        impl Unit for $unit {
            const UNITS: &'static [(&'static str, f64)] = &[$(($name, $size)),+];
            const NAME: &'static str = stringify!($alias);
            const HELP: &'static str = $help;
        }
        $(#[$doc])+
        pub type $alias = Quantity<$unit>;
    )+ };
}

units! {
    /// bit/s.
    Rate = BitsPerSecond { "a rate as \"100G\", \"2.5G\" or a number of bit/s", "": 1.0, "M": 1e6, "G": 1e9, "T": 1e12 }
    /// Nanoseconds.
    Duration = Nanoseconds { "a time as \"10us\", \"2ms\" or a number of ns", "": 1.0, "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9 }
    /// Bytes.
    Size = Bytes { "a size as \"64KiB\", \"1MB\" or a number of bytes", "": 1.0, "B": 1.0, "KB": 1e3, "KiB": 1024.0, "MB": 1e6, "MiB": 1_048_576.0, "GB": 1e9 }
}

impl<U: Unit> Quantity<U> {
    /// This many base units.
    pub const fn of(n: u64) -> Self {
        Self(n, std::marker::PhantomData)
    }
}

impl<U: Unit> Clone for Quantity<U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<U: Unit> Copy for Quantity<U> {}

impl<U: Unit> PartialEq for Quantity<U> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<U: Unit> Default for Quantity<U> {
    fn default() -> Self {
        Self::of(0)
    }
}

impl<U: Unit> fmt::Debug for Quantity<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// As a file says it: in the largest unit of which it is a whole number.
impl<U: Unit> fmt::Display for Quantity<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, size): &&(&str, f64)| self.0 > 0 && self.0.is_multiple_of(*size as u64);
        let (name, size) = U::UNITS.iter().rfind(whole).unwrap_or(&("", 1.0));
        write!(f, "{}{name}", self.0 / *size as u64)
    }
}

impl<U: Unit> Serialize for Quantity<U> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de, U: Unit> Deserialize<'de> for Quantity<U> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // The reader's own words would be about the variants of a type, but for a key that is not there.
        let text = Text::deserialize(from).map_err(|error| {
            let absent = error.to_string().starts_with("missing field");
            if absent { error } else { D::Error::custom(format!("wanted {}", U::HELP)) }
        })?;
        Self::read(text).map_err(D::Error::custom)
    }
}

/// A number of base units, or a number and a unit.
impl<U: Unit> JsonSchema for Quantity<U> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        U::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let units: Vec<&str> = U::UNITS.iter().map(|(name, _)| *name).collect();
        let pattern = format!(r"^([0-9]+\.?[0-9]*|\.[0-9]+) *({})$", units.join("|"));
        json_schema!({
            "description": U::HELP,
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": MOST },
                { "type": "string", "pattern": pattern },
            ],
        })
    }
}

/// Two values of a file that any key reads as the same one: numbers, and quantities however they are written.
pub(crate) fn are_the_same(a: &Value, b: &Value) -> bool {
    fn quantity<U: Unit>(value: &Value) -> Option<u64> {
        Some(value.clone().try_into::<Quantity<U>>().ok()?.0)
    }
    let number = |value: &Value| value.as_float().or(value.as_integer().map(|n| n as f64));
    let of_unit = |read: fn(&Value) -> Option<u64>| read(a).is_some_and(|n| read(b) == Some(n));
    // Whole numbers are not compared as fractions, which have fewer digits.
    if let (Some(a), Some(b)) = (a.as_integer(), b.as_integer()) {
        return a == b;
    }
    a == b
        || number(a).is_some_and(|n| number(b) == Some(n))
        || [quantity::<BitsPerSecond>, quantity::<Nanoseconds>, quantity::<Bytes>].into_iter().any(of_unit)
}

impl<U: Unit> Quantity<U> {
    fn read(text: Text) -> Result<Self, String> {
        let text = match text {
            Text::Number(n) if n <= MOST => return Ok(Self::of(n)),
            Text::Number(n) => return Err(format!("{n} is too large for {}: at most {MOST}", U::HELP)),
            Text::Words(text) => text,
        };
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let size = U::UNITS.iter().find(|(name, _)| *name == unit.trim()).map(|(_, size)| *size);
        match (number.parse::<f64>(), size) {
            (Ok(number), Some(size)) if number * size <= MOST as f64 => {
                Ok(Self::of((number * size).round() as u64))
            }
            (Ok(_), Some(_)) => Err(format!("`{text}` is too large: at most {MOST} without a unit")),
            _ => Err(format!("`{text}` is not {}", U::HELP)),
        }
    }
}
