//! A method with its parameters, ready to fit.

use serde::{Deserialize, Serialize};

use crate::energy::{EnergySource, Need};
use crate::kpca::{self, Ensemble, EnsembleParams, Fitted, KpcaParams, MapParams, Training};
use crate::{Error, Result};

use super::energy::EnergyModel;
use super::knn::KnnModel;
use super::model::Model;

/// A method and its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "kebab-case")]
pub enum MethodSpec {
    /// Kernel PCA in all its forms.
    Kpca(KpcaParams),
    /// The sum of a random-feature and a Nyström detector.
    KpcaEnsemble(EnsembleParams),
    /// The energy score of the logits.
    Energy {
        /// T
        temperature: f64,
    },
    /// Distance to the k-th nearest training row.
    Knn {
        /// k
        neighbours: usize,
    },
}

impl MethodSpec {
    /// The method's name as users write it.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            MethodSpec::Kpca(params) => params.method(),
            MethodSpec::KpcaEnsemble(_) => "kpca-ensemble",
            MethodSpec::Energy { .. } => "energy",
            MethodSpec::Knn { .. } => "knn",
        }
    }

    /// Whether the fit is a pass that a checkpoint can resume.
    fn has_moments(&self) -> bool {
        match self {
            MethodSpec::Kpca(params) => !matches!(params.map, MapParams::Exact { .. }),
            MethodSpec::KpcaEnsemble(_) => true,
            MethodSpec::Energy { .. } | MethodSpec::Knn { .. } => false,
        }
    }

    /// Checks the parameters, and settles those that follow from others.
    ///
    /// # Errors
    /// Says which parameter does not fit, what is expected and what was got.
    pub fn check(&self) -> Result<Self> {
        let settled = |params: &KpcaParams| -> Result<KpcaParams> {
            Ok(params.clone().check()?.params().clone())
        };
        match self {
            MethodSpec::Kpca(params) => Ok(MethodSpec::Kpca(settled(params)?)),
            MethodSpec::KpcaEnsemble(params) => Ok(MethodSpec::KpcaEnsemble(EnsembleParams {
                rff: settled(&params.rff)?,
                nystrom: settled(&params.nystrom)?,
            })),
            MethodSpec::Energy { temperature }
                if !(*temperature > 0.0 && temperature.is_finite()) =>
            {
                Err(Error::parameter("temperature", "a number above 0", temperature))
            }
            MethodSpec::Energy { .. } | MethodSpec::Knn { .. } => Ok(self.clone()),
        }
    }

    /// Fits the method; its parameters have been checked.
    pub(crate) fn fit(&self, training: &Training<'_>) -> Result<Fitted<Model>> {
        if training.checkpoint.is_some() && !self.has_moments() {
            return Err(Error::parameter(
                "checkpoint",
                "a method with moments to save: pca, kpca-rff, kpca-sketch, kpca-nys, kpca-ensemble",
                self.method(),
            ));
        }
        match self {
            MethodSpec::Kpca(params) => {
                let fitted = kpca::fit(&params.clone().check()?, training)?;
                Ok(fitted.map(|model| Model::Kpca(Box::new(model))))
            }
            MethodSpec::KpcaEnsemble(params) => {
                Ok(Ensemble::fit(params, training)?.map(|model| Model::Ensemble(Box::new(model))))
            }
            MethodSpec::Energy { temperature } => {
                let need = Need::Fit("the energy score");
                EnergySource::of(training.data, training.head, None, need)?;
                let model = EnergyModel { temperature: *temperature, head: training.head.cloned() };
                Ok(Fitted { model: Model::Energy(model), rows: 0, fingerprint: 0 })
            }
            MethodSpec::Knn { neighbours } => {
                Ok(KnnModel::fit(*neighbours, training)?.map(Model::Knn))
            }
        }
    }
}
