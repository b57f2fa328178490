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

/// Columns of the result that one vector of the widest kind holds.
pub(crate) const PANEL: usize = 16;
/// With fewer rows than this, threads share the panels instead of the rows.
const FEW_ROWS: usize = 8;
/// Panels per task then.
const PANELS_PER_TASK: usize = 32;
/// Bytes of a matrix from which on that pays: reading fewer takes no longer than to wake a thread.
const SHARED_BYTES: usize = 1 << 20;

/// What is multiplied.
pub(crate) trait Number: Copy + Default + PartialEq + Send + Sync + 'static {
    /// Terms of a block: a panel's block stays in the first cache while all rows pass.
    const DEPTH: usize;
    /// Terms that one instruction takes together.
    const STEP: usize;

    /// Runs work with the inner loops for the instructions in use.
    fn with_kernel(work: impl WithKernel<Self>);
}

/// Work that is compiled for each kind of inner loop.
pub(crate) trait WithKernel<N> {
    fn run<K: Kernel<N>>(self, kernel: K);
}

/// The sums of some rows against some panels.
pub(crate) trait Sums {
    fn put(&mut self, row: usize, panel: usize, sums: &[f32; PANEL]);
}

/// Hands out the sums of a whole tile. Loops, not closures: one that is not inlined would be compiled without
/// the instructions of its surroundings.
#[inline(always)]
pub(super) fn put_all<const ROWS: usize, const PANELS: usize>(
    sums: &[[[f32; PANEL]; PANELS]; ROWS],
    out: &mut impl Sums,
) {
    for (row, sums) in sums.iter().enumerate() {
        for (panel, sums) in sums.iter().enumerate() {
            out.put(row, panel, sums);
        }
    }
}

/// The inner loop over one block, for one set of instructions. All give the same bits.
pub(crate) trait Kernel<N>: Copy + Sync {
    /// Panels that a group of rows runs along at once.
    const PANELS: usize;
    /// Panels that one row runs along at once, to have enough independent chains.
    const PANELS_OF_ONE_ROW: usize = 4;

    /// Lets the compiler use the instructions.
    fn vectorize(self, work: impl FnOnce());

    /// How many rows the loop takes where so many are left: the numbers that [`Kernel::sums`] knows.
    fn group(left: usize) -> usize;

    /// Sums over the terms of a block: of a group of rows, whose terms lie side by side, against one
    /// panel or [`Kernel::PANELS`], or of one row against [`Kernel::PANELS_OF_ONE_ROW`].
    fn sums(self, rows: usize, terms: &[N], panels: &[&[N]], out: &mut impl Sums);
}

/// A matrix B of one row per column of the result x·Bᵀ.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Packed<N> {
    rows: usize,
    depth: usize,
    /// `[block of terms][panel][step][column][term of the step]`, filled up with zeros.
    numbers: Vec<N>,
    /// Steps at the start of each block of each panel in which all numbers are zero: what they would
    /// add is nothing, and they are not read.
    empty: Vec<usize>,
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
        let mut packed = Packed { rows, depth, numbers, empty: Vec::new() };
        packed.empty = packed.blocks().flat_map(|block| block.empty_steps()).collect();
        packed
    }

    fn blocks(&self) -> impl Iterator<Item = Block<'_, N>> {
        let width = self.rows.next_multiple_of(PANEL);
        (0..self.depth).step_by(N::DEPTH).enumerate().map(move |(index, start)| {
            let terms = N::DEPTH.min(self.depth - start);
            let padded = terms.next_multiple_of(N::STEP);
            let panels = width / PANEL;
            Block {
                start,
                terms,
                padded,
                numbers: &self.numbers[width * start..][..width * padded],
                empty: self.empty.get(index * panels..(index + 1) * panels).unwrap_or_default(),
            }
        })
    }

    /// out = x·Bᵀ; both row-major. Many rows on the calling thread, few rows on all threads.
    pub(crate) fn product(&self, x: &[N], out: &mut [f32]) {
        let few = self.depth > 0 && x.len() / self.depth < FEW_ROWS;
        let worth_it = size_of_val(&self.numbers[..]) >= SHARED_BYTES;
        if few && worth_it && self.rows > PANEL * PANELS_PER_TASK {
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
        N::with_kernel(Panels { packed: self, first, rows, results });
    }
}

/// Rows against some of the panels.
struct Panels<'a, 'r, N> {
    packed: &'a Packed<N>,
    first: usize,
    rows: &'a [&'a [N]],
    results: &'a mut [&'r mut [f32]],
}

