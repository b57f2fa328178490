//! Products in 16-bit fixed point: half the memory of `f32`, sums without rounding, and 1.4 times the
//! rate (twice where a single row waits for memory).
//!
//! A row of the matrix is its whole numbers times a scale, as large as the 32-bit sums allow: for the
//! chosen scale no row of numbers within ±[`LARGEST`] can overflow the sum of a block. A vector
//! instruction multiplies pairs of 16-bit numbers and adds the two products, which is where the rate
//! comes from.

use ndarray::{Array1, Array2, ArrayView2};

use crate::numeric::product::panels::{Number, Packed};
use crate::numeric::vector::contiguous;

/// The largest number on the side of the rows: 13 bits. Together with weights of 13 to 15 bits the
/// rounding of both is alike, and far below that of the scores.
const LARGEST: f32 = 8191.0;

/// 1.5 · 2^23: the unit of numbers of this size is 1.
const ROUND: f32 = 12_582_912.0;

/// Weights in fixed point, and what a unit of the rows is worth.
#[derive(Debug, Clone)]
pub(crate) struct FixedWeights {
    matrix: Array2<i16>,
    /// What a unit of each row of the matrix is worth.
    scales: Array1<f32>,
    /// What a unit of the rows is worth: the bound of their numbers over [`LARGEST`].
    unit: f32,
    packed: Packed<i16>,
}

impl FixedWeights {
    /// For rows whose numbers lie within ±`bound`.
    pub(crate) fn new(matrix: ArrayView2<'_, f64>, bound: f32) -> Self {
        let mut numbers = Array2::zeros(matrix.dim());
        let mut scales = Array1::zeros(matrix.nrows());
        for ((from, mut to), scale) in
            matrix.rows().into_iter().zip(numbers.rows_mut()).zip(&mut scales)
        {
            *scale = fine_scale(from.iter().copied());
            let scale = f64::from(*scale);
            to.zip_mut_with(&from, |to, from| *to = (from / scale).round_ties_even() as i16);
        }
        Self::from_parts(numbers, scales, bound)
    }

    /// As [`FixedWeights::parts`] gave them.
    pub(crate) fn from_parts(matrix: Array2<i16>, scales: Array1<f32>, bound: f32) -> Self {
        let matrix = matrix.as_standard_layout().into_owned();
        let packed = Packed::new(matrix.dim(), contiguous(&matrix));
        FixedWeights { matrix, scales, unit: bound / LARGEST, packed }
    }

    /// The whole numbers, and what a unit of each row is worth.
    pub(crate) fn parts(&self) -> (&Array2<i16>, &Array1<f32>) {
        (&self.matrix, &self.scales)
    }

    /// Whether sums of whole numbers stay within 32 bits for all rows within the bound.
    pub(crate) fn cannot_overflow(matrix: ArrayView2<'_, i16>) -> bool {
        matrix.rows().into_iter().all(|row| {
            let numbers: Vec<i64> = row.iter().map(|&x| i64::from(x).abs()).collect();
            let sums = numbers.chunks(i16::DEPTH).map(|block| block.iter().sum::<i64>());
            sums.max().unwrap_or(0) * LARGEST as i64 <= i64::from(i32::MAX)
        })
    }

    /// out = x·Wᵀ; both row-major.
    pub(crate) fn product(&self, x: &[f32], out: &mut [f32]) {
        let mut rounded = vec![0i16; x.len()];
        // The bound holds but for the rounding of its own arithmetic.
        round(x, 1.0 / self.unit, LARGEST, &mut rounded);
        self.packed.product(&rounded, out);
        for row in out.chunks_exact_mut(self.scales.len().max(1)) {
            for (x, scale) in row.iter_mut().zip(&self.scales) {
                *x *= scale * self.unit;
            }
        }
    }
}

