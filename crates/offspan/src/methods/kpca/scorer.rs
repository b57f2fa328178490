//! A kernel PCA model as a fitted method.

use super::super::model::{ModelSummary, RowValues, Scorer};
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Dataset, TensorWriter};
use crate::methods::kpca::KpcaModel;

impl Scorer for KpcaModel {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        KpcaModel::check_inputs(self, data)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        KpcaModel::score(self, data, start, out)
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        self.score_graph(rows, builder)
    }

    fn summary(&self) -> ModelSummary {
        ModelSummary::Kpca(KpcaModel::summary(self).clone())
    }

    fn kpca(&self) -> Vec<&KpcaModel> {
        vec![self]
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        KpcaModel::write(self, prefix, writer);
    }
}
