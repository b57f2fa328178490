//! Out-of-distribution detection by kernel PCA.
//!
//! A trained network gives features for its own data; they fill a subspace. offspan learns that
//! subspace, in the feature space of a kernel, and tells for every new sample how far it lies off
//! that span.
//!
//! ```
//! use offspan::ndarray::Array2;
//! use offspan::io::Dataset;
//! use offspan::{Detector, FitOptions, KpcaParams, MethodSpec};
//!
//! # fn main() -> offspan::Result<()> {
//! let train = Array2::from_shape_fn((500, 16), |(i, j)| ((i * 7 + j * j) % 13) as f32 + 1.0);
//! let spec = MethodSpec::Kpca(KpcaParams::nystrom_uniform(64));
//! let data = Dataset::new("train", train.view());
//! let detector = Detector::fit(&spec, &data, None, &FitOptions::default())?;
//! let scores = detector.score(train.view(), None)?;
//! let threshold = detector.threshold().expect("500 rows are enough for one");
//! let kept = scores.iter().filter(|&&score| threshold.accepts(score)).count();
//! assert!(kept > 400);
//! # Ok(())
//! # }
//! ```
//!
//! The way of the data, one direction only:
//!
//! | step | module |
//! |---|---|
//! | rows from files or memory, in chunks | [`io`] |
//! | clipping and the cosine map | [`Preprocess`] |
//! | feature maps Φ: random features, landmarks | [`map`] |
//! | count, mean and scatter, mergeable | [`Moments`] |
//! | eigenvectors, q, compiled scoring | [`KpcaParams`], [`Detector`] |
//! | thresholds, p-values, metrics | [`calibrate`], [`metrics`] |
//! | drift of a stream | [`Monitor`] |
//!
//! Scores have one direction everywhere: higher is more in-distribution. The same seed gives the
//! same detector, bit for bit, whatever the number of threads.
//!
//! Arrays are those of [`ndarray`], which is re-exported so that its version cannot differ from ours.

pub mod calibrate;
mod detector;
mod error;
mod fixed;
mod hadamard;
mod holdout;
mod infinite_as_text;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
pub mod io;
mod kernel;
mod kpca;
mod lanczos;
mod landmarks;
mod learn;
mod logits;
pub mod map;
mod math;
mod methods;
pub mod metrics;
mod moments;
pub mod monitor;
mod observer;
mod optimise;
mod packed;
mod preprocess;
mod quantile;
mod random;
mod rank_update;
mod real;
mod rectify;
mod row_product;
mod row_scaled;
mod statistics;
mod subspace;
mod synthetic;
mod training;
mod vector;
mod weights;
mod wording;

pub use ndarray;
pub(crate) use offspan_linalg as linalg;

pub use calibrate::{Calibration, CalibrationSource, Promise, Threshold};
pub use detector::{Detector, DetectorInfo, FitOptions, TrainingInfo};
pub use error::{Error, Result};
pub use holdout::HoldOut;
pub use kernel::Kernel;
pub use kpca::{
    Checkpointing, Clip, EnsembleParams, ExactForm, FourierParts, Fusion, KpcaParams, KpcaSummary,
    MapParams, PartialFit, Residual, ValidKpca, WeightType,
};
pub use landmarks::{Sampling, uniform_rows};
pub use learn::{AutoencoderParams, DkgpParams, RffOptParams};
pub use logits::energy;
pub use methods::{
    AutoParams, BankSize, CATALOGUE, DkgpKpcaParams, DrawName, Found, FuseName, KernelName,
    LogitScore, MethodInfo, MethodOptions, MethodSpec, PRESETS, Pair, Parameter, Preset,
    RankRuleName, ResidualName, SamplingName, Setting, TrainedScore,
};
pub use moments::Moments;
pub use monitor::{
    Alarm, AlarmKind, BatchReport, Evidence, Lowest, Monitor, MonitorOptions, MonitorState,
    SeenBatch,
};
pub use observer::{Observer, Silent};
pub use preprocess::Preprocess;
pub use random::random_order;
pub use real::{Precision, Real};
pub use rectify::{Rectification, VraBounds};
pub use subspace::Components;
pub use synthetic::SyntheticFeatures;
pub use wording::name_parameters_as_flags;

/// The programs of `docs/rust.md`, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
mod rust_page {}
