//! What is known of the values of a graph, node by node.

use std::collections::HashMap;

use super::numbers::Numbers;
use super::{Shape, axis_of, broadcast, product, times, total};
use crate::nodes::{attribute, int, ints, order};
use crate::proto::dimension::Value as Dim;
use crate::proto::type_proto::Value as Kind;
use crate::proto::{GraphProto, NodeProto, TensorProto, ValueInfoProto};
use crate::tensors::elements;

/// What is known of a value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct About {
    pub(crate) shape: Option<Shape>,
    /// Its numbers, where they are few and known.
    pub(crate) numbers: Option<Numbers>,
}

impl About {
    pub(crate) fn of_shape(shape: Option<Shape>) -> Self {
        About { shape, numbers: None }
    }
}

/// What is known of values by their names.
#[derive(Default)]
pub(crate) struct Known<'a> {
    values: HashMap<&'a str, About>,
}

impl<'a> Known<'a> {
    /// Everything that constants, and the shapes that a graph states, tell of its values.
    pub(crate) fn of_graph(graph: &'a GraphProto) -> Self {
        let mut known = Known::default();
        known.weights(graph);
        for input in &graph.input {
            known.state(input);
        }
        for index in order(graph) {
            known.learn(&graph.node[index]);
        }
        // What the file states is more than what can be told, and as little to be trusted as the rest of it.
        for value in graph.value_info.iter().chain(&graph.output) {
            known.state(value);
        }
        known
    }

    /// The shape that a file states, if it states one.
    fn state(&mut self, value: &'a ValueInfoProto) {
        let kind = value.r#type.as_ref().and_then(|kind| kind.value.as_ref());
        let Some(Kind::TensorType(tensor)) = kind else { return };
        let Some(shape) = &tensor.shape else { return };
        let size = |size: Option<&Dim>| match size {
            Some(Dim::DimValue(size)) => u64::try_from(*size).ok().filter(|&size| size > 0),
            Some(Dim::DimParam(_)) | None => None,
        };
        let stated: Shape = shape.dim.iter().map(|dim| size(dim.value.as_ref())).collect();
        let about = self.values.entry(value.name()).or_default();
        match &mut about.shape {
            Some(told) if told.len() == stated.len() => {
                told.iter_mut().zip(stated).for_each(|(told, stated)| *told = told.or(stated));
            }
            shape => *shape = Some(stated),
        }
    }

    pub(crate) fn weights(&mut self, graph: &'a GraphProto) {
        for tensor in &graph.initializer {
            self.set(tensor.name(), Self::constant(tensor));
        }
    }

    fn constant(tensor: &TensorProto) -> About {
        if elements(tensor).is_err() {
            return About::default();
        }
        let shape = tensor.dims.iter().map(|&size| u64::try_from(size).ok()).collect();
        let numbers = Numbers::of_tensor(tensor).filter(|_| tensor.dims.len() <= 1);
        About { shape: Some(shape), numbers }
    }

    /// Also where nothing is known, for a graph that runs again gives its values anew.
    pub(crate) fn set(&mut self, name: &'a str, about: About) {
        if !name.is_empty() {
            self.values.insert(name, about);
        }
    }

