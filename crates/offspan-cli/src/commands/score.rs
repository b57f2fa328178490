//! `offspan score`: score, p-value and decision of every row.

use std::fmt::Write;
use std::process::ExitCode;

use offspan::calibrate::benjamini_hochberg;
use offspan::io::{Content, open_dataset, open_matrix, write_npy_f64, write_text};
use offspan::{Calibration, Detector};
use serde_json::json;

use crate::Outcome;
use crate::args::ScoreArgs;
use crate::output::{Failure, print, print_json};
use crate::output_guard::Guard;
use crate::progress::Progress;

pub(crate) fn run(args: &ScoreArgs) -> Outcome {
    let format = match &args.output {
        None => None,
        Some(path) => {
            Guard::new(args.force)
                .reads([&args.detector, &args.file])
                .reads(&args.logits)
                .file(path, Content::Scores)?;
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
    if let Some(share) = args.fdr
        && !(share > 0.0 && share < 1.0)
    {
        return Err(Failure::Usage(format!("--fdr: expected a share in (0, 1), got {share}")));
    }
    let detector = Detector::load(&args.detector)?;
    let needs_calibration = [(args.check, "--check"), (args.fdr.is_some(), "--fdr")];
    if let (Some((_, flag)), None) =
        (needs_calibration.iter().find(|(given, _)| *given), detector.calibration())
    {
        return Err(Failure::Usage(format!(
            "{flag} needs a threshold, and {} has none (run `offspan calibrate` with in-distribution \
             rows, or fit with --calibrate FILE or --hold-out)",
            args.detector.display()
        )));
    }
    let mut data = open_dataset(&args.file, args.raw)?;
    if let Some(path) = &args.logits {
        data = data.with_logits(open_matrix(path, "logits", None)?)?;
    }
    let scores = detector.score_dataset(&data, &Progress::default())?;
    let verdict = detector.calibration().map(|known| Verdict::of(known, &scores, args.fdr));
    let verdict = verdict.transpose()?;
    let out = verdict.as_ref().map_or(0, |v| v.out.iter().filter(|&&out| out).count());
    let answer = if args.check && out > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS };
    let written = match format {
        Some((path, "npy")) => write_npy_f64(path, &scores).map_err(Failure::from),
        Some((path, _)) => write_text(path, &csv(&scores, verdict.as_ref())).map_err(Failure::from),
        None if args.json => print_json(&json!({
            "schema": "offspan.scores/1",
            "method": detector.info().method,
            "direction": detector.info().direction,
            "threshold": detector.threshold(),
            "fdr": args.fdr,
            "out": verdict.as_ref().map(|_| out),
            "scores": scores,
            "p_values": verdict.as_ref().map(|v| &v.p_values),
            "decisions": verdict
                .as_ref()
                .map(|v| v.out.iter().map(|&out| decision(out)).collect::<Vec<_>>()),
        })),
        None => print(&csv(&scores, verdict.as_ref())),
    };
    match written {
        // Nobody reads the rows, but the question stands.
        Err(failure) if failure.is_broken_pipe() => Ok(answer),
        written => written.map(|()| answer),
    }
}

/// What the calibration says of each row.
struct Verdict {
    p_values: Vec<f64>,
    out: Vec<bool>,
}

impl Verdict {
    /// By the threshold or, with a bound on the share of false ones among the rows that are out, by
    /// all p-values of the batch together.
    fn of(known: &Calibration, scores: &[f64], fdr: Option<f64>) -> Result<Self, Failure> {
        let p_values = known.p_values(scores);
        let out = match fdr {
            Some(level) => benjamini_hochberg(&p_values, level)?,
            None => scores.iter().map(|&score| !known.threshold().accepts(score)).collect(),
        };
        Ok(Verdict { p_values, out })
    }
}

fn decision(out: bool) -> &'static str {
    if out { "out" } else { "in" }
}

/// row,score and, with a calibration, p-value and decision.
fn csv(scores: &[f64], verdict: Option<&Verdict>) -> String {
    let mut text = String::with_capacity(48 * scores.len() + 32);
    text += if verdict.is_some() { "row,score,p_value,decision\n" } else { "row,score\n" };
    for (row, &score) in scores.iter().enumerate() {
        let _ = match verdict {
            Some(v) => {
                let (p, decision) = (v.p_values[row], decision(v.out[row]));
                writeln!(text, "{row},{score},{p:.6},{decision}")
            }
            None => writeln!(text, "{row},{score}"),
        };
    }
    text
}
