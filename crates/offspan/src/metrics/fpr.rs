//! FPR at a wanted TPR: where the threshold goes, and what passes it.

use super::error::{IND, MetricError, check_scores, check_tpr};
use super::levels::{Levels, share};
use super::rule::FprRule;

/// The false positive rate where the true positive rate is `tpr`, by `rule`.
///
/// # Errors
/// A set is empty or has a `NaN`, or `tpr` is not in `(0, 1]`.
pub fn fpr_at_tpr(ind: &[f64], ood: &[f64], tpr: f64, rule: FprRule) -> Result<f64, MetricError> {
    check_tpr(tpr)?;
    Ok(Levels::merge(ind, ood)?.fpr(tpr, rule))
}

/// The threshold of [`FprRule::AtLeast`]: the highest score `t` for which `score >= t` keeps at
/// least `tpr` of the `InD` rows.
///
/// `OoD` rows have no part in it, so it is also what a deployed detector may use. O(n): it selects,
/// it does not sort.
///
/// # Errors
/// There are no scores, one is `NaN`, or `tpr` is not in `(0, 1]`.
pub fn threshold_at_tpr(ind: &[f64], tpr: f64) -> Result<f64, MetricError> {
    check_tpr(tpr)?;
    check_scores(IND, ind)?;
    let index = refused(ind.len(), tpr);
    let mut scores = ind.to_vec();
    let (_, threshold, _) = scores.select_nth_unstable_by(index, f64::total_cmp);
    Ok(*threshold)
}

impl Levels {
    /// The FPR by `rule`; `tpr` has been checked.
    pub(super) fn fpr(&self, tpr: f64, rule: FprRule) -> f64 {
        // Both indices are under n, and `kept` is at most n, so the search always ends at a level;
        // 1 is the rate of the highest level, where it would end otherwise.
        match rule {
            FprRule::AtLeast => {
                let index = refused(self.n_ind, tpr);
                let at = self.steps().find(|step| step.ind_through() > index);
                at.map_or(1.0, |step| share(self.n_ood - step.ood_below, self.n_ood))
            }
            FprRule::Authors => {
                let index = refused_rounded(self.n_ind, tpr).min(self.n_ind - 1);
                let at = self.steps().find(|step| step.ind_through() > index);
                at.map_or(1.0, |step| share(self.n_ood - step.ood_through(), self.n_ood))
            }
            FprRule::OodPositive => {
                let wanted = kept(self.n_ood, tpr);
                let at = self.steps().find(|step| step.ood_through() >= wanted);
                at.map_or(1.0, |step| share(step.ind_through(), self.n_ind))
            }
        }
    }
}

