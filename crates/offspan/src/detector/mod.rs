//! A fitted detector: scores rows, decides, saves and loads.

mod decision;
mod estimate;
mod explain;
mod graph;
mod plan;
mod source;

pub use decision::Decisions;
pub use estimate::FitEstimate;
pub use plan::{FitPart, FitPlan, PlanOptions};
pub use source::ModelSource;

use std::path::Path;
use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2, Axis};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::calibrate::{Calibration, CalibrationSource, Promise, Threshold};
use crate::error::in_order;
use crate::error::wording::{Data, Named};
use crate::io::observer::{Observer, Silent, check_interrupt};
use crate::io::{
    Bytes, Content, Dataset, FileLock, Format, Gathered, Head, TensorFile, TensorWriter,
    check_replaces, memory_limit, remove_if_exists, write_bytes,
};
use crate::methods::kpca::{KpcaModel, KpcaSummary, PartialFit};
use crate::methods::{Found, MethodSpec, Model, ModelSummary, ValidMethod};
use crate::training::agreement::Disagreement;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Checkpointing, Fitted, Training};
use crate::{Error, HoldOut, Instructions, Result};

/// 1 had thresholds without calibration scores, 2 had no checksum.
const FORMAT: Format =
    Format { content: Content::Detector, version: 3, oldest: 1, if_older: "fit again" };
/// Thresholds of this version are left out: without calibration scores there are no p-values, and they kept their share in
/// half of all cases only.
const WITHOUT_CALIBRATION: u32 = 1;

/// Wider features than this in a file are taken for damage: random features allocate by the width.
const WIDEST: usize = 1 << 24;

/// Rows scored by one task, at most. A row's score does not depend on the rows beside it, so the
/// tasks may be as many as the threads like.
const BLOCK: usize = 512;
/// Fewer rows than this are not worth a task of their own.
const SMALLEST_BLOCK: usize = 6;
const BLOCKS_PER_ROUND: usize = 16;
/// Fewer rows are scored where they are asked for.
const FEW_ROWS: usize = 32;

/// Rows held out for the threshold, at most: p-values are then as fine as 1e-4, and the kept share is
/// known to half a percent.
const MOST_HELD_OUT: f64 = 10_000.0;
/// Share of the rows that is held out where nothing else is said. Of few rows it is more: so many
/// times what the promise needs, but at most that share.
const HELD_OUT: f64 = 0.05;
const TIMES_NEEDED: usize = 4;
const MOST_OF_FEW: f64 = 0.2;

/// The tensor of calibration scores in a detector file.
const CALIBRATION_SCORES: &str = "calibration.scores";

/// How a fit sets its threshold, saves its progress and tells of it.
pub struct FitOptions<'a> {
    /// Share of the training rows to hold out for the threshold, 0 for none; if it is not given, 5 %,
    /// or more of few rows.
    pub hold_out: Option<f64>,
    /// Rows to set the threshold with instead; then nothing is held out.
    pub calibrate: Option<&'a Dataset<'a>>,
    /// What the threshold promises.
    pub promise: Promise,
    /// Seed of the choice of held-out rows.
    pub seed: u64,
    /// Where to save progress.
    pub checkpoint: Option<&'a Checkpointing>,
    /// Who watches.
    pub observer: &'a dyn Observer,
}

impl Default for FitOptions<'_> {
    /// Some rows held out, a threshold that keeps 95 % with a confidence of 95 %, no checkpoint, nobody
    /// watching.
    fn default() -> Self {
        FitOptions {
            hold_out: None,
            calibrate: None,
            promise: Promise::default(),
            seed: 0,
            checkpoint: None,
            observer: &Silent,
        }
    }
}

/// What a detector file says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DetectorInfo {
    version: u32,
    /// The method's name.
    pub method: String,
    /// The method with its parameters.
    pub spec: MethodSpec,
    /// Always `higher is more in-distribution`.
    pub direction: String,
    /// The training rows.
    pub training: TrainingInfo,
    results: ModelSummary,
    /// The stored threshold.
    pub threshold: Option<Threshold>,
    /// Where the features come from, if a model gave them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ModelSource>,
}

/// What identifies the rows that a detector was fitted on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrainingInfo {
    /// Rows used in the fit.
    pub rows: u64,
    /// Width of the features.
    pub width: usize,
    /// Hash of those rows in their order.
    pub fingerprint: String,
}

