//! LINe: z is clipped; of its channels only those stay whose contribution μ_ŷ·w_ŷ to the predicted
//! class ŷ is over a percentile, and of the weights those whose |contribution of the channel|·w is.

use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::step::{Step, StepParams, check_percent};
use crate::graph::{Builder, Op, Value};
use crate::io::{Head, TensorWriter};
use crate::methods::Stored;
use crate::methods::method::{Entry, GOLDEN_BASELINE};
use crate::methods::option::{OptionInfo, Options, Pair, option};
use crate::numeric::percentile::quantile_of;
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::span::preprocess::clip_row;
use crate::training::Training;
use crate::training::logits::{head_graph, head_logits, predicted};
use crate::training::statistics::{Needs, Statistics};
use crate::{Error, Result};

const LINE: OptionInfo =
    option("line", "PA,PW", "line: percent of the activations and of the weights that become 0");
const LINE_CLIP: OptionInfo =
    option("line-clip", "C", "line: activations are cut at this value first");

/// Weights that a graph masks at a time, for each row.
const WEIGHTS_AT_ONCE: usize = 1 << 18;

/// Parameters of LINe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LineParams {
    /// Percent of the channels that become 0.
    pub activations: f64,
    /// Percent of the weights that become 0.
    pub weights: f64,
    /// min(z, clip) comes first.
    pub clip: f64,
}

impl Default for LineParams {
    fn default() -> Self {
        LineParams { activations: 90.0, weights: 90.0, clip: 1.0 }
    }
}

