//! `auto`: a detector that decides everything from in-distribution rows alone.
//!
//! Several kinds of evidence are joined ([`term`]): the residual of kernel PCA, the energy of the clipped
//! row, and what classes and neighbourhoods say, of rows as they are and of unit vectors. Rows that the
//! fit has not seen tell how each term spreads on in-distribution data, and
//!
//! score = Σ_t w_t · ln Φ((v_t − m_t) / s_t),
//!
//! a weighted sum of one-sided log p-values (Φ is the normal distribution): a row must be ordinary in all
//! of them, and a very good value of one cannot buy off a bad one of another. A term weighs as much as it
//! is worth for telling left-out classes from others ([`trials`]), and less if it has learnt its rows by
//! heart.

mod basis;
mod clip;
mod cut_head;
mod energy;
mod evidence;
mod fit;
mod joint;
mod planes;
mod products;
mod recover;
mod sample;
mod scale;
mod space;
mod spaces;
mod term;
mod trials;

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::Array1;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::energy::EnergyPart;
use self::evidence::Evidence;
use self::joint::Joint;
use self::products::Products;
use self::spaces::Spaces;
use self::term::Term;
use super::explained::{Explained, ExplainedTerm, ScoreTerm};
use super::kpca::{KpcaModel, KpcaParams, MapParams, Residual, ValidKpca};
use super::memory::FitSize;
use super::method::{Entry, Fit, Method, from_walk};
use super::model::{Found, Model, ModelSummary, Results, RowValues, Scorer, Stored};
use super::option::{EXPLAINED_VARIANCE, GAMMA, LANDMARKS, Options, PRECISION, SEED, WEIGHTS};
use crate::error::in_order;
use crate::graph::{Builder, Value};
use crate::io::{Dataset, TensorWriter};
use crate::span::subspace::Components;
use crate::training::landmarks::{Sampling, uniform_rows};
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Kernel, Precision, Result, WeightType};

/// The parameters of `auto`: what it would otherwise decide itself, and a seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AutoParams {
    /// γ; from the distances between training rows if none is given.
    pub gamma: Option<f64>,
    /// Landmarks; 1,024, or all rows if there are fewer, if none is given.
    pub landmarks: Option<usize>,
    /// Share of the variance that the subspace keeps, if a fifth of the landmarks' number of
    /// directions is enough for it.
    pub explained_variance: f64,
    /// Seed of every random choice.
    pub seed: u64,
    /// Precision of rows, maps and projections.
    pub precision: Precision,
    /// How landmarks are kept.
    #[serde(default, skip_serializing_if = "WeightType::is_full")]
    pub weights: WeightType,
}

impl Default for AutoParams {
    fn default() -> Self {
        AutoParams {
            gamma: None,
            landmarks: None,
            explained_variance: 0.99,
            seed: 0,
            precision: Precision::F32,
            weights: WeightType::Full,
        }
    }
}

/// Where the variance is spread over more directions than this allows, the last of them matter
/// little, and a score would take twice as long.
const LANDMARKS_PER_DIRECTION: usize = 5;

impl Method for AutoParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: "auto",
            summary: "kernel PCA, energy, classes and neighbourhoods joined, everything decided from \
                      in-distribution rows",
            needs: "features only; better with logits, best with the last layer",
            source: "offspan",
            parity: "NumPy float64 reference to 1e-6",
            default: Self::default(),
        }]
    }

    fn name(&self) -> Cow<'static, str> {
        "auto".into()
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        let words = format!("{} over the median squared distance", fit::WIDTH);
        options.add_or(&GAMMA, &mut self.gamma, &words)?;
        let words = format!("{}, or all rows if there are fewer", fit::LANDMARKS);
        options.add_or(&LANDMARKS, &mut self.landmarks, &words)?;
        let words = format!(
            "{}, with at most a fifth as many directions as landmarks",
            self.explained_variance
        );
        options.add_said(&EXPLAINED_VARIANCE, &mut self.explained_variance, words)?;
        options.add(&SEED, &mut self.seed)?;
        options.add(&PRECISION, &mut self.precision)?;
        options.add(&WEIGHTS, &mut self.weights).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        // Any γ and number of landmarks that kernel PCA accepts.
        self.kpca(self.gamma.unwrap_or(1.0), self.landmarks.unwrap_or(1))?;
        Ok(Arc::new(self.clone()))
    }

    fn map_size(&self) -> Option<usize> {
        self.landmarks
    }

    fn checkpoints(&self) -> Option<&'static [&'static str]> {
        Some(&[])
    }
}

