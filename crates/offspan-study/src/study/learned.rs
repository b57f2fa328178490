//! Kernels as they come, and kernels that learn from labels.

use offspan_report::page::Block;

use super::findings::{Findings, beside_the_paper, check_some, document, failures, table};
use super::ranking::bars;
use super::run::Run;
use super::runner::{Row, Runner};
use crate::Result;
use crate::folder::Album;
use crate::published::{FIGURES, paper_row};
use crate::report::section;
use crate::words::three_digits;

const LABELS: &[&str] = &["method", "learns"];

pub(super) fn runs() -> Vec<Run> {
    [
        ("kpca-rff", "nothing"),
        ("rff-opt", "which random features agree with the labels"),
        ("dkgp-rff", "the kernel's width"),
        ("kpca-nys", "nothing"),
        ("dkgp-nys", "the kernel's width"),
        ("autoencoder", "a reconstruction instead of a kernel"),
    ]
    .map(|(method, learns)| Run::new(method, &[method, learns]))
    .to_vec()
}

pub(super) fn study(runner: &Runner<'_>) -> Result<Findings> {
    let rows = runner.run(runs())?;
    check_some(&rows)?;
    let table = table(LABELS, &rows, &runner.options);
    let mut album = Album::default();
    let text = "The paper's appendix lets the kernel learn: random features weighted by how well they agree \
                with the labels (rff-opt), a width found by a Gaussian-process classifier (dkgp), and, for \
                comparison, a small network that learns to reconstruct the features.";
    let mut blocks = vec![Block::Text(text.to_owned())];
    blocks.extend(failures(&rows));
    let found: Vec<(String, String)> = rows.iter().filter_map(found).collect();
    if !found.is_empty() {
        blocks.push(Block::Facts(found));
    }
    let shown: Vec<Row> =
        rows.iter().map(|row| Row { labels: row.labels[..1].to_vec(), ..row.clone() }).collect();
    blocks.push(bars(&mut album, "learned", &shown, &runner.options));
    blocks.push(Block::Table(table.clone()));
    let paper_line = |labels: &[String]| {
        let figure = FIGURES
            .iter()
            .find(|figure| figure.table == "learned" && labels[0] == figure.method)?;
        paper_row("learned", figure.network, figure.method, figure.variant)
    };
    blocks.extend(beside_the_paper(LABELS, runner, &rows, paper_line));
    let json = document(LABELS, &rows, &runner.options);
    Ok(Findings {
        name: "learned",
        section: section("Learned kernels", blocks),
        album,
        table,
        json,
    })
}

/// What a fit found, in words.
fn found(row: &Row) -> Option<(String, String)> {
    let found = &row.outcome.as_ref().ok()?.fit.as_ref()?.found;
    let words: Vec<String> =
        found.iter().map(|(name, value)| format!("{name} {}", short(*value))).collect();
    (!words.is_empty()).then(|| (format!("{} found", row.labels[0]), words.join(", ")))
}

/// Counts are whole, other numbers have three digits.
fn short(value: f64) -> f64 {
    if value.fract() == 0.0 { value } else { three_digits(value) }
}
