//! What a kernel PCA detector can be told.

use serde::{Deserialize, Serialize};

use crate::error::names::names;
use crate::span::map::{Draw, EigenFloor, FourierParts};
use crate::span::subspace::Components;
use crate::training::landmarks::Sampling;
use crate::{Error, Kernel, Precision, Result, WeightType};

/// Parameters of a kernel PCA detector, as given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KpcaParams {
    /// The kernel.
    pub kernel: Kernel,
    /// Whether rows are scaled to unit length first.
    pub cosine: bool,
    /// How the kernel becomes coordinates.
    pub map: MapParams,
    /// How many directions the subspace keeps.
    pub components: Components,
    /// What counts as residual.
    pub residual: Residual,
    /// ReAct clipping of the activations, before everything else.
    pub react: Option<Clip>,
    /// Combination with the energy score.
    pub fusion: Option<Fusion>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Precision of rows, maps and projections.
    pub precision: Precision,
    /// How landmarks, or the projection where there are none, are kept.
    #[serde(default, skip_serializing_if = "WeightType::is_full")]
    pub weights: WeightType,
}

/// The feature map to build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum MapParams {
    /// Φ(x) = x: PCA itself, with the linear kernel.
    Identity,
    /// Random Fourier features.
    Fourier {
        /// M, the number of features.
        features: usize,
        /// How frequencies are drawn.
        draw: Draw,
        /// Frequencies and phases to use instead of a draw.
        #[serde(skip)]
        parts: Option<Box<FourierParts>>,
    },
    /// Tensor sketch of the polynomial kernel.
    TensorSketch {
        /// M, the number of features.
        features: usize,
    },
    /// Nyström with landmarks from the training rows.
    Nystrom {
        /// M, the number of landmarks.
        landmarks: usize,
        /// How they are chosen.
        sampling: Sampling,
        /// How tiny eigenvalues of the landmark kernel are treated.
        floor: EigenFloor,
    },
    /// The full kernel matrix of all training rows.
    Exact {
        /// Which residual.
        form: ExactForm,
    },
}

/// The two residuals of exact kernel PCA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExactForm {
    /// The true residual in feature space, centred.
    #[default]
    Centred,
    /// ‖U_pᵀ k(z)‖ as Proposition 2 of the paper prints it: neither centred nor scaled.
    Proposition2,
}

/// What counts as residual of Φ − μ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Residual {
    /// The part of Φ − μ outside the subspace (the paper).
    #[default]
    Plain,
    /// That, plus what Φ cannot represent of the sample: k(z,z) − ‖Φ(z)‖². The true residual in
    /// feature space; a sample far from every landmark gets a large one, not a small one.
    Complete,
}

names!(Residual { Plain "plain", Complete "complete", });

/// Where ReAct cuts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clip {
    /// At this activation.
    Value(f64),
    /// At this percentile (0 to 100) of all training activations.
    Percentile(f64),
}

impl Clip {
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Clip::Value(value) if !value.is_finite() => {
                Err(Error::parameter("react", "a finite value", value))
            }
            Clip::Percentile(percent) if !(0.0..=100.0).contains(&percent) => {
                Err(Error::parameter("react", "a percentile from p0 to p100", percent))
            }
            _ => Ok(()),
        }
    }
}

impl Default for Clip {
    /// As ReAct's authors cut.
    fn default() -> Self {
        Clip::Percentile(90.0)
    }
}

impl std::str::FromStr for Clip {
    type Err = String;

    /// `1.0` is a value, `p90` a percentile.
    fn from_str(text: &str) -> Result<Self, String> {
        let (number, clip): (&str, fn(f64) -> Clip) = match text.strip_prefix('p') {
            Some(percent) => (percent, Clip::Percentile),
            None => (text, Clip::Value),
        };
        let number = number.parse().map_err(|_| {
            format!("expected a value such as 1.0 or a percentile such as p90, got `{text}`")
        })?;
        Ok(clip(number))
    }
}

/// How the residual e and the energy E become one score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fusion {
    /// (1 − e)·E, the paper's form for random Fourier features.
    EnergyProduct,
    /// E / e, the paper's form for Nyström.
    EnergyRatio,
}

names!(Fusion { EnergyProduct "energy-product", EnergyRatio "energy-ratio", });

impl Fusion {
    /// A residual of 0 (a row that lies in the span) must not divide by zero.
    pub(crate) const SMALLEST_RESIDUAL: f64 = 1e-12;

    /// The fused score; higher is more in-distribution.
    pub(crate) fn score(self, residual: f64, energy: f64) -> f64 {
        match self {
            Fusion::EnergyProduct => (1.0 - residual) * energy,
            Fusion::EnergyRatio => energy / residual.max(Self::SMALLEST_RESIDUAL),
        }
    }
}

/// Parameters that passed [`KpcaParams::check`].
#[derive(Debug, Clone, PartialEq)]
pub struct ValidKpca(KpcaParams);

impl ValidKpca {
    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &KpcaParams {
        &self.0
    }

    /// The same with another width of the gaussian kernel.
    pub(crate) fn with_gamma(&self, gamma: f64) -> Result<Self> {
        let kernel = Kernel::Gaussian { gamma };
        kernel.check()?;
        Ok(ValidKpca(KpcaParams { kernel, ..self.0.clone() }))
    }
}

impl std::ops::Deref for ValidKpca {
    type Target = KpcaParams;

    fn deref(&self) -> &KpcaParams {
        &self.0
    }
}

