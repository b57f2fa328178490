//! The list of methods. Everything that is said of all of them follows from it.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::catalogue::Listed;
use super::memory::FitSize;
use super::method::{Fit, Method};
use super::model::{Model, ModelSummary, Stored};
use super::rectify::Rectification;
use crate::io::{TensorFile, check_writable};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident($module:ident::$params:ident),)*) => {
        /// The parameters of each method.
        pub(crate) mod params {
            $(pub use crate::methods::$module::$params;)*
        }
        use params::*;

        /// A method and its parameters.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "family", rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum MethodSpec {
            $($(#[$doc])* $variant($params),)*
        }

        impl MethodSpec {
            fn params(&self) -> &dyn Method {
                match self {
                    $(MethodSpec::$variant(params) => params,)*
                }
            }

            pub(super) fn params_mut(&mut self) -> &mut dyn Method {
                match self {
                    $(MethodSpec::$variant(params) => params,)*
                }
            }

            /// The method's name as users write it.
            #[must_use]
            pub fn method(&self) -> Cow<'static, str> {
                match self {
                    $(MethodSpec::$variant(params) => Method::name(params),)*
                }
            }

            /// Every method under each of its names.
            pub(super) fn list() -> Vec<Listed> {
                let mut list = Vec::new();
                $(list.extend($params::entries().into_iter().map(|entry| {
                    Listed::new(entry, MethodSpec::$variant)
                }));)*
                list
            }
        }

        $(impl From<$params> for MethodSpec {
            fn from(params: $params) -> Self {
                MethodSpec::$variant(params)
            }
        })*
    };
}

methods!(
    /// Everything decided from in-distribution rows.
    Auto(auto::AutoParams),
    /// Kernel PCA in all its forms.
    Kpca(kpca::KpcaParams),
    /// The sum of a random-feature and a Nyström detector.
    KpcaEnsemble(kpca::EnsembleParams),
    /// A score of the logits alone.
    Logit(logit::LogitScore),
    /// A generalised entropy of the largest probabilities.
    Gen(generalised_entropy::GenParams),
    /// Divergence from the typical softmax of a class.
    Klm(kl_matching::KlmParams),
    /// The softmax at the temperature that suits the labels.
    TempScale(temperature_scaling::TempScaleParams),
    /// Probability of an unknown class.
    OpenMax(openmax::OpenMaxParams),
    /// The norm of the last layer's gradient.
    GradNorm(gradnorm::GradNormParams),
    /// Distance to the nearest class mean under one covariance.
    Mahalanobis(mahalanobis::MahalanobisParams),
    /// Mahalanobis distance of standardised unit vectors to their mean.
    Ssd(mahalanobis::SsdParams),
    /// Distance to the nearest class, less that to all rows.
    Rmds(rmds::RmdsParams),
    /// Distances among the directions of classes, and among the others.
    Wdiscood(wdiscood::WdiscoodParams),
    /// Relative distance to the mean of the predicted class.
    Cadref(cadref::CadrefParams),
    /// Distance to the k-th nearest training row.
    Knn(knn::KnnParams),
    /// Distance to the plane through the nearest training rows.
    Tnn(tnn::TnnParams),
    /// Energy guided by the nearest training rows.
    NnGuide(nnguide::NnGuideParams),
    /// Nearest rows of the predicted class and of others.
    Trust(trust::TrustParams),
    /// Labels of the nearest training rows.
    Dknn(dknn::DknnParams),
    /// Minus the local intrinsic dimension.
    Lid(lid::LidParams),
    /// Similarity to training rows in features and predictions.
    Relation(relation::RelationParams),
    /// Product with the pattern of the predicted class.
    She(she::SheParams),
    /// Energy minus the scaled residual of a subspace.
    Vim(vim::VimParams),
    /// What lies off the main subspace.
    Residual(residual::ResidualParams),
    /// Generalised entropy times what lies off the main subspace.
    GenResidual(residual::GenResidualParams),
    /// Distance to decision boundaries.
    Fdbd(fdbd::FdbdParams),
    /// Closeness to the weights of the predicted class.
    Nci(nci::NciParams),
    /// Share of the standardised features in their leading directions.
    Neco(neco::NecoParams),
    /// Largest cosine with what stands for a class.
    Ctm(class_typical::CtmParams),
    /// Largest angle between the features and a decision boundary.
    Ora(ora::OraParams),
    /// Share of the features in the span of the class means.
    ClassMeanPca(class_mean_pca::ClassMeanPcaParams),
    /// Regret of a last layer that could learn the row.
    Pnml(pnml::PnmlParams),
    /// Energy of what decides the class, times how familiar the rest is.
    ActSub(actsub::ActSubParams),
    /// How often training rows had each neuron in the same state.
    Nac(nac::NacParams),
    /// Divergences of histograms under random heads.
    Weiper(weiper::WeiperParams),
    /// Five cues multiplied.
    Mme(mme::MmeParams),
    /// Largest cosine with a class's weights, plus the weighted norm.
    Dml(dml::DmlParams),
    /// The last layer's gradient in the subspace of the training rows.
    GradOrth(gradorth::GradOrthParams),
    /// Energy times one minus the relative residual of PCA.
    RegPca(reg_pca::RegPcaParams),
    /// A probe on low-dimensional gradients of the last layer.
    LowDim(low_dim::LowDimParams),
    /// A method on rectified rows.
    Rectified(rectified::RectifiedParams),
    /// Mahalanobis distance of rows divided by a power of their norm.
    BetaMahalanobis(pairings::BetaMahalanobisParams),
    /// RegPCA that scores clipped rows.
    PcaNre(pairings::PcaNreParams),
    /// The predicted class's logit of shaped features.
    OptFsV(opt_fs_v::OptFsVParams),
    /// Energy of feature maps without their leading part.
    RankFeat(rank_feat::RankFeatParams),
    /// A score of un-pooled feature maps.
    Maps(map_statistics::MapScore),
    /// A method on the features of a network trained with a contrastive loss.
    Supcon(supcon::SupconParams),
    /// A score of a specially trained network.
    Trained(trained::TrainedScore),
    /// Similarity over shifted views.
    Csi(csi::CsiParams),
    /// Reconstruction by a shallow autoencoder.
    Autoencoder(learn::AutoencoderParams),
    /// Kernel PCA on random features chosen by the labels.
    RffOpt(learn::RffOptParams),
    /// Kernel PCA with a γ learned by a Gaussian-process classifier.
    Dkgp(learn::DkgpKpcaParams),
);

