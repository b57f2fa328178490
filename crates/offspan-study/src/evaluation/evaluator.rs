//! Methods on a pack, one after the other: fit, score, judge, compare.

use std::sync::Mutex;
use std::time::Instant;

use offspan::io::SetGroup;
use offspan::metrics::EvalOptions;
use offspan::{Detector, Disagreement, FitOptions, MethodSpec, Observer};
use serde_json::json;

use super::advice::in_a_pack;
use super::own::OwnMethod;
use super::result::{
    Evaluations, FitFacts, LeftOut, MethodResult, Over, ScoreFacts, SeedRun, Source,
};
use super::scores::{Figures, Scored, Scores};
use super::sets::Sets;
use super::statistics::{Kept, compared, leads};
use crate::hook::Hook;
use crate::{Result, StudyError};

/// Evaluates methods on a pack: of the library ([`Evaluator::library`]), saved detectors
/// ([`Evaluator::detector`]) and the user's own ([`Evaluator::own`]), in any order; then
/// [`Evaluator::finish`] compares them.
///
/// Scores are kept of the two best methods of each figure only, and of those that are to be compared;
/// with several seeds, of every method until all its seeds are done.
pub struct Evaluator<'a> {
    sets: Sets<'a>,
    options: EvalOptions,
    seeds: Vec<u64>,
    compare: Vec<[String; 2]>,
    right: Option<Vec<bool>>,
    kept: Kept,
    evaluations: Evaluations,
}

/// A method that has a result, with its scores.
struct Found {
    result: MethodResult,
    scores: Scores,
    detector: Detector,
}

impl<'a> Evaluator<'a> {
    /// With one seed, that of the options.
    ///
    /// # Errors
    /// If the options do not fit, or rows cannot be read.
    pub fn new(sets: Sets<'a>, options: EvalOptions) -> Result<Self> {
        options.check().map_err(offspan::Error::from)?;
        let right = sets.right_predictions()?;
        let named = sets.group_members().into_iter();
        let groups = named.map(|(name, members)| SetGroup {
            name,
            sets: members.into_iter().map(|set| sets.ood[set].name().to_owned()).collect(),
        });
        let share = |right: &Vec<bool>| {
            right.iter().filter(|right| **right).count() as f64 / right.len() as f64
        };
        let evaluations = Evaluations {
            groups: groups.collect(),
            full_spectrum: sets.shifted.iter().map(|set| set.name().to_owned()).collect(),
            accuracy: right.as_ref().map(share),
            ..Evaluations::default()
        };
        let (seeds, compare) = (vec![options.seed], Vec::new());
        Ok(Evaluator { sets, options, seeds, compare, right, kept: Kept::default(), evaluations })
    }

    /// Fits methods with random choices so often, with this many seeds from that of the options on.
    ///
    /// # Errors
    /// If the number is 0, or intervals are asked for beside it: those are of one fit.
    pub fn seeds(mut self, number: usize) -> Result<Self> {
        if number == 0 {
            return Err(StudyError::Setup("expected at least 1 seed, got 0".to_owned()));
        }
        if number > 1 && self.options.interval.is_some() {
            return Err(StudyError::Setup(
                "confidence intervals are those of one fit; with several seeds there are standard \
                 deviations in their place"
                    .to_owned(),
            ));
        }
        self.seeds = (0..number as u64).map(|more| self.options.seed.wrapping_add(more)).collect();
        Ok(self)
    }

    /// Compares these two methods on the same rows.
    #[must_use]
    pub fn compare(mut self, first: &str, second: &str) -> Self {
        self.compare.push([first.to_owned(), second.to_owned()]);
        self
    }

    /// The seeds that methods with random choices are fitted with.
    #[must_use]
    pub fn seed_list(&self) -> &[u64] {
        &self.seeds
    }

