//! Random features chosen by how well they agree with the labels (Sinha & Duchi 2016).
//!
//! Of M drawn features each gets a share q_n of the kernel that maximises the alignment Σ q_n v_n
//! among the distributions close to uniform; features without a share are dropped, the others are
//! scaled by √q_n instead of √(1/M).

mod alignment;
mod distribution;
mod method;

use ndarray::{Array1, Axis};
use serde::{Deserialize, Serialize};

use crate::methods::kpca::{KpcaParams, MapParams, ValidKpca, resolve_clip};
use crate::span::map::{Draw, Fourier, FourierParts};
use crate::span::subspace::Components;
use crate::training::Training;
use crate::{Error, Kernel, Precision, Preprocess, Real, Result};

use super::classes::Classes;
use alignment::alignment;
use distribution::best_distribution;

/// Shares below this part of the uniform one count as none.
const LEAST_SHARE: f64 = 1e-8;

/// Parameters of RFF-OPT, as given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RffOptParams {
    /// The kernel PCA on the features that are kept: a Fourier map of M features to choose from.
    pub kpca: KpcaParams,
    /// ρ, how far q may go from uniform: ‖q − 1/M‖² ≤ ρ/M. 0 keeps every feature as it is.
    pub rho: f64,
}

impl Default for RffOptParams {
    /// Weights concentrate the variance on fewer directions, so more of it has to be kept.
    fn default() -> Self {
        let kpca = KpcaParams {
            map: MapParams::Fourier { features: 4096, draw: Draw::Orthogonal, parts: None },
            components: Components::ExplainedVariance(0.95),
            ..KpcaParams::fourier()
        };
        RffOptParams { kpca, rho: 1.0 }
    }
}

/// Parameters that passed [`RffOptParams::check`].
#[derive(Debug, Clone, PartialEq)]
pub struct ValidRffOpt {
    pub(crate) kpca: ValidKpca,
    pub(crate) draw: Draw,
    rho: f64,
}

impl RffOptParams {
    /// Checks the parameters. A structured draw becomes an orthogonal one: some of its features
    /// alone have no fast transform, so there is nothing to gain from the structure.
    ///
    /// # Errors
    /// If ρ is negative or not finite, the map is not a Fourier map to be drawn, or the kernel PCA
    /// parameters do not fit.
    pub fn check(mut self) -> Result<ValidRffOpt> {
        if !(self.rho >= 0.0 && self.rho.is_finite()) {
            return Err(Error::parameter("rho", "a number of at least 0", self.rho));
        }
        let draw = match &mut self.kpca.map {
            MapParams::Fourier { draw, parts: None, .. } => {
                // The laplacian kernel must be told that no structure fits it.
                let laplacian = matches!(self.kpca.kernel, Kernel::Laplacian { .. });
                if *draw == Draw::Structured && !laplacian {
                    *draw = Draw::Orthogonal;
                }
                *draw
            }
            map => {
                let given = match map {
                    MapParams::Fourier { .. } => "given frequencies",
                    _ => self.kpca.method(),
                };
                return Err(Error::parameter(
                    "map",
                    "random Fourier features drawn from the seed, for rff-opt to choose from",
                    given,
                ));
            }
        };
        Ok(ValidRffOpt { kpca: self.kpca.check()?, draw, rho: self.rho })
    }
}

/// The features that were kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selected {
    /// Their frequencies, phases and amplitudes √(2 q_n).
    pub(crate) parts: FourierParts,
    /// M, the features there were to choose from.
    pub(crate) given: usize,
    /// The features kept.
    pub(crate) kept: usize,
    /// ReAct's c, so that nobody has to look for it again.
    pub(crate) clip: Option<f64>,
}

/// Draws the features of checked parameters and keeps those that the labels ask for.
pub(crate) fn select(params: &ValidRffOpt, training: &Training<'_>) -> Result<Selected> {
    let classes = Classes::read("rff-opt", training)?;
    let preprocess =
        Preprocess { clip: resolve_clip(&params.kpca, training)?, cosine: params.kpca.cosine };
    match params.kpca.precision {
        Precision::F32 => select_in::<f32>(params, training, &classes, preprocess),
        Precision::F64 => select_in::<f64>(params, training, &classes, preprocess),
    }
}

