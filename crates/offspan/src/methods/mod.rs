//! Every method, under one name, one fit and one score. One file per method.

mod auto;
mod bank;
mod catalogue;
mod csi;
mod dml;
mod gradnorm;
mod gradorth;
mod knn;
pub(crate) mod kpca;
mod learn;
mod learned;
mod logit;
mod low_dim;
mod mahalanobis;
mod method;
mod model;
mod nnguide;
mod option;
mod options;
mod preset;
mod rank_feat;
mod rectified;
mod rectify;
mod reg_pca;
mod she;
mod spec;
mod supcon;
mod tnn;
mod trained;
mod vim;

pub use auto::AutoParams;
pub use bank::BankSize;
pub use catalogue::{CATALOGUE, MethodInfo, OPTIONS};
pub use csi::CsiParams;
pub use dml::DmlParams;
pub use gradnorm::GradNormParams;
pub use gradorth::GradOrthParams;
pub use knn::KnnParams;
pub use learn::{AutoencoderParams, DkgpParams, RffOptParams};
pub use learned::DkgpKpcaParams;
pub use logit::LogitScore;
pub use low_dim::LowDimParams;
pub use mahalanobis::{MahalanobisParams, SsdParams};
pub use model::Found;
pub(crate) use model::{Model, ModelSummary, Stored};
pub use nnguide::NnGuideParams;
pub use option::Parameter;
pub use options::MethodOptions;
pub use preset::{PRESETS, Preset, Setting};
pub use rank_feat::RankFeatParams;
pub use rectified::RectifiedParams;
pub use rectify::{
    AshBParams, AshPParams, AshSParams, BatsParams, DdcsParams, DiceParams, LineParams,
    ReactParams, Rectification, ScaleParams, VraBounds, VraParams,
};
pub use reg_pca::RegPcaParams;
pub use she::SheParams;
pub use spec::{MethodSpec, ValidMethod};
pub use supcon::SupconParams;
pub use tnn::TnnParams;
pub use trained::TrainedScore;
pub use vim::VimParams;
