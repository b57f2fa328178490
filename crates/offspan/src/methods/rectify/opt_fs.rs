//! OptFS (Zhao et al. 2024): every activation is multiplied by the factor of the bin that it falls in. The
//! factors are those of the training rows' mean contribution to the logit of the predicted class, bin by bin.

use std::sync::Arc;

use ndarray::{Array1, Array2, Axis};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::step::{Step, StepParams};
use crate::graph::{Builder, Element, Op, Value};
use crate::io::{Head, TensorWriter};
use crate::methods::method::{Entry, GOLDEN_BASELINE};
use crate::methods::option::{BINS, Options};
use crate::methods::{Found, Stored};
use crate::numeric::vector::contiguous;
use crate::training::logits::{LogitSource, Need, predicted};
use crate::training::part::{Field, Part};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{BLOCK, Training};
use crate::{Error, Result};

/// Percentiles of all training entries between which the bins lie.
const ENDS: [f64; 2] = [0.1, 99.9];
/// Length of the vector of factors.
const LENGTH: f64 = 1000.0;

/// Parameters of OptFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptFsParams {
    /// How many bins there are.
    pub bins: usize,
}

impl Default for OptFsParams {
    fn default() -> Self {
        OptFsParams { bins: 100 }
    }
}

impl StepParams for OptFsParams {
    fn entry() -> Entry<Self> {
        Entry {
            name: "opt-fs",
            summary: "activations scaled by what their size contributes on average, then the energy",
            needs: "features and head",
            source: "Zhao et al., Towards Optimal Feature-Shaping Methods for Out-of-Distribution Detection, 2024",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&BINS, &mut self.bins).map(drop)
    }

    fn check(&self) -> Result<()> {
        if (1..=100_000).contains(&self.bins) {
            return Ok(());
        }
        Err(Error::parameter("bins", "from 1 to 100000", self.bins))
    }

    fn needs(&self) -> Needs {
        Needs { percentiles: ENDS.to_vec(), ..Needs::default() }
    }

    fn check_inputs(&self, name: &str, training: &Training<'_>) -> Result<()> {
        training.head(name).map(drop)
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Arc<dyn Step>> {
        Ok(Arc::new(OptFs::fit(*self, "opt-fs", training, known)?))
    }

    fn read(&self, stored: Stored<'_>, _: Option<&Head>) -> Result<Arc<dyn Step>> {
        Ok(Arc::new(OptFs::read(*self, stored)?))
    }
}

/// Bins and their factors.
#[derive(Debug, Clone)]
pub(crate) struct OptFs {
    low: f64,
    high: f64,
    factors: Array1<f64>,
}

impl OptFs {
    pub(crate) fn fit(
        params: OptFsParams,
        who: &str,
        training: &Training<'_>,
        known: &Statistics,
    ) -> Result<Self> {
        let [low, high] = ENDS.map(|percent| known.percentile(percent));
        if low >= high {
            return Err(Error::NoVariance { what: training.data.name.clone() });
        }
        let mut step = OptFs { low, high, factors: Array1::ones(params.bins) };
        let sums = step.contributions(who, training)?;
        let length = sums.dot(&sums).sqrt();
        if length <= 0.0 {
            return Err(Error::NoVariance {
                what: format!("contributions of {}", training.data.name),
            });
        }
        step.factors = sums * (LENGTH / length);
        Ok(step)
    }

