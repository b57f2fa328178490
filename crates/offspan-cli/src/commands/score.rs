//! `offspan score`: score, p-value and decision of every row.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use offspan::io::{
    Content, Dataset, Reading, feature_files, is_pack, open_dataset, open_matrix,
    open_with_neighbours, read_dataset, write_npy_f64, write_text,
};
use offspan::{Decisions, Detector, Explained, ExplainedTerm};
use serde_json::{Value, json};

use crate::Outcome;
use crate::args::ScoreArgs;
use crate::output::{Failure, csv_cell};
use crate::output_guard::Guard;
use crate::progress::Progress;

pub(crate) fn run(args: &ScoreArgs) -> Outcome {
    let json = args.json.target();
    let guard =
        Guard::new(args.force).reads([&args.detector]).reads(&args.files).reads(&args.logits);
    guard.expects_output(args.output.is_some() || json.is_file(), "--output or --json=FILE")?;
    json.check(&guard)?;
    let format = args.output.as_deref().map(|path| Ok::<_, Failure>((path, format_of(path)?)));
    let format = format.transpose()?;
    if let Some((path, _)) = format {
        guard.file(path, Content::Scores)?;
    }
    if let (Some((path, Format::Npy)), true) = (&format, args.explain) {
        return Err(Failure::Usage(format!(
            "--explain: expected CSV or --json to write to, got {}: .npy holds scores alone",
            path.display()
        )));
    }
    let detector = Detector::load(&args.detector)?;
    if args.explain && detector.terms().is_empty() {
        return Err(Failure::Usage(format!(
            "--explain: expected a detector whose score has terms, such as one of auto; {} is of {}, whose \
             score has no parts",
            args.detector.display(),
            detector.info().method
        )));
    }
    let needs_calibration = [(args.check, "--check"), (args.fdr.is_some(), "--fdr")];
    if let Some((_, flag)) = needs_calibration.iter().find(|(given, _)| *given) {
        detector.calibration_for(flag)?;
    }
    let Inputs { rows: inputs, names, keeps_files: _kept } = Inputs::of(args, &detector)?;
    let progress = Progress::default();
    let (scores, verdict) = if detector.calibration().is_some() {
        let decisions = detector.decide(&inputs, args.fdr, &progress)?;
        (decisions.scores.clone(), Some(decisions))
    } else {
        let mut scores = Vec::new();
        for input in &inputs {
            scores.extend(detector.score_dataset(input, &progress)?);
        }
        (scores, None)
    };
    let explained = if args.explain { explain(&detector, &inputs, &progress)? } else { None };
    drop(progress);
    let out = verdict.as_ref().map_or(0, Decisions::out);
    let answer = if args.check && out > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS };
    let csv = || csv(&scores, verdict.as_ref(), explained.as_ref(), names.as_deref());
    let written = match format {
        Some((path, Format::Npy)) => write_npy_f64(path, &scores).map_err(Failure::from),
        Some((path, Format::Csv)) => write_text(path, &csv()).map_err(Failure::from),
        None => {
            let document = || {
                let mut document = json!({
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
                        .map(|v| v.is_out.iter().map(|&out| decision(out)).collect::<Vec<_>>()),
                });
                if let Some(names) = &names {
                    document["files"] = files(names);
                }
                if let Some(explained) = &explained {
                    document["explain"] = json!({ "terms": terms(explained) });
                }
                document
            };
            args.json.target().tell(document, csv)
        }
    };
    match written {
        // Nobody reads the rows, but the question stands.
        Err(failure) if failure.is_broken_pipe() => Ok(answer),
        written => written.map(|()| answer),
    }
}

/// How scores are written to a file.
enum Format {
    Npy,
    Csv,
}

fn format_of(path: &Path) -> Result<Format, Failure> {
    let device = path.exists() && !path.is_file();
    match path.extension().and_then(|e| e.to_str()) {
        Some("npy") => Ok(Format::Npy),
        Some("csv") => Ok(Format::Csv),
        _ if device => Ok(Format::Csv),
        _ => Err(Failure::Usage(format!(
            "{}: expected a name that ends in .npy or .csv",
            path.display()
        ))),
    }
}

/// A file, and how many rows are of it.
type FileRows = (String, usize);

/// What is to be scored.
struct Inputs {
    rows: Vec<Dataset<'static>>,
    /// Which rows are of which file, in order, where that is to be told.
    names: Option<Vec<FileRows>>,
    /// Keeps files of features that are there for the time of the command.
    keeps_files: Box<dyn std::any::Any>,
}

impl Inputs {
    fn of(args: &ScoreArgs, detector: &Detector) -> Result<Self, Failure> {
        #[cfg(feature = "onnx")]
        if let Some(mut model) = super::from_model::extract_for_score(args, detector)? {
            model.skipped.iter().for_each(|line| crate::output::remark(line));
            let rows = std::mem::take(&mut model.datasets);
            let names = Some(std::mem::take(&mut model.names));
            return Ok(Inputs { rows, names, keeps_files: Box::new(model) });
        }
        #[cfg(not(feature = "onnx"))]
        let _ = detector;
        let rows = inputs(args)?;
        // A single file needs no name; a folder of one does, or the columns would hang on its contents.
        let named = rows.len() > 1 || args.files.iter().any(is_pack);
        let name = |input: &Dataset<'_>| (input.name().to_owned(), input.rows());
        let names = named.then(|| rows.iter().map(name).collect());
        Ok(Inputs { rows, names, keeps_files: Box::new(()) })
    }
}

