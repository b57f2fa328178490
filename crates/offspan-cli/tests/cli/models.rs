//! Models in front of everything: `extract`, `fit MODEL DATA`, `score --model MODEL`.

use std::path::Path;

use image::{Rgb, RgbImage};
use serde_json::Value;

use crate::util::{Place, f32_bytes, matrix, npy};

// Also compiled into the tests of `offspan-onnx`.
#[path = "../../../offspan-onnx/tests/util/models.rs"]
mod build;

use build::{bytes, network, numbers, perceptron, perceptron_by_hand, random, whole};

/// Images of two kinds: smooth for the classes, noise for what is none.
fn picture(kind: &str, seed: u32) -> RgbImage {
    let noise = numbers(192, u64::from(seed) + 1);
    RgbImage::from_fn(8, 8, |x, y| {
        let at = ((y * 8 + x) * 3) as usize;
        let level = match kind {
            "flat" => 60.0,
            "ramp" => 20.0 + 25.0 * x as f32,
            _ => 128.0,
        };
        let spread = if kind == "noise" { 127.0 } else { 12.0 };
        Rgb([0, 1, 2].map(|c| (level + spread * noise[at + c]).clamp(0.0, 255.0) as u8))
    })
}

fn write_images(place: &Place, folder: &str, kind: &str, count: u32) {
    let folder = place.path(folder);
    std::fs::create_dir_all(&folder).unwrap();
    for seed in 0..count {
        picture(kind, seed).save(folder.join(format!("{seed:03}.png"))).unwrap();
    }
}

/// A place with a network and images in a folder for each part of a pack.
fn place_with_network() -> Place {
    let place = Place::new();
    place.write("net.onnx", bytes(&network(-1)));
    for (folder, kind, count) in [
        ("all/train/flat", "flat", 120),
        ("all/train/ramp", "ramp", 120),
        ("all/val/ramp", "ramp", 70),
        ("all/test/flat", "flat", 20),
        ("all/ood/static/any", "noise", 20),
    ] {
        write_images(&place, folder, kind, count);
    }
    place
}

const AS_THEY_ARE: &str = "--preprocess none --scale 1/255";

#[test]
fn a_folder_of_parts_becomes_a_pack_that_every_command_takes() {
    let place = place_with_network();
    let text = place.run(&format!("extract net.onnx all -o pack {AS_THEY_ARE}")).fine();
    for words in [
        "net.onnx: opset 17, input [?, 3, 8, 8], xxh3-128:",
        "features: `flat`, pooled avg",
        "logits: `logits`",
        "images: not resized, rgb bytes / 255, minus 0, over 1, nchw\n",
        "train: 240 rows of all/train; the network agrees with",
        "calibrate: 70 rows of all/val",
        "ood/static: 20 rows of all/ood/static\n",
        "written to pack",
        "next: offspan fit pack -o net.offspan",
    ] {
        assert!(text.contains(words), "`{words}` is not in:\n{text}");
    }
    let described = String::from_utf8(place.read("pack/pack.toml")).unwrap();
    for words in [
        "schema = \"offspan.pack/1\"",
        "feature_tensor = \"flat\"",
        "[source.preprocess]",
        "classes = [\"flat\", \"ramp\"]",
        "[splits.train]",
    ] {
        assert!(described.contains(words), "`{words}` is not in:\n{described}");
    }
    let document = place.run("eval pack --method pca,energy --json -").json();
    assert_eq!(document["results"].as_array().unwrap().len(), 2);
    let fitted = place.run("fit pack -o net.offspan --json").json();
    assert_eq!(fitted["info"]["source"]["feature_tensor"], "flat");
    assert_eq!(fitted["info"]["threshold"]["source"], "given");
    let inspected = place.run("inspect net.offspan").fine();
    assert!(inspected.contains("features: `flat` of net.onnx (xxh3-128:"), "{inspected}");
}

#[test]
fn fit_and_score_go_the_whole_way_and_agree_with_the_long_way() {
    let place = place_with_network();
    let said = place.run(&format!("fit net.onnx all -o short.offspan {AS_THEY_ARE}")).fine();
    assert!(said.contains("train: 240 rows") && said.contains("auto fitted on"), "{said}");
    place.run(&format!("extract net.onnx all -o pack {AS_THEY_ARE}")).fine();
    place.run("fit pack -o long.offspan").fine();
    assert!(place.read("short.offspan") == place.read("long.offspan"));

    let images = place
        .run("score short.offspan all/ood/static all/test/flat/003.png --model net.onnx")
        .fine();
    let lines: Vec<&str> = images.lines().collect();
    assert_eq!((lines[0], lines.len()), ("file,row,score,p_value,decision", 22));
    assert!(lines[1].starts_with("all/ood/static/any/000.png,0,"), "{}", lines[1]);
    assert!(lines[21].starts_with("all/test/flat/003.png,0,"), "{}", lines[21]);
    let features = place.run("score long.offspan pack/ood/static.safetensors").fine();
    let score = |line: &str, column: usize| line.split(',').nth(column).unwrap().to_owned();
    for (row, line) in features.lines().skip(1).enumerate() {
        assert_eq!(score(lines[row + 1], 2), score(line, 1), "row {row}");
    }
    // Nothing is left behind, and the steps for images need not be said again.
    assert!(place.partials().is_empty());
}

