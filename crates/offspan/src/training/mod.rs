//! What a fit works on, and its walk over the training rows.

pub(crate) mod agreement;
mod checkpointing;
pub(crate) mod holdout;
pub(crate) mod landmarks;
pub(crate) mod logits;
pub(crate) mod part;
pub(crate) mod passes;
mod pseudo_labels;
pub(crate) mod quantiles;
pub(crate) mod statistics;
pub(crate) mod sums;

pub use checkpointing::Checkpointing;
pub use holdout::HoldOut;
pub(crate) use passes::{Passes, WorkedOut};
pub use pseudo_labels::{pseudo_labels, with_pseudo_labels};

use std::ops::Range;
use std::sync::Arc;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::in_order;
use crate::error::wording::Data;
use crate::io::observer::{Observer, check_interrupt};
use crate::io::{Dataset, Head, Labels, read_finite};
use crate::numeric::random::mix;
use crate::numeric::vector::contiguous;
use crate::{Error, Real, Result};

/// Rows that one task reads.
pub(crate) const BLOCK: usize = 256;

/// Numbers in a chunk's widest array; the chunk's rows follow from it, so memory does not grow with
/// the width.
const CHUNK_NUMBERS: usize = 1 << 22;

/// What a fit works on.
#[derive(Clone, Copy)]
pub(crate) struct Training<'a> {
    pub(crate) data: &'a Dataset<'a>,
    pub(crate) head: Option<&'a Head>,
    pub(crate) hold_out: HoldOut,
    pub(crate) checkpoint: Option<&'a Checkpointing>,
    pub(crate) observer: &'a dyn Observer,
    /// First row at hand, and the one after the last.
    pub(crate) span: (usize, usize),
    /// What others find on rows that are not at hand, if they are not.
    pub(crate) passes: Option<&'a Passes>,
}

/// A fitted model and what identifies its training rows.
pub(crate) struct Fitted<M> {
    pub(crate) model: M,
    pub(crate) rows: u64,
    pub(crate) fingerprint: u64,
}

impl<M> Fitted<M> {
    /// The same fit with the model wrapped.
    pub(crate) fn map<N>(self, wrap: impl FnOnce(M) -> N) -> Fitted<N> {
        Fitted { model: wrap(self.model), rows: self.rows, fingerprint: self.fingerprint }
    }
}

impl<'a> Training<'a> {
    /// A fit with all rows at hand, none of them held out, which saves nothing.
    pub(crate) fn new(
        data: &'a Dataset<'a>,
        head: Option<&'a Head>,
        observer: &'a dyn Observer,
    ) -> Self {
        let span = (0, data.rows());
        let (hold_out, checkpoint) = (HoldOut::NONE, None);
        Training { data, head, hold_out, checkpoint, observer, span, passes: None }
    }

    /// The same fit with these rows at hand, and passes for the others.
    pub(crate) fn with_passes(self, at_hand: Range<usize>, passes: &'a Passes) -> Self {
        Training { span: (at_hand.start, at_hand.end), passes: Some(passes), ..self }
    }

    /// The same fit on these rows, which are all at hand.
    pub(crate) fn brought<'b>(&self, data: &'b Dataset<'b>) -> Training<'b>
    where
        'a: 'b,
    {
        Training { data, passes: None, span: (0, data.rows()), ..*self }
    }

    /// The rows that can be read.
    pub(crate) fn at_hand(&self) -> Range<usize> {
        self.span.0..self.span.1
    }

    /// Number of rows used in the fit.
    pub(crate) fn rows(&self) -> Result<usize> {
        if self.hold_out == HoldOut::NONE {
            return Ok(self.data.rows());
        }
        Ok(self.settled_rows(|| Ok(vec![self.count_kept(&self.held_out())]))?[0])
    }

    /// The rows that are not used in the fit, ascending. Those of a threshold are never many.
    pub(crate) fn held_out(&self) -> Arc<[usize]> {
        let rows = self.data.rows();
        match self.passes {
            None => self.hold_out.held_out(rows).collect(),
            Some(passes) => passes.held_out(self.hold_out, rows),
        }
    }

    fn count_kept(&self, held_out: &[usize]) -> usize {
        self.data.rows() - held_out.len()
    }

