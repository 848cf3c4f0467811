//! A histogram of times with 32 steps per doubling: percentiles within 3 %, exact ends and sum.

use super::latency::Distribution;

/// Bits of a value below its highest one that tell steps apart.
const STEP_BITS: u32 = 5;

/// Counts by step.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

/// The step of a value: the value itself below 64, else its highest bits.
fn step(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(STEP_BITS + 1);
    (u64::from(shift) << STEP_BITS) as usize + (value >> shift) as usize
}

/// Smallest value of a step.
fn lower(step: usize) -> u64 {
    let shift = (step >> STEP_BITS).saturating_sub(1);
    ((step - (shift << STEP_BITS)) as u64) << shift
}

impl Histogram {
    /// One more value.
    pub fn add(&mut self, value: u64) {
        let at = step(value);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += value;
    }

    /// Takes over the values of another one.
    pub fn join(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// Values so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Largest value.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Nearest rank in thousandths: the lower end of its step, not below the smallest value.
    fn rank(&self, milli: u64) -> u64 {
        let mut left = (u128::from(self.count) * u128::from(milli)).div_ceil(1000) as u64;
        for (at, count) in self.counts.iter().enumerate() {
            left = left.saturating_sub(*count);
            if left == 0 {
                return lower(at).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// What it holds.
    pub fn distribution(&self) -> Distribution {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Distribution {
            sum_ps: self.sum,
            mean_ps: self.sum / self.count.max(1),
            min_ps: self.min,
            p50_ps: self.rank(500),
            p90_ps: self.rank(900),
            p99_ps: self.rank(990),
            p999_ps: self.rank(999),
            max_ps: self.max,
            histogram: filled.map(|(at, count)| (lower(at), *count)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_in_order_and_begin_where_they_say() {
        for value in (0..5000).chain([1 << 20, (1 << 20) + 1, u64::MAX >> 1, u64::MAX]) {
            let at = step(value);
            assert!(lower(at) <= value && value - lower(at) <= value >> STEP_BITS, "{value}");
            assert!(value == 0 || step(value - 1) <= at);
            assert_eq!(step(lower(at)), at, "{value}");
        }
    }

    #[test]
    fn percentiles_are_within_a_step() {
        let mut h = Histogram::default();
        (1..=100_000u64).for_each(|v| h.add(v));
        let d = h.distribution();
        assert_eq!((d.sum_ps, d.mean_ps, d.min_ps, d.max_ps), (5_000_050_000, 50_000, 1, 100_000));
        for (got, exact) in [(d.p50_ps, 50_000), (d.p90_ps, 90_000), (d.p99_ps, 99_000), (d.p999_ps, 99_900)]
        {
            assert!(got <= exact && exact - got <= exact / 32, "{got} for {exact}");
        }
        assert_eq!(d.histogram.iter().map(|(_, n)| n).sum::<u64>(), 100_000);
    }
}
