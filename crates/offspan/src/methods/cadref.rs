//! CARef and CADRef (Ling et al. 2025): the L1 distance of z to the mean of the rows with the same predicted
//! class, relative to ‖z‖₁; whole, or with what speaks for the class and what speaks against it apart.

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{
    Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of_classes, or_worst, write_head,
};
use crate::graph::{Builder, Op, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous;
use crate::training::logits::{LogitSource, Need, energy, predicted};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

/// Parameters of CARef and CADRef.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CadrefParams {
    /// Whether errors for and against the class count apart (CADRef).
    pub decoupled: bool,
}

impl CadrefParams {
    fn known_as(self) -> &'static str {
        if self.decoupled { "cadref" } else { "caref" }
    }
}

impl Method for CadrefParams {
    fn entries() -> Vec<Entry<Self>> {
        let entry = |decoupled, summary, needs| {
            let default = CadrefParams { decoupled };
            Entry {
                name: default.known_as(),
                summary,
                needs,
                source: "Ling et al., CADRef: Robust Out-of-Distribution Detection via Class-Aware Decoupled Relative Feature Leveraging, 2025",
                parity: GOLDEN_BASELINE,
                default,
            }
        };
        vec![
            entry(
                false,
                "relative distance to the mean of rows with the same predicted class",
                "features; logits or head",
            ),
            entry(
                true,
                "the same, with errors for and against the class apart and weighed by the energy",
                "features and head",
            ),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        self.known_as().into()
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }
}

impl Fit for CadrefParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn uses_head(&self) -> bool {
        self.decoupled
    }

    fn needs(&self) -> Needs {
        Needs { predicted: true, channels: true, energy: self.decoupled, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let name = self.known_as();
        let source = LogitSource::of(training.data, training.head, None, Need::Method(name))?;
        let mut means = known.predicted().by_class(source.classes(), &training.data.name)?;
        for (class, mut mean) in means.rows_mut().into_iter().enumerate() {
            if known.predicted().of(class).is_none() {
                mean.assign(&known.channels().mean);
            }
        }
        let mean_energy = if self.decoupled { *known.energy() } else { 1.0 };
        if mean_energy <= 0.0 {
            return Err(Error::shape(
                format!("the mean energy of {}, by which cadref divides,", training.data.name),
                "above 0 (use caref where it is not)",
                format!("{mean_energy}"),
            ));
        }
        let head = training.head.map(Head::without_block);
        Ok(from_known(self, known, Cadref { params: *self, means, mean_energy, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(Cadref {
            params: *self,
            means: stored.matrix("means", None, stored.width)?,
            mean_energy: if self.decoupled { stored.number("mean energy")? } else { 1.0 },
            head: if self.decoupled { Some(stored.required_head()?) } else { stored.head()? },
        }))
    }
}

/// The mean of each predicted class.
#[derive(Debug, Clone)]
struct Cadref {
    params: CadrefParams,
    /// ν_k; the mean of all rows for a class that is never predicted.
    means: Array2<f64>,
    /// Ē
    mean_energy: f64,
    head: Option<Head>,
}

impl Cadref {
    fn of(&self, z: &[f64], logits: &[f64]) -> f64 {
        let class = predicted(logits);
        let mean = self.means.row(class);
        let offsets = z.iter().zip(&mean).map(|(z, mean)| z - mean);
        let size: f64 = z.iter().map(|x| x.abs()).sum();
        if size <= 0.0 {
            return f64::NEG_INFINITY;
        }
        let head = self.head.as_ref().filter(|_| self.params.decoupled);
        let Some(head) = head else {
            return or_worst(-offsets.map(f64::abs).sum::<f64>() / size);
        };
        let energy = energy(logits, 1.0);
        if energy <= 0.0 {
            // As E falls to 0, the first part grows without bound.
            return f64::NEG_INFINITY;
        }
        let (mut for_it, mut against) = (0.0, 0.0);
        for (offset, weight) in offsets.zip(head.weight.row(class)) {
            // Entries without weight speak neither way.
            let signed = if *weight == 0.0 { 0.0 } else { weight.signum() * offset };
            for_it += signed.max(0.0);
            against += (-signed).max(0.0);
        }
        or_worst(-(for_it / energy + against / self.mean_energy) / size)
    }
}

impl Scorer for Cadref {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        let (name, classes) = (self.params.known_as(), self.means.nrows());
        logits_of_classes(name, data, self.head.as_ref(), classes).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let (name, classes) = (self.params.known_as(), self.means.nrows());
        let source = logits_of_classes(name, data, self.head.as_ref(), classes)?;
        let logits = source.logits(start, out.len())?;
        for ((out, z), logits) in out.iter_mut().zip(z.rows()).zip(logits.rows()) {
            *out = self.of(contiguous(&z), contiguous(&logits));
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let classes = Some(self.means.nrows());
        let logits = logits_graph(rows, self.head.as_ref(), classes, builder);
        let predicted = builder.place_of_largest(logits);
        let means = builder.matrix("means", self.means.view());
        let mean = builder.rows_at(means, predicted);
        let offset = builder.sub(rows.features, mean);
        let sizes = builder.abs(rows.features);
        let size = builder.sum(sizes);
        let (zero, one) = (builder.scalar(0.0), builder.scalar(1.0));
        let lowest = builder.scalar(f64::NEG_INFINITY);
        let is_zero = builder.node(Op::LessOrEqual, &[size, zero]);
        let size = builder.choose(is_zero, one, size);
        let head = self.head.as_ref().filter(|_| self.params.decoupled);
        let Some(head) = head else {
            let offsets = builder.abs(offset);
            let apart = builder.sum(offsets);
            let share = builder.div(apart, size);
            let score = builder.neg(share);
            return Ok(builder.choose(is_zero, lowest, score));
        };
        let energy = builder.log_sum_exp(logits, 1.0);
        let without_energy = builder.node(Op::LessOrEqual, &[energy, zero]);
        let energy = builder.choose(without_energy, one, energy);
        let weights = builder.matrix("weights", head.weight.view());
        let weight = builder.rows_at(weights, predicted);
        let sign = builder.node(Op::Sign, &[weight]);
        let signed = builder.mul(sign, offset);
        let for_it = builder.node(Op::Relu, &[signed]);
        let for_it = builder.sum(for_it);
        let for_it = builder.div(for_it, energy);
        let against = builder.neg(signed);
        let against = builder.node(Op::Relu, &[against]);
        let against = builder.sum(against);
        let against = builder.times(against, 1.0 / self.mean_energy);
        let apart = builder.add(for_it, against);
        let share = builder.div(apart, size);
        let score = builder.neg(share);
        let is_worst = builder.node(Op::Or, &[is_zero, without_energy]);
        Ok(builder.choose(is_worst, lowest, score))
    }

    fn found(&self) -> Found {
        match self.params.decoupled {
            true => Found::from([("mean energy".to_owned(), self.mean_energy)]),
            false => Found::new(),
        }
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}means"), &self.means);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
