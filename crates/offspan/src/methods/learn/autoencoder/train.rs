//! Training by minibatches until rows held aside are reconstructed no better.

use ndarray::{Array1, Array2};
use serde::{Deserialize, Serialize};

use crate::io::observer::check_interrupt;
use crate::methods::learn::adam::Adam;
use crate::methods::learn::plateau::Plateau;
use crate::methods::learn::rows::{KeptRows, read_batch};
use crate::numeric::random::{Random, Stream};
use crate::training::Training;
use crate::training::statistics::Channels;
use crate::{Error, Preprocess, Result};

use super::layer::Layer;
use super::network::Network;
use super::{Autoencoder, AutoencoderParams};

const BATCH: usize = 256;
const RATE: f64 = 1e-3;

/// Rows held aside: this share of all, but not more than suffices for a sure mean.
const ASIDE_SHARE: f64 = 0.05;
const MOST_ASIDE: usize = 5000;

/// Epochs without a relative improvement of the error aside by the tolerance end the training.
const TOLERANCE: f64 = 1e-3;
const PATIENCE: usize = 3;

/// A variance of at most this share of the squared mean is what rounding leaves of equal rows.
const EQUAL_ROWS: f64 = 1e-24;

/// How a training went.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrainingReport {
    /// Passes over the training rows.
    pub(crate) epochs: usize,
    /// The smallest mean of ‖z − d(e(z))‖² over the rows held aside; its weights are kept.
    pub(crate) best_error: f64,
    /// Whether the error aside settled before the limit of epochs was reached.
    pub(crate) stopped_by_rule: bool,
}

/// Trains an autoencoder with checked parameters.
pub(crate) fn train(
    params: &AutoencoderParams,
    training: &Training<'_>,
    channels: &Channels,
) -> Result<(Autoencoder, TrainingReport)> {
    let width = training.data.width();
    let kept = KeptRows::new(training);
    if kept.count() < 2 {
        let (what, got) = (training.data.name.clone(), kept.count());
        return Err(Error::TooFewRows { what, expected: 2, got });
    }
    let batches = Batches::new(training, channels)?;
    let aside = ((ASIDE_SHARE * kept.count() as f64) as usize).clamp(1, MOST_ASIDE);
    let aside = kept.sample(aside, params.seed, Stream::Evaluation, 0);
    let mut rows = kept.without(&aside);

    let (hidden, code) = params.units(width);
    let mut random = Random::new(params.seed, Stream::Autoencoder);
    let mut network = Network::random(width, hidden, code, &mut random);
    let mut optimiser = Optimiser::new(&mut network);
    let mut best = (f64::INFINITY, network.clone());
    let mut plateau = Plateau::new(TOLERANCE, PATIENCE);
    let (mut epochs, mut stopped_by_rule) = (0, false);
    let steps = params.most_epochs * rows.len().div_ceil(BATCH);
    training.observer.begin("autoencoder", steps as u64);
    while epochs < params.most_epochs && !stopped_by_rule {
        shuffle(&mut rows, params.seed, epochs);
        for chosen in rows.chunks_mut(BATCH) {
            check_interrupt(training.observer)?;
            // Order within a batch does not matter; files are read forwards.
            chosen.sort_unstable();
            let gradient = network.gradient(batches.read(chosen)?.view());
            optimiser.step(&mut network, gradient);
            training.observer.advance(1);
        }
        epochs += 1;
        let error = batches.mean_error(&network, &aside)?;
        if error < best.0 {
            best = (error, network.clone());
        }
        stopped_by_rule = plateau.reached(error);
    }
    let (best_error, network) = best;
    if !best_error.is_finite() {
        let what = training.data.name.clone();
        return Err(Error::TooLarge { what, single: true });
    }
    let best_error = best_error * batches.rms * batches.rms;
    let model = Autoencoder { centre: batches.mean, network: network.scaled(batches.rms) };
    Ok((model, TrainingReport { epochs, best_error, stopped_by_rule }))
}

/// Reads rows in the scale that the training works in.
struct Batches<'a> {
    training: &'a Training<'a>,
    mean: Array1<f32>,
    /// Root of the mean variance of the columns: one number for all, so that columns keep their
    /// proportions, and with them the meaning of the reconstruction error.
    rms: f64,
}

impl<'a> Batches<'a> {
    fn new(training: &'a Training<'a>, channels: &Channels) -> Result<Self> {
        let what = || training.data.name.clone();
        let (variance, size) = (channels.variance.sum(), channels.mean.dot(&channels.mean));
        if !(variance.is_finite() && size.is_finite()) {
            return Err(Error::TooLarge { what: what(), single: true });
        }
        // Rounding leaves a little of equal rows.
        if variance <= EQUAL_ROWS * size {
            return Err(Error::NoVariance { what: what() });
        }
        let rms = (variance / channels.variance.len() as f64).sqrt();
        Ok(Batches { training, mean: channels.mean.mapv(|x| x as f32), rms })
    }

    fn read(&self, rows: &[usize]) -> Result<Array2<f32>> {
        let mut x: Array2<f32> = read_batch(self.training, rows, Preprocess::default())?;
        x -= &self.mean;
        x.mapv_inplace(|x| (f64::from(x) / self.rms) as f32);
        Ok(x)
    }