    /// The rows that methods are evaluated on.
    pub(crate) fn sets(&self) -> Sets<'a> {
        self.sets
    }

    /// What was found so far.
    #[must_use]
    pub fn evaluations(&self) -> &Evaluations {
        &self.evaluations
    }

    /// Fits every method on all training rows and evaluates it; one that fails does not stop the others.
    /// `named` tells the methods that must be tried whatever the rows; `visit` sees each result of the
    /// first seed with the scores behind it.
    ///
    /// # Errors
    /// If the rows are bad for all, a method has a seed of its own and there are several, or the observer
    /// asks to stop.
    pub fn library(
        &mut self,
        asked: Vec<(String, MethodSpec)>,
        named: &dyn Fn(&str) -> bool,
        observer: &dyn Observer,
        mut visit: impl FnMut(&MethodResult, Scored),
    ) -> Result<()> {
        if self.seeds.len() > 1 {
            self.check_seeds(&asked)?;
        }
        let reasons = reasons_against(&asked, &self.sets)?;
        let (mut kept, mut names) = (Vec::new(), Vec::new());
        for ((method, spec), reason) in asked.into_iter().zip(reasons) {
            match reason.filter(|_| !named(&method)) {
                Some(reason) => {
                    self.evaluations.without.push(LeftOut { method, reason, named: false });
                }
                None => {
                    kept.push(spec);
                    names.push(method);
                }
            }
        }
        let first = self.evaluations.results.len();
        let mut places = Vec::new();
        let (sets, options) = (self.sets, self.options);
        fit_each(
            &kept,
            &names,
            &sets,
            &options,
            self.right.clone().as_deref(),
            observer,
            |index, found| {
                match found {
                    Ok(Found { result, scores, detector }) => {
                        visit(&result, scores.scored(Some(detector), &sets));
                        places.push(index);
                        self.keep(result, vec![scores]);
                    }
                    Err(error) => {
                        let (method, named) = (names[index].clone(), named(&names[index]));
                        let reason = in_a_pack(error).to_string();
                        self.evaluations.without.push(LeftOut { method, reason, named });
                    }
                }
                Ok(())
            },
        )?;
        if self.seeds.len() > 1 {
            let specs = places.iter().map(|&index| kept[index].clone()).collect();
            self.more_seeds(first, specs, observer)?;
        }
        self.kept.forget(&self.evaluations, &self.compare);
        Ok(())
    }

    /// Evaluates a detector that was fitted before.
    ///
    /// # Errors
    /// If the rows do not fit the detector, or the observer asks to stop.
    pub fn detector(
        &mut self,
        name: &str,
        detector: Detector,
        source: Option<Source>,
        observer: &dyn Observer,
    ) -> Result<Scored> {
        let right = self.right.as_deref();
        let found = evaluate(detector, name, None, &self.sets, &self.options, right, observer);
        let Found { result, scores, detector } = found.map_err(in_a_pack)?;
        let scored = scores.scored(Some(detector), &self.sets);
        self.keep(MethodResult { source, ..result }, vec![scores]);
        Ok(scored)
    }

    /// Fits the user's own method on all training rows, with every seed if it takes them, and adds its
    /// result, or why there is none. Returns the scores of the first seed, for a report.
    ///
    /// # Errors
    /// If the observer asks to stop.
    pub fn own(
        &mut self,
        method: &dyn OwnMethod,
        observer: &dyn Observer,
    ) -> Result<Option<Scored>> {
        observer.begin(&method.name(), 0);
        let mut scored = None;
        match self.fit_own(method) {
            Ok((result, scores)) => {
                scored = scores.first().map(|first| first.scored(None, &self.sets));
                self.keep(MethodResult { source: method.source(), ..result }, scores);
            }
            Err(error @ offspan::Error::Interrupted { .. }) => return Err(error.into()),
            Err(error) => self.evaluations.without.push(LeftOut {
                method: method.name(),
                reason: error.to_string(),
                named: true,
            }),
        }
        Ok(scored)
    }

    /// Puts results in another order, by a key.
    pub fn sort_by_key<K: Ord>(&mut self, key: impl Fn(&MethodResult) -> K) {
        let mut order: Vec<usize> = (0..self.evaluations.results.len()).collect();
        order.sort_by_key(|&at| key(&self.evaluations.results[at]));
        let results = std::mem::take(&mut self.evaluations.results);
        self.evaluations.results = order.iter().map(|&at| results[at].clone()).collect();
        self.kept.reorder(&order);
    }

    /// Compares what was to be compared, and tells which leads are more than chance.
    ///
    /// # Errors
    /// If a method that was to be compared has no result.
    pub fn finish(self) -> Result<Evaluations> {
        let Evaluator { sets, options, compare, kept, mut evaluations, .. } = self;
        let groups = sets.group_members();
        let members = |over: &Over| match over {
            Over::Average => (0..sets.ood.len()).collect(),
            Over::Group(name) => groups
                .iter()
                .find(|(group, _)| group == name)
                .map_or_else(Vec::new, |(_, members)| members.clone()),
            Over::Set(name) => {
                sets.ood.iter().position(|set| set.name() == name).into_iter().collect()
            }
        };
        for pair in &compare {
            let found = compared(&evaluations, &kept, &members, pair, &options)?;
            evaluations.comparisons.push(found);
        }
        evaluations.leads = leads(&evaluations, &kept, &members, &options);
        Ok(evaluations)
    }

    fn keep(&mut self, result: MethodResult, scores: Vec<Scores>) {
        let place = self.evaluations.results.len();
        self.evaluations.results.push(result);
        scores.into_iter().for_each(|scores| self.kept.add(place, scores));
        if self.seeds.len() == 1 {
            self.kept.forget(&self.evaluations, &self.compare);
        }
    }

    /// A seed in a method's own options would be lost among several.
    fn check_seeds(&self, asked: &[(String, MethodSpec)]) -> Result<()> {
        for (name, spec) in asked {
            let same = spec.with_seed(self.options.seed)?;
            if same.is_some_and(|same| same != *spec) {
                return Err(StudyError::Setup(format!(
                    "{name} has a seed of its own, and several seeds are asked for"
                )));
            }
        }
        Ok(())
    }

    /// Fits the results from `first` on, whose methods are these, with the other seeds. A method whose
    /// second seed gives the very same scores draws nothing, and is not fitted again.
    fn more_seeds(
        &mut self,
        first: usize,
        specs: Vec<MethodSpec>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let (sets, options) = (self.sets, self.options);
        let right = self.right.clone();
        let run_of = |result: &MethodResult, seed: u64| SeedRun {
            seed,
            sets: result.sets.clone(),
            average: result.average,
            groups: result.groups.clone(),
        };
        let results = &self.evaluations.results[first..];
        let mut runs: Vec<Vec<SeedRun>> =
            results.iter().map(|result| vec![run_of(result, self.seeds[0])]).collect();
        let mut going: Vec<usize> = (0..specs.len()).collect();
        for &seed in &self.seeds[1..] {
            let (mut round, mut places) = (Vec::new(), Vec::new());
            for &at in &going {
                if let Some(spec) = specs[at].with_seed(seed)? {
                    round.push(spec);
                    places.push(at);
                }
            }
            let names: Vec<String> = places
                .iter()
                .map(|&at| self.evaluations.results[first + at].method.clone())
                .collect();
            going.clear();
            let (kept, without) = (&mut self.kept, &mut self.evaluations.without);
            fit_each(
                &round,
                &names,
                &sets,
                &options,
                right.as_deref(),
                observer,
                |index, found| {
                    let at = places[index];
                    let Found { result, scores, .. } = match found {
                        Ok(found) => found,
                        Err(error) => {
                            let reason = format!("with seed {seed}: {}", in_a_pack(error));
                            let method = names[index].clone();
                            without.push(LeftOut { method, reason, named: true });
                            return Ok(());
                        }
                    };
                    let same = runs[at].len() == 1
                        && kept
                            .first(first + at)
                            .is_some_and(|other| other.hash() == scores.hash());
                    if !same {
                        runs[at].push(run_of(&result, seed));
                        kept.add(first + at, scores);
                        going.push(at);
                    }
                    Ok(())
                },
            )?;
        }
        for (at, runs) in runs.into_iter().enumerate() {
            let result = self.evaluations.results[first + at].clone();
            self.evaluations.results[first + at] = result.over_seeds(runs);
        }
        Ok(())
    }

    fn fit_own(&self, method: &dyn OwnMethod) -> offspan::Result<(MethodResult, Vec<Scores>)> {
        let mut all = Vec::new();
        let mut runs = Vec::new();
        let mut first = None;
        for &seed in &self.seeds {
            let seeded = if self.seeds.len() > 1 { method.with_seed(seed) } else { None };
            let is_seeded = seeded.is_some();
            let (fit, score, scores) =
                super::own::scored(seeded.as_deref().unwrap_or(method), &self.sets)?;
            let Figures { run, ind } =
                scores.judged(&self.sets, &self.options, self.right.as_deref(), seed)?;
            runs.push(run.clone());
            first.get_or_insert_with(|| {
                Figures { run, ind }.result(&method.name(), super::own::params(method), fit, score)
            });
            all.push(scores);
            if !is_seeded {
                break;
            }
        }
        let result = first.unwrap_or_else(|| unreachable!("there is at least one seed"));
        Ok((result.over_seeds(runs), all))
    }
}

