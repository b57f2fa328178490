//! The gaussian kernel's γ, learned as in a deep kernel's last layer (Wilson et al. 2016): by
//! maximising a lower bound of the evidence of a sparse variational Gaussian-process classifier on
//! the rows' directions ẑ.

mod bound;
mod inducing;
mod method;
mod search;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

pub use method::DkgpKpcaParams;
use search::learn_gamma;

/// The square matrices of more inducing points would take longer than the kernel PCA itself.
const MOST_INDUCING: usize = 4096;

/// Parameters of the search for γ, as given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DkgpParams {
    /// Inducing points, a uniform sample of the training rows; all rows if there are fewer.
    pub inducing: usize,
    /// Steps after which the search ends if the bound has not settled before.
    pub most_steps: usize,
    /// γ to start from.
    pub start_gamma: f64,
    /// Seed of the inducing points and of the batches.
    pub seed: u64,
}

impl Default for DkgpParams {
    fn default() -> Self {
        DkgpParams { inducing: 256, most_steps: 600, start_gamma: 1.0, seed: 0 }
    }
}

impl DkgpParams {
    /// Checks the parameters.
    ///
    /// # Errors
    /// If there are no inducing points or too many, no steps, or γ is not positive and finite.
    pub fn check(self) -> Result<Self> {
        if !(1..=MOST_INDUCING).contains(&self.inducing) {
            let expected = format!("from 1 to {MOST_INDUCING}");
            return Err(Error::parameter("inducing", expected, self.inducing));
        }
        if self.most_steps == 0 {
            return Err(Error::parameter("steps", "at least 1", 0));
        }
        if !(self.start_gamma > 0.0 && self.start_gamma.is_finite()) {
            return Err(Error::parameter("gamma", "a number above 0", self.start_gamma));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked() {
        let good = DkgpParams::default();
        for bad in [
            DkgpParams { inducing: 0, ..good.clone() },
            DkgpParams { inducing: 1 << 20, ..good.clone() },
            DkgpParams { most_steps: 0, ..good.clone() },
            DkgpParams { start_gamma: 0.0, ..good.clone() },
            DkgpParams { start_gamma: f64::NAN, ..good },
        ] {
            assert!(bad.check().is_err());
        }
    }
}
