//! Fits that cannot be.

use std::panic::catch_unwind;

use ndarray::{Array1, Array2};
use offspan::io::{Dataset, Labels, OwnedRows};
use offspan::map::{Draw, EigenFloor};
use offspan::{
    Clip, Components, Detector, EnsembleParams, ExactForm, FitOptions, Fusion, Kernel, KpcaParams,
    MapParams, MethodSpec, Precision, Promise, ReactParams, Rectification, RectifiedParams,
    Residual, Sampling, WeightType,
};

use crate::common::{
    WIDTH, core_methods, energy, every_method, exact, features, fit, fit_with, fourier,
    fourier_parts, head, knn, logits, nystrom, pca, scores, whole_dataset, whole_fit,
};
use crate::{Case, GAUSSIAN, Told, check, fit_spec, matches, told};

/// Fits to forty rows in memory that carry neither logits nor a head.
fn fit_params(params: KpcaParams) -> Told {
    fit_rows(params, features(40, WIDTH, 1))
}

fn fit_rows(params: KpcaParams, rows: Array2<f32>) -> Told {
    fit_spec(&MethodSpec::Kpca(params), &Dataset::new("train", rows.view()), None)
}

fn with_options(options: &FitOptions<'_>) -> Told {
    told(fit_with(&MethodSpec::Kpca(pca()), features(40, WIDTH, 1).view(), options))
}

/// Nyström with these rows as landmarks.
fn given(rows: &[u64]) -> KpcaParams {
    let sampling = Sampling::Given(rows.to_vec());
    let map =
        MapParams::Nystrom { landmarks: rows.len().max(1), sampling, floor: EigenFloor::default() };
    KpcaParams { map, ..nystrom(GAUSSIAN, 1, Residual::Complete) }
}

fn low_energy() -> KpcaParams {
    let sampling = Sampling::LowEnergy;
    let map = MapParams::Nystrom { landmarks: 8, sampling, floor: EigenFloor::default() };
    KpcaParams { map, ..nystrom(GAUSSIAN, 1, Residual::Complete) }
}

