//! Every method's graph gives the method's own scores, or the method says why it has none.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::*;
use ndarray::{Array2, ArrayD, ArrayView2, Axis, IxDyn, concatenate};
use offspan::graph::{Graph, Input, Size};
use offspan::io::{Dataset, FeatureSource};
use offspan::{
    Calibration, Detector, Error, FitOptions, Kernel, KpcaParams, MethodSpec, Precision, Residual,
};

/// Methods without a graph, each with a word of its reason.
const NOT_EXPORTABLE: [(&str, &str); 8] = [
    ("tnn", "eigenvectors"),
    ("rank-feat", "eigenvectors"),
    ("rank-feat+rank-weight", "eigenvectors"),
    ("ora", "arctangents"),
    ("weiper-kld", "bins"),
    ("feature-norm", "size of the maps"),
    ("davis-std", "size of the maps"),
    ("davis-max", "size of the maps"),
];

/// Rows like those of the fit, rows far from them, and one without direction.
fn new_rows() -> Array2<f32> {
    let (near, far) = (features(40, WIDTH, 5), features(20, WIDTH, 99) * 1.7);
    let zero = Array2::zeros((1, WIDTH));
    concatenate![Axis(0), near, far, zero]
}

fn detector(spec: &MethodSpec) -> Detector {
    let rows = features(180, WIDTH, 5);
    let others = features(80, WIDTH, 6);
    let calibrate = whole_dataset("calibrate", others.view());
    let options = FitOptions { calibrate: Some(&calibrate), ..FitOptions::default() };
    fit_with(spec, rows.view(), &options).unwrap()
}

/// What the graph asks for, from what the rows carry.
fn inputs_of(graph: &Graph<'_>, data: &Dataset<'_>) -> BTreeMap<String, ArrayD<f64>> {
    let read = |source: &dyn FeatureSource| {
        let mut rows = Array2::zeros((source.rows(), source.width()));
        source.read_f64(0, rows.view_mut()).unwrap();
        rows
    };
    let given = |input: &&Input| input.default.is_none();
    graph
        .inputs
        .iter()
        .filter(given)
        .map(|input| {
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
            let array = ArrayD::from_shape_vec(IxDyn(&shape), rows.into_iter().collect()).unwrap();
            (name.to_owned(), array)
        })
        .collect()
}

/// The largest difference as a share of the largest finite score; infinite scores must agree.
fn gap(expected: &[f64], got: &ArrayD<f64>) -> f64 {
    assert_eq!(got.shape(), [expected.len()]);
    let finite = |x: &&f64| x.is_finite();
    let largest = expected.iter().filter(finite).fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
    let each = expected.iter().zip(got).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
    // What is no number is the largest gap of all.
    each.fold(0.0, |m: f64, gap| if gap > m || gap.is_nan() { gap } else { m }) / largest
}

struct Results {
    score: f64,
    decisions_that_differ: usize,
    p_value: f64,
}

fn compare(detector: &Detector, rows: ArrayView2<'_, f32>, precision: Precision) -> Results {
    let data = whole_dataset("new", rows);
    let graph = detector.graph().unwrap();
    let outputs = graph.evaluate(&inputs_of(&graph, &data), precision).unwrap();
    let expected = scores(detector, rows);
    let calibration: &Calibration = detector.calibration().unwrap();
    let threshold = calibration.threshold();
    let largest = expected.iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()));
    let clear = |score: f64| (score - threshold.value).abs() > 1e-4 * largest;
    let decisions = expected.iter().zip(&outputs["is_ood"]);
    let differ = |(&score, &is_ood): (&f64, &f64)| {
        clear(score) && threshold.accepts(score) == (is_ood == 1.0)
    };
    // P-values count scores: they are compared for the scores that the graph has. Calibration scores that single
    // precision cannot tell from a score may count either way.
    let rounding = match precision {
        Precision::F32 => f64::from(f32::EPSILON),
        Precision::F64 => 0.0,
    };
    let p_values = |share: f64| {
        let moved =
            |&score: &f64| if score.is_finite() { score + share * score.abs() } else { score };
        calibration.p_values(&outputs["score"].iter().map(moved).collect::<Vec<f64>>())
    };
    let (least, most) = (p_values(-rounding), p_values(rounding));
    let p_values = outputs["p_value"].iter().zip(least.iter().zip(&most));
    let p_values: Vec<f64> = p_values.map(|(p, (least, most))| p.clamp(*least, *most)).collect();
    Results {
        score: gap(&expected, &outputs["score"]),
        decisions_that_differ: decisions.filter(|&pair| differ(pair)).count(),
        p_value: gap(&p_values, &outputs["p_value"]),
    }
}

