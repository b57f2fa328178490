//! Methods on a pack: fit, score, judge.

mod advice;
mod document;
mod own;
mod table;

pub use advice::in_a_pack;

pub(crate) use document::name_the_rate;
pub use document::{document, rate_name};
pub use own::{OwnDetector, OwnMethod, evaluate_own};
pub use table::comparison;
pub(crate) use table::{best_marked, left_out, metric_names, numbers};

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use offspan::io::{Dataset, Head, Pack};
use offspan::metrics::{Average, EvalOptions, Evaluation, average, evaluate};
use offspan::{Detector, Disagreement, FitOptions, Found, MethodSpec, Observer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::hook::Hook;
use crate::{Result, StudyError};

/// The parts of a pack that an evaluation needs.
#[derive(Clone, Copy)]
pub struct Sets<'a> {
    /// Rows to fit on.
    pub train: &'a Dataset<'a>,
    /// In-distribution rows to judge with.
    pub test: &'a Dataset<'a>,
    /// Out-of-distribution sets.
    pub ood: &'a [Dataset<'a>],
    /// The network's last layer.
    pub head: Option<&'a Head>,
}

impl<'a> Sets<'a> {
    /// The parts of this pack.
    ///
    /// # Errors
    /// If it has no test rows or no out-of-distribution set.
    pub fn of(pack: &'a Pack) -> Result<Self> {
        let missing = |what: &str| {
            StudyError::Setup(format!(
                "pack {} has no {what}: an evaluation compares in-distribution rows in `test` with each set \
                 in `ood/`",
                pack.name
            ))
        };
        if pack.ood.is_empty() {
            return Err(missing("ood/NAME.safetensors"));
        }
        Ok(Sets {
            train: &pack.train,
            test: pack.test.as_ref().ok_or_else(|| missing("test.safetensors"))?,
            ood: &pack.ood,
            head: pack.head.as_ref(),
        })
    }

    /// Rows to score.
    #[must_use]
    pub fn scored_rows(&self) -> usize {
        self.test.rows() + self.ood.iter().map(Dataset::rows).sum::<usize>()
    }
}

/// One method's results on a pack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MethodResult {
    /// What it is called in tables.
    pub method: String,
    /// The method with its parameters.
    pub params: Value,
    /// Of the fit; none for a detector that came as a file.
    pub fit: Option<FitFacts>,
    /// Of the scoring.
    pub score: ScoreFacts,
    /// By out-of-distribution set.
    pub sets: BTreeMap<String, Evaluation>,
    /// Over the sets.
    pub average: Average,
}

/// What is to be told of a fit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FitFacts {
    /// Training rows.
    pub rows: u64,
    /// What it took.
    pub seconds: f64,
    /// Directions kept, q.
    pub components: Option<usize>,
    /// Numbers that the fit found.
    #[serde(default, skip_serializing_if = "Found::is_empty")]
    pub found: Found,
}

/// What is to be told of the scoring.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScoreFacts {
    /// Rows scored.
    pub rows: usize,
    /// What they took.
    pub seconds: f64,
}

/// A detector with its scores of a pack's rows.
#[derive(Debug, Clone)]
pub struct Scored {
    /// The detector.
    pub detector: Detector,
    /// Scores of the test rows.
    pub ind: Vec<f64>,
    /// Scores of each out-of-distribution set, in the order of the pack.
    pub ood: Vec<Vec<f64>>,
}

/// Results, and the methods that gave none.
#[derive(Debug, Default, Serialize)]
pub struct Evaluations {
    /// In the order of the methods.
    pub results: Vec<MethodResult>,
    /// Why some are missing.
    pub without: Vec<LeftOut>,
}

/// A method without results.
#[derive(Debug, Clone, Serialize)]
pub struct LeftOut {
    /// The method.
    pub method: String,
    /// Why.
    pub reason: String,
    /// Whether the user asked for it by name, so that it is a failure.
    #[serde(skip)]
    pub named: bool,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Reasons of the library often begin with the method.
        if self.reason.starts_with(&self.method) {
            return f.write_str(&self.reason);
        }
        write!(f, "{}: {}", self.method, self.reason)
    }
}

/// With `all`, kernel PCA from the full kernel matrix is left out beyond this many rows: its time
/// grows with their cube.
const MOST_ROWS_EXACT: usize = 4000;

/// Why a method that nobody named should not run on these rows, if so.
///
/// # Errors
/// If the rows cannot be read.
pub fn reasons_against(
    methods: &[(String, MethodSpec)],
    sets: &Sets<'_>,
) -> Result<Vec<Option<String>>> {
    let negative = methods.iter().any(|(_, spec)| spec.wants_non_negative())
        && sets.train.has_negative_features()?;
    let rows = sets.train.rows();
    let reason = |(name, spec): &(String, MethodSpec)| {
        if negative && spec.wants_non_negative() {
            Some("made for features that are never negative, and some here are".to_owned())
        } else if name.starts_with("kpca-exact") && rows > MOST_ROWS_EXACT {
            let text =
                format!("takes a kernel matrix of {rows} × {rows}; name it to run it all the same");
            Some(text)
        } else {
            None
        }
    };
    Ok(methods.iter().map(reason).collect())
}

