//! Rank-k updates in 16-bit fixed point, for rows whose numbers are bounded.
//!
//! Numbers have 11 bits and a sign, in units of the bound. What that rounds differs from row to row and
//! averages out: with n rows a covariance is off by about 2e-4/√n of the variances, the diagonal by 1e-7.
//! That is as little as products in `f32` leave, unless small eigenvalues matter. A number is rounded before
//! anything is subtracted, so it is the same whatever rows are beside it. Sums of [`DEPTH`] products are
//! whole numbers below 2³¹; they are added in `f64`, and nothing depends on the instructions.

#![allow(
    clippy::manual_clamp,
    reason = "two instructions; a clamp also looks for NaN, which rows have not"
)]

use std::ops::Range;

use ndarray::{Array1, ArrayView2, ArrayViewMut2, Axis};
use rayon::prelude::*;

use crate::Real;
use crate::numeric::product::panels::{Kernel, Number, PANEL, Sums as Put, WithKernel};
use crate::numeric::rank_update::{BATCH, RankUpdate, STRIP, Sums, column_means, left_width};
use crate::numeric::vector::{contiguous_mut, dispatch};

/// Rows of one chain.
const DEPTH: usize = 128;
/// The bound in units. Less a mean it is at most twice as much: DEPTH · (2·LARGEST)² < 2³¹.
const LARGEST: f32 = 2047.0;
/// 1.5 · 2^23: the unit of numbers of this size is 1.
const ROUND: f32 = 12_582_912.0;
/// Rows that one instruction takes together.
const STEP: usize = i16::STEP;

/// A batch of centred rows in fixed point, packed for both sides.
pub(crate) struct FixedRows {
    /// What a unit is worth.
    unit: f64,
    rows: usize,
    /// Columns of a group on the left.
    left_width: usize,
    /// Per strip and chain: groups of columns, two rows at a time; zeros after the last row and column.
    left: Vec<i16>,
    /// The same in groups of the right side.
    right: Vec<i16>,
}

impl FixedRows {
    /// For rows within ±`bound`.
    pub(crate) fn new(bound: f64) -> Self {
        let unit = bound / f64::from(LARGEST);
        FixedRows { unit, rows: 0, left_width: left_width(), left: Vec::new(), right: Vec::new() }
    }

    /// Units of a number per its size.
    fn factor(&self) -> f32 {
        (1.0 / self.unit) as f32
    }

    /// One chain of a group of `width` columns that begins at `column`.
    #[inline(always)]
    fn group<'a>(&self, side: &'a [i16], column: usize, width: usize, start: usize) -> &'a [i16] {
        let padded = self.rows.next_multiple_of(STEP);
        let depth = DEPTH.min(padded - start);
        let at = column / STRIP * STRIP * padded + STRIP * start + column % STRIP * depth;
        &side[at..at + width * depth]
    }
}

impl RankUpdate for FixedRows {
    fn means<T: Real>(&self, rows: ArrayView2<'_, T>) -> Array1<f64> {
        let factor = self.factor();
        column_means(rows, |x| f64::from(units(x.to_double() as f32, factor))) * self.unit
    }

    fn centre(&self, mean: &Array1<f64>) -> Array1<f64> {
        mean.mapv(|mean| (mean / self.unit).round() * self.unit)
    }

    fn pack<T: Real>(&mut self, rows: ArrayView2<'_, T>, mean: &[f64]) {
        assert!(rows.nrows() <= BATCH, "a batch has at most {BATCH} rows");
        self.rows = rows.nrows();
        let size = STRIP * self.rows.next_multiple_of(STEP);
        let strips = rows.ncols().div_ceil(STRIP);
        self.left.resize(strips * size, 0);
        self.right.resize(strips * size, 0);
        let (width, left_width, factor) = (rows.ncols(), self.left_width, self.factor());
        let unit = self.unit;
        self.left
            .par_chunks_mut(size.max(1))
            .zip(self.right.par_chunks_mut(size.max(1)))
            .enumerate()
            .for_each(|(strip, (left, right))| {
                let columns = strip * STRIP..((strip + 1) * STRIP).min(width);
                let mut means = [0i16; STRIP];
                for (to, mean) in means.iter_mut().zip(&mean[columns.clone()]) {
                    *to = (mean / unit).round() as i16;
                }
                for (chain, chunk) in rows.axis_chunks_iter(Axis(0), DEPTH).enumerate() {
                    let part = STRIP * DEPTH * chain..;
                    let (left, right) = (&mut left[part.clone()], &mut right[part]);
                    let depth = chunk.nrows().next_multiple_of(STEP);
                    for i in 0..depth {
                        let mut numbers = [0i16; STRIP];
                        // The last row may have no partner; zeros add nothing.
                        if i < chunk.nrows() {
                            let mut x = [0.0f32; STRIP];
                            let row = chunk.row(i);
                            let row = row.slice(ndarray::s![columns.clone()]);
                            x.iter_mut().zip(&row).for_each(|(to, x)| *to = x.to_double() as f32);
                            round(&x, &means, factor, &mut numbers);
                        }
                        scatter(&numbers, left_width, depth, i, left);
                        scatter(&numbers, PANEL, depth, i, right);
                    }
                }
            });
    }

