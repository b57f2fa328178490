//! The principal subspace of Φ: eigenvalues, directions, and how many to keep.

use ndarray::{Array1, Array2};
use serde::{Deserialize, Serialize};

use crate::numeric::lanczos;
use crate::numeric::linalg;
use crate::span::map::FeatureMap;
use crate::{Error, Moments, Precision, Real, Result};

/// How many principal directions the subspace keeps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Components {
    /// The smallest q whose eigenvalues hold at least this share of their sum.
    ExplainedVariance(f64),
    /// A fixed q.
    Fixed(usize),
    /// As many as hold this share, or this many if those are fewer.
    UpTo {
        /// The share.
        explained_variance: f64,
        /// The number.
        most: usize,
    },
}

impl Components {
    pub(crate) fn check(&self) -> Result<()> {
        match *self {
            Components::ExplainedVariance(ratio)
            | Components::UpTo { explained_variance: ratio, .. }
                if !(ratio > 0.0 && ratio <= 1.0) =>
            {
                Err(Error::parameter("explained-variance", "a share in (0, 1]", ratio))
            }
            Components::Fixed(0) | Components::UpTo { most: 0, .. } => {
                Err(Error::parameter("components", "at least 1", 0))
            }
            _ => Ok(()),
        }
    }

    /// The q that this asks for, given eigenvalues in descending order.
    pub(crate) fn choose(&self, eigenvalues: &[f64]) -> Result<usize> {
        let dimensions = eigenvalues.len();
        if let Components::Fixed(q) = *self
            && q > dimensions
        {
            let most = format!("at most {dimensions}, the dimensions of the feature map");
            return Err(Error::parameter("components", most, q));
        }
        // Rounding may keep the last sum just below 1: then all of them are needed.
        Ok(self.reached(eigenvalues, eigenvalues.iter().sum()).unwrap_or(dimensions))
    }

    /// The same from the first eigenvalues and the sum of all; `None` if they do not reach it.
    fn reached(&self, eigenvalues: &[f64], total: f64) -> Option<usize> {
        match *self {
            Components::Fixed(q) => (q <= eigenvalues.len()).then_some(q),
            Components::ExplainedVariance(ratio) => {
                let mut sum = 0.0;
                let reached = eigenvalues.iter().position(|value| {
                    sum += value;
                    sum / total >= ratio
                });
                reached.map(|index| index + 1)
            }
            Components::UpTo { explained_variance, most } => {
                let first = &eigenvalues[..most.min(eigenvalues.len())];
                let reached = Components::ExplainedVariance(explained_variance);
                reached.reached(first, total).or((first.len() == most).then_some(most))
            }
        }
    }
}

impl std::fmt::Display for Components {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Components::ExplainedVariance(ratio) => write!(f, "explained variance {ratio}"),
            Components::Fixed(q) => write!(f, "{q} components"),
            Components::UpTo { explained_variance, most } => {
                write!(f, "explained variance {explained_variance}, at most {most} components")
            }
        }
    }
}

/// The eigendecomposition of the covariance of Φ, or as much of it as is needed.
#[derive(Debug, Clone)]
pub(crate) struct Subspace {
    /// Largest first; rounding below 0 is cut to 0. All of them, or the kept ones.
    pub(crate) eigenvalues: Vec<f64>,
    /// Row i is direction i in Φ.
    pub(crate) directions: Array2<f64>,
    /// μ, the mean of Φ.
    pub(crate) mean: Array1<f64>,
    /// Directions kept.
    pub(crate) kept: usize,
    /// Share of the variance that they hold.
    pub(crate) explained: f64,
    /// Dimensions of Φ.
    pub(crate) dimensions: usize,
}

