//! Products with a matrix that is packed once for all products to come.
//!
//! Scoring multiplies every batch of rows by the same weights: landmarks, frequencies, projections.
//! They are packed in the order in which the inner loop reads them, so nothing is packed per batch,
//! a single row streams through them at the speed of memory, and many rows share each cache line.
//!
//! A number of the result is Σ over blocks of [`Number::DEPTH`] terms, each block summed in an order
//! that depends on nothing else: neither on the other rows, nor on threads, nor on the width of the
//! processor's vectors.

use rayon::prelude::*;

use crate::numeric::vector::{dispatch, outer_chains};

/// Columns of the result that the inner loop computes at once.
pub(crate) const PANEL: usize = 16;
/// Rows that share one read of a panel: 6 × 16 sums fill the registers of AVX2.
const ROWS: usize = 6;
/// Panels that one row runs along at once, to have enough independent chains.
pub(crate) const PANELS_OF_ONE_ROW: usize = 4;
/// With fewer rows than this, threads share the panels instead of the rows.
const FEW_ROWS: usize = 8;
/// Panels per task then.
const PANELS_PER_TASK: usize = 32;

/// What is multiplied, and the inner loops over one block.
pub(crate) trait Number: Copy + Default + Send + Sync + 'static {
    /// Terms of a block: a panel's block stays in the first cache while all rows pass.
    const DEPTH: usize;
    /// Terms that one instruction takes together.
    const STEP: usize;
    /// Leave to use instructions, asked for once per product.
    type Token: Copy;

    /// What this processor has.
    fn token() -> Self::Token;

    /// The sums of COUNT rows against one panel, over the terms of a block.
    fn sums<const COUNT: usize>(
        token: Self::Token,
        panel: &[Self],
        rows: &[Self],
    ) -> [[f32; PANEL]; COUNT];

    /// The sums of one row against several panels, same bits as [`Number::sums`].
    fn sums_of_one_row(
        token: Self::Token,
        panels: [&[Self]; PANELS_OF_ONE_ROW],
        row: &[Self],
    ) -> [[f32; PANEL]; PANELS_OF_ONE_ROW];
}

/// Chains of fused multiply-adds from zero.
impl Number for f32 {
    const DEPTH: usize = 256;
    const STEP: usize = 1;
    type Token = ();

    #[inline(always)]
    fn token() {}

    #[inline(always)]
    fn sums<const COUNT: usize>((): (), panel: &[f32], rows: &[f32]) -> [[f32; PANEL]; COUNT] {
        outer_chains(rows, panel)
    }

    #[inline(always)]
    fn sums_of_one_row(
        (): (),
        [a, b, c, d]: [&[f32]; PANELS_OF_ONE_ROW],
        row: &[f32],
    ) -> [[f32; PANEL]; PANELS_OF_ONE_ROW] {
        let mut sums = [[0.0f32; PANEL]; PANELS_OF_ONE_ROW];
        let panels = a
            .chunks_exact(PANEL)
            .zip(b.chunks_exact(PANEL))
            .zip(c.chunks_exact(PANEL))
            .zip(d.chunks_exact(PANEL));
        for (&x, (((a, b), c), d)) in row.iter().zip(panels) {
            for j in 0..PANEL {
                sums[0][j] = x.mul_add(a[j], sums[0][j]);
                sums[1][j] = x.mul_add(b[j], sums[1][j]);
                sums[2][j] = x.mul_add(c[j], sums[2][j]);
                sums[3][j] = x.mul_add(d[j], sums[3][j]);
            }
        }
        sums
    }
}

/// A matrix B of one row per column of the result x·Bᵀ.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Packed<N> {
    rows: usize,
    depth: usize,
    /// `[block of terms][panel][step][column][term of the step]`, filled up with zeros.
    numbers: Vec<N>,
}

impl<N: Number> Packed<N> {
    pub(crate) fn new((rows, depth): (usize, usize), matrix: &[N]) -> Self {
        let width = rows.next_multiple_of(PANEL);
        let mut numbers = vec![N::default(); width * depth.next_multiple_of(N::STEP)];
        for start in (0..depth).step_by(N::DEPTH) {
            let terms = N::DEPTH.min(depth - start);
            let size = PANEL * terms.next_multiple_of(N::STEP);
            let block = &mut numbers[width * start..][..width / PANEL * size];
            block.par_chunks_exact_mut(size).enumerate().for_each(|(panel, numbers)| {
                for (column, row) in (panel * PANEL..rows.min((panel + 1) * PANEL)).enumerate() {
                    let from = &matrix[row * depth + start..][..terms];
                    interleave::<N>(from, PANEL, column, numbers);
                }
            });
        }
        Packed { rows, depth, numbers }
    }

