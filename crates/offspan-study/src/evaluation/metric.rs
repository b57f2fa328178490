//! The figures that tables can show, by name.

use std::fmt;
use std::str::FromStr;

use offspan::metrics::{Average, EvalOptions, FprRule, Intervals};
use offspan_report::table::Better;

use super::document::rate_name;
use crate::StudyError;

/// A figure of a method on a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// The false-positive rate by the rule of the evaluation.
    Fpr,
    /// The false-positive rate by this rule.
    FprBy(FprRule),
    /// Area under the ROC curve.
    Auroc,
    /// Average precision with in-distribution rows as positives.
    AuprIn,
    /// Average precision with out-of-distribution rows as positives.
    AuprOut,
    /// The least mean of both error rates.
    DetectionError,
    /// Area under the risk-coverage curve.
    Aurc,
    /// Area under the generalised risk-coverage curve.
    Augrc,
    /// Area under the curve of correct classification over false positives.
    Oscr,
}

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 11] = [
        Metric::Fpr,
        Metric::FprBy(FprRule::AtLeast),
        Metric::FprBy(FprRule::Authors),
        Metric::FprBy(FprRule::OodPositive),
        Metric::Auroc,
        Metric::AuprIn,
        Metric::AuprOut,
        Metric::DetectionError,
        Metric::Aurc,
        Metric::Augrc,
        Metric::Oscr,
    ];

    /// What tables show if nothing else is asked for.
    pub const USUAL: [Metric; 2] = [Metric::Fpr, Metric::Auroc];

    /// The name in flags. That of a false-positive rate leaves its true-positive rate open.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Metric::Fpr => "fpr",
            Metric::FprBy(FprRule::AtLeast) => "fpr-at-least",
            Metric::FprBy(FprRule::Authors) => "fpr-authors",
            Metric::FprBy(FprRule::OodPositive) => "fpr-ood-positive",
            Metric::Auroc => "auroc",
            Metric::AuprIn => "aupr-in",
            Metric::AuprOut => "aupr-out",
            Metric::DetectionError => "detection-error",
            Metric::Aurc => "aurc",
            Metric::Augrc => "augrc",
            Metric::Oscr => "oscr",
        }
    }

    /// What its column is called.
    #[must_use]
    pub fn label(self, options: &EvalOptions) -> String {
        let rate = || rate_name(options).to_uppercase();
        match self {
            // A rate by another rule is another figure, and must not look like the usual one.
            Metric::Fpr if options.rule != FprRule::default() => {
                Metric::FprBy(options.rule).label(options)
            }
            Metric::Fpr => rate(),
            Metric::FprBy(rule) => format!("{} {rule}", rate()),
            Metric::Auroc => "AUROC".to_owned(),
            Metric::AuprIn => "AUPR-in".to_owned(),
            Metric::AuprOut => "AUPR-out".to_owned(),
            Metric::DetectionError => "error".to_owned(),
            Metric::Aurc => "AURC".to_owned(),
            Metric::Augrc => "AUGRC".to_owned(),
            Metric::Oscr => "OSCR".to_owned(),
        }
    }

    /// Which values are better.
    #[must_use]
    pub fn better(self) -> Better {
        match self {
            Metric::Fpr
            | Metric::FprBy(_)
            | Metric::DetectionError
            | Metric::Aurc
            | Metric::Augrc => Better::Lower,
            Metric::Auroc | Metric::AuprIn | Metric::AuprOut | Metric::Oscr => Better::Higher,
        }
    }

    /// The figure; none if it needs labels and there are none.
    #[must_use]
    pub fn value(self, of: &Average) -> Option<f64> {
        match self {
            Metric::Fpr => Some(of.fpr),
            Metric::FprBy(rule) => Some(of.fpr_by_rule.by(rule)),
            Metric::Auroc => Some(of.auroc),
            Metric::AuprIn => Some(of.aupr_in),
            Metric::AuprOut => Some(of.aupr_out),
            Metric::DetectionError => Some(of.detection_error),
            Metric::Aurc => of.selective.map(|areas| areas.aurc),
            Metric::Augrc => of.selective.map(|areas| areas.augrc),
            Metric::Oscr => of.selective.map(|areas| areas.oscr),
        }
    }

    /// Whether it needs to know which predictions are right.
    #[must_use]
    pub fn needs_labels(self) -> bool {
        matches!(self, Metric::Aurc | Metric::Augrc | Metric::Oscr)
    }

    /// Its confidence interval, where there is one.
    pub(super) fn interval(self, of: &Intervals) -> Option<[f64; 2]> {
        match self {
            Metric::Fpr => Some(of.fpr),
            Metric::Auroc => Some(of.auroc),
            _ => None,
        }
    }

    /// Whether `first` is better than `second`.
    pub(crate) fn prefers(self, first: f64, second: f64) -> bool {
        match self.better() {
            Better::Lower => first < second,
            Better::Higher => first > second,
        }
    }

    /// The metric of this name; a false-positive rate may carry its true-positive rate, `fpr95`, if that
    /// is the evaluation's.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str, options: &EvalOptions) -> Result<Self, StudyError> {
        let rate = rate_name(options);
        let plain = match name.strip_prefix(&rate) {
            Some(rest) if rest.is_empty() || rest.starts_with('-') => format!("fpr{rest}"),
            _ => name.to_owned(),
        };
        plain.parse().map_err(|_| {
            let known: Vec<String> =
                Metric::ALL.iter().map(|metric| metric.name().replacen("fpr", &rate, 1)).collect();
            StudyError::Setup(format!(
                "unknown metric: expected {}, got `{name}`",
                known.join(", ")
            ))
        })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Metric {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_name_and_rates_carry_theirs() {
        let options = EvalOptions::default();
        for metric in Metric::ALL {
            assert_eq!(Metric::named(metric.name(), &options).unwrap(), metric);
        }
        let named = |name| Metric::named(name, &options);
        assert_eq!(named("fpr95").unwrap(), Metric::Fpr);
        assert_eq!(named("fpr95-authors").unwrap(), Metric::FprBy(FprRule::Authors));
        let strict = EvalOptions { tpr: 0.99, ..options };
        assert_eq!(
            Metric::named("fpr99-ood-positive", &strict).unwrap().label(&strict),
            "FPR99 ood-positive"
        );
        let by = EvalOptions { rule: FprRule::OodPositive, ..options };
        assert_eq!(Metric::Fpr.label(&by), "FPR95 ood-positive");
        assert_eq!(Metric::Fpr.label(&options), "FPR95");
        let error = Metric::named("fpr95", &strict).unwrap_err().to_string();
        assert!(error.starts_with("unknown metric: expected fpr99, fpr99-at-least,"), "{error}");
        assert!(named("fpr951").is_err());
    }
}
