//! Products in 16-bit fixed point for rows of any size: each row has a unit of its own.
//!
//! The sum of a block is at most ‖x‖·‖w‖, both over the block. Units are chosen so that the first is at
//! most [`ROW_NORM`] and the second [`WEIGHT_NORM`], whose product is below 2³¹: nothing can overflow,
//! and no bit is kept free for rows that do not occur. Numbers of the size of the mean have 11 to 12
//! bits, and what is rounded averages out over the sum.

use crate::numeric::product::fixed_weights::round;
use crate::numeric::product::panels::{Number, Packed};
use crate::numeric::vector;

/// Norms of a block in units. Rounding adds up to half a unit to each of 128 numbers, 6 to a norm; with
/// that a row's numbers still fit into 16 bits.
pub(crate) const ROW_NORM: f32 = 32_760.0;
const WEIGHT_NORM: f32 = 65_500.0;

/// Numbers whose norm a unit follows from.
pub(crate) const BLOCK: usize = i16::DEPTH;

/// Weights in fixed point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowScaled {
    depth: usize,
    /// What a unit of each row of the matrix is worth.
    scales: Vec<f32>,
    packed: Packed<i16>,
}

impl RowScaled {
    /// Row j of the matrix, row-major, gives column j of the result.
    pub(crate) fn new((rows, depth): (usize, usize), matrix: &[f32]) -> Self {
        let (numbers, scales) = rounded((rows, depth), matrix);
        RowScaled { depth, scales, packed: Packed::new((rows, depth), &numbers) }
    }

    /// out = x·Wᵀ; both row-major. A row that is not finite, or too large to have a norm, has no product.
    pub(crate) fn product(&self, x: &[f32], out: &mut [f32]) {
        let mut rounded = vec![0i16; x.len()];
        let rows = x.chunks_exact(self.depth.max(1));
        let units: Vec<f32> = rows
            .zip(rounded.chunks_exact_mut(self.depth.max(1)))
            .map(|(from, to)| {
                let unit = usable(largest_norm(from) / ROW_NORM);
                round(from, 1.0 / unit, ROW_NORM, to);
                unit
            })
            .collect();
        self.packed.product(&rounded, out);
        for (row, unit) in out.chunks_exact_mut(self.scales.len().max(1)).zip(units) {
            for (x, scale) in row.iter_mut().zip(&self.scales) {
                *x *= scale * unit;
            }
        }
    }
}

/// The whole numbers of a matrix, row-major, and what a unit of each row is worth.
pub(crate) fn rounded((rows, depth): (usize, usize), matrix: &[f32]) -> (Vec<i16>, Vec<f32>) {
    let mut numbers = vec![0i16; matrix.len()];
    let mut scales = Vec::with_capacity(rows);
    let largest_number = f32::from(i16::MAX);
    for (from, to) in matrix.chunks_exact(depth.max(1)).zip(numbers.chunks_exact_mut(depth.max(1)))
    {
        let largest = from.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let scale = usable((largest_norm(from) / WEIGHT_NORM).max(largest / largest_number));
        round(from, 1.0 / scale, largest_number, to);
        scales.push(scale);
    }
    (numbers, scales)
}

/// The largest norm of a block; no number if one is none.
fn largest_norm(x: &[f32]) -> f32 {
    let squares = x.chunks(i16::DEPTH).map(vector::sum_of_squares);
    let larger = |a: f64, b: f64| if a.is_nan() || b <= a { a } else { b };
    let norm = squares.fold(0.0, larger).sqrt() as f32;
    if norm.is_finite() { norm } else { f32::NAN }
}

/// Numbers that are all zero, or nearly, can have any unit.
fn usable(unit: f32) -> f32 {
    if unit < f32::MIN_POSITIVE { f32::MIN_POSITIVE } else { unit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, s};

    fn wave(rows: usize, columns: usize, salt: usize) -> Array2<f32> {
        Array2::from_shape_fn((rows, columns), |(i, j)| {
            ((i * 7 + j * 13 + i * j + salt) as f32 * 0.7391).sin()
        })
    }

    fn product(w: &Array2<f32>, x: &Array2<f32>) -> Array2<f32> {
        let weights = RowScaled::new(w.dim(), w.as_slice().unwrap());
        let mut out = Array2::from_elem((x.nrows(), w.nrows()), 9.0);
        weights.product(x.as_slice().unwrap(), out.as_slice_mut().unwrap());
        out
    }

    fn exact(w: &Array2<f32>, x: &Array2<f32>) -> Array2<f64> {
        x.mapv(f64::from).dot(&w.mapv(f64::from).t())
    }

    #[test]
    fn close_to_the_definition_on_odd_shapes_and_any_scale() {
        for (n, depth, width) in
            [(1, 1, 1), (1, 301, 70), (2, 5, 17), (7, 257, 16), (9, 600, 1100), (13, 129, 5)]
        {
            for scale in [1e-12, 1.0, 1e12] {
                let (x, w) = (wave(n, depth, 1) * scale, wave(width, depth, 2));
                let tolerance = 4e-4 * f64::from(scale) * (depth as f64).sqrt();
                for (got, expected) in product(&w, &x).iter().zip(&exact(&w, &x)) {
                    assert!((f64::from(*got) - expected).abs() < tolerance, "{n} {depth} {width}");
                }
            }
        }
    }

    #[test]
    fn the_largest_sums_do_not_overflow() {
        // A row along a weight has the largest sum of all; numbers that are alike fill every one of
        // them, and a single large one is the other extreme.
        for depth in [1, 2, 128, 300] {
            let mut w = Array2::from_elem((3, depth), 0.3f32);
            w.row_mut(1).fill(-1.0);
            w.slice_mut(s![2, 1..]).fill(1e-6);
            for (got, expected) in product(&w, &w).iter().zip(&exact(&w, &w)) {
                let difference = (f64::from(*got) - expected).abs();
                assert!(difference <= 1e-3 * expected.abs() + 1e-4, "{depth}: {got} {expected}");
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_whatever_the_others() {
        let (x, w) = (wave(40, 513, 1), wave(700, 513, 2));
        let whole = product(&w, &x);
        for (from, to) in [(0, 1), (5, 6), (3, 5), (10, 33)] {
            let part = product(&w, &x.slice(s![from..to, ..]).to_owned());
            assert_eq!(part, whole.slice(s![from..to, ..]));
        }
    }

    #[test]
    fn zeros_are_zero_and_what_is_no_number_stays_none() {
        let w = wave(4, 130, 3);
        let mut x = Array2::zeros((5, 130));
        x[[1, 129]] = f32::NAN;
        x[[2, 0]] = f32::INFINITY;
        x.row_mut(3).fill(3e38);
        x.row_mut(4).fill(1e-44);
        let out = product(&w, &x);
        assert!(out.row(0).iter().all(|&x| x == 0.0));
        assert!(out.slice(s![1..3, ..]).iter().all(|x| x.is_nan()));
        assert!(out.row(3).iter().all(|&x| !x.is_finite() || x.abs() > 1e36));
        assert!(out.row(4).iter().all(|&x| x.abs() < 1e-40));
        assert!(product(&Array2::zeros((2, 130)), &wave(3, 130, 1)).iter().all(|&x| x == 0.0));
    }
}
