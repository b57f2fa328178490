//! The same bytes on any number of threads and on every run.

#![allow(clippy::unwrap_used)]

mod util;

use offspan::CATALOGUE;
use serde_json::Value;
use util::*;

/// Flags that make each method of the catalogue small.
fn flags(method: &str) -> Vec<&'static str> {
    match method {
        "pca" => vec!["--react p90"],
        "kpca-nys" => vec![
            "--landmarks 96",
            "--landmarks 96 --sampling uniform --residual complete --kernel laplacian",
            "--landmarks 96 --sampling high-energy --kernel polynomial --fuse energy",
            "--landmarks 96 --precision f64",
        ],
        "kpca-rff" => vec![
            "--features 96",
            "--features 96 --draw orthogonal --precision f64",
            "--features 96 --kernel laplacian --fuse energy",
        ],
        "kpca-sketch" | "kpca-rff+react" | "rff-opt" => vec!["--features 96"],
        "kpca-ensemble" => vec!["--landmarks 96 --features 96"],
        "auto" | "kpca-nys+react" => vec!["--landmarks 96"],
        "energy" => vec!["--temperature 2"],
        "knn" => vec!["-k 7", "-k 7 --bank 0.3"],
        "reg-pca+react" => vec!["", "--raw-fit"],
        "autoencoder" => vec!["--epochs 2"],
        "dkgp-rff" => vec!["--features 96 --inducing 32 --steps 25"],
        "dkgp-nys" => vec!["--landmarks 96 --inducing 32 --steps 25"],
        _ => vec![""],
    }
}

/// Rows of several chunks, few rows for the exact methods, a last layer.
fn place_with_rows() -> Place {
    let place = Place::new();
    place.run("synth --rows 20000 --width 48 -o rows.npy").fine();
    place.run("synth --rows 700 --width 48 -o few.npy").fine();
    place.run("synth --rows 3000 --width 48 --seed 1 -o new.npy").fine();
    let mut noise = Noise(8);
    let numbers: Vec<f32> = (0..6 * 48).map(|_| noise.next() as f32 - 0.5).collect();
    place.write("weight.npy", npy("<f4", &[6, 48], &f32_bytes(&numbers)));
    place.write("bias.npy", npy("<f4", &[6], &f32_bytes(&[0.2; 6])));
    for (name, rows) in [("labels.npy", 20_000), ("few-labels.npy", 700)] {
        let labels: Vec<u8> = (0..rows).map(|row| (row % 6) as u8).collect();
        place.write(name, npy("|u1", &[rows], &labels));
    }
    place
}

#[test]
fn every_method_gives_the_same_detector_and_scores_on_any_number_of_threads() {
    let place = place_with_rows();
    for method in CATALOGUE.iter().filter(|method| !SPECIAL.contains(&method.name)) {
        let few = method.name.starts_with("kpca-exact") || method.name == "autoencoder";
        let (rows, labels) =
            if few { ("few.npy", "few-labels.npy") } else { ("rows.npy", "labels.npy") };
        for flags in flags(method.name) {
            let made = |threads: usize| {
                let head = "--head weight.npy,bias.npy";
                let fit = format!("fit {rows} {head} --labels {labels} --method {}", method.name);
                let ran = place.run(&format!("{fit} {flags} --threads {threads} -o net"));
                // The labels are arbitrary, and dkgp remarks that they tell nothing.
                assert_eq!(ran.code, Some(0), "{ran:?}");
                let score = format!("score net new.npy --threads {threads} -o scores.npy");
                place.run(&score).fine();
                (place.read("net"), place.read("scores.npy"))
            };
            let (detector, scores) = made(1);
            for threads in [2, 2, 5] {
                let (other_detector, other_scores) = made(threads);
                let what = format!("{} {flags}: {threads} threads", method.name);
                assert!(other_detector == detector, "another detector: {what}");
                assert!(other_scores == scores, "other scores: {what}");
            }
        }
    }
}

