//! Why rows have the scores they have: the parts of a joint score, and what each says of a row.

use rayon::prelude::*;

use super::{BLOCK, BLOCKS_PER_ROUND, Detector, check_width};
use crate::Result;
use crate::error::in_order;
use crate::io::Dataset;
use crate::io::observer::{Observer, check_interrupt};
use crate::methods::{Explained, Found, ScoreTerm};

impl Detector {
    /// The parts of a joint score with their weights, the heaviest first; none for methods whose score has
    /// no parts.
    #[must_use]
    pub fn terms(&self) -> Vec<ScoreTerm> {
        let mut terms = self.model.terms();
        terms.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        terms
    }

    /// Numbers that the fit found, as [`Detector::found`], without those of the single terms.
    #[must_use]
    pub fn found_besides_terms(&self) -> Found {
        self.model.found_besides_terms()
    }

    /// What each part of a joint score says of every row of a dataset, with its weight; none for methods
    /// whose score has no parts. The score is the sum of weight · ln p over the terms; that of one term
    /// alone is the term's value, which puts rows in the same order.
    ///
    /// # Errors
    /// As [`Detector::score_dataset`].
    pub fn explain(
        &self,
        data: &Dataset<'_>,
        observer: &dyn Observer,
    ) -> Result<Option<Explained>> {
        check_width(data, self.info.training.width)?;
        self.model.check_inputs(data)?;
        // Without rows there still are terms.
        let Some(mut all) = self.model.explain(data, 0, 0)? else { return Ok(None) };
        observer.begin(&format!("terms of {}", data.name), data.rows() as u64);
        let starts: Vec<usize> = (0..data.rows()).step_by(BLOCK).collect();
        for round in starts.chunks(BLOCKS_PER_ROUND) {
            check_interrupt(observer)?;
            let rows = |start: usize| BLOCK.min(data.rows() - start);
            let parts = round
                .par_iter()
                .map(|&start| self.model.explain(data, start, rows(start)))
                .collect();
            in_order(parts)?.into_iter().flatten().for_each(|part| all.append(part));
            observer.advance(round.iter().map(|&start| rows(start) as u64).sum());
        }
        Ok(Some(all))
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;
    use crate::{AutoParams, FitOptions, KnnParams, MethodSpec, Silent};

    /// Rows in four directions, with noise that no two rows share.
    fn rows(count: usize, off: f32) -> Array2<f32> {
        Array2::from_shape_fn((count, 6), |(i, j)| {
            let noise = ((i * 7919 + j * 104_729) % 1009) as f32 / 1009.0;
            let class = if j == i % 4 { 2.0 } else { 0.0 };
            class + noise + if j == 5 { off } else { 0.0 }
        })
    }

    fn fit(spec: impl Into<MethodSpec>) -> Detector {
        let train = rows(600, 0.0);
        let logits = train.slice(s![.., ..4]).to_owned();
        let data = Dataset::new("train", train.view()).with_logits(logits.view()).unwrap();
        Detector::fit(&spec.into(), &data, None, &FitOptions::default()).unwrap()
    }

    #[test]
    fn the_terms_add_up_to_the_score_row_by_row_over_many_blocks() {
        let detector = fit(AutoParams::default());
        // More than one round of blocks, and a block that is not full.
        let count = BLOCK * BLOCKS_PER_ROUND + BLOCK + 3;
        let mut new = rows(count, 0.0);
        for (i, mut row) in new.rows_mut().into_iter().enumerate() {
            row[5] += (i % 50) as f32 / 10.0;
        }
        let logits = new.slice(s![.., ..4]).to_owned();
        let data = Dataset::new("new", new.view()).with_logits(logits.view()).unwrap();
        let explained = detector.explain(&data, &Silent).unwrap().unwrap();
        assert!(explained.terms.len() > 1, "{:?}", detector.terms());
        let weights: f64 = explained.terms.iter().map(|term| term.weight).sum();
        assert!((weights - 1.0).abs() < 1e-12);
        assert!(explained.terms.iter().all(|term| term.log_p_values.len() == count));
        let scores = detector.score_dataset(&data, &Silent).unwrap();
        for (row, score) in scores.iter().enumerate() {
            let parts = explained.terms.iter().map(|term| term.weight * term.log_p_values[row]);
            let sum: f64 = parts.sum();
            assert!((sum - score).abs() <= 1e-12 * score.abs(), "row {row}: {sum} and {score}");
        }
        let none = new.slice(s![..0, ..]);
        let none = Dataset::new("none", none).with_logits(logits.slice(s![..0, ..])).unwrap();
        let nothing = detector.explain(&none, &Silent).unwrap().unwrap();
        assert_eq!(nothing.terms.len(), explained.terms.len());
        assert!(nothing.terms.iter().all(|term| term.log_p_values.is_empty()));
    }

    #[test]
    fn the_terms_of_a_detector_are_those_of_its_explanations_and_their_numbers_are_theirs_alone() {
        let detector = fit(AutoParams::default());
        let terms = detector.terms();
        assert!(terms.is_sorted_by(|a, b| a.weight >= b.weight), "{terms:?}");
        let (all, others) = (detector.found(), detector.found_besides_terms());
        for term in &terms {
            if term.weight > 0.0 {
                let name = format!("weight of {}", term.name);
                assert_eq!(all[&name], term.weight);
                assert!(!others.contains_key(&name));
            }
            let name = format!("AUROC of {} for left-out classes", term.name);
            assert_eq!(all.get(&name).copied(), term.auroc);
        }
        assert!(others.contains_key("gamma"));
        let rows = rows(3, 0.0);
        let logits = rows.slice(s![.., ..4]).to_owned();
        let data = Dataset::new("new", rows.view()).with_logits(logits.view()).unwrap();
        let explained = detector.explain(&data, &Silent).unwrap().unwrap();
        for term in &explained.terms {
            let known = terms.iter().find(|known| known.name == term.name).unwrap();
            assert_eq!(known.weight, term.weight);
        }
        let counting = terms.iter().filter(|term| term.weight > 0.0).count();
        assert_eq!(counting, explained.terms.len());
    }

    #[test]
    fn a_score_without_parts_has_no_terms() {
        let detector = fit(KnnParams { neighbours: 3, ..KnnParams::default() });
        let rows = rows(3, 0.0);
        let data = Dataset::new("new", rows.view());
        assert_eq!(detector.explain(&data, &Silent).unwrap(), None);
        assert_eq!(detector.terms(), []);
        assert_eq!(detector.found(), detector.found_besides_terms());
    }
}
