//! The names of the three FPR rules that published numbers follow.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::MetricError;

/// Which threshold "the FPR at 95 % TPR" means.
///
/// Published numbers disagree in rounding, in ties and even in the positive class, so the rule has
/// a name. With the `InD` scores `x` sorted ascending (from index 0) and the wanted rate `r`:
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FprRule {
    /// `t = x[floor((1 - r) n)]`, accept `score >= t`: at least `r` of the `InD` rows are kept.
    /// The share of accepted `OoD` rows.
    #[default]
    AtLeast,
    /// `t = x[round((1 - r) n)]`, half to even, accept `score > t`: the rule of the paper's
    /// authors. The row at `t` is refused, so a little less than `r` may be kept; an index past the
    /// end means the last row.
    Authors,
    /// `OoD` is the positive class, as in `OpenOOD`: the smallest share of `InD` rows called `OoD`
    /// (`score <= t`) by a threshold that calls at least `r` of the `OoD` rows so. Rows with equal
    /// scores are called together.
    ///
    /// This is another quantity, not a variant: it fixes the miss rate of `OoD` rows, and its
    /// denominator is the `InD` set.
    OodPositive,
}

impl FprRule {
    /// Every rule, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::AtLeast, Self::Authors, Self::OodPositive];

    /// The name in flags and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtLeast => "at-least",
            Self::Authors => "authors",
            Self::OodPositive => "ood-positive",
        }
    }
}

impl fmt::Display for FprRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FprRule {
    type Err = MetricError;

    fn from_str(name: &str) -> Result<Self, MetricError> {
        let known = Self::ALL.into_iter().find(|rule| rule.name() == name);
        known.ok_or_else(|| MetricError::UnknownRule { got: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error as ValueError, StrDeserializer};

    #[test]
    fn names_survive_printing_parsing_and_serde() {
        for rule in FprRule::ALL {
            assert_eq!(rule.to_string().parse(), Ok(rule));
            let name: StrDeserializer<ValueError> = rule.name().into_deserializer();
            assert_eq!(FprRule::deserialize(name), Ok(rule));
        }
        let error = "fpr95".parse::<FprRule>().unwrap_err();
        assert_eq!(error, MetricError::UnknownRule { got: "fpr95".into() });
        assert!(error.to_string().contains("`ood-positive`"));
    }
}
