//! The sum of a random-feature detector and a Nyström detector.
//!
//! The paper's tables have this row but no formula. The rule here needs in-distribution rows only:
//! each member's score is standardised by its mean and standard deviation over training rows, and
//! the two are averaged.

use std::sync::Arc;

use ndarray::{Array1, Axis};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::in_order;
use crate::graph::{Builder, Value};
use crate::io::{Dataset, Gathered, TensorWriter};
use crate::methods::memory::FitSize;
use crate::methods::method::{Entry, Fit, Method, from_walk};
use crate::methods::model::{Model, ModelSummary, Results, RowValues, Scorer, Stored};
use crate::methods::option::{OptionInfo, Options, Route, option};
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Result};

use super::fit::{check_inputs, fit};
use super::model::{KpcaModel, KpcaSummary};
use super::params::{KpcaParams, MapParams, ValidKpca};

/// File prefixes of the members, in order.
const MEMBERS: [&str; 2] = ["rff", "nys"];

const RFF_GAMMA: OptionInfo =
    option("rff-gamma", "G", "kpca-ensemble: γ of the random-feature member");
const RFF_EXPLAINED_VARIANCE: OptionInfo = option(
    "rff-explained-variance",
    "R",
    "kpca-ensemble: explained variance of the random-feature member",
);

/// Training rows that the scores are standardised by, at most; evenly spread.
const STANDARD_ROWS: usize = 20_000;

/// Parameters of the two members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnsembleParams {
    /// The random-feature member.
    pub rff: KpcaParams,
    /// The Nyström member.
    pub nystrom: KpcaParams,
}

impl Default for EnsembleParams {
    fn default() -> Self {
        EnsembleParams { rff: KpcaParams::fourier(), nystrom: KpcaParams::default() }
    }
}

impl Method for EnsembleParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: "kpca-ensemble",
            summary: "mean of kpca-rff and kpca-nys, each standardised by its scores on training rows",
            needs: "as kpca-nys",
            source: "a table row of the paper; the rule is offspan's own, from in-distribution rows only",
            parity: "members are; no reference for the sum exists",
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        // Polynomial kernels have no random Fourier features.
        let neither = [("degree", Route::Nowhere), ("coef0", Route::Nowhere)];
        options.routed(&neither, |options| self.nystrom.options(options))?;
        let own = [
            ("gamma", Route::To(&RFF_GAMMA)),
            ("explained-variance", Route::To(&RFF_EXPLAINED_VARIANCE)),
            ("components", Route::Nowhere),
        ];
        options.routed(&own, |options| self.rff.options(options))
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        if !matches!(self.rff.map, MapParams::Fourier { .. })
            || !matches!(self.nystrom.map, MapParams::Nystrom { .. })
        {
            return Err(Error::parameter(
                "kpca-ensemble",
                "a kpca-rff and a kpca-nys member",
                format!("{} and {}", self.rff.method(), self.nystrom.method()),
            ));
        }
        let members = [self.rff.clone().check()?, self.nystrom.clone().check()?];
        [self.rff, self.nystrom] = members.each_ref().map(|member| member.params().clone());
        Ok(Arc::new(ValidEnsemble(members)))
    }

    fn map_size(&self) -> Option<usize> {
        self.rff.map.size().max(self.nystrom.map.size())
    }

    fn checkpoints(&self) -> Option<&'static [&'static str]> {
        Some(&MEMBERS)
    }
}

#[derive(Debug)]
struct ValidEnsemble([ValidKpca; 2]);

impl Fit for ValidEnsemble {
    fn memory(&self, size: &FitSize) -> u64 {
        self.0.iter().map(|member| size.kpca(member)).max().unwrap_or(0)
    }

    fn uses_logits(&self) -> bool {
        self.0.iter().any(|member| member.uses_energy())
    }

    fn check_inputs(&self, _: &str, training: &Training<'_>) -> Result<()> {
        self.0.iter().try_for_each(|member| check_inputs(member, training))
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        Ok(from_walk(Ensemble::fit(&self.0, training)?))
    }

    fn results(&self) -> Results {
        Results::KpcaEnsemble
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let ModelSummary::KpcaEnsemble(summary) = stored.summary else {
            unreachable!("the kind of results was checked")
        };
        for Standard { mean, deviation } in summary.standards {
            if !(mean.is_finite() && deviation > 0.0 && deviation.is_finite()) {
                return Err(Error::parameter("deviation", "a number above 0", deviation));
            }
        }
        let read = |index: usize| {
            let prefix = format!("{}{}.", stored.prefix, MEMBERS[index]);
            let stored = Stored { prefix: &prefix, ..stored };
            KpcaModel::read(&self.0[index], &summary.members[index], stored)
        };
        let members = [read(0)?, read(1)?];
        Ok(Arc::new(Ensemble { members, standards: summary.standards }))
    }
}

