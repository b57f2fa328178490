//! How a number spreads on in-distribution rows, and how rare a value is.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use ndarray::ArrayView1;

use super::super::model::{Found, Stored};
use crate::Result;

/// The normal distribution's 95th percentile.
const NORMAL_95: f64 = 1.644_853_626_951_472_2;
/// Spreads below this are rounding.
const SMALLEST: f64 = 1e-12;

/// The side on which values are suspicious.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Low,
    High,
}

/// The median, and the spread towards the suspicious side: as many standard deviations of a normal
/// distribution as its 95th percentile has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub(super) centre: f64,
    pub(super) spread: f64,
}

impl Scale {
    pub(super) fn of(values: ArrayView1<'_, f64>, side: Side) -> Self {
        // Rows without direction have no value.
        let mut values: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        let centre = median(&mut values);
        let tail = percentile(&values, if side == Side::Low { 5.0 } else { 95.0 });
        Scale { centre, spread: ((tail - centre).abs() / NORMAL_95).max(SMALLEST) }
    }

    /// Spreads above the centre.
    pub(super) fn standard(&self, value: f64) -> f64 {
        (value - self.centre) / self.spread
    }

    pub(super) fn tell(&self, what: &str, found: &mut Found) {
        found.insert(format!("{what} median"), self.centre);
        found.insert(format!("{what} spread"), self.spread);
    }

    pub(super) fn read(what: &str, stored: Stored<'_>) -> Result<Self> {
        Ok(Scale {
            centre: stored.number(&format!("{what} median"))?,
            spread: stored.number(&format!("{what} spread"))?,
        })
    }
}

/// The median, by sorting.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    percentile(values, 50.0)
}

/// A percentile of sorted values, by linear interpolation; 0 of none.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let position = percent / 100.0 * last as f64;
    let (under, share) = (position as usize, position.fract());
    sorted[under] + share * (sorted[(under + 1).min(last)] - sorted[under])
}

/// ln Φ(x), to full precision at both ends.
pub(super) fn log_normal_cdf(x: f64) -> f64 {
    if x > 0.0 {
        libm::log1p(-0.5 * libm::erfc(x * FRAC_1_SQRT_2))
    } else if x > -20.0 {
        libm::log(0.5 * libm::erfc(-x * FRAC_1_SQRT_2))
    } else {
        // Φ(x) = φ(x)/|x| · (1 − 1/x² + 3/x⁴ − 15/x⁶ + …), below 1e-13 of itself after five terms.
        let y = 1.0 / (x * x);
        let series = -y * (1.0 - 3.0 * y * (1.0 - 5.0 * y * (1.0 - 7.0 * y)));
        -0.5 * x * x - libm::log(-x) - 0.5 * libm::log(2.0 * PI) + libm::log1p(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array1;

    #[test]
    fn the_log_of_the_normal_distribution_is_exact_at_both_ends() {
        // scipy.special.log_ndtr
        for (x, expected) in [
            (-100.0, -5_005.524_208_694_205),
            (-20.000_001, -203.917_175_420_850_87),
            (-19.999_999, -203.917_135_321_344_7),
            (-5.0, -15.064_998_393_988_726),
            (0.0, -std::f64::consts::LN_2),
            (5.0, -2.866_516_129_637_636e-7),
            (10.0, -7.619_853_024_160_527e-24),
        ] {
            let got = log_normal_cdf(x);
            assert!((got / expected - 1.0).abs() < 1e-10, "{x}: {got} {expected}");
        }
    }

    #[test]
    fn a_scale_looks_at_the_suspicious_side_only() {
        let values = Array1::from_iter((0..=100).map(|x| if x < 50 { 50.0 } else { f64::from(x) }));
        let scale = Scale::of(values.view(), Side::High);
        assert_eq!((scale.centre, (scale.spread * NORMAL_95).round()), (50.0, 45.0));
        assert_eq!(Scale::of(values.view(), Side::Low).spread, SMALLEST);
    }
}