#[test]
fn another_model_is_refused_with_words() {
    let place = place_with_network();
    place.run(&format!("fit net.onnx all -o net.offspan {AS_THEY_ARE}")).fine();
    let mut other = network(-1);
    other.graph.as_mut().unwrap().initializer[0] = random("w1", &[5, 3, 3, 3], 12345);
    place.write("other.onnx", bytes(&other));
    let refused = place.run("score net.offspan all/test --model other.onnx").refused();
    assert!(
        refused.contains(
            "other.onnx: another model than the one that the detector was fitted with (net.onnx)"
        ),
        "{refused}"
    );
    // The name is not what counts.
    std::fs::copy(place.path("net.onnx"), place.path("renamed.onnx")).unwrap();
    place.run("score net.offspan all/test --model renamed.onnx").fine();
}

#[test]
fn bad_images_are_named_when_they_are_skipped() {
    let place = place_with_network();
    place.write("all/train/flat/zz.png", "no image");
    place.write("all/test/flat/zz.png", "");
    let fit = format!("fit net.onnx all -o net.offspan {AS_THEY_ARE}");
    let stopped = place.run(&fit).refused();
    assert!(stopped.contains("all/train/flat/zz.png: not an image that can be read"), "{stopped}");
    assert!(!place.has("net.offspan"));
    let said = place.run(&format!("{fit} --on-error skip")).fine();
    assert!(
        said.contains("1 images were skipped:\n    all/train/flat/zz.png: not an image"),
        "{said}"
    );
    let ran = place.run("score net.offspan all/test --model net.onnx --on-error skip");
    assert_eq!(ran.code, Some(0));
    assert_eq!(
        ran.stderr,
        "skipped all/test/flat/zz.png: the file is empty, so there is no image in it\n"
    );
    assert_eq!(ran.stdout.lines().count(), 21);
    let document = place
        .run(&format!("extract net.onnx all -o pack --on-error skip --json {AS_THEY_ARE}"))
        .json();
    assert_eq!(document["schema"], "offspan.extract/1");
    let skipped: Vec<&Value> =
        document["splits"].as_array().unwrap().iter().map(|s| &s["skipped"][0]["path"]).collect();
    assert_eq!(
        skipped,
        ["all/train/flat/zz.png", "all/test/flat/zz.png"]
            .map(Value::from)
            .iter()
            .chain([&Value::Null; 2])
            .collect::<Vec<_>>()
    );
}

/// An array of inputs for the perceptron.
fn write_array(place: &Place, name: &str, rows: usize, seed: u64) -> Vec<f32> {
    let values = numbers(6 * rows, seed);
    place.write(name, npy("<f4", &[rows, 6], &f32_bytes(&values)));
    values
}

#[test]
fn arrays_and_labels_become_splits() {
    let place = Place::new();
    place.write("mlp.onnx", bytes(&perceptron()));
    let values = write_array(&place, "x.npy", 30, 5);
    let labels: Vec<u8> = (0..30_i64).flat_map(|i| (i % 3).to_le_bytes()).collect();
    place.write("y.npy", npy("<i8", &[30], &labels));
    place.run("extract mlp.onnx x.npy --labels y.npy -o pack").fine();
    place.run("extract mlp.onnx x.npy --split ood/same -o pack --type f16").fine();
    let features = matrix(&place.path("pack/train.safetensors"), "features");
    let expected = perceptron_by_hand(&values[..6]).0;
    for (got, expected) in features.row(0).iter().zip(expected) {
        assert!((f64::from(*got) - expected).abs() < 1e-5);
    }
    let inspected = place.run("inspect pack").fine();
    assert!(inspected.contains("same"), "{inspected}");
}

#[test]
fn several_values_become_packs_for_the_study_of_layers() {
    let place = place_with_network();
    let flags = "--feature-tensor early=r1:avg --feature-tensor late=maps:max --maps";
    let text = place.run(&format!("extract net.onnx all -o layers {flags} {AS_THEY_ARE}")).fine();
    assert!(
        text.contains("next: offspan study layers layers/early layers/late -o study"),
        "{text}"
    );
    let maps = place
        .run("extract net.onnx all/test --split test -o with-maps --maps --preprocess none")
        .fine();
    assert!(maps.contains("maps: `maps`"), "{maps}");
    place.run("study layers layers/early layers/late -o study").fine();
    assert!(place.has("study/layers.html"));
}

