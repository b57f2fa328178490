//! `offspan eval`: fit methods on a pack, score its sets, print how well they tell them apart.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use offspan::io::{Dataset, Pack};
use offspan::metrics::{EvalOptions, IntervalMethod};
use offspan::{Detector, MethodSpec};
use offspan_report::table::Format;
use offspan_study::evaluation::{
    Evaluations, Evaluator, LeftOut, MethodResult, Metric, OutsideScores, OwnMethod, Provenance,
    Scored, Sets, Source, TableView, document, pseudo_labelled,
};
use offspan_study::portrait::Portrait;
use offspan_study::report;

use crate::Outcome;
use crate::eval_args::{EvalArgs, detector_name};
use crate::output::{Failure, Json, complain, print, remark};
use crate::output_guard::Guard;
use crate::progress::Progress;

pub(crate) fn run(args: &EvalArgs) -> Outcome {
    if let Some(result) = &args.repeat {
        return super::repeat::run(args, result);
    }
    let pairs = args.pairs()?;
    let names = args.methods(&pairs);
    let method_options = args.method_args.read()?;
    let asked = method_options.methods(&names)?;
    let (path, json) = pack_and_json(args)?;
    let out = Out::of(args.format, json)?;
    check_one_table(out.format, &pairs)?;
    let guard =
        Guard::new(args.force).reads([path]).reads(&args.detector).reads(args.method_args.files());
    guard.expects_output(args.report.is_some() || json.is_file(), "--json=FILE or --report")?;
    json.check(&guard)?;
    if let Some(folder) = &args.report {
        guard.folder(folder, &report::files())?;
        report::prepare(folder)?;
    }
    let scores = args.score_folders()?;
    check_names(&asked, args, &scores)?;
    let pack = Pack::open_with(path, args.judge.read.reading()?)?;
    let pack = {
        let progress = Progress::default();
        pseudo_labelled(pack, args.pseudo_labels, method_options.seed(), &progress)?
    };
    let sets = if args.full_spectrum { Sets::full_spectrum(&pack)? } else { Sets::of(&pack)? };
    let of_report = || args.report.as_ref().and_then(|_| report_intervals(&sets));
    let interval = args.ci.or_else(|| of_report().filter(|_| args.seeds == 1));
    let options = EvalOptions {
        tpr: args.judge.tpr,
        rule: args.judge.fpr_rule,
        interval,
        seed: method_options.seed(),
        ..EvalOptions::default()
    };
    let view = args.view(&options)?;
    let mut evaluator = Evaluator::new(sets, options)?.seeds(args.seeds)?;
    for [first, second] in &pairs {
        evaluator = evaluator.compare(first, second);
    }
    check_labels(&view, &evaluator, &pack)?;
    let detectors: Vec<(String, Detector, Source)> = args
        .detector
        .iter()
        .map(|path| Ok((detector_name(path), Detector::load(path)?, Source::of_file(path)?)))
        .collect::<Result<_, Failure>>()?;
    // Files that do not fit are told before the work that they would cost.
    let outside: Vec<OutsideScores> = scores
        .iter()
        .map(|(name, folder)| Ok(OutsideScores::open(name, folder, &sets)?))
        .collect::<Result<_, Failure>>()?;
    let named = |name: &str| names.iter().any(|given| given == name);
    let mut subject = Subject::new(args.report.as_deref(), names.iter().any(|name| name == "all"));
    let progress = Progress::default();
    evaluator.library(asked, &named, &progress, |result, scored| {
        subject.consider(result, scored);
    })?;
    for (name, detector, source) in detectors {
        let progress = Progress::new(format!("{name}:"));
        let scored = evaluator.detector(&name, detector, Some(source), &progress)?;
        if let (Some(scored), Some(result)) = (scored, evaluator.evaluations().result(&name)) {
            subject.consider(result, scored);
        }
    }
    for outside in outside {
        let name = outside.name();
        let unused: Vec<String> =
            outside.unused().iter().map(|path| path.display().to_string()).collect();
        if !unused.is_empty() {
            remark(&format!("{name}: scores of no set of this pack: {}", unused.join(", ")));
        }
        let scored = evaluator.own(&outside, &progress)?;
        if let (Some(scored), Some(result)) = (scored, evaluator.evaluations().result(&name)) {
            subject.consider(result, scored);
        }
    }
    drop(progress);
    let failed: Vec<LeftOut> =
        evaluator.evaluations().without.iter().filter(|left| left.named).cloned().collect();
    failed.iter().for_each(|left_out| complain(&left_out.to_string()));
    if evaluator.evaluations().results.is_empty() && !failed.is_empty() {
        return Ok(ExitCode::from(2));
    }
    let seeds = evaluator.seed_list().to_vec();
    let mut evaluations = evaluator.finish();
    evaluations.not_compared.iter().for_each(|pair| complain(&pair.to_string()));
    evaluations.preset = method_options.preset();
    evaluations.pseudo_labels = args.pseudo_labels;
    if out.has_document(json) || args.report.is_some() {
        let path = Some(path.display().to_string());
        let provenance = Provenance::of(&sets, path, &seeds)?;
        evaluations.provenance = Some(Provenance { read: args.judge.read.told(), ..provenance });
    }
    let text = evaluations.render(&pack.name, &options, &view, out.format)?;
    let document = document(&pack.name, &evaluations, &options);
    json.write(&document)?;
    print(&text)?;
    let missing: Vec<&str> = evaluations
        .without
        .iter()
        .filter(|left| !left.named)
        .map(|left| left.method.as_str())
        .collect();
    if !missing.is_empty() && matches!(out.format, Format::Markdown | Format::Csv | Format::Latex) {
        remark(&format!(
            "not in the table: {}; --format text or json tells why",
            missing.join(", ")
        ));
    }
    if !args.full_spectrum && !pack.shifted.is_empty() {
        let names: Vec<&str> = pack.shifted.iter().map(Dataset::name).collect();
        remark(&format!(
            "not counted: shifted rows ({}); --full-spectrum counts them as in-distribution",
            names.join(", ")
        ));
    }
    if let Some(page) = subject.report(&pack.name, &sets, &evaluations, &options, &document)? {
        let line = format!("report: {}", page.display());
        match out.format {
            Format::Text => print(&format!("\n{line}\n"))?,
            _ => remark(&line),
        }
    }
    let is_whole = failed.is_empty() && evaluations.not_compared.is_empty();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// A comparison is a table of its own.
fn check_one_table(format: Format, pairs: &[[String; 2]]) -> Result<(), Failure> {
    if format == Format::Csv && !pairs.is_empty() {
        return Err(Failure::Usage(
            "--compare: CSV holds one table, and a comparison is another: expected a format such as json, \
             markdown or latex"
                .to_owned(),
        ));
    }
    Ok(())
}

/// A name stands for one method, wherever it comes from.
fn check_names(
    asked: &[(String, MethodSpec)],
    args: &EvalArgs,
    scores: &[(&str, PathBuf)],
) -> Result<(), Failure> {
    let mut known: Vec<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
    let detectors: Vec<String> = args.detector.iter().map(|path| detector_name(path)).collect();
    let detectors = detectors.iter().map(|name| ("--detector", name.as_str()));
    let others = detectors.chain(scores.iter().map(|(name, _)| ("--scores", *name)));
    for (flag, name) in others {
        if known.contains(&name) {
            return Err(Failure::Usage(format!(
                "{flag}: expected a name that no other method has, got {name}"
            )));
        }
        known.push(name);
    }
    Ok(())
}

/// What goes to stdout.
#[derive(Clone, Copy)]
pub(crate) struct Out {
    pub(crate) format: Format,
}

impl Out {
    /// `--json` alone is a format, too.
    pub(crate) fn of(format: Format, json: Json<'_>) -> Result<Self, Failure> {
        match (format, json.is_stdout()) {
            (Format::Text | Format::Json, true) => Ok(Out { format: Format::Json }),
            (_, false) => Ok(Out { format }),
            (_, true) => Err(Failure::Usage(format!(
                "--json and --format {format} both want stdout; --json=FILE writes the document beside it"
            ))),
        }
    }

    /// Whether the document is printed or written.
    pub(crate) fn has_document(self, json: Json<'_>) -> bool {
        self.format == Format::Json || json.is_file()
    }
}

/// A metric that nothing can be said of would be a column of strokes.
fn check_labels(view: &TableView, evaluator: &Evaluator<'_>, pack: &Pack) -> Result<(), Failure> {
    let needing = view.metrics.iter().find(|metric| metric.needs_labels());
    match needing.filter(|_| evaluator.evaluations().accuracy.is_none()) {
        Some(metric) => Err(without_labels("--metrics", *metric, &pack.name)),
        None => Ok(()),
    }
}

/// That a figure of this flag cannot be told on a pack.
pub(crate) fn without_labels(flag: &str, metric: Metric, pack: &str) -> Failure {
    Failure::Usage(format!(
        "{flag}: {metric} needs to know which predictions are right: expected `labels` of the test \
         rows, and logits or the last layer, in pack {pack}"
    ))
}

/// The pack, and where JSON goes. `eval --json PACK` gives the folder to the flag, which cannot mean
/// it: results are no folder.
pub(crate) fn pack_and_json(args: &EvalArgs) -> Result<(&Path, Json<'_>), Failure> {
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
    ) -> Result<Option<PathBuf>, Failure> {
        let (Some(folder), Some((result, scored))) = (self.folder, &self.chosen) else {
            return Ok(None);
        };
        let progress = Progress::new("report:");
        let portrait = Portrait::of(pack, sets, result, scored, options, &progress)?;
        let best_of = self.take_best.then_some(evaluations.results.len());
        let portrait = Portrait { best_of, ..portrait };
        Ok(Some(report::write(folder, &portrait, evaluations, options, document)?))
    }
}
