//! Formulas that several scores share, written so that single precision keeps their digits.

use ndarray::{ArrayView1, ArrayView2};

use super::{Builder, Element, Op, Size, Value};
use crate::Real;
use crate::numeric::normal::log_cdf;

/// Terms of the series of ln erfcx: they fall by more than a half each, to below 1e-9.
const LOG_TAIL_TERMS: usize = 24;

macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident($($x:ident),*) $op:ident;)*) => {
        impl Builder<'_> {
            $($(#[$doc])* pub(crate) fn $name(&mut self, $($x: Value),*) -> Value {
                self.node(Op::$op, &[$($x),*])
            })*
        }
    };
}

plain!(
    /// x + y.
    add(x, y) Add;
    /// x − y.
    sub(x, y) Sub;
    /// x · y.
    mul(x, y) Mul;
    /// x / y.
    div(x, y) Div;
    /// The larger one.
    larger(x, y) Max;
    /// The smaller one.
    smaller(x, y) Min;
    /// −x.
    neg(x) Neg;
    /// |x|.
    abs(x) Abs;
    /// √x.
    sqrt(x) Sqrt;
    /// eˣ.
    exp(x) Exp;
    /// ln x.
    log(x) Log;
    /// Matrix product.
    matmul(x, y) MatMul;
    /// x where the flag says so, else y.
    choose(flag, x, y) Where;
);

impl<'a> Builder<'a> {
    // Single numbers.

    /// x · factor.
    pub(crate) fn times(&mut self, x: Value, factor: f64) -> Value {
        let factor = self.scalar(factor);
        self.mul(x, factor)
    }

    /// x + summand.
    pub(crate) fn plus(&mut self, x: Value, summand: f64) -> Value {
        let summand = self.scalar(summand);
        self.add(x, summand)
    }

    /// max(x, bound).
    pub(crate) fn at_least(&mut self, x: Value, bound: f64) -> Value {
        let bound = self.scalar(bound);
        self.larger(x, bound)
    }

    /// min(x, bound).
    pub(crate) fn at_most(&mut self, x: Value, bound: f64) -> Value {
        let bound = self.scalar(bound);
        self.smaller(x, bound)
    }

    /// x².
    pub(crate) fn square(&mut self, x: Value) -> Value {
        self.mul(x, x)
    }

    // Over the last axis.

    fn last_axis(&self, x: Value) -> usize {
        self.shape(x).len() - 1
    }

    /// The sum over the last axis, which goes away.
    pub(crate) fn sum(&mut self, x: Value) -> Value {
        let axis = self.last_axis(x);
        self.node(Op::ReduceSum { axis, keep: false }, &[x])
    }

    /// The sum over the last axis, which stays with size 1.
    pub(crate) fn sum_kept(&mut self, x: Value) -> Value {
        let axis = self.last_axis(x);
        self.node(Op::ReduceSum { axis, keep: true }, &[x])
    }

    /// The largest along the last axis, which goes away.
    pub(crate) fn largest(&mut self, x: Value) -> Value {
        let axis = self.last_axis(x);
        self.node(Op::ReduceMax { axis, keep: false }, &[x])
    }

    /// The largest along the last axis, which stays with size 1.
    pub(crate) fn largest_kept(&mut self, x: Value) -> Value {
        let axis = self.last_axis(x);
        self.node(Op::ReduceMax { axis, keep: true }, &[x])
    }

    /// The sum of squares along the last axis, which goes away.
    pub(crate) fn squared_length(&mut self, x: Value) -> Value {
        let squares = self.square(x);
        self.sum(squares)
    }

    /// The length along the last axis, which goes away.
    pub(crate) fn length(&mut self, x: Value) -> Value {
        let squared = self.squared_length(x);
        self.sqrt(squared)
    }

    /// A part of the last axis.
    pub(crate) fn part(&mut self, x: Value, start: usize, end: usize) -> Value {
        let axis = self.last_axis(x);
        self.node(Op::Slice { axis, start, end }, &[x])
    }

    /// The place of the largest along the last axis, which goes away.
    pub(crate) fn place_of_largest(&mut self, x: Value) -> Value {
        let axis = self.last_axis(x);
        self.node(Op::ArgMax { axis, keep: false }, &[x])
    }

    /// Softmax along the last axis.
    pub(crate) fn softmax(&mut self, x: Value) -> Value {
        let axis = self.last_axis(x);
        self.node(Op::Softmax { axis }, &[x])
    }

    // Shapes.

    /// [N] as [N, 1].
    pub(crate) fn as_column(&mut self, x: Value) -> Value {
        self.reshape(x, &[1])
    }

    /// [N, 1] as [N].
    pub(crate) fn as_row(&mut self, x: Value) -> Value {
        self.reshape(x, &[])
    }

