//! From flags to a method with its parameters.

use offspan::io::{FeatureSource, open_matrix, read_index_list, read_vector};
use offspan::map::{Draw, EigenFloor, FloorRule};
use offspan::{
    AutoencoderParams, BankSize, CATALOGUE, Clip, Components, DkgpKpcaParams, DkgpParams,
    EnsembleParams, ExactForm, FourierParts, Fusion, Kernel, KpcaParams, LogitScore, MapParams,
    MethodInfo, MethodSpec, Rectification, Residual, RffOptParams, Sampling,
};

use crate::args::{
    DrawName, FuseName, KernelName, MethodArgs, RankRuleName, ResidualName, SamplingName,
};
use crate::output::Failure;

/// The name that stands for every method.
pub(crate) const ALL: &str = "all";

/// A method as asked for.
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) spec: MethodSpec,
}

/// Builds every named method from the flags that it takes; a flag that none of them takes is an
/// error.
pub(crate) fn specs(names: &[String], args: &MethodArgs) -> Result<Vec<Asked>, Failure> {
    let mut methods: Vec<(String, Vec<&'static str>)> = Vec::new();
    for name in names {
        if name == ALL {
            let all = CATALOGUE.iter().map(|method| (method.name.to_owned(), flags_of(method)));
            methods.extend(all);
        } else {
            methods.push((name.clone(), flags(name)?));
        }
    }
    let takes = |(name, flags): &(String, Vec<&str>), flag: &str| match (name.as_str(), flag) {
        // Two have one kernel only, and take its name but no other.
        ("pca", "--kernel") => args.kernel == Some(KernelName::Linear),
        ("kpca-sketch", "--kernel") => args.kernel == Some(KernelName::Polynomial),
        _ => flags.contains(&flag),
    };
    let mut unused = args.clone();
    for method in &methods {
        each_flag(&mut unused, |flag, given| *given &= !takes(method, flag));
    }
    let mut problem = None;
    each_flag(&mut unused, |flag, given| {
        if *given {
            problem.get_or_insert(flag);
        }
    });
    if let Some(flag) = problem {
        let whom = if names.is_empty() { "saved detectors".to_owned() } else { names.join(", ") };
        return Err(Failure::Usage(format!(
            "{flag} has no meaning for {whom}; `offspan methods` tells which method takes what"
        )));
    }
    let asked = |method: &(String, Vec<&'static str>)| {
        let mut relevant = args.clone();
        each_flag(&mut relevant, |flag, given| *given &= takes(method, flag));
        Ok(Asked { name: method.0.clone(), spec: spec(&method.0, &relevant)?.check()? })
    };
    methods.iter().map(asked).collect()
}

fn entry(name: &str) -> Option<&'static MethodInfo> {
    CATALOGUE.iter().find(|method| method.name == name)
}

fn flags_of(method: &MethodInfo) -> Vec<&'static str> {
    method.parameters.iter().map(|parameter| parameter.flag).collect()
}

/// The flags of a method, or of a combination of a score and steps.
fn flags(name: &str) -> Result<Vec<&'static str>, Failure> {
    if let Some(method) = entry(name) {
        return Ok(flags_of(method));
    }
    let mut parts = name.split('+');
    let first = parts.next().and_then(entry);
    let steps: Option<Vec<&MethodInfo>> =
        parts.map(|part| entry(part).filter(|method| method.is_step)).collect();
    match (first, steps) {
        (Some(first), Some(steps)) if !steps.is_empty() => {
            let mut flags: Vec<_> =
                std::iter::once(first).chain(steps).flat_map(flags_of).collect();
            flags.push("--raw-fit");
            Ok(flags)
        }
        _ => {
            let known: Vec<&str> = CATALOGUE.iter().map(|method| method.name).collect();
            Err(Failure::Usage(format!(
                "unknown method `{name}`; expected {ALL}, one of {}, or a score and a step joined \
                 by `+` (knn+react)",
                known.join(", ")
            )))
        }
    }
}

