//! Arrays in memory: fit a detector, then scores, p-values and decisions.
//!
//! `cargo run --release -p offspan --example fit_and_score`

use offspan::io::{Dataset, Head};
use offspan::ndarray::{Array1, Array2, s};
use offspan::{Detector, FitOptions, MethodOptions};

fn main() -> offspan::Result<()> {
    // In place of what goes into your network's last layer, and of that layer.
    let wave = |row: usize, column: usize| ((row * 37 + column * column * 11) % 101) as f32 / 50.0;
    let rows = Array2::from_shape_fn((2000, 24), |(i, j)| wave(i, j).max(0.3 * (i % 5) as f32));
    let weight = Array2::from_shape_fn((5, 24), |(i, j)| f64::from(wave(i + 3, j)) - 1.0);
    let head = Head::new(weight, Array1::zeros(5))?;

    let (train, new) = (rows.slice(s![..1900, ..]), rows.slice(s![1900.., ..]));
    let method = MethodOptions::default().method("auto")?;
    let data = Dataset::new("train", train);
    let detector = Detector::fit(&method, &data, Some(&head), &FitOptions::default())?;

    let scores = detector.score(new, None)?.to_vec();
    // Enough rows were there for a threshold, so there are calibration scores as well.
    if let (Some(threshold), Some(known)) = (detector.threshold(), detector.calibration()) {
        for (row, (&score, p)) in scores.iter().zip(known.p_values(&scores)).take(5).enumerate() {
            let decision = if threshold.accepts(score) { "in" } else { "out" };
            println!("row {row}: score {score:.4}, p-value {p:.3}, {decision}");
        }
        let kept = scores.iter().filter(|&&score| threshold.accepts(score)).count();
        println!("{kept} of {} new rows are in", scores.len());
    }
    Ok(())
}
