//! What the paper's authors publish of their own runs, for orientation. It is theirs, on their data.

use offspan::PRESETS;
use offspan_report::page::{Block, Cell, Section, Table};

use crate::report::section;

/// The paper.
const PAPER: &str = "Kernel PCA for Out-of-Distribution Detection: Non-Linear Kernel Selection and \
                     Approximation (Fang et al., TPAMI 2026, arXiv 2505.15284)";

/// The authors' settings, and figures of the paper that the user has at hand.
pub(super) fn theirs(published: Option<&Table>) -> Section {
    let mut blocks = vec![
        Block::Note(format!(
            "Everything in this section is the authors' own, measured on their networks and data sets, which \
             are not those of this report: {PAPER}."
        )),
        Block::Text(
            "Settings with which they ran their networks, as their public code has them; --preset takes \
             them by name."
                .to_owned(),
        ),
        Block::Table(settings()),
        Block::Text(
            "Of the random features that rff-opt chooses from, the paper keeps 1,961 of 4,096. For scoring \
             it gives O(N) time and storage for nearest neighbours, and O(M) for both approximations."
                .to_owned(),
        ),
    ];
    match published {
        Some(table) => {
            blocks.push(Block::Text("Figures from the paper, as given with --published.".to_owned()));
            blocks.push(Block::Table(table.clone()));
        }
        None => blocks.push(Block::Text(
            "The paper's tables of results are not part of offspan; --published FILE.csv puts those that \
             you have at hand here."
                .to_owned(),
        )),
    }
    section("The paper's own", blocks)
}

fn settings() -> Table {
    let none = || "–".to_owned();
    let rows = PRESETS.iter().flat_map(|preset| {
        preset.settings.iter().map(move |setting| {
            [
                preset.name.to_owned(),
                preset.network.to_owned(),
                setting.method.to_owned(),
                setting.gamma.map_or_else(none, |gamma| gamma.to_string()),
                setting.size.map_or_else(none, |size| size.to_string()),
                setting.explained_variance.to_string(),
                setting.react.map_or_else(none, |clip| clip.to_string()),
            ]
            .map(Cell::from)
            .to_vec()
        })
    });
    let header = ["preset", "network", "method", "γ", "M", "explained variance", "ReAct clips at"];
    Table {
        caption: "theirs".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}
