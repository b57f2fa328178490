//! How far z lies off the main subspace seen from o = −W⁺b: ‖Rᵀ(z − o)‖, R the directions beyond the D
//! leading ones of the second moment of z − o (about o, not about the mean).

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, s};
use rayon::prelude::*;

use super::model::Stored;
use super::option::{COMPONENTS, Options};
use crate::graph::{Builder, Value};
use crate::io::{Head, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous};
use crate::training::part::{Part, number};
use crate::training::statistics::Statistics;
use crate::training::{BLOCK, Training};
use crate::{Error, Result};

/// Precision of the last layer, unless told otherwise: singular values at its rounding level are noise.
pub(super) const HEAD_PRECISION: f64 = f32::EPSILON as f64;

/// o and R.
#[derive(Debug, Clone)]
pub(super) struct OffSubspace {
    origin: Array1<f64>,
    /// R, one direction per row.
    directions: Array2<f64>,
}

/// Offers D.
pub(super) fn dimensions_option(
    options: &mut Options<'_>,
    components: &mut Option<usize>,
) -> Result<()> {
    let words = "1000 if the width is at least 2048, 512 from 768 on, else half of it";
    options.add_or(&COMPONENTS, components, words).map(drop)
}

/// D of the public code: 1000 for features of at least 2048, 512 from 768 on, else half the width.
fn default_dimensions(width: usize) -> usize {
    match width {
        2048.. => 1000,
        768.. => 512,
        _ => (width / 2).max(1),
    }
}

impl OffSubspace {
    /// From the moments of the training rows.
    pub(super) fn fit(
        components: Option<usize>,
        head_precision: f64,
        head: &Head,
        known: &Statistics,
    ) -> Result<Self> {
        let moments = known.moments();
        let width = moments.width();
        let kept = components.unwrap_or_else(|| default_dimensions(width));
        if kept >= width {
            let expected = format!("fewer than the {width} channels, so that a residual is left");
            return Err(Error::parameter("components", expected, kept));
        }
        known.once(&format!("off a subspace {kept} {head_precision}"), || {
            let origin = -linalg::least_squares(head.weight.view(), &head.bias, head_precision)?;
            // (1/n) Σ (z − o)(z − o)ᵀ = covariance + (mean − o)(mean − o)ᵀ
            let offset = (moments.mean() - &origin).insert_axis(Axis(1));
            let second = moments.covariance() + offset.dot(&offset.t());
            let eigen = linalg::symmetric_eigen(second.view())?;
            let directions = eigen.vectors.slice(s![kept.., ..]).as_standard_layout().into_owned();
            Ok(OffSubspace { origin, directions })
        })
    }

    /// ‖Rᵀ(z − o)‖ of each row.
    pub(super) fn lengths(&self, z: ArrayView2<'_, f64>) -> Vec<f64> {
        let offset = &z - &self.origin;
        let mut projected = Array2::zeros((z.nrows(), self.directions.nrows()));
        unpacked::multiply(projected.view_mut(), offset.view(), self.directions.t());
        let norm = |row: ArrayView1<'_, f64>| vector::sum_of_squares(contiguous(&row)).sqrt();
        projected.rows().into_iter().map(norm).collect()
    }

    /// The same within a graph.
    pub(super) fn graph<'a>(&'a self, z: Value, builder: &mut Builder<'a>) -> Value {
        let origin = builder.vector("origin", &self.origin);
        let offset = builder.sub(z, origin);
        let off = builder.linear("residual", offset, self.directions.view());
        builder.length(off)
    }

    /// The mean length over the training rows.
    pub(super) fn mean_length(&self, training: &Training<'_>) -> Result<f64> {
        let stage = "residuals of the training rows";
        let mut part = training.pass(stage, || {
            let (mut sum, mut count) = (0.0, 0);
            training.for_each_chunk(stage, |rows, z| {
                let blocks: Vec<f64> = z
                    .axis_chunks_iter(Axis(0), BLOCK)
                    .into_par_iter()
                    .map(|z| self.lengths(z).iter().sum())
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

    /// How many directions R has.
    pub(super) fn count(&self) -> usize {
        self.directions.nrows()
    }

    pub(super) fn read(stored: Stored<'_>) -> Result<Self> {
        Ok(OffSubspace {
            origin: stored.vector("origin", stored.width)?,
            directions: stored.matrix("residual", None, stored.width)?,
        })
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}origin"), &self.origin);
        writer.array2(format!("{prefix}residual"), &self.directions);
    }
}
