//! Kernel PCA as a method: its names, its options and their defaults.

use std::borrow::Cow;
use std::sync::Arc;

use super::fit::{check_inputs, fit};
use super::model::KpcaModel;
use super::params::{Clip, ExactForm, Fusion, KpcaParams, MapParams, Residual, ValidKpca};
use crate::error::wording::{WithoutCosine, as_flags};
use crate::methods::memory::FitSize;
use crate::methods::method::{Entry, Fit, GOLDEN, Method, PAPER, from_walk};
use crate::methods::model::{Model, Results, Stored};
use crate::methods::option::{
    COMPONENTS, EXPLAINED_VARIANCE, GAMMA, Given, LANDMARKS, OptionInfo, OptionValue, Options,
    PRECISION, REACT, SEED, WEIGHTS, named_values, option,
};
use crate::span::map::{Draw, EigenFloor};
use crate::span::subspace::Components;
use crate::training::landmarks::Sampling;
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Kernel, Precision, Result};

const KERNEL: OptionInfo = option(
    "kernel",
    "NAME",
    "Kernel: linear x·y, gaussian exp(−γ‖x − y‖²), laplacian exp(−γ‖x − y‖₁), polynomial (x·y + c)ᵈ; \
     pca is linear, kpca-sketch polynomial",
);
const DEGREE: OptionInfo = option("degree", "D", "Degree of the polynomial kernel");
const COEF0: OptionInfo = option("coef0", "C", "Constant of the polynomial kernel");
const NO_COSINE: OptionInfo = option("no-cosine", "", "Do not scale rows to unit length first");
const FEATURES: OptionInfo = option("features", "M", "Number of random features");
const DRAW: OptionInfo = option("draw", "HOW", "How random frequencies are drawn");
const FREQUENCIES: OptionInfo = option(
    "frequencies",
    "FILE",
    "Use these frequencies: .safetensors with `omega` (M × width) and `u` (M numbers)",
);
const SAMPLING: OptionInfo = option(
    "sampling",
    "HOW",
    "Which training rows become landmarks; low-energy and high-energy need logits or a head",
);
const LANDMARK_ROWS: OptionInfo = option(
    "landmark-rows",
    "FILE",
    "Use these rows as landmarks: .npy of integers, or text with one row number per line",
);
const RESIDUAL: OptionInfo = option(
    "residual",
    "WHICH",
    "Plain: inside the span of the feature map (the paper). Complete: also what the map cannot \
     represent; wants landmarks that cover the data (--sampling uniform)",
);
const RANK_FLOOR: OptionInfo = option(
    "rank-floor",
    "SHARE",
    "Share of the largest eigenvalue of the landmark kernel that counts as zero",
);
const RANK_RULE: OptionInfo = option("rank-rule", "RULE", "What happens to such eigenvalues");
const FUSE: OptionInfo = option(
    "fuse",
    "FORM",
    "Combine the residual e with the energy E: energy-product (1 − e)·E, energy-ratio E / e, or \
     energy, the paper's form for the map",
);

/// γ of the laplacian kernel on unit vectors.
const LAPLACIAN_GAMMA: f64 = 0.05;
const DEFAULT_DEGREE: u32 = 2;
const DEFAULT_COEF0: f64 = 1.0;

impl KpcaParams {
    /// PCA itself.
    #[must_use]
    pub fn pca() -> Self {
        KpcaParams {
            kernel: Kernel::Linear,
            map: MapParams::Identity,
            components: Components::ExplainedVariance(0.9),
            ..KpcaParams::default()
        }
    }

    /// Random Fourier features as in the paper.
    #[must_use]
    pub fn fourier() -> Self {
        KpcaParams {
            kernel: Kernel::Gaussian { gamma: 2.0 },
            map: MapParams::Fourier { features: 2048, draw: Draw::default(), parts: None },
            components: Components::ExplainedVariance(0.8),
            ..KpcaParams::default()
        }
    }

    fn sketch() -> Self {
        KpcaParams {
            kernel: Kernel::Polynomial { degree: DEFAULT_DEGREE, coef0: DEFAULT_COEF0 },
            map: MapParams::TensorSketch { features: 2048 },
            ..KpcaParams::default()
        }
    }

    fn exact(form: ExactForm) -> Self {
        let map = MapParams::Exact { form };
        KpcaParams { map, precision: Precision::F64, ..KpcaParams::default() }
    }

    /// Clipped features, combined with their energy.
    fn fused_with_react(self) -> Self {
        let fusion = Some(self.paper_fusion());
        KpcaParams { react: Some(Clip::default()), fusion, ..self }
    }

    fn is_fourier(&self) -> bool {
        matches!(self.map, MapParams::Fourier { .. })
    }

    /// The paper's form for the map.
    fn paper_fusion(&self) -> Fusion {
        if self.is_fourier() { Fusion::EnergyProduct } else { Fusion::EnergyRatio }
    }

