//! Methods on a pack, one after the other: fit, score, judge, compare.

use std::collections::HashSet;

use offspan::io::SetGroup;
use offspan::metrics::EvalOptions;
use offspan::{Detector, MethodSpec, Observer};

use super::advice::in_a_pack;
use super::fitting::{Found, evaluate, fit_each, reasons_against};
use super::own::OwnMethod;
use super::result::{Evaluations, LeftOut, MethodResult, Over, SeedRun, Source};
use super::scores::{Figures, Scored, Scores};
use super::sets::Sets;
use super::statistics::{Kept, NotCompared, compared, leads};
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

    /// Leaves out comparisons of methods that have no result, which would be an error at the end.
    pub(super) fn compare_what_is_there(&mut self) {
        let evaluations = &self.evaluations;
        self.compare.retain(|pair| pair.iter().all(|name| evaluations.result(name).is_some()));
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
    /// If the rows are bad for all, a method has a seed of its own and there are several, another one has its
    /// name, or the observer asks to stop.
    pub fn library(
        &mut self,
        mut asked: Vec<(String, MethodSpec)>,
        named: &dyn Fn(&str) -> bool,
        observer: &dyn Observer,
        mut visit: impl FnMut(&MethodResult, Scored),
    ) -> Result<()> {
        // `all,knn` asks for knn twice.
        let mut seen = HashSet::new();
        asked.retain(|(name, _)| seen.insert(name.clone()));
        asked.iter().try_for_each(|(name, _)| self.check_name(name))?;
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

    /// Evaluates a detector that was fitted before, and adds its result, or why there is none: rows that
    /// do not fit it.
    ///
    /// # Errors
    /// If another method has its name, or the observer asks to stop.
    pub fn detector(
        &mut self,
        name: &str,
        detector: Detector,
        source: Option<Source>,
        observer: &dyn Observer,
    ) -> Result<Option<Scored>> {
        self.check_name(name)?;
        let right = self.right.as_deref();
        match evaluate(detector, name, None, &self.sets, &self.options, right, observer) {
            Ok(Found { result, scores, detector }) => {
                let scored = scores.scored(Some(detector), &self.sets);
                self.keep(MethodResult { source, ..result }, vec![scores]);
                Ok(Some(scored))
            }
            Err(error @ offspan::Error::Interrupted { .. }) => Err(error.into()),
            Err(error) => {
                let (method, reason) = (name.to_owned(), in_a_pack(error).to_string());
                self.evaluations.without.push(LeftOut { method, reason, named: true });
                Ok(None)
            }
        }
    }

    /// Fits the user's own method on all training rows, with every seed if it takes them, and adds its
    /// result, or why there is none. Returns the scores of the first seed, for a report.
    ///
    /// # Errors
    /// If another method has its name, or the observer asks to stop.
    pub fn own(
        &mut self,
        method: &dyn OwnMethod,
        observer: &dyn Observer,
    ) -> Result<Option<Scored>> {
        self.check_name(&method.name())?;
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

    /// Compares what was to be compared, as far as there are results, and tells which leads are more than
    /// chance.
    #[must_use]
    pub fn finish(self) -> Evaluations {
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
            match compared(&evaluations, &kept, &members, pair, &options) {
                Ok(found) => evaluations.comparisons.push(found),
                // What was found of the methods must not be lost with it.
                Err(error) => {
                    let ([first, second], reason) = (pair.clone(), error.to_string());
                    evaluations.not_compared.push(NotCompared { first, second, reason });
                }
            }
        }
        evaluations.leads = leads(&evaluations, &kept, &members, &options);
        evaluations
    }

    fn keep(&mut self, result: MethodResult, scores: Vec<Scores>) {
        let place = self.evaluations.results.len();
        self.evaluations.results.push(result);
        scores.into_iter().for_each(|scores| self.kept.add(place, scores));
        if self.seeds.len() == 1 {
            self.kept.forget(&self.evaluations, &self.compare);
        }
    }

    /// In tables and comparisons a name must stand for one method.
    fn check_name(&self, name: &str) -> Result<()> {
        let Evaluations { results, without, .. } = &self.evaluations;
        let mut names =
            results.iter().map(|one| &one.method).chain(without.iter().map(|one| &one.method));
        match names.any(|known| known == name) {
            true => Err(StudyError::Setup(format!(
                "expected different names of methods, got {name} twice"
            ))),
            false => Ok(()),
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
            let seeded = method.with_seed(seed);
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

#[cfg(test)]
mod tests {
    use offspan::Silent;
    use offspan::io::Dataset;
    use offspan::metrics::FprRule;
    use offspan::ndarray::Array2;

    use super::super::{Metric, OwnDetector, TableView};
    use super::*;

    /// Rows around a level, the same for the same seed.
    fn rows(count: usize, level: f64, seed: u64) -> Array2<f64> {
        let order = offspan::random_order(count * 3, seed);
        Array2::from_shape_fn((count, 3), |(i, j)| {
            level + order[3 * i + j] as f64 / (count * 3) as f64
        })
    }

    /// The mean of a row's features, with a little noise that the seed decides.
    struct Noisy {
        name: &'static str,
        noise: f64,
        seed: u64,
        seeded: bool,
    }

    impl OwnMethod for Noisy {
        fn name(&self) -> String {
            self.name.to_owned()
        }

        fn with_seed(&self, seed: u64) -> Option<Box<dyn OwnMethod>> {
            self.seeded.then(|| Box::new(Noisy { seed, ..*self }) as Box<dyn OwnMethod>)
        }

        fn fit(
            &self,
            _: &Dataset<'_>,
            _: Option<&offspan::io::Head>,
        ) -> offspan::Result<Box<dyn OwnDetector>> {
            Ok(Box::new(Noisy { ..*self }))
        }
    }

    impl OwnDetector for Noisy {
        fn score(&self, rows: &Dataset<'_>) -> offspan::Result<Vec<f64>> {
            let z: Array2<f64> = offspan::io::read_rows(rows.features(), 0..rows.rows())?;
            let noise = offspan::random_order(rows.rows(), self.seed);
            let score = |(row, noise): (ndarray::ArrayView1<'_, f64>, &usize)| {
                row.sum() / 3.0 + self.noise * *noise as f64 / rows.rows() as f64
            };
            Ok(z.rows().into_iter().zip(&noise).map(score).collect())
        }
    }

    #[test]
    fn own_methods_have_seeds_leads_and_marks_as_others_have() {
        let (train, test) = (rows(60, 0.3, 1), rows(60, 0.3, 2));
        let (near, far) = (rows(50, 0.0, 3), rows(40, -0.5, 4));
        let train = Dataset::new("train", train.view());
        let test = Dataset::new("test", test.view());
        let ood = [Dataset::new("far", far.view()), Dataset::new("near", near.view())];
        let groups = [SetGroup { name: "near".to_owned(), sets: vec!["near".to_owned()] }];
        let sets = Sets { groups: &groups, ..Sets::new(&train, &test, &ood, None) };
        let method = |name, noise, seeded| Noisy { name, noise, seed: 0, seeded };
        let mut evaluator = Evaluator::new(sets, EvalOptions::default()).unwrap().seeds(3).unwrap();
        evaluator = evaluator.compare("clear", "useless");
        for method in
            [method("useless", 50.0, true), method("clear", 0.0, false), method("same", 0.0, true)]
        {
            evaluator.own(&method, &Silent).unwrap();
        }
        evaluator.sort_by_key(|result| std::cmp::Reverse(result.method.clone()));
        let evaluations = evaluator.finish();
        let names: Vec<&str> = evaluations.results.iter().map(|one| one.method.as_str()).collect();
        assert_eq!(names, ["useless", "same", "clear"]);
        let useless = evaluations.result("useless").unwrap();
        let seeds = useless.seeds.as_ref().unwrap();
        assert_eq!(seeds.runs.iter().map(|run| run.seed).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(seeds.sd.groups["near"].auroc > 0.0);
        assert!(evaluations.result("clear").unwrap().seeds.is_none());
        // Comparisons follow results that were put into another order.
        let compared = &evaluations.comparisons[0];
        let average = &compared.differences[0];
        assert_eq!(average.over, Over::Average);
        assert!((average.auroc.second - useless.average.auroc).abs() < 1e-12);
        assert!(average.auroc.difference > 0.0 && average.auroc.p_value < 0.01);
        // Two methods with the same scores: neither leads by more than chance.
        assert!(evaluations.leads.iter().all(|lead| lead.by_chance && lead.p_value == 1.0));
        let options = EvalOptions::default();
        let table = evaluations.table(&options, &TableView::default());
        let groups: Vec<&str> = table.header.iter().map(|heading| heading.group.as_str()).collect();
        assert_eq!(
            groups,
            ["", "average", "average", "near", "near", "far", "far", "near", "near"]
        );
        assert!(table.rows.last().unwrap()[1].spread.is_some() && table.notes.len() == 2);
        let mut marked: Vec<&str> = table
            .rows
            .iter()
            .filter(|row| row[1].by_chance)
            .map(|row| row[0].text.as_str())
            .collect();
        marked.sort_unstable();
        assert_eq!(marked, ["clear", "same"], "the first place is shared, and its mark");
        // The mark stays where the rate is asked for by the name of its rule; another rate was not tested.
        for (rule, expected) in [(options.rule, true), (FprRule::Authors, false)] {
            let metrics = vec![Metric::FprBy(rule)];
            let table = evaluations.table(&options, &TableView { metrics, ..TableView::default() });
            let is_marked = table.rows.iter().any(|row| row[1].by_chance);
            assert_eq!(is_marked, expected, "{rule}");
        }
        assert!(
            table.notes[0]
                .contains("± sample standard deviation over 3 seeds; methods without ± draw")
        );
        assert!(table.notes[0].ends_with("draw nothing or take no seed."), "{:?}", table.notes);
    }

    #[test]
    fn a_single_fit_has_the_seed_of_the_evaluation() {
        let (train, test, ood) = (rows(30, 0.0, 1), rows(30, 0.0, 2), rows(30, -0.4, 3));
        let train = Dataset::new("train", train.view());
        let test = Dataset::new("test", test.view());
        let ood = [Dataset::new("far", ood.view())];
        let sets = Sets::new(&train, &test, &ood, None);
        let auroc = |asked: u64, seed: u64, seeded: bool| {
            let options = EvalOptions { seed: asked, ..EvalOptions::default() };
            let mut evaluator = Evaluator::new(sets, options).unwrap();
            evaluator.own(&Noisy { name: "x", noise: 2.0, seed, seeded }, &Silent).unwrap();
            let result = evaluator.finish().results.remove(0);
            assert!(result.seeds.is_none());
            result.average.auroc
        };
        assert_eq!(auroc(5, 0, true), auroc(0, 5, false));
        assert_ne!(auroc(5, 0, true), auroc(0, 0, true));
    }

    #[test]
    fn scores_of_few_methods_are_kept() {
        let (train, test, ood) = (rows(30, 0.0, 1), rows(30, 0.0, 2), rows(30, -0.4, 3));
        let train = Dataset::new("train", train.view());
        let test = Dataset::new("test", test.view());
        let ood = [Dataset::new("far", ood.view())];
        let sets = Sets::new(&train, &test, &ood, None);
        let mut evaluator =
            Evaluator::new(sets, EvalOptions::default()).unwrap().compare("m9", "m8");
        let names = ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"];
        for (number, name) in names.into_iter().enumerate() {
            let noise = number as f64 / 10.0;
            evaluator.own(&Noisy { name, noise, seed: 7, seeded: false }, &Silent).unwrap();
        }
        // Two of each of four figures at most, and the two that are to be compared.
        assert!(evaluator.kept.len() <= 10 && evaluator.kept.first(9).is_some());
        assert_eq!(evaluator.evaluations().results.len(), 10);
        let leads = evaluator.finish().leads;
        assert_eq!(leads.len(), 4, "every figure has a best method, also the first one");
    }

    #[test]
    fn what_cannot_be_compared_does_not_cost_the_results() {
        let (train, test, ood) = (rows(30, 0.0, 1), rows(30, 0.0, 2), rows(1, -0.4, 3));
        let train = Dataset::new("train", train.view());
        let test = Dataset::new("test", test.view());
        let ood = [Dataset::new("one row", ood.view())];
        let sets = Sets::new(&train, &test, &ood, None);
        let evaluator = Evaluator::new(sets, EvalOptions::default()).unwrap();
        let mut evaluator = evaluator.compare("a", "b").compare("a", "missing");
        for name in ["a", "b"] {
            evaluator.own(&Noisy { name, noise: 0.1, seed: 1, seeded: false }, &Silent).unwrap();
        }
        let found = evaluator.finish();
        assert_eq!((found.results.len(), found.comparisons.len()), (2, 0));
        let told: Vec<String> = found.not_compared.iter().map(ToString::to_string).collect();
        assert!(
            told[0].starts_with("a and b are not compared: ") && told[0].contains("2"),
            "{told:?}"
        );
        assert_eq!(told[1], "a and missing are not compared: missing has no result");
    }

    #[test]
    fn a_name_stands_for_one_method() {
        let (train, test, ood) = (rows(30, 0.0, 1), rows(30, 0.0, 2), rows(9, -0.4, 3));
        let train = Dataset::new("train", train.view());
        let test = Dataset::new("test", test.view());
        let ood = [Dataset::new("far", ood.view())];
        let sets = Sets::new(&train, &test, &ood, None);
        let mut evaluator = Evaluator::new(sets, EvalOptions::default()).unwrap();
        let named = |name: &str| (name.to_owned(), MethodSpec::named("pca").unwrap());
        evaluator.library(vec![named("pca"), named("pca")], &|_| true, &Silent, |_, _| {}).unwrap();
        let found = evaluator.evaluations();
        let tried = found.results.len() + found.without.len();
        assert_eq!(tried, 1, "asked for twice, it is fitted once");
        let own = Noisy { name: "pca", noise: 0.1, seed: 1, seeded: false };
        let error = evaluator.own(&own, &Silent).unwrap_err().to_string();
        assert_eq!(error, "expected different names of methods, got pca twice");
        let again = evaluator.library(vec![named("pca")], &|_| true, &Silent, |_, _| {});
        assert!(again.unwrap_err().to_string().contains("got pca twice"));
    }
}