impl Default for KpcaParams {
    /// Nyström as in the paper: gaussian kernel after the cosine map, 1024 low-energy landmarks,
    /// 99 % of the variance, plain residual.
    fn default() -> Self {
        KpcaParams {
            kernel: Kernel::Gaussian { gamma: 1.0 },
            cosine: true,
            map: MapParams::Nystrom {
                landmarks: 1024,
                sampling: Sampling::LowEnergy,
                floor: EigenFloor::default(),
            },
            components: Components::ExplainedVariance(0.99),
            residual: Residual::Plain,
            react: None,
            fusion: None,
            seed: 0,
            precision: Precision::F32,
            weights: WeightType::Full,
        }
    }
}

impl MapParams {
    /// M: landmarks or random features, if there are any.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            MapParams::Identity | MapParams::Exact { .. } => None,
            MapParams::Fourier { features, .. } | MapParams::TensorSketch { features } => {
                Some(*features)
            }
            MapParams::Nystrom { landmarks, .. } => Some(*landmarks),
        }
    }
}

impl KpcaParams {
    /// Nyström with uniformly sampled landmarks and the complete residual: needs features only and
    /// is hardly sensitive to γ.
    #[must_use]
    pub fn nystrom_uniform(landmarks: usize) -> Self {
        let map = MapParams::Nystrom {
            landmarks,
            sampling: Sampling::Uniform,
            floor: EigenFloor::default(),
        };
        KpcaParams { map, residual: Residual::Complete, ..KpcaParams::default() }
    }

    /// The method's name as users write it.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self.map {
            MapParams::Identity => "pca",
            MapParams::Fourier { .. } if self.is_fused_react() => "kpca-rff+react",
            MapParams::Fourier { .. } => "kpca-rff",
            MapParams::TensorSketch { .. } => "kpca-sketch",
            MapParams::Nystrom { .. } if self.is_fused_react() => "kpca-nys+react",
            MapParams::Nystrom { .. } => "kpca-nys",
            MapParams::Exact { form: ExactForm::Centred } => "kpca-exact",
            MapParams::Exact { form: ExactForm::Proposition2 } => "kpca-exact-prop2",
        }
    }

    /// The paper's fusion with ReAct: clipped features, combined with their energy.
    fn is_fused_react(&self) -> bool {
        self.react.is_some() && self.fusion.is_some()
    }

    /// Whether energies are needed to fit or to score.
    pub(crate) fn uses_energy(&self) -> bool {
        self.fusion.is_some() || self.needs_energy_to_fit()
    }

    /// Whether energies are needed to fit.
    #[must_use]
    pub fn needs_energy_to_fit(&self) -> bool {
        matches!(&self.map, MapParams::Nystrom { sampling, .. } if sampling.needs_energy())
    }

    /// Checks every parameter alone and against the others.
    ///
    /// # Errors
    /// Says which parameter does not fit, what is expected and what was got.
    pub fn check(mut self) -> Result<ValidKpca> {
        match &mut self.map {
            // The kernel matrix is a reference: it is always double precision.
            MapParams::Exact { .. } => self.precision = Precision::F64,
            // Given frequencies leave nothing to draw.
            MapParams::Fourier { features, draw, parts: Some(parts) } => {
                (*features, *draw) = (parts.phases.len(), Draw::Iid);
            }
            _ => {}
        }
        self.kernel.check()?;
        self.components.check()?;
        if self.precision == Precision::F64 && !self.weights.is_full() {
            return Err(Error::parameter(
                "weights",
                "full for double precision, which is for reference",
                self.weights,
            ));
        }
        if let Some(react) = self.react {
            react.check()?;
        }
        match &self.map {
            MapParams::Identity if self.kernel != Kernel::Linear => {
                return Err(Error::parameter(
                    "kernel",
                    "linear for pca (other kernels: kpca-nys, kpca-rff, kpca-sketch, kpca-exact)",
                    self.kernel.name(),
                ));
            }
            MapParams::Fourier { features: 0, .. } | MapParams::TensorSketch { features: 0 } => {
                return Err(Error::parameter("features", "at least 1", 0));
            }
            MapParams::Fourier { draw, .. } => self.check_draw(*draw)?,
            MapParams::TensorSketch { .. } if !matches!(self.kernel, Kernel::Polynomial { .. }) => {
                return Err(Error::parameter(
                    "kernel",
                    "polynomial for kpca-sketch (gaussian and laplacian: kpca-rff)",
                    self.kernel.name(),
                ));
            }
            MapParams::Nystrom { landmarks: 0, .. } => {
                return Err(Error::parameter("landmarks", "at least 1", 0));
            }
            MapParams::Nystrom { floor, .. } => floor.check()?,
            _ => {}
        }
        let random_map =
            matches!(self.map, MapParams::Fourier { .. } | MapParams::TensorSketch { .. });
        if random_map && self.residual == Residual::Complete {
            return Err(Error::parameter(
                "residual",
                "plain for random features (they meet k(z,z) only on average, so what they miss \
                 of it is noise)",
                "complete",
            ));
        }
        Ok(ValidKpca(self))
    }

    fn check_draw(&self, draw: Draw) -> Result<()> {
        match self.kernel {
            Kernel::Gaussian { .. } => Ok(()),
            Kernel::Laplacian { .. } if draw == Draw::Iid => Ok(()),
            Kernel::Laplacian { .. } => Err(Error::parameter(
                "draw",
                "iid for the laplacian kernel (its frequencies are Cauchy per coordinate, which \
                 no rotation preserves)",
                draw.name(),
            )),
            Kernel::Linear | Kernel::Polynomial { .. } => Err(Error::parameter(
                "kernel",
                "gaussian or laplacian for kpca-rff (polynomial: kpca-sketch; linear: pca)",
                self.kernel.name(),
            )),
        }
    }
}
