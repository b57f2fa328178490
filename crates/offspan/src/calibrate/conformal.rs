//! Conformal p-values, and which rows of a batch they let us call OoD.

use super::order::check_share;
use crate::{Error, Result};

/// Room for the rounding of `p m / i`. Conformal p-values are fractions that often meet the level
/// exactly; whether such a row is flagged must not depend on a last bit.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// The conformal p-value of a row, small for OoD rows: `(1 + #{x_i <= score}) / (n + 1)`.
///
/// `sorted` are the calibration scores in ascending order. For a row from the same distribution,
/// `P(p <= u) <= u` for every `u`, whatever that distribution is.
#[must_use]
pub fn p_value(sorted: &[f64], score: f64) -> f64 {
    let as_low = sorted.partition_point(|&x| x <= score);
    (as_low as f64 + 1.0) / (sorted.len() as f64 + 1.0)
}

/// Which rows of a batch to flag as out-of-distribution, so that on average at most the share
/// `level` of the flagged rows are in-distribution (Benjamini and Hochberg, 1995).
///
/// P-values from one calibration set depend on each other, because they all move with the draw of
/// that set. They move together: a set that makes one p-value small makes the others smaller too.
/// Under such positive dependence the procedure holds its level (Bates, Candès, Lei, Romano and
/// Sesia, "Testing for outliers with conformal p-values", Annals of Statistics, 2023,
/// for scores without ties). The mean is over calibration sets as well as over batches.
///
/// # Errors
/// If a p-value is not in [0, 1] or the level not in (0, 1).
pub fn benjamini_hochberg(p: &[f64], level: f64) -> Result<Vec<bool>> {
    check_share("level", level)?;
    let bound = level * (1.0 + ROUNDING);
    Ok(adjusted(p)?.into_iter().map(|q| q <= bound).collect())
}

/// The smallest level at which [`benjamini_hochberg`] flags each row, at most 1.
///
/// With the p-values in ascending order, `min over j >= i of m p_(j) / j`.
///
/// # Errors
/// If a p-value is not in [0, 1].
pub fn adjusted(p: &[f64]) -> Result<Vec<f64>> {
    if let Some(bad) = p.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        return Err(Error::parameter("p-value", "a number from 0 to 1", bad));
    }
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut smallest = 1.0_f64;
    let mut out = vec![1.0; p.len()];
    for (before, &row) in order.iter().enumerate().rev() {
        smallest = smallest.min(p[row] * p.len() as f64 / (before + 1) as f64);
        out[row] = smallest;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p_value_counts_ties_and_infinities_as_low() {
        let sorted = [f64::NEG_INFINITY, 1.0, 2.0, 2.0, 3.0];
        assert_eq!(p_value(&sorted, f64::NEG_INFINITY), 2.0 / 6.0);
        assert_eq!(p_value(&sorted, 0.5), 2.0 / 6.0);
        assert_eq!(p_value(&sorted, 2.0), 5.0 / 6.0);
        assert_eq!(p_value(&sorted, 9.0), 1.0);
        assert_eq!(p_value(&sorted[1..], f64::NEG_INFINITY), 1.0 / 5.0);
        assert_eq!(p_value(&[], 0.0), 1.0);
    }

    #[test]
    fn adjusted_values_equal_those_of_scipy() {
        // scipy.stats.false_discovery_control
        let p = [0.01, 0.04, 0.03, 0.9, 0.005, 0.6];
        let expected = [0.03, 0.06, 0.06, 0.9, 0.03, 0.72];
        for (got, expected) in adjusted(&p).unwrap().iter().zip(expected) {
            assert!((got - expected).abs() < 1e-15, "{got} against {expected}");
        }
    }

    #[test]
    fn adjusted_values_keep_the_order_and_stay_between_the_p_value_and_one() {
        let p: Vec<f64> = (0..50).map(|i| f64::from(i * 37 % 50) / 49.0).collect();
        let q = adjusted(&p).unwrap();
        for i in 0..50 {
            assert!(q[i] >= p[i] && q[i] <= 1.0);
            assert!((0..50).all(|j| p[i] > p[j] || q[i] <= q[j]));
        }
        assert_eq!(adjusted(&[]).unwrap(), Vec::<f64>::new());
        assert_eq!(adjusted(&[1.0, 1.0]).unwrap(), [1.0, 1.0]);
        assert_eq!(adjusted(&[0.0, 1.0]).unwrap(), [0.0, 1.0]);
    }

    /// The step-up rule in whole numbers, for p-values `rank / of` and a level of 1/20.
    fn flagged_in_whole_numbers(ranks: &[usize], of: usize) -> Vec<bool> {
        let count = |rank: usize| ranks.iter().filter(|&&other| other <= rank).count();
        let passes = |rank: usize| rank * ranks.len() * 20 <= count(rank) * of;
        let largest = ranks.iter().copied().filter(|&rank| passes(rank)).max().unwrap_or(0);
        ranks.iter().map(|&rank| rank <= largest).collect()
    }

    #[test]
    fn fractions_that_meet_the_level_exactly_are_flagged() {
        for of in [20, 60, 100, 140, 700, 1000] {
            for rows in 1..60 {
                let ranks: Vec<usize> =
                    (0..rows).map(|i| 1 + (i * i) % (of / 20 + rows / 3)).collect();
                let p: Vec<f64> = ranks.iter().map(|&r| r as f64 / of as f64).collect();
                let got = benjamini_hochberg(&p, 0.05).unwrap();
                assert_eq!(got, flagged_in_whole_numbers(&ranks, of), "{ranks:?} of {of}");
            }
        }
    }

    #[test]
    fn refuses_what_is_no_p_value_and_no_level() {
        for bad in [f64::NAN, -1e-9, 1.0 + 1e-9, f64::INFINITY] {
            assert!(adjusted(&[0.5, bad]).is_err());
            assert!(benjamini_hochberg(&[0.5, bad], 0.1).is_err());
            assert!(benjamini_hochberg(&[0.5], bad).is_err());
        }
    }
}
