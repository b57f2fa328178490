//! How large values become when a model runs, as far as its constants tell: a file of a hundred bytes can ask for more memory than
//! there is. Sizes that cannot be told are left open; so this refuses no model for what it does not understand.

use std::collections::HashMap;

use super::check::what;
use super::tensors::{elements, reals, whole_numbers};
use crate::proto::{ModelProto, NodeProto, TensorProto};

/// Numbers of one value, at most: 2 GiB.
const MOST_NUMBERS: u64 = 1 << 29;

/// The sizes of a value, none where they are not known.
type Shape = Vec<Option<u64>>;

#[derive(Default)]
struct Known<'a> {
    shapes: HashMap<&'a str, Shape>,
    constants: HashMap<&'a str, &'a TensorProto>,
}

/// Fails if a value would be too large with an input of this shape.
pub(crate) fn check_sizes(
    model: &ModelProto,
    input: &str,
    shape: &[Option<usize>],
) -> Result<(), String> {
    let Some(graph) = &model.graph else { return Ok(()) };
    let mut known = Known::default();
    for tensor in &graph.initializer {
        known.constant(tensor.name(), tensor);
    }
    known.shapes.insert(input, shape.iter().map(|size| size.map(|size| size as u64)).collect());
    for node in &graph.node {
        if node.op_type() == "Constant"
            && let (Some(name), Some(tensor)) =
                (node.output.first(), node.attribute.iter().find_map(|a| a.t.as_ref()))
        {
            known.constant(name, tensor);
            continue;
        }
        let Some(result) = known.result(node) else { continue };
        let total = result
            .iter()
            .try_fold(1_u64, |total, size| size.map(|size| total.saturating_mul(size)));
        if total.is_some_and(|total| total > MOST_NUMBERS) {
            let sizes: Vec<u64> = result.into_iter().flatten().collect();
            return Err(format!(
                "{} would give {sizes:?} numbers; expected at most {MOST_NUMBERS} (a smaller --batch needs less)",
                what(node)
            ));
        }
        if let Some(name) = node.output.first() {
            known.shapes.insert(name, result);
        }
    }
    Ok(())
}

impl<'a> Known<'a> {
    fn constant(&mut self, name: &'a str, tensor: &'a TensorProto) {
        if elements(tensor).is_ok() {
            let shape = tensor.dims.iter().map(|&size| u64::try_from(size).ok()).collect();
            self.shapes.insert(name, shape);
            self.constants.insert(name, tensor);
        }
    }

    fn shape(&self, node: &NodeProto, input: usize) -> Option<&Shape> {
        self.shapes.get(node.input.get(input)?.as_str())
    }

    fn numbers(&self, node: &NodeProto, input: usize) -> Option<Vec<i64>> {
        whole_numbers(self.constants.get(node.input.get(input)?.as_str())?)
    }

