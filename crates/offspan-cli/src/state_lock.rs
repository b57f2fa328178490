//! One run at a time reads, updates and writes a state.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::interrupt;
use crate::output::Failure;

/// Between two looks whether another run is done.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits for other runs with the same state, which keep it locked until they end. The lock is on a file
/// beside the state, because the state itself is replaced; that file stays.
pub(crate) fn lock(state: &Path) -> Result<File, Failure> {
    let path = lock_path(state);
    let failed = |error| Failure::Usage(format!("cannot lock {}: {error}", path.display()));
    let mut options = File::options();
    let file = options.create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) if interrupt::requested() => {
                return Err(offspan::Error::Interrupted { hint: String::new() }.into());
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
}

/// `STATE.lock` beside the state; beside what a link points to, so that all ways lead to one lock.
fn lock_path(state: &Path) -> PathBuf {
    let mut path = state.canonicalize().unwrap_or_else(|_| state.to_owned()).into_os_string();
    path.push(".lock");
    path.into()
}
