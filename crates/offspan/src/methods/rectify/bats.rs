//! BATS (Zhu et al. 2022): each channel within its mean ± λ standard deviations.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bounds::{Bounds, Outside};
use super::step::{Step, StepParams};
use crate::io::Head;
use crate::methods::Stored;
use crate::methods::method::{Entry, GOLDEN_BASELINE};
use crate::methods::option::{OptionInfo, Options, option};
use crate::training::Training;
use crate::training::statistics::{Needs, Statistics};
use crate::{Error, Result};

const DEVIATIONS: OptionInfo =
    option("deviations", "L", "bats: width of a channel's range in standard deviations");

/// Parameters of BATS.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BatsParams {
    /// λ
    pub deviations: f64,
}

impl Default for BatsParams {
    fn default() -> Self {
        BatsParams { deviations: 3.25 }
    }
}

impl StepParams for BatsParams {
    fn entry() -> Entry<Self> {
        Entry {
            name: "bats",
            summary: "each channel kept within its typical range, then the energy",
            needs: "features and head",
            source: "Zhu et al., Boosting Out-of-distribution Detection with Typical Features, 2022",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&DEVIATIONS, &mut self.deviations).map(drop)
    }

    fn check(&self) -> Result<()> {
        if self.deviations > 0.0 && self.deviations.is_finite() {
            return Ok(());
        }
        Err(Error::parameter("deviations", "a number above 0", self.deviations))
    }

    fn needs(&self) -> Needs {
        Needs { channels: true, ..Needs::default() }
    }

    fn fit(&self, _: &Training<'_>, known: &Statistics) -> Result<Arc<dyn Step>> {
        let channels = known.channels();
        let spread = channels.variance.mapv(f64::sqrt) * self.deviations;
        let (low, high) = (&channels.mean - &spread, &channels.mean + &spread);
        Ok(Arc::new(Bounds::PerChannel { low, high, outside: Outside::Moved }))
    }

    fn read(&self, stored: Stored<'_>, _: Option<&Head>) -> Result<Arc<dyn Step>> {
        Ok(Arc::new(Bounds::read(stored, Outside::Moved)?))
    }
}
