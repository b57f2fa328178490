//! DDCS: activations are shaped, and of the channels those stay that tell the classes apart:
//! smallest J = a·S − (1 − a)·V, with S the mean product of two classes' means and V the variance
//! over the class means of the shaped training rows.

use std::sync::Arc;

use ndarray::{Array1, Axis};
use serde::{Deserialize, Serialize};

use super::rectifier::Rectifier;
use super::step::{Step, StepParams, check_percent};
use crate::graph::{Builder, Op, Value};
use crate::io::{Head, TensorWriter};
use crate::methods::method::{Entry, GOLDEN_BASELINE};
use crate::methods::option::{OptionInfo, Options, Pair, option};
use crate::methods::{Found, Stored};
use crate::training::Training;
use crate::training::statistics::{ClassMeans, Needs, Statistics};
use crate::{Error, Result};

const SHAPE: OptionInfo = option(
    "shape",
    "LOW,HIGH",
    "ddcs: percentiles of the activations between which they keep their shape",
);
const BALANCE: OptionInfo =
    option("balance", "A", "ddcs: weight of similarity against variance in the choice of channels");
const CHANNELS: OptionInfo = option("channels", "SHARE", "ddcs: share of the channels that stay");

/// Parameters of DDCS.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DdcsParams {
    /// Percentile of all activations below which values are raised.
    pub low: f64,
    /// Percentile of all activations from which values are pressed down.
    pub high: f64,
    /// Weight of similarity against variance when channels are ranked.
    pub balance: f64,
    /// Share of the channels that stay.
    pub channels: f64,
}

impl Default for DdcsParams {
    fn default() -> Self {
        DdcsParams { low: 20.0, high: 90.0, balance: 0.8, channels: 0.82 }
    }
}

impl StepParams for DdcsParams {
    fn entry() -> Entry<Self> {
        Entry {
            name: "ddcs",
            summary: "shaped activations of the channels that tell classes apart, then the energy",
            needs: "features, labels and head; made for features that are never negative",
            source: "Yuan et al., Discriminability-Driven Channel Selection for Out-of-Distribution Detection, 2024",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        let mut shape = Pair(self.low, self.high);
        options.add(&SHAPE, &mut shape)?;
        (self.low, self.high) = (shape.0, shape.1);
        options.add(&BALANCE, &mut self.balance)?;
        options.add(&CHANNELS, &mut self.channels).map(drop)
    }

    fn check(&self) -> Result<()> {
        let DdcsParams { low, high, balance, channels } = *self;
        check_percent("shape", low)?;
        check_percent("shape", high)?;
        if low > high {
            let got = format!("{low},{high}");
            return Err(Error::parameter("shape", "two percentiles in order", got));
        }
        if !(0.0..=1.0).contains(&balance) {
            return Err(Error::parameter("balance", "a share from 0 to 1", balance));
        }
        if !(channels > 0.0 && channels <= 1.0) {
            return Err(Error::parameter("channels", "a share in (0, 1]", channels));
        }
        Ok(())
    }

    fn wants_non_negative(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { percentiles: vec![self.low, self.high], ..Needs::default() }
    }

    fn check_inputs(&self, name: &str, training: &Training<'_>) -> Result<()> {
        self.needs().check(name, training)?;
        training.labels(name).map(drop)
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Arc<dyn Step>> {
        let (low, high) = (known.percentile(self.low), known.percentile(self.high));
        Ok(Arc::new(Ddcs::fit(low, high, self.balance, self.channels, training)?))
    }

    fn read(&self, stored: Stored<'_>, _: Option<&Head>) -> Result<Arc<dyn Step>> {
        let (low, high) = (stored.number("low")?, stored.number("high")?);
        Ok(Arc::new(Ddcs { low, high, mask: stored.vector("mask", stored.width)? }))
    }
}

/// Shape and mask.
#[derive(Debug, Clone)]
struct Ddcs {
    low: f64,
    high: f64,
    /// 1 for channels that stay, 0 for the others.
    mask: Array1<f64>,
}

impl Ddcs {
    fn fit(
        low: f64,
        high: f64,
        balance: f64,
        channels: f64,
        training: &Training<'_>,
    ) -> Result<Self> {
        let width = training.data.width();
        let shape = Ddcs { low, high, mask: Array1::ones(width) };
        let shaped = Rectifier::new(vec![Arc::new(shape)], None);
        let data = shaped.dataset(training.data);
        let needs = Needs { classes: true, ..Needs::default() };
        let known = Statistics::gather(&training.on(&data), &needs)?;
        let classes = known.classes();
        if classes.labels.len() < 2 {
            return Err(Error::shape(
                format!("labels of {}", training.data.name),
                "at least 2 classes",
                format!("{}", classes.labels.len()),
            ));
        }
        let ranks = channel_ranks(classes, balance);
        let kept = (channels * width as f64).round_ties_even() as usize;
        let mask = ranks.iter().map(|&rank| if rank < kept { 1.0 } else { 0.0 }).collect();
        Ok(Ddcs { low, high, mask })
    }
}

impl Step for Ddcs {
    fn apply_to_row(&self, row: &mut [f64]) {
        for (x, mask) in row.iter_mut().zip(&self.mask) {
            let raised = x.max(self.low);
            let shaped = if raised >= self.high {
                raised / (1.0 + (raised / self.high).powi(4)).sqrt() + self.low
            } else {
                raised
            };
            *x = shaped * mask;
        }
    }

    fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> (Value, Option<Value>) {
        let raised = builder.at_least(rows, self.low);
        let share = builder.times(raised, 1.0 / self.high);
        let square = builder.square(share);
        let fourth = builder.square(square);
        let divisor = builder.plus(fourth, 1.0);
        let divisor = builder.sqrt(divisor);
        let pressed = builder.div(raised, divisor);
        let pressed = builder.plus(pressed, self.low);
        let high = builder.scalar(self.high);
        let is_high = builder.node(Op::GreaterOrEqual, &[raised, high]);
        let shaped = builder.choose(is_high, pressed, raised);
        let mask = builder.vector("mask", &self.mask);
        (builder.mul(shaped, mask), None)
    }

    fn found(&self) -> Found {
        Found::from([
            ("low".to_owned(), self.low),
            ("high".to_owned(), self.high),
            ("channels kept".to_owned(), self.mask.sum()),
        ])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}mask"), &self.mask);
    }
}

/// Each channel's place when they are sorted by J, smallest first.
fn channel_ranks(classes: &ClassMeans, balance: f64) -> Vec<usize> {
    let count = classes.means.nrows() as f64;
    let sum = classes.means.sum_axis(Axis(0));
    let squares = (&classes.means * &classes.means).sum_axis(Axis(0));
    // Over ordered pairs i ≠ j: Σ μ_i μ_j = (Σμ)² − Σμ².
    let similarity = (&sum * &sum - &squares) / (count * (count - 1.0));
    let variance = classes.means.var_axis(Axis(0), 1.0);
    let cost = similarity * balance - variance * (1.0 - balance);
    let mut order: Vec<usize> = (0..cost.len()).collect();
    order.sort_by(|&a, &b| cost[a].total_cmp(&cost[b]).then(a.cmp(&b)));
    let mut ranks = vec![0; order.len()];
    for (rank, channel) in order.into_iter().enumerate() {
        ranks[channel] = rank;
    }
    ranks
}
