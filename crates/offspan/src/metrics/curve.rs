//! Metrics that need no chosen threshold: areas under curves and the best error.

use super::error::MetricError;
use super::levels::{Levels, count, share};

/// Area under the ROC curve: how often an `InD` row scores above an `OoD` row.
///
/// `AUROC = (#{x > y} + #{x = y} / 2) / (n m)` over all pairs, which is what mid-ranks for ties
/// compute. 1 is perfect, 1/2 is chance, and swapping the two sets gives `1 - AUROC`.
///
/// # Errors
/// A set is empty or has a `NaN`.
pub fn auroc(ind: &[f64], ood: &[f64]) -> Result<f64, MetricError> {
    Ok(Levels::merge(ind, ood)?.auroc())
}

/// Area under the precision-recall curve with `InD` as the positive class.
///
/// This is the average precision, `Σ_k (R_k - R_{k-1}) P_k` over the distinct scores from the
/// highest down, `R_k` and `P_k` being recall and precision when every score at or above the k-th
/// is called `InD`. There is no interpolation between the points (scikit-learn's definition too).
/// Unlike the AUROC it depends on how many rows each set has: chance level is `n / (n + m)`.
///
/// # Errors
/// A set is empty or has a `NaN`.
pub fn aupr_in(ind: &[f64], ood: &[f64]) -> Result<f64, MetricError> {
    Ok(Levels::merge(ind, ood)?.aupr_in())
}

/// Area under the precision-recall curve with `OoD` as the positive class and scores negated.
///
/// The definition is that of [`aupr_in`] with the two sets in each other's place.
/// Chance level is `m / (n + m)`.
///
/// # Errors
/// A set is empty or has a `NaN`.
pub fn aupr_out(ind: &[f64], ood: &[f64]) -> Result<f64, MetricError> {
    Ok(Levels::merge(ind, ood)?.aupr_out())
}

/// The smallest error that any one threshold reaches when both classes are equally likely.
///
/// `min_t ((1 - TPR(t)) + FPR(t)) / 2`, at most 1/2 because accepting everything is a choice too.
///
/// # Errors
/// A set is empty or has a `NaN`.
pub fn detection_error(ind: &[f64], ood: &[f64]) -> Result<f64, MetricError> {
    Ok(Levels::merge(ind, ood)?.detection_error())
}

/// The ROC curve: (FPR, TPR) of every threshold that decides differently, from (0, 0) to (1, 1).
///
/// The area under the straight lines between the points is [`auroc`].
///
/// # Errors
/// A set is empty or has a `NaN`.
pub fn roc_curve(ind: &[f64], ood: &[f64]) -> Result<Vec<(f64, f64)>, MetricError> {
    let levels = Levels::merge(ind, ood)?;
    let mut points: Vec<(f64, f64)> = levels
        .steps()
        .map(|step| {
            let (hits, misses) = (levels.n_ind - step.ind_below, levels.n_ood - step.ood_below);
            (share(misses, levels.n_ood), share(hits, levels.n_ind))
        })
        .collect();
    points.push((0.0, 0.0));
    points.reverse();
    Ok(points)
}

/// The precision-recall curve with `InD` as the positive class: (recall, precision) of every
/// threshold that decides differently, by rising recall.
///
/// The area under its steps is [`aupr_in`]; with the sets in each other's place and scores negated
/// it is [`aupr_out`].
///
/// # Errors
/// A set is empty or has a `NaN`.
pub fn pr_curve(ind: &[f64], ood: &[f64]) -> Result<Vec<(f64, f64)>, MetricError> {
    let levels = Levels::merge(ind, ood)?;
    let mut points: Vec<(f64, f64)> = levels
        .steps()
        .map(|step| {
            let (hits, misses) = (levels.n_ind - step.ind_below, levels.n_ood - step.ood_below);
            (share(hits, levels.n_ind), precision(hits, misses))
        })
        .collect();
    points.reverse();
    Ok(points)
}

