//! What can be wrong with scores and options, and the checks that find it.

use super::bootstrap::MAX_RESAMPLES;
use crate::Error;

/// The name of the positive class in messages.
pub(super) const IND: &str = "in-distribution";
/// The name of the negative class in messages.
pub(super) const OOD: &str = "out-of-distribution";

/// Why a metric could not be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// One of the two sets has no rows.
    #[error("there are no {which} scores: expected at least 1 row, got 0")]
    Empty {
        /// `"in-distribution"` or `"out-of-distribution"`.
        which: &'static str,
    },
    /// A score is `NaN`.
    #[error(
        "row {row} of the {which} scores is NaN: expected a number (rows count from 0; \
         use -inf for a row that cannot be scored)"
    )]
    NotANumber {
        /// `"in-distribution"` or `"out-of-distribution"`.
        which: &'static str,
        /// Position of the first such score, counted from 0.
        row: usize,
    },
    /// The wanted true positive rate is not in `(0, 1]`.
    #[error("the true positive rate must be above 0 and at most 1 (0.95 for FPR95), got {got}")]
    BadTpr {
        /// What was asked for.
        got: f64,
    },
    /// The confidence level is not in `(0, 1)`.
    #[error("the confidence level must lie strictly between 0 and 1 (0.95 is usual), got {got}")]
    BadLevel {
        /// What was asked for.
        got: f64,
    },
    /// A bootstrap with no resamples, or with more than anybody would wait for.
    #[error("a bootstrap takes 1 to {MAX_RESAMPLES} resamples (2000 is usual), got {got}")]
    BadResamples {
        /// What was asked for.
        got: u32,
    },
    /// A set is too small to have a sample variance.
    #[error(
        "DeLong's variance needs at least 2 {which} rows, got {got}: \
         add rows, or ask for no interval"
    )]
    TooFew {
        /// `"in-distribution"` or `"out-of-distribution"`.
        which: &'static str,
        /// How many rows there are.
        got: usize,
    },
    /// Two methods that should be compared did not score the same rows.
    #[error(
        "a paired comparison needs the same rows from both methods: expected as many {which} \
         scores from the second method as from the first, {first}, got {second}"
    )]
    LengthMismatch {
        /// `"in-distribution"` or `"out-of-distribution"`.
        which: &'static str,
        /// Rows scored by the first method.
        first: usize,
        /// Rows scored by the second method.
        second: usize,
    },
    /// There is not one answer, right or wrong, for each `InD` row.
    #[error(
        "expected one answer, right or wrong, for each of {rows} in-distribution rows, got {answers}"
    )]
    AnswersMismatch {
        /// `InD` rows.
        rows: usize,
        /// Answers.
        answers: usize,
    },
    /// A name that is not an [`FprRule`](super::FprRule).
    #[error("unknown FPR rule: expected `at-least`, `authors` or `ood-positive`, got `{got}`")]
    UnknownRule {
        /// The name as given.
        got: String,
    },
    /// A name that is not an [`IntervalMethod`](super::IntervalMethod).
    #[error(
        "unknown interval method: expected `delong`, `bootstrap` or `bootstrap:N` \
         (N resamples), got `{got}`"
    )]
    UnknownInterval {
        /// The name as given.
        got: String,
    },
}

/// Refuses a set that has no rows or that cannot be put in order.
pub(super) fn check_scores(which: &'static str, scores: &[f64]) -> Result<(), MetricError> {
    if scores.is_empty() {
        return Err(MetricError::Empty { which });
    }
    match scores.iter().position(|score| score.is_nan()) {
        Some(row) => Err(MetricError::NotANumber { which, row }),
        None => Ok(()),
    }
}

/// Refuses a rate that no threshold can be asked to keep.
///
/// 0 is refused because "keep at least none" has no threshold among the scores.
pub(super) fn check_tpr(got: f64) -> Result<(), MetricError> {
    if got > 0.0 && got <= 1.0 { Ok(()) } else { Err(MetricError::BadTpr { got }) }
}

/// Refuses a level whose interval would be empty or everything.
pub(super) fn check_level(got: f64) -> Result<(), MetricError> {
    if got > 0.0 && got < 1.0 { Ok(()) } else { Err(MetricError::BadLevel { got }) }
}

impl From<MetricError> for Error {
    fn from(error: MetricError) -> Self {
        Error::Metric(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_sets_are_named() {
        assert_eq!(check_scores(IND, &[]), Err(MetricError::Empty { which: IND }));
        assert_eq!(
            MetricError::Empty { which: OOD }.to_string(),
            "there are no out-of-distribution scores: expected at least 1 row, got 0"
        );
    }

    #[test]
    fn the_first_nan_is_named_by_set_and_row() {
        let error = check_scores(OOD, &[1.0, f64::NEG_INFINITY, f64::NAN, f64::NAN]).unwrap_err();
        assert_eq!(error, MetricError::NotANumber { which: OOD, row: 2 });
        assert!(error.to_string().starts_with("row 2 of the out-of-distribution scores is NaN"));
    }

    #[test]
    fn infinite_scores_are_legal() {
        assert_eq!(check_scores(IND, &[f64::NEG_INFINITY, f64::INFINITY]), Ok(()));
    }

    #[test]
    fn a_tpr_outside_its_range_is_refused_with_its_value() {
        for bad in [0.0, -0.5, 1.0 + f64::EPSILON, 95.0, f64::INFINITY] {
            assert_eq!(check_tpr(bad), Err(MetricError::BadTpr { got: bad }));
        }
        assert!(matches!(check_tpr(f64::NAN), Err(MetricError::BadTpr { got }) if got.is_nan()));
        assert_eq!((check_tpr(1.0), check_tpr(0.95)), (Ok(()), Ok(())));
        assert!(check_tpr(95.0).unwrap_err().to_string().ends_with("got 95"));
    }

    #[test]
    fn a_level_outside_its_range_is_refused_with_its_value() {
        for bad in [0.0, 1.0, 95.0] {
            assert_eq!(check_level(bad), Err(MetricError::BadLevel { got: bad }));
        }
        assert!(check_level(f64::NAN).is_err());
        assert_eq!(check_level(0.95), Ok(()));
    }
}
