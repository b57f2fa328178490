//! DDCS: activations are shaped, and of the channels those stay that tell the classes apart:
//! smallest J = a·S − (1 − a)·V, with S the mean product of two classes' means and V the variance
//! over the class means of the shaped training rows.

use ndarray::{Array1, Axis};

use super::rectifier::{Rectifier, Step};
use crate::io::TensorWriter;
use crate::methods::{Found, Stored};
use crate::training::Training;
use crate::training::statistics::{ClassMeans, Needs, Statistics};
use crate::{Error, Result};

/// Shape and mask.
#[derive(Debug, Clone)]
pub(crate) struct Ddcs {
    low: f64,
    high: f64,
    /// 1 for channels that stay, 0 for the others.
    mask: Array1<f64>,
}

impl Ddcs {
    pub(super) fn fit(
        low: f64,
        high: f64,
        balance: f64,
        channels: f64,
        training: &Training<'_>,
    ) -> Result<Self> {
        let width = training.data.width();
        let shape = Ddcs { low, high, mask: Array1::ones(width) };
        let shaped = Rectifier::new(vec![Step::Ddcs(shape)], None);
        let data = shaped.dataset(training.data);
        let needs = Needs { classes: true, ..Needs::default() };
        let known = Statistics::gather(&training.on(&data), &needs)?;
        let classes = known.classes();
        if classes.labels.len() < 2 {
            return Err(Error::shape(
                format!("labels of {}", training.data.name),
                "at least 2 classes",
                format!("{}", classes.labels.len()),
            ));
        }
        let ranks = channel_ranks(classes, balance);
        let kept = (channels * width as f64).round_ties_even() as usize;
        let mask = ranks.iter().map(|&rank| if rank < kept { 1.0 } else { 0.0 }).collect();
        Ok(Ddcs { low, high, mask })
    }

    pub(super) fn read(stored: Stored<'_>) -> Result<Self> {
        let (low, high) = (stored.number("low")?, stored.number("high")?);
        Ok(Ddcs { low, high, mask: stored.vector("mask", stored.width)? })
    }

    pub(super) fn apply(&self, row: &mut [f64]) {
        for (x, mask) in row.iter_mut().zip(&self.mask) {
            let raised = x.max(self.low);
            let shaped = if raised >= self.high {
                raised / (1.0 + (raised / self.high).powi(4)).sqrt() + self.low
            } else {
                raised
            };
            *x = shaped * mask;
        }
    }

    pub(super) fn found(&self) -> Found {
        Found::from([
            ("low".to_owned(), self.low),
            ("high".to_owned(), self.high),
            ("channels kept".to_owned(), self.mask.sum()),
        ])
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}mask"), &self.mask);
    }
}

/// Each channel's place when they are sorted by J, smallest first.
fn channel_ranks(classes: &ClassMeans, balance: f64) -> Vec<usize> {
    let count = classes.means.nrows() as f64;
    let sum = classes.means.sum_axis(Axis(0));
    let squares = (&classes.means * &classes.means).sum_axis(Axis(0));
    // Over ordered pairs i ≠ j: Σ μ_i μ_j = (Σμ)² − Σμ².
    let similarity = (&sum * &sum - &squares) / (count * (count - 1.0));
    let variance = classes.means.var_axis(Axis(0), 1.0);
    let cost = similarity * balance - variance * (1.0 - balance);
    let mut order: Vec<usize> = (0..cost.len()).collect();
    order.sort_by(|&a, &b| cost[a].total_cmp(&cost[b]).then(a.cmp(&b)));
    let mut ranks = vec![0; order.len()];
    for (rank, channel) in order.into_iter().enumerate() {
        ranks[channel] = rank;
    }
    ranks
}
