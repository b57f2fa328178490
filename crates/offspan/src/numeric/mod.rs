//! Arithmetic: what knows numbers, and neither rows of a file nor methods.

pub(crate) mod cache;
pub(crate) mod clusters;
pub(crate) mod extreme;
pub(crate) mod fixed_update;
pub(crate) mod hadamard;
pub(crate) mod histogram;
pub(crate) mod infinite_as_text;
pub(crate) mod instructions;
#[cfg(feature = "internals")]
pub mod internals;
pub(crate) mod lanczos;
pub(crate) mod math;
pub(crate) mod normal;
pub(crate) mod optimise;
pub(crate) mod percentile;
pub(crate) mod product;
pub(crate) mod random;
pub(crate) mod rank_update;
pub(crate) mod ranks;
pub(crate) mod real;
#[cfg(target_arch = "x86_64")]
mod tile;
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
mod vnni;
pub(crate) mod weibull;
pub(crate) mod weight_type;

pub(crate) use offspan_linalg as linalg;
