//! A detector behind the model that its features come from: one file that gives the model's own outputs, and says which
//! rows to trust.

use std::collections::HashSet;

use offspan::graph::{Element, Size};
use offspan::io::ONNX_METADATA;
use offspan::{Detector, Error, ModelSource, Result};

use super::messages::{data_type, value_info, whole_numbers};
use super::node::{Writer, int};
use super::{is_own_domain, metadata, name_outputs, write_graph};
use crate::channel_axis::are_channels_last;
use crate::graph_search::{HeadPlace, find_head};
use crate::nodes::inner;
use crate::pool::{Pool, name_and_pool};
use crate::proto::type_proto::Value as Kind;
use crate::proto::{DataType, GraphProto, ModelProto};
use crate::shapes::{Known, in_words};

/// The versions of ONNX's operators that are known here.
const OPSETS: std::ops::RangeInclusive<i64> = 11..=23;
/// From this version of the format on, an initializer need not be an input.
const FREE_INITIALIZERS: i64 = 4;

/// What a detector is put behind, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttachOptions {
    /// The value of the model that becomes features, as NAME or NAME:POOL; without it the one that the detector was
    /// fitted with, and if that is not known, what enters the model's last linear layer.
    pub feature_tensor: Option<String>,
    /// The hash of the model, as `OnnxModel::hash` gives it.
    pub model_hash: Option<String>,
    /// Whether the model may be another one than the detector was fitted with.
    pub any_model: bool,
}

/// A model with a detector behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Guarded {
    /// The model.
    pub model: ModelProto,
    /// The value of the model that the detector takes as features.
    pub features: String,
    /// How a vector is made of it.
    pub pool: Pool,
    /// The value of the model that it takes as logits, if it takes any.
    pub logits: Option<String>,
    /// Its outputs, in the order score, decision, p-value.
    pub outputs: Vec<String>,
}

/// Puts a detector behind a model. Features are the value that the options name, or the one that the detector was fitted
/// with, pooled as it was there, or what enters the model's last linear layer. Logits are those of the fit, or what leaves
/// that layer. The model keeps its inputs and outputs.
///
/// # Errors
/// If the detector cannot be exported, was fitted with another model or needs more than features and logits, or the model
/// has no such value, values of another width, or operators of a version that is not known.
pub fn attach(detector: &Detector, model: &ModelProto, options: &AttachOptions) -> Result<Guarded> {
    let mut graph = detector.graph()?;
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
    let (features, pool) = choose(detector, &whole, &place, options).map_err(wrong)?;
    let known = Known::of_graph(&whole);
    let steps = steps(detector, &whole, &known, (&features, pool), &place).map_err(wrong)?;
    let source = detector.info().source.as_ref();
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
                let fitted = source.and_then(|source| source.logit_tensor.as_deref());
                let name = match (fitted.filter(|name| has_value(&whole, name)), &place) {
                    (Some(name), _) => name,
                    (None, Ok(place)) => &place.logits,
                    (None, Err(reason)) => {
                        return Err(wrong(format!(
                            "it reads logits, and no linear layer gives them: {reason}"
                        )));
                    }
                };
                let count = match &place {
                    Ok(place) if place.logits == name => Some(place.classes as u64),
                    _ => known.shape_of(name).and_then(|shape| *shape.last()?),
                };
                if let (Some(Size::Fixed(classes)), Some(count)) = (input.value.shape.last(), count)
                    && *classes as u64 != count
                {
                    return Err(wrong(format!(
                        "it was fitted with {classes} classes, and the model has {count}"
                    )));
                }
                logits = Some(name.to_owned());
                name.to_owned()
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
        if ours == "features" && !matches!(steps, Steps::AsItIs) {
            let maps = format!("{single}.maps");
            writer.push("Cast", &[&theirs], &[&maps], vec![to]);
            steps.write(&mut writer, &maps, &single);
        } else {
            writer.push("Cast", &[&theirs], &[&single], vec![to]);
        }
    }
    write_graph(&graph, &mut writer);
    let outputs = name_outputs(&graph, &mut writer, |name| free_name(&whole, name));
    let names = outputs.iter().map(|output| output.name().to_owned()).collect();
    // What was done here, which may differ from what the fit did.
    graph.metadata.insert("feature_tensor".to_owned(), features.clone());
    graph.metadata.insert("pool".to_owned(), pool.to_string());
    for (name, text) in [("model_hash", &options.model_hash), ("logit_tensor", &logits)] {
        match text {
            Some(text) => graph.metadata.insert(name.to_owned(), text.clone()),
            None => graph.metadata.remove(name),
        };
    }
    let mut guarded = model.clone();
    guarded.ir_version = Some(model.ir_version().max(FREE_INITIALIZERS));
    // Of a model that is guarded already, what the new detector says counts.
    guarded.metadata_props.retain(|entry| !entry.key().starts_with(ONNX_METADATA));
    guarded.metadata_props.extend(metadata(&graph));
    let mut whole = whole;
    whole.node.extend(writer.nodes);
    whole.initializer.extend(writer.initializers);
    whole.input.extend(optional);
    whole.output.extend(outputs);
    guarded.graph = Some(whole);
    Ok(Guarded { model: guarded, features, pool, logits, outputs: names })
}

