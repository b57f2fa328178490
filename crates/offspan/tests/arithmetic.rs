//! Cheaper arithmetic that must not show in the scores: fewer bits, and part of a decomposition.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use ndarray::Array2;
use offspan::io::Dataset;
use offspan::map::Draw;
use offspan::{
    AutoParams, Components, Detector, FitOptions, Kernel, KpcaParams, MethodSpec, Precision,
    Residual, WeightType,
};

/// Scores of one method under two settings, on rows that neither has seen.
fn both(first: KpcaParams, second: KpcaParams, train: usize) -> [(Detector, Vec<f64>); 2] {
    let (train, test) = (features(train, WIDTH, 1), features(100, WIDTH, 2));
    [first, second].map(|params| {
        let spec = MethodSpec::Kpca(params);
        let detector = fit_with(&spec, train.view(), &FitOptions::default()).unwrap();
        let scores = scores(&detector, test.view());
        (detector, scores)
    })
}

fn assert_close(a: &[f64], b: &[f64], tolerance: f64) {
    for (a, b) in a.iter().zip(b) {
        assert!((a / b - 1.0).abs() < tolerance, "{a} {b}");
    }
}

#[test]
fn landmarks_of_16_bits_take_half_the_room_and_keep_the_scores() {
    let full = nystrom(Kernel::Gaussian { gamma: 0.9 }, 200, Residual::Complete);
    let half = KpcaParams { weights: WeightType::F16, ..full.clone() };
    let [(full, full_scores), (half, half_scores)] = both(full, half, 400);
    // The document and the padding of the header differ by a few bytes.
    let saved = full.to_bytes().len() - half.to_bytes().len();
    assert!(saved.abs_diff(2 * 200 * WIDTH) < 100, "{saved} bytes fewer");
    assert_close(&half_scores, &full_scores, 2e-3);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.offspan");
    half.save(&path).unwrap();
    let loaded = Detector::load(&path).unwrap();
    assert_eq!(loaded.to_bytes(), half.to_bytes());
    assert_eq!(scores(&loaded, features(100, WIDTH, 2).view()), half_scores);
}

/// Random features with a flat spectrum, of which this share of the variance is kept.
fn narrow(features: usize, ratio: f64, precision: Precision) -> KpcaParams {
    let components = Components::ExplainedVariance(ratio);
    let params = fourier(Kernel::Gaussian { gamma: 20.0 }, features, Draw::Structured);
    KpcaParams { components, precision, ..params }
}

#[test]
fn fixed_point_is_close_to_double_precision() {
    let [(fixed, fixed_scores), (double, double_scores)] =
        both(narrow(512, 0.5, Precision::F32), narrow(512, 0.5, Precision::F64), 600);
    let has_scales = |detector: &Detector| {
        let bytes = detector.to_bytes();
        bytes.windows(17).any(|name| name == b"projection_scales")
    };
    assert!(has_scales(&fixed) && !has_scales(&double));
    assert_close(&fixed_scores, &double_scores, 5e-5);
}

#[test]
fn leading_directions_of_many_dimensions_are_those_of_a_full_decomposition() {
    let [(partial, partial_scores), (full, full_scores)] =
        both(narrow(3072, 0.5, Precision::F32), narrow(3072, 0.5, Precision::F64), 4000);
    let (partial_values, full_values) = (partial.eigenvalues()[0], full.eigenvalues()[0]);
    let kept = partial.kpca_summaries()[0].components;
    assert_eq!((partial_values.len(), full_values.len()), (kept, 3072), "one is partial");
    assert_eq!(full.kpca_summaries()[0].components, kept);
    assert_close(&partial_scores, &full_scores, 1e-4);
}

/// `auto` on features alone, whose score is the residual, with this share of the variance inside.
fn auto(explained_variance: f64, precision: Precision) -> (Detector, Vec<f64>) {
    let (train, test) = (features(600, WIDTH, 1), features(200, WIDTH, 2));
    let landmarks = Some(100);
    let params = AutoParams { landmarks, explained_variance, precision, ..AutoParams::default() };
    let data = Dataset::new("train", train.view());
    let detector = Detector::fit(&MethodSpec::Auto(params), &data, None, &whole_fit()).unwrap();
    let scores = detector.score(test.view(), None).unwrap().to_vec();
    (detector, scores)
}

fn in_fixed_point(detector: &Detector) -> bool {
    detector.found().get("bits of products") == Some(&16.0)
}

#[test]
fn auto_takes_fixed_point_where_residuals_are_large() {
    let (fixed, fixed_scores) = auto(0.5, Precision::F32);
    let (double, double_scores) = auto(0.5, Precision::F64);
    assert!(in_fixed_point(&fixed) && !in_fixed_point(&double));
    // Weights come from ranks in trials on few rows, and the last bits may change a rank.
    let largest = double_scores.iter().fold(0.0f64, |largest, score| largest.max(score.abs()));
    for (fixed, double) in fixed_scores.iter().zip(&double_scores) {
        assert!((fixed - double).abs() < 5e-2 * largest, "{fixed} {double}");
    }
    assert_ne!(fixed_scores, double_scores);

    let loaded = Detector::from_bytes(&fixed.to_bytes()).unwrap();
    assert_eq!(loaded.to_bytes(), fixed.to_bytes());
    let again = loaded.score(features(200, WIDTH, 2).view(), None).unwrap();
    assert_eq!(bits(again.as_slice().unwrap()), bits(&fixed_scores));
}

#[test]
fn auto_stays_in_single_precision_where_residuals_are_small() {
    // Rows along one line: one direction holds nearly all of the variance.
    let rows = Array2::from_shape_fn((400, WIDTH), |(i, j)| {
        1.0 + 1e-2 * ((i * 7919 % 400) as f32 / 400.0) * (j as f32 / WIDTH as f32)
    });
    let data = Dataset::new("train", rows.view());
    let params = AutoParams { landmarks: Some(100), ..AutoParams::default() };
    let detector = Detector::fit(&MethodSpec::Auto(params), &data, None, &whole_fit()).unwrap();
    assert!(!in_fixed_point(&detector));
}
