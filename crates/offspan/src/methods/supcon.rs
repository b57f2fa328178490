//! The same scores on the features of a network trained with a contrastive loss (SupCon): KNN+ and
//! SSD+. Rows carry those features as a tensor of their own.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::knn::KnnParams;
use super::mahalanobis::SsdParams;
use super::memory::FitSize;
use super::method::{Entry, Fit, Method};
use super::model::{Found, Model, RowValues, Scorer, Stored};
use super::option::Options;
use super::spec::{MethodSpec, ValidMethod};
use crate::graph::{Builder, Value};
use crate::io::{Dataset, TensorWriter};
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const SUPCON: &str = "supcon";
const HINT: &str = "store the features of a network trained with a contrastive loss (SupCon) as \
                    `supcon` [rows, width] beside `features`";

/// A method on the features of a SupCon network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SupconParams {
    /// `Knn` or `Ssd`.
    pub score: Box<MethodSpec>,
}

impl SupconParams {
    fn name(&self) -> &'static str {
        match *self.score {
            MethodSpec::Ssd(_) => "ssd-plus",
            _ => "knn-plus",
        }
    }
}

impl Method for SupconParams {
    fn entries() -> Vec<Entry<Self>> {
        let needs = "`supcon` [rows, width]: features of a SupCon network";
        vec![
            Entry {
                name: "knn-plus",
                summary: "knn on the features of a network trained with a contrastive loss",
                needs,
                source: "Sun et al., 2022",
                parity: "as knn",
                default: SupconParams { score: Box::new(KnnParams::default().into()) },
            },
            Entry {
                name: "ssd-plus",
                summary: "ssd on the features of a network trained with a contrastive loss",
                needs,
                source: "Sehwag et al., 2021",
                parity: "as ssd",
                default: SupconParams { score: Box::new(SsdParams::default().into()) },
            },
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        SupconParams::name(self).into()
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        self.score.params_mut().options(options)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if !matches!(*self.score, MethodSpec::Knn(_) | MethodSpec::Ssd(_)) {
            return Err(Error::parameter("supcon", "knn or ssd", self.score.method()));
        }
        let score = self.score.check()?;
        *self.score = score.spec().clone();
        Ok(Arc::new(ValidSupcon { name: SupconParams::name(self), score }))
    }

    fn follows_steps(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct ValidSupcon {
    name: &'static str,
    score: ValidMethod,
}

impl Fit for ValidSupcon {
    fn memory(&self, size: &FitSize) -> u64 {
        self.score.memory(size)
    }

    fn check_inputs(&self, name: &str, training: &Training<'_>) -> Result<()> {
        let data = supcon_rows(name, training.data)?;
        self.score.check_inputs(&training.on(&data))
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let data = supcon_rows(self.name, training.data)?;
        let training = training.on(&data);
        let known = Statistics::gather(&training, &self.score.needs())?;
        let (name, width) = (self.name, data.width());
        let fitted = self.score.fit(&training, &known)?;
        Ok(fitted.map(|score| Arc::new(OnSupcon { name, score, width }) as Model))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let width = stored.number("supcon width")? as usize;
        let score = self.score.read(stored.file, stored.prefix, stored.summary, width)?;
        Ok(Arc::new(OnSupcon { name: self.name, score, width }))
    }
}

/// The rows with their SupCon features in place of the others.
fn supcon_rows<'a>(who: &str, data: &'a Dataset<'_>) -> Result<Dataset<'a>> {
    let extra = data.extra(who, SUPCON, HINT)?;
    let mut rows = Dataset::new(data.name.clone(), &*extra.rows);
    rows.labels.clone_from(&data.labels);
    Ok(rows)
}

/// A method on the SupCon features of the rows.
#[derive(Debug, Clone)]
struct OnSupcon {
    name: &'static str,
    score: Model,
    width: usize,
}

impl Scorer for OnSupcon {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        let on = supcon_rows(self.name, data)?;
        if on.width() == self.width {
            return self.score.check_inputs(&on);
        }
        Err(Error::shape(
            format!("`{SUPCON}` of {}", data.name),
            format!("{} columns, as in training", self.width),
            format!("{} columns", on.width()),
        ))
    }

    fn extras(&self) -> &'static [&'static str] {
        &[SUPCON]
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        self.score.score(&supcon_rows(self.name, data)?, start, out)
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let _ = rows;
        let features = builder.input(SUPCON, &[self.width]);
        self.score.graph(RowValues { features, logits: None }, builder)
    }

    fn found(&self) -> Found {
        let mut found = self.score.found();
        found.insert("supcon width".to_owned(), self.width as f64);
        found
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.score.write(prefix, writer);
    }
}
