//! A version of a model that is loaded.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use offspan::io::Dataset;
use offspan::{Detector, Silent};

#[cfg(feature = "onnx")]
use super::network::Network;
use crate::batch::{Queue, Task};
use crate::metrics::Histogram;
use crate::protocol::answer::Verdicts;
#[cfg(feature = "onnx")]
use crate::protocol::element::Element;
use crate::protocol::request::Inputs;
use crate::protocol::signature::{Role, Signature};
#[cfg(feature = "onnx")]
use crate::protocol::tensor::Tensor;
use crate::protocol::tensor::{BatchRows, Part};
use crate::refusal::{Kind, Refusal};
use crate::stats::ModelStats;

/// Rows called OoD that are remembered.
const FLAGGED_KEPT: usize = 50;

/// Versions that were loaded so far.
static LOADS: AtomicU64 = AtomicU64::new(0);

/// A loaded version: what it was loaded from may change, it does not.
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) detector: Detector,
    #[cfg(feature = "onnx")]
    pub(super) network: Option<Network>,
    pub(crate) signature: Signature,
    /// The same for every load of this version of the model.
    pub(crate) stats: Arc<ModelStats>,
    /// Scores of this load, between bounds that follow from its calibration.
    pub(crate) scores: Histogram,
    /// How many scores of the calibration lie in each part, where there is one.
    pub(crate) calibration_counts: Option<Vec<u64>>,
    pub(crate) loaded: SystemTime,
    /// Tells loads apart; later ones have larger numbers.
    pub(crate) load: u64,
    pub(crate) queue: Queue,
    flagged: Mutex<VecDeque<Flagged>>,
    keep_samples: usize,
}

/// A row that was called OoD.
#[derive(Debug, Clone)]
pub(crate) struct Flagged {
    /// The request's id, shortened.
    pub(crate) id: Arc<str>,
    /// Its row in the request.
    pub(crate) row: usize,
    pub(crate) score: f64,
    pub(crate) p_value: f64,
    /// Seconds since 1970.
    pub(crate) time: f64,
    /// The row itself, where it was asked to be kept.
    pub(crate) sample: Option<Vec<f32>>,
}

impl Version {
    pub(crate) fn new(
        (name, version): (String, String),
        detector: Detector,
        signature: Signature,
        stats: Arc<ModelStats>,
        keep_samples: usize,
    ) -> Self {
        let bounds = score_bounds(detector.calibration().map_or(&[], |known| known.scores()));
        let scores = Histogram::new(bounds.clone());
        let calibration_counts = detector.calibration().map(|known| {
            let calibration = Histogram::new(bounds);
            calibration.add_all(known.scores().iter().copied());
            calibration.counts()
        });
        Version {
            name,
            version,
            detector,
            #[cfg(feature = "onnx")]
            network: None,
            signature,
            stats,
            scores,
            calibration_counts,
            loaded: SystemTime::now(),
            load: LOADS.fetch_add(1, Ordering::Relaxed),
            queue: Queue::default(),
            flagged: Mutex::default(),
            keep_samples,
        }
    }

    /// Scores the rows of these inputs together. A row's score does not depend on the rows beside it.
    pub(crate) fn score(&self, parts: &[(&Inputs, usize, usize)]) -> Result<Verdicts, Refusal> {
        let of_role = |index: usize| -> Vec<Part> {
            let part = |&(inputs, start, rows): &(&Inputs, usize, usize)| Part {
                tensor: Arc::clone(&inputs.tensors[index].1),
                start,
                rows,
            };
            parts.iter().map(part).collect()
        };
        #[cfg(feature = "onnx")]
        if let Some(network) = &self.network {
            let given = network.run(&of_role(0))?;
            return self.decide(&given.dataset()?);
        }
        let width = self.detector.info().training.width;
        let mut data: Option<Dataset<'_>> = None;
        for (index, input) in self.signature.inputs.iter().enumerate() {
            let rows = of_role(index);
            let any_width = rows.first().map_or(0, |part| part.tensor.width());
            data = Some(match (&input.role, data) {
                (Role::Features, None) => {
                    Dataset::new("the request", BatchRows::new("features", rows, width))
                }
                (Role::Logits, Some(data)) => data
                    .with_logits(BatchRows::new("logits", rows, any_width))
                    .map_err(|error| Refusal::of_rows(&error))?,
                (Role::Extra(name), Some(data)) => {
                    let shape = parts[0].0.tensors[index].1.shape[1..].to_vec();
                    data.with_extra(*name, BatchRows::new(name, rows, any_width), &shape)
                        .map_err(|error| Refusal::of_rows(&error))?
                }
                (Role::Features | Role::Logits | Role::Extra(_) | Role::Network, _) => {
                    unreachable!("features come first, once, and networks were run above")
                }
            });
        }
        let data = data.unwrap_or_else(|| unreachable!("every detector takes features"));
        self.decide(&data)
    }

