//! From flags to a method with its parameters.

use offspan::io::{FeatureSource, open_matrix, read_index_list, read_vector};
use offspan::map::{Draw, EigenFloor, FloorRule};
use offspan::{
    CATALOGUE, Components, EnsembleParams, ExactForm, FourierParts, Fusion, Kernel, KpcaParams,
    MapParams, MethodSpec, Residual, Sampling,
};

use crate::args::{
    DrawName, FuseName, KernelName, MethodArgs, RankRuleName, ResidualName, SamplingName,
};
use crate::output::Failure;

/// Builds every named method; a flag that none of them takes is an error.
pub(crate) fn specs(names: &[String], args: &MethodArgs) -> Result<Vec<MethodSpec>, Failure> {
    let specs: Vec<MethodSpec> =
        names.iter().map(|name| spec(name, args)).collect::<Result<_, _>>()?;
    for flag in given_flags(args) {
        let taken = CATALOGUE
            .iter()
            .filter(|method| names.iter().any(|name| name == method.name))
            .any(|method| method.parameters.iter().any(|p| p.flag == flag));
        if !taken {
            return Err(Failure::Usage(format!(
                "{flag} has no meaning for {}; `offspan methods` tells which method takes what",
                names.join(", ")
            )));
        }
    }
    Ok(specs)
}

/// The flags that the user wrote.
fn given_flags(args: &MethodArgs) -> Vec<&'static str> {
    let flags = [
        ("--kernel", args.kernel.is_some()),
        ("--no-cosine", args.no_cosine),
        ("--gamma", args.gamma.is_some()),
        ("--degree", args.degree.is_some()),
        ("--coef0", args.coef0.is_some()),
        ("--features", args.features.is_some()),
        ("--landmarks", args.landmarks.is_some()),
        ("--sampling", args.sampling.is_some()),
        ("--landmark-rows", args.landmark_rows.is_some()),
        ("--draw", args.draw.is_some()),
        ("--frequencies", args.frequencies.is_some()),
        ("--residual", args.residual.is_some()),
        ("--rank-floor", args.rank_floor.is_some()),
        ("--rank-rule", args.rank_rule.is_some()),
        ("--explained-variance", args.explained_variance.is_some()),
        ("--components", args.components.is_some()),
        ("--react", args.react.is_some()),
        ("--fuse", args.fuse.is_some()),
        ("--rff-gamma", args.rff_gamma.is_some()),
        ("--rff-explained-variance", args.rff_explained_variance.is_some()),
        ("--temperature", args.temperature.is_some()),
        ("--neighbours", args.neighbours.is_some()),
    ];
    flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
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
        _ => {
            let known: Vec<&str> = CATALOGUE.iter().map(|method| method.name).collect();
            Err(Failure::Usage(format!(
                "unknown method `{name}`; expected one of {}",
                known.join(", ")
            )))
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
            Some(FourierParts { frequencies, phases: read_vector(path, "u")? })
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
