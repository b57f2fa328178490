//! The command line from outside: what each command prints and writes, what it refuses, and how it
//! behaves at the end of pipes, on devices and under signals.

#![allow(clippy::unwrap_used)]

mod util;

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ndarray::s;
use offspan::CATALOGUE;
use serde_json::Value;
use util::*;

fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().unwrap_or_else(|| panic!("expected an object, got {value}"));
    object.keys().map(String::as_str).collect()
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
    assert_eq!(keys(document), ["metrics", "pack", "results", "schema"]);
    assert_eq!((&document["schema"], &document["pack"]), (&"offspan.eval/1".into(), &pack.into()));
    let results = document["results"].as_array().unwrap();
    let names: Vec<&str> = results.iter().map(|r| r["method"].as_str().unwrap()).collect();
    assert_eq!(names, methods);
    for result in results {
        assert_eq!(keys(result), ["average", "fit", "method", "params", "score", "sets"]);
        assert!(result["params"].is_object());
        let fit = &result["fit"];
        if !fit.is_null() {
            assert_eq!(keys(fit), ["components", "rows", "seconds"]);
            assert!(fit["rows"].is_u64() && fit["seconds"].as_f64().unwrap() >= 0.0);
            assert!(fit["components"].is_u64() || fit["components"].is_null());
        }
        assert_eq!(keys(&result["score"]), ["rows", "seconds"]);
        assert!(result["score"]["rows"].as_u64().unwrap() > 0);
        assert!(result["score"]["seconds"].as_f64().unwrap() >= 0.0);
        let metrics = [fpr, "auroc", "aupr_in", "aupr_out", "detection_error"];
        for (name, set) in result["sets"].as_object().unwrap() {
            check_fractions(set, &metrics);
            let others = keys(set).into_iter().filter(|key| !metrics.contains(key));
            assert!(others.eq(set.get("intervals").map(|_| "intervals")), "{name}: {set}");
        }
        check_fractions(&result["average"], &metrics);
        assert_eq!(keys(&result["average"]).len(), metrics.len());
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
        Some("row,score,decision") => true,
        header => {
            assert_eq!(header, Some("row,score"));
            false
        }
    };
    let (mut scores, mut decisions) = (Vec::new(), Vec::new());
    for (row, line) in lines.enumerate() {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!((cells.len(), cells[0]), (2 + usize::from(decides), &*row.to_string()));
        scores.push(cells[1].parse().unwrap());
        decisions.extend(cells.get(2).map(|&decision| decision.to_owned()));
    }
    (scores, decisions)
}

// Commands

#[test]
fn demo_compares_its_methods_in_a_table_within_a_minute() {
    let started = Instant::now();
    let place = Place::new();
    let text = place.run("demo").fine();
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    for label in [
        "energy  ",
        "knn  ",
        "pca  ",
        "pca, no cosine  ",
        "kpca-rff  ",
        "kpca-nys, low-energy  ",
        "kpca-nys, uniform complete  ",
        "kpca-nys, uniform complete, fused  ",
    ] {
        assert_eq!(text.lines().filter(|line| line.starts_with(label)).count(), 1, "{label}{text}");
    }
    assert!(text.contains("FPR95 / AUROC") && text.contains("5000 training rows of width 128"));
    assert!(place.files().is_empty(), "a demo writes no files unless asked");
}

#[test]
fn demo_json_is_an_eval_document_in_fractions() {
    let document = Place::new().run("demo --json").json();
    let labels = [
        "energy",
        "knn",
        "pca, no cosine",
        "pca",
        "kpca-rff",
        "kpca-nys, low-energy",
        "kpca-nys, uniform complete",
        "kpca-nys, uniform complete, fused",
    ];
    check_document(&document, "demo", &labels, "fpr95");
    for result in document["results"].as_array().unwrap() {
        assert_eq!(keys(&result["sets"]), ["digits", "mnist", "textures"]);
        assert!(result["average"]["auroc"].as_f64().unwrap() > 0.9, "{}", result["method"]);
    }
}

#[test]
fn demo_writes_a_pack_that_inspect_eval_and_fit_accept() {
    let place = Place::new();
    let text = place.run("inspect PACK").fine();
    for line in ["pack demo-pack", "train         5000    128", "ood/textures", "head: yes"] {
        assert!(text.contains(line), "{text}");
    }
    let json = place.run("inspect PACK --json").json();
    assert_eq!((&json["schema"], &json["kind"]), (&"offspan.inspect/1".into(), &"pack".into()));
    assert_eq!(keys(&json["splits"]), ["ood/digits", "ood/mnist", "ood/textures", "test", "train"]);
    assert_eq!(json["splits"]["test"]["rows"], 1500);
    assert_eq!(json["head"]["classes"], 10);
    place.run("eval PACK --method pca").fine();
    place.run("fit PACK --method pca -o net.offspan").fine();
}

#[test]
fn fit_tells_in_words_what_it_did_and_leaves_only_the_detector() {
    let place = Place::new();
    let text = place.run("fit PACK --landmarks 64 -o net.offspan").fine();
    for part in [
        "kpca-nys fitted on 4740 × 128 features",
        "64 landmarks, 64 distinct",
        "directions kept",
        "keeps 95 % of 260 rows",
        "written to net.offspan",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(place.files(), ["net.offspan"]);
}

#[test]
fn fit_json_describes_the_detector_it_wrote() {
    let place = Place::new();
    let json = place.run("fit PACK -m pca --keep 0.9 --json -o net.offspan").json();
    assert_eq!(keys(&json), ["bytes", "detector", "info", "schema", "seconds"]);
    assert_eq!(
        (&json["schema"], &json["detector"]),
        (&"offspan.fit/1".into(), &"net.offspan".into())
    );
    assert_eq!(json["bytes"], place.read("net.offspan").len());
    assert_eq!(json["info"]["method"], "pca");
    assert_eq!(json["info"]["direction"], "higher is more in-distribution");
    assert_eq!(json["info"]["threshold"]["keep"], 0.9);
    assert_eq!(json["info"]["threshold"]["source"], "held-out");
    let held_out = json["info"]["threshold"]["rows"].as_u64().unwrap();
    assert_eq!(json["info"]["training"]["rows"].as_u64().unwrap() + held_out, 5000);
    assert_eq!(place.files(), ["net.offspan"]);
}

#[test]
fn the_threshold_comes_from_held_out_rows_a_given_file_or_not_at_all() {
    let place = Place::new();
    let threshold = |flags: &str| {
        let line = format!("fit PACK --method pca --json -o net.offspan {flags}");
        let info = place.run(&line).json()["info"].take();
        (info["training"]["rows"].as_u64().unwrap(), info["threshold"].clone())
    };
    let (rows, given) = threshold("--calibrate PACK/test.safetensors");
    assert_eq!((rows, &given["rows"], &given["source"]), (5000, &1500.into(), &"given".into()));
    let (rows, held_out) = threshold("--hold-out 0.2");
    assert_eq!(held_out["rows"].as_u64().unwrap() + rows, 5000);
    assert!((900..1100).contains(&held_out["rows"].as_u64().unwrap()), "{held_out}");
    assert_eq!(threshold("--hold-out 0"), (5000, Value::Null));

    // A given threshold keeps what it promises of the rows it came from.
    threshold("--calibrate PACK/test.safetensors --keep 0.8");
    let text = place.run("score net.offspan PACK/test.safetensors").fine();
    let kept = parse_csv(&text).1.iter().filter(|decision| *decision == "in").count();
    assert!((1200..1215).contains(&kept), "{kept}");
}

#[test]
fn a_fit_without_rows_for_a_threshold_says_so_and_scores_without_decisions() {
    let place = Place::new();
    place.run("synth --rows 100 --width 8 -o few.npy").fine();
    let ran = place.run("fit few.npy --method pca -o net.offspan");
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.starts_with("note: no threshold"), "{ran:?}");
    assert!(ran.stdout.contains("no threshold"), "{ran:?}");
    let text = place.run("score net.offspan few.npy").fine();
    let (scores, decisions) = parse_csv(&text);
    assert_eq!((scores.len(), decisions.len()), (100, 0));
    let json = place.run("score net.offspan few.npy --json").json();
    assert!(json["threshold"].is_null() && json["decisions"].is_null() && json["out"].is_null());
    let message = place.run("score net.offspan few.npy --check").refused();
    assert!(message.contains("--check needs a threshold"), "{message}");
}

