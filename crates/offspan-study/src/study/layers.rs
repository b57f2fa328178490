//! Packs of several layers of one network side by side.

use offspan_report::page::Block;
use offspan_report::table::{Cell, Heading, Table};

use super::findings::{Findings, check_some, document, failures, table};
use super::ranking::bars;
use super::run::Run;
use super::runner::{Row, Runner};
use crate::Result;
use crate::folder::Album;
use crate::published::{FIGURES, Figure, THEIRS, network_in_words};
use crate::report::section;

const LABELS: &[&str] = &["layer", "method"];

/// Methods that need features only, but for their landmarks.
const METHODS: &[&str] = &["pca", "kpca-rff", "kpca-nys", "knn"];

pub(super) fn runs(runner: &Runner<'_>) -> Vec<Run> {
    let run = |method: &&str| Run::new(method, &[runner.pack, method]);
    METHODS.iter().map(run).collect()
}

/// The study of one runner for each layer.
pub(super) fn study(layers: &[Runner<'_>]) -> Result<Findings> {
    let mut rows: Vec<Row> = Vec::new();
    for runner in layers {
        rows.extend(runner.run(runs(runner))?);
    }
    check_some(&rows)?;
    let options = &layers[0].options;
    let table = table(LABELS, &rows, options);
    let mut album = Album::default();
    let text = "What a network keeps of its input changes from layer to layer: late layers know classes, \
                early ones know textures. Each layer is a pack of its own, with the same sets.";
    let mut blocks = vec![Block::Text(text.to_owned())];
    if let [only] = layers {
        blocks.push(Block::Note(format!(
            "Only one layer was given, {}; more packs of the same network can be added.",
            only.pack
        )));
    }
    blocks.extend(failures(&rows));
    blocks.push(bars(&mut album, "layers", &rows, options));
    blocks.push(Block::Table(table.clone()));
    blocks.push(theirs());
    let json = document(LABELS, &rows, options);
    Ok(Findings { name: "layers", section: section("Layers", blocks), album, table, json })
}

/// The layers of the paper's network, which are nobody else's.
fn theirs() -> Block {
    let figures: Vec<&Figure> = FIGURES.iter().filter(|figure| figure.table == "layers").collect();
    let row = |figure: &&Figure| -> Vec<Cell> {
        vec![figure.variant.into(), figure.method.into(), figure.pair().into()]
    };
    let network = figures.first().map_or("", |figure| network_in_words(figure.network));
    let table = Table {
        caption: format!("FPR95 / AUROC in percent, averages over OoD sets, {network}: {THEIRS}"),
        header: ["layer", "method", "theirs"].map(Heading::new).to_vec(),
        rows: figures.iter().map(row).collect(),
        ..Table::default()
    };
    Block::Folded("The paper's own layers".to_owned(), vec![Block::Table(table)])
}