    pub(crate) fn about(&self, name: &str) -> About {
        self.values.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn shape_of(&self, name: &str) -> Option<&Shape> {
        self.values.get(name)?.shape.as_ref()
    }

    /// The only number of a node's input, if it is known.
    pub(crate) fn single(&self, node: &NodeProto, input: usize) -> Option<f64> {
        self.numbers(node, input)?.single()
    }

    /// Finds out what can be told of a node's results.
    pub(crate) fn learn(&mut self, node: &'a NodeProto) {
        let shapes = self.results(node);
        let numbers = self.folded(node);
        for (index, name) in node.output.iter().enumerate() {
            let shape = shapes.get(index).cloned().flatten();
            // Numbers are kept as one list; where they stand in several dimensions, lists do not go together as they do.
            let fits = |numbers: &Numbers| {
                shape.as_ref().is_none_or(|shape| {
                    shape.len() <= 1
                        && total(shape).is_none_or(|total| total == numbers.len() as u64)
                })
            };
            let numbers = numbers.clone().filter(|numbers| index == 0 && fits(numbers));
            self.set(name, About { shape, numbers });
        }
    }

    pub(crate) fn shape(&self, node: &NodeProto, input: usize) -> Option<&Shape> {
        self.shape_of(node.input.get(input)?)
    }

    fn numbers(&self, node: &NodeProto, input: usize) -> Option<&Numbers> {
        self.values.get(node.input.get(input)?.as_str())?.numbers.as_ref()
    }

    fn whole(&self, node: &NodeProto, input: usize) -> Option<Vec<i64>> {
        self.numbers(node, input)?.known()
    }

    /// What was an attribute in earlier versions and is an input in later ones.
    fn said(&self, node: &NodeProto, name: &str, input: usize) -> Option<Vec<i64>> {
        ints(node, name).or_else(|| self.whole(node, input))
    }

    /// Axes, of which negative ones count from the end.
    fn axes(&self, node: &NodeProto, input: usize, rank: usize) -> Option<Vec<usize>> {
        let axes = self.said(node, "axes", input)?;
        axes.into_iter().map(|axis| axis_of(axis, rank)).collect()
    }

    /// The numbers of a node's first result, where they follow from known ones.
    fn folded(&self, node: &NodeProto) -> Option<Numbers> {
        let first = || self.numbers(node, 0).cloned();
        match node.op_type() {
            "Constant" => match attribute(node, "value") {
                Some(value) => Numbers::of_tensor(value.t.as_ref()?),
                None => Numbers::of_constant(node),
            },
            "Identity" | "Unsqueeze" | "Squeeze" | "Reshape" | "Flatten" => first(),
            "Cast" => Some(first()?.cast(int(node, "to")?)),
            "Neg" => Some(first()?.each(|x| -x)),
            "Abs" => Some(first()?.each(f64::abs)),
            "Floor" => Some(first()?.each(f64::floor)),
            "Ceil" => Some(first()?.each(f64::ceil)),
            "Sqrt" => Some(first()?.each(f64::sqrt)),
            "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Max" | "Min" => {
                first()?.both(self.numbers(node, 1)?, node.op_type())
            }
            "ReduceProd" => Some(first()?.product()),
            "Shape" => {
                let sizes = Numbers::whole(self.shape(node, 0)?.iter().copied());
                let (start, end) = (int(node, "start").unwrap_or(0), int(node, "end"));
                Some(sizes.part(start, end.unwrap_or(i64::MAX)))
            }
            "Size" => Some(Numbers::whole([total(self.shape(node, 0)?)])),
            "Gather" => first()?.at(self.numbers(node, 1)?),
            "Concat" => {
                let parts = (0..node.input.len()).map(|input| self.numbers(node, input));
                Numbers::joined(&parts.collect::<Option<Vec<_>>>()?)
            }
            "Slice" if node.input.len() < 5 || self.whole(node, 4)? == [1] => {
                let place = |input: usize| self.whole(node, input)?.first().copied();
                Some(first()?.part(place(1)?, place(2)?))
            }
            "ConstantOfShape" => {
                let value = attribute(node, "value").and_then(|value| value.t.as_ref());
                let value = value.map_or(Some(Numbers::zero()), Numbers::of_tensor);
                value?.repeated(total(&self.numbers(node, 0)?.sizes())?)
            }
            _ => None,
        }
    }

    /// The shapes of a node's results, as far as they can be told.
    fn results(&self, node: &NodeProto) -> Vec<Option<Shape>> {
        match node.op_type() {
            "TopK" => vec![self.selected(node); 2],
            "Dropout" | "MaxPool" => vec![self.result(node); 2],
            "Split" => self.pieces(node).unwrap_or_default(),
            _ => vec![self.result(node)],
        }
    }

    /// The shape of a node's first result.
    fn result(&self, node: &NodeProto) -> Option<Shape> {
        match node.op_type() {
            "Constant" => match attribute(node, "value") {
                Some(value) => Self::constant(value.t.as_ref()?).shape,
                None => {
                    let count = Numbers::of_constant(node)?.len() as u64;
                    let is_list = ["value_ints", "value_floats"]
                        .iter()
                        .any(|name| attribute(node, name).is_some());
                    Some(if is_list { vec![Some(count)] } else { Vec::new() })
                }
            },
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
            | "Sin"
            | "Cos"
            | "Sqrt"
            | "Neg"
            | "Abs"
            | "Sign"
            | "Softplus"
            | "Softmax"
            | "LogSoftmax"
            | "BatchNormalization"
            | "LayerNormalization"
            | "InstanceNormalization"
            | "GroupNormalization"
            | "LpNormalization"
            | "Gelu"
            | "Mish"
            | "LRN"
            | "Reciprocal"
            | "Floor"
            | "Ceil"
            | "Round"
            | "Not"
            | "IsNaN"
            | "IsInf"
            | "CumSum"
            | "Trilu"
            | "EyeLike"
            | "ScatterND"
            | "ScatterElements"
            | "QuantizeLinear"
            | "DequantizeLinear"
            | "RandomNormalLike"
            | "RandomUniformLike" => self.shape(node, 0).cloned(),
            "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Max" | "Min" | "Sum" | "Mean" | "Where"
            | "PRelu" | "Equal" | "Greater" | "Less" | "GreaterOrEqual" | "LessOrEqual" | "And"
            | "Or" | "Xor" | "Mod" => {
                let shapes: Option<Vec<&Shape>> =
                    (0..node.input.len()).map(|input| self.shape(node, input)).collect();
                shapes?.into_iter().try_fold(Vec::new(), |all, shape| broadcast(&all, shape))
            }
            "MatMul" => product(self.shape(node, 0)?, self.shape(node, 1)?),
            "Gemm" => {
                let turned = |name: &str, shape: &Shape| match (int(node, name), &shape[..]) {
                    (Some(1), &[a, b]) => vec![b, a],
                    _ => shape.clone(),
                };
                product(
                    &turned("transA", self.shape(node, 0)?),
                    &turned("transB", self.shape(node, 1)?),
                )
            }
            "Einsum" => self.summed(node),
            "ConstantOfShape" => Some(self.numbers(node, 0)?.sizes()),
            "RandomNormal" | "RandomUniform" => {
                let sizes = ints(node, "shape")?;
                Some(sizes.into_iter().map(|size| u64::try_from(size).ok()).collect())
            }
            "Expand" => broadcast(self.shape(node, 0)?, &self.numbers(node, 1)?.sizes()),
            "Tile" => {
                let counts = self.numbers(node, 1)?.sizes();
                let shape = self.shape(node, 0)?;
                Some(shape.iter().zip(counts).map(|(&a, b)| times(a, b)).collect())
            }
            "Range" => {
                let [start, limit, step] = [0, 1, 2].map(|input| self.numbers(node, input));
                Some(vec![Numbers::count_between(start?, limit?, step?)])
            }
            "OneHot" => {
                let mut shape = self.shape(node, 0)?.clone();
                let axis = axis_of(int(node, "axis").unwrap_or(-1), shape.len() + 1)?;
                let classes = u64::try_from(*self.whole(node, 1)?.first()?).ok();
                if axis > shape.len() {
                    return None;
                }
                shape.insert(axis, classes);
                Some(shape)
            }
            "Pad" => {
                let (shape, pads) = (self.shape(node, 0)?, self.said(node, "pads", 1)?);
                // With axes, only these are padded.
                if node.input.len() > 3 {
                    return None;
                }
                let padded = |axis: usize| {
                    let both = pads.get(axis)?.saturating_add(*pads.get(axis + shape.len())?);
                    shape[axis]?.checked_add_signed(both)
                };
                Some((0..shape.len()).map(padded).collect())
            }
            "Resize" => self.resized(node),
            "Concat" => self.joined(node),
            "Transpose" => {
                let shape = self.shape(node, 0)?;
                let Some(order) = ints(node, "perm") else {
                    return Some(shape.iter().rev().copied().collect());
                };
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
                let sizes = self.shape(node, 0)?.iter().enumerate();
                Some(sizes.map(|(axis, &size)| if axis < 2 { size } else { Some(1) }).collect())
            }
            "DepthToSpace" => self.rearranged(node, true),
            "SpaceToDepth" => self.rearranged(node, false),
            "Shape" => Some(vec![Some(self.shape(node, 0)?.len() as u64)]),
            "Size" => Some(Vec::new()),
            "Flatten" => {
                let shape = self.shape(node, 0)?;
                let axis = axis_of(int(node, "axis").unwrap_or(1), shape.len())?;
                Some(vec![total(&shape[..axis]), total(&shape[axis..])])
            }
            "Reshape" => self.reshaped(node),
            "Unsqueeze" => {
                let mut shape = self.shape(node, 0)?.clone();
                let count = self.said(node, "axes", 1)?.len();
                let mut axes = self.axes(node, 1, shape.len() + count)?;
                axes.sort_unstable();
                for axis in axes {
                    if axis > shape.len() {
                        return None;
                    }
                    shape.insert(axis, Some(1));
                }
                Some(shape)
            }
            "Squeeze" => {
                let shape = self.shape(node, 0)?;
                if node.input.len() < 2 && attribute(node, "axes").is_none() {
                    let known: Option<Vec<u64>> = shape.iter().copied().collect();
                    return Some(known?.into_iter().filter(|&size| size != 1).map(Some).collect());
                }
                let axes = self.axes(node, 1, shape.len())?;
                Some(without(shape, &axes, false))
            }
            "Gather" => {
                let (shape, places) = (self.shape(node, 0)?, self.shape(node, 1)?);
                let axis = axis_of(int(node, "axis").unwrap_or(0), shape.len())?;
                Some([&shape[..axis], places, shape.get(axis + 1..)?].concat())
            }
            "GatherElements" => self.shape(node, 1).cloned(),
            "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceL1"
            | "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceSumSquare" => {
                let shape = self.shape(node, 0)?;
                let keep = int(node, "keepdims").unwrap_or(1) != 0;
                let is_said = attribute(node, "axes").is_some() || node.input.len() > 1;
                let axes = if is_said {
                    self.axes(node, 1, shape.len())?
                } else {
                    (0..shape.len()).collect()
                };
                Some(without(shape, &axes, keep))
            }
            "ArgMax" | "ArgMin" => {
                let shape = self.shape(node, 0)?;
                let axis = axis_of(int(node, "axis").unwrap_or(0), shape.len())?;
                Some(without(shape, &[axis], int(node, "keepdims").unwrap_or(1) != 0))
            }
            "Slice" => self.sliced(node),
            _ => None,
        }
    }

    /// What `TopK` gives, twice.
    fn selected(&self, node: &NodeProto) -> Option<Shape> {
        let mut shape = self.shape(node, 0)?.clone();
        let axis = axis_of(int(node, "axis").unwrap_or(-1), shape.len())?;
        *shape.get_mut(axis)? = *self.numbers(node, 1)?.sizes().first()?;
        Some(shape)
    }

    /// What `Split` gives.
    fn pieces(&self, node: &NodeProto) -> Option<Vec<Option<Shape>>> {
        let shape = self.shape(node, 0)?;
        let axis = axis_of(int(node, "axis").unwrap_or(0), shape.len())?;
        let sizes = self.said(node, "split", 1);
        let count = node.output.len() as u64;
        let size = |index: usize| match &sizes {
            Some(sizes) => u64::try_from(*sizes.get(index)?).ok(),
            // The last piece may be smaller.
            None => shape
                .get(axis)?
                .filter(|size| count > 0 && size % count == 0)
                .map(|size| size / count),
        };
        let piece = |index: usize| {
            let mut shape = shape.clone();
            *shape.get_mut(axis)? = size(index);
            Some(shape)
        };
        Some((0..node.output.len()).map(piece).collect())
    }

    /// The axes that letters name, of an equation such as `bij,bjk->bik`.
    fn summed(&self, node: &NodeProto) -> Option<Shape> {
        let text = attribute(node, "equation")?.s.as_ref()?;
        let text: String = std::str::from_utf8(text).ok()?.split_whitespace().collect();
        let (terms, result) = match text.split_once("->") {
            Some((terms, result)) => (terms, Some(result)),
            None => (text.as_str(), None),
        };
        let mut sizes: HashMap<char, (Option<u64>, usize)> = HashMap::new();
        for (input, term) in terms.split(',').enumerate() {
            let shape = self.shape(node, input)?;
            if term.chars().count() != shape.len() || term.contains('.') {
                return None;
            }
            for (letter, &size) in term.chars().zip(shape) {
                let known = sizes.entry(letter).or_insert((None, 0));
                *known = (known.0.max(size), known.1 + 1);
            }
        }
        let letters: Vec<char> = match result {
            Some(result) => result.chars().collect(),
            // Without an arrow: the letters that occur once, in the order of the alphabet.
            None => {
                let once = sizes.iter().filter(|(_, (_, count))| *count == 1);
                let mut letters: Vec<char> = once.map(|(&letter, _)| letter).collect();
                letters.sort_unstable();
                letters
            }
        };
        letters.iter().map(|letter| sizes.get(letter).map(|(size, _)| *size)).collect()
    }

    fn reshaped(&self, node: &NodeProto) -> Option<Shape> {
        let wanted = self.numbers(node, 1)?;
        let shape = self.shape(node, 0);
        let stays = int(node, "allowzero").unwrap_or(0) == 0;
        let Some(numbers) = wanted.known() else {
            let open = |size: Option<u64>| size.filter(|&size| size > 0 || !stays);
            return Some(wanted.sizes().into_iter().map(open).collect());
        };
        let mut sizes: Shape = numbers
            .iter()
            .enumerate()
            .map(|(axis, &size)| match size {
                0 if stays => shape.and_then(|shape| shape.get(axis).copied().flatten()),
                size => u64::try_from(size).ok(),
            })
            .collect();
        if let Some(open) = numbers.iter().position(|&size| size == -1) {
            let others: Vec<_> =
                (0..sizes.len()).filter(|&axis| axis != open).map(|axis| sizes[axis]).collect();
            let whole = shape.and_then(|shape| total(shape));
            sizes[open] = whole.zip(total(&others)).and_then(|(a, b)| a.checked_div(b));
        }
        Some(sizes)
    }

    fn sliced(&self, node: &NodeProto) -> Option<Shape> {
        let mut shape = self.shape(node, 0)?.clone();
        let (starts, ends) = (self.said(node, "starts", 1), self.said(node, "ends", 2));
        let count = starts.as_ref().map(Vec::len);
        let axes = match (attribute(node, "axes").is_some() || node.input.len() > 3, count) {
            (true, _) => self.axes(node, 3, shape.len())?,
            (false, Some(count)) => (0..count).collect(),
            (false, None) => return None,
        };
        let steps =
            if node.input.len() > 4 { self.whole(node, 4) } else { Some(vec![1; axes.len()]) };
        for (index, &axis) in axes.iter().enumerate() {
            let size = shape.get_mut(axis)?;
            let place = |list: &Option<Vec<i64>>| list.as_ref()?.get(index).copied();
            let known = place(&starts).zip(place(&ends)).zip(place(&steps)).zip(*size);
            *size = known.and_then(|(((start, end), step), size)| {
                let size = i64::try_from(size).ok()?;
                let at =
                    |at: i64| (if at < 0 { at.saturating_add(size) } else { at }).clamp(0, size);
                let length = u64::try_from(at(end).saturating_sub(at(start))).unwrap_or(0);
                // Backwards, ends mean something else.
                (step > 0).then(|| length.div_ceil(step.unsigned_abs()))
            });
        }
        Some(shape)
    }

    /// `DepthToSpace`, or back.
    fn rearranged(&self, node: &NodeProto, to_space: bool) -> Option<Shape> {
        let &[rows, channels, height, width] = &self.shape(node, 0)?[..] else { return None };
        let side = u64::try_from(int(node, "blocksize")?).ok().filter(|&side| side > 0)?;
        let more = |size: Option<u64>, by: u64| times(size, Some(by));
        let less = |size: Option<u64>, by: u64| size.map(|size| size / by);
        let square = side.saturating_mul(side);
        Some(if to_space {
            vec![rows, less(channels, square), more(height, side), more(width, side)]
        } else {
            vec![rows, more(channels, square), less(height, side), less(width, side)]
        })
    }

    fn resized(&self, node: &NodeProto) -> Option<Shape> {
        if let Some(sizes) = self.numbers(node, 3) {
            return Some(sizes.sizes());
        }
        let scales = self.numbers(node, 2)?.reals()?;
        let shape = self.shape(node, 0)?;
        let scaled = |(&size, scale): (&Option<u64>, &f64)| {
            // Rust's conversion stops at the largest number.
            size.map(|size| (size as f64 * scale).max(0.0) as u64)
        };
        Some(shape.iter().zip(&scales).map(scaled).collect())
    }

    fn joined(&self, node: &NodeProto) -> Option<Shape> {
        let mut joined = self.shape(node, 0)?.clone();
        let axis = axis_of(int(node, "axis")?, joined.len())?;
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
        let groups = int(node, "group").unwrap_or(1);
        let channels = times(weight[1], u64::try_from(groups).ok());
        let mut out = vec![*shape.first()?, channels];
        let said = ints(node, "output_shape");
        for (axis, (&size, &kernel)) in shape.get(2..)?.iter().zip(kernel).enumerate() {
            let window = Window::of(node, axis, kernel)?;
            let more = listed(node, "output_padding", axis, 0);
            out.push(match &said {
                Some(said) => u64::try_from(*said.get(axis)?).ok(),
                None => size.and_then(|size| window.spread(size)?.checked_add_signed(more)),
            });
        }
        Some(out)
    }
}

/// A window that slides over one axis.
struct Window {
    /// How far it reaches.
    reach: u64,
    stride: u64,
    /// Both ends together; none where the result has the size of the input, divided by the stride.
    pads: Option<i64>,
    rounds_up: bool,
}

impl Window {
    fn of(node: &NodeProto, axis: usize, kernel: Option<u64>) -> Option<Self> {
        let natural = |name: &str| u64::try_from(listed(node, name, axis, 1)).ok();
        let (dilation, stride) = (natural("dilations")?, natural("strides")?.max(1));
        let reach = kernel?.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
        let pads = match attribute(node, "auto_pad").and_then(|said| said.s.as_deref()) {
            Some(b"SAME_UPPER" | b"SAME_LOWER") => None,
            Some(b"VALID") => Some(0),
            _ => {
                let all = ints(node, "pads").unwrap_or_default();
                let at = |index: usize| all.get(index).copied().unwrap_or(0);
                Some(at(axis).checked_add(at(axis + all.len() / 2))?)
            }
        };
        Some(Window { reach, stride, pads, rounds_up: int(node, "ceil_mode") == Some(1) })
    }

