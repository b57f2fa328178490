//! LTS (Djurisic et al. 2024): logits times s = (Σ relu z / Σ of its k largest entries)². Features stay as
//! they are.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};

use super::ash::count_largest;
use super::step::{Step, StepParams, check_percent};
use crate::graph::{Builder, Op, Value};
use crate::io::Head;
use crate::methods::Stored;
use crate::methods::method::{Entry, GOLDEN_BASELINE};
use crate::methods::option::{Options, PRUNE};
use crate::numeric::vector::contiguous;
use crate::training::Training;
use crate::training::logits::{head_graph, head_logits};
use crate::training::statistics::Statistics;
use crate::{Error, Result};

/// Parameters of LTS.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LtsParams {
    /// Percent of the entries that are not among the largest.
    pub prune: f64,
}

impl Default for LtsParams {
    fn default() -> Self {
        LtsParams { prune: 95.0 }
    }
}

impl StepParams for LtsParams {
    fn entry() -> Entry<Self> {
        Entry {
            name: "lts",
            summary: "logits grow with the share of activations beside the largest, then the energy",
            needs: "features and head",
            source: "Djurisic et al., Logit Scaling for Out-of-Distribution Detection, 2024",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&PRUNE, &mut self.prune).map(drop)
    }

    fn check(&self) -> Result<()> {
        check_percent("prune", self.prune)
    }

    fn changes_head(&self) -> bool {
        true
    }

    fn keeps_features(&self) -> bool {
        true
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Arc<dyn Step>> {
        let head = training.head("lts")?.without_block();
        Ok(Arc::new(Lts { prune: self.prune, head }))
    }

    fn read(&self, _: Stored<'_>, head: Option<&Head>) -> Result<Arc<dyn Step>> {
        let head = head.ok_or_else(|| Error::shape("the detector", "a last layer", "none"))?;
        Ok(Arc::new(Lts { prune: self.prune, head: head.clone() }))
    }
}

/// The share of the largest entries, and the last layer whose logits are scaled.
#[derive(Debug, Clone)]
struct Lts {
    prune: f64,
    head: Head,
}

/// k; of a short row at least one.
fn count_kept(width: usize, prune: f64) -> usize {
    count_largest(width, prune).max(1).min(width)
}

/// s of a row; 1 for one without positive entries.
fn factor(row: &[f64], prune: f64) -> f64 {
    let mut positive: Vec<f64> = row.iter().map(|x| x.max(0.0)).collect();
    let sum: f64 = positive.iter().sum();
    let kept = count_kept(row.len(), prune);
    positive.sort_unstable_by(|a, b| b.total_cmp(a));
    let largest: f64 = positive[..kept].iter().sum();
    if largest > 0.0 { (sum / largest).powi(2) } else { 1.0 }
}

impl Step for Lts {
    fn logits(&self, rows: ArrayView2<'_, f64>, _: Option<&[usize]>) -> Option<Array2<f64>> {
        let mut logits = head_logits(&self.head, rows);
        for (mut logits, row) in logits.rows_mut().into_iter().zip(rows.rows()) {
            logits *= factor(contiguous(&row), self.prune);
        }
        Some(logits)
    }

    fn graph(&self, rows: Value, _: &mut Builder<'_>) -> (Value, Option<Value>) {
        (rows, None)
    }

    fn logits_graph(
        &self,
        rows: Value,
        _: Option<Value>,
        builder: &mut Builder<'_>,
    ) -> Option<Value> {
        let logits = head_graph(&self.head, rows, builder);
        let positive = builder.node(Op::Relu, &[rows]);
        let sum = builder.sum_kept(positive);
        let kept = count_kept(builder.last_size(rows), self.prune);
        let (largest, _) = builder.top_k(positive, kept, true);
        let largest = builder.sum_kept(largest);
        let (zero, one) = (builder.scalar(0.0), builder.scalar(1.0));
        let is_positive = builder.node(Op::Greater, &[largest, zero]);
        let divisor = builder.choose(is_positive, largest, one);
        let share = builder.div(sum, divisor);
        let factor = builder.square(share);
        let factor = builder.choose(is_positive, factor, one);
        Some(builder.mul(logits, factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_entries_do_not_count_and_rows_without_positive_ones_stay() {
        assert_eq!(factor(&[1.0, 4.0, -9.0, 3.0], 50.0), (8f64 / 7.0).powi(2));
        assert_eq!(factor(&[-1.0, 0.0], 50.0), 1.0);
        // Of a short row at least one entry is among the largest.
        assert_eq!(factor(&[1.0, 3.0], 99.0), (4f64 / 3.0).powi(2));
    }
}
