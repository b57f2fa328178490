//! Ctrl-C and a terminal that goes away.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::util::{Place, finish, signal, start_and_wait_for_handlers, wait_until};

/// Rows for fits that take seconds.
fn long_rows(place: &Place) {
    place.run("synth --rows 60000 --width 256 --type f16 -o rows.npy").fine();
}

#[test]
fn an_interrupted_fit_exits_130_and_leaves_nothing() {
    let place = Place::new();
    long_rows(&place);
    let line = "fit rows.npy --method kpca-rff --features 2048 -o net";
    let child = start_and_wait_for_handlers(place.command(line));
    signal(&child, "INT");
    let ran = finish(line, child);
    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: interrupted; no output was written"), "{ran:?}");
    assert_eq!(place.files(), ["rows.npy"]);
}

#[test]
fn an_interrupted_fit_goes_on_from_its_checkpoint_to_the_same_detector() {
    let place = Place::new();
    long_rows(&place);
    let line = "fit rows.npy --method kpca-rff --features 1024 --checkpoint c --checkpoint-every 0";
    let mut child = place.start(&format!("{line} -o net"));
    assert!(wait_until(&mut child, || place.has("c")), "the fit ended before its first checkpoint");
    signal(&child, "INT");
    let ran = finish(line, child);
    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
    assert!(ran.stderr.contains("is in c, run the same command to go on"), "{ran:?}");
    assert_eq!(place.files(), ["c", "rows.npy"]);

    // A checkpoint belongs to one fit: other parameters are refused, and it stays.
    let message = place.run(&format!("{line} --gamma 7 -o net")).refused();
    assert!(message.contains("cannot resume: it was made with other parameters"), "{message}");
    let message = place.run(&format!("{line} --hold-out 0.5 -o net")).refused();
    assert!(message.contains("it held out other rows"), "{message}");
    assert_eq!(place.files(), ["c", "rows.npy"]);

    place.run(&format!("{line} -o net")).fine();
    assert_eq!(place.files(), ["net", "rows.npy"]);
    place.run("fit rows.npy --method kpca-rff --features 1024 -o whole").fine();
    assert!(place.read("net") == place.read("whole"), "another detector came out");
}

#[test]
fn an_interrupt_after_the_pass_tells_where_the_progress_is() {
    let place = Place::new();
    place.run("synth --rows 4000 --width 64 -o rows.npy").fine();
    // One chunk, then seconds of eigenvectors.
    let line = "fit rows.npy --method kpca-rff --features 2500 --checkpoint c -o net";
    let mut child = place.start(line);
    assert!(wait_until(&mut child, || place.has("c")), "the fit ended before its first checkpoint");
    signal(&child, "INT");
    let ran = finish(line, child);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.stderr.contains(" in c, run the same command to go on"), "{ran:?}");
    assert_eq!(place.files(), ["c", "rows.npy"]);
}

#[test]
fn an_interrupted_score_exits_130_and_leaves_nothing() {
    let place = Place::new();
    place.run("synth --rows 60000 --width 64 -o rows.npy").fine();
    place.run("fit rows.npy --method knn -o net").fine();
    let line = "score net rows.npy -o scores.npy";
    let child = start_and_wait_for_handlers(place.command(line));
    signal(&child, "INT");
    let ran = finish(line, child);
    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
    assert_eq!(place.files(), ["net", "rows.npy"]);
}

#[test]
fn an_interrupted_synth_exits_130_and_leaves_nothing() {
    let place = Place::new();
    let line = "synth --rows 1000000000 --width 64 -o huge.npy";
    let child = start_and_wait_for_handlers(place.command(line));
    signal(&child, "INT");
    let ran = finish(line, child);
    assert!(place.files().is_empty(), "{:?}", place.files());
    assert_eq!(ran.code, Some(130), "{ran:?}");
}

#[test]
fn an_interrupt_ends_an_inspect_of_a_huge_file() {
    let place = Place::new();
    // A sparse file: zeros without blocks on the disk.
    File::create(place.path("huge.bin")).unwrap().set_len(1 << 40).unwrap();
    let line = "inspect huge.bin --raw f32:1024";
    let child = start_and_wait_for_handlers(place.command(line));
    signal(&child, "INT");
    let ran = finish(line, child);
    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
}

#[test]
fn a_fit_under_nohup_outlives_the_terminal() {
    let place = Place::new();
    place.run("synth --rows 20000 --width 128 -o rows.npy").fine();
    let mut command = Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_offspan")).current_dir(place.path("."));
    command.args("fit rows.npy --method kpca-rff --features 1024 -o net".split(' '));
    command.stdin(Stdio::null());
    let child = start_and_wait_for_handlers(command);
    signal(&child, "HUP");
    let ran = finish("nohup fit", child);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(place.has("net"));
}
