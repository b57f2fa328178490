//! Scores of un-pooled feature maps: their mean Frobenius norm (Yu et al. 2023), and the energy after pooling
//! by mean and deviation, or by the maximum, instead of the mean alone (DAVIS).

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::{Array2, ArrayView1};
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, from_known};
use super::model::{Model, RowValues, Scorer, Stored, not_exportable, write_head};
use super::option::{OptionInfo, Options, option};
use super::rank_feat::{HINT as MAPS_HINT, MAPS};
use crate::graph::{Builder, Value};
use crate::io::{Dataset, Extra, Head, TensorWriter, read_rows};
use crate::numeric::vector::contiguous;
use crate::training::logits::{energy, head_logits};
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const DEVIATION_WEIGHT: OptionInfo =
    option("deviation-weight", "G", "davis-std: weight of a map's standard deviation");

/// Why there is no graph of it.
const NO_GRAPH: &str = "the detector does not keep the size of the maps, which a graph has to know";

/// A score of feature maps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "score", rename_all = "kebab-case")]
pub enum MapScore {
    /// Mean over channels of ‖relu(map)‖.
    FeatureNorm,
    /// Energy after pooling by mean + γ·standard deviation.
    DavisStd {
        /// γ
        deviation_weight: f64,
    },
    /// Energy after pooling by the maximum.
    DavisMax,
}

impl MapScore {
    fn known_as(self) -> &'static str {
        match self {
            MapScore::FeatureNorm => "feature-norm",
            MapScore::DavisStd { .. } => "davis-std",
            MapScore::DavisMax => "davis-max",
        }
    }

    /// What becomes of one channel's positions.
    fn pooled(self, positions: &[f64]) -> f64 {
        let count = positions.len() as f64;
        match self {
            MapScore::FeatureNorm => {
                let positive = positions.iter().map(|x| x.max(0.0));
                positive.map(|x| x * x).sum::<f64>().sqrt()
            }
            MapScore::DavisMax => positions.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x)),
            MapScore::DavisStd { deviation_weight } => {
                let mean = positions.iter().sum::<f64>() / count;
                let squares: f64 = positions.iter().map(|x| (x - mean) * (x - mean)).sum();
                // One position does not deviate.
                mean + deviation_weight * (squares / (count - 1.0).max(1.0)).sqrt()
            }
        }
    }
}

impl Method for MapScore {
    fn entries() -> Vec<Entry<Self>> {
        let entry = |default: MapScore, summary, needs, source| Entry {
            name: default.known_as(),
            summary,
            needs,
            source,
            parity: GOLDEN_BASELINE,
            default,
        };
        let davis = "DAVIS: pooling by dominant activations, public code, 2025";
        let both = "head; un-pooled `maps` [rows, channels, height, width]";
        vec![
            entry(
                MapScore::FeatureNorm,
                "mean norm of the positive part of feature maps",
                "un-pooled `maps` [rows, channels, height, width]",
                "Yu et al., Block Selection Method for Using Feature Norm in Out-of-Distribution Detection, 2023",
            ),
            entry(
                MapScore::DavisStd { deviation_weight: 0.5 },
                "energy of maps pooled by mean and standard deviation",
                both,
                davis,
            ),
            entry(MapScore::DavisMax, "energy of maps pooled by their maximum", both, davis),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        self.known_as().into()
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        match self {
            MapScore::DavisStd { deviation_weight } => {
                options.add(&DEVIATION_WEIGHT, deviation_weight).map(drop)
            }
            MapScore::FeatureNorm | MapScore::DavisMax => Ok(()),
        }
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        match *self {
            MapScore::DavisStd { deviation_weight } if !deviation_weight.is_finite() => {
                Err(Error::parameter("deviation-weight", "a finite number", deviation_weight))
            }
            score => Ok(Arc::new(score)),
        }
    }

    fn follows_steps(&self) -> bool {
        false
    }

    fn not_exportable(&self) -> Option<&'static str> {
        Some(NO_GRAPH)
    }
}

impl Fit for MapScore {
    fn uses_head(&self) -> bool {
        !matches!(self, MapScore::FeatureNorm)
    }

    fn check_inputs(&self, _: &str, training: &Training<'_>) -> Result<()> {
        self.model(training)?.check_inputs(training.data)
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        Ok(from_known(self, known, self.model(training)?))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let head = if self.uses_head() { Some(stored.required_head()?) } else { None };
        Ok(Arc::new(MapModel { score: *self, head }))
    }
}

impl MapScore {
    fn model(self, training: &Training<'_>) -> Result<MapModel> {
        let head = match self {
            MapScore::FeatureNorm => None,
            _ => Some(training.head(self.known_as())?.without_block()),
        };
        Ok(MapModel { score: self, head })
    }
}

/// The last layer, where it comes after the pooling.
#[derive(Debug, Clone)]
struct MapModel {
    score: MapScore,
    head: Option<Head>,
}

impl MapModel {
    fn maps<'a>(&self, data: &'a Dataset<'_>) -> Result<&'a Extra<'a>> {
        data.extra(self.score.known_as(), MAPS, MAPS_HINT)
    }
}

impl Scorer for MapModel {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        let maps = self.maps(data)?;
        let own = maps.shape.first().copied().unwrap_or(0);
        let channels = self.head.as_ref().map_or(own, |head| head.weight.ncols());
        if maps.shape.len() >= 2 && maps.shape[0] == channels {
            return Ok(());
        }
        Err(Error::shape(
            format!("`{MAPS}` of {}", data.name),
            format!("[rows, {channels}, height, width]"),
            format!("[rows] × {:?}", maps.shape),
        ))
    }

    fn extras(&self) -> &'static [&'static str] {
        &[MAPS]
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let maps = self.maps(data)?;
        let (channels, positions) = (maps.shape[0], maps.shape[1..].iter().product::<usize>());
        let mut pooled = Array2::zeros((out.len(), channels));
        for (row, mut pooled) in (start..).zip(pooled.rows_mut()) {
            let numbers = read_rows::<f64>(&*maps.rows, row..row + 1)?;
            let of_channel = contiguous(&numbers).chunks(positions.max(1));
            pooled.iter_mut().zip(of_channel).for_each(|(x, map)| *x = self.score.pooled(map));
        }
        let Some(head) = &self.head else {
            let mean = |row: ArrayView1<'_, f64>| row.sum() / row.len().max(1) as f64;
            out.iter_mut().zip(pooled.rows()).for_each(|(out, row)| *out = mean(row));
            return Ok(());
        };
        let logits = head_logits(head, pooled.view());
        for (out, logits) in out.iter_mut().zip(logits.rows()) {
            *out = energy(contiguous(&logits), 1.0);
        }
        Ok(())
    }

    fn graph<'a>(&'a self, _: RowValues, _: &mut Builder<'a>) -> Result<Value> {
        Err(not_exportable(NO_GRAPH))
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        write_head(self.head.as_ref(), prefix, writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_by_hand_and_of_one_position() {
        let map = [3.0, -1.0, 4.0, 0.0];
        assert_eq!(MapScore::FeatureNorm.pooled(&map), 5.0);
        assert_eq!(MapScore::DavisMax.pooled(&map), 4.0);
        let std = MapScore::DavisStd { deviation_weight: 0.5 };
        let squares = 1.5f64.powi(2) + 2.5f64.powi(2) + 2.5f64.powi(2) + 1.5f64.powi(2);
        assert!((std.pooled(&map) - 1.5 - 0.5 * (squares / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!(std.pooled(&[7.0]), 7.0);
    }
}
