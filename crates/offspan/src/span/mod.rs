//! What a span is made of: kernels, feature maps Φ, moments of Φ, and the subspace of its principal
//! directions.

pub(crate) mod kernel;
pub mod map;
pub(crate) mod moments;
pub(crate) mod preprocess;
pub(crate) mod subspace;
