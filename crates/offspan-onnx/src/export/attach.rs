//! A detector behind the model that its features come from: one file that gives the model's own outputs, and says which
//! rows to trust.

use std::collections::HashSet;

use offspan::graph::{Element, Size};
use offspan::{Detector, Error, Result};

use super::messages::{data_type, value_info};
use super::node::{Writer, int};
use super::{is_own_domain, metadata, name_outputs, write_graph};
use crate::graph_search::find_head;
use crate::proto::dimension::Value as Dim;
use crate::proto::type_proto::Value as Kind;
use crate::proto::{DataType, GraphProto, ModelProto};

/// The versions of ONNX's operators that are known here.
const OPSETS: std::ops::RangeInclusive<i64> = 11..=23;
/// From this version of the format on, an initializer need not be an input.
const FREE_INITIALIZERS: i64 = 4;

/// A model with a detector behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Guarded {
    /// The model.
    pub model: ModelProto,
    /// The value of the model that the detector takes as features.
    pub features: String,
    /// The value of the model that it takes as logits, if it takes any.
    pub logits: Option<String>,
    /// Its outputs, in the order score, decision, p-value.
    pub outputs: Vec<String>,
}

/// Puts a detector behind a model. The features are the value of this name, or what enters the model's last linear layer;
/// logits are what leaves it. The model keeps its inputs and outputs.
///
/// # Errors
/// If the detector cannot be exported or needs more than features and logits, or the model has no such value, values of
/// another width, or operators of a version that is not known.
pub fn attach(
    detector: &Detector,
    model: &ModelProto,
    feature_tensor: Option<&str>,
) -> Result<Guarded> {
    let graph = detector.graph()?;
    let wrong = |reason: String| Error::NotExportable {
        method: format!("{} with the model attached", detector.info().method),
        reason,
    };
    let whole = model.graph.clone().ok_or_else(|| wrong("the model has no graph".to_owned()))?;
    let opset = model.opset_import.iter().find(|set| is_own_domain(set));
    let opset = opset.and_then(|set| set.version).unwrap_or(0);
    if !OPSETS.contains(&opset) {
        return Err(wrong(format!(
            "expected a model with operators of version {} to {}, got {opset}; export it again",
            OPSETS.start(),
            OPSETS.end()
        )));
    }
    let place = find_head(&whole);
    let width = detector.info().training.width;
    let features = match (feature_tensor, &place) {
        (Some(name), _) => {
            check_value(&whole, name, width).map_err(wrong)?;
            name.to_owned()
        }
        (None, Ok(place)) if place.width == width => place.features.clone(),
        (None, Ok(place)) => {
            return Err(wrong(format!(
                "the detector was fitted to features of width {width}, and the model's last linear layer, which `{}` \
                 enters, takes {}; fit to features of this model, or name the value with --feature-tensor",
                place.features, place.width
            )));
        }
        (None, Err(reason)) => {
            return Err(wrong(format!("{reason}; name the features with --feature-tensor")));
        }
    };
    let prefix = free_prefix(&whole);
    let mut writer = Writer::new(opset, prefix);
    let mut logits = None;
    let mut optional = Vec::new();
    for input in &graph.inputs {
        let ours = &input.value.name;
        let theirs = match (ours.as_str(), input.default) {
            (_, Some(_)) => {
                // Callers override it under its own name, if the model has no value of that name.
                let name = free_name(&whole, ours);
                optional.push(value_info(&name, input.value.element, &input.value.shape));
                writer.rename(ours, name);
                continue;
            }
            ("features", None) => features.clone(),
            ("logits", None) => {
                let place = place.as_ref().map_err(|reason| {
                    wrong(format!("it reads logits, and no linear layer gives them: {reason}"))
                })?;
                if let Some(Size::Fixed(classes)) = input.value.shape.last()
                    && *classes != place.classes
                {
                    return Err(wrong(format!(
                        "it was fitted with {classes} classes, and the model has {}",
                        place.classes
                    )));
                }
                logits = Some(place.logits.clone());
                place.logits.clone()
            }
            (other, None) => {
                return Err(wrong(format!(
                    "it needs `{other}` of each row, and only features and logits can be taken from a model"
                )));
            }
        };
        // Whatever the model computes in, the detector works in single precision.
        let single = writer.name(ours);
        let to = int("to", i64::from(data_type(Element::Real) as i32));
        writer.push("Cast", &[&theirs], &[&single], vec![to]);
    }
    write_graph(&graph, &mut writer);
    let outputs = name_outputs(&graph, &mut writer, |name| free_name(&whole, name));
    let names = outputs.iter().map(|output| output.name().to_owned()).collect();
    let mut guarded = model.clone();
    guarded.ir_version = Some(model.ir_version().max(FREE_INITIALIZERS));
    guarded.metadata_props.extend(metadata(&graph));
    let mut whole = whole;
    whole.node.extend(writer.nodes);
    whole.initializer.extend(writer.initializers);
    whole.input.extend(optional);
    whole.output.extend(outputs);
    guarded.graph = Some(whole);
    Ok(Guarded { model: guarded, features, logits, outputs: names })
}

