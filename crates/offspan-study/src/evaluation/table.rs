//! Results as a table: every method, every set, best in bold, second underlined.

use offspan::metrics::EvalOptions;
use offspan_report::page::Block;
use offspan_report::table::{Cell, Heading, Table};

use super::metric::Metric;
use super::result::{Evaluations, LeftOut, MethodResult, Over};
use super::statistics::{CHANCE, COMPARED, Lead};
use crate::words::{percent, share};

/// What a table of results shows.
#[derive(Debug, Clone)]
pub struct TableView {
    /// The figures of each set.
    pub metrics: Vec<Metric>,
    /// Directions kept, and what fit and score took.
    pub costs: bool,
    /// Confidence intervals as a table of their own, in text, whose lines would get too long with them.
    pub intervals: bool,
}

impl Default for TableView {
    fn default() -> Self {
        TableView { metrics: Metric::USUAL.to_vec(), costs: false, intervals: false }
    }
}

impl TableView {
    /// What reports show.
    #[must_use]
    pub fn report() -> Self {
        let metrics = vec![Metric::Fpr, Metric::Auroc, Metric::AuprIn];
        TableView { metrics, ..TableView::default() }
    }
}

impl Evaluations {
    /// Every method on every set, the best of each column marked; best first by the average of the first
    /// metric.
    #[must_use]
    pub fn table(&self, options: &EvalOptions, view: &TableView) -> Table {
        let columns = self.columns();
        let mut sorted: Vec<&MethodResult> = self.results.iter().collect();
        if let Some(metric) = view.metrics.first() {
            let value = |result: &MethodResult| metric.value(&result.average).unwrap_or(f64::NAN);
            sorted.sort_by(|a, b| match metric.prefers(1.0, 0.0) {
                true => value(b).total_cmp(&value(a)),
                false => value(a).total_cmp(&value(b)),
            });
        }
        let mut header = vec![Heading::new("method")];
        header.extend(view.costs.then(|| Heading::new("q")));
        header.extend(headings(&columns, &view.metrics, options));
        if view.costs {
            header.extend(["fit s", "µs/row"].map(Heading::new));
        }
        // A rate that is asked for by the name of the evaluation's own rule is the rate that leads were tested on.
        let is_own = |metric: &Metric| *metric == Metric::FprBy(options.rule);
        let tested = |metric: &Metric| if is_own(metric) { Metric::Fpr } else { *metric };
        let metrics: Vec<Metric> = view.metrics.iter().map(tested).collect();
        let figures = cells_of(&sorted, &columns, &metrics, &self.leads);
        let rows = sorted.iter().zip(figures).map(|(result, figures)| {
            let mut cells = vec![Cell::from(&result.method)];
            let fit = result.fit.as_ref();
            if view.costs {
                let q = fit.and_then(|fit| fit.components);
                cells.push(q.map_or_else(none, |q| q.to_string().into()));
            }
            cells.extend(figures);
            if view.costs {
                let per_row = 1e6 * result.score.seconds / result.score.rows as f64;
                cells.push(fit.map_or_else(none, |fit| format!("{:.2}", fit.seconds).into()));
                cells.push(format!("{per_row:.1}").into());
            }
            cells
        });
        let rows: Vec<Vec<Cell>> = rows.collect();
        let notes = self.notes(&rows, options, view);
        Table { caption: "in percent".to_owned(), header, rows, notes }
    }

    fn notes(&self, rows: &[Vec<Cell>], options: &EvalOptions, view: &TableView) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(clusters) = self.pseudo_labels {
            notes.push(format!(
                "Training rows have no labels: {clusters} clusters of them stand in for classes."
            ));
        }
        if !self.full_spectrum.is_empty() {
            notes.push(format!(
                "In-distribution rows are test and {}.",
                self.full_spectrum.join(", ")
            ));
        }
        let seeds =
            || self.results.iter().filter_map(|result| Some(result.seeds.as_ref()?.runs.len()));
        if let (Some(fewest), Some(most)) = (seeds().min(), seeds().max()) {
            let number =
                if fewest < most { format!("{fewest} to {most}") } else { most.to_string() };
            // Files hold one fit, whatever it drew, and methods of the user's own may take no seed.
            let is_given = |result: &MethodResult| {
                result.seeds.is_none()
                    && (result.source.is_some() || result.params["family"] == "own")
            };
            let others = match self.results.iter().any(is_given) {
                true => "draw nothing or take no seed",
                false => "draw nothing",
            };
            notes.push(format!(
                "Mean ± sample standard deviation over {number} seeds; methods without ± {others}."
            ));
        }
        if rows.iter().flatten().any(|cell| cell.by_chance) {
            let rate = Metric::Fpr.label(options);
            // Where there is no test, no mark says nothing.
            let untested = view.metrics.iter().any(|metric| !COMPARED.contains(metric));
            let others = if untested { "; other figures are not tested" } else { "" };
            notes.push(format!(
                "† Not better than the second by more than chance ({} level, two-sided; AUROC: DeLong's \
                 test, {rate}: paired bootstrap{others}).",
                share(CHANCE)
            ));
        }
        notes
    }
}

