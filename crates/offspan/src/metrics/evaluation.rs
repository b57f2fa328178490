//! All metrics of one pair of sets at once, and their mean over several `OoD` sets.

use serde::{Deserialize, Serialize};

use super::error::{MetricError, check_level, check_tpr};
use super::interval::Intervals;
use super::interval_method::IntervalMethod;
use super::levels::{Levels, count};
use super::rule::FprRule;
use super::selective::Selective;

/// What [`evaluate`] computes and how.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EvalOptions {
    /// The true positive rate at which the FPR is taken, in `(0, 1]`.
    pub tpr: f64,
    /// Which threshold that is.
    pub rule: FprRule,
    /// How to make confidence intervals, if at all.
    pub interval: Option<IntervalMethod>,
    /// Their level, in `(0, 1)`; not looked at without `interval`.
    pub level: f64,
    /// Where the bootstrap's random draws start.
    pub seed: u64,
}

impl Default for EvalOptions {
    /// FPR95 by [`FprRule::AtLeast`], no intervals (95 % where asked for), seed 0.
    fn default() -> Self {
        Self { tpr: 0.95, rule: FprRule::default(), interval: None, level: 0.95, seed: 0 }
    }
}

/// How well one method tells one `OoD` set from the `InD` set. All numbers are fractions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// See [`fpr_at_tpr`](super::fpr_at_tpr).
    pub fpr: f64,
    /// See [`auroc`](super::auroc()).
    pub auroc: f64,
    /// See [`aupr_in`](super::aupr_in()).
    pub aupr_in: f64,
    /// See [`aupr_out`](super::aupr_out()).
    pub aupr_out: f64,
    /// See [`detection_error`](super::detection_error()).
    pub detection_error: f64,
    /// The same rate by every rule.
    #[serde(default)]
    pub fpr_by_rule: FprByRule,
    /// What needs to know which predictions are right; [`selective`](super::selective()) computes it.
    #[serde(flatten)]
    pub selective: Option<Selective>,
    /// Confidence intervals, if [`EvalOptions::interval`] asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
}

/// The false positive rate by every rule, under the rules' names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FprByRule {
    /// By [`FprRule::AtLeast`].
    pub at_least: f64,
    /// By [`FprRule::Authors`].
    pub authors: f64,
    /// By [`FprRule::OodPositive`].
    pub ood_positive: f64,
}

impl FprByRule {
    /// The rate by this rule.
    #[must_use]
    pub fn by(&self, rule: FprRule) -> f64 {
        match rule {
            FprRule::AtLeast => self.at_least,
            FprRule::Authors => self.authors,
            FprRule::OodPositive => self.ood_positive,
        }
    }

    fn made(rate: impl Fn(FprRule) -> f64) -> Self {
        FprByRule {
            at_least: rate(FprRule::AtLeast),
            authors: rate(FprRule::Authors),
            ood_positive: rate(FprRule::OodPositive),
        }
    }
}

impl EvalOptions {
    /// Checks the options before there are scores.
    ///
    /// # Errors
    /// `tpr` or `level` is out of its range.
    pub fn check(&self) -> Result<(), MetricError> {
        check_tpr(self.tpr)?;
        check_level(self.level)
    }
}

/// Every metric of this module from one merged sort of the scores.
///
/// # Errors
/// A set is empty or has a `NaN`; `tpr`, `level` or the number of resamples is out of its range; or
/// `DeLong` intervals are asked for and a set has fewer than 2 rows.
pub fn evaluate(
    ind: &[f64],
    ood: &[f64],
    options: &EvalOptions,
) -> Result<Evaluation, MetricError> {
    let EvalOptions { tpr, rule, interval, level, seed } = *options;
    check_tpr(tpr)?;
    let levels = Levels::merge(ind, ood)?;
    let intervals =
        interval.map(|method| levels.intervals((tpr, rule), method, level, seed)).transpose()?;
    Ok(Evaluation {
        fpr: levels.fpr(tpr, rule),
        auroc: levels.auroc(),
        aupr_in: levels.aupr_in(),
        aupr_out: levels.aupr_out(),
        detection_error: levels.detection_error(),
        fpr_by_rule: FprByRule::made(|rule| levels.fpr(tpr, rule)),
        selective: None,
        intervals,
    })
}

