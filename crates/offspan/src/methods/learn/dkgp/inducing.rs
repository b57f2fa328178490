//! Inducing points and the whitened kernel coordinates against them.

use ndarray::{Array2, ArrayView2};

use crate::Result;
use crate::numeric::linalg;
use crate::numeric::math;

/// Added to the diagonal of the inducing points' kernel: equal points, or a γ so small that all look
/// alike, must not stop the Cholesky decomposition.
const JITTER: f64 = 1e-6;

/// Inducing points, as unit rows.
pub(super) struct Inducing {
    rows: Array2<f64>,
    distances: Array2<f64>,
}

impl Inducing {
    pub(super) fn new(rows: Array2<f64>) -> Self {
        let mut inducing = Inducing { rows, distances: Array2::zeros((0, 0)) };
        inducing.distances = inducing.distances_to(inducing.rows.view());
        inducing
    }

    pub(super) fn count(&self) -> usize {
        self.rows.nrows()
    }

    /// ‖x − point‖² = 2 − 2·xᵀpoint for unit rows x, one row per x.
    pub(super) fn distances_to(&self, x: ArrayView2<'_, f64>) -> Array2<f64> {
        let mut distances = linalg::product(x, self.rows.t());
        distances.mapv_inplace(|cosine| (2.0 - 2.0 * cosine).max(0.0));
        distances
    }

    /// Decomposes the points' kernel for a γ.
    pub(super) fn whiten(&self, gamma: f64) -> Result<Whitening> {
        let mut kernel = kernel(self.distances.view(), gamma);
        let slope = &kernel * &self.distances * -gamma;
        kernel.diag_mut().mapv_inplace(|x| x + JITTER);
        let inverse = linalg::lower_inverse(linalg::cholesky(kernel.view())?.view());
        let middle = linalg::product(inverse.view(), slope.view());
        let mut turn = linalg::product(middle.view(), inverse.t());
        for ((i, j), x) in turn.indexed_iter_mut() {
            *x *= if i > j { 1.0 } else { f64::from(u8::from(i == j)) * 0.5 };
        }
        Ok(Whitening { gamma, inverse, turn })
    }
}

/// exp(−γ·distances)
fn kernel(distances: ArrayView2<'_, f64>, gamma: f64) -> Array2<f64> {
    let mut kernel = distances.mapv(|squared| -gamma * squared);
    if let Some(values) = kernel.as_slice_mut() {
        math::exp_minus_one(values);
    }
    kernel.mapv_inplace(|x| x + 1.0);
    kernel
}

/// L⁻¹ for K = LLᵀ, and how it turns with ln γ.
pub(super) struct Whitening {
    gamma: f64,
    inverse: Array2<f64>,
    /// Φ(L⁻¹·dK·L⁻ᵀ), Φ the lower triangle with half the diagonal: dL = L·Φ(…), so dL⁻¹ = −Φ(…)·L⁻¹.
    turn: Array2<f64>,
}

impl Whitening {
    /// a = L⁻¹k of every row of distances.
    pub(super) fn coordinates(&self, distances: ArrayView2<'_, f64>) -> Array2<f64> {
        linalg::product(kernel(distances, self.gamma).view(), self.inverse.t())
    }

    /// da/d ln γ = L⁻¹·dk − Φ(…)·a, dk = −γ·distance·k, for those coordinates a.
    pub(super) fn slopes(
        &self,
        distances: ArrayView2<'_, f64>,
        coordinates: ArrayView2<'_, f64>,
    ) -> Array2<f64> {
        let slope = kernel(distances, self.gamma) * distances * -self.gamma;
        linalg::product(slope.view(), self.inverse.t())
            - linalg::product(coordinates, self.turn.t())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::preprocess::normalise;

    fn unit_rows(count: usize) -> Array2<f64> {
        let mut rows = Array2::from_shape_fn((count, 4), |(i, j)| {
            ((i * 5 + j * 3 + i * j) % 13) as f64 / 13.0 - 0.3
        });
        for mut row in rows.rows_mut() {
            normalise(row.as_slice_mut().unwrap());
        }
        rows
    }

    #[test]
    fn coordinates_reproduce_the_kernel_of_the_points() {
        let rows = unit_rows(6);
        let inducing = Inducing::new(rows.clone());
        let distances = inducing.distances_to(rows.view());
        let a = inducing.whiten(2.0).unwrap().coordinates(distances.view());
        let gram = a.dot(&a.t());
        for ((i, j), &got) in gram.indexed_iter() {
            let squared: f64 = (&rows.row(i) - &rows.row(j)).mapv(|x| x * x).sum();
            assert!((got - (-2.0 * squared).exp()).abs() < 2e-5, "{i} {j} {got}");
        }
    }

    #[test]
    fn slopes_equal_finite_differences() {
        let inducing = Inducing::new(unit_rows(6));
        let distances = inducing.distances_to(unit_rows(9).view());
        let at =
            |ln_gamma: f64| inducing.whiten(ln_gamma.exp()).unwrap().coordinates(distances.view());
        let (step, centre) = (1e-5, 0.4f64);
        let expected = (at(centre + step) - at(centre - step)) / (2.0 * step);
        let whitening = inducing.whiten(centre.exp()).unwrap();
        let got = whitening.slopes(distances.view(), at(centre).view());
        let worst = (&got - &expected).iter().fold(0.0f64, |w, x| w.max(x.abs()));
        assert!(worst < 1e-7, "{worst}");
    }

    #[test]
    fn equal_points_and_extreme_gammas_are_decomposed() {
        let mut rows = unit_rows(40);
        let first = rows.row(0).to_owned();
        rows.row_mut(7).assign(&first);
        let inducing = Inducing::new(rows);
        for gamma in [1e-12, 1e-4, 1.0, 1e8] {
            let whitening = inducing.whiten(gamma).unwrap();
            assert!(whitening.turn.iter().all(|x| x.is_finite()));
        }
    }
}
