//! Methods ranked over many packs: mean ranks, wins, regret, and which differences are more than chance.

mod chance;
mod page;

use std::collections::BTreeMap;

use offspan::metrics::Average;
use offspan_report::table::Better;
use serde::Serialize;

use crate::evaluation::{MethodResult, Metric};
use crate::{Result, StudyError};

pub use page::{files, write};

use chance::{critical_difference, friedman};

/// One pack, or one set of a pack: the figure of each method on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Case {
    /// What it is called.
    pub name: String,
    /// The figure by method.
    pub values: BTreeMap<String, f64>,
    /// Methods without a figure, and why.
    pub without: BTreeMap<String, String>,
}

/// What is one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cases {
    /// A pack, by the mean over its sets.
    Packs,
    /// A set of a pack. Sets of one pack share their in-distribution rows, so they are no independent
    /// cases.
    Sets,
}

impl Cases {
    /// The cases of a pack's results.
    #[must_use]
    pub fn of(self, pack: &str, results: &[MethodResult], metric: Metric) -> Vec<Case> {
        let case = |name: String, figures: &dyn Fn(&MethodResult) -> Option<Average>| {
            let mut case = Case { name, ..Case::default() };
            for result in results {
                let Some(found) = figures(result) else { continue };
                let method = result.method.clone();
                match metric.value(&found) {
                    Some(value) => drop(case.values.insert(method, value)),
                    None => {
                        let reason = format!(
                            "no {metric} is known, which needs labels of the test rows, and logits or the last layer"
                        );
                        case.without.insert(method, reason);
                    }
                }
            }
            case
        };
        match self {
            Cases::Packs => vec![case(pack.to_owned(), &|result| Some(result.average))],
            Cases::Sets => {
                let sets = results.first().map(|first| first.sets.keys()).into_iter().flatten();
                let of = |set: &String| {
                    case(format!("{pack}/{set}"), &|result| {
                        result.sets.get(set).copied().map(Into::into)
                    })
                };
                sets.map(of).collect()
            }
        }
    }
}

/// Methods ranked over cases.
#[derive(Debug, Clone, Serialize)]
pub struct Ranking {
    /// The figure that ranks follow from.
    pub metric: String,
    /// What it is called in tables.
    pub label: String,
    /// Which figures are better.
    #[serde(skip)]
    pub better: Better,
    /// What the cases are.
    pub over: Cases,
    /// The cases.
    pub cases: Vec<String>,
    /// The methods, best first.
    pub methods: Vec<Ranked>,
    /// Methods that have no figure on some case, with the reason: ranks need all of them.
    pub left_out: Vec<Unranked>,
    /// The level of the tests.
    pub level: f64,
    /// Mean ranks that differ by no more may differ by chance (Nemenyi).
    pub critical_difference: f64,
    /// Friedman's test of whether any methods differ.
    pub friedman: Friedman,
}

/// One method among others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked {
    /// The method.
    pub method: String,
    /// The mean of its ranks; 1 is the best there can be.
    pub mean_rank: f64,
    /// Cases in which no method is better.
    pub wins: usize,
    /// How far it is behind the best method of each case, on average.
    pub mean_regret: f64,
    /// How far it is behind in the case where it is furthest.
    pub worst_regret: f64,
    /// Its figure in each case.
    pub values: Vec<f64>,
    /// Its rank in each case; equal figures share the mean of their ranks.
    pub ranks: Vec<f64>,
}

/// A method that could not be ranked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unranked {
    /// The method.
    pub method: String,
    /// Why.
    pub reason: String,
}

/// Friedman's test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Friedman {
    /// Friedman's statistic, corrected for ties.
    pub chi_square: f64,
    /// How often a statistic at least this large comes by chance, by random permutations of the ranks
    /// within each case.
    pub p_value: f64,
    /// The permutations.
    pub permutations: u32,
}

/// Says that there are too few cases to rank anything, which can be known before any fit.
///
/// # Errors
/// If there are fewer than two.
pub fn check_cases(cases: usize) -> Result<()> {
    if cases < 2 {
        return Err(StudyError::Setup(format!(
            "a ranking needs at least 2 cases, got {cases}: give more packs, or rank over sets"
        )));
    }
    Ok(())
}

