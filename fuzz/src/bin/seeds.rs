//! Writes well-formed inputs for every target: `seeds FOLDER`. What cannot be made here comes from the tests' files.

use std::path::{Path, PathBuf};

use ndarray::Array2;
use offspan::io::Dataset;
use offspan::{
    Detector, FitPlan, Moments, Monitor, MonitorOptions, PartialFit, PlanOptions, Silent,
};
use offspan_fuzz::targets::{TARGETS, named};

#[path = "../../../crates/offspan/tests/common/mod.rs"]
mod common;

use common::*;

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("usage: seeds FOLDER"));
    for target in TARGETS {
        std::fs::create_dir_all(folder.join(target.name)).expect("a folder");
    }
    let put = |target: &str, name: &str, bytes: &[u8]| {
        // It may be left out of this build.
        if named(target).is_none() {
            return;
        }
        let name: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        std::fs::write(folder.join(target).join(name), bytes).expect("a file");
    };
    let train = features(60, WIDTH, 1);
    for (name, spec) in every_method() {
        match fit_with(&spec, train.view(), &offspan::FitOptions { hold_out: None, ..whole_fit() }) {
            Ok(detector) => put("detector", &name, &detector.to_bytes()),
            Err(error) => panic!("{name}: {error}"),
        }
        put("json", &name, serde_json::json!(spec).to_string().as_bytes());
        put("parameters", &name, format!("{}\ngamma=0.5\nseed=3", spec.method()).as_bytes());
        plans(&name, &spec, &put);
    }
    for option in offspan::OPTIONS {
        let text = format!("{}\n{}={}", "kpca-nys", option.name(), option.default);
        put("parameters", option.name(), text.as_bytes());
    }
    let npy = npy_f32(train.view());
    put("npy", "rows", &npy);
    put("csv", "npy", &npy);
    put("csv", "text", b"a,b\n1.5,-2\n3,\"4e3\"\n");
    put("scores", "text", b"row,score,p_value,decision\n0,1.5,0.2,in\n1,-inf,0.1,out\n");
    put("scores", "rows", b"1\n2\n30\n");
    put("json", "eval", br#"{"schema":"offspan.eval/1","pack":"x","results":[]}"#);
    put("pack-toml", "pack", b"name = \"x\"\nnear = [\"a\"]\n[model]\nname = \"net\"\nhash = \"00\"\nclasses = [\"a\", \"b\"]\n");
    safetensors_seeds(&put);
    documents(&put);
    #[cfg(feature = "onnx")]
    onnx_seeds(&put);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/offspan-arrow/tests/files");
    for entry in std::fs::read_dir(tests).expect("test files").flatten() {
        let path = entry.path();
        let target = match path.extension().and_then(|e| e.to_str()) {
            Some("npz") => "npz",
            Some("parquet") => "parquet",
            Some("arrow" | "feather") => "arrow",
            _ => continue,
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        put(target, &name, &std::fs::read(path).expect("a test file"));
    }
}

/// A plan after each of its passes, and the parts of them.
fn plans(name: &str, spec: &offspan::MethodSpec, put: &impl Fn(&str, &str, &[u8])) {
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

fn safetensors_seeds(put: &impl Fn(&str, &str, &[u8])) {
    use safetensors::Dtype;
    let rows = features(6, 3, 1);
    let labels: Vec<u8> = (0..6i64).flat_map(i64::to_le_bytes).collect();
    let parts = Tensors::from([
        ("features".to_owned(), (Dtype::F32, vec![6, 3], le_f32(&rows))),
        ("logits".to_owned(), f32_tensor(&[6, 4], 0.5)),
        ("labels".to_owned(), (Dtype::I64, vec![6], labels)),
        ("thumbnails".to_owned(), (Dtype::U8, vec![6, 2, 2, 3], vec![7; 72])),
    ]);
    put("safetensors", "split", &tensors(&parts, None));
    let head = Tensors::from([
        ("weight".to_owned(), f32_tensor(&[4, 3], 0.1)),
        ("bias".to_owned(), f32_tensor(&[4], 0.2)),
    ]);
    put("safetensors", "head", &tensors(&head, None));
}

fn documents(put: &impl Fn(&str, &str, &[u8])) {
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

    for (name, params) in [("pca", pca()), ("nys", nystrom(KERNELS[1], 8, offspan::Residual::Plain))] {
        let valid = params.check().expect("parameters");
        let rows = features(40, 3, 2);
        let first = Dataset::new("rows", rows.view());
        let Ok(mut partial) = PartialFit::begin(&valid, &first, None) else { continue };
        let _ = partial.update(&first, &Silent);
        put("partial-fit", name, &partial.to_bytes());
    }

    // A checkpoint stays where a fit is stopped.
    let path = folder.path().join("c");
    struct Stop(std::sync::atomic::AtomicUsize);
    impl offspan::Observer for Stop {
        fn interrupted(&self) -> bool {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) > 2
        }
    }
    for looks in 0..3 {
        let stop = Stop(looks.into());
        let _ = offspan_fuzz::targets::checkpointed_fit(&path, &stop);
        if let Ok(bytes) = std::fs::read(&path) {
            put("checkpoint", &format!("stopped-{looks}"), &bytes);
        }
        let _ = std::fs::remove_file(&path);
    }
}

#[cfg(feature = "onnx")]
fn onnx_seeds(put: &impl Fn(&str, &str, &[u8])) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.onnx");
    let train = features(60, WIDTH, 1);
    for name in ["pca", "knn", "energy", "vim"] {
        let spec = offspan::MethodSpec::named(name).expect("a method");
        let detector: Detector = fit(&spec, train.view()).expect("a detector");
        if let Ok(model) = offspan_onnx::export(&detector) {
            offspan_onnx::save(&model, &path).expect("a file");
            put("onnx", name, &std::fs::read(&path).expect("a file"));
        }
    }
}
