//! The last layer from logits: least squares finds it again where it is linear in the features.

use ndarray::{Array1, Array2, Axis};

use super::sample;
use crate::Result;
use crate::io::{Head, gather};
use crate::numeric::linalg;
use crate::training::Training;
use crate::training::logits::LogitSource;

/// Rows to learn from: this many for each channel, within bounds.
const ROWS_PER_CHANNEL: usize = 3;
const FEWEST_ROWS: usize = 1000;
const MOST_ROWS: usize = 8192;
/// Rows kept for the test.
const ROWS_TO_TEST: usize = 500;
/// Share of the mean variance that is added to every channel's, for channels that say the same.
const RIDGE: f64 = 1e-9;
/// Share of the logits' variance, on other rows, that the layer may leave open.
const UNEXPLAINED: f64 = 1e-3;

/// W and b with logits = W·z + b; none if no linear layer gives these logits, or if rows are too few
/// to tell.
pub(super) fn head(
    training: &Training<'_>,
    logits: &LogitSource<'_>,
    kept: &[usize],
    seed: u64,
) -> Result<Option<Head>> {
    let width = training.data.width();
    let count = (ROWS_PER_CHANNEL * width).clamp(FEWEST_ROWS, MOST_ROWS) + ROWS_TO_TEST;
    if kept.len() < width + 2 * ROWS_TO_TEST || count < width + 2 * ROWS_TO_TEST {
        return Ok(None);
    }
    let rows = sample(kept, count, seed)?;
    // Every so many-th row is for the test, so that an order of the rows does no harm.
    let step = rows.len() / ROWS_TO_TEST;
    let (test, learn): (Vec<_>, Vec<_>) =
        rows.into_iter().enumerate().partition(|(rank, _)| rank % step == 0);
    let read = |rows: Vec<(usize, usize)>| -> Result<(Array2<f64>, Array2<f64>)> {
        let rows: Vec<usize> = rows.into_iter().map(|(_, row)| row).collect();
        Ok((gather(&*training.data.features, &rows)?, logits.gather(&rows)?))
    };
    let (mut z, mut l) = read(learn)?;
    let (z_mean, l_mean) = (mean(&z), mean(&l));
    z -= &z_mean;
    l -= &l_mean;
    let mut gram = linalg::product(z.t(), z.view());
    let ridge = (RIDGE * gram.diag().sum() / width as f64).max(f64::MIN_POSITIVE);
    gram.diag_mut().mapv_inplace(|x| x + ridge);
    let Ok(lower) = linalg::cholesky(gram.view()) else { return Ok(None) };
    let inverse = linalg::lower_inverse(lower.view());
    let products = linalg::product(z.t(), l.view());
    let half = linalg::product(inverse.view(), products.view());
    // Rounded as weights in a file are: the fit is not more exact than that.
    let weight = linalg::product(inverse.t(), half.view()).mapv(|w| f64::from(w as f32));
    let weight = weight.reversed_axes();
    let bias = &l_mean - &weight.dot(&z_mean);
    let head = Head::new(weight.as_standard_layout().into_owned(), bias)?;
    let (z, l) = read(test)?;
    let error = crate::training::logits::head_logits(&head, z.view()) - &l;
    let spread = &l - &mean(&l);
    let squares = |x: &Array2<f64>| x.iter().map(|x| x * x).sum::<f64>();
    Ok((squares(&error) <= UNEXPLAINED * squares(&spread)).then_some(head))
}

fn mean(rows: &Array2<f64>) -> Array1<f64> {
    rows.mean_axis(Axis(0)).unwrap_or_default()
}
