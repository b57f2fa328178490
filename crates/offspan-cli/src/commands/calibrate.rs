//! `offspan calibrate`: another threshold for a detector, or a test whether its calibration still holds.

use std::process::ExitCode;

use offspan::calibrate::FitCheck;
use offspan::io::{Content, Dataset, FileLock, open_dataset, open_matrix};
use offspan::{CalibrationSource, Detector, Promise, Threshold};
use serde_json::json;

use crate::Outcome;
use crate::args::CalibrateArgs;
use crate::output::{Failure, percent};
use crate::output_guard::Guard;
use crate::progress::Progress;

/// A p-value below this says that rows do not fit.
const DEFAULT_LEVEL: f64 = 0.01;

pub(crate) fn run(args: &CalibrateArgs) -> Outcome {
    match (&args.output, args.check) {
        (None, false) => Err(Failure::Usage(
            "calibrate writes a detector with -o, or compares rows with one by --check".to_owned(),
        )),
        (_, true) => check(args),
        (Some(output), false) => {
            // Not the detector: to replace it by itself with another threshold is a usual wish.
            let guard = Guard::new(args.force).reads(&args.file).reads(&args.logits);
            guard.file(output, Content::Detector)?;
            // Kept to the end: what is read from the detector and written is one step for others.
            let _lock = FileLock::try_new(output)?;
            args.json.target().check(&guard)?;
            let mut detector = Detector::load(&args.detector)?;
            let known = detector.threshold().map(|threshold| threshold.promise);
            let default = known.unwrap_or_default();
            let promise = Promise {
                keep: args.keep.unwrap_or(default.keep),
                confidence: args.confidence.unwrap_or(default.confidence),
            };
            match rows(args)? {
                Some(rows) => detector.calibrate(&rows, promise, &Progress::default())?,
                None => detector.set_promise(promise)?,
            }
            detector.save_over(output)?;
            let document = || {
                json!({
                    "schema": "offspan.calibrate/1",
                    "detector": output,
                    "threshold": detector.threshold(),
                })
            };
            let words = || {
                let threshold = detector.threshold().map_or_else(String::new, threshold_in_words);
                format!("{threshold}written to {}\n", output.display())
            };
            args.json.target().tell(document, words)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(args: &CalibrateArgs) -> Outcome {
    let level = args.level.unwrap_or(DEFAULT_LEVEL);
    if !(level > 0.0 && level < 1.0) {
        return Err(Failure::Usage(format!("--level: expected a share in (0, 1), got {level}")));
    }
    let guard =
        Guard::new(args.force).reads([&args.detector]).reads(&args.file).reads(&args.logits);
    args.json.target().check(&guard)?;
    let detector = Detector::load(&args.detector)?;
    let known = detector.calibration_for("--check")?;
    let Some(rows) = rows(args)? else {
        return Err(Failure::Usage("--check needs in-distribution rows to compare".to_owned()));
    };
    let check = known.check(&detector.score_dataset(&rows, &Progress::default())?)?;
    let fits = check.p_value >= level;
    let document = || {
        json!({
            "schema": "offspan.calibration-check/1",
            "fits": fits,
            "level": level,
            "check": check,
        })
    };
    args.json.target().tell(document, || check_in_words(&check, fits, level))?;
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn rows(args: &CalibrateArgs) -> Result<Option<Dataset<'static>>, Failure> {
    let Some(path) = &args.file else {
        if args.read.is_default() {
            return Ok(None);
        }
        return Err(Failure::Usage(
            "--raw and --columns: expected a file of rows to read".to_owned(),
        ));
    };
    let mut rows = open_dataset(path, args.read.reading()?)?;
    if let Some(path) = &args.logits {
        rows = rows.with_logits(open_matrix(path, "logits", None)?)?;
    }
    Ok(Some(rows))
}

fn check_in_words(check: &FitCheck, fits: bool, level: f64) -> String {
    let share = check.flagged as f64 / check.rows as f64;
    format!(
        "{} of {} rows are out ({} %); {} % are expected of in-distribution rows: p = {:.3}\n\
         largest distance between the score distributions {:.4}: p = {:.3}\n\
         both together: p = {:.3}; {}\n",
        check.flagged,
        check.rows,
        percent(share),
        percent(check.expected_share),
        check.flagged_p_value,
        check.distance,
        check.distance_p_value,
        check.p_value,
        if fits {
            format!("the rows fit the calibration at the level {level}")
        } else {
            format!("the rows do not fit the calibration (below the level {level})")
        }
    )
}

/// What a threshold is and promises.
pub(crate) fn threshold_in_words(threshold: &Threshold) -> String {
    let Promise { keep, confidence } = threshold.promise;
    let [low, high] = threshold.share_interval.map(percent);
    let set_with = match threshold.source {
        CalibrationSource::HeldOut => "training rows that the fit did not see",
        CalibrationSource::Given => "given rows",
    };
    format!(
        "threshold {:.6}, set with {} {set_with}:\nkeeps at least {} % of rows like them with a confidence of \
         {} % (expected {} %; {low} to {high} % in 95 of 100 cases)\n",
        threshold.value,
        threshold.rows,
        100.0 * keep,
        100.0 * confidence,
        percent(threshold.expected_share),
    )
}
