//! The rows at both ends of the scores, with the numbers by which they can be looked up.

use offspan_report::page::{Block, Cell, Heading, Picture, Section, Table};

use super::overview::short;
use super::terms::p_value;
use crate::portrait::{EXTREMES, Loudest, Portrait, SetPortrait, ranked};

pub(super) fn section(portrait: &Portrait) -> Section {
    let test = [&portrait.test];
    let ood_rows: Vec<&SetPortrait> = portrait.ood.iter().map(|(set, _)| set).collect();
    let mut blocks = vec![Block::Text(
        "Rows are numbered from 0 within their set, in the order of the pack.".to_owned(),
    )];
    for (caption, sets, highest) in [
        (
            "Least like the training data: ordinary samples that are the first to be called OoD",
            &test[..],
            false,
        ),
        ("OoD rows that are the first to pass", &ood_rows[..], true),
        ("Most like the training data: ordinary samples with the highest scores", &test[..], true),
        ("OoD rows with the lowest scores", &ood_rows[..], false),
    ] {
        blocks.extend(table(caption, sets, highest, portrait.threshold));
    }
    super::section("Rows worth a look", blocks)
}

fn table(caption: &str, sets: &[&SetPortrait], highest: bool, threshold: f64) -> Vec<Block> {
    let mut rows: Vec<(f64, &SetPortrait, usize)> = Vec::new();
    for set in sets {
        let ranked = ranked(&set.scores);
        let ends: Vec<usize> = match highest {
            true => ranked.into_iter().rev().take(EXTREMES).collect(),
            false => ranked.into_iter().take(EXTREMES).collect(),
        };
        rows.extend(ends.into_iter().map(|row| (set.scores[row], *set, row)));
    }
    rows.sort_by(|a, b| if highest { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) });
    rows.truncate(EXTREMES);
    let explained = !highest && sets.iter().any(|set| !set.loudest.is_empty());
    let cells = rows.iter().map(|(score, set, row)| {
        let called = if *score >= threshold { "ordinary" } else { "OoD" };
        let mut cells: Vec<Cell> = vec![
            set.name.as_str().into(),
            row.to_string().into(),
            short(*score).into(),
            called.into(),
        ];
        if explained {
            cells.push(because(set.loudest.iter().find(|loudest| loudest.row == *row)).into());
        }
        cells
    });
    let mut header: Vec<Heading> = ["set", "row", "score", "called"].map(Into::into).to_vec();
    header.extend(explained.then(|| "what speaks loudest".into()));
    let table =
        Table { caption: caption.to_owned(), header, rows: cells.collect(), ..Table::default() };
    let mut blocks = vec![Block::Table(table)];
    let pictures: Vec<Picture> = rows
        .iter()
        .filter_map(|(score, set, row)| {
            let thumbnail = set.thumbnails.iter().find(|thumbnail| thumbnail.row == *row)?;
            let caption = format!("{} {row}: {}", set.name, short(*score));
            Some(Picture { data_uri: thumbnail.data_uri.clone(), caption })
        })
        .collect();
    if !pictures.is_empty() {
        blocks.push(Block::Pictures(pictures));
    }
    blocks
}

/// The term that speaks loudest against a row.
fn because(loudest: Option<&Loudest>) -> String {
    loudest.map_or_else(String::new, |it| format!("{} (p = {})", it.term, p_value(it.p_value)))
}