fn select_in<T: Real>(
    params: &ValidRffOpt,
    training: &Training<'_>,
    classes: &Classes,
    preprocess: Preprocess,
) -> Result<Selected> {
    let KpcaParams { kernel, seed, .. } = *params.kpca.params();
    let MapParams::Fourier { features, draw, .. } = params.kpca.map else {
        unreachable!("the parameters were checked")
    };
    training.observer.begin("random features", 0);
    let map = Fourier::<T>::seeded(kernel, draw, training.data.width(), features, seed)?;
    let shares = best_distribution(&alignment(&map, training, classes, preprocess)?, params.rho);
    let least = LEAST_SHARE / features as f64;
    let chosen: Vec<usize> = (0..features).filter(|&n| shares[n] > least).collect();
    let Some((frequencies, phases)) = map.dense_parts() else {
        unreachable!("the check leaves no structured draw")
    };
    let amplitudes: Array1<f64> = chosen.iter().map(|&n| (2.0 * shares[n]).sqrt()).collect();
    let parts = FourierParts {
        frequencies: frequencies.select(Axis(0), &chosen).mapv(Real::to_double),
        phases: phases.select(Axis(0), &chosen).mapv(Real::to_double),
        amplitudes: Some(amplitudes),
    };
    Ok(Selected { parts, given: features, kept: chosen.len(), clip: preprocess.clip })
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::Kernel;
    use crate::io::{Dataset, Labels};
    use crate::methods::learn::rows::testing::{training, with_threads};

    fn params(features: usize, rho: f64) -> RffOptParams {
        let map = MapParams::Fourier { features, draw: Draw::Structured, parts: None };
        RffOptParams { kpca: KpcaParams { map, ..KpcaParams::default() }, rho }
    }

    /// Three classes that differ in the first two of six columns only.
    fn labelled() -> (Array2<f32>, Vec<i64>) {
        let classes: Vec<i64> = (0..900).map(|row| row % 3 - 1).collect();
        let rows = Array2::from_shape_fn((900, 6), |(i, j)| {
            let noise = ((i * 37 + j * 101 + i * j) % 89) as f32 / 89.0;
            noise + if j < 2 { (classes[i] as f32 + 2.0) * (j as f32 - 0.4) } else { 0.0 }
        });
        (rows, classes)
    }

    #[test]
    fn parameters_are_checked() {
        let good = params(16, 1.0).check().unwrap();
        assert!(matches!(good.kpca.map, MapParams::Fourier { draw: Draw::Orthogonal, .. }));
        assert!(params(16, -1.0).check().is_err());
        assert!(params(16, f64::INFINITY).check().is_err());
        assert!(params(0, 1.0).check().is_err());
        let nystrom = RffOptParams { kpca: KpcaParams::default(), rho: 1.0 };
        let error = nystrom.check().unwrap_err().to_string();
        assert!(error.contains("random Fourier features") && error.ends_with("kpca-nys"));
        let mut given = params(2, 1.0);
        given.kpca.map = MapParams::Fourier {
            features: 2,
            draw: Draw::Iid,
            parts: Some(Box::new(FourierParts {
                frequencies: Array2::zeros((2, 3)),
                phases: Array1::zeros(2),
                amplitudes: None,
            })),
        };
        assert!(given.check().is_err());
        let mut laplacian = params(16, 1.0);
        laplacian.kpca.kernel = Kernel::Laplacian { gamma: 1.0 };
        assert!(laplacian.check().unwrap_err().to_string().ends_with("structured"));
    }

    #[test]
    fn keeps_fewer_features_the_larger_rho_and_all_of_them_at_zero() {
        let (rows, classes) = labelled();
        let data =
            Dataset::new("train", rows.view()).with_labels(Labels::from(&classes[..])).unwrap();
        let select = |rho| {
            let params = params(256, rho).check().unwrap();
            with_threads(1, || select(&params, &training(&data)).unwrap())
        };
        let all = select(0.0);
        assert_eq!((all.kept, all.given), (256, 256));
        let uniform = (2.0f64 / 256.0).sqrt();
        let amplitudes = all.parts.amplitudes.unwrap();
        assert!(amplitudes.iter().all(|a| (a - uniform).abs() < 1e-15));
        let kept: Vec<usize> = [4.0, 8.0, 16.0].into_iter().map(|rho| select(rho).kept).collect();
        assert!(kept[0] < 256 && kept.is_sorted_by(|a, b| a > b), "{kept:?}");
        let shares = select(4.0).parts.amplitudes.unwrap().mapv(|a| a * a / 2.0);
        assert!((shares.sum() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn number_of_threads_does_not_matter_in_either_precision() {
        let (rows, classes) = labelled();
        let data =
            Dataset::new("train", rows.view()).with_labels(Labels::from(&classes[..])).unwrap();
        for precision in [Precision::F32, Precision::F64] {
            let mut params = params(300, 1.0);
            params.kpca.precision = precision;
            let params = params.check().unwrap();
            let with =
                |threads| with_threads(threads, || select(&params, &training(&data)).unwrap());
            assert_eq!(with(1), with(2));
        }
    }
}
