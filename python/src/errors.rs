//! The library's errors as Python's: the same sentence under the right class.

use std::io::ErrorKind;

use offspan::Error;
use pyo3::exceptions::{
    PyBlockingIOError, PyFileExistsError, PyFileNotFoundError, PyKeyboardInterrupt, PyMemoryError,
    PyOSError, PyPermissionError,
};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The exception for an error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Io { source, .. } => match source.kind() {
            ErrorKind::NotFound => PyFileNotFoundError::new_err(text),
            ErrorKind::PermissionDenied => PyPermissionError::new_err(text),
            ErrorKind::AlreadyExists => PyFileExistsError::new_err(text),
            _ => PyOSError::new_err(text),
        },
        Error::Interrupted { .. } => PyKeyboardInterrupt::new_err(text),
        Error::Memory { .. } => PyMemoryError::new_err(text),
        Error::InUse { .. } => PyBlockingIOError::new_err(text),
        Error::Truncated { .. }
        | Error::Malformed { .. }
        | Error::ElementType { .. }
        | Error::MissingTensor { .. }
        | Error::Version { .. }
        | Error::Damaged { .. }
        | Error::Checkpoint { .. } => ours(py, "FormatError", text),
        Error::Decomposition { .. } | Error::NoScore { .. } => ours(py, "OffspanError", text),
        _ => ours(py, "InputError", text),
    }
}

/// An exception of the package's own family.
pub(crate) fn ours(py: Python<'_>, name: &str, text: String) -> PyErr {
    let class = py
        .import("offspan.errors")
        .and_then(|errors| errors.getattr(name))
        .and_then(|class| Ok(class.cast_into::<PyType>()?));
    match class {
        Ok(class) => PyErr::from_type(class, text),
        Err(error) => error,
    }
}

/// Bad input that is found before the library sees it.
pub(crate) fn input_error(py: Python<'_>, text: impl Into<String>) -> PyErr {
    ours(py, "InputError", text.into())
}
