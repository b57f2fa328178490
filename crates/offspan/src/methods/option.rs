//! Options of the methods: what they are called, what they default to, and how text sets them.
//!
//! A method tells its options once, in a function that shows each of its parameters to an [`Options`].
//! That one telling lists them with their defaults, and puts given values in their places.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::span::map::{Draw, FloorRule, FourierParts};
use crate::training::landmarks::Sampling;
use crate::{Error, Precision, Result, WeightType};

/// What an option says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionInfo {
    /// Words joined by hyphens: `explained-variance`.
    pub(crate) name: &'static str,
    /// What stands for its value in a help text; empty for a switch.
    pub(crate) value: &'static str,
    /// What it does, in a sentence without a full stop.
    pub(crate) help: &'static str,
}

/// An option.
pub(crate) const fn option(
    name: &'static str,
    value: &'static str,
    help: &'static str,
) -> OptionInfo {
    OptionInfo { name, value, help }
}

pub(crate) const SEED: OptionInfo = option("seed", "S", "Seed of every random choice");
pub(crate) const PRECISION: OptionInfo =
    option("precision", "TYPE", "Precision of maps and projections: f32, or f64 for reference");
pub(crate) const WEIGHTS: OptionInfo = option(
    "weights",
    "TYPE",
    "How landmarks, or projections where there are none, are kept: full, or f16 or bf16 for half \
     the file",
);
pub(crate) const GAMMA: OptionInfo = option("gamma", "G", "Kernel width γ");
pub(crate) const LANDMARKS: OptionInfo = option("landmarks", "M", "Number of Nyström landmarks");
pub(crate) const EXPLAINED_VARIANCE: OptionInfo = option(
    "explained-variance",
    "R",
    "Keep the fewest directions that hold this share of the variance",
);
pub(crate) const TEMPERATURE: OptionInfo = option("temperature", "T", "Temperature of the softmax");
pub(crate) const EXPONENT: OptionInfo =
    option("exponent", "G", "gen, gen-residual, renyi: exponent γ of the probabilities");
pub(crate) const TOP: OptionInfo =
    option("top", "M", "gen, gen-residual: how many of the largest probabilities count");
pub(crate) const PRUNE: OptionInfo = option(
    "prune",
    "P",
    "ash-b, ash-p, ash-s, scale, lts, actsub: percent of a row's activations that are not among the \
     largest",
);
pub(crate) const NORM_WEIGHT: OptionInfo =
    option("norm-weight", "L", "dml, nci: weight of the feature norm");
pub(crate) const POWER: OptionInfo =
    option("power", "T", "actsub, relation: power to which similarities are raised");
pub(crate) const BINS: OptionInfo =
    option("bins", "N", "nac, opt-fs, weiper-kld: bins of a histogram");
pub(crate) const COMPONENTS: OptionInfo = option("components", "Q", "Keep this many directions");
pub(crate) const REACT: OptionInfo = option(
    "react",
    "C|pNN",
    "ReAct: cut activations at this value, or at a percentile of the training activations (p90)",
);

/// What was given for an option.
#[derive(Debug, Clone)]
pub(crate) enum Given {
    /// As on a command line.
    Text(String),
    /// Numbers of rows.
    Rows(Vec<u64>),
    /// Frequencies of a Fourier map.
    Frequencies(Box<FourierParts>),
}

/// A parameter that an option can set.
pub(crate) trait OptionValue {
    /// Takes what was given, or says why it does not fit.
    fn set(&mut self, given: &Given) -> Result<(), String>;

    /// The value as text; none where the fit decides.
    fn text(&self) -> Option<String>;

    /// The only values there are; empty if there are more than a few.
    fn choices(&self) -> &'static [&'static str] {
        &[]
    }
}

impl Given {
    pub(crate) fn parse<T: std::str::FromStr>(&self, expected: &str) -> Result<T, String> {
        match self {
            Given::Text(text) => {
                text.parse().map_err(|_| format!("expected {expected}, got `{text}`"))
            }
            Given::Rows(_) | Given::Frequencies(_) => Err(format!("expected {expected}")),
        }
    }

    /// Text that knows itself what is wrong with it.
    pub(crate) fn parse_named<T: std::str::FromStr<Err = String>>(&self) -> Result<T, String> {
        match self {
            Given::Text(text) => text.parse(),
            Given::Rows(_) | Given::Frequencies(_) => Err("expected a text".to_owned()),
        }
    }
}

