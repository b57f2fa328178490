//! What can be wrong with a model, its data, or how they go together; each as a sentence.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Result of reading and running models.
pub type InputResult<T> = Result<T, InputError>;

/// Why features could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The library says why.
    #[error(transparent)]
    Library(#[from] offspan::Error),

    /// An image cannot be used.
    #[error("{}: {reason}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },

    /// A model cannot be read or run.
    #[error("{}: {reason}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },

    /// Data that are no images, lists or arrays, or do not fit the model.
    #[error("{}: {reason}", path.display())]
    Data {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },

    /// A setting that is out of range or does not go with another.
    #[error("--{flag}: expected {expected}, got {got}")]
    Setting {
        /// The flag without dashes.
        flag: &'static str,
        /// What is accepted.
        expected: String,
        /// What was given.
        got: String,
    },
}

impl InputError {
    pub(crate) fn image(path: &Path, reason: impl Display) -> Self {
        InputError::Image { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn model(path: &Path, reason: impl Display) -> Self {
        InputError::Model { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn data(path: &Path, reason: impl Display) -> Self {
        InputError::Data { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn setting(
        flag: &'static str,
        expected: impl Into<String>,
        got: impl Display,
    ) -> Self {
        InputError::Setting { flag, expected: expected.into(), got: got.to_string() }
    }

    /// The operating system refused a file operation.
    pub(crate) fn io(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> InputError {
        let path = path.to_owned();
        move |source| offspan::Error::Io { action, path, source }.into()
    }

    /// Whether somebody asked to stop.
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        matches!(self, InputError::Library(offspan::Error::Interrupted { .. }))
    }
}
