//! The terms of a row joined to one score.

use ndarray::{Array1, ArrayView2};

use super::scale::Scale;
use super::term::Term;
use crate::Result;
use crate::graph::{Builder, Value};
use crate::methods::model::{Found, Stored};
use crate::numeric::normal::log_cdf;
use crate::numeric::ranks::share_of_larger;

/// How much less AUROC for left-out classes makes a weight e times smaller.
const TEMPERATURE: f64 = 0.06;
/// A term that tells fitted rows from others keeps at least the root of this share of its weight.
const SMALLEST_FADE: f64 = 0.02;
/// Terms with less than this share of the largest weight are left out: they cost time and say nothing.
const NEGLIGIBLE: f64 = 0.03;

/// The terms that count, how each spreads on in-distribution rows, and its weight. Weights add up to 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Joint {
    parts: Vec<Part>,
}

/// One term of the sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    pub(super) term: Term,
    scale: Scale,
    pub(super) weight: f64,
}

impl Part {
    /// ln Φ of the standardised value: the logarithm of a one-sided p-value.
    pub(super) fn log_p(&self, value: f64) -> f64 {
        log_cdf(self.scale.standard(value))
    }
}

impl Joint {
    /// From the terms of rows that the fit has not seen, of rows that it has seen, and how well each term
    /// told left-out classes from others (if that is known).
    pub(super) fn of(
        terms: &[Term],
        unseen: ArrayView2<'_, f64>,
        seen: ArrayView2<'_, f64>,
        trials: Option<&[f64]>,
    ) -> Self {
        let worth = trials.map_or_else(|| vec![0.5; terms.len()], <[f64]>::to_vec);
        let best = worth.iter().fold(f64::NEG_INFINITY, |most, &worth| most.max(worth));
        let parts = terms.iter().enumerate().map(|(column, &term)| {
            let (unseen, seen) = (unseen.column(column).to_vec(), seen.column(column).to_vec());
            // A term that knows the rows of its fit has learnt them by heart.
            let known = share_of_larger(&seen, &unseen).unwrap_or(0.5);
            let fade = (1.0 - 2.0 * (known - 0.5).max(0.0)).max(SMALLEST_FADE).sqrt();
            let weight = ((worth[column] - best) / TEMPERATURE).exp() * fade;
            Part { term, scale: Scale::of(&unseen), weight }
        });
        let mut parts: Vec<Part> = parts.collect();
        let largest = parts.iter().fold(0.0, |most: f64, part| most.max(part.weight));
        parts.retain(|part| part.weight >= NEGLIGIBLE * largest);
        let sum: f64 = parts.iter().map(|part| part.weight).sum();
        parts.iter_mut().for_each(|part| part.weight /= sum);
        Joint { parts }
    }

    /// The terms that count.
    pub(super) fn terms(&self) -> Vec<Term> {
        self.parts.iter().map(|part| part.term).collect()
    }

