//! Thresholds with a promise, p-values, drift, and settings without tuning.

use serde_json::Value;

use crate::util::{Place, npy, npy_f32, read_scores};
use crate::{keys, parse_csv};

#[test]
fn fit_decides_everything_by_itself() {
    let place = Place::new();
    let text = place.run("fit PACK -o net.offspan").fine();
    for part in ["auto fitted on", "gamma:", "landmarks:", "term of the score"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    // With the last layer in the detector, features are enough to score.
    place.npy_of("rows.npy", "test.safetensors", "features");
    let scores = |line: &str| parse_csv(&place.run(line).fine()).0;
    let with_logits = scores("score net.offspan PACK/test.safetensors");
    let without = scores("score net.offspan rows.npy");
    for (a, b) in with_logits.iter().zip(&without) {
        assert!((a - b).abs() < 2e-3 * (1.0 + a.abs()), "{a} {b}");
    }
    // Features alone do, too.
    place.npy_of("train.npy", "train.safetensors", "features");
    place.run("fit train.npy -o plain").fine();
    assert_eq!(scores("score plain rows.npy").len(), 1500);
    let message = place.run("fit PACK --sampling uniform -o out").refused();
    assert!(message.contains("--sampling") && message.contains("auto"), "{message}");
    let message = place.run("fit PACK --landmarks 999999 -o out").refused();
    assert!(message.contains("landmarks: expected from 1 to"), "{message}");
}

#[test]
fn rows_that_repeat_give_a_detector_that_can_be_read() {
    let place = Place::new();
    place.npy_head();
    let train = place.npy_of("train.npy", "train.safetensors", "features");
    let rows: Vec<usize> = (0..2000).map(|row| if row % 5 < 3 { 0 } else { row }).collect();
    place.write("repeated.npy", npy_f32(&train.select(ndarray::Axis(0), &rows)));
    place.run("fit repeated.npy --head weight.npy,bias.npy -o net").fine();
    let scores = parse_csv(&place.run("score net train.npy").fine()).0;
    assert!(scores.iter().all(|score| score.is_finite()));
}

#[test]
fn logits_of_another_network_are_refused() {
    let place = Place::new();
    let logits = place.npy_of("logits.npy", "train.safetensors", "logits");
    place.npy_of("train.npy", "train.safetensors", "features");
    place.write("fewer.npy", npy_f32(&logits.slice(ndarray::s![.., ..7]).to_owned()));
    // Squared, they are not linear in the features, and no last layer is found.
    place.write("bent.npy", npy_f32(&logits.mapv(|logit| logit * logit)));
    for (fit, note) in [("logits.npy", false), ("bent.npy", true)] {
        let fitted = place.run(&format!("fit train.npy --logits {fit} --landmarks 64 -o net"));
        assert_eq!(fitted.stderr.contains("could not be found from the logits"), note, "{fit}");
        let message = place.run("score net train.npy --logits fewer.npy").refused();
        assert!(message.contains("[rows, 10]") && message.contains("[rows, 7]"), "{message}");
    }
}

#[test]
fn a_fit_of_auto_goes_on_after_a_stop_and_ends_with_the_same_detector() {
    let place = Place::new();
    place.run("fit PACK --landmarks 48 -o plain").fine();
    place.run("fit PACK --landmarks 48 --checkpoint c --checkpoint-every 0 -o saved").fine();
    assert_eq!(place.read("saved"), place.read("plain"));
    place.small_pack("small", 1200, 50);
    place.run("fit small --threads 1 -o one").fine();
    place.run("fit small --threads 2 -o two").fine();
    assert_eq!(place.read("one"), place.read("two"), "threads change nothing");
}

#[test]
fn a_threshold_says_what_it_promises_and_how_sure_it_is() {
    let place = Place::new();
    let line = "fit PACK -m pca --calibrate PACK/test.safetensors";
    let text = place.run(&format!("{line} --keep 0.9 --confidence 0.99 -o net")).fine();
    assert!(text.contains("set with 1500 given rows"), "{text}");
    assert!(
        text.contains("keeps at least 90 % of rows like them with a confidence of 99 %"),
        "{text}"
    );
    let threshold = place.run("inspect net --json").json()["info"]["threshold"].take();
    assert_eq!((&threshold["keep"], &threshold["confidence"]), (&0.9.into(), &0.99.into()));
    let scores = parse_csv(&place.run("score net PACK/test.safetensors").fine()).0;
    let below = scores.iter().filter(|&&s| s < threshold["value"].as_f64().unwrap()).count();
    assert_eq!(below as u64 + 1, threshold["rank"].as_u64().unwrap());
    // Rows that the fit held out were still seen by the network.
    let text = place.run("fit PACK -m pca -o other").fine();
    assert!(text.contains("training rows that the fit did not see"), "{text}");
    assert!(text.contains("rows that it has not seen (`calibrate` or `val` in the pack"), "{text}");
    for (flags, message) in [
        ("--keep 1", "keep: expected a number between 0 and 1"),
        ("--confidence 0", "confidence: expected a number between 0 and 1"),
        ("--keep 0.9999", "expected at least 29956 rows, got 1500"),
    ] {
        let got = place.run(&format!("{line} {flags} -o out")).refused();
        assert!(got.contains(message), "{flags}: {got}");
    }
}

#[test]
fn calibrate_sets_another_threshold_and_changes_no_score() {
    let place = Place::new();
    place.run("fit PACK -m pca --hold-out 0 -o net").fine();
    let message = place.run("calibrate net --keep 0.9 -o out").refused();
    assert!(message.contains("calibration scores"), "{message}");
    let text = place.run("calibrate net PACK/test.safetensors -o set").fine();
    assert!(text.contains("set with 1500 given rows") && text.contains("written to set"), "{text}");
    place.run("calibrate set --keep 0.8 --json -o loose").fine();
    let threshold = |name: &str| {
        place.run(&format!("inspect {name} --json")).json()["info"]["threshold"].take()
    };
    let (set, loose) = (threshold("set"), threshold("loose"));
    assert!(loose["value"].as_f64() > set["value"].as_f64());
    assert_eq!(
        (&loose["keep"], &loose["confidence"], &loose["rows"]),
        (&0.8.into(), &0.95.into(), &1500.into())
    );
    let npy = |name: &str| {
        place.run(&format!("score {name} PACK/ood/mnist.safetensors -o s.npy")).fine();
        place.read("s.npy")
    };
    assert_eq!(npy("set"), npy("net"));
    // In place of itself, and the same again.
    place.run("calibrate loose --keep 0.95 -o loose").fine();
    assert_eq!(threshold("loose"), set);
    place.run("calibrate net -o out").refused();
    place.run("calibrate net PACK/test.safetensors").refused();
}

#[test]
fn p_values_follow_from_the_calibration_and_decide_together() {
    let place = Place::new();
    place.run("fit PACK -m pca --calibrate PACK/test.safetensors -o net").fine();
    let known = parse_csv(&place.run("score net PACK/test.safetensors").fine()).0;
    let json = place.run("score net PACK/ood/textures.safetensors --json").json();
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let (scores, p_values) = (numbers(&json["scores"]), numbers(&json["p_values"]));
    for (score, p) in scores.iter().zip(&p_values) {
        let as_low = known.iter().filter(|&k| k <= score).count();
        assert_eq!(*p, (as_low as f64 + 1.0) / 1501.0);
    }
    // Benjamini–Hochberg by its definition.
    let fdr = place.run("score net PACK/ood/textures.safetensors --fdr 0.1 --json").json();
    let mut sorted = p_values.clone();
    sorted.sort_by(f64::total_cmp);
    let m = sorted.len() as f64;
    let mut passing = (1..=sorted.len()).filter(|&i| sorted[i - 1] * m <= 0.1 * i as f64 + 1e-12);
    let bound = passing.next_back().map_or(0.0, |i| sorted[i - 1]);
    let expected: Vec<&str> =
        p_values.iter().map(|&p| if p <= bound { "out" } else { "in" }).collect();
    assert_eq!(fdr["decisions"], Value::from(expected));
    assert_eq!(fdr["fdr"], 0.1);
    assert!(
        place
            .run("score net PACK/test.safetensors --fdr 2")
            .refused()
            .contains("--fdr: expected a share")
    );
    place.run("fit PACK -m pca --hold-out 0 -o bare").fine();
    let message = place.run("score bare PACK/test.safetensors --fdr 0.1").refused();
    assert!(message.contains("--fdr needs a threshold"), "{message}");
}

#[test]
fn later_rows_fit_the_calibration_or_do_not() {
    let place = Place::new();
    let test = place.npy_of("test.npy", "test.safetensors", "features");
    let half = |name: &str, first: usize| {
        let rows: Vec<usize> = (first..test.nrows()).step_by(2).collect();
        place.write(name, npy_f32(&test.select(ndarray::Axis(0), &rows)));
    };
    half("one.npy", 0);
    half("other.npy", 1);
    place.run("fit PACK -m pca --calibrate one.npy -o net").fine();
    let same = place.run("calibrate net other.npy --check");
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.stdout.contains("the rows fit the calibration"), "{same:?}");
    let other = place.run("calibrate net PACK/ood/mnist.safetensors --check --json");
    assert_eq!(other.code, Some(1), "{other:?}");
    let json: Value = serde_json::from_str(&other.stdout).unwrap();
    assert_eq!(keys(&json), ["check", "fits", "level", "schema"]);
    assert_eq!((&json["fits"], json["check"]["rows"].as_u64()), (&false.into(), Some(1000)));
    assert!(json["check"]["p_value"].as_f64().unwrap() < 1e-6);
    place.run("calibrate net --check").refused();
    place.run("calibrate net other.npy --check --level 0").refused();
    place.run("calibrate net other.npy --check -o out").refused();
}