/// Shows `visit` each flag and whether it was given; it may take it away.
fn each_flag(args: &mut MethodArgs, mut visit: impl FnMut(&'static str, &mut bool)) {
    visit("--no-cosine", &mut args.no_cosine);
    visit("--raw-fit", &mut args.raw_fit);
    macro_rules! optional {
        ($($flag:literal $field:ident),* $(,)?) => {$({
            let mut given = args.$field.is_some();
            visit($flag, &mut given);
            args.$field = args.$field.take().filter(|_| given);
        })*};
    }
    optional!(
        "--kernel" kernel,
        "--gamma" gamma,
        "--degree" degree,
        "--coef0" coef0,
        "--features" features,
        "--landmarks" landmarks,
        "--sampling" sampling,
        "--landmark-rows" landmark_rows,
        "--draw" draw,
        "--frequencies" frequencies,
        "--residual" residual,
        "--rank-floor" rank_floor,
        "--rank-rule" rank_rule,
        "--explained-variance" explained_variance,
        "--components" components,
        "--react" react,
        "--fuse" fuse,
        "--rff-gamma" rff_gamma,
        "--rff-explained-variance" rff_explained_variance,
        "--temperature" temperature,
        "--neighbours" neighbours,
        "--bank" bank,
        "--tangents" tangents,
        "--head-floor" head_floor,
        "--norm-weight" norm_weight,
        "--ridge" ridge,
        "--deviations" deviations,
        "--vra" vra,
        "--prune" prune,
        "--sparsity" sparsity,
        "--line" line,
        "--line-clip" line_clip,
        "--shape" shape,
        "--balance" balance,
        "--channels" channels,
        "--hidden" hidden,
        "--code" code,
        "--epochs" epochs,
        "--rho" rho,
        "--inducing" inducing,
        "--steps" steps,
    );
}

fn spec(name: &str, args: &MethodArgs) -> Result<MethodSpec, Failure> {
    let kpca = |params| Ok(MethodSpec::Kpca(params));
    match name {
        "pca" => kpca(params(args, MapParams::Identity, Kind::Pca)?),
        "kpca-rff" => kpca(rff(args)?),
        "kpca-nys" => kpca(nystrom(args)?),
        "kpca-sketch" => {
            let map = MapParams::TensorSketch { features: args.features.unwrap_or(2048) };
            kpca(params(args, map, Kind::Sketch)?)
        }
        "kpca-exact" => {
            kpca(params(args, MapParams::Exact { form: ExactForm::Centred }, Kind::Kernel)?)
        }
        "kpca-exact-prop2" => {
            kpca(params(args, MapParams::Exact { form: ExactForm::Proposition2 }, Kind::Kernel)?)
        }
        "kpca-ensemble" => {
            let rff_args = MethodArgs {
                gamma: args.rff_gamma,
                explained_variance: args.rff_explained_variance,
                components: None,
                residual: None,
                ..args.clone()
            };
            Ok(MethodSpec::KpcaEnsemble(EnsembleParams {
                rff: rff(&rff_args)?,
                nystrom: nystrom(args)?,
            }))
        }
        "autoencoder" => {
            let default = AutoencoderParams::default();
            Ok(MethodSpec::Autoencoder(AutoencoderParams {
                hidden: args.hidden,
                code: args.code,
                most_epochs: args.epochs.unwrap_or(default.most_epochs),
                seed: args.seed,
            }))
        }
        "rff-opt" => {
            // Weights concentrate the variance on fewer directions, so more of it has to be kept.
            let ratio = args.explained_variance.or(args.components.is_none().then_some(0.95));
            let args = MethodArgs {
                features: args.features.or(Some(4096)),
                explained_variance: ratio,
                ..args.clone()
            };
            let params = RffOptParams { kpca: rff(&args)?, rho: args.rho.unwrap_or(1.0) };
            Ok(MethodSpec::RffOpt(params))
        }
        "dkgp-rff" => dkgp(rff(args)?, args),
        "dkgp-nys" => dkgp(nystrom(args)?, args),
        "kpca-nys+react" => kpca(nystrom(&with_fused_react(args))?),
        "kpca-rff+react" => kpca(rff(&with_fused_react(args))?),
        _ => {
            if let Some(mut spec) = MethodSpec::named(name) {
                adjust(&mut spec, args);
                return Ok(spec);
            }
            // Kernel PCA with steps before it.
            let (score, steps) = name.split_once('+').unwrap_or((name, ""));
            let mut steps: Vec<Rectification> =
                steps.split('+').filter_map(Rectification::named).collect();
            steps.iter_mut().for_each(|step| adjust_step(step, args));
            let score = spec(score, &MethodArgs { react: None, ..args.clone() })?;
            Ok(MethodSpec::Rectified { steps, score: Box::new(score), raw_fit: args.raw_fit })
        }
    }
}

fn dkgp(kpca: KpcaParams, args: &MethodArgs) -> Result<MethodSpec, Failure> {
    let default = DkgpParams::default();
    let search = DkgpParams {
        inducing: args.inducing.unwrap_or(default.inducing),
        most_steps: args.steps.unwrap_or(default.most_steps),
        start_gamma: args.gamma.unwrap_or(default.start_gamma),
        seed: args.seed,
    };
    Ok(MethodSpec::Dkgp(DkgpKpcaParams { search, kpca }))
}

fn with_fused_react(args: &MethodArgs) -> MethodArgs {
    MethodArgs {
        react: args.react.or(Some(Clip::Percentile(90.0))),
        fuse: args.fuse.or(Some(FuseName::Energy)),
        ..args.clone()
    }
}

fn set<T: Clone>(to: &mut T, given: Option<&T>) {
    if let Some(given) = given {
        to.clone_from(given);
    }
}

/// Puts given flags in place of defaults.
fn adjust(method: &mut MethodSpec, args: &MethodArgs) {
    match method {
        MethodSpec::Logit(
            LogitScore::Energy { temperature } | LogitScore::Odin { temperature },
        ) => set(temperature, args.temperature.as_ref()),
        MethodSpec::Knn { neighbours, bank, seed }
        | MethodSpec::NnGuide { neighbours, bank, seed } => {
            set(neighbours, args.neighbours.as_ref());
            set(bank, args.bank.map(BankSize::Share).as_ref());
            *seed = args.seed;
        }
        MethodSpec::Tnn { neighbours, tangents, bank, seed } => {
            set(neighbours, args.neighbours.as_ref());
            set(tangents, args.tangents.as_ref());
            set(bank, args.bank.map(BankSize::Share).as_ref());
            *seed = args.seed;
        }
        MethodSpec::Vim { components, head_floor } => {
            *components = args.components.or(*components);
            set(head_floor, args.head_floor.as_ref());
        }
        MethodSpec::Dml { norm_weight } => set(norm_weight, args.norm_weight.as_ref()),
        MethodSpec::GradOrth { explained_variance } => {
            set(explained_variance, args.explained_variance.as_ref());
        }
        MethodSpec::RegPca { components } => *components = args.components.or(*components),
        MethodSpec::LowDim { ridge } => set(ridge, args.ridge.as_ref()),
        MethodSpec::Supcon { score } => adjust(score, args),
        MethodSpec::Rectified { steps, score, raw_fit } => {
            steps.iter_mut().for_each(|step| adjust_step(step, args));
            adjust(score, args);
            *raw_fit = args.raw_fit;
        }
        _ => {}
    }
}

fn adjust_step(step: &mut Rectification, args: &MethodArgs) {
    match step {
        Rectification::React { at } => set(at, args.react.as_ref()),
        Rectification::Bats { deviations } => set(deviations, args.deviations.as_ref()),
        Rectification::Vra { bounds } => set(bounds, args.vra.as_ref()),
        Rectification::AshB { prune }
        | Rectification::AshP { prune }
        | Rectification::AshS { prune }
        | Rectification::Scale { prune } => set(prune, args.prune.as_ref()),
        Rectification::Dice { sparsity } => set(sparsity, args.sparsity.as_ref()),
        Rectification::Line { activations, weights, clip } => {
            if let Some(pair) = args.line {
                (*activations, *weights) = (pair.0, pair.1);
            }
            set(clip, args.line_clip.as_ref());
        }
        Rectification::Ddcs { low, high, balance, channels } => {
            if let Some(pair) = args.shape {
                (*low, *high) = (pair.0, pair.1);
            }
            set(balance, args.balance.as_ref());
            set(channels, args.channels.as_ref());
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

fn rff(args: &MethodArgs) -> Result<KpcaParams, Failure> {
    let parts = match &args.frequencies {
        None => None,
        Some(path) => {
            let omega = open_matrix(path, "omega", None)?;
            let mut frequencies = ndarray::Array2::zeros((omega.rows(), omega.width()));
            omega.read_f64(0, frequencies.view_mut());
            let phases = read_vector(path, "u")?;
            Some(Box::new(FourierParts { frequencies, phases, amplitudes: None }))
        }
    };
    let laplacian = args.kernel == Some(KernelName::Laplacian);
    let map = MapParams::Fourier {
        features: parts.as_ref().map_or(args.features.unwrap_or(2048), |parts| parts.phases.len()),
        draw: match args.draw {
            Some(DrawName::Iid) => Draw::Iid,
            Some(DrawName::Orthogonal) => Draw::Orthogonal,
            Some(DrawName::Structured) => Draw::Structured,
            None if laplacian => Draw::Iid,
            None => Draw::default(),
        },
        parts,
    };
    params(args, map, Kind::Fourier)
}

fn nystrom(args: &MethodArgs) -> Result<KpcaParams, Failure> {
    let default = EigenFloor::default();
    let sampling = match (&args.landmark_rows, args.sampling) {
        (Some(path), _) => Sampling::Given(read_index_list(path)?),
        (None, None | Some(SamplingName::LowEnergy)) => Sampling::LowEnergy,
        (None, Some(SamplingName::HighEnergy)) => Sampling::HighEnergy,
        (None, Some(SamplingName::Uniform)) => Sampling::Uniform,
    };
    let landmarks = match &sampling {
        Sampling::Given(rows) => rows.len(),
        _ => args.landmarks.unwrap_or(1024),
    };
    let floor = EigenFloor {
        relative: args.rank_floor.unwrap_or(default.relative),
        rule: match args.rank_rule {
            Some(RankRuleName::Clamp) => FloorRule::Clamp,
            Some(RankRuleName::Drop) | None => FloorRule::Drop,
        },
    };
    params(args, MapParams::Nystrom { landmarks, sampling, floor }, Kind::Kernel)
}

fn params(args: &MethodArgs, map: MapParams, kind: Kind) -> Result<KpcaParams, Failure> {
    let default_ratio = match kind {
        Kind::Pca => 0.9,
        Kind::Fourier => 0.8,
        Kind::Sketch | Kind::Kernel => 0.99,
    };
    let params = KpcaParams {
        kernel: kernel(args, kind)?,
        cosine: !args.no_cosine,
        map,
        components: match args.components {
            Some(q) => Components::Fixed(q),
            None => Components::ExplainedVariance(args.explained_variance.unwrap_or(default_ratio)),
        },
        residual: match args.residual {
            Some(ResidualName::Complete) => Residual::Complete,
            Some(ResidualName::Plain) | None => Residual::Plain,
        },
        react: args.react,
        fusion: args.fuse.map(|fuse| match fuse {
            FuseName::EnergyProduct => Fusion::EnergyProduct,
            FuseName::Energy if kind == Kind::Fourier => Fusion::EnergyProduct,
            FuseName::Energy | FuseName::EnergyRatio => Fusion::EnergyRatio,
        }),
        seed: args.seed,
        precision: args.precision,
        weights: args.weights,
    };
    // Checked here so that a bad flag is refused before any file is read.
    Ok(params.check()?.params().clone())
}

fn kernel(args: &MethodArgs, kind: Kind) -> Result<Kernel, Failure> {
    let name = args.kernel.unwrap_or(match kind {
        Kind::Pca => KernelName::Linear,
        Kind::Sketch => KernelName::Polynomial,
        Kind::Fourier | Kind::Kernel => KernelName::Gaussian,
    });
    let gamma = |default: f64| match (args.gamma, args.no_cosine) {
        (Some(gamma), _) => Ok(gamma),
        (None, false) => Ok(default),
        (None, true) => Err(Failure::Usage(
            "--no-cosine needs --gamma: the defaults are for unit vectors; try about one over the \
             mean squared distance between rows"
                .to_owned(),
        )),
    };
    Ok(match name {
        KernelName::Linear => Kernel::Linear,
        KernelName::Gaussian => {
            Kernel::Gaussian { gamma: gamma(if kind == Kind::Fourier { 2.0 } else { 1.0 })? }
        }
        KernelName::Laplacian => Kernel::Laplacian { gamma: gamma(0.05)? },
        KernelName::Polynomial => Kernel::Polynomial {
            degree: args.degree.unwrap_or(2),
            coef0: args.coef0.unwrap_or(1.0),
        },
    })
}