    /// Mean squared error of rows.
    fn mean_error(&self, network: &Network, rows: &[usize]) -> Result<f64> {
        let mut sum = 0.0;
        for part in rows.chunks(BATCH) {
            check_interrupt(self.training.observer)?;
            sum += network.squared_errors(self.read(part)?.view()).iter().sum::<f64>();
        }
        Ok(sum / rows.len() as f64)
    }
}

/// A uniformly random order (Fisher & Yates), one per epoch.
fn shuffle(rows: &mut [usize], seed: u64, epoch: usize) {
    let mut random = Random::numbered(seed, Stream::Batches, epoch as u32);
    for last in (1..rows.len()).rev() {
        rows.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// Adam for every weight and bias.
struct Optimiser([[Adam<f32>; 2]; 4]);

impl Optimiser {
    fn new(network: &mut Network) -> Self {
        let [a, b, c, d] = &mut network.layers;
        let of = |layer: &mut Layer| layer.parameters_mut().map(|part| Adam::new(part.len()));
        Optimiser([of(a), of(b), of(c), of(d)])
    }

    fn step(&mut self, network: &mut Network, mut gradient: [Layer; 4]) {
        let layers = network.layers.iter_mut().zip(&mut gradient);
        for ((layer, gradient), adam) in layers.zip(&mut self.0) {
            let parts = layer.parameters_mut().into_iter().zip(gradient.parameters_mut());
            for ((parameters, gradient), adam) in parts.zip(adam) {
                adam.step(parameters, gradient, RATE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Dataset;
    use crate::methods::learn::rows::testing::{training, with_threads};
    use crate::training::statistics::{Needs, Statistics};

    /// Rows near a curved surface of two dimensions in ten, far from the origin and of any scale.
    fn surface(count: usize, scale: f32) -> Array2<f32> {
        let mut random = Random::new(6, Stream::Synthetic);
        let mut rows = Array2::zeros((count, 10));
        for mut row in rows.rows_mut() {
            let (s, t) = (random.normal() as f32, random.normal() as f32);
            row.iter_mut().enumerate().for_each(|(j, x)| {
                let angle = j as f32;
                *x = scale * (5.0 + s * angle.cos() + t * angle.sin() + 0.3 * s.max(0.0) * t);
            });
        }
        rows
    }

    fn fit(rows: &Array2<f32>, most_epochs: usize) -> (Autoencoder, TrainingReport) {
        let data = Dataset::new("train", rows.view());
        let params = AutoencoderParams { hidden: Some(32), most_epochs, ..Default::default() };
        train_on(&params.check().unwrap(), &training(&data)).unwrap()
    }

    fn train_on(
        params: &AutoencoderParams,
        training: &Training<'_>,
    ) -> Result<(Autoencoder, TrainingReport)> {
        let needs = Needs { channels: true, ..Needs::default() };
        let known = Statistics::gather(training, &needs)?;
        train(params, training, known.channels())
    }

    #[test]
    fn equal_rows_and_single_rows_are_errors() {
        let rows = Array2::<f32>::from_elem((5, 2), 0.3);
        let told = |rows: ndarray::ArrayView2<'_, f32>| {
            let data = Dataset::new("train", rows);
            train_on(&AutoencoderParams::default(), &training(&data)).unwrap_err()
        };
        assert!(matches!(told(rows.view()), Error::NoVariance { .. }));
        let one = rows.slice(ndarray::s![..1, ..]);
        assert!(matches!(told(one), Error::TooFewRows { got: 1, .. }));
    }

    #[test]
    fn learns_a_surface_at_any_scale_and_sees_what_lies_off_it() {
        for scale in [1e-6, 1.0, 1e6] {
            let rows = surface(2000, scale);
            let (model, report) = fit(&rows, 300);
            let mut errors = vec![0.0; 2000];
            model.squared_errors(rows.view(), &mut errors);
            let mean = errors.iter().sum::<f64>() / 2000.0;
            let mut off = rows.clone();
            off.column_mut(3).iter_mut().for_each(|x| *x += 3.0 * scale);
            model.squared_errors(off.view(), &mut errors);
            let mean_off = errors.iter().sum::<f64>() / 2000.0;
            assert!(mean_off > 20.0 * mean, "scale {scale}: {mean} {mean_off}");
            let ratio = mean / report.best_error;
            assert!((0.5..2.0).contains(&ratio), "scale {scale}: {ratio} {report:?}");
        }
    }

    #[test]
    fn stops_by_the_rule_or_at_the_limit_and_says_which() {
        let rows = surface(400, 1.0);
        let (_, short) = fit(&rows, 2);
        assert!(short.epochs == 2 && !short.stopped_by_rule);
        let (_, long) = fit(&rows, 5000);
        assert!(long.epochs < 5000 && long.stopped_by_rule);
        assert!(long.best_error < short.best_error);
    }

    #[test]
    fn number_of_threads_does_not_matter() {
        let rows = surface(700, 1.0);
        let with = |threads| with_threads(threads, || fit(&rows, 3));
        assert_eq!(with(1), with(2));
        assert_eq!(with(1), with(3));
    }

    #[test]
    fn two_rows_are_enough_to_run() {
        let rows = surface(2, 1.0);
        assert!(fit(&rows, 2).1.best_error.is_finite());
    }
}
