//! Distance to the k-th nearest training row (Sun et al. 2022): −(k-th smallest ‖ẑ − ẑ_i‖²).

use ndarray::Array2;

use super::bank::{Bank, BankSize, bank_rows};
use super::model::{Found, Scorer, Stored, put_last};
use crate::Result;
use crate::io::{Dataset, TensorWriter, read_finite};
use crate::span::preprocess::Preprocess;
use crate::training::{Fitted, Training};

/// The bank and k.
#[derive(Debug, Clone)]
pub(crate) struct Knn {
    neighbours: usize,
    bank: Bank,
}

impl Knn {
    pub(super) fn fit(
        neighbours: usize,
        size: BankSize,
        seed: u64,
        training: &Training<'_>,
    ) -> Result<Fitted<Self>> {
        let rows = bank_rows(size, neighbours, seed, training)?;
        Ok(Bank::gather(&rows, training)?.map(|bank| Knn { neighbours, bank }))
    }

    pub(super) fn read(neighbours: usize, stored: Stored<'_>) -> Result<Self> {
        Ok(Knn { neighbours, bank: Bank::read(neighbours, stored)? })
    }
}

/// Unit queries in single precision, and those that have no direction.
pub(super) fn unit_queries(
    data: &Dataset<'_>,
    start: usize,
    count: usize,
) -> Result<(Array2<f32>, Vec<usize>)> {
    let mut queries = Array2::<f32>::zeros((count, data.width()));
    read_finite(&*data.features, start, queries.view_mut())?;
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

    fn found(&self) -> Found {
        self.bank.found()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}bank"), &self.bank.0);
    }
}
