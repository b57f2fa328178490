//! Nodes, as each version of ONNX's operators wants them.

use offspan::graph::{Node, Op};

use super::messages::{data_type, whole_numbers};
use crate::proto::{AttributeProto, AttributeType, NodeProto, TensorProto};

/// From this version on, `ReduceSum` takes its axes as an input.
const SUM_AXES_AS_INPUT: i64 = 13;
/// From this version on, the other reductions do, too.
const AXES_AS_INPUT: i64 = 18;
/// Before this version, `LessOrEqual` and `GreaterOrEqual` do not exist.
const ORDER_WITH_EQUALITY: i64 = 12;

/// Nodes and constants in the making.
pub(super) struct Writer {
    pub(super) nodes: Vec<NodeProto>,
    pub(super) initializers: Vec<TensorProto>,
    opset: i64,
    /// What the names of our values begin with, so that none is called like one of a model.
    prefix: String,
    /// Values that have another name there, such as the features.
    renamed: Vec<(String, String)>,
}

impl Writer {
    pub(super) fn new(opset: i64, prefix: String) -> Self {
        let (nodes, initializers, renamed) = (Vec::new(), Vec::new(), Vec::new());
        Writer { nodes, initializers, opset, prefix, renamed }
    }

    /// Calls a value of the graph by this name.
    pub(super) fn rename(&mut self, value: &str, name: String) {
        self.renamed.push((value.to_owned(), name));
    }

    /// What a value of the graph is called.
    pub(super) fn name(&self, value: &str) -> String {
        match self.renamed.iter().find(|(known, _)| known == value) {
            Some((_, name)) => name.clone(),
            None => format!("{}{value}", self.prefix),
        }
    }

    /// Adds a node of any operator.
    pub(super) fn push(
        &mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attribute: Vec<AttributeProto>,
    ) {
        let text = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        self.nodes.push(NodeProto {
            input: text(inputs),
            output: text(outputs),
            // Some runtimes look for nodes and values among the same names.
            name: Some(format!("{}/{op}", outputs[0])),
            op_type: Some(op.to_owned()),
            attribute,
            ..NodeProto::default()
        });
    }

    /// Adds a reduction over these axes, which stay with size 1 if `keep` says so.
    pub(super) fn reduce(
        &mut self,
        op: &str,
        input: &str,
        output: &str,
        (axes, keep): (&[i64], bool),
    ) {
        let since = if op == "ReduceSum" { SUM_AXES_AS_INPUT } else { AXES_AS_INPUT };
        let keep = int("keepdims", i64::from(keep));
        if self.opset >= since {
            let axes = self.numbers(output, "axes", axes);
            self.push(op, &[input, &axes], &[output], vec![keep]);
        } else {
            self.push(op, &[input], &[output], vec![ints("axes", axes), keep]);
        }
    }

    /// Adds a list of whole numbers that belongs to the node of this output.
    fn numbers(&mut self, output: &str, what: &str, numbers: &[i64]) -> String {
        let name = format!("{output}.{what}");
        let shape = vec![numbers.len() as i64];
        self.initializers.push(whole_numbers(name.clone(), shape, numbers));
        name
    }

    /// Adds a node of the graph.
    pub(super) fn node(&mut self, node: &Node) {
        let mut inputs: Vec<String> = node.inputs.iter().map(|name| self.name(name)).collect();
        let outputs: Vec<String> =
            node.outputs.iter().map(|value| self.name(&value.name)).collect();
        let mut op = node.op.name();
        let mut attributes = Vec::new();
        match &node.op {
            Op::Neg
            | Op::Abs
            | Op::Sqrt
            | Op::Exp
            | Op::Log
            | Op::Sin
            | Op::Cos
            | Op::Tanh
            | Op::Erf
            | Op::Relu
            | Op::Sign
            | Op::Round
            | Op::IsInf
            | Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Pow
            | Op::Max
            | Op::Min
            | Op::Less
            | Op::Greater
            | Op::Equal
            | Op::And
            | Op::Or
            | Op::Not
            | Op::Where
            | Op::MatMul => {}
            Op::LessOrEqual | Op::GreaterOrEqual => {
                if self.opset < ORDER_WITH_EQUALITY {
                    let opposite = if node.op == Op::LessOrEqual { "Greater" } else { "Less" };
                    let beyond = format!("{}.beyond", outputs[0]);
                    let names: Vec<&str> = inputs.iter().map(String::as_str).collect();
                    self.push(opposite, &names, &[&beyond], Vec::new());
                    (op, inputs) = ("Not", vec![beyond]);
                }
            }
            Op::ReduceSum { axis, keep }
            | Op::ReduceMean { axis, keep }
            | Op::ReduceMax { axis, keep }
            | Op::ReduceMin { axis, keep } => {
                self.reduce(op, &inputs[0], &outputs[0], (&[*axis as i64], *keep));
                return;
            }
            Op::ArgMax { axis, keep } | Op::ArgMin { axis, keep } => {
                attributes.push(int("axis", *axis as i64));
                attributes.push(int("keepdims", i64::from(*keep)));
            }
            Op::CumSum { axis } => {
                let name = format!("{}.axis", outputs[0]);
                let axis = whole_numbers(name.clone(), Vec::new(), &[*axis as i64]);
                self.initializers.push(axis);
                inputs.push(name);
            }
            Op::Softmax { axis }
            | Op::Gather { axis }
            | Op::GatherElements { axis }
            | Op::Concat { axis } => attributes.push(int("axis", *axis as i64)),
            Op::TopK { k, largest } => {
                inputs.push(self.numbers(&outputs[0], "k", &[*k as i64]));
                attributes.push(int("axis", -1));
                attributes.push(int("largest", i64::from(*largest)));
                attributes.push(int("sorted", 1));
            }
            Op::Slice { axis, start, end } => {
                inputs.push(self.numbers(&outputs[0], "start", &[*start as i64]));
                inputs.push(self.numbers(&outputs[0], "end", &[*end as i64]));
                inputs.push(self.numbers(&outputs[0], "axes", &[*axis as i64]));
            }
            Op::Reshape { shape } => inputs.push(self.numbers(&outputs[0], "shape", shape)),
            Op::Transpose { order } => {
                let order: Vec<i64> = order.iter().map(|&axis| axis as i64).collect();
                attributes.push(ints("perm", &order));
            }
            Op::Cast { to } => attributes.push(int("to", i64::from(data_type(*to) as i32))),
        }
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
        self.push(op, &inputs, &outputs, attributes);
    }
}

pub(super) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        i: Some(value),
        r#type: Some(AttributeType::Int as i32),
        ..AttributeProto::default()
    }
}

fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        ints: values.to_vec(),
        r#type: Some(AttributeType::Ints as i32),
        ..AttributeProto::default()
    }
}
