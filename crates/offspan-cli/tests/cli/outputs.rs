//! Outputs cost no data: no command replaces an input, or a file of another kind without being told to.

use serde_json::Value;

use crate::util::{Place, npy};

/// Runs lines that must be refused with these words, and checks that no file in the folder changed.
#[track_caller]
fn refuses(place: &Place, cases: &[(&str, &str)]) {
    for (line, words) in cases {
        let before: Vec<(String, Option<Vec<u8>>)> = contents(place);
        let message = place.run(line).refused();
        assert!(message.contains(words), "{line}: {message}");
        assert_eq!(contents(place), before, "{line}");
    }
}

fn contents(place: &Place) -> Vec<(String, Option<Vec<u8>>)> {
    let read = |name: String| {
        let bytes = std::fs::read(place.path(&name)).ok();
        (name, bytes)
    };
    place.files().into_iter().map(read).collect()
}

const INPUT: &str = "is one of the inputs";

/// Features, logits, a last layer and a detector of them.
fn place_with_data() -> Place {
    let place = Place::new();
    place.npy_of("train.npy", "train.safetensors", "features");
    place.npy_of("logits.npy", "train.safetensors", "logits");
    place.npy_of("test.npy", "test.safetensors", "features");
    place.npy_head();
    place.run("fit train.npy -m pca -o net").fine();
    place
}

#[test]
fn an_output_that_is_an_input_is_refused_before_any_work() {
    let place = place_with_data();
    place.write("rows.txt", "0\n5\n9\n");
    refuses(
        &place,
        &[
            ("fit train.npy -m pca -o train.npy", INPUT),
            ("fit train.npy -m pca -o train.npy --force", INPUT),
            ("fit train.npy -m pca -o ./train.npy", INPUT),
            ("fit train.npy -m pca --calibrate test.npy -o test.npy --force", INPUT),
            ("fit train.npy -m energy --logits logits.npy -o logits.npy --force", INPUT),
            ("fit train.npy -m energy --head weight.npy,bias.npy -o bias.npy --force", INPUT),
            ("fit train.npy -m kpca-nys --landmark-rows rows.txt -o rows.txt --force", INPUT),
            ("fit train.npy -m pca --checkpoint train.npy -o out", INPUT),
            ("score net test.npy -o test.npy", INPUT),
            ("score net test.npy -o test.npy --force", INPUT),
            ("calibrate net test.npy -o test.npy --force", INPUT),
            ("monitor net test.npy --state test.npy", INPUT),
            ("monitor net test.npy --state net", INPUT),
            ("eval PACK --detector net --json net --force", INPUT),
            ("fit missing.npy -m pca -o out", "missing.npy"),
        ],
    );
    // What the issue reported, with safetensors.
    std::fs::copy(crate::util::demo_pack().join("train.safetensors"), place.path("t.safetensors"))
        .unwrap();
    refuses(&place, &[("fit t.safetensors -m pca -o t.safetensors", INPUT)]);
    // A detector may take its own place with another threshold.
    place.run("calibrate net test.npy -o net").fine();
}

#[cfg(unix)]
#[test]
fn links_and_other_ways_to_an_input_are_known() {
    let place = place_with_data();
    std::fs::create_dir(place.path("sub")).unwrap();
    std::os::unix::fs::symlink("train.npy", place.path("soft.npy")).unwrap();
    std::fs::hard_link(place.path("train.npy"), place.path("hard.npy")).unwrap();
    std::os::unix::fs::symlink("..", place.path("sub/up")).unwrap();
    refuses(
        &place,
        &[
            ("fit train.npy -m pca -o soft.npy --force", INPUT),
            ("fit soft.npy -m pca -o train.npy --force", INPUT),
            ("fit train.npy -m pca -o hard.npy --force", INPUT),
            ("fit train.npy -m pca -o sub/up/train.npy --force", INPUT),
            ("fit train.npy -m pca -o sub/../train.npy --force", INPUT),
        ],
    );
    // A checkpoint that is the detector by another name would be removed with it.
    place.run("fit train.npy -m pca -o net").fine();
    std::os::unix::fs::symlink("net", place.path("c")).unwrap();
    refuses(&place, &[("fit train.npy -m pca --checkpoint c -o net", "--checkpoint")]);
}