/// Fits every method on all training rows and evaluates it; one that fails does not stop the others.
/// `named` tells the methods that must be tried whatever the rows; `visit` sees each result with the
/// scores behind it.
///
/// # Errors
/// If the rows are bad for all, or the observer asks to stop.
pub fn fit_and_evaluate_all(
    asked: Vec<(String, MethodSpec)>,
    named: &dyn Fn(&str) -> bool,
    sets: &Sets<'_>,
    options: &EvalOptions,
    observer: &dyn Observer,
    mut visit: impl FnMut(&MethodResult, Scored),
) -> Result<Evaluations> {
    let mut evaluations = Evaluations::default();
    let reasons = reasons_against(&asked, sets)?;
    let (mut kept, mut kept_names) = (Vec::new(), Vec::new());
    for ((name, spec), reason) in asked.into_iter().zip(reasons) {
        match reason.filter(|_| !named(&name)) {
            Some(reason) => {
                evaluations.without.push(LeftOut { method: name, reason, named: false });
            }
            None => {
                kept.push(spec);
                kept_names.push(name);
            }
        }
    }
    fit_and_evaluate_each(&kept, &kept_names, sets, options, observer, |index, result| {
        match result {
            Ok((result, scored)) => {
                visit(&result, scored);
                evaluations.results.push(result);
            }
            Err(error) => evaluations.without.push(LeftOut {
                method: kept_names[index].clone(),
                reason: in_a_pack(error).to_string(),
                named: named(&kept_names[index]),
            }),
        }
        Ok(())
    })?;
    Ok(evaluations)
}

/// Fits each method on all training rows and evaluates it. `visit` gets each method's number and
/// result; one that fails does not stop the others.
pub(crate) fn fit_and_evaluate_each(
    specs: &[MethodSpec],
    names: &[String],
    sets: &Sets<'_>,
    options: &EvalOptions,
    observer: &dyn Observer,
    mut visit: impl FnMut(usize, offspan::Result<(MethodResult, Scored)>) -> offspan::Result<()>,
) -> Result<()> {
    let started = Mutex::new(Instant::now());
    let hook = Hook {
        observer,
        on_method: |observer: &dyn Observer, name: &str, number: usize, of: usize| {
            if let Ok(mut started) = started.lock() {
                *started = Instant::now();
            }
            observer.method(name, number, of);
        },
    };
    if let Some(head) = sets.head {
        for rows in std::iter::once(sets.test).chain(sets.ood) {
            // What cannot be read is told where it is scored.
            if let Ok(Some(disagreement)) = Disagreement::of(rows, head) {
                observer.note(&disagreement.to_string());
            }
        }
    }
    let seconds = || started.lock().map_or(0.0, |started| started.elapsed().as_secs_f64());
    let fit_options = FitOptions { hold_out: Some(0.0), observer: &hook, ..FitOptions::default() };
    Detector::fit_each(specs, sets.train, sets.head, &fit_options, |index, fitted| {
        let result = fitted.and_then(|detector| {
            let facts = FitFacts::of(&detector, seconds());
            evaluate_detector(detector, &names[index], Some(facts), sets, options, observer)
        });
        match result {
            Err(error @ offspan::Error::Interrupted { .. }) => Err(error),
            result => visit(index, result),
        }
    })?;
    Ok(())
}

/// Scores the rows of a pack and judges the scores.
///
/// # Errors
/// If the rows do not fit the detector, or the observer asks to stop.
pub fn evaluate_detector(
    detector: Detector,
    name: &str,
    fit: Option<FitFacts>,
    sets: &Sets<'_>,
    options: &EvalOptions,
    observer: &dyn Observer,
) -> offspan::Result<(MethodResult, Scored)> {
    let scores = Scores::of(sets, |set| detector.score_dataset(set, observer))?;
    let result = scores.judged(name, json!(detector.info().spec), fit, sets, options)?;
    let Scores { ind, ood, .. } = scores;
    Ok((result, Scored { detector, ind, ood }))
}

/// A method's scores of a pack's rows.
struct Scores {
    ind: Vec<f64>,
    ood: Vec<Vec<f64>>,
    facts: ScoreFacts,
}

impl Scores {
    fn of(
        sets: &Sets<'_>,
        score: impl Fn(&Dataset<'_>) -> offspan::Result<Vec<f64>>,
    ) -> offspan::Result<Self> {
        let started = Instant::now();
        let ind = score(sets.test)?;
        let ood = sets.ood.iter().map(score).collect::<offspan::Result<_>>()?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(Scores { ind, ood, facts: ScoreFacts { rows: sets.scored_rows(), seconds } })
    }

    fn judged(
        &self,
        method: &str,
        params: Value,
        fit: Option<FitFacts>,
        sets: &Sets<'_>,
        options: &EvalOptions,
    ) -> offspan::Result<MethodResult> {
        let mut evaluations = BTreeMap::new();
        for (set, scores) in sets.ood.iter().zip(&self.ood) {
            let evaluation = evaluate(&self.ind, scores, options).map_err(offspan::Error::from)?;
            evaluations.insert(set.name().to_owned(), evaluation);
        }
        let all: Vec<Evaluation> = evaluations.values().copied().collect();
        let average =
            average(&all).unwrap_or_else(|| unreachable!("the pack has out-of-distribution sets"));
        Ok(MethodResult {
            method: method.to_owned(),
            params,
            fit,
            score: self.facts.clone(),
            sets: evaluations,
            average,
        })
    }
}

impl FitFacts {
    fn of(detector: &Detector, seconds: f64) -> Self {
        FitFacts {
            rows: detector.info().training.rows,
            seconds,
            components: detector.kpca_summaries().last().map(|summary| summary.components),
            found: detector.found(),
        }
    }
}
