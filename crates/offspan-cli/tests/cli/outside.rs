//! What comes from outside in the same tables: scores of other programs, the paper's own figures, and clusters where
//! nobody named classes.

use crate::util::{Place, matrix, npy_f32};

/// Scores of a method of ours, written as another program would, have the figures of the method itself.
#[test]
fn scores_from_files_have_the_figures_of_the_method_that_gave_them() {
    let place = Place::new();
    place.small_pack("pack", 200, 60);
    place.run("fit pack --method knn -k 5 --hold-out 0 -o net").fine();
    std::fs::create_dir_all(place.path("scores/far")).unwrap();
    place.run("score net pack/test.safetensors -o scores/test.npy").fine();
    place.run("score net pack/ood/digits.safetensors -o scores/digits.npy").fine();
    place.run("score net pack/ood/textures.safetensors -o scores/textures.csv").fine();
    place.write("scores/far/other.npy", place.read("scores/test.npy"));
    let line = "eval pack --method knn:neighbours=5 --scores theirs=scores --compare theirs,knn:neighbours=5 --json";
    let ran = place.run(line);
    assert!(
        ran.stderr.contains("theirs: scores of no set of this pack: scores/far/other.npy"),
        "{ran:?}"
    );
    // Beside a remark on stderr.
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let [ours, theirs] = document["results"].as_array().unwrap().as_slice() else {
        panic!("{document}")
    };
    assert_eq!((&ours["sets"], &ours["average"]), (&theirs["sets"], &theirs["average"]));
    assert_eq!((&theirs["method"], &theirs["fit"]), (&"theirs".into(), &serde_json::Value::Null));
    assert_eq!(theirs["source"]["path"], "scores");
    assert_eq!(document["comparisons"][0]["differences"][0]["auroc"]["difference"], 0.0);
    // Alone, in a report, and again.
    std::fs::remove_file(place.path("scores/far/other.npy")).unwrap();
    place.run("eval pack --scores theirs=scores --report out --json=result.json").fine();
    let page = String::from_utf8(place.read("out/report.html")).unwrap();
    assert!(page.contains("theirs on pack"), "the page is about them");
    assert!(place.run("eval --repeat result.json").fine().contains("theirs"));
    place.write("scores/digits.npy", place.read("scores/textures.csv"));
    place.run("score net pack/ood/textures.safetensors -o scores/digits.npy --force").fine();
    assert_eq!(place.run("eval --repeat result.json").code, Some(1), "other scores than they were");
}

#[test]
fn scores_that_do_not_fit_are_refused() {
    let place = Place::new();
    place.small_pack("pack", 100, 40);
    let refused = |line: &str| place.run(line).refused();
    assert!(
        refused("eval pack --scores scores").contains("--scores: expected NAME=DIR, got `scores`")
    );
    assert!(refused("eval pack --scores a=none").contains("cannot read none"));
    assert!(refused("eval pack --scores a=x --scores a=y").contains("got a twice"));
    std::fs::create_dir(place.path("scores")).unwrap();
    assert!(
        refused("eval pack --scores a=scores").contains("has no scores of test: expected test.npy")
    );
    place.write(
        "scores/test.npy",
        npy_f32(&matrix(&place.path("pack/test.safetensors"), "features")),
    );
    assert!(refused("eval pack --scores a=scores").contains("expected one score per row"));
}

#[test]
fn a_preset_stands_above_the_row_that_it_reproduces() {
    let place = Place::new();
    place.small_pack("pack", 300, 60);
    let line = "eval pack --preset cifar10-resnet18 --method kpca-rff --features 256";
    let told = place.run(line).fine();
    assert!(told.contains("settings of cifar10-resnet18"), "{told}");
    let [ours, theirs] =
        told.lines().filter(|line| line.starts_with("kpca-rff")).collect::<Vec<_>>()[1..]
    else {
        panic!("{told}")
    };
    assert!(ours.contains("ours") && ours.contains("pack"), "{told}");
    assert!(theirs.contains("theirs") && theirs.contains("ResNet18 on CIFAR-10"), "{told}");
    let document = place.run(&format!("{line} --json")).json();
    let published = &document["published"];
    assert_eq!(published["rows"][0]["method"], "kpca-rff");
    assert!(published["source"].as_str().unwrap().contains("arXiv 2505.15284"));
    assert!(place.run("eval pack --method kpca-rff --json").json()["published"].is_null());
    assert!(place.run(&format!("{line} --format latex")).fine().contains("theirs"));
}

#[test]
fn clusters_stand_in_for_classes_where_rows_have_no_labels() {
    let place = Place::new();
    place.small_pack("pack", 300, 60);
    assert!(
        place
            .run("eval pack --method mahalanobis --pseudo-labels 4")
            .refused()
            .contains("labels of its own")
    );
    // Features alone, as an encoder without a head gives them.
    std::fs::create_dir_all(place.path("bare/ood")).unwrap();
    for file in ["train", "test", "ood/digits"] {
        let rows = matrix(&place.path(&format!("pack/{file}.safetensors")), "features");
        place.write(&format!("bare/{file}.npy"), npy_f32(&rows));
    }
    assert!(place.run("eval bare --method mahalanobis").refused().contains("labels"));
    let line = "eval bare --method mahalanobis,rmds --pseudo-labels 6";
    let document = place.run(&format!("{line} --json=result.json --seed 3")).fine();
    assert!(document.contains("mahalanobis") && document.contains("rmds"), "{document}");
    let note = "Training rows have no labels: 6 clusters of them stand in for classes.";
    for format in ["text", "markdown", "latex", "html"] {
        let told = place.run(&format!("{line} --format {format}")).fine();
        assert!(told.contains(note), "{format}: {told}");
    }
    assert_eq!(place.json("result.json")["pseudo_labels"], 6);
    assert!(place.run("eval --repeat result.json").fine().contains("mahalanobis"));
    place
        .run("fit bare/train.npy --method mahalanobis --pseudo-labels 6 --hold-out 0 -o net")
        .fine();
    place.run("fit bare/train.npy --method mahalanobis --pseudo-labels 6 --hold-out 0 --threads 1 -o again").fine();
    assert_eq!(place.read("net"), place.read("again"), "whatever the number of threads");
    assert!(
        place
            .run("eval bare --method mahalanobis --pseudo-labels 200")
            .refused()
            .contains("2 to 150 clusters")
    );
    assert!(
        place
            .run("eval bare --method mahalanobis --pseudo-labels 1")
            .refused()
            .contains("clusters")
    );
}
