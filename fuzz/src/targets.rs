//! Every reader with what is done with a file that it accepts. None may panic, hang, ask for more memory than the file
//! justifies, or give a NaN.
//!
//! One more is a function and a line in [`TARGETS`].

use std::path::{Path, PathBuf};

use ndarray::Array2;
use offspan::io::{Content, Conversion, Dataset, FeatureSource};
use offspan::{
    Checkpointing, Detector, FitOptions, FitPart, FitPlan, MethodOptions, Moments, Monitor,
    Observer, PartialFit, Silent,
};

use super::mutate::repaired;

/// Something that reads bytes from outside.
pub struct Target {
    /// What it is called, also the name of its folders of inputs.
    pub name: &'static str,
    /// Hands it bytes.
    pub run: fn(&[u8]),
    /// Whether the bytes are a safetensors file of ours: then changes keep it one.
    pub is_document: bool,
}

const fn bytes(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run, is_document: false }
}

const fn document(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run, is_document: true }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    bytes("npy", |input| feature_file("x.npy", input)),
    bytes("npz", |input| feature_file("x.npz", input)),
    #[cfg(feature = "parquet")]
    bytes("parquet", |input| feature_file("x.parquet", input)),
    #[cfg(feature = "parquet")]
    bytes("arrow", |input| feature_file("x.arrow", input)),
    document("safetensors", |input| feature_file("x.safetensors", input)),
    document("detector", detector),
    document("checkpoint", checkpoint),
    document("monitor", monitor),
    document("moments", moments),
    document("partial-fit", partial_fit),
    document("fit-plan", fit_plan),
    document("fit-part", fit_part),
    bytes("scores", scores),
    bytes("torch", torch),
    bytes("csv", csv),
    bytes("json", any_content),
    #[cfg(feature = "onnx")]
    bytes("pack-toml", pack_toml),
    bytes("parameters", parameters),
    #[cfg(feature = "onnx")]
    bytes("onnx", onnx),
    #[cfg(feature = "onnx")]
    bytes("image", image),
    #[cfg(feature = "serve")]
    bytes("rest-body", rest_body),
    #[cfg(feature = "serve")]
    bytes("grpc-message", grpc_message),
];

/// The target of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// A folder for the files of one run.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("a temporary file");
        path
    }
}

/// More numbers than this are not worth reading.
const MOST_NUMBERS: usize = 1 << 20;

/// Reads all rows, some of which may be refused.
fn read_all(source: &dyn FeatureSource) {
    let (rows, width) = (source.rows(), source.width());
    if rows.saturating_mul(width) <= MOST_NUMBERS {
        let _ = offspan::io::read_rows::<f64>(source, 0..rows);
        let _ = offspan::io::read_rows::<f32>(source, 0..rows);
    }
}

fn whole_dataset(data: &Dataset<'_>) {
    read_all(data.features());
    if let Some(logits) = data.logits() {
        read_all(logits);
    }
    for row in 0..data.rows().min(3) {
        let _ = data.thumbnail(row);
    }
}

/// A file of features, and everything else that a file of this name may be asked for.
fn feature_file(name: &str, input: &[u8]) {
    let folder = Folder::new();
    let path = folder.put(name, input);
    let _ = Content::of(&path);
    let _ = offspan::io::stored_checksum(&path);
    if let Ok(data) = offspan::io::open_dataset(&path, None) {
        whole_dataset(&data);
    }
    for tensor in ["features", "logits"] {
        if let Ok(matrix) = offspan::io::open_matrix(&path, tensor, None) {
            read_all(&matrix);
        }
    }
    if let Ok(labels) = offspan::io::open_labels(&path) {
        let _ = labels.read(0..labels.len());
    }
    let _ = offspan::io::open_head(&path);
    let _ = offspan::io::read_vector(&path, "bias");
    let _ = offspan::io::read_index_list(&path);
    let _ = offspan::io::read_scores(&path);
    let _ = offspan::io::open_inputs(&path);
}

/// Rows of any width, the same ones every time.
fn rows(count: usize, width: usize) -> Array2<f32> {
    Array2::from_shape_fn((count, width), |(i, j)| {
        (((i * 31 + j * j * 7 + 3) % 29) as f32 * 0.37).sin() + 1.2
    })
}

