//! MME (Rakotoarivony 2025): the logarithm of a product of five cues. The energy of scaled features less the
//! virtual logit of clipped ones, nearness to a class on the sphere, agreement of that class with the
//! prediction, what PCA explains, and the distance to decision boundaries. The product itself overflows.

use std::sync::Arc;

use ndarray::{Array1, Array2, Axis};
use serde::{Deserialize, Serialize};

use super::class_pairs::ClassPairs;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored, or_worst};
use super::option::{OptionInfo, Options, TEMPERATURE, option};
use super::rectify::{scale_graph, scale_row};
use super::reg_pca::Principal;
use super::vim::{Vim, VimParams};
use crate::graph::{Builder, Op, Value};
use crate::io::{Block, Dataset, TensorWriter};
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::span::preprocess::normalise;
use crate::training::logits::{energy, head_graph, head_logits, predicted};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "mme";
const AGREEMENT: OptionInfo = option(
    "agreement",
    "L",
    "mme: factor of rows whose prediction is the nearest class on the sphere",
);
/// Percentiles of all entries to which rows are clipped.
const CLIP: [f64; 2] = [1.0, 99.0];
/// Percent of a row's entries that are not among the largest, for its scale.
const PRUNE: f64 = 90.0;
/// Principal directions.
const DIRECTIONS: usize = 256;

/// Parameters of MME.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MmeParams {
    /// T
    pub temperature: f64,
    /// λ
    pub agreement: f64,
}

impl Default for MmeParams {
    fn default() -> Self {
        MmeParams { temperature: 0.1, agreement: 2.0 }
    }
}

impl Method for MmeParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "energy, residual, nearness, agreement and boundaries multiplied, as a logarithm",
            needs: "features, labels and head; made for features that are never negative",
            source: "Rakotoarivony, MME: Multiple Metric Ensemble, 2025",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&TEMPERATURE, &mut self.temperature)?;
        options.add(&AGREEMENT, &mut self.agreement).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        for (name, value) in [("temperature", self.temperature), ("agreement", self.agreement)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::parameter(name, "a number above 0", value));
            }
        }
        Ok(Arc::new(*self))
    }

    fn wants_non_negative(&self) -> bool {
        true
    }
}

impl Fit for MmeParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn uses_head(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs {
            moments: true,
            unit_classes: true,
            largest_logit: true,
            percentiles: CLIP.to_vec(),
            ..Needs::default()
        }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head(NAME)?;
        let pairs = known.once("pairs of classes", || ClassPairs::of(head, NAME))?;
        let classes = known.unit_classes();
        // Labels have to be those of the last layer, with whose predictions they are compared.
        let mut centres = classes.by_class(head.classes(), &training.data.name)?;
        centres.rows_mut().into_iter().for_each(|mut row| {
            normalise(contiguous_mut(&mut row));
        });
        let known_classes = classes.labels.iter().map(|&label| label as usize).collect::<Vec<_>>();
        let centres = centres.select(Axis(0), &known_classes);
        let vim = Vim::fit(VimParams::default(), NAME, training, known)?;
        // Half of the directions where there are not as many.
        let directions = Some(DIRECTIONS).filter(|most| *most < training.data.width());
        let principal = Principal::fit(directions, known)?;
        let [low, high] = CLIP.map(|percent| known.percentile(percent));
        let numbers = Array1::from_iter(known_classes.iter().map(|&class| class as f64));
        let model =
            Mme { params: *self, low, high, vim, principal, centres, classes: numbers, pairs };
        Ok(from_known(self, known, model))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let vim = Vim::read(stored)?;
        let centres: Array2<f64> = stored.matrix("centres", None, stored.width)?;
        if centres.is_empty() {
            return Err(Error::shape("`centres` of the detector", "at least one row", "none"));
        }
        let (low, high) = (stored.number("low")?, stored.number("high")?);
        if low > high {
            let expected = format!("a number `high` of at least {low}");
            return Err(Error::shape("the detector", expected, format!("{high}")));
        }
        Ok(Arc::new(Mme {
            params: *self,
            low,
            high,
            principal: Principal::read(stored)?,
            classes: stored.vector("classes", centres.nrows())?,
            centres,
            pairs: ClassPairs::read(stored, vim.head().classes())?,
            vim,
        }))
    }
}

/// All five cues.
#[derive(Debug, Clone)]
struct Mme {
    params: MmeParams,
    low: f64,
    high: f64,
    vim: Vim,
    principal: Principal,
    /// Unit vectors of the classes that have training rows.
    centres: Array2<f64>,
    /// Which classes these are.
    classes: Array1<f64>,
    pairs: ClassPairs,
}

