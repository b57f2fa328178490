//! What a detector says of a batch of rows: score, p-value and decision.

use super::Detector;
use crate::calibrate::benjamini_hochberg;
use crate::io::Dataset;
use crate::io::observer::Observer;
use crate::{Error, Result};

/// What a detector says of a batch of rows, row by row.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Decisions {
    /// Higher is more in-distribution.
    pub scores: Vec<f64>,
    /// How probable a score as low as this is for an in-distribution row.
    pub p_values: Vec<f64>,
    /// Whether the row is taken for OoD.
    pub is_out: Vec<bool>,
}

impl Decisions {
    /// How many rows are taken for OoD.
    #[must_use]
    pub fn out(&self) -> usize {
        self.is_out.iter().filter(|&&out| out).count()
    }
}

impl Detector {
    /// Scores rows and decides on each: by the threshold, which keeps the promise that it was set with,
    /// or, with `fdr`, so that of the rows of the batch that are called OoD at most this share is
    /// in-distribution on average (Benjamini and Hochberg on the p-values).
    ///
    /// # Errors
    /// As [`Detector::score_dataset`]; or if the detector has no threshold, or `fdr` is not a share in
    /// (0, 1).
    pub fn decide(
        &self,
        data: &Dataset<'_>,
        fdr: Option<f64>,
        observer: &dyn Observer,
    ) -> Result<Decisions> {
        self.check_can_decide(fdr)?;
        self.decide_scores(self.score_dataset(data, observer)?, fdr)
    }

    /// The same for a batch whose scores are known.
    ///
    /// # Errors
    /// If the detector has no threshold, or `fdr` is not a share in (0, 1).
    pub fn decide_scores(&self, scores: Vec<f64>, fdr: Option<f64>) -> Result<Decisions> {
        let known = self.check_can_decide(fdr)?;
        let p_values = known.p_values(&scores);
        let is_out = match fdr {
            Some(share) => benjamini_hochberg(&p_values, share)?,
            None => scores.iter().map(|&score| !known.threshold().accepts(score)).collect(),
        };
        Ok(Decisions { scores, p_values, is_out })
    }

    fn check_can_decide(&self, fdr: Option<f64>) -> Result<&crate::Calibration> {
        if let Some(share) = fdr
            && !(share > 0.0 && share < 1.0)
        {
            let reason = format!("expected a share in (0, 1), got {share}");
            return Err(Error::BadOption { flag: "fdr".to_owned(), reason });
        }
        self.calibration().ok_or_else(|| Error::MissingInput {
            who: "a decision".to_owned(),
            what: "a threshold",
            hint: "the detector has none; calibrate it with in-distribution rows".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use crate::io::Dataset;
    use crate::{Detector, FitOptions, KnnParams, Silent};

    fn rows(count: usize, shift: f32) -> Array2<f32> {
        Array2::from_shape_fn((count, 4), |(i, j)| {
            ((i * 37 + j * 11) % 101) as f32 / 101.0 + if j == 0 { shift } else { 1.0 }
        })
    }

    fn detector(hold_out: f64) -> Detector {
        let train = rows(400, 1.0);
        let data = Dataset::new("train", train.view());
        let options = FitOptions { hold_out: Some(hold_out), ..FitOptions::default() };
        let knn = KnnParams { neighbours: 3, ..KnnParams::default() };
        Detector::fit(&knn.into(), &data, None, &options).unwrap()
    }

    #[test]
    fn rows_off_the_span_are_out_by_the_threshold_and_as_a_batch() {
        let detector = detector(0.3);
        let (near, far) = (rows(50, 1.0), rows(50, -30.0));
        for fdr in [None, Some(0.1)] {
            let decide = |rows: &Array2<f32>| {
                detector.decide(&Dataset::new("new", rows.view()), fdr, &Silent).unwrap()
            };
            assert_eq!(decide(&far).out(), 50, "{fdr:?}");
            let near = decide(&near);
            assert!(near.out() < 10, "{fdr:?}");
            assert_eq!(near, detector.decide_scores(near.scores.clone(), fdr).unwrap());
        }
    }

    #[test]
    fn a_decision_needs_a_threshold_and_a_share() {
        let message = detector(0.0).decide_scores(vec![0.0], None).unwrap_err().to_string();
        assert!(message.starts_with("a decision needs a threshold"), "{message}");
        let message = detector(0.3).decide_scores(vec![0.0], Some(1.0)).unwrap_err().to_string();
        assert_eq!(message, "fdr: expected a share in (0, 1), got 1");
    }
}
