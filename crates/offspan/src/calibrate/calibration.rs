//! Scores of in-distribution rows that the fit has not seen, and all that follows from them.

use super::conformal::p_value;
use super::fit_check::FitCheck;
use super::threshold::{CalibrationSource, Promise, Threshold};
use crate::{Error, Result};

/// Scores to compare others with, and the threshold that they set.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    threshold: Threshold,
    /// Ascending.
    scores: Vec<f64>,
}

impl Calibration {
    /// From scores in any order.
    ///
    /// # Errors
    /// If they are too few for the promise, one is no number, or a share is not in (0, 1).
    pub fn new(mut scores: Vec<f64>, promise: Promise, source: CalibrationSource) -> Result<Self> {
        if let Some(row) = scores.iter().position(|score| score.is_nan()) {
            return Err(Error::shape("calibration scores", "numbers", format!("NaN in row {row}")));
        }
        scores.sort_by(f64::total_cmp);
        Ok(Calibration { threshold: Threshold::of(&scores, promise, source)?, scores })
    }

    /// Another threshold from the same scores.
    ///
    /// # Errors
    /// If they are too few for the promise, or a share is not in (0, 1).
    pub fn with_promise(&self, promise: Promise) -> Result<Self> {
        let threshold = Threshold::of(&self.scores, promise, self.threshold.source)?;
        Ok(Calibration { threshold, scores: self.scores.clone() })
    }

    /// What a file says; fails unless threshold and scores belong together.
    pub(crate) fn from_parts(threshold: Threshold, scores: Vec<f64>) -> Result<Self> {
        let read = Calibration::new(scores, threshold.promise, threshold.source)?;
        if (read.threshold.value, read.threshold.rank) != (threshold.value, threshold.rank) {
            return Err(Error::shape(
                "the calibration of the detector",
                format!("the threshold {} at rank {}", read.threshold.value, read.threshold.rank),
                format!("{} at rank {}", threshold.value, threshold.rank),
            ));
        }
        Ok(read)
    }

    /// The threshold.
    #[must_use]
    pub fn threshold(&self) -> &Threshold {
        &self.threshold
    }

    /// The scores, ascending.
    #[must_use]
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// The conformal p-value of a score: small for OoD rows, and for an in-distribution row below any
    /// u with a chance of at most u.
    #[must_use]
    pub fn p_value(&self, score: f64) -> f64 {
        p_value(&self.scores, score)
    }

    /// The conformal p-value of each score.
    #[must_use]
    pub fn p_values(&self, scores: &[f64]) -> Vec<f64> {
        scores.iter().map(|&score| self.p_value(score)).collect()
    }

    /// Tests whether later in-distribution rows still have scores like these.
    ///
    /// # Errors
    /// If there are none, or one is no number.
    pub fn check(&self, later: &[f64]) -> Result<FitCheck> {
        FitCheck::new(&self.scores, self.threshold.rank, later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(scores: Vec<f64>) -> Result<Calibration> {
        Calibration::new(scores, Promise::default(), CalibrationSource::Given)
    }

    #[test]
    fn the_threshold_is_a_score_of_its_rank() {
        let backwards = (0..1000).rev().map(f64::from).collect();
        let calibration = calibration(backwards).unwrap();
        let threshold = calibration.threshold();
        assert_eq!((threshold.rank, threshold.value, threshold.rows), (39, 38.0, 1000));
        assert!(threshold.accepts(38.0) && !threshold.accepts(37.9));
        let [low, high] = threshold.share_interval;
        assert!(0.94 < low && low < threshold.expected_share && threshold.expected_share < high);
        assert_eq!(calibration.p_value(0.5), 2.0 / 1001.0);
    }

    #[test]
    fn too_few_rows_are_refused_with_how_many_it_takes() {
        let error = calibration(vec![1.0; 58]).unwrap_err().to_string();
        assert_eq!(
            error,
            "a threshold that keeps 0.95 of the rows with a confidence of 0.95: expected at least 59 \
             rows, got 58"
        );
        assert!(calibration(vec![1.0; 59]).is_ok());
        let certain = Promise { keep: 0.95, confidence: 1.0 };
        assert!(Calibration::new(vec![1.0; 99], certain, CalibrationSource::Given).is_err());
        assert!(calibration(vec![f64::NAN; 99]).is_err());
    }

    #[test]
    fn another_promise_comes_from_the_same_scores() {
        let scores: Vec<f64> = (0..1000).map(f64::from).collect();
        let strict = calibration(scores.clone()).unwrap();
        let looser = Promise { keep: 0.8, confidence: 0.5 };
        let loose = strict.with_promise(looser).unwrap();
        assert_eq!(loose, Calibration::new(scores, looser, CalibrationSource::Given).unwrap());
        assert!(loose.threshold().value > strict.threshold().value);
        assert!(strict.with_promise(Promise { keep: 0.999, confidence: 0.95 }).is_err());
    }

    #[test]
    fn an_infinite_threshold_survives_json() {
        let lowest = calibration(vec![f64::NEG_INFINITY; 100]).unwrap();
        let text = serde_json::to_string(lowest.threshold()).unwrap();
        assert_eq!(serde_json::from_str::<Threshold>(&text).unwrap(), *lowest.threshold());
    }

    #[test]
    fn parts_that_do_not_belong_together_are_refused() {
        let scores: Vec<f64> = (0..100).map(f64::from).collect();
        let threshold = calibration(scores.clone()).unwrap().threshold().clone();
        assert!(Calibration::from_parts(threshold.clone(), scores.clone()).is_ok());
        let moved = Threshold { value: 50.0, ..threshold.clone() };
        assert!(Calibration::from_parts(moved, scores.clone()).is_err());
        assert!(Calibration::from_parts(threshold, scores[10..].to_vec()).is_err());
    }
}
