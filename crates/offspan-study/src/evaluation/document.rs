//! Results as the `offspan.eval/1` document.

use offspan::metrics::EvalOptions;
use serde_json::{Value, json};

use super::Evaluations;
use crate::published::{PAPER, PaperRow};

/// The false-positive rate's name carries its true-positive rate: `fpr95`.
#[must_use]
pub fn rate_name(options: &EvalOptions) -> String {
    // 0.95 → 95, 0.995 → 99.5, without the rounding of the product.
    format!("fpr{}", (options.tpr * 1e9).round() / 1e7)
}

/// The `offspan.eval/1` document.
#[must_use]
pub fn document(pack: &str, evaluations: &Evaluations, options: &EvalOptions) -> Value {
    let mut results = json!(evaluations.results);
    for result in results.as_array_mut().into_iter().flatten() {
        name_the_rate(result, options);
    }
    let mut document = json!({
        "schema": "offspan.eval/1",
        "pack": pack,
        "metrics": options,
        "results": results,
        "without": evaluations.without,
    });
    if let Some(preset) = &evaluations.preset {
        let rows = evaluations
            .results
            .iter()
            .filter_map(|result| PaperRow::of_preset(preset, &result.method));
        let rows: Vec<Value> = rows.map(|row| row.document()).collect();
        document["published"] = json!({ "source": PAPER, "preset": preset.name, "rows": rows });
    }
    document
}

/// Gives the false-positive rates of a result their full name.
pub(crate) fn name_the_rate(result: &mut Value, options: &EvalOptions) {
    let name = rate_name(options);
    let rename = |value: &mut Value| {
        if let Some(object) = value.as_object_mut()
            && let Some(fpr) = object.remove("fpr")
        {
            object.insert(name.clone(), fpr);
        }
    };
    rename(&mut result["average"]);
    for (_, set) in result["sets"].as_object_mut().into_iter().flatten() {
        rename(set);
        if let Some(intervals) = set.get_mut("intervals") {
            rename(intervals);
        }
    }
}
