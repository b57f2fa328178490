//! Metric multidimensional scaling by majorisation (SMACOF; de Leeuw, 1977).

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::classical::principal_coordinates;
use super::lanes::{Lanes, dispatch, sums};
use super::orient::orient;
use super::pairs::Pairs;
use super::plane::{Plane, centre};
use super::{EmbedError, Embedding, Progress};

/// Rows that one task takes at least.
const ROWS: usize = 16;
/// Added to distances in the picture, so that points at one place divide 0 by no 0.
const TINY: f64 = 1e-150;
/// A stress of this share of Σδ² is rounding.
const PERFECT: f64 = 1e-28;

/// Metric MDS: a picture that keeps the distances themselves, as well as a plane can.
///
/// It starts from classical scaling and moves all points by Guttman's transform, which never
/// increases the stress Σ (dᵢⱼ − δᵢⱼ)², with δ the given distances and d those of the picture. The
/// quality is Kruskal's stress-1, √(Σ (d − δ)² / Σ d²): 0 if all distances are kept; 0.1 is fair, and
/// above 0.2 the picture misleads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mds {
    /// Iterations at most.
    pub iterations: usize,
    /// Stops when one iteration lowers the stress by no more than this share of it.
    pub tolerance: f64,
    /// Draws the directions of the start where the distances have no principal ones.
    pub seed: u64,
}

impl Default for Mds {
    fn default() -> Self {
        Mds { iterations: 500, tolerance: 1e-6, seed: 0 }
    }
}

impl Mds {
    /// Makes the picture from the squared distances of all pairs; its points have the units of the
    /// distances.
    ///
    /// # Errors
    /// There are fewer than four points, the matrix is not one of squared distances, or `progress`
    /// answered that the work should stop.
    pub fn fit(
        &self,
        squared_distances: ArrayView2<'_, f64>,
        progress: Progress<'_>,
    ) -> Result<Embedding, EmbedError> {
        let mut pairs = Pairs::check(squared_distances)?;
        let go_on = || progress(0, self.iterations);
        let mut points = principal_coordinates(&pairs, self.seed, &go_on)?.points;
        let total: f64 = (0..pairs.points).map(|i| pairs.row(i).iter().sum::<f64>()).sum();
        pairs.squared.par_iter_mut().for_each(|value| *value = value.sqrt());

        let mut moved = Plane::zeros(pairs.points);
        let mut stress = transform(&pairs, &points, &mut moved);
        let mut done = 0;
        let mut falling = true;
        while falling && done < self.iterations && stress > PERFECT * total {
            std::mem::swap(&mut points, &mut moved);
            let before = std::mem::replace(&mut stress, transform(&pairs, &points, &mut moved));
            falling = before - stress > self.tolerance * before;
            done += 1;
            if !progress(done, self.iterations) {
                return Err(EmbedError::Interrupted);
            }
        }
        // Of centred points, Σ d² over all ordered pairs is 2n·Σ‖x‖².
        let drawn = 2.0 * pairs.points as f64 * points.spread();
        let quality = if drawn > 0.0 { (stress / drawn).sqrt() } else { 0.0 };
        Ok(Embedding { points: orient(points, pairs.scale.sqrt()), quality, iterations: done })
    }
}

/// Writes Guttman's transform of the points, xᵢ ← Σⱼ (δᵢⱼ/dᵢⱼ)·(xᵢ − xⱼ) / n, centred, and returns
/// the stress before it, over all ordered pairs. The pairs hold distances, not their squares.
fn transform(distances: &Pairs, points: &Plane, moved: &mut Plane) -> f64 {
    let n = distances.points;
    let (x, y) = points.axes();
    let row = |i: usize| {
        let (xi, yi, tiny) = (Lanes::splat(x[i]), Lanes::splat(y[i]), Lanes::splat(TINY));
        dispatch(
            #[inline(always)]
            || {
                sums([x, y, distances.row(i)], |xj, yj, wanted| {
                    let (dx, dy) = (xi - xj, yi - yj);
                    let distance = (dx * dx + dy * dy).sqrt();
                    let ratio = wanted / (distance + tiny);
                    let off = distance - wanted;
                    [ratio * dx, ratio * dy, off * off]
                })
            },
        )
    };
    let rows: Vec<[f64; 3]> = (0..n).into_par_iter().with_min_len(ROWS).map(row).collect();
    // In the order of the rows: the same bits on any number of threads.
    let mut stress = 0.0;
    let (x, y) = moved.axes_mut();
    for ((row, x), y) in rows.iter().zip(x.iter_mut()).zip(y.iter_mut()) {
        (*x, *y) = (row[0] / n as f64, row[1] / n as f64);
        stress += row[2];
    }
    centre(x);
    centre(y);
    stress
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::super::squared_distances;
    use super::*;

    fn wave(k: usize) -> f64 {
        ((k * k + 1) as f64 * 0.61).sin()
    }

    /// Distances of rows in six dimensions, and points that are no good picture of them.
    fn case(n: usize) -> (Pairs, Plane) {
        let rows = Array2::from_shape_fn((n, 6), |(i, j)| wave(6 * i + j));
        let mut pairs = Pairs::check(squared_distances(rows.view()).view()).unwrap();
        pairs.squared.iter_mut().for_each(|value| *value = value.sqrt());
        (pairs, Plane { coordinates: (0..2 * n).map(|k| wave(k + 500)).collect() })
    }

    fn stress(pairs: &Pairs, points: &Plane) -> f64 {
        let (x, y) = points.axes();
        let n = pairs.points;
        let pair = |k: usize| {
            let (i, j) = (k / n, k % n);
            ((x[i] - x[j]).hypot(y[i] - y[j]) - pairs.row(i)[j]).powi(2)
        };
        (0..n * n).map(pair).sum()
    }

    #[test]
    fn stress_equals_its_definition_and_never_rises() {
        let (pairs, mut points) = case(37);
        let mut moved = Plane::zeros(37);
        let first = transform(&pairs, &points, &mut moved);
        assert!((first - stress(&pairs, &points)).abs() < 1e-12 * first);
        let mut last = first;
        for _ in 0..200 {
            std::mem::swap(&mut points, &mut moved);
            let now = transform(&pairs, &points, &mut moved);
            assert!(now <= last * (1.0 + 1e-14), "{now} after {last}");
            last = now;
        }
        assert!(last < 0.5 * first);
    }

    #[test]
    fn the_transform_rests_where_the_stress_is_stationary() {
        let (pairs, mut points) = case(12);
        let mut moved = Plane::zeros(12);
        for _ in 0..20_000 {
            transform(&pairs, &points, &mut moved);
            std::mem::swap(&mut points, &mut moved);
        }
        for k in 0..24 {
            let at = |step: f64| {
                let mut moved = points.clone();
                moved.coordinates[k] += step;
                stress(&pairs, &moved)
            };
            assert!(((at(1e-5) - at(-1e-5)) / 2e-5).abs() < 1e-6, "{k}");
        }
    }

    #[test]
    fn points_at_one_place_make_no_nan() {
        let (pairs, _) = case(9);
        let mut moved = Plane::zeros(9);
        assert!(transform(&pairs, &Plane::zeros(9), &mut moved).is_finite());
        assert!(moved.coordinates.iter().all(|value| *value == 0.0));
    }
}