impl MethodSpec {
    /// The energy score at temperature 1.
    pub const ENERGY: MethodSpec = MethodSpec::Logit(LogitScore::Energy { temperature: 1.0 });

    /// The energy score after these steps.
    #[must_use]
    pub fn rectified(steps: Vec<Rectification>) -> Self {
        RectifiedParams { steps, score: Box::new(Self::ENERGY), raw_fit: false }.into()
    }

    /// M, the size of the method's largest feature map, if it has one and it is given: what a fit and a
    /// score take grows with it.
    #[must_use]
    pub fn map_size(&self) -> Option<usize> {
        self.params().map_size()
    }

    /// Whether the method was made for features that are never negative.
    #[must_use]
    pub fn wants_non_negative(&self) -> bool {
        self.params().wants_non_negative()
    }

    pub(super) fn not_exportable(&self) -> Option<&'static str> {
        self.params().not_exportable()
    }

    pub(super) fn follows_steps(&self) -> bool {
        self.params().follows_steps()
    }

    /// What the names of its checkpoints end in, if its fit can be resumed.
    pub(crate) fn checkpoints(&self) -> Option<&'static [&'static str]> {
        self.params().checkpoints()
    }

    /// Checks the parameters, and settles those that follow from others.
    ///
    /// # Errors
    /// Says which parameter does not fit, what is expected and what was got.
    pub fn check(&self) -> Result<ValidMethod> {
        let mut spec = self.clone();
        let fit = spec.params_mut().check()?;
        Ok(ValidMethod { spec, fit })
    }
}

/// A method with parameters that passed [`MethodSpec::check`].
#[derive(Debug, Clone)]
pub struct ValidMethod {
    spec: MethodSpec,
    fit: Arc<dyn Fit>,
}

impl ValidMethod {
    /// The method, every parameter settled.
    #[must_use]
    pub fn spec(&self) -> &MethodSpec {
        &self.spec
    }

    /// Bytes that a fit takes at its peak, about.
    pub(crate) fn memory(&self, size: &FitSize) -> u64 {
        self.fit.memory(size)
    }

    pub(super) fn uses_head(&self) -> bool {
        self.fit.uses_head()
    }

    pub(super) fn uses_logits(&self) -> bool {
        self.fit.uses_logits()
    }

    pub(super) fn prefers_head(&self) -> bool {
        self.fit.prefers_head()
    }

    /// What the method wants to know of the training rows as they are.
    pub(crate) fn needs(&self) -> Needs {
        self.fit.needs()
    }

    /// Fails, before any work, unless the training set has all that the method needs.
    pub(crate) fn check_inputs(&self, training: &Training<'_>) -> Result<()> {
        let name = self.spec.method();
        if let Some(checkpoint) = training.checkpoint {
            if self.spec.checkpoints().is_none() {
                return Err(Error::parameter(
                    "checkpoint",
                    "a method with moments to save: auto, pca, kpca-rff, kpca-sketch, kpca-nys, kpca-ensemble",
                    name,
                ));
            }
            // A place that never takes one is a mistake, and better known now than after hours. One that
            // fails later does not stop the fit.
            checkpoint.files(&self.spec).iter().try_for_each(check_writable)?;
        }
        self.fit.check_inputs(&name, training)
    }

    /// Fits the method; its inputs have been checked, and what it needs is known.
    pub(crate) fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        self.fit.fit(training, known)
    }

    /// Reads a fitted model of this method.
    pub(crate) fn read(
        &self,
        file: &TensorFile,
        prefix: &str,
        summary: &ModelSummary,
        width: usize,
    ) -> Result<Model> {
        if self.fit.results() != summary.kind() {
            let expected = format!("the results of a {} fit", self.spec.method());
            return Err(Error::shape("the detector", expected, "those of another method"));
        }
        self.fit.read(Stored::new(file, prefix, summary, width))
    }
}