/// The mean of each metric over several `OoD` sets, each set counting once whatever its size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Average {
    /// Mean FPR.
    pub fpr: f64,
    /// Mean AUROC.
    pub auroc: f64,
    /// Mean AUPR-in.
    pub aupr_in: f64,
    /// Mean AUPR-out.
    pub aupr_out: f64,
    /// Mean detection error.
    pub detection_error: f64,
    /// Mean FPR by every rule.
    #[serde(default)]
    pub fpr_by_rule: FprByRule,
    /// Means of what needs to know which predictions are right, where every set has it.
    #[serde(flatten)]
    pub selective: Option<Selective>,
}

impl Average {
    /// The same made of each figure of several averages: their mean, say, or their spread.
    ///
    /// What needs to know which predictions are right is there if all have it.
    #[must_use]
    pub fn combined(several: &[Average], combine: impl Fn(&[f64]) -> f64) -> Self {
        let of =
            |get: &dyn Fn(&Average) -> f64| combine(&several.iter().map(get).collect::<Vec<f64>>());
        let known: Option<Vec<Selective>> = several.iter().map(|one| one.selective).collect();
        let selective = known.filter(|known| !known.is_empty()).map(|known| {
            let of =
                |get: fn(&Selective) -> f64| combine(&known.iter().map(get).collect::<Vec<f64>>());
            Selective { aurc: of(|s| s.aurc), augrc: of(|s| s.augrc), oscr: of(|s| s.oscr) }
        });
        Average {
            fpr: of(&|one| one.fpr),
            auroc: of(&|one| one.auroc),
            aupr_in: of(&|one| one.aupr_in),
            aupr_out: of(&|one| one.aupr_out),
            detection_error: of(&|one| one.detection_error),
            fpr_by_rule: FprByRule::made(|rule| of(&|one| one.fpr_by_rule.by(rule))),
            selective,
        }
    }
}

impl From<Evaluation> for Average {
    /// The figures of one set, without intervals.
    fn from(one: Evaluation) -> Self {
        Average {
            fpr: one.fpr,
            auroc: one.auroc,
            aupr_in: one.aupr_in,
            aupr_out: one.aupr_out,
            detection_error: one.detection_error,
            fpr_by_rule: one.fpr_by_rule,
            selective: one.selective,
        }
    }
}

impl From<Average> for Evaluation {
    /// The same figures, without intervals.
    fn from(mean: Average) -> Self {
        Evaluation {
            fpr: mean.fpr,
            auroc: mean.auroc,
            aupr_in: mean.aupr_in,
            aupr_out: mean.aupr_out,
            detection_error: mean.detection_error,
            fpr_by_rule: mean.fpr_by_rule,
            selective: mean.selective,
            intervals: None,
        }
    }
}

/// The mean over `OoD` sets, or `None` when there are none.
///
/// It has no intervals: the sets share their `InD` rows, so their errors are not independent.
#[must_use]
pub fn average(evals: &[Evaluation]) -> Option<Average> {
    if evals.is_empty() {
        return None;
    }
    let several: Vec<Average> = evals.iter().copied().map(Average::from).collect();
    Some(Average::combined(&several, |values| values.iter().sum::<f64>() / count(values.len())))
}

#[cfg(test)]
mod tests {
    use super::super::{aupr_in, aupr_out, auroc, detection_error, fpr_at_tpr};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn defaults_are_fpr95_by_our_rule_without_intervals() {
        let options = EvalOptions::default();
        assert_eq!((options.tpr, options.rule, options.level), (0.95, FprRule::AtLeast, 0.95));
        assert_eq!((options.interval, options.seed), (None, 0));
    }

