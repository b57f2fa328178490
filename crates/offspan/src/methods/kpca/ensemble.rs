//! The sum of a random-feature detector and a Nyström detector.
//!
//! The paper's tables have this row but no formula. The rule here needs in-distribution rows only:
//! each member's score is standardised by its mean and standard deviation over training rows, and
//! the two are averaged.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::in_order;
use crate::io::{Dataset, Gathered, TensorFile, TensorWriter};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

use super::fit::fit;
use super::model::{KpcaModel, KpcaSummary};
use super::params::{KpcaParams, MapParams};

/// File prefixes of the members, in order.
pub(super) const MEMBERS: [&str; 2] = ["rff", "nys"];

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

/// A fitted pair.
#[derive(Debug, Clone)]
pub(crate) struct Ensemble {
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
    pub(crate) fn fit(params: &EnsembleParams, training: &Training<'_>) -> Result<Fitted<Self>> {
        let member = |params: &KpcaParams, suffix: &str| -> Result<(Fitted<KpcaModel>, Standard)> {
            let checkpoint = training.checkpoint.map(|c| c.with_suffix(suffix));
            let training = Training { checkpoint: checkpoint.as_ref(), ..*training };
            let fitted = fit(&params.clone().check()?, &training)?;
            let standard = standard(&fitted.model, &training)?;
            Ok((fitted, standard))
        };
        if !matches!(params.rff.map, MapParams::Fourier { .. })
            || !matches!(params.nystrom.map, MapParams::Nystrom { .. })
        {
            return Err(Error::parameter(
                "kpca-ensemble",
                "a kpca-rff and a kpca-nys member",
                format!("{} and {}", params.rff.method(), params.nystrom.method()),
            ));
        }
        let (rff, rff_standard) = member(&params.rff, MEMBERS[0])?;
        let (nystrom, nystrom_standard) = member(&params.nystrom, MEMBERS[1])?;
        Ok(Fitted {
            rows: nystrom.rows,
            fingerprint: nystrom.fingerprint,
            model: Ensemble {
                members: [rff.model, nystrom.model],
                standards: [rff_standard, nystrom_standard],
            },
        })
    }

    pub(crate) fn summary(&self) -> EnsembleSummary {
        EnsembleSummary {
            members: self.members.each_ref().map(|member| member.summary().clone()),
            standards: self.standards,
        }
    }

    pub(crate) fn members(&self) -> &[KpcaModel; 2] {
        &self.members
    }

    pub(crate) fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        self.members.iter().try_for_each(|member| member.check_inputs(data))
    }

    pub(crate) fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
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

    pub(crate) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        for (member, name) in self.members.iter().zip(MEMBERS) {
            member.write(&format!("{prefix}{name}."), writer);
        }
    }

    pub(crate) fn read(
        file: &TensorFile,
        prefix: &str,
        params: EnsembleParams,
        summary: EnsembleSummary,
        width: usize,
    ) -> Result<Self> {
        for Standard { mean, deviation } in summary.standards {
            if !(mean.is_finite() && deviation > 0.0 && deviation.is_finite()) {
                return Err(Error::parameter("deviation", "a number above 0", deviation));
            }
        }
        let [rff, nystrom] = summary.members;
        let read = |name: &str, params, summary| {
            KpcaModel::read(file, &format!("{prefix}{name}."), params, summary, width)
        };
        Ok(Ensemble {
            members: [
                read(MEMBERS[0], params.rff, rff)?,
                read(MEMBERS[1], params.nystrom, nystrom)?,
            ],
            standards: summary.standards,
        })
    }
}

/// Mean and deviation of a member's scores over evenly spread rows of the fit.
fn standard(model: &KpcaModel, training: &Training<'_>) -> Result<Standard> {
    const BLOCK: usize = 256;
    let rows = training.data.rows();
    let step = rows.div_ceil(STANDARD_ROWS).max(1);
    let chosen: Vec<usize> =
        (0..rows).step_by(step).filter(|&row| training.hold_out.keeps(row)).collect();
    training.observer.begin("scores of training rows", 0);
    let scores = chosen
        .par_chunks(BLOCK)
        .map(|rows| {
            let part = Gathered::new(training.data, rows, &[])?;
            let mut scores = vec![0.0; rows.len()];
            model.score(&part.dataset()?, 0, &mut scores)?;
            Ok(scores)
        })
        .collect();
    let scores = in_order(scores)?.concat();
    let n = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / n;
    let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / n;
    if variance <= 0.0 || !variance.is_finite() {
        return Err(Error::NoVariance { what: format!("scores of {}", training.data.name) });
    }
    Ok(Standard { mean, deviation: variance.sqrt() })
}
