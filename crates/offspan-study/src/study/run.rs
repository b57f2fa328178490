//! One line of a study: a method with the flags that `offspan eval` would take for it.

use offspan::{CATALOGUE, MethodOptions, MethodSpec, PRESETS, Setting};

/// A method with flags, and what its line in the table says.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// The first cells of its line.
    pub(crate) labels: Vec<String>,
    /// The method.
    pub(crate) method: String,
    /// Flags with their values; a flag without one has an empty value.
    pub(crate) flags: Vec<(String, String)>,
}

impl Run {
    /// A method without flags.
    pub(crate) fn new(method: &str, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Run { labels, method: method.to_owned(), flags: Vec::new() }
    }

    /// The same with this flag, whatever it was before.
    #[must_use]
    pub(crate) fn with(mut self, flag: &str, value: impl ToString) -> Self {
        self.flags.retain(|(given, _)| given != flag);
        self.flags.push((flag.to_owned(), value.to_string()));
        self
    }

    /// The same with what is common to a study, where the method takes it and the run does not say
    /// otherwise.
    #[must_use]
    pub(super) fn on_top_of(mut self, common: &[(String, String)]) -> Self {
        let takes = |flag: &str, value: &str| match flag {
            "--preset" => setting(value, &self.method).is_some(),
            _ => CATALOGUE.iter().any(|method| method.name == self.method && method.takes(flag)),
        };
        let given = |flag: &str| self.flags.iter().any(|(own, _)| own == flag);
        let fits = |flag: &str| match flag {
            "--explained-variance" => !given("--components"),
            // A width belongs to a kernel.
            "--gamma" => !given("--kernel"),
            _ => true,
        };
        let more: Vec<_> = common
            .iter()
            .filter(|(flag, value)| takes(flag, value) && !given(flag) && fits(flag))
            .cloned()
            .collect();
        self.flags.extend(more);
        self
    }

    /// The method that this asks for.
    pub(crate) fn spec(&self) -> offspan::Result<MethodSpec> {
        let mut options = MethodOptions::default();
        for (flag, value) in &self.flags {
            options.set(flag, if value.is_empty() { "true" } else { value })?;
        }
        options.method(&self.method)
    }

    /// What to give to `offspan eval PACK` to get the same numbers.
    pub(crate) fn command(&self) -> String {
        let mut text = format!("--method {}", self.method);
        for (flag, value) in &self.flags {
            text += &format!(" {flag}");
            if !value.is_empty() {
                text += &format!(" {value}");
            }
        }
        text
    }
}

/// What a preset says of a method.
pub(super) fn setting(preset: &str, method: &str) -> Option<&'static Setting> {
    let preset = PRESETS.iter().find(|known| known.name == preset)?;
    preset.settings.iter().find(|setting| setting.method == method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_flags_go_where_they_have_a_meaning_and_nobody_said_otherwise() {
        let common: Vec<(String, String)> =
            [("--gamma", "3"), ("--landmarks", "64"), ("--seed", "7")]
                .map(|(flag, value)| (flag.to_owned(), value.to_owned()))
                .to_vec();
        let command = |run: Run| run.on_top_of(&common).command();
        assert_eq!(
            command(Run::new("kpca-nys", &[])),
            "--method kpca-nys --gamma 3 --landmarks 64 --seed 7"
        );
        assert_eq!(
            command(Run::new("kpca-rff", &[]).with("--gamma", 1)),
            "--method kpca-rff --gamma 1 --seed 7"
        );
        assert_eq!(
            command(Run::new("kpca-nys", &[]).with("--kernel", "laplacian")),
            "--method kpca-nys --kernel laplacian --landmarks 64 --seed 7"
        );
        assert_eq!(command(Run::new("energy", &[])), "--method energy");
    }

    #[test]
    fn a_run_is_the_method_of_its_command() {
        let run = Run::new("kpca-rff", &[]).with("--no-cosine", "").with("--gamma", 0.25);
        assert_eq!(run.command(), "--method kpca-rff --no-cosine --gamma 0.25");
        let json = serde_json::json!(run.spec().unwrap()).to_string();
        assert!(json.contains("\"cosine\":false") && json.contains("0.25"), "{json}");
    }
}
