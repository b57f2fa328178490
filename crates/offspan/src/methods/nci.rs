//! NCI (Liu & Qin 2025): how much z − μ points along the weights of the predicted class, plus a little of
//! the L1 norm: w_ŷ·(z − μ)/‖z − μ‖ + α‖z‖₁. Neither w nor the bias is normalised away.

use std::sync::Arc;

use ndarray::Array1;
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Model, RowValues, Scorer, Stored, logits_graph, logits_of_classes, write_head};
use super::option::{NORM_WEIGHT, Options};
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::vector::{self, contiguous};
use crate::training::logits::predicted;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "nci";

/// Parameters of NCI.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NciParams {
    /// α
    pub norm_weight: f64,
}

impl Default for NciParams {
    fn default() -> Self {
        NciParams { norm_weight: 1e-4 }
    }
}

impl Method for NciParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "closeness of the centred features to the weights of the predicted class",
            needs: "features and head",
            source: "Liu & Qin, Detecting Out-of-Distribution through the Lens of Neural Collapse, 2025",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&NORM_WEIGHT, &mut self.norm_weight).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if !self.norm_weight.is_finite() {
            return Err(Error::parameter("norm-weight", "a finite number", self.norm_weight));
        }
        Ok(Arc::new(*self))
    }
}

impl Fit for NciParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn uses_head(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { channels: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head(NAME)?.without_block();
        let mean = known.channels().mean.clone();
        Ok(from_known(self, known, Nci { norm_weight: self.norm_weight, mean, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let mean = stored.vector("mean", stored.width)?;
        let head = stored.required_head()?;
        Ok(Arc::new(Nci { norm_weight: self.norm_weight, mean, head }))
    }
}

/// The training mean and the last layer.
#[derive(Debug, Clone)]
struct Nci {
    norm_weight: f64,
    mean: Array1<f64>,
    head: Head,
}

impl Scorer for Nci {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of_classes(NAME, data, Some(&self.head), self.head.classes()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let source = logits_of_classes(NAME, data, Some(&self.head), self.head.classes())?;
        let logits = source.logits(start, out.len())?;
        let offsets = &*z - &self.mean;
        for (i, out) in out.iter_mut().enumerate() {
            let weight = self.head.weight.row(predicted(contiguous(&logits.row(i))));
            let offset = offsets.row(i);
            let length = vector::sum_of_squares(contiguous(&offset)).sqrt();
            let size: f64 = z.row(i).iter().map(|x| x.abs()).sum();
            *out = if length > 0.0 {
                vector::dot(contiguous(&weight), contiguous(&offset)) / length
                    + self.norm_weight * size
            } else {
                f64::NEG_INFINITY
            };
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, Some(&self.head), None, builder);
        let predicted = builder.place_of_largest(logits);
        let weights = builder.matrix("weights", self.head.weight.view());
        let weight = builder.rows_at(weights, predicted);
        let mean = builder.vector("mean", &self.mean);
        let offset = builder.sub(rows.features, mean);
        let (unit, _, is_zero) = builder.unit_rows(offset);
        let products = builder.mul(unit, weight);
        let along = builder.sum(products);
        let sizes = builder.abs(rows.features);
        let size = builder.sum(sizes);
        let size = builder.times(size, self.norm_weight);
        let score = builder.add(along, size);
        Ok(builder.put_last(is_zero, score))
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}mean"), &self.mean);
        write_head(Some(&self.head), prefix, writer);
    }
}
