//! Methods from their names and options, the same for every way of giving them.

use std::str::FromStr;

use super::assemble::assemble;
use super::catalogue::{CATALOGUE, MethodInfo};
use super::choices::{
    DrawName, FuseName, KernelName, Pair, RankRuleName, ResidualName, SamplingName,
};
use super::preset::{PRESETS, Preset};
use super::spec::MethodSpec;
use crate::error::wording::{Named, as_flags, similar};
use crate::methods::kpca::{Clip, FourierParts};
use crate::methods::rectify::VraBounds;
use crate::{Error, Precision, Result, WeightType};

/// The name that stands for every method.
const ALL: &str = "all";

/// The parameters of the methods. `offspan methods` tells which method takes which.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Method parameters"))]
pub struct MethodOptions {
    /// Settings of the paper's authors for a network, such as imagenet-resnet50, for pca, kpca-nys and
    /// kpca-rff; explicit flags override the preset
    #[cfg_attr(feature = "clap", arg(long, value_name = "NETWORK"))]
    pub preset: Option<Preset>,

    /// Kernel [default: gaussian; pca: linear; kpca-sketch: polynomial]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub kernel: Option<KernelName>,

    /// Do not scale rows to unit length first
    #[cfg_attr(feature = "clap", arg(long))]
    pub no_cosine: bool,

    /// Kernel width γ [default: gaussian 1, with kpca-rff 2; laplacian 0.05]
    #[cfg_attr(feature = "clap", arg(long, value_name = "G"))]
    pub gamma: Option<f64>,

    /// Degree of the polynomial kernel [default: 2]
    #[cfg_attr(feature = "clap", arg(long, value_name = "D"))]
    pub degree: Option<u32>,

    /// Constant of the polynomial kernel [default: 1]
    #[cfg_attr(feature = "clap", arg(long, value_name = "C"))]
    pub coef0: Option<f64>,

    /// Number of random features [default: 2048]
    #[cfg_attr(feature = "clap", arg(long, value_name = "M"))]
    pub features: Option<usize>,

    /// Number of Nyström landmarks [default: 1024]
    #[cfg_attr(feature = "clap", arg(long, value_name = "M"))]
    pub landmarks: Option<usize>,

    /// Which training rows become landmarks [default: low-energy, which needs logits or a head]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW"))]
    pub sampling: Option<SamplingName>,

    /// Training rows to use as landmarks.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub landmark_rows: Option<Vec<u64>>,

    /// How random frequencies are drawn [default: structured; laplacian: iid]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW"))]
    pub draw: Option<DrawName>,

    /// Frequencies to use instead of a draw.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub frequencies: Option<Box<FourierParts>>,

    /// Plain: inside the span of the feature map (the paper). Complete: also what the map cannot
    /// represent; wants landmarks that cover the data (--sampling uniform) [default: plain]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHICH"))]
    pub residual: Option<ResidualName>,

    /// Share of the largest eigenvalue of the landmark kernel that counts as zero [default: 1e-12]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SHARE"))]
    pub rank_floor: Option<f64>,

    /// What happens to such eigenvalues [default: drop]
    #[cfg_attr(feature = "clap", arg(long, value_name = "RULE"))]
    pub rank_rule: Option<RankRuleName>,

    /// Keep the fewest directions that hold this share of the variance [default: 0.99; pca 0.9;
    /// kpca-rff 0.8]
    #[cfg_attr(feature = "clap", arg(long, value_name = "R", conflicts_with = "components"))]
    pub explained_variance: Option<f64>,

    /// Keep this many directions
    #[cfg_attr(feature = "clap", arg(long, value_name = "Q"))]
    pub components: Option<usize>,

    /// ReAct: cut activations at this value, or at a percentile of the training activations (p90)
    #[cfg_attr(feature = "clap", arg(long, value_name = "C|pNN", allow_hyphen_values = true))]
    pub react: Option<Clip>,

    /// Combine the residual e with the energy E
    #[cfg_attr(feature = "clap", arg(long, value_name = "FORM"))]
    pub fuse: Option<FuseName>,

    /// kpca-ensemble: γ of the random-feature member
    #[cfg_attr(feature = "clap", arg(long, value_name = "G"))]
    pub rff_gamma: Option<f64>,

    /// kpca-ensemble: explained variance of the random-feature member
    #[cfg_attr(feature = "clap", arg(long, value_name = "R"))]
    pub rff_explained_variance: Option<f64>,