    /// The only kernel that the map is for, if there is one.
    fn only_kernel(&self) -> Option<&'static str> {
        match self.map {
            MapParams::Identity => Some("linear"),
            MapParams::TensorSketch { .. } => Some("polynomial"),
            MapParams::Fourier { .. } | MapParams::Nystrom { .. } | MapParams::Exact { .. } => None,
        }
    }

    fn gaussian_gamma(&self) -> f64 {
        let default = if self.is_fourier() { Self::fourier() } else { Self::default() };
        default.kernel.gamma().unwrap_or(1.0)
    }

    fn kernel_options(&mut self, options: &mut Options<'_>) -> Result<()> {
        if let Some(only) = self.only_kernel() {
            options.add_only(&KERNEL, only)?;
        } else {
            let mut kernel = KernelName(self.kernel.name());
            if options.add(&KERNEL, &mut kernel)? {
                let laplacian = kernel.0 == "laplacian";
                let gamma = if laplacian { LAPLACIAN_GAMMA } else { self.gaussian_gamma() };
                self.kernel = Kernel::named(kernel.0, gamma, DEFAULT_DEGREE, DEFAULT_COEF0)?;
                if let MapParams::Fourier { draw, .. } = &mut self.map
                    && laplacian
                {
                    *draw = Draw::Iid;
                }
            }
        }
        let mut gamma = self.kernel.gamma();
        let mut is_given = false;
        if gamma.is_some() || (options.is_listing() && self.only_kernel().is_none()) {
            let words = format!(
                "gaussian {}, laplacian {LAPLACIAN_GAMMA}; to be given with --no-cosine",
                self.gaussian_gamma()
            );
            is_given = options.add_said(&GAMMA, &mut gamma, words)?;
        }
        if let Some(gamma) = gamma {
            self.kernel = self.kernel.with_gamma(gamma);
        }
        let polynomial = matches!(self.kernel, Kernel::Polynomial { .. });
        let can_be = !self.is_fourier() && self.map != MapParams::Identity;
        if polynomial || (options.is_listing() && can_be) {
            let (mut degree, mut coef0) = (DEFAULT_DEGREE, DEFAULT_COEF0);
            options.add(&DEGREE, &mut degree)?;
            options.add(&COEF0, &mut coef0)?;
            if polynomial {
                self.kernel = Kernel::Polynomial { degree, coef0 };
            }
        }
        let mut no_cosine = !self.cosine;
        options.add_said(&NO_COSINE, &mut no_cosine, "off: rows are scaled to unit length")?;
        self.cosine = !no_cosine;
        if no_cosine && self.kernel.gamma().is_some() && !is_given {
            return Err(Error::MissingInput {
                who: WithoutCosine.to_string(),
                what: if as_flags() { "--gamma" } else { "gamma" },
                hint: "the defaults are for unit vectors; try about one over the mean squared \
                       distance between rows"
                    .to_owned(),
            });
        }
        Ok(())
    }

    fn map_options(&mut self, options: &mut Options<'_>) -> Result<()> {
        match &mut self.map {
            MapParams::Identity | MapParams::Exact { .. } => {}
            MapParams::TensorSketch { features } => {
                options.add(&FEATURES, features)?;
            }
            MapParams::Fourier { features, draw, parts } => {
                options.excludes(&FREQUENCIES, &[&DRAW, &FEATURES])?;
                options.add(&FEATURES, features)?;
                let words = format!("{draw} (laplacian: iid)");
                options.add_said(&DRAW, draw, words)?;
                options.add(&FREQUENCIES, parts)?;
            }
            MapParams::Nystrom { landmarks, sampling, floor } => {
                options.excludes(&LANDMARK_ROWS, &[&SAMPLING, &LANDMARKS])?;
                options.add(&LANDMARKS, landmarks)?;
                options.add(&SAMPLING, sampling)?;
                let mut rows: Option<Vec<u64>> = None;
                options.add(&LANDMARK_ROWS, &mut rows)?;
                if let Some(rows) = rows {
                    (*landmarks, *sampling) = (rows.len(), Sampling::Given(rows));
                }
                options.add(&RESIDUAL, &mut self.residual)?;
                let EigenFloor { relative, rule } = floor;
                options.add(&RANK_FLOOR, relative)?;
                options.add(&RANK_RULE, rule)?;
            }
        }
        Ok(())
    }
}

