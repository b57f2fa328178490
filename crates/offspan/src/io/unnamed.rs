//! Files that have no name until they are whole: whatever ends the process before, the system takes them away.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, linkat, open, rename};
use rustix::io::{Errno, retry_on_intr};
use xxhash_rust::xxh3::xxh3_64;

use super::atomic::{PREFIX, SUFFIX};

/// So often another process may come between; more is no coincidence.
const ATTEMPTS: usize = 100;

/// A file without a name in a folder; none where the file system has no such files, or where they could not be given a
/// name later.
pub(super) fn create(folder: &Path) -> Result<Option<File>> {
    if !Path::new("/proc/self/fd").is_dir() {
        return Ok(None);
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    // What any new file gets; the umask applies.
    let mode = Mode::from_raw_mode(0o666);
    match retry_on_intr(|| open(folder, flags, mode)) {
        Ok(file) => Ok(Some(file.into())),
        // Kernels and file systems without such files: the last two open the folder itself.
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::ISDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Gives a file its name, in place of the file that may have it.
pub(super) fn give_name(file: &File, target: &Path) -> Result<()> {
    let link = |name: &Path| {
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        retry_on_intr(|| linkat(CWD, &itself, CWD, name, AtFlags::SYMLINK_FOLLOW))
    };
    match link(target) {
        Err(Errno::EXIST) => {}
        other => return other.map_err(Error::from),
    }
    // One writer of a folder at a time: a name that was taken away cannot be given to the same file again. A folder that
    // cannot be locked has to do without.
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let turn = File::open(folder.unwrap_or(Path::new("."))).ok();
    if let Some(turn) = &turn {
        let _ = retry_on_intr(|| flock(turn, FlockOperation::LockExclusive));
    }
    // A link cannot take the place of a file, and a rename can. The name in between is always the same for one target,
    // so that what a kill may leave between the next two steps, a whole file, is gone after the next write.
    let beside = beside(target);
    for _ in 0..ATTEMPTS {
        match link(&beside) {
            Err(Errno::EXIST) => {
                remove(&beside)?;
                continue;
            }
            other => other?,
        }
        match retry_on_intr(|| rename(&beside, target)) {
            // Another process that writes the same file has taken the name away.
            Err(Errno::NOENT) => {}
            Err(error) => {
                remove(&beside)?;
                return Err(error.into());
            }
            Ok(()) => {
                // Another process may have renamed this very file already; then a rename does nothing.
                return if file.metadata()?.nlink() > 1 { remove(&beside) } else { Ok(()) };
            }
        }
    }
    Err(Error::new(ErrorKind::ResourceBusy, "other processes keep on writing it"))
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Where a file lies between having no name and having that of another.
fn beside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().as_encoded_bytes();
    target.with_file_name(format!("{PREFIX}{:016x}{SUFFIX}", xxh3_64(name)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::io::write_bytes;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_no_name_before_it_is_whole_and_then_takes_the_place_of_another() {
        let folder = tempfile::tempdir().unwrap();
        // Every system that the tests run on has such files in its temporary folder.
        let Some(mut file) = create(folder.path()).unwrap() else { panic!("no unnamed files") };
        file.write_all(b"new").unwrap();
        assert!(names(folder.path()).is_empty());
        let target = folder.path().join("x");
        std::fs::write(&target, "old").unwrap();
        give_name(&file, &target).unwrap();
        assert_eq!(names(folder.path()), ["x"]);
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn what_a_kill_left_between_link_and_rename_is_gone_after_the_next_write() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("x");
        std::fs::write(&target, "old").unwrap();
        std::fs::write(beside(&target), "whole, but never renamed").unwrap();
        write_bytes(&target, b"new").unwrap();
        assert_eq!(names(folder.path()), ["x"]);
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn many_writers_of_one_file_leave_one_whole_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("x");
        let contents = |writer: u8| vec![writer; 10_000];
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let target = &target;
                scope.spawn(move || {
                    for _ in 0..50 {
                        write_bytes(target, &contents(writer)).unwrap();
                    }
                });
            }
            // Readers see a whole file at any time.
            scope.spawn(|| {
                for _ in 0..200 {
                    if let Ok(found) = std::fs::read(&target) {
                        assert!(found.len() == 10_000 && found.iter().all(|&b| b == found[0]));
                    }
                }
            });
        });
        assert_eq!(names(folder.path()), ["x"]);
    }
}
