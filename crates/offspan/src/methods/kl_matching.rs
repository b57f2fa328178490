//! KL matching (Hendrycks et al. 2022): −min_k KL(p ‖ d_k), d_k the mean softmax of the training rows for
//! which the network predicts class k. A class that it never predicts is left out.

use std::sync::Arc;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{
    Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of_classes, write_head,
};
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Dataset, Head, TensorWriter};
use crate::numeric::product::unpacked;
use crate::numeric::vector::contiguous_mut;
use crate::training::logits::energy;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};

const NAME: &str = "klm";

/// Parameters of KL matching: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KlmParams {}

impl Method for KlmParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "divergence of the softmax from the typical one of the nearest class",
            needs: "logits, or features and head",
            source: "Hendrycks et al., Scaling Out-of-Distribution Detection for Real-World Settings, 2022",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }
}

impl Fit for KlmParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { probabilities: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        // A mean of exponentials may underflow to 0, of which there is no logarithm.
        let logs = known.probabilities().means.mapv(|d| d.max(f64::MIN_POSITIVE).ln());
        let head = training.head.map(Head::without_block);
        Ok(from_known(self, known, Klm { logs, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(Klm { logs: stored.matrix_of_any("logs")?, head: stored.head()? }))
    }
}

/// log d_k, one row per class that was predicted.
#[derive(Debug, Clone)]
struct Klm {
    logs: Array2<f64>,
    head: Option<Head>,
}

impl Scorer for Klm {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of_classes(NAME, data, self.head.as_ref(), self.logs.ncols()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let source = logits_of_classes(NAME, data, self.head.as_ref(), self.logs.ncols())?;
        let mut p = source.logits(start, out.len())?;
        for (out, mut row) in out.iter_mut().zip(p.rows_mut()) {
            let row = contiguous_mut(&mut row);
            let whole = energy(row, 1.0);
            *out = 0.0;
            for x in row {
                let log_p = *x - whole;
                *x = log_p.exp();
                // Σ p log p; a probability that underflows counts as nothing.
                *out += *x * log_p;
            }
        }
        // KL = Σ p log p − Σ p log d: the nearest class has the largest product.
        let mut products = Array2::zeros((out.len(), self.logs.nrows()));
        unpacked::multiply(products.view_mut(), p.view(), self.logs.t());
        for (out, products) in out.iter_mut().zip(products.rows()) {
            *out = products.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x)) - *out;
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let classes = Some(self.logs.ncols());
        let logits = logits_graph(rows, self.head.as_ref(), classes, builder);
        let log_p = builder.log_softmax(logits);
        let p = builder.exp(log_p);
        // The nearest class has the largest product; its divergence is then one sum, and no difference of two.
        let products = builder.linear("logs_across", p, self.logs.view());
        let nearest = builder.place_of_largest(products);
        let logs = builder.matrix("logs", self.logs.view());
        let log_d = builder.rows_at(logs, nearest);
        let above = builder.sub(log_d, log_p);
        let parts = builder.mul(p, above);
        Ok(builder.sum(parts))
    }

    fn found(&self) -> Found {
        Found::from([("predicted classes".to_owned(), self.logs.nrows() as f64)])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}logs"), &self.logs);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
