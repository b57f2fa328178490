//! How well scores tell in-distribution (`InD`) rows from out-of-distribution (`OoD`) rows.
//!
//! Every function takes two slices of scores, the `InD` rows' and the `OoD` rows'. **Higher means
//! more in-distribution**, and `InD` is the positive class. A score may be `-inf` (the worst there
//! is: a row that could not be scored) or `+inf`; `NaN` has no place in an order and is an error.
//! Only the order of the scores matters: any strictly increasing transform of all scores leaves
//! every number here as it is.
//!
//! With `n` `InD` scores `x`, `m` `OoD` scores `y` and a threshold `t` (accept `score >= t`):
//!
//! | quantity | definition | best |
//! |---|---|---|
//! | TPR(t), FPR(t) | `#{x >= t} / n`, `#{y >= t} / m` | |
//! | [`fpr_at_tpr`] | FPR at the threshold that keeps the wanted TPR, by a named [`FprRule`] | 0 |
//! | [`auroc`] | `P(x > y) + P(x = y) / 2` | 1 |
//! | [`aupr_in`] | average precision with `InD` as the positive class | 1 |
//! | [`aupr_out`] | average precision with `OoD` as the positive class, scores negated | 1 |
//! | [`detection_error`] | `min_t ((1 - TPR(t)) + FPR(t)) / 2` | 0 |
//!
//! [`evaluate`] computes all of them from one sort, with confidence intervals if asked;
//! [`average`] takes the mean over several `OoD` sets; [`delong_compare`] tells whether two methods
//! differ by more than chance on the same rows, [`compare_auroc`] and [`compare_fpr`] do so for means over
//! sets and fits; [`selective`] has what needs to know which predictions are right.
//!
//! ```
//! use offspan::metrics::{EvalOptions, IntervalMethod, evaluate};
//!
//! let ind = [0.9, 0.8, 0.7, 0.4];
//! let ood = [0.5, 0.3, 0.2];
//! let options = EvalOptions { interval: Some(IntervalMethod::DeLong), ..EvalOptions::default() };
//! let result = evaluate(&ind, &ood, &options)?;
//!
//! assert_eq!(result.auroc, 11.0 / 12.0); // one of twelve pairs is in the wrong order
//! assert_eq!(result.fpr, 1.0 / 3.0); // keeping every InD row lets 0.5 through
//! assert!(result.intervals.is_some_and(|i| i.auroc[0] < result.auroc));
//! # Ok::<(), offspan::metrics::MetricError>(())
//! ```

#![cfg_attr(
    test,
    allow(
        clippy::float_cmp,
        clippy::unwrap_used,
        reason = "tests compare exactly where the value is exact, and a panic is how they fail"
    )
)]

mod bootstrap;
mod compare;
mod curve;
mod delong;
mod error;
mod evaluation;
mod fpr;
mod interval;
mod interval_method;
mod levels;
mod paired;
mod rule;
mod selective;

pub use compare::{Comparison, delong_compare};
pub use curve::{aupr_in, aupr_out, auroc, detection_error, pr_curve, roc_curve};
pub use error::MetricError;
pub use evaluation::{Average, EvalOptions, Evaluation, FprByRule, average, evaluate};
pub use fpr::{fpr_at_tpr, threshold_at_tpr};
pub use interval::Intervals;
pub use interval_method::IntervalMethod;
pub use paired::{Difference, FitScores, PairedOptions, compare_auroc, compare_fpr};
pub use rule::FprRule;
pub use selective::{RiskAreas, Selective, risk_areas, selective};
