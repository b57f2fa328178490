//! A request to terminate, as service managers send it.

use crate::util::{Place, finish, signal, wait_until};

#[test]
fn a_terminated_fit_exits_143_and_goes_on_from_its_checkpoint() {
    let place = Place::new();
    place.run("synth --rows 60000 --width 256 --type f16 -o rows.npy").fine();
    let line = "fit rows.npy --method kpca-rff --features 1024 --checkpoint c --checkpoint-every 0";
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let before = std::fs::metadata(place.path("c")).and_then(|file| file.modified()).ok();
        let mut child = place.start(&format!("{line} -o net"));
        let saved = || {
            let now = std::fs::metadata(place.path("c")).and_then(|file| file.modified()).ok();
            now.is_some() && now != before
        };
        assert!(wait_until(&mut child, saved), "the fit ended before its next checkpoint");
        signal(&child, name);
        let ran = finish(line, child);
        assert_eq!((ran.code, &*ran.stdout), (Some(code), ""), "{ran:?}");
        assert!(ran.stderr.contains("is in c, run the same command to go on"), "{ran:?}");
        assert_eq!(place.files(), ["c", "rows.npy"]);
    }
}

#[test]
fn a_second_request_ends_the_program_at_once_with_the_same_code() {
    let place = Place::new();
    place.run("synth --rows 4000 --width 64 -o rows.npy").fine();
    // One chunk, then seconds of eigenvectors, which look at no signal.
    let line = "fit rows.npy --method kpca-rff --features 2500 --checkpoint c -o net";
    let mut child = place.start(line);
    assert!(wait_until(&mut child, || place.has("c")), "the fit ended before its first checkpoint");
    signal(&child, "TERM");
    // Fails if the program ended by itself after the first one.
    let _ = std::process::Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
    assert_eq!(finish(line, child).code, Some(143));
}