    #[test]
    fn bad_options_are_errors_before_any_work() {
        let run = |options: EvalOptions| evaluate(&[1.0, 2.0], &[0.0, 3.0], &options).unwrap_err();
        let base = EvalOptions::default();
        let boot = |resamples| Some(IntervalMethod::Bootstrap { resamples });
        assert_eq!(run(EvalOptions { tpr: 95.0, ..base }), MetricError::BadTpr { got: 95.0 });
        let bad_level = EvalOptions { level: 1.0, interval: boot(10), ..base };
        assert_eq!(run(bad_level), MetricError::BadLevel { got: 1.0 });
        for got in [0, u32::MAX] {
            let bad = EvalOptions { interval: boot(got), ..base };
            assert_eq!(run(bad), MetricError::BadResamples { got });
        }
    }

    #[test]
    fn a_level_is_not_looked_at_without_intervals() {
        let options = EvalOptions { level: 7.0, ..EvalOptions::default() };
        assert!(evaluate(&[1.0], &[0.0], &options).is_ok());
    }

    #[test]
    fn delong_intervals_need_two_rows_of_each_set() {
        let options =
            EvalOptions { interval: Some(IntervalMethod::DeLong), ..EvalOptions::default() };
        let error = evaluate(&[1.0, 2.0], &[0.0], &options).unwrap_err();
        assert_eq!(error, MetricError::TooFew { which: "out-of-distribution", got: 1 });
    }

    #[test]
    fn the_average_counts_each_set_once() {
        let options = EvalOptions::default();
        let perfect = evaluate(&[2.0, 3.0], &[1.0; 9], &options).unwrap();
        let chance = evaluate(&[2.0, 3.0], &[2.0, 3.0], &options).unwrap();
        let mean = average(&[perfect, chance]).unwrap();
        assert_eq!((mean.fpr, mean.auroc, mean.detection_error), (0.5, 0.75, 0.25));
        assert_eq!(mean.aupr_in, f64::midpoint(perfect.aupr_in, chance.aupr_in));
        assert_eq!(mean.aupr_out, f64::midpoint(perfect.aupr_out, chance.aupr_out));
        assert_eq!(average(&[]), None);
    }

    fn scores() -> impl Strategy<Value = Vec<f64>> {
        let score = prop_oneof![9 => (-6i8..6).prop_map(f64::from), 1 => Just(f64::NEG_INFINITY)];
        prop::collection::vec(score, 2..30)
    }

    fn options() -> impl Strategy<Value = EvalOptions> {
        let rule = prop::sample::select(&FprRule::ALL[..]);
        let interval = prop::sample::select(vec![
            None,
            Some(IntervalMethod::DeLong),
            Some(IntervalMethod::Bootstrap { resamples: 20 }),
        ]);
        (0.01..=1.0, rule, interval, any::<u64>()).prop_map(|(tpr, rule, interval, seed)| {
            EvalOptions { tpr, rule, interval, seed, ..EvalOptions::default() }
        })
    }

    proptest! {
        #[test]
        fn an_increasing_transform_and_a_new_row_order_change_nothing(
            ind in scores(), ood in scores(), options in options(),
        ) {
            let change = |v: &[f64]| v.iter().rev().map(|x| x.exp() - 3.0).collect::<Vec<_>>();
            let before = evaluate(&ind, &ood, &options);
            prop_assert_eq!(before, evaluate(&change(&ind), &change(&ood), &options));
        }

        #[test]
        fn it_agrees_with_each_function_alone(
            ind in scores(), ood in scores(), options in options(),
        ) {
            let all = evaluate(&ind, &ood, &options).unwrap();
            prop_assert_eq!(Ok(all.fpr), fpr_at_tpr(&ind, &ood, options.tpr, options.rule));
            prop_assert_eq!(Ok(all.auroc), auroc(&ind, &ood));
            prop_assert_eq!(Ok(all.aupr_in), aupr_in(&ind, &ood));
            prop_assert_eq!(Ok(all.aupr_out), aupr_out(&ind, &ood));
            prop_assert_eq!(Ok(all.detection_error), detection_error(&ind, &ood));
            let ordered = |[low, high]: [f64; 2]| 0.0 <= low && low <= high && high <= 1.0;
            prop_assert!(all.intervals.is_none_or(|i| ordered(i.auroc) && ordered(i.fpr)));
        }
    }
}
