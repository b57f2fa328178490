//! OptFS with the score that its factors come from: Σ_j w_ŷj·z'_j, the predicted class's logit of shaped
//! features, without the bias. ŷ is the prediction on features as they are.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{
    Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of_classes, write_head,
};
use super::option::Options;
use super::rectify::params::OptFsParams;
use super::rectify::{OptFs, StepParams};
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous;
use crate::training::logits::predicted;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};

const NAME: &str = "opt-fs-v";

/// Parameters of OptFS with its own score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptFsVParams {
    /// Those of the step.
    pub shaping: OptFsParams,
}

impl Method for OptFsVParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "the predicted class's logit of features shaped by opt-fs",
            needs: "features and head",
            source: "Zhao et al., Towards Optimal Feature-Shaping Methods for Out-of-Distribution Detection, 2024",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        self.shaping.options(options)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        self.shaping.check()?;
        Ok(Arc::new(*self))
    }
}

impl Fit for OptFsVParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn uses_head(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        self.shaping.needs()
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head(NAME)?.without_block();
        let shaping = OptFs::fit(self.shaping, NAME, training, known)?;
        Ok(from_known(self, known, OptFsV { shaping, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let shaping = OptFs::read(self.shaping, stored)?;
        Ok(Arc::new(OptFsV { shaping, head: stored.required_head()? }))
    }
}

/// Factors of activations, and the last layer.
#[derive(Debug, Clone)]
struct OptFsV {
    shaping: OptFs,
    head: Head,
}

impl Scorer for OptFsV {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of_classes(NAME, data, Some(&self.head), self.head.classes()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let source = logits_of_classes(NAME, data, Some(&self.head), self.head.classes())?;
        let logits = source.logits(start, out.len())?;
        for ((out, z), logits) in out.iter_mut().zip(z.rows()).zip(logits.rows()) {
            let weight = self.head.weight.row(predicted(contiguous(&logits)));
            *out =
                z.iter().zip(weight).map(|(x, weight)| weight * self.shaping.factor(*x) * x).sum();
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, Some(&self.head), None, builder);
        let predicted = builder.place_of_largest(logits);
        let weights = builder.matrix("weights", self.head.weight.view());
        let weight = builder.rows_at(weights, predicted);
        let factor = self.shaping.factor_graph(rows.features, builder);
        let shaped = builder.mul(rows.features, factor);
        let products = builder.mul(shaped, weight);
        Ok(builder.sum(products))
    }

    fn found(&self) -> Found {
        self.shaping.ends()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.shaping.put(prefix, writer);
        write_head(Some(&self.head), prefix, writer);
    }
}
