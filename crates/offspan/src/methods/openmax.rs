//! OpenMax (Bendale & Boult 2016): the largest logits are lowered by how far the row's logits lie from the
//! class's typical ones, and what they lose becomes the logit of the unknown; minus its probability.

use std::sync::Arc;

use ndarray::{Array1, Array2};
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{
    Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of_classes, or_worst, write_head,
};
use super::option::{OptionInfo, Options, option};
use crate::graph::{Builder, Op, Value};
use crate::io::{Dataset, Head, TensorWriter};
use crate::numeric::vector::{self, contiguous};
use crate::numeric::weibull::{Weibull, fit_weibull};
use crate::training::logits::{LogitSource, Need, energy, predicted};
use crate::training::part::{Field, Part, Smallest};
use crate::training::statistics::{Needs, Statistics, labels_of};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "openmax";
const RANKS: OptionInfo =
    option("ranks", "A", "openmax: how many of the largest logits are lowered");
const TAIL: OptionInfo =
    option("tail", "N", "openmax: largest distances of a class to which a distribution is fitted");

/// Parameters of OpenMax.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenMaxParams {
    /// α
    pub ranks: usize,
    /// Rows of the tail; all of a class where there are fewer.
    pub tail: usize,
}

impl Default for OpenMaxParams {
    fn default() -> Self {
        OpenMaxParams { ranks: 3, tail: 20 }
    }
}

impl Method for OpenMaxParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "probability of an unknown class by the tails of distances to typical logits",
            needs: "logits, or features and head; labels",
            source: "Bendale & Boult, Towards Open Set Deep Networks, 2016",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&RANKS, &mut self.ranks)?;
        options.add(&TAIL, &mut self.tail).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if self.ranks == 0 {
            return Err(Error::parameter("ranks", "at least 1", 0));
        }
        if self.tail < 2 {
            return Err(Error::parameter(
                "tail",
                "at least 2, to see how distances spread",
                self.tail,
            ));
        }
        Ok(Arc::new(*self))
    }
}