/// A fitted detector. Higher scores are more in-distribution.
#[derive(Debug, Clone)]
pub struct Detector {
    info: DetectorInfo,
    model: Model,
    calibration: Option<Arc<Calibration>>,
}

impl Detector {
    /// Fits a method to training rows. The result depends on data, parameters and seeds only, not
    /// on the number of threads.
    ///
    /// # Errors
    /// If an input is missing or bad, or the observer asks to stop.
    pub fn fit(
        spec: &MethodSpec,
        data: &Dataset<'_>,
        head: Option<&Head>,
        options: &FitOptions<'_>,
    ) -> Result<Self> {
        let mut detector = None;
        Self::fit_each(std::slice::from_ref(spec), data, head, options, |_, fitted| {
            detector = Some(fitted);
            Ok(())
        })?;
        detector.unwrap_or_else(|| unreachable!("one method, one result"))
    }

    /// Fits several methods to the same rows. What they need to know of the rows is gathered in one
    /// walk for all. `visit` gets each method's number and result in the order of `specs`; one that
    /// fails does not stop the others.
    ///
    /// # Errors
    /// If the data are bad for every method, the observer asks to stop, or `visit` fails.
    pub fn fit_each(
        specs: &[MethodSpec],
        data: &Dataset<'_>,
        head: Option<&Head>,
        options: &FitOptions<'_>,
        mut visit: impl FnMut(usize, Result<Self>) -> Result<()>,
    ) -> Result<()> {
        Instructions::in_use()?;
        check_options(data, head, options)?;
        let hold_out =
            choose_hold_out(data, options, |chosen| chosen.held_out(data.rows()).count())?;
        if let Some(head) = head {
            for rows in std::iter::once(data).chain(options.calibrate) {
                tell_disagreement(rows, head, options.observer);
            }
        }
        let (checkpoint, observer) = (options.checkpoint, options.observer);
        // Kept to the end: of two fits with one checkpoint, the second is told at once.
        let _locks = locks(checkpoint, specs)?;
        let training = Training { hold_out, checkpoint, ..Training::new(data, head, observer) };
        let limit = memory_limit();
        let checked: Vec<Result<ValidMethod>> = specs
            .iter()
            .map(|spec| {
                let valid = spec.check()?;
                valid.check_inputs(&training)?;
                estimate::check_memory(spec, data, head, limit)?;
                Ok(valid)
            })
            .collect();
        let union =
            checked.iter().flatten().fold(Needs::default(), |all, spec| all.and(&spec.needs()));
        let shared = match Statistics::gather(&training, &union) {
            Ok(shared) => Some(shared),
            // Of several methods each finds out on its own whether it is concerned.
            Err(error) if specs.len() > 1 && !matches!(error, Error::Interrupted { .. }) => None,
            Err(error) => return Err(error),
        };
        for (index, spec) in checked.into_iter().enumerate() {
            observer.method(&specs[index].method(), index + 1, specs.len());
            let fitted = spec.and_then(|spec| match &shared {
                Some(known) => Self::fit_known(&spec, &training, known, options),
                None => {
                    let known = Statistics::gather(&training, &spec.needs())?;
                    Self::fit_known(&spec, &training, &known, options)
                }
            });
            if let Err(error @ Error::Interrupted { .. }) = fitted {
                return Err(error);
            }
            visit(index, fitted)?;
        }
        Ok(())
    }

    /// Fits a method that may share what it needs to know of the training rows with others.
    fn fit_known(
        method: &ValidMethod,
        training: &Training<'_>,
        known: &Statistics,
        options: &FitOptions<'_>,
    ) -> Result<Self> {
        let mut detector = Self::fit_model(method, training, known)?;
        if let Some(calibration) = detector.calibration_of(training, options)? {
            detector.set_calibration(calibration);
        }
        Ok(detector)
    }

    fn fit_model(
        method: &ValidMethod,
        training: &Training<'_>,
        known: &Statistics,
    ) -> Result<Self> {
        let fitted = method.fit(training, known)?;
        let detector =
            Self::without_threshold(method.spec().clone(), training.data.width(), fitted);
        detector.check_storable()?;
        Ok(detector)
    }

    /// Fails if the detector could be saved but not loaded: the fit has left the range of numbers.
    fn check_storable(&self) -> Result<()> {
        let mut writer = TensorWriter::default();
        self.model.write("", &mut writer);
        if !writer.has_odd_numbers() {
            return Ok(());
        }
        // Some methods keep infinities, and read them.
        Self::from_bytes(&self.to_bytes()).map(drop).map_err(|error| Error::NotStorable {
            method: self.info.method.clone(),
            reason: error.to_string(),
        })
    }