#[test]
fn every_method_has_a_graph_that_gives_its_scores_or_a_reason() {
    let rows = new_rows();
    let mut wrong = Vec::new();
    for (name, spec) in every_method() {
        let detector = detector(&spec);
        let reason = NOT_EXPORTABLE.iter().find(|(method, _)| *method == spec.method());
        if let Some((method, word)) = reason {
            let error = detector.graph().unwrap_err();
            assert!(matches!(error, Error::NotExportable { .. }), "{error}");
            let text = error.to_string();
            let begin = format!("{method} cannot be exported: ");
            assert!(text.starts_with(&begin) && text.contains(word), "{text}");
            continue;
        }
        let own_bar = if name.ends_with(" f64") { 1e-6 } else { 1e-4 };
        for (precision, bar) in [(Precision::F64, own_bar), (Precision::F32, 1e-4)] {
            let got = compare(&detector, rows.view(), precision);
            let fine = got.score <= bar && got.decisions_that_differ == 0 && got.p_value <= 1e-6;
            if !fine {
                wrong.push(format!(
                    "{name} in {precision}: scores {:.1e}, decisions {}, p-values {:.1e}",
                    got.score, got.decisions_that_differ, got.p_value
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn methods_of_logits_ask_for_them_where_no_last_layer_is_known() {
    let (rows, others) = (features(120, WIDTH, 5), features(80, WIDTH, 6));
    let calibrate = whole_dataset("calibrate", others.view());
    let options = FitOptions { calibrate: Some(&calibrate), ..FitOptions::default() };
    let names = [
        "msp",
        "max-logit",
        "energy",
        "odin",
        "gradnorm",
        "gradorth",
        "reg-pca",
        "she",
        "entropy",
        "renyi",
        "joint-energy",
        "klm",
        "neco",
        "caref",
        "temp-scale",
        "relation",
        "dknn",
        "trust",
        "openmax",
    ];
    for name in names {
        let data = whole_dataset("train", rows.view());
        let spec = MethodSpec::named(name).unwrap();
        let detector = Detector::fit(&spec, &data, None, &options).unwrap();
        let graph = detector.graph().unwrap();
        assert!(graph.inputs.iter().any(|input| input.value.name == "logits"), "{name}");
        let got = compare(&detector, new_rows().view(), Precision::F32);
        assert!(got.score < 1e-4, "{name}: {:e}", got.score);
    }
    for name in ["gen", "logit-gap"] {
        let data = whole_dataset("train", rows.view());
        let spec = MethodSpec::named(name).unwrap();
        let detector = Detector::fit(&spec, &data, None, &FitOptions::default()).unwrap();
        let message = detector.graph().unwrap_err().to_string();
        assert!(message.contains("the number of classes is not known"), "{message}");
    }
}

#[test]
fn a_threshold_can_be_given_and_is_that_of_the_detector_otherwise() {
    let detector = detector(&knn(3));
    let rows = new_rows();
    let graph = detector.graph().unwrap();
    let mut inputs = inputs_of(&graph, &whole_dataset("new", rows.view()));
    let flagged = |inputs: &BTreeMap<String, ArrayD<f64>>| {
        graph.evaluate(inputs, Precision::F64).unwrap()["is_ood"].sum()
    };
    let usual = flagged(&inputs);
    assert!(0.0 < usual && usual < 61.0, "{usual}");
    inputs.insert("threshold".to_owned(), ArrayD::from_elem(IxDyn(&[]), f64::INFINITY));
    assert_eq!(flagged(&inputs), 61.0);
    inputs.remove("features");
    assert!(graph.evaluate(&inputs, Precision::F64).is_err());
}

#[test]
fn rows_that_are_not_finite_are_out_and_leave_the_others_alone() {
    let rows = new_rows();
    let mut wrong = Vec::new();
    for (name, spec) in every_method() {
        let detector = detector(&spec);
        let Ok(graph) = detector.graph() else { continue };
        let sound = inputs_of(&graph, &whole_dataset("new", rows.view()));
        let expected = graph.evaluate(&sound, Precision::F32).unwrap();
        let least = 1.0 / (detector.calibration().unwrap().scores().len() + 1) as f64;
        for asked in sound.keys() {
            let mut inputs = sound.clone();
            let damaged = inputs.get_mut(asked).unwrap();
            for (row, value) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().enumerate()
            {
                *damaged.index_axis_mut(Axis(0), row).iter_mut().last().unwrap() = value;
            }
            let got = graph.evaluate(&inputs, Precision::F32).unwrap();
            for row in 0..rows.nrows() {
                let [score, is_ood, p] = ["score", "is_ood", "p_value"].map(|x| got[x][[row]]);
                let fine = if row < 3 {
                    score == f64::NEG_INFINITY && is_ood == 1.0 && (p - least).abs() < 1e-6
                } else {
                    score == expected["score"][[row]] && is_ood == expected["is_ood"][[row]]
                };
                if !fine {
                    wrong.push(format!("{name}, {asked}, row {row}: {score} {is_ood} {p}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_description_names_every_value_once_and_before_it_is_used() {
    for (name, spec) in every_method() {
        let detector = detector(&spec);
        let Ok(graph) = detector.graph() else { continue };
        let mut known: Vec<&str> = graph.inputs.iter().map(|x| x.value.name.as_str()).collect();
        known.extend(graph.constants.iter().map(|constant| constant.name.as_str()));
        for node in &graph.nodes {
            for input in &node.inputs {
                assert!(known.contains(&input.as_str()), "{name}: {input}");
            }
            known.extend(node.outputs.iter().map(|output| output.name.as_str()));
        }
        let mut sorted = known.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), known.len(), "{name}");
        let text = graph.description();
        assert_eq!(text["nodes"].as_array().unwrap().len(), graph.nodes.len());
        assert_eq!(text["metadata"]["method"], *detector.info().method);
    }
}

/// With values of the kernel all close to 1, a plain exp(x) − 1 or a difference of squares would leave no digits.
#[test]
fn kernel_values_close_to_one_keep_their_digits_in_single_precision() {
    let kernel = Kernel::Gaussian { gamma: 1e-3 };
    for residual in [Residual::Plain, Residual::Complete] {
        let params = KpcaParams { precision: Precision::F64, ..nystrom(kernel, 20, residual) };
        let detector = detector(&MethodSpec::Kpca(params));
        let got = compare(&detector, new_rows().view(), Precision::F32);
        assert!(got.score < 1e-4, "{residual:?}: {:e}", got.score);
    }
}
