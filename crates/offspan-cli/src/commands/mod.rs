//! One file per command.

pub(crate) mod calibrate;
pub(crate) mod demo;
pub(crate) mod eval;
pub(crate) mod fit;
pub(crate) mod inspect;
pub(crate) mod methods;
pub(crate) mod monitor;
pub(crate) mod score;
pub(crate) mod shell;
pub(crate) mod study;
pub(crate) mod synth;
pub(crate) mod tune;
