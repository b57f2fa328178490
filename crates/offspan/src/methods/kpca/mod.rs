//! Kernel PCA: parameters → checked parameters → fitted detector.
//!
//! A row is preprocessed (ReAct, cosine map), mapped by Φ, and scored by how much of Φ − μ lies
//! outside the principal subspace of the training rows.

mod checkpoint;
mod ensemble;
mod exact;
mod fit;
mod graph;
mod model;
mod options;
mod params;
mod partial;
mod plan;
mod projection;
mod scorer;

pub use ensemble::EnsembleParams;
pub(crate) use ensemble::EnsembleSummary;
pub(crate) use fit::{check_inputs, fit, read_block, resolve_clip};
pub use model::KpcaSummary;
pub(crate) use model::{KpcaModel, largest_change};
pub use params::{Clip, ExactForm, Fusion, KpcaParams, MapParams, Residual, ValidKpca};
pub use partial::PartialFit;
