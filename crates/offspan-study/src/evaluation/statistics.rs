//! Which differences between methods are more than chance.

use std::collections::BTreeMap;
use std::fmt;

use offspan::metrics::{
    Difference, EvalOptions, FitScores, PairedOptions, compare_auroc, compare_fpr,
};
use serde::{Deserialize, Serialize};

use super::metric::Metric;
use super::result::{Evaluations, Over};
use super::scores::Scores;
use crate::{Result, StudyError};

/// A difference with a smaller p-value is more than chance.
pub const CHANCE: f64 = 0.05;
/// Resamples that decide about marks; those of a comparison that was asked for are more.
const RESAMPLES_OF_MARKS: u32 = 1000;
/// The figures that can be compared.
pub(super) const COMPARED: [Metric; 2] = [Metric::Fpr, Metric::Auroc];

/// Two methods on the same rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The first method.
    pub first: String,
    /// The second method.
    pub second: String,
    /// How the false-positive rate is compared.
    pub bootstrap: PairedOptions,
    /// The differences, first minus second.
    pub differences: Vec<DifferenceOver>,
}

/// Two methods that could not be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotCompared {
    /// The first method.
    pub first: String,
    /// The second method.
    pub second: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for NotCompared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {} are not compared: {}", self.first, self.second, self.reason)
    }
}

/// How two methods differ over some sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DifferenceOver {
    /// What the figures are taken over.
    #[serde(flatten)]
    pub over: Over,
    /// The false-positive rate, by a paired bootstrap.
    pub fpr: Difference,
    /// The AUROC, by DeLong's test.
    pub auroc: Difference,
}

/// The best method of a figure against the second.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lead {
    /// What the figure is taken over.
    #[serde(flatten)]
    pub over: Over,
    /// `fpr` or `auroc`.
    pub metric: String,
    /// The best method.
    pub best: String,
    /// The second.
    pub second: String,
    /// How often a lead at least this large comes by chance.
    pub p_value: f64,
    /// Whether that is not small: the best is not better than the second by more than chance.
    pub by_chance: bool,
}

/// Scores of methods by the number of their result, one for each seed.
#[derive(Debug, Default)]
pub(super) struct Kept(BTreeMap<usize, Vec<Scores>>);

impl Kept {
    pub(super) fn add(&mut self, result: usize, scores: Scores) {
        self.0.entry(result).or_default().push(scores);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn first(&self, result: usize) -> Option<&Scores> {
        self.0.get(&result)?.first()
    }

    /// Results were put into this order of their former numbers.
    pub(super) fn reorder(&mut self, order: &[usize]) {
        let mut former = std::mem::take(&mut self.0);
        let moved = order.iter().enumerate();
        self.0 = moved.filter_map(|(new, old)| Some((new, former.remove(old)?))).collect();
    }

    /// Forgets the scores of methods that nothing will be asked of: all but the two best of each figure,
    /// and those that are to be compared. So memory does not grow with the number of methods.
    pub(super) fn forget(&mut self, evaluations: &Evaluations, compare: &[[String; 2]]) {
        let mut wanted: Vec<usize> = Vec::new();
        for over in evaluations.columns() {
            for metric in COMPARED {
                wanted.extend(best_first(evaluations, &over, metric).into_iter().take(2));
            }
        }
        let is_named = |result: usize| {
            compare.iter().flatten().any(|name| *name == evaluations.results[result].method)
        };
        self.0.retain(|result, _| wanted.contains(result) || is_named(*result));
    }

    fn fits(&self, result: usize) -> Option<Vec<FitScores<'_>>> {
        Some(self.0.get(&result)?.iter().map(Scores::fit).collect())
    }
}

/// The numbers of the results, best first.
fn best_first(evaluations: &Evaluations, over: &Over, metric: Metric) -> Vec<usize> {
    let mut values: Vec<(usize, f64)> = evaluations
        .results
        .iter()
        .enumerate()
        .filter_map(|(index, result)| Some((index, metric.value(&result.figures(over)?)?)))
        .collect();
    values.sort_by(|a, b| match metric.prefers(1.0, 0.0) {
        true => b.1.total_cmp(&a.1),
        false => a.1.total_cmp(&b.1),
    });
    values.into_iter().map(|(index, _)| index).collect()
}

/// The best of each figure against the second. Methods without kept scores, or with too few rows for a
/// test, say nothing.
pub(super) fn leads(
    evaluations: &Evaluations,
    kept: &Kept,
    members: &dyn Fn(&Over) -> Vec<usize>,
    options: &EvalOptions,
) -> Vec<Lead> {
    let mut leads = Vec::new();
    let columns = evaluations.columns();
    for metric in COMPARED {
        // Figures with the same two methods are tested at once.
        let mut by_pair: BTreeMap<[usize; 2], Vec<&Over>> = BTreeMap::new();
        for over in &columns {
            if let [best, second, ..] = best_first(evaluations, over, metric)[..] {
                by_pair.entry([best, second]).or_default().push(over);
            }
        }
        for (pair, columns) in by_pair {
            let [Some(first), Some(second)] = pair.map(|result| kept.fits(result)) else {
                continue;
            };
            let sets: Vec<Vec<usize>> = columns.iter().map(|over| members(over)).collect();
            let paired = PairedOptions { resamples: RESAMPLES_OF_MARKS, ..paired(options) };
            let tested = match metric {
                Metric::Auroc => compare_auroc(&first, &second, &sets, options.level),
                _ => compare_fpr(&first, &second, &sets, &paired),
            };
            let Ok(tested) = tested else { continue };
            let [best, second] = pair.map(|result| evaluations.results[result].method.clone());
            leads.extend(columns.into_iter().zip(tested).map(|(over, found)| Lead {
                over: over.clone(),
                metric: metric.name().to_owned(),
                best: best.clone(),
                second: second.clone(),
                p_value: found.p_value,
                by_chance: found.p_value >= CHANCE,
            }));
        }
    }
    leads.sort_by(|a, b| (&a.over, &a.metric).cmp(&(&b.over, &b.metric)));
    leads
}

/// Two methods, by every figure that can be compared.
pub(super) fn compared(
    evaluations: &Evaluations,
    kept: &Kept,
    members: &dyn Fn(&Over) -> Vec<usize>,
    [first, second]: &[String; 2],
    options: &EvalOptions,
) -> Result<Compared> {
    let fits = |name: &String| {
        let result = evaluations.results.iter().position(|result| result.method == *name);
        result
            .and_then(|result| kept.fits(result))
            .ok_or_else(|| StudyError::Setup(format!("{name} has no result")))
    };
    let (a, b) = (fits(first)?, fits(second)?);
    let columns = evaluations.columns();
    let sets: Vec<Vec<usize>> = columns.iter().map(members).collect();
    let bootstrap = paired(options);
    let auroc = compare_auroc(&a, &b, &sets, options.level).map_err(offspan::Error::from)?;
    let fpr = compare_fpr(&a, &b, &sets, &bootstrap).map_err(offspan::Error::from)?;
    let differences = columns.into_iter().zip(fpr).zip(auroc);
    Ok(Compared {
        first: first.clone(),
        second: second.clone(),
        bootstrap,
        differences: differences
            .map(|((over, fpr), auroc)| DifferenceOver { over, fpr, auroc })
            .collect(),
    })
}

fn paired(options: &EvalOptions) -> PairedOptions {
    let EvalOptions { tpr, rule, level, seed, .. } = *options;
    PairedOptions { tpr, rule, level, seed, ..PairedOptions::default() }
}
