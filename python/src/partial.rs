//! Fits whose rows come bit by bit.

use std::sync::Mutex;

use offspan::io::TrainingData;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{Given, doubles, head_of};
use crate::detector::Detector;
use crate::gate::{quick, work};
use crate::method::Method;

/// A feature map and the moments of what it made of the rows so far.
#[pyclass(frozen, module = "offspan._internal")]
pub(crate) struct PartialFit {
    // Work on it happens while other Python threads run.
    inner: Mutex<offspan::PartialFit>,
}

impl PartialFit {
    fn new(inner: offspan::PartialFit) -> Self {
        PartialFit { inner: Mutex::new(inner) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, offspan::PartialFit> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[pymethods]
impl PartialFit {
    /// A fit of no rows yet, for a map that need not see any.
    #[staticmethod]
    fn of_width(py: Python<'_>, method: &Method, width: usize) -> PyResult<Self> {
        let params = method.kpca(py)?;
        quick(py, || offspan::PartialFit::new(&params, width)).map(Self::new)
    }

    /// A Nyström fit of no rows yet, with these landmarks.
    #[staticmethod]
    fn with_landmarks(
        py: Python<'_>,
        method: &Method,
        landmarks: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let params = method.kpca(py)?;
        let landmarks = doubles(landmarks, "landmarks")?;
        work(py, None, |_| offspan::PartialFit::with_landmarks(&params, landmarks.view()))
            .map(Self::new)
    }

    /// A fit of no rows yet, with landmarks chosen among a first part of the rows.
    #[staticmethod]
    #[pyo3(signature = (method, features, logits=None, head=None))]
    fn begin(
        py: Python<'_>,
        method: &Method,
        features: &Bound<'_, PyAny>,
        logits: Option<&Bound<'_, PyAny>>,
        head: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let params = method.kpca(py)?;
        let given = Given::new("the first rows", features, logits, None, None)?;
        let TrainingData { rows: data, head: pack_head, .. } = given.open(py)?;
        let head = head.map(head_of).transpose()?.or(pack_head);
        work(py, None, |_| offspan::PartialFit::begin(&params, &data, head.as_ref())).map(Self::new)
    }

    /// Adds rows.
    #[pyo3(signature = (features, progress=None))]
    fn update(
        &self,
        py: Python<'_>,
        features: &Bound<'_, PyAny>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let given = Given::new("the rows", features, None, None, None)?;
        let data = given.rows(py)?;
        work(py, progress.as_ref(), |observer| self.lock().update(&data, observer))
    }

    /// Adds the rows that another fit with the same map has seen.
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        quick(py, || {
            let other = other.lock().clone();
            self.lock().merge(&other)
        })
    }

    /// The detector of all rows seen, without a threshold.
    #[pyo3(signature = (head=None))]
    fn detector(&self, py: Python<'_>, head: Option<&Bound<'_, PyAny>>) -> PyResult<Detector> {
        let head = head.map(head_of).transpose()?;
        work(py, None, |_| offspan::Detector::from_partial(&self.lock(), head.as_ref()))
            .map(Detector::new)
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = quick(py, || Ok(self.lock().to_bytes()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        work(py, None, |_| offspan::PartialFit::from_bytes(bytes)).map(Self::new)
    }

    /// Rows seen.
    #[getter]
    fn rows(&self, py: Python<'_>) -> PyResult<u64> {
        quick(py, || Ok(self.lock().rows()))
    }

    /// Width of the rows.
    #[getter]
    fn width(&self, py: Python<'_>) -> PyResult<usize> {
        quick(py, || Ok(self.lock().width()))
    }
}
