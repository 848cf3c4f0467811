//! How long frames were here, in little memory: a queue uses few of a histogram's buckets.

use std::ops::AddAssign;
use weir_dataplane::stats::{BUCKETS, Histogram, PauseStats, bucket_start};

/// A part of the time a frame is here; `residence = queueing + pause`, frame by frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it: from reception to the driver taking the frame.
    #[default]
    Residence,
    /// Behind other frames, for its turn, for the shaper, for the driver.
    Queueing,
    /// While a pause that was received held its queue.
    Pause,
}

impl Part {
    /// All of them, the whole first.
    pub const ALL: [Self; 3] = [Self::Residence, Self::Queueing, Self::Pause];

    /// Its name in JSON, in files and in queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Residence => "residence",
            Self::Queueing => "queueing",
            Self::Pause => "pause",
        }
    }

    /// The part of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// Numbers by bucket of a histogram, those that are not zero: steps from bucket to bucket and numbers in base 128, low
/// digits first. Numbers may be below zero, as the difference of two counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sparse(Box<[u8]>);

impl Sparse {
    /// Of numbers by bucket, which wrap below zero.
    pub fn of(numbers: &[u64; BUCKETS]) -> Self {
        let (mut bytes, mut last) = (Vec::new(), 0);
        for (bucket, number) in numbers.iter().enumerate().filter(|(_, n)| **n != 0) {
            let signed = *number as i64;
            put(&mut bytes, (bucket - last) as u64);
            // The sign goes last, so that small numbers below zero are short too.
            put(&mut bytes, (signed << 1 ^ signed >> 63) as u64);
            last = bucket;
        }
        Self(bytes.into())
    }

    /// Bucket and number, in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        let (mut bytes, mut bucket) = (self.0.iter(), 0);
        std::iter::from_fn(move || {
            bucket += take(&mut bytes)? as usize;
            let folded = take(&mut bytes)?;
            Some((bucket, folded >> 1 ^ (folded & 1).wrapping_neg()))
        })
    }

    /// No number is there.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sum of the numbers.
    pub fn count(&self) -> u64 {
        self.iter().fold(0, |sum, (_, n)| sum.wrapping_add(n))
    }

    fn add_to(&self, sum: &mut [u64; BUCKETS]) {
        for (bucket, n) in self.iter() {
            sum[bucket] = sum[bucket].wrapping_add(n);
        }
    }

    /// What was added since `then`.
    fn since(&self, then: &Self) -> Self {
        if self == then {
            return Self::default();
        }
        let mut difference = [0; BUCKETS];
        self.add_to(&mut difference);
        for (bucket, n) in then.iter() {
            difference[bucket] = difference[bucket].wrapping_sub(n);
        }
        Self::of(&difference)
    }
}

impl AddAssign<&Sparse> for Sparse {
    fn add_assign(&mut self, other: &Sparse) {
        if other.is_empty() {
            return;
        }
        let mut sum = [0; BUCKETS];
        self.add_to(&mut sum);
        other.add_to(&mut sum);
        *self = Self::of(&sum);
    }
}

fn put(bytes: &mut Vec<u8>, number: u64) {
    let mut rest = number;
    while rest >= 128 {
        bytes.push(rest as u8 | 128);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

fn take<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = *bytes.next()?;
        number |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            return Some(number);
        }
    }
}

/// The times of the frames of one queue, and of their parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    residence: Sparse,
    /// Frames that met a pause, by its part.
    paused: Sparse,
    /// What tells the queueing part of all frames from their residence.
    shift: Sparse,
    /// Sum of all pause parts, ns.
    pub pause_ns: u64,
}

impl Times {
    /// As a worker publishes them.
    pub fn of(residence: &Histogram, pauses: &PauseStats, queue: usize) -> Self {
        Self {
            residence: Sparse::of(&residence.0),
            paused: Sparse::of(&pauses.pause[queue].0),
            shift: Sparse::of(&pauses.queueing_shift[queue].0),
            pause_ns: pauses.pause_ns[queue],
        }
    }

    /// What was added since `then`.
    pub fn since(&self, then: &Self) -> Self {
        Self {
            residence: self.residence.since(&then.residence),
            paused: self.paused.since(&then.paused),
            shift: self.shift.since(&then.shift),
            pause_ns: self.pause_ns.wrapping_sub(then.pause_ns),
        }
    }

    /// Frames that left.
    pub fn frames(&self) -> u64 {
        self.residence.count()
    }

    /// Those of them that met a pause.
    pub fn paused_frames(&self) -> u64 {
        self.paused.count()
    }

    /// No frame has left.
    pub fn is_empty(&self) -> bool {
        self.residence.is_empty()
    }

    /// A part of all frames.
    pub fn part(&self, part: Part) -> Histogram {
        let mut sum = Histogram::default();
        self.add_to(part, &mut sum);
        sum
    }

