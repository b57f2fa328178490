//! Files of every version that there was are read, and score as the program that wrote them did.

use std::path::{Path, PathBuf};

use crate::common::scores;
use ndarray::Array2;
use offspan::Detector;
use offspan::io::{open_dataset, read_rows, read_scores};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/versions")
}

fn rows() -> Array2<f32> {
    let data = open_dataset(folder().join("rows.npy"), None).unwrap();
    read_rows(data.features(), 0..data.rows()).unwrap()
}

/// The detectors of one version, with the scores that it gave for the rows.
fn kept(version: u32) -> Vec<(String, Detector, Vec<f64>)> {
    let prefix = format!("v{version}-");
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(&prefix) && name.ends_with(".offspan"))
        .collect();
    names.sort();
    let one = |name: String| {
        let path = folder().join(&name);
        let detector = Detector::load(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let told = read_scores(path.with_extension("npy")).unwrap().unwrap();
        (name, detector, told)
    };
    names.into_iter().map(one).collect()
}

#[test]
fn detectors_of_every_version_score_as_they_did() {
    let rows = rows();
    for (version, count) in [(1, 4), (2, 5), (3, 5)] {
        let detectors = kept(version);
        assert_eq!(detectors.len(), count, "files of version {version}");
        for (name, detector, told) in detectors {
            let largest = told.iter().fold(0.0f64, |largest, score| largest.max(score.abs()));
            let now = scores(&detector, rows.view());
            assert_eq!(now.len(), told.len(), "{name}");
            for (row, (now, told)) in now.into_iter().zip(told).enumerate() {
                // Products are summed in another order since.
                assert!(
                    (now - told).abs() <= 2e-6 * largest,
                    "{name}, row {row}: {told}, now {now}"
                );
            }
        }
    }
}

#[test]
fn the_first_version_is_read_without_its_threshold_and_says_so() {
    for (name, detector, _) in kept(1) {
        assert!(detector.threshold().is_none() && detector.lost_its_threshold(), "{name}");
        let error = detector.calibration_for("a decision").unwrap_err().to_string();
        assert!(error.contains("a file of version 1"), "{error}");
        let saved = Detector::from_bytes(&detector.to_bytes()).unwrap();
        assert!(!saved.lost_its_threshold(), "{name}: what is saved is of this version");
    }
    for version in [2, 3] {
        for (name, detector, _) in kept(version) {
            assert!(detector.threshold().is_some() && !detector.lost_its_threshold(), "{name}");
        }
    }
}
