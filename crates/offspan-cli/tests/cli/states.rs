//! States of monitors: several runs at once, batches that come twice, disks that are full.

use serde_json::Value;

use crate::util::{Place, finish, matrix, npy_f32};

/// A detector, and so many batches of 150 in-distribution rows: `0.npy` and so on.
fn place_with_batches(count: usize) -> Place {
    let place = Place::new();
    let test = matrix(&crate::util::demo_pack().join("test.safetensors"), "features");
    let part = |name: &str, rows: std::ops::Range<usize>| {
        let rows: Vec<usize> = rows.collect();
        place.write(name, npy_f32(&test.select(ndarray::Axis(0), &rows)));
    };
    part("known.npy", 0..700);
    for batch in 0..count {
        part(&format!("{batch}.npy"), 700 + 150 * batch..700 + 150 * (batch + 1));
    }
    place.run("fit PACK -m pca --calibrate known.npy -o net").fine();
    place
}

/// Rows that the state has counted.
#[track_caller]
fn rows(place: &Place) -> u64 {
    place.run("inspect m --json").json()["rows"].as_u64().unwrap()
}

#[test]
fn four_runs_at_once_add_up() {
    let place = place_with_batches(4);
    let lines: Vec<String> = (0..4).map(|n| format!("monitor net {n}.npy --state m")).collect();
    let children: Vec<_> = lines.iter().map(|line| place.start(line)).collect();
    for (line, child) in lines.iter().zip(children) {
        let ran = finish(line, child);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let state = place.run("inspect m --json").json();
    assert_eq!(state["rows"], 600);
    // Each batch has its own rows of the stream.
    let mut starts: Vec<u64> =
        state["seen"].as_array().unwrap().iter().map(|b| b["row"].as_u64().unwrap()).collect();
    starts.sort_unstable();
    assert_eq!(starts, [0, 150, 300, 450]);
    assert_eq!(place.partials(), [""; 0]);
}

#[test]
fn a_batch_that_was_seen_before_is_named_and_not_counted() {
    let place = place_with_batches(3);
    place.run("monitor net 0.npy 1.npy --state m").fine();
    let before = place.read("m");
    let text = place.run("monitor net 1.npy --state m").fine();
    assert!(text.contains("1.npy was seen before and is not counted"), "{text}");
    assert!(text.contains("rows 150 to 299") && text.contains("--again"), "{text}");
    assert!(text.contains("no alarm in 300 rows"), "{text}");
    assert_eq!(place.read("m"), before);
    // By its rows, whatever the name and the kind of the file; new ones beside it are counted.
    let array = matrix(&place.path("1.npy"), "features");
    place.write("retry.npy", crate::util::npy_f64(&array));
    let json = place.run("monitor net retry.npy 2.npy --state m --json").json();
    assert_eq!(json["rows"], 450);
    assert_eq!(json["batches"].as_array().unwrap().len(), 1);
    assert_eq!(json["seen_before"][0]["file"], "retry.npy");
    assert_eq!(json["seen_before"][0]["batch"]["row"], 150);
    // Who means it.
    place.run("monitor net 1.npy --state m --again").fine();
    assert_eq!(rows(&place), 600);
    // Twice in one run, with no state at all; and as scores.
    let json = place.run("monitor net 0.npy 0.npy --json").json();
    assert_eq!((&json["rows"], &json["seen_before"][0]["file"]), (&150.into(), &"0.npy".into()));
    place.run("score net 0.npy -o 0.csv").fine();
    let json = place.run("monitor net 0.csv 0.csv --json").json();
    assert_eq!(json["rows"], 150);
}

#[test]
fn a_batch_is_known_by_the_id_that_it_is_given() {
    let place = place_with_batches(2);
    place.run("monitor net 0.npy --batch-id monday --state m").fine();
    let text = place.run("monitor net 1.npy --batch-id monday --state m").fine();
    assert!(text.contains("1.npy was seen before"), "{text}");
    place.run("monitor net 0.npy --batch-id tuesday --state m").fine();
    assert_eq!(rows(&place), 300);
    let message = place.run("monitor net 0.npy 1.npy --batch-id x --state m").refused();
    assert!(message.contains("--batch-id: expected one for each of the 2 batches"), "{message}");
}

#[test]
fn an_alarm_stands_when_its_batch_comes_again() {
    let place = place_with_batches(1);
    let line = "monitor net PACK/ood/textures.safetensors --state m";
    assert_eq!(place.run(line).code, Some(1));
    let again = place.run(line);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stdout.contains("ALARM") && again.stdout.contains("seen before"), "{again:?}");
    let text = place.run("inspect m").fine();
    assert!(text.contains("an offspan monitor:") && text.contains("ALARM"), "{text}");
    assert!(text.contains("compared with 700 calibration scores"), "{text}");
    assert!(text.contains("checksum xxh3-128:"), "{text}");
}

#[test]
fn a_state_can_be_reset() {
    let place = place_with_batches(2);
    place.run("monitor net 0.npy --state m").fine();
    let text = place.run("monitor --reset --state m").fine();
    assert!(text.contains("m was removed"), "{text}");
    assert!(!place.has("m"));
    assert!(place.run("monitor --reset --state m").fine().contains("nothing to forget"));
    // With batches, it begins anew with them; also where another monitor was before.
    place.run("monitor net 0.npy --state m").fine();
    let message = place.run("monitor net 1.npy --state m --seed 3").refused();
    assert!(message.contains("--reset to begin anew"), "{message}");
    place.run("monitor net 1.npy --state m --seed 3 --reset").fine();
    assert_eq!(rows(&place), 150);
    place.run("monitor --reset").refused();
    place.run("monitor net --state m").refused();
}

#[test]
fn a_damaged_state_is_refused_and_can_be_reset() {
    let place = place_with_batches(1);
    place.run("monitor net 0.npy --state m").fine();
    let mut bytes = place.read("m");
    *bytes.last_mut().unwrap() ^= 1;
    place.write("m", bytes);
    let message = place.run("monitor net 0.npy --state m").refused();
    assert!(message.contains("an offspan monitor that is damaged"), "{message}");
    place.run("monitor --reset --state m").fine();
    place.run("monitor net 0.npy --state m").fine();
}

#[cfg(unix)]
#[test]
fn the_alarm_is_told_even_where_the_state_cannot_be_saved() {
    let place = place_with_batches(1);
    // No file may grow beyond a few thousand bytes, as on a disk that is full; also for root.
    let line = "monitor net PACK/ood/textures.safetensors --state m";
    let ran = place.limited(line, 8);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("ALARM: more rows are out"), "{ran:?}");
    assert!(ran.stderr.starts_with("error: cannot write m"), "{ran:?}");
    assert!(!place.has("m") && place.partials().is_empty(), "{:?}", place.files());
    // The next run knows nothing of it and tells it again.
    let json: Value = serde_json::from_str(&place.run(&format!("{line} --json")).stdout).unwrap();
    assert_eq!(json["seen_before"], Value::Array(Vec::new()));
    assert!(!json["alarms"].as_array().unwrap().is_empty());
}
