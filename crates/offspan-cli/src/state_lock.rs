//! One run at a time reads, updates and writes a state.

use std::path::Path;
use std::time::Duration;

use offspan::Error;
use offspan::io::FileLock;

use crate::interrupt;
use crate::output::Failure;

/// Between two looks whether another run is done.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits for other runs with the same state, which keep it locked until they end.
pub(crate) fn lock(state: &Path) -> Result<FileLock, Failure> {
    loop {
        match FileLock::try_new(state) {
            Err(Error::InUse { .. }) if interrupt::requested() => {
                return Err(Error::Interrupted { hint: String::new() }.into());
            }
            Err(Error::InUse { .. }) => std::thread::sleep(PAUSE),
            other => return Ok(other?),
        }
    }
}
