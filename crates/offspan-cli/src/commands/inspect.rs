//! `offspan inspect`: what a file is, in words.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use offspan::io::{Content, Dataset, Pack, is_pack, open_dataset, stored_checksum};
use offspan::{AlarmKind, Detector, Monitor};
use serde_json::{Value, json};

use super::calibrate::threshold_in_words;
use super::fit::{found_in_words, summary_in_words};
use super::monitor::{evidence, verdict};
use crate::Outcome;
use crate::args::InspectArgs;
use crate::output::{Failure, Table, percent, size};
use crate::output_guard::Guard;
use crate::progress::Progress;

pub(crate) fn run(args: &InspectArgs) -> Outcome {
    args.json.target().check(&Guard::default().reads([&args.path]))?;
    let (text, value) = if is_pack(&args.path) {
        pack(&Pack::open_with(&args.path, args.read.reading()?)?)?
    } else if args.read.is_default() && is_monitor(&args.path) {
        monitor(&args.path, &Monitor::load(&args.path)?)?
    } else if args.read.is_default() && looks_like_a_detector(&args.path) {
        detector(&args.path, &Detector::load(&args.path)?)?
    } else {
        features(&open_dataset(&args.path, args.read.reading()?)?)?
    };
    args.json.target().tell(|| value, || text)?;
    Ok(ExitCode::SUCCESS)
}

fn is_monitor(path: &Path) -> bool {
    path.is_file() && Content::of(path).is_ok_and(|content| content == Content::Monitor)
}

/// A file that says so, or that is called so and may be damaged.
fn looks_like_a_detector(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "offspan") || Detector::is_detector(path)
}

fn detector(path: &Path, detector: &Detector) -> Result<(String, Value), Failure> {
    let info = detector.info();
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut text = format!(
        "an offspan detector ({}): {}\n{} training rows of width {}, fingerprint {}\n",
        size(bytes),
        info.method,
        info.training.rows,
        info.training.width,
        info.training.fingerprint
    );
    if let Some(source) = &info.source {
        let _ = writeln!(
            text,
            "features: `{}` of {} ({}){}",
            source.feature_tensor,
            source.model,
            source.hash,
            source
                .preprocess
                .as_ref()
                .map_or_else(String::new, |steps| { format!("\nimages: {}", json!(steps)) })
        );
    }
    for (summary, eigenvalues) in detector.kpca_summaries().iter().zip(detector.eigenvalues()) {
        text += &summary_in_words(summary);
        text += "directions needed for a share of the variance:";
        let kept: f64 = eigenvalues.iter().take(summary.components).sum();
        let total = kept / summary.explained_variance;
        for share in [0.1, 0.25, 0.5, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999] {
            let mut sum = 0.0;
            let needed = eigenvalues.iter().position(|value| {
                sum += value;
                sum / total >= share
            });
            // A fit that needs the first directions only knows no more of them.
            let Some(last) = needed else { break };
            let _ = write!(text, " {share}: {}", last + 1);
        }
        text.push('\n');
    }
    text += &found_in_words(detector);
    text += &match detector.threshold() {
        Some(threshold) => threshold_in_words(threshold),
        None if detector.lost_its_threshold() => {
            "no threshold: files of version 1 kept no calibration scores; `offspan calibrate` sets a new one\n"
                .to_owned()
        }
        None => "no threshold: it gives scores without decisions\n".to_owned(),
    };
    let checksum = stored_checksum(path)?;
    text += &checksum_in_words(checksum.as_deref());
    let _ = writeln!(text, "parameters: {}", json!(info.spec));
    let eigenvalues: Vec<Vec<f64>> =
        detector.eigenvalues().iter().map(|values| values.to_vec()).collect();
    let value = json!({
        "schema": "offspan.inspect/1",
        "kind": "detector",
        "bytes": bytes,
        "checksum": checksum,
        "info": info,
        "found": detector.found(),
        "eigenvalues": eigenvalues,
    });
    Ok((text, value))
}

/// The checksum of a file that was loaded, and so found to be right.
fn checksum_in_words(checksum: Option<&str>) -> String {
    match checksum {
        Some(checksum) => format!("checksum {checksum}, right\n"),
        None => "no checksum: an earlier offspan wrote the file, and damage would go unnoticed; one that is \
                 written anew gets one\n"
            .to_owned(),
    }
}

fn monitor(path: &Path, monitor: &Monitor) -> Result<(String, Value), Failure> {
    let checksum = stored_checksum(path)?;
    let options = monitor.options();
    let [share, scores] = [AlarmKind::Share, AlarmKind::Distribution].map(|k| monitor.evidence(k));
    let seen = monitor.seen_batches();
    let mut text = format!(
        "an offspan monitor: {} rows so far, compared with {} calibration scores\nthreshold {:.6}, which \
         keeps {} %; ties broken with seed {}\nevidence now: share {}, scores {}; at most so far: share {}, \
         scores {}\n",
        monitor.rows(),
        monitor.reference_rows(),
        options.threshold,
        percent(options.keep),
        options.seed,
        evidence(share.log10),
        evidence(scores.log10),
        evidence(share.largest_log10),
        evidence(scores.largest_log10),
    );
    let _ = writeln!(text, "batches remembered: {}", seen.len());
    if let Some(last) = seen.last() {
        let end = (last.row + last.rows).saturating_sub(1);
        let _ =
            writeln!(text, "the last one: rows {} to {end}, known by its {}", last.row, last.id);
    }
    text += &checksum_in_words(checksum.as_deref());
    text += &verdict(monitor);
    let value = json!({
        "schema": "offspan.inspect/1",
        "kind": "monitor",
        "checksum": checksum,
        "options": options,
        "reference_rows": monitor.reference_rows(),
        "rows": monitor.rows(),
        "share": share,
        "distribution": scores,
        "alarms": monitor.alarms(),
        "seen": seen,
    });
    Ok((text, value))
}

