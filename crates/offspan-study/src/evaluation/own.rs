//! Methods of the user's own beside those of the library.

use std::time::Instant;

use offspan::io::{Dataset, Head};
use serde_json::{Value, json};

use super::result::{FitFacts, ScoreFacts, Source};
use super::scores::Scores;
use super::sets::Sets;

/// A method of the user's own, to be compared with those of the library.
///
/// ```
/// use offspan::io::{Dataset, Head, read_rows};
/// use offspan::ndarray::Array2;
/// use offspan_study::evaluation::{OwnDetector, OwnMethod};
///
/// /// Rows with a large norm are in-distribution.
/// struct Norm;
///
/// impl OwnMethod for Norm {
///     fn name(&self) -> String {
///         "norm".to_owned()
///     }
///
///     fn fit(&self, _: &Dataset<'_>, _: Option<&Head>) -> offspan::Result<Box<dyn OwnDetector>> {
///         Ok(Box::new(Norm))
///     }
/// }
///
/// impl OwnDetector for Norm {
///     fn score(&self, rows: &Dataset<'_>) -> offspan::Result<Vec<f64>> {
///         let z: Array2<f64> = read_rows(rows.features(), 0..rows.rows())?;
///         Ok(z.rows().into_iter().map(|row| row.dot(&row).sqrt()).collect())
///     }
/// }
/// ```
pub trait OwnMethod {
    /// What it is called in tables.
    fn name(&self) -> String;

    /// Its parameters, for documents.
    fn params(&self) -> Value {
        Value::Null
    }

    /// The same method with another seed, if it draws anything. Every fit of an evaluation asks for its
    /// seed in this way, a single one as well.
    fn with_seed(&self, seed: u64) -> Option<Box<dyn OwnMethod>> {
        let _ = seed;
        None
    }

    /// Whether it learns from the training rows; scores that are there already do not.
    fn learns(&self) -> bool {
        true
    }

    /// Where it comes from, if it was not fitted.
    fn source(&self) -> Option<Source> {
        None
    }

    /// Fits the method to training rows.
    ///
    /// # Errors
    /// If the rows are bad for it.
    fn fit(
        &self,
        train: &Dataset<'_>,
        head: Option<&Head>,
    ) -> offspan::Result<Box<dyn OwnDetector>>;
}

/// A fitted method of the user's own.
pub trait OwnDetector {
    /// One score per row; higher is more in-distribution.
    ///
    /// # Errors
    /// If the rows are bad for it.
    fn score(&self, rows: &Dataset<'_>) -> offspan::Result<Vec<f64>>;
}

/// Fits a method and scores the rows of a pack with it.
pub(super) fn scored(
    method: &dyn OwnMethod,
    sets: &Sets<'_>,
) -> offspan::Result<(Option<FitFacts>, ScoreFacts, Scores)> {
    let started = Instant::now();
    let detector = method.fit(sets.train, sets.head)?;
    let fit = method.learns().then(|| FitFacts {
        rows: sets.train.rows() as u64,
        seconds: started.elapsed().as_secs_f64(),
        components: None,
        found: offspan::Found::new(),
    });
    let score = |rows: &Dataset<'_>| {
        let scores = detector.score(rows)?;
        if scores.len() == rows.rows() {
            return Ok(scores);
        }
        Err(offspan::Error::Shape {
            what: format!("scores of {} for {}", method.name(), rows.name()),
            expected: format!("[{}], one per row", rows.rows()),
            got: format!("[{}]", scores.len()),
        })
    };
    let (scores, facts) = Scores::of(sets, score)?;
    Ok((fit, facts, scores))
}

/// What documents say of a method's parameters.
pub(super) fn params(method: &dyn OwnMethod) -> Value {
    match method.params() {
        Value::Null => json!({ "family": "own" }),
        params => params,
    }
}

#[cfg(test)]
mod tests {
    use offspan::Silent;
    use offspan::metrics::EvalOptions;
    use offspan::ndarray::Array2;

    use super::super::Evaluator;
    use super::*;

    /// The mean of each row's values, or too few of them.
    struct Mean {
        forgets_a_row: bool,
    }

    impl OwnMethod for Mean {
        fn name(&self) -> String {
            "mean".to_owned()
        }

        fn fit(&self, _: &Dataset<'_>, _: Option<&Head>) -> offspan::Result<Box<dyn OwnDetector>> {
            Ok(Box::new(Mean { ..*self }))
        }
    }

    impl OwnDetector for Mean {
        fn score(&self, rows: &Dataset<'_>) -> offspan::Result<Vec<f64>> {
            let z: Array2<f64> = offspan::io::read_rows(rows.features(), 0..rows.rows())?;
            let skipped = usize::from(self.forgets_a_row);
            Ok(z.rows().into_iter().skip(skipped).filter_map(|row| row.mean()).collect())
        }
    }

    #[test]
    fn an_own_method_is_judged_as_the_others_are() {
        let rows = |level: f64| Array2::from_shape_fn((20, 3), |(i, _)| level + i as f64 / 40.0);
        let (train, test, ood) = (rows(1.0), rows(1.0), rows(0.0));
        let train = Dataset::new("train", train.view());
        let test = Dataset::new("test", test.view());
        let ood = [Dataset::new("far", ood.view())];
        let sets = Sets::new(&train, &test, &ood, None);
        let run = |forgets_a_row| {
            let mut evaluator = Evaluator::new(sets, EvalOptions::default()).unwrap();
            evaluator.own(&Mean { forgets_a_row }, &Silent).unwrap();
            evaluator.finish()
        };
        let all = run(false);
        assert_eq!(all.results[0].sets["far"].auroc, 1.0);
        assert_eq!(all.results[0].fit.as_ref().unwrap().rows, 20);
        let all = run(true);
        assert!(all.results.is_empty());
        let reason = all.without[0].to_string();
        assert!(reason.contains("expected shape [20], one per row, got [19]"), "{reason}");
    }
}
