//! What a score costs in time and storage, on this machine.

use std::hint::black_box;
use std::time::Instant;

use offspan::io::{Dataset, OwnedRows};
use offspan::{Detector, FitOptions, Silent};
use offspan_report::page::{Block, Table};
use offspan_report::plot::{Bar, Bars, Plot};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::findings::Findings;
use super::run::Run;
use super::runner::Runner;
use crate::Result;
use crate::folder::Album;
use crate::portrait::sample;
use crate::report::section;
use crate::words::{bytes, duration, grouped};

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
}

pub(super) fn study(runner: &Runner<'_>) -> Result<Findings> {
    let commands: Vec<String> = METHODS
        .iter()
        .map(|(method, ..)| runner.completed(Run::new(method, &[])).command())
        .collect();
    let threads = rayon::current_num_threads();
    let parameters = json!({ "methods": commands, "threads": threads });
    let costs = runner.remember("cost", parameters, || {
        METHODS.iter().map(|(method, ..)| measure(runner, method)).collect::<Result<Vec<_>>>()
    })?;
    Ok(findings(runner, &costs, threads))
}

fn measure(runner: &Runner<'_>, method: &str) -> Result<Cost> {
    let sets = &runner.sets;
    let spec = runner.completed(Run::new(method, &[])).spec()?;
    let started = Instant::now();
    let fit = FitOptions { hold_out: 0.0, observer: runner.observer, ..FitOptions::default() };
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
    })
}

fn findings(runner: &Runner<'_>, costs: &[Cost], threads: usize) -> Findings {
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
    let rows = costs.iter().zip(METHODS).map(|(cost, &(_, time, storage))| {
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
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
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
    let ratio = |of: fn(&Cost) -> f64| {
        let knn = costs.iter().find(|cost| cost.method == "knn").map_or(f64::NAN, of);
        let best =
            costs.iter().filter(|cost| cost.method != "knn").map(of).fold(f64::INFINITY, f64::min);
        knn / best
    };
    let mut album = Album::default();
    let plots = album.show(vec![
        (
            "cost-time".to_owned(),
            bars(
                format!(
                    "A score by kernel PCA is {:.0} times as fast as by neighbours",
                    ratio(|cost| cost.batch_seconds)
                ),
                "µs for a row of a batch",
                |cost| 1e6 * cost.batch_seconds,
                |cost| duration(cost.batch_seconds),
            ),
            String::new(),
        ),
        (
            "cost-storage".to_owned(),
            bars(
                format!(
                    "Its file takes a {:.0}th of the room",
                    ratio(|cost| cost.file_bytes as f64)
                ),
                "MiB of the detector file",
                |cost| cost.file_bytes as f64 / 1_048_576.0,
                |cost| bytes(cost.file_bytes),
            ),
            String::new(),
        ),
    ]);
    let text = format!(
        "Nearest neighbours keep and search all {} training rows; kernel PCA keeps a subspace, whose size \
         does not grow with them. Batches are of {BATCH} rows (best of {BATCHES}), single rows the median \
         of {SINGLES}.",
        grouped(train)
    );
    let blocks = vec![Block::Text(text), plots, Block::Table(table.clone())];
    let json = json!({ "threads": threads, "costs": costs });
    Findings { name: "cost", section: section("Time and storage", blocks), album, table, json }
}
