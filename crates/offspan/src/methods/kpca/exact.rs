//! Kernel PCA from the full kernel matrix, for small N; the reference of the approximations.

use ndarray::{Array1, Array2, Axis, s};

use crate::numeric::linalg;
use crate::span::map::{KernelVector, RawMap, kernel_matrix};
use crate::span::preprocess::Preprocess;
use crate::span::subspace::{Components, explained};
use crate::{Error, Kernel, Result};

use super::params::ExactForm;
use super::plan::{Form, Plan};

/// The kernel matrix, its centred copy and its eigenvectors are N×N doubles each.
pub(super) const MOST_ROWS: usize = 20_000;

/// Eigenvalues at or under this share of the largest are rounding noise.
const FLOOR: f64 = 1e-12;

pub(super) struct ExactFit {
    pub(super) plan: Plan<f64>,
    pub(super) eigenvalues: Vec<f64>,
    pub(super) kept: usize,
    pub(super) explained: f64,
}

/// Fits on preprocessed rows.
pub(super) fn fit(
    preprocess: Preprocess,
    kernel: Kernel,
    rows: Array2<f64>,
    form: ExactForm,
    components: Components,
    what: &str,
) -> Result<ExactFit> {
    let n = rows.nrows();
    let vector = KernelVector::new(kernel, rows);
    let mut matrix = kernel_matrix(&vector);
    if !matrix.iter().all(|k| k.is_finite()) {
        let what = format!("kernel values of {what}");
        return Err(Error::TooLarge { what, single: false });
    }
    let size = matrix.diag().sum() + n as f64 * kernel.offset();
    // The matrix carries k − offset; centring does not see the difference.
    let column_means = matrix.mean_axis(Axis(0)).unwrap_or_else(|| Array1::zeros(n));
    let mean = column_means.sum() / n as f64;
    match form {
        ExactForm::Centred => {
            for (i, mut row) in matrix.rows_mut().into_iter().enumerate() {
                let row_mean = column_means[i];
                row.zip_mut_with(&column_means, |k, column| *k += mean - row_mean - column);
            }
        }
        ExactForm::Proposition2 => matrix += kernel.offset(),
    }
    let eigen = linalg::symmetric_eigen(matrix.view())?;
    drop(matrix);
    let eigenvalues: Vec<f64> = eigen.values.iter().map(|value| value.max(0.0)).collect();
    let trace: f64 = eigenvalues.iter().sum();
    if trace <= 1e-24 * size {
        return Err(Error::NoVariance { what: what.to_owned() });
    }
    let kept = components.choose(&eigenvalues)?;
    let rank = eigenvalues.iter().take_while(|&&value| value > FLOOR * eigenvalues[0]).count();
    if kept > rank {
        return Err(Error::parameter(
            "components",
            format!("at most {rank}, the rank of the kernel matrix"),
            format!("{kept} ({components})"),
        ));
    }
    let mut projection = eigen.vectors.slice(s![..kept, ..]).to_owned();
    let raw = RawMap::Kernel(vector);
    let plan = match form {
        ExactForm::Centred => {
            // Component i of a sample is u_iᵀk̃/√λ_i; u_i is orthogonal to the constant vector, so
            // subtracting the column means centres k̃ fully.
            for (mut row, value) in projection.rows_mut().into_iter().zip(&eigenvalues) {
                row /= value.sqrt();
            }
            let constant = mean + kernel.offset();
            let weight = Array1::from_elem(n, 1.0 / n as f64);
            let form = Form::Complete { kernel, constant, weight };
            Plan::new(preprocess, raw, &column_means, projection, form, 0.0)
        }
        ExactForm::Proposition2 => {
            let centre = Array1::from_elem(n, -kernel.offset());
            Plan::new(preprocess, raw, &centre, projection, Form::Remainder, 0.0)
        }
    };
    Ok(ExactFit { plan, explained: explained(&eigenvalues, kept), eigenvalues, kept })
}
