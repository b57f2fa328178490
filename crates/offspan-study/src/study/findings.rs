//! What a study found, as a section of a page, a table and a document.

use std::path::PathBuf;

use offspan::metrics::EvalOptions;
use offspan_report::page::{Block, Cell, Heading, Page, Section, Table};
use serde_json::{Value, json};

use super::runner::{Row, Runner};
use crate::evaluation::{Metric, cells_of, columns_of, headings, name_the_rate};
use crate::folder::{Album, Folder, made_by};
use crate::published::{PaperRow, rows_beside};
use crate::{Result, StudyError};

/// What a study found.
pub(super) struct Findings {
    /// The study's name, which its files get.
    pub(super) name: &'static str,
    pub(super) section: Section,
    pub(super) album: Album,
    /// All numbers.
    pub(super) table: Table,
    /// The same for machines.
    pub(super) json: Value,
}

impl Findings {
    /// Writes the study's files and returns where its page is.
    pub(super) fn write(&self, folder: &Folder, pack: &str) -> Result<PathBuf> {
        folder.text(&format!("{}.md", self.name), &self.markdown())?;
        folder.text(&format!("{}.csv", self.name), &self.table.csv())?;
        folder.text(&format!("{}.tex", self.name), &self.table.latex())?;
        folder.json(
            &format!("{}.json", self.name),
            &json!({ "schema": "offspan.study/1", "study": self.name, "pack": pack, "results": self.json }),
        )?;
        folder.plots(&self.album)?;
        let page = Page {
            title: format!("A study of {pack}"),
            lead: Vec::new(),
            sections: vec![self.section.clone()],
            made_by: made_by(),
        };
        folder.page(&format!("{}.html", self.name), &page)
    }

    fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n", self.section.title);
        for block in &self.section.blocks {
            if let Block::Text(paragraph) | Block::Note(paragraph) = block {
                text += &format!("{paragraph}\n\n");
            }
        }
        text + &self.table.markdown()
    }
}

/// Runs as a table: labels, q, numbers, flags.
pub(super) fn table(labels: &[&str], rows: &[Row], options: &EvalOptions) -> Table {
    let results: Vec<_> = rows.iter().filter_map(|row| row.outcome.as_ref().ok()).collect();
    let columns = results.first().map_or(Vec::new(), |first| columns_of(first));
    let names = headings(&columns, &Metric::USUAL, options);
    let mut marked = cells_of(&results, &columns, &Metric::USUAL, &[]).into_iter();
    let mut header: Vec<Heading> = labels.iter().map(|&label| Heading::new(label)).collect();
    header.push("q".into());
    header.extend(names.iter().cloned());
    header.push("flags".into());
    let cells = |row: &Row| {
        let mut cells: Vec<Cell> = row.labels.iter().cloned().map(Cell::from).collect();
        match &row.outcome {
            Ok(result) => {
                let q = result.fit.as_ref().and_then(|fit| fit.components);
                cells.push(q.map_or_else(|| "–".to_owned(), |q| q.to_string()).into());
                cells.extend(marked.next().into_iter().flatten());
            }
            Err(_) => cells.extend((0..=names.len()).map(|_| Cell::from("–"))),
        }
        cells.push(row.command.clone().into());
        cells
    };
    let rows = rows.iter().map(cells).collect();
    Table { caption: "in percent".to_owned(), header, rows, ..Table::default() }
}

/// The paper's lines beside those of a study, folded away; `of` finds the paper's line by the labels of ours.
pub(super) fn beside_the_paper(
    labels: &[&str],
    runner: &Runner<'_>,
    rows: &[Row],
    of: impl Fn(&[String]) -> Option<PaperRow>,
) -> Option<Block> {
    let mut lines = Vec::new();
    for row in rows {
        lines.push((row.labels.clone(), row.outcome.as_ref().ok(), of(&row.labels)));
    }
    let table = rows_beside(labels, runner.pack, lines, &runner.options)?;
    let title = "Beside the paper's own figures, which are theirs and on their data".to_owned();
    Some(Block::Folded(title, vec![Block::Table(table)]))
}

/// Fails if no run gave anything: such a study would be an empty page.
pub(super) fn check_some(rows: &[Row]) -> Result<()> {
    match rows.iter().find_map(|row| row.outcome.as_ref().err()) {
        Some(reason) if rows.iter().all(|row| row.outcome.is_err()) => Err(StudyError::Setup(
            format!("no line of the study has a result; the first: {reason}"),
        )),
        _ => Ok(()),
    }
}

/// Why some runs gave nothing, as notes.
pub(super) fn failures(rows: &[Row]) -> Vec<Block> {
    let note = |row: &Row| match &row.outcome {
        Ok(_) => None,
        Err(reason) => Some(Block::Note(format!("{}: {reason}", row.labels.join(" ")))),
    };
    rows.iter().filter_map(note).collect()
}

/// Runs for machines.
pub(super) fn document(labels: &[&str], rows: &[Row], options: &EvalOptions) -> Value {
    let entry = |row: &Row| {
        let named: serde_json::Map<String, Value> = labels
            .iter()
            .zip(&row.labels)
            .map(|(&name, label)| (name.to_owned(), json!(label)))
            .collect();
        match &row.outcome {
            Ok(result) => {
                let mut result = json!(result);
                name_the_rate(&mut result, options);
                json!({ "labels": named, "flags": row.command, "result": result })
            }
            Err(reason) => json!({ "labels": named, "flags": row.command, "reason": reason }),
        }
    };
    rows.iter().map(entry).collect()
}
