//! One file per command.

pub(crate) mod calibrate;
pub(crate) mod convert;
pub(crate) mod demo;
mod dry_run;
pub(crate) mod eval;
#[cfg(feature = "onnx")]
pub(crate) mod export;
#[cfg(feature = "onnx")]
pub(crate) mod extract;
pub(crate) mod fit;
#[cfg(feature = "onnx")]
pub(crate) mod from_model;
pub(crate) mod inspect;
pub(crate) mod methods;
pub(crate) mod monitor;
pub(crate) mod rank;
pub(crate) mod repeat;
pub(crate) mod score;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod study;
pub(crate) mod synth;
pub(crate) mod tune;
