//! Low-dimensional gradients (Wu et al. 2024), last layer only: the gradient of the energy with
//! respect to W is G = p ⊗ z, in closed form. It is whitened by its variance per entry (the diagonal
//! Fisher information) and projected on the class means of the gradient; a linear probe on the
//! standardised projections gives logits, and their energy is the score.

use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, check_common_inputs, from_walk};
use super::model::{Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, write_head};
use super::option::{OptionInfo, Options, option};
use crate::error::in_order;
use crate::graph::{Builder, Value};
use crate::io::observer::check_interrupt;
use crate::io::{Block, Dataset, Head, Labels, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::optimise::{Stop, minimise};
use crate::numeric::product::unpacked;
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::training::logits::{LogitSource, Need, energy, softmax};
use crate::training::part::{Field, Part};
use crate::training::statistics::{Statistics, labels_of};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "low-dim";

/// Class-mean gradients may take this many numbers (2 GiB).
const MOST_NUMBERS: usize = 1 << 28;
/// Entries whose variance is at most this share of the largest are constant.
const CONSTANT_ENTRY: f64 = 1e-12;
/// The probe learns from at most this many rows, evenly spread.
const PROBE_ROWS: usize = 100_000;
/// Rows whose gradients are in memory at a time.
const ROWS: usize = 32;
const PROBE: Stop = Stop { gradient: 1e-9, most_steps: 3000 };

const RIDGE: OptionInfo = option("ridge", "L", "low-dim: ridge of the linear probe");

/// Parameters of low-dimensional gradients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LowDimParams {
    /// Ridge of the probe.
    pub ridge: f64,
}

impl Default for LowDimParams {
    fn default() -> Self {
        LowDimParams { ridge: 0.01 }
    }
}

impl Method for LowDimParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "energy of a linear probe on low-dimensional last-layer gradients",
            needs: "features, labels; logits or head; classes² × width numbers of memory",
            source: "Wu et al., Low-Dimensional Gradient Helps Out-of-Distribution Detection, 2024",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&RIDGE, &mut self.ridge).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if !(self.ridge > 0.0 && self.ridge.is_finite()) {
            return Err(Error::parameter("ridge", "a number above 0", self.ridge));
        }
        Ok(Arc::new(*self))
    }
}

impl Fit for LowDimParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn check_inputs(&self, name: &str, training: &Training<'_>) -> Result<()> {
        training.labels(name)?;
        check_common_inputs(self, name, training)
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        Ok(from_walk(LowDim::fit(self.ridge, training)?))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(LowDim::read(stored)?))
    }
}

/// Projection and probe.
#[derive(Debug, Clone)]
struct LowDim {
    /// One row of C·m numbers per class, divided by the deviation of its projection.
    projection: Array2<f64>,
    /// What makes the projections' mean 0.
    offset: Array1<f64>,
    /// The probe: one row per class, its last number the bias.
    probe: Array2<f64>,
    head: Option<Head>,
    /// How the probe's search ended.
    steps: usize,
    gradient: f64,
}

impl LowDim {
    fn fit(ridge: f64, training: &Training<'_>) -> Result<Fitted<Self>> {
        let source = LogitSource::of(training.data, training.head, None, Need::Method(NAME))?;
        let labels = training.labels(NAME)?;
        let (classes, width) = (source.classes(), training.data.width());
        let numbers = classes.saturating_mul(classes).saturating_mul(width);
        if numbers > MOST_NUMBERS {
            return Err(Error::parameter(
                NAME,
                format!("at most {MOST_NUMBERS} numbers (2 GiB) of class-mean gradients"),
                format!("{classes} × {classes} × {width} = {numbers}"),
            ));
        }
        let mut found =
            training.pass(GRADIENTS, || gradients(training, &source, labels, classes))?;
        let (sums, squares): (Array2<f64>, Array2<f64>) =
            (found.take("sums")?, found.take("squares")?);
        let (counts, fingerprint): (Vec<u64>, u64) =
            (found.take("counts")?, found.take("fingerprint")?);
        let rows: u64 = counts.iter().sum();
        let mean = sums.sum_axis(Axis(0)) / rows as f64;
        let variance = squares.flatten().to_owned() / rows as f64 - &mean * &mean;
        let projection = project(sums, &counts, &mean, &variance);
        let mut model = LowDim {
            projection,
            offset: Array1::zeros(classes),
            probe: Array2::zeros((classes, classes + 1)),
            head: training.head.map(Head::without_block),
            steps: 0,
            gradient: 0.0,
        };
        model.learn_probe(ridge, training, &source)?;
        Ok(Fitted { model, rows, fingerprint })
    }

