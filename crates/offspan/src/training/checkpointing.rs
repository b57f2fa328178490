//! Whether a fit saves its progress.

use std::path::PathBuf;
use std::time::Duration;

/// Where and how often a fit saves its progress.
#[derive(Debug, Clone)]
pub struct Checkpointing {
    /// The checkpoint file.
    pub path: PathBuf,
    /// Least time between two saves.
    pub every: Duration,
}