impl Levels {
    pub(super) fn auroc(&self) -> f64 {
        // Twice the count of ordered pairs is an integer: summed exactly, rounded once at the end.
        let twice_won: u128 = self
            .steps()
            .map(|step| step.ind as u128 * (step.ood_below + step.ood_through()) as u128)
            .sum();
        let twice_all = 2 * self.n_ind as u128 * self.n_ood as u128;
        ratio(twice_won, twice_all)
    }

    pub(super) fn aupr_in(&self) -> f64 {
        self.steps()
            .map(|step| {
                let (hits, misses) = (self.n_ind - step.ind_below, self.n_ood - step.ood_below);
                share(step.ind, self.n_ind) * precision(hits, misses)
            })
            .sum::<f64>()
            // Shares that add up to 1 may round to more.
            .min(1.0)
    }

    pub(super) fn aupr_out(&self) -> f64 {
        self.steps()
            .map(|step| {
                share(step.ood, self.n_ood) * precision(step.ood_through(), step.ind_through())
            })
            .sum::<f64>()
            .min(1.0)
    }

    pub(super) fn detection_error(&self) -> f64 {
        // A threshold between two scores decides like the upper one, and refusing every row costs
        // what accepting every row costs (1/2, the first step): the levels are all there is to try.
        self.steps()
            .map(|step| {
                let missed = share(step.ind_below, self.n_ind);
                let let_in = share(self.n_ood - step.ood_below, self.n_ood);
                f64::midpoint(missed, let_in)
            })
            .fold(0.5, f64::min)
    }
}

/// The share of positives among the called rows.
///
/// No row is called only at a level that a bootstrap resample left empty; its weight is 0, so any
/// finite value serves.
fn precision(hits: usize, misses: usize) -> f64 {
    count(hits) / count((hits + misses).max(1))
}

