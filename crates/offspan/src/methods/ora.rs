//! ORA (Demirel et al. 2025): the largest angle, seen from the centre g of the class means, between z and its
//! projection on the boundary with another class.

use std::f64::consts::PI;
use std::sync::Arc;

use ndarray::{Array1, Array2, Axis};
use serde::{Deserialize, Serialize};

use super::class_pairs::ClassPairs;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{
    Model, RowValues, Scorer, Stored, logits_of_classes, not_exportable, write_head,
};
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous};
use crate::training::logits::predicted;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "ora";

/// Why there is no graph of it.
const NO_GRAPH: &str = "its angles are arctangents of two legs, for which ONNX has no operator";

/// Parameters of ORA: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OraParams {}

impl Method for OraParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "largest angle between the features and a decision boundary, seen from the centre of the classes",
            needs: "features, labels and head",
            source: "Demirel et al., Out-of-Distribution Detection with Relative Angles, 2025",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }

    fn not_exportable(&self) -> Option<&'static str> {
        Some(NO_GRAPH)
    }
}

impl Fit for OraParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn uses_head(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { classes: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head(NAME)?.without_block();
        let pairs = known.once("pairs of classes", || ClassPairs::of(&head, NAME))?;
        let centre = known.classes().means.mean_axis(Axis(0));
        let centre = centre.ok_or_else(|| Error::TooFewRows {
            what: training.data.name.clone(),
            expected: 1,
            got: 0,
        })?;
        Ok(from_known(self, known, Ora { centre, pairs, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let head = stored.required_head()?;
        Ok(Arc::new(Ora {
            centre: stored.vector("centre", stored.width)?,
            pairs: ClassPairs::read(stored, head.classes())?,
            head,
        }))
    }
}

/// The centre of the class means, and the boundaries.
#[derive(Debug, Clone)]
struct Ora {
    /// g
    centre: Array1<f64>,
    pairs: ClassPairs,
    head: Head,
}

impl Ora {
    /// The largest angle of a row at this distance from the centre; `along` are the products of its
    /// direction with the weights.
    fn largest_angle(&self, logits: &[f64], length: f64, along: &[f64]) -> f64 {
        let own = predicted(logits);
        let angle = |(class, gap, norm): (usize, f64, f64)| {
            // The way to the boundary is −t·d with d = w_ŷ − w_c. It has a part along the direction of
            // z − g and one across it, so the angle follows from the two legs without a cosine, of which
            // small angles would keep few digits.
            let (t, forward) = (gap / (norm * norm), along[own] - along[class]);
            let across = (norm * norm - forward * forward).max(0.0).sqrt();
            (t * across).atan2(length - t * forward)
        };
        let angles = self.pairs.rivals(logits).map(angle);
        angles.fold(f64::NEG_INFINITY, f64::max) / PI
    }
}

impl Scorer for Ora {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of_classes(NAME, data, Some(&self.head), self.pairs.classes()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut z = Block::read(&*data.features, start, out.len())?;
        let source = logits_of_classes(NAME, data, Some(&self.head), self.pairs.classes())?;
        let logits = source.logits(start, out.len())?;
        *z -= &self.centre;
        let mut lengths = Vec::with_capacity(out.len());
        for mut row in z.rows_mut() {
            let length = vector::sum_of_squares(contiguous(&row)).sqrt();
            // At the centre itself there is no direction: every angle is 0.
            row.mapv_inplace(|x| if length > 0.0 { x / length } else { 0.0 });
            lengths.push(length);
        }
        let mut along = Array2::zeros((out.len(), self.head.classes()));
        unpacked::multiply(along.view_mut(), z.view(), self.head.weight.t());
        for (i, out) in out.iter_mut().enumerate() {
            *out = if lengths[i] > 0.0 {
                let (logits, along) = (logits.row(i), along.row(i));
                self.largest_angle(contiguous(&logits), lengths[i], contiguous(&along))
            } else {
                0.0
            };
        }
        Ok(())
    }

    fn graph<'a>(&'a self, _: RowValues, _: &mut Builder<'a>) -> Result<Value> {
        Err(not_exportable(NO_GRAPH))
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}centre"), &self.centre);
        self.pairs.write(prefix, writer);
        write_head(Some(&self.head), prefix, writer);
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn the_angle_is_that_between_the_vectors_themselves() {
        let weight = array![[1.0, 0.0], [0.0, 1.0]];
        let head = Head::new(weight, array![0.0, 0.0]).unwrap();
        let pairs = ClassPairs::of(&head, NAME).unwrap();
        let ora = Ora { centre: array![0.0, 0.0], pairs, head };
        // (3, 1) is projected on the diagonal, at (2, 2).
        let length = 10f64.sqrt();
        let got = ora.largest_angle(&[3.0, 1.0], length, &[3.0 / length, 1.0 / length]);
        let expected = (PI / 4.0 - (1f64 / 3.0).atan()) / PI;
        assert!((got - expected).abs() < 1e-15, "{got} {expected}");
        // Close to the boundary, small angles keep all of their digits.
        let e = 1e-12;
        let length = (2.0f64 + 2.0 * e + e * e).sqrt();
        let along = [(1.0 + e) / length, 1.0 / length];
        let got = ora.largest_angle(&[1.0 + e, 1.0], length, &along);
        assert!((got * PI / (e / 2.0) - 1.0).abs() < 1e-3, "{got}");
    }
}
