//! One dense layer: y = W·x + b.

use ndarray::{Array1, Array2, ArrayView2, Axis};

use crate::graph::{Builder, Value};
use crate::io::{TensorFile, TensorWriter};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::random::Random;
use crate::{Error, Result};

/// A dense layer, or the gradient of one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layer {
    /// W, one row per output.
    pub(super) weight: Array2<f32>,
    /// b
    pub(super) bias: Array1<f32>,
}

impl Layer {
    /// Gaussian weights with which outputs of rms √`gain` come from inputs of rms 1; no bias.
    pub(super) fn random(input: usize, output: usize, gain: f64, random: &mut Random) -> Self {
        let deviation = (gain / input as f64).sqrt();
        let draw = || (deviation * random.normal()) as f32;
        let weight = Array2::from_shape_simple_fn((output, input), draw);
        Layer { weight, bias: Array1::zeros(output) }
    }

    /// W·x + b of every row.
    pub(super) fn apply(&self, x: ArrayView2<'_, f32>) -> Array2<f32> {
        unpacked::product(x, self.weight.t()) + &self.bias
    }

    /// The same within a graph.
    pub(super) fn graph(&self, x: Value, builder: &mut Builder<'_>) -> Value {
        let product = builder.linear("layer", x, self.weight.view());
        let bias = builder.vector("layer_bias", &self.bias);
        builder.add(product, bias)
    }

    /// The gradient with respect to the layer, from that with respect to its outputs.
    pub(super) fn gradient(x: ArrayView2<'_, f32>, outputs: ArrayView2<'_, f32>) -> Layer {
        Layer { weight: linalg::product(outputs.t(), x), bias: outputs.sum_axis(Axis(0)) }
    }

    /// The gradient with respect to the inputs, from that with respect to the outputs.
    pub(super) fn back(&self, outputs: ArrayView2<'_, f32>) -> Array2<f32> {
        linalg::product(outputs, self.weight.view())
    }

    /// The numbers of weight and bias, to change.
    pub(super) fn parameters_mut(&mut self) -> [&mut [f32]; 2] {
        [
            self.weight.as_slice_mut().unwrap_or_else(|| unreachable!("made in standard layout")),
            self.bias.as_slice_mut().unwrap_or_else(|| unreachable!("made in standard layout")),
        ]
    }

    pub(super) fn write<'a>(&'a self, name: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{name}.weight"), &self.weight);
        writer.array1(format!("{name}.bias"), &self.bias);
    }

    /// Reads a layer for inputs of this width, with outputs of that width if it is known.
    pub(super) fn read(
        file: &TensorFile,
        name: &str,
        input: usize,
        output: Option<usize>,
    ) -> Result<Self> {
        let weight: Array2<f32> = file.array2(&format!("{name}.weight"))?;
        let bias: Array1<f32> = file.array1(&format!("{name}.bias"))?;
        let output = output.unwrap_or(weight.nrows());
        let expect = |tensor: &str, expected: &[usize], got: &[usize]| {
            if expected == got {
                return Ok(());
            }
            let what = format!("`{name}.{tensor}` of the detector");
            Err(Error::shape(what, format!("{expected:?}"), format!("{got:?}")))
        };
        expect("weight", &[output, input], weight.shape())?;
        expect("bias", &[output], bias.shape())?;
        Ok(Layer { weight, bias })
    }
}
