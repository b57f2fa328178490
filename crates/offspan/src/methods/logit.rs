//! Scores of the logits alone: nothing is fitted.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Model, RowValues, Scorer, Stored, logits_graph, logits_of, write_head};
use super::option::{OptionInfo, Options, option};
use crate::graph::{Builder, Value};
use crate::io::{Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous;
use crate::training::logits::energy;
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const TEMPERATURE: OptionInfo = option("temperature", "T", "Temperature of the softmax");

/// A score of the logits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "score", rename_all = "kebab-case")]
pub enum LogitScore {
    /// The largest softmax probability (Hendrycks & Gimpel 2017).
    Msp,
    /// The largest logit (Hendrycks et al. 2022).
    MaxLogit,
    /// T·logsumexp(l/T) (Liu et al. 2020).
    Energy {
        /// T
        temperature: f64,
    },
    /// The largest softmax probability of l/T: ODIN without its perturbation of the input, which
    /// needs the network (Liang et al. 2018).
    Odin {
        /// T
        temperature: f64,
    },
}

impl Method for LogitScore {
    fn entries() -> Vec<Entry<Self>> {
        let entry = |name, summary, source, default| Entry {
            name,
            summary,
            needs: "logits, or features and head",
            source,
            parity: GOLDEN_BASELINE,
            default,
        };
        vec![
            entry(
                "msp",
                "largest softmax probability",
                "Hendrycks & Gimpel, A Baseline for Detecting Misclassified and Out-of-Distribution Examples, 2017",
                LogitScore::Msp,
            ),
            entry(
                "max-logit",
                "largest logit",
                "Hendrycks et al., Scaling Out-of-Distribution Detection for Real-World Settings, 2022",
                LogitScore::MaxLogit,
            ),
            entry(
                "energy",
                "logsumexp of the logits",
                "Liu et al., Energy-based Out-of-distribution Detection, 2020",
                LogitScore::Energy { temperature: 1.0 },
            ),
            entry(
                "odin",
                "largest softmax probability at a high temperature; without the perturbation of the input, which needs the network",
                "Liang et al., Enhancing the Reliability of Out-of-distribution Image Detection, 2018",
                LogitScore::Odin { temperature: 1000.0 },
            ),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        LogitScore::name(*self).into()
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        match self {
            LogitScore::Msp | LogitScore::MaxLogit => Ok(()),
            LogitScore::Energy { temperature } | LogitScore::Odin { temperature } => {
                options.add(&TEMPERATURE, temperature).map(drop)
            }
        }
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        match *self {
            LogitScore::Energy { temperature } | LogitScore::Odin { temperature }
                if !(temperature > 0.0 && temperature.is_finite()) =>
            {
                Err(Error::parameter("temperature", "a number above 0", temperature))
            }
            score => Ok(Arc::new(score)),
        }
    }
}

impl Fit for LogitScore {
    fn uses_logits(&self) -> bool {
        true
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head.map(Head::without_block);
        Ok(from_known(self, known, LogitModel { score: *self, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(LogitModel { score: *self, head: stored.head()? }))
    }
}

impl LogitScore {
    fn name(self) -> &'static str {
        match self {
            LogitScore::Msp => "msp",
            LogitScore::MaxLogit => "max-logit",
            LogitScore::Energy { .. } => "energy",
            LogitScore::Odin { .. } => "odin",
        }
    }

    /// The score of one row.
    fn of(self, logits: &[f64]) -> f64 {
        let largest = logits.iter().fold(f64::NEG_INFINITY, |m, &l| m.max(l));
        let top_probability = |temperature: f64| {
            1.0 / logits.iter().map(|l| ((l - largest) / temperature).exp()).sum::<f64>()
        };
        match self {
            LogitScore::Msp => top_probability(1.0),
            LogitScore::MaxLogit => largest,
            LogitScore::Energy { temperature } => energy(logits, temperature),
            LogitScore::Odin { temperature } => top_probability(temperature),
        }
    }
}

/// The last layer is kept for rows that come without logits.
#[derive(Debug, Clone)]
pub(crate) struct LogitModel {
    score: LogitScore,
    head: Option<Head>,
}

impl Scorer for LogitModel {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(self.score.name(), data, self.head.as_ref()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let source = logits_of(self.score.name(), data, self.head.as_ref())?;
        let logits = source.logits(start, out.len())?;
        for (out, row) in out.iter_mut().zip(logits.rows()) {
            *out = self.score.of(contiguous(&row));
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, self.head.as_ref(), None, builder);
        let top_probability = |temperature: f64, builder: &mut Builder<'a>| {
            let largest = builder.largest_kept(logits);
            let below = builder.sub(logits, largest);
            let below = builder.times(below, 1.0 / temperature);
            let powers = builder.exp(below);
            let sum = builder.sum(powers);
            let one = builder.scalar(1.0);
            builder.div(one, sum)
        };
        Ok(match self.score {
            LogitScore::Msp => top_probability(1.0, builder),
            LogitScore::MaxLogit => builder.largest(logits),
            LogitScore::Energy { temperature } => builder.log_sum_exp(logits, temperature),
            LogitScore::Odin { temperature } => top_probability(temperature, builder),
        })
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        write_head(self.head.as_ref(), prefix, writer);
    }
}
