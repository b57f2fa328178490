//! Which training rows become landmarks, and which residual is taken.

use offspan_report::page::Block;

use super::findings::{Findings, beside_the_paper, check_some, document, failures, table};
use super::ranking::bars;
use super::run::Run;
use super::runner::Runner;
use crate::Result;
use crate::folder::Album;
use crate::published::paper_row;
use crate::report::section;

const LABELS: &[&str] = &["landmarks", "residual"];

pub(super) fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for sampling in ["uniform", "high-energy", "low-energy"] {
        for residual in ["plain", "complete"] {
            let run = Run::new("kpca-nys", &[sampling, residual]);
            runs.push(run.with("--sampling", sampling).with("--residual", residual));
        }
    }
    runs
}

pub(super) fn study(runner: &Runner<'_>) -> Result<Findings> {
    let rows = runner.run(runs())?;
    check_some(&rows)?;
    let table = table(LABELS, &rows, &runner.options);
    let mut album = Album::default();
    let text = "Nyström kernel PCA knows other rows by their likeness to landmarks. They may be training \
                rows of the lowest energy (where the network is least sure: the paper's choice), of the \
                highest, or any. The plain residual is what the subspace leaves of what the landmarks can \
                see; the complete one adds what they cannot, and wants landmarks that cover the data.";
    let mut blocks = vec![Block::Text(text.to_owned())];
    blocks.extend(failures(&rows));
    blocks.push(bars(&mut album, "sampling", &rows, &runner.options));
    blocks.push(Block::Table(table.clone()));
    // The paper's residual is the plain one.
    let paper_line = |labels: &[String]| match labels {
        [sampling, residual] if residual == "plain" => {
            paper_row("sampling", "resnet50", "kpca-nys", sampling)
        }
        _ => None,
    };
    blocks.extend(beside_the_paper(LABELS, runner, &rows, paper_line));
    let json = document(LABELS, &rows, &runner.options);
    Ok(Findings {
        name: "sampling",
        section: section("Landmarks and residuals", blocks),
        album,
        table,
        json,
    })
}
