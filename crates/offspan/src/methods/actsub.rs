//! ActSub (Zöngür et al. 2025): z is split by the right singular vectors of W into what decides the class and
//! what does not. The energy of the first, scaled as by SCALE, times how near the second is to those of
//! training rows: E·(−log(1 − c̄))^λ, c̄ the mean of the largest cosines.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2, Axis, s};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::bank::{BANK, Bank, BankSize, NEIGHBOURS, bank_rows};
use super::memory::FitSize;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_walk};
use super::model::{Found, Model, RowValues, Scorer, Stored, or_worst, write_head};
use super::off_subspace::HEAD_PRECISION;
use super::option::{Options, POWER, PRUNE, SEED};
use super::rectify::{scale_graph, scale_row};
use crate::error::in_order;
use crate::graph::{Builder, Value};
use crate::io::observer::check_interrupt;
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::span::preprocess::normalise;
use crate::training::logits::{energy, head_graph, head_logits};
use crate::training::statistics::Statistics;
use crate::training::{BLOCK, Fitted, Training, joined, read_rows};
use crate::{Error, Result};

const NAME: &str = "actsub";
/// Candidates beyond the neighbours: single precision may order the last ones wrongly.
const SPARE: usize = 8;
/// The nearest that a mean cosine comes to 1.
const LEAST_GAP: f64 = f64::EPSILON;

/// Parameters of ActSub.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ActSubParams {
    /// Percent of the deciding part's entries that are not among the largest.
    pub prune: f64,
    /// λ
    pub power: f64,
    /// How many of the largest cosines count.
    pub neighbours: usize,
    /// How many of the training rows the bank holds.
    pub bank: BankSize,
    /// Seed of the choice of the bank's rows.
    pub seed: u64,
}

impl Default for ActSubParams {
    fn default() -> Self {
        ActSubParams {
            prune: 95.0,
            power: 2.0,
            neighbours: 10,
            bank: BankSize::Share(1.0),
            seed: 0,
        }
    }
}

impl Method for ActSubParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "energy of what decides the class, times how familiar the rest is",
            needs: "features and head; the file holds the bank (4 bytes × rows × width)",
            source: "Zöngür et al., Activation Subspaces for Out-of-Distribution Detection, 2025",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&PRUNE, &mut self.prune)?;
        options.add(&POWER, &mut self.power)?;
        options.add(&NEIGHBOURS, &mut self.neighbours)?;
        options.add(&BANK, &mut self.bank)?;
        options.add(&SEED, &mut self.seed).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if !(0.0..100.0).contains(&self.prune) {
            return Err(Error::parameter("prune", "a percentage from 0 to below 100", self.prune));
        }
        if !(self.power > 0.0 && self.power.is_finite()) {
            return Err(Error::parameter("power", "a number above 0", self.power));
        }
        self.bank.check()?;
        Ok(Arc::new(*self))
    }
}

impl Fit for ActSubParams {
    fn memory(&self, size: &FitSize) -> u64 {
        size.bank(self.bank)
    }

    fn uses_head(&self) -> bool {
        true
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head(NAME)?.without_block();
        let found = linalg::right_singular(head.weight.view())?;
        let size = head.weight.nrows().max(head.weight.ncols()) as f64;
        let floor = size * HEAD_PRECISION * found.values.first().copied().unwrap_or(0.0);
        let rank = found.values.iter().take_while(|value| **value > floor).count();
        if rank == 0 {
            let what = "weights of the last layer for actsub";
            return Err(Error::shape(what, "other numbers than zeros", "zeros"));
        }
        // Beyond the rank, right singular vectors are any basis of what W does not see.
        let all = found.vectors.slice(s![..rank, ..]).as_standard_layout().into_owned();
        let rows = bank_rows(self.bank, self.neighbours, self.seed, training)?;
        let kept = balanced(&rows, &all, training)?;
        let deciding = all.slice(s![..kept, ..]).as_standard_layout().into_owned();
        let fitted = gather(&rows, &deciding, training)?;
        if fitted.model.0.nrows() < self.neighbours {
            let what = format!("what does not decide the class in rows of {}", training.data.name);
            return Err(Error::NoVariance { what });
        }
        let params = *self;
        Ok(from_walk(fitted.map(|bank| ActSub { params, deciding, bank, head })))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(ActSub {
            params: *self,
            deciding: stored.matrix("deciding", None, stored.width)?,
            bank: Bank::read(self.neighbours, stored)?,
            head: stored.required_head()?,
        }))
    }
}