/// The value that becomes features, and how it is pooled.
fn choose(
    detector: &Detector,
    graph: &GraphProto,
    place: &Result<HeadPlace, String>,
    options: &AttachOptions,
) -> Result<(String, Pool), String> {
    let source = detector.info().source.as_ref();
    if let Some(source) = source
        && !options.any_model
        && options.model_hash.as_ref() != Some(&source.hash)
    {
        return Err(format!(
            "another model than the one that the detector was fitted with ({}): expected {}, got {}; features of two \
             networks cannot be compared (--any-model takes it all the same)",
            source.model,
            source.hash,
            options.model_hash.as_deref().unwrap_or("a model without a hash")
        ));
    }
    let fitted_pool = |source: &ModelSource| {
        let pool = source.pool.parse::<Pool>();
        pool.map_err(|reason| format!("the detector says how features are pooled: {reason}"))
    };
    match (&options.feature_tensor, source, place) {
        (Some(text), ..) => {
            // A name may end like a pool.
            let (name, pool) =
                if has_value(graph, text) { (text.as_str(), None) } else { name_and_pool(text) };
            if !has_value(graph, name) {
                return Err(format!("the model has no value `{name}`"));
            }
            let same = source.filter(|source| source.feature_tensor == name);
            let pool = match (pool, same) {
                (Some(pool), _) => pool,
                (None, Some(source)) => fitted_pool(source)?,
                (None, None) => Pool::default(),
            };
            Ok((name.to_owned(), pool))
        }
        (None, Some(source), _) => {
            let name = &source.feature_tensor;
            if !has_value(graph, name) {
                return Err(format!(
                    "the detector was fitted with `{name}`, and the model has no value of this name; name one with \
                     --feature-tensor"
                ));
            }
            Ok((name.clone(), fitted_pool(source)?))
        }
        (None, None, Ok(place)) => {
            let width = detector.info().training.width;
            if place.width != width {
                return Err(format!(
                    "the detector was fitted to features of width {width}, and the model's last linear layer, which \
                     `{}` enters, takes {}; fit to features of this model, or name the value with --feature-tensor",
                    place.features, place.width
                ));
            }
            Ok((place.features.clone(), Pool::default()))
        }
        (None, None, Err(reason)) => {
            Err(format!("{reason}; name the features with --feature-tensor"))
        }
    }
}

fn has_value(graph: &GraphProto, name: &str) -> bool {
    graph.node.iter().any(|node| node.output.iter().any(|output| output == name))
        || graph.input.iter().any(|input| input.name() == name)
}

