//! Fits that are stopped, and go on.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::*;
use ndarray::{Array2, Axis, concatenate, s};
use offspan::map::Draw;
use offspan::{
    Checkpointing, Clip, Error, ExactForm, FitOptions, Kernel, KpcaParams, MapParams, MethodSpec,
    Observer, Residual,
};

/// Asks to stop after so many reports of progress.
struct StopAfter {
    left: AtomicUsize,
}

impl StopAfter {
    fn new(reports: usize) -> Self {
        StopAfter { left: AtomicUsize::new(reports) }
    }
}

impl Observer for StopAfter {
    fn advance(&self, _: u64) {
        let _ = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
    }

    fn interrupted(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }
}

/// Keeps the reports of progress.
#[derive(Default)]
struct Reports(Mutex<Vec<u64>>);

impl Observer for Reports {
    fn advance(&self, steps: u64) {
        self.0.lock().unwrap().push(steps);
    }
}

/// Methods whose fit walks over no rows.
const AT_ONCE: [&str; 27] = [
    "energy",
    "gen",
    "msp",
    "max-logit",
    "odin",
    "entropy",
    "renyi",
    "logit-gap",
    "joint-energy",
    "gradnorm",
    "dml",
    "fdbd-norm",
    "ctm-weight",
    "ash-b",
    "ash-p",
    "ash-s",
    "scale",
    "beta-norm",
    "lts",
    "rank-feat",
    "rank-feat+rank-weight",
    "feature-norm",
    "davis-std",
    "davis-max",
    "mcf",
    "mnc",
    "godin",
];

#[test]
fn every_method_stops_when_asked_to() {
    let train = features(300, WIDTH, 1);
    let stop = StopAfter::new(0);
    let mut deaf = Vec::new();
    for (name, spec) in every_method() {
        let options = FitOptions { hold_out: Some(0.0), observer: &stop, ..FitOptions::default() };
        match fit_with(&spec, train.view(), &options) {
            Err(Error::Interrupted { .. }) => {}
            // Nothing is computed in these fits.
            Ok(_) if AT_ONCE.contains(&name.as_str()) => {}
            Err(error) => deaf.push(format!("{name}: {error}")),
            Ok(_) => deaf.push(name.clone()),
        }
        let detector = fit(&spec, train.view()).unwrap();
        let data = whole_dataset("train", train.view());
        let told = detector.score_dataset(&data, &stop).unwrap_err().to_string();
        assert_eq!(told, "interrupted; no output was written", "{name}");
    }
    assert!(deaf.is_empty(), "these fits do not listen: {}", deaf.join(", "));
}

/// Methods with a long pass, on rows that are [`LONG`] many: three chunks.
fn methods_with_checkpoints() -> Vec<(&'static str, MethodSpec)> {
    let gaussian = Kernel::Gaussian { gamma: 1.0 };
    let polynomial = Kernel::Polynomial { degree: 2, coef0: 1.0 };
    let sketch = MapParams::TensorSketch { features: 12 };
    let parts = Some(fourier_parts(20, 4));
    let given = MapParams::Fourier { features: 20, draw: Draw::Iid, parts };
    let nys = nystrom(gaussian, 16, Residual::Complete);
    vec![
        ("pca", MethodSpec::Kpca(pca())),
        ("pca react", {
            MethodSpec::Kpca(KpcaParams { react: Some(Clip::Percentile(90.0)), ..pca() })
        }),
        ("rff", MethodSpec::Kpca(fourier(gaussian, 20, Draw::Structured))),
        ("rff given parts", {
            MethodSpec::Kpca(KpcaParams { map: given, ..fourier(gaussian, 20, Draw::Iid) })
        }),
        ("sketch", {
            MethodSpec::Kpca(KpcaParams { map: sketch, ..nystrom(polynomial, 1, Residual::Plain) })
        }),
        ("nys", MethodSpec::Kpca(nys)),
        ("ensemble", ensemble()),
    ]
}

const LONG: usize = 17_000;

