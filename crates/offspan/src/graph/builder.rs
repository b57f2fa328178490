//! Makes a graph, node by node.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use ndarray::{Array1, Array2, ArrayView2};

use super::shape::{Kind, results};
use super::{Constant, Element, Graph, Input, Node, Numbers, Op, Output, Size, ValueInfo};
use crate::{Precision, Real};

/// A value of the graph that a [`Builder`] is making.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Value(usize);

/// A graph in the making.
///
/// Shapes that do not fit are mistakes of the code that builds, which stop it; the tests build every method.
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    graph: Graph<'a>,
    /// Name, element and shape of each value.
    values: Vec<ValueInfo>,
    /// Single numbers that are there already, by their bits.
    scalars: BTreeMap<u64, Value>,
    guards: Vec<Guard>,
    width: usize,
}

/// An input with numbers for each row, and what the score is made of instead.
#[derive(Debug)]
struct Guard {
    input: Value,
    /// The same, but zeros in rows with NaN or infinities: an index that is made of NaN would end the run, for all rows.
    clean: Value,
    /// [N]: the rows that have neither.
    finite: Value,
}

impl<'a> Builder<'a> {
    /// For rows of this width.
    pub(crate) fn new(width: usize) -> Self {
        let (graph, values) = (Graph::default(), Vec::new());
        Builder { graph, values, scalars: BTreeMap::new(), guards: Vec::new(), width }
    }

