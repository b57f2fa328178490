//! The bound on the evidence and its gradient.
//!
//! Latent functions f_c = σ·a(ẑ)ᵀv_c, one per class, a = L⁻¹k(points, ẑ), with prior v_c ~ N(0, I)
//! and approximate posterior N(m_c, diag(s_c²)). For row i of class y
//!
//! mean_ic = σ·a_iᵀm_c,  var_ic = σ²·(1 − ‖a_i‖² + Σ_j a_ij² s_cj²),
//!
//! and, by Jensen's inequality, the expectation of the softmax's log-likelihood is at least
//!
//! mean_iy − ln Σ_c exp(mean_ic + var_ic/2).
//!
//! So what is maximised here is itself a lower bound of the usual evidence lower bound, and a true
//! one of the log evidence. Per row it is the mean of that over rows, less KL/N with
//! KL = ½Σ(s² + m² − 1 − ln s²).

use ndarray::{Array2, ArrayView2, Axis, Zip};
use rayon::prelude::*;

use crate::Result;
use crate::numeric::linalg;
use crate::numeric::vector::{self, contiguous, contiguous_mut};

use super::inducing::{Inducing, Whitening};

/// Kernel parameters and the approximate posterior; one row per class, one column per point.
pub(super) struct Posterior {
    pub(super) ln_gamma: f64,
    /// ln σ²
    pub(super) ln_scale: f64,
    /// m
    pub(super) means: Array2<f64>,
    /// ln s
    pub(super) ln_deviations: Array2<f64>,
}

/// The bound's derivatives with respect to the parameters of a [`Posterior`].
pub(super) struct Gradient {
    pub(super) ln_gamma: f64,
    pub(super) ln_scale: f64,
    pub(super) means: Array2<f64>,
    pub(super) ln_deviations: Array2<f64>,
}

/// Rows by their squared distances to the inducing points, and their classes.
pub(super) struct Batch {
    pub(super) distances: Array2<f64>,
    pub(super) classes: Vec<usize>,
}

/// What the parameters give before any row is seen.
struct Prepared {
    whitening: Whitening,
    /// s²
    variances: Array2<f64>,
    /// σ²
    scale: f64,
}

/// A batch under the current parameters.
struct Expected {
    a: Array2<f64>,
    squares: Array2<f64>,
    /// 1 − ‖a‖² of every row, not below 0.
    remainders: Vec<f64>,
    /// Derivatives of the rows' terms with respect to mean and var.
    by_mean: Array2<f64>,
    by_variance: Array2<f64>,
    rows: Vec<RowTerm>,
}

/// One row's term of the bound.
#[derive(Clone, Copy)]
struct RowTerm {
    value: f64,
    /// Its derivative with respect to ln σ².
    by_ln_scale: f64,
    /// Whether the largest mean is that of the row's class.
    right: bool,
}

impl Posterior {
    /// The prior.
    pub(super) fn new(gamma: f64, classes: usize, points: usize) -> Self {
        let zeros = Array2::zeros((classes, points));
        Posterior {
            ln_gamma: libm::log(gamma),
            ln_scale: 0.0,
            means: zeros.clone(),
            ln_deviations: zeros,
        }
    }

    /// The bound per row and the share of rows whose class is predicted.
    pub(super) fn evaluate(
        &self,
        inducing: &Inducing,
        batches: &[Batch],
        rows: f64,
    ) -> Result<(f64, f64)> {
        let prepared = self.prepare(inducing)?;
        let terms: Vec<RowTerm> =
            batches.iter().flat_map(|batch| self.expected(&prepared, batch).rows).collect();
        let count = terms.len() as f64;
        let value = terms.iter().map(|term| term.value).sum::<f64>() / count;
        let right = terms.iter().filter(|term| term.right).count() as f64 / count;
        Ok((value - self.divergence(&prepared.variances) / rows, right))
    }

