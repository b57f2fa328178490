//! Four layers m → hidden → code → hidden → m, and the gradient of their reconstruction error.

use ndarray::{Array2, ArrayView2, Zip};

use crate::Result;
use crate::graph::{Builder, Op, Value};
use crate::io::{TensorFile, TensorWriter};
use crate::numeric::random::Random;
use crate::numeric::vector::{self, contiguous};

use super::layer::Layer;

/// The layers' names in files.
const NAMES: [&str; 4] = ["encoder.hidden", "encoder.code", "decoder.hidden", "decoder.output"];

/// Encoder and decoder; the two hidden layers are rectified, code and output are linear.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Network {
    pub(super) layers: [Layer; 4],
}

impl Network {
    /// Weights that keep the rms of a signal from layer to layer; rectification halves its square.
    pub(super) fn random(width: usize, hidden: usize, code: usize, random: &mut Random) -> Self {
        Network {
            layers: [
                Layer::random(width, hidden, 2.0, random),
                Layer::random(hidden, code, 1.0, random),
                Layer::random(code, hidden, 2.0, random),
                Layer::random(hidden, width, 1.0, random),
            ],
        }
    }

    /// The outputs of the four layers.
    fn forward(&self, x: ArrayView2<'_, f32>) -> [Array2<f32>; 4] {
        let [first, second, third, fourth] = &self.layers;
        let hidden = rectified(first.apply(x));
        let code = second.apply(hidden.view());
        let back = rectified(third.apply(code.view()));
        let output = fourth.apply(back.view());
        [hidden, code, back, output]
    }

    /// ‖x − d(e(x))‖² of every row.
    pub(super) fn squared_errors(&self, x: ArrayView2<'_, f32>) -> Vec<f64> {
        let [.., output] = self.forward(x);
        let error = output - x;
        error.rows().into_iter().map(|row| vector::sum_of_squares(contiguous(&row))).collect()
    }

    /// d(e(x)) within a graph.
    pub(super) fn graph(&self, x: Value, builder: &mut Builder<'_>) -> Value {
        let [first, second, third, fourth] = &self.layers;
        let hidden = first.graph(x, builder);
        let hidden = builder.node(Op::Relu, &[hidden]);
        let code = second.graph(hidden, builder);
        let back = third.graph(code, builder);
        let back = builder.node(Op::Relu, &[back]);
        fourth.graph(back, builder)
    }

    /// The gradient of the mean of (x − d(e(x)))² over all rows and columns.
    pub(super) fn gradient(&self, x: ArrayView2<'_, f32>) -> [Layer; 4] {
        let [_, second, third, fourth] = &self.layers;
        let [hidden, code, back, output] = self.forward(x);
        let factor = 2.0 / x.len() as f32;
        let outputs = (output - x) * factor;
        let backs = where_active(fourth.back(outputs.view()), &back);
        let codes = third.back(backs.view());
        let hiddens = where_active(second.back(codes.view()), &hidden);
        [
            Layer::gradient(x, hiddens.view()),
            Layer::gradient(hidden.view(), codes.view()),
            Layer::gradient(code.view(), backs.view()),
            Layer::gradient(back.view(), outputs.view()),
        ]
    }

    /// The network that does the same to rows that are `scale` times as large.
    pub(super) fn scaled(mut self, scale: f64) -> Self {
        let [first, .., last] = &mut self.layers;
        first.weight.mapv_inplace(|x| (f64::from(x) / scale) as f32);
        last.weight.mapv_inplace(|x| (f64::from(x) * scale) as f32);
        last.bias.mapv_inplace(|x| (f64::from(x) * scale) as f32);
        self
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        for (layer, name) in self.layers.iter().zip(NAMES) {
            layer.write(&format!("{prefix}{name}"), writer);
        }
    }

    pub(super) fn read(file: &TensorFile, prefix: &str, width: usize) -> Result<Self> {
        let read = |at: usize, input: usize, output: Option<usize>| {
            Layer::read(file, &format!("{prefix}{}", NAMES[at]), input, output)
        };
        let first = read(0, width, None)?;
        let second = read(1, first.bias.len(), None)?;
        let third = read(2, second.bias.len(), None)?;
        let fourth = read(3, third.bias.len(), Some(width))?;
        Ok(Network { layers: [first, second, third, fourth] })
    }
}

fn rectified(mut x: Array2<f32>) -> Array2<f32> {
    x.mapv_inplace(|x| x.max(0.0));
    x
}

/// Zero where the rectified outputs are: their gradient does not pass.
fn where_active(mut gradient: Array2<f32>, outputs: &Array2<f32>) -> Array2<f32> {
    Zip::from(&mut gradient).and(outputs).for_each(|g, &o| {
        if o <= 0.0 {
            *g = 0.0;
        }
    });
    gradient
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::Stream;

    fn rows(count: usize) -> Array2<f32> {
        let mut random = Random::new(4, Stream::Synthetic);
        Array2::from_shape_simple_fn((count, 6), || random.normal() as f32)
    }

    fn network() -> Network {
        let mut network = Network::random(6, 5, 3, &mut Random::new(2, Stream::Autoencoder));
        for layer in &mut network.layers {
            layer.bias.iter_mut().zip(1..).for_each(|(b, i)| *b = 0.1 * i as f32 - 0.2);
        }
        network
    }

    fn loss(network: &Network, x: &Array2<f32>) -> f64 {
        network.squared_errors(x.view()).iter().sum::<f64>() / x.len() as f64
    }

    /// Which hidden units are active.
    fn pattern(network: &Network, x: &Array2<f32>) -> Vec<bool> {
        let [hidden, _, back, _] = network.forward(x.view());
        hidden.iter().chain(&back).map(|&h| h > 0.0).collect()
    }

    /// While no unit switches, the loss is quadratic in every single parameter, so that central
    /// differences are exact but for rounding.
    #[test]
    fn gradient_equals_finite_differences_where_no_unit_switches() {
        let (network, x, step) = (network(), rows(11), 1e-2f32);
        let mut gradient = network.gradient(x.view());
        let (mut compared, mut all) = (0, 0);
        for (at, layer) in gradient.iter_mut().enumerate() {
            for part in 0..2 {
                let expected: Vec<f32> = layer.parameters_mut()[part].to_vec();
                for (i, &expected) in expected.iter().enumerate() {
                    let moved = |by: f32| {
                        let mut other = network.clone();
                        other.layers[at].parameters_mut()[part][i] += by;
                        other
                    };
                    let (up, down) = (moved(step), moved(-step));
                    all += 1;
                    if pattern(&up, &x) != pattern(&down, &x) {
                        continue;
                    }
                    compared += 1;
                    let slope = (loss(&up, &x) - loss(&down, &x)) / f64::from(2.0 * step);
                    let error = (slope - f64::from(expected)).abs();
                    assert!(error < 5e-5, "layer {at}, {part}, {i}: {slope} {expected}");
                }
            }
        }
        assert!(compared > all / 2, "{compared} of {all}");
    }

    #[test]
    fn a_scaled_network_gives_scaled_errors() {
        let (network, x) = (network(), rows(7));
        let errors = network.squared_errors(x.view());
        let scaled = network.scaled(1000.0).squared_errors((x * 1000.0).view());
        for (a, b) in errors.iter().zip(scaled) {
            assert!((a * 1e6 / b - 1.0).abs() < 1e-5, "{a} {b}");
        }
    }
}
