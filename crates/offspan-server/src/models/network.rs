//! A classifier in front of its detector: inputs come in place of features.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ndarray::Array2;
use offspan::Detector;
use offspan::io::{Dataset, OwnedRows};
use offspan_onnx::{ExtractOptions, Extractor, InputError, NetworkRows, Steps};

use crate::protocol::signature::{Input, Role};
use crate::protocol::tensor::Part;
use crate::refusal::Refusal;

/// Inputs that a classifier gets at a time, as in `offspan extract`.
const ROWS_AT_A_TIME: usize = 16;

/// A classifier that is ready. It has threads of its own, so it runs one batch after the other.
pub(crate) struct Network {
    extractor: Mutex<Extractor>,
    width: usize,
}

/// What the classifier gave for the rows of a batch.
pub(crate) struct Given {
    features: Array2<f32>,
    logits: Option<Array2<f32>>,
    maps: Option<(Array2<f32>, Vec<usize>)>,
}

/// Numbers of some rows, and how many are in one.
type Column = fn(&NetworkRows) -> Option<(&[f32], usize)>;

impl Network {
    /// Opens the classifier that gave the detector its features.
    pub(super) fn open(path: &Path, detector: &Detector) -> Result<(Self, Input), InputError> {
        let source = detector.info().source.as_ref().ok_or_else(|| {
            offspan::Error::MissingInput {
                who: "a classifier beside its detector".to_owned(),
                what: "a detector that knows it",
                hint: "fit it with `offspan fit MODEL.onnx DATA`, or to a pack that `offspan extract` wrote"
                    .to_owned(),
            }
        })?;
        let mut options = ExtractOptions::default();
        options.steps = Steps::AsFitted;
        let extractor = Extractor::of_source(path, source, options)?;
        let (name, sizes) = extractor.input();
        let input = Input { name, role: Role::Network, row: Some(sizes[1..].to_vec()) };
        let width = detector.info().training.width;
        Ok((Network { extractor: Mutex::new(extractor), width }, input))
    }

    /// Runs the classifier over the rows of a batch.
    pub(super) fn run(&self, parts: &[Part]) -> Result<Given, Refusal> {
        let mut extractor = self.extractor.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<NetworkRows> = Vec::new();
        for part in parts {
            let row = part.tensor.shape[1..].to_vec();
            for start in (0..part.rows).step_by(ROWS_AT_A_TIME) {
                let count = ROWS_AT_A_TIME.min(part.rows - start);
                let numbers = part.tensor.singles(part.start + start, count);
                let given = extractor.rows(&row, count, numbers);
                all.push(given.map_err(|error| Refusal::bad(in_words(&error)))?);
            }
        }
        let joined = |column: Column| -> Option<Array2<f32>> {
            let width = all.first().and_then(column).map(|(_, width)| width)?;
            let numbers: Vec<f32> =
                all.iter().filter_map(column).flat_map(|(numbers, _)| numbers).copied().collect();
            Array2::from_shape_vec((numbers.len() / width.max(1), width), numbers).ok()
        };
        let features = joined(|rows| Some((&rows.features, rows.width)));
        let shape = all.first().and_then(|rows| rows.maps.as_ref()).map(|(_, shape)| shape.clone());
        let maps =
            joined(|rows| rows.maps.as_ref().map(|(maps, row)| (&maps[..], row.iter().product())));
        Ok(Given {
            features: features.unwrap_or_else(|| Array2::zeros((0, self.width))),
            logits: joined(|rows| {
                rows.logits.as_ref().map(|(logits, width)| (&logits[..], *width))
            }),
            maps: maps.zip(shape),
        })
    }
}

impl Given {
    /// The rows as the detector takes them.
    pub(crate) fn dataset(self) -> Result<Dataset<'static>, Refusal> {
        let wrong = |error: offspan::Error| Refusal::of_rows(&error);
        let mut data = Dataset::new("the request", OwnedRows(self.features));
        if let Some(logits) = self.logits {
            data = data.with_logits(OwnedRows(logits)).map_err(wrong)?;
        }
        if let Some((maps, shape)) = self.maps {
            data = data.with_extra("maps", OwnedRows(maps), &shape).map_err(wrong)?;
        }
        Ok(data)
    }
}

/// What went wrong, without the model's path.
fn in_words(error: &InputError) -> String {
    match error {
        InputError::Image { reason, .. }
        | InputError::Model { reason, .. }
        | InputError::Data { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}
