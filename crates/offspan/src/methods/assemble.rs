//! From a name and options to a method with all its parameters.

use super::auto::AutoParams;
use super::bank::BankSize;
use super::choices::{FuseName, KernelName, RankRuleName, ResidualName, SamplingName};
use super::learned::DkgpKpcaParams;
use super::logit::LogitScore;
use super::options::MethodOptions;
use super::spec::MethodSpec;
use crate::error::wording::{WithoutCosine, as_flags};
use crate::methods::kpca::{
    Clip, EnsembleParams, ExactForm, Fusion, KpcaParams, MapParams, Residual,
};
use crate::methods::learn::{AutoencoderParams, DkgpParams, RffOptParams};
use crate::methods::rectify::Rectification;
use crate::span::map::{Draw, EigenFloor, FloorRule};
use crate::span::subspace::Components;
use crate::training::landmarks::Sampling;
use crate::{Error, Kernel, Result};

/// A method with options that it takes in place of its defaults.
pub(super) fn assemble(name: &str, options: &MethodOptions) -> Result<MethodSpec> {
    let kpca = |params| Ok(MethodSpec::Kpca(params));
    match name {
        "auto" => Ok(MethodSpec::Auto(AutoParams {
            gamma: options.gamma,
            landmarks: options.landmarks,
            explained_variance: options
                .explained_variance
                .unwrap_or(AutoParams::default().explained_variance),
            seed: options.seed,
            precision: options.precision,
            weights: options.weights,
        })),
        "pca" => kpca(params(options, MapParams::Identity, Kind::Pca)?),
        "kpca-rff" => kpca(rff(options)?),
        "kpca-nys" => kpca(nystrom(options)?),
        "kpca-sketch" => {
            let map = MapParams::TensorSketch { features: options.features.unwrap_or(2048) };
            kpca(params(options, map, Kind::Sketch)?)
        }
        "kpca-exact" => {
            kpca(params(options, MapParams::Exact { form: ExactForm::Centred }, Kind::Kernel)?)
        }
        "kpca-exact-prop2" => {
            kpca(params(options, MapParams::Exact { form: ExactForm::Proposition2 }, Kind::Kernel)?)
        }
        "kpca-ensemble" => {
            let rff_args = MethodOptions {
                gamma: options.rff_gamma,
                explained_variance: options.rff_explained_variance,
                components: None,
                residual: None,
                ..options.clone()
            };
            Ok(MethodSpec::KpcaEnsemble(EnsembleParams {
                rff: rff(&rff_args)?,
                nystrom: nystrom(options)?,
            }))
        }
        "autoencoder" => {
            let default = AutoencoderParams::default();
            Ok(MethodSpec::Autoencoder(AutoencoderParams {
                hidden: options.hidden,
                code: options.code,
                most_epochs: options.epochs.unwrap_or(default.most_epochs),
                seed: options.seed,
            }))
        }
        "rff-opt" => {
            // Weights concentrate the variance on fewer directions, so more of it has to be kept.
            let ratio = options.explained_variance.or(options.components.is_none().then_some(0.95));
            let options = MethodOptions {
                features: options.features.or(Some(4096)),
                explained_variance: ratio,
                ..options.clone()
            };
            let params = RffOptParams { kpca: rff(&options)?, rho: options.rho.unwrap_or(1.0) };
            Ok(MethodSpec::RffOpt(params))
        }
        "dkgp-rff" => dkgp(rff(options)?, options),
        "dkgp-nys" => dkgp(nystrom(options)?, options),
        "kpca-nys+react" => kpca(nystrom(&with_fused_react(options))?),
        "kpca-rff+react" => kpca(rff(&with_fused_react(options))?),
        _ => {
            if let Some(mut spec) = MethodSpec::baseline(name) {
                adjust(&mut spec, options);
                return Ok(spec);
            }
            // Kernel PCA with steps before it.
            let (score, steps) = name.split_once('+').unwrap_or((name, ""));
            let mut steps: Vec<Rectification> =
                steps.split('+').filter_map(Rectification::named).collect();
            steps.iter_mut().for_each(|step| adjust_step(step, options));
            let score = assemble(score, &MethodOptions { react: None, ..options.clone() })?;
            Ok(MethodSpec::Rectified { steps, score: Box::new(score), raw_fit: options.raw_fit })
        }
    }
}

