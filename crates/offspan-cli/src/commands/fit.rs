//! `offspan fit`: features in, one detector file out.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use offspan::io::{Content, FileLock, Input, TrainingData, TrainingInputs, open_dataset};
use offspan::{
    CalibrationSource, Checkpointing, Detector, FitEstimate, FitOptions, KpcaSummary, MethodSpec,
    ModelSource, Observer, Promise, with_pseudo_labels,
};
use serde_json::json;

use super::calibrate::threshold_in_words;
use super::dry_run;
use crate::Outcome;
use crate::args::{DataArgs, FitArgs};
use crate::output::{Failure, Table, percent, size};
use crate::output_guard::{Guard, same_file};
use crate::progress::Progress;

pub(crate) fn run(args: &FitArgs) -> Outcome {
    if args.method == "all" {
        return Err(Failure::Usage("fit makes one detector; all is for `offspan eval`".to_owned()));
    }
    let method_options = args.method_args.read()?;
    let spec = &method_options.method(&args.method)?;
    let guard = Guard::new(args.force)
        .reads([&args.data])
        .reads(&args.calibrate)
        .reads(args.data_args.files())
        .reads(args.method_args.files());
    args.json.target().check(&guard)?;
    let Some(output) = &args.output else { return dry_run(args, spec, method_options.seed()) };
    guard.file(output, Content::Detector)?;
    // Kept to the end: of two fits with one output, the second is told at once.
    let _lock = FileLock::try_new(output)?;
    let checkpoint = checkpointing(args, output, spec, &guard)?;
    let features = Features::of(args)?;
    let TrainingData { rows: data, head, calibrate: of_pack, .. } =
        open(features.path(args), &features.data_args(args))?;
    let calibrate = match features.calibration(args) {
        Some(path) => Some(open_dataset(&path, args.data_args.read.reading()?.suited_to(&path))?),
        // Who asks for held-out rows gets them.
        None => of_pack.filter(|_| args.hold_out.is_none()),
    };
    let progress = Progress::default();
    let started = Instant::now();
    let data = match args.pseudo_labels {
        Some(clusters) => with_pseudo_labels(data, clusters, method_options.seed(), &progress)?,
        None => data,
    };
    let options = FitOptions {
        hold_out: args.hold_out,
        calibrate: calibrate.as_ref(),
        promise: Promise { keep: args.keep, confidence: args.confidence },
        seed: method_options.seed(),
        checkpoint: checkpoint.as_ref(),
        observer: &progress,
    };
    let detector = Detector::fit(spec, &data, head.as_ref(), &options)?;
    let detector = detector.with_source(features.source(args)?);
    detector.save_over(output)?;
    if let Some(checkpoint) = &checkpoint
        && let Err(error) = detector.remove_checkpoints(checkpoint)
    {
        progress
            .note(&format!("{error}; the detector is written, and the checkpoint is not needed"));
    }
    drop(progress);
    let seconds = started.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(output).map_or(0, |metadata| metadata.len());
    let document = || {
        json!({
            "schema": "offspan.fit/1",
            "detector": output,
            "bytes": bytes,
            "seconds": seconds,
            "info": detector.info(),
        })
    };
    args.json.target().tell(document, || {
        features.words().to_owned() + &in_words(output, &detector, seconds, bytes)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Tells what the fit would take.
fn dry_run(args: &FitArgs, spec: &MethodSpec, seed: u64) -> Outcome {
    let features = Features::of(args)?;
    let TrainingData { rows: data, head, .. } =
        open(features.path(args), &features.data_args(args))?;
    let progress = Progress::default();
    let options = FitOptions {
        hold_out: args.hold_out,
        promise: Promise { keep: args.keep, confidence: args.confidence },
        seed,
        observer: &progress,
        ..FitOptions::default()
    };
    let estimate = FitEstimate::of(spec, &data, head.as_ref(), &options)?;
    drop(progress);
    dry_run::tell(args, &spec.method(), &estimate)
}

/// Where the features of a fit come from: its file or pack, or a model that has just given them.
struct Features {
    #[cfg(feature = "onnx")]
    of_model: Option<super::from_model::ModelPack>,
}

#[cfg(feature = "onnx")]
impl Features {
    fn of(args: &FitArgs) -> Result<Self, Failure> {
        Ok(Features { of_model: super::from_model::extract_for_fit(args)? })
    }

    fn path<'a>(&'a self, args: &'a FitArgs) -> &'a Path {
        self.of_model.as_ref().map_or(&*args.data, |model| model.path())
    }

    /// What belongs to files; a model has given it already.
    fn data_args(&self, args: &FitArgs) -> DataArgs {
        match &self.of_model {
            Some(_) => DataArgs::default(),
            None => args.data_args.clone(),
        }
    }

    fn calibration(&self, args: &FitArgs) -> Option<PathBuf> {
        let given = args.calibrate.clone()?;
        Some(self.of_model.as_ref().map_or(given, |model| model.calibration()))
    }

    fn source(&self, args: &FitArgs) -> Result<Option<ModelSource>, Failure> {
        match &self.of_model {
            Some(model) => Ok(Some(model.source.clone())),
            None => super::from_model::source_of_pack(&args.data),
        }
    }

    fn words(&self) -> &str {
        self.of_model.as_ref().map_or("", |model| &model.words)
    }
}

#[cfg(not(feature = "onnx"))]
impl Features {
    fn of(_: &FitArgs) -> Result<Self, Failure> {
        Ok(Features {})
    }

    fn path<'a>(&self, args: &'a FitArgs) -> &'a Path {
        &args.data
    }

    fn data_args(&self, args: &FitArgs) -> DataArgs {
        args.data_args.clone()
    }

    fn calibration(&self, args: &FitArgs) -> Option<PathBuf> {
        args.calibrate.clone()
    }

    fn source(&self, _: &FitArgs) -> Result<Option<ModelSource>, Failure> {
        Ok(None)
    }

    fn words(&self) -> &str {
        ""
    }
}

fn checkpointing(
    args: &FitArgs,
    output: &Path,
    spec: &MethodSpec,
    guard: &Guard,
) -> Result<Option<Checkpointing>, Failure> {
    let Some(path) = &args.checkpoint else { return Ok(None) };
    let every = Duration::try_from_secs_f64(args.checkpoint_every).map_err(|_| {
        Failure::Usage(format!(
            "--checkpoint-every: expected seconds of at least 0, got {}",
            args.checkpoint_every
        ))
    })?;
    let checkpoint = Checkpointing { path: path.clone(), every };
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let is_output = |file: &PathBuf| absolute(file) == absolute(output) || same_file(file, output);
    if checkpoint.files(spec).iter().any(is_output) {
        return Err(Failure::Usage(format!(
            "--checkpoint {} would use the file {}; it is removed when the detector is written",
            path.display(),
            output.display()
        )));
    }
    for file in checkpoint.files(spec) {
        guard.file(&file, Content::Checkpoint)?;
    }
    Ok(Some(checkpoint))
}

/// The training rows, and what else a pack or the flags give.
pub(crate) fn open(path: &Path, args: &DataArgs) -> Result<TrainingData<'static>, Failure> {
    let mut inputs = TrainingInputs::of_path(path).reading(args.read.reading()?);
    if let Some(path) = &args.logits {
        inputs = inputs.logits(Input::File(path.clone()));
    }
    if let Some(path) = &args.labels {
        inputs = inputs.labels(Input::File(path.clone()));
    }
    if let Some(path) = &args.head {
        inputs = inputs.head(Input::File(path.clone()));
    }
    Ok(inputs.open()?)
}

