//! ViM (Wang et al. 2022): E(l) − α‖Rᵀ(z − o)‖ with o = −W⁺b, R the directions beyond the D leading
//! ones of the second moment of z − o (about o, not about the mean), and α = mean(max l) over
//! mean‖Rᵀ(z − o)‖ of the training rows.

use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, check_count, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, write_head};
use super::option::{COMPONENTS, OptionInfo, Options, option};
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous};
use crate::training::part::{Part, number};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{BLOCK, Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "vim";
const HEAD_FLOOR: OptionInfo = option(
    "head-floor",
    "EPS",
    "vim: precision of the last layer's weights; directions at its rounding level are left out",
);

/// Parameters of ViM.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VimParams {
    /// D, the dimensions of the subspace; the public code's choice by width where none is given.
    pub components: Option<usize>,
    /// Precision of the last layer: singular values at its rounding level are left out.
    pub head_floor: f64,
}

impl Default for VimParams {
    fn default() -> Self {
        VimParams { components: None, head_floor: f64::from(f32::EPSILON) }
    }
}

impl Method for VimParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "energy minus the scaled residual of a subspace",
            needs: "features and head",
            source: "Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, 2022",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        let words = "1000 if the width is at least 2048, 512 from 768 on, else half of it";
        options.add_or(&COMPONENTS, &mut self.components, words)?;
        let words = "2^-23: the last layer is known to f32 precision";
        options.add_said(&HEAD_FLOOR, &mut self.head_floor, words).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        check_count(self.components)?;
        if !(0.0..1.0).contains(&self.head_floor) {
            return Err(Error::parameter("head-floor", "a share in [0, 1)", self.head_floor));
        }
        Ok(Arc::new(*self))
    }
}

impl Fit for VimParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn uses_head(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { moments: true, largest_logit: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        Ok(from_known(self, known, Vim::fit(*self, training, known)?))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let head = stored.head()?;
        Ok(Arc::new(Vim {
            origin: stored.vector("origin", stored.width)?,
            residual: stored.matrix("residual", None, stored.width)?,
            alpha: stored.number("alpha")?,
            head: head.ok_or_else(|| Error::shape("the detector", "a last layer", "none"))?,
        }))
    }
}

/// Virtual-logit matching.
#[derive(Debug, Clone)]
struct Vim {
    origin: Array1<f64>,
    /// R, one direction per row.
    residual: Array2<f64>,
    alpha: f64,
    head: Head,
}

/// D of the public code: 1000 for features of at least 2048, 512 from 768 on, else half the width.
fn default_dimensions(width: usize) -> usize {
    match width {
        2048.. => 1000,
        768.. => 512,
        _ => (width / 2).max(1),
    }
}

impl Vim {
    fn fit(params: VimParams, training: &Training<'_>, known: &Statistics) -> Result<Self> {
        let head = training.head(NAME)?;
        let width = training.data.width();
        let kept = params.components.unwrap_or_else(|| default_dimensions(width));
        if kept >= width {
            let expected = format!("fewer than the {width} channels, so that a residual is left");
            return Err(Error::parameter("components", expected, kept));
        }
        let vim = training.worked_out(|| {
            let origin = -linalg::least_squares(head.weight.view(), &head.bias, params.head_floor)?;
            let moments = known.moments();
            // (1/n) Σ (z − o)(z − o)ᵀ = covariance + (mean − o)(mean − o)ᵀ
            let offset = (moments.mean() - &origin).insert_axis(Axis(1));
            let second = moments.covariance() + offset.dot(&offset.t());
            let eigen = linalg::symmetric_eigen(second.view())?;
            let residual = eigen.vectors.slice(s![kept.., ..]).as_standard_layout().into_owned();
            Ok(Vim { origin, residual, alpha: 0.0, head: head.without_block() })
        })?;
        let mut vim = Arc::unwrap_or_clone(vim);
        let mean = vim.mean_residual(training)?;
        if mean <= 0.0 {
            return Err(Error::NoVariance { what: training.data.name.clone() });
        }
        vim.alpha = known.largest_logit() / mean;
        Ok(vim)
    }

    fn mean_residual(&self, training: &Training<'_>) -> Result<f64> {
        let stage = "residuals of the training rows";
        let mut part = training.pass(stage, || {
            let (mut sum, mut count) = (0.0, 0);
            training.for_each_chunk(stage, |rows, z| {
                let blocks: Vec<f64> = z
                    .axis_chunks_iter(Axis(0), BLOCK)
                    .into_par_iter()
                    .map(|z| self.residuals(z).iter().sum())
                    .collect();
                sum += blocks.iter().sum::<f64>();
                count += rows.len();
                Ok(())
            })?;
            Ok(Part::default().with("sum", number(sum)).with("count", number(count as f64)))
        })?;
        let (sum, count): (f64, f64) = (part.take("sum")?, part.take("count")?);
        Ok(sum / count.max(1.0))
    }

    fn residuals(&self, z: ArrayView2<'_, f64>) -> Vec<f64> {
        let offset = &z - &self.origin;
        let mut projected = Array2::zeros((z.nrows(), self.residual.nrows()));
        unpacked::multiply(projected.view_mut(), offset.view(), self.residual.t());
        let norm =
            |row: ndarray::ArrayView1<'_, f64>| vector::sum_of_squares(contiguous(&row)).sqrt();
        projected.rows().into_iter().map(norm).collect()
    }
}

impl Scorer for Vim {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, Some(&self.head)).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        logits_of(NAME, data, Some(&self.head))?.read(start, out)?;
        for (out, residual) in out.iter_mut().zip(self.residuals(z.view())) {
            *out -= self.alpha * residual;
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, Some(&self.head), None, builder);
        let energy = builder.log_sum_exp(logits, 1.0);
        let origin = builder.vector("origin", &self.origin);
        let offset = builder.sub(rows.features, origin);
        let residual = builder.linear("residual", offset, self.residual.view());
        let residual = builder.length(residual);
        let residual = builder.times(residual, self.alpha);
        Ok(builder.sub(energy, residual))
    }

    fn found(&self) -> Found {
        Found::from([
            ("alpha".to_owned(), self.alpha),
            ("residual directions".to_owned(), self.residual.nrows() as f64),
        ])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}origin"), &self.origin);
        writer.array2(format!("{prefix}residual"), &self.residual);
        write_head(Some(&self.head), prefix, writer);
    }
}
