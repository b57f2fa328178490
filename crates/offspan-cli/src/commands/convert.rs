//! `offspan convert`: features of other programs as a pack.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use offspan::io::{Conversion, Converted, convert_scores, name_of_set};
use serde_json::json;

use crate::Outcome;
use crate::args::ConvertArgs;
use crate::output::{Failure, Table};
use crate::output_guard::Guard;
use crate::progress::Progress;

pub(crate) fn run(args: &ConvertArgs) -> Outcome {
    let ood = args.ood.iter().map(|text| named_set(text)).collect::<Result<Vec<_>, Failure>>()?;
    let json = args.json.target();
    let files =
        [&args.source, &args.train, &args.test, &args.calibrate, &args.head, &args.class_vectors];
    let guard =
        Guard::default().reads(files.into_iter().flatten()).reads(ood.iter().map(|(_, path)| path));
    json.check(&guard)?;
    if let (true, Some(test)) = (args.scores, &args.test) {
        let sets = convert_scores(test, &ood, &args.output)?;
        json.tell(
            || json!({ "schema": "offspan.convert/1", "scores": args.output, "sets": sets }),
            || told_scores(&sets),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let conversion = Conversion {
        source: args.source.clone(),
        train: args.train.clone(),
        test: args.test.clone(),
        calibrate: args.calibrate.clone(),
        ood,
        head: args.head.clone(),
        class_vectors: args.class_vectors.clone(),
        temperature: args.temperature,
        unknown: args.unknown.clone(),
        unit: args.unit,
        element: args.element,
        reading: args.read.reading()?,
    };
    let progress = Progress::default();
    let converted = conversion.write(&args.output, &progress)?;
    drop(progress);
    json.tell(
        || json!({ "schema": "offspan.convert/1", "pack": args.output, "converted": converted }),
        || told(&converted, &args.output),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// `NAME=PATH`, or a path whose name is that of the set.
fn named_set(text: &str) -> Result<(String, PathBuf), Failure> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) => (name.to_owned(), PathBuf::from(path)),
        None => (name_of_set(Path::new(text)), PathBuf::from(text)),
    };
    if name.is_empty() || path.as_os_str().is_empty() {
        return Err(Failure::Usage(format!("--ood: expected NAME=FILE, got `{text}`")));
    }
    Ok((name, path))
}

fn told(converted: &Converted, pack: &Path) -> String {
    let mut table = Table::new(["split", "rows", "width", "logits", "labels"]);
    for split in &converted.splits {
        table.row([
            split.name.clone(),
            split.rows.to_string(),
            split.width.to_string(),
            split.logits.map_or_else(|| "-".to_owned(), |count| count.to_string()),
            if split.labels { "yes" } else { "-" }.to_owned(),
        ]);
    }
    let head = converted
        .classes
        .map_or_else(String::new, |classes| format!(", last layer of {classes} classes"));
    let mut text = format!("{}{head}\n\n{table}", pack.display());
    if !converted.left_out.is_empty() {
        text += &format!("\nleft out: {}\n", converted.left_out.join(", "));
    }
    text
}

fn told_scores(sets: &[(String, usize)]) -> String {
    let mut table = Table::new(["set", "scores"]);
    for (name, rows) in sets {
        table.row([name.clone(), rows.to_string()]);
    }
    table.to_string()
}