/// What is there if there is no number.
fn none() -> Cell {
    Cell::from("–")
}

/// Everything that the figures of a result are taken over.
pub(crate) fn columns_of(result: &MethodResult) -> Vec<Over> {
    let groups = result.groups.keys().cloned().map(Over::Group);
    let sets = result.sets.keys().cloned().map(Over::Set);
    std::iter::once(Over::Average).chain(groups).chain(sets).collect()
}

/// The names of columns of figures.
pub(crate) fn headings(
    columns: &[Over],
    metrics: &[Metric],
    options: &EvalOptions,
) -> Vec<Heading> {
    let of = |over: &Over| {
        let heading = |metric: &Metric| {
            Heading::new(metric.label(options)).of(over.name()).better(metric.better())
        };
        metrics.iter().map(heading).collect::<Vec<_>>()
    };
    columns.iter().flat_map(of).collect()
}

/// Figures in percent; where there are several rows, the best and the second of each column stand out.
pub(crate) fn cells_of(
    results: &[&MethodResult],
    columns: &[Over],
    metrics: &[Metric],
    leads: &[Lead],
) -> Vec<Vec<Cell>> {
    let mut rows: Vec<Vec<Cell>> = vec![Vec::new(); results.len()];
    for over in columns {
        for &metric in metrics {
            let values: Vec<Option<f64>> =
                results.iter().map(|result| metric.value(&result.figures(over)?)).collect();
            let best_of = |values: &mut dyn Iterator<Item = f64>| {
                values.reduce(|a, b| if metric.prefers(b, a) { b } else { a })
            };
            let several = results.len() > 1;
            let best = best_of(&mut values.iter().flatten().copied()).filter(|_| several);
            let second = best.and_then(|best| {
                best_of(
                    &mut values.iter().flatten().copied().filter(|value| !is_same(best, *value)),
                )
            });
            for ((result, value), row) in results.iter().zip(&values).zip(&mut rows) {
                let Some(value) = *value else {
                    row.push(none());
                    continue;
                };
                let is_best = best.is_some_and(|best| is_same(best, value));
                // Methods that share the first place share its mark.
                let is_by_chance = |lead: &Lead| {
                    lead.over == *over && lead.metric == metric.name() && lead.by_chance
                };
                let interval = match over {
                    Over::Set(name) => {
                        result.sets[name].intervals.and_then(|all| metric.interval(&all))
                    }
                    Over::Average | Over::Group(_) => None,
                };
                row.push(Cell {
                    text: percent(value),
                    spread: result.spread(over).and_then(|sd| metric.value(&sd)).map(percent),
                    interval: interval.map(|ends| ends.map(percent)),
                    best: is_best,
                    second: second.is_some_and(|second| is_same(second, value)),
                    by_chance: is_best && leads.iter().any(is_by_chance),
                });
            }
        }
    }
    rows
}

/// Whether two figures are one but for the rounding of a mean over seeds; no figure of fewer than a million rows has steps so small.
fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-13
}

/// Why methods have no results, folded away.
pub(crate) fn left_out(without: &[LeftOut]) -> Option<Block> {
    let cells = |left: &LeftOut| vec![left.method.as_str().into(), left.reason.as_str().into()];
    let table = Table {
        header: ["method", "why it has no result"].map(Into::into).to_vec(),
        rows: without.iter().map(cells).collect(),
        ..Table::default()
    };
    let title = "Methods without a result".to_owned();
    (!without.is_empty()).then(|| Block::Folded(title, vec![Block::Table(table)]))
}
