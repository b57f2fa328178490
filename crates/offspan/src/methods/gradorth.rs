//! GradOrth (Behpour et al. 2023): ‖p − 1/C‖₂·‖Bᵀz‖₂, the last layer's gradient projected on the
//! subspace B of the uncentred training rows that holds a share of their energy.

use std::sync::Arc;

use ndarray::{Array2, Axis, s};
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, write_head};
use super::option::{EXPLAINED_VARIANCE, Options};
use crate::graph::{Builder, Op, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::span::subspace::Components;
use crate::training::logits::softmax;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "gradorth";

/// Parameters of GradOrth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GradOrthParams {
    /// Share of the energy that the subspace holds.
    pub explained_variance: f64,
}

impl Default for GradOrthParams {
    fn default() -> Self {
        GradOrthParams { explained_variance: 0.97 }
    }
}

impl Method for GradOrthParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "the last layer's gradient within the subspace of the training rows",
            needs: "features; logits or head",
            source: "Behpour et al., GradOrth, 2023",
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

impl Fit for GradOrthParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { moments: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let moments = known.moments();
        let mean = moments.mean().clone().insert_axis(Axis(1));
        let second = moments.covariance() + mean.dot(&mean.t());
        let eigen = linalg::symmetric_eigen(second.view())?;
        let values: Vec<f64> = eigen.values.iter().map(|value| value.max(0.0)).collect();
        if values.iter().sum::<f64>() <= 0.0 {
            return Err(Error::NoVariance { what: training.data.name.clone() });
        }
        let kept = Components::ExplainedVariance(self.explained_variance).choose(&values)?;
        let directions = eigen.vectors.slice(s![..kept, ..]).as_standard_layout().into_owned();
        let head = training.head.map(Head::without_block);
        Ok(from_known(self, known, GradOrth { directions, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let directions = stored.matrix("directions", None, stored.width)?;
        Ok(Arc::new(GradOrth { directions, head: stored.head()? }))
    }
}

/// The subspace, one direction per row.
#[derive(Debug, Clone)]
struct GradOrth {
    directions: Array2<f64>,
    head: Option<Head>,
}

impl Scorer for GradOrth {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, self.head.as_ref()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let mut logits = logits_of(NAME, data, self.head.as_ref())?.logits(start, out.len())?;
        let mut projected = Array2::zeros((out.len(), self.directions.nrows()));
        unpacked::multiply(projected.view_mut(), z.view(), self.directions.t());
        let uniform = 1.0 / logits.ncols() as f64;
        for ((out, t), mut p) in out.iter_mut().zip(projected.rows()).zip(logits.rows_mut()) {
            let p = contiguous_mut(&mut p);
            softmax(p);
            let gradient: f64 = p.iter().map(|p| (p - uniform).powi(2)).sum();
            *out = (gradient * vector::sum_of_squares(contiguous(&t))).sqrt();
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, self.head.as_ref(), None, builder);
        let p = builder.softmax(logits);
        let uniform = builder.node(Op::ReduceMean { axis: 1, keep: true }, &[p]);
        let gap = builder.sub(p, uniform);
        let gradient = builder.length(gap);
        let projected = builder.linear("directions", rows.features, self.directions.view());
        let within = builder.length(projected);
        Ok(builder.mul(gradient, within))
    }

    fn found(&self) -> Found {
        Found::from([("directions".to_owned(), self.directions.nrows() as f64)])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}directions"), &self.directions);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
