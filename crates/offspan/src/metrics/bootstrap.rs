//! The stratified percentile bootstrap.
//!
//! A resample draws `n` `InD` rows and `m` `OoD` rows with replacement. Since every metric depends
//! on the counts per distinct score only, a resample is a new set of counts over levels that are
//! sorted already: O(n + m) each, no further sort, and the order of the input rows cannot matter.

use crate::numeric::percentile::quantile_of_sorted;
use crate::numeric::random::{Random, Stream};

use super::error::MetricError;
use super::levels::{Level, Levels};
use super::rule::FprRule;

/// More resamples than this is taken for a slip: the ends of the interval move no further, and the
/// memory for the replicates should not depend on a typing error.
pub(super) const MAX_RESAMPLES: u32 = 1_000_000;

/// Refuses a number of resamples that cannot be drawn.
pub(super) fn check_resamples(got: u32) -> Result<(), MetricError> {
    if (1..=MAX_RESAMPLES).contains(&got) { Ok(()) } else { Err(MetricError::BadResamples { got }) }
}

/// The percentile intervals of AUROC and FPR, in this order.
///
/// Every resample has a stream of the generator to itself, so each can be drawn alone: the same
/// seed gives the same intervals in whatever order, or on however many threads, they are drawn.
pub(super) fn percentile_intervals(
    levels: &Levels,
    (tpr, rule): (f64, FprRule),
    resamples: u32,
    level: f64,
    seed: u64,
) -> ([f64; 2], [f64; 2]) {
    let ind_rows = rows(levels, |level| level.ind);
    let ood_rows = rows(levels, |level| level.ood);
    let mut resample = levels.clone();

    let (mut aurocs, mut fprs): (Vec<f64>, Vec<f64>) = (0..resamples)
        .map(|b| {
            let mut random = Random::numbered(seed, Stream::Bootstrap, b);
            let mut index = |n: usize| random.below(n as u64) as usize;
            for level in &mut resample.distinct {
                (level.ind, level.ood) = (0, 0);
            }
            for _ in &ind_rows {
                resample.distinct[ind_rows[index(ind_rows.len())]].ind += 1;
            }
            for _ in &ood_rows {
                resample.distinct[ood_rows[index(ood_rows.len())]].ood += 1;
            }
            (resample.auroc(), resample.fpr(tpr, rule))
        })
        .unzip();
    (percentile_interval(&mut aurocs, level), percentile_interval(&mut fprs, level))
}

/// The level of each row of one set, in the order of the levels.
fn rows(levels: &Levels, of: fn(&Level) -> usize) -> Vec<usize> {
    let numbered = levels.distinct.iter().enumerate();
    numbered.flat_map(|(at, level)| std::iter::repeat_n(at, of(level))).collect()
}

/// The quantiles `(1 ∓ level) / 2` of at least one value; sorts the values.
pub(super) fn percentile_interval(values: &mut [f64], level: f64) -> [f64; 2] {
    values.sort_unstable_by(f64::total_cmp);
    [
        quantile_of_sorted(values, (1.0 - level) / 2.0),
        quantile_of_sorted(values, f64::midpoint(1.0, level)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const FPR95: (f64, FprRule) = (0.95, FprRule::AtLeast);

    /// Two overlapping ladders of distinct scores.
    fn ladders() -> Levels {
        let ind: Vec<f64> = (0..60).map(|i| f64::from(i) + 20.0).collect();
        let ood: Vec<f64> = (0..50).map(|i| f64::from(i) + 0.5).collect();
        Levels::merge(&ind, &ood).unwrap()
    }

    #[test]
    fn the_seed_decides_everything() {
        let run = |seed| percentile_intervals(&ladders(), FPR95, 50, 0.95, seed);
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn the_interval_surrounds_the_estimate_and_grows_with_the_level() {
        let levels = ladders();
        let run = |level| percentile_intervals(&levels, FPR95, 400, level, 1);
        let ((narrow, _), (wide, fpr)) = (run(0.5), run(0.99));
        assert!(wide[0] < narrow[0] && narrow[0] < levels.auroc());
        assert!(levels.auroc() < narrow[1] && narrow[1] < wide[1]);
        let estimate = levels.fpr(0.95, FprRule::AtLeast);
        assert!(fpr[0] < estimate && estimate < fpr[1]);
    }

    #[test]
    fn the_spread_of_replicates_is_near_delongs_standard_error() {
        // Half of a normal's mass lies within 0.6745 standard deviations of its middle.
        let levels = ladders();
        let (auroc, _) = percentile_intervals(&levels, FPR95, 2000, 0.5, 3);
        let spread = (auroc[1] - auroc[0]) / (2.0 * 0.6745);
        assert!((spread / levels.delong_variance().sqrt() - 1.0).abs() < 0.1);
    }

    #[test]
    fn each_set_is_drawn_from_itself() {
        // Perfect separation stays perfect in every resample, only if no row changes its set.
        let levels = Levels::merge(&[3.0, 4.0, 5.0], &[1.0, f64::NEG_INFINITY]).unwrap();
        let intervals = percentile_intervals(&levels, FPR95, 100, 0.95, 0);
        assert_eq!(intervals, ([1.0, 1.0], [0.0, 0.0]));
    }

    #[test]
    fn one_resample_of_one_row_is_that_row() {
        let levels = Levels::merge(&[1.0], &[1.0]).unwrap();
        assert_eq!(percentile_intervals(&levels, FPR95, 1, 0.95, 0), ([0.5; 2], [1.0; 2]));
    }

    #[test]
    fn draws_are_uniform() {
        let mut random = Random::new(5, Stream::Bootstrap);
        let mut seen = [0_u32; 7];
        for _ in 0..70_000 {
            seen[random.below(7) as usize] += 1;
        }
        // 10,000 expected each, standard deviation 93.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 400), "{seen:?}");
    }

    #[test]
    fn quantiles_interpolate() {
        let values = [0.0, 1.0, 2.0, 4.0];
        assert_eq!([0.0, 0.5, 1.0].map(|q| quantile_of_sorted(&values, q)), [0.0, 1.5, 4.0]);
        assert_eq!(quantile_of_sorted(&values, 5.0 / 6.0), 3.0);
        assert_eq!(quantile_of_sorted(&[9.0], 0.975), 9.0);
    }
}
