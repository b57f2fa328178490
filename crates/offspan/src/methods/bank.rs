//! A bank of unit training rows, and its nearest rows to a query by blocked products.
//!
//! Queries meet the bank tile by tile, and only the best of each query are kept, so no matrix of
//! queries × rows exists.

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, s};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::model::{Found, Stored};
use super::option::{Given, OptionInfo, OptionValue, option};
use crate::error::in_order;
use crate::io::observer::check_interrupt;
use crate::numeric::random::{Random, Stream};
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::span::preprocess::normalise;
use crate::training::{BLOCK, Fitted, Training, joined, read_rows};
use crate::{Error, Result};

/// Rows of the bank that a block of queries meets at a time.
pub(super) const TILE: usize = 1024;

pub(super) const NEIGHBOURS: OptionInfo = option("neighbours", "K", "Nearest neighbours");
pub(super) const BANK: OptionInfo =
    option("bank", "SHARE", "Share of the training rows that the bank of neighbours holds");

/// Unit training rows.
#[derive(Debug, Clone)]
pub(super) struct Bank(pub(super) Array2<f32>);

/// How many of the training rows a bank holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BankSize {
    /// This share of them.
    Share(f64),
    /// One in a hundred, but at least 10,000 of them: the published setting of NNGuide at
    /// the size of ImageNet, and a bank that covers the classes of smaller sets.
    OnePercent,
}

/// A bank of this many rows is never too large.
pub(super) const SMALL_BANK: usize = 10_000;

