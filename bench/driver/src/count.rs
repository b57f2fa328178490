//! Runs the hottest loops a given number of times for `bench/instructions.py`, which counts their
//! instructions.
//!
//! ```text
//! offspan-count fit nystrom|rff FILE    fits a detector, for the scoring loops
//! offspan-count score FILE ROUNDS       scores a block of rows
//! offspan-count moments ROUNDS          adds a block of rows to the moments of a fit
//! ```
//!
//! Everything is fixed: rows, shapes, seeds, one thread. Two runs that differ in rounds only
//! therefore differ by the instructions of those rounds only. The answer is JSON on stdout.

use std::path::Path;

use ndarray::Array2;
use offspan::io::Dataset;
use offspan::map::Draw;
use offspan::{
    Components, Detector, FitOptions, KpcaParams, MapParams, MethodSpec, Moments, Residual,
    SyntheticFeatures,
};
use serde_json::json;

/// Width of the features.
const WIDTH: usize = 256;
/// Landmarks or random features.
const FEATURES: usize = 512;
/// Fixed, so that rounding in the eigenvalues cannot change the work.
const COMPONENTS: usize = 128;
const TRAINING_ROWS: usize = 2048;
/// Rows of a round: one full block of a scoring task.
const BLOCK: usize = 256;
/// Rows of a round of moments: one block of its sums.
const MOMENTS_BLOCK: usize = 512;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The calling thread is the whole pool: another one would count while it waits.
    rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let rows_per_round = match arguments[..] {
        ["fit", map, file] => return Ok(fit(map)?.save(Path::new(file))?),
        ["score", file, rounds] => score(Path::new(file), rounds.parse()?)?,
        ["moments", rounds] => moments(rounds.parse()?)?,
        _ => return Err("fit nystrom|rff FILE, score FILE ROUNDS or moments ROUNDS".into()),
    };
    println!("{}", json!({ "rows_per_round": rows_per_round, "target": target() }));
    Ok(())
}

fn fit(map: &str) -> Result<Detector, Box<dyn std::error::Error>> {
    let nystrom = KpcaParams::nystrom_uniform(FEATURES);
    let params = match map {
        "nystrom" => nystrom,
        "rff" => KpcaParams {
            map: MapParams::Fourier { features: FEATURES, draw: Draw::Structured, parts: None },
            residual: Residual::Plain,
            ..nystrom
        },
        _ => return Err(format!("expected nystrom or rff, got `{map}`").into()),
    };
    let params = KpcaParams { components: Components::Fixed(COMPONENTS), ..params };
    let training = rows(TRAINING_ROWS, WIDTH);
    let data = Dataset::new("training", training.view());
    Ok(Detector::fit(&MethodSpec::Kpca(params), &data, None, &FitOptions::default())?)
}

fn score(file: &Path, rounds: usize) -> offspan::Result<usize> {
    let detector = Detector::load(file)?;
    let rows = rows(BLOCK, WIDTH);
    for _ in 0..rounds {
        std::hint::black_box(detector.score(rows.view(), None)?);
    }
    Ok(BLOCK)
}

fn moments(rounds: usize) -> offspan::Result<usize> {
    let rows = rows(MOMENTS_BLOCK, FEATURES);
    let mut moments = Moments::new(FEATURES);
    for _ in 0..rounds {
        moments.update(rows.view())?;
    }
    std::hint::black_box(moments.count());
    Ok(MOMENTS_BLOCK)
}

fn rows(count: usize, width: usize) -> Array2<f32> {
    let mut features = SyntheticFeatures::new(width, 10, 0);
    let mut numbers = vec![0.0; count * width];
    numbers.chunks_exact_mut(width).for_each(|row| features.next_row(row));
    Array2::from_shape_fn((count, width), |(i, j)| numbers[i * width + j])
}

/// The instructions that the loops are compiled for and that this processor, or the one that is
/// simulated, has.
fn target() -> String {
    #[cfg(target_arch = "x86_64")]
    let extensions = if is_x86_feature_detected!("avx512f") {
        "+avx512"
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        "+avx2+fma"
    } else {
        ""
    };
    #[cfg(not(target_arch = "x86_64"))]
    let extensions = "";
    format!("{}{extensions}", std::env::consts::ARCH)
}