#[test]
fn monitor_is_quiet_on_in_distribution_rows_and_finds_ood_rows() {
    let place = Place::new();
    let test = place.npy_of("test.npy", "test.safetensors", "features");
    let part = |name: &str, rows: std::ops::Range<usize>| {
        let rows: Vec<usize> = rows.collect();
        place.write(name, npy_f32(&test.select(ndarray::Axis(0), &rows)));
    };
    part("known.npy", 0..700);
    part("monday.npy", 700..1100);
    part("tuesday.npy", 1100..1500);
    place.run("fit PACK -m pca --calibrate known.npy -o net").fine();
    let quiet = place.run("monitor net monday.npy tuesday.npy");
    assert_eq!(quiet.code, Some(0), "{quiet:?}");
    assert!(quiet.stdout.contains("no alarm in 800 rows"), "{quiet:?}");

    let ood_rows = "PACK/ood/textures.safetensors";
    let loud = place.run(&format!("monitor net monday.npy tuesday.npy {ood_rows} --json"));
    assert_eq!(loud.code, Some(1), "{loud:?}");
    let whole: Value = serde_json::from_str(&loud.stdout).unwrap();
    let row = whole["alarms"][0]["row"].as_u64().unwrap();
    assert!((800..900).contains(&row), "{row}");

    // Scores instead of features, and one call for each batch, say the same.
    place.run(&format!("score net {ood_rows} -o textures.csv")).fine();
    place.run("score net tuesday.npy -o tuesday-scores.npy").fine();
    for file in ["monday.npy", "tuesday-scores.npy"] {
        assert_eq!(place.run(&format!("monitor net {file} --state m")).code, Some(0));
    }
    let last = place.run("monitor net textures.csv --state m --json");
    let last: Value = serde_json::from_str(&last.stdout).unwrap();
    assert_eq!(last["alarms"], whole["alarms"]);
    assert_eq!(last["batches"][0]["report"]["share"], whole["batches"][2]["report"]["share"]);

    // Logits come beside features, one file for each batch.
    place.npy_of("logits.npy", "test.safetensors", "logits");
    place.run("fit PACK/train.safetensors -m energy -o by-logits").fine();
    place.run("monitor by-logits test.npy").refused();
    place.run("monitor by-logits test.npy test.npy --logits logits.npy").refused();
    assert!(place.run("monitor by-logits test.npy --logits logits.npy").code != Some(2));

    let message = place.run("monitor net monday.npy --state m --false-alarm 0.5").refused();
    assert!(message.contains("another detector"), "{message}");
    place.write("m", "no monitor");
    place.run("monitor net monday.npy --state m").refused();
    place.run("monitor net monday.npy --false-alarm 0").refused();
    place.run("monitor net missing.npy").refused();
    place.run("fit PACK -m pca --hold-out 0 -o bare").fine();
    assert!(place.run("monitor bare monday.npy").refused().contains("a monitor needs a threshold"));
    // A batch that cannot be read changes nothing that was saved.
    place.run("monitor net monday.npy --state kept").fine();
    let before = place.read("kept");
    place.write(
        "nan.npy",
        npy(
            "<f8",
            &[2],
            &[0u8; 8].iter().chain(&f64::NAN.to_le_bytes()).copied().collect::<Vec<_>>(),
        ),
    );
    assert!(place.run("monitor net nan.npy --state kept").refused().contains("NaN"));
    assert_eq!(place.read("kept"), before);
    assert_eq!(read_scores(&place.read("tuesday-scores.npy")).len(), 400);
}

