//! Tensor sketch (Pham & Pagh): random features of the polynomial kernel (aᵀb + c)^d.
//!
//! The row gets √c as one more entry, which makes the kernel homogeneous. Then d independent count
//! sketches are convolved, that is, multiplied after a Fourier transform.

use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2};
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

use crate::graph::{Builder, Value};
use crate::numeric::random::{Random, Stream};
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::{Error, Kernel, Real, Result};

/// Buckets and signs that are drawn, at most.
const MOST_DRAWN: usize = 1 << 24;

/// A tensor sketch of a polynomial kernel.
#[derive(Clone)]
pub struct TensorSketch<T> {
    input: usize,
    features: usize,
    root_coef0: T,
    /// Per factor of the product: bucket and sign of every entry of (x, √c).
    sketches: Vec<Vec<(usize, T)>>,
    forward: Arc<dyn RealToComplex<T>>,
    inverse: Arc<dyn ComplexToReal<T>>,
}

impl<T> std::fmt::Debug for TensorSketch<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TensorSketch")
            .field("input", &self.input)
            .field("features", &self.features)
            .field("degree", &self.sketches.len())
            .finish_non_exhaustive()
    }
}

impl<T: Real> TensorSketch<T> {
    /// Draws a sketch from a seed.
    ///
    /// # Errors
    /// If the kernel is not polynomial, or the rows are too wide for its degree.
    pub fn seeded(kernel: Kernel, input: usize, features: usize, seed: u64) -> Result<Self> {
        kernel.check()?;
        let Kernel::Polynomial { degree, coef0 } = kernel else {
            return Err(Error::parameter(
                "kernel",
                "polynomial for a tensor sketch (gaussian and laplacian: kpca-rff; linear: pca)",
                kernel.name(),
            ));
        };
        // A file has only the seed of the sketch, so that its length says nothing of what is drawn.
        let most = (MOST_DRAWN / input.saturating_add(1)) as u32;
        if degree > most {
            let expected = format!("at most {most} for {input} columns");
            return Err(Error::parameter("degree", expected, degree));
        }
        let mut random = Random::new(seed, Stream::Sketch);
        let mut entry = || (random.below(features as u64) as usize, T::from_double(random.sign()));
        let sketches = (0..degree).map(|_| (0..=input).map(|_| entry()).collect()).collect();
        let mut planner = RealFftPlanner::new();
        Ok(TensorSketch {
            input,
            features,
            root_coef0: T::from_double(coef0.sqrt()),
            sketches,
            forward: planner.plan_fft_forward(features),
            inverse: planner.plan_fft_inverse(features),
        })
    }

    /// Length of x.
    #[must_use]
    pub fn input(&self) -> usize {
        self.input
    }

    /// Number of features.
    #[must_use]
    pub fn output(&self) -> usize {
        self.features
    }

    pub(crate) fn apply(&self, x: ArrayView2<'_, T>, mut out: ArrayViewMut2<'_, T>) {
        let mut counts = self.forward.make_input_vec();
        let mut spectrum = self.forward.make_output_vec();
        let mut product = self.forward.make_output_vec();
        // The transforms are not scaled: dividing by the length once undoes the round trip.
        let scale = T::from_double(1.0 / self.features as f64);
        for (x, mut out) in x.rows().into_iter().zip(out.rows_mut()) {
            let (x, out) = (contiguous(&x), contiguous_mut(&mut out));
            for (factor, sketch) in self.sketches.iter().enumerate() {
                counts.fill(T::default());
                for (&(bucket, sign), &value) in
                    sketch.iter().zip(x.iter().chain([&self.root_coef0]))
                {
                    counts[bucket] += sign * value;
                }
                transform(self.forward.process(&mut counts, &mut spectrum));
                if factor == 0 {
                    product.copy_from_slice(&spectrum);
                } else {
                    product.iter_mut().zip(&spectrum).for_each(|(p, &s)| *p = *p * s);
                }
            }
            // The spectrum of a real signal has real ends; rounding may leave a trace there.
            product[0].im = T::default();
            if self.features.is_multiple_of(2)
                && let Some(last) = product.last_mut()
            {
                last.im = T::default();
            }
            transform(self.inverse.process(&mut product, out));
            out.iter_mut().for_each(|o| *o *= scale);
        }
    }
}