/// How a vector is made of the model's value.
enum Steps {
    AsItIs,
    /// All numbers, one after another.
    Flatten,
    /// Over these axes, by this operator.
    Reduce(&'static str, Vec<i64>),
    FirstToken,
}

impl Steps {
    fn write(&self, writer: &mut Writer, from: &str, to: &str) {
        match self {
            Steps::AsItIs => writer.push("Identity", &[from], &[to], Vec::new()),
            Steps::Flatten => writer.push("Flatten", &[from], &[to], vec![int("axis", 1)]),
            Steps::Reduce(op, axes) => writer.reduce(op, from, to, (axes, false)),
            Steps::FirstToken => {
                let place = format!("{to}.place");
                writer.initializers.push(whole_numbers(place.clone(), Vec::new(), &[0]));
                writer.push("Gather", &[from, &place], &[to], vec![int("axis", 1)]);
            }
        }
    }
}

/// How the model's value becomes vectors of the detector's width, as `extract` makes them; fails where it cannot.
fn steps(
    detector: &Detector,
    graph: &GraphProto,
    known: &Known<'_>,
    (name, pool): (&str, Pool),
    place: &Result<HeadPlace, String>,
) -> Result<Steps, String> {
    check_reals(graph, name)?;
    let width = detector.info().training.width;
    let Some(shape) = known.shape_of(name) else {
        return match pool {
            Pool::None => Ok(Steps::Flatten),
            // What enters a linear layer is a vector.
            _ if place.as_ref().is_ok_and(|place| place.features == name) => Ok(Steps::AsItIs),
            _ => Err(format!(
                "the model does not tell how many dimensions `{name}` has, so it cannot be pooled; state its shape in \
                 the model, or say --feature-tensor {name}:none if it is a vector"
            )),
        };
    };
    let rank = shape.len();
    let (steps, got) = match (pool, rank) {
        (_, 0 | 1) => (None, None),
        (_, 2) => (Some(Steps::AsItIs), shape[1]),
        (Pool::None, _) => {
            let total = shape[1..].iter().try_fold(1_u64, |all, size| all.checked_mul((*size)?));
            (Some(Steps::Flatten), total)
        }
        (Pool::Cls, 3) => (Some(Steps::FirstToken), shape[2]),
        (Pool::Cls, _) => (None, None),
        (Pool::Avg | Pool::Max, _) => {
            let op = if pool == Pool::Max { "ReduceMax" } else { "ReduceMean" };
            let (input, of_input) = input_with_channels_last(detector, graph, known);
            let told = are_channels_last(graph, name, (input, of_input));
            // Tokens have their channels last, whatever images have.
            let are_last = told.unwrap_or(rank == 3 || of_input);
            let last = rank as i64 - 1;
            let (axes, channels) = if are_last {
                ((1..last).collect(), shape[rank - 1])
            } else {
                ((2..=last).collect(), shape[1])
            };
            (Some(Steps::Reduce(op, axes)), channels)
        }
    };
    match steps {
        Some(steps) if got.is_none_or(|got| got == width as u64) => Ok(steps),
        _ => {
            let pooled = if rank == 2 { String::new() } else { format!(", pooled by {pool}") };
            Err(format!(
                "the detector was fitted to features [rows, {width}], and the model's `{name}` is {}{pooled}",
                in_words(shape)
            ))
        }
    }
}

/// The name of the network's input, and whether it has its channels last.
fn input_with_channels_last<'a>(
    detector: &Detector,
    graph: &'a GraphProto,
    known: &Known<'_>,
) -> (&'a str, bool) {
    // Weights may be listed as inputs, too.
    let is_weight = |name: &str| graph.initializer.iter().any(|tensor| tensor.name() == name);
    let input = graph.input.iter().find(|input| !is_weight(input.name()));
    let input = input.map_or("", |input| input.name());
    let source = detector.info().source.as_ref();
    let steps = source.and_then(|source| source.preprocess.as_ref());
    if let Some(layout) = steps.and_then(|steps| steps.get("layout")?.as_str()) {
        return (input, layout == "nhwc");
    }
    // Arrays have no layout; the axis with 1 or 3 entries tells it.
    let is_channels = |size: Option<u64>| matches!(size, Some(1 | 3));
    let shape = known.shape_of(input).map(Vec::as_slice);
    (input, matches!(shape, Some(&[_, first, _, last]) if is_channels(last) && !is_channels(first)))
}

/// Fails if the file says that a value holds something else than reals.
fn check_reals(graph: &GraphProto, name: &str) -> Result<(), String> {
    let stated = graph.value_info.iter().chain(&graph.output).chain(&graph.input);
    let Some(info) = stated.into_iter().find(|info| info.name() == name) else { return Ok(()) };
    let kind = info.r#type.as_ref().and_then(|kind| kind.value.as_ref());
    let Some(Kind::TensorType(tensor)) = kind else { return Ok(()) };
    let reals = [DataType::Float, DataType::Double, DataType::Float16, DataType::Bfloat16];
    match tensor.elem_type {
        Some(kind) if !reals.iter().any(|&real| real as i32 == kind) => {
            Err(format!("the model's `{name}` holds no reals"))
        }
        _ => Ok(()),
    }
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
        all.extend(inner(node).flat_map(names));
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
