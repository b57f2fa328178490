//! Rectification: steps that change features, or the last layer, before any score is taken.
//!
//! A fitted [`Rectifier`] wraps a dataset: whoever reads features from the wrapped one gets
//! rectified ones, and logits computed from them. So every method works on rectified rows without
//! knowing of it. One file per method.

mod ash;
mod bats;
mod beta_norm;
mod bf_act;
mod bounds;
mod ddcs;
mod dice;
mod line;
mod lts;
mod opt_fs;
mod react;
mod rectifier;
mod spec;
mod step;
mod vra;

pub(super) use ash::{scale_graph, scale_row};
pub(super) use beta_norm::BETA;
pub(super) use opt_fs::OptFs;
pub(crate) use rectifier::{Rectifier, StepSummary};
pub use spec::Rectification;
pub(crate) use spec::params;
pub(super) use step::StepParams;
pub use vra::VraBounds;
