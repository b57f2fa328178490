//! Relative Mahalanobis distance (Ren et al. 2021): −d_c² + d_0² for the nearest class, with d_c the distance
//! to its mean under the covariance inside the classes, and d_0 that to the mean of all under the total one.
//!
//! The two are large and their difference is small, so both whitenings are refined by a pass over whitened
//! rows: a covariance alone has lost half of the digits.

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};

use super::mahalanobis::Mahalanobis;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored, or_worst};
use super::whitening::{largest_variance, refined, split, whitening};
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Dataset, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::rank_update::PackedRows;
use crate::span::preprocess::Preprocess;
use crate::training::part::{Field, Part};
use crate::training::statistics::{ClassMeans, Needs, Statistics, labels_of};
use crate::training::{Fitted, Training};
use crate::{Error, Moments};

const WITHIN: &str = "within.";
const TOTAL: &str = "total.";

/// Parameters of the relative Mahalanobis distance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RmdsParams {
    /// Whether rows are scaled to unit length first, for both distances.
    pub unit: bool,
}

fn name_of(unit: bool) -> &'static str {
    if unit { "rmds-pp" } else { "rmds" }
}

impl Method for RmdsParams {
    fn entries() -> Vec<Entry<Self>> {
        let entry = |unit, summary, source| Entry {
            name: name_of(unit),
            summary,
            needs: "features and labels",
            source,
            parity: GOLDEN_BASELINE,
            default: RmdsParams { unit },
        };
        vec![
            entry(
                false,
                "Mahalanobis distance to the nearest class, less that to all rows",
                "Ren et al., A Simple Fix to Mahalanobis Distance for Improving Near-OOD Detection, 2021",
            ),
            entry(true, "the same on unit vectors", "Mueller & Hein, Mahalanobis++, 2025"),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        name_of(self.unit).into()
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }
}

impl Fit for RmdsParams {
    fn needs(&self) -> Needs {
        let unit = self.unit;
        Needs {
            moments: !unit,
            classes: !unit,
            unit_moments: unit,
            unit_classes: unit,
            ..Needs::default()
        }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let (moments, classes) = match self.unit {
            true => (known.unit_moments(), known.unit_classes()),
            false => (known.moments(), known.classes()),
        };
        let (offsets, within) = split(moments, classes);
        let scale = largest_variance(&moments.covariance());
        let rough = training.settled_basis(|| {
            let name = &training.data.name;
            let within = whitening(&within, scale, &format!("{name}, inside each class"))?;
            Ok([within, whitening(&moments.covariance(), scale, name)?])
        })?;
        let mut part = self.whitened(training, moments, classes, &rough)?;
        let within = refined(&rough[0], &part.take::<Moments>("within")?)?;
        let total = refined(&rough[1], &part.take::<Moments>("total")?)?;
        let centres = linalg::product(offsets.view(), within.t());
        let (unit, centre) = (self.unit, moments.mean().clone());
        let nearest = Mahalanobis { unit, centre: centre.clone(), whitening: within, centres };
        let centres = Array2::zeros((1, total.nrows()));
        let all = Mahalanobis { unit, centre, whitening: total, centres };
        Ok(from_known(self, known, Rmds { nearest, all }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let part = |name: &str| {
            let prefix = format!("{}{name}", stored.prefix);
            Mahalanobis::read(self.unit, Stored { prefix: &prefix, ..stored })
        };
        Ok(Arc::new(Rmds { nearest: part(WITHIN)?, all: part(TOTAL)? }))
    }
}

impl RmdsParams {
    /// Moments of the training rows after each whitening.
    fn whitened(
        self,
        training: &Training<'_>,
        moments: &Moments,
        classes: &ClassMeans,
        rough: &[Array2<f64>; 2],
    ) -> Result<Part> {
        let stage = "whitened training rows";
        let labels = training.labels(name_of(self.unit))?;
        training.pass(stage, || {
            let mut packed = PackedRows::<f64>::default();
            let mut within = Moments::new(rough[0].nrows());
            let mut total = Moments::new(rough[1].nrows());
            training.for_each_chunk(stage, |numbers, z: ArrayView2<'_, f64>| {
                let mut x = z.to_owned();
                let zero = Preprocess { clip: None, cosine: self.unit }.apply(x.view_mut());
                if let Some(&row) = zero.first() {
                    return Err(training.data.zero_row(numbers[row]));
                }
                let centred = &x - moments.mean();
                total
                    .update_in(linalg::product(centred.view(), rough[1].t()).view(), &mut packed)?;
                for (mut row, label) in x.rows_mut().into_iter().zip(labels_of(labels, numbers)?) {
                    let class = classes.labels.binary_search(&label);
                    let class = class.map_err(|_| unknown_label(training, label))?;
                    row -= &classes.means.row(class);
                }
                within.update_in(linalg::product(x.view(), rough[0].t()).view(), &mut packed)
            })?;
            Ok(Part::default()
                .with("within", Field::Moments(within))
                .with("total", Field::Moments(total)))
        })
    }
}

fn unknown_label(training: &Training<'_>, label: i64) -> Error {
    Error::shape(
        format!("labels of {}", training.data.name),
        "the same in every pass over the rows",
        format!("a label {label} that was not there before"),
    )
}

/// Distance to the nearest class, and to all rows.
#[derive(Debug, Clone)]
struct Rmds {
    nearest: Mahalanobis,
    all: Mahalanobis,
}

impl Scorer for Rmds {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut all = vec![0.0; out.len()];
        self.nearest.score(data, start, out)?;
        self.all.score(data, start, &mut all)?;
        for (out, all) in out.iter_mut().zip(all) {
            // Both are −∞ for a row without direction.
            *out = or_worst(*out - all);
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let preprocess = Preprocess { clip: None, cosine: self.nearest.unit };
        let (x, is_zero) = preprocess.graph(rows.features, builder);
        let nearest = self.nearest.distance_graph(x, builder);
        let all = self.all.distance_graph(x, builder);
        let score = builder.sub(all, nearest);
        Ok(match is_zero {
            Some(is_zero) => builder.put_last(is_zero, score),
            None => score,
        })
    }

    fn found(&self) -> Found {
        Found::from([
            ("rank inside classes".to_owned(), self.nearest.whitening.nrows() as f64),
            ("rank".to_owned(), self.all.whitening.nrows() as f64),
        ])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.nearest.write(&format!("{prefix}{WITHIN}"), writer);
        self.all.write(&format!("{prefix}{TOTAL}"), writer);
    }
}
