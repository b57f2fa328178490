//! Products whose rows do not know of each other: a row of the result has the same bits alone and among
//! others, on any thread and with any instruction set.
//!
//! A number of the result is Σ over blocks of [`DEPTH`] terms, each block one chain of fused
//! multiply-adds from zero. Fits that need no such thing take the faster `linalg::product`.

use ndarray::{Array2, ArrayView1, ArrayView2, ArrayViewMut1, ArrayViewMut2, Axis, s};
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
                Precision::F32 => add_product::<T, 16, WIDE_ROWS>(
                    &mut c,
                    a,
                    b,
                    #[inline(always)]
                    |rows, panel| {
                        let mut sums = [[[0.0; 16]; 1]; WIDE_ROWS];
                        let panel = bytemuck::cast_slice(panel);
                        tile::single(simd, bytemuck::cast_slice(rows), [panel], &mut sums);
                        bytemuck::cast(sums)
                    },
                ),
                Precision::F64 => add_product::<T, 8, WIDE_ROWS>(
                    &mut c,
                    a,
                    b,
                    #[inline(always)]
                    |rows, panel| {
                        let mut sums = [[[0.0; 8]; 1]; WIDE_ROWS];
                        let panel = bytemuck::cast_slice(panel);
                        tile::double(simd, bytemuck::cast_slice(rows), [panel], &mut sums);
                        bytemuck::cast(sums)
                    },
                ),
            },
        );
    }
    dispatch(
        #[inline(always)]
        || match (T::PRECISION, a.nrows()) {
            (Precision::F32, 1) => add_chains::<T, 16, 1>(&mut c, a, b),
            (Precision::F32, _) => add_chains::<T, 16, ROWS>(&mut c, a, b),
            (Precision::F64, 1) => add_chains::<T, 8, 1>(&mut c, a, b),
            (Precision::F64, _) => add_chains::<T, 8, ROWS>(&mut c, a, b),
        },
    );
}

#[inline(always)]
fn add_chains<T: Real, const PANEL: usize, const GROUP: usize>(
    c: &mut ArrayViewMut2<'_, T>,
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
) {
    // A closure of its own: a function that is handed over by its name might not be inlined, and would then be
    // compiled without the instructions of its surroundings.
    add_product::<T, PANEL, GROUP>(
        c,
        a,
        b,
        #[inline(always)]
        |rows, panel| outer_chains(rows, panel),
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
    let mut results: Vec<_> = c.rows_mut().into_iter().collect();
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
            interleave::<T, GROUP>(terms_of_row, row % GROUP, group);
        }
        for first in (0..columns).step_by(PANEL) {
            let width = PANEL.min(columns - first);
            let panel = &mut panel[..PANEL * terms];
            if width < PANEL {
                panel.fill(T::default());
            }
            for column in 0..width {
                let terms = b.slice(s![start..start + terms, first + column]);
                interleave::<T, PANEL>(terms, column, panel);
            }
            for (group, terms_of_group) in groups.chunks_exact(GROUP * terms).enumerate() {
                let sums = chains(terms_of_group, panel);
                for (result, sums) in results[group * GROUP..].iter_mut().zip(&sums) {
                    add(result, first, &sums[..width]);
                }
            }
        }
    }
}

/// Puts numbers at every COUNT-th place, from `first` on.
#[inline(always)]
fn interleave<T: Real, const COUNT: usize>(
    numbers: ArrayView1<'_, T>,
    first: usize,
    out: &mut [T],
) {
    let places = out.as_chunks_mut::<COUNT>().0;
    match numbers.as_slice() {
        Some(numbers) => {
            for (place, x) in places.iter_mut().zip(numbers) {
                place[first] = *x;
            }
        }
        None => {
            for (place, x) in places.iter_mut().zip(numbers) {
                place[first] = *x;
            }
        }
    }
}

/// Adds sums to a row, from a column on.
#[inline(always)]
fn add<T: Real>(row: &mut ArrayViewMut1<'_, T>, first: usize, sums: &[T]) {
    // Plain loops: a closure that is not inlined would not have the instructions of its surroundings.
    match row.as_slice_mut() {
        Some(row) => {
            let mut eights = row[first..first + sums.len()].chunks_exact_mut(EIGHT);
            for (to, sums) in eights.by_ref().zip(sums.chunks_exact(EIGHT)) {
                // Copies: the compiler cannot see that the two do not overlap.
                let mut all = [T::default(); EIGHT];
                all.copy_from_slice(to);
                for (to, sum) in all.iter_mut().zip(sums) {
                    *to += *sum;
                }
                to.copy_from_slice(&all);
            }
            let done = sums.len() / EIGHT * EIGHT;
            for (to, sum) in eights.into_remainder().iter_mut().zip(&sums[done..]) {
                *to += *sum;
            }
        }
        None => {
            for (to, sum) in row.iter_mut().skip(first).zip(sums) {
                *to += *sum;
            }
        }
    }
}

/// Numbers that are added at once: every panel has whole groups of them.
const EIGHT: usize = 8;

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