    fn blocks(&self) -> impl Iterator<Item = Block<'_, N>> {
        let width = self.rows.next_multiple_of(PANEL);
        (0..self.depth).step_by(N::DEPTH).map(move |start| {
            let terms = N::DEPTH.min(self.depth - start);
            let padded = terms.next_multiple_of(N::STEP);
            Block {
                start,
                terms,
                padded,
                numbers: &self.numbers[width * start..][..width * padded],
            }
        })
    }

    /// out = x·Bᵀ; both row-major. Many rows on the calling thread, few rows on all threads.
    pub(crate) fn product(&self, x: &[N], out: &mut [f32]) {
        let few = self.depth > 0 && x.len() / self.depth < FEW_ROWS;
        if few && self.rows > PANEL * PANELS_PER_TASK {
            return self.shared_product(x, out);
        }
        self.multiply(x, out, |rows, mut results| self.panels(0, rows, &mut results));
    }

    /// The same on all threads, which share the panels.
    pub(crate) fn shared_product(&self, x: &[N], out: &mut [f32]) {
        self.multiply(x, out, |rows, results| {
            // Every task gets the same part of each row of the result.
            let width = PANEL * PANELS_PER_TASK;
            let mut parts: Vec<Vec<&mut [f32]>> = Vec::new();
            parts.resize_with(self.rows.div_ceil(width), Vec::new);
            for result in results {
                for (part, chunk) in parts.iter_mut().zip(result.chunks_mut(width)) {
                    part.push(chunk);
                }
            }
            parts.into_par_iter().enumerate().for_each(|(index, mut part)| {
                self.panels(index * PANELS_PER_TASK, rows, &mut part);
            });
        });
    }

    /// Checks the shapes and lets `by_rows` add to zeros.
    fn multiply(&self, x: &[N], out: &mut [f32], by_rows: impl Fn(&[&[N]], Vec<&mut [f32]>)) {
        out.fill(0.0);
        if self.depth == 0 || self.rows == 0 {
            return;
        }
        assert_eq!(x.len() / self.depth * self.rows, out.len(), "shapes of the product");
        let rows: Vec<&[N]> = x.chunks_exact(self.depth).collect();
        by_rows(&rows, out.chunks_exact_mut(self.rows).collect());
    }

    /// Adds to results that begin with panel `first`.
    fn panels(&self, first: usize, rows: &[&[N]], results: &mut [&mut [f32]]) {
        let Some(width) = results.first().map(|result| result.len()) else { return };
        let token = N::token();
        dispatch(
            #[inline(always)]
            || {
                let mut groups = Vec::new();
                for block in self.blocks() {
                    let size = PANEL * block.padded;
                    let panels = &block.numbers[first * size..];
                    let panels = &panels[..width.div_ceil(PANEL) * size];
                    if rows.len() == 1 {
                        block.one_row(token, panels, rows[0], results[0], &mut groups);
                        continue;
                    }
                    block.gather(rows, &mut groups);
                    for (panel, column) in panels.chunks_exact(size).zip((0..).step_by(PANEL)) {
                        block.all_rows(token, panel, &groups, results, column);
                    }
                }
            },
        );
    }
}

/// Some terms of every panel.
struct Block<'a, N> {
    start: usize,
    terms: usize,
    /// Terms, filled up to whole steps.
    padded: usize,
    numbers: &'a [N],
}

impl<N: Number> Block<'_, N> {
    /// Terms of the rows in the order in which the inner loop reads them: groups of [`ROWS`] rows,
    /// step by step; the last group is filled up with zeros.
    #[inline(always)]
    fn gather(&self, rows: &[&[N]], groups: &mut Vec<N>) {
        groups.clear();
        groups.resize(rows.len().div_ceil(ROWS) * ROWS * self.padded, N::default());
        for (group, rows) in groups.chunks_exact_mut(ROWS * self.padded).zip(rows.chunks(ROWS)) {
            for (i, row) in rows.iter().enumerate() {
                interleave::<N>(&row[self.start..][..self.terms], ROWS, i, group);
            }
        }
    }

    /// One panel, all rows.
    #[inline(always)]
    fn all_rows(
        &self,
        token: N::Token,
        panel: &[N],
        groups: &[N],
        results: &mut [&mut [f32]],
        column: usize,
    ) {
        let groups = groups.chunks_exact(ROWS * self.padded);
        for (group, results) in groups.zip(results.chunks_mut(ROWS)) {
            let sums = N::sums::<ROWS>(token, panel, group);
            for (sums, result) in sums.iter().zip(results) {
                add(sums, &mut result[column..]);
            }
        }
    }

    /// One row, several panels at once.
    #[inline(always)]
    fn one_row(
        &self,
        token: N::Token,
        panels: &[N],
        row: &[N],
        result: &mut [f32],
        buffer: &mut Vec<N>,
    ) {
        buffer.clear();
        buffer.extend_from_slice(&row[self.start..][..self.terms]);
        buffer.resize(self.padded, N::default());
        let size = PANEL * self.padded;
        let mut groups = panels.chunks_exact(PANELS_OF_ONE_ROW * size);
        let mut results = result.chunks_mut(PANEL);
        for group in &mut groups {
            let panels = std::array::from_fn(|i| &group[i * size..][..size]);
            let sums = N::sums_of_one_row(token, panels, buffer);
            sums.iter().zip(&mut results).for_each(|(sums, result)| add(sums, result));
        }
        for (panel, result) in groups.remainder().chunks_exact(size).zip(results) {
            add(&N::sums::<1>(token, panel, buffer)[0], result);
        }
    }
}

/// Puts the terms of one of `count` rows where the inner loop reads them.
#[inline(always)]
fn interleave<N: Number>(terms: &[N], count: usize, index: usize, out: &mut [N]) {
    let mut steps = out.chunks_exact_mut(count * N::STEP);
    let whole = terms.chunks_exact(N::STEP);
    let rest = whole.remainder();
    for (from, to) in whole.zip(&mut steps) {
        to[index * N::STEP..][..N::STEP].copy_from_slice(from);
    }
    if let Some(to) = steps.next() {
        to[index * N::STEP..][..rest.len()].copy_from_slice(rest);
    }
}

#[inline(always)]
fn add(sums: &[f32; PANEL], result: &mut [f32]) {
    // A panel of known width stays in registers.
    match result.first_chunk_mut::<PANEL>() {
        Some(result) => result.iter_mut().zip(sums).for_each(|(result, sum)| *result += sum),
        None => result.iter_mut().zip(sums).for_each(|(result, sum)| *result += sum),
    }
}
