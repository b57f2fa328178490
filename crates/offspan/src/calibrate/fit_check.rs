//! Whether later in-distribution rows still fit the calibration.

use serde::Serialize;

use super::beta::ln_binomial;
use super::kolmogorov;
use super::order::check_rank;
use crate::{Error, Result};

/// Two tests of the claim that later rows have the distribution of the calibration rows: one counts
/// the flagged, which is what the threshold is for; one sees any change of the scores.
///
/// Both are exact for every distribution of scores without ties (the second up to 2·10⁸ pairs of
/// rows), and with ties more careful than they need be. Whoever checks often against one set of
/// calibration rows will see a small p-value at some time: these are for one check.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FitCheck {
    /// Later rows.
    pub rows: usize,
    /// How many of them the threshold refuses.
    pub flagged: usize,
    /// The share of them that it should refuse on average: `k / (n + 1)`.
    pub expected_share: f64,
    /// How likely at least so many are refused, if nothing has changed.
    pub flagged_p_value: f64,
    /// The largest distance between the distribution functions of the calibration scores and of
    /// the later ones (Kolmogorov and Smirnov).
    pub distance: f64,
    /// How likely a distance at least as large is, if nothing has changed.
    pub distance_p_value: f64,
    /// Both as one test: twice the smaller of the two, at most 1 (Bonferroni).
    pub p_value: f64,
}

impl FitCheck {
    /// Compares later scores with the calibration scores `sorted`, in ascending order, of which the
    /// one of rank `rank` is the threshold.
    ///
    /// # Errors
    /// If there are no rows on either side, the rank is not in 1..=n, the calibration scores are
    /// not in ascending order, or there is a NaN.
    pub fn new(sorted: &[f64], rank: usize, later: &[f64]) -> Result<Self> {
        for (what, scores) in [("calibration scores", sorted), ("later scores", later)] {
            if scores.is_empty() {
                return Err(Error::TooFewRows { what: what.to_owned(), expected: 1, got: 0 });
            }
            if let Some(row) = scores.iter().position(|score| score.is_nan()) {
                return Err(Error::parameter(what, "numbers", format!("NaN in row {row}")));
            }
        }
        if !sorted.is_sorted() {
            return Err(Error::parameter("calibration scores", "ascending order", "another"));
        }
        check_rank(sorted.len(), rank)?;

        let threshold = sorted[rank - 1];
        let mut ascending = later.to_vec();
        ascending.sort_by(f64::total_cmp);
        let flagged = ascending.partition_point(|&score| score < threshold);
        let flagged_p_value = chance_of_flagged(sorted.len(), rank, later.len(), flagged);
        let (distance, distance_p_value) = kolmogorov::two_sample(sorted, &ascending);
        Ok(FitCheck {
            rows: later.len(),
            flagged,
            expected_share: rank as f64 / (sorted.len() as f64 + 1.0),
            flagged_p_value,
            distance,
            distance_p_value,
            p_value: (2.0 * flagged_p_value.min(distance_p_value)).min(1.0),
        })
    }
}

/// The chance that at least `flagged` of `m` later rows fall below the calibration score of rank
/// `k` of `n`: the upper tail of the beta-binomial with parameters `k` and `n-k+1`.
fn chance_of_flagged(n: usize, k: usize, m: usize, flagged: usize) -> f64 {
    if flagged == 0 {
        return 1.0;
    }
    let (n, k, m, rows) = (n as f64, k as f64, m as f64, m);
    // The terms fall away from the mode, which is near the mean. So the sum over the side without
    // the mean is led by its first terms: it does not overflow and can stop early.
    if flagged as f64 > m * k / (n + 1.0) {
        let ratio = |j: f64| (k + j) / (j + 1.0) * (m - j) / (n - k + m - j);
        let ratios = (flagged..rows).map(|j| ratio(j as f64));
        sum_of_terms(ln_beta_binomial(n, k, m, flagged as f64), ratios)
    } else {
        let ratio = |j: f64| j / (k + j - 1.0) * (n - k + m - j + 1.0) / (m - j + 1.0);
        let ratios = (1..flagged).rev().map(|j| ratio(j as f64));
        1.0 - sum_of_terms(ln_beta_binomial(n, k, m, flagged as f64 - 1.0), ratios)
    }
}

/// `exp(scale) (1 + r_1 + r_1 r_2 + ⋯)`, at most 1, up to terms that no longer count.
fn sum_of_terms(scale: f64, ratios: impl Iterator<Item = f64>) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for ratio in ratios {
        term *= ratio;
        sum += term;
        // The ratios only fall, so the rest is a geometric series at most.
        if ratio < 1.0 && term < sum * (1.0 - ratio) * f64::EPSILON {
            break;
        }
    }
    (scale + f64::ln(sum)).exp().min(1.0)
}