/// With `all`, kernel PCA from the full kernel matrix is left out beyond this many rows: its time
/// grows with their cube.
const MOST_ROWS_EXACT: usize = 4000;

/// Why a method that nobody named should not run on these rows, if so.
///
/// # Errors
/// If the rows cannot be read.
pub(crate) fn reasons_against(
    methods: &[(String, MethodSpec)],
    sets: &Sets<'_>,
) -> Result<Vec<Option<String>>> {
    let negative = methods.iter().any(|(_, spec)| spec.wants_non_negative())
        && sets.train.has_negative_features()?;
    let rows = sets.train.rows();
    let reason = |(name, spec): &(String, MethodSpec)| {
        if negative && spec.wants_non_negative() {
            Some("made for features that are never negative, and some here are".to_owned())
        } else if name.starts_with("kpca-exact") && rows > MOST_ROWS_EXACT {
            let text =
                format!("takes a kernel matrix of {rows} × {rows}; name it to run it all the same");
            Some(text)
        } else {
            None
        }
    };
    Ok(methods.iter().map(reason).collect())
}

/// Fits each method on all training rows and evaluates it. `visit` gets each method's number and
/// result; one that fails does not stop the others.
pub(crate) fn fit_and_evaluate_each(
    specs: &[MethodSpec],
    names: &[String],
    sets: &Sets<'_>,
    options: &EvalOptions,
    observer: &dyn Observer,
    mut visit: impl FnMut(usize, offspan::Result<MethodResult>) -> offspan::Result<()>,
) -> Result<()> {
    fit_each(specs, names, sets, options, None, observer, |index, found| {
        visit(index, found.map(|found| found.result))
    })
}

