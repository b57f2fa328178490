//! The leading eigenvectors of a large symmetric matrix, by the block Lanczos method.
//!
//! A full decomposition reduces the matrix to a tridiagonal one, half of which is products of the
//! matrix with single vectors: it waits for memory. Where only the first eigenvectors are wanted, an
//! orthonormal basis of the Krylov space of a random block costs a fraction, and all of it is
//! products of matrices. The basis is kept orthogonal to working precision, so its projection of the
//! matrix has the wanted eigenvalues and no copies of them.
//!
//! For fits in single precision: the basis is built in `f32`, which leaves residuals of a few 1e-7 of
//! the largest eigenvalue.

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};

use crate::Result;
use crate::numeric::linalg::{self, SymmetricEigen};
use crate::numeric::product::panels::Packed;
use crate::numeric::random::{Random, Stream};
use crate::numeric::vector;
use crate::numeric::vector::{contiguous, contiguous_mut};

/// Smaller matrices are decomposed whole.
pub(crate) const SMALLEST: usize = 3000;
/// Vectors that are multiplied with the matrix at once.
const BLOCK: usize = 32;
/// The basis is looked at for the first time when it has this share of all dimensions.
const FIRST_LOOK: f64 = 0.25;
/// A larger basis would cost more than a full decomposition saves.
const LARGEST_BASIS: f64 = 0.6;
/// Vectors of the basis per wanted eigenvector with which it usually converges.
const PER_EIGENVECTOR: f64 = 3.2;
/// The basis grows by this share when that was not enough.
const GROWTH: f64 = 1.12;
/// An eigenpair has converged when its residual is at most this share of the largest eigenvalue:
/// what is missing then mixes neighbours only and changes scores by about 1e-6.
const TOLERANCE: f64 = 1e-6;
/// A vector of which the others of its block leave this share is rounding.
const DEPENDENT: f64 = 1e-5;

/// The eigenpairs that `wanted` asks for, given eigenvalues in descending order that are still lower
/// bounds; it says `None` while they do not suffice to tell. Gives up with `None` where a full
/// decomposition is the cheaper way.
pub(crate) fn leading_eigen(
    a: ArrayView2<'_, f64>,
    wanted: impl Fn(&[f64]) -> Option<usize>,
) -> Result<Option<SymmetricEigen>> {
    let n = a.nrows();
    let single: Vec<f32> = a.iter().map(|&x| x as f32).collect();
    let packed = Packed::new((n, n), &single);
    drop(single);
    let largest = (LARGEST_BASIS * n as f64) as usize / BLOCK * BLOCK;
    let mut next_look = whole_blocks(FIRST_LOOK * n as f64);
    let mut krylov = Krylov::new(n, largest);
    while krylov.size() < largest {
        if !krylov.extend(&packed) {
            return Ok(None);
        }
        if krylov.size() < next_look {
            continue;
        }
        let projected = linalg::symmetric_eigen(krylov.projected())?;
        let Some(count) = wanted(&projected.values).filter(|&count| count <= krylov.size()) else {
            return Ok(None);
        };
        if krylov.has_converged(&projected, count) {
            let weights = projected.vectors.slice(s![..count, ..]).mapv(|x| x as f32);
            let vectors = linalg::product(weights.view(), krylov.basis(0)).mapv(f64::from);
            return Ok(Some(SymmetricEigen {
                values: projected.values[..count].to_vec(),
                vectors,
            }));
        }
        let size = krylov.size() as f64;
        next_look = whole_blocks((PER_EIGENVECTOR * count as f64).max(GROWTH * size));
        if next_look > largest {
            return Ok(None);
        }
    }
    Ok(None)
}

fn whole_blocks(size: f64) -> usize {
    (size as usize).next_multiple_of(BLOCK)
}

/// An orthonormal basis and the matrix seen through it.
struct Krylov {
    /// One row per vector; those from `size` on are still to come.
    basis: Array2<f32>,
    /// Block tridiagonal.
    projected: Array2<f64>,
    /// What takes the last block out of the basis: the residuals come from it.
    outside: Array2<f64>,
    /// The next block of the basis.
    next: Array2<f32>,
    size: usize,
}

impl Krylov {
    fn new(n: usize, largest: usize) -> Self {
        let mut random = Random::new(0, Stream::Krylov);
        let mut next = Array2::from_shape_simple_fn((BLOCK, n), || random.normal() as f32);
        orthonormalise(next.view_mut());
        Krylov {
            basis: Array2::zeros((largest, n)),
            projected: Array2::zeros((largest, largest)),
            outside: Array2::zeros((BLOCK, BLOCK)),
            next,
            size: 0,
        }
    }

    fn size(&self) -> usize {
        self.size
    }