    /// The graph with these results. What they do not need is left out, and such inputs are not asked for.
    pub(crate) fn finish(
        mut self,
        outputs: &[(&str, Value)],
        metadata: BTreeMap<String, String>,
    ) -> Graph<'a> {
        let results: Vec<Value> = outputs.iter().map(|&(_, value)| value).collect();
        let needed = self.needed(&results);
        let is_needed = |node: &Node| node.outputs.iter().any(|value| needed.contains(&value.name));
        self.graph.nodes.retain(is_needed);
        self.graph.constants.retain(|constant| needed.contains(&constant.name));
        self.graph.inputs.retain(|input| needed.contains(&input.value.name));
        self.graph.outputs = outputs
            .iter()
            .map(|&(name, value)| Output { name: name.to_owned(), value: self.name(value) })
            .collect();
        self.graph.metadata = metadata;
        self.graph
    }

    /// The names of all values that these ones are made of, their own included.
    fn needed(&self, results: &[Value]) -> BTreeSet<String> {
        let mut needed: BTreeSet<String> = results.iter().map(|&value| self.name(value)).collect();
        for node in self.graph.nodes.iter().rev() {
            if node.outputs.iter().any(|value| needed.contains(&value.name)) {
                needed.extend(node.inputs.iter().cloned());
            }
        }
        needed
    }

    /// Rows that have neither NaN nor infinities in anything that this value is made of, [N].
    pub(crate) fn finite_rows(&mut self, result: Value) -> Option<Value> {
        let needed = self.needed(&[result]);
        let used = |guard: &&Guard| needed.contains(&self.name(guard.clean));
        let flags: Vec<Value> = self.guards.iter().filter(used).map(|guard| guard.finite).collect();
        flags.into_iter().reduce(|all, more| self.node(Op::And, &[all, more]))
    }

    // What a caller gives.

    /// The rows, [N, m].
    pub(crate) fn features(&mut self) -> Value {
        let width = self.width;
        self.input("features", &[width])
    }

    /// The logits of each row, [N, C].
    pub(crate) fn logits(&mut self, classes: Option<usize>) -> Value {
        let classes = classes.map_or(Size::Named("C"), Size::Fixed);
        self.any_input("logits", vec![Size::Rows, classes], None)
    }

    /// A tensor with one axis besides that of the rows, whose size is not known.
    pub(crate) fn input_of_any_width(&mut self, name: &str, size: &'static str) -> Value {
        self.any_input(name, vec![Size::Rows, Size::Named(size)], None)
    }

    /// A tensor of this shape for each row.
    pub(crate) fn input(&mut self, name: &str, row: &[usize]) -> Value {
        let rows = std::iter::once(Size::Rows);
        self.any_input(name, rows.chain(row.iter().copied().map(Size::Fixed)).collect(), None)
    }

    /// A number that a caller may give.
    pub(crate) fn optional_number(&mut self, name: &str, default: f64) -> Value {
        self.any_input(name, Vec::new(), Some(default))
    }

    fn any_input(&mut self, name: &str, shape: Vec<Size>, default: Option<f64>) -> Value {
        if let Some(known) = self.values.iter().position(|value| value.name == name) {
            let known_shape = &self.values[known].shape;
            // What is known of a size by one part of a score is no more than what another needs.
            let same = |(a, b): (&Size, &Size)| a == b || matches!(b, Size::Named(_));
            let same = known_shape.iter().zip(&shape).all(same) && known_shape.len() == shape.len();
            assert!(same, "two shapes of the input `{name}`");
            let guard = self.guards.iter().find(|guard| guard.input == Value(known));
            return guard.map_or(Value(known), |guard| guard.clean);
        }
        let of_rows = shape.first() == Some(&Size::Rows);
        let value = ValueInfo { name: name.to_owned(), element: Element::Real, shape };
        self.graph.inputs.push(Input { value: value.clone(), default });
        self.values.push(value);
        let input = Value(self.values.len() - 1);
        if of_rows { self.guarded(input) } else { input }
    }

    /// Rows without NaN and infinities.
    fn guarded(&mut self, input: Value) -> Value {
        // `Less` is false for NaN in every version of ONNX's operators; `LessOrEqual` is not where it is written as
        // `Not(Greater)`.
        let (zero, infinity) = (self.scalar(0.0), self.scalar(f64::INFINITY));
        let sizes = self.abs(input);
        let each = self.node(Op::Less, &[sizes, infinity]);
        let mut least = self.counted(each);
        for axis in 1..self.shape(input).len() {
            least = self.node(Op::ReduceMin { axis, keep: true }, &[least]);
        }
        let all = self.node(Op::Greater, &[least, zero]);
        let clean = self.choose(all, input, zero);
        let finite = self.as_row(all);
        self.guards.push(Guard { input, clean, finite });
        clean
    }

    // Constants.

    /// A constant of any shape.
    pub(crate) fn constant(&mut self, name: &str, shape: &[usize], numbers: Numbers<'a>) -> Value {
        assert!(shape.iter().product::<usize>() == numbers.len(), "`{name}` is not {shape:?}");
        let element = numbers.element();
        let sizes = shape.iter().copied().map(Size::Fixed).collect();
        let value = self.value(name, (element, sizes));
        let (name, shape) = (self.name(value), shape.to_vec());
        self.graph.constants.push(Constant { name, shape, numbers });
        value
    }

    /// A matrix of the library's own numbers, as rows of its memory if it can be borrowed.
    pub(crate) fn matrix<T: Real>(&mut self, name: &str, matrix: ArrayView2<'a, T>) -> Value {
        let shape = [matrix.nrows(), matrix.ncols()];
        let numbers = match matrix.to_slice() {
            Some(numbers) => numbers_of(Cow::Borrowed(numbers)),
            None => numbers_of(Cow::Owned(matrix.iter().copied().collect())),
        };
        self.constant(name, &shape, numbers)
    }

    /// A matrix that was made for the graph.
    pub(crate) fn owned<T: Real>(&mut self, name: &str, matrix: Array2<T>) -> Value {
        let shape = [matrix.nrows(), matrix.ncols()];
        let numbers = matrix.iter().copied().collect();
        self.constant(name, &shape, numbers_of(Cow::Owned(numbers)))
    }

    /// A matrix of so many rows for each slice, as [slices, rows, columns].
    pub(crate) fn cube<T: Real>(
        &mut self,
        name: &str,
        matrix: ArrayView2<'_, T>,
        rows: usize,
    ) -> Value {
        let shape = [matrix.nrows() / rows, rows, matrix.ncols()];
        self.constant(name, &shape, numbers_of(Cow::Owned(matrix.iter().copied().collect())))
    }

    /// A matrix with rows as columns, as the right side of a product wants it.
    pub(crate) fn transposed<T: Real>(&mut self, name: &str, matrix: ArrayView2<'_, T>) -> Value {
        self.owned(name, matrix.t().to_owned())
    }

    /// x·Wᵀ, with one row of the matrix for each number of the result.
    pub(crate) fn linear<T: Real>(
        &mut self,
        name: &str,
        x: Value,
        weight: ArrayView2<'_, T>,
    ) -> Value {
        let weight = self.transposed(name, weight);
        self.node(Op::MatMul, &[x, weight])
    }

    /// A vector, [n], which every row is combined with.
    pub(crate) fn vector<T: Real>(&mut self, name: &str, numbers: &Array1<T>) -> Value {
        self.constant(name, &[numbers.len()], numbers_of(Cow::Owned(numbers.to_vec())))
    }

    /// A single number.
    pub(crate) fn scalar(&mut self, number: f64) -> Value {
        if let Some(&known) = self.scalars.get(&number.to_bits()) {
            return known;
        }
        let value = self.constant("number", &[], Numbers::Double(Cow::Owned(vec![number])));
        self.scalars.insert(number.to_bits(), value);
        value
    }

    // Nodes.

    /// The first result of an operator.
    pub(crate) fn node(&mut self, op: Op, inputs: &[Value]) -> Value {
        self.nodes(op, inputs)[0]
    }

    /// All results of an operator.
    fn nodes(&mut self, op: Op, inputs: &[Value]) -> Vec<Value> {
        let kinds: Vec<Kind> = inputs.iter().map(|&value| self.kind(value)).collect();
        let outputs: Vec<Value> = results(&op, &kinds.iter().collect::<Vec<_>>())
            .into_iter()
            .map(|kind| self.value("v", kind))
            .collect();
        let info = outputs.iter().map(|value| self.values[value.0].clone()).collect();
        let inputs = inputs.iter().map(|&value| self.name(value)).collect();
        self.graph.nodes.push(Node { op, inputs, outputs: info });
        outputs
    }

    /// The values of the `k` largest or smallest of each row, in order, and where they are.
    pub(crate) fn top_k(&mut self, x: Value, k: usize, largest: bool) -> (Value, Value) {
        let found = self.nodes(Op::TopK { k, largest }, &[x]);
        (found[0], found[1])
    }

    fn value(&mut self, name: &str, (element, shape): Kind) -> Value {
        let index = self.values.len();
        let taken = self.values.iter().any(|value| value.name == name);
        let name = if taken || name == "v" { format!("{name}{index}") } else { name.to_owned() };
        self.values.push(ValueInfo { name, element, shape });
        Value(index)
    }

    fn name(&self, value: Value) -> String {
        self.values[value.0].name.clone()
    }

    fn kind(&self, value: Value) -> Kind {
        (self.values[value.0].element, self.values[value.0].shape.clone())
    }

    /// The sizes of a value.
    pub(crate) fn shape(&self, value: Value) -> &[Size] {
        &self.values[value.0].shape
    }

    /// The last size of a value.
    pub(crate) fn last_size(&self, value: Value) -> usize {
        match self.shape(value).last() {
            Some(Size::Fixed(size)) => *size,
            other => panic!("a fixed last size was expected, got {other:?}"),
        }
    }
}

/// Numbers with the type that they have.
fn numbers_of<T: Real>(numbers: Cow<'_, [T]>) -> Numbers<'_> {
    match (T::PRECISION, numbers) {
        (Precision::F32, Cow::Borrowed(numbers)) => {
            Numbers::Single(Cow::Borrowed(bytemuck::cast_slice(numbers)))
        }
        (Precision::F32, Cow::Owned(numbers)) => {
            Numbers::Single(Cow::Owned(bytemuck::cast_slice(&numbers).to_vec()))
        }
        (Precision::F64, Cow::Borrowed(numbers)) => {
            Numbers::Double(Cow::Borrowed(bytemuck::cast_slice(numbers)))
        }
        (Precision::F64, Cow::Owned(numbers)) => {
            Numbers::Double(Cow::Owned(bytemuck::cast_slice(&numbers).to_vec()))
        }
    }
}