#[allow(clippy::cast_precision_loss, reason = "this is the one rounding of the quotient")]
fn ratio(part: u128, whole: u128) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INF: f64 = f64::INFINITY;

    fn auroc_by_pairs(ind: &[f64], ood: &[f64]) -> f64 {
        let pairs = ind.iter().flat_map(|x| ood.iter().map(move |y| (x, y)));
        let won: f64 = pairs.map(|(x, y)| f64::from(u8::from(x > y) + u8::from(x >= y))).sum();
        won / (2.0 * count(ind.len()) * count(ood.len()))
    }

    /// Average precision straight from its definition, one full count per threshold.
    fn ap_by_thresholds(positive: &[f64], negative: &[f64]) -> f64 {
        let mut thresholds = [positive, negative].concat();
        thresholds.sort_by(|a, b| b.total_cmp(a));
        thresholds.dedup();
        let (mut sum, mut last_recall) = (0.0, 0.0);
        for t in thresholds {
            let hits = positive.iter().filter(|&&x| x >= t).count();
            let misses = negative.iter().filter(|&&y| y >= t).count();
            let recall = share(hits, positive.len());
            sum += (recall - last_recall) * share(hits, hits + misses);
            last_recall = recall;
        }
        sum
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn hand_case_with_a_tie_across_the_sets() {
        // Descending: 3 (InD), 2 (one of each), 1 (OoD).
        let (ind, ood) = ([3.0, 2.0], [2.0, 1.0]);
        assert_eq!(auroc(&ind, &ood), Ok(3.5 / 4.0));
        // InD: recall 1/2 at precision 1, then recall 1 at precision 2/3. OoD: the mirror image.
        assert!(close(aupr_in(&ind, &ood).unwrap(), 0.5 + 0.5 * 2.0 / 3.0));
        assert!(close(aupr_out(&ind, &ood).unwrap(), 0.5 + 0.5 * 2.0 / 3.0));
        // t = 3 misses 1/2 and lets nothing in; t = 2 misses nothing and lets 1/2 in.
        assert_eq!(detection_error(&ind, &ood), Ok(0.25));
    }

    #[test]
    fn equal_scores_are_chance() {
        let (ind, ood) = ([7.0; 6], [7.0; 2]);
        assert_eq!(auroc(&ind, &ood), Ok(0.5));
        assert_eq!(aupr_in(&ind, &ood), Ok(0.75));
        assert_eq!(aupr_out(&ind, &ood), Ok(0.25));
        assert_eq!(detection_error(&ind, &ood), Ok(0.5));
    }

    #[test]
    fn perfect_separation_is_perfect_everywhere() {
        let (ind, ood) = ([5.0, 4.0, 3.5], [3.0, -INF]);
        assert_eq!(auroc(&ind, &ood), Ok(1.0));
        assert!(close(aupr_in(&ind, &ood).unwrap(), 1.0));
        assert!(close(aupr_out(&ind, &ood).unwrap(), 1.0));
        assert_eq!(detection_error(&ind, &ood), Ok(0.0));
    }

    #[test]
    fn reversed_separation_is_the_worst_there_is() {
        let (ind, ood) = ([1.0, 2.0], [3.0, 4.0]);
        assert_eq!(auroc(&ind, &ood), Ok(0.0));
        assert_eq!(detection_error(&ind, &ood), Ok(0.5));
        assert!(close(aupr_in(&ind, &ood).unwrap(), 0.5 / 3.0 + 0.5 * 0.5));
    }

    #[test]
    fn minus_infinity_ties_with_itself_only() {
        // Pairs: (-inf, -inf) a tie, (-inf, 0) lost, (1, both) won.
        assert_eq!(auroc(&[-INF, 1.0], &[-INF, 0.0]), Ok(2.5 / 4.0));
        assert_eq!(auroc(&[INF], &[-INF]), Ok(1.0));
    }

    /// Few distinct values, so that most cases have ties in and across the sets.
    fn scores() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(
            prop_oneof![9 => (-6i8..6).prop_map(f64::from), 1 => Just(-INF)],
            1..40,
        )
    }

    #[test]
    fn curves_have_the_areas_of_the_metrics() {
        let ind = [0.9, 0.8, 0.7, 0.4, 0.4, 0.1];
        let ood = [0.5, 0.4, 0.2, f64::NEG_INFINITY];
        let roc = roc_curve(&ind, &ood).unwrap();
        assert_eq!((roc[0], roc[roc.len() - 1]), ((0.0, 0.0), (1.0, 1.0)));
        let area: f64 = roc
            .windows(2)
            .map(|two| (two[1].0 - two[0].0) * f64::midpoint(two[0].1, two[1].1))
            .sum();
        assert!((area - auroc(&ind, &ood).unwrap()).abs() < 1e-12);
        let pr = pr_curve(&ind, &ood).unwrap();
        let mut before = 0.0;
        let mut area = 0.0;
        for (recall, precision) in pr {
            area += (recall - before) * precision;
            before = recall;
        }
        assert!((area - aupr_in(&ind, &ood).unwrap()).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn auroc_counts_ordered_pairs(ind in scores(), ood in scores()) {
            prop_assert!(close(auroc(&ind, &ood).unwrap(), auroc_by_pairs(&ind, &ood)));
        }

        #[test]
        fn swapping_the_sets_mirrors_auroc(ind in scores(), ood in scores()) {
            prop_assert!(close(auroc(&ind, &ood).unwrap(), 1.0 - auroc(&ood, &ind).unwrap()));
        }

        #[test]
        fn aupr_is_average_precision(ind in scores(), ood in scores()) {
            prop_assert!(close(aupr_in(&ind, &ood).unwrap(), ap_by_thresholds(&ind, &ood)));
            let negate = |v: &[f64]| v.iter().map(|x| -x).collect::<Vec<_>>();
            let expected = ap_by_thresholds(&negate(&ood), &negate(&ind));
            prop_assert!(close(aupr_out(&ind, &ood).unwrap(), expected));
        }

        #[test]
        fn detection_error_is_the_best_of_every_threshold(ind in scores(), ood in scores()) {
            let best = [&ind[..], &ood[..], &[INF]].concat().into_iter().map(|t| {
                let missed = ind.iter().filter(|&&x| x < t).count();
                let let_in = ood.iter().filter(|&&y| y >= t).count();
                f64::midpoint(share(missed, ind.len()), share(let_in, ood.len()))
            });
            prop_assert!(close(detection_error(&ind, &ood).unwrap(), best.fold(1.0, f64::min)));
        }
    }
}
