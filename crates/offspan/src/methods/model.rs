//! A fitted method: scores rows, and turns into tensors and back.

use serde::{Deserialize, Serialize};

use crate::io::{Dataset, Head, TensorFile, TensorWriter};
use crate::kpca::{Ensemble, EnsembleSummary, KpcaModel, KpcaSummary};
use crate::{Error, Result};

use super::energy::EnergyModel;
use super::knn::KnnModel;
use super::spec::MethodSpec;

/// A fitted method.
#[derive(Debug, Clone)]
pub(crate) enum Model {
    Kpca(Box<KpcaModel>),
    Ensemble(Box<Ensemble>),
    Energy(EnergyModel),
    Knn(KnnModel),
}

/// What a detector file keeps of a model besides its parameters and tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "kebab-case")]
pub(crate) enum ModelSummary {
    Kpca(KpcaSummary),
    KpcaEnsemble(EnsembleSummary),
    Energy,
    Knn,
}

impl Model {
    /// Fails unless `data` has all that scoring needs.
    pub(crate) fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        match self {
            Model::Kpca(model) => model.check_inputs(data),
            Model::Ensemble(model) => model.check_inputs(data),
            Model::Energy(model) => model.source(data).map(drop),
            Model::Knn(_) => Ok(()),
        }
    }

    /// Scores of rows from `start` on, on the calling thread.
    pub(crate) fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        match self {
            Model::Kpca(model) => model.score(data, start, out),
            Model::Ensemble(model) => model.score(data, start, out),
            Model::Energy(model) => model.score(data, start, out),
            Model::Knn(model) => model.score(data, start, out),
        }
    }

    pub(crate) fn summary(&self) -> ModelSummary {
        match self {
            Model::Kpca(model) => ModelSummary::Kpca(model.summary().clone()),
            Model::Ensemble(model) => ModelSummary::KpcaEnsemble(model.summary()),
            Model::Energy(_) => ModelSummary::Energy,
            Model::Knn(_) => ModelSummary::Knn,
        }
    }

    pub(crate) fn write<'a>(&'a self, writer: &mut TensorWriter<'a>) {
        match self {
            Model::Kpca(model) => model.write("", writer),
            Model::Ensemble(model) => model.write(writer),
            Model::Energy(model) => {
                if let Some(head) = &model.head {
                    head.write("", writer);
                }
            }
            Model::Knn(model) => writer.array2("bank", &model.bank),
        }
    }

    pub(crate) fn read(
        file: &TensorFile,
        spec: &MethodSpec,
        summary: ModelSummary,
        width: usize,
    ) -> Result<Self> {
        match (&spec.check()?, summary) {
            (MethodSpec::Kpca(params), ModelSummary::Kpca(summary)) => {
                let model = KpcaModel::read(file, "", params.clone(), summary, width)?;
                Ok(Model::Kpca(Box::new(model)))
            }
            (MethodSpec::KpcaEnsemble(params), ModelSummary::KpcaEnsemble(summary)) => {
                let model = Ensemble::read(file, params.clone(), summary, width)?;
                Ok(Model::Ensemble(Box::new(model)))
            }
            (&MethodSpec::Energy { temperature }, ModelSummary::Energy) => {
                let head = Head::read_optional(file, "", width)?;
                Ok(Model::Energy(EnergyModel { temperature, head }))
            }
            (&MethodSpec::Knn { neighbours }, ModelSummary::Knn) => {
                let bank = file.array2::<f32>("bank")?;
                if bank.ncols() != width || neighbours == 0 || neighbours > bank.nrows() {
                    return Err(Error::shape(
                        "`bank` of the detector",
                        format!("[at least {neighbours}, {width}]"),
                        format!("{:?}", bank.shape()),
                    ));
                }
                KnnModel::new(neighbours, bank).map(Model::Knn)
            }
            _ => Err(Error::shape(
                "the detector",
                format!("the results of a {} fit", spec.method()),
                "those of another method",
            )),
        }
    }
}
