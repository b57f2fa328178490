//! The arithmetic of a score as a graph that other runtimes can carry out.
//!
//! A [`Graph`] is neutral: ONNX files and native PyTorch modules are both made from it, so that no score is
//! written twice. Its operators have the meaning that ONNX gives them (opset 13 to 21), are few
//! ([`Op`]), and know three kinds of numbers ([`Element`]): reals, whose precision the runtime chooses,
//! indices and flags. Constants keep the precision that the library has, so that a graph can be carried out in
//! `f32` or `f64`.
//!
//! Nodes are in an order in which they can be carried out. Every value has a name that occurs once, an
//! element and a shape. The number of rows, `N`, is not fixed, and neither is the width of what a detector
//! only compares, such as logits, `C`.

mod builder;
mod evaluate;
mod formulas;
mod op;
mod product;
mod shape;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::numeric::infinite_as_text;

pub(crate) use self::builder::{Builder, Value};
pub use self::op::Op;
pub(crate) use self::product::product;

/// The kind of a value's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// Floating-point numbers, of the precision in which the graph is carried out.
    Real,
    /// Whole numbers of 64 bits.
    Index,
    /// True or false.
    Flag,
}

/// One size of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// A number.
    Fixed(usize),
    /// The number of rows, written `N`.
    Rows,
    /// Another size that the detector does not know, such as the number of logits, `C`.
    Named(&'static str),
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Size::Fixed(size) => size.serialize(out),
            Size::Rows => out.serialize_str("N"),
            Size::Named(name) => out.serialize_str(name),
        }
    }
}

/// What a value is: its name, its numbers and its shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ValueInfo {
    /// Unique among all values of the graph.
    pub name: String,
    /// What its numbers are.
    pub element: Element,
    /// Its sizes; none for a single number.
    pub shape: Vec<Size>,
}

/// Something that a caller gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Input {
    /// `features` [N, m], `logits` [N, C], the name of another tensor of a row, or `threshold` [].
    #[serde(flatten)]
    pub value: ValueInfo,
    /// What it is if it is not given: a single number for an input of shape []. Inputs without one must be given.
    /// A number that JSON does not have is written as text: `inf`, `-inf`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text_if_infinite")]
    pub default: Option<f64>,
}

fn as_text_if_infinite<S: Serializer>(value: &Option<f64>, out: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => infinite_as_text::serialize(value, out),
        None => out.serialize_none(),
    }
}

/// The numbers of a constant in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub enum Numbers<'a> {
    /// Reals that the library has in single precision.
    Single(Cow<'a, [f32]>),
    /// Reals that the library has in double precision.
    Double(Cow<'a, [f64]>),
    /// Indices.
    Index(Vec<i64>),
    /// Flags.
    Flag(Vec<bool>),
}

impl Numbers<'_> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Numbers::Single(numbers) => numbers.len(),
            Numbers::Double(numbers) => numbers.len(),
            Numbers::Index(numbers) => numbers.len(),
            Numbers::Flag(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their kind.
    #[must_use]
    pub fn element(&self) -> Element {
        match self {
            Numbers::Single(_) | Numbers::Double(_) => Element::Real,
            Numbers::Index(_) => Element::Index,
            Numbers::Flag(_) => Element::Flag,
        }
    }
}

/// An array that the graph carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Constant<'a> {
    /// Unique among all values of the graph.
    pub name: String,
    /// Its sizes; none for a single number.
    pub shape: Vec<usize>,
    /// Its numbers in row-major order.
    pub numbers: Numbers<'a>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// What is done, with its attributes.
    #[serde(flatten)]
    pub op: Op,
    /// Names of the values it takes.
    pub inputs: Vec<String>,
    /// The values it gives: one, but for [`Op::TopK`].
    pub outputs: Vec<ValueInfo>,
}

/// A result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Output {
    /// `score[N]`, `is_ood[N]` or `p_value[N]`.
    pub name: String,
    /// The name of the value that it is.
    pub value: String,
}

/// The arithmetic of a detector.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph<'a> {
    /// What a caller gives.
    pub inputs: Vec<Input>,
    /// Arrays that nodes use.
    pub constants: Vec<Constant<'a>>,
    /// Operations in an order in which they can be carried out.
    pub nodes: Vec<Node>,
    /// What comes out.
    pub outputs: Vec<Output>,
    /// What the detector says of itself, by name.
    pub metadata: BTreeMap<String, String>,
}

/// All of a graph but the numbers of its constants.
#[derive(Serialize)]
struct Description<'a> {
    schema: &'static str,
    inputs: &'a [Input],
    constants: Vec<ConstantInfo<'a>>,
    nodes: &'a [Node],
    outputs: &'a [Output],
    metadata: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct ConstantInfo<'a> {
    name: &'a str,
    element: Element,
    shape: &'a [usize],
}

impl Graph<'_> {
    /// All but the numbers of the constants, as JSON:
    ///
    /// ```json
    /// {"schema": "offspan.graph/1",
    ///  "inputs": [{"name": "features", "element": "real", "shape": ["N", 64]},
    ///             {"name": "threshold", "element": "real", "shape": [], "default": -1.5}],
    ///  "constants": [{"name": "weight", "element": "real", "shape": [64, 10]}],
    ///  "nodes": [{"op": "MatMul", "inputs": ["features", "weight"],
    ///             "outputs": [{"name": "v1", "element": "real", "shape": ["N", 10]}]},
    ///            {"op": "ReduceMax", "attributes": {"axis": 1, "keep": false}, "inputs": ["v1"],
    ///             "outputs": [{"name": "v2", "element": "real", "shape": ["N"]}]}],
    ///  "outputs": [{"name": "score", "value": "v2"}],
    ///  "metadata": {"method": "max-logit"}}
    /// ```
    ///
    /// A node without attributes has no `attributes`. Sizes are numbers, but for `"N"`, the number of
    /// rows, and others that the detector does not know, such as `"C"`, that of logits.
    #[must_use]
    pub fn description(&self) -> serde_json::Value {
        let constants = self.constants.iter().map(|constant| ConstantInfo {
            name: &constant.name,
            element: constant.numbers.element(),
            shape: &constant.shape,
        });
        serde_json::json!(Description {
            schema: "offspan.graph/1",
            inputs: &self.inputs,
            constants: constants.collect(),
            nodes: &self.nodes,
            outputs: &self.outputs,
            metadata: &self.metadata,
        })
    }
}
