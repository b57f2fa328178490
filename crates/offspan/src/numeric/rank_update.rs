//! Symmetric rank-k updates: Σ c·cᵀ over centred rows c, added to tiles of a lower triangle.
//!
//! Rows are packed once per batch, in the order in which the inner loop reads them, and then serve
//! all tiles. A number of the sum is built from chains of fused multiply-adds over [`DEPTH`] rows in
//! the rows' own precision; the chains are added in `f64`. Nothing of that depends on threads.

use std::ops::Range;

use ndarray::{ArrayView2, ArrayViewMut2, Axis};
use rayon::prelude::*;

use crate::numeric::vector::{contiguous_mut, dispatch, outer_chains};
use crate::{Precision, Real};

/// Rows of one chain: few enough that both sides of the inner loop stay in the first cache.
const DEPTH: usize = 256;
/// Rows of a batch: the triangle, which is larger than any cache, is read and written once per batch.
pub(crate) const BATCH: usize = 4 * DEPTH;
/// Columns on the left of the inner loop; with two vectors on the right they fill the registers.
const LEFT: usize = 6;
/// Columns on the right, for `f32` and `f64`.
const RIGHT_SINGLE: usize = 16;
const RIGHT_DOUBLE: usize = 8;
/// Columns packed by one task: whole groups of both sides.
const STRIP: usize = 48;
/// Side of the tiles: whole strips, small enough that two sides of a chain stay in the second cache.
pub(crate) const TILE: usize = 5 * STRIP;

/// A batch of centred rows, packed for both sides. Its memory serves batch after batch: getting it
/// from the system anew would cost more than the packing.
#[derive(Default)]
pub(crate) struct PackedRows<P> {
    rows: usize,
    /// Per strip and chain: groups of [`LEFT`] columns, row by row; zeros after the last column.
    left: Vec<P>,
    /// The same in groups of the right side.
    right: Vec<P>,
}

impl<P: Real> PackedRows<P> {
    /// Packs x − mean for at most [`BATCH`] rows.
    pub(crate) fn pack<T: Real>(&mut self, rows: ArrayView2<'_, T>, mean: &[f64]) {
        assert!(rows.nrows() <= BATCH, "a batch has at most {BATCH} rows");
        self.rows = rows.nrows();
        let strips = rows.ncols().div_ceil(STRIP);
        let size = STRIP * rows.nrows();
        self.left.resize(strips * size, P::default());
        self.right.resize(strips * size, P::default());
        let (width, right_width) = (rows.ncols(), right_width::<P>());
        self.left
            .par_chunks_mut(size.max(1))
            .zip(self.right.par_chunks_mut(size.max(1)))
            .enumerate()
            .for_each(|(strip, (left, right))| {
                let columns = strip * STRIP..((strip + 1) * STRIP).min(width);
                let mut centred = [P::default(); STRIP];
                for (chain, chunk) in rows.axis_chunks_iter(Axis(0), DEPTH).enumerate() {
                    let part = STRIP * DEPTH * chain..;
                    let (left, right) = (&mut left[part.clone()], &mut right[part]);
                    for (i, row) in chunk.rows().into_iter().enumerate() {
                        let row = row.slice(ndarray::s![columns.clone()]);
                        for ((to, x), mean) in
                            centred.iter_mut().zip(&row).zip(&mean[columns.clone()])
                        {
                            *to = P::from_double(x.to_double() - mean);
                        }
                        scatter(&centred, LEFT, chunk.nrows(), i, left);
                        scatter(&centred, right_width, chunk.nrows(), i, right);
                    }
                }
            });
    }