/// The whole numbers nearest to x times a factor, within ±`largest`.
pub(crate) fn round(x: &[f32], factor: f32, largest: f32, out: &mut [i16]) {
    crate::numeric::vector::dispatch(
        #[inline(always)]
        move || {
            for (to, from) in out.iter_mut().zip(x) {
                // `clamp` would look at its bounds each time. Adding ROUND leaves the nearest whole
                // number in the low bits.
                let bounded = (from * factor).max(-largest).min(largest);
                *to = (bounded + ROUND).to_bits() as i16;
            }
        },
    );
}

/// The smallest unit for which no sum of a block can overflow.
fn fine_scale(row: impl Iterator<Item = f64>) -> f32 {
    let sizes: Vec<f64> = row.map(f64::abs).collect();
    let largest = sizes.iter().fold(0.0f64, |m, &x| m.max(x));
    let sums = sizes.chunks(i16::DEPTH).map(|block| block.iter().sum::<f64>());
    let largest_sum = sums.fold(0.0f64, f64::max);
    // Rounding adds up to half a unit to each number.
    let room = f64::from(i32::MAX) / f64::from(LARGEST) - i16::DEPTH as f64;
    let scale = (largest / f64::from(i16::MAX - 1)).max(largest_sum / room) as f32;
    if scale > 0.0 { scale * (1.0 + f32::EPSILON) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(rows: usize, columns: usize, salt: usize) -> Array2<f64> {
        Array2::from_shape_fn((rows, columns), |(i, j)| {
            0.5 * ((i * 7 + j * 13 + i * j + salt) as f64 * 0.7391).sin()
        })
    }

    fn product(weights: &FixedWeights, x: ArrayView2<'_, f32>) -> Array2<f32> {
        let mut out = Array2::from_elem((x.nrows(), weights.matrix.nrows()), 9.0);
        weights.product(x.as_slice().unwrap(), out.as_slice_mut().unwrap());
        out
    }

    #[test]
    fn close_to_the_definition_on_odd_shapes() {
        for (n, depth, width) in
            [(1, 1, 1), (1, 301, 70), (2, 5, 17), (7, 257, 16), (9, 600, 1100), (13, 129, 5)]
        {
            let (x, b) = (wave(n, depth, 1), wave(width, depth, 2));
            let weights = FixedWeights::new(b.view(), 0.6);
            assert!(FixedWeights::cannot_overflow(weights.matrix.view()));
            let out = product(&weights, x.mapv(|x| x as f32).view());
            let exact = x.dot(&b.t());
            for (got, expected) in out.iter().zip(&exact) {
                let difference = (f64::from(*got) - expected).abs();
                assert!(difference < 1.2e-4 * (depth as f64).sqrt(), "{n} {depth} {width}");
            }
        }
    }

    #[test]
    fn the_worst_row_does_not_overflow() {
        for depth in [3, 128, 300] {
            let b = wave(40, depth, 5);
            let weights = FixedWeights::new(b.view(), 1.0);
            for row in b.rows() {
                let x =
                    row.mapv(|x| if x < 0.0 { -1.0f32 } else { 1.0 }).insert_axis(ndarray::Axis(0));
                let exact = x.mapv(f64::from).dot(&b.t());
                for (got, expected) in product(&weights, x.view()).iter().zip(&exact) {
                    let difference = (f64::from(*got) - expected).abs();
                    assert!(difference < 1e-3 * (depth as f64).sqrt(), "{got} {expected}");
                }
            }
        }
    }

    #[test]
    fn zero_rows_and_huge_rows_are_fine() {
        let b = ndarray::array![[0.0, 0.0, 0.0], [1e30, -1e30, 0.0], [1e-30, 0.0, 0.0]];
        let weights = FixedWeights::new(b.view(), 1.0);
        let out = product(&weights, ndarray::array![[1.0f32, 0.5, -1.0]].view());
        assert_eq!(out[[0, 0]], 0.0);
        assert!((out[[0, 1]] / 5e29 - 1.0).abs() < 1e-3);
        assert!((out[[0, 2]] / 1e-30 - 1.0).abs() < 1e-3);
    }
}
