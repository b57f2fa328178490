//! Every method that can be exported gives its own scores when rten carries it out.

#![allow(clippy::unwrap_used)]

#[path = "../../offspan/tests/common/mod.rs"]
mod common;
#[path = "util/models.rs"]
mod models;

use common::*;
use models::{
    bytes, channels_last_network, model, network, node, numbers, random, value, with_ints,
};
use ndarray::{Array2, Axis, concatenate};
use offspan::graph::{Graph, Input, Size};
use offspan::io::{Content, Dataset, FeatureSource};
use offspan::{Detector, Error, FitOptions, MethodSpec};
use offspan_onnx::proto::ModelProto;
use offspan_onnx::{AttachOptions, ExtractOptions, Extractor, attach, export, save};
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

/// What rten makes of rows.
struct Results {
    score: Vec<f32>,
    is_ood: Vec<bool>,
    p_value: Vec<f32>,
}

fn loaded(model: &ModelProto) -> Result<Model, String> {
    let mut options = ModelOptions::with_all_ops();
    options.prepack_weights(true);
    options.load(model.encode_to_vec()).map_err(|error| error.to_string())
}

fn run_by_rten(model: &Model, inputs: Vec<(NodeId, ValueOrView<'_>)>) -> Result<Results, String> {
    let names = ["score", "is_ood", "p_value"];
    let nodes: Result<Vec<NodeId>, _> = names.iter().map(|name| model.node_id(name)).collect();
    let nodes = nodes.map_err(|error| error.to_string())?;
    let outputs = model.run(inputs, &nodes, None).map_err(|error| error.to_string())?;
    let mut outputs = outputs.into_iter();
    let (score, is_ood, p_value) = (outputs.next(), outputs.next(), outputs.next());
    let reals = |value: Option<rten::Value>| {
        let tensor = value.and_then(|value| value.into_tensor::<f32>());
        tensor.map(|tensor| tensor.into_data()).ok_or("no reals came out")
    };
    // Flags are whole numbers there.
    let flags = is_ood.and_then(|value| value.into_tensor::<i32>()).ok_or("no flags came out")?;
    Ok(Results {
        score: reals(score)?,
        is_ood: flags.into_data().into_iter().map(|flag| flag != 0).collect(),
        p_value: reals(p_value)?,
    })
}

fn results_of(detector: &Detector, data: &Dataset<'_>) -> Result<Results, String> {
    let model = loaded(&export(detector).unwrap())?;
    let inputs = inputs_of(&detector.graph().unwrap(), &model, data);
    run_by_rten(&model, inputs)
}

/// What is wrong with the first row whose score, decision or p-value is not the library's.
fn difference(detector: &Detector, expected: &[f64], got: &Results) -> Option<String> {
    let finite = expected.iter().filter(|x| x.is_finite());
    let largest = finite.fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
    let calibration = detector.calibration().unwrap();
    let threshold = calibration.threshold();
    // Calibration scores that single precision cannot tell from a row's own may count either way.
    let p_values = |share: f64| {
        let moved = |&score: &f32| {
            let score = f64::from(score);
            if score.is_finite() { score + share * score.abs() } else { score }
        };
        calibration.p_values(&got.score.iter().map(moved).collect::<Vec<f64>>())
    };
    let rounding = 2.0 * f64::from(f32::EPSILON);
    let (least, most) = (p_values(-rounding), p_values(rounding));
    (0..expected.len()).find_map(|row| {
        let (score, p) = (f64::from(got.score[row]), f64::from(got.p_value[row]));
        let same = expected[row] == score || (expected[row] - score).abs() <= BAR * largest;
        let clear = (expected[row] - threshold.value).abs() > BAR * largest;
        let decided = !clear || got.is_ood[row] != threshold.accepts(expected[row]);
        let ranked = least[row] - 1e-6 <= p && p <= most[row] + 1e-6;
        (!(same && decided && ranked)).then(|| {
            format!(
                "row {row}: {score} for {}, of {largest}; out: {}; p {p} for {} to {}",
                expected[row], got.is_ood[row], least[row], most[row]
            )
        })
    })
}

#[test]
fn every_method_gives_its_scores_decisions_and_p_values_in_rten() {
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
        match results_of(&detector, &data) {
            Err(reason) => wrong.push(format!("{name}: {reason}")),
            Ok(got) => {
                compared += 1;
                let off = difference(&detector, &expected, &got);
                wrong.extend(off.map(|words| format!("{name}: {words}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 80, "{compared}");
}

/// A model that gives its input on.
fn passing_on(opset: i64, width: i64) -> ModelProto {
    let nodes = vec![node("Identity", &["x"], "same")];
    let mut model =
        model(value("x", &[-1, width]), nodes, vec![], vec![value("same", &[-1, width])]);
    model.opset_import[0].version = Some(opset);
    model
}

#[test]
fn rows_that_are_not_finite_are_out_in_every_version_of_operators() {
    let mut rows = new_rows();
    for (row, value) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].into_iter().enumerate() {
        rows[[row, WIDTH - 1]] = value;
    }
    let mut compared = 0;
    for (name, spec) in every_method() {
        let detector = detector(&spec);
        let least = 1.0 / (detector.calibration().unwrap().scores().len() + 1) as f32;
        for opset in [11, 17] {
            let model = passing_on(opset, WIDTH as i64);
            // Methods that ask for more than features cannot go behind it.
            let Ok(guarded) = attach(&detector, &model, &named("same")) else { continue };
            compared += 1;
            let model = loaded(&guarded.model).unwrap();
            let numbers: Vec<f32> = rows.iter().copied().collect();
            let input = Tensor::from_data(&[rows.nrows(), WIDTH][..], numbers).into();
            let got = run_by_rten(&model, vec![(model.node_id("x").unwrap(), input)]).unwrap();
            for row in 0..3 {
                assert_eq!(got.score[row], f32::NEG_INFINITY, "{name} {opset} {row}");
                assert!(got.is_ood[row], "{name} {opset} {row}");
                assert!((got.p_value[row] - least).abs() < 1e-6, "{name} {opset} {row}");
            }
            assert!(got.score.iter().all(|score| !score.is_nan()), "{name} {opset}");
        }
    }
    assert!(compared > 60, "{compared}");
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
    let message = attach(&detector, &model, &AttachOptions::default()).unwrap_err().to_string();
    assert!(message.contains("--feature-tensor"), "{message}");
    let guarded = attach(&detector, &model, &named("features")).unwrap();
    assert_eq!(guarded.outputs, ["offspan_score", "offspan_is_ood", "offspan_p_value"]);
    model.opset_import[0].version = Some(9);
    let message = attach(&detector, &model, &named("features")).unwrap_err().to_string();
    assert!(message.contains("version 11 to 23, got 9"), "{message}");
}

fn named(tensor: &str) -> AttachOptions {
    AttachOptions { feature_tensor: Some(tensor.to_owned()), ..AttachOptions::default() }
}

/// Fits to what a value of a network gives, as `fit MODEL DATA` does it, and gives the library's scores of new inputs.
struct Fitted {
    folder: tempfile::TempDir,
    detector: Detector,
    hash: String,
    inputs: Vec<f32>,
    scores: Vec<f64>,
}

const IMAGE: usize = 3 * 8 * 8;

fn fitted(network: &ModelProto, wanted: &str) -> Fitted {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, bytes(network)).unwrap();
    let mut options = ExtractOptions::default();
    if !wanted.is_empty() {
        options.feature_tensors = vec![wanted.parse().unwrap()];
    }
    let mut extractor = Extractor::new(&path, options).unwrap();
    let (_, source) = extractor.sources().remove(0);
    let row = extractor.input().1[1..].iter().map(|size| size.unwrap()).collect::<Vec<_>>();
    let mut rows = |count: usize, seed: u64| {
        let inputs = numbers(count * IMAGE, seed);
        let found = extractor.rows(&row, count, inputs.clone()).unwrap();
        (inputs, Array2::from_shape_vec((count, found.width), found.features).unwrap())
    };
    let ((_, train), (_, others), (inputs, new)) = (rows(120, 1), rows(80, 2), rows(20, 3));
    let calibrate = whole_dataset("calibrate", others.view());
    let options = FitOptions { calibrate: Some(&calibrate), ..FitOptions::default() };
    let spec = MethodSpec::named("pca").unwrap();
    let detector = fit_with(&spec, train.view(), &options).unwrap();
    let scores = scores(&detector, new.view());
    let hash = source.hash.clone();
    Fitted { folder, detector: detector.with_source(Some(source)), hash, inputs, scores }
}

/// What the network's convolutions leave to the defaults, of which rten asks for two.
fn spelt_out(mut model: ModelProto) -> ModelProto {
    for node in &mut model.graph.as_mut().unwrap().node {
        if node.op_type() == "Conv" {
            for name in ["strides", "dilations"] {
                *node = with_ints(std::mem::take(node), name, &[1, 1]);
            }
        }
    }
    model
}

impl Fitted {
    fn options(&self) -> AttachOptions {
        AttachOptions { model_hash: Some(self.hash.clone()), ..AttachOptions::default() }
    }

    #[track_caller]
    fn gives_its_scores(&self, network: &ModelProto, options: &AttachOptions) -> ModelProto {
        let guarded = attach(&self.detector, network, options).unwrap();
        let model = loaded(&spelt_out(guarded.model.clone())).unwrap();
        let graph = network.graph.as_ref().unwrap();
        let sizes = &graph.input[0];
        let shape = if sizes.name() == "picture" { [20, 8, 8, 3] } else { [20, 3, 8, 8] };
        let input = Tensor::from_data(&shape[..], self.inputs.clone()).into();
        let node = model.node_id(sizes.name()).unwrap();
        let got = run_by_rten(&model, vec![(node, input)]).unwrap();
        assert_eq!(difference(&self.detector, &self.scores, &got), None);
        guarded.model
    }
}

#[test]
fn a_detector_goes_behind_the_value_it_was_fitted_with() {
    for network in [network(-1), channels_last_network()] {
        for wanted in ["", "maps", "maps:max", "maps:none", "r1:avg"] {
            for opset in [11, 17, 18] {
                let mut network = network.clone();
                network.opset_import[0].version = Some(opset);
                let fitted = fitted(&network, wanted);
                // Channels of the maps, which convolutions have first whatever the images have.
                let width = match wanted {
                    "maps:none" => 7 * 64,
                    "r1:avg" => 5,
                    _ => 7,
                };
                assert_eq!(fitted.detector.info().training.width, width, "{wanted}");
                let guarded = fitted.gives_its_scores(&network, &fitted.options());
                let said = |name: &str| {
                    let entries = &guarded.metadata_props;
                    entries.iter().find(|entry| entry.key() == name).unwrap().value().to_owned()
                };
                assert_eq!(said("offspan.model_hash"), fitted.hash);
                let tensor =
                    if wanted.is_empty() { "flat" } else { &wanted[..wanted.len().min(4)] };
                assert!(said("offspan.feature_tensor").starts_with(&tensor[..2]), "{wanted}");
                assert!(["avg", "max", "none"].contains(&&*said("offspan.pool")), "{wanted}");
            }
        }
    }
}

#[test]
fn another_model_is_refused_unless_it_is_asked_for() {
    let network = network(-1);
    let fitted = fitted(&network, "");
    let mut other = network.clone();
    other.graph.as_mut().unwrap().initializer[2] = random("w2", &[7, 5, 3, 3], 99);
    let mut options = fitted.options();
    options.model_hash = Some("xxh3-128:0".to_owned());
    let message = attach(&fitted.detector, &other, &options).unwrap_err().to_string();
    assert!(message.contains(&fitted.hash) && message.contains("xxh3-128:0"), "{message}");
    assert!(message.contains("--any-model"), "{message}");
    options.any_model = true;
    let guarded = attach(&fitted.detector, &other, &options).unwrap();
    let hash = guarded.model.metadata_props.iter().find(|x| x.key() == "offspan.model_hash");
    assert_eq!(hash.unwrap().value(), "xxh3-128:0");
    let unknown = AttachOptions::default();
    assert!(attach(&fitted.detector, &network, &unknown).is_err());
    assert!(fitted.folder.path().exists());
}

#[test]
fn maps_are_pooled_by_name_and_refused_where_they_do_not_fit() {
    let network = network(-1);
    let fitted = fitted(&network, "maps:max");
    let with = |tensor: &str| AttachOptions {
        feature_tensor: Some(tensor.to_owned()),
        ..fitted.options()
    };
    // The pool of the fit goes with its value.
    for text in ["maps", "maps:max"] {
        fitted.gives_its_scores(&network, &with(text));
    }
    let refused = |text: &str| attach(&fitted.detector, &network, &with(text)).unwrap_err();
    for (text, words) in [
        ("maps:cls", "the model's `maps` is [?, 7, 8, 8], pooled by cls"),
        ("maps:none", "pooled by none"),
        ("r1:avg", "features [rows, 7], and the model's `r1` is [?, 5, 8, 8]"),
        ("nowhere:avg", "no value `nowhere`"),
    ] {
        let message = refused(text).to_string();
        assert!(message.contains(words), "{text}: {message}");
    }
}
