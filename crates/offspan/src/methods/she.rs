//! SHE (Zhang et al. 2023): ⟨z, μ_ŷ⟩ with ŷ the predicted class and μ_c the mean of the training rows
//! of class c that the network recognises.

use std::sync::Arc;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{
    Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, logits_of_classes, write_head,
};
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::vector::{self, contiguous};
use crate::training::logits::{LogitSource, Need, predicted};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};

const NAME: &str = "she";

/// Parameters of SHE: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SheParams {}

impl Method for SheParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "product with the mean feature of the predicted class",
            needs: "features, labels; logits or head",
            source: "Zhang et al., Out-of-Distribution Detection based on In-Distribution Data Patterns Memorization, 2023",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }
}

impl Fit for SheParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { classes: true, recognised: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let source = LogitSource::of(training.data, training.head, None, Need::Method(NAME))?;
        let mut patterns = known.classes().by_class(source.classes(), &training.data.name)?;
        let mut unrecognised = 0;
        for (class, mut pattern) in patterns.rows_mut().into_iter().enumerate() {
            match known.recognised().of(class) {
                Some(mean) => pattern.assign(&mean),
                // The mean of all its rows then has to do.
                None => unrecognised += 1,
            }
        }
        let head = training.head.map(Head::without_block);
        Ok(from_known(self, known, She { patterns, unrecognised, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(She {
            patterns: stored.matrix("patterns", None, stored.width)?,
            unrecognised: stored.number("classes without a recognised row")? as usize,
            head: stored.head()?,
        }))
    }
}

/// One pattern per class.
#[derive(Debug, Clone)]
struct She {
    patterns: Array2<f64>,
    unrecognised: usize,
    head: Option<Head>,
}

impl Scorer for She {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        let classes = self.patterns.nrows();
        logits_of_classes(NAME, data, self.head.as_ref(), classes).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let logits = logits_of(NAME, data, self.head.as_ref())?.logits(start, out.len())?;
        for ((out, z), logits) in out.iter_mut().zip(z.rows()).zip(logits.rows()) {
            let pattern = self.patterns.row(predicted(contiguous(&logits)));
            *out = vector::dot(contiguous(&z), contiguous(&pattern));
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let classes = Some(self.patterns.nrows());
        let logits = logits_graph(rows, self.head.as_ref(), classes, builder);
        let predicted = builder.place_of_largest(logits);
        let patterns = builder.matrix("patterns", self.patterns.view());
        let pattern = builder.rows_at(patterns, predicted);
        let products = builder.mul(rows.features, pattern);
        Ok(builder.sum(products))
    }

    fn found(&self) -> Found {
        let name = "classes without a recognised row".to_owned();
        Found::from([(name, self.unrecognised as f64)])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}patterns"), &self.patterns);
        write_head(self.head.as_ref(), prefix, writer);
    }
}
