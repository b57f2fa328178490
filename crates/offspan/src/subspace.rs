//! The principal subspace of Φ: eigenvalues, directions, and how many to keep.

use ndarray::{Array1, Array2};
use serde::{Deserialize, Serialize};

use crate::map::FeatureMap;
use crate::{Error, Moments, Real, Result, linalg};

/// How many principal directions the subspace keeps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Components {
    /// The smallest q whose eigenvalues hold at least this share of their sum.
    ExplainedVariance(f64),
    /// A fixed q.
    Fixed(usize),
}

impl Components {
    pub(crate) fn check(&self) -> Result<()> {
        match *self {
            Components::ExplainedVariance(ratio) if !(ratio > 0.0 && ratio <= 1.0) => {
                Err(Error::parameter("explained-variance", "a share in (0, 1]", ratio))
            }
            Components::Fixed(0) => Err(Error::parameter("components", "at least 1", 0)),
            _ => Ok(()),
        }
    }

    /// The q that this asks for, given eigenvalues in descending order.
    pub(crate) fn choose(&self, eigenvalues: &[f64]) -> Result<usize> {
        match *self {
            Components::Fixed(q) if q > eigenvalues.len() => Err(Error::parameter(
                "components",
                format!("at most {}, the dimensions of the feature map", eigenvalues.len()),
                q,
            )),
            Components::Fixed(q) => Ok(q),
            Components::ExplainedVariance(ratio) => {
                let total: f64 = eigenvalues.iter().sum();
                let mut sum = 0.0;
                let reached = eigenvalues.iter().position(|value| {
                    sum += value;
                    sum / total >= ratio
                });
                // Rounding may keep the last sum just below 1: then all of them are needed.
                Ok(reached.map_or(eigenvalues.len(), |index| index + 1))
            }
        }
    }
}

impl std::fmt::Display for Components {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Components::ExplainedVariance(ratio) => write!(f, "explained variance {ratio}"),
            Components::Fixed(q) => write!(f, "{q} components"),
        }
    }
}

/// The eigendecomposition of the covariance of Φ.
pub(crate) struct Subspace {
    /// Largest first; rounding below 0 is cut to 0.
    pub(crate) eigenvalues: Vec<f64>,
    /// Row i is direction i in Φ.
    pub(crate) directions: Array2<f64>,
    /// μ, the mean of Φ.
    pub(crate) mean: Array1<f64>,
    /// Directions kept.
    pub(crate) kept: usize,
}

impl Subspace {
    /// Decomposes the moments of raw coordinates as seen through the map's whitening.
    pub(crate) fn new<T: Real>(
        map: &FeatureMap<T>,
        moments: &Moments,
        components: Components,
        what: &str,
    ) -> Result<Self> {
        let mean = map.whiten_one(moments.mean() + map.raw.offset());
        let mut covariance = moments.covariance();
        if let Some(a) = &map.whitening {
            let half = linalg::product(a.view(), covariance.view());
            covariance = linalg::product(half.view(), a.t());
        }
        let eigen = linalg::symmetric_eigen(covariance.view())?;
        let eigenvalues: Vec<f64> = eigen.values.iter().map(|value| value.max(0.0)).collect();
        // A constant feature leaves rounding noise; anything real is far above it.
        let scale = mean.dot(&mean).max(f64::MIN_POSITIVE);
        if eigenvalues.iter().sum::<f64>() <= 1e-24 * scale {
            return Err(Error::NoVariance { what: what.to_owned() });
        }
        let kept = components.choose(&eigenvalues)?;
        Ok(Subspace { eigenvalues, directions: eigen.vectors, mean, kept })
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