    /// Temperature of energy [default: 1] and odin [default: 1000]
    #[cfg_attr(feature = "clap", arg(long, value_name = "T"))]
    pub temperature: Option<f64>,

    /// Nearest neighbours [default: knn 50, tnn and nnguide 10]
    #[cfg_attr(feature = "clap", arg(short = 'k', long, value_name = "K"))]
    pub neighbours: Option<usize>,

    /// Share of the training rows that the bank of neighbours holds [default: 1; nnguide
    /// 0.01, but at least 10,000 rows]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SHARE"))]
    pub bank: Option<f64>,

    /// tnn: dimensions of the tangent plane [default: 5]
    #[cfg_attr(feature = "clap", arg(long, value_name = "D"))]
    pub tangents: Option<usize>,

    /// vim: precision of the last layer's weights; directions at its rounding level are left out
    #[cfg_attr(feature = "clap", arg(long, value_name = "EPS"))]
    pub head_floor: Option<f64>,

    /// dml: weight of the feature norm [default: 0.002]
    #[cfg_attr(feature = "clap", arg(long, value_name = "L"))]
    pub norm_weight: Option<f64>,

    /// low-dim: ridge of the linear probe [default: 0.01]
    #[cfg_attr(feature = "clap", arg(long, value_name = "L"))]
    pub ridge: Option<f64>,

    /// bats: width of a channel's range in standard deviations [default: 3.25]
    #[cfg_attr(feature = "clap", arg(long, value_name = "L"))]
    pub deviations: Option<f64>,

    /// vra: two values, or two quantiles of each channel [default: q0.6,q0.9]
    #[cfg_attr(feature = "clap", arg(long, value_name = "LOW,HIGH"))]
    pub vra: Option<VraBounds>,

    /// ash-b, ash-p, ash-s, scale: percent of a row's activations that are not among the largest
    /// [default: 65, 65, 90, 85]
    #[cfg_attr(feature = "clap", arg(long, value_name = "P"))]
    pub prune: Option<f64>,

    /// dice: percent of the weights that become 0 [default: 90; dice+react 10]
    #[cfg_attr(feature = "clap", arg(long, value_name = "P"))]
    pub sparsity: Option<f64>,

    /// line: percent of the activations and of the weights that become 0 [default: 90,90]
    #[cfg_attr(feature = "clap", arg(long, value_name = "PA,PW"))]
    pub line: Option<Pair>,

    /// line: activations are cut at this value first [default: 1]
    #[cfg_attr(feature = "clap", arg(long, value_name = "C"))]
    pub line_clip: Option<f64>,

    /// ddcs: percentiles of the activations between which they keep their shape [default: 20,90]
    #[cfg_attr(feature = "clap", arg(long, value_name = "LOW,HIGH"))]
    pub shape: Option<Pair>,

    /// ddcs: weight of similarity against variance in the choice of channels [default: 0.8]
    #[cfg_attr(feature = "clap", arg(long, value_name = "A"))]
    pub balance: Option<f64>,

    /// ddcs: share of the channels that stay [default: 0.82]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SHARE"))]
    pub channels: Option<f64>,

    /// autoencoder: units between features and code [default: half the width]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub hidden: Option<usize>,

    /// autoencoder: length of the code [default: a quarter of the width]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub code: Option<usize>,

    /// autoencoder: passes over the rows, at most [default: 50]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub epochs: Option<usize>,

    /// rff-opt: how far the features' weights may go from uniform [default: 1]
    #[cfg_attr(feature = "clap", arg(long, value_name = "R"))]
    pub rho: Option<f64>,

    /// dkgp: inducing points of the classifier [default: 256]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub inducing: Option<usize>,

    /// dkgp: steps of the search for γ, at most [default: 600]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub steps: Option<usize>,

    /// With a rectification: fit the score to rows as they are; only scoring sees rectified ones
    #[cfg_attr(feature = "clap", arg(long))]
    pub raw_fit: bool,

    /// Seed of every random choice
    #[cfg_attr(feature = "clap", arg(long, value_name = "S", default_value_t = 0))]
    pub seed: u64,

    /// Precision of maps and projections: f32, or f64 for reference
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE", default_value_t = Precision::F32))]
    pub precision: Precision,

