//! A kernel PCA with what was learned before it.

use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Dataset, TensorWriter};
use crate::methods::kpca::{KpcaModel, ValidKpca};
use crate::methods::model::{Found, ModelSummary, RowValues, Scorer, Stored};

/// Kernel PCA with what was learned for it.
#[derive(Debug, Clone)]
pub(super) struct LearnedKpca {
    pub(super) model: KpcaModel,
    pub(super) found: Found,
}

impl LearnedKpca {
    pub(super) fn read(kpca: &ValidKpca, stored: Stored<'_>) -> Result<Self> {
        let model = KpcaModel::read(kpca, stored.kpca()?, stored)?;
        Ok(LearnedKpca { model, found: stored.found.clone() })
    }
}

impl Scorer for LearnedKpca {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        self.model.check_inputs(data)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        self.model.score(data, start, out)
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        self.model.score_graph(rows, builder)
    }

    fn summary(&self) -> ModelSummary {
        let kpca = self.model.summary().clone();
        ModelSummary::LearnedKpca { found: self.found.clone(), kpca }
    }

    fn found(&self) -> Found {
        self.found.clone()
    }

    fn kpca(&self) -> Vec<&KpcaModel> {
        vec![&self.model]
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.model.write(prefix, writer);
    }
}

pub(super) fn found<const N: usize>(numbers: [(&str, f64); N]) -> Found {
    numbers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
