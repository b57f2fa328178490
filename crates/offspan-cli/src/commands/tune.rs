//! `offspan tune`: the search for a good setting, in the open.

use std::process::ExitCode;

use offspan::io::{TrainingData, check_writable, open_dataset};
use offspan_study::tune::{self, Settings, Tuned};
use serde_json::json;

use super::fit::open;
use crate::Outcome;
use crate::args::{DataArgs, TuneArgs};
use crate::output::Failure;
use crate::output_guard::Guard;
use crate::progress::Progress;

pub(crate) fn run(args: &TuneArgs) -> Outcome {
    let guard = Guard::new(args.force)
        .reads([&args.data])
        .reads(&args.validate)
        .reads(args.data_args.files());
    args.json.target().check(&guard)?;
    let values = args.values.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>()?;
    if let Some(folder) = &args.output {
        guard.folder(folder, &tune::files())?;
        // Before the work, not after it.
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::Usage(format!("cannot make the folder {}: {error}", folder.display()))
        })?;
        check_writable(folder.join("tune.html"))?;
    }
    let TrainingData { rows: data, head, .. } = open(&args.data, &args.data_args)?;
    let reading = args.data_args.read.reading()?;
    let validate = args
        .validate
        .iter()
        .map(|path| open_dataset(path, reading.suited_to(path)))
        .collect::<offspan::Result<Vec<_>>>()?;
    drop(reading);
    let progress = Progress::default();
    let settings = Settings {
        methods: args.method.clone(),
        values,
        rows: args.rows,
        trials: args.trials.get(),
        seed: args.seed,
        validate: &validate,
        observer: &progress,
    };
    let tuned = tune::tune(&data, head.as_ref(), &settings)?;
    drop(progress);
    let page = match &args.output {
        Some(folder) => Some(tune::write(folder, &name(args), &tuned)?),
        None => None,
    };
    let document = || json!({ "schema": "offspan.tune/1", "data": name(args), "tuned": tuned });
    args.json.target().tell(document, || in_words(args, &tuned))?;
    if let Some(page) = page {
        args.json.target().mention(&format!("page: {}", page.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn name(args: &TuneArgs) -> String {
    args.data.file_name().unwrap_or(args.data.as_os_str()).to_string_lossy().into_owned()
}

/// `flag=value,value`; values that have commas themselves are separated by `/`.
fn parse(text: &str) -> Result<(String, Vec<String>), Failure> {
    let wrong = || {
        Failure::Usage(format!("--try: expected a flag and values such as gamma=0.1,1, got {text}"))
    };
    let (flag, values) = text.split_once('=').ok_or_else(wrong)?;
    let separator = if values.contains('/') { '/' } else { ',' };
    let values: Vec<String> =
        values.split(separator).map(|value| value.trim().to_owned()).collect();
    if flag.trim().is_empty() || values.iter().any(String::is_empty) {
        return Err(wrong());
    }
    let flag = flag.trim().trim_start_matches('-').replace('_', "-");
    Ok((format!("--{flag}"), values))
}

fn in_words(args: &TuneArgs, tuned: &Tuned) -> String {
    let table = tune::table(tuned);
    format!(
        "AUROC and FPR95 in percent, judged by {} ({})\n\n{}\nchosen: offspan fit {}{} {} -o \
         net.offspan\n",
        tuned.criterion.in_words(),
        tune::extent(tuned),
        table.text(),
        args.data.display(),
        data_flags(&args.data_args),
        tuned.best().command
    )
}

/// The flags that say what belongs to the rows.
fn data_flags(args: &DataArgs) -> String {
    let files = [("--logits", &args.logits), ("--labels", &args.labels), ("--head", &args.head)];
    let mut flags: String = files
        .iter()
        .filter_map(|(flag, file)| Some(format!(" {flag} {}", file.as_ref()?.display())))
        .collect();
    if let Some(raw) = args.read.raw {
        flags += &format!(" --raw {raw}");
    }
    for columns in &args.read.columns {
        flags += &format!(" --columns {columns}");
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_with_their_values() {
        let pair = |text| parse(text).map_err(|_| ());
        let texts = |values: &[&str]| values.iter().map(|&v| v.to_owned()).collect::<Vec<_>>();
        assert_eq!(pair("gamma=0.1, 1"), Ok(("--gamma".to_owned(), texts(&["0.1", "1"]))));
        assert_eq!(pair("--rff_gamma=2"), Ok(("--rff-gamma".to_owned(), texts(&["2"]))));
        assert_eq!(
            pair("shape=20,90/10,95"),
            Ok(("--shape".to_owned(), texts(&["20,90", "10,95"])))
        );
        for wrong in ["gamma", "=1", "gamma=", "gamma=1,,2"] {
            assert_eq!(pair(wrong), Err(()), "{wrong}");
        }
    }
}
