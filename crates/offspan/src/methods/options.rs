//! Methods from their names and options, the same for every way of giving them.

use std::collections::BTreeMap;

use super::asked::Asked;
use super::catalogue::{LIST, Listed, OPTIONS};
use super::option::{Given, Options};
use super::preset::{PRESETS, Preset};
use super::rectified::RectifiedParams;
use super::rectify::Rectification;
use super::spec::MethodSpec;
use crate::error::wording::{Named, as_flags, similar};
use crate::span::map::FourierParts;
use crate::{Error, Result};

/// The name that stands for every method.
const ALL: &str = "all";
/// The option that fills in others.
const PRESET: &str = "preset";
/// Taken by every method, whether it draws anything or not.
const SEED: &str = "seed";

/// Options of methods, as text by their names. `offspan methods` tells which method takes which.
#[derive(Debug, Clone, Default)]
pub struct MethodOptions {
    given: BTreeMap<String, Given>,
    preset: Option<Preset>,
}

impl MethodOptions {
    /// Sets an option from text, as on a command line; the name may have underscores.
    ///
    /// # Errors
    /// If there is no such option or the text does not fit.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let name = name.trim_start_matches('-').replace('_', "-");
        let bad = |reason| Error::BadOption { flag: name.clone(), reason };
        if name == PRESET {
            self.preset = Some(text.parse().map_err(bad)?);
            return Ok(());
        }
        let single = BTreeMap::from([(name.clone(), Given::Text(text.to_owned()))]);
        if !OPTIONS.iter().any(|known| known.name() == name) {
            return Err(bad(no_such_option(&name)));
        }
        for listed in LIST.iter().filter(|listed| takes(listed, &name)) {
            let mut options = Options::listing(&single);
            // Whether it goes with other options is not the question here.
            let _ = listed.default.clone().params_mut().options(&mut options);
            if let Some(reason) = options.refused() {
                return Err(bad(reason));
            }
        }
        self.given.extend(single);
        Ok(())
    }

    /// Uses these training rows as landmarks.
    pub fn set_landmark_rows(&mut self, rows: Vec<u64>) {
        self.given.insert("landmark-rows".to_owned(), Given::Rows(rows));
    }

    /// Uses these frequencies instead of a draw.
    pub fn set_frequencies(&mut self, parts: FourierParts) {
        self.given.insert("frequencies".to_owned(), Given::Frequencies(Box::new(parts)));
    }

    /// The authors' settings that were asked for.
    #[must_use]
    pub fn preset(&self) -> Option<Preset> {
        self.preset
    }

    /// The seed of every random choice.
    #[must_use]
    pub fn seed(&self) -> u64 {
        match self.given.get(SEED) {
            Some(Given::Text(text)) => {
                text.parse().unwrap_or_else(|_| unreachable!("it was tried when it was set"))
            }
            _ => 0,
        }
    }

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
    /// error. The name `all` stands for the whole catalogue. A name may bring options of its own, which
    /// come before these: `knn:neighbours=10`, `kpca-rff:gamma=0.3:no-cosine`.
    ///
    /// # Errors
    /// As [`MethodOptions::method`].
    pub fn methods(&self, names: &[impl AsRef<str>]) -> Result<Vec<(String, MethodSpec)>> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let mut methods: Vec<(Asked<'_>, MethodSpec)> = Vec::new();
        for &name in &names {
            let asked = Asked::parse(name)?;
            if asked.name != ALL {
                let spec = default_of(asked.name)?;
                methods.push((asked, spec));
            } else if asked.own.is_empty() {
                for one in LIST.iter() {
                    methods.push((Asked::parse(one.info.name)?, one.default.clone()));
                }
            } else {
                let expected = "methods by their names where one has options of its own";
                return Err(Error::parameter("method", expected, name));
            }
        }
        let mut unused: Vec<&str> = self.given.keys().map(String::as_str).collect();
        unused.retain(|name| *name != SEED);
        let mut preset_is_taken = false;
        for (asked, spec) in &mut methods {
            let all = self.overridden_by(&asked.own);
            let given = match all.preset {
                Some(preset) => &preset.fill(asked.name, &all.given),
                None => &all.given,
            };
            let mut options = Options::setting(given);
            spec.params_mut().options(&mut options)?;
            let offered = options.offered();
            let takes = |name: &str| offered.iter().any(|parameter| parameter.name() == name);
            unused.retain(|name| !takes(name) || asked.own.given.contains_key(*name));
            if let Some(name) = asked.own.given.keys().find(|name| *name != SEED && !takes(name)) {
                return Err(without_meaning(name, asked.name.to_owned()));
            }
            if let Some(preset) = asked.own.preset.filter(|preset| !preset.knows(asked.name)) {
                return Err(no_settings(preset, asked.name));
            }
            let knows = |preset: Preset| preset.knows(asked.name) && asked.own.preset.is_none();
            preset_is_taken |= self.preset.is_some_and(knows);
        }
        if self.preset.is_some() && !preset_is_taken {
            unused.push(PRESET);
        }
        if let Some(name) = unused.first() {
            let whom =
                if names.is_empty() { "saved detectors".to_owned() } else { names.join(", ") };
            return Err(without_meaning(name, whom));
        }
        let by_name = methods.iter().map(|(asked, _)| asked);
        let by_name =
            by_name.filter(|asked| asked.own.preset.is_none() && names.contains(&asked.label));
        self.check_preset(&by_name.map(|asked| asked.name).collect::<Vec<_>>())?;
        let checked = |(asked, spec): (Asked<'_>, MethodSpec)| {
            Ok((asked.label.to_owned(), spec.check()?.spec().clone()))
        };
        methods.into_iter().map(checked).collect()
    }

    /// Whether nothing was set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.given.is_empty() && self.preset.is_none()
    }

    /// These, but for what a method has of its own.
    fn overridden_by(&self, own: &MethodOptions) -> MethodOptions {
        let mut all = self.clone();
        all.given.extend(own.given.clone());
        all.preset = own.preset.or(all.preset);
        all
    }

    /// A method of the paper at its defaults beside others at the authors' settings would mislead.
    fn check_preset(&self, names: &[&str]) -> Result<()> {
        let Some(preset) = self.preset else { return Ok(()) };
        let forgotten = names
            .iter()
            .find(|name| !preset.knows(name) && PRESETS.iter().any(|other| other.knows(name)));
        match forgotten {
            Some(name) => Err(no_settings(preset, name)),
            None => Ok(()),
        }
    }
}

