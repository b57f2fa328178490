//! Where a detector's features come from: kept, so that new data can take the same way.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The model that gave the features, and what was done to its inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelSource {
    /// The file's name, without its folder.
    pub model: String,
    /// `xxh3-128:` and 32 hex digits of the model's bytes, those of its external data included.
    pub hash: String,
    /// The tensor that the features are.
    pub feature_tensor: String,
    /// How a vector is made of a feature map: `avg`, `max`, `cls` or `none`.
    pub pool: String,
    /// The tensor of the logits, where the model has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logit_tensor: Option<String>,
    /// The tensor of the un-pooled maps, where they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_tensor: Option<String>,
    /// What was done to images; none if the inputs were arrays. What runs the model knows the fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preprocess: Option<Map<String, Value>>,
}

impl ModelSource {
    /// Features that are a tensor of a model as it is.
    #[must_use]
    pub fn new(
        model: impl Into<String>,
        hash: impl Into<String>,
        feature_tensor: impl Into<String>,
    ) -> Self {
        ModelSource {
            model: model.into(),
            hash: hash.into(),
            feature_tensor: feature_tensor.into(),
            pool: "none".to_owned(),
            logit_tensor: None,
            map_tensor: None,
            preprocess: None,
        }
    }
}