macro_rules! plain_values {
    ($($type:ty, $expected:literal;)*) => {$(
        impl OptionValue for $type {
            fn set(&mut self, given: &Given) -> Result<(), String> {
                *self = given.parse($expected)?;
                Ok(())
            }

            fn text(&self) -> Option<String> {
                // As short as can be: 1e-12, 0.002, and 1 rather than 1.0.
                let text = format!("{self:?}");
                Some(text.strip_suffix(".0").unwrap_or(&text).to_owned())
            }
        }
    )*};
}

plain_values!(
    f64, "a number";
    u32, "a whole number of at least 0";
    u64, "a whole number of at least 0";
    usize, "a whole number of at least 0";
);

impl OptionValue for bool {
    fn set(&mut self, given: &Given) -> Result<(), String> {
        *self = given.parse("true or false")?;
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(if *self { "on" } else { "off" }.to_owned())
    }
}

macro_rules! named_values {
    ($($type:ty,)*) => {$(
        impl OptionValue for $type {
            fn set(&mut self, given: &Given) -> Result<(), String> {
                *self = given.parse_named()?;
                Ok(())
            }

            fn text(&self) -> Option<String> {
                Some(self.name().to_owned())
            }

            fn choices(&self) -> &'static [&'static str] {
                <$type>::NAMES
            }
        }
    )*};
}
pub(super) use named_values;

named_values!(Draw, FloorRule, Precision, Sampling, WeightType,);

impl<T: OptionValue + Default> OptionValue for Option<T> {
    fn set(&mut self, given: &Given) -> Result<(), String> {
        self.get_or_insert_default().set(given)
    }

    fn text(&self) -> Option<String> {
        self.as_ref().and_then(OptionValue::text)
    }

    fn choices(&self) -> &'static [&'static str] {
        self.as_ref().map_or_else(|| T::default().choices(), OptionValue::choices)
    }
}

impl OptionValue for Option<Vec<u64>> {
    fn set(&mut self, given: &Given) -> Result<(), String> {
        let Given::Rows(rows) = given else { return Err("expected numbers of rows".to_owned()) };
        *self = Some(rows.clone());
        Ok(())
    }

    fn text(&self) -> Option<String> {
        None
    }
}

impl OptionValue for Option<Box<FourierParts>> {
    fn set(&mut self, given: &Given) -> Result<(), String> {
        let Given::Frequencies(parts) = given else {
            return Err("expected frequencies".to_owned());
        };
        *self = Some(parts.clone());
        Ok(())
    }

    fn text(&self) -> Option<String> {
        None
    }
}

/// Two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair(pub(crate) f64, pub(crate) f64);

impl OptionValue for Pair {
    fn set(&mut self, given: &Given) -> Result<(), String> {
        let text: String = given.parse("two numbers")?;
        let pair = text
            .split_once(',')
            .and_then(|(a, b)| Some(Pair(a.trim().parse().ok()?, b.trim().parse().ok()?)));
        *self = pair.ok_or_else(|| format!("expected two numbers such as 20,90, got `{text}`"))?;
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(format!("{},{}", self.0, self.1))
    }
}

/// An option of a method with its default.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Parameter {
    /// The flag.
    pub flag: String,
    /// Its default, in words where it depends on something.
    pub default: String,
    /// What it does.
    #[serde(skip)]
    pub help: &'static str,
    /// What stands for its value in a help text; empty for a switch.
    #[serde(skip)]
    pub value: &'static str,
    /// The only values there are; empty if there are more than a few.
    #[serde(skip)]
    pub choices: &'static [&'static str],
}

impl Parameter {
    /// The option's name: the flag without its dashes.
    #[must_use]
    pub fn name(&self) -> &str {
        self.flag.trim_start_matches('-')
    }
}

