//! How messages name parameters: as the keywords of a program (`hold_out`), or as the flags of a
//! command line (`--hold-out`). Messages name them through here, so neither hears of the other's.

use std::fmt::{Display, Formatter, Result};
use std::sync::atomic::{AtomicBool, Ordering};

static AS_FLAGS: AtomicBool = AtomicBool::new(false);

/// Lets the messages of this process name parameters as flags (`--hold-out`), for a program that is
/// a command line. Until then they are named as keywords (`hold_out`).
pub fn name_parameters_as_flags() {
    AS_FLAGS.store(true, Ordering::Relaxed);
}

/// Whether parameters are named as flags.
pub(crate) fn as_flags() -> bool {
    AS_FLAGS.load(Ordering::Relaxed)
}

/// The flag that turns scaling to unit length off; the keyword says whether it is on.
const NO_COSINE: &str = "no-cosine";

/// A parameter by its name in words (`hold-out`); dashes in front do not matter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'a>(pub(crate) &'a str);

impl Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let name = self.0.trim_start_matches('-');
        match (as_flags(), name) {
            (true, name) => write!(f, "--{name}"),
            (false, NO_COSINE) => f.write_str("cosine"),
            (false, name) => f.write_str(&name.replace('-', "_")),
        }
    }
}

/// A parameter with what it should be: `--sampling uniform`, or `sampling="uniform"`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a>(pub(crate) &'a str, pub(crate) &'a str);

impl Display for Setting<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Setting(name, value) = *self;
        let is_number = value.parse::<f64>().is_ok();
        match as_flags() {
            true => write!(f, "{} {value}", Named(name)),
            false if is_number => write!(f, "{}={value}", Named(name)),
            false => write!(f, "{}=\"{value}\"", Named(name)),
        }
    }
}

/// Rows scaled to unit length or not: `--no-cosine`, or `cosine=False`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WithoutCosine;

impl Display for WithoutCosine {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}{}", Named(NO_COSINE), if as_flags() { "" } else { "=False" })
    }
}

/// A parameter that takes data: `--head FILE`, or `head=`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Data<'a>(pub(crate) &'a str);

impl Display for Data<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}{}", Named(self.0), if as_flags() { " FILE" } else { "=" })
    }
}

/// The name among `known` that takes the fewest changes of letters to get to, if they are few.
pub(crate) fn similar<T: AsRef<str>>(name: &str, known: impl Iterator<Item = T>) -> Option<T> {
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let name = plain(name);
    let few = 2.min(name.chars().count() / 2);
    let (changes, nearest) = known
        .map(|known| (strsim::levenshtein(&name, &plain(known.as_ref())), known))
        .min_by_key(|(changes, _)| *changes)?;
    (changes <= few).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Flags are for a process as a whole; the command line's tests see them.
    #[test]
    fn a_program_hears_of_keywords() {
        assert_eq!(Named("hold-out").to_string(), "hold_out");
        assert_eq!(Named("--no-cosine").to_string(), "cosine");
        assert_eq!(Setting("sampling", "uniform").to_string(), "sampling=\"uniform\"");
        assert_eq!(Setting("hold-out", "0").to_string(), "hold_out=0");
        assert_eq!(WithoutCosine.to_string(), "cosine=False");
        assert_eq!(Data("calibrate").to_string(), "calibrate=");
    }

    #[test]
    fn a_name_is_similar_if_it_takes_few_changes() {
        let among = |name| similar(name, ["neighbours", "gamma", "rho"].into_iter());
        assert_eq!(among("neighbors"), Some("neighbours"));
        assert_eq!(among("gama"), Some("gamma"));
        assert_eq!(among("x"), None);
        assert_eq!(among("landmarks"), None);
    }
}
