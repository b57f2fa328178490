//! A file larger than the memory that you want to spend: rows are read in chunks.
//!
//! `cargo run --release -p offspan --example stream_file [FEATURES.npy]`

use std::path::PathBuf;

use offspan::io::{ElementType, create_atomically, open_dataset};
use offspan::{Detector, FitOptions, MethodOptions, Observer, SyntheticFeatures};

/// Prints what a long fit is at.
struct Stages;

impl Observer for Stages {
    fn begin(&self, stage: &str, steps: u64) {
        println!("{stage}: {steps}");
    }

    fn note(&self, text: &str) {
        println!("note: {text}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let made = std::env::temp_dir().join(format!("offspan-example-{}.npy", std::process::id()));
    if given.is_none() {
        let mut features = SyntheticFeatures::new(64, 10, 0);
        create_atomically(&made, |file| {
            features.write_npy(file, ElementType::F32, 20_000, |_| Ok(()))
        })?;
    }
    let rows = open_dataset(given.as_deref().unwrap_or(&made), None)?;
    let method = MethodOptions::default().method("kpca-rff")?;
    let options = FitOptions { observer: &Stages, ..FitOptions::default() };
    let detector = Detector::fit(&method, &rows, None, &options)?;
    let scores = detector.score_dataset(&rows, &Stages)?;
    let lowest = scores.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{} rows, lowest score {lowest:.4}", scores.len());
    if given.is_none() {
        std::fs::remove_file(&made)?;
    }
    Ok(())
}
