//! The arithmetic of a detector: score, decision and p-value.

use std::collections::BTreeMap;

use super::Detector;
use crate::graph::{Builder, Element, Graph, Op, Value};
use crate::methods::RowValues;
use crate::{Calibration, Error, Result};

impl Detector {
    /// The arithmetic of the score, the decision and the p-value, for other runtimes.
    ///
    /// Inputs are `features[N, m]`; `logits[N, C]` or other tensors of a row where the method reads them; and
    /// `threshold[]`, which need not be given. Outputs are `score[N]` and, if the detector has a threshold,
    /// `is_ood[N]`, a flag, and `p_value[N]`. Rows with NaN or infinities have the score −∞ and the smallest p-value, and
    /// are out.
    ///
    /// # Errors
    /// If the method's arithmetic has no operators for it.
    pub fn graph(&self) -> Result<Graph<'_>> {
        let mut builder = Builder::new(self.info.training.width);
        let features = builder.features();
        let rows = RowValues { features, logits: None };
        let score = self.model.graph(rows, &mut builder).map_err(|error| match error {
            Error::NotExportable { reason, .. } => {
                Error::NotExportable { method: self.info.method.clone(), reason }
            }
            other => other,
        })?;
        let finite = builder.finite_rows(score);
        let score = without_nan(&mut builder, finite, score);
        let mut outputs = vec![("score", score)];
        if let Some(calibration) = &self.calibration {
            let threshold = calibration.threshold().value;
            let threshold = builder.optional_number("threshold", threshold);
            let below = builder.node(Op::Less, &[score, threshold]);
            // Also where the threshold is −∞.
            let is_ood = finite.map_or(below, |finite| {
                let bad = builder.node(Op::Not, &[finite]);
                builder.node(Op::Or, &[below, bad])
            });
            outputs.push(("is_ood", is_ood));
            outputs.push(("p_value", p_value(&mut builder, calibration, score)));
        }
        Ok(builder.finish(&outputs, self.metadata()))
    }

    /// What the detector says of itself.
    fn metadata(&self) -> BTreeMap<String, String> {
        let info = &self.info;
        let mut metadata = BTreeMap::from([
            ("method".to_owned(), info.method.clone()),
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("direction".to_owned(), info.direction.clone()),
            ("fingerprint".to_owned(), info.training.fingerprint.clone()),
            ("training_rows".to_owned(), info.training.rows.to_string()),
            ("parameters".to_owned(), serde_json::json!(info.spec).to_string()),
        ]);
        if let Some(threshold) = &info.threshold {
            let promise = &threshold.promise;
            let words = format!(
                "keeps at least {} of in-distribution rows with a confidence of {}",
                promise.keep, promise.confidence
            );
            metadata.insert("promise".to_owned(), words);
            metadata.insert("threshold".to_owned(), threshold.value.to_string());
        }
        if let Some(source) = &info.source {
            let mut tell =
                |name: &str, text: &str| metadata.insert(name.to_owned(), text.to_owned());
            tell("model_hash", &source.hash);
            tell("feature_tensor", &source.feature_tensor);
            tell("pool", &source.pool);
            if let Some(logits) = &source.logit_tensor {
                tell("logit_tensor", logits);
            }
            if let Some(steps) = &source.preprocess {
                tell("preprocess", &serde_json::json!(steps).to_string());
            }
        }
        metadata
    }
}

/// The score, −∞ where it is NaN or the row was not finite: NaN is below no threshold, and would pass.
fn without_nan(builder: &mut Builder<'_>, finite: Option<Value>, score: Value) -> Value {
    let lowest = builder.scalar(f64::NEG_INFINITY);
    // False for NaN; a score of −∞ stays what it is.
    let above = builder.node(Op::Greater, &[score, lowest]);
    let keeps = finite.map_or(above, |finite| builder.node(Op::And, &[finite, above]));
    builder.choose(keeps, score, lowest)
}

/// (1 + #{calibration scores ≤ score}) / (n + 1), by halving: as many looks at the sorted scores as they have
/// binary digits, whatever their number.
fn p_value(builder: &mut Builder<'_>, calibration: &Calibration, score: Value) -> Value {
    let scores = calibration.scores();
    let span = (scores.len() + 1).next_power_of_two();
    let mut sorted = scores.to_vec();
    sorted.resize(span, f64::INFINITY);
    let sorted = builder.vector("calibration_scores", &sorted.into());
    // No score is below itself: zeros, also where a score is infinite.
    let never = builder.node(Op::Less, &[score, score]);
    let mut as_low = builder.counted(never);
    let mut step = span / 2;
    while step > 0 {
        let more = builder.plus(as_low, step as f64);
        let last = builder.plus(more, -1.0);
        let last = builder.node(Op::Cast { to: Element::Index }, &[last]);
        let last = builder.rows_at(sorted, last);
        let holds = builder.node(Op::LessOrEqual, &[last, score]);
        as_low = builder.choose(holds, more, as_low);
        step /= 2;
    }
    let as_low = builder.at_most(as_low, scores.len() as f64);
    let count = builder.plus(as_low, 1.0);
    builder.times(count, 1.0 / (scores.len() as f64 + 1.0))
}
