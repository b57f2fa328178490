//! What a score costs in time and storage, on this machine.

use std::hint::black_box;
use std::time::Instant;

use offspan::io::{Dataset, OwnedRows};
use offspan::{Detector, FitOptions, Silent};
use offspan_report::page::Block;
use offspan_report::plot::{Bar, Bars, Plot};
use offspan_report::table::{Heading, Table};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::findings::Findings;
use super::run::Run;
use super::runner::Runner;
use crate::folder::Album;
use crate::portrait::sample;
use crate::published::COSTS;
use crate::report::section;
use crate::words::{bytes, duration, grouped};
use crate::{Result, StudyError};

/// Rows of a batch, batches, and single rows timed.
const BATCH: usize = 1000;
const BATCHES: usize = 5;
const SINGLES: usize = 200;

/// Method, and how its time and storage grow: N training rows, width m, M features or landmarks, q
/// directions kept.
const METHODS: &[(&str, &str, &str)] = &[
    ("knn", "O(N m)", "O(N m)"),
    ("kpca-rff", "O(M log m + M min(q, M − q))", "O(M min(q, M − q))"),
    ("kpca-nys", "O(M m + M min(q, M − q))", "O(M m + M min(q, M − q))"),
];

#[derive(Serialize, Deserialize)]
struct Cost {
    method: String,
    fit_seconds: f64,
    /// Seconds of one row, in a batch on all threads and alone on one.
    batch_seconds: f64,
    single_seconds: f64,
    file_bytes: usize,
    /// Rows of a batch, and single rows.
    batch_rows: usize,
    single_rows: usize,
}

pub(super) fn study(runner: &Runner<'_>) -> Result<Findings> {
    let commands: Vec<String> = METHODS
        .iter()
        .map(|(method, ..)| runner.completed(Run::new(method, &[])).command())
        .collect();
    let threads = rayon::current_num_threads();
    let parameters = json!({ "methods": commands, "threads": threads });
    let measured: Vec<Measured> = runner.remember("cost", parameters, || {
        METHODS
            .iter()
            .map(|(method, ..)| match measure(runner, method) {
                Err(error) if error.ends_all() => Err(error),
                result => Ok(result.map_err(|error| format!("{method}: {error}"))),
            })
            .collect()
    })?;
    if let Some(Err(reason)) = measured.iter().find(|_| measured.iter().all(Result::is_err)) {
        return Err(StudyError::Setup(reason.clone()));
    }
    Ok(findings(runner, &measured, threads))
}

/// What a method costs, or why it cannot be measured.
type Measured = std::result::Result<Cost, String>;

fn measure(runner: &Runner<'_>, method: &str) -> Result<Cost> {
    let sets = &runner.sets;
    let spec = runner.completed(Run::new(method, &[])).spec()?;
    let started = Instant::now();
    let fit =
        FitOptions { hold_out: Some(0.0), observer: runner.observer, ..FitOptions::default() };
    let detector = Detector::fit(&spec, sets.train, sets.head, &fit)?;
    let fit_seconds = started.elapsed().as_secs_f64();
    let rows = sample(sets.test, BATCH, runner.options.seed)?.mapv(|x| x as f32);
    let owned = |rows: ndarray::Array2<f32>| Dataset::new("rows", OwnedRows(rows));
    let batch = owned(rows.clone());
    let singles: Vec<Dataset<'_>> = rows
        .rows()
        .into_iter()
        .take(SINGLES)
        .map(|row| owned(row.insert_axis(ndarray::Axis(0)).to_owned()))
        .collect();
    runner.observer.begin(&format!("{method}: time of scores"), 0);
    let timed = |data: &Dataset<'_>| -> Result<f64> {
        let started = Instant::now();
        black_box(detector.score_dataset(data, &Silent)?);
        Ok(started.elapsed().as_secs_f64())
    };
    // The first call fills caches; of the others the best is what the machine can do.
    timed(&batch)?;
    let mut batches = (0..BATCHES).map(|_| timed(&batch)).collect::<Result<Vec<_>>>()?;
    let mut alone = singles.iter().map(timed).collect::<Result<Vec<_>>>()?;
    batches.sort_by(f64::total_cmp);
    alone.sort_by(f64::total_cmp);
    Ok(Cost {
        method: method.to_owned(),
        fit_seconds,
        batch_seconds: batches[0] / batch.rows() as f64,
        single_seconds: alone[alone.len() / 2],
        file_bytes: detector.to_bytes().len(),
        batch_rows: batch.rows(),
        single_rows: singles.len(),
    })
}

