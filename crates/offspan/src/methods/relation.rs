//! Neural relation graph (Kim et al. 2023): the sum over training rows of how much they are like the row in
//! features and in what the network says of them: r_i = max(cos(z, z_i), 0)·pᵀp_i, to a power, where it
//! exceeds a floor.

use std::sync::Arc;

use ndarray::{Array2, Axis, s};
use serde::{Deserialize, Serialize};

use super::bank::{BANK, Bank, BankSize, TILE, bank_rows};
use super::memory::FitSize;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_walk};
use super::model::{
    Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of_classes, put_last, write_head,
};
use super::option::{OptionInfo, Options, POWER, SEED, option};
use crate::graph::{Builder, Op, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::product::unpacked;
use crate::numeric::vector::contiguous_mut;
use crate::span::preprocess::Preprocess;
use crate::training::logits::{LogitSource, Need, softmax};
use crate::training::statistics::Statistics;
use crate::training::{BLOCK, Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "relation";
const FLOOR: OptionInfo =
    option("relation-floor", "R", "relation: similarities up to this one count as none");

/// Parameters of the relation graph.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RelationParams {
    /// t
    pub power: f64,
    /// Similarities up to this one count as none.
    pub floor: f64,
    /// How many of the training rows the bank holds.
    pub bank: BankSize,
    /// Seed of the choice of the bank's rows.
    pub seed: u64,
}

impl Default for RelationParams {
    fn default() -> Self {
        RelationParams { power: 1.0, floor: 0.03, bank: BankSize::Share(1.0), seed: 0 }
    }
}

impl Method for RelationParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "sum of the training rows' similarities in features and predictions",
            needs: "features; logits or head; the file holds the bank (4 bytes × rows × (width + classes))",
            source: "Kim et al., Neural Relation Graph, 2023",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&POWER, &mut self.power)?;
        options.add(&FLOOR, &mut self.floor)?;
        options.add(&BANK, &mut self.bank)?;
        options.add(&SEED, &mut self.seed).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if !(self.power > 0.0 && self.power.is_finite()) {
            return Err(Error::parameter("power", "a number above 0", self.power));
        }
        if !(0.0..1.0).contains(&self.floor) {
            return Err(Error::parameter("relation-floor", "a number in [0, 1)", self.floor));
        }
        self.bank.check()?;
        Ok(Arc::new(*self))
    }
}

impl Fit for RelationParams {
    fn memory(&self, size: &FitSize) -> u64 {
        size.bank(self.bank)
    }

    fn uses_logits(&self) -> bool {
        true
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let source = LogitSource::of(training.data, training.head, None, Need::Method(NAME))?;
        let rows = bank_rows(self.bank, 1, self.seed, training)?;
        let fitted = Bank::gather(&rows, training)?;
        let mut beliefs = Array2::zeros((rows.len(), source.classes()));
        for (rows, mut beliefs) in
            rows.chunks(BLOCK).zip(beliefs.axis_chunks_iter_mut(Axis(0), BLOCK))
        {
            let mut p = source.gather(rows)?;
            p.rows_mut().into_iter().for_each(|mut row| softmax(contiguous_mut(&mut row)));
            beliefs.assign(&p.mapv(|p| p as f32));
        }
        let (params, head) = (*self, training.head.map(Head::without_block));
        Ok(from_walk(fitted.map(|bank| Relation { params, bank, beliefs, head })))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let bank = Bank::read(1, stored)?;
        let beliefs: Array2<f32> = stored.matrix_of_any("beliefs")?;
        if beliefs.nrows() != bank.0.nrows() {
            let expected = format!("[{}, any]", bank.0.nrows());
            let got = format!("{:?}", beliefs.shape());
            return Err(Error::shape("`beliefs` of the detector", expected, got));
        }
        Ok(Arc::new(Relation { params: *self, bank, beliefs, head: stored.head()? }))
    }
}

/// Unit training rows and their softmax.
#[derive(Debug, Clone)]
struct Relation {
    params: RelationParams,
    bank: Bank,
    /// p_i, one row per row of the bank.
    beliefs: Array2<f32>,
    head: Option<Head>,
}

impl Scorer for Relation {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of_classes(NAME, data, self.head.as_ref(), self.beliefs.ncols()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut z = Block::read(&*data.features, start, out.len())?;
        let zero_rows = Preprocess { clip: None, cosine: true }.apply(z.view_mut());
        let source = logits_of_classes(NAME, data, self.head.as_ref(), self.beliefs.ncols())?;
        let mut p = source.logits(start, out.len())?;
        p.rows_mut().into_iter().for_each(|mut row| softmax(contiguous_mut(&mut row)));
        out.fill(0.0);
        let mut alike = Array2::zeros((out.len(), TILE));
        let mut agree = Array2::zeros((out.len(), TILE));
        for first in (0..self.bank.0.nrows()).step_by(TILE) {
            let tile = s![first..(first + TILE).min(self.bank.0.nrows()), ..];
            // The floor is a cliff, so products are in double precision.
            let rows = self.bank.0.slice(tile).mapv(f64::from);
            let beliefs = self.beliefs.slice(tile).mapv(f64::from);
            let mut alike = alike.slice_mut(s![.., ..rows.nrows()]);
            let mut agree = agree.slice_mut(s![.., ..rows.nrows()]);
            unpacked::multiply(alike.view_mut(), z.view(), rows.t());
            unpacked::multiply(agree.view_mut(), p.view(), beliefs.t());
            for ((out, alike), agree) in out.iter_mut().zip(alike.rows()).zip(agree.rows()) {
                for (alike, agree) in alike.iter().zip(agree) {
                    let r = alike.max(0.0) * agree;
                    if r > self.params.floor {
                        *out +=
                            if self.params.power == 1.0 { r } else { r.powf(self.params.power) };
                    }
                }
            }
        }
        put_last(zero_rows, out);
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let (unit, _, is_zero) = builder.unit_rows(rows.features);
        let alike = builder.linear("bank", unit, self.bank.0.view());
        let alike = builder.node(Op::Relu, &[alike]);
        let classes = Some(self.beliefs.ncols());
        let logits = logits_graph(rows, self.head.as_ref(), classes, builder);
        let p = builder.softmax(logits);
        let agree = builder.linear("beliefs", p, self.beliefs.view());
        let r = builder.mul(alike, agree);
        let (zero, floor) = (builder.scalar(0.0), builder.scalar(self.params.floor));
        let counts = builder.node(Op::Greater, &[r, floor]);
        let power = match self.params.power {
            1.0 => r,
            power => builder.power(r, power),
        };
        let parts = builder.choose(counts, power, zero);
        let sum = builder.sum(parts);
        Ok(builder.put_last(is_zero, sum))
    }

    fn found(&self) -> Found {
        self.bank.found()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}bank"), &self.bank.0);
        writer.array2(format!("{prefix}beliefs"), &self.beliefs);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
