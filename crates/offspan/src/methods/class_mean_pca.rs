//! The share of z − g that lies in the span of the class means, ‖Uᵀ(z − g)‖²/‖z − g‖²: g is the mean of the
//! class means μ_c, U the leading directions of μ_c − g. The form of GradPCA for the last layer.

use std::sync::Arc;

use ndarray::{Array1, Array2, Axis, s};
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored};
use super::option::{EXPLAINED_VARIANCE, Options};
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous};
use crate::span::subspace::Components;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

/// Parameters of class-mean PCA.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassMeanPcaParams {
    /// r
    pub explained_variance: f64,
}

impl Default for ClassMeanPcaParams {
    fn default() -> Self {
        ClassMeanPcaParams { explained_variance: 0.99 }
    }
}

impl Method for ClassMeanPcaParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: "class-mean-pca",
            summary: "share of the features that lies in the span of the class means",
            needs: "features and labels",
            source: "Seleznova et al., GradPCA, 2025; its form for the last layer",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&EXPLAINED_VARIANCE, &mut self.explained_variance).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Components::ExplainedVariance(self.explained_variance).check()?;
        Ok(Arc::new(*self))
    }
}

impl Fit for ClassMeanPcaParams {
    fn needs(&self) -> Needs {
        Needs { classes: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let means = &known.classes().means;
        let no_variance =
            || Error::NoVariance { what: format!("class means of {}", training.data.name) };
        let centre = means.mean_axis(Axis(0)).ok_or_else(no_variance)?;
        let offsets = means - &centre;
        let found = linalg::right_singular(offsets.view())?;
        let squares: Vec<f64> = found.values.iter().map(|value| value * value).collect();
        // Of equal means, differences are rounding noise in the size of the means.
        let size = means.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        let noise = size * f64::EPSILON * means.len() as f64;
        if found.values.first().is_none_or(|largest| *largest <= noise) {
            return Err(no_variance());
        }
        let kept = Components::ExplainedVariance(self.explained_variance).choose(&squares)?;
        let directions = found.vectors.slice(s![..kept, ..]).as_standard_layout().into_owned();
        Ok(from_known(self, known, ClassMeanPca { centre, directions }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(ClassMeanPca {
            centre: stored.vector("centre", stored.width)?,
            directions: stored.matrix("directions", None, stored.width)?,
        }))
    }
}

/// g and U.
#[derive(Debug, Clone)]
struct ClassMeanPca {
    centre: Array1<f64>,
    /// One direction per row.
    directions: Array2<f64>,
}

impl Scorer for ClassMeanPca {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut z = Block::read(&*data.features, start, out.len())?;
        *z -= &self.centre;
        let mut inside = Array2::zeros((out.len(), self.directions.nrows()));
        unpacked::multiply(inside.view_mut(), z.view(), self.directions.t());
        for ((out, z), inside) in out.iter_mut().zip(z.rows()).zip(inside.rows()) {
            let whole = vector::sum_of_squares(contiguous(&z));
            *out = if whole > 0.0 {
                vector::sum_of_squares(contiguous(&inside)) / whole
            } else {
                f64::NEG_INFINITY
            };
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let centre = builder.vector("centre", &self.centre);
        let offset = builder.sub(rows.features, centre);
        let (unit, _, is_zero) = builder.unit_rows(offset);
        let inside = builder.linear("directions", unit, self.directions.view());
        let share = builder.squared_length(inside);
        Ok(builder.put_last(is_zero, share))
    }

    fn found(&self) -> Found {
        Found::from([("components".to_owned(), self.directions.nrows() as f64)])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}centre"), &self.centre);
        writer.array2(format!("{prefix}directions"), &self.directions);
    }
}
