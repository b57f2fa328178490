//! Do two methods differ by more than chance on the same rows?

use serde::{Deserialize, Serialize};

use super::delong::Placement;
use super::error::{IND, MetricError, OOD};
use super::levels::{Levels, count};
use crate::numeric::normal::upper_tail;

/// How the AUROC of two methods differs on the same rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Comparison {
    /// AUROC of the first method.
    pub auroc_a: f64,
    /// AUROC of the second method.
    pub auroc_b: f64,
    /// `auroc_a - auroc_b`: above 0 when the first method is better.
    pub difference: f64,
    /// Standard error of the difference; it counts that both methods saw the same rows.
    pub std_error: f64,
    /// Two-sided: how often a difference at least this large comes by chance from methods of equal
    /// AUROC.
    ///
    /// With a standard error of 0 it is the limit: 1 if there is no difference, else 0. That takes
    /// the same change of placement in every row (one method perfect, the other perfectly wrong,
    /// say), which tells of few rows rather than of certainty.
    pub p_value: f64,
}

/// The paired test of `DeLong` and others (1988): do two methods differ by more than chance?
///
/// Row `i` of `ind_a` and row `i` of `ind_b` must be the same sample, and so for `ood_a`, `ood_b`.
/// With `d = V(a) - V(b)` per row (`V10` and `V01` being its placement: the share of the other
/// set's rows that it stands on the right side of), `difference = mean(d10)` and
/// `std_error² = var(d10) / n + var(d01) / m`, which is their `var(a) + var(b) - 2 cov(a, b)`
/// without the cancellation. The p-value is `2 (1 - Φ(|difference| / std_error))`.
///
/// # Errors
/// The two methods have different numbers of rows, a set is empty, has fewer than 2 rows or has a
/// `NaN`.
pub fn delong_compare(
    ind_a: &[f64],
    ood_a: &[f64],
    ind_b: &[f64],
    ood_b: &[f64],
) -> Result<Comparison, MetricError> {
    check_paired(IND, ind_a, ind_b)?;
    check_paired(OOD, ood_a, ood_b)?;
    let (a, b) = (Levels::merge(ind_a, ood_a)?, Levels::merge(ind_b, ood_b)?);
    a.check_delong()?;

    let (placed_a, placed_b) = (a.placements(), b.placements());
    let differences = |scores_a: &[f64], scores_b: &[f64], of: fn(&Placement) -> f64| {
        let rows = scores_a.iter().zip(scores_b);
        rows.map(|(&x, &y)| of(&placed_a[a.position(x)]) - of(&placed_b[b.position(y)]))
            .collect::<Vec<f64>>()
    };
    let d10 = differences(ind_a, ind_b, |place| place.ind);
    let d01 = differences(ood_a, ood_b, |place| place.ood);

    let (auroc_a, auroc_b) = (a.auroc(), b.auroc());
    let difference = auroc_a - auroc_b;
    let variance =
        sample_variance(&d10) / count(d10.len()) + sample_variance(&d01) / count(d01.len());
    let std_error = variance.sqrt();
    let p_value = p_of(difference, std_error);
    Ok(Comparison { auroc_a, auroc_b, difference, std_error, p_value })
}

/// Two-sided, of a normal error; with none, the limit.
pub(super) fn p_of(difference: f64, std_error: f64) -> f64 {
    if std_error > 0.0 {
        2.0 * upper_tail(difference.abs() / std_error)
    } else if difference == 0.0 {
        1.0
    } else {
        0.0
    }
}

pub(super) fn check_paired(which: &'static str, a: &[f64], b: &[f64]) -> Result<(), MetricError> {
    if a.len() == b.len() {
        Ok(())
    } else {
        Err(MetricError::LengthMismatch { which, first: a.len(), second: b.len() })
    }
}

