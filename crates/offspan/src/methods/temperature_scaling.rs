//! The largest probability of softmax(l/T), with the T of the least mean negative log-likelihood of the
//! labels (Guo et al. 2017). The likelihood is concave in β = 1/T, so there is one such T, and it is found
//! to the last digits.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, write_head};
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous;
use crate::training::logits::{LogitSource, Need};
use crate::training::part::{Part, number};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};

const NAME: &str = "temp-scale";
/// Between these, β is sought. A network that is right on every row would want no bound at all, one that
/// is wrong on most a negative β.
const RANGE: (f64, f64) = (1e-3, 1e3);
/// Newton's steps, of which a few are enough, and halvings where they leave the bracket.
const MOST_STEPS: usize = 100;

/// Parameters of temperature scaling: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TempScaleParams {}

impl Method for TempScaleParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "largest softmax probability at the temperature that suits the labels best",
            needs: "logits, or features and head; labels",
            source: "Guo et al., On Calibration of Modern Neural Networks, 2017",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }
}

impl Fit for TempScaleParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { labelled_logit: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let beta = best_beta(|beta| slope(training, known, beta))?;
        if beta <= RANGE.0 || beta >= RANGE.1 {
            training.observer.note(&format!(
                "no temperature suits the labels best; {} is the nearest that is tried",
                1.0 / beta
            ));
        }
        let head = training.head.map(Head::without_block);
        Ok(from_known(self, known, TempScale { temperature: 1.0 / beta, head }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let temperature = stored.number("temperature")?;
        Ok(Arc::new(TempScale { temperature, head: stored.head()? }))
    }
}

/// First and second derivative by β of the mean of lse(βl) − βl_y.
fn slope(training: &Training<'_>, known: &Statistics, beta: f64) -> Result<(f64, f64)> {
    let source = LogitSource::of(training.data, training.head, None, Need::Method(NAME))?;
    let stage = "temperature of the training rows";
    let mut part = training.pass(stage, || {
        let (mut means, mut variances) = (0.0, 0.0);
        training.for_each_logits(stage, &source, |_, logits| {
            for row in logits.rows() {
                let (mean, variance) = tempered(contiguous(&row), beta);
                means += mean;
                variances += variance;
            }
            Ok(())
        })?;
        Ok(Part::default().with("means", number(means)).with("variances", number(variances)))
    })?;
    let rows = (known.rows as f64).max(1.0);
    let (means, variances): (f64, f64) = (part.take("means")?, part.take("variances")?);
    Ok((means / rows - known.labelled_logit(), variances / rows))
}

/// Mean and variance of the logits under softmax(βl).
fn tempered(logits: &[f64], beta: f64) -> (f64, f64) {
    let largest = logits.iter().fold(f64::NEG_INFINITY, |m, &l| m.max(l));
    let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
    for l in logits {
        let below = l - largest;
        let p = (beta * below).exp();
        sum += p;
        first += p * below;
        second += p * below * below;
    }
    let mean = first / sum;
    (largest + mean, (second / sum - mean * mean).max(0.0))
}

/// The root of an increasing function, given with its derivative: Newton's steps inside a bracket.
fn best_beta(mut slope: impl FnMut(f64) -> Result<(f64, f64)>) -> Result<f64> {
    let (mut low, mut high) = RANGE;
    let mut beta: f64 = 1.0;
    for _ in 0..MOST_STEPS {
        let (first, second) = slope(beta)?;
        if first == 0.0 {
            break;
        }
        if first < 0.0 {
            low = beta;
        } else {
            high = beta;
        }
        let step = beta - first / second;
        // Outside, half the way on a scale of factors.
        let next = if step > low && step < high { step } else { (low * high).sqrt() };
        let moved = (next - beta).abs();
        beta = next;
        if moved <= 4.0 * f64::EPSILON * beta {
            break;
        }
    }
    Ok(beta)
}

/// T, and the last layer for rows that come without logits.
#[derive(Debug, Clone)]
struct TempScale {
    temperature: f64,
    head: Option<Head>,
}

impl Scorer for TempScale {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, self.head.as_ref()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let logits = logits_of(NAME, data, self.head.as_ref())?.logits(start, out.len())?;
        for (out, row) in out.iter_mut().zip(logits.rows()) {
            let largest = row.iter().fold(f64::NEG_INFINITY, |m, &l| m.max(l));
            let relative = row.iter().map(|l| ((l - largest) / self.temperature).exp());
            *out = 1.0 / relative.sum::<f64>();
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, self.head.as_ref(), None, builder);
        Ok(builder.largest_probability(logits, self.temperature))
    }

    fn found(&self) -> Found {
        Found::from([("temperature".to_owned(), self.temperature)])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        write_head(self.head.as_ref(), prefix, writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_root_of_a_steep_and_of_a_flat_function_and_stops_at_the_range() {
        for root in [0.01, 0.7, 1.0, 40.0] {
            let found = best_beta(|x| Ok((x.ln() - f64::ln(root), 1.0 / x))).unwrap();
            assert!((found / root - 1.0).abs() < 1e-14, "{found} {root}");
            let cubic = |x: f64| (x.powi(3) - root.powi(3), 3.0 * x * x);
            assert!((best_beta(|x| Ok(cubic(x))).unwrap() / root - 1.0).abs() < 1e-14);
        }
        assert!(best_beta(|_| Ok((-1.0, 0.0))).unwrap() > 0.999 * RANGE.1);
        assert!(best_beta(|_| Ok((1.0, 0.0))).unwrap() < 1.001 * RANGE.0);
    }

    #[test]
    fn mean_and_variance_of_two_logits() {
        let (mean, variance) = tempered(&[1.0, 3.0], 0.5);
        let p = 1.0 / (1.0 + f64::exp(-1.0));
        assert!((mean - (3.0 * p + 1.0 - p)).abs() < 1e-15);
        assert!((variance - 4.0 * p * (1.0 - p)).abs() < 1e-15);
    }
}
