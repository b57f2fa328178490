//! The last layer behind the cut, in the precision of scoring.

use std::hint::black_box;

use ndarray::{Array1, ArrayView2, ArrayViewMut2};

use super::clip::CentredClip;
use crate::Real;
use crate::io::Head;
use crate::numeric::product::weights::Weights;
use crate::numeric::vector::dispatch;
use crate::numeric::vector::{contiguous, contiguous_mut};

/// Classes whose logits are corrected together: few enough that their weights for all channels of a wide
/// network stay in the second cache.
const TILE: usize = 32;
/// Bytes that memory hands out together.
const LINE: usize = 64;
/// Channels that are looked at together.
const GLANCE: usize = 8;

/// Weights of a tile's classes for one channel; cache lines begin where they do.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))] // LINE bytes
struct Column<T>([T; TILE]);

/// Logits of rows whose far activations are cut.
#[derive(Debug, Clone)]
pub(super) struct CutHead<T> {
    weights: Weights<T>,
    /// For each tile of classes, their weights channel by channel: a cut changes the logits by
    /// multiples of few of them. Filled up with zeros.
    columns: Vec<Column<T>>,
    bias: Array1<T>,
    centre: Array1<T>,
    reach: T,
}

/// What is cut off rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Cuts<T> {
    /// Channels and by how much they are cut, row by row.
    cuts: Vec<(u32, T)>,
    /// Where each row's end.
    ends: Vec<usize>,
}

impl<T: Real> Cuts<T> {
    /// Adds what is cut off channels from `first` on. Not inlined: it would be mixed with the look at
    /// all of them, which is the faster without.
    #[inline(never)]
    fn add(&mut self, first: usize, values: &[T], centres: &[T], reach: T) {
        for (channel, (&value, &centre)) in (first as u32..).zip(values.iter().zip(centres)) {
            let excess = excess(value - centre, reach);
            if excess != T::default() {
                self.cuts.push((channel, excess));
            }
        }
    }
}

impl<T: Real> CutHead<T> {
    pub(super) fn new(head: &Head, clip: &CentredClip) -> Self {
        let weight = head.weight.mapv(T::from_double);
        let (classes, width) = weight.dim();
        let mut columns = vec![Column([T::default(); TILE]); classes.div_ceil(TILE) * width];
        for ((class, channel), &value) in weight.indexed_iter() {
            columns[class / TILE * width + channel].0[class % TILE] = value;
        }
        CutHead {
            columns,
            weights: Weights::new(weight),
            bias: head.bias.mapv(T::from_double),
            centre: clip.centre.mapv(T::from_double),
            reach: T::from_double(clip.reach),
        }
    }

    pub(super) fn classes(&self) -> usize {
        self.bias.len()
    }

    /// Logits of the rows after the cut, from themselves; the rows are cut in place.
    pub(super) fn logits(&self, mut rows: ArrayViewMut2<'_, T>, mut out: ArrayViewMut2<'_, T>) {
        for mut row in rows.rows_mut() {
            for (value, &centre) in contiguous_mut(&mut row).iter_mut().zip(&self.centre) {
                *value -= excess(*value - centre, self.reach);
            }
        }
        self.weights.product(rows.view(), out.view_mut());
        out += &self.bias;
    }

    /// Adds what is cut off these rows.
    pub(super) fn collect(&self, rows: ArrayView2<'_, T>, cuts: &mut Cuts<T>) {
        let (centres, last_centres) = self.centre_in_glances();
        let reach = self.reach;
        for row in rows.rows() {
            let (glances, last) = contiguous(&row).as_chunks::<GLANCE>();
            dispatch(
                #[inline(always)]
                || {
                    for (index, (values, centres)) in glances.iter().zip(centres).enumerate() {
                        // Nearly all channels are within reach: one look at several passes them by.
                        let beyond = |i: usize| (values[i] - centres[i]).magnitude() > reach;
                        if (0..GLANCE).fold(0, |any, i| any | u32::from(beyond(i))) != 0 {
                            cuts.add(index * GLANCE, values, centres, reach);
                        }
                    }
                },
            );
            cuts.add(glances.len() * GLANCE, last, last_centres, reach);
            cuts.ends.push(cuts.cuts.len());
        }
    }

    fn centre_in_glances(&self) -> (&[[T; GLANCE]], &[T]) {
        contiguous(&self.centre).as_chunks()
    }