fn fit_each(
    specs: &[MethodSpec],
    names: &[String],
    sets: &Sets<'_>,
    options: &EvalOptions,
    right: Option<&[bool]>,
    observer: &dyn Observer,
    mut visit: impl FnMut(usize, offspan::Result<Found>) -> offspan::Result<()>,
) -> Result<()> {
    if specs.is_empty() {
        return Ok(());
    }
    let started = Mutex::new(Instant::now());
    let hook = Hook {
        observer,
        on_method: |observer: &dyn Observer, name: &str, number: usize, of: usize| {
            if let Ok(mut started) = started.lock() {
                *started = Instant::now();
            }
            observer.method(name, number, of);
        },
    };
    if let Some(head) = sets.head {
        for rows in std::iter::once(sets.test).chain(sets.ood) {
            // What cannot be read is told where it is scored.
            if let Ok(Some(disagreement)) = Disagreement::of(rows, head) {
                observer.note(&disagreement.to_string());
            }
        }
    }
    let seconds = || started.lock().map_or(0.0, |started| started.elapsed().as_secs_f64());
    let fit_options = FitOptions { hold_out: Some(0.0), observer: &hook, ..FitOptions::default() };
    Detector::fit_each(specs, sets.train, sets.head, &fit_options, |index, fitted| {
        let found = fitted.and_then(|detector| {
            let facts = FitFacts::of(&detector, seconds());
            evaluate(detector, &names[index], Some(facts), sets, options, right, observer)
        });
        match found {
            Err(error @ offspan::Error::Interrupted { .. }) => Err(error),
            found => visit(index, found),
        }
    })?;
    Ok(())
}

/// Scores the rows of a pack and judges the scores.
///
/// # Errors
/// If the rows do not fit the detector, or the observer asks to stop.
pub(crate) fn evaluate_detector(
    detector: Detector,
    name: &str,
    sets: &Sets<'_>,
    options: &EvalOptions,
    observer: &dyn Observer,
) -> offspan::Result<(MethodResult, Scored)> {
    let Found { result, scores, detector } =
        evaluate(detector, name, None, sets, options, None, observer)?;
    Ok((result, scores.scored(Some(detector), sets)))
}

fn evaluate(
    detector: Detector,
    name: &str,
    fit: Option<FitFacts>,
    sets: &Sets<'_>,
    options: &EvalOptions,
    right: Option<&[bool]>,
    observer: &dyn Observer,
) -> offspan::Result<Found> {
    let (scores, facts): (Scores, ScoreFacts) =
        Scores::of(sets, |set| detector.score_dataset(set, observer))?;
    let figures = scores.judged(sets, options, right, options.seed)?;
    let result = figures.result(name, json!(detector.info().spec), fit, facts);
    Ok(Found { result, scores, detector })
}