impl Fit for AutoParams {
    fn memory(&self, size: &FitSize) -> u64 {
        let landmarks = self.landmarks.unwrap_or(fit::LANDMARKS).min(size.rows);
        // Its γ changes nothing.
        let kpca = self.kpca(1.0, landmarks).map_or(0, |kpca| size.kpca(&kpca));
        let looked_at = size.rows.min(sample::MOST_ROWS + fit::MOST_ASIDE);
        kpca.saturating_add(FitSize::array(looked_at, size.width, 8))
    }

    fn prefers_head(&self) -> bool {
        true
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        Ok(from_walk(Auto::fit(self, training)?))
    }

    fn results(&self) -> Results {
        Results::LearnedKpca
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let gamma = stored.number("gamma")?;
        let landmarks = stored.number("landmarks")? as usize;
        let kpca = self.kpca(gamma, landmarks)?;
        let prefix = format!("{}{KPCA}", stored.prefix);
        let kpca = KpcaModel::read(&kpca, stored.kpca()?, Stored { prefix: &prefix, ..stored })?;
        let (kpca, products) = Products::read(stored)?.apply(kpca)?;
        let energy = EnergyPart::read_from(stored, self.precision)?;
        let joint = Joint::read(stored)?;
        let spaces = Spaces::read_from(self.precision, &joint.terms(), stored)?;
        let span = joint.terms().contains(&Term::Span);
        let evidence = Evidence { kpca, products, energy, spaces, span };
        evidence.check_has(&joint.terms())?;
        let worth = Term::ALL
            .into_iter()
            .filter_map(|term| stored.found.get(&worth_name(term)).map(|&auroc| (term, auroc)));
        Ok(Arc::new(Auto { evidence, joint, worth: worth.collect(), gamma, landmarks }))
    }
}

impl AutoParams {
    /// The kernel PCA inside. Uniform landmarks cover the data, which the complete residual needs.
    fn kpca(&self, gamma: f64, landmarks: usize) -> Result<ValidKpca> {
        let floor = Default::default();
        let params = KpcaParams {
            kernel: Kernel::Gaussian { gamma },
            map: MapParams::Nystrom { landmarks, sampling: Sampling::Uniform, floor },
            components: Components::UpTo {
                explained_variance: self.explained_variance,
                most: (landmarks / LANDMARKS_PER_DIRECTION).max(1),
            },
            residual: Residual::Complete,
            seed: self.seed,
            precision: self.precision,
            weights: self.weights,
            ..KpcaParams::default()
        };
        params.check()
    }
}

/// The fitted detector.
#[derive(Debug, Clone)]
struct Auto {
    evidence: Evidence,
    joint: Joint,
    /// AUROC of each term for left-out classes, where there were trials.
    worth: Vec<(Term, f64)>,
    gamma: f64,
    landmarks: usize,
}

/// Prefix of the kernel PCA's tensors.
const KPCA: &str = "kpca.";

fn worth_name(term: Term) -> String {
    format!("AUROC of {term} for left-out classes")
}

