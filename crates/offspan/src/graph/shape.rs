//! What comes out of an operator: its element and shape.
//!
//! Whoever builds a graph is wrong, and not the data, if shapes do not fit; so these stop with a message.

use super::{Element, Op, Size};

/// Element and shape of a value.
pub(super) type Kind = (Element, Vec<Size>);

/// What each result of an operator on these values is.
pub(super) fn results(op: &Op, inputs: &[&Kind]) -> Vec<Kind> {
    let fits = |fits: bool, what: &str| assert!(fits, "{op:?} of {inputs:?}: {what}");
    let (element, shape) = (inputs[0].0, &inputs[0].1);
    let one = |element, shape| vec![(element, shape)];
    let reals = |wanted: usize| {
        fits(inputs.len() == wanted, "a wrong number of values");
        fits(inputs.iter().all(|(element, _)| *element == Element::Real), "not all reals");
    };
    match op {
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
        | Op::CumSum { .. }
        | Op::Softmax { .. } => {
            reals(1);
            one(element, shape.clone())
        }
        Op::IsInf => {
            reals(1);
            one(Element::Flag, shape.clone())
        }
        Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Pow | Op::Max | Op::Min => {
            reals(2);
            one(element, broadcast(shape, &inputs[1].1))
        }
        Op::Less
        | Op::LessOrEqual
        | Op::Greater
        | Op::GreaterOrEqual
        | Op::Equal
        | Op::And
        | Op::Or => {
            let flags = matches!(op, Op::And | Op::Or);
            fits(inputs.len() == 2 && inputs[1].0 == element, "two values of one kind");
            fits(flags == (element == Element::Flag), "a wrong kind");
            one(Element::Flag, broadcast(shape, &inputs[1].1))
        }
        Op::Not => {
            fits(inputs.len() == 1 && element == Element::Flag, "one value of flags");
            one(element, shape.clone())
        }
        Op::Where => {
            fits(inputs.len() == 3 && element == Element::Flag, "flags and two values");
            fits(inputs[1].0 == inputs[2].0, "two values of one kind");
            one(inputs[1].0, broadcast(&broadcast(shape, &inputs[1].1), &inputs[2].1))
        }
        Op::MatMul => {
            reals(2);
            one(element, product(shape, &inputs[1].1))
        }
        Op::ReduceSum { axis, keep }
        | Op::ReduceMean { axis, keep }
        | Op::ReduceMax { axis, keep }
        | Op::ReduceMin { axis, keep } => {
            reals(1);
            one(element, reduced(shape, *axis, *keep))
        }
        Op::ArgMax { axis, keep } | Op::ArgMin { axis, keep } => {
            reals(1);
            one(Element::Index, reduced(shape, *axis, *keep))
        }
        Op::TopK { k, .. } => {
            reals(1);
            let (last, leading) = shape.split_last().expect("an axis to choose along");
            fits(matches!(last, Size::Fixed(size) if k <= size), "more than there are");
            let shape = [leading, &[Size::Fixed(*k)]].concat();
            vec![(element, shape.clone()), (Element::Index, shape)]
        }
        Op::Gather { axis } => {
            fits(inputs.len() == 2 && inputs[1].0 == Element::Index, "a value and indices");
            let shape = [&shape[..*axis], &inputs[1].1, &shape[axis + 1..]].concat();
            one(element, shape)
        }
        Op::GatherElements { .. } => {
            fits(inputs.len() == 2 && inputs[1].0 == Element::Index, "a value and indices");
            fits(inputs[1].1.len() == shape.len(), "indices of the same rank");
            one(element, inputs[1].1.clone())
        }
        Op::Concat { axis } => {
            let size = |(_, shape): &&Kind| match shape[*axis] {
                Size::Fixed(size) => size,
                free => panic!("{op:?} along {free:?}, whose size is not known"),
            };
            let mut shape = shape.clone();
            shape[*axis] = Size::Fixed(inputs.iter().map(size).sum());
            one(element, shape)
        }
        Op::Slice { axis, start, end } => {
            let inside = matches!(shape[*axis], Size::Fixed(size) if *end <= size);
            fits(start < end && inside, "a range that is not there");
            let mut shape = shape.clone();
            shape[*axis] = Size::Fixed(end - start);
            one(element, shape)
        }
        Op::Reshape { shape: sizes } => {
            let size = |size: &i64| match usize::try_from(*size) {
                Ok(size) => Size::Fixed(size),
                Err(_) => Size::Rows,
            };
            let new: Vec<Size> = sizes.iter().map(size).collect();
            fits(count(&new) == count(shape), "another number of numbers");
            one(element, new)
        }
        Op::Transpose { order } => one(element, order.iter().map(|&axis| shape[axis]).collect()),
        Op::Cast { to } => one(*to, shape.clone()),
    }
}

/// How many rows (0 or 1 times `N`) and numbers for each.
fn count(shape: &[Size]) -> (usize, usize) {
    shape.iter().fold((0, 1), |(rows, numbers), size| match size {
        Size::Fixed(size) => (rows, numbers * size),
        Size::Rows => (rows + 1, numbers),
        Size::Named(_) => panic!("{shape:?} cannot take another shape"),
    })
}

fn reduced(shape: &[Size], axis: usize, keep: bool) -> Vec<Size> {
    let middle: &[Size] = if keep { &[Size::Fixed(1)] } else { &[] };
    [&shape[..axis], middle, &shape[axis + 1..]].concat()
}

/// As in NumPy: from the last size on, equal sizes or 1.
fn broadcast(a: &[Size], b: &[Size]) -> Vec<Size> {
    let rank = a.len().max(b.len());
    let one = Size::Fixed(1);
    let at = |shape: &[Size], axis: usize| {
        (axis + shape.len()).checked_sub(rank).map_or(one, |axis| shape[axis])
    };
    (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (x, y) if x == y || y == one => x,
            (x, y) if x == one => y,
            _ => panic!("{a:?} and {b:?} do not fit each other"),
        })
        .collect()
}

fn product(a: &[Size], b: &[Size]) -> Vec<Size> {
    let ([before_a @ .., rows, inner], [before_b @ .., other, columns]) = (a, b) else {
        panic!("a product of {a:?} and {b:?}, which are no matrices");
    };
    assert!(inner == other, "a product of {a:?} and {b:?}");
    [broadcast(before_a, before_b), vec![*rows, *columns]].concat()
}
