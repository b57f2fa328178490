//! One page about one method on one pack, for a colleague who was not there.

mod extremes;
mod features;
mod overview;
mod pictures;
mod scores;
mod terms;

pub(crate) use overview::{facts, lead};

use std::path::{Path, PathBuf};

use offspan::metrics::EvalOptions;
use offspan_report::page::{Block, Page, Section, Table};
use serde_json::Value;

use crate::Result;
use crate::evaluation::{Evaluations, TableView};
use crate::folder::{Album, Folder, made_by};
use crate::portrait::Portrait;
use crate::published::beside_blocks;

/// Makes the folder of a report, so that one that cannot be made is known before the work.
///
/// # Errors
/// If it cannot be made.
pub fn prepare(folder: &Path) -> Result<()> {
    Folder::make(folder).map(drop)
}

/// The files of a report, without its plots.
#[must_use]
pub fn files() -> Vec<String> {
    ["report.html", "results.md", "results.csv", "results.tex", "results.json"]
        .map(str::to_owned)
        .to_vec()
}

/// Writes `report.html`, its plots, and the table of methods as Markdown, CSV, LaTeX and JSON into a
/// folder, which is made where it is missing. Returns where the page is.
///
/// # Errors
/// If a file cannot be written.
pub fn write(
    folder: &Path,
    portrait: &Portrait,
    evaluations: &Evaluations,
    options: &EvalOptions,
    document: &Value,
) -> Result<PathBuf> {
    let folder = Folder::make(folder)?;
    let mut album = Album::default();
    let comparison = &evaluations.table(options, &TableView::report());
    let pairs: Vec<Table> =
        evaluations.comparisons.iter().map(|pair| pair.table(options)).collect();
    let mut sections =
        vec![facts(portrait), overview::methods(portrait, comparison, &evaluations.without)];
    let tables: Vec<Block> = pairs.iter().cloned().map(Block::Table).collect();
    sections.extend((!tables.is_empty()).then(|| section("Two methods on the same rows", tables)));
    sections.extend(portrait_sections(portrait, &mut album)?);
    let preset = evaluations.preset.as_ref();
    let theirs = beside_blocks(&portrait.pack, &evaluations.results, preset, options);
    sections.extend((!theirs.is_empty()).then(|| section("Beside the paper", theirs)));
    let page = Page {
        title: format!("{} on {}", portrait.method, portrait.pack),
        lead: lead(portrait),
        sections,
        made_by: made_by(),
    };
    folder.plots(&album)?;
    let more = pairs.iter().map(|pair| format!("\n{}\n\n{}", pair.caption, pair.markdown()));
    folder.text("results.md", &(comparison.markdown() + &more.collect::<String>()))?;
    folder.text("results.csv", &comparison.csv())?;
    let more = pairs.iter().map(|pair| format!("\n{}", pair.latex()));
    folder.text("results.tex", &(comparison.latex() + &more.collect::<String>()))?;
    folder.json("results.json", document)?;
    folder.page("report.html", &page)
}

/// What the method's scores and features look like.
pub(crate) fn portrait_sections(portrait: &Portrait, album: &mut Album) -> Result<Vec<Section>> {
    let mut sections = vec![scores::section(portrait, album)?];
    sections.extend(terms::section(portrait));
    sections.extend([
        features::section(portrait, album),
        pictures::section(portrait, album),
        extremes::section(portrait),
    ]);
    Ok(sections)
}

pub(crate) fn section(title: &str, blocks: Vec<Block>) -> Section {
    Section { title: title.to_owned(), blocks }
}

/// What in-distribution test rows are called, for readers who have never heard the word.
const ORDINARY: &str = "ordinary test samples";