#[test]
fn a_stopped_fit_goes_on_from_its_checkpoint_to_the_same_bytes() {
    let train = features(LONG, 4, 1);
    let mut wrong = Vec::new();
    for (name, spec) in methods_with_checkpoints() {
        let reference = fit_with(&spec, train.view(), &FitOptions::default()).unwrap().to_bytes();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        let checkpoint = Checkpointing { path: path.clone(), every: Duration::ZERO };
        // Every run is stopped a little later than the one before, so it is stopped in every
        // stage, and in most of them with a checkpoint to go on from.
        let mut stops = 0;
        for reports in 0..60 {
            let observer = StopAfter::new(reports);
            let options = FitOptions {
                checkpoint: Some(&checkpoint),
                observer: &observer,
                ..FitOptions::default()
            };
            match fit_with(&spec, train.view(), &options) {
                Ok(detector) => {
                    if detector.to_bytes() != reference {
                        wrong.push(format!("{name}: other bytes after {stops} stops"));
                    }
                    detector.remove_checkpoints(&checkpoint).unwrap();
                    assert_eq!(names_in(folder.path()), [""; 0], "{name}");
                    break;
                }
                Err(Error::Interrupted { .. }) => stops += 1,
                Err(error) => {
                    wrong.push(format!("{name}: {error}"));
                    break;
                }
            }
        }
        if stops < 3 {
            wrong.push(format!("{name}: stopped {stops} times only"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_fingerprint_sees_every_training_row_and_their_order() {
    let exact = exact(Kernel::Linear, ExactForm::Centred);
    for (spec, rows) in
        [(MethodSpec::Kpca(pca()), LONG), (MethodSpec::Kpca(exact), 600), (knn(3), 600)]
    {
        let print = |rows: &Array2<f32>| {
            fit(&spec, rows.view()).unwrap().info().training.fingerprint.clone()
        };
        let train = features(rows, 4, 1);
        let mut prints = vec![print(&train)];
        assert_eq!(print(&train), prints[0]);
        // The first chunk, one in the middle, and the last.
        for row in [0, rows / 2, rows - 1] {
            let mut other = train.clone();
            other[[row, 3]] += 0.25;
            prints.push(print(&other));
        }
        prints.push(print(&concatenate![
            Axis(0),
            train.slice(s![rows / 2.., ..]),
            train.slice(s![..rows / 2, ..])
        ]));
        prints.sort();
        prints.dedup();
        assert_eq!(prints.len(), 5, "{}", spec.method());
    }
}

#[test]
fn a_stopped_fit_says_where_its_progress_is_and_leaves_nothing_else() {
    let train = features(LONG, 4, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let checkpoint = Checkpointing { path: path.clone(), every: Duration::from_secs(3600) };
    let spec = MethodSpec::Kpca(pca());
    let stopped = |checkpoint| {
        // Where the pass stands and two chunks.
        let observer = StopAfter::new(3);
        let options = FitOptions { checkpoint, observer: &observer, ..whole_fit() };
        fit_with(&spec, train.view(), &options).unwrap_err().to_string()
    };
    assert_eq!(stopped(None), "interrupted; no output was written");
    assert_eq!(names_in(folder.path()), [""; 0]);
    let expected = format!(
        "interrupted; no output was written; progress up to row 16384 is in {}, run the same \
         command to go on",
        path.display()
    );
    assert_eq!(stopped(Some(&checkpoint)), expected);
    assert_eq!(names_in(folder.path()), ["checkpoint"]);

    // What is done is not done again.
    let observer = Reports::default();
    let options = FitOptions { checkpoint: Some(&checkpoint), observer: &observer, ..whole_fit() };
    fit_with(&spec, train.view(), &options).unwrap();
    assert_eq!(*observer.0.lock().unwrap(), [16_384, LONG as u64 - 16_384]);
}

#[test]
fn a_checkpoint_notices_other_frequencies() {
    let train = features(300, WIDTH, 1);
    let folder = tempfile::tempdir().unwrap();
    let checkpoint =
        Checkpointing { path: folder.path().join("checkpoint"), every: Duration::ZERO };
    let fit_parts = |scale: f64| {
        let mut parts = fourier_parts(20, WIDTH);
        parts.frequencies *= scale;
        let map = MapParams::Fourier { features: 20, draw: Draw::Iid, parts: Some(parts) };
        let kernel = Kernel::Gaussian { gamma: 1.0 };
        let spec = MethodSpec::Kpca(KpcaParams { map, ..fourier(kernel, 20, Draw::Iid) });
        let options = FitOptions { checkpoint: Some(&checkpoint), ..whole_fit() };
        fit_with(&spec, train.view(), &options).map(|detector| detector.to_bytes())
    };
    let first = fit_parts(1.0).unwrap();
    assert_eq!(fit_parts(1.0).unwrap(), first, "the same frequencies go on");
    let told = fit_parts(2.0).unwrap_err().to_string();
    assert!(told.contains("cannot resume") && told.contains("frequencies"), "{told}");
}

/// Moves a folder away after so many reports of progress and, after some more, back again. Keeps the
/// notes.
struct TakeAway {
    folder: std::path::PathBuf,
    away: usize,
    back: usize,
    reports: AtomicUsize,
    notes: Mutex<Vec<String>>,
}

impl TakeAway {
    fn elsewhere(&self) -> std::path::PathBuf {
        self.folder.with_extension("away")
    }
}

impl Observer for TakeAway {
    fn advance(&self, _: u64) {
        let report = self.reports.fetch_add(1, Ordering::SeqCst) + 1;
        if report == self.away {
            std::fs::rename(&self.folder, self.elsewhere()).unwrap();
        } else if report == self.back {
            std::fs::rename(self.elsewhere(), &self.folder).unwrap();
        }
    }

    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.to_owned());
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_told_once_and_does_not_stop_the_fit() {
    // Six chunks; the first report tells where the pass stands.
    let train = features(45_000, 4, 1);
    let spec = MethodSpec::Kpca(pca());
    let reference = fit_with(&spec, train.view(), &whole_fit()).unwrap().to_bytes();
    // When the folder goes and comes back, and how often that is told: once for each time it is gone.
    for (away, back, told) in [(3, 5, 1), (2, usize::MAX, 1), (usize::MAX, usize::MAX, 0)] {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        let checkpoint = Checkpointing { path: folder.join("c"), every: Duration::ZERO };
        let observer = TakeAway {
            folder: folder.clone(),
            away,
            back,
            reports: AtomicUsize::new(0),
            notes: Mutex::default(),
        };
        let options =
            FitOptions { checkpoint: Some(&checkpoint), observer: &observer, ..whole_fit() };
        let detector = fit_with(&spec, train.view(), &options).unwrap();
        assert_eq!(detector.to_bytes(), reference);
        let notes = observer.notes.lock().unwrap();
        assert_eq!(notes.len(), told, "{notes:?}");
        for note in notes.iter() {
            assert!(note.contains("the checkpoint could not be saved: cannot"), "{note}");
            assert!(note.contains("folder/c") && note.contains("the fit goes on"), "{note}");
        }
        detector.remove_checkpoints(&checkpoint).unwrap();
        if away == 3 {
            // It was there again at the end, saved, and removed.
            assert_eq!(names_in(&folder), [""; 0]);
        }
        if away == 2 {
            // The lock went with the folder, where it means nothing.
            assert_eq!(names_in(&observer.elsewhere()), ["c.lock"], "no partial file");
        }
    }
}

/// Takes a folder away after the first chunk and asks to stop after the second.
struct TakeAwayAndStop(TakeAway);

impl Observer for TakeAwayAndStop {
    fn advance(&self, steps: u64) {
        self.0.advance(steps);
    }

    fn interrupted(&self) -> bool {
        self.0.reports.load(Ordering::SeqCst) == 3
    }
}

#[test]
fn a_stopped_fit_does_not_claim_progress_that_it_could_not_save() {
    let train = features(LONG, 4, 1);
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let (path, every) = (folder.join("c"), Duration::from_secs(3600));
    let checkpoint = Checkpointing { path, every };
    let observer = TakeAwayAndStop(TakeAway {
        folder,
        away: 2,
        back: usize::MAX,
        reports: AtomicUsize::new(0),
        notes: Mutex::default(),
    });
    let options = FitOptions { checkpoint: Some(&checkpoint), observer: &observer, ..whole_fit() };
    let error = fit_with(&MethodSpec::Kpca(pca()), train.view(), &options).unwrap_err();
    assert_eq!(error.to_string(), "interrupted; no output was written; no progress was saved");
}
