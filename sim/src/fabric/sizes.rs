//! Published flow-size distributions, as used by the HPCC paper's traffic generator.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_dataplane::rng::Rng;

/// A distribution of flow sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SizeDistribution {
    /// Web search (DCTCP): most bytes in flows above 1 MB.
    Websearch,
    /// Facebook Hadoop: most flows below 1 KB.
    FbHadoop,
}

/// Size in bytes and share of flows up to it, in thousandths; linear in between.
type Points = &'static [(u64, u64)];

const WEBSEARCH: Points = &[
    (0, 0),
    (10_000, 150),
    (20_000, 200),
    (30_000, 300),
    (50_000, 400),
    (80_000, 530),
    (200_000, 600),
    (1_000_000, 700),
    (2_000_000, 800),
    (5_000_000, 900),
    (10_000_000, 970),
    (30_000_000, 1000),
];

const FB_HADOOP: Points = &[
    (0, 0),
    (100, 10),
    (200, 20),
    (300, 50),
    (350, 150),
    (400, 200),
    (500, 300),
    (600, 400),
    (700, 500),
    (1_000, 600),
    (2_000, 670),
    (7_000, 700),
    (30_000, 720),
    (50_000, 820),
    (80_000, 870),
    (120_000, 900),
    (300_000, 950),
    (1_000_000, 975),
    (2_000_000, 990),
    (10_000_000, 1000),
];

impl SizeDistribution {
    fn points(self) -> Points {
        match self {
            Self::Websearch => WEBSEARCH,
            Self::FbHadoop => FB_HADOOP,
        }
    }

    /// Mean size, bytes.
    pub fn mean(self) -> f64 {
        let halves = |w: &[(u64, u64)]| (w[1].0 + w[0].0) as f64 / 2.0 * (w[1].1 - w[0].1) as f64 / 1000.0;
        self.points().windows(2).map(halves).sum()
    }

    /// Mean of what each size stands for, whose sum over all sizes up to one is `up_to`.
    pub(super) fn mean_of(self, up_to: impl Fn(u64) -> f64) -> f64 {
        let segment = |w: &[(u64, u64)]| {
            (up_to(w[1].0) - up_to(w[0].0)) / (w[1].0 - w[0].0) as f64 * (w[1].1 - w[0].1) as f64 / 1000.0
        };
        self.points().windows(2).map(segment).sum()
    }

    /// A size, at least one byte.
    pub fn draw(self, rng: &mut Rng) -> u64 {
        // Share in 2^-32 of a thousandth: exact integers all the way.
        let share = u64::from(rng.next_u32()) * 1000;
        let points = self.points();
        let at = points.iter().position(|(_, s)| s << 32 > share).unwrap_or(points.len() - 1).max(1);
        let ((low, from), (high, to)) = (points[at - 1], points[at]);
        let into = u128::from(share - (from << 32));
        let size = low + (u128::from(high - low) * into / u128::from((to - from) << 32)) as u64;
        size.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_and_the_quantiles_of_the_table() {
        for (sizes, mean, median) in [
            (SizeDistribution::Websearch, 1_711_250.0, 73_077.0),
            (SizeDistribution::FbHadoop, 122_000.0, 700.0),
        ] {
            let mut rng = Rng::new(9);
            let mut all: Vec<u64> = (0..1_000_000).map(|_| sizes.draw(&mut rng)).collect();
            all.sort_unstable();
            let sum: u64 = all.iter().sum();
            let got = sum as f64 / all.len() as f64;
            assert!((got / sizes.mean() - 1.0).abs() < 0.02, "{sizes:?}: {got} {}", sizes.mean());
            assert!((sizes.mean() / mean - 1.0).abs() < 0.05, "{sizes:?}: {}", sizes.mean());
            let middle = all[all.len() / 2] as f64;
            assert!((middle / median - 1.0).abs() < 0.03, "{sizes:?}: {middle}");
        }
    }
}
