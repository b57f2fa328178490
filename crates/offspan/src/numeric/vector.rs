//! Loops over slices, compiled for several instruction sets and chosen at run time.
//!
//! Sums run over a fixed number of lanes, so that the order of additions, and with it the result,
//! does not depend on the instruction set.

use ndarray::{ArrayRef, Dimension};

use crate::Real;
use crate::numeric::instructions::Leave;

pub(crate) const LANES: usize = 16;

/// Runs a closure compiled for the instructions in use.
#[inline]
pub(crate) fn dispatch<R>(work: impl FnOnce() -> R) -> R {
    match Leave::chosen() {
        Leave::Portable => work(),
        #[cfg(target_arch = "x86_64")]
        Leave::Avx2(simd) => simd.vectorize(work),
        #[cfg(target_arch = "x86_64")]
        Leave::Avx512(simd) | Leave::Avx512Vnni(simd, _) => simd.vectorize(work),
    }
}

#[inline(always)]
fn fold_lanes<T: Real, U: Real, A: Real>(a: &[T], b: &[U], mut term: impl FnMut(T, U) -> A) -> A {
    let mut lanes = [A::default(); LANES];
    let (a_blocks, b_blocks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (a_rest, b_rest) = (a_blocks.remainder(), b_blocks.remainder());
    for (x, y) in a_blocks.zip(b_blocks) {
        for lane in 0..LANES {
            lanes[lane] += term(x[lane], y[lane]);
        }
    }
    for (lane, (&x, &y)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *lane += term(x, y);
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

/// Σ a·bᵀ over groups of ROWS and COLUMNS numbers: chains of fused multiply-adds from zero. For use
/// within [`dispatch`]; the sums fit the registers if they are few.
#[inline(always)]
pub(crate) fn outer_chains<T: Real, const ROWS: usize, const COLUMNS: usize>(
    a: &[T],
    b: &[T],
) -> [[T; COLUMNS]; ROWS] {
    let mut sums = [[T::default(); COLUMNS]; ROWS];
    for (x, y) in a.chunks_exact(ROWS).zip(b.chunks_exact(COLUMNS)) {
        for i in 0..ROWS {
            for j in 0..COLUMNS {
                sums[i][j] = x[i].fused(y[j], sums[i][j]);
            }
        }
    }
    sums
}

/// Σ x² in double precision.
pub(crate) fn sum_of_squares<T: Real>(x: &[T]) -> f64 {
    dispatch(
        #[inline(always)]
        || fold_lanes(x, x, |x, _| x.to_double() * x.to_double()),
    )
}

/// Σ (a + b)² in double precision.
pub(crate) fn sum_of_squared_sums<T: Real>(a: &[T], b: &[f64]) -> f64 {
    dispatch(
        #[inline(always)]
        || {
            fold_lanes(a, b, |a, b| {
                let sum = a.to_double() + b;
                sum * sum
            })
        },
    )
}

/// Σ a·b in double precision.
pub(crate) fn dot<T: Real>(a: &[T], b: &[T]) -> f64 {
    dispatch(
        #[inline(always)]
        || fold_lanes(a, b, |a, b| a.to_double() * b.to_double()),
    )
}

/// Σ (a − b)² in double precision.
pub(crate) fn squared_distance<T: Real>(a: &[T], b: &[T]) -> f64 {
    dispatch(
        #[inline(always)]
        || {
            fold_lanes(a, b, |a, b| {
                let gap = a.to_double() - b.to_double();
                gap * gap
            })
        },
    )
}

/// Σ a·b with each row of `rows` (row-major, as wide as `a`), in the precision of the numbers.
pub(crate) fn products<T: Real>(a: &[T], rows: &[T], out: &mut [T]) {
    dispatch(
        #[inline(always)]
        || {
            for (o, b) in out.iter_mut().zip(rows.chunks_exact(a.len())) {
                *o = fold_lanes(a, b, |a, b| a * b);
            }
        },
    );
}

/// Σ |a − b| against each row of `rows` (row-major, as wide as `a`).
pub(crate) fn manhattan_distances<T: Real>(a: &[T], rows: &[T], out: &mut [T]) {
    dispatch(
        #[inline(always)]
        || {
            for (o, b) in out.iter_mut().zip(rows.chunks_exact(a.len())) {
                *o = fold_lanes(a, b, |a, b| (a - b).magnitude());
            }
        },
    );
}

/// Multiplies by a factor in double precision.
pub(crate) fn scale<T: Real>(x: &mut [T], factor: f64) {
    dispatch(
        #[inline(always)]
        || {
            for x in x {
                *x = T::from_double(x.to_double() * factor);
            }
        },
    );
}

/// x ← x·y.
pub(crate) fn multiply<T: Real>(x: &mut [T], y: &[T]) {
    dispatch(
        #[inline(always)]
        || {
            for (x, &y) in x.iter_mut().zip(y) {
                *x *= y;
            }
        },
    );
}

/// out ← x·y.
pub(crate) fn multiply_into<T: Real>(out: &mut [T], x: &[T], y: &[T]) {
    dispatch(
        #[inline(always)]
        || {
            for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
                *out = x * y;
            }
        },
    );
}

/// x ← x − factor·y.
pub(crate) fn subtract_scaled<T: Real>(x: &mut [T], factor: T, y: &[T]) {
    dispatch(
        #[inline(always)]
        || {
            for (x, &y) in x.iter_mut().zip(y) {
                *x -= factor * y;
            }
        },
    );
}

/// The largest of numbers; none of none.
pub(crate) fn largest<T: Real>(x: &[T]) -> Option<T> {
    let larger = |a: T, b: T| if b > a { b } else { a };
    let &first = x.first()?;
    dispatch(
        #[inline(always)]
        || {
            let (blocks, rest) = x.as_chunks::<LANES>();
            let mut lanes = [first; LANES];
            for block in blocks {
                for lane in 0..LANES {
                    lanes[lane] = larger(lanes[lane], block[lane]);
                }
            }
            Some(lanes.iter().chain(rest).fold(first, |most, &x| larger(most, x)))
        },
    )
}

/// Σ exp((x − largest)·factor), summed in double precision; no x is larger, and the factor positive.
pub(crate) fn sum_of_exponentials<T: Real>(x: &[T], largest: T, factor: T) -> f64 {
    dispatch(
        #[inline(always)]
        || fold_lanes(x, x, |x, _| ((x - largest) * factor).exponential().to_double()),
    )
}

/// Whether there is no NaN and no infinity.
pub(crate) fn all_finite<T: Real>(x: &[T]) -> bool {
    dispatch(
        #[inline(always)]
        || {
            // Whole blocks at once: a stop at the first bad one would be a branch for each number.
            x.chunks(LANES * LANES)
                .all(|block| block.iter().fold(true, |all, x| all & x.is_finite_number()))
        },
    )
}

/// x ← x − y.
pub(crate) fn subtract<T: Real>(x: &mut [T], y: &[T]) {
    dispatch(
        #[inline(always)]
        || {
            for (x, &y) in x.iter_mut().zip(y) {
                *x -= y;
            }
        },
    );
}

/// The numbers of an array that is row-major and has no gaps, as every block and every tensor of ours
/// is. Another layout is a mistake of the caller and must not pass for an empty array.
///
/// # Panics
/// If the layout is another one.
pub(crate) fn contiguous<A, D: Dimension>(array: &ArrayRef<A, D>) -> &[A] {
    array.as_slice().unwrap_or_else(|| unreachable!("the array is row-major without gaps"))
}

/// As [`contiguous`], for writing.
pub(crate) fn contiguous_mut<A, D: Dimension>(array: &mut ArrayRef<A, D>) -> &mut [A] {
    array.as_slice_mut().unwrap_or_else(|| unreachable!("the array is row-major without gaps"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_equal_the_definition_for_every_remainder() {
        for n in 0..70 {
            let a: Vec<f64> = (0..n).map(|i| f64::from(i) * 0.5 - 3.0).collect();
            let b: Vec<f64> = (0..n).map(|i| 2.0 - f64::from(i)).collect();
            assert_eq!(sum_of_squares(&a), a.iter().map(|x| x * x).sum::<f64>());
            assert_eq!(dot(&a, &b), a.iter().zip(&b).map(|(x, y)| x * y).sum::<f64>());
        }
    }

    #[test]
    fn the_largest_is_found_wherever_it_stands() {
        assert_eq!(largest::<f32>(&[]), None);
        for n in 1..50 {
            for at in 0..n {
                let numbers: Vec<f64> =
                    (0..n).map(|i| if i == at { -1.0 } else { -2.0 - f64::from(i) }).collect();
                assert_eq!(largest(&numbers), Some(-1.0), "{at} of {n}");
            }
        }
    }

    #[test]
    fn products_equal_the_definition() {
        let a: Vec<f64> = (0..19).map(f64::from).collect();
        let rows: Vec<f64> = (0..38).map(|i| f64::from(i) * 0.5 - 7.0).collect();
        let mut out = [0.0; 2];
        products(&a, &rows, &mut out);
        for (o, row) in out.iter().zip(rows.chunks(19)) {
            assert_eq!(*o, a.iter().zip(row).map(|(x, y)| x * y).sum::<f64>());
        }
    }

    #[test]
    fn manhattan_distance_equals_the_definition() {
        let a: Vec<f64> = (0..19).map(f64::from).collect();
        let rows: Vec<f64> = (0..38).map(|i| f64::from(i) * 1.5 - 20.0).collect();
        let mut out = [0.0; 2];
        manhattan_distances(&a, &rows, &mut out);
        for (o, row) in out.iter().zip(rows.chunks(19)) {
            assert_eq!(*o, a.iter().zip(row).map(|(x, y)| (x - y).abs()).sum::<f64>());
        }
    }
}
