//! NECO (Ben Ammar et al. 2024): the share ‖Pᵀx‖/‖x‖ of the standardised row that lies in the leading
//! directions of the standardised training rows, times the largest logit or alone.

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::{Array1, Array2, Axis, s};
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{
    Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, or_worst, write_head,
};
use super::option::{COMPONENTS, EXPLAINED_VARIANCE, Options};
use super::whitening::Standardised;
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous};
use crate::span::subspace::Components;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

/// Directions of the authors' code.
const DIRECTIONS: usize = 100;

/// Parameters of NECO.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NecoParams {
    /// How many directions there are.
    pub directions: NecoDirections,
    /// Whether the share is multiplied by the largest logit.
    pub times_logit: bool,
}

/// How many directions NECO keeps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NecoDirections {
    /// So many; 100, or half the width where that is less, if none are given.
    Count(Option<usize>),
    /// The fewest that hold this share of the variance.
    ExplainedVariance(f64),
}

impl NecoDirections {
    fn choose(self, eigenvalues: &[f64], width: usize) -> Result<usize> {
        match self {
            NecoDirections::Count(None) => {
                Ok(DIRECTIONS.min((width / 2).max(1)).min(eigenvalues.len()))
            }
            NecoDirections::Count(Some(count)) => Components::Fixed(count).choose(eigenvalues),
            NecoDirections::ExplainedVariance(share) => {
                Components::ExplainedVariance(share).choose(eigenvalues)
            }
        }
    }
}

impl NecoParams {
    fn known_as(self) -> &'static str {
        match (self.directions, self.times_logit) {
            (NecoDirections::Count(_), true) => "neco",
            (NecoDirections::Count(_), false) => "neco-ratio",
            (NecoDirections::ExplainedVariance(_), true) => "neco-evr",
            (NecoDirections::ExplainedVariance(_), false) => "neco-evr-ratio",
        }
    }
}

impl Method for NecoParams {
    fn entries() -> Vec<Entry<Self>> {
        let entry = |directions, times_logit, summary, source| {
            let default = NecoParams { directions, times_logit };
            Entry {
                name: default.known_as(),
                summary,
                needs: if times_logit { "features; logits or head" } else { "features only" },
                source,
                parity: GOLDEN_BASELINE,
                default,
            }
        };
        let (count, share) = (NecoDirections::Count(None), NecoDirections::ExplainedVariance(0.9));
        let authors =
            "Ben Ammar et al., NECO: NEural Collapse Based Out-of-distribution detection, 2024";
        let later = "Ben Ammar et al., NECO, 2024; number of directions as in Mueller & Hein, 2025";
        vec![
            entry(
                count,
                true,
                "share of the standardised features in the leading directions, times the largest logit",
                authors,
            ),
            entry(
                count,
                false,
                "share of the standardised features in the leading directions",
                authors,
            ),
            entry(
                share,
                true,
                "neco with as many directions as hold a share of the variance",
                later,
            ),
            entry(
                share,
                false,
                "neco-ratio with as many directions as hold a share of the variance",
                later,
            ),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        self.known_as().into()
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        match &mut self.directions {
            NecoDirections::Count(count) => {
                let words = "100, or half the width where that is less";
                options.add_or(&COMPONENTS, count, words).map(drop)
            }
            NecoDirections::ExplainedVariance(share) => {
                options.add(&EXPLAINED_VARIANCE, share).map(drop)
            }
        }
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        match self.directions {
            NecoDirections::Count(Some(0)) => {
                return Err(Error::parameter("components", "at least 1", 0));
            }
            NecoDirections::Count(_) => {}
            NecoDirections::ExplainedVariance(share) => {
                Components::ExplainedVariance(share).check()?;
            }
        }
        Ok(Arc::new(*self))
    }
}

impl Fit for NecoParams {
    fn uses_logits(&self) -> bool {
        self.times_logit
    }

