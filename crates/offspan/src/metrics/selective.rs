//! How well a score tells when the classifier's answer may be used.
//!
//! Rows are accepted from the highest score down. An accepted row is a failure if it is `OoD`, or if
//! it is `InD` and its class is predicted wrongly. With `N` rows, of which the `i` highest are
//! accepted (coverage `i / N`) and `F(i)` of these are failures:
//!
//! | quantity | definition | best |
//! |---|---|---|
//! | AURC | mean over `i` of the selective risk `F(i) / i` | 0 |
//! | AUGRC | area under the generalised risk `F(i) / N` over the coverage | 0 |
//! | OSCR | area under the rate of `InD` rows that are accepted and right over the rate of accepted `OoD` rows | 1 |
//!
//! Rows of equal score are accepted in random order, and the expectation over that order is given.
//! AURC is due to Geifman and El-Yaniv (2017), AUGRC to Traub and others (2024), OSCR to Dhamija,
//! Günther and Boult (2018).

use serde::{Deserialize, Serialize};

use super::error::{IND, MetricError, OOD, check_scores};
use super::levels::count;

/// Areas that need to know which predictions are right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Selective {
    /// Area under the risk-coverage curve.
    pub aurc: f64,
    /// Area under the generalised risk-coverage curve.
    pub augrc: f64,
    /// Area under the curve of correct classification over false positives.
    pub oscr: f64,
}

/// The area under the risk-coverage curve, and under its generalised form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RiskAreas {
    /// Area under the risk-coverage curve.
    pub aurc: f64,
    /// Area under the generalised risk-coverage curve.
    pub augrc: f64,
}

/// AURC, AUGRC and OSCR of `InD` rows, of which `correct` tells whether the predicted class is right,
/// and of `OoD` rows.
///
/// # Errors
/// A set is empty or has a `NaN`, or there is not one answer for each `InD` row.
pub fn selective(ind: &[f64], correct: &[bool], ood: &[f64]) -> Result<Selective, MetricError> {
    check_scores(OOD, ood)?;
    let rows = failures(ind, correct)?.chain(ood.iter().map(|&score| (score, true)));
    let RiskAreas { aurc, augrc } = areas(rows.collect());
    Ok(Selective { aurc, augrc, oscr: oscr(ind, correct, ood) })
}

/// AURC and AUGRC of `InD` rows alone: does the score tell right predictions from wrong ones?
///
/// # Errors
/// There are no rows, a score is `NaN`, or there is not one answer for each row.
pub fn risk_areas(ind: &[f64], correct: &[bool]) -> Result<RiskAreas, MetricError> {
    Ok(areas(failures(ind, correct)?.collect()))
}

/// `InD` rows with whether accepting them is a failure.
fn failures<'a>(
    ind: &'a [f64],
    correct: &'a [bool],
) -> Result<impl Iterator<Item = (f64, bool)> + 'a, MetricError> {
    check_scores(IND, ind)?;
    if ind.len() != correct.len() {
        return Err(MetricError::AnswersMismatch { rows: ind.len(), answers: correct.len() });
    }
    Ok(ind.iter().zip(correct).map(|(&score, &right)| (score, !right)))
}

fn areas(mut rows: Vec<(f64, bool)>) -> RiskAreas {
    rows.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let all = count(rows.len());
    let (mut accepted, mut failed) = (0.0, 0.0);
    let (mut aurc, mut augrc) = (0.0, 0.0);
    #[allow(clippy::float_cmp, reason = "a tie is exact equality, nothing less")]
    for tied in rows.chunk_by(|a, b| a.0 == b.0) {
        let more = count(tied.len());
        let share = count(tied.iter().filter(|row| row.1).count()) / more;
        for within in 1..=tied.len() {
            let within = count(within);
            aurc += (failed + share * within) / (accepted + within);
        }
        augrc += more * (failed + share * more / 2.0);
        accepted += more;
        failed += share * more;
    }
    RiskAreas { aurc: aurc / all, augrc: augrc / (all * all) }
}

/// The mean over all `InD` rows of the share of `OoD` rows that a row stands above, if its class is
/// right: the area under the curve.
fn oscr(ind: &[f64], correct: &[bool], ood: &[f64]) -> f64 {
    let mut sorted = ood.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let beaten = |score: f64| {
        let below = sorted.partition_point(|&y| y < score);
        let through = sorted.partition_point(|&y| y <= score);
        f64::midpoint(count(below), count(through))
    };
    let right = ind.iter().zip(correct).filter(|(_, right)| **right);
    right.map(|(&score, _)| beaten(score)).sum::<f64>() / count(ood.len()) / count(ind.len())
}

