//! The training rows that are looked at one by one, and the class of each.

use std::collections::BTreeMap;

use ndarray::{Array2, Axis};

use super::basis::Basis;
use crate::Result;
use crate::io::gather;
use crate::numeric::clusters::clusters;
use crate::training::Training;
use crate::training::logits::{LogitSource, Need, predicted};
use crate::training::statistics::labels_of;

/// Rows of a sample at most: enough for covariances of 256 coordinates and for planes.
pub(super) const MOST_ROWS: usize = 16_384;
/// Rows read together.
const ROWS_AT_ONCE: usize = 1024;
/// Clusters that stand for classes where there are none.
const CLUSTERS: usize = 20;

/// Training rows and what is known of them.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Their numbers, ascending.
    pub(super) numbers: Vec<usize>,
    /// The class of each, from 0 on without gaps.
    pub(super) classes: Vec<usize>,
    /// For each of these classes its number in the last layer, if that is what they are.
    pub(super) outputs: Option<Vec<usize>>,
}

impl Sample {
    /// Rows of a fit, by their ascending numbers. Classes are what the network predicts; without logits, the labels;
    /// without those, clusters of directions.
    pub(super) fn of(training: &Training<'_>, numbers: Vec<usize>, seed: u64) -> Result<Self> {
        let data = training.data;
        if training.head.is_some() || data.logits.is_some() {
            let source = LogitSource::of(data, training.head, None, Need::Method("auto"))?;
            let mut outputs = Vec::with_capacity(numbers.len());
            for numbers in numbers.chunks(ROWS_AT_ONCE) {
                let logits = source.gather(numbers)?;
                outputs.extend(logits.rows().into_iter().map(|row| predicted(&row.to_vec())));
            }
            let (classes, names) = without_gaps(&outputs);
            return Ok(Sample { numbers, classes, outputs: Some(names) });
        }
        let classes = match &data.labels {
            Some(labels) => without_gaps(&labels_of(labels, &numbers)?).0,
            None => clusters(unit_rows(training, &numbers)?.view(), CLUSTERS, seed).1,
        };
        let (classes, _) = without_gaps(&classes);
        Ok(Sample { numbers, classes, outputs: None })
    }

    /// Number of classes.
    pub(super) fn count(&self) -> usize {
        self.classes.iter().max().map_or(0, |largest| largest + 1)
    }
}

/// Each value's place among the different ones, which follow in order.
pub(super) fn without_gaps<V: Ord + Copy>(values: &[V]) -> (Vec<usize>, Vec<V>) {
    let mut places: BTreeMap<V, usize> = values.iter().map(|&value| (value, 0)).collect();
    places.values_mut().enumerate().for_each(|(place, slot)| *slot = place);
    (values.iter().map(|value| places[value]).collect(), places.into_keys().collect())
}

fn unit_rows(training: &Training<'_>, numbers: &[usize]) -> Result<Array2<f64>> {
    let basis = Basis::<f64>::fit(training.data, numbers)?;
    let mut rows = Array2::zeros((0, basis.coordinates()));
    for numbers in numbers.chunks(ROWS_AT_ONCE) {
        let part = gather(&*training.data.features, numbers)?;
        let part = basis.of(part.view()).unit();
        rows.append(Axis(0), part.rows.view()).expect("as many columns");
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_numbered_without_gaps() {
        assert_eq!(without_gaps(&[7, 3, 7, -1]), (vec![2, 1, 2, 0], vec![-1, 3, 7]));
    }
}