fn findings(runner: &Runner<'_>, measured: &[Measured], threads: usize) -> Findings {
    let costs: Vec<&Cost> = measured.iter().flatten().collect();
    let header = [
        "method",
        "fit",
        "a row of a batch",
        "a row alone",
        "detector file",
        "file per training row",
        "time grows as",
        "storage grows as",
    ];
    let train = runner.sets.train.rows();
    let rows = costs.iter().map(|cost| {
        let known = METHODS.iter().find(|(method, ..)| *method == cost.method);
        let (time, storage) = known.map_or(("", ""), |&(_, time, storage)| (time, storage));
        vec![
            cost.method.as_str().into(),
            duration(cost.fit_seconds).into(),
            duration(cost.batch_seconds).into(),
            duration(cost.single_seconds).into(),
            bytes(cost.file_bytes).into(),
            bytes(cost.file_bytes / train.max(1)).into(),
            time.into(),
            storage.into(),
        ]
    });
    let table = Table {
        caption: format!(
            "measured once on this machine with {threads} threads; N training rows, width m, M features or \
             landmarks, q directions"
        ),
        header: header.map(Into::into).to_vec(),
        rows: rows.collect(),
        ..Table::default()
    };
    let bars = |title: String,
                x_label: &str,
                value: fn(&Cost) -> f64,
                text: fn(&Cost) -> String|
     -> Plot {
        let bars = costs.iter().map(|cost| {
            let bar = Bar::new(cost.method.clone(), value(cost), text(cost));
            if cost.method == "knn" { bar } else { bar.highlighted() }
        });
        let x_label = x_label.to_owned();
        Bars { title, x_label, bars: bars.collect(), ..Bars::default() }.into()
    };
    // How many times as much neighbours take as the best of the others, where they take more.
    let more = |of: fn(&Cost) -> f64| {
        let knn = costs.iter().find(|cost| cost.method == "knn")?;
        let others = costs.iter().filter(|cost| cost.method != "knn");
        let best = others.min_by(|a, b| of(a).total_cmp(&of(b)))?;
        let ratio = of(knn) / of(best);
        (ratio >= 1.5).then(|| (best.method.clone(), format!("{ratio:.0}")))
    };
    let time = more(|cost| cost.batch_seconds).map_or_else(
        || "Time of a score".to_owned(),
        |(best, ratio)| format!("A score by {best} is {ratio} times as fast as by neighbours"),
    );
    let storage = more(|cost| cost.file_bytes as f64).map_or_else(
        || "Size of a detector file".to_owned(),
        |(best, ratio)| format!("The bank of neighbours takes {ratio} times the room of {best}"),
    );
    let mut album = Album::default();
    let plots = album.show(vec![
        (
            "cost-time".to_owned(),
            bars(
                time,
                "µs for a row of a batch",
                |cost| 1e6 * cost.batch_seconds,
                |cost| duration(cost.batch_seconds),
            ),
            String::new(),
        ),
        (
            "cost-storage".to_owned(),
            bars(
                storage,
                "MiB of the detector file",
                |cost| cost.file_bytes as f64 / 1_048_576.0,
                |cost| bytes(cost.file_bytes),
            ),
            String::new(),
        ),
    ]);
    let (batch, single) = costs.first().map_or((0, 0), |cost| (cost.batch_rows, cost.single_rows));
    let text = format!(
        "Nearest neighbours keep and search all {} training rows; kernel PCA keeps a subspace, whose size \
         does not grow with them. Batches are of {} rows (best of {BATCHES}), single rows the median of \
         {single}.",
        grouped(train),
        grouped(batch)
    );
    let notes = measured.iter().filter_map(|cost| cost.as_ref().err().cloned().map(Block::Note));
    let mut blocks = vec![Block::Text(text)];
    blocks.extend(notes);
    blocks.extend([plots, Block::Table(table.clone()), theirs()]);
    let json = json!({ "threads": threads, "costs": costs });
    Findings { name: "cost", section: section("Time and storage", blocks), album, table, json }
}

/// What the paper gives, on a machine of another kind.
fn theirs() -> Block {
    let table = Table {
        caption: "theirs: ResNet50 on ImageNet-1K, one RTX 3090, per sample".to_owned(),
        header: ["method", "time", "memory"].map(Heading::new).to_vec(),
        rows: COSTS
            .map(|(method, time, memory)| vec![method.into(), time.into(), memory.into()])
            .to_vec(),
        ..Table::default()
    };
    Block::Folded("The paper's own times".to_owned(), vec![Block::Table(table)])
}
