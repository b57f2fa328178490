//! Distance to the tangent plane at the nearest training rows (TNN): the k nearest unit rows, their
//! mean and their d leading directions; −‖(I − TᵀT)(ẑ − mean)‖.

use std::sync::Arc;

use ndarray::{Array2, Axis};
use serde::{Deserialize, Serialize};

use super::bank::{BANK, Bank, BankSize, NEIGHBOURS, bank_rows};
use super::knn::unit_queries;
use super::memory::FitSize;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_walk};
use super::model::{Found, Model, RowValues, Scorer, Stored, not_exportable, put_last};
use super::option::{OptionInfo, Options, SEED, option};
use crate::graph::{Builder, Value};
use crate::io::{Dataset, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::vector::{self, contiguous};
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const TANGENTS: OptionInfo = option("tangents", "D", "tnn: dimensions of the tangent plane");

/// Why there is no graph of it.
const NO_GRAPH: &str = "the plane through the neighbours of a row comes from eigenvectors, for which ONNX has no operator";

/// Parameters of TNN.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TnnParams {
    /// Rows that span the plane.
    pub neighbours: usize,
    /// Its dimensions.
    pub tangents: usize,
    /// How many of the training rows the bank holds.
    pub bank: BankSize,
    /// Seed of the choice of the bank's rows.
    pub seed: u64,
}

impl Default for TnnParams {
    fn default() -> Self {
        TnnParams { neighbours: 10, tangents: 5, bank: BankSize::Share(1.0), seed: 0 }
    }
}

impl Method for TnnParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: "tnn",
            summary: "distance to the tangent plane through the nearest training rows",
            needs: "features only; the file holds the bank (4 bytes × rows × width)",
            source: "the paper's table; from the description of tangent distances",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&NEIGHBOURS, &mut self.neighbours)?;
        options.add(&TANGENTS, &mut self.tangents)?;
        options.add(&BANK, &mut self.bank)?;
        options.add(&SEED, &mut self.seed).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if !(1..self.neighbours).contains(&self.tangents) {
            let most = self.neighbours.saturating_sub(1);
            let expected = format!("from 1 to {most}, fewer than the neighbours");
            return Err(Error::parameter("tangents", expected, self.tangents));
        }
        self.bank.check()?;
        Ok(Arc::new(*self))
    }

    fn not_exportable(&self) -> Option<&'static str> {
        Some(NO_GRAPH)
    }
}

impl Fit for TnnParams {
    fn memory(&self, size: &FitSize) -> u64 {
        size.bank(self.bank)
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let rows = bank_rows(self.bank, self.neighbours, self.seed, training)?;
        let TnnParams { neighbours, tangents, .. } = *self;
        Ok(from_walk(Bank::gather(&rows, training)?.map(|bank| Tnn { neighbours, tangents, bank })))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let bank = Bank::read(self.neighbours, stored)?;
        Ok(Arc::new(Tnn { neighbours: self.neighbours, tangents: self.tangents, bank }))
    }
}

/// The bank, k and d.
#[derive(Debug, Clone)]
struct Tnn {
    neighbours: usize,
    tangents: usize,
    bank: Bank,
}

impl Tnn {
    /// Of rows that are near in single precision, the k nearest in double.
    fn settle(&self, query: &[f64], candidates: Vec<(f32, u32)>) -> Array2<f64> {
        let mut exact: Vec<(f64, u32)> = candidates
            .into_iter()
            .map(|(_, row)| {
                let other = self.bank.0.row(row as usize);
                let product: f64 = query.iter().zip(&other).map(|(a, b)| a * f64::from(*b)).sum();
                (product, row)
            })
            .collect();
        exact.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut rows = Array2::zeros((self.neighbours, query.len()));
        for (mut row, (_, index)) in rows.rows_mut().into_iter().zip(exact) {
            row.zip_mut_with(&self.bank.0.row(index as usize), |x, b| *x = f64::from(*b));
        }
        rows
    }
}

impl Scorer for Tnn {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let (queries, zero_rows) = unit_queries(data, start, out.len())?;
        // Twice as many as needed: single precision may order the last ones wrongly.
        let candidates = (2 * self.neighbours).min(self.bank.0.nrows());
        let nearest = self.bank.nearest(queries.view(), candidates);
        for ((out, query), nearest) in out.iter_mut().zip(queries.rows()).zip(nearest) {
            let query: Vec<f64> = query.iter().map(|x| f64::from(*x)).collect();
            let mut rows = self.settle(&query, nearest.into_rows());
            let mean = rows.mean_axis(Axis(0)).unwrap_or_default();
            rows -= &mean;
            let offset: Vec<f64> = query.iter().zip(&mean).map(|(x, mean)| x - mean).collect();
            // Directions from the k×k Gram matrix: t_i = Xᵀu_i / √λ_i.
            let eigen = linalg::symmetric_eigen(rows.dot(&rows.t()).view())?;
            let products: Vec<f64> =
                rows.rows().into_iter().map(|r| vector::dot(contiguous(&r), &offset)).collect();
            let floor = f64::EPSILON * self.neighbours as f64 * eigen.values[0].max(0.0);
            let along: f64 = (0..self.tangents)
                .filter(|&i| eigen.values[i] > floor)
                .map(|i| {
                    let u = eigen.vectors.row(i);
                    let t: f64 = u.iter().zip(&products).map(|(u, p)| u * p).sum();
                    t * t / eigen.values[i]
                })
                .sum();
            *out = -(vector::sum_of_squares(&offset) - along).max(0.0).sqrt();
        }
        put_last(zero_rows, out);
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let _ = (rows, builder);
        Err(not_exportable(NO_GRAPH))
    }

    fn found(&self) -> Found {
        self.bank.found()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}bank"), &self.bank.0);
    }
}
