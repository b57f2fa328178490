//! NNGuide (Park et al. 2023): E(l) times the mean of the k largest ⟨ẑ, E_i·ẑ_i⟩ over a bank of
//! training rows with their energies. Neighbours are ranked by the scaled product, not the cosine.

use std::sync::Arc;

use ndarray::Array1;
use serde::{Deserialize, Serialize};

use super::bank::{BANK, Bank, BankSize, NEIGHBOURS, bank_rows};
use super::knn::unit_queries;
use super::memory::FitSize;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_walk};
use super::model::{
    Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, put_last, write_head,
};
use super::option::{Options, SEED};
use crate::Result;
use crate::graph::{Builder, Op, Value};
use crate::io::{Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous;
use crate::training::logits::{LogitSource, Need, energy};
use crate::training::statistics::Statistics;
use crate::training::{BLOCK, Fitted, Training};

const NAME: &str = "nnguide";

/// Parameters of NNGuide.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NnGuideParams {
    /// k
    pub neighbours: usize,
    /// How many of the training rows the bank holds.
    pub bank: BankSize,
    /// Seed of the choice of the bank's rows.
    pub seed: u64,
}

impl Default for NnGuideParams {
    fn default() -> Self {
        NnGuideParams { neighbours: 10, bank: BankSize::OnePercent, seed: 0 }
    }
}

impl Method for NnGuideParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "energy times the mean energy-scaled similarity to the nearest training rows",
            needs: "features; logits or head; the file holds the bank (4 bytes × rows × width)",
            source: "Park et al., Nearest Neighbor Guidance for Out-of-Distribution Detection, 2023",
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

impl Fit for NnGuideParams {
    fn memory(&self, size: &FitSize) -> u64 {
        size.bank(self.bank)
    }

    fn uses_logits(&self) -> bool {
        true
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let source = LogitSource::of(training.data, training.head, None, Need::Method(NAME))?;
        let rows = bank_rows(self.bank, self.neighbours, self.seed, training)?;
        let fitted = Bank::gather(&rows, training)?;
        let mut energies = Vec::with_capacity(rows.len());
        for rows in rows.chunks(BLOCK) {
            let logits = source.gather(rows)?;
            energies.extend(logits.rows().into_iter().map(|l| energy(contiguous(&l), 1.0) as f32));
        }
        let (neighbours, head) = (self.neighbours, training.head.map(Head::without_block));
        let model = |bank| NnGuide { neighbours, bank, energies: energies.into(), head };
        Ok(from_walk(fitted.map(model)))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let bank = Bank::read(self.neighbours, stored)?;
        let energies = stored.vector("energies", bank.0.nrows())?.mapv(|x| x as f32);
        let head = stored.head()?;
        Ok(Arc::new(NnGuide { neighbours: self.neighbours, bank, energies, head }))
    }
}

/// The bank with an energy per row.
#[derive(Debug, Clone)]
struct NnGuide {
    neighbours: usize,
    bank: Bank,
    energies: Array1<f32>,
    head: Option<Head>,
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

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let (unit, _, is_zero) = builder.unit_rows(rows.features);
        let products = builder.linear("bank", unit, self.bank.0.view());
        let energies = builder.vector("energies", &self.energies);
        let products = builder.mul(products, energies);
        let (nearest, _) = builder.top_k(products, self.neighbours, true);
        let guidance = builder.node(Op::ReduceMean { axis: 1, keep: false }, &[nearest]);
        let logits = logits_graph(rows, self.head.as_ref(), None, builder);
        let energy = builder.log_sum_exp(logits, 1.0);
        let score = builder.mul(energy, guidance);
        Ok(builder.put_last(is_zero, score))
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