    /// [N, …] as [N, sizes…].
    pub(crate) fn reshape(&mut self, x: Value, sizes: &[usize]) -> Value {
        debug_assert_eq!(self.shape(x).first(), Some(&Size::Rows));
        let sizes = sizes.iter().map(|&size| size as i64);
        let shape = std::iter::once(-1).chain(sizes).collect();
        self.node(Op::Reshape { shape }, &[x])
    }

    /// The rows of a matrix that are named for each row.
    pub(crate) fn rows_at(&mut self, matrix: Value, places: Value) -> Value {
        self.node(Op::Gather { axis: 0 }, &[matrix, places])
    }

    /// Values one after the other along the last axis.
    pub(crate) fn joined(&mut self, values: &[Value]) -> Value {
        let axis = self.last_axis(values[0]);
        if values.len() == 1 { values[0] } else { self.node(Op::Concat { axis }, values) }
    }

    /// Flags as 0 and 1.
    pub(crate) fn counted(&mut self, flags: Value) -> Value {
        self.node(Op::Cast { to: Element::Real }, &[flags])
    }

    // Formulas.

    /// Rows scaled to unit length, their lengths [N, 1], and which of them have none, [N, 1]; those stay zero, with
    /// a length of 1. As large and small numbers as a type can hold have squares that it cannot, so the largest
    /// is taken out first.
    pub(crate) fn unit_rows(&mut self, x: Value) -> (Value, Value, Value) {
        let (zero, one) = (self.scalar(0.0), self.scalar(1.0));
        let sizes = self.abs(x);
        let largest = self.largest_kept(sizes);
        let is_zero = self.node(Op::Equal, &[largest, zero]);
        let largest = self.choose(is_zero, one, largest);
        let middle = self.div(x, largest);
        let squares = self.square(middle);
        let squared = self.sum_kept(squares);
        let length = self.sqrt(squared);
        let length = self.choose(is_zero, one, length);
        let unit = self.div(middle, length);
        let length = self.mul(length, largest);
        (unit, length, is_zero)
    }

    /// −∞ where the flags [N, 1] say so, else the score [N].
    pub(crate) fn put_last(&mut self, flags: Value, score: Value) -> Value {
        let (flags, lowest) = (self.as_row(flags), self.scalar(f64::NEG_INFINITY));
        self.choose(flags, lowest, score)
    }

    /// T·ln Σ exp(x/T) over the last axis, with the largest taken out first.
    pub(crate) fn log_sum_exp(&mut self, x: Value, temperature: f64) -> Value {
        let largest = self.largest_kept(x);
        let below = self.sub(x, largest);
        let below = self.times(below, 1.0 / temperature);
        let powers = self.exp(below);
        let sum = self.sum_kept(powers);
        let log = self.log(sum);
        let log = self.times(log, temperature);
        let energy = self.add(largest, log);
        let axis = self.last_axis(x);
        // The axis has size 1: its sum is itself, whatever the sizes before it.
        self.node(Op::ReduceSum { axis, keep: false }, &[energy])
    }

    /// The largest probability of softmax(x/T) over the last axis, which goes away.
    pub(crate) fn largest_probability(&mut self, x: Value, temperature: f64) -> Value {
        let largest = self.largest_kept(x);
        let below = self.sub(x, largest);
        let below = self.times(below, 1.0 / temperature);
        let powers = self.exp(below);
        let sum = self.sum(powers);
        let one = self.scalar(1.0);
        self.div(one, sum)
    }

