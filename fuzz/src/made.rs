//! Well-formed inputs that are made rather than kept, for the targets that read files of offspan's own: the seeds of
//! fuzzing, and what the ordinary tests change.

use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::Array2;
use offspan::io::Dataset;
use offspan::{
    FitPlan, Kernel, MethodSpec, Moments, Monitor, MonitorOptions, Observer, PartialFit,
    PlanOptions, Promise, Residual, Silent,
};

use super::common::{WIDTH, features, fit, nystrom, pca, whole_dataset};
use super::targets::checkpointed_fit;

/// Stops a fit at one of its first looks.
struct Stop(AtomicUsize);

impl Observer for Stop {
    fn interrupted(&self) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst) > 2
    }
}

/// A detector of a method, with a threshold.
pub fn detector(name: &str, spec: &MethodSpec, put: &mut impl FnMut(&str, &str, &[u8])) {
    let mut fitted =
        fit(spec, features(60, WIDTH, 1).view()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let later = features(60, WIDTH, 2);
    // A method may refuse to score these rows; its detector is one nevertheless.
    let _ = fitted.calibrate(&whole_dataset("later", later.view()), Promise::default(), &Silent);
    put("detector", name, &fitted.to_bytes());
}

/// A plan after each of its passes, and the parts of them.
pub fn plans(name: &str, spec: &MethodSpec, put: &mut impl FnMut(&str, &str, &[u8])) {
    let rows = Array2::from_shape_fn((64, 3), |(i, j)| ((i * 7 + j * j * 3) % 13) as f32 + 0.5);
    let options = PlanOptions { hold_out: Some(0.0), ..PlanOptions::default() };
    let Ok(mut plan) = FitPlan::new(spec, None, options) else { return };
    for pass in 0..8 {
        put("fit-plan", &format!("{name}-{pass}"), &plan.to_bytes());
        if plan.stage().is_none() {
            break;
        }
        let Ok(part) = plan.partial(&Dataset::new("rows", rows.view()), 0, &Silent) else { return };
        put("fit-part", &format!("{name}-{pass}"), &part.to_bytes());
        if plan.advance(&part, &Silent).is_err() {
            return;
        }
    }
}

/// A state of a monitor, moments, partial fits and checkpoints.
pub fn documents(put: &mut impl FnMut(&str, &str, &[u8])) {
    let reference: Vec<f64> = (0..100).map(|i| f64::from(i) / 7.0).collect();
    let mut monitor = Monitor::new(&reference, MonitorOptions::new(0.95, 1.0)).expect("a monitor");
    monitor.update(&[f64::NEG_INFINITY, 0.3, 5.0]).expect("scores");
    monitor.remember("xxh3:0".to_owned(), 3);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m");
    monitor.save(&path).expect("a state");
    put("monitor", "state", &std::fs::read(&path).expect("a state"));

    let x = features(20, 3, 4).mapv(f64::from);
    let mut moments = Moments::new(3);
    moments.update(x.view()).expect("rows");
    put("moments", "sums", &moments.to_bytes());

    let landmarks = nystrom(Kernel::Gaussian { gamma: 0.9 }, 8, Residual::Plain);
    for (name, params) in [("pca", pca()), ("nys", landmarks)] {
        let valid = params.check().expect("parameters");
        let rows = features(40, 3, 2);
        let first = Dataset::new("rows", rows.view());
        let Ok(mut partial) = PartialFit::begin(&valid, &first, None) else { continue };
        let _ = partial.update(&first, &Silent);
        put("partial-fit", name, &partial.to_bytes());
    }

    // A checkpoint stays where a fit is stopped.
    let path = folder.path().join("c");
    for looks in 0..3 {
        let stop = Stop(looks.into());
        let _ = checkpointed_fit(&path, &stop);
        if let Ok(bytes) = std::fs::read(&path) {
            put("checkpoint", &format!("stopped-{looks}"), &bytes);
        }
        let _ = std::fs::remove_file(&path);
    }
}
