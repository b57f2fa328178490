//! Classical scaling: the two leading principal coordinates of points known by their distances.
//!
//! With J the centring matrix and D² the squared distances, B = −½·J·D²·J holds the inner products
//! of the centred points; its leading eigenvectors, scaled by √λ, are their principal coordinates
//! (for distances of rows: what PCA gives). Orthogonal iteration on a block of vectors finds them,
//! without forming B; a block survives equal eigenvalues, which a single vector does not.

use rayon::prelude::*;

use super::EmbedError;
use super::lanes::dispatch;
use super::pairs::Pairs;
use super::plane::Plane;
use super::random::{Stream, uniform};
use super::small_eigen::symmetric_eigen;

/// Vectors in the block: the error shrinks by λ₉/λ₂ a step.
const BLOCK: usize = 8;
/// Spectra so flat that this is not enough have no two directions that matter more than others.
const STEPS: usize = 300;
/// Residuals, relative to the largest eigenvalue.
const TOLERANCE: f64 = 1e-12;
/// What orthogonalisation leaves of a vector that depends on those before it.
const DEPENDENT: f64 = 1e-13;

type Vectors = Vec<[f64; BLOCK]>;

/// The principal coordinates and their eigenvalues, largest first, in units of the pairs' scale.
pub(super) struct Principal {
    pub(super) points: Plane,
    pub(super) eigenvalues: [f64; 2],
}

/// Classical scaling to two dimensions. The seed draws the vectors from which the iteration starts:
/// it matters only if the eigenvalues do not decide, as for points that are all equally far.
pub(super) fn principal_coordinates(
    pairs: &Pairs,
    seed: u64,
    go_on: &dyn Fn() -> bool,
) -> Result<Principal, EmbedError> {
    let mut vectors = start(pairs.points, seed);
    let mut shift = 0.0;
    let mut step = 0;
    loop {
        if !go_on() {
            return Err(EmbedError::Interrupted);
        }
        let images = apply(pairs, &vectors);
        let (values, rotation) = symmetric_eigen(inner_products(&vectors, &images));
        let (ritz, images) = (rotated(&vectors, &rotation), rotated(&images, &rotation));
        step += 1;
        if step == STEPS || residual(&ritz, &images, &values) <= TOLERANCE * values[0].abs() {
            return Ok(scaled(&ritz, [values[0].max(0.0), values[1].max(0.0)]));
        }
        // Distances that no points have make negative eigenvalues, and the iteration is drawn to
        // the largest in magnitude: adding as much to all puts the positive ones first.
        shift = f64::max(shift, -values[BLOCK - 1]);
        vectors = images;
        for (vector, ritz) in vectors.iter_mut().zip(&ritz) {
            for k in 0..BLOCK {
                vector[k] += shift * ritz[k];
            }
        }
        orthonormalise(&mut vectors);
    }
}

fn start(points: usize, seed: u64) -> Vectors {
    let mut draw = uniform(seed, Stream::Block);
    let mut vectors: Vectors = (0..points).map(|_| std::array::from_fn(|_| draw())).collect();
    centre(&mut vectors);
    orthonormalise(&mut vectors);
    vectors
}

/// B times the vectors. They are centred already, except for those that have been scaled up from
/// rounding noise because the matrix has fewer directions than the block.
fn apply(pairs: &Pairs, vectors: &Vectors) -> Vectors {
    let mut vectors = vectors.clone();
    centre(&mut vectors);
    let product = |point| {
        dispatch(
            #[inline(always)]
            || {
                let mut sums = [0.0; BLOCK];
                for (distance, vector) in pairs.row(point).iter().zip(&vectors) {
                    for k in 0..BLOCK {
                        sums[k] += distance * vector[k];
                    }
                }
                sums.map(|sum| -0.5 * sum)
            },
        )
    };
    let mut images: Vectors = (0..pairs.points).into_par_iter().map(product).collect();
    centre(&mut images);
    images
}

