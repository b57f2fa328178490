//! The names of the ways to make a confidence interval.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::bootstrap::check_resamples;
use super::error::MetricError;

/// How confidence intervals are made.
///
/// Written `delong`, `bootstrap` (2000 resamples) or `bootstrap:500`, in flags and in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum IntervalMethod {
    /// Closed forms, at the price of one more pass.
    ///
    /// AUROC: `DeLong`'s variance on the logit scale,
    /// `expit(logit(A) ± z · se / (A (1 - A)))`, which stays inside `[0, 1]` and leans the way the
    /// AUROC's own distribution does. At `A = 1` (or 0) the variance is 0 and says nothing; the
    /// lower end is then `((1 - level) / 2)^(1 / min(n, m))`, which holds because perfect
    /// separation puts `min(n, m)` independent pairs in order, and the chance of that is at most
    /// `AUROC^min(n, m)`.
    ///
    /// FPR: Wilson's score interval for the share of rows that pass, joined with what the rate would be
    /// if the rows that fix the threshold kept a little more or less of themselves (a binomial error):
    /// the reaches to each side are added as squares.
    DeLong,
    /// Stratified percentile bootstrap of both numbers: each set is drawn from itself with
    /// replacement, and the threshold is found anew in every resample.
    ///
    /// A metric that no resample changes (perfect separation) gets an interval of width 0.
    Bootstrap {
        /// How many resamples, 1 to 1,000,000.
        resamples: u32,
    },
}

impl IntervalMethod {
    /// What `bootstrap` without a number means.
    pub const DEFAULT_RESAMPLES: u32 = 2000;

    /// Refuses a number of resamples that cannot be drawn.
    pub(super) fn check(self) -> Result<(), MetricError> {
        match self {
            Self::Bootstrap { resamples } => check_resamples(resamples),
            Self::DeLong => Ok(()),
        }
    }
}

impl fmt::Display for IntervalMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeLong => f.write_str("delong"),
            Self::Bootstrap { resamples } => write!(f, "bootstrap:{resamples}"),
        }
    }
}

impl FromStr for IntervalMethod {
    type Err = MetricError;

    fn from_str(name: &str) -> Result<Self, MetricError> {
        let method = match name {
            "delong" => Some(Self::DeLong),
            "bootstrap" => Some(Self::Bootstrap { resamples: Self::DEFAULT_RESAMPLES }),
            _ => name
                .strip_prefix("bootstrap:")
                .and_then(|number| number.parse().ok())
                .map(|resamples| Self::Bootstrap { resamples }),
        };
        let method = method.ok_or_else(|| MetricError::UnknownInterval { got: name.to_owned() })?;
        method.check()?;
        Ok(method)
    }
}

impl TryFrom<String> for IntervalMethod {
    type Error = MetricError;

    fn try_from(name: String) -> Result<Self, MetricError> {
        name.parse()
    }
}

impl From<IntervalMethod> for String {
    fn from(method: IntervalMethod) -> Self {
        method.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error as ValueError, StrDeserializer};

    #[test]
    fn names_survive_printing_parsing_and_serde() {
        for (name, method) in [
            ("delong", IntervalMethod::DeLong),
            ("bootstrap:1", IntervalMethod::Bootstrap { resamples: 1 }),
            ("bootstrap:1000000", IntervalMethod::Bootstrap { resamples: 1_000_000 }),
        ] {
            assert_eq!(name.parse(), Ok(method));
            assert_eq!(String::from(method), name);
            let serialised: StrDeserializer<ValueError> = name.into_deserializer();
            assert_eq!(IntervalMethod::deserialize(serialised), Ok(method));
        }
    }

    #[test]
    fn a_bare_bootstrap_has_the_default_resamples() {
        let resamples = IntervalMethod::DEFAULT_RESAMPLES;
        assert_eq!("bootstrap".parse(), Ok(IntervalMethod::Bootstrap { resamples }));
    }

    #[test]
    fn unknown_names_are_errors_that_list_the_known_ones() {
        for bad in ["", "DeLong", "bootstrap:", "bootstrap:-1", "bootstrap:many", "bootstrap2000"] {
            let error = bad.parse::<IntervalMethod>().unwrap_err();
            assert_eq!(error, MetricError::UnknownInterval { got: bad.into() });
            assert!(error.to_string().contains("expected `delong`, `bootstrap` or `bootstrap:N`"));
        }
    }

    #[test]
    fn a_number_of_resamples_that_cannot_be_drawn_is_an_error() {
        for (bad, got) in [("bootstrap:0", 0), ("bootstrap:1000001", 1_000_001)] {
            let error = bad.parse::<IntervalMethod>().unwrap_err();
            assert_eq!(error, MetricError::BadResamples { got });
        }
        let message = MetricError::BadResamples { got: 0 }.to_string();
        assert_eq!(message, "a bootstrap takes 1 to 1000000 resamples (2000 is usual), got 0");
    }
}
