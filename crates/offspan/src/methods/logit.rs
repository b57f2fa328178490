//! Scores of the logits alone: nothing is fitted.

use serde::{Deserialize, Serialize};

use super::model::{Scorer, Stored, logits_of, write_head};
use crate::io::{Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous;
use crate::training::Training;
use crate::training::logits::{LogitSource, Need, energy};
use crate::{Error, Result};

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

impl LogitScore {
    pub(super) fn name(self) -> &'static str {
        match self {
            LogitScore::Msp => "msp",
            LogitScore::MaxLogit => "max-logit",
            LogitScore::Energy { .. } => "energy",
            LogitScore::Odin { .. } => "odin",
        }
    }

    pub(super) fn check(self) -> Result<()> {
        match self {
            LogitScore::Energy { temperature } | LogitScore::Odin { temperature }
                if !(temperature > 0.0 && temperature.is_finite()) =>
            {
                Err(Error::parameter("temperature", "a number above 0", temperature))
            }
            _ => Ok(()),
        }
    }

    /// The score of one row.
    pub(super) fn of(self, logits: &[f64]) -> f64 {
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

impl LogitModel {
    pub(super) fn fit(score: LogitScore, training: &Training<'_>) -> Result<Self> {
        LogitSource::of(training.data, training.head, None, Need::Method(score.name()))?;
        Ok(LogitModel { score, head: training.head.map(Head::without_block) })
    }

    pub(super) fn read(score: LogitScore, stored: Stored<'_>) -> Result<Self> {
        Ok(LogitModel { score, head: stored.head()? })
    }
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

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        write_head(self.head.as_ref(), prefix, writer);
    }
}
