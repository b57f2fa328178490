//! Does an evaluation give the same figures again?

use std::collections::BTreeMap;

use offspan::metrics::Difference;
use offspan::{Detector, MethodSpec, Observer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::document::Document;
use super::evaluator::Evaluator;
use super::outside::OutsideScores;
use super::own::OwnMethod;
use super::provenance::Provenance;
use super::result::{Evaluations, MethodResult, Over, Source};
use super::sets::Sets;
use super::statistics::{Compared, DifferenceOver};
use crate::{Result, StudyError};

/// Figures that differ by more do not agree: 0.05 points. The same program on the same kind of processor
/// gives identical figures; on another kind, a fit may round differently, and a few rows change sides.
const TOLERANCE: f64 = 0.0005;

/// What came of a repetition.
#[derive(Debug, Clone, Serialize)]
pub struct Repetition {
    /// Whether every figure agrees.
    pub agrees: bool,
    /// Whether every figure is the same to the last bit.
    pub identical: bool,
    /// Splits whose rows are not those of the document; nothing is repeated then.
    pub other_rows: Vec<String>,
    /// Whether the document tells what its rows were.
    pub rows_known: bool,
    /// Every method of the document.
    pub methods: Vec<MethodAgreement>,
    /// Every comparison of the document, by the names of both methods.
    pub comparisons: Vec<MethodAgreement>,
    /// What made the document.
    pub then: Option<Provenance>,
    /// What repeated it.
    pub now: Provenance,
}

/// How the figures of a method, or of a comparison of two, agree.
#[derive(Debug, Clone, Default, Serialize)]
pub struct MethodAgreement {
    /// The method.
    pub method: String,
    /// Figures compared.
    pub figures: usize,
    /// The largest difference.
    pub largest: f64,
    /// The figure that has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub largest_at: String,
    /// Why there is nothing to compare, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Repetition {
    /// For machines.
    #[must_use]
    pub fn document(&self) -> Value {
        let mut document = json!(self);
        document["schema"] = json!("offspan.repeat/1");
        document
    }
}

impl MethodAgreement {
    /// Of figures then and now, both by their paths.
    fn of(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> Self {
        let mut agreement = MethodAgreement { figures: before.len(), ..MethodAgreement::default() };
        for (name, value) in before {
            // A figure that is missing now is as far off as can be.
            let difference = after.get(name).map_or(1.0, |now| (now - value).abs());
            if difference > agreement.largest {
                agreement.largest = difference;
                agreement.largest_at.clone_from(name);
            }
        }
        agreement
    }

    /// Whether the figures agree.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.reason.is_none() && self.largest <= TOLERANCE
    }
}

/// Does again what a document tells, on these rows.
///
/// # Errors
/// If the document has no results, rows cannot be read, or the observer asks to stop.
pub fn repeat(document: &Document, sets: Sets<'_>, observer: &dyn Observer) -> Result<Repetition> {
    if document.results.is_empty() {
        let text = "the document has no results: expected those of at least 1 method, got none";
        return Err(StudyError::Setup(text.to_owned()));
    }
    let then = document.provenance.clone();
    let seeds = then.as_ref().map_or(1, |then| then.seeds.len().max(1));
    let mut evaluator = Evaluator::new(sets, document.metrics)?.seeds(seeds)?;
    for one in &document.comparisons {
        evaluator = evaluator.compare(&one.first, &one.second);
    }
    let now = Provenance::of(&sets, None, evaluator.seed_list())?;
    let other_rows = then.as_ref().map_or_else(Vec::new, |then| then.other_rows(&now));
    let mut repetition = Repetition {
        agrees: false,
        identical: false,
        rows_known: then.is_some(),
        other_rows,
        methods: Vec::new(),
        comparisons: Vec::new(),
        then,
        now,
    };
    if !repetition.other_rows.is_empty() {
        return Ok(repetition);
    }
    let mut reasons: BTreeMap<String, String> = BTreeMap::new();
    let mut methods = Vec::new();
    for result in &document.results {
        match (&result.source, MethodSpec::deserialize(&result.params)) {
            (None, Ok(spec)) => methods.push((result.method.clone(), spec)),
            (None, Err(_)) => {
                let reason = "it is no method of this program".to_owned();
                reasons.insert(result.method.clone(), reason);
            }
            (Some(source), _) => {
                if let Err(error) = evaluate_file(&mut evaluator, &result.method, source, observer)
                {
                    if error.ends_all() {
                        return Err(error);
                    }
                    reasons.insert(result.method.clone(), error.to_string());
                }
            }
        }
    }
    evaluator.library(methods, &|_| true, observer, |_, _| {})?;
    evaluator.compare_what_is_there();
    let evaluations = evaluator.finish();
    let agreement = |result: &MethodResult| agreement(result, &evaluations, &reasons);
    repetition.methods = document.results.iter().map(agreement).collect();
    let compared = document.comparisons.iter();
    repetition.comparisons = compared.map(|one| compared_again(one, &evaluations)).collect();
    let all = || repetition.methods.iter().chain(&repetition.comparisons);
    let agrees = all().all(MethodAgreement::agrees);
    let same_values = all().all(|one| one.agrees() && one.largest == 0.0);
    repetition.agrees = agrees;
    repetition.identical = same_values && evaluations.comparisons == document.comparisons;
    Ok(repetition)
}

/// How the differences between two methods agree. Their p-values follow from the same rows, and count for
/// identity only: one resample moves them by as much as other figures may differ.
fn compared_again(before: &Compared, evaluations: &Evaluations) -> MethodAgreement {
    let same = |one: &&Compared| (&one.first, &one.second) == (&before.first, &before.second);
    let figures = |compared: &Compared| {
        let of = |one: &DifferenceOver| {
            let values = |all: &Difference| json!([all.first, all.second, all.interval]);
            // A group may have the name of a set.
            let over = match &one.over {
                Over::Average => "average".to_owned(),
                Over::Group(name) => format!("groups.{name}"),
                Over::Set(name) => format!("sets.{name}"),
            };
            (over, json!({ "fpr": values(&one.fpr), "auroc": values(&one.auroc) }))
        };
        let parts: serde_json::Map<String, Value> = compared.differences.iter().map(of).collect();
        let mut found = BTreeMap::new();
        collect(&Value::Object(parts), String::new(), &mut found);
        found
    };
    let after = evaluations.comparisons.iter().find(same);
    MethodAgreement {
        method: format!("{} − {}", before.first, before.second),
        reason: after.is_none().then(|| "one of them has no result".to_owned()),
        ..MethodAgreement::of(&figures(before), &after.map_or_else(BTreeMap::new, figures))
    }
}

/// Evaluates the detector that a result came from, if it is still the same file.
fn evaluate_file(
    evaluator: &mut Evaluator<'_>,
    method: &str,
    source: &Source,
    observer: &dyn Observer,
) -> Result<()> {
    let path = std::path::Path::new(&source.path);
    let other = || StudyError::Setup(format!("{} is another file than it was", source.path));
    if path.is_dir() {
        let scores = OutsideScores::open(method, path, &evaluator.sets())?;
        if scores.source().as_ref() != Some(source) {
            return Err(other());
        }
        return evaluator.own(&scores, observer).map(drop);
    }
    if Source::of_file(path)? != *source {
        return Err(other());
    }
    evaluator.detector(method, Detector::load(path)?, None, observer).map(drop)
}

fn agreement(
    before: &MethodResult,
    evaluations: &Evaluations,
    reasons: &BTreeMap<String, String>,
) -> MethodAgreement {
    let reason = reasons.get(&before.method).cloned();
    let Some(after) = evaluations.result(&before.method) else {
        let left_out = evaluations.without.iter().find(|left| left.method == before.method);
        let why =
            || left_out.map_or_else(|| "it gave no result".to_owned(), |left| left.reason.clone());
        return MethodAgreement {
            method: before.method.clone(),
            reason: Some(reason.unwrap_or_else(why)),
            ..MethodAgreement::default()
        };
    };
    let agreement = MethodAgreement::of(&figures(before), &figures(after));
    MethodAgreement { method: before.method.clone(), reason, ..agreement }
}

/// Every figure of a result under its path: `sets.svhn.auroc`.
fn figures(result: &MethodResult) -> BTreeMap<String, f64> {
    let parts = json!({
        "sets": result.sets,
        "average": result.average,
        "groups": result.groups,
        "ind": result.ind,
        "seeds": result.seeds.as_ref().map(|seeds| &seeds.runs),
    });
    let mut found = BTreeMap::new();
    collect(&parts, String::new(), &mut found);
    found
}

fn collect(value: &Value, path: String, found: &mut BTreeMap<String, f64>) {
    let below =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| collect(value, below(name), found));
        }
        Value::Array(values) => {
            let numbered = values.iter().enumerate();
            numbered.for_each(|(at, value)| collect(value, below(&at.to_string()), found));
        }
        Value::Number(number) => found.extend(number.as_f64().map(|number| (path, number))),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
