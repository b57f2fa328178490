//! Carries a graph out, slowly and plainly: the reference that other runtimes are compared with.

use std::collections::BTreeMap;

use ndarray::{ArrayD, ArrayViewD, Axis, Ix2, IxDyn, Slice, Zip};

use super::{Element, Graph, Numbers, Op};
use crate::{Error, Precision, Result};

/// Arrays by name. Indices and flags are numbers, too: 0 and 1.
type Arrays = BTreeMap<String, ArrayD<f64>>;

impl Graph<'_> {
    /// The outputs for these inputs. In single precision every number is rounded after each operation; sums within
    /// one are not.
    ///
    /// # Errors
    /// If an input is missing or has another rank than it should.
    pub fn evaluate(&self, given: &Arrays, precision: Precision) -> Result<Arrays> {
        let round = |mut array: ArrayD<f64>| {
            if precision == Precision::F32 {
                array.mapv_inplace(|x| f64::from(x as f32));
            }
            array
        };
        let mut values = Arrays::new();
        for input in &self.inputs {
            let name = &input.value.name;
            let value = match (given.get(name), input.default) {
                (Some(value), _) => value.clone(),
                (None, Some(default)) => ArrayD::from_elem(IxDyn(&[]), default),
                (None, None) => {
                    return Err(Error::MissingInput {
                        who: "the graph".to_owned(),
                        what: "all its inputs",
                        hint: format!("give `{name}`"),
                    });
                }
            };
            if value.ndim() != input.value.shape.len() {
                let expected = format!("{:?}", input.value.shape);
                return Err(Error::shape(name, expected, format!("{:?}", value.shape())));
            }
            values.insert(name.clone(), round(value));
        }
        for constant in &self.constants {
            let numbers: Vec<f64> = match &constant.numbers {
                Numbers::Single(numbers) => numbers.iter().map(|&x| f64::from(x)).collect(),
                Numbers::Double(numbers) => numbers.to_vec(),
                Numbers::Index(numbers) => numbers.iter().map(|&x| x as f64).collect(),
                Numbers::Flag(numbers) => numbers.iter().map(|&x| f64::from(u8::from(x))).collect(),
            };
            let array = ArrayD::from_shape_vec(IxDyn(&constant.shape), numbers)
                .unwrap_or_else(|_| unreachable!("the builder checked the shape"));
            let real = constant.numbers.element() == Element::Real;
            values.insert(constant.name.clone(), if real { round(array) } else { array });
        }
        for node in &self.nodes {
            let inputs: Vec<ArrayViewD<'_, f64>> =
                node.inputs.iter().map(|name| values[name].view()).collect();
            let results = carry_out(&node.op, &inputs);
            for (info, result) in node.outputs.iter().zip(results) {
                let real = info.element == Element::Real;
                values.insert(info.name.clone(), if real { round(result) } else { result });
            }
        }
        let output = |output: &super::Output| (output.name.clone(), values[&output.value].clone());
        Ok(self.outputs.iter().map(output).collect())
    }
}

