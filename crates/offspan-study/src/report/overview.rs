//! What was measured, what the threshold does, and how methods compare.

use offspan_report::page::{Block, Section, Table};

use super::section;
use crate::evaluation::{LeftOut, left_out};
use crate::portrait::Portrait;
use crate::words::{grouped, share};

/// What the page says first: what the threshold does, and how often it is wrong.
pub(crate) fn lead(portrait: &Portrait) -> Vec<String> {
    let passing: Vec<String> = portrait
        .ood
        .iter()
        .map(|(set, _)| format!("{} of {}", share(set.kept_by(portrait.threshold)), set.name))
        .collect();
    let mut sentences = vec![
        format!(
            "Every sample gets a score: the higher, the more it looks like what the network was \
             trained on. A sample that scores below {} is called out-of-distribution (OoD).",
            short(portrait.threshold)
        ),
        format!(
            "How often that is wrong: about {} of ordinary samples are called OoD by mistake \
             (measured on {}), and of the OoD rows tried here these shares pass unnoticed: {}.",
            share(1.0 - portrait.test.kept_by(portrait.threshold)),
            grouped(portrait.test.scores.len()),
            passing.join(", ")
        ),
    ];
    if let Some(candidates) = portrait.best_of.filter(|&candidates| candidates > 1) {
        sentences.push(format!(
            "This page shows {}, the best of {candidates} methods by these same figures: expect a little \
             less on OoD rows that nobody has measured.",
            portrait.method
        ));
    }
    sentences
}

/// Data, method, parameters and threshold.
pub(crate) fn facts(portrait: &Portrait) -> Section {
    let ood_rows: Vec<String> = portrait
        .ood
        .iter()
        .map(|(set, _)| format!("{} ({} rows)", set.name, grouped(set.scores.len())))
        .collect();
    let fact = |name: &str, text: String| (name.to_owned(), text);
    let mut facts = vec![
        fact("pack", portrait.pack.clone()),
        fact(
            "training rows",
            format!("{} × {} features", grouped(portrait.train_rows as usize), portrait.width),
        ),
        fact("ordinary test rows", grouped(portrait.test.scores.len())),
        fact("OoD rows", ood_rows.join(", ")),
        fact("method", portrait.method.clone()),
        fact("parameters", parameters(&portrait.params)),
    ];
    for spectrum in &portrait.spectra {
        facts.push(fact(
            "subspace",
            format!(
                "{} of {} directions, which hold {} of the variance",
                grouped(spectrum.components),
                grouped(spectrum.dimensions),
                share(spectrum.explained)
            ),
        ));
    }
    facts.push(fact(
        "threshold",
        format!(
            "{}: the highest score that still keeps at least {} of the test rows. A detector for use \
             should take its threshold from rows that nothing was measured with: `offspan fit` holds \
             some out for it.",
            short(portrait.threshold),
            share(portrait.keep)
        ),
    ));
    section("What was measured", vec![Block::Facts(facts)])
}

/// Every method on every set.
pub(super) fn methods(portrait: &Portrait, comparison: &Table, without: &[LeftOut]) -> Section {
    let several = comparison.rows.len() > 1;
    let mut text = format!(
        "FPR is the share of OoD rows that pass a threshold which keeps {} of ordinary samples: lower \
         is better. AUROC is the chance that an ordinary sample scores higher than an OoD row, AUPR-in \
         the mean precision when ordinary samples are what is looked for: higher is better. In percent{}; \
         a range in brackets is a confidence interval.",
        share(portrait.keep),
        if several { ", best in bold" } else { "" }
    );
    if let Some(rule) = &portrait.other_rule {
        text += &format!(
            " The FPR of this table follows the rule `{rule}`, whose threshold is another."
        );
    }
    let mut blocks = vec![Block::Text(text), Block::Table(comparison.clone())];
    blocks.extend(left_out(without));
    section("How well it works", blocks)
}

/// Six significant digits, without needless zeros.
pub(crate) fn short(value: f64) -> String {
    let digits = if value == 0.0 { 0.0 } else { 5.0 - value.abs().log10().floor() };
    // The sign that plots have, too.
    let text = format!("{value:.*}", digits.clamp(0.0, 12.0) as usize);
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    text.replace('-', "−")
}

/// A method's parameters as words: leaves of the document with their names.
fn parameters(params: &serde_json::Value) -> String {
    let mut found = Vec::new();
    collect("", params, &mut found);
    // What things are comes before how large they are.
    found.sort_by_key(|text| text.contains(' '));
    found.join(", ")
}

fn collect(name: &str, value: &serde_json::Value, found: &mut Vec<String>) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            // How the landmark kernel's rounding is handled is for the file, not for readers.
            for (inner, value) in fields.iter().filter(|(inner, _)| *inner != "floor") {
                let is_tag = ["kind", "method", "name", "type", "family"].contains(&inner.as_str());
                collect(if is_tag { name } else { inner }, value, found);
            }
        }
        Value::Null => {}
        Value::Bool(true) => found.push(name.to_owned()),
        Value::Bool(false) => found.push(format!("no {name}")),
        Value::String(text) if name.is_empty() => found.push(text.clone()),
        Value::String(text) => found.push(format!("{name} {text}")),
        other => found.push(format!("{name} {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_short_at_every_scale() {
        let texts =
            [short(-0.123_456_789), short(12.5), short(0.0), short(1.5e-9), short(123_456_789.0)];
        assert_eq!(
            texts,
            ["−0.123457", "12.5", "0", "0.000000001500".trim_end_matches('0'), "123456789"]
        );
    }
}
