//! The largest eigenvalue of a symmetric positive matrix, by the Lanczos method: a few dozen products of the
//! matrix with a vector, where all eigenvalues would take a reduction to tridiagonal form.

use ndarray::{Array1, Array2, s};

use crate::Result;
use crate::numeric::linalg;
use crate::numeric::random::{Random, Stream};
use crate::numeric::vector::{self, contiguous, contiguous_mut};

/// Products with the matrix.
const MOST_STEPS: usize = 120;
/// The eigenvalues of the projection are looked at every so many steps.
const STEPS_PER_LOOK: usize = 10;
/// An eigenvalue has converged when its residual is at most this share of it. Its error is then of the
/// order of the square.
const TOLERANCE: f64 = 1e-4;

/// An eigenvalue, and how far it can be from a true one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extreme {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

/// The largest eigenvalue of the matrix of `n` rows that `apply` multiplies with; `None` where it does not
/// converge.
pub(crate) fn largest(n: usize, apply: impl Fn(&[f64]) -> Array1<f64>) -> Result<Option<Extreme>> {
    let steps = MOST_STEPS.min(n);
    let mut basis = Array2::<f64>::zeros((steps, n));
    let mut projected = Array2::<f64>::zeros((steps, steps));
    let mut random = Random::new(0, Stream::Krylov);
    let mut next = Array1::from_shape_simple_fn(n, || random.normal());
    let mut length = vector::sum_of_squares(contiguous(&next)).sqrt();
    for step in 0..steps {
        next /= length;
        basis.row_mut(step).assign(&next);
        let mut image = apply(contiguous(&next));
        projected[[step, step]] = vector::dot(contiguous(&next), contiguous(&image));
        // Twice: what rounding leaves along the others would come back as copies of eigenvalues.
        for _ in 0..2 {
            for other in basis.slice(s![..=step, ..]).rows() {
                let along = vector::dot(contiguous(&other), contiguous(&image));
                vector::subtract_scaled(contiguous_mut(&mut image), along, contiguous(&other));
            }
        }
        length = vector::sum_of_squares(contiguous(&image)).sqrt();
        let size = step + 1;
        let exhausted = size == n || length <= f64::EPSILON * projected[[0, 0]].abs();
        if size % STEPS_PER_LOOK == 0 || exhausted {
            let eigen = linalg::symmetric_eigen(projected.slice(s![..size, ..size]))?;
            let value = eigen.values[0];
            let error = if exhausted { 0.0 } else { length * eigen.vectors[[0, step]].abs() };
            if error <= TOLERANCE * value {
                return Ok(Some(Extreme { value, error }));
            }
        }
        if size < steps {
            projected[[step, size]] = length;
            projected[[size, step]] = length;
        }
        next = image;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(n: usize) -> Array2<f64> {
        let x = Array2::from_shape_fn((n, n), |(i, j)| {
            ((i * 7 + j * 13 + i * j) % 23) as f64 / 23.0 - 0.4
        });
        x.dot(&x.t())
    }

    #[test]
    fn it_is_that_of_the_whole_decomposition() {
        for n in [1, 2, 7, 60, 200] {
            let a = wave(n);
            let whole = linalg::symmetric_eigen(a.view()).unwrap().values[0];
            let found =
                largest(n, |x| a.dot(&Array1::from(x.to_vec()))).unwrap().expect("it converges");
            assert!(found.error <= TOLERANCE * whole, "{n}: {found:?}");
            assert!((found.value - whole).abs() <= 1e-6 * whole, "{n}: {found:?}, {whole}");
        }
    }

    #[test]
    fn equal_eigenvalues_are_found_in_one_step() {
        let found = largest(50, |x| 3.0 * Array1::from(x.to_vec())).unwrap().unwrap();
        assert!((found.value - 3.0).abs() < 1e-12, "{found:?}");
    }
}