    /// How often it fits.
    fn slid(&self, size: u64) -> Option<u64> {
        let Some(pads) = self.pads else { return Some(size.div_ceil(self.stride)) };
        let room = size.checked_add_signed(pads)?.checked_sub(self.reach)?;
        let steps = if self.rounds_up { room.div_ceil(self.stride) } else { room / self.stride };
        steps.checked_add(1)
    }

    /// What `ConvTranspose` makes of a size.
    fn spread(&self, size: u64) -> Option<u64> {
        let Some(pads) = self.pads else { return Some(size.saturating_mul(self.stride)) };
        let steps = size.saturating_sub(1).saturating_mul(self.stride);
        steps.saturating_add(self.reach).checked_add_signed(pads.checked_neg()?)
    }
}

/// A number of a list that has one for each axis, or `usual`.
fn listed(node: &NodeProto, name: &str, axis: usize, usual: i64) -> i64 {
    ints(node, name).and_then(|list| list.get(axis).copied()).unwrap_or(usual)
}

/// What a window that slides over an input gives.
fn slid(
    node: &NodeProto,
    shape: &Shape,
    kernel: &[Option<u64>],
    channels: Option<u64>,
) -> Option<Shape> {
    let mut out = vec![*shape.first()?, channels];
    for (axis, (&size, &kernel)) in shape.get(2..)?.iter().zip(kernel).enumerate() {
        out.push(size.and_then(|size| Window::of(node, axis, kernel)?.slid(size)));
    }
    Some(out)
}

/// The sizes without these axes, or with 1 in their place.
fn without(shape: &Shape, axes: &[usize], keep: bool) -> Shape {
    let sizes = shape.iter().enumerate();
    sizes
        .filter(|(axis, _)| keep || !axes.contains(axis))
        .map(|(axis, &size)| if axes.contains(&axis) { Some(1) } else { size })
        .collect()
}
