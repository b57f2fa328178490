//! NNGuide (Park et al. 2023): E(l) times the mean of the k largest ⟨ẑ, E_i·ẑ_i⟩ over a bank of
//! training rows with their energies. Neighbours are ranked by the scaled product, not the cosine.

use ndarray::Array1;

use super::bank::{Bank, BankSize, bank_rows};
use super::knn::unit_queries;
use super::model::{Found, Scorer, Stored, logits_of, put_last, write_head};
use crate::Result;
use crate::io::{Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous;
use crate::training::logits::{LogitSource, Need, energy};
use crate::training::{Fitted, Training};

const NAME: &str = "nnguide";

/// The bank with an energy per row.
#[derive(Debug, Clone)]
pub(crate) struct NnGuide {
    neighbours: usize,
    bank: Bank,
    energies: Array1<f32>,
    head: Option<Head>,
}

impl NnGuide {
    pub(super) fn fit(
        neighbours: usize,
        size: BankSize,
        seed: u64,
        training: &Training<'_>,
    ) -> Result<Fitted<Self>> {
        let source = LogitSource::of(training.data, training.head, None, Need::Method(NAME))?;
        let rows = bank_rows(size, neighbours, seed, training)?;
        let fitted = Bank::gather(&rows, training)?;
        let mut energies = Vec::with_capacity(rows.len());
        for rows in rows.chunks(crate::training::BLOCK) {
            let logits = source.gather(rows)?;
            energies.extend(logits.rows().into_iter().map(|l| energy(contiguous(&l), 1.0) as f32));
        }
        let head = training.head.map(Head::without_block);
        Ok(fitted.map(|bank| NnGuide { neighbours, bank, energies: energies.into(), head }))
    }

    pub(super) fn read(neighbours: usize, stored: Stored<'_>) -> Result<Self> {
        let bank = Bank::read(neighbours, stored)?;
        let energies = stored.vector("energies", bank.0.nrows())?.mapv(|x| x as f32);
        Ok(NnGuide { neighbours, bank, energies, head: stored.head()? })
    }
}

impl Scorer for NnGuide {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, self.head.as_ref()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let (queries, zero_rows) = unit_queries(data, start, out.len())?;
        let energies = self.energies.as_slice();
        let nearest =
            Bank::nearest_in(self.bank.0.view(), queries.view(), self.neighbours, energies);
        logits_of(NAME, data, self.head.as_ref())?.read(start, out)?;
        for (out, nearest) in out.iter_mut().zip(nearest) {
            let sum: f64 = nearest.into_rows().iter().map(|(value, _)| f64::from(*value)).sum();
            *out *= sum / self.neighbours as f64;
        }
        put_last(zero_rows, out);
        Ok(())
    }

    fn found(&self) -> Found {
        self.bank.found()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}bank"), &self.bank.0);
        writer.array1(format!("{prefix}energies"), &self.energies);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
