//! A fitted detector.

use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use offspan::{Calibration, ExplainedTerm, Promise, Silent};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays::Given;
use crate::errors::exception;
use crate::gate::{quick, work};
use crate::graph;

/// Arrays of at most this many values are scored without a look for signals.
const SHORT: usize = 1 << 22;

/// Name, weight and p-values of a term.
type Term<'py> = (String, f64, Bound<'py, PyArray1<f64>>);

/// A fitted detector; higher scores are more in-distribution.
#[pyclass(frozen, module = "offspan._internal")]
pub(crate) struct Detector {
    inner: offspan::Detector,
}

impl Detector {
    pub(crate) fn new(inner: offspan::Detector) -> Self {
        Detector { inner }
    }

    /// What threshold and p-values come from; `who` needs it.
    pub(crate) fn calibration(&self, py: Python<'_>, who: &str) -> PyResult<&Calibration> {
        self.inner.calibration_for(who).map_err(|error| exception(py, &error))
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

    /// Saves the detector; the file appears whole or not at all. Without `force`, it replaces no file of
    /// another kind.
    #[pyo3(signature = (path, force=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        quick(py, || if force { self.inner.save_over(&path) } else { self.inner.save(&path) })
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
        let data = given.rows(py)?;
        let scores = if given.size() <= SHORT {
            quick(py, || self.inner.score_dataset(&data, &Silent))
        } else {
            work(py, None, |observer| self.inner.score_dataset(&data, observer))
        }?;
        Ok(scores.into_pyarray(py))
    }

    /// Name, weight and p-values of each term of the score; none where it has no parts.
    #[pyo3(signature = (features, logits=None, extras=None))]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        features: &Bound<'py, PyAny>,
        logits: Option<&Bound<'py, PyAny>>,
        extras: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Vec<Term<'py>>>> {
        let given = Given::new("the rows to explain", features, logits, None, extras)?;
        let data = given.rows(py)?;
        let explained = if given.size() <= SHORT {
            quick(py, || self.inner.explain(&data, &Silent))
        } else {
            work(py, None, |observer| self.inner.explain(&data, observer))
        }?;
        let term = |term: &ExplainedTerm| {
            let p_values: Vec<f64> = term.p_values().collect();
            (term.name.clone(), term.weight, p_values.into_pyarray(py))
        };
        Ok(explained.map(|explained| explained.terms.iter().map(term).collect()))
    }

    /// Whether each row is taken for OoD, by the threshold or, with `fdr`, as a batch.
    #[pyo3(signature = (features, logits=None, extras=None, fdr=None))]
    fn is_out<'py>(
        &self,
        py: Python<'py>,
        features: &Bound<'py, PyAny>,
        logits: Option<&Bound<'py, PyAny>>,
        extras: Option<&Bound<'py, PyDict>>,
        fdr: Option<f64>,
    ) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let given = Given::new("the rows to score", features, logits, None, extras)?;
        let batch = [given.rows(py)?];
        let decisions = if given.size() <= SHORT {
            quick(py, || self.inner.decide(&batch, fdr, &Silent))
        } else {
            work(py, None, |observer| self.inner.decide(&batch, fdr, observer))
        }?;
        Ok(decisions.is_out.into_pyarray(py))
    }

    /// The same detector with another threshold: set with these rows or, without any, with the scores
    /// that it knows. What is not promised anew stays as it was.
    #[pyo3(signature = (features=None, keep=None, confidence=None, logits=None, extras=None))]
    fn calibrated(
        &self,
        py: Python<'_>,
        features: Option<&Bound<'_, PyAny>>,
        keep: Option<f64>,
        confidence: Option<f64>,
        logits: Option<&Bound<'_, PyAny>>,
        extras: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let known = self.inner.threshold().map(|threshold| threshold.promise).unwrap_or_default();
        let promise = Promise {
            keep: keep.unwrap_or(known.keep),
            confidence: confidence.unwrap_or(known.confidence),
        };
        let mut detector = self.inner.clone();
        let Some(features) = features else {
            return quick(py, || {
                detector.set_promise(promise)?;
                Ok(detector)
            })
            .map(Self::new);
        };
        let given = Given::new("the calibration rows", features, logits, None, extras)?;
        let data = given.rows(py)?;
        work(py, None, |observer| {
            detector.calibrate(&data, promise, observer)?;
            Ok(detector)
        })
        .map(Self::new)
    }

    /// Scores of the calibration rows, ascending.
    fn calibration_scores<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.inner.calibration().map(|known| known.scores().to_vec().into_pyarray(py))
    }

    /// The conformal p-value of each score.
    fn p_values<'py>(
        &self,
        py: Python<'py>,
        scores: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let known = self.calibration(py, "a p-value")?;
        let scores = scores.as_array().to_vec();
        Ok(quick(py, || Ok(known.p_values(&scores)))?.into_pyarray(py))
    }

    /// Whether scores of later in-distribution rows still fit the calibration, as JSON.
    fn check(&self, py: Python<'_>, scores: PyReadonlyArray1<'_, f64>) -> PyResult<String> {
        let known = self.calibration(py, "a check")?;
        let scores = scores.as_array().to_vec();
        let check = quick(py, || known.check(&scores))?;
        Ok(serde_json::json!(check).to_string())
    }

    /// The arithmetic of the detector for other runtimes: a description as JSON, and the constants by name.
    ///
    /// The description has the schema `offspan.graph/1`; see `offspan::graph::Graph::description`, which shows
    /// one. Constants are arrays of float32 or float64, as the library has them, int64 or bool. Inputs are
    /// `features`, perhaps `logits` or another tensor of a row, and the optional `threshold`; outputs are `score`
    /// and, with a threshold, `is_ood` and `p_value`.
    fn graph<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyDict>)> {
        graph::of(py, &self.inner)
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