/// Ranks methods.
///
/// # Errors
/// If there are fewer than two cases, or fewer than two methods with a figure in each of them.
pub fn rank(
    cases: &[Case],
    over: Cases,
    metric: Metric,
    label: String,
    seed: u64,
) -> Result<Ranking> {
    check_cases(cases.len())?;
    let mut names: Vec<&String> =
        cases.iter().flat_map(|case| case.values.keys().chain(case.without.keys())).collect();
    names.sort();
    names.dedup();
    let mut left_out = Vec::new();
    let complete: Vec<&String> = names
        .into_iter()
        .filter(|&name| {
            let Some(missing) = cases.iter().find(|case| !case.values.contains_key(name)) else {
                return true;
            };
            let why = missing.without.get(name).map_or("it was not evaluated", String::as_str);
            let reason = format!("{}: {why}", missing.name);
            left_out.push(Unranked { method: name.clone(), reason });
            false
        })
        .collect();
    if complete.len() < 2 {
        return Err(StudyError::Setup(format!(
            "a ranking needs at least 2 methods with a result in every case, got {}{}",
            complete.len(),
            left_out.first().map_or_else(String::new, |one| format!(
                "; {} has none for {}",
                one.method, one.reason
            ))
        )));
    }
    // By case, in the order of `complete`.
    let values: Vec<Vec<f64>> =
        cases.iter().map(|case| complete.iter().map(|name| case.values[*name]).collect()).collect();
    let ranks: Vec<Vec<f64>> = values.iter().map(|values| ranks_of(values, metric)).collect();
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let best: Vec<f64> = values
        .iter()
        .map(|values| {
            values.iter().copied().fold(values[0], |a, b| if metric.prefers(b, a) { b } else { a })
        })
        .collect();
    let mut methods: Vec<Ranked> = complete
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let values: Vec<f64> = values.iter().map(|values| values[at]).collect();
            let ranks: Vec<f64> = ranks.iter().map(|ranks| ranks[at]).collect();
            let regrets: Vec<f64> =
                values.iter().zip(&best).map(|(value, best)| (value - best).abs()).collect();
            Ranked {
                method: (*name).clone(),
                mean_rank: mean(&ranks),
                wins: regrets.iter().filter(|regret| **regret == 0.0).count(),
                mean_regret: mean(&regrets),
                worst_regret: regrets.iter().copied().fold(0.0, f64::max),
                values,
                ranks,
            }
        })
        .collect();
    methods.sort_by(|a, b| a.mean_rank.total_cmp(&b.mean_rank));
    Ok(Ranking {
        metric: metric.name().to_owned(),
        label,
        better: metric.better(),
        over,
        cases: cases.iter().map(|case| case.name.clone()).collect(),
        left_out,
        level: chance::LEVEL,
        critical_difference: critical_difference(methods.len(), cases.len()),
        friedman: friedman(&ranks, seed),
        methods,
    })
}

/// Ranks from 1, the best; equal values share the mean of their ranks.
fn ranks_of(values: &[f64], metric: Metric) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| match metric.better() {
        Better::Lower => values[a].total_cmp(&values[b]),
        Better::Higher => values[b].total_cmp(&values[a]),
    });
    let mut ranks = vec![0.0; values.len()];
    let mut done = 0;
    #[allow(clippy::float_cmp, reason = "a tie is exact equality, nothing less")]
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = done as f64 + (tied.len() as f64 + 1.0) / 2.0;
        tied.iter().for_each(|&at| ranks[at] = rank);
        done += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, values: &[(&str, f64)]) -> Case {
        let values = values.iter().map(|(method, value)| ((*method).to_owned(), *value)).collect();
        Case { name: name.to_owned(), values, ..Case::default() }
    }

    fn ranking(cases: &[Case], metric: Metric) -> Result<Ranking> {
        rank(cases, Cases::Packs, metric, String::new(), 0)
    }

    #[test]
    fn ranks_wins_and_regret_on_a_hand_case() {
        let cases = [
            case("one", &[("a", 0.9), ("b", 0.8), ("c", 0.8)]),
            case("two", &[("a", 0.5), ("b", 0.7), ("c", 0.6), ("d", 1.0)]),
        ];
        let found = ranking(&cases, Metric::Auroc).unwrap();
        let row = |at: usize| {
            let one = &found.methods[at];
            (one.method.as_str(), one.mean_rank, one.wins)
        };
        assert_eq!([row(0), row(1), row(2)], [("b", 1.75, 1), ("a", 2.0, 1), ("c", 2.25, 0)]);
        let b = &found.methods[0];
        assert!((b.mean_regret - 0.05).abs() < 1e-12 && (b.worst_regret - 0.1).abs() < 1e-12);
        assert_eq!(b.ranks, [2.5, 1.0]);
        let expected =
            Unranked { method: "d".to_owned(), reason: "one: it was not evaluated".to_owned() };
        assert_eq!(found.left_out, [expected]);
        let lower = ranking(&cases, Metric::Fpr).unwrap();
        assert_eq!(lower.methods[0].method, "c");
    }

    #[test]
    fn a_winner_is_named_only_where_ranks_are_more_than_chance() {
        // The order of three methods changes with every case, or never does.
        let cases = |same: bool| -> Vec<Case> {
            (0..6)
                .map(|at| {
                    let shift = if same { 0 } else { at };
                    let value = |method: usize| 0.9 - ((method + shift) % 3) as f64 / 10.0;
                    let values = [("a", value(0)), ("b", value(1)), ("c", value(2))];
                    case(&format!("pack {at}"), &values)
                })
                .collect()
        };
        let open = ranking(&cases(false), Metric::Auroc).unwrap();
        assert!(open.friedman.p_value > 0.5);
        let page = open.page(3).html();
        assert!(page.contains("No difference between the 3 methods is more than chance"), "{page}");
        assert!(!page.contains("has the best mean rank"), "{page}");
        let decided = ranking(&cases(true), Metric::Auroc).unwrap();
        let page = decided.page(3).html();
        assert!(page.contains("a has the best mean rank, 1.00 among 3 methods"), "{page}");
        // Two methods with the same figures share the first place.
        let mut shared = cases(true);
        for case in &mut shared {
            case.values.insert("again".to_owned(), case.values["a"]);
        }
        let page = ranking(&shared, Metric::Auroc).unwrap().page(3).html();
        assert!(
            page.contains("a and again have the best mean rank, 1.50 among 4 methods"),
            "{page}"
        );
    }

    #[test]
    fn too_little_to_rank_is_an_error() {
        let one = case("one", &[("a", 0.9), ("b", 0.8)]);
        let error = ranking(std::slice::from_ref(&one), Metric::Auroc).unwrap_err().to_string();
        assert!(error.contains("at least 2 cases, got 1"), "{error}");
        let error = ranking(&[one.clone(), case("two", &[("a", 0.1)])], Metric::Auroc)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("got 1; b has none for two: it was not evaluated"), "{error}");
    }
}
