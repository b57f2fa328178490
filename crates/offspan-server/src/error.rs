//! Why a server could not start or go on.

use std::path::PathBuf;

/// Why a server ended other than as it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A setting is wrong.
    #[error("{0}")]
    Setting(String),

    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The system's reason.
        source: std::io::Error,
    },

    /// A running server cannot be asked.
    #[error("cannot ask {address}: {source}")]
    Ask {
        /// The address.
        address: String,
        /// The system's reason.
        source: std::io::Error,
    },

    /// A model cannot be served.
    #[error("{name}: {reason}")]
    Model {
        /// The model, or the path that it should be at.
        name: String,
        /// What is wrong with it.
        reason: String,
    },

    /// Another server keeps its state there.
    #[error("{}: another server keeps its state there", path.display())]
    StateInUse {
        /// The folder.
        path: PathBuf,
    },

    /// A file could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },

    /// The system has no threads or events to give.
    #[error("cannot start: {0}")]
    System(std::io::Error),
}

impl ServeError {
    pub(crate) fn io(
        action: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(std::io::Error) -> ServeError {
        let path = path.to_owned();
        move |source| ServeError::Io { action, path, source }
    }
}
