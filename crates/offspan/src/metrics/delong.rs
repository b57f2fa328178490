//! `DeLong`'s variance of the AUROC.
//!
//! `DeLong`, `DeLong` and Clarke-Pearson (1988) write the AUROC as a mean of *placements*. For an
//! `InD` row with score `x` that is the share of `OoD` rows it beats,
//! `V10 = (#{y < x} + #{y = x} / 2) / m`; for an `OoD` row with score `y` it is the share of `InD`
//! rows that beat it, `V01 = (#{x > y} + #{x = y} / 2) / n`. Their sample variances (divisors
//! `n - 1` and `m - 1`) give
//!
//! ```text
//! var(AUROC) = var(V10) / n + var(V01) / m
//! ```
//!
//! Sun and Xu (2014) get the placements from mid-ranks, as the rank among all rows minus the rank
//! in the row's own set, so that a sort replaces the `n m` comparisons. The running counts of the
//! merged levels are those differences of mid-ranks.

use super::error::{IND, MetricError, OOD};
use super::levels::{Levels, count};

/// `V10` of an `InD` row and `V01` of an `OoD` row at one level.
pub(super) struct Placement {
    pub(super) ind: f64,
    pub(super) ood: f64,
}

impl Levels {
    /// Refuses sets without a sample variance.
    pub(super) fn check_delong(&self) -> Result<(), MetricError> {
        for (which, got) in [(IND, self.n_ind), (OOD, self.n_ood)] {
            if got < 2 {
                return Err(MetricError::TooFew { which, got });
            }
        }
        Ok(())
    }

    /// `DeLong`'s variance of the AUROC; both sets have at least 2 rows.
    pub(super) fn delong_variance(&self) -> f64 {
        let auroc = self.auroc();
        let (mut ind, mut ood) = (0.0, 0.0);
        for (level, place) in self.distinct.iter().zip(self.placements()) {
            ind += count(level.ind) * (place.ind - auroc).powi(2);
            ood += count(level.ood) * (place.ood - auroc).powi(2);
        }
        let (n, m) = (count(self.n_ind), count(self.n_ood));
        ind / (n - 1.0) / n + ood / (m - 1.0) / m
    }

    /// The placements at each level, in the order of the levels.
    pub(super) fn placements(&self) -> Vec<Placement> {
        let (n, m) = (count(self.n_ind), count(self.n_ood));
        self.steps()
            .map(|step| Placement {
                ind: (count(step.ood_below) + count(step.ood) / 2.0) / m,
                ood: (count(self.n_ind - step.ind_through()) + count(step.ind) / 2.0) / n,
            })
            .collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Covariance of two AUROCs from all `n m` pairs, with `DeLong`'s kernel ψ.
    pub(crate) fn covariance_by_pairs(a: (&[f64], &[f64]), b: (&[f64], &[f64])) -> f64 {
        let psi = |x: f64, y: f64| f64::from(u8::from(x > y) + u8::from(x >= y)) / 2.0;
        let mean = |v: &[f64]| v.iter().sum::<f64>() / count(v.len());
        let v10 = |(ind, ood): (&[f64], &[f64])| -> Vec<f64> {
            ind.iter().map(|&x| mean(&ood.iter().map(|&y| psi(x, y)).collect::<Vec<_>>())).collect()
        };
        let v01 = |(ind, ood): (&[f64], &[f64])| -> Vec<f64> {
            ood.iter().map(|&y| mean(&ind.iter().map(|&x| psi(x, y)).collect::<Vec<_>>())).collect()
        };
        let covariance = |u: &[f64], v: &[f64]| {
            let (mu, mv, n) = (mean(u), mean(v), count(u.len()));
            u.iter().zip(v).map(|(p, q)| (p - mu) * (q - mv)).sum::<f64>() / (n - 1.0) / n
        };
        covariance(&v10(a), &v10(b)) + covariance(&v01(a), &v01(b))
    }

    #[test]
    fn hand_case_with_a_tie() {
        // V10 = (1, 3/4), V01 = (1, 3/4): each has sample variance 1/32 and 2 rows.
        let levels = Levels::merge(&[3.0, 2.0], &[1.0, 2.0]).unwrap();
        assert_eq!(levels.delong_variance(), 1.0 / 32.0);
    }

    #[test]
    fn perfect_separation_has_no_variance() {
        let levels = Levels::merge(&[3.0, 2.0], &[1.0, f64::NEG_INFINITY]).unwrap();
        assert_eq!(levels.delong_variance(), 0.0);
    }

    #[test]
    fn a_set_of_one_row_is_refused() {
        let check = |ind, ood| Levels::merge(ind, ood).unwrap().check_delong();
        let few = |which| Err(MetricError::TooFew { which, got: 1 });
        assert_eq!(check(&[1.0], &[0.0, 2.0]), few(IND));
        assert_eq!(check(&[1.0, 2.0], &[0.0]), few(OOD));
        assert_eq!(check(&[1.0, 2.0], &[0.0, 1.0]), Ok(()));
        let message = MetricError::TooFew { which: OOD, got: 1 }.to_string();
        assert!(message.contains("at least 2 out-of-distribution rows, got 1"));
    }

    fn scores() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec((-6i8..6).prop_map(f64::from), 2..30)
    }

    proptest! {
        #[test]
        fn the_variance_equals_the_sum_over_all_pairs(ind in scores(), ood in scores()) {
            let variance = Levels::merge(&ind, &ood).unwrap().delong_variance();
            let expected = covariance_by_pairs((&ind, &ood), (&ind, &ood));
            prop_assert!((variance - expected).abs() < 1e-13);
        }
    }
}
