//! Drift of a stream of scores.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use offspan::MonitorState;
use offspan::io::{Content, check_replaces, stored_checksum};
use pyo3::prelude::*;

use crate::detector::Detector;
use crate::errors::ours;
use crate::gate::quick;

/// Watches the scores of a stream.
#[pyclass(frozen, module = "offspan._internal")]
pub(crate) struct Monitor {
    // Work on it happens while other Python threads run.
    inner: Mutex<offspan::Monitor>,
    /// Checksums of the files that it was read from or saved to, as it left them.
    files: Mutex<HashMap<PathBuf, String>>,
}

/// One name for a file, whichever way leads to it.
fn place(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

impl Monitor {
    fn new(inner: offspan::Monitor) -> Self {
        Monitor { inner: Mutex::new(inner), files: Mutex::default() }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, String>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, offspan::Monitor> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Monitor {
    /// A monitor at the start of a stream.
    #[staticmethod]
    fn of(py: Python<'_>, detector: &Detector, false_alarm: f64, seed: u64) -> PyResult<Self> {
        let known = detector.calibration(py, "a monitor")?;
        quick(py, || offspan::Monitor::of(known, false_alarm, seed)).map(Self::new)
    }

    /// Loads what `save` wrote.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        quick(py, || {
            // First: who saves in between makes the next save a refusal, and not a loss.
            let checksum = stored_checksum(&path).ok().flatten();
            let monitor = Self::new(offspan::Monitor::load(&path)?);
            monitor.files().extend(checksum.map(|checksum| (place(&path), checksum)));
            Ok(monitor)
        })
    }

    /// Saves the monitor; the file appears whole or not at all. Without `force`, it replaces no file of
    /// another kind, and no state that has changed since this monitor read or saved it.
    #[pyo3(signature = (path, force=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        quick(py, || {
            if !force {
                check_replaces(&path, Content::Monitor)?;
            }
            let mut files = self.files();
            let known = files.get(&place(&path)).cloned().filter(|_| !force);
            let written = self.lock().save_if_unchanged(&path, known.as_deref())?;
            files.extend(written.map(|checksum| (place(&path), checksum)));
            Ok(())
        })
    }

    /// The monitor in two parts: a header as JSON, and all its scores.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyArray1<f64>>)> {
        let (header, scores) = quick(py, || Ok(self.lock().state()))?;
        Ok((serde_json::json!(header).to_string(), scores.into_pyarray(py)))
    }

    /// The monitor of which `state` gave the parts.
    #[staticmethod]
    fn from_state(
        py: Python<'_>,
        header: &str,
        scores: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let header: MonitorState = serde_json::from_str(header)
            .map_err(|error| ours(py, "FormatError", format!("not a stored monitor: {error}")))?;
        let scores = scores.as_array().to_vec();
        quick(py, || offspan::Monitor::from_state(header, &scores)).map(Self::new)
    }

    /// Takes the next scores; what it says of them, as JSON.
    fn update(&self, py: Python<'_>, scores: PyReadonlyArray1<'_, f64>) -> PyResult<String> {
        let scores = scores.as_array().to_vec();
        let report = quick(py, || self.lock().update(&scores))?;
        Ok(serde_json::json!(report).to_string())
    }

    /// The alarms so far, as JSON.
    fn alarms(&self, py: Python<'_>) -> PyResult<String> {
        quick(py, || Ok(serde_json::json!(self.lock().alarms()).to_string()))
    }

    /// What it looks for, as JSON.
    fn options(&self, py: Python<'_>) -> PyResult<String> {
        quick(py, || Ok(serde_json::json!(self.lock().options()).to_string()))
    }

    /// Rows of the stream so far.
    #[getter]
    fn rows(&self, py: Python<'_>) -> PyResult<usize> {
        quick(py, || Ok(self.lock().rows()))
    }

    /// Whether another monitor began with the same options and the same calibration scores.
    fn began_like(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        // One lock after the other: both may be the same monitor.
        let other = other.lock().clone();
        quick(py, || Ok(self.lock().began_like(&other)))
    }
}
