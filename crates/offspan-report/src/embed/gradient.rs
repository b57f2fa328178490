//! What pulls and pushes the points of a t-SNE picture.
//!
//! With qᵢⱼ = 1/(1 + ‖yᵢ − yⱼ‖²) and Z = Σ q over all ordered pairs, the loss is
//! KL = Σ P·ln(P·Z/q), and its gradient at yᵢ is 4·Σⱼ (e·Pᵢⱼ − qᵢⱼ/Z)·qᵢⱼ·(yᵢ − yⱼ), where e = 1
//! (early on, e > 1 exaggerates the pull).

use rayon::prelude::*;

use super::lanes::{Lanes, dispatch, sums};
use super::plane::Plane;

/// Rows that one task takes at least.
const ROWS: usize = 16;

/// The sums over all others that one point feels, before they are divided by Z.
struct Forces {
    similarity: f64,
    pull: [f64; 2],
    push: [f64; 2],
}

fn forces(p: &[f64], points: &Plane, i: usize) -> Forces {
    let n = points.len();
    let (x, y) = points.axes();
    let (xi, yi, one) = (Lanes::splat(x[i]), Lanes::splat(y[i]), Lanes::splat(1.0));
    let [similarity, pull_x, pull_y, push_x, push_y] = dispatch(
        #[inline(always)]
        || {
            sums([x, y, &p[i * n..(i + 1) * n]], |xj, yj, p| {
                let (dx, dy) = (xi - xj, yi - yj);
                let q = one / (one + (dx * dx + dy * dy));
                let (pull, push) = (p * q, q * q);
                [q, pull * dx, pull * dy, push * dx, push * dy]
            })
        },
    );
    // The point itself came along with q = 1 and no force.
    Forces { similarity: similarity - 1.0, pull: [pull_x, pull_y], push: [push_x, push_y] }
}

/// Writes the gradient and returns its norm.
pub(super) fn gradient(p: &[f64], points: &Plane, exaggeration: f64, out: &mut Plane) -> f64 {
    let rows: Vec<Forces> = (0..points.len())
        .into_par_iter()
        .with_min_len(ROWS)
        .map(|i| forces(p, points, i))
        .collect();
    // In the order of the rows: the same bits on any number of threads.
    let total: f64 = rows.iter().map(|row| row.similarity).sum();
    let (x, y) = out.axes_mut();
    for ((row, x), y) in rows.iter().zip(x).zip(y) {
        *x = 4.0 * (exaggeration * row.pull[0] - row.push[0] / total);
        *y = 4.0 * (exaggeration * row.pull[1] - row.push[1] / total);
    }
    out.coordinates.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The Kullback–Leibler divergence of the picture's similarities from the affinities.
pub(super) fn divergence(p: &[f64], points: &Plane) -> f64 {
    let n = points.len();
    let (x, y) = points.axes();
    let row = |i: usize| {
        let (mut divergence, mut similarity) = (0.0, 0.0);
        for (j, &p) in p[i * n..(i + 1) * n].iter().enumerate() {
            let squared = (x[i] - x[j]).powi(2) + (y[i] - y[j]).powi(2);
            if i != j {
                similarity += 1.0 / (1.0 + squared);
            }
            if p > 0.0 {
                divergence += p * (libm::log(p) + libm::log1p(squared));
            }
        }
        [divergence, similarity]
    };
    let rows: Vec<[f64; 2]> = (0..n).into_par_iter().with_min_len(ROWS).map(row).collect();
    let [divergence, similarity] =
        rows.iter().fold([0.0; 2], |sum, row| [sum[0] + row[0], sum[1] + row[1]]);
    (divergence + libm::log(similarity)).max(0.0)
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::super::affinity::affinities;
    use super::super::pairs::Pairs;
    use super::super::squared_distances;
    use super::*;

    fn case(n: usize) -> (Vec<f64>, Plane) {
        let wave = |i: usize, j: usize| ((i * 13 + j * 29) as f64 * 0.61).sin();
        let rows = Array2::from_shape_fn((n, 4), |(i, j)| wave(i, j));
        let pairs = Pairs::check(squared_distances(rows.view()).view()).unwrap();
        let coordinates = (0..2 * n).map(|k| 1.5 * wave(k, 7)).collect();
        (affinities(&pairs, n as f64 / 4.0), Plane { coordinates })
    }

    #[test]
    fn gradient_equals_finite_differences_of_the_divergence() {
        for n in [4, 11, 16] {
            let (p, points) = case(n);
            let mut got = Plane::zeros(n);
            gradient(&p, &points, 1.0, &mut got);
            for k in 0..2 * n {
                let at = |step: f64| {
                    let mut moved = points.clone();
                    moved.coordinates[k] += step;
                    divergence(&p, &moved)
                };
                let want = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((got.coordinates[k] - want).abs() < 1e-9, "{n} {k} {want}");
            }
        }
    }

    #[test]
    fn divergence_equals_its_definition() {
        let (p, points) = case(9);
        let (x, y) = points.axes();
        let q = |i: usize, j: usize| 1.0 / (1.0 + (x[i] - x[j]).powi(2) + (y[i] - y[j]).powi(2));
        let ordered = || (0..81).map(|k| (k / 9, k % 9)).filter(|(i, j)| i != j);
        let total: f64 = ordered().map(|(i, j)| q(i, j)).sum();
        let want: f64 =
            ordered().map(|(i, j)| p[i * 9 + j] * (p[i * 9 + j] / (q(i, j) / total)).ln()).sum();
        assert!((divergence(&p, &points) - want).abs() < 1e-13);
    }

    #[test]
    fn exaggeration_multiplies_the_pull_only() {
        let (p, points) = case(12);
        let at = |exaggeration: f64| {
            let mut out = Plane::zeros(12);
            gradient(&p, &points, exaggeration, &mut out);
            out.coordinates
        };
        let (none, once, twice) = (at(0.0), at(1.0), at(2.0));
        for k in 0..24 {
            assert!((twice[k] - once[k] - (once[k] - none[k])).abs() < 1e-14);
        }
        // The push alone drives every point outwards.
        let outwards: f64 = none.iter().zip(&points.coordinates).map(|(g, y)| g * y).sum();
        assert!(outwards < 0.0);
    }

    #[test]
    fn points_at_one_place_feel_nothing() {
        let (p, _) = case(10);
        assert_eq!(gradient(&p, &Plane::zeros(10), 12.0, &mut Plane::zeros(10)), 0.0);
    }
}
