//! The ends of pipes, devices, and stderr that is no terminal.

#[cfg(target_os = "linux")]
use std::fs::File;

use crate::util::{Place, Ran, finish};

#[test]
fn a_reader_that_stops_listening_is_no_error() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net").fine();
    for line in [
        "score net PACK/ood/mnist.safetensors",
        "score net PACK/ood/mnist.safetensors --json",
        "eval PACK --method pca",
        "eval PACK --method pca --json -",
        "fit PACK --method pca -o other",
        "inspect net",
        "inspect PACK",
        "methods",
        "methods --json",
        "completions zsh",
        "man",
        "--help",
    ] {
        let mut child = place.start(line);
        drop(child.stdout.take());
        let ran = finish(line, child);
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{line}");
    }
    assert!(place.has("other"), "the work is done, whoever listens");
}

#[test]
fn check_answers_even_when_nobody_reads_the_rows() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net").fine();
    let line = "score net PACK/ood/mnist.safetensors --check";
    let mut child = place.start(line);
    drop(child.stdout.take());
    let ran = finish(line, child);
    assert_eq!((ran.code, &*ran.stderr), (Some(1), ""));
}

#[test]
fn nothing_but_results_is_printed_when_stderr_is_no_terminal() {
    let place = Place::new();
    place.run("synth --rows 30000 --width 32 -o rows.npy").fine();
    let line =
        "fit rows.npy --method kpca-nys --sampling uniform --landmarks 128 --react p90 -o net";
    place.run(line).fine();
    place.run("score net rows.npy -o scores.npy").fine();
    place.run("eval PACK --method kpca-rff --features 64").fine();
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error_for_files_and_for_stdout() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net").fine();
    let before = place.files();
    for line in [
        "fit PACK --method pca -o /dev/full",
        "eval PACK --method pca --json /dev/full",
        "synth --rows 1000 --width 64 -o /dev/full",
    ] {
        let message = place.run(line).refused();
        assert!(message.contains("/dev/full: No space left on device"), "{line}: {message}");
    }
    for line in ["score net PACK/test.safetensors", "methods", "man", "inspect net"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::new(line, place.command(line).stdout(full).output().unwrap());
        assert!(ran.refused().contains("cannot write to stdout"), "{line}");
    }
    assert_eq!(place.files(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn an_error_that_cannot_be_told_still_exits_2() {
    let place = Place::new();
    let line = "inspect missing.npy";
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ran = Ran::new(line, place.command(line).stderr(full).output().unwrap());
    assert_eq!(ran.code, Some(2));
    let mut child = place.start(line);
    drop(child.stderr.take());
    assert_eq!(finish(line, child).code, Some(2));
}

#[cfg(unix)]
fn is_device(path: &str) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).unwrap().file_type().is_char_device()
}

#[cfg(unix)]
#[test]
fn the_null_device_takes_output_and_stays_a_device() {
    let place = Place::new();
    place.run("fit PACK --method pca -o /dev/null").fine();
    place.run("eval PACK --method pca --json /dev/null").fine();
    place.run("synth --rows 100 --width 8 -o /dev/null").fine();
    assert!(is_device("/dev/null"));
    assert!(place.files().is_empty());
}

#[cfg(unix)]
#[test]
fn scores_can_go_to_devices() {
    let place = Place::new();
    place.run("fit PACK --method pca -o net").fine();
    let csv = place.run("score net PACK/test.safetensors").fine();
    assert_eq!(place.run("score net PACK/test.safetensors -o /dev/null").fine(), "");
    assert!(is_device("/dev/null"));
    assert_eq!(place.run("score net PACK/test.safetensors -o /dev/stdout").fine(), csv);
}

#[cfg(unix)]
#[test]
fn output_through_a_link_replaces_what_it_points_to() {
    let place = Place::new();
    place.run("fit PACK --method knn -o target").fine();
    std::os::unix::fs::symlink("target", place.path("link")).unwrap();
    place.run("fit PACK --method pca -o link").fine();
    assert!(std::fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    assert!(place.run("inspect target").fine().contains(": pca"));
}
