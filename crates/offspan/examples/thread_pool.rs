//! One detector, shared by the threads of a server.
//!
//! `cargo run --release -p offspan --example thread_pool`

use std::sync::mpsc;
use std::thread;

use offspan::io::Dataset;
use offspan::ndarray::Array2;
use offspan::{Detector, FitOptions, MethodOptions};

fn batch(seed: usize, rows: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, 16), |(i, j)| ((i * 7 + j * j + seed * 5) % 13) as f32 + 1.0)
}

fn main() -> offspan::Result<()> {
    let train = batch(0, 1000);
    let method = MethodOptions::default().method("knn")?;
    let data = Dataset::new("train", train.view());
    let detector = Detector::fit(&method, &data, None, &FitOptions::default())?;

    // Scoring takes `&self`, and a row has the same score on any thread and among any others.
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for worker in 0..4 {
            let (sender, detector) = (sender.clone(), &detector);
            scope.spawn(move || {
                let mean =
                    detector.score(batch(worker, 50).view(), None).map(|scores| scores.mean());
                // The receiver outlives the workers.
                let _ = sender.send((worker, mean));
            });
        }
    });
    drop(sender);
    for (worker, mean) in results {
        println!("worker {worker}: mean score {:.4}", mean?.unwrap_or(f64::NAN));
    }
    Ok(())
}
