//! Units that a column or a sentence has throughout.

/// A unit, and how numbers of it are written: from the base unit (ns, bit/s, bytes/s, a part of one) into this one, with a
/// fixed number of digits behind the point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    name: &'static str,
    /// One of it in the base unit, `times / per`: both, so that no result depends on a factor that is no binary fraction.
    times: f64,
    per: f64,
    digits: usize,
}

impl Unit {
    /// Counts, and whatever has no unit.
    pub const NONE: Self = Self { name: "", times: 1.0, per: 1.0, digits: 0 };
    /// What is counted in thousandths.
    pub const MILLI: Self = Self::per("", 1e3, 2);
    /// Bytes.
    pub const BYTES: Self = Self::per("bytes", 1.0, 0);
    /// Microseconds, of ns.
    pub const US: Self = Self::per("us", 1e3, 1);
    /// Milliseconds, of ns.
    pub const MS: Self = Self::per("ms", 1e6, 1);
    /// Megabits per second, of bit/s.
    pub const MBPS: Self = Self::per("Mb/s", 1e6, 1);
    /// Gigabits per second, of bit/s.
    pub const GBPS: Self = Self::per("Gb/s", 1e9, 3);
    /// Gigabytes per second, of bytes/s.
    pub const GBYTES: Self = Self::per("GB/s", 1e9, 2);
    /// Percent, of a part of one.
    pub const PERCENT: Self = Self { name: "%", times: 100.0, per: 1.0, digits: 1 };

    const fn per(name: &'static str, per: f64, digits: usize) -> Self {
        Self { name, times: 1.0, per, digits }
    }

    /// The same with another number of digits.
    #[must_use]
    pub const fn digits(self, digits: usize) -> Self {
        Self { digits, ..self }
    }

    /// `us`: how it is called; empty: nothing is.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// A value of the base unit in this one.
    pub fn of(self, base: f64) -> f64 {
        base * self.times / self.per
    }

    /// `12.5`: where the heading of a column names the unit.
    pub fn number(self, base: f64) -> String {
        self.written(self.of(base), 0)
    }

    /// A value that is in this unit already, with so many digits at least.
    pub fn written(self, value: f64, digits: usize) -> String {
        format!("{value:.*}", self.digits.max(digits))
    }

    /// `12.5 us`: where nothing else does.
    pub fn text(self, base: f64) -> String {
        let number = self.number(base);
        if self.name.is_empty() { number } else { format!("{number} {}", self.name) }
    }

    /// `p50 us`: a heading.
    pub fn heading(self, what: &str) -> String {
        format!("{what} {}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_its_unit_once() {
        assert_eq!((Unit::US.number(1_250.0), Unit::US.text(1_250.0)), ("1.2".into(), "1.2 us".into()));
        assert_eq!(Unit::US.digits(3).text(1_250.0), "1.250 us");
        assert_eq!(Unit::MBPS.heading("rx"), "rx Mb/s");
        assert_eq!((Unit::PERCENT.text(0.125), Unit::NONE.text(7.0)), ("12.5 %".into(), "7".into()));
        assert_eq!(Unit::MILLI.number(1_234.0), "1.23");
        // As if there were no factor.
        for x in [0.1, 0.3, 1.0 / 3.0, 12_345.678] {
            assert_eq!((Unit::US.of(x), Unit::PERCENT.of(x)), (x / 1e3, x * 100.0));
        }
    }
}
