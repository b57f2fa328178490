//! LINe: z is clipped; of its channels only those stay whose contribution μ_ŷ·w_ŷ to the predicted
//! class ŷ is over a percentile, and of the weights those whose |contribution of the channel|·w is.

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis};
use rayon::prelude::*;

use crate::io::{Head, TensorWriter};
use crate::methods::{Found, Stored};
use crate::numeric::percentile::quantile_of;
use crate::numeric::vector::contiguous;
use crate::span::preprocess::clip_row;
use crate::training::Training;
use crate::training::logits::{head_logits, predicted};
use crate::training::statistics::Statistics;
use crate::{Error, Result};

/// Contributions and the thresholds of both masks, per class.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    clip: f64,
    contributions: Array2<f64>,
    activation_thresholds: Array1<f64>,
    weight_thresholds: Array1<f64>,
    head: Head,
}

impl Line {
    pub(super) fn fit(
        activations: f64,
        weights: f64,
        clip: f64,
        training: &Training<'_>,
        known: &Statistics,
    ) -> Result<Self> {
        let head = training.head("line")?.without_block();
        let means = known.classes().by_class(head.classes(), &training.data.name)?;
        let contributions = means * &head.weight;
        training.observer.begin("masks of the classes", 0);
        let thresholds: Vec<(f64, f64)> = contributions
            .axis_iter(Axis(0))
            .into_par_iter()
            .map(|row| {
                let mut entries = row.to_vec();
                let activation = quantile_of(&mut entries, activations / 100.0);
                let size = row.mapv(f64::abs);
                let mut entries: Vec<f64> = (&head.weight * &size).iter().copied().collect();
                (activation, quantile_of(&mut entries, weights / 100.0))
            })
            .collect();
        let (activation_thresholds, weight_thresholds): (Vec<f64>, Vec<f64>) =
            thresholds.into_iter().unzip();
        Ok(Line {
            clip,
            contributions,
            activation_thresholds: activation_thresholds.into(),
            weight_thresholds: weight_thresholds.into(),
            head,
        })
    }

    pub(super) fn read(clip: f64, stored: Stored<'_>, head: Option<&Head>) -> Result<Self> {
        let head = head.ok_or_else(|| Error::shape("the detector", "a last layer", "none"))?;
        let classes = head.classes();
        Ok(Line {
            clip,
            contributions: stored.matrix("contributions", Some(classes), stored.width)?,
            activation_thresholds: stored.vector("activation_thresholds", classes)?,
            weight_thresholds: stored.vector("weight_thresholds", classes)?,
            head: head.clone(),
        })
    }

    /// Clips, predicts and masks; returns the predicted class of each row.
    pub(super) fn apply(&self, mut z: ArrayViewMut2<'_, f64>) -> Vec<usize> {
        for mut row in z.rows_mut() {
            clip_row(crate::numeric::vector::contiguous_mut(&mut row), self.clip);
        }
        let logits = head_logits(&self.head, z.view());
        let classes: Vec<usize> =
            logits.rows().into_iter().map(|row| predicted(contiguous(&row))).collect();
        for (mut row, &class) in z.rows_mut().into_iter().zip(&classes) {
            let threshold = self.activation_thresholds[class];
            row.zip_mut_with(&self.contributions.row(class), |x, contribution| {
                if *contribution <= threshold {
                    *x = 0.0;
                }
            });
        }
        classes
    }

    /// Logits of masked rows, with the weights that matter for the class predicted for each.
    pub(super) fn logits(&self, z: ArrayView2<'_, f64>, classes: &[usize]) -> Array2<f64> {
        let mut logits = Array2::zeros((z.nrows(), self.head.classes()));
        for ((mut out, z), &class) in logits.rows_mut().into_iter().zip(z.rows()).zip(classes) {
            let threshold = self.weight_thresholds[class];
            let contributions = self.contributions.row(class);
            // Most channels are masked: only the others are worth a look.
            let alive: Vec<usize> = (0..z.len()).filter(|&j| z[j] != 0.0).collect();
            for ((out, weight), bias) in
                out.iter_mut().zip(self.head.weight.rows()).zip(&self.head.bias)
            {
                let sum: f64 = alive
                    .iter()
                    .filter(|&&j| contributions[j].abs() * weight[j] > threshold)
                    .map(|&j| weight[j] * z[j])
                    .sum();
                *out = sum + bias;
            }
        }
        logits
    }

    pub(super) fn found(&self) -> Found {
        Found::new()
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}contributions"), &self.contributions);
        writer.array1(format!("{prefix}activation_thresholds"), &self.activation_thresholds);
        writer.array1(format!("{prefix}weight_thresholds"), &self.weight_thresholds);
    }
}