#[test]
fn score_gives_the_same_numbers_as_csv_npy_file_and_json() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net.offspan").fine();
    let csv = place.run("score net.offspan PACK/ood/mnist.safetensors").fine();
    assert!(csv.starts_with("row,score,decision\n0,"), "{csv}");
    assert_eq!(csv.lines().count(), 1001);
    let (scores, decisions) = parse_csv(&csv);

    let silent = place.run("score net.offspan PACK/ood/mnist.safetensors -o scores.npy").fine();
    assert_eq!(silent, "");
    assert_eq!(read_scores(&place.read("scores.npy")), scores);
    place.run("score net.offspan PACK/ood/mnist.safetensors -o scores.csv").fine();
    assert_eq!(place.read("scores.csv"), csv.as_bytes());

    let json = place.run("score net.offspan PACK/ood/mnist.safetensors --json").json();
    assert_eq!(json["schema"], "offspan.scores/1");
    assert_eq!(json["method"], "pca");
    assert_eq!(json["scores"], Value::from(scores.clone()));
    assert_eq!(json["decisions"], Value::from(decisions.clone()));
    assert_eq!(json["out"], decisions.iter().filter(|decision| *decision == "out").count());
    let threshold = json["threshold"]["value"].as_f64().unwrap();
    for (score, decision) in scores.iter().zip(&decisions) {
        assert_eq!(decision, if *score >= threshold { "in" } else { "out" });
    }
    assert_eq!(place.files(), ["net.offspan", "scores.csv", "scores.npy"]);
}

#[test]
fn check_exits_1_when_a_row_is_out_and_0_when_none_is() {
    let place = Place::new();
    place.run("fit PACK --method pca --calibrate PACK/test.safetensors --keep 1 -o net").fine();
    let inside = place.run("score net PACK/test.safetensors --check");
    assert_eq!((inside.code, &*inside.stderr), (Some(0), ""));
    assert!(!inside.stdout.contains(",out"));
    for how in ["", "--json", "-o scores.npy"] {
        let outside = place.run(&format!("score net PACK/ood/mnist.safetensors --check {how}"));
        assert_eq!((outside.code, &*outside.stderr), (Some(1), ""), "{how}");
    }
    let unasked = place.run("score net PACK/ood/mnist.safetensors");
    assert_eq!(unasked.code, Some(0));
    assert!(unasked.stdout.contains(",out"));
}

#[test]
fn a_row_of_zeros_has_no_direction_and_is_out() {
    let place = Place::new();
    let mut rows = place.npy_of("rows.npy", "test.safetensors", "features");
    rows.row_mut(1).fill(0.0);
    place.write("rows.npy", npy_f32(&rows));
    place.run("fit PACK --method pca -o net").fine();
    let (scores, decisions) = parse_csv(&place.run("score net rows.npy").fine());
    assert_eq!((scores[1], &*decisions[1]), (f64::NEG_INFINITY, "out"));
    let json = place.run("score net rows.npy --json").json();
    assert_eq!(json["decisions"], Value::from(decisions));
}

#[test]
fn scores_of_npy_rows_use_the_logits_beside_them() {
    let place = Place::new();
    place.npy_of("rows.npy", "ood/mnist.safetensors", "features");
    place.npy_of("logits.npy", "ood/mnist.safetensors", "logits");
    for flags in ["--method energy", "--method kpca-nys --landmarks 64 --fuse energy"] {
        // Without a pack there is no head: the detector must be given logits to score with.
        place.run(&format!("fit PACK/train.safetensors {flags} -o net")).fine();
        let whole = place.run("score net PACK/ood/mnist.safetensors").fine();
        assert_eq!(place.run("score net rows.npy --logits logits.npy").fine(), whole);
        let message = place.run("score net rows.npy").refused();
        assert!(message.contains("logits") && message.contains("--logits FILE"), "{message}");

        // With a head in the pack the features are enough.
        place.run(&format!("fit PACK {flags} -o with-head")).fine();
        place.run("score with-head rows.npy").fine();
    }
}

#[test]
fn an_error_of_score_names_only_flags_that_score_has() {
    let place = Place::new();
    place.npy_of("rows.npy", "ood/mnist.safetensors", "features");
    place.run("fit PACK/train.safetensors --method energy -o net").fine();
    let message = place.run("score net rows.npy").refused();
    assert!(!message.contains("--head") && !message.contains("--sampling"), "{message}");
}

#[test]
fn eval_prints_a_table_with_the_best_method_first_and_writes_json() {
    let place = Place::new();
    let line = "eval PACK --method kpca-nys,energy,knn,pca --landmarks 64 --json result.json";
    let text = place.run(line).fine();
    assert!(text.starts_with("FPR95 / AUROC in percent"), "{text}");
    let document = place.json("result.json");
    check_document(&document, "demo-pack", &["kpca-nys", "energy", "knn", "pca"], "fpr95");
    assert_eq!(place.files(), ["result.json"]);
    let results = document["results"].as_array().unwrap();
    let mut expected: Vec<(f64, String)> = Vec::new();
    for result in results {
        assert_eq!(keys(&result["sets"]), ["digits", "mnist", "textures"]);
        assert_eq!(result["score"]["rows"], 4472);
        let fpr = result["average"]["fpr95"].as_f64().unwrap();
        let auroc = result["average"]["auroc"].as_f64().unwrap();
        let average = format!("{:.2} / {:.2}", 100.0 * fpr, 100.0 * auroc);
        expected.push((fpr, format!("{} {average}", result["method"].as_str().unwrap())));
    }
    for (index, components) in [(0, true), (1, false), (2, false), (3, true)] {
        assert_eq!(results[index]["fit"]["components"].is_u64(), components);
    }
    for index in [0, 2, 3] {
        assert_eq!(results[index]["fit"]["rows"], 5000);
    }
    expected.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rows = text.lines().skip(4);
    for (row, (_, start)) in rows.zip(expected) {
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(format!("{} {}", words[0], words[2..5].join(" ")), start, "{text}");
    }
}

#[test]
fn eval_json_to_stdout_is_the_document_alone() {
    let place = Place::new();
    let document = place.run("eval PACK --method pca --json -").json();
    check_document(&document, "demo-pack", &["pca"], "fpr95");
    assert!(place.files().is_empty());
}

#[test]
fn the_name_of_the_false_positive_rate_carries_its_share() {
    let place = Place::new();
    for (tpr, name) in [("0.9", "fpr90"), ("0.95", "fpr95"), ("0.995", "fpr99.5")] {
        let line = format!("eval PACK --method pca --tpr {tpr} --ci delong --json");
        let document = place.run(&format!("{line} -")).json();
        check_document(&document, "demo-pack", &["pca"], name);
        assert_eq!(document["metrics"]["tpr"].to_string(), tpr);
        assert!(document["results"][0]["sets"]["mnist"]["intervals"][name].is_array());
        let text = place.run(&format!("{line} out.json")).fine();
        assert!(text.starts_with(&name.to_uppercase()), "{text}");
    }
}

