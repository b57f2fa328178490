//! How features are extracted.

use std::fmt::{Display, Formatter};
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use super::plan::{FeatureTensor, Maps};
use crate::image::{Layout, PreprocessChoice};
use crate::run::Engine;

/// What happens when an image cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// It is left out, counted and named.
    Skip,
    /// Nothing is written.
    #[default]
    Stop,
}

impl Display for OnError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OnError::Skip => "skip",
            OnError::Stop => "stop",
        })
    }
}

impl FromStr for OnError {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "skip" => Ok(OnError::Skip),
            "stop" => Ok(OnError::Stop),
            _ => Err(format!("expected skip or stop, got `{text}`")),
        }
    }
}

/// Where the steps for images come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Steps {
    /// From flags and a preset.
    Chosen(PreprocessChoice),
    /// From the detector, and from nowhere else.
    AsFitted,
}

/// How features are extracted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExtractOptions {
    /// The values to take; none takes what enters the last linear layer.
    pub feature_tensors: Vec<FeatureTensor>,
    /// Whether un-pooled maps are kept, too.
    pub maps: Maps,
    /// What is done to images.
    pub steps: Steps,
    /// The order of the input, where its shape does not tell.
    pub layout: Option<Layout>,
    /// Rows at a time, for models that take any number.
    pub batch: Option<NonZeroUsize>,
    /// What happens when an image cannot be used.
    pub on_error: OnError,
    /// Whether to go on with a run that was not finished.
    pub resume: bool,
    /// Whether to begin anew where one was not finished.
    pub force: bool,
    /// Whether features and maps are kept in half precision.
    pub half_precision: bool,
    /// What runs the model.
    pub engine: Engine,
    /// How often progress is saved.
    pub save_every: Duration,
}

impl Default for ExtractOptions {
    fn default() -> Self {
        ExtractOptions {
            feature_tensors: Vec::new(),
            maps: Maps::No,
            steps: Steps::Chosen(PreprocessChoice::default()),
            layout: None,
            batch: None,
            on_error: OnError::Stop,
            resume: false,
            force: false,
            half_precision: false,
            engine: Engine::default(),
            save_every: Duration::from_secs(5),
        }
    }
}
