//! Minus the local intrinsic dimension at z (Ma et al. 2018): −k/Σ log(d_k/d_i) over the distances
//! d_1 ≤ … ≤ d_k of the k nearest training rows.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bank::{BANK, BankSize, NEIGHBOURS, bank_rows};
use super::memory::FitSize;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_walk};
use super::model::{Found, Model, RowValues, Scorer, Stored};
use super::option::{Options, SEED};
use super::raw_bank::{Neighbour, RawBank};
use crate::graph::{Builder, Op, Value};
use crate::io::{Block, Dataset, TensorWriter};
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "lid";

/// Parameters of the local intrinsic dimension.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LidParams {
    /// k
    pub neighbours: usize,
    /// How many of the training rows the bank holds.
    pub bank: BankSize,
    /// Seed of the choice of the bank's rows.
    pub seed: u64,
}

impl Default for LidParams {
    fn default() -> Self {
        LidParams { neighbours: 20, bank: BankSize::Share(1.0), seed: 0 }
    }
}

impl Method for LidParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "minus the local intrinsic dimension among the nearest training rows",
            needs: "features only; the file holds the bank (4 bytes × rows × width)",
            source: "Ma et al., Characterizing Adversarial Subspaces Using Local Intrinsic Dimensionality, 2018",
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
        if self.neighbours < 2 {
            let expected = "at least 2, whose distances can be compared";
            return Err(Error::parameter("neighbours", expected, self.neighbours));
        }
        self.bank.check()?;
        Ok(Arc::new(*self))
    }
}

impl Fit for LidParams {
    fn memory(&self, size: &FitSize) -> u64 {
        size.raw_bank(self.bank)
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let rows = bank_rows(self.bank, self.neighbours, self.seed, training)?;
        let neighbours = self.neighbours;
        let fitted = RawBank::gather(&rows, NAME, false, training)?;
        Ok(from_walk(fitted.map(|bank| Lid { neighbours, bank })))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let bank = RawBank::read(self.neighbours, stored)?;
        Ok(Arc::new(Lid { neighbours: self.neighbours, bank }))
    }
}

/// The bank and k.
#[derive(Debug, Clone)]
struct Lid {
    neighbours: usize,
    bank: RawBank,
}

/// −k/Σ log(d_k/d_i).
fn minus_dimension(nearest: &[Neighbour]) -> f64 {
    let Some(last) = nearest.last() else { return f64::NEG_INFINITY };
    if nearest[0].distance <= 0.0 {
        // A row of the bank: logarithms without bound, a dimension of 0.
        return 0.0;
    }
    let logs = nearest.iter().map(|near| (last.distance / near.distance).ln());
    -(nearest.len() as f64) / logs.sum::<f64>()
}

impl Scorer for Lid {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let nearest = self.bank.nearest_of_all(z.view(), self.neighbours);
        out.iter_mut().zip(nearest).for_each(|(out, nearest)| *out = minus_dimension(&nearest));
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let (squared, _) = self.bank.nearest_graph(rows.features, self.neighbours, builder);
        let (zero, one) = (builder.scalar(0.0), builder.scalar(1.0));
        let nearest = builder.part(squared, 0, 1);
        let is_known = builder.node(Op::LessOrEqual, &[nearest, zero]);
        let squared = builder.choose(is_known, one, squared);
        let last = builder.part(squared, self.neighbours - 1, self.neighbours);
        let shares = builder.div(last, squared);
        let logs = builder.log(shares);
        let sum = builder.sum(logs);
        // Logarithms of squares are twice those of distances.
        let count = builder.scalar(-2.0 * self.neighbours as f64);
        let score = builder.div(count, sum);
        let is_known = builder.as_row(is_known);
        Ok(builder.choose(is_known, zero, score))
    }

    fn found(&self) -> Found {
        self.bank.found()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.bank.write(prefix, writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand_and_at_the_ends() {
        let of = |distances: &[f64]| {
            let near = |&distance: &f64| Neighbour { distance, label: 0 };
            minus_dimension(&distances.iter().map(near).collect::<Vec<_>>())
        };
        assert!((of(&[1.0, 2.0, 4.0]) + 3.0 / 8f64.ln()).abs() < 1e-15);
        assert_eq!(of(&[0.0, 2.0, 4.0]), 0.0);
        assert_eq!(of(&[2.0, 2.0, 2.0]), f64::NEG_INFINITY);
    }
}