/// With divisor `len - 1`; there are at least 2 values.
pub(super) fn sample_variance(values: &[f64]) -> f64 {
    let n = count(values.len());
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::delong::tests::covariance_by_pairs;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hand_case() {
        // a: V10 = (1, 3/4), V01 = (1, 3/4). b: V10 = (1/2, 1/2), V01 = (1, 0).
        // d10 = (1/2, 1/4), d01 = (0, 3/4): sample variances 1/32 and 9/32, two rows each.
        let got = delong_compare(&[3.0, 2.0], &[1.0, 2.0], &[1.0, 2.0], &[0.0, 3.0]).unwrap();
        assert_eq!((got.auroc_a, got.auroc_b, got.difference), (0.875, 0.5, 0.375));
        assert!((got.std_error - (10.0_f64 / 64.0).sqrt()).abs() < 1e-15);
        assert!((got.p_value - 0.342_781_711_147_911_45).abs() < 1e-12);
    }

    #[test]
    fn a_method_does_not_differ_from_itself() {
        let (ind, ood) = ([3.0, 2.0, 5.0], [1.0, 2.5]);
        let same = delong_compare(&ind, &ood, &ind, &ood).unwrap();
        assert_eq!((same.difference, same.std_error, same.p_value), (0.0, 0.0, 1.0));
    }

    #[test]
    fn a_certain_difference_has_the_limiting_p_value() {
        let (high, low) = ([3.0, 4.0], [1.0, 2.0]);
        let result = delong_compare(&high, &low, &low, &high).unwrap();
        assert_eq!((result.difference, result.std_error, result.p_value), (1.0, 0.0, 0.0));
    }

    #[test]
    fn a_set_of_one_row_or_a_bad_score_is_an_error() {
        let error = delong_compare(&[1.0], &[0.0, 2.0], &[1.0], &[0.0, 2.0]).unwrap_err();
        assert_eq!(error, MetricError::TooFew { which: IND, got: 1 });
        let error = delong_compare(&[1.0], &[0.0], &[1.0], &[f64::NAN]).unwrap_err();
        assert_eq!(error, MetricError::NotANumber { which: OOD, row: 0 });
        assert_eq!(
            delong_compare(&[], &[], &[], &[]).unwrap_err(),
            MetricError::Empty { which: IND }
        );
    }

    #[test]
    fn methods_must_have_scored_the_same_rows() {
        let error = delong_compare(&[1.0, 2.0], &[0.0], &[1.0], &[0.0]).unwrap_err();
        assert_eq!(error, MetricError::LengthMismatch { which: IND, first: 2, second: 1 });
        let error = delong_compare(&[1.0], &[0.0], &[1.0], &[0.0, 3.0]).unwrap_err();
        assert_eq!(error, MetricError::LengthMismatch { which: OOD, first: 1, second: 2 });
        assert!(error.to_string().ends_with("from the first, 1, got 2"));
    }

    fn paired() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((-6i8..6, -6i8..6).prop_map(|(a, b)| (a.into(), b.into())), 2..30)
    }

    proptest! {
        #[test]
        fn the_standard_error_equals_the_sums_over_all_pairs(ind in paired(), ood in paired()) {
            let (ind_a, ind_b): (Vec<f64>, Vec<f64>) = ind.into_iter().unzip();
            let (ood_a, ood_b): (Vec<f64>, Vec<f64>) = ood.into_iter().unzip();
            let (a, b) = ((&ind_a[..], &ood_a[..]), (&ind_b[..], &ood_b[..]));
            let got = delong_compare(&ind_a, &ood_a, &ind_b, &ood_b).unwrap();
            let expected = covariance_by_pairs(a, a) + covariance_by_pairs(b, b)
                - 2.0 * covariance_by_pairs(a, b);
            prop_assert!((got.std_error.powi(2) - expected).abs() < 1e-13);
            prop_assert!((0.0..=1.0).contains(&got.p_value));

            let swapped = delong_compare(&ind_b, &ood_b, &ind_a, &ood_a).unwrap();
            prop_assert_eq!(swapped.difference, -got.difference);
            prop_assert!((swapped.p_value - got.p_value).abs() < 1e-9);
        }
    }
}
