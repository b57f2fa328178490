//! Which values of a model are wanted.

use std::collections::HashMap;
use std::str::FromStr;

use offspan::ModelSource;

use crate::channel_axis::are_channels_last;
use crate::graph_search::{HeadPlace, find_head};
use crate::image::Layout;
use crate::input_error::{InputError, InputResult};
use crate::model::OnnxModel;
use crate::pool::{Pool, name_and_pool};
use crate::proto::{GraphProto, NodeProto};

/// A value to take as features, as in `layer3=/layer3/Relu_output_0:avg`: a name for its pack, where there are several, the
/// value's own name, and how it is pooled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureTensor {
    /// What its pack is called.
    pub label: Option<String>,
    /// The value's name.
    pub name: String,
    /// How a vector is made of it.
    pub pool: Option<Pool>,
}

impl FromStr for FeatureTensor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (label, rest) = match text.split_once('=') {
            Some((label, rest)) => (Some(label.to_owned()), rest),
            None => (None, text),
        };
        if let Some(label) = &label
            && (label.is_empty() || folder_name(label) != *label)
        {
            return Err(format!(
                "expected letters, digits, `.`, `-` and `_` before `=`, the name of a folder, got `{label}`"
            ));
        }
        let (name, pool) = name_and_pool(rest);
        if name.is_empty() {
            return Err(format!("expected the name of a value, got `{text}`"));
        }
        Ok(FeatureTensor { label, name: name.to_owned(), pool })
    }
}

/// Whether un-pooled maps are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Maps {
    /// No.
    #[default]
    No,
    /// Those that the features are the averages of.
    Find,
    /// This value.
    Named(String),
}

/// A value that becomes the features of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layer {
    /// The pack's folder within the output, where there are several.
    pub(super) label: String,
    pub(super) tensor: String,
    pub(super) pool: Pool,
    /// Where its maps have their channels, as far as the nodes before it tell.
    pub(super) layout: Option<Layout>,
}

impl Layer {
    fn of(label: String, tensor: String, pool: Pool) -> Self {
        Layer { label, tensor, pool, layout: None }
    }
}

/// What a run gives.
pub(super) struct Plan {
    pub(super) layers: Vec<Layer>,
    pub(super) logits: Option<String>,
    pub(super) maps: Option<String>,
    /// Where these maps have their channels, likewise.
    pub(super) maps_layout: Option<Layout>,
    /// The model's last linear layer, if it has one.
    pub(super) head: Option<HeadPlace>,
}

impl Plan {
    /// What was asked for, or else what enters the last linear layer.
    pub(super) fn find(
        model: &OnnxModel,
        wanted: &[FeatureTensor],
        maps: &Maps,
    ) -> InputResult<Self> {
        let graph = model.graph();
        let head = find_head(graph);
        let layers = match (wanted, &head) {
            ([], Err(reason)) => {
                return Err(model.wrong(format!(
                    "{reason}; name the value that is to be taken with --feature-tensor, such as {}",
                    last_values(graph)
                )));
            }
            ([], Ok(head)) => {
                vec![Layer::of(String::new(), head.features.clone(), Pool::Avg)]
            }
            (wanted, _) => layers_of(model, wanted)?,
        };
        let head = head.ok();
        let maps = match maps {
            Maps::No => None,
            Maps::Named(name) => Some(known(model, "maps", name)?),
            Maps::Find => {
                // What enters the head, or else the first of the values that were named.
                let pooled = head.as_ref().map_or(&layers[0].tensor, |head| &head.features);
                Some(maps_before(graph, pooled).ok_or_else(|| {
                    InputError::setting(
                        "maps",
                        "a network that averages maps into its features (GlobalAveragePool, ReduceMean)",
                        format!("other nodes before `{pooled}`; name the value with --maps=NAME"),
                    )
                })?)
            }
        };
        let logits = head.as_ref().map(|head| head.logits.clone());
        Ok(Plan { layers, logits, maps, maps_layout: None, head })
    }

    /// The same as when a detector was fitted.
    pub(super) fn of_source(model: &OnnxModel, source: &ModelSource) -> InputResult<Self> {
        let pool = source.pool.parse().map_err(|reason| {
            model.wrong(format!("the detector says how features are pooled: {reason}"))
        })?;
        let tensor = known(model, "model", &source.feature_tensor)?;
        let logits = source.logit_tensor.as_ref();
        let maps = source.map_tensor.as_ref();
        Ok(Plan {
            layers: vec![Layer::of(String::new(), tensor, pool)],
            logits: logits.map(|name| known(model, "model", name)).transpose()?,
            maps: maps.map(|name| known(model, "model", name)).transpose()?,
            maps_layout: None,
            head: None,
        })
    }

