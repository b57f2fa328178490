//! What each command prints and writes when all is well.

use std::sync::OnceLock;

use offspan::CATALOGUE;
use serde_json::Value;

use crate::util::{Place, npy_f32, read_scores};
use crate::{check_document, keys, parse_csv};

/// The lines of the demo.
const DEMO: [&str; 9] = [
    "auto",
    "energy",
    "knn",
    "pca, no cosine",
    "pca",
    "kpca-rff, 1024 features",
    "kpca-nys, 512 landmarks",
    "kpca-nys, 512 uniform, complete",
    "kpca-nys, 512 uniform, complete, fused",
];

/// What one run of the demo prints and writes as JSON.
fn demo() -> &'static (String, Value) {
    static RUN: OnceLock<(String, Value)> = OnceLock::new();
    RUN.get_or_init(|| {
        let place = Place::new();
        let text = place.run("demo --json=demo.json").fine();
        assert_eq!(place.files(), ["demo.json"], "a demo writes no files unless asked");
        (text, place.json("demo.json"))
    })
}

#[test]
fn demo_compares_its_methods_in_a_table() {
    let (text, _) = demo();
    for label in DEMO {
        let line = format!("{label}  ");
        assert_eq!(text.lines().filter(|l| l.starts_with(&line)).count(), 1, "{label}{text}");
    }
    assert!(text.contains("FPR95 / AUROC") && text.contains("5000 training rows of width 128"));
}

#[test]
fn demo_json_is_an_eval_document_in_fractions() {
    let (_, document) = demo();
    check_document(document, "demo", &DEMO, "fpr95");
    for result in document["results"].as_array().unwrap() {
        assert_eq!(keys(&result["sets"]), ["digits", "mnist", "textures"]);
        assert!(result["average"]["auroc"].as_f64().unwrap() > 0.9, "{}", result["method"]);
    }
}

#[test]
fn every_line_of_the_demo_is_what_eval_says_under_its_name_or_its_command() {
    let place = Place::new();
    let (text, document) = demo();
    let lines = document["results"].as_array().unwrap();
    let plain: Vec<&str> = DEMO.into_iter().filter(|label| !label.contains(',')).collect();
    let eval =
        |flags: &str| place.run(&format!("eval PACK {flags} --json")).json()["results"].take();
    let by_name = eval(&format!("--method {}", plain.join(",")));
    for line in lines {
        let label = line["method"].as_str().unwrap();
        let single = match plain.iter().position(|name| *name == label) {
            Some(index) => by_name[index].clone(),
            None => {
                let start = format!("  {label}: ");
                let command = text.lines().find_map(|line| line.strip_prefix(&start));
                eval(command.unwrap_or_else(|| panic!("no command for {label} in {text}")))[0]
                    .clone()
            }
        };
        for part in ["params", "sets", "average"] {
            assert_eq!(line[part], single[part], "{part} of {label}");
        }
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
    let text = place.run("fit PACK -m kpca-nys --landmarks 64 -o net.offspan").fine();
    for part in [
        "kpca-nys fitted on 4740 × 128 features",
        "64 landmarks, 64 distinct",
        "directions kept",
        "set with 260 training rows that the fit did not see",
        "written to net.offspan (",
        " kB)",
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

    // A given threshold keeps more than it promises of the rows it came from, to be sure.
    threshold("--calibrate PACK/test.safetensors --keep 0.8");
    let text = place.run("score net.offspan PACK/test.safetensors").fine();
    let kept = parse_csv(&text).1.iter().filter(|decision| *decision == "in").count();
    assert!((1215..1240).contains(&kept), "{kept}");
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
    assert!(csv.starts_with("row,score,p_value,decision\n0,"), "{csv}");
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
    place.run("fit PACK --method pca --calibrate PACK/test.safetensors --keep 0.998 -o net").fine();
    let lowest = place.npy_of("all.npy", "test.safetensors", "features");
    let scores = parse_csv(&place.run("score net all.npy").fine()).1;
    let rows: Vec<usize> = (0..1500).filter(|&row| scores[row] == "in").collect();
    place.write("in.npy", npy_f32(&lowest.select(ndarray::Axis(0), &rows)));
    let inside = place.run("score net in.npy --check");
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
        let row = row.replace("†", "");
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
    place.run("fit PACK -m kpca-nys --landmarks 64 --react p90 -o net.offspan").fine();
    let text = place.run("inspect net.offspan").fine();
    for part in [
        "an offspan detector",
        "kpca-nys",
        "4740 training rows of width 128, fingerprint xxh3:",
        "activations cut at",
        "64 landmarks",
        "0.99:",
        "set with 260 training rows that the fit did not see",
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
        for parameter in CATALOGUE.iter().flat_map(|method| &method.parameters) {
            assert!(help.contains(&parameter.flag), "{command} {}", parameter.flag);
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
        let line =
            format!("synth --rows 300 --width 12 --classes 3 --type {element} -o x.npy --force");
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

#[test]
fn rows_of_a_pack_that_are_for_the_threshold_set_it() {
    let place = Place::new();
    place.small_pack("pack", 600, 300);
    let source = |flags: &str| {
        let line = format!("fit pack --method pca {flags} -o net --force --json");
        place.run(&line).json()["info"]["threshold"]["source"].clone()
    };
    let (held_out, given) = (source(""), source("--calibrate pack/test.safetensors"));
    assert_ne!(held_out, given);
    let told = place.run("fit pack --method pca -o net --force").fine();
    let first = told.lines().next().unwrap();
    assert!(first.ends_with("set with training rows and promises nothing of new ones"), "{first}");
    for name in ["calibrate", "val"] {
        let split = place.path(&format!("pack/{name}.safetensors"));
        std::fs::copy(place.path("pack/test.safetensors"), &split).unwrap();
        assert_eq!(source(""), given, "{name}");
        // Who asks for held-out rows gets them.
        assert_eq!(source("--hold-out 0.2"), held_out, "{name}");
        let told = place.run("fit pack --method pca -o net --force").fine();
        assert!(!told.lines().next().unwrap().contains("promises nothing"), "{told}");
        std::fs::remove_file(split).unwrap();
    }
    for name in ["calibrate", "val"] {
        let split = place.path(&format!("pack/{name}.safetensors"));
        std::fs::copy(place.path("pack/test.safetensors"), split).unwrap();
    }
    let told = place.run("fit pack --method pca -o net --force").refused();
    assert!(told.contains("both `calibrate` and `val`"), "{told}");
}
