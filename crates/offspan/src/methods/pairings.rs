//! Pairs of a step and a score that have a name of their own.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::kpca::Clip;
use super::mahalanobis::MahalanobisParams;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, check_count};
use super::option::{COMPONENTS, Options, REACT};
use super::rectified::RectifiedParams;
use super::rectify::params::{BetaNormParams, ReactParams};
use super::rectify::{BETA, Rectification};
use super::reg_pca::RegPcaParams;
use crate::Result;

/// Parameters of the Mahalanobis distance of z/‖z‖^β.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BetaMahalanobisParams {
    /// The normalisation before it.
    pub norm: BetaNormParams,
}

impl Method for BetaMahalanobisParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: "beta-mahalanobis",
            summary: "mahalanobis of rows divided by a power of their norm",
            needs: "features and labels",
            source: "arXiv 2510.15202, 2025",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&BETA, &mut self.norm.beta).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        let steps = vec![Rectification::BetaNorm(self.norm)];
        RectifiedParams::new(steps, MahalanobisParams { unit: false }.into()).check()
    }

    fn follows_steps(&self) -> bool {
        false
    }
}

/// Parameters of PCA-NRE: RegPCA fitted to rows as they are, scoring clipped ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PcaNreParams {
    /// q; as of RegPCA where none is given.
    pub components: Option<usize>,
    /// c
    pub react: Clip,
}

impl Default for PcaNreParams {
    fn default() -> Self {
        PcaNreParams { components: None, react: Clip::Percentile(92.0) }
    }
}

impl Method for PcaNreParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: "pca-nre",
            summary: "reg-pca fitted to rows as they are, scoring activations cut by ReAct",
            needs: "features and head",
            source: "Guan et al., Revisit PCA-based Technique, 2023; as in OpenOOD's pull request 305",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        let words = "256, or half the width where that is less";
        options.add_or(&COMPONENTS, &mut self.components, words)?;
        options.add(&REACT, &mut self.react).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        check_count(self.components)?;
        let steps = vec![Rectification::React(ReactParams { at: self.react })];
        let score = RegPcaParams { components: self.components }.into();
        let mut pair = RectifiedParams { raw_fit: true, ..RectifiedParams::new(steps, score) };
        pair.check()
    }

    fn follows_steps(&self) -> bool {
        false
    }
}