    /// The gradient of the bound per row, estimated on a batch.
    pub(super) fn gradient(
        &self,
        inducing: &Inducing,
        batch: &Batch,
        rows: f64,
    ) -> Result<Gradient> {
        let prepared = self.prepare(inducing)?;
        let Prepared { whitening, variances, scale } = &prepared;
        let Expected { a, squares, remainders, by_mean, by_variance, rows: terms } =
            self.expected(&prepared, batch);
        let count = terms.len() as f64;

        let mut means = linalg::product(by_mean.t(), a.view());
        let factor = scale.sqrt() / count;
        Zip::from(&mut means).and(&self.means).for_each(|g, m| *g = factor * *g - m / rows);

        let mut ln_deviations = linalg::product(by_variance.t(), squares.view());
        let factor = 2.0 * scale / count;
        Zip::from(&mut ln_deviations)
            .and(variances)
            .for_each(|g, s2| *g = factor * s2 * *g - (s2 - 1.0) / rows);

        // dE/da = σ·G·m + 2σ²·a∘(H·s² + ½); the ½ is −Σ_c H, for the remainder's −2a.
        let through_means = linalg::product(by_mean.view(), self.means.view());
        let through_variances = linalg::product(by_variance.view(), variances.view());
        let slopes = whitening.slopes(batch.distances.view(), a.view());
        let mut ln_gamma = 0.0;
        for (i, remainder) in remainders.iter().enumerate() {
            let own = if *remainder > 0.0 { 0.5 } else { 0.0 };
            for j in 0..a.ncols() {
                let by_a = scale.sqrt() * through_means[[i, j]]
                    + 2.0 * scale * a[[i, j]] * (through_variances[[i, j]] + own);
                ln_gamma += by_a * slopes[[i, j]];
            }
        }
        let ln_scale = terms.iter().map(|term| term.by_ln_scale).sum::<f64>() / count;
        Ok(Gradient { ln_gamma: ln_gamma / count, ln_scale, means, ln_deviations })
    }

    fn prepare(&self, inducing: &Inducing) -> Result<Prepared> {
        Ok(Prepared {
            whitening: inducing.whiten(libm::exp(self.ln_gamma))?,
            variances: self.ln_deviations.mapv(|x| libm::exp(2.0 * x)),
            scale: libm::exp(self.ln_scale),
        })
    }

    /// KL of the approximate posterior from the prior.
    fn divergence(&self, variances: &Array2<f64>) -> f64 {
        let parameters = self.means.iter().zip(&self.ln_deviations).zip(variances);
        parameters.map(|((m, ln_s), s2)| 0.5 * (s2 + m * m - 1.0) - ln_s).sum()
    }

    fn expected(&self, prepared: &Prepared, batch: &Batch) -> Expected {
        let Prepared { whitening, variances, scale } = prepared;
        let a = whitening.coordinates(batch.distances.view());
        let squares = a.mapv(|a| a * a);
        let remainder = |row: ArrayView2<'_, f64>| {
            row.rows()
                .into_iter()
                .map(|row| (1.0 - vector::sum_of_squares(contiguous(&row))).max(0.0))
                .collect::<Vec<f64>>()
        };
        let remainders = remainder(a.view());
        let mut by_mean = linalg::product(a.view(), self.means.t());
        let mut by_variance = linalg::product(squares.view(), variances.t());
        let rows = by_mean
            .axis_iter_mut(Axis(0))
            .into_par_iter()
            .zip(by_variance.axis_iter_mut(Axis(0)))
            .zip(batch.classes.par_iter().zip(&remainders))
            .map(|((mut mean, mut variance), (&class, &remainder))| {
                mean.mapv_inplace(|x| scale.sqrt() * x);
                variance.mapv_inplace(|x| scale * (remainder + x));
                row_term(contiguous_mut(&mut mean), contiguous_mut(&mut variance), class)
            })
            .collect();
        Expected { a, squares, remainders, by_mean, by_variance, rows }
    }
}