impl<N: Number> WithKernel<N> for Panels<'_, '_, N> {
    fn run<K: Kernel<N>>(self, kernel: K) {
        let Panels { packed, first, rows, results } = self;
        let Some(width) = results.first().map(|result| result.len()) else { return };
        kernel.vectorize(
            #[inline(always)]
            || {
                let panels = first..first + width.div_ceil(PANEL);
                let mut terms = Vec::new();
                for block in packed.blocks() {
                    block.gather::<K>(rows, &mut terms);
                    let together = if rows.len() == 1 { K::PANELS_OF_ONE_ROW } else { K::PANELS };
                    let mut next = panels.start;
                    while next < panels.end {
                        let count = if next + together <= panels.end { together } else { 1 };
                        let column = (next - first) * PANEL;
                        block.add_to(kernel, next..next + count, &terms, results, column);
                        next += count;
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
    /// Per panel.
    empty: &'a [usize],
}

/// Panels that an inner loop takes at most.
const MOST_PANELS: usize = 4;

impl<'a, N: Number> Block<'a, N> {
    fn panel(&self, index: usize) -> &'a [N] {
        let size = PANEL * self.padded;
        &self.numbers[index * size..][..size]
    }

    /// Of each panel.
    fn empty_steps(&self) -> Vec<usize> {
        let count = self.numbers.len() / (PANEL * self.padded).max(1);
        let steps = |panel: usize| {
            let mut steps = self.panel(panel).chunks_exact(PANEL * N::STEP);
            let full = steps.position(|step| step.iter().any(|x| *x != N::default()));
            full.unwrap_or(self.padded / N::STEP)
        };
        (0..count).map(steps).collect()
    }

    /// Terms of the rows in the order in which the inner loop reads them: group by group, step by
    /// step; the last group is filled up with zeros.
    #[inline(always)]
    fn gather<K: Kernel<N>>(&self, rows: &[&[N]], terms: &mut Vec<N>) {
        terms.clear();
        let mut left = rows;
        while !left.is_empty() {
            let group = if rows.len() == 1 { 1 } else { K::group(left.len()) };
            let (now, later) = left.split_at(group.min(left.len()));
            let begin = terms.len();
            terms.resize(begin + group * self.padded, N::default());
            for (i, row) in now.iter().enumerate() {
                let from = &row[self.start..][..self.terms];
                interleave::<N>(from, group, i, &mut terms[begin..]);
            }
            left = later;
        }
    }

    /// Some panels, all rows.
    #[inline(always)]
    fn add_to<K: Kernel<N>>(
        &self,
        kernel: K,
        panels: std::ops::Range<usize>,
        mut terms: &[N],
        results: &mut [&mut [f32]],
        column: usize,
    ) {
        let Some(empty) = self.empty[panels.clone()].iter().min() else { return };
        let steps = self.padded / N::STEP - empty;
        if steps == 0 {
            return;
        }
        let mut views = [&self.numbers[..0]; MOST_PANELS];
        let views = &mut views[..panels.len()];
        for (view, index) in views.iter_mut().zip(panels) {
            *view = &self.panel(index)[empty * PANEL * N::STEP..];
        }
        let alone = results.len() == 1;
        let mut left = &mut results[..];
        while !left.is_empty() {
            let group = if alone { 1 } else { K::group(left.len()) };
            let (now, later) = left.split_at_mut(group.min(left.len()));
            let (own, others) = terms.split_at(group * self.padded);
            let mut sums = AddTo { results: now, column };
            kernel.sums(group, &own[empty * group * N::STEP..], views, &mut sums);
            (left, terms) = (later, others);
        }
    }
}

/// Sums that are added to rows of the result, from a column on.
struct AddTo<'a, 'r> {
    results: &'a mut [&'r mut [f32]],
    column: usize,
}

impl Sums for AddTo<'_, '_> {
    #[inline(always)]
    fn put(&mut self, row: usize, panel: usize, sums: &[f32; PANEL]) {
        // Rows that only fill up a group have no result.
        let Some(result) = self.results.get_mut(row) else { return };
        let result = &mut result[self.column + panel * PANEL..];
        // A panel of known width stays in registers.
        match result.first_chunk_mut::<PANEL>() {
            Some(result) => {
                // A copy: the compiler cannot see that the two do not overlap.
                let mut all = *result;
                add(&mut all, sums);
                *result = all;
            }
            None => add(result, sums),
        }
    }
}

/// A plain loop: a closure that is not inlined would not have the instructions of its surroundings.
#[inline(always)]
fn add(to: &mut [f32], sums: &[f32; PANEL]) {
    for (to, sum) in to.iter_mut().zip(sums) {
        *to += sum;
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
