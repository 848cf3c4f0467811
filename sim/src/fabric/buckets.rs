//! Numbers that take half the memory while they are below 2^32, as bytes in a queue are.

/// The value of each bucket of a series.
#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    low: Vec<u32>,
    /// The upper halves; what it has not is 0.
    high: Vec<u32>,
}

impl Buckets {
    /// How many.
    pub fn len(&self) -> usize {
        self.low.len()
    }

    /// Value of bucket `at`, which is there.
    #[inline]
    pub fn get(&self, at: usize) -> u64 {
        let high = self.high.get(at).copied().unwrap_or(0);
        u64::from(high) << 32 | u64::from(self.low[at])
    }

    /// Bucket `at`, which is there, has another value.
    #[inline]
    pub fn set(&mut self, at: usize, value: u64) {
        let high = (value >> 32) as u32;
        self.low[at] = value as u32;
        if high > 0 && self.high.len() <= at {
            self.high.resize(at + 1, 0);
        }
        if let Some(place) = self.high.get_mut(at) {
            *place = high;
        }
    }

    /// There are `count`, which is no fewer than there were; new ones have the value `fill`.
    pub fn grow(&mut self, count: usize, fill: u64) {
        let (before, high) = (self.len(), (fill >> 32) as u32);
        self.low.resize(count, fill as u32);
        if high > 0 {
            self.high.resize(before, 0);
            self.high.resize(count, high);
        }
    }

    /// Two become one, `one` of their values, from the first two on; of an odd number the last stays as it is.
    pub fn halve(&mut self, one: impl Fn(u64, u64) -> u64) {
        let count = self.len();
        for at in 0..count / 2 {
            self.set(at, one(self.get(2 * at), self.get(2 * at + 1)));
        }
        if count % 2 == 1 {
            self.set(count / 2, self.get(count - 1));
        }
        self.low.truncate(count.div_ceil(2));
        self.high.truncate(count.div_ceil(2));
    }

    /// The values in their order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
        (0..self.len()).map(|at| self.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_whatever_their_size() {
        let most = u64::from(u32::MAX);
        let mut buckets = Buckets::default();
        buckets.grow(1, 1);
        buckets.grow(2, most);
        assert!(buckets.high.is_empty());
        buckets.set(0, most + 1);
        buckets.grow(4, 7);
        assert!(buckets.iter().eq([most + 1, most, 7, 7]));
        buckets.grow(5, 9 << 40);
        buckets.set(0, 2);
        buckets.set(3, 5 << 33);
        assert!(buckets.iter().eq([2, most, 7, 5 << 33, 9 << 40]));
        assert_eq!((buckets.len(), buckets.get(4)), (5, 9 << 40));
        buckets.halve(u64::max);
        assert!(buckets.iter().eq([most, 5 << 33, 9 << 40]));
        buckets.halve(|a, b| a + b);
        buckets.halve(|a, b| b - a);
        assert!(buckets.iter().eq([(9 << 40) - most - (5 << 33)]));
    }
}
