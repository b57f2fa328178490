//! Every method, under one name, one fit and one score. One file per method.

mod assemble;
mod bank;
mod build;
mod catalogue;
mod csi;
mod dml;
mod gradnorm;
mod gradorth;
mod knn;
mod kpca;
mod learned;
mod logit;
mod low_dim;
mod mahalanobis;
mod model;
mod named;
mod nnguide;
mod options;
mod preset;
mod rank_feat;
mod rectified;
mod reg_pca;
mod she;
mod spec;
mod supcon;
mod tnn;
mod trained;
mod vim;

pub use bank::BankSize;
pub use catalogue::{CATALOGUE, MethodInfo, Parameter};
pub use learned::DkgpKpcaParams;
pub use logit::LogitScore;
pub use model::Found;
pub(crate) use model::{Model, ModelSummary, Stored};
pub use options::{
    DrawName, FuseName, KernelName, MethodOptions, Pair, RankRuleName, ResidualName, SamplingName,
};
pub use preset::{PRESETS, Preset, Setting};
pub use spec::MethodSpec;
pub use trained::TrainedScore;
