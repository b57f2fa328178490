//! From a method with its parameters to a fitted model: by a fit, or from a file.

use std::borrow::Cow;
use std::sync::Arc;

use super::auto::Auto;
use super::csi::Csi;
use super::dml::Dml;
use super::gradnorm::GradNorm;
use super::gradorth::GradOrth;
use super::knn::Knn;
use super::learned::{LearnedKpca, Reconstruction};
use super::logit::LogitModel;
use super::low_dim::LowDim;
use super::mahalanobis::Mahalanobis;
use super::model::{Found, Model, ModelSummary, Scorer, Stored};
use super::nnguide::NnGuide;
use super::rank_feat::RankFeat;
use super::rectified::{Rectified, SCORE};
use super::reg_pca::RegPca;
use super::she::She;
use super::spec::MethodSpec;
use super::supcon::{OnSupcon, supcon_rows};
use super::tnn::Tnn;
use super::trained::Trained;
use super::vim::Vim;
use crate::io::TensorFile;
use crate::methods::kpca::{self, Ensemble, KpcaModel};
use crate::methods::rectify::Rectifier;
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Result};

impl MethodSpec {
    /// Fits the method; its parameters and inputs have been checked, and what it needs is known.
    pub(crate) fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        // What identifies the rows must not depend on the methods that share the walk.
        let fingerprint = if self.needs().no_walk() { 0 } else { known.fingerprint };
        let baseline = |model: Model| Fitted { model, rows: known.rows, fingerprint };
        Ok(match self {
            MethodSpec::Kpca(params) => share(kpca::fit(&params.clone().check()?, training)?),
            MethodSpec::KpcaEnsemble(params) => share(Ensemble::fit(params, training)?),
            MethodSpec::Logit(score) => baseline(Arc::new(LogitModel::fit(*score, training)?)),
            MethodSpec::GradNorm => baseline(Arc::new(GradNorm::fit(training)?)),
            MethodSpec::Mahalanobis { unit } => {
                baseline(Arc::new(Mahalanobis::fit(*unit, training, known)?))
            }
            MethodSpec::Ssd => baseline(Arc::new(Mahalanobis::fit_ssd(training, known)?)),
            MethodSpec::Knn { neighbours, bank, seed } => {
                share(Knn::fit(*neighbours, *bank, *seed, training)?)
            }
            MethodSpec::Tnn { neighbours, tangents, bank, seed } => {
                share(Tnn::fit(*neighbours, *tangents, *bank, *seed, training)?)
            }
            MethodSpec::NnGuide { neighbours, bank, seed } => {
                share(NnGuide::fit(*neighbours, *bank, *seed, training)?)
            }
            MethodSpec::She => baseline(Arc::new(She::fit(training, known)?)),
            MethodSpec::Vim { components, head_floor } => {
                baseline(Arc::new(Vim::fit(*components, *head_floor, training, known)?))
            }
            MethodSpec::Dml { norm_weight } => {
                baseline(Arc::new(Dml::fit(*norm_weight, training)?))
            }
            MethodSpec::GradOrth { explained_variance } => {
                baseline(Arc::new(GradOrth::fit(*explained_variance, training, known)?))
            }
            MethodSpec::RegPca { components } => {
                baseline(Arc::new(RegPca::fit(*components, training, known)?))
            }
            MethodSpec::LowDim { ridge } => share(LowDim::fit(*ridge, training)?),
            MethodSpec::RankFeat { rank_weight } => {
                baseline(Arc::new(RankFeat::fit(*rank_weight, training)?))
            }
            MethodSpec::Trained(score) => baseline(Arc::new(Trained::fit(*score, training)?)),
            MethodSpec::Csi => baseline(Arc::new(Csi::fit(training)?)),
            MethodSpec::Autoencoder(params) => {
                baseline(Arc::new(Reconstruction::fit(params, training, known)?))
            }
            MethodSpec::Auto(params) => share(Auto::fit(params, training)?),
            MethodSpec::RffOpt(params) => share(LearnedKpca::fit_rff_opt(params, training)?),
            MethodSpec::Dkgp(params) => share(LearnedKpca::fit_dkgp(params, training, known)?),
            MethodSpec::Supcon { score } => {
                let name = self.static_name();
                let data = supcon_rows(name, training.data)?;
                let training = training.on(&data);
                let known = Statistics::gather(&training, &score.needs())?;
                let width = data.width();
                score
                    .fit(&training, &known)?
                    .map(|score| Arc::new(OnSupcon { name, score, width }) as Model)
            }
            MethodSpec::Rectified { steps, score, raw_fit } => {
                let rectifier = Rectifier::fit(steps, training, known)?;
                let fitted = if *raw_fit {
                    score.fit(training, known)?
                } else {
                    let data = rectifier.dataset(training.data);
                    // Logits come from the dataset; the last layer is stored twice only for a score that
                    // multiplies by it on its own.
                    let cuts = matches!(**score, MethodSpec::Auto(_));
                    let head = training.head.filter(|_| score.uses_head() || cuts);
                    if cuts && head.is_none() && training.data.logits.is_some() {
                        training.observer.note(
                            "the given logits belong to activations as they were, and there is no last \
                             layer to compute new ones: they are not used",
                        );
                    }
                    let training = Training { head, ..training.on(&data) };
                    score.fit(&training, &Statistics::gather(&training, &score.needs())?)?
                };
                fitted.map(|score| Arc::new(Rectified { rectifier, score }) as Model)
            }
        })
    }

    /// The name of a method that is no combination.
    fn static_name(&self) -> &'static str {
        match self.method() {
            Cow::Borrowed(name) => name,
            Cow::Owned(_) => "this method",
        }
    }

    /// Reads a fitted model of this method; its parameters have been checked.
    pub(crate) fn read(
        &self,
        file: &TensorFile,
        prefix: &str,
        summary: &ModelSummary,
        width: usize,
    ) -> Result<Model> {
        let other = || {
            Error::shape(
                "the detector",
                format!("the results of a {} fit", self.method()),
                "those of another method",
            )
        };
        let model: Model = match (self, summary) {
            (MethodSpec::Kpca(params), ModelSummary::Kpca(summary)) => {
                Arc::new(KpcaModel::read(file, prefix, params.clone(), summary.clone(), width)?)
            }
            (MethodSpec::KpcaEnsemble(params), ModelSummary::KpcaEnsemble(summary)) => {
                Arc::new(Ensemble::read(file, prefix, params.clone(), summary.clone(), width)?)
            }
            (
                MethodSpec::Rectified { steps, score, .. },
                ModelSummary::Rectified { steps: step_summaries, score: summary },
            ) => {
                let stored = Stored { file, prefix, found: &Found::new(), width };
                let rectifier = Rectifier::read(steps, step_summaries, stored)?;
                let score = score.read(file, &format!("{prefix}{SCORE}"), summary, width)?;
                Arc::new(Rectified { rectifier, score })
            }
            (MethodSpec::Auto(params), ModelSummary::LearnedKpca { found, kpca }) => {
                let stored = Stored { file, prefix, found, width };
                Arc::new(Auto::read(params, kpca, stored)?)
            }
            (MethodSpec::RffOpt(params), ModelSummary::LearnedKpca { found, kpca }) => {
                let stored = Stored { file, prefix, found, width };
                Arc::new(LearnedKpca::read(params.kpca.clone(), kpca, stored)?)
            }
            (MethodSpec::Dkgp(params), ModelSummary::LearnedKpca { found, kpca }) => {
                let stored = Stored { file, prefix, found, width };
                Arc::new(LearnedKpca::read_dkgp(params, kpca, stored)?)
            }
            (spec, ModelSummary::Baseline { found }) => {
                spec.read_baseline(Stored { file, prefix, found, width })?.ok_or_else(other)?
            }
            _ => return Err(other()),
        };
        Ok(model)
    }

    /// `None` for methods whose results are of another kind.
    fn read_baseline(&self, stored: Stored<'_>) -> Result<Option<Model>> {
        Ok(Some(match self {
            MethodSpec::Logit(score) => Arc::new(LogitModel::read(*score, stored)?),
            MethodSpec::GradNorm => Arc::new(GradNorm::read(stored)?),
            MethodSpec::Mahalanobis { unit } => Arc::new(Mahalanobis::read(*unit, stored)?),
            MethodSpec::Ssd => Arc::new(Mahalanobis::read(true, stored)?),
            MethodSpec::Knn { neighbours, .. } => Arc::new(Knn::read(*neighbours, stored)?),
            MethodSpec::Tnn { neighbours, tangents, .. } => {
                Arc::new(Tnn::read(*neighbours, *tangents, stored)?)
            }
            MethodSpec::NnGuide { neighbours, .. } => Arc::new(NnGuide::read(*neighbours, stored)?),
            MethodSpec::She => Arc::new(She::read(stored)?),
            MethodSpec::Vim { .. } => Arc::new(Vim::read(stored)?),
            MethodSpec::Dml { norm_weight } => Arc::new(Dml::read(*norm_weight, stored)?),
            MethodSpec::GradOrth { .. } => Arc::new(GradOrth::read(stored)?),
            MethodSpec::RegPca { .. } => Arc::new(RegPca::read(stored)?),
            MethodSpec::LowDim { .. } => Arc::new(LowDim::read(stored)?),
            MethodSpec::RankFeat { rank_weight } => Arc::new(RankFeat::read(*rank_weight, stored)?),
            MethodSpec::Trained(score) => Arc::new(Trained::read(*score, stored)?),
            MethodSpec::Csi => Arc::new(Csi::read(stored)?),
            MethodSpec::Supcon { score } => {
                let width = stored.number("supcon width")? as usize;
                let Some(score) = score.read_baseline(Stored { width, ..stored })? else {
                    return Ok(None);
                };
                Arc::new(OnSupcon { name: self.static_name(), score, width })
            }
            MethodSpec::Autoencoder(_) => Arc::new(Reconstruction::read(stored)?),
            MethodSpec::Kpca(_)
            | MethodSpec::KpcaEnsemble(_)
            | MethodSpec::Auto(_)
            | MethodSpec::RffOpt(_)
            | MethodSpec::Dkgp(_)
            | MethodSpec::Rectified { .. } => return Ok(None),
        }))
    }
}

fn share<M: Scorer + 'static>(fitted: Fitted<M>) -> Fitted<Model> {
    fitted.map(|model| Arc::new(model) as Model)
}
