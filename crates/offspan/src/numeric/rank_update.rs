//! Symmetric rank-k updates: Σ c·cᵀ over centred rows c, added to tiles of a lower triangle.
//!
//! Rows are packed once per batch, in the order in which the inner loop reads them, and then serve
//! all tiles. A number of the sum is built from chains of fused multiply-adds over [`DEPTH`] rows in
//! the rows' own precision; the chains are added in `f64`. Nothing of that depends on threads.

use std::ops::Range;

use ndarray::{Array1, ArrayView2, ArrayViewMut2, Axis};
use rayon::prelude::*;

use crate::numeric::cache;
use crate::numeric::instructions::Leave;
#[cfg(target_arch = "x86_64")]
use crate::numeric::tile;
use crate::numeric::vector::{contiguous_mut, dispatch, outer_chains};
use crate::{Precision, Real};

/// Rows of one chain: few enough that both sides of the inner loop stay in the first cache.
const DEPTH: usize = 256;
/// Rows of a batch: the triangle, which is larger than any cache, is read and written once per batch.
pub(crate) const BATCH: usize = 4 * DEPTH;
/// Columns on the left of the inner loop; with two vectors of 256 bits on the right they fill 16 registers.
const LEFT: usize = 6;
/// Columns on the right, for `f32` and `f64`.
const RIGHT_SINGLE: usize = 16;
const RIGHT_DOUBLE: usize = 8;
/// Columns packed by one task: whole groups of both sides.
pub(super) const STRIP: usize = 48;

/// Side of the tiles: whole strips. A chain of one side and the sums stay in the second cache.
pub(crate) fn tile_side() -> usize {
    const MOST_STRIPS: usize = 6;
    let room = cache::second_level() / 4 * 3;
    let needs = |side: usize| size_of::<f64>() * side * (DEPTH + side);
    let mut sides = (1..=MOST_STRIPS).rev().map(|strips| strips * STRIP);
    sides.find(|&side| needs(side) <= room).unwrap_or(STRIP)
}

/// A way to add Σ c·cᵀ of a batch of rows to tiles of a triangle.
pub(crate) trait RankUpdate: Sync {
    /// The mean of each column, as it is after whatever rounding the packing does.
    fn means<T: Real>(&self, rows: ArrayView2<'_, T>) -> Array1<f64> {
        column_means(rows, |x| x.to_double())
    }

    /// What can be subtracted without rounding anew, in place of a mean. What is left of the mean is for
    /// whoever adds the tiles up.
    fn centre(&self, mean: &Array1<f64>) -> Array1<f64> {
        mean.clone()
    }

