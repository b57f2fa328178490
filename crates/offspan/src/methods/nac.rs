//! NAC (Liu et al. 2024) on the last layer: how often training rows had each neuron in the state that it is
//! in. The state is s = σ(α·z·g), g = Wᵀ(p − 1/C) the gradient of the divergence from the uniform softmax;
//! the score is the mean over neurons of min(n/O, 1), n the training rows in the same bin.

use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2, Axis};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::memory::FitSize;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_walk};
use super::model::{Model, RowValues, Scorer, Stored, logits_graph, logits_of_classes, write_head};
use super::option::{BINS, OptionInfo, Options, option};
use crate::graph::{Builder, Element, Op, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::product::unpacked;
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::training::logits::{LogitSource, Need, softmax};
use crate::training::part::{Field, Part};
use crate::training::statistics::Statistics;
use crate::training::{BLOCK, Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "nac";
const ENOUGH: OptionInfo =
    option("enough", "O", "nac: training rows in a bin from which on it counts in full");
const SHARPNESS: OptionInfo =
    option("sharpness", "A", "nac: factor of a neuron's gradient in its state");
/// Base of the logarithm by which bins grow narrower towards 0 and 1.
const BASE: f64 = 1000.0;

/// Parameters of NAC.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NacParams {
    /// M; two fewer bins are used, as many on either side of ½.
    pub bins: usize,
    /// O
    pub enough: f64,
    /// α
    pub sharpness: f64,
}

impl Default for NacParams {
    fn default() -> Self {
        NacParams { bins: 50, enough: 50.0, sharpness: 100.0 }
    }
}

impl Method for NacParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "how often training rows had each neuron in the same state",
            needs: "features and head",
            source: "Liu et al., Neuron Activation Coverage, 2024; on the last layer",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&BINS, &mut self.bins)?;
        options.add(&ENOUGH, &mut self.enough)?;
        options.add(&SHARPNESS, &mut self.sharpness).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if !(4..=100_000).contains(&self.bins) {
            return Err(Error::parameter("bins", "from 4 to 100000", self.bins));
        }
        if !(self.enough > 0.0 && self.enough.is_finite()) {
            return Err(Error::parameter("enough", "a number above 0", self.enough));
        }
        if !(self.sharpness > 0.0 && self.sharpness.is_finite()) {
            return Err(Error::parameter("sharpness", "a number above 0", self.sharpness));
        }
        Ok(Arc::new(*self))
    }
}

/// Edges of the bins from 0 to 1: on a logarithmic scale to ½, and mirrored.
fn edges(bins: usize) -> Vec<f64> {
    let count = bins / 2;
    let step = (BASE.sqrt() - 1.0) / (count - 1) as f64;
    let lower = |i: usize| match i {
        0 => 0.0,
        // Rounding must not keep the middle, where neurons without a say are, from being an edge.
        i if i == count - 1 => 0.5,
        i => (1.0 + i as f64 * step).ln() / BASE.ln(),
    };
    let mut edges: Vec<f64> = (0..count).map(lower).collect();
    edges.extend((0..count - 1).rev().map(|i| 1.0 - lower(i)));
    edges
}

/// The bin of a state; the last one has its upper edge, too.
fn bin(edges: &[f64], state: f64) -> usize {
    edges.partition_point(|edge| *edge <= state).clamp(1, edges.len() - 1) - 1
}

/// States of the neurons of rows.
fn states(
    sharpness: f64,
    head: &Head,
    z: ArrayView2<'_, f64>,
    mut logits: Array2<f64>,
) -> Array2<f64> {
    let uniform = 1.0 / head.classes() as f64;
    for mut row in logits.rows_mut() {
        let p = contiguous_mut(&mut row);
        softmax(p);
        p.iter_mut().for_each(|p| *p -= uniform);
    }
    let mut states = Array2::zeros(z.dim());
    unpacked::multiply(states.view_mut(), logits.view(), head.weight.view());
    states.zip_mut_with(&z, |gradient, z| {
        *gradient = 1.0 / (1.0 + (-sharpness * z * *gradient).exp());
    });
    states
}

impl Fit for NacParams {
    fn memory(&self, size: &FitSize) -> u64 {
        size.counted(self.bins)
    }

    fn uses_logits(&self) -> bool {
        true
    }

