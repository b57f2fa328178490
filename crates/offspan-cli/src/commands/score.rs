//! `offspan score`: one score per row.

use std::fmt::Write;
use std::process::ExitCode;

use offspan::Detector;
use offspan::io::{check_writable, open_dataset, open_matrix, write_npy_f64, write_text};
use serde_json::json;

use crate::Outcome;
use crate::args::ScoreArgs;
use crate::output::{Failure, print, print_json};
use crate::progress::Progress;

pub(crate) fn run(args: &ScoreArgs) -> Outcome {
    let format = match &args.output {
        None => None,
        Some(path) => {
            check_writable(path)?;
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
            let device = path.exists() && !path.is_file();
            match extension {
                "npy" | "csv" => Some((path, extension)),
                _ if device => Some((path, "csv")),
                _ => {
                    return Err(Failure::Usage(format!(
                        "{}: expected a name that ends in .npy or .csv",
                        path.display()
                    )));
                }
            }
        }
    };
    let detector = Detector::load(&args.detector)?;
    if args.check && detector.threshold().is_none() {
        return Err(Failure::Usage(format!(
            "--check needs a threshold, and {} has none (fit with --calibrate FILE or --hold-out)",
            args.detector.display()
        )));
    }
    let mut data = open_dataset(&args.file, args.raw)?;
    if let Some(path) = &args.logits {
        data = data.with_logits(open_matrix(path, "logits", None)?)?;
    }
    let scores = detector.score_dataset(&data, &Progress::default())?;
    let threshold = detector.threshold();
    let out = threshold.map_or(0, |t| scores.iter().filter(|&&s| !t.accepts(s)).count());
    let answer = if args.check && out > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS };
    let written = match format {
        Some((path, "npy")) => write_npy_f64(path, &scores).map_err(Failure::from),
        Some((path, _)) => write_text(path, &csv(&detector, &scores)).map_err(Failure::from),
        None if args.json => print_json(&json!({
            "schema": "offspan.scores/1",
            "method": detector.info().method,
            "direction": detector.info().direction,
            "threshold": threshold,
            "out": threshold.map(|_| out),
            "scores": scores,
            "decisions": threshold.map(|t| {
                scores.iter().map(|&s| if t.accepts(s) { "in" } else { "out" }).collect::<Vec<_>>()
            }),
        })),
        None => print(&csv(&detector, &scores)),
    };
    match written {
        // Nobody reads the rows, but the question stands.
        Err(failure) if failure.is_broken_pipe() => Ok(answer),
        written => written.map(|()| answer),
    }
}

/// row,score and, with a threshold, the decision.
fn csv(detector: &Detector, scores: &[f64]) -> String {
    let mut text = String::with_capacity(32 * scores.len() + 32);
    text += if detector.threshold().is_some() { "row,score,decision\n" } else { "row,score\n" };
    for (row, &score) in scores.iter().enumerate() {
        let _ = match detector.threshold() {
            Some(t) => {
                writeln!(text, "{row},{score},{}", if t.accepts(score) { "in" } else { "out" })
            }
            None => writeln!(text, "{row},{score}"),
        };
    }
    text
}
