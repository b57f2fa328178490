//! Distance to the k-th nearest training row (Sun et al. 2022): −(k-th smallest ‖ẑ − ẑ_i‖²).
//!
//! The bank holds every training row. Queries meet it tile by tile, and only the k best of each
//! query are kept, so no matrix of queries × rows exists.

use ndarray::{Array2, Axis, s};
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::in_order;
use crate::io::{Dataset, read_finite};
use crate::kernel::{contiguous_row, contiguous_row_mut};
use crate::kpca::{Fitted, Training};
use crate::observer::check_interrupt;
use crate::preprocess::{Preprocess, normalise};
use crate::{Error, Result, vector};

/// Rows of the bank that a block of queries meets at a time.
const TILE: usize = 1024;
const BLOCK: usize = 256;

/// Unit training rows.
#[derive(Debug, Clone)]
pub(crate) struct KnnModel {
    pub(crate) neighbours: usize,
    pub(crate) bank: Array2<f32>,
}

impl KnnModel {
    /// A model from stored parts.
    pub(super) fn new(neighbours: usize, bank: Array2<f32>) -> Result<Self> {
        let unit = |row: ndarray::ArrayView1<'_, f32>| {
            (vector::sum_of_squares(contiguous_row(&row)) - 1.0).abs() < 1e-4
        };
        match bank.rows().into_iter().position(|row| !unit(row)) {
            None => Ok(KnnModel { neighbours, bank }),
            Some(row) => Err(Error::shape(
                "`bank` of the detector",
                "rows of unit length",
                format!("row {row}"),
            )),
        }
    }

    pub(super) fn fit(neighbours: usize, training: &Training<'_>) -> Result<Fitted<Self>> {
        let data = training.data;
        let chosen: Vec<usize> =
            (0..data.rows()).filter(|&row| training.hold_out.keeps(row)).collect();
        if neighbours == 0 || neighbours > chosen.len() {
            return Err(Error::parameter(
                "neighbours",
                format!("from 1 to {}, the training rows used for the fit", chosen.len()),
                neighbours,
            ));
        }
        check_interrupt(training.observer)?;
        training.observer.begin("rows for the bank", chosen.len() as u64);
        let mut bank = Array2::zeros((chosen.len(), data.width()));
        let hashes = bank
            .axis_chunks_iter_mut(Axis(0), BLOCK)
            .into_par_iter()
            .zip(chosen.par_chunks(BLOCK))
            .map(|(mut block, rows)| {
                for (i, &row) in rows.iter().enumerate() {
                    read_finite(&*data.features, row, block.slice_mut(s![i..=i, ..]))?;
                }
                let hash = xxh3_64(block.as_slice().map_or(&[][..], bytemuck::cast_slice));
                for (mut row, &number) in block.rows_mut().into_iter().zip(rows) {
                    if !normalise(contiguous_row_mut(&mut row)) {
                        let what = data.name.clone();
                        return Err(Error::ZeroRow { what, row: number, after: "" });
                    }
                }
                training.observer.advance(rows.len() as u64);
                Ok(hash)
            })
            .collect();
        let hashes = in_order(hashes)?;
        Ok(Fitted {
            model: KnnModel { neighbours, bank },
            rows: chosen.len() as u64,
            fingerprint: xxh3_64(bytemuck::cast_slice(&hashes)),
        })
    }

    pub(super) fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut queries = Array2::<f32>::zeros((out.len(), data.width()));
        read_finite(&*data.features, start, queries.view_mut())?;
        let zero_rows = Preprocess { clip: None, cosine: true }.apply(queries.view_mut());
        let mut best: Vec<Largest> = out.iter().map(|_| Largest::new(self.neighbours)).collect();
        let mut cosines = Array2::<f32>::zeros((out.len(), TILE));
        for tile in self.bank.axis_chunks_iter(Axis(0), TILE) {
            let mut cosines = cosines.slice_mut(s![.., ..tile.nrows()]);
            crate::linalg::matmul(cosines.view_mut(), queries.view(), tile.t());
            for (row, best) in cosines.rows().into_iter().zip(&mut best) {
                best.offer(contiguous_row(&row));
            }
        }
        // Both are unit vectors: ‖a − b‖² = 2 − 2aᵀb.
        for (out, best) in out.iter_mut().zip(best) {
            *out = -(2.0 - 2.0 * f64::from(best.smallest())).max(0.0);
        }
        for row in zero_rows {
            out[row] = f64::NEG_INFINITY;
        }
        Ok(())
    }
}

/// The k largest numbers seen. Candidates above the bar are collected and thinned out when they
/// are twice as many as needed, so most numbers cost one comparison.
struct Largest {
    keep: usize,
    candidates: Vec<f32>,
    bar: f32,
}

impl Largest {
    fn new(keep: usize) -> Self {
        Largest { keep, candidates: Vec::with_capacity(2 * keep), bar: f32::NEG_INFINITY }
    }

    fn offer(&mut self, values: &[f32]) {
        for &value in values {
            if value > self.bar {
                self.candidates.push(value);
                if self.candidates.len() == 2 * self.keep {
                    self.thin();
                }
            }
        }
    }

    fn thin(&mut self) {
        let last = self.keep - 1;
        self.candidates.select_nth_unstable_by(last, |a, b| b.total_cmp(a));
        self.bar = self.candidates[last];
        self.candidates.truncate(self.keep);
    }

    /// The k-th largest.
    fn smallest(mut self) -> f32 {
        self.thin();
        self.bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_k_th_largest_with_ties() {
        for keep in [1, 2, 5, 40] {
            let values: Vec<f32> = (0..200).map(|i| ((i * 37) % 50) as f32).collect();
            let mut largest = Largest::new(keep);
            values.chunks(33).for_each(|chunk| largest.offer(chunk));
            let mut sorted = values;
            sorted.sort_by(|a, b| b.total_cmp(a));
            assert_eq!(largest.smallest(), sorted[keep - 1], "{keep}");
        }
    }
}