    /// Logits of rows after the cuts, from those before. Most activations are within reach, so this is
    /// much less work than all logits anew.
    pub(super) fn correct(&self, cuts: &Cuts<T>, mut logits: ArrayViewMut2<'_, T>) {
        let classes = self.classes();
        let logits = logits.as_slice_mut().unwrap_or_else(|| unreachable!("logits are row-major"));
        dispatch(
            #[inline(always)]
            || {
                let tiles = self.columns.chunks_exact(self.centre.len().max(1));
                for (columns, start) in tiles.zip((0..).step_by(TILE)) {
                    // Few rows need few of the columns.
                    if cuts.cuts.len() >= columns.len() / 2 {
                        fetch(columns);
                    }
                    let mut from = 0;
                    for (row, &end) in logits.chunks_exact_mut(classes).zip(&cuts.ends) {
                        let logits = &mut row[start..];
                        let cuts = &cuts.cuts[from..end];
                        from = end;
                        match logits.first_chunk_mut::<TILE>() {
                            Some(logits) => subtract(logits, cuts, columns),
                            None => {
                                let mut padded = [T::default(); TILE];
                                padded[..logits.len()].copy_from_slice(logits);
                                subtract(&mut padded, cuts, columns);
                                logits.copy_from_slice(&padded[..logits.len()]);
                            }
                        }
                    }
                }
            },
        );
    }
}

/// Reads the columns in the order in which they are stored, which the processor foresees. Rows need them
/// in an order that it cannot foresee, and would wait for memory once for each.
#[inline(always)]
fn fetch<T: Real>(columns: &[Column<T>]) {
    let step = LINE / size_of::<T>();
    let mut sum = T::default();
    for Column(column) in columns {
        sum += (0..TILE).step_by(step).map(|i| column[i]).fold(T::default(), |a, b| a + b);
    }
    black_box(sum);
}

#[inline(always)]
fn subtract<T: Real>(logits: &mut [T; TILE], cuts: &[(u32, T)], columns: &[Column<T>]) {
    // Stays in registers until all cuts are done.
    let mut sums = *logits;
    for &(channel, excess) in cuts {
        let Column(column) = &columns[channel as usize];
        for (sum, &weight) in sums.iter_mut().zip(column) {
            *sum = (-excess).fused(weight, *sum);
        }
    }
    *logits = sums;
}

/// What the cut takes from an activation so far from its centre.
#[inline(always)]
fn excess<T: Real>(distance: T, reach: T) -> T {
    if distance > reach {
        distance - reach
    } else if distance < -reach {
        distance + reach
    } else {
        T::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;

    #[test]
    fn what_is_cut_has_the_side_of_the_activation() {
        let excesses = [4.0, 2.0, 0.0, -2.0, -5.0].map(|distance| excess(distance, 2.0));
        assert_eq!(excesses, [2.0, 0.0, 0.0, 0.0, -3.0]);
    }

    #[test]
    fn corrected_logits_are_those_of_cut_rows() {
        for (classes, width) in [(5, 40), (70, 21), (64, 16), (1, 1)] {
            let wave =
                |a: usize, b: usize, (i, j): (usize, usize)| ((i * a + j * b) % 17) as f64 - 8.0;
            let weight = Array2::from_shape_fn((classes, width), |at| wave(7, 3, at));
            let head = Head::new(weight, Array1::linspace(-1.0, 1.0, classes)).unwrap();
            let clip = CentredClip { centre: Array1::linspace(-2.0, 2.0, width), reach: 4.0 };
            let rows = Array2::from_shape_fn((9, width), |at| wave(13, 5, at));
            let bounded = Array2::from_shape_fn((9, width), |(i, j)| {
                rows[[i, j]].clamp(clip.centre[j] - clip.reach, clip.centre[j] + clip.reach)
            });
            assert_ne!(rows, bounded);
            let logits = |rows: &Array2<f64>| rows.dot(&head.weight.t()) + &head.bias;
            let (whole, expected) = (logits(&rows), logits(&bounded));
            check::<f64>(&CutHead::new(&head, &clip), &rows, &whole, &expected, 1e-12);
            check::<f32>(&CutHead::new(&head, &clip), &rows, &whole, &expected, 1e-3);
        }
    }

    fn check<T: Real>(
        cut: &CutHead<T>,
        rows: &Array2<f64>,
        whole: &Array2<f64>,
        expected: &Array2<f64>,
        tolerance: f64,
    ) {
        let mut rows = rows.mapv(T::from_double);
        let mut corrected = whole.mapv(T::from_double);
        let mut cuts = Cuts::default();
        cut.collect(rows.view(), &mut cuts);
        cut.correct(&cuts, corrected.view_mut());
        let mut anew = Array2::from_elem(whole.dim(), T::default());
        cut.logits(rows.view_mut(), anew.view_mut());
        for logits in [corrected, anew] {
            let errors = logits.mapv(T::to_double) - expected;
            let error = errors.iter().fold(0.0, |most: f64, e| most.max(e.abs()));
            assert!(error < tolerance, "{error}");
        }
    }
}