    /// Standardises the projections and fits the probe to the labels.
    fn learn_probe(
        &mut self,
        ridge: f64,
        training: &Training<'_>,
        source: &LogitSource<'_>,
    ) -> Result<()> {
        let rows = training.spread(PROBE_ROWS)?;
        let stage = "projections of the training rows";
        training.observer.begin(stage, rows.len() as u64);
        let width = self.projection.nrows();
        // The last column is the label.
        let found = training.of_each(stage, &rows, width + 1, |rows| {
            let mut x = Array2::<f64>::zeros((rows.len(), width + 1));
            let blocks = x
                .axis_chunks_iter_mut(Axis(0), ROWS)
                .into_par_iter()
                .zip(rows.par_chunks(ROWS))
                .map(|(mut out, rows)| {
                    check_interrupt(training.observer)?;
                    let mut z = Array2::<f64>::zeros((rows.len(), training.data.width()));
                    crate::training::read_rows(training.data, rows, z.view_mut())?;
                    let p = probabilities(source, rows)?;
                    self.project(z.view(), p.view(), out.slice_mut(s![.., ..width]));
                    let labels = labels_of(training.labels(NAME)?, rows)?;
                    out.column_mut(width).iter_mut().zip(labels).for_each(|(o, l)| *o = l as f64);
                    training.observer.advance(rows.len() as u64);
                    Ok(())
                })
                .collect();
            in_order(blocks)?;
            Ok(x)
        })?;
        let labels: Vec<i64> = found.column(width).iter().map(|&label| label as i64).collect();
        let mut x = found.slice(s![.., ..width]).as_standard_layout().into_owned();
        // The mean and deviation of each projection become part of the projection.
        let mean = x.mean_axis(Axis(0)).unwrap_or_default();
        x -= &mean;
        let deviation = x.mapv(|x| x * x).mean_axis(Axis(0)).unwrap_or_default().mapv(f64::sqrt);
        let scale = deviation.mapv(|d| if d > 0.0 { 1.0 / d } else { 0.0 });
        x *= &scale;
        self.offset = -&mean * &scale;
        self.projection *= &scale.insert_axis(Axis(1));

        training.observer.begin("linear probe", 0);
        let objective = Probe { x: x.view(), labels: &labels, ridge };
        let start = vec![0.0; self.probe.len()];
        let minimum = minimise(start, PROBE, |at, gradient| {
            check_interrupt(training.observer)?;
            Ok(objective.evaluate(at, gradient))
        })?;
        (self.steps, self.gradient) = (minimum.steps, minimum.largest_gradient);
        self.probe = Array2::from_shape_vec(self.probe.dim(), minimum.at)
            .unwrap_or_else(|_| unreachable!("as many numbers as the probe has"));
        Ok(())
    }

    fn read(stored: Stored<'_>) -> Result<Self> {
        let probe: Array2<f64> = stored.file.array2(&format!("{}probe", stored.prefix))?;
        let classes = probe.nrows();
        if probe.ncols() != classes + 1 {
            return Err(Error::shape(
                "`probe` of the detector",
                format!("[{classes}, {}]", classes + 1),
                format!("{:?}", probe.shape()),
            ));
        }
        Ok(LowDim {
            projection: stored.matrix("projection", Some(classes), classes * stored.width)?,
            offset: stored.vector("offset", classes)?,
            probe,
            head: stored.head()?,
            steps: stored.number("probe steps")? as usize,
            gradient: stored.number("probe gradient")?,
        })
    }

