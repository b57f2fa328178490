//! The paper's figures beside our own, each marked as whose it is.

use offspan::Preset;
use offspan::metrics::EvalOptions;
use offspan_report::page::Block;
use offspan_report::table::{Cell, Heading, Table};

use super::{NETWORKS, PAPER, PaperRow, THEIRS, network_in_words};
use crate::evaluation::{MethodResult, Metric};
use crate::words::percent;

const NONE: &str = "–";

/// The paper's figures for methods of a page: the rows that a preset reproduces, and the averages of all others.
pub(crate) fn beside_blocks(
    pack: &str,
    results: &[MethodResult],
    preset: Option<&Preset>,
    options: &EvalOptions,
) -> Vec<Block> {
    let reproduced = preset.and_then(|preset| preset_rows(pack, results, preset, options));
    let averages = averages_beside(pack, results, options);
    let tables: Vec<Block> = reproduced.into_iter().chain(averages).map(Block::Table).collect();
    if tables.is_empty() {
        return Vec::new();
    }
    let text = format!(
        "Beside the figures of this pack, those of the kernel PCA paper for methods of the same name. Theirs are \
         on their networks and OoD sets, so only the order of methods can be compared: {PAPER}."
    );
    std::iter::once(Block::Note(text)).chain(tables).collect()
}

/// The averages of every method that the paper compares, on this pack and on each of its networks; none if it has none of
/// the methods.
#[must_use]
pub fn averages_beside(
    pack: &str,
    results: &[MethodResult],
    options: &EvalOptions,
) -> Option<Table> {
    let known = |network: &str| {
        results.iter().any(|result| PaperRow::compared(network, &result.method).is_some())
    };
    let networks: Vec<&str> =
        NETWORKS.iter().map(|(network, _)| *network).filter(|network| known(network)).collect();
    let row = |result: &MethodResult| {
        let theirs: Vec<Option<PaperRow>> =
            networks.iter().map(|network| PaperRow::compared(network, &result.method)).collect();
        theirs.iter().any(Option::is_some).then(|| {
            let mut cells: Vec<Cell> = vec![result.method.clone().into(), ours(result).into()];
            let printed = |row: &Option<PaperRow>| {
                row.as_ref().map_or(NONE.to_owned(), |row| row.average.pair())
            };
            cells.extend(theirs.iter().map(|row| Cell::from(printed(row))));
            cells
        })
    };
    let mut header = vec!["method".to_owned(), format!("ours, on {pack}")];
    header.extend(networks.iter().map(|network| format!("theirs, {}", network_in_words(network))));
    let rows: Vec<Vec<Cell>> = results.iter().filter_map(row).collect();
    let caption = format!("{}, averages over OoD sets", figures(options));
    let header = header.into_iter().map(Heading::new).collect();
    (!rows.is_empty()).then(|| Table { caption, header, rows, ..Table::default() })
}

/// Each method with settings in a preset, and below it the line of the paper that the preset reproduces; none if there is
/// no such line.
#[must_use]
pub fn preset_rows(
    pack: &str,
    results: &[MethodResult],
    preset: &Preset,
    options: &EvalOptions,
) -> Option<Table> {
    let pairs: Vec<(&MethodResult, PaperRow)> = results
        .iter()
        .filter_map(|result| Some((result, PaperRow::of_preset(preset, &result.method)?)))
        .collect();
    let mut sets: Vec<String> = Vec::new();
    for (result, theirs) in &pairs {
        let names = result
            .sets
            .keys()
            .map(|name| plain(name))
            .chain(theirs.sets.keys().map(|name| plain(name)));
        for name in names {
            if !sets.contains(&name) {
                sets.push(name);
            }
        }
    }
    let mut rows = Vec::new();
    for (result, theirs) in &pairs {
        let evaluation = |name: &String| result.sets.iter().find(|(set, _)| plain(set) == *name);
        let mut own: Vec<Cell> =
            vec![result.method.clone().into(), "ours".into(), pack.into(), ours(result).into()];
        own.extend(sets.iter().map(|name| {
            let found = evaluation(name).map(|(_, found)| pair(found.fpr, found.auroc));
            Cell::from(found.unwrap_or_else(|| NONE.to_owned()))
        }));
        let mut others: Vec<Cell> = vec![
            result.method.clone().into(),
            "theirs".into(),
            theirs.data().into(),
            theirs.average.pair().into(),
        ];
        others.extend(sets.iter().map(|name| {
            let found = theirs.sets.get(name.as_str()).map(super::Figure::pair);
            Cell::from(found.unwrap_or_else(|| NONE.to_owned()))
        }));
        rows.extend([own, others]);
    }
    let mut header = ["method", "whose", "data", "average"].map(str::to_owned).to_vec();
    header.extend(sets);
    let caption = format!("{}; settings of {}", figures(options), preset.name);
    let header = header.into_iter().map(Heading::new).collect();
    (!rows.is_empty()).then(|| Table { caption, header, rows, ..Table::default() })
}

/// Lines of a study, each beside the paper's; none if the paper has none of them.
pub(crate) fn rows_beside(
    labels: &[&str],
    pack: &str,
    lines: Vec<(Vec<String>, Option<&MethodResult>, Option<PaperRow>)>,
    options: &EvalOptions,
) -> Option<Table> {
    let theirs = lines.iter().find_map(|(.., theirs)| theirs.as_ref())?.data();
    let mut header: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
    header.extend([format!("ours, on {pack}"), format!("theirs, {theirs}")]);
    let row = |(labels, result, theirs): (Vec<String>, Option<&MethodResult>, Option<PaperRow>)| {
        let mut cells: Vec<Cell> = labels.into_iter().map(Cell::from).collect();
        cells.push(result.map_or_else(|| NONE.to_owned(), ours).into());
        cells.push(theirs.map_or_else(|| NONE.to_owned(), |row| row.average.pair()).into());
        cells
    };
    let caption =
        format!("{}, averages over OoD sets; the last column is {THEIRS}", figures(options));
    let header = header.into_iter().map(Heading::new).collect();
    Some(Table { caption, header, rows: lines.into_iter().map(row).collect(), ..Table::default() })
}

/// What the pairs of numbers are. The paper's rate is always that at 95 %, by its authors' rule.
fn figures(options: &EvalOptions) -> String {
    match Metric::Fpr.label(options) {
        usual if usual == "FPR95" => "FPR95 / AUROC in percent".to_owned(),
        other => format!("{other} / AUROC (ours), FPR95 / AUROC (theirs) in percent"),
    }
}

fn ours(result: &MethodResult) -> String {
    pair(result.average.fpr, result.average.auroc)
}

fn pair(fpr: f64, auroc: f64) -> String {
    format!("{} / {}", percent(fpr), percent(auroc))
}

/// A set's name without its group, in small letters: the paper's SUN may be `far/SUN` here.
fn plain(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_ours_that_is_not_theirs_is_told() {
        let usual = EvalOptions::default();
        assert_eq!(figures(&usual), "FPR95 / AUROC in percent");
        let other = EvalOptions { tpr: 0.9, ..usual };
        assert_eq!(figures(&other), "FPR90 / AUROC (ours), FPR95 / AUROC (theirs) in percent");
    }
}
