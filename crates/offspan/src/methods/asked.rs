//! A method with options of its own in one text: `knn:neighbours=10`.

use super::options::MethodOptions;
use crate::{Error, Result};

/// What stands between a method and its options, and between these.
const SEPARATOR: char = ':';

/// A method as somebody asked for it.
pub(super) struct Asked<'a> {
    /// The whole text, which is what the method is called in tables.
    pub(super) label: &'a str,
    /// The method's name.
    pub(super) name: &'a str,
    /// Options of this method alone.
    pub(super) own: MethodOptions,
}

impl<'a> Asked<'a> {
    pub(super) fn parse(label: &'a str) -> Result<Self> {
        let mut parts = label.split(SEPARATOR).map(str::trim);
        let name = parts.next().unwrap_or_default();
        let mut own = MethodOptions::default();
        for part in parts {
            // A switch has no value.
            let (option, value) = part.split_once('=').unwrap_or((part, "true"));
            if option.trim().is_empty() {
                return Err(Error::parameter(
                    "method",
                    "a name and options such as knn:neighbours=10",
                    label,
                ));
            }
            own.set(option.trim(), value.trim())?;
        }
        Ok(Asked { label, name, own })
    }
}

/// The methods in a list with commas between them. An option's value may have commas, too: what begins
/// like a number is no method, and belongs to the value before it.
#[must_use]
pub fn split_methods(list: &str) -> Vec<String> {
    let mut methods: Vec<String> = Vec::new();
    for piece in list.split(',') {
        let is_number =
            piece.trim_start().starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
        match methods.last_mut().filter(|last| is_number && last.contains('=')) {
            Some(last) => {
                last.push(',');
                last.push_str(piece);
            }
            None => methods.push(piece.trim().to_owned()),
        }
    }
    methods
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MethodSpec;

    #[test]
    fn lists_are_split_at_the_commas_between_methods() {
        assert_eq!(split_methods("knn, pca"), ["knn", "pca"]);
        assert_eq!(
            split_methods("knn:neighbours=10,kpca-nys:gamma=0.3:landmarks=64,energy"),
            ["knn:neighbours=10", "kpca-nys:gamma=0.3:landmarks=64", "energy"]
        );
        assert_eq!(split_methods("x:range=20,90,knn"), ["x:range=20,90", "knn"]);
        assert_eq!(split_methods("knn,90"), ["knn", "90"]);
    }

    #[test]
    fn options_of_one_method_leave_the_others_alone_and_win() {
        let mut common = MethodOptions::default();
        common.set("gamma", "0.5").unwrap();
        let names = ["kpca-nys:gamma=0.3:no-cosine", "kpca-rff", "knn:neighbours=7"];
        let methods = common.methods(&names).unwrap();
        let json: Vec<String> =
            methods.iter().map(|(_, spec)| serde_json::json!(spec).to_string()).collect();
        assert!(json[0].contains("0.3") && json[0].contains("\"cosine\":false"), "{}", json[0]);
        assert!(json[1].contains("0.5") && json[1].contains("\"cosine\":true"), "{}", json[1]);
        assert!(json[2].contains('7'), "{}", json[2]);
        let labels: Vec<&str> = methods.iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(labels, names);
        assert_eq!(
            MethodSpec::named("knn:neighbours=50"),
            MethodSpec::named("knn"),
            "the default by another name"
        );
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let error = |names: &[&str], common: &[(&str, &str)]| {
            let mut options = MethodOptions::default();
            common.iter().for_each(|(name, text)| options.set(name, text).unwrap());
            options.methods(names).unwrap_err().to_string()
        };
        assert_eq!(
            error(&["knn:gamma=1", "kpca-nys"], &[]),
            "gamma has no meaning for knn; it takes neighbours, bank, seed"
        );
        assert!(error(&["knn:quokkas=1"], &[]).starts_with("quokkas: there is no such option"));
        assert!(error(&["knn:"], &[]).contains("such as knn:neighbours=10, got knn:"));
        assert!(error(&["knnn:neighbours=1"], &[]).contains("did you mean knn?"));
        assert!(error(&["all:neighbours=1"], &[]).contains("options of its own"));
        // Given to all, and overridden wherever it has a meaning: nobody uses it.
        assert!(
            error(&["knn:neighbours=3"], &[("neighbours", "5")])
                .starts_with("neighbours has no meaning for")
        );
    }
}
