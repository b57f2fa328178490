//! The threshold: from scores of in-distribution rows that the fit did not see.

use serde::{Deserialize, Serialize};

use crate::metrics::threshold_at_tpr;
use crate::{Error, Result};

/// Fewer rows than this say too little about the share that a threshold keeps.
pub const FEWEST_ROWS: usize = 20;

/// A score at or above `value` counts as in-distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// The threshold.
    #[serde(with = "finite_or_text")]
    pub value: f64,
    /// Share of in-distribution rows that it shall keep.
    pub keep: f64,
    /// Rows it was set with.
    pub rows: usize,
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
    /// The largest threshold that keeps at least the share `keep` of the scores.
    ///
    /// # Errors
    /// If there are too few scores or the share is not in (0, 1].
    pub fn new(scores: &[f64], keep: f64, source: CalibrationSource) -> Result<Self> {
        if scores.len() < FEWEST_ROWS {
            return Err(Error::TooFewRows {
                what: "rows to set the threshold with".to_owned(),
                expected: FEWEST_ROWS,
                got: scores.len(),
            });
        }
        let value = threshold_at_tpr(scores, keep)?;
        Ok(Threshold { value, keep, rows: scores.len(), source })
    }

    /// Whether a score counts as in-distribution.
    #[must_use]
    pub fn accepts(&self, score: f64) -> bool {
        score >= self.value
    }
}

/// JSON has no infinities: −∞ (rows without direction among the scores) is stored as text.
mod finite_or_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { out.serialize_f64(*value) } else { out.serialize_str("-inf") }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Value {
            Number(f64),
            Text(String),
        }
        match Value::deserialize(input)? {
            Value::Number(value) => Ok(value),
            Value::Text(text) if text == "-inf" => Ok(f64::NEG_INFINITY),
            Value::Text(text) => {
                Err(serde::de::Error::custom(format!("expected a number or -inf, got {text}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_at_least_the_share_it_promises() {
        let scores: Vec<f64> = (0..100).map(f64::from).collect();
        let threshold = Threshold::new(&scores, 0.95, CalibrationSource::Given).unwrap();
        assert_eq!(threshold.value, 5.0);
        assert_eq!(scores.iter().filter(|&&s| threshold.accepts(s)).count(), 95);
    }

    #[test]
    fn refuses_too_few_rows_and_bad_shares() {
        assert!(Threshold::new(&[1.0; 19], 0.95, CalibrationSource::Given).is_err());
        assert!(Threshold::new(&[1.0; 20], 1.5, CalibrationSource::Given).is_err());
    }

    #[test]
    fn an_infinite_threshold_survives_json() {
        let threshold =
            Threshold::new(&[f64::NEG_INFINITY; 20], 0.5, CalibrationSource::HeldOut).unwrap();
        let text = serde_json::to_string(&threshold).unwrap();
        assert_eq!(serde_json::from_str::<Threshold>(&text).unwrap(), threshold);
    }
}
