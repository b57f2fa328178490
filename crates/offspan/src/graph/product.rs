//! Products with a matrix of the library, in the arithmetic that the library uses for it.

use ndarray::Array2;

use super::{Builder, Op, Value};
use crate::Real;
use crate::numeric::product::fixed_rows::{BLOCK, ROW_NORM};
use crate::numeric::product::weights::Weights;

/// x·Wᵀ. Where the library rounds to 16-bit numbers, so does the graph: scores differ by what that changes.
pub(crate) fn product<T: Real>(
    builder: &mut Builder<'_>,
    name: &str,
    x: Value,
    weights: &Weights<T>,
) -> Value {
    match weights.rounded() {
        None => builder.linear(name, x, weights.matrix().view()),
        Some(rounded) => {
            let x = rounded_rows(builder, x, rounded.ncols());
            builder.linear(name, x, rounded.view())
        }
    }
}

/// Rows in units of their own, of which the largest block has so many.
fn rounded_rows(builder: &mut Builder<'_>, x: Value, width: usize) -> Value {
    let blocks = Array2::from_shape_fn((width, width.div_ceil(BLOCK)), |(channel, block)| {
        if channel / BLOCK == block { 1.0 } else { 0.0 }
    });
    let blocks = builder.owned("blocks", blocks);
    let squares = builder.square(x);
    let sums = builder.matmul(squares, blocks);
    let largest = builder.largest_kept(sums);
    let norm = builder.sqrt(largest);
    let unit = builder.times(norm, 1.0 / f64::from(ROW_NORM));
    let unit = builder.at_least(unit, f64::from(f32::MIN_POSITIVE));
    let whole = builder.div(x, unit);
    let whole = builder.node(Op::Round, &[whole]);
    builder.mul(whole, unit)
}