    fn uses_head(&self) -> bool {
        true
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head(NAME)?.without_block();
        let source = LogitSource::of(training.data, training.head, None, Need::Method(NAME))?;
        let edges = edges(self.bins);
        let width = training.data.width();
        let bins = edges.len() - 1;
        let stage = "states of neurons";
        let mut part = training.pass(stage, || {
            let mut counts = vec![0u64; width * bins];
            let mut rows = 0;
            let fingerprint = training.for_each_chunk(stage, |numbers, z| {
                rows += numbers.len() as u64;
                let blocks: Vec<Result<Vec<u64>>> = z
                    .axis_chunks_iter(Axis(0), 4 * BLOCK)
                    .into_par_iter()
                    .zip(numbers.par_chunks(4 * BLOCK))
                    .map(|(z, numbers)| {
                        let states = states(self.sharpness, &head, z, source.gather(numbers)?);
                        let mut counts = vec![0u64; width * bins];
                        for row in states.rows() {
                            for (neuron, state) in row.iter().enumerate() {
                                counts[neuron * bins + bin(&edges, *state)] += 1;
                            }
                        }
                        Ok(counts)
                    })
                    .collect();
                for block in blocks {
                    counts.iter_mut().zip(block?).for_each(|(sum, count)| *sum += count);
                }
                Ok(())
            })?;
            Ok(Part::default()
                .with("counts", Field::Counts(counts))
                .with("rows", Field::Counts(vec![rows]))
                .with("fingerprint", Field::Hash(fingerprint)))
        })?;
        let counts: Vec<u64> = part.take("counts")?;
        let rows: Vec<u64> = part.take("rows")?;
        let share = |index: (usize, usize)| {
            let count = counts.get(index.0 * bins + index.1).copied().unwrap_or(0);
            (count as f64 / self.enough).min(1.0)
        };
        let coverage = Array2::from_shape_fn((width, bins), share);
        let model = Nac { params: *self, edges, coverage, head };
        let rows = rows.first().copied().unwrap_or(0);
        Ok(from_walk(Fitted { model, rows, fingerprint: part.take("fingerprint")? }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let edges = edges(self.bins);
        let coverage = stored.matrix("coverage", Some(stored.width), edges.len() - 1)?;
        Ok(Arc::new(Nac { params: *self, edges, coverage, head: stored.required_head()? }))
    }
}

/// How well each bin of each neuron is covered.
#[derive(Debug, Clone)]
struct Nac {
    params: NacParams,
    edges: Vec<f64>,
    /// min(n/O, 1), one row per neuron.
    coverage: Array2<f64>,
    head: Head,
}

impl Scorer for Nac {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of_classes(NAME, data, Some(&self.head), self.head.classes()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let source = logits_of_classes(NAME, data, Some(&self.head), self.head.classes())?;
        let logits = source.logits(start, out.len())?;
        let states = states(self.params.sharpness, &self.head, z.view(), logits);
        for (out, row) in out.iter_mut().zip(states.rows()) {
            let covered: Array1<f64> = contiguous(&row)
                .iter()
                .enumerate()
                .map(|(neuron, state)| self.coverage[[neuron, bin(&self.edges, *state)]])
                .collect();
            *out = covered.iter().sum::<f64>() / covered.len().max(1) as f64;
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let width = self.coverage.nrows();
        let logits = logits_graph(rows, Some(&self.head), None, builder);
        let p = builder.softmax(logits);
        let p = builder.plus(p, -1.0 / self.head.classes() as f64);
        let weights = builder.matrix("weights", self.head.weight.view());
        let gradient = builder.matmul(p, weights);
        let x = builder.mul(rows.features, gradient);
        let x = builder.times(x, self.params.sharpness);
        // States near 0, ½ and 1 have few digits, so what they come from is compared with where the edges do.
        let inner = &self.edges[1..self.edges.len() - 1];
        let edges = inner.iter().map(|edge| (edge / (1.0 - edge)).ln()).collect();
        let edges = builder.vector("edges", &edges);
        let x = builder.reshape(x, &[width, 1]);
        let passed = builder.node(Op::GreaterOrEqual, &[x, edges]);
        let passed = builder.counted(passed);
        let bin = builder.sum(passed);
        let bin = builder.node(Op::Cast { to: Element::Index }, &[bin]);
        let coverage = builder.transposed("coverage", self.coverage.view());
        let covered = builder.node(Op::GatherElements { axis: 0 }, &[coverage, bin]);
        let sum = builder.sum(covered);
        Ok(builder.times(sum, 1.0 / width as f64))
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}coverage"), &self.coverage);
        write_head(Some(&self.head), prefix, writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_mirrored_and_the_middle_begins_the_upper_half() {
        for bins in [4, 5, 10, 50] {
            let edges = edges(bins);
            assert_eq!(edges.len() - 1, 2 * (bins / 2 - 1));
            assert_eq!((edges[0], edges[edges.len() - 1]), (0.0, 1.0));
            assert!(edges.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(edges.iter().zip(edges.iter().rev()).all(|(a, b)| (a + b - 1.0).abs() < 1e-15));
            assert_eq!(bin(&edges, 0.5), (edges.len() - 1) / 2);
            assert_eq!(bin(&edges, 0.0), 0);
            assert_eq!(bin(&edges, 1.0), edges.len() - 2);
        }
    }
}