impl Subspace {
    /// Decomposes the moments of raw coordinates as seen through the map's whitening.
    /// `kept_suffice` says whether a detector that keeps so many directions, with such a share of
    /// the variance, can do without the others.
    pub(crate) fn new<T: Real>(
        map: &FeatureMap<T>,
        moments: Moments,
        components: Components,
        kept_suffice: impl Fn(usize, f64) -> bool,
        what: &str,
    ) -> Result<Self> {
        let mean = map.whiten_one(moments.mean() + map.raw.offset());
        let mut covariance = moments.into_covariance();
        if let Some(a) = &map.whitening {
            // A, which may be a triangle, on the left both times.
            let half = linalg::product(a.view(), covariance.view());
            covariance = linalg::product(a.view(), half.t());
        }
        let dimensions = covariance.nrows();
        let total: f64 = covariance.diag().sum();
        // A constant feature leaves rounding noise; anything real is far above it.
        let noise = 1e-24 * mean.dot(&mean).max(f64::MIN_POSITIVE);
        if T::PRECISION == Precision::F32 && dimensions >= lanczos::SMALLEST && total > noise {
            let wanted = |values: &[f64]| {
                let q = components.reached(values, total)?;
                kept_suffice(q, values[..q].iter().sum::<f64>() / total).then_some(q)
            };
            if let Some(eigen) = lanczos::leading_eigen(covariance.view(), wanted)? {
                let (eigenvalues, kept) = (eigen.values, eigen.vectors.nrows());
                let explained = eigenvalues.iter().sum::<f64>() / total;
                let directions = eigen.vectors;
                return Ok(Subspace { eigenvalues, directions, mean, kept, explained, dimensions });
            }
        }
        let eigen = linalg::symmetric_eigen(covariance.view())?;
        let eigenvalues: Vec<f64> = eigen.values.iter().map(|value| value.max(0.0)).collect();
        if eigenvalues.iter().sum::<f64>() <= noise {
            return Err(Error::NoVariance { what: what.to_owned() });
        }
        let kept = components.choose(&eigenvalues)?;
        let (explained, directions) = (explained(&eigenvalues, kept), eigen.vectors);
        Ok(Subspace { eigenvalues, directions, mean, kept, explained, dimensions })
    }
}

/// Share of the eigenvalues' sum that the first `kept` hold.
pub(crate) fn explained(eigenvalues: &[f64], kept: usize) -> f64 {
    eigenvalues[..kept].iter().sum::<f64>() / eigenvalues.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_is_the_smallest_that_reaches_the_ratio() {
        let eigenvalues = [5.0, 3.0, 1.0, 1.0];
        let q = |ratio| Components::ExplainedVariance(ratio).choose(&eigenvalues).unwrap();
        assert_eq!(
            [q(0.01), q(0.5), q(0.51), q(0.8), q(0.9), q(0.95), q(1.0)],
            [1, 1, 2, 2, 3, 4, 4]
        );
    }

    #[test]
    fn a_bound_cuts_what_the_ratio_asks_for() {
        let eigenvalues = [5.0, 3.0, 1.0, 1.0];
        let q = |explained_variance, most| {
            Components::UpTo { explained_variance, most }.choose(&eigenvalues).unwrap()
        };
        assert_eq!([q(0.8, 3), q(0.95, 3), q(0.95, 9), q(0.01, 1), q(1.0, 4)], [2, 3, 4, 1, 4]);
        assert!(Components::UpTo { explained_variance: 2.0, most: 3 }.check().is_err());
        assert!(Components::UpTo { explained_variance: 0.5, most: 0 }.check().is_err());
    }

    #[test]
    fn a_ratio_reached_only_by_all_keeps_all() {
        // 0.1 · 10 sums to less than 1 in floating point.
        let eigenvalues = [0.1; 10];
        assert_eq!(Components::ExplainedVariance(1.0).choose(&eigenvalues).unwrap(), 10);
    }

    #[test]
    fn more_components_than_dimensions_is_an_error() {
        let error = Components::Fixed(5).choose(&[1.0; 4]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "components: expected at most 4, the dimensions of the feature map, got 5"
        );
    }
}
