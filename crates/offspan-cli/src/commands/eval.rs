//! `offspan eval`: fit methods on a pack, score its sets, print how well they tell them apart.

use std::path::Path;
use std::process::ExitCode;

use offspan::Detector;
use offspan::io::{Dataset, Pack};
use offspan::metrics::{EvalOptions, IntervalMethod};
use offspan_study::evaluation::{
    Evaluations, LeftOut, MethodResult, Scored, Sets, comparison, document, evaluate_detector,
    fit_and_evaluate_all, in_a_pack, rate_name,
};
use offspan_study::portrait::Portrait;
use offspan_study::published::preset_rows;
use offspan_study::report;

use crate::Outcome;
use crate::args::EvalArgs;
use crate::output::{Failure, Json, Table, complain, percent};
use crate::output_guard::Guard;
use crate::progress::Progress;

pub(crate) fn run(args: &EvalArgs) -> Outcome {
    let default = ["auto".to_owned()];
    let names: &[String] = match (args.method.is_empty(), args.detector.is_empty()) {
        (true, true) => &default,
        _ => &args.method,
    };
    let method_options = args.method_args.read()?;
    let asked = method_options.methods(names)?;
    let (pack, json) = pack_and_json(args)?;
    let guard =
        Guard::new(args.force).reads([pack]).reads(&args.detector).reads(args.method_args.files());
    guard.expects_output(args.report.is_some() || json.is_file(), "--json=FILE or --report")?;
    json.check(&guard)?;
    if let Some(folder) = &args.report {
        guard.folder(folder, &report::files())?;
        report::prepare(folder)?;
    }
    let pack = Pack::open_with(pack, args.judge.read.reading()?)?;
    let sets = Sets::of(&pack)?;
    let interval = args.ci.or(args.report.as_ref().and_then(|_| report_intervals(&sets)));
    let options = EvalOptions {
        tpr: args.judge.tpr,
        rule: args.judge.fpr_rule,
        interval,
        seed: method_options.seed(),
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
    let named = |name: &str| names.iter().any(|given| given == name);
    let mut subject = Subject::new(args.report.as_deref(), names.iter().any(|name| name == "all"));
    let progress = Progress::default();
    let mut evaluations =
        fit_and_evaluate_all(asked, &named, &sets, &options, &progress, |result, scored| {
            subject.consider(result, scored);
        })?;
    evaluations.preset = method_options.preset();
    for (name, detector) in detectors {
        let progress = Progress::new(format!("{name}:"));
        let evaluated = evaluate_detector(detector, &name, None, &sets, &options, &progress);
        let (result, scored) = evaluated.map_err(in_a_pack)?;
        subject.consider(&result, scored);
        evaluations.results.push(result);
    }
    let failed: Vec<&LeftOut> = evaluations.without.iter().filter(|left| left.named).collect();
    failed.iter().for_each(|left_out| complain(&left_out.to_string()));
    if evaluations.results.is_empty() && !failed.is_empty() {
        return Ok(ExitCode::from(2));
    }
    let document = document(&pack.name, &evaluations, &options);
    json.tell(|| &document, || words(&pack.name, &evaluations, &options, args.ci.is_some()))?;
    if let Some(page) = subject.report(&pack.name, &sets, &evaluations, &options, &document)? {
        let apart = if json.is_stdout() { "" } else { "\n" };
        json.mention(&format!("{apart}report: {}", page.display()))?;
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// The pack, and where JSON goes. `eval --json PACK` gives the folder to the flag, which cannot mean
/// it: results are no folder.
fn pack_and_json(args: &EvalArgs) -> Result<(&Path, Json<'_>), Failure> {
    match (args.pack.as_deref(), args.json.as_deref()) {
        (Some(pack), json) => Ok((pack, Json::of(json))),
        (None, Some(folder)) if folder.is_dir() => Ok((folder, Json::Stdout)),
        (None, _) => Err(Failure::Usage(
            "eval needs a pack folder: offspan eval PACK --json, or --json=FILE".to_owned(),
        )),
    }
}

/// A report is for comparing, and a comparison without intervals misleads. Sets of one row have none.
pub(crate) fn report_intervals(sets: &Sets<'_>) -> Option<IntervalMethod> {
    let smallest = sets.ood.iter().chain([sets.test]).map(Dataset::rows).min()?;
    (smallest > 1).then_some(IntervalMethod::DeLong)
}

/// The method that a report shows: the first one, or the best of all.
pub(crate) struct Subject<'a> {
    folder: Option<&'a Path>,
    take_best: bool,
    chosen: Option<(MethodResult, Scored)>,
}

impl<'a> Subject<'a> {
    /// Of the report in this folder, if one is wanted.
    pub(crate) fn new(folder: Option<&'a Path>, take_best: bool) -> Self {
        Subject { folder, take_best, chosen: None }
    }

    /// Keeps a result if the report is to show it.
    pub(crate) fn consider(&mut self, result: &MethodResult, scored: Scored) {
        let better = self
            .chosen
            .as_ref()
            .is_none_or(|(chosen, _)| self.take_best && result.average.fpr < chosen.average.fpr);
        if self.folder.is_some() && better {
            self.chosen = Some((result.clone(), scored));
        }
    }

    /// Writes the report and returns where its page is.
    pub(crate) fn report(
        &self,
        pack: &str,
        sets: &Sets<'_>,
        evaluations: &Evaluations,
        options: &EvalOptions,
        document: &serde_json::Value,
    ) -> Result<Option<std::path::PathBuf>, Failure> {
        let (Some(folder), Some((result, scored))) = (self.folder, &self.chosen) else {
            return Ok(None);
        };
        let progress = Progress::new("report:");
        let portrait = Portrait::of(pack, sets, result, scored, options, &progress)?;
        let best_of = self.take_best.then_some(evaluations.results.len());
        let portrait = Portrait { best_of, ..portrait };
        let table = comparison(&evaluations.results, options);
        Ok(Some(report::write(folder, &portrait, &table, evaluations, document)?))
    }
}

/// The table, and below it the rows of the paper that a preset reproduces.
fn words(
    pack: &str,
    evaluations: &Evaluations,
    options: &EvalOptions,
    with_intervals: bool,
) -> String {
    let text = table(evaluations, options, with_intervals);
    let preset = evaluations.preset.as_ref();
    let Some(rows) = preset.and_then(|preset| preset_rows(pack, &evaluations.results, preset))
    else {
        return text;
    };
    let mut beside = Table::new(rows.header);
    for row in rows.rows {
        beside.row(row.into_iter().map(|cell| cell.text));
    }
    format!("{text}\nbeside the paper; theirs are on their data\n\n{beside}")
}

/// One line per method: rate and AUROC per set and on average, best average first.
pub(crate) fn table(
    evaluations: &Evaluations,
    options: &EvalOptions,
    with_intervals: bool,
) -> String {
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
        rate_name(options).to_uppercase()
    );
    if with_intervals {
        text += &intervals(results, &sets);
    }
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
