//! DML (Zhang & Xiang 2023): max_c cos(z, w_c) + λ‖z‖, the two parts of the largest logit weighed
//! anew; the bias is not used.

use std::sync::Arc;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Model, RowValues, Scorer, Stored};
use super::option::{NORM_WEIGHT, Options};
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, TensorWriter};
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::span::preprocess::normalise;
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "dml";

/// Parameters of DML.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DmlParams {
    /// λ
    pub norm_weight: f64,
}

impl Default for DmlParams {
    fn default() -> Self {
        DmlParams { norm_weight: 0.002 }
    }
}

impl Method for DmlParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "largest cosine with a class's weights, plus the weighted norm",
            needs: "features and head",
            source: "Zhang & Xiang, Decoupling MaxLogit for Out-of-Distribution Detection, 2023",
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

impl Fit for DmlParams {
    fn uses_head(&self) -> bool {
        true
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let mut directions = training.head(NAME)?.weight.clone();
        for mut row in directions.rows_mut() {
            // A class without weights has no direction and a cosine of 0 with everything.
            normalise(contiguous_mut(&mut row));
        }
        Ok(from_known(self, known, Dml { norm_weight: self.norm_weight, directions }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let directions = stored.matrix("directions", None, stored.width)?;
        Ok(Arc::new(Dml { norm_weight: self.norm_weight, directions }))
    }
}

/// Unit rows of the last layer.
#[derive(Debug, Clone)]
struct Dml {
    norm_weight: f64,
    directions: Array2<f64>,
}

impl Scorer for Dml {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let mut products = Array2::zeros((out.len(), self.directions.nrows()));
        unpacked::multiply(products.view_mut(), z.view(), self.directions.t());
        for ((out, z), products) in out.iter_mut().zip(z.rows()).zip(products.rows()) {
            let norm = vector::sum_of_squares(contiguous(&z)).sqrt();
            let largest = products.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x));
            *out = if norm > 0.0 {
                largest / norm + self.norm_weight * norm
            } else {
                f64::NEG_INFINITY
            };
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let (unit, length, is_zero) = builder.unit_rows(rows.features);
        let cosines = builder.linear("directions", unit, self.directions.view());
        let largest = builder.largest(cosines);
        let length = builder.as_row(length);
        let length = builder.times(length, self.norm_weight);
        let score = builder.add(largest, length);
        Ok(builder.put_last(is_zero, score))
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}directions"), &self.directions);
    }
}
