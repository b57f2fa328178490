//! The threshold: a score of an in-distribution row that the fit did not see, and what it promises.

use serde::{Deserialize, Serialize};

use super::order::{check_share, expected_kept_share, kept_share, largest_rank, rows_needed};
use crate::numeric::infinite_as_text;
use crate::{Error, Result};

/// Chance of the interval in which the share of kept rows is told to lie.
const LEVEL: f64 = 0.95;

/// What a threshold promises: to keep at least the share `keep` of in-distribution rows. Which rows it
/// was set with is chance, so the promise is broken in at most 1 − `confidence` of all cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// Share of in-distribution rows to keep.
    pub keep: f64,
    /// Probability that at least `keep` is really kept.
    pub confidence: f64,
}

impl Default for Promise {
    fn default() -> Self {
        Promise { keep: 0.95, confidence: 0.95 }
    }
}

impl Promise {
    /// Fails unless both are shares.
    pub(crate) fn check(&self) -> Result<()> {
        check_share("keep", self.keep)?;
        check_share("confidence", self.confidence)
    }

    /// The fewest rows that a threshold with this promise can be set with.
    ///
    /// # Errors
    /// If a share is not in (0, 1).
    pub fn rows_needed(&self) -> Result<usize> {
        rows_needed(self.keep, self.confidence)
    }
}

/// A score at or above `value` counts as in-distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// The threshold.
    #[serde(with = "infinite_as_text")]
    pub value: f64,
    /// What it promises.
    #[serde(flatten)]
    pub promise: Promise,
    /// The share of in-distribution rows that it keeps, on average over all choices of rows to set
    /// it with.
    pub expected_share: f64,
    /// Where that share lies with a chance of 95 %.
    pub share_interval: [f64; 2],
    /// Rows it was set with.
    pub rows: usize,
    /// Which of their scores it is, from the lowest, 1, upwards.
    pub rank: usize,
    /// Where they came from.
    pub source: CalibrationSource,
}

/// Where the rows of a threshold came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CalibrationSource {
    /// Training rows that were held out of the fit.
    HeldOut,
    /// A set given for the purpose.
    Given,
}

impl Threshold {
    /// The largest of these scores (ascending) that keeps the promise.
    pub(super) fn of(sorted: &[f64], promise: Promise, source: CalibrationSource) -> Result<Self> {
        let rows = sorted.len();
        let Some(rank) = largest_rank(rows, promise.keep, promise.confidence)? else {
            return Err(Error::TooFewRows {
                what: format!(
                    "a threshold that keeps {} of the rows with a confidence of {}",
                    promise.keep, promise.confidence
                ),
                expected: promise.rows_needed()?,
                got: rows,
            });
        };
        Ok(Threshold {
            value: sorted[rank - 1],
            promise,
            expected_share: expected_kept_share(rows, rank)?,
            share_interval: kept_share(rows, rank, LEVEL)?,
            rows,
            rank,
            source,
        })
    }

    /// Whether a score counts as in-distribution.
    #[must_use]
    pub fn accepts(&self, score: f64) -> bool {
        score >= self.value
    }
}
