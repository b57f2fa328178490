//! A method with its parameters, ready to be fitted.

use std::path::PathBuf;
use std::time::Duration;

use numpy::PyReadonlyArray1;
use offspan::io::TrainingData;
use offspan::{
    CATALOGUE, Checkpointing, FitOptions, FourierParts, MethodOptions, MethodSpec, Preset, Promise,
    ValidKpca,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Given, doubles, head_of};
use crate::detector::Detector;
use crate::errors::{exception, input_error};
use crate::gate::work;

/// Every method with its parameters, as JSON.
#[pyfunction]
pub(crate) fn catalogue(py: Python<'_>) -> PyResult<String> {
    serde_json::to_string(&*CATALOGUE).map_err(|error| input_error(py, error.to_string()))
}

/// A method by name, with options as text.
#[pyclass(frozen, module = "offspan._internal")]
pub(crate) struct Method {
    pub(crate) spec: MethodSpec,
    pub(crate) seed: u64,
    /// The network whose settings it has.
    pub(crate) preset: Option<Preset>,
}

impl Method {
    /// The parameters, if the method is a single kernel PCA.
    pub(crate) fn kpca(&self, py: Python<'_>) -> PyResult<ValidKpca> {
        match &self.spec {
            MethodSpec::Kpca(params) => {
                params.clone().check().map_err(|error| exception(py, &error))
            }
            other => Err(input_error(
                py,
                format!(
                    "a partial fit is for kernel PCA: pca, kpca-rff, kpca-nys or kpca-sketch, got {}",
                    other.method()
                ),
            )),
        }
    }
}

#[pymethods]
impl Method {
    #[new]
    #[pyo3(signature = (name, options, landmark_rows=None, frequencies=None))]
    fn new(
        py: Python<'_>,
        name: &str,
        options: Vec<(String, String)>,
        landmark_rows: Option<Vec<u64>>,
        frequencies: Option<(Bound<'_, PyAny>, PyReadonlyArray1<'_, f64>)>,
    ) -> PyResult<Self> {
        let mut given = MethodOptions::default();
        if let Some(rows) = landmark_rows {
            given.set_landmark_rows(rows);
        }
        if let Some((omega, phases)) = frequencies {
            given.set_frequencies(FourierParts {
                frequencies: doubles(&omega, "frequencies")?,
                phases: phases.as_array().to_owned(),
                amplitudes: None,
            });
        }
        for (option, text) in options {
            given.set(&option, &text).map_err(|error| exception(py, &error))?;
        }
        let spec = given.method(name).map_err(|error| exception(py, &error))?;
        Ok(Method { spec, seed: given.seed(), preset: given.preset() })
    }

    /// The method with all its parameters, as JSON.
    fn spec(&self) -> String {
        serde_json::json!(self.spec).to_string()
    }

    /// Fits a detector.
    #[pyo3(signature = (features, *, logits=None, labels=None, extras=None, head=None, hold_out=None, keep=Promise::default().keep, confidence=Promise::default().confidence, calibrate=None, checkpoint=None, checkpoint_every=30.0, progress=None))]
    #[allow(clippy::too_many_arguments)]
    fn fit(
        &self,
        py: Python<'_>,
        features: &Bound<'_, PyAny>,
        logits: Option<&Bound<'_, PyAny>>,
        labels: Option<&Bound<'_, PyAny>>,
        extras: Option<&Bound<'_, PyDict>>,
        head: Option<&Bound<'_, PyAny>>,
        hold_out: Option<f64>,
        keep: f64,
        confidence: f64,
        calibrate: Option<(Bound<'_, PyAny>, Option<Bound<'_, PyAny>>)>,
        checkpoint: Option<PathBuf>,
        checkpoint_every: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Detector> {
        let given = Given::new("the training rows", features, logits, labels, extras)?;
        let head = head.map(head_of).transpose()?;
        let calibrate = calibrate
            .as_ref()
            .map(|(rows, logits)| {
                Given::new("the calibration rows", rows, logits.as_ref(), None, None)
            })
            .transpose()?;
        let checkpoint = match checkpoint {
            None => None,
            Some(path) => {
                let every = Duration::try_from_secs_f64(checkpoint_every).map_err(|_| {
                    input_error(
                        py,
                        format!("checkpoint_every: expected seconds of at least 0, got {checkpoint_every}"),
                    )
                })?;
                Some(Checkpointing { path, every })
            }
        };
        let TrainingData { rows: data, head: pack_head, calibrate: of_pack, .. } =
            given.open(py)?;
        let calibrate = match &calibrate {
            Some(given) => Some(given.rows(py)?),
            // Who asks for held-out rows gets them.
            None => of_pack.filter(|_| hold_out.is_none()),
        };
        let head = head.or(pack_head);
        let detector = work(py, progress.as_ref(), |observer| {
            let options = FitOptions {
                hold_out,
                calibrate: calibrate.as_ref(),
                promise: Promise { keep, confidence },
                seed: self.seed,
                checkpoint: checkpoint.as_ref(),
                observer,
            };
            let detector = offspan::Detector::fit(&self.spec, &data, head.as_ref(), &options)?;
            if let Some(checkpoint) = &checkpoint
                && let Err(error) = detector.remove_checkpoints(checkpoint)
            {
                observer
                    .note(&format!("{error}; the fit is done, and the checkpoint is not needed"));
            }
            Ok(detector)
        })?;
        Ok(Detector::new(detector))
    }
}