    fn add_to(&self, tile: &mut ArrayViewMut2<'_, f64>, rows: Range<usize>, columns: Range<usize>) {
        let mut sums = Sums::new(&rows, &columns);
        i16::with_kernel(AddChains { packed: self, sums: &mut sums });
        let square = self.unit * self.unit;
        for (mut to, sums) in tile.rows_mut().into_iter().zip(sums.lower_triangle()) {
            let to = contiguous_mut(&mut to);
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum * square);
        }
    }
}

#[inline(always)]
fn round(x: &[f32; STRIP], means: &[i16; STRIP], factor: f32, out: &mut [i16; STRIP]) {
    dispatch(
        #[inline(always)]
        || {
            for i in 0..STRIP {
                out[i] = units(x[i], factor) - means[i];
            }
        },
    );
}

/// A number in units, rounded.
#[inline(always)]
fn units(x: f32, factor: f32) -> i16 {
    let number = (x * factor).max(-LARGEST).min(LARGEST);
    (number + ROUND).to_bits() as i16
}

/// Puts one row of a strip into its groups of `width` columns, each `depth` rows long.
#[inline(always)]
fn scatter(row: &[i16; STRIP], width: usize, depth: usize, i: usize, out: &mut [i16]) {
    for (group, columns) in row.chunks_exact(width).enumerate() {
        let to = &mut out[group * depth * width + i / STEP * width * STEP..][..width * STEP];
        for (to, x) in to.chunks_exact_mut(STEP).zip(columns) {
            to[i % STEP] = *x;
        }
    }
}

/// All chains of a tile.
struct AddChains<'a> {
    packed: &'a FixedRows,
    sums: &'a mut Sums,
}

impl WithKernel<i16> for AddChains<'_> {
    fn run<K: Kernel<i16>>(self, kernel: K) {
        let AddChains { packed, sums } = self;
        let (width, columns) = (packed.left_width, sums.padded_columns());
        kernel.vectorize(
            #[inline(always)]
            || {
                for start in (0..packed.rows).step_by(DEPTH) {
                    let mut column = columns.start;
                    while column < columns.end {
                        let fits = column + K::PANELS * PANEL <= columns.end;
                        let count = if fits { K::PANELS } else { 1 };
                        let mut panels = [&packed.right[..0]; 2];
                        for (i, panel) in panels[..count].iter_mut().enumerate() {
                            let first = column + i * PANEL;
                            *panel = packed.group(&packed.right, first, PANEL, start);
                        }
                        for row in sums.rows().step_by(width) {
                            // Nothing of this group lies in the lower triangle.
                            if row + width <= column {
                                continue;
                            }
                            let left = packed.group(&packed.left, row, width, start);
                            let mut out = AddTo { sums: &mut *sums, row, column };
                            kernel.sums(width, left, &panels[..count], &mut out);
                        }
                        column += count * PANEL;
                    }
                }
            },
        );
    }
}

struct AddTo<'a> {
    sums: &'a mut Sums,
    row: usize,
    column: usize,
}

impl Put for AddTo<'_> {
    #[inline(always)]
    fn put(&mut self, row: usize, panel: usize, sums: &[f32; PANEL]) {
        self.sums.add(self.row + row, self.column + panel * PANEL, sums);
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;
    use crate::numeric::rank_update::tile_side;

    #[test]
    fn close_to_the_definition_for_every_shape() {
        let mut packed = FixedRows::new(0.5);
        for (n, width) in [(300, 100), (1, 1), (5, 47), (BATCH, tile_side() + 31), (701, 50)] {
            let x = Array2::from_shape_fn((n, width), |(i, j)| {
                0.5 * ((i * 37 + j * 11 + i * j * 5) as f32 * 0.73).sin()
            });
            let mean = packed.centre(&(0..width).map(|j| (j % 7) as f64 / 70.0).collect());
            let mut centred = x.mapv(f64::from);
            centred.rows_mut().into_iter().for_each(|mut row| {
                row.iter_mut().zip(&mean).for_each(|(x, mean)| *x -= mean);
            });
            let exact = centred.t().dot(&centred);
            packed.pack(x.view(), mean.as_slice().unwrap());
            let side = tile_side();
            for start in (0..width).step_by(side) {
                let (rows, columns) = (start..width.min(start + side), 0..width.min(side));
                let below = |(i, j)| rows.start + i >= columns.start + j;
                let part = exact.slice(s![rows.clone(), columns.clone()]);
                let mut tile = Array2::from_elem(part.dim(), 2.0);
                packed.add_to(&mut tile.view_mut(), rows.clone(), columns.clone());
                for ((at, got), exact) in tile.indexed_iter().zip(part) {
                    let wrong = (got - 2.0 - exact).abs() >= 2e-4 * (n as f64).sqrt();
                    assert!(!(below(at) && wrong), "{n} {width} {at:?} {got} {exact}");
                }
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let mut packed = FixedRows::new(1.0);
        let x = Array2::from_elem((DEPTH, 3), 1.0f32);
        packed.pack(x.view(), &[0.0; 3]);
        let mut tile = Array2::zeros((3, 3));
        packed.add_to(&mut tile.view_mut(), 0..3, 0..3);
        assert!((tile[[2, 1]] - DEPTH as f64).abs() < 1e-3, "{tile}");
    }
}