#[cfg(test)]
mod tests {
    use super::super::auroc;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hand_case() {
        // From the top: right, OoD, wrong, right. F = 0, 1, 2, 2.
        let got = selective(&[4.0, 2.0, 1.0], &[true, false, true], &[3.0]).unwrap();
        assert!((got.aurc - (0.0 + 1.0 / 2.0 + 2.0 / 3.0 + 2.0 / 4.0) / 4.0).abs() < 1e-15);
        // Trapezia under F / 4 at coverages 0, 1/4, …: (0 + 1/2 + 3/2 + 2) / 16.
        assert!((got.augrc - 4.0 / 16.0).abs() < 1e-15);
        // Of three InD rows one is right and above the OoD row.
        assert!((got.oscr - 1.0 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn bad_input_is_an_error() {
        let error = selective(&[1.0, 2.0], &[true], &[0.0]).unwrap_err();
        assert_eq!(error, MetricError::AnswersMismatch { rows: 2, answers: 1 });
        assert_eq!(selective(&[1.0], &[true], &[]).unwrap_err(), MetricError::Empty { which: OOD });
        assert_eq!(
            risk_areas(&[f64::NAN], &[true]).unwrap_err(),
            MetricError::NotANumber { which: IND, row: 0 }
        );
    }

    fn rows() -> impl Strategy<Value = Vec<(f64, bool)>> {
        prop::collection::vec(((-5i8..5).prop_map(f64::from), any::<bool>()), 1..25)
    }

    /// The mean over every order of tied rows, by trying many: rows shuffled by small amounts.
    fn over_orders(rows: &[(f64, bool)]) -> f64 {
        let orders = 4000;
        let mut sum = 0.0;
        for order in 0..orders {
            let mut random = crate::numeric::random::Random::numbered(
                9,
                crate::numeric::random::Stream::Trials,
                order,
            );
            let mut rows: Vec<(f64, bool)> =
                rows.iter().map(|&(s, f)| (s + 0.5 * random.uniform(), f)).collect();
            rows.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut failed = 0.0;
            for (i, row) in rows.iter().enumerate() {
                failed += f64::from(u8::from(row.1));
                sum += failed / count(i + 1) / count(rows.len());
            }
        }
        sum / f64::from(orders)
    }

    #[test]
    fn ties_are_the_mean_over_their_orders() {
        let rows = [(1.0, true), (1.0, false), (1.0, false), (0.0, true), (0.0, false)];
        let (scores, failed): (Vec<f64>, Vec<bool>) = rows.into_iter().unzip();
        let right: Vec<bool> = failed.iter().map(|f| !f).collect();
        let got = risk_areas(&scores, &right).unwrap().aurc;
        assert!((got - over_orders(&rows)).abs() < 0.01, "{got}");
    }

    proptest! {
        #[test]
        fn augrc_follows_from_the_auroc_of_failures(ind in rows(), ood in rows()) {
            // Traub and others: AUGRC = (1 − AUROC) a (1 − a) + (1 − a)² / 2 with accuracy a.
            let (scores, right): (Vec<f64>, Vec<bool>) = ind.iter().copied().unzip();
            let ood: Vec<f64> = ood.iter().map(|row| row.0).collect();
            let of = |wanted: bool| ind.iter().filter(move |r| r.1 == wanted).map(|r| r.0);
            let successes: Vec<f64> = of(true).collect();
            let failures: Vec<f64> = of(false).chain(ood.iter().copied()).collect();
            let got = selective(&scores, &right, &ood).unwrap();
            let rate = count(successes.len()) / count(successes.len() + failures.len());
            let order = auroc(&successes, &failures).unwrap_or(1.0);
            let expected = (1.0 - order) * rate * (1.0 - rate) + (1.0 - rate).powi(2) / 2.0;
            prop_assert!((got.augrc - expected).abs() < 1e-12);
        }

        #[test]
        fn with_no_mistakes_oscr_is_the_auroc(ind in rows(), ood in rows()) {
            let ind: Vec<f64> = ind.iter().map(|row| row.0).collect();
            let ood: Vec<f64> = ood.iter().map(|row| row.0).collect();
            let got = selective(&ind, &vec![true; ind.len()], &ood).unwrap();
            prop_assert!((got.oscr - auroc(&ind, &ood).unwrap()).abs() < 1e-12);
        }
    }
}