impl Scorer for Auto {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        self.evidence.energy.as_ref().map_or(Ok(()), |energy| energy.check_inputs(data))
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let values = self.evidence.read(data, start, out.len())?;
        let columns = self.evidence.columns(&self.joint.terms());
        for (out, values) in out.iter_mut().zip(values.rows()) {
            *out = self.joint.score(|part| values[columns[part]]);
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let terms = self.evidence.graph(rows, builder)?;
        Ok(self.joint.graph(&terms, builder))
    }

    fn terms(&self) -> Vec<ScoreTerm> {
        let term = |term: Term| {
            let weight = self.joint.weight(term);
            let auroc = self.worth.iter().find(|(known, _)| *known == term).map(|known| known.1);
            (weight.is_some() || auroc.is_some()).then(|| ScoreTerm {
                name: term.to_string(),
                weight: weight.unwrap_or(0.0),
                auroc,
            })
        };
        Term::ALL.into_iter().filter_map(term).collect()
    }

    fn explain(&self, data: &Dataset<'_>, start: usize, count: usize) -> Result<Option<Explained>> {
        let values = self.evidence.read(data, start, count)?;
        let columns = self.evidence.columns(&self.joint.terms());
        let of = |(part, &column): (&joint::Part, &usize)| {
            let column = values.column(column);
            ExplainedTerm {
                name: part.term.to_string(),
                weight: part.weight,
                log_p_values: column.iter().map(|&value| part.log_p(value)).collect(),
            }
        };
        Ok(Some(Explained { terms: self.joint.parts().iter().zip(&columns).map(of).collect() }))
    }

    fn summary(&self) -> ModelSummary {
        let kpca = self.evidence.kpca.summary().clone();
        ModelSummary::LearnedKpca { found: self.found(), kpca }
    }

    fn found(&self) -> Found {
        let mut found = self.found_besides_terms();
        self.joint.tell(&mut found);
        found.extend(self.worth.iter().map(|(term, auroc)| (worth_name(*term), *auroc)));
        found
    }

    fn found_besides_terms(&self) -> Found {
        let mut found = Found::new();
        found.insert("gamma".to_owned(), self.gamma);
        found.insert("landmarks".to_owned(), self.landmarks as f64);
        self.evidence.products.tell(&mut found);
        if let Some(energy) = &self.evidence.energy {
            energy.tell(&mut found);
        }
        if let Some(spaces) = &self.evidence.spaces {
            spaces.tell(&mut found);
        }
        found
    }

    fn kpca(&self) -> Vec<&KpcaModel> {
        vec![&self.evidence.kpca]
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.evidence.kpca.write(&format!("{prefix}{KPCA}"), writer);
        if let Some(energy) = &self.evidence.energy {
            energy.write(prefix, writer);
        }
        if let Some(spaces) = &self.evidence.spaces {
            spaces.write(prefix, writer);
        }
    }
}

/// Residuals of rows from `start` on: what the kernel PCA's score is the negative of.
fn residuals(kpca: &KpcaModel, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
    kpca.score(data, start, out)?;
    out.iter_mut().for_each(|score| *score = -*score);
    Ok(())
}

/// A seeded sample of these rows, ascending.
fn sample(rows: &[usize], count: usize, seed: u64) -> Result<Vec<usize>> {
    let ranks = uniform_rows(rows.len(), count.min(rows.len()), seed)?;
    Ok(ranks.into_iter().map(|rank| rows[rank]).collect())
}

/// Rows that one task scores.
const BLOCK: usize = 256;

/// One number per row, by blocks of rows on all threads.
fn in_blocks(
    data: &Dataset<'_>,
    read: impl Fn(&Dataset<'_>, usize, &mut [f64]) -> Result<()> + Sync,
) -> Result<Array1<f64>> {
    let mut numbers = vec![0.0; data.rows()];
    let blocks = numbers
        .par_chunks_mut(BLOCK)
        .enumerate()
        .map(|(block, out)| read(data, block * BLOCK, out))
        .collect();
    in_order(blocks)?;
    Ok(numbers.into())
}