impl Method for KpcaParams {
    fn entries() -> Vec<Entry<Self>> {
        let entry = |name, summary, needs, default| Entry {
            name,
            summary,
            needs,
            source: PAPER,
            parity: GOLDEN,
            default,
        };
        let (features, head) = ("features only", "features and head");
        vec![
            entry(
                "pca",
                "residual of (cosine) PCA: the linear kernel",
                features,
                KpcaParams::pca(),
            ),
            entry(
                "kpca-nys",
                "kernel PCA through landmarks (Nyström), any kernel",
                "features; logits or head for low-energy and high-energy sampling",
                KpcaParams::default(),
            ),
            entry(
                "kpca-rff",
                "kernel PCA through random Fourier features, gaussian or laplacian",
                features,
                KpcaParams::fourier(),
            ),
            entry(
                "kpca-nys+react",
                "kpca-nys of activations cut by ReAct, fused with their energy: E / e",
                head,
                KpcaParams::default().fused_with_react(),
            ),
            entry(
                "kpca-rff+react",
                "kpca-rff of activations cut by ReAct, fused with their energy: (1 − e)·E",
                head,
                KpcaParams::fourier().fused_with_react(),
            ),
            Entry {
                name: "kpca-sketch",
                summary: "kernel PCA through a tensor sketch of the polynomial kernel",
                needs: features,
                source: PAPER,
                parity: "inner products against the kernel they approximate",
                default: KpcaParams::sketch(),
            },
            entry(
                "kpca-exact",
                "kernel PCA from the full kernel matrix, for up to 20,000 rows",
                features,
                KpcaParams::exact(ExactForm::Centred),
            ),
            entry(
                "kpca-exact-prop2",
                "the residual as Proposition 2 of the paper prints it: neither centred nor scaled",
                features,
                KpcaParams::exact(ExactForm::Proposition2),
            ),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        self.method().into()
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        self.kernel_options(options)?;
        self.map_options(options)?;
        options.excludes(&COMPONENTS, &[&EXPLAINED_VARIANCE])?;
        let mut ratio = match self.components {
            Components::ExplainedVariance(ratio) => Some(ratio),
            Components::Fixed(_) | Components::UpTo { .. } => None,
        };
        options.add(&EXPLAINED_VARIANCE, &mut ratio)?;
        if let Some(ratio) = ratio {
            self.components = Components::ExplainedVariance(ratio);
        }
        let mut fixed = None;
        options.add_or(&COMPONENTS, &mut fixed, "none: q from the explained variance")?;
        if let Some(q) = fixed {
            self.components = Components::Fixed(q);
        }
        options.add(&REACT, &mut self.react)?;
        let mut fuse = Fuse { form: self.fusion, paper: self.paper_fusion() };
        options.add(&FUSE, &mut fuse)?;
        self.fusion = fuse.form;
        // One that draws nothing keeps the seed all the same, but does not promise anything by it.
        let draws = !matches!(self.map, MapParams::Identity | MapParams::Exact { .. });
        if draws || !options.is_listing() {
            options.add(&SEED, &mut self.seed)?;
        }
        options.add(&PRECISION, &mut self.precision)?;
        options.add(&WEIGHTS, &mut self.weights).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        let valid = KpcaParams::check(self.clone())?;
        *self = valid.params().clone();
        Ok(Arc::new(valid))
    }

    fn map_size(&self) -> Option<usize> {
        self.map.size()
    }

    fn checkpoints(&self) -> Option<&'static [&'static str]> {
        (!matches!(self.map, MapParams::Exact { .. })).then_some(&[])
    }
}

impl Fit for ValidKpca {
    fn memory(&self, size: &FitSize) -> u64 {
        size.kpca(self)
    }

    fn uses_logits(&self) -> bool {
        self.params().uses_energy()
    }

    fn check_inputs(&self, _: &str, training: &Training<'_>) -> Result<()> {
        check_inputs(self, training)
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        Ok(from_walk(fit(self, training)?))
    }

    fn results(&self) -> Results {
        Results::Kpca
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(KpcaModel::read(self, stored.kpca()?, stored)?))
    }
}

named_values!(Residual,);

impl OptionValue for Clip {
    fn set(&mut self, given: &Given) -> Result<(), String> {
        *self = given.parse_named()?;
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(match self {
            Clip::Value(value) => value.to_string(),
            Clip::Percentile(percent) => format!("p{percent}"),
        })
    }
}

/// A kernel by its name.
struct KernelName(&'static str);

impl OptionValue for KernelName {
    fn set(&mut self, given: &Given) -> Result<(), String> {
        let name: String = given.parse("a name")?;
        let known = Kernel::NAMES.iter().find(|known| **known == name);
        self.0 = known.ok_or_else(|| crate::error::names::no_such_name(Kernel::NAMES, &name))?;
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(self.0.to_owned())
    }

    fn choices(&self) -> &'static [&'static str] {
        Kernel::NAMES
    }
}

/// A fusion, which may be asked for as the paper's form for the map.
struct Fuse {
    form: Option<Fusion>,
    paper: Fusion,
}

impl Fuse {
    const NAMES: &'static [&'static str] = &["energy", "energy-product", "energy-ratio"];
}

impl OptionValue for Fuse {
    fn set(&mut self, given: &Given) -> Result<(), String> {
        let name: String = given.parse("a name")?;
        self.form = Some(match name.as_str() {
            "energy" => self.paper,
            _ => name.parse().map_err(|_| crate::error::names::no_such_name(Self::NAMES, &name))?,
        });
        Ok(())
    }

    fn text(&self) -> Option<String> {
        self.form.map(|form| form.name().to_owned())
    }

    fn choices(&self) -> &'static [&'static str] {
        Self::NAMES
    }
}
