//! Fits methods on a pack's training rows, scores its sets and judges the scores.

use std::sync::Mutex;
use std::time::Instant;

use offspan::metrics::EvalOptions;
use offspan::{Detector, Disagreement, FitOptions, MethodSpec, Observer};
use serde_json::json;

use super::result::{FitFacts, MethodResult};
use super::scores::{Scored, Scores};
use super::sets::Sets;
use crate::Result;
use crate::hook::Hook;

/// A method that has a result, with its scores.
pub(super) struct Found {
    pub(super) result: MethodResult,
    pub(super) scores: Scores,
    pub(super) detector: Detector,
}

/// With `all`, kernel PCA from the full kernel matrix is left out beyond this many rows: its time
/// grows with their cube.
const MOST_ROWS_EXACT: usize = 4000;

/// Why a method that nobody named should not run on these rows, if so.
///
/// # Errors
/// If the rows cannot be read.
pub(crate) fn reasons_against(
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

/// Fits each method on all training rows and evaluates it. `visit` gets each method's number and
/// result; one that fails does not stop the others.
pub(crate) fn fit_and_evaluate_each(
    specs: &[MethodSpec],
    names: &[String],
    sets: &Sets<'_>,
    options: &EvalOptions,
    observer: &dyn Observer,
    mut visit: impl FnMut(usize, offspan::Result<MethodResult>) -> offspan::Result<()>,
) -> Result<()> {
    fit_each(specs, names, sets, options, None, observer, |index, found| {
        visit(index, found.map(|found| found.result))
    })
}

pub(super) fn fit_each(
    specs: &[MethodSpec],
    names: &[String],
    sets: &Sets<'_>,
    options: &EvalOptions,
    right: Option<&[bool]>,
    observer: &dyn Observer,
    mut visit: impl FnMut(usize, offspan::Result<Found>) -> offspan::Result<()>,
) -> Result<()> {
    if specs.is_empty() {
        return Ok(());
    }
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
        let found = fitted.and_then(|detector| {
            let facts = FitFacts::of(&detector, seconds());
            evaluate(detector, &names[index], Some(facts), sets, options, right, observer)
        });
        match found {
            Err(error @ offspan::Error::Interrupted { .. }) => Err(error),
            found => visit(index, found),
        }
    })?;
    Ok(())
}

/// Scores the rows of a pack and judges the scores.
///
/// # Errors
/// If the rows do not fit the detector, or the observer asks to stop.
pub(crate) fn evaluate_detector(
    detector: Detector,
    name: &str,
    sets: &Sets<'_>,
    options: &EvalOptions,
    observer: &dyn Observer,
) -> offspan::Result<(MethodResult, Scored)> {
    let Found { result, scores, detector } =
        evaluate(detector, name, None, sets, options, None, observer)?;
    Ok((result, scores.scored(Some(detector), sets)))
}

pub(super) fn evaluate(
    detector: Detector,
    name: &str,
    fit: Option<FitFacts>,
    sets: &Sets<'_>,
    options: &EvalOptions,
    right: Option<&[bool]>,
    observer: &dyn Observer,
) -> offspan::Result<Found> {
    let (scores, facts) = Scores::of(sets, |set| detector.score_dataset(set, observer))?;
    let figures = scores.judged(sets, options, right, options.seed)?;
    let result = figures.result(name, json!(detector.info().spec), fit, facts);
    Ok(Found { result, scores, detector })
}
