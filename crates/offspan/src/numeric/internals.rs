//! The inner loops as plain functions over slices, for micro-benchmarks (`bench/driver`).
//!
//! Behind the feature `internals`; no promise of stability covers anything here.

use ndarray::{Array2, ArrayView2, ArrayViewMut2};

use crate::numeric::hadamard;
use crate::numeric::math;
use crate::numeric::product::fixed_weights::FixedWeights;
use crate::numeric::product::weights::Weights;

/// Weights packed for products in single precision.
#[derive(Debug)]
pub struct PackedWeights(Weights<f32>);

impl PackedWeights {
    /// Row j of the matrix gives column j of a product.
    #[must_use]
    pub fn new(matrix: Array2<f32>) -> Self {
        PackedWeights(Weights::new(matrix))
    }

    /// out = x·Wᵀ
    pub fn product(&self, x: ArrayView2<'_, f32>, out: ArrayViewMut2<'_, f32>) {
        self.0.product(x, out);
    }
}

/// Weights in 16-bit fixed point, for rows within ±1.
#[derive(Debug)]
pub struct FixedPointWeights(FixedWeights);

impl FixedPointWeights {
    /// Row j of the matrix gives column j of a product.
    #[must_use]
    pub fn new(matrix: &Array2<f32>) -> Self {
        FixedPointWeights(FixedWeights::new(matrix.mapv(f64::from).view(), 1.0))
    }

    /// out = x·Wᵀ, row-major.
    pub fn product(&self, x: &[f32], out: &mut [f32]) {
        self.0.product(x, out);
    }
}

/// x ← scale · cos(x + phase)
pub fn scaled_cosines_f32(x: &mut [f32], phases: &[f32], scale: f32) {
    math::scaled_cosines(x, 1.0, phases, scale);
}

/// x ← scale · cos(x + phase)
pub fn scaled_cosines_f64(x: &mut [f64], phases: &[f64], scale: f64) {
    math::scaled_cosines(x, 1.0, phases, scale);
}

/// x ← exp(x) − 1
pub fn exp_minus_one_f32(x: &mut [f32]) {
    math::exp_minus_one(x);
}

/// x ← exp(x) − 1
pub fn exp_minus_one_f64(x: &mut [f64]) {
    math::exp_minus_one(x);
}

/// In-place Walsh–Hadamard transform; the length is a power of two.
pub fn walsh_hadamard_f32(x: &mut [f32]) {
    hadamard::single_transform(x);
}
