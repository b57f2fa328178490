//! pNML (Bibas et al. 2021): how much a learner that may fit the row to any label would regret it, minus the
//! logarithm over log C. With x = [1, ẑ], p = softmax(Wẑ + b), q = xᵀ(XᵀX)⁺x over the training rows and
//! κ = max(‖x outside of their span‖², q/(1 + q)), the score is −log Σ_c p_c/(p_c + (1 − p_c)·p_c^κ) / log C.

use std::sync::Arc;

use ndarray::{Array2, Axis, s};
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored, put_last, write_head};
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::span::preprocess::Preprocess;
use crate::training::logits::{head_graph, head_logits, softmax};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Moments, Result};

const NAME: &str = "pnml";

/// Parameters of pNML: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PnmlParams {}

impl Method for PnmlParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "regret of a last layer that could be fitted to the row with any label",
            needs: "features and head",
            source: "Bibas et al., Single Layer Predictive Normalized Maximum Likelihood for Out-of-Distribution Detection, 2021",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }
}

impl Fit for PnmlParams {
    fn uses_head(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { unit_moments: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head(NAME)?.without_block();
        if head.classes() < 2 {
            return Err(Error::shape("classes of the last layer for pnml", "at least 2", "1"));
        }
        let eigen = linalg::symmetric_eigen(gram(known.unit_moments()).view())?;
        let floor = eigen.values.len() as f64 * f64::EPSILON * eigen.values[0];
        let rank = eigen.values.iter().take_while(|value| **value > floor).count();
        let mut directions = eigen.vectors.as_standard_layout().into_owned();
        for (mut row, value) in directions.rows_mut().into_iter().zip(&eigen.values[..rank]) {
            row /= value.sqrt();
        }
        Ok(from_known(self, known, Pnml { directions, rank, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let size = stored.width + 1;
        Ok(Arc::new(Pnml {
            directions: stored.matrix("directions", Some(size), size)?,
            rank: (stored.number("rank")?.max(0.0) as usize).min(size),
            head: stored.required_head()?,
        }))
    }
}

/// XᵀX of rows [1, ẑ], not divided by their number.
fn gram(moments: &Moments) -> Array2<f64> {
    let (rows, mean) = (moments.count() as f64, moments.mean());
    let column = mean.view().insert_axis(Axis(1));
    let mut gram = Array2::zeros((mean.len() + 1, mean.len() + 1));
    gram[[0, 0]] = rows;
    gram.slice_mut(s![0, 1..]).assign(&(mean * rows));
    gram.slice_mut(s![1.., 0]).assign(&(mean * rows));
    let second = (moments.covariance() + column.dot(&column.t())) * rows;
    gram.slice_mut(s![1.., 1..]).assign(&second);
    gram
}

/// Directions of [1, ẑ].
#[derive(Debug, Clone)]
struct Pnml {
    /// First those that training rows have, divided by how much they have of each, then the others.
    directions: Array2<f64>,
    /// How many they have; where it is all, nothing lies outside of their span.
    rank: usize,
    head: Head,
}

/// log Σ p/(p + (1 − p)p^κ) over log C.
fn regret(p: &[f64], kappa: f64) -> f64 {
    // As 1/(1 + (1 − p)p^(κ−1)), in which a p that has underflowed makes no 0/0.
    let sum: f64 = p.iter().map(|p| 1.0 / (1.0 + (1.0 - p) * p.powf(kappa - 1.0))).sum();
    sum.ln() / (p.len() as f64).ln()
}

impl Scorer for Pnml {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut z = Block::read(&*data.features, start, out.len())?;
        let zero_rows = Preprocess { clip: None, cosine: true }.apply(z.view_mut());
        let mut p = head_logits(&self.head, z.view());
        let mut x = Array2::ones((out.len(), z.ncols() + 1));
        x.slice_mut(s![.., 1..]).assign(&z);
        let mut along = Array2::zeros(x.dim());
        unpacked::multiply(along.view_mut(), x.view(), self.directions.t());
        for (i, (out, mut p)) in out.iter_mut().zip(p.rows_mut()).enumerate() {
            let p = contiguous_mut(&mut p);
            softmax(p);
            let along = along.row(i);
            let (inside, outside) = contiguous(&along).split_at(self.rank);
            let (q, off) = (vector::sum_of_squares(inside), vector::sum_of_squares(outside));
            *out = -regret(p, off.max(q / (1.0 + q)));
        }
        put_last(zero_rows, out);
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let (unit, _, is_zero) = builder.unit_rows(rows.features);
        let along = builder.linear("directions", unit, self.directions.slice(s![.., 1..]));
        let ones = builder.vector("directions_of_one", &self.directions.column(0).to_owned());
        let along = builder.add(along, ones);
        let size = self.directions.nrows();
        let zero = builder.scalar(0.0);
        let mut kappa = zero;
        if self.rank > 0 {
            let inside = builder.part(along, 0, self.rank);
            let squares = builder.square(inside);
            let q = builder.sum_kept(squares);
            let more = builder.plus(q, 1.0);
            kappa = builder.div(q, more);
        }
        if self.rank < size {
            let outside = builder.part(along, self.rank, size);
            let squares = builder.square(outside);
            let off = builder.sum_kept(squares);
            kappa = builder.larger(off, kappa);
        }
        // With a = (1 − p)p^(κ−1) and Σp = 1, Σ 1/(1 + a) − 1 is Σ (1 − p)(1 − p^κ)/(1 + a): a sum of small numbers
        // without any difference from 1.
        let logits = head_graph(&self.head, unit, builder);
        let log_p = builder.log_softmax(logits);
        let log_p = builder.at_most(log_p, 0.0);
        let other = builder.exp_minus_one(log_p);
        let exponent = builder.mul(log_p, kappa);
        let less = builder.exp_minus_one(exponent);
        let exponent = builder.sub(exponent, log_p);
        let power = builder.exp(exponent);
        let a = builder.mul(other, power);
        let one = builder.scalar(1.0);
        let divisor = builder.sub(one, a);
        let product = builder.mul(other, less);
        let parts = builder.div(product, divisor);
        let sum = builder.sum(parts);
        let log = builder.log_one_plus(sum);
        let score = builder.times(log, -1.0 / (self.head.classes() as f64).ln());
        Ok(builder.put_last(is_zero, score))
    }

    fn found(&self) -> Found {
        Found::from([("rank".to_owned(), self.rank as f64)])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}directions"), &self.directions);
        write_head(Some(&self.head), prefix, writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regret_is_none_where_rows_decide_and_all_where_none_do() {
        let p = [0.7, 0.2, 0.1];
        assert!(regret(&p, 0.0).abs() < 1e-12);
        // κ = 1: p/(p + (1 − p)p) = 1/(2 − p).
        let direct: f64 = p.iter().map(|p| 1.0 / (2.0 - p)).sum::<f64>().ln() / 3f64.ln();
        assert!((regret(&p, 1.0) - direct).abs() < 1e-14);
        assert!(regret(&[1.0, 0.0], 0.4).abs() < 1e-12);
    }
}
