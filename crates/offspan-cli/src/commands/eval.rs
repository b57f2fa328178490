//! `offspan eval`: fit methods on a pack, score its sets, print how well they tell them apart.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use offspan::io::{Dataset, Head, Pack, check_writable, write_text};
use offspan::metrics::{Average, EvalOptions, Evaluation, average, evaluate};
use offspan::{Detector, FitOptions, Found, MethodSpec};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Outcome;
use crate::args::EvalArgs;
use crate::output::{Failure, Table, complain, json_text, percent, print, print_json};
use crate::progress::Progress;

pub(crate) fn run(args: &EvalArgs) -> Outcome {
    let default = ["kpca-nys".to_owned()];
    let names: &[String] = match (args.method.is_empty(), args.detector.is_empty()) {
        (true, true) => &default,
        _ => &args.method,
    };
    let method_options = args.method_args.read()?;
    let asked = method_options.methods(names)?;
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    if let (Some(path), false) = (&args.json, to_stdout) {
        check_writable(path)?;
    }
    let options = EvalOptions {
        tpr: args.tpr,
        rule: args.fpr_rule,
        interval: args.ci,
        seed: method_options.seed,
        ..EvalOptions::default()
    };
    options.check().map_err(offspan::Error::from)?;
    let detectors: Vec<(String, Detector)> = args
        .detector
        .iter()
        .map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok((name, Detector::load(path)?))
        })
        .collect::<Result<_, Failure>>()?;
    let pack = Pack::open(&args.pack)?;
    let sets = Sets::of(&pack)?;
    let mut evaluations = fit_and_evaluate_all(asked, names, &sets, &options)?;
    for (name, detector) in &detectors {
        let progress = Progress::new(format!("{name}:"));
        let result = evaluate_detector(detector, name, None, &sets, &options, &progress)?;
        evaluations.results.push(result);
    }
    let failed: Vec<&LeftOut> = evaluations.without.iter().filter(|left| left.named).collect();
    failed.iter().for_each(|left_out| complain(&left_out.to_string()));
    if evaluations.results.is_empty() && !failed.is_empty() {
        return Ok(ExitCode::from(2));
    }
    let document = document(&pack.name, &evaluations, &options);
    match &args.json {
        Some(_) if to_stdout => print_json(&document)?,
        Some(path) => write_text(path, &(json_text(&document)? + "\n"))?,
        None => {}
    }
    if !to_stdout {
        print(&table(&evaluations, &options))?;
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Results, and the methods that gave none.
#[derive(Default, Serialize)]
pub(crate) struct Evaluations {
    pub(crate) results: Vec<MethodResult>,
    without: Vec<LeftOut>,
}

/// A method without results.
#[derive(Serialize)]
struct LeftOut {
    method: String,
    reason: String,
    /// Whether the user asked for it by name, so that it is a failure.
    #[serde(skip)]
    named: bool,
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

/// Fits every method on all training rows and evaluates it; one that fails does not stop the others.
fn fit_and_evaluate_all(
    asked: Vec<(String, MethodSpec)>,
    names: &[String],
    sets: &Sets<'_>,
    options: &EvalOptions,
) -> Result<Evaluations, Failure> {
    let mut evaluations = Evaluations::default();
    let by_name = |name: &str| names.iter().any(|given| given == name);
    let negative = asked.iter().any(|(_, spec)| spec.wants_non_negative())
        && sets.train.has_negative_features()?;
    let (mut kept, mut kept_names) = (Vec::new(), Vec::new());
    for (name, spec) in asked {
        let reason = if by_name(&name) {
            None
        } else if negative && spec.wants_non_negative() {
            Some("made for features that are never negative, and some here are".to_owned())
        } else if name.starts_with("kpca-exact") && sets.train.rows() > MOST_ROWS_EXACT {
            let rows = sets.train.rows();
            Some(format!(
                "takes a kernel matrix of {rows} × {rows}; name it to run it all the same"
            ))
        } else {
            None
        };
        match reason {
            Some(reason) => {
                evaluations.without.push(LeftOut { method: name, reason, named: false });
            }
            None => {
                kept.push(spec);
                kept_names.push(name);
            }
        }
    }
    let progress = Progress::default();
    let fit_options = FitOptions { hold_out: 0.0, observer: &progress, ..FitOptions::default() };
    Detector::fit_each(&kept, sets.train, sets.head, &fit_options, |index, fitted| {
        let name = &kept_names[index];
        let result = fitted.and_then(|detector| {
            let facts = FitFacts::of(&detector, progress.seconds());
            evaluate_detector(&detector, name, Some(facts), sets, options, &progress)
        });
        match result {
            Ok(result) => evaluations.results.push(result),
            Err(error @ offspan::Error::Interrupted { .. }) => return Err(error),
            Err(error) => evaluations.without.push(LeftOut {
                method: name.clone(),
                reason: error.to_string(),
                named: by_name(name),
            }),
        }
        Ok(())
    })?;
    Ok(evaluations)
}

/// The parts of a pack that an evaluation needs.
pub(crate) struct Sets<'a> {
    train: &'a Dataset<'static>,
    test: &'a Dataset<'static>,
    ood: &'a [Dataset<'static>],
    head: Option<&'a Head>,
}