/// The rows to score: files as they were given, and the feature files of folders.
fn inputs(args: &ScoreArgs) -> Result<Vec<Dataset<'static>>, Failure> {
    let stdin = Path::new("-");
    let times = args.files.iter().filter(|path| *path == stdin).count();
    if times > 1 {
        return Err(Failure::Usage(format!("- stands for stdin and was given {times} times")));
    }
    if times == 1 && !args.read.is_default() {
        return Err(Failure::Usage(
            "--raw and --columns are for files; expected CSV or .npy on stdin".to_owned(),
        ));
    }
    let reading = args.read.reading()?;
    let mut inputs = Vec::new();
    for path in &args.files {
        if path == stdin {
            inputs.push(read_dataset("stdin", std::io::stdin().lock())?);
        } else if is_pack(path) {
            inputs.extend(open_folder(path, args, &reading)?);
        } else {
            inputs.push(open_dataset(path, reading.clone())?);
        }
    }
    if args.logits.is_empty() {
        return Ok(inputs);
    }
    if args.logits.len() != inputs.len() {
        return Err(Failure::Usage(format!(
            "--logits: expected one file for each of the {} files of rows, got {}",
            inputs.len(),
            args.logits.len()
        )));
    }
    let with_logits = |(rows, path): (Dataset<'static>, &PathBuf)| {
        Ok(rows.with_logits(open_matrix(path, "logits", None)?)?)
    };
    inputs.into_iter().zip(&args.logits).map(with_logits).collect()
}

fn open_folder(
    folder: &Path,
    args: &ScoreArgs,
    reading: &Reading,
) -> Result<Vec<Dataset<'static>>, Failure> {
    let wrong = |what: &str| Failure::Usage(format!("{}: {what}", folder.display()));
    if args.read.raw.is_some() {
        return Err(wrong("--raw is for single files; in a folder files with a header are read"));
    }
    let files = feature_files(folder)?;
    if files.is_empty() {
        return Err(wrong(
            "expected .npy, .npz, .safetensors, .parquet, .arrow or .feather files in the folder, found none",
        ));
    }
    let is_head = |path: &&PathBuf| {
        let stem = path.file_stem().unwrap_or_default();
        ["head", "head-weight", "head-bias"].iter().any(|name| stem == *name)
    };
    if let Some(head) = files.iter().find(is_head) {
        return Err(Failure::Usage(format!(
            "{}: by its name the last layer of a pack, not rows to score; name the files or folders to \
             score, such as {}",
            head.display(),
            folder.join("ood").display()
        )));
    }
    let open = |path: &PathBuf| open_with_neighbours(path, reading.clone());
    Ok(files.iter().map(open).collect::<offspan::Result<_>>()?)
}

fn decision(out: bool) -> &'static str {
    if out { "out" } else { "in" }
}

/// Which rows are of which file, in order.
fn files(names: &[FileRows]) -> Value {
    names.iter().map(|(file, rows)| json!({ "file": file, "rows": rows })).collect()
}

/// What each term says of the rows of all inputs, in order.
fn explain(
    detector: &Detector,
    inputs: &[Dataset<'_>],
    progress: &Progress,
) -> Result<Option<Explained>, Failure> {
    let mut all: Option<Explained> = None;
    for input in inputs {
        let Some(explained) = detector.explain(input, progress)? else { continue };
        match &mut all {
            Some(all) => all.append(explained),
            None => all = Some(explained),
        }
    }
    Ok(all)
}

fn terms(explained: &Explained) -> Value {
    let term = |term: &ExplainedTerm| {
        let p_values: Vec<f64> = term.p_values().collect();
        json!({ "name": term.name, "weight": term.weight, "p_values": p_values })
    };
    explained.terms.iter().map(term).collect()
}

/// row,score and, with a calibration, p-value and decision, and each term's p-value where the score is
/// explained; behind the file where rows come from several.
fn csv(
    scores: &[f64],
    verdict: Option<&Decisions>,
    explained: Option<&Explained>,
    named: Option<&[FileRows]>,
) -> String {
    let mut text = String::with_capacity(48 * scores.len() + 32);
    if named.is_some() {
        text += "file,";
    }
    text += if verdict.is_some() { "row,score,p_value,decision" } else { "row,score" };
    let terms = explained.map_or(&[][..], |explained| &explained.terms);
    for term in terms {
        let _ = write!(text, ",p_{}", term.name.replace(' ', "_"));
    }
    text.push('\n');
    let parts: Vec<(String, usize)> = match named {
        Some(names) => names.iter().map(|(file, rows)| (csv_cell(file) + ",", *rows)).collect(),
        None => vec![(String::new(), scores.len())],
    };
    let rows = parts.iter().flat_map(|(file, rows)| (0..*rows).map(move |row| (file, row)));
    for (index, ((file, row), score)) in rows.zip(scores).enumerate() {
        let _ = match verdict {
            Some(v) => {
                let (p, decision) = (v.p_values[index], decision(v.is_out[index]));
                write!(text, "{file}{row},{score},{p:.6},{decision}")
            }
            None => write!(text, "{file}{row},{score}"),
        };
        for term in terms {
            let _ = write!(text, ",{:.6e}", term.log_p_values[index].exp());
        }
        text.push('\n');
    }
    text
}