    /// Packs x − mean for at most [`BATCH`] rows.
    fn pack<T: Real>(&mut self, rows: ArrayView2<'_, T>, mean: &[f64]);

    /// tile += Σ c·cᵀ for these rows and columns of the lower triangle, which begin at whole strips.
    fn add_to(&self, tile: &mut ArrayViewMut2<'_, f64>, rows: Range<usize>, columns: Range<usize>);
}

/// Means of numbers made of the entries, in parallel over columns.
pub(crate) fn column_means<T: Real>(
    rows: ArrayView2<'_, T>,
    number: impl Fn(T) -> f64 + Sync,
) -> Array1<f64> {
    let mut sums = Array1::<f64>::zeros(rows.ncols());
    let part = tile_side();
    sums.axis_chunks_iter_mut(Axis(0), part)
        .into_par_iter()
        .zip(rows.axis_chunks_iter(Axis(1), part))
        .for_each(|(mut sums, columns)| {
            for row in columns.rows() {
                sums.zip_mut_with(&row, |sum, x| *sum += number(*x));
            }
            sums /= rows.nrows() as f64;
        });
    sums
}

/// A batch of centred rows, packed for both sides. Its memory serves batch after batch: getting it
/// from the system anew would cost more than the packing.
#[derive(Default)]
pub(crate) struct PackedRows<P> {
    rows: usize,
    /// Columns of a group on the left.
    left_width: usize,
    /// Per strip and chain: groups of columns, row by row; zeros after the last column.
    left: Vec<P>,
    /// The same in groups of the right side.
    right: Vec<P>,
}

impl<P: Real> RankUpdate for PackedRows<P> {
    fn pack<T: Real>(&mut self, rows: ArrayView2<'_, T>, mean: &[f64]) {
        assert!(rows.nrows() <= BATCH, "a batch has at most {BATCH} rows");
        self.rows = rows.nrows();
        self.left_width = left_width();
        let strips = rows.ncols().div_ceil(STRIP);
        let size = STRIP * rows.nrows();
        self.left.resize(strips * size, P::default());
        self.right.resize(strips * size, P::default());
        let (width, left_width, right_width) = (rows.ncols(), self.left_width, right_width::<P>());
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
                        scatter(&centred, left_width, chunk.nrows(), i, left);
                        scatter(&centred, right_width, chunk.nrows(), i, right);
                    }
                }
            });
    }

    fn add_to(&self, tile: &mut ArrayViewMut2<'_, f64>, rows: Range<usize>, columns: Range<usize>) {
        let mut sums = Sums::new(&rows, &columns);
        // Chain by chain, so that those of one side stay in the cache.
        for start in (0..self.rows).step_by(DEPTH) {
            let chain = Chain { start, depth: DEPTH.min(self.rows - start) };
            match (P::PRECISION, Leave::chosen()) {
                #[cfg(target_arch = "x86_64")]
                (Precision::F32, Leave::Avx512(simd) | Leave::Avx512Vnni(simd, _)) => {
                    simd.vectorize(
                        #[inline(always)]
                        || self.add_wide_single(simd, chain, &mut sums),
                    );
                }
                #[cfg(target_arch = "x86_64")]
                (Precision::F64, Leave::Avx512(simd) | Leave::Avx512Vnni(simd, _)) => {
                    simd.vectorize(
                        #[inline(always)]
                        || self.add_wide_double(simd, chain, &mut sums),
                    );
                }
                (Precision::F32, _) => dispatch(
                    #[inline(always)]
                    || self.add_chain::<RIGHT_SINGLE>(chain, &mut sums),
                ),
                (Precision::F64, _) => dispatch(
                    #[inline(always)]
                    || self.add_chain::<RIGHT_DOUBLE>(chain, &mut sums),
                ),
            }
        }
        for (mut to, sums) in tile.rows_mut().into_iter().zip(sums.lower_triangle()) {
            let to = contiguous_mut(&mut to);
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
        }
    }
}

impl<P: Real> PackedRows<P> {
    #[inline(always)]
    fn add_chain<const RIGHT: usize>(&self, chain: Chain, sums: &mut Sums) {
        for column in sums.columns.clone().step_by(RIGHT) {
            for row in sums.rows.clone().step_by(LEFT) {
                // Nothing of this group lies in the lower triangle.
                if row + LEFT <= column {
                    continue;
                }
                let left = self.group(&self.left, row, LEFT, chain);
                let right = self.group(&self.right, column, RIGHT, chain);
                let chains: [[P; RIGHT]; LEFT] = outer_chains(left, right);
                for (i, chains) in chains.iter().enumerate() {
                    sums.add(row + i, column, chains);
                }
            }
        }
    }

    /// One chain of a group of `width` columns that begins at `column`.
    #[inline(always)]
    fn group<'a>(&self, side: &'a [P], column: usize, width: usize, chain: Chain) -> &'a [P] {
        let Chain { start, depth } = chain;
        let at = column / STRIP * STRIP * self.rows + STRIP * start + column % STRIP * depth;
        &side[at..at + width * depth]
    }
}

/// Rows of the batch that one chain takes.
#[derive(Clone, Copy)]
struct Chain {
    start: usize,
    depth: usize,
}

/// What a batch adds to a tile, with room for whole groups at its ends.
pub(super) struct Sums {
    rows: Range<usize>,
    columns: Range<usize>,
    stride: usize,
    numbers: Vec<f64>,
}

impl Sums {
    pub(super) fn new(rows: &Range<usize>, columns: &Range<usize>) -> Self {
        let stride = columns.len().next_multiple_of(STRIP);
        let numbers = vec![0.0; rows.len().next_multiple_of(STRIP) * stride];
        Sums { rows: rows.clone(), columns: columns.clone(), stride, numbers }
    }

