//! WeiPer (Granz et al. 2024) with divergences: the entries of a row and its logits under randomly changed
//! last layers are counted in bins, and compared with the counts of the training rows:
//! −[K(h(z)) + λ₁·K(h(W̃z + b)) − λ₂·mean of the largest probability].

use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2, Axis};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::memory::FitSize;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_walk};
use super::model::{Found, Model, RowValues, Scorer, Stored, not_exportable, or_worst, write_head};
use super::option::{BINS, OptionInfo, Options, Pair, SEED, option};
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::histogram::{Bins, smoothed_divergence};
use crate::numeric::product::unpacked;
use crate::numeric::random::{Random, Stream};
use crate::numeric::vector::contiguous;
use crate::training::part::{Field, Part, Smallest};
use crate::training::statistics::Statistics;
use crate::training::{BLOCK, Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "weiper-kld";
const HEADS: OptionInfo =
    option("heads", "R", "weiper-kld: randomly changed copies of the last layer");
const SPREAD: OptionInfo =
    option("spread", "D", "weiper-kld: length of a change relative to the weights that it changes");
const DIVERGENCES: OptionInfo = option(
    "divergences",
    "L1,L2",
    "weiper-kld: weights of the divergence of the logits and of the largest probability",
);
const SMOOTHING: OptionInfo =
    option("smoothing", "S1,S2", "weiper-kld: bins over which the counts of a row are smoothed");
const EPSILON: OptionInfo =
    option("epsilon", "E1,E2", "weiper-kld: what is added to every share of a histogram");

/// Numbers of all copies together, where their count is not given: more would be slow to score.
const MOST_NUMBERS: usize = 1 << 24;
const MOST_HEADS: usize = 100;
/// Copies that can be asked for.
const MOST_GIVEN_HEADS: usize = 100_000;

/// Why there is no graph of it.
const NO_GRAPH: &str =
    "the entries of each row are counted in bins, for which its graph would have no operator";

/// Parameters of WeiPer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeiperParams {
    /// r; 100, or as many as have 2²⁴ weights together, if none is given.
    pub heads: Option<usize>,
    /// δ
    pub spread: f64,
    /// Bins of both histograms.
    pub bins: usize,
    /// λ₁ and λ₂
    pub divergences: (f64, f64),
    /// Widths of the smoothing, for features and logits.
    pub smoothing: (usize, usize),
    /// What is added to shares, for features and logits.
    pub epsilon: (f64, f64),
    /// Seed of the copies.
    pub seed: u64,
    /// Directions of the changes in place of a draw: one row per copy and class. A file has them as
    /// part of the changed weights.
    #[serde(skip)]
    pub directions: Option<Array2<f64>>,
}

impl Default for WeiperParams {
    fn default() -> Self {
        WeiperParams {
            heads: None,
            spread: 1.8,
            bins: 100,
            divergences: (2.5, 0.1),
            smoothing: (4, 15),
            epsilon: (0.01, 0.025),
            seed: 0,
            directions: None,
        }
    }
}

