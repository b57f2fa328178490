//! The arithmetic of a detector as JSON and arrays.

use numpy::{PyArray1, PyArrayMethods};
use offspan::graph::Numbers;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::exception;

/// The description of a detector's graph, and its constants by name.
pub(crate) fn of<'py>(
    py: Python<'py>,
    detector: &offspan::Detector,
) -> PyResult<(String, Bound<'py, PyDict>)> {
    let graph = detector.graph().map_err(|error| exception(py, &error))?;
    let constants = PyDict::new(py);
    for constant in &graph.constants {
        let shape = constant.shape.clone();
        let array = match &constant.numbers {
            Numbers::Single(numbers) => {
                PyArray1::from_slice(py, numbers).reshape(shape)?.into_any()
            }
            Numbers::Double(numbers) => {
                PyArray1::from_slice(py, numbers).reshape(shape)?.into_any()
            }
            Numbers::Index(numbers) => PyArray1::from_slice(py, numbers).reshape(shape)?.into_any(),
            Numbers::Flag(numbers) => PyArray1::from_slice(py, numbers).reshape(shape)?.into_any(),
        };
        constants.set_item(&constant.name, array)?;
    }
    Ok((graph.description().to_string(), constants))
}
