//! Where a feature map has its channels. ONNX's convolutions and pools have them first, whatever the order of the
//! network's input: a model that was made from a network with channels last turns its images once, and then has
//! them first throughout.

use std::collections::{HashMap, HashSet};

use crate::nodes::ints;
use crate::proto::{GraphProto, NodeProto};

/// The axis of the channels in rows of three dimensions, where they are first or last.
const FIRST: usize = 1;
const LAST: usize = 3;

/// Values that are looked at, at most.
const MOST_VALUES: usize = 4096;

/// For each axis of a value, which axis of the wanted value it becomes.
type Axes = [usize; 4];

/// Whether a value of four dimensions has its channels last: told by the nodes that made it, back to one that says
/// where they are, or to the network's input, which has them last or not. None if none of them says it.
pub(crate) fn are_channels_last(
    graph: &GraphProto,
    value: &str,
    (input, input_has_them_last): (&str, bool),
) -> Option<bool> {
    let sources: HashMap<&str, &NodeProto> = graph
        .node
        .iter()
        .flat_map(|node| node.output.iter().map(move |name| (name.as_str(), node)))
        .collect();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut open: Vec<(&str, Axes)> = vec![(value, [0, 1, 2, 3])];
    while let Some((name, axes)) = open.pop() {
        if !seen.insert(name) || seen.len() > MOST_VALUES {
            continue;
        }
        let found = match sources.get(name) {
            Some(node) => match says(node) {
                Says::Axis(axis) => axis,
                Says::AsItsInputs => {
                    // The first one is looked at first.
                    open.extend(node.input.iter().rev().map(|name| (name.as_str(), axes)));
                    continue;
                }
                Says::Turned(order) => {
                    let mut before = [0; 4];
                    for (axis, &from) in order.iter().enumerate() {
                        before[from] = axes[axis];
                    }
                    open.extend(node.input.first().map(|name| (name.as_str(), before)));
                    continue;
                }
                Says::Nothing => continue,
            },
            None if name == input => {
                if input_has_them_last {
                    LAST
                } else {
                    FIRST
                }
            }
            // A weight.
            None => continue,
        };
        match axes[found] {
            FIRST => return Some(false),
            LAST => return Some(true),
            _ => {}
        }
    }
    None
}

/// What a node tells of the channels in what it gives.
enum Says {
    Axis(usize),
    AsItsInputs,
    Turned(Axes),
    Nothing,
}

fn says(node: &NodeProto) -> Says {
    match node.op_type() {
        "Conv"
        | "ConvTranspose"
        | "MaxPool"
        | "AveragePool"
        | "LpPool"
        | "GlobalAveragePool"
        | "GlobalMaxPool"
        | "BatchNormalization"
        | "InstanceNormalization"
        | "GroupNormalization"
        | "LRN"
        | "DepthToSpace"
        | "SpaceToDepth" => Says::Axis(FIRST),
        // Linear layers and their like act on the last axis.
        "MatMul" | "LayerNormalization" => Says::Axis(LAST),
        "Transpose" => match ints(node, "perm").as_deref().map(order_of) {
            Some(Some(order)) => Says::Turned(order),
            _ => Says::Nothing,
        },
        "Abs" | "Add" | "Cast" | "Clip" | "Concat" | "Div" | "Dropout" | "Elu" | "Erf" | "Exp"
        | "Gelu" | "HardSigmoid" | "HardSwish" | "Identity" | "LeakyRelu" | "Max" | "Min"
        | "Mish" | "Mul" | "Neg" | "PRelu" | "Pad" | "Pow" | "Relu" | "Resize" | "Selu"
        | "Sigmoid" | "Slice" | "Softplus" | "Split" | "Sqrt" | "Sub" | "Sum" | "Tanh"
        | "Where" => Says::AsItsInputs,
        _ => Says::Nothing,
    }
}

/// An order of four axes.
fn order_of(perm: &[i64]) -> Option<Axes> {
    let mut order = [0; 4];
    if perm.len() != 4 {
        return None;
    }
    for (place, axis) in order.iter_mut().zip(perm) {
        *place = usize::try_from(*axis).ok().filter(|axis| *axis < 4)?;
    }
    let distinct: HashSet<usize> = order.iter().copied().collect();
    (distinct.len() == 4).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{AttributeProto, AttributeType};

    fn node(kind: &str, inputs: &[&str], output: &str) -> NodeProto {
        NodeProto {
            op_type: Some(kind.to_owned()),
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            output: vec![output.to_owned()],
            ..NodeProto::default()
        }
    }

    fn turn(input: &str, output: &str, order: [i64; 4]) -> NodeProto {
        let mut node = node("Transpose", &[input], output);
        node.attribute.push(AttributeProto {
            name: Some("perm".to_owned()),
            ints: order.to_vec(),
            r#type: Some(AttributeType::Ints as i32),
            ..AttributeProto::default()
        });
        node
    }

    #[test]
    fn channels_are_followed_back_to_what_says_where_they_are() {
        let graph = GraphProto {
            node: vec![
                turn("x", "first", [0, 3, 1, 2]),
                node("Conv", &["first", "w"], "c"),
                node("Relu", &["c"], "r"),
                node("Add", &["k", "r"], "sum"),
                turn("sum", "last", [0, 2, 3, 1]),
                node("Mul", &["last", "s"], "scaled"),
                turn("scaled", "again", [0, 3, 1, 2]),
                node("MatMul", &["last", "w2"], "tokens"),
                node("Reshape", &["tokens", "shape"], "shaped"),
                node("Relu", &["x"], "near the input"),
                turn("x", "turned", [0, 2, 1, 3]),
                // A damaged graph may go in circles.
                node("Relu", &["circle"], "circle"),
            ],
            ..GraphProto::default()
        };
        let last = |value: &str, of_input| are_channels_last(&graph, value, ("x", of_input));
        for of_input in [true, false] {
            assert_eq!(last("r", of_input), Some(false));
            assert_eq!(last("sum", of_input), Some(false));
            assert_eq!(last("scaled", of_input), Some(true));
            assert_eq!(last("again", of_input), Some(false));
            assert_eq!(last("tokens", of_input), Some(true));
            assert_eq!(last("near the input", of_input), Some(of_input));
            for nobody_knows in ["shaped", "circle", "w", "nowhere"] {
                assert_eq!(last(nobody_knows, of_input), None);
            }
        }
        assert_eq!((last("first", true), last("first", false)), (Some(false), None));
        assert_eq!((last("turned", true), last("turned", false)), (Some(true), None));
    }
}
