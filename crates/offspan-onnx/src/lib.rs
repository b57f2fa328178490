//! Detectors as ONNX files, and ONNX models as what features come from.
//!
//! [`proto`] has the messages that ONNX files are made of, [`find_head`] finds a classifier's last linear layer.
//! [`export`] makes a model of a detector, [`attach`] puts it behind another model, and [`save`] writes either. With the
//! feature `extract`, an [`Extractor`] runs a model over images or arrays and writes a pack.

mod channel_axis;
#[cfg(feature = "extract")]
mod data;
mod export;
#[cfg(feature = "extract")]
mod extract;
mod graph_search;
#[cfg(feature = "extract")]
mod image;
#[cfg(feature = "extract")]
mod input_error;
#[cfg(feature = "extract")]
mod model;
// What checks a model before it runs is a part of these.
#[cfg_attr(not(feature = "extract"), allow(dead_code, unused_imports))]
mod nodes;
mod pool;
pub mod proto;
#[cfg(feature = "extract")]
mod run;
#[cfg_attr(not(feature = "extract"), allow(dead_code, unused_imports))]
mod shapes;
mod tensors;

#[cfg(feature = "extract")]
pub use crate::{
    data::{Data, Split, SplitName, find_splits},
    extract::{
        ExtractOptions, Extractor, FeatureTensor, Maps, NetworkRows, OnError, PackFile, Skipped,
        SplitReport, Steps,
    },
    image::{
        Channels, Interpolation, Layout, Preprocess, PreprocessChoice, Preset, Resize, Size,
        image_size,
    },
    input_error::{InputError, InputResult},
    model::OnnxModel,
    run::Engine,
};
pub use export::{AttachOptions, Guarded, attach, export, save};
pub use graph_search::{HeadPlace, find_head};
pub use pool::Pool;
