//! Results as a table: every method, every set, best in bold.

use offspan::metrics::EvalOptions;
use offspan_report::page::{Block, Cell, Table};

use super::{LeftOut, MethodResult, rate_name};
use crate::words::percent;

/// A value in percent, its interval where there is one, and whether more of it is better.
#[derive(Clone, Copy)]
pub(crate) struct Number {
    value: f64,
    interval: Option<[f64; 2]>,
    higher: bool,
}

impl Number {
    pub(crate) fn lower(value: f64) -> Self {
        Number { value, interval: None, higher: false }
    }

    pub(crate) fn higher(value: f64) -> Self {
        Number { value, interval: None, higher: true }
    }

    fn within(self, interval: Option<[f64; 2]>) -> Self {
        Number { interval, ..self }
    }
}

/// Every method on every set, the best of each column marked, best average first.
#[must_use]
pub fn comparison(results: &[MethodResult], options: &EvalOptions) -> Table {
    let mut sorted: Vec<&MethodResult> = results.iter().collect();
    sorted.sort_by(|a, b| a.average.fpr.total_cmp(&b.average.fpr));
    let mut header = vec!["method".to_owned()];
    header.extend(sorted.first().map_or(Vec::new(), |first| metric_names(first, options, true)));
    let rows: Vec<Vec<Number>> = sorted.iter().map(|result| numbers(result, true)).collect();
    let cells = best_marked(&rows);
    let rows = sorted
        .iter()
        .zip(cells)
        .map(|(result, cells)| {
            std::iter::once(Cell::from(result.method.clone())).chain(cells).collect()
        })
        .collect();
    Table { caption: "in percent".to_owned(), header, rows }
}

/// Why methods have no results, folded away.
pub(crate) fn left_out(without: &[LeftOut]) -> Option<Block> {
    let cells = |left: &LeftOut| vec![left.method.as_str().into(), left.reason.as_str().into()];
    let table = Table {
        header: ["method", "why it has no result"].map(str::to_owned).to_vec(),
        rows: without.iter().map(cells).collect(),
        ..Table::default()
    };
    let title = "Methods without a result".to_owned();
    (!without.is_empty()).then(|| Block::Folded(title, vec![Block::Table(table)]))
}

/// The columns of [`numbers`].
pub(crate) fn metric_names(
    result: &MethodResult,
    options: &EvalOptions,
    with_precision: bool,
) -> Vec<String> {
    let rate = rate_name(options).to_uppercase();
    let mut names = Vec::new();
    for set in std::iter::once("average").chain(result.sets.keys().map(String::as_str)) {
        names.extend([format!("{set} {rate}"), format!("{set} AUROC")]);
        if with_precision {
            names.push(format!("{set} AUPR"));
        }
    }
    names
}

/// Rate, AUROC and, if wanted, AUPR: the average and each set's.
pub(crate) fn numbers(result: &MethodResult, with_precision: bool) -> Vec<Number> {
    let average = &result.average;
    let mut row = vec![Number::lower(average.fpr), Number::higher(average.auroc)];
    if with_precision {
        row.push(Number::higher(average.aupr_in));
    }
    for evaluation in result.sets.values() {
        let intervals = evaluation.intervals.as_ref();
        row.push(Number::lower(evaluation.fpr).within(intervals.map(|found| found.fpr)));
        row.push(Number::higher(evaluation.auroc).within(intervals.map(|found| found.auroc)));
        if with_precision {
            row.push(Number::higher(evaluation.aupr_in));
        }
    }
    row
}

/// Numbers as cells; where there are several rows, the best of each column stands out.
pub(crate) fn best_marked(rows: &[Vec<Number>]) -> Vec<Vec<Cell>> {
    let is_best = |column: usize, value: f64| {
        rows.len() > 1
            && rows.iter().all(|row| {
                let Some(other) = row.get(column) else { return true };
                if other.higher { value >= other.value } else { value <= other.value }
            })
    };
    let cell = |(column, number): (usize, &Number)| Cell {
        text: percent(number.value),
        interval: number.interval.map(|ends| ends.map(percent)),
        best: is_best(column, number.value),
    };
    rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect()
}
