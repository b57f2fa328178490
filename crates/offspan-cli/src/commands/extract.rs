//! `offspan extract`: a model and its data in, a pack out.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use offspan::io::{Content, FileLock};
use offspan_onnx::{Data, Extractor, PackFile, Split, SplitReport, find_splits};
use serde_json::{Value, json};

use crate::Outcome;
use crate::model_args::ExtractArgs;
use crate::output::{Failure, percent};
use crate::output_guard::Guard;
use crate::progress::Progress;

/// Images that are named in words, at most; JSON has all of them.
const MOST_NAMED: usize = 20;

pub(crate) fn run(args: &ExtractArgs) -> Outcome {
    let guard = Guard::new(args.force).reads([&args.model, &args.data]).reads(&args.labels);
    args.json.target().check(&guard)?;
    let started = Instant::now();
    let mut extractor = Extractor::new(&args.model, args.options())?;
    let splits = find_splits(&args.data, args.split.as_ref())?;
    if args.labels.is_some() && splits.len() > 1 {
        return Err(Failure::Usage(format!(
            "--labels: expected data of one split, got a folder of {}",
            splits.len()
        )));
    }
    let folder = |label: &String| match label.as_str() {
        "" => args.output.clone(),
        label => args.output.join(label),
    };
    let folders: Vec<PathBuf> =
        extractor.sources().iter().map(|(label, _)| folder(label)).collect();
    // Kept to the end: of two runs with one pack, the second is told at once.
    let _lock = PackLock::of(&args.output)?;
    let mut classes = PackFile::read(&folders[0])?.classes();
    let mut waiting = Vec::new();
    for split in splits {
        let files: Vec<PathBuf> = folders.iter().map(|folder| split.name.file(folder)).collect();
        let begun = args.resume && Extractor::was_begun(&args.output, &split.name);
        if args.resume && !begun && files.iter().all(|file| file.is_file()) {
            let data = open(args, &split, classes.as_deref())?;
            extractor.check_finished(&data, &args.output)?;
            crate::output::remark(&format!("note: {} is there already and stays", split.name));
            continue;
        }
        // A run that ended between its files and its last note has left both.
        for file in files.iter().filter(|file| file.exists() && !begun) {
            guard.new_file(file, Content::Tensors)?;
        }
        waiting.push(split);
    }
    let mut done = Vec::new();
    for split in waiting {
        let data = open(args, &split, classes.as_deref())?;
        if split.name.has_classes() && classes.is_none() {
            classes = data.classes().map(<[String]>::to_vec);
        }
        let progress = Progress::default();
        let report = extractor.extract(&data, &args.output, &split.name, &progress)?;
        drop(progress);
        done.push((split, report));
    }
    let seconds = started.elapsed().as_secs_f64();
    args.json.target().tell(
        || document(args, &extractor, &folders, &done, seconds),
        || in_words(args, &extractor, &folders, &done, seconds),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A pack that no other process extracts into.
struct PackLock {
    lock: Option<FileLock>,
    /// The folder, if it was made for the lock.
    made: Option<PathBuf>,
}

impl PackLock {
    fn of(pack: &Path) -> Result<Self, Failure> {
        let made = (!pack.exists()).then(|| pack.to_owned());
        std::fs::create_dir_all(pack).map_err(|error| offspan::Error::Io {
            action: "create",
            path: pack.to_owned(),
            source: error,
        })?;
        Ok(PackLock { lock: Some(FileLock::try_new(pack.join("pack.toml"))?), made })
    }
}

impl Drop for PackLock {
    fn drop(&mut self) {
        drop(self.lock.take());
        // Of a run that was refused nothing stays; a folder with anything in it does.
        if let Some(folder) = &self.made {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn open(args: &ExtractArgs, split: &Split, classes: Option<&[String]>) -> Result<Data, Failure> {
    let data = if split.name.has_classes() {
        Data::open(&split.path, classes)?
    } else {
        Data::open_flat(&split.path)?.without_labels()
    };
    Ok(match &args.labels {
        Some(path) => data.with_labels_of(path)?,
        None => data,
    })
}

fn document(
    args: &ExtractArgs,
    extractor: &Extractor,
    folders: &[PathBuf],
    done: &[(Split, SplitReport)],
    seconds: f64,
) -> Value {
    let packs: Vec<Value> = extractor
        .sources()
        .iter()
        .zip(folders)
        .map(|((_, source), folder)| json!({ "pack": in_letters(folder), "source": source }))
        .collect();
    let splits: Vec<Value> = done
        .iter()
        .map(|(split, report)| {
            json!({
                "split": split.name.to_string(),
                "data": in_letters(&split.path),
                "rows": report.rows,
                "resumed": report.resumed,
                "skipped": report.skipped,
                "ignored": report.ignored.len(),
                "label_agreement": report.agreement,
            })
        })
        .collect();
    let (opset, input) = extractor.about();
    json!({
        "schema": "offspan.extract/1",
        "model": in_letters(&args.model),
        "opset": opset,
        "input": input,
        "packs": packs,
        "splits": splits,
        "seconds": seconds,
    })
}

/// A path in JSON; bytes that are no text are replaced.
fn in_letters(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn in_words(
    args: &ExtractArgs,
    extractor: &Extractor,
    folders: &[PathBuf],
    done: &[(Split, SplitReport)],
    seconds: f64,
) -> String {
    let mut text = about_model(extractor, args.preprocess.took_usual_preset());
    for (split, report) in done {
        text +=
            &report_in_words(&split.name.to_string(), &split.path.display().to_string(), report);
    }
    let rows: usize = done.iter().map(|(_, report)| report.rows - report.resumed).sum();
    let _ = writeln!(text, "{rows} rows in {seconds:.1} s ({:.1} rows/s)", rows as f64 / seconds);
    for folder in folders {
        let _ = writeln!(text, "written to {}", folder.display());
    }
    let next = match folders {
        [only] => format!("offspan fit {} -o net.offspan", only.display()),
        several => {
            let list: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            format!("offspan study layers {} -o study", list.join(" "))
        }
    };
    let _ = writeln!(text, "\nnext: {next}");
    text
}

/// What the model is, and what is done to images.
pub(crate) fn about_model(extractor: &Extractor, usual_preset: bool) -> String {
    let (opset, input) = extractor.about();
    let mut text = String::new();
    for (index, (label, source)) in extractor.sources().iter().enumerate() {
        if index == 0 {
            let _ =
                writeln!(text, "{}: opset {opset}, input {input}, {}", source.model, source.hash);
        }
        let name = if label.is_empty() { String::new() } else { format!(" of {label}") };
        let _ =
            writeln!(text, "features{name}: `{}`, pooled {}", source.feature_tensor, source.pool);
        if index == 0 {
            if let Some(logits) = &source.logit_tensor {
                let _ = writeln!(text, "logits: `{logits}`");
            }
            if let Some(maps) = &source.map_tensor {
                let _ = writeln!(text, "maps: `{maps}`");
            }
        }
    }
    if let Some(steps) = extractor.preprocess() {
        let whose =
            if usual_preset { " (torchvision's, for no --preprocess was given)" } else { "" };
        let _ = writeln!(text, "images: {steps}{whose}");
    }
    text
}

/// How a split came out.
pub(crate) fn report_in_words(split: &str, data: &str, report: &SplitReport) -> String {
    let mut text = format!("{split}: {} rows of {data}", report.rows);
    if report.resumed > 0 {
        let _ = write!(text, ", {} of them from the run before", report.resumed);
    }
    if let Some(share) = report.agreement {
        let _ = write!(text, "; the network agrees with {} % of the labels", percent(share));
    }
    text.push('\n');
    if !report.ignored.is_empty() {
        let first = report.ignored[0].display();
        let _ = writeln!(
            text,
            "  {} files that are no images were left alone ({first}, …)",
            report.ignored.len()
        );
    }
    if !report.skipped.is_empty() {
        let _ = writeln!(text, "  {} images were skipped:", report.skipped.len());
    }
    for skipped in report.skipped.iter().take(MOST_NAMED) {
        let _ = writeln!(text, "    {}: {}", skipped.path.display(), skipped.reason);
    }
    if report.skipped.len() > MOST_NAMED {
        let _ = writeln!(
            text,
            "    … and {} more (--json names all)",
            report.skipped.len() - MOST_NAMED
        );
    }
    text
}
