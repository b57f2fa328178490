//! fDBD (Liu & Qin 2024): the mean distance to the decision boundaries with the other classes, over the
//! distance to the training mean, or over the norm.

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::Array1;
use serde::{Deserialize, Serialize};

use super::class_pairs::ClassPairs;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{
    Model, RowValues, Scorer, Stored, logits_graph, logits_of_classes, or_worst, write_head,
};
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::vector::{self, contiguous};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};

/// Parameters of fDBD.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FdbdParams {
    /// Whether distances are taken relative to ‖z‖ instead of ‖z − μ‖.
    pub by_norm: bool,
}

fn name_of(by_norm: bool) -> &'static str {
    if by_norm { "fdbd-norm" } else { "fdbd" }
}

impl Method for FdbdParams {
    fn entries() -> Vec<Entry<Self>> {
        let entry = |by_norm, summary| Entry {
            name: name_of(by_norm),
            summary,
            needs: "features and head",
            source: "Liu & Qin, Fast Decision Boundary based Out-of-Distribution Detector, 2024",
            parity: GOLDEN_BASELINE,
            default: FdbdParams { by_norm },
        };
        vec![
            entry(false, "distance to decision boundaries, relative to that to the training mean"),
            entry(true, "distance to decision boundaries, relative to the norm"),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        name_of(self.by_norm).into()
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }
}

impl Fit for FdbdParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn uses_head(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { channels: !self.by_norm, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let name = name_of(self.by_norm);
        let head = training.head(name)?.without_block();
        let pairs = known.once("pairs of classes", || ClassPairs::of(&head, name))?;
        let origin = match self.by_norm {
            true => Array1::zeros(training.data.width()),
            false => known.channels().mean.clone(),
        };
        Ok(from_known(self, known, Fdbd { name, origin, pairs, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let head = stored.required_head()?;
        Ok(Arc::new(Fdbd {
            name: name_of(self.by_norm),
            origin: stored.vector("origin", stored.width)?,
            pairs: ClassPairs::read(stored, head.classes())?,
            head,
        }))
    }
}

/// What distances are relative to, and the boundaries.
#[derive(Debug, Clone)]
struct Fdbd {
    name: &'static str,
    /// The training mean, or zeros.
    origin: Array1<f64>,
    pairs: ClassPairs,
    head: Head,
}

impl Scorer for Fdbd {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of_classes(self.name, data, Some(&self.head), self.pairs.classes()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let source = logits_of_classes(self.name, data, Some(&self.head), self.pairs.classes())?;
        let logits = source.logits(start, out.len())?;
        for ((out, z), logits) in out.iter_mut().zip(z.rows()).zip(logits.rows()) {
            let squared = vector::squared_distance(contiguous(&z), contiguous(&self.origin));
            *out = if squared > 0.0 {
                or_worst(self.pairs.mean_margin(contiguous(&logits)) / squared.sqrt())
            } else {
                f64::NEG_INFINITY
            };
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, Some(&self.head), None, builder);
        let margin = self.pairs.margin_graph(logits, builder);
        let origin = builder.vector("origin", &self.origin);
        let offset = builder.sub(rows.features, origin);
        let (_, length, is_zero) = builder.unit_rows(offset);
        let length = builder.as_row(length);
        let score = builder.div(margin, length);
        Ok(builder.put_last(is_zero, score))
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}origin"), &self.origin);
        self.pairs.write(prefix, writer);
        write_head(Some(&self.head), prefix, writer);
    }
}
