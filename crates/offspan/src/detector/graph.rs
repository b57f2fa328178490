//! The arithmetic of a detector: score, decision and p-value.

use std::collections::BTreeMap;

use super::Detector;
use crate::graph::{Builder, Element, Graph, Op, Value};
use crate::methods::RowValues;
use crate::{Calibration, Error, Result};

impl Detector {
    /// The arithmetic of the score, the decision and the p-value, for other runtimes.
    ///
    /// Inputs are `features` [N, m]; `logits` [N, C] or other tensors of a row where the method reads them; and
    /// `threshold` [], which need not be given. Outputs are `score` [N] and, if the detector has a threshold,
    /// `is_ood` [N], a flag, and `p_value` [N].
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
        let mut outputs = vec![("score", score)];
        if let Some(calibration) = &self.calibration {
            let threshold = calibration.threshold().value;
            let threshold = builder.optional_number("threshold", threshold);
            outputs.push(("is_ood", builder.node(Op::Less, &[score, threshold])));
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
        metadata
    }
}

/// (1 + #{calibration scores ≤ score}) / (n + 1).
fn p_value<'a>(builder: &mut Builder<'a>, calibration: &'a Calibration, score: Value) -> Value {
    let scores = calibration.scores();
    let known =
        builder.matrix("calibration_scores", ndarray::aview1(scores).insert_axis(ndarray::Axis(0)));
    let column = builder.node(Op::Reshape { shape: vec![-1, 1] }, &[score]);
    let as_low = builder.node(Op::LessOrEqual, &[known, column]);
    let as_low = builder.node(Op::Cast { to: Element::Real }, &[as_low]);
    let count = builder.node(Op::ReduceSum { axis: 1, keep: false }, &[as_low]);
    let (one, all) = (builder.scalar(1.0), builder.scalar(scores.len() as f64 + 1.0));
    let count = builder.node(Op::Add, &[count, one]);
    builder.node(Op::Div, &[count, all])
}
