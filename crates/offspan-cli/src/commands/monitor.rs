//! `offspan monitor`: says when the scores of a stream have moved.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use offspan::io::{Content, Dataset, open_dataset, open_matrix, read_scores, remove_if_exists};
use offspan::monitor::{id_of_name, id_of_rows, id_of_scores};
use offspan::{Alarm, AlarmKind, BatchReport, Detector, Monitor, SeenBatch};
use serde_json::json;

use crate::Outcome;
use crate::args::MonitorArgs;
use crate::output::{Failure, Table, percent, print};
use crate::output_guard::Guard;
use crate::progress::Progress;
use crate::state_lock::lock;

pub(crate) fn run(args: &MonitorArgs) -> Outcome {
    for (flag, given) in [("--logits", args.logits.len()), ("--batch-id", args.batch_id.len())] {
        if given != 0 && given != args.files.len() {
            return Err(Failure::Usage(format!(
                "{flag}: expected one for each of the {} batches, got {given}",
                args.files.len()
            )));
        }
    }
    let guard = Guard::default().reads(&args.detector).reads(&args.files).reads(&args.logits);
    if let Some(path) = &args.state {
        guard.file(path, Content::Monitor)?;
    }
    args.json.target().check(&guard.reads(&args.state))?;
    // Kept to the end: what is read from the state, counted and written is one step for others.
    let _lock = args.state.as_deref().map(lock).transpose()?;
    match (&args.detector, &args.state) {
        (Some(detector), _) if !args.files.is_empty() => watch(args, detector),
        (_, Some(state)) => reset(state),
        _ => Err(Failure::Usage("expected a detector and batches".to_owned())),
    }
}

/// Takes the batches, says what they told, and saves the state: in this order, so that no alarm is lost
/// where the state cannot be saved.
fn watch(args: &MonitorArgs, path: &Path) -> Outcome {
    let detector = Detector::load(path)?;
    let mut monitor = begin(args, &detector)?;
    let (mut reports, mut seen) = (Vec::new(), Vec::new());
    for (number, file) in args.files.iter().enumerate() {
        let batch = Batch::open(args, file, args.logits.get(number))?;
        let id = match args.batch_id.get(number) {
            Some(name) => id_of_name(name),
            None => batch.id()?,
        };
        if let (Some(known), false) = (monitor.seen(&id), args.again) {
            seen.push((file.as_path(), known.clone()));
            continue;
        }
        let scores = batch.scores(&detector)?;
        for part in scores.chunks(args.batch.map_or(scores.len().max(1), |rows| rows.get())) {
            reports.push((file.as_path(), monitor.update(part)?));
        }
        if !scores.is_empty() {
            monitor.remember(id, scores.len());
        }
    }
    match tell(args, &monitor, &reports, &seen) {
        // Nobody reads it, but the stream goes on.
        Err(failure) if !failure.is_broken_pipe() => return Err(failure),
        _ => {}
    }
    if let Some(path) = &args.state {
        monitor.save(path)?;
    }
    Ok(if monitor.alarms().is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn tell(
    args: &MonitorArgs,
    monitor: &Monitor,
    reports: &[(&Path, BatchReport)],
    seen: &[(&Path, SeenBatch)],
) -> Result<(), Failure> {
    let document = || {
        let batches: Vec<_> = reports
            .iter()
            .map(|(file, report)| json!({ "file": file, "report": report }))
            .collect();
        let seen: Vec<_> =
            seen.iter().map(|(file, batch)| json!({ "file": file, "batch": batch })).collect();
        json!({
            "schema": "offspan.monitor/1",
            "options": monitor.options(),
            "rows": monitor.rows(),
            "alarms": monitor.alarms(),
            "batches": batches,
            "seen_before": seen,
        })
    };
    args.json.target().tell(document, || in_sentences(monitor, reports, seen))
}

fn in_sentences(
    monitor: &Monitor,
    reports: &[(&Path, BatchReport)],
    seen: &[(&Path, SeenBatch)],
) -> String {
    let mut text = String::new();
    if !reports.is_empty() {
        text += &format!("{}\n", table(reports));
    }
    for (file, batch) in seen {
        text += &format!(
            "{} was seen before and is not counted: it is rows {} to {} of the stream (--again counts it)\n",
            file.display(),
            batch.row,
            (batch.row + batch.rows).saturating_sub(1),
        );
    }
    text + &verdict(monitor)
}

/// A new monitor, or the one that an earlier run saved.
fn begin(args: &MonitorArgs, detector: &Detector) -> Result<Monitor, Failure> {
    let known = detector.calibration_for("a monitor")?;
    let fresh = Monitor::of(known, args.false_alarm, args.seed)?;
    let Some(path) = args.state.as_deref() else { return Ok(fresh) };
    if args.reset || !has_state(path)? {
        return Ok(fresh);
    }
    let saved = Monitor::load(path)?;
    if saved.began_like(&fresh) {
        return Ok(saved);
    }
    Err(Failure::Usage(format!(
        "{} was saved by a monitor of another detector, or with another --false-alarm or --seed; give \
         --reset to begin anew",
        path.display()
    )))
}

/// Whether there is a file with anything in it. One that cannot be looked at is no reason to begin anew.
fn has_state(path: &Path) -> Result<bool, Failure> {
    match path.metadata() {
        Ok(found) => Ok(found.len() > 0),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::Usage(format!("cannot read {}: {error}", path.display()))),
    }
}

fn reset(path: &Path) -> Outcome {
    let text = if has_state(path)? {
        remove_if_exists(path)?;
        "was removed: the next batch begins a new stream"
    } else {
        "is not there: nothing to forget"
    };
    print(&format!("{} {text}\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// What a file holds: scores, or rows to score.
enum Batch {
    Scores(Vec<f64>),
    Rows(Box<Dataset<'static>>),
}

impl Batch {
    fn open(args: &MonitorArgs, file: &Path, logits: Option<&PathBuf>) -> Result<Self, Failure> {
        if args.read.raw.is_none()
            && let Some(scores) = read_scores(file)?
        {
            return Ok(Batch::Scores(scores));
        }
        let mut rows = open_dataset(file, args.read.reading()?)?;
        if let Some(path) = logits {
            rows = rows.with_logits(open_matrix(path, "logits", None)?)?;
        }
        Ok(Batch::Rows(Box::new(rows)))
    }

    /// What it is known by: its contents.
    fn id(&self) -> Result<String, Failure> {
        match self {
            Batch::Scores(scores) => Ok(id_of_scores(scores)),
            Batch::Rows(rows) => Ok(id_of_rows(rows, &Progress::default())?),
        }
    }

    fn scores(self, detector: &Detector) -> Result<Vec<f64>, Failure> {
        match self {
            Batch::Scores(scores) => Ok(scores),
            Batch::Rows(rows) => Ok(detector.score_dataset(&rows, &Progress::default())?),
        }
    }
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
pub(crate) fn evidence(log10: f64) -> String {
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

pub(crate) fn verdict(monitor: &Monitor) -> String {
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