    /// The shape of a node's first output, if it can be told.
    fn result(&self, node: &NodeProto) -> Option<Shape> {
        match node.op_type() {
            "Relu"
            | "Sigmoid"
            | "Tanh"
            | "Identity"
            | "Dropout"
            | "Cast"
            | "Clip"
            | "LeakyRelu"
            | "HardSigmoid"
            | "HardSwish"
            | "Elu"
            | "Selu"
            | "Celu"
            | "Erf"
            | "Exp"
            | "Log"
            | "Sqrt"
            | "Neg"
            | "Abs"
            | "Softplus"
            | "Softmax"
            | "LogSoftmax"
            | "BatchNormalization"
            | "LayerNormalization"
            | "InstanceNormalization"
            | "Gelu"
            | "Mish"
            | "LRN"
            | "Reciprocal"
            | "Floor"
            | "Ceil"
            | "Round"
            | "Not" => self.shape(node, 0).cloned(),
            "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Max" | "Min" | "Sum" | "Mean" | "Where"
            | "PRelu" | "Equal" | "Greater" | "Less" | "GreaterOrEqual" | "LessOrEqual" | "And"
            | "Or" | "Xor" | "Mod" => {
                let shapes: Option<Vec<&Shape>> =
                    (0..node.input.len()).map(|input| self.shape(node, input)).collect();
                shapes?.into_iter().try_fold(Vec::new(), |all, shape| broadcast(&all, shape))
            }
            "MatMul" => product(self.shape(node, 0)?, self.shape(node, 1)?),
            "Gemm" => {
                let turned = |name: &str, shape: &Shape| match (attribute(node, name), &shape[..]) {
                    (Some(1), &[a, b]) => vec![b, a],
                    _ => shape.clone(),
                };
                product(
                    &turned("transA", self.shape(node, 0)?),
                    &turned("transB", self.shape(node, 1)?),
                )
            }
            "ConstantOfShape" => self.numbers(node, 0).map(|sizes| from_numbers(&sizes)),
            "Expand" => broadcast(self.shape(node, 0)?, &from_numbers(&self.numbers(node, 1)?)),
            "Tile" => {
                let times = from_numbers(&self.numbers(node, 1)?);
                Some(
                    self.shape(node, 0)?
                        .iter()
                        .zip(times)
                        .map(|(&a, b)| times_known(a, b))
                        .collect(),
                )
            }
            "Range" => {
                let [start, limit, step] = [0, 1, 2].map(|input| self.numbers(node, input));
                let (start, limit, step) = (*start?.first()?, *limit?.first()?, *step?.first()?);
                let count = limit.checked_sub(start)?.checked_div(step)?;
                Some(vec![Some(u64::try_from(count).unwrap_or(0))])
            }
            "OneHot" => {
                let mut shape = self.shape(node, 0)?.clone();
                shape.push(u64::try_from(*self.numbers(node, 1)?.first()?).ok());
                Some(shape)
            }
            "Pad" => {
                let (shape, pads) = (self.shape(node, 0)?, self.numbers(node, 1)?);
                let both = |axis: usize| {
                    pads.get(axis)?.max(&0).checked_add(*pads.get(axis + shape.len())?.max(&0))
                };
                Some((0..shape.len()).map(|axis| plus(shape[axis], both(axis))).collect())
            }
            "Resize" => self.resized(node),
            "Concat" => self.joined(node),
            "Transpose" => {
                let shape = self.shape(node, 0)?;
                let order = &node.attribute.iter().find(|a| a.name() == "perm")?.ints;
                order.iter().map(|&axis| shape.get(usize::try_from(axis).ok()?).copied()).collect()
            }
            "Conv" | "ConvTranspose" => self.convolved(node),
            "MaxPool" | "AveragePool" | "LpPool" => {
                let shape = self.shape(node, 0)?;
                let kernel = ints(node, "kernel_shape")?;
                let sizes = kernel.iter().map(|&size| u64::try_from(size).ok()).collect::<Shape>();
                slid(node, shape, &sizes, *shape.get(1)?)
            }
            "GlobalAveragePool" | "GlobalMaxPool" => {
                let shape = self.shape(node, 0)?;
                Some(
                    shape
                        .iter()
                        .enumerate()
                        .map(|(i, &size)| if i < 2 { size } else { Some(1) })
                        .collect(),
                )
            }
            _ => None,
        }
    }

    fn resized(&self, node: &NodeProto) -> Option<Shape> {
        if let Some(sizes) = self.numbers(node, 3) {
            return Some(from_numbers(&sizes));
        }
        let scales = reals(self.constants.get(node.input.get(2)?.as_str())?)?;
        let shape = self.shape(node, 0)?;
        let scaled = |(&size, scale): (&Option<u64>, &f64)| {
            // Rust's conversion stops at the largest number.
            size.map(|size| (size as f64 * scale).max(0.0) as u64)
        };
        Some(shape.iter().zip(&scales).map(scaled).collect())
    }