#[test]
fn of_many_bad_rows_the_first_is_named_on_any_number_of_threads() {
    let place = place_with_rows();
    place.run("fit few.npy --method pca -o net").fine();
    for (name, first, step) in [("rows.npy", 700, 300), ("few.npy", 100, 60)] {
        let mut rows = matrix(&place.path(name), "features");
        for row in (first..rows.nrows()).step_by(step) {
            rows[[row, 5]] = f32::NAN;
        }
        place.write(name, npy_f32(&rows));
    }
    for (line, expected) in [
        ("fit rows.npy --method pca", "row 700,"),
        ("fit rows.npy --method kpca-rff --features 64 --react p90", "row 700,"),
        ("fit rows.npy --method kpca-nys --landmarks 64 --head weight.npy,bias.npy", "row 700,"),
        // It looks at rows here and there before it reads them all.
        ("fit rows.npy --head weight.npy,bias.npy", "rows.npy: row "),
        ("fit rows.npy --method knn", "row 700,"),
        ("fit few.npy --method kpca-exact --hold-out 0", "row 100,"),
        ("score net rows.npy", "row 700,"),
    ] {
        let out = if line.starts_with("fit") { "-o out" } else { "" };
        let message =
            |threads: usize| place.run(&format!("{line} {out} --threads {threads}")).refused();
        let alone = message(1);
        assert!(alone.contains(expected), "{line}: {alone}");
        for threads in [2, 2, 4, 4, 4, 4] {
            assert_eq!(message(threads), alone, "{line}, {threads} threads");
        }
    }
}

/// Without what a clock says.
fn without_seconds(mut document: Value) -> Value {
    for result in document["results"].as_array_mut().unwrap() {
        for part in ["fit", "score"] {
            result[part].as_object_mut().unwrap().remove("seconds").unwrap();
        }
    }
    document
}

#[test]
fn evaluations_do_not_depend_on_threads() {
    let place = Place::new();
    place.small_pack("small", 2000, 500);
    let document = |threads: usize| {
        let line =
            "eval small --method pca,kpca-rff,kpca-nys,knn,energy --features 64 --landmarks 64";
        let ci = "--ci bootstrap:50 --json -";
        without_seconds(place.run(&format!("{line} {ci} --threads {threads}")).json())
    };
    assert_eq!(document(1), document(2));
}

#[test]
fn synthetic_features_do_not_depend_on_threads() {
    let place = Place::new();
    for threads in [1, 2] {
        place
            .run(&format!("synth --rows 999 --width 7 -o {threads}.npy --threads {threads}"))
            .fine();
    }
    assert_eq!(place.read("1.npy"), place.read("2.npy"));
}

#[test]
fn another_seed_draws_other_features_landmarks_and_held_out_rows() {
    let place = place_with_rows();
    let made = |flags: &str, seed: u64| {
        place.run(&format!("fit rows.npy {flags} --seed {seed} -o net")).fine();
        place.run("score net new.npy -o scores.npy").fine();
        (place.read("scores.npy"), place.run("inspect net --json").json())
    };
    // Nothing is held out here, so only the map can differ.
    for flags in [
        "--method kpca-rff --features 64 --hold-out 0",
        "--method kpca-rff --features 64 --draw iid --hold-out 0",
        "--method kpca-sketch --features 64 --hold-out 0",
        "--method kpca-nys --landmarks 64 --sampling uniform --hold-out 0",
    ] {
        assert!(made(flags, 1).0 == made(flags, 1).0, "{flags}");
        assert!(made(flags, 1).0 != made(flags, 2).0, "{flags}");
    }
    // pca draws nothing: only the held-out rows differ.
    let fingerprint = |flags: &str, seed: u64| made(flags, seed).1["info"]["training"].clone();
    assert_eq!(
        fingerprint("--method pca --hold-out 0", 1),
        fingerprint("--method pca --hold-out 0", 2)
    );
    assert_ne!(fingerprint("--method pca", 1), fingerprint("--method pca", 2));
}
