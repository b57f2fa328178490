//! The operators of a graph.

use serde::Serialize;

use super::Element;

/// An operator with its attributes. Names and meanings are those of ONNX, but for what is said here.
///
/// Operators of two values broadcast as in NumPy. An `axis` counts from 0 and is never negative. Reductions take
/// one axis; `keep` says whether it stays with size 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "op", content = "attributes")]
pub enum Op {
    // Reals, one by one.
    /// −x.
    Neg,
    /// |x|.
    Abs,
    /// √x.
    Sqrt,
    /// eˣ.
    Exp,
    /// ln x; −∞ of 0.
    Log,
    /// sin x.
    Sin,
    /// cos x.
    Cos,
    /// tanh x.
    Tanh,
    /// erf x.
    Erf,
    /// max(x, 0).
    Relu,
    /// −1, 0 or 1.
    Sign,
    /// To the next whole number, halves to the even one.
    Round,
    /// Whether a number is infinite, of either sign.
    IsInf,

    // Two values.
    /// x + y.
    Add,
    /// x − y.
    Sub,
    /// x · y.
    Mul,
    /// x / y.
    Div,
    /// x to the power of y, for x ≥ 0 or whole y.
    Pow,
    /// The larger one.
    Max,
    /// The smaller one.
    Min,
    /// x < y.
    Less,
    /// x ≤ y.
    LessOrEqual,
    /// x > y.
    Greater,
    /// x ≥ y.
    GreaterOrEqual,
    /// x = y.
    Equal,
    /// Both flags.
    And,
    /// One of both flags.
    Or,
    /// Not the flag.
    Not,
    /// The second value where the first, flags, says so, else the third.
    Where,
    /// Matrix product of the last two axes; leading ones broadcast.
    MatMul,

    // Over an axis.
    /// The sum.
    ReduceSum {
        /// The axis that is summed up.
        axis: usize,
        /// Whether it stays with size 1.
        keep: bool,
    },
    /// The mean.
    ReduceMean {
        /// The axis.
        axis: usize,
        /// Whether it stays with size 1.
        keep: bool,
    },
    /// The largest.
    ReduceMax {
        /// The axis.
        axis: usize,
        /// Whether it stays with size 1.
        keep: bool,
    },
    /// The smallest.
    ReduceMin {
        /// The axis.
        axis: usize,
        /// Whether it stays with size 1.
        keep: bool,
    },
    /// Where the largest is, as an index; of equal ones the first.
    ArgMax {
        /// The axis.
        axis: usize,
        /// Whether it stays with size 1.
        keep: bool,
    },
    /// Where the smallest is, as an index; of equal ones the first.
    ArgMin {
        /// The axis.
        axis: usize,
        /// Whether it stays with size 1.
        keep: bool,
    },
    /// The sum of each number and all before it.
    CumSum {
        /// The axis.
        axis: usize,
    },
    /// exp(x) over its sum, without overflow.
    Softmax {
        /// The axis.
        axis: usize,
    },
    /// The `k` largest (or smallest) along the last axis in order, and where they are: two results.
    TopK {
        /// How many.
        k: usize,
        /// Whether the largest are asked for.
        largest: bool,
    },

    // Places.
    /// Slices of the first value at the indices that the second one names, along an axis.
    Gather {
        /// The axis of the first value.
        axis: usize,
    },
    /// The numbers of the first value at the indices of the second one, which has the same rank.
    GatherElements {
        /// The axis.
        axis: usize,
    },
    /// All values one after the other.
    Concat {
        /// The axis.
        axis: usize,
    },
    /// From `start` on, up to but without `end`.
    Slice {
        /// The axis.
        axis: usize,
        /// The first index.
        start: usize,
        /// The index after the last.
        end: usize,
    },
    /// The same numbers in another shape. −1 stands for the number of rows, and occurs at most once.
    Reshape {
        /// The sizes.
        shape: Vec<i64>,
    },
    /// Axes in another order.
    Transpose {
        /// Where each axis of the result comes from.
        order: Vec<usize>,
    },
    /// To another kind of numbers. A flag becomes 0 or 1.
    Cast {
        /// The kind.
        to: Element,
    },
}

impl Op {
    /// The name, which is that of ONNX.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Op::Neg => "Neg",
            Op::Abs => "Abs",
            Op::Sqrt => "Sqrt",
            Op::Exp => "Exp",
            Op::Log => "Log",
            Op::Sin => "Sin",
            Op::Cos => "Cos",
            Op::Tanh => "Tanh",
            Op::Erf => "Erf",
            Op::Relu => "Relu",
            Op::Sign => "Sign",
            Op::Round => "Round",
            Op::IsInf => "IsInf",
            Op::Add => "Add",
            Op::Sub => "Sub",
            Op::Mul => "Mul",
            Op::Div => "Div",
            Op::Pow => "Pow",
            Op::Max => "Max",
            Op::Min => "Min",
            Op::Less => "Less",
            Op::LessOrEqual => "LessOrEqual",
            Op::Greater => "Greater",
            Op::GreaterOrEqual => "GreaterOrEqual",
            Op::Equal => "Equal",
            Op::And => "And",
            Op::Or => "Or",
            Op::Not => "Not",
            Op::Where => "Where",
            Op::MatMul => "MatMul",
            Op::ReduceSum { .. } => "ReduceSum",
            Op::ReduceMean { .. } => "ReduceMean",
            Op::ReduceMax { .. } => "ReduceMax",
            Op::ReduceMin { .. } => "ReduceMin",
            Op::ArgMax { .. } => "ArgMax",
            Op::ArgMin { .. } => "ArgMin",
            Op::CumSum { .. } => "CumSum",
            Op::Softmax { .. } => "Softmax",
            Op::TopK { .. } => "TopK",
            Op::Gather { .. } => "Gather",
            Op::GatherElements { .. } => "GatherElements",
            Op::Concat { .. } => "Concat",
            Op::Slice { .. } => "Slice",
            Op::Reshape { .. } => "Reshape",
            Op::Transpose { .. } => "Transpose",
            Op::Cast { .. } => "Cast",
        }
    }
}
