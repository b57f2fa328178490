//! VRA (Xu et al. 2023): values below α become 0, values above β become β.

use std::sync::Arc;

use ndarray::Array1;
use serde::{Deserialize, Serialize};

use super::bounds::{Bounds, Outside};
use super::step::{Step, StepParams};
use crate::io::Head;
use crate::methods::Stored;
use crate::methods::method::{Entry, GOLDEN_BASELINE};
use crate::methods::option::{Given, OptionInfo, OptionValue, Options, option};
use crate::training::Training;
use crate::training::statistics::{Needs, Statistics};
use crate::{Error, Result};

const VRA: OptionInfo = option(
    "vra",
    "LOW,HIGH",
    "vra: two values (0.5,1), or two quantiles of each channel (q0.6,q0.9)",
);

/// Parameters of VRA.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VraParams {
    /// α and β
    pub bounds: VraBounds,
}

/// VRA's α and β.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VraBounds {
    /// The same two values for every channel.
    Values(f64, f64),
    /// Two quantiles (0 to 1) of each channel.
    Quantiles(f64, f64),
}

impl std::str::FromStr for VraBounds {
    type Err = String;

    /// `0.5,1` are values, `q0.6,q0.9` quantiles.
    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |text: &str| text.trim().parse::<f64>().ok();
        let pair = text.split_once(',').and_then(|(low, high)| {
            match (low.strip_prefix('q'), high.strip_prefix('q')) {
                (Some(low), Some(high)) => Some(VraBounds::Quantiles(parse(low)?, parse(high)?)),
                (None, None) => Some(VraBounds::Values(parse(low)?, parse(high)?)),
                _ => None,
            }
        });
        pair.ok_or_else(|| {
            format!(
                "expected two values such as 0.5,1 or quantiles such as q0.6,q0.9, got `{text}`"
            )
        })
    }
}

impl OptionValue for VraBounds {
    fn set(&mut self, given: &Given) -> Result<(), String> {
        *self = given.parse_named()?;
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(match self {
            VraBounds::Values(low, high) => format!("{low},{high}"),
            VraBounds::Quantiles(low, high) => format!("q{low},q{high}"),
        })
    }
}

impl Default for VraParams {
    fn default() -> Self {
        VraParams { bounds: VraBounds::Quantiles(0.6, 0.9) }
    }
}

impl StepParams for VraParams {
    fn entry() -> Entry<Self> {
        Entry {
            name: "vra",
            summary: "low activations set to 0 and high ones cut, then the energy",
            needs: "features and head; made for features that are never negative",
            source: "Xu et al., VRA: Variational Rectified Activation, 2023",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&VRA, &mut self.bounds).map(drop)
    }

    fn check(&self) -> Result<()> {
        let (fits, expected) = match self.bounds {
            VraBounds::Values(low, high) => {
                (low <= high && low.is_finite() && high.is_finite(), "two finite values in order")
            }
            VraBounds::Quantiles(low, high) => {
                (0.0 <= low && low <= high && high <= 1.0, "two quantiles from 0 to 1 in order")
            }
        };
        if fits {
            return Ok(());
        }
        Err(Error::parameter("vra", expected, self.bounds.text().unwrap_or_default()))
    }

    fn wants_non_negative(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        let channel_quantiles = match self.bounds {
            VraBounds::Values(..) => Vec::new(),
            VraBounds::Quantiles(low, high) => vec![low, high],
        };
        Needs { channel_quantiles, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Arc<dyn Step>> {
        let all = |value| Array1::from_elem(training.data.width(), value);
        let (low, high) = match self.bounds {
            VraBounds::Values(low, high) => (all(low), all(high)),
            VraBounds::Quantiles(low, high) => {
                (known.channel_quantile(low).clone(), known.channel_quantile(high).clone())
            }
        };
        Ok(Arc::new(Bounds::PerChannel { low, high, outside: Outside::ZeroBelow }))
    }

    fn read(&self, stored: Stored<'_>, _: Option<&Head>) -> Result<Arc<dyn Step>> {
        Ok(Arc::new(Bounds::read(stored, Outside::ZeroBelow)?))
    }
}