    fn decide(&self, data: &Dataset<'_>) -> Result<Verdicts, Refusal> {
        let wrong = |error: offspan::Error| Refusal::of_rows(&error);
        if self.detector.calibration().is_none() {
            let scores = self.detector.score_dataset(data, &Silent).map_err(wrong)?;
            return Ok(Verdicts { scores, ..Verdicts::default() });
        }
        // The rows are those of the one dataset, so there is nothing to join.
        let decisions =
            self.detector.decide(std::slice::from_ref(data), None, &Silent).map_err(wrong)?;
        Ok(Verdicts {
            scores: decisions.scores,
            p_values: decisions.p_values,
            is_out: decisions.is_out,
        })
    }

    /// Rows of one request may be scored with those of another only if their shapes agree.
    pub(crate) fn goes_with(&self, a: &Inputs, b: &Inputs) -> bool {
        let shapes = a.tensors.iter().zip(&b.tensors);
        shapes.into_iter().all(|((_, a), (_, b))| a.shape[1..] == b.shape[1..])
    }

    /// Remembers what was found.
    pub(crate) fn record(&self, task: &Task, verdicts: &Verdicts) {
        self.scores.add_all(verdicts.scores.iter().copied());
        if self.threshold().is_none() {
            self.stats.rows_undecided.add(verdicts.rows() as u64);
            return;
        }
        let out = verdicts.is_out.iter().filter(|&&out| out).count();
        self.stats.rows_out.add(out as u64);
        self.stats.rows_in.add((verdicts.rows() - out) as u64);
        if out == 0 {
            return;
        }
        let now = crate::clock::unix_seconds();
        let mut flagged = self.flagged.lock().unwrap_or_else(PoisonError::into_inner);
        // Only the last ones would stay.
        let rows = (0..verdicts.rows()).rev().filter(|&row| verdicts.is_out[row]);
        let mut last: Vec<usize> = rows.take(FLAGGED_KEPT.max(self.keep_samples)).collect();
        last.reverse();
        for row in last {
            let sample = (self.keep_samples > 0)
                .then(|| task.inputs().tensors[0].1.singles(task.start + row, 1));
            flagged.push_back(Flagged {
                id: Arc::clone(task.id()),
                row: task.start + row,
                score: verdicts.scores[row],
                p_value: verdicts.p_values[row],
                time: now,
                sample,
            });
        }
        let too_many = flagged.len().saturating_sub(FLAGGED_KEPT.max(self.keep_samples));
        flagged.drain(..too_many);
        let without = flagged.len().saturating_sub(self.keep_samples);
        flagged.iter_mut().take(without).for_each(|row| row.sample = None);
    }

    /// The last rows called OoD, the newest first.
    pub(crate) fn last_flagged(&self) -> Vec<Flagged> {
        let flagged = self.flagged.lock().unwrap_or_else(PoisonError::into_inner);
        flagged.iter().rev().cloned().collect()
    }

    /// What the sum of all outputs is not: a model without a threshold has no decisions.
    pub(crate) fn threshold(&self) -> Option<&offspan::Threshold> {
        self.detector.threshold()
    }

