//! Detectors and moments come back whole, and do not depend on the container of the rows.

use std::path::Path;

use crate::common::*;
use crate::{TYPES, encode};
use half::f16;
use ndarray::{Array2, ArrayView2, Axis, concatenate, s};
use offspan::io::{Dataset, ElementType, RawLayout, open_dataset};
use offspan::map::Draw;
use offspan::{
    CalibrationSource, Detector, FitOptions, Kernel, KpcaParams, MapParams, MethodSpec,
    ModelSource, Moments, Residual, Silent,
};

#[test]
fn every_detector_comes_back_with_the_same_bytes_and_the_same_scores() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.offspan");
    let (train, test) = (features(220, WIDTH, 1), features(300, WIDTH, 2));
    let options = FitOptions { hold_out: Some(0.4), ..FitOptions::default() };
    let mut wrong = Vec::new();
    for (name, spec) in every_method() {
        let fitted = fit_with(&spec, train.view(), &options).unwrap();
        fitted.save(&path).unwrap();
        assert!(Detector::is_detector(&path), "{name}");
        assert_eq!(std::fs::read(&path).unwrap(), fitted.to_bytes(), "{name}");
        let loaded = match Detector::load(&path) {
            Ok(loaded) => loaded,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        assert!(fitted.threshold().is_some(), "{name}");
        assert_eq!(loaded.threshold(), fitted.threshold(), "{name}");
        assert_eq!(loaded.info().training, fitted.info().training, "{name}");
        assert_eq!(loaded.kpca_summaries(), fitted.kpca_summaries(), "{name}");
        assert_eq!(loaded.eigenvalues(), fitted.eigenvalues(), "{name}");
        if loaded.to_bytes() != fitted.to_bytes() {
            wrong.push(format!("{name}: other bytes"));
        }
        let (before, after) = (scores(&fitted, test.view()), scores(&loaded, test.view()));
        if bits(&before) != bits(&after) {
            let gap = before.iter().zip(&after).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            wrong.push(format!("{name}: scores differ by up to {gap:e}"));
        }
    }
    assert_eq!(names_in(folder.path()), ["x.offspan"], "no partial files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_detector_keeps_the_model_that_gave_its_features_and_one_without_is_as_it_was() {
    let train = features(80, WIDTH, 1);
    let plain = fit(&MethodSpec::Kpca(pca()), train.view()).unwrap();
    assert!(!String::from_utf8_lossy(&plain.to_bytes()).contains("\"source\":{"));
    let mut source = ModelSource::new("net.onnx", "xxh3-128:00", "flat");
    source.logit_tensor = Some("logits".to_owned());
    let told = plain.clone().with_source(Some(source.clone()));
    let loaded = Detector::from_bytes(&told.to_bytes()).unwrap();
    assert_eq!(loaded.info().source, Some(source));
    let old = Detector::from_bytes(&plain.to_bytes()).unwrap();
    assert_eq!(old.info().source, None);
    assert_eq!(old.to_bytes(), plain.to_bytes());
}

#[test]
fn given_frequencies_come_back_whatever_the_draw_and_kernel_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.offspan");
    let train = features(60, WIDTH, 1);
    // The draw is not used: the frequencies are there. So it must not forbid loading either.
    for (kernel, draw) in [
        (Kernel::Laplacian { gamma: 0.1 }, Draw::Structured),
        (Kernel::Laplacian { gamma: 0.1 }, Draw::Orthogonal),
        (Kernel::Gaussian { gamma: 0.1 }, Draw::Structured),
    ] {
        let parts = Some(fourier_parts(20, WIDTH));
        let map = MapParams::Fourier { features: 20, draw, parts };
        let spec = MethodSpec::Kpca(KpcaParams { map, ..fourier(kernel, 20, draw) });
        let fitted = fit(&spec, train.view()).unwrap();
        fitted.save(&path).unwrap();
        let loaded = Detector::load(&path).unwrap_or_else(|error| panic!("{draw:?}: {error}"));
        assert_eq!(scores(&loaded, train.view()), scores(&fitted, train.view()), "{draw:?}");
    }
}

#[test]
fn amplitudes_of_given_frequencies_count_and_survive_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.offspan");
    let train = features(100, WIDTH, 1);
    let kernel = Kernel::Gaussian { gamma: 0.1 };
    let with = |amplitude: Option<fn(usize) -> f64>| {
        let mut parts = fourier_parts(20, WIDTH);
        parts.amplitudes = amplitude.map(|amplitude| (0..20).map(amplitude).collect());
        let map = MapParams::Fourier { features: 20, draw: Draw::Iid, parts: Some(parts) };
        let spec = MethodSpec::Kpca(KpcaParams { map, ..fourier(kernel, 20, Draw::Iid) });
        fit(&spec, train.view()).unwrap()
    };
    let fitted = with(Some(|n| 0.1 + 0.02 * n as f64));
    fitted.save(&path).unwrap();
    let loaded = Detector::load(&path).unwrap();
    assert_eq!(scores(&loaded, train.view()), scores(&fitted, train.view()));
    assert_ne!(scores(&with(None), train.view()), scores(&fitted, train.view()));
    let uniform = scores(&with(Some(|_| (2.0f64 / 20.0).sqrt())), train.view());
    for (a, b) in scores(&with(None), train.view()).into_iter().zip(uniform) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn a_threshold_of_minus_infinity_survives_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.offspan");
    let train = features(60, WIDTH, 1);
    let zeros = Array2::<f32>::zeros((60, WIDTH));
    let calibrate = Dataset::new("zeros", zeros.view());
    let options = FitOptions { calibrate: Some(&calibrate), ..FitOptions::default() };
    let fitted = fit_with(&MethodSpec::Kpca(pca()), train.view(), &options).unwrap();
    fitted.save(&path).unwrap();
    let threshold = Detector::load(&path).unwrap().threshold().unwrap().clone();
    assert_eq!((threshold.value, threshold.rows), (f64::NEG_INFINITY, 60));
    assert_eq!(threshold.source, CalibrationSource::Given);
}