    pub(super) fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The columns, filled up to whole groups.
    pub(super) fn padded_columns(&self) -> Range<usize> {
        self.columns.start..self.columns.start + self.stride
    }

    /// Row by row, up to the diagonal. How much is known beyond it depends on the instructions.
    pub(super) fn lower_triangle(&self) -> impl Iterator<Item = &[f64]> {
        let first = self.columns.start;
        self.rows
            .clone()
            .zip(self.numbers.chunks(self.stride))
            .map(move |(row, sums)| &sums[..(row + 1).saturating_sub(first).min(sums.len())])
    }

    /// Adds to one row, from a column on.
    #[inline(always)]
    pub(super) fn add<P: Real, const COUNT: usize>(
        &mut self,
        row: usize,
        column: usize,
        chains: &[P; COUNT],
    ) {
        let at = (row - self.rows.start) * self.stride + column - self.columns.start;
        let Some(to) = self.numbers[at..].first_chunk_mut::<COUNT>() else {
            unreachable!("there is room for whole groups")
        };
        // A copy: the compiler cannot see that the two do not overlap.
        let mut all = *to;
        for (to, chain) in all.iter_mut().zip(chains) {
            *to += chain.to_double();
        }
        *to = all;
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! add_wide {
    ($name:ident, $chains:ident, $type:ident, $right:ident) => {
        /// As [`PackedRows::add_chain`], same bits.
        #[inline(always)]
        fn $name(&self, simd: pulp::x86::V4, chain: Chain, sums: &mut Sums) {
            const LEFT: usize = tile::ROWS;
            let mut column = sums.columns.start;
            while column < sums.columns.end {
                let right = |column| -> &[$type] {
                    bytemuck::cast_slice(self.group(&self.right, column, $right, chain))
                };
                let two = column + $right < sums.columns.end;
                for row in sums.rows.clone().step_by(LEFT) {
                    // Nothing of this group lies in the lower triangle.
                    if row + LEFT <= column {
                        continue;
                    }
                    let left = bytemuck::cast_slice(self.group(&self.left, row, LEFT, chain));
                    if two {
                        let mut chains = [[[0.0; $right]; 2]; LEFT];
                        let panels = [right(column), right(column + $right)];
                        tile::$chains(simd, left, panels, &mut chains);
                        for (i, [first, second]) in chains.iter().enumerate() {
                            sums.add(row + i, column, first);
                            sums.add(row + i, column + $right, second);
                        }
                    } else {
                        let mut chains = [[[0.0; $right]; 1]; LEFT];
                        tile::$chains(simd, left, [right(column)], &mut chains);
                        for (i, [chains]) in chains.iter().enumerate() {
                            sums.add(row + i, column, chains);
                        }
                    }
                }
                column += if two { 2 * $right } else { $right };
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
impl<P: Real> PackedRows<P> {
    add_wide!(add_wide_single, single, f32, RIGHT_SINGLE);
    add_wide!(add_wide_double, double, f64, RIGHT_DOUBLE);
}

pub(super) fn left_width() -> usize {
    match Leave::chosen() {
        #[cfg(target_arch = "x86_64")]
        Leave::Avx512(_) | Leave::Avx512Vnni(..) => tile::ROWS,
        _ => LEFT,
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
        for (n, width) in [(300, 100), (1, 1), (5, 47), (BATCH, tile_side() + 31), (700, 50)] {
            let x = Array2::from_shape_fn((n, width), |(i, j)| {
                ((i * 37 + j * 11 + i * j * 5) % 41) as f64 / 41.0
            });
            let mean = vec![0.5; width];
            let centred = &x - 0.5;
            let exact = centred.t().dot(&centred);
            single.pack(x.view(), &mean);
            double.pack(x.mapv(|x| x as f32).view(), &mean);
            let side = tile_side();
            for start in (0..width).step_by(side) {
                let (rows, columns) = (start..width.min(start + side), 0..width.min(side));
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
