//! Every method that can be exported gives its own scores when rten carries it out.

#![allow(clippy::unwrap_used)]

#[path = "../../offspan/tests/common/mod.rs"]
mod common;

use common::*;
use ndarray::{Array2, Axis, concatenate};
use offspan::graph::{Graph, Input, Size};
use offspan::io::{Content, Dataset, FeatureSource};
use offspan::{Detector, Error, FitOptions, MethodSpec};
use offspan_onnx::proto::ModelProto;
use offspan_onnx::{attach, export, save};
use prost::Message;
use rten::{Model, ModelOptions, NodeId, ValueOrView};
use rten_tensor::Tensor;

/// Scores may be this share of the largest score apart.
const BAR: f64 = 1e-4;

fn detector(spec: &MethodSpec) -> Detector {
    let (rows, others) = (features(180, WIDTH, 5), features(80, WIDTH, 6));
    let calibrate = whole_dataset("calibrate", others.view());
    let options = FitOptions { calibrate: Some(&calibrate), ..FitOptions::default() };
    fit_with(spec, rows.view(), &options).unwrap()
}

/// Rows like those of the fit, rows far from them, and one without direction.
fn new_rows() -> Array2<f32> {
    let zero = Array2::zeros((1, WIDTH));
    concatenate![Axis(0), features(40, WIDTH, 7), features(20, WIDTH, 99) * 1.7, zero]
}

/// What the graph asks for, from what the rows carry.
fn inputs_of(
    graph: &Graph<'_>,
    model: &Model,
    data: &Dataset<'_>,
) -> Vec<(NodeId, ValueOrView<'static>)> {
    let read = |source: &dyn FeatureSource| {
        let mut rows = Array2::zeros((source.rows(), source.width()));
        source.read_f32(0, rows.view_mut()).unwrap();
        rows
    };
    let asked = graph.inputs.iter().filter(|input| input.default.is_none());
    let input = |input: &Input| {
        let name = input.value.name.as_str();
        let rows = match name {
            "features" => read(data.features()),
            "logits" => read(data.logits().unwrap()),
            other => read(&*data.extras()[other].rows),
        };
        let (count, width) = rows.dim();
        let size = |size: &Size| match size {
            Size::Fixed(size) => *size,
            Size::Rows => count,
            Size::Named(_) => width,
        };
        let shape: Vec<usize> = input.value.shape.iter().map(size).collect();
        let numbers: Vec<f32> = rows.into_iter().collect();
        (model.node_id(name).unwrap(), Tensor::from_data(&shape[..], numbers).into())
    };
    asked.map(input).collect()
}

fn scores_by_rten(detector: &Detector, data: &Dataset<'_>) -> Result<Vec<f32>, String> {
    let bytes = export(detector).unwrap().encode_to_vec();
    let mut options = ModelOptions::with_all_ops();
    options.prepack_weights(true);
    let model = options.load(bytes).map_err(|error| error.to_string())?;
    let graph = detector.graph().unwrap();
    let score = model.node_id("score").map_err(|error| error.to_string())?;
    let inputs = inputs_of(&graph, &model, data);
    let outputs = model.run(inputs, &[score], None).map_err(|error| error.to_string())?;
    let scores = outputs.into_iter().next().and_then(|value| value.into_tensor::<f32>());
    Ok(scores.ok_or("no reals came out")?.into_data())
}

#[test]
fn every_method_gives_its_scores_in_rten() {
    let rows = new_rows();
    let data = whole_dataset("new", rows.view());
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (name, spec) in every_method() {
        let detector = detector(&spec);
        if detector.graph().is_err() {
            assert!(matches!(export(&detector), Err(Error::NotExportable { .. })));
            continue;
        }
        let expected = scores(&detector, rows.view());
        let finite = expected.iter().filter(|x| x.is_finite());
        let largest = finite.fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
        match scores_by_rten(&detector, &data) {
            Err(reason) => wrong.push(format!("{name}: {reason}")),
            Ok(got) => {
                compared += 1;
                let off = |(a, b): (&f64, &f32)| {
                    let b = f64::from(*b);
                    let same = *a == b || (a - b).abs() <= BAR * largest;
                    (!same).then(|| format!("{name}: {b} for {a}, of {largest}"))
                };
                wrong.extend(expected.iter().zip(&got).find_map(off));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 80, "{compared}");
}

#[test]
fn a_file_is_the_model_and_appears_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.onnx");
    let model = export(&detector(&knn(3))).unwrap();
    let bytes = save(&model, &path).unwrap();
    let written = std::fs::read(&path).unwrap();
    assert_eq!(written.len(), bytes);
    assert_eq!(ModelProto::decode(&written[..]).unwrap(), model);
    assert_eq!(names_in(folder.path()), ["net.onnx"]);
    assert_eq!(Content::of(&path).unwrap(), Content::Onnx);
}

#[test]
fn a_model_without_a_linear_layer_or_with_unknown_operators_is_refused_with_words() {
    let detector = detector(&knn(3));
    // A detector is itself a model, whose last nodes are no linear layer.
    let mut model = export(&detector).unwrap();
    let message = attach(&detector, &model, None).unwrap_err().to_string();
    assert!(message.contains("--feature-tensor"), "{message}");
    let guarded = attach(&detector, &model, Some("features")).unwrap();
    assert_eq!(guarded.outputs, ["offspan_score", "offspan_is_ood", "offspan_p_value"]);
    model.opset_import[0].version = Some(9);
    let message = attach(&detector, &model, Some("features")).unwrap_err().to_string();
    assert!(message.contains("version 11 to 23, got 9"), "{message}");
}