fn dkgp(kpca: KpcaParams, options: &MethodOptions) -> Result<MethodSpec> {
    let default = DkgpParams::default();
    let search = DkgpParams {
        inducing: options.inducing.unwrap_or(default.inducing),
        most_steps: options.steps.unwrap_or(default.most_steps),
        start_gamma: options.gamma.unwrap_or(default.start_gamma),
        seed: options.seed,
    };
    Ok(MethodSpec::Dkgp(DkgpKpcaParams { search, kpca }))
}

fn with_fused_react(options: &MethodOptions) -> MethodOptions {
    MethodOptions {
        react: options.react.or(Some(Clip::Percentile(90.0))),
        fuse: options.fuse.or(Some(FuseName::Energy)),
        ..options.clone()
    }
}

fn set<T: Clone>(to: &mut T, given: Option<&T>) {
    if let Some(given) = given {
        to.clone_from(given);
    }
}

/// Puts given flags in place of defaults.
fn adjust(method: &mut MethodSpec, options: &MethodOptions) {
    match method {
        MethodSpec::Logit(
            LogitScore::Energy { temperature } | LogitScore::Odin { temperature },
        ) => set(temperature, options.temperature.as_ref()),
        MethodSpec::Knn { neighbours, bank, seed }
        | MethodSpec::NnGuide { neighbours, bank, seed } => {
            set(neighbours, options.neighbours.as_ref());
            set(bank, options.bank.map(BankSize::Share).as_ref());
            *seed = options.seed;
        }
        MethodSpec::Tnn { neighbours, tangents, bank, seed } => {
            set(neighbours, options.neighbours.as_ref());
            set(tangents, options.tangents.as_ref());
            set(bank, options.bank.map(BankSize::Share).as_ref());
            *seed = options.seed;
        }
        MethodSpec::Vim { components, head_floor } => {
            *components = options.components.or(*components);
            set(head_floor, options.head_floor.as_ref());
        }
        MethodSpec::Dml { norm_weight } => set(norm_weight, options.norm_weight.as_ref()),
        MethodSpec::GradOrth { explained_variance } => {
            set(explained_variance, options.explained_variance.as_ref());
        }
        MethodSpec::RegPca { components } => *components = options.components.or(*components),
        MethodSpec::LowDim { ridge } => set(ridge, options.ridge.as_ref()),
        MethodSpec::Supcon { score } => adjust(score, options),
        MethodSpec::Rectified { steps, score, raw_fit } => {
            steps.iter_mut().for_each(|step| adjust_step(step, options));
            adjust(score, options);
            *raw_fit = options.raw_fit;
        }
        _ => {}
    }
}

fn adjust_step(step: &mut Rectification, options: &MethodOptions) {
    match step {
        Rectification::React { at } => set(at, options.react.as_ref()),
        Rectification::Bats { deviations } => set(deviations, options.deviations.as_ref()),
        Rectification::Vra { bounds } => set(bounds, options.vra.as_ref()),
        Rectification::AshB { prune }
        | Rectification::AshP { prune }
        | Rectification::AshS { prune }
        | Rectification::Scale { prune } => set(prune, options.prune.as_ref()),
        Rectification::Dice { sparsity } => set(sparsity, options.sparsity.as_ref()),
        Rectification::Line { activations, weights, clip } => {
            if let Some(pair) = options.line {
                (*activations, *weights) = (pair.0, pair.1);
            }
            set(clip, options.line_clip.as_ref());
        }
        Rectification::Ddcs { low, high, balance, channels } => {
            if let Some(pair) = options.shape {
                (*low, *high) = (pair.0, pair.1);
            }
            set(balance, options.balance.as_ref());
            set(channels, options.channels.as_ref());
        }
    }
}

/// What the defaults depend on.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Pca,
    Fourier,
    Sketch,
    Kernel,
}

