//! Which setting of a method is best, judged without OoD rows: classes of the training rows that a
//! fit has not seen stand in for them.
//!
//! | step | module |
//! |---|---|
//! | settings to compare | `candidates` |
//! | rows to fit on, rows to keep, rows to refuse | `trials` |
//! | table, plot, document | `report` |

mod candidates;
mod report;
mod trials;

pub use report::{extent, files, table, write};

use offspan::io::{Dataset, Head};
use offspan::metrics::EvalOptions;
use offspan::{MethodSpec, Observer};
use serde::Serialize;

use self::candidates::{Candidates, grid};
use self::trials::Trial;
use crate::evaluation::fit_and_evaluate_each;
use crate::hook::Hook;
use crate::study::Run;
use crate::{Result, StudyError};

/// What to compare and how.
pub struct Settings<'a> {
    /// Methods.
    pub methods: Vec<String>,
    /// Flags with the values to try; all combinations are. Where none are given, methods have their own.
    pub values: Vec<(String, Vec<String>)>,
    /// Training rows to use, at most.
    pub rows: usize,
    /// How often the rows are divided anew.
    pub trials: usize,
    /// Seed of every random choice.
    pub seed: u64,
    /// Sets of OoD rows to judge with, instead of stand-ins.
    pub validate: &'a [Dataset<'a>],
    /// Who watches.
    pub observer: &'a dyn Observer,
}

/// What stands in for OoD rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// Classes that are left out of the fit, and of the network's outputs.
    LeftOutClasses,
    /// Rows of which each channel comes from one of two training rows.
    MixedRows,
    /// Sets that the user gave.
    Given,
}

impl Criterion {
    /// In words, after "judged by".
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Criterion::LeftOutClasses => {
                "how well rows of classes that were left out of the fit are told from the others"
            }
            Criterion::MixedRows => {
                "how well rows mixed from two training rows are told from in-distribution rows"
            }
            Criterion::Given => "how well the given sets are told from in-distribution rows",
        }
    }
}

/// A setting and how it did.
#[derive(Debug, Clone, Serialize)]
pub struct Candidate {
    /// The method.
    pub method: String,
    /// Its flags with their values.
    pub flags: Vec<(String, String)>,
    /// What to give to `offspan fit` for it.
    pub command: String,
    /// Mean AUROC and false-positive rate over trials and sets; none if a fit failed.
    pub auroc: Option<f64>,
    /// As above.
    pub fpr: Option<f64>,
    /// AUROC in each trial.
    pub trials: Vec<f64>,
    /// How much it is behind the best, and the standard error of that over the trials.
    pub behind: Option<(f64, f64)>,
    /// Why there is no result.
    pub failure: Option<String>,
}

/// The comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Tuned {
    /// What the candidates were judged by.
    pub criterion: Criterion,
    /// Rows that were used.
    pub rows: usize,
    /// In the order they were tried.
    pub candidates: Vec<Candidate>,
    /// The first one that is not behind the best by more than the standard error of the difference, or
    /// by too little to matter.
    pub chosen: usize,
}

impl Tuned {
    /// The chosen setting.
    #[must_use]
    pub fn best(&self) -> &Candidate {
        &self.candidates[self.chosen]
    }
}

/// Compares settings on training rows.
///
/// # Errors
/// If nothing can be compared: too few rows, a bad flag, or no candidate that can be fitted.
pub fn tune(train: &Dataset<'_>, head: Option<&Head>, settings: &Settings<'_>) -> Result<Tuned> {
    let (criterion, rows, trials) = trials::make(train, head, settings)?;
    let Some(first) = trials.first() else {
        return Err(StudyError::Setup("tuning takes at least one trial".to_owned()));
    };
    let runs = grid(settings, first)?;
    let specs = runs.iter().map(|run| Ok(run.spec()?)).collect::<Result<Vec<MethodSpec>>>()?;
    let mut results = Candidates::new(&runs);
    for (number, trial) in trials.iter().enumerate() {
        try_all(&runs, &specs, trial, (number, trials.len()), settings, &mut results)?;
    }
    let candidates = results.finish();
    let chosen = choose(&candidates).ok_or_else(|| {
        let reasons: Vec<&str> =
            candidates.iter().filter_map(|candidate| candidate.failure.as_deref()).collect();
        StudyError::Setup(format!("no candidate could be fitted: {}", reasons.join("; ")))
    })?;
    Ok(Tuned { criterion, rows, candidates, chosen })
}

fn try_all(
    runs: &[Run],
    specs: &[MethodSpec],
    trial: &Trial<'_>,
    (number, trials): (usize, usize),
    settings: &Settings<'_>,
    results: &mut Candidates,
) -> Result<()> {
    let names: Vec<String> = runs.iter().map(|run| run.method.clone()).collect();
    let hook = Hook {
        observer: settings.observer,
        on_method: |observer: &dyn Observer, _: &str, done: usize, of: usize| {
            let name = format!("trial {} of {trials}, {}", number + 1, runs[done - 1].command());
            observer.method(&name, number * of + done, trials * of);
        },
    };
    let options = EvalOptions::default();
    fit_and_evaluate_each(specs, &names, &trial.sets(), &options, &hook, |index, result| {
        results.add(index, result.map(|result| result.average));
        Ok(())
    })
}

/// A difference of AUROC that is not worth another setting.
const NEGLIGIBLE: f64 = 0.002;

/// Candidates come in the order of preference: a later one must be better by more than chance, and by
/// enough to matter.
fn choose(candidates: &[Candidate]) -> Option<usize> {
    candidates.iter().position(|candidate| {
        candidate.behind.is_some_and(|(behind, error)| behind <= error.max(NEGLIGIBLE))
    })
}
