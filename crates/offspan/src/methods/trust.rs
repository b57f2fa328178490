//! Trust score (Jiang et al. 2018): the distance to the nearest training row of another class over that to
//! the nearest row of the predicted class, after the loneliest rows of each class are taken out.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::bank::{BankSize, NEIGHBOURS, bank_rows};
use super::memory::FitSize;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, check_common_inputs, from_walk};
use super::model::{Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, write_head};
use super::option::{OptionInfo, Options, option};
use super::raw_bank::{Neighbour, RawBank};
use crate::graph::{Builder, Op, Value};
use crate::io::observer::check_interrupt;
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous;
use crate::training::logits::predicted;
use crate::training::statistics::Statistics;
use crate::training::{BLOCK, Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "trust";
const DROP: OptionInfo =
    option("drop", "SHARE", "trust: share of each class's rows, the loneliest, that is left out");

/// Parameters of the trust score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrustParams {
    /// k: a row is as lonely as its k-th nearest other row of the class is far.
    pub neighbours: usize,
    /// α
    pub drop: f64,
}

impl Default for TrustParams {
    fn default() -> Self {
        TrustParams { neighbours: 10, drop: 0.1 }
    }
}

impl Method for TrustParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "distance to the nearest row of another class over that to one of the predicted class",
            needs: "features, labels; logits or head; the file holds the bank (4 bytes × rows × width)",
            source: "Jiang et al., To Trust Or Not To Trust A Classifier, 2018",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&NEIGHBOURS, &mut self.neighbours)?;
        options.add(&DROP, &mut self.drop).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if self.neighbours == 0 {
            return Err(Error::parameter("neighbours", "at least 1", 0));
        }
        if !(0.0..1.0).contains(&self.drop) {
            return Err(Error::parameter("drop", "a share in [0, 1)", self.drop));
        }
        Ok(Arc::new(*self))
    }
}

impl Fit for TrustParams {
    fn memory(&self, size: &FitSize) -> u64 {
        size.raw_bank(BankSize::Share(1.0))
    }

    fn uses_logits(&self) -> bool {
        true
    }

    fn check_inputs(&self, name: &str, training: &Training<'_>) -> Result<()> {
        check_common_inputs(self, name, training)?;
        training.labels(name).map(drop)
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let rows = bank_rows(BankSize::Share(1.0), 1, 0, training)?;
        let fitted = RawBank::gather(&rows, NAME, true, training)?;
        let classes = fitted.model.classes();
        if classes.len() < 2 {
            return Err(Error::shape(
                format!("labels of {} for {NAME}", training.data.name),
                "at least 2 classes",
                format!("{}", classes.len()),
            ));
        }
        training.observer.begin("lonely rows of each class", fitted.model.len() as u64);
        let mut kept = Vec::new();
        for class in classes {
            check_interrupt(training.observer)?;
            kept.extend(self.kept(&fitted.model, class.clone()));
            training.observer.advance(class.len() as u64);
        }
        let head = training.head.map(Head::without_block);
        Ok(from_walk(fitted.map(|bank| Trust { bank: bank.keeping(&kept), head })))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(Trust { bank: RawBank::read(1, stored)?, head: stored.head()? }))
    }
}

impl TrustParams {
    /// The rows of a class that stay; all of one that has no more than k.
    fn kept(self, bank: &RawBank, class: Range<usize>) -> Vec<usize> {
        let dropped = (self.drop * class.len() as f64) as usize;
        if class.len() <= self.neighbours || dropped == 0 {
            return class.collect();
        }
        let starts: Vec<usize> = class.clone().step_by(BLOCK).collect();
        let lonely: Vec<Vec<f64>> = starts
            .into_par_iter()
            .map(|start| {
                let queries = bank.own_rows(start..(start + BLOCK).min(class.end));
                // The row itself is its own nearest.
                let nearest =
                    bank.nearest(queries.view(), self.neighbours + 1, |_| vec![class.clone()]);
                let last = |near: Vec<Neighbour>| near.last().map_or(0.0, |near| near.distance);
                nearest.into_iter().map(last).collect()
            })
            .collect();
        let mut order: Vec<(f64, usize)> = lonely.into_iter().flatten().zip(class).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        order.truncate(order.len() - dropped);
        let mut kept: Vec<usize> = order.into_iter().map(|(_, row)| row).collect();
        kept.sort_unstable();
        kept
    }
}

/// The rows that stayed.
#[derive(Debug, Clone)]
struct Trust {
    bank: RawBank,
    head: Option<Head>,
}

impl Scorer for Trust {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, self.head.as_ref()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let logits = logits_of(NAME, data, self.head.as_ref())?.logits(start, out.len())?;
        let class = |row: usize| self.bank.of_label(predicted(contiguous(&logits.row(row))) as i64);
        let own: Vec<Range<usize>> = (0..out.len()).map(class).collect();
        let all = self.bank.len();
        let to_own = self.bank.nearest(z.view(), 1, |row| vec![own[row].clone()]);
        let to_other =
            self.bank.nearest(z.view(), 1, |row| vec![0..own[row].start, own[row].end..all]);
        for ((out, own), other) in out.iter_mut().zip(to_own).zip(to_other) {
            *out = match (own.first(), other.first()) {
                (Some(own), Some(other)) if own.distance > 0.0 => other.distance / own.distance,
                // A row of the class itself; no other class would be nearer.
                (Some(_), _) => f64::INFINITY,
                // A class without training rows.
                (None, _) => 0.0,
            };
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, self.head.as_ref(), None, builder);
        let class = builder.place_of_largest(logits);
        let class = builder.counted(class);
        let class = builder.as_column(class);
        let labels = self.bank.labels_graph(builder);
        let is_own = builder.node(Op::Equal, &[labels, class]);
        let brackets = self.bank.brackets_graph(rows.features, builder);
        let lowest = builder.scalar(f64::NEG_INFINITY);
        let own = builder.choose(is_own, brackets, lowest);
        let own = self.bank.squared_distance_graph(rows.features, own, builder);
        // There are at least two classes, so that there is always another one.
        let other = builder.choose(is_own, lowest, brackets);
        let other = self.bank.squared_distance_graph(rows.features, other, builder);
        let (zero, one) = (builder.scalar(0.0), builder.scalar(1.0));
        let highest = builder.scalar(f64::INFINITY);
        let is_known = builder.node(Op::LessOrEqual, &[own, zero]);
        let own = builder.choose(is_known, one, own);
        let share = builder.div(other, own);
        let share = builder.sqrt(share);
        let share = builder.choose(is_known, highest, share);
        let is_own = builder.counted(is_own);
        let count = builder.sum(is_own);
        let has_rows = builder.node(Op::Greater, &[count, zero]);
        Ok(builder.choose(has_rows, share, zero))
    }

    fn found(&self) -> Found {
        self.bank.found()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.bank.write(prefix, writer);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