/// Scores have to be numbers; −∞ is one, of a row without direction.
fn check_scores(detector: &Detector) {
    let width = detector.info().training.width;
    if width > 4096 {
        return;
    }
    let new = rows(4, width);
    let logits = rows(4, 4);
    for logits in [None, Some(logits.view())] {
        if let Ok(scores) = detector.score(new.view(), logits) {
            assert!(scores.iter().all(|score| !score.is_nan()), "{scores}");
        }
    }
}

fn detector(input: &[u8]) {
    let Ok(detector) = Detector::from_bytes(&repaired(input)) else { return };
    check_scores(&detector);
    let _ = (detector.found(), detector.terms(), detector.eigenvalues());
    let again = Detector::from_bytes(&detector.to_bytes());
    assert!(again.is_ok(), "what it writes it must read: {again:?}");
}

/// The fit that the checkpoints among the seeds belong to.
///
/// # Errors
/// If the checkpoint is none of this fit, or the observer stops it.
pub fn checkpointed_fit(checkpoint: &Path, observer: &dyn Observer) -> offspan::Result<Detector> {
    let mut options = MethodOptions::default();
    options.set("features", "8").expect("an option");
    let spec = options.method("kpca-rff").expect("a method");
    let rows = rows(64, 3);
    let every = std::time::Duration::from_secs(3600);
    let checkpoint = Checkpointing { path: checkpoint.to_owned(), every };
    let options = FitOptions {
        hold_out: Some(0.0),
        checkpoint: Some(&checkpoint),
        observer,
        ..FitOptions::default()
    };
    Detector::fit(&spec, &Dataset::new("train", rows.view()), None, &options)
}

fn checkpoint(input: &[u8]) {
    let folder = Folder::new();
    if let Ok(detector) = checkpointed_fit(&folder.put("c", &repaired(input)), &Silent) {
        check_scores(&detector);
    }
}

fn monitor(input: &[u8]) {
    let folder = Folder::new();
    let path = folder.put("m", &repaired(input));
    let Ok(mut monitor) = Monitor::load(&path) else { return };
    if let Ok(report) = monitor.update(&[0.5, -1.0, f64::NEG_INFINITY, 3.0]) {
        assert!(!report.share.log10.is_nan() && !report.distribution.log10.is_nan(), "{report:?}");
    }
    monitor.save(&path).expect("a state can be saved");
    Monitor::load(&path).expect("what it writes it must read");
}

fn moments(input: &[u8]) {
    let Ok(mut moments) = Moments::from_bytes(&repaired(input)) else { return };
    let other = moments.clone();
    let _ = moments.merge(&other);
    if moments.width() <= 512 {
        let _ = moments.covariance();
    }
}

fn partial_fit(input: &[u8]) {
    let Ok(mut partial) = PartialFit::from_bytes(&repaired(input)) else { return };
    if partial.width() > 512 {
        return;
    }
    let new = rows(5, partial.width());
    let _ = partial.update(&Dataset::new("more", new.view()), &Silent);
    if let Ok(detector) = Detector::from_partial(&partial, None) {
        check_scores(&detector);
    }
    let _ = PartialFit::from_bytes(&partial.to_bytes()).expect("what it writes it must read");
}

fn fit_plan(input: &[u8]) {
    let Ok(mut plan) = FitPlan::from_bytes(&repaired(input)) else { return };
    let new = rows(64, 3);
    for _ in 0..8 {
        if plan.stage().is_none() {
            break;
        }
        let Ok(part) = plan.partial(&Dataset::new("rows", new.view()), 0, &Silent) else { return };
        if plan.advance(&part, &Silent).is_err() {
            return;
        }
    }
    if let Ok(detector) = plan.finish() {
        check_scores(&detector);
    }
}

fn fit_part(input: &[u8]) {
    let Ok(mut part) = FitPart::from_bytes(&repaired(input)) else { return };
    let Ok(other) = FitPart::from_bytes(&part.to_bytes()) else {
        panic!("what it writes it must read")
    };
    let _ = part.merge(&other);
}

