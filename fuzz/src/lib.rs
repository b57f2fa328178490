//! What is fuzzed, and how inputs are changed.

pub mod mutate;
pub mod targets;
