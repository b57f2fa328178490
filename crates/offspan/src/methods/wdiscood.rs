//! WDiscOOD (Chen et al. 2023): rows are whitened by the covariance inside the classes; in the directions G
//! in which class means then differ, the distance to the nearest class counts, and outside of them the
//! distance to the mean: −min_c ‖Gᵀ(z̄ − m_c)‖ − α‖(I − GGᵀ)(z̄ − m)‖.

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::{Array1, Array2, s};
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored, or_worst, put_last};
use super::option::{COMPONENTS, OptionInfo, Options, option};
use super::whitening::{largest_variance, split, whitening};
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous};
use crate::span::preprocess::Preprocess;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const RESIDUAL_WEIGHT: OptionInfo = option(
    "residual-weight",
    "A",
    "wdiscood, wdiscood-unit: weight of what lies outside of the directions of the classes",
);
/// Directions in which class means differ by less than this share of the largest difference are noise: the
/// square root of 1e-10, which is for variances.
const LEAST_DIFFERENCE: f64 = 1e-5;

/// Parameters of WDiscOOD.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WdiscoodParams {
    /// Whether rows are scaled to unit length first.
    pub unit: bool,
    /// Directions of the classes at most; there are never as many as classes.
    pub components: usize,
    /// α
    pub residual_weight: f64,
}

impl WdiscoodParams {
    /// The authors' setting for ResNets.
    pub const RAW: Self = WdiscoodParams { unit: false, components: 1000, residual_weight: 5.0 };
    /// The authors' setting for transformers and contrastive features.
    pub const UNIT: Self = WdiscoodParams { unit: true, components: 512, residual_weight: 1.0 };

    fn known_as(self) -> &'static str {
        if self.unit { "wdiscood-unit" } else { "wdiscood" }
    }
}

impl Method for WdiscoodParams {
    fn entries() -> Vec<Entry<Self>> {
        let entry = |default: WdiscoodParams, summary| Entry {
            name: default.known_as(),
            summary,
            needs: "features and labels",
            source: "Chen et al., WDiscOOD: Out-of-Distribution Detection via Whitened Linear Discriminant Analysis, 2023",
            parity: GOLDEN_BASELINE,
            default,
        };
        vec![
            entry(
                Self::RAW,
                "distance to the nearest class among the directions of classes, and to the mean among the others",
            ),
            entry(Self::UNIT, "the same on unit vectors"),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        self.known_as().into()
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&COMPONENTS, &mut self.components)?;
        options.add(&RESIDUAL_WEIGHT, &mut self.residual_weight).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if self.components == 0 {
            return Err(Error::parameter("components", "at least 1", 0));
        }
        if !(self.residual_weight >= 0.0 && self.residual_weight.is_finite()) {
            let got = self.residual_weight;
            return Err(Error::parameter("residual-weight", "a number of at least 0", got));
        }
        Ok(Arc::new(*self))
    }
}

impl Fit for WdiscoodParams {
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
        let (moments, classes) = match self.unit {
            true => (known.unit_moments(), known.unit_classes()),
            false => (known.moments(), known.classes()),
        };
        let name = &training.data.name;
        let (offsets, within) = split(moments, classes);
        let scale = largest_variance(&moments.covariance());
        let whitening = whitening(&within, scale, &format!("{name}, inside each class"))?;
        let means = linalg::product(offsets.view(), whitening.t());
        let found = linalg::right_singular(means.view())?;
        // Whitened, the spread inside the classes is 1; class means that differ by rounding noise do not.
        let largest = found.values.first().copied().unwrap_or(0.0);
        let floor = LEAST_DIFFERENCE * largest;
        let rank = found.values.iter().take_while(|value| **value > floor).count();
        if rank == 0 || largest < LEAST_DIFFERENCE {
            return Err(Error::NoVariance { what: format!("class means of {name}") });
        }
        let kept = rank.min(self.components);
        let directions = found.vectors.slice(s![..kept, ..]).as_standard_layout().into_owned();
        let model = Wdiscood {
            params: *self,
            centre: moments.mean().clone(),
            classes: linalg::product(means.view(), directions.t()),
            whitening,
            directions,
        };
        Ok(from_known(self, known, model))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let whitening: Array2<f64> = stored.matrix("whitening", None, stored.width)?;
        let directions: Array2<f64> = stored.matrix("directions", None, whitening.nrows())?;
        Ok(Arc::new(Wdiscood {
            params: *self,
            centre: stored.vector("centre", stored.width)?,
            classes: stored.matrix("classes", None, directions.nrows())?,
            whitening,
            directions,
        }))
    }
}

/// Whitened directions.
#[derive(Debug, Clone)]
struct Wdiscood {
    params: WdiscoodParams,
    centre: Array1<f64>,
    /// One row per direction of whitened rows.
    whitening: Array2<f64>,
    /// G, one row per direction.
    directions: Array2<f64>,
    /// Gᵀ(m_c − m), one row per class.
    classes: Array2<f64>,
}

impl Scorer for Wdiscood {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut x = Block::read(&*data.features, start, out.len())?;
        let zero_rows = Preprocess { clip: None, cosine: self.params.unit }.apply(x.view_mut());
        *x -= &self.centre;
        let mut white = Array2::zeros((out.len(), self.whitening.nrows()));
        unpacked::multiply(white.view_mut(), x.view(), self.whitening.t());
        let mut inside = Array2::zeros((out.len(), self.directions.nrows()));
        unpacked::multiply(inside.view_mut(), white.view(), self.directions.t());
        let squared = |row: ndarray::ArrayView1<'_, f64>| vector::sum_of_squares(contiguous(&row));
        for ((out, white), inside) in out.iter_mut().zip(white.rows()).zip(inside.rows()) {
            let to_class = |class: ndarray::ArrayView1<'_, f64>| {
                vector::squared_distance(contiguous(&inside), contiguous(&class))
            };
            let nearest =
                self.classes.rows().into_iter().map(to_class).fold(f64::INFINITY, f64::min);
            let outside = (squared(white) - squared(inside)).max(0.0);
            *out = or_worst(-nearest.sqrt() - self.params.residual_weight * outside.sqrt());
        }
        put_last(zero_rows, out);
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let preprocess = Preprocess { clip: None, cosine: self.params.unit };
        let (x, is_zero) = preprocess.graph(rows.features, builder);
        let centre = builder.vector("centre", &self.centre);
        let offset = builder.sub(x, centre);
        let white = builder.linear("whitening", offset, self.whitening.view());
        let inside = builder.linear("directions_across", white, self.directions.view());
        let gap = builder.gap_to_nearest("classes", inside, self.classes.view());
        let nearest = builder.length(gap);
        // What the directions leave of the row itself, and not a difference of two lengths.
        let directions = builder.matrix("directions", self.directions.view());
        let within = builder.matmul(inside, directions);
        let rest = builder.sub(white, within);
        let outside = builder.length(rest);
        let outside = builder.times(outside, self.params.residual_weight);
        let sum = builder.add(nearest, outside);
        let score = builder.neg(sum);
        Ok(match is_zero {
            Some(is_zero) => builder.put_last(is_zero, score),
            None => score,
        })
    }

    fn found(&self) -> Found {
        Found::from([
            ("rank".to_owned(), self.whitening.nrows() as f64),
            ("directions of classes".to_owned(), self.directions.nrows() as f64),
        ])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}centre"), &self.centre);
        writer.array2(format!("{prefix}whitening"), &self.whitening);
        writer.array2(format!("{prefix}directions"), &self.directions);
        writer.array2(format!("{prefix}classes"), &self.classes);
    }
}
