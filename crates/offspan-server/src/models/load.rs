//! From files to a version that can be asked.

use std::sync::Arc;

use ndarray::Array2;
use offspan::io::Dataset;
use offspan::{Detector, Error, Silent};

use super::files::{Files, Place};
use super::version::Version;
use crate::protocol::signature::{Input, Role, Signature};
use crate::stats::ModelStats;

/// More inputs than this no method asks for.
const MOST_INPUTS: usize = 8;

/// Loads a version; says why not in a sentence without paths.
pub(super) fn load(
    place: &Place,
    files: &Files,
    stats: Arc<ModelStats>,
    keep_samples: usize,
) -> Result<Version, String> {
    let without_paths = |text: String| files.without_paths(&text);
    let detector =
        Detector::load(&files.detector).map_err(|error| without_paths(error.to_string()))?;
    let names = (place.name.clone(), place.version.to_string());
    let has_threshold = detector.threshold().is_some();
    #[cfg(feature = "onnx")]
    if let Some(path) = &files.network {
        let (network, input) = super::network::Network::open(path, &detector)
            .map_err(|error| without_paths(error.to_string()))?;
        let signature = Signature::new(vec![input], has_threshold);
        let mut version = Version::new(names, detector, signature, stats, keep_samples);
        version.network = Some(network);
        version.warm_up().map_err(|refusal| without_paths(refusal.reason))?;
        return Ok(version);
    }
    #[cfg(not(feature = "onnx"))]
    if files.network.is_some() {
        return Err(without_paths(
            "a classifier lies beside the detector, and this program was built without the feature `onnx`"
                .to_owned(),
        ));
    }
    let signature = Signature::new(inputs(&detector), has_threshold);
    let version = Version::new(names, detector, signature, stats, keep_samples);
    version.warm_up().map_err(|refusal| without_paths(refusal.reason))?;
    Ok(version)
}

/// What rows must bring, found by asking with none.
fn inputs(detector: &Detector) -> Vec<Input> {
    let width = detector.info().training.width;
    let features =
        Input { name: "features".to_owned(), role: Role::Features, row: Some(vec![Some(width)]) };
    let mut inputs = vec![features];
    let none = Array2::<f32>::zeros((0, width));
    let empty = Array2::<f32>::zeros((0, 0));
    while inputs.len() < MOST_INPUTS {
        let mut data = Dataset::new("no rows", none.view());
        for input in &inputs {
            data = match &input.role {
                Role::Logits => data.with_logits(empty.view()).unwrap_or_else(|_| no_rows()),
                Role::Extra(name) => {
                    data.with_extra(*name, empty.view(), &[0]).unwrap_or_else(|_| no_rows())
                }
                Role::Features | Role::Network => data,
            };
        }
        let Err(Error::MissingInput { what, .. }) = detector.score_dataset(&data, &Silent) else {
            break;
        };
        let (role, row) = match what {
            "logits" => (Role::Logits, Some(vec![None])),
            other => (Role::Extra(other), None),
        };
        if inputs.iter().any(|input| input.role == role) {
            break;
        }
        inputs.push(Input { name: what.to_owned(), role, row });
    }
    inputs
}

fn no_rows<T>() -> T {
    unreachable!("no rows are as many as no rows")
}