fn rff(options: &MethodOptions) -> Result<KpcaParams> {
    let parts = options.frequencies.clone();
    let laplacian = options.kernel == Some(KernelName::Laplacian);
    let map = MapParams::Fourier {
        features: parts
            .as_ref()
            .map_or(options.features.unwrap_or(2048), |parts| parts.phases.len()),
        draw: match options.draw {
            Some(draw) => draw.into(),
            None if laplacian => Draw::Iid,
            None => Draw::default(),
        },
        parts,
    };
    params(options, map, Kind::Fourier)
}

fn nystrom(options: &MethodOptions) -> Result<KpcaParams> {
    let default = EigenFloor::default();
    let sampling = match (&options.landmark_rows, options.sampling) {
        (Some(rows), _) => Sampling::Given(rows.clone()),
        (None, None | Some(SamplingName::LowEnergy)) => Sampling::LowEnergy,
        (None, Some(SamplingName::HighEnergy)) => Sampling::HighEnergy,
        (None, Some(SamplingName::Uniform)) => Sampling::Uniform,
    };
    let landmarks = match &sampling {
        Sampling::Given(rows) => rows.len(),
        _ => options.landmarks.unwrap_or(1024),
    };
    let floor = EigenFloor {
        relative: options.rank_floor.unwrap_or(default.relative),
        rule: match options.rank_rule {
            Some(RankRuleName::Clamp) => FloorRule::Clamp,
            Some(RankRuleName::Drop) | None => FloorRule::Drop,
        },
    };
    params(options, MapParams::Nystrom { landmarks, sampling, floor }, Kind::Kernel)
}

fn params(options: &MethodOptions, map: MapParams, kind: Kind) -> Result<KpcaParams> {
    let default_ratio = match kind {
        Kind::Pca => 0.9,
        Kind::Fourier => 0.8,
        Kind::Sketch | Kind::Kernel => 0.99,
    };
    let params = KpcaParams {
        kernel: kernel(options, kind)?,
        cosine: !options.no_cosine,
        map,
        components: match options.components {
            Some(q) => Components::Fixed(q),
            None => {
                Components::ExplainedVariance(options.explained_variance.unwrap_or(default_ratio))
            }
        },
        residual: match options.residual {
            Some(ResidualName::Complete) => Residual::Complete,
            Some(ResidualName::Plain) | None => Residual::Plain,
        },
        react: options.react,
        fusion: options.fuse.map(|fuse| match fuse {
            FuseName::EnergyProduct => Fusion::EnergyProduct,
            FuseName::Energy if kind == Kind::Fourier => Fusion::EnergyProduct,
            FuseName::Energy | FuseName::EnergyRatio => Fusion::EnergyRatio,
        }),
        seed: options.seed,
        precision: options.precision,
        weights: options.weights,
    };
    // Checked here so that a bad flag is refused before any file is read.
    Ok(params.check()?.params().clone())
}

fn kernel(options: &MethodOptions, kind: Kind) -> Result<Kernel> {
    let name = options.kernel.unwrap_or(match kind {
        Kind::Pca => KernelName::Linear,
        Kind::Sketch => KernelName::Polynomial,
        Kind::Fourier | Kind::Kernel => KernelName::Gaussian,
    });
    let gamma = |default: f64| match (options.gamma, options.no_cosine) {
        (Some(gamma), _) => Ok(gamma),
        (None, false) => Ok(default),
        (None, true) => Err(Error::MissingInput {
            who: WithoutCosine.to_string(),
            what: if as_flags() { "--gamma" } else { "gamma" },
            hint:
                "the defaults are for unit vectors; try about one over the mean squared distance \
                   between rows"
                    .to_owned(),
        }),
    };
    Ok(match name {
        KernelName::Linear => Kernel::Linear,
        KernelName::Gaussian => {
            Kernel::Gaussian { gamma: gamma(if kind == Kind::Fourier { 2.0 } else { 1.0 })? }
        }
        KernelName::Laplacian => Kernel::Laplacian { gamma: gamma(0.05)? },
        KernelName::Polynomial => Kernel::Polynomial {
            degree: options.degree.unwrap_or(2),
            coef0: options.coef0.unwrap_or(1.0),
        },
    })
}