impl StepParams for LineParams {
    fn entry() -> Entry<Self> {
        Entry {
            name: "line",
            summary: "only activations and weights that matter for the predicted class stay, then the energy",
            needs: "features, labels and head; made for features that are never negative",
            source: "Ahn et al., LINe: Out-of-Distribution Detection by Leveraging Important Neurons, 2023",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        let mut pair = Pair(self.activations, self.weights);
        options.add(&LINE, &mut pair)?;
        (self.activations, self.weights) = (pair.0, pair.1);
        options.add(&LINE_CLIP, &mut self.clip).map(drop)
    }

    fn check(&self) -> Result<()> {
        check_percent("line", self.activations)?;
        check_percent("line", self.weights)?;
        if self.clip.is_finite() {
            return Ok(());
        }
        Err(Error::parameter("line-clip", "a finite value", self.clip))
    }

    fn changes_head(&self) -> bool {
        true
    }

    fn wants_non_negative(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { classes: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Arc<dyn Step>> {
        Ok(Arc::new(Line::fit(*self, training, known)?))
    }

    fn read(&self, stored: Stored<'_>, head: Option<&Head>) -> Result<Arc<dyn Step>> {
        let head = head.ok_or_else(|| Error::shape("the detector", "a last layer", "none"))?;
        let classes = head.classes();
        Ok(Arc::new(Line {
            clip: self.clip,
            contributions: stored.matrix("contributions", Some(classes), stored.width)?,
            activation_thresholds: stored.vector("activation_thresholds", classes)?,
            weight_thresholds: stored.vector("weight_thresholds", classes)?,
            head: head.clone(),
        }))
    }
}

/// Contributions and the thresholds of both masks, per class.
#[derive(Debug, Clone)]
struct Line {
    clip: f64,
    contributions: Array2<f64>,
    activation_thresholds: Array1<f64>,
    weight_thresholds: Array1<f64>,
    head: Head,
}

impl Line {
    fn fit(params: LineParams, training: &Training<'_>, known: &Statistics) -> Result<Self> {
        let head = training.head("line")?.without_block();
        let means = known.classes().by_class(head.classes(), &training.data.name)?;
        let contributions = means * &head.weight;
        training.observer.begin("masks of the classes", 0);
        let thresholds: Vec<(f64, f64)> = contributions
            .axis_iter(Axis(0))
            .into_par_iter()
            .map(|row| {
                let mut entries = row.to_vec();
                let activation = quantile_of(&mut entries, params.activations / 100.0);
                let size = row.mapv(f64::abs);
                let mut entries: Vec<f64> = (&head.weight * &size).iter().copied().collect();
                (activation, quantile_of(&mut entries, params.weights / 100.0))
            })
            .collect();
        let (activation_thresholds, weight_thresholds): (Vec<f64>, Vec<f64>) =
            thresholds.into_iter().unzip();
        Ok(Line {
            clip: params.clip,
            contributions,
            activation_thresholds: activation_thresholds.into(),
            weight_thresholds: weight_thresholds.into(),
            head,
        })
    }

    /// Clips, predicts and masks; returns the predicted class of each row.
    fn clip_and_mask(&self, mut z: ArrayViewMut2<'_, f64>) -> Vec<usize> {
        for mut row in z.rows_mut() {
            clip_row(contiguous_mut(&mut row), self.clip);
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
    fn masked_logits(&self, z: ArrayView2<'_, f64>, classes: &[usize]) -> Array2<f64> {
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
}

impl Step for Line {
    fn apply(&self, rows: ArrayViewMut2<'_, f64>) -> Option<Vec<usize>> {
        Some(self.clip_and_mask(rows))
    }

    fn logits(&self, rows: ArrayView2<'_, f64>, classes: Option<&[usize]>) -> Option<Array2<f64>> {
        classes.map(|classes| self.masked_logits(rows, classes))
    }

    fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> (Value, Option<Value>) {
        let clipped = builder.at_most(rows, self.clip);
        let logits = head_graph(&self.head, clipped, builder);
        let classes = builder.place_of_largest(logits);
        let mut stays = self.contributions.clone();
        for (mut row, threshold) in stays.rows_mut().into_iter().zip(&self.activation_thresholds) {
            row.mapv_inplace(|contribution| if contribution <= *threshold { 0.0 } else { 1.0 });
        }
        let stays = builder.owned("channels_that_stay", stays);
        let stays = builder.rows_at(stays, classes);
        (builder.mul(clipped, stays), Some(classes))
    }

    fn logits_graph(
        &self,
        rows: Value,
        classes: Option<Value>,
        builder: &mut Builder<'_>,
    ) -> Option<Value> {
        let classes = classes?;
        let (count, width) = self.head.weight.dim();
        let sizes = builder.owned("contributions", self.contributions.mapv(f64::abs));
        let sizes = builder.rows_at(sizes, classes);
        let sizes = builder.reshape(sizes, &[1, width]);
        let thresholds = builder.vector("weight_thresholds", &self.weight_thresholds);
        let threshold = builder.rows_at(thresholds, classes);
        let threshold = builder.reshape(threshold, &[1, 1]);
        let rows = builder.reshape(rows, &[width, 1]);
        let zero = builder.scalar(0.0);
        // Which weights count depends on the row, so each row has a matrix of its own: some classes at a time.
        let at_once = (WEIGHTS_AT_ONCE / width.max(1)).clamp(1, count.max(1));
        let parts: Vec<Value> = self
            .head
            .weight
            .axis_chunks_iter(Axis(0), at_once)
            .map(|weight| {
                let weight = builder.owned("head_weight", weight.to_owned());
                let contributions = builder.mul(weight, sizes);
                let counts = builder.node(Op::Greater, &[contributions, threshold]);
                let weight = builder.choose(counts, weight, zero);
                builder.matmul(weight, rows)
            })
            .collect();
        let logits =
            if parts.len() == 1 { parts[0] } else { builder.node(Op::Concat { axis: 1 }, &parts) };
        let logits = builder.reshape(logits, &[count]);
        let bias = builder.vector("head_bias", &self.head.bias);
        Some(builder.add(logits, bias))
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}contributions"), &self.contributions);
        writer.array1(format!("{prefix}activation_thresholds"), &self.activation_thresholds);
        writer.array1(format!("{prefix}weight_thresholds"), &self.weight_thresholds);
    }
}
