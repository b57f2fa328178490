//! Results as the `offspan.eval/1` document, and back.

use offspan::metrics::EvalOptions;
use serde::Deserialize;
use serde_json::{Value, json};

use super::provenance::Provenance;
use super::result::{Evaluations, MethodResult};
use super::statistics::Compared;
use crate::published::{PAPER, PaperRow};
use crate::{Result, StudyError};

const SCHEMA: &str = "offspan.eval/1";

/// The false-positive rate's name carries its true-positive rate: `fpr95`.
#[must_use]
pub fn rate_name(options: &EvalOptions) -> String {
    // 0.95 → 95, 0.995 → 99.5, without the rounding of the product.
    format!("fpr{}", (options.tpr * 1e9).round() / 1e7)
}

/// The `offspan.eval/1` document.
#[must_use]
pub fn document(pack: &str, evaluations: &Evaluations, options: &EvalOptions) -> Value {
    let mut document = json!(evaluations);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("schema".to_owned(), json!(SCHEMA));
        fields.insert("pack".to_owned(), json!(pack));
        fields.insert("metrics".to_owned(), json!(options));
        if let Some(provenance) = &evaluations.provenance {
            fields.insert("provenance".to_owned(), json!(provenance));
        }
        if let Some(preset) = &evaluations.preset {
            let results = evaluations.results.iter();
            let rows = results.filter_map(|result| PaperRow::of_preset(preset, &result.method));
            let rows: Vec<Value> = rows.map(|row| row.document()).collect();
            let theirs = json!({ "source": PAPER, "preset": preset.name, "rows": rows });
            fields.insert("published".to_owned(), theirs);
        }
    }
    let rate = rate_name(options);
    for part in ["results", "comparisons"] {
        if let Some(part) = document.get_mut(part) {
            rename(part, "fpr", &rate);
        }
    }
    let leads = document.get_mut("leads").and_then(Value::as_array_mut);
    for lead in leads.into_iter().flatten() {
        if lead["metric"] == "fpr" {
            lead["metric"] = json!(rate);
        }
    }
    document
}

/// Gives the false-positive rates of a result their full name.
pub(crate) fn name_the_rate(result: &mut Value, options: &EvalOptions) {
    rename(result, "fpr", &rate_name(options));
}

/// Renames a rate, alone and by every rule, wherever figures are.
fn rename(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, from, to)),
        Value::Object(fields) => {
            for ending in ["", "_by_rule"] {
                if let Some(rate) = fields.remove(&format!("{from}{ending}")) {
                    fields.insert(format!("{to}{ending}"), rate);
                }
            }
            // What a method is made of is its own.
            let figures =
                fields.iter_mut().filter(|(name, _)| !["params", "fit"].contains(&name.as_str()));
            for (name, value) in figures {
                match value {
                    // Users name sets and groups: a set may be called `fpr`.
                    Value::Object(named) if ["sets", "groups"].contains(&name.as_str()) => {
                        named.values_mut().for_each(|figures| rename(figures, from, to));
                    }
                    other => rename(other, from, to),
                }
            }
        }
        _ => {}
    }
}

/// What an `offspan.eval/1` document says.
#[derive(Debug, Clone, Deserialize)]
pub struct Document {
    /// The pack's name.
    pub pack: String,
    /// How scores were judged.
    pub metrics: EvalOptions,
    /// The results.
    pub results: Vec<MethodResult>,
    /// Methods without a result.
    #[serde(default)]
    pub without: Vec<NoResult>,
    /// Pairs of methods that were compared.
    #[serde(default)]
    pub comparisons: Vec<Compared>,
    /// Names of shifted sets that counted as in-distribution.
    #[serde(default)]
    pub full_spectrum: Vec<String>,
    /// Clusters that stood in for classes.
    #[serde(default)]
    pub pseudo_labels: Option<usize>,
    /// What it takes to repeat it.
    #[serde(default)]
    pub provenance: Option<Provenance>,
}

/// A method without a result.
#[derive(Debug, Clone, Deserialize)]
pub struct NoResult {
    /// The method.
    pub method: String,
    /// Why.
    pub reason: String,
}

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// If it is none; `name` is what it is called then.
    pub fn read(text: &str, name: &str) -> Result<Self> {
        let wrong = |reason: String| {
            StudyError::Setup(format!("{name} is no result of `offspan eval --json`: {reason}"))
        };
        let mut value: Value =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if value["schema"] != SCHEMA {
            return Err(wrong(format!("expected the schema {SCHEMA}, got {}", value["schema"])));
        }
        let metrics = EvalOptions::deserialize(&value["metrics"])
            .map_err(|error| wrong(format!("`metrics`: {error}")))?;
        for part in ["results", "comparisons"] {
            if let Some(part) = value.get_mut(part) {
                rename(part, &rate_name(&metrics), "fpr");
            }
        }
        Document::deserialize(value).map_err(|error| wrong(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_renamed_and_sets_are_not() {
        let options = EvalOptions::default();
        let before = json!({
            "params": { "fpr": 1 },
            "average": { "fpr": 0.1, "fpr_by_rule": {} },
            "sets": { "fpr": { "fpr": 0.2 }, "fpr95": { "fpr": 0.3 }, "fit": { "fpr": 0.4 } },
            "seeds": { "runs": [{ "groups": { "fpr": { "fpr": 0.5 } } }] },
        });
        let mut value = before.clone();
        name_the_rate(&mut value, &options);
        assert_eq!(value["params"], before["params"]);
        assert_eq!(value["average"], json!({ "fpr95": 0.1, "fpr95_by_rule": {} }));
        let sets =
            json!({ "fpr": { "fpr95": 0.2 }, "fpr95": { "fpr95": 0.3 }, "fit": { "fpr95": 0.4 } });
        assert_eq!(value["sets"], sets);
        assert_eq!(value["seeds"]["runs"][0]["groups"], json!({ "fpr": { "fpr95": 0.5 } }));
        rename(&mut value, "fpr95", "fpr");
        assert_eq!(value, before, "and back");
    }
}
