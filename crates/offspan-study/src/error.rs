//! What can go wrong in an evaluation or a study.

use offspan_report::plot::PngError;

/// Result with [`StudyError`].
pub type Result<T, E = StudyError> = std::result::Result<T, E>;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// The library says why.
    #[error(transparent)]
    Library(#[from] offspan::Error),
    /// What was given does not make a study.
    #[error("{0}")]
    Setup(String),
    /// A plot cannot become a picture.
    #[error("cannot draw {plot}: {source}")]
    Picture {
        /// The plot's file name.
        plot: String,
        /// The reason.
        source: PngError,
    },
    /// A folder for results cannot be made.
    #[error("cannot make the folder {path}: {source}")]
    Folder {
        /// The folder.
        path: String,
        /// The system's own reason.
        source: std::io::Error,
    },
    /// A document cannot be written as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl StudyError {
    /// Whether nothing else should be tried: the user asked for the stop, or files cannot be read or
    /// written.
    pub(crate) fn ends_all(&self) -> bool {
        use offspan::Error::{Interrupted, Io};
        matches!(
            self,
            StudyError::Library(Interrupted { .. } | Io { .. }) | StudyError::Folder { .. }
        )
    }
}