#[test]
fn a_split_of_a_pack_is_an_input_too() {
    let place = Place::new();
    place.small_pack("pack", 300, 60);
    let train = place.read("pack/train.safetensors");
    for line in [
        "fit pack -m pca -o pack/train.safetensors --force",
        "fit pack -m pca -o pack/ood/digits.safetensors --force",
        "fit pack -m pca -o pack/head.safetensors --force",
        "eval pack -m pca --json pack/test.safetensors --force",
    ] {
        assert!(place.run(line).refused().contains(INPUT), "{line}");
    }
    assert_eq!(place.read("pack/train.safetensors"), train);
    // Beside them is room.
    place.run("fit pack -m pca -o pack/net.offspan").fine();
    place.run("fit pack -m pca -o pack/net.offspan").fine();
}

#[test]
fn a_file_of_another_kind_is_replaced_only_by_force() {
    let place = place_with_data();
    place.write("notes.txt", "precious");
    place.write("notes.json", "{\"precious\": true}");
    place.write("notes.csv", "name,age\nA,1\n");
    place.write("labels.npy", npy("<i8", &[2], &[0; 16]));
    place.run("monitor net test.npy --state m").fine();
    place.run("score net test.npy -o scores.npy").fine();
    place.run("score net test.npy -o scores.csv").fine();
    let kind = "would take its place";
    refuses(
        &place,
        &[
            (
                "fit train.npy -m pca -o test.npy",
                "test.npy is a .npy file such as features, and an \
              offspan detector would take its place; choose another name (--force replaces it)",
            ),
            ("fit train.npy -m pca -o m", "m is an offspan monitor"),
            ("fit train.npy -m pca -o notes.txt", kind),
            ("fit train.npy -m pca -o scores.csv", "is a file of scores"),
            ("score net test.npy -o train.npy", kind),
            ("score net test.npy -o labels.npy", kind),
            ("score net test.npy -o notes.csv", kind),
            ("calibrate net test.npy -o train.npy", kind),
            ("calibrate net --keep 0.9 -o notes.txt", kind),
            ("eval PACK -m pca --json notes.json", kind),
            ("eval PACK -m pca --json train.npy", kind),
            ("synth --rows 10 --width 2 -o net", kind),
            ("synth --rows 10 --width 2 -o scores.npy", kind),
            ("monitor net test.npy --state train.npy", "train.npy is a .npy file"),
            ("monitor --reset --state train.npy", "train.npy is a .npy file"),
            ("fit train.npy -m pca --checkpoint notes.txt -o out", "an offspan checkpoint would"),
            ("fit train.npy -m pca --checkpoint notes.txt -o out --force", "offspan checkpoint"),
        ],
    );
    // The same kind is fine, and so is an empty file.
    place.write("empty", "");
    for line in [
        "fit train.npy -m pca -o net",
        "fit train.npy -m pca -o empty",
        "score net test.npy -o scores.npy",
        "score net test.npy -o scores.csv",
        "calibrate net --keep 0.9 -o net",
        "eval PACK -m pca --json result.json",
        "eval PACK -m pca --json result.json",
        "synth --rows 10 --width 2 -o few.npy",
    ] {
        place.run(line).fine();
    }
    // Features are made once, and may be somebody's data.
    let again = place.run("synth --rows 20 --width 2 -o few.npy");
    assert!(
        again.stderr.contains("few.npy is there already; choose another name (--force"),
        "{again:?}"
    );
    place.run("synth --rows 20 --width 2 -o few.npy --force").fine();
    // Those who mean it.
    for line in [
        "fit train.npy -m pca -o m --force",
        "score net test.npy -o notes.csv --force",
        "calibrate net --keep 0.9 -o notes.txt --force",
        "eval PACK -m pca --json notes.json --force",
        "synth --rows 10 --width 2 -o scores.npy --force",
    ] {
        place.run(line).fine();
    }
    let document: Value = place.json("notes.json");
    assert_eq!(document["schema"], "offspan.eval/1");
    // What has no effect is refused.
    for line in ["score net test.npy --force", "eval PACK -m pca --force", "demo --force"] {
        place.run(line).refused();
    }
}

