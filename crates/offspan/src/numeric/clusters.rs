//! Rows in clusters: k-means from seeded, spread starting points.

use ndarray::{Array2, ArrayView2, Axis};
use rayon::prelude::*;

use crate::numeric::linalg;
use crate::numeric::random::{Random, Stream};
use crate::numeric::vector::{contiguous, squared_distance, sum_of_squares};

/// Rows that the centres are found with.
const ROWS_TO_LEARN: usize = 4096;
/// More rounds hardly move the centres.
const ROUNDS: usize = 12;

/// Centres of at most `count` clusters, and the cluster of each row. The same rows and seed give the
/// same clusters on any number of threads.
pub(crate) fn clusters(
    rows: ArrayView2<'_, f64>,
    count: usize,
    seed: u64,
) -> (Array2<f64>, Vec<usize>) {
    let mut random = Random::new(seed, Stream::Clusters);
    let sample = random.sample(rows.nrows() as u64, ROWS_TO_LEARN.min(rows.nrows()));
    let sample: Vec<usize> = sample.into_iter().map(|row| row as usize).collect();
    let mut centres = centres(&rows.select(Axis(0), &sample), count, &mut random);
    let nearest = nearest_centres(rows, &centres);
    move_centres(rows, &nearest, &mut centres);
    (centres, nearest)
}

/// Centres of at most `count` clusters of all these rows.
pub(crate) fn centres(rows: &Array2<f64>, count: usize, random: &mut Random) -> Array2<f64> {
    let mut centres = starting_points(rows, count.clamp(1, rows.nrows().max(1)), random);
    let mut nearest = nearest_centres(rows.view(), &centres);
    for _ in 0..ROUNDS {
        move_centres(rows.view(), &nearest, &mut centres);
        let next = nearest_centres(rows.view(), &centres);
        if next == nearest {
            break;
        }
        nearest = next;
    }
    centres
}

/// Each further point is drawn with a probability that grows with its squared distance to the others
/// (k-means++).
fn starting_points(rows: &Array2<f64>, count: usize, random: &mut Random) -> Array2<f64> {
    let mut chosen = vec![random.below(rows.nrows() as u64) as usize];
    let mut distances = vec![f64::INFINITY; rows.nrows()];
    while chosen.len() < count {
        let last = rows.row(chosen[chosen.len() - 1]);
        let last = contiguous(&last);
        distances.par_iter_mut().enumerate().for_each(|(row, distance)| {
            let row = rows.row(row);
            *distance = distance.min(squared_distance(contiguous(&row), last));
        });
        let mut left = random.uniform() * distances.iter().sum::<f64>();
        let next = distances.iter().position(|distance| {
            left -= distance;
            left < 0.0
        });
        // Rows that are all alike leave nothing to draw.
        let Some(next) = next else { break };
        chosen.push(next);
    }
    rows.select(Axis(0), &chosen)
}

/// The number of the centre that each row is nearest to.
pub(crate) fn nearest_centres(rows: ArrayView2<'_, f64>, centres: &Array2<f64>) -> Vec<usize> {
    let lengths: Vec<f64> =
        centres.rows().into_iter().map(|centre| sum_of_squares(contiguous(&centre))).collect();
    let products = linalg::product(rows, centres.t());
    products
        .rows()
        .into_iter()
        .map(|products| {
            let distances =
                products.iter().zip(&lengths).map(|(product, length)| length - 2.0 * product);
            let nearest = distances.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
            nearest.map_or(0, |(centre, _)| centre)
        })
        .collect()
}

/// Each centre becomes the mean of its rows; one without rows stays.
fn move_centres(rows: ArrayView2<'_, f64>, nearest: &[usize], centres: &mut Array2<f64>) {
    let mut sums = Array2::<f64>::zeros(centres.dim());
    let mut counts = vec![0usize; centres.nrows()];
    for (row, &centre) in rows.rows().into_iter().zip(nearest) {
        let mut sum = sums.row_mut(centre);
        sum += &row;
        counts[centre] += 1;
    }
    for ((mut centre, sum), count) in centres.rows_mut().into_iter().zip(sums.rows()).zip(counts) {
        if count > 0 {
            centre.assign(&(&sum / count as f64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn two_heaps_are_two_clusters() {
        let rows = Array2::from_shape_fn((60, 2), |(row, column)| {
            let heap = if row % 3 == 0 { 10.0 } else { -10.0 };
            heap + ((row * 7 + column * 3) % 5) as f64 / 10.0
        });
        let (centres, nearest) = clusters(rows.view(), 2, 5);
        assert_eq!(centres.nrows(), 2);
        for row in 0..60 {
            assert_eq!(nearest[row] == nearest[0], row % 3 == 0);
        }
        let of_first =
            rows.rows().into_iter().step_by(3).fold(array![0.0, 0.0], |sum, row| sum + row);
        let difference = &centres.row(nearest[0]) - &(of_first / 20.0);
        assert!(difference.iter().all(|x| x.abs() < 1e-12));
    }

    #[test]
    fn equal_rows_are_one_cluster() {
        let (centres, nearest) = clusters(Array2::ones((9, 3)).view(), 4, 0);
        assert_eq!((centres, nearest), (Array2::ones((1, 3)), vec![0; 9]));
    }
}
