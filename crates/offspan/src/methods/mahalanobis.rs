//! Mahalanobis distances: to the nearest class mean under one shared covariance (Lee et al. 2018),
//! the same on unit vectors (Mahalanobis++), and to the one training mean of standardised unit
//! vectors (SSD, Sehwag et al. 2021).
//!
//! All three are ‖A(x − x̄) − ν_c‖² for the nearest centre c, with A = Λ^(−1/2)Vᵀ from the
//! pseudo-inverse of a covariance: directions whose eigenvalue is rounding noise are left out.

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::{Array1, Array2};
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored, put_last};
use super::whitening::{Standardised, largest_variance, split, whitening};
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous};
use crate::span::preprocess::Preprocess;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};

/// Parameters of the distance to the nearest class mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MahalanobisParams {
    /// Whether rows are scaled to unit length first (Mahalanobis++).
    pub unit: bool,
}

impl Method for MahalanobisParams {
    fn entries() -> Vec<Entry<Self>> {
        let entry = |name, summary, source, unit| Entry {
            name,
            summary,
            needs: "features and labels",
            source,
            parity: GOLDEN_BASELINE,
            default: MahalanobisParams { unit },
        };
        vec![
            entry(
                "mahalanobis",
                "distance to the nearest class mean under one covariance",
                "Lee et al., A Simple Unified Framework for Detecting Out-of-Distribution Samples, 2018",
                false,
            ),
            entry(
                "mahalanobis-pp",
                "the same on unit vectors",
                "Mueller & Hein, Mahalanobis++, 2025",
                true,
            ),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        if self.unit { "mahalanobis-pp" } else { "mahalanobis" }.into()
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }
}

impl Fit for MahalanobisParams {
    fn needs(&self) -> Needs {
        let unit = self.unit;
        Needs {
            moments: !unit,
            classes: !unit,
            unit_moments: unit,
            unit_classes: unit,
            ..Needs::default()
        }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let model = Mahalanobis::to_classes(self.unit, training, known)?;
        Ok(from_known(self, known, model))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(Mahalanobis::read(self.unit, stored)?))
    }
}

/// Parameters of SSD: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdParams {}

impl Method for SsdParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: "ssd",
            summary: "Mahalanobis distance of standardised unit vectors to their mean",
            needs: "features only",
            source: "Sehwag et al., SSD: A Unified Framework for Self-Supervised Outlier Detection, 2021",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }
}

impl Fit for SsdParams {
    fn needs(&self) -> Needs {
        Needs { unit_moments: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        Ok(from_known(self, known, Mahalanobis::to_mean(training, known)?))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(Mahalanobis::read(true, stored)?))
    }
}

/// Whitened distances to centres.
#[derive(Debug, Clone)]
pub(super) struct Mahalanobis {
    /// Whether rows are scaled to unit length.
    pub(super) unit: bool,
    pub(super) centre: Array1<f64>,
    /// A, one row per direction.
    pub(super) whitening: Array2<f64>,
    /// ν_c, one row per centre.
    pub(super) centres: Array2<f64>,
}

impl Mahalanobis {
    /// Distance to the nearest class mean.
    fn to_classes(unit: bool, training: &Training<'_>, known: &Statistics) -> Result<Self> {
        let (moments, classes) = if unit {
            (known.unit_moments(), known.unit_classes())
        } else {
            (known.moments(), known.classes())
        };
        let (offsets, within) = split(moments, classes);
        let what = format!("{}, inside each class", training.data.name);
        let whitening = whitening(&within, largest_variance(&moments.covariance()), &what)?;
        let centres = linalg::product(offsets.view(), whitening.t());
        Ok(Mahalanobis { unit, centre: moments.mean().clone(), whitening, centres })
    }

    /// SSD: one centre, every channel standardised first.
    fn to_mean(training: &Training<'_>, known: &Statistics) -> Result<Self> {
        let moments = known.unit_moments();
        let standardised = Standardised::of(&moments.covariance(), &training.data.name)?;
        let narrow = whitening(&standardised.correlation, 1.0, &training.data.name)?;
        // The standardisation becomes part of A; constant channels get zeros.
        let whitening = standardised.widened(narrow) * &standardised.scales();
        let centres = Array2::zeros((1, whitening.nrows()));
        Ok(Mahalanobis { unit: true, centre: moments.mean().clone(), whitening, centres })
    }

    pub(super) fn read(unit: bool, stored: Stored<'_>) -> Result<Self> {
        let centre = stored.vector("centre", stored.width)?;
        let whitening: Array2<f64> = stored.matrix("whitening", None, stored.width)?;
        let centres = stored.matrix("centres", None, whitening.nrows())?;
        Ok(Mahalanobis { unit, centre, whitening, centres })
    }

    /// The squared distance of rows that are scaled already, within a graph.
    pub(super) fn distance_graph<'a>(&'a self, x: Value, builder: &mut Builder<'a>) -> Value {
        let centre = builder.vector("centre", &self.centre);
        let offset = builder.sub(x, centre);
        let white = builder.linear("whitening", offset, self.whitening.view());
        let gap = builder.gap_to_nearest("centres", white, self.centres.view());
        builder.squared_length(gap)
    }
}

impl Scorer for Mahalanobis {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut x = Block::read(&*data.features, start, out.len())?;
        let zero_rows = Preprocess { clip: None, cosine: self.unit }.apply(x.view_mut());
        *x -= &self.centre;
        let mut white = Array2::zeros((out.len(), self.whitening.nrows()));
        unpacked::multiply(white.view_mut(), x.view(), self.whitening.t());
        let mut products = Array2::zeros((out.len(), self.centres.nrows()));
        unpacked::multiply(products.view_mut(), white.view(), self.centres.t());
        let lengths: Vec<f64> = self.centres.rows().into_iter().map(|c| squared(&c)).collect();
        for ((out, white), products) in out.iter_mut().zip(white.rows()).zip(products.rows()) {
            // ‖y − ν‖² = ‖y‖² − (2yᵀν − ‖ν‖²): the nearest centre has the largest bracket.
            let bracket = products
                .iter()
                .zip(&lengths)
                .fold(f64::NEG_INFINITY, |m, (product, length)| m.max(2.0 * product - length));
            let distance = squared(&white) - bracket;
            *out = if distance.is_finite() { -distance.max(0.0) } else { f64::NEG_INFINITY };
        }
        put_last(zero_rows, out);
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let preprocess = Preprocess { clip: None, cosine: self.unit };
        let (x, is_zero) = preprocess.graph(rows.features, builder);
        let distance = self.distance_graph(x, builder);
        let score = builder.neg(distance);
        Ok(match is_zero {
            Some(is_zero) => builder.put_last(is_zero, score),
            None => score,
        })
    }

    fn found(&self) -> Found {
        Found::from([
            ("rank".to_owned(), self.whitening.nrows() as f64),
            ("centres".to_owned(), self.centres.nrows() as f64),
        ])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}centre"), &self.centre);
        writer.array2(format!("{prefix}whitening"), &self.whitening);
        writer.array2(format!("{prefix}centres"), &self.centres);
    }
}

fn squared(row: &ndarray::ArrayView1<'_, f64>) -> f64 {
    vector::sum_of_squares(contiguous(row))
}
