//! What the paper's authors publish of their own runs, for orientation. It is theirs, on their data.

use offspan::{PRESETS, Preset, Setting};
use offspan_report::page::{Block, Section};
use offspan_report::table::{Cell, Heading, Table};

use crate::published::{FIGURES, Figure, ODDITIES, PAPER, PaperRow, THEIRS, network_in_words};
use crate::report::section;
use crate::{Result, StudyError};

/// The authors' settings, all figures of the paper, and more that the user has at hand.
pub(super) fn theirs(published: Option<&Table>) -> Section {
    let mut blocks = vec![
        Block::Note(format!(
            "Everything in this section is the authors' own, measured on their networks and data sets, which \
             are not those of this report: {PAPER}."
        )),
        Block::Text(
            "Settings with which they ran their networks, as their public code has them; --preset takes \
             them by name. Beside each, the average of the row in the paper that it reproduces."
                .to_owned(),
        ),
        Block::Table(settings()),
        Block::Text(
            "Of the random features that rff-opt chooses from, the paper keeps 1,961 of 4,096. For scoring \
             it gives O(N) time and storage for nearest neighbours, and O(M) for both approximations."
                .to_owned(),
        ),
    ];
    blocks.extend(tables());
    let oddities = ODDITIES.join(" ");
    blocks.push(Block::Note(format!("As printed, and odd: {oddities}")));
    if let Some(table) = published {
        blocks.push(Block::Text("More figures, as given with --published.".to_owned()));
        blocks.push(Block::Table(table.clone()));
    }
    section("The paper's own", blocks)
}

/// Every table of results, each folded away.
fn tables() -> Vec<Block> {
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for figure in FIGURES.iter() {
        if !kinds.contains(&(figure.table, figure.network)) {
            kinds.push((figure.table, figure.network));
        }
    }
    let folded = |(table, network): (&str, &str)| {
        let title = format!("The paper's {table}: {}", network_in_words(network));
        Block::Folded(title, vec![Block::Table(results(table, network))])
    };
    kinds.into_iter().map(folded).collect()
}

/// One table of the paper on one network, as printed.
fn results(table: &str, network: &str) -> Table {
    let figures: Vec<&Figure> = FIGURES
        .iter()
        .filter(|figure| (figure.table, figure.network) == (table, network))
        .collect();
    let mut lines: Vec<(&str, &str)> = Vec::new();
    let mut sets: Vec<&str> = Vec::new();
    for figure in &figures {
        if !lines.contains(&(figure.method, figure.variant)) {
            lines.push((figure.method, figure.variant));
        }
        if !sets.contains(&figure.set) {
            sets.push(figure.set);
        }
    }
    let has_variants = lines.iter().any(|(_, variant)| !variant.is_empty());
    let row = |(method, variant): &(&str, &str)| {
        let mut cells: Vec<Cell> = vec![(*method).into()];
        cells.extend(has_variants.then(|| Cell::from(*variant)));
        cells.extend(sets.iter().map(|set| {
            let wanted = (*method, *variant, *set);
            let found =
                figures.iter().find(|figure| (figure.method, figure.variant, figure.set) == wanted);
            Cell::from(found.map_or_else(|| "–".to_owned(), |figure| figure.pair()))
        }));
        cells
    };
    let mut header: Vec<Heading> = vec!["method".into()];
    header.extend(has_variants.then(|| Heading::new("variant")));
    header.extend(sets.iter().map(|set| Heading::new(*set)));
    let caption = format!("FPR95 / AUROC in percent, {THEIRS}");
    Table { caption, header, rows: lines.iter().map(row).collect(), ..Table::default() }
}

fn settings() -> Table {
    let rows = PRESETS
        .iter()
        .flat_map(|preset| preset.settings.iter().map(move |setting| cells_of(preset, setting)));
    let header = [
        "preset",
        "network",
        "method",
        "γ",
        "M",
        "explained variance",
        "ReAct clips at",
        "FPR95 / AUROC",
    ];
    Table {
        caption: "theirs".to_owned(),
        header: header.map(Into::into).to_vec(),
        rows: rows.collect(),
        ..Table::default()
    }
}

fn cells_of(preset: &Preset, setting: &Setting) -> Vec<Cell> {
    let none = || "–".to_owned();
    let row = PaperRow::of_preset(preset, setting.method);
    [
        preset.name.to_owned(),
        preset.network.to_owned(),
        setting.method.to_owned(),
        setting.gamma.map_or_else(none, |gamma| gamma.to_string()),
        setting.size.map_or_else(none, |size| size.to_string()),
        setting.explained_variance.to_string(),
        setting.react.map_or_else(none, |clip| clip.to_string()),
        row.map_or_else(none, |row| row.average.pair()),
    ]
    .map(Cell::from)
    .to_vec()
}

/// Figures of the paper from comma-separated text: a header, then rows.
///
/// # Errors
/// If they are not a table.
pub fn published_table(text: &str) -> Result<Table> {
    let wrong = |what: String| StudyError::Setup(format!("published figures: {what}"));
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let rows: Vec<Vec<String>> = lines.map(cells).collect();
    let Some((header, rows)) = rows.split_first().filter(|(_, rows)| !rows.is_empty()) else {
        return Err(wrong(format!("expected a header and rows, got {} lines", rows.len())));
    };
    if let Some((index, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != header.len()) {
        let (row, got, expected) = (index + 1, row.len(), header.len());
        return Err(wrong(format!(
            "row {row} has {got} cells; expected {expected}, as the header"
        )));
    }
    Ok(Table {
        caption: THEIRS.to_owned(),
        header: header.iter().map(Into::into).collect(),
        rows: rows.iter().map(|row| row.iter().cloned().map(Into::into).collect()).collect(),
        ..Table::default()
    })
}

/// The cells of a line; commas between quotes belong to a cell, and two quotes are one.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let Some(cell) = cells.last_mut() else { break };
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            letter => cell.push(letter),
        }
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_must_be_a_table() {
        let table = published_table("method,FPR\nKNN,1.5\n\n\"KPCA, \"\"rff\"\"\", 2\n").unwrap();
        assert_eq!(
            table.markdown(),
            "| method | FPR |\n| --- | --- |\n| KNN | 1.5 |\n| KPCA, \"rff\" | 2 |\n"
        );
        let error = |text: &str| published_table(text).map(|_| ()).unwrap_err().to_string();
        assert!(error(" \n").ends_with("got 0 lines") && error("a,b").ends_with("got 1 lines"));
        assert_eq!(
            error("a,b\n1,2\n3\n"),
            "published figures: row 2 has 1 cells; expected 2, as the header"
        );
    }
}
