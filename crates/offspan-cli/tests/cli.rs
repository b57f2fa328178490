//! The command line from outside: what each command prints and writes, what it refuses, and how it
//! behaves at the end of pipes, on devices and under signals.

#![allow(clippy::unwrap_used)]

mod util;

#[path = "cli/checkpoints.rs"]
mod checkpoints;
#[path = "cli/commands.rs"]
mod commands;
#[path = "cli/conversions.rs"]
mod conversions;
#[path = "cli/errors.rs"]
mod errors;
#[path = "cli/explain.rs"]
mod explain;
#[path = "cli/files.rs"]
mod files;
#[path = "cli/flags.rs"]
mod flags;
#[path = "cli/foreign_logits.rs"]
mod foreign_logits;
#[path = "cli/inputs.rs"]
mod inputs;
#[path = "cli/json.rs"]
mod json;
// It stands in for a file of /sys.
#[cfg(target_os = "linux")]
#[path = "cli/large_cache.rs"]
mod large_cache;
#[path = "cli/locks.rs"]
mod locks;
#[cfg(feature = "onnx")]
#[path = "cli/models.rs"]
mod models;
#[path = "cli/outputs.rs"]
mod outputs;
#[path = "cli/outside.rs"]
mod outside;
#[path = "cli/pipes.rs"]
mod pipes;
#[path = "cli/promises.rs"]
mod promises;
#[path = "cli/ranks.rs"]
mod ranks;
#[path = "cli/reports.rs"]
mod reports;
// They look into /proc for the moment to signal.
#[path = "cli/formats.rs"]
mod formats;
#[cfg(target_os = "linux")]
#[path = "cli/signals.rs"]
mod signals;
#[cfg(unix)]
#[path = "cli/sigterm.rs"]
mod sigterm;
// Limits of address space are set by the shell.
#[cfg(target_os = "linux")]
#[path = "cli/starvation.rs"]
mod starvation;
#[path = "cli/states.rs"]
mod states;
#[path = "cli/statistics.rs"]
mod statistics;
#[path = "cli/studies.rs"]
mod studies;
#[cfg(feature = "parquet")]
#[path = "cli/tables.rs"]
mod tables;

use serde_json::Value;

fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().unwrap_or_else(|| panic!("expected an object, got {value}"));
    object.keys().map(String::as_str).collect()
}

/// Every promised key, and beside these only known ones.
#[track_caller]
fn check_keys(value: &Value, promised: &[&str], known: &[&str]) {
    let found = keys(value);
    for key in promised {
        assert!(found.contains(key), "{key} of {value}");
    }
    for key in found {
        assert!(promised.contains(&key) || known.contains(&key), "{key} of {value}");
    }
}

#[track_caller]
fn check_fractions(value: &Value, names: &[&str]) {
    for name in names {
        let number = value[name].as_f64().unwrap_or_else(|| panic!("{name} of {value}"));
        assert!((0.0..=1.0).contains(&number), "{name} {number}");
    }
}

/// The contract of `eval --json`: every promised key with its type, and no unknown ones.
#[track_caller]
fn check_document(document: &Value, pack: &str, methods: &[&str], fpr: &str) {
    let promised = ["metrics", "pack", "results", "schema", "without"];
    let known = ["accuracy", "comparisons", "full_spectrum", "groups", "leads", "provenance"];
    check_keys(document, &promised, &known);
    assert_eq!((&document["schema"], &document["pack"]), (&"offspan.eval/1".into(), &pack.into()));
    let results = document["results"].as_array().unwrap();
    let names: Vec<&str> = results.iter().map(|r| r["method"].as_str().unwrap()).collect();
    assert_eq!(names, methods);
    for result in results {
        let promised = ["average", "fit", "method", "params", "score", "sets"];
        check_keys(result, &promised, &["groups", "ind", "seeds", "source"]);
        assert!(result["params"].is_object());
        let fit = &result["fit"];
        if !fit.is_null() {
            let known = ["components", "found", "rows", "seconds"];
            assert!(keys(fit).iter().all(|key| known.contains(key)), "{fit}");
            assert!(fit["rows"].is_u64() && fit["seconds"].as_f64().unwrap() >= 0.0);
            assert!(fit["components"].is_u64() || fit["components"].is_null());
        }
        assert_eq!(keys(&result["score"]), ["rows", "seconds"]);
        assert!(result["score"]["rows"].as_u64().unwrap() > 0);
        assert!(result["score"]["seconds"].as_f64().unwrap() >= 0.0);
        let metrics = [fpr, "auroc", "aupr_in", "aupr_out", "detection_error"];
        let by_rule = format!("{fpr}_by_rule");
        let more = [&by_rule, "aurc", "augrc", "oscr"];
        for set in result["sets"].as_object().unwrap().values() {
            check_fractions(set, &metrics);
            check_keys(set, &metrics, &[&more[..], &["intervals"]].concat());
            check_fractions(&set[&by_rule], &["at-least", "authors", "ood-positive"]);
        }
        check_fractions(&result["average"], &metrics);
        check_keys(&result["average"], &metrics, &more);
        for metric in metrics {
            let sets = result["sets"].as_object().unwrap().values();
            let sum: f64 = sets.clone().map(|set| set[metric].as_f64().unwrap()).sum();
            let mean = sum / sets.count() as f64;
            assert!((result["average"][metric].as_f64().unwrap() - mean).abs() < 1e-12);
        }
    }
}

/// The CSV of `score`: scores and, where there is a threshold, decisions.
fn parse_csv(text: &str) -> (Vec<f64>, Vec<String>) {
    let mut lines = text.lines();
    let decides = match lines.next() {
        Some("row,score,p_value,decision") => true,
        header => {
            assert_eq!(header, Some("row,score"));
            false
        }
    };
    let (mut scores, mut decisions) = (Vec::new(), Vec::new());
    for (row, line) in lines.enumerate() {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!((cells.len(), cells[0]), (2 + 2 * usize::from(decides), &*row.to_string()));
        scores.push(cells[1].parse().unwrap());
        decisions.extend(cells.get(3).map(|&decision| decision.to_owned()));
    }
    (scores, decisions)
}
