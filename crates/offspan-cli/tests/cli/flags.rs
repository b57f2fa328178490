//! Every flag of every method, once.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::util::{Noise, Place, SPECIAL, npy, write_safetensors};
use crate::{check_document, parse_csv};

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
fn each_flag_of_a_baseline_or_a_step_reaches_it() {
    let place = Place::new();
    place.small_pack("small", 1000, 300);
    check_variants(
        &place,
        &[
            ("odin", r#""temperature":1000.0"#),
            ("odin --temperature 5", r#""temperature":5.0"#),
            ("knn --bank 0.2", r#""bank":{"share":0.2}"#),
            ("knn --bank 0.2 --seed 4", r#""seed":4"#),
            ("tnn", r#""tangents":5"#),
            ("tnn -k 20 --tangents 3 --bank 0.5", r#""tangents":3"#),
            ("nnguide -k 3", r#""bank":"one-percent""#),
            ("nnguide --bank 0.5", r#""share":0.5"#),
            ("vim", r#""head_floor":1.1920928955078125e-7"#),
            ("vim --components 9", r#""components":9"#),
            ("vim --head-floor 0.01", r#""head_floor":0.01"#),
            ("dml", r#""norm_weight":0.002"#),
            ("dml --norm-weight 0.5", r#""norm_weight":0.5"#),
            ("gradorth", r#""explained_variance":0.97"#),
            ("gradorth --explained-variance 0.6", r#""explained_variance":0.6"#),
            ("reg-pca", r#""components":null"#),
            ("reg-pca --components 4", r#""components":4"#),
            ("low-dim", r#""ridge":0.01"#),
            ("low-dim --ridge 1", r#""ridge":1.0"#),
            ("react", r#""percentile":90.0"#),
            ("react --react 0.7", r#""value":0.7"#),
            ("bats --deviations 1.05", r#""deviations":1.05"#),
            ("vra", r#""quantiles":[0.6,0.9]"#),
            ("vra --vra 0.5,1", r#""values":[0.5,1.0]"#),
            ("ash-b --prune 40", r#""prune":40.0"#),
            ("ash-p --prune 70", r#""prune":70.0"#),
            ("ash-s", r#""prune":90.0"#),
            ("scale", r#""prune":85.0"#),
            ("dice", r#""sparsity":90.0"#),
            ("dice --sparsity 70", r#""sparsity":70.0"#),
            ("dice+react", r#""sparsity":10.0"#),
            ("line", r#""activations":90.0"#),
            ("line --line 10,20 --line-clip 0.8", r#""weights":20.0"#),
            ("ddcs", r#""balance":0.8"#),
            ("ddcs --shape 30,80 --balance 0.3 --channels 0.5", r#""channels":0.5"#),
            ("reg-pca+react", r#""raw_fit":false"#),
            ("reg-pca+react --raw-fit", r#""raw_fit":true"#),
            ("knn+react -k 4 --react p80", r#""percentile":80.0"#),
            ("pca+vra --components 6", r#"{"fixed":6}"#),
            ("kpca-nys+react --landmarks 64", r#""fusion":"energy-ratio""#),
            ("kpca-rff+react --features 64 --react p70", r#""percentile":70.0"#),
            ("autoencoder --epochs 1", r#""most_epochs":1"#),
            ("autoencoder --epochs 1 --hidden 20 --code 3", r#""code":3"#),
            ("rff-opt --features 128", r#""rho":1.0"#),
            ("rff-opt --features 128 --rho 6", r#""rho":6.0"#),
            ("dkgp-rff --features 64 --inducing 20 --steps 20", r#""most_steps":20"#),
            ("dkgp-nys --landmarks 64 --inducing 21 --steps 20 --gamma 3", r#""start_gamma":3.0"#),
        ],
    );
}

#[test]
fn each_flag_of_a_newer_method_reaches_it() {
    let place = Place::new();
    place.small_pack("small", 1000, 300);
    check_variants(
        &place,
        &[
            ("gen --top 2", r#""top":2"#),
            ("gen --exponent 0.4", r#""exponent":0.4"#),
            ("renyi --exponent 0.5", r#""exponent":0.5"#),
            ("logit-gap --others 1", r#""others":1"#),
            ("openmax --ranks 1 --tail 5", r#""tail":5"#),
            ("gen-residual --exponent 0.3 --components 9", r#""components":9"#),
            ("nci --norm-weight 0.5", r#""norm_weight":0.5"#),
            ("neco --components 3", r#""directions":{"count":3}"#),
            ("neco-evr --explained-variance 0.5", r#""explained-variance":0.5"#),
            ("class-mean-pca --explained-variance 0.5", r#""explained_variance":0.5"#),
            ("actsub --prune 50 --power 1 -k 3 --bank 0.5", r#""power":1.0"#),
            ("wdiscood --components 1 --residual-weight 0.5", r#""residual_weight":0.5"#),
            ("trust -k 3 --drop 0.5", r#""drop":0.5"#),
            ("dknn -k 5", r#""neighbours":5"#),
            ("lid -k 6 --bank 0.5", r#""neighbours":6"#),
            ("relation --power 2 --relation-floor 0.5", r#""floor":0.5"#),
            ("nac --bins 10 --enough 5 --sharpness 1", r#""sharpness":1.0"#),
            (
                "weiper-kld --heads 2 --spread 0.5 --bins 20 --divergences 1,0.5 --smoothing 2,3 --epsilon 0.1,0.2",
                r#""smoothing":[2,3]"#,
            ),
            ("mme --temperature 1 --agreement 0.5", r#""agreement":0.5"#),
            ("bf-act --order 4 --cutoff 80", r#""order":4"#),
            ("lts --prune 50", r#""prune":50.0"#),
            ("opt-fs --bins 10", r#""bins":10"#),
            ("opt-fs-v --bins 11", r#""bins":11"#),
            ("beta-norm --beta 0.9", r#""beta":0.9"#),
            ("beta-mahalanobis --beta 0.1", r#""beta":0.1"#),
            ("residual --components 8", r#""components":8"#),
            ("pca-nre --components 4 --react p80", r#""percentile":80.0"#),
            ("msp+lts --prune 40", r#""prune":40.0"#),
        ],
    );
}

#[test]
fn all_runs_what_the_pack_allows_and_tells_why_not_the_rest() {
    let place = Place::new();
    place.small_pack("small", 600, 200);
    let flags = "--landmarks 64 --features 64 --epochs 1 --inducing 16 --steps 20";
    let ran = place.run(&format!("eval small --method all {flags} --json all.json"));
    let table = ran.fine();
    let document: Value = serde_json::from_slice(&place.read("all.json")).unwrap();
    let names = |key: &str| -> Vec<String> {
        let list = document[key].as_array().unwrap().iter();
        list.map(|entry| entry["method"].as_str().unwrap().to_owned()).collect()
    };
    let (results, without) = (names("results"), names("without"));
    let mut all: Vec<&str> = results.iter().chain(&without).map(String::as_str).collect();
    all.sort_unstable();
    let mut expected: Vec<&str> = offspan::CATALOGUE.iter().map(|method| method.name).collect();
    expected.sort_unstable();
    assert_eq!(all, expected);
    assert_eq!(without, SPECIAL, "{table}");
    let rates: Vec<f64> = results
        .iter()
        .map(|name| {
            let list = document["results"].as_array().unwrap();
            let result = list.iter().find(|result| result["method"] == **name).unwrap();
            result["average"]["fpr95"].as_f64().unwrap()
        })
        .collect();
    assert!(rates.iter().all(|rate| (0.0..=1.0).contains(rate)));
    assert!(table.contains("not run:") && table.contains("rank-feat on train needs maps"));
}

#[test]
fn a_method_that_fails_does_not_take_the_others_down() {
    let place = Place::new();
    place.small_pack("small", 600, 200);
    let ran = place.run("eval small --method msp,knn,csi,energy --neighbours 100000 --json out");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stdout.contains("msp") && ran.stdout.contains("energy"), "{ran:?}");
    assert!(ran.stderr.contains("knn: --neighbours: expected from 1 to 600"), "{ran:?}");
    assert!(ran.stderr.contains("csi on train needs csi_features"), "{ran:?}");
    let document: Value = serde_json::from_slice(&place.read("out")).unwrap();
    assert_eq!(document["results"].as_array().unwrap().len(), 2);
    assert_eq!(document["without"].as_array().unwrap().len(), 2);
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

#[test]
fn a_step_that_cannot_change_a_score_is_told() {
    let place = Place::new();
    place.small_pack("pack", 200, 60);
    let ran = place.run("eval pack --method knn,knn+lts,msp+lts --json");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told: Vec<&str> =
        ran.stderr.lines().filter(|line| line.contains("changes logits alone")).collect();
    assert_eq!(told.len(), 1, "{ran:?}");
    assert!(told[0].contains("lts changes logits alone, which knn does not read"), "{told:?}");
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    let results = &document["results"];
    assert_eq!(results[0]["sets"], results[1]["sets"]);
}