#[test]
fn confidence_intervals_enclose_their_numbers_in_table_and_json() {
    let place = Place::new();
    for ci in ["delong", "bootstrap:50"] {
        let text = place.run(&format!("eval PACK --method pca --ci {ci} --json ci.json")).fine();
        assert!(text.contains("95 % confidence intervals"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains(" – ")).count(), 3, "{text}");
        let document = place.json("ci.json");
        check_document(&document, "demo-pack", &["pca"], "fpr95");
        for (name, set) in document["results"][0]["sets"].as_object().unwrap() {
            for metric in ["fpr95", "auroc"] {
                let value = set[metric].as_f64().unwrap();
                let ends = &set["intervals"][metric];
                let (low, high) = (ends[0].as_f64().unwrap(), ends[1].as_f64().unwrap());
                assert!(low <= value && value <= high, "{ci} {name} {metric}: {set}");
            }
        }
    }
    assert!(!place.run("eval PACK --method pca").fine().contains("confidence"));
}

#[test]
fn fpr_rules_change_the_rate_and_nothing_else() {
    let place = Place::new();
    let sets = |rule: &str| {
        let line = format!("eval PACK --method pca --json - {rule}");
        place.run(&line).json()["results"][0]["sets"].take()
    };
    let default = sets("");
    assert_eq!(sets("--fpr-rule at-least"), default);
    for rule in ["authors", "ood-positive"] {
        let other = sets(&format!("--fpr-rule {rule}"));
        let fpr = |sets: &Value| sets["digits"]["fpr95"].as_f64().unwrap();
        let difference = (fpr(&other) - fpr(&default)).abs();
        let allowed = if rule == "authors" { 0.01 } else { 0.2 };
        assert!(difference <= allowed, "{rule}: {difference}");
        assert_eq!(other["digits"]["auroc"], default["digits"]["auroc"]);
    }
    assert_ne!(sets("--fpr-rule ood-positive"), default);
}

#[test]
fn a_saved_detector_evaluates_as_its_own_fit_on_all_rows() {
    let place = Place::new();
    for flags in ["--method pca", "--method kpca-nys --landmarks 64", "--method energy"] {
        place.run(&format!("fit PACK {flags} --hold-out 0 -o net.offspan")).fine();
        let saved = place.run("eval PACK --detector net.offspan --json -").json();
        let fitted = place.run(&format!("eval PACK {flags} --json -")).json();
        check_document(&saved, "demo-pack", &["net"], "fpr95");
        assert_eq!(saved["results"][0]["sets"], fitted["results"][0]["sets"], "{flags}");
        assert_eq!(saved["results"][0]["params"], fitted["results"][0]["params"], "{flags}");
        assert!(saved["results"][0]["fit"].is_null());
    }
    // Several detectors beside fitted methods.
    place.run("fit PACK --method pca -o other.offspan").fine();
    let line = "eval PACK --method knn --detector net.offspan,other.offspan --json -";
    check_document(&place.run(line).json(), "demo-pack", &["knn", "net", "other"], "fpr95");
}

#[test]
fn inspect_says_what_a_detector_and_a_feature_file_are() {
    let place = Place::new();
    place.run("fit PACK --landmarks 64 --react p90 -o net.offspan").fine();
    let text = place.run("inspect net.offspan").fine();
    for part in [
        "an offspan detector",
        "kpca-nys",
        "4740 training rows of width 128, fingerprint xxh3:",
        "activations cut at",
        "64 landmarks",
        "0.99:",
        "is in; set to keep 95 % of 260",
        "parameters: {",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let json = place.run("inspect net.offspan --json").json();
    assert_eq!((&json["schema"], &json["kind"]), (&"offspan.inspect/1".into(), &"detector".into()));
    assert_eq!(json["info"]["method"], "kpca-nys");
    assert_eq!(json["eigenvalues"][0].as_array().unwrap().len(), 64);

    let text = place.run("inspect PACK/ood/digits.safetensors").fine();
    for part in ["1000 rows of width 128, all finite", "logits of 10 classes", "row norms from"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let json = place.run("inspect PACK/train.safetensors --json").json();
    assert_eq!(json["kind"], "features");
    for (key, value) in [("rows", 5000), ("width", 128), ("logits", 10), ("classes", 10)] {
        assert_eq!(json[key], value, "{key}");
    }
}

#[test]
fn a_damaged_detector_is_called_a_detector_not_a_feature_file() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net.offspan").fine();
    let bytes = place.read("net.offspan");
    place.write("net.offspan", &bytes[..bytes.len() / 2]);
    let message = place.run("inspect net.offspan").refused();
    assert!(!message.contains("a feature file"), "{message}");
    place.run("score net.offspan PACK/test.safetensors").refused();
}

#[test]
fn methods_lists_the_whole_catalogue_in_words_and_json() {
    let place = Place::new();
    let text = place.run("methods").fine();
    let json = place.run("methods --json").json();
    assert_eq!(json.as_array().unwrap().len(), CATALOGUE.len());
    for (method, entry) in CATALOGUE.iter().zip(json.as_array().unwrap()) {
        assert!(text.lines().any(|line| line == method.name), "{}", method.name);
        assert_eq!(entry["name"], method.name);
        assert_eq!(entry["parameters"].as_array().unwrap().len(), method.parameters.len());
    }
}

#[test]
fn every_flag_that_methods_promises_is_a_flag_of_fit_and_eval() {
    let place = Place::new();
    for command in ["fit", "eval"] {
        let help = place.run(&format!("{command} --help")).fine();
        for parameter in CATALOGUE.iter().flat_map(|method| method.parameters) {
            assert!(help.contains(parameter.flag), "{command} {}", parameter.flag);
        }
    }
}

#[test]
fn completions_and_manual_pages_are_complete() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&format!("completions {shell}")).fine();
        assert!(script.contains("offspan") && script.contains("explained-variance"), "{shell}");
    }
    let page = place.run("man").fine();
    assert!(page.contains(".TH offspan 1") && page.contains(".SH NAME"), "{page}");
    assert_eq!(place.run("man pages/here").fine(), "");
    for command in ["", "-demo", "-fit", "-score", "-eval", "-inspect", "-methods", "-synth"] {
        let page =
            String::from_utf8(place.read(&format!("pages/here/offspan{command}.1"))).unwrap();
        assert!(page.contains(".TH") && page.contains(".SH"), "{command}");
    }
}

#[test]
fn synth_writes_the_shape_and_type_it_was_asked_for() {
    let place = Place::new();
    for (element, descr) in [("f16", "<f2"), ("f32", "<f4"), ("f64", "<f8")] {
        let line = format!("synth --rows 300 --width 12 --classes 3 --type {element} -o x.npy");
        assert_eq!(place.run(&line).fine(), "");
        let json = place.run("inspect x.npy --json").json();
        assert_eq!((&json["rows"], &json["width"]), (&300.into(), &12.into()));
        let bytes = place.read("x.npy");
        assert!(String::from_utf8_lossy(&bytes[..128]).contains(descr), "{element}");
        place.run("fit x.npy --method pca --hold-out 0 -o net").fine();
    }
    place.run("synth --rows 300 --width 12 --seed 1 -o a.npy").fine();
    place.run("synth --rows 300 --width 12 --seed 1 -o b.npy").fine();
    place.run("synth --rows 300 --width 12 --seed 2 -o c.npy").fine();
    assert_eq!(place.read("a.npy"), place.read("b.npy"));
    assert_ne!(place.read("a.npy"), place.read("c.npy"));
    assert!(place.partials().is_empty());
}

#[test]
fn help_and_version_go_to_stdout() {
    let place = Place::new();
    assert_eq!(place.run("--version").fine(), format!("offspan {}\n", env!("CARGO_PKG_VERSION")));
    assert!(place.run("--help").fine().contains("Exit codes: 0 fine, 1 the question"));
    for command in ["demo", "fit", "score", "eval", "inspect", "methods", "synth", "man"] {
        assert!(place.run(&format!("{command} --help")).fine().contains("Usage:"), "{command}");
    }
    let bare = place.run("");
    assert_eq!((bare.code, &*bare.stdout), (Some(2), ""));
}

// Every flag of every method

