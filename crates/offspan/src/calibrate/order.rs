//! Which calibration score to take as the threshold, so that a promise holds with confidence.
//!
//! Of `n` in-distribution scores `x_(1) <= … <= x_(n)`, let `x_(k)` be the threshold. The share `R`
//! of all in-distribution rows that it refuses depends on the draw of the `n`, and only on that:
//! `R ~ Beta(k, n-k+1)` whatever the distribution of the scores. Tied scores make `R` smaller, so
//! what is promised of it stays true.

use super::beta::{binomial_at_most, quantile};
use crate::{Error, Result};

/// Room for the rounding of the chance. Where it meets the confidence exactly, as in 1 - 1/2² for
/// 3/4, a last bit must not ask for one more row.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// The largest rank `k` whose threshold `x_(k)` keeps at least the share `keep` of in-distribution
/// rows, in at least the share `confidence` of calibrations: `P(Bin(n, 1-keep) >= k) >= confidence`.
///
/// `None` if `n` is too small for any rank; [`rows_needed`] tells how many it takes.
///
/// # Errors
/// If `keep` or `confidence` is not in (0, 1).
pub fn largest_rank(n: usize, keep: f64, confidence: f64) -> Result<Option<usize>> {
    check_share("keep", keep)?;
    check_share("confidence", confidence)?;
    // The chance falls as the rank grows. `good` holds (rank 0 refuses nothing), `bad` does not.
    let (mut good, mut bad) = (0, n.saturating_add(1));
    while bad - good > 1 {
        let middle = usize::midpoint(good, bad);
        if promise_holds(n, middle, keep, confidence) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok((good > 0).then_some(good))
}

/// The fewest calibration rows for which [`largest_rank`] finds a rank:
/// `ceil(ln(1 - confidence) / ln(keep))`.
///
/// # Errors
/// If `keep` or `confidence` is not in (0, 1).
pub fn rows_needed(keep: f64, confidence: f64) -> Result<usize> {
    check_share("keep", keep)?;
    check_share("confidence", confidence)?;
    let rows = ((-confidence).ln_1p() / keep.ln()).ceil().max(1.0) as usize;
    // The quotient of logarithms may fall on the wrong side of a whole number.
    if !promise_holds(rows, 1, keep, confidence) {
        return Ok(rows + 1);
    }
    let one_less = rows > 1 && promise_holds(rows - 1, 1, keep, confidence);
    Ok(if one_less { rows - 1 } else { rows })
}

/// In which interval the kept share `1 - R` of the threshold `x_(k)` lies, with chance `level`:
/// the central interval of `Beta(n-k+1, k)`.
///
/// # Errors
/// If `level` is not in (0, 1) or the rank not in 1..=n.
pub fn kept_share(n: usize, k: usize, level: f64) -> Result<[f64; 2]> {
    check_rank(n, k)?;
    check_share("level", level)?;
    let tail = (1.0 - level) / 2.0;
    let (refused, kept) = (k as f64, (n - k) as f64 + 1.0);
    Ok([quantile(kept, refused, tail), 1.0 - quantile(refused, kept, tail)])
}

/// The mean of the kept share `1 - R` of the threshold `x_(k)` over calibrations: `1 - k/(n+1)`.
///
/// # Errors
/// If the rank is not in 1..=n.
pub fn expected_kept_share(n: usize, k: usize) -> Result<f64> {
    check_rank(n, k)?;
    Ok(1.0 - k as f64 / (n as f64 + 1.0))
}

/// Whether `P(R <= 1-keep) >= confidence` for rank `k` of `n`. Counted in kept rows, at most `n-k`
/// of them, because `keep` is exact as given and `1 - keep` is rounded.
fn promise_holds(n: usize, k: usize, keep: f64, confidence: f64) -> bool {
    binomial_at_most(n, n - k, keep) >= confidence - ROUNDING
}

/// Refuses a rank that none of `n` scores has.
pub(super) fn check_rank(n: usize, k: usize) -> Result<()> {
    if (1..=n).contains(&k) {
        return Ok(());
    }
    Err(Error::parameter("rank", format!("a rank from 1 to the {n} calibration rows"), k))
}

/// Refuses what is not strictly between 0 and 1, NaN among it.
pub(super) fn check_share(name: &'static str, share: f64) -> Result<()> {
    if share > 0.0 && share < 1.0 {
        return Ok(());
    }
    Err(Error::parameter(name, "a number between 0 and 1, both excluded", share))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `P(Bin(n, p) >= k)`, by adding up the terms one after the other.
    fn at_least(n: usize, k: usize, p: f64) -> f64 {
        let mut term = (1.0 - p).powi(n as i32);
        let mut below = 0.0;
        for j in 0..k {
            below += term;
            term *= (n - j) as f64 / (j + 1) as f64 * p / (1.0 - p);
        }
        1.0 - below
    }

    #[test]
    fn the_rank_is_the_largest_whose_binomial_tail_suffices() {
        for n in [10, 58, 59, 60, 100, 137, 500, 1000] {
            for keep in [0.8, 0.9, 0.95, 0.99] {
                for confidence in [0.5, 0.9, 0.95, 0.99] {
                    let expected =
                        (1..=n).take_while(|&k| at_least(n, k, 1.0 - keep) >= confidence).last();
                    let got = largest_rank(n, keep, confidence).unwrap();
                    assert_eq!(got, expected, "n = {n}, keep = {keep}, confidence = {confidence}");
                }
            }
        }
    }

    #[test]
    fn known_ranks() {
        // Wilks' classic: 59 rows for 95 % with 95 % confidence, 93 for the second rank.
        assert_eq!(rows_needed(0.95, 0.95).unwrap(), 59);
        assert_eq!(largest_rank(58, 0.95, 0.95).unwrap(), None);
        assert_eq!(largest_rank(59, 0.95, 0.95).unwrap(), Some(1));
        assert_eq!(largest_rank(92, 0.95, 0.95).unwrap(), Some(1));
        assert_eq!(largest_rank(93, 0.95, 0.95).unwrap(), Some(2));
        assert_eq!(largest_rank(0, 0.95, 0.95).unwrap(), None);
    }

    #[test]
    fn the_rows_needed_are_the_first_that_have_a_rank() {
        for keep in [1e-9, 0.25, 0.5, 0.9, 0.95, 0.999, 0.999_999] {
            for confidence in [1e-9, 0.5, 0.75, 0.875, 0.9, 0.99, 0.999_999] {
                let rows = rows_needed(keep, confidence).unwrap();
                assert!(largest_rank(rows, keep, confidence).unwrap().is_some());
                assert_eq!(largest_rank(rows - 1, keep, confidence).unwrap(), None);
            }
        }
        // Where the quotient is whole: 1 - 1/2² is 3/4.
        assert_eq!(rows_needed(0.5, 0.75).unwrap(), 2);
        // At the ends of the range the answer is absurd, and an answer all the same.
        assert!(rows_needed(1.0 - f64::EPSILON, 1.0 - f64::EPSILON).unwrap() > 1 << 50);
        assert_eq!(rows_needed(f64::MIN_POSITIVE, f64::MIN_POSITIVE).unwrap(), 1);
    }

    #[test]
    fn a_million_rows_nearly_reach_the_plain_percentile() {
        // scipy.stats.binom.isf(0.95, 1_000_000, 0.05)
        assert_eq!(largest_rank(1_000_000, 0.95, 0.95).unwrap(), Some(49_642));
    }

    #[test]
    fn the_interval_of_the_kept_share() {
        // scipy.stats.beta.ppf([0.025, 0.975], 965, 36)
        let [low, high] = kept_share(1000, 36, 0.95).unwrap();
        assert!((low - 0.951_657_618_385_778_3).abs() < 1e-14, "{low}");
        assert!((high - 0.974_661_085_070_162_2).abs() < 1e-14, "{high}");
        let mean = expected_kept_share(1000, 36).unwrap();
        assert!(low < mean && mean < high);
        assert!((mean - 965.0 / 1001.0).abs() < 1e-15);
    }

    #[test]
    fn the_smallest_set_is_uniform() {
        let [low, high] = kept_share(1, 1, 0.9).unwrap();
        assert!((low - 0.05).abs() < 1e-15 && (high - 0.95).abs() < 1e-15);
        assert_eq!(expected_kept_share(1, 1).unwrap(), 0.5);
    }

    #[test]
    fn refuses_shares_and_ranks_out_of_range() {
        for bad in [f64::NAN, -0.1, 0.0, 1.0, f64::INFINITY] {
            assert!(largest_rank(100, bad, 0.95).is_err() && largest_rank(100, 0.95, bad).is_err());
            assert!(rows_needed(bad, 0.95).is_err() && rows_needed(0.95, bad).is_err());
            assert!(kept_share(100, 5, bad).is_err());
        }
        for (n, k) in [(0, 0), (0, 1), (10, 0), (10, 11)] {
            assert!(kept_share(n, k, 0.9).is_err() && expected_kept_share(n, k).is_err());
        }
    }
}