    fn needs(&self) -> Needs {
        Needs { moments: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let moments = known.moments();
        let (scales, values, vectors) = known.once("directions of standardised rows", || {
            let standardised = Standardised::of(&moments.covariance(), &training.data.name)?;
            let eigen = linalg::symmetric_eigen(standardised.correlation.view())?;
            let vectors = standardised.widened(eigen.vectors);
            Ok((standardised.scales(), eigen.values, vectors))
        })?;
        let kept = self.directions.choose(&values, training.data.width())?;
        let model = Neco {
            name: self.known_as(),
            mean: moments.mean().clone(),
            // The standardisation of a row becomes part of the directions.
            directions: &vectors.slice(s![..kept, ..]) * &scales.view().insert_axis(Axis(0)),
            scales,
            times_logit: self.times_logit,
            head: training.head.filter(|_| self.times_logit).map(Head::without_block),
        };
        Ok(from_known(self, known, model))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(Neco {
            name: self.known_as(),
            mean: stored.vector("mean", stored.width)?,
            scales: stored.vector("scales", stored.width)?,
            directions: stored.matrix("directions", None, stored.width)?,
            times_logit: self.times_logit,
            head: stored.head()?,
        }))
    }
}

/// Mean and scale of each channel, and leading directions.
#[derive(Debug, Clone)]
struct Neco {
    name: &'static str,
    mean: Array1<f64>,
    /// 1/σ of each channel; 0 for one that is constant.
    scales: Array1<f64>,
    /// One direction per row, of rows that are centred only.
    directions: Array2<f64>,
    times_logit: bool,
    head: Option<Head>,
}

impl Scorer for Neco {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        if self.times_logit {
            logits_of(self.name, data, self.head.as_ref())?;
        }
        Ok(())
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut z = Block::read(&*data.features, start, out.len())?;
        *z -= &self.mean;
        let mut inside = Array2::zeros((out.len(), self.directions.nrows()));
        unpacked::multiply(inside.view_mut(), z.view(), self.directions.t());
        *z *= &self.scales;
        for ((out, x), inside) in out.iter_mut().zip(z.rows()).zip(inside.rows()) {
            let whole = vector::sum_of_squares(contiguous(&x));
            *out = if whole > 0.0 {
                or_worst((vector::sum_of_squares(contiguous(&inside)) / whole).sqrt())
            } else {
                f64::NEG_INFINITY
            };
        }
        if self.times_logit {
            let logits =
                logits_of(self.name, data, self.head.as_ref())?.logits(start, out.len())?;
            for (out, row) in out.iter_mut().zip(logits.rows()) {
                // A row at the mean keeps the worst score, whatever its logits are.
                if out.is_finite() {
                    *out *= row.iter().fold(f64::NEG_INFINITY, |m, &l| m.max(l));
                }
            }
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let mean = builder.vector("mean", &self.mean);
        let offset = builder.sub(rows.features, mean);
        let inside = builder.linear("directions", offset, self.directions.view());
        let inside = builder.length(inside);
        let scales = builder.vector("scales", &self.scales);
        let standardised = builder.mul(offset, scales);
        let (_, whole, is_zero) = builder.unit_rows(standardised);
        let whole = builder.as_row(whole);
        let mut score = builder.div(inside, whole);
        if self.times_logit {
            let logits = logits_graph(rows, self.head.as_ref(), None, builder);
            let largest = builder.largest(logits);
            score = builder.mul(score, largest);
        }
        Ok(builder.put_last(is_zero, score))
    }

    fn found(&self) -> Found {
        let alive = self.scales.iter().filter(|scale| **scale > 0.0).count();
        Found::from([
            ("components".to_owned(), self.directions.nrows() as f64),
            ("constant channels".to_owned(), (self.scales.len() - alive) as f64),
        ])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}mean"), &self.mean);
        writer.array1(format!("{prefix}scales"), &self.scales);
        writer.array2(format!("{prefix}directions"), &self.directions);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