impl Method for WeiperParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "divergence of a row's entries and of its logits under random heads from those of training rows",
            needs: "features and head",
            source: "Granz et al., WeiPer: OOD Detection using Weight Perturbations of Class Projections, 2024",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        let words = "100, or as many as have 2^24 weights together";
        options.add_or(&HEADS, &mut self.heads, words)?;
        options.add(&SPREAD, &mut self.spread)?;
        options.add(&BINS, &mut self.bins)?;
        let mut pair = Pair(self.divergences.0, self.divergences.1);
        options.add(&DIVERGENCES, &mut pair)?;
        self.divergences = (pair.0, pair.1);
        let mut pair = Pair(self.smoothing.0 as f64, self.smoothing.1 as f64);
        options.add(&SMOOTHING, &mut pair)?;
        self.smoothing = (pair.0 as usize, pair.1 as usize);
        let mut pair = Pair(self.epsilon.0, self.epsilon.1);
        options.add(&EPSILON, &mut pair)?;
        self.epsilon = (pair.0, pair.1);
        options.add(&SEED, &mut self.seed).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if let Some(heads) = self.heads
            && !(1..=MOST_GIVEN_HEADS).contains(&heads)
        {
            return Err(Error::parameter("heads", format!("from 1 to {MOST_GIVEN_HEADS}"), heads));
        }
        if !(2..=100_000).contains(&self.bins) {
            return Err(Error::parameter("bins", "from 2 to 100000", self.bins));
        }
        // More than all bins is no smoothing any more, and every bin is a sum over so many.
        let (first, second) = self.smoothing;
        let widths = 1..=self.bins;
        if !(widths.contains(&first) && widths.contains(&second)) {
            let expected = format!("two whole numbers from 1 to {}, the number of bins", self.bins);
            return Err(Error::parameter("smoothing", expected, format!("{first},{second}")));
        }
        let (first, second) = self.epsilon;
        if !(first > 0.0 && second > 0.0 && first.is_finite() && second.is_finite()) {
            let got = format!("{first},{second}");
            return Err(Error::parameter("epsilon", "two numbers above 0", got));
        }
        let (first, second) = self.divergences;
        if !(first.is_finite() && second.is_finite() && self.spread.is_finite()) {
            let got = format!("{first},{second}");
            return Err(Error::parameter("divergences", "finite numbers", got));
        }
        Ok(Arc::new(self.clone()))
    }

    fn not_exportable(&self) -> Option<&'static str> {
        Some(NO_GRAPH)
    }
}

impl WeiperParams {
    /// r, for a last layer of this size.
    fn copies(&self, classes: usize, width: usize) -> usize {
        let numbers = classes.saturating_mul(width).max(1);
        self.heads.unwrap_or_else(|| (MOST_NUMBERS / numbers).clamp(1, MOST_HEADS))
    }

    /// W̃: copies of the weights, each row moved by δ times its length in a random direction.
    fn changed(&self, head: &Head) -> Result<Array2<f64>> {
        let (classes, width) = head.weight.dim();
        let heads = self.copies(classes, width);
        let mut directions = match &self.directions {
            Some(given) if given.dim() == (heads * classes, width) => given.clone(),
            Some(given) => {
                let expected = format!("[{}, {width}]", heads * classes);
                let got = format!("{:?}", given.shape());
                return Err(Error::shape("directions for weiper-kld", expected, got));
            }
            None => {
                let mut random = Random::new(self.seed, Stream::Heads);
                Array2::from_shape_simple_fn((heads * classes, width), || random.normal())
            }
        };
        for (index, mut row) in directions.rows_mut().into_iter().enumerate() {
            let weight = head.weight.row(index % classes);
            let length = |row: ndarray::ArrayView1<'_, f64>| row.dot(&row).sqrt();
            let scale = self.spread * length(weight) / length(row.view()).max(f64::MIN_POSITIVE);
            row.zip_mut_with(&weight, |x, weight| *x = weight + scale * *x);
        }
        Ok(directions)
    }
}

impl Fit for WeiperParams {
    fn memory(&self, size: &FitSize) -> u64 {
        size.changed_heads(self.copies(size.classes, size.width))
    }

