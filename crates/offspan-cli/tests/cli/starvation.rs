//! Too little memory: refused before the work with what it would take, and never an abort.

use std::process::{Command, Stdio};

use crate::util::{Place, Ran};

/// Runs a command that may take so much address space.
fn starved(place: &Place, line: &str, megabytes: usize) -> Ran {
    let plain = place.command(line);
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {}; exec \"$@\"", 1000 * megabytes);
    command.current_dir(place.path(".")).stdin(Stdio::null()).args(["-c", &script, "sh"]);
    command.arg(plain.get_program()).args(plain.get_args());
    Ran::new(line, command.output().unwrap())
}

#[test]
fn a_fit_that_needs_more_than_there_is_is_refused_before_it_begins() {
    let place = Place::new();
    place.run("synth --rows 3000 --width 16 -o rows.npy").fine();
    let fit = "fit rows.npy --method kpca-rff --features 8192 --threads 1";
    let message = starved(&place, &format!("{fit} -o net"), 1000).refused();
    assert!(
        message.contains("kpca-rff needs about 1") && message.contains("RLIMIT_AS"),
        "{message}"
    );
    assert_eq!(place.files(), ["rows.npy"]);
    let ran = starved(&place, &format!("{fit} --dry-run"), 1000);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("that is not enough"), "{ran:?}");
}

#[test]
fn a_fit_that_no_machine_can_hold_is_refused_without_any_limit() {
    let place = Place::new();
    place.run("synth --rows 300 --width 16 -o rows.npy").fine();
    // Its moments alone are 8 × 10¹⁸ bytes.
    let fit = "fit rows.npy --method kpca-rff --features 1000000000 --threads 1";
    let ran = place.run(&format!("{fit} --dry-run"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("that is not enough"), "{ran:?}");
    let message = place.run(&format!("{fit} -o net")).refused();
    assert!(message.contains("kpca-rff needs about"), "{message}");
    assert_eq!(place.files(), ["rows.npy"]);
}

#[test]
fn whatever_the_limit_a_fit_ends_well_or_with_a_sentence() {
    let place = Place::new();
    place.run("synth --rows 3000 --width 64 -o rows.npy").fine();
    let (mut done, mut refused) = (0, 0);
    // Less than the first does not even hold the program.
    for megabytes in (72..=408).step_by(24) {
        let line =
            "fit rows.npy --method kpca-nys --sampling uniform --landmarks 1024 --threads 1 -o net";
        let ran = starved(&place, line, megabytes);
        match ran.code {
            Some(0) => done += 1,
            Some(2) => {
                assert!(ran.stderr.starts_with("error: "), "{megabytes} MB: {ran:?}");
                assert!(!place.has("net") && place.partials().is_empty(), "{:?}", place.files());
                refused += 1;
            }
            _ => panic!("{megabytes} MB: {ran:?}"),
        }
        if place.has("net") {
            std::fs::remove_file(place.path("net")).unwrap();
        }
    }
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
}

#[test]
fn a_dry_run_tells_rows_passes_memory_and_time_and_writes_nothing() {
    let place = Place::new();
    place.run("synth --rows 5000 --width 16 -o rows.npy").fine();
    let json = place.run("fit rows.npy --method pca --dry-run --json").json();
    assert_eq!(json["schema"], "offspan.fit-dry-run/1");
    assert_eq!(
        (&json["rows"], &json["width"], &json["fits"]),
        (&5000.into(), &16.into(), &true.into())
    );
    assert!(json["passes"].as_f64().unwrap().round() >= 1.0, "{json}");
    assert!(json["seconds"].as_f64().unwrap() >= 0.0 && json["memory_bytes"].as_u64().unwrap() > 0);
    let text = place.run("fit rows.npy --method knn --dry-run").fine();
    assert!(
        text.contains("knn on 5000 × 16 features") && text.contains("nothing was written"),
        "{text}"
    );
    assert_eq!(place.files(), ["rows.npy"]);
    for flags in ["-o net", "--force", "--checkpoint c"] {
        let ran = place.run(&format!("fit rows.npy --dry-run {flags}"));
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
    assert_eq!(place.run("fit rows.npy --method pca").code, Some(2), "a fit needs an output");
}