/// The part of each row in these orthonormal directions, and the part that is left.
fn parts(rows: ArrayView2<'_, f64>, directions: &Array2<f64>) -> (Array2<f64>, Array2<f64>) {
    let mut along = Array2::zeros((rows.nrows(), directions.nrows()));
    unpacked::multiply(along.view_mut(), rows, directions.t());
    let mut inside = Array2::zeros(rows.dim());
    unpacked::multiply(inside.view_mut(), along.view(), directions.view());
    let outside = &rows - &inside;
    (inside, outside)
}

/// How many directions split rows into two parts of the same length on average, as nearly as they can.
fn balanced(rows: &[usize], directions: &Array2<f64>, training: &Training<'_>) -> Result<usize> {
    let gaps = rows.par_chunks(BLOCK).map(|rows| {
        check_interrupt(training.observer)?;
        let mut z = Array2::zeros((rows.len(), training.data.width()));
        read_rows(training.data, rows, z.view_mut())?;
        let mut gaps = vec![0.0; directions.nrows()];
        let mut along = Array2::zeros((rows.len(), directions.nrows()));
        unpacked::multiply(along.view_mut(), z.view(), directions.t());
        for (z, along) in z.rows().into_iter().zip(along.rows()) {
            let whole = vector::sum_of_squares(contiguous(&z));
            let mut inside = 0.0;
            for (gap, along) in gaps.iter_mut().zip(along) {
                inside += along * along;
                *gap += inside.sqrt() - (whole - inside).max(0.0).sqrt();
            }
        }
        Ok(gaps)
    });
    let mut sums = vec![0.0f64; directions.nrows()];
    for gaps in in_order(gaps.collect())? {
        sums.iter_mut().zip(gaps).for_each(|(sum, gap): (&mut f64, f64)| *sum += gap);
    }
    let best = (0..sums.len()).min_by(|&a, &b| sums[a].abs().total_cmp(&sums[b].abs()));
    Ok(best.map_or(1, |best| best + 1))
}

/// A bank of what these rows have outside of the directions, at unit length; rows without any are left out.
fn gather(
    rows: &[usize],
    directions: &Array2<f64>,
    training: &Training<'_>,
) -> Result<Fitted<Bank>> {
    let data = training.data;
    training.observer.begin("rows for the bank", rows.len() as u64);
    let blocks = rows.par_chunks(BLOCK).map(|rows| {
        check_interrupt(training.observer)?;
        let mut z = Array2::zeros((rows.len(), data.width()));
        let hash = read_rows(data, rows, z.view_mut())?;
        let mut outside = parts(z.view(), directions).1;
        let mut kept = Vec::new();
        for (place, mut row) in outside.rows_mut().into_iter().enumerate() {
            if normalise(contiguous_mut(&mut row)) {
                kept.push(place);
            }
        }
        training.observer.advance(rows.len() as u64);
        Ok((hash, outside.select(Axis(0), &kept).mapv(|x| x as f32)))
    });
    let blocks: Vec<(u64, Array2<f32>)> = in_order(blocks.collect())?;
    let fingerprint = joined(blocks.iter().map(|(hash, _)| *hash));
    let views: Vec<_> = blocks.iter().map(|(_, block)| block.view()).collect();
    let bank = ndarray::concatenate(Axis(0), &views)
        .unwrap_or_else(|_| unreachable!("blocks of one width"));
    Ok(Fitted { model: Bank(bank), rows: rows.len() as u64, fingerprint })
}