#[test]
fn what_is_there_stays_and_a_stopped_run_goes_on() {
    let place = place_with_network();
    let line = format!("extract net.onnx all -o pack {AS_THEY_ARE}");
    place.run(&line).fine();
    let first = place.read("pack/train.safetensors");
    let refused = place.run(&line).refused();
    assert!(refused.contains("pack/train.safetensors is there already"), "{refused}");
    std::fs::remove_file(place.path("pack/test.safetensors")).unwrap();
    let ran = place.run(&format!("{line} --resume"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("note: train is there already and stays"), "{}", ran.stderr);
    assert!(ran.stderr.contains("note: nothing to resume for test"), "{}", ran.stderr);
    assert!(place.has("pack/test.safetensors") && place.read("pack/train.safetensors") == first);

    // A bad image ends a run; what was done before it is kept.
    write_images(&place, "many", "ramp", 40);
    place.write("many/030.png", "no image");
    let many = format!("extract net.onnx many -o other --batch 8 {AS_THEY_ARE}");
    place.run(&many).refused();
    picture("ramp", 30).save(place.path("many/030.png")).unwrap();
    let refused = place.run(&many).refused();
    assert!(refused.contains("--resume goes on with it, --force begins anew"), "{refused}");
    let text = place.run(&format!("{many} --resume")).fine();
    assert!(text.contains("train: 40 rows of many, 24 of them from the run before"), "{text}");
    place.run(&format!("extract net.onnx many -o whole {AS_THEY_ARE}")).fine();
    assert!(place.read("whole/train.safetensors") == place.read("other/train.safetensors"));
}

#[test]
fn a_finished_split_of_another_model_or_other_steps_does_not_stay_unsaid() {
    let place = place_with_network();
    place.run(&format!("extract net.onnx all -o pack {AS_THEY_ARE}")).fine();
    let mut other = network(-1);
    other.graph.as_mut().unwrap().initializer[0] = random("w1", &[5, 3, 3, 3], 12345);
    place.write("other.onnx", bytes(&other));
    for line in [
        format!("extract other.onnx all -o pack --resume {AS_THEY_ARE}"),
        "extract net.onnx all -o pack --resume --preprocess none --scale 1/127.5".to_owned(),
    ] {
        let refused = place.run(&line).refused();
        assert!(refused.contains("the pack's other splits come from"), "{line}: {refused}");
    }
}

#[test]
fn a_run_that_was_killed_behind_its_file_and_before_its_notes_is_finished() {
    let place = place_with_network();
    write_images(&place, "many", "ramp", 40);
    place.run(&format!("extract net.onnx many -o whole {AS_THEY_ARE}")).fine();
    place.write("many/030.png", "no image");
    let line = format!("extract net.onnx many -o pack --batch 8 {AS_THEY_ARE}");
    place.run(&line).refused();
    picture("ramp", 30).save(place.path("many/030.png")).unwrap();
    std::fs::copy(place.path("whole/train.safetensors"), place.path("pack/train.safetensors"))
        .unwrap();
    place.run(&format!("{line} --resume")).fine();
    for file in ["train.safetensors", "head.safetensors", "pack.toml"] {
        let [pack, whole] = ["pack", "whole"].map(|pack| place.read(&format!("{pack}/{file}")));
        assert!(pack == whole, "{file}");
    }
    assert!(!place.has("pack/.extract-train"));
}

#[test]
fn training_rows_from_elsewhere_are_not_said_to_be_the_models() {
    let place = place_with_network();
    place.run(&format!("extract net.onnx all -o whole {AS_THEY_ARE}")).fine();
    std::fs::create_dir(place.path("pack")).unwrap();
    std::fs::copy(place.path("whole/train.safetensors"), place.path("pack/train.safetensors"))
        .unwrap();
    place.run(&format!("extract net.onnx all/test --split test -o pack {AS_THEY_ARE}")).fine();
    let fitted = place.run("fit pack --method pca --hold-out 0 -o net.offspan --json").json();
    assert!(fitted["info"]["source"].is_null(), "{}", fitted["info"]["source"]);
}

#[test]
fn of_two_runs_with_one_pack_the_second_is_told() {
    let place = place_with_network();
    std::fs::create_dir(place.path("pack")).unwrap();
    let lock = offspan::io::FileLock::try_new(place.path("pack/pack.toml")).unwrap();
    let line = format!("extract net.onnx all -o pack {AS_THEY_ARE}");
    let refused = place.run(&line).refused();
    assert!(refused.contains("pack/pack.toml is in use: process"), "{refused}");
    drop(lock);
    place.run(&line).fine();
    assert!(!place.has("pack/pack.toml.lock"));
    // Of a run that is refused no folder stays.
    place.run("extract net.onnx all -o other --crop 9").refused();
    assert!(!place.has("other"));
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_no_text_are_shown_as_far_as_they_are() {
    use std::os::unix::ffi::OsStrExt;

    let place = place_with_network();
    let bad = place.path("all/test/flat").join(std::ffi::OsStr::from_bytes(b"\xff.png"));
    std::fs::write(bad, "no image").unwrap();
    let line = format!("extract net.onnx all -o pack --on-error skip --json {AS_THEY_ARE}");
    let document = place.run(&line).json();
    assert_eq!(document["splits"][1]["skipped"][0]["path"], "all/test/flat/\u{fffd}.png");
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    let place = place_with_network();
    place.run(&format!("fit net.onnx all -o net.offspan {AS_THEY_ARE}")).fine();
    place.run(&format!("extract net.onnx all -o pack {AS_THEY_ARE}")).fine();
    place.run("fit pack/train.safetensors --method pca --hold-out 0 -o plain.offspan").fine();
    for (line, words) in [
        ("fit net.onnx -o d", "is a model: expected what to run it over behind it"),
        ("fit pack all -o d", "expected one pack or feature file, or a model"),
        ("fit pack -o d --crop 7", "flags of models and images have no meaning for features"),
        ("fit net.onnx all -o d --head h.npy,b.npy", "--head: expected feature files, got a model"),
        ("fit net.onnx all -o d --feature-tensor r1 --feature-tensor maps", "a detector has one"),
        ("score net.offspan pack/ood --batch 4", "they go with --model MODEL.onnx"),
        ("score net.offspan all/test --model net.onnx --raw f32:7", "are for feature files"),
        (
            "score plain.offspan all/test --model net.onnx",
            "does not say which model gave its features",
        ),
        (
            "extract net.onnx all -o p --split nonsense",
            "expected train, test, calibrate or ood/NAME",
        ),
        ("extract net.onnx all -o p --crop 9", "--crop: expected 8 × 8 pixels"),
        (
            "extract net.onnx all -o p --feature-tensor nowhere",
            "expected the name of a value in net.onnx",
        ),
        ("extract net.onnx all -o p --mean 1,2", "--mean: expected one number, or 3"),
        (
            "extract net.onnx all -o p --engine ort",
            "--engine: expected rten, for this program was built without",
        ),
        ("extract net.onnx gone -o p", "cannot open gone"),
        ("extract gone.onnx all -o p", "cannot open gone.onnx"),
        ("extract all all -o p", "expected a file with an ONNX model"),
        ("extract net.onnx all -o pack --force", "in another way"),
    ] {
        let refused = match place.run(line) {
            // Values that clap refuses are told with the usage.
            ran if ran.stderr.contains("For more information") => ran.stderr,
            ran => ran.refused(),
        };
        // With an engine of its own the last one is another test's business.
        if line.contains("--engine ort") && cfg!(feature = "ort") {
            continue;
        }
        assert!(refused.contains(words), "{line}: `{words}` is not in {refused}");
        assert!(!place.has("d") && !place.has("p/train.safetensors"), "{line}");
    }
}

/// Hostile files in 600 MB of memory: each is a sentence.
#[cfg(target_os = "linux")]
#[test]
fn files_that_ask_for_much_memory_do_not_get_it() {
    let place = place_with_network();
    let filled = |kind: &str, inputs: &[&str]| {
        let mut model = perceptron();
        let graph = model.graph.as_mut().unwrap();
        graph.node[0].input[0] = "large".into();
        graph.node.insert(0, build::node(kind, inputs, "large"));
        graph.initializer.push(whole("sizes", &[1 << 20, 1 << 20]));
        graph.initializer.push(build::tensor("column", &[60_000, 1], &vec![0.0; 60_000]));
        graph.initializer.push(build::tensor("line", &[1, 60_000], &vec![0.0; 60_000]));
        model
    };
    place.write("fill.onnx", bytes(&filled("ConstantOfShape", &["sizes"])));
    place.write("outer.onnx", bytes(&filled("Mul", &["column", "line"])));
    write_array(&place, "x.npy", 3, 1);
    let thin = RgbImage::new(1, 65_000);
    thin.save(place.path("thin.png")).unwrap();
    for line in [
        "extract fill.onnx x.npy -o p",
        "extract outer.onnx x.npy -o p",
        "extract net.onnx thin.png -o p --size 8000 --crop 8",
    ] {
        let limited = "ulimit -d 600000; exec \"$0\" \"$@\"";
        let mut command = std::process::Command::new("sh");
        command.args(["-c", limited, env!("CARGO_BIN_EXE_offspan")]).current_dir(place.path("."));
        let output = command.args(line.split(' ')).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains("expected at most"), "{line}: {stderr}");
    }
    assert!(!Path::new("p").exists());
}
