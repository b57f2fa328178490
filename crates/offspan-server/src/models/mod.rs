//! Models: what is loaded, what lies on disk, and how one becomes the other.

mod files;
mod load;
#[cfg(feature = "onnx")]
mod network;
mod repository;
mod version;

pub(crate) use repository::Repository;
pub(crate) use version::{Flagged, Version};