    fn uses_head(&self) -> bool {
        true
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head(NAME)?.without_block();
        let weights = self.changed(&head)?;
        let mut model = Weiper {
            params: self.clone(),
            bins: [Bins::new(0.0, 0.0, self.bins); 2],
            typical: [Array1::zeros(self.bins), Array1::zeros(self.bins)],
            weights,
            head,
        };
        let (low, high, rows, fingerprint) = model.ranges(training)?;
        model.bins = [0, 1].map(|kind| Bins::new(low[kind], high[kind], self.bins));
        let counts = model.counts(training)?;
        for (kind, counts) in counts.into_iter().enumerate() {
            let entries = [training.data.width(), model.weights.nrows()][kind] as f64;
            let whole = (rows as f64 * entries).max(1.0);
            model.typical[kind] = counts.into_iter().map(|count| count as f64 / whole).collect();
        }
        Ok(from_walk(Fitted { model, rows, fingerprint }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let head = stored.required_head()?;
        let weights: Array2<f64> = stored.matrix("weights", None, stored.width)?;
        if weights.is_empty() || !weights.nrows().is_multiple_of(head.classes()) {
            let expected = format!("a multiple of {} rows", head.classes());
            return Err(Error::shape("`weights` of the detector", expected, "others"));
        }
        let bins = |low: &str, high: &str| -> Result<Bins> {
            Ok(Bins::new(stored.number(low)?, stored.number(high)?, self.bins))
        };
        Ok(Arc::new(Weiper {
            params: self.clone(),
            bins: [bins("low", "high")?, bins("low logit", "high logit")?],
            typical: [
                stored.vector("typical_features", self.bins)?,
                stored.vector("typical_logits", self.bins)?,
            ],
            weights,
            head,
        }))
    }
}

/// Changed last layers, and what training rows make of them.
#[derive(Debug, Clone)]
struct Weiper {
    params: WeiperParams,
    /// For features and for logits.
    bins: [Bins; 2],
    /// Mean histogram of the training rows, for features and for logits.
    typical: [Array1<f64>; 2],
    /// W̃, copy after copy.
    weights: Array2<f64>,
    head: Head,
}

impl Weiper {
    /// W̃z + b.
    fn logits(&self, z: ArrayView2<'_, f64>) -> Array2<f64> {
        let mut logits = Array2::zeros((z.nrows(), self.weights.nrows()));
        unpacked::multiply(logits.view_mut(), z, self.weights.t());
        let classes = self.head.classes();
        for mut copy in logits.axis_chunks_iter_mut(Axis(1), classes) {
            copy += &self.head.bias;
        }
        logits
    }

    /// The smallest and the largest entry of the training rows, and of their changed logits, how many rows
    /// there are, and what identifies them.
    #[allow(clippy::type_complexity)]
    fn ranges(&self, training: &Training<'_>) -> Result<([f64; 2], [f64; 2], u64, u64)> {
        let stage = "range of the changed logits";
        const NAMES: [[&str; 2]; 2] = [["low", "high"], ["low logit", "high logit"]];
        let mut part = training.pass(stage, || {
            let mut ends = [0; 4].map(|_| Smallest::new(1));
            let mut rows = 0;
            let fingerprint = training.for_each_chunk(stage, |numbers, z| {
                rows += numbers.len() as u64;
                let blocks: Vec<[f64; 4]> = z
                    .axis_chunks_iter(Axis(0), BLOCK)
                    .into_par_iter()
                    .map(|z| {
                        let logits = self.logits(z);
                        let low = |x: f64, m: f64| m.min(x);
                        [
                            z.iter().fold(f64::INFINITY, |m, &x| low(x, m)),
                            z.iter().fold(f64::INFINITY, |m, &x| low(-x, m)),
                            logits.iter().fold(f64::INFINITY, |m, &x| low(x, m)),
                            logits.iter().fold(f64::INFINITY, |m, &x| low(-x, m)),
                        ]
                    })
                    .collect();
                let first = numbers.first().copied().unwrap_or(0);
                for block in blocks {
                    ends.iter_mut().zip(block).for_each(|(end, key)| end.add([(key, first)]));
                }
                Ok(())
            })?;
            let part = Part::default()
                .with("rows", Field::Counts(vec![rows]))
                .with("fingerprint", Field::Hash(fingerprint));
            let names = NAMES.as_flattened().iter().zip(ends);
            Ok(names.fold(part, |part, (name, end)| part.with(name, Field::Smallest(end))))
        })?;
        let mut end = |name: &str| -> Result<f64> {
            let found: Smallest = part.take(name)?;
            Ok(found.keys().first().copied().unwrap_or(0.0))
        };
        let low = [end(NAMES[0][0])?, end(NAMES[1][0])?];
        let high = [-end(NAMES[0][1])?, -end(NAMES[1][1])?];
        let rows: Vec<u64> = part.take("rows")?;
        Ok((low, high, rows.first().copied().unwrap_or(0), part.take("fingerprint")?))
    }

    /// How many entries of the training rows, and of their changed logits, are in each bin.
    fn counts(&self, training: &Training<'_>) -> Result<[Vec<u64>; 2]> {
        let stage = "histograms of the training rows";
        let mut part = training.pass(stage, || {
            let mut sums = [vec![0u64; self.params.bins], vec![0u64; self.params.bins]];
            training.for_each_chunk(stage, |_, z| {
                let blocks: Vec<[Vec<u64>; 2]> = z
                    .axis_chunks_iter(Axis(0), BLOCK)
                    .into_par_iter()
                    .map(|z| {
                        let logits = self.logits(z);
                        [self.bins[0].counts(z.iter()), self.bins[1].counts(logits.iter())]
                    })
                    .collect();
                for block in blocks {
                    for (sums, counts) in sums.iter_mut().zip(block) {
                        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                    }
                }
                Ok(())
            })?;
            let [features, logits] = sums;
            Ok(Part::default()
                .with("features", Field::Counts(features))
                .with("logits", Field::Counts(logits)))
        })?;
        Ok([part.take("features")?, part.take("logits")?])
    }

    /// How far the histogram of a row is from that of the training rows.
    fn divergence(&self, kind: usize, entries: &[f64]) -> f64 {
        let counts = self.bins[kind].counts(entries.iter());
        let shares = counts.into_iter().map(|count| count as f64 / entries.len() as f64);
        let shares: Vec<f64> = shares.collect();
        let (smoothing, epsilon) = match kind {
            0 => (self.params.smoothing.0, self.params.epsilon.0),
            _ => (self.params.smoothing.1, self.params.epsilon.1),
        };
        smoothed_divergence(&shares, contiguous(&self.typical[kind]), smoothing, epsilon)
    }
}

impl Scorer for Weiper {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let logits = self.logits(z.view());
        let (first, second) = self.params.divergences;
        let classes = self.head.classes();
        for ((out, z), logits) in out.iter_mut().zip(z.rows()).zip(logits.rows()) {
            let logits = contiguous(&logits);
            let certainty = |copy: &[f64]| {
                let largest = copy.iter().fold(f64::NEG_INFINITY, |m, &l| m.max(l));
                1.0 / copy.iter().map(|l| (l - largest).exp()).sum::<f64>()
            };
            let copies = logits.chunks(classes);
            let mean = copies.len() as f64;
            let mean = copies.map(certainty).sum::<f64>() / mean;
            *out = or_worst(
                -(self.divergence(0, contiguous(&z)) + first * self.divergence(1, logits)
                    - second * mean),
            );
        }
        Ok(())
    }

    fn graph<'a>(&'a self, _: RowValues, _: &mut Builder<'a>) -> Result<Value> {
        Err(not_exportable(NO_GRAPH))
    }

    fn found(&self) -> Found {
        let [features, logits] = self.bins;
        Found::from([
            ("heads".to_owned(), (self.weights.nrows() / self.head.classes().max(1)) as f64),
            ("low".to_owned(), features.low),
            ("high".to_owned(), features.high),
            ("low logit".to_owned(), logits.low),
            ("high logit".to_owned(), logits.high),
        ])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}weights"), &self.weights);
        writer.array1(format!("{prefix}typical_features"), &self.typical[0]);
        writer.array1(format!("{prefix}typical_logits"), &self.typical[1]);
        write_head(Some(&self.head), prefix, writer);
    }
}
