//! Eigenvectors of small symmetric matrices by Jacobi's rotations.

use std::array::from_fn;

/// More sweeps than any matrix of this size needs: convergence is quadratic.
const SWEEPS: usize = 60;

/// Eigenvalues, largest first, and the eigenvectors as columns in the same order.
pub(super) fn symmetric_eigen<const K: usize>(mut a: [[f64; K]; K]) -> ([f64; K], [[f64; K]; K]) {
    let mut v = [[0.0; K]; K];
    for (k, row) in v.iter_mut().enumerate() {
        row[k] = 1.0;
    }
    let size: f64 = a.iter().flatten().map(|x| x.abs()).sum();
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for p in 0..K {
            for q in p + 1..K {
                if a[p][q].abs() > f64::EPSILON * f64::EPSILON * size {
                    rotate(&mut a, &mut v, p, q);
                    rotated = true;
                }
            }
        }
        if !rotated {
            break;
        }
    }
    let mut order: [usize; K] = from_fn(|k| k);
    order.sort_by(|&i, &j| a[j][j].total_cmp(&a[i][i]));
    (order.map(|k| a[k][k]), v.map(|row| order.map(|k| row[k])))
}

/// One rotation in the plane of p and q that makes the element (p, q) zero.
fn rotate<const K: usize>(a: &mut [[f64; K]; K], v: &mut [[f64; K]; K], p: usize, q: usize) {
    let ratio = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
    // The smaller root of t² + 2·ratio·t = 1; hypot cannot overflow.
    let tangent = ratio.signum() / (ratio.abs() + ratio.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = tangent * cosine;
    let turn = |x: f64, y: f64| (cosine * x - sine * y, sine * x + cosine * y);
    for row in a.iter_mut().chain(v) {
        (row[p], row[q]) = turn(row[p], row[q]);
    }
    (a[p], a[q]) = (from_fn(|k| turn(a[p][k], a[q][k]).0), from_fn(|k| turn(a[p][k], a[q][k]).1));
    (a[p][q], a[q][p]) = (0.0, 0.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_orthonormal_and_satisfy_the_definition() {
        let a: [[f64; 6]; 6] = from_fn(|i| {
            from_fn(|j| ((i * j + i + j) as f64).sin() + if i == j { 1.0 } else { 0.0 })
        });
        let (values, vectors) = symmetric_eigen(a);
        assert!(values.windows(2).all(|pair| pair[0] >= pair[1]));
        for k in 0..6 {
            for i in 0..6 {
                let product: f64 = (0..6).map(|j| a[i][j] * vectors[j][k]).sum();
                assert!((product - values[k] * vectors[i][k]).abs() < 1e-14);
                let dot: f64 = (0..6).map(|j| vectors[j][i] * vectors[j][k]).sum();
                assert!((dot - f64::from(u8::from(i == k))).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn zeros_ones_and_diagonals_are_no_trouble() {
        assert_eq!(symmetric_eigen([[0.0; 3]; 3]).0, [0.0; 3]);
        let (values, _) = symmetric_eigen([[1.0; 4]; 4]);
        assert!((values[0] - 4.0).abs() < 1e-15 && values[3].abs() < 1e-15);
        let (values, vectors) = symmetric_eigen([[-1.0, 0.0], [0.0, 5.0]]);
        assert_eq!((values, vectors), ([5.0, -1.0], [[0.0, 1.0], [1.0, 0.0]]));
    }
}