    /// The weight of a term, if it counts.
    pub(super) fn weight(&self, term: Term) -> Option<f64> {
        self.parts.iter().find(|part| part.term == term).map(|part| part.weight)
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The score of a row from the values of its terms, which `of` gives by their place among
    /// [`Joint::terms`]; one term alone is the score itself.
    pub(super) fn score(&self, of: impl Fn(usize) -> f64) -> f64 {
        if self.parts.len() == 1 {
            return of(0);
        }
        let each = self.parts.iter().enumerate();
        each.map(|(place, part)| part.weight * part.log_p(of(place))).sum()
    }

    /// The same within a graph, [N].
    pub(super) fn graph(&self, terms: &[(Term, Value)], builder: &mut Builder<'_>) -> Value {
        let value = |part: &Part| {
            let found = terms.iter().find(|(term, _)| *term == part.term);
            found.map(|found| found.1).expect("the terms of a detector were checked")
        };
        if let [alone] = &self.parts[..] {
            return value(alone);
        }
        // All terms side by side: the distribution is worked out once.
        let columns: Vec<Value> =
            self.parts.iter().map(|part| builder.as_column(value(part))).collect();
        let columns = builder.joined(&columns);
        let of_parts = |of: fn(&Part) -> f64| self.parts.iter().map(of).collect::<Array1<f64>>();
        let centres = builder.vector("term_centres", &of_parts(|part| part.scale.centre));
        let spreads = builder.vector("term_spreads", &of_parts(|part| part.scale.spread));
        let weights = builder.vector("term_weights", &of_parts(|part| part.weight));
        let above = builder.sub(columns, centres);
        let standard = builder.div(above, spreads);
        let log_p = builder.log_normal(standard);
        let weighted = builder.mul(log_p, weights);
        builder.sum(weighted)
    }

    pub(super) fn tell(&self, found: &mut Found) {
        for Part { term, scale, weight } in &self.parts {
            scale.tell(&term.to_string(), found);
            found.insert(weight_name(*term), *weight);
        }
    }

    pub(super) fn read(stored: Stored<'_>) -> Result<Self> {
        if stored.found.contains_key(OLD_MARK) {
            return Self::read_old(stored);
        }
        let there =
            Term::ALL.into_iter().filter(|&term| stored.found.contains_key(&weight_name(term)));
        let part = |term: Term| -> Result<Part> {
            let scale = Scale::read(&term.to_string(), stored)?;
            Ok(Part { term, scale, weight: stored.number(&weight_name(term))? })
        };
        let parts = there.map(part).collect::<Result<Vec<_>>>()?;
        if parts.is_empty() {
            stored.number(&weight_name(Term::Span))?;
        }
        Ok(Joint { parts })
    }

    /// Files from before there were more than two terms: ln Φ of the energy, and w times that of the
    /// residual; without an energy, the residual alone.
    fn read_old(stored: Stored<'_>) -> Result<Self> {
        let Scale { centre, spread } = Scale::read("residual", stored)?;
        let residual = Scale { centre: -centre, spread };
        if !stored.found.contains_key("energy median") {
            return Ok(Joint {
                parts: vec![Part { term: Term::Span, scale: residual, weight: 1.0 }],
            });
        }
        let weight = stored.number("weight of the residual")?;
        let energy = Scale::read("energy", stored)?;
        Ok(Joint {
            parts: vec![
                Part { term: Term::Energy, scale: energy, weight: 1.0 },
                Part { term: Term::Span, scale: residual, weight },
            ],
        })
    }
}

/// A number that only files of the two-term score have.
const OLD_MARK: &str = "residual median";

fn weight_name(term: Term) -> String {
    format!("weight of {term}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;

    const TERMS: [Term; 2] = [Term::Span, Term::Energy];

    /// Both terms spread evenly around 0 on rows that the fit has not seen.
    fn spread() -> Array2<f64> {
        Array2::from_shape_fn((101, 2), |(row, _)| (row as f64 - 50.0) / 50.0)
    }

    fn joint(trials: Option<&[f64]>) -> Joint {
        Joint::of(&TERMS, spread().view(), spread().view(), trials)
    }

    fn weights(joint: &Joint) -> Vec<f64> {
        joint.parts.iter().map(|part| part.weight).collect()
    }

    #[test]
    fn one_very_good_term_cannot_buy_off_a_bad_one() {
        let joint = joint(None);
        let score = |span: f64, energy: f64| joint.score(|place| [span, energy][place]);
        let ordinary = score(0.0, 0.0);
        assert!(score(-5.0, 1e6) < ordinary && score(1e6, -5.0) < ordinary);
        assert!(score(0.5, 0.5) > ordinary);
        assert_eq!(score(f64::NEG_INFINITY, 0.0), f64::NEG_INFINITY);
    }

    #[test]
    fn without_trials_all_weights_are_equal() {
        assert_eq!(weights(&joint(None)), [0.5, 0.5]);
    }

    #[test]
    fn what_tells_left_out_classes_apart_weighs_more() {
        let weights = weights(&joint(Some(&[0.9, 0.85])));
        let expected = ((0.9 - 0.85) / TEMPERATURE).exp();
        assert!((weights[0] / weights[1] - expected).abs() < 1e-12);
    }

    #[test]
    fn a_term_that_knows_the_rows_of_its_fit_fades() {
        let mut seen = spread();
        seen.column_mut(0).mapv_inplace(|value| value + 1.5);
        let faded = Joint::of(&TERMS, spread().view(), seen.view(), None);
        let weights = weights(&faded);
        assert!(weights[0] < 0.4 * weights[1], "{weights:?}");
    }

    #[test]
    fn a_term_of_no_worth_is_left_out_and_the_last_one_is_the_score() {
        let alone = joint(Some(&[0.95, 0.5]));
        assert_eq!(alone.terms(), [Term::Span]);
        assert_eq!(alone.score(|_| -0.25), -0.25);
    }
}