fn centre(vectors: &mut Vectors) {
    let mut mean = [0.0; BLOCK];
    for vector in vectors.iter() {
        for k in 0..BLOCK {
            mean[k] += vector[k];
        }
    }
    let mean = mean.map(|sum| sum / vectors.len() as f64);
    for vector in vectors {
        for k in 0..BLOCK {
            vector[k] -= mean[k];
        }
    }
}

/// The symmetric part of VᵀW.
fn inner_products(v: &Vectors, w: &Vectors) -> [[f64; BLOCK]; BLOCK] {
    let mut products = [[0.0; BLOCK]; BLOCK];
    for (v, w) in v.iter().zip(w) {
        for i in 0..BLOCK {
            for j in 0..BLOCK {
                products[i][j] += v[i] * w[j];
            }
        }
    }
    std::array::from_fn(|i| std::array::from_fn(|j| f64::midpoint(products[i][j], products[j][i])))
}

fn rotated(vectors: &Vectors, rotation: &[[f64; BLOCK]; BLOCK]) -> Vectors {
    let turn = |vector: &[f64; BLOCK]| {
        std::array::from_fn(|k| (0..BLOCK).map(|j| vector[j] * rotation[j][k]).sum())
    };
    vectors.iter().map(turn).collect()
}

/// The larger ‖Bv − λv‖ of the two leading pairs.
fn residual(vectors: &Vectors, images: &Vectors, values: &[f64; BLOCK]) -> f64 {
    let mut squares = [0.0; 2];
    for (vector, image) in vectors.iter().zip(images) {
        for k in 0..2 {
            squares[k] += (image[k] - values[k] * vector[k]).powi(2);
        }
    }
    squares[0].max(squares[1]).sqrt()
}

fn scaled(vectors: &Vectors, eigenvalues: [f64; 2]) -> Principal {
    let coordinates = (0..2).flat_map(|axis| {
        let length = eigenvalues[axis].sqrt();
        vectors.iter().map(move |vector| vector[axis] * length)
    });
    Principal { points: Plane { coordinates: coordinates.collect() }, eigenvalues }
}

