//! Files appear whole or not at all: written without a name where the system can do that, synced, and only then given
//! their name.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use super::unnamed;
use crate::{Error, Result};

/// Writes a file through `write`, which may seek. An error, a kill or a loss of power leaves the old file, if any,
/// as it was, or the new one, whole; when this returns, the new one is on the disk under its name.
///
/// On Linux the file has no name while it is written, so that a kill leaves nothing behind either; where the file system
/// cannot do that, and on other systems, a kill leaves `.offspan-….partial` beside the file.
///
/// Devices and pipes (`/dev/stdout`) cannot be renamed onto and are written directly.
///
/// # Errors
/// If the file cannot be written.
pub fn create_atomically(
    path: &Path,
    write: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<()> {
    if is_device(path)? {
        let mut device =
            File::options().write(true).open(path).map_err(Error::io("write", path))?;
        return write(&mut device).map_err(Error::io("write", path));
    }
    // A link keeps pointing where it does: replace what it points to.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = folder_of(&target);
    #[cfg(target_os = "linux")]
    if let Some(mut file) = unnamed::create(&folder).map_err(not_created(path))? {
        write(&mut file).map_err(Error::io("write", path))?;
        file.sync_all().map_err(Error::io("write", path))?;
        unnamed::give_name(&file, &target).map_err(Error::io("write", path))?;
        return sync_folder(&folder).map_err(Error::io("write", path));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // What any new file gets; the umask applies.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut partial = builder.tempfile_in(&folder).map_err(not_created(path))?;
    write(partial.as_file_mut()).map_err(Error::io("write", path))?;
    partial.as_file().sync_all().map_err(Error::io("write", path))?;
    partial.persist(&target).map_err(|error| Error::io("write", path)(error.error))?;
    sync_folder(&folder).map_err(Error::io("write", path))
}

/// What the names of unfinished files begin and end with.
pub(super) const PREFIX: &str = ".offspan-";
pub(super) const SUFFIX: &str = ".partial";

/// Whether there is something that is no regular file.
fn is_device(path: &Path) -> Result<bool> {
    match path.metadata() {
        Ok(found) => Ok(!found.is_file()),
        // Also a link to nowhere. What else is wrong with the place shows when a file is created there.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(Error::io("write", path)(error)),
    }
}

/// Puts a new name on the disk. Some file systems have nothing to do there, and say so.
#[cfg(unix)]
pub(super) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // A folder that may be written but not read; one that cannot be synced.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Other systems cannot sync folders.
#[cfg(not(unix))]
pub(super) fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Writes bytes as a file that appears whole or not at all.
///
/// # Errors
/// If the file cannot be written.
pub fn write_bytes(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    create_atomically(path, |file| file.write_all(bytes))
}

/// Writes text as a file that appears whole or not at all.
///
/// # Errors
/// If the file cannot be written.
pub fn write_text(path: impl AsRef<Path>, text: &str) -> Result<()> {
    let path = path.as_ref();
    write_bytes(path, text.as_bytes())
}

/// The system's reason without the name of our temporary file, which `tempfile` appends.
fn not_created(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |error| {
        let text = error.to_string();
        let reason = text.split(" at path ").next().unwrap_or_default();
        Error::io("create a file for", &path)(std::io::Error::new(error.kind(), reason))
    }
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Says at once, before long work, that a file could not be written there.
///
/// # Errors
/// If the path is a folder, or its folder does not exist or refuses new files.
pub fn check_writable(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    if path.is_dir() {
        return Err(Error::io("write", path)(ErrorKind::IsADirectory.into()));
    }
    if is_device(path)? {
        return Ok(());
    }
    let folder = folder_of(path);
    #[cfg(target_os = "linux")]
    if unnamed::create(&folder).map_err(not_created(path))?.is_some() {
        return Ok(());
    }
    tempfile::Builder::new()
        .prefix(".offspan-probe.")
        .tempfile_in(folder)
        .map(drop)
        .map_err(not_created(path))
}

/// Removes a file that may not be there.
///
/// # Errors
/// If it is there and cannot be removed.
pub fn remove_if_exists(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}
