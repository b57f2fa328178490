//! Confidence intervals for AUROC and FPR.

use serde::{Deserialize, Serialize};

use super::bootstrap::percentile_intervals;
use super::error::{MetricError, check_level};
use super::interval_method::IntervalMethod;
use super::levels::{Levels, count};
use super::rule::FprRule;
use crate::numeric::normal::two_sided_z;

/// Confidence intervals as `[low, high]`, inside `[0, 1]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Intervals {
    /// The confidence level, 0.95 for 95 %.
    pub level: f64,
    /// For the AUROC.
    pub auroc: [f64; 2],
    /// For the FPR at the wanted TPR.
    pub fpr: [f64; 2],
}

impl Levels {
    /// Intervals by `method`; `tpr` has been checked, `level` and `method` are checked here.
    pub(super) fn intervals(
        &self,
        (tpr, rule): (f64, FprRule),
        method: IntervalMethod,
        level: f64,
        seed: u64,
    ) -> Result<Intervals, MetricError> {
        check_level(level)?;
        method.check()?;
        let (auroc, fpr) = match method {
            IntervalMethod::DeLong => {
                self.check_delong()?;
                (self.delong_interval(level), self.fpr_interval(tpr, rule, level))
            }
            IntervalMethod::Bootstrap { resamples } => {
                percentile_intervals(self, (tpr, rule), resamples, level, seed)
            }
        };
        Ok(Intervals { level, auroc, fpr })
    }

    /// Two sources of error, joined by the squares of their reaches: which rows happen to pass a
    /// threshold, and where the threshold happens to lie. At the true threshold the share of rows that
    /// are kept is `tpr` up to a binomial error, so what passes there lies between what passes where
    /// that share is a little smaller or larger.
    fn fpr_interval(&self, tpr: f64, rule: FprRule, level: f64) -> [f64; 2] {
        let (passing, fixing) = match rule {
            FprRule::OodPositive => (self.n_ind, self.n_ood),
            FprRule::AtLeast | FprRule::Authors => (self.n_ood, self.n_ind),
        };
        let fpr = self.fpr(tpr, rule);
        let error = two_sided_z(level) * (tpr * (1.0 - tpr) / count(fixing)).sqrt();
        let least = (tpr - error).max(1.0 / count(fixing));
        let threshold = [self.fpr(least, rule), self.fpr((tpr + error).min(1.0), rule)];
        let rows = wilson(fpr, passing, level);
        let reach = |end: usize| (rows[end] - fpr).hypot(threshold[end] - fpr);
        around(fpr, fpr - reach(0), fpr + reach(1))
    }

    fn delong_interval(&self, level: f64) -> [f64; 2] {
        let auroc = self.auroc();
        let pairs = count(self.n_ind.min(self.n_ood));
        let surely = ((1.0 - level) / 2.0).powf(1.0 / pairs);
        if auroc >= 1.0 {
            return [surely, 1.0];
        }
        if auroc <= 0.0 {
            return [0.0, 1.0 - surely];
        }
        let logit = (auroc / (1.0 - auroc)).ln();
        let std_error = self.delong_variance().sqrt() / (auroc * (1.0 - auroc));
        let reach = two_sided_z(level) * std_error;
        let expit = |x: f64| 1.0 / (1.0 + (-x).exp());
        around(auroc, expit(logit - reach), expit(logit + reach))
    }
}

/// Wilson's interval for a share `p` of `rows`:
/// `(p + z²/2n ± z √(p (1 - p)/n + z²/4n²)) / (1 + z²/n)`.
fn wilson(p: f64, rows: usize, level: f64) -> [f64; 2] {
    let (n, z) = (count(rows), two_sided_z(level));
    let z2 = z * z / n;
    let middle = p + z2 / 2.0;
    let reach = (z2 * (p * (1.0 - p) + z2 / 4.0)).sqrt();
    around(p, (middle - reach) / (1.0 + z2), (middle + reach) / (1.0 + z2))
}