#[test]
fn data_and_inputs() {
    let cases: &[Case] = &[
        (
            "a zero row",
            |_| {
                let mut rows = features(40, WIDTH, 1);
                rows.row_mut(33).fill(0.0);
                fit_rows(pca(), rows)
            },
            "train: row 33 is all zeros; it has no direction for the cosine map (remove the row, \
             or fit with cosine=False)",
        ),
        (
            "a zero row among the landmarks",
            |_| {
                let mut rows = features(40, WIDTH, 1);
                rows.row_mut(7).fill(-0.0);
                fit_rows(given(&[3, 7]), rows)
            },
            "train: row 7 is all zeros; it has no direction for the cosine map (remove the row, or \
             fit with cosine=False)",
        ),
        (
            "a row that clipping makes zero",
            |_| {
                let params = KpcaParams { react: Some(Clip::Value(0.0)), ..pca() };
                fit_params(params)
            },
            "train: row 0 is all zeros after clipping; it has no direction for the cosine map \
             (remove the row, or fit with cosine=False)",
        ),
        (
            "a zero row in the bank of neighbours",
            |_| {
                let spec = knn(2);
                let rows = Array2::<f32>::zeros((3, 2));
                fit_spec(&spec, &Dataset::new("train", rows.view()), None)
            },
            "train: row 0 is all zeros; it has no direction…",
        ),
        (
            "one row",
            |_| fit_rows(pca(), features(1, WIDTH, 1)),
            "train: expected at least 2 rows, got 1",
        ),
        (
            "no rows",
            |_| fit_rows(pca(), features(0, WIDTH, 1)),
            "train: expected at least 1 rows, got 0",
        ),
        (
            "no rows for neighbours",
            |_| {
                let rows = features(0, WIDTH, 1);
                let spec = knn(1);
                fit_spec(&spec, &Dataset::new("train", rows.view()), None)
            },
            "train: expected at least …rows, got 0",
        ),
        (
            "more landmarks than rows",
            |_| fit_params(nystrom(GAUSSIAN, 41, Residual::Plain)),
            "landmarks: expected from 1 to 40, the training rows used for the fit, got 41",
        ),
        (
            "a landmark that is no row",
            |_| fit_params(given(&[1, 40])),
            "landmark_rows: expected row numbers from 0 to 39, got 40",
        ),
        (
            "a landmark far beyond",
            |_| fit_params(given(&[u64::MAX])),
            "landmark_rows: expected row numbers from 0 to 39, got 18446744073709551615",
        ),
        (
            "a landmark that is held out",
            |_| {
                let rows = features(40, WIDTH, 1);
                let promise = Promise { keep: 0.5, confidence: 0.5 };
                let options = FitOptions { hold_out: Some(0.9), promise, ..FitOptions::default() };
                let all: Vec<u64> = (0..4).collect();
                told(fit_with(&MethodSpec::Kpca(given(&all)), rows.view(), &options))
            },
            "landmark_rows: expected rows that are not held out for the threshold (use hold_out=0 \
             or calibrate=), got …",
        ),
        (
            "an empty list of landmarks",
            |_| fit_params(given(&[])),
            "the landmarks: expected at least 1 rows, got 0",
        ),
        (
            "more components than dimensions",
            |_| fit_params(KpcaParams { components: Components::Fixed(WIDTH + 1), ..pca() }),
            "components: expected at most 11, the dimensions of the feature map, got 12",
        ),
        (
            "more components than the kernel matrix has",
            |_| {
                let params = exact(GAUSSIAN, ExactForm::Centred);
                fit_params(KpcaParams { components: Components::Fixed(40), ..params })
            },
            "components: expected at most 39, the rank of the kernel matrix, got 40 (40 \
             components)",
        ),
        (
            "all components, so that nothing is left",
            |_| fit_params(KpcaParams { components: Components::Fixed(WIDTH), ..pca() }),
            "11 components keeps all 11 directions, so the plain residual of every row would be 0; \
             ask for less, or use residual=\"complete\"",
        ),
        (
            "all variance, so that nothing is left",
            |_| fit_params(KpcaParams { components: Components::ExplainedVariance(1.0), ..pca() }),
            "explained variance 1 keeps all 11 directions, so the plain residual of every row \
             would be 0; ask for less, or use residual=\"complete\"",
        ),
        (
            "low-energy landmarks without logits",
            |_| fit_params(low_energy()),
            "low-energy sampling of landmarks on train needs logits: store them as `logits` beside \
             `features`, or give them with logits=, or give the last layer's `weight` and `bias` \
             with head=; to do without, use sampling=\"uniform\" and no fuse",
        ),
        (
            "fusion without logits",
            |_| fit_params(KpcaParams { fusion: Some(Fusion::EnergyRatio), ..pca() }),
            "fusion with the energy score on train needs logits: store them…head=…",
        ),
        (
            "fusion of clipped features without the last layer",
            |_| {
                let rows = features(40, WIDTH, 1);
                let logits = logits(rows.view());
                let data = Dataset::new("train", rows.view()).with_logits(logits.view()).unwrap();
                let (fusion, react) = (Some(Fusion::EnergyProduct), Some(Clip::Value(1.0)));
                fit_spec(&MethodSpec::Kpca(KpcaParams { fusion, react, ..pca() }), &data, None)
            },
            "fusion with the energy score on train needs the network's last layer: clipped \
             activations change the logits, so the stored ones do not serve; give `weight` and \
             `bias` in head.safetensors of the pack or with head=",
        ),
        (
            "logits for other rows",
            |_| {
                let (rows, logits) = (features(40, WIDTH, 1), Array2::<f32>::zeros((39, 4)));
                told(Dataset::new("train", rows.view()).with_logits(logits.view()))
            },
            "…: expected shape 40 rows, as many as the features of train, got 39 rows",
        ),
        (
            "a head for other features",
            |_| {
                let rows = features(40, WIDTH, 1);
                let data = Dataset::new("train", rows.view());
                fit_spec(&MethodSpec::Kpca(pca()), &data, Some(&head(WIDTH + 1)))
            },
            "the head's weight: expected shape [classes, 11], the width of the features, got \
             [4, 12]",
        ),
        (
            "frequencies for other features",
            |_| {
                let parts = Some(fourier_parts(8, WIDTH - 1));
                let map = MapParams::Fourier { features: 8, draw: Draw::Iid, parts };
                fit_params(KpcaParams { map, ..fourier(GAUSSIAN, 8, Draw::Iid) })
            },
            "the given frequencies: expected shape 11 columns, the width of the features, got 10 \
             columns",
        ),
        (
            "fewer phases than frequencies",
            |_| {
                let mut parts = fourier_parts(8, WIDTH);
                parts.phases = Array1::zeros(7);
                let map = MapParams::Fourier { features: 8, draw: Draw::Iid, parts: Some(parts) };
                fit_params(KpcaParams { map, ..fourier(GAUSSIAN, 8, Draw::Iid) })
            },
            "the phases: expected shape [8], one per frequency, and at least one, got [7]",
        ),
        (
            "frequencies that are not numbers",
            |_| {
                let mut parts = fourier_parts(8, WIDTH);
                parts.frequencies[[2, 3]] = f64::NAN;
                let map = MapParams::Fourier { features: 8, draw: Draw::Iid, parts: Some(parts) };
                fit_params(KpcaParams { map, ..fourier(GAUSSIAN, 8, Draw::Iid) })
            },
            "the given frequencies: row 2, column 3 is NaN; every value must be finite",
        ),
        (
            "more neighbours than rows",
            |_| told(fit(&knn(41), features(40, WIDTH, 1).view())),
            "neighbours: expected from 1 to 40, the training rows used for the fit, got 41",
        ),
        (
            "no neighbours",
            |_| told(fit(&knn(0), features(40, WIDTH, 1).view())),
            "neighbours: expected from 1 to 40, the training rows used for the fit, got 0",
        ),
        (
            "temperature 0",
            |_| told(fit(&energy(0.0), features(40, 3, 1).view())),
            "temperature: expected a number above 0, got 0",
        ),
        (
            "temperature NaN",
            |_| told(fit(&energy(f64::NAN), features(40, 3, 1).view())),
            "temperature: expected a number above 0, got NaN",
        ),
        (
            "energy without logits",
            |_| {
                let rows = features(40, WIDTH, 1);
                let data = Dataset::new("train", rows.view());
                fit_spec(&energy(1.0), &data, None)
            },
            "energy on train needs logits: …logits=…",
        ),
        (
            "everything held out",
            |_| with_options(&FitOptions { hold_out: Some(1.0), ..FitOptions::default() }),
            "hold_out: expected a share in [0, 1), got 1",
        ),
        (
            "less than nothing held out",
            |_| with_options(&FitOptions { hold_out: Some(-0.1), ..FitOptions::default() }),
            "hold_out: expected a share in [0, 1), got -0.1",
        ),
        (
            "hold-out NaN",
            |_| with_options(&FitOptions { hold_out: Some(f64::NAN), ..FitOptions::default() }),
            "hold_out: expected a share in [0, 1), got NaN",
        ),
        (
            "a threshold that keeps nothing",
            |_| {
                with_options(&FitOptions {
                    promise: Promise { keep: 0.0, ..Promise::default() },
                    ..FitOptions::default()
                })
            },
            "keep: expected a number between 0 and 1, both excluded, got 0",
        ),
        (
            "too few rows to set the threshold with",
            |_| {
                let rows = features(19, WIDTH, 1);
                let calibrate = Dataset::new("calibration", rows.view());
                let calibrate = Some(&calibrate);
                with_options(&FitOptions { calibrate, ..FitOptions::default() })
            },
            "calibration, for a threshold that keeps 0.95 of the rows with a confidence of 0.95: expected at \
             least 59 rows, got 19",
        ),
        (
            "rows of another width to set the threshold with",
            |_| {
                let rows = features(40, WIDTH + 1, 1);
                let calibrate = Dataset::new("calibration", rows.view());
                let calibrate = Some(&calibrate);
                with_options(&FitOptions { calibrate, ..FitOptions::default() })
            },
            "…: expected shape 11 columns, as in the detector's training rows, got 12 columns",
        ),
        (
            "an ensemble of two Nyström members",
            |_| {
                let member = nystrom(GAUSSIAN, 8, Residual::Complete);
                let params = EnsembleParams { rff: member.clone(), nystrom: member };
                told(fit(&MethodSpec::KpcaEnsemble(params), features(40, WIDTH, 1).view()))
            },
            "kpca-ensemble: expected a kpca-rff and a kpca-nys member, got kpca-nys and kpca-nys",
        ),
        (
            "a kernel matrix of more rows than memory is for",
            |_| fit_rows(exact(GAUSSIAN, ExactForm::Centred), Array2::ones((20_001, 1))),
            "kpca-exact: expected at most 20000 rows, because it takes an N×N matrix (use \
             kpca-nys, or fewer rows), got 20001 rows",
        ),
        (
            "landmark kernel values beyond f64",
            |_| {
                let kernel = Kernel::Polynomial { degree: 16, coef0: 1.0 };
                let params = nystrom(kernel, 8, Residual::Complete);
                let rows = features(40, WIDTH, 1) * 1e20;
                fit_rows(KpcaParams { cosine: false, ..params }, rows)
            },
            "…too large…",
        ),
        (
            "kernel values beyond f64",
            |_| {
                let params =
                    exact(Kernel::Polynomial { degree: 16, coef0: 1.0 }, ExactForm::Centred);
                let rows = features(40, WIDTH, 1) * 1e20;
                fit_rows(KpcaParams { cosine: false, ..params }, rows)
            },
            "…too large…",
        ),
        (
            "kernel values beyond f32",
            |_| {
                let kernel = Kernel::Polynomial { degree: 4, coef0: 1.0 };
                let params = nystrom(kernel, 8, Residual::Complete);
                let rows = features(40, WIDTH, 1) * 1e10;
                fit_rows(KpcaParams { cosine: false, ..params }, rows)
            },
            "…too large…",
        ),
    ];
    check(cases);
}

