//! `offspan monitor`: says when the scores of a stream have moved.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use offspan::io::{check_writable, open_dataset, open_matrix, read_scores};
use offspan::{Alarm, AlarmKind, BatchReport, Detector, Monitor};
use serde_json::json;

use crate::Outcome;
use crate::args::MonitorArgs;
use crate::output::{Failure, Table, percent};
use crate::progress::Progress;

pub(crate) fn run(args: &MonitorArgs) -> Outcome {
    if !args.logits.is_empty() && args.logits.len() != args.files.len() {
        return Err(Failure::Usage(format!(
            "--logits: expected one file for each of the {} batches, got {}",
            args.files.len(),
            args.logits.len()
        )));
    }
    args.json.target().check()?;
    let detector = Detector::load(&args.detector)?;
    let mut monitor = begin(args, &detector)?;
    let mut reports = Vec::new();
    for (number, file) in args.files.iter().enumerate() {
        let scores = scores_of(args, &detector, file, args.logits.get(number))?;
        for batch in scores.chunks(args.batch.map_or(scores.len().max(1), |rows| rows.get())) {
            reports.push((file.as_path(), monitor.update(batch)?));
        }
    }
    if let Some(path) = &args.state {
        monitor.save(path)?;
    }
    let document = || {
        let batches: Vec<_> = reports
            .iter()
            .map(|(file, report)| json!({ "file": file, "report": report }))
            .collect();
        json!({
            "schema": "offspan.monitor/1",
            "options": monitor.options(),
            "rows": monitor.rows(),
            "alarms": monitor.alarms(),
            "batches": batches,
        })
    };
    let words = || format!("{}\n{}", table(&reports), verdict(&monitor));
    args.json.target().tell(document, words)?;
    Ok(if monitor.alarms().is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A new monitor, or the one that an earlier run saved.
fn begin(args: &MonitorArgs, detector: &Detector) -> Result<Monitor, Failure> {
    let Some(known) = detector.calibration() else {
        return Err(Failure::Usage(format!(
            "a monitor compares with calibration scores, and {} has none (run `offspan calibrate` \
             with in-distribution rows, or fit with --calibrate FILE or --hold-out)",
            args.detector.display()
        )));
    };
    let fresh = Monitor::of(known, args.false_alarm, args.seed)?;
    let Some(path) = args.state.as_deref() else { return Ok(fresh) };
    check_writable(path)?;
    if !path.exists() {
        return Ok(fresh);
    }
    let saved = Monitor::load(path)?;
    if saved.began_like(&fresh) {
        return Ok(saved);
    }
    Err(Failure::Usage(format!(
        "{} was saved by a monitor of another detector, or with another --false-alarm or --seed; remove \
         it to begin anew",
        path.display()
    )))
}

fn scores_of(
    args: &MonitorArgs,
    detector: &Detector,
    file: &Path,
    logits: Option<&PathBuf>,
) -> Result<Vec<f64>, Failure> {
    if args.raw.is_none()
        && let Some(scores) = read_scores(file)?
    {
        return Ok(scores);
    }
    let mut rows = open_dataset(file, args.raw)?;
    if let Some(path) = logits {
        rows = rows.with_logits(open_matrix(path, "logits", None)?)?;
    }
    Ok(detector.score_dataset(&rows, &Progress::default())?)
}

fn table(reports: &[(&Path, BatchReport)]) -> Table {
    let mut table = Table::new([
        "batch",
        "rows",
        "so far",
        "out",
        "out %",
        "evidence: share",
        "scores",
        "alarm",
    ]);
    for (file, report) in reports {
        table.row([
            file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
            report.rows.to_string(),
            report.rows_so_far.to_string(),
            report.flagged.to_string(),
            percent(report.share_flagged),
            evidence(report.share.log10),
            evidence(report.distribution.log10),
            report.alarms.iter().map(|alarm| in_words(*alarm)).collect::<Vec<_>>().join("; "),
        ]);
    }
    table
}

/// Evidence as a number that people can read.
fn evidence(log10: f64) -> String {
    if (-2.0..4.0).contains(&log10) {
        format!("{:.2}", 10f64.powf(log10))
    } else {
        format!("1e{log10:.1}")
    }
}

fn in_words(alarm: Alarm) -> String {
    let what = match alarm.kind {
        AlarmKind::Share => "more rows are out",
        AlarmKind::Distribution => "the scores have moved",
    };
    format!("{what}, at row {}", alarm.row)
}

fn verdict(monitor: &Monitor) -> String {
    let chance = 100.0 * monitor.options().false_alarm;
    let needed = 2.0 / monitor.options().false_alarm;
    match monitor.alarms() {
        [] => format!(
            "no alarm in {} rows; an alarm needs evidence of {needed}, and a stream without change ever \
             raises one with a chance of at most {chance} %\n",
            monitor.rows()
        ),
        alarms => alarms
            .iter()
            .map(|alarm| {
                let text = in_words(*alarm);
                format!("ALARM: {text} (false with a chance of at most {chance} %)\n")
            })
            .collect(),
    }
}
