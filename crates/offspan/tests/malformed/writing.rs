//! Places that cannot be written.

use offspan::Moments;
use offspan::io::{check_writable, write_npy_f64};

use crate::common::{names_in, put};
use crate::{Case, check, detector, nys, told};

#[test]
fn places_that_cannot_be_written() {
    let cases: &[Case] = &[
        (
            "a detector in a missing folder",
            |d| told(detector(&nys()).save(d.join("no/x.offspan"))),
            "cannot create a file for {dir}/no/x.offspan: No such file or directory…",
        ),
        (
            "scores in a missing folder",
            |d| told(write_npy_f64(d.join("no/x.npy"), &[1.0])),
            "cannot create a file for {dir}/no/x.npy: No such file or directory…",
        ),
        (
            "moments in place of a folder",
            |d| told(Moments::new(2).save(d)),
            "cannot write {dir}: Is a directory (os error 21)",
        ),
        ("asked of a folder", |d| told(check_writable(d)), "cannot write {dir}: is a directory"),
        (
            "asked of a missing folder",
            |d| told(check_writable(d.join("no/x"))),
            "cannot create a file for {dir}/no/x: No such file or directory…",
        ),
        (
            "asked of a place below a file",
            |d| {
                put(d, "file", "");
                told(check_writable(d.join("file/x")))
            },
            "cannot create a file for {dir}/file/x: Not a directory…",
        ),
    ];
    check(cases);
}

#[test]
fn asking_whether_a_place_can_be_written_leaves_nothing_there() {
    let folder = tempfile::tempdir().unwrap();
    check_writable(folder.path().join("x")).unwrap();
    put(folder.path(), "old", "kept");
    check_writable(folder.path().join("old")).unwrap();
    assert_eq!(names_in(folder.path()), ["old"]);
    assert_eq!(std::fs::read(folder.path().join("old")).unwrap(), b"kept");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let expected =
        format!("cannot write {}: No space left on device (os error 28)", full.display());
    // Short and long files: a short one stays in the buffer until the end.
    for told in [
        told(detector(&nys()).save(&full)),
        told(Moments::new(200).save(&full)),
        told(write_npy_f64(&full, &[1.0])),
        told(write_npy_f64(&full, &[1.0; 10_000])),
    ] {
        assert_eq!(told.as_deref(), Some(&*expected));
    }
    assert_eq!(names_in(folder.path()), ["full"]);
}
