//! How well each random feature agrees with the labels.

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use crate::error::in_order;
use crate::io::observer::check_interrupt;
use crate::methods::kpca::read_block;
use crate::span::map::Fourier;
use crate::training::{BLOCK, Training, chunk_rows};
use crate::{Preprocess, Real, Result};

use super::super::classes::Classes;

/// Features whose sums one task keeps.
const COLUMNS: usize = 256;

/// v_n = Σ_c (mean of φ_n over class c − mean of φ_n over the other rows)².
///
/// Sinha & Duchi maximise (Σ_i y_i φ_n(x_i))² with labels ±1. Here every one-vs-rest question of C
/// classes asks once, with labels scaled so that the class and the rest weigh the same; for two
/// equally frequent classes this is the paper's formula up to a constant. With plain ±1 labels and
/// many classes nearly every label would be −1, and v_n would only tell how large the overall mean
/// of φ_n is.
pub(super) fn alignment<T: Real>(
    map: &Fourier<T>,
    training: &Training<'_>,
    classes: &Classes,
    preprocess: Preprocess,
) -> Result<Vec<f64>> {
    let data = training.data;
    let (rows, features) = (data.rows(), map.output());
    let chunk = chunk_rows(data.width().max(features));
    let mut sums = Array2::<f64>::zeros((classes.count(), features));
    let mut counts = vec![0.0; classes.count()];
    let mut phi = Array2::from_elem((chunk, features), T::default());
    training.observer.begin("alignment of the random features", rows as u64);
    for start in (0..rows).step_by(chunk) {
        check_interrupt(training.observer)?;
        let range = start..(start + chunk).min(rows);
        let kept: Vec<usize> = range.clone().filter(|&row| training.hold_out.keeps(row)).collect();
        let parts = phi
            .slice_mut(s![..kept.len(), ..])
            .axis_chunks_iter_mut(Axis(0), BLOCK)
            .into_par_iter()
            .zip(kept.par_chunks(BLOCK))
            .map(|(phi, rows)| {
                let mut x = Array2::from_elem((rows.len(), data.width()), T::default());
                read_block(data, rows, preprocess, x.view_mut())?;
                map.apply(x.view(), phi);
                Ok(())
            })
            .collect();
        in_order(parts)?;
        let of_rows: Vec<usize> = kept.iter().map(|&row| classes.of(row)).collect();
        of_rows.iter().for_each(|&class| counts[class] += 1.0);
        add_by_class(phi.slice(s![..kept.len(), ..]), &of_rows, sums.view_mut());
        training.observer.advance(range.len() as u64);
    }
    Ok(from_sums(sums.view(), &counts))
}

/// Adds each row to the sums of its class. Tasks split the features, so that every sum is taken in
/// the order of the rows.
fn add_by_class<T: Real>(
    phi: ArrayView2<'_, T>,
    of_rows: &[usize],
    mut sums: ArrayViewMut2<'_, f64>,
) {
    sums.axis_chunks_iter_mut(Axis(1), COLUMNS)
        .into_par_iter()
        .zip(phi.axis_chunks_iter(Axis(1), COLUMNS))
        .for_each(|(mut sums, phi)| {
            for (phi, &class) in phi.rows().into_iter().zip(of_rows) {
                sums.row_mut(class).zip_mut_with(&phi, |sum, x| *sum += x.to_double());
            }
        });
}

/// v of class sums and counts.
fn from_sums(sums: ArrayView2<'_, f64>, counts: &[f64]) -> Vec<f64> {
    let rows: f64 = counts.iter().sum();
    let of_feature = |column: ndarray::ArrayView1<'_, f64>| {
        let total = column.sum();
        let gap = |(&sum, &count): (&f64, &f64)| sum / count - (total - sum) / (rows - count);
        column.iter().zip(counts).map(gap).map(|gap| gap * gap).sum()
    };
    sums.columns().into_iter().map(of_feature).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Dataset, Labels};
    use crate::methods::learn::rows::testing::training;
    use crate::span::map::Draw;
    use crate::{HoldOut, Kernel};

    fn dataset<'a>(rows: &'a Array2<f32>, labels: &[i64]) -> Dataset<'a> {
        Dataset::new("train", rows.view()).with_labels(Labels::from(labels)).unwrap()
    }

    #[test]
    fn streaming_equals_the_formula_on_kept_rows() {
        let rows = Array2::from_shape_fn((700, 5), |(i, j)| ((i * 13 + j * 7) % 31) as f32 / 31.0);
        let labels: Vec<i64> = (0..700).map(|i| (i * i) % 7).collect();
        let data = dataset(&rows, &labels);
        let hold_out = HoldOut::new(0.2, 3);
        let training = Training { hold_out, ..training(&data) };
        let classes = Classes::read("test", &training).unwrap();
        let map =
            Fourier::<f64>::seeded(Kernel::Gaussian { gamma: 2.0 }, Draw::Iid, 5, 40, 1).unwrap();
        let preprocess = Preprocess { clip: None, cosine: false };
        let got = alignment(&map, &training, &classes, preprocess).unwrap();

        let mut phi = Array2::zeros((700, 40));
        map.apply(rows.mapv(f64::from).view(), phi.view_mut());
        for (n, got) in got.into_iter().enumerate() {
            let mean = |of: &dyn Fn(i64) -> bool| {
                let kept = (0..700).filter(|&i| hold_out.keeps(i) && of(labels[i]));
                let values: Vec<f64> = kept.map(|i| phi[[i, n]]).collect();
                values.iter().sum::<f64>() / values.len() as f64
            };
            // Squares modulo 7 are 0, 1, 2 and 4.
            let gaps = [0, 1, 2, 4].map(|c| mean(&|label| label == c) - mean(&|label| label != c));
            let expected: f64 = gaps.into_iter().map(|gap| gap * gap).sum();
            assert!((got - expected).abs() < 1e-13, "{n}: {got} {expected}");
        }
    }

    #[test]
    fn two_equally_frequent_classes_give_the_papers_formula() {
        let rows = Array2::from_shape_fn((60, 3), |(i, j)| ((i * 5 + j * 3) % 11) as f32 + 1.0);
        let labels: Vec<i64> = (0..60).map(|i| i % 2).collect();
        let data = dataset(&rows, &labels);
        let classes = Classes::read("test", &training(&data)).unwrap();
        let map =
            Fourier::<f64>::seeded(Kernel::Gaussian { gamma: 1.0 }, Draw::Iid, 3, 8, 1).unwrap();
        let preprocess = Preprocess { clip: None, cosine: false };
        let got = alignment(&map, &training(&data), &classes, preprocess).unwrap();
        let mut phi = Array2::zeros((60, 8));
        map.apply(rows.mapv(f64::from).view(), phi.view_mut());
        for (n, got) in got.into_iter().enumerate() {
            let signed = |i: usize| if labels[i] == 0 { phi[[i, n]] } else { -phi[[i, n]] };
            let sum: f64 = (0..60).map(signed).sum();
            // Each of the two questions has the gap sum/30.
            assert!((got - 2.0 * (sum / 30.0).powi(2)).abs() < 1e-14);
        }
    }
}