fn carry_out(op: &Op, inputs: &[ArrayViewD<'_, f64>]) -> Vec<ArrayD<f64>> {
    let x = &inputs[0];
    let each = |of: fn(f64) -> f64| vec![x.mapv(of)];
    let pair = |of: fn(f64, f64) -> f64| vec![both(x, &inputs[1], of)];
    let flag = |flag: bool| f64::from(u8::from(flag));
    match op {
        Op::Neg => each(|x| -x),
        Op::Abs => each(f64::abs),
        Op::Sqrt => each(f64::sqrt),
        Op::Exp => each(f64::exp),
        Op::Log => each(f64::ln),
        Op::Sin => each(f64::sin),
        Op::Cos => each(f64::cos),
        Op::Tanh => each(f64::tanh),
        Op::Erf => each(libm::erf),
        Op::Relu => each(|x| x.max(0.0)),
        Op::Sign => each(|x| if x == 0.0 { 0.0 } else { x.signum() }),
        Op::Round => each(f64::round_ties_even),
        Op::IsInf => vec![x.mapv(|x| flag(x.is_infinite()))],
        Op::Not => each(|x| 1.0 - x),
        Op::Cast { to } => match to {
            Element::Real | Element::Flag => vec![x.to_owned()],
            Element::Index => each(f64::trunc),
        },
        Op::Add => pair(|x, y| x + y),
        Op::Sub => pair(|x, y| x - y),
        Op::Mul | Op::And => pair(|x, y| x * y),
        Op::Div => pair(|x, y| x / y),
        Op::Pow => pair(f64::powf),
        // Flags are 0 and 1.
        Op::Max | Op::Or => pair(f64::max),
        Op::Min => pair(f64::min),
        Op::Less => pair(|x, y| f64::from(u8::from(x < y))),
        Op::LessOrEqual => pair(|x, y| f64::from(u8::from(x <= y))),
        Op::Greater => pair(|x, y| f64::from(u8::from(x > y))),
        Op::GreaterOrEqual => pair(|x, y| f64::from(u8::from(x >= y))),
        Op::Equal => pair(|x, y| f64::from(u8::from(x == y))),
        Op::Where => {
            let shape = broadcast(&broadcast(x.shape(), inputs[1].shape()), inputs[2].shape());
            let mut out = ArrayD::zeros(IxDyn(&shape));
            let [flags, yes, no] = [0, 1, 2].map(|at| spread(&inputs[at], &shape));
            Zip::from(&mut out)
                .and(&flags)
                .and(&yes)
                .and(&no)
                .for_each(|out, &flag, &yes, &no| *out = if flag == 1.0 { yes } else { no });
            vec![out]
        }
        Op::MatMul => vec![product(x, &inputs[1])],
        Op::ReduceSum { axis, keep } => over(x, *axis, *keep, |lane| lane.iter().sum()),
        Op::ReduceMean { axis, keep } => {
            over(x, *axis, *keep, |lane| lane.iter().sum::<f64>() / lane.len() as f64)
        }
        Op::ReduceMax { axis, keep } => over(x, *axis, *keep, |lane| lane[best(lane, true)]),
        Op::ReduceMin { axis, keep } => over(x, *axis, *keep, |lane| lane[best(lane, false)]),
        Op::ArgMax { axis, keep } => over(x, *axis, *keep, |lane| best(lane, true) as f64),
        Op::ArgMin { axis, keep } => over(x, *axis, *keep, |lane| best(lane, false) as f64),
        Op::CumSum { axis } => {
            let mut out = x.to_owned();
            out.accumulate_axis_inplace(Axis(*axis), |before, sum| *sum += before);
            vec![out]
        }
        Op::Softmax { axis } => {
            let mut out = x.to_owned();
            for mut lane in out.lanes_mut(Axis(*axis)) {
                let largest = lane.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x));
                lane.mapv_inplace(|x| (x - largest).exp());
                let sum = lane.sum();
                lane /= sum;
            }
            vec![out]
        }
        Op::TopK { k, largest } => top_k(x, *k, *largest),
        Op::Gather { axis } => {
            let places: Vec<usize> = inputs[1].iter().map(|&place| place as usize).collect();
            let chosen = x.select(Axis(*axis), &places);
            let (before, after) = (&x.shape()[..*axis], &x.shape()[axis + 1..]);
            let shape = [before, inputs[1].shape(), after].concat();
            vec![reshaped(chosen, &shape)]
        }
        Op::GatherElements { axis } => {
            let of = |(at, &place): (IxDyn, &f64)| {
                let mut at = at;
                at[*axis] = place as usize;
                x[at]
            };
            let numbers = inputs[1].indexed_iter().map(of).collect();
            vec![shaped(numbers, inputs[1].shape())]
        }
        Op::Concat { axis } => {
            vec![ndarray::concatenate(Axis(*axis), inputs).expect("values that fit each other")]
        }
        Op::Slice { axis, start, end } => {
            vec![x.slice_axis(Axis(*axis), Slice::from(*start..*end)).to_owned()]
        }
        Op::Reshape { shape } => {
            let known: usize =
                shape.iter().filter_map(|&size| usize::try_from(size).ok()).product();
            let free = x.len() / known.max(1);
            let size = |&size: &i64| usize::try_from(size).unwrap_or(free);
            vec![reshaped(x.to_owned(), &shape.iter().map(size).collect::<Vec<_>>())]
        }
        Op::Transpose { order } => {
            vec![x.view().permuted_axes(IxDyn(order)).as_standard_layout().into_owned()]
        }
    }
}