    /// Adds a part of all frames to others.
    pub fn add_to(&self, part: Part, sum: &mut Histogram) {
        match part {
            Part::Residence => self.residence.add_to(&mut sum.0),
            Part::Queueing => {
                self.residence.add_to(&mut sum.0);
                self.shift.add_to(&mut sum.0);
            }
            Part::Pause => {
                self.paused.add_to(&mut sum.0);
                sum.0[0] += self.frames() - self.paused_frames();
            }
        }
    }

    /// Upper end of the bucket that holds the value of rank `q` (0..=1), ns. `None`: no frame has left.
    pub fn quantile(&self, part: Part, q: f64) -> Option<u64> {
        match part {
            Part::Pause if self.paused.is_empty() && !self.is_empty() => Some(0),
            Part::Residence => self.rank(q),
            Part::Queueing if self.shift.is_empty() => self.rank(q),
            _ => self.part(part).quantile(q),
        }
    }

    /// [`Histogram::quantile`] of the residence, without making one.
    fn rank(&self, q: f64) -> Option<u64> {
        let count = self.frames();
        let rank = ((count as f64 * q).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        self.residence.iter().find_map(|(bucket, n)| {
            seen += n;
            (seen >= rank).then(|| bucket_start(bucket + 1) - 1)
        })
    }
}

impl AddAssign<&Times> for Times {
    fn add_assign(&mut self, other: &Times) {
        self.residence += &other.residence;
        self.paused += &other.paused;
        self.shift += &other.shift;
        self.pause_ns = self.pause_ns.wrapping_add(other.pause_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_dataplane::rng::Rng;

    /// Frames of queue 2, some of which met a pause, and what each part must be.
    fn random(frames: u64, rng: &mut Rng) -> (Histogram, PauseStats, [Histogram; 3]) {
        let (mut residence, mut pauses, mut parts) = Default::default();
        for _ in 0..frames {
            let all = u64::from(rng.next_u32()) << (rng.next_u32() % 8) >> (rng.next_u32() % 28);
            let pause =
                if rng.next_u32().is_multiple_of(2) { 0 } else { all / u64::from(1 + rng.next_u32() % 9) };
            let n = u64::from(rng.next_u32() % 1000) + 1;
            let (residence, pauses): (&mut Histogram, &mut PauseStats) = (&mut residence, &mut pauses);
            let parts: &mut [Histogram; 3] = &mut parts;
            residence.note(all, n);
            if pause > 0 {
                pauses.note(2, all, pause, n);
            }
            for (part, ns) in parts.iter_mut().zip([all, all - pause, pause]) {
                part.note(ns, n);
            }
        }
        (residence, pauses, parts)
    }

    #[test]
    fn parts_quantiles_sums_and_differences_are_those_of_histograms() {
        let mut rng = Rng::new(7);
        for frames in [0, 1, 2, 5, 50, 500] {
            let (residence, pauses, parts) = random(frames, &mut rng);
            let times = Times::of(&residence, &pauses, 2);
            let (other_residence, other_pauses, other_parts) = random(frames, &mut rng);
            let mut both = times.clone();
            both += &Times::of(&other_residence, &other_pauses, 2);
            for (part, (want, more)) in Part::ALL.into_iter().zip(parts.iter().zip(&other_parts)) {
                assert_eq!(times.part(part), *want, "{part:?}");
                for q in [0.0, 0.25, 0.5, 0.99, 1.0] {
                    assert_eq!(times.quantile(part, q), want.quantile(q), "{part:?} {q}");
                }
                let mut sum = *want;
                sum.add(more);
                assert_eq!((both.part(part), both.since(&times).part(part)), (sum, *more), "{part:?}");
            }
            assert_eq!((times.frames(), times.is_empty()), (residence.count(), frames == 0));
            assert_eq!(times.paused_frames(), pauses.pause[2].count());
            assert_eq!(both.pause_ns, pauses.pause_ns[2] + other_pauses.pause_ns[2]);
            assert!(times.since(&times).is_empty() && times.since(&Times::default()) == times);
        }
    }

    #[test]
    fn every_number_comes_back() {
        let mut numbers = [0; BUCKETS];
        let edges = [1, 63, 64, 127, 128, u64::MAX, u64::MAX - 64, 1 << 63, (1 << 63) - 1];
        for (i, n) in edges.into_iter().enumerate() {
            numbers[i * i * 3 + i] = n;
        }
        numbers[BUCKETS - 1] = 5;
        let sparse = Sparse::of(&numbers);
        let mut back = [0; BUCKETS];
        sparse.add_to(&mut back);
        assert_eq!(back, numbers);
        assert!(sparse.0.len() < 70, "{}", sparse.0.len());
    }

    #[test]
    fn parts_have_names() {
        for part in Part::ALL {
            assert_eq!(Part::named(part.name()), Some(part));
        }
        assert_eq!(Part::named("Pause"), None);
    }
}
