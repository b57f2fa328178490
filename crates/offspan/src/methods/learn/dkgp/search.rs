//! The search: Adam on minibatches until the bound settles.

use serde::{Deserialize, Serialize};

use crate::io::observer::check_interrupt;
use crate::methods::learn::adam::Adam;
use crate::methods::learn::classes::Classes;
use crate::methods::learn::plateau::Plateau;
use crate::methods::learn::rows::{KeptRows, read_batch};
use crate::numeric::random::Stream;
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::training::Training;
use crate::{Preprocess, Result};

use super::DkgpParams;
use super::bound::{Batch, Gradient, Posterior};
use super::inducing::Inducing;

const BATCH: usize = 512;
const RATE: f64 = 0.05;

/// Rows on which the bound is watched, and how often.
const EVALUATION_ROWS: usize = 2048;
const STEPS_PER_EVALUATION: usize = 20;

/// Evaluations without a relative improvement of the bound by the tolerance end the search.
const TOLERANCE: f64 = 1e-3;
const PATIENCE: usize = 5;

/// Rows are compared by their directions.
const DIRECTIONS: Preprocess = Preprocess { clip: None, cosine: true };

/// What the search found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct LearnedGamma {
    /// γ at the best bound.
    pub(crate) gamma: f64,
    /// The latent functions' variance σ² there.
    pub(crate) scale: f64,
    /// The best bound on the log evidence, per row, estimated on the evaluation rows.
    pub(crate) elbo_per_row: f64,
    /// The bound at the start.
    pub(crate) start_elbo_per_row: f64,
    /// Steps taken.
    pub(crate) steps: usize,
    /// Share of the evaluation rows (a sample of the training rows) whose class is predicted.
    pub(crate) accuracy: f64,
    /// Whether the bound settled before the limit of steps was reached.
    pub(crate) stopped_by_rule: bool,
}

/// Learns γ from labelled rows with checked parameters.
pub(crate) fn learn_gamma(params: &DkgpParams, training: &Training<'_>) -> Result<LearnedGamma> {
    let classes = Classes::read("dkgp", training)?;
    let kept = KeptRows::new(training);
    let rows = kept.count() as f64;
    let chosen = kept.sample(params.inducing, params.seed, Stream::Inducing, 0);
    let inducing = Inducing::new(read_batch(training, &chosen, DIRECTIONS)?);
    let batch = |chosen: &[usize]| -> Result<Batch> {
        let x = read_batch::<f64>(training, chosen, DIRECTIONS)?;
        let classes = chosen.iter().map(|&row| classes.of(row)).collect();
        Ok(Batch { distances: inducing.distances_to(x.view()), classes })
    };
    // Distances are kept and rows are not: they are read in parts.
    let evaluation = kept
        .sample(EVALUATION_ROWS, params.seed, Stream::Evaluation, 0)
        .chunks(BATCH)
        .map(batch)
        .collect::<Result<Vec<Batch>>>()?;
    let mut posterior = Posterior::new(params.start_gamma, classes.count(), inducing.count());
    let found = |posterior: &Posterior, steps: usize| -> Result<LearnedGamma> {
        let (elbo_per_row, accuracy) = posterior.evaluate(&inducing, &evaluation, rows)?;
        Ok(LearnedGamma {
            gamma: libm::exp(posterior.ln_gamma),
            scale: libm::exp(posterior.ln_scale),
            elbo_per_row,
            start_elbo_per_row: elbo_per_row,
            steps,
            accuracy,
            stopped_by_rule: false,
        })
    };
    let mut best = found(&posterior, 0)?;
    let start_elbo_per_row = best.elbo_per_row;
    let mut plateau = Plateau::new(TOLERANCE, PATIENCE);
    // The bound of a discrete likelihood is never above 0.
    plateau.reached(-start_elbo_per_row);
    let mut optimiser = Optimiser::new(&posterior);
    let (mut steps, mut stopped_by_rule) = (0, false);
    training.observer.begin("bound on the evidence", params.most_steps as u64);
    while steps < params.most_steps && !stopped_by_rule {
        check_interrupt(training.observer)?;
        let chosen = kept.sample(BATCH, params.seed, Stream::Batches, steps as u32);
        let gradient = posterior.gradient(&inducing, &batch(&chosen)?, rows)?;
        optimiser.step(&mut posterior, &gradient);
        steps += 1;
        training.observer.advance(1);
        if steps % STEPS_PER_EVALUATION == 0 || steps == params.most_steps {
            let now = found(&posterior, steps)?;
            stopped_by_rule = plateau.reached(-now.elbo_per_row);
            if now.elbo_per_row > best.elbo_per_row {
                best = now;
            }
        }
    }
    let guess = -libm::log(classes.count() as f64);
    if best.elbo_per_row <= guess {
        training.observer.note(&format!(
            "the labels hardly determine gamma: the bound on the evidence, {:.3} per row, is no \
             better than that of guessing among {} classes, {guess:.3}; there may be too few rows \
             per class, or too few inducing points",
            best.elbo_per_row,
            classes.count(),
        ));
    }
    Ok(LearnedGamma { start_elbo_per_row, steps, stopped_by_rule, ..best })
}

