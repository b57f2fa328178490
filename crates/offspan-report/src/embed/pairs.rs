//! Distances of all pairs, checked once at the door.

use ndarray::ArrayView2;

use super::EmbedError;
use super::error::FEWEST;

/// Asymmetry, negative values and diagonals up to this share of the largest value count as
/// rounding, as kernels computed in single precision may have it.
const ROUNDING: f64 = 1e-6;

/// Squared distances of at least four points: finite, symmetric to the bit, not negative, zero on
/// the diagonal, and divided by the largest.
pub(super) struct Pairs {
    pub(super) points: usize,
    /// Row-major, from 0 to 1.
    pub(super) squared: Vec<f64>,
    /// The largest squared distance, by which all were divided; 1 if all are 0.
    pub(super) scale: f64,
}

impl Pairs {
    pub(super) fn check(squared: ArrayView2<'_, f64>) -> Result<Self, EmbedError> {
        let (points, columns) = squared.dim();
        if points != columns {
            return Err(EmbedError::NotSquare { rows: points, columns });
        }
        if points < FEWEST {
            return Err(EmbedError::TooFewPoints { got: points });
        }
        check_finite("squared distances", squared)?;

        let largest = squared.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let (slack, scale) = (ROUNDING * largest, if largest > 0.0 { largest } else { 1.0 });
        let mut out = vec![0.0; points * points];
        for row in 0..points {
            let value = squared[[row, row]];
            if value.abs() > slack {
                return Err(EmbedError::NotZeroOnDiagonal { row, value });
            }
            for column in row + 1..points {
                let (forth, back) = (squared[[row, column]], squared[[column, row]]);
                if (forth - back).abs() > slack {
                    return Err(EmbedError::NotSymmetric { row, column, forth, back });
                }
                let value = f64::midpoint(forth, back);
                if value < -slack {
                    return Err(EmbedError::Negative { row, column, value });
                }
                out[row * points + column] = value.max(0.0) / scale;
            }
        }
        mirror_upper(&mut out, points);
        Ok(Pairs { points, squared: out, scale })
    }

    /// The distances from one point to all.
    pub(super) fn row(&self, point: usize) -> &[f64] {
        &self.squared[point * self.points..(point + 1) * self.points]
    }
}

/// Names the first value that is no finite number.
pub(super) fn check_finite(
    what: &'static str,
    matrix: ArrayView2<'_, f64>,
) -> Result<(), EmbedError> {
    match matrix.indexed_iter().find(|(_, value)| !value.is_finite()) {
        Some(((row, column), &value)) => Err(EmbedError::NotFinite { what, row, column, value }),
        None => Ok(()),
    }
}

/// Copies what lies above the diagonal of an n × n matrix below it.
pub(super) fn mirror_upper(matrix: &mut [f64], n: usize) {
    for row in 1..n {
        for column in 0..row {
            matrix[row * n + column] = matrix[column * n + row];
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use super::*;

    /// Squared distances of 0, 1, 2, 3, 4 on a line.
    fn line() -> Array2<f64> {
        Array2::from_shape_fn((5, 5), |(i, j)| (i as f64 - j as f64).powi(2))
    }

    fn message(change: impl Fn(&mut Array2<f64>)) -> String {
        let mut squared = line();
        change(&mut squared);
        Pairs::check(squared.view()).err().unwrap().to_string()
    }

    #[test]
    fn good_distances_are_scaled_and_kept() {
        let pairs = Pairs::check(line().view()).unwrap();
        assert_eq!((pairs.points, pairs.scale), (5, 16.0));
        assert_eq!(pairs.row(1), [0.0625, 0.0, 0.0625, 0.25, 0.5625]);
    }

    #[test]
    fn every_fault_is_named() {
        let columns = Array2::zeros((5, 4));
        assert_eq!(
            Pairs::check(columns.view()).err().unwrap().to_string(),
            "the matrix of distances must be square, got 5 rows and 4 columns"
        );
        let three = array![[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]];
        assert_eq!(
            Pairs::check(three.view()).err().unwrap().to_string(),
            "a picture needs at least 4 points, got 3"
        );
        assert_eq!(
            message(|d| d[[2, 3]] = f64::NAN),
            "squared distances: row 2, column 3 is NaN; every value must be finite"
        );
        assert_eq!(
            message(|d| d[[4, 0]] = f64::INFINITY),
            "squared distances: row 4, column 0 is inf; every value must be finite"
        );
        assert_eq!(
            message(|d| d[[1, 3]] = 5.0),
            "the matrix of distances must be symmetric: rows 1 and 3 have 5 one way and 4 the other"
        );
        assert_eq!(
            message(|d| (d[[1, 3]], d[[3, 1]]) = (-4.0, -4.0)),
            "the squared distance of rows 1 and 3 is -4; squared distances cannot be negative"
        );
        assert_eq!(
            message(|d| d[[2, 2]] = 1.0),
            "the squared distance of row 2 to itself is 1; it must be 0"
        );
    }

    #[test]
    fn rounding_of_kernels_is_forgiven_and_removed() {
        let mut squared = line();
        squared[[0, 1]] += 1e-7;
        squared[[3, 3]] = -1e-8;
        (squared[[2, 4]], squared[[4, 2]]) = (-1e-9, -1e-8);
        let pairs = Pairs::check(squared.view()).unwrap();
        assert_eq!(pairs.row(0)[1].to_bits(), pairs.row(1)[0].to_bits());
        assert_eq!((pairs.row(3)[3], pairs.row(2)[4], pairs.row(4)[2]), (0.0, 0.0, 0.0));
    }

    #[test]
    fn sizes_at_the_ends_of_the_number_range_are_no_trouble() {
        for size in [f64::MIN_POSITIVE / 1e4, 1e307] {
            let pairs = Pairs::check((line() * size).view()).unwrap();
            assert!((pairs.row(0)[2] - 0.25).abs() < 1e-3, "{size}");
        }
        assert_eq!(Pairs::check(Array2::zeros((4, 4)).view()).unwrap().scale, 1.0);
    }
}