fn shaped(numbers: Vec<f64>, shape: &[usize]) -> ArrayD<f64> {
    ArrayD::from_shape_vec(IxDyn(shape), numbers).expect("as many numbers as the shape has")
}

fn reshaped(array: ArrayD<f64>, shape: &[usize]) -> ArrayD<f64> {
    shaped(array.iter().copied().collect(), shape)
}

fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let at = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis])
    };
    let size = |(a, b): (usize, usize)| if a == 1 { b } else { a };
    (0..rank).map(|axis| size((at(a, axis), at(b, axis)))).collect()
}

fn spread<'a>(array: &'a ArrayViewD<'_, f64>, shape: &[usize]) -> ArrayViewD<'a, f64> {
    array.broadcast(IxDyn(shape)).expect("the builder checked the shapes")
}

fn both(a: &ArrayViewD<'_, f64>, b: &ArrayViewD<'_, f64>, of: fn(f64, f64) -> f64) -> ArrayD<f64> {
    let shape = broadcast(a.shape(), b.shape());
    let mut out = ArrayD::zeros(IxDyn(&shape));
    let (a, b) = (spread(a, &shape), spread(b, &shape));
    Zip::from(&mut out).and(&a).and(&b).for_each(|out, &a, &b| *out = of(a, b));
    out
}

fn product(a: &ArrayViewD<'_, f64>, b: &ArrayViewD<'_, f64>) -> ArrayD<f64> {
    let (rows, columns) = (a.shape()[a.ndim() - 2], b.shape()[b.ndim() - 1]);
    let leading = broadcast(&a.shape()[..a.ndim() - 2], &b.shape()[..b.ndim() - 2]);
    let with = |last: &[usize]| [&leading[..], last].concat();
    let a = spread(a, &with(&a.shape()[a.ndim() - 2..])).to_owned();
    let b = spread(b, &with(&b.shape()[b.ndim() - 2..])).to_owned();
    let count: usize = leading.iter().product();
    let flat = |array: ArrayD<f64>| {
        let last = array.shape()[array.ndim() - 2..].to_vec();
        reshaped(array, &[&[count], &last[..]].concat())
    };
    let (a, b) = (flat(a), flat(b));
    let mut numbers = Vec::with_capacity(count * rows * columns);
    for (a, b) in a.outer_iter().zip(b.outer_iter()) {
        let a = a.into_dimensionality::<Ix2>().expect("two axes");
        let b = b.into_dimensionality::<Ix2>().expect("two axes");
        numbers.extend(a.dot(&b));
    }
    shaped(numbers, &with(&[rows, columns]))
}

fn over(
    x: &ArrayViewD<'_, f64>,
    axis: usize,
    keep: bool,
    of: impl Fn(&[f64]) -> f64,
) -> Vec<ArrayD<f64>> {
    let out = x.map_axis(Axis(axis), |lane| of(&lane.to_vec()));
    vec![if keep { out.insert_axis(Axis(axis)) } else { out }]
}

/// Where the largest or smallest is; of equal ones the first.
fn best(lane: &[f64], largest: bool) -> usize {
    let mut best = 0;
    for (at, &x) in lane.iter().enumerate() {
        if (largest && x > lane[best]) || (!largest && x < lane[best]) {
            best = at;
        }
    }
    best
}

fn top_k(x: &ArrayViewD<'_, f64>, k: usize, largest: bool) -> Vec<ArrayD<f64>> {
    let mut shape = x.shape().to_vec();
    let last = shape.len() - 1;
    shape[last] = k;
    let (mut numbers, mut places) = (Vec::new(), Vec::new());
    for lane in x.lanes(Axis(last)) {
        let mut order: Vec<usize> = (0..lane.len()).collect();
        order.sort_by(|&a, &b| {
            let ascending = lane[a].total_cmp(&lane[b]);
            let order = if largest { ascending.reverse() } else { ascending };
            order.then(a.cmp(&b))
        });
        numbers.extend(order[..k].iter().map(|&at| lane[at]));
        places.extend(order[..k].iter().map(|&at| at as f64));
    }
    vec![shaped(numbers, &shape), shaped(places, &shape)]
}