fn features(data: &Dataset<'_>) -> Result<(String, Value), Failure> {
    let facts = Facts::of(data)?;
    let mut text = format!(
        "features: {} rows of width {}, all finite\nvalues from {:.4} to {:.4}; {} % are zero\nrow \
         norms from {:.4} to {:.4}\n",
        data.rows(),
        data.width(),
        facts.smallest,
        facts.largest,
        percent(facts.zeros),
        facts.shortest,
        facts.longest
    );
    if facts.zero_rows > 0 {
        let _ = writeln!(
            text,
            "{} rows are all zeros: a fit with the cosine map refuses them, scoring gives them -inf",
            facts.zero_rows
        );
    }
    if facts.constant_columns > 0 {
        let _ = writeln!(text, "{} columns are constant", facts.constant_columns);
    }
    let _ = match &data.logits() {
        Some(logits) => writeln!(text, "logits of {} classes", logits.width()),
        None => writeln!(text, "no logits: low-energy sampling and fusion need them or a head"),
    };
    if let Some(classes) = facts.classes {
        let _ = writeln!(text, "labels of {classes} classes");
    }
    Ok((text, facts.json(data, "features")))
}

fn pack(pack: &Pack) -> Result<(String, Value), Failure> {
    let mut table = Table::new(["split", "rows", "width", "logits", "labels", "zero rows"]);
    let mut splits = BTreeMap::new();
    let yes = |has: bool| if has { "yes" } else { "-" };
    for data in std::iter::once(&pack.train).chain(&pack.test).chain(&pack.ood) {
        let facts = Facts::of(data)?;
        let is_ood = pack.ood.iter().any(|set| std::ptr::eq(set, data));
        let name = if is_ood { format!("ood/{}", data.name()) } else { data.name().to_owned() };
        table.row([
            name.clone(),
            data.rows().to_string(),
            data.width().to_string(),
            data.logits().map_or("-".to_owned(), |logits| logits.width().to_string()),
            facts.classes.map_or("-".to_owned(), |classes| classes.to_string()),
            facts.zero_rows.to_string(),
        ]);
        splits.insert(name, facts.json(data, "split"));
    }
    let text = format!("pack {}\n\n{table}\nhead: {}\n", pack.name, yes(pack.head.is_some()));
    let value = json!({
        "schema": "offspan.inspect/1",
        "kind": "pack",
        "name": pack.name,
        "head": pack.head.as_ref().map(|head| json!({"classes": head.classes()})),
        "splits": splits,
    });
    Ok((text, value))
}

/// What one pass over a dataset tells.
struct Facts {
    smallest: f64,
    largest: f64,
    shortest: f64,
    longest: f64,
    zeros: f64,
    zero_rows: usize,
    constant_columns: usize,
    classes: Option<usize>,
}

impl Facts {
    fn of(data: &Dataset<'_>) -> Result<Self, Failure> {
        let (rows, width) = (data.rows(), data.width());
        let mut facts = Facts {
            smallest: f64::INFINITY,
            largest: f64::NEG_INFINITY,
            shortest: f64::INFINITY,
            longest: 0.0,
            zeros: 0.0,
            zero_rows: 0,
            constant_columns: 0,
            classes: None,
        };
        let mut columns = vec![(f64::INFINITY, f64::NEG_INFINITY); width];
        let mut zeros = 0u64;
        offspan::io::for_each_row(data, &Progress::default(), |row| {
            let mut squared = 0.0;
            for (&x, (low, high)) in row.iter().zip(&mut columns) {
                *low = low.min(x);
                *high = high.max(x);
                squared += x * x;
                zeros += u64::from(x == 0.0);
            }
            let norm = squared.sqrt();
            facts.shortest = facts.shortest.min(norm);
            facts.longest = facts.longest.max(norm);
            facts.zero_rows += usize::from(norm == 0.0);
        })?;
        for (low, high) in columns {
            facts.smallest = facts.smallest.min(low);
            facts.largest = facts.largest.max(high);
            facts.constant_columns += usize::from(low == high);
        }
        facts.zeros = zeros as f64 / (rows as f64 * width as f64);
        if let Some(labels) = &data.labels() {
            let classes: std::collections::BTreeSet<i64> =
                labels.read(0..labels.len())?.into_iter().collect();
            facts.classes = Some(classes.len());
        }
        Ok(facts)
    }

    fn json(&self, data: &Dataset<'_>, kind: &str) -> Value {
        json!({
            "schema": "offspan.inspect/1",
            "kind": kind,
            "rows": data.rows(),
            "width": data.width(),
            "logits": data.logits().map(|logits| logits.width()),
            "classes": self.classes,
            "smallest": self.smallest,
            "largest": self.largest,
            "norms": [self.shortest, self.longest],
            "zeros": self.zeros,
            "zero_rows": self.zero_rows,
            "constant_columns": self.constant_columns,
        })
    }
}
