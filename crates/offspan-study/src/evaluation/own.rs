//! Methods of the user's own beside those of the library.

use std::time::Instant;

use offspan::Observer;
use offspan::io::{Dataset, Head};
use offspan::metrics::EvalOptions;
use serde_json::{Value, json};

use super::{Evaluations, FitFacts, LeftOut, MethodResult, Scores, Sets};

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

/// Fits the user's own method on all training rows and puts its results, or why there are none, behind
/// those of the others.
///
/// # Errors
/// If the observer asks to stop.
pub fn evaluate_own(
    method: &dyn OwnMethod,
    sets: &Sets<'_>,
    options: &EvalOptions,
    observer: &dyn Observer,
    evaluations: &mut Evaluations,
) -> offspan::Result<()> {
    observer.begin(&method.name(), 0);
    match judged(method, sets, options) {
        Ok(result) => evaluations.results.push(result),
        Err(error @ offspan::Error::Interrupted { .. }) => return Err(error),
        Err(error) => evaluations.without.push(LeftOut {
            method: method.name(),
            reason: error.to_string(),
            named: true,
        }),
    }
    Ok(())
}

fn judged(
    method: &dyn OwnMethod,
    sets: &Sets<'_>,
    options: &EvalOptions,
) -> offspan::Result<MethodResult> {
    let started = Instant::now();
    let detector = method.fit(sets.train, sets.head)?;
    let fit = FitFacts {
        rows: sets.train.rows() as u64,
        seconds: started.elapsed().as_secs_f64(),
        components: None,
        found: offspan::Found::new(),
    };
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
    let scores = Scores::of(sets, score)?;
    let params = match method.params() {
        Value::Null => json!({ "family": "own" }),
        params => params,
    };
    scores.judged(&method.name(), params, Some(fit), sets, options)
}

#[cfg(test)]
mod tests {
    use offspan::Silent;
    use offspan::ndarray::Array2;

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
        let sets = Sets { train: &train, test: &test, ood: &ood, head: None };
        let run = |forgets_a_row| {
            let mut all = Evaluations::default();
            let options = EvalOptions::default();
            evaluate_own(&Mean { forgets_a_row }, &sets, &options, &Silent, &mut all).unwrap();
            all
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