/// Directions that decide, and what training rows have outside of them.
#[derive(Debug, Clone)]
struct ActSub {
    params: ActSubParams,
    /// V_q, one direction per row.
    deciding: Array2<f64>,
    bank: Bank,
    head: Head,
}

impl ActSub {
    /// The mean of the largest cosines of unit rows, in double precision.
    fn familiarity(&self, unit: ArrayView2<'_, f64>) -> Vec<f64> {
        let single = unit.mapv(|x| x as f32);
        let keep = (self.params.neighbours + SPARE).min(self.bank.0.nrows());
        let nearest = self.bank.nearest(single.view(), keep);
        let mean = |(query, nearest): (ndarray::ArrayView1<'_, f64>, super::bank::Largest)| {
            let cosine = |(_, row): (f32, u32)| -> f64 {
                let other = self.bank.0.row(row as usize);
                query.iter().zip(&other).map(|(a, b)| a * f64::from(*b)).sum()
            };
            let mut cosines: Vec<f64> = nearest.into_rows().into_iter().map(cosine).collect();
            cosines.sort_by(|a, b| b.total_cmp(a));
            cosines.truncate(self.params.neighbours);
            cosines.iter().sum::<f64>() / self.params.neighbours as f64
        };
        unit.rows().into_iter().zip(nearest).map(mean).collect()
    }
}

impl Scorer for ActSub {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let (mut inside, mut outside) = parts(z.view(), &self.deciding);
        inside.rows_mut().into_iter().for_each(|mut row| {
            scale_row(contiguous_mut(&mut row), self.params.prune);
        });
        // A row that decides in all of its length is like no other: a cosine of 0.
        outside.rows_mut().into_iter().for_each(|mut row| {
            normalise(contiguous_mut(&mut row));
        });
        let logits = head_logits(&self.head, inside.view());
        let familiarity = self.familiarity(outside.view());
        for ((out, logits), cosine) in out.iter_mut().zip(logits.rows()).zip(familiarity) {
            // A negative mean would turn into a high score by an even power.
            let near = -(1.0 - cosine.max(0.0)).max(LEAST_GAP).ln();
            *out = or_worst(energy(contiguous(&logits), 1.0) * near.powf(self.params.power));
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let along = builder.linear("deciding_across", rows.features, self.deciding.view());
        let deciding = builder.matrix("deciding", self.deciding.view());
        let inside = builder.matmul(along, deciding);
        let outside = builder.sub(rows.features, inside);
        let scaled = scale_graph(inside, self.params.prune, builder);
        let logits = head_graph(&self.head, scaled, builder);
        let energy = builder.log_sum_exp(logits, 1.0);
        let (unit, _, _) = builder.unit_rows(outside);
        let cosines = builder.linear("bank", unit, self.bank.0.view());
        let (largest, _) = builder.top_k(cosines, self.params.neighbours, true);
        let sum = builder.sum(largest);
        let mean = builder.times(sum, 1.0 / self.params.neighbours as f64);
        let mean = builder.at_least(mean, 0.0);
        let one = builder.scalar(1.0);
        let gap = builder.sub(one, mean);
        let gap = builder.at_least(gap, LEAST_GAP);
        let log = builder.log(gap);
        let near = builder.neg(log);
        let near = builder.power(near, self.params.power);
        Ok(builder.mul(energy, near))
    }

    fn found(&self) -> Found {
        let mut found = self.bank.found();
        found.insert("deciding directions".to_owned(), self.deciding.nrows() as f64);
        found
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}deciding"), &self.deciding);
        writer.array2(format!("{prefix}bank"), &self.bank.0);
        write_head(Some(&self.head), prefix, writer);
    }
}