#[test]
fn rows_that_are_all_the_same_span_nothing_whatever_the_method() {
    let rows = Array2::from_shape_fn((60, WIDTH), |(_, j)| 0.3 + j as f32);
    for (name, spec) in core_methods() {
        // Proposition 2 does not centre, and neighbours and energies need no variance.
        if name.contains("Proposition2") || name == "knn" || name == "energy" {
            continue;
        }
        let told = told(fit(&spec, rows.view())).unwrap_or_else(|| panic!("{name}: no error"));
        let expected =
            "train: all rows are the same after preprocessing; a subspace needs variance";
        assert_eq!(told, expected, "{name}");
    }
}

#[test]
fn features_without_columns_are_an_error_for_every_method() {
    let rows = Array2::<f32>::zeros((60, 0));
    let mut wrong = Vec::new();
    for (name, spec) in every_method() {
        // It does not look at the features where logits are stored.
        if name == "energy" {
            continue;
        }
        for cosine in [true, false] {
            let spec = match spec.clone() {
                MethodSpec::Kpca(params) => MethodSpec::Kpca(KpcaParams { cosine, ..params }),
                other => other,
            };
            let fitted = catch_unwind(|| told(fit_without_columns(&spec, &rows)));
            match fitted {
                Ok(Some(told)) if matches(&told, "train: expected shape …column…") => {}
                Ok(got) => wrong.push(format!("{name}, cosine {cosine}: {got:?}")),
                Err(_) => wrong.push(format!("{name}, cosine {cosine}: a panic")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn fit_without_columns(spec: &MethodSpec, rows: &Array2<f32>) -> offspan::Result<Detector> {
    let logits = Array2::<f32>::zeros((rows.nrows(), 4));
    let data = Dataset::new("train", rows.view()).with_logits(logits.view())?;
    Detector::fit(spec, &data, Some(&head(0)), &whole_fit())
}

#[test]
fn a_row_without_direction_scores_minus_infinity_and_is_no_error() {
    let train = features(60, WIDTH, 1);
    let mut rows = features(5, WIDTH, 2);
    rows.row_mut(3).fill(0.0);
    for (name, spec) in core_methods() {
        if name == "energy" || name.contains("without cosine") {
            continue;
        }
        let scores = scores(&fit(&spec, train.view()).unwrap(), rows.view());
        assert_eq!(scores[3], f64::NEG_INFINITY, "{name}");
        assert!((0..5).all(|i| i == 3 || scores[i].is_finite()), "{name}: {scores:?}");
    }
}

#[test]
fn extra_tensors_of_the_wrong_shape_are_refused_and_missing_ones_are_named() {
    let rows = features(40, WIDTH, 1);
    let told = |name: &str, tensor: &str, shape: Option<&[usize]>| {
        let mut data = whole_dataset("train", rows.view()).without(tensor);
        if let Some(shape) = shape {
            let numbers = Array2::<f32>::ones((40, shape.iter().product()));
            data = data.with_extra(tensor, OwnedRows(numbers), shape).unwrap();
        }
        let spec = MethodSpec::named(name).unwrap();
        told(Detector::fit(&spec, &data, Some(&head(WIDTH)), &whole_fit())).unwrap()
    };
    for (name, tensor, shape, expected) in [
        ("csi", "csi_features", None, "csi on train needs csi_features: "),
        ("csi", "csi_features", Some(&[24][..]), "expected shape [rows, views, width]"),
        ("csi", "csi_shift_logits", Some(&[5]), "expected shape [rows, 4], one per view"),
        ("rank-feat", "maps", None, "rank-feat on train needs maps: "),
        ("rank-feat", "maps", Some(&[5, 2, 2]), "expected shape [rows, 11, height, width]"),
        ("rank-feat+rank-weight", "block_input", None, "needs block_input: "),
        ("rank-feat+rank-weight", "block_shortcut", Some(&[11, 1, 1]), "maps of [3, 2]"),
        ("dml-plus", "focal_cosines", None, "dml-plus on train needs focal_cosines: "),
        ("dml-plus", "centre_features", None, "dml-plus on train needs centre_features: "),
        ("godin", "godin_h", None, "godin on train needs godin_h: "),
        ("knn-plus", "supcon", None, "knn-plus on train needs supcon: "),
    ] {
        let told = told(name, tensor, shape);
        assert!(told.contains(expected), "{name} with {tensor} {shape:?}: {told}");
    }
}

#[test]
fn methods_that_need_labels_or_a_head_say_so_before_any_work() {
    let rows = features(40, WIDTH, 1);
    for (name, needs_labels, needs_head) in [
        ("mahalanobis", true, false),
        ("mahalanobis-pp", true, false),
        ("she", true, false),
        ("low-dim", true, false),
        ("line", true, true),
        ("ddcs", true, true),
        ("vim", false, true),
        ("dml", false, true),
        ("dice", false, true),
        ("react", false, true),
        ("gradnorm+react", false, true),
    ] {
        let spec = MethodSpec::named(name).unwrap();
        let data = whole_dataset("train", rows.view());
        if needs_head {
            let told = told(Detector::fit(&spec, &data, None, &whole_fit())).unwrap();
            assert!(told.contains("needs the network's last layer"), "{name}: {told}");
        }
        let data = data.without("labels");
        let told = told(Detector::fit(&spec, &data, Some(&head(WIDTH)), &whole_fit()));
        assert_eq!(told.is_some(), needs_labels, "{name}: {told:?}");
        assert!(told.is_none_or(|told| told.contains("needs labels: ")), "{name}");
    }
}

#[test]
fn labels_that_are_no_classes_of_the_last_layer_are_refused() {
    let rows = features(40, WIDTH, 1);
    for name in ["she", "line", "low-dim"] {
        for label in [-1, 4, i64::MAX] {
            let mut labels = vec![0; 40];
            labels[7] = label;
            let data = whole_dataset("train", rows.view());
            let data = data.with_labels(Labels::from(&labels[..])).unwrap();
            let spec = MethodSpec::named(name).unwrap();
            let told = told(Detector::fit(&spec, &data, Some(&head(WIDTH)), &whole_fit()));
            let told = told.unwrap();
            assert!(told.contains("classes from 0 to 3"), "{name}: {told}");
            assert!(told.contains(&format!("label {label}")), "{name}: {told}");
        }
    }
}

#[test]
fn classes_of_one_row_each_have_no_variance_inside() {
    let rows = features(40, WIDTH, 1);
    for name in ["mahalanobis", "mahalanobis-pp"] {
        let labels = Labels::from(&(0..40).collect::<Vec<i64>>()[..]);
        let data = whole_dataset("train", rows.view()).with_labels(labels).unwrap();
        let spec = MethodSpec::named(name).unwrap();
        let told = told(Detector::fit(&spec, &data, None, &whole_fit())).unwrap();
        assert!(told.contains("train, inside each class: all rows are the same"), "{name}: {told}");
    }
}

#[test]
fn a_row_that_rectification_makes_zero_is_told_as_such() {
    let rows = features(40, WIDTH, 1).mapv(f32::abs);
    let data = whole_dataset("train", rows.view());
    let react = Rectification::React(ReactParams { at: Clip::Value(0.0) });
    let spec =
        RectifiedParams { steps: vec![react], score: Box::new(knn(1)), raw_fit: false }.into();
    let told = told(Detector::fit(&spec, &data, None, &whole_fit())).unwrap();
    assert!(told.contains("is all zeros after rectification; "), "{told}");
}

#[test]
fn weights_of_too_few_bits_are_refused_with_what_they_would_change() {
    let train = features(120, WIDTH, 1);
    let told = |weights, precision| {
        let params = KpcaParams { weights, precision, ..pca() };
        told(fit(&MethodSpec::Kpca(params), train.view()))
    };
    let told_bf16 = told(WeightType::Bf16, Precision::F32).unwrap();
    assert!(told_bf16.contains("weights: expected full: in bf16 a residual"), "{told_bf16}");
    let told_double = told(WeightType::F16, Precision::F64).unwrap();
    assert!(told_double.contains("full for double precision"), "{told_double}");
}
