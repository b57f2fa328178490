//! Files appear whole or not at all: written beside their place, synced, renamed.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Writes a file through `write`, which may seek. An error or a kill leaves the old file, if any,
/// as it was.
///
/// Devices and pipes (`/dev/stdout`) cannot be renamed onto and are written directly.
///
/// # Errors
/// If the file cannot be written.
pub fn create_atomically(
    path: &Path,
    write: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<()> {
    if path.exists() && !path.is_file() {
        let mut device =
            File::options().write(true).open(path).map_err(Error::io("write", path))?;
        return write(&mut device).map_err(Error::io("write", path));
    }
    // A link keeps pointing where it does: replace what it points to.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".offspan-").suffix(".partial");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // What any new file gets; the umask applies.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut partial = builder.tempfile_in(folder_of(&target)).map_err(not_created(path))?;
    write(partial.as_file_mut()).map_err(Error::io("write", path))?;
    partial.as_file().sync_all().map_err(Error::io("write", path))?;
    partial.persist(&target).map_err(|error| Error::io("write", path)(error.error))?;
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
        return Err(Error::io("write", path)(std::io::ErrorKind::IsADirectory.into()));
    }
    if path.exists() && !path.is_file() {
        return Ok(());
    }
    tempfile::Builder::new()
        .prefix(".offspan-probe.")
        .tempfile_in(folder_of(path))
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
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