    /// Whether its numbers can be had at all; touches what a first request would.
    pub(super) fn warm_up(&self) -> Result<(), Refusal> {
        #[cfg(feature = "onnx")]
        if self.network.is_some() {
            return self.warm_up_network();
        }
        let width = self.detector.info().training.width;
        let row = ndarray::Array2::<f32>::from_elem((1, width), 0.5);
        match self.detector.score_dataset(&Dataset::new("warm-up", row.view()), &Silent) {
            // A method that asks for more than features gets it from requests.
            Ok(_) | Err(offspan::Error::MissingInput { .. }) => Ok(()),
            Err(error) => Err(Refusal::new(Kind::Internal, error.to_string())),
        }
    }

    /// A classifier that opens may still be one that cannot run.
    #[cfg(feature = "onnx")]
    fn warm_up_network(&self) -> Result<(), Refusal> {
        let Some(input) = self.signature.inputs.first() else { return Ok(()) };
        let sizes: Option<Vec<usize>> =
            input.row.as_ref().and_then(|row| row.iter().copied().collect());
        // Sizes that requests choose are known when one comes.
        let Some(row) = sizes else { return Ok(()) };
        let numbers = vec![0.5; row.iter().product()];
        let shape = std::iter::once(1).chain(row).collect();
        let data = Element::F32.encode(&numbers).into();
        let tensor = Arc::new(Tensor { element: Element::F32, shape, data });
        let tensors = vec![(input.role.clone(), tensor)];
        let inputs = Inputs { tensors, rows: 1, held: None };
        self.score(&[(&inputs, 0, 1)]).map(drop).map_err(|refusal| {
            let reason = format!("the classifier cannot run: {}", refusal.reason);
            Refusal::new(Kind::Internal, reason)
        })
    }
}

#[cfg(test)]
impl Version {
    /// One of made-up rows of [`Version::SMALL_WIDTH`] numbers.
    pub(crate) fn small(stats: &crate::stats::Stats) -> Self {
        Self::small_with(stats, 3)
    }

    /// The same with another number of neighbours, which makes it another detector.
    pub(crate) fn small_with(stats: &crate::stats::Stats, neighbours: usize) -> Self {
        use crate::protocol::signature::Input;

        let width = Self::SMALL_WIDTH;
        let number = |(i, j): (usize, usize)| ((i * 7919 + j * 104_729) % 10_007) as f32;
        let rows = ndarray::Array2::from_shape_fn((300, width), number);
        let options = offspan::FitOptions { hold_out: Some(0.3), ..offspan::FitOptions::default() };
        let knn = offspan::KnnParams { neighbours, ..offspan::KnnParams::default() };
        let data = Dataset::new("train", rows.view());
        let detector = Detector::fit(&knn.into(), &data, None, &options).unwrap();
        let row = Some(vec![Some(width)]);
        let features = Input { name: "features".to_owned(), role: Role::Features, row };
        let names = ("net".to_owned(), "1".to_owned());
        let signature = Signature::new(vec![features], true);
        Version::new(names, detector, signature, stats.model("net", "1"), 0)
    }

    pub(crate) const SMALL_WIDTH: usize = 4;
}

/// 40 parts of equal width over the calibration scores without their extremes, which would make all others one part.
fn score_bounds(sorted: &[f64]) -> Vec<f64> {
    const PARTS: usize = 40;
    let finite: Vec<f64> = sorted.iter().copied().filter(|score| score.is_finite()).collect();
    let at = |share: f64| finite[((finite.len() - 1) as f64 * share).round() as usize];
    if finite.is_empty() {
        // Without calibration nothing is known of the scale: every decade has its bounds.
        let decades = (-6..=6).map(|power| 10f64.powi(power));
        let up: Vec<f64> = decades.flat_map(|x| [x, 3.0 * x]).collect();
        return up.iter().rev().map(|x| -x).chain([0.0]).chain(up.iter().copied()).collect();
    }
    let (low, high) = (at(0.005), at(0.995));
    let spread = (high - low).max(f64::EPSILON * high.abs().max(f64::MIN_POSITIVE));
    let (low, high) = (low - 0.6 * spread, high + 0.1 * spread);
    let bound = |k: usize| low + (high - low) * k as f64 / PARTS as f64;
    let mut bounds: Vec<f64> = (0..=PARTS).map(bound).collect();
    bounds.dedup();
    bounds
}