    fn without_threshold(spec: MethodSpec, width: usize, fitted: Fitted<Model>) -> Self {
        let info = DetectorInfo {
            version: FORMAT.version,
            method: spec.method().into_owned(),
            spec,
            direction: "higher is more in-distribution".to_owned(),
            training: TrainingInfo {
                rows: fitted.rows,
                width,
                fingerprint: format!("xxh3:{:016x}", fitted.fingerprint),
            },
            results: fitted.model.summary(),
            threshold: None,
            source: None,
        };
        Detector { info, model: fitted.model, calibration: None }
    }

    /// The detector of all rows that a partial fit has seen. It has no threshold yet:
    /// [`Detector::calibrate`] sets one.
    ///
    /// # Errors
    /// If the rows do not span anything, or fewer than two were seen.
    pub fn from_partial(partial: &PartialFit, head: Option<&Head>) -> Result<Self> {
        let spec = MethodSpec::Kpca(partial.params().clone());
        let fitted = partial.finish(head)?.map(|model| Arc::new(model) as Model);
        Ok(Self::without_threshold(spec, partial.width(), fitted))
    }

    /// Sets the threshold, and what p-values compare with, by in-distribution rows which the fit has not
    /// seen.
    ///
    /// # Errors
    /// If the rows are bad or too few.
    pub fn calibrate(
        &mut self,
        rows: &Dataset<'_>,
        promise: Promise,
        observer: &dyn Observer,
    ) -> Result<()> {
        check_calibration(rows, self.info.training.width, promise)?;
        let scores = self.score_dataset(rows, observer)?;
        self.set_calibration(calibration(scores, promise, CalibrationSource::Given, observer)?);
        Ok(())
    }

    /// Sets another threshold by the calibration rows that the detector knows.
    ///
    /// # Errors
    /// If it knows none, or too few for the promise.
    pub fn set_promise(&mut self, promise: Promise) -> Result<()> {
        promise.check()?;
        let known = self.calibration.as_ref().ok_or_else(|| Error::MissingInput {
            who: "another threshold".to_owned(),
            what: "calibration scores",
            hint: "the detector has none; give rows to calibrate with".to_owned(),
        })?;
        let calibration = known.with_promise(promise)?;
        self.set_calibration(calibration);
        Ok(())
    }

    fn set_calibration(&mut self, calibration: Calibration) {
        self.info.threshold = Some(calibration.threshold().clone());
        self.calibration = Some(Arc::new(calibration));
    }

    fn calibration_of(
        &self,
        training: &Training<'_>,
        options: &FitOptions<'_>,
    ) -> Result<Option<Calibration>> {
        let (promise, observer) = (options.promise, options.observer);
        if let Some(given) = options.calibrate {
            let scores = self.score_dataset(given, observer)?;
            return calibration(scores, promise, CalibrationSource::Given, observer).map(Some);
        }
        let data = training.data;
        let rows = training.settled_rows(|| Ok(training.held_out().to_vec()))?;
        if rows.is_empty() {
            return Ok(None);
        }
        let stage = "threshold from held-out rows";
        let scores = training.of_each(stage, &rows, 1, |rows| {
            observer.begin(stage, rows.len() as u64);
            let scores = self.score_rows(data, rows, observer)?;
            Ok(Array1::from(scores).insert_axis(Axis(1)))
        })?;
        let scores = scores.into_iter().collect();
        calibration(scores, promise, CalibrationSource::HeldOut, observer).map(Some)
    }

    /// Scores of some rows of a dataset.
    fn score_rows(
        &self,
        data: &Dataset<'_>,
        rows: &[usize],
        observer: &dyn Observer,
    ) -> Result<Vec<f64>> {
        let mut scores = Vec::with_capacity(rows.len());
        for round in rows.chunks(BLOCK * BLOCKS_PER_ROUND) {
            check_interrupt(observer)?;
            let blocks = round
                .par_chunks(BLOCK)
                .map(|rows| {
                    let gathered = Gathered::new(data, rows, self.model.extras())?;
                    let mut scores = vec![0.0; rows.len()];
                    self.model.score(&gathered.dataset()?, 0, &mut scores)?;
                    Ok(scores)
                })
                .collect();
            scores.extend(in_order(blocks)?.into_iter().flatten());
            observer.advance(round.len() as u64);
        }
        self.checked(scores)
    }