impl<'a> Sets<'a> {
    pub(crate) fn of(pack: &'a Pack) -> Result<Self, Failure> {
        let missing = |what: &str| {
            Failure::Usage(format!(
                "pack {} has no {what}: eval compares in-distribution rows in `test` with each set \
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
}

/// One method's results on a pack.
#[derive(Serialize)]
pub(crate) struct MethodResult {
    method: String,
    params: Value,
    fit: Option<FitFacts>,
    score: ScoreFacts,
    sets: BTreeMap<String, Evaluation>,
    average: Average,
}

#[derive(Serialize)]
pub(crate) struct FitFacts {
    rows: u64,
    seconds: f64,
    components: Option<usize>,
    #[serde(skip_serializing_if = "Found::is_empty")]
    found: Found,
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

#[derive(Serialize)]
struct ScoreFacts {
    rows: usize,
    seconds: f64,
}

/// Fits on all training rows and evaluates.
pub(crate) fn fit_and_evaluate(
    spec: &MethodSpec,
    label: &str,
    sets: &Sets<'_>,
    options: &EvalOptions,
) -> Result<MethodResult, Failure> {
    let progress = Progress::new(format!("{label}:"));
    let fit_options = FitOptions { hold_out: 0.0, observer: &progress, ..FitOptions::default() };
    let detector = Detector::fit(spec, sets.train, sets.head, &fit_options)?;
    let facts = FitFacts::of(&detector, progress.seconds());
    Ok(evaluate_detector(&detector, label, Some(facts), sets, options, &progress)?)
}

fn evaluate_detector(
    detector: &Detector,
    name: &str,
    fit: Option<FitFacts>,
    sets: &Sets<'_>,
    options: &EvalOptions,
    progress: &Progress,
) -> offspan::Result<MethodResult> {
    let started = Instant::now();
    let ind = detector.score_dataset(sets.test, progress)?;
    let mut rows = ind.len();
    let mut scores = Vec::new();
    for set in sets.ood {
        scores.push(detector.score_dataset(set, progress)?);
        rows += set.rows();
    }
    let seconds = started.elapsed().as_secs_f64();
    let mut evaluations = BTreeMap::new();
    for (set, ood) in sets.ood.iter().zip(&scores) {
        let evaluation = evaluate(&ind, ood, options).map_err(offspan::Error::from)?;
        evaluations.insert(set.name.clone(), evaluation);
    }
    let all: Vec<Evaluation> = evaluations.values().copied().collect();
    let average =
        average(&all).unwrap_or_else(|| unreachable!("the pack has out-of-distribution sets"));
    Ok(MethodResult {
        method: name.to_owned(),
        params: json!(detector.info().spec),
        fit,
        score: ScoreFacts { rows, seconds },
        sets: evaluations,
        average,
    })
}

/// The false-positive rate's name carries its true-positive rate: `fpr95`.
fn fpr_name(options: &EvalOptions) -> String {
    // 0.95 → 95, 0.995 → 99.5
    format!("fpr{}", (options.tpr * 1000.0).round() / 10.0)
}

/// The `offspan.eval/1` document.
pub(crate) fn document(pack: &str, evaluations: &Evaluations, options: &EvalOptions) -> Value {
    let name = fpr_name(options);
    let mut results = json!(evaluations.results);
    let rename = |value: &mut Value| {
        if let Some(object) = value.as_object_mut()
            && let Some(fpr) = object.remove("fpr")
        {
            object.insert(name.clone(), fpr);
        }
    };
    for result in results.as_array_mut().into_iter().flatten() {
        rename(&mut result["average"]);
        for (_, set) in result["sets"].as_object_mut().into_iter().flatten() {
            rename(set);
            if let Some(intervals) = set.get_mut("intervals") {
                rename(intervals);
            }
        }
    }
    json!({
        "schema": "offspan.eval/1",
        "pack": pack,
        "metrics": options,
        "results": results,
        "without": evaluations.without,
    })
}

/// One line per method: rate and AUROC per set and on average, best average first.
pub(crate) fn table(evaluations: &Evaluations, options: &EvalOptions) -> String {
    let results = &evaluations.results;
    let Some(first) = results.first() else { return String::new() };
    let sets: Vec<&String> = first.sets.keys().collect();
    let mut header = vec!["method".to_owned(), "q".to_owned(), "average".to_owned()];
    header.extend(sets.iter().map(|set| (*set).clone()));
    header.extend(["fit s".to_owned(), "µs/row".to_owned()]);
    let mut sorted: Vec<&MethodResult> = results.iter().collect();
    sorted.sort_by(|a, b| a.average.fpr.total_cmp(&b.average.fpr));
    let mut table = Table::new(header);
    for result in sorted {
        let pair = |fpr: f64, auroc: f64| format!("{} / {}", percent(fpr), percent(auroc));
        let facts = result.fit.as_ref();
        let mut cells = vec![
            result.method.clone(),
            facts.and_then(|fit| fit.components).map_or("-".to_owned(), |q| q.to_string()),
            pair(result.average.fpr, result.average.auroc),
        ];
        cells.extend(sets.iter().map(|set| {
            let evaluation = &result.sets[*set];
            pair(evaluation.fpr, evaluation.auroc)
        }));
        cells.push(facts.map_or("-".to_owned(), |fit| format!("{:.2}", fit.seconds)));
        let per_row = 1e6 * result.score.seconds / result.score.rows as f64;
        cells.push(format!("{per_row:.1}"));
        table.row(cells);
    }
    let mut text = format!(
        "{} / AUROC in percent; lower / higher is better\n\n{table}",
        fpr_name(options).to_uppercase()
    );
    text += &intervals(results, &sets);
    let without: Vec<String> = evaluations
        .without
        .iter()
        .filter(|left_out| !left_out.named)
        .map(|left_out| format!("  {left_out}\n"))
        .collect();
    if !without.is_empty() {
        text += &format!("\nnot run:\n{}", without.concat());
    }
    text
}

/// The confidence intervals, if they were asked for.
fn intervals(results: &[MethodResult], sets: &[&String]) -> String {
    let mut table = Table::new(["method", "set", "FPR", "AUROC"]);
    let mut any = None;
    for result in results {
        for set in sets {
            if let Some(intervals) = &result.sets[*set].intervals {
                any = Some(intervals.level);
                let range = |[low, high]: [f64; 2]| format!("{} – {}", percent(low), percent(high));
                table.row([
                    result.method.clone(),
                    (*set).clone(),
                    range(intervals.fpr),
                    range(intervals.auroc),
                ]);
            }
        }
    }
    any.map_or_else(String::new, |level| {
        format!("\n{} % confidence intervals\n\n{table}", 100.0 * level)
    })
}
