//! A rectification with its parameters.

use ndarray::Array1;
use serde::{Deserialize, Serialize};

use super::ash::{Ash, Rest};
use super::bounds::{Bounds, Outside};
use super::ddcs::Ddcs;
use super::dice::Dice;
use super::line::Line;
use super::rectifier::Step;
use crate::methods::Stored;
use crate::methods::kpca::Clip;
use crate::training::Training;
use crate::training::statistics::{Needs, Statistics};
use crate::{Error, Result};

/// A step that changes features or the last layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Rectification {
    /// min(z, c) (Sun et al. 2021).
    React {
        /// c
        at: Clip,
    },
    /// Each channel within its mean ± λ standard deviations (Zhu et al. 2022).
    Bats {
        /// λ
        deviations: f64,
    },
    /// Values below α become 0, values above β become β (Xu et al. 2023).
    Vra {
        /// α and β
        bounds: VraBounds,
    },
    /// The largest entries of a row become (sum of the row)/(their number), the rest 0 (Djurisic et
    /// al. 2023).
    AshB {
        /// Percent of the entries that become 0.
        prune: f64,
    },
    /// All but the largest entries of a row become 0.
    AshP {
        /// Percent of the entries that become 0.
        prune: f64,
    },
    /// ASH-P, then times exp(sum of the row / sum of what was kept).
    AshS {
        /// Percent of the entries that become 0.
        prune: f64,
    },
    /// Times exp(sum of the row / sum of the largest entries); nothing becomes 0 (Xu et al. 2024).
    Scale {
        /// Percent of the entries that are not among the largest.
        prune: f64,
    },
    /// Only weights that contribute much on average stay (Sun & Li 2022).
    Dice {
        /// Percent of the weights that become 0.
        sparsity: f64,
    },
    /// Only activations and weights that matter for the predicted class stay (Ahn et al. 2023).
    Line {
        /// Percent of the channels that become 0.
        activations: f64,
        /// Percent of the weights that become 0.
        weights: f64,
        /// min(z, clip) comes first.
        clip: f64,
    },
    /// Shaped activations; channels that tell the classes apart stay (Yuan et al. 2024).
    Ddcs {
        /// Percentile of all activations below which values are raised.
        low: f64,
        /// Percentile of all activations from which values are pressed down.
        high: f64,
        /// Weight of similarity against variance when channels are ranked.
        balance: f64,
        /// Share of the channels that stay.
        channels: f64,
    },
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

fn percent(name: &'static str, value: f64) -> Result<()> {
    if (0.0..100.0).contains(&value) {
        return Ok(());
    }
    Err(Error::parameter(name, "a percentage from 0 to below 100", value))
}