    fn joined(&self, node: &NodeProto) -> Option<Shape> {
        let mut joined = self.shape(node, 0)?.clone();
        let axis = attribute(node, "axis")?;
        let axis =
            usize::try_from(if axis < 0 { axis + joined.len() as i64 } else { axis }).ok()?;
        for input in 1..node.input.len() {
            let more = *self.shape(node, input)?.get(axis)?;
            let size = joined.get_mut(axis)?;
            *size = size.zip(more).map(|(a, b)| a.saturating_add(b));
        }
        Some(joined)
    }

    fn convolved(&self, node: &NodeProto) -> Option<Shape> {
        let (shape, weight) = (self.shape(node, 0)?, self.shape(node, 1)?);
        let kernel = weight.get(2..)?;
        if node.op_type() == "Conv" {
            return slid(node, shape, kernel, weight[0]);
        }
        let groups = attribute(node, "group").unwrap_or(1);
        let channels = times_known(weight[1], u64::try_from(groups).ok());
        let strides = ints(node, "strides").unwrap_or_default();
        let mut out = vec![*shape.first()?, channels];
        for (axis, (&size, &kernel)) in shape.get(2..)?.iter().zip(kernel).enumerate() {
            let stride = strides.get(axis).copied().unwrap_or(1);
            let stride = u64::try_from(stride).ok();
            out.push(times_known(size, stride).zip(kernel).map(|(a, b)| a.saturating_add(b)));
        }
        Some(out)
    }
}

/// What a window that slides over an input gives, at most.
fn slid(
    node: &NodeProto,
    shape: &Shape,
    kernel: &[Option<u64>],
    channels: Option<u64>,
) -> Option<Shape> {
    let (strides, pads) = (ints(node, "strides").unwrap_or_default(), ints(node, "pads"));
    let pads = pads.unwrap_or_default();
    let mut out = vec![*shape.first()?, channels];
    for (axis, &size) in shape.get(2..)?.iter().enumerate() {
        let at = |index: usize| pads.get(index).copied().unwrap_or(0).max(0);
        let padded = plus(size, at(axis).checked_add(at(axis + kernel.len())));
        let stride = strides.get(axis).copied().unwrap_or(1).max(1).unsigned_abs();
        out.push(padded.map(|padded| padded.div_ceil(stride)));
    }
    Some(out)
}

fn product(left: &Shape, right: &Shape) -> Option<Shape> {
    let (&[.., rows, _], &[.., columns]) = (&left[..], &right[..]) else { return None };
    if right.len() < 2 {
        return None;
    }
    let outer = broadcast(&left[..left.len() - 2].to_vec(), &right[..right.len() - 2].to_vec())?;
    Some(outer.into_iter().chain([rows, columns]).collect())
}

/// The shape of two values together, sizes of 1 stretched. None if they do not go together, which is for
/// others to say.
fn broadcast(one: &Shape, other: &Shape) -> Option<Shape> {
    let length = one.len().max(other.len());
    let size = |shape: &Shape, axis: usize| match (axis + shape.len()).checked_sub(length) {
        Some(at) => shape[at],
        None => Some(1),
    };
    (0..length)
        .map(|axis| match (size(one, axis), size(other, axis)) {
            (Some(1), other) => Some(other),
            (one, Some(1)) => Some(one),
            (Some(a), Some(b)) if a != b => None,
            (a, b) => Some(a.or(b)),
        })
        .collect()
}

fn times_known(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(a, b)| a.saturating_mul(b))
}

fn plus(size: Option<u64>, more: Option<i64>) -> Option<u64> {
    size.zip(more).map(|(size, more)| size.saturating_add(more.unsigned_abs()))
}

fn from_numbers(numbers: &[i64]) -> Shape {
    numbers.iter().map(|&size| u64::try_from(size).ok()).collect()
}

fn attribute(node: &NodeProto, name: &str) -> Option<i64> {
    node.attribute.iter().find(|attribute| attribute.name() == name)?.i
}

fn ints(node: &NodeProto, name: &str) -> Option<Vec<i64>> {
    let attribute = node.attribute.iter().find(|attribute| attribute.name() == name)?;
    (attribute.ints.len() <= 64).then(|| attribute.ints.clone())
}