    /// Standardised projections of gradients p ⊗ z.
    fn project(
        &self,
        z: ArrayView2<'_, f64>,
        p: ArrayView2<'_, f64>,
        mut out: ndarray::ArrayViewMut2<'_, f64>,
    ) {
        let width = z.ncols();
        let mut gradients = Array2::zeros((z.nrows(), p.ncols() * width));
        for ((mut row, z), p) in gradients.rows_mut().into_iter().zip(z.rows()).zip(p.rows()) {
            for (part, p) in contiguous_mut(&mut row).chunks_mut(width).zip(p) {
                part.iter_mut().zip(z).for_each(|(g, z)| *g = p * z);
            }
        }
        unpacked::multiply(out.view_mut(), gradients.view(), self.projection.t());
        out += &self.offset;
    }
}

const GRADIENTS: &str = "gradients of the training rows";

/// Per label, the sum of the gradients p ⊗ z; and the sum of their squares over all rows.
fn gradients(
    training: &Training<'_>,
    source: &LogitSource<'_>,
    labels: &Labels,
    classes: usize,
) -> Result<Part> {
    let width = training.data.width();
    let mut sums = Array2::<f64>::zeros((classes, classes * width));
    let mut squares = Array2::<f64>::zeros((classes, width));
    let mut counts = vec![0u64; classes];
    let fingerprint = training.for_each_chunk(GRADIENTS, |rows, z| {
        let labels = labels_of(labels, rows)?;
        if let Some(label) = labels.iter().find(|l| !(0..classes as i64).contains(*l)) {
            let expected = format!("classes from 0 to {}, as in the logits", classes - 1);
            return Err(Error::shape("labels", expected, format!("label {label}")));
        }
        let p = probabilities(source, rows)?;
        // Σ p_k² z_j² of all rows, and Σ p_k z_j per class, are products of matrices.
        squares += &linalg::product((&p * &p).t(), (&z * &z).view());
        let members = |class: usize| -> Vec<usize> {
            (0..rows.len()).filter(|&i| labels[i] == class as i64).collect()
        };
        sums.axis_iter_mut(Axis(0)).into_par_iter().enumerate().for_each(|(class, mut sum)| {
            let members = members(class);
            if !members.is_empty() {
                let (p, z) = (p.select(Axis(0), &members), z.select(Axis(0), &members));
                let mut gradients = Array2::zeros((classes, width));
                unpacked::multiply(gradients.view_mut(), p.t(), z.view());
                sum += &gradients.flatten();
            }
        });
        labels.iter().for_each(|&label| counts[label as usize] += 1);
        Ok(())
    })?;
    Ok(Part::default()
        .with("sums", Field::Sum(sums))
        .with("squares", Field::Sum(squares))
        .with("counts", Field::Counts(counts))
        .with("fingerprint", Field::Hash(fingerprint)))
}

/// (ḡ_c − ḡ)/F per entry; entries that do not vary are left out.
fn project(
    mut sums: Array2<f64>,
    counts: &[u64],
    mean: &Array1<f64>,
    variance: &Array1<f64>,
) -> Array2<f64> {
    let floor = CONSTANT_ENTRY * variance.iter().fold(0.0f64, |m, &x| m.max(x));
    for (mut row, &count) in sums.rows_mut().into_iter().zip(counts) {
        for ((sum, mean), variance) in row.iter_mut().zip(mean).zip(variance) {
            *sum = if *variance > floor && count > 0 {
                (*sum / count as f64 - mean) / variance
            } else {
                0.0
            };
        }
    }
    sums
}

fn probabilities(source: &LogitSource<'_>, rows: &[usize]) -> Result<Array2<f64>> {
    let mut p = source.gather(rows)?;
    p.rows_mut().into_iter().for_each(|mut row| softmax(contiguous_mut(&mut row)));
    Ok(p)
}

/// mean cross-entropy(A x + a, y) + ridge/2·(‖A‖² + ‖a‖²): strictly convex, so its minimum is one.
struct Probe<'a> {
    x: ArrayView2<'a, f64>,
    labels: &'a [i64],
    ridge: f64,
}