impl Rectification {
    /// The name as users write it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Rectification::React { .. } => "react",
            Rectification::Bats { .. } => "bats",
            Rectification::Vra { .. } => "vra",
            Rectification::AshB { .. } => "ash-b",
            Rectification::AshP { .. } => "ash-p",
            Rectification::AshS { .. } => "ash-s",
            Rectification::Scale { .. } => "scale",
            Rectification::Dice { .. } => "dice",
            Rectification::Line { .. } => "line",
            Rectification::Ddcs { .. } => "ddcs",
        }
    }

    /// Whether the step changes the last layer, so that there can be only one of its kind.
    pub(crate) fn changes_head(&self) -> bool {
        matches!(self, Rectification::Dice { .. } | Rectification::Line { .. })
    }

    /// Whether the step was made for features that are never negative.
    #[must_use]
    pub fn wants_non_negative(&self) -> bool {
        !matches!(
            self,
            Rectification::React { .. } | Rectification::Bats { .. } | Rectification::Dice { .. }
        )
    }

    pub(crate) fn check(&self) -> Result<()> {
        match *self {
            Rectification::React { at } => at.check(),
            Rectification::Bats { deviations } if !(deviations > 0.0 && deviations.is_finite()) => {
                Err(Error::parameter("deviations", "a number above 0", deviations))
            }
            Rectification::Bats { .. } => Ok(()),
            Rectification::Vra { bounds: VraBounds::Values(low, high) } => {
                if low <= high && low.is_finite() && high.is_finite() {
                    return Ok(());
                }
                Err(Error::parameter("vra", "two finite values in order", format!("{low},{high}")))
            }
            Rectification::Vra { bounds: VraBounds::Quantiles(low, high) } => {
                if 0.0 <= low && low <= high && high <= 1.0 {
                    return Ok(());
                }
                let got = format!("q{low},q{high}");
                Err(Error::parameter("vra", "two quantiles from 0 to 1 in order", got))
            }
            Rectification::AshB { prune }
            | Rectification::AshP { prune }
            | Rectification::AshS { prune }
            | Rectification::Scale { prune } => percent("prune", prune),
            Rectification::Dice { sparsity } => percent("sparsity", sparsity),
            Rectification::Line { activations, weights, clip } => {
                percent("line", activations)?;
                percent("line", weights)?;
                if clip.is_finite() {
                    return Ok(());
                }
                Err(Error::parameter("line-clip", "a finite value", clip))
            }
            Rectification::Ddcs { low, high, balance, channels } => {
                percent("shape", low)?;
                percent("shape", high)?;
                if low > high {
                    let got = format!("{low},{high}");
                    return Err(Error::parameter("shape", "two percentiles in order", got));
                }
                if !(0.0..=1.0).contains(&balance) {
                    return Err(Error::parameter("balance", "a share from 0 to 1", balance));
                }
                if !(channels > 0.0 && channels <= 1.0) {
                    return Err(Error::parameter("channels", "a share in (0, 1]", channels));
                }
                Ok(())
            }
        }
    }

    /// What the step wants to know of the training rows.
    pub(crate) fn needs(&self) -> Needs {
        let none = Needs::default;
        match *self {
            Rectification::React { at: Clip::Percentile(percent) } => {
                Needs { percentiles: vec![percent], ..none() }
            }
            Rectification::Bats { .. } | Rectification::Dice { .. } => {
                Needs { channels: true, ..none() }
            }
            Rectification::Vra { bounds: VraBounds::Quantiles(low, high) } => {
                Needs { channel_quantiles: vec![low, high], ..none() }
            }
            Rectification::Line { .. } => Needs { classes: true, ..none() },
            Rectification::Ddcs { low, high, .. } => {
                Needs { percentiles: vec![low, high], ..none() }
            }
            _ => none(),
        }
    }

    /// Fails, before any work, unless the training set has what the step needs.
    pub(crate) fn check_inputs(&self, training: &Training<'_>) -> Result<()> {
        self.needs().check(self.name(), training)?;
        if let Rectification::Ddcs { .. } = self {
            training.labels(self.name())?;
        }
        if self.changes_head() {
            training.head(self.name())?;
        }
        Ok(())
    }

    /// Fits the step to training rows that earlier steps have changed.
    pub(crate) fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Step> {
        let width = training.data.width();
        Ok(match *self {
            Rectification::React { at } => Step::Bounds(match at {
                Clip::Value(value) => Bounds::cap(value),
                Clip::Percentile(percent) => Bounds::cap(known.percentile(percent)),
            }),
            Rectification::Bats { deviations } => {
                let channels = known.channels();
                let spread = channels.variance.mapv(f64::sqrt) * deviations;
                Step::Bounds(Bounds::per_channel(
                    &channels.mean - &spread,
                    &channels.mean + &spread,
                    Outside::Moved,
                ))
            }
            Rectification::Vra { bounds } => {
                let (low, high) = match bounds {
                    VraBounds::Values(low, high) => {
                        (Array1::from_elem(width, low), Array1::from_elem(width, high))
                    }
                    VraBounds::Quantiles(low, high) => {
                        (known.channel_quantile(low).clone(), known.channel_quantile(high).clone())
                    }
                };
                Step::Bounds(Bounds::per_channel(low, high, Outside::ZeroBelow))
            }
            Rectification::AshB { prune } => Step::Ash(Ash { prune, rest: Rest::Binarised }),
            Rectification::AshP { prune } => Step::Ash(Ash { prune, rest: Rest::Kept }),
            Rectification::AshS { prune } => Step::Ash(Ash { prune, rest: Rest::Scaled }),
            Rectification::Scale { prune } => Step::Ash(Ash { prune, rest: Rest::AllScaled }),
            Rectification::Dice { sparsity } => {
                Step::Dice(Dice::fit(sparsity, training.head("dice")?, known))
            }
            Rectification::Line { activations, weights, clip } => {
                Step::Line(Line::fit(activations, weights, clip, training, known)?)
            }
            Rectification::Ddcs { low, high, balance, channels } => {
                let (low, high) = (known.percentile(low), known.percentile(high));
                Step::Ddcs(Ddcs::fit(low, high, balance, channels, training)?)
            }
        })
    }

    /// Reads a fitted step.
    pub(crate) fn read(&self, stored: Stored<'_>, head: Option<&crate::io::Head>) -> Result<Step> {
        Ok(match *self {
            Rectification::React { .. } => Step::Bounds(Bounds::cap(stored.number("clip")?)),
            Rectification::Bats { .. } => Step::Bounds(Bounds::read(stored, Outside::Moved)?),
            Rectification::Vra { .. } => Step::Bounds(Bounds::read(stored, Outside::ZeroBelow)?),
            Rectification::AshB { prune } => Step::Ash(Ash { prune, rest: Rest::Binarised }),
            Rectification::AshP { prune } => Step::Ash(Ash { prune, rest: Rest::Kept }),
            Rectification::AshS { prune } => Step::Ash(Ash { prune, rest: Rest::Scaled }),
            Rectification::Scale { prune } => Step::Ash(Ash { prune, rest: Rest::AllScaled }),
            Rectification::Dice { .. } => Step::Dice(Dice::read(stored, head)?),
            Rectification::Line { clip, .. } => Step::Line(Line::read(clip, stored, head)?),
            Rectification::Ddcs { .. } => Step::Ddcs(Ddcs::read(stored)?),
        })
    }
}
