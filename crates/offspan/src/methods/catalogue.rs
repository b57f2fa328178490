//! The list of methods that `offspan methods` prints, and of all their options.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;

use super::method::Entry;
use super::option::{Options, Parameter};
use super::rectify::Rectification;
use super::spec::MethodSpec;

/// A method's entry.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct MethodInfo {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// What a sample must carry.
    pub needs: &'static str,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Where it comes from.
    pub source: &'static str,
    /// How it was checked.
    pub parity: &'static str,
    /// Why its detectors cannot be exported to other runtimes; none if they can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_exportable: Option<&'static str>,
    /// Whether it is a step that can come before any score, as in `knn+react`.
    pub is_step: bool,
}

impl MethodInfo {
    /// Whether the method has this flag.
    #[must_use]
    pub fn takes(&self, flag: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter.flag == flag)
    }
}

/// A method by one of its names.
pub(super) struct Listed {
    pub(super) info: MethodInfo,
    pub(super) default: MethodSpec,
}

impl Listed {
    pub(super) fn new<P>(entry: Entry<P>, spec: fn(P) -> MethodSpec) -> Self {
        let Entry { name, summary, needs, source, parity, default } = entry;
        let default = spec(default);
        let nothing = BTreeMap::new();
        let mut options = Options::listing(&nothing);
        default
            .clone()
            .params_mut()
            .options(&mut options)
            .unwrap_or_else(|_| unreachable!("nothing is given, so nothing can be wrong"));
        let is_step = Rectification::named(name).is_some();
        let parameters = options.offered();
        let not_exportable = default.not_exportable();
        let info = MethodInfo {
            name,
            summary,
            needs,
            parameters,
            source,
            parity,
            not_exportable,
            is_step,
        };
        Listed { info, default }
    }
}

pub(super) static LIST: LazyLock<Vec<Listed>> = LazyLock::new(MethodSpec::list);

/// Every method.
pub static CATALOGUE: LazyLock<Vec<MethodInfo>> =
    LazyLock::new(|| LIST.iter().map(|listed| listed.info.clone()).collect());

/// Every option of every method, once, with the defaults that are not the same for all.
pub static OPTIONS: LazyLock<Vec<Parameter>> = LazyLock::new(|| {
    let mut options: Vec<(Parameter, Vec<SharedDefault>)> = Vec::new();
    for method in CATALOGUE.iter() {
        for parameter in &method.parameters {
            let index = options.iter().position(|(known, _)| known.flag == parameter.flag);
            let (_, defaults) = match index {
                Some(index) => &mut options[index],
                None => {
                    options.push((parameter.clone(), Vec::new()));
                    options.last_mut().unwrap_or_else(|| unreachable!("just added"))
                }
            };
            match defaults.iter_mut().find(|(default, _)| *default == parameter.default) {
                Some((_, methods)) => methods.push(method.name),
                None => defaults.push((parameter.default.clone(), vec![method.name])),
            }
        }
    }
    let merged = |(parameter, defaults)| Parameter { default: in_words(defaults), ..parameter };
    options.into_iter().map(merged).collect()
});

/// A default and the methods that have it.
type SharedDefault = (String, Vec<&'static str>);

/// Longer texts belong to a list.
const LONGEST: usize = 80;

/// The default of most methods, and which methods have another one.
fn in_words(mut defaults: Vec<SharedDefault>) -> String {
    // The first of the most common ones.
    let most = defaults.iter().map(|(_, names)| names.len()).max().unwrap_or(0);
    let usual = defaults.iter().position(|(_, names)| names.len() == most).unwrap_or(0);
    let (mut text, _) = defaults.remove(usual);
    for (default, names) in defaults {
        text += &format!("; {} {default}", names.join(", "));
    }
    if text.chars().count() > LONGEST {
        return "by method, see `offspan methods`".to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_those_of_the_methods() {
        let mut names: Vec<_> = CATALOGUE.iter().map(|method| method.name).collect();
        for listed in LIST.iter() {
            assert_eq!(listed.default.method(), listed.info.name);
            assert_eq!(listed.default.check().unwrap().spec().method(), listed.info.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CATALOGUE.len());
    }

    #[test]
    fn an_option_says_the_same_of_itself_in_every_method() {
        for method in CATALOGUE.iter() {
            for parameter in &method.parameters {
                let known = OPTIONS.iter().find(|known| known.flag == parameter.flag).unwrap();
                assert_eq!((known.help, known.value), (parameter.help, parameter.value));
                assert_eq!(known.choices, parameter.choices, "{}", parameter.flag);
            }
        }
    }

    #[test]
    fn defaults_that_differ_are_told_with_their_methods() {
        let default = |flag| &OPTIONS.iter().find(|known| known.flag == flag).unwrap().default;
        assert_eq!(default("--norm-weight"), "0.0001; dml 0.002");
        assert_eq!(default("--neighbours"), "10; knn, knn-plus 50; dknn, lid 20");
    }
}
