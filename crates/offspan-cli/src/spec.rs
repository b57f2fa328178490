//! From flags to a method with its parameters.

use offspan::io::{FeatureSource, open_matrix, read_index_list, read_vector};
use offspan::map::{Draw, EigenFloor, FloorRule};
use offspan::{
    CATALOGUE, Components, EnsembleParams, ExactForm, FourierParts, Fusion, Kernel, KpcaParams,
    MapParams, MethodInfo, MethodSpec, Residual, Sampling,
};

use crate::args::{
    DrawName, FuseName, KernelName, MethodArgs, RankRuleName, ResidualName, SamplingName,
};
use crate::output::Failure;

/// Builds every named method from the flags that it takes; a flag that none of them takes is an
/// error.
pub(crate) fn specs(names: &[String], args: &MethodArgs) -> Result<Vec<MethodSpec>, Failure> {
    let methods: Vec<&MethodInfo> =
        names.iter().map(|name| method(name)).collect::<Result<_, _>>()?;
    let mut unused = args.clone();
    for method in &methods {
        each_flag(&mut unused, |flag, given| *given &= !takes(method, flag, args));
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
    let relevant = |method: &MethodInfo| {
        let mut relevant = args.clone();
        each_flag(&mut relevant, |flag, given| *given &= takes(method, flag, args));
        relevant
    };
    methods.iter().map(|method| spec(method.name, &relevant(method))).collect()
}

/// Whether a method has this flag. Two have one kernel only, and take its name but no other.
fn takes(method: &MethodInfo, flag: &str, args: &MethodArgs) -> bool {
    match (method.name, flag) {
        ("pca", "--kernel") => args.kernel == Some(KernelName::Linear),
        ("kpca-sketch", "--kernel") => args.kernel == Some(KernelName::Polynomial),
        _ => method.takes(flag),
    }
}

fn method(name: &str) -> Result<&'static MethodInfo, Failure> {
    CATALOGUE.iter().find(|method| method.name == name).ok_or_else(|| {
        let known: Vec<&str> = CATALOGUE.iter().map(|method| method.name).collect();
        Failure::Usage(format!("unknown method `{name}`; expected one of {}", known.join(", ")))
    })
}

/// Shows `visit` each flag and whether it was given; it may take it away.
fn each_flag(args: &mut MethodArgs, mut visit: impl FnMut(&'static str, &mut bool)) {
    visit("--no-cosine", &mut args.no_cosine);
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
        "energy" => Ok(MethodSpec::Energy { temperature: args.temperature.unwrap_or(1.0) }),
        "knn" => Ok(MethodSpec::Knn { neighbours: args.neighbours.unwrap_or(50) }),
        _ => unreachable!("the name is in the catalogue"),
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