    /// Its vectors, beginning with one of them.
    fn basis(&self, first: usize) -> ArrayView2<'_, f32> {
        self.basis.slice(s![first..self.size, ..])
    }

    fn projected(&self) -> ArrayView2<'_, f64> {
        self.projected.slice(s![..self.size, ..self.size])
    }

    /// Takes the next block into the basis and computes the one after it; `false` if the basis
    /// already holds all that the matrix makes of it.
    fn extend(&mut self, a: &Packed<f32>) -> bool {
        let block = self.size..self.size + BLOCK;
        self.basis.slice_mut(s![block.clone(), ..]).assign(&self.next);
        if self.size > 0 {
            let before = self.size - BLOCK..self.size;
            self.projected.slice_mut(s![block.clone(), before.clone()]).assign(&self.outside);
            self.projected.slice_mut(s![before, block.clone()]).assign(&self.outside.t());
        }
        self.size += BLOCK;
        let mut image = Array2::zeros(self.next.dim());
        let (from, to) = (self.next.as_slice(), image.as_slice_mut());
        a.shared_product(from.unwrap_or_default(), to.unwrap_or_default());
        // The matrix takes a block into itself, its neighbours and nothing else.
        let along = self.take_out(&mut image, self.size.saturating_sub(2 * BLOCK));
        let own = along.slice(s![along.nrows() - BLOCK.., ..]).mapv(f64::from);
        let symmetric = (&own + &own.t()) / 2.0;
        self.projected.slice_mut(s![block.clone(), block]).assign(&symmetric);
        // What rounding leaves along the others would grow from block to block.
        self.take_out(&mut image, 0);
        self.next.assign(&image);
        let full = orthonormalise(self.next.view_mut());
        self.outside = linalg::product(self.next.view(), image.t()).mapv(f64::from);
        full
    }

    /// Takes out of each row what lies along the basis from its vector `first` on; gives how much
    /// that was: vectors × rows.
    fn take_out(&self, rows: &mut Array2<f32>, first: usize) -> Array2<f32> {
        let basis = self.basis(first);
        let along = linalg::product(basis, rows.t());
        let inside = linalg::product(basis.t(), along.view());
        *rows -= &inside.t();
        along
    }

    /// Whether the first `count` eigenpairs of the projection are eigenpairs of the matrix.
    fn has_converged(&self, projected: &SymmetricEigen, count: usize) -> bool {
        let last = projected.vectors.slice(s![..count, self.size - BLOCK..]);
        let residuals = linalg::product(last, self.outside.t());
        let bound = TOLERANCE * projected.values[0];
        residuals.rows().into_iter().all(|row| row.dot(&row).sqrt() <= bound)
    }
}

/// Makes the rows orthonormal; `false` if they are dependent.
fn orthonormalise(mut rows: ArrayViewMut2<'_, f32>) -> bool {
    let length = |row: &[f32]| vector::sum_of_squares(row).sqrt();
    let largest = rows.rows().into_iter().map(|row| length(contiguous(&row))).fold(0.0, f64::max);
    for i in 0..rows.nrows() {
        let (done, mut rest) = rows.view_mut().split_at(Axis(0), i);
        let mut row = rest.row_mut(0);
        let row = contiguous_mut(&mut row);
        for _ in 0..2 {
            for other in done.rows() {
                let other = contiguous(&other);
                let along = vector::dot(other, row);
                vector::subtract_scaled(row, along as f32, other);
            }
        }
        let left = length(row);
        if left <= DEPENDENT * largest || left == 0.0 {
            return false;
        }
        row.iter_mut().for_each(|x| *x /= left as f32);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A symmetric matrix with a slowly falling spectrum.
    fn matrix(n: usize) -> Array2<f64> {
        let mut random = Random::new(3, Stream::Evaluation);
        let x = Array2::from_shape_simple_fn((n, 2 * n), || random.normal());
        let scales = ndarray::Array1::from_iter((0..n).map(|i| 1.0 / (1.0 + i as f64).sqrt()));
        let x = x * scales.insert_axis(Axis(1));
        linalg::product(x.view(), x.t())
    }

    fn share(values: &[f64], trace: f64, ratio: f64) -> Option<usize> {
        let mut sum = 0.0;
        values
            .iter()
            .position(|value| {
                sum += value;
                sum >= ratio * trace
            })
            .map(|index| index + 1)
    }

    #[test]
    fn agrees_with_the_full_decomposition() {
        let a = matrix(640);
        let trace = a.diag().sum();
        let full = linalg::symmetric_eigen(a.view()).unwrap();
        let expected = share(&full.values, trace, 0.5).unwrap();
        let found = leading_eigen(a.view(), |values| share(values, trace, 0.5)).unwrap().unwrap();
        assert_eq!(found.values.len(), expected);
        for i in 0..expected {
            let off = (found.values[i] - full.values[i]).abs();
            assert!(off < TOLERANCE * full.values[0], "value {i}: off by {off}");
            let along = found.vectors.row(i).dot(&full.vectors.row(i)).abs();
            assert!((along - 1.0).abs() < 1e-3, "vector {i}: {along}");
        }
    }

    #[test]
    fn gives_up_where_most_eigenvectors_are_wanted() {
        let a = matrix(320);
        let trace = a.diag().sum();
        let found = leading_eigen(a.view(), |values| share(values, trace, 0.97)).unwrap();
        assert!(found.is_none());
        assert!(leading_eigen(a.view(), |_| Some(200)).unwrap().is_none());
    }

    #[test]
    fn gives_up_on_a_matrix_of_small_rank() {
        let x = matrix(320).slice(s![..20, ..]).to_owned();
        let a = linalg::product(x.t(), x.view());
        assert!(leading_eigen(a.view(), |_| Some(5)).unwrap().is_none());
    }

    #[test]
    fn does_not_depend_on_the_number_of_threads() {
        let a = matrix(640);
        let trace = a.diag().sum();
        let found = || leading_eigen(a.view(), |values| share(values, trace, 0.5));
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| found().unwrap().unwrap().vectors)
        };
        assert_eq!(with(1), with(2));
    }
}
