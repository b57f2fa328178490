//! Methods by name, with the defaults that `offspan methods` tells.

use super::bank::BankSize;
use super::logit::LogitScore;
use super::options::MethodOptions;
use super::spec::MethodSpec;
use super::trained::TrainedScore;
use crate::methods::kpca::Clip;
use crate::methods::rectify::{Rectification, VraBounds};

/// ViM: the last layer is known to single precision.
const HEAD_FLOOR: f64 = f32::EPSILON as f64;

impl MethodSpec {
    /// A method with its default parameters. Combinations are joined by `+`: a score (the energy where
    /// none is named) and the steps before it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        MethodOptions::default().method(name).ok()
    }

    /// The same for methods that are neither `auto` nor made of kernels.
    pub(super) fn baseline(name: &str) -> Option<Self> {
        if let Some(spec) = single(name) {
            return Some(spec);
        }
        let mut parts = name.split('+');
        let first = parts.next()?;
        let (score, mut steps) = match Rectification::named(first) {
            Some(step) => (MethodSpec::ENERGY, vec![step]),
            None => (single(first)?, Vec::new()),
        };
        for part in parts {
            steps.push(Rectification::named(part)?);
        }
        if let [Rectification::Dice { sparsity }, Rectification::React { .. }] = &mut steps[..] {
            // Together with ReAct, DICE's authors leave most weights in.
            *sparsity = 10.0;
        }
        Some(MethodSpec::Rectified { steps, score: Box::new(score), raw_fit: false })
    }
}

fn single(name: &str) -> Option<MethodSpec> {
    let seed = 0;
    let knn = || MethodSpec::Knn { neighbours: 50, bank: BankSize::Share(1.0), seed };
    let supcon = |score| MethodSpec::Supcon { score: Box::new(score) };
    Some(match name {
        "msp" => MethodSpec::Logit(LogitScore::Msp),
        "max-logit" => MethodSpec::Logit(LogitScore::MaxLogit),
        "energy" => MethodSpec::ENERGY,
        "odin" => MethodSpec::Logit(LogitScore::Odin { temperature: 1000.0 }),
        "gradnorm" => MethodSpec::GradNorm,
        "mahalanobis" => MethodSpec::Mahalanobis { unit: false },
        "mahalanobis-pp" => MethodSpec::Mahalanobis { unit: true },
        "ssd" => MethodSpec::Ssd,
        "knn" => knn(),
        "tnn" => MethodSpec::Tnn { neighbours: 10, tangents: 5, bank: BankSize::Share(1.0), seed },
        "nnguide" => MethodSpec::NnGuide { neighbours: 10, bank: BankSize::OnePercent, seed },
        "she" => MethodSpec::She,
        "vim" => MethodSpec::Vim { components: None, head_floor: HEAD_FLOOR },
        "dml" => MethodSpec::Dml { norm_weight: 0.002 },
        "gradorth" => MethodSpec::GradOrth { explained_variance: 0.97 },
        "reg-pca" => MethodSpec::RegPca { components: None },
        "low-dim" => MethodSpec::LowDim { ridge: 0.01 },
        "rank-feat" => MethodSpec::RankFeat { rank_weight: false },
        "rank-feat+rank-weight" => MethodSpec::RankFeat { rank_weight: true },
        "knn-plus" => supcon(knn()),
        "ssd-plus" => supcon(MethodSpec::Ssd),
        "mcf" => MethodSpec::Trained(TrainedScore::Mcf),
        "mnc" => MethodSpec::Trained(TrainedScore::Mnc),
        "dml-plus" => MethodSpec::Trained(TrainedScore::DmlPlus),
        "godin" => MethodSpec::Trained(TrainedScore::Godin),
        "csi" => MethodSpec::Csi,
        _ => return None,
    })
}

impl Rectification {
    /// A step with its default parameters.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "react" => Rectification::React { at: Clip::Percentile(90.0) },
            "bats" => Rectification::Bats { deviations: 3.25 },
            "vra" => Rectification::Vra { bounds: VraBounds::Quantiles(0.6, 0.9) },
            "ash-b" => Rectification::AshB { prune: 65.0 },
            "ash-p" => Rectification::AshP { prune: 65.0 },
            "ash-s" => Rectification::AshS { prune: 90.0 },
            "scale" => Rectification::Scale { prune: 85.0 },
            "dice" => Rectification::Dice { sparsity: 90.0 },
            "line" => Rectification::Line { activations: 90.0, weights: 90.0, clip: 1.0 },
            "ddcs" => Rectification::Ddcs { low: 20.0, high: 90.0, balance: 0.8, channels: 0.82 },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CATALOGUE;

    #[test]
    fn every_entry_of_the_catalogue_has_a_method_of_its_name() {
        for method in CATALOGUE {
            let spec = MethodSpec::named(method.name).unwrap();
            assert_eq!(spec.method(), method.name);
            assert_eq!(spec.check().unwrap(), spec);
            assert_eq!(Rectification::named(method.name).is_some(), method.is_step);
        }
    }

    #[test]
    fn any_score_takes_any_steps() {
        for name in ["knn+react", "msp+ash-s", "vim+vra+react", "ssd+dice", "kpca-nys+ash-s"] {
            assert_eq!(MethodSpec::named(name).unwrap().method(), name);
        }
        assert_eq!(MethodSpec::named("energy+react").unwrap().method(), "react");
        for name in ["react+knn", "knn+", "knn+knn", "", "nothing"] {
            assert!(MethodSpec::named(name).is_none(), "{name}");
        }
        // Names of steps that do not go together, or of a score that no step can come before.
        for name in ["dice+line", "csi+react"] {
            assert!(MethodSpec::named(name).is_none());
            assert!(MethodOptions::default().method(name).is_err());
        }
    }
}
