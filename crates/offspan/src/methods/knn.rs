//! Distance to the k-th nearest training row (Sun et al. 2022): −(k-th smallest ‖ẑ − ẑ_i‖²).

use std::sync::Arc;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::bank::{BANK, Bank, BankSize, NEIGHBOURS, bank_rows};
use super::memory::FitSize;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_walk};
use super::model::{Found, Model, RowValues, Scorer, Stored, put_last};
use super::option::{Options, SEED};
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Dataset, TensorWriter, read_rows};
use crate::span::preprocess::Preprocess;
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};

/// Parameters of KNN.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KnnParams {
    /// k
    pub neighbours: usize,
    /// How many of the training rows the bank holds.
    pub bank: BankSize,
    /// Seed of the choice of the bank's rows.
    pub seed: u64,
}

impl Default for KnnParams {
    fn default() -> Self {
        KnnParams { neighbours: 50, bank: BankSize::Share(1.0), seed: 0 }
    }
}

impl Method for KnnParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: "knn",
            summary: "distance to the k-th nearest training row, on unit vectors",
            needs: "features only; the file holds the bank (4 bytes × rows × width)",
            source: "Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, 2022",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&NEIGHBOURS, &mut self.neighbours)?;
        options.add(&BANK, &mut self.bank)?;
        options.add(&SEED, &mut self.seed).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        self.bank.check()?;
        Ok(Arc::new(*self))
    }
}

impl Fit for KnnParams {
    fn memory(&self, size: &FitSize) -> u64 {
        size.bank(self.bank)
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let rows = bank_rows(self.bank, self.neighbours, self.seed, training)?;
        let neighbours = self.neighbours;
        Ok(from_walk(Bank::gather(&rows, training)?.map(|bank| Knn { neighbours, bank })))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let bank = Bank::read(self.neighbours, stored)?;
        Ok(Arc::new(Knn { neighbours: self.neighbours, bank }))
    }
}

/// The bank and k.
#[derive(Debug, Clone)]
struct Knn {
    neighbours: usize,
    bank: Bank,
}

/// Unit queries in single precision, and those that have no direction.
pub(super) fn unit_queries(
    data: &Dataset<'_>,
    start: usize,
    count: usize,
) -> Result<(Array2<f32>, Vec<usize>)> {
    let mut queries = read_rows::<f32>(&*data.features, start..start + count)?;
    let zero_rows = Preprocess { clip: None, cosine: true }.apply(queries.view_mut());
    Ok((queries, zero_rows))
}

impl Scorer for Knn {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let (queries, zero_rows) = unit_queries(data, start, out.len())?;
        let nearest = self.bank.nearest(queries.view(), self.neighbours);
        // Both are unit vectors: ‖a − b‖² = 2 − 2aᵀb.
        for (out, nearest) in out.iter_mut().zip(nearest) {
            *out = -(2.0 - 2.0 * f64::from(nearest.smallest())).max(0.0);
        }
        put_last(zero_rows, out);
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let (unit, _, is_zero) = builder.unit_rows(rows.features);
        let products = builder.linear("bank", unit, self.bank.0.view());
        let (nearest, _) = builder.top_k(products, self.neighbours, true);
        let last = builder.part(nearest, self.neighbours - 1, self.neighbours);
        let last = builder.as_row(last);
        let negative = builder.times(last, 2.0);
        let negative = builder.plus(negative, -2.0);
        let score = builder.at_most(negative, 0.0);
        Ok(builder.put_last(is_zero, score))
    }

    fn found(&self) -> Found {
        self.bank.found()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}bank"), &self.bank.0);
    }
}