impl MethodSpec {
    /// A method with its default parameters. Combinations are joined by `+`: a score (the energy where
    /// none is named) and the steps before it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        MethodOptions::default().method(name).ok()
    }

    /// The same method with another seed; none if nothing of it is drawn.
    ///
    /// # Errors
    /// If its parameters do not fit.
    pub fn with_seed(&self, seed: u64) -> Result<Option<Self>> {
        let given = BTreeMap::from([(SEED.to_owned(), Given::Text(seed.to_string()))]);
        let mut spec = self.clone();
        let mut options = Options::setting(&given);
        spec.params_mut().options(&mut options)?;
        if !options.offered().iter().any(|parameter| parameter.name() == SEED) {
            return Ok(None);
        }
        Ok(Some(spec.check()?.spec().clone()))
    }
}

fn takes(listed: &Listed, name: &str) -> bool {
    listed.info.parameters.iter().any(|parameter| parameter.name() == name)
}

fn entry(name: &str) -> Option<&'static Listed> {
    LIST.iter().find(|listed| listed.info.name == name)
}

/// A method, or a combination of a score and steps, with its defaults.
fn default_of(name: &str) -> Result<MethodSpec> {
    if let Some(listed) = entry(name) {
        return Ok(listed.default.clone());
    }
    let combination = || {
        let (first, steps) = name.split_once('+')?;
        let mut steps: Vec<Rectification> =
            steps.split('+').map(Rectification::named).collect::<Option<_>>()?;
        let score = match Rectification::named(first) {
            Some(step) => {
                steps.insert(0, step);
                MethodSpec::ENERGY
            }
            None => entry(first)?.default.clone(),
        };
        Some(RectifiedParams::new(steps, score).into())
    };
    combination().ok_or_else(|| Error::UnknownMethod {
        name: name.to_owned(),
        suggestion: similar(name, LIST.iter().map(|listed| listed.info.name)),
        known: LIST.iter().map(|listed| listed.info.name).collect(),
    })
}