impl Mme {
    /// log 1/softmax(d/T) of the nearest class, and which one it is.
    fn nearness(&self, unit: &[f64]) -> (f64, usize) {
        let to_centre = |centre: ndarray::ArrayView1<'_, f64>| {
            vector::squared_distance(unit, contiguous(&centre)) / self.params.temperature
        };
        let distances: Vec<f64> = self.centres.rows().into_iter().map(to_centre).collect();
        let mut nearest = 0;
        for (class, distance) in distances.iter().enumerate() {
            if *distance < distances[nearest] {
                nearest = class;
            }
        }
        (energy(&distances, 1.0) - distances[nearest], self.classes[nearest] as usize)
    }

    /// The same of unit rows within a graph; the class as a number.
    fn nearness_graph(&self, unit: Value, builder: &mut Builder<'_>) -> (Value, Value) {
        // Between distances ‖u‖² + ‖c‖² − 2uᵀc of one row, only differences count.
        let products = builder.linear("centres", unit, self.centres.view());
        let doubled = builder.times(products, 2.0);
        let length = |centre: ndarray::ArrayView1<'_, f64>| centre.dot(&centre);
        let lengths = self.centres.rows().into_iter().map(length).collect();
        let lengths = builder.vector("centre_lengths", &lengths);
        let distances = builder.sub(lengths, doubled);
        let distances = builder.times(distances, 1.0 / self.params.temperature);
        let nearest = builder.node(Op::ArgMin { axis: 1, keep: false }, &[distances]);
        let least = builder.node(Op::ReduceMin { axis: 1, keep: true }, &[distances]);
        let above = builder.sub(distances, least);
        let nearness = builder.log_sum_exp(above, 1.0);
        let classes = builder.vector("classes", &self.classes);
        (nearness, builder.rows_at(classes, nearest))
    }
}

impl Scorer for Mme {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut z = Block::read(&*data.features, start, out.len())?;
        let clipped = z.mapv(|x| x.clamp(self.low, self.high));
        let mut scaled = z.to_owned();
        scaled.rows_mut().into_iter().for_each(|mut row| {
            scale_row(contiguous_mut(&mut row), PRUNE);
        });
        let head = self.vim.head();
        let scaled = head_logits(head, scaled.view());
        let clipped_logits = head_logits(head, clipped.view());
        let virtual_logits = self.vim.virtual_logits(clipped.view());
        let residuals = self.principal.relative_residuals(clipped.view());
        for (i, out) in out.iter_mut().enumerate() {
            let mut row = z.row_mut(i);
            let row = contiguous_mut(&mut row);
            if !normalise(row) {
                *out = f64::NEG_INFINITY;
                continue;
            }
            let (nearness, class) = self.nearness(row);
            let scaled = scaled.row(i);
            let agrees = predicted(contiguous(&scaled)) == class;
            let offset = clipped.row(i);
            let apart =
                vector::squared_distance(contiguous(&offset), contiguous(self.principal.mean()));
            let margin = self.pairs.mean_margin(contiguous(&clipped_logits.row(i))) / apart.sqrt();
            let score = energy(contiguous(&scaled), 1.0) - virtual_logits[i]
                + nearness
                + if agrees { self.params.agreement.ln() } else { 0.0 }
                // Where PCA explains nothing, or no boundary is any way off, the product is 0.
                + (1.0 - residuals[i]).max(0.0).ln()
                + margin.max(0.0).ln();
            *out = or_worst(score);
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let head = self.vim.head();
        let z = rows.features;
        let clipped = builder.at_least(z, self.low);
        let clipped = builder.at_most(clipped, self.high);
        let scaled = scale_graph(z, PRUNE, builder);
        let scaled = head_graph(head, scaled, builder);
        let energy = builder.log_sum_exp(scaled, 1.0);
        let virtual_logit = self.vim.virtual_logit_graph(clipped, builder);
        let (unit, _, is_zero) = builder.unit_rows(z);
        let (nearness, class) = self.nearness_graph(unit, builder);
        let predicted = builder.place_of_largest(scaled);
        let predicted = builder.counted(predicted);
        let agrees = builder.node(Op::Equal, &[predicted, class]);
        let agrees = builder.counted(agrees);
        let agreement = builder.times(agrees, self.params.agreement.ln());
        let (residual, nothing) = self.principal.residual_graph(clipped, builder);
        let explained = builder.neg(residual);
        let explained = builder.plus(explained, 1.0);
        let explained = builder.at_least(explained, 0.0);
        let explained = builder.log(explained);
        let clipped_logits = head_graph(head, clipped, builder);
        let margin = self.pairs.margin_graph(clipped_logits, builder);
        let mean = builder.vector("principal_mean", self.principal.mean());
        let offset = builder.sub(clipped, mean);
        let apart = builder.length(offset);
        let margin = builder.div(margin, apart);
        let margin = builder.at_least(margin, 0.0);
        let margin = builder.log(margin);
        let mut score = builder.sub(energy, virtual_logit);
        for part in [nearness, agreement, explained, margin] {
            score = builder.add(score, part);
        }
        let is_zero = builder.node(Op::Or, &[is_zero, nothing]);
        Ok(builder.put_last(is_zero, score))
    }

    fn found(&self) -> Found {
        let mut found = self.vim.found();
        found.insert("low".to_owned(), self.low);
        found.insert("high".to_owned(), self.high);
        found
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.vim.write(prefix, writer);
        self.principal.write(prefix, writer);
        writer.array2(format!("{prefix}centres"), &self.centres);
        writer.array1(format!("{prefix}classes"), &self.classes);
        self.pairs.write(prefix, writer);
    }
}
