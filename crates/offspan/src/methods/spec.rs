//! A method with its parameters, ready to fit.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::auto::AutoParams;
use super::bank::BankSize;
use super::csi::Csi;
use super::learned::DkgpKpcaParams;
use super::logit::LogitScore;
use super::low_dim::LowDim;
use super::rank_feat::RankFeat;
use super::supcon::supcon_rows;
use super::tnn::Tnn;
use super::trained::{Trained, TrainedScore};
use crate::io::check_writable;
use crate::methods::kpca::{self, EnsembleParams, KpcaParams, MapParams};
use crate::methods::learn::{AutoencoderParams, RffOptParams};
use crate::methods::rectify::Rectification;
use crate::span::subspace::Components;
use crate::training::Training;
use crate::training::logits::{LogitSource, Need};
use crate::training::statistics::Needs;
use crate::{Error, Result};

/// A method and its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "kebab-case")]
pub enum MethodSpec {
    /// Everything decided from in-distribution rows.
    Auto(AutoParams),
    /// Kernel PCA in all its forms.
    Kpca(KpcaParams),
    /// The sum of a random-feature and a Nyström detector.
    KpcaEnsemble(EnsembleParams),
    /// A score of the logits alone.
    Logit(LogitScore),
    /// The norm of the last layer's gradient.
    GradNorm,
    /// Distance to the nearest class mean under one covariance.
    Mahalanobis {
        /// Whether rows are scaled to unit length first (Mahalanobis++).
        unit: bool,
    },
    /// Mahalanobis distance of standardised unit vectors to their mean.
    Ssd,
    /// Distance to the k-th nearest training row.
    Knn {
        /// k
        neighbours: usize,
        /// How many of the training rows the bank holds.
        bank: BankSize,
        /// Seed of the choice of the bank's rows.
        seed: u64,
    },
    /// Distance to the plane through the nearest training rows.
    Tnn {
        /// Rows that span the plane.
        neighbours: usize,
        /// Its dimensions.
        tangents: usize,
        /// How many of the training rows the bank holds.
        bank: BankSize,
        /// Seed of the choice of the bank's rows.
        seed: u64,
    },
    /// Energy guided by the nearest training rows.
    NnGuide {
        /// k
        neighbours: usize,
        /// How many of the training rows the bank holds.
        bank: BankSize,
        /// Seed of the choice of the bank's rows.
        seed: u64,
    },
    /// Product with the pattern of the predicted class.
    She,
    /// Energy minus the scaled residual of a subspace.
    Vim {
        /// D, the dimensions of the subspace; the public code's choice by width where none is given.
        components: Option<usize>,
        /// Precision of the last layer: singular values at its rounding level are left out.
        head_floor: f64,
    },
    /// Largest cosine with a class's weights, plus the weighted norm.
    Dml {
        /// λ
        norm_weight: f64,
    },
    /// The last layer's gradient in the subspace of the training rows.
    GradOrth {
        /// Share of the energy that the subspace holds.
        explained_variance: f64,
    },
    /// Energy times one minus the relative residual of PCA.
    RegPca {
        /// q; 256, or half the width where that is less, if none is given.
        components: Option<usize>,
    },
    /// A probe on low-dimensional gradients of the last layer.
    LowDim {
        /// Ridge of the probe.
        ridge: f64,
    },
    /// Energy of feature maps without their leading part.
    RankFeat {
        /// Whether the last convolution's weights lose their leading part, too.
        rank_weight: bool,
    },
    /// A score of a specially trained network.
    Trained(TrainedScore),
    /// Similarity over shifted views.
    Csi,
    /// A method on the features of a network trained with a contrastive loss.
    Supcon {
        /// `Knn` or `Ssd`.
        score: Box<MethodSpec>,
    },
    /// Reconstruction by a shallow autoencoder.
    Autoencoder(AutoencoderParams),
    /// Kernel PCA on random features chosen by the labels.
    RffOpt(RffOptParams),
    /// Kernel PCA with a γ learned by a Gaussian-process classifier.
    Dkgp(DkgpKpcaParams),
    /// A method on rectified rows.
    Rectified {
        /// The steps in the order in which they act.
        steps: Vec<Rectification>,
        /// What is computed from rectified rows.
        score: Box<MethodSpec>,
        /// Whether the score is fitted to rows as they are, and only scoring sees rectified ones.
        raw_fit: bool,
    },
}