/// The smallest `k` with `k / n >= tpr`, for `tpr` in `(0, 1]`: `ceil(tpr n)` without its rounding.
///
/// `1 - 0.95` is `0.050000000000000044` in floating point, and `floor` and `round` turn such an
/// error into another row. The quotient `k / n` has no such error: IEEE division gives the double
/// nearest to the exact fraction, and a decimal such as `0.95` is read as the double nearest to it.
/// When `k / n` and the decimal are the same number they are the same double, so the comparison is
/// what exact arithmetic on the decimal gives, for any `n`, without a tolerance.
pub(super) fn kept(n: usize, tpr: f64) -> usize {
    let (mut low, mut high) = (1, n);
    while low < high {
        let middle = low.midpoint(high);
        if share(middle, n) >= tpr {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// `floor((1 - tpr) n)` in exact arithmetic, less than `n`.
pub(super) fn refused(n: usize, tpr: f64) -> usize {
    n - kept(n, tpr)
}

/// `round((1 - tpr) n)` in exact arithmetic, half to even as in Python and `NumPy`.
///
/// The product is past `k + 1/2` exactly when `tpr < (2 (n - k) - 1) / (2 n)`: a correctly rounded
/// quotient again, for the reason given at [`kept`].
pub(super) fn refused_rounded(n: usize, tpr: f64) -> usize {
    let down = refused(n, tpr);
    let half_way = share(2 * (n - down) - 1, 2 * n);
    let is_even = down.is_multiple_of(2);
    if tpr > half_way || (tpr >= half_way && is_even) { down } else { down + 1 }
}

#[cfg(test)]
mod tests {
    use super::super::error::OOD;
    use super::*;
    use proptest::prelude::*;

    fn one_to(n: u32) -> Vec<f64> {
        (1..=n).map(f64::from).collect()
    }

    #[test]
    fn the_three_rules_differ_on_a_hand_case() {
        // n = 20, so the index is 1 and t = 2. Two OoD rows tie with t, one lies above it.
        let (ind, ood) = (one_to(20), [0.5, 2.0, 2.0, 3.0]);
        assert_eq!(fpr_at_tpr(&ind, &ood, 0.95, FprRule::AtLeast), Ok(0.75));
        assert_eq!(fpr_at_tpr(&ind, &ood, 0.95, FprRule::Authors), Ok(0.25));
        // 95 % of four OoD rows is all four: all up to 3 is called OoD, three InD rows with it.
        assert_eq!(fpr_at_tpr(&ind, &ood, 0.95, FprRule::OodPositive), Ok(0.15));
    }

    #[test]
    fn rounding_alone_separates_the_first_two_rules() {
        // (1 - 0.95) 30 = 1.5: floor takes x[1] = 2, half to even takes x[2] = 3.
        let (ind, ood) = (one_to(30), [2.5, 3.5]);
        assert_eq!(fpr_at_tpr(&ind, &ood, 0.95, FprRule::AtLeast), Ok(1.0));
        assert_eq!(fpr_at_tpr(&ind, &ood, 0.95, FprRule::Authors), Ok(0.5));
    }

    #[test]
    fn ood_positive_takes_tied_rows_in_one_step() {
        // Half of the OoD rows would do, but the two at 1 come together with the InD row at 1.
        let (ind, ood) = ([1.0, 2.0], [1.0, 1.0, 5.0, 5.0]);
        assert_eq!(fpr_at_tpr(&ind, &ood, 0.25, FprRule::OodPositive), Ok(0.5));
        assert_eq!(fpr_at_tpr(&ind, &ood, 0.51, FprRule::OodPositive), Ok(1.0));
    }

    #[test]
    fn equal_scores_cannot_be_told_apart() {
        let fpr = |rule| fpr_at_tpr(&[1.0; 9], &[1.0; 4], 0.95, rule).unwrap();
        assert_eq!(FprRule::ALL.map(fpr), [1.0, 0.0, 1.0]);
    }

    #[test]
    fn perfect_separation_lets_nothing_in() {
        for rule in FprRule::ALL {
            assert_eq!(fpr_at_tpr(&[3.0, 4.0], &[1.0, f64::NEG_INFINITY], 1.0, rule), Ok(0.0));
        }
    }

    #[test]
    fn minus_infinity_can_be_the_threshold() {
        let (ind, ood) = ([f64::NEG_INFINITY, 1.0], [f64::NEG_INFINITY, 0.0]);
        assert_eq!(threshold_at_tpr(&ind, 1.0), Ok(f64::NEG_INFINITY));
        assert_eq!(fpr_at_tpr(&ind, &ood, 1.0, FprRule::AtLeast), Ok(1.0));
        assert_eq!(fpr_at_tpr(&ind, &ood, 1.0, FprRule::Authors), Ok(0.5));
    }

    #[test]
    fn the_index_is_exact_where_floats_would_slip() {
        assert_eq!((refused(100, 0.95), refused(20, 0.95)), (5, 1));
        // In floats (1 - 0.9) 10 = 0.9999999999999998, whose floor is 0.
        assert_eq!(refused(10, 0.9), 1);
        for n in 1..5000 {
            assert_eq!(refused(n, 0.95), n / 20, "n = {n}");
            assert_eq!(refused(n, 0.9), n / 10, "n = {n}");
            assert_eq!(refused(n, 0.99), n / 100, "n = {n}");
            assert_eq!(refused(n, 2.0 / 3.0), n / 3, "n = {n}");
            assert_eq!(refused(n, 1.0), 0, "n = {n}");
        }
        assert_eq!(refused(1 << 40, 0.95), (1 << 40) / 20);
    }

    #[test]
    fn the_authors_index_rounds_half_to_even() {
        // In floats (1 - 0.95) 10 = 0.5000000000000004, which rounds to 1.
        let halves = [10, 30, 50, 70, 90].map(|n| refused_rounded(n, 0.95));
        assert_eq!(halves, [0, 2, 2, 4, 4]);
        for n in 1..5000usize {
            // 0.05 n = q + r/20: over, under or at the half is a question about integers.
            let (q, r) = (n / 20, n % 20);
            let up = r > 10 || (r == 10 && q % 2 == 1);
            assert_eq!(refused_rounded(n, 0.95), q + usize::from(up), "n = {n}");
        }
    }

    #[test]
    fn the_authors_index_stays_inside_the_scores() {
        // (1 - 0.3) 1 rounds to 1, past the only row.
        assert_eq!(refused_rounded(1, 0.3), 1);
        assert_eq!(fpr_at_tpr(&[1.0], &[2.0, 1.0], 0.3, FprRule::Authors), Ok(0.5));
    }

    #[test]
    fn bad_input_is_an_error_by_every_rule() {
        for rule in FprRule::ALL {
            let fpr = |ind: &[f64], ood: &[f64], tpr| fpr_at_tpr(ind, ood, tpr, rule).unwrap_err();
            assert_eq!(fpr(&[1.0], &[1.0], 0.0), MetricError::BadTpr { got: 0.0 });
            assert_eq!(fpr(&[], &[1.0], 0.95), MetricError::Empty { which: IND });
            assert_eq!(fpr(&[1.0], &[], 0.95), MetricError::Empty { which: OOD });
        }
        assert_eq!(threshold_at_tpr(&[1.0], 1.5), Err(MetricError::BadTpr { got: 1.5 }));
        assert_eq!(threshold_at_tpr(&[], 0.5), Err(MetricError::Empty { which: IND }));
        let error = threshold_at_tpr(&[f64::NAN], 0.5).unwrap_err();
        assert_eq!(error, MetricError::NotANumber { which: IND, row: 0 });
    }

    fn scores() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec((-6i8..6).prop_map(f64::from), 1..40)
    }

    proptest! {
        #[test]
        fn the_threshold_is_the_highest_score_that_keeps_enough(
            ind in scores(), tpr in 0.01..=1.0,
        ) {
            let t = threshold_at_tpr(&ind, tpr).unwrap();
            let keeps = |t: f64| share(ind.iter().filter(|&&x| x >= t).count(), ind.len()) >= tpr;
            prop_assert!(ind.contains(&t) && keeps(t));
            prop_assert!(ind.iter().all(|&higher| higher <= t || !keeps(higher)));
        }

        #[test]
        fn at_least_counts_the_rows_at_the_threshold(
            ind in scores(), ood in scores(), tpr in 0.01..=1.0,
        ) {
            let t = threshold_at_tpr(&ind, tpr).unwrap();
            let accepted = ood.iter().filter(|&&y| y >= t).count();
            let fpr = fpr_at_tpr(&ind, &ood, tpr, FprRule::AtLeast);
            prop_assert_eq!(fpr, Ok(share(accepted, ood.len())));
        }

        #[test]
        fn ood_positive_is_the_best_threshold_that_finds_enough(
            ind in scores(), ood in scores(), tpr in 0.01..=1.0,
        ) {
            let called = |v: &[f64], t: f64| share(v.iter().filter(|&&x| x <= t).count(), v.len());
            let all = [&ind[..], &ood[..]].concat();
            let enough = all.into_iter().filter(|&t| called(&ood, t) >= tpr);
            let best = enough.map(|t| called(&ind, t)).fold(1.0, f64::min);
            prop_assert_eq!(fpr_at_tpr(&ind, &ood, tpr, FprRule::OodPositive), Ok(best));
        }
    }
}
