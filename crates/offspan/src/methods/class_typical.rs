//! Class-typical matching: the largest cosine of z with what stands for a class, its weights in the last
//! layer or the mean of its training rows.

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored};
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, TensorWriter};
use crate::numeric::product::unpacked;
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::span::preprocess::normalise;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};

/// Parameters of class-typical matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CtmParams {
    /// What stands for a class.
    pub prototypes: Prototypes,
}

/// What stands for a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prototypes {
    /// Its weights in the last layer.
    Weight,
    /// The mean of its training rows.
    Mean,
}

impl Method for CtmParams {
    fn entries() -> Vec<Entry<Self>> {
        let entry = |prototypes, summary, needs| Entry {
            name: name_of(prototypes),
            summary,
            needs,
            source: "Ngoc-Hieu et al., Class Typical Matching, 2023",
            parity: GOLDEN_BASELINE,
            default: CtmParams { prototypes },
        };
        vec![
            entry(Prototypes::Weight, "largest cosine with a class's weights", "features and head"),
            entry(Prototypes::Mean, "largest cosine with a class mean", "features and labels"),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        name_of(self.prototypes).into()
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }
}

fn name_of(prototypes: Prototypes) -> &'static str {
    match prototypes {
        Prototypes::Weight => "ctm-weight",
        Prototypes::Mean => "ctm-mean",
    }
}

impl Fit for CtmParams {
    fn uses_head(&self) -> bool {
        self.prototypes == Prototypes::Weight
    }

    fn needs(&self) -> Needs {
        Needs { classes: self.prototypes == Prototypes::Mean, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let mut directions = match self.prototypes {
            Prototypes::Weight => training.head(name_of(self.prototypes))?.weight.clone(),
            Prototypes::Mean => known.classes().means.clone(),
        };
        for mut row in directions.rows_mut() {
            // One of zeros has no direction and a cosine of 0 with everything.
            normalise(contiguous_mut(&mut row));
        }
        Ok(from_known(self, known, Ctm { directions }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(Ctm { directions: stored.matrix("directions", None, stored.width)? }))
    }
}

/// Unit vectors, one per class.
#[derive(Debug, Clone)]
struct Ctm {
    directions: Array2<f64>,
}

impl Scorer for Ctm {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let mut products = Array2::zeros((out.len(), self.directions.nrows()));
        unpacked::multiply(products.view_mut(), z.view(), self.directions.t());
        for ((out, z), products) in out.iter_mut().zip(z.rows()).zip(products.rows()) {
            let norm = vector::sum_of_squares(contiguous(&z)).sqrt();
            let largest = products.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x));
            *out = if norm > 0.0 { largest / norm } else { f64::NEG_INFINITY };
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let (unit, _, is_zero) = builder.unit_rows(rows.features);
        let cosines = builder.linear("directions", unit, self.directions.view());
        let largest = builder.largest(cosines);
        Ok(builder.put_last(is_zero, largest))
    }

    fn found(&self) -> Found {
        Found::from([("classes".to_owned(), self.directions.nrows() as f64)])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}directions"), &self.directions);
    }
}