#[test]
fn folders_of_results_are_written_only_over_results() {
    let place = Place::new();
    place.small_pack("pack", 300, 60);
    let folder = |name: &str| std::fs::create_dir_all(place.path(name)).unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        folder(name);
    }
    place.write("a/report.html", "<!doctype html><p>precious</p>");
    place.write("b/results.csv", "precious");
    place.write("c/tune.json", "{\"precious\": true}");
    place.write("d/sampling.csv", "precious");
    // As published figures for the paper's page, which would be replaced by the page's own.
    place.write("e/kernels.csv", "precious");
    for (line, words) in [
        ("eval pack -m pca --report a", "a/report.html is a file of another kind"),
        ("eval pack -m pca --report b", "b/results.csv is there without a page of offspan"),
        ("tune pack -m pca -o c", "c/tune.json is a file of another kind"),
        ("study sampling pack -o d", "d/sampling.csv is there without a page"),
        ("study paper pack --published e/kernels.csv -o e --force", INPUT),
    ] {
        let message = place.run(line).refused();
        assert!(message.contains(words), "{line}: {message}");
    }
    assert_eq!(place.read("b/results.csv"), b"precious");
    assert_eq!(place.read("d/sampling.csv"), b"precious");
    // Again over its own results, and by force over others.
    place.run("eval pack -m pca --report out").fine();
    place.run("eval pack -m pca --report out").fine();
    place.run("eval pack -m pca --report b --force").fine();
    place.run("study sampling pack --landmarks 32 -o s").fine();
    place.run("study sampling pack --landmarks 32 -o s").fine();
    // The embedded pack replaces none of other rows.
    let message = place.run("demo --write-pack pack").refused();
    assert!(message.contains("pack/train.safetensors is there with other contents"), "{message}");
}

#[test]
fn inspect_shows_the_checksum_and_says_where_there_is_none() {
    let place = place_with_data();
    let text = place.run("inspect net").fine();
    let json = place.run("inspect net --json").json();
    let checksum = json["checksum"].as_str().unwrap();
    assert!(checksum.starts_with("xxh3-128:") && text.contains(checksum), "{text}");
    // As an earlier version wrote it.
    let bytes = place.read("net");
    let (length, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let document = &header.metadata().as_ref().unwrap()["offspan.detector"];
    let mut document: Value = serde_json::from_str(document).unwrap();
    document["version"] = 2.into();
    document.as_object_mut().unwrap().remove("checksum");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert!(length > 0);
    let metadata = [("offspan.detector".to_owned(), document.to_string())].into();
    place.write("old", safetensors::serialize(tensors.tensors(), Some(metadata)).unwrap());
    assert!(place.run("inspect old").fine().contains("no checksum"));
    assert!(place.run("inspect old --json").json()["checksum"].is_null());
    assert_eq!(place.run("score old test.npy").fine(), place.run("score net test.npy").fine());

    // Some bytes in the middle, as in the issue.
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 1001].iter_mut().for_each(|byte| *byte ^= 0x55);
    place.write("damaged.offspan", damaged);
    for line in ["score damaged.offspan test.npy", "inspect damaged.offspan"] {
        let message = place.run(line).refused();
        assert!(message.contains("an offspan detector that is damaged"), "{message}");
    }
}
