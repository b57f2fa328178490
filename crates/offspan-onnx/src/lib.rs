//! Detectors as ONNX files, and ONNX models as what features come from.
//!
//! [`proto`] has the messages that ONNX files are made of.

pub mod proto;
