//! Deep k-nearest neighbours (Papernot & McDaniel 2018) on the last layer: how many of the k nearest training
//! rows have the label that the network predicts. Nothing is calibrated; it is the count itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bank::{BANK, BankSize, NEIGHBOURS, bank_rows};
use super::memory::FitSize;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_walk};
use super::model::{Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, write_head};
use super::option::{Options, SEED};
use super::raw_bank::RawBank;
use crate::Result;
use crate::graph::{Builder, Op, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous;
use crate::training::logits::predicted;
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};

const NAME: &str = "dknn";

/// Parameters of deep k-nearest neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DknnParams {
    /// k
    pub neighbours: usize,
    /// How many of the training rows the bank holds.
    pub bank: BankSize,
    /// Seed of the choice of the bank's rows.
    pub seed: u64,
}

impl Default for DknnParams {
    fn default() -> Self {
        DknnParams { neighbours: 20, bank: BankSize::Share(1.0), seed: 0 }
    }
}

impl Method for DknnParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "how many of the nearest training rows have the predicted label",
            needs: "features, labels; logits or head; the file holds the bank (4 bytes × rows × width)",
            source: "Papernot & McDaniel, Deep k-Nearest Neighbors, 2018",
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

impl Fit for DknnParams {
    fn memory(&self, size: &FitSize) -> u64 {
        size.raw_bank(self.bank)
    }

    fn uses_logits(&self) -> bool {
        true
    }

    fn check_inputs(&self, name: &str, training: &Training<'_>) -> Result<()> {
        super::method::check_common_inputs(self, name, training)?;
        training.labels(name).map(drop)
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let rows = bank_rows(self.bank, self.neighbours, self.seed, training)?;
        let (neighbours, head) = (self.neighbours, training.head.map(Head::without_block));
        let fitted = RawBank::gather(&rows, NAME, true, training)?;
        Ok(from_walk(fitted.map(|bank| Dknn { neighbours, bank, head })))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let bank = RawBank::read(self.neighbours, stored)?;
        Ok(Arc::new(Dknn { neighbours: self.neighbours, bank, head: stored.head()? }))
    }
}

/// The bank and k.
#[derive(Debug, Clone)]
struct Dknn {
    neighbours: usize,
    bank: RawBank,
    head: Option<Head>,
}

impl Scorer for Dknn {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, self.head.as_ref()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let logits = logits_of(NAME, data, self.head.as_ref())?.logits(start, out.len())?;
        let nearest = self.bank.nearest_of_all(z.view(), self.neighbours);
        for ((out, nearest), logits) in out.iter_mut().zip(nearest).zip(logits.rows()) {
            let class = predicted(contiguous(&logits)) as i64;
            *out = nearest.iter().filter(|near| near.label == class).count() as f64;
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, self.head.as_ref(), None, builder);
        let class = builder.place_of_largest(logits);
        let class = builder.counted(class);
        let class = builder.as_column(class);
        let (_, places) = self.bank.nearest_graph(rows.features, self.neighbours, builder);
        let labels = self.bank.labels_graph(builder);
        let labels = builder.rows_at(labels, places);
        let same = builder.node(Op::Equal, &[labels, class]);
        let same = builder.counted(same);
        Ok(builder.sum(same))
    }

    fn found(&self) -> Found {
        self.bank.found()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.bank.write(prefix, writer);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
