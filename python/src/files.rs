//! Files that Python writes, by the library's hand.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::gate::quick;

/// Writes a file that appears whole or not at all, and is on the disk when this returns.
#[pyfunction]
pub(crate) fn write_bytes(py: Python<'_>, path: PathBuf, bytes: &[u8]) -> PyResult<()> {
    quick(py, || offspan::io::write_bytes(&path, bytes))
}