/// Adam for the four groups of parameters.
struct Optimiser {
    kernel: Adam<f64>,
    means: Adam<f64>,
    ln_deviations: Adam<f64>,
}

impl Optimiser {
    fn new(posterior: &Posterior) -> Self {
        Optimiser {
            kernel: Adam::new(2),
            means: Adam::new(posterior.means.len()),
            ln_deviations: Adam::new(posterior.ln_deviations.len()),
        }
    }

    /// Moves up the gradient.
    fn step(&mut self, posterior: &mut Posterior, gradient: &Gradient) {
        let mut kernel = [posterior.ln_gamma, posterior.ln_scale];
        let slopes = [gradient.ln_gamma, gradient.ln_scale];
        self.kernel.step(&mut kernel, &slopes, -RATE);
        [posterior.ln_gamma, posterior.ln_scale] = kernel;
        let groups = [
            (&mut self.means, &mut posterior.means, &gradient.means),
            (&mut self.ln_deviations, &mut posterior.ln_deviations, &gradient.ln_deviations),
        ];
        for (adam, parameters, gradient) in groups {
            let parameters = contiguous_mut(parameters);
            adam.step(parameters, contiguous(gradient), -RATE);
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::io::{Dataset, Labels};
    use crate::methods::learn::rows::testing::{training, with_threads};
    use crate::numeric::random::Random;
    use crate::span::map::{Draw, Fourier};
    use crate::span::preprocess::normalise;
    use crate::{Error, Kernel, Silent};

    /// Points on the sphere with the largest of three random functions of this γ as their class.
    fn sphere(count: usize, gamma: f64) -> (Array2<f64>, Vec<i64>) {
        let mut random = Random::new(8, Stream::Synthetic);
        let mut rows = Array2::from_shape_simple_fn((count, 3), || random.normal());
        for mut row in rows.rows_mut() {
            normalise(row.as_slice_mut().unwrap());
        }
        let kernel = Kernel::Gaussian { gamma };
        let map = Fourier::<f64>::seeded(kernel, Draw::Iid, 3, 500, 4).unwrap();
        let mut phi = Array2::zeros((count, 500));
        map.apply(rows.view(), phi.view_mut());
        let weights = Array2::from_shape_simple_fn((500, 3), || random.normal());
        let functions = phi.dot(&weights);
        let largest = |row: ndarray::ArrayView1<'_, f64>| {
            (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as i64
        };
        let labels = functions.rows().into_iter().map(largest).collect();
        (rows, labels)
    }

    fn learn(rows: &Array2<f64>, labels: &[i64], params: DkgpParams) -> Result<LearnedGamma> {
        let data = Dataset::new("train", rows.view()).with_labels(Labels::from(labels)).unwrap();
        learn_gamma(&params.check().unwrap(), &training(&data))
    }

    #[test]
    fn gamma_moves_towards_that_of_the_data_from_both_sides() {
        let truth = 6.0f64;
        let (rows, labels) = sphere(3000, truth);
        for start_gamma in [0.2, 150.0] {
            let params = DkgpParams { inducing: 120, start_gamma, ..DkgpParams::default() };
            let found = learn(&rows, &labels, params).unwrap();
            let distance = |gamma: f64| (gamma / truth).ln().abs();
            assert!(distance(found.gamma) < 0.5 * distance(start_gamma), "{found:?}");
            assert!(found.elbo_per_row > found.start_elbo_per_row && found.accuracy > 0.8);
        }
    }

    #[test]
    fn number_of_threads_does_not_matter() {
        let (rows, labels) = sphere(1500, 3.0);
        let with = |threads| {
            let params = DkgpParams { inducing: 150, most_steps: 25, ..DkgpParams::default() };
            with_threads(threads, || learn(&rows, &labels, params).unwrap())
        };
        assert_eq!(with(1), with(2));
        assert_eq!(with(1), with(3));
    }

    #[test]
    fn few_rows_and_repeated_rows_are_survived() {
        let rows = Array2::from_shape_fn((6, 2), |(i, j)| ((i % 2) + j) as f64 + 0.5);
        let params = DkgpParams { most_steps: 30, ..DkgpParams::default() };
        let found = learn(&rows, &[1, 2, 1, 2, 1, 2], params).unwrap();
        assert!(found.gamma.is_finite() && found.elbo_per_row < 0.0);
    }

    #[test]
    fn labels_and_directions_are_needed() {
        let rows = Array2::<f64>::ones((6, 2));
        let data = Dataset::new("train", rows.view());
        let error = learn_gamma(&DkgpParams::default(), &training(&data)).unwrap_err().to_string();
        assert!(error.starts_with("dkgp on train needs labels: "), "{error}");
        let mut zero = rows.clone();
        zero.row_mut(2).fill(0.0);
        let error = learn(&zero, &[0, 1, 0, 1, 0, 1], DkgpParams::default()).unwrap_err();
        assert!(matches!(error, Error::ZeroRow { row: 2, .. }), "{error}");
    }

    #[test]
    fn labels_that_have_nothing_to_do_with_the_rows_are_noted() {
        #[derive(Default)]
        struct Listener(std::sync::Mutex<Vec<String>>);
        impl crate::Observer for Listener {
            fn note(&self, text: &str) {
                self.0.lock().unwrap().push(text.to_owned());
            }
        }
        let notes = |labels: &[i64], rows: &Array2<f64>| {
            let data =
                Dataset::new("train", rows.view()).with_labels(Labels::from(labels)).unwrap();
            let listener = Listener::default();
            let params = DkgpParams { inducing: 40, most_steps: 200, ..DkgpParams::default() };
            let training = Training { observer: &listener, ..training(&data) };
            learn_gamma(&params, &training).unwrap();
            listener.0.into_inner().unwrap()
        };
        let (rows, labels) = sphere(600, 3.0);
        assert!(notes(&labels, &rows).is_empty());
        let mut random = Random::new(5, Stream::Synthetic);
        let noise: Vec<i64> = (0..600).map(|_| random.below(3) as i64).collect();
        assert!(notes(&noise, &rows)[0].starts_with("the labels hardly determine gamma"));
    }

    #[test]
    fn an_observer_can_stop_the_search() {
        struct Impatient;
        impl crate::Observer for Impatient {
            fn interrupted(&self) -> bool {
                true
            }
        }
        let (rows, labels) = sphere(50, 3.0);
        let data =
            Dataset::new("train", rows.view()).with_labels(Labels::from(&labels[..])).unwrap();
        let calm = Training { observer: &Silent, ..training(&data) };
        let params = DkgpParams { most_steps: 1, ..DkgpParams::default() };
        assert!(learn_gamma(&params, &calm).is_ok());
        let stopped = learn_gamma(&params, &Training { observer: &Impatient, ..calm });
        assert!(matches!(stopped, Err(Error::Interrupted { .. })));
    }
}