impl BankSize {
    pub(super) fn check(self) -> Result<()> {
        match self {
            BankSize::Share(share) if !(share > 0.0 && share <= 1.0) => {
                Err(Error::parameter("bank", "a share of the training rows in (0, 1]", share))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn rows(self, of: usize) -> usize {
        match self {
            BankSize::Share(share) => (share * of as f64).round() as usize,
            BankSize::OnePercent => of.div_ceil(100).max(SMALL_BANK).min(of),
        }
    }
}

impl OptionValue for BankSize {
    fn set(&mut self, given: &Given) -> Result<(), String> {
        let mut share = 0.0;
        OptionValue::set(&mut share, given)?;
        *self = BankSize::Share(share);
        Ok(())
    }

    fn text(&self) -> Option<String> {
        match self {
            BankSize::Share(share) => share.text(),
            BankSize::OnePercent => Some("0.01, but at least 10,000 rows".to_owned()),
        }
    }
}

/// The rows of a bank of this size: a seeded uniform sample of the training rows.
pub(super) fn bank_rows(
    size: BankSize,
    neighbours: usize,
    seed: u64,
    training: &Training<'_>,
) -> Result<Vec<usize>> {
    let kept = training.kept();
    let count = size.rows(kept.len());
    // A small share of few rows still has to hold the neighbours.
    let count = if neighbours <= kept.len() { count.max(neighbours) } else { count };
    if neighbours == 0 || neighbours > count {
        return Err(Error::parameter(
            "neighbours",
            format!("from 1 to {}, the training rows used for the fit", kept.len()),
            neighbours,
        ));
    }
    if count == kept.len() {
        return Ok(kept);
    }
    let ranks = Random::new(seed, Stream::Bank).sample(kept.len() as u64, count);
    Ok(ranks.into_iter().map(|rank| kept[rank as usize]).collect())
}

impl Bank {
    /// Copies these rows (ascending numbers) at unit length.
    pub(super) fn gather(rows: &[usize], training: &Training<'_>) -> Result<Fitted<Self>> {
        let data = training.data;
        check_interrupt(training.observer)?;
        training.observer.begin("rows for the bank", rows.len() as u64);
        let mut bank = Array2::zeros((rows.len(), data.width()));
        let hashes = bank
            .axis_chunks_iter_mut(Axis(0), BLOCK)
            .into_par_iter()
            .zip(rows.par_chunks(BLOCK))
            .map(|(mut block, rows)| {
                let hash = read_rows(data, rows, block.view_mut())?;
                for (mut row, &number) in block.rows_mut().into_iter().zip(rows) {
                    if !normalise(contiguous_mut(&mut row)) {
                        return Err(data.zero_row(number));
                    }
                }
                training.observer.advance(rows.len() as u64);
                Ok(hash)
            })
            .collect();
        let hashes = in_order(hashes)?;
        Ok(Fitted { model: Bank(bank), rows: rows.len() as u64, fingerprint: joined(hashes) })
    }

    /// Reads a bank of at least `neighbours` unit rows.
    pub(super) fn read(neighbours: usize, stored: Stored<'_>) -> Result<Self> {
        let bank: Array2<f32> = stored.matrix("bank", None, stored.width)?;
        if neighbours == 0 || neighbours > bank.nrows() {
            return Err(Error::shape(
                "`bank` of the detector",
                format!("[at least {neighbours}, {}]", stored.width),
                format!("{:?}", bank.shape()),
            ));
        }
        let unit = |row: ArrayView1<'_, f32>| {
            (vector::sum_of_squares(contiguous(&row)) - 1.0).abs() < 1e-4
        };
        match bank.rows().into_iter().position(|row| !unit(row)) {
            None => Ok(Bank(bank)),
            Some(row) => Err(Error::shape(
                "`bank` of the detector",
                "rows of unit length",
                format!("row {row}"),
            )),
        }
    }

    /// What the bank holds and weighs, in memory and in the file.
    pub(super) fn found(&self) -> Found {
        Found::from([
            ("bank rows".to_owned(), self.0.nrows() as f64),
            ("bank megabytes".to_owned(), (self.0.len() * size_of::<f32>()) as f64 / 1e6),
        ])
    }

    /// The `keep` rows with the largest product with each query.
    pub(super) fn nearest(&self, queries: ArrayView2<'_, f32>, keep: usize) -> Vec<Largest> {
        Self::nearest_in(self.0.view(), queries, keep, None)
    }

    /// The same in any rows, and with each row's products multiplied by its factor.
    pub(super) fn nearest_in(
        bank: ArrayView2<'_, f32>,
        queries: ArrayView2<'_, f32>,
        keep: usize,
        factors: Option<&[f32]>,
    ) -> Vec<Largest> {
        let mut best: Vec<Largest> = (0..queries.nrows()).map(|_| Largest::new(keep)).collect();
        let mut products = Array2::<f32>::zeros((queries.nrows(), TILE));
        for (index, tile) in bank.axis_chunks_iter(Axis(0), TILE).enumerate() {
            let first = index * TILE;
            let mut products = products.slice_mut(s![.., ..tile.nrows()]);
            crate::numeric::product::unpacked::multiply(products.view_mut(), queries, tile.t());
            for (mut row, best) in products.rows_mut().into_iter().zip(&mut best) {
                let row = contiguous_mut(&mut row);
                if let Some(factors) = factors {
                    row.iter_mut().zip(&factors[first..]).for_each(|(x, factor)| *x *= factor);
                }
                best.offer(row, first as u32);
            }
        }
        best
    }
}

/// The k largest numbers seen and where. Candidates above the bar are collected and thinned out
/// when they are twice as many as needed, so most numbers cost one comparison. Of equal numbers the
/// first one counts.
pub(super) struct Largest {
    keep: usize,
    candidates: Vec<(f32, u32)>,
    bar: f32,
}

/// Numbers that are compared with the bar together.
const LOOKED_AT: usize = 32;

impl Largest {
    pub(super) fn new(keep: usize) -> Self {
        Largest { keep, candidates: Vec::with_capacity(2 * keep), bar: f32::NEG_INFINITY }
    }

    pub(super) fn offer(&mut self, values: &[f32], first: u32) {
        for (first, values) in (first..).step_by(LOOKED_AT).zip(values.chunks(LOOKED_AT)) {
            // Most are below the bar. To look at all of them takes less than to stop at the first.
            let mut any = false;
            for value in values {
                any |= *value > self.bar;
            }
            if !any {
                continue;
            }
            for (index, &value) in (first..).zip(values) {
                if value > self.bar {
                    self.candidates.push((value, index));
                    if self.candidates.len() == 2 * self.keep {
                        self.thin();
                    }
                }
            }
        }
    }

    fn thin(&mut self) {
        if self.candidates.len() < self.keep {
            // Fewer were seen than could be kept.
            return;
        }
        let last = self.keep - 1;
        let order = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        self.candidates.select_nth_unstable_by(last, order);
        self.bar = self.candidates[last].0;
        self.candidates.truncate(self.keep);
    }

    /// The k-th largest.
    pub(super) fn smallest(mut self) -> f32 {
        self.thin();
        self.bar
    }

    /// The k largest with their rows, by row number.
    pub(super) fn into_rows(mut self) -> Vec<(f32, u32)> {
        self.thin();
        self.candidates.sort_unstable_by_key(|candidate| candidate.1);
        self.candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_k_largest_with_ties() {
        for keep in [1, 2, 5, 40] {
            let values: Vec<f32> = (0..200).map(|i| ((i * 37) % 50) as f32).collect();
            let seen = || {
                let mut largest = Largest::new(keep);
                for (index, chunk) in values.chunks(33).enumerate() {
                    largest.offer(chunk, 33 * index as u32);
                }
                largest
            };
            let mut sorted: Vec<(f32, u32)> = values.iter().copied().zip(0..).collect();
            sorted.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            assert_eq!(seen().smallest(), sorted[keep - 1].0, "{keep}");
            sorted.truncate(keep);
            sorted.sort_by_key(|candidate| candidate.1);
            assert_eq!(seen().into_rows(), sorted, "{keep}");
        }
    }
}
