//! Checkpoint files and what becomes of them.

use crate::util::Place;

#[test]
fn a_checkpoint_in_the_place_of_the_detector_is_refused() {
    let place = Place::new();
    let ensemble = "--method kpca-ensemble --landmarks 32 --features 32";
    for (flags, detector) in [
        ("--method pca --checkpoint net".to_owned(), "net"),
        ("--method pca --checkpoint ./net".to_owned(), "net"),
        (format!("{ensemble} --checkpoint net"), "net.rff"),
        (format!("{ensemble} --checkpoint net"), "net.nys"),
    ] {
        let ran = place.run(&format!("fit PACK {flags} -o {detector}"));
        assert!(ran.code == Some(2) || place.has(detector), "the detector is gone: {ran:?}");
        ran.refused();
    }
}

#[test]
fn a_fit_removes_no_file_but_its_own_checkpoint() {
    let place = Place::new();
    place.run("synth --rows 500 --width 16 -o rows.npy").fine();
    place.write("net.rff", "precious");
    place.write("net.nys", "precious");
    place.run("fit rows.npy --method pca --checkpoint net -o out").fine();
    assert_eq!(place.files(), ["net.nys", "net.rff", "out", "rows.npy"]);

    for method in ["knn", "energy", "kpca-exact", "kpca-exact-prop2"] {
        place.write("notes", "precious");
        let ran = place.run(&format!("fit rows.npy --method {method} --checkpoint notes -o none"));
        assert!(place.has("notes"), "{method} removed a file that is no checkpoint");
        assert!(ran.refused().contains("checkpoint"), "{method}");
    }
    let line =
        "fit rows.npy --method kpca-ensemble --sampling uniform --landmarks 32 --features 32";
    place.run(&format!("{line} --checkpoint notes -o out")).fine();
    assert!(place.has("notes"), "kpca-ensemble removed a file that is no checkpoint of its own");
}

#[test]
fn a_finished_fit_with_checkpoint_equals_one_without_and_leaves_no_checkpoint() {
    let place = Place::new();
    for flags in [
        "--method pca",
        "--method kpca-rff --features 64 --react p90",
        "--method kpca-nys --landmarks 48",
        "--method kpca-ensemble --landmarks 48 --features 64",
    ] {
        place.run(&format!("fit PACK {flags} -o plain")).fine();
        let line = format!("fit PACK {flags} --checkpoint c --checkpoint-every 0 -o saved");
        place.run(&line).fine();
        assert_eq!(place.read("saved"), place.read("plain"), "{flags}");
        assert_eq!(place.files(), ["plain", "saved"], "{flags}");
    }
}

#[cfg(unix)]
#[test]
fn a_fit_goes_on_when_its_checkpoint_finds_no_room() {
    let place = Place::new();
    // Moments of 3.9 MB and a detector of far less than the limit of 1 or 2 MB.
    place.run("synth --rows 6000 --width 700 -o rows.npy").fine();
    let flags = "fit rows.npy --method pca --components 20";
    place.run(&format!("{flags} -o plain")).fine();
    let line = format!("{flags} --checkpoint c --checkpoint-every 0 -o net");
    let ran = place.limited(&line, 2000);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(place.read("net") == place.read("plain"), "another detector came out");
    let told =
        ran.stderr.matches("note: the checkpoint could not be saved: cannot write c").count();
    assert_eq!(told, 1, "{ran:?}");
    assert!(ran.stderr.contains("the fit goes on"), "{ran:?}");
    assert_eq!(place.files(), ["net", "plain", "rows.npy"]);
}
