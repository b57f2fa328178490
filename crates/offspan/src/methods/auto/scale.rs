//! How a number spreads on in-distribution rows, and how rare a value is.

use super::super::model::{Found, Stored};
use crate::Result;
use crate::numeric::percentile::quantile_of_sorted;

/// The normal distribution's 95th percentile.
const NORMAL_95: f64 = 1.644_853_626_951_472_2;
/// Spreads below this are rounding.
const SMALLEST: f64 = 1e-12;

/// The median, and the spread below it, where values are suspicious: as many standard deviations of a
/// normal distribution as its 5th percentile has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub(super) centre: f64,
    pub(super) spread: f64,
}

impl Scale {
    pub(super) fn of(values: &[f64]) -> Self {
        // Rows without direction have no value.
        let mut values: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        let centre = median(&mut values);
        let tail = quantile(&values, 0.05);
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
    quantile(values, 0.5)
}

/// A quantile of sorted values; 0 of none.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    if sorted.is_empty() { 0.0 } else { quantile_of_sorted(sorted, q) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_looks_at_the_suspicious_side_only() {
        let values: Vec<f64> =
            (0..=100).map(|x| if x < 50 { 50.0 } else { f64::from(x) }).collect();
        assert_eq!(Scale::of(&values).spread, SMALLEST);
        let turned: Vec<f64> = values.iter().map(|value| -value).collect();
        let scale = Scale::of(&turned);
        assert_eq!((scale.centre, (scale.spread * NORMAL_95).round()), (-50.0, 45.0));
    }
}
