//! How much each parameter matters: one at a time, the others fixed, and γ against the ratio.

use offspan_report::page::Block;
use offspan_report::plot::{Best, Curve, HeatMap, Lines, Plot, Scale};

use super::findings::{Findings, check_some, document, failures, table};
use super::run::Run;
use super::runner::{Row, Runner};
use crate::Result;
use crate::evaluation::rate_name;
use crate::folder::Album;
use crate::report::section;
use crate::words::three_digits;

const LABELS: &[&str] = &["method", "parameter", "value"];

/// Shares of the variance that the subspace keeps.
const RATIOS: &[f64] = &[0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999];
/// Multiples of the kernel's width.
const FACTORS: &[f64] = &[0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
/// The coarser steps of the heat map.
const COARSE_RATIOS: &[f64] = &[0.5, 0.7, 0.9, 0.95, 0.99, 0.995];
const COARSE_FACTORS: &[f64] = &[0.0625, 0.25, 1.0, 4.0, 16.0];

/// A method with its own grid of sizes.
struct Subject {
    method: &'static str,
    gamma: f64,
    size_flag: &'static str,
    sizes: &'static [usize],
}

const SUBJECTS: &[Subject] = &[
    Subject {
        method: "kpca-rff",
        gamma: 2.0,
        size_flag: "--features",
        sizes: &[256, 512, 1024, 2048, 4096],
    },
    Subject {
        method: "kpca-nys",
        gamma: 1.0,
        size_flag: "--landmarks",
        sizes: &[128, 256, 512, 1024, 2048],
    },
];

const RATIO: &str = "explained variance";
const GAMMA: &str = "γ";
const SIZE: &str = "M";
const BOTH: &str = "γ, explained variance";

pub(super) fn runs(runner: &Runner<'_>) -> Vec<Run> {
    let mut runs = Vec::new();
    for subject in SUBJECTS {
        let gamma = runner.common_gamma(subject.method).unwrap_or(subject.gamma);
        let run = |parameter: &str, value: String| {
            Run::new(subject.method, &[subject.method, parameter, &value])
        };
        for &ratio in RATIOS {
            runs.push(run(RATIO, ratio.to_string()).with("--explained-variance", ratio));
        }
        for &factor in FACTORS {
            let gamma = three_digits(factor * gamma);
            runs.push(run(GAMMA, gamma.to_string()).with("--gamma", gamma));
        }
        for &size in subject.sizes.iter().filter(|&&size| size <= runner.sets.train.rows()) {
            runs.push(run(SIZE, size.to_string()).with(subject.size_flag, size));
        }
        for &factor in COARSE_FACTORS {
            for &ratio in COARSE_RATIOS {
                let gamma = three_digits(factor * gamma);
                let run = run(BOTH, format!("{gamma}, {ratio}"));
                runs.push(run.with("--gamma", gamma).with("--explained-variance", ratio));
            }
        }
    }
    runs
}

pub(super) fn study(runner: &Runner<'_>) -> Result<Findings> {
    let rows = runner.run(runs(runner))?;
    check_some(&rows)?;
    let table = table(LABELS, &rows, &runner.options);
    let mut album = Album::default();
    let text = "Each curve changes one parameter and leaves the others as they are. Where a curve is flat, \
                the parameter needs no tuning; where it is steep, a value that was chosen on one set of \
                OoD rows may fail on another. A value that leaves no residual has no point.";
    let mut blocks = vec![Block::Text(text.to_owned())];
    for (name, parameter, label) in [
        ("ratio", RATIO, "variance left out (1 − explained variance)"),
        ("gamma", GAMMA, "kernel width γ"),
        ("size", SIZE, "random features or landmarks M"),
    ] {
        blocks.push(sweep(&mut album, name, parameter, label, &rows, runner));
    }
    blocks.push(Block::Text(
        "γ and the explained variance together, mean over the sets; the best cell has a frame."
            .to_owned(),
    ));
    let maps = SUBJECTS.iter().flat_map(|subject| heat_maps(subject, &rows, runner));
    blocks.push(album.show(maps.collect()));
    blocks.extend(summary_of_failures(&rows));
    blocks.push(Block::Folded("All numbers".to_owned(), vec![Block::Table(table.clone())]));
    let json = document(LABELS, &rows, &runner.options);
    Ok(Findings {
        name: "sensitivity",
        section: section("Sensitivity", blocks),
        album,
        table,
        json,
    })
}

/// Many runs may fail for the same reason: it is told once.
fn summary_of_failures(rows: &[Row]) -> Option<Block> {
    let failed = failures(rows).len();
    let reason = rows.iter().find_map(|row| row.outcome.as_ref().err())?;
    Some(Block::Note(format!(
        "{failed} of {} settings give no detector, such as: {reason}",
        rows.len()
    )))
}

/// The rows of one method and parameter, as (value, rate, AUROC) in percent.
fn points<'a>(rows: &'a [Row], method: &str, parameter: &str) -> Vec<(&'a str, f64, f64)> {
    rows.iter()
        .filter(|row| row.labels[0] == method && row.labels[1] == parameter)
        .filter_map(|row| {
            let average = &row.outcome.as_ref().ok()?.average;
            Some((row.labels[2].as_str(), 100.0 * average.fpr, 100.0 * average.auroc))
        })
        .collect()
}