    /// kernel PCA: how landmarks, or projections where there are none, are kept: full, or f16 or bf16
    /// for half the file
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE", default_value_t = WeightType::Full))]
    pub weights: WeightType,
}

/// Calls a macro with every optional parameter: its flag and its field.
macro_rules! optional_parameters {
    ($each:ident) => {
        $each!(
            "--preset" preset,
            "--kernel" kernel,
            "--gamma" gamma,
            "--degree" degree,
            "--coef0" coef0,
            "--features" features,
            "--landmarks" landmarks,
            "--sampling" sampling,
            "--draw" draw,
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
    };
}

impl MethodOptions {
    /// The method of this name with these options, checked. An option that the method does not take
    /// is an error.
    ///
    /// # Errors
    /// If there is no such method, or an option is bad or has no meaning for it.
    pub fn method(&self, name: &str) -> Result<MethodSpec> {
        let mut specs = self.methods(&[name])?;
        match specs.pop() {
            Some((_, spec)) if specs.is_empty() => Ok(spec),
            _ => Err(Error::parameter("method", "a single one", name)),
        }
    }

    /// Every named method, with the options that it takes; an option that none of them takes is an
    /// error. The name `all` stands for the whole catalogue.
    ///
    /// # Errors
    /// As [`MethodOptions::method`].
    pub fn methods(&self, names: &[impl AsRef<str>]) -> Result<Vec<(String, MethodSpec)>> {
        self.check_conflicts()?;
        let mut methods: Vec<(String, Vec<&'static str>)> = Vec::new();
        for name in names.iter().map(AsRef::as_ref) {
            if name == ALL {
                let all = CATALOGUE.iter().map(|method| (method.name.to_owned(), flags_of(method)));
                methods.extend(all);
            } else {
                methods.push((name.to_owned(), flags(name)?));
            }
        }
        let takes = |(name, flags): &(String, Vec<&str>), flag: &str| match (name.as_str(), flag) {
            // Two have one kernel only, and take its name but no other.
            ("pca", "--kernel") => self.kernel == Some(KernelName::Linear),
            ("kpca-sketch", "--kernel") => self.kernel == Some(KernelName::Polynomial),
            (name, "--preset") => self.preset.is_some_and(|preset| preset.knows(name)),
            _ => flags.contains(&flag),
        };
        let mut unused = self.clone();
        for method in &methods {
            unused.each_given(|flag, given| *given &= !takes(method, flag));
        }
        let mut problem = None;
        unused.each_given(|flag, given| {
            if *given {
                problem.get_or_insert(flag);
            }
        });
        if let Some(flag) = problem {
            let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
            let whom =
                if names.is_empty() { "saved detectors".to_owned() } else { names.join(", ") };
            let hint = what_is_taken(&whom);
            return Err(Error::OptionWithoutMeaning { flag, whom, hint });
        }
        if let Some(preset) = self.preset {
            // A method of the paper at its defaults beside others at the authors' settings would mislead.
            let forgotten = names
                .iter()
                .map(AsRef::as_ref)
                .find(|name| !preset.knows(name) && PRESETS.iter().any(|other| other.knows(name)));
            if let Some(name) = forgotten {
                return Err(Error::BadOption {
                    flag: "--preset".to_owned(),
                    reason: format!("{} has no settings for {name}", preset.name),
                });
            }
        }
        let with_its_options = |(name, flags): (String, Vec<&'static str>)| {
            let method = (name, flags);
            let mut relevant = self.clone();
            relevant.each_given(|flag, given| *given &= takes(&method, flag));
            if let Some(preset) = relevant.preset {
                preset.fill(&method.0, &mut relevant);
            }
            let spec = assemble(&method.0, &relevant)?.check()?;
            Ok((method.0, spec))
        };
        methods.into_iter().map(with_its_options).collect()
    }

    /// Fails if one option makes another one meaningless.
    fn check_conflicts(&self) -> Result<()> {
        let rows = self.landmark_rows.is_some();
        let frequencies = self.frequencies.is_some();
        let conflicts = [
            (rows && self.sampling.is_some(), "--landmark-rows", "--sampling"),
            (rows && self.landmarks.is_some(), "--landmark-rows", "--landmarks"),
            (frequencies && self.draw.is_some(), "--frequencies", "--draw"),
            (frequencies && self.features.is_some(), "--frequencies", "--features"),
            (
                self.components.is_some() && self.explained_variance.is_some(),
                "--components",
                "--explained-variance",
            ),
        ];
        match conflicts.iter().find(|(both, ..)| *both) {
            Some((_, flag, other)) => Err(Error::BadOption {
                flag: (*flag).to_owned(),
                reason: format!("it cannot be given together with {}", Named(other)),
            }),
            None => Ok(()),
        }
    }

    /// Sets an option from text, as on a command line; the name may have underscores.
    ///
    /// # Errors
    /// If there is no such option or the text does not fit.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let flag = format!("--{}", name.trim_start_matches('-').replace('_', "-"));
        let bad = |reason: String| Error::BadOption { flag: flag.clone(), reason };
        match flag.as_str() {
            "--no-cosine" => self.no_cosine = parsed(text).map_err(bad)?,
            "--raw-fit" => self.raw_fit = parsed(text).map_err(bad)?,
            "--seed" => self.seed = parsed(text).map_err(bad)?,
            "--precision" => self.precision = parsed(text).map_err(bad)?,
            "--weights" => self.weights = parsed(text).map_err(bad)?,
            _ => {
                macro_rules! set_one {
                    ($($flag:literal $field:ident,)*) => {
                        match flag.as_str() {
                            $($flag => self.$field = Some(parsed(text).map_err(bad)?),)*
                            _ => return Err(bad(no_such_option(&flag))),
                        }
                    };
                }
                optional_parameters!(set_one);
            }
        }
        Ok(())
    }

    /// Shows `visit` each flag and whether it was given; it may take it away.
    fn each_given(&mut self, mut visit: impl FnMut(&'static str, &mut bool)) {
        visit("--no-cosine", &mut self.no_cosine);
        visit("--raw-fit", &mut self.raw_fit);
        visit_unless_default("--precision", &mut self.precision, &mut visit);
        visit_unless_default("--weights", &mut self.weights, &mut visit);
        macro_rules! visit_each {
            ($($flag:literal $field:ident,)*) => {$({
                let mut given = self.$field.is_some();
                visit($flag, &mut given);
                self.$field = self.$field.take().filter(|_| given);
            })*};
        }
        optional_parameters!(visit_each);
        visit_each!("--landmark-rows" landmark_rows, "--frequencies" frequencies,);
    }
}

/// As an option that was given if it is not the default.
fn visit_unless_default<T: Default + PartialEq>(
    flag: &'static str,
    value: &mut T,
    visit: &mut impl FnMut(&'static str, &mut bool),
) {
    let mut given = *value != T::default();
    visit(flag, &mut given);
    if !given {
        *value = T::default();
    }
}

/// That there is no such option, and which one may have been meant.
fn no_such_option(flag: &str) -> String {
    let mut known: Vec<&'static str> = vec!["seed"];
    MethodOptions::default().each_given(|flag, _| known.push(flag));
    let names = known.into_iter().map(|flag| Named(flag).to_string());
    let given = Named(flag).to_string();
    let hint =
        similar(&given, names).map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    format!("there is no such option{hint}")
}

fn similar_method(name: &str) -> Option<&'static str> {
    similar(name, CATALOGUE.iter().map(|method| method.name))
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| match std::any::type_name::<T>() {
        "f64" => format!("expected a number, got `{text}`"),
        "u32" | "u64" | "usize" => format!("expected a whole number of at least 0, got `{text}`"),
        "bool" => format!("expected true or false, got `{text}`"),
        _ => error.to_string(),
    })
}

fn entry(name: &str) -> Option<&'static MethodInfo> {
    CATALOGUE.iter().find(|method| method.name == name)
}

