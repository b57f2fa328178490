//! RegPCA (Guan et al. 2023): E(l)·(1 − r), r = ‖(I − U_qU_qᵀ)(z − μ)‖/‖z‖ the relative residual of
//! PCA.

use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2, s};
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, check_count, from_known};
use super::model::{
    Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, or_worst, write_head,
};
use super::option::{COMPONENTS, Options};
use crate::Result;
use crate::graph::{Builder, Op, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous};
use crate::span::subspace::Components;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};

const NAME: &str = "reg-pca";

/// Parameters of RegPCA.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegPcaParams {
    /// q; 256, or half the width where that is less, if none is given.
    pub components: Option<usize>,
}

impl Method for RegPcaParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "energy times one minus the relative residual of PCA",
            needs: "features; logits or head",
            source: "Guan et al., Revisit PCA-based Technique for Out-of-Distribution Detection, 2023",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        let words = "256, or half the width where that is less";
        options.add_or(&COMPONENTS, &mut self.components, words).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        check_count(self.components)?;
        Ok(Arc::new(*self))
    }
}

impl Fit for RegPcaParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { moments: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let principal = Principal::fit(self.components, known)?;
        let head = training.head.map(Head::without_block);
        Ok(from_known(self, known, RegPca { principal, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(RegPca { principal: Principal::read(stored)?, head: stored.head()? }))
    }
}

/// Mean and leading directions of the rows.
#[derive(Debug, Clone)]
pub(super) struct Principal {
    mean: Array1<f64>,
    directions: Array2<f64>,
}

impl Principal {
    /// With so many directions; 256, or half the width where that is less, if none is given.
    pub(super) fn fit(components: Option<usize>, known: &Statistics) -> Result<Self> {
        let moments = known.moments();
        let asked = components.unwrap_or_else(|| default_components(moments.width()));
        known.once(&format!("principal directions {asked}"), || {
            let eigen = linalg::symmetric_eigen(moments.covariance().view())?;
            let kept = Components::Fixed(asked).choose(&eigen.values)?;
            let directions = eigen.vectors.slice(s![..kept, ..]).as_standard_layout().into_owned();
            Ok(Principal { mean: moments.mean().clone(), directions })
        })
    }

    pub(super) fn mean(&self) -> &Array1<f64> {
        &self.mean
    }

    /// ‖(I − UUᵀ)(z − μ)‖/‖z‖ of each row; NaN for a row of zeros.
    pub(super) fn relative_residuals(&self, z: ArrayView2<'_, f64>) -> Vec<f64> {
        let offset = &z - &self.mean;
        let mut projected = Array2::zeros((z.nrows(), self.directions.nrows()));
        unpacked::multiply(projected.view_mut(), offset.view(), self.directions.t());
        let squared = |row: ndarray::ArrayView1<'_, f64>| vector::sum_of_squares(contiguous(&row));
        let relative = |i: usize| {
            let residual = squared(offset.row(i)) - squared(projected.row(i));
            let length = squared(z.row(i));
            if length > 0.0 { (residual.max(0.0) / length).sqrt() } else { f64::NAN }
        };
        (0..z.nrows()).map(relative).collect()
    }

    /// The same within a graph, and which rows are zeros, [N, 1].
    pub(super) fn residual_graph<'a>(
        &'a self,
        z: Value,
        builder: &mut Builder<'a>,
    ) -> (Value, Value) {
        let mean = builder.vector("mean", &self.mean);
        let offset = builder.sub(z, mean);
        // What the directions leave of the row itself, and not a difference of two lengths.
        let directions = builder.matrix("directions", self.directions.view());
        let across = builder.node(Op::Transpose { order: vec![1, 0] }, &[directions]);
        let along = builder.matmul(offset, across);
        let within = builder.matmul(along, directions);
        let rest = builder.sub(offset, within);
        let residual = builder.length(rest);
        let (_, length, is_zero) = builder.unit_rows(z);
        let length = builder.as_row(length);
        (builder.div(residual, length), is_zero)
    }

    pub(super) fn read(stored: Stored<'_>) -> Result<Self> {
        Ok(Principal {
            mean: stored.vector("mean", stored.width)?,
            directions: stored.matrix("directions", None, stored.width)?,
        })
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}mean"), &self.mean);
        writer.array2(format!("{prefix}directions"), &self.directions);
    }
}

/// q where none is given: 256, or half the width where that is less.
fn default_components(width: usize) -> usize {
    256.min((width / 2).max(1))
}

/// Principal directions, and the last layer for rows that come without logits.
#[derive(Debug, Clone)]
struct RegPca {
    principal: Principal,
    head: Option<Head>,
}

impl Scorer for RegPca {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, self.head.as_ref()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        logits_of(NAME, data, self.head.as_ref())?.read(start, out)?;
        for (out, residual) in out.iter_mut().zip(self.principal.relative_residuals(z.view())) {
            *out = or_worst(*out * (1.0 - residual));
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, self.head.as_ref(), None, builder);
        let energy = builder.log_sum_exp(logits, 1.0);
        let (share, is_zero) = self.principal.residual_graph(rows.features, builder);
        let share = builder.neg(share);
        let share = builder.plus(share, 1.0);
        let score = builder.mul(energy, share);
        Ok(builder.put_last(is_zero, score))
    }

    fn found(&self) -> Found {
        Found::from([("components".to_owned(), self.principal.directions.nrows() as f64)])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.principal.write(prefix, writer);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