/// Evaluates lines of flags on a small pack; each must give a valid document with these words in
/// its parameters, and results that differ from those of every other line.
fn check_variants(place: &Place, variants: &[(&str, &str)]) {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (flags, expected) in variants {
        let document = place.run(&format!("eval small --json - --method {flags}")).json();
        let method = flags.split_whitespace().next().unwrap();
        check_document(&document, "small", &[method], "fpr95");
        let result = &document["results"][0];
        let params = result["params"].to_string();
        assert!(params.contains(expected), "{flags}: {expected} is not in {params}");
        let sets = result["sets"].to_string() + &result["fit"]["components"].to_string();
        if let Some(other) = seen.insert(sets, flags) {
            panic!("`{flags}` and `{other}` give the same numbers");
        }
    }
}

#[test]
fn each_pca_and_baseline_flag_reaches_the_method() {
    let place = Place::new();
    place.small_pack("small", 1000, 300);
    check_variants(
        &place,
        &[
            ("pca", r#""explained-variance":0.9"#),
            ("pca --no-cosine", r#""cosine":false"#),
            ("pca --explained-variance 0.8", r#""explained-variance":0.8"#),
            ("pca --components 3", r#"{"fixed":3}"#),
            ("pca --react 2.5", r#""react":{"value":2.5}"#),
            ("pca --react p85.5", r#""react":{"percentile":85.5}"#),
            ("pca --fuse energy", r#""fusion":"energy-ratio""#),
            ("pca --fuse energy-product", r#""fusion":"energy-product""#),
            ("pca --react p90 --fuse energy-ratio", r#""fusion":"energy-ratio""#),
            ("energy", r#""temperature":1.0"#),
            ("energy --temperature 20", r#""temperature":20.0"#),
            ("knn", r#""neighbours":50"#),
            ("knn -k 3", r#""neighbours":3"#),
            ("knn --neighbours 5", r#""neighbours":5"#),
        ],
    );
}

#[test]
fn each_random_feature_flag_reaches_the_method() {
    let place = Place::new();
    place.small_pack("small", 1000, 300);
    let mut noise = Noise(3);
    let mut numbers = |count: usize| (0..count).map(|_| noise.next() as f32 - 0.5).collect();
    let arrays: [(&str, &[usize], Vec<f32>); 2] =
        [("omega", &[48, 128], numbers(48 * 128)), ("u", &[48], numbers(48))];
    write_safetensors(&place.path("frequencies.safetensors"), &arrays);
    check_variants(
        &place,
        &[
            ("kpca-rff --features 64", r#""draw":"structured""#),
            ("kpca-rff --features 64 --seed 5", r#""seed":5"#),
            ("kpca-rff --features 80", r#""features":80"#),
            ("kpca-rff --features 64 --draw iid", r#""draw":"iid""#),
            ("kpca-rff --features 64 --draw orthogonal", r#""draw":"orthogonal""#),
            ("kpca-rff --frequencies frequencies.safetensors", r#""features":48"#),
            ("kpca-rff --features 64 --kernel laplacian", r#""gamma":0.05,"name":"laplacian""#),
            ("kpca-rff --features 64 --kernel laplacian --gamma 0.1", r#""gamma":0.1"#),
            ("kpca-rff --features 64 --gamma 0.7", r#""gamma":0.7,"name":"gaussian""#),
            ("kpca-rff --features 64 --no-cosine --gamma 0.001", r#""cosine":false"#),
            ("kpca-rff --features 64 --explained-variance 0.6", r#""explained-variance":0.6"#),
            ("kpca-rff --features 64 --components 7", r#"{"fixed":7}"#),
            ("kpca-rff --features 64 --react 3", r#""react":{"value":3.0}"#),
            ("kpca-rff --features 64 --fuse energy", r#""fusion":"energy-product""#),
            ("kpca-rff --features 64 --fuse energy-ratio", r#""fusion":"energy-ratio""#),
            ("kpca-sketch --features 64", r#""coef0":1.0,"degree":2,"name":"polynomial""#),
            ("kpca-sketch --features 64 --degree 3 --coef0 0.5", r#""coef0":0.5,"degree":3"#),
            ("kpca-sketch --features 64 --seed 1", r#""seed":1"#),
            ("kpca-sketch --features 64 --no-cosine", r#""cosine":false"#),
            ("kpca-sketch --features 64 --react p90 --fuse energy", r#""fusion":"energy-ratio""#),
            ("kpca-sketch --features 64 --components 9", r#"{"fixed":9}"#),
            ("kpca-sketch --features 64 --explained-variance 0.7", r#""explained-variance":0.7"#),
        ],
    );
}

#[test]
fn each_landmark_flag_reaches_the_method() {
    let place = Place::new();
    place.small_pack("small", 1000, 300);
    let m = "kpca-nys --landmarks 48";
    let lines = [
        ("", r#""sampling":"low-energy""#),
        ("--sampling high-energy", r#""sampling":"high-energy""#),
        ("--sampling uniform", r#""sampling":"uniform""#),
        ("--sampling uniform --seed 4", r#""seed":4"#),
        ("--sampling uniform --residual complete", r#""residual":"complete""#),
        ("--gamma 0.4", r#""gamma":0.4,"name":"gaussian""#),
        ("--kernel laplacian", r#""gamma":0.05,"name":"laplacian""#),
        ("--kernel polynomial", r#""coef0":1.0,"degree":2"#),
        ("--kernel polynomial --degree 3 --coef0 2", r#""coef0":2.0,"degree":3"#),
        ("--kernel linear", r#""name":"linear""#),
        ("--kernel linear --no-cosine", r#""cosine":false"#),
        ("--rank-floor 0.01", r#""relative":0.01,"rule":"drop""#),
        ("--rank-floor 0.01 --rank-rule clamp", r#""relative":0.01,"rule":"clamp""#),
        ("--explained-variance 0.9", r#""explained-variance":0.9"#),
        ("--components 11", r#"{"fixed":11}"#),
        ("--react p90", r#""react":{"percentile":90.0}"#),
        ("--fuse energy", r#""fusion":"energy-ratio""#),
        ("--fuse energy-product", r#""fusion":"energy-product""#),
    ];
    let lines: Vec<(String, &str)> =
        lines.iter().map(|(flags, expected)| (format!("{m} {flags}"), *expected)).collect();
    let lines: Vec<(&str, &str)> = lines.iter().map(|(l, e)| (l.as_str(), *e)).collect();
    check_variants(&place, &lines);
}

#[test]
fn landmark_rows_come_from_text_or_npy_alike() {
    let place = Place::new();
    place.small_pack("small", 1000, 300);
    let rows: Vec<i64> = (0..40).map(|i| i * 25).collect();
    let text: Vec<String> = rows.iter().map(i64::to_string).collect();
    place.write("rows.txt", text.join("\n"));
    let bytes: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
    place.write("rows.npy", npy("<i8", &[rows.len()], &bytes));
    let result = |file: &str| {
        let line = format!("eval small --method kpca-nys --landmark-rows {file} --json -");
        let document = place.run(&line).json();
        check_document(&document, "small", &["kpca-nys"], "fpr95");
        document["results"][0].clone()
    };
    let (from_text, from_npy) = (result("rows.txt"), result("rows.npy"));
    assert_eq!(from_text["sets"], from_npy["sets"]);
    assert_eq!(from_text["params"]["map"]["landmarks"], 40);
    assert_eq!(from_text["params"]["map"]["sampling"]["given"], Value::from(rows));
}

#[test]
fn each_exact_and_ensemble_flag_reaches_the_method() {
    let place = Place::new();
    place.small_pack("small", 250, 200);
    let ensemble = "kpca-ensemble --features 64 --landmarks 48";
    let variants = [
        ("kpca-exact".to_owned(), r#""form":"centred""#),
        ("kpca-exact --gamma 0.3".to_owned(), r#""gamma":0.3"#),
        ("kpca-exact --kernel laplacian".to_owned(), r#""name":"laplacian""#),
        ("kpca-exact --kernel polynomial --degree 3".to_owned(), r#""degree":3"#),
        ("kpca-exact --kernel linear --components 20".to_owned(), r#""name":"linear""#),
        ("kpca-exact --no-cosine --gamma 0.001".to_owned(), r#""cosine":false"#),
        ("kpca-exact --react p90 --fuse energy".to_owned(), r#""percentile":90.0"#),
        ("kpca-exact-prop2".to_owned(), r#""form":"proposition2""#),
        ("kpca-exact-prop2 --explained-variance 0.9".to_owned(), r#""explained-variance":0.9"#),
        (ensemble.to_owned(), r#""family":"kpca-ensemble""#),
        (format!("{ensemble} --rff-gamma 0.9"), r#""gamma":0.9"#),
        (format!("{ensemble} --gamma 0.6"), r#""gamma":0.6"#),
        (format!("{ensemble} --rff-explained-variance 0.7"), r#""explained-variance":0.7"#),
        (format!("{ensemble} --explained-variance 0.95"), r#""explained-variance":0.95"#),
        (format!("{ensemble} --components 12"), r#"{"fixed":12}"#),
        (format!("{ensemble} --sampling uniform --residual complete"), r#""complete""#),
        (format!("{ensemble} --kernel laplacian"), r#""draw":"iid""#),
        (format!("{ensemble} --fuse energy"), r#""energy-product""#),
        (format!("{ensemble} --react 4 --seed 2"), r#""value":4.0"#),
        (format!("{ensemble} --draw orthogonal"), r#""draw":"orthogonal""#),
    ];
    let variants: Vec<(&str, &str)> = variants.iter().map(|(l, e)| (l.as_str(), *e)).collect();
    check_variants(&place, &variants);
}

#[test]
fn f64_precision_gives_nearly_the_scores_of_f32() {
    let place = Place::new();
    place.small_pack("small", 1000, 300);
    for flags in ["pca", "kpca-rff --features 64", "kpca-nys --landmarks 48"] {
        let scores = |precision: &str| {
            let line = format!("fit small --hold-out 0 --precision {precision} --method {flags}");
            place.run(&format!("{line} -o net")).fine();
            parse_csv(&place.run("score net small/test.safetensors").fine()).0
        };
        let (single, double) = (scores("f32"), scores("f64"));
        assert_ne!(single, double);
        for (a, b) in single.iter().zip(&double) {
            assert!((a - b).abs() <= 1e-4 * b.abs(), "{flags}: {a} {b}");
        }
    }
}

#[test]
fn a_flag_that_one_of_several_methods_takes_does_not_disturb_the_others() {
    let place = Place::new();
    place.small_pack("small", 1000, 300);
    let alone = |flags: &str| {
        let document = place.run(&format!("eval small --json - --method {flags}")).json();
        document["results"][0]["sets"].clone()
    };
    let line = "eval small --method pca,kpca-rff,kpca-sketch,kpca-nys --features 64 --landmarks 48 \
                --sampling uniform --residual complete --kernel gaussian --json -";
    let together = place.run(line).json();
    let sets = |index: usize| together["results"][index]["sets"].clone();
    assert_eq!(sets(0), alone("pca"));
    assert_eq!(sets(1), alone("kpca-rff --features 64"));
    assert_eq!(sets(2), alone("kpca-sketch --features 64"));
    let nystrom = "kpca-nys --landmarks 48 --sampling uniform --residual complete";
    assert_eq!(sets(3), alone(nystrom));
}

// Files that users bring

#[test]
fn features_alone_cannot_be_sampled_by_energy_and_the_error_says_what_to_do() {
    let place = Place::new();
    let train = place.npy_of("train.npy", "train.safetensors", "features");
    place.npy_of("logits.npy", "train.safetensors", "logits");
    place.npy_head();
    place.write("train64.npy", npy_f64(&train));
    let before = place.files();
    let message = place.run("fit train.npy -o net").refused();
    for advice in ["--logits FILE", "--head FILE", "--sampling uniform"] {
        assert!(message.contains(advice), "{message}");
    }
    assert_eq!(place.files(), before);

    let fit = |flags: &str| {
        place.run(&format!("fit {flags} --landmarks 48 -o net")).fine();
        place.read("net")
    };
    fit("train.npy --sampling uniform --residual complete");
    let from_logits = fit("train.npy --logits logits.npy");
    assert_eq!(fit("PACK/train.safetensors"), from_logits, "the pack has the same logits");
    assert_eq!(fit("train64.npy --logits logits.npy"), from_logits, "f64 holds the same numbers");
    let from_head = fit("train.npy --head weight.npy,bias.npy");
    assert_eq!(fit("train.npy --head PACK/head.safetensors"), from_head);
    // The head goes into the detector, so that it can fuse and sample; scores come without logits.
    place.run("score net PACK/test.safetensors").fine();
}

#[test]
fn files_without_header_are_read_as_declared() {
    let place = Place::new();
    let train = place.npy_of("train.npy", "train.safetensors", "features");
    let test = place.npy_of("test.npy", "test.safetensors", "features");
    place.write("train.mmap", f64_bytes(&train));
    place.write("test.mmap", f64_bytes(&test));
    place.run("fit train.npy --method pca -o net").fine();
    place.run("fit train.mmap --raw f64:128 --method pca -o raw").fine();
    assert_eq!(place.read("raw"), place.read("net"));
    let scores = place.run("score net test.npy").fine();
    assert_eq!(place.run("score net test.mmap --raw f64:128").fine(), scores);
    let json = place.run("inspect train.mmap --raw f64:128 --json").json();
    assert_eq!((&json["rows"], &json["width"]), (&5000.into(), &128.into()));
    let message = place.run("inspect train.mmap").refused();
    assert!(message.contains("--raw f64:WIDTH"), "{message}");
    let message = place.run("fit train.mmap --raw f64:129 --method pca -o out").refused();
    assert!(message.contains("is no multiple of 1032"), "{message}");
}

#[test]
fn the_threshold_can_come_from_a_file_without_header_too() {
    let place = Place::new();
    let train = place.npy_of("train.npy", "train.safetensors", "features");
    let test = place.npy_of("test.npy", "test.safetensors", "features");
    place.write("train.mmap", f64_bytes(&train));
    place.write("test.mmap", f64_bytes(&test));
    place.run("fit train.npy --calibrate test.npy --method pca -o net").fine();
    let line = "fit train.mmap --raw f64:128 --calibrate test.mmap --method pca -o raw";
    place.run(line).fine();
    assert_eq!(place.read("raw"), place.read("net"));
}

#[test]
fn a_pack_may_be_of_npy_files() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("pack/ood")).unwrap();
    for name in ["train", "test", "ood/digits"] {
        place.npy_of(&format!("pack/{name}.npy"), &format!("{name}.safetensors"), "features");
    }
    let document = place.run("eval pack --method pca,knn --json -").json();
    check_document(&document, "pack", &["pca", "knn"], "fpr95");
    let reference = place.run("eval PACK --method pca,knn --json -").json();
    let digits = |document: &Value| document["results"][0]["sets"]["digits"].clone();
    assert_eq!(digits(&document), digits(&reference));
    assert!(place.run("inspect pack").fine().contains("head: -"));
}

// Errors

/// Runs each line: exit code 2, these words on stderr, nothing on stdout, no file made.
fn check_refusals(place: &Place, cases: &[(&str, &str)]) {
    let before = place.files();
    let mut wrong = Vec::new();
    for (line, expected) in cases {
        let ran = place.run(line);
        let told = ran.stderr.starts_with("error: ") && ran.stderr.contains(expected);
        if ran.code != Some(2) || !ran.stdout.is_empty() || !told {
            wrong.push(format!("expected `{expected}`, got {ran:?}"));
        }
        for name in place.files() {
            if !before.contains(&name) {
                wrong.push(format!("`{line}` made {name}"));
                std::fs::remove_file(place.path(&name)).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn bad_parameters_are_refused_in_words() {
    let place = Place::new();
    place.write("rows.txt", "1 2 3");
    place.write("far.txt", "1 2 500000");
    place.write("words.txt", "1 two");
    place.write("none.txt", "");
    let few: Vec<f32> = vec![0.5; 8 * 4];
    let arrays: [(&str, &[usize], Vec<f32>); 2] =
        [("omega", &[8, 4], few), ("u", &[8], vec![0.1; 8])];
    write_safetensors(&place.path("narrow.safetensors"), &arrays);
    check_refusals(
        &place,
        &[
            ("fit PACK --method foo -o out", "unknown method `foo`; expected one of pca,"),
            ("eval PACK --method pca,foo", "unknown method `foo`"),
            ("fit PACK --method pca --gamma 1 -o out", "--gamma has no meaning for pca"),
            ("fit PACK --method knn --landmarks 5 -o out", "--landmarks has no meaning for knn"),
            ("fit PACK --method energy --react 1 -o out", "--react has no meaning for energy"),
            ("eval PACK --method pca,knn --temperature 2", "--temperature has no meaning"),
            ("fit PACK --method kpca-rff --residual complete -o out", "--residual has no meaning"),
            ("fit PACK --unknown -o out", "unexpected argument '--unknown'"),
            ("fit PACK --react x -o out", "expected a value such as 1.0 or a percentile"),
            ("fit PACK --react p101 -o out", "a percentile from p0 to p100"),
            ("fit PACK --react pnan -o out", "a percentile from p0 to p100"),
            ("fit PACK --react inf -o out", "a finite value"),
            ("fit PACK --react 0 --method pca -o out", "row 0 is all zeros after clipping"),
            ("fit PACK --explained-variance 0.5 --components 3 -o out", "cannot be used with"),
            ("fit PACK --landmark-rows rows.txt --landmarks 3 -o out", "cannot be used with"),
            ("fit PACK --landmark-rows rows.txt --sampling uniform -o out", "cannot be used with"),
            ("fit PACK --frequencies narrow.safetensors --draw iid -o out", "cannot be used with"),
            (
                "fit PACK --frequencies narrow.safetensors --features 9 -o out",
                "cannot be used with",
            ),
            ("fit PACK --explained-variance 0 -o out", "a share in (0, 1]"),
            ("fit PACK --explained-variance 1.5 -o out", "a share in (0, 1]"),
            ("fit PACK --method pca --components 0 -o out", "components: expected at least 1"),
            ("fit PACK --method pca --components 500 -o out", "at most 128"),
            ("fit PACK --method pca --components 128 -o out", "keeps all 128 directions"),
            ("fit PACK --landmarks 0 -o out", "landmarks: expected at least 1"),
            (
                "fit PACK --landmarks 999999 -o out",
                "the training rows used for the fit, got 999999",
            ),
            ("fit PACK --landmark-rows far.txt -o out", "row numbers from 0 to 4999, got 500000"),
            ("fit PACK --landmark-rows words.txt -o out", "it has `two`"),
            ("fit PACK --landmark-rows none.txt -o out", "landmarks: expected at least 1"),
            ("fit PACK --landmark-rows missing.txt -o out", "missing.txt"),
            ("fit PACK --method kpca-rff --features 0 -o out", "features: expected at least 1"),
            ("fit PACK --method kpca-rff --kernel polynomial -o out", "gaussian or laplacian"),
            (
                "fit PACK --method kpca-rff --kernel laplacian --draw orthogonal -o out",
                "draw: expected iid",
            ),
            ("fit PACK --method kpca-rff --frequencies narrow.safetensors -o out", "128 columns"),
            ("fit PACK --gamma 0 -o out", "gamma"),
            ("fit PACK --gamma nan -o out", "gamma"),
            ("fit PACK --no-cosine -o out", "--no-cosine needs --gamma"),
            ("fit PACK --kernel polynomial --degree 0 -o out", "degree"),
            ("fit PACK --rank-floor 2 -o out", "rank-floor"),
            ("fit PACK --method knn -k 0 -o out", "neighbours: expected from 1"),
            ("fit PACK --method knn -k 5001 -o out", "neighbours: expected from 1"),
            ("fit PACK --method energy --temperature 0 -o out", "temperature"),
            ("fit PACK --hold-out 1 -o out", "hold-out: expected a share in [0, 1), got 1"),
            ("fit PACK --keep 0 -o out", "keep: expected a share in (0, 1], got 0"),
            ("fit PACK --checkpoint c --checkpoint-every=-1 -o out", "--checkpoint-every"),
            ("fit PACK --method knn --checkpoint c -o out", "checkpoint"),
            ("fit PACK --method energy --checkpoint c -o out", "checkpoint"),
            ("fit PACK --threads 0 -o out", "--threads"),
            ("eval PACK --method pca --tpr 0", "true positive rate"),
            ("eval PACK --method pca --tpr 95 --json out.json", "true positive rate"),
            ("eval PACK --method pca --ci wald", "expected `delong`, `bootstrap` or `bootstrap:N`"),
            ("eval PACK --method pca --ci bootstrap:0", "resamples"),
            ("eval PACK --method pca --fpr-rule best", "unknown FPR rule"),
            ("synth --rows 0 --width 3 -o out.npy", "at least 1"),
            ("synth --rows 3 --width 0 -o out.npy", "at least 1"),
            ("synth --rows 3 --width 3 --type bf16 -o out.npy", "NumPy has no bfloat16"),
            ("synth --rows 3 --width 3 --type int -o out.npy", "f16"),
            ("completions basic", "invalid value 'basic'"),
        ],
    );
}

#[test]
fn bad_files_are_refused_in_words() {
    let place = Place::new();
    let mut test = place.npy_of("rows.npy", "test.safetensors", "features");
    place.write("few.npy", npy_f32(&test.slice(s![..10, ..]).to_owned()));
    place.write("narrow.npy", npy_f32(&test.slice(s![.., ..7]).to_owned()));
    test[[3, 2]] = f32::NAN;
    place.write("nan.npy", npy_f32(&test));
    test[[3, 2]] = f32::INFINITY;
    place.write("infinite.npy", npy_f32(&test));
    place.write("text.npy", "row,score\n");
    place.write("text.offspan", "not a detector");
    place.write("empty.npy", "");
    place.write("raw.bin", [0; 100]);
    place.write("vector.npy", npy("<f4", &[3], &f32_bytes(&[1.0, 2.0, 3.0])));
    place.write("cut.npy", &npy("<f4", &[9, 9], &[0; 9 * 9 * 4])[..200]);
    let narrow_head: [(&str, &[usize], Vec<f32>); 2] =
        [("weight", &[2, 3], vec![0.1; 6]), ("bias", &[2], vec![0.1; 2])];
    write_safetensors(&place.path("head.safetensors"), &narrow_head);
    place.small_pack("no-test", 300, 50);
    std::fs::remove_file(place.path("no-test/test.safetensors")).unwrap();
    place.small_pack("no-ood", 300, 50);
    std::fs::remove_dir_all(place.path("no-ood/ood")).unwrap();
    std::fs::create_dir(place.path("empty")).unwrap();
    place.small_pack("nan-pack", 300, 50);
    std::fs::copy(place.path("nan.npy"), place.path("nan-pack/ood/zzz.npy")).unwrap();
    place.run("fit PACK --method pca -o net").fine();
    place.run("synth --rows 20001 --width 2 -o long.npy").fine();
    place.run("synth --rows 50 --width 3 -o thin.npy").fine();
    check_refusals(
        &place,
        &[
            ("fit missing.npy -o out", "cannot open missing.npy"),
            ("fit missing -o out", "cannot open missing"),
            ("fit empty -o out", "neither train.safetensors nor train.npy"),
            ("fit net -o out", "net: not a feature file"),
            ("fit text.npy -o out", "text.npy: not a .npy file"),
            ("fit empty.npy -o out", "truncated"),
            ("fit cut.npy -o out", "truncated"),
            ("fit vector.npy -o out", "expected shape [rows, columns], got [3]"),
            (
                "fit nan.npy --method pca -o out",
                "row 3, column 2 is NaN; every value must be finite",
            ),
            ("fit nan.npy --method knn -o out", "row 3, column 2 is NaN"),
            ("fit infinite.npy --method pca -o out", "row 3, column 2 is inf"),
            ("fit raw.bin --raw f64:0 -o out", "a width of at least 1"),
            ("fit raw.bin --raw f9:3 -o out", "f16, bf16, f32 or f64"),
            ("fit raw.bin --raw f64 -o out", "expected TYPE:WIDTH"),
            ("fit raw.bin --raw f64:3 -o out", "is no multiple of 24"),
            ("fit rows.npy --logits few.npy -o out", "1500 rows, as many as the features"),
            ("fit rows.npy --head head.safetensors -o out", "[classes, 128]"),
            ("fit rows.npy --head rows.npy,missing.npy -o out", "missing.npy"),
            ("fit PACK --method pca --calibrate few.npy -o out", "at least 20 rows, got 10"),
            ("fit PACK --method pca --calibrate narrow.npy -o out", "128 columns"),
            ("fit PACK --method pca --calibrate missing.npy -o out", "missing.npy"),
            ("fit long.npy --method kpca-exact --hold-out 0 -o out", "at most 20000 rows"),
            ("fit PACK --method pca --checkpoint text.npy -o out", "text.npy"),
            ("score net missing.npy", "cannot open missing.npy"),
            ("score missing.offspan rows.npy", "missing.offspan"),
            (
                "score net narrow.npy",
                "expected shape 128 columns, as in the detector's training rows, got 7",
            ),
            ("score net nan.npy", "nan.npy: row 3, column 2 is NaN"),
            ("score net nan.npy -o out.npy", "row 3, column 2 is NaN"),
            ("score net rows.npy --logits few.npy", "1500 rows"),
            ("score net rows.npy -o out.txt", "expected a name that ends in .npy or .csv"),
            ("score net rows.npy --json -o out.npy", "cannot be used with"),
            ("score rows.npy rows.npy", "rows.npy: not"),
            ("score text.offspan rows.npy", "text.offspan: not"),
            (
                "score PACK/train.safetensors rows.npy",
                "not an offspan detector: it has no offspan.detector header",
            ),
            ("eval no-test --method pca", "pack no-test has no test.safetensors"),
            ("eval no-ood --method pca", "pack no-ood has no ood/NAME.safetensors"),
            ("eval empty --method pca", "neither train.safetensors nor train.npy"),
            ("eval rows.npy --method pca", "rows.npy"),
            ("eval nan-pack --method pca --json out.json", "is NaN"),
            ("eval PACK --detector rows.npy --json out.json", "rows.npy: not"),
            ("eval PACK --detector missing", "missing"),
            ("eval PACK --method kpca-nys --landmark-rows rows.npy", "whole-number type"),
            ("inspect missing.npy", "cannot open missing.npy"),
            ("inspect nan.npy", "row 3, column 2 is NaN"),
            ("inspect empty", "neither train.safetensors nor train.npy"),
            ("inspect raw.bin", "--raw f64:WIDTH"),
        ],
    );
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_work() {
    let place = Place::new();
    place.write("file", "");
    place.run("fit PACK --method pca -o net").fine();
    // The input does not exist either: what is complained about first is what was looked at first.
    check_refusals(
        &place,
        &[
            ("fit missing.npy --method pca -o missing/out", "missing/out: No such file"),
            ("fit missing.npy --method pca -o .", "cannot write .: is a directory"),
            ("fit missing.npy --method pca -o file/out", "file/out"),
            ("fit missing.npy --method pca --checkpoint missing/c -o out", "missing/c"),
            ("score net missing.npy -o missing/out.npy", "missing/out.npy"),
            ("eval missing --method pca --json missing/out.json", "missing/out.json"),
            ("synth --rows 100000000 --width 64 -o missing/out.npy", "missing/out.npy"),
            ("demo --write-pack file", "file"),
            ("man file", "file"),
        ],
    );
}

#[test]
fn errors_speak_of_the_users_files_not_of_ours() {
    let place = Place::new();
    let message = place.run("fit PACK --method pca -o missing/out").refused();
    assert!(!message.contains(".offspan-probe"), "{message}");
    let message = place.run("synth --rows 3 --width 3 -o missing/out.npy").refused();
    assert!(!message.contains(".partial"), "{message}");
}

#[test]
fn parameters_beside_a_saved_detector_are_refused_in_a_whole_sentence() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net").fine();
    let message = place.run("eval PACK --detector net --gamma 1").refused();
    assert!(message.contains("--gamma") && !message.contains("for ;"), "{message}");
}

#[test]
fn an_error_keeps_the_old_output() {
    let place = Place::new();
    for (line, file) in [
        ("fit PACK --method pca --components 500 -o old", "old"),
        ("score old PACK/test.safetensors -o old.npy", "old.npy"),
        ("eval PACK --detector old --json old.json", "old.json"),
        ("synth --rows 3 --width 3 --type bf16 -o old.npy", "old.npy"),
    ] {
        place.write("old", "old");
        place.write(file, "old");
        place.run(line).refused();
        assert_eq!(place.read(file), b"old", "{line}");
    }
}

// Checkpoint files

#[test]
fn a_checkpoint_in_the_place_of_the_detector_is_refused() {
    let place = Place::new();
    let ran = place.run("fit PACK --method pca --checkpoint net -o net");
    assert!(ran.code == Some(2) || place.has("net"), "the detector is gone: {ran:?}");
    ran.refused();
}

#[test]
fn a_fit_removes_no_file_but_its_own_checkpoint() {
    let place = Place::new();
    place.run("synth --rows 500 --width 16 -o rows.npy").fine();
    place.write("net.rff", "precious");
    place.write("net.nys", "precious");
    place.run("fit rows.npy --method pca --checkpoint net -o out").fine();
    assert_eq!(place.files(), ["net.nys", "net.rff", "out", "rows.npy"]);

    for method in ["knn", "energy", "kpca-exact", "kpca-exact-prop2"] {
        place.write("notes", "precious");
        let ran = place.run(&format!("fit rows.npy --method {method} --checkpoint notes -o none"));
        assert!(place.has("notes"), "{method} removed a file that is no checkpoint");
        assert!(ran.refused().contains("checkpoint"), "{method}");
    }
    let line =
        "fit rows.npy --method kpca-ensemble --sampling uniform --landmarks 32 --features 32";
    place.run(&format!("{line} --checkpoint notes -o out")).fine();
    assert!(place.has("notes"), "kpca-ensemble removed a file that is no checkpoint of its own");
}

#[test]
fn a_finished_fit_with_checkpoint_equals_one_without_and_leaves_no_checkpoint() {
    let place = Place::new();
    for flags in [
        "--method pca",
        "--method kpca-rff --features 64 --react p90",
        "--method kpca-nys --landmarks 48",
        "--method kpca-ensemble --landmarks 48 --features 64",
    ] {
        place.run(&format!("fit PACK {flags} -o plain")).fine();
        let line = format!("fit PACK {flags} --checkpoint c --checkpoint-every 0 -o saved");
        place.run(&line).fine();
        assert_eq!(place.read("saved"), place.read("plain"), "{flags}");
        assert_eq!(place.files(), ["plain", "saved"], "{flags}");
    }
}

// Pipes, devices and terminals

#[test]
fn a_reader_that_stops_listening_is_no_error() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net").fine();
    for line in [
        "score net PACK/ood/mnist.safetensors",
        "score net PACK/ood/mnist.safetensors --json",
        "eval PACK --method pca",
        "eval PACK --method pca --json -",
        "fit PACK --method pca -o other",
        "inspect net",
        "inspect PACK",
        "methods",
        "methods --json",
        "completions zsh",
        "man",
        "--help",
    ] {
        let mut child = place.start(line);
        drop(child.stdout.take());
        let ran = finish(line, child);
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{line}");
    }
    assert!(place.has("other"), "the work is done, whoever listens");
}

#[test]
fn check_answers_even_when_nobody_reads_the_rows() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net").fine();
    let line = "score net PACK/ood/mnist.safetensors --check";
    let mut child = place.start(line);
    drop(child.stdout.take());
    let ran = finish(line, child);
    assert_eq!((ran.code, &*ran.stderr), (Some(1), ""));
}

#[test]
fn nothing_but_results_is_printed_when_stderr_is_no_terminal() {
    let place = Place::new();
    place.run("synth --rows 30000 --width 32 -o rows.npy").fine();
    let line =
        "fit rows.npy --method kpca-nys --sampling uniform --landmarks 128 --react p90 -o net";
    place.run(line).fine();
    place.run("score net rows.npy -o scores.npy").fine();
    place.run("eval PACK --method kpca-rff --features 64").fine();
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error_for_files_and_for_stdout() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net").fine();
    let before = place.files();
    for line in [
        "fit PACK --method pca -o /dev/full",
        "eval PACK --method pca --json /dev/full",
        "synth --rows 1000 --width 64 -o /dev/full",
    ] {
        let message = place.run(line).refused();
        assert!(message.contains("/dev/full: No space left on device"), "{line}: {message}");
    }
    for line in ["score net PACK/test.safetensors", "methods", "man", "inspect net"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::new(line, place.command(line).stdout(full).output().unwrap());
        assert!(ran.refused().contains("cannot write to stdout"), "{line}");
    }
    assert_eq!(place.files(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn an_error_that_cannot_be_told_still_exits_2() {
    let place = Place::new();
    let line = "inspect missing.npy";
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ran = Ran::new(line, place.command(line).stderr(full).output().unwrap());
    assert_eq!(ran.code, Some(2));
    let mut child = place.start(line);
    drop(child.stderr.take());
    assert_eq!(finish(line, child).code, Some(2));
}

#[cfg(unix)]
fn is_device(path: &str) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).unwrap().file_type().is_char_device()
}

#[cfg(unix)]
#[test]
fn the_null_device_takes_output_and_stays_a_device() {
    let place = Place::new();
    place.run("fit PACK --method pca -o /dev/null").fine();
    place.run("eval PACK --method pca --json /dev/null").fine();
    place.run("synth --rows 100 --width 8 -o /dev/null").fine();
    assert!(is_device("/dev/null"));
    assert!(place.files().is_empty());
}

#[cfg(unix)]
#[test]
fn scores_can_go_to_devices() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net").fine();
    let csv = place.run("score net PACK/test.safetensors").fine();
    assert_eq!(place.run("score net PACK/test.safetensors -o /dev/null").fine(), "");
    assert!(is_device("/dev/null"));
    assert_eq!(place.run("score net PACK/test.safetensors -o /dev/stdout").fine(), csv);
}

#[cfg(unix)]
#[test]
fn output_through_a_link_replaces_what_it_points_to() {
    let place = Place::new();
    place.write("target", "old");
    std::os::unix::fs::symlink("target", place.path("link")).unwrap();
    place.run("fit PACK --method pca -o link").fine();
    assert!(std::fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    place.run("inspect target").fine();
}

// Signals

/// Rows for fits that take seconds.
#[cfg(unix)]
fn long_rows(place: &Place) {
    place.run("synth --rows 60000 --width 256 --type f16 -o rows.npy").fine();
}

#[cfg(unix)]
#[test]
fn an_interrupted_fit_exits_130_and_leaves_nothing() {
    let place = Place::new();
    long_rows(&place);
    let line = "fit rows.npy --method kpca-rff --features 2048 -o net";
    let child = place.start(line);
    std::thread::sleep(Duration::from_millis(1000));
    signal(&child, "INT");
    let ran = finish(line, child);
    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: interrupted; no output was written"), "{ran:?}");
    assert_eq!(place.files(), ["rows.npy"]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_fit_goes_on_from_its_checkpoint_to_the_same_detector() {
    let place = Place::new();
    long_rows(&place);
    let line = "fit rows.npy --method kpca-rff --features 1024 --checkpoint c --checkpoint-every 0";
    let mut child = place.start(&format!("{line} -o net"));
    assert!(wait_until(&mut child, || place.has("c")), "the fit ended before its first checkpoint");
    signal(&child, "INT");
    let ran = finish(line, child);
    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
    assert!(ran.stderr.contains("is in c, run the same command to go on"), "{ran:?}");
    assert_eq!(place.files(), ["c", "rows.npy"]);

    // A checkpoint belongs to one fit: other parameters are refused, and it stays.
    let message = place.run(&format!("{line} --gamma 7 -o net")).refused();
    assert!(message.contains("cannot resume: it was made with other parameters"), "{message}");
    let message = place.run(&format!("{line} --hold-out 0.5 -o net")).refused();
    assert!(message.contains("it held out other rows"), "{message}");
    assert_eq!(place.files(), ["c", "rows.npy"]);

    place.run(&format!("{line} -o net")).fine();
    assert_eq!(place.files(), ["net", "rows.npy"]);
    place.run("fit rows.npy --method kpca-rff --features 1024 -o whole").fine();
    assert!(place.read("net") == place.read("whole"), "another detector came out");
}

#[cfg(unix)]
#[test]
fn an_interrupt_after_the_pass_tells_where_the_progress_is() {
    let place = Place::new();
    place.run("synth --rows 4000 --width 64 -o rows.npy").fine();
    // One chunk, then seconds of eigenvectors.
    let line = "fit rows.npy --method kpca-rff --features 2500 --checkpoint c -o net";
    let mut child = place.start(line);
    assert!(wait_until(&mut child, || place.has("c")), "the fit ended before its first checkpoint");
    signal(&child, "INT");
    let ran = finish(line, child);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.stderr.contains(" in c, run the same command to go on"), "{ran:?}");
    assert_eq!(place.files(), ["c", "rows.npy"]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_score_exits_130_and_leaves_nothing() {
    let place = Place::new();
    place.run("synth --rows 60000 --width 64 -o rows.npy").fine();
    place.run("fit rows.npy --method knn -o net").fine();
    let line = "score net rows.npy -o scores.npy";
    let child = place.start(line);
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, "INT");
    let ran = finish(line, child);
    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
    assert_eq!(place.files(), ["net", "rows.npy"]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_synth_exits_130_and_leaves_nothing() {
    let place = Place::new();
    let line = "synth --rows 1000000000 --width 64 -o huge.npy";
    let child = place.start(line);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "INT");
    let ran = finish(line, child);
    assert!(place.files().is_empty(), "{:?}", place.files());
    assert_eq!(ran.code, Some(130), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_an_inspect_of_a_huge_file() {
    let place = Place::new();
    // A sparse file: zeros without blocks on the disk.
    File::create(place.path("huge.bin")).unwrap().set_len(1 << 30).unwrap();
    let line = "inspect huge.bin --raw f32:1024";
    let child = place.start(line);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "INT");
    let ran = finish(line, child);
    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn a_fit_under_nohup_outlives_the_terminal() {
    let place = Place::new();
    place.run("synth --rows 20000 --width 128 -o rows.npy").fine();
    let mut command = std::process::Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_offspan")).current_dir(place.path("."));
    command.args("fit rows.npy --method kpca-rff --features 1024 -o net".split(' '));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, "HUP");
    let ran = finish("nohup fit", child);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(place.has("net"));
}
