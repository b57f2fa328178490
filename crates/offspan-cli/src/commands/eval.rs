//! `offspan eval`: fit methods on a pack, score its sets, print how well they tell them apart.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use offspan::io::{Dataset, Head, Pack, check_writable, write_text};
use offspan::metrics::{Average, EvalOptions, Evaluation, average, evaluate};
use offspan::{Detector, FitOptions, MethodSpec};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Outcome;
use crate::args::EvalArgs;
use crate::output::{Failure, Table, json_text, percent, print};
use crate::progress::Progress;
use crate::spec::specs;

pub(crate) fn run(args: &EvalArgs) -> Outcome {
    let default = ["kpca-nys".to_owned()];
    let names: &[String] = match (args.method.is_empty(), args.detector.is_empty()) {
        (true, true) => &default,
        _ => &args.method,
    };
    let specs = specs(names, &args.method_args)?;
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    if let (Some(path), false) = (&args.json, to_stdout) {
        check_writable(path)?;
    }
    let options = EvalOptions {
        tpr: args.tpr,
        rule: args.fpr_rule,
        interval: args.ci,
        seed: args.method_args.seed,
        ..EvalOptions::default()
    };
    let pack = Pack::open(&args.pack)?;
    let sets = Sets::of(&pack)?;
    let mut results = Vec::new();
    for spec in &specs {
        results.push(fit_and_evaluate(spec, &sets, &options)?);
    }
    for path in &args.detector {
        let detector = Detector::load(path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        results.push(evaluate_detector(&detector, &name, None, &sets, &options)?);
    }
    let document = document(&pack.name, &results, &options);
    if let Some(path) = &args.json {
        let text = json_text(&document)? + "\n";
        if to_stdout {
            print(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        write_text(path, &text)?;
    }
    print(&table(&results, &options))?;
    Ok(ExitCode::SUCCESS)
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

impl MethodResult {
    /// The same results under another name.
    pub(crate) fn labelled(self, label: &str) -> Self {
        MethodResult { method: label.to_owned(), ..self }
    }
}

#[derive(Serialize)]
pub(crate) struct FitFacts {
    rows: u64,
    seconds: f64,
    components: Option<usize>,
}

#[derive(Serialize)]
struct ScoreFacts {
    rows: usize,
    seconds: f64,
}

/// Fits on all training rows and evaluates.
pub(crate) fn fit_and_evaluate(
    spec: &MethodSpec,
    sets: &Sets<'_>,
    options: &EvalOptions,
) -> Result<MethodResult, Failure> {
    let progress = Progress::new(format!("{}:", spec.method()));
    let started = Instant::now();
    let fit_options = FitOptions { hold_out: 0.0, observer: &progress, ..FitOptions::default() };
    let detector = Detector::fit(spec, sets.train, sets.head, &fit_options)?;
    drop(progress);
    let facts = FitFacts {
        rows: detector.info().training.rows,
        seconds: started.elapsed().as_secs_f64(),
        components: detector.kpca_summaries().last().map(|summary| summary.components),
    };
    evaluate_detector(&detector, spec.method(), Some(facts), sets, options)
}

fn evaluate_detector(
    detector: &Detector,
    name: &str,
    fit: Option<FitFacts>,
    sets: &Sets<'_>,
    options: &EvalOptions,
) -> Result<MethodResult, Failure> {
    let progress = Progress::new(format!("{name}:"));
    let started = Instant::now();
    let ind = detector.score_dataset(sets.test, &progress)?;
    let mut rows = ind.len();
    let mut scores = Vec::new();
    for set in sets.ood {
        scores.push(detector.score_dataset(set, &progress)?);
        rows += set.rows();
    }
    let seconds = started.elapsed().as_secs_f64();
    let mut evaluations = BTreeMap::new();
    for (set, ood) in sets.ood.iter().zip(&scores) {
        let evaluation = evaluate(&ind, ood, options).map_err(offspan::Error::from)?;
        evaluations.insert(set.name.clone(), evaluation);
    }
    let all: Vec<Evaluation> = evaluations.values().copied().collect();
    let average = average(&all)
        .ok_or_else(|| Failure::Usage("the pack has no out-of-distribution sets".to_owned()))?;
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
pub(crate) fn document(pack: &str, results: &[MethodResult], options: &EvalOptions) -> Value {
    let name = fpr_name(options);
    let mut results = json!(results);
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
    })
}

/// One line per method: rate and AUROC per set and on average, best average first.
pub(crate) fn table(results: &[MethodResult], options: &EvalOptions) -> String {
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
