//! The last layer behind the cut, in the precision of scoring.

use ndarray::{Array1, ArrayView2, ArrayViewMut2};

use super::clip::CentredClip;
use crate::Real;
use crate::io::Head;
use crate::kernel::{contiguous_row, contiguous_row_mut};
use crate::packed::Weights;
use crate::vector::{LANES, dispatch};

/// Classes whose weights are stored together.
const TILE: usize = 64;

/// Logits of rows whose far activations are cut.
#[derive(Debug, Clone)]
pub(super) struct CutHead<T> {
    weights: Weights<T>,
    /// For each tile of classes, their weights channel by channel: a cut changes the logits by
    /// multiples of few of them. Filled up with zeros.
    columns: Vec<[T; TILE]>,
    bias: Array1<T>,
    centre: Array1<T>,
    reach: T,
}

/// An activation that is cut, and by how much.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut<T> {
    channel: usize,
    row: usize,
    excess: T,
}

impl<T: Real> CutHead<T> {
    pub(super) fn new(head: &Head, clip: &CentredClip) -> Self {
        let weight = head.weight.mapv(T::from_double);
        let (classes, width) = weight.dim();
        let mut columns = vec![[T::default(); TILE]; classes.div_ceil(TILE) * width];
        for ((class, channel), &value) in weight.indexed_iter() {
            columns[class / TILE * width + channel][class % TILE] = value;
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
            for (value, &centre) in contiguous_row_mut(&mut row).iter_mut().zip(&self.centre) {
                *value -= excess(*value - centre, self.reach);
            }
        }
        self.weights.product(rows.view(), out.view_mut());
        out += &self.bias;
    }

    /// Collects what is cut off rows, of which the first has this number.
    pub(super) fn collect(&self, rows: ArrayView2<'_, T>, first: usize, cuts: &mut Vec<Cut<T>>) {
        let centre = self.centre.as_slice().unwrap_or_default();
        for (row, values) in (first..).zip(rows.rows()) {
            let values = contiguous_row(&values);
            dispatch(
                #[inline(always)]
                || {
                    let blocks = values.chunks(LANES).zip(centre.chunks(LANES));
                    for (start, (values, centres)) in (0..).step_by(LANES).zip(blocks) {
                        // Nearly all channels are within reach: one look at several passes them by.
                        let beyond =
                            |value: T, centre: T| (value - centre).magnitude() > self.reach;
                        let pairs = || values.iter().zip(centres);
                        if !pairs()
                            .fold(false, |any, (&value, &centre)| any | beyond(value, centre))
                        {
                            continue;
                        }
                        for (channel, (&value, &centre)) in (start..).zip(pairs()) {
                            if beyond(value, centre) {
                                let excess = excess(value - centre, self.reach);
                                cuts.push(Cut { channel, row, excess });
                            }
                        }
                    }
                },
            );
        }
    }

    /// Logits of rows after the cuts, from those before. Most activations are within reach, so this is
    /// much less work than all logits anew.
    pub(super) fn correct(&self, cuts: &[Cut<T>], mut logits: ArrayViewMut2<'_, T>) {
        // Rows that are cut in the same channel share its column, and columns are read in the order in
        // which they are stored.
        let cuts = by_channel(cuts, self.centre.len());
        let classes = self.classes();
        let logits = logits.as_slice_mut().unwrap_or_else(|| unreachable!("logits are row-major"));
        dispatch(
            #[inline(always)]
            || {
                let tiles = self.columns.chunks_exact(self.centre.len().max(1));
                for (columns, start) in tiles.zip((0..).step_by(TILE)) {
                    for &Cut { channel, row, excess } in &cuts {
                        let logits = &mut logits[row * classes..][..classes][start..];
                        let column = &columns[channel];
                        match logits.first_chunk_mut::<TILE>() {
                            Some(logits) => subtract(logits, excess, column),
                            None => subtract(logits, excess, column),
                        }
                    }
                }
            },
        );
    }
}

/// The cuts in the order of their channels, otherwise as they were.
fn by_channel<T: Real>(cuts: &[Cut<T>], channels: usize) -> Vec<Cut<T>> {
    let mut next = vec![0; channels + 1];
    cuts.iter().for_each(|cut| next[cut.channel + 1] += 1);
    for channel in 1..next.len() {
        next[channel] += next[channel - 1];
    }
    let mut sorted = cuts.to_vec();
    for &cut in cuts {
        sorted[next[cut.channel]] = cut;
        next[cut.channel] += 1;
    }
    sorted
}

#[inline(always)]
fn subtract<T: Real>(logits: &mut [T], excess: T, column: &[T; TILE]) {
    for (logit, &weight) in logits.iter_mut().zip(column) {
        *logit = (-excess).fused(weight, *logit);
    }
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
        let mut cuts = Vec::new();
        cut.collect(rows.view(), 0, &mut cuts);
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