/// Fails unless the graph has a value of this name which, as far as is known, is reals of this width.
fn check_value(graph: &GraphProto, name: &str, width: usize) -> Result<(), String> {
    let is_result = graph.node.iter().any(|node| node.output.iter().any(|output| output == name));
    let is_input = graph.input.iter().any(|input| input.name() == name);
    if !is_result && !is_input {
        return Err(format!("the model has no value `{name}`"));
    }
    let known = graph.value_info.iter().chain(&graph.output).chain(&graph.input);
    let Some(info) = known.into_iter().find(|info| info.name() == name) else { return Ok(()) };
    let Some(Kind::TensorType(tensor)) = info.r#type.as_ref().and_then(|kind| kind.value.as_ref())
    else {
        return Ok(());
    };
    let reals = [DataType::Float, DataType::Double, DataType::Float16, DataType::Bfloat16];
    if let Some(kind) = tensor.elem_type
        && !reals.iter().any(|&real| real as i32 == kind)
    {
        return Err(format!("the model's `{name}` holds no reals"));
    }
    let Some(shape) = &tensor.shape else { return Ok(()) };
    let last = shape.dim.last().and_then(|size| size.value.as_ref());
    let fits = match last {
        Some(Dim::DimValue(size)) => *size == width as i64,
        Some(Dim::DimParam(_)) | None => true,
    };
    if shape.dim.len() == 2 && fits {
        return Ok(());
    }
    let size = |size: &crate::proto::Dimension| match &size.value {
        Some(Dim::DimValue(size)) => size.to_string(),
        Some(Dim::DimParam(name)) => name.clone(),
        None => "?".to_owned(),
    };
    let sizes: Vec<String> = shape.dim.iter().map(size).collect();
    Err(format!(
        "the detector was fitted to features [rows, {width}], and the model's `{name}` is [{}]",
        sizes.join(", ")
    ))
}

/// All names that values, and graphs inside nodes, have.
fn names(graph: &GraphProto) -> HashSet<&str> {
    let mut all: HashSet<&str> = HashSet::new();
    all.extend(graph.input.iter().map(|info| info.name()));
    all.extend(graph.output.iter().map(|info| info.name()));
    all.extend(graph.initializer.iter().map(|tensor| tensor.name()));
    for node in &graph.node {
        all.extend(node.output.iter().map(String::as_str));
        all.extend(node.input.iter().map(String::as_str));
        for attribute in &node.attribute {
            for graph in attribute.g.iter().chain(&attribute.graphs) {
                all.extend(names(graph));
            }
        }
    }
    all
}

/// What our values' names begin with: nothing of the model's does.
fn free_prefix(graph: &GraphProto) -> String {
    let taken = names(graph);
    let mut prefix = "offspan.".to_owned();
    while taken.iter().any(|name| name.starts_with(&prefix)) {
        prefix.insert(0, '_');
    }
    prefix
}

/// This name, or one with `offspan_` in front if the model has it.
fn free_name(graph: &GraphProto, name: &str) -> String {
    let taken = names(graph);
    let mut name = name.to_owned();
    while taken.contains(name.as_str()) {
        name.insert_str(0, "offspan_");
    }
    name
}
