//! DML (Zhang & Xiang 2023): max_c cos(z, w_c) + λ‖z‖, the two parts of the largest logit weighed
//! anew; the bias is not used.

use ndarray::Array2;

use super::model::{Scorer, Stored, rows_of};
use crate::Result;
use crate::io::{Dataset, TensorWriter};
use crate::numeric::product::unpacked;
use crate::numeric::vector;
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::span::preprocess::normalise;
use crate::training::Training;

/// Unit rows of the last layer.
#[derive(Debug, Clone)]
pub(crate) struct Dml {
    norm_weight: f64,
    directions: Array2<f64>,
}

impl Dml {
    pub(super) fn fit(norm_weight: f64, training: &Training<'_>) -> Result<Self> {
        let mut directions = training.head("dml")?.weight.clone();
        for mut row in directions.rows_mut() {
            // A class without weights has no direction and a cosine of 0 with everything.
            normalise(contiguous_mut(&mut row));
        }
        Ok(Dml { norm_weight, directions })
    }

    pub(super) fn read(norm_weight: f64, stored: Stored<'_>) -> Result<Self> {
        Ok(Dml { norm_weight, directions: stored.matrix("directions", None, stored.width)? })
    }
}

impl Scorer for Dml {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = rows_of(&*data.features, start, out.len())?;
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

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}directions"), &self.directions);
    }
}