    /// What is left of each row [N, m] when the nearest of these rows is taken away from it.
    pub(crate) fn gap_to_nearest<T: Real>(
        &mut self,
        name: &str,
        y: Value,
        rows: ArrayView2<'a, T>,
    ) -> Value {
        // The nearest one has the largest yᵀν − ‖ν‖²/2; the difference is then taken as it is defined.
        let all = self.matrix(name, rows);
        let products = self.linear(&format!("{name}_across"), y, rows);
        let half = |row: ArrayView1<'_, T>| {
            row.iter().map(|&x| x.to_double() * x.to_double()).sum::<f64>() / 2.0
        };
        let halves = rows.rows().into_iter().map(half).collect();
        let halves = self.vector(&format!("{name}_halves"), &halves);
        let brackets = self.sub(products, halves);
        let nearest = self.place_of_largest(brackets);
        let nearest = self.rows_at(all, nearest);
        self.sub(y, nearest)
    }

    /// The logarithms of the softmax over the last axis. The largest is taken out first, so that large numbers do not
    /// take the digits of their differences.
    pub(crate) fn log_softmax(&mut self, x: Value) -> Value {
        let largest = self.largest_kept(x);
        let below = self.sub(x, largest);
        let powers = self.exp(below);
        let sum = self.sum_kept(powers);
        let log = self.log(sum);
        self.sub(below, log)
    }

    /// ln(1 + x) for x ≥ 0: what 1 + x has lost of a small x is put back by x/((1 + x) − 1).
    pub(crate) fn log_one_plus(&mut self, x: Value) -> Value {
        let one = self.scalar(1.0);
        let more = self.add(x, one);
        let part = self.sub(more, one);
        let zero = self.scalar(0.0);
        let is_lost = self.node(Op::Equal, &[part, zero]);
        let divisor = self.choose(is_lost, one, part);
        let log = self.log(more);
        let share = self.div(x, divisor);
        let log = self.mul(log, share);
        self.choose(is_lost, x, log)
    }

    /// x to the power of a number, for x ≥ 0.
    pub(crate) fn power(&mut self, x: Value, exponent: f64) -> Value {
        let exponent = self.scalar(exponent);
        self.node(Op::Pow, &[x, exponent])
    }

    /// exp(x) − 1 for x ≤ 0: exp(x) near 1 has lost the digits that are asked for, and tanh(x/2)·(exp(x) + 1) is
    /// the same number with all of them.
    pub(crate) fn exp_minus_one(&mut self, x: Value) -> Value {
        let half = self.times(x, 0.5);
        let tanh = self.node(Op::Tanh, &[half]);
        let power = self.exp(x);
        let more = self.plus(power, 1.0);
        self.mul(tanh, more)
    }

    /// ln Φ(x), to full precision in both tails.
    ///
    /// For x < 0 it is −u² + ln(t/2) + g(t) with u = −x/√2, t = 1/(1 + u/2) and a smooth function g on (0, 1], which
    /// is interpolated in Chebyshev points: no small number is ever subtracted from a large one, however far the
    /// tail. For x > 0 it is ln(1 − Φ(−x)).
    pub(crate) fn log_normal(&mut self, x: Value) -> Value {
        let size = self.abs(x);
        let u = self.times(size, std::f64::consts::FRAC_1_SQRT_2);
        let half = self.times(u, 0.5);
        let below = self.plus(half, 1.0);
        let one = self.scalar(1.0);
        let t = self.div(one, below);
        // Clenshaw's recurrence in s = 2t − 1.
        let twice = self.times(t, 4.0);
        let twice = self.plus(twice, -2.0);
        let coefficients = log_tail_series();
        let mut last = self.times(twice, 0.0);
        let mut next = last;
        for &coefficient in coefficients[1..].iter().rev() {
            let product = self.mul(twice, next);
            let rest = self.sub(product, last);
            (next, last) = (self.plus(rest, coefficient), next);
        }
        let product = self.mul(twice, next);
        let product = self.times(product, 0.5);
        let rest = self.sub(product, last);
        let g = self.plus(rest, coefficients[0]);
        let half_t = self.times(t, 0.5);
        let log_t = self.log(half_t);
        let log_tail = self.add(log_t, g);
        let square = self.square(u);
        let log_tail = self.sub(log_tail, square);
        let tail = self.exp(log_tail);
        let rest = self.sub(one, tail);
        let upper = self.log(rest);
        let zero = self.scalar(0.0);
        let above = self.node(Op::Greater, &[x, zero]);
        self.choose(above, upper, log_tail)
    }
}

/// Chebyshev coefficients on [0, 1] of g(t) = ln Φ(−√2·u) + u² − ln(t/2), u = 2/t − 2.
fn log_tail_series() -> Vec<f64> {
    let terms = LOG_TAIL_TERMS;
    let angle = |node: usize| std::f64::consts::PI * (node as f64 + 0.5) / terms as f64;
    let g = |t: f64| {
        let u = 2.0 / t - 2.0;
        log_cdf(-std::f64::consts::SQRT_2 * u) + u * u - (t / 2.0).ln()
    };
    let values: Vec<f64> = (0..terms).map(|node| g(angle(node).cos().midpoint(1.0))).collect();
    let coefficient = |term: usize| {
        let products =
            values.iter().enumerate().map(|(node, g)| g * (term as f64 * angle(node)).cos());
        let share = if term == 0 { 1.0 } else { 2.0 };
        products.sum::<f64>() * share / terms as f64
    };
    (0..terms).map(coefficient).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// g by its series.
    fn series(t: f64) -> f64 {
        let s = 2.0 * t - 1.0;
        let terms = log_tail_series().into_iter().enumerate();
        terms.map(|(term, c)| c * (term as f64 * s.acos()).cos()).sum()
    }

    #[test]
    fn the_series_of_the_tail_is_exact_to_nine_digits_and_has_settled() {
        for x in [-0.0, -0.3, -1.0, -2.5, -6.0, -12.0, -40.0, -1000.0] {
            let u = -x / std::f64::consts::SQRT_2;
            let t = 1.0 / (1.0 + u / 2.0);
            let got = series(t) - u * u + (t / 2.0).ln();
            assert!((got - log_cdf(x)).abs() < 1e-9 * log_cdf(x).abs().max(1.0), "{x}: {got}");
        }
        let last = log_tail_series()[LOG_TAIL_TERMS - 1];
        assert!(last.abs() < 1e-9, "{last}");
    }
}
