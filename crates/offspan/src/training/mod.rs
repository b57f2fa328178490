//! What a fit works on, and its walk over the training rows.

mod checkpointing;
mod holdout;
pub(crate) mod landmarks;
pub(crate) mod logits;
pub(crate) mod quantiles;
pub(crate) mod statistics;

pub use checkpointing::Checkpointing;
pub use holdout::HoldOut;

use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::in_order;
use crate::error::wording::Data;
use crate::io::observer::{Observer, check_interrupt};
use crate::io::{Dataset, Head, Labels, read_finite};
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
    /// Number of rows used in the fit.
    pub(crate) fn rows(&self) -> usize {
        (0..self.data.rows()).filter(|&row| self.hold_out.keeps(row)).count()
    }

    /// The rows used in the fit.
    pub(crate) fn kept(&self) -> Vec<usize> {
        (0..self.data.rows()).filter(|&row| self.hold_out.keeps(row)).collect()
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

    /// Shows `visit` the rows of the fit in chunks: their numbers and, in double precision, their
    /// features. Chunks depend on the shapes alone. Returns the rows' fingerprint.
    pub(crate) fn for_each_chunk(
        &self,
        stage: &str,
        mut visit: impl FnMut(&[usize], ArrayView2<'_, f64>) -> Result<()>,
    ) -> Result<u64> {
        let (data, observer) = (self.data, self.observer);
        let chunk = chunk_rows(data.width());
        observer.begin(stage, data.rows() as u64);
        let mut features = Array2::<f64>::zeros((chunk.min(data.rows()), data.width()));
        let mut fingerprint = 0;
        for start in (0..data.rows()).step_by(chunk) {
            check_interrupt(observer)?;
            let range = start..(start + chunk).min(data.rows());
            data.features.prefetch(range.end..(range.end + chunk).min(data.rows()));
            let kept: Vec<usize> = range.clone().filter(|&row| self.hold_out.keeps(row)).collect();
            let mut part = features.slice_mut(s![..kept.len(), ..]);
            let hashes = part
                .axis_chunks_iter_mut(Axis(0), BLOCK)
                .into_par_iter()
                .zip(kept.par_chunks(BLOCK))
                .map(|(block, rows)| read_rows(data, rows, block))
                .collect();
            fingerprint = chain(fingerprint, &in_order(hashes)?);
            visit(&kept, part.view())?;
            observer.advance(range.len() as u64);
        }
        Ok(fingerprint)
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
    Ok(xxh3_64(bytemuck::cast_slice(contiguous(&out))))
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

/// Extends a hash by others, in order.
pub(crate) fn chain(hash: u64, next: &[u64]) -> u64 {
    let mut all = vec![hash];
    all.extend(next);
    xxh3_64(bytemuck::cast_slice(&all))
}