    /// Σ w_ŷj·z_j over the entries of the training rows in each bin.
    fn contributions(&self, who: &str, training: &Training<'_>) -> Result<Array1<f64>> {
        let head = training.head(who)?;
        let source = LogitSource::of(training.data, training.head, None, Need::Method(who))?;
        let stage = "contributions of activations";
        let bins = self.factors.len();
        let mut part = training.pass(stage, || {
            let mut sums = Array1::<f64>::zeros(bins);
            training.for_each_chunk(stage, |numbers, z| {
                let blocks: Vec<Result<Array1<f64>>> = z
                    .axis_chunks_iter(Axis(0), BLOCK)
                    .into_par_iter()
                    .zip(numbers.par_chunks(BLOCK))
                    .map(|(z, numbers)| {
                        let logits = source.gather(numbers)?;
                        let mut sums = Array1::zeros(bins);
                        for (z, logits) in z.rows().into_iter().zip(logits.rows()) {
                            let weight = head.weight.row(predicted(contiguous(&logits)));
                            for (x, weight) in z.iter().zip(weight) {
                                if let Some(bin) = self.bin(*x) {
                                    sums[bin] += weight * x;
                                }
                            }
                        }
                        Ok(sums)
                    })
                    .collect();
                for block in blocks {
                    sums += &block?;
                }
                Ok(())
            })?;
            Ok(Part::default().with("sums", Field::Sum(sums.insert_axis(Axis(0)))))
        })?;
        let sums: Array2<f64> = part.take("sums")?;
        Ok(sums.row(0).to_owned())
    }

    /// The bin of an entry; none outside of all, the upper end included.
    fn bin(&self, x: f64) -> Option<usize> {
        if !(self.low..self.high).contains(&x) {
            return None;
        }
        let width = (self.high - self.low) / self.factors.len() as f64;
        // Rounding may bring an entry just below the upper end to it.
        Some((((x - self.low) / width) as usize).min(self.factors.len() - 1))
    }

    /// The factor of an entry, 0 outside of all bins.
    pub(crate) fn factor(&self, x: f64) -> f64 {
        self.bin(x).map_or(0.0, |bin| self.factors[bin])
    }

    /// The same within a graph, for entries of any shape.
    pub(crate) fn factor_graph(&self, x: Value, builder: &mut Builder<'_>) -> Value {
        let bins = self.factors.len();
        let width = (self.high - self.low) / bins as f64;
        let above = builder.plus(x, -self.low);
        let place = builder.times(above, 1.0 / width);
        let place = builder.at_least(place, 0.0);
        let place = builder.at_most(place, (bins - 1) as f64);
        let place = builder.node(Op::Cast { to: Element::Index }, &[place]);
        let factors = builder.vector("factors", &self.factors);
        let factor = builder.rows_at(factors, place);
        let (low, high) = (builder.scalar(self.low), builder.scalar(self.high));
        let is_above = builder.node(Op::GreaterOrEqual, &[x, low]);
        let is_below = builder.node(Op::Less, &[x, high]);
        let inside = builder.node(Op::And, &[is_above, is_below]);
        let zero = builder.scalar(0.0);
        builder.choose(inside, factor, zero)
    }

    pub(crate) fn read(params: OptFsParams, stored: Stored<'_>) -> Result<Self> {
        Ok(OptFs {
            low: stored.number("low")?,
            high: stored.number("high")?,
            factors: stored.vector("factors", params.bins)?,
        })
    }

    pub(crate) fn ends(&self) -> Found {
        Found::from([("low".to_owned(), self.low), ("high".to_owned(), self.high)])
    }

    pub(crate) fn put<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}factors"), &self.factors);
    }
}

impl Step for OptFs {
    fn apply_to_row(&self, row: &mut [f64]) {
        row.iter_mut().for_each(|x| *x *= self.factor(*x));
    }

    fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> (Value, Option<Value>) {
        let factor = self.factor_graph(rows, builder);
        (builder.mul(rows, factor), None)
    }

    fn found(&self) -> Found {
        self.ends()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.put(prefix, writer);
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn entries_outside_of_the_bins_become_zero() {
        let step = OptFs { low: 0.0, high: 1.0, factors: array![2.0, 3.0] };
        let mut row = [-0.1, 0.0, 0.25, 0.5, 0.999_999, 1.0, 7.0];
        step.apply_to_row(&mut row);
        assert_eq!(row, [0.0, 0.0, 0.5, 1.5, 3.0 * 0.999_999, 0.0, 0.0]);
    }
}