/// The term of a row with these means and variances, which are replaced by its derivatives with
/// respect to them.
fn row_term(means: &mut [f64], variances: &mut [f64], class: usize) -> RowTerm {
    let exponent = |c: usize, means: &[f64], variances: &[f64]| means[c] + 0.5 * variances[c];
    let count = means.len();
    let largest =
        (0..count).map(|c| exponent(c, means, variances)).fold(f64::NEG_INFINITY, f64::max);
    let shares: Vec<f64> =
        (0..count).map(|c| libm::exp(exponent(c, means, variances) - largest)).collect();
    let sum: f64 = shares.iter().sum();
    let value = means[class] - largest - libm::log(sum);
    let right = means.iter().enumerate().all(|(c, &mean)| c == class || mean < means[class]);
    let mut by_ln_scale = 0.0;
    for c in 0..count {
        let share = shares[c] / sum;
        let by_mean = f64::from(u8::from(c == class)) - share;
        let by_variance = -0.5 * share;
        by_ln_scale += 0.5 * by_mean * means[c] + by_variance * variances[c];
        (means[c], variances[c]) = (by_mean, by_variance);
    }
    RowTerm { value, by_ln_scale, right }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::{Random, Stream};
    use crate::span::preprocess::normalise;

    const ROWS: f64 = 30.0;

    fn problem() -> (Inducing, Batch, Posterior) {
        let mut random = Random::new(3, Stream::Synthetic);
        let mut unit = |count: usize| {
            let mut rows = Array2::from_shape_simple_fn((count, 5), || random.normal());
            for mut row in rows.rows_mut() {
                normalise(row.as_slice_mut().unwrap());
            }
            rows
        };
        let inducing = Inducing::new(unit(4));
        let distances = inducing.distances_to(unit(7).view());
        let batch = Batch { distances, classes: vec![0, 2, 1, 1, 0, 2, 2] };
        let mut posterior = Posterior::new(0.7, 3, 4);
        posterior.ln_scale = 0.9;
        posterior.means.mapv_inplace(|_| random.normal());
        posterior.ln_deviations.mapv_inplace(|_| 0.4 * random.normal() - 0.3);
        (inducing, batch, posterior)
    }

    /// Compares a derivative with the bound's change when `change` moves a parameter.
    fn check(got: f64, what: &str, change: impl Fn(&mut Posterior, f64)) {
        let step = 1e-5;
        let value = |by: f64| {
            let (inducing, batch, mut posterior) = problem();
            change(&mut posterior, by);
            posterior.evaluate(&inducing, &[batch], ROWS).unwrap().0
        };
        let expected = (value(step) - value(-step)) / (2.0 * step);
        assert!((got - expected).abs() < 1e-8, "{what}: {got} {expected}");
    }

    #[test]
    fn gradients_of_all_parameters_equal_finite_differences() {
        let (inducing, batch, posterior) = problem();
        let gradient = posterior.gradient(&inducing, &batch, ROWS).unwrap();
        check(gradient.ln_gamma, "ln gamma", |p, by| p.ln_gamma += by);
        check(gradient.ln_scale, "ln scale", |p, by| p.ln_scale += by);
        for (at, &got) in gradient.means.indexed_iter() {
            check(got, "mean", |p, by| p.means[at] += by);
        }
        for (at, &got) in gradient.ln_deviations.indexed_iter() {
            check(got, "deviation", |p, by| p.ln_deviations[at] += by);
        }
    }

    #[test]
    fn the_prior_gives_the_bound_of_a_guess() {
        let (inducing, batch, _) = problem();
        let prior = Posterior::new(1.0, 3, 4);
        let (value, _) = prior.evaluate(&inducing, &[batch], ROWS).unwrap();
        // Means 0, variances σ² = 1 whatever the row.
        assert!((value + 3f64.ln() + 0.5).abs() < 1e-12, "{value}");
    }

    #[test]
    fn bound_lies_below_the_expected_log_likelihood() {
        let (means, variances) = ([0.3, -1.0, 0.8], [0.5, 1.5, 0.2]);
        let bound = row_term(&mut means.clone(), &mut variances.clone(), 2).value;
        let mut random = Random::new(1, Stream::Synthetic);
        let draws = 20_000;
        let sum: f64 = (0..draws)
            .map(|_| {
                let f: [f64; 3] =
                    std::array::from_fn(|c| means[c] + variances[c].sqrt() * random.normal());
                f[2] - f.iter().map(|f| f.exp()).sum::<f64>().ln()
            })
            .sum();
        let expected = sum / f64::from(draws);
        assert!(bound < expected && bound > expected - 0.5, "{bound} {expected}");
    }
}
