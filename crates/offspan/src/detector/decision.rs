//! What a detector says of a batch of rows: score, p-value and decision.

use super::Detector;
use crate::calibrate::{Calibration, benjamini_hochberg};
use crate::error::wording::Named;
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
    /// Scores a batch, the rows of all these datasets in order, and decides on each row: by the
    /// threshold, which keeps the promise that it was set with,
    /// or, with `fdr`, so that of the rows of the batch that are called OoD at most this share is
    /// in-distribution on average (Benjamini and Hochberg on the p-values).
    ///
    /// # Errors
    /// As [`Detector::score_dataset`]; or if the detector has no threshold, or `fdr` is not a share in
    /// (0, 1).
    pub fn decide(
        &self,
        batch: &[Dataset<'_>],
        fdr: Option<f64>,
        observer: &dyn Observer,
    ) -> Result<Decisions> {
        // Before all rows are scored for nothing.
        if let Some(share) = fdr
            && !(share > 0.0 && share < 1.0)
        {
            let reason = format!("expected a share in (0, 1), got {share}");
            return Err(Error::BadOption { flag: "fdr".to_owned(), reason });
        }
        let known = self.calibration_for("a decision")?;
        let mut scores = Vec::new();
        for data in batch {
            scores.extend(self.score_dataset(data, observer)?);
        }
        let p_values = known.p_values(&scores);
        let is_out = match fdr {
            Some(share) => benjamini_hochberg(&p_values, share)?,
            None => scores.iter().map(|&score| !known.threshold().accepts(score)).collect(),
        };
        Ok(Decisions { scores, p_values, is_out })
    }

    /// The calibration that `who`, such as a decision, cannot do without.
    ///
    /// # Errors
    /// If the detector has none.
    pub fn calibration_for(&self, who: &str) -> Result<&Calibration> {
        self.calibration().ok_or_else(|| Error::MissingInput {
            who: who.to_owned(),
            what: "a threshold",
            hint: if self.lost_its_threshold() {
                "the detector is from a file of version 1, whose threshold came without calibration scores; \
                 calibrate it with in-distribution rows"
                    .to_owned()
            } else {
                format!(
                    "the detector has none; calibrate it with in-distribution rows, or fit with a larger {}",
                    Named("hold-out")
                )
            },
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
                detector.decide(&[Dataset::new("new", rows.view())], fdr, &Silent).unwrap()
            };
            assert_eq!(decide(&far).out(), 50, "{fdr:?}");
            assert!(decide(&near).out() < 10, "{fdr:?}");
        }
    }

    #[test]
    fn datasets_of_one_batch_share_its_false_discoveries() {
        let detector = detector(0.3);
        let (near, far) = (rows(50, 1.0), rows(50, -30.0));
        let set = |rows| Dataset::new("new", rows);
        let together =
            detector.decide(&[set(near.view()), set(far.view())], Some(0.5), &Silent).unwrap();
        let alone = detector.decide(&[set(near.view())], Some(0.5), &Silent).unwrap();
        assert_eq!(together.scores[..50], alone.scores);
        // Beside many rows that are out, more of the others may be called out, too.
        assert!(together.is_out[50..].iter().all(|&out| out));
        assert!(together.out() - 50 >= alone.out());
    }

    #[test]
    fn a_decision_needs_a_threshold_and_a_share() {
        let message = detector(0.0).decide(&[], None, &Silent).unwrap_err().to_string();
        assert!(message.starts_with("a decision needs a threshold"), "{message}");
        let message = detector(0.3).decide(&[], Some(1.0), &Silent).unwrap_err().to_string();
        assert_eq!(message, "fdr: expected a share in (0, 1), got 1");
    }
}