    /// Scores as they leave the detector. Finite rows give every method numbers; a file whose own numbers are out of
    /// range does not, and a NaN would be neither in nor out.
    fn checked(&self, scores: Vec<f64>) -> Result<Vec<f64>> {
        match scores.iter().position(|score| score.is_nan()) {
            None => Ok(scores),
            Some(row) => Err(Error::NoScore { method: self.info.method.clone(), row }),
        }
    }

    /// Removes the checkpoints of a fit that is saved.
    ///
    /// # Errors
    /// If one exists and cannot be removed.
    pub fn remove_checkpoints(&self, checkpoint: &Checkpointing) -> Result<()> {
        checkpoint.files(&self.info.spec).iter().try_for_each(remove_if_exists)
    }

    /// One score per row of a dataset of any size.
    ///
    /// # Errors
    /// If the width differs, a value is not finite, logits are needed and missing, a score is no number, or the
    /// observer asks to stop.
    pub fn score_dataset(&self, data: &Dataset<'_>, observer: &dyn Observer) -> Result<Vec<f64>> {
        check_width(data, self.info.training.width)?;
        self.model.check_inputs(data)?;
        let mut scores = vec![0.0; data.rows()];
        observer.begin(&format!("scores of {}", data.name), data.rows() as u64);
        let round = BLOCK * BLOCKS_PER_ROUND;
        for (index, part) in scores.chunks_mut(round).enumerate() {
            check_interrupt(observer)?;
            let start = index * round;
            // As many blocks for each thread as for the others, and all of the same size.
            let blocks = part.len().div_ceil(BLOCK).next_multiple_of(rayon::current_num_threads());
            let rows = part.len().div_ceil(blocks).max(SMALLEST_BLOCK);
            if part.len() <= rows || part.len() < FEW_ROWS {
                // One task needs no other thread: waking some takes longer than a small score, and those who wait for
                // each other are as late as the latest of them.
                self.model.score(data, start, part)?;
            } else {
                let blocks = part
                    .par_chunks_mut(rows)
                    .enumerate()
                    .map(|(block, out)| self.model.score(data, start + block * rows, out))
                    .collect();
                in_order(blocks)?;
            }
            observer.advance(part.len() as u64);
        }
        self.checked(scores)
    }

    /// One score per row; `logits` are needed by methods that use them and do not keep the last
    /// layer.
    ///
    /// # Errors
    /// As [`Detector::score_dataset`].
    pub fn score(
        &self,
        features: ArrayView2<'_, f32>,
        logits: Option<ArrayView2<'_, f32>>,
    ) -> Result<Array1<f64>> {
        let mut data = Dataset::new("rows to score", features);
        if let Some(logits) = logits {
            data = data.with_logits(logits)?;
        }
        self.score_dataset(&data, &Silent).map(Array1::from)
    }

    /// Whether rows to score must bring logits: the method uses them, and the detector does not keep the
    /// last layer.
    #[must_use]
    pub fn needs_logits(&self) -> bool {
        let none = Array2::<f32>::zeros((0, self.info.training.width));
        let missing = self.model.check_inputs(&Dataset::new("no rows", none.view()));
        matches!(missing, Err(Error::MissingInput { what: "logits", .. }))
    }

    /// What the detector is.
    #[must_use]
    pub fn info(&self) -> &DetectorInfo {
        &self.info
    }

    /// Says where the features come from, so that new data can take the same way.
    #[must_use]
    pub fn with_source(mut self, source: Option<ModelSource>) -> Self {
        self.info.source = source;
        self
    }

    /// The stored threshold.
    #[must_use]
    pub fn threshold(&self) -> Option<&Threshold> {
        self.info.threshold.as_ref()
    }

    /// Whether the detector was read from a file so old that its threshold could not be kept.
    #[must_use]
    pub fn lost_its_threshold(&self) -> bool {
        self.info.version == WITHOUT_CALIBRATION && self.calibration.is_none()
    }

