//! Scores of the logits alone: nothing is fitted.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{
    Model, RowValues, Scorer, Stored, known_classes, logits_graph, logits_of, write_head,
};
use super::option::{EXPONENT, OptionInfo, Options, TEMPERATURE, option};
use crate::graph::{Builder, Op, Value};
use crate::io::{Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous;
use crate::training::logits::energy;
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const OTHERS: OptionInfo =
    option("others", "N", "logit-gap: how many logits after the largest one it is compared with");

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
    /// Σ p log p, minus Shannon's entropy.
    Entropy,
    /// −log Σ p^γ / (1 − γ), minus Rényi's entropy.
    Renyi {
        /// γ
        exponent: f64,
    },
    /// The largest logit minus the mean of those that follow it (LogitGap).
    Gap {
        /// How many follow; two fewer than there are classes at most.
        others: usize,
    },
    /// Σ log(1 + exp l) over all classes, for heads with several labels per row (Wang et al. 2021).
    JointEnergy,
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
            entry(
                "entropy",
                "minus Shannon's entropy of the softmax",
                "Shannon, A Mathematical Theory of Communication, 1948",
                LogitScore::Entropy,
            ),
            entry(
                "renyi",
                "minus Rényi's entropy of the softmax, in which small probabilities count",
                "Rényi, On Measures of Entropy and Information, 1961; as used beside GEN, 2023",
                LogitScore::Renyi { exponent: 0.1 },
            ),
            entry(
                "logit-gap",
                "largest logit minus the mean of those that follow it",
                "Liang et al., LogitGap, 2025",
                LogitScore::Gap { others: 88 },
            ),
            entry(
                "joint-energy",
                "softplus of the logits, summed: for heads with several labels per row",
                "Wang et al., Can Multi-Label Classification Networks Know What They Don't Know?, 2021",
                LogitScore::JointEnergy,
            ),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        LogitScore::name(*self).into()
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        match self {
            LogitScore::Msp
            | LogitScore::MaxLogit
            | LogitScore::Entropy
            | LogitScore::JointEnergy => Ok(()),
            LogitScore::Energy { temperature } | LogitScore::Odin { temperature } => {
                options.add(&TEMPERATURE, temperature).map(drop)
            }
            LogitScore::Renyi { exponent } => options.add(&EXPONENT, exponent).map(drop),
            LogitScore::Gap { others } => options.add(&OTHERS, others).map(drop),
        }
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        match *self {
            LogitScore::Energy { temperature } | LogitScore::Odin { temperature }
                if !(temperature > 0.0 && temperature.is_finite()) =>
            {
                Err(Error::parameter("temperature", "a number above 0", temperature))
            }
            LogitScore::Renyi { exponent } if !(exponent > 0.0 && exponent < 1.0) => {
                Err(Error::parameter("exponent", "a number in (0, 1)", exponent))
            }
            LogitScore::Gap { others: 0 } => Err(Error::parameter("others", "at least 1", 0)),
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
            LogitScore::Entropy => "entropy",
            LogitScore::Renyi { .. } => "renyi",
            LogitScore::Gap { .. } => "logit-gap",
            LogitScore::JointEnergy => "joint-energy",
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
            LogitScore::Entropy => {
                let energy = energy(logits, 1.0);
                logits.iter().map(|l| (l - energy).exp() * (l - energy)).sum()
            }
            LogitScore::Renyi { exponent } => {
                // Σ p^γ = Σ exp(γ(l − E)): no probability has to be a number above 0 by itself.
                let whole = energy(logits, 1.0);
                let scaled: Vec<f64> = logits.iter().map(|l| exponent * (l - whole)).collect();
                energy(&scaled, 1.0) / (exponent - 1.0)
            }
            LogitScore::Gap { others } => gap(logits, others),
            LogitScore::JointEnergy => {
                logits.iter().map(|l| l.max(0.0) + (-l.abs()).exp().ln_1p()).sum()
            }
        }
    }
}

