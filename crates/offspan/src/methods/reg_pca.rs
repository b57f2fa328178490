//! RegPCA (Guan et al. 2023): E(l)·(1 − r), r = ‖(I − U_qU_qᵀ)(z − μ)‖/‖z‖ the relative residual of
//! PCA.

use ndarray::{Array1, Array2, s};

use super::model::{Found, Scorer, Stored, logits_of, rows_of, write_head};
use crate::Result;
use crate::io::{Dataset, Head, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector;
use crate::numeric::vector::contiguous;
use crate::span::subspace::Components;
use crate::training::Training;
use crate::training::logits::{LogitSource, Need};
use crate::training::statistics::Statistics;

const NAME: &str = "reg-pca";

/// Mean and leading directions.
#[derive(Debug, Clone)]
pub(crate) struct RegPca {
    mean: Array1<f64>,
    directions: Array2<f64>,
    head: Option<Head>,
}

/// q where none is given: 256, or half the width where that is less.
pub(super) fn default_components(width: usize) -> usize {
    256.min((width / 2).max(1))
}

impl RegPca {
    pub(super) fn fit(
        components: Option<usize>,
        training: &Training<'_>,
        known: &Statistics,
    ) -> Result<Self> {
        LogitSource::of(training.data, training.head, None, Need::Method(NAME))?;
        let moments = known.moments();
        let eigen = linalg::symmetric_eigen(moments.covariance().view())?;
        let asked = components.unwrap_or_else(|| default_components(training.data.width()));
        let kept = Components::Fixed(asked).choose(&eigen.values)?;
        Ok(RegPca {
            mean: moments.mean().clone(),
            directions: eigen.vectors.slice(s![..kept, ..]).as_standard_layout().into_owned(),
            head: training.head.map(Head::without_block),
        })
    }

    pub(super) fn read(stored: Stored<'_>) -> Result<Self> {
        Ok(RegPca {
            mean: stored.vector("mean", stored.width)?,
            directions: stored.matrix("directions", None, stored.width)?,
            head: stored.head()?,
        })
    }
}

impl Scorer for RegPca {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, self.head.as_ref()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = rows_of(&*data.features, start, out.len())?;
        logits_of(NAME, data, self.head.as_ref())?.read(start, out)?;
        let offset = &z - &self.mean;
        let mut projected = Array2::zeros((out.len(), self.directions.nrows()));
        unpacked::multiply(projected.view_mut(), offset.view(), self.directions.t());
        let squared = |row: ndarray::ArrayView1<'_, f64>| vector::sum_of_squares(contiguous(&row));
        for (i, out) in out.iter_mut().enumerate() {
            let residual = squared(offset.row(i)) - squared(projected.row(i));
            let length = squared(z.row(i));
            *out = if length > 0.0 {
                *out * (1.0 - (residual.max(0.0) / length).sqrt())
            } else {
                f64::NEG_INFINITY
            };
        }
        Ok(())
    }

    fn found(&self) -> Found {
        Found::from([("components".to_owned(), self.directions.nrows() as f64)])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}mean"), &self.mean);
        writer.array2(format!("{prefix}directions"), &self.directions);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
