//! Times offspan and the machine's own limits for `bench/run.py`.
//!
//! One JSON command per line on stdin, one JSON answer per line on stdout, so that the script can
//! alternate between offspan and its peers in one run. Every answer has the seconds of each repeat.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use faer::{Accum, Mat, Par};
use ndarray::{Array2, s};
use offspan::io::{FeatureSource, Pack, open_matrix};
use offspan::{Detector, Instructions, Silent};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
enum Command {
    /// Scores batches of a file's rows, one call per batch.
    Score { detector: PathBuf, rows: PathBuf, batch: usize, repeat: usize },
    /// Scores all test and out-of-distribution rows of a pack, with their logits.
    ScorePack { detector: PathBuf, pack: PathBuf, repeat: usize },
    /// Multiplies two square f32 matrices on all threads.
    Gemm { size: usize, repeat: usize },
    /// Copies this many bytes on all threads.
    Copy { bytes: usize, repeat: usize },
    /// Names the instructions in use and those that the processor has.
    Instructions,
}

#[derive(Default)]
struct State {
    detectors: HashMap<PathBuf, Detector>,
    rows: HashMap<PathBuf, Array2<f32>>,
    packs: HashMap<PathBuf, Pack>,
}

fn main() {
    let mut state = State::default();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let answer = match serde_json::from_str(&line) {
            Ok(command) => state.run(command).unwrap_or_else(|error| json!({ "error": error })),
            Err(error) => json!({ "error": error.to_string() }),
        };
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{answer}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

impl State {
    fn run(&mut self, command: Command) -> Result<Value, String> {
        let seconds = match command {
            Command::Instructions => {
                let in_use = Instructions::in_use().map_err(|error| error.to_string())?;
                let available = Instructions::available();
                let available: Vec<_> = available.iter().map(|set| set.name()).collect();
                return Ok(json!({ "in_use": in_use.name(), "available": available }));
            }
            Command::Score { detector, rows, batch, repeat } => {
                self.load(&detector, &rows).map_err(|error| error.to_string())?;
                let (detector, rows) = (&self.detectors[&detector], &self.rows[&rows]);
                if batch == 0 || batch > rows.nrows() {
                    return Err(format!("a batch of 1 to {} rows, got {batch}", rows.nrows()));
                }
                let starts = rows.nrows() / batch;
                timed(repeat, |round| {
                    let start = (round % starts) * batch;
                    let part = rows.slice(s![start..start + batch, ..]);
                    detector.score(part, None).map_err(|error| error.to_string()).map(drop)
                })?
            }
            Command::ScorePack { detector, pack, repeat } => {
                self.load_detector(&detector).map_err(|error| error.to_string())?;
                if !self.packs.contains_key(&pack) {
                    let opened = Pack::open(&pack).map_err(|error| error.to_string())?;
                    self.packs.insert(pack.clone(), opened);
                }
                let (detector, pack) = (&self.detectors[&detector], &self.packs[&pack]);
                timed(repeat, |_| {
                    for rows in pack.ood.iter().chain(&pack.test) {
                        let scores = detector.score_dataset(rows, &Silent);
                        scores.map_err(|error| error.to_string())?;
                    }
                    Ok(())
                })?
            }
            Command::Gemm { size, repeat } => {
                let a = Mat::<f32>::from_fn(size, size, |i, j| ((i * 7 + j) % 13) as f32 - 6.0);
                let mut c = Mat::<f32>::zeros(size, size);
                let par = Par::rayon(rayon::current_num_threads());
                timed(repeat, |_| {
                    faer::linalg::matmul::matmul(
                        c.as_mut(),
                        Accum::Replace,
                        a.as_ref(),
                        a.as_ref(),
                        1.0,
                        par,
                    );
                    Ok(())
                })?
            }
            Command::Copy { bytes, repeat } => {
                let from = vec![1u8; bytes];
                let mut to = vec![0u8; bytes];
                let part = bytes.div_ceil(rayon::current_num_threads()).max(1);
                timed(repeat, |_| {
                    let parts = to.par_chunks_mut(part).zip(from.par_chunks(part));
                    parts.for_each(|(to, from)| to.copy_from_slice(from));
                    Ok(())
                })?
            }
        };
        Ok(json!({ "seconds": seconds, "threads": rayon::current_num_threads() }))
    }

    fn load_detector(&mut self, detector: &Path) -> offspan::Result<()> {
        if !self.detectors.contains_key(detector) {
            self.detectors.insert(detector.to_owned(), Detector::load(detector)?);
        }
        Ok(())
    }

    fn load(&mut self, detector: &Path, rows: &Path) -> offspan::Result<()> {
        self.load_detector(detector)?;
        if !self.rows.contains_key(rows) {
            let source = open_matrix(rows, "features", None)?;
            let mut array = Array2::zeros((source.rows(), source.width()));
            source.read_f32(0, array.view_mut())?;
            self.rows.insert(rows.to_owned(), array);
        }
        Ok(())
    }
}

/// Seconds of each of `repeat` calls.
fn timed(
    repeat: usize,
    mut work: impl FnMut(usize) -> Result<(), String>,
) -> Result<Vec<f64>, String> {
    (0..repeat)
        .map(|round| {
            let started = Instant::now();
            work(round)?;
            Ok(started.elapsed().as_secs_f64())
        })
        .collect()
}
