//! Which rows of a batch p-values let us call OoD.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use offspan::calibrate;
use pyo3::prelude::*;

use crate::gate::quick;

/// Which rows to flag, so that on average at most this share of them are in-distribution.
#[pyfunction]
pub(crate) fn benjamini_hochberg<'py>(
    py: Python<'py>,
    p_values: PyReadonlyArray1<'py, f64>,
    level: f64,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let p_values = p_values.as_array().to_vec();
    Ok(quick(py, || calibrate::benjamini_hochberg(&p_values, level))?.into_pyarray(py))
}

/// The smallest level at which each row is flagged.
#[pyfunction]
pub(crate) fn adjusted<'py>(
    py: Python<'py>,
    p_values: PyReadonlyArray1<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let p_values = p_values.as_array().to_vec();
    Ok(quick(py, || calibrate::adjusted(&p_values))?.into_pyarray(py))
}

/// The fewest rows that a threshold with this promise can be set with.
#[pyfunction]
pub(crate) fn rows_needed(py: Python<'_>, keep: f64, confidence: f64) -> PyResult<usize> {
    quick(py, || offspan::Promise { keep, confidence }.rows_needed())
}
