//! GradNorm (Huang et al. 2021): ‖z‖₁ · Σ_c |C·p_c − 1|, the closed form of the L1 norm of the last
//! layer's gradient of the divergence between softmax and uniform.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Model, RowValues, Scorer, Stored, logits_graph, logits_of, write_head};
use crate::Result;
use crate::graph::{Builder, Op, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous_mut;
use crate::training::logits::softmax;
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};

const NAME: &str = "gradnorm";

/// Parameters of GradNorm: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GradNormParams {}

impl Method for GradNormParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "L1 norm of the last layer's gradient, in closed form",
            needs: "features; logits or head",
            source: "Huang et al., On the Importance of Gradients for Detecting Distributional Shifts, 2021",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }
}

impl Fit for GradNormParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head.map(Head::without_block);
        Ok(from_known(self, known, GradNorm { head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(GradNorm { head: stored.head()? }))
    }
}

/// The last layer is kept for rows that come without logits.
#[derive(Debug, Clone)]
struct GradNorm {
    head: Option<Head>,
}

impl Scorer for GradNorm {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, self.head.as_ref()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let mut logits = logits_of(NAME, data, self.head.as_ref())?.logits(start, out.len())?;
        let classes = logits.ncols() as f64;
        for ((out, z), mut logits) in out.iter_mut().zip(z.rows()).zip(logits.rows_mut()) {
            softmax(contiguous_mut(&mut logits));
            let length: f64 = z.iter().map(|x| x.abs()).sum();
            *out = length * logits.iter().map(|p| (classes * p - 1.0).abs()).sum::<f64>();
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, self.head.as_ref(), None, builder);
        let p = builder.softmax(logits);
        // The mean of probabilities is one over their number.
        let uniform = builder.node(Op::ReduceMean { axis: 1, keep: true }, &[p]);
        let share = builder.div(p, uniform);
        let gap = builder.plus(share, -1.0);
        let gap = builder.abs(gap);
        let gap = builder.sum(gap);
        let sizes = builder.abs(rows.features);
        let length = builder.sum(sizes);
        Ok(builder.mul(length, gap))
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        write_head(self.head.as_ref(), prefix, writer);
    }
}
