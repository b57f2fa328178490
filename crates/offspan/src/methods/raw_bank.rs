//! A bank of training rows as they are, with their labels, and its nearest rows by Euclidean distance.
//!
//! Single precision finds candidates, relative to the mean so that few digits are lost; distances that count
//! are sums of squared differences in double precision.

use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use rayon::prelude::*;

use super::bank::{Largest, TILE};
use super::model::{Found, Stored};
use crate::error::in_order;
use crate::graph::{Builder, Op, Value};
use crate::io::TensorWriter;
use crate::io::observer::check_interrupt;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::training::statistics::labels_of;
use crate::training::{BLOCK, Fitted, Training, joined, read_rows};
use crate::{Error, Result};

/// Candidates beyond those that are asked for: single precision may order the last ones wrongly.
const SPARE: usize = 16;

/// Training rows, sorted by label where they have one.
#[derive(Debug, Clone)]
pub(super) struct RawBank {
    rows: Array2<f32>,
    /// One label per row, ascending; all 0 where none are asked for.
    labels: Vec<i64>,
    /// What candidates are found with; not in the file.
    search: Search,
}

/// Rows less their mean, and half of their squared lengths.
#[derive(Debug, Clone)]
struct Search {
    mean: Array1<f32>,
    centred: Array2<f32>,
    halves: Vec<f32>,
}

impl Search {
    fn of(rows: &Array2<f32>) -> Self {
        let mut sum = Array1::<f64>::zeros(rows.ncols());
        for row in rows.rows() {
            sum.zip_mut_with(&row, |sum, x| *sum += f64::from(*x));
        }
        let mean = sum.mapv(|sum| (sum / rows.nrows().max(1) as f64) as f32);
        let centred = rows - &mean;
        let half = |row: ndarray::ArrayView1<'_, f32>| {
            (0.5 * vector::sum_of_squares(contiguous(&row))) as f32
        };
        let halves = centred.rows().into_iter().map(half).collect();
        Search { mean, centred, halves }
    }
}

/// A row of the bank and how far it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Neighbour {
    pub(super) distance: f64,
    pub(super) label: i64,
}

impl RawBank {
    /// Copies these rows (ascending numbers), with labels if they are asked for.
    pub(super) fn gather(
        rows: &[usize],
        who: &str,
        with_labels: bool,
        training: &Training<'_>,
    ) -> Result<Fitted<Self>> {
        let data = training.data;
        check_interrupt(training.observer)?;
        training.observer.begin("rows for the bank", rows.len() as u64);
        let mut bank = Array2::zeros((rows.len(), data.width()));
        let hashes = bank
            .axis_chunks_iter_mut(Axis(0), BLOCK)
            .into_par_iter()
            .zip(rows.par_chunks(BLOCK))
            .map(|(block, rows)| {
                let hash = read_rows(data, rows, block);
                training.observer.advance(rows.len() as u64);
                hash
            })
            .collect();
        let fingerprint = joined(in_order(hashes)?);
        let mut labels = vec![0; rows.len()];
        if with_labels {
            labels = labels_of(training.labels(who)?, rows)?;
            let mut order: Vec<usize> = (0..rows.len()).collect();
            order.sort_by_key(|&place| labels[place]);
            bank = bank.select(Axis(0), &order);
            labels.sort_unstable();
        }
        let model = RawBank::new(bank, labels);
        Ok(Fitted { model, rows: rows.len() as u64, fingerprint })
    }

    fn new(rows: Array2<f32>, labels: Vec<i64>) -> Self {
        let search = Search::of(&rows);
        RawBank { rows, labels, search }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.nrows()
    }

    /// Reads a bank of at least so many rows.
    pub(super) fn read(least: usize, stored: Stored<'_>) -> Result<Self> {
        let rows: Array2<f32> = stored.matrix("bank", None, stored.width)?;
        let labels = stored.file.counts(&format!("{}labels", stored.prefix))?;
        let labels: Vec<i64> = labels.into_iter().map(u64::cast_signed).collect();
        if rows.nrows() < least || labels.len() != rows.nrows() || !labels.is_sorted() {
            return Err(Error::shape(
                "`bank` of the detector",
                format!("at least {least} rows, and as many labels in order"),
                format!("{:?} and {} labels", rows.shape(), labels.len()),
            ));
        }
        Ok(RawBank::new(rows, labels))
    }