/// How many logits the largest one is compared with.
fn followers(classes: usize, others: usize) -> usize {
    let rest = classes.saturating_sub(1);
    others.min(rest.saturating_sub(1).max(1)).min(rest)
}

/// The largest logit minus the mean of the next ones; the smallest stays out where there are enough.
fn gap(logits: &[f64], others: usize) -> f64 {
    let mut sorted = logits.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let Some((largest, rest)) = sorted.split_first() else { return f64::NEG_INFINITY };
    let followers = &rest[..followers(logits.len(), others)];
    if followers.is_empty() {
        // One class has no rival.
        return 0.0;
    }
    // Differences first: of large logits, their sum would lose what tells them apart.
    followers.iter().map(|l| largest - l).sum::<f64>() / followers.len() as f64
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
        Ok(match self.score {
            LogitScore::Msp => builder.largest_probability(logits, 1.0),
            LogitScore::MaxLogit => builder.largest(logits),
            LogitScore::Energy { temperature } => builder.log_sum_exp(logits, temperature),
            LogitScore::Odin { temperature } => builder.largest_probability(logits, temperature),
            LogitScore::Entropy => {
                let logs = builder.log_softmax(logits);
                let p = builder.exp(logs);
                let parts = builder.mul(p, logs);
                builder.sum(parts)
            }
            LogitScore::Renyi { exponent } => {
                let logs = builder.log_softmax(logits);
                let scaled = builder.times(logs, exponent);
                let log = builder.log_sum_exp(scaled, 1.0);
                builder.times(log, 1.0 / (exponent - 1.0))
            }
            LogitScore::Gap { others } => {
                let followers = followers(known_classes(logits, builder)?, others);
                let (sorted, _) = builder.top_k(logits, followers + 1, true);
                let largest = builder.part(sorted, 0, 1);
                let below = builder.sub(largest, sorted);
                let sum = builder.sum(below);
                builder.times(sum, 1.0 / followers.max(1) as f64)
            }
            LogitScore::JointEnergy => {
                let above = builder.node(Op::Relu, &[logits]);
                let size = builder.abs(logits);
                let negative = builder.neg(size);
                let power = builder.exp(negative);
                let rest = builder.log_one_plus(power);
                let parts = builder.add(above, rest);
                builder.sum(parts)
            }
        })
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        write_head(self.head.as_ref(), prefix, writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropies_of_equal_logits_are_the_logarithm_of_their_number() {
        for logits in [[3.0; 4], [1e6; 4]] {
            assert!((LogitScore::Entropy.of(&logits) + 4f64.ln()).abs() < 1e-9);
            let renyi = LogitScore::Renyi { exponent: 0.3 };
            assert!((renyi.of(&logits) + 4f64.ln()).abs() < 1e-9);
        }
        // Far apart, the entropy is 0 and no NaN.
        assert_eq!(LogitScore::Entropy.of(&[1e5, 0.0]), 0.0);
        assert!(LogitScore::Renyi { exponent: 0.1 }.of(&[1e5, 0.0]).abs() < 1e-12);
    }

    #[test]
    fn the_gap_leaves_the_smallest_logit_out_where_it_can() {
        assert_eq!(gap(&[1.0, 5.0, 2.0, -9.0], 88), 3.5);
        assert_eq!(gap(&[1.0, 5.0, 2.0, -9.0], 1), 3.0);
        assert_eq!(gap(&[1.0, 5.0], 88), 4.0);
        assert_eq!(gap(&[1.0], 88), 0.0);
    }

    #[test]
    fn joint_energy_neither_overflows_nor_loses_small_terms() {
        assert_eq!(LogitScore::JointEnergy.of(&[1e4, -1e4]), 1e4);
        assert!(
            (LogitScore::JointEnergy.of(&[0.0, 1.0]) - 2f64.ln() - (1.0 + 1f64.exp()).ln()).abs()
                < 1e-14
        );
    }
}