/// Gram–Schmidt, twice. A vector that depends on those before it becomes zero: the matrix has no
/// further direction.
fn orthonormalise(vectors: &mut Vectors) {
    let dot = |vectors: &Vectors, i: usize, j: usize| -> f64 {
        vectors.iter().map(|vector| vector[i] * vector[j]).sum()
    };
    for k in 0..BLOCK {
        let before = dot(vectors, k, k).sqrt();
        for _ in 0..2 {
            for j in 0..k {
                let product = dot(vectors, j, k);
                vectors.iter_mut().for_each(|vector| vector[k] -= product * vector[j]);
            }
        }
        let after = dot(vectors, k, k).sqrt();
        let factor = if after > DEPENDENT * before { 1.0 / after } else { 0.0 };
        vectors.iter_mut().for_each(|vector| vector[k] *= factor);
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use super::super::squared_distances;
    use super::*;

    fn coordinates(squared: &Array2<f64>) -> Principal {
        principal_coordinates(&Pairs::check(squared.view()).unwrap(), 0, &|| true).unwrap()
    }

    /// The largest difference of distances of the picture from the given ones, relative to the
    /// largest.
    fn distance_error(squared: &Array2<f64>) -> f64 {
        let pairs = Pairs::check(squared.view()).unwrap();
        let points = coordinates(squared).points;
        let (x, y) = points.axes();
        let mut worst = 0.0_f64;
        for i in 0..pairs.points {
            for j in 0..pairs.points {
                let got = (x[i] - x[j]).hypot(y[i] - y[j]);
                worst = worst.max((got - pairs.row(i)[j].sqrt()).abs());
            }
        }
        worst
    }

    #[test]
    fn points_of_a_plane_are_recovered_exactly() {
        let rows = Array2::from_shape_fn((41, 2), |(i, j)| {
            ((i * 7 + 3 * j) as f64 * 0.71).sin() * (1.0 + 4.0 * j as f64)
        });
        let error = distance_error(&squared_distances(rows.view()));
        assert!(error < 1e-12, "{error}");
    }

    #[test]
    fn equal_eigenvalues_are_no_trouble() {
        let square = array![[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]];
        assert!(distance_error(&squared_distances(square.view())) < 1e-12);
    }

    #[test]
    fn points_of_a_line_have_one_eigenvalue_and_one_point_none() {
        let line = Array2::from_shape_fn((9, 1), |(i, _)| (i * i) as f64);
        let squared = squared_distances(line.view());
        let principal = coordinates(&squared);
        assert!(principal.eigenvalues[1] < 1e-14 * principal.eigenvalues[0]);
        // √ of a rounding of the eigenvalue.
        assert!(distance_error(&squared) < 1e-7);
        let nothing = coordinates(&Array2::zeros((5, 5)));
        assert_eq!((nothing.eigenvalues, nothing.points), ([0.0; 2], Plane::zeros(5)));
    }

    #[test]
    fn coordinates_are_principal_components() {
        // Variances 9, 4, 1/4 along the axes of three dimensions, without correlation.
        let rows = Array2::from_shape_fn((64, 3), |(i, j)| {
            let sign = if i >> j & 1 == 0 { 1.0 } else { -1.0 };
            let size = 1.0 + 0.1 * (i >> 3) as f64;
            sign * size * [3.0, 2.0, 0.5][j]
        });
        let principal = coordinates(&squared_distances(rows.view()));
        let scale = Pairs::check(squared_distances(rows.view()).view()).unwrap().scale;
        for axis in 0..2 {
            let column = rows.column(axis);
            assert!(
                (principal.eigenvalues[axis] * scale / column.dot(&column) - 1.0).abs() < 1e-12
            );
            let got = &principal.points.coordinates[axis * 64..(axis + 1) * 64];
            let sign = got[0].signum() * column[0].signum();
            for (got, want) in got.iter().zip(column) {
                assert!((sign * got * scale.sqrt() - want).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn large_negative_eigenvalues_do_not_hide_the_positive_ones() {
        // Eigenvalues 6 and 5, twelve of −10, and the rest 0: D² from B by its definition.
        let n = 200;
        let wave = |k: usize, i: usize| {
            (std::f64::consts::PI * (k + 1) as f64 * (i as f64 + 0.5) / n as f64).cos()
                * (2.0 / n as f64).sqrt()
        };
        let values = |k: usize| if k < 2 { 6.0 - k as f64 } else { -10.0 };
        let squared = Array2::from_shape_fn((n, n), |(i, j)| {
            (0..14).map(|k| values(k) * (wave(k, i) - wave(k, j)).powi(2)).sum::<f64>()
        });
        // Adding c to all distances, so that none is negative, adds c/2 to all eigenvalues.
        let c = -squared.iter().fold(0.0, |least: f64, &value| least.min(value));
        let squared =
            Array2::from_shape_fn((n, n), |(i, j)| if i == j { 0.0 } else { squared[[i, j]] + c });
        assert!(10.0 - c / 2.0 > 6.0 + c / 2.0, "the negative ones must be the larger ones: {c}");
        let pairs = Pairs::check(squared.view()).unwrap();
        let got = principal_coordinates(&pairs, 0, &|| true).unwrap().eigenvalues;
        for (got, want) in got.iter().zip([6.0 + c / 2.0, 5.0 + c / 2.0]) {
            assert!((got * pairs.scale - want).abs() < 1e-9, "{got}");
        }
    }

    #[test]
    fn a_stop_is_heard() {
        let pairs = Pairs::check(Array2::zeros((4, 4)).view()).unwrap();
        let error = principal_coordinates(&pairs, 0, &|| false).err();
        assert_eq!(error, Some(EmbedError::Interrupted));
    }
}
