//! One process at a time writes a file.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Keeps other processes from a file for as long as it lives.
///
/// The lock is on a file `NAME.lock` beside it, because the file itself is replaced when it is written. That one is
/// removed with the lock; one that a killed process left is not locked and hinders nobody. A file of that name that holds
/// anything else than the number of a process is somebody's own, such as `Cargo.lock`: it stays, and there is an error. The
/// system releases the locks of a process that ends, however that comes about. Where the file system has no locks, there
/// is none.
#[derive(Debug)]
pub struct FileLock {
    /// None where there are no locks.
    held: Option<(File, PathBuf)>,
}

impl FileLock {
    /// Locks a file, which need not be there yet. Devices are nobody's.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process has it, [`Error::Malformed`] if `NAME.lock` is a file of another kind, or what the
    /// system says if it cannot be locked.
    pub fn try_new(target: impl AsRef<Path>) -> Result<Self> {
        let target = target.as_ref();
        if target.metadata().is_ok_and(|found| !found.is_file()) {
            return Ok(FileLock { held: None });
        }
        let path = lock_path(target);
        let failed = |error| Error::io("lock", target)(error);
        loop {
            let mut options = File::options();
            options.create(true).truncate(false).read(true).write(true);
            let mut file = options.open(&path).map_err(Error::io("create a file for", target))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    let _ = file.read_to_string(&mut holder);
                    let holder = holder.trim().parse().ok();
                    return Err(Error::InUse { path: target.to_owned(), holder });
                }
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                    let _ = std::fs::remove_file(&path);
                    return Ok(FileLock { held: None });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // Another process may have removed the file between opening and locking: then this lock is on no name.
            if is_at(&file, &path).map_err(failed)? {
                let mut found = Vec::new();
                Read::by_ref(&mut file)
                    .take(LONGEST_HOLDER + 1)
                    .read_to_end(&mut found)
                    .map_err(failed)?;
                if !is_holder(&found) {
                    let reason = format!(
                        "expected no such file, or one with the number of a process, and it holds something else; {} would \
                         be locked by it: choose another name for one of the two",
                        target.display()
                    );
                    return Err(Error::malformed(&path, "a lock of offspan", reason));
                }
                // Who holds it is told to others; nothing depends on it.
                let _ = file.rewind();
                let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
                return Ok(FileLock { held: Some((file, path)) });
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if let Some((file, path)) = self.held.take() {
            // While it is locked: who opens it now finds out that it has no name any more.
            let _ = std::fs::remove_file(path);
            drop(file);
        }
    }
}

/// `NAME.lock` beside the file; beside what a link points to, so that all ways lead to one lock.
fn lock_path(target: &Path) -> PathBuf {
    let mut path = target.canonicalize().unwrap_or_else(|_| target.to_owned()).into_os_string();
    path.push(".lock");
    path.into()
}

/// No number of a process is longer, with the end of its line.
const LONGEST_HOLDER: u64 = 32;

/// Whether this is what a lock holds: the number of a process, or nothing yet.
fn is_holder(bytes: &[u8]) -> bool {
    bytes.len() as u64 <= LONGEST_HOLDER && bytes.trim_ascii().iter().all(u8::is_ascii_digit)
}

/// Whether an open file is the one of this name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
    match path.metadata() {
        Ok(named) => Ok(identity(named) == identity(file.metadata()?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// An open file cannot be removed there.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> std::io::Result<bool> {
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_second_is_told_who_has_it_and_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net");
        let lock = FileLock::try_new(&path).unwrap();
        let error = FileLock::try_new(&path).unwrap_err();
        let own = std::process::id();
        assert!(matches!(error, Error::InUse { holder: Some(holder), .. } if holder == own));
        assert!(error.to_string().contains(&format!("process {own}")), "{error}");
        drop(lock);
        drop(FileLock::try_new(&path).unwrap());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        // What a kill leaves is no lock.
        std::fs::write(folder.path().join("net.lock"), "12345\n").unwrap();
        drop(FileLock::try_new(&path).unwrap());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_file_of_somebody_else_with_the_name_of_the_lock_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("Cargo"), folder.path().join("Cargo.lock"));
        for text in ["version = 4\n", "12 34\n", &"1".repeat(40)] {
            std::fs::write(&other, text).unwrap();
            let error = FileLock::try_new(&path).unwrap_err();
            assert!(matches!(error, Error::Malformed { .. }), "{error}");
            assert!(error.to_string().contains("Cargo.lock: not a lock of offspan"), "{error}");
            assert_eq!(std::fs::read_to_string(&other).unwrap(), text);
        }
    }

    #[test]
    fn never_two_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net");
        let (inside, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while done.load(Ordering::SeqCst) < 400 {
                        if let Ok(_lock) = FileLock::try_new(&path) {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            done.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
    }
}