/// Rate and AUROC as one parameter changes.
fn sweep(
    album: &mut Album,
    name: &str,
    parameter: &str,
    x_label: &str,
    rows: &[Row],
    runner: &Runner<'_>,
) -> Block {
    let rate = rate_name(&runner.options).to_uppercase();
    let what = if parameter == RATIO { "the kept variance" } else { parameter };
    let x = |text: &str| {
        let value: f64 = text.parse().unwrap_or(f64::NAN);
        if parameter == RATIO { three_digits(1.0 - value) } else { value }
    };
    let plot = |label: &str, pick: fn(&(&str, f64, f64)) -> f64| -> Plot {
        let mut spread = 0.0f64;
        let curves = SUBJECTS.iter().map(|subject| {
            let points = points(rows, subject.method, parameter);
            let values: Vec<f64> = points.iter().map(pick).collect();
            let (low, high) = (
                values.iter().copied().fold(f64::INFINITY, f64::min),
                values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            );
            spread = spread.max(high - low);
            Curve::new(
                subject.method,
                points.iter().map(|point| (x(point.0), pick(point))).collect(),
            )
        });
        let curves = curves.collect();
        let plot = Lines {
            title: format!("As {what} changes, {label} moves by up to {spread:.1} points"),
            x_label: x_label.to_owned(),
            y_label: format!("{label} in percent"),
            x_scale: Scale::Log,
            curves,
            ..Lines::default()
        };
        plot.into()
    };
    let rate_plot = plot(&rate, |point| point.1);
    let auroc_plot = plot("AUROC", |point| point.2);
    album.show(vec![
        (format!("sensitivity-{name}-fpr"), rate_plot, String::new()),
        (format!("sensitivity-{name}-auroc"), auroc_plot, String::new()),
    ])
}

fn heat_maps(subject: &Subject, rows: &[Row], runner: &Runner<'_>) -> Vec<(String, Plot, String)> {
    let rate = rate_name(&runner.options).to_uppercase();
    let points = points(rows, subject.method, BOTH);
    let (mut widths, mut ratios): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| row.labels[0] == subject.method && row.labels[1] == BOTH) {
        if let Some((width, ratio)) = row.labels[2].split_once(", ") {
            for (list, text) in [(&mut widths, width), (&mut ratios, ratio)] {
                if !list.iter().any(|known| known == text) {
                    list.push(text.to_owned());
                }
            }
        }
    }
    let map = |label: &str, best: Best, pick: fn(&(&str, f64, f64)) -> f64| -> Plot {
        let value = |width: &str, ratio: &str| {
            let name = format!("{width}, {ratio}");
            points.iter().find(|point| point.0 == name).map_or(f64::NAN, pick)
        };
        HeatMap {
            title: format!("{}: {label} by γ and explained variance", subject.method),
            x_label: "explained variance".to_owned(),
            y_label: "γ".to_owned(),
            value_label: format!("{label} in percent"),
            rows: widths.clone(),
            columns: ratios.clone(),
            values: widths
                .iter()
                .map(|width| ratios.iter().map(|ratio| value(width, ratio)).collect())
                .collect(),
            best,
            decimals: Some(1),
            ..HeatMap::default()
        }
        .into()
    };
    vec![
        (
            format!("sensitivity-map-{}-fpr", subject.method),
            map(&rate, Best::Lowest, |point| point.1),
            String::new(),
        ),
        (
            format!("sensitivity-map-{}-auroc", subject.method),
            map("AUROC", Best::Highest, |point| point.2),
            String::new(),
        ),
    ]
}
