//! GEN (Liu et al. 2023): −Σ p^γ(1 − p)^γ over the M largest probabilities, a generalised entropy that
//! small probabilities move as well.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{
    Model, RowValues, Scorer, Stored, known_classes, logits_graph, logits_of, write_head,
};
use super::option::{EXPONENT, Options, TOP};
use crate::graph::{Builder, Value};
use crate::io::{Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous_mut;
use crate::training::logits::softmax;
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "gen";

/// Parameters of GEN.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GenParams {
    /// γ
    pub exponent: f64,
    /// M; all classes where there are fewer.
    pub top: usize,
}

impl Default for GenParams {
    fn default() -> Self {
        GenParams { exponent: 0.1, top: 100 }
    }
}

impl Method for GenParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "generalised entropy of the largest softmax probabilities",
            needs: "logits, or features and head",
            source: "Liu et al., GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection, 2023",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&EXPONENT, &mut self.exponent)?;
        options.add(&TOP, &mut self.top).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if !(self.exponent > 0.0 && self.exponent <= 1.0) {
            return Err(Error::parameter("exponent", "a number in (0, 1]", self.exponent));
        }
        if self.top == 0 {
            return Err(Error::parameter("top", "at least 1", 0));
        }
        Ok(Arc::new(*self))
    }
}

impl Fit for GenParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head.map(Head::without_block);
        Ok(from_known(self, known, Gen { params: *self, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(Gen { params: *self, head: stored.head()? }))
    }
}

/// The last layer is kept for rows that come without logits.
#[derive(Debug, Clone)]
struct Gen {
    params: GenParams,
    head: Option<Head>,
}

impl GenParams {
    /// The score of one row's probabilities, which lose their order.
    pub(super) fn of(&self, p: &mut [f64]) -> f64 {
        p.sort_unstable_by(|a, b| b.total_cmp(a));
        let Some((largest, others)) = p.split_first() else { return 0.0 };
        let part = |p: f64, rest: f64| (p * rest).max(0.0).powf(self.exponent);
        // One minus a probability near 1 has few digits left; the sum of the others has all of them, and
        // they matter: 4e-15 to the power of 0.1 is 0.04. Smallest first, so that none is lost.
        let rest: f64 = others.iter().rev().sum();
        let others = others.iter().take(self.top - 1);
        -(part(*largest, rest) + others.map(|p| part(*p, 1.0 - p)).sum::<f64>())
    }

    /// The same within a graph.
    pub(super) fn graph(self, logits: Value, builder: &mut Builder<'_>) -> Result<Value> {
        let classes = known_classes(logits, builder)?;
        // Small probabilities have no digits in single precision, but their roots count: so all by logarithms.
        let (sorted, _) = builder.top_k(logits, classes, true);
        let all = builder.log_sum_exp(sorted, 1.0);
        let all = builder.as_column(all);
        let log_p = builder.sub(sorted, all);
        let largest = builder.part(log_p, 0, 1);
        if classes == 1 {
            let nothing = builder.times(largest, 0.0);
            return Ok(builder.as_row(nothing));
        }
        let others = builder.part(log_p, 1, classes);
        let rest = builder.log_sum_exp(others, 1.0);
        let rest = builder.as_column(rest);
        let mut exponents = vec![builder.add(largest, rest)];
        if self.top > 1 {
            let others = builder.part(log_p, 1, self.top.min(classes));
            let p = builder.exp(others);
            let negative = builder.neg(p);
            let rest = builder.plus(negative, 1.0);
            let rest = builder.log(rest);
            exponents.push(builder.add(others, rest));
        }
        let exponents = builder.joined(&exponents);
        let exponents = builder.times(exponents, self.exponent);
        let parts = builder.exp(exponents);
        let sum = builder.sum(parts);
        Ok(builder.neg(sum))
    }
}

impl Scorer for Gen {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, self.head.as_ref()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut logits = logits_of(NAME, data, self.head.as_ref())?.logits(start, out.len())?;
        for (out, mut row) in out.iter_mut().zip(logits.rows_mut()) {
            let p = contiguous_mut(&mut row);
            softmax(p);
            *out = self.params.of(p);
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, self.head.as_ref(), None, builder);
        self.params.graph(logits, builder)
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        write_head(self.head.as_ref(), prefix, writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand_and_where_a_subtraction_would_lose_all_digits() {
        let score = |exponent, top, p: &[f64]| GenParams { exponent, top }.of(&mut p.to_vec());
        assert!((score(0.5, 2, &[0.2, 0.5, 0.3]) + 0.5 + 0.21f64.sqrt()).abs() < 1e-15);
        assert_eq!(score(0.5, 1, &[0.2, 0.5, 0.3]), -0.5);
        let rest = 1e-18;
        assert!((score(0.1, 1, &[rest, 1.0]) + rest.powf(0.1)).abs() < 1e-15);
    }
}
