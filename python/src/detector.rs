//! A fitted detector.

use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1};
use offspan::Silent;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays::Given;
use crate::gate::{quick, work};

/// Arrays of at most this many values are scored without a look for signals.
const SHORT: usize = 1 << 22;

/// A fitted detector; higher scores are more in-distribution.
#[pyclass(frozen, module = "offspan._internal")]
pub(crate) struct Detector {
    inner: offspan::Detector,
}

impl Detector {
    pub(crate) fn new(inner: offspan::Detector) -> Self {
        Detector { inner }
    }
}

#[pymethods]
impl Detector {
    /// Loads a detector file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        quick(py, || offspan::Detector::load(&path)).map(Self::new)
    }

    /// The detector that `to_bytes` wrote.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        quick(py, || offspan::Detector::from_bytes(bytes)).map(Self::new)
    }

    /// Saves the detector; the file appears whole or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        quick(py, || self.inner.save(&path))
    }

    /// The detector file's bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = quick(py, || Ok(self.inner.to_bytes()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// One score per row.
    #[pyo3(signature = (features, logits=None, extras=None))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        features: &Bound<'py, PyAny>,
        logits: Option<&Bound<'py, PyAny>>,
        extras: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let given = Given::new("the rows to score", features, logits, None, extras)?;
        let (data, _) = given.open(py)?;
        let scores = if given.size() <= SHORT {
            quick(py, || self.inner.score_dataset(&data, &Silent))
        } else {
            work(py, None, |observer| self.inner.score_dataset(&data, observer))
        }?;
        Ok(scores.into_pyarray(py))
    }

    /// The same detector with a threshold that keeps this share of in-distribution rows.
    #[pyo3(signature = (features, keep, logits=None, extras=None))]
    fn calibrated(
        &self,
        py: Python<'_>,
        features: &Bound<'_, PyAny>,
        keep: f64,
        logits: Option<&Bound<'_, PyAny>>,
        extras: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let given = Given::new("the calibration rows", features, logits, None, extras)?;
        let (data, _) = given.open(py)?;
        let mut detector = self.inner.clone();
        work(py, None, |observer| {
            detector.calibrate(&data, keep, observer)?;
            Ok(detector)
        })
        .map(Self::new)
    }

    /// What the detector is, as JSON.
    fn info(&self) -> String {
        serde_json::json!(self.inner.info()).to_string()
    }

    /// Eigenvalues of each kernel PCA inside.
    fn eigenvalues<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyArray1<f64>>> {
        self.inner.eigenvalues().into_iter().map(|values| values.clone().into_pyarray(py)).collect()
    }

    /// The stored threshold.
    #[getter]
    fn threshold(&self) -> Option<f64> {
        self.inner.threshold().map(|threshold| threshold.value)
    }
}