#[test]
fn tune_compares_settings_without_ood_rows_and_gives_flags_to_use() {
    let place = Place::new();
    let text = place
        .run("tune PACK --method kpca-nys --try gamma=0.3,1,3 --try landmarks=64 --trials 2 -o out")
        .fine();
    assert!(text.contains("classes that were left out"), "{text}");
    let chosen = text.lines().find_map(|line| line.strip_prefix("chosen: offspan ")).unwrap();
    place.run(&chosen.replace(" -o net.offspan", " -o net")).fine();
    for file in ["tune.html", "tune.csv", "tune.md", "tune.json", "plots/tune-gamma.svg"] {
        assert!(place.path("out").join(file).is_file(), "{file}");
    }
    let json = place.json("out/tune.json");
    let candidates = json["tuned"]["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 3);
    assert!(candidates.iter().all(|c| c["trials"].as_array().unwrap().len() == 2));

    // The same again, and with a set of OoD rows.
    let json = |flags: &str| {
        let line = format!("tune PACK -m pca --try explained-variance=0.5,0.9 --json {flags}");
        place.run(&line).json()
    };
    assert_eq!(json("--trials 2"), json("--trials 2 --threads 1"));
    let given =
        json("--validate PACK/ood/mnist.safetensors --validate PACK/ood/digits.safetensors");
    assert_eq!(given["tuned"]["criterion"], "given");
    // Without classes, rows are mixed.
    place.npy_of("train.npy", "train.safetensors", "features");
    let mixed = place.run("tune train.npy -m pca --trials 2 --json").json();
    assert_eq!(mixed["tuned"]["criterion"], "mixed-rows");
    // The command has all that the comparison had.
    place.npy_head();
    let head = "--head weight.npy,bias.npy";
    let text = place.run(&format!("tune train.npy {head} -m energy --trials 1")).fine();
    assert!(
        text.contains(&format!("chosen: offspan fit train.npy {head} --method energy")),
        "{text}"
    );
    place.write("narrow.npy", npy_f32(&ndarray::Array2::ones((30, 5))));
    for (flags, message) in [
        ("--validate narrow.npy", "expected 128 columns"),
        ("--seed 3 --try seed=1,2", "exclude each other"),
        ("--try gamma", "expected a flag and values"),
        ("--try nothing=1,2", "nothing"),
        ("--method pca --try gamma=1", "--gamma"),
        ("--method nothing", "nothing"),
        ("--trials 0", "--trials"),
        ("--rows 50 --method pca", "at least 100"),
    ] {
        let got = place.run(&format!("tune PACK {flags}")).refused();
        assert!(got.contains(message), "{flags}: {got}");
    }
}