impl Probe<'_> {
    /// Value and gradient; in parallel over fixed blocks of rows, added in order.
    fn evaluate(&self, at: &[f64], gradient: &mut [f64]) -> f64 {
        const BLOCK: usize = 1024;
        let classes = self.x.ncols();
        let probe = ArrayView2::from_shape((classes, classes + 1), at)
            .unwrap_or_else(|_| unreachable!("the probe's own shape"));
        let (weight, bias) = (probe.slice(s![.., ..classes]), probe.column(classes));
        let n = self.x.nrows() as f64;
        let parts: Vec<(f64, Array2<f64>)> = self
            .x
            .axis_chunks_iter(Axis(0), BLOCK)
            .into_par_iter()
            .zip(self.labels.par_chunks(BLOCK))
            .map(|(x, labels)| {
                let mut logits = Array2::zeros((x.nrows(), classes));
                unpacked::multiply(logits.view_mut(), x, weight.t());
                logits += &bias;
                let mut loss = 0.0;
                for (mut row, &label) in logits.rows_mut().into_iter().zip(labels) {
                    let row = contiguous_mut(&mut row);
                    loss += energy(row, 1.0) - row[label as usize];
                    softmax(row);
                    row[label as usize] -= 1.0;
                }
                let mut gradient = Array2::zeros((classes, classes + 1));
                unpacked::multiply(gradient.slice_mut(s![.., ..classes]), logits.t(), x);
                gradient.column_mut(classes).assign(&logits.sum_axis(Axis(0)));
                (loss, gradient)
            })
            .collect();
        gradient.iter_mut().zip(at).for_each(|(g, at)| *g = self.ridge * at);
        let mut value = 0.5 * self.ridge * crate::numeric::vector::sum_of_squares(at);
        for (loss, part) in parts {
            value += loss / n;
            gradient.iter_mut().zip(&part).for_each(|(g, part)| *g += part / n);
        }
        value
    }
}

impl Scorer for LowDim {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        let classes = logits_of(NAME, data, self.head.as_ref())?.classes();
        if classes == self.probe.nrows() {
            return Ok(());
        }
        Err(Error::shape(
            format!("logits of {}", data.name),
            format!("{} columns, as in training", self.probe.nrows()),
            format!("{classes} columns"),
        ))
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let source = logits_of(NAME, data, self.head.as_ref())?;
        let classes = self.probe.nrows();
        for (index, out) in out.chunks_mut(ROWS).enumerate() {
            let start = start + index * ROWS;
            let rows: Vec<usize> = (start..start + out.len()).collect();
            let z = Block::read(&*data.features, start, out.len())?;
            let mut x = Array2::zeros((out.len(), classes));
            self.project(z.view(), probabilities(&source, &rows)?.view(), x.view_mut());
            let mut logits = Array2::zeros((out.len(), classes));
            unpacked::multiply(
                logits.view_mut(),
                x.view(),
                self.probe.slice(s![.., ..classes]).t(),
            );
            logits += &self.probe.column(classes);
            for (out, logits) in out.iter_mut().zip(logits.rows()) {
                *out = energy(contiguous(&logits), 1.0);
            }
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let classes = self.probe.nrows();
        let width = self.projection.ncols() / classes;
        let logits = logits_graph(rows, self.head.as_ref(), Some(classes), builder);
        let p = builder.softmax(logits);
        let p = builder.reshape(p, &[classes, 1]);
        let z = builder.reshape(rows.features, &[1, width]);
        let gradients = builder.mul(p, z);
        let gradients = builder.reshape(gradients, &[classes * width]);
        let projected = builder.linear("projection", gradients, self.projection.view());
        let offset = builder.vector("offset", &self.offset);
        let projected = builder.add(projected, offset);
        let logits = builder.linear("probe", projected, self.probe.slice(s![.., ..classes]));
        let bias = builder.vector("probe_bias", &self.probe.column(classes).to_owned());
        let logits = builder.add(logits, bias);
        Ok(builder.log_sum_exp(logits, 1.0))
    }

    fn found(&self) -> Found {
        Found::from([
            ("probe steps".to_owned(), self.steps as f64),
            ("probe gradient".to_owned(), self.gradient),
        ])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}projection"), &self.projection);
        writer.array1(format!("{prefix}offset"), &self.offset);
        writer.array2(format!("{prefix}probe"), &self.probe);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
