//! Two processes with one file: the second is told, and nothing is mixed.

use offspan::io::FileLock;

use crate::util::{Place, finish};

fn place_with_rows() -> Place {
    let place = Place::new();
    place.run("synth --rows 500 --width 16 -o rows.npy").fine();
    place
}

#[track_caller]
fn refused_while_locked(place: &Place, file: &str, line: &str) {
    let lock = FileLock::try_new(place.path(file)).unwrap();
    let before = place.files();
    let message = place.run(line).refused();
    let holder = std::process::id();
    assert!(message.contains(&format!("is in use: process {holder} is writing it")), "{message}");
    assert_eq!(place.files(), before);
    drop(lock);
    place.run(line).fine();
    assert!(!place.has(&format!("{file}.lock")), "{:?}", place.files());
}

#[test]
fn a_detector_that_another_process_is_writing_is_left_to_it() {
    let place = place_with_rows();
    refused_while_locked(&place, "net", "fit rows.npy --method pca -o net");
    refused_while_locked(&place, "net", "calibrate net rows.npy --keep 0.9 -o net");
}

#[test]
fn a_checkpoint_that_another_fit_uses_is_left_to_it() {
    let place = place_with_rows();
    refused_while_locked(&place, "c", "fit rows.npy --method pca --checkpoint c -o net");
    let members =
        "fit rows.npy --method kpca-ensemble --sampling uniform --landmarks 32 --features 32";
    refused_while_locked(&place, "c.nys", &format!("{members} --checkpoint c -o net"));
}

#[test]
fn a_file_that_happens_to_be_called_like_a_lock_is_nobodys_lock_and_stays() {
    let place = place_with_rows();
    place.write("Cargo.lock", "version = 4\n");
    let before = place.files();
    let message = place.run("fit rows.npy --method pca -o Cargo").refused();
    assert!(message.contains("Cargo.lock: not a lock of offspan"), "{message}");
    assert_eq!((place.read("Cargo.lock"), place.files()), (b"version = 4\n".to_vec(), before));
}

#[test]
fn of_many_fits_with_one_output_one_at_least_writes_it_and_the_others_are_told() {
    let place = place_with_rows();
    place.run("fit rows.npy --method pca -o alone").fine();
    let line = "fit rows.npy --method pca -o net";
    let children: Vec<_> = (0..6).map(|_| place.start(line)).collect();
    let ran: Vec<_> = children.into_iter().map(|child| finish(line, child)).collect();
    assert!(ran.iter().any(|ran| ran.code == Some(0)), "{ran:?}");
    for ran in ran {
        match ran.code {
            Some(0) => drop(ran.fine()),
            _ => assert!(ran.refused().contains("is in use")),
        }
    }
    assert_eq!(place.read("net"), place.read("alone"));
    assert_eq!(place.files(), ["alone", "net", "rows.npy"]);
}