impl MethodSpec {
    /// The energy score at temperature 1.
    pub const ENERGY: MethodSpec = MethodSpec::Logit(LogitScore::Energy { temperature: 1.0 });

    /// The energy score after these steps.
    #[must_use]
    pub fn rectified(steps: Vec<Rectification>) -> Self {
        MethodSpec::Rectified { steps, score: Box::new(Self::ENERGY), raw_fit: false }
    }

    /// The method's name as users write it.
    #[must_use]
    pub fn method(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            MethodSpec::Auto(_) => "auto",
            MethodSpec::Kpca(params) => params.method(),
            MethodSpec::KpcaEnsemble(_) => "kpca-ensemble",
            MethodSpec::Logit(score) => score.name(),
            MethodSpec::GradNorm => "gradnorm",
            MethodSpec::Mahalanobis { unit: false } => "mahalanobis",
            MethodSpec::Mahalanobis { unit: true } => "mahalanobis-pp",
            MethodSpec::Ssd => "ssd",
            MethodSpec::Knn { .. } => "knn",
            MethodSpec::Tnn { .. } => "tnn",
            MethodSpec::NnGuide { .. } => "nnguide",
            MethodSpec::She => "she",
            MethodSpec::Vim { .. } => "vim",
            MethodSpec::Dml { .. } => "dml",
            MethodSpec::GradOrth { .. } => "gradorth",
            MethodSpec::RegPca { .. } => "reg-pca",
            MethodSpec::LowDim { .. } => "low-dim",
            MethodSpec::RankFeat { rank_weight } => RankFeat::name(*rank_weight),
            MethodSpec::Trained(score) => score.name(),
            MethodSpec::Csi => "csi",
            MethodSpec::Supcon { score } if matches!(**score, MethodSpec::Ssd) => "ssd-plus",
            MethodSpec::Supcon { .. } => "knn-plus",
            MethodSpec::Autoencoder(_) => "autoencoder",
            MethodSpec::RffOpt(_) => "rff-opt",
            MethodSpec::Dkgp(params) => params.name(),
            MethodSpec::Rectified { steps, score, .. } => {
                let mut names: Vec<Cow<'_, str>> = Vec::new();
                if **score != Self::ENERGY {
                    names.push(score.method());
                }
                names.extend(steps.iter().map(|step| step.name().into()));
                return Cow::Owned(names.join("+"));
            }
        })
    }

    /// M, the size of the method's largest feature map, if it has one and it is given: what a fit and a
    /// score take grows with it.
    #[must_use]
    pub fn map_size(&self) -> Option<usize> {
        match self {
            MethodSpec::Auto(params) => params.landmarks,
            MethodSpec::Kpca(params)
            | MethodSpec::RffOpt(RffOptParams { kpca: params, .. })
            | MethodSpec::Dkgp(DkgpKpcaParams { kpca: params, .. }) => params.map.size(),
            MethodSpec::KpcaEnsemble(params) => {
                params.rff.map.size().max(params.nystrom.map.size())
            }
            MethodSpec::Supcon { score } | MethodSpec::Rectified { score, .. } => score.map_size(),
            _ => None,
        }
    }

    /// Whether the fit is a pass that a checkpoint can resume.
    fn has_moments(&self) -> bool {
        match self {
            MethodSpec::Kpca(params) => !matches!(params.map, MapParams::Exact { .. }),
            MethodSpec::Auto(_) | MethodSpec::KpcaEnsemble(_) => true,
            _ => false,
        }
    }

    /// Whether the method was made for features that are never negative.
    #[must_use]
    pub fn wants_non_negative(&self) -> bool {
        match self {
            MethodSpec::Rectified { steps, .. } => {
                steps.iter().any(Rectification::wants_non_negative)
            }
            _ => false,
        }
    }

    /// Whether a fit or a score reads logits, so that rectified rows need the last layer.
    fn uses_logits(&self) -> bool {
        match self {
            MethodSpec::Kpca(params) => params.uses_energy(),
            MethodSpec::KpcaEnsemble(params) => {
                params.rff.uses_energy() || params.nystrom.uses_energy()
            }
            MethodSpec::RffOpt(params) => params.kpca.uses_energy(),
            MethodSpec::Dkgp(params) => params.kpca.uses_energy(),
            MethodSpec::Logit(_)
            | MethodSpec::GradNorm
            | MethodSpec::NnGuide { .. }
            | MethodSpec::She
            | MethodSpec::Vim { .. }
            | MethodSpec::GradOrth { .. }
            | MethodSpec::RegPca { .. }
            | MethodSpec::LowDim { .. } => true,
            _ => false,
        }
    }

    /// Whether the last layer itself is needed, not only logits.
    pub(super) fn uses_head(&self) -> bool {
        matches!(
            self,
            MethodSpec::Vim { .. } | MethodSpec::Dml { .. } | MethodSpec::RankFeat { .. }
        )
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
            MethodSpec::Kpca(params) => return Ok(MethodSpec::Kpca(settled(params)?)),
            MethodSpec::KpcaEnsemble(params) => {
                return Ok(MethodSpec::KpcaEnsemble(EnsembleParams {
                    rff: settled(&params.rff)?,
                    nystrom: settled(&params.nystrom)?,
                }));
            }
            MethodSpec::Logit(score) => score.check()?,
            MethodSpec::Knn { bank, .. } | MethodSpec::NnGuide { bank, .. } => bank.check()?,
            MethodSpec::Tnn { neighbours, tangents, bank, .. } => {
                Tnn::check(*neighbours, *tangents)?;
                bank.check()?;
            }
            MethodSpec::Vim { components, head_floor } => {
                check_count(*components)?;
                if !(0.0..1.0).contains(head_floor) {
                    return Err(Error::parameter("head-floor", "a share in [0, 1)", head_floor));
                }
            }
            MethodSpec::Dml { norm_weight } if !norm_weight.is_finite() => {
                return Err(Error::parameter("norm-weight", "a finite number", norm_weight));
            }
            MethodSpec::GradOrth { explained_variance } => {
                Components::ExplainedVariance(*explained_variance).check()?;
            }
            MethodSpec::RegPca { components } => check_count(*components)?,
            MethodSpec::LowDim { ridge } => LowDim::check(*ridge)?,
            MethodSpec::Auto(params) => return Ok(MethodSpec::Auto(params.clone().check()?)),
            MethodSpec::Autoencoder(params) => {
                return Ok(MethodSpec::Autoencoder(params.clone().check()?));
            }
            MethodSpec::RffOpt(params) => return Ok(MethodSpec::RffOpt(params.clone().check()?)),
            MethodSpec::Dkgp(params) => return Ok(MethodSpec::Dkgp(params.clone().check()?)),
            MethodSpec::Supcon { score } => {
                if !matches!(**score, MethodSpec::Knn { .. } | MethodSpec::Ssd) {
                    return Err(Error::parameter("supcon", "knn or ssd", score.method()));
                }
                return Ok(MethodSpec::Supcon { score: Box::new(score.check()?) });
            }
            MethodSpec::Rectified { steps, score, raw_fit } => {
                steps.iter().try_for_each(Rectification::check)?;
                check_steps(steps, score)?;
                let score = Box::new(score.check()?);
                return Ok(MethodSpec::Rectified {
                    steps: steps.clone(),
                    score,
                    raw_fit: *raw_fit,
                });
            }
            _ => {}
        }
        Ok(self.clone())
    }

    /// What the method wants to know of the training rows as they are.
    pub(crate) fn needs(&self) -> Needs {
        let none = Needs::default;
        match self {
            MethodSpec::Mahalanobis { unit: false } => {
                Needs { moments: true, classes: true, ..none() }
            }
            MethodSpec::Mahalanobis { unit: true } => {
                Needs { unit_moments: true, unit_classes: true, ..none() }
            }
            MethodSpec::Ssd => Needs { unit_moments: true, ..none() },
            MethodSpec::Autoencoder(_) => Needs { channels: true, ..none() },
            MethodSpec::She => Needs { classes: true, recognised: true, ..none() },
            MethodSpec::Vim { .. } => Needs { moments: true, largest_logit: true, ..none() },
            MethodSpec::GradOrth { .. } | MethodSpec::RegPca { .. } => {
                Needs { moments: true, ..none() }
            }
            MethodSpec::Rectified { steps, score, raw_fit } => {
                let first = steps.first().map(Rectification::needs).unwrap_or_default();
                if *raw_fit { first.and(&score.needs()) } else { first }
            }
            _ => none(),
        }
    }

    /// Fails, before any work, unless the training set has all that the method needs.
    pub(crate) fn check_inputs(&self, training: &Training<'_>) -> Result<()> {
        let name = self.method();
        if training.checkpoint.is_some() && !self.has_moments() {
            return Err(Error::parameter(
                "checkpoint",
                "a method with moments to save: auto, pca, kpca-rff, kpca-sketch, kpca-nys, kpca-ensemble",
                name,
            ));
        }
        if let Some(checkpoint) = training.checkpoint {
            // A place that never takes one is a mistake, and better known now than after hours. One that
            // fails later does not stop the fit.
            checkpoint.files(self).iter().try_for_each(|file| check_writable(file))?;
        }
        match self {
            MethodSpec::Kpca(params) => return kpca::check_inputs(params, training),
            MethodSpec::KpcaEnsemble(params) => {
                kpca::check_inputs(&params.rff, training)?;
                return kpca::check_inputs(&params.nystrom, training);
            }
            MethodSpec::RffOpt(RffOptParams { kpca: params, .. })
            | MethodSpec::Dkgp(DkgpKpcaParams { kpca: params, .. }) => {
                training.labels(&name)?;
                return kpca::check_inputs(params, training);
            }
            MethodSpec::LowDim { .. } => drop(training.labels(&name)?),
            MethodSpec::RankFeat { rank_weight } => {
                return RankFeat::fit(*rank_weight, training).map(drop);
            }
            MethodSpec::Trained(score) => return Trained::check(*score, training.data),
            MethodSpec::Csi => return Csi::check(training.data),
            MethodSpec::Supcon { score } => {
                let data = supcon_rows(&name, training.data)?;
                return score.check_inputs(&training.on(&data));
            }
            MethodSpec::Rectified { steps, score, raw_fit } => {
                steps.iter().try_for_each(|step| step.check_inputs(training))?;
                if score.uses_logits() || score.uses_head() || *raw_fit {
                    // Stored logits belong to features as they were.
                    training.head(&name)?;
                }
                return score.check_inputs(training);
            }
            _ => {}
        }
        if self.uses_head() {
            training.head(&name)?;
        }
        if self.uses_logits() {
            LogitSource::of(training.data, training.head, None, Need::Method(&name))?;
        }
        self.needs().check(&name, training)
    }
}

fn check_count(components: Option<usize>) -> Result<()> {
    match components {
        Some(0) => Err(Error::parameter("components", "at least 1", 0)),
        _ => Ok(()),
    }
}

/// Steps that go together, and a score that can follow them.
fn check_steps(steps: &[Rectification], score: &MethodSpec) -> Result<()> {
    if steps.is_empty() {
        return Err(Error::parameter("rectification", "at least one step", "none"));
    }
    if steps.iter().filter(|step| step.changes_head()).count() > 1 {
        return Err(Error::parameter(
            "rectification",
            "at most one step that changes the last layer (dice, line)",
            steps.iter().map(Rectification::name).collect::<Vec<_>>().join("+"),
        ));
    }
    let no_features = matches!(
        score,
        MethodSpec::Rectified { .. }
            | MethodSpec::RankFeat { .. }
            | MethodSpec::Trained(_)
            | MethodSpec::Csi
            | MethodSpec::Supcon { .. }
    );
    if no_features {
        return Err(Error::parameter(
            "rectification",
            "a score of pooled features or logits after it",
            score.method(),
        ));
    }
    Ok(())
}