    /// What threshold and p-values come from.
    #[must_use]
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_deref()
    }

    /// What the fit found, one entry per kernel PCA member (none for other methods).
    #[must_use]
    pub fn kpca_summaries(&self) -> Vec<&KpcaSummary> {
        self.model.kpca().into_iter().map(KpcaModel::summary).collect()
    }

    /// Eigenvalues of each kernel PCA member, largest first: all of them, or those of the kept
    /// directions where a fit to many dimensions needed no more.
    #[must_use]
    pub fn eigenvalues(&self) -> Vec<&Array1<f64>> {
        self.model.kpca().into_iter().map(KpcaModel::eigenvalues).collect()
    }

    /// Squared distances between rows in the feature space of the kernel; none for methods without
    /// one, and of the first member for an ensemble.
    #[must_use]
    pub fn feature_space_distances(&self, rows: Array2<f64>) -> Option<Array2<f64>> {
        self.model.kpca().first().map(|kpca| kpca.squared_distances(rows))
    }

    /// Numbers that the fit found, by name: a clipping value, a rank, the rows of a bank.
    #[must_use]
    pub fn found(&self) -> Found {
        self.model.found()
    }

    /// The detector file's bytes: safetensors with one JSON document. Equal detectors give equal
    /// bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = TensorWriter::default();
        self.model.write("", &mut writer);
        let scores = self.calibration().map(|known| Array1::from(known.scores().to_vec()));
        if let Some(scores) = &scores {
            writer.array1(CALIBRATION_SCORES, scores);
        }
        // One that was loaded may be of an earlier version; what is written is of this one.
        let info = DetectorInfo { version: FORMAT.version, ..self.info.clone() };
        writer.to_bytes(&FORMAT, serde_json::json!(info))
    }

    /// Saves the detector; the file appears whole or not at all, and replaces a detector but no file of
    /// another kind, such as features.
    ///
    /// # Errors
    /// If it cannot be written, or would replace a file of another kind.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        check_replaces(path.as_ref(), Content::Detector)?;
        self.save_over(path)
    }

    /// Saves the detector as [`Detector::save`] does, whatever file is there.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save_over(&self, path: impl AsRef<Path>) -> Result<()> {
        write_bytes(path.as_ref(), &self.to_bytes())
    }

    /// Loads a detector.
    ///
    /// # Errors
    /// If the file cannot be read or anything in it is wrong.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::read(path, &TensorFile::open(path)?)
    }

    /// The detector that [`Detector::to_bytes`] wrote.
    ///
    /// # Errors
    /// If anything in it is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let path = Path::new("detector");
        Self::read(path, &TensorFile::from_bytes(path, Bytes::Memory(bytes.into()))?)
    }

    fn read(path: &Path, file: &TensorFile) -> Result<Self> {
        Instructions::in_use()?;
        let what = FORMAT.content.name();
        let mut document: serde_json::Value = file.document(&FORMAT)?;
        if document["version"] == WITHOUT_CALIBRATION {
            document["threshold"] = serde_json::Value::Null;
        }
        let info: DetectorInfo = serde_json::from_value(document)
            .map_err(|error| Error::malformed(path, what, error.to_string()))?;
        let inside = |error| Error::malformed(path, what, error);
        if info.method != info.spec.method() {
            let (name, spec) = (&info.method, info.spec.method());
            return Err(Error::malformed(path, what, format!("it is called {name} and is {spec}")));
        }
        if !(1..=WIDEST).contains(&info.training.width) {
            let width = info.training.width;
            return Err(inside(Error::parameter("width", format!("1 to {WIDEST}"), width)));
        }
        let spec = info.spec.check().map_err(inside)?;
        let model = spec.read(file, "", &info.results, info.training.width).map_err(inside)?;
        let calibration = match &info.threshold {
            Some(threshold) => {
                let scores = file.scores(CALIBRATION_SCORES)?;
                let known = Calibration::from_parts(threshold.clone(), scores).map_err(inside)?;
                Some(Arc::new(known))
            }
            None => None,
        };
        Ok(Detector { info, model, calibration })
    }

    /// Whether a file says that it is a detector.
    #[must_use]
    pub fn is_detector(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        path.is_file() && Content::of(path).is_ok_and(|content| content == Content::Detector)
    }
}

/// Keeps other processes from the checkpoints of these methods.
fn locks(checkpoint: Option<&Checkpointing>, specs: &[MethodSpec]) -> Result<Vec<FileLock>> {
    let Some(checkpoint) = checkpoint else { return Ok(Vec::new()) };
    let mut files: Vec<_> = specs.iter().flat_map(|spec| checkpoint.files(spec)).collect();
    files.sort();
    files.dedup();
    files.iter().map(FileLock::try_new).collect()
}