/// A fitted pair.
#[derive(Debug, Clone)]
struct Ensemble {
    members: [KpcaModel; 2],
    standards: [Standard; 2],
}

/// Mean and standard deviation of a member's scores on training rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Standard {
    mean: f64,
    deviation: f64,
}

/// What a file keeps of a pair besides the tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EnsembleSummary {
    members: [KpcaSummary; 2],
    standards: [Standard; 2],
}

impl Ensemble {
    fn fit(members: &[ValidKpca; 2], training: &Training<'_>) -> Result<Fitted<Self>> {
        let member = |params: &ValidKpca, suffix: &str| -> Result<(Fitted<KpcaModel>, Standard)> {
            let checkpoint = training.checkpoint.map(|c| c.with_suffix(suffix));
            let training = Training { checkpoint: checkpoint.as_ref(), ..*training };
            let fitted = fit(params, &training)?;
            let standard = standard(&fitted.model, &training)?;
            Ok((fitted, standard))
        };
        let (rff, rff_standard) = member(&members[0], MEMBERS[0])?;
        let (nystrom, nystrom_standard) = member(&members[1], MEMBERS[1])?;
        Ok(Fitted {
            rows: nystrom.rows,
            fingerprint: nystrom.fingerprint,
            model: Ensemble {
                members: [rff.model, nystrom.model],
                standards: [rff_standard, nystrom_standard],
            },
        })
    }
}

impl Scorer for Ensemble {
    fn summary(&self) -> ModelSummary {
        ModelSummary::KpcaEnsemble(EnsembleSummary {
            members: self.members.each_ref().map(|member| member.summary().clone()),
            standards: self.standards,
        })
    }

    fn kpca(&self) -> Vec<&KpcaModel> {
        self.members.iter().collect()
    }

    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        self.members.iter().try_for_each(|member| member.check_inputs(data))
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut scores = vec![0.0; out.len()];
        out.fill(0.0);
        for (member, standard) in self.members.iter().zip(self.standards) {
            member.score(data, start, &mut scores)?;
            for (out, score) in out.iter_mut().zip(&scores) {
                *out += 0.5 * (score - standard.mean) / standard.deviation;
            }
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let mut member = |member: &KpcaModel, standard: Standard| {
            let score = member.score_graph(rows, builder)?;
            let score = builder.plus(score, -standard.mean);
            Ok::<_, Error>(builder.times(score, 0.5 / standard.deviation))
        };
        let [rff, nystrom] = &self.members;
        let (rff, nystrom) = (member(rff, self.standards[0])?, member(nystrom, self.standards[1])?);
        Ok(builder.add(rff, nystrom))
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        for (member, name) in self.members.iter().zip(MEMBERS) {
            member.write(&format!("{prefix}{name}."), writer);
        }
    }
}

/// Mean and deviation of a member's scores over evenly spread rows of the fit.
fn standard(model: &KpcaModel, training: &Training<'_>) -> Result<Standard> {
    const BLOCK: usize = 256;
    let rows = training.data.rows();
    let step = rows.div_ceil(STANDARD_ROWS).max(1);
    let chosen: Vec<usize> =
        (0..rows).step_by(step).filter(|&row| training.hold_out.keeps(row)).collect();
    let stage = "scores of training rows";
    training.observer.begin(stage, 0);
    let scores = training.of_each(stage, &chosen, 1, |rows| {
        let scores = rows
            .par_chunks(BLOCK)
            .map(|rows| {
                let part = Gathered::new(training.data, rows, &[])?;
                let mut scores = vec![0.0; rows.len()];
                model.score(&part.dataset()?, 0, &mut scores)?;
                Ok(scores)
            })
            .collect();
        Ok(Array1::from(in_order(scores)?.concat()).insert_axis(Axis(1)))
    })?;
    let n = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / n;
    let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / n;
    if variance <= 0.0 || !variance.is_finite() {
        return Err(Error::NoVariance { what: format!("scores of {}", training.data.name) });
    }
    Ok(Standard { mean, deviation: variance.sqrt() })
}
