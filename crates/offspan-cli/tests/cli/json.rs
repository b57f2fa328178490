//! One rule for `--json`: alone it prints, with `=FILE` it writes beside the words.

use serde_json::Value;

use crate::util::Place;

/// What a run measured in seconds, which is never the same twice.
fn without_seconds(mut value: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("seconds");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut value);
    value
}

#[test]
fn json_prints_a_document_and_json_with_a_file_writes_it_beside_the_words() {
    let place = Place::new();
    place.small_pack("pack", 400, 100);
    place.run("fit pack -m pca -o net").fine();
    for line in [
        "fit pack -m pca -o other",
        "score net pack/test.safetensors",
        "calibrate net pack/test.safetensors -o other",
        "calibrate net --check pack/train.safetensors --level 1e-300",
        #[cfg(feature = "onnx")]
        "export net -o net.onnx",
        "monitor net pack/train.safetensors --false-alarm 1e-300",
        "eval pack -m pca",
        "tune pack -m pca --trials 2 --try components=2,3",
        "inspect pack",
        "inspect net",
        "methods",
    ] {
        let printed = place.run(&format!("{line} --json")).json();
        assert!(printed["schema"].is_string() || line == "methods", "{line}");
        assert_eq!(
            without_seconds(place.run(&format!("{line} --json=-")).json()),
            without_seconds(printed.clone()),
            "{line}"
        );
        let words = place.run(&format!("{line} --json=out.json")).fine();
        assert!(!words.starts_with(['{', '[']) && words.lines().count() > 1, "{line}: {words}");
        assert_eq!(without_seconds(place.json("out.json")), without_seconds(printed), "{line}");
        let message = place.run(&format!("{line} --json=missing/out.json")).refused();
        assert!(message.contains("missing/out.json"), "{line}: {message}");
    }
}

#[test]
fn a_file_behind_json_is_never_taken_for_its_value_except_in_eval() {
    let place = Place::new();
    place.small_pack("pack", 400, 100);
    place.run("fit --json pack -m pca -o net").json();
    place.run("inspect --json pack").json();
    place.run("score --json net pack/test.safetensors").json();
    place.run("score net --json pack/test.safetensors").json();
    // The old form of eval.
    place.run("eval pack -m pca --json old.json").fine();
    place.run("eval --json first.json pack -m pca").fine();
    let stdout = place.run("eval --json - pack -m pca").json();
    assert_eq!(without_seconds(place.json("old.json")), without_seconds(stdout.clone()));
    assert_eq!(without_seconds(place.json("first.json")), without_seconds(stdout.clone()));
    // A folder is no place for results, so it can only be the pack.
    assert_eq!(
        without_seconds(place.run("eval -m pca --json pack").json()),
        without_seconds(stdout)
    );
    for line in ["eval --json", "eval --json out.json -m pca", "eval --json=-"] {
        assert!(place.run(line).refused().contains("eval needs a pack folder"), "{line}");
    }
    assert!(place.run("eval").refused().contains("<PACK>"));
}