fn check_width(data: &Dataset<'_>, expected: usize) -> Result<()> {
    if data.width() == expected {
        return Ok(());
    }
    Err(Error::shape(
        data.features.name(),
        format!("{expected} columns, as in the detector's training rows"),
        format!("{} columns", data.width()),
    ))
}

fn check_options(data: &Dataset<'_>, head: Option<&Head>, options: &FitOptions<'_>) -> Result<()> {
    if let Some(share) = options.hold_out
        && !(0.0..1.0).contains(&share)
    {
        return Err(Error::parameter("hold-out", "a share in [0, 1)", share));
    }
    options.promise.check()?;
    if data.rows() == 0 {
        return Err(Error::TooFewRows { what: data.name.clone(), expected: 1, got: 0 });
    }
    if data.width() == 0 {
        return Err(Error::shape(&data.name, "at least one column", "0 columns"));
    }
    if let Some(head) = head {
        head.check_width(data.width())?;
    }
    match options.calibrate {
        Some(given) => check_calibration(given, data.width(), options.promise),
        None => Ok(()),
    }
}

/// Says so where logits do not belong to the features beside them. What cannot be read, the fit tells by itself.
fn tell_disagreement(rows: &Dataset<'_>, head: &Head, observer: &dyn Observer) {
    if let Ok(Some(disagreement)) = Disagreement::of(rows, head) {
        observer.note(&disagreement.to_string());
    }
}

/// A calibration from scores; says so where its threshold lets everything pass.
fn calibration(
    scores: Vec<f64>,
    promise: Promise,
    source: CalibrationSource,
    observer: &dyn Observer,
) -> Result<Calibration> {
    let known = Calibration::new(scores, promise, source)?;
    if known.threshold().value == f64::NEG_INFINITY {
        let lowest = known.scores().iter().filter(|score| **score == f64::NEG_INFINITY).count();
        observer.note(&format!(
            "the threshold lets every row pass: {lowest} of the {} rows that it was set with have no \
             direction (zeros), more than the share that it may refuse",
            known.scores().len()
        ));
    } else if let [first, .., last] = known.scores()
        && first == last
    {
        observer.note(
            "all rows that the threshold was set with have the same score, so the detector tells nothing \
             apart (for a kernel: its width may be far from the distances between rows)",
        );
    }
    Ok(known)
}

fn check_calibration(rows: &Dataset<'_>, width: usize, promise: Promise) -> Result<()> {
    promise.check()?;
    check_width(rows, width)?;
    let needed = promise.rows_needed()?;
    if rows.rows() < needed {
        return Err(Error::TooFewRows {
            what: format!(
                "{}, for a threshold that keeps {} of the rows with a confidence of {}",
                rows.name, promise.keep, promise.confidence
            ),
            expected: needed,
            got: rows.rows(),
        });
    }
    Ok(())
}

/// Which rows to hold out, if any; tells why not where the user might expect some. `count` tells how many of
/// the rows a choice holds out.
fn choose_hold_out(
    data: &Dataset<'_>,
    options: &FitOptions<'_>,
    count: impl FnOnce(HoldOut) -> usize,
) -> Result<HoldOut> {
    if options.calibrate.is_some() || options.hold_out == Some(0.0) {
        return Ok(HoldOut::NONE);
    }
    let (rows, needed) = (data.rows() as f64, options.promise.rows_needed()?);
    let share = options.hold_out.unwrap_or_else(|| {
        let comfortable = TIMES_NEEDED.saturating_mul(needed) as f64 / rows;
        HELD_OUT.max(comfortable.min(MOST_OF_FEW))
    });
    // What the promise needs, it gets, however many rows that are.
    let most = MOST_HELD_OUT.max(2.0 * needed as f64);
    let hold_out = HoldOut::new(share.min(most / rows), options.seed);
    let held_out = count(hold_out);
    if held_out >= needed {
        return Ok(hold_out);
    }
    options.observer.note(&format!(
        "no threshold: {held_out} of {rows} rows would be held out for it, and one that keeps {} of the \
         rows with a confidence of {} takes {needed}; all rows are used for the fit (give {}, a larger {}, \
         or a smaller {} or {})",
        options.promise.keep,
        options.promise.confidence,
        Data("calibrate"),
        Named("hold-out"),
        Named("keep"),
        Named("confidence"),
    ));
    Ok(HoldOut::NONE)
}