/// Where an option of a part goes in the whole.
#[derive(Clone, Copy)]
pub(crate) enum Route {
    /// The whole does not offer it.
    Nowhere,
    /// The whole has another option for it.
    To(&'static OptionInfo),
}

/// Is shown every parameter of a method: lists them, and sets what was given.
pub(crate) struct Options<'a> {
    given: &'a BTreeMap<String, Given>,
    /// Whether everything that a method could ever take is asked for, not what it takes now.
    listing: bool,
    routes: Vec<(&'static str, Route)>,
    offered: Vec<Parameter>,
    names: Vec<&'static str>,
    /// What is wrong with the first value that did not fit.
    refused: Option<String>,
}

impl<'a> Options<'a> {
    pub(super) fn setting(given: &'a BTreeMap<String, Given>) -> Self {
        Options {
            given,
            listing: false,
            routes: Vec::new(),
            offered: Vec::new(),
            names: Vec::new(),
            refused: None,
        }
    }

    pub(super) fn listing(given: &'a BTreeMap<String, Given>) -> Self {
        Options { listing: true, ..Self::setting(given) }
    }

    pub(super) fn is_listing(&self) -> bool {
        self.listing
    }

    pub(super) fn offered(self) -> Vec<Parameter> {
        self.offered
    }

    pub(super) fn refused(self) -> Option<String> {
        self.refused
    }

    /// Whether the option was given, without offering it.
    pub(super) fn is_given(&self, info: &OptionInfo) -> bool {
        self.given.contains_key(info.name)
    }

    /// Offers an option whose default is the value as it is; tells whether it was given.
    pub(crate) fn add(
        &mut self,
        info: &'static OptionInfo,
        value: &mut impl OptionValue,
    ) -> Result<bool> {
        self.add_or(info, value, "none")
    }

    /// The same, with words for the default where there is no value.
    pub(crate) fn add_or(
        &mut self,
        info: &'static OptionInfo,
        value: &mut impl OptionValue,
        words: &str,
    ) -> Result<bool> {
        let default = value.text().unwrap_or_else(|| words.to_owned());
        self.add_said(info, value, default)
    }

    /// The same, with words for the default whatever the value is.
    pub(crate) fn add_said(
        &mut self,
        info: &'static OptionInfo,
        value: &mut impl OptionValue,
        default: impl Into<String>,
    ) -> Result<bool> {
        let info = match self.routes.iter().rev().find(|(name, _)| *name == info.name) {
            Some((_, Route::Nowhere)) => return Ok(false),
            Some((_, Route::To(other))) => other,
            None => info,
        };
        if !self.names.contains(&info.name) {
            self.names.push(info.name);
            self.offered.push(Parameter {
                flag: format!("--{}", info.name),
                default: default.into(),
                help: info.help,
                value: info.value,
                choices: value.choices(),
            });
        }
        let Some(given) = self.given.get(info.name) else { return Ok(false) };
        value.set(given).map_err(|reason| {
            self.refused.get_or_insert_with(|| reason.clone());
            Error::BadOption { flag: info.name.to_owned(), reason }
        })?;
        Ok(true)
    }

    /// Offers an option that has one value here, and is not taken with another.
    pub(crate) fn add_only(&mut self, info: &'static OptionInfo, only: &'static str) -> Result<()> {
        match self.given.get(info.name) {
            Some(Given::Text(text)) if text == only => {
                self.add_said(info, &mut String::new(), only).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Fails if this option, which makes the others meaningless, was given together with one.
    pub(crate) fn excludes(&self, info: &OptionInfo, others: &[&OptionInfo]) -> Result<()> {
        if !self.is_given(info) {
            return Ok(());
        }
        match others.iter().find(|other| self.is_given(other)) {
            Some(other) => Err(Error::BadOption {
                flag: info.name.to_owned(),
                reason: format!(
                    "it cannot be given together with {}",
                    crate::error::wording::Named(other.name)
                ),
            }),
            None => Ok(()),
        }
    }

    /// Shows the options of a part, some of which go elsewhere.
    pub(crate) fn routed(
        &mut self,
        routes: &[(&'static str, Route)],
        part: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let before = self.routes.len();
        self.routes.extend_from_slice(routes);
        let shown = part(self);
        self.routes.truncate(before);
        shown
    }

    /// Names of what `part` offers.
    pub(super) fn names_of(part: impl FnOnce(&mut Options<'_>) -> Result<()>) -> Vec<&'static str> {
        let nothing = BTreeMap::new();
        let mut options = Options::listing(&nothing);
        // Nothing is given, so nothing can be wrong.
        let _ = part(&mut options);
        options.names
    }
}

impl OptionValue for String {
    fn set(&mut self, given: &Given) -> Result<(), String> {
        *self = given.parse("a text")?;
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(self.clone())
    }
}