fn in_words(output: &Path, detector: &Detector, seconds: f64, bytes: u64) -> String {
    let info = detector.info();
    let of_training_rows =
        detector.threshold().is_some_and(|t| t.source == CalibrationSource::HeldOut);
    let mut text = format!(
        "{} fitted on {} × {} features in {seconds:.1} s{}\n",
        info.method,
        info.training.rows,
        info.training.width,
        if of_training_rows {
            "; its threshold was set with training rows and promises nothing of new ones"
        } else {
            ""
        }
    );
    for summary in detector.kpca_summaries() {
        text += &summary_in_words(summary);
    }
    text += &found_in_words(detector);
    text += &detector.threshold().map_or_else(
        || "no threshold: `score` gives scores without decisions\n".to_owned(),
        threshold_in_words,
    );
    if of_training_rows {
        text += "if the network has trained on those rows, new ones score lower, and more of them are called \
                 out: calibrate with\nrows that it has not seen (`calibrate` or `val` in the pack, \
                 --calibrate FILE, or `offspan calibrate`)\n";
    }
    let _ = writeln!(
        text,
        "written to {} ({})\n\nnext: offspan score {} NEW.npy",
        output.display(),
        size(bytes),
        output.display()
    );
    text
}

/// The numbers that a fit found: a table of the terms of the score, where it has any, and the others one
/// per line.
pub(crate) fn found_in_words(detector: &Detector) -> String {
    let mut text = terms_in_words(detector);
    for (name, value) in detector.found_besides_terms() {
        let size = value.abs();
        let _ = if value.fract() == 0.0 {
            writeln!(text, "{name}: {value}")
        } else if (1e-3..1e6).contains(&size) {
            writeln!(text, "{name}: {value:.4}")
        } else {
            writeln!(text, "{name}: {value:.3e}")
        };
    }
    text
}

/// The terms of a joint score, the heaviest first.
fn terms_in_words(detector: &Detector) -> String {
    let terms = detector.terms();
    if terms.is_empty() {
        return String::new();
    }
    // In files from before there were more than two terms, weights do not add up to 1.
    let sum: f64 = terms.iter().map(|term| term.weight).sum();
    let mut table = Table::new(["term of the score", "weight %", "AUROC % for left-out classes"]);
    for term in terms {
        let weight = match term.weight {
            0.0 => "left out".to_owned(),
            weight => format!("{:.1}", 100.0 * weight / sum),
        };
        table.row([term.name, weight, term.auroc.map_or("-".to_owned(), percent)]);
    }
    format!("\n{table}\n")
}

/// What a kernel PCA fit found.
pub(crate) fn summary_in_words(summary: &KpcaSummary) -> String {
    let mut text = String::new();
    if let Some(clip) = summary.clip {
        let _ = writeln!(text, "activations cut at {clip:.6}");
    }
    if let Some(rank) = &summary.rank {
        let _ = writeln!(
            text,
            "{} landmarks, {} distinct; {} of the landmark kernel's eigenvalues kept (smallest {:.1e} \
             of the largest{})",
            rank.landmarks,
            rank.distinct,
            rank.rank,
            rank.smallest_kept,
            rank.largest_under_floor.map_or_else(String::new, |value| format!(
                ", {} under the floor, the largest of them {value:.1e}",
                rank.distinct.saturating_sub(rank.rank)
            )),
        );
    }
    let _ = writeln!(
        text,
        "{} of {} directions kept, {:.2} % of the variance",
        summary.components,
        summary.dimensions,
        100.0 * summary.explained_variance
    );
    text
}
