//! Files are replaced whole or not at all.

use std::path::Path;

use crate::common::*;
use offspan::io::create_atomically;
use offspan::{MethodSpec, Moments};

#[test]
fn a_file_is_replaced_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.offspan", "old");
    let told = create_atomically(&path, |file| {
        use std::io::Write;
        file.write_all(b"half of the ne")?;
        Err(std::io::Error::other("the disk broke"))
    });
    let expected = format!("cannot write {}: the disk broke", path.display());
    assert_eq!(told.unwrap_err().to_string(), expected);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(names_in(folder.path()), ["x.offspan"]);

    let train = features(40, WIDTH, 1);
    let detector = fit(&MethodSpec::Kpca(pca()), train.view()).unwrap();
    let told = detector.save(&path).unwrap_err().to_string();
    assert!(told.contains("an offspan detector would take its place"), "{told}");
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    detector.save_over(&path).unwrap();
    detector.save(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), detector.to_bytes());
    assert_eq!(names_in(folder.path()), ["x.offspan"]);
}

#[test]
#[cfg(unix)]
fn a_folder_that_cannot_be_written_keeps_the_old_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x", "old");
    let mode = |mode| std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode));
    mode(0o555).unwrap();
    // Root may write anywhere; then there is nothing to see here.
    if std::fs::write(folder.path().join("probe"), "").is_err() {
        let told = Moments::new(2).save(&path).unwrap_err().to_string();
        let expected = format!("cannot create a file for {}: Permission denied", path.display());
        assert!(told.starts_with(&expected), "{told}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }
    mode(0o755).unwrap();
}

#[test]
#[cfg(unix)]
fn a_link_keeps_pointing_where_it_does_and_new_files_have_ordinary_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let target = put(folder.path(), "target", "old");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    Moments::new(2).save(&link).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(Moments::load(&target).unwrap(), Moments::new(2));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
    let ordinary = put(folder.path(), "ordinary", "");
    assert_eq!(mode(&target), mode(&ordinary));
}

#[test]
#[cfg(unix)]
fn a_name_as_long_as_the_system_allows_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x".repeat(255));
    std::fs::write(&path, "").unwrap();
    Moments::new(2).save(&path).unwrap();
    assert_eq!(Moments::load(&path).unwrap(), Moments::new(2));
}