    /// What goes into a file.
    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}bank"), &self.rows);
        let labels: Vec<u64> = self.labels.iter().map(|label| label.cast_unsigned()).collect();
        writer.counts(format!("{prefix}labels"), &labels);
    }

    pub(super) fn found(&self) -> Found {
        Found::from([
            ("bank rows".to_owned(), self.rows.nrows() as f64),
            ("bank megabytes".to_owned(), (self.rows.len() * size_of::<f32>()) as f64 / 1e6),
        ])
    }

    /// Where the rows of a label are.
    pub(super) fn of_label(&self, label: i64) -> std::ops::Range<usize> {
        let start = self.labels.partition_point(|other| *other < label);
        start..self.labels.partition_point(|other| *other <= label)
    }

    /// The labels that occur, with where their rows are.
    pub(super) fn classes(&self) -> Vec<std::ops::Range<usize>> {
        let mut start = 0;
        let runs = self.labels.chunk_by(|a, b| a == b);
        runs.map(|run| {
            start += run.len();
            start - run.len()..start
        })
        .collect()
    }

    /// The same without some rows.
    pub(super) fn keeping(self, kept: &[usize]) -> Self {
        let labels = kept.iter().map(|&row| self.labels[row]).collect();
        RawBank::new(self.rows.select(Axis(0), kept), labels)
    }

    /// A block of the bank's own rows.
    pub(super) fn own_rows(&self, range: std::ops::Range<usize>) -> Array2<f64> {
        self.rows.slice(s![range, ..]).mapv(f64::from)
    }

    /// The `keep` nearest rows of each query among those that `allowed` gives for it: ranges of row
    /// numbers, ascending. Nearest first; of equal distances, the earlier row.
    pub(super) fn nearest(
        &self,
        queries: ArrayView2<'_, f64>,
        keep: usize,
        allowed: impl Fn(usize) -> Vec<std::ops::Range<usize>>,
    ) -> Vec<Vec<Neighbour>> {
        let single = &queries.mapv(|x| x as f32) - &self.search.mean;
        let ranges: Vec<_> = (0..queries.nrows()).map(allowed).collect();
        let mut best: Vec<Largest> =
            (0..queries.nrows()).map(|_| Largest::new(keep + SPARE)).collect();
        let mut products = Array2::<f32>::zeros((queries.nrows(), TILE));
        for (index, tile) in self.search.centred.axis_chunks_iter(Axis(0), TILE).enumerate() {
            let first = index * TILE;
            let halves = &self.search.halves[first..first + tile.nrows()];
            let mut products = products.slice_mut(s![.., ..tile.nrows()]);
            unpacked::multiply(products.view_mut(), single.view(), tile.t());
            for ((mut row, best), ranges) in
                products.rows_mut().into_iter().zip(&mut best).zip(&ranges)
            {
                // ‖a − b‖² = ‖a‖² − 2(aᵀb − ‖b‖²/2): the nearest have the largest bracket.
                let row = contiguous_mut(&mut row);
                row.iter_mut().zip(halves).for_each(|(x, half)| *x -= half);
                for range in ranges {
                    let start = range.start.clamp(first, first + row.len());
                    let end = range.end.clamp(start, first + row.len());
                    best.offer(&row[start - first..end - first], start as u32);
                }
            }
        }
        let settle = |(query, best): (ndarray::ArrayView1<'_, f64>, Largest)| {
            let exact = best.into_rows().into_iter().map(|(_, row)| {
                let other = self.rows.row(row as usize);
                let squares = query.iter().zip(&other).map(|(a, b)| {
                    let difference = a - f64::from(*b);
                    difference * difference
                });
                (squares.sum::<f64>(), row)
            });
            let mut exact: Vec<(f64, u32)> = exact.collect();
            exact.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            exact.truncate(keep);
            let neighbour = |(squared, row): (f64, u32)| Neighbour {
                distance: squared.sqrt(),
                label: self.labels[row as usize],
            };
            exact.into_iter().map(neighbour).collect()
        };
        queries.rows().into_iter().zip(best).map(settle).collect()
    }

    /// What is the larger the nearer each row of the bank is, within a graph: [N, bank].
    pub(super) fn brackets_graph(&self, z: Value, builder: &mut Builder<'_>) -> Value {
        let mean = builder.vector("bank_mean", &self.search.mean);
        let centred = builder.sub(z, mean);
        let products = builder.linear("bank_across", centred, self.search.centred.view());
        let halves = builder.vector("bank_halves", &Array1::from(self.search.halves.clone()));
        builder.sub(products, halves)
    }

    /// The squared distances to the `keep` nearest rows within a graph, and where in the bank these are; both
    /// [N, keep], nearest first.
    pub(super) fn nearest_graph<'a>(
        &'a self,
        z: Value,
        keep: usize,
        builder: &mut Builder<'a>,
    ) -> (Value, Value) {
        let brackets = self.brackets_graph(z, builder);
        let (_, candidates) = builder.top_k(brackets, (keep + SPARE).min(self.len()), true);
        let bank = builder.matrix("bank", self.rows.view());
        let others = builder.rows_at(bank, candidates);
        let row = builder.reshape(z, &[1, self.rows.ncols()]);
        let differences = builder.sub(row, others);
        let squared = builder.squared_length(differences);
        let (squared, places) = builder.top_k(squared, keep, false);
        (squared, builder.node(Op::GatherElements { axis: 1 }, &[candidates, places]))
    }

    /// One squared distance for each row within a graph: to the row of the bank with the largest number.
    pub(super) fn squared_distance_graph<'a>(
        &'a self,
        z: Value,
        numbers: Value,
        builder: &mut Builder<'a>,
    ) -> Value {
        let place = builder.place_of_largest(numbers);
        let bank = builder.matrix("bank", self.rows.view());
        let other = builder.rows_at(bank, place);
        let difference = builder.sub(z, other);
        builder.squared_length(difference)
    }

    /// The labels within a graph, [bank], as numbers.
    pub(super) fn labels_graph(&self, builder: &mut Builder<'_>) -> Value {
        let labels: Array1<f64> = self.labels.iter().map(|&label| label as f64).collect();
        builder.vector("labels", &labels)
    }

    /// The same among all rows.
    pub(super) fn nearest_of_all(
        &self,
        queries: ArrayView2<'_, f64>,
        keep: usize,
    ) -> Vec<Vec<Neighbour>> {
        let all = 0..self.len();
        self.nearest(queries, keep, |_| vec![all.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_nearest_rows_far_from_the_origin_in_all_and_in_some_rows() {
        let wave = |i: usize, j: usize| ((i * 7 + j * 13 + i * j) as f64 * 0.7311).sin();
        let rows =
            Array2::from_shape_fn((1500, 6), |(i, j)| 1000.0 + wave(i, j)).mapv(|x| x as f32);
        let labels: Vec<i64> = (0..1500).map(|i| i / 300).collect();
        let bank = RawBank::new(rows.clone(), labels);
        let queries = Array2::from_shape_fn((9, 6), |(i, j)| 1000.0 + wave(i + 77, 2 * j + 1));
        let direct = |query: usize, among: std::ops::Range<usize>| {
            let far = |row: usize| {
                let pairs = queries.row(query).into_iter().zip(rows.row(row)).collect::<Vec<_>>();
                pairs.iter().map(|(a, b)| (*a - f64::from(**b)).powi(2)).sum::<f64>().sqrt()
            };
            let mut all: Vec<f64> = among.map(far).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let distances =
            |found: &[Neighbour]| -> Vec<f64> { found.iter().map(|n| n.distance).collect() };
        for (query, found) in bank.nearest_of_all(queries.view(), 20).iter().enumerate() {
            assert_eq!(distances(found), direct(query, 0..1500)[..20]);
        }
        assert_eq!(bank.of_label(2), 600..900);
        assert_eq!(bank.classes()[4], 1200..1500);
        let some = bank.nearest(queries.view(), 3, |_| vec![0..600, 900..1000]);
        for (query, found) in some.iter().enumerate() {
            let mut all = direct(query, 0..600);
            all.extend(direct(query, 900..1000));
            all.sort_by(f64::total_cmp);
            assert_eq!(distances(found), all[..3]);
            assert!(found.iter().all(|n| n.label != 2));
        }
        let few = bank.nearest(queries.view(), 5, |_| vec![7..8, 8..9]);
        assert!(few.iter().all(|found| found.len() == 2));
    }
}
