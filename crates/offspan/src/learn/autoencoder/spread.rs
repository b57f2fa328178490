//! Mean of the training rows and one number for their size.

use ndarray::{Array1, Array2};
use rayon::prelude::*;

use crate::error::in_order;
use crate::kpca::read_block;
use crate::observer::check_interrupt;
use crate::training::{Training, chunk_rows};
use crate::{Error, Precision, Preprocess, Result};

/// Rows that one task reads.
const BLOCK: usize = 256;

/// What brings the training rows to mean 0 and size 1.
pub(super) struct Spread {
    pub(super) mean: Array1<f64>,
    /// Root of the mean of (z − mean)² over all rows and columns: one number, so that columns keep
    /// their proportions, and with them the meaning of the reconstruction error.
    pub(super) rms: f64,
}

impl Spread {
    /// One pass over the kept rows. Sums are taken relative to the first of them, so that a large
    /// common mean does not swallow the differences.
    pub(super) fn of(training: &Training<'_>) -> Result<Self> {
        let data = training.data;
        let (rows, width) = (data.rows(), data.width());
        let kept = |start: usize, end: usize| -> Vec<usize> {
            (start..end).filter(|&row| training.hold_out.keeps(row)).collect()
        };
        let read = |rows: &[usize]| -> Result<Array2<f32>> {
            let mut x = Array2::zeros((rows.len(), width));
            read_block(data, rows, Preprocess::default(), x.view_mut())?;
            Ok(x)
        };
        let mut origin: Option<Array1<f64>> = None;
        let (mut count, mut sums, mut squares) = (0usize, Array1::<f64>::zeros(width), 0.0);
        let chunk = chunk_rows(width);
        training.observer.begin("mean and size of the training rows", rows as u64);
        for start in (0..rows).step_by(chunk) {
            check_interrupt(training.observer)?;
            let end = (start + chunk).min(rows);
            let kept = kept(start, end);
            if let (None, Some(&first)) = (&origin, kept.first()) {
                origin = Some(read(&[first])?.row(0).mapv(f64::from));
            }
            if let Some(origin) = &origin {
                let parts = kept
                    .par_chunks(BLOCK)
                    .map(|rows| {
                        let (mut sums, mut squares) = (Array1::<f64>::zeros(width), 0.0);
                        for row in read(rows)?.rows() {
                            let difference = row.mapv(f64::from) - origin;
                            squares += difference.dot(&difference);
                            sums += &difference;
                        }
                        Ok((sums, squares))
                    })
                    .collect();
                for (part, square) in in_order(parts)? {
                    sums += &part;
                    squares += square;
                }
            }
            count += kept.len();
            data.features.release(start..end);
            training.observer.advance((end - start) as u64);
        }
        let what = || data.name.clone();
        let Some(origin) = origin.filter(|_| count >= 2) else {
            return Err(Error::TooFewRows { what: what(), expected: 2, got: count });
        };
        let shift = sums / count as f64;
        let variance = (squares / count as f64 - shift.dot(&shift)) / width as f64;
        if !variance.is_finite() {
            return Err(Error::TooLarge { what: what(), precision: Precision::F32 });
        }
        // Relative to what rounding leaves of equal rows.
        if variance <= f64::EPSILON * shift.dot(&shift) {
            return Err(Error::NoVariance { what: what() });
        }
        Ok(Spread { mean: origin + shift, rms: variance.sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HoldOut;
    use crate::io::Dataset;
    use crate::learn::rows::testing::{training, with_threads};

    #[test]
    fn mean_and_size_equal_the_definition_on_kept_rows() {
        let rows = Array2::from_shape_fn((777, 3), |(i, j)| 1000.0 + ((i * 7 + j) % 11) as f64);
        let data = Dataset::new("train", rows.view());
        let hold_out = HoldOut::new(0.25, 1);
        let training = Training { hold_out, ..training(&data) };
        let spread = with_threads(2, || Spread::of(&training).unwrap());
        let kept: Vec<usize> = (0..777).filter(|&row| hold_out.keeps(row)).collect();
        let kept = rows.select(ndarray::Axis(0), &kept);
        let mean = kept.mean_axis(ndarray::Axis(0)).unwrap();
        let centred = &kept - &mean;
        let rms = (centred.mapv(|x| x * x).mean().unwrap()).sqrt();
        assert!((&spread.mean - &mean).iter().all(|x| x.abs() < 1e-10));
        assert!((spread.rms - rms).abs() < 1e-10);
        let one = with_threads(1, || Spread::of(&training).unwrap());
        assert_eq!((one.mean, one.rms), (spread.mean, spread.rms));
    }

    #[test]
    fn equal_rows_and_single_rows_are_errors() {
        let rows = Array2::<f32>::from_elem((5, 2), 0.3);
        let data = Dataset::new("train", rows.view());
        assert!(matches!(Spread::of(&training(&data)), Err(Error::NoVariance { .. })));
        let one = rows.slice(ndarray::s![..1, ..]);
        let data = Dataset::new("train", one);
        assert!(matches!(Spread::of(&training(&data)), Err(Error::TooFewRows { got: 1, .. })));
    }
}
