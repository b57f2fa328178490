//! `score --explain`, and the terms of a score in fits, files and reports.

use serde_json::Value;

use crate::util::Place;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Name, weight and p-values of each term.
fn terms(document: &Value) -> Vec<(String, f64, Vec<f64>)> {
    let terms = document["explain"]["terms"].as_array().unwrap();
    let term = |term: &Value| {
        assert_eq!(crate::keys(term), ["name", "p_values", "weight"]);
        let name = term["name"].as_str().unwrap().to_owned();
        (name, term["weight"].as_f64().unwrap(), numbers(&term["p_values"]))
    };
    terms.iter().map(term).collect()
}

#[test]
fn explained_scores_are_the_sums_of_their_terms_over_all_files() {
    let place = Place::new();
    place.small_pack("pack", 600, 60);
    place.run("fit pack -o net").fine();
    let plain = "score net pack/test.safetensors pack/ood/digits.safetensors";
    let line = format!("{plain} --explain");
    let document = place.run(&format!("{line} --json")).json();
    let terms = terms(&document);
    assert!(terms.len() > 1, "{document}");
    let scores = numbers(&document["scores"]);
    assert_eq!(scores.len(), 120);
    assert!(terms.iter().all(|(_, _, p_values)| p_values.len() == 120));
    let mut compared = 0;
    for (row, score) in scores.iter().enumerate() {
        // What is too small for a number has lost its logarithm.
        if terms.iter().all(|(_, _, p_values)| p_values[row] > 1e-300) {
            let sum: f64 = terms.iter().map(|(_, weight, p)| weight * p[row].ln()).sum();
            assert!((sum - score).abs() < 1e-9 * (1.0 + score.abs()), "row {row}: {sum} {score}");
            compared += 1;
        }
    }
    assert!(compared >= 60, "{compared} of 120 rows");

    let csv = place.run(&line).fine();
    let names = terms.iter().map(|(name, ..)| format!(",p_{}", name.replace(' ', "_")));
    let header = format!("file,row,score,p_value,decision{}", names.collect::<String>());
    assert_eq!(csv.lines().next(), Some(header.as_str()));
    let unexplained = place.run(plain).fine();
    assert_eq!(csv.lines().count(), unexplained.lines().count());
    for (row, (line, short)) in csv.lines().zip(unexplained.lines()).skip(1).enumerate() {
        let cells = line.strip_prefix(short).and_then(|rest| rest.strip_prefix(',')).unwrap();
        let cells: Vec<f64> = cells.split(',').map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(cells.len(), terms.len());
        for (cell, (name, _, p_values)) in cells.iter().zip(&terms) {
            let p = p_values[row];
            assert!((cell - p).abs() <= 1e-6 * p, "{name} of row {row}: {cell} and {p}");
        }
    }
    place.run(&format!("{line} -o out.csv")).fine();
    assert_eq!(place.read("out.csv"), csv.as_bytes());
    assert_eq!(place.run(&format!("{plain} --json")).json().get("explain"), None);
}

#[test]
fn explanations_are_refused_where_there_are_no_terms_and_no_room_for_them() {
    let place = Place::new();
    place.small_pack("pack", 300, 20);
    place.run("fit pack -m knn -o net").fine();
    let message = place.run("score net pack/test.safetensors --explain").refused();
    assert_eq!(
        message,
        "error: --explain: expected a detector whose score has terms, such as one of auto; net is of knn, \
         whose score has no parts\n"
    );
    let message = place.run("score net pack/test.safetensors --explain -o out.npy").refused();
    assert_eq!(
        message,
        "error: --explain: expected CSV or --json to write to, got out.npy: .npy holds scores alone\n"
    );
    assert!(!place.has("out.npy"));
}

#[test]
fn fit_and_inspect_show_terms_as_a_table_and_everything_as_json() {
    let place = Place::new();
    place.small_pack("pack", 600, 60);
    let fitted = place.run("fit pack -o net").fine();
    let inspected = place.run("inspect net").fine();
    let document = place.run("inspect net --json").json();
    let found = document["found"].as_object().unwrap();
    let weights: Vec<(&str, f64)> = found
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix("weight of ")?, value.as_f64()?)))
        .collect();
    assert!(weights.len() > 1, "{found:?}");
    for text in [fitted, inspected] {
        for (name, weight) in &weights {
            let line = text.lines().find(|line| line.starts_with(&format!("{name}  "))).unwrap();
            let cells: Vec<&str> = line[name.len()..].split_whitespace().collect();
            let auroc = found.get(&format!("AUROC of {name} for left-out classes"));
            let auroc = auroc
                .map_or("-".to_owned(), |share| format!("{:.2}", 100.0 * share.as_f64().unwrap()));
            assert_eq!(cells, [format!("{:.1}", 100.0 * weight), auroc], "{text}");
        }
        assert!(text.contains("\nterm of the score ") && text.contains("\ngamma: "), "{text}");
        for part in ["weight of", "AUROC of", " median:", " spread:"] {
            assert!(!text.contains(part), "{part} in {text}");
        }
    }
}
