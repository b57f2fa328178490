//! What a joint score is made of, and which of its terms catches which set.

use offspan_report::page::{Block, Cell, Heading, Section, Table};

use super::ORDINARY;
use crate::portrait::{Portrait, TermPortrait};
use crate::words::share;

/// Terms, weights and what each says of each set; none where the score has no parts.
pub(super) fn section(portrait: &Portrait) -> Option<Section> {
    if portrait.terms.is_empty() {
        return None;
    }
    let text = "The score adds up the logarithms of the p-values of these terms, each with its weight. A \
                term's p-value says how often an ordinary sample is as unusual by this term: around 0.5 it \
                has nothing to say, and the closer to 0, the more it speaks against the sample. The table \
                shows the median of each set; in bold, the term that is surest about an OoD set.";
    let mut header: Vec<Heading> = vec!["term".into(), "weight".into(), ORDINARY.into()];
    header.extend(portrait.ood.iter().map(|(set, _)| Heading::new(&set.name)));
    let sum: f64 = portrait.terms.iter().map(|term| term.weight).sum();
    let row = |term: &TermPortrait| {
        let mut cells: Vec<Cell> = vec![
            term.name.as_str().into(),
            share(term.weight / sum).into(),
            p_value(term.test).into(),
        ];
        cells.extend(term.ood.iter().enumerate().map(|(set, &median)| {
            let best = portrait.terms.iter().all(|other| median <= other.ood[set]);
            Cell { best, ..p_value(median).into() }
        }));
        cells
    };
    let table = Table {
        caption: "Median p-value of each term".to_owned(),
        header,
        rows: portrait.terms.iter().map(row).collect(),
        ..Table::default()
    };
    let blocks = vec![Block::Text(text.to_owned()), Block::Table(table)];
    Some(super::section("What the score is made of", blocks))
}

/// Three digits, or the power of ten of what is smaller.
pub(super) fn p_value(p: f64) -> String {
    match p {
        0.0 => "0".to_owned(),
        p if p < 1e-3 => format!("{p:.0e}").replace('-', "−"),
        p => format!("{p:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_values_keep_what_tells_them_apart() {
        let texts = [0.5, 0.0123, 0.001, 4.2e-7, 1e-300, 0.0].map(p_value);
        assert_eq!(texts, ["0.500", "0.012", "0.001", "4e−7", "1e−300", "0"]);
    }
}
