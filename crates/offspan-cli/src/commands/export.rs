//! `offspan export`: a detector as an ONNX file.

use std::path::Path;
use std::process::ExitCode;

use offspan::Detector;
use offspan::io::Content;
use offspan_onnx::proto::ModelProto;
use offspan_onnx::{AttachOptions, OnnxModel, attach, export, save};
use serde_json::{Value, json};

use crate::Outcome;
use crate::args::ExportArgs;
use crate::output::Failure;
use crate::output_guard::Guard;

pub(crate) fn run(args: &ExportArgs) -> Outcome {
    let guard = Guard::new(args.force).reads([&args.detector]).reads(&args.attach);
    guard.file(&args.output, Content::Onnx)?;
    args.json.target().check(&guard)?;
    let detector = Detector::load(&args.detector)?;
    let (model, about) = match &args.attach {
        None => (export(&detector)?, json!({})),
        Some(path) => attached(&detector, path, args)?,
    };
    let bytes = save(&model, &args.output)?;
    let document = || {
        let mut document = json!({
            "schema": "offspan.export/1",
            "output": args.output,
            "method": detector.info().method,
            "bytes": bytes,
            "opset": opset(&model),
            "inputs": names(&model, false),
            "outputs": names(&model, true),
        });
        if let (Some(document), Some(about)) = (document.as_object_mut(), about.as_object()) {
            document.extend(about.clone());
        }
        document
    };
    args.json.target().tell(document, || in_words(args, &detector, &model, &about, bytes))?;
    Ok(ExitCode::SUCCESS)
}

/// The guarded model, and where the detector was put.
fn attached(
    detector: &Detector,
    path: &Path,
    args: &ExportArgs,
) -> Result<(ModelProto, Value), Failure> {
    let model = OnnxModel::open(path)?;
    let options = AttachOptions {
        feature_tensor: args.feature_tensor.clone(),
        model_hash: Some(model.hash().to_owned()),
        any_model: args.any_model,
    };
    let guarded = attach(detector, model.proto(), &options)?;
    let about = json!({
        "model": path,
        "model_hash": model.hash(),
        "features": guarded.features,
        "pool": guarded.pool.to_string(),
        "logits": guarded.logits,
        "added": guarded.outputs,
    });
    Ok((guarded.model, about))
}

fn opset(model: &ModelProto) -> Option<i64> {
    let own = model.opset_import.iter().find(|set| matches!(set.domain(), "" | "ai.onnx"));
    own.and_then(|set| set.version)
}

/// Names of the inputs or outputs.
fn names(model: &ModelProto, outputs: bool) -> Vec<String> {
    let graph = model.graph.iter();
    let values = graph.flat_map(|graph| if outputs { &graph.output } else { &graph.input });
    values.map(|value| value.name().to_owned()).collect()
}

fn in_words(
    args: &ExportArgs,
    detector: &Detector,
    model: &ModelProto,
    about: &Value,
    bytes: usize,
) -> String {
    let mut text = format!("{}: {}", args.output.display(), detector.info().method);
    if let (Some(path), Some(features)) = (&args.attach, about["features"].as_str()) {
        text += &format!(" behind {}, on `{features}`", path.display());
        if let Some(logits) = about["logits"].as_str() {
            text += &format!(" and `{logits}`");
        }
    }
    let opset = opset(model).map_or_else(String::new, |opset| format!(", opset {opset}"));
    text += &format!(
        "\n{:.1} MB{opset}\ntakes {}; gives {}\n",
        bytes as f64 / 1e6,
        names(model, false).join(", "),
        names(model, true).join(", ")
    );
    if detector.threshold().is_none() {
        text += "the detector has no threshold: `offspan calibrate` sets one, and is_ood and p_value follow\n";
    }
    text
}
