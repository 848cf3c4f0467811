//! The difference of two settings in one figure, and how sure it is.

use super::figures::Figure;
use super::side::{Side, mean};
use std::f64::consts::FRAC_PI_2;
use std::fmt;

/// What one setting has above another, in percent of the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    pub percent: f64,
    /// Half the width of the 95 % confidence interval; `None`: there are no two pairs of runs.
    pub half: Option<f64>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No minus before what is shown as nothing.
        let percent = if self.percent.abs() < 0.05 { 0.0 } else { self.percent };
        write!(f, "{percent:+.1} ")?;
        self.half.map_or(Ok(()), |half| write!(f, "\u{b1} {half:.1} "))?;
        f.write_str("%")
    }
}

/// `b` against `a`. `None`: one of them, or of the runs that count, has no such figure, or that of `a` is 0. A run has none of what
/// did not end in it, and what the others have would flatter the setting.
pub(super) fn between(a: &Side, b: &Side, figure: &Figure) -> Option<Difference> {
    let of = |run: &super::side::Run| figure.of(&run.figures);
    if a.pairs(b).nth(1).is_none() {
        if !a.lacks(figure).is_empty() || !b.lacks(figure).is_empty() {
            return None;
        }
        let (of_a, of_b) = (a.mean(figure)?, b.mean(figure)?);
        return Some(Difference { percent: percent(of_b - of_a, of_a)?, half: None });
    }
    let pairs: Vec<(f64, f64)> = a.pairs(b).map(|(a, b)| Some((of(a)?, of(b)?))).collect::<Option<_>>()?;
    let base = mean(pairs.iter().map(|(a, _)| *a))?;
    let (change, half) = interval(&pairs.iter().map(|(a, b)| b - a).collect::<Vec<_>>())?;
    Some(Difference { percent: percent(change, base)?, half: Some(percent(half, base)?) })
}

fn percent(change: f64, base: f64) -> Option<f64> {
    (base > 0.0).then(|| change / base * 100.0)
}

/// Mean of two values or more, and half the width of its 95 % confidence interval: that of a normal distribution of unknown
/// variance, t(0.975, n - 1) s / sqrt(n).
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let middle = mean(values.iter().copied())?;
    let variance = values.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / (n - 1.0);
    Some((middle, student(values.len() - 1) * (variance / n).sqrt()))
}

/// Quantile 0.975 of Student's t with `freedom` degrees of freedom, at least 1.
fn student(freedom: usize) -> f64 {
    // With t = sqrt(freedom) tan(angle) the probability of |T| < t is a finite sum: Abramowitz and Stegun, 26.7.3 and 26.7.4.
    let within = |angle: f64| {
        let (sin, cos) = angle.sin_cos();
        let odd = freedom % 2 == 1;
        let mut term = if odd { cos } else { 1.0 };
        let mut sum = if freedom == 1 { 0.0 } else { term };
        // Powers of the cosine up to freedom - 2.
        for k in (if odd { 3 } else { 2 }..=freedom.saturating_sub(2)).step_by(2) {
            term *= cos * cos * (k - 1) as f64 / k as f64;
            sum += term;
        }
        if odd { (angle + sin * sum) / FRAC_PI_2 } else { sin * sum }
    };
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if within(middle) < 0.95 { low = middle } else { high = middle }
    }
    (freedom as f64).sqrt() * low.tan()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published tables, e.g. NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
    #[test]
    fn students_t_is_that_of_the_tables() {
        for (freedom, t) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (9, 2.262),
            (10, 2.228),
            (29, 2.045),
            (30, 2.042),
            (100, 1.984),
        ] {
            assert!((student(freedom) - t).abs() < 5.1e-4, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn an_interval_is_the_one_computed_by_hand() {
        // Mean 3, variance 2.5: t(0.975, 4) sqrt(2.5 / 5) = 2.7764 * 0.70711.
        let (middle, half) = interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((middle - 3.0).abs() < 1e-12 && (half - 1.9632).abs() < 1e-4, "{middle} {half}");
    }

    #[test]
    fn a_difference_to_nothing_is_none() {
        assert_eq!((percent(0.0, 0.0), percent(1.0, 0.0), percent(-1.0, 4.0)), (None, None, Some(-25.0)));
        let shown = |percent, half| Difference { percent, half }.to_string();
        assert_eq!(shown(-0.04, None), "+0.0 %");
        assert_eq!(shown(-12.34, Some(1.0)), "-12.3 \u{b1} 1.0 %");
    }
}
