//! Distances between the weights of two classes, which turn differences of logits into distances to the
//! boundary between the classes.

use ndarray::{Array1, Array2, Axis};
use rayon::prelude::*;

use super::model::Stored;
use crate::graph::{Builder, Op, Value};
use crate::io::{Head, TensorWriter};
use crate::numeric::vector::{self, contiguous};
use crate::training::logits::predicted;
use crate::{Error, Result};

/// Pairs of classes, at most (1 GiB).
const MOST_PAIRS: usize = 1 << 27;

/// ‖w_i − w_c‖ of every two classes.
#[derive(Debug, Clone)]
pub(super) struct ClassPairs(Array2<f64>);

impl ClassPairs {
    /// Fails with fewer than two classes, which have no boundary, and with too many.
    pub(super) fn of(head: &Head, who: &str) -> Result<Self> {
        let classes = head.classes();
        let refuse = |expected: String| {
            let got = format!("{classes}");
            Err(Error::shape(format!("classes of the last layer for {who}"), expected, got))
        };
        if classes < 2 {
            return refuse("at least 2, between which there is a boundary".to_owned());
        }
        if classes.saturating_mul(classes) > MOST_PAIRS {
            return refuse(format!("at most {}", MOST_PAIRS.isqrt()));
        }
        let rows: Vec<Array1<f64>> = (0..classes)
            .into_par_iter()
            .map(|i| {
                let own = head.weight.row(i);
                let apart = |other: ndarray::ArrayView1<'_, f64>| {
                    vector::squared_distance(contiguous(&own), contiguous(&other)).sqrt()
                };
                head.weight.rows().into_iter().map(apart).collect()
            })
            .collect();
        let mut pairs = Array2::zeros((classes, classes));
        for (mut pair, row) in pairs.axis_iter_mut(Axis(0)).zip(rows) {
            pair.assign(&row);
        }
        Ok(ClassPairs(pairs))
    }

    pub(super) fn classes(&self) -> usize {
        self.0.nrows()
    }

    /// Every other class with (l_ŷ − l_c) and ‖w_ŷ − w_c‖, for the predicted class ŷ. Classes of the same
    /// weights have no boundary and are left out.
    pub(super) fn rivals<'a>(
        &'a self,
        logits: &'a [f64],
    ) -> impl Iterator<Item = (usize, f64, f64)> + 'a {
        let own = predicted(logits);
        let gaps = logits.iter().zip(self.0.row(own)).enumerate();
        gaps.filter(move |(class, (_, norm))| *class != own && **norm > 0.0)
            .map(move |(class, (logit, norm))| (class, logits[own] - logit, *norm))
    }

    /// Mean distance to the boundaries with the other classes.
    pub(super) fn mean_margin(&self, logits: &[f64]) -> f64 {
        let (mut sum, mut count) = (0.0, 0u32);
        for (_, gap, norm) in self.rivals(logits) {
            sum += gap / norm;
            count += 1;
        }
        sum / f64::from(count.max(1))
    }

    /// The same within a graph.
    pub(super) fn margin_graph<'a>(&'a self, logits: Value, builder: &mut Builder<'a>) -> Value {
        let own = builder.place_of_largest(logits);
        let pairs = builder.matrix("pairs", self.0.view());
        let norms = builder.rows_at(pairs, own);
        let largest = builder.largest_kept(logits);
        let gaps = builder.sub(largest, logits);
        let (zero, one) = (builder.scalar(0.0), builder.scalar(1.0));
        // A class is no way from itself, so it is no rival of its own.
        let is_rival = builder.node(Op::Greater, &[norms, zero]);
        let norms = builder.choose(is_rival, norms, one);
        let margins = builder.div(gaps, norms);
        let margins = builder.choose(is_rival, margins, zero);
        let sum = builder.sum(margins);
        let count = builder.counted(is_rival);
        let count = builder.sum(count);
        let count = builder.at_least(count, 1.0);
        builder.div(sum, count)
    }

    pub(super) fn read(stored: Stored<'_>, classes: usize) -> Result<Self> {
        Ok(ClassPairs(stored.matrix("pairs", Some(classes), classes)?))
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}pairs"), &self.0);
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn margins_by_hand_without_classes_of_equal_weights() {
        let weight = array![[1.0, 0.0], [1.0, 0.0], [4.0, 4.0]];
        let head = Head::new(weight, array![0.0, 1.0, 0.0]).unwrap();
        let pairs = ClassPairs::of(&head, "a test").unwrap();
        // The second class is predicted; the first has its weights, the third is 5 away.
        assert_eq!(pairs.rivals(&[2.0, 3.0, 1.0]).collect::<Vec<_>>(), [(2, 2.0, 5.0)]);
        assert_eq!(pairs.mean_margin(&[2.0, 3.0, 1.0]), 0.4);
        let one = Head::new(array![[1.0]], array![0.0]).unwrap();
        assert!(ClassPairs::of(&one, "a test").unwrap_err().to_string().contains("at least 2"));
    }
}