impl Fit for OpenMaxParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { recognised_logits: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let source = LogitSource::of(training.data, training.head, None, Need::Method(NAME))?;
        let centres = known.recognised_logits().by_class(source.classes(), &training.data.name)?;
        let tails = tails(self.tail, training, &source, &centres)?;
        let fits: Vec<Option<Tail>> = tails.iter().map(|tail| Tail::fit(tail)).collect();
        if fits.iter().all(Option::is_none) {
            return Err(Error::NoVariance {
                what: format!("{}, in the distances of rows to their class", training.data.name),
            });
        }
        let tails = Array2::from_shape_fn((fits.len(), 3), |(class, number)| {
            fits[class].map_or(0.0, |tail| tail.numbers()[number])
        });
        let head = training.head.map(Head::without_block);
        Ok(from_known(self, known, OpenMax { ranks: self.ranks, centres, tails, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let centres: Array2<f64> = stored.matrix_of_any("centres")?;
        let classes = centres.nrows();
        if centres.ncols() != classes {
            let got = format!("{:?}", centres.shape());
            return Err(Error::shape("`centres` of the detector", "a square", got));
        }
        let tails = stored.matrix("tails", Some(classes), 3)?;
        Ok(Arc::new(OpenMax { ranks: self.ranks, centres, tails, head: stored.head()? }))
    }
}

/// The largest distances of recognised rows to the mean logits of their class, ascending.
fn tails(
    tail: usize,
    training: &Training<'_>,
    source: &LogitSource<'_>,
    centres: &Array2<f64>,
) -> Result<Vec<Vec<f64>>> {
    let stage = "distances to typical logits";
    let labels = training.labels(NAME)?;
    let name = |class: usize| format!("class {class}");
    let mut part = training.pass(stage, || {
        let mut largest = vec![Smallest::new(tail); centres.nrows()];
        training.for_each_logits(stage, source, |rows, logits| {
            let labels = labels_of(labels, rows)?;
            for ((&row, logits), label) in rows.iter().zip(logits.rows()).zip(labels) {
                let class = predicted(contiguous(&logits));
                if label == class as i64 {
                    let centre = centres.row(class);
                    let squared =
                        vector::squared_distance(contiguous(&logits), contiguous(&centre));
                    largest[class].add([(-squared.sqrt(), row)]);
                }
            }
            Ok(())
        })?;
        let largest = largest.into_iter().enumerate();
        Ok(largest.fold(Part::default(), |part, (class, largest)| {
            part.with(&name(class), Field::Smallest(largest))
        }))
    })?;
    let of_class = |class: usize| -> Result<Vec<f64>> {
        let largest: Smallest = part.take(&name(class))?;
        Ok(largest.keys().into_iter().rev().map(|key| -key).collect())
    };
    (0..centres.nrows()).map(of_class).collect()
}

/// Where the tail of a class begins, and its distribution.
#[derive(Debug, Clone, Copy)]
struct Tail {
    first: f64,
    weibull: Weibull,
}

impl Tail {
    /// None where distances do not differ: they have no spread to fit.
    fn fit(distances: &[f64]) -> Option<Tail> {
        let first = *distances.first()?;
        let shifted: Vec<f64> = distances.iter().map(|t| t - first + 1.0).collect();
        fit_weibull(&shifted).map(|weibull| Tail { first, weibull })
    }

    fn numbers(self) -> [f64; 3] {
        [self.first, self.weibull.shape, self.weibull.scale]
    }
}

/// Typical logits and the tail of each class.
#[derive(Debug, Clone)]
struct OpenMax {
    ranks: usize,
    /// v_c, one row per class.
    centres: Array2<f64>,
    /// First distance, shape and scale of each class; shape 0 where there is no fit.
    tails: Array2<f64>,
    head: Option<Head>,
}

impl OpenMax {
    /// The chance of a smaller distance to the class; 0 where nothing could be fitted.
    fn share(&self, class: usize, logits: &[f64]) -> f64 {
        let [first, shape, scale] = [0, 1, 2].map(|i| self.tails[[class, i]]);
        if shape <= 0.0 {
            return 0.0;
        }
        let centre = self.centres.row(class);
        let distance = vector::squared_distance(logits, contiguous(&centre)).sqrt();
        Weibull { shape, scale }.share_below(distance - first + 1.0)
    }

    fn of(&self, logits: &[f64]) -> f64 {
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
        let mut lowered = logits.to_vec();
        let mut unknown = 0.0;
        for (place, &class) in order.iter().take(self.ranks).enumerate() {
            let weight = (self.ranks - place) as f64 / self.ranks as f64;
            let lost = logits[class] * (weight * self.share(class, logits));
            lowered[class] = logits[class] - lost;
            unknown += lost;
        }
        or_worst(-1.0 / (1.0 + (energy(&lowered, 1.0) - unknown).exp()))
    }
}

impl Scorer for OpenMax {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of_classes(NAME, data, self.head.as_ref(), self.centres.nrows()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let source = logits_of_classes(NAME, data, self.head.as_ref(), self.centres.nrows())?;
        let logits = source.logits(start, out.len())?;
        for (out, row) in out.iter_mut().zip(logits.rows()) {
            *out = self.of(contiguous(&row));
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let classes = self.centres.nrows();
        let ranks = self.ranks.min(classes);
        let logits = logits_graph(rows, self.head.as_ref(), Some(classes), builder);
        let (sorted, places) = builder.top_k(logits, classes, true);
        let (first, places) = (builder.part(sorted, 0, ranks), builder.part(places, 0, ranks));
        let centres = builder.matrix("centres", self.centres.view());
        let centres = builder.rows_at(centres, places);
        let row = builder.reshape(logits, &[1, classes]);
        let offsets = builder.sub(row, centres);
        let distance = builder.length(offsets);
        let [start, shape, scale] =
            [(0, "starts"), (1, "shapes"), (2, "scales")].map(|(i, name)| {
                let numbers = builder.vector(name, &self.tails.column(i).to_owned());
                builder.rows_at(numbers, places)
            });
        let (zero, one) = (builder.scalar(0.0), builder.scalar(1.0));
        let shifted = builder.sub(distance, start);
        let shifted = builder.add(shifted, one);
        let has_tail = builder.node(Op::Greater, &[shape, zero]);
        let is_positive = builder.node(Op::Greater, &[shifted, zero]);
        let counts = builder.node(Op::And, &[has_tail, is_positive]);
        let scale = builder.choose(has_tail, scale, one);
        let relative = builder.div(shifted, scale);
        let relative = builder.choose(counts, relative, zero);
        let power = builder.node(Op::Pow, &[relative, shape]);
        let exponent = builder.neg(power);
        let share = builder.exp_minus_one(exponent);
        let share = builder.neg(share);
        let share = builder.choose(counts, share, zero);
        let weights = (0..ranks).map(|place| (self.ranks - place) as f64 / self.ranks as f64);
        let weights = builder.vector("rank_weights", &weights.collect());
        let lost = builder.mul(first, weights);
        let lost = builder.mul(lost, share);
        let mut lowered = vec![builder.sub(first, lost)];
        if ranks < classes {
            lowered.push(builder.part(sorted, ranks, classes));
        }
        let lowered = builder.joined(&lowered);
        let energy = builder.log_sum_exp(lowered, 1.0);
        let unknown = builder.sum(lost);
        let above = builder.sub(energy, unknown);
        let power = builder.exp(above);
        let divisor = builder.add(power, one);
        let probability = builder.div(one, divisor);
        Ok(builder.neg(probability))
    }

    fn found(&self) -> Found {
        let shapes: Array1<f64> = self.tails.column(1).to_owned();
        let without = shapes.iter().filter(|shape| **shape <= 0.0).count();
        Found::from([("classes without a tail".to_owned(), without as f64)])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}centres"), &self.centres);
        writer.array2(format!("{prefix}tails"), &self.tails);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
