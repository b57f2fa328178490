//! No altered byte goes unnoticed, and files from before there were checksums can still be read.

use offspan::io::{Content, stored_checksum};
use offspan::{Detector, FitOptions, KpcaParams, MethodSpec, Moments, Monitor, PartialFit};
use safetensors::SafeTensors;
use serde_json::json;

use crate::common::*;

/// Positions that are tried in each tensor: both ends and some between.
fn sample(range: std::ops::Range<usize>) -> Vec<usize> {
    let step = (range.len() / 5).max(1);
    range.clone().step_by(step).chain(range.end.checked_sub(1)).collect()
}

/// Where in a file the bytes of each tensor lie.
fn tensors_of(bytes: &[u8]) -> Vec<(String, std::ops::Range<usize>)> {
    let (header, metadata) = SafeTensors::read_metadata(bytes).unwrap();
    let start = 8 + header;
    let place = |(name, info): (String, &safetensors::tensor::TensorInfo)| {
        (name, start + info.data_offsets.0..start + info.data_offsets.1)
    };
    metadata.tensors().into_iter().map(place).collect()
}

#[test]
fn another_byte_in_any_tensor_of_any_method_is_refused_with_a_sentence() {
    let train = features(220, WIDTH, 1);
    let options = FitOptions { hold_out: Some(0.4), ..FitOptions::default() };
    let mut tried = 0;
    for (name, spec) in every_method() {
        let bytes = fit_with(&spec, train.view(), &options).unwrap().to_bytes();
        for (tensor, range) in tensors_of(&bytes) {
            for at in sample(range) {
                let mut altered = bytes.clone();
                altered[at] ^= 1 << (at % 8);
                let error = Detector::from_bytes(&altered)
                    .expect_err(&format!("{name}: byte {at} of `{tensor}` was altered"))
                    .to_string();
                let sentence = "an offspan detector that is damaged: its bytes have the checksum";
                assert!(error.contains(sentence), "{name} `{tensor}`: {error}");
                tried += 1;
            }
        }
    }
    assert!(tried > 1000, "{tried}");
}

#[test]
fn another_byte_anywhere_in_a_file_is_refused() {
    let detector = fit(&MethodSpec::Kpca(pca()), features(60, WIDTH, 1).view()).unwrap();
    let bytes = detector.to_bytes();
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 4;
        assert!(Detector::from_bytes(&altered).is_err(), "byte {at} of {}", bytes.len());
    }
}

#[test]
fn moments_partial_fits_and_monitors_are_guarded_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let rows = features(60, WIDTH, 1);
    let mut moments = Moments::new(WIDTH);
    moments.update(rows.mapv(f64::from).view()).unwrap();
    let mut partial = PartialFit::new(&KpcaParams::check(pca()).unwrap(), WIDTH).unwrap();
    partial.update(&whole_dataset("rows", rows.view()), &offspan::Silent).unwrap();
    let options = FitOptions { hold_out: Some(0.4), ..FitOptions::default() };
    let detector = fit_with(&knn(3), features(300, WIDTH, 1).view(), &options).unwrap();
    let monitor = Monitor::of(detector.calibration().unwrap(), 0.01, 0).unwrap();
    monitor.save(&path).unwrap();
    type Load = fn(&std::path::Path) -> offspan::Result<()>;
    let files: [(&str, Vec<u8>, Load); 3] = [
        ("a file of moments", moments.to_bytes(), |path| Moments::load(path).map(drop)),
        ("a partial fit", partial.to_bytes(), |path| PartialFit::load(path).map(drop)),
        ("an offspan monitor", std::fs::read(&path).unwrap(), |path| Monitor::load(path).map(drop)),
    ];
    for (what, bytes, load) in files {
        std::fs::write(&path, &bytes).unwrap();
        load(&path).unwrap();
        for (_, range) in tensors_of(&bytes) {
            for at in sample(range) {
                let mut altered = bytes.clone();
                altered[at] ^= 1;
                std::fs::write(&path, altered).unwrap();
                let error = load(&path).unwrap_err().to_string();
                assert!(error.contains(&format!("{what} that is damaged")), "{error}");
            }
        }
    }
}

#[test]
fn files_from_before_there_were_checksums_are_read_and_become_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.offspan");
    let rows = features(60, WIDTH, 1);
    let new = fit(&MethodSpec::Kpca(pca()), rows.view()).unwrap();
    let old = alter(&new.to_bytes(), |json, _| {
        json["version"] = json!(2);
        json.as_object_mut().unwrap().remove("checksum");
    });
    std::fs::write(&path, &old).unwrap();
    assert_eq!(stored_checksum(&path).unwrap(), None);
    let loaded = Detector::load(&path).unwrap();
    assert_eq!(scores(&loaded, rows.view()), scores(&new, rows.view()));
    assert_eq!(loaded.to_bytes(), new.to_bytes());
    loaded.save(&path).unwrap();
    assert!(stored_checksum(&path).unwrap().unwrap().starts_with("xxh3-128:"));

    let monitor = {
        let reference: Vec<f64> = (0..100).map(f64::from).collect();
        Monitor::new(&reference, offspan::MonitorOptions::new(0.95, 5.0)).unwrap()
    };
    monitor.save(&path).unwrap();
    let old = alter(&std::fs::read(&path).unwrap(), |json, _| {
        json["version"] = json!(1);
        json.as_object_mut().unwrap().remove("checksum");
        json["state"].as_object_mut().unwrap().remove("seen");
    });
    std::fs::write(&path, &old).unwrap();
    assert_eq!(Monitor::load(&path).unwrap().state(), monitor.state());
}

#[test]
fn files_are_known_by_what_is_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let detector = fit(&MethodSpec::Kpca(pca()), features(60, WIDTH, 1).view()).unwrap();
    let rows = npy_f32(features(4, 2, 1).view());
    let cases: [(&[u8], Content); 11] = [
        (&detector.to_bytes(), Content::Detector),
        (&Moments::new(3).to_bytes(), Content::Moments),
        (
            &tensors(&Tensors::from([("x".to_owned(), f32_tensor(&[2], 0.0))]), None),
            Content::Tensors,
        ),
        (&rows, Content::Array),
        (&rows[..20], Content::Array),
        (&npy(1, "<f8", false, "(2,)", &[0; 16]), Content::Scores),
        (b"row,score\n0,1.5\n", Content::Scores),
        (b"a,b\n0,1.5\n", Content::Other),
        (b"{\"schema\": \"offspan.eval/1\"}", Content::Results),
        (b"{\"mine\": 1}", Content::Other),
        (b"", Content::Empty),
    ];
    for (number, (bytes, content)) in cases.into_iter().enumerate() {
        // The name says nothing.
        let path = put(folder.path(), "x.npy", bytes);
        assert_eq!(Content::of(&path).unwrap(), content, "{number}");
    }
    assert!(Content::of(folder.path().join("missing")).is_err());
}
