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
//! The way of the data, one direction only (`docs/architecture.md` shows the layers of the source):
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
pub mod graph;
pub mod io;
mod methods;
pub mod metrics;
pub mod monitor;
mod numeric;
mod span;
mod training;

pub use ndarray;

pub use calibrate::{Calibration, CalibrationSource, Promise, Threshold};
pub use detector::{
    Decisions, Detector, DetectorInfo, FitEstimate, FitOptions, FitPart, FitPlan, ModelSource,
    PlanOptions, TrainingInfo,
};
pub use error::wording::name_parameters_as_flags;
pub use error::{Error, Result};
pub use io::SyntheticFeatures;
pub use io::observer::{Observer, Silent};
pub use methods::kpca::{
    Clip, ExactForm, Fusion, KpcaSummary, MapParams, PartialFit, Residual, ValidKpca,
};
pub use methods::params::*;
pub use methods::steps::*;
pub use methods::{
    BankSize, CATALOGUE, DkgpParams, Explained, ExplainedTerm, Found, MethodInfo, MethodOptions,
    MethodSpec, NecoDirections, OPTIONS, PRESETS, Parameter, Preset, Prototypes, Rectification,
    ScoreTerm, Setting, ValidMethod, VraBounds, split_methods,
};
pub use monitor::{
    Alarm, AlarmKind, BatchReport, Evidence, Lowest, Monitor, MonitorOptions, MonitorState,
    SeenBatch,
};
pub use numeric::instructions::Instructions;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use numeric::internals;
pub use numeric::random::random_order;
pub use numeric::real::{Precision, Real};
pub use numeric::weight_type::WeightType;
pub use span::kernel::Kernel;
pub use span::map;
pub use span::map::FourierParts;
pub use span::moments::Moments;
pub use span::preprocess::Preprocess;
pub use span::subspace::Components;
pub use training::agreement::Disagreement;
pub use training::landmarks::{Sampling, uniform_rows};
pub use training::logits::{energy, right_predictions};
pub use training::{Checkpointing, HoldOut, pseudo_labels, with_pseudo_labels};

/// The programs of `docs/rust.md`, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
mod rust_page {}
