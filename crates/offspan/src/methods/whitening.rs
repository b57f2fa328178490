//! What turns rows into ones of unit covariance, and the covariances it is made of.

use ndarray::{Array1, Array2, Axis, s};

use crate::numeric::linalg;
use crate::training::statistics::ClassMeans;
use crate::{Error, Moments, Result};

/// Channels whose deviation is at most this share of the largest are constant.
const CONSTANT_CHANNEL: f64 = 1e-6;

/// Measured anew on whitened rows, a direction with less than this variance was rounding noise.
const LEAST_VARIANCE: f64 = 0.5;

/// Class means relative to the mean, and the covariance inside the classes: what remains of the
/// total when that of the class means is taken away.
pub(super) fn split(moments: &Moments, classes: &ClassMeans) -> (Array2<f64>, Array2<f64>) {
    let offsets = &classes.means - moments.mean();
    let shares = classes.counts.iter().map(|&n| (n as f64 / moments.count() as f64).sqrt());
    let weighted = &offsets * &Array1::from_iter(shares).insert_axis(Axis(1));
    let between = linalg::product(weighted.t(), weighted.view());
    (offsets, moments.covariance() - between)
}

pub(super) fn largest_variance(covariance: &Array2<f64>) -> f64 {
    covariance.diag().iter().fold(0.0, |m, &x| m.max(x))
}

/// Λ^(−1/2)Vᵀ of a covariance, without directions at rounding level: eigenvalues of at most
/// m·ε·max, where the maximum includes the `scale` of the numbers that the covariance came from.
pub(super) fn whitening(covariance: &Array2<f64>, scale: f64, what: &str) -> Result<Array2<f64>> {
    let no_variance = || Error::NoVariance { what: what.to_owned() };
    if covariance.is_empty() {
        return Err(no_variance());
    }
    #[cfg_attr(not(test), allow(unused_mut))]
    let mut eigen = linalg::symmetric_eigen(covariance.view())?;
    #[cfg(test)]
    if OTHER_SIGNS.get() {
        eigen.vectors.slice_mut(s![..;2, ..]).mapv_inplace(|x| -x);
    }
    let largest = eigen.values.iter().fold(scale, |m, x| m.max(x.abs()));
    let floor = covariance.nrows() as f64 * f64::EPSILON * largest;
    let rank = eigen.values.iter().take_while(|value| **value > floor).count();
    if rank == 0 {
        return Err(no_variance());
    }
    let scale: Array1<f64> = eigen.values[..rank].iter().map(|value| 1.0 / value.sqrt()).collect();
    Ok(&eigen.vectors.slice(s![..rank, ..]) * &scale.insert_axis(Axis(1)))
}

#[cfg(test)]
thread_local! {
    /// Whether every second direction has the other sign on this thread, as they may on another kind of processor.
    pub(crate) static OTHER_SIGNS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The same whitening with the digits that a covariance has lost: `whitened` are the moments of rows that
/// it was applied to. Their covariance is the identity but for its errors, so it can be known to the last
/// digits, and taking its root out makes the whitening as exact as one from the rows themselves.
pub(super) fn refined(whitening: &Array2<f64>, whitened: &Moments) -> Result<Array2<f64>> {
    let mean = whitened.mean().view().insert_axis(Axis(1));
    let second = whitened.covariance() + mean.dot(&mean.t());
    let eigen = linalg::symmetric_eigen(second.view())?;
    let rank = eigen.values.iter().take_while(|value| **value > LEAST_VARIANCE).count();
    let scale: Array1<f64> = eigen.values[..rank].iter().map(|value| 1.0 / value.sqrt()).collect();
    let turn = &eigen.vectors.slice(s![..rank, ..]) * &scale.insert_axis(Axis(1));
    Ok(linalg::product(turn.view(), whitening.view()))
}

/// The covariance of rows whose channels all have variance 1. Constant channels are left out: they hold
/// rounding noise, which would count in full.
pub(super) struct Standardised {
    pub(super) correlation: Array2<f64>,
    deviations: Array1<f64>,
    alive: Vec<usize>,
}

impl Standardised {
    pub(super) fn of(covariance: &Array2<f64>, what: &str) -> Result<Self> {
        let deviations = covariance.diag().mapv(|variance| variance.max(0.0).sqrt());
        let largest = largest_variance(covariance).sqrt();
        let alive: Vec<usize> = (0..deviations.len())
            .filter(|&channel| deviations[channel] > CONSTANT_CHANNEL * largest)
            .collect();
        if alive.is_empty() {
            return Err(Error::NoVariance { what: what.to_owned() });
        }
        let scale = |i: usize| 1.0 / deviations[alive[i]];
        let correlation = Array2::from_shape_fn((alive.len(), alive.len()), |(i, j)| {
            covariance[[alive[i], alive[j]]] * scale(i) * scale(j)
        });
        Ok(Standardised { correlation, deviations, alive })
    }

    /// 1/σ of each channel, 0 for constant ones.
    pub(super) fn scales(&self) -> Array1<f64> {
        let mut scales = Array1::zeros(self.deviations.len());
        self.alive.iter().for_each(|&channel| scales[channel] = 1.0 / self.deviations[channel]);
        scales
    }

    /// Rows of the correlation's width with zeros for constant channels.
    pub(super) fn widened(&self, narrow: Array2<f64>) -> Array2<f64> {
        let mut wide = Array2::zeros((narrow.nrows(), self.deviations.len()));
        for (i, &channel) in self.alive.iter().enumerate() {
            wide.column_mut(channel).assign(&narrow.column(i));
        }
        wide
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refined_whitening_makes_unit_covariance_of_ill_conditioned_rows() {
        let rows = Array2::from_shape_fn((400, 5), |(i, j)| {
            let wave = |k: usize| ((i * (3 + 2 * k) + k) as f64 * 0.7311).sin();
            10f64.powi(-(j as i32)) * wave(j) + wave(0)
        });
        let moments = |rows: &Array2<f64>| {
            let mut moments = Moments::new(rows.ncols());
            moments.update(rows.view()).unwrap();
            moments
        };
        let covariance = moments(&rows).covariance();
        let rough = whitening(&covariance, largest_variance(&covariance), "rows").unwrap();
        let mean = moments(&rows).mean().clone();
        let white = |whitening: &Array2<f64>| (&rows - &mean).dot(&whitening.t());
        let refined = refined(&rough, &moments(&white(&rough))).unwrap();
        let off = |whitening: &Array2<f64>| {
            let off = moments(&white(whitening)).covariance() - Array2::<f64>::eye(5);
            off.iter().fold(0.0f64, |m, x| m.max(x.abs()))
        };
        assert!(off(&rough) > 1e-11, "{}", off(&rough));
        assert!(off(&refined) < 1e-12, "{}", off(&refined));
    }
}
