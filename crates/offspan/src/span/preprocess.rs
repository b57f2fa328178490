//! What happens to a row before the feature map: rectification, then the cosine map.

use ndarray::ArrayViewMut2;
use serde::{Deserialize, Serialize};

use crate::Real;
use crate::graph::{Builder, Value};
use crate::numeric::vector::{self, contiguous_mut};

/// min(z, c), then z/‖z‖; each optional.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Preprocess {
    /// ReAct's c: activations above it are cut to it.
    pub clip: Option<f64>,
    /// Whether rows are scaled to unit length.
    pub cosine: bool,
}

impl Preprocess {
    /// Works in place and returns the rows that have no direction. With the cosine map those stay
    /// zero; the caller decides what a row without direction means.
    pub(crate) fn apply<T: Real>(&self, mut rows: ArrayViewMut2<'_, T>) -> Vec<usize> {
        let mut zero_rows = Vec::new();
        for (i, mut row) in rows.rows_mut().into_iter().enumerate() {
            let row = contiguous_mut(&mut row);
            if let Some(clip) = self.clip {
                clip_row(row, clip);
            }
            if self.cosine && !normalise(row) {
                zero_rows.push(i);
            }
        }
        zero_rows
    }
}

impl Preprocess {
    /// The same within a graph; also gives which rows, [N, 1], have no direction.
    pub(crate) fn graph(&self, mut x: Value, builder: &mut Builder<'_>) -> (Value, Option<Value>) {
        if let Some(clip) = self.clip {
            x = builder.at_most(x, clip);
        }
        if !self.cosine {
            return (x, None);
        }
        let (unit, _, is_zero) = builder.unit_rows(x);
        (unit, Some(is_zero))
    }
}

pub(crate) fn clip_row<T: Real>(row: &mut [T], clip: f64) {
    let clip = T::from_double(clip);
    for x in row {
        if *x > clip {
            *x = clip;
        }
    }
}

/// Scales to unit length; `false` for a zero row, which stays as it is.
pub(crate) fn normalise<T: Real>(row: &mut [T]) -> bool {
    let mut squared = vector::sum_of_squares(row);
    if !(f64::MIN_POSITIVE..f64::INFINITY).contains(&squared) {
        // Squares left the range of f64: bring the row to a middle size first.
        let largest = row.iter().fold(0.0f64, |m, x| m.max(x.to_double().abs()));
        if largest == 0.0 {
            return false;
        }
        // Division, because the inverse of the smallest numbers is infinite.
        row.iter_mut().for_each(|x| *x = T::from_double(x.to_double() / largest));
        squared = vector::sum_of_squares(row);
    }
    vector::scale(row, 1.0 / squared.sqrt());
    true
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn clips_before_it_normalises() {
        let mut rows = array![[3.0f64, 8.0], [0.0, 0.0], [0.0, 9.0]];
        let zero = Preprocess { clip: Some(4.0), cosine: true }.apply(rows.view_mut());
        assert_eq!(zero, [1]);
        let expected = array![[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]];
        assert!((rows - expected).iter().all(|difference| difference.abs() < 1e-15));
    }

    #[test]
    fn direction_survives_sizes_whose_squares_do_not() {
        for size in [1e-310f64, 1e-160, 1.0, 1e200] {
            let mut row = [3.0 * size, -4.0 * size];
            assert!(normalise(&mut row));
            assert!((row[0] - 0.6).abs() < 1e-13 && (row[1] + 0.8).abs() < 1e-13, "{row:?}");
        }
    }
}