#[test]
fn moments_come_back_and_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("moments");
    let rows = features(50, 7, 1).mapv(f64::from);
    let mut moments = Moments::new(7);
    moments.update(rows.slice(s![..30, ..])).unwrap();
    moments.save(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), moments.to_bytes());
    let mut loaded = Moments::load(&path).unwrap();
    assert_eq!(loaded, moments);
    for moments in [&mut loaded, &mut moments] {
        moments.update(rows.slice(s![30.., ..])).unwrap();
    }
    assert_eq!(loaded.to_bytes(), moments.to_bytes());
    assert_eq!(loaded.count(), 50);

    Moments::new(4).save(&path).unwrap();
    assert_eq!(Moments::load(&path).unwrap(), Moments::new(4));
}

/// The detector's bytes from rows in this file.
fn detector_of(path: &Path, layout: Option<RawLayout>) -> Vec<u8> {
    let spec = MethodSpec::Kpca(nystrom(Kernel::Gaussian { gamma: 1.0 }, 20, Residual::Complete));
    let data = open_dataset(path, layout).unwrap();
    Detector::fit(&spec, &data, None, &FitOptions::default()).unwrap().to_bytes()
}

#[test]
fn the_same_rows_give_the_same_detector_from_any_container() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Values that f16 holds, so that every type has the same rows.
    let rows = features(700, 5, 1).mapv(|x| f64::from(f16::from_f32(x)));
    let reference = detector_of(
        &put(folder, "x.npy", npy(1, "<f4", false, "(700, 5)", &encode(ElementType::F32, &rows))),
        None,
    );
    for (element, dtype) in TYPES {
        if element == ElementType::Bf16 {
            continue;
        }
        let data = encode(element, &rows);
        let parts = Tensors::from([("features".to_owned(), (dtype, vec![700, 5], data.clone()))]);
        let path = put(folder, "x.safetensors", tensors(&parts, None));
        assert_eq!(detector_of(&path, None), reference, "{element} safetensors");
        let path = put(folder, "x.mmap", &data);
        let layout = RawLayout { element, width: 5 };
        assert_eq!(detector_of(&path, Some(layout)), reference, "{element} raw");
        let descr = format!("<f{}", element.size());
        let data = encode(element, rows.t().iter());
        let path = put(folder, "y.npy", npy(2, &descr, true, "(700, 5)", &data));
        assert_eq!(detector_of(&path, None), reference, "{element} Fortran order");
    }
    // And from memory, rows first, columns first and backwards.
    let spec = MethodSpec::Kpca(nystrom(Kernel::Gaussian { gamma: 1.0 }, 20, Residual::Complete));
    let of = |rows: ArrayView2<'_, f64>| {
        let data = Dataset::new("memory", rows);
        Detector::fit(&spec, &data, None, &FitOptions::default()).unwrap().to_bytes()
    };
    let by_columns = rows.t().as_standard_layout().into_owned();
    let backwards = rows.slice(s![..;-1, ..]).to_owned();
    assert_eq!(of(rows.view()), reference);
    assert_eq!(of(by_columns.t()), reference);
    assert_eq!(of(backwards.slice(s![..;-1, ..])), reference);
}

#[test]
fn scores_of_no_rows_are_none_and_of_many_rounds_are_in_order() {
    let train = features(100, WIDTH, 1);
    let detector = fit(&MethodSpec::Kpca(pca()), train.view()).unwrap();
    assert!(detector.score(features(0, WIDTH, 1).view(), None).unwrap().is_empty());
    // More rows than are scored in one round.
    let rows = features(8192 + 300, WIDTH, 2);
    let all = detector.score(rows.view(), None).unwrap();
    let data = Dataset::new("rows", rows.view());
    assert_eq!(detector.score_dataset(&data, &Silent).unwrap(), all.to_vec());
    let joined: Vec<f64> = rows
        .axis_chunks_iter(Axis(0), 256)
        .flat_map(|part| detector.score(part, None).unwrap().to_vec())
        .collect();
    assert_eq!(joined, all.to_vec());
    let shifted = concatenate![Axis(0), rows.slice(s![8000.., ..]), rows.slice(s![..8000, ..])];
    let shifted = detector.score(shifted.view(), None).unwrap();
    assert_eq!(shifted.slice(s![..492]), all.slice(s![8000..]));
}