fn scores(input: &[u8]) {
    let folder = Folder::new();
    for name in ["s.csv", "s.npy"] {
        if let Ok(Some(scores)) = offspan::io::read_scores(folder.put(name, input)) {
            let source = offspan::CalibrationSource::Given;
            if let Ok(known) =
                offspan::Calibration::new(scores, offspan::Promise::default(), source)
            {
                assert!(!known.p_value(0.5).is_nan());
            }
        }
    }
    let _ = offspan::io::read_index_list(folder.put("rows.txt", input));
}

/// Tensors of PyTorch, in a pickle alone or in an archive, as rows of a new pack.
fn torch(input: &[u8]) {
    let folder = Folder::new();
    let path = folder.put("x.pt", input);
    let conversion = Conversion { train: Some(path.clone()), ..Conversion::default() };
    let _ = conversion.write(folder.0.path().join("pack"), &Silent);
    let _ = offspan::io::convert_scores(&path, &[], folder.0.path().join("scores"));
}

fn csv(input: &[u8]) {
    if let Ok(data) = offspan::io::read_dataset("stdin", input) {
        whole_dataset(&data);
    }
}

fn any_content(input: &[u8]) {
    let folder = Folder::new();
    let _ = Content::of(folder.put("x", input));
    let _ = serde_json::from_slice::<offspan::MethodSpec>(input).map(|spec| spec.check().map(drop));
    let _ = serde_json::from_slice::<offspan::DetectorInfo>(input);
    let _ = serde_json::from_slice::<offspan::MonitorState>(input);
}

#[cfg(feature = "onnx")]
fn pack_toml(input: &[u8]) {
    let folder = Folder::new();
    folder.put("pack.toml", input);
    if let Ok(file) = offspan_onnx::PackFile::read(folder.0.path()) {
        let _ = (file.classes(), file.source(folder.0.path()).map(drop));
    }
}

/// The first line is a method, the others are options: `name=value`.
fn parameters(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let method = lines.next().unwrap_or_default();
    let mut options = MethodOptions::default();
    for line in lines {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        if let Err(error) = options.set(name, value) {
            assert!(!error.to_string().is_empty());
        }
    }
    if let Ok(spec) = options.method(method) {
        let _ = spec.check().map(drop);
        let json = serde_json::json!(spec).to_string();
        let again: Result<offspan::MethodSpec, _> = serde_json::from_str(&json);
        assert!(again.is_ok(), "{json}: {again:?}");
    }
    let words = ["f64:2048", method];
    let _ = words.map(|word| word.parse::<offspan::io::RawLayout>().map(drop));
    let _ = offspan::io::ColumnChoice::parse(text.lines());
}

#[cfg(feature = "onnx")]
fn onnx(input: &[u8]) {
    let folder = Folder::new();
    let path = folder.put("x.onnx", input);
    let _ = Content::of(&path);
    let _ = offspan_onnx::OnnxModel::open(&path);
    if let Ok(model) = <offspan_onnx::proto::ModelProto as prost::Message>::decode(input)
        && let Some(graph) = &model.graph
    {
        let _ = offspan_onnx::find_head(graph).map(drop);
    }
}

#[cfg(feature = "onnx")]
fn image(input: &[u8]) {
    let folder = Folder::new();
    let _ = offspan_onnx::image_size(&folder.put("x.png", input));
}

/// The first two bytes say how much of the rest is JSON; as a compressed body, all of it counts.
#[cfg(feature = "serve")]
fn rest_body(input: &[u8]) {
    use offspan_server::untrusted;
    for encoding in ["gzip", "deflate"] {
        let _ = untrusted::compressed_body(encoding, input);
    }
    let Some((length, body)) = input.split_first_chunk() else { return };
    let json = u16::from_le_bytes(*length);
    let json = (json != u16::MAX).then_some(json.into());
    whole_rows(untrusted::rest_body(body, json, SERVED_WIDTH));
}

#[cfg(feature = "serve")]
fn grpc_message(input: &[u8]) {
    whole_rows(offspan_server::untrusted::grpc_message(input, SERVED_WIDTH));
}

/// Numbers in a row of the model that requests are for.
#[cfg(feature = "serve")]
const SERVED_WIDTH: usize = 4;

#[cfg(feature = "serve")]
fn whole_rows(result: Result<Vec<f32>, String>) {
    match result {
        Ok(numbers) => assert_eq!(numbers.len() % SERVED_WIDTH, 0),
        Err(reason) => assert!(!reason.is_empty()),
    }
}
