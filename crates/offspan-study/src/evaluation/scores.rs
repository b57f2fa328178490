//! A method's scores of a pack's rows, and the figures that follow from them.

use std::collections::BTreeMap;
use std::time::Instant;

use offspan::Detector;
use offspan::io::Dataset;
use offspan::metrics::{
    EvalOptions, Evaluation, FitScores, RiskAreas, average, evaluate, risk_areas, selective,
};
use xxhash_rust::xxh3::Xxh3;

use super::result::{FitFacts, MethodResult, ScoreFacts, SeedRun};
use super::sets::Sets;

/// A detector with its scores of a pack's rows.
#[derive(Debug, Clone)]
pub struct Scored {
    /// The detector; none of a method of the user's own.
    pub detector: Option<Detector>,
    /// Scores of the test rows.
    pub ind: Vec<f64>,
    /// Scores of each out-of-distribution set, in the order of the pack.
    pub ood: Vec<Vec<f64>>,
}

/// A method's scores of a pack's rows.
#[derive(Debug, Clone)]
pub(super) struct Scores {
    /// Of the test rows, and behind them of shifted rows that count as in-distribution.
    pub(super) ind: Vec<f64>,
    pub(super) ood: Vec<Vec<f64>>,
}

/// What follows from scores.
pub(super) struct Figures {
    pub(super) run: SeedRun,
    pub(super) ind: Option<RiskAreas>,
}

impl Scores {
    /// Scores all rows; tells what that took.
    pub(super) fn of(
        sets: &Sets<'_>,
        score: impl Fn(&Dataset<'_>) -> offspan::Result<Vec<f64>>,
    ) -> offspan::Result<(Self, ScoreFacts)> {
        let started = Instant::now();
        let mut ind = Vec::new();
        for set in sets.ind() {
            ind.extend(score(set)?);
        }
        let ood = sets.ood.iter().map(score).collect::<offspan::Result<_>>()?;
        let seconds = started.elapsed().as_secs_f64();
        Ok((Scores { ind, ood }, ScoreFacts { rows: sets.scored_rows(), seconds }))
    }

    /// The figures; `right` tells which in-distribution rows have the right class, where that is known.
    pub(super) fn judged(
        &self,
        sets: &Sets<'_>,
        options: &EvalOptions,
        right: Option<&[bool]>,
        seed: u64,
    ) -> offspan::Result<Figures> {
        let mut all = Vec::new();
        for scores in &self.ood {
            let mut one = evaluate(&self.ind, scores, options).map_err(offspan::Error::from)?;
            one.selective = right
                .map(|right| selective(&self.ind, right, scores))
                .transpose()
                .map_err(offspan::Error::from)?;
            all.push(one);
        }
        let mean = |members: &mut dyn Iterator<Item = Evaluation>| {
            average(&members.collect::<Vec<_>>())
                .unwrap_or_else(|| unreachable!("packs and groups have sets"))
        };
        let groups = sets.group_members().into_iter();
        let groups: BTreeMap<_, _> = groups
            .map(|(name, members)| (name, mean(&mut members.into_iter().map(|set| all[set]))))
            .collect();
        let average = mean(&mut all.iter().copied());
        let sets = sets.ood.iter().map(|set| set.name().to_owned()).zip(all).collect();
        let ind = right.map(|right| risk_areas(&self.ind, right)).transpose();
        let ind = ind.map_err(offspan::Error::from)?;
        Ok(Figures { run: SeedRun { seed, sets, average, groups }, ind })
    }

    /// A hash of all scores, bit by bit.
    pub(super) fn hash(&self) -> u128 {
        let mut hash = Xxh3::new();
        for scores in std::iter::once(&self.ind).chain(&self.ood) {
            scores.iter().for_each(|score| hash.update(&score.to_le_bytes()));
        }
        hash.digest128()
    }

    pub(super) fn fit(&self) -> FitScores<'_> {
        FitScores { ind: &self.ind, ood: &self.ood }
    }

    /// The scores with the detector that gave them, of test rows only.
    pub(super) fn scored(&self, detector: Option<Detector>, sets: &Sets<'_>) -> Scored {
        let ind = self.ind[..sets.test.rows()].to_vec();
        Scored { detector, ind, ood: self.ood.clone() }
    }
}

impl Figures {
    /// As a result.
    pub(super) fn result(
        self,
        method: &str,
        params: serde_json::Value,
        fit: Option<FitFacts>,
        score: ScoreFacts,
    ) -> MethodResult {
        let SeedRun { sets, average, groups, .. } = self.run;
        MethodResult {
            method: method.to_owned(),
            params,
            fit,
            score,
            sets,
            average,
            groups,
            ind: self.ind,
            seeds: None,
            source: None,
        }
    }
}

impl FitFacts {
    pub(super) fn of(detector: &Detector, seconds: f64) -> Self {
        FitFacts {
            rows: detector.info().training.rows,
            seconds,
            components: detector.kpca_summaries().last().map(|summary| summary.components),
            found: detector.found(),
        }
    }
}