/// Keeps rounding from pushing an end past the estimate or out of `[0, 1]`.
fn around(estimate: f64, low: f64, high: f64) -> [f64; 2] {
    [low.clamp(0.0, estimate), high.clamp(estimate, 1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::normal::upper_tail;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};
    use std::f64::consts::{SQRT_2, TAU};

    const FPR95: (f64, FprRule) = (0.95, FprRule::AtLeast);

    fn delong(ind: &[f64], ood: &[f64], level: f64) -> Intervals {
        let levels = Levels::merge(ind, ood).unwrap();
        levels.intervals(FPR95, IntervalMethod::DeLong, level, 0).unwrap()
    }

    /// Box and Muller's normal, moved to `mean`.
    fn normals(random: &mut ChaCha8Rng, rows: usize, mean: f64) -> Vec<f64> {
        let mut uniform = || (f64::from(random.next_u32()) + 0.5) / 4_294_967_296.0;
        let mut draw = |_| mean + (-2.0 * uniform().ln()).sqrt() * (TAU * uniform()).cos();
        (0..rows).map(&mut draw).collect()
    }

    #[test]
    fn delong_on_the_logit_scale_by_hand() {
        // AUROC 7/8, variance 1/32: logit ln 7, its standard error √(1/32) / (7/64).
        let [low, high] = delong(&[3.0, 2.0], &[1.0, 2.0], 0.95).auroc;
        let reach = 1.959_963_984_540_054 * (1.0_f64 / 32.0).sqrt() * 64.0 / 7.0;
        let expit = |x: f64| x.exp() / (1.0 + x.exp());
        assert!((low - expit(7.0_f64.ln() - reach)).abs() < 1e-12);
        assert!((high - expit(7.0_f64.ln() + reach)).abs() < 1e-12);
    }

    #[test]
    fn wilson_by_hand() {
        // z² = 4 with 4 rows: (1/2 + 1/2 ± √(1/4 + 1/4)) / 2.
        let level = 1.0 - 2.0 * upper_tail(2.0);
        let [low, high] = wilson(0.5, 4, level);
        assert!((low - f64::midpoint(1.0, -(0.5_f64.sqrt()))).abs() < 1e-12);
        assert!((high - f64::midpoint(1.0, 0.5_f64.sqrt())).abs() < 1e-12);
    }

    #[test]
    fn wilson_reaches_its_bounds_exactly_and_stays_open_on_the_other_side() {
        let ([zero, up], [down, one]) = (wilson(0.0, 10, 0.95), wilson(1.0, 10, 0.95));
        assert_eq!((zero, one), (0.0, 1.0));
        assert!(up > 0.2 && up < 0.35 && (up + down - 1.0).abs() < 1e-12);
    }

    #[test]
    fn fpr_intervals_cover_the_rate_at_the_true_threshold_as_often_as_they_say() {
        let (shift, draws) = (1.6, 500_u32);
        // Where 95 % of the InD rows pass, and how many OoD rows do there.
        let threshold = shift - 1.644_853_626_951_472_2;
        let truth = upper_tail(threshold);
        for (n, m) in [(350, 460), (2000, 100), (100, 2000)] {
            let mut random = ChaCha8Rng::seed_from_u64(2015);
            let (mut covered, mut by_rows_alone) = (0, 0);
            for _ in 0..draws {
                let ind = normals(&mut random, n, shift);
                let ood = normals(&mut random, m, 0.0);
                let inside = |[low, high]: [f64; 2]| u32::from(low <= truth && truth <= high);
                covered += inside(delong(&ind, &ood, 0.95).fpr);
                let levels = Levels::merge(&ind, &ood).unwrap();
                by_rows_alone += inside(wilson(levels.fpr(0.95, FprRule::AtLeast), m, 0.95));
            }
            let [coverage, alone] =
                [covered, by_rows_alone].map(|c| f64::from(c) / f64::from(draws));
            // One standard deviation of the coverage is 0.01.
            assert!(
                (0.915..=0.985).contains(&coverage),
                "{n}, {m}: {coverage}, {alone} by rows alone"
            );
            assert!(alone < coverage, "{n}, {m}");
        }
    }

    #[test]
    fn perfect_separation_is_not_taken_for_certainty() {
        let perfect = delong(&[5.0, 4.0, 3.0, 2.0, 1.5], &[1.0, 0.0, -1.0], 0.95).auroc;
        assert_eq!(perfect[1], 1.0);
        assert!((perfect[0] - 0.025_f64.cbrt()).abs() < 1e-12);
        let reversed = delong(&[0.0, 1.0], &[2.0, 3.0, 4.0], 0.95).auroc;
        assert_eq!(reversed[0], 0.0);
        assert!((reversed[1] - (1.0 - 0.025_f64.sqrt())).abs() < 1e-12);
    }

    #[test]
    fn delong_intervals_cover_the_truth_as_often_as_they_say() {
        let (shift, draws) = (1.5, 400_u32);
        let truth = 1.0 - upper_tail(shift / SQRT_2);
        let mut random = ChaCha8Rng::seed_from_u64(2014);
        let covered = (0..draws).filter(|_| {
            let ind = normals(&mut random, 60, shift);
            let ood = normals(&mut random, 45, 0.0);
            let [low, high] = delong(&ind, &ood, 0.95).auroc;
            low <= truth && truth <= high
        });
        // One standard deviation of the coverage is 0.011.
        let coverage = f64::from(u32::try_from(covered.count()).unwrap()) / f64::from(draws);
        assert!((0.91..=0.98).contains(&coverage), "coverage {coverage}");
    }
}