    /// Finds out where maps have their channels, for an input with this layout.
    pub(super) fn find_channels(&mut self, graph: &GraphProto, input: &str, layout: Layout) {
        let of = |value: &str| {
            let last = are_channels_last(graph, value, (input, layout == Layout::Nhwc))?;
            Some(if last { Layout::Nhwc } else { Layout::Nchw })
        };
        self.layers.iter_mut().for_each(|layer| layer.layout = of(&layer.tensor));
        self.maps_layout = self.maps.as_deref().and_then(of);
    }

    /// The names of all values, each once.
    pub(super) fn outputs(&self) -> Vec<String> {
        let layers = self.layers.iter().map(|layer| &layer.tensor);
        let mut names: Vec<String> = Vec::new();
        for name in layers.chain(&self.logits).chain(&self.maps) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Where a value is among the outputs.
    pub(super) fn position(&self, name: &str) -> usize {
        let position = self.outputs().iter().position(|known| known == name);
        position.unwrap_or_else(|| unreachable!("{name} is one of the outputs"))
    }

    /// The head, for a layer that is what enters it.
    pub(super) fn head_of(&self, layer: &Layer) -> Option<&HeadPlace> {
        self.head.as_ref().filter(|head| head.features == layer.tensor)
    }
}

fn layers_of(model: &OnnxModel, wanted: &[FeatureTensor]) -> InputResult<Vec<Layer>> {
    let mut layers: Vec<Layer> = Vec::new();
    for tensor in wanted {
        let label = match (&tensor.label, wanted.len()) {
            (Some(label), _) => label.clone(),
            (None, 1) => String::new(),
            (None, _) => folder_name(&tensor.name),
        };
        if let Some(same) = layers.iter().find(|layer| layer.label == label) {
            return Err(InputError::setting(
                "feature-tensor",
                "values whose packs have different names (NAME=VALUE says which)",
                format!("`{label}` for both {} and {}", same.tensor, tensor.name),
            ));
        }
        let name = known(model, "feature-tensor", &tensor.name)?;
        layers.push(Layer::of(label, name, tensor.pool.unwrap_or_default()));
    }
    Ok(layers)
}

/// A value's name without what folders must not be called.
fn folder_name(name: &str) -> String {
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let replaced: String = name.chars().map(|c| if usable(c) { c } else { '-' }).collect();
    replaced.trim_matches(['-', '.']).to_owned()
}

/// Fails unless a node gives this value.
fn known(model: &OnnxModel, flag: &'static str, name: &str) -> InputResult<String> {
    let graph = model.graph();
    if graph.node.iter().any(|node| node.output.iter().any(|output| output == name)) {
        return Ok(name.to_owned());
    }
    Err(InputError::setting(
        flag,
        format!("the name of a value in {}, such as {}", model.name(), last_values(graph)),
        format!("`{name}`"),
    ))
}

/// The last few values of a graph, in words.
fn last_values(graph: &GraphProto) -> String {
    let names = graph.node.iter().rev().filter_map(|node| node.output.first());
    let mut names: Vec<String> = names.take(5).map(|name| format!("`{name}`")).collect();
    names.reverse();
    names.join(", ")
}

/// The maps that a value is the average of.
fn maps_before(graph: &GraphProto, features: &str) -> Option<String> {
    const LONGEST_WAY: usize = 16;
    let outputs = |node: &'_ NodeProto| {
        node.output.iter().cloned().map(|name| (name, node.clone())).collect::<Vec<_>>()
    };
    let sources: HashMap<String, NodeProto> = graph.node.iter().flat_map(outputs).collect();
    let mut name = features.to_owned();
    for _ in 0..LONGEST_WAY {
        let node = sources.get(&name)?;
        let input = node.input.first()?.clone();
        match node.op_type() {
            "GlobalAveragePool" | "ReduceMean" => return Some(input),
            "Flatten" | "Reshape" | "Squeeze" | "Dropout" | "Identity" | "Cast" => name = input,
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_tensor_has_a_name_and_may_have_a_pack_and_a_pool() {
        let parsed = |text: &str| text.parse::<FeatureTensor>();
        let tensor = |label: Option<&str>, name: &str, pool| FeatureTensor {
            label: label.map(str::to_owned),
            name: name.to_owned(),
            pool,
        };
        assert_eq!(parsed("/fc/Gemm:max"), Ok(tensor(None, "/fc/Gemm", Some(Pool::Max))));
        assert_eq!(parsed("Identity:0"), Ok(tensor(None, "Identity:0", None)));
        assert_eq!(parsed("early=a:b:cls"), Ok(tensor(Some("early"), "a:b", Some(Pool::Cls))));
        assert!(parsed("../up=a").is_err() && parsed("=a").is_err() && parsed("a=").is_err());
        assert_eq!(folder_name("/layer1/layer1.0/Relu_output_0"), "layer1-layer1.0-Relu_output_0");
    }
}