/// The logarithm of `C(k+j-1, j) C(n-k+m-j, m-j) / C(n+m, m)`.
///
/// As binomial probabilities, in which the powers of `share` cancel whatever it is: their logarithms
/// stay small where those of the coefficients alone run into the millions.
fn ln_beta_binomial(n: f64, k: f64, m: f64, j: f64) -> f64 {
    let share = m / (n + m);
    (k / (k + j)).ln() + ln_binomial(j, k + j, share) + ln_binomial(m - j, n - k + m - j, share)
        - ln_binomial(m, n + m, share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_has_the_upper_tail_of_the_beta_binomial() {
        // Sums of the terms as exact fractions. scipy.stats.betabinom.sf, which subtracts
        // log-gammas, agrees to 1e-10 in the first six and has no digit right in the last two.
        for (n, k, m, flagged, expected) in [
            (1000, 36, 500, 30, 0.019_168_617_186_347_94),
            (1000, 36, 500, 18, 0.513_532_992_923_403_3),
            (1000, 36, 500, 5, 0.999_432_428_175_239_8),
            (20, 1, 10, 3, 0.029_556_650_246_305_417),
            (20, 20, 7, 7, 0.740_740_740_740_740_7),
            (20, 20, 7, 1, 0.999_998_873_911_917_4),
            (1000, 36, 500, 300, 1.170_301_592_313_077_8e-135),
            (30_000, 1500, 5000, 400, 1.116_688_290_161_736e-16),
        ] {
            let got = chance_of_flagged(n, k, m, flagged);
            assert!((got / expected - 1.0).abs() < 1e-12, "{got:e} against {expected:e}");
        }
    }

    #[test]
    fn the_tail_starts_at_one_and_falls_by_the_terms() {
        let (n, m) = (12, 9);
        for k in 1..=n {
            let tail: Vec<f64> = (0..=m).map(|j| chance_of_flagged(n, k, m, j)).collect();
            assert_eq!(tail[0], 1.0);
            for j in 0..m {
                let term = ln_beta_binomial(n as f64, k as f64, m as f64, j as f64).exp();
                assert!((tail[j] - tail[j + 1] - term).abs() < 1e-14, "k = {k}, j = {j}");
            }
        }
    }

    #[test]
    fn counts_what_the_threshold_refuses() {
        let sorted: Vec<f64> = (0..99).map(f64::from).collect();
        let later = [f64::NEG_INFINITY, 3.999, 4.0, 50.0, 120.0];
        let check = FitCheck::new(&sorted, 5, &later).unwrap();
        assert_eq!((check.rows, check.flagged), (5, 2));
        assert_eq!(check.expected_share, 0.05);
        let smaller = check.flagged_p_value.min(check.distance_p_value);
        assert_eq!(check.p_value, (2.0 * smaller).min(1.0));
        assert!(check.flagged_p_value < 0.05, "two of five where a twentieth is expected");
    }

    #[test]
    fn the_same_rows_fit() {
        let scores: Vec<f64> = (0..200).map(f64::from).collect();
        let check = FitCheck::new(&scores, 10, &scores).unwrap();
        assert_eq!((check.distance, check.distance_p_value, check.p_value), (0.0, 1.0, 1.0));
    }

    #[test]
    fn the_order_of_later_rows_does_not_matter() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        let check = FitCheck::new(&sorted, 2, &[5.0, 0.0, 2.5]).unwrap();
        assert_eq!(check, FitCheck::new(&sorted, 2, &[0.0, 2.5, 5.0]).unwrap());
    }

    #[test]
    fn refuses_missing_rows_wrong_ranks_wrong_order_and_nan() {
        let sorted = [1.0, 2.0, 3.0];
        assert!(matches!(FitCheck::new(&[], 1, &sorted), Err(Error::TooFewRows { .. })));
        assert!(matches!(FitCheck::new(&sorted, 1, &[]), Err(Error::TooFewRows { .. })));
        for rank in [0, 4] {
            assert!(FitCheck::new(&sorted, rank, &sorted).is_err());
        }
        assert!(FitCheck::new(&[2.0, 1.0], 1, &sorted).is_err());
        assert!(FitCheck::new(&[f64::NAN], 1, &sorted).is_err());
        assert!(FitCheck::new(&sorted, 1, &[1.0, f64::NAN]).is_err());
    }
}