    /// The rows used in the fit.
    pub(crate) fn kept_rows(&self) -> impl Iterator<Item = usize> + use<'a> {
        let hold_out = self.hold_out;
        (0..self.data.rows()).filter(move |&row| hold_out.keeps(row))
    }

    /// All rows used in the fit, for fits that read them again and again.
    pub(crate) fn kept(&self) -> Vec<usize> {
        self.kept_rows().collect()
    }

    /// About this many rows of the fit at most, evenly spread.
    pub(crate) fn spread(&self, most: usize) -> Result<Vec<usize>> {
        self.settled_rows(|| {
            let held_out = self.held_out();
            let kept = self.count_kept(&held_out);
            let step = kept.div_ceil(most).max(1);
            Ok(holdout::at_ranks(&held_out, (0..kept).step_by(step)).collect())
        })
    }

    /// A seeded uniform sample of the rows of the fit, or all if there are fewer; ascending.
    pub(crate) fn sample(&self, count: usize, seed: u64) -> Result<Vec<usize>> {
        self.settled_rows(|| {
            let held_out = self.held_out();
            let count = count.min(self.count_kept(&held_out));
            landmarks::uniform(count, self.data.rows(), &held_out, seed)
        })
    }

    /// The same fit on rows that something has changed.
    pub(crate) fn on<'b>(&self, data: &'b Dataset<'b>) -> Training<'b>
    where
        'a: 'b,
    {
        Training { data, ..*self }
    }

    /// Class labels, or a sentence that tells how to give them.
    pub(crate) fn labels(&self, who: &str) -> Result<&'a Labels> {
        self.data.labels.as_ref().ok_or_else(|| Error::MissingInput {
            who: format!("{who} on {}", self.data.name),
            what: "labels",
            hint: format!(
                "store each row's class as whole numbers `labels` beside `features`, or give them \
                 with {}",
                Data("labels")
            ),
        })
    }

    /// The last layer, or a sentence that tells how to give it.
    pub(crate) fn head(&self, who: &str) -> Result<&'a Head> {
        let head = self.head.ok_or_else(|| Error::MissingInput {
            who: format!("{who} on {}", self.data.name),
            what: "the network's last layer",
            hint: format!(
                "give its `weight` and `bias` in head.safetensors of the pack or with {}",
                Data("head")
            ),
        })?;
        head.check_width(self.data.width())?;
        Ok(head)
    }

    /// Shows `visit` the rows of the fit that are at hand, in chunks: their numbers and, in double
    /// precision, their features. Chunks depend on the shapes alone. Returns the rows' fingerprint.
    pub(crate) fn for_each_chunk(
        &self,
        stage: &str,
        mut visit: impl FnMut(&[usize], ArrayView2<'_, f64>) -> Result<()>,
    ) -> Result<u64> {
        let (data, observer) = (self.data, self.observer);
        let chunk = chunk_rows(data.width());
        let all = self.at_hand();
        observer.begin(stage, all.len() as u64);
        let mut features = Array2::<f64>::zeros((chunk.min(all.len()), data.width()));
        let mut fingerprint = 0u64;
        for start in all.clone().step_by(chunk) {
            check_interrupt(observer)?;
            let range = start..(start + chunk).min(all.end);
            data.features.prefetch(range.end..(range.end + chunk).min(all.end));
            let kept: Vec<usize> = range.clone().filter(|&row| self.hold_out.keeps(row)).collect();
            let mut part = features.slice_mut(s![..kept.len(), ..]);
            let hashes = part
                .axis_chunks_iter_mut(Axis(0), BLOCK)
                .into_par_iter()
                .zip(kept.par_chunks(BLOCK))
                .map(|(block, rows)| read_rows(data, rows, block))
                .collect();
            fingerprint = fingerprint.wrapping_add(joined(in_order(hashes)?));
            visit(&kept, part.view())?;
            observer.advance(range.len() as u64);
        }
        Ok(fingerprint)
    }
}

impl Training<'_> {
    /// Shows `visit` the logits of the rows of the fit that are at hand, in chunks, with the rows' numbers.
    pub(crate) fn for_each_logits(
        &self,
        stage: &str,
        source: &logits::LogitSource<'_>,
        mut visit: impl FnMut(&[usize], ArrayView2<'_, f64>) -> Result<()>,
    ) -> Result<()> {
        let all = self.at_hand();
        self.observer.begin(stage, all.len() as u64);
        let chunk = chunk_rows(self.data.width().max(source.classes()));
        for start in all.clone().step_by(chunk) {
            check_interrupt(self.observer)?;
            let range = start..(start + chunk).min(all.end);
            let kept: Vec<usize> = range.clone().filter(|&row| self.hold_out.keeps(row)).collect();
            let blocks = kept.par_chunks(BLOCK).map(|rows| source.gather(rows)).collect();
            for (rows, logits) in kept.chunks(BLOCK).zip(in_order(blocks)?) {
                visit(rows, logits.view())?;
            }
            self.observer.advance(range.len() as u64);
        }
        Ok(())
    }
}

/// Rows of a chunk whose widest array has this many columns.
pub(crate) fn chunk_rows(width: usize) -> usize {
    let rows = (CHUNK_NUMBERS / width.max(1)).clamp(BLOCK, 8192);
    rows - rows % BLOCK
}

/// Reads rows (ascending numbers) and returns the hash of what was read.
pub(crate) fn read_rows<T: Real>(
    data: &Dataset<'_>,
    rows: &[usize],
    mut out: ArrayViewMut2<'_, T>,
) -> Result<u64> {
    for (part, done) in runs(rows) {
        let part_of = out.slice_mut(s![done..done + part.len(), ..]);
        read_finite(&*data.features, part.start, part_of)?;
    }
    let hash = |(row, &number): (ndarray::ArrayView1<'_, T>, &usize)| {
        mix(xxh3_64(bytemuck::cast_slice(contiguous(&row))) ^ mix(number as u64))
    };
    Ok(joined(out.rows().into_iter().zip(rows).map(hash)))
}

/// Runs of consecutive numbers, each with how many numbers come before it.
pub(crate) fn runs(rows: &[usize]) -> impl Iterator<Item = (Range<usize>, usize)> {
    let mut done = 0;
    rows.chunk_by(|a, b| a + 1 == *b).map(move |run| {
        let before = done;
        done += run.len();
        (run[0]..run[0] + run.len(), before)
    })
}

/// The hash of rows from those of some of them each. A row's hash has its number in it, so their sum tells
/// of the order, and does not depend on how the rows were divided.
pub(crate) fn joined(hashes: impl IntoIterator<Item = u64>) -> u64 {
    hashes.into_iter().fold(0, u64::wrapping_add)
}