impl<T: Real> TensorSketch<T> {
    /// The same within a graph, where a Fourier transform is a product with cosines and sines: count sketches are
    /// linear, so each of them and its transform are two matrices, and the way back is another two.
    pub(crate) fn graph(&self, x: Value, builder: &mut Builder<'_>) -> Value {
        let features = self.features;
        let half = features / 2 + 1;
        let angle = |bucket: usize, wave: usize| {
            let steps = (bucket as u64 * wave as u64 % features as u64) as f64;
            std::f64::consts::TAU * steps / features as f64
        };
        let mut product: Option<(Value, Value)> = None;
        for sketch in &self.sketches {
            let mut part = |of: fn(f64) -> f64, name: &str| {
                let entry = |channel: usize, wave: usize| {
                    let (bucket, sign) = sketch[channel];
                    sign.to_double() * of(angle(bucket, wave))
                };
                let matrix = Array2::from_shape_fn((self.input, half), |(c, w)| entry(c, w));
                let root = self.root_coef0.to_double();
                let constant = Array1::from_shape_fn(half, |w| root * entry(self.input, w));
                let matrix = builder.owned(name, matrix);
                let constant = builder.vector("constant", &constant);
                let waves = builder.matmul(x, matrix);
                builder.add(waves, constant)
            };
            let (real, imaginary) = (part(f64::cos, "cosines"), part(|a| -a.sin(), "sines"));
            product = Some(match product {
                None => (real, imaginary),
                Some((a, b)) => {
                    let (ac, bd) = (builder.mul(a, real), builder.mul(b, imaginary));
                    let (ad, bc) = (builder.mul(a, imaginary), builder.mul(b, real));
                    (builder.sub(ac, bd), builder.add(ad, bc))
                }
            });
        }
        let (real, imaginary) = product.unwrap_or_else(|| unreachable!("a degree of at least 1"));
        // The waves that are not written down mirror the others, but for the ends.
        let share = |wave: usize| {
            let alone = wave == 0 || 2 * wave == features;
            if alone { 1.0 / features as f64 } else { 2.0 / features as f64 }
        };
        let back = |of: fn(f64) -> f64| {
            Array2::from_shape_fn((half, features), |(wave, bucket)| {
                share(wave) * of(angle(bucket, wave))
            })
        };
        let cosines = builder.owned("cosines_back", back(f64::cos));
        let sines = builder.owned("sines_back", back(|angle| -angle.sin()));
        let (real, imaginary) = (builder.matmul(real, cosines), builder.matmul(imaginary, sines));
        builder.add(real, imaginary)
    }
}

/// The planner's buffers have the right lengths, so a transform cannot fail.
fn transform(result: Result<(), realfft::FftError>) {
    result.unwrap_or_else(|error| unreachable!("planned buffers: {error}"));
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;

    #[test]
    fn inner_products_approximate_the_polynomial_kernel() {
        for (degree, features) in [(1, 512), (2, 4096), (3, 4095)] {
            let kernel = Kernel::Polynomial { degree, coef0: 1.0 };
            let rows = Array2::from_shape_fn((10, 20), |(i, j)| {
                ((i * 31 + j * 17 + i * j) % 19) as f64 / 60.0
            });
            let map = TensorSketch::<f64>::seeded(kernel, 20, features, 3).unwrap();
            let mut phi = Array2::zeros((10, features));
            map.apply(rows.view(), phi.view_mut());
            let gram = phi.dot(&phi.t());
            let mut exact = Array2::zeros((10, 10));
            kernel.block(
                rows.view(),
                &crate::span::kernel::Anchors::new(kernel, rows.clone()),
                exact.view_mut(),
            );
            let error = (&gram - &exact).iter().map(|x| x.abs()).sum::<f64>() / exact.sum();
            assert!(error < 0.06, "degree {degree}: {error}");
        }
    }
}
