//! Every method, under one name, one fit and one score.

mod catalogue;
mod energy;
mod knn;
mod model;
mod spec;

pub use catalogue::{CATALOGUE, MethodInfo, Parameter};
pub(crate) use model::{Model, ModelSummary};
pub use spec::MethodSpec;
