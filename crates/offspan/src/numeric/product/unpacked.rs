//! Products whose rows do not know of each other: a row of the result has the same bits alone and among
//! others, on any thread and with any instruction set.
//!
//! A number of the result is Σ over blocks of [`DEPTH`] terms, each block one chain of fused
//! multiply-adds from zero. Fits that need no such thing take the faster `linalg::product`.

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

#[cfg(target_arch = "x86_64")]
use crate::numeric::instructions::Leave;
#[cfg(target_arch = "x86_64")]
use crate::numeric::tile;
use crate::numeric::vector::{dispatch, outer_chains};
use crate::{Precision, Real};

/// Terms of a chain: a panel of so many stays in the first cache while all rows pass.
const DEPTH: usize = 256;
/// Rows that share one read of a panel. Its columns are 8 in double precision and 16 in single: 6 × 8
/// sums fill 16 registers of 256 bits.
const ROWS: usize = 6;
/// The same where there are 32 registers of 512 bits: 24 × 8.
const WIDE_ROWS: usize = 24;
/// Rows of one task in [`product`].
const ROWS_PER_TASK: usize = 120;

/// `c = a·b` on the calling thread.
///
/// # Panics
/// If the shapes do not fit.
pub(crate) fn multiply<T: Real>(
    mut c: ArrayViewMut2<'_, T>,
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
) {
    assert_eq!((a.nrows(), a.ncols(), b.ncols()), (c.nrows(), b.nrows(), c.ncols()));
    c.fill(T::default());
    #[cfg(target_arch = "x86_64")]
    if let Leave::Avx512(simd) | Leave::Avx512Vnni(simd, _) = Leave::chosen()
        && a.nrows() > 1
    {
        return simd.vectorize(
            #[inline(always)]
            || match T::PRECISION {
                Precision::F32 => add_product::<T, 16, WIDE_ROWS>(&mut c, a, b, |rows, panel| {
                    let mut sums = [[[0.0; 16]; 1]; WIDE_ROWS];
                    let panel = bytemuck::cast_slice(panel);
                    tile::single(simd, bytemuck::cast_slice(rows), [panel], &mut sums);
                    bytemuck::cast(sums)
                }),
                Precision::F64 => add_product::<T, 8, WIDE_ROWS>(&mut c, a, b, |rows, panel| {
                    let mut sums = [[[0.0; 8]; 1]; WIDE_ROWS];
                    let panel = bytemuck::cast_slice(panel);
                    tile::double(simd, bytemuck::cast_slice(rows), [panel], &mut sums);
                    bytemuck::cast(sums)
                }),
            },
        );
    }
    dispatch(
        #[inline(always)]
        || match (T::PRECISION, a.nrows()) {
            (Precision::F32, 1) => add_product::<T, 16, 1>(&mut c, a, b, outer_chains),
            (Precision::F32, _) => add_product::<T, 16, ROWS>(&mut c, a, b, outer_chains),
            (Precision::F64, 1) => add_product::<T, 8, 1>(&mut c, a, b, outer_chains),
            (Precision::F64, _) => add_product::<T, 8, ROWS>(&mut c, a, b, outer_chains),
        },
    );
}

/// `a·b` on all threads.
pub(crate) fn product<T: Real>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
    let mut c = Array2::default((a.nrows(), b.ncols()));
    c.axis_chunks_iter_mut(Axis(0), ROWS_PER_TASK)
        .into_par_iter()
        .zip(a.axis_chunks_iter(Axis(0), ROWS_PER_TASK))
        .for_each(|(c, a)| multiply(c, a, b));
    c
}

#[inline(always)]
fn add_product<T: Real, const PANEL: usize, const GROUP: usize>(
    c: &mut ArrayViewMut2<'_, T>,
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    chains: impl Fn(&[T], &[T]) -> [[T; PANEL]; GROUP],
) {
    let (rows, depth, columns) = (a.nrows(), a.ncols(), b.ncols());
    let mut groups = Vec::new();
    let mut panel = vec![T::default(); PANEL * DEPTH.min(depth)];
    for start in (0..depth).step_by(DEPTH) {
        let terms = DEPTH.min(depth - start);
        groups.clear();
        groups.resize(rows.next_multiple_of(GROUP) * terms, T::default());
        for (row, terms_of_row) in
            a.slice(s![.., start..start + terms]).rows().into_iter().enumerate()
        {
            let group = &mut groups[row / GROUP * GROUP * terms..][..GROUP * terms];
            let places = group.iter_mut().skip(row % GROUP).step_by(GROUP);
            places.zip(terms_of_row).for_each(|(place, &x)| *place = x);
        }
        for first in (0..columns).step_by(PANEL) {
            let width = PANEL.min(columns - first);
            let panel = &mut panel[..PANEL * terms];
            if width < PANEL {
                panel.fill(T::default());
            }
            for column in 0..width {
                let places = panel.iter_mut().skip(column).step_by(PANEL);
                let terms = b.slice(s![start..start + terms, first + column]);
                places.zip(terms).for_each(|(place, &x)| *place = x);
            }
            for (group, terms_of_group) in groups.chunks_exact(GROUP * terms).enumerate() {
                let sums = chains(terms_of_group, panel);
                for (row, sums) in (group * GROUP..rows).zip(&sums) {
                    let mut out = c.slice_mut(s![row, first..first + width]);
                    out.iter_mut().zip(sums).for_each(|(out, &sum)| *out += sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wave;
    use super::*;

    #[test]
    fn equals_the_definition_on_odd_shapes_and_any_layout() {
        for (n, depth, width) in
            [(0, 3, 2), (1, 1, 1), (1, 300, 70), (2, 5, 17), (7, 257, 8), (13, 600, 9), (6, 0, 3)]
        {
            let (x, b) = (wave::<f64>(n, depth, 1), wave::<f64>(depth, width, 2));
            let (turned_x, turned_b) = (x.t().to_owned(), b.t().to_owned());
            let exact = x.dot(&b);
            for (x, b) in [(x.view(), b.view()), (turned_x.t(), turned_b.t())] {
                let mut out = Array2::from_elem((width, n), 9.0).reversed_axes();
                multiply(out.view_mut(), x, b);
                assert!((&out - &exact).iter().all(|difference| difference.abs() < 1e-12));
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_whatever_the_others() {
        let (x, b) = (wave::<f64>(40, 513, 1), wave::<f64>(513, 130, 2));
        let product = |from: usize, to: usize| {
            let mut out = Array2::zeros((to - from, 130));
            multiply(out.view_mut(), x.slice(s![from..to, ..]), b.view());
            out
        };
        let whole = product(0, 40);
        for (from, to) in [(0, 1), (5, 6), (3, 5), (0, 7), (10, 33), (1, 40)] {
            assert_eq!(product(from, to), whole.slice(s![from..to, ..]), "{from}..{to}");
        }
    }
}
