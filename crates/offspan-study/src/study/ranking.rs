//! Runs against each other, as bars.

use offspan::metrics::EvalOptions;
use offspan_report::page::Block;
use offspan_report::plot::{Bar, Bars, Plot};

use super::runner::Row;
use crate::evaluation::rate_name;
use crate::folder::Album;
use crate::words::percent;

/// Average rate and AUROC of each run as bars, best first.
pub(super) fn bars(album: &mut Album, name: &str, rows: &[Row], options: &EvalOptions) -> Block {
    let rate = rate_name(options).to_uppercase();
    let mut found: Vec<(String, f64, f64)> = rows
        .iter()
        .filter_map(|row| {
            let result = row.outcome.as_ref().ok()?;
            Some((row.labels.join(", "), result.average.fpr, result.average.auroc))
        })
        .collect();
    let plot = |title: String, x_label: &str, values: Vec<(String, f64)>| -> Plot {
        let bars = values.into_iter().enumerate().map(|(index, (label, value))| {
            let bar = Bar::new(label, 100.0 * value, percent(value));
            if index == 0 { bar.highlighted() } else { bar }
        });
        Bars { title, x_label: x_label.to_owned(), bars: bars.collect(), ..Bars::default() }.into()
    };
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    let best = found.first().map_or(String::new(), |(label, ..)| label.clone());
    let by_rate = plot(
        format!("{best} lets the fewest OoD rows pass"),
        &format!("{rate} in percent, mean over the sets (shorter is better)"),
        found.iter().map(|(label, rate, _)| (label.clone(), *rate)).collect(),
    );
    found.sort_by(|a, b| b.2.total_cmp(&a.2));
    let best = found.first().map_or(String::new(), |(label, ..)| label.clone());
    let by_auroc = plot(
        format!("{best} ranks them best"),
        "AUROC in percent, mean over the sets (longer is better)",
        found.iter().map(|(label, _, auroc)| (label.clone(), *auroc)).collect(),
    );
    album.show(vec![
        (format!("{name}-fpr"), by_rate, String::new()),
        (format!("{name}-auroc"), by_auroc, String::new()),
    ])
}