fn flags_of(method: &MethodInfo) -> Vec<&'static str> {
    method.parameters.iter().map(|parameter| parameter.flag).collect()
}

/// The flags of a method, or of a combination of a score and steps.
fn flags(name: &str) -> Result<Vec<&'static str>> {
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
        _ => Err(Error::UnknownMethod {
            name: name.to_owned(),
            suggestion: similar_method(name),
            known: CATALOGUE.iter().map(|method| method.name).collect(),
        }),
    }
}

/// Where to see what a method takes, or the list of it for programs.
fn what_is_taken(whom: &str) -> String {
    match entry(whom) {
        Some(method) if !as_flags() => {
            let names: Vec<String> =
                method.parameters.iter().map(|known| Named(known.flag).to_string()).collect();
            let names = if names.is_empty() { "no options".to_owned() } else { names.join(", ") };
            format!("it takes {names}")
        }
        None if !as_flags() => "the list of methods tells which one takes what".to_owned(),
        _ => "`offspan methods` tells which method takes what".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(given: &[(&str, &str)]) -> Result<MethodOptions> {
        let mut options = MethodOptions::default();
        given.iter().try_for_each(|(name, text)| options.set(name, text))?;
        Ok(options)
    }

    #[test]
    fn every_flag_of_the_catalogue_can_be_set() {
        let texts = [
            "1", "uniform", "iid", "plain", "drop", "gaussian", "energy", "0.1,0.2", "true", "f64",
            "bf16",
        ];
        for method in CATALOGUE {
            for parameter in method.parameters {
                if ["--landmark-rows", "--frequencies"].contains(&parameter.flag) {
                    continue;
                }
                let fits = |text: &&str| MethodOptions::default().set(parameter.flag, text).is_ok();
                assert!(texts.iter().any(fits), "{} {}", method.name, parameter.flag);
            }
        }
    }

    #[test]
    fn precision_and_weights_are_refused_where_they_have_no_effect() {
        for (name, text) in [("precision", "f64"), ("weights", "f16")] {
            let given = options(&[(name, text)]).unwrap();
            for method in ["knn", "msp", "mahalanobis", "knn+react", "autoencoder"] {
                let message = given.method(method).unwrap_err().to_string();
                assert!(
                    message.contains(&format!("{name} has no meaning for {method}")),
                    "{message}"
                );
            }
            for method in ["auto", "pca", "kpca-nys", "kpca-rff", "dkgp-rff", "pca+ash-s"] {
                given.method(method).unwrap();
            }
        }
    }

    #[test]
    fn a_preset_is_refused_for_a_method_of_the_paper_that_it_does_not_know() {
        let given = options(&[("preset", "cifar10-resnet18")]).unwrap();
        let message = given.methods(&["pca", "kpca-nys"]).unwrap_err().to_string();
        assert_eq!(message, "preset: cifar10-resnet18 has no settings for kpca-nys");
        assert_eq!(given.methods(&["pca", "knn"]).unwrap().len(), 2);
        assert!(given.methods(&["all"]).is_ok());
    }

    #[test]
    fn text_becomes_the_parameter_of_the_method() {
        let given = [("explained_variance", "0.5"), ("--features", "64"), ("seed", "7")];
        let spec = options(&given).unwrap().method("kpca-rff").unwrap();
        let json = serde_json::json!(spec).to_string();
        for part in [r#""features":64"#, r#""seed":7"#, "0.5"] {
            assert!(json.contains(part), "{part} in {json}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_reason() {
        let error = |given: &[(&str, &str)], method: &str| {
            options(given).and_then(|options| options.method(method)).unwrap_err().to_string()
        };
        assert_eq!(error(&[("wings", "2")], "knn"), "wings: there is no such option");
        for (typo, meant) in [
            ("neighbors", "neighbours"),
            ("explained-varience", "explained_variance"),
            ("cosin", "cosine"),
            ("sed", "seed"),
        ] {
            let told = error(&[(typo, "2")], "knn");
            assert!(told.ends_with(&format!("no such option; did you mean {meant}?")), "{told}");
        }
        assert_eq!(error(&[("gamma", "x")], "pca"), "gamma: expected a number, got `x`");
        assert_eq!(
            error(&[("gamma", "1")], "knn"),
            "gamma has no meaning for knn; it takes neighbours, bank, seed"
        );
        assert!(
            error(&[], "nothing").starts_with("unknown method `nothing`; expected all, one of")
        );
        assert_eq!(error(&[], "all"), "method: expected a single one, got all");
        for typo in ["kpca_nys", "KPCA-NYS", "kpca-nyss", "kcpa-nys"] {
            assert!(error(&[], typo).contains("; did you mean kpca-nys?"), "{typo}");
        }
        let both = [("components", "3"), ("explained-variance", "0.9")];
        assert!(error(&both, "pca").ends_with("given together with explained_variance"));
        let expected = "sampling: expected low-energy or high-energy or uniform, got `best`";
        assert_eq!(error(&[("sampling", "best")], "kpca-nys"), expected);
    }

    #[test]
    fn the_whole_catalogue_has_a_name() {
        let all = MethodOptions::default().methods(&["all"]).unwrap();
        assert_eq!(all.len(), CATALOGUE.len());
    }
}
