//! What a joint score is made of, and what its parts say of rows.

use serde::Serialize;

/// One part of a joint score, as the fit left it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScoreTerm {
    /// What it is called.
    pub name: String,
    /// Its share in the sum of log p-values; 0 for one that the fit left out.
    pub weight: f64,
    /// How well it told left-out classes from the others, where the fit could try.
    pub auroc: Option<f64>,
}

/// What the parts of a joint score say of rows.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// The parts that count.
    pub terms: Vec<ExplainedTerm>,
}

/// One part of a joint score.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ExplainedTerm {
    /// What it is called.
    pub name: String,
    /// Its share in the sum of log p-values; those of all terms add up to 1, except in files from before
    /// `auto` had more than two.
    pub weight: f64,
    /// One for each row: the logarithm of how often an in-distribution row is as unusual by this term, by
    /// a normal distribution that was fitted to rows set aside. Far rows have p-values that only their
    /// logarithms can tell from 0.
    pub log_p_values: Vec<f64>,
}

impl Explained {
    /// Puts what was said of other rows behind these.
    pub fn append(&mut self, more: Explained) {
        for (term, more) in self.terms.iter_mut().zip(more.terms) {
            term.log_p_values.extend(more.log_p_values);
        }
    }

    /// The term that speaks loudest against a row, with the largest weight times −ln p; the first of
    /// equals.
    #[must_use]
    pub fn loudest(&self, row: usize) -> Option<&ExplainedTerm> {
        let says = |term: &ExplainedTerm| term.weight * term.log_p_values[row];
        self.terms.iter().min_by(|a, b| says(a).total_cmp(&says(b)))
    }
}

impl ExplainedTerm {
    /// One for each row.
    pub fn p_values(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.log_p_values.iter().map(|log_p| log_p.exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loudest_term_has_the_largest_weight_times_log_p_however_small_p_is() {
        let term = |name: &str, weight: f64, log_p_values: [f64; 3]| ExplainedTerm {
            name: name.to_owned(),
            weight,
            log_p_values: log_p_values.to_vec(),
        };
        // The p-values of the last row are all 0 in double precision.
        let terms = vec![
            term("light", 0.2, [-5.0, -1.0, -5000.0]),
            term("heavy", 0.8, [-1.0, -1.0, -1000.0]),
        ];
        let explained = Explained { terms };
        let loudest: Vec<&str> =
            (0..3).map(|row| explained.loudest(row).unwrap().name.as_str()).collect();
        assert_eq!(loudest, ["light", "heavy", "light"]);
        assert_eq!(explained.terms[0].p_values().last(), Some(0.0));
        assert_eq!(Explained { terms: Vec::new() }.loudest(0), None);
    }
}
