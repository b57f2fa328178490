//! A method with its parameters, ready to fit.

use serde::{Deserialize, Serialize};

use crate::kpca::{self, Ensemble, EnsembleParams, Fitted, KpcaParams, Training};
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

    /// Fits the method.
    pub(crate) fn fit(&self, training: &Training<'_>) -> Result<Fitted<Model>> {
        if let (Some(_), MethodSpec::Energy { .. } | MethodSpec::Knn { .. }) =
            (training.checkpoint, self)
        {
            return Err(Error::parameter(
                "checkpoint",
                "a kernel PCA method (this one has no long pass to resume)",
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
                if !(*temperature > 0.0 && temperature.is_finite()) {
                    return Err(Error::parameter("temperature", "a number above 0", temperature));
                }
                let model = EnergyModel { temperature: *temperature, head: training.head.cloned() };
                model.source(training.data)?;
                Ok(Fitted { model: Model::Energy(model), rows: 0, fingerprint: 0 })
            }
            MethodSpec::Knn { neighbours } => {
                Ok(KnnModel::fit(*neighbours, training)?.map(Model::Knn))
            }
        }
    }
}
