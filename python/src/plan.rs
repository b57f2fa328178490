//! Fits whose rows lie on many machines.

use std::sync::{Arc, Mutex};

use offspan::io::TrainingData;
use offspan::{FitPart, PlanOptions, Promise};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{Given, head_of};
use crate::detector::Detector;
use crate::gate::{quick, work};
use crate::method::Method;

/// A fit by passes over rows that may lie anywhere.
#[pyclass(frozen, module = "offspan._internal")]
pub(crate) struct FitPlan {
    // Locked to look at it or to replace it, never while work goes on: that may call Python, which may ask the plan.
    inner: Mutex<Arc<offspan::FitPlan>>,
}

impl FitPlan {
    fn of(plan: offspan::FitPlan) -> Self {
        FitPlan { inner: Mutex::new(Arc::new(plan)) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Arc<offspan::FitPlan>> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The plan as it is now.
    fn now(&self) -> Arc<offspan::FitPlan> {
        Arc::clone(&self.lock())
    }
}

#[pymethods]
impl FitPlan {
    #[new]
    #[pyo3(signature = (method, *, head=None, hold_out=None, keep=Promise::default().keep, confidence=Promise::default().confidence))]
    fn new(
        py: Python<'_>,
        method: &Method,
        head: Option<&Bound<'_, PyAny>>,
        hold_out: Option<f64>,
        keep: f64,
        confidence: f64,
    ) -> PyResult<Self> {
        let head = head.map(head_of).transpose()?;
        let promise = Promise { keep, confidence };
        let options = PlanOptions { hold_out, promise, seed: method.seed };
        quick(py, || offspan::FitPlan::new(&method.spec, head, options)).map(Self::of)
    }

    /// What the next pass is for; none if the fit is done.
    #[getter]
    fn stage(&self, py: Python<'_>) -> PyResult<Option<String>> {
        quick(py, || Ok(self.now().stage().map(str::to_owned)))
    }

    /// How many passes were carried out.
    #[getter]
    fn passes(&self, py: Python<'_>) -> PyResult<usize> {
        quick(py, || Ok(self.now().passes()))
    }

    /// The method with all its parameters, as JSON.
    fn spec(&self, py: Python<'_>) -> PyResult<String> {
        quick(py, || Ok(serde_json::json!(self.now().spec()).to_string()))
    }

    /// What the next pass finds on some rows.
    #[pyo3(signature = (features, logits, labels, first_row))]
    fn partial<'py>(
        &self,
        py: Python<'py>,
        features: &Bound<'_, PyAny>,
        logits: Option<&Bound<'_, PyAny>>,
        labels: Option<&Bound<'_, PyAny>>,
        first_row: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let given = Given::new("the rows", features, logits, labels, None)?;
        let TrainingData { rows, .. } = given.open(py)?;
        // Several threads may carry out parts of one pass: none of them changes the plan.
        let plan = self.now();
        let bytes = work(py, None, |observer| {
            plan.partial(&rows, first_row, observer).map(|part| part.to_bytes())
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Takes what a pass found on all rows.
    #[pyo3(signature = (found, progress=None))]
    fn advance(&self, py: Python<'_>, found: &[u8], progress: Option<Py<PyAny>>) -> PyResult<()> {
        work(py, progress.as_ref(), |observer| {
            let before = self.now();
            let mut next = (*before).clone();
            next.advance(&FitPart::from_bytes(found)?, observer)?;
            let mut now = self.lock();
            if !Arc::ptr_eq(&now, &before) {
                let reason = "the plan went on meanwhile, in another call of advance; only one call may take a pass";
                return Err(offspan::Error::Plan(reason.to_owned()));
            }
            *now = Arc::new(next);
            Ok(())
        })
    }

    /// The detector.
    fn finish(&self, py: Python<'_>) -> PyResult<Detector> {
        quick(py, || Arc::unwrap_or_clone(self.now()).finish()).map(Detector::new)
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = quick(py, || Ok(self.now().to_bytes()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        work(py, None, |_| offspan::FitPlan::from_bytes(bytes)).map(Self::of)
    }
}

/// Two parts of a pass as one.
#[pyfunction]
pub(crate) fn merge_parts<'py>(
    py: Python<'py>,
    first: &[u8],
    second: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = work(py, None, |_| {
        let mut merged = FitPart::from_bytes(first)?;
        merged.merge(&FitPart::from_bytes(second)?)?;
        Ok(merged.to_bytes())
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// Number of rows that a part has seen.
#[pyfunction]
pub(crate) fn rows_of_part(py: Python<'_>, part: &[u8]) -> PyResult<usize> {
    work(py, None, |_| FitPart::from_bytes(part).map(|part| part.rows()))
}
