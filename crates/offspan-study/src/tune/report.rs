//! A comparison of settings as table, plots, page and document.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use offspan_report::page::{Block, Cell, Page, Table};
use offspan_report::plot::{Bar, Bars, Curve, Lines, Plot, PointMark, Scale};
use serde_json::json;

use super::{Candidate, Tuned};
use crate::Result;
use crate::folder::{Album, Folder, made_by};
use crate::report::section;
use crate::words::{file_name, percent};

/// A curve needs this many points.
const FEWEST_POINTS: usize = 3;
/// More curves or bars than this hide one another.
const MOST_CURVES: usize = 8;
const MOST_BARS: usize = 30;

/// One line for each candidate, in percent.
#[must_use]
pub fn table(tuned: &Tuned) -> Table {
    let header = ["setting", "AUROC", "behind the best", "FPR95", ""];
    let line = |(index, candidate): (usize, &Candidate)| -> Vec<Cell> {
        let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), percent);
        let behind = candidate.behind.map_or_else(
            || "–".to_owned(),
            |(behind, error)| match candidate.trials.len() {
                1 => percent(behind),
                _ => format!("{} ± {}", percent(behind), percent(error)),
            },
        );
        let chosen = index == tuned.chosen;
        let remark = match &candidate.failure {
            Some(reason) => reason.as_str(),
            None if chosen => "chosen",
            None => "",
        };
        let auroc = Cell { best: chosen, ..Cell::from(number(candidate.auroc)) };
        vec![
            candidate.command.clone().into(),
            auroc,
            behind.into(),
            number(candidate.fpr).into(),
            remark.to_owned().into(),
        ]
    };
    Table {
        caption: "in percent".to_owned(),
        header: header.map(Into::into).to_vec(),
        rows: tuned.candidates.iter().enumerate().map(line).collect(),
        ..Table::default()
    }
}

/// The files of a comparison, without its plots.
#[must_use]
pub fn files() -> Vec<String> {
    ["tune.html", "tune.md", "tune.csv", "tune.json"].map(str::to_owned).to_vec()
}

/// Writes page, table, document and plots; returns where the page is.
///
/// # Errors
/// If a file cannot be written.
pub fn write(folder: &Path, data: &str, tuned: &Tuned) -> Result<PathBuf> {
    let folder = Folder::make(folder)?;
    let mut album = Album::default();
    let table = table(tuned);
    let best = tuned.best();
    let lead = vec![
        format!(
            "Settings of {data}, judged by {} ({}).",
            tuned.criterion.in_words(),
            extent(tuned)
        ),
        format!("Chosen: {}", best.command),
    ];
    let text = "Of all settings that are behind the best by no more than the standard error of the \
                difference between trials, or by less than 0.2 points, the first one tried is chosen: a \
                later one would have to be better by more than chance, and by enough to matter.";
    let blocks =
        vec![Block::Text(text.to_owned()), album.show(plots(tuned)), Block::Table(table.clone())];
    folder.text("tune.md", &format!("{}\n\n{}", lead.join("\n\n"), table.markdown()))?;
    folder.text("tune.csv", &table.csv())?;
    folder
        .json("tune.json", &json!({ "schema": "offspan.tune/1", "data": data, "tuned": tuned }))?;
    folder.plots(&album)?;
    let page = Page {
        title: format!("Settings for {data}"),
        lead,
        sections: vec![section("Settings", blocks)],
        made_by: made_by(),
    };
    folder.page("tune.html", &page)
}

/// How much a comparison saw.
#[must_use]
pub fn extent(tuned: &Tuned) -> String {
    match tuned.best().trials.len() {
        1 => format!("{} rows, once", tuned.rows),
        trials => format!("{} rows, {trials} trials", tuned.rows),
    }
}

/// A plot for each number that varies while the rest stays; bars where nothing does.
fn plots(tuned: &Tuned) -> Vec<(String, Plot, String)> {
    let mut flags: Vec<&str> = Vec::new();
    for (flag, _) in tuned.candidates.iter().flat_map(|candidate| &candidate.flags) {
        if !flags.contains(&flag.as_str()) {
            flags.push(flag);
        }
    }
    let mut plots: Vec<(String, Plot, String)> =
        flags.iter().filter_map(|flag| sweep(tuned, flag)).collect();
    if plots.is_empty() {
        plots.push(("tune".to_owned(), bars(tuned), String::new()));
    }
    plots
}

fn sweep(tuned: &Tuned, flag: &str) -> Option<(String, Plot, String)> {
    // By everything but this flag.
    let mut groups: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let value_of = |candidate: &Candidate| -> Option<(f64, f64)> {
        let (_, text) = candidate.flags.iter().find(|(name, _)| name == flag)?;
        Some((text.parse().ok()?, 100.0 * candidate.auroc?))
    };
    for candidate in &tuned.candidates {
        let Some(point) = value_of(candidate) else { continue };
        let others = candidate.flags.iter().filter(|(name, _)| name != flag);
        let rest = others.map(|(name, value)| format!(" {name} {value}")).collect::<String>();
        groups.entry(format!("{}{rest}", candidate.method)).or_default().push(point);
    }
    let mut curves: Vec<Curve> = groups
        .into_iter()
        .filter(|(_, points)| points.len() >= FEWEST_POINTS)
        .map(|(name, mut points)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Curve::new(name, points).with_markers()
        })
        .collect();
    let highest =
        |curve: &Curve| curve.points.iter().fold(0.0, |most: f64, point| most.max(point.1));
    curves.sort_by(|a, b| highest(b).total_cmp(&highest(a)));
    curves.truncate(MOST_CURVES);
    let values = curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
    let all_positive = curves.iter().flat_map(|curve| &curve.points).all(|point| point.0 > 0.0);
    let name = flag.trim_start_matches('-');
    let mark = value_of(tuned.best()).map(|(x, y)| PointMark { x, y, label: "chosen".to_owned() });
    let plot = Lines {
        title: format!("As {name} changes, AUROC moves by {:.2} points", high - low),
        x_label: name.to_owned(),
        y_label: "AUROC in percent".to_owned(),
        x_scale: if all_positive { Scale::Log } else { Scale::Linear },
        marks: mark.into_iter().collect(),
        ..Lines::default()
    };
    (!curves.is_empty()).then(|| {
        (format!("tune-{}", file_name(name)), Lines { curves, ..plot }.into(), String::new())
    })
}

fn bars(tuned: &Tuned) -> Plot {
    let mut order: Vec<usize> = (0..tuned.candidates.len()).collect();
    let auroc = |index: &usize| tuned.candidates[*index].auroc.unwrap_or(0.0);
    order.sort_by(|a, b| auroc(b).total_cmp(&auroc(a)));
    let bar = |index: usize| {
        let candidate = &tuned.candidates[index];
        let value = 100.0 * candidate.auroc.unwrap_or(0.0);
        let label = candidate.command.trim_start_matches("--method ").to_owned();
        let bar = Bar::new(label, value, format!("{value:.2}"));
        if index == tuned.chosen { bar.highlighted() } else { bar }
    };
    let bars = Bars {
        title: format!("{} is chosen", tuned.best().command.trim_start_matches("--method ")),
        x_label: "AUROC in percent".to_owned(),
        bars: order.into_iter().take(MOST_BARS).map(bar).collect(),
        ..Bars::default()
    };
    bars.into()
}