    /// tile += Σ c·cᵀ for these rows and columns of the lower triangle, which begin at whole strips.
    pub(crate) fn add_to(
        &self,
        tile: &mut ArrayViewMut2<'_, f64>,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        dispatch(
            #[inline(always)]
            || match P::PRECISION {
                Precision::F32 => self.add_sums::<RIGHT_SINGLE>(tile, rows, columns),
                Precision::F64 => self.add_sums::<RIGHT_DOUBLE>(tile, rows, columns),
            },
        );
    }

    #[inline(always)]
    fn add_sums<const RIGHT: usize>(
        &self,
        tile: &mut ArrayViewMut2<'_, f64>,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        for column in columns.clone().step_by(RIGHT) {
            for row in rows.clone().step_by(LEFT) {
                // Nothing of this group lies in the lower triangle.
                if row + LEFT <= column {
                    continue;
                }
                let mut sums = [[0.0f64; RIGHT]; LEFT];
                for start in (0..self.rows).step_by(DEPTH) {
                    let depth = DEPTH.min(self.rows - start);
                    let left = self.group(&self.left, row, LEFT, start, depth);
                    let right = self.group(&self.right, column, RIGHT, start, depth);
                    let chains: [[P; RIGHT]; LEFT] = outer_chains(left, right);
                    for (sums, chains) in sums.iter_mut().zip(&chains) {
                        for (sum, chain) in sums.iter_mut().zip(chains) {
                            *sum += chain.to_double();
                        }
                    }
                }
                let first = (row - rows.start, column - columns.start);
                for (i, sums) in sums.iter().enumerate().take(tile.nrows() - first.0) {
                    let mut to = tile.row_mut(first.0 + i);
                    let to = contiguous_mut(&mut to);
                    to[first.1..].iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
                }
            }
        }
    }

    /// One chain of a group of `width` columns that begins at `column`.
    #[inline(always)]
    fn group<'a>(
        &self,
        side: &'a [P],
        column: usize,
        width: usize,
        start: usize,
        depth: usize,
    ) -> &'a [P] {
        let at = column / STRIP * STRIP * self.rows + STRIP * start + column % STRIP * depth;
        &side[at..at + width * depth]
    }
}

fn right_width<P: Real>() -> usize {
    match P::PRECISION {
        Precision::F32 => RIGHT_SINGLE,
        Precision::F64 => RIGHT_DOUBLE,
    }
}

/// Puts one row of a strip into its groups of `width` columns, each `depth` rows long.
#[inline(always)]
fn scatter<P: Copy>(row: &[P; STRIP], width: usize, depth: usize, i: usize, out: &mut [P]) {
    for (group, columns) in row.chunks_exact(width).enumerate() {
        out[(group * depth + i) * width..][..width].copy_from_slice(columns);
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;

    #[test]
    fn equals_the_definition_in_both_precisions() {
        let (mut single, mut double) = (PackedRows::<f32>::default(), PackedRows::<f64>::default());
        for (n, width) in [(300, 100), (1, 1), (5, 47), (BATCH, TILE + 31), (700, 50)] {
            let x = Array2::from_shape_fn((n, width), |(i, j)| {
                ((i * 37 + j * 11 + i * j * 5) % 41) as f64 / 41.0
            });
            let mean = vec![0.5; width];
            let centred = &x - 0.5;
            let exact = centred.t().dot(&centred);
            single.pack(x.view(), &mean);
            double.pack(x.mapv(|x| x as f32).view(), &mean);
            for start in (0..width).step_by(TILE) {
                let (rows, columns) = (start..width.min(start + TILE), 0..width.min(TILE));
                let below = |(i, j)| rows.start + i >= columns.start + j;
                let part = exact.slice(s![rows.clone(), columns.clone()]);
                let mut tile = Array2::from_elem(part.dim(), 2.0);
                single.add_to(&mut tile.view_mut(), rows.clone(), columns.clone());
                double.add_to(&mut tile.view_mut(), rows.clone(), columns.clone());
                for ((at, got), exact) in tile.indexed_iter().zip(part) {
                    let wrong = (got - 2.0 - 2.0 * exact).abs() >= 1e-6 * n as f64;
                    assert!(!(below(at) && wrong), "{n} {width} {at:?}");
                }
            }
        }
    }
}