/// That there is no such option, and which one may have been meant.
fn no_such_option(name: &str) -> String {
    let known = OPTIONS.iter().map(|known| known.name()).chain([PRESET]);
    let names = known.map(|name| Named(name).to_string());
    let hint = similar(&Named(name).to_string(), names)
        .map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    format!("there is no such option{hint}")
}

fn no_settings(preset: Preset, method: &str) -> Error {
    Error::BadOption {
        flag: PRESET.to_owned(),
        reason: format!("{} has no settings for {method}", preset.name),
    }
}

/// That these methods do not take an option, and what they take.
fn without_meaning(name: &str, whom: String) -> Error {
    let hint = match entry(&whom).filter(|listed| takes(listed, name)) {
        Some(_) => "another option, such as the kernel, leaves it nothing to do".to_owned(),
        None => what_is_taken(&whom),
    };
    Error::OptionWithoutMeaning { flag: name.to_owned(), whom, hint }
}

/// Where to see what a method takes, or the list of it for programs.
fn what_is_taken(whom: &str) -> String {
    match entry(whom) {
        Some(listed) if !as_flags() => {
            let parameters = listed.info.parameters.iter();
            let names: Vec<String> =
                parameters.map(|known| Named(known.name()).to_string()).collect();
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
    use crate::CATALOGUE;

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
        for method in CATALOGUE.iter() {
            for parameter in &method.parameters {
                if ["--landmark-rows", "--frequencies"].contains(&parameter.flag.as_str()) {
                    continue;
                }
                let fits =
                    |text: &&str| MethodOptions::default().set(&parameter.flag, text).is_ok();
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
        assert_eq!(error(&[("quokkas", "2")], "knn"), "quokkas: there is no such option");
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
    fn another_seed_changes_the_seed_alone() {
        for method in CATALOGUE.iter() {
            let spec = MethodSpec::named(method.name).unwrap();
            let Some(same) = spec.with_seed(0).unwrap() else {
                assert!(!method.takes("--seed"), "{}", method.name);
                continue;
            };
            assert_eq!(same, spec, "{}", method.name);
            let other = spec.with_seed(7).unwrap().unwrap();
            assert_ne!(other, spec, "{}", method.name);
            assert_eq!(other.with_seed(0).unwrap().unwrap(), spec, "{}", method.name);
        }
        let given = options(&[("gamma", "0.3"), ("landmarks", "64")]).unwrap();
        let spec = given.method("kpca-nys").unwrap();
        assert_eq!(spec.with_seed(0).unwrap().unwrap(), spec);
    }

    #[test]
    fn the_whole_catalogue_has_a_name() {
        let all = MethodOptions::default().methods(&["all"]).unwrap();
        assert_eq!(all.len(), CATALOGUE.len());
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

    #[test]
    fn an_option_of_a_step_is_not_the_score_s() {
        let spec = options(&[("react", "p70")]).unwrap().method("pca+react").unwrap();
        let json = serde_json::json!(spec);
        assert_eq!(json["steps"][0]["at"]["percentile"], 70.0);
        assert!(json["score"]["react"].is_null(), "{json}");
    }

    #[test]
    fn options_of_a_kernel_are_taken_where_the_kernel_has_them() {
        let degree = options(&[("degree", "3")]).unwrap();
        let message = degree.method("kpca-nys").unwrap_err().to_string();
        assert!(message.starts_with("degree has no meaning for kpca-nys"), "{message}");
        assert_eq!(degree.methods(&["kpca-nys", "kpca-sketch"]).unwrap().len(), 2);
        let given = [("kernel", "polynomial"), ("degree", "3")];
        options(&given).unwrap().method("kpca-nys").unwrap();
        let width = [("kernel", "polynomial"), ("gamma", "3")];
        let message = options(&width).unwrap().method("kpca-nys").unwrap_err().to_string();
        assert!(message.ends_with("such as the kernel, leaves it nothing to do"), "{message}");
    }
}
